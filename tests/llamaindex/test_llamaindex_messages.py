"""Messages and turns, both ways."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llama_index.core.base.llms.types import (
    AudioBlock,
    ChatMessage,
    DocumentBlock,
    ImageBlock,
    MessageRole,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)

from sf_ams_core.rules.rendering import is_injected
from sf_ams_core.rules.text import MEMORY_HEADER_EN, MEMORY_HEADER_ZH
from sf_ams_core.types import Json, Turn
from sf_ams_llamaindex.messages import from_turn, from_turns, injected, storable, to_turn, with_memory, words

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
BLOCK = f"<sf-ams-memory>\n{MEMORY_HEADER_EN}\n- [mem_1] (fact) likes tea\n</sf-ams-memory>"

MESSAGES = {
    "text": ChatMessage("I like tea", role="user"),
    "chinese": ChatMessage("我喜欢喝茶", role="user"),
    "empty": ChatMessage(role="assistant"),
    "blank text": ChatMessage("", role="assistant"),
    "tool call": ChatMessage(
        role="assistant",
        blocks=[
            TextBlock(text="let me look"),
            ToolCallBlock(tool_call_id="c1", tool_name="add", tool_kwargs={"b": 2, "a": 1}),
            ToolCallBlock(tool_call_id="c2", tool_name="add", tool_kwargs='{"a": 3}'),
        ],
    ),
    "tool result": ChatMessage("3", role="tool", additional_kwargs={"tool_call_id": "c1", "name": "add"}),
    "picture": ChatMessage(role="user", blocks=[TextBlock(text="look"), ImageBlock(image=PNG, detail="low")]),
    "picture by address": ChatMessage(role="user", blocks=[ImageBlock(url="https://example.org/cat.png")]),
    "sound": ChatMessage(role="user", blocks=[AudioBlock(audio=b"RIFF\x00\xff", format="wav")]),
    "document": ChatMessage(role="user", blocks=[DocumentBlock(data=b"%PDF-\xff\x00", title="plan.pdf")]),
    "reasoning": ChatMessage(
        role="assistant",
        blocks=[
            ThinkingBlock(content="hm", additional_information={"signature": b"\x00\xff\x80", "n": 1}),
            TextBlock(text="yes"),
        ],
    ),
    "extras": ChatMessage("hi", role="user", additional_kwargs={"id": "m1", "nested": [1, None, {"a": "猫"}]}),
    "developer": ChatMessage("be brief", role="developer"),
}


@pytest.mark.parametrize("message", MESSAGES.values(), ids=MESSAGES.keys())
def test_a_message_comes_back_equal_through_json(message: ChatMessage) -> None:
    """A message rebuilt from its turn, after the payload went through JSON, equals the message."""
    turn = to_turn(message)
    stored = json.loads(json.dumps(turn.payload, ensure_ascii=False, allow_nan=False, sort_keys=True))
    back = from_turn(Turn(turn.role, turn.content, payload=stored))
    assert back == message
    assert back is not message


@given(st.text(), st.sampled_from(list(MessageRole)))
def test_any_text_in_any_role_comes_back(text: str, role: MessageRole) -> None:
    """No text and no role is changed by the way there and back."""
    message = ChatMessage(text, role=role)
    assert from_turn(to_turn(message)) == message


@pytest.mark.parametrize(
    ("role", "expected"),
    [
        ("user", "user"),
        ("assistant", "assistant"),
        ("chatbot", "assistant"),
        ("model", "assistant"),
        ("tool", "tool"),
        ("function", "tool"),
        ("system", "system"),
        ("developer", "system"),
    ],
)
def test_roles_are_mapped(role: str, expected: str) -> None:
    """Each of the framework's roles is one of the four roles of a turn."""
    assert to_turn(ChatMessage("x", role=role)).role == expected


def test_content_is_the_text_and_never_the_media() -> None:
    """The content joins the text blocks; the bytes of a picture are in the payload only."""
    message = ChatMessage(role="user", blocks=[TextBlock(text="a"), ImageBlock(image=PNG), TextBlock(text="b")])
    turn = to_turn(message)
    assert turn.content == "a\nb"
    assert "iVBOR" in json.dumps(turn.payload)


@pytest.mark.parametrize("key", ["id", "message_id"])
def test_the_id_of_a_message_is_the_id_of_its_turn(key: str) -> None:
    """An id in the extra arguments makes storing idempotent."""
    assert to_turn(ChatMessage("x", additional_kwargs={key: "m-7"})).id == "m-7"
    assert to_turn(ChatMessage("x", additional_kwargs={key: 7})).id == "7"


@pytest.mark.parametrize("bad", [None, "", "  ", "x" * 300, "a\x00", True, 1.5, ["m"]])
def test_what_cannot_be_an_id_is_left_to_the_engine(bad: object) -> None:
    """An unusable id is no reason to lose a message."""
    assert to_turn(ChatMessage("x", additional_kwargs={"id": bad})).id is None


def test_speaker_and_time_are_read_from_the_extra_arguments() -> None:
    """A name and an ISO time tell who said it and when."""
    turn = to_turn(ChatMessage("x", additional_kwargs={"name": "太郎", "timestamp": "2026-05-01T12:00:00Z"}))
    assert turn.speaker == "太郎"
    assert turn.at == datetime(2026, 5, 1, 12, tzinfo=UTC)


def test_the_name_of_a_tool_is_nobodys_name() -> None:
    """The name of a tool message is the tool's and names no speaker."""
    assert to_turn(ChatMessage("3", role="tool", additional_kwargs={"name": "add"})).speaker is None


@pytest.mark.parametrize("bad", ["yesterday", "", 12, None])
def test_an_unreadable_time_is_no_time(bad: object) -> None:
    """A timestamp that is not ISO is ignored."""
    assert to_turn(ChatMessage("x", additional_kwargs={"timestamp": bad})).at is None


def test_of_react_reasoning_the_answer_is_the_content() -> None:
    """The content of a ReAct message is its final answer, while the payload keeps the reasoning."""
    text = "Thought: add\nAction: add\nAction Input: {'a': 1}\nObservation: 3\nThought: done\nAnswer: It is 3."
    message = ChatMessage(text, role="assistant")
    turn = to_turn(message)
    assert turn.content == "It is 3."
    assert from_turn(turn) == message


@pytest.mark.parametrize(
    ("role", "text"),
    [
        ("assistant", "The form has two fields.\nQuestion: …\nAnswer: …"),
        ("user", "Thought: hm\nAnswer: 3"),
        ("assistant", "Thought: no tool fits"),
    ],
)
def test_what_is_no_react_reasoning_keeps_its_words(role: str, text: str) -> None:
    """An answer that merely quotes the word, a user's text and unfinished reasoning stay whole."""
    assert to_turn(ChatMessage(text, role=role)).content == text


def test_values_that_are_not_json_do_not_lose_the_message() -> None:
    """Objects become text and NaN null; the words are kept."""
    message = ChatMessage("hi", additional_kwargs={"o": object(), "n": float("nan"), "s": {1}})
    turn = to_turn(message)
    json.dumps(turn.payload, allow_nan=False)
    assert from_turn(turn).content == "hi"


def nested(levels: int) -> dict[str, Any]:
    inner: dict[str, Any] = {}
    for _ in range(levels):
        inner = {"a": inner}
    return inner


@pytest.mark.parametrize("extra", [nested(40), nested(3_000), {"\ud800": 1}], ids=["deep", "bottomless", "broken"])
def test_what_cannot_be_written_does_not_lose_the_words(extra: dict[str, Any]) -> None:
    """Extra arguments that are too deep or broken come back as text or not at all; the words do."""
    turn = to_turn(ChatMessage("hello", role="user", additional_kwargs={"x": extra}))
    json.dumps(turn.payload, ensure_ascii=False, allow_nan=False).encode()
    assert from_turn(turn).content == "hello"


def test_a_deep_tool_call_is_still_a_tool_call() -> None:
    """Arguments nested too deeply for the store become text where they are too deep; the call keeps its id."""
    call = ToolCallBlock(tool_call_id="c", tool_name="f", tool_kwargs=nested(40))
    [block] = from_turn(to_turn(ChatMessage(role="assistant", blocks=[call]))).blocks
    assert isinstance(block, ToolCallBlock)
    assert block.tool_call_id == "c"


def test_a_payload_that_no_longer_fits_gives_role_and_words() -> None:
    """A block kind this version does not know is no reason to lose the message."""
    payload: Json = {"role": "assistant", "additional_kwargs": {}, "blocks": [{"block_type": "hologram", "x": 1}]}
    assert from_turn(Turn("assistant", "hello", payload=payload)) == ChatMessage("hello", role="assistant")


def test_tool_traffic_of_another_framework_is_left_out() -> None:
    """Turns stored through another adapter come as words; its tool calls and results would be orphans here."""
    turns = [
        Turn("user", "add", payload={"type": "human", "data": {}}),
        Turn("assistant", "", payload={"type": "ai", "data": {"tool_calls": [{"id": "c"}]}}),
        Turn("tool", "3", payload={"type": "tool", "data": {"tool_call_id": "c"}}),
        Turn("assistant", "It is 3."),
    ]
    assert from_turns(turns) == [ChatMessage("add", role="user"), ChatMessage("It is 3.", role="assistant")]


def test_a_tagged_message_is_never_stored() -> None:
    """The message that carries the block is known by its tag."""
    assert storable([injected(BLOCK, MessageRole.SYSTEM)]) == []
    assert storable([ChatMessage("anything", role="user", additional_kwargs={"sf_ams": "injected"})]) == []


@pytest.mark.parametrize("text", [BLOCK, BLOCK[:-20], f"{BLOCK}\n{BLOCK}", MEMORY_HEADER_ZH, MEMORY_HEADER_EN])
@pytest.mark.parametrize("role", ["system", "user", "assistant"])
def test_a_message_that_is_only_our_block_is_never_stored(role: str, text: str) -> None:
    """Whole, cut off or twice: a block that comes back untagged is left out."""
    assert storable([ChatMessage(text, role=role)]) == []


def test_words_around_our_block_are_kept() -> None:
    """A user who quotes the block loses the block, not the question."""
    [kept] = storable([ChatMessage(f"你好\n{BLOCK}\nwhat is this?", role="user")])
    assert kept.content is not None
    assert not is_injected(kept.content)
    assert "你好" in kept.content
    assert "what is this?" in kept.content


def test_a_merged_message_is_stored_as_it_was_said() -> None:
    """The block that was merged into a user message comes off again, and the original is untouched."""
    said = ChatMessage(role="user", blocks=[TextBlock(text="look"), ImageBlock(image=PNG)])
    merged = with_memory(said, BLOCK)
    assert (merged.content or "").startswith(BLOCK)
    assert said.content == "look"
    assert storable([merged]) == [said]


def test_a_tool_result_with_our_block_stays_with_its_call() -> None:
    """A tool that recalls memories returns our block; dropping its result would orphan the call."""
    messages = [MESSAGES["tool call"], ChatMessage(BLOCK, role="tool", additional_kwargs={"tool_call_id": "c1"})]
    assert storable(messages) == messages


def test_a_tool_call_is_kept_when_its_words_were_our_block() -> None:
    """An assistant message that calls a tool keeps the call."""
    call = ToolCallBlock(tool_call_id="c", tool_name="f", tool_kwargs={})
    [kept] = storable([ChatMessage(role="assistant", blocks=[TextBlock(text=BLOCK), call])])
    assert kept.blocks == [call]


def test_words_count_reasoning_and_tool_calls_but_no_media() -> None:
    """What a model reads as text is counted: calls in blocks and in the old form, never base64."""
    assert "add" in words(MESSAGES["tool call"])
    old = ChatMessage(role="assistant", additional_kwargs={"tool_calls": [{"function": {"name": "add"}}]})
    assert "add" in words(old)
    assert words(MESSAGES["picture"]) == "look"
    assert words(MESSAGES["reasoning"]) == "hm\nyes"
