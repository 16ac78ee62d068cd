"""Every query about the journal of forgetting, the outbox and erasing a whole scope."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import delete, func, insert, select, update

from ..types import Json
from .database import Reader, Writer
from .schema import (
    facts,
    journal,
    marks,
    memories,
    outbox,
    sessions,
    tombstones,
    turns,
    vectors,
    working,
)

OWNED = (turns, sessions, memories, marks, vectors, facts, working, outbox, journal)


def add_journal(
    writer: Writer, report: str, entries: Sequence[tuple[str, str, Mapping[str, Json]]], now: datetime
) -> None:
    """Note what a report did to memories: id, action, how it was before."""
    writer.execute(
        insert(journal),
        [
            {
                "scope_id": writer.scope_id,
                "report": report,
                "memory_id": memory_id,
                "action": action,
                "before": dict(before),
                "at": now,
            }
            for memory_id, action, before in entries
        ],
    )


def open_journal(reader: Reader | Writer, report: str) -> list[tuple[str, str, Any]]:
    """What of a report was not undone yet: id, action, how it was before."""
    j = journal.c
    rows = reader.rows(
        select(j.memory_id, j.action, j.before).where(
            j.scope_id == reader.scope_id, j.report == report, j.undone_at.is_(None)
        )
    )
    return [(row.memory_id, row.action, row.before) for row in rows]


def close_journal(writer: Writer, report: str, memory_id: str, now: datetime) -> None:
    """Note that one entry was undone."""
    j = journal.c
    writer.execute(
        update(journal)
        .where(j.scope_id == writer.scope_id, j.report == report, j.memory_id == memory_id)
        .values(undone_at=now)
    )


def waiting(reader: Reader, work: str) -> int:
    """How many records of a scope wait for `work`."""
    o = outbox.c
    rows = reader.rows(select(func.count()).select_from(outbox).where(o.scope_id == reader.scope_id, o.work == work))
    return int(rows[0][0]) if rows else 0


def due(reader: Reader, work: str, now: datetime, limit: int) -> list[tuple[int, int]]:
    """Records of a scope that are due for `work`, oldest first: number, attempts so far."""
    o = outbox.c
    rows = reader.rows(
        select(o.seq, o.attempts)
        .where(o.scope_id == reader.scope_id, o.work == work, o.not_before <= now)
        .order_by(o.id)
        .limit(limit)
    )
    return [(row.seq, row.attempts) for row in rows]


def done(writer: Writer, work: str, seqs: Sequence[int]) -> None:
    """Take finished work out of the outbox."""
    o = outbox.c
    for start in range(0, len(seqs), 900):
        part = seqs[start : start + 900]
        writer.execute(delete(outbox).where(o.scope_id == writer.scope_id, o.work == work, o.seq.in_(part)))


def put_off(writer: Writer, work: str, seqs: Sequence[int], until: datetime, error: str) -> None:
    """Try work again later, and say what went wrong."""
    o = outbox.c
    for start in range(0, len(seqs), 900):
        writer.execute(
            update(outbox)
            .where(o.scope_id == writer.scope_id, o.work == work, o.seq.in_(seqs[start : start + 900]))
            .values(attempts=o.attempts + 1, not_before=until, last_error=error)
        )


def erase_everything(writer: Writer, now: datetime) -> list[str]:
    """Delete all that a scope holds; the ids of its memories, which become tombstones."""
    ids = [r.id for r in writer.rows(select(memories.c.id).where(memories.c.scope_id == writer.scope_id))]
    for table in OWNED:
        writer.execute(delete(table).where(table.c.scope_id == writer.scope_id))
    writer.upsert(
        tombstones,
        ("memory_id",),
        [{"memory_id": i, "scope_id": writer.scope_id, "deleted_at": now, "why": "erased"} for i in ids],
    )
    writer.outdate_caches()
    return ids


def rows_by_table(reader: Reader) -> dict[str, int]:
    """How many rows a scope has in each table."""
    return (
        {
            table.name: int(
                reader.rows(select(func.count()).select_from(table).where(table.c.scope_id == reader.scope_id))[0][0]
            )
            for table in OWNED
        }
        if reader.scope_id is not None
        else {table.name: 0 for table in OWNED}
    )
