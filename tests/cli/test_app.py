"""The commands that look into a database: output for people, JSON for programs, exit codes for scripts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sf_ams_core import MemoryEngine, Scope
from sf_ams_core.cli.app import app

ANN = ["--user", "ann", "--tenant", "acme", "--namespace", "kitchen"]


@pytest.fixture
def db(tmp_path: Path) -> str:
    file = tmp_path / "memory.db"
    with MemoryEngine.open(f"sqlite:///{file}", embedder="hash") as engine:
        engine.remember(Scope("acme", "ann", "kitchen"), "Ann is allergic to [bold]peanuts[/bold].")
        engine.remember(Scope("acme", "ann", "kitchen"), "安每周三去上陶艺课。")
    return str(file)


@pytest.fixture
def run() -> CliRunner:
    return CliRunner()


def test_recall_prints_the_words_as_they_are(run: CliRunner, db: str) -> None:
    """What looks like markup in a memory is shown, not obeyed."""
    result = run.invoke(app, ["recall", "peanuts", "--db", db, "--embedder", "hash", *ANN], terminal_width=200)
    assert result.exit_code == 0
    assert "[bold]peanuts[/bold]" in "".join(result.stdout.split())


def test_recall_as_json_is_one_document(run: CliRunner, db: str) -> None:
    """Programs get ids, scores and words, Chinese unescaped."""
    result = run.invoke(app, ["recall", "陶艺课", "--db", db, "--embedder", "hash", "--json", *ANN])
    found = json.loads(result.stdout)
    assert found["hits"][0]["content"] == "安每周三去上陶艺课。"
    assert found["hits"][0]["score"] == pytest.approx(sum(found["hits"][0]["parts"].values()))
    assert "陶艺课" in result.stdout


def test_recall_stays_in_its_scope(run: CliRunner, db: str) -> None:
    """Another user of the same database finds nothing."""
    result = run.invoke(app, ["recall", "peanuts", "--db", db, "--embedder", "hash", "--json", "--user", "bo"])
    assert json.loads(result.stdout)["hits"] == []


def test_stats_count_a_scope(run: CliRunner, db: str) -> None:
    """The counts are those of the named scope."""
    result = run.invoke(app, ["stats", "--db", db, "--json", *ANN])
    assert json.loads(result.stdout)["active"] == 2


@pytest.mark.parametrize("command", [["stats", *ANN], ["health", "--embedder", "hash"]])
def test_a_table_is_printed_for_people(run: CliRunner, db: str, command: list[str]) -> None:
    """Without --json there is a table and no error."""
    result = run.invoke(app, [*command, "--db", db])
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.strip()


def test_health_says_whether_it_works(run: CliRunner, db: str) -> None:
    """A working database is ok with exit code 0."""
    result = run.invoke(app, ["health", "--db", db, "--embedder", "hash", "--json"])
    assert result.exit_code == 0
    assert json.loads(result.stdout)["ok"] is True


def test_looking_never_makes_a_database(run: CliRunner, tmp_path: Path) -> None:
    """A mistyped path is one line and exit code 2, not an empty database."""
    missing = tmp_path / "typo.db"
    result = run.invoke(app, ["stats", "--db", str(missing), *ANN])
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert "typo.db" in result.stderr
    assert not missing.exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["recall", "x", "--user", "ann", "--k", "0"],
        ["recall", "x", "--user", " "],
        ["stats", "--user", "a" * 300],
    ],
)
def test_misuse_is_one_line(run: CliRunner, db: str, arguments: list[str]) -> None:
    """What the engine refuses is told in one line with exit code 2."""
    result = run.invoke(app, [*arguments, "--db", db])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1


def test_a_url_that_is_none_is_one_line(run: CliRunner) -> None:
    """A malformed URL is told, not traced."""
    result = run.invoke(app, ["stats", "--db", "mysql://nowhere/x", *ANN])
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)


@pytest.mark.parametrize("package", ["typer", "rich"])
def test_without_its_libraries_the_command_names_the_install_line(package: str) -> None:
    """A missing extra is one line on stderr and a failing exit code."""
    program = f"import sys; sys.modules[{package!r}] = None; from sf_ams_core.cli import main; main()"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 1
    assert result.stderr.splitlines() == [f"{package!r} is not installed. Run: pip install 'sf-ams[cli]'"]
