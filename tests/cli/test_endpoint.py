"""Which model is talked to, and what is seen of the talk."""

from __future__ import annotations

import pytest

from sf_ams_core.cli.endpoint import Endpoint, open_endpoint
from sf_ams_core.cli.loopback import LoopbackServer, Message, memory_assistant
from sf_ams_core.rules.text import MEMORY_TAG
from sf_ams_core.types import Json

BLOCK = f"<{MEMORY_TAG}>\n- [mem_1] (fact, importance 0.8, 2026-01-05, user) Tea is at four.\n</{MEMORY_TAG}>"


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY", "OPENAI_MODEL"):
        monkeypatch.delenv(name, raising=False)


def ask(endpoint: Endpoint, *messages: Message, **more: Json) -> None:
    body = {"model": endpoint.model, "messages": [dict(message) for message in messages], **more}
    headers = {"Authorization": f"Bearer {endpoint.api_key}"}
    endpoint.http.post(f"{endpoint.base_url}/chat/completions", json=body, headers=headers)


def test_without_settings_nothing_leaves_the_machine() -> None:
    """The loopback server is the endpoint where the environment names none."""
    with open_endpoint() as endpoint:
        assert not endpoint.own
        assert endpoint.base_url.startswith("http://127.0.0.1:")


def test_a_key_alone_means_openai(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a key and no URL the endpoint is OpenAI's; the key is in no text about it."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-private")
    with open_endpoint() as endpoint:
        assert endpoint.own
        assert endpoint.base_url == "https://api.openai.com/v1"
        assert "sk-private" not in f"{endpoint!r} {endpoint.described}"


def test_a_url_alone_needs_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Local servers ask for no key; the model's name comes from the environment."""
    with LoopbackServer(memory_assistant, api_key="none") as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_MODEL", "tiny")
        with open_endpoint() as endpoint:
            ask(endpoint, {"role": "user", "content": "Hello"})
            assert (endpoint.own, endpoint.model, len(endpoint.prompts)) == (True, "tiny", 1)


def test_prompts_are_seen_as_they_were_sent() -> None:
    """Tokens are the server's; the block of the memory, the turns and the tools called are read off the prompt."""
    call: Json = {"id": "c", "type": "function", "function": {"name": "lookup", "arguments": "{}"}}
    with open_endpoint() as endpoint:
        ask(
            endpoint,
            {"role": "system", "content": f"Be brief.\n\n{BLOCK}"},
            {"role": "user", "content": "Good morning."},
            {"role": "assistant", "content": "Good morning!"},
            {"role": "user", "content": "When is tea?"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": "nothing"},
        )
        (prompt,) = endpoint.prompts
    assert prompt.block == BLOCK
    assert (prompt.turns, prompt.called, prompt.tool_tokens) == (2, ("lookup",), 0)
    assert prompt.tokens > 30


def test_a_refused_request_is_no_prompt() -> None:
    """Only what was answered counts."""
    with open_endpoint() as endpoint:
        ask(endpoint, {"role": "tool", "tool_call_id": "c", "content": "nobody asked"})
        assert endpoint.prompts == []
