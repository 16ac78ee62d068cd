"""Which memories words mean, and the verbs that act on what is meant: correct, release, restore.

    words ──whole identifiers, entities, names──▶ sure
          ──shared terms──────────────────────▶ proposals, best first

Undoable verbs may act on one clear proposal; irreversible ones only on what is sure.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from ..errors import InvalidInput, NotFound
from ..kernel import Kernel
from ..rules import text
from ..rules.entities import contains_identifier, fold_identifier, romanise
from ..rules.judgement import Statement, may_retire
from ..stores import memories as store
from ..stores import turns as turns_store
from ..stores.database import Reader, Writer
from ..stores.facts import put_fact
from ..stores.filters import Filters
from ..types import (
    MAX_ID_CHARS,
    Candidate,
    Memory,
    Note,
    RefusalReason,
    Refused,
    Scope,
    Source,
    State,
    Stored,
    Superseded,
    WriteOutcome,
    check_id,
)
from .common import outdate_digests
from .drafting import Draft, digest, draft_note
from .write import embed_drafts, supersede

_CONSIDERED = 50  # candidates
_CLEAR = 0.6  # of the words must be in a memory before an undoable verb acts on a proposal

_ABOUT = re.compile(
    r"^(?:(?:please\s+)?(?:forget|delete|remove|erase)\s+)?(?:everything|anything|all)\s+(?:you\s+know\s+)?"
    r"(?:about|on|of|regarding)\s+(?P<en>.+)$"
    r"|^(?:请)?(?:忘掉|忘记|忘記|删除|刪除)?(?:所有)?(?:关于|關於|有关|有關|跟|和)?(?P<zh>.+?)"
    r"(?:有关的|有關的|相关的|相關的|的)?(?:一切|所有(?:内容|信息|记忆|內容|資訊|記憶)?|全部)$",
    re.IGNORECASE,
)
_END = " \t\n.!?。！？"


def locate(kernel: Kernel, scope: Scope, words: str, k: int = 10) -> list[Candidate]:
    """Candidates for what `words` mean, sure ones first. Raises InvalidInput for blank words."""
    if not isinstance(words, str) or not words.strip():
        raise InvalidInput("say which memory is meant: an id, a name, an identifier or some of its words")
    with kernel.database.read(scope) as reader:
        return candidates(kernel, reader, words, k)


def candidates(
    kernel: Kernel, reader: Reader | Writer, words: str, k: int, visible: tuple[str, ...] | None = None
) -> list[Candidate]:
    """The same within a transaction, among memories with one of these labels where any are given."""
    wanted = subject(text.clean(words))
    if text.is_filler(wanted):
        return []
    held = [m for _, m in store.matching(reader, Filters(visible=visible), kernel.clock.now())]
    alone = _only_name_like_it(wanted, held)
    found = [c for c in (_candidate(wanted, memory, alone) for memory in held) if c is not None]
    return sorted(found, key=lambda c: (not c.sure, -c.score))[:k]


def subject(words: str) -> str:
    """What is left of "everything about X"."""
    match = _ABOUT.match(words.strip().rstrip(_END))  # stripped first: the pattern would look for the end everywhere
    return (match["en"] or match["zh"]).strip() if match else words.strip()


def _candidate(wanted: str, memory: Memory, alone: bool) -> Candidate | None:
    if contains_identifier(memory.content, wanted):
        return Candidate(memory.id, memory.content, 1.0, True, "holds the words")
    folded = fold_identifier(wanted)
    if folded and folded in {fold_identifier(name) for name in memory.entities}:
        return Candidate(memory.id, memory.content, 1.0, True, "about this entity")
    if _sounds_like(wanted, memory):
        return Candidate(memory.id, memory.content, 0.9, alone, "the same name in another script")
    share = _share(wanted, memory.content)
    return Candidate(memory.id, memory.content, share, False, "shares words") if share > 0 else None


def _sounds_like(wanted: str, memory: Memory) -> bool:
    sound = romanise(wanted)
    return len(sound) >= 4 and any(
        romanise(name) == sound and fold_identifier(name) != fold_identifier(wanted) for name in memory.entities
    )


def _only_name_like_it(wanted: str, held: Sequence[Memory]) -> bool:
    """Whether just one other spelling in the scope sounds like these words."""
    sound, own = romanise(wanted), fold_identifier(wanted)
    spellings = {fold_identifier(n) for m in held for n in m.entities if romanise(n) == sound}
    return len(spellings - {own}) == 1


def _share(wanted: str, content: str) -> float:
    terms = set(text.query_terms(wanted))
    return len(terms & set(text.index_terms(content))) / len(terms) if terms else 0.0


def meant(
    kernel: Kernel,
    reader: Reader | Writer,
    target: str | Sequence[str],
    *,
    instead: str | None = None,
    besides: Collection[str] = (),
    visible: tuple[str, ...] | None = None,
) -> list[str]:
    """The ids that a target means: ids as they are, words by `locate` but for the ids `besides`.

    Where labels are given as `visible`, what has another one is not there.

    With `instead`, the words that are to take its place, a single memory is meant, and none that says them already.
    Raises NotFound where nothing in this scope is meant.
    """
    ids = _ids(target)
    if not ids:
        raise InvalidInput("name at least one memory")
    known = store.by_ids(reader, [check_id(i, "target") for i in ids if len(i) <= MAX_ID_CHARS])
    known = {i: m for i, m in known.items() if visible is None or m.visibility in visible}
    if len(known) == len(ids):
        return list(known)
    if not isinstance(target, str):
        raise NotFound(f"{len(ids) - len(known)} of {len(ids)} ids are not in this scope")
    said = set(text.index_terms(instead)) if instead is not None else None
    found = [c for c in candidates(kernel, reader, target, _CONSIDERED, visible) if c.id not in besides]
    found = [c for c in found if said is None or not _says(c, said)]
    sure = [c.id for c in found if c.sure]
    if sure and instead is None:
        return sure
    clear = [c for c in found if c.sure or c.score >= _CLEAR]
    if not clear:
        raise NotFound("no memory of this scope matches these words")
    best = [c for c in clear if c.score == clear[0].score]
    newest = store.by_ids(reader, [c.id for c in best])
    return [max(newest.values(), key=lambda m: m.said_at).id]


def _ids(target: str | Sequence[str]) -> list[str]:
    ids = [target] if isinstance(target, str) else target
    if not isinstance(ids, Sequence) or not all(isinstance(i, str) for i in ids):
        raise InvalidInput("name memories by ids or by words")
    return list(ids)


def _says(candidate: Candidate, terms: set[str]) -> bool:
    return terms <= set(text.index_terms(candidate.content))


def correct(
    kernel: Kernel,
    scope: Scope,
    target: str | Sequence[str],
    new_content: str,
    *,
    source: Source = "user",
    session: str | None = None,
) -> WriteOutcome:
    """Write the new words and retire what is meant.

    An assistant (`source`) may only pass on what the user's last turn in `session` holds, else it is refused.
    Raises InvalidInput, NotFound and StoreUnavailable.
    """
    if not isinstance(new_content, str):
        raise InvalidInput(f"new_content must be a string, got {type(new_content).__name__}")
    if not kernel.enabled:
        return Refused(RefusalReason.DISABLED, "the memory is switched off")
    with kernel.database.read(scope) as reader:
        # Who names an older version means what became of it.
        ids = meant(kernel, reader, target, instead=new_content, visible=_seen_by(source))
        old = [store.versions(reader, i)[-1] for i in ids]
        said = turns_store.last_said(reader, session) if session is not None else ""
    draft = draft_note(_corrected(kernel, old, new_content, source, session), scope, kernel.settings, kernel.clock)
    if isinstance(draft, Refused):
        return draft
    new = Statement(draft.memory.content, None, source, draft.memory.visibility)
    if not all(may_retire(new, Statement(m.content, None, m.source, m.visibility), said) for m in old):
        return Refused(RefusalReason.UNTRUSTED, "only what the user has just said may correct the user's words")
    return _replace(kernel, scope, draft, [m.id for m in old])


def _seen_by(source: Source) -> tuple[str, ...] | None:
    """The labels that a caller sees: code sees all, an agent only what it is shown."""
    return ("default",) if source == "assistant" else None


def _corrected(kernel: Kernel, old: Sequence[Memory], new_content: str, source: Source, session: str | None) -> Note:
    """The note that takes the place of old memories: of their type, key and weight, and worth keeping like them."""
    model = old[0]
    kept_type = model.type if model.type != "dialogue" else None
    return Note(
        new_content,
        type=kept_type,
        importance=max(kernel.settings.write.write_threshold, *(m.importance for m in old)),
        key=model.key,
        metadata=model.metadata,
        session=session,
        source=source,
        visibility=model.visibility,
    )


def _replace(kernel: Kernel, scope: Scope, draft: Draft, old: Sequence[str]) -> WriteOutcome:
    vectors = embed_drafts(kernel, [draft])[0]
    now = kernel.clock.now()
    with kernel.database.write(scope) as writer:
        present = store.by_ids(writer, old)
        retire = [m.id for m in _with_twins(writer, present.values()) if m.state in (State.ACTIVE, State.COLD)]
        record = draft.record(vectors, kernel.embedder.space)
        store.insert_records(writer, [record])
        supersede(writer, retire, record.memory, now)
        if record.memory.key is not None:
            put_fact(writer, record.memory.key, record.memory.content, now, record.memory.source, record.memory.id)
    kernel.events.emit("corrected", memory_id=draft.memory.id, replaced=list(retire))
    return Superseded(draft.memory.id, tuple(retire)) if retire else Stored(draft.memory.id)


def _with_twins(writer: Writer, memories: Iterable[Memory]) -> list[Memory]:
    """Memories and what says the same words in other turns: whoever takes back a statement means all of it.

    What somebody else said of themselves stays.
    """
    held = {memory.id: memory for memory in memories}
    speakers: dict[str, set[str | None]] = {}
    for memory in held.values():
        speakers.setdefault(digest(memory.content), set()).add(memory.speaker)
    for words, twins in store.with_folded(writer, list(speakers)).items():
        said_by = speakers[words]
        held.update({m.id: m for _, m in twins if None in said_by or m.speaker is None or m.speaker in said_by})
    return list(held.values())


def release(
    kernel: Kernel,
    scope: Scope,
    target: str | Sequence[str],
    *,
    asked: tuple[str, Collection[str]] | None = None,
) -> list[str]:
    """Soft forget: out of recall until `restore`.

    `asked` is the request itself, session and turn ids: it is not what is meant, but goes along, since it repeats
    what is to be forgotten. Raises InvalidInput, NotFound and StoreUnavailable.
    """
    now = kernel.clock.now()
    with kernel.database.write(scope) as writer:
        request = store.of_turns(writer, asked[0], sorted(asked[1])) if asked else {}
        ids = meant(
            kernel,
            writer,
            target,
            besides={m.id for m in request.values()},
            visible=_seen_by("assistant" if asked else "user"),
        )
        held = _with_twins(writer, store.by_ids(writer, ids).values())
        going = [m.id for m in held if m.state in (State.ACTIVE, State.COLD)]
        outdate_digests(writer, held, now)
        store.set_state(writer, going, State.ARCHIVED, "released", now, retired_at=now)
        repeats = [m.id for m in request.values() if isinstance(target, str) and _share(target, m.content) >= _CLEAR]
        store.set_state(writer, repeats, State.ARCHIVED, "released", now, retired_at=now)
    kernel.events.emit("released", count=len(going))
    return going


def restore(kernel: Kernel, scope: Scope, ids: str | Sequence[str]) -> list[str]:
    """Bring released or forgotten memories back, but for those whose key has a newer one meanwhile.

    Raises InvalidInput, NotFound and StoreUnavailable.
    """
    wanted = _ids(ids)
    now = kernel.clock.now()
    with kernel.database.write(scope) as writer:
        held = store.by_ids(writer, wanted)
        if len(held) < len(set(wanted)):
            raise NotFound(f"{len(set(wanted)) - len(held)} of {len(set(wanted))} ids are not in this scope")
        coming: list[str] = []
        for memory in held.values():
            gone = memory.state in (State.COLD, State.ARCHIVED) and not memory.superseded_by
            if gone and not store.key_taken(writer, memory):
                store.set_state(writer, [memory.id], State.ACTIVE, None, now)
                coming.append(memory.id)
    kernel.events.emit("restored", count=len(coming))
    return coming
