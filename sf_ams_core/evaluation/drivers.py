"""The ways a conversation reaches the engine: its own verbs, or a framework's objects as an application holds them.

A driver serves one scope. It takes turns, shows what would be sent to a model now, and answers a question with the
ids of the turns that its hits cite. The framework is imported when its driver is made.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from ..errors import InvalidInput, MissingExtra
from ..types import Scope, Turn

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage
    from llama_index.core.llms import ChatMessage

    from sf_ams_langchain import SFAMSChatMessageHistory
    from sf_ams_llamaindex import SFAMSMemory

    from ..engine import MemoryEngine

Framework: TypeAlias = Literal["core", "langchain", "llamaindex"]


@dataclass(frozen=True, slots=True)
class Answer:
    """The ids that each hit cites, best first, and the routes that failed."""

    ranking: tuple[tuple[str, ...], ...]
    degraded: tuple[str, ...] = ()


class Driver(Protocol):
    """One scope behind one framework."""

    def add(self, session: str, turns: Sequence[Turn]) -> None:
        """Say turns of a session."""
        ...

    def prompt(self, session: str) -> list[str]:
        """The texts that would be sent to a model now: the memory block, if any, and the recent turns."""
        ...

    def ask(self, question: str) -> Answer:
        """What is recalled for a question."""
        ...


def driver(framework: Framework, engine: MemoryEngine, scope: Scope, depth: int) -> Driver:
    """The driver of a framework, recalling `depth` hits. Raises MissingExtra where the framework is not installed."""
    match framework:
        case "core":
            return CoreDriver(engine, scope, depth)
        case "langchain":
            return LangChainDriver(engine, scope, depth)
        case "llamaindex":
            return LlamaIndexDriver(engine, scope, depth)
    raise InvalidInput(f"framework must be core, langchain or llamaindex, got {framework!r}")


class CoreDriver:
    """The engine's own verbs."""

    def __init__(self, engine: MemoryEngine, scope: Scope, depth: int) -> None:
        self._engine, self._scope, self._depth = engine, scope, depth

    def add(self, session: str, turns: Sequence[Turn]) -> None:
        self._engine.add_turns(self._scope, session, turns)

    def prompt(self, session: str) -> list[str]:
        context = self._engine.context(self._scope, session)
        return [context.text, *(turn.content for turn in context.messages)]

    def ask(self, question: str) -> Answer:
        recall = self._engine.recall(self._scope, question, k=self._depth)
        return Answer(tuple(hit.source_ids for hit in recall), recall.degraded)


class LangChainDriver:
    """A chat message history a session, and the retriever."""

    def __init__(self, engine: MemoryEngine, scope: Scope, depth: int) -> None:
        try:
            from sf_ams_langchain import SFAMSRetriever
        except ModuleNotFoundError as missing:
            raise _missing("langchain", missing) from None
        self._engine, self._scope = engine, scope
        self._retriever = SFAMSRetriever(
            engine=engine, tenant_id=scope.tenant, user_id=scope.user, namespace=scope.namespace, k=depth
        )

    def add(self, session: str, turns: Sequence[Turn]) -> None:
        self._history(session).add_messages([_langchain_message(turn) for turn in turns])

    def prompt(self, session: str) -> list[str]:
        return [message.text for message in self._history(session).messages]

    def ask(self, question: str) -> Answer:
        return _answer(document.metadata for document in self._retriever.invoke(question))

    def _history(self, session: str) -> SFAMSChatMessageHistory:
        from sf_ams_langchain import SFAMSChatMessageHistory

        return SFAMSChatMessageHistory(
            session,
            engine=self._engine,
            user_id=self._scope.user,
            tenant_id=self._scope.tenant,
            namespace=self._scope.namespace,
        )


class LlamaIndexDriver:
    """A memory a session, and the retriever."""

    def __init__(self, engine: MemoryEngine, scope: Scope, depth: int) -> None:
        try:
            from sf_ams_llamaindex import SFAMSRetriever
        except ModuleNotFoundError as missing:
            raise _missing("llamaindex", missing) from None
        self._engine, self._scope = engine, scope
        self._retriever = SFAMSRetriever(
            engine=engine, tenant_id=scope.tenant, user_id=scope.user, namespace=scope.namespace, k=depth
        )

    def add(self, session: str, turns: Sequence[Turn]) -> None:
        self._memory(session).put_messages([_llamaindex_message(turn) for turn in turns])

    def prompt(self, session: str) -> list[str]:
        return [message.content or "" for message in self._memory(session).get()]

    def ask(self, question: str) -> Answer:
        return _answer(found.node.metadata for found in self._retriever.retrieve(question))

    def _memory(self, session: str) -> SFAMSMemory:
        from sf_ams_llamaindex import SFAMSMemory

        return SFAMSMemory.from_defaults(
            self._engine,
            session_id=session,
            user_id=self._scope.user,
            tenant_id=self._scope.tenant,
            namespace=self._scope.namespace,
        )


def _missing(extra: str, fault: ModuleNotFoundError) -> MissingExtra:
    return MissingExtra(extra, (fault.name or extra).partition(".")[0].replace("_", "-"))


def _langchain_message(turn: Turn) -> BaseMessage:
    from langchain_core.messages import AIMessage, HumanMessage

    kind = AIMessage if turn.role == "assistant" else HumanMessage
    return kind(turn.content, id=turn.id, name=turn.speaker, additional_kwargs=_said(turn))


def _llamaindex_message(turn: Turn) -> ChatMessage:
    from llama_index.core.llms import ChatMessage, MessageRole

    named = {"name": turn.speaker} if turn.speaker else {}
    return ChatMessage(
        content=turn.content,
        role=MessageRole.ASSISTANT if turn.role == "assistant" else MessageRole.USER,
        additional_kwargs={"id": turn.id, **named, **_said(turn)},
    )


def _said(turn: Turn) -> dict[str, str]:
    return {"timestamp": turn.at.isoformat()} if turn.at else {}


def _answer(metadata: Iterable[dict[str, object]]) -> Answer:
    return Answer(tuple(_source_ids(item.get("source_ids")) for item in metadata))


def _source_ids(value: object) -> tuple[str, ...]:
    if isinstance(value, str):  # a LlamaIndex node has no lists in its metadata
        return tuple(value.split(",")) if value else ()
    return tuple(str(item) for item in value) if isinstance(value, list | tuple) else ()
