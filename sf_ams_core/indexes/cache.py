"""Snapshots of many scopes, the least recently used dropped beyond a number of bytes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass

from .exact import Snapshot


@dataclass(slots=True)
class _Kept:
    epoch: int
    snapshot: Snapshot
    counted: int = 0  # of its bytes, when it was last looked up


class SnapshotCache:
    """Keeps a snapshot a scope and vector space; one of an older epoch is never handed out."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[int, str], _Kept] = OrderedDict()
        self._bytes = 0

    def get(self, scope_id: int, space: str, dimension: int, epoch: int) -> Snapshot:
        """The snapshot of a scope at this epoch, empty where it must be built."""
        key = (scope_id, space)
        with self._lock:
            kept = self._kept.get(key)
            if kept is None or kept.epoch < epoch or kept.snapshot.dimension != dimension:
                self._remove(key)
                kept = self._kept[key] = _Kept(epoch, Snapshot(dimension))
            elif kept.epoch > epoch:
                return Snapshot(dimension)  # a reader of an older view must not spoil the newer one
            self._kept.move_to_end(key)
            # Counted as it is found: going through all of them would cost every call of every scope.
            size = kept.snapshot.bytes
            self._bytes += size - kept.counted
            kept.counted = size
            while len(self._kept) > 1 and self._bytes > self._limit:
                self._remove(next(iter(self._kept)))
            return kept.snapshot

    def drop(self, scope_id: int) -> None:
        """Forget everything of a scope."""
        with self._lock:
            for key in [key for key in self._kept if key[0] == scope_id]:
                self._remove(key)

    def held(self, scope_id: int) -> int:
        """How many snapshots of a scope are kept."""
        with self._lock:
            return sum(key[0] == scope_id for key in self._kept)

    def _remove(self, key: tuple[int, str]) -> None:
        kept = self._kept.pop(key, None)
        self._bytes -= kept.counted if kept is not None else 0
