"""Embedders that come with the library, and the guard through which any embedder or model is called."""

from __future__ import annotations

from typing import Literal

from ..errors import InvalidInput, MissingExtra
from ..events import Events
from ..ports import Embedder
from .guard import Breaker, GuardedEmbedder, GuardedModel, ProviderPool
from .hash import HashEmbedder
from .local import LocalEmbedder

__all__ = [
    "Breaker",
    "GuardedEmbedder",
    "GuardedModel",
    "HashEmbedder",
    "LocalEmbedder",
    "ProviderPool",
    "resolve_embedder",
]


def resolve_embedder(choice: Embedder | Literal["auto", "local", "hash"]) -> Embedder:
    """The embedder meant by `choice`; `auto` is the local model where installed, else hashing, and logs which.

    Raises MissingExtra for `local` without its package, InvalidInput for anything that is no embedder.
    """
    match choice:
        case "auto":
            return _best_installed()
        case "local":
            return LocalEmbedder()
        case "hash":
            return HashEmbedder()
        case str():
            raise InvalidInput(f"embedder={choice!r} is unknown; use 'auto', 'local', 'hash' or an Embedder")
    if isinstance(choice, type) or not callable(getattr(choice, "embed", None)):
        kind = choice.__name__ if isinstance(choice, type) else type(choice).__name__
        raise InvalidInput(f"embedder must be an object with `space` and `embed`, got {kind}")
    return choice


def _best_installed() -> Embedder:
    embedder: Embedder
    try:
        embedder, hint = LocalEmbedder(), ""
    except MissingExtra as missing:
        embedder, hint = HashEmbedder(), str(missing)
    Events().emit("embedder.chosen", space=embedder.space, hint=hint)
    return embedder
