"""Guarded providers: a sound answer in time, or one fault that says nothing of the text."""

from __future__ import annotations

import json
import logging
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from sf_ams_core.embedders import Breaker, GuardedEmbedder, GuardedModel, ProviderPool
from sf_ams_core.errors import InvalidInput, ProviderFault
from sf_ams_core.events import Events
from sf_ams_core.ports import Embedder, LanguageModel, Vectors
from sf_ams_core.settings import ProviderSettings
from sf_ams_core.testing import (
    BrokenEmbedder,
    BrokenModel,
    EmbedderFault,
    FakeClock,
    FixedEmbedder,
    ModelFault,
    ScriptedModel,
)

SECRET = "the user's blood type is AB"
SOON = 0.02  # seconds; long enough for a thread to start, short enough to wait for
SETTINGS = ProviderSettings(threads=2, batch=4, breaker_failures=3, breaker_rest=30.0)


@pytest.fixture
def release() -> Iterator[threading.Event]:
    """What hanging calls wait for; set when the test is over."""
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture
def pool() -> Iterator[ProviderPool]:
    """A pool of two threads."""
    pool = ProviderPool(SETTINGS)
    yield pool
    pool.close()


class Guarding:
    """Makes guards that share a pool, a clock and the counters."""

    def __init__(self, pool: ProviderPool) -> None:
        self.pool = pool
        self.clock = FakeClock()
        self.events = Events()

    def breaker(self) -> Breaker:
        return Breaker(SETTINGS.breaker_failures, SETTINGS.breaker_rest, self.clock.monotonic)

    def embedder(self, embedder: Embedder) -> GuardedEmbedder:
        return GuardedEmbedder(embedder, self.pool, self.breaker(), SETTINGS, self.events)

    def model(self, llm: LanguageModel) -> GuardedModel:
        return GuardedModel(llm, self.pool, self.breaker(), SETTINGS, self.events)


@pytest.fixture
def guarding(pool: ProviderPool) -> Guarding:
    """Guards over one pool."""
    return Guarding(pool)


class Answering:
    """An embedder of a given space that answers whatever it is told to."""

    def __init__(self, answer: Callable[[int], Any], space: str = "answering") -> None:
        self._answer = answer
        self.space = space

    def embed(self, texts: Sequence[str]) -> Vectors:
        answer: Vectors = self._answer(len(texts))
        return answer

    def embed_query(self, text: str) -> Vectors:
        vector: Vectors = self._answer(1)[0]
        return vector


def test_sound_vectors_come_back_unit(guarding: Guarding) -> None:
    """Vectors of any length come back unit, float32 and contiguous, in the order of the texts."""
    rows = np.array([[3.0, 4.0], [0.0, 1e-300], [-1e300, 0.0]])
    vectors = guarding.embedder(Answering(lambda n: rows[:n])).embed(["a", "b", "c"])
    assert np.allclose(vectors, [[0.6, 0.8], [0.0, 1.0], [-1.0, 0.0]])
    assert vectors.dtype == np.float32
    assert vectors.flags.c_contiguous


@pytest.mark.parametrize("numbers", [[3, 4], [3.0, 4.0], (3, 4.0), np.array([3, 4]), np.array([3, 4], np.float16)])
def test_lists_and_other_numbers_are_taken(guarding: Guarding, numbers: Any) -> None:
    """Lists, tuples, integers and half precision are vectors too."""
    guarded = guarding.embedder(Answering(lambda n: [numbers] * n))
    assert np.allclose(guarded.embed(["a", "b"]), [[0.6, 0.8], [0.6, 0.8]])
    assert np.allclose(guarded.embed_query("a"), [0.6, 0.8])


def test_texts_are_embedded_in_batches(guarding: Guarding) -> None:
    """Ten texts in batches of four are three calls, and their order is kept."""
    embedder = FixedEmbedder()
    texts = [f"text number {n}" for n in range(10)]
    vectors = guarding.embedder(embedder).embed(texts)
    assert embedder.batches == [4, 4, 2]
    assert np.allclose(vectors, FixedEmbedder().embed(texts), atol=1e-6)


def test_no_texts_ask_nobody(guarding: Guarding) -> None:
    """An empty list gives no rows without a call."""
    broken = BrokenEmbedder("raise")
    assert guarding.embedder(broken).embed([]).shape == (0, 32)
    assert broken.calls == 0


@pytest.mark.parametrize("mode", [mode for mode in get_args(EmbedderFault) if mode not in ("hang", "list")])
def test_every_fault_is_told_once_and_without_text(
    guarding: Guarding, mode: EmbedderFault, caplog: pytest.LogCaptureFixture
) -> None:
    """A broken embedder is one fault, one log line and one count, for statements and for a question."""
    guarded = guarding.embedder(BrokenEmbedder(mode))
    asks: list[Callable[[], Vectors]] = [
        partial(guarded.embed, [SECRET, "b"]),
        partial(guarded.embed_query, SECRET),
    ]
    for ask in asks:
        with caplog.at_level(logging.DEBUG), pytest.raises(ProviderFault) as raised:
            ask()
        assert SECRET not in "".join(traceback.format_exception(raised.value))
    lines = [json.loads(record.getMessage()) for record in caplog.records]
    assert [line["event"] for line in lines] == ["fault.embedder"] * 2
    assert guarding.events.counters == {"fault.embedder": 2}
    assert SECRET not in caplog.text


def test_a_hanging_embedder_is_a_fault(guarding: Guarding, release: threading.Event) -> None:
    """An embedder that does not come back is given up after the time-out."""
    guarded = guarding.embedder(BrokenEmbedder("hang", release))
    with pytest.raises(ProviderFault, match="within"):
        guarded.embed(["a"], timeout=SOON)
    with pytest.raises(ProviderFault, match="within"):
        guarded.embed_query("a", timeout=SOON)


@pytest.mark.parametrize(
    "answer",
    [
        lambda n: None,
        lambda n: "vectors",
        lambda n: [],
        lambda n: [[]] * n,
        lambda n: [["a", "b"]] * n,
        lambda n: [[1.0], [1.0, 2.0]],
        lambda n: [[1.0, None]] * n,
        lambda n: np.ones(n),
        lambda n: np.ones((n, 2, 2)),
        lambda n: np.ones((n + 1, 2)),
        lambda n: np.ones((n, 2), dtype=complex),
        lambda n: [[np.inf, 0.0]] * n,
        lambda n: [[1.0, 0.0]] * (n - 1) + [[0.0, 0.0]],
        lambda n: iter([[1.0, 2.0]] * n),
    ],
)
def test_any_other_answer_is_a_fault(guarding: Guarding, answer: Callable[[int], Any]) -> None:
    """What is not one finite, non-zero vector a text is refused."""
    with pytest.raises(ProviderFault):
        guarding.embedder(Answering(answer)).embed(["a", "b"])


@settings(deadline=None)  # threads are started
@given(arrays.arrays(np.float64, arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)))
def test_an_answer_is_unit_or_a_fault(answer: np.ndarray[Any, Any]) -> None:
    """Whatever array comes, what passes is unit and finite."""
    pool = ProviderPool(SETTINGS)
    try:
        vectors = Guarding(pool).embedder(Answering(lambda n: answer)).embed(["a", "b"])
    except ProviderFault:
        return
    finally:
        pool.close()
    assert vectors.shape == answer.shape
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-5)


def test_the_dimension_in_the_space_is_binding(guarding: Guarding) -> None:
    """A space that ends in a number fixes the dimension before the first answer."""
    guarded = guarding.embedder(Answering(lambda n: np.ones((n, 3)), space="mine/4"))
    assert guarded.dimension == 4
    with pytest.raises(ProviderFault, match="3 dimensions instead of 4"):
        guarded.embed(["a"])


def test_the_first_good_answer_fixes_the_dimension(guarding: Guarding) -> None:
    """Without a number in the space, an answer that is refused fixes nothing and a good one does."""
    answers = iter([np.full((1, 5), np.nan), np.ones((1, 3)), np.ones((1, 4)), np.ones((1, 3))])
    guarded = guarding.embedder(Answering(lambda n: next(answers)))
    with pytest.raises(ProviderFault, match="NaN"):
        guarded.embed(["a"])
    assert guarded.dimension == 0
    guarded.embed(["a"])
    assert guarded.dimension == 3
    with pytest.raises(ProviderFault, match="4 dimensions instead of 3"):
        guarded.embed(["a"])
    assert guarded.embed_query("a").shape == (3,)


def test_an_embedder_without_embed_query_is_asked_as_for_a_statement(guarding: Guarding) -> None:
    """`embed_query` may be left out where questions make no difference."""

    class Plain:
        space = "plain/2"

        def embed(self, texts: Sequence[str]) -> list[list[float]]:
            return [[0.0, 2.0] for _ in texts]

    guarded = guarding.embedder(Plain())  # type: ignore[arg-type]  # less than the protocol asks for
    assert guarded.embed_query("a").tolist() == [0.0, 1.0]


@pytest.mark.parametrize("space", ["", "  ", None, 5, "x" * 300])
def test_a_space_that_names_nothing_is_misuse(guarding: Guarding, space: Any) -> None:
    """An embedder must say which space its vectors are of."""
    with pytest.raises(InvalidInput, match="space"):
        guarding.embedder(Answering(lambda n: np.ones((n, 2)), space=space))


def test_a_failing_embedder_is_left_alone_and_tried_again(guarding: Guarding) -> None:
    """After three faults it is not called any more; after the rest one success makes it healthy."""
    broken = BrokenEmbedder("raise")
    guarded = guarding.embedder(broken)
    for _ in range(5):
        with pytest.raises(ProviderFault):
            guarded.embed(["a"])
    assert (broken.calls, guarded.healthy) == (3, False)
    assert guarding.events.counters == {"fault.embedder": 3}
    broken.heal()
    guarding.clock.advance(seconds=30)
    guarded.embed(["a"])
    assert guarded.healthy


@pytest.mark.parametrize("timeout", [0.0, -1.0])
def test_a_spent_deadline_is_not_the_provider_s_fault(guarding: Guarding, timeout: float) -> None:
    """Without time left nobody is asked, and neither the breaker nor the counters notice."""
    broken = BrokenEmbedder("raise")
    guarded = guarding.embedder(broken)
    for _ in range(5):
        with pytest.raises(ProviderFault, match="no time"):
            guarded.embed_query("a", timeout=timeout)
    assert (broken.calls, guarded.healthy, guarding.events.counters) == (0, True, {})


def test_a_question_asked_again_is_remembered(guarding: Guarding) -> None:
    """The same question is embedded once, and its vector cannot be spoilt by a caller."""
    embedder = FixedEmbedder()
    guarded = guarding.embedder(embedder)
    first, second = guarded.embed_query("who?"), guarded.embed_query("who?")
    assert embedder.queries == 1
    assert np.array_equal(first, second)
    with pytest.raises(ValueError, match="read-only"):
        first[0] = 7.0


def test_a_fault_is_not_remembered(guarding: Guarding) -> None:
    """A question that failed is asked again."""
    broken = BrokenEmbedder("nan")
    guarded = guarding.embedder(broken)
    with pytest.raises(ProviderFault):
        guarded.embed_query("who?")
    broken.heal()
    assert np.isfinite(guarded.embed_query("who?")).all()


def test_remembered_questions_are_bounded_and_can_be_forgotten(guarding: Guarding) -> None:
    """The oldest of 257 questions is embedded anew, and after `forget_queries` all are."""
    embedder = FixedEmbedder()
    guarded = guarding.embedder(embedder)
    for n in range(257):
        guarded.embed_query(f"question {n}")
    guarded.embed_query("question 256")
    assert embedder.queries == 257
    guarded.embed_query("question 0")
    assert embedder.queries == 258
    guarded.forget_queries()
    guarded.embed_query("question 0")
    assert embedder.queries == 259


@settings(deadline=None)  # threads are started
@given(st.text())
def test_any_text_can_be_asked(text: str) -> None:
    """Any question, valid Unicode or not, has a vector."""
    pool = ProviderPool(SETTINGS)
    assert Guarding(pool).embedder(FixedEmbedder()).embed_query(text + "\ud800").shape == (32,)
    pool.close()


def test_many_threads_may_ask_at_once(guarding: Guarding) -> None:
    """Thirty threads get the vectors of their own texts."""
    guarded = guarding.embedder(FixedEmbedder())
    texts = [f"text number {n}" for n in range(30)]
    with ThreadPoolExecutor(30) as threads:
        vectors = list(threads.map(lambda text: guarded.embed([text])[0], texts))
    assert np.allclose(np.stack(vectors), FixedEmbedder().embed(texts), atol=1e-6)


def test_a_model_s_reply_comes_back(guarding: Guarding) -> None:
    """The prompt reaches the model and its reply the caller."""
    model = ScriptedModel(["好的"])
    assert guarding.model(model).complete("总结一下") == "好的"
    assert model.prompts == ["总结一下"]


@pytest.mark.parametrize("mode", [mode for mode in get_args(ModelFault) if mode != "hang"])
def test_a_broken_model_is_a_fault_without_text(
    guarding: Guarding, mode: ModelFault, caplog: pytest.LogCaptureFixture
) -> None:
    """Exceptions and replies that are no text are faults; nothing of the prompt is told."""
    with caplog.at_level(logging.DEBUG), pytest.raises(ProviderFault) as raised:
        guarding.model(BrokenModel(mode)).complete(SECRET)
    assert SECRET not in "".join(traceback.format_exception(raised.value)) + caplog.text
    assert guarding.events.counters == {"fault.model": 1}


def test_a_hanging_model_is_a_fault(guarding: Guarding, release: threading.Event) -> None:
    """A model that does not come back is given up after the time-out."""
    with pytest.raises(ProviderFault, match="within"):
        guarding.model(BrokenModel("hang", release)).complete("hello", timeout=SOON)


def test_a_failing_model_is_left_alone_and_tried_again(guarding: Guarding) -> None:
    """The model has a circuit of its own."""
    broken = BrokenModel("raise", reply="back")
    guarded = guarding.model(broken)
    for _ in range(4):
        with pytest.raises(ProviderFault):
            guarded.complete("hello")
    assert (broken.calls, guarded.healthy) == (3, False)
    broken.heal()
    guarding.clock.advance(seconds=30)
    assert guarded.complete("hello") == "back"
    assert guarded.healthy
