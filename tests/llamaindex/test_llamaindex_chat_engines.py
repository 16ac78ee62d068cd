"""SFAMSMemory inside LlamaIndex's chat engines, with the real OpenAI client."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.chat_engine import CondensePlusContextChatEngine, ContextChatEngine, SimpleChatEngine
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llamaindex_support import ANN, Model, texts
from openai import InternalServerError

from sf_ams_core.cli.loopback import ApiError, ChatReply, ChatRequest, memory_assistant
from sf_ams_core.engine import MemoryEngine
from sf_ams_core.types import Turn
from sf_ams_llamaindex import SFAMSMemory, SFAMSRetriever

QUESTION = "Which editor is my favourite?"
START = Callable[..., Model]


@pytest.fixture
def memory(engine: MemoryEngine) -> SFAMSMemory:
    """An empty chat of a user whose earlier session told the favourite editor."""
    engine.add_turns(ANN, "before", [Turn("user", "My favourite editor is Helix.")])
    return SFAMSMemory.from_defaults(engine, session_id="now", user_id="ann")


class Handbook(BaseRetriever):
    """A retriever of one page."""

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [NodeWithScore(node=TextNode(text="Braces are {optional} here."), score=1.0)]


def stored(memory: SFAMSMemory) -> list[tuple[str, str]]:
    return texts(memory.get_all())


def test_a_simple_chat_is_answered_from_memory(memory: SFAMSMemory, model: START) -> None:
    """What an earlier session told answers a question in this one, and the chat is kept as it was."""
    engine = SimpleChatEngine.from_defaults(llm=model(memory_assistant).llm, memory=memory)
    answer = engine.chat(QUESTION)
    assert "Helix" in answer.response
    assert stored(memory) == [("user", QUESTION), ("assistant", answer.response)]


def test_a_simple_chat_may_have_a_system_prompt(memory: SFAMSMemory, model: START) -> None:
    """The host's own system prompt comes first, then the memory, then the chat."""
    pretend = model()
    engine = SimpleChatEngine.from_defaults(llm=pretend.llm, memory=memory, system_prompt="Be brief.")
    engine.chat(QUESTION)
    [prompt] = pretend.prompts
    assert [message["role"] for message in prompt] == ["system", "system", "user"]
    assert prompt[0]["content"] == "Be brief."
    assert "Helix" in prompt[1]["content"]


def test_a_system_prompt_counts_against_the_limit(memory: SFAMSMemory, model: START) -> None:
    """A chat engine's own prompt leaves less room for the chat, never none for the question."""
    pretend = model("word " * 30)
    bounded = memory.model_copy(update={"token_limit": 400})
    short = SimpleChatEngine.from_defaults(llm=pretend.llm, memory=bounded, system_prompt="Be brief.")
    long = SimpleChatEngine.from_defaults(llm=pretend.llm, memory=bounded, system_prompt="Be brief. " * 200)
    for engine in (short, short, long):
        engine.chat(QUESTION)
    users = [[m["content"] for m in prompt if m["role"] == "user"] for prompt in pretend.prompts]
    assert users == [[QUESTION], [QUESTION] * 2, [QUESTION]]


def test_a_strict_model_takes_the_block_in_the_users_message(memory: SFAMSMemory, model: START) -> None:
    """A model that allows one system message answers when the block is merged."""
    merged = memory.model_copy(update={"inject_as": "user"})
    llm = model(memory_assistant, strict_system=True).llm
    engine = SimpleChatEngine.from_defaults(llm=llm, memory=merged, system_prompt="Be brief.")
    answer = engine.chat(QUESTION)
    assert "Helix" in answer.response
    assert stored(memory)[0] == ("user", QUESTION)


def test_a_stream_is_kept_once_it_is_over(memory: SFAMSMemory, model: START) -> None:
    """A streamed answer is stored from the framework's own thread."""
    engine = SimpleChatEngine.from_defaults(llm=model("One two three.").llm, memory=memory)
    answer = "".join(engine.stream_chat("Count, please.").response_gen)
    assert answer == "One two three."
    assert stored(memory) == [("user", "Count, please."), ("assistant", "One two three.")]


async def test_the_async_chat_does_the_same(memory: SFAMSMemory, model: START) -> None:
    """Async chat and async stream go through the async twins."""
    engine = SimpleChatEngine.from_defaults(llm=model(memory_assistant).llm, memory=memory)
    answer = await engine.achat(QUESTION)
    assert "Helix" in answer.response
    stream = await engine.astream_chat("Thank you.")
    streamed = "".join([piece async for piece in stream.async_response_gen()])
    assert stored(memory)[2:] == [("user", "Thank you."), ("assistant", streamed)]


def test_a_history_handed_in_each_time_is_not_multiplied(
    engine: MemoryEngine, memory: SFAMSMemory, model: START
) -> None:
    """A stateless host that sends the history with every message writes each message once."""
    chat = SimpleChatEngine.from_defaults(llm=model("Noted.").llm, memory=memory)
    history: list[ChatMessage] = []
    for said in ("Hello.", "I am tired.", "Good night."):
        chat.chat(said, chat_history=history)
        history = memory.get_all()
    assert len(history) == 6
    assert len(engine.turns(ANN, "now")) == 6


def test_a_model_that_fails_leaves_the_question(memory: SFAMSMemory, model: START) -> None:
    """After a failed call the next one still answers, with both questions in the chat."""
    calls: list[ChatRequest] = []

    def fails_once(request: ChatRequest) -> ChatReply:
        calls.append(request)
        if len(calls) == 1:
            raise ApiError("down", status=500)
        return memory_assistant(request)

    engine = SimpleChatEngine.from_defaults(llm=model(fails_once).llm, memory=memory)
    with pytest.raises(InternalServerError, match="down"):
        engine.chat("Hello?")
    assert "Helix" in engine.chat(QUESTION).response
    assert [role for role, _ in stored(memory)] == ["user", "user", "assistant"]


def test_a_locked_store_does_not_stop_the_chat(
    memory: SFAMSMemory, model: START, locked: Callable[[], AbstractContextManager[None]]
) -> None:
    """While the store cannot be written the host answers, and the chat is whole afterwards."""
    engine = SimpleChatEngine.from_defaults(llm=model("Hello.").llm, memory=memory)
    with locked():
        assert engine.chat("Hi.").response == "Hello."
        assert engine.chat("Hi again.").response == "Hello."
    engine.chat("And again.")
    assert [text for role, text in stored(memory) if role == "user"] == ["Hi.", "Hi again.", "And again."]


def test_switched_off_nothing_is_injected(engine: MemoryEngine, memory: SFAMSMemory, model: START) -> None:
    """With the kill switch the model gets the bare chat."""
    engine.enabled = False
    pretend = model()
    SimpleChatEngine.from_defaults(llm=pretend.llm, memory=memory).chat(QUESTION)
    assert [message["role"] for message in pretend.prompts[0]] == ["user"]


def test_reset_and_history_of_an_engine(memory: SFAMSMemory, model: START) -> None:
    """The engine's own reset empties the chat, and its history is the view without the memory block."""
    engine = SimpleChatEngine.from_defaults(llm=model().llm, memory=memory)
    engine.chat(QUESTION)
    assert [message.role.value for message in engine.chat_history] == ["user", "assistant"]
    engine.reset()
    assert engine.chat_history == []


@pytest.mark.parametrize("inject_as", ["system", "user"])
def test_an_engine_with_its_own_context_gets_both(memory: SFAMSMemory, model: START, inject_as: str) -> None:
    """A context chat engine sends its documents and our memory, braces and all, and stores the bare chat."""
    pretend = model()
    chosen = memory.model_copy(update={"inject_as": inject_as})
    engine = ContextChatEngine.from_defaults(retriever=Handbook(), llm=pretend.llm, memory=chosen)
    engine.chat("I like {braces} in code.")
    engine.chat(QUESTION)
    prompt = str(pretend.prompts[-1])
    assert "Helix" in prompt
    assert "{optional}" in prompt
    assert [text for role, text in stored(memory) if role == "user"] == ["I like {braces} in code.", QUESTION]


def test_an_engine_that_condenses_gets_both(memory: SFAMSMemory, model: START) -> None:
    """The condensing engine answers from our memory too, and stores the question as it was asked."""
    pretend = model()
    engine = CondensePlusContextChatEngine.from_defaults(retriever=Handbook(), llm=pretend.llm, memory=memory)
    engine.chat("Hello there.")
    engine.chat(QUESTION)
    assert "Helix" in str(pretend.prompts[-1])
    assert [text for role, text in stored(memory) if role == "user"] == ["Hello there.", QUESTION]


async def test_memories_can_be_the_context(engine: MemoryEngine, memory: SFAMSMemory, model: START) -> None:
    """The retriever brings memories into a chat engine as its documents."""
    pretend = model()
    retriever = SFAMSRetriever(engine=engine, user_id="ann")
    bare = memory.model_copy(update={"user_id": "nobody"})
    chat = ContextChatEngine.from_defaults(retriever=retriever, llm=pretend.llm, memory=bare)
    await chat.achat(QUESTION)
    assert "Helix" in str(pretend.prompts[-1])
