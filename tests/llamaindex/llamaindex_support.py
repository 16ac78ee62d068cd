"""What the LlamaIndex tests share: whose memory it is, and a pretend model behind the real OpenAI client."""

from __future__ import annotations

from typing import Any, cast

import httpx
from llama_index.core.base.llms.types import ChatMessage
from llama_index.llms.openai_like import OpenAILike  # type: ignore[import-untyped]

from sf_ams_core.cli.loopback import LoopbackServer
from sf_ams_core.types import Scope

ANN = Scope("default", "ann")


class Model:
    """A pretend model: what it says, and what it was sent."""

    def __init__(self, server: LoopbackServer) -> None:
        self.server = server
        self._clients = httpx.Client(), httpx.AsyncClient()
        self.llm = OpenAILike(
            api_base=server.base_url,
            api_key="loopback",
            model="loopback",
            is_chat_model=True,
            is_function_calling_model=True,
            max_retries=0,
            http_client=self._clients[0],
            async_http_client=self._clients[1],
        )

    @property
    def prompts(self) -> list[list[Any]]:
        """The messages of every request so far."""
        return [list(cast("list[Any]", body["messages"])) for body in self.server.requests]

    async def close(self) -> None:
        """Hang up and stop the server."""
        self._clients[0].close()
        await self._clients[1].aclose()
        self.server.close()


def texts(messages: list[ChatMessage]) -> list[tuple[str, str]]:
    """Role and words of messages."""
    return [(message.role.value, message.content or "") for message in messages]
