"""What the README shows is run here, as it stands there, and must print what the README says that it prints."""

from __future__ import annotations

import contextlib
import io
import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import langchain_core  # noqa: F401 - it sets filters of warnings when imported; those of a test must come after
import pytest

ROOT = Path(__file__).parents[2]
MAX_LINES = 10  # of an example, imports and blank lines aside

_FENCE = re.compile(r"^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?!https?://)(?P<target>[^)#]+)")


@dataclass(frozen=True)
class Block:
    """One fenced block and the line that it opens on."""

    language: str
    text: str
    line: int


@dataclass(frozen=True)
class Example:
    """A block of Python and what it prints."""

    code: str
    output: str
    line: int

    def __str__(self) -> str:
        return f"line {self.line}"


def blocks(name: str) -> list[Block]:
    """The fenced blocks of a document at the root."""
    words = (ROOT / name).read_text(encoding="utf-8")
    return [Block(m["language"], m["text"], words.count("\n", 0, m.start()) + 1) for m in _FENCE.finditer(words)]


def examples() -> list[Example]:
    """Every Python block of the README with the block of text behind it."""
    pairs = pairwise([*blocks("README.md"), Block("", "", 0)])
    return [
        Example(block.text, following.text if following.language == "text" else "", block.line)
        for block, following in pairs
        if block.language == "python"
    ]


@pytest.mark.parametrize("example", examples(), ids=str)
@pytest.mark.filterwarnings("ignore:RunnableWithMessageHistory is deprecated")
def test_examples_print_what_the_readme_says(example: Example, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each example runs by itself in an empty folder, offline, and prints the text below it."""
    monkeypatch.chdir(tmp_path)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(
            compile(example.code, f"README.md, line {example.line}", "exec", dont_inherit=True),
            {"__name__": "__main__"},
        )
    assert printed.getvalue() == example.output


def test_every_surface_has_an_example() -> None:
    """The engine, forgetting and each adapter's main names are shown by code that runs."""
    shown = "".join(example.code for example in examples())
    for name in (
        "engine.recall", "engine.context", "plan_forgetting", "engine.undo", "engine.erase", "SFAMSMiddleware",
        "create_history_factory", "SFAMSRetriever", "create_memory_tools", "SFAMSMemory",
    ):  # fmt: skip
        assert name in shown


@pytest.mark.parametrize("example", examples(), ids=str)
def test_examples_are_short(example: Example) -> None:
    """An example is read at a glance."""
    lines = [line for line in example.code.splitlines() if line and not line.startswith(("import ", "from "))]
    assert len(lines) <= MAX_LINES


def test_both_languages_show_the_same_code() -> None:
    """README.zh.md has the blocks of README.md, in the same order, letter for letter."""
    assert [(b.language, b.text) for b in blocks("README.zh.md")] == [(b.language, b.text) for b in blocks("README.md")]


@pytest.mark.parametrize("name", ["README.md", "README.zh.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_lead_somewhere(name: str) -> None:
    """Every link to a file of the project names one that is there."""
    targets = [match["target"] for match in _LINK.finditer((ROOT / name).read_text(encoding="utf-8"))]
    assert [target for target in targets if not (ROOT / target).exists()] == []


def test_commands_are_those_of_the_command_line() -> None:
    """Both READMEs name every command of `sf-ams` and no other."""
    from sf_ams_core.cli.app import app

    real = {command.callback.__name__ for command in app.registered_commands if command.callback}
    for name in ("README.md", "README.zh.md"):
        line = re.search(r"^`sf-ams (?P<names>[^`]+)`", (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE)
        assert line is not None
        assert {part.strip() for part in line["names"].split("·")} == real
