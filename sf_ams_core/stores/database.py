"""One database: open, migrate, and hand out transactions bound to one scope.

    with database.read(scope) as reader:   # a snapshot; reader.scope_id is None where the scope holds nothing yet
    with database.write(scope) as writer:  # all or nothing; one writer a scope at a time

What is peculiar to SQLite or PostgreSQL stays in this file.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import (
    URL,
    Connection,
    Engine,
    Executable,
    QueuePool,
    Table,
    create_engine,
    event,
    inspect,
    make_url,
    select,
    text,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, ResourceClosedError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from ..errors import InvalidInput, MissingExtra, StoreUnavailable
from ..settings import StoreSettings
from ..types import Scope
from . import schema

_MIGRATION_LOCK = 0x5F_A3_5  # any fixed number: PostgreSQL's advisory lock while the schema is changed


@dataclass(frozen=True, slots=True)
class Reader:
    """A connection in a transaction, bound to one scope; `scope_id` is None where nothing was ever written."""

    conn: Connection
    scope: Scope
    scope_id: int | None
    revision: int = 0
    epoch: int = 0
    next_seq: int = 1

    def rows(self, statement: Executable) -> Sequence[Any]:
        """All rows of a select; none where the scope holds nothing."""
        return [] if self.scope_id is None else self.conn.execute(statement).fetchall()


@dataclass(slots=True)
class Writer:
    """A writing transaction that holds the scope's lock; numbers what it writes."""

    conn: Connection
    scope: Scope
    scope_id: int
    revision: int
    epoch: int
    next_seq: int
    _stale: bool = field(default=False)

    def take_seq(self) -> int:
        """The next number of this scope."""
        self.next_seq += 1
        return self.next_seq - 1

    def outdate_caches(self) -> None:
        """Say that something a cache took for unchangeable has changed."""
        self._stale = True

    def rows(self, statement: Executable) -> Sequence[Any]:
        """All rows of a select."""
        return self.conn.execute(statement).fetchall()

    def execute(self, statement: Executable, values: Sequence[Mapping[str, Any]] | None = None) -> int:
        """Run a statement, once for each of `values` where given; the number of rows it changed."""
        if values is not None and not values:
            return 0
        result = self.conn.execute(statement, values) if values is not None else self.conn.execute(statement)
        return int(getattr(result, "rowcount", 0))

    def upsert(self, table: Table, keys: Sequence[str], values: Sequence[Mapping[str, Any]]) -> None:
        """Insert rows, overwriting those that share `keys`."""
        if not values:
            return
        dialect = postgresql if self.conn.dialect.name == "postgresql" else sqlite
        insert = dialect.insert(table)
        changed = {c: insert.excluded[c] for c in values[0] if c not in keys}
        self.conn.execute(
            insert.on_conflict_do_update(index_elements=list(keys), set_=changed)
            if changed
            else insert.on_conflict_do_nothing(index_elements=list(keys)),
            values,
        )

    def _finish(self) -> None:
        self.conn.execute(
            update(schema.scopes)
            .where(schema.scopes.c.id == self.scope_id)
            .values(
                revision=self.revision + 1,
                epoch=self.epoch + (1 if self._stale else 0),
                next_seq=self.next_seq,
            )
        )


class Database:
    """A migrated database and its connections; safe to use from any thread."""

    def __init__(self, url: str, settings: StoreSettings) -> None:
        self._settings = settings
        parsed = _parse(url)
        self.dialect = parsed.get_backend_name()
        # One writer at a time inside a process: SQLite's own waiting is a lottery, a lock is a queue.
        self._turnstile = threading.Lock() if self.dialect == "sqlite" else None
        self._engine = _engine(parsed, settings)
        self._closed = False
        self.name = parsed.render_as_string(hide_password=True)
        with _store_faults():
            _migrate(self._engine)

    @contextlib.contextmanager
    def read(self, scope: Scope) -> Iterator[Reader]:
        """A consistent view of one scope. Raises StoreUnavailable."""
        with _store_faults(), self._connect() as conn, conn.begin():
            row = conn.execute(_scope_row(scope)).one_or_none()
            yield Reader(conn, scope, *row) if row else Reader(conn, scope, None)

    @contextlib.contextmanager
    def write(self, scope: Scope) -> Iterator[Writer]:
        """A transaction of the scope's only writer, committed at the end of the block. Raises StoreUnavailable."""
        with _store_faults(), self._writing() as conn:
            writer = Writer(conn, scope, *self._own(conn, scope))
            yield writer
            writer._finish()

    def scrub(self) -> int:
        """Overwrite what deletions left behind in the database's own files (SQLite's log of changes).

        How many pages of the log are left: 0, unless somebody reads an older view for longer than `busy_timeout`.
        """
        if self.dialect != "sqlite":
            return 0
        with _store_faults(), self._connect() as conn:
            busy, pages, _ = conn.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").one()
        return max(1, int(pages)) if busy else 0

    def schema_version(self) -> str:
        """The migration the database is at. Raises StoreUnavailable."""
        with _store_faults(), self._connect() as conn:
            return str(conn.execute(text("SELECT version_num FROM alembic_version")).scalar_one())

    def close(self) -> None:
        """Close every connection; whoever reads or writes after that gets StoreUnavailable."""
        self._closed = True
        self._engine.dispose()

    def _connect(self) -> Connection:
        if self._closed:
            raise StoreUnavailable("this memory was closed; open it again")
        return self._engine.connect()

    @contextlib.contextmanager
    def _writing(self) -> Iterator[Connection]:
        with self._turn(), self._connect() as conn:
            conn = conn.execution_options(sf_ams_writes=True)
            with conn.begin():
                yield conn

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        if self._turnstile is None:
            yield
            return
        if not self._turnstile.acquire(timeout=self._settings.busy_timeout):
            raise StoreUnavailable("another thread has been writing for too long; retry later")
        try:
            yield
        finally:
            self._turnstile.release()

    def _own(self, conn: Connection, scope: Scope) -> tuple[int, int, int, int]:
        locked = _scope_row(scope).with_for_update()
        row = conn.execute(locked).one_or_none()
        if row is None:
            dialect = postgresql if self.dialect == "postgresql" else sqlite
            conn.execute(
                dialect.insert(schema.scopes)
                .values(tenant=scope.tenant, user=scope.user, namespace=scope.namespace)
                .on_conflict_do_nothing()
            )
            row = conn.execute(locked).one()
        return (row[0], row[1], row[2], row[3])


def _scope_row(scope: Scope) -> Any:
    table = schema.scopes.c
    return select(table.id, table.revision, table.epoch, table.next_seq).where(
        table.tenant == scope.tenant, table.user == scope.user, table.namespace == scope.namespace
    )


@contextlib.contextmanager
def _store_faults() -> Iterator[None]:
    try:
        yield
    except UnicodeEncodeError:
        raise InvalidInput("an argument holds a lone surrogate; remove it") from None
    except (DBAPIError, PoolTimeout, ResourceClosedError) as fault:
        kind = type(getattr(fault, "orig", None) or fault).__name__
        # `from None`: the driver's message may carry the text of a memory.
        raise StoreUnavailable(f"the database refused the operation ({kind}); check that it can be written") from None


def _parse(url: str) -> URL:
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise InvalidInput("url must look like sqlite:///file.db or postgresql+psycopg://host/name") from None
    if parsed.get_backend_name() not in ("sqlite", "postgresql"):
        raise InvalidInput(f"{parsed.get_backend_name()!r} is not supported; use sqlite or postgresql+psycopg")
    return parsed


def _engine(url: URL, settings: StoreSettings) -> Engine:
    try:
        engine = create_engine(url, hide_parameters=True, **_options(url, settings))
    except (ModuleNotFoundError, NoSuchModuleError):
        raise MissingExtra("postgres", "psycopg") from None
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
    return engine


def _options(url: URL, settings: StoreSettings) -> dict[str, Any]:
    if url.get_backend_name() != "sqlite":
        return {"pool_pre_ping": True, "pool_timeout": settings.busy_timeout}
    in_memory = url.database in (None, "", ":memory:") or url.query.get("mode") == "memory"
    return {
        "poolclass": QueuePool,
        "pool_timeout": settings.busy_timeout,
        # A database in memory lives in its one connection, so all share it, one after the other.
        "pool_size": 1 if in_memory else 5,
        "max_overflow": 0 if in_memory else 10,
        "connect_args": {"check_same_thread": False, "timeout": settings.busy_timeout},
    }


def _prepare_sqlite(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # the driver must not begin by itself: `_begin_sqlite` does
    cursor = connection.cursor()
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "secure_delete=ON"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin_sqlite(conn: Connection) -> None:
    # A writer takes its lock at once: upgrading a read lock later can fail however long it waits.
    writes = conn.get_execution_options().get("sf_ams_writes")
    conn.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _migrate(engine: Engine) -> None:
    if _version(engine) == schema.SCHEMA_HEAD:
        return
    from alembic.util import CommandError  # only needed where there is something to migrate

    from .migrations import upgrade

    with engine.connect().execution_options(sf_ams_writes=True) as conn, conn.begin():
        if conn.dialect.name == "postgresql":
            conn.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _MIGRATION_LOCK})
        try:
            upgrade(conn)
        except CommandError:
            raise StoreUnavailable("a newer version made this database; install that version to open it") from None


def _version(engine: Engine) -> str | None:
    with engine.connect() as conn:
        if not inspect(conn).has_table("alembic_version"):
            return None
        found: str | None = conn.execute(text("SELECT version_num FROM alembic_version")).scalar_one_or_none()
        return found
