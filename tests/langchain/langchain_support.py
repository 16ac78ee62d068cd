"""What the tests of this folder share: whose memory, a pretend model, and what was said to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from langchain_core.messages import BaseMessage
from langchain_openai import ChatOpenAI

from sf_ams_core import Scope
from sf_ams_core.cli.loopback import LoopbackServer

ANN = Scope("default", "ann")


class Model:
    """A pretend model behind the real client: `llm`, and the prompts it was sent."""

    def __init__(self, server: LoopbackServer) -> None:
        self._server = server
        self.llm = ChatOpenAI(base_url=server.base_url, api_key="loopback", model="loopback", max_retries=0)

    @property
    def prompts(self) -> list[list[dict[str, Any]]]:
        """The messages of every request so far, in OpenAI's form."""
        return [list(cast("list[dict[str, Any]]", body["messages"])) for body in self._server.requests]


def said(messages: Sequence[BaseMessage]) -> list[tuple[str, str]]:
    """Type and words of messages."""
    return [(message.type, str(message.text)) for message in messages]


def words_of(prompt: Sequence[dict[str, Any]]) -> str:
    """All words of a prompt in OpenAI's form."""
    contents = [message.get("content") or "" for message in prompt]
    return "\n".join(c if isinstance(c, str) else "".join(part.get("text", "") for part in c) for c in contents)
