"""The retriever, by LangChain's own suite and by ours."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import ConfigurableField
from langchain_support import ANN
from langchain_tests.integration_tests import RetrieversIntegrationTests
from pydantic import ValidationError

from sf_ams_core import InvalidInput, MemoryEngine, Scope, Turn
from sf_ams_langchain import SFAMSRetriever

FACTS = (
    "Anna drinks black coffee in the morning.",
    "Anna drinks green tea in the afternoon.",
    "Anna never drinks milk.",
    "Anna drinks water at the gym.",
    "安娜晚上喝红酒",
)


@pytest.fixture
def filled(engine: MemoryEngine) -> MemoryEngine:
    """An engine that knows what Anna drinks."""
    for fact in FACTS:
        engine.remember(ANN, fact)
    return engine


def retriever(engine: MemoryEngine, **options: Any) -> SFAMSRetriever:
    """A retriever of Ann's memories."""
    return SFAMSRetriever(engine=engine, tenant_id=ANN.tenant, user_id=ANN.user, namespace=ANN.namespace, **options)


class TestLangChainSuite(RetrieversIntegrationTests):
    """What LangChain asks of every retriever, none of it overridden."""

    @pytest.fixture(autouse=True)
    def _filled(self, filled: MemoryEngine) -> None:
        self._engine = filled

    @property
    def retriever_constructor(self) -> type[BaseRetriever]:
        return SFAMSRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"engine": self._engine, "user_id": "ann"}

    @property
    def retriever_query_example(self) -> str:
        return "What does Anna drink?"


def test_a_document_says_where_it_comes_from(engine: MemoryEngine) -> None:
    """Id, type, importance, score, dates and sources are on the document, all of them JSON."""
    engine.add_turns(ANN, "s1", [Turn("user", "I moved to Berlin in March.", id="t1", speaker="Ann")])
    (document,) = retriever(engine, k=1).invoke("Where did I move?")
    memory = engine.get(ANN, document.id or "")
    assert memory is not None
    assert document.page_content == memory.content
    assert document.metadata["memory_id"] == memory.id
    assert document.metadata["type"] == memory.type
    assert document.metadata["importance"] == memory.importance
    assert document.metadata["created_at"] == memory.created_at.isoformat()
    assert document.metadata["source_ids"] == ["t1"]
    assert document.metadata["session_id"] == "s1"
    assert document.metadata["score"] > 0
    document.model_dump_json()


@pytest.mark.parametrize("query", ["", "   ", "\n"])
async def test_a_blank_query_finds_nothing(filled: MemoryEngine, query: str) -> None:
    """Nothing asked, nothing found, no error."""
    assert retriever(filled).invoke(query) == await retriever(filled).ainvoke(query) == []


async def test_async_finds_the_same(filled: MemoryEngine) -> None:
    """The async twin returns what the sync verb returns."""
    found = await retriever(filled).ainvoke("安娜喝什么")
    assert [d.id for d in found] == [d.id for d in retriever(filled).invoke("安娜喝什么")]
    assert found[0].page_content == "安娜晚上喝红酒"


def test_filters_reach_the_engine(engine: MemoryEngine) -> None:
    """`types` and `min_importance` narrow what is found."""
    engine.remember(ANN, "Anna drinks tea.", type="preference", importance=0.9)
    engine.remember(ANN, "Anna drinks coffee.", type="fact", importance=0.4)
    assert [d.metadata["type"] for d in retriever(engine, types=("preference",)).invoke("Anna drinks")] == [
        "preference"
    ]
    assert [d.metadata["importance"] for d in retriever(engine, min_importance=0.5).invoke("Anna drinks")] == [0.9]


@pytest.mark.parametrize(
    "other", [Scope("acme", "ann"), Scope("default", "ben"), Scope("default", "ann", "shop"), Scope("default", "an")]
)
def test_no_scope_sees_another(filled: MemoryEngine, other: Scope) -> None:
    """Another tenant, user or namespace finds nothing of Ann's."""
    stranger = SFAMSRetriever(engine=filled, tenant_id=other.tenant, user_id=other.user, namespace=other.namespace)
    assert stranger.invoke("What does Anna drink?") == []


def test_k_can_be_configured_and_bound(filled: MemoryEngine) -> None:
    """`k` follows the ways LangChain has to change it."""
    configurable = retriever(filled).configurable_fields(k=ConfigurableField(id="k"))
    assert len(configurable.invoke("Anna drinks", {"configurable": {"k": 2}})) == 2
    assert len(retriever(filled).bind(k=1).invoke("Anna drinks")) == 1


@pytest.mark.parametrize("bad", [{"user_id": " "}, {"tenant_id": ""}, {"k": 0}, {"min_importance": 2}])
def test_misuse_is_told_at_construction(engine: MemoryEngine, bad: dict[str, Any]) -> None:
    """Blank ids and numbers out of range never become a retriever."""
    with pytest.raises(ValidationError):
        SFAMSRetriever(**{"engine": engine, "user_id": "ann", **bad})


def test_a_wrong_k_of_a_call_is_misuse(filled: MemoryEngine) -> None:
    """`k=0` in a call is an error and not the default."""
    with pytest.raises(InvalidInput):
        retriever(filled).invoke("Anna drinks", k=0)


def test_clones_work_and_dumps_leave_the_engine_out(filled: MemoryEngine) -> None:
    """Copies and pickles find the engine; a dump holds plain values."""
    one = retriever(filled)
    for clone in (copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
        assert clone.invoke("Anna drinks")
    assert "engine" not in one.model_dump()
    assert "engine" not in repr(one)


def test_the_kill_switch_finds_nothing(filled: MemoryEngine) -> None:
    """Switched off, nothing is recalled."""
    filled.enabled = False
    assert retriever(filled).invoke("Anna drinks") == []
