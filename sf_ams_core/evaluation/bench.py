"""What the engine costs on this machine, each time beside a floor measured in the same run.

Reading: one scope among many in one SQLite file. The floor reads that scope's vectors with plain sqlite3 and scans
them in numpy; recall does more (words, dates, importance, records), and the ratio says how much that costs. Writing:
one call with many turns, with a free embedder and with the local model. The floor embeds the same texts and inserts
them with their vectors by plain sqlite3.
"""

from __future__ import annotations

import hashlib
import random
import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import TypeAlias

import numpy as np

from ..engine import MemoryEngine
from ..ports import Embedder, Vectors
from ..types import Scope, Turn

Progress: TypeAlias = Callable[[str, int], None]  # what is being done, and how many units just were

DIMENSION = 512  # of the local model
BATCH = 1_000  # turns a call
EMBEDDED = 64  # texts a call of the embedder, as in ProviderSettings
OTHER_SCOPES = 50
QUERIES = 100
COLD = 5  # recalls on a freshly opened engine
WRITES = 20  # single writes, each followed by a recall
TOP = 10

_OWNER = Scope("bench", "owner")
_START = datetime(2024, 1, 1, tzinfo=UTC)


class FreeEmbedder:
    """A vector for a text from a hash of it, the same in every process; what was embedded once costs a look-up."""

    def __init__(self) -> None:
        self._known: dict[str, Vectors] = {}

    @property
    def space(self) -> str:
        """The space of these vectors."""
        return f"free/{DIMENSION}"

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Random unit vectors of shape (len(texts), 512)."""
        return np.stack([self._known[text] if text in self._known else _vector(text) for text in texts])

    def embed_query(self, text: str) -> Vectors:
        """The vector of a text, shape (512,), kept for the next time."""
        if text not in self._known:
            self._known[text] = _vector(text)
        return self._known[text]


def _vector(text: str) -> Vectors:
    seed = hashlib.blake2b(text.encode(), digest_size=8).digest()
    drawn = np.random.default_rng(int.from_bytes(seed, "little")).standard_normal(DIMENSION, dtype=np.float32)
    return np.asarray(drawn / np.linalg.norm(drawn), dtype=np.float32)


@dataclass(frozen=True, slots=True)
class ReadBench:
    """Medians in milliseconds. `warm` repeats on one engine, `cold` is the first recall of a newly opened one.

    `records` counts the active ones at the end: what was found outdated or said twice while loading is not among them.
    """

    records: int
    others: int
    load_seconds: float
    floor_ms: float
    warm_ms: float
    warm_p95_ms: float
    after_write_ms: float
    cold_ms: float

    @property
    def ratio(self) -> float:
        """Warm recall over the floor."""
        return self.warm_ms / self.floor_ms


@dataclass(frozen=True, slots=True)
class WriteBench:
    """Milliseconds a turn of one `add_turns` call, and of its floor."""

    embedder: str
    turns: int
    ms_a_turn: float
    floor_ms_a_turn: float

    @property
    def ratio(self) -> float:
        """The whole write over its floor."""
        return self.ms_a_turn / self.floor_ms_a_turn


def bench_read(folder: Path, *, records: int, others: int, progress: Progress) -> ReadBench:
    """Recall in a scope of `records` turns among `others` of 50 other scopes, without the time of embedding."""
    file, embedder = folder / "read.db", FreeEmbedder()
    asked = [_question(number) for number in range(QUERIES + COLD + WRITES)]
    for question in asked:
        embedder.embed_query(question)
    start = time.perf_counter()
    with MemoryEngine.open(f"sqlite:///{file}", embedder=embedder) as engine:
        _load(engine, records, others, progress)
    loaded = time.perf_counter() - start
    cold = [_cold_recall(file, embedder, question) for question in asked[:COLD]]
    with MemoryEngine.open(f"sqlite:///{file}", embedder=embedder) as engine:
        floor, warm = _floor_and_warm(engine, file, embedder, asked[COLD : COLD + QUERIES], progress)
        written = [_recall_after_write(engine, number, asked[COLD + QUERIES + number]) for number in range(WRITES)]
        progress("recall after a write", WRITES)
        held = engine.stats(_OWNER).active
    return ReadBench(
        records=held,
        others=others,
        load_seconds=loaded,
        floor_ms=median(floor),
        warm_ms=median(warm),
        warm_p95_ms=float(np.percentile(warm, 95)),
        after_write_ms=median(written),
        cold_ms=median(cold),
    )


def read_work(records: int, others: int) -> int:
    """How many units `bench_read` goes through."""
    return records + others + QUERIES + WRITES


def bench_write(folder: Path, embedder: Embedder, *, turns: int) -> WriteBench:
    """One `add_turns` of `turns` turns into an empty database, and its floor into another."""
    said = _conversation(random.Random(turns), turns)
    name = embedder.space.partition("/")[0]
    floor = _write_floor(folder / f"floor-{name}.db", embedder, [turn.content for turn in said])
    with MemoryEngine.open(f"sqlite:///{folder / name}.db", embedder=embedder) as engine:
        start = time.perf_counter()
        engine.add_turns(_OWNER, "session", said)
        took = time.perf_counter() - start
    return WriteBench(embedder.space, turns, 1_000 * took / turns, 1_000 * floor / turns)


def _write_floor(file: Path, embedder: Embedder, texts: Sequence[str]) -> float:
    embedder.embed(texts[:1])
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE said (text TEXT, vector BLOB)")
        start = time.perf_counter()
        for place in range(0, len(texts), EMBEDDED):
            part = texts[place : place + EMBEDDED]
            rows = [(text, vector.tobytes()) for text, vector in zip(part, embedder.embed(part), strict=True)]
            connection.executemany("INSERT INTO said VALUES (?, ?)", rows)
        connection.commit()
        return time.perf_counter() - start


def _load(engine: MemoryEngine, records: int, others: int, progress: Progress) -> None:
    """The owner in the middle of the others, so that its rows do not lie at an end of the file."""
    size = others // OTHER_SCOPES
    for number in range(OTHER_SCOPES):
        if number == OTHER_SCOPES // 2:
            _fill(engine, _OWNER, _conversation(random.Random(_OWNER.user), records), progress)
        scope = Scope("bench", f"other {number}")
        said = _conversation(random.Random(scope.user), size)
        # An assistant's words are never weighed against earlier ones: the same rows in a quarter of the time.
        _fill(engine, scope, [replace(turn, role="assistant") for turn in said], progress)


def _fill(engine: MemoryEngine, scope: Scope, said: Sequence[Turn], progress: Progress) -> None:
    for place in range(0, len(said), BATCH):
        part = said[place : place + BATCH]
        engine.add_turns(scope, f"session {place // BATCH}", part)
        progress(f"loading {scope.user}", len(part))


def _floor_and_warm(
    engine: MemoryEngine, file: Path, embedder: FreeEmbedder, asked: Sequence[str], progress: Progress
) -> tuple[list[float], list[float]]:
    """Milliseconds of both, turn about, so that whatever else the machine does weighs on both alike."""
    floor, warm = [], []
    _recall(engine, asked[0])
    with closing(sqlite3.connect(file)) as connection:
        for question in asked:
            floor.append(_floor(connection, embedder.embed_query(question)))
            warm.append(_recall(engine, question))
            progress("recall and its floor", 1)
    return floor, warm


def _recall(engine: MemoryEngine, question: str) -> float:
    start = time.perf_counter()
    engine.recall(_OWNER, question, k=TOP)
    return 1_000 * (time.perf_counter() - start)


def _cold_recall(file: Path, embedder: Embedder, question: str) -> float:
    with MemoryEngine.open(f"sqlite:///{file}", embedder=embedder) as engine:
        return _recall(engine, question)


def _recall_after_write(engine: MemoryEngine, number: int, question: str) -> float:
    engine.remember(_OWNER, f"The spare key number {number} hangs behind door {number + 100}.")
    return _recall(engine, question)


def _floor(connection: sqlite3.Connection, query: Vectors) -> float:
    start = time.perf_counter()
    rows = connection.execute(
        "SELECT v.seq, v.vector FROM vectors v JOIN scopes s ON s.id = v.scope_id"
        ' WHERE s.tenant = ? AND s."user" = ? AND s.namespace = ?',
        (_OWNER.tenant, _OWNER.user, _OWNER.namespace),
    ).fetchall()
    matrix = np.frombuffer(b"".join(vector for _, vector in rows), dtype="<f4").reshape(-1, DIMENSION)
    scores = matrix @ query
    best = np.argpartition(-scores, TOP)[:TOP]
    sorted(best, key=lambda place: -scores[place])
    return 1_000 * (time.perf_counter() - start)


_WORDS = {
    "en": {
        "who": "Anna Ben Carla David Elena Femi Greta Hugo Ines Jonas Kira Liam Mona Nils Olga Pavel Rosa Samir Tessa",
        "what": "notebook bicycle camera passport umbrella guitar lamp laptop kettle jacket ticket map violin tent",
        "colour": "blue red green yellow black white grey purple orange brown",
        "where": "kitchen garage office attic cellar garden library studio hallway workshop station school market",
        "city": "Lisbon Oslo Vienna Dublin Prague Turin Lyon Bergen Ghent Porto Riga Seville",
        "day": "Monday Tuesday Wednesday Thursday Friday Saturday Sunday",
        "deed": "repaired sold painted borrowed photographed cleaned lost found wrapped measured",
    },
    "zh": {
        "who": "小明 小红 王芳 李强 张伟 刘洋 陈静 杨帆 赵磊 周婷 吴昊 徐丽 孙悦 马超 朱琳 胡斌 郭敏 何勇 林峰 罗娜",
        "what": "笔记本 自行车 相机 护照 雨伞 吉他 台灯 电脑 水壶 外套 车票 地图 小提琴 帐篷",
        "colour": "蓝色 红色 绿色 黄色 黑色 白色 灰色 紫色 橙色 棕色",
        "where": "厨房 车库 办公室 阁楼 地下室 花园 图书馆 工作室 走廊 车间 车站 学校 市场 码头",
        "city": "杭州 成都 南京 西安 青岛 厦门 昆明 大连 苏州 长沙 武汉 桂林",
        "day": "周一 周二 周三 周四 周五 周六 周日",
        "deed": "修好了 卖掉了 画了 借走了 拍下了 擦干净了 弄丢了 找到了 包好了 量过了",
    },
}
_PATTERNS = {
    "en": (
        "{who} {deed} a {colour} {what} after breakfast and showed it around.",
        "Have you ever been to {city}? {who} says the {where} there is worth the trip.",
        "We walked past the {where} for {number} minutes before anybody noticed the {what}.",
        "No idea what to cook tonight, maybe something {who} brought back from {city}.",
        "Thanks for the tip about the {what}, I ordered it for {day}.",
        "{who} called from {city} and talked about nothing but a {colour} {what}.",
        "It rained all {day}, so the {where} was full and the {what} stayed dry by luck.",
        "I started reading a novel set in {city}; page {number} has a scene in a {where}.",
        "Somebody left a {what} behind. Could it belong to {who}?",
        "I prefer travelling light: one {what}, one {colour} scarf and {number} euros.",
        "On {day} I decided to learn how a {what} is made, and {who} wants to join.",
        "The train from {city} had {number} coaches and every one of them smelled of paint.",
    ),
    "zh": (
        "{who}吃完早饭{deed}一个{colour}的{what}，还给大家看了。",
        "你去过{city}吗？{who}说那边的{where}值得专门跑一趟。",
        "我们在{where}走了{number}分钟，才有人注意到那个{what}。",
        "今晚不知道做什么菜，要不试试{who}从{city}带回来的那种。",
        "谢谢你推荐的{what}，我已经下单了，{day}应该能到。",
        "{who}从{city}打电话来，聊的全是{colour}的{what}。",
        "{day}下了一整天雨，{where}里挤满了人，幸好{what}没湿。",
        "我开始看一本写{city}的小说，第{number}页有一段发生在{where}。",
        "有人落下了一个{what}，会不会是{who}的？",
        "我喜欢轻装出门：一个{what}，一条{colour}围巾，再加{number}块钱。",
        "{day}我决定去学{what}是怎么做的，{who}也想一起来。",
        "从{city}开来的火车有{number}节车厢，每一节都有股油漆味。",
    ),
}
_QUESTIONS = {
    "en": "Where did {who} keep the {colour} {what}, in {city} or in the {where}?",
    "zh": "{who}把{colour}的{what}放在哪里了，{city}还是{where}？",
}


def _conversation(draw: random.Random, count: int) -> list[Turn]:
    """Made-up talk, every other pair of turns in Chinese."""
    return [
        Turn(
            "user" if number % 2 == 0 else "assistant",
            _sentence(draw, _language(number // 2)),
            id=f"t{number}",
            at=_START + timedelta(minutes=number),
        )
        for number in range(count)
    ]


def _sentence(draw: random.Random, language: str) -> str:
    return draw.choice(_PATTERNS[language]).format(number=draw.randint(2, 99), **_draw_words(draw, language))


def _question(number: int) -> str:
    draw, language = random.Random(number), _language(number)
    return _QUESTIONS[language].format(**_draw_words(draw, language))


def _draw_words(draw: random.Random, language: str) -> dict[str, str]:
    return {kind: draw.choice(words.split()) for kind, words in _WORDS[language].items()}


def _language(number: int) -> str:
    return ("en", "zh")[number % 2]
