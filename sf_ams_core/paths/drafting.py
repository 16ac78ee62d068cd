"""From words to a draft: sanitise → redact → refuse → type and importance. Nothing is read or written here.

Note or Turn ──clean──redact──refuse?──assess──▶ Draft | Refused
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from ..clock import Clock, as_utc
from ..errors import InvalidInput
from ..ports import Vectors
from ..rules import admission, privacy, text
from ..rules.entities import entities as entities_in
from ..rules.entities import fold_identifier, romanise
from ..rules.rendering import is_injected
from ..settings import Settings, WriteSettings
from ..stores.filters import check_importance, check_types
from ..stores.memories import Record
from ..types import (
    ROLES,
    SOURCES,
    Json,
    Memory,
    Note,
    RefusalReason,
    Refused,
    Scope,
    Source,
    State,
    Turn,
    check_id,
)

TRUST: dict[Source, float] = {"user": 1.0, "system": 1.0, "assistant": 0.6, "document": 0.4, "tool": 0.4}
_MAX_DEPTH = 32
_UNSET: Json = {"sf_ams": "no value given"}


@dataclass(frozen=True, slots=True)
class Draft:
    """A memory about to be written: what to embed of it, and how it is judged.

    `statement` is false for what can't contradict anything: talk that is no statement, questions, summaries.
    `past` is true for a keyed value that held before the current one.
    """

    memory: Memory
    pieces: tuple[str, ...]
    statement: bool
    turn_id: str | None = None
    context: str = ""
    value: Json = None
    keeps_value: bool = False
    past: bool = False

    def record(self, vectors: Vectors | None, space: str | None) -> Record:
        """The row of this draft with its vectors."""
        memory = replace(self.memory, embedding_version=space if vectors is not None else None)
        return Record(
            memory=memory,
            terms=tuple(tuple(text.index_terms(piece)) for piece in self.pieces),
            folded=digest(memory.content),
            entity_marks=tuple(mark for name in memory.entities for mark in entity_marks(name)),
            turn_id=self.turn_id,
            vectors=vectors,
        )

    def to_embed(self, limit: int) -> list[str]:
        """The texts whose vectors stand for this memory: itself behind what it answers, or its chunks."""
        if len(self.pieces) == 1:
            return [f"{self.context} {self.pieces[0]}".strip()]
        return list(self.pieces[:limit])


def digest(content: str) -> str:
    """The same for all ways of writing the same words."""
    folded = text.wording(content) or content
    return hashlib.sha256(folded.encode()).hexdigest()


def entity_marks(name: str) -> tuple[str, ...]:
    """What an entity is found by: its folded spelling, and how it sounds in Latin letters."""
    return tuple(dict.fromkeys((fold_identifier(name), romanise(name))))


def draft_note(note: Note, scope: Scope, settings: Settings, clock: Clock) -> Draft | Refused:
    """A draft of what code or an agent wants remembered. Raises InvalidInput for misuse."""
    check_note(note)
    rules = settings.write
    cleaned = text.clean(note.content)
    redaction = privacy.redact(cleaned, phones=rules.redact_phones, emails=rules.redact_emails)
    if redaction.only:
        return Refused(RefusalReason.SECRET_ONLY, "nothing but a secret was given; secrets are not stored")
    reason = admission.hard_refusal(redaction.text, max_chars=rules.max_chars)
    if reason is not None:
        return Refused(reason, _hard_message(reason, rules))
    # What an agent chose to save is a statement about the user, however little its own words are trusted.
    judged_as = "user" if note.source == "assistant" else note.source
    assessed = admission.assess(redaction.text, rules, type=note.type, source=judged_as)
    importance = _importance(note, assessed.importance)
    reason = _gate(note, assessed.reason, importance, rules)
    if reason is not None:
        return Refused(reason, f"not worth keeping ({reason}); say what should be remembered as a statement")
    metadata, _ = privacy.redact_json(
        _clean_json(dict(note.metadata or {})), phones=rules.redact_phones, emails=rules.redact_emails
    )
    assert isinstance(metadata, dict)
    memory = _memory(
        scope,
        clock,
        content=redaction.text,
        type=note.type or (assessed.type if assessed.type != "dialogue" else "fact"),
        importance=importance,
        entities=_entities(redaction.text, note.entities, rules),
        metadata=metadata,
        key=None if note.key is None else check_key(note.key),
        source=note.source,
        source_ids=tuple(note.source_ids),
        visibility=note.visibility,
        occurred_at=None if note.occurred_at is None else as_utc(note.occurred_at),
        ttl=note.ttl,
        session=note.session,
    )
    return Draft(memory, tuple(text.chunks(memory.content, rules.chunk_chars)), statement=memory.type != "summary")


def clean_turn(turn: Turn, settings: Settings, clock: Clock) -> Turn | Refused:
    """The turn as the transcript may keep it: cleaned, redacted, with an id. Raises InvalidInput for misuse."""
    check_turn(turn)
    rules = settings.write
    cleaned = text.clean(turn.content)
    if is_injected(cleaned):
        return Refused(RefusalReason.INJECTED, "this text was put into the prompt by the memory itself")
    payload, _ = privacy.redact_json(_clean_json(turn.payload), phones=rules.redact_phones, emails=rules.redact_emails)
    if not cleaned.strip() and payload is None:
        return Refused(RefusalReason.BLANK, "a turn needs text or a payload")
    redaction = privacy.redact(cleaned, phones=rules.redact_phones, emails=rules.redact_emails)
    return replace(
        turn,
        content=redaction.text,
        id=turn.id or clock.new_id("turn"),
        speaker=privacy.redact(text.clean(turn.speaker)).text.strip() or None if turn.speaker else None,
        at=None if turn.at is None else as_utc(turn.at),
        payload=payload,
    )


def draft_turn(
    turn: Turn, before: Turn | None, session: str, scope: Scope, settings: Settings, clock: Clock
) -> Draft | None:
    """The word-for-word record of a cleaned turn, promoted where it is worth it; None for a turn without text."""
    rules = settings.write
    if not turn.content.strip():
        return None
    source: Source = turn.role
    searched = turn.content[: rules.searched_chars]
    assessed = admission.assess(searched[: rules.max_chars], rules, source=source)
    worth_it = turn.role == "user" and assessed.reason is None and len(turn.content) <= rules.max_chars
    graded = admission.turn_importance(searched[: rules.max_chars], role=turn.role, settings=rules)
    memory = _memory(
        scope,
        clock,
        content=turn.content,
        type=assessed.type if worth_it else "dialogue",
        importance=assessed.importance if worth_it else min(graded, rules.write_threshold),
        entities=_entities(searched[: rules.max_chars], (), rules),
        metadata={},
        key=None,
        source=source,
        source_ids=(turn.id or "",),
        visibility="default",
        occurred_at=turn.at,
        ttl=None,
        session=session,
        speaker=turn.speaker,
    )
    plain = turn.role == "user" and assessed.reason in (None, RefusalReason.LOW_IMPORTANCE)
    return Draft(
        memory,
        tuple(text.chunks(searched, rules.chunk_chars)),
        statement=plain,
        turn_id=turn.id,
        context=spoken_context(turn, before, rules),
    )


def spoken_context(turn: Turn, before: Turn | None, rules: WriteSettings) -> str:
    """What a turn between people is embedded behind: the turn it answers and who speaks; else nothing."""
    if before is None or {turn.role, before.role} != {"user"} or turn.speaker == before.speaker:
        return ""
    who = f" {turn.speaker}:" if turn.speaker else ""
    return before.content[-rules.chunk_chars :] + who


def check_note(note: Note) -> None:
    """Raise InvalidInput where a note can't be meant."""
    if not isinstance(note, Note):
        raise InvalidInput(f"notes must be Note values, got {type(note).__name__}")
    if note.key is not None:
        check_key(note.key)
    if not isinstance(note.content, str):
        raise InvalidInput(f"content must be a string, got {type(note.content).__name__}")
    if note.type is not None:
        check_types((note.type,))
    if note.importance is not None:
        check_importance(note.importance)
    if note.ttl is not None:
        check_ttl(note.ttl)
    if note.source not in SOURCES:
        raise InvalidInput(f"unknown source {note.source!r}; use one of {', '.join(SOURCES)}")
    for value, what in ((note.session, "session"), (note.visibility, "visibility")):
        if value is not None:
            check_id(value, what)
    for names, what in ((note.entities, "entities"), (note.source_ids, "source_ids")):
        if isinstance(names, str) or not isinstance(names, Sequence):
            raise InvalidInput(f"{what} must be a sequence of strings, got {type(names).__name__}")
        for name in names:
            check_id(name, what)
    if note.occurred_at is not None and not isinstance(note.occurred_at, datetime):
        raise InvalidInput(f"occurred_at must be a datetime, got {type(note.occurred_at).__name__}")
    check_json(note.metadata if note.metadata is not None else {}, "metadata")
    if note.metadata is not None and not isinstance(note.metadata, Mapping):
        raise InvalidInput(f"metadata must be a mapping, got {type(note.metadata).__name__}")


def check_turn(turn: Turn) -> None:
    """Raise InvalidInput where a turn can't be meant."""
    if not isinstance(turn, Turn) or turn.role not in ROLES:
        raise InvalidInput("turns must be Turn values with role user, assistant, tool or system")
    if not isinstance(turn.content, str):
        raise InvalidInput(f"Turn.content must be a string, got {type(turn.content).__name__}")
    if turn.id is not None:
        check_id(turn.id, "Turn.id")
    if turn.speaker is not None and not isinstance(turn.speaker, str):
        raise InvalidInput(f"Turn.speaker must be a string, got {type(turn.speaker).__name__}")
    if turn.at is not None and not isinstance(turn.at, datetime):
        raise InvalidInput(f"Turn.at must be a datetime, got {type(turn.at).__name__}")
    check_json(turn.payload, "Turn.payload")


def check_key(key: str, what: str = "key") -> str:
    """A key as it is stored. Raises InvalidInput; a key with a secret in it too, since what is cut could be alike."""
    name = check_id(text.clean(key) if isinstance(key, str) else key, what)
    if privacy.redact(name).kinds:
        raise InvalidInput(f"{what} holds a secret; name it without")
    return name


def clean_value(name: str, value: Json, rules: WriteSettings) -> Json:
    """A value as it is stored under a name: cleaned, and redacted by what the name says. Raises InvalidInput."""
    check_json(value, "value")
    told, _ = privacy.redact_json({name: _clean_json(value)}, phones=rules.redact_phones, emails=rules.redact_emails)
    assert isinstance(told, dict)
    return next(iter(told.values()))


def check_ttl(ttl: float) -> None:
    """Raise InvalidInput where a time to live is not a positive number of seconds."""
    if isinstance(ttl, bool) or not isinstance(ttl, int | float) or ttl != ttl or ttl <= 0:
        raise InvalidInput(f"ttl must be a positive number of seconds, got {ttl!r}; leave it out to keep for ever")


def check_json(value: object, what: str) -> None:
    """Raise InvalidInput where a value is not JSON, or nested deeper than 32."""
    if _depth(value, _MAX_DEPTH) < 0:
        raise InvalidInput(f"{what} is nested deeper than {_MAX_DEPTH} levels")
    try:
        json.dumps(dict(value) if isinstance(value, Mapping) else value, allow_nan=False)
    except (TypeError, ValueError):
        raise InvalidInput(f"{what} must be JSON: strings, finite numbers, booleans, None, lists, dicts") from None
    if not _string_keys(value):
        raise InvalidInput(f"{what} must have strings for keys")


def _depth(value: object, left: int) -> int:
    if left < 0:
        return -1
    children = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    return min((_depth(child, left - 1) for child in children), default=left)


def _string_keys(value: object) -> bool:
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and _string_keys(item) for key, item in value.items())
    return not isinstance(value, list | tuple) or all(map(_string_keys, value))


def _clean_json(value: object) -> Json:
    match value:
        case str():
            return text.clean(value)
        case Mapping():
            return {text.clean(key): _clean_json(item) for key, item in value.items()}
        case list() | tuple():
            return [_clean_json(item) for item in value]
        case None | bool() | int() | float():
            return value
        case _:
            raise InvalidInput(f"{type(value).__name__} is not JSON")


def _importance(note: Note, assessed: float) -> float:
    if note.importance is None:
        return assessed
    # What was read or computed may not call itself important.
    return min(note.importance, assessed) if note.source in ("document", "tool") else note.importance


def _gate(note: Note, reason: RefusalReason | None, importance: float, rules: WriteSettings) -> RefusalReason | None:
    gated = rules.gate_explicit or note.source == "assistant"
    if not gated:
        return None
    if reason in (None, RefusalReason.LOW_IMPORTANCE):
        return RefusalReason.LOW_IMPORTANCE if importance < rules.write_threshold else None
    return reason


def _hard_message(reason: RefusalReason, rules: WriteSettings) -> str:
    return {
        RefusalReason.BLANK: "content is blank",
        RefusalReason.TOO_LONG: f"content is longer than {rules.max_chars} characters; split it",
        RefusalReason.INJECTED: "this text was put into the prompt by the memory itself",
        RefusalReason.PROMPT_ECHO: "this is a prompt, not something to remember",
    }.get(reason, str(reason))


def _entities(content: str, named: tuple[str, ...], rules: WriteSettings) -> tuple[str, ...]:
    given = [
        privacy.redact(text.clean(name), phones=rules.redact_phones, emails=rules.redact_emails).text for name in named
    ]
    return tuple(dict.fromkeys([*given, *entities_in(content)]))


def _memory(
    scope: Scope,
    clock: Clock,
    *,
    content: str,
    type: str,
    importance: float,
    entities: tuple[str, ...],
    metadata: Mapping[str, Json],
    key: str | None,
    source: Source,
    source_ids: tuple[str, ...],
    visibility: str,
    occurred_at: datetime | None,
    ttl: float | None,
    session: str | None,
    speaker: str | None = None,
) -> Memory:
    now = clock.now()
    return Memory(
        id=clock.new_id("mem"),
        scope=scope,
        type=type,
        content=content,
        importance=importance,
        entities=entities,
        metadata=metadata,
        key=key,
        source=source,
        source_ids=source_ids,
        trust=TRUST[source],
        visibility=visibility,
        pinned=False,
        created_at=now,
        occurred_at=occurred_at,
        updated_at=now,
        last_accessed_at=now,
        access_count=0,
        expires_at=_expiry(now, ttl),
        state=State.ACTIVE,
        superseded_by=None,
        embedding_version=None,
        session=session,
        speaker=speaker,
    )


def _expiry(now: datetime, ttl: float | None) -> datetime | None:
    if ttl is None:
        return None
    try:
        return now + timedelta(seconds=ttl)
    except OverflowError:
        return None  # beyond the calendar is for ever
