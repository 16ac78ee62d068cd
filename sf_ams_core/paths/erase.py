"""The erasing path: gone for good, everywhere, and looked for afterwards.

    ids · identifier · everything ──▶ records, their turns, what was derived from them ──▶ one transaction
        ──▶ files scrubbed, caches dropped, neighbours' vectors made anew ──▶ receipt of what was found afterwards

Only sure matches are erased; what is merely similar is listed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import pairwise

from ..errors import InvalidInput, NotFound
from ..kernel import Kernel
from ..rules.entities import contains_identifier, fold_identifier, romanise
from ..rules.text import index_terms, wording
from ..stores import facts as facts_store
from ..stores import memories as store
from ..stores import turns as turns_store
from ..stores import upkeep
from ..stores.database import Reader, Writer
from ..types import Candidate, ErasureReceipt, Json, Memory, Scope, Turn
from .backlog import catch_up
from .common import write_uses
from .drafting import spoken_context


@dataclass(slots=True)
class _Doomed:
    """What goes: memories by id, turns by session, and the memories that merely stood on an erased turn.

    A turn's id is unique in its session only, so `cited` says for each memory which turns it rests on.
    """

    cited: Mapping[str, Set[tuple[str, str]]]
    memories: dict[str, Memory] = field(default_factory=dict)
    turns: dict[str, set[str]] = field(default_factory=dict)
    words: set[str] = field(default_factory=set)

    def add(self, memory: Memory) -> None:
        """Take a memory with the turns that said it."""
        self.memories[memory.id] = memory
        self.words.add(wording(memory.content))
        for session, turn_id in self.cited[memory.id]:
            self.turns.setdefault(session, set()).add(turn_id)

    def rests_on(self, memory: Memory) -> bool:
        """Whether a memory cites a turn that goes."""
        return any(turn_id in self.turns.get(session, ()) for session, turn_id in self.cited[memory.id])


def _cited(writer: Writer, held: Sequence[Memory]) -> dict[str, set[tuple[str, str]]]:
    places, records = store.turn_places(writer), {memory.id: memory for memory in held}
    return {memory.id: _turns_of(memory, places, records) for memory in held}


def _turns_of(
    memory: Memory, places: Mapping[str, Sequence[tuple[str, str]]], records: Mapping[str, Memory]
) -> set[tuple[str, str]]:
    """The turns a memory cites: of its own session, and those of others that say the same and touched it."""
    found: set[tuple[str, str]] = set()
    for turn_id in memory.source_ids:
        said = places.get(turn_id, ())
        if memory.session is None:
            found.update([(said[0][0], turn_id)] if len(said) == 1 else [])
            continue
        saying = {session for session, record in said if _says_the_same(records[record], memory)}
        others = saying - {memory.session}
        # Where another session's turn of this id is meant, one of its own that says something else is not.
        chance = others and memory.session not in saying and any(s == memory.session for s, _ in said)
        found.update((session, turn_id) for session in (others if chance else others | {memory.session}))
    return found


def _says_the_same(one: Memory, other: Memory) -> bool:
    return one.id == other.id or wording(one.content) == wording(other.content) or _terms(one) == _terms(other)


def _terms(memory: Memory) -> list[str]:
    return index_terms(memory.content)


def erase(
    kernel: Kernel,
    scope: Scope,
    *,
    ids: Sequence[str] | None = None,
    identifier: str | None = None,
    also_similar: bool = False,
    everything: bool = False,
) -> ErasureReceipt:
    """Hard delete by ids, by identifier or of all. Raises InvalidInput, NotFound and StoreUnavailable."""
    if sum((ids is not None, identifier is not None, everything)) != 1:
        raise InvalidInput("say what to erase: ids=…, identifier=… or everything=True, one of them")
    check_identifier(identifier)
    write_uses(kernel, scope)
    kernel.embedder.forget_queries()
    similar: list[Candidate] = []
    needles: list[str] = []
    if everything:
        erased = _erase_all(kernel, scope)
    else:
        erased, similar, needles = _erase_some(kernel, scope, ids, identifier, also_similar)
    catch_up(kernel, scope)
    left = kernel.database.scrub()
    with kernel.database.read(scope) as reader:
        if reader.scope_id is not None:
            kernel.snapshots.drop(reader.scope_id)
        checked = _check(kernel, reader, erased, needles, everything)
    kernel.events.emit("erased", count=len(erased), similar=len(similar))
    return ErasureReceipt(tuple(erased), tuple(similar), {**checked, "log": left})


def check_identifier(identifier: str | None) -> str | None:
    """`identifier` if it can name something. Raises InvalidInput."""
    if identifier is not None and (not isinstance(identifier, str) or not fold_identifier(identifier)):
        raise InvalidInput("an identifier needs at least one letter or digit")
    return identifier


def _erase_all(kernel: Kernel, scope: Scope) -> list[str]:
    with kernel.database.write(scope) as writer:
        return upkeep.erase_everything(writer, kernel.clock.now())


def _erase_some(
    kernel: Kernel, scope: Scope, ids: Sequence[str] | None, identifier: str | None, also_similar: bool
) -> tuple[list[str], list[Candidate], list[str]]:
    with kernel.database.write(scope) as writer:
        held = store.everything(writer)
        doomed = _Doomed(_cited(writer, held))
        similar: list[Candidate] = []
        needles: list[str] = []
        if ids is not None:
            _by_ids(doomed, held, [ids] if isinstance(ids, str) else ids)
        else:
            assert identifier is not None
            similar, needles = _by_identifier(writer, doomed, held, identifier, also_similar)
        _derivatives(doomed, held)
        _delete(kernel, writer, doomed, needles)
    return list(doomed.memories), [c for c in similar if c.id not in doomed.memories], needles


def _by_ids(doomed: _Doomed, held: Sequence[Memory], ids: Sequence[str]) -> None:
    known = {m.id: m for m in held}
    missing = [i for i in ids if i not in known]
    if missing:
        raise NotFound(f"{len(missing)} of {len(ids)} ids are not in this scope; nothing was erased")
    for memory_id in ids:
        doomed.add(known[memory_id])


def _by_identifier(
    writer: Writer, doomed: _Doomed, held: Sequence[Memory], identifier: str, also_similar: bool
) -> tuple[list[Candidate], list[str]]:
    similar = _same_name(held, identifier)
    needles = [identifier]
    spellings = {fold_identifier(name): name for name, _ in similar}
    if also_similar and len(spellings) == 1:
        needles += spellings.values()
    for memory in held:
        if any(_memory_holds(memory, needle) for needle in needles):
            doomed.add(memory)
    for session, turn in turns_store.all_turns(writer):
        if turn.id is not None and any(turn_holds(turn, needle) for needle in needles):
            doomed.turns.setdefault(session, set()).add(turn.id)
    listed = [Candidate(m.id, m.content, 0.9, False, "the same name in another script") for _, m in similar]
    return listed, needles


def _same_name(held: Sequence[Memory], identifier: str) -> list[tuple[str, Memory]]:
    sound, own = romanise(identifier), fold_identifier(identifier)
    if len(sound) < 4:
        return []
    return [
        (name, memory)
        for memory in held
        for name in memory.entities
        if romanise(name) == sound and fold_identifier(name) != own
    ]


def _memory_holds(memory: Memory, needle: str) -> bool:
    if any(contains_identifier(part, needle) for part in (memory.content, memory.speaker or "", memory.key or "")):
        return True
    return any(contains_identifier(name, needle) for name in memory.entities) or _json_holds(
        dict(memory.metadata), needle
    )


def turn_holds(turn: Turn, needle: str) -> bool:
    """Whether a turn names an identifier: in its words, its speaker or its payload."""
    spoken = (turn.content, turn.speaker or "")
    return any(contains_identifier(part, needle) for part in spoken) or _json_holds(turn.payload, needle)


def _json_holds(value: Json, needle: str) -> bool:
    return any(contains_identifier(part, needle) for part in _strings(value))


def _strings(value: Json) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield str(value)


def _derivatives(doomed: _Doomed, held: Sequence[Memory]) -> None:
    """Add what was made of a doomed turn: its record, clauses and summaries."""
    grown = True
    while grown:
        before = len(doomed.memories)
        for memory in held:
            if memory.id in doomed.memories or not doomed.rests_on(memory):
                continue
            if wording(memory.content) in doomed.words:
                doomed.add(memory)
            else:
                doomed.memories[memory.id] = memory  # its other sources were not asked for
        grown = len(doomed.memories) > before


def _delete(kernel: Kernel, writer: Writer, doomed: _Doomed, needles: Sequence[str]) -> None:
    now = kernel.clock.now()
    for session, ids in doomed.turns.items():
        _renew_neighbours(kernel, writer, session, ids)
        turns_store.delete_turns(writer, session, sorted(ids))
        # The digest may quote an erased turn; it is made anew from what is left.
        turns_store.change_session(writer, session, summary=None, summarised_view=0)
    facts_store.erase_facts_of(writer, list(doomed.memories))
    store.delete_memories(writer, list(doomed.memories), now, "erased")
    for fact in facts_store.fact_versions(writer):
        if any(contains_identifier(fact.key, n) or _json_holds(fact.value, n) for n in needles):
            facts_store.erase_fact_version(writer, fact.key, fact.version)
    for session, key, value in facts_store.every_working(writer):
        if any(contains_identifier(key, n) or _json_holds(value, n) for n in needles):
            facts_store.delete_working(writer, session, key)


def _renew_neighbours(kernel: Kernel, writer: Writer, session: str, gone: set[str]) -> None:
    """Have the vectors made anew that were computed behind an erased turn."""
    said = turns_store.transcript(writer, session)
    answers = [
        turn.id
        for before, turn in pairwise(said)
        if before.id in gone and turn.id not in gone and spoken_context(turn, before, kernel.settings.write)
    ]
    if answers:
        seqs = sorted(store.seqs_of_turns(writer, session, [i for i in answers if i]))
        store.drop_vectors(writer, seqs)
        store.enqueue(writer, seqs, "vector", kernel.clock.now())


def _check(
    kernel: Kernel, reader: Reader, erased: Sequence[str], needles: Sequence[str], everything: bool
) -> dict[str, int]:
    """What is still found of what was erased, by place: all zero, or the erasure failed."""
    if everything:
        found = upkeep.rows_by_table(reader)
    else:
        gone = set(erased)
        held = store.everything(reader)
        found = {
            "memories": sum(m.id in gone or any(_memory_holds(m, n) for n in needles) for m in held),
            "turns": sum(any(turn_holds(t, n) for n in needles) for _, t in turns_store.all_turns(reader)),
            "facts": sum(
                any(_json_holds(f.value, n) or contains_identifier(f.key, n) for n in needles)
                for f in facts_store.fact_versions(reader)
            ),
            "working": sum(
                any(contains_identifier(json.dumps(v, ensure_ascii=False), n) for n in needles)
                for _, _, v in facts_store.every_working(reader)
            ),
            "vectors": store.stray_vectors(reader),
        }
    return {**found, "cache": 0 if reader.scope_id is None else kernel.snapshots.held(reader.scope_id)}
