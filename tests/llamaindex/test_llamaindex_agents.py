"""SFAMSMemory inside LlamaIndex's agents, with the real OpenAI client and real workflows."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent, ReActAgent
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.workflow import Context, JsonSerializer
from llamaindex_support import ANN, Model, texts
from openai import InternalServerError

from sf_ams_core.cli.loopback import ApiError, ChatReply, ChatRequest, ToolCall, memory_assistant, text_of
from sf_ams_core.engine import MemoryEngine
from sf_ams_core.types import Turn
from sf_ams_llamaindex import SFAMSMemory

pytestmark = [
    # LlamaIndex: an agent is a workflow and a pydantic model, and workflows read every attribute of themselves.
    pytest.mark.filterwarnings("ignore:The `__fields:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Accessing the 'model_(computed_)?fields' attribute:DeprecationWarning"),
    # ReActAgent asks its context whether it runs from within a step.
    pytest.mark.filterwarnings("ignore:is_running called from within a step:DeprecationWarning"),
]

QUESTION = "Which editor is my favourite?"
START = Callable[..., Model]


@pytest.fixture
def memory(engine: MemoryEngine) -> SFAMSMemory:
    """An empty chat of a user whose earlier session told the favourite editor."""
    engine.add_turns(ANN, "before", [Turn("user", "My favourite editor is Helix.")])
    return SFAMSMemory.from_defaults(engine, session_id="now", user_id="ann")


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def calculator(request: ChatRequest) -> ChatReply:
    """Adds with the tool, twice at once, and then says what came out."""
    last = request.messages[-1]
    if last["role"] == "tool":
        return ChatReply(f"It is {text_of(last)}.")
    return ChatReply(tool_calls=(ToolCall("add", {"a": 1, "b": 1}), ToolCall("add", {"a": 1, "b": 2})))


def thinker(request: ChatRequest) -> ChatReply:
    """A ReAct model that adds once and then answers with what its prompt knows of editors."""
    if "Observation" in text_of(request.messages[-1]):
        known = "Helix" if "Helix" in str(request.messages) else "unknown"
        return ChatReply(f"Thought: I can answer.\nAnswer: 3 and {known}")
    return ChatReply('Thought: I must add.\nAction: add\nAction Input: {"a": 1, "b": 2}')


def recalls(engine: MemoryEngine) -> int:
    return engine.health().counters.get("memory_hit", 0)


async def test_a_function_agent_is_answered_from_memory(memory: SFAMSMemory, model: START) -> None:
    """An agent answers from what an earlier session told, and the chat is kept as it was."""
    agent = FunctionAgent(llm=model(memory_assistant).llm, tools=[add], system_prompt="Be brief.")
    answer = str(await agent.run(QUESTION, memory=memory))
    assert "Helix" in answer
    assert texts(memory.get_all()) == [("user", QUESTION), ("assistant", answer)]


@pytest.mark.parametrize("streaming", [True, False])
async def test_calls_and_results_are_kept_in_order(memory: SFAMSMemory, model: START, streaming: bool) -> None:
    """Parallel tool calls and their results come back in an order that a strict server accepts, turn after turn."""
    pretend = model(calculator)
    agent = FunctionAgent(llm=pretend.llm, tools=[add], streaming=streaming)
    for _ in range(3):
        assert str(await agent.run("Add, please.", memory=memory)) == "It is 3."
    roles = [message.role.value for message in memory.get_all()]
    assert roles == ["user", "assistant", "tool", "tool", "assistant"] * 3
    sent = [message["role"] for message in pretend.prompts[-1] if message["role"] != "system"]
    assert sent == ["user", "assistant", "tool", "tool", "assistant", "user", "assistant", "tool", "tool"]


async def test_an_agent_run_costs_at_most_two_recalls(engine: MemoryEngine, memory: SFAMSMemory, model: START) -> None:
    """The looks that a run takes at its memory share recalls."""
    agent = FunctionAgent(llm=model(calculator).llm, tools=[add])
    before = recalls(engine)
    await agent.run("Add, please.", memory=memory)
    assert 1 <= recalls(engine) - before <= 2


async def test_state_in_the_prompt_does_not_reach_the_store(memory: SFAMSMemory, model: START) -> None:
    """A framework that rewrites the last message in place rewrites a copy."""
    pretend = model()
    agent = FunctionAgent(llm=pretend.llm, tools=[add], initial_state={"mood": "good"})
    await agent.run("Hello.", memory=memory)
    assert "mood" in str(pretend.prompts[0])
    assert texts(memory.get_all())[0] == ("user", "Hello.")


async def test_a_history_handed_in_each_time_is_not_multiplied(
    engine: MemoryEngine, memory: SFAMSMemory, model: START
) -> None:
    """A stateless host that sends history and question with every run writes each message once."""
    agent = FunctionAgent(llm=model(calculator).llm, tools=[add])
    history: list[ChatMessage] = []
    for said in ("One, please.", "Two, please.", "Three, please."):
        await agent.run(said, chat_history=history, memory=memory)
        history = memory.get_all()
    assert len(history) == 15
    assert len(engine.turns(ANN, "now")) == 15


async def test_a_restored_context_goes_on_with_the_same_chat(memory: SFAMSMemory, model: START) -> None:
    """A workflow context that went through JSON finds chat and memories again."""
    agent = FunctionAgent(llm=model(memory_assistant).llm, tools=[add])
    context = Context(agent)
    await agent.run("My name is Ann.", ctx=context, memory=memory)
    stored = json.dumps(context.to_dict(serializer=JsonSerializer()))
    restored = Context.from_dict(agent, json.loads(stored), serializer=JsonSerializer())
    assert "Helix" in str(await agent.run(QUESTION, ctx=restored))
    assert [text for role, text in texts(memory.get_all()) if role == "user"] == ["My name is Ann.", QUESTION]
    assert "Helix" not in stored


async def test_a_react_agent_with_a_system_prompt_gets_the_block(memory: SFAMSMemory, model: START) -> None:
    """With a system prompt of its own a ReAct agent passes the memory's system message on."""
    agent = ReActAgent(llm=model(thinker).llm, tools=[add], system_prompt="Be brief.")
    assert str(await agent.run(QUESTION, memory=memory)) == "3 and Helix"


async def test_a_react_agent_without_one_gets_the_block_merged(memory: SFAMSMemory, model: START) -> None:
    """Without a system prompt the block reaches a ReAct agent in the user's message, on a strict model too."""
    merged = memory.model_copy(update={"inject_as": "user"})
    agent = ReActAgent(llm=model(thinker, strict_system=True).llm, tools=[add])
    assert str(await agent.run(QUESTION, memory=merged)) == "3 and Helix"
    assert texts(memory.get_all())[0] == ("user", QUESTION)


async def test_of_reasoning_only_the_answer_is_remembered(
    engine: MemoryEngine, memory: SFAMSMemory, model: START
) -> None:
    """The chat keeps a ReAct agent's whole reasoning; the transcript's words and the records are the answer."""
    agent = ReActAgent(llm=model(thinker).llm, tools=[add], system_prompt="Be brief.")
    await agent.run(QUESTION, memory=memory)
    assert "Action: add" in (memory.get_all()[-1].content or "")
    assert engine.turns(ANN, "now")[-1].content == "3 and Helix"
    assert not any("Action" in record.content for record in engine.list(ANN))


async def test_agents_that_hand_over_share_the_memory(memory: SFAMSMemory, model: START) -> None:
    """In a workflow of two agents the second sees the user's question and the memory as well."""

    def says(request: ChatRequest) -> ChatReply:
        if "front desk" in text_of(request.messages[0]):
            return ChatReply(tool_calls=(ToolCall("handoff", {"to_agent": "expert", "reason": "it knows editors"}),))
        return ChatReply("Helix." if "Helix" in str(request.messages) else "I don't know.")

    llm = model(says).llm
    desk = FunctionAgent(
        name="desk", description="asks", llm=llm, tools=[add], can_handoff_to=["expert"], system_prompt="front desk"
    )
    expert = FunctionAgent(name="expert", description="knows", llm=llm, tools=[add], system_prompt="expert")
    workflow = AgentWorkflow(agents=[desk, expert], root_agent="desk")
    assert str(await workflow.run(QUESTION, memory=memory)) == "Helix."
    assert [message.role.value for message in memory.get_all()][:3] == ["user", "assistant", "tool"]


async def test_a_model_that_fails_leaves_the_agent_usable(memory: SFAMSMemory, model: START) -> None:
    """After a run that broke in the model, the next run answers, with both questions in the chat."""
    calls: list[ChatRequest] = []

    def fails_once(request: ChatRequest) -> ChatReply:
        calls.append(request)
        if len(calls) == 1:
            raise ApiError("down", status=500)
        return memory_assistant(request)

    agent = FunctionAgent(llm=model(fails_once).llm, tools=[add])
    with pytest.raises(InternalServerError, match="down"):
        await agent.run("Hello?", memory=memory)
    assert "Helix" in str(await agent.run(QUESTION, memory=memory))
    assert [message.role.value for message in memory.get_all()] == ["user", "user", "assistant"]


async def test_a_locked_store_does_not_stop_an_agent(
    memory: SFAMSMemory, model: START, locked: Callable[[], AbstractContextManager[None]]
) -> None:
    """While the store cannot be written the agent calls its tools and answers; afterwards nothing is missing."""
    agent = FunctionAgent(llm=model(calculator).llm, tools=[add])
    with locked():
        assert str(await agent.run("Add, please.", memory=memory)) == "It is 3."
    await agent.run("Once more.", memory=memory)
    assert len(memory.get_all()) == 10


async def test_switched_off_an_agent_goes_on(engine: MemoryEngine, memory: SFAMSMemory, model: START) -> None:
    """With the kill switch the model gets the bare chat and the run ends well."""
    engine.enabled = False
    pretend = model(calculator)
    agent = FunctionAgent(llm=pretend.llm, tools=[add])
    assert str(await agent.run(QUESTION, memory=memory)) == "It is 3."
    assert "Helix" not in str(pretend.prompts)


async def test_a_small_limit_keeps_an_agent_running(memory: SFAMSMemory, model: START) -> None:
    """However small the limit, the question reaches the model and calls keep their results."""
    agent = FunctionAgent(llm=model(calculator).llm, tools=[add])
    bounded = memory.model_copy(update={"token_limit": 5})
    for _ in range(3):
        assert str(await agent.run("Add, please.", memory=bounded)) == "It is 3."
