"""The history under the framework that calls it: nothing said is lost, nothing injected is kept."""

from __future__ import annotations

import asyncio
import copy
import pickle
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
from langchain_classic.memory import ConversationBufferMemory
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import Runnable, RunnableLambda, RunnableWithMessageHistory
from langchain_support import ANN, Model, said, words_of

from sf_ams_core import InvalidInput, InvalidScope, MemoryEngine, Scope
from sf_ams_core.cli.loopback import memory_assistant
from sf_ams_langchain import HISTORY_CONFIG_SPECS, SFAMSChatMessageHistory, create_history_factory

# The framework says so at every construction; the history itself must not warn.
pytestmark = pytest.mark.filterwarnings("ignore:RunnableWithMessageHistory is deprecated")

ASKED = ("human", "I am allergic to peanuts.")
PROMPT = ChatPromptTemplate.from_messages(
    [("system", "Be brief."), MessagesPlaceholder("past"), ("human", "{question}")]
)


def config(session: str = "s1", user: str = "ann", **more: str) -> Any:
    """What a host passes to a run."""
    return {"configurable": {"user_id": user, "session_id": session, **more}}


def remembering(runnable: Any, engine: MemoryEngine, **options: Any) -> RunnableWithMessageHistory:
    """A runnable over a list of messages, with history."""
    return RunnableWithMessageHistory(
        runnable, create_history_factory(engine, **options), history_factory_config=HISTORY_CONFIG_SPECS
    )


def remembering_by_key(
    runnable: Runnable[Any, Any], engine: MemoryEngine, **options: Any
) -> RunnableWithMessageHistory:
    """A prompt with a place for the past, with history."""
    return RunnableWithMessageHistory(
        PROMPT | runnable,
        create_history_factory(engine, **options),
        input_messages_key="question",
        history_messages_key="past",
        history_factory_config=HISTORY_CONFIG_SPECS,
    )


def model_saying(*replies: str) -> FakeListChatModel:
    """A model that gives replies in turn, streamed or whole."""
    return FakeListChatModel(responses=list(replies))


def transcript(engine: MemoryEngine, session: str = "s1", scope: Scope = ANN) -> list[tuple[str, str]]:
    """Role and words of a session's turns."""
    return [(turn.role, turn.content) for turn in engine.turns(scope, session)]


def history(engine: MemoryEngine, session: str = "s1", **options: Any) -> SFAMSChatMessageHistory:
    """A history of Ann's."""
    return SFAMSChatMessageHistory(session, engine=engine, user_id="ann", **options)


class TestMessages:
    """What a history shows and takes."""

    def test_an_empty_session_shows_one_tagged_message(self, engine: MemoryEngine) -> None:
        """Even with nothing remembered there is exactly one injected message, and it has words."""
        shown = history(engine).messages
        assert len(shown) == 1
        assert shown[0].additional_kwargs == {"sf_ams": "injected"}
        assert shown[0].text

    @pytest.mark.parametrize(("inject", "kind"), [("system", SystemMessage), ("human", HumanMessage)])
    def test_memory_of_another_session_comes_first(self, engine: MemoryEngine, inject: Any, kind: type) -> None:
        """What an earlier session said is in the one injected message, recent turns follow."""
        history(engine, "s0").add_messages([HumanMessage(ASKED[1]), AIMessage("Noted.")])
        here = history(engine, inject=inject)
        here.add_user_message("What am I allergic to?")
        first, *recent = here.messages
        assert isinstance(first, kind)
        assert "peanuts" in first.text
        assert said(recent) == [("human", "What am I allergic to?")]

    def test_without_injection_the_whole_session_is_shown(self, engine: MemoryEngine) -> None:
        """`inject="none"` gives what was said, all of it, and nothing else."""
        plain = history(engine, inject="none", recent_turns=2)
        assert plain.messages == []
        plain.add_messages([HumanMessage(f"note {n}") for n in range(9)])
        assert said(plain.messages) == [("human", f"note {n}") for n in range(9)]

    def test_recent_turns_are_whole_exchanges(self, engine: MemoryEngine) -> None:
        """The window opens with a question and never parts a tool's result from its call."""
        here = history(engine, recent_turns=3)
        call = {"name": "weather", "args": {}, "id": "c1", "type": "tool_call"}
        here.add_messages([HumanMessage("old"), AIMessage("old answer")])
        here.add_messages(
            [HumanMessage("Weather?"), AIMessage("", tool_calls=[call]), ToolMessage("21", tool_call_id="c1")]
        )
        here.add_message(AIMessage("21 degrees."))
        assert [message.type for message in here.messages[1:]] == ["human", "ai", "tool", "ai"]

    def test_what_was_injected_is_never_taken_in(self, engine: MemoryEngine) -> None:
        """Feeding a history its own messages adds nothing."""
        here = history(engine)
        here.add_messages([HumanMessage(ASKED[1], id="m1"), AIMessage("Noted.", id="m2")])
        before = engine.stats(ANN)
        here.add_messages(here.messages)
        assert engine.stats(ANN) == before

    def test_clear_empties_the_view_only(self, engine: MemoryEngine) -> None:
        """After `clear` nothing of the session is shown, but what it said is remembered."""
        here = history(engine)
        here.add_messages([HumanMessage(ASKED[1]), AIMessage("Noted.")])
        here.clear()
        assert len(here.messages) == 1
        assert engine.recall(ANN, "allergic to peanuts")

    async def test_async_twins_do_the_same(self, engine: MemoryEngine) -> None:
        """The a-twins write, read and clear the same session."""
        here = history(engine, inject="none")
        await here.aadd_messages([HumanMessage("hi")])
        assert said(await here.aget_messages()) == said(here.messages) == [("human", "hi")]
        await here.aclear()
        assert await here.aget_messages() == []

    def test_what_others_write_is_seen_at_once(self, engine: MemoryEngine) -> None:
        """A history that is read by hand is never behind."""
        reader, writer = history(engine), history(engine)
        assert len(reader.messages) == 1
        writer.add_user_message("hi")
        assert said(reader.messages[1:]) == [("human", "hi")]

    @pytest.mark.parametrize("clone", [copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])
    def test_a_clone_works_on_the_same_session(self, engine: MemoryEngine, clone: Callable[[Any], Any]) -> None:
        """Copies and pickles find their engine again."""
        here = history(engine)
        clone(here).add_user_message("hi")
        assert said(here.messages[1:]) == [("human", "hi")]

    def test_misuse_is_told_at_construction(self, engine: MemoryEngine) -> None:
        """Blank ids and an unknown way of injecting are refused before anything is read."""
        blank: list[dict[str, Any]] = [{"user_id": " "}, {"user_id": "ann", "tenant_id": ""}]
        for bad in blank:
            with pytest.raises(InvalidScope):
                SFAMSChatMessageHistory("s", engine=engine, **bad)
        with pytest.raises(InvalidInput):
            history(engine, "")
        with pytest.raises(InvalidInput):
            history(engine, inject="tool")


MODES = ["invoke", "stream", "ainvoke", "astream", "batch", "abatch", "events"]


async def run(chain: Runnable[Any, Any], mode: str, given: Any, setting: Any) -> None:
    """One run of a chain in one of its modes."""
    match mode:
        case "invoke":
            chain.invoke(given, setting)
        case "stream":
            list(chain.stream(given, setting))
        case "ainvoke":
            await chain.ainvoke(given, setting)
        case "astream":
            [_ async for _ in chain.astream(given, setting)]
        case "batch":
            chain.batch([given], setting)
        case "abatch":
            await chain.abatch([given], setting)
        case "events":
            [_ async for _ in chain.astream_events(given, setting, version="v2")]


class TestRunnable:
    """Under RunnableWithMessageHistory."""

    @pytest.mark.parametrize(
        ("mode", "inject"), [*((mode, "system") for mode in MODES), ("invoke", "human"), ("astream", "none")]
    )
    async def test_a_list_of_messages_loses_nothing(self, engine: MemoryEngine, mode: str, inject: str) -> None:
        """Two turns in list mode leave four turns in the transcript, whatever the mode."""
        chain = remembering(model_saying("one", "two"), engine, inject=inject)
        await run(chain, mode, [HumanMessage("first")], config())
        await run(chain, mode, [HumanMessage("second")], config())
        assert transcript(engine) == [("user", "first"), ("assistant", "one"), ("user", "second"), ("assistant", "two")]

    @pytest.mark.parametrize("mode", MODES)
    async def test_a_prompt_with_a_place_for_the_past_loses_nothing(self, engine: MemoryEngine, mode: str) -> None:
        """Two turns in key mode leave four turns in the transcript, whatever the mode."""
        chain = remembering_by_key(model_saying("one", "two"), engine)
        await run(chain, mode, {"question": "first"}, config())
        await run(chain, mode, {"question": "second"}, config())
        assert transcript(engine) == [("user", "first"), ("assistant", "one"), ("user", "second"), ("assistant", "two")]

    def test_a_turn_within_a_turn_loses_nothing(self, engine: MemoryEngine) -> None:
        """A run that begins and ends on the same session while another is under way costs neither its question."""
        inner = remembering(model_saying("inner answer"), engine)

        def answer(messages: list[Any]) -> AIMessage:
            inner.invoke([HumanMessage("inner question")], config())
            return AIMessage("outer answer")

        remembering(RunnableLambda(answer), engine).invoke([HumanMessage("outer question")], config())
        assert sorted(transcript(engine)) == [
            ("assistant", "inner answer"),
            ("assistant", "outer answer"),
            ("user", "inner question"),
            ("user", "outer question"),
        ]

    async def test_turns_at_once_lose_nothing(self, engine: MemoryEngine) -> None:
        """Many runs on one session at the same time all leave question and answer."""
        chain = remembering(RunnableLambda(lambda messages: AIMessage(f"re {messages[-1].text}")), engine)
        await asyncio.gather(*(chain.ainvoke([HumanMessage(f"q{n}")], config()) for n in range(8)))
        wanted = {pair for n in range(8) for pair in (("user", f"q{n}"), ("assistant", f"re q{n}"))}
        assert set(transcript(engine)) == wanted
        assert len(transcript(engine)) == 16

    def test_a_failed_answer_leaves_the_history_usable(self, engine: MemoryEngine) -> None:
        """A model that fails stores nothing, and the next turn goes as if it had not been."""

        def fail(messages: list[Any]) -> AIMessage:
            raise TimeoutError("no answer")

        with pytest.raises(TimeoutError):
            remembering(RunnableLambda(fail), engine).invoke([HumanMessage("lost")], config())
        remembering(model_saying("one"), engine).invoke([HumanMessage("first")], config())
        assert transcript(engine) == [("user", "first"), ("assistant", "one")]

    def test_an_answer_comes_from_memory_alone(self, engine: MemoryEngine, model: Callable[..., Model]) -> None:
        """A model that knows nothing but its prompt answers from what another session said."""
        chain = remembering_by_key(model(memory_assistant).llm, engine)
        chain.invoke({"question": "My train leaves at 7:45 from platform 9."}, config("s1"))
        # A history is read before it knows the question: memory answers the question before.
        chain.invoke({"question": "When does my train leave?"}, config("s2"))
        assert "7:45" in chain.invoke({"question": "When does my train leave?"}, config("s2")).text

    @pytest.mark.filterwarnings("ignore:.*langchain:langchain_core._api.deprecation.LangChainDeprecationWarning")
    def test_the_classic_memory_stands_on_it(self, engine: MemoryEngine) -> None:
        """A memory of langchain-classic keeps its messages here."""
        classic = ConversationBufferMemory(chat_memory=history(engine), return_messages=True)
        classic.save_context({"input": "first"}, {"output": "one"})
        assert said(classic.load_memory_variables({})["history"][1:]) == [("human", "first"), ("ai", "one")]
        classic.clear()
        assert len(classic.chat_memory.messages) == 1

    def test_memory_text_with_braces_is_harmless(self, engine: MemoryEngine, model: Callable[..., Model]) -> None:
        """Templates do not expand what users said."""
        pretend = model()
        chain = remembering_by_key(pretend.llm, engine)
        chain.invoke({"question": "My placeholder is {secret}."}, config())
        chain.invoke({"question": "What is my placeholder?"}, config())
        assert "{secret}" in words_of(pretend.prompts[-1])


class TestIdentity:
    """Whose history a run gets."""

    @pytest.mark.parametrize("missing", ["user_id", "session_id"])
    def test_a_run_without_identity_is_refused(self, engine: MemoryEngine, missing: str) -> None:
        """A missing user or session is an error, not somebody else's history."""
        setting = config()
        del setting["configurable"][missing]
        with pytest.raises(ValueError, match=missing):
            remembering(model_saying("one"), engine).invoke([HumanMessage("hi")], setting)

    def test_tenant_and_namespace_come_from_the_run(self, engine: MemoryEngine) -> None:
        """Where a run names a tenant or namespace, its turns are theirs alone."""
        chain = remembering(model_saying("one"), engine)
        chain.invoke([HumanMessage("hi")], config(tenant_id="acme", namespace="shop"))
        assert transcript(engine, scope=Scope("acme", "ann", "shop")) == [("user", "hi"), ("assistant", "one")]
        assert transcript(engine) == []

    def test_users_see_nothing_of_each_other(self, engine: MemoryEngine, model: Callable[..., Model]) -> None:
        """The same session id of another user is another session, and its memories are another's."""
        pretend = model()
        chain = remembering_by_key(pretend.llm, engine)
        chain.invoke({"question": ASKED[1]}, config())
        chain.invoke({"question": "What am I allergic to?"}, config(user="ben"))
        chain.invoke({"question": "What am I allergic to?"}, config(user="ben"))
        assert "peanuts" not in words_of(pretend.prompts[-1])


class TestFaults:
    """When memory is broken or off, the chat goes on."""

    def test_a_locked_store_costs_no_answer_and_no_turn(
        self, hasty: MemoryEngine, locked: Callable[[], AbstractContextManager[None]]
    ) -> None:
        """While the database is held the chain answers; afterwards what was said is there."""
        chain = remembering(model_saying("one", "two"), hasty)
        with locked():
            assert chain.invoke([HumanMessage("first")], config()).text == "one"
        chain.invoke([HumanMessage("second")], config())
        assert transcript(hasty) == [("user", "first"), ("assistant", "one"), ("user", "second"), ("assistant", "two")]

    def test_the_kill_switch_leaves_the_transcript(self, engine: MemoryEngine) -> None:
        """Switched off, a history keeps what is said and recalls nothing."""
        history(engine, "s0").add_messages([HumanMessage(ASKED[1]), AIMessage("Noted.")])
        engine.enabled = False
        here = history(engine)
        here.add_user_message("What am I allergic to?")
        assert "peanuts" not in here.messages[0].text
        assert said(here.messages[1:]) == [("human", "What am I allergic to?")]
