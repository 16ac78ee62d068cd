"""The story played on a real engine through real frameworks, and what each step changed in the memory.

    beat ──clock moves──▶ talker says it ──▶ prompt as sent · what was recalled · what the memory made of it ──▶ Step

Nothing is printed here; every number is measured while it is played.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta
from itertools import groupby

from ..clock import SystemClock
from ..engine import MemoryEngine
from ..rules.tokens import count_tokens
from ..testing import FakeClock
from ..types import ErasureReceipt, ForgettingPlan, ForgettingReport, Hit, Memory, Scope, State, Stats
from .agents import INSTRUCTIONS, Talker
from .endpoint import Endpoint, Prompt
from .protocol import text_of
from .story import FIRST_DAY, Beat

_MORNING = time(9, 0, tzinfo=UTC)
_PACE = timedelta(minutes=2)  # from one message to the next
_NIGHT = timedelta(hours=12)  # after a session, when none of its turns is protected any more


class StoryClock(FakeClock):
    """The story's time, with ids that no other run on the same database gives."""

    def new_id(self, kind: str) -> str:
        """A random id."""
        return SystemClock().new_id(kind)


@dataclass(frozen=True, slots=True)
class Change:
    """What one step made of the memory: records worth keeping, those that were replaced by which, those let go."""

    kept: tuple[Memory, ...] = ()
    superseded: tuple[tuple[Memory, Memory], ...] = ()
    released: tuple[Memory, ...] = ()

    @classmethod
    def between(cls, before: Mapping[str, Memory], after: Mapping[str, Memory]) -> Change:
        """What changed between two looks at the same scope, memories by id."""
        retired = [m for i, m in after.items() if m.state is State.ARCHIVED and _state(before, i) is not m.state]
        successors = {m.superseded_by for m in retired}
        return cls(
            kept=tuple(m for i, m in after.items() if i not in before and m.type != "dialogue" and i not in successors),
            superseded=tuple((m, after[m.superseded_by]) for m in retired if m.superseded_by),
            # Summaries that repeat what is taken back go with it.
            released=tuple(m for m in retired if m.superseded_by is None and m.type != "summary"),
        )


def _state(memories: Mapping[str, Memory], memory_id: str) -> State | None:
    return memories[memory_id].state if memory_id in memories else None


@dataclass(frozen=True, slots=True)
class Step:
    """One beat as it was played. `history_tokens` is what a prompt with everything said so far would have taken."""

    beat: Beat
    framework: str
    at: datetime
    answer: str
    prompts: tuple[Prompt, ...]
    recalled: tuple[Hit, ...]
    change: Change
    history_tokens: int

    @property
    def right(self) -> bool | None:
        """Whether the answer holds what it must; None where nothing was asked."""
        return self.beat.accepts(self.answer) if self.beat.kind == "ask" else None

    @property
    def tools(self) -> tuple[str, ...]:
        """The tools that were called for it."""
        return self.prompts[-1].called

    @property
    def tokens(self) -> int:
        """The tokens of all prompts sent."""
        return sum(prompt.tokens for prompt in self.prompts)


@dataclass(frozen=True, slots=True)
class Forgetting:
    """A forgetting, undone and done again; `stats` in that order, before it first. `memories` are those planned."""

    plan: ForgettingPlan
    memories: Mapping[str, Memory]
    report: ForgettingReport
    undone: tuple[str, ...]
    again: ForgettingReport
    stats: tuple[Stats, Stats, Stats, Stats]


@dataclass(frozen=True, slots=True)
class Erasure:
    """An identifier erased for good, and how many hits of a recall still named it afterwards."""

    identifier: str
    receipt: ErasureReceipt
    still_found: int


@dataclass(slots=True)
class Stage:
    """One scope, played by one talker after the other."""

    engine: MemoryEngine
    scope: Scope
    clock: StoryClock
    endpoint: Endpoint
    steps: list[Step] = field(default_factory=list)
    _said: int = 0  # tokens of everything said so far

    def session(self, beats: Sequence[Beat], talker: Talker) -> Iterator[Step]:
        """The steps of one session, each played when it is asked for."""
        started = datetime.combine(FIRST_DAY, _MORNING) + timedelta(days=beats[0].day - 1)
        before = self._memories()
        for place, beat in enumerate(beats):
            self.clock.set(started + place * _PACE)
            step, before = self._step(beat, talker, before)
            self.steps.append(step)
            yield step

    def close(self, session: str) -> Memory | None:
        """End a session; the summary that is kept of it, None where nothing in it lasts."""
        outcome = self.engine.end_session(self.scope, session)
        return self.engine.get(self.scope, outcome.id) if outcome and outcome.id else None

    def forget(self, ratio: float) -> Forgetting:
        """By night let the least valuable `ratio` of the records go, take it back, and do it again."""
        self.clock.set(self.clock.now() + _NIGHT)
        before = self.engine.stats(self.scope)
        plan = self.engine.plan_forgetting(self.scope, ratio=ratio)
        memories = self._memories()
        report = self.engine.forget(self.scope, plan)
        after = self.engine.stats(self.scope)
        undone = self.engine.undo(report)
        back = self.engine.stats(self.scope)
        again = self.engine.forget(self.scope, plan)
        planned = {step.id: memories[step.id] for step in plan.steps}
        return Forgetting(plan, planned, report, undone, again, (before, after, back, self.engine.stats(self.scope)))

    def erase(self, identifier: str) -> Erasure:
        """Delete whatever names `identifier`, and look for it."""
        receipt = self.engine.erase(self.scope, identifier=identifier)
        found = self.engine.recall(self.scope, identifier, include=tuple(State))
        return Erasure(identifier, receipt, sum(identifier in hit.content for hit in found))

    def _step(self, beat: Beat, talker: Talker, before: dict[str, Memory]) -> tuple[Step, dict[str, Memory]]:
        at, sent = self.clock.now(), len(self.endpoint.prompts)
        answer = talker.say(beat.session, beat.text, at)
        prompts = tuple(self.endpoint.prompts[sent:])
        after = self._memories()
        asked = count_tokens(beat.text)
        history = count_tokens(INSTRUCTIONS) + prompts[0].tool_tokens + self._said + asked
        self._said += asked + count_tokens(answer)
        hits = recalled(self.engine, self.scope, beat.session, beat.text, prompts) if beat.kind == "ask" else ()
        change = Change.between(before, after)
        return Step(beat, talker.name, at, answer, prompts, hits, change, history), after

    def _memories(self) -> dict[str, Memory]:
        everything = self.engine.list(self.scope, include=tuple(State))
        return {memory.id: memory for memory in everything}


def sessions(beats: Iterable[Beat]) -> list[list[Beat]]:
    """The beats of each session, in order."""
    return [list(told) for _, told in groupby(beats, key=lambda beat: beat.session)]


def recalled(
    engine: MemoryEngine, scope: Scope, session: str, question: str, prompts: Sequence[Prompt]
) -> tuple[Hit, ...]:
    """The hits behind what prompts of a session held, best first: the recall is done once more, for its scores."""
    shown = "\n".join(text_of(message) for prompt in prompts for message in prompt.request.messages)
    turns = max(1, len(engine.turns(scope, session)))
    found = engine.context(scope, session, question, recent_turns=turns).recall
    hits = found.hits if found else ()
    return tuple(hit for hit in hits if f"[{hit.memory.id}]" in shown)


@dataclass(frozen=True, slots=True)
class Cost:
    """Tokens of all prompts: as sent, of them for describing tools, and with the whole history sent each time.

    `last` and `last_history` are those of the last prompt. Instructions and tools count on both sides; the history
    counts once a message, however many prompts an agent needs for it.
    """

    prompts: int
    sent: int
    tools: int
    history: int
    last: int
    last_history: int

    @classmethod
    def of(cls, steps: Sequence[Step]) -> Cost:
        """The sums over steps, of which there is at least one."""
        prompts = [prompt for step in steps for prompt in step.prompts]
        return cls(
            prompts=len(prompts),
            sent=sum(prompt.tokens for prompt in prompts),
            tools=sum(prompt.tool_tokens for prompt in prompts),
            history=sum(step.history_tokens for step in steps),
            last=prompts[-1].tokens,
            last_history=steps[-1].history_tokens,
        )


def marks(steps: Sequence[Step]) -> tuple[int, list[Step]]:
    """How many questions there were, and those that were answered wrongly."""
    asked = [step for step in steps if step.right is not None]
    return len(asked), [step for step in asked if not step.right]
