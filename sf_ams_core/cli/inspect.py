"""Looking into a database: `recall`, `stats`, `health`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from ..engine import MemoryEngine
from ..errors import NotFound
from ..types import Hit, Json, Recall, Scope

Database: TypeAlias = Annotated[str, typer.Option("--db", help="Database URL, or the path of a SQLite file.")]
Tenant: TypeAlias = Annotated[str, typer.Option(help="Tenant of the scope.")]
User: TypeAlias = Annotated[str, typer.Option(help="User of the scope.")]
Namespace: TypeAlias = Annotated[str, typer.Option(help="Project, agent or app of the scope.")]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
EmbedderName: TypeAlias = Literal["auto", "local", "hash"]
Embedding: TypeAlias = Annotated[
    EmbedderName, typer.Option("--embedder", help="auto: the local model where installed, else hashing.")
]


def recall(
    query: Annotated[str, typer.Argument(help="What to look for.")],
    *,
    user: User,
    db: Database = "sf_ams.db",
    tenant: Tenant = "default",
    namespace: Namespace = "default",
    k: Annotated[int, typer.Option(help="Hits at most.")] = 5,
    embedder: Embedding = "auto",
    as_json: AsJson = False,
) -> None:
    """What is recalled for a query."""
    with open_existing(db, embedder) as engine:
        found = engine.recall(Scope(tenant, user, namespace), query, k=k)
    if as_json:
        print_json(_recall_json(found))
    else:
        Console().print(_recall_table(found))


def stats(
    *,
    user: User,
    db: Database = "sf_ams.db",
    tenant: Tenant = "default",
    namespace: Namespace = "default",
    as_json: AsJson = False,
) -> None:
    """How much a scope holds."""
    with open_existing(db, "hash") as engine:
        counted = asdict(engine.stats(Scope(tenant, user, namespace)))
    show(f"{tenant} / {user} / {namespace}", counted, as_json=as_json)


def health(*, db: Database = "sf_ams.db", embedder: Embedding = "auto", as_json: AsJson = False) -> None:
    """Whether database and embedder work; exit code 1 if not."""
    with open_existing(db, embedder) as engine:
        found = engine.health()
    show("health", asdict(found), as_json=as_json)
    if not found.ok:
        raise typer.Exit(1)


def database_url(db: str) -> str:
    """`db` as a URL; a plain path names a SQLite file."""
    return db if "://" in db else f"sqlite:///{db}"


def open_existing(db: str, embedder: EmbedderName) -> MemoryEngine:
    """The engine over a database that is there already. Raises NotFound rather than make an empty one."""
    url = database_url(db)
    try:
        parsed = make_url(url)
    except ArgumentError:
        return MemoryEngine.open(url, embedder=embedder)  # says itself what a URL looks like
    if parsed.get_backend_name() == "sqlite" and not Path(parsed.database or "").is_file():
        raise NotFound(f"no database at {parsed.database!r}; name one with --db")
    return MemoryEngine.open(url, embedder=embedder)


def print_json(value: Json) -> None:
    """One JSON document on stdout, letters as they are."""
    typer.echo(json.dumps(value, ensure_ascii=False, indent=2, default=str))


def show(title: str, values: Mapping[str, Json], *, as_json: bool) -> None:
    """Names and values, as a table or as JSON."""
    if as_json:
        print_json(dict(values))
        return
    table = Table(title=Text(title), show_header=False)
    table.add_column(style="bold")
    table.add_column()
    for name, value in values.items():
        table.add_row(name.replace("_", " "), Text(_plain(value)))
    Console().print(table)


def _plain(value: Json) -> str:
    if isinstance(value, dict):
        return "\n".join(f"{key}: {item}" for key, item in value.items())
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def _recall_table(found: Recall) -> Table:
    lost = f", without {', '.join(found.degraded)}" if found.degraded else ""
    table = Table(caption=Text(f"{len(found)} hits in {found.took_ms:.0f} ms{lost}"), caption_justify="left")
    for name in ("score", "said", "who", "type", "content", "routes"):
        table.add_column(name, justify="right" if name == "score" else "left")
    for hit in found:
        # Text, not str: a memory may hold what rich would take for markup.
        table.add_row(*(Text(cell) for cell in _row(hit)))
    return table


def _row(hit: Hit) -> Iterable[str]:
    memory = hit.memory
    said = f"{memory.said_at:%Y-%m-%d}"
    return f"{hit.score:.3f}", said, memory.speaker or memory.source, memory.type, hit.content, " ".join(hit.routes)


def _recall_json(found: Recall) -> Json:
    return {
        "trace_id": found.trace_id,
        "took_ms": found.took_ms,
        "degraded": list(found.degraded),
        "hits": [_hit_json(hit) for hit in found],
    }


def _hit_json(hit: Hit) -> Json:
    return {
        "id": hit.memory.id,
        "type": hit.memory.type,
        "content": hit.content,
        "score": hit.score,
        "parts": dict(hit.parts),
        "routes": list(hit.routes),
        "source_ids": list(hit.source_ids),
        "importance": hit.memory.importance,
        "said_at": hit.memory.said_at.isoformat(),
        "speaker": hit.memory.speaker,
    }
