"""The measures, checked by hand on small rankings and by their bounds on any ranking."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sf_ams_core.evaluation.metrics import (
    asks_history,
    hit_at_k,
    mean_interval,
    ndcg_at_k,
    old_above_new,
    old_in_first,
    recall_at_k,
)

IDS = st.sampled_from("abcdefgh")
RANKINGS = st.lists(st.lists(IDS, max_size=3), max_size=12)
EVIDENCE = st.sets(IDS, max_size=4)


def test_recall_counts_the_share_of_evidence_cited() -> None:
    """Two of three wanted turns in the first two hits are two thirds, however often they are cited."""
    assert recall_at_k([("a",), ("a", "b"), ("c",)], ["a", "b", "c"], 2) == pytest.approx(2 / 3)


def test_a_hit_is_any_evidence_in_the_first_k() -> None:
    """One cited turn is enough, one place too late is not."""
    assert hit_at_k([("x",), ("a",)], ["a", "b"], 2)
    assert not hit_at_k([("x",), ("a",)], ["a", "b"], 1)


def test_ndcg_is_one_for_the_best_order_and_falls_with_the_place() -> None:
    """Evidence first is perfect; one place down it is worth 1 / log2(3)."""
    assert ndcg_at_k([("a",), ("x",)], ["a"], 10) == pytest.approx(1.0)
    assert ndcg_at_k([("x",), ("a",)], ["a"], 10) == pytest.approx(1 / math.log2(3))


def test_citing_the_same_turn_twice_gains_nothing() -> None:
    """A second hit on known evidence adds no gain."""
    assert ndcg_at_k([("a",), ("a",)], ["a", "b"], 10) == ndcg_at_k([("a",), ("x",)], ["a", "b"], 10)


@given(RANKINGS, EVIDENCE, st.integers(1, 12))
def test_measures_stay_between_nought_and_one(ranking: list[list[str]], evidence: set[str], k: int) -> None:
    """No ranking scores outside 0..1."""
    assert 0 <= recall_at_k(ranking, evidence, k) <= 1
    assert 0 <= ndcg_at_k(ranking, evidence, k) <= 1 + 1e-9


@given(RANKINGS, EVIDENCE, st.integers(1, 11))
def test_a_longer_list_never_recalls_less(ranking: list[list[str]], evidence: set[str], k: int) -> None:
    """Recall grows with k."""
    assert recall_at_k(ranking, evidence, k) <= recall_at_k(ranking, evidence, k + 1)


@given(RANKINGS, EVIDENCE, st.integers(1, 12))
def test_something_is_recalled_exactly_where_there_is_a_hit(
    ranking: list[list[str]], evidence: set[str], k: int
) -> None:
    """Hit, recall and gain agree on whether anything was found."""
    found = hit_at_k(ranking, evidence, k)
    assert found == (recall_at_k(ranking, evidence, k) > 0) == (ndcg_at_k(ranking, evidence, k) > 0)


@pytest.mark.parametrize(
    ("ranking", "above", "early"),
    [
        ([("new",), ("old",)], False, True),
        ([("old",), ("new",)], True, True),
        ([("old",)], True, True),
        ([("new",)], False, False),
        ([], False, False),
        ([("old", "new")], False, True),
        ([("x",)] * 5 + [("old",)], True, False),
    ],
)
def test_an_outdated_value_is_seen_where_it_ranks(ranking: Sequence[tuple[str, ...]], above: bool, early: bool) -> None:
    """Old above new, old in the first five: each on its own."""
    assert old_above_new(ranking, ["new"], ["old"]) is above
    assert old_in_first(ranking, ["new"], ["old"]) is early


@pytest.mark.parametrize(
    ("question", "history"),
    [
        ("What did Anna do before she became a nurse?", True),
        ("Where did he originally live?", True),
        ("What was her previous job?", True),
        ("他之前住在哪里？", True),
        ("她原来的計劃是什麼？", True),
        ("會議原本在哪一天？", True),
        ("Where does he live now?", False),
        ("How old is Anna's cat?", False),
        ("他现在住在哪里？", False),
        ("現在的會議在哪一天？", False),
    ],
)
def test_a_history_word_asks_for_the_old_value(question: str, history: bool) -> None:
    """Questions about the past are told from questions about now, in both languages."""
    assert asks_history(question) is history


def test_an_interval_holds_the_mean_and_is_the_same_every_time() -> None:
    """The bootstrap is seeded and surrounds the mean of all values."""
    groups = [[0.0, 1.0, 1.0], [0.0, 0.0], [1.0]]
    interval = mean_interval(groups)
    assert interval == mean_interval(groups)
    assert interval.mean == pytest.approx(0.5)
    assert interval.low <= interval.mean <= interval.high
    assert interval.n == 6


def test_groups_are_drawn_whole() -> None:
    """Values that agree within a conversation widen the interval; the same values mixed do not."""
    apart = mean_interval([[0.0] * 50, [1.0] * 50])
    mixed = mean_interval([[0.0, 1.0] * 25, [0.0, 1.0] * 25])
    assert (apart.low, apart.high) == (0.0, 1.0)
    assert (mixed.low, mixed.high) == (0.5, 0.5)


def test_no_values_have_no_mean() -> None:
    """An empty category is NaN with n = 0, never a zero that looks measured."""
    empty = mean_interval([[], []])
    assert math.isnan(empty.mean)
    assert empty.n == 0
