"""Every query about memories, their vectors and their marks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

import numpy as np
from sqlalchemy import BigInteger, bindparam, case, delete, func, insert, select, type_coerce, update

from ..ports import Vectors
from ..types import Memory, Scope, State
from .database import Reader, Writer
from .filters import Filters, conditions, metadata_marks
from .schema import facts, journal, marks, memories, outbox, tombstones, vectors

_T = TypeVar("_T")
_VARIABLES = 900  # bound values a statement: below every database's limit


@dataclass(frozen=True, slots=True)
class Record:
    """A memory with what is stored beside it: search terms a chunk, the digest of its words, vectors a chunk."""

    memory: Memory
    terms: tuple[tuple[str, ...], ...]
    folded: str
    entity_marks: tuple[str, ...]
    turn_id: str | None = None
    vectors: Vectors | None = None


@dataclass(frozen=True, slots=True)
class Indexed:
    """What ranking reads of a record; none of it ever changes."""

    seq: int
    terms: tuple[tuple[str, ...], ...]
    session: str | None
    speaker: str | None
    source: str
    is_turn: bool
    vectors: tuple[tuple[int, Vectors], ...]


_COLUMNS = [c for c in memories.c if c.name not in ("terms", "folded", "chars", "turn_id", "said_at", "retired_at")]


def memory_of(row: Any, scope: Scope) -> Memory:
    """The memory of a row of `_COLUMNS`."""
    return Memory(
        id=row.id,
        scope=scope,
        type=f"{row.type}:{row.subtype}" if row.subtype else row.type,
        content=row.content,
        importance=row.importance,
        entities=tuple(row.entities),
        metadata=row.metadata,
        key=row.key,
        source=row.source,
        source_ids=tuple(row.source_ids),
        trust=row.trust,
        visibility=row.visibility,
        pinned=row.pinned,
        created_at=row.created_at,
        occurred_at=row.occurred_at,
        updated_at=row.updated_at,
        last_accessed_at=row.last_accessed_at,
        access_count=row.access_count,
        expires_at=row.expires_at,
        state=State(row.state),
        superseded_by=row.superseded_by,
        embedding_version=row.embedding_version,
        session=row.session,
        speaker=row.speaker,
    )


def insert_records(writer: Writer, records: Sequence[Record]) -> list[int]:
    """Write new memories with vectors and marks; the numbers they got. Those without vectors are put in the outbox."""
    seqs = [writer.take_seq() for _ in records]
    pairs = list(zip(seqs, records, strict=True))
    writer.execute(insert(memories), [_row(writer.scope_id, seq, record) for seq, record in pairs])
    writer.execute(insert(marks), [mark for seq, record in pairs for mark in _marks(writer.scope_id, seq, record)])
    for seq, record in pairs:
        if record.vectors is None:
            enqueue(writer, [seq], "vector", record.memory.created_at)
    store_vectors(
        writer,
        [(seq, r.memory.embedding_version, r.vectors) for seq, r in pairs if r.memory.embedding_version is not None],
    )
    return seqs


def _row(scope_id: int, seq: int, record: Record) -> dict[str, Any]:
    memory = record.memory
    base, _, sub = memory.type.partition(":")
    return {
        **{c.name: getattr(memory, c.name) for c in _COLUMNS if hasattr(memory, c.name)},
        "scope_id": scope_id,
        "seq": seq,
        "type": base,
        "subtype": sub or None,
        "terms": "\n".join(" ".join(chunk) for chunk in record.terms),
        "folded": record.folded,
        "chars": len(memory.content),
        "entities": list(memory.entities),
        "source_ids": list(memory.source_ids),
        "turn_id": record.turn_id,
        "said_at": memory.said_at,
        "state": str(memory.state),
        "why": None,
        "retired_at": None,
    }


def _marks(scope_id: int, seq: int, record: Record) -> list[dict[str, Any]]:
    pairs = [("entity", "", name) for name in dict.fromkeys(record.entity_marks) if name]
    pairs += [("meta", name, value) for name, value in metadata_marks(record.memory.metadata)]
    return [{"scope_id": scope_id, "seq": seq, "kind": k, "name": n, "value": v} for k, n, v in pairs]


def store_vectors(writer: Writer, items: Iterable[tuple[int, str | None, Vectors | None]]) -> None:
    """Write the vectors of records: number, space, array (chunks, dimension)."""
    writer.upsert(
        vectors,
        ("scope_id", "space", "seq", "chunk"),
        [
            {
                "scope_id": writer.scope_id,
                "space": space,
                "seq": seq,
                "chunk": number,
                "vector": np.asarray(row, dtype="<f4").tobytes(),
            }
            for seq, space, array in items
            if array is not None
            for number, row in enumerate(array)
        ],
    )


def enqueue(writer: Writer, seqs: Iterable[int], work: str, now: datetime) -> None:
    """Mark records as dirty for `work`."""
    rows = [
        {
            "scope_id": writer.scope_id,
            "seq": s,
            "work": work,
            "attempts": 0,
            "not_before": now,
            "last_error": None,
        }
        for s in seqs
    ]
    writer.upsert(outbox, ("scope_id", "seq", "work"), rows)


def by_ids(reader: Reader | Writer, ids: Sequence[str]) -> dict[str, Memory]:
    """The memories of this scope among `ids`, whatever their state."""
    found: dict[str, Memory] = {}
    for part in _parts(ids):
        rows = reader.rows(select(*_COLUMNS).where(memories.c.scope_id == reader.scope_id, memories.c.id.in_(part)))
        found.update({row.id: memory_of(row, reader.scope) for row in rows})
    return {i: found[i] for i in ids if i in found}


def by_seqs(reader: Reader | Writer, seqs: Sequence[int]) -> dict[int, Memory]:
    """The memories of this scope with these numbers."""
    found: dict[int, Memory] = {}
    for part in _parts(seqs):
        rows = reader.rows(select(*_COLUMNS).where(memories.c.scope_id == reader.scope_id, memories.c.seq.in_(part)))
        found.update({row.seq: memory_of(row, reader.scope) for row in rows})
    return {s: found[s] for s in seqs if s in found}


def matching(
    reader: Reader | Writer, filters: Filters, now: datetime, *, after: int = 0, limit: int | None = None
) -> list[tuple[int, Memory]]:
    """Memories that pass a filter, with their numbers, in order of arrival."""
    statement = (
        select(*_COLUMNS)
        .where(conditions(filters, reader.scope_id, now), memories.c.seq > after)
        .order_by(memories.c.seq)
        .limit(limit)
    )
    return [(row.seq, memory_of(row, reader.scope)) for row in reader.rows(statement)]


def candidates(reader: Reader | Writer, filters: Filters, now: datetime) -> Sequence[Any]:
    """Rows (seq, importance, said, accessed) of what a recall may rank, in order of arrival; times in microseconds."""
    m = memories.c
    said, accessed = type_coerce(m.said_at, BigInteger), type_coerce(m.last_accessed_at, BigInteger)
    return reader.rows(
        select(m.seq, m.importance, said, accessed).where(conditions(filters, reader.scope_id, now)).order_by(m.seq)
    )


def keyed(reader: Reader | Writer) -> dict[int, str]:
    """The keys of active memories that have one, by number."""
    m = memories.c
    rows = reader.rows(
        select(m.seq, m.key).where(m.scope_id == reader.scope_id, m.key.is_not(None), m.state == State.ACTIVE)
    )
    return {row.seq: row.key for row in rows}


def seqs_of_turns(reader: Reader | Writer, session: str, turn_ids: Sequence[str]) -> set[int]:
    """The numbers of the records of these turns."""
    m = memories.c
    found: set[int] = set()
    for part in _parts(turn_ids):
        statement = select(m.seq).where(m.scope_id == reader.scope_id, m.session == session, m.turn_id.in_(part))
        found.update(row.seq for row in reader.rows(statement))
    return found


def turn_places(reader: Reader | Writer) -> dict[str, list[tuple[str, str]]]:
    """Where turns with this id were said: their sessions, and the id of each one's record."""
    m = memories.c
    statement = select(m.turn_id, m.session, m.id).where(m.scope_id == reader.scope_id, m.turn_id.is_not(None))
    found: dict[str, list[tuple[str, str]]] = {}
    for row in reader.rows(statement.order_by(m.seq)):
        found.setdefault(row.turn_id, []).append((row.session, row.id))
    return found


def of_turns(reader: Reader | Writer, session: str, turn_ids: Sequence[str]) -> dict[str, Memory]:
    """The records of these turns, by turn id."""
    m = memories.c
    found: dict[str, Memory] = {}
    for part in _parts(turn_ids):
        statement = select(*_COLUMNS, m.turn_id).where(
            m.scope_id == reader.scope_id, m.session == session, m.turn_id.in_(part)
        )
        found.update({row.turn_id: memory_of(row, reader.scope) for row in reader.rows(statement)})
    return found


def with_folded(reader: Reader | Writer, digests: Sequence[str]) -> dict[str, list[tuple[int, Memory]]]:
    """Active memories that say the same words, by digest, in order of arrival."""
    m = memories.c
    found: dict[str, list[tuple[int, Memory]]] = {}
    for part in _parts(digests):
        statement = (
            select(*_COLUMNS, m.folded)
            .where(m.scope_id == reader.scope_id, m.folded.in_(part), m.state == State.ACTIVE)
            .order_by(m.seq)
        )
        for row in reader.rows(statement):
            found.setdefault(row.folded, []).append((row.seq, memory_of(row, reader.scope)))
    return found


def with_key(reader: Reader | Writer, key: str) -> list[Memory]:
    """Memories of a key that hold: active ones, and cold ones, which could come back."""
    m = memories.c
    held = m.state.in_((State.ACTIVE, State.COLD))
    statement = select(*_COLUMNS).where(m.scope_id == reader.scope_id, m.key == key, held)
    return [memory_of(row, reader.scope) for row in reader.rows(statement)]


def key_taken(reader: Reader | Writer, memory: Memory) -> bool:
    """Whether another active memory has the key of this one, so that this one can't come back."""
    if memory.key is None:
        return False
    return any(m.id != memory.id and m.state is State.ACTIVE for m in with_key(reader, memory.key))


def predecessors(reader: Reader | Writer, ids: Sequence[str]) -> list[Memory]:
    """Memories that one of `ids` superseded."""
    m = memories.c
    found: list[Memory] = []
    for part in _parts(ids):
        statement = select(*_COLUMNS).where(m.scope_id == reader.scope_id, m.superseded_by.in_(part)).order_by(m.seq)
        found.extend(memory_of(row, reader.scope) for row in reader.rows(statement))
    return found


def set_state(
    writer: Writer,
    ids: Sequence[str],
    state: State,
    why: str | None,
    now: datetime,
    *,
    retired_at: datetime | None = None,
    superseded_by: str | None = None,
) -> None:
    """Move memories to a state, and say what brought them there."""
    for part in _parts(ids):
        writer.execute(
            update(memories)
            .where(memories.c.scope_id == writer.scope_id, memories.c.id.in_(part))
            .values(state=str(state), why=why, updated_at=now, retired_at=retired_at, superseded_by=superseded_by)
        )


def why_of(reader: Reader | Writer, ids: Sequence[str]) -> dict[str, tuple[str | None, datetime | None]]:
    """What brought memories to their state, and when they were retired."""
    m = memories.c
    found: dict[str, tuple[str | None, datetime | None]] = {}
    for part in _parts(ids):
        rows = reader.rows(select(m.id, m.why, m.retired_at).where(m.scope_id == reader.scope_id, m.id.in_(part)))
        found.update({row.id: (row.why, row.retired_at) for row in rows})
    return found


def change(writer: Writer, ids: Sequence[str], now: datetime, **values: object) -> int:
    """Set bookkeeping columns (pinned, importance, source_ids, …); the number of memories changed."""
    return sum(
        writer.execute(
            update(memories)
            .where(memories.c.scope_id == writer.scope_id, memories.c.id.in_(part))
            .values(updated_at=now, **values)
        )
        for part in _parts(ids)
    )


def add_uses(writer: Writer, uses: Mapping[str, tuple[int, datetime]]) -> None:
    """Add to the use of memories: count and time of the latest."""
    m = memories.c
    newer = bindparam("at", type_=m.last_accessed_at.type)
    writer.execute(
        update(memories)
        .where(m.scope_id == bindparam("owner"), m.id == bindparam("memory"))
        .values(
            access_count=m.access_count + bindparam("times"),
            last_accessed_at=case((m.last_accessed_at > newer, m.last_accessed_at), else_=newer),
        ),
        [{"owner": writer.scope_id, "memory": i, "times": times, "at": at} for i, (times, at) in sorted(uses.items())],
    )


def delete_memories(writer: Writer, ids: Sequence[str], now: datetime, why: str) -> None:
    """Delete memories with everything beside them; a tombstone without content stays."""
    if not ids:
        return
    seqs = [
        row.seq
        for part in _parts(ids)
        for row in writer.rows(
            select(memories.c.seq).where(memories.c.scope_id == writer.scope_id, memories.c.id.in_(part))
        )
    ]
    for part in _parts(seqs):
        for table in (marks, vectors, outbox, memories):
            writer.execute(delete(table).where(table.c.scope_id == writer.scope_id, table.c.seq.in_(part)))
    for part in _parts(ids):
        writer.execute(delete(journal).where(journal.c.scope_id == writer.scope_id, journal.c.memory_id.in_(part)))
        writer.execute(
            update(facts).where(facts.c.scope_id == writer.scope_id, facts.c.memory_id.in_(part)).values(memory_id=None)
        )
    writer.upsert(
        tombstones,
        ("memory_id",),
        [{"memory_id": i, "scope_id": writer.scope_id, "deleted_at": now, "why": why} for i in ids],
    )
    writer.outdate_caches()


def indexed(reader: Reader | Writer, space: str, after: int) -> list[Indexed]:
    """What ranking needs of all records numbered above `after`, vectors of one space included."""
    m, v = memories.c, vectors.c
    arrays: dict[int, list[tuple[int, Vectors]]] = {}
    for row in reader.rows(
        select(v.seq, v.chunk, v.vector)
        .where(v.scope_id == reader.scope_id, v.space == space, v.seq > after)
        .order_by(v.seq, v.chunk)
    ):
        arrays.setdefault(row.seq, []).append((row.chunk, np.frombuffer(row.vector, dtype="<f4")))
    rows = reader.rows(
        select(m.seq, m.terms, m.session, m.speaker, m.source, m.turn_id)
        .where(m.scope_id == reader.scope_id, m.seq > after)
        .order_by(m.seq)
    )
    return [
        Indexed(
            seq=row.seq,
            terms=tuple(tuple(line.split()) for line in row.terms.split("\n")),
            session=row.session,
            speaker=row.speaker,
            source=row.source,
            is_turn=row.turn_id is not None,
            vectors=tuple(arrays.get(row.seq, ())),
        )
        for row in rows
    ]


def counts(reader: Reader) -> dict[tuple[str, str], tuple[int, int]]:
    """Number and characters of memories by (state, type)."""
    m = memories.c
    rows = reader.rows(
        select(m.state, m.type, func.count(), func.sum(m.chars))
        .where(m.scope_id == reader.scope_id)
        .group_by(m.state, m.type)
    )
    return {(row[0], row[1]): (int(row[2]), int(row[3] or 0)) for row in rows}


def _parts(items: Sequence[_T]) -> Iterable[Sequence[_T]]:
    return (items[i : i + _VARIABLES] for i in range(0, len(items), _VARIABLES))


def expired(reader: Reader | Writer, now: datetime) -> list[Memory]:
    """Active memories whose time is over."""
    m = memories.c
    statement = (
        select(*_COLUMNS)
        .where(m.scope_id == reader.scope_id, m.state == State.ACTIVE, m.expires_at <= now)
        .order_by(m.seq)
    )
    return [memory_of(row, reader.scope) for row in reader.rows(statement)]


def everything(reader: Reader | Writer) -> list[Memory]:
    """Every memory of the scope, whatever its state, in order of arrival."""
    statement = select(*_COLUMNS).where(memories.c.scope_id == reader.scope_id).order_by(memories.c.seq)
    return [memory_of(row, reader.scope) for row in reader.rows(statement)]


def drop_vectors(writer: Writer, seqs: Sequence[int]) -> None:
    """Delete the vectors of records, which have to be computed anew."""
    for part in _parts(seqs):
        writer.execute(delete(vectors).where(vectors.c.scope_id == writer.scope_id, vectors.c.seq.in_(part)))
        writer.execute(
            update(memories)
            .where(memories.c.scope_id == writer.scope_id, memories.c.seq.in_(part))
            .values(embedding_version=None)
        )
    writer.outdate_caches()


def set_vectors(writer: Writer, seq: int, space: str, array: Vectors) -> None:
    """Give a record the vectors it waited for."""
    store_vectors(writer, [(seq, space, array)])
    writer.execute(
        update(memories)
        .where(memories.c.scope_id == writer.scope_id, memories.c.seq == seq)
        .values(embedding_version=space)
    )
    writer.outdate_caches()


def stray_vectors(reader: Reader) -> int:
    """How many vectors of the scope belong to no memory."""
    v, m = vectors.c, memories.c
    owned = select(m.seq).where(m.scope_id == v.scope_id, m.seq == v.seq).exists()
    rows = reader.rows(select(func.count()).select_from(vectors).where(v.scope_id == reader.scope_id, ~owned))
    return int(rows[0][0]) if rows else 0


def versions(reader: Reader | Writer, memory_id: str) -> list[Memory]:
    """All versions of what a memory says, oldest first; none where this scope does not hold it."""
    start = by_ids(reader, [memory_id])
    if not start:
        return []
    older: dict[str, Memory] = {}
    wave = [memory_id]
    while wave:
        found = [m for m in predecessors(reader, wave) if m.id not in older]
        older.update({m.id: m for m in found})
        wave = [m.id for m in found]
    newer: dict[str, Memory] = {}
    current = start[memory_id]
    while current.superseded_by and current.superseded_by not in newer:
        following = by_ids(reader, [current.superseded_by])
        if not following:
            break
        current = following[current.superseded_by]
        newer[current.id] = current
    past = sorted(older.values(), key=lambda m: (m.said_at, m.created_at, m.id))
    return [*past, start[memory_id], *newer.values()]
