"""Which model is talked to, and what really goes over the line.

The user's own endpoint where `OPENAI_BASE_URL` or `OPENAI_API_KEY` is set, else a loopback server in this process. The
same HTTP client serves LangChain and LlamaIndex, so prompts and their token counts are seen as they were sent.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..errors import MissingExtra
from ..rules.text import MEMORY_TAG
from ..rules.tokens import count_tokens
from .assistant import memory_assistant
from .loopback import LoopbackServer
from .protocol import ChatRequest, Message, calls_of, mapping, read_request, text_of

if TYPE_CHECKING:
    import httpx

_KEY = "loopback"
_OPENAI = "https://api.openai.com/v1"
_MODEL = "gpt-4o-mini"
_TIMEOUT = 60.0  # seconds an answer may take


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt as it was sent, with the tokens it was charged with (our own count where a server tells none)."""

    request: ChatRequest
    tokens: int

    @property
    def tool_tokens(self) -> int:
        """How many of them describe tools, by our own counter."""
        return self.request.tool_tokens(count_tokens)

    @property
    def block(self) -> str:
        """What the memory put into it, fences included; "" where there is nothing."""
        said = "\n".join(text_of(message) for message in self.request.messages if message["role"] != "tool")
        start, end = said.find(f"<{MEMORY_TAG}"), f"</{MEMORY_TAG}>"
        return said[start : said.index(end, start) + len(end)] if start >= 0 and end in said[start:] else ""

    @property
    def turns(self) -> int:
        """How many messages of the session it carries besides the one that asks."""
        spoken = [m for m in self.request.messages if m["role"] in ("user", "assistant") and text_of(m)]
        return max(0, len(spoken) - 1)

    @property
    def called(self) -> tuple[str, ...]:
        """The tools that were called since the user spoke."""
        messages = self.request.messages
        asked = max((place for place, message in enumerate(messages) if message["role"] == "user"), default=0)
        calls = (call for message in messages[asked:] for call in calls_of(message))
        return tuple(str(mapping(call.get("function")).get("name")) for call in calls)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An OpenAI-compatible endpoint; `own` is the user's. `prompts` grows with every answered request."""

    base_url: str
    api_key: str = field(repr=False)
    model: str
    own: bool
    http: httpx.Client = field(repr=False)
    prompts: list[Prompt] = field(default_factory=list, repr=False)

    @property
    def described(self) -> str:
        """What to tell the user about it."""
        if self.own:
            return f"{self.model} at {self.base_url}"
        return "the loopback assistant (rules, offline; it knows nothing but its prompt)"


@contextmanager
def open_endpoint() -> Iterator[Endpoint]:
    """The user's endpoint, else a loopback server with `memory_assistant`. Raises MissingExtra."""
    url, key = os.environ.get("OPENAI_BASE_URL"), os.environ.get("OPENAI_API_KEY")
    if url or key:
        with _client() as http:
            model = os.environ.get("OPENAI_MODEL") or _MODEL
            yield _watched(Endpoint(url or _OPENAI, key or "none", model, True, http))
    else:
        with LoopbackServer(memory_assistant, api_key=_KEY) as server, _client() as http:
            yield _watched(Endpoint(server.base_url, _KEY, "loopback", False, http))


def _client() -> httpx.Client:
    try:
        import httpx
    except ModuleNotFoundError:
        raise MissingExtra("openai", "openai") from None
    return httpx.Client(timeout=_TIMEOUT)


def _watched(endpoint: Endpoint) -> Endpoint:
    """The endpoint with a hook that keeps each prompt that was answered."""

    def keep(response: httpx.Response) -> None:
        if response.is_success and response.request.method == "POST":
            response.read()
            endpoint.prompts.append(_prompt(json.loads(response.request.content), response.json()))

    endpoint.http.event_hooks = {"response": [keep]}
    return endpoint


def _prompt(body: Message, answer: Message) -> Prompt:
    request = read_request(body, strict_system=False)
    usage = answer.get("usage")
    charged = usage.get("prompt_tokens") if isinstance(usage, dict) else None
    return Prompt(request, charged if isinstance(charged, int) else request.tokens(count_tokens))
