"""The middleware in real agents: what the model sees, what is kept, whose it is, and what happens when it breaks."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, HumanInTheLoopMiddleware, SummarizationMiddleware
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.tools import tool
from langchain_support import ANN, Model, said, words_of
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from sf_ams_core import InvalidInput, InvalidScope, MemoryEngine, Scope
from sf_ams_core.cli.loopback import ApiError, ChatReply, ChatRequest, ToolCall, memory_assistant
from sf_ams_langchain import MemoryContext, SFAMSMiddleware

TOLD = "I am allergic to peanuts."
ASKED = "What am I allergic to?"


@tool
def weather(city: str) -> str:
    """The weather of a city."""
    return f"It is 21 degrees in {city}."


def agent_of(pretend: Model, engine: MemoryEngine, *others: Any, **options: Any) -> Any:
    """An agent of Ann's with memory, a checkpointer and one tool of its own."""
    identity: dict[str, Any] = {} if options.pop("by_run", False) else {"user_id": "ann"}
    more = {name: options.pop(name) for name in ("system_prompt", "checkpointer", "context_schema") if name in options}
    return create_agent(
        pretend.llm,
        [weather],
        middleware=[SFAMSMiddleware(engine, **identity, **options), *others],
        **{"checkpointer": InMemorySaver(), **more},
    )


def on(thread: str) -> Any:
    """The config of a run on a thread."""
    return {"configurable": {"thread_id": thread}}


def say(agent: Any, words: str, thread: str = "t1", **options: Any) -> Any:
    """One run that says something."""
    return agent.invoke({"messages": [HumanMessage(words)]}, on(thread), **options)


def transcript(engine: MemoryEngine, session: str = "t1", scope: Scope = ANN) -> list[tuple[str, str]]:
    """Role and words of a session's turns."""
    return [(turn.role, turn.content) for turn in engine.turns(scope, session)]


def weather_then(*replies: str) -> list[ChatReply]:
    """A call of the weather tool, then replies."""
    return [ChatReply(tool_calls=(ToolCall("weather", {"city": "Köln"}),)), *map(ChatReply, replies)]


class AsksBack(AgentMiddleware):
    """Puts a question of the user's into a run, behind the result of a tool."""

    def before_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        return {"messages": [HumanMessage(ASKED)]} if state["messages"][-1].type == "tool" else None


class TestMemory:
    """What an agent knows because it was said before."""

    @pytest.mark.parametrize("inject_as", ["system", "human"])
    async def test_another_thread_is_remembered(
        self, engine: MemoryEngine, model: Callable[..., Model], inject_as: Any
    ) -> None:
        """A model that knows nothing but its prompt answers from another thread; sync and async alike."""
        agent = agent_of(model(memory_assistant), engine, inject_as=inject_as)
        say(agent, "My train leaves at 7:45 from platform 9.", "t1")
        assert "7:45" in say(agent, "When does my train leave?", "t2")["messages"][-1].text
        asked = {"messages": [HumanMessage("When does my train leave?")]}
        assert "7:45" in (await agent.ainvoke(asked, on("t3")))["messages"][-1].text

    @pytest.mark.parametrize("inject_as", ["system", "human"])
    def test_the_prompt_keeps_one_leading_system_message(
        self, engine: MemoryEngine, model: Callable[..., Model], inject_as: Any
    ) -> None:
        """A server that takes one system message, the first, is content."""
        pretend = model(strict_system=True)
        agent = agent_of(pretend, engine, inject_as=inject_as, system_prompt="Be brief.")
        say(agent, TOLD, "t1")
        say(agent, ASKED, "t2")
        roles = [message["role"] for message in pretend.prompts[-1]]
        assert roles == ["system", "user"]
        place = roles.index("system" if inject_as == "system" else "user")
        assert "peanuts" in words_of([pretend.prompts[-1][place]])
        assert words_of([pretend.prompts[-1][0]]).startswith("Be brief.")

    def test_memory_without_a_system_prompt_makes_one(self, engine: MemoryEngine, model: Callable[..., Model]) -> None:
        """Where there is no system message, the block is it; where nothing is remembered, there is none."""
        pretend = model(strict_system=True)
        agent = agent_of(pretend, engine)
        say(agent, TOLD, "t1")
        say(agent, ASKED, "t2")
        assert [[m["role"] for m in prompt] for prompt in pretend.prompts] == [["user"], ["system", "user"]]

    def test_a_picture_stays_in_the_question(self, engine: MemoryEngine, model: Callable[..., Model]) -> None:
        """Memory goes before the words of the asking message; its other parts stay, and only its words are kept."""
        pretend = model()
        agent = agent_of(pretend, engine, inject_as="human")
        say(agent, TOLD, "t1")
        picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
        agent.invoke({"messages": [HumanMessage([{"type": "text", "text": ASKED}, picture])]}, on("t2"))
        parts = pretend.prompts[-1][-1]["content"]
        assert [part["type"] for part in parts] == ["text", "text", "image_url"]
        assert "peanuts" in parts[0]["text"]
        assert transcript(engine, "t2")[0] == ("user", ASKED)

    @pytest.mark.parametrize("inject_as", ["system", "human"])
    def test_nothing_injected_stays_in_the_agent(
        self, engine: MemoryEngine, model: Callable[..., Model], inject_as: Any
    ) -> None:
        """Neither the agent's messages nor the transcript ever hold the block."""
        agent = agent_of(model(), engine, inject_as=inject_as)
        say(agent, TOLD, "t1")
        result = say(agent, ASKED, "t2")
        assert set(result) == {"messages"}
        assert said(result["messages"]) == [("human", ASKED), ("ai", "Noted.")]
        assert transcript(engine, "t2") == [("user", ASKED), ("assistant", "Noted.")]

    def test_what_the_model_sees_anyway_is_not_repeated(
        self, engine: MemoryEngine, model: Callable[..., Model]
    ) -> None:
        """A statement of this thread is in the prompt once, as it was said."""
        pretend = model()
        agent = agent_of(pretend, engine)
        say(agent, TOLD)
        say(agent, ASKED)
        assert words_of(pretend.prompts[-1]).count("peanuts") == 1

    def test_one_recall_serves_a_whole_run(self, engine: MemoryEngine, model: Callable[..., Model]) -> None:
        """Each call of the model in a tool loop gets the block, recalled once."""
        say(agent_of(model(), engine), "I like 21 degrees.", "t1")
        before = engine.health().counters["memory_hit"]
        pretend = model(weather_then("Warm."))
        say(agent_of(pretend, engine), "How many degrees do I like?", "t2")
        assert engine.health().counters["memory_hit"] == before + 1
        assert ["I like 21 degrees." in words_of(prompt) for prompt in pretend.prompts] == [True, True]

    def test_each_question_is_recalled_for_anew(self, engine: MemoryEngine, model: Callable[..., Model]) -> None:
        """What was recalled for the question before is not shown for the next one."""
        pretend = model()
        agent = agent_of(pretend, engine)
        say(agent, TOLD, "t1")
        say(agent, "My bicycle is red.", "t1")
        say(agent, ASKED, "t2")
        say(agent, "Which colour is my bicycle?", "t2")
        assert "red" in words_of(pretend.prompts[-1][:1])

    def test_the_tools_come_with_it(self, engine: MemoryEngine, model: Callable[..., Model]) -> None:
        """The agent can save by itself, for its user, in the session of the run."""
        replies = [
            ChatReply(tool_calls=(ToolCall("save_memory", {"content": TOLD, "importance": 0.8}),)),
            ChatReply("Done."),
        ]
        say(agent_of(model(replies), engine), "Remember what I said.")
        (saved,) = [
            memory for memory in engine.list(ANN) if memory.source == "assistant" and "peanuts" in memory.content
        ]
        assert saved.session == "t1"
        assert SFAMSMiddleware(engine, user_id="ann", tools=False).tools == []

    async def test_streams_bring_only_the_answer(self, engine: MemoryEngine, model: Callable[..., Model]) -> None:
        """A streamed run shows no block and keeps what was said."""
        agent = agent_of(model(), engine)
        say(agent, TOLD, "t1")
        asked = {"messages": [HumanMessage(ASKED)]}
        pieces = [piece.text async for piece, _ in agent.astream(asked, on("t2"), stream_mode="messages")]
        assert "".join(pieces) == "Noted."
        assert transcript(engine, "t2") == [("user", ASKED), ("assistant", "Noted.")]


class TestTranscript:
    """What is kept of a run."""

    def test_a_tool_loop_is_kept_whole(self, engine: MemoryEngine, model: Callable[..., Model]) -> None:
        """Question, call, result and answer, in order, each once, over several runs of a thread."""
        agent = agent_of(model([*weather_then("Warm."), ChatReply("Bye.")]), engine)
        say(agent, "Weather?")
        say(agent, "Thanks.")
        assert transcript(engine) == [
            ("user", "Weather?"), ("assistant", ""), ("tool", "It is 21 degrees in Köln."), ("assistant", "Warm."),
            ("user", "Thanks."), ("assistant", "Bye."),
        ]  # fmt: skip

    def test_save_off_keeps_nothing(self, engine: MemoryEngine, model: Callable[..., Model]) -> None:
        """With `save=False` an agent remembers but does not write."""
        say(agent_of(model(), engine), TOLD, "t1")
        pretend = model()
        for thread in ("t1", "t2"):
            say(agent_of(pretend, engine, save=False), ASKED, thread)
            assert "peanuts" in words_of(pretend.prompts[-1])
        assert engine.stats(ANN).turns == 2

    def test_a_question_outlives_a_model_that_fails(self, engine: MemoryEngine, model: Callable[..., Model]) -> None:
        """What the user said is kept even if no answer came."""

        def fail(_request: ChatRequest) -> ChatReply:
            raise ApiError("down", status=500)

        with pytest.raises(Exception, match="down"):
            say(agent_of(model(fail), engine), TOLD)
        assert transcript(engine) == [("user", TOLD)]

    def test_a_chat_sent_anew_each_time_is_kept_once(self, engine: MemoryEngine, model: Callable[..., Model]) -> None:
        """A host without threads that resends the chat without ids doubles nothing."""
        agent = agent_of(model("Noted."), engine, checkpointer=None)
        chat: list[Any] = []
        for words in (TOLD, "My bicycle is red.", "ok"):
            chat.append({"role": "user", "content": words})
            agent.invoke({"messages": chat})
            chat.append({"role": "assistant", "content": "Noted."})
        assert transcript(engine, "default") == [
            (role, words)
            for asked in (TOLD, "My bicycle is red.", "ok")
            for role, words in (("user", asked), ("assistant", "Noted."))
        ]

    def test_a_chat_brought_along_is_taken_in(self, engine: MemoryEngine, model: Callable[..., Model]) -> None:
        """Messages from before the memory was there are kept too."""
        chat = [HumanMessage(TOLD, id="m1"), AIMessage("ok", id="m2"), HumanMessage(ASKED, id="m3")]
        agent_of(model(), engine).invoke({"messages": chat}, on("t1"))
        assert [turn.id for turn in engine.turns(ANN, "t1")][:3] == ["m1", "m2", "m3"]

    def test_summaries_are_not_taken_for_words_of_the_user(
        self, engine: MemoryEngine, model: Callable[..., Model]
    ) -> None:
        """Beside SummarizationMiddleware every message is kept once and its summary never."""
        summariser = SummarizationMiddleware(model("They greeted.").llm, trigger=("messages", 4), keep=("messages", 1))
        pretend = model()
        agent = agent_of(pretend, engine, summariser)
        for words in (TOLD, "My bicycle is red.", "My cat is called Tom.", ASKED):
            result = say(agent, words)
        assert any(m.additional_kwargs.get("lc_source") == "summarization" for m in result["messages"])
        assert [words for role, words in transcript(engine) if role == "user"] == [
            TOLD, "My bicycle is red.", "My cat is called Tom.", ASKED,
        ]  # fmt: skip
        assert "peanuts" in words_of(pretend.prompts[-1]), "what the summary dropped is recalled"

    def test_a_run_resumed_by_a_person_goes_on_with_its_memory(
        self, engine: MemoryEngine, model: Callable[..., Model]
    ) -> None:
        """After an interrupt and its answer the block is still there and all is kept."""
        say(agent_of(model(), engine), "I like 21 degrees.", "t1")
        pretend = model(weather_then("Warm."))
        agent = agent_of(pretend, engine, HumanInTheLoopMiddleware(interrupt_on={"weather": True}))
        assert "__interrupt__" in say(agent, "How many degrees do I like?", "t2")
        agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}), on("t2"))
        assert "I like 21 degrees." in words_of(pretend.prompts[-1])
        assert [role for role, _ in transcript(engine, "t2")] == ["user", "assistant", "tool", "assistant"]

    def test_a_question_put_into_a_run_is_recalled_for(self, engine: MemoryEngine, model: Callable[..., Model]) -> None:
        """Where another question takes the place of the one the run began with, its memories are shown."""
        say(agent_of(model(), engine), TOLD, "t1")
        pretend = model(weather_then("Peanuts."))
        say(agent_of(pretend, engine, AsksBack()), "Weather?", "t2")
        assert ["peanuts" in words_of(prompt) for prompt in pretend.prompts] == [False, True]


@dataclass
class OwnContext:
    """A host's own context, which happens to name a user."""

    user_id: str


class TestIdentity:
    """Whose memory an agent has."""

    @pytest.mark.parametrize(
        "name",
        [
            lambda user: {"context": MemoryContext(user_id=user)},
            lambda user: {"context": {"user_id": user}},
            lambda user: {"context": OwnContext(user)},
        ],
        ids=["our context", "a dict", "own context"],
    )
    def test_users_share_nothing(
        self, engine: MemoryEngine, model: Callable[..., Model], name: Callable[[str], dict[str, Any]]
    ) -> None:
        """One agent serves many users, each with their own memory, even on one thread id."""
        pretend = model()
        agent = agent_of(pretend, engine, by_run=True, checkpointer=None)
        say(agent, TOLD, **name("ann"))
        say(agent, ASKED, **name("ben"))
        assert "peanuts" not in words_of(pretend.prompts[-1])
        say(agent, ASKED, "t2", **name("ann"))
        assert "peanuts" in words_of(pretend.prompts[-1])

    def test_the_config_may_say_who(self, engine: MemoryEngine, model: Callable[..., Model]) -> None:
        """Without a context the run's config names user, tenant and namespace."""
        agent = agent_of(model(), engine, by_run=True)
        setting = {"thread_id": "t1", "user_id": "ann", "tenant_id": "acme", "namespace": "shop"}
        agent.invoke({"messages": [HumanMessage(TOLD)]}, {"configurable": setting})
        assert transcript(engine, scope=Scope("acme", "ann", "shop"))

    async def test_a_run_without_a_user_is_an_error(self, engine: MemoryEngine, model: Callable[..., Model]) -> None:
        """Nobody's memory is never somebody's: the run ends before the model is asked, and says what to do."""
        pretend = model()
        agent = agent_of(pretend, engine, by_run=True)
        with pytest.raises(InvalidScope, match="MemoryContext"):
            say(agent, TOLD)
        with pytest.raises(InvalidScope, match="MemoryContext"):
            await agent.ainvoke({"messages": [HumanMessage(TOLD)]}, on("t1"))
        assert pretend.prompts == []

    def test_the_session_is_the_contexts_then_the_threads_then_default(
        self, engine: MemoryEngine, model: Callable[..., Model]
    ) -> None:
        """What names the conversation, in that order."""
        agent = agent_of(model(), engine, by_run=True, checkpointer=None, context_schema=MemoryContext)
        say(agent, TOLD, "t1", context=MemoryContext(user_id="ann", session_id="s1"))
        say(agent, TOLD, "t2", context=MemoryContext(user_id="ann"))
        agent.invoke({"messages": [HumanMessage(TOLD)]}, context=MemoryContext(user_id="ann"))
        assert all(len(transcript(engine, session)) == 2 for session in ("s1", "t2", "default"))

    def test_runs_without_a_thread_remember_each_other(self, engine: MemoryEngine, model: Callable[..., Model]) -> None:
        """They share a session but not their messages, so what one said is recalled for the next."""
        pretend = model()
        agent = agent_of(pretend, engine, checkpointer=None)
        agent.invoke({"messages": [HumanMessage(TOLD)]})
        agent.invoke({"messages": [HumanMessage(ASKED)]})
        assert "peanuts" in words_of(pretend.prompts[-1])

    def test_two_memories_fit_into_one_agent(self, engine: MemoryEngine, model: Callable[..., Model]) -> None:
        """A memory of the user beside one of the team, each with its own block."""
        engine.remember(Scope("default", "ann"), "Ann's launch code name is Falcon.")
        engine.remember(Scope("default", "team", "shop"), "The team's launch is on 3 May.")
        pretend = model()
        team = SFAMSMiddleware(engine, user_id="team", namespace="shop", tools=False, save=False)
        say(agent_of(pretend, engine, team), "What do we know about the launch?")
        prompt = words_of(pretend.prompts[-1])
        assert "Falcon" in prompt
        assert "3 May" in prompt

    def test_misuse_is_told_at_construction(self, engine: MemoryEngine) -> None:
        """Blank ids and an unknown place for memory are refused before anything runs."""
        with pytest.raises(InvalidScope):
            SFAMSMiddleware(engine, user_id=" ")
        with pytest.raises(InvalidInput):
            SFAMSMiddleware(engine, user_id="ann", inject_as="tool")  # type: ignore[arg-type]


class TestFaults:
    """When memory is broken or off, the agent goes on."""

    async def test_a_locked_store_costs_no_answer_and_no_turn(
        self,
        hasty: MemoryEngine,
        model: Callable[..., Model],
        locked: Callable[[], AbstractContextManager[None]],
    ) -> None:
        """While the database is held the agent answers; what was said meanwhile is there afterwards."""
        agent = agent_of(model(), hasty)
        with locked():
            assert say(agent, TOLD)["messages"][-1].text == "Noted."
            await agent.ainvoke({"messages": [HumanMessage("My bicycle is red.")]}, on("t1"))
        say(agent, "My cat is called Tom.")
        wanted: Sequence[str] = (TOLD, "My bicycle is red.", "My cat is called Tom.")
        assert [words for role, words in transcript(hasty) if role == "user"] == list(wanted)

    def test_the_kill_switch_leaves_the_transcript(self, engine: MemoryEngine, model: Callable[..., Model]) -> None:
        """Switched off, nothing is injected or remembered, and what is said is kept."""
        pretend = model()
        agent = agent_of(pretend, engine, system_prompt="Be brief.")
        say(agent, TOLD, "t1")
        engine.enabled = False
        say(agent, ASKED, "t2")
        assert words_of(pretend.prompts[-1]) == f"Be brief.\n{ASKED}"
        assert transcript(engine, "t2") == [("user", ASKED), ("assistant", "Noted.")]

    def test_a_copied_middleware_works(self, engine: MemoryEngine, model: Callable[..., Model]) -> None:
        """A deep copy shares the engine."""
        clone = copy.deepcopy(SFAMSMiddleware(engine, user_id="ann"))
        create_agent(model().llm, middleware=[clone]).invoke({"messages": [HumanMessage(TOLD)]})
        assert transcript(engine, "default") == [("user", TOLD), ("assistant", "Noted.")]

    def test_messages_of_the_host_are_never_changed(self, engine: MemoryEngine, model: Callable[..., Model]) -> None:
        """The objects that a host passes in stay as they are."""
        say(agent_of(model(), engine), TOLD, "t1")
        mine = [SystemMessage("Be kind."), HumanMessage(ASKED)]
        agent_of(model(), engine, inject_as="human").invoke({"messages": mine}, on("t2"))
        assert said(mine) == [("system", "Be kind."), ("human", ASKED)]
