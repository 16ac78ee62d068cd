"""The tools: what they do, what they say, and whose memory they touch."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_classic.agents import AgentExecutor, create_tool_calling_agent
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.tools import BaseTool
from langchain_support import ANN, Model
from langchain_tests.integration_tests import ToolsIntegrationTests
from langchain_tests.unit_tests import ToolsUnitTests

from sf_ams_core import InvalidInput, InvalidScope, MemoryEngine, Scope
from sf_ams_core.cli.loopback import ChatReply, ToolCall
from sf_ams_langchain import MemoryContext, create_memory_tools

STATEMENT = "Anna's train leaves at 7:45 on 3 May."
EVIL = Scope("default", "evil")


def tools_of(engine: MemoryEngine, **identity: Any) -> Mapping[str, BaseTool]:
    """The tools by name; Ann's by default."""
    return {tool.name: tool for tool in create_memory_tools(engine, **(identity or {"user_id": "ann"}))}


def call(tool: BaseTool, /, **args: Any) -> ToolMessage:
    """The result of a call that a model made."""
    result = tool.invoke({"type": "tool_call", "id": "c1", "name": tool.name, "args": args})
    assert isinstance(result, ToolMessage)
    return result


ARGUMENTS: dict[str, dict[str, Any]] = {
    "save_memory": {"content": STATEMENT, "importance": 0.8},
    "recall_memories": {"query": "When does the train leave?"},
    "correct_memory": {"target": "Anna's coffee", "new_content": "Anna drinks her coffee with milk."},
    "forget_memory": {"target": "Anna's coffee"},
}


def save(tools: Mapping[str, BaseTool], **args: Any) -> ToolMessage:
    """The result of saving the statement, or another one."""
    return call(tools["save_memory"], **{**ARGUMENTS["save_memory"], **args})


class _Suite:
    @pytest.fixture(autouse=True, params=sorted(ARGUMENTS))
    def _chosen(self, engine: MemoryEngine, request: pytest.FixtureRequest) -> None:
        # What an agent saved it may correct; the words of a user need the user.
        engine.remember(ANN, "Anna's coffee is black.", source="assistant", importance=0.8)
        self._tool = tools_of(engine)[request.param]

    @property
    def tool_constructor(self) -> BaseTool:
        return self._tool

    @property
    def tool_invoke_params_example(self) -> dict[str, Any]:
        return ARGUMENTS[self._tool.name]


class TestUnitSuite(_Suite, ToolsUnitTests):
    """What LangChain asks of every tool, none of it overridden."""


class TestIntegrationSuite(_Suite, ToolsIntegrationTests):
    """What LangChain asks of every tool when it runs, none of it overridden."""


class TestVerbs:
    """What each tool does and says."""

    def test_what_is_saved_is_recalled_as_the_assistants(self, engine: MemoryEngine) -> None:
        """A saved statement comes back in a fenced block with its id; it counts as said by the assistant."""
        tools = tools_of(engine)
        (memory_id,) = save(tools).artifact
        memory = engine.get(ANN, memory_id)
        assert memory is not None
        assert memory.source == "assistant"
        found = call(tools["recall_memories"], query="When does the train leave?")
        assert f"[{memory_id}]" in found.text
        assert "7:45" in found.text
        assert found.text.startswith("<sf-ams-memory>")
        assert [hit["id"] for hit in found.artifact] == [memory_id]

    def test_type_and_importance_are_taken(self, engine: MemoryEngine) -> None:
        """What the model says of kind and weight is kept."""
        (memory_id,) = call(
            tools_of(engine)["save_memory"], content=STATEMENT, type="deadline", importance=0.9
        ).artifact
        memory = engine.get(ANN, memory_id)
        assert memory is not None
        assert (memory.type, memory.importance) == ("deadline", 0.9)

    def test_chinese_stays_chinese(self, engine: MemoryEngine) -> None:
        """Results hold the characters themselves."""
        tools = tools_of(engine)
        save(tools, content="用户结算账号尾号为8890")
        assert "用户结算账号尾号为8890" in call(tools["recall_memories"], query="尾号").text

    def test_nothing_found_is_said(self, engine: MemoryEngine) -> None:
        """An empty recall is no error."""
        found = call(tools_of(engine)["recall_memories"], query="platform")
        assert (found.status, found.artifact) == ("success", [])
        assert found.text

    def test_a_correction_replaces(self, engine: MemoryEngine) -> None:
        """The old statement is history, the new one is recalled."""
        tools = tools_of(engine)
        (old,) = save(tools).artifact
        (new,) = call(tools["correct_memory"], target=old, new_content="Anna's train leaves at 8:10 on 3 May.").artifact
        found = call(tools["recall_memories"], query="Anna's train")
        assert [hit["id"] for hit in found.artifact] == [new]
        assert [memory.id for memory in engine.history(ANN, new)] == [old, new]

    def test_what_is_forgotten_is_named_and_can_come_back(self, engine: MemoryEngine) -> None:
        """Forgetting says what went and is undone by `restore`."""
        tools = tools_of(engine)
        save(tools)
        gone = call(tools["forget_memory"], target="Anna's train")
        assert "7:45" in gone.text
        assert "brought back" in gone.text
        assert call(tools["recall_memories"], query="Anna's train").artifact == []
        engine.restore(ANN, gone.artifact)
        assert len(call(tools["recall_memories"], query="Anna's train").artifact) == 1

    @pytest.mark.parametrize(
        ("name", "args"),
        [
            ("forget_memory", {"target": "the unknown thing"}),
            ("correct_memory", {"target": "mem_nowhere", "new_content": STATEMENT}),
            ("save_memory", {"content": " "}),
            ("save_memory", {"content": STATEMENT, "importance": 7}),
            ("save_memory", {"content": STATEMENT, "type": "secret"}),
            ("recall_memories", {}),
        ],
    )
    def test_what_cannot_be_done_is_told_to_the_model(
        self, engine: MemoryEngine, name: str, args: dict[str, Any]
    ) -> None:
        """Refusals, unknown targets and bad arguments are error results, not exceptions."""
        result = call(tools_of(engine)[name], **args)
        assert result.status == "error"
        assert result.text

    async def test_async_does_the_same(self, engine: MemoryEngine) -> None:
        """Each tool has a native twin."""
        tools = tools_of(engine)
        assert "Saved" in await tools["save_memory"].ainvoke(ARGUMENTS["save_memory"])
        assert "7:45" in await tools["recall_memories"].ainvoke({"query": "Anna's train"})
        await tools["correct_memory"].ainvoke({"target": "Anna's train", "new_content": "Anna's train leaves at 8:10."})
        assert "8:10" in await tools["forget_memory"].ainvoke({"target": "Anna's train"})

    def test_include_chooses(self, engine: MemoryEngine) -> None:
        """Only what is asked for is made; an unknown name is misuse."""
        assert [tool.name for tool in create_memory_tools(engine, user_id="ann", include=["recall"])] == [
            "recall_memories"
        ]
        with pytest.raises(InvalidInput):
            create_memory_tools(engine, user_id="ann", include=["erase"])  # type: ignore[list-item]

    def test_tools_survive_pickling(self, engine: MemoryEngine) -> None:
        """A pickled tool finds its engine again."""
        tool = pickle.loads(pickle.dumps(tools_of(engine)["save_memory"]))
        assert call(tool, **ARGUMENTS["save_memory"]).status == "success"


@dataclass
class OwnContext:
    """A host's own context, which happens to name a user."""

    user_id: str
    locale: str = "en"


def agent_of(engine: MemoryEngine, model: Callable[..., Model], args: Mapping[str, Any], **identity: Any) -> Any:
    """An agent whose model calls `save_memory` with `args` and then says that it is done."""
    pretend = model([ChatReply(tool_calls=(ToolCall("save_memory", {"importance": 0.8, **args}),)), ChatReply("Done.")])
    return create_agent(pretend.llm, create_memory_tools(engine, **identity))


ASK = {"messages": [HumanMessage("Remember my train.")]}
FORGED: list[dict[str, Any]] = [
    {"user_id": "evil"},
    {"tenant_id": "evil", "user_id": "evil", "namespace": "evil", "session_id": "evil"},
    {"runtime": {"context": {"user_id": "evil"}, "config": {"configurable": {"user_id": "evil"}}}},
    {"config": {"configurable": {"user_id": "evil"}}},
    {"scope": {"tenant": "default", "user": "evil"}},
]


class TestIdentity:
    """Whose memory a tool touches is never the model's choice."""

    @pytest.mark.parametrize("forged", FORGED)
    def test_a_forged_argument_changes_nothing_in_a_direct_call(
        self, engine: MemoryEngine, forged: dict[str, Any]
    ) -> None:
        """Arguments beyond the declared ones are dropped."""
        assert save(tools_of(engine), **forged).status == "success"
        assert engine.stats(ANN).active == 1

    @pytest.mark.parametrize("forged", FORGED)
    @pytest.mark.parametrize("identity", [{"user_id": "ann"}, {}])
    def test_a_forged_argument_changes_nothing_in_an_agent(
        self, engine: MemoryEngine, model: Callable[..., Model], forged: dict[str, Any], identity: dict[str, Any]
    ) -> None:
        """Nor in an agent, bound to a user or to the run."""
        agent = agent_of(engine, model, {"content": STATEMENT, **forged}, **identity)
        agent.invoke(ASK, context=MemoryContext(user_id="ann"))
        assert (engine.stats(ANN).active, engine.stats(EVIL).active) == (1, 0)

    @pytest.mark.parametrize("forged", FORGED)
    def test_a_forged_argument_names_nobody_where_the_run_does_not(
        self, engine: MemoryEngine, forged: dict[str, Any]
    ) -> None:
        """Without an identity a call is refused, whatever its arguments claim."""
        tool = create_memory_tools(engine)[0]
        result = call(tool, content=STATEMENT, **forged)
        assert (result.status, "no user" in result.text) == ("error", True)
        assert engine.stats(EVIL).active == 0

    def test_a_forged_argument_changes_nothing_in_the_classic_executor(
        self, engine: MemoryEngine, model: Callable[..., Model]
    ) -> None:
        """The executor of langchain-classic passes everything on; the tool drops it."""
        args = {**ARGUMENTS["save_memory"], "user_id": "evil", "tenant_id": "evil"}
        pretend = model([ChatReply(tool_calls=(ToolCall("save_memory", args),)), ChatReply("Done.")])
        prompt = ChatPromptTemplate.from_messages([("human", "{input}"), MessagesPlaceholder("agent_scratchpad")])
        tools = create_memory_tools(engine, user_id="ann")
        agent = create_tool_calling_agent(pretend.llm, tools, prompt)
        AgentExecutor(agent=agent, tools=tools, stream_runnable=False).invoke({"input": "Remember my train."})
        assert (engine.stats(ANN).active, engine.stats(EVIL).active) == (1, 0)

    @pytest.mark.parametrize(
        "run",
        [
            {"context": MemoryContext(user_id="ann")},
            {"context": {"user_id": "ann"}},
            {"context": OwnContext("ann")},
            {"config": {"configurable": {"user_id": "ann"}}},
            {"context": {"locale": "en"}, "config": {"configurable": {"user_id": "ann"}}},
        ],
        ids=["our context", "a dict", "own context", "config", "config beside a context"],
    )
    async def test_the_run_says_who(
        self, engine: MemoryEngine, model: Callable[..., Model], run: dict[str, Any]
    ) -> None:
        """Context of any kind, or the run's config, names the user; sync and async agree."""
        agent_of(engine, model, {"content": STATEMENT}).invoke(ASK, **run)
        await agent_of(engine, model, {"content": "Ann lives in Berlin now."}).ainvoke(ASK, **run)
        assert engine.stats(ANN).active == 2

    def test_every_part_of_the_scope_comes_from_the_run(
        self, engine: MemoryEngine, model: Callable[..., Model]
    ) -> None:
        """Tenant and namespace too."""
        context = MemoryContext(user_id="ann", tenant_id="acme", namespace="shop", session_id="s9")
        agent_of(engine, model, {"content": STATEMENT}).invoke(ASK, context=context)
        (memory,) = engine.list(Scope("acme", "ann", "shop"))
        assert memory.session == "s9"

    def test_the_constructor_wins_over_the_run(self, engine: MemoryEngine, model: Callable[..., Model]) -> None:
        """Tools bound to a user stay with that user."""
        agent = agent_of(engine, model, {"content": STATEMENT}, user_id="ann")
        agent.invoke(ASK, context=MemoryContext(user_id="evil", tenant_id="evil"))
        assert (engine.stats(ANN).active, engine.stats(EVIL).active) == (1, 0)

    def test_a_run_without_a_user_is_refused_and_goes_on(
        self, engine: MemoryEngine, model: Callable[..., Model]
    ) -> None:
        """The model is told; nothing is written anywhere."""
        result = agent_of(engine, model, {"content": STATEMENT}).invoke(ASK)
        (told,) = [message for message in result["messages"] if isinstance(message, ToolMessage)]
        assert (told.status, "no user" in told.text) == ("error", True)
        assert result["messages"][-1].text == "Done."

    @pytest.mark.parametrize("user", [1, "", " "])
    def test_a_run_with_a_wrong_user_is_refused(
        self, engine: MemoryEngine, model: Callable[..., Model], user: object
    ) -> None:
        """Blank ids and numbers are nobody: 1 and "1" must not meet."""
        result = agent_of(engine, model, {"content": STATEMENT}).invoke(ASK, context={"user_id": user})
        (told,) = [message for message in result["messages"] if isinstance(message, ToolMessage)]
        assert told.status == "error"

    @pytest.mark.parametrize("bad", [{"user_id": ""}, {"tenant_id": " "}, {"user_id": "ann", "namespace": ""}])
    def test_blank_ids_are_told_at_construction(self, engine: MemoryEngine, bad: dict[str, str]) -> None:
        """A blank id is not "no id"."""
        with pytest.raises(InvalidScope):
            create_memory_tools(engine, **bad)  # type: ignore[arg-type]


class TestFaults:
    """An agent outlives a broken memory."""

    def test_a_locked_store_is_told_to_the_model(
        self,
        hasty: MemoryEngine,
        model: Callable[..., Model],
        locked: Callable[[], AbstractContextManager[None]],
    ) -> None:
        """The run ends with the model's answer, the tool's result is an error."""
        agent = agent_of(hasty, model, {"content": STATEMENT}, user_id="ann")
        with locked():
            result = agent.invoke(ASK)
        (told,) = [message for message in result["messages"] if isinstance(message, ToolMessage)]
        assert told.status == "error"
        assert result["messages"][-1].text == "Done."

    def test_the_kill_switch_is_told_to_the_model(self, engine: MemoryEngine) -> None:
        """Switched off, saving is refused and recall finds nothing."""
        tools = tools_of(engine)
        save(tools)
        engine.enabled = False
        assert call(tools["save_memory"], content="Anna's train is late.").status == "error"
        assert call(tools["recall_memories"], query="Anna's train").artifact == []


def test_without_a_session_a_model_corrects_no_users_words(engine: MemoryEngine) -> None:
    """Where nothing says what the user has just said, the user's words stay."""
    engine.remember(ANN, "Anna's coffee is black.")
    answer = call(tools_of(engine)["correct_memory"], target="Anna's coffee", new_content="Anna's coffee is white.")
    assert "untrusted" in answer.text
    assert [m.content for m in engine.list(ANN)] == ["Anna's coffee is black."]


def test_a_model_reaches_no_memory_with_another_label(engine: MemoryEngine) -> None:
    """What recall hides from a model can be neither let go nor read by words or id."""
    kept = engine.remember(ANN, "The salary of Anna is in the vault.", visibility="hr")
    assert kept.id is not None
    for target in ("salary of Anna", kept.id):
        answer = call(tools_of(engine)["forget_memory"], target=target)
        assert "vault" not in answer.text
    assert len(engine.list(ANN)) == 1
