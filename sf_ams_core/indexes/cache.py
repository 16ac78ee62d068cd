"""Snapshots of many scopes, the least recently used dropped beyond a number of bytes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass

from .exact import Snapshot


@dataclass(frozen=True, slots=True)
class _Kept:
    epoch: int
    snapshot: Snapshot


class SnapshotCache:
    """Keeps a snapshot a scope and vector space; one of an older epoch is never handed out."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[int, str], _Kept] = OrderedDict()

    def get(self, scope_id: int, space: str, dimension: int, epoch: int) -> Snapshot:
        """The snapshot of a scope at this epoch, empty where it must be built."""
        key = (scope_id, space)
        with self._lock:
            kept = self._kept.get(key)
            if kept is None or kept.epoch < epoch or kept.snapshot.dimension != dimension:
                kept = _Kept(epoch, Snapshot(dimension))
                self._kept[key] = kept
            elif kept.epoch > epoch:
                return Snapshot(dimension)  # a reader of an older view must not spoil the newer one
            self._kept.move_to_end(key)
            self._shrink()
            return kept.snapshot

    def drop(self, scope_id: int) -> None:
        """Forget everything of a scope."""
        with self._lock:
            for key in [key for key in self._kept if key[0] == scope_id]:
                del self._kept[key]

    def held(self, scope_id: int) -> int:
        """How many snapshots of a scope are kept."""
        with self._lock:
            return sum(key[0] == scope_id for key in self._kept)

    def _shrink(self) -> None:
        while len(self._kept) > 1 and sum(k.snapshot.bytes for k in self._kept.values()) > self._limit:
            self._kept.popitem(last=False)
