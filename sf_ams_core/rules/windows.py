"""Which of the recent turns a prompt gets: whole exchanges only.

An exchange is a user's turn with all that answers it, so a tool's result never loses the call it belongs to and the
window never opens with an answer to something unseen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..types import Turn


def exchanges(turns: Sequence[Turn]) -> list[list[Turn]]:
    """Turns grouped from each user's turn to the next; what comes before the first user's turn is a group too.

    Two users' turns in a row are two exchanges; system turns stay with the exchange they stand in.
    """
    groups: list[list[Turn]] = []
    for turn in turns:
        if turn.role == "user" or not groups:
            groups.append([])
        groups[-1].append(turn)
    return groups


def recent(turns: Sequence[Turn], last: int) -> list[Turn]:
    """The newest whole exchanges of at most `last` turns together; the newest exchange always."""
    return _newest(turns, last, lambda _turn: 1)


def within(turns: Sequence[Turn], budget: int, cost: Callable[[Turn], int]) -> list[Turn]:
    """The newest whole exchanges that cost at most `budget`; the newest exchange always."""
    return _newest(turns, budget, cost)


def _newest(turns: Sequence[Turn], budget: int, cost: Callable[[Turn], int]) -> list[Turn]:
    kept: list[list[Turn]] = []
    spent = 0
    for group in reversed(exchanges(turns)):
        spent += sum(cost(turn) for turn in group)
        if kept and spent > budget:
            break
        kept.append(group)
    return [turn for group in reversed(kept) for turn in group if not _orphan(turn, group)]


def _orphan(turn: Turn, group: Sequence[Turn]) -> bool:
    """A tool's result at the head of a group has lost its call."""
    return turn.role == "tool" and all(other.role == "tool" for other in group[: group.index(turn)])


def asking(turns: Sequence[Turn]) -> list[Turn]:
    """What is being asked now: the last user's turn, with that speaker's turns directly before it."""
    users = [place for place, turn in enumerate(turns) if turn.role == "user"]
    if not users:
        return []
    last = first = users[-1]
    while first > 0 and turns[first - 1].role == "user" and turns[first - 1].speaker == turns[last].speaker:
        first -= 1
    return list(turns[first : last + 1])
