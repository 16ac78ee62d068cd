"""The OpenAI chat protocol as values: requests, replies, and what makes a history valid.

Histories that providers would refuse are refused here too: a result without its call, a call without its result.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeAlias

from ..types import Json

Message: TypeAlias = Mapping[str, Json]

_SYSTEM = ("system", "developer")


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that the model asks for; `arguments` become its JSON."""

    name: str
    arguments: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class ChatReply:
    """What a responder says: text, calls of tools, or both."""

    content: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A valid request: OpenAI messages in order, and the tools that may be called (none with `tool_choice: none`)."""

    messages: tuple[Message, ...]
    tools: tuple[Message, ...] = ()
    model: str = "loopback"

    def tool(self, name: str) -> Message | None:
        """The function object (name, description, parameters) of the tool `name`; None where it is not offered."""
        functions = (mapping(tool.get("function")) for tool in self.tools)
        return next((function for function in functions if function.get("name") == name), None)

    def tokens(self, count: Callable[[str], int]) -> int:
        """The tokens of texts, calls and offered tools, each by `count`."""
        calls = [dumps(call) for message in self.messages for call in calls_of(message)]
        return sum(map(count, [*map(text_of, self.messages), *calls])) + self.tool_tokens(count)

    def tool_tokens(self, count: Callable[[str], int]) -> int:
        """The tokens of the descriptions of the offered tools alone."""
        return sum(count(dumps(tool)) for tool in self.tools)


Responder: TypeAlias = Callable[[ChatRequest], ChatReply]


class ApiError(Exception):
    """An answer in OpenAI's error form; a responder may raise it to play a model that fails (`status` 429, 500 …)."""

    def __init__(self, message: str, param: str | None = None, *, status: int = 400, code: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        kind = "invalid_request_error" if status < 429 else "server_error"
        self.body: Message = {"error": {"message": message, "type": kind, "param": param, "code": code}}


def parse(raw: bytes) -> Message:
    """The body of a request; raises ApiError where it is not a JSON object that names a model."""
    with suppress(ValueError):
        body = json.loads(raw)
        if isinstance(body, dict) and isinstance(body.get("model"), str):
            return body
    raise ApiError("Expected a JSON object with a model.", "model")


def read_request(body: Message, *, strict_system: bool) -> ChatRequest:
    """The request in `body`; raises ApiError where the real API would answer 400."""
    raw = body.get("messages")
    if not isinstance(raw, list) or not raw:
        raise ApiError("Invalid 'messages': expected a non-empty array.", "messages", code="empty_array")
    messages = tuple(_check_message(f"messages.[{place}]", mapping(message)) for place, message in enumerate(raw))
    _check_order(messages)
    systems = [place for place, message in enumerate(messages) if message["role"] in _SYSTEM]
    if strict_system and systems not in ([], [0]):
        raise ApiError("System message must be at the beginning.", f"messages.[{systems[-1]}].role")
    return ChatRequest(messages, _offered(body), str(body["model"]))


def _check_message(where: str, message: Message) -> Message:
    role, content, calls = message.get("role"), message.get("content"), calls_of(message)
    if role not in (*_SYSTEM, "user", "assistant", "tool"):
        raise ApiError(f"Invalid role: {role!r}.", f"{where}.role", code="invalid_value")
    if message.get("tool_calls") is not None and not (calls and all(map(_is_call, calls))):
        raise ApiError("Invalid 'tool_calls': expected a non-empty array of calls.", f"{where}.tool_calls")
    silent = content is None and role == "assistant" and calls
    if not (silent or isinstance(content, str) or _is_parts(content)):
        raise ApiError("Invalid content: expected a string or parts.", f"{where}.content", code="invalid_type")
    return message


def _is_parts(content: Json) -> bool:
    kinds = [mapping(part).get("type") for part in content] if isinstance(content, list) else []
    return bool(kinds) and all(kind in ("text", "image_url", "input_audio", "file", "refusal") for kind in kinds)


def _is_call(call: Message) -> bool:
    function = mapping(call.get("function"))
    return all(isinstance(text, str) for text in (call.get("id"), function.get("name"), function.get("arguments")))


def _check_order(messages: Sequence[Message]) -> None:
    """Each call is answered once, before anything else is said; raises ApiError otherwise."""
    waiting: set[str] = set()
    for place, message in enumerate((*messages, {"role": "end"})):
        where = f"messages.[{place}].role"
        if message["role"] == "tool":
            answered = str(message.get("tool_call_id"))
            if answered not in waiting:
                raise ApiError("A 'tool' message must answer a preceding message with 'tool_calls'.", where)
            waiting.remove(answered)
        elif waiting:
            raise ApiError(f"These 'tool_calls' have no response messages: {', '.join(sorted(waiting))}.", where)
        else:
            ids = [str(call["id"]) for call in calls_of(message)]
            waiting = set(ids)
            if len(waiting) < len(ids):
                raise ApiError("Two 'tool_calls' share an id.", where)


def _offered(body: Message) -> tuple[Message, ...]:
    raw, choice = body.get("tools"), body.get("tool_choice")
    tools = tuple(mapping(tool) for tool in raw) if isinstance(raw, list) else ()
    if not all(isinstance(mapping(tool.get("function")).get("name"), str) for tool in tools):
        raise ApiError("Invalid 'tools': each needs a function with a name.", "tools")
    if isinstance(choice, dict):
        chosen = mapping(choice.get("function")).get("name")
        tools = tuple(tool for tool in tools if mapping(tool["function"])["name"] == chosen)
    if choice not in (None, "auto", "none") and not tools:
        raise ApiError("Invalid 'tool_choice': no such tool was offered.", "tool_choice")
    return () if choice == "none" else tools


def text_of(message: Message) -> str:
    """The text of a message; of content parts those that are text."""
    content = message.get("content")
    if isinstance(content, list):
        return "\n".join(str(text) for part in content if (text := mapping(part).get("text")) is not None)
    return content if isinstance(content, str) else ""


def calls_of(message: Message) -> list[Message]:
    """The tool calls of a message."""
    calls = message.get("tool_calls")
    return [mapping(call) for call in calls] if isinstance(calls, list) else []


def mapping(value: Json) -> Message:
    """`value` where it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def dumps(value: Json | Message) -> str:
    """JSON text, letters as they are."""
    return json.dumps(value, ensure_ascii=False)
