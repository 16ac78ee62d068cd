"""Schema changes, numbered; run by Alembic on a connection that the caller has begun and locked."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection


def config(connection: Connection) -> Config:
    """Alembic's configuration for this folder, bound to one connection."""
    made = Config()
    made.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    made.attributes["connection"] = connection
    return made


def upgrade(connection: Connection) -> None:
    """Bring the schema to the newest version inside the caller's transaction."""
    command.upgrade(config(connection), "head")
