"""What the tests share: a real engine on a file, a clock that stands still, and the hashing embedder."""

import os
from datetime import UTC, datetime

import hypothesis
import pytest

from sf_ams_core import MemoryEngine, Scope
from sf_ams_core.testing import FakeClock

# Everywhere else every run tries new examples; a build says the same twice.
hypothesis.settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    hypothesis.settings.load_profile("ci")

START = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)


@pytest.fixture
def clock():
    return FakeClock(START)


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path / 'memory.db'}"


@pytest.fixture
def engine(url, clock):
    with MemoryEngine.open(url, embedder="hash", clock=clock) as opened:
        yield opened


@pytest.fixture
def scope():
    return Scope("acme", "ann")
