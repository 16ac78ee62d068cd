"""Forgetting by value: planned as data, rechecked, journaled, undoable."""

import math

import pytest

from sf_ams_core import (
    ForgettingPlan,
    ForgettingReport,
    InvalidInput,
    MemoryEngine,
    Note,
    NotFound,
    Scope,
    Settings,
    State,
    Turn,
)
from sf_ams_core.settings import ForgettingSettings


@pytest.fixture
def filled(engine, scope, clock):
    """Ten memories, the first the most important."""
    topics = "rivers lamps cheese violins marble tulips anchors pepper glaciers wool".split()
    engine.remember_many(
        scope,
        [Note(f"The {t} were bought in May.", importance=1 - n / 10, type="event") for n, t in enumerate(topics)],
    )
    return engine


def ids_of(engine, scope, **filters):
    return [m.id for m in engine.list(scope, **filters)]


def test_the_seeds_score_is_exact(engine, scope, clock):
    """0.5 importance + 0.3 (1 - unseen days / 30) + 0.2 min(uses / 10, 1), each part told."""
    kept = engine.remember(scope, "The office is in Rome.", importance=0.8)
    for _ in range(4):
        engine.recall(scope, "office")
    clock.advance(days=12)
    step = engine.plan_forgetting(scope, ratio=1.0).steps[0]
    assert step.id == kept.id
    assert math.isclose(step.score, 0.5 * 0.8 + 0.3 * (1 - 12 / 30) + 0.2 * 0.4, abs_tol=1e-9)
    assert math.isclose(step.score, math.fsum(step.parts.values()), abs_tol=1e-12)


def test_the_exponential_form_and_the_age_penalty_are_settings(url, scope, clock):
    """The seed's other forms are a setting away."""
    forms = ForgettingSettings(recency_form="exponential", recency_tau_days=7, age_penalty=0.1)
    with MemoryEngine.open(url, embedder="hash", clock=clock, settings=Settings(forgetting=forms)) as engine:
        engine.remember(scope, "The office is in Rome.", importance=0.8)
        clock.advance(days=15)
        step = engine.plan_forgetting(scope, ratio=1.0).steps[0]
    assert math.isclose(step.score, 0.4 + 0.3 * math.exp(-15 / 7) - 0.1 * 15 / 30, abs_tol=1e-9)


def test_the_least_worth_keeping_goes_first(filled, scope):
    """A ratio takes the lowest scores, and nothing is changed by planning."""
    plan = filled.plan_forgetting(scope, ratio=0.3)
    assert [s.id for s in plan.steps] == list(reversed(ids_of(filled, scope)))[:3]
    assert (plan.considered, len(ids_of(filled, scope))) == (10, 10)


@pytest.mark.parametrize(
    ("budget", "left"),
    [
        ({"ratio": 0.25}, 8),
        ({"ratio": 0}, 10),
        ({"ratio": 1}, 0),
        ({"capacity": 10}, 10),
        ({"capacity": 5}, 4),
        ({"threshold": 0.5}, 7),
        ({"keep_chars": 0}, 0),
        ({"keep_chars": 10_000}, 10),
        ({}, 9),
    ],
)
def test_each_budget_leaves_what_it_says(filled, scope, budget, left):
    """Ratio, capacity with its low-water mark, threshold and characters each decide how much stays."""
    filled.forget(scope, filled.plan_forgetting(scope, **budget))
    assert len(ids_of(filled, scope)) == left


def test_a_scope_over_its_capacity_is_brought_below_it_without_being_told(url, scope):
    """Without a budget a plan takes the ratio, or down to the low-water mark where the scope is over its capacity."""
    rules = Settings(forgetting=ForgettingSettings(capacity=6))
    with MemoryEngine.open(url, embedder="hash", settings=rules) as engine:
        engine.remember_many(scope, [Note(f"Parcel {n} went to shelf {n}.") for n in range(10)])
        assert len(engine.plan_forgetting(scope).steps) == 10 - 5


def test_a_budget_of_characters_or_tokens_is_met_as_closely_as_whole_records_allow(filled, scope):
    """What stays fits, and one more record would not."""
    sizes = {m.id: len(m.content) for m in filled.list(scope)}
    plan = filled.plan_forgetting(scope, keep_chars=100)
    left = sum(sizes.values()) - sum(s.chars for s in plan.steps)
    assert left <= 100 < left + plan.steps[-1].chars
    assert 0 < len(filled.plan_forgetting(scope, keep_tokens=30).steps) < 10


def test_pins_and_live_turns_stay_even_over_the_budget(engine, scope, clock):
    """A pinned memory and the recent turns of a live session are protected; the plan says by how much it is over."""
    pinned = engine.remember(scope, "The office is in Rome.", importance=0.0)
    engine.pin(scope, pinned.id)
    engine.add_turns(scope, "live", [Turn("user", "hello there"), Turn("assistant", "hello")])
    plan = engine.plan_forgetting(scope, keep_chars=5)
    assert plan.steps == ()
    assert plan.protected == 3
    assert plan.over_by == len("The office is in Rome.") + len("hello there") + len("hello") - 5
    clock.advance(minutes=31)
    assert len(engine.plan_forgetting(scope, keep_chars=5).steps) == 2
    engine.unpin(scope, pinned.id)
    assert len(engine.plan_forgetting(scope, keep_chars=5).steps) == 3


def test_what_expired_goes_whatever_the_budget(engine, scope, clock):
    """Time to live wins: expired records are archived first, with a score below zero."""
    engine.remember(scope, "The office is in Rome.", importance=1.0, ttl=60)
    clock.advance(minutes=2)
    plan = engine.plan_forgetting(scope, ratio=0)
    assert [(s.reason, s.action, s.score) for s in plan.steps] == [("expired", "archive", -1.0)]


def test_ninety_days_unseen_and_unimportant_is_let_go(engine, scope, clock):
    """The seed's archive rule spares what is important or was seen."""
    dull = engine.remember(scope, "The bus was late.", importance=0.3)
    engine.remember(scope, "Ann is allergic to peanuts.", importance=0.95)
    clock.advance(days=90)
    assert [s.id for s in engine.plan_forgetting(scope, ratio=0).steps] == [dull.id]


def test_forgetting_demotes_and_undo_brings_back_exactly_that(filled, scope):
    """A demoted memory is out of recall, and an undone report leaves no trace in it."""
    before = filled.list(scope)
    report = filled.forget(scope, filled.plan_forgetting(scope, ratio=0.5))
    gone = [s.id for s in report.applied]
    assert {filled.get(scope, i).state for i in gone} == {State.COLD}
    assert not {h.memory.id for h in filled.recall(scope, "bought in May", k=10)} & set(gone)
    assert sorted(filled.undo(report)) == sorted(gone)
    assert [(m.id, m.state, m.importance) for m in filled.list(scope)] == [
        (m.id, m.state, m.importance) for m in before
    ]
    assert filled.undo(report) == ()


def test_plans_and_reports_are_json_with_their_scope(filled, scope):
    """Both survive the trip through text and still work."""
    plan = ForgettingPlan.from_json(filled.plan_forgetting(scope, ratio=0.2).to_json())
    report = ForgettingReport.from_json(filled.forget(scope, plan).to_json())
    assert plan.scope == report.scope == scope
    assert len(filled.undo(report)) == 2


def test_a_plan_overtaken_by_events_is_refused_step_by_step(filled, scope):
    """What was used, pinned or erased since the plan is spared, the rest is done."""
    plan = filled.plan_forgetting(scope, ratio=0.5)
    used, pinned, erased, released = (step.id for step in plan.steps[:4])
    filled.recall(scope, filled.get(scope, used).content, k=1)
    filled.pin(scope, pinned)
    filled.erase(scope, ids=[erased])
    filled.release(scope, [released])
    report = filled.forget(scope, plan)
    assert report.skipped == {used: "used since", pinned: "pinned", erased: "gone", released: "state changed"}
    assert len(report.applied) == 1


def test_a_plan_of_another_scope_is_refused(filled, scope):
    """A plan works only where it was made."""
    with pytest.raises(InvalidInput):
        filled.forget(Scope("acme", "bob"), filled.plan_forgetting(scope, ratio=0.5))


def test_forget_without_a_plan_makes_one(filled, scope):
    """`forget(scope)` uses the settings' ratio."""
    assert len(filled.forget(scope).applied) == 1


@pytest.mark.parametrize(
    "budget",
    [
        {"ratio": 1.5},
        {"ratio": -0.1},
        {"capacity": -1},
        {"keep_chars": 1.5},
        {"keep_tokens": True},
        {"policy": "astrology"},
        {"ratio": 0.1, "capacity": 3},
        {"threshold": float("nan")},
        {"task": 7},
    ],
)
def test_a_budget_that_cannot_be_meant_is_refused(filled, scope, budget):
    """Misuse raises before anything is planned."""
    with pytest.raises(InvalidInput):
        filled.plan_forgetting(scope, **budget)


def test_release_is_soft_and_restore_undoes_it(engine, scope):
    """A released memory is history until it is restored."""
    kept = engine.remember(scope, "Ann's locker is number twelve.")
    assert engine.release(scope, kept.id) == (kept.id,)
    assert not engine.recall(scope, "locker number")
    assert engine.get(scope, kept.id).state is State.ARCHIVED
    assert engine.restore(scope, kept.id) == (kept.id,)
    assert engine.recall(scope, "locker number")


@pytest.mark.parametrize(
    ("words", "gone"),
    [
        ("the guest wifi password", "The guest wifi password is on the fridge."),
        ("everything about Zhao Lei", "Zhao Lei runs the night shift."),
        ("关于王小明的一切", "王小明负责夜班。"),
    ],
)
def test_release_by_words_means_what_the_words_mean(engine, scope, words, gone):
    """Words release what they name and leave the neighbours."""
    others = ["The office wifi is fast.", "Zhao Min runs the day shift.", "王小红负责白班。"]
    for content in [gone, *others]:
        engine.remember(scope, content)
    engine.release(scope, words)
    assert [m.content for m in engine.list(scope)] == others


def test_words_that_mean_nothing_are_an_error(engine, scope):
    """Nothing is released by a guess."""
    engine.remember(scope, "Ann's locker is number twelve.")
    for verb in (engine.release, lambda s, t: engine.correct(s, t, "new words for it")):
        with pytest.raises(NotFound):
            verb(scope, "the colour of the moon")
        with pytest.raises(InvalidInput):
            verb(scope, "  ")


def test_correct_by_words_keeps_what_the_memory_was(engine, scope):
    """The successor has the type and importance of what it corrects, and the old words are history."""
    old = engine.remember(scope, "The launch party is on Friday.", type="event", importance=0.9)
    outcome = engine.correct(scope, "launch party", "The launch party is on Saturday.")
    assert outcome.replaced == (old.id,)
    new = engine.get(scope, outcome.id)
    assert (new.type, new.importance) == ("event", 0.9)
    assert [m.content for m in engine.history(scope, old.id)] == [
        "The launch party is on Friday.",
        "The launch party is on Saturday.",
    ]


def test_a_foreign_id_cannot_be_released_corrected_or_pinned(engine, scope):
    """An id is worth nothing in another scope."""
    kept = engine.remember(scope, "Ann's locker is number twelve.")
    other = Scope("acme", "bob")
    for verb in (
        lambda: engine.release(other, [kept.id]),
        lambda: engine.restore(other, [kept.id]),
        lambda: engine.correct(other, [kept.id], "It is thirteen now."),
        lambda: engine.pin(other, kept.id),
        lambda: engine.set_importance(other, kept.id, 0.1),
        lambda: engine.erase(other, ids=[kept.id]),
    ):
        with pytest.raises(NotFound):
            verb()
    assert engine.get(scope, kept.id).state is State.ACTIVE


def test_locate_is_sure_only_of_whole_identifiers_and_names(engine, scope):
    """A whole identifier is sure however it is spelled; a longer one or shared words are not."""
    engine.remember(scope, "Call Ann at +86 138-0013-8000.")
    engine.remember(scope, "The order number is 2138001380001.")
    found = engine.locate(scope, "13800138000")
    assert [(c.content, c.sure) for c in found if c.sure] == [("Call Ann at +86 138-0013-8000.", True)]
    assert not any(c.sure for c in engine.locate(scope, "order papers"))


def test_a_new_session_is_forgettable_once_it_ended(engine, scope):
    """Ending a session takes the protection off its turns."""
    engine.add_turns(scope, "s", [Turn("user", "We had noodles for lunch today.")])
    assert engine.plan_forgetting(scope, ratio=1.0).steps == ()
    engine.end_session(scope, "s")
    assert [s.chars for s in engine.plan_forgetting(scope, ratio=1.0).steps if s.chars == 31]


def test_a_request_to_forget_is_not_what_is_meant_but_goes_along(engine, scope):
    """Asked in a chat, the statement and the request that repeats it are both released."""
    kept = engine.remember(scope, "There is a surprise party for Maya on Friday.")
    chat = engine.conversation(scope, "s")
    chat.add([Turn("user", "Forget the surprise party for Maya, I should not have told you.", id="ask")])
    assert chat.release("surprise party for Maya") == (kept.id,)
    assert not engine.recall(scope, "surprise party for Maya")
    assert len(engine.turns(scope, "s")) == 1


def test_what_is_being_asked_is_no_answer_to_itself(engine, scope):
    """A recall by tool never returns the asking turn."""
    engine.remember(scope, "Contact me by SMS, please.")
    chat = engine.conversation(scope, "s")
    chat.add([Turn("user", "How should you contact me?", id="ask")])
    assert [hit.content for hit in chat.recall("How should you contact me?")] == ["Contact me by SMS, please."]
