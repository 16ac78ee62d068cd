"""What several journeys need: the scope's index brought up to date, and waiting use written down."""

from __future__ import annotations

from ..errors import StoreUnavailable
from ..indexes.exact import Entry, Snapshot
from ..kernel import Kernel
from ..stores import memories as store
from ..stores.database import Reader, Writer
from ..types import Scope


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
    uses = kernel.uses.take(scope)
    if not uses:
        return
    try:
        with kernel.database.write(scope) as writer:
            store.add_uses(writer, uses)
    except StoreUnavailable:
        kernel.uses.give_back(scope, uses)
        raise
