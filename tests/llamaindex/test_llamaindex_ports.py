"""LlamaIndex embeddings and models as the engine's sockets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from llama_index.core import MockEmbedding
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.llms import MockLLM
from llamaindex_support import ANN

from sf_ams_core.engine import MemoryEngine
from sf_ams_core.errors import InvalidInput
from sf_ams_core.ports import Embedder, LanguageModel
from sf_ams_core.testing import EmbedderContract, FixedEmbedder
from sf_ams_llamaindex import from_llamaindex


class WordEmbedding(BaseEmbedding):
    """An embedding model of LlamaIndex that needs no network; questions get a vector of their own."""

    def _get_text_embedding(self, text: str) -> list[float]:
        return [float(number) for number in FixedEmbedder(16).embed([text])[0]]

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(f"query: {query}")

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_query_embedding(query)


class Offline(WordEmbedding):
    """An embedding model whose service is down."""

    def _get_text_embedding(self, text: str) -> list[float]:
        raise ConnectionError("down")


class TestAdaptedEmbedder(EmbedderContract):
    """An embedding model of LlamaIndex keeps the engine's contract."""

    def make(self) -> Embedder:
        return from_llamaindex(WordEmbedding(model_name="words"))


def test_the_space_names_class_model_and_dimension() -> None:
    """Two models, or two lengths of one, never share a space; nothing is called to name it."""
    assert from_llamaindex(MockEmbedding(embed_dim=8)).space == "MockEmbedding:unknown/8"
    assert from_llamaindex(Offline(model_name="m1")).space != from_llamaindex(Offline(model_name="m2")).space
    assert from_llamaindex(Offline(), space="mine/3").space == "mine/3"


def test_a_question_is_embedded_as_a_question() -> None:
    """Models that treat questions in their own way are asked in that way."""
    adapted = from_llamaindex(WordEmbedding(model_name="words"))
    assert adapted.embed_query("tea").tolist() == adapted.embed(["query: tea"])[0].tolist()


def test_a_model_completes() -> None:
    """A LlamaIndex LLM is a language model of the engine."""
    adapted: LanguageModel = from_llamaindex(MockLLM())
    assert isinstance(adapted, LanguageModel)
    assert adapted.complete("echo") == "echo"


@pytest.mark.parametrize("wrong", [None, "text-embedding-3-small", object()])
def test_anything_else_is_refused(wrong: Any) -> None:
    """What is neither an embedding model nor an LLM is named."""
    with pytest.raises(InvalidInput, match=type(wrong).__name__):
        from_llamaindex(wrong)


def test_an_engine_runs_on_adapted_models(tmp_path: Path) -> None:
    """An engine opened with LlamaIndex models remembers and recalls."""
    url = f"sqlite:///{tmp_path}/memory.db"
    embedder, llm = from_llamaindex(WordEmbedding(model_name="words")), from_llamaindex(MockLLM())
    with MemoryEngine.open(url, embedder=embedder, llm=llm) as engine:
        engine.remember(ANN, "My favourite editor is Helix.")
        assert "Helix" in engine.recall(ANN, "favourite editor").hits[0].content


def test_an_engine_opens_and_writes_while_the_service_is_down(tmp_path: Path) -> None:
    """An embedding service that does not answer delays vectors, not memories."""
    with MemoryEngine.open(f"sqlite:///{tmp_path}/memory.db", embedder=from_llamaindex(Offline())) as engine:
        engine.remember(ANN, "My favourite editor is Helix.")
        assert "Helix" in engine.recall(ANN, "favourite editor").hits[0].content
