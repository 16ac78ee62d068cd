"""Who a new statement is compared with: the closest by words and by vectors, stored or earlier in its batch.

vectors of the batch ──one product with the stored ones, one with each other──▶ nearest few of each
terms of a draft ──postings──▶ those that share most
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..indexes.exact import Entry, Rows, Snapshot
from ..kernel import Kernel
from ..ports import Vectors
from ..stores import memories as store
from ..stores.database import Writer
from ..stores.filters import Filters
from ..types import Memory
from .common import fresh_snapshot
from .drafting import Draft

_NOMINEES = 6  # by closeness of words and of vectors each
_MIN_OVERLAP = 0.3  # of a statement's terms, to be compared at all; a change shares little but its subject
_BLOCK = 256  # rows of a product, which bounds its memory


class Nominations:
    """The nominees of each draft of one batch; made inside its transaction, before it writes records."""

    def __init__(
        self, kernel: Kernel, writer: Writer, drafts: Sequence[Draft], vectors: Sequence[Vectors | None]
    ) -> None:
        self._writer = writer
        self._stored = fresh_snapshot(kernel, writer)
        active = store.candidates(writer, Filters(visible=None), kernel.clock.now())
        seqs = np.array([row.seq for row in active], dtype=np.int64)
        with self._stored.lock:
            self._seqs = seqs[self._stored.holds(seqs)]
            self._rows: Rows = self._stored.rows_of(self._seqs)
        self._own = Snapshot(kernel.embedder.dimension)
        self._taken: list[Memory] = []
        self._place: dict[str, int] = {}
        self._duplicate = kernel.settings.write.duplicate_cosine
        self._near_stored, self._near_own = self._nearest(kernel, drafts, vectors)

    def of(self, draft: Draft, terms: Sequence[str]) -> list[Memory]:
        """Active memories that a statement may contradict or repeat, unordered."""
        with self._stored.lock:
            overlap = self._stored.overlap(terms, self._rows) if len(self._rows) else np.zeros(0)
        places = self._chosen(overlap, self._near_stored.get(draft.memory.id, []))
        stored = store.by_seqs(self._writer, [int(self._seqs[place]) for place in places])
        known = self._near_own.get(draft.memory.id, [])
        near = [(self._place[i], cosine) for i, cosine in known if i in self._place]
        shared = self._own.overlap(terms, np.arange(len(self._taken))) if self._taken else np.zeros(0)
        return [*stored.values(), *(self._taken[place] for place in self._chosen(shared, near))]

    def take(self, memory: Memory, terms: Sequence[Sequence[str]]) -> None:
        """Let the drafts that follow be compared with this one."""
        self._place[memory.id] = len(self._taken)
        self._taken.append(memory)
        self._own.extend([Entry(seq=len(self._taken), terms=terms, vectors=())])

    def _chosen(self, overlap: NDArray[np.float64], near: Sequence[tuple[int, float]]) -> list[int]:
        """The places of those that share most, and of those near by vector that share a word or are all but equal."""
        sharing = [place for place in _largest(overlap, _NOMINEES) if overlap[place] >= _MIN_OVERLAP]
        close = [place for place, cosine in near if cosine >= self._duplicate or overlap[place] > 0]
        return list(dict.fromkeys([*sharing, *close]))

    def _nearest(
        self, kernel: Kernel, drafts: Sequence[Draft], vectors: Sequence[Vectors | None]
    ) -> tuple[dict[str, list[tuple[int, float]]], dict[str, list[tuple[str, float]]]]:
        # A text of several chunks says more than one thing and is compared by its words only.
        judged = [
            (draft.memory.id, array[0])
            for draft, array in zip(drafts, vectors, strict=True)
            if draft.statement and array is not None and len(array) == 1
        ]
        if not judged:
            return {}, {}
        floor = kernel.settings.write.value_change_cosine
        ids = [memory_id for memory_id, _ in judged]
        matrix = np.stack([vector for _, vector in judged])
        with self._stored.lock:
            held = self._stored.first_vectors(self._rows)
        stored: dict[str, list[tuple[int, float]]] = {}
        own: dict[str, list[tuple[str, float]]] = {}
        for start in range(0, len(ids), _BLOCK):
            block = matrix[start : start + _BLOCK]
            for offset, (near, peers) in enumerate(zip(block @ held.T, block @ matrix.T, strict=True)):
                place = start + offset
                stored[ids[place]] = [(i, float(near[i])) for i in _largest(near, _NOMINEES) if near[i] >= floor]
                earlier = peers[:place]
                own[ids[place]] = [
                    (ids[i], float(earlier[i])) for i in _largest(earlier, _NOMINEES) if earlier[i] >= floor
                ]
        return stored, own


def _largest(values: NDArray[np.floating[Any]], count: int) -> list[int]:
    """The places of the largest values, largest first."""
    if len(values) > count:
        places = np.argpartition(-values, count)[:count]
        return [int(i) for i in places[np.argsort(-values[places])]]
    return [int(i) for i in np.argsort(-values)]
