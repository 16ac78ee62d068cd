"""Embedding without a model: the terms of a text, hashed into the dimensions of a vector (the hashing trick).

Two texts are near where they share word stems, pairs of Han characters or parts of words; meaning and translation
are beyond it. It needs nothing but numpy, works in any language and gives the same vectors on every machine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from math import log
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidInput
from ..ports import Vectors
from ..rules.text import index_terms

MAX_CHARS = 20_000  # as `WriteSettings.max_chars`; what follows is left out

# Picked on 33 questions over 120 bilingual statements; the order is sure, the second digit is not.
_TERM_WEIGHT = 1.0
_CHARACTER_WEIGHT = 0.8  # single Han characters: many texts share one by chance
_TRIGRAM_WEIGHT = 0.4  # a word of eight letters has eight


class HashEmbedder:
    """Signed feature hashing of terms, characters and letter trigrams, with sublinear counts.

    `dimension` is the length of the vectors. Raises InvalidInput where it is not positive. Thread-safe.
    """

    def __init__(self, dimension: int = 512) -> None:
        if dimension < 1:
            raise InvalidInput(f"dimension must be at least 1, got {dimension!r}")
        self._dimension = dimension

    @property
    def space(self) -> str:
        """`hash-v1/512`: the version changes with the hashing or the terms, the number is the dimension."""
        return f"hash-v1/{self._dimension}"

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors, shape (len(texts), dimension), float32; a text without terms has a fixed one."""
        features = [_features(text[:MAX_CHARS]) for text in texts]
        index, weight = self._hashed(features)
        row = np.repeat(np.arange(len(features)), [len(found) for found in features])
        cells: NDArray[np.float64] = np.zeros((len(features), self._dimension))
        np.add.at(cells, (row, index), weight)
        return _unit(cells)

    def embed_query(self, text: str) -> Vectors:
        """The vector of a question, shape (dimension,): the same as that of a statement."""
        vector: Vectors = self.embed([text])[0]
        return vector

    def _hashed(self, features: Sequence[Mapping[str, float]]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Dimension and signed weight of each feature, all texts in one row."""
        names = chain.from_iterable(features)
        checksums = (crc32(name.encode("utf-8", "surrogatepass")) for name in names)
        bits = _mixed(np.fromiter(checksums, dtype=np.uint32))
        weights = np.fromiter(chain.from_iterable(found.values() for found in features), dtype=np.float64)
        sign = np.where(bits >> 31, 1.0, -1.0)
        return (bits & 0x7FFFFFFF).astype(np.int64) % self._dimension, sign * weights


def _features(text: str) -> dict[str, float]:
    """Features and weights of `text`; where it holds no term (stop words or signs alone), its pieces stand in."""
    terms = index_terms(text) or text.casefold().split()
    words = {term: _weight(term) * (1 + log(n)) for term, n in Counter(terms).items()}
    parts = Counter(chain.from_iterable(map(_trigrams, terms)))
    return words | {part: _TRIGRAM_WEIGHT * (1 + log(n)) for part, n in parts.items()}


def _weight(term: str) -> float:
    return _CHARACTER_WEIGHT if term.startswith("1:") else _TERM_WEIGHT


def _trigrams(term: str) -> Iterator[str]:
    """The letter trigrams of a word, its ends marked; terms of three characters or fewer are whole already."""
    if len(term) > 3:
        marked = f"<{term}>"
        yield from ("3:" + marked[i : i + 3] for i in range(len(marked) - 2))


def _mixed(bits: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """MurmurHash3's finaliser: alike checksums part, so that sign and dimension are independent."""
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        bits = np.multiply(bits ^ (bits >> np.uint32(shift)), np.uint32(factor), dtype=np.uint32)
    return bits


def _unit(cells: NDArray[np.float64]) -> Vectors:
    length = np.linalg.norm(cells, axis=1)
    cells[length == 0, 0] = 1.0  # nothing to hash, or terms that cancelled out
    length[length == 0] = 1.0
    unit: Vectors = (cells / length[:, None]).astype(np.float32)
    return unit
