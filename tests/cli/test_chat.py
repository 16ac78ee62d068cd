"""Talking in the terminal, with the input piped in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sf_ams_core import MemoryEngine, Scope
from sf_ams_core.cli.app import app
from sf_ams_core.cli.loopback import ApiError, ChatReply, ChatRequest, LoopbackServer

Chat = Callable[..., str]


@pytest.fixture
def db(tmp_path: Path) -> str:
    return str(tmp_path / "chat.db")


@pytest.fixture
def chat(db: str, monkeypatch: pytest.MonkeyPatch) -> Chat:
    """Says lines to `sf-ams chat` and gives what it printed; it must end well."""
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)

    def say(*lines: str, session: str = "s1") -> str:
        arguments = ["chat", "--db", db, "--user", "kim", "--session", session, "--embedder", "hash"]
        result = CliRunner().invoke(app, arguments, input="".join(f"{line}\n" for line in lines), terminal_width=120)
        assert (result.exit_code, result.stderr) == (0, "")
        return result.stdout

    return say


def test_the_first_line_says_who_answers(chat: Chat) -> None:
    """Without an endpoint of the user's own it is said plainly that no model answers."""
    assert "loopback assistant" in chat().splitlines()[0]


def test_it_remembers_across_sessions(chat: Chat) -> None:
    """What was said in one session answers a question in the next, in either language."""
    chat("My dentist is Doctor Aas in Bergen.", "我最喜欢喝绿茶。", session="monday")
    said = chat("Who is my dentist?", "我喜欢喝什么？", session="tuesday")
    assert "As far as I know: My dentist is Doctor Aas in Bergen." in said
    assert "据我所知：我最喜欢喝绿茶。" in said


def test_a_session_goes_on(chat: Chat) -> None:
    """A session that is named again carries its earlier turns."""
    chat("The code word is lighthouse.")
    said = chat("Thanks.", "/why")
    assert "2 earlier turns" in said


def test_why_shows_scores(chat: Chat) -> None:
    """/why shows what was recalled for the last answer with the parts of its score."""
    chat("My dentist is Doctor Aas in Bergen.", session="monday")
    said = chat("Who is my dentist?", "/why", session="tuesday")
    assert "own_words" in said
    assert " = " in said


def test_why_without_a_recall(chat: Chat) -> None:
    """/why before anything was said says that nothing was recalled."""
    assert "Nothing was recalled" in chat("/why")


def test_memories_are_listed(chat: Chat) -> None:
    """/memories shows what is kept, and counts what is only remarks."""
    said = chat("My name is Kim and I live in Bergen.", "Hello!", "/memories")
    assert "My name is Kim and I live in Bergen." in said.split("importance")[-1]
    assert "word for word" in said


def test_forgetting_is_asked_for_done_and_undone(chat: Chat, db: str) -> None:
    """/forget shows its plan and waits for a yes; /undo brings everything back."""
    said = chat("Hello there.", "I live in Bergen.", "It rains.", "Good.", "Fine.", "/forget", "y", "/undo", "/undo")
    assert "least worth keeping" in said
    assert "forgotten; /undo" in said
    assert "came back" in said
    assert "Nothing was forgotten in this chat" in said
    with MemoryEngine.open(f"sqlite:///{db}", embedder="hash") as engine:
        assert engine.stats(Scope("default", "kim")).cold == 0


@pytest.mark.parametrize("answer", ["n", "", "what?"])
def test_forgetting_needs_a_yes(chat: Chat, db: str, answer: str) -> None:
    """Anything but a yes forgets nothing."""
    said = chat("Hello there.", "I live in Bergen.", "It rains.", "Good.", "Fine.", "/forget", answer)
    assert "Nothing was forgotten" in said
    with MemoryEngine.open(f"sqlite:///{db}", embedder="hash") as engine:
        assert engine.stats(Scope("default", "kim")).cold == 0


def test_nothing_to_forget(chat: Chat) -> None:
    """/forget in an empty memory says so."""
    assert "nothing to forget" in chat("/forget")


def test_unknown_commands_show_the_known(chat: Chat) -> None:
    """A word with a slash that means nothing is not said to the agent."""
    said = chat("/frobnicate")
    assert "/why" in said
    assert "Got it" not in said


def test_the_end_closes_the_session(chat: Chat) -> None:
    """/quit and the end of the input both end the session and say what is kept."""
    assert "Session s1 is closed, its summary is kept" in chat("I live in Bergen.", "/quit", "I live in Oslo.")
    assert "is closed" in chat("I work in Bergen.")
    assert "Oslo" not in chat("Where do I live?", session="s2")


def test_a_chat_in_which_nothing_is_said(chat: Chat) -> None:
    """Leaving at once closes nothing and is no error."""
    assert "closed" not in chat("", "  ", "/quit")


def test_a_model_that_fails_does_not_end_the_chat(db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A refusal of the user's own model is told in the chat, which goes on."""
    failures = [ApiError("overworked")]

    def moody(request: ChatRequest) -> ChatReply:
        if failures:
            raise failures.pop()
        return ChatReply("Here I am again.")

    with LoopbackServer(moody, api_key="mine") as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "mine")
        result = CliRunner().invoke(
            app, ["chat", "--db", db, "--embedder", "hash"], input="Hello.\nAre you there?\n", terminal_width=120
        )
    assert result.exit_code == 0
    assert server.base_url in result.stdout.splitlines()[0]
    assert "the model did not answer" in result.stdout
    assert "Here I am again." in result.stdout
