"""A chat history that remembers: recent turns of the session behind one message with what is known about the user.

LangChain reads a history before it knows the new question, so what is recalled answers the last question that the
session has seen. It is a compatibility surface: agents made by `create_agent` are better served by `SFAMSMiddleware`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from langchain_core.runnables import ConfigurableFieldSpec

from sf_ams_core.conversation import Conversation
from sf_ams_core.engine import MemoryEngine
from sf_ams_core.errors import InvalidInput
from sf_ams_core.types import MemoryContext, Scope, check_id

from .identity import DEFAULT, configurable
from .messages import INJECTED, INJECTED_TAG, to_messages, to_turns

Inject: TypeAlias = Literal["system", "human", "none"]

_INJECTED_ID = "sf_ams_injected"
_NOTHING = "(nothing remembered yet / 暂无记忆)"  # several providers refuse a message without text

HISTORY_CONFIG_SPECS: tuple[ConfigurableFieldSpec, ...] = (
    ConfigurableFieldSpec(
        id="user_id", annotation=str, name="User ID", description="Whose memory it is.", default="", is_shared=True
    ),
    ConfigurableFieldSpec(
        id="session_id",
        annotation=str,
        name="Session ID",
        description="Which conversation.",
        default="",
        is_shared=True,
    ),
)
"""The `history_factory_config` of a `RunnableWithMessageHistory`; `tenant_id`, `namespace` may stand beside them."""


class SFAMSChatMessageHistory(BaseChatMessageHistory):
    """The messages of one session of one user.

    `inject` says how memory comes in: as one tagged system or human message, always the first and always exactly one,
    followed by the newest whole exchanges of about `recent_turns` messages; or `"none"`, then `messages` is the whole
    session and nothing is recalled. `token_budget` bounds block and messages together.

    Inside a `RunnableWithMessageHistory` an object keeps what it read until it is written to, because the runnable
    measures its new messages against a second read: give each run its own object, as `create_history_factory` does.
    Faults of memory never reach the caller. Raises InvalidScope or InvalidInput for blank ids and an unknown `inject`.
    """

    def __init__(
        self,
        session_id: str,
        *,
        engine: MemoryEngine,
        user_id: str,
        tenant_id: str = DEFAULT,
        namespace: str = DEFAULT,
        inject: Inject = "system",
        recent_turns: int = 6,
        recall_k: int = 5,
        token_budget: int | None = None,
    ) -> None:
        super().__init__()
        if inject not in ("system", "human", "none"):
            raise InvalidInput(f"inject must be 'system', 'human' or 'none', got {inject!r}")
        self.engine = engine
        self.scope = Scope(tenant_id, user_id, namespace)
        self.session_id = check_id(session_id, "session_id")
        self.inject = inject
        self.recent_turns = recent_turns
        self.recall_k = recall_k
        self.token_budget = token_budget
        self._read_in_run: list[BaseMessage] | None = None

    @property
    def messages(self) -> list[BaseMessage]:  # type: ignore[override]
        """What a prompt gets; see the class."""
        if (kept := self._kept()) is not None:
            return kept
        room = self._room()
        if self.inject == "none":
            return self._keep(to_messages(room.messages()))
        context = room.context(token_budget=self.token_budget, recent_turns=self.recent_turns, recall_k=self.recall_k)
        return self._keep(self._with_memory(context))

    async def aget_messages(self) -> list[BaseMessage]:
        """`messages`, without blocking the loop."""
        if (kept := self._kept()) is not None:
            return kept
        room = self._room()
        if self.inject == "none":
            return self._keep(to_messages(await room.amessages()))
        context = await room.acontext(
            token_budget=self.token_budget, recent_turns=self.recent_turns, recall_k=self.recall_k
        )
        return self._keep(self._with_memory(context))

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Add what was said; injected messages and summaries are left out, and known ids change nothing."""
        self._room().add(to_turns(messages))
        self._read_in_run = None

    async def aadd_messages(self, messages: Sequence[BaseMessage]) -> None:
        """`add_messages`, without blocking the loop."""
        await self._room().aadd(to_turns(messages))
        self._read_in_run = None

    def clear(self) -> None:
        """Empty the view of this session; transcript and memories stay."""
        self._room().clear()
        self._read_in_run = None

    async def aclear(self) -> None:
        """`clear`, without blocking the loop."""
        await self._room().aclear()
        self._read_in_run = None

    def _room(self) -> Conversation:
        return self.engine.conversation(self.scope, self.session_id)

    def _with_memory(self, context: MemoryContext) -> list[BaseMessage]:
        kind = HumanMessage if self.inject == "human" else SystemMessage
        block = kind(context.text or _NOTHING, id=_INJECTED_ID, additional_kwargs={INJECTED_TAG: INJECTED})
        return [block, *to_messages(context.messages)]

    def _kept(self) -> list[BaseMessage] | None:
        """What was read before in the run that holds this object; None for other readers, who get the present state."""
        if self._read_in_run is None or not self._in_run():
            return None
        return list(self._read_in_run)

    def _keep(self, messages: list[BaseMessage]) -> list[BaseMessage]:
        if self._in_run():
            self._read_in_run = list(messages)
        return messages

    def _in_run(self) -> bool:
        return configurable().get("message_history") is self


class _HistoryOfRun(SFAMSChatMessageHistory):
    """Takes tenant and namespace from the config of the run that first uses it, and keeps them."""

    _placed = False

    def _room(self) -> Conversation:
        if not self._placed:
            said = configurable()
            tenant, namespace = said.get("tenant_id", DEFAULT), said.get("namespace", DEFAULT)
            self.scope = Scope(tenant, self.scope.user, namespace)  # type: ignore[arg-type]  # Scope refuses no-strings
            self._placed = True
        return super()._room()


def create_history_factory(
    engine: MemoryEngine,
    *,
    inject: Inject = "system",
    recent_turns: int = 6,
    recall_k: int = 5,
    token_budget: int | None = None,
) -> Callable[[str, str], SFAMSChatMessageHistory]:
    """What `RunnableWithMessageHistory` takes as `get_session_history`, together with `HISTORY_CONFIG_SPECS`.

    Each run gets its own history of `config["configurable"]`'s user and session; `tenant_id` and `namespace` are
    taken from there too, else "default". A run without `user_id` or `session_id` is refused by LangChain.
    """

    def session_history(user_id: str, session_id: str) -> SFAMSChatMessageHistory:
        return _HistoryOfRun(
            session_id,
            engine=engine,
            user_id=user_id,
            inject=inject,
            recent_turns=recent_turns,
            recall_k=recall_k,
            token_budget=token_budget,
        )

    return session_history
