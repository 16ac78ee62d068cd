"""Long-term memory for LangChain: a chat history, a retriever, tools and a middleware for agents.

Each name is imported when it is first used, so that a history does not load the whole of LangGraph.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from sf_ams_core.errors import MissingExtra

if TYPE_CHECKING:
    from .history import HISTORY_CONFIG_SPECS, SFAMSChatMessageHistory, create_history_factory
    from .identity import MemoryContext
    from .middleware import SFAMSMiddleware
    from .ports import from_langchain
    from .retriever import SFAMSRetriever
    from .tools import create_memory_tools

__all__ = [
    "HISTORY_CONFIG_SPECS",
    "MemoryContext",
    "SFAMSChatMessageHistory",
    "SFAMSMiddleware",
    "SFAMSRetriever",
    "create_history_factory",
    "create_memory_tools",
    "from_langchain",
]

_HOMES = {
    "HISTORY_CONFIG_SPECS": "history",
    "MemoryContext": "identity",
    "SFAMSChatMessageHistory": "history",
    "SFAMSMiddleware": "middleware",
    "SFAMSRetriever": "retriever",
    "create_history_factory": "history",
    "create_memory_tools": "tools",
    "from_langchain": "ports",
}
_NEEDS = ("langchain", "langchain_core", "langgraph")


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        value: object = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    except ModuleNotFoundError as missing:
        package = (missing.name or "").partition(".")[0]
        if package in _NEEDS:
            raise MissingExtra("langchain", package) from None
        raise
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
