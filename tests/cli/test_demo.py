"""The demo, run as a newcomer runs it: real frameworks, real HTTP, one memory, and numbers that were measured."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from sf_ams_core import MemoryEngine, Scope
from sf_ams_core.cli.app import app
from sf_ams_core.cli.loopback import ApiError, ChatReply, ChatRequest, LoopbackServer
from sf_ams_core.types import State

WHOSE = Scope("demo", "alex", "stellar-ai")
Played = dict[str, Any]


def run(*arguments: str, text: str = "") -> Result:
    return CliRunner().invoke(app, ["demo", "--embedder", "hash", *arguments], input=text, terminal_width=100)


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("demo") / "demo.db")


@pytest.fixture(scope="module")
def played(db: str) -> Iterator[Played]:
    """The whole demo as JSON, over a database that stays; no model of the machine's owner is asked."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY", "OPENAI_MODEL"):
            patch.delenv(name, raising=False)
        result = run("--json", "--db", db)
        assert (result.exit_code, result.stderr) == (0, "")
        yield json.loads(result.stdout)


def test_most_questions_are_answered_rightly(played: Played) -> None:
    """The assistant knows nothing but its prompt, so nine of ten right answers are the memory's."""
    assert played["model"] == {"name": "loopback", "own": False}
    assert played["asked"] >= 30
    assert played["right"] >= 0.9 * played["asked"], played["wrong"]
    assert len(played["wrong"]) == played["asked"] - played["right"]


def test_both_frameworks_take_part(played: Played) -> None:
    """LangChain tells the story, LlamaIndex carries on, and both answer from the same memory."""
    langchain, llamaindex = played["frameworks"]["LangChain"], played["frameworks"]["LlamaIndex"]
    assert langchain["steps"] > 60
    assert llamaindex["steps"] > 12
    for framework in (langchain, llamaindex):
        assert framework["right"] >= 0.8 * framework["asked"]


def test_the_agent_uses_its_memory_tools(played: Played) -> None:
    """Orders and corrections of the user go through the tools of the middleware."""
    tools = played["frameworks"]["LangChain"]["tools"]
    assert {"save_memory", "forget_memory", "correct_memory", "recall_memories"} <= set(tools)


def test_what_changed_is_superseded(played: Played) -> None:
    """A corrected number and a moved date retire what was said before."""
    old = {words for words, _ in played["superseded"]}
    assert "The budget for the whole project is 45,000 euros." in old
    assert "The final demo of Stellar AI is due on 27 October." in old


def test_what_the_user_takes_back_is_let_go(played: Played) -> None:
    """The words that were not meant for the assistant are out of its memory."""
    assert any("surprise party" in words for words in played["released"])


def test_forgetting_is_undone_and_done_again(played: Played) -> None:
    """A plan is applied, taken back whole, and applied again; the counts say so."""
    done = played["forgetting"]
    assert done["planned"] == done["applied"] == done["undone"] == done["applied_again"] > 0
    stats = done["stats"]
    assert stats["before"] == stats["undone"]
    assert stats["after"] == stats["again"]
    assert stats["after"]["active"] == stats["before"]["active"] - done["applied"]
    assert stats["after"]["characters"] < stats["before"]["characters"]


def test_memory_costs_less_than_history(played: Played) -> None:
    """All prompts together took fewer tokens than the whole history would have, and the last one by far."""
    tokens = played["tokens"]
    assert tokens["sent"] < tokens["history"]
    assert tokens["last"] < 0.5 * tokens["last_history"]
    parts = [framework["tokens"] for framework in played["frameworks"].values()]
    assert tokens["sent"] == sum(part["sent"] for part in parts)


def test_who_asks_to_be_erased_is_gone(played: Played, db: str) -> None:
    """The receipt found nothing, and neither does anybody who opens the database."""
    erased = played["erasure"]
    assert erased["erased"] > 0
    assert set(erased["checked"].values()) == {0}
    assert erased["still_found"] == 0
    with MemoryEngine.open(f"sqlite:///{db}", embedder="hash") as engine:
        held = engine.list(WHOSE, include=tuple(State))
    assert held
    assert not any(erased["identifier"] in memory.content for memory in held)


def test_a_second_demo_does_not_mix_with_the_first(played: Played, db: str) -> None:
    """A database that holds a demo is refused in one line."""
    result = run("--db", db)
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "--db" in result.stderr


@pytest.fixture
def own_model(monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackServer]:
    """An endpoint of the user's own, whose model never knows anything."""

    def blank(request: ChatRequest) -> ChatReply:
        return ChatReply("I have no idea, nobody told me.")

    with LoopbackServer(blank, strict_system=True, api_key="secret-key") as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "secret-key")
        monkeypatch.setenv("OPENAI_MODEL", "mine")
        yield server


def test_the_users_own_model_is_asked(own_model: LoopbackServer) -> None:
    """With an endpoint in the environment that one answers; wrong answers are told, and are no failure of the demo."""
    result = run("--quick")
    assert result.exit_code == 0
    assert own_model.base_url in result.stdout
    assert "secret-key" not in result.stdout
    assert {body["model"] for body in own_model.requests} == {"mine"}
    assert "✗" in result.stdout


def test_it_is_told_to_people(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without --json every act has its heading, and --pause waits after each session."""
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    result = run("--quick", "--pause", text="\n" * 20)
    assert result.exit_code == 0
    for act in ("Day 1", "Day 18", "forgetting", "asks to be erased", "What it cost", "whole history"):
        assert act in result.stdout
    assert result.stdout.count("Enter to go on") == 12


def test_a_model_that_fails_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """A refusal of the model ends the demo with exit code 2 and without a trace."""

    def refuse(request: ChatRequest) -> ChatReply:
        raise ApiError("no such model")

    with LoopbackServer(refuse) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "loopback")
        result = run("--json")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1
    assert "400" in result.stderr
