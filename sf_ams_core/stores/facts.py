"""Every query about exact facts and about working memory."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import delete, func, insert, or_, select, update

from ..types import Fact, Json, Source
from .database import Reader, Writer
from .schema import facts, working

_COLUMNS = (facts.c.key, facts.c.value, facts.c.version, facts.c.valid_from, facts.c.valid_to, facts.c.source)


def put_fact(writer: Writer, key: str, value: Json, now: datetime, source: Source, memory_id: str | None) -> Fact:
    """Make `value` the current version of `key`; the version before it stays as history."""
    f = facts.c
    newest, latest = writer.rows(
        select(func.max(f.version), func.max(f.valid_from)).where(f.scope_id == writer.scope_id, f.key == key)
    )[0]
    now = max(now, latest or now)  # a clock set back turns no history round
    end_fact(writer, key, now)
    fact = Fact(key, value, (newest or 0) + 1, now, None, source)
    writer.execute(
        insert(facts),
        [
            {
                "scope_id": writer.scope_id,
                "key": key,
                "version": fact.version,
                "value": value,
                "valid_from": now,
                "valid_to": None,
                "source": source,
                "memory_id": memory_id,
            }
        ],
    )
    return fact


def end_fact(writer: Writer, key: str, now: datetime) -> bool:
    """End the current version of a key; whether there was one."""
    f = facts.c
    return bool(
        writer.execute(
            update(facts).where(f.scope_id == writer.scope_id, f.key == key, f.valid_to.is_(None)).values(valid_to=now)
        )
    )


def current_facts(reader: Reader | Writer, key: str | None = None) -> list[Fact]:
    """The current version of one key, or of all in order of key."""
    f = facts.c
    statement = select(*_COLUMNS).where(f.scope_id == reader.scope_id, f.valid_to.is_(None))
    if key is not None:
        statement = statement.where(f.key == key)
    return [Fact(*row) for row in reader.rows(statement.order_by(f.key))]


def fact_at(reader: Reader, key: str, moment: datetime) -> Fact | None:
    """The version of a key that held at a moment."""
    f = facts.c
    rows = reader.rows(
        select(*_COLUMNS)
        .where(
            f.scope_id == reader.scope_id,
            f.key == key,
            f.valid_from <= moment,
            or_(f.valid_to.is_(None), f.valid_to > moment),
        )
        .order_by(f.version.desc())
        .limit(1)
    )
    return Fact(*rows[0]) if rows else None


def fact_versions(reader: Reader | Writer, key: str | None = None) -> list[Fact]:
    """Every version of one key (or of all), oldest first."""
    f = facts.c
    statement = select(*_COLUMNS).where(f.scope_id == reader.scope_id)
    if key is not None:
        statement = statement.where(f.key == key)
    return [Fact(*row) for row in reader.rows(statement.order_by(f.key, f.version))]


def erase_fact_version(writer: Writer, key: str, version: int) -> None:
    """Delete one version of a fact for good."""
    f = facts.c
    writer.execute(delete(facts).where(f.scope_id == writer.scope_id, f.key == key, f.version == version))


def put_working(writer: Writer, session: str, key: str, value: Json, expires_at: datetime | None) -> None:
    """Set one key of a session's state."""
    row = {
        "scope_id": writer.scope_id,
        "session": session,
        "key": key,
        "value": value,
        "expires_at": expires_at,
    }
    writer.upsert(working, ("scope_id", "session", "key"), [row])


def all_working(reader: Reader | Writer, session: str, now: datetime) -> dict[str, Any]:
    """The state of a session that has not expired, in order of key."""
    w = working.c
    rows = reader.rows(
        select(w.key, w.value)
        .where(
            w.scope_id == reader.scope_id,
            w.session == session,
            or_(w.expires_at.is_(None), w.expires_at > now),
        )
        .order_by(w.key)
    )
    return {row.key: row.value for row in rows}


def every_working(reader: Reader | Writer) -> list[tuple[str, str, Any]]:
    """All state of a scope: session, key, value; expired values too."""
    w = working.c
    return [
        (row.session, row.key, row.value)
        for row in reader.rows(select(w.session, w.key, w.value).where(w.scope_id == reader.scope_id))
    ]


def delete_working(writer: Writer, session: str, key: str | None = None) -> int:
    """Delete one key of a session's state, or all; the number deleted."""
    w = working.c
    statement = delete(working).where(w.scope_id == writer.scope_id, w.session == session)
    return writer.execute(statement if key is None else statement.where(w.key == key))


def erase_facts_of(writer: Writer, memory_ids: Sequence[str]) -> None:
    """Delete the versions of facts that these memories stated."""
    f = facts.c
    for start in range(0, len(memory_ids), 900):
        part = memory_ids[start : start + 900]
        writer.execute(delete(facts).where(f.scope_id == writer.scope_id, f.memory_id.in_(part)))
