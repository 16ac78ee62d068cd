"""The story of the project: well formed, answerable from memory, and from nothing else."""

from collections.abc import Sequence
from itertools import pairwise

import pytest

from sf_ams_core.cli.assistant import memory_assistant
from sf_ams_core.cli.protocol import ChatRequest
from sf_ams_core.cli.story import FIRST_DAY, SEQUEL, STORY, Beat
from sf_ams_core.rules.text import MEMORY_HEADER_EN, MEMORY_TAG, language

ALL = STORY + SEQUEL
ASKS = [(place, beat) for place, beat in enumerate(ALL) if beat.kind == "ask"]
RECENT = 3  # what the user said last in the session, as turns


def told_before(place: int) -> list[Beat]:
    return [beat for beat in ALL[:place] if beat.kind != "ask"]


def answer(ask: Beat, told: Sequence[Beat]) -> str:
    """The assistant's answer with `told` in its prompt: the last of the session as turns, the rest as memories."""
    recent = [beat for beat in told if beat.session == ask.session][-RECENT:]
    memories = [
        f"- [mem_{place:04}] (dialogue, importance 0.5, 2026-01-{beat.day:02}, user) {beat.text}"
        for place, beat in enumerate(told)
        if beat not in recent
    ]
    block = "\n".join([f"<{MEMORY_TAG}>", MEMORY_HEADER_EN, *memories, f"</{MEMORY_TAG}>"])
    turns = [{"role": "user", "content": beat.text} for beat in [*recent, ask]]
    return memory_assistant(ChatRequest(({"role": "system", "content": block}, *turns))).content or ""


def outdated(beat: Beat, ask: Beat) -> bool:
    return bool(ask.avoid) and not Beat(1, "s", "en", "ask", "", avoid=ask.avoid).accepts(beat.text)


@pytest.mark.parametrize(("place", "ask"), ASKS, ids=[ask.text for _, ask in ASKS])
def test_a_good_memory_answers(place: int, ask: Beat) -> None:
    """Every question is answered rightly when what was said is in the prompt and what is out of date is not."""
    told = [beat for beat in told_before(place) if not outdated(beat, ask)]
    assert ask.accepts(answer(ask, told))


@pytest.mark.parametrize(("place", "ask"), ASKS, ids=[ask.text for _, ask in ASKS])
def test_no_memory_knows_nothing(place: int, ask: Beat) -> None:
    """Without anything in the prompt the assistant knows no answer."""
    assert answer(ask, []) in ("I don't know yet.", "我还不知道。")


@pytest.mark.parametrize(("place", "ask"), ASKS, ids=[ask.text for _, ask in ASKS])
def test_a_question_does_not_give_itself_away(place: int, ask: Beat) -> None:
    """No question holds its own answer, and every answer was told before or is that nothing was."""
    assert not ask.accepts(ask.text)
    told = "\n".join(beat.text for beat in told_before(place))
    unknown = "don't know" in ask.expect[0]
    assert unknown or Beat(1, "s", "en", "ask", "", ask.expect).accepts(told)


def test_the_story_is_told_in_order() -> None:
    """Days never run back, every session is told in one go, and the sequel comes after the story."""
    days = [beat.day for beat in ALL]
    assert days == sorted(days)
    starts = [new.session for old, new in pairwise(ALL) if new.session != old.session]
    assert len(starts) == len(set(starts))
    assert {beat.day for beat in STORY} <= set(range(1, 15))
    assert FIRST_DAY.weekday() == 0


def test_only_questions_have_answers() -> None:
    """Questions expect something; nothing else does."""
    assert all(bool(beat.expect) == (beat.kind == "ask") for beat in ALL)


def test_languages_are_labelled() -> None:
    """The label of each beat is the language the library answers in."""
    assert all(language(beat.text) == beat.lang for beat in ALL)


def test_most_of_it_is_trifles_and_every_kind_occurs() -> None:
    """The story has about sixty beats of all kinds in both languages, the sequel about fifteen."""
    assert 55 <= len(STORY) <= 70
    assert 12 <= len(SEQUEL) <= 20
    assert {beat.kind for beat in STORY} == {"say", "ask", "correct", "forget", "chat"}
    assert {beat.lang for beat in SEQUEL} == {"en", "zh"}


def test_an_answer_needs_one_of_each_alternative() -> None:
    """`a|b` is satisfied by either, whatever the case; a string to avoid spoils the answer."""
    ask = Beat(1, "s", "en", "ask", "When?", ("1 November|11月1", "demo"), ("27 October",))
    assert ask.accepts("The DEMO is on 1 november.")
    assert ask.accepts("demo：11月1日")
    assert not ask.accepts("1 November")
    assert not ask.accepts("The demo moved from 27 October to 1 November.")
