"""What is redacted, what must survive, and what it costs."""

import base64
import random
import time
from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sf_ams_core.rules.privacy import redact, redact_json

ID, CARD = "11010519491231002X", "4111111111111111"
KEY = "sk-proj-" + "a1B2c3D4e5F6g7H8"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NSJ9.c2lnbmF0dXJl"
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nAQAB==\n-----END RSA PRIVATE KEY-----"


def wide(text: str) -> str:
    """`text` in full-width characters."""
    return "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in text)


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        (f"身份证号{ID}，请保密", "身份证号[redacted:cn_id]，请保密"),
        ("My ID is 110105 19491231 002x.", "My ID is [redacted:cn_id]."),
        (f"证件{wide(ID)}", "证件[redacted:cn_id]"),
        ("room 5 110105194912310021 11010519491231002X", "room 5 110105194912310021 [redacted:cn_id]"),
        ("卡号 4111 1111 1111 1111，已激活", "卡号 [redacted:bank_card]，已激活"),
        ("card 4111-1111-1111-1111 12/27", "card [redacted:bank_card] 12/27"),
        (f"pay with {wide(CARD)} please", "pay with [redacted:bank_card] please"),
        ("我的银行卡是6222020200112233446", "我的银行卡是[redacted:bank_card]"),
        ("WiFi密码是 abc12345，客厅可用", "WiFi密码是 [redacted:password]，客厅可用"),
        ("密碼已經改成了hunter2，別忘了", "密碼已經改成了[redacted:password]，別忘了"),
        ("口令：open-sesame 记得换", "口令：[redacted:password] 记得换"),
        ("The router password is hunter2, ask Tom", "The router password is [redacted:password], ask Tom"),
        ('the vault passphrase is "correct horse battery"', 'the vault passphrase is "[redacted:password]"'),
        ("pwd: Tr0ub4dor&3 for staging", "pwd: [redacted:password] for staging"),
        ("abc123是我的邮箱密码，别外传", "[redacted:password]是我的邮箱密码，别外传"),
        ("hunter22 was my old password at work", "[redacted:password] was my old password at work"),
        (f"部署用的密钥{KEY}别提交", "部署用的密钥[redacted:api_key]别提交"),
        ("aws AKIAIOSFODNN7EXAMPLE in CI", "aws [redacted:api_key] in CI"),
        ("阿里云LTAI5tAbCdEfGhIjKlMn", "阿里云[redacted:api_key]"),
        ("push with ghp_" + "a1" * 18, "push with [redacted:api_key]"),
        ("secret key: wJalrXUtnFEMI/K7MDENG/bPxRfi staging", "secret key: [redacted:api_key] staging"),
        (f"session {JWT} expired", "session [redacted:jwt] expired"),
        (f"deploy\n{PEM}\ndone", "deploy\n[redacted:private_key]\ndone"),
        ("use postgres://app:p@ss@db.internal/app", "use postgres://[redacted:dsn]@db.internal/app"),
        ("redis://:hunter2@cache:6379", "redis://[redacted:dsn]@cache:6379"),
    ],
)
def test_secrets_are_replaced_by_their_kind(text: str, redacted: str) -> None:
    """Each kind is found in either language, in any width and spacing, and nothing beside it is touched."""
    assert redact(text).text == redacted


@pytest.mark.parametrize(
    "text",
    [
        "订单号 4111111111111111 已发货",
        "Order 20231123456789012 ships on 2023-11-23",
        "tracking number 4111 1111 1111 1111",
        "尾号8890，版本v2.3.4，共1,000,000元",
        "身份证 110105194912310021 是错的",
        "110105194913310029",
        "4111 1111 1111 1112",
        "0000 0000 0000 0000",
        "我的密码是什么？",
        "密码强度太低，记得定期更换",
        "my password is too weak",
        "the password is kept in a vault",
        "password: optional",
        "a token of 3 gratitudes",
        "https://example.com/a?b=1 and ann@example.com",
        "电话 13800138000 或 +44 20 7946 0958",
        "task-force-of-twenty-people and disk-usage-report",
    ],
)
def test_what_is_no_secret_survives(text: str) -> None:
    """Orders, versions, amounts, failed checksums and talk about passwords stay as they are."""
    assert redact(text).text == text
    assert redact(text).kinds == ()


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("打给13800138000吧", "phone"),
        ("ring +86 138-0013-8000 tonight", "phone"),
        ("座机 010-62345678", "phone"),
        ("手机１３８００１３８０００", "phone"),
        ("call +44 20 7946 0958", "phone"),
        ("call (555) 234-5678", "phone"),
        ("写信给ann.lee+x@mail.example.com吧", "email"),
    ],
)
def test_phones_and_addresses_go_only_on_request(text: str, kind: str) -> None:
    """By default they stay; by setting they go."""
    assert redact(text).kinds == ()
    assert redact(text, phones=True, emails=True).kinds == (kind,)


def test_a_phone_inside_a_longer_number_is_none() -> None:
    """An order number that happens to contain a mobile number is left alone."""
    text = "订单 20231380013800012"
    assert redact(text, phones=True).text == text


@pytest.mark.parametrize(
    "text",
    [
        "密码是 abc123",
        "my password is hunter2",
        f"我的身份证号：{ID}",
        f"请记住我的银行卡号是{CARD}",
        KEY,
        "My PIN is 4821.",
    ],
)
def test_a_text_that_is_nothing_but_a_secret_is_told(text: str) -> None:
    """Label, owner and a wish to remember say nothing by themselves."""
    assert redact(text).only


@pytest.mark.parametrize("text", [f"我叫李雷，身份证{ID}", "The guest WiFi password is hunter2", "nothing secret", ""])
def test_a_text_that_says_more_is_not_only_a_secret(text: str) -> None:
    """A name or a place beside the secret is worth keeping."""
    assert not redact(text).only


def test_kinds_come_in_order_of_appearance_and_once() -> None:
    """Two cards and an ID are two kinds."""
    assert redact(f"卡 {CARD}，证 {ID}，卡 {CARD}").kinds == ("bank_card", "cn_id")


@st.composite
def resident_ids(draw: st.DrawFn) -> str:
    """Valid numbers after GB 11643."""
    born = date(1920, 1, 1) + timedelta(days=draw(st.integers(0, 40_000)))
    body = f"{draw(st.integers(110000, 659000))}{born:%Y%m%d}{draw(st.integers(0, 999)):03d}"
    weights = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)
    return body + "10X98765432"[sum(int(d) * w for d, w in zip(body, weights, strict=True)) % 11]


@st.composite
def cards(draw: st.DrawFn) -> str:
    """Sixteen digits of a UnionPay or Visa card with the right check digit."""
    body = draw(st.sampled_from(["62", "4"]))
    body += "".join(draw(st.lists(st.sampled_from("0123456789"), min_size=15 - len(body), max_size=15 - len(body))))
    return next(body + d for d in "0123456789" if _luhn(body + d))


def _luhn(digits: str) -> bool:
    total = 0
    for place, digit in enumerate(reversed(digits)):
        value = int(digit) * (1 + place % 2)
        total += value - 9 if value > 9 else value
    return total % 10 == 0


@given(resident_ids() | cards(), st.sampled_from(["", " ", "，", "证件", "\n", "of ", "第1个 "]), st.booleans())
def test_no_valid_number_is_left(secret: str, around: str, full_width: bool) -> None:
    """Whatever stands round it, and in either width, a valid number is gone."""
    shown = wide(secret) if full_width else secret
    redaction = redact(f"记录{around}{shown} 完")
    assert shown not in redaction.text
    assert redaction.kinds


SNIPPETS = st.sampled_from(
    [
        "password ",
        "密码",
        "是",
        "is ",
        ": ",
        "->",
        '"',
        ID,
        CARD,
        KEY,
        JWT,
        "a@b.co",
        "+86 13800138000",
        "://u:p@",
        " ",
        "x1y2z3",
    ]
)


@given(st.lists(SNIPPETS | st.text(max_size=4)).map("".join))
def test_redacting_twice_is_redacting_once(text: str) -> None:
    """The marks that are left behind are no secrets themselves."""
    once = redact(text, phones=True, emails=True).text
    assert redact(once, phones=True, emails=True).text == once


def test_json_is_walked_with_its_keys_as_context() -> None:
    """Strings, keys and large integers are redacted at any depth; a key says what its value is."""
    value, kinds = redact_json(
        {
            "password": "swordfish",
            "card_number": int(CARD),
            "order_id": int(CARD),
            "片段": [{"note": "密码是 abc123"}, None, True, 3, 2.5],
            KEY: {"tail": "8890"},
        }
    )
    assert value == {
        "password": "[redacted:password]",
        "card_number": "[redacted:bank_card]",
        "order_id": int(CARD),
        "片段": [{"note": "密码是 [redacted:password]"}, None, True, 3, 2.5],
        "[redacted:api_key]": {"tail": "8890"},
    }
    assert kinds == ("password", "bank_card", "api_key")


def test_redacted_keys_do_not_swallow_each_other() -> None:
    """Two keys that become alike both keep their values."""
    value, _ = redact_json({KEY: 1, KEY + "x": 2})
    assert isinstance(value, dict)
    assert sorted(str(v) for v in value.values()) == ["1", "2"]


@pytest.mark.parametrize(
    "unit",
    [
        "1 ",
        "4 1 1 1 ",
        "a@",
        "a.",
        "sk-",
        "eyJa.",
        "-----BEGIN PRIVATE KEY-----",
        "a://b:",
        "password is ",
        "密码是",
        "0",
        "+1 ",
    ],
)
def test_hostile_repetition_costs_linear_time(unit: str) -> None:
    """100,000 characters of half a secret take seconds at most."""
    text = (unit * 100_000)[:100_000]
    start = time.perf_counter()
    redact(text, phones=True, emails=True)
    assert time.perf_counter() - start < 10


@pytest.mark.parametrize("prefix", ["", "data:image/png;base64,"])
def test_an_encoded_file_in_json_is_never_changed(prefix):
    """Media round-trips: whatever an encoded file happens to spell is no secret."""
    encoded = prefix + base64.b64encode(random.Random(7).randbytes(60_000)).decode()
    assert redact_json({"url": encoded, "password": encoded}) == ({"url": encoded, "password": encoded}, ())
