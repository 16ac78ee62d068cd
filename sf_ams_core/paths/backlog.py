"""Records that could not be embedded when they were written get their vectors later.

outbox (ids only) ──present words──▶ embed outside the transaction ──▶ vectors, done | put off, with the reason
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

import numpy as np

from ..errors import ProviderFault
from ..kernel import Kernel
from ..ports import Vectors
from ..rules import text
from ..stores import memories as store
from ..stores import turns as turns_store
from ..stores import upkeep
from ..types import Memory, Scope, Turn
from .drafting import spoken_context

_AT_ONCE = 16
_SPOILT = 1  # texts that may fail alone; more, and it is the embedder that is broken
_FIRST_WAIT = timedelta(seconds=30)
_MAX_DOUBLINGS = 10


def catch_up(kernel: Kernel, scope: Scope, limit: int = _AT_ONCE) -> int:
    """Embed at most `limit` records of a scope that wait for vectors and are due; how many got them.

    Raises StoreUnavailable.
    """
    now = kernel.clock.now()
    with kernel.database.read(scope) as reader:
        due = upkeep.due(reader, "vector", now, limit)
        held = store.by_seqs(reader, [seq for seq, _ in due])
        sessions = {memory.session for memory in held.values()} - {None}
        said = {session: turns_store.transcript(reader, session) for session in sessions if session}
        pieces = {seq: _pieces(kernel, said, memory) for seq, memory in held.items()}
    if not due:
        return 0
    arrays = _embed(kernel, pieces)
    failed = pieces.keys() - arrays.keys()
    with kernel.database.write(scope) as writer:
        present = store.by_seqs(writer, list(arrays))
        for seq in present:
            store.set_vectors(writer, seq, kernel.embedder.space, arrays[seq])
        for seq, attempts in due:
            if seq in failed:
                wait = _FIRST_WAIT * 2 ** min(attempts, _MAX_DOUBLINGS)
                upkeep.put_off(writer, "vector", [seq], now + wait, "ProviderFault")
        upkeep.done(writer, "vector", [seq for seq, _ in due if seq not in failed])
    return len(present)


def _embed(kernel: Kernel, pieces: Mapping[int, Sequence[str]]) -> dict[int, Vectors]:
    """Vectors of what can be embedded now: all in one call, or one by one where a single text spoils it."""
    flat = [piece for group in pieces.values() for piece in group]
    try:
        array = kernel.embedder.embed(flat)
    except ProviderFault:
        return _embed_singly(kernel, pieces)
    ends = np.cumsum([len(group) for group in pieces.values()])
    return {seq: array[end - len(group) : end] for (seq, group), end in zip(pieces.items(), ends, strict=True)}


def _embed_singly(kernel: Kernel, pieces: Mapping[int, Sequence[str]]) -> dict[int, Vectors]:
    arrays: dict[int, Vectors] = {}
    faults = 0
    for seq, group in pieces.items():
        if faults > _SPOILT:
            break
        try:
            arrays[seq] = kernel.embedder.embed(group)
        except ProviderFault:
            faults += 1
    return arrays


def _pieces(kernel: Kernel, said: Mapping[str, Sequence[Turn]], memory: Memory) -> list[str]:
    rules = kernel.settings.write
    pieces = text.chunks(memory.content[: rules.searched_chars], rules.chunk_chars)
    if len(pieces) > 1 or memory.session is None or len(memory.source_ids) != 1:
        return pieces[: rules.embedded_chunks]
    before, turn = _pair(said[memory.session], memory.source_ids[0])
    context = spoken_context(turn, before, rules) if turn is not None else ""
    return [f"{context} {pieces[0]}".strip()]


def _pair(said: Sequence[Turn], turn_id: str) -> tuple[Turn | None, Turn | None]:
    """The turn before a turn, and the turn."""
    before: Turn | None = None
    for turn in said:
        if turn.id == turn_id:
            return before, turn
        before = turn if turn.content.strip() else before
    return None, None
