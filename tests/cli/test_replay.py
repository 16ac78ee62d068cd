"""`sf-ams replay` as it is typed: a file in, tables or JSON out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sf_ams_core.cli.app import app

LINES = [
    {
        "conversation_id": name,
        "user_id": name,
        "turns": [
            {"id": "t0", "session": "s", "timestamp": "2024-03-01", "speaker": "user", "text": "I keep bees in Graz."},
            {"id": "t1", "session": "s", "timestamp": "2024-03-02", "speaker": "assistant", "text": "How many hives?"},
            {"id": "t2", "session": "s", "timestamp": "2024-03-03", "speaker": "user", "text": "我姐姐在学拉大提琴。"},
        ],
        "questions": [
            {"id": "q0", "question": "Where do I keep bees?", "category": "place", "evidence_turn_ids": ["t0"]},
            {"id": "q1", "question": "姐姐在学什么？", "category": "family", "evidence_turn_ids": ["t2"]},
        ],
    }
    for name in ("ann", "bo")
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "talk.jsonl"
    path.write_text("\n".join(json.dumps(line) for line in LINES), encoding="utf-8")
    return path


@pytest.fixture
def run() -> CliRunner:
    return CliRunner()


@pytest.mark.parametrize("framework", ["core", "langchain", "llamaindex"])
def test_a_file_is_replayed_through_a_framework(run: CliRunner, file: Path, framework: str) -> None:
    """JSON on stdout carries the scores; progress stays on stderr."""
    result = run.invoke(app, ["replay", str(file), "--framework", framework, "--embedder", "hash", "--json"])
    assert result.exit_code == 0
    report = json.loads(result.stdout)
    assert (report["framework"], report["conversations"]) == (framework, 2)
    assert report["scores"][0]["recall_10"]["mean"] == 1.0


def test_people_get_a_table_by_category(run: CliRunner, file: Path) -> None:
    """The table names the measures and the categories."""
    result = run.invoke(app, ["replay", str(file), "--embedder", "hash"])
    assert result.exit_code == 0
    assert all(word in result.stdout for word in ("R@10", "place", "family", "tokens a prompt", "ms a turn"))


def test_a_replay_can_be_cut_short_and_silent(run: CliRunner, file: Path) -> None:
    """--limit counts conversations, --no-questions asks nothing."""
    result = run.invoke(app, ["replay", str(file), "--limit", "1", "--no-questions", "--embedder", "hash", "--json"])
    report = json.loads(result.stdout)
    assert (report["conversations"], report["questions"], report["scores"]) == (1, 0, [])


def test_the_memories_can_be_kept(run: CliRunner, file: Path, tmp_path: Path) -> None:
    """--db leaves a database that `recall` looks into."""
    db = str(tmp_path / "kept.db")
    run.invoke(app, ["replay", str(file), "--no-questions", "--embedder", "hash", "--db", db])
    scope = ["--tenant", "replay", "--user", "ann", "--namespace", "ann"]
    result = run.invoke(app, ["recall", "bees", "--db", db, "--embedder", "hash", "--json", *scope])
    assert json.loads(result.stdout)["hits"][0]["source_ids"] == ["t0"]


def test_a_missing_file_is_one_line(run: CliRunner, tmp_path: Path) -> None:
    """Exit code 2, and the line names the file."""
    result = run.invoke(app, ["replay", str(tmp_path / "nowhere.jsonl")])
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert "nowhere.jsonl" in result.stderr


def test_a_bad_line_is_one_line(run: CliRunner, file: Path) -> None:
    """Exit code 2, and the line names the line."""
    file.write_text(file.read_text(encoding="utf-8") + "\n{oops", encoding="utf-8")
    result = run.invoke(app, ["replay", str(file)])
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "line 3" in result.stderr


def test_an_empty_file_is_one_line(run: CliRunner, tmp_path: Path) -> None:
    """Nothing to measure is an error, not a table of zeros."""
    empty = tmp_path / "empty.jsonl"
    empty.write_text("\n", encoding="utf-8")
    result = run.invoke(app, ["replay", str(empty)])
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
