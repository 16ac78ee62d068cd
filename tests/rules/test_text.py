"""Cleaning, folding, terms, chunks, numbers and negation."""

import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sf_ams_core.rules.text import (
    chunks,
    clean,
    fold,
    has_negation,
    index_terms,
    language,
    numbers,
    query_terms,
    stem,
)

# Any code points at all, and a mix in which the delicate ones meet often.
ANY = st.text(st.characters(exclude_categories=()))
DELICATE = st.text(
    st.sampled_from("ab1é猫のกำहि😀❤\ufe0f\u200d\u200c\u200b\u202e\ud800\x00\r\n \u0301\u0338<K\U000e0041🏴-.,'@_")
)
TEXTS = ANY | DELICATE


@pytest.mark.parametrize(
    ("dirty", "plain"),
    [
        ("a\x00b\ud83dc", "abc"),
        ("pay\u200bpal 支\u200b付", "paypal 支付"),
        ("safe\u202etxt\u2066x\u2069", "safetxtx"),
        ("hi\U000e0049\U000e0047\U000e004e", "hi"),
        ("o\ufe01\ufe02k 好\ufe0f\ufe0e", "ok 好\ufe0f"),
        ("one\r\ntwo\u2028three\tfour", "one\ntwo\nthree\tfour"),
        ("cafe\u0301", "café"),
        ("ig\u200dnore 忽\u200d略", "ignore 忽略"),
    ],
)
def test_what_a_reader_cannot_see_is_taken_out(dirty: str, plain: str) -> None:
    """Controls, surrogates, bidi controls, tags and hidden joiners go; line breaks become newlines."""
    assert clean(dirty) == plain


@pytest.mark.parametrize(
    "text",
    [
        "👩‍👩‍👧 ❤️‍🔥 👍🏽 1️⃣",
        "می‌خواهم",
        "क्‍ष श्री‌मान",
        "🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f",
        "葛\U000e0100城",
        "Line one\n\tline two — “quoted” 中文，标点。",
    ],
)
def test_joiners_that_belong_to_an_emoji_or_a_script_stay(text: str) -> None:
    """Families, Persian, Hindi, the Scottish flag, variants of a Han character and ordinary text are unchanged."""
    assert clean(text) == text


@given(TEXTS)
def test_cleaning_twice_is_cleaning_once(text: str) -> None:
    """`clean` is idempotent, gives NFC and encodable text, and never raises."""
    once = clean(text)
    assert clean(once) == once
    assert unicodedata.is_normalized("NFC", once)
    assert "\x00" not in once.encode().decode()


@given(TEXTS)
def test_folding_twice_is_folding_once(text: str) -> None:
    """`fold` is idempotent."""
    assert fold(fold(text)) == fold(text)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Ann-Marie O'Neil", "ａｎｎ marie ONEIL"),
        ("STRASSE", "straße"),
        ("用户，喜欢 咖啡！", "用户喜欢咖啡"),
        ("हिन्दी।", "हिन्दी"),
        ("ｶﾞｲﾄﾞ", "ガイド"),
    ],
)
def test_spellings_of_one_thing_fold_alike(one: str, other: str) -> None:
    """Case, width, spaces and punctuation do not count; letters and vowel signs do."""
    assert fold(one) == fold(other) != ""


def test_different_vowel_signs_stay_different() -> None:
    """A combining mark of a script is part of its letter."""
    assert fold("कि") != fold("की")


@pytest.mark.parametrize(
    ("stored", "query"),
    [
        ("用户结算账号尾号为8890", "尾号"),
        ("用户结算账号尾号为8890", "8890"),
        ("我养了一只猫", "猫"),
        ("她住在東京都", "東京"),
        ("食べ物が好き", "食べ物"),
        ("서울에서 만났다", "서울"),
        ("She was running marathons", "run marathon"),
        ("Upgrade to v2.3 tomorrow", "2.3"),
        ("Ticket PRJ-2024 is open", "prj-2024"),
        ("Ticket PRJ-2024 is open", "2024"),
        ("Paid 1,000 dollars", "1000"),
        ("生日是5月7日", "5月"),
        ("I write C++ and C#", "c#"),
        ("write to ann@example.com", "ANN@example.com"),
        ("ราคาสวัสดีครับ", "สวัสดี"),
        ("मुझे हिन्दी पसंद है", "हिन्दी"),
        ("Москва зимой", "москва"),
        ("I got it 🎉", "🎉"),
        ("ＷｉＦｉ密码", "wifi"),
    ],
)
def test_a_query_meets_what_was_filed(stored: str, query: str) -> None:
    """Every kind of word is reached in every kind of script."""
    assert set(query_terms(query)) & set(index_terms(stored))


def test_a_pair_query_does_not_reach_single_characters() -> None:
    """A word of two characters asks for the pair only, never for either half."""
    assert query_terms("熊猫") == ["熊猫"]
    assert not set(query_terms("熊猫")) & set(index_terms("我有一只猫"))


@pytest.mark.parametrize(
    ("question", "terms"),
    [
        ("我的猫叫什么名字？", ["的猫", "猫叫", "叫什", "么名", "名字"]),
        ("What is the name of my cat?", ["name", "cat"]),
        ("了", ["1:了"]),
        ("什么", ["什么"]),
        ("What is it?", ["what", "is", "it"]),
        ("cat cat", ["cat"]),
    ],
)
def test_function_words_are_asked_for_only_when_alone(question: str, terms: list[str]) -> None:
    """Stop words and pairs of function characters drop out unless nothing else is left."""
    assert query_terms(question) == terms


@given(TEXTS)
def test_terms_never_raise_and_are_bounded(text: str) -> None:
    """Any text gives terms of at most 67 characters, and a query asks for something wherever a letter is."""
    assert all(0 < len(term) <= 67 for term in index_terms(text) + query_terms(text))


def test_stems_are_english_only() -> None:
    """A word in another alphabet, and an identifier, is its own stem."""
    assert [stem(w) for w in ("running", "москва", "v2.3")] == ["run", "москва", "v2.3"]


@given(TEXTS, st.integers(1, 40))
def test_chunks_cover_the_text(text: str, size: int) -> None:
    """Joined, the pieces are the text; none is longer than asked, none is empty in a text that is not."""
    pieces = chunks(text, size)
    assert "".join(pieces) == text
    assert all(len(piece) <= size for piece in pieces)
    assert len(pieces) == 1 or all(pieces)


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("今天去了公园。明天去爬山！", ["今天去了公园。", "明天去爬山！"]),
        ("We met at 3.14 Pi St. Then", ["We met at ", "3.14 Pi ", "St. Then"]),
        ("One two. Three four", ["One two. ", "Three four"]),
        ("abcdefghijklmnop", ["abcdefghij", "klmnop"]),
        ("short", ["short"]),
        ("", [""]),
    ],
)
def test_chunks_end_where_sentences_end(text: str, pieces: list[str]) -> None:
    """Cuts fall at sentence ends, else at spaces, else anywhere."""
    assert chunks(text, 10) == pieces


@pytest.mark.parametrize(
    ("text", "expected"),
    [("我用 Python 写代码", "zh"), ("I live in 北京, a large city in China", "en"), ("8890", "en"), ("", "en")],
)
def test_language_follows_the_letters(text: str, expected: str) -> None:
    """A fifth of Han letters makes it Chinese."""
    assert language(text) == expected


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("1,000 dollars", "１０００ dollars", True),
        ("3.50", "3.5", True),
        ("138-0013-8000", "13800138000", True),
        ("the 2nd floor", "floor 2", True),
        ("尾号8890", "尾号8891", False),
        ("37 snapshots", "15 snapshots", False),
        ("v2.3", "v2.4", False),
        ("room 7b", "room 7c", False),
    ],
)
def test_numbers_compare_by_value(one: str, other: str, same: bool) -> None:
    """Width, grouping and dashes do not matter; a digit does."""
    assert (numbers(one) == numbers(other)) is same


@pytest.mark.parametrize(
    "text",
    [
        "我不喜欢咖啡",
        "他没有车",
        "我討厭香菜",
        "別打電話",
        "I don't like coffee",
        "I no longer smoke",
        "She hates it",
        "Never",
    ],
)
def test_negation_is_seen(text: str) -> None:
    """Denial, refusal and dislike count, in both languages."""
    assert has_negation(text)


@pytest.mark.parametrize(
    "text",
    [
        "味道不错",
        "你是不是医生",
        "特别好吃",
        "没问题",
        "他有没有车",
        "别人的书",
        "No problem",
        "not only tea but coffee",
        "Notes",
    ],
)
def test_set_phrases_are_no_negation(text: str) -> None:
    """Words that merely hold a negation, and A-not-A questions, deny nothing."""
    assert not has_negation(text)


@pytest.mark.parametrize("unit", ["a", "1,", "1-", "a'", "猫", "e\u0301", "\u200d", "😀\u200d", " ", ".", "ก", "不a不"])
def test_hostile_repetition_costs_linear_time(unit: str) -> None:
    """100,000 characters of anything pass through every function in seconds, not minutes."""
    text = (unit * 100_000)[:100_000]
    start = time.perf_counter()
    for function in (clean, fold, index_terms, query_terms, language, numbers, has_negation):
        function(text)
    chunks(text, 500)
    assert time.perf_counter() - start < 10
