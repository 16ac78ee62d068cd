"""Secrets are taken out before anything is stored: found in the text as a reader sees it, whatever its width.

Each kind has a finder that yields spans. Finders run in order over one text; what one has found is blanked for the
next, so that a resident ID is never read as a card, nor a key as a password. Every finder is linear in the text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from itertools import accumulate
from math import nan

from ..types import Json
from .text import fold, words

_Span = tuple[int, int]
_Check = Callable[[int, int], bool]
_Finder = Callable[[str], Iterable[_Span]]


@dataclass(frozen=True, slots=True)
class Redaction:
    """A text without its secrets, their kinds in order of appearance, and whether it held nothing else."""

    text: str
    kinds: tuple[str, ...]
    only: bool


def redact(text: str, *, phones: bool = False, emails: bool = False) -> Redaction:
    """`text` with each secret replaced by `[redacted:<kind>]`; telephone numbers and e-mail addresses on request."""
    finders = _FINDERS + (_EMAILS if emails else ()) + (_PHONES if phones else ())
    done = Redaction(text, (), only=False)
    for _ in range(_PASSES):  # what is taken out may lay bare what it was glued to
        found = _find(done.text, finders)
        if not found:
            break
        once = _replaced(done.text, found)
        if once.text == done.text:
            break
        done = Redaction(once.text, tuple(dict.fromkeys(done.kinds + once.kinds)), done.only or once.only)
    return done


_PASSES = 4


def _replaced(text: str, found: list[tuple[int, int, str]]) -> Redaction:
    pieces, rest, end = [], [], 0
    for start, stop, kind in found:
        pieces += [text[end:start], f"[redacted:{kind}]"]
        rest.append(text[end:start])
        end = stop
    rest.append(text[end:])
    kinds = tuple(dict.fromkeys(kind for _, _, kind in found))
    return Redaction("".join([*pieces, text[end:]]), kinds, only=_says_nothing(" ".join(rest)))


def redact_json(value: Json, *, phones: bool = False, emails: bool = False) -> tuple[Json, tuple[str, ...]]:
    """`value` with the secrets in its strings, keys and large integers replaced, and their kinds.

    A key is the context of its value: under `password` a bare word is one, under `order_id` a number is no card.
    """
    kinds: dict[str, None] = {}

    def plain(text: str) -> str:
        redaction = redact(text, phones=phones, emails=emails)
        kinds.update(dict.fromkeys(redaction.kinds))
        return redaction.text

    def under(key: str, text: str) -> str:
        label = f"{key}: "
        whole = redact(label + text, phones=phones, emails=emails)
        if not whole.text.startswith(label):
            return plain(text)
        kinds.update(dict.fromkeys(whole.kinds))
        return whole.text[len(label) :]

    def walk(node: Json, key: str) -> Json:
        if isinstance(node, str):
            if _ENCODED.match(node):
                return node
            return under(key, node) if key else plain(node)
        if isinstance(node, int) and abs(node) >= _LEAST_SECRET_INT:
            shown = under(key, str(node)) if key else plain(str(node))
            return node if shown == str(node) else shown
        if isinstance(node, list):
            return [walk(item, key) for item in node]
        if isinstance(node, dict):
            return _with_unique_keys((plain(k), walk(v, k)) for k, v in node.items())
        return node

    return walk(value, ""), tuple(kinds)


_LEAST_SECRET_INT = 10**10
# An encoded file is noise in which anything can be found, and one changed letter breaks it. No key is as long.
_ENCODED = re.compile(r"(?:data:[^,\s]{0,200},)?[A-Za-z0-9+/_-]{1024,}={0,2}\Z")


def _with_unique_keys(items: Iterable[tuple[str, Json]]) -> dict[str, Json]:
    out: dict[str, Json] = {}
    for key, value in items:
        unique, n = key, 2
        while unique in out:
            unique, n = f"{key} {n}", n + 1
        out[unique] = value
    return out


def _find(text: str, finders: tuple[tuple[str, _Finder], ...]) -> list[tuple[int, int, str]]:
    seen = _narrow(text)
    found: list[tuple[int, int, str]] = []
    # A secret may hide behind the one it is glued to, so what was found is followed by another look.
    for _ in range(_LOOKS):
        before = len(found)
        for kind, finder in finders:
            spans = list(finder(seen))
            if spans:
                found += [(start, end, kind) for start, end in spans]
                seen = _blank(seen, spans)
        if len(found) == before:
            break
    return sorted(found)


_LOOKS = 3


def _blank(text: str, spans: list[_Span]) -> str:
    pieces, end = [], 0
    for start, stop in spans:
        pieces += [text[end:start], "\x00" * (stop - start)]
        end = stop
    return "".join([*pieces, text[end:]])


def _narrow(text: str) -> str:
    """`text` with letters, digits and a few signs in plain width: one character for one, so places stay the same."""
    return text if text.isascii() else text.translate({ord(c): _narrow_character(c) for c in set(text)})


@lru_cache(maxsize=1 << 16)
def _narrow_character(character: str) -> str:
    if character.isdecimal():
        return str(unicodedata.decimal(character))
    plain = unicodedata.normalize("NFKC", character)
    return plain if len(plain) == 1 and (plain.isalnum() or plain in " -:=@._+/()") else character


_DIGIT_RUN = re.compile(r"(?<![0-9A-Za-z])[0-9](?:[ -]{0,2}[0-9]){12,}(?:[ -]{0,2}[Xx])?(?![0-9A-Za-z])")


def _windows(text: str, lengths: tuple[int, ...], checker: Callable[[str, _Span], _Check]) -> Iterator[_Span]:
    """Spans of so many digits, possibly spaced, that start and end where a group of digits does and pass the check.

    `checker` gets the digits of a run and its span, so that what is the same for all its windows is done once.
    """
    for run in _DIGIT_RUN.finditer(text):
        places = [place for place in range(run.start(), run.end()) if text[place] not in " -"]
        starts = [i for i, place in enumerate(places) if i == 0 or places[i - 1] != place - 1]
        ends = {*starts[1:], len(places)}
        check, free = checker("".join(text[place] for place in places), run.span()), 0
        for first in starts:
            for last in (first + n for n in lengths if first >= free):
                if last in ends and check(first, last):
                    free = last
                    yield places[first], places[last - 1] + 1
                    break


_RESIDENT_ID = re.compile("[1-9][0-9]{5}(?:18|19|20)[0-9]{2}[01][0-9][0-3][0-9]{4}[0-9Xx]")
_ID_WEIGHTS = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)  # GB 11643


def _resident_ids(text: str) -> Iterator[_Span]:
    def checker(digits: str, _: _Span) -> _Check:
        return lambda first, last: (
            bool(_RESIDENT_ID.fullmatch(digits, first, last)) and _is_resident_id(digits[first:last])
        )

    return _windows(text, (18,), checker)


def _is_resident_id(digits: str) -> bool:
    try:
        date(int(digits[6:10]), int(digits[10:12]), int(digits[12:14]))
    except ValueError:
        return False
    total = sum(int(d) * w for d, w in zip(digits, _ID_WEIGHTS, strict=False))
    return "10X98765432"[total % 11] == digits[17].upper()


_CARD_WORDS = re.compile(
    r"卡号|卡號|银行卡|銀行卡|信用卡|储蓄卡|儲蓄卡|借记卡|工资卡|工資卡|银联|銀聯|刷卡|绑卡|\bcards?\b|card_?(?:number|no)"
    r"|\b(?:visa|mastercard|amex|unionpay|debit|credit|PAN)\b",
    re.IGNORECASE,
)
_ORDER_WORDS = re.compile(
    r"订单|訂單|单号|單號|运单|運單|快递|快遞|物流|流水|编号|編號|序列号|序號|交易号|合同号|发票|發票|会员号"
    r"|\b(?:orders?|tracking|invoice|serial|imei|ticket|ref(?:erence)?|transaction|shipment|parcel|sku|isbn)(?:\b|_)",
    re.IGNORECASE,
)
_ISSUERS = re.compile(  # ISO/IEC 7812 ranges with the lengths that their issuers use
    r"4(?:[0-9]{12}|[0-9]{15}|[0-9]{18})|5[1-5][0-9]{14}|2(?:22[1-9]|2[3-9][0-9]|[3-6][0-9]{2}|7[01][0-9]|720)[0-9]{12}"
    r"|3[47][0-9]{13}|35(?:2[89]|[3-8][0-9])[0-9]{12}|3(?:0[0-5]|[689][0-9])[0-9]{11}"
    r"|6(?:011|5[0-9]{2}|4[4-9][0-9])[0-9]{12}|62[0-9]{14,17}"
)


def _bank_cards(text: str) -> Iterator[_Span]:
    def checker(digits: str, run: _Span) -> _Check:
        before, after = text[max(0, run[0] - 40) : run[0]], text[run[1] : run[1] + 20]
        card, order = _last(_CARD_WORDS, before), _last(_ORDER_WORDS, before)
        if order > card:  # the nearer word says what the number is
            return lambda _first, _last: False
        named, luhn = card > order or bool(_CARD_WORDS.search(after)), _luhn(digits)
        return lambda first, last: (
            luhn(first, last)
            and len(set(digits[first:last])) > 1
            and (named or bool(_ISSUERS.fullmatch(digits, first, last)))
        )

    return _windows(text, (19, 18, 17, 16, 15, 14, 13), checker)


def _last(pattern: re.Pattern[str], text: str) -> int:
    return max((found.end() for found in pattern.finditer(text)), default=-1)


def _luhn(digits: str) -> Callable[[int, int], bool]:
    """A test of any slice of `digits`: running sums make each one cheap, however many slices a long run has."""
    # An X can be no part of a card, and no sum with it is a number.
    values = [int(d) if d.isdigit() else nan for d in digits]
    doubled = [v * 2 - 9 * (v > 4) for v in values]
    sums = [
        list(accumulate((doubled[i] if i % 2 == odd else v for i, v in enumerate(values)), initial=0)) for odd in (0, 1)
    ]
    return lambda first, last: (sums[last % 2][last] - sums[last % 2][first]) % 10 == 0


# A label, a link and a value. The links are the words and signs that put a value after its name.
_VALUE = r"(?P<value>(?!\[redacted:|->|[:=\"'`])(?:(?<=[\"'“‘「`])[^\"'“”‘’「」`\n]{3,100}(?=[\"'”’」`])|[!-~]{3,200}))"
_LINK = (
    r"[\"'”]?\s{0,2}(?P<words>[已经經就都还還现現在先又我你他她新设設定的]{0,6}(?:(?:设置?|設置?|改|换|換|更新|重置)?"
    r"(?:成|为|為|是|叫)了?|了)|(?:(?:is|was)(?: now| still)?(?: set to| changed to)?|(?:changed|set) to)(?![a-z]))?"
    r"\s{0,2}(?P<sign>[:=]|->)?\s{0,2}[\"'“‘「`]?"
)
_PASSWORD = re.compile(
    r"(?P<label>密码|密碼|口令|验证码|驗證碼|password|passwd|passcode|passphrase"
    rf"|(?<![a-z])(?:pwd|pw|pin(?: code| number)?|otp|verification code)(?![a-z])){_LINK}{_VALUE}",
    re.IGNORECASE,
)
_PASSWORD_AFTER = re.compile(
    r"(?<![!-~])(?P<value>[!-~]{4,64}?)\s?(?:是我的?[^\s\x00-\x7f]{0,6}(?:密码|密碼|口令)"
    r"|(?:is|was) (?:my|our|the) (?:[a-z]{1,20} )?pass(?:word|code))",
    re.IGNORECASE,
)
_NO_PASSWORD = words(
    """
    a an the not no too so very my your his her our their what when where why how wrong right correct incorrect invalid
    valid required optional needed missing empty null none true false string str text weak strong short long secure
    insecure safe unsafe expired expiring changed reset resetting set stored saved hashed encrypted protected hidden
    forgotten lost known unknown unique different same new old case being also still now stuck broken working
    """
)
_KEY_LABEL = re.compile(
    r"(?:密钥|密鑰|秘钥|令牌"
    r"|api[ _-]?key|(?:access|secret)[ _-]?key(?:[ _-](?:id|secret))?|(?<![a-z])secret|token|bearer)"
    rf"{_LINK}(?P<value>[A-Za-z0-9_./+=~-]{{16,512}})",
    re.IGNORECASE,
)
_KEY = re.compile(  # the fixed openings that issuers give their keys
    r"(?<![A-Za-z0-9])(?:sk-[A-Za-z0-9_-]{16,}|[srp]k_(?:live|test)_[A-Za-z0-9]{10,}|(?:AKIA|ASIA)[0-9A-Z]{16}(?![0-9A-Z])"
    r"|LTAI[0-9A-Za-z]{12,30}|AKID[0-9A-Za-z]{13,40}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}"
    r"|glpat-[A-Za-z0-9_-]{20,}|hf_[A-Za-z0-9]{30,}|xox[abeprs]-[A-Za-z0-9-]{10,}|AIza[0-9A-Za-z_-]{30,})"
)
_JWT = re.compile(r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]{5,}(?:\.[A-Za-z0-9_-]*)?")
_PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?:[A-Za-z0-9+/=\s\\:,]|-(?!-))*"
    r"(?:-----END [A-Z0-9 ]{0,60}-----)?"
)
_DSN = re.compile(r"(?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]{1,20}://(?P<value>[^\s/@:\[]{0,64}:[^\s/\x00]{1,256})@")
_EMAIL = re.compile(
    r"(?<![A-Za-z0-9._%+-])[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){0,7}\.[A-Za-z]{2,24}"
)
_PHONE = re.compile(
    r"(?<![0-9A-Za-z+])(?:(?:(?:\+|00)?86[ -]?)?1[3-9][0-9]"
    r"(?:[0-9]{8}|[ -][0-9]{4}[ -][0-9]{4}|[0-9][ -][0-9]{3}[ -][0-9]{4})"  # mobile, China
    r"|0[1-9][0-9]{1,2}-[1-9][0-9]{6,7}"  # landline, China
    r"|\(?[2-9][0-9]{2}\)?[ .-][2-9][0-9]{2}[ .-][0-9]{4}"  # North America
    r"|\+[1-9](?:[ ().-]{0,2}[0-9]){6,14})(?![0-9A-Za-z])"
)
_DIGIT = re.compile("[0-9]")
_CLAUSE_END = re.compile(r"\s*(?:$|[.,;!?，。；！？、\n)]|(?:and|but)\b)", re.IGNORECASE)
_TAIL = ".,;:)]}>\"'`"


def _passwords(text: str) -> Iterator[_Span]:
    spans = [_trimmed(m) for m in _PASSWORD.finditer(text) if _is_password(m, text)]
    spans += [m.span("value") for m in _PASSWORD_AFTER.finditer(text) if _DIGIT.search(m["value"])]
    end = 0
    for start, stop in sorted(spans):
        if start >= end:
            end = stop
            yield start, stop


def _trimmed(match: re.Match[str]) -> _Span:
    start = match.start("value")
    return start, start + max(1, len(match["value"].rstrip(_TAIL)))


def _is_password(match: re.Match[str], text: str) -> bool:
    start, end = _trimmed(match)
    value, label = text[start:end], match["label"].lower()
    linked = bool(match["words"] or match["sign"])
    if len(value) < 3 or value.lower() in _NO_PASSWORD or value[0] in "/~\x00":
        return False
    if _DIGIT.search(value):
        return linked or not label.isascii() or not value.isdigit()
    if not linked or label.startswith(("pin", "otp", "verification", "验证", "驗證")):
        return False
    # A bare word after "is" is a password only where the clause ends with it: "the password is kept in a vault".
    return bool(match["sign"] or not value.isalpha() or _CLAUSE_END.match(text, end))


def _labelled_keys(text: str) -> Iterator[_Span]:
    return (m.span("value") for m in _KEY_LABEL.finditer(text) if _DIGIT.search(m["value"]))


def _matches(pattern: re.Pattern[str], group: int | str = 0) -> _Finder:
    return lambda text: [found.span(group) for found in pattern.finditer(text)]


_FINDERS: tuple[tuple[str, _Finder], ...] = (
    ("private_key", _matches(_PRIVATE_KEY)),
    ("dsn", _matches(_DSN, "value")),
    ("jwt", _matches(_JWT)),
    ("api_key", _matches(_KEY)),
    ("api_key", _labelled_keys),
    ("password", _passwords),
    ("cn_id", _resident_ids),
    ("bank_card", _bank_cards),
)
_EMAILS: tuple[tuple[str, _Finder], ...] = (("email", _matches(_EMAIL)),)
_PHONES: tuple[tuple[str, _Finder], ...] = (("phone", _matches(_PHONE)),)

# What may stand round a secret without saying anything: its label, whose it is, and a wish to keep it.
_FILLER = re.compile(
    r"\[redacted:\w{1,20}\]|身份证|身份證|银行卡|銀行卡|信用卡|储蓄卡|密码|密碼|口令|密钥|密鑰|秘钥|令牌|验证码|驗證碼|手机|手機|电话|電話|邮箱|郵箱"
    r"|号码|號碼|卡号|卡號|地址|记住|記住|记一下|记下|保存|一下|就是|现在|現在|设置|这个|這個|[我你您的是为為在了叫新请請帮幫号號卡改设設成和这這]"
    r"|\b(?:my|our|the|this|that|it|its|is|are|was|an?|here|new|now|and|for|me|please|remember|save|note|set|changed|to|id"
    r"|identity|bank|credit|debit|cards?|numbers?|no|password|passcode|passphrase|passwd|pwd|pin|otp|verification|code|api|keys?"
    r"|secret|access|token|bearer|authorization|private|phone|mobile|cell|e-?mail|address)\b"
)


def _says_nothing(rest: str) -> bool:
    return not fold(_FILLER.sub(" ", rest.lower()))
