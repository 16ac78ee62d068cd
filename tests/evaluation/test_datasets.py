"""Conversations are read as they are written, and what cannot be read is named."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sf_ams_core.errors import InvalidInput
from sf_ams_core.evaluation.datasets import Dialogue, read_jsonl
from sf_ams_core.types import Turn

TURN = {"id": "a1", "session": "monday", "timestamp": "2024-03-15T09:30:00", "speaker": "Mei", "text": "我养了一只猫。"}
QUESTION = {"id": "q1", "question": "What pet does Mei have?", "answer": "a cat", "evidence_turn_ids": ["a1"]}


def written(folder: Path, *lines: str) -> Path:
    file = folder / "talk.jsonl"
    file.write_text("\n".join(lines), encoding="utf-8")
    return file


def dialogue(folder: Path, **changes: object) -> Dialogue:
    line = {"conversation_id": "c1", "user_id": "mei", "turns": [TURN], "questions": [QUESTION], **changes}
    return next(read_jsonl(written(folder, json.dumps(line))))


def test_a_conversation_keeps_its_turns_and_questions(tmp_path: Path) -> None:
    """Turns, questions and evidence come back as written."""
    read = dialogue(tmp_path)
    assert (read.id, read.user) == ("c1", "mei")
    assert read.turns[0].text == "我养了一只猫。"
    assert read.questions[0].evidence == ("a1",)


@pytest.mark.parametrize(
    ("written_as", "moment"),
    [
        ("2024-03-15", datetime(2024, 3, 15, tzinfo=UTC)),
        ("2024-03-15T09:30:00", datetime(2024, 3, 15, 9, 30, tzinfo=UTC)),
        ("2024-03-15T09:30:00+08:00", datetime(2024, 3, 15, 1, 30, tzinfo=UTC)),
        ("2024-03-15T09:30:00Z", datetime(2024, 3, 15, 9, 30, tzinfo=UTC)),
    ],
)
def test_a_time_may_be_a_date_or_naive_or_have_a_zone(tmp_path: Path, written_as: str, moment: datetime) -> None:
    """Dates and naive times are UTC; a zone is respected."""
    assert dialogue(tmp_path, turns=[{**TURN, "timestamp": written_as}]).turns[0].at == moment


@given(st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=8)), timezone(timedelta(hours=-5))])))
def test_any_moment_survives_the_file(tmp_path_factory: pytest.TempPathFactory, moment: datetime) -> None:
    """A moment written in any zone is the same moment when read."""
    folder = tmp_path_factory.mktemp("moment")
    if datetime(2, 1, 1, tzinfo=UTC) < moment < datetime(9998, 1, 1, tzinfo=UTC):
        assert dialogue(folder, turns=[{**TURN, "timestamp": moment.isoformat()}]).turns[0].at == moment


@pytest.mark.parametrize(
    ("speaker", "turn"),
    [
        ("assistant", Turn("assistant", "Hi.", id="a1")),
        ("user", Turn("user", "Hi.", id="a1")),
        ("Mei", Turn("user", "Hi.", id="a1", speaker="Mei")),
    ],
)
def test_a_speaker_becomes_a_role_or_a_name(tmp_path: Path, speaker: str, turn: Turn) -> None:
    """`assistant` and `user` are roles; anyone else is a user with a name."""
    raw = {"id": "a1", "session": "s", "speaker": speaker, "text": "Hi."}
    assert dialogue(tmp_path, turns=[raw]).turns[0].as_turn() == turn


def test_unknown_keys_and_blank_lines_are_ignored(tmp_path: Path) -> None:
    """A file with more than we know reads the same."""
    more = json.dumps({"conversation_id": "c1", "mood": 3, "turns": [{**TURN, "weather": "rain"}]})
    read = list(read_jsonl(written(tmp_path, "", more, "  ", "")))
    assert [turn.id for turn in read[0].turns] == ["a1"]


def test_a_conversation_without_a_user_is_its_own_user(tmp_path: Path) -> None:
    """The id of the conversation stands in for a missing user."""
    assert dialogue(tmp_path, user_id=None).user == "c1"


def test_a_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    """Files saved with a byte order mark can be read."""
    file = tmp_path / "talk.jsonl"
    file.write_text(json.dumps({"conversation_id": "c1", "turns": [TURN]}), encoding="utf-8-sig")
    assert next(read_jsonl(file)).id == "c1"


GOOD = json.dumps({"conversation_id": "c1", "turns": [TURN]})


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('{"conversation_id": "c2", "turns": [', "not JSON"),
        ("[]", "must be a JSON object"),
        ('{"turns": []}', "'conversation_id' is missing"),
        ('{"conversation_id": "  "}', "blank"),
        ('{"conversation_id": "c2", "turns": {}}', "'turns' must be a list"),
        ('{"conversation_id": "c2", "turns": [7]}', "item 1 of 'turns'"),
        (json.dumps({"conversation_id": "c2", "turns": [TURN, {**TURN, "text": 5}]}), "item 2 of 'turns': 'text'"),
        (json.dumps({"conversation_id": "c2", "turns": [{**TURN, "timestamp": "soon"}]}), "'timestamp' must be an ISO"),
        (json.dumps({"conversation_id": "c2", "questions": [{**QUESTION, "evidence_turn_ids": "a1"}]}), "evidence"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: str, told: str) -> None:
    """The error says which line and what is wrong with it."""
    with pytest.raises(InvalidInput, match=r"line 2") as caught:
        list(read_jsonl(written(tmp_path, GOOD, line)))
    assert told in str(caught.value)


def test_bytes_that_are_not_utf8_are_named(tmp_path: Path) -> None:
    """A file in another encoding is refused by line."""
    file = tmp_path / "talk.jsonl"
    file.write_bytes(GOOD.encode() + b"\n" + '{"conversation_id": "我的猫咪"}'.encode("gb18030"))
    with pytest.raises(InvalidInput, match="line 2: not UTF-8"):
        list(read_jsonl(file))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """A file that is not there is an error that names it."""
    with pytest.raises(InvalidInput, match=r"nowhere\.jsonl"):
        list(read_jsonl(tmp_path / "nowhere.jsonl"))


def test_the_error_does_not_repeat_what_was_said(tmp_path: Path) -> None:
    """Someone's words never end up in an error message."""
    with pytest.raises(InvalidInput) as caught:
        list(read_jsonl(written(tmp_path, '{"conversation_id": "c1", "turns": ["my diary"')))
    assert "diary" not in str(caught.value)
