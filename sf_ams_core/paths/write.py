"""The write path.

    drafts ──embed (or carry on without)──▶ one transaction: neighbours → judge → rows ──▶ outcomes

Everything that needs a model happens before the transaction; inside it the scope has one writer, so what is judged
is the present truth.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

import numpy as np

from ..errors import ProviderFault, StoreUnavailable
from ..kernel import Kernel
from ..ports import Vectors
from ..rules.judgement import Statement, Verdict, judge, may_retire
from ..rules.retention import expired
from ..stores import facts as facts_store
from ..stores import memories as store
from ..stores import turns as turns_store
from ..stores.database import Writer
from ..types import Memory, Note, RefusalReason, Refused, Scope, State, Stored, Superseded, Touched, WriteOutcome
from .backlog import catch_up
from .common import outdate_digests, writing
from .drafting import Draft, draft_note
from .nominating import Nominations


def remember_many(kernel: Kernel, scope: Scope, notes: Sequence[Note]) -> list[WriteOutcome]:
    """The whole write path for notes; an outcome each, in order. Raises InvalidInput and StoreUnavailable."""
    drafts = [draft_note(note, scope, kernel.settings, kernel.clock) for note in notes]
    if not kernel.enabled:
        return [Refused(RefusalReason.DISABLED, "the memory is switched off") for _ in drafts]
    written = iter(write_drafts(kernel, scope, [d for d in drafts if isinstance(d, Draft)]))
    outcomes = [draft if isinstance(draft, Refused) else next(written) for draft in drafts]
    for outcome in outcomes:
        if isinstance(outcome, Refused):
            kernel.events.emit("write_refused", reason=str(outcome.reason))
    return outcomes


def write_drafts(
    kernel: Kernel,
    scope: Scope,
    drafts: Sequence[Draft],
    *,
    before: Callable[[Writer], Sequence[bool]] | None = None,
) -> list[WriteOutcome]:
    """Embed, judge and write drafts in one transaction.

    `before` runs first inside it (the transcript's part) and says which drafts are new.
    """
    if not drafts and before is None:
        return []
    vectors = embed_drafts(kernel, drafts)
    with writing(kernel, scope) as writer:
        wanted = before(writer) if before is not None else [True] * len(drafts)
        batch = _Batch(kernel, writer, Nominations(kernel, writer, drafts, vectors))
        outcomes = [
            batch.add(draft, array) if new else batch.known(draft)
            for draft, array, new in zip(drafts, vectors, wanted, strict=True)
        ]
        batch.write()
    if any(array is not None for array in vectors):
        _catch_up(kernel, scope)
    return outcomes


def _catch_up(kernel: Kernel, scope: Scope) -> None:
    try:
        catch_up(kernel, scope)
    except StoreUnavailable as fault:  # what was asked for is written; the rest waits for the next write
        kernel.events.fault("backlog", fault)


def embed_drafts(kernel: Kernel, drafts: Sequence[Draft]) -> list[Vectors | None]:
    """Vectors of each draft, shape (chunks, dimension); None for all where the embedder fails."""
    pieces = [draft.to_embed(kernel.settings.write.embedded_chunks) for draft in drafts]
    flat = [piece for group in pieces for piece in group]
    if not flat:
        return [None for _ in drafts]
    try:
        array = kernel.embedder.embed(flat)
    except ProviderFault:
        return [None for _ in drafts]
    ends = np.cumsum([len(group) for group in pieces])
    return [array[end - len(group) : end] for end, group in zip(ends, pieces, strict=True)]


@dataclass(slots=True)
class _Batch:
    """Drafts judged one after the other against what is stored and against each other, then written at once."""

    kernel: Kernel
    writer: Writer
    nominations: Nominations
    records: list[store.Record] = field(default_factory=list)
    touched: dict[str, Memory] = field(default_factory=dict)
    retired: dict[str, Memory] = field(default_factory=dict)
    facts: list[tuple[Draft, Memory]] = field(default_factory=list)
    _statements: dict[str, Statement] = field(default_factory=dict)

    def add(self, draft: Draft, vectors: Vectors | None) -> WriteOutcome:
        """Judge one draft and take it in."""
        record = draft.record(vectors, self.kernel.embedder.space)
        new = record.memory
        said = self._statement(new)
        replaced: list[str] = []
        for old in self._nominees(draft, record):
            verdict, sign = judge(said, self._statement(old))
            if verdict is Verdict.REPEATS and old.state is State.COLD:
                verdict = Verdict.SUPERSEDES  # what is said again is present again
            if verdict is Verdict.REPEATS and replaced:
                continue  # the new words already stand for what they replaced
            if verdict is Verdict.REPEATS and (old.type != "dialogue" or draft.turn_id is None):
                self._touch(old, draft)
                if draft.keeps_value:
                    self.facts.append((draft, old))  # 1 and "1" read alike and are two values
                if draft.turn_id is not None:
                    # The turn has its record, but what it says is kept once.
                    self._take(draft, replace(record, memory=replace(new, type="dialogue")))
                return Touched(old.id)
            if verdict is Verdict.SUPERSEDES and self._may_retire(new, old):
                self.kernel.events.emit("superseded", memory_id=old.id, by=new.id, sign=sign)
                self.retired[old.id] = new
                replaced.append(old.id)
            elif verdict is Verdict.SUPERSEDES and sign == "key":
                return self._beside_its_key(draft, record, old)
        self._take(draft, record)
        return Superseded(new.id, tuple(replaced)) if replaced else Stored(new.id)

    def _beside_its_key(self, draft: Draft, record: store.Record, current: Memory) -> WriteOutcome:
        """A keyed value that may not replace the current one: history where it is older, else refused."""
        if not _earlier(record.memory, current):
            return Refused(RefusalReason.UNTRUSTED, "only the user may change what the user set under this key")
        self._take(replace(draft, past=True), record)
        self.retired[record.memory.id] = current
        return Stored(record.memory.id)

    def known(self, draft: Draft) -> WriteOutcome:
        """A turn that was written before: nothing happens again."""
        assert draft.memory.session is not None
        assert draft.turn_id is not None
        found = store.of_turns(self.writer, draft.memory.session, [draft.turn_id])
        return Touched(found[draft.turn_id].id) if found else Refused(RefusalReason.BLANK)

    def write(self) -> None:
        """Write everything that was taken in."""
        now = self.kernel.clock.now()
        space = self.kernel.embedder.space
        store.insert_records(self.writer, self.records)
        for old_id, new in self.retired.items():
            supersede(self.writer, [old_id], new, now)
        store.add_uses(self.writer, dict.fromkeys(self.touched, (1, now)))
        for memory_id, memory in self.touched.items():
            sources = list(memory.source_ids)
            store.change(self.writer, [memory_id], now, source_ids=sources, expires_at=memory.expires_at)
        for draft, memory in self.facts:
            value = draft.value if draft.keeps_value else memory.content
            assert memory.key is not None
            facts_store.put_fact(self.writer, memory.key, value, now, memory.source, memory.id)
        if self.records and space and all(r.vectors is None for r in self.records):
            self.kernel.events.emit("written_without_vectors", count=len(self.records))

    def _take(self, draft: Draft, record: store.Record) -> None:
        self.nominations.take(record.memory, record.terms)
        self.records.append(record)
        if record.memory.key is not None and not draft.past:
            self.facts.append((draft, record.memory))

    def _touch(self, old: Memory, draft: Draft) -> None:
        kept = self.touched.get(old.id, old)
        fresh = [i for i in draft.memory.source_ids if i not in kept.source_ids]
        # Said again for longer, it lives longer.
        ends = (kept.expires_at, draft.memory.expires_at)
        until = None if None in ends else max(end for end in ends if end is not None)
        self.touched[old.id] = replace(kept, source_ids=(*kept.source_ids, *fresh), expires_at=until)

    def _statement(self, memory: Memory) -> Statement:
        if memory.id not in self._statements:
            self._statements[memory.id] = _statement(memory)
        return self._statements[memory.id]

    def _may_retire(self, new: Memory, old: Memory) -> bool:
        # What was said earlier does not correct what was said later, whenever it arrives.
        return not _earlier(new, old) and may_retire(self._statement(new), self._statement(old), self._user_said(new))

    def _user_said(self, new: Memory) -> str:
        """What decides whether an assistant passes on the user's own words: the user's last turn in that session."""
        if new.source != "assistant" or new.session is None:
            return ""
        return turns_store.last_said(self.writer, new.session)

    def _nominees(self, draft: Draft, record: store.Record) -> list[Memory]:
        found: list[Memory] = []
        if draft.memory.key is not None:
            found += store.with_key(self.writer, draft.memory.key)
            found += [r.memory for r in self.records if r.memory.key == draft.memory.key]
        if draft.statement:
            found += self.nominations.of(draft, [term for chunk in record.terms for term in chunk])
        # A summary says many things: it goes with its sources, never with one sentence.
        whole = [m for m in found if m.type != "summary" or draft.memory.key is not None]
        now = self.kernel.clock.now()
        # Of cold memories only those of the same key are found here.
        present = {m.id: m for m in whole if m.id not in self.retired and _held(m, now)}
        return sorted(present.values(), key=lambda m: m.said_at, reverse=True)


def _held(memory: Memory, now: datetime) -> bool:
    return memory.state in (State.ACTIVE, State.COLD) and not expired(memory, now)


def _earlier(new: Memory, old: Memory) -> bool:
    """Whether what arrives now was said before what is held; without a time of its own it is said now."""
    return new.occurred_at is not None and new.said_at < old.said_at


def _statement(memory: Memory) -> Statement:
    return Statement(memory.content, memory.speaker, memory.source, memory.visibility, memory.key)


def supersede(writer: Writer, old: Sequence[str], new: Memory, now: datetime) -> None:
    """Retire memories in favour of a new one; they stay as history, and no summary repeats them."""
    outdate_digests(writer, list(store.by_ids(writer, old).values()), now)
    store.set_state(writer, old, State.ARCHIVED, "superseded", now, retired_at=new.said_at, superseded_by=new.id)
