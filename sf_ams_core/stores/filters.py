"""Which memories may be seen: one frozen value, checked once, turned into bound SQL in one place."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, and_, exists, false, or_

from ..clock import as_utc
from ..errors import InvalidFilter
from ..types import MEMORY_TYPES, Json, State
from .schema import marks, memories

_MARK_CHARS = 256  # a longer value is compared by its digest


@dataclass(frozen=True, slots=True)
class Filters:
    """What a reader asked to see. `entities` are folded already; None asks for nothing, no types for no memory."""

    types: tuple[str, ...] | None = None
    min_importance: float = 0.0
    since: datetime | None = None
    until: datetime | None = None
    entities: tuple[str, ...] = ()
    metadata: tuple[tuple[str, str], ...] = ()
    session: str | None = None
    include: tuple[str, ...] = (State.ACTIVE,)
    visible: tuple[str, ...] | None = ("default",)
    turns: bool = True
    as_of: datetime | None = None


def check_types(types: Collection[str] | None) -> tuple[str, ...] | None:
    """`types` as a tuple of known types, each with an optional subtype after a colon. Raises InvalidFilter."""
    if types is None:
        return None
    types = (types,) if isinstance(types, str) else _several(types, "types")
    for kind in types:
        base, colon, sub = kind.partition(":") if isinstance(kind, str) else ("", "", "")
        if base not in MEMORY_TYPES:
            raise InvalidFilter(f"unknown memory type; use one of {', '.join(MEMORY_TYPES)}")
        if colon and not _SUBTYPE.fullmatch(sub):
            raise InvalidFilter("a subtype is a word of at most 64 letters, digits, '.', '_', '-' or blanks")
    return tuple(types)


# What stands in a prompt beside a memory must not be able to say anything.
_SUBTYPE = re.compile(r"\w[\w .-]{0,63}")


def _several(names: object, what: str) -> tuple[str, ...]:
    if not isinstance(names, Collection):
        raise InvalidFilter(f"{what} must be a sequence of strings, got {type(names).__name__}")
    return tuple(names)


def check_states(include: Collection[str]) -> tuple[str, ...]:
    """`include` as known states. Raises InvalidFilter."""
    states = (include,) if isinstance(include, str) else _several(include, "include")
    unknown = [s for s in states if s not in tuple(State)]
    if unknown or not states:
        raise InvalidFilter(f"unknown states {unknown!r}; use some of {', '.join(State)}")
    return states


def check_visible(visible: Collection[str]) -> tuple[str, ...]:
    """`visible` as labels; none given means that nothing may be seen. Raises InvalidFilter."""
    labels = (visible,) if isinstance(visible, str) else _several(visible, "visible")
    if any(not isinstance(label, str) or not label.strip() for label in labels):
        raise InvalidFilter("visible must be non-blank labels such as 'default'")
    return labels


def check_importance(value: float, what: str = "importance") -> float:
    """`value` if it is within 0..1. Raises InvalidFilter."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise InvalidFilter(f"{what} must be a number from 0 to 1, got {value!r}")
    return float(value)


def check_moment(value: datetime | None, what: str) -> datetime | None:
    """`value` in UTC. Raises InvalidFilter where it is not a datetime."""
    if value is None:
        return None
    if not isinstance(value, datetime):
        raise InvalidFilter(f"{what} must be a datetime, got {type(value).__name__}")
    return as_utc(value)


def check_metadata(wanted: Mapping[str, Json] | None) -> tuple[tuple[str, str], ...]:
    """Top-level metadata to be equal, as marks. Raises InvalidFilter for operators and nested values."""
    pairs: list[tuple[str, str]] = []
    if wanted is not None and not isinstance(wanted, Mapping):
        raise InvalidFilter(f"metadata must be a mapping of keys and values, got {type(wanted).__name__}")
    for key, value in (wanted or {}).items():
        if not isinstance(key, str) or not key.strip() or key.startswith("$"):
            raise InvalidFilter(f"metadata filters compare keys with values; {key!r} is no key of a memory")
        if not isinstance(value, str | int | float | None):
            raise InvalidFilter("a metadata filter must be a single JSON value; nested values cannot be compared")
        pairs.append((key, mark_value(value)))
    return tuple(pairs)


def mark_value(value: Json) -> str:
    """The canonical text of a single JSON value: equal values, equal text (1 and 1.0 are one number)."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MARK_CHARS else hashlib.sha256(text.encode()).hexdigest()


def metadata_marks(metadata: Mapping[str, Json]) -> Iterable[tuple[str, str]]:
    """What of a memory's metadata can be filtered by: single values, and each single value of a list."""
    for key, value in metadata.items():
        for item in value if isinstance(value, list) else [value]:
            if not isinstance(item, dict | list):
                yield key, mark_value(item)


def conditions(filters: Filters, scope_id: int | None, now: datetime) -> ColumnElement[bool]:
    """The WHERE of a filter, everything bound."""
    m = memories.c
    parts: list[ColumnElement[bool]] = [m.scope_id == scope_id, _alive(filters, now)]
    if filters.visible is not None:
        parts.append(m.visibility.in_(filters.visible))
    if filters.types is not None:
        parts.append(or_(false(), *[_of_type(kind) for kind in filters.types]))
    if not filters.turns:
        parts.append(m.type != "dialogue")
    if filters.min_importance > 0:
        parts.append(m.importance >= filters.min_importance)
    if filters.since is not None:
        parts.append(m.said_at >= filters.since)
    if filters.until is not None:
        parts.append(m.said_at <= filters.until)
    if filters.session is not None:
        parts.append(m.session == filters.session)
    if filters.entities:
        parts.append(or_(*[_marked(scope_id, "entity", "", name) for name in filters.entities]))
    parts.extend(_marked(scope_id, "meta", key, value) for key, value in filters.metadata)
    return and_(*parts)


def _alive(filters: Filters, now: datetime) -> ColumnElement[bool]:
    m = memories.c
    moment = filters.as_of or now
    unexpired = or_(m.expires_at.is_(None), m.expires_at > moment)
    if filters.as_of is None:
        fresh = and_(m.state.in_(filters.include), unexpired)
        # History keeps no time to live: what is archived can be read after it expired.
        return or_(fresh, m.state == State.ARCHIVED) if State.ARCHIVED in filters.include else fresh
    held = or_(
        m.state.in_((State.ACTIVE, State.COLD)),
        and_(m.state == State.ARCHIVED, m.why != "released", m.retired_at > moment),
    )
    return and_(m.said_at <= moment, unexpired, held)


def _of_type(kind: str) -> ColumnElement[bool]:
    base, colon, sub = kind.partition(":")
    matches = memories.c.type == base
    return and_(matches, memories.c.subtype == sub) if colon else matches


def _marked(scope_id: int | None, kind: str, name: str, value: str) -> ColumnElement[bool]:
    return exists().where(
        marks.c.scope_id == scope_id,
        marks.c.seq == memories.c.seq,
        marks.c.kind == kind,
        marks.c.name == name,
        marks.c.value == value,
    )
