"""LlamaIndex embeddings and models as the engine's sockets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

import numpy as np
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.base.llms.base import BaseLLM

from sf_ams_core.errors import InvalidInput
from sf_ams_core.ports import Embedder, LanguageModel, Vectors

_PROBE = "dimension"


class _LlamaIndexEmbedder:
    """An embedding model of LlamaIndex; its dimension is learnt from the first vector."""

    def __init__(self, model: BaseEmbedding) -> None:
        self._model = model
        self._dimension: int | None = None

    @property
    def space(self) -> str:
        if self._dimension is None:
            self._dimension = len(self._model.get_text_embedding(_PROBE))
        return f"llamaindex:{self._model.class_name()}:{self._model.model_name}/{self._dimension}"

    def embed(self, texts: Sequence[str]) -> Vectors:
        return np.asarray(self._model.get_text_embedding_batch(list(texts)), dtype=np.float32)

    def embed_query(self, text: str) -> Vectors:
        return np.asarray(self._model.get_query_embedding(text), dtype=np.float32)


class _LlamaIndexModel:
    """A language model of LlamaIndex."""

    def __init__(self, llm: BaseLLM) -> None:
        self._llm = llm

    def complete(self, prompt: str) -> str:
        return self._llm.complete(prompt).text


@overload
def from_llamaindex(model: BaseEmbedding) -> Embedder: ...
@overload
def from_llamaindex(model: BaseLLM) -> LanguageModel: ...
def from_llamaindex(model: BaseEmbedding | BaseLLM) -> Embedder | LanguageModel:
    """A LlamaIndex embedding model as an `Embedder`, a LlamaIndex LLM as a `LanguageModel`.

    The space of the vectors is named by class, model name and dimension. Raises InvalidInput for anything else.
    """
    if isinstance(model, BaseEmbedding):
        return _LlamaIndexEmbedder(model)
    if isinstance(model, BaseLLM):
        return _LlamaIndexModel(model)
    raise InvalidInput(f"from_llamaindex takes a BaseEmbedding or an LLM of llama-index, got {type(model).__name__}")
