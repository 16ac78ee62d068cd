"""The forgetting path.

    waiting use written ──▶ value of each record ──▶ plan (data) ──▶ rechecked, journaled steps ──▶ report ──▶ undo

A plan proposes; applying it rechecks every step against what happened since. Nothing here deletes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from ..errors import InvalidInput
from ..kernel import Kernel
from ..rules import retention
from ..rules.retention import Valuation
from ..rules.tokens import count_tokens
from ..settings import ForgettingSettings
from ..stores import memories as store
from ..stores import turns as turns_store
from ..stores import upkeep
from ..stores.database import Reader, Writer
from ..stores.filters import Filters
from ..types import ForgettingPlan, ForgettingReport, ForgettingStep, Memory, Scope, State
from .common import write_uses

_STEPS_A_TRANSACTION = 100


@dataclass(frozen=True, slots=True)
class Budget:
    """How much may stay; at most one is given. None at all means the settings' ratio."""

    capacity: int | None = None
    keep_chars: int | None = None
    keep_tokens: int | None = None
    ratio: float | None = None
    threshold: float | None = None

    def check(self) -> None:
        """Raise InvalidInput where a budget can't be meant."""
        given = [name for name in self.__slots__ if getattr(self, name) is not None]
        if len(given) > 1:
            raise InvalidInput(f"give one budget, not {' and '.join(given)}")
        for name in ("capacity", "keep_chars", "keep_tokens"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
                raise InvalidInput(f"{name} must be a whole number from 0, got {value!r}")
        for name in ("ratio", "threshold"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, int | float):
                raise InvalidInput(f"{name} must be a number, got {type(value).__name__}")
        if self.ratio is not None and not 0 <= self.ratio <= 1:
            raise InvalidInput(f"ratio must be a number from 0 to 1, got {self.ratio!r}")
        if self.threshold is not None and self.threshold != self.threshold:
            raise InvalidInput("threshold must be a number")


def plan_forgetting(kernel: Kernel, scope: Scope, policy: str | None, budget: Budget) -> ForgettingPlan:
    """What would be forgotten and why; changes nothing. Raises InvalidInput and StoreUnavailable."""
    budget.check()
    settings = kernel.settings.forgetting
    name = policy or settings.policy
    value = _valuation(name, settings)
    write_uses(kernel, scope)
    now = kernel.clock.now()
    with kernel.database.read(scope) as reader:
        active = [m for _, m in store.matching(reader, Filters(visible=None, include=(State.ACTIVE,)), now)]
        active += store.expired(reader, now)  # recall hides them already
        protected = _protected(kernel, reader, active, now)
    ranked = retention.valued([m for m in active if m.id not in protected], now, value)
    steps, over_by = _steps(ranked, active, budget, settings, now)
    return ForgettingPlan(scope, name, now, tuple(steps), len(active), len(protected), over_by)


def _valuation(policy: str, settings: ForgettingSettings) -> Valuation:
    if policy != "seed":
        raise InvalidInput(f"unknown policy {policy!r}; use 'seed'")
    return retention.seed_value(settings)


def _protected(kernel: Kernel, reader: Reader | Writer, active: Sequence[Memory], now: datetime) -> set[str]:
    rules = kernel.settings.context
    held = {m.id for m in active if m.pinned and not retention.expired(m, now)}
    since = now - timedelta(minutes=rules.session_idle_minutes)
    for session in turns_store.live_sessions(reader, since):
        shown = [placed.turn.id or "" for placed in turns_store.view(reader, session, last=rules.recent_turns)]
        held |= {memory.id for memory in store.of_turns(reader, session, shown).values()}
    return held & {m.id for m in active}


def _steps(
    ranked: Sequence[tuple[Memory, Mapping[str, float]]],
    active: Sequence[Memory],
    budget: Budget,
    settings: ForgettingSettings,
    now: datetime,
) -> tuple[list[ForgettingStep], int]:
    steps: list[ForgettingStep] = []
    enough = _enough(budget, active, settings)
    gone: list[Memory] = []
    for memory, parts in ranked:
        score = math.fsum(parts.values())
        if retention.expired(memory, now):
            reason = "expired"
        elif retention.unseen_for_long(memory, now, settings):
            reason = "unseen"
        elif (budget.threshold is not None and score < budget.threshold) or (
            budget.threshold is None and not enough(gone)
        ):
            reason = "least worth keeping"
        else:
            continue
        steps.append(retention.step(memory, parts, retention.grade(memory, reason), reason))
        gone.append(memory)
    return steps, _over(budget, active, gone)


def _enough(
    budget: Budget, active: Sequence[Memory], settings: ForgettingSettings
) -> Callable[[Sequence[Memory]], bool]:
    """Whether what goes is enough for the budget."""
    if budget.keep_chars is not None or budget.keep_tokens is not None:
        size, room = _size(budget)
        total = sum(map(size, active))
        return _Running(total, room, size)
    if budget.capacity is not None:
        goal = _beyond(len(active), budget.capacity, settings)
    elif budget.threshold is not None:
        goal = 0
    elif budget.ratio is not None:
        goal = int(len(active) * budget.ratio)
    else:
        goal = max(int(len(active) * settings.ratio), _beyond(len(active), settings.capacity, settings))
    return lambda gone: len(gone) >= goal


def _beyond(held: int, capacity: int, settings: ForgettingSettings) -> int:
    """How many go from a scope over its capacity: down to the low-water mark, so that it is not over again at once."""
    return held - int(settings.low_water * capacity) if held > capacity else 0


def _size(budget: Budget) -> tuple[Callable[[Memory], int], int]:
    if budget.keep_chars is not None:
        return (lambda m: len(m.content)), budget.keep_chars
    assert budget.keep_tokens is not None
    return (lambda m: count_tokens(m.content)), budget.keep_tokens


class _Running:
    """Counts what is gone once, however often it is asked."""

    def __init__(self, total: int, room: int, size: Callable[[Memory], int]) -> None:
        self._left, self._room, self._size, self._seen = total, room, size, 0

    def __call__(self, gone: Sequence[Memory]) -> bool:
        self._left -= sum(self._size(m) for m in gone[self._seen :])
        self._seen = len(gone)
        return self._left <= self._room


def _over(budget: Budget, active: Sequence[Memory], gone: Sequence[Memory]) -> int:
    """By how much what stays is over the budget: only protected records can hold it there."""
    left = {m.id for m in gone}
    stays = [m for m in active if m.id not in left]
    if budget.keep_chars is not None or budget.keep_tokens is not None:
        size, room = _size(budget)
        return max(0, sum(map(size, stays)) - room)
    return max(0, len(stays) - budget.capacity) if budget.capacity is not None else 0


def forget(kernel: Kernel, scope: Scope, plan: ForgettingPlan) -> ForgettingReport:
    """Apply a plan; steps that events overtook are skipped one by one. Raises InvalidInput and StoreUnavailable."""
    if not isinstance(plan, ForgettingPlan):
        raise InvalidInput(f"plan must be a ForgettingPlan, got {type(plan).__name__}")
    if plan.scope != scope:
        raise InvalidInput("this plan was made for another scope")
    write_uses(kernel, scope)
    report_id = kernel.clock.new_id("report")
    applied: list[ForgettingStep] = []
    skipped: dict[str, str] = {}
    for part in _parts(plan.steps):
        with kernel.database.write(scope) as writer:
            done, passed = _apply(kernel, writer, report_id, part)
        applied += done
        skipped |= passed
    kernel.events.emit("forgotten", report=report_id, applied=len(applied), skipped=len(skipped))
    return ForgettingReport(report_id, scope, kernel.clock.now(), tuple(applied), skipped)


def _apply(
    kernel: Kernel, writer: Writer, report_id: str, steps: Sequence[ForgettingStep]
) -> tuple[list[ForgettingStep], dict[str, str]]:
    now = kernel.clock.now()
    held = store.by_ids(writer, [step.id for step in steps])
    before = store.why_of(writer, list(held))
    protected = _protected(kernel, writer, list(held.values()), now)
    done: list[ForgettingStep] = []
    skipped: dict[str, str] = {}
    for step in steps:
        event = retention.overtaken(step, held.get(step.id)) or ("protected" if step.id in protected else None)
        if event is not None:
            skipped[step.id] = event
            continue
        done.append(step)
        state = State.COLD if step.action == "demote" else State.ARCHIVED
        store.set_state(writer, [step.id], state, step.reason, now, retired_at=now)
    upkeep.add_journal(
        writer,
        report_id,
        [(s.id, s.action, {"state": s.state, "why": before[s.id][0]}) for s in done],
        now,
    )
    return done, skipped


def undo(kernel: Kernel, report: ForgettingReport) -> list[str]:
    """Put back what a report changed and nothing has changed since; the ids that came back.

    Raises StoreUnavailable. Undoing twice changes nothing.
    """
    if not isinstance(report, ForgettingReport):
        raise InvalidInput(f"report must be a ForgettingReport, got {type(report).__name__}")
    now = kernel.clock.now()
    restored: list[str] = []
    with kernel.database.write(report.scope) as writer:
        entries = upkeep.open_journal(writer, report.id)
        held = store.by_ids(writer, [memory_id for memory_id, _, _ in entries])
        for memory_id, action, before in entries:
            memory = held.get(memory_id)
            left_at = State.COLD if action == "demote" else State.ARCHIVED
            free = memory is not None and memory.superseded_by is None and not store.key_taken(writer, memory)
            if memory is not None and memory.state is left_at and free:
                store.set_state(writer, [memory_id], State(before["state"]), before["why"], now)
                restored.append(memory_id)
            upkeep.close_journal(writer, report.id, memory_id, now)
    kernel.events.emit("undone", report=report.id, count=len(restored))
    return restored


def _parts(steps: Sequence[ForgettingStep]) -> Iterable[Sequence[ForgettingStep]]:
    return (steps[i : i + _STEPS_A_TRANSACTION] for i in range(0, len(steps), _STEPS_A_TRANSACTION))
