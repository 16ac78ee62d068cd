"""Names and identifiers: found by form, compared after folding, matched as whole tokens."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sf_ams_core.rules.entities import contains_identifier, entities, fold_identifier, romanise


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Yesterday Maria and I met Jean-Luc O'Neil in New York", ("Maria", "Jean-Luc O'Neil", "New York")),
        ("Caroline's sister studies. Coffee helps. Thanks, Tom!", ("Caroline", "Tom")),
        ("I went on Friday in May. Then NASA called.", ("NASA",)),
        ("They saw Ludwig van Beethoven at the University of Bonn", ("Ludwig van Beethoven", "University of Bonn")),
        ("mail ann@example.com or ask @lee_2 about PRJ-2024", ("ann@example.com", "@lee_2", "PRJ-2024")),
        ("tail 8890, paid $1,200 in 2023", ("8890", "$1,200")),
        ("花了300元买《三体》和「茶经」，尾号8890", ("300元", "三体", "茶经", "8890")),
        ("我叫张伟，住在北京", ("张伟",)),
        ("我是王芳，同事李明昨天请假", ("王芳", "李明")),
        ("我的猫叫团子，今年三岁", ("团子",)),
        ("找陳老師問一下", ("陳老師",)),
        ("我是高中生，他叫我早点回家", ()),
        ("running late, nothing new", ()),
        ("Tom met Ann; tom and ANN again", ("Ann",)),
        ("", ()),
    ],
)
def test_names_are_found_by_their_form(text: str, expected: tuple[str, ...]) -> None:
    """Capitals, handles, titles, codes and Chinese names in their places; each once, in order."""
    assert entities(text) == expected


@given(st.text())
def test_entities_are_few_and_distinct(text: str) -> None:
    """Any text gives at most sixteen, no two of which fold alike."""
    found = entities(text)
    assert len(found) <= 16
    assert len({fold_identifier(name) or name for name in found}) == len(found)


def test_no_more_than_sixteen_are_taken() -> None:
    """A list of names is cut off."""
    assert len(entities(" and ".join(f"x Name{chr(97 + n)}" for n in range(26)))) == 16


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("+86 138-0013-8000", "１３８００１３８０００"),
        ("0086 13800138000", "138 0013 8000"),
        ("Ann.Lee@Example.com", "ann.lee@example.com"),
        ("PRJ-2024", "prj 2024"),
    ],
)
def test_identifiers_fold_alike(one: str, other: str) -> None:
    """Case, width, spaces, punctuation and the country code do not count."""
    assert fold_identifier(one) == fold_identifier(other)


def test_names_sound_alike_in_latin_letters() -> None:
    """A Chinese name and its pinyin romanise to the same."""
    assert romanise("张伟") == romanise("Zhang Wei") == "zhangwei"


@pytest.mark.parametrize(
    ("text", "identifier"),
    [
        ("mail: ANN@x.com, thanks", "ann@x.com"),
        ("尾号8890的卡", "8890"),
        ("8890,8891", "8890"),
        ("call +86 138-0013-8000 now", "13800138000"),
        ("tel 13800138000.", "+86 138 0013 8000"),
        ("卡号 4111 1111 1111 1111", "4111111111111111"),
        ("我和张伟吃饭", "张伟"),
        ("prj 2024 is open", "PRJ-2024"),
        ("Ann's cat", "ann"),
        ("met AnnLee there", "Ann Lee"),
        ("O’Neil said", "ONeil"),
        ("राम गया", "राम"),
        ("ＡＮＮ!", "Ann"),
        ("张伟2号", "张伟2"),
    ],
)
def test_an_identifier_is_found_however_it_is_written(text: str, identifier: str) -> None:
    """Width, case, separators and the country code may differ between the text and the identifier."""
    assert contains_identifier(text, identifier)


@pytest.mark.parametrize(
    ("text", "identifier"),
    [
        ("mail joann@x.com", "ann@x.com"),
        ("mail jo.ann@x.com", "ann@x.com"),
        ("mail ann@x.com.au", "ann@x.com"),
        ("尾号88901", "8890"),
        ("call 138-0013-8000", "8000"),
        ("call 138 0013 8000", "8000"),
        ("on 2023/05/07", "2023"),
        ("PRJ-20245", "PRJ-2024"),
        ("PRJ-2024", "2024"),
        ("annual", "ann"),
        ("Ann-Marie", "Ann"),
        ("रामा गया", "राम"),
        ("张伟23", "张伟2"),
        ("not able", "notable"),
        ("anything", ""),
        ("any--thing", "--"),
    ],
)
def test_part_of_a_longer_token_is_not_it(text: str, identifier: str) -> None:
    """Erasing by identifier must not reach another person's data."""
    assert not contains_identifier(text, identifier)


WORDS = st.text(st.sampled_from("abcXYZ019张伟é"), min_size=1, max_size=12)


@given(WORDS, st.sampled_from([" {} ", "，{}。", "({})", '"{}"', "{}"]))
def test_what_stands_alone_is_always_found(identifier: str, frame: str) -> None:
    """A word by itself contains itself, in any punctuation."""
    assert contains_identifier(frame.format(identifier), identifier)


@given(st.text(), st.text(max_size=20))
def test_any_text_and_identifier_can_be_compared(text: str, identifier: str) -> None:
    """No input raises, and a text without the folded identifier never contains it."""
    found = contains_identifier(text, identifier)
    assert not found or fold_identifier(identifier) in fold_identifier(text)


@pytest.mark.parametrize("unit", ["A", "Ab ", "a@", "叫", "张", "1-", "“", "a.", "小张", "A'", "王", "1a", " ", "1 "])
def test_hostile_repetition_costs_linear_time(unit: str) -> None:
    """100,000 characters of half a name take seconds at most."""
    text = (unit * 100_000)[:100_000]
    start = time.perf_counter()
    entities(text)
    for identifier in ("13800138000", "ann@x.com", unit * 20 + "q"):
        contains_identifier(text, identifier)
    assert time.perf_counter() - start < 10
