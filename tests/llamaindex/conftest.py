"""An engine on a file, and real OpenAI clients against a server on the loopback."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path

import pytest
from llama_index.core.base.llms.types import ChatMessage
from llama_index.llms.openai_like import OpenAILike

from sf_ams_core.cli.loopback import ChatReply, ChatRequest, LoopbackServer
from sf_ams_core.engine import MemoryEngine
from sf_ams_core.settings import ContextSettings, Settings, StoreSettings
from sf_ams_core.testing import FakeClock
from sf_ams_core.types import Scope

ANN = Scope("default", "ann")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The database file."""
    return tmp_path / "memory.db"


@pytest.fixture
def engine(path: Path) -> Iterator[MemoryEngine]:
    """An engine that gives up quickly on a locked file."""
    settings = Settings(store=StoreSettings(busy_timeout=0.05), context=ContextSettings(recent_turns=6))
    with MemoryEngine.open(f"sqlite:///{path}", embedder="hash", settings=settings, clock=FakeClock()) as opened:
        yield opened


@pytest.fixture
def locked(path: Path) -> Callable[[], AbstractContextManager[None]]:
    """A context in which somebody else holds the writer's lock of the database."""

    @contextmanager
    def hold() -> Iterator[None]:
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN EXCLUSIVE")
            yield

    return hold


class Model:
    """A pretend model: what it says, and what it was sent."""

    def __init__(self, server: LoopbackServer) -> None:
        self.server = server
        self.llm = OpenAILike(
            api_base=server.base_url,
            api_key="loopback",
            model="loopback",
            is_chat_model=True,
            is_function_calling_model=True,
            max_retries=0,
        )

    @property
    def prompts(self) -> list[list[dict[str, str]]]:
        """The messages of every request so far."""
        return [list(body["messages"]) for body in self.server.requests]  # type: ignore[call-overload]


@pytest.fixture
def model() -> Iterator[Callable[..., Model]]:
    """Starts servers that answer by a function of the request, or always the same."""
    servers: list[LoopbackServer] = []

    def start(says: str | Callable[[ChatRequest], ChatReply] = "Noted.", *, strict_system: bool = False) -> Model:
        responder = says if callable(says) else lambda _request: ChatReply(says)
        servers.append(LoopbackServer(responder, strict_system=strict_system))
        return Model(servers[-1])

    yield start
    for server in servers:
        server.close()


def texts(messages: list[ChatMessage]) -> list[tuple[str, str]]:
    """Role and words of messages."""
    return [(message.role.value, message.content or "") for message in messages]
