"""What a question asks beyond its words: for history, for what was said last, for a date."""

from __future__ import annotations

import re

# (what it asks for, Chinese, English)
_HISTORY = re.compile(
    r"之前|以前|原来|原來|原本|原先|最初|最早|一开始|一開始|曾经|曾經|过去|過去|当初|當初|旧的|舊的|历史|歷史"
    r"|\b(?:before|originally|original|used to|previous|previously|formerly|former|earlier|at first|initial|initially"
    r"|history|(?<!how )(?<!year )(?<!years )old|prior|in the past)\b",
    re.IGNORECASE,
)
_POINTING = re.compile(
    r"^\W*(?:那个呢?|這個|那個|这个|上次(?:那个|那個|说的|說的|提到的)?|刚才(?:说的|那个)?|剛才(?:說的|那個)?|然后呢|然後呢"
    r"|接下来(?:干啥|做什么|呢)?|接下來(?:做什麼|呢)?|下一步(?:是什么|呢)?|继续|繼續"
    r"|that one|this one|the same|last time|what(?:'s| is)? next|and then|go on|what about (?:it|that)"
    r"|the other one)\W*$",
    re.IGNORECASE,
)
_NEXT = re.compile(r"接下来|接下來|下一步|next", re.IGNORECASE)
_NEXT_WORDS = "下一步 任务 里程碑 截止日期 计划 next step task milestone deadline plan"


def asks_history(query: str) -> bool:
    """Whether a question wants to know what held before."""
    return _HISTORY.search(query) is not None


def rewrite(query: str, topic: str) -> str:
    """A pointing query ("那个呢", "that one") said with the session's topic; any other query as it is (seed 2, 4.2)."""
    if not _POINTING.match(query):
        return query
    wanted = _NEXT_WORDS if _NEXT.search(query) else ""
    return " ".join(part for part in (query, wanted, topic) if part)
