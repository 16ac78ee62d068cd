"""An engine on a file, and real OpenAI clients against a server on the loopback."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path

import pytest
from llamaindex_support import Model

from sf_ams_core.cli.loopback import ChatReply, ChatRequest, LoopbackServer
from sf_ams_core.engine import MemoryEngine
from sf_ams_core.settings import ContextSettings, Settings, StoreSettings
from sf_ams_core.testing import FakeClock


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


@pytest.fixture
async def model() -> AsyncIterator[Callable[..., Model]]:
    """Starts servers that answer by a function of the request, or always the same."""
    started: list[Model] = []

    def start(says: str | Callable[[ChatRequest], ChatReply] = "Noted.", *, strict_system: bool = False) -> Model:
        responder = says if callable(says) else lambda _request: ChatReply(says)
        started.append(Model(LoopbackServer(responder, strict_system=strict_system)))
        return started[-1]

    yield start
    for each in started:
        await each.close()
