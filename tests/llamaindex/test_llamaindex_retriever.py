"""SFAMSRetriever: memories as nodes."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import pytest
from llama_index.core import QueryBundle
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import MetadataMode
from llamaindex_support import ANN

from sf_ams_core.engine import MemoryEngine
from sf_ams_core.errors import InvalidInput, InvalidScope
from sf_ams_core.types import Scope, Turn
from sf_ams_llamaindex import SFAMSRetriever

FACTS = ("My favourite editor is Helix.", "The demo is due on 27 October.", "我喜欢喝绿茶。", "Maya does the design.")


@pytest.fixture
def retriever(engine: MemoryEngine) -> SFAMSRetriever:
    for fact in FACTS:
        engine.remember(ANN, fact)
    return SFAMSRetriever(engine=engine, tenant_id="default", user_id="ann", namespace="default", k=2)


def test_a_query_finds_memories_as_nodes(engine: MemoryEngine, retriever: SFAMSRetriever) -> None:
    """The best memory comes first, as a node that bears its id, score, text and bookkeeping."""
    found = retriever.retrieve("Which editor is my favourite?")
    assert 1 <= len(found) <= 2
    memory = engine.get(ANN, found[0].node.node_id)
    assert memory is not None
    assert found[0].text == memory.content == FACTS[0]
    assert found[0].score is not None
    assert found[0].metadata["memory_id"] == memory.id
    assert found[0].metadata["type"] == memory.type
    assert found[0].metadata["importance"] == memory.importance
    assert found[0].metadata["created_at"] == memory.created_at.isoformat()


async def test_the_async_twin_finds_the_same(retriever: SFAMSRetriever) -> None:
    """Sync and async retrieval agree, for text and for a query bundle."""
    assert await retriever.aretrieve("绿茶") == retriever.retrieve(QueryBundle("绿茶"))
    assert retriever.retrieve("绿茶")[0].text == FACTS[2]


def test_metadata_is_flat_and_quiet(engine: MemoryEngine, retriever: SFAMSRetriever) -> None:
    """Metadata suits any vector store; the model reads the words and kind, an embedder the words alone."""
    engine.add_turns(ANN, "s", [Turn("user", "My favourite editor theme is Onedark.", id="t1", speaker="Ann")])
    node = next(found.node for found in retriever.retrieve("editor theme Onedark") if "Onedark" in found.text)
    assert all(isinstance(value, str | int | float) for value in node.metadata.values())
    assert node.metadata["source_ids"] == "t1"
    assert node.get_content(MetadataMode.EMBED) == "My favourite editor theme is Onedark."
    assert "memory_id" not in node.get_content(MetadataMode.LLM)


def test_a_query_engine_answers_from_memories(retriever: SFAMSRetriever) -> None:
    """The retriever serves LlamaIndex's query engines."""
    engine = RetrieverQueryEngine.from_args(retriever, llm=MockLLM())
    assert "Helix" in str(engine.query("Which editor is my favourite?"))


@pytest.mark.parametrize("scope", [Scope("default", "bob"), Scope("t2", "ann"), Scope("default", "ann", "n2")])
def test_other_scopes_find_nothing(engine: MemoryEngine, retriever: SFAMSRetriever, scope: Scope) -> None:
    """Another user, tenant or namespace finds nothing of this one."""
    other = SFAMSRetriever(engine=engine, tenant_id=scope.tenant, user_id=scope.user, namespace=scope.namespace)
    assert retriever.retrieve("editor")
    assert other.retrieve("editor") == []


@pytest.mark.parametrize("blank", ["", "  \n"])
def test_a_blank_query_finds_nothing(retriever: SFAMSRetriever, blank: str) -> None:
    """Nothing asked, nothing found."""
    assert retriever.retrieve(blank) == []


def test_a_blank_user_is_refused(engine: MemoryEngine) -> None:
    """Without a user there is nobody whose memories these are."""
    with pytest.raises(InvalidScope):
        SFAMSRetriever(engine=engine, user_id=" ")


@pytest.mark.parametrize("k", [0, 1_001])
def test_an_impossible_number_is_refused(engine: MemoryEngine, k: int) -> None:
    """A number of memories that no recall could give is refused before the first query."""
    with pytest.raises(InvalidInput, match="k must be"):
        SFAMSRetriever(engine=engine, user_id="ann", k=k)


def test_a_ruined_store_finds_nothing_and_raises_nothing(retriever: SFAMSRetriever, path: Path) -> None:
    """A recall that fails inside an agent is no reason to stop it."""
    for file in path.parent.iterdir():
        file.write_bytes(b"this was a database " * 4_096)
    assert retriever.retrieve("anything") == []


def test_switched_off_it_finds_nothing(engine: MemoryEngine, retriever: SFAMSRetriever) -> None:
    """The kill switch leaves no nodes."""
    engine.enabled = False
    assert retriever.retrieve("editor") == []


def test_copies_and_pickles_find_the_same(retriever: SFAMSRetriever) -> None:
    """A retriever survives deepcopy and pickle."""
    expected = retriever.retrieve("editor")
    assert copy.deepcopy(retriever).retrieve("editor") == expected
    assert pickle.loads(pickle.dumps(retriever)).retrieve("editor") == expected
