"""Messages become turns and come back as they were; what nobody said becomes none."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_support import ANN

from sf_ams_core import MemoryEngine, Turn
from sf_ams_core.types import MAX_ID_CHARS
from sf_ams_langchain.messages import to_message, to_messages, to_turn, to_turns

CALL = {"name": "weather", "args": {"city": "Köln"}, "id": "call_1", "type": "tool_call"}
MESSAGES: list[tuple[BaseMessage, str]] = [
    (HumanMessage("我住在柏林", id="m1", name="Li"), "user"),
    (
        AIMessage("Noted.", id="m2", usage_metadata={"input_tokens": 3, "output_tokens": 1, "total_tokens": 4}),
        "assistant",
    ),
    (AIMessage("", id="m3", tool_calls=[CALL]), "assistant"),
    (ToolMessage("sunny", id="m4", tool_call_id="call_1", name="weather", artifact={"t": 21}), "tool"),
    (FunctionMessage(content="sunny", id="m5", name="weather"), "tool"),
    (SystemMessage("Be brief.", id="m6"), "system"),
    (ChatMessage(content="Ni hao", id="m7", role="assistant"), "assistant"),
    (ChatMessage(content="Hello", id="m8", role="developer"), "system"),
    (ChatMessage(content="Hello", id="m9", role="Ben"), "user"),
]


def turn_of(message: BaseMessage) -> Turn:
    """The turn of a message that somebody said."""
    turn = to_turn(message)
    assert turn is not None
    return turn


@pytest.mark.parametrize(("message", "role"), MESSAGES, ids=lambda value: getattr(value, "id", value))
def test_a_message_comes_back_as_it_was(engine: MemoryEngine, message: BaseMessage, role: str) -> None:
    """Through the store and back a message is equal to itself, whatever its kind."""
    turn = turn_of(message)
    assert turn.role == role
    engine.add_turns(ANN, "s", [turn])
    assert to_messages(engine.turns(ANN, "s")) == [message]


@given(st.text(), st.sampled_from([HumanMessage, AIMessage, SystemMessage]))
def test_any_text_round_trips(text: str, kind: type[BaseMessage]) -> None:
    """Words survive the way there and back."""
    message = kind(content=text, id="m")
    turn = to_turn(message)
    assert turn is None or to_message(turn) == message


def test_a_streamed_chunk_becomes_a_whole_message() -> None:
    """A turn made of chunks is rebuilt as a message, which any provider takes."""
    chunk = AIMessageChunk(content="Hel", id="c") + AIMessageChunk(content="lo", id="c")
    turn = turn_of(chunk)
    assert turn.content == "Hello"
    assert type(to_message(turn)) is AIMessage


def test_media_stay_in_the_payload() -> None:
    """What is searched is text alone; an encoded picture is only in the payload, unchanged."""
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 5000}}
    content: list[str | dict[Any, Any]] = [{"type": "text", "text": "I love hiking"}, picture]
    turn = turn_of(HumanMessage(content, id="m"))
    assert turn.content == "I love hiking"
    assert to_message(turn).content == content


@pytest.mark.parametrize("content", ["", "  ", []])
def test_messages_without_words_are_turns(content: Any) -> None:
    """Blank content is a turn all the same."""
    assert to_turn(HumanMessage(content)) is not None


def test_a_missing_id_is_made_and_kept() -> None:
    """A message without an id gets one, and its rebuilt self carries it."""
    turn = turn_of(HumanMessage("hi"))
    assert turn.id
    assert to_message(turn).id == turn.id
    assert turn_of(to_message(turn)).id == turn.id


def test_a_long_id_is_shortened_the_same_way_each_time() -> None:
    """Ids that a provider makes longer than the store takes stay idempotent."""
    first, second = turn_of(HumanMessage("hi", id="x" * 400)), turn_of(HumanMessage("hi", id="x" * 400))
    assert first.id == second.id
    assert len(first.id or "") <= MAX_ID_CHARS


@pytest.mark.parametrize(
    ("timestamp", "at"),
    [
        ("2026-01-05T09:00:00+00:00", datetime(2026, 1, 5, 9, tzinfo=UTC)),
        ("yesterday", None),
        (1_700_000_000, None),
    ],
)
def test_a_timestamp_says_when(timestamp: object, at: datetime | None) -> None:
    """An ISO timestamp beside the message is when it was said; anything else is ignored."""
    assert turn_of(HumanMessage("hi", additional_kwargs={"timestamp": timestamp})).at == at


def test_names_are_speakers_but_a_tool_is_nobody() -> None:
    """A name is who spoke; a role that is no role of the protocol is a person; the name of a tool is not."""
    messages = [
        HumanMessage("hi", name="Ann"),
        ChatMessage(content="hi", role="Ben"),
        ToolMessage("21", tool_call_id="c", name="weather"),
    ]
    assert [turn.speaker for turn in to_turns(messages)] == ["Ann", "Ben", None]


@pytest.mark.parametrize(
    "message",
    [
        SystemMessage("known", additional_kwargs={"sf_ams": "injected"}),
        HumanMessage("<sf-ams-memory>\n- [mem_1] x\n</sf-ams-memory>"),
        HumanMessage("Here is a summary", additional_kwargs={"lc_source": "summarization"}),
        HumanMessage("Task 7 finished", additional_kwargs={"lc_source": "async_subagent"}),
        RemoveMessage(id="m1"),
    ],
)
def test_what_nobody_said_is_no_turn(message: BaseMessage) -> None:
    """Injected blocks, summaries, notices and commands are never taken in."""
    assert to_turn(message) is None


def test_a_tool_exchange_is_never_torn() -> None:
    """A result that repeats memories is kept for its call, but its words are not searched."""
    call = AIMessage("", tool_calls=[{**CALL, "name": "recall_memories"}], id="a")
    fenced = ToolMessage("<sf-ams-memory>\n- [mem_1] x\n</sf-ams-memory>", tool_call_id="call_1", id="t")
    own = ToolMessage("Saved as [mem_2].", tool_call_id="call_1", name="save_memory", id="u")
    turns = to_turns([call, fenced, own])
    assert [(turn.id, turn.content) for turn in turns] == [("a", ""), ("t", ""), ("u", "")]
    assert to_messages(turns) == [call, fenced, own]


def test_a_payload_is_json_whatever_a_tool_returned() -> None:
    """An artifact that is no JSON becomes text, a number that is none becomes null."""
    turn = turn_of(ToolMessage("done", tool_call_id="c", artifact={"when": datetime(2026, 1, 5), "n": float("nan")}))
    json.dumps(turn.payload, allow_nan=False)
    rebuilt = to_message(turn)
    assert isinstance(rebuilt, ToolMessage)
    assert rebuilt.artifact["n"] is None


def test_turns_of_other_frameworks_come_as_role_and_words() -> None:
    """What LangChain did not write is rebuilt from its words, without calls that nothing here could match."""
    turns = [
        Turn("user", "hi", id="1", payload={"role": "user", "blocks": []}),
        Turn("assistant", "", id="2", payload={"tool_calls": []}),
        Turn("tool", "21", id="3"),
        Turn("assistant", "hello", id="4", payload={"type": "nonsense", "data": {}}),
        Turn("system", "Be brief.", id="5"),
    ]
    assert to_messages(turns) == [
        HumanMessage("hi", id="1"), AIMessage("hello", id="4"), SystemMessage("Be brief.", id="5"),
    ]  # fmt: skip
