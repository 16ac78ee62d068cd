"""Open engines by name, so that an adapter can be pickled without its engine and find it again."""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING

from .errors import InvalidInput, NotFound
from .types import check_id

if TYPE_CHECKING:
    from .engine import MemoryEngine

_engines: weakref.WeakValueDictionary[str, MemoryEngine] = weakref.WeakValueDictionary()
_lock = threading.Lock()


def register_engine(engine: MemoryEngine, ref: str) -> None:
    """Let `ref` name an open engine in this process. Raises InvalidInput where it names another one."""
    check_id(ref, "ref")
    with _lock:
        if _engines.get(ref) not in (None, engine):
            raise InvalidInput(f"{ref!r} names another engine; close that one first or choose another name")
        _engines[ref] = engine
    engine.ref = ref


def forget_engine(engine: MemoryEngine) -> None:
    """Let nothing name an engine any more."""
    with _lock:
        for ref in [ref for ref, named in _engines.items() if named is engine]:
            del _engines[ref]


def resolve_engine(ref: str) -> MemoryEngine:
    """The open engine that `ref` names. Raises NotFound."""
    with _lock:
        engine = _engines.get(ref)
    if engine is None:
        raise NotFound(f"no open engine is registered as {ref!r}; open one and call register_engine(engine, {ref!r})")
    return engine
