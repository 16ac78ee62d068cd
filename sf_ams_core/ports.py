"""The sockets: what a user may plug in.

`Embedder` and `LanguageModel` are all that the engine needs from outside, and both may be absent or broken.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors of one space."""

    @property
    def space(self) -> str:
        """Model and dimension, e.g. `use-m3/512`; vectors of two spaces are never compared."""
        ...

    def embed(self, texts: Sequence[str]) -> Vectors:
        """An array of shape (len(texts), dimension), float32; any length, made unit by the engine."""
        ...

    def embed_query(self, text: str) -> Vectors:
        """An array of shape (dimension,) for a question; the same as `embed` where the model makes no difference."""
        ...


@runtime_checkable
class LanguageModel(Protocol):
    """Completes a prompt."""

    def complete(self, prompt: str) -> str:
        """The model's reply as text."""
        ...
