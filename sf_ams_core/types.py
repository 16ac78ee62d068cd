"""The nouns. Every value is frozen; outcomes are types; a memory's words never change."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Literal, TypeAlias

from .errors import InvalidInput, InvalidScope

Role: TypeAlias = Literal["user", "assistant", "tool", "system"]
Source: TypeAlias = Literal["user", "assistant", "tool", "document", "system"]
Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

ROLES: tuple[Role, ...] = ("user", "assistant", "tool", "system")
SOURCES: tuple[Source, ...] = ("user", "assistant", "tool", "document", "system")
MEMORY_TYPES = (
    "fact", "preference", "goal", "decision", "deadline", "risk",
    "meeting_note", "action", "event", "dialogue", "state", "summary",
)  # fmt: skip
MAX_ID_CHARS = 256


class State(StrEnum):
    """Where a memory is in its life."""

    ACTIVE = "active"
    COLD = "cold"
    ARCHIVED = "archived"
    QUARANTINED = "quarantined"


class RefusalReason(StrEnum):
    """Why the write path let nothing in."""

    BLANK = "blank"
    TOO_LONG = "too_long"
    SECRET_ONLY = "secret_only"  # noqa: S105 - a reason, not a secret
    INJECTED = "injected"
    PROMPT_ECHO = "prompt_echo"
    SMALL_TALK = "small_talk"
    COMMAND = "command"
    QUESTION = "question"
    LOW_IMPORTANCE = "low_importance"
    UNTRUSTED = "untrusted"
    DISABLED = "disabled"


def check_id(value: object, what: str) -> str:
    """`value` if it can name something: a non-blank string of at most 256 characters without NUL or surrogates.

    Raises InvalidInput otherwise.
    """
    if not isinstance(value, str) or not value.strip():
        raise InvalidInput(f"{what} must be a non-blank string, got {_kind(value)}")
    if len(value) > MAX_ID_CHARS:
        raise InvalidInput(f"{what} has {len(value)} characters; shorten it to at most {MAX_ID_CHARS}")
    if "\x00" in value or any("\ud800" <= c <= "\udfff" for c in value):
        raise InvalidInput(f"{what} holds a NUL or a lone surrogate; remove it")
    return value


def _kind(value: object) -> str:
    return "a blank string" if isinstance(value, str) else type(value).__name__


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose memory: a tenant, a user and a namespace (project, agent or app), compared by code point.

    Each part is a non-blank string of at most 256 characters; there is no wildcard. Raises InvalidScope.
    """

    tenant: str
    user: str
    namespace: str = "default"

    def __post_init__(self) -> None:
        for part in ("tenant", "user", "namespace"):
            try:
                check_id(getattr(self, part), f"Scope.{part}")
            except InvalidInput as fault:
                raise InvalidScope(str(fault)) from None


@dataclass(frozen=True, slots=True)
class Turn:
    """One message as it was said.

    `id` is unique per scope and session (made where it is None); `speaker` is a name; `at` is when it was said;
    `payload` is JSON (tool calls, content parts) that comes back unchanged.
    """

    role: Role
    content: str
    id: str | None = None
    speaker: str | None = None
    at: datetime | None = None
    payload: Json = None


@dataclass(frozen=True, slots=True)
class Memory:
    """One record that can be recalled. Only bookkeeping (state, counts, times) ever changes."""

    id: str
    scope: Scope
    type: str
    content: str
    importance: float
    entities: tuple[str, ...]
    metadata: Mapping[str, Json]
    key: str | None
    source: Source
    source_ids: tuple[str, ...]
    trust: float
    visibility: str
    pinned: bool
    created_at: datetime
    occurred_at: datetime | None
    updated_at: datetime
    last_accessed_at: datetime
    access_count: int
    expires_at: datetime | None
    state: State
    superseded_by: str | None
    embedding_version: str | None
    session: str | None = None
    speaker: str | None = None

    @property
    def said_at(self) -> datetime:
        """When it was said, else when it was stored: what age and recency are measured from."""
        return self.occurred_at or self.created_at


@dataclass(frozen=True, slots=True)
class Note:
    """What `remember_many` takes: the content and the keyword arguments of `remember`."""

    content: str
    type: str | None = None
    importance: float | None = None
    ttl: float | None = None
    key: str | None = None
    entities: tuple[str, ...] = ()
    metadata: Mapping[str, Json] | None = None
    session: str | None = None
    source: Source = "user"
    visibility: str = "default"
    occurred_at: datetime | None = None
    source_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Stored:
    """A new memory was written."""

    id: str


@dataclass(frozen=True, slots=True)
class Touched:
    """The memory was there already; its use was counted."""

    id: str


@dataclass(frozen=True, slots=True)
class Superseded:
    """A new memory was written and retired the `replaced` ones to history."""

    id: str
    replaced: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Queued:
    """Accepted durably, to be written later."""

    id: str


@dataclass(frozen=True, slots=True)
class Refused:
    """Nothing was written, for `reason`; `message` says what to do."""

    reason: RefusalReason
    message: str = ""
    id: None = None


WriteOutcome: TypeAlias = Stored | Touched | Superseded | Queued | Refused


@dataclass(frozen=True, slots=True)
class Hit:
    """One recalled memory: `score` is the sum of `parts`, `routes` are those that found it."""

    memory: Memory
    content: str
    score: float
    parts: Mapping[str, float]
    routes: tuple[str, ...]
    source_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Recall:
    """The answer of a recall; true only with hits. `degraded` names the routes that failed."""

    hits: tuple[Hit, ...]
    trace_id: str
    degraded: tuple[str, ...] = ()
    took_ms: float = 0.0

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)

    def __len__(self) -> int:
        return len(self.hits)

    def __bool__(self) -> bool:
        return bool(self.hits)


@dataclass(frozen=True, slots=True)
class MemoryContext:
    """What a prompt needs: `text` (facts, summary and recalled block, fenced) and `messages` (recent turns).

    `cited` are the ids of the memories in the block; `tokens` counts text and messages by our own counter.
    """

    text: str
    messages: tuple[Turn, ...]
    cited: tuple[str, ...]
    tokens: int
    trace_id: str
    recall: Recall | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """A memory that words may mean; `sure` is true only for exact or folded identifiers and names."""

    id: str
    content: str
    score: float
    sure: bool
    why: str


@dataclass(frozen=True, slots=True)
class ErasureReceipt:
    """What was deleted for good, what was only similar, and what each checked place held afterwards."""

    erased: tuple[str, ...]
    similar: tuple[Candidate, ...]
    checked: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Fact:
    """One version of an exact key-value fact; `valid_to` is None for the current one."""

    key: str
    value: Json
    version: int
    valid_from: datetime
    valid_to: datetime | None = None
    source: Source = "user"


Action: TypeAlias = Literal["demote", "archive", "delete"]


@dataclass(frozen=True, slots=True)
class ForgettingStep:
    """What to do with one memory and why: `score` is the sum of `parts`."""

    id: str
    action: Action
    score: float
    parts: Mapping[str, float]
    reason: str
    chars: int
    state: str
    access_count: int


@dataclass(frozen=True, slots=True)
class ForgettingPlan:
    """A proposal: steps from the least worth keeping up. `over_by` is what protected memories hold over the budget."""

    scope: Scope
    policy: str
    made_at: datetime
    steps: tuple[ForgettingStep, ...]
    considered: int
    protected: int
    over_by: int = 0

    def to_json(self) -> str:
        """The plan as JSON text, with its scope."""
        return json.dumps(asdict(self), ensure_ascii=False, default=_encode)

    @classmethod
    def from_json(cls, text: str) -> ForgettingPlan:
        """A plan read back from `to_json`."""
        raw = json.loads(text)
        raw["scope"] = Scope(**raw["scope"])
        raw["made_at"] = datetime.fromisoformat(raw["made_at"])
        raw["steps"] = tuple(ForgettingStep(**step) for step in raw["steps"])
        return cls(**raw)


@dataclass(frozen=True, slots=True)
class ForgettingReport:
    """What a plan did: `applied` steps, and `skipped` ones with the event that overtook them."""

    id: str
    scope: Scope
    made_at: datetime
    applied: tuple[ForgettingStep, ...]
    skipped: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> str:
        """The report as JSON text, with its scope."""
        return json.dumps(asdict(self), ensure_ascii=False, default=_encode)

    @classmethod
    def from_json(cls, text: str) -> ForgettingReport:
        """A report read back from `to_json`."""
        raw = json.loads(text)
        raw["scope"] = Scope(**raw["scope"])
        raw["made_at"] = datetime.fromisoformat(raw["made_at"])
        raw["applied"] = tuple(ForgettingStep(**step) for step in raw["applied"])
        return cls(**raw)


@dataclass(frozen=True, slots=True)
class Stats:
    """Counts of one scope. `characters` counts the text of active records."""

    active: int
    cold: int
    archived: int
    quarantined: int
    by_type: Mapping[str, int]
    characters: int
    turns: int
    sessions: int
    facts: int
    awaiting_vectors: int


@dataclass(frozen=True, slots=True)
class Health:
    """Whether the parts work, and the counters of faults since `open`."""

    ok: bool
    database: bool
    embedder: str
    embedder_ok: bool
    schema: str
    enabled: bool
    counters: Mapping[str, int]


def _encode(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} is not JSON")
