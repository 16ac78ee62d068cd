"""Memories as nodes, for query engines and for chat engines that bring their own context."""

from __future__ import annotations

from typing import Any

from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from sf_ams_core.conversation import Conversation
from sf_ams_core.engine import MemoryEngine
from sf_ams_core.types import Hit, Recall, Scope

# A model reads what a memory says, of what kind it is and when it was said; the rest is for programs.
_FOR_PROGRAMS = ["memory_id", "importance", "score", "source_ids", "session"]


class SFAMSRetriever(BaseRetriever):
    """The memories of one user that answer a query, best first.

    A recall that fails gives no nodes and is counted by the engine; it never raises. Raises InvalidScope for a blank
    or over-long id.
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
        self._engine = engine
        self._scope = Scope(tenant_id, user_id, namespace)
        self._k = k

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        if not query_bundle.query_str.strip():
            return []
        return _nodes(self._conversation().recall(query_bundle.query_str, k=self._k))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        if not query_bundle.query_str.strip():
            return []
        return _nodes(await self._conversation().arecall(query_bundle.query_str, k=self._k))

    def _conversation(self) -> Conversation:
        return self._engine.conversation(self._scope, "retriever")


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
        "source_ids": list(hit.source_ids),
    }
    return TextNode(
        id_=memory.id,
        text=hit.content,
        metadata={name: value for name, value in metadata.items() if value is not None},
        excluded_llm_metadata_keys=_FOR_PROGRAMS,
        excluded_embed_metadata_keys=list(metadata),
    )
