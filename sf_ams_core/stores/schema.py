"""The tables.

Every row of a user hangs on `scopes.id`. A scope numbers its turns and memories itself (`seq`, from
`scopes.next_seq`), so that order never depends on a clock and a reader knows what is new by one number.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Dialect,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICRO = timedelta(microseconds=1)


class Micros(TypeDecorator[datetime]):
    """A moment as microseconds since 1970 in UTC: exact, ordered and the same on every database."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> int | None:
        return None if value is None else (value - _EPOCH) // _MICRO

    def process_result_value(self, value: int | None, dialect: Dialect) -> datetime | None:
        return None if value is None else _EPOCH + timedelta(microseconds=value)


class JsonText(TypeDecorator[Any]):
    """JSON as readable text, never with \\uXXXX for letters."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str:
        return json.dumps(value, ensure_ascii=False, sort_keys=True, allow_nan=False)

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:
        return None if value is None else json.loads(value)


NAMES = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}
metadata = MetaData(naming_convention=NAMES)

# SQLite counts rows by its own 64-bit INTEGER only.
BigKey = BigInteger().with_variant(Integer, "sqlite")


def _scope_id() -> Column[int]:
    return Column("scope_id", BigKey, ForeignKey("scopes.id", ondelete="CASCADE"), nullable=False)


scopes = Table(
    "scopes",
    metadata,
    Column("id", BigKey, primary_key=True, autoincrement=True),
    Column("tenant", Text, nullable=False),
    Column("user", Text, nullable=False),
    Column("namespace", Text, nullable=False),
    # `revision` counts writes; `epoch` counts changes to what a cache took for unchangeable (erasure, late vectors).
    Column("revision", BigInteger, nullable=False, default=0),
    Column("epoch", BigInteger, nullable=False, default=0),
    Column("next_seq", BigInteger, nullable=False, default=1),
    UniqueConstraint("tenant", "user", "namespace"),
    sqlite_autoincrement=True,
)

sessions = Table(
    "sessions",
    metadata,
    _scope_id(),
    Column("session", Text, nullable=False),
    Column("opened_at", Micros, nullable=False),
    Column("last_turn_at", Micros, nullable=False),
    Column("closed_at", Micros),
    Column("cleared_view", BigInteger, nullable=False, default=0),  # turns up to here are out of the chat's view
    Column("summarised_view", BigInteger, nullable=False, default=0),
    Column("summary", Text),  # of the turns that left the recent window
    UniqueConstraint("scope_id", "session"),
)

turns = Table(
    "turns",
    metadata,
    _scope_id(),
    Column("seq", BigInteger, nullable=False),
    Column("view", BigInteger, nullable=False),  # place in the chat's view; moves when a cleared turn is said again
    Column("session", Text, nullable=False),
    Column("id", Text, nullable=False),
    Column("role", String(16), nullable=False),
    Column("content", Text, nullable=False),
    Column("speaker", Text),
    Column("at", Micros),
    Column("arrived_at", Micros, nullable=False),
    Column("payload", JsonText),
    UniqueConstraint("scope_id", "seq"),
    UniqueConstraint("scope_id", "session", "id"),
    Index(None, "scope_id", "session", "view"),
)

memories = Table(
    "memories",
    metadata,
    Column("id", Text, primary_key=True),
    _scope_id(),
    Column("seq", BigInteger, nullable=False),
    Column("session", Text),
    Column("speaker", Text),
    Column("type", String(32), nullable=False),
    Column("subtype", Text),
    Column("content", Text, nullable=False),
    Column("terms", Text, nullable=False),  # search terms: a chunk a line, terms parted by spaces
    Column("folded", String(64), nullable=False),  # digest of the folded words: the same statement, the same value
    Column("chars", Integer, nullable=False),
    Column("importance", Float, nullable=False),
    Column("entities", JsonText, nullable=False),
    Column("metadata", JsonText, nullable=False),
    Column("key", Text),
    Column("source", String(16), nullable=False),
    Column("source_ids", JsonText, nullable=False),
    Column("turn_id", Text),  # of a turn's own record
    Column("trust", Float, nullable=False),
    Column("visibility", Text, nullable=False),
    Column("pinned", Boolean, nullable=False),
    Column("created_at", Micros, nullable=False),
    Column("occurred_at", Micros),
    Column("said_at", Micros, nullable=False),  # occurred_at, else created_at
    Column("updated_at", Micros, nullable=False),
    Column("last_accessed_at", Micros, nullable=False),
    Column("access_count", Integer, nullable=False),
    Column("expires_at", Micros),
    Column("state", String(16), nullable=False),
    Column("why", Text),  # what brought it to this state
    Column("superseded_by", Text),
    Column("retired_at", Micros),
    Column("embedding_version", Text),
    UniqueConstraint("scope_id", "seq"),
    Index(None, "scope_id", "state", "seq"),
    Index(None, "scope_id", "folded"),
    Index(None, "scope_id", "key"),
    Index(None, "scope_id", "superseded_by"),
)

marks = Table(
    "marks",  # what filters ask for: folded entities and top-level metadata values, by exact text
    metadata,
    _scope_id(),
    Column("seq", BigInteger, nullable=False),
    Column("kind", String(8), nullable=False),
    Column("name", Text, nullable=False),
    Column("value", Text, nullable=False),
    Index(None, "scope_id", "kind", "name", "value"),
    Index(None, "scope_id", "seq"),
)

vectors = Table(
    "vectors",
    metadata,
    _scope_id(),
    Column("seq", BigInteger, nullable=False),
    Column("chunk", Integer, nullable=False),
    Column("space", Text, nullable=False),
    Column("vector", LargeBinary, nullable=False),  # float32, little endian, unit length
    UniqueConstraint("scope_id", "space", "seq", "chunk"),
)

facts = Table(
    "facts",
    metadata,
    _scope_id(),
    Column("key", Text, nullable=False),
    Column("version", Integer, nullable=False),
    Column("value", JsonText, nullable=False),
    Column("valid_from", Micros, nullable=False),
    Column("valid_to", Micros),
    Column("source", String(16), nullable=False),
    Column("memory_id", Text),
    UniqueConstraint("scope_id", "key", "version"),
)

working = Table(
    "working",
    metadata,
    _scope_id(),
    Column("session", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("value", JsonText, nullable=False),
    Column("expires_at", Micros),
    UniqueConstraint("scope_id", "session", "key"),
)

outbox = Table(
    "outbox",  # dirty ids only: whoever drains it applies the present truth
    metadata,
    Column("id", BigKey, primary_key=True, autoincrement=True),
    _scope_id(),
    Column("seq", BigInteger, nullable=False),
    Column("work", String(8), nullable=False),  # `vector`: to be embedded; `mirror`: to be told to the index
    Column("attempts", Integer, nullable=False, default=0),
    Column("not_before", Micros, nullable=False),
    Column("last_error", Text),
    UniqueConstraint("scope_id", "seq", "work"),
    sqlite_autoincrement=True,
)

journal = Table(
    "journal",  # what forgetting changed, and how it was before
    metadata,
    _scope_id(),
    Column("report", Text, nullable=False),
    Column("memory_id", Text, nullable=False),
    Column("action", String(16), nullable=False),
    Column("before", JsonText, nullable=False),
    Column("at", Micros, nullable=False),
    Column("undone_at", Micros),
    UniqueConstraint("scope_id", "report", "memory_id"),
)

tombstones = Table(
    "tombstones",
    metadata,
    Column("memory_id", Text, primary_key=True),
    _scope_id(),
    Column("deleted_at", Micros, nullable=False),
    Column("why", Text, nullable=False),
)

SCHEMA_HEAD = "0001"
