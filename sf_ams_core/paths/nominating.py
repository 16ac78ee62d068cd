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
        self._near_stored, self._near_own = self._nearest(kernel, drafts, vectors)

    def of(self, draft: Draft, terms: Sequence[str]) -> list[Memory]:
        """Active memories that a statement may contradict or repeat, unordered."""
        with self._stored.lock:
            seqs = self._sharing(self._stored, self._seqs, self._rows, terms)
        seqs += self._near_stored.get(draft.memory.id, [])
        found = list(store.by_seqs(self._writer, list(dict.fromkeys(seqs))).values())
        taken = {memory.id: memory for memory in self._taken}
        numbers = np.arange(1, len(self._taken) + 1, dtype=np.int64)
        own = [self._taken[n - 1].id for n in self._sharing(self._own, numbers, numbers - 1, terms)]
        own += self._near_own.get(draft.memory.id, [])
        return found + [taken[i] for i in dict.fromkeys(own) if i in taken]

    def take(self, memory: Memory, terms: Sequence[Sequence[str]]) -> None:
        """Let the drafts that follow be compared with this one."""
        self._taken.append(memory)
        self._own.extend([Entry(seq=len(self._taken), terms=terms, vectors=())])

    def _sharing(self, snapshot: Snapshot, seqs: NDArray[np.int64], rows: Rows, terms: Sequence[str]) -> list[int]:
        if not len(rows) or not terms:
            return []
        overlap = snapshot.overlap(terms, rows)
        return [int(seqs[i]) for i in _largest(overlap, _NOMINEES) if overlap[i] >= _MIN_OVERLAP]

    def _nearest(
        self, kernel: Kernel, drafts: Sequence[Draft], vectors: Sequence[Vectors | None]
    ) -> tuple[dict[str, list[int]], dict[str, list[str]]]:
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
        stored: dict[str, list[int]] = {}
        own: dict[str, list[str]] = {}
        for start in range(0, len(ids), _BLOCK):
            block = matrix[start : start + _BLOCK]
            for offset, (near, peers) in enumerate(zip(block @ held.T, block @ matrix.T, strict=True)):
                place = start + offset
                stored[ids[place]] = [int(self._seqs[i]) for i in _largest(near, _NOMINEES) if near[i] >= floor]
                earlier = peers[:place]
                own[ids[place]] = [ids[i] for i in _largest(earlier, _NOMINEES) if earlier[i] >= floor]
        return stored, own


def _largest(values: NDArray[np.floating[Any]], count: int) -> list[int]:
    """The places of the largest values, largest first."""
    if len(values) > count:
        places = np.argpartition(-values, count)[:count]
        return [int(i) for i in places[np.argsort(-values[places])]]
    return [int(i) for i in np.argsort(-values)]
