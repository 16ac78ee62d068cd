"""One memory behind two frameworks: a LangChain agent and a LlamaIndex chat engine, built as applications do.

Both talk to the same endpoint and stand on the same engine and scope. The framework is imported when its talker is
made.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol, cast

from ..engine import MemoryEngine
from ..errors import MissingExtra, ProviderFault
from ..types import Scope
from .endpoint import Endpoint

if TYPE_CHECKING:
    from langchain_core.messages import AnyMessage

INSTRUCTIONS = (
    "You are the assistant of a project manager. Answer in the language of the question, in one or two sentences, and "
    "only from what you were told; where you were not told, say that you don't know yet (我还不知道). "
    "Take note of what you hear with a short word."
)
_RECENT = 6  # messages of a session that a prompt carries
_WINDOW = 16_000  # tokens that LlamaIndex may assume any model to take


class Talker(Protocol):
    """Somebody to talk to, through one framework."""

    @property
    def name(self) -> str:
        """The framework's."""
        ...

    def say(self, session: str, text: str, at: datetime) -> str:
        """What is answered to `text`, said in a session at a time. Raises ProviderFault where the model fails."""
        ...


class LangChainTalker:
    """`create_agent` with `SFAMSMiddleware`: memory comes in by itself, and tools save, correct and forget.

    The agent keeps nothing: recent turns come from the memory too, so a session goes on in another process.
    """

    name = "LangChain"

    def __init__(self, endpoint: Endpoint, engine: MemoryEngine, scope: Scope) -> None:
        with _needed("langchain"):
            from langchain.agents import create_agent

            from sf_ams_langchain import SFAMSMiddleware
        with _needed("openai"):
            from langchain_openai import ChatOpenAI
        from pydantic import SecretStr

        model = ChatOpenAI(
            model=endpoint.model,
            base_url=endpoint.base_url,
            api_key=SecretStr(endpoint.api_key),
            http_client=endpoint.http,
        )
        memory = SFAMSMiddleware(engine, tenant_id=scope.tenant, user_id=scope.user, namespace=scope.namespace)
        self._agent = create_agent(model, system_prompt=INSTRUCTIONS, middleware=[memory])
        self._engine, self._scope = engine, scope

    def say(self, session: str, text: str, at: datetime) -> str:
        """The agent's answer; see `Talker`."""
        from langchain_core.messages import HumanMessage

        message = HumanMessage(text, additional_kwargs={"timestamp": at.isoformat()})
        messages: list[AnyMessage | dict[str, Any]] = [*self._recent(session), message]
        with _faults_told():
            state = self._agent.invoke({"messages": messages}, {"configurable": {"session_id": session}})
        return str(state["messages"][-1].text)

    def _recent(self, session: str) -> list[AnyMessage]:
        """The last whole exchanges of a session."""
        from langchain_core.messages import trim_messages

        from sf_ams_langchain import SFAMSChatMessageHistory

        history = SFAMSChatMessageHistory(
            session,
            engine=self._engine,
            tenant_id=self._scope.tenant,
            user_id=self._scope.user,
            namespace=self._scope.namespace,
            inject="none",
        )
        recent = trim_messages(history.messages, max_tokens=_RECENT, token_counter=len, start_on="human")
        return cast("list[AnyMessage]", recent)


class LlamaIndexTalker:
    """`SimpleChatEngine` with `SFAMSMemory`."""

    name = "LlamaIndex"

    def __init__(self, endpoint: Endpoint, engine: MemoryEngine, scope: Scope) -> None:
        with _needed("llamaindex"):
            from llama_index.core.chat_engine import SimpleChatEngine

            from sf_ams_llamaindex import SFAMSMemory
        with _needed("openai"):
            from llama_index.llms.openai_like import OpenAILike  # type: ignore[import-untyped]
        llm = OpenAILike(
            model=endpoint.model,
            api_base=endpoint.base_url,
            api_key=endpoint.api_key,
            is_chat_model=True,
            context_window=_WINDOW,
            http_client=endpoint.http,
        )

        def chat(session: str) -> SimpleChatEngine:
            # Beside the instructions many servers take no second system message, so memory comes with the question.
            memory = SFAMSMemory.from_defaults(
                engine,
                session_id=session,
                user_id=scope.user,
                tenant_id=scope.tenant,
                namespace=scope.namespace,
                inject_as="user",
            )
            return SimpleChatEngine.from_defaults(llm=llm, memory=memory, system_prompt=INSTRUCTIONS)

        self._chat = chat

    def say(self, session: str, text: str, at: datetime) -> str:
        """The chat engine's answer; it takes no times, so the engine's clock must tell `at`. See `Talker`."""
        with _faults_told():
            return str(self._chat(session).chat(text).response)


@contextmanager
def _needed(extra: str) -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as missing:
        package = (missing.name or extra).partition(".")[0]
        raise MissingExtra(extra, package.replace("_", "-")) from None


@contextmanager
def _faults_told() -> Iterator[None]:
    """What the client raises, told without the words that were sent."""
    from openai import OpenAIError

    try:
        yield
    except OpenAIError as fault:
        status = getattr(fault, "status_code", None)
        raise ProviderFault(f"the model did not answer: {type(fault).__name__} {status or ''}".strip()) from fault
