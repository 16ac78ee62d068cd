"""A conversation said again, turn by turn, as if it were live: what is recalled, and what each prompt costs.

Each conversation is a scope of its own. Turns go in session by session with their own times; at some of the user's
turns the prompt that memory would send is weighed against resending everything said so far; then the questions are
asked and the cited turns compared with the evidence.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from ..errors import InvalidInput
from ..rules.tokens import count_tokens
from ..types import Scope
from .datasets import Dialogue, Question, Utterance
from .drivers import Answer, Driver, Framework, driver
from .metrics import Interval, asks_history, mean_interval, ndcg_at_k, old_above_new, old_in_first, recall_at_k

if TYPE_CHECKING:
    from ..engine import MemoryEngine

Progress: TypeAlias = Callable[[str, int], None]  # what is being done, and how many turns or questions just were

TENANT = "replay"
DEPTH = 10  # hits a question
PROMPT_SAMPLES = 40  # prompts weighed a conversation, at most


@dataclass(frozen=True, slots=True)
class Scores:
    """Retrieval over the questions with evidence, of one category or of all (`category` None)."""

    category: str | None
    recall_5: Interval
    recall_10: Interval
    ndcg_10: Interval


@dataclass(frozen=True, slots=True)
class StaleScores:
    """Over questions about what is true now that has an outdated value: shares where the old one gets in the way."""

    old_above_new: Interval
    old_in_first_5: Interval


@dataclass(frozen=True, slots=True)
class TokenUse:
    """Tokens a prompt, by our own counter: memory with recent turns, against all turns so far."""

    with_memory: Interval
    full_history: Interval
    samples_a_conversation: int


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds a recall, measured outside the framework's object."""

    p50: float
    p95: float


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """What a replay measured. `degraded` is the share of questions in whose recall a part failed."""

    framework: Framework
    embedder: str
    conversations: int
    turns: int
    questions: int
    write_seconds: float
    tokens: TokenUse
    scores: tuple[Scores, ...] = ()
    stale: StaleScores | None = None
    recall_ms: Latency | None = None
    degraded: float | None = None
    faults: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True)
class _Asked:
    question: Question
    answer: Answer
    ms: float
    degraded: bool


@dataclass(frozen=True, slots=True)
class _Observed:
    write_seconds: float
    prompts: tuple[tuple[int, int], ...]  # tokens with memory, tokens of everything
    asked: tuple[_Asked, ...] = ()


def replay(
    dialogues: Sequence[Dialogue],
    *,
    framework: Framework = "core",
    engine: MemoryEngine,
    questions: bool = True,
    progress: Progress | None = None,
) -> ReplayReport:
    """Say `dialogues` to `engine` through a framework, ask their questions and measure.

    Raises InvalidInput where two dialogues would share a scope, MissingExtra where the framework is not installed.
    """
    _check_apart(dialogues)
    tell = progress or _silent
    before = engine.health().counters
    observed = []
    for dialogue in dialogues:
        route = driver(framework, engine, Scope(TENANT, dialogue.user, dialogue.id), DEPTH)
        seconds, prompts = _say(dialogue, route, tell)
        asked = _ask(dialogue, route, engine, tell) if questions else ()
        observed.append(_Observed(seconds, prompts, asked))
    return _report(dialogues, observed, framework, engine, before)


def work(dialogues: Sequence[Dialogue], *, questions: bool = True) -> int:
    """How many turns and questions a replay goes through, for a progress bar."""
    return sum(len(d.turns) + (len(d.questions) if questions else 0) for d in dialogues)


def _silent(_what: str, _done: int) -> None:
    return None


def _check_apart(dialogues: Sequence[Dialogue]) -> None:
    seen: set[tuple[str, str]] = set()
    for dialogue in dialogues:
        if (dialogue.user, dialogue.id) in seen:
            raise InvalidInput(f"conversation {dialogue.id!r} of user {dialogue.user!r} occurs twice; rename one")
        seen.add((dialogue.user, dialogue.id))


def _say(dialogue: Dialogue, route: Driver, tell: Progress) -> tuple[float, tuple[tuple[int, int], ...]]:
    spent = 0.0
    prompts: list[tuple[int, int]] = []
    everything = list(accumulate(count_tokens(turn.text) for turn in dialogue.turns))
    said = 0
    for batch, weigh in _batches(dialogue.turns, _sampled(dialogue.turns)):
        start = time.perf_counter()
        route.add(batch[0].session, [turn.as_turn() for turn in batch])
        spent += time.perf_counter() - start
        said += len(batch)
        if weigh:
            prompts.append((sum(map(count_tokens, route.prompt(batch[0].session))), everything[said - 1]))
        tell(f"{dialogue.id}: turns", len(batch))
    return spent, tuple(prompts)


def _sampled(turns: Sequence[Utterance]) -> frozenset[int]:
    """Places of every n-th user's turn, so that at most PROMPT_SAMPLES prompts are weighed."""
    places = [place for place, turn in enumerate(turns) if turn.role == "user"]
    step = max(1, math.ceil(len(places) / PROMPT_SAMPLES))
    return frozenset(places[step - 1 :: step])


def _batches(turns: Sequence[Utterance], cuts: frozenset[int]) -> Iterator[tuple[list[Utterance], bool]]:
    """The turns session by session, cut behind each sampled turn; whether the batch ends with one."""
    batch: list[Utterance] = []
    for place, turn in enumerate(turns):
        if batch and batch[-1].session != turn.session:
            yield batch, False
            batch = []
        batch.append(turn)
        if place in cuts:
            yield batch, True
            batch = []
    if batch:
        yield batch, False


def _ask(dialogue: Dialogue, route: Driver, engine: MemoryEngine, tell: Progress) -> tuple[_Asked, ...]:
    asked = []
    before = engine.health()
    for question in dialogue.questions:
        start = time.perf_counter()
        answer = route.ask(question.question)
        ms = 1_000 * (time.perf_counter() - start)
        # A retriever does not say what its recall went without; the engine's own books do.
        after = engine.health()
        whole = after.embedder_ok and not answer.degraded and not _faults(before.counters, after.counters)
        asked.append(_Asked(question, answer, ms, degraded=not whole))
        before = after
        tell(f"{dialogue.id}: questions", 1)
    return tuple(asked)


def _report(
    dialogues: Sequence[Dialogue],
    observed: Sequence[_Observed],
    framework: Framework,
    engine: MemoryEngine,
    before: Mapping[str, int],
) -> ReplayReport:
    health = engine.health()
    asked = [one for each in observed for one in each.asked]
    return ReplayReport(
        framework=framework,
        embedder=health.embedder,
        conversations=len(dialogues),
        turns=sum(len(dialogue.turns) for dialogue in dialogues),
        questions=len(asked),
        write_seconds=sum(each.write_seconds for each in observed),
        tokens=_token_use(observed),
        scores=_scores(observed),
        stale=_stale(observed),
        recall_ms=_latency([one.ms for one in asked]),
        degraded=sum(one.degraded for one in asked) / len(asked) if asked else None,
        faults=_faults(before, health.counters),
    )


def _token_use(observed: Sequence[_Observed]) -> TokenUse:
    return TokenUse(
        mean_interval([[float(memory) for memory, _ in each.prompts] for each in observed]),
        mean_interval([[float(full) for _, full in each.prompts] for each in observed]),
        PROMPT_SAMPLES,
    )


def _scores(observed: Sequence[_Observed]) -> tuple[Scores, ...]:
    """The scores of all questions first, then of each category where there is more than one."""
    names = sorted({one.question.category for each in observed for one in each.asked if one.question.evidence})
    if not names:
        return ()
    overall = _score(observed, None, names)
    return (overall, *(_score(observed, name, [name]) for name in names if len(names) > 1))


def _score(observed: Sequence[_Observed], label: str | None, categories: Sequence[str]) -> Scores:
    judged = [[a for a in each.asked if a.question.evidence and a.question.category in categories] for each in observed]
    return Scores(
        label,
        mean_interval([[recall_at_k(a.answer.ranking, a.question.evidence, 5) for a in group] for group in judged]),
        mean_interval([[recall_at_k(a.answer.ranking, a.question.evidence, 10) for a in group] for group in judged]),
        mean_interval([[ndcg_at_k(a.answer.ranking, a.question.evidence, 10) for a in group] for group in judged]),
    )


def _stale(observed: Sequence[_Observed]) -> StaleScores | None:
    judged = [
        [(a.answer.ranking, a.question.evidence, a.question.stale) for a in each.asked if _about_now(a.question)]
        for each in observed
    ]
    if not any(judged):
        return None
    return StaleScores(
        mean_interval([[float(old_above_new(*case)) for case in group] for group in judged]),
        mean_interval([[float(old_in_first(*case)) for case in group] for group in judged]),
    )


def _about_now(question: Question) -> bool:
    return bool(question.stale) and not asks_history(question.question)


def _latency(ms: Sequence[float]) -> Latency | None:
    return Latency(*(float(value) for value in np.percentile(ms, [50, 95]))) if ms else None


def _faults(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    new = {name: count - before.get(name, 0) for name, count in after.items() if name.startswith("fault.")}
    return {name: count for name, count in sorted(new.items()) if count}
