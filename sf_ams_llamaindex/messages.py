"""ChatMessage and Turn, both ways.

A turn's content is what was said; its payload is the whole message (blocks, tool calls, media, extra arguments), so
that what comes back is what went in. What this library put into a prompt never comes back in: `storable` takes it out.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import cast

from llama_index.core.base.llms.types import (
    ChatMessage,
    ContentBlock,
    MessageRole,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from pydantic_core import to_jsonable_python

from sf_ams_core.clock import as_utc
from sf_ams_core.errors import InvalidInput
from sf_ams_core.rules.rendering import is_injected
from sf_ams_core.rules.text import MEMORY_HEADER_EN, MEMORY_HEADER_ZH, MEMORY_TAG
from sf_ams_core.types import Json, Role, Turn, check_id

TAG = "sf_ams"  # in additional_kwargs
INJECTED = "injected"

_ROLES: Mapping[MessageRole, Role] = {
    MessageRole.USER: "user",
    MessageRole.ASSISTANT: "assistant",
    MessageRole.CHATBOT: "assistant",
    MessageRole.MODEL: "assistant",
    MessageRole.TOOL: "tool",
    MessageRole.FUNCTION: "tool",
    MessageRole.SYSTEM: "system",
    MessageRole.DEVELOPER: "system",
}
# A fence that was cut off runs to the end of the text: half of a memory is a memory too.
_MEMORY = re.compile(
    rf"<{MEMORY_TAG}.*?(?:</{MEMORY_TAG}>|\Z)|{re.escape(MEMORY_HEADER_EN)}|{re.escape(MEMORY_HEADER_ZH)}", re.DOTALL
)
_REASONING = re.compile(r"\s*(?:Thought|Action|Observation):")
_ANSWER = "Answer:"
_BYTES = "$base64"
_DEPTH = 30  # levels of a payload; the engine takes 32


def to_turn(message: ChatMessage) -> Turn:
    """A message as a turn.

    The id is `additional_kwargs["id"]` or `["message_id"]` where that can be one, else None (the engine makes it);
    the speaker is `["name"]` of a user or assistant, the time the ISO string `["timestamp"]`. Of a ReAct agent's
    reasoning the content is the final answer.
    """
    role = _ROLES[message.role]
    extra = message.additional_kwargs
    return Turn(
        role,
        # A tool that recalls memories answers with our block: the payload has it, but nobody said it.
        _without_block(_said(message.content or "", role)),
        id=_identifier(extra.get("id")) or _identifier(extra.get("message_id")),
        speaker=_speaker(extra.get("name"), role),
        at=_moment(extra.get("timestamp")),
        payload=_payload(message),
    )


def from_turn(turn: Turn) -> ChatMessage:
    """A new message equal to the one the turn was made of; of a turn that came another way, role and words."""
    if _is_ours(turn.payload):
        try:
            return ChatMessage.model_validate(_with_bytes(turn.payload))
        except ValueError:
            pass  # written by another version of the framework, or a file it points to is gone
    return ChatMessage(role=MessageRole(turn.role), content=turn.content)


def from_turns(turns: Iterable[Turn]) -> list[ChatMessage]:
    """New messages for turns, without tool traffic that another framework stored in a form of its own."""
    return [from_turn(turn) for turn in turns if _is_ours(turn.payload) or (turn.role != "tool" and turn.content)]


def storable(messages: Iterable[ChatMessage]) -> list[ChatMessage]:
    """The messages, or copies of them, without anything that this library put into a prompt.

    A tagged message is left out whole, and so is one that held nothing but our block; a tool's result stays as it is
    because its call would be orphaned.
    """
    return [kept for message in messages if (kept := _without_memory(message)) is not None]


def injected(text: str, role: MessageRole) -> ChatMessage:
    """The memory block as a message of its own, tagged so that it is known again."""
    return ChatMessage(role=role, content=text, additional_kwargs={TAG: INJECTED})


def with_memory(message: ChatMessage, text: str) -> ChatMessage:
    """A copy of a message with the memory block before its own words."""
    return message.model_copy(update={"blocks": [TextBlock(text=f"{text}\n\n"), *message.blocks]})


def words(message: ChatMessage) -> str:
    """What a model reads of a message as text: words, reasoning and tool calls; media is not counted."""
    parts = [_block_words(block) for block in message.blocks]
    if not any(isinstance(block, ToolCallBlock) for block in message.blocks):
        calls = message.additional_kwargs.get("tool_calls")
        parts.append(_dumps(_json(calls)) if calls else "")
    return "\n".join(part for part in parts if part)


def _block_words(block: ContentBlock) -> str:
    match block:
        case TextBlock():
            return block.text
        case ThinkingBlock():
            return block.content or ""
        case ToolCallBlock():
            arguments = block.tool_kwargs
            return f"{block.tool_name} {arguments if isinstance(arguments, str) else _dumps(arguments)}"
    return ""


def _dumps(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _said(text: str, role: Role) -> str:
    if role == "assistant" and _REASONING.match(text) and _ANSWER in text:
        return text.rpartition(_ANSWER)[2].strip()
    return text


def _identifier(value: object) -> str | None:
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    try:
        return check_id(value, "message id")
    except InvalidInput:
        return None


def _speaker(value: object, role: Role) -> str | None:
    # The `name` of a tool message is the tool's.
    if role not in ("user", "assistant") or not isinstance(value, str):
        return None
    return value.strip() or None


def _moment(value: object) -> datetime | None:
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else value
        return as_utc(moment) if isinstance(moment, datetime) else None
    except (ValueError, OverflowError):
        return None


def _payload(message: ChatMessage) -> Json:
    try:
        dumped = message.model_dump()
        # Images of the old form were made blocks when the message was built, and would be added once more.
        dumped["additional_kwargs"].pop("images", None)
        return _json(_plain(dumped, _DEPTH))
    except (ValueError, RecursionError):
        # Extra arguments that cannot be written are no reason to lose the words.
        return _json({"role": message.role, "additional_kwargs": {}, "blocks": [TextBlock(text=message.content or "")]})


def _json(value: object) -> Json:
    return cast(Json, to_jsonable_python(value, serialize_unknown=True, inf_nan_mode="null"))


def _is_ours(payload: Json) -> bool:
    return isinstance(payload, dict) and "blocks" in payload and "role" in payload


def _plain(value: object, room: int) -> object:
    """Bytes as ASCII text where they are that (media is base64 already), else tagged as base64; what lies deeper than
    `room` levels as text."""
    match value:
        case bytes():
            return value.decode() if value.isascii() else {_BYTES: base64.b64encode(value).decode()}
        case dict() | list() if not room:
            return _dumps(value)
        case dict():
            return {key: _plain(item, room - 1) for key, item in value.items()}
        case list():
            return [_plain(item, room - 1) for item in value]
    return value


def _with_bytes(value: Json) -> object:
    match value:
        case {"$base64": str(encoded), **rest} if not rest:
            return base64.b64decode(encoded)
        case dict():
            return {key: _with_bytes(item) for key, item in value.items()}
        case list():
            return [_with_bytes(item) for item in value]
    return value


def _without_memory(message: ChatMessage) -> ChatMessage | None:
    if message.additional_kwargs.get(TAG) == INJECTED:
        return None
    if _ROLES[message.role] == "tool" or not is_injected(message.content or ""):
        return message
    blocks = _cleaned(message.blocks)
    if not blocks and not message.additional_kwargs.get("tool_calls"):
        return None
    return message.model_copy(update={"blocks": blocks})


def _cleaned(blocks: Sequence[ContentBlock]) -> list[ContentBlock]:
    kept: list[ContentBlock] = []
    for block in blocks:
        if not isinstance(block, TextBlock) or not is_injected(block.text):
            kept.append(block)
        elif text := _without_block(block.text):
            kept.append(TextBlock(text=text))
    return kept


def _without_block(text: str) -> str:
    return _MEMORY.sub("", text).strip() if is_injected(text) else text
