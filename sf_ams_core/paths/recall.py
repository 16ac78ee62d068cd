"""The read path.

    query ──rewrite──▶ SQL: who may be seen ──▶ words · vectors · facts · dates ──▶ one ranking
          ──▶ SQL: the best, read again ──▶ a statement once, history behind its successor ──▶ use noted, not waited for

A route that fails is named in `degraded`; only misuse raises.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidInput, ProviderFault, StoreUnavailable
from ..events import new_trace_id
from ..indexes.exact import Snapshot
from ..kernel import Kernel
from ..ports import Vectors
from ..rules import dates, privacy, ranking, rewriting, text
from ..rules.entities import contains_identifier
from ..rules.ranking import Array, Evidence
from ..settings import Preset
from ..stores import memories as store
from ..stores.database import Reader
from ..stores.filters import Filters
from ..types import Hit, Memory, Recall, Scope, State
from .common import fresh_snapshot

MAX_K = 1_000
_SPARE = 16  # read beyond k, for what says the same twice
_TELLS_NOTHING = 0.05  # importance of a turn that only asks, greets or thanks
_FACT_PART = 0.3  # for each word of a key that the question names in full, two at most: one word is often chance


@dataclass(frozen=True, slots=True)
class Request:
    """One question and what may answer it. `hide` are turns already shown: (session, turn ids)."""

    query: str
    k: int = 5
    filters: Filters = field(default_factory=Filters)
    min_score: float | None = None
    preset: Preset | None = None
    topic: str = ""
    hide: tuple[str, frozenset[str]] | None = None
    counts_as_use: bool = True


def check_request(query: object, k: object, preset: object = None, min_score: object = None) -> None:
    """Raise InvalidInput where a recall can't be meant."""
    if not isinstance(query, str):
        raise InvalidInput(f"query must be a string, got {type(query).__name__}")
    if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= MAX_K:
        raise InvalidInput(f"k must be a whole number from 1 to {MAX_K}, got {k!r}")
    if preset not in (None, "balanced", "seed"):
        raise InvalidInput(f"unknown preset {preset!r}; use 'balanced' or 'seed'")
    if min_score is not None and (not isinstance(min_score, int | float) or min_score != min_score):
        raise InvalidInput(f"min_score must be a number, got {min_score!r}")


def recall(kernel: Kernel, scope: Scope, request: Request) -> Recall:
    """The best memories for a question. Raises InvalidInput only."""
    started = time.perf_counter()
    trace_id = new_trace_id()
    degraded: list[str] = []
    hits: list[Hit] = []
    query = text.clean(request.query).strip()
    if kernel.enabled and query:
        query = rewriting.rewrite(query, request.topic)
        vector = _embed(kernel, query, degraded)
        try:
            with kernel.database.read(scope) as reader:
                hits = _answer(kernel, reader, request, query, vector)
        except StoreUnavailable as fault:
            kernel.events.fault("store", fault, trace_id=trace_id)
            degraded.append("store")
    if hits and request.counts_as_use:
        kernel.uses.note(scope, [hit.memory.id for hit in hits], kernel.clock.now())
    took = (time.perf_counter() - started) * 1_000
    _log(kernel, trace_id, hits, degraded, took)
    return Recall(tuple(hits), trace_id, tuple(degraded), took)


def _embed(kernel: Kernel, query: str, degraded: list[str]) -> Vectors | None:
    rules = kernel.settings.write
    # An embedder may be somebody else's server, and what was stored is redacted too.
    asked = privacy.redact(query[: rules.chunk_chars * 4], phones=rules.redact_phones, emails=rules.redact_emails)
    try:
        return kernel.embedder.embed_query(asked.text, timeout=kernel.settings.recall.recall_timeout)
    except ProviderFault:
        degraded.append("vector")
        return None


def _answer(kernel: Kernel, reader: Reader, request: Request, query: str, vector: Vectors | None) -> list[Hit]:
    now = kernel.clock.now()
    field_ = _Field.open(kernel, reader, request, now)
    if not len(field_.rows):
        return []
    evidence = _gather(kernel, field_, query, vector, now)
    preset = request.preset or kernel.settings.recall.preset
    parts = ranking.score(evidence, kernel.settings.recall, preset)
    named = _named_keys(field_, query)
    if named.any():
        parts["fact"] = _FACT_PART * named
    total: Array = np.sum(list(parts.values()), axis=0)
    relevant = _relevant(evidence, named)
    order = ranking.order(total, field_.said_at)
    best = order[relevant[order]].tolist()
    if request.min_score is not None:
        best = [i for i in best if total[i] >= request.min_score]
    routes = _routes(evidence, named, request.k)
    return _assemble(reader, request, field_, best, total, parts, routes, query)


@dataclass(frozen=True, slots=True)
class _Field:
    """The candidates: what SQL lets be seen, as aligned arrays; times in seconds since 1970."""

    snapshot: Snapshot
    rows: NDArray[np.intp]
    seqs: NDArray[np.int64]
    importance: Array
    said_at: Array
    accessed_at: Array
    keys: Mapping[int, str]

    @classmethod
    def open(cls, kernel: Kernel, reader: Reader, request: Request, now: datetime) -> _Field:
        found = store.candidates(reader, request.filters, now)
        table = np.array([tuple(row) for row in found], dtype=np.float64).reshape(-1, 4)
        seqs = table[:, 0].astype(np.int64)
        keep = np.ones(len(seqs), dtype=bool)
        if request.hide is not None:
            session, ids = request.hide
            hidden = store.seqs_of_turns(reader, session, sorted(ids))
            keep &= ~np.isin(seqs, sorted(hidden))
        snapshot = fresh_snapshot(kernel, reader)
        with snapshot.lock:
            keep &= snapshot.holds(seqs)
            seqs, table = seqs[keep], table[keep]
            rows = snapshot.rows_of(seqs)
        said, accessed = table[:, 2] / 1e6, table[:, 3] / 1e6
        return cls(snapshot, rows, seqs, table[:, 1], said, accessed, store.keyed(reader))


def _gather(kernel: Kernel, field_: _Field, query: str, vector: Vectors | None, now: datetime) -> Evidence:
    snapshot, rows = field_.snapshot, field_.rows
    with snapshot.lock:
        lexical = snapshot.lexical(text.query_terms(query), rows, kernel.settings.recall)
        cosine = snapshot.cosine(vector, rows) if vector is not None and snapshot.embedded(rows) else None
        assistant = snapshot.from_assistant(rows)
        named = snapshot.spoken_by(_speakers_in(query, snapshot), rows)
    return Evidence(
        lexical=lexical,
        cosine=cosine,
        importance=field_.importance,
        date=_date_evidence(query, field_.said_at, now),
        speaker_named=named,
        from_assistant=np.maximum(assistant, field_.importance <= _TELLS_NOTHING),
        age=now.timestamp() - field_.accessed_at,
    )


def _speakers_in(query: str, snapshot: Snapshot) -> list[str]:
    return [name for name in snapshot.speakers if contains_identifier(query, name)]


def _date_evidence(query: str, said_at: Array, now: datetime) -> Array:
    spans = dates.dates_in(query, now.date())
    if not spans:
        return np.zeros(len(said_at))
    days, place = np.unique(said_at // 86_400, return_inverse=True)
    scores = np.array([dates.date_match(spans, datetime.fromtimestamp(d * 86_400, UTC).date()) for d in days])
    return scores[place]


def _named_keys(field_: _Field, query: str) -> Array:
    """How many words a record's key has where the question holds all of them, at most 2; else 0."""
    named = np.zeros(len(field_.seqs))
    asked = set(text.query_terms(query))
    for seq, key in field_.keys.items():
        wanted = set(text.query_terms(_spaced(key)))
        if wanted and wanted <= asked:
            named[field_.seqs == seq] = min(len(wanted), 2)
    return named


def _spaced(key: str) -> str:
    return key.replace("_", " ").replace(".", " ").replace("-", " ")


def _relevant(e: Evidence, named: Array) -> NDArray[np.bool_]:
    found = (e.lexical > 0) | (e.date > 0) | (named > 0)
    return found if e.cosine is None else found | (e.cosine > 0)


def _routes(e: Evidence, named: Array, k: int) -> dict[str, NDArray[np.bool_]]:
    routes = {"keyword": e.lexical > 0, "fact": named > 0, "date": e.date > 0}
    if e.cosine is not None and len(e.cosine):
        floor = np.sort(e.cosine)[::-1][min(2 * k, len(e.cosine)) - 1]
        routes["vector"] = (e.cosine >= floor) & (e.cosine > 0)
    return routes


def _assemble(
    reader: Reader,
    request: Request,
    field_: _Field,
    best: Sequence[int],
    total: Array,
    parts: Mapping[str, Array],
    routes: Mapping[str, NDArray[np.bool_]],
    query: str,
) -> list[Hit]:
    hits: list[Hit] = []
    said: set[str] = set()
    for start in range(0, len(best), request.k + _SPARE):
        part = best[start : start + request.k + _SPARE]
        found = store.by_seqs(reader, [int(field_.seqs[i]) for i in part])
        for i in part:
            memory = found.get(int(field_.seqs[i]))
            words = text.wording(memory.content) if memory else ""
            if memory is None or words in said or len(hits) >= request.k:
                continue
            said.add(words)
            hits.append(
                Hit(
                    memory=memory,
                    content=memory.content,
                    score=float(total[i]),
                    parts={name: float(values[i]) for name, values in parts.items()},
                    routes=tuple(sorted(name for name, on in routes.items() if on[i])) or ("recent",),
                    source_ids=memory.source_ids,
                )
            )
        if len(hits) >= request.k:
            break
    if rewriting.asks_history(query) and request.filters.as_of is None:
        hits = _with_history(reader, hits, request)
    return hits


def _with_history(reader: Reader, hits: Sequence[Hit], request: Request) -> list[Hit]:
    """Each hit directly followed by what it superseded, newest first."""
    allowed = request.filters.visible
    chains: dict[str, list[Memory]] = {}
    for memory in _ancestors(reader, [hit.memory.id for hit in hits]):
        if memory.superseded_by and (allowed is None or memory.visibility in allowed):
            chains.setdefault(memory.superseded_by, []).append(memory)
    told: list[Hit] = []
    for hit in hits:
        told.append(hit)
        line = list(reversed(chains.get(hit.memory.id, [])))
        while line:
            old = line.pop(0)
            told.append(replace(hit, memory=old, content=old.content, routes=("history",), source_ids=old.source_ids))
            line = list(reversed(chains.get(old.id, []))) + line
    return told[: request.k]


def _ancestors(reader: Reader, ids: Sequence[str]) -> list[Memory]:
    found: list[Memory] = []
    asked: set[str] = set()
    wave: Collection[str] = ids
    while wave:
        asked |= set(wave)
        older = [m for m in store.predecessors(reader, list(wave)) if m.state is State.ARCHIVED]
        found += older
        wave = [m.id for m in older if m.id not in asked]
    return found


def _log(kernel: Kernel, trace_id: str, hits: Sequence[Hit], degraded: Sequence[str], took: float) -> None:
    kernel.events.emit(
        "memory_hit",
        trace_id=trace_id,
        retrieved_count=len(hits),
        sources=sorted({route for hit in hits for route in hit.routes}),
        degraded=list(degraded),
        latency_ms=round(took, 1),
    )
