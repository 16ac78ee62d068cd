"""Doubles and contracts for tests of code that uses this library: time that stands still, models that obey or break.

Nothing here needs pytest; `EmbedderContract` is a plain class that pytest runs once you subclass it as `Test…`.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Literal

import numpy as np

from .clock import as_utc
from .embedders.hash import HashEmbedder
from .ports import Embedder, Vectors
from .types import check_id

EmbedderFault = Literal["raise", "hang", "short", "nan", "zero", "wrong_dimension", "list"]
ModelFault = Literal["raise", "hang", "not_text"]

_START = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)  # a Monday morning


class FakeClock:
    """A clock that moves only when told to, and counts its ids up: `mem_000001`, `mem_000002`. Thread-safe."""

    def __init__(self, start: datetime = _START) -> None:
        self._now = as_utc(start)
        self._seconds = 0.0
        self._ids: Counter[str] = Counter()
        self._lock = threading.Lock()

    def now(self) -> datetime:
        """The moment it was last set or advanced to, in UTC."""
        return self._now

    def monotonic(self) -> float:
        """Seconds advanced since it was made; `set` does not move them, as a corrected wall clock does not."""
        return self._seconds

    def new_id(self, kind: str) -> str:
        """The next id of its kind."""
        with self._lock:
            self._ids[kind] += 1
            return f"{kind}_{self._ids[kind]:06d}"

    def advance(self, **duration: float) -> datetime:
        """Go on by what `timedelta` takes, as in `advance(days=1, hours=2)`; returns the new moment."""
        step = timedelta(**duration)
        with self._lock:
            self._now += step
            self._seconds += step.total_seconds()
            return self._now

    def set(self, moment: datetime) -> None:
        """Jump to a moment, backwards too; a naive one is taken as UTC."""
        with self._lock:
            self._now = as_utc(moment)


class ScriptedModel:
    """A language model that gives the listed replies in turn, or what a function makes of each prompt.

    `prompts` are those it was asked. Raises LookupError when the replies have run out. Thread-safe.
    """

    def __init__(self, replies: Sequence[str] | Callable[[str], str]) -> None:
        self._replies = [replies] if isinstance(replies, str) else replies
        self._lock = threading.Lock()
        self.prompts: list[str] = []

    def complete(self, prompt: str) -> str:
        """The next reply."""
        with self._lock:
            self.prompts.append(prompt)
            asked = len(self.prompts)
        if callable(self._replies):
            return self._replies(prompt)
        if asked > len(self._replies):
            raise LookupError(f"the script has {len(self._replies)} replies and was asked for number {asked}")
        return self._replies[asked - 1]


class FixedEmbedder:
    """A small embedder that always gives a text the same vector; texts that share words are near each other.

    `batches` holds how many texts each call of `embed` brought, `queries` how many questions came.
    """

    def __init__(self, dimension: int = 32, space: str | None = None) -> None:
        self._hash = HashEmbedder(dimension)
        self._space = space or f"fixed/{dimension}"
        self.batches: list[int] = []
        self.queries = 0

    @property
    def space(self) -> str:
        """The name given, else `fixed/<dimension>`."""
        return self._space

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors, shape (len(texts), dimension)."""
        self.batches.append(len(texts))
        return self._hash.embed(texts)

    def embed_query(self, text: str) -> Vectors:
        """A unit vector, shape (dimension,)."""
        self.queries += 1
        return self._hash.embed_query(text)


class BrokenEmbedder:
    """An embedder that fails in one way until `heal` is called; it counts its `calls`.

    `raise` repeats the text in its exception, as some clients do; `hang` waits for `release` and then answers;
    `short` gives one vector too few, `wrong_dimension` one number too many; `list` is sound, but no array.
    """

    def __init__(
        self, mode: EmbedderFault = "raise", release: threading.Event | None = None, *, dimension: int = 32
    ) -> None:
        self._mode: EmbedderFault | None = mode
        self._sound = FixedEmbedder(dimension)
        self.release = release or threading.Event()
        self.calls = 0

    @property
    def space(self) -> str:
        """`fixed/<dimension>`, as of a FixedEmbedder: once healed they agree."""
        return self._sound.space

    def heal(self) -> None:
        """From now on answer soundly, and let go of what hangs."""
        self._mode = None
        self.release.set()

    def embed(self, texts: Sequence[str]) -> Vectors:
        """What the mode makes of the right answer."""
        self.calls += 1
        return self._broken(self._sound.embed(texts), " ".join(texts))

    def embed_query(self, text: str) -> Vectors:
        """What the mode makes of the right answer."""
        self.calls += 1
        return self._broken(self._sound.embed_query(text), text)

    def _broken(self, right: Vectors, text: str) -> Vectors:
        match self._mode:
            case "raise":
                raise RuntimeError(f"cannot embed {text!r}")
            case "hang":
                self.release.wait()
            case "short":
                return right[:-1] if right.ndim == 2 else right[:0]
            case "nan":
                return np.full_like(right, np.nan)
            case "zero":
                return np.zeros_like(right)
            case "wrong_dimension":
                return np.concatenate([right, right[..., :1]], axis=-1)
            case "list":
                return right.tolist()  # type: ignore[no-any-return]  # a lie about its type is the point
        return right


class BrokenModel:
    """A language model that fails in one way until `heal` is called, after which it gives `reply`.

    `raise` repeats the prompt in its exception; `hang` waits for `release` and then replies; `not_text` gives None.
    """

    def __init__(
        self, mode: ModelFault = "raise", release: threading.Event | None = None, *, reply: str = "ok"
    ) -> None:
        self._mode: ModelFault | None = mode
        self._reply = reply
        self.release = release or threading.Event()
        self.calls = 0

    def heal(self) -> None:
        """From now on reply, and let go of what hangs."""
        self._mode = None
        self.release.set()

    def complete(self, prompt: str) -> str:
        """What the mode makes of the reply."""
        self.calls += 1
        match self._mode:
            case "raise":
                raise RuntimeError(f"cannot complete {prompt!r}")
            case "hang":
                self.release.wait()
            case "not_text":
                return None  # type: ignore[return-value]  # a lie about its type is the point
        return self._reply


_SHORT_TEXTS = (
    "I moved to Berlin in March.",
    "我三月搬到了柏林。",
    "Deadline for PRJ-2024: Friday 17:00",
    "项目截止日期是周五下午五点",
    "She can't eat peanuts",
    "Москва, 東京, القاهرة, हिन्दी",
    "👩‍👩‍👧 🎉",
    "x",
    "猫",
)
_TEXTS = (
    *_SHORT_TEXTS,
    "a long story about coffee " * 400,
    "很长的故事" * 2_000,
)


class EmbedderContract:
    """What the engine expects of any embedder. Subclass it as `TestMyEmbedder`, define `make`, run pytest.

    ```python
    class TestMyEmbedder(EmbedderContract):
        def make(self) -> Embedder:
            return MyEmbedder()
    ```
    """

    tolerance: float = 1e-4
    """How far apart, in each number, two vectors of one text may be: a batch may round differently."""

    def make(self) -> Embedder:
        """The embedder under test; called in every test, so keep what is dear to make."""
        raise NotImplementedError("define make(self) -> Embedder")

    def test_space_is_a_stable_name(self) -> None:
        """The space is a name that two embedders of one kind share."""
        assert check_id(self.make().space, "space") == self.make().space

    def test_a_batch_has_a_row_for_each_text(self) -> None:
        """A batch gives a float32 array with a row for each text, whatever the text."""
        vectors = self.make().embed(_TEXTS)
        assert isinstance(vectors, np.ndarray), f"expected a numpy array, got {type(vectors).__name__}"
        assert vectors.shape == (len(_TEXTS), vectors.shape[-1]), f"shape is {vectors.shape}"
        assert vectors.dtype == np.float32, f"dtype is {vectors.dtype}"

    def test_a_named_dimension_is_the_real_one(self) -> None:
        """Where the space ends in a number, that is the dimension."""
        embedder = self.make()
        _, _, named = embedder.space.rpartition("/")
        assert not named.isdecimal() or embedder.embed(_TEXTS[:1]).shape[1] == int(named)

    def test_every_vector_can_be_made_unit(self) -> None:
        """All numbers are finite, and no vector is zero."""
        vectors = self.make().embed(_TEXTS)
        assert np.isfinite(vectors).all(), "NaN or infinity"
        assert (np.linalg.norm(vectors, axis=1) > 0).all(), "a vector of zeros"

    def test_a_question_has_the_dimension_of_the_statements(self) -> None:
        """A question gives one finite vector, shape (dimension,), for any text."""
        embedder = self.make()
        dimension = embedder.embed(_TEXTS[:1]).shape[1]
        for text in _TEXTS:
            vector = embedder.embed_query(text)
            assert vector.shape == (dimension,), f"shape is {vector.shape}"
            assert np.isfinite(vector).all(), "NaN or infinity"
            assert np.any(vector), "a vector of zeros"

    def test_the_same_text_gives_the_same_vector(self) -> None:
        """Two calls, and two embedders, agree."""
        first, second = self.make(), self.make()
        vectors = first.embed(_TEXTS)
        self._assert_near(vectors, first.embed(_TEXTS))
        self._assert_near(vectors, second.embed(_TEXTS))

    def test_neighbours_in_a_batch_do_not_matter(self) -> None:
        """The order of a batch, and being alone in it, change no vector."""
        embedder = self.make()
        vectors = embedder.embed(_TEXTS)
        self._assert_near(vectors, embedder.embed(_TEXTS[::-1])[::-1])
        self._assert_near(vectors, np.concatenate([embedder.embed([text]) for text in _TEXTS]))

    def test_different_texts_give_different_vectors(self) -> None:
        """Texts of different meaning and script are told apart."""
        vectors = self.make().embed(_TEXTS[:6])
        apart = np.abs(vectors[:, None] - vectors[None]).max(axis=2)
        np.fill_diagonal(apart, np.inf)
        assert apart.min() > self.tolerance, "two different texts have one vector"

    def test_threads_agree(self) -> None:
        """Calls from several threads at once give what one thread gets."""
        embedder = self.make()
        right = embedder.embed(_SHORT_TEXTS)
        with ThreadPoolExecutor(4) as threads:
            for vectors in threads.map(embedder.embed, [_SHORT_TEXTS] * 8):
                self._assert_near(right, vectors)

    def _assert_near(self, left: Vectors, right: Vectors) -> None:
        assert left.shape == right.shape, f"shapes are {left.shape} and {right.shape}"
        apart = float(np.abs(left - right).max())
        assert apart <= self.tolerance, f"two vectors of one text are {apart:g} apart in a number"
