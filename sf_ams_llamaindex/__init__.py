"""SF-AMS for LlamaIndex: a memory, a retriever, and LlamaIndex models as the engine's own."""

from sf_ams_core.errors import MissingExtra

try:
    import llama_index.core  # noqa: F401
except ModuleNotFoundError as missing:
    if (missing.name or "").partition(".")[0] == "llama_index":
        raise MissingExtra("llamaindex", "llama-index-core") from None
    raise

from sf_ams_core.registry import register_engine

from .memory import SFAMSMemory
from .messages import from_turn, to_turn
from .ports import from_llamaindex
from .retriever import SFAMSRetriever

__all__ = ["SFAMSMemory", "SFAMSRetriever", "from_llamaindex", "from_turn", "register_engine", "to_turn"]
