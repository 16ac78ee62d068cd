"""LangChain's embeddings and chat models as the engine's sockets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

import numpy as np
from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseLanguageModel
from langchain_core.messages import AIMessage

from sf_ams_core.errors import InvalidInput
from sf_ams_core.ports import Embedder, LanguageModel, Vectors

# What providers call the model and the length of its vectors.
_MODEL_NAMES = ("model", "model_name", "model_id", "deployment", "repo_id")
_DIMENSIONS = ("dimensions", "dimension", "output_dimensionality", "size")


@overload
def from_langchain(source: Embeddings, *, space: str | None = None) -> Embedder: ...
@overload
def from_langchain(source: BaseLanguageModel[AIMessage] | BaseLanguageModel[str]) -> LanguageModel: ...


def from_langchain(
    source: Embeddings | BaseLanguageModel[AIMessage] | BaseLanguageModel[str], *, space: str | None = None
) -> Embedder | LanguageModel:
    """Embeddings as an `Embedder`, a chat or completion model as a `LanguageModel`; nothing is called yet.

    `space` names the vector space; by default it is made of the class, model name and dimensions of the embeddings,
    so give it where two models of one class carry no name. Raises InvalidInput for anything else.
    """
    if isinstance(source, Embeddings):
        return _LangChainEmbedder(source, space or _space(source))
    if isinstance(source, BaseLanguageModel):
        return _LangChainModel(source)
    raise InvalidInput(f"from_langchain takes embeddings or a chat model, got {type(source).__name__}")


class _LangChainEmbedder:
    def __init__(self, embeddings: Embeddings, space: str) -> None:
        self._embeddings = embeddings
        self.space = space

    def embed(self, texts: Sequence[str]) -> Vectors:
        return np.asarray(self._embeddings.embed_documents(list(texts)), dtype=np.float32)

    def embed_query(self, text: str) -> Vectors:
        return np.asarray(self._embeddings.embed_query(text), dtype=np.float32)


class _LangChainModel:
    def __init__(self, model: BaseLanguageModel[AIMessage] | BaseLanguageModel[str]) -> None:
        self._model = model

    def complete(self, prompt: str) -> str:
        # Without callbacks of its own it would stream into the answer of the run that the engine is called in.
        reply = self._model.invoke(prompt, config={"callbacks": []})
        return str(reply.text) if isinstance(reply, AIMessage) else reply


def _space(embeddings: Embeddings) -> str:
    name = _first(embeddings, _MODEL_NAMES) or type(embeddings).__module__
    # The engine reads a number at the end as the dimension; without one it takes that of the first answer.
    return f"{type(embeddings).__name__}:{name}/{_first(embeddings, _DIMENSIONS) or '?'}"


def _first(source: object, names: Sequence[str]) -> str | int | None:
    values = (getattr(source, name, None) for name in names)
    return next((value for value in values if isinstance(value, str | int) and value), None)
