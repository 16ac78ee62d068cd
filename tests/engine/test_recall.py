"""The right memory on top, nobody else's, and only what may be seen."""

import json
import logging
import math
from datetime import timedelta

import pytest

from sf_ams_core import InvalidFilter, InvalidInput, MemoryEngine, Note, Scope, Turn
from sf_ams_core.testing import BrokenEmbedder


def found(engine, scope, query, **options):
    return [hit.content for hit in engine.recall(scope, query, **options)]


@pytest.fixture
def filled(engine, scope):
    engine.remember_many(
        scope,
        [
            Note("My account number ends in 8890.", type="fact", metadata={"topic": "payment", "rank": 1}),
            Note("用户结算账号尾号为8890", type="fact"),
            Note("I prefer short answers.", type="preference", importance=0.9),
            Note("The demo of Stellar AI is on 27 October.", type="deadline", entities=["Stellar AI"]),
            Note("星辰AI的演示场地是三号会议室", type="fact"),
            Note("We had noodles for lunch.", type="event", importance=0.1),
        ],
    )
    return engine


@pytest.mark.parametrize(
    ("query", "answer"),
    [
        ("尾号", "用户结算账号尾号为8890"),
        ("场地", "星辰AI的演示场地是三号会议室"),
        ("How does my account number end?", "My account number ends in 8890."),
        ("when is the demo", "The demo of Stellar AI is on 27 October."),
        ("answers", "I prefer short answers."),
    ],
)
def test_words_find_their_memory_in_both_languages(filled, scope, query, answer):
    """Two Chinese characters or a stem are enough to bring the memory to the top."""
    assert found(filled, scope, query, k=1) == [answer]


def test_a_score_is_the_sum_of_its_named_parts(filled, scope):
    """Every addend of a hit is told, and they add up."""
    for preset in ("balanced", "seed"):
        for hit in filled.recall(scope, "When is the demo of Stellar AI?", preset=preset):
            assert math.isclose(hit.score, math.fsum(hit.parts.values()), abs_tol=1e-9)


def test_hits_are_ordered_and_not_more_than_k(filled, scope):
    """Scores fall, and k is a limit."""
    hits = filled.recall(scope, "account demo answers", k=3).hits
    assert len(hits) == 3
    assert [h.score for h in hits] == sorted((h.score for h in hits), reverse=True)


def test_a_recall_is_true_only_with_hits(engine, scope):
    """An empty answer is false and still has a trace."""
    nothing = engine.recall(scope, "anything at all")
    assert not nothing
    assert nothing.trace_id.startswith("trace_")
    assert list(nothing) == []


@pytest.mark.parametrize("query", ["", "   ", "\x00", "🙂", "？", "a", "%", '" OR 1=1 --', "*", "NEAR(", "(" * 500])
def test_odd_questions_get_an_answer_without_an_error(filled, scope, query):
    """Blank, symbols and database syntax are just questions."""
    filled.recall(scope, query)


def test_one_character_and_emoji_queries_find_what_holds_them(engine, scope):
    """A single Chinese character and an emoji are words."""
    engine.remember(scope, "我家有一只猫")
    engine.remember(scope, "The party 🎉 starts at eight")
    engine.remember(scope, "The report is blue")
    assert found(engine, scope, "猫", k=1) == ["我家有一只猫"]
    assert found(engine, scope, "🎉", k=1) == ["The party 🎉 starts at eight"]


def test_the_seeds_formula_is_exact(url, scope, clock):
    """0.5 sim + 0.3 exp(-age / 7 d) + 0.2 importance, to 1e-9."""

    class Fixed:
        space = "fixed/2"

        def embed(self, texts):
            return [[0.6, 0.8] if "demo" in text else [0.0, 1.0] for text in texts]

        def embed_query(self, text):
            return [1.0, 0.0]

    with MemoryEngine.open(url, embedder=Fixed(), clock=clock) as engine:
        engine.remember(scope, "The demo is in May.", importance=0.9)
        clock.advance(days=14)
        hit = engine.recall(scope, "demo?", preset="seed").hits[0]
    expected = 0.5 * 0.6 + 0.3 * math.exp(-2.0) + 0.2 * 0.9
    assert math.isclose(hit.score, expected, abs_tol=1e-7)
    assert math.isclose(hit.parts["recency"], 0.3 * math.exp(-2.0), abs_tol=1e-9)
    assert math.isclose(hit.parts["importance"], 0.18, abs_tol=1e-9)


def test_a_year_old_exact_match_beats_a_fresh_unrelated_note(engine, scope, clock):
    """Age does not bury an answer."""
    engine.remember(scope, "The wifi password of the cabin hangs behind the door.")
    clock.advance(days=365)
    engine.remember(scope, "We had noodles for lunch today.", importance=1.0)
    assert "cabin" in found(engine, scope, "Where is the wifi password of the cabin?", k=1)[0]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"types": ("deadline",)}, 1),
        ({"types": ["fact"]}, 3),
        ({"types": "preference"}, 1),
        ({"min_importance": 0.9}, 1),
        ({"entities": ["stellar  ai"]}, 1),
        ({"metadata": {"topic": "payment"}}, 1),
        ({"metadata": {"topic": "payment", "rank": 1.0}}, 1),
        ({"metadata": {"topic": "other"}}, 0),
        ({"visible": ("team",)}, 0),
        ({"visible": ()}, 0),
        ({"include": ("cold",)}, 0),
        ({"session": "none"}, 0),
    ],
)
def test_filters_narrow_before_ranking(filled, scope, options, expected):
    """A filter lets through what it names and nothing else."""
    assert len(filled.recall(scope, "account demo answers lunch 星辰 账号", k=10, **options).hits) == expected


def test_time_filters_use_when_it_was_said(engine, scope, clock):
    """`since` and `until` compare the time of speaking, naive times as UTC."""
    for days in (1, 5, 9):
        engine.remember(scope, f"note number {days} about cats", occurred_at=clock.now() - timedelta(days=days))
    recent = found(engine, scope, "cats note", since=clock.now() - timedelta(days=6), k=9)
    older = found(engine, scope, "cats note", until=(clock.now() - timedelta(days=4)).replace(tzinfo=None), k=9)
    assert sorted(recent) == ["note number 1 about cats", "note number 5 about cats"]
    assert sorted(older) == ["note number 5 about cats", "note number 9 about cats"]


def test_visibility_is_closed_unless_named(engine, scope):
    """A label that the caller doesn't name is never seen."""
    engine.remember(scope, "The salary of Ann is in the vault.", visibility="hr")
    assert not engine.recall(scope, "salary of Ann")
    assert engine.recall(scope, "salary of Ann", visible=("default", "hr"))


def test_types_leave_dialogue_out_unless_it_is_named(engine, scope):
    """`types` excludes turns, `turns=False` too, and naming dialogue brings them back."""
    engine.add_turns(scope, "s", [Turn("assistant", "Cats sleep sixteen hours a day.", id="1")])
    engine.remember(scope, "My cats are called Tom and Kit.", type="fact")
    assert found(engine, scope, "cats", types=("fact",)) == ["My cats are called Tom and Kit."]
    assert found(engine, scope, "cats", turns=False) == ["My cats are called Tom and Kit."]
    assert len(found(engine, scope, "cats", types=("fact", "dialogue"))) == 2


def test_an_expired_memory_is_gone_at_its_second(engine, scope, clock):
    """Time to live wins without any upkeep."""
    engine.remember(scope, "The door code today is blue.", ttl=60)
    assert found(engine, scope, "door code")
    clock.advance(seconds=60)
    assert not found(engine, scope, "door code")


def test_a_statement_is_shown_once(engine, scope):
    """The same words in several turns take one place."""
    for session in ("a", "b", "c"):
        engine.add_turns(scope, session, [Turn("user", "I am allergic to peanuts!", id="1")])
    assert found(engine, scope, "allergic to peanuts?") == ["I am allergic to peanuts!"]


@pytest.mark.parametrize(
    ("now", "then", "old", "new"),
    [
        ("When is the demo?", "When was the demo originally?", "The demo is on 27 October.", "The demo is on 1 May."),
        ("演示日期是哪天", "原来的演示日期是哪天", "演示日期是10月27日", "演示日期是11月1日"),
    ],
)
def test_history_is_told_only_when_it_is_asked_for(engine, scope, now, then, old, new):
    """A superseded statement comes only with a history word, directly behind its successor."""
    engine.remember(scope, old)
    engine.remember(scope, new)
    engine.remember(scope, "The demo room is green. 演示在绿色房间")
    assert old not in found(engine, scope, now)
    told = found(engine, scope, then)
    assert told.index(old) == told.index(new) + 1


def test_as_of_shows_what_held_then(engine, scope, clock):
    """Asked about a moment, the version of that moment answers alone."""
    engine.remember(scope, "The office is in Rome.")
    clock.advance(days=10)
    middle = clock.now()
    clock.advance(days=10)
    engine.remember(scope, "The office is in Oslo.")
    assert found(engine, scope, "Where is the office?", as_of=middle) == ["The office is in Rome."]
    assert found(engine, scope, "Where is the office?") == ["The office is in Oslo."]


def test_recall_counts_as_use_and_the_plan_sees_it(engine, scope):
    """Use is written behind and never missed by what follows."""
    kept = engine.remember(scope, "My cats are called Tom and Kit.")
    engine.recall(scope, "cats")
    engine.recall(scope, "cats")
    assert engine.get(scope, kept.id).access_count == 2
    assert engine.plan_forgetting(scope, ratio=1.0).steps[0].access_count == 2


def test_a_broken_embedder_degrades_the_recall(url, scope):
    """Words still find, the vector route is named, and writes are embedded once it is well again."""
    broken = BrokenEmbedder("raise")
    with MemoryEngine.open(url, embedder=broken) as engine:
        kept = engine.remember(scope, "My cats are called Tom and Kit.")
        answer = engine.recall(scope, "cats")
        assert answer.degraded == ("vector",)
        assert answer.hits[0].memory.id == kept.id
        assert engine.stats(scope).awaiting_vectors == 1
        assert engine.health().counters["fault.embedder"] >= 1


def test_every_recall_is_one_structured_log_line_without_text(engine, scope, caplog):
    """Ids and counts only, and the fields that an operator greps for."""
    engine.remember(scope, "My cats are called Tom and Kit.")
    with caplog.at_level(logging.INFO, logger="sf_ams"):
        answer = engine.recall(scope, "cats please")
    lines = [json.loads(r.getMessage()) for r in caplog.records if '"memory_hit"' in r.getMessage()]
    assert len(lines) == 1
    assert lines[0]["trace_id"] == answer.trace_id
    assert {"retrieved_count", "sources", "latency_ms"} <= lines[0].keys()
    assert "cats" not in caplog.text


@pytest.mark.parametrize("k", [0, -1, 1_001, 10**9, 2.5, True, None])
def test_k_out_of_range_is_misuse(engine, scope, k):
    """k is a whole number from 1 to 1000."""
    with pytest.raises(InvalidInput):
        engine.recall(scope, "x", k=k)


@pytest.mark.parametrize(
    "options",
    [
        {"types": ("nonsense",)},
        {"include": ("deleted",)},
        {"include": ()},
        {"min_importance": 2},
        {"min_importance": float("nan")},
        {"metadata": {"$where": "1"}},
        {"metadata": {"$or": []}},
        {"metadata": {"a": {"$gte": 1}}},
        {"since": "yesterday"},
        {"visible": ("",)},
    ],
)
def test_a_filter_that_cannot_be_meant_is_refused_and_never_widened(engine, scope, options):
    """Unknown types, states, operators and values raise."""
    with pytest.raises(InvalidFilter):
        engine.recall(scope, "x", **options)


@pytest.mark.parametrize("key", ["x' OR '1'='1' --", "a') UNION SELECT 1", '$x.a"]', "k" * 10_000, "%"])
def test_filter_keys_are_bound_never_spliced(engine, scope, key):
    """A hostile key matches nothing and breaks nothing."""
    engine.remember(scope, "My cats are called Tom and Kit.")
    if key.startswith("$"):
        with pytest.raises(InvalidFilter):
            engine.recall(scope, "cats", metadata={key: 1})
    else:
        assert not engine.recall(scope, "cats", metadata={key: 1})
        engine.remember(scope, "My dogs are called Max and Moe.", metadata={key: 1})
        assert len(engine.recall(scope, "dogs", metadata={key: 1}).hits) == 1


def test_a_foreign_scope_sees_nothing(engine, scope):
    """Tenant, user and namespace each part memories."""
    kept = engine.remember(scope, "My cats are called Tom and Kit.")
    for other in (Scope("acme", "bob"), Scope("evil", "ann"), Scope("acme", "ann", "other"), Scope("acme", "Ann")):
        assert not engine.recall(other, "cats")
        assert engine.get(other, kept.id) is None
        assert engine.list(other) == ()
        assert engine.history(other, kept.id) == ()
