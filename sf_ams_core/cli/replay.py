"""`sf-ams replay`: say conversations again through a framework and measure what memory recalls and costs."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from ..engine import MemoryEngine
from ..errors import InvalidInput
from ..evaluation.datasets import read_jsonl
from ..evaluation.drivers import Framework
from ..evaluation.metrics import Interval
from ..evaluation.replay import ReplayReport, work
from ..evaluation.replay import replay as run_replay
from .inspect import AsJson, Embedding, database_url, print_json


def replay(
    file: Annotated[Path, typer.Argument(help="Conversations, one JSON object a line.")],
    *,
    framework: Annotated[Framework, typer.Option(help="What the turns go through.")] = "core",
    questions: Annotated[bool, typer.Option(help="Ask the questions of the file.")] = True,
    embedder: Embedding = "auto",
    limit: Annotated[int | None, typer.Option(min=1, help="Conversations at most.")] = None,
    db: Annotated[str | None, typer.Option("--db", help="Keep the memories in this database.")] = None,
    as_json: AsJson = False,
) -> None:
    """Say the conversations of FILE turn by turn; print recall, tokens a turn and latency."""
    dialogues = list(islice(read_jsonl(file), limit))
    if not dialogues:
        raise InvalidInput(f"{str(file)!r} holds no conversation")
    with (
        _database(db) as url,
        MemoryEngine.open(url, embedder=embedder) as engine,
        progress_bar(work(dialogues, questions=questions)) as tell,
    ):
        report = run_replay(dialogues, framework=framework, engine=engine, questions=questions, progress=tell.advance)
    if as_json:
        print_json(json.loads(json.dumps(asdict(report))))
    else:
        _print(Console(), report)


class Bar:
    """A progress bar that counts units and says what they are."""

    def __init__(self, progress: Progress, total: int) -> None:
        self._progress = progress
        self._task = progress.add_task("", total=total)

    def advance(self, what: str, done: int) -> None:
        """Show `what` and move on by `done` units."""
        self._progress.update(self._task, description=what, advance=done)


@contextmanager
def progress_bar(total: int) -> Iterator[Bar]:
    """A bar on stderr, gone when it is done."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        yield Bar(progress, total)


@contextmanager
def _database(db: str | None) -> Iterator[str]:
    if db is not None:
        yield database_url(db)
        return
    with tempfile.TemporaryDirectory(prefix="sf-ams-replay-") as folder:
        yield f"sqlite:///{folder}/replay.db"


def _print(console: Console, report: ReplayReport) -> None:
    console.print(
        Text(
            f"{report.framework}, embedder {report.embedder}: {report.conversations} conversations, "
            f"{report.turns} turns, {report.questions} questions"
        )
    )
    if report.scores:
        console.print(_score_table(report))
    console.print(_cost_table(report))
    console.print(
        Text(
            "Intervals: 95 %, conversations drawn with replacement. R@k, nDCG@k: in percent, questions with evidence.\n"
            f"Tokens: our own counter, at most {report.tokens.samples_a_conversation} prompts a conversation.",
            style="dim",
        )
    )


def _score_table(report: ReplayReport) -> Table:
    table = Table()
    table.add_column("category", overflow="fold")
    for name in ("n", "R@5", "R@10", "nDCG@10"):
        table.add_column(name, justify="right", no_wrap=True)
    for scores in report.scores:
        figures = (scores.recall_5, scores.recall_10, scores.ndcg_10)
        table.add_row(
            Text("all" if scores.category is None else scores.category or "(none)"),
            str(scores.recall_10.n),
            *map(_percent, figures),
            style="bold" if scores.category is None else "",
        )
    return table


def _cost_table(report: ReplayReport) -> Table:
    table = Table(show_header=False)
    for name, value in _costs(report):
        table.add_row(name, Text(value))
    return table


def _costs(report: ReplayReport) -> Iterator[tuple[str, str]]:
    memory, full = report.tokens.with_memory, report.tokens.full_history
    if memory.n:
        yield "tokens a prompt, with memory", _number(memory)
        yield "tokens a prompt, full history", _number(full)
        yield "saved", f"{1 - memory.mean / full.mean:.1%}" if full.mean else "-"
    if report.stale:
        yield "outdated value above the new one, %", _percent(report.stale.old_above_new)
        yield "outdated value in the first 5, %", _percent(report.stale.old_in_first_5)
    if report.recall_ms:
        yield "recall p50 / p95", f"{report.recall_ms.p50:.1f} / {report.recall_ms.p95:.1f} ms"
    if report.degraded is not None:
        yield "degraded recalls", f"{report.degraded:.1%}"
    yield (
        "writing",
        f"{report.write_seconds:.1f} s, {1_000 * report.write_seconds / max(1, report.turns):.1f} ms a turn",
    )
    if report.faults:
        yield "faults", ", ".join(f"{name} {count}" for name, count in report.faults.items())


def _percent(value: Interval) -> str:
    return _with_bounds(*(f"{100 * part:.1f}" for part in (value.mean, value.low, value.high))) if value.n else "-"


def _number(value: Interval) -> str:
    return _with_bounds(*(f"{part:,.0f}" for part in (value.mean, value.low, value.high))) if value.n else "-"


def _with_bounds(mean: str, low: str, high: str) -> str:
    """Bounds are left out where there are none to speak of: one conversation, or the same in all."""
    return mean if low == high else f"{mean} [{low}-{high}]"
