"""One ranking: arrays of evidence in, scores with named addends out.

Lexical and vector evidence are each scaled over what may be seen and added by weight; importance, dates and who
spoke add bounded amounts. Recency orders versions of one thing, never topics (a global weight costs 12-23 points of
R@10 on LoCoMo); the seed's own formula stays available as the preset `seed`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..settings import RecallSettings

Array = NDArray[np.float64]

_DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known of n candidates, every array of shape (n,).

    `cosine` is None where there are no vectors; `age` counts seconds since last use (seed), never below 0.
    """

    lexical: Array
    cosine: Array | None
    importance: Array
    date: Array
    speaker_named: Array
    from_assistant: Array
    age: Array


def score(evidence: Evidence, settings: RecallSettings, preset: str) -> dict[str, Array]:
    """The addends of each candidate's score, by name; the score is their sum."""
    return _seed(evidence, settings) if preset == "seed" else _balanced(evidence, settings)


def _seed(e: Evidence, s: RecallSettings) -> dict[str, Array]:
    """0.5 similarity + 0.3 exp(-age / 7 d) + 0.2 importance (seed 2, 4.2)."""
    similarity = np.zeros_like(e.importance) if e.cosine is None else e.cosine
    return {
        "similarity": s.seed_similarity * similarity,
        "recency": s.seed_recency * np.exp(-np.maximum(e.age, 0.0) / (s.recency_tau_days * _DAY)),
        "importance": s.seed_importance * e.importance,
    }


def _balanced(e: Evidence, s: RecallSettings) -> dict[str, Array]:
    # Without vectors the words carry their weight too, so that importance and dates stay as bounded as before.
    lexical_weight = s.lexical if e.cosine is not None else s.lexical + s.vector
    parts = {
        "lexical": lexical_weight * _scaled(e.lexical, floor=0.0),
        "importance": s.importance * _scaled(e.importance),
        "date": s.date * e.date,
        "speaker": s.speaker_named * e.speaker_named,
        "own_words": s.not_assistant * (1.0 - e.from_assistant),
    }
    if e.cosine is not None:
        parts["vector"] = s.vector * _scaled(e.cosine)
    return parts


def _scaled(values: Array, floor: float | None = None) -> Array:
    """Values moved to 0..1 over the candidates; all zero where they do not differ."""
    if not len(values):
        return values
    low = float(values.min()) if floor is None else floor
    span = float(values.max()) - low
    return (values - low) / span if span > 1e-12 else np.zeros_like(values)


def order(total: Array, said_at: Array) -> NDArray[np.intp]:
    """Indices from best to worst; equal scores put the newest first."""
    return np.lexsort((-said_at, -np.round(total, 12)))
