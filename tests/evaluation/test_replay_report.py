"""A replay says conversations through each framework and reports what it measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from sf_ams_core import MemoryEngine, Scope
from sf_ams_core.errors import InvalidInput
from sf_ams_core.evaluation.datasets import Dialogue, Question, Utterance
from sf_ams_core.evaluation.drivers import Framework
from sf_ams_core.evaluation.replay import PROMPT_SAMPLES, replay, work
from sf_ams_core.testing import BrokenEmbedder

FRAMEWORKS: tuple[Framework, ...] = ("core", "langchain", "llamaindex")
START = datetime(2024, 3, 1, 9, tzinfo=UTC)

TALK = [
    ("monday", "user", "I moved to Lisbon in January and work as a pastry cook."),
    ("monday", "assistant", "Lisbon is lovely in spring. How is the new kitchen?"),
    ("monday", "user", "Busy. My sister Ines plays the cello in an orchestra."),
    ("monday", "assistant", "What does she play this season?"),
    ("friday", "user", "我对花生过敏，点菜的时候要提醒我。"),
    ("friday", "assistant", "好的，我会提醒你。"),
    ("friday", "user", "周末我打算和同事去爬山。"),
    ("friday", "assistant", "祝你们玩得开心。"),
]


def spoken(lines: Sequence[tuple[str, str, str]]) -> tuple[Utterance, ...]:
    return tuple(
        Utterance(f"t{number}", session, speaker, text, START + timedelta(minutes=number))
        for number, (session, speaker, text) in enumerate(lines)
    )


ANN = Dialogue(
    "ann-1",
    "ann",
    spoken(TALK),
    (
        Question("q0", "Which instrument does Ines play?", category="family", evidence=("t2",)),
        Question("q1", "我对什么过敏？", category="health", evidence=("t4",)),
        Question("q2", "What is the name of my dog?", category="health", abstention=True),
    ),
)
BO = Dialogue(
    "bo-1",
    "bo",
    spoken([("one", "Bo", "The boiler was repaired by a plumber called Gus."), ("one", "Kim", "Gus is expensive!")]),
    (Question("q0", "Who repaired the boiler?", category="home", evidence=("t0",)),),
)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[MemoryEngine]:
    with MemoryEngine.open(f"sqlite:///{tmp_path}/memory.db", embedder="hash") as opened:
        yield opened


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_every_framework_finds_what_was_said(engine: MemoryEngine, framework: Framework) -> None:
    """Turns said through a framework are recalled through it and cite the ids that they came with."""
    report = replay([ANN, BO], framework=framework, engine=engine)
    overall = report.scores[0]
    assert (overall.recall_5.mean, overall.recall_5.n) == (1.0, 3)
    assert (report.framework, report.turns, report.questions) == (framework, 10, 4)
    assert report.faults == {}
    assert report.degraded == 0


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_speaker_and_a_time_reach_the_transcript(engine: MemoryEngine, framework: Framework) -> None:
    """Who spoke and when survives each framework's messages."""
    replay([BO], framework=framework, engine=engine, questions=False)
    first = engine.turns(Scope("replay", "bo", "bo-1"), "one")[0]
    assert (first.id, first.role, first.speaker, first.at) == ("t0", "user", "Bo", START)


def test_categories_follow_the_whole(engine: MemoryEngine) -> None:
    """All questions with evidence come first, then each category with its own count."""
    scores = replay([ANN, BO], engine=engine).scores
    assert [(each.category, each.recall_10.n) for each in scores] == [
        (None, 3),
        ("family", 1),
        ("health", 1),
        ("home", 1),
    ]


def test_conversations_do_not_see_each_other(engine: MemoryEngine) -> None:
    """A question about somebody else's conversation finds nothing of it."""
    stranger = replace(BO, questions=(Question("q", "Which instrument does Ines play?", evidence=("t2",)),))
    assert replay([ANN, stranger], engine=engine).scores[0].recall_10.mean == pytest.approx(2 / 3)


def test_without_questions_only_writing_and_prompts_are_measured(engine: MemoryEngine) -> None:
    """No question, no score, no latency."""
    report = replay([ANN], engine=engine, questions=False)
    assert (report.questions, report.scores, report.recall_ms, report.degraded) == (0, (), None, None)
    assert report.tokens.with_memory.n == 4


def test_an_outdated_value_is_judged_where_the_question_is_about_now(engine: MemoryEngine) -> None:
    """Questions about the past ask for the old value and are left out."""
    lines = [("one", "user", "My locker code is 4411 at the pool."), ("two", "user", "The gym opens at nine.")]
    now = Question("q0", "When does the gym open?", evidence=("t1",), stale=("t0",))
    past = Question("q1", "What was my locker code before?", evidence=("t0",), stale=("t1",))
    stale = replay([Dialogue("c", "u", spoken(lines), (now, past))], engine=engine).stale
    assert stale is not None
    assert (stale.old_above_new.n, stale.old_above_new.mean) == (1, 0.0)


def long_talk(turns: int) -> Dialogue:
    lines = [
        ("long", ("user", "assistant")[n % 2], f"Remark {n}: the train number {n} left from platform {n + 1} on time.")
        for n in range(turns)
    ]
    return Dialogue("long", "cy", spoken(lines))


def test_prompts_are_weighed_a_bounded_number_of_times(engine: MemoryEngine) -> None:
    """However long a conversation is, at most 40 of its prompts are built."""
    tokens = replay([long_talk(170)], engine=engine, questions=False).tokens
    assert 25 <= tokens.with_memory.n <= PROMPT_SAMPLES
    assert tokens.full_history.n == tokens.with_memory.n


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_long_conversation_costs_less_with_memory(engine: MemoryEngine, framework: Framework) -> None:
    """Recent turns and a block are fewer tokens than everything said so far."""
    tokens = replay([long_talk(100)], framework=framework, engine=engine, questions=False).tokens
    assert 0 < tokens.with_memory.mean < tokens.full_history.mean


def test_saying_it_again_adds_nothing(engine: MemoryEngine) -> None:
    """A kept database can be replayed into again: turns are known by their ids."""
    replay([ANN], engine=engine, questions=False)
    before = engine.stats(Scope("replay", "ann", "ann-1"))
    replay([ANN], engine=engine, questions=False)
    assert engine.stats(Scope("replay", "ann", "ann-1")) == before


def test_two_conversations_may_not_share_a_scope(engine: MemoryEngine) -> None:
    """The same id twice would mix two memories, so it is refused before anything is written."""
    with pytest.raises(InvalidInput, match="ann-1"):
        replay([ANN, ANN], engine=engine)
    assert engine.stats(Scope("replay", "ann", "ann-1")).turns == 0


def test_an_unknown_framework_is_refused(engine: MemoryEngine) -> None:
    """The message lists what there is."""
    with pytest.raises(InvalidInput, match="core, langchain or llamaindex"):
        replay([ANN], framework="autogen", engine=engine)  # type: ignore[arg-type]


def test_progress_adds_up_to_the_work(engine: MemoryEngine) -> None:
    """A bar that follows the callback ends full."""
    steps: list[int] = []
    replay([ANN, BO], engine=engine, progress=lambda _what, done: steps.append(done))
    assert sum(steps) == work([ANN, BO]) == 14


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_recall_that_went_without_a_part_is_counted(tmp_path: Path, framework: Framework) -> None:
    """With the model down every recall is degraded, and says so even through a retriever that cannot."""
    with MemoryEngine.open(f"sqlite:///{tmp_path}/broken.db", embedder=BrokenEmbedder()) as engine:
        report = replay([ANN], framework=framework, engine=engine)
    assert report.degraded == 1.0
    assert report.faults
