"""LangChain's models as the engine's embedder and language model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.embeddings import DeterministicFakeEmbedding, Embeddings
from langchain_core.language_models import FakeListLLM
from langchain_core.runnables import RunnableLambda
from langchain_support import ANN, Model

from sf_ams_core import Embedder, InvalidInput, LanguageModel, MemoryEngine
from sf_ams_core.testing import EmbedderContract
from sf_ams_langchain import from_langchain


class TestEmbedder(EmbedderContract):
    """What the engine expects of any embedder."""

    def make(self) -> Embedder:
        return from_langchain(DeterministicFakeEmbedding(size=24))


class Named(Embeddings):
    """Embeddings that tell documents from questions, by a named model."""

    def __init__(self, model: str, dimensions: int | None = None) -> None:
        self.model = model
        self.dimensions = dimensions

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [[1.0, 0.0, len(text) / 100] for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return [0.0, 1.0, len(text) / 100]


def test_a_space_tells_models_and_dimensions_apart() -> None:
    """Another model, dimension or kind of embeddings is another space; the same is the same."""
    made = [Named("small"), Named("large"), Named("small", 3), DeterministicFakeEmbedding(size=3)]
    assert len({from_langchain(embeddings).space for embeddings in made}) == len(made)
    assert from_langchain(Named("small")).space == from_langchain(Named("small")).space
    assert from_langchain(Named("small"), space="mine/3").space == "mine/3"


def test_questions_are_embedded_as_questions() -> None:
    """A question goes through `embed_query`, statements through `embed_documents`."""
    embedder = from_langchain(Named("small", 3))
    assert embedder.embed(["ab"]).tolist() == [[1.0, 0.0, pytest.approx(0.02)]]
    assert embedder.embed_query("ab").tolist() == [0.0, 1.0, pytest.approx(0.02)]


@pytest.mark.parametrize("embeddings", [DeterministicFakeEmbedding(size=24), Named("small")])
def test_an_engine_runs_on_it(tmp_path: Path, embeddings: Embeddings) -> None:
    """An engine writes and recalls with LangChain's embeddings, named dimension or not."""
    with MemoryEngine.open(f"sqlite:///{tmp_path}/m.db", embedder=from_langchain(embeddings)) as engine:
        engine.remember(ANN, "Ann lives in Berlin.")
        found = engine.recall(ANN, "Where does Ann live?")
        assert [hit.content for hit in found] == ["Ann lives in Berlin."]
        assert engine.health().embedder_ok


def test_a_chat_model_completes(model: Callable[..., Model]) -> None:
    """A chat model gives its words, a completion model too."""
    assert from_langchain(model("Berlin.").llm).complete("Where?") == "Berlin."
    assert from_langchain(FakeListLLM(responses=["Berlin."])).complete("Where?") == "Berlin."
    assert isinstance(from_langchain(FakeListLLM(responses=[])), LanguageModel)


def test_the_engines_own_questions_stay_out_of_the_hosts_run(model: Callable[..., Model]) -> None:
    """What the engine asks a model inside a run is neither traced nor streamed as part of that run."""

    class Seen(BaseCallbackHandler):
        def __init__(self) -> None:
            self.models = 0

        def on_chat_model_start(self, *args: Any, **kwargs: Any) -> None:
            self.models += 1

    seen, own = Seen(), from_langchain(model("Berlin.").llm)
    assert RunnableLambda(own.complete).invoke("Where?", {"callbacks": [seen]}) == "Berlin."
    assert seen.models == 0


def test_anything_else_is_misuse() -> None:
    """What is neither embeddings nor a model is refused by its kind."""
    with pytest.raises(InvalidInput, match="object"):
        from_langchain(object())  # type: ignore[call-overload]
