"""Dates named in words, and how a day fits them."""

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sf_ams_core.rules.dates import DateSpan, date_match, dates_in

TODAY = date(2023, 5, 17)  # a Wednesday


def day(text: str) -> DateSpan:
    """The span of one ISO day."""
    return DateSpan(date.fromisoformat(text), date.fromisoformat(text), month_only=False)


@pytest.mark.parametrize(
    ("english", "chinese", "expected"),
    [
        ("on 7 May 2023", "2023年5月7日", "2023-05-07"),
        ("March 3rd, 2022", "二〇二二年三月三日", "2022-03-03"),
        ("2023-05-07", "2023/5/7", "2023-05-07"),
        ("May 7", "5月7号", "2023-05-07"),
        ("the 1st of November", "十一月一日", "2022-11-01"),
        ("February 29", "2月29日", "2024-02-29"),
        ("yesterday", "昨天", "2023-05-16"),
        ("the day before yesterday", "前天", "2023-05-15"),
        ("tomorrow", "明天", "2023-05-18"),
        ("3 days ago", "三天前", "2023-05-14"),
        ("two weeks ago", "两周前", "2023-05-03"),
        ("in two weeks", "两个星期后", "2023-05-31"),
        ("last Friday", "上周五", "2023-05-12"),
        ("on Friday", "周五", "2023-05-12"),
        ("this Monday", "这周一", "2023-05-15"),
        ("12/31/2022", "2022年12月31日", "2022-12-31"),
        ("31/12/2022", "二零二二年十二月三十一日", "2022-12-31"),
    ],
)
def test_days_are_read_in_both_languages(english: str, chinese: str, expected: str) -> None:
    """The same day in English and Chinese is the same span."""
    assert dates_in(f"What happened {english}?", TODAY) == (day(expected),)
    assert dates_in(f"{chinese}发生了什么？", TODAY) == (day(expected),)


@pytest.mark.parametrize(
    ("english", "chinese", "start", "end", "month_only"),
    [
        ("in May", "5月", "2023-05-01", "2023-05-31", True),
        ("December 2022", "2022年12月", "2022-12-01", "2022-12-31", True),
        ("last month", "上个月", "2023-04-01", "2023-04-30", True),
        ("six months ago", "半年前", "2022-11-01", "2022-11-30", True),
        ("last year", "去年", "2022-01-01", "2022-12-31", True),
        ("in 2021", "2021年", "2021-01-01", "2021-12-31", True),
        ("last week", "上週", "2023-05-08", "2023-05-14", False),
        ("this weekend", "这周末", "2023-05-20", "2023-05-21", False),
    ],
)
def test_longer_spans_are_read_in_both_languages(
    english: str, chinese: str, start: str, end: str, month_only: bool
) -> None:
    """Weeks, months and years have a first and a last day."""
    expected = DateSpan(date.fromisoformat(start), date.fromisoformat(end), month_only)
    assert dates_in(f"Where did I go {english}?", TODAY) == (expected,)
    assert dates_in(f"我{chinese}去了哪里？", TODAY) == (expected,)


@pytest.mark.parametrize(
    "text",
    [
        "I may go",
        "we march on",
        "Feb 30",
        "2023-13-45",
        "13月40日",
        "一周五次",
        "每周五开会",
        "release 1.2.2023",
        "第十三十月",
        "",
    ],
)
def test_what_is_no_date_is_left_alone(text: str) -> None:
    """Verbs, impossible days, counts, habits and versions name no day."""
    assert dates_in(text, TODAY) == ()


def test_several_dates_come_in_order() -> None:
    """Each is read once, whatever rule reads it."""
    assert dates_in("从5月7日到昨天, then 2023-05-07 again", TODAY) == (day("2023-05-07"), day("2023-05-16"))


@given(st.text(st.sampled_from("0123456789年月日号周上下个前后三十一五-/ ") | st.characters()), st.dates())
def test_any_text_at_any_time_is_readable(text: str, today: date) -> None:
    """No text raises, and every span runs forwards."""
    assert all(span.start <= span.end for span in dates_in(text, today))


@pytest.mark.parametrize(
    ("said", "weight"),
    [
        ("2023-05-07", 1.0),
        ("2023-05-06", 1.0),
        ("2023-05-08", 1.0),
        ("2023-05-14", 0.6),
        ("2023-05-28", 0.3),
        ("2023-06-20", 0),
    ],
)
def test_a_named_day_fits_less_with_distance(said: str, weight: float) -> None:
    """A day's slip is nothing, the week after is near, the rest of the month far."""
    assert date_match(dates_in("5月7日", TODAY), date.fromisoformat(said)) == weight


@pytest.mark.parametrize(("text", "weight"), [("in May", 0.5), ("in 2023", 0.3), ("in June", 0.0), ("hello", 0.0)])
def test_a_month_or_year_alone_fits_loosely(text: str, weight: float) -> None:
    """The wider the name, the less it says."""
    assert date_match(dates_in(text, TODAY), date(2023, 5, 20)) == weight


@given(st.dates(date(1950, 1, 1), date(2100, 1, 1)), st.integers(-400, 400))
def test_the_best_of_several_spans_counts(said: date, shift: int) -> None:
    """A further span never lowers the fit."""
    one, other = (day(str(said + timedelta(days=n))) for n in (shift, 3))
    assert date_match([one, other], said) >= date_match([one], said)
