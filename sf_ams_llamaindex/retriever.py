"""Memories as nodes, for query engines and for chat engines that bring their own context."""

from __future__ import annotations

from typing import Any

from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from sf_ams_core.engine import MemoryEngine
from sf_ams_core.errors import InvalidInput
from sf_ams_core.types import Hit, Recall, Scope

# A model reads what a memory says, of what kind it is and when it was said; the rest is for programs.
_FOR_PROGRAMS = ["memory_id", "importance", "created_at", "session", "source_ids"]


class SFAMSRetriever(BaseRetriever):
    """The `k` memories of one user that answer a query, best first.

    A node's id is the memory's; its metadata names type, importance, dates and where it comes from. A blank query or a
    memory that is down give no nodes. Raises InvalidInput for a blank or over-long id and a `k` outside 1..1000.
    """

    def __init__(
        self,
        engine: MemoryEngine,
        user_id: str,
        tenant_id: str = "default",
        namespace: str = "default",
        k: int = 5,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if not 1 <= k <= 1_000:
            raise InvalidInput(f"k must be a whole number from 1 to 1000, got {k!r}")
        self._engine = engine
        self._scope = Scope(tenant_id, user_id, namespace)
        self._k = k

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        if not query_bundle.query_str.strip():
            return []
        return _nodes(self._engine.recall(self._scope, query_bundle.query_str, k=self._k))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        if not query_bundle.query_str.strip():
            return []
        return _nodes(await self._engine.arecall(self._scope, query_bundle.query_str, k=self._k))


def _nodes(recall: Recall) -> list[NodeWithScore]:
    return [NodeWithScore(node=_node(hit), score=hit.score) for hit in recall]


def _node(hit: Hit) -> TextNode:
    memory = hit.memory
    metadata = {
        "memory_id": memory.id,
        "type": memory.type,
        "importance": memory.importance,
        "created_at": memory.created_at.isoformat(),
        "said_at": memory.said_at.isoformat(),
        "source": memory.source,
        "speaker": memory.speaker,
        "session": memory.session,
        "source_ids": ",".join(hit.source_ids),  # vector stores take no lists
    }
    return TextNode(
        id_=memory.id,
        text=hit.content,
        metadata={name: value for name, value in metadata.items() if value is not None},
        excluded_llm_metadata_keys=_FOR_PROGRAMS,
        excluded_embed_metadata_keys=list(metadata),
    )
