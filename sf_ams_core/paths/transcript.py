"""Turns: the transcript first, then a word-for-word record of each, in one transaction.

turns ──clean, redact──▶ transcript row ──▶ record (dialogue, or promoted) ──▶ rolling digest of what left the window
"""

from __future__ import annotations

from collections.abc import Sequence

from ..kernel import Kernel
from ..rules import digest
from ..stores import memories
from ..stores import turns as store
from ..stores.database import Writer
from ..types import RefusalReason, Refused, Scope, Touched, Turn, WriteOutcome
from .common import still_held
from .drafting import Draft, clean_turn, draft_turn
from .write import write_drafts


def add_turns(kernel: Kernel, scope: Scope, session: str, turns: Sequence[Turn]) -> list[WriteOutcome]:
    """Write turns and their records; an outcome each, in order. Raises InvalidInput and StoreUnavailable."""
    cleaned = [clean_turn(turn, kernel.settings, kernel.clock) for turn in turns]
    kept = [turn for turn in cleaned if isinstance(turn, Turn)]
    if not kept:
        return [turn for turn in cleaned if isinstance(turn, Refused)]
    drafts = _drafts(kernel, scope, session, kept)
    written = _write(kernel, scope, session, kept, drafts)
    return [turn if isinstance(turn, Refused) else written[turn.id or ""] for turn in cleaned]


def _drafts(kernel: Kernel, scope: Scope, session: str, turns: Sequence[Turn]) -> dict[str, Draft]:
    if not kernel.enabled:
        return {}
    with kernel.database.read(scope) as reader:
        known = memories.of_turns(reader, session, [t.id for t in turns if t.id])
        last = store.view(reader, session, last=1)
    before = last[-1].turn if last else None
    drafts: dict[str, Draft] = {}
    for turn in turns:
        assert turn.id is not None
        if turn.id not in known and turn.id not in drafts:
            draft = draft_turn(turn, before, session, scope, kernel.settings, kernel.clock)
            if draft is not None:
                drafts[turn.id] = draft
        if turn.content.strip():
            before = turn
    return drafts


def _write(
    kernel: Kernel, scope: Scope, session: str, turns: Sequence[Turn], drafts: dict[str, Draft]
) -> dict[str, WriteOutcome]:
    def transcribe(writer: Writer) -> list[bool]:
        store.append_turns(writer, session, turns, kernel.clock.now())
        _roll_up(kernel, writer, session)
        # A turn has its record once, also where it was said while the memory was switched off.
        known = memories.of_turns(writer, session, list(drafts))
        return [turn_id not in known for turn_id in drafts]

    outcomes = write_drafts(kernel, scope, list(drafts.values()), before=transcribe)
    written: dict[str, WriteOutcome] = dict(zip(drafts, outcomes, strict=True))
    return written | _without_draft(kernel, scope, session, [t for t in turns if t.id not in written])


def _without_draft(kernel: Kernel, scope: Scope, session: str, turns: Sequence[Turn]) -> dict[str, WriteOutcome]:
    """Outcomes of turns that made no record now: known before, without text, or said while switched off."""
    ids = [turn.id for turn in turns if turn.id]
    with kernel.database.read(scope) as reader:
        records = memories.of_turns(reader, session, ids) if ids else {}
    off = Refused(RefusalReason.DISABLED, "the memory is switched off; the transcript has the turn")
    blank = Refused(RefusalReason.BLANK, "a turn without text is in the transcript only")
    silent = blank if kernel.enabled else off
    return {i: Touched(records[i].id) if i in records else silent for i in ids}


def _roll_up(kernel: Kernel, writer: Writer, session: str) -> None:
    """Digest what left the recent window, every so many turns, so that a prompt stays bounded."""
    rules = kernel.settings.context
    held = store.session_of(writer, session)
    if held is None:
        return
    left = store.view(writer, session, after=held.summarised_view)[: -rules.recent_turns]
    if len(left) < rules.summary_every:
        return
    worth = still_held(writer, session, [placed.turn for placed in left])
    summary = digest.extend(held.summary or "", worth, rules.summary_chars, kernel.settings.write)
    store.change_session(writer, session, summary=summary, summarised_view=left[-1].view)
