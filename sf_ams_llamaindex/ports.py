"""LlamaIndex's embeddings and models as the engine's sockets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

import numpy as np
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.base.llms.base import BaseLLM

from sf_ams_core.errors import InvalidInput
from sf_ams_core.ports import Embedder, LanguageModel, Vectors

_DIMENSIONS = ("dimensions", "embed_dim", "dimension", "output_dimension")  # what embeddings call their length


@overload
def from_llamaindex(source: BaseEmbedding, *, space: str | None = None) -> Embedder: ...
@overload
def from_llamaindex(source: BaseLLM) -> LanguageModel: ...


def from_llamaindex(source: BaseEmbedding | BaseLLM, *, space: str | None = None) -> Embedder | LanguageModel:
    """An embedding model as an `Embedder`, an LLM as a `LanguageModel`; nothing is called yet.

    `space` names the vector space; by default it is made of the class, model name and dimensions of the embedding
    model, so give it where two models of one class carry no name. Raises InvalidInput for anything else.
    """
    if isinstance(source, BaseEmbedding):
        return _LlamaIndexEmbedder(source, space or _space(source))
    if isinstance(source, BaseLLM):
        return _LlamaIndexModel(source)
    raise InvalidInput(f"from_llamaindex takes an embedding model or an LLM, got {type(source).__name__}")


class _LlamaIndexEmbedder:
    def __init__(self, model: BaseEmbedding, space: str) -> None:
        self._model = model
        self.space = space

    def embed(self, texts: Sequence[str]) -> Vectors:
        return np.asarray(self._model.get_text_embedding_batch(list(texts)), dtype=np.float32)

    def embed_query(self, text: str) -> Vectors:
        return np.asarray(self._model.get_query_embedding(text), dtype=np.float32)


class _LlamaIndexModel:
    def __init__(self, llm: BaseLLM) -> None:
        self._llm = llm

    def complete(self, prompt: str) -> str:
        return self._llm.complete(prompt).text


def _space(model: BaseEmbedding) -> str:
    # The engine reads a number at the end as the dimension; without one it takes that of the first answer.
    named = (getattr(model, name, None) for name in _DIMENSIONS)
    dimension = next((value for value in named if isinstance(value, int) and value), "?")
    return f"{type(model).__name__}:{model.model_name}/{dimension}"
