"""`sf-ams bench`: what reading and writing cost on this machine, each beside a floor of the same run."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..embedders import LocalEmbedder
from ..errors import MissingExtra
from ..evaluation.bench import (
    FreeEmbedder,
    Progress,
    ReadBench,
    WriteBench,
    bench_read,
    bench_write,
    read_work,
)
from ..ports import Embedder
from ..types import Json
from .inspect import AsJson, print_json
from .replay import progress_bar

_TARGET = 15  # times the floor that a warm recall may take
_TURNS = 1_000


def bench(
    *,
    records: Annotated[int, typer.Option(min=100, help="Records of the scope that is searched.")] = 3_000,
    others: Annotated[int, typer.Option(min=50, help="Records of other scopes in the same file.")] = 50_000,
    as_json: AsJson = False,
) -> None:
    """Measure recall and writing against their floors, in two to four minutes."""
    with (
        tempfile.TemporaryDirectory(prefix="sf-ams-bench-") as name,
        progress_bar(read_work(records, others) + 2 * _TURNS) as bar,
    ):
        folder = Path(name)
        writes = _bench_writes(folder, bar.advance)
        read = bench_read(folder, records=records, others=others, progress=bar.advance)
    if as_json:
        print_json({"read": {**asdict(read), "ratio": read.ratio}, "write": [_write_json(each) for each in writes]})
    else:
        _print(Console(), read, writes)


def _bench_writes(folder: Path, tell: Progress) -> list[WriteBench]:
    """Both embedders where the local model is installed, else the free one alone."""
    embedders: list[Embedder] = [FreeEmbedder()]
    with suppress(MissingExtra):
        embedders.append(LocalEmbedder())
    measured = []
    for embedder in embedders:
        tell(f"add_turns with {embedder.space}", 0)
        measured.append(bench_write(folder, embedder, turns=_TURNS))
        tell(f"add_turns with {embedder.space}", _TURNS)
    return measured


def _write_json(measured: WriteBench) -> Json:
    return {**asdict(measured), "ratio": measured.ratio}


def _print(console: Console, read: ReadBench, writes: Sequence[WriteBench]) -> None:
    console.print(_read_table(read), _write_table(writes))
    console.print(
        Text(
            "Recall is without the time of embedding; its floor reads the scope's vectors from\n"
            "the same file with sqlite3 and scans them in numpy, top 10. The floor of writing\n"
            "embeds the same texts and inserts them with their vectors by sqlite3.",
            style="dim",
        )
    )


def _read_table(read: ReadBench) -> Table:
    title = f"Recall: {read.records:,} records of one scope among {read.others:,} of others"
    table = Table("", "p50", "x floor", title=Text(title), title_justify="left")
    rows = (
        ("floor", read.floor_ms),
        (f"recall, warm (p95 {read.warm_p95_ms:.1f} ms; target at most {_TARGET} x)", read.warm_ms),
        ("recall after one more write", read.after_write_ms),
        ("recall, first of a newly opened engine", read.cold_ms),
    )
    for name, ms in rows:
        table.add_row(Text(name), f"{ms:.2f} ms", f"{ms / read.floor_ms:.1f}")
    table.caption = Text(f"loaded in {read.load_seconds:.0f} s")
    return table


def _write_table(writes: Sequence[WriteBench]) -> Table:
    table = Table("embedder", "add_turns", "floor", "x floor", title=Text("Writing, a turn"), title_justify="left")
    for each in writes:
        table.add_row(
            Text(each.embedder), f"{each.ms_a_turn:.2f} ms", f"{each.floor_ms_a_turn:.2f} ms", f"{each.ratio:.1f}"
        )
    return table
