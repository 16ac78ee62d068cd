"""Conversations to measure with, one JSON object a line.

    {"conversation_id", "user_id", "turns": [{"id", "session", "timestamp", "speaker", "text"}],
     "questions": [{"id", "question", "evidence_turn_ids"}]}

Further keys are optional (see the fields below) and unknown ones are ignored, so other people's data needs only a
change of names. A line that cannot be read is an error that names it, never a silently shorter measurement.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TypeAlias

from ..clock import as_utc
from ..errors import InvalidInput
from ..types import Json, Role, Turn, check_id

_Object: TypeAlias = Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class Utterance:
    """One turn of a conversation as it was said; `superseded_by` is the id of the turn that made it outdated."""

    id: str
    session: str
    speaker: str
    text: str
    at: datetime | None = None
    kind: str | None = None
    importance: float | None = None
    superseded_by: str | None = None

    @property
    def role(self) -> Role:
        """`assistant` for the speaker of that name; every other speaker is a user."""
        return "assistant" if self.speaker == "assistant" else "user"

    @property
    def name(self) -> str | None:
        """The speaker's name, None where the data only says which side spoke."""
        return None if self.speaker in ("assistant", "user") else self.speaker

    def as_turn(self) -> Turn:
        """The turn that the engine takes."""
        return Turn(self.role, self.text, id=self.id, speaker=self.name, at=self.at)


@dataclass(frozen=True, slots=True)
class Question:
    """A question, the ids of the turns that answer it and of those that answer it with an outdated value."""

    id: str
    question: str
    answer: str = ""
    category: str = ""
    evidence: tuple[str, ...] = ()
    stale: tuple[str, ...] = ()
    abstention: bool = False
    asked_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Dialogue:
    """One user's conversation over all its sessions, and what is asked about it."""

    id: str
    user: str
    turns: tuple[Utterance, ...]
    questions: tuple[Question, ...] = ()
    dataset: str = ""
    language: str = ""


def read_jsonl(path: str | Path) -> Iterator[Dialogue]:
    """The conversations of a UTF-8 file, one a line; blank lines are skipped, naive times are UTC.

    Raises InvalidInput naming the file and line of what cannot be read.
    """
    try:
        with Path(path).open("rb") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield _read_line(line, f"{path}, line {number}")
    except OSError as fault:
        raise InvalidInput(f"cannot read {str(path)!r}: {fault.strerror or type(fault).__name__}") from None


def _read_line(line: bytes, where: str) -> Dialogue:
    try:
        return _dialogue(json.loads(line.decode("utf-8-sig")))
    except json.JSONDecodeError as fault:
        raise InvalidInput(f"{where}: not JSON, {fault.msg} at character {fault.colno}") from None
    except UnicodeDecodeError as fault:
        raise InvalidInput(f"{where}: not UTF-8 at byte {fault.start + 1}") from None
    except RecursionError:
        raise InvalidInput(f"{where}: nested too deeply") from None
    except ValueError as fault:
        raise InvalidInput(f"{where}: {fault}") from None


def _dialogue(raw: Json) -> Dialogue:
    if not isinstance(raw, dict):
        raise InvalidInput("a conversation must be a JSON object")
    name = _id(raw, "conversation_id", "")
    return Dialogue(
        id=name,
        user=_id(raw, "user_id", "") if raw.get("user_id") is not None else name,
        turns=tuple(_utterance(item, where) for item, where in _objects(raw, "turns")),
        questions=tuple(_question(item, where) for item, where in _objects(raw, "questions")),
        dataset=_text(raw, "dataset", "") or "",
        language=_text(raw, "lang", "") or "",
    )


def _utterance(raw: _Object, where: str) -> Utterance:
    return Utterance(
        id=_id(raw, "id", where),
        session=_id(raw, "session", where),
        speaker=_id(raw, "speaker", where),
        text=_need(raw, "text", where),
        at=_moment(raw, "timestamp", where),
        kind=_text(raw, "kind", where),
        importance=_number(raw, "importance", where),
        superseded_by=_text(raw, "superseded_by", where),
    )


def _question(raw: _Object, where: str) -> Question:
    answer = raw.get("answer")
    return Question(
        id=_id(raw, "id", where),
        question=_need(raw, "question", where),
        # Answers are never computed with, and data sets give numbers and lists here.
        answer=answer if isinstance(answer, str) else "" if answer is None else json.dumps(answer, ensure_ascii=False),
        category=_text(raw, "category", where) or "",
        evidence=_ids(raw, "evidence_turn_ids", where),
        stale=_ids(raw, "stale_turn_ids", where),
        abstention=raw.get("abstention") is True,
        asked_at=_moment(raw, "asked_at", where),
    )


def _objects(raw: _Object, key: str) -> Iterator[tuple[_Object, str]]:
    items = raw.get(key, [])
    if not isinstance(items, list):
        raise InvalidInput(f"{key!r} must be a list")
    for number, item in enumerate(items, 1):
        if not isinstance(item, dict):
            raise InvalidInput(f"item {number} of {key!r} must be a JSON object")
        yield item, f"item {number} of {key!r}: "


def _need(raw: _Object, key: str, where: str) -> str:
    text = _text(raw, key, where)
    if text is None:
        raise InvalidInput(f"{where}{key!r} is missing")
    return text


def _text(raw: _Object, key: str, where: str) -> str | None:
    value = raw.get(key)
    if value is not None and not isinstance(value, str):
        raise InvalidInput(f"{where}{key!r} must be a string")
    return value


def _id(raw: _Object, key: str, where: str) -> str:
    return check_id(_need(raw, key, where), f"{where}{key!r}")


def _ids(raw: _Object, key: str, where: str) -> tuple[str, ...]:
    items: Json | Sequence[Json] = raw.get(key) or []
    if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
        raise InvalidInput(f"{where}{key!r} must be a list of turn ids")
    return tuple(str(item) for item in items)


def _number(raw: _Object, key: str, where: str) -> float | None:
    value = raw.get(key)
    if value is not None and not isinstance(value, int | float):
        raise InvalidInput(f"{where}{key!r} must be a number")
    return None if value is None else float(value)


def _moment(raw: _Object, key: str, where: str) -> datetime | None:
    text = _text(raw, key, where)
    try:
        return None if text is None else as_utc(datetime.fromisoformat(text))
    except (ValueError, OverflowError):
        raise InvalidInput(f"{where}{key!r} must be an ISO date or time, such as 2024-03-15T09:30:00") from None
