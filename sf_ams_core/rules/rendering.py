"""The block that a prompt gets: fenced data, one line a memory, in the user's language, and nothing that can escape."""

from __future__ import annotations

import json
from collections.abc import Sequence

from ..types import Fact, Hit, Memory
from .text import MEMORY_HEADER_EN, MEMORY_HEADER_ZH, MEMORY_TAG, language

_ITEM_CHARS = 600  # a line longer than this crowds out the other memories
_WORDS = {
    "en": {"header": MEMORY_HEADER_EN, "facts": "Facts:", "summary": "Summary: ", "importance": "importance"},
    "zh": {"header": MEMORY_HEADER_ZH, "facts": "事实：", "summary": "摘要：", "importance": "重要性"},
}


def escape(text: str, limit: int = _ITEM_CHARS) -> str:
    """Text on one line that can neither close the fence nor open a role."""
    line = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return line if len(line) <= limit else line[: limit - 1] + "…"


def who(memory: Memory) -> str:
    """Who said a memory."""
    return memory.speaker or memory.source


def memory_line(memory: Memory, tongue: str) -> str:
    """One memory as a line: id, type, importance, date, who said it, words."""
    label = _WORDS[tongue]["importance"]
    day = memory.said_at.date().isoformat()
    about = f"{memory.type}, {label} {memory.importance:.1f}, {day}, {escape(who(memory), 64)}"
    return f"- [{memory.id}] ({about}) {escape(memory.content)}"


def fact_line(fact: Fact) -> str:
    """One exact fact as a line."""
    value = fact.value if isinstance(fact.value, str) else json.dumps(fact.value, ensure_ascii=False)
    return f"- {escape(fact.key, 128)}: {escape(value)}"


def block(tongue_of: str, facts: Sequence[Fact], summary: str | None, hits: Sequence[Hit]) -> str:
    """Facts, summary and recalled memories inside one fence; empty where there is nothing to tell.

    The language is that of `tongue_of`. What changes least comes first, so that prompt caches stay warm.
    """
    if not facts and not summary and not hits:
        return ""
    tongue = language(tongue_of)
    say = _WORDS[tongue]
    lines = [f"<{MEMORY_TAG}>", say["header"]]
    if facts:
        lines += [say["facts"], *map(fact_line, facts)]
    if summary:
        lines.append(say["summary"] + escape(summary, 2_000))
    lines += [memory_line(hit.memory, tongue) for hit in hits]
    return "\n".join([*lines, f"</{MEMORY_TAG}>"])


def is_injected(text: str) -> bool:
    """Whether text carries a block that this library put into a prompt."""
    return f"<{MEMORY_TAG}" in text or MEMORY_HEADER_EN in text or MEMORY_HEADER_ZH in text
