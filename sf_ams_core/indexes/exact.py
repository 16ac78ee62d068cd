"""One scope in memory: its vectors as a matrix, its words as postings.

A `Snapshot` holds only what never changes (words, vectors, who spoke, what stood beside it), so it only grows; which
of its rows may be seen comes from SQL with every call. Units are chunks: a long text has several, and its best one
counts. Neighbours are the turns around a turn in its session.
"""

from __future__ import annotations

import threading
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..ports import Vectors
from ..settings import RecallSettings

Rows = NDArray[np.intp]
Scores = NDArray[np.float64]


_BYTES_EMPTY = 4_096


@dataclass(frozen=True, slots=True)
class Entry:
    """What is indexed of one record."""

    seq: int
    terms: Sequence[Sequence[str]]
    vectors: Sequence[tuple[int, Vectors]]
    session: str | None = None
    speaker: str | None = None
    from_assistant: bool = False
    is_turn: bool = False


class Snapshot:
    """The index of one scope. Every method wants `lock` held."""

    def __init__(self, dimension: int) -> None:
        self.lock = threading.RLock()
        self.dimension = dimension
        self.newest = 0  # the highest seq held
        self.seqs = array("q")
        self.speakers: dict[str, int] = {}  # each name with its number, from 1; 0 is nobody in particular
        self._speaker = array("q")
        self._assistant = array("b")
        self._sessions: list[str | None] = []
        self._turns = array("b")
        self._first_unit = array("q")
        self._unit_row = array("q")
        self._unit_length = array("f")
        self._unit_embedded = array("b")
        self._matrix: Vectors = np.zeros((0, dimension), dtype=np.float32)
        self._postings: dict[str, tuple[array[int], array[float]]] = {}
        self._posted = 0  # entries of all postings
        self._last_turn: dict[str, int] = {}
        self._before = array("q")  # row of the turn before in the session, -1 where there is none
        self._after = array("q")

    def __len__(self) -> int:
        return len(self.seqs)

    @property
    def bytes(self) -> int:
        """Roughly what it costs to keep."""
        return _BYTES_EMPTY + self._matrix.nbytes + 64 * len(self.seqs) + 300 * len(self._postings) + 12 * self._posted

    def extend(self, entries: Iterable[Entry]) -> None:
        """Add records in ascending order of seq."""
        for entry in entries:
            self._add(entry)

    def from_assistant(self, rows: Rows) -> Scores:
        """1 for rows that an assistant or a tool said, else 0."""
        return np.frombuffer(self._assistant, dtype=np.int8)[rows].astype(np.float64)

    def spoken_by(self, names: Sequence[str], rows: Rows) -> Scores:
        """1 for rows that one of these speakers said, else 0."""
        numbers = [self.speakers[name] for name in names]
        return np.isin(np.frombuffer(self._speaker, dtype=np.int64)[rows], numbers).astype(np.float64)

    def rows_of(self, seqs: Sequence[int] | NDArray[np.int64]) -> Rows:
        """The rows of these numbers, which are all held and ascending."""
        return np.searchsorted(np.frombuffer(self.seqs, dtype=np.int64), np.asarray(seqs, dtype=np.int64))

    def holds(self, seqs: Sequence[int] | NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of these ascending numbers are held."""
        return np.isin(np.asarray(seqs, dtype=np.int64), np.frombuffer(self.seqs, dtype=np.int64))

    def cosine(self, query: Vectors, rows: Rows) -> Scores:
        """The best cosine of each row's chunks with a unit query; 0 for rows without vectors."""
        scores = self._matrix[: len(self._unit_row)] @ np.asarray(query, dtype=np.float32)
        return self._best(scores.astype(np.float64), rows)

    def first_vectors(self, rows: Rows) -> Vectors:
        """The vector of each row's first chunk, shape (len(rows), dimension); zero where it has none."""
        return self._matrix[np.frombuffer(self._first_unit, dtype=np.int64)[rows]]

    def embedded(self, rows: Rows) -> bool:
        """Whether any of these rows has a vector."""
        first = np.frombuffer(self._first_unit, dtype=np.int64)
        return bool(np.frombuffer(self._unit_embedded, dtype=np.int8)[first[rows]].any()) if len(rows) else False

    def lexical(self, terms: Sequence[str], rows: Rows, settings: RecallSettings) -> Scores:
        """BM25 of each row against distinct terms, with the statistics of these rows only.

        Where turns answer each other, a turn's words and, fading with distance, its neighbours' words count.
        """
        if not len(rows) or not terms:
            return np.zeros(len(rows))
        seen = np.zeros(len(self.seqs), dtype=bool)
        seen[rows] = True
        units_seen = seen[np.frombuffer(self._unit_row, dtype=np.int64)]
        lengths = np.frombuffer(self._unit_length, dtype=np.float32).astype(np.float64)
        found = [self._posting(term, units_seen) for term in dict.fromkeys(terms)]
        found = [posting for posting in found if len(posting[0])]
        bm25 = _Bm25(int(units_seen.sum()), float(lengths[units_seen].mean()), settings)
        plain = np.zeros(len(lengths))
        for units, counts in found:
            plain[units] += bm25.idf(len(units)) * bm25.weight(counts, lengths[units])
        own = self._best(plain, rows)
        talk = self._talk(seen)[rows]
        if not talk.any():
            return own
        around = self._with_neighbours(found, lengths, seen, bm25, settings)[rows]
        return np.where(talk, settings.neighbour_share * around + (1 - settings.neighbour_share) * own, own)

    def overlap(self, terms: Sequence[str], rows: Rows) -> Scores:
        """The share of distinct terms that each row holds: nominates who a statement is compared with."""
        distinct = list(dict.fromkeys(terms))
        held = np.zeros(len(self.seqs))
        unit_row = np.frombuffer(self._unit_row, dtype=np.int64)
        for term in distinct:
            posting = self._postings.get(term)
            if posting is not None:
                has = np.zeros(len(held), dtype=bool)
                has[unit_row[np.frombuffer(posting[0], dtype=np.int64)]] = True
                held += has
        return held[rows] / max(1, len(distinct))

    def _add(self, entry: Entry) -> None:
        row = len(self.seqs)
        self.seqs.append(entry.seq)
        self.newest = entry.seq
        name = entry.speaker
        self._speaker.append(self.speakers.setdefault(name, len(self.speakers) + 1) if name else 0)
        self._assistant.append(entry.from_assistant)
        self._sessions.append(entry.session)
        self._turns.append(entry.is_turn)
        self._first_unit.append(len(self._unit_row))
        self._place(row, entry)
        given = dict(entry.vectors)
        for chunk in range(max(len(entry.terms), 1 + max(given, default=-1))):
            self._add_unit(row, entry.terms[chunk] if chunk < len(entry.terms) else (), given.get(chunk))

    def _place(self, row: int, entry: Entry) -> None:
        before = self._last_turn.get(entry.session, -1) if entry.is_turn and entry.session else -1
        self._before.append(before)
        self._after.append(-1)
        if before >= 0:
            self._after[before] = row
        if entry.is_turn and entry.session:
            self._last_turn[entry.session] = row

    def _add_unit(self, row: int, terms: Sequence[str], vector: Vectors | None) -> None:
        unit = len(self._unit_row)
        if unit >= len(self._matrix):
            grown = np.zeros((max(8, 2 * len(self._matrix)), self.dimension), dtype=np.float32)
            grown[: len(self._matrix)] = self._matrix
            self._matrix = grown
        usable = vector is not None and len(vector) == self.dimension
        if usable:
            self._matrix[unit] = vector
        self._unit_row.append(row)
        # Single characters are for one-character questions only: they say nothing about how long a text is.
        self._unit_length.append(sum(not term.startswith("1:") for term in terms))
        self._unit_embedded.append(usable)
        counts: dict[str, int] = {}
        for term in terms:
            counts[term] = counts.get(term, 0) + 1
        self._posted += len(counts)
        for term, count in counts.items():
            units, frequencies = self._postings.setdefault(term, (array("q"), array("f")))
            units.append(unit)
            frequencies.append(count)

    def _posting(self, term: str, units_seen: NDArray[np.bool_]) -> tuple[Rows, Scores]:
        posting = self._postings.get(term)
        if posting is None:
            return np.zeros(0, dtype=np.intp), np.zeros(0)
        units = np.frombuffer(posting[0], dtype=np.int64)
        keep = units_seen[units]
        return units[keep], np.frombuffer(posting[1], dtype=np.float32)[keep].astype(np.float64)

    def _best(self, unit_scores: Scores, rows: Rows) -> Scores:
        if not len(rows):
            return np.zeros(0)
        best: Scores = np.maximum.reduceat(unit_scores, np.frombuffer(self._first_unit, dtype=np.int64))
        return best[rows]

    def _talk(self, seen: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Rows that stand in a talk between people: a neighbour in the session is somebody else's, no assistant's."""
        before = np.frombuffer(self._before, dtype=np.int64)
        speakers = np.frombuffer(self._speaker, dtype=np.int64)
        people = ~np.frombuffer(self._assistant, dtype=np.int8).astype(bool)
        answers = (before >= 0) & people & people[before] & (speakers != speakers[before])
        talk: NDArray[np.bool_] = answers.copy()
        talk[before[answers]] = True
        return talk & seen

    def _with_neighbours(
        self,
        found: Sequence[tuple[Rows, Scores]],
        lengths: Scores,
        seen: NDArray[np.bool_],
        bm25: _Bm25,
        settings: RecallSettings,
    ) -> Scores:
        unit_row = np.frombuffer(self._unit_row, dtype=np.int64)
        first = np.frombuffer(self._first_unit, dtype=np.int64)
        total_length = np.where(seen, np.add.reduceat(lengths, first), 0.0)
        around = self._neighbours(settings)
        context_length = _spread(total_length, around)
        scores = np.zeros(len(seen))
        for units, counts in found:
            own = np.zeros(len(seen))
            np.add.at(own, unit_row[units], counts)
            scores += bm25.idf(len(units)) * bm25.weight(_spread(own, around), context_length)
        return scores

    def _neighbours(self, settings: RecallSettings) -> list[tuple[Rows, float]]:
        """For each distance and direction: the neighbour of every row (or -1), and the weight of its words."""
        directions = (
            (np.frombuffer(self._before, dtype=np.int64), settings.neighbours_before, 1.0),
            (np.frombuffer(self._after, dtype=np.int64), settings.neighbours_after, settings.after_weight),
        )
        around: list[tuple[Rows, float]] = []
        for step, reach, share in directions:
            at = np.arange(len(step))
            for distance in range(1, reach + 1):
                at = np.where(at >= 0, step[at], -1)
                around.append((at, share * settings.neighbour_decay**distance))
        return around


def _spread(values: Scores, around: Sequence[tuple[Rows, float]]) -> Scores:
    total = values.copy()
    for at, weight in around:
        total += weight * np.where(at >= 0, values[at], 0.0)
    return total


@dataclass(frozen=True, slots=True)
class _Bm25:
    units: int
    mean_length: float
    settings: RecallSettings

    def idf(self, holding: int) -> float:
        return float(np.log(1 + (self.units - holding + 0.5) / (holding + 0.5)))

    def weight(self, counts: Scores, lengths: Scores) -> Scores:
        k1, b = self.settings.bm25_k1, self.settings.bm25_b
        norm = 1 - b + b * lengths / max(self.mean_length, 1e-9)
        result: Scores = counts * (k1 + 1) / (counts + k1 * norm)
        return result
