"""Structured log lines and counters: ids and counts, never the text of a memory."""

from __future__ import annotations

import json
import logging
import threading
import uuid
from collections import Counter
from collections.abc import Mapping

_LOG = logging.getLogger("sf_ams")
_LOG.addHandler(logging.NullHandler())

Field = str | int | float | bool | None | list[str]


def new_trace_id() -> str:
    """An id that ties a recall, its log line and its citations together."""
    return f"trace_{uuid.uuid4().hex[:12]}"


class Events:
    """One JSON line on the `sf_ams` logger and one counter for each thing that happened."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def emit(self, event: str, **fields: Field) -> None:
        """Log `event` at INFO and count it."""
        self._record(logging.INFO, event, fields)

    def fault(self, where: str, error: BaseException | None = None, **fields: Field) -> None:
        """Log a fault of `where` at WARNING and count it; of the error only its type is told."""
        if error is not None:
            fields["error"] = type(error).__name__
        self._record(logging.WARNING, f"fault.{where}", fields)

    @property
    def counters(self) -> Mapping[str, int]:
        """How often each event happened since the engine was opened."""
        with self._lock:
            return dict(self._counts)

    def _record(self, level: int, event: str, fields: Mapping[str, Field]) -> None:
        with self._lock:
            self._counts[event] += 1
        if _LOG.isEnabledFor(level):
            _LOG.log(level, "%s", json.dumps({"event": event, **fields}, ensure_ascii=False))
