"""The commands of `sf-ams`, each a plain function in a module of its own, put together here.

Tables go to stdout, progress and errors to stderr, `--json` prints one JSON document instead of a table. Exit code 0
is done, 1 is a check that failed, 2 is a call that could not be carried out, with one line that says why.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import typer
from rich.console import Console

from ..errors import SFAMSError
from .bench import bench
from .chat import chat
from .demo import demo
from .inspect import health, recall, stats
from .replay import replay

_P = ParamSpec("_P")
_R = TypeVar("_R")

app = typer.Typer(
    name="sf-ams",
    help="Long-term memory for LLM agents: look into a database, replay conversations, measure.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def plainly(command: Callable[_P, _R]) -> Callable[_P, _R]:
    """`command` with the errors of this library told in one line on stderr, exit code 2."""

    @functools.wraps(command)
    def run(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return command(*args, **kwargs)
        except SFAMSError as fault:
            Console(stderr=True, soft_wrap=True).print(f"sf-ams: {fault}", markup=False, highlight=False)
            raise typer.Exit(2) from None

    return run


for _command in (demo, chat, recall, stats, health, replay, bench):
    app.command()(plainly(_command))
