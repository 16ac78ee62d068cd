"""Misuse that must not widen, odd orders of events, and patterns under hostile text."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from sf_ams_core import InvalidInput, MemoryEngine, Note, Scope, Settings, State, StoreUnavailable, Superseded, Turn
from sf_ams_core.paths.locate import subject
from sf_ams_core.ports import Vectors
from sf_ams_core.rules import admission, entities
from sf_ams_core.settings import ContextSettings, StoreSettings, WriteSettings
from sf_ams_core.testing import FakeClock, FixedEmbedder

ANN = Scope("acme", "ann")


def test_no_types_are_no_memories(engine: MemoryEngine) -> None:
    """An empty list of types finds nothing rather than everything."""
    engine.remember(ANN, "The office is in Oslo.")
    assert not engine.recall(ANN, "Where is the office?", types=[])
    assert engine.list(ANN, types=[]) == ()


def test_a_missing_label_opens_nothing(engine: MemoryEngine) -> None:
    """None is no visibility label: a recall refuses it."""
    engine.remember(ANN, "The vault code is in the drawer.", visibility="private")
    with pytest.raises(InvalidInput):
        engine.recall(ANN, "vault code", visible=None)  # type: ignore[arg-type]


@pytest.mark.parametrize("k", [0, -3, 1_001, True])
def test_a_number_of_memories_is_checked_in_a_conversation(engine: MemoryEngine, k: int) -> None:
    """A context refuses the numbers that a recall refuses."""
    with pytest.raises(InvalidInput):
        engine.conversation(ANN, "s").context("hello", recall_k=k)


@pytest.mark.parametrize(
    "misuse",
    [
        lambda e: e.conversation(ANN, "s").add(["words"]),
        lambda e: e.remember_many(ANN, None),
        lambda e: e.add_turns(ANN, "s", "words"),
    ],
)
def test_what_is_no_turn_or_note_is_misuse(engine: MemoryEngine, misuse: Callable[[MemoryEngine], object]) -> None:
    """Anything but a sequence of turns or notes raises InvalidInput."""
    with pytest.raises(InvalidInput):
        misuse(engine)


def test_a_correction_of_one_that_repeats_another_points_at_what_is_there(
    engine: MemoryEngine, clock: FakeClock
) -> None:
    """What new words retire is superseded by a memory that exists, also where they repeat an older one."""
    now = clock.now()
    late = engine.remember(ANN, "The budget is 45,000.", occurred_at=now - timedelta(days=2))
    engine.remember(ANN, "The budget is 48,000.", occurred_at=now - timedelta(days=9))
    outcome = engine.remember(ANN, "The budget is 48,000.")
    assert isinstance(outcome, Superseded)
    old = engine.get(ANN, late.id or "")
    assert old is not None
    assert old.superseded_by is not None
    assert engine.get(ANN, old.superseded_by) is not None


def test_a_fact_too_long_for_a_memory_leaves_no_older_value_to_recall(engine: MemoryEngine) -> None:
    """Where a value makes no memory, the memory of the value before it goes all the same."""
    engine.set_fact(ANN, "biography", "short")
    engine.set_fact(ANN, "biography", "x" * 30_000)
    assert engine.list(ANN) == ()
    assert [fact.version for fact in engine.fact_history(ANN, "biography")] == [1, 2]


def test_turns_of_a_session_that_came_alive_since_the_plan_stay(engine: MemoryEngine, clock: FakeClock) -> None:
    """Applying a plan protects the last turns of sessions that are live now."""
    engine.add_turns(ANN, "s", [Turn("user", "My cat is called Miso.", id="1")])
    clock.advance(hours=2)
    plan = engine.plan_forgetting(ANN, ratio=1.0)
    assert len(plan.steps) == 1
    engine.add_turns(ANN, "s", [Turn("assistant", "A lovely name.", id="2")])
    report = engine.forget(ANN, plan)
    assert report.applied == ()
    assert list(report.skipped.values()) == ["protected"]


def test_taking_back_ones_words_leaves_those_of_others(engine: MemoryEngine) -> None:
    """Two people who say the same are two statements; one of them may take theirs back."""
    said = [Turn("user", "I like green tea.", id=name, speaker=name) for name in ("Ann", "Bob")]
    first, _ = engine.add_turns(ANN, "s", said)
    assert engine.release(ANN, [first.id or ""]) == (first.id,)
    assert [memory.speaker for memory in engine.list(ANN)] == ["Bob"]


def test_an_erasure_by_ids_leaves_waiting_turns_alone(tmp_path: Path) -> None:
    """Turns that wait for the database are dropped only where they are meant."""
    file = tmp_path / "memory.db"
    settings = Settings(store=StoreSettings(busy_timeout=0.05))
    with MemoryEngine.open(f"sqlite:///{file}", embedder="hash", settings=settings) as engine:
        outcome = engine.remember(ANN, "The office is in Oslo.")
        chat = engine.conversation(ANN, "s")
        with _Locked(file):
            chat.add([Turn("user", "I play the cello.")])
        engine.erase(ANN, ids=[outcome.id or ""])
        assert [turn.content for turn in chat.messages()] == ["I play the cello."]


def test_a_refused_turn_leaves_no_trace_in_the_buffer(tmp_path: Path) -> None:
    """After misuse in one session the buffer still drops the oldest turns of the others."""
    file = tmp_path / "memory.db"
    settings = Settings(store=StoreSettings(busy_timeout=0.05), context=ContextSettings(retry_buffer=1))
    with MemoryEngine.open(f"sqlite:///{file}", embedder="hash", settings=settings) as engine:
        with pytest.raises(InvalidInput):
            engine.conversation(ANN, "a").add([Turn("nobody", "hello")])  # type: ignore[arg-type]
        chat = engine.conversation(ANN, "b")
        with _Locked(file):
            chat.add([Turn("user", "one"), Turn("user", "two")])
            assert [turn.content for turn in chat.messages()] == ["two"]


def test_reading_needs_no_writing(tmp_path: Path) -> None:
    """While another process writes, `get` and `list` answer though uses wait, and no use is lost."""
    file = tmp_path / "memory.db"
    settings = Settings(store=StoreSettings(busy_timeout=0.05))
    with MemoryEngine.open(f"sqlite:///{file}", embedder="hash", settings=settings) as engine:
        saved = engine.remember(ANN, "The office is in Oslo.").id or ""
        engine.recall(ANN, "Where is the office?")
        with _Locked(file):
            assert engine.get(ANN, saved) is not None
            assert len(engine.list(ANN)) == 1
            with pytest.raises(StoreUnavailable):
                engine.remember(ANN, "Lunch is at noon.")
        found = engine.get(ANN, saved)
        assert found is not None
        assert found.access_count == 1


def test_a_secret_in_a_question_is_not_embedded() -> None:
    """An embedder sees a question without its secrets."""
    embedder = _Listening()
    with MemoryEngine.open("sqlite://", embedder=embedder) as engine:
        engine.recall(ANN, "my password is Tr0ub4dor&3, where do I use it?")
    assert embedder.heard
    assert not any("Tr0ub4dor" in text for text in embedder.heard)


def test_how_old_is_no_question_about_the_past(engine: MemoryEngine) -> None:
    """Asking for an age tells no history."""
    engine.remember(ANN, "My dog is 4 years old.", key="dog")
    engine.remember(ANN, "My dog is 5 years old.", key="dog")
    hits = engine.recall(ANN, "How old is my dog?").hits
    assert [hit.memory.state for hit in hits] == [State.ACTIVE]


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("everything about Ann Lee!?", "Ann Lee"),
        ("Please forget all you know about C++.", "C++"),
        ("请忘掉关于小明的一切。", "小明"),
        ("关于王芳的所有信息！", "王芳"),
        ("the guest password", "the guest password"),
    ],
)
def test_the_subject_of_a_wish_to_forget(words: str, meant: str) -> None:
    """What is left of "everything about X" is X, in both languages."""
    assert subject(words) == meant


_LONG = 20_000
_HOSTILE = (
    "everything about " + "!" * _LONG + "x",
    " " * _LONG + "x",
    "ok" + " " * _LONG + "9",
    "ok" + "~" * _LONG + "9",
    "一" * _LONG,
    "!" * _LONG,
)


@pytest.mark.parametrize("text", _HOSTILE, ids=range(len(_HOSTILE)))
@pytest.mark.parametrize(
    "rule",
    [
        subject,
        lambda text: admission.assess(text, WriteSettings()),
        lambda text: admission.turn_importance(text, role="user", settings=WriteSettings()),
        lambda text: entities.contains_identifier("Ann", text),
    ],
    ids=["subject", "assess", "turn_importance", "contains_identifier"],
)
def test_hostile_text_costs_linear_time(rule: Callable[[str], object], text: str) -> None:
    """Twenty thousand characters are read in a moment, whatever they are."""
    started = time.process_time()
    rule(text)
    assert time.process_time() - started < 1.0


def test_uses_are_counted_with_the_next_write(tmp_path: Path) -> None:
    """A recall counts as use once something is written."""
    with MemoryEngine.open(f"sqlite:///{tmp_path / 'memory.db'}", embedder="hash") as engine:
        engine.remember_many(ANN, (Note("The office is in Oslo."),))
        engine.recall(ANN, "Where is the office?")
        engine.remember(ANN, "Lunch is at noon.")
        assert [memory.access_count for memory in engine.list(ANN)] == [1, 0]


class _Listening(FixedEmbedder):
    def __init__(self) -> None:
        super().__init__()
        self.heard: list[str] = []

    def embed(self, texts: Sequence[str]) -> Vectors:
        self.heard += texts
        return super().embed(texts)

    def embed_query(self, text: str) -> Vectors:
        self.heard.append(text)
        return super().embed_query(text)


class _Locked:
    """Another process that writes for as long as the block lasts."""

    def __init__(self, file: Path) -> None:
        self._other = sqlite3.connect(file, isolation_level=None)

    def __enter__(self) -> None:
        self._other.execute("BEGIN IMMEDIATE")

    def __exit__(self, *_: object) -> None:
        self._other.execute("ROLLBACK")
        self._other.close()
