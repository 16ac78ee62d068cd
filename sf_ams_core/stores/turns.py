"""Every query about the transcript and its sessions.

The transcript only grows. `seq` is the order of arrival; `view` is the place in the chat's own view, which `clear`
empties without touching the transcript.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import delete, func, insert, select, update

from ..types import Turn
from .database import Reader, Writer
from .schema import sessions, turns


@dataclass(frozen=True, slots=True)
class Session:
    """The bookkeeping of one session."""

    session: str
    last_turn_at: datetime
    closed_at: datetime | None
    cleared_view: int
    summarised_view: int
    summary: str | None


@dataclass(frozen=True, slots=True)
class Placed:
    """A turn with its place in the view."""

    view: int
    turn: Turn


_COLUMNS = (
    turns.c.id,
    turns.c.role,
    turns.c.content,
    turns.c.speaker,
    turns.c.at,
    turns.c.payload,
    turns.c.view,
)


def _turn(row: Any) -> Turn:
    return Turn(row.role, row.content, id=row.id, speaker=row.speaker, at=row.at, payload=row.payload)


def append_turns(writer: Writer, session: str, items: Sequence[Turn], now: datetime) -> None:
    """Add turns that have ids. A known one changes nothing, but comes back into a view that was cleared of it."""
    known = _views(writer, session, [t.id for t in items if t.id])
    cleared = session_of(writer, session)
    cleared_view = cleared.cleared_view if cleared else 0
    rows: list[dict[str, Any]] = []
    for turn in items:
        assert turn.id is not None
        if turn.id not in known:
            seq = writer.take_seq()
            known[turn.id] = seq
            rows.append(_row(writer.scope_id, session, turn, seq, now))
        elif known[turn.id] <= cleared_view:
            known[turn.id] = _show_again(writer, session, turn.id)
    writer.execute(insert(turns), rows)
    _saw(writer, session, now)


def _row(scope_id: int, session: str, turn: Turn, seq: int, now: datetime) -> dict[str, Any]:
    return {
        "scope_id": scope_id,
        "seq": seq,
        "view": seq,
        "session": session,
        "id": turn.id,
        "role": turn.role,
        "content": turn.content,
        "speaker": turn.speaker,
        "at": turn.at,
        "arrived_at": now,
        "payload": turn.payload,
    }


def _views(writer: Writer, session: str, ids: Sequence[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for start in range(0, len(ids), 900):
        rows = writer.rows(
            select(turns.c.id, turns.c.view).where(
                turns.c.scope_id == writer.scope_id,
                turns.c.session == session,
                turns.c.id.in_(ids[start : start + 900]),
            )
        )
        found.update({row.id: row.view for row in rows})
    return found


def _show_again(writer: Writer, session: str, turn_id: str) -> int:
    view = writer.take_seq()
    writer.execute(
        update(turns)
        .where(turns.c.scope_id == writer.scope_id, turns.c.session == session, turns.c.id == turn_id)
        .values(view=view)
    )
    return view


def _saw(writer: Writer, session: str, now: datetime) -> None:
    if session_of(writer, session) is None:
        writer.execute(
            insert(sessions),
            [
                {
                    "scope_id": writer.scope_id,
                    "session": session,
                    "opened_at": now,
                    "last_turn_at": now,
                    "cleared_view": 0,
                    "summarised_view": 0,
                }
            ],
        )
    else:
        change_session(writer, session, last_turn_at=now, closed_at=None)


def session_of(reader: Reader | Writer, session: str) -> Session | None:
    """The bookkeeping of a session, None before its first turn."""
    s = sessions.c
    rows = reader.rows(
        select(s.session, s.last_turn_at, s.closed_at, s.cleared_view, s.summarised_view, s.summary).where(
            s.scope_id == reader.scope_id, s.session == session
        )
    )
    return Session(*rows[0]) if rows else None


def change_session(writer: Writer, session: str, **values: object) -> None:
    """Set bookkeeping columns of a session."""
    writer.execute(
        update(sessions).where(sessions.c.scope_id == writer.scope_id, sessions.c.session == session).values(**values)
    )


def clear_view(writer: Writer, session: str) -> None:
    """Empty the chat's view of a session; the transcript stays."""
    change_session(writer, session, cleared_view=writer.take_seq(), summary=None)


def transcript(reader: Reader | Writer, session: str) -> list[Turn]:
    """Every turn of a session in order of arrival."""
    statement = (
        select(*_COLUMNS).where(turns.c.scope_id == reader.scope_id, turns.c.session == session).order_by(turns.c.seq)
    )
    return [_turn(row) for row in reader.rows(statement)]


def view(reader: Reader | Writer, session: str, *, after: int = 0, last: int | None = None) -> list[Placed]:
    """The turns of the chat's view beyond `after`, in order; the `last` of them where given."""
    bookkeeping = session_of(reader, session)
    floor = max(after, bookkeeping.cleared_view if bookkeeping else 0)
    statement = (
        select(*_COLUMNS)
        .where(turns.c.scope_id == reader.scope_id, turns.c.session == session, turns.c.view > floor)
        .order_by(turns.c.view.desc())
        .limit(last)
    )
    return [Placed(row.view, _turn(row)) for row in reversed(reader.rows(statement))]


def last_said(reader: Reader | Writer, session: str) -> str:
    """The words of the user's last turn in a session, blank where there is none."""
    statement = (
        select(turns.c.content)
        .where(turns.c.scope_id == reader.scope_id, turns.c.session == session, turns.c.role == "user")
        .order_by(turns.c.seq.desc())
        .limit(1)
    )
    rows = reader.rows(statement)
    return str(rows[0].content) if rows else ""


def all_turns(reader: Reader | Writer) -> list[tuple[str, Turn]]:
    """Every turn of the scope with its session, in order of arrival."""
    statement = select(turns.c.session, *_COLUMNS).where(turns.c.scope_id == reader.scope_id)
    return [(row.session, _turn(row)) for row in reader.rows(statement.order_by(turns.c.seq))]


def live_sessions(reader: Reader | Writer, since: datetime) -> list[str]:
    """Sessions with a turn since then that were not closed."""
    s = sessions.c
    return [
        row.session
        for row in reader.rows(
            select(s.session).where(s.scope_id == reader.scope_id, s.last_turn_at >= since, s.closed_at.is_(None))
        )
    ]


def counts(reader: Reader) -> tuple[int, int]:
    """How many turns and sessions a scope has."""
    said = reader.rows(select(func.count()).select_from(turns).where(turns.c.scope_id == reader.scope_id))
    held = reader.rows(select(func.count()).select_from(sessions).where(sessions.c.scope_id == reader.scope_id))
    return (int(said[0][0]) if said else 0, int(held[0][0]) if held else 0)


def delete_turns(writer: Writer, session: str, ids: Sequence[str]) -> None:
    """Erase turns from the transcript."""
    for start in range(0, len(ids), 900):
        writer.execute(
            delete(turns).where(
                turns.c.scope_id == writer.scope_id,
                turns.c.session == session,
                turns.c.id.in_(ids[start : start + 900]),
            )
        )
