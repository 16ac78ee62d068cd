"""The first schema."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

BIG_KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "scopes",
        sa.Column("id", BIG_KEY, autoincrement=True, nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("user", sa.Text(), nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("next_seq", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_scopes")),
        sa.UniqueConstraint("tenant", "user", "namespace", name=op.f("uq_scopes_tenant_user_namespace")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "facts",
        sa.Column("scope_id", BIG_KEY, nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("valid_from", sa.BigInteger(), nullable=False),
        sa.Column("valid_to", sa.BigInteger(), nullable=True),
        sa.Column("source", sa.String(length=16), nullable=False),
        sa.Column("memory_id", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["scope_id"], ["scopes.id"], name=op.f("fk_facts_scope_id"), ondelete="CASCADE"),
        sa.UniqueConstraint("scope_id", "key", "version", name=op.f("uq_facts_scope_id_key_version")),
    )
    op.create_table(
        "journal",
        sa.Column("scope_id", BIG_KEY, nullable=False),
        sa.Column("report", sa.Text(), nullable=False),
        sa.Column("memory_id", sa.Text(), nullable=False),
        sa.Column("action", sa.String(length=16), nullable=False),
        sa.Column("before", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("undone_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["scope_id"], ["scopes.id"], name=op.f("fk_journal_scope_id"), ondelete="CASCADE"),
        sa.UniqueConstraint("scope_id", "report", "memory_id", name=op.f("uq_journal_scope_id_report_memory_id")),
    )
    op.create_table(
        "marks",
        sa.Column("scope_id", BIG_KEY, nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.String(length=8), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["scope_id"], ["scopes.id"], name=op.f("fk_marks_scope_id"), ondelete="CASCADE"),
    )
    op.create_index(
        op.f("ix_marks_scope_id_kind_name_value"), "marks", ["scope_id", "kind", "name", "value"], unique=False
    )
    op.create_index(op.f("ix_marks_scope_id_seq"), "marks", ["scope_id", "seq"], unique=False)
    op.create_table(
        "memories",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("scope_id", BIG_KEY, nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("session", sa.Text(), nullable=True),
        sa.Column("speaker", sa.Text(), nullable=True),
        sa.Column("type", sa.String(length=32), nullable=False),
        sa.Column("subtype", sa.Text(), nullable=True),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("terms", sa.Text(), nullable=False),
        sa.Column("folded", sa.String(length=64), nullable=False),
        sa.Column("chars", sa.Integer(), nullable=False),
        sa.Column("importance", sa.Float(), nullable=False),
        sa.Column("entities", sa.Text(), nullable=False),
        sa.Column("metadata", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=True),
        sa.Column("source", sa.String(length=16), nullable=False),
        sa.Column("source_ids", sa.Text(), nullable=False),
        sa.Column("turn_id", sa.Text(), nullable=True),
        sa.Column("trust", sa.Float(), nullable=False),
        sa.Column("visibility", sa.Text(), nullable=False),
        sa.Column("pinned", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("occurred_at", sa.BigInteger(), nullable=True),
        sa.Column("said_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.Column("last_accessed_at", sa.BigInteger(), nullable=False),
        sa.Column("access_count", sa.Integer(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=True),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("why", sa.Text(), nullable=True),
        sa.Column("superseded_by", sa.Text(), nullable=True),
        sa.Column("retired_at", sa.BigInteger(), nullable=True),
        sa.Column("embedding_version", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["scope_id"], ["scopes.id"], name=op.f("fk_memories_scope_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_memories")),
        sa.UniqueConstraint("scope_id", "seq", name=op.f("uq_memories_scope_id_seq")),
    )
    op.create_index(op.f("ix_memories_scope_id_folded"), "memories", ["scope_id", "folded"], unique=False)
    op.create_index(op.f("ix_memories_scope_id_key"), "memories", ["scope_id", "key"], unique=False)
    op.create_index(op.f("ix_memories_scope_id_state_seq"), "memories", ["scope_id", "state", "seq"], unique=False)
    op.create_index(op.f("ix_memories_scope_id_superseded_by"), "memories", ["scope_id", "superseded_by"], unique=False)
    op.create_table(
        "outbox",
        sa.Column("id", BIG_KEY, autoincrement=True, nullable=False),
        sa.Column("scope_id", BIG_KEY, nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("work", sa.String(length=8), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("not_before", sa.BigInteger(), nullable=False),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["scope_id"], ["scopes.id"], name=op.f("fk_outbox_scope_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_outbox")),
        sa.UniqueConstraint("scope_id", "seq", "work", name=op.f("uq_outbox_scope_id_seq_work")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "sessions",
        sa.Column("scope_id", BIG_KEY, nullable=False),
        sa.Column("session", sa.Text(), nullable=False),
        sa.Column("opened_at", sa.BigInteger(), nullable=False),
        sa.Column("last_turn_at", sa.BigInteger(), nullable=False),
        sa.Column("closed_at", sa.BigInteger(), nullable=True),
        sa.Column("cleared_view", sa.BigInteger(), nullable=False),
        sa.Column("summarised_view", sa.BigInteger(), nullable=False),
        sa.Column("summary", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["scope_id"], ["scopes.id"], name=op.f("fk_sessions_scope_id"), ondelete="CASCADE"),
        sa.UniqueConstraint("scope_id", "session", name=op.f("uq_sessions_scope_id_session")),
    )
    op.create_table(
        "tombstones",
        sa.Column("memory_id", sa.Text(), nullable=False),
        sa.Column("scope_id", BIG_KEY, nullable=False),
        sa.Column("deleted_at", sa.BigInteger(), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["scope_id"], ["scopes.id"], name=op.f("fk_tombstones_scope_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("memory_id", name=op.f("pk_tombstones")),
    )
    op.create_table(
        "turns",
        sa.Column("scope_id", BIG_KEY, nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("view", sa.BigInteger(), nullable=False),
        sa.Column("session", sa.Text(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("speaker", sa.Text(), nullable=True),
        sa.Column("at", sa.BigInteger(), nullable=True),
        sa.Column("arrived_at", sa.BigInteger(), nullable=False),
        sa.Column("payload", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["scope_id"], ["scopes.id"], name=op.f("fk_turns_scope_id"), ondelete="CASCADE"),
        sa.UniqueConstraint("scope_id", "seq", name=op.f("uq_turns_scope_id_seq")),
        sa.UniqueConstraint("scope_id", "session", "id", name=op.f("uq_turns_scope_id_session_id")),
    )
    op.create_index(op.f("ix_turns_scope_id_session_view"), "turns", ["scope_id", "session", "view"], unique=False)
    op.create_table(
        "vectors",
        sa.Column("scope_id", BIG_KEY, nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("chunk", sa.Integer(), nullable=False),
        sa.Column("space", sa.Text(), nullable=False),
        sa.Column("vector", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["scope_id"], ["scopes.id"], name=op.f("fk_vectors_scope_id"), ondelete="CASCADE"),
        sa.UniqueConstraint("scope_id", "space", "seq", "chunk", name=op.f("uq_vectors_scope_id_space_seq_chunk")),
    )
    op.create_table(
        "working",
        sa.Column("scope_id", BIG_KEY, nullable=False),
        sa.Column("session", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["scope_id"], ["scopes.id"], name=op.f("fk_working_scope_id"), ondelete="CASCADE"),
        sa.UniqueConstraint("scope_id", "session", "key", name=op.f("uq_working_scope_id_session_key")),
    )
