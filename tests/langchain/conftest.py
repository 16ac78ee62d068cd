"""An engine whose file can be locked, and real OpenAI clients against a server on the loopback."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from langchain_support import Model

from sf_ams_core import MemoryEngine, Settings
from sf_ams_core.cli.loopback import ChatReply, ChatRequest, LoopbackServer
from sf_ams_core.settings import StoreSettings
from sf_ams_core.testing import FakeClock


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The database file."""
    return tmp_path / "memory.db"


@pytest.fixture
def hasty(path: Path, clock: FakeClock) -> Iterator[MemoryEngine]:
    """An engine that gives up quickly on a locked file."""
    settings = Settings(store=StoreSettings(busy_timeout=0.05))
    with MemoryEngine.open(f"sqlite:///{path}", embedder="hash", settings=settings, clock=clock) as opened:
        yield opened


@pytest.fixture
def locked(path: Path) -> Callable[[], AbstractContextManager[None]]:
    """A context in which another connection keeps every writer out; readers pass it by."""

    @contextmanager
    def hold() -> Iterator[None]:
        other = sqlite3.connect(path, isolation_level=None)
        try:
            other.execute("BEGIN EXCLUSIVE")
            yield
        finally:
            other.close()

    return hold


@pytest.fixture
def model() -> Iterator[Callable[..., Model]]:
    """Starts servers that answer by a function of the request, by a list of replies, or always the same."""
    servers: list[LoopbackServer] = []

    def start(
        says: str | Sequence[ChatReply] | Callable[[ChatRequest], ChatReply] = "Noted.", *, strict_system: bool = False
    ) -> Model:
        replies = iter(()) if callable(says) or isinstance(says, str) else iter(says)
        constant = ChatReply(says) if isinstance(says, str) else None
        responder = says if callable(says) else lambda _request: constant or next(replies)
        servers.append(LoopbackServer(responder, strict_system=strict_system))
        return Model(servers[-1])

    yield start
    for server in servers:
        server.close()
