"""What every path works with: the opened parts of one engine."""

from __future__ import annotations

from dataclasses import dataclass, field

from .clock import Clock
from .embedders.guard import GuardedEmbedder, GuardedModel
from .events import Events
from .indexes.cache import SnapshotCache
from .settings import Settings
from .stores.database import Database
from .usage import UseLog


@dataclass(slots=True)
class Kernel:
    """The parts of an engine. `enabled` is the kill switch: transcript only, no recall, no memories."""

    database: Database
    embedder: GuardedEmbedder
    model: GuardedModel | None
    clock: Clock
    settings: Settings
    events: Events
    snapshots: SnapshotCache
    uses: UseLog = field(default_factory=UseLog)
    enabled: bool = True
