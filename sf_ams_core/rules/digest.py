"""A summary without a model: the words that matter most, as they were said, newest kept first when room runs out.

It invents nothing: every line is a turn's own sentence with its speaker.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..settings import WriteSettings
from ..types import Turn
from . import admission

_LINE_CHARS = 160


def extend(summary: str, turns: Sequence[Turn], limit: int, rules: WriteSettings) -> str:
    """`summary` with what of `turns` is worth keeping, at most `limit` characters, oldest lines dropped first."""
    lines = [line for line in summary.split("\n") if line]
    lines += [_line(turn) for turn in turns if worth_keeping(turn, rules)]
    kept: list[str] = []
    room = limit
    for line in reversed(list(dict.fromkeys(lines))):
        if len(line) + 1 > room:
            break
        kept.append(line)
        room -= len(line) + 1
    return "\n".join(reversed(kept))


def worth_keeping(turn: Turn, rules: WriteSettings) -> bool:
    """Whether a turn says something that lasts."""
    return (
        turn.role == "user"
        and len(turn.content) <= rules.max_chars
        and bool(turn.content.strip())
        and admission.assess(turn.content, rules).reason is None
    )


def _line(turn: Turn) -> str:
    words = " ".join(turn.content.split())
    short = words if len(words) <= _LINE_CHARS else words[: _LINE_CHARS - 1] + "…"
    return f"{turn.speaker}: {short}" if turn.speaker else short
