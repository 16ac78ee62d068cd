"""LangChain messages as turns, and turns as messages again.

The payload of a turn is the message in LangChain's own storage format, so tool calls, media and usage come back as
they were; `content` is only its text, so that nothing encoded is ever searched. Messages that nobody said (blocks that
this library put into a prompt, summaries and notices of the agent's harness) never become turns.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from uuid import uuid4

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
    message_chunk_to_message,
    message_to_dict,
    messages_from_dict,
)
from pydantic import BaseModel

from sf_ams_core.rules.rendering import is_injected
from sf_ams_core.types import MAX_ID_CHARS, Json, Role, Turn

INJECTED_TAG = "sf_ams"  # additional_kwargs[INJECTED_TAG] == INJECTED marks what this library put into a prompt
INJECTED = "injected"

SAVE, RECALL, CORRECT, FORGET = "save_memory", "recall_memories", "correct_memory", "forget_memory"

_ROLES: dict[str, Role] = {
    "human": "user", "user": "user",
    "ai": "assistant", "assistant": "assistant", "model": "assistant",
    "tool": "tool", "function": "tool",
    "system": "system", "developer": "system",
}  # fmt: skip


def to_turn(message: BaseMessage) -> Turn | None:
    """The turn that `message` is, or None where nobody said it.

    An id is made where the message has none. `additional_kwargs["timestamp"]` (ISO 8601) is when it was said. A tool
    call or result that repeats memories is a turn without words: dropping it would tear the call apart.
    """
    message = message_chunk_to_message(message)
    ours = is_injected(message.text) or _answers_a_memory_tool(message)
    if not is_said(message) or (ours and not _is_of_a_call(message)):
        return None
    if not (message.id or "").strip():
        message = message.model_copy(update={"id": f"msg_{uuid4().hex}"})
    return Turn(
        role=_role(message),
        content="" if ours else str(message.text),
        id=turn_id(message),
        speaker=_speaker(message),
        at=_said_at(message),
        payload=_json(message_to_dict(message)),
    )


def to_turns(messages: Iterable[BaseMessage]) -> list[Turn]:
    """The turns among `messages`, in order."""
    return [turn for turn in map(to_turn, messages) if turn is not None]


def to_message(turn: Turn) -> BaseMessage:
    """The message that `turn` was made of; one of its role and words where its payload is not LangChain's."""
    return _stored(turn) or _plain(turn)


def to_messages(turns: Iterable[Turn]) -> list[BaseMessage]:
    """The messages of `turns`, in order, without tool calls and results that another framework wrote.

    Their payload names no call that LangChain could match, and providers refuse a result without its call.
    """
    pairs = ((turn, _stored(turn)) for turn in turns)
    return [
        stored or _plain(turn) for turn, stored in pairs if stored or (turn.role != "tool" and turn.content.strip())
    ]


def is_said(message: BaseMessage) -> bool:
    """Whether somebody said `message`: no command, no block of ours, no summary or notice of the agent's harness."""
    marks = message.additional_kwargs
    noticed = isinstance(message, HumanMessage) and isinstance(marks.get("lc_source"), str)
    return not (isinstance(message, RemoveMessage) or marks.get(INJECTED_TAG) == INJECTED or noticed)


def turn_id(message: BaseMessage) -> str | None:
    """The id under which the transcript holds `message`: its own, or a digest of one that is too long."""
    if message.id is None or len(message.id) <= MAX_ID_CHARS:
        return message.id
    return f"msg_{hashlib.sha256(message.id.encode(errors='replace')).hexdigest()}"


def _answers_a_memory_tool(message: BaseMessage) -> bool:
    return isinstance(message, ToolMessage) and message.name in (SAVE, RECALL, CORRECT, FORGET)


def _is_of_a_call(message: BaseMessage) -> bool:
    return _role(message) == "tool" or (isinstance(message, AIMessage) and bool(message.tool_calls))


def _role(message: BaseMessage) -> Role:
    if isinstance(message, ChatMessage):
        return _ROLES.get(message.role.lower(), "user")
    return _ROLES.get(message.type, "assistant")


def _speaker(message: BaseMessage) -> str | None:
    if _role(message) == "tool":
        return None  # the name of a tool is nobody's
    if isinstance(message, ChatMessage) and message.role.lower() not in _ROLES:
        return message.name or message.role
    return message.name


def _said_at(message: BaseMessage) -> datetime | None:
    with suppress(KeyError, TypeError, ValueError):
        return datetime.fromisoformat(message.additional_kwargs["timestamp"])
    return None


def _json(value: object) -> Json:
    """`value` as JSON; what JSON cannot say (a tool's artifact, NaN) becomes text or null."""
    text = json.dumps(value, ensure_ascii=False, skipkeys=True, default=_jsonable)
    plain: Json = json.loads(text, parse_constant=lambda _: None)
    return plain


def _jsonable(value: object) -> object:
    return value.model_dump() if isinstance(value, BaseModel) else str(value)


def _stored(turn: Turn) -> BaseMessage | None:
    match turn.payload:
        case {"type": str(kind), "data": dict(data)}:
            with suppress(KeyError, TypeError, ValueError):
                return messages_from_dict([{"type": kind, "data": data}])[0].model_copy(update={"id": turn.id})
    return None


def _plain(turn: Turn) -> BaseMessage:
    match turn.role:
        case "user":
            return HumanMessage(turn.content, id=turn.id, name=turn.speaker)
        case "assistant":
            return AIMessage(turn.content, id=turn.id, name=turn.speaker)
        case "system":
            return SystemMessage(turn.content, id=turn.id, name=turn.speaker)
        case "tool":
            return ToolMessage(turn.content, id=turn.id, tool_call_id=turn.id or "")
