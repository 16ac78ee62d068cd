"""Which memories were recalled, kept until somebody writes it down: no reader waits for its own use to be counted."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from datetime import datetime

from .types import Scope

Uses = Mapping[str, tuple[int, datetime]]


class UseLog:
    """Counts of use not yet in the database, by scope."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[Scope, dict[str, tuple[int, datetime]]] = {}

    def note(self, scope: Scope, ids: Iterable[str], at: datetime) -> None:
        """Count one use of each id."""
        with self._lock:
            counts = self._waiting.setdefault(scope, {})
            for memory_id in ids:
                times, latest = counts.get(memory_id, (0, at))
                counts[memory_id] = (times + 1, max(latest, at))

    def take(self, scope: Scope) -> Uses:
        """What waits for a scope; it is the caller's to write from now on."""
        with self._lock:
            return self._waiting.pop(scope, {})

    def give_back(self, scope: Scope, uses: Uses) -> None:
        """Put back what could not be written."""
        if not uses:
            return
        with self._lock:
            counts = self._waiting.setdefault(scope, {})
            for memory_id, (times, at) in uses.items():
                already, latest = counts.get(memory_id, (0, at))
                counts[memory_id] = (already + times, max(latest, at))

    def scopes(self) -> list[Scope]:
        """The scopes that have something waiting."""
        with self._lock:
            return list(self._waiting)
