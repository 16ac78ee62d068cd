"""How good a ranking is, as pure functions of ids.

A ranking is what recall returned, best first: for each hit the ids of the turns it cites. Means carry an interval
from resampling whole conversations, because questions about one conversation rise and fall together.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from ..rules.text import normalise

Ranking: TypeAlias = Sequence[Collection[str]]

_FIRST = 5  # hits that a prompt gets by default: an outdated value among them is one the model reads


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean over `n` values with the bounds between which it falls in `level` of the resamples."""

    mean: float
    low: float
    high: float
    n: int


def recall_at_k(ranking: Ranking, evidence: Collection[str], k: int) -> float:
    """The share of `evidence` that the first `k` hits cite; 0 where there is no evidence."""
    wanted = set(evidence)
    return len(wanted & _cited(ranking[:k])) / len(wanted) if wanted else 0.0


def ndcg_at_k(ranking: Ranking, evidence: Collection[str], k: int) -> float:
    """Normalised discounted gain of the first `k` hits: 1 where every one cites evidence that none above it cited."""
    wanted, seen = set(evidence), set[str]()
    gain = 0.0
    for place, sources in enumerate(ranking[:k]):
        new = wanted & set(sources) - seen
        gain += 1 / math.log2(place + 2) if new else 0.0
        seen |= new
    best = sum(1 / math.log2(place + 2) for place in range(min(k, len(wanted))))
    return gain / best if best else 0.0


def hit_at_k(ranking: Ranking, evidence: Collection[str], k: int) -> bool:
    """Whether one of the first `k` hits cites any evidence."""
    return not _cited(ranking[:k]).isdisjoint(evidence)


def old_above_new(ranking: Ranking, evidence: Collection[str], stale: Collection[str]) -> bool:
    """Whether a hit with an outdated value stands above every hit with the present one, or stands alone."""
    return _first(ranking, set(stale) - set(evidence)) < _first(ranking, evidence)


def old_in_first(ranking: Ranking, evidence: Collection[str], stale: Collection[str], k: int = _FIRST) -> bool:
    """Whether one of the first `k` hits cites an outdated value."""
    return hit_at_k(ranking, set(stale) - set(evidence), k)


def _cited(hits: Ranking) -> set[str]:
    return {source for sources in hits for source in sources}


def _first(ranking: Ranking, ids: Collection[str]) -> int:
    wanted = set(ids)
    return next((place for place, sources in enumerate(ranking) if not wanted.isdisjoint(sources)), len(ranking))


# The measure keeps a table of its own, so that a change to what the engine understands cannot move the goal posts.
_HISTORY = re.compile(
    r"\b(?:before|earlier|former|formerly|previous|previously|prior|original|originally|initially|used to"
    r"|at first|back then|in the past|no longer|anymore)\b"
    "|之前|以前|先前|从前|從前|此前|原来|原來|原本|原先|最初|起初|最早|本来|本來|当初|當初|过去|過去|曾经|曾經|旧的|舊的|上一次|上次|前一"
)


def asks_history(question: str) -> bool:
    """Whether a question asks for what used to be, so that the outdated value is the right answer."""
    return bool(_HISTORY.search(normalise(question)))


def mean_interval(
    groups: Sequence[Sequence[float]], *, level: float = 0.95, draws: int = 2_000, seed: int = 0
) -> Interval:
    """The mean of all values with its bootstrap interval, drawing whole groups (conversations) with replacement.

    Values are weighted alike whatever their group. One group gives an interval of no width, none gives NaN.
    """
    held = [group for group in groups if len(group)]
    if not held:
        return Interval(math.nan, math.nan, math.nan, 0)
    sums = np.array([math.fsum(group) for group in held])
    sizes = np.array([len(group) for group in held])
    drawn = np.random.default_rng(seed).integers(len(held), size=(draws, len(held)))
    means = sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(sums.sum() / sizes.sum()), float(low), float(high), int(sizes.sum()))
