"""What several journeys need: the scope's index brought up to date, and waiting use written down."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from datetime import datetime

from ..indexes.exact import Entry, Snapshot
from ..kernel import Kernel
from ..stores import memories as store
from ..stores import turns as turns_store
from ..stores.database import Reader, Writer
from ..stores.filters import Filters
from ..types import Memory, Scope, State, Turn


def fresh_snapshot(kernel: Kernel, reader: Reader | Writer) -> Snapshot:
    """The index of the reader's scope with everything that the reader can see."""
    if reader.scope_id is None:
        return Snapshot(kernel.embedder.dimension)
    space, dimension = kernel.embedder.space, kernel.embedder.dimension
    snapshot = kernel.snapshots.get(reader.scope_id, space, dimension, reader.epoch)
    with snapshot.lock:
        if snapshot.newest < reader.next_seq - 1:
            snapshot.extend(_entry(row) for row in store.indexed(reader, space, snapshot.newest))
    return snapshot


def _entry(row: store.Indexed) -> Entry:
    return Entry(
        seq=row.seq,
        terms=row.terms,
        vectors=row.vectors,
        session=row.session,
        speaker=row.speaker,
        # What an agent chose to save counts in full; what it merely said ranks below the user's words.
        from_assistant=row.is_turn and row.source in ("assistant", "tool"),
        is_turn=row.is_turn,
    )


def write_uses(kernel: Kernel, scope: Scope) -> None:
    """Write down the use that waits for a scope. Raises StoreUnavailable; nothing is lost by it."""
    if scope in kernel.uses.scopes():
        with writing(kernel, scope):
            pass


@contextlib.contextmanager
def writing(kernel: Kernel, scope: Scope) -> Iterator[Writer]:
    """A transaction that also writes down the use that waits; where it fails, the use waits on."""
    uses = kernel.uses.take(scope)
    try:
        with kernel.database.write(scope) as writer:
            store.add_uses(writer, uses)
            yield writer
    except BaseException:
        kernel.uses.give_back(scope, uses)
        raise


def outdate_digests(writer: Writer, changed: Sequence[Memory], now: datetime) -> None:
    """Retire what was made of memories that no longer hold: summaries, and the rolling digest of their sessions."""
    turns = {(m.session, turn_id) for m in changed if m.session is not None for turn_id in m.source_ids}
    if not turns:
        return
    for session in {session for session, _ in turns}:
        assert session is not None
        turns_store.change_session(writer, session, summary=None, summarised_view=0)
    summaries = store.matching(writer, Filters(types=("summary",), visible=None), now)
    stale = [m.id for _, m in summaries if any((m.session, turn_id) in turns for turn_id in m.source_ids)]
    store.set_state(writer, stale, State.ARCHIVED, "source changed", now, retired_at=now)


def still_held(reader: Reader | Writer, session: str, turns: Sequence[Turn]) -> list[Turn]:
    """The turns whose records nothing has replaced or released: what a digest may repeat."""
    records = store.of_turns(reader, session, [turn.id for turn in turns if turn.id])
    gone = {turn_id for turn_id, record in records.items() if record.state is State.ARCHIVED}
    return [turn for turn in turns if turn.id not in gone]
