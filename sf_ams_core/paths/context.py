"""What a prompt gets: facts, summary, recalled memories, recent turns, within a budget.

session ──recent whole exchanges──▶ question = last user turn ──recall without what is shown──▶ block
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..errors import InvalidInput
from ..events import new_trace_id
from ..kernel import Kernel
from ..rules import rendering, windows
from ..rules.text import wording
from ..rules.tokens import count_tokens
from ..stores import facts as facts_store
from ..stores import turns as turns_store
from ..stores.database import Reader
from ..types import Fact, Hit, MemoryContext, Recall, Scope, Turn
from .recall import Request, check_request, recall

_MAX_FACTS = 20
_MAX_TURNS = 10_000
_TURN_OVERHEAD = 4  # tokens that a chat format adds to a message


def turn_tokens(turn: Turn) -> int:
    """What a turn costs in a prompt, by our own counter."""
    return count_tokens(turn.content) + _TURN_OVERHEAD


def build_context(
    kernel: Kernel,
    scope: Scope,
    session: str,
    query: str | None,
    *,
    token_budget: int | None,
    recent_turns: int | None,
    recall_k: int | None,
    waiting: Sequence[Turn] = (),
) -> MemoryContext:
    """The context of a session; `waiting` are turns that the store does not have yet.

    Raises InvalidInput and StoreUnavailable.
    """
    rules = kernel.settings.context
    last = recent_turns if recent_turns is not None else rules.recent_turns
    k = recall_k if recall_k is not None else rules.recall_k
    check_request("" if query is None else query, k)
    _check(last, token_budget)
    with kernel.database.read(scope) as reader:
        held = turns_store.session_of(reader, session)
        # Twice the window, so that its first exchange can be whole.
        said = _shown(reader, session, max(2 * last, 40))
        facts = facts_store.current_facts(reader)[:_MAX_FACTS] if kernel.enabled else []
    said += [turn for turn in waiting if turn.id not in {t.id for t in said}]
    shown = windows.recent(said, last)
    asked = windows.asking(said)
    question = query if query is not None else " ".join(t.content for t in asked)
    summary = held.summary if held and kernel.enabled else None
    found = _recall(kernel, scope, session, question, shown, asked, k)
    return _fit(question or summary or "", facts, summary, found, shown, token_budget)


def _shown(reader: Reader, session: str, last: int) -> list[Turn]:
    """The newest turns of the view, and as many more as it takes to see what the user asked."""
    while True:
        said = [placed.turn for placed in turns_store.view(reader, session, last=last)]
        if len(said) < last or any(turn.role == "user" for turn in said):
            return said
        last *= 4


def _check(last: int, token_budget: int | None) -> None:
    if isinstance(last, bool) or not isinstance(last, int) or not 1 <= last <= _MAX_TURNS:
        raise InvalidInput(f"recent_turns must be a whole number from 1 to {_MAX_TURNS}, got {last!r}")
    if token_budget is not None and (
        isinstance(token_budget, bool) or not isinstance(token_budget, int) or token_budget < 1
    ):
        raise InvalidInput(f"token_budget must be a whole number from 1, got {token_budget!r}")


def _recall(
    kernel: Kernel,
    scope: Scope,
    session: str,
    question: str,
    shown: Sequence[Turn],
    asked: Sequence[Turn],
    k: int,
) -> Recall:
    hidden = frozenset(turn.id for turn in [*shown, *asked] if turn.id)
    topic = " ".join(turn.content for turn in shown[-3:] if turn.role == "user" and turn not in asked)
    request = Request(question, k=k + len(hidden), topic=topic, hide=(session, hidden))
    found = recall(kernel, scope, replace(request, counts_as_use=False))
    words = {wording(turn.content) for turn in [*shown, *asked]}
    fresh = [hit for hit in found if wording(hit.content) not in words and not _told(hit, session, hidden)]
    if fresh:
        kernel.uses.note(scope, [hit.memory.id for hit in fresh[:k]], kernel.clock.now())
    return replace(found, hits=tuple(fresh[:k]))


def _told(hit: Hit, session: str, shown: frozenset[str]) -> bool:
    """Whether all that a hit rests on is shown anyway, as the host's own prompt always is."""
    if hit.memory.source == "system" and hit.memory.type == "dialogue":
        return True
    return hit.memory.session == session and bool(hit.source_ids) and set(hit.source_ids) <= shown


def _fit(
    tongue_of: str,
    facts: Sequence[Fact],
    summary: str | None,
    found: Recall,
    shown: Sequence[Turn],
    budget: int | None,
) -> MemoryContext:
    hits = list(found.hits)
    text = rendering.block(tongue_of, facts, summary, hits)
    turns = list(shown)
    if budget is not None:
        # The newest exchange stays whatever it costs; the block gets what room is left, then older turns.
        newest = windows.within(turns, 0, turn_tokens)
        room = budget - sum(map(turn_tokens, newest))
        while text and count_tokens(text) > room:
            if hits:
                hits.pop()
            elif summary:
                summary = None
            else:
                facts = facts[:-1]
            text = rendering.block(tongue_of, facts, summary, hits)
        turns = windows.within(turns, budget - count_tokens(text), turn_tokens)
    tokens = count_tokens(text) + sum(map(turn_tokens, turns))
    return MemoryContext(
        text=text,
        messages=tuple(turns),
        cited=tuple(hit.memory.id for hit in hits),
        tokens=tokens,
        trace_id=found.trace_id,
        recall=replace(found, hits=tuple(hits)),
    )


def bare_context(turns: Sequence[Turn], last: int) -> MemoryContext:
    """A context without memory: the recent turns alone."""
    shown = windows.recent(turns, last)
    return MemoryContext("", tuple(shown), (), sum(map(turn_tokens, shown)), new_trace_id())
