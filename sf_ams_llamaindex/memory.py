"""A LlamaIndex memory that stands on the engine: the chat's own view, led by what is remembered about the user.

    memory = SFAMSMemory.from_defaults(engine, session_id="chat-7", user_id="alice")
    agent.run("Which editor do I like?", memory=memory)

The object is nothing but ids: serialised, pickled or copied, it reconnects through `engine_ref`. For another process,
give the engine a lasting name first: `register_engine(engine, "main")`.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self, TypeAlias, TypeVar

from llama_index.core.base.llms.base import BaseLLM
from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.memory import BaseMemory
from pydantic import PrivateAttr

from sf_ams_core.conversation import Conversation
from sf_ams_core.engine import MemoryEngine
from sf_ams_core.errors import InvalidInput
from sf_ams_core.registry import resolve_engine
from sf_ams_core.rules import windows
from sf_ams_core.rules.tokens import count_tokens
from sf_ams_core.types import MemoryContext, Scope, Turn

from .messages import from_turn, from_turns, injected, storable, to_turn, with_memory, words

InjectAs: TypeAlias = Literal["system", "user"]
R = TypeVar("R")

_WINDOW_SHARE = 0.75  # of the model's window: what LlamaIndex's own memories take by default


@dataclass(frozen=True, slots=True)
class _Asked:
    """All that a context depends on: while it is the same, an agent's next look costs no recall."""

    engine_ref: str
    scope: Scope
    session: str
    revision: int | None
    enabled: bool
    view: tuple[str | None, ...]
    question: str | None
    budget: int | None


class _Link:
    """Keeps the engine alive and the latest context at hand. A copy keeps the engine, a pickle neither."""

    def __init__(self, engine: MemoryEngine | None = None) -> None:
        self.engine = engine
        self._latest: tuple[_Asked, MemoryContext] | None = None

    def context(self, asked: _Asked, chat: Conversation) -> MemoryContext:
        latest = self._latest
        if latest is not None and latest[0] == asked:
            return latest[1]
        context = chat.context(asked.question, token_budget=asked.budget)
        whole = context.recall is not None and not context.recall.degraded
        self._latest = (asked, context) if whole and asked.revision is not None else None
        return context

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Link)  # memories are equal when their ids are

    def __deepcopy__(self, memo: object) -> _Link:
        return _Link(self.engine)

    def __reduce__(self) -> tuple[type[_Link], tuple[()]]:
        return _Link, ()


class SFAMSMemory(BaseMemory):
    """Long-term memory for chat engines and agents.

    `get` returns the system messages of the chat, one message tagged `sf_ams: injected` with what is remembered (none
    where there is nothing), and the recent whole exchanges; every message is a copy. Nothing raises for memory's sake:
    with the database down or a model broken the chat goes on.

    `inject_as="user"` puts the block before the words of the last user message instead (of the copy): for a
    `ReActAgent` without `system_prompt`, which drops a leading system message, and for models that allow only one.
    """

    engine_ref: str
    session_id: str
    user_id: str
    tenant_id: str = "default"
    namespace: str = "default"
    token_limit: int | None = None
    inject_as: InjectAs = "system"
    _link: _Link = PrivateAttr(default_factory=_Link)

    @classmethod
    def class_name(cls) -> str:
        """The name under which LlamaIndex serialises this component."""
        return "SFAMSMemory"

    @classmethod
    def from_defaults(  # type: ignore[override]  # the base promises to take anything
        cls,
        engine: MemoryEngine,
        *,
        session_id: str,
        user_id: str,
        tenant_id: str = "default",
        namespace: str = "default",
        chat_history: Sequence[ChatMessage] | None = None,
        llm: BaseLLM | None = None,
        token_limit: int | None = None,
        inject_as: InjectAs = "system",
    ) -> Self:
        """A memory of one session of one user.

        `chat_history` becomes the view of the session. `token_limit` bounds what `get` returns, in tokens by our own
        counter (media counts nothing); without one an `llm` sets it to three quarters of its context window. Raises
        InvalidInput for a blank or over-long id and for a limit below 1.
        """
        engine.conversation(Scope(tenant_id, user_id, namespace), session_id)  # refuses what cannot be an id
        if token_limit is not None and token_limit < 1:
            raise InvalidInput(f"token_limit must be at least 1, got {token_limit!r}")
        if token_limit is None and llm is not None:
            token_limit = int(llm.metadata.context_window * _WINDOW_SHARE)
        memory = cls(
            engine_ref=engine.ref,
            session_id=session_id,
            user_id=user_id,
            tenant_id=tenant_id,
            namespace=namespace,
            token_limit=token_limit,
            inject_as=inject_as,
        )
        memory._link.engine = engine
        if chat_history is not None:
            memory.set(chat_history)
        return memory

    def tokenizer_fn(self, text: str) -> Sequence[int]:
        """As many items as `text` has tokens by our counter: chat engines measure their own prompts with it."""
        return range(count_tokens(text))

    def get(
        self, input: str | ChatMessage | None = None, initial_token_count: int = 0, **kwargs: Any
    ) -> list[ChatMessage]:
        """The messages for a prompt about `input`; without one the last user message is the question.

        `initial_token_count` tokens of the limit are spent elsewhere. System messages and the newest exchange come
        whole even where they exceed the limit.
        """
        chat = self._conversation()
        revision = chat.revision()
        view = chat.messages()
        system = [turn for turn in view if turn.role == "system"]
        asked = _Asked(
            self.engine_ref,
            chat.scope,
            chat.session,
            revision,
            self._engine().enabled,
            tuple(turn.id for turn in view),
            question=_question(input, view),
            budget=self._room(initial_token_count, system),
        )
        context = self._link.context(asked, chat)
        recent = [turn for turn in context.messages if turn.role != "system"]
        if asked.budget is not None:
            recent = windows.within(recent, asked.budget - count_tokens(context.text), _cost)
        return _prompt(from_turns(system), context.text, from_turns(recent), self.inject_as)

    def get_all(self) -> list[ChatMessage]:
        """The whole view of the chat, without anything remembered from elsewhere."""
        return from_turns(self._conversation().messages())

    def put(self, message: ChatMessage) -> None:
        """Add a message to the chat and to memory."""
        self.put_messages([message])

    def put_messages(self, messages: Sequence[ChatMessage]) -> None:
        """Add messages in order; one whose id the session knows already is not added again."""
        self._conversation().add(_turns(messages))

    def set(self, messages: Sequence[ChatMessage]) -> None:
        """Make `messages` the view of the chat; those in view already are not written again."""
        chat = self._conversation()
        turns = _with_known_ids(_turns(messages), chat.messages())
        chat.clear()
        chat.add(turns)

    def reset(self) -> None:
        """Empty the view of the chat; the transcript and the memories stay."""
        self._conversation().clear()

    async def aget(
        self, input: str | ChatMessage | None = None, initial_token_count: int = 0, **kwargs: Any
    ) -> list[ChatMessage]:
        """Async twin of `get`."""
        return await self._on_threads(lambda: self.get(input, initial_token_count))

    async def aget_all(self) -> list[ChatMessage]:
        """Async twin of `get_all`."""
        return await self._on_threads(self.get_all)

    async def aput(self, message: ChatMessage) -> None:
        """Async twin of `put`."""
        await self._on_threads(lambda: self.put(message))

    async def aput_messages(self, messages: Sequence[ChatMessage]) -> None:
        """Async twin of `put_messages`."""
        await self._on_threads(lambda: self.put_messages(messages))

    async def aset(self, messages: Sequence[ChatMessage]) -> None:
        """Async twin of `set`."""
        await self._on_threads(lambda: self.set(messages))

    async def areset(self) -> None:
        """Async twin of `reset`."""
        await self._on_threads(self.reset)

    async def _on_threads(self, call: Callable[[], R]) -> R:
        return await self._engine().pool.run(call)

    def _engine(self) -> MemoryEngine:
        engine = resolve_engine(self.engine_ref)
        self._link.engine = engine
        return engine

    def _conversation(self) -> Conversation:
        return self._engine().conversation(Scope(self.tenant_id, self.user_id, self.namespace), self.session_id)

    def _room(self, spent: int, system: Sequence[Turn]) -> int | None:
        return max(1, self.token_limit - spent - sum(map(_cost, system))) if self.token_limit else None


def _question(input: str | ChatMessage | None, view: Sequence[Turn]) -> str | None:
    """What is asked beyond the chat; None where the last user message asks it, or nothing is."""
    text = input.content if isinstance(input, ChatMessage) else input
    said = next((turn.content for turn in reversed(view) if turn.role == "user"), None)
    return text if text and text.strip() and text != said else None


def _turns(messages: Sequence[ChatMessage]) -> list[Turn]:
    return [to_turn(message) for message in storable(messages)]


def _cost(turn: Turn) -> int:
    return count_tokens(words(from_turn(turn)))


def _with_known_ids(turns: Sequence[Turn], view: Sequence[Turn]) -> list[Turn]:
    """The turns, those equal to one in view under its id, so that setting a history again adds nothing."""
    known: defaultdict[str, list[str | None]] = defaultdict(list)
    for turn in reversed(view):
        known[_likeness(turn)].append(turn.id)
    return [
        replace(turn, id=known[likeness].pop()) if turn.id is None and known[likeness := _likeness(turn)] else turn
        for turn in turns
    ]


def _likeness(turn: Turn) -> str:
    return json.dumps([turn.role, turn.content, turn.payload], sort_keys=True)


def _prompt(system: list[ChatMessage], text: str, recent: list[ChatMessage], inject_as: InjectAs) -> list[ChatMessage]:
    if not text:
        return [*system, *recent]
    if inject_as == "system":
        return [*system, injected(text, MessageRole.SYSTEM), *recent]
    last = max((place for place, message in enumerate(recent) if message.role == MessageRole.USER), default=None)
    if last is None:
        return [*system, injected(text, MessageRole.USER), *recent]
    return [*system, *recent[:last], with_memory(recent[last], text), *recent[last + 1 :]]
