"""How much a memory is worth keeping, and what follows.

score = a * importance + b * access + c * recency - d * age; below zero once expired (seed 1, 2.2 and 4.2). The
lowest go first, one grade at a time: an active memory is demoted, a cold one archived.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta

from ..settings import ForgettingSettings
from ..types import Action, ForgettingStep, Memory, State

Valuation = Callable[[Memory, datetime], Mapping[str, float]]


def days(span: timedelta) -> float:
    """A span in days, never below zero."""
    return max(0.0, span / timedelta(days=1))


def expired(memory: Memory, now: datetime) -> bool:
    """Whether a memory's time is over."""
    return memory.expires_at is not None and memory.expires_at <= now


def seed_value(settings: ForgettingSettings) -> Valuation:
    """The seed's retention score as named addends."""

    def value(memory: Memory, now: datetime) -> Mapping[str, float]:
        if expired(memory, now):
            return {"expired": settings.expired_score}
        return {
            "importance": settings.importance * memory.importance,
            "access": settings.access * min(memory.access_count / settings.access_cap, 1.0),
            "recency": settings.recency * _recency(days(now - memory.last_accessed_at), settings),
            "age": 0.0 - settings.age_penalty * days(now - memory.said_at) / settings.recency_days,
        }

    return value


def _recency(unseen_days: float, settings: ForgettingSettings) -> float:
    if settings.recency_form == "exponential":
        return math.exp(-unseen_days / settings.recency_tau_days)
    return max(0.0, 1.0 - unseen_days / settings.recency_days)


def valued(memories: Sequence[Memory], now: datetime, value: Valuation) -> list[tuple[Memory, Mapping[str, float]]]:
    """Memories with their addends, the least worth keeping first; of equals the oldest."""
    scored = [(memory, value(memory, now)) for memory in memories]
    return sorted(scored, key=lambda item: (sum(item[1].values()), item[0].said_at, item[0].id))


def unseen_for_long(memory: Memory, now: datetime, settings: ForgettingSettings) -> bool:
    """The seed's archive rule: unseen for 90 days and less important than 0.7 (seed 2, 4.3)."""
    return (
        days(now - memory.last_accessed_at) >= settings.archive_unseen_days
        and memory.importance < settings.archive_importance
    )


def step(memory: Memory, parts: Mapping[str, float], action: Action, reason: str) -> ForgettingStep:
    """The step that takes a memory one grade down, and what it looked like when that was planned."""
    return ForgettingStep(
        id=memory.id,
        action=action,
        score=math.fsum(parts.values()),
        parts=parts,
        reason=reason,
        chars=len(memory.content),
        state=str(memory.state),
        access_count=memory.access_count,
    )


def overtaken(planned: ForgettingStep, memory: Memory | None) -> str | None:
    """What happened since the plan that spares a memory; None where the step still stands."""
    if memory is None:
        return "gone"
    if memory.pinned and planned.reason != "expired":
        return "pinned"
    if str(memory.state) != planned.state:
        return "state changed"
    if memory.access_count > planned.access_count and planned.reason != "expired":
        return "used since"
    return None


def grade(memory: Memory, reason: str) -> Action:
    """The next grade down: out of the indexes first, history after; what expired is history at once."""
    return "archive" if reason == "expired" or memory.state is State.COLD else "demote"
