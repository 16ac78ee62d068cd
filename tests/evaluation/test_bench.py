"""The benchmark measures what it says it does, on a small scale."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sf_ams_core.evaluation.bench import FreeEmbedder, bench_read, bench_write, read_work


def test_a_free_vector_is_unit_and_the_same_everywhere() -> None:
    """Two embedders agree on a text, cached or not, and tell texts apart."""
    one, other = FreeEmbedder(), FreeEmbedder()
    vector = one.embed_query("a kettle")
    assert np.linalg.norm(vector) == pytest.approx(1.0, abs=1e-5)
    assert np.array_equal(vector, other.embed(["a map", "a kettle"])[1])
    assert np.array_equal(vector, one.embed(["a kettle"])[0])
    assert abs(float(vector @ other.embed_query("a map"))) < 0.3


def test_reading_is_measured_beside_its_floor(tmp_path: Path) -> None:
    """Every figure is a positive time, the ratio is warm over floor, and the bar ends full."""
    steps: list[int] = []
    read = bench_read(tmp_path, records=200, others=100, progress=lambda _what, done: steps.append(done))
    assert min(read.floor_ms, read.warm_ms, read.after_write_ms, read.cold_ms, read.load_seconds) > 0
    assert read.ratio == pytest.approx(read.warm_ms / read.floor_ms)
    assert 150 < read.records <= 220
    assert sum(steps) == read_work(200, 100)


def test_writing_is_measured_beside_its_floor(tmp_path: Path) -> None:
    """A write takes longer than embedding the texts and inserting them bare."""
    write = bench_write(tmp_path, FreeEmbedder(), turns=60)
    assert write.ms_a_turn > write.floor_ms_a_turn > 0
    assert (write.embedder, write.turns) == ("free/512", 60)
