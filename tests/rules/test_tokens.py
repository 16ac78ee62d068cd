"""The token counter, next to the tokenizer that LlamaIndex ships."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llama_index.core.utils import get_tokenizer

from sf_ams_core.rules.tokens import count_tokens

PASSAGES = [
    "I moved to Lisbon in March because my sister opened a bakery there, and I wanted to help her on weekends. "
    "We bake sourdough, sell coffee, and close early on Mondays so that I can finish my degree in marine biology.",
    "The quarterly review takes place on Thursday at ten. Please bring the signed contract, the updated budget and a "
    "list of open risks; the supplier in Rotterdam still hasn't confirmed the delivery of the remaining pumps.",
    "我上个月刚搬到杭州，在一家做智能家居的公司当产品经理，平时住在滨江，周末喜欢去西湖边骑车。家里养了一只叫团子的橘猫，"
    "今年三岁，最爱吃鸡胸肉。下个月打算带爸妈去成都玩五天，已经订好了酒店和高铁票。",
    "會議決定把上線日期延到十月八日，由陳小姐負責聯絡供應商，並在下週一之前提出新的預算。如果測試沒有通過，我們就先保留舊版本，"
    "等問題排除之後再重新安排時程，相關文件都放在共用資料夾裡，請大家在會前看過一遍。",
    "用户 user_10086 的结算账号尾号为 8890，默认使用 WeChat Pay，偏好在 Dark Mode 下阅读。Please keep replies short, "
    "use Markdown tables where possible, 并且不要在周末发送通知邮件 to the shared mailbox.",
    "def merge(left: list[int], right: list[int]) -> list[int]:\n    result = []\n    while left and right:\n"
    "        smaller = left if left[0] <= right[0] else right\n        result.append(smaller.pop(0))\n"
    "    return result + left + right\n",
    "Invoice 2024-0117: 12 units at 349.90, 3 units at 1,250.00, total 7,948.80, due 2024-02-16, "
    "account 40212 770 551.",
]


@pytest.mark.parametrize("passage", PASSAGES, ids=["en", "office", "zh-Hans", "zh-Hant", "mixed", "code", "numbers"])
def test_ordinary_passages_are_counted_within_fifteen_percent(passage: str) -> None:
    """Prose in both languages, mixtures, code and figures come close to cl100k."""
    tokenizer = get_tokenizer()
    assert count_tokens(passage) == pytest.approx(len(tokenizer(passage)), rel=0.15)


def test_nothing_is_no_token() -> None:
    """An empty text costs nothing, any other at least one token."""
    assert [count_tokens(t) for t in ("", " ", "a", "好")] == [0, 1, 1, 1]


@given(st.text(), st.text())
def test_joined_texts_cost_about_what_they_cost_apart(one: str, other: str) -> None:
    """Joining neither loses text nor invents it: a seam moves the count by a few tokens at most."""
    apart, joined = count_tokens(one) + count_tokens(other), count_tokens(one + other)
    assert abs(apart - joined) <= 6 + 0.2 * apart


@given(st.sampled_from(PASSAGES), st.integers(0, 150))
def test_a_longer_text_does_not_cost_less(passage: str, end: int) -> None:
    """The count grows with the text, give or take the word that was cut."""
    assert count_tokens(passage[:end]) <= count_tokens(passage) + 1


@pytest.mark.parametrize("unit", ["word ", "好", "aA", "'", "\n ", "1", "😀"])
def test_counting_a_megabyte_is_quick(unit: str) -> None:
    """Hostile repetition is counted in linear time."""
    text = (unit * 1_000_000)[:1_000_000]
    start = time.perf_counter()
    count_tokens(text)
    assert time.perf_counter() - start < 5
