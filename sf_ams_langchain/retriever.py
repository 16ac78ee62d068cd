"""Recall as a LangChain retriever: each memory a document."""

from __future__ import annotations

from typing import Self

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import Field, model_validator

from sf_ams_core.engine import MemoryEngine
from sf_ams_core.types import Hit, Scope

from .identity import DEFAULT


class SFAMSRetriever(BaseRetriever):
    """Finds the `k` memories of one user that answer a query, best first; `invoke(query, k=...)` overrides `k`.

    A document's id is the memory's; its metadata names type, importance, score, dates and the turns it comes from.
    A blank query or a memory that is down give no documents. Raises a ValidationError for blank ids.
    """

    engine: MemoryEngine = Field(exclude=True, repr=False)
    user_id: str
    tenant_id: str = DEFAULT
    namespace: str = DEFAULT
    k: int = Field(5, ge=1, le=1000)
    types: tuple[str, ...] | None = None
    min_importance: float = Field(0.0, ge=0, le=1)

    @model_validator(mode="after")
    def _names_a_scope(self) -> Self:
        self._scope()
        return self

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        if not query.strip():
            return []
        found = self.engine.recall(
            self._scope(), query, k=self.k if k is None else k, types=self.types, min_importance=self.min_importance
        )
        return [_document(hit) for hit in found]

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        if not query.strip():
            return []
        found = await self.engine.arecall(
            self._scope(), query, k=self.k if k is None else k, types=self.types, min_importance=self.min_importance
        )
        return [_document(hit) for hit in found]

    def _scope(self) -> Scope:
        return Scope(self.tenant_id, self.user_id, self.namespace)


def _document(hit: Hit) -> Document:
    memory = hit.memory
    return Document(
        id=memory.id,
        page_content=hit.content,
        metadata={
            "memory_id": memory.id,
            "type": memory.type,
            "importance": memory.importance,
            "score": hit.score,
            "created_at": memory.created_at.isoformat(),
            "occurred_at": memory.occurred_at.isoformat() if memory.occurred_at else None,
            "source": memory.source,
            "speaker": memory.speaker,
            "session_id": memory.session,
            "entities": list(memory.entities),
            "source_ids": list(hit.source_ids),
        },
    )
