"""Bad input is refused with what to do; broken parts degrade; nothing is half written."""

import asyncio
import copy
import gc
import json
import logging
import pickle
import sqlite3
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

import sf_ams_core
from sf_ams_core import (
    InvalidInput,
    InvalidScope,
    MemoryEngine,
    MissingExtra,
    Note,
    NotFound,
    RefusalReason,
    Refused,
    Scope,
    Settings,
    SFAMSError,
    Stored,
    StoreUnavailable,
    Turn,
)
from sf_ams_core.settings import ContextSettings, ProviderSettings, RecallSettings, StoreSettings
from sf_ams_core.testing import BrokenEmbedder, FixedEmbedder

HASTY = Settings(store=StoreSettings(busy_timeout=0.05))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "memory.db"


@pytest.fixture
def locked(path):
    """Locks the database against every other writer."""
    holders = []

    def lock():
        holder = sqlite3.connect(path, isolation_level=None)
        holder.execute("BEGIN EXCLUSIVE")
        holders.append(holder)
        return holder

    yield lock
    for holder in holders:
        holder.close()


@pytest.mark.parametrize("part", ["", " ", "\t\n", None, 7, "x" * 257, "a\x00b", "a\ud800"])
@pytest.mark.parametrize("place", ["tenant", "user", "namespace"])
def test_a_scope_without_a_name_is_refused(part, place):
    """Blank, over-long and unstorable parts raise, wherever they stand."""
    parts = {"tenant": "t", "user": "u", "namespace": "n", place: part}
    with pytest.raises(InvalidScope):
        Scope(**parts)


def test_scopes_that_look_alike_are_apart(engine):
    """Case, width, wildcards, separators and normal forms name different users."""
    users = ["ann", "Ann", "ａｎｎ", "*", "%", "_", "a:b", "a", "é", "e\u0301", "../ann", "a/b", "ann "]
    for user in users:
        engine.remember(Scope("t", user), f"The secret of {users.index(user)} is kept here.")
    engine.remember(Scope("t:a", "b"), "The secret of 99 is kept here.")
    for user in users:
        assert [m.content for m in engine.list(Scope("t", user))] == [
            f"The secret of {users.index(user)} is kept here."
        ]


@pytest.mark.parametrize(
    "arguments",
    [
        {"importance": -0.1},
        {"importance": 2},
        {"importance": float("nan")},
        {"importance": "high"},
        {"ttl": -1},
        {"type": "opinion"},
        {"type": ""},
        {"key": " "},
        {"source": "hacker"},
        {"visibility": ""},
        {"session": ""},
        {"entities": "Ann"},
        {"entities": [""]},
        {"source_ids": [None]},
        {"metadata": {"a": float("nan")}},
        {"metadata": {"a": float("inf")}},
        {"metadata": {"a": object()}},
        {"metadata": {1: "a"}},
        {"metadata": {"a": datetime(2026, 1, 1, tzinfo=UTC)}},
        {"metadata": [1]},
        {"metadata": "text"},
        {"occurred_at": "yesterday"},
    ],
)
def test_misuse_raises_and_writes_nothing(engine, scope, arguments):
    """A wrong argument is an error that says what is right, and no row is written."""
    with pytest.raises(InvalidInput) as caught:
        engine.remember(scope, "The office is in Rome.", **arguments)
    assert len(str(caught.value)) > 20
    assert engine.stats(scope).active == 0


def test_one_wrong_note_stops_its_whole_batch(engine, scope):
    """Misuse in a batch writes none of it."""
    with pytest.raises(InvalidInput):
        engine.remember_many(scope, [Note("The office is in Rome."), Note("The lab is in Oslo.", importance=9)])
    assert engine.list(scope) == ()


def nested(levels):
    value = "x"
    for _ in range(levels):
        value = {"a": value}
    return value


def test_metadata_may_be_deep_but_not_bottomless(engine, scope):
    """None, empty, nested, Chinese keys and big numbers come back; 100 levels are refused."""
    metadata = {"无": None, "empty": {}, "list": [], "deep": nested(20), "big": 2**63, "": "", "float": 1.5}
    kept = engine.remember(scope, "The office is in Rome.", metadata=metadata)
    assert engine.get(scope, kept.id).metadata == metadata
    with pytest.raises(InvalidInput):
        engine.remember(scope, "The lab is in Oslo.", metadata=nested(100))
    assert isinstance(engine.remember(scope, "The shop is in Bonn.", metadata={}), Stored)
    assert isinstance(engine.remember(scope, "The bank is in Kiel.", metadata=None), Stored)


def test_ten_thousand_metadata_keys_are_kept(engine, scope):
    """Width is no problem either."""
    metadata = {f"key {n}": n for n in range(10_000)}
    kept = engine.remember(scope, "The office is in Rome.", metadata=metadata)
    assert len(engine.get(scope, kept.id).metadata) == 10_000
    assert engine.recall(scope, "office", metadata={"key 9999": 9_999})


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("The office\x00 is in Rome.", "The office is in Rome."),
        ("The office is in \ud800Rome.", "The office is in Rome."),
        ("The \u202eoffice is in Rome.", "The office is in Rome."),
        ("Cafe\u0301 opens at nine.", "Café opens at nine."),
        ("The 👩‍👩‍👧 family moved in.", "The 👩‍👩‍👧 family moved in."),
        ("The office" + "".join(chr(0xE0000 + ord(c)) for c in "hi") + " is in Rome.", "The office is in Rome."),
    ],
)
def test_text_is_cleaned_before_it_is_kept(engine, scope, given, kept):
    """NUL, lone surrogates and hidden characters go, letters and emoji stay."""
    assert engine.get(scope, engine.remember(scope, given).id).content == kept


def test_ten_megabytes_are_refused_as_a_memory_and_kept_as_a_turn(engine, scope):
    """A limit in the message for a memory; the transcript takes it whole."""
    text = "The office is in Rome, said the long letter. " * 230_000
    outcome = engine.remember(scope, text)
    assert isinstance(outcome, Refused)
    assert outcome.reason is RefusalReason.TOO_LONG
    assert "20000" in outcome.message
    engine.add_turns(scope, "s", [Turn("user", text, id="long")])
    assert len(engine.turns(scope, "s")[0].content) == len(text)


def test_naive_times_are_utc(engine, scope):
    """A datetime without a zone is taken as UTC, one with a zone is moved there."""
    naive = engine.remember(scope, "The office is in Rome.", occurred_at=datetime(2026, 1, 1, 12, 0))
    assert engine.get(scope, naive.id).occurred_at == datetime(2026, 1, 1, 12, 0, tzinfo=UTC)


def test_extreme_dates_are_kept(engine, scope):
    """Year 1 and year 9999 come back, and a time to live beyond the calendar is for ever."""
    for moment in (datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)):
        kept = engine.remember(scope, f"The year was {moment.year} then.", occurred_at=moment)
        assert engine.get(scope, kept.id).occurred_at == moment
    for_ever = engine.remember(scope, "The office is in Rome.", ttl=1e18)
    assert engine.get(scope, for_ever.id).expires_at is None
    assert engine.recall(scope, "office Rome year")


@pytest.mark.parametrize("mode", ["raise", "short", "nan", "zero", "wrong_dimension"])
def test_a_broken_embedder_costs_vectors_never_words(url, scope, mode):
    """Writes go on without vectors, recall goes on by words, and both say so."""
    with MemoryEngine.open(url, embedder=BrokenEmbedder(mode)) as engine:
        assert isinstance(engine.remember(scope, "The office is in Rome."), Stored)
        engine.add_turns(scope, "s", [Turn("user", "The lab is in Oslo.")])
        assert engine.stats(scope).awaiting_vectors == 2
        answer = engine.recall(scope, "office")
        assert [h.content for h in answer][:1] == ["The office is in Rome."]
        assert answer.degraded == ("vector",)


def test_a_hanging_embedder_is_left_behind(url, scope):
    """A time-out ends the waiting, and closing the engine does not wait for it either."""
    hanging = BrokenEmbedder("hang")
    rules = Settings(
        providers=ProviderSettings(embed_timeout=0.05, breaker_failures=1), recall=RecallSettings(recall_timeout=0.05)
    )
    with MemoryEngine.open(url, embedder=hanging, settings=rules) as engine:
        assert isinstance(engine.remember(scope, "The office is in Rome."), Stored)
        assert engine.recall(scope, "office").degraded == ("vector",)
        assert engine.health().embedder_ok is False
    hanging.heal()


def test_records_written_without_vectors_get_them_once_the_embedder_is_well(url, scope, clock):
    """What waited is embedded with a later write."""
    broken = BrokenEmbedder("raise")
    calm = Settings(providers=ProviderSettings(breaker_failures=100))
    with MemoryEngine.open(url, embedder=broken, clock=clock, settings=calm) as engine:
        first = engine.remember(scope, "The office is in Rome.")
        broken.heal()
        clock.advance(hours=1)
        engine.remember(scope, "The lab is in Oslo.")
        assert engine.stats(scope).awaiting_vectors == 0
        assert engine.get(scope, first.id).embedding_version == broken.space
        assert engine.recall(scope, "office").degraded == ()


def test_two_spaces_never_meet(url, scope):
    """After a change of model the old vectors are not compared; words still find."""
    with MemoryEngine.open(url, embedder=FixedEmbedder(8)) as engine:
        engine.remember(scope, "The office is in Rome.")
    for embedder in (FixedEmbedder(16), FixedEmbedder(8, space="another-model/8")):
        with MemoryEngine.open(url, embedder=embedder) as engine:
            hit = engine.recall(scope, "office in Rome").hits[0]
            assert hit.content == "The office is in Rome."
            assert "vector" not in hit.parts


def test_a_locked_database_is_said_and_nothing_is_half_written(url, scope, locked):
    """The verb raises one error, and afterwards everything is as before."""
    with MemoryEngine.open(url, embedder="hash", settings=HASTY) as engine:
        engine.remember(scope, "The office is in Rome.")
        holder = locked()
        for verb in (
            lambda: engine.remember(scope, "The lab is in Oslo."),
            lambda: engine.add_turns(scope, "s", [Turn("user", "hello there")]),
            lambda: engine.erase(scope, everything=True),
            lambda: engine.working(scope, "s").set("a", 1),
            lambda: engine.set_fact(scope, "plan", "gold"),
        ):
            with pytest.raises(StoreUnavailable):
                verb()
        assert engine.recall(scope, "office")
        holder.close()
        assert [m.content for m in engine.list(scope)] == ["The office is in Rome."]
        assert engine.stats(scope).turns == 0


def test_the_conversation_goes_on_while_the_database_is_locked(url, scope, locked, caplog):
    """Turns wait in memory in order, are shown meanwhile, and are written once when the lock is gone."""
    with MemoryEngine.open(url, embedder="hash", settings=HASTY) as engine:
        chat = engine.conversation(scope, "s")
        chat.add([Turn("user", "The office is in Rome.", id="1")])
        holder = locked()
        with caplog.at_level(logging.WARNING, logger="sf_ams"):
            assert chat.add([Turn("user", "The lab is in Oslo.", id="2")]) == ()
        faults = [json.loads(r.getMessage()) for r in caplog.records if "fault.write" in r.getMessage()]
        assert len(faults) == 1
        assert "Oslo" not in caplog.text
        assert [t.id for t in chat.messages()] == ["1", "2"]
        assert [t.id for t in chat.context().messages][-1] == "2"
        holder.close()
        chat.add([Turn("user", "The shop is in Bonn.", id="3")])
        assert [t.id for t in engine.turns(scope, "s")] == ["1", "2", "3"]


def test_the_buffer_is_bounded_and_says_what_it_dropped(url, scope, locked, caplog):
    """The oldest waiting turns go first."""
    rules = Settings(store=StoreSettings(busy_timeout=0.05), context=ContextSettings(retry_buffer=2))
    with MemoryEngine.open(url, embedder="hash", settings=rules) as engine:
        chat = engine.conversation(scope, "s")
        holder = locked()
        with caplog.at_level(logging.WARNING, logger="sf_ams"):
            chat.add([Turn("user", f"hello {n}", id=str(n)) for n in range(5)])
        assert '"dropped": 3' in caplog.text
        holder.close()
        chat.add([])
        assert [t.id for t in chat.messages()] == ["3", "4"]


def test_a_file_that_is_no_database_is_said(tmp_path):
    """A damaged file and a missing folder raise the one store error."""
    (tmp_path / "broken.db").write_bytes(b"this is no database" * 100)
    for place in (tmp_path / "broken.db", tmp_path / "nowhere" / "memory.db"):
        with pytest.raises(StoreUnavailable):
            MemoryEngine.open(f"sqlite:///{place}", embedder="hash")


@pytest.mark.parametrize("bad", ["", "nonsense", "mysql://x/y", "sqlite"])
def test_a_url_that_cannot_be_meant_is_refused(bad):
    """Only SQLite and PostgreSQL are spoken."""
    with pytest.raises(InvalidInput):
        MemoryEngine.open(bad, embedder="hash")


def test_a_missing_extra_names_its_install_line(monkeypatch):
    """PostgreSQL without its driver says what to install."""
    monkeypatch.setitem(__import__("sys").modules, "psycopg", None)
    with pytest.raises(MissingExtra, match=r"pip install 'sf-ams\[postgres\]'"):
        MemoryEngine.open("postgresql+psycopg://localhost/x", embedder="hash")


@pytest.mark.parametrize("value", ["annoy", 7])
def test_an_unknown_embedder_or_index_is_refused(url, value):
    """Names that mean nothing raise before a file is made."""
    with pytest.raises(InvalidInput):
        MemoryEngine.open(url, embedder=value)
    with pytest.raises(InvalidInput):
        MemoryEngine.open(url, embedder="hash", index=value)


def test_the_kill_switch_keeps_the_transcript_only(engine, scope):
    """Off: turns are kept, nothing is recalled or remembered, no error. On again: all is back."""
    engine.remember(scope, "The office is in Rome.")
    engine.enabled = False
    assert not engine.recall(scope, "office")
    assert engine.remember(scope, "The lab is in Oslo.").reason is RefusalReason.DISABLED
    assert [o.reason for o in engine.add_turns(scope, "s", [Turn("user", "hello")])] == [RefusalReason.DISABLED]
    context = engine.context(scope, "s", "office")
    assert (context.text, [t.content for t in context.messages]) == ("", ["hello"])
    engine.enabled = True
    assert engine.recall(scope, "office")
    assert len(engine.turns(scope, "s")) == 1


def test_an_engine_survives_copy_and_pickle_and_names_what_is_missing(url):
    """A copy is the engine itself; a pickle finds it by name, and says the name where it is closed."""
    with MemoryEngine.open(url, embedder="hash") as engine:
        assert copy.deepcopy(engine) is engine
        frozen = pickle.dumps(engine)
        assert pickle.loads(frozen) is engine
        sf_ams_core.register_engine(engine, "main")
        named = pickle.dumps(engine)
        assert pickle.loads(named) is engine
    with pytest.raises(NotFound, match="main"):
        pickle.loads(named)


def test_async_twins_work_from_several_event_loops(engine, scope):
    """No state is bound to a loop."""
    for number in range(3):
        outcome = asyncio.run(engine.aremember(scope, f"The office number {number} is in Rome."))
        assert isinstance(outcome, Stored)

    async def both():
        return await asyncio.gather(*(engine.arecall(scope, "office Rome") for _ in range(8)))

    assert all(len(answer) == 3 for answer in asyncio.run(both()))


def test_threads_write_and_read_one_scope_without_losing_anything(engine, scope):
    """Eight threads, all acknowledged writes are there."""
    kept, faults = [], []

    def work(number):
        try:
            for n in range(10):
                kept.append(engine.remember(scope, f"Parcel {number}-{n} went to shelf {number * 10 + n}.").id)
                engine.recall(scope, f"Parcel {number}")
        except SFAMSError as fault:
            faults.append(fault)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    assert {m.id for m in engine.list(scope)} == set(kept)
    assert len(kept) == 80


def test_a_database_in_memory_works_like_a_file(scope):
    """`sqlite://` needs no file, from any thread."""
    with MemoryEngine.open("sqlite://", embedder="hash") as engine:
        engine.add_turns(scope, "s", [Turn("user", "The office is in Rome.")])
        assert asyncio.run(engine.arecall(scope, "office"))


def test_closing_releases_every_file(url, scope):
    """Nothing stays open, and closing twice is fine."""
    gc.collect()
    before = len(list(Path("/proc/self/fd").iterdir()))
    engine = MemoryEngine.open(url, embedder="hash")
    engine.remember(scope, "The office is in Rome.")
    engine.close()
    engine.close()
    gc.collect()
    assert len(list(Path("/proc/self/fd").iterdir())) <= before


def test_no_text_of_a_memory_is_ever_logged(url, scope, locked, caplog):
    """Writes, recalls, faults and forgetting log ids and counts only."""
    with caplog.at_level(logging.DEBUG), MemoryEngine.open(url, embedder=BrokenEmbedder("raise"), settings=HASTY) as e:
        e.remember(scope, "Heliotrope is the word.", metadata={"heliotrope": "heliotrope"})
        e.add_turns(scope, "s", [Turn("user", "Heliotrope again and again.")])
        e.recall(scope, "heliotrope?")
        e.forget(scope, e.plan_forgetting(scope, ratio=1.0))
        locked()
        with pytest.raises(StoreUnavailable) as caught:
            e.remember(scope, "Heliotrope once more.")
    assert "eliotrope" not in caplog.text
    assert "eliotrope" not in f"{caught.value!r}{caught.value.__cause__!r}"
