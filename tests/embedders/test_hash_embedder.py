"""Embedding by hashing: what it finds near, and what it promises of any text."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sf_ams_core.embedders import HashEmbedder
from sf_ams_core.errors import InvalidInput
from sf_ams_core.ports import Embedder
from sf_ams_core.testing import EmbedderContract


class TestHashEmbedder(EmbedderContract):
    """The hash embedder keeps the contract of embedders."""

    def make(self) -> Embedder:
        return HashEmbedder()


def near(left: str, right: str) -> float:
    """The cosine of two texts."""
    a, b = HashEmbedder().embed([left, right])
    return float(a @ b)


@pytest.mark.parametrize(
    ("text", "alike", "unlike"),
    [
        ("The deadlines of our projects", "project deadline is on Monday", "my sister plays the violin"),
        ("项目的截止日期定在周一", "这个项目什么时候截止", "我妹妹会拉小提琴"),
        ("He misspelt Kubernetes", "kubernets cluster", "a quiet garden"),
        ("ＰＲＪ－２０２４ is late", "prj-2024", "prk-1999"),
    ],
)
def test_shared_words_are_nearer_than_none(text: str, alike: str, unlike: str) -> None:
    """Texts that share stems, Han pairs, parts of words or identifiers are nearer than texts that share nothing."""
    assert near(text, alike) > near(text, unlike) + 0.1


def test_repetition_counts_less_than_variety() -> None:
    """A word said ten times does not drown the other words of a text."""
    assert near("coffee " * 10 + "violin", "violin") > 0.25


@pytest.mark.parametrize("blank", ["", "   ", "\n\t", "\u3000"])
def test_blank_text_has_one_fixed_vector(blank: str) -> None:
    """Blank texts share one vector, and it is not zero."""
    vector = HashEmbedder().embed_query(blank)
    assert np.array_equal(vector, HashEmbedder().embed_query(""))
    assert np.linalg.norm(vector) == pytest.approx(1.0)


@pytest.mark.parametrize(("left", "right"), [("is it you?", "was he there"), ("?!", "#"), ("👍", "👎")])
def test_texts_without_words_are_still_told_apart(left: str, right: str) -> None:
    """Stop words, signs and emoji alone give vectors of their own."""
    assert near(left, right) < 0.5
    assert near(left, "") < 0.5


@settings(deadline=None)  # the first text loads the word tables
@given(st.lists(st.text(), max_size=8), st.sampled_from([1, 2, 7, 64, 512]))
def test_any_text_gives_a_unit_vector(texts: list[str], dimension: int) -> None:
    """Whatever the texts and the dimension, there is a finite unit row for each."""
    vectors = HashEmbedder(dimension).embed(texts)
    assert vectors.shape == (len(texts), dimension)
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-5)


def test_lone_surrogates_are_embedded() -> None:
    """A text that is not valid Unicode has a vector too."""
    assert np.isfinite(HashEmbedder().embed(["\ud800 coffee \udfff", "\ud800"])).all()


def test_what_follows_the_limit_is_left_out() -> None:
    """A text far beyond the limit costs no more than one at the limit, and starts the same."""
    start = "咖啡 coffee " * 2_500
    assert near(start, start + "violin" * 1_000_000) == pytest.approx(1.0)


def test_the_space_names_the_dimension() -> None:
    """Vectors of two dimensions live in two spaces."""
    assert (HashEmbedder().space, HashEmbedder(64).space) == ("hash-v1/512", "hash-v1/64")


@pytest.mark.parametrize("dimension", [0, -1])
def test_a_dimension_below_one_is_misuse(dimension: int) -> None:
    """A dimension that is not positive is refused."""
    with pytest.raises(InvalidInput, match="dimension"):
        HashEmbedder(dimension)


def test_another_process_gives_the_same_vector() -> None:
    """The vectors do not depend on Python's own, per-process hash."""
    code = "from sf_ams_core.embedders import HashEmbedder as H; print(H(64).embed_query('咖啡 coffee').tolist())"
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert told.stdout.strip() == str(HashEmbedder(64).embed_query("咖啡 coffee").tolist())
