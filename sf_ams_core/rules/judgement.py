"""What a new statement does to an old one: retires it, repeats it, or stands beside it.

Contradiction is judged before repetition, and only where it is sure. Closeness of vectors or words nominates who is
compared; it never decides. Four signs are sure:

- *value*: the same frame, and only the value at its end differs ("The budget is 45,000." / "The budget is 48,000.");
- *change*: a change is said of what the old statement is about ("演示日期改到11月1日", "the demo moved to …");
- *replaced*: the old value is named and denied ("48,000, not 45,000", "不是45000，而是48000");
- *polarity*: the same words with and without a negation ("I like coffee" / "I no longer like coffee").
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from .text import fold, has_negation, index_terms, numbers, stem, wording


class Verdict(StrEnum):
    """What the new statement does to the old one."""

    SUPERSEDES = "supersedes"
    REPEATS = "repeats"
    STANDS = "stands"


@dataclass(frozen=True)
class Statement:
    """Words as far as they are judged: who said them, as what, and about which key. What is derived is kept."""

    text: str
    speaker: str | None
    source: str
    visibility: str
    key: str | None = None

    @cached_property
    def folded(self) -> str:
        """The words however they are written."""
        return fold(self.text)

    @cached_property
    def wording(self) -> str:
        """The same, but for the signs that make another statement."""
        return wording(self.text)

    @cached_property
    def telling(self) -> list[str]:
        """Its words without those that can be left out: whose, where and when a thing is stays in."""
        signs = re.findall(_SIGN, self.text)
        return signs + [w if w.endswith("ed") else stem(w) for w in words(self.text) if w not in _EMPTY]

    @cached_property
    def terms(self) -> list[str]:
        """The search terms, in order."""
        return index_terms(self.text)

    @cached_property
    def words(self) -> list[str]:
        """Words without the opening of a correction."""
        return words(_PRIOR.sub("", self.text))

    @cached_property
    def numbers(self) -> frozenset[str]:
        """The numbers it names."""
        return numbers(self.text)

    @cached_property
    def negated(self) -> bool:
        """Whether it denies something."""
        return has_negation(self.text)

    @cached_property
    def clauses(self) -> list[Clause]:
        """Its clauses, as far as polarity goes."""
        return [Clause.of(part) for part in _CLAUSE_END.split(self.text) if part.strip()]

    @cached_property
    def whole(self) -> Clause:
        """All of it as one clause."""
        return Clause.of(self.text)

    @cached_property
    def denied(self) -> list[list[str]]:
        """The terms of each value that it says is not so."""
        found = (index_terms(next(filter(None, match.groups()), "")) for match in _DENIED.finditer(self.text))
        return [terms for terms in found if terms]

    @cached_property
    def change(self) -> Change | None:
        """The change that it tells of."""
        clauses = _CLAUSE_END.split(_PRIOR.sub("", self.text))
        found = ((clause, _CUE.search(clause)) for clause in clauses)
        return next((Change.at(clause, cue) for clause, cue in found if cue is not None), None)


@dataclass(frozen=True, slots=True)
class Change:
    """A change told in one clause: the terms of what changed, and its new value."""

    subject: list[str]
    value: str

    @classmethod
    def at(cls, clause: str, cue: re.Match[str]) -> Change:
        """The change whose verb was found here."""
        terms = index_terms(_MOVERS.sub(" ", clause[: cue.start()]))
        return cls([term for term in terms if not term.startswith("1:")], clause[cue.end() :].strip())


@dataclass(frozen=True, slots=True)
class Clause:
    """A clause without its negation, and whether it had one."""

    negated: bool
    positive: list[str]
    numbers: frozenset[str]

    @classmethod
    def of(cls, text: str) -> Clause:
        """A clause of these words."""
        return cls(has_negation(text), _positive_terms(text), numbers(text))


# A value that may only be one at a time follows one of these.
_LINKS = frozenset(
    "is are am be 's in on at to of for from by with as until before 是 为 為 在 到 于 於 叫 姓 至".split()
)
# A frame about one of these is about something that the words alone don't name.
_POINTERS = frozenset("it that this there he she they we these those what let let's 它 他 她 这 這 那".split())
# With one of these a value is a clause of its own.
_NOT_IN_VALUES = _LINKS | frozenset("i i'd i'm i've you we me 我 你".split())
_BEFORE_VALUES = frozenset(
    "the about around only now still room number no january february march april may june july august september"
    " october november december monday tuesday wednesday thursday friday saturday sunday 年 月 周 第 约 約".split()
)
_INDEFINITE = frozenset("a an one some 一 一个 一個".split())
_EMPTY = frozenset("a an the is are am be 's that really very just please so 的 了 是 呢 吧 啊 呀 吗 嗎".split())
_SIGN = r"(?<!\w)[-−](?=\d)|[%$€£¥]"
_BESIDES = frozenset("also too 也 还 還".split())
_COPULAS = frozenset("is are am be 's".split())
_TO_MANY = frozenset("to for with from by as".split())
_OWN = frozenset("i we my our".split())
# What a person or thing has one of at a time, and verbs of being somewhere.
_ONE = frozenset(
    "name favourite favorite preferred address phone number email password budget price rent salary deadline date time"
    " birthday age size status state version language timezone city town country home house office desk job title role"
    " employer company boss manager lead owner doctor dentist teacher tutor supervisor landlord partner limit goal plan"
    " live lives work works stay stays study studies based located".split()
)
_ONE_ZH = re.compile(
    "(?:名字|姓名|电话|電話|号码|號碼|邮箱|郵箱|密码|密碼|地址|预算|預算|价格|價格|房租|工资|工資|日期|时间|時間|地点|地點|生日|年龄|年齡|状态|狀態"
    "|版本|语言|語言|时区|時區|城市|国籍|國籍|办公室|辦公室|职位|職位|职业|職業|老板|老闆|经理|經理"
    "|负责人|負責人|目标|目標|方案|首都|住|位|定|设|設|最[喜爱愛].{0,8})$"
)
_COUNTED = re.compile("[一二两兩三几幾0-9].?[只個个条條位名]|还有|還有")
_DAY = re.compile(
    r"\b(?:mon|tues|wednes|thurs|fri|satur|sun)day\b|\b(?:today|tomorrow|tonight|weekends?)\b"
    r"|[周期拜] ?[一二三四五六日天末]"
    r"|(?:january|february|march|april|may|june|july|august|september|october|november|december)\b|[月日号號]"
)
_NUMBER = re.compile(
    r"\d|\b(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|noon|midnight|hundred|thousand|million)\b"
    r"|[一二两兩三四五六七八九十百千万萬]"
)
_PERSONS = frozenset("i we he she they user 我 他 她".split())
_PAST = frozenset("was were did had went got 曾 过 過".split())

_CUE = re.compile(
    r"(?:\b(?:(?:has|have|is|was|got)\s+(?:been\s+)?(?:now\s+)?)?"
    r"(?:moved|changed|switched|postponed|rescheduled|pushed(?:\s+back)?|brought\s+forward|updated|raised|lowered)"
    r"\s+(?:from\s+[^,.;!?]{1,40}?\s+)?to\b"
    r"|(?:已经|已經|已)?(?:改成|改為|改为|改到|改在|换成|換成|换到|換到|调整为|調整為|调整到|調整到|更新为|更新為|更正为|更正為|变更为|變更為"
    r"|推迟到|推遲到|延期到|提前到|迁移到|遷移到|切换到|切換到|搬到))",
    re.IGNORECASE,
)
# A value that is named and denied beside the one that takes its place.
_DENIED = re.compile(
    r"(?:[,;—]|\band\b)\s*not\s+(?P<after>(?:[^,.;!?()]|[.,](?=\d)){1,40})"
    r"|\bnot\s+(?P<before>(?:[^,.;!?()]|[.,](?=\d)){1,40}?),?\s+but\b"
    r"|\b(?:instead of|rather than)\s+(?P<instead>(?:[^,.;!?()]|[.,](?=\d)){1,40})"
    r"|(?:不是|而不是|不再是|并非|並非)(?P<zh>(?:[^，。；！？,.;!?而]|[.,](?=\d)){1,30})",
    re.IGNORECASE,
)
_WORD = re.compile(
    r"[^\W\d_\u3005-\u9fff\uf900-\ufaff]+(?:['’][^\W\d_]+)?|\d+(?:[.,:/-]\d+)*|[\u3005-\u9fff\uf900-\ufaff]"
)
_PRIOR = re.compile(
    r"^(?:actually|correction|update|sorry|no|well|oh|更正|纠正|糾正|其实|其實|对了|對了|不对|不對)[,:，：\s]*", re.I
)
_MOVERS = re.compile(r"[把将將从從由]")  # they open a change and belong to no subject
_CLAUSE_END = re.compile(r"[，。；！？;!?]|[,.](?!\d)")
# What a negation and its adverbs are made of: without it the two sides of a contradiction are the same words.
_NEGATORS = re.compile(
    r"\b(?:no longer|not|never|any ?more|don't|doesn't|didn't|isn't|aren't|won't|can't|do|does|did|stopped|quit"
    r"|now|already|from now on|in future)\b"
    r"|不再|不用|不要|没有|沒有|不|没|沒|别|別|再也|了|以后|以後|今后|今後|现在|現在|已经|已經",
    re.IGNORECASE,
)
_SAME_SUBJECT = 0.5  # of what is left of an old statement without its denied value
_SHARED_PAIRS = 0.6  # of a Chinese subject's character pairs: the rest is how it happens to be put
_MAX_VALUE_WORDS = 8
_MAX_CHARS = 500  # a longer text holds more than one statement


def judge(new: Statement, old: Statement) -> tuple[Verdict, str]:
    """The verdict and the sign it rests on."""
    if new.visibility != old.visibility or new.speaker != old.speaker:
        return Verdict.STANDS, ""
    same = new.wording == old.wording
    if new.key is not None and old.key is not None and new.key != old.key:
        return Verdict.STANDS, ""  # two keys name two things, whatever they hold
    if new.key is not None and old.key is None and same:
        return Verdict.SUPERSEDES, "words"  # the key is new
    if new.key is not None and new.key == old.key:
        return (Verdict.REPEATS, "words") if same else (Verdict.SUPERSEDES, "key")
    if same:
        return Verdict.REPEATS, "words"
    if max(len(new.text), len(old.text)) > _MAX_CHARS:
        return Verdict.STANDS, ""
    for sign, rule in (("value", _value), ("replaced", _replaced), ("change", _change), ("polarity", _polarity)):
        if rule(new, old):
            return Verdict.SUPERSEDES, sign
    return (Verdict.REPEATS, "terms") if _repeats(new, old) else (Verdict.STANDS, "")


def may_retire(new: Statement, old: Statement, user_said: str) -> bool:
    """Whether who speaks may retire what was said.

    A user may. An assistant may retire a user's words only where the user has just said the new ones; documents,
    tools and the system never retire anything of somebody else.
    """
    if new.source in ("user", old.source):
        return True
    if new.source != "assistant" or old.source != "user":
        return new.source == "assistant" and old.source == "tool"
    added = set(new.terms) - set(old.terms)
    return bool(added) and added <= set(index_terms(user_said))


def words(text: str) -> list[str]:
    """Words, numbers and single Chinese characters, casefolded."""
    return [w.replace("’", "'") for w in _WORD.findall(text.casefold())]


def _value(new: Statement, old: Statement) -> bool:
    first, second = new.words, old.words
    kept = _common_prefix(first, second)
    frame, values = first[:kept], (first[kept:], second[kept:])
    if len(frame) < 2 or not all(0 < len(v) <= _MAX_VALUE_WORDS for v in values):
        return False
    if frame[0] in _POINTERS or any(v[0] in _INDEFINITE or _NOT_IN_VALUES & set(v) for v in values):
        return False
    # One value that holds the other only says it more exactly.
    if set(values[0]) <= set(values[1]) or set(values[1]) <= set(values[0]):
        return False
    if _tells_an_event(frame) or any(has_negation(" ".join(v)) for v in values):
        return False
    named = [word[:1].isupper() for word in _WORD.findall(_PRIOR.sub("", new.text))[:kept]]
    return _ends_in_link(frame, named) and bool(_topic(frame)) and _one_at_a_time(frame, values)


def _one_at_a_time(frame: Sequence[str], values: Sequence[Sequence[str]]) -> bool:
    """Whether what stands behind the frame can only be one thing at a time.

    Two numbers, dates or times are one; two words are where the frame names an attribute or a place. A person is
    allergic to, works with and buys for many.
    """
    place = max(i for i, word in enumerate(frame) if _LINKS & set(_split_clitics([word])))
    link = _split_clitics([frame[place]])[-1]
    before = set(_split_clitics(frame[:place]))
    kinds = {_kind([*frame[place + 1 :], *value]) for value in values}
    if len(kinds) > 1 or any(_BESIDES & set(value) for value in values):
        return False
    if not link.isascii():
        said = "".join(frame[:place])
        return kinds != {""} or (link in "叫姓" and not _COUNTED.search(said)) or bool(_ONE_ZH.search(said))
    if link == "on" or (link in _TO_MANY and not before & _COPULAS):
        return kinds != {""} and link not in _TO_MANY
    if frame[0] not in _OWN:
        return True
    return kinds != {""} or (bool(before & _ONE) and link not in _TO_MANY)


def _kind(value: Sequence[str]) -> str:
    """`day` or `number` where a value holds one, else nothing."""
    joined = " ".join(value)
    return "day" if _DAY.search(joined) else "number" if _NUMBER.search(joined) else ""


def _ends_in_link(frame: Sequence[str], named: Sequence[bool]) -> bool:
    """Whether a value stands directly behind a link, but for an article, a month, a number or half a name.

    `named` says which words of the frame were written with a capital.
    """
    for word, capital in zip(reversed(frame), reversed(named), strict=True):
        if _LINKS & set(_split_clitics([word])):
            return True
        if word in _INDEFINITE or not (capital or word in _BEFORE_VALUES or word[0].isdigit()):
            return False
    return False


def _tells_an_event(frame: Sequence[str]) -> bool:
    """Whether a frame tells what happened once: two such statements may both be true."""
    did = bool({"i", "we"} & set(frame)) and any(word.endswith("ed") for word in frame)
    return did or bool(_PAST & set(frame))


def _split_clitics(frame: Sequence[str]) -> list[str]:
    """The words of a frame, a name and its 's apart."""
    return [part for word in frame for part in re.split(r"(?=')", word) if part]


def _topic(frame: Sequence[str]) -> list[str]:
    """What a frame is about: its words without function words and links."""
    joined = " ".join(w for w in frame if w not in _LINKS) if frame[0].isascii() else "".join(frame[:-1])
    return index_terms(joined)


def _replaced(new: Statement, old: Statement) -> bool:
    old_terms = set(old.terms)
    for denied in new.denied:
        about = old_terms.difference(denied)
        kept = {term for term in new.terms if term not in denied}
        # What is left of the old statement must be its subject, and the new one must give a value for it.
        if old_terms.issuperset(denied) and about and len(kept & about) >= _SAME_SUBJECT * len(about) and kept - about:
            return True
    return False


def _change(new: Statement, old: Statement) -> bool:
    told = new.change
    if told is None or not told.value or not told.subject:
        return False
    if fold(told.value) in old.folded or not _about(told.subject, old):
        return False
    # A date or number replaces one of its kind, so an old statement without one is about something else.
    return not numbers(told.value) or bool(old.numbers)


def _about(subject: Sequence[str], old: Statement) -> bool:
    """Whether an old statement is about the whole subject: opens with it, or holds all of it.

    Of Chinese pairs the first and the last must be there, which name what it is, and most of those between.
    """
    terms = [term for term in old.terms if not term.startswith("1:")]
    if terms[: len(subject)] == list(subject):
        return True
    held = set(terms)
    latin = [t for t in subject if t.isascii()]
    pairs = [t for t in subject if not t.isascii()]
    shared = sum(pair in held for pair in pairs)
    if pairs and not (pairs[0] in held and pairs[-1] in held and shared >= _SHARED_PAIRS * len(pairs)):
        return False
    return held.issuperset(latin) and len(latin) + shared >= 2


def _polarity(new: Statement, old: Statement) -> bool:
    return any(
        clause.positive == old.whole.positive
        and clause.numbers == old.numbers
        and (len(clause.positive) >= 2 or (bool(clause.positive) and _same_person(new, old)))
        for clause in new.clauses
        if clause.negated != old.negated
    )


def _same_person(new: Statement, old: Statement) -> bool:
    """Whether both open with the same pronoun: what makes a statement of a single content word."""
    return new.words[:1] == old.words[:1] and bool(_PERSONS & set(new.words[:1]))


def _positive_terms(text: str) -> list[str]:
    return index_terms(_NEGATORS.sub(lambda m: " " if m[0].isascii() else "", text.replace("’", "'")))


def _repeats(new: Statement, old: Statement) -> bool:
    return (
        len(new.terms) >= 2
        and new.terms == old.terms
        and new.telling == old.telling
        and new.numbers == old.numbers
        and new.negated == old.negated
    )


def _common_prefix(first: Sequence[str], second: Sequence[str]) -> int:
    length = 0
    for a, b in zip(first, second, strict=False):
        if a != b:
            break
        length += 1
    return length
