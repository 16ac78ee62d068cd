"""Memory for agents made by `create_agent`: recall before the model is asked, take in what was said.

    before_agent     the asking message, and what stands before it, go in ─▶ recall once ─▶ private state
    wrap_model_call  the recalled block goes into this request only, never into the agent's messages
    after_agent      what the run said goes in

Everything goes in by message id, so nothing goes in twice. Faults of memory never reach the agent; a run that names
no user is an error, for memories must not be shared by accident.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NotRequired, TypeAlias, cast

from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest, ModelResponse
from langchain.agents.middleware.types import PrivateStateAttr
from langchain_core.messages import AnyMessage, BaseMessage, HumanMessage, SystemMessage
from langgraph.runtime import Runtime

from sf_ams_core.conversation import Conversation
from sf_ams_core.engine import MemoryEngine
from sf_ams_core.errors import InvalidInput
from sf_ams_core.types import Turn

from .identity import DEFAULT, Identity
from .messages import is_said, to_turns, turn_id
from .tools import create_memory_tools

InjectAs: TypeAlias = Literal["system", "human"]
Recalled: TypeAlias = dict[str, dict[str, str]]

_UNSAVED = "sf_ams_unsaved"  # a session that never has turns


class MemoryState(AgentState[Any]):
    """An agent's state with what was recalled: by middleware and id of the asking message, a block of text."""

    # Plain strings: a checkpointer refuses to read back classes that it does not know.
    sf_ams_recalled: NotRequired[Annotated[Recalled, PrivateStateAttr]]


class SFAMSMiddleware(AgentMiddleware[MemoryState, Any, Any]):
    """Gives an agent a memory of its user: `create_agent(..., middleware=[SFAMSMiddleware(engine)])`.

    With a `user_id` it serves that user alone; without one each run says whose memory it is, by
    `context=MemoryContext(...)` (and `context_schema=MemoryContext`) or `config["configurable"]`. The session is the
    context's `session_id`, else the run's `thread_id`, else "default": runs without a thread share that session of
    their scope. `inject_as` says where memory goes: behind the system message, or before the words of the asking
    message. `tools` adds the memory tools; with `save=False` nothing that is said is kept.

    Raises InvalidScope at the first run that names no user; faults of memory are never raised.
    """

    state_schema = MemoryState

    def __init__(
        self,
        engine: MemoryEngine,
        *,
        tenant_id: str | None = None,
        user_id: str | None = None,
        namespace: str = DEFAULT,
        recall_k: int = 5,
        save: bool = True,
        tools: bool = True,
        inject_as: InjectAs = "system",
    ) -> None:
        if inject_as not in ("system", "human"):
            raise InvalidInput(f"inject_as must be 'system' or 'human', got {inject_as!r}")
        self._engine = engine
        self._identity = Identity(tenant_id, user_id, namespace)
        self._recall_k = recall_k
        self._save = save
        self._inject = _into_system if inject_as == "system" else _into_question
        self.tools = (
            create_memory_tools(engine, tenant_id=tenant_id, user_id=user_id, namespace=namespace) if tools else []
        )

    @property
    def name(self) -> str:
        """The same in every process, and another one for another scope, so that two of them fit into one agent."""
        if self._identity == Identity():
            return type(self).__name__
        return f"{type(self).__name__}_{hashlib.sha256(repr(self._identity).encode()).hexdigest()[:8]}"

    def before_agent(self, state: MemoryState, runtime: Runtime[Any]) -> dict[str, Any]:
        """Take in what is new, and recall for the asking message."""
        room, said = self._room(runtime), _Said.of(state["messages"])
        if self._save:
            room.add(said.unknown_to(room.messages()) if said.before else said.since)
        text = room.context(said.question, recent_turns=said.count, recall_k=self._recall_k).text
        return self._keep(state, text)

    async def abefore_agent(self, state: MemoryState, runtime: Runtime[Any]) -> dict[str, Any]:
        """`before_agent`, without blocking the loop."""
        room, said = self._room(runtime), _Said.of(state["messages"])
        if self._save:
            await room.aadd(said.unknown_to(await room.amessages()) if said.before else said.since)
        context = await room.acontext(said.question, recent_turns=said.count, recall_k=self._recall_k)
        return self._keep(state, context.text)

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Ask the model with what is remembered."""
        text = self._kept(request)
        if text is None:
            room, said = self._room(request.runtime), _Said.of(request.state["messages"])
            text = room.context(said.question, recent_turns=said.count, recall_k=self._recall_k).text
        return handler(self._inject(request, text))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """`wrap_model_call`, without blocking the loop."""
        text = self._kept(request)
        if text is None:
            room, said = self._room(request.runtime), _Said.of(request.state["messages"])
            text = (await room.acontext(said.question, recent_turns=said.count, recall_k=self._recall_k)).text
        return await handler(self._inject(request, text))

    def after_agent(self, state: MemoryState, runtime: Runtime[Any]) -> None:
        """Take in what the run said."""
        if self._save:
            self._room(runtime).add(_Said.of(state["messages"]).since)

    async def aafter_agent(self, state: MemoryState, runtime: Runtime[Any]) -> None:
        """`after_agent`, without blocking the loop."""
        if self._save:
            await self._room(runtime).aadd(_Said.of(state["messages"]).since)

    def _room(self, runtime: Runtime[Any]) -> Conversation:
        scope, session = self._identity.resolve(runtime.context)
        # A run that is not kept is no part of a session, whose last turns would count as seen by the model.
        return self._engine.conversation(scope, (session or DEFAULT) if self._save else _UNSAVED)

    def _keep(self, state: MemoryState, text: str) -> dict[str, Any]:
        asking = _asking(state["messages"])
        kept = {asking.id or "": text} if asking else {}
        return {"sf_ams_recalled": {**state.get("sf_ams_recalled", {}), self.name: kept}}

    def _kept(self, request: ModelRequest[Any]) -> str | None:
        """What was recalled for the asking message; None where it is another one than the run began with."""
        recalled = cast("Mapping[str, Recalled]", request.state).get("sf_ams_recalled", {}).get(self.name, {})
        asking = _asking(request.state["messages"])
        if asking is None:  # a summary took its place
            return next(iter(recalled.values()), "")
        return recalled.get(asking.id or "")


@dataclass(frozen=True, slots=True)
class _Said:
    """What an agent's messages say: the turns before the asking one, those since, and its words.

    Where nobody asks, all of them are `since`.
    """

    before: Sequence[Turn]
    since: Sequence[Turn]
    question: str | None

    @classmethod
    def of(cls, messages: Sequence[BaseMessage]) -> _Said:
        turns, asking = to_turns(messages), _asking(messages)
        asked = turn_id(asking) if asking else None
        start = next((place for place, turn in enumerate(turns) if turn.id == asked), 0)
        return cls(turns[:start], turns[start:], (str(asking.text) or None) if asking else None)

    @property
    def count(self) -> int:
        """How many turns the model sees anyway, so that none of them is recalled."""
        return max(1, len(self.before) + len(self.since))

    def unknown_to(self, view: Sequence[Turn]) -> Sequence[Turn]:
        """The turns that are not in `view`; hosts that send a whole chat anew each time seldom keep its ids."""
        ids = {turn.id for turn in view}
        words = {(turn.role, turn.content) for turn in view}
        new = [turn for turn in self.before if turn.id not in ids and (turn.role, turn.content) not in words]
        return [*new, *self.since]


def _asking(messages: Sequence[BaseMessage]) -> HumanMessage | None:
    return next((m for m in reversed(messages) if isinstance(m, HumanMessage) and is_said(m)), None)


def _into_system(request: ModelRequest[Any], text: str) -> ModelRequest[Any]:
    if not text:
        return request
    old = request.system_message
    if old is None:
        return request.override(system_message=SystemMessage(text))
    # Last, so that a provider's cache of the static prompt before it stays warm.
    content = [*_blocks(old), {"type": "text", "text": f"\n\n{text}"}]
    return request.override(system_message=old.model_copy(update={"content": content}))


def _into_question(request: ModelRequest[Any], text: str) -> ModelRequest[Any]:
    humans = [n for n, message in enumerate(request.messages) if isinstance(message, HumanMessage)]
    place = max((n for n in humans if is_said(request.messages[n])), default=humans[-1] if humans else None)
    if place is None or not text:
        return _into_system(request, text)
    content = [{"type": "text", "text": f"{text}\n\n"}, *_blocks(request.messages[place])]
    messages: list[AnyMessage] = list(request.messages)
    messages[place] = messages[place].model_copy(update={"content": content})
    return request.override(messages=messages)


def _blocks(message: BaseMessage) -> list[str | dict[Any, Any]]:
    content = message.content
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
