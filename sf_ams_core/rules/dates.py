"""The dates that a text names, and how well a moment fits them.

A table of patterns, most specific first; what one has read is blanked for the next. English and Chinese forms that
mean the same share a reader.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import partial

from .text import normalise


@dataclass(frozen=True, slots=True)
class DateSpan:
    """The days from `start` to `end`, both included; `month_only` where no day was named, only a month or year."""

    start: date
    end: date
    month_only: bool


_Groups = dict[str, str]
_Reader = Callable[[_Groups, date], DateSpan | None]

_MOST = 64  # a text with more dates is a list of them, about no day in particular
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_HAN_DIGITS = {
    "〇": 0,
    "零": 0,
    "一": 1,
    "二": 2,
    "两": 2,
    "兩": 2,
    "三": 3,
    "四": 4,
    "五": 5,
    "六": 6,
    "七": 7,
    "八": 8,
    "九": 9,
}
_COUNTS = {
    "a": 1, "an": 1, "one": 1, "two": 2, "a couple of": 2, "three": 3, "a few": 3, "few": 3, "several": 3, "four": 4,
    "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10, "几": 3, "幾": 3, "半": 0,
}  # fmt: skip
_UNIT_DAYS = {"day": 1, "天": 1, "日": 1, "week": 7, "周": 7, "週": 7, "星期": 7, "礼拜": 7, "禮拜": 7}
_NEAR = {
    "day before yesterday": -2, "yesterday": -1, "last night": -1, "today": 0, "tonight": 0, "this morning": 0,
    "this afternoon": 0, "this evening": 0, "tomorrow": 1, "day after tomorrow": 2,
    "大前天": -3, "前天": -2, "前晚": -2, "昨天": -1, "昨日": -1, "昨晚": -1, "今天": 0, "今日": 0, "今早": 0,
    "今晚": 0, "明天": 1, "明日": 1, "明早": 1, "明晚": 1, "后天": 2, "後天": 2, "大后天": 3, "大後天": 3,
}  # fmt: skip
_SHIFTS = {"last": -1, "previous": -1, "past": -1, "this": 0, "next": 1, "coming": 1} | {
    "上上": -2, "上": -1, "去": -1, "这": 0, "這": 0, "本": 0, "今": 0, "下": 1, "明": 1, "下下": 2,
    "前": -2, "后": 2, "後": 2,
}  # fmt: skip


def dates_in(text: str, today: date) -> tuple[DateSpan, ...]:
    """The dates named in `text`, in order; relative ones are counted from `today`.

    A date without a year takes the year that brings it nearest to today, where the future counts as twice as far.
    """
    rest = normalise(text)
    found: list[tuple[int, DateSpan]] = []
    for pattern, reader in _RULES:

        def read(match: re.Match[str], reader: _Reader = reader) -> str:
            groups = match.groupdict(default="")
            span = _attempt(partial(reader, groups, today)) if len(found) < _MOST else None
            if span is None:
                return match.group()
            found.append((match.start(), span))
            return "\x00" * len(match.group())

        rest = pattern.sub(read, rest)
    return tuple(dict.fromkeys(span for _, span in sorted(found, key=lambda pair: pair[0])))


def date_match(spans: Sequence[DateSpan], said: date) -> float:
    """How well the day `said` fits the best of `spans`, 0 to 1 (weights: trial).

    1 within a day of a named day or week, 0.6 in the week after it, 0.5 in a month named alone, 0.3 in the month of a
    named day or in a year named alone.
    """
    return max((_fit(span, said) for span in spans), default=0.0)


def _fit(span: DateSpan, said: date) -> float:
    days_before, days_after = (span.start - said).days, (said - span.end).days
    if span.month_only:
        return 0.0 if max(days_before, days_after) > 0 else 0.5 if (span.end - span.start).days < 31 else 0.3
    if days_before <= 1 and days_after <= 1:
        return 1.0
    if 0 < days_after <= 7:
        return 0.6
    months = {(day.year, day.month) for day in (span.start, span.end)}
    return 0.3 if (said.year, said.month) in months else 0.0


def _attempt(make: Callable[[], DateSpan | None]) -> DateSpan | None:
    try:
        return make()
    except (ValueError, OverflowError, KeyError):  # the 31st of February, further off than a date can be, 十三十
        return None


def _day(day: date) -> DateSpan:
    return DateSpan(day, day, month_only=False)


def _month(year: int, month: int) -> DateSpan:
    year, month = year + (month - 1) // 12, (month - 1) % 12 + 1
    after = date(year + month // 12, month % 12 + 1, 1)
    return DateSpan(date(year, month, 1), after - timedelta(days=1), month_only=True)


def _number(word: str) -> int:
    if word in _COUNTS:
        return _COUNTS[word]
    if word.isdecimal():
        return int(word)
    tens, ten, ones = word.rpartition("十")
    if ten:
        return 10 * (_HAN_DIGITS[tens] if tens else 1) + (_HAN_DIGITS[ones] if ones else 0)
    return int("".join(str(_HAN_DIGITS[character]) for character in word))


def _month_number(word: str) -> int:
    return _MONTHS.index(word[:3]) + 1 if word[:3] in _MONTHS else _number(word)


def _nearest(make: Callable[[int], DateSpan], today: date) -> DateSpan:
    def distance(span: DateSpan) -> int:
        days = (span.start - today).days
        return 2 * days if days > 0 else -days

    def made(*offsets: int) -> list[DateSpan]:
        spans = (_attempt(partial(make, today.year + n)) for n in offsets)
        return [span for span in spans if span]

    # Only the 29th of February may lack in three years running.
    return min(made(-1, 0, 1) or made(-4, -3, -2, 2), key=distance)


def _calendar_day(groups: _Groups, today: date) -> DateSpan:
    month, day = _month_number(groups["month"]), _number(groups["day"])
    if groups.get("shift"):
        return _day(date(today.year + _SHIFTS[groups["shift"]], month, day))
    if groups.get("year"):
        return _day(date(_number(groups["year"]), month, day))
    return _nearest(lambda year: _day(date(year, month, day)), today)


def _calendar_month(groups: _Groups, today: date) -> DateSpan | None:
    month = _month_number(groups["month"])
    if not 1 <= month <= 12:
        return None
    if groups.get("shift"):
        return _month(today.year + _SHIFTS[groups["shift"]], month)
    if groups.get("year"):
        return _month(_number(groups["year"]), month)
    return _nearest(lambda year: _month(year, month), today)


def _slashed(groups: _Groups, _: date) -> DateSpan:
    month, day = int(groups["month"]), int(groups["day"])
    if month > 12:  # only day first can be meant
        month, day = day, month
    return _day(date(int(groups["year"]), month, day))


def _near(groups: _Groups, today: date) -> DateSpan:
    return _day(today + timedelta(days=_NEAR[groups["near"]]))


def _counted(groups: _Groups, today: date) -> DateSpan:
    """`3 days ago`, 三天前, `in two weeks`, 半年前."""
    count, unit = _number(groups["count"]), groups["unit"]
    sign = 1 if groups.get("ahead") else -1
    if unit in _UNIT_DAYS:
        return _day(today + sign * timedelta(days=count * _UNIT_DAYS[unit]))
    half = groups["count"] == "半"
    months = (6 if half else 12 * count) if unit in ("year", "年") else count
    return _month(today.year, today.month + sign * months)


def _week(groups: _Groups, today: date) -> DateSpan:
    """`last week`, `last Friday`, 上周五, `next weekend`."""
    shift = _SHIFTS[groups["shift"]]
    monday = today - timedelta(days=today.weekday()) + timedelta(weeks=shift)
    if groups.get("day"):
        return _day(monday + timedelta(days=_weekday(groups["day"])))
    first = 5 if groups.get("weekend") else 0
    return DateSpan(monday + timedelta(days=first), monday + timedelta(days=6), month_only=False)


def _plain_weekday(groups: _Groups, today: date) -> DateSpan:
    """`last Friday` is the latest one before today, `next Friday` the first one after, `on Friday` may be today."""
    shift, ahead = _SHIFTS.get(groups["shift"]), _weekday(groups["day"]) - today.weekday()
    if shift == 1:
        return _day(today + timedelta(days=ahead if ahead > 0 else ahead + 7))
    back = -ahead if ahead < 0 or (ahead == 0 and shift is None) else 7 - ahead
    return _day(today - timedelta(days=back) if shift != 0 else today + timedelta(days=ahead))


def _weekday(word: str) -> int:
    if word[:3] in _DAYS:
        return _DAYS.index(word[:3])
    return 6 if word in "日天" else _number(word) - 1


def _shifted_month(groups: _Groups, today: date) -> DateSpan:
    month = _month(today.year, today.month + _SHIFTS[groups["shift"]])
    return _day(month.start.replace(day=_number(groups["day"]))) if groups.get("day") else month


def _shifted_year(groups: _Groups, today: date) -> DateSpan:
    return _year(today.year + _SHIFTS[groups["shift"]])


def _named_year(groups: _Groups, _: date) -> DateSpan:
    return _year(_number(groups["year"]))


def _year(year: int) -> DateSpan:
    return DateSpan(date(year, 1, 1), date(year, 12, 31), month_only=True)


_N = "[0-9]{1,2}|[一二三四五六七八九十]{1,3}"
_HAN_YEAR = r"(?:(?P<year>[0-9]{4}|[〇零一二三四五六七八九]{4})\s?年|(?P<shift>[去今明前])年)?\s?"
_NAMED_MONTH = (
    "(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?)\b\.?"
)
_NAMED_DAY = "(?P<day>mon|tue(?:s)?|wed(?:nes)?|thu(?:rs?)?|fri|sat(?:ur)?|sun)(?:day)?"
_COUNT = "(?P<count>[0-9]{1,4}|" + "|".join(sorted((w for w in _COUNTS if w.isascii()), key=len, reverse=True)) + ")"
_HAN_COUNT = "(?P<count>[0-9]{1,4}|[一二两兩三四五六七八九十]{1,3}|[几幾半])"
_HAN_WEEK = "个?個?(?:周|週|星期|礼拜|禮拜)"

_RULES: tuple[tuple[re.Pattern[str], _Reader], ...] = tuple(
    (re.compile(pattern), reader)
    for pattern, reader in (
        (
            r"(?<!\d)(?P<year>[0-9]{4})(?P<dash>[-/.])(?P<month>[0-9]{1,2})(?P=dash)(?P<day>[0-9]{1,2})(?![0-9])",
            _calendar_day,
        ),
        (r"(?<!\d)(?P<month>[0-9]{1,2})/(?P<day>[0-9]{1,2})/(?P<year>[0-9]{4})(?!\d)", _slashed),
        (rf"{_HAN_YEAR}(?P<month>{_N})\s?月\s?(?P<day>{_N})\s?[日号號]", _calendar_day),
        (rf"{_HAN_YEAR}(?P<month>[0-9]{{1,2}})月(?P<day>[0-9]{{1,2}})(?![0-9]|\s?[个個份年天月次])", _calendar_day),
        (
            rf"\b(?P<day>[0-9]{{1,2}})(?:st|nd|rd|th)?(?: of)? {_NAMED_MONTH}(?:,? (?P<year>[0-9]{{4}})\b)?",
            _calendar_day,
        ),
        (rf"\b{_NAMED_MONTH} (?P<day>[0-9]{{1,2}})(?:st|nd|rd|th)?\b(?:,? (?P<year>[0-9]{{4}})\b)?", _calendar_day),
        (rf"{_HAN_YEAR}(?P<month>(?<!\d)(?:{_N}))\s?月份?", _calendar_month),
        (rf"\b{_NAMED_MONTH},? (?:of )?(?P<year>[0-9]{{4}})\b", _calendar_month),
        (rf"\b(?P<shift>last|this|next) {_NAMED_MONTH}", _calendar_month),
        (rf"\b(?:in|of|during|since|until|by|early|late|mid)[ -]{_NAMED_MONTH}", _calendar_month),
        # The short forms, March and May are words of their own.
        (
            r"\b(?P<month>january|february|april|june|july|august|september|october|november|december)\b",
            _calendar_month,
        ),
        (r"\b(?P<near>" + "|".join(sorted((w for w in _NEAR if w.isascii()), key=len, reverse=True)) + r")\b", _near),
        ("(?P<near>" + "|".join(sorted((w for w in _NEAR if not w.isascii()), key=len, reverse=True)) + ")", _near),
        (rf"\b{_COUNT} (?P<unit>day|week|month|year)s? (?:ago|earlier|back)\b", _counted),
        (rf"\b(?P<ahead>in) {_COUNT} (?P<unit>day|week|month|year)s?\b", _counted),
        (
            rf"{_HAN_COUNT}[个個]?多?(?P<unit>天|日|周|週|星期|礼拜|禮拜|月|年)(?:之|以)?(?:前|(?P<ahead>后|後))",
            _counted,
        ),
        (rf"(?P<shift>上上|上|下下|下|这|這|本){_HAN_WEEK}(?P<day>[一二三四五六日天])", _week),
        (rf"(?P<shift>上上|上|下下|下|这|這|本){_HAN_WEEK}(?P<weekend>末)?", _week),
        (rf"\b(?P<shift>last|this|next) {_NAMED_DAY}\b", _plain_weekday),
        (rf"\b(?P<shift>on) {_NAMED_DAY}\b", _plain_weekday),
        (r"\b(?P<shift>last|previous|past|this|next|coming) week(?P<weekend>end)?\b", _week),
        (r"\b(?P<shift>)(?P<day>monday|tuesday|wednesday|thursday|friday|saturday|sunday)\b", _plain_weekday),
        # After a count or 每 it is a number of weeks, or a habit.
        (
            "(?P<shift>)(?<![0-9一二两三四五六七八九十几每个個])(?:周|週|星期|礼拜|禮拜)(?P<day>[一二三四五六日天])",
            _plain_weekday,
        ),
        (r"\b(?P<shift>last|previous|past|this|next|coming) month\b", _shifted_month),
        (rf"(?P<shift>上上|上|下下|下|这|這|本)[个個]?月(?:(?P<day>{_N})[日号號])?", _shifted_month),
        (r"\b(?P<shift>last|previous|past|this|next|coming) year\b", _shifted_year),
        ("(?P<shift>[去今明前])年", _shifted_year),
        ("(?P<year>[0-9]{4}|[〇零一二三四五六七八九]{4})年", _named_year),
        (r"\b(?:in|of|since|during|by) (?P<year>(?:19|20)[0-9]{2})\b", _named_year),
    )
)
