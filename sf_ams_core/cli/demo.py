"""`sf-ams demo`: two weeks of a project told to a LangChain agent, then carried on in LlamaIndex over one memory.

The frameworks, their clients, the HTTP between them and the memory are real. Only time is not: the story's clock goes
from day to day, so that a fortnight passes in seconds.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Annotated

import typer
from rich.console import Console

from ..engine import MemoryEngine
from ..errors import InvalidInput
from ..types import Json, Scope
from .agents import LangChainTalker, LlamaIndexTalker, Talker
from .endpoint import Endpoint, open_endpoint
from .inspect import AsJson, EmbedderName, Embedding, database_url, print_json
from .narrator import Narrator
from .stage import Cost, Erasure, Forgetting, Stage, Step, StoryClock, marks, sessions
from .story import ERASED, FORGET_BEFORE, SEQUEL, STORY, Beat

SCOPE = Scope("demo", "alex", "stellar-ai")
_FORGET_RATIO = 0.3
_PASS = 0.9  # of the questions, where the loopback assistant answers


def demo(
    *,
    db: Annotated[str | None, typer.Option("--db", help="Keep the memory in this database.")] = None,
    pause: Annotated[bool, typer.Option("--pause", help="Wait for Enter after each session.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Leave out small talk and stand-up news.")] = False,
    embedder: Embedding = "auto",
    as_json: AsJson = False,
) -> None:
    """Two weeks with a LangChain agent, then LlamaIndex, over one memory; exit code 1 if it answers badly."""
    started = time.perf_counter()
    with _database(db) as url, open_endpoint() as endpoint, _opened(url, embedder) as (engine, clock):
        stage = Stage(engine, SCOPE, clock, endpoint)
        show = _Show(stage, Narrator(Console(quiet=as_json)), pause=pause and not as_json)
        space = engine.health().embedder
        show.narrator.opening(endpoint, space, db or "temporary")
        show.play(quick=quick)
        seconds = time.perf_counter() - started
    if as_json:
        print_json({"seconds": round(seconds, 1), "embedder": space, **_summary(show, endpoint)})
    else:
        show.narrator.costs(show.by_framework)
        show.narrator.closing(seconds, _hint(db))
    asked, wrong = marks(stage.steps)
    if not endpoint.own and asked - len(wrong) < _PASS * asked:
        raise typer.Exit(1)


@dataclass(slots=True)
class _Show:
    """The acts in their order, each played and told."""

    stage: Stage
    narrator: Narrator
    pause: bool
    forgotten: Forgetting = field(init=False)
    erased: Erasure = field(init=False)

    def play(self, *, quick: bool) -> None:
        """The story through LangChain with a night of forgetting, the sequel through LlamaIndex, an erasure."""
        talker = self._load(LangChainTalker)
        for session in sessions(_told(STORY, quick)):
            if session[0].session == FORGET_BEFORE:
                self.forgotten = self.stage.forget(_FORGET_RATIO)
                self.narrator.forgetting(self.forgotten)
            self._tell(session, talker)
        talker = self._load(LlamaIndexTalker)
        for session in sessions(_told(SEQUEL, quick)):
            self._tell(session, talker)
        self.erased = self.stage.erase(ERASED)
        self.narrator.erasure(self.erased)

    @property
    def by_framework(self) -> Mapping[str, Sequence[Step]]:
        """The steps of each framework."""
        names = dict.fromkeys(step.framework for step in self.stage.steps)
        return {name: [step for step in self.stage.steps if step.framework == name] for name in names}

    def _tell(self, session: Sequence[Beat], talker: Talker) -> None:
        self.narrator.session(session[0], talker.name)
        for step in self.stage.session(session, talker):
            self.narrator.step(step)
        self.narrator.summary(self.stage.close(session[0].session))
        if self.pause:
            typer.prompt("Enter to go on", default="", show_default=False, prompt_suffix=" ")

    def _load(self, make: Callable[[Endpoint, MemoryEngine, Scope], Talker]) -> Talker:
        with _busy("Loading the framework"):
            return make(self.stage.endpoint, self.stage.engine, self.stage.scope)


def _told(beats: Sequence[Beat], quick: bool) -> list[Beat]:
    return [beat for beat in beats if not (quick and beat.trifle)]


@contextmanager
def _busy(what: str) -> Iterator[None]:
    with Console(stderr=True).status(f"{what} …"):
        yield


@contextmanager
def _opened(url: str, embedder: EmbedderName) -> Iterator[tuple[MemoryEngine, StoryClock]]:
    """An engine on story time, without an earlier demo in its database. Raises InvalidInput."""
    clock = StoryClock()
    with _busy("Opening the memory"):
        engine = MemoryEngine.open(url, embedder=embedder, clock=clock)
    with engine:
        if engine.stats(SCOPE).turns:
            raise InvalidInput("this database holds a demo already; name another one with --db, or leave it out")
        yield engine, clock


@contextmanager
def _database(db: str | None) -> Iterator[str]:
    if db is not None:
        yield database_url(db)
        return
    with tempfile.TemporaryDirectory(prefix="sf-ams-demo-") as folder:
        yield f"sqlite:///{folder}/demo.db"


def _hint(db: str | None) -> str:
    if db is None:
        return "Keep the memory with --db demo.db; talk to one of your own with sf-ams chat."
    whose = f"--tenant {SCOPE.tenant} --user {SCOPE.user} --namespace {SCOPE.namespace}"
    return f"Look into it: sf-ams recall demo --db {db} {whose}"


def _summary(show: _Show, endpoint: Endpoint) -> dict[str, Json]:
    steps = show.stage.steps
    asked, wrong = marks(steps)
    return {
        "model": {"name": endpoint.model, "own": endpoint.own},
        "asked": asked,
        "right": asked - len(wrong),
        "wrong": [_wrong_json(step) for step in wrong],
        "tokens": asdict(Cost.of(steps)),
        "frameworks": {name: _framework_json(steps) for name, steps in show.by_framework.items()},
        "superseded": [[old.content, new.content] for step in steps for old, new in step.change.superseded],
        "released": [memory.content for step in steps for memory in step.change.released],
        "forgetting": _forgetting_json(show.forgotten),
        "erasure": _erasure_json(show.erased),
    }


def _wrong_json(step: Step) -> Json:
    return {"day": step.beat.day, "framework": step.framework, "question": step.beat.text, "answer": step.answer}


def _framework_json(steps: Sequence[Step]) -> Json:
    asked, wrong = marks(steps)
    tools = sorted({tool for step in steps for tool in step.tools})
    return {
        "steps": len(steps),
        "asked": asked,
        "right": asked - len(wrong),
        "tools": [*tools],
        "tokens": asdict(Cost.of(steps)),
    }


def _forgetting_json(done: Forgetting) -> Json:
    names = ("before", "after", "undone", "again")
    return {
        "policy": done.plan.policy,
        "considered": done.plan.considered,
        "planned": len(done.plan.steps),
        "applied": len(done.report.applied),
        "undone": len(done.undone),
        "applied_again": len(done.again.applied),
        "stats": {
            name: {"active": stats.active, "cold": stats.cold, "characters": stats.characters}
            for name, stats in zip(names, done.stats, strict=True)
        },
    }


def _erasure_json(done: Erasure) -> Json:
    return {
        "identifier": done.identifier,
        "erased": len(done.receipt.erased),
        "similar": len(done.receipt.similar),
        "checked": dict(done.receipt.checked),
        "still_found": done.still_found,
    }
