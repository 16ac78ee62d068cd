"""What every rule needs of a text: cleaned, folded for identity, cut into terms, chunks and numbers.

Words are found in any script. English is stemmed and loses its stop words; scripts written without spaces (Han,
Kana, Hangul, Thai …) become pairs of characters, which need no dictionary and find two-character words.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import cache, lru_cache
from itertools import cycle, pairwise
from typing import Literal

import snowballstemmer

MEMORY_HEADER_ZH = "以下是关于用户的记忆片段，请参考但不编造："
MEMORY_HEADER_EN = "Memories about the user, for reference; do not invent:"
MEMORY_TAG = "sf-ams-memory"

HAN = "\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
KANA = "\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"
HANGUL = "\u1100-\u11ff\u3131-\u318e\uac00-\ud7af"
EAST_ASIAN = HAN + KANA + HANGUL
SOUTH_EAST_ASIAN = "\u0e00-\u0e3e\u0e40-\u0e4e\u0e80-\u0eff\u1000-\u109f\u1780-\u17d3"
_FLAG_LETTERS = "\U0001f1e6-\U0001f1ff"
_PICTOGRAPHS = "\u2600-\u27bf\u2b00-\u2bff\U0001f000-\U0001f1e5\U0001f200-\U0001f3fa\U0001f400-\U0001faff"
_EMOJI = "\u2190-\u21ff\u2600-\u27bf\u2b00-\u2bff\U0001f000-\U0001faff"
# Scripts whose spelling needs joiners: Arabic and its kin, the Indic blocks, Tibetan to Mongolian.
_JOINING = "\u0600-\u08ff\u0900-\u0dff\u0f00-\u109f\u1780-\u18af\ufb50-\ufdff\ufe70-\ufefc"

_MAX_TERM_CHARS = 64
_MAX_STEM_CHARS = 40  # no English word is longer, and the stemmer is slow


def words(table: str) -> frozenset[str]:
    """The words of a rule table, written with spaces between them."""
    return frozenset(table.split())


STOP_WORDS = words(
    """
    a about above after again all also am an and any are as at be because been before being below between both but
    by ca can could did do does doing done down during each either else ever every few for from further get gets
    got had has have having he her here hers herself him himself his how i if in into is it its itself just let
    like may me might mine more most much must my myself no nor not now of off on once one only or other our ours
    ourselves out over own please really same sha shall she should so some such than that the their theirs them
    themselves then there these they this those through to too under until up upon us very was we were what when
    where which while who whom whose why will with wo would yes you your yours yourself yourselves
    """
)
# Pronouns, particles, question words and light verbs, in both ways of writing; a pair of them names no topic.
_FUNCTION_CHARACTERS = frozenset(
    "的了吗嗎呢吧啊呀嘛么麼什怎哪谁誰几幾多少是在有和与與就都也还還很我你您他她它们們这這那个個些样樣为為何"
    "把被让讓给給对對跟从從到会會能可以要请請问問过過着著之其而且或者吾咱啥"
)

# First what an invisible character may belong to (group 1), then every invisible or reordering character.
_INVISIBLE = re.compile(
    f"((?<=[{_EMOJI}])\ufe0f?\u200d(?=[{_EMOJI}])|(?<=[{_EMOJI}0-9#*])[\ufe0e\ufe0f]"
    f"|(?<=[{_JOINING}])[\u200c\u200d]"
    f"|(?<=[{HAN}])[\ufe00-\ufe0f\U000e0100-\U000e01ef]"
    "|(?<=\U0001f3f4)\U000e0067\U000e0062(?:\U000e0065\U000e006e\U000e0067|\U000e0073\U000e0063\U000e0074"
    "|\U000e0077\U000e006c\U000e0073)\U000e007f)"  # the flags of England, Scotland and Wales
    "|[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ud800-\udfff\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_LINE_BREAK = re.compile("\r\n?|[\x0b\x0c\x85\u2028\u2029]")


def clean(text: str) -> str:
    """`text` in NFC without what a reader cannot see: controls, lone surrogates, bidi controls, hidden tags.

    Line breaks of any kind become a newline; tabs stay, and so do joiners that an emoji or a script needs.
    """
    if text.isascii() and text.replace("\n", " ").replace("\t", " ").isprintable():
        return text
    text = _LINE_BREAK.sub("\n", unicodedata.normalize("NFC", text))
    return unicodedata.normalize("NFC", _INVISIBLE.sub(r"\1", text))


def fold(text: str) -> str:
    """The letters and digits of `text`, alike in case, width and punctuation: two spellings of one thing are equal."""
    while (folded := _fold_once(text)) != text:
        text = folded
    return text


def _fold_once(text: str) -> str:
    plain = unicodedata.normalize("NFKC", text).casefold()
    return unicodedata.normalize("NFKC", _separators().sub("", plain))


def wording(text: str) -> str:
    """`text` folded but for the signs that make another statement: those in numbers, of money, of C++ and C#."""
    pieces = _TELLING.split(normalise(text))
    return "".join(piece if odd else fold(piece) for piece, odd in zip(pieces, cycle((0, 1)), strict=False))


# In 3.5, 10-12 and 1:15 the sign counts, in 1,000 it doesn't; -5 is not 5.
_TELLING = re.compile(
    r"((?<=\d)(?:[.:/-]|,(?!\d{3}(?!\d)))(?=\d)|(?<![^\W_])[-\u2212+](?=\d)|[%$€£¥]|(?<=\b[a-z])(?:\+\+|#))"
)


def normalise(text: str) -> str:
    """`text` as terms and patterns see it: NFKC and casefolded."""
    return text.lower() if text.isascii() else unicodedata.normalize("NFKC", text).casefold()


def stem(word: str) -> str:
    """The Snowball stem of a lower-case English word; other words come back as they are."""
    return _stem(word) if len(word) <= _MAX_STEM_CHARS and word.isascii() and word.isalpha() else word


@lru_cache(maxsize=1 << 17)
def _stem(word: str) -> str:
    # A stemmer keeps the word in hand, so threads must not share one; making one is cheap.
    return str(snowballstemmer.stemmer("english").stemWord(word))


def index_terms(text: str) -> list[str]:
    """The terms under which BM25 files `text`, repeated as often as they occur.

    A single character of an unspaced script is filed as `1:猫`, where only a one-character query looks.
    """
    terms: list[str] = []
    for kind, run, number in _runs(normalise(text)):
        match kind:
            case "word":
                terms += _word_terms(run)
            case "unspaced":
                terms += [number + run[0]] if number else []
                terms += _pairs(run)
                terms += ["1:" + character for character in run]
            case "clusters":
                terms += _cluster_terms(run)
            case _:
                terms.append(run)
    return terms


def query_terms(text: str) -> list[str]:
    """The terms that `text` asks for, each once; its stop words only where it holds nothing else."""
    runs = list(_runs(normalise(text)))
    terms = [term for kind, run, number in runs for term in _asked(kind, run, number)]
    return list(dict.fromkeys(terms or [term for kind, run, _ in runs for term in _asked_plainly(kind, run)]))


def is_filler(text: str) -> bool:
    """Whether `text` names nothing: only stop words, pronouns and particles, or no word at all."""
    return all(_FUNCTION_CHARACTERS.issuperset(term.removeprefix("1:")) for term in index_terms(text))


def _asked(kind: str, run: str, number: str) -> list[str]:
    match kind:
        case "word":
            return list(_word_terms(run))
        case "unspaced":
            counted = [number + run[0]] if number else []
            return counted + [
                t for t in _unspaced(run, alone=not number) if not _FUNCTION_CHARACTERS.issuperset(t[-2:])
            ]
        case "clusters":
            return _cluster_terms(run)
    return [run]


def _asked_plainly(kind: str, run: str) -> list[str]:
    match kind:
        case "word":
            return [stem(_CONTRACTION.sub("", run))]
        case "unspaced":
            return _unspaced(run, alone=True)
    return [run]


def _unspaced(run: str, *, alone: bool) -> list[str]:
    if len(run) == 1:
        return ["1:" + run] if alone else []
    return _pairs(run)


def _pairs(run: str) -> list[str]:
    return [first + second for first, second in pairwise(run)]


def _cluster_terms(run: str) -> list[str]:
    """The whole run, and the pairs of its characters with their marks."""
    units = _clusters().findall(run)
    return [run[:_MAX_TERM_CHARS]] + [a + b for a, b in pairwise(units) if a + b != run]


def _word_terms(word: str) -> tuple[str, ...]:
    return _cached_terms(word) if len(word) <= _MAX_TERM_CHARS else _cut_word(word)


@lru_cache(maxsize=1 << 16)
def _cached_terms(word: str) -> tuple[str, ...]:
    return _cut_word(word)


def _cut_word(word: str) -> tuple[str, ...]:
    if word.isalpha():
        return () if word in STOP_WORDS else (stem(word)[:_MAX_TERM_CHARS],)
    word = _CONTRACTION.sub("", word).replace(",", "")
    parts = _JOINTS.split(word)
    if not _IDENTIFYING.search(word):
        return tuple(stem(part)[:_MAX_TERM_CHARS] for part in parts if part and part not in STOP_WORDS)
    # `v2.3` is found as v2.3, 2.3 and v2; `prj-2024` as prj-2024, prj and 2024.
    parts += [_LETTERS_BEFORE_DIGIT.sub("", word)] + [run for part in parts for run in _LETTERS_OR_DIGITS.findall(part)]
    kept = [stem(part) for part in parts if len(part) > 1 and part not in STOP_WORDS]
    return tuple(dict.fromkeys(term[:_MAX_TERM_CHARS] for term in [word, *kept]))


def _runs(text: str) -> Iterator[tuple[str, str, str]]:
    """Kind and text of each run of `text`; `number` is set where an unspaced run counts it, as in 5月."""
    number, end = "", -1
    for found in _scanner().finditer(text):
        kind, run = str(found.lastgroup), found.group()
        yield kind, run, number if found.start() == end else ""
        number, end = (run, found.end()) if kind == "word" and run.isdigit() else ("", -1)


_CONTRACTION = re.compile("(?:n['’]t|['’](?:s|m|re|ll|ve|d|t))$")
_JOINTS = re.compile("[-._@:/'’&+#]+")
_IDENTIFYING = re.compile(r"[\d@&+#]")
_LETTERS_BEFORE_DIGIT = re.compile(r"^[^\W\d_]+(?=\d[\d.]*$)")
_LETTERS_OR_DIGITS = re.compile(r"\d+|[^\W\d_]+")

_SENTENCE_END = re.compile("(?:[。！？!?…]+|\\.(?!\\S))[”’」』\"')）]*\\s*|\n+")
_SPACE = re.compile(r"\s+")


def chunks(text: str, size: int) -> list[str]:
    """`text` in pieces of at most `size` characters that join to it again, cut at sentence ends, else at spaces."""
    pieces, start = [], 0
    while len(text) - start > size:
        end = start + _cut(text[start : start + size])
        pieces.append(text[start:end])
        start = end
    return [*pieces, text[start:]]


def _cut(window: str) -> int:
    for border in (_SENTENCE_END, _SPACE):
        # A cut in the first third would leave a piece that says too little.
        ends = [found.end() for found in border.finditer(window) if found.end() > len(window) // 3]
        if ends:
            return ends[-1]
    return len(window)


def language(text: str) -> Literal["zh", "en"]:
    """The language to answer in: `zh` where at least a fifth of the letters are Han, else `en`."""
    han = sum(map(len, _HAN_RUN.findall(text)))
    letters = sum(map(len, _LETTER_RUN.findall(text)))
    return "zh" if han and han * 5 >= letters else "en"


_HAN_RUN = re.compile(f"[{HAN}]+")
_LETTER_RUN = re.compile(r"[^\W\d_]+")


def numbers(text: str) -> frozenset[str]:
    """The numbers and identifiers in `text`, alike in width, case and grouping: `1,000` is `1000`, `3.50` is `3.5`."""
    return frozenset(_number(found) for found in _TOKEN.findall(normalise(text)) if _DIGIT.search(found))


def _number(found: str) -> str:
    plain = found.replace(",", "")
    if _DECIMAL.match(plain):
        return plain.rstrip("0").rstrip(".")
    if _ORDINAL.match(plain):
        return plain[:-2]
    digits = plain.replace("-", "")
    return digits if digits.isdigit() and len(digits) > 6 else plain  # dates and telephone numbers, dashed or not


_LATIN = f"[^\\W_{EAST_ASIAN}{SOUTH_EAST_ASIAN}]"
_TOKEN = re.compile(f"{_LATIN}+(?:(?:[-._:/]|(?<=\\d),(?=\\d)){_LATIN}+)*")
_DIGIT = re.compile(r"\d")
_DECIMAL = re.compile(r"\d+\.\d+$")
_ORDINAL = re.compile(r"\d+(?:st|nd|rd|th)$")


def has_negation(text: str) -> bool:
    """Whether `text` denies, refuses or dislikes something; set phrases such as 不错 or `no problem` do not count."""
    return bool(_NEGATION.search(_NOT_NEGATION.sub(" ", normalise(text))))


_NOT_NEGATION = re.compile(
    r"\b(?:not only|not just|whether or not|why not|no (?:problem|worries|wonder|doubt|matter)|can['’]?t wait)\b"
    "|不错|不過|不过|不仅|不僅|不但|不管|不论|不論|不断|不斷|不久|不同|不少|不得不|不好意思|不客气|不客氣|不用谢|不用謝|差不多"
    "|对不起|對不起|了不起|要不|没关系|沒關係|没问题|沒問題|没事|沒事|没错|沒錯|有没有|有沒有|特别|特別|分别|分別|区别|區別"
    "|级别|級別|性别|性別|类别|類別|个别|個別|识别|識別|告别|告別|别人|別人|别的|別的|别墅|別墅|别名|別名"
    "|无论|無論|无锡|無錫|无线|無線|无数|無數|无人机|無人機|未来|未來"
    r"|([^\W\d_])[不没沒]\1"  # 是不是, 能不能: a question
)
_NEGATION = re.compile(
    r"\b(?:no|not|never|without|none|nobody|nothing|nowhere|neither|nor|cannot|unable|refus(?:e|es|ed|ing)"
    r"|dislik(?:e|es|ed|ing)|hat(?:e|es|ed|ing)|detest\w*|avoid\w*|den(?:y|ies|ied)|stopped|quit|no longer)\b"
    r"|n['’]t\b|\b(?:dont|doesnt|didnt|isnt|wasnt|arent|wont|cant|couldnt|shouldnt)\b"
    "|[不没沒无無勿未别別莫]|并非|並非|绝非|絕非|讨厌|討厭|反感|厌恶|厭惡|拒绝|拒絕|避免|取消|戒掉|戒了|放弃|放棄"
)


@cache
def marks() -> str:
    """The combining marks of all scripts as the inside of a character class; variation selectors are none."""
    found = [c for c in map(chr, range(0x300, 0x1F000)) if unicodedata.category(c) in ("Mn", "Mc")]
    kept = [c for c in found if not "\ufe00" <= c <= "\ufe0f" and c != "\u034f"]
    ranges: list[list[str]] = []
    for mark in kept:
        if ranges and ord(mark) == ord(ranges[-1][1]) + 1:
            ranges[-1][1] = mark
        else:
            ranges.append([mark, mark])
    return "".join(f"{first}-{last}" for first, last in ranges)


@cache
def _scanner() -> re.Pattern[str]:
    letter = f"[^\\W_{EAST_ASIAN}{SOUTH_EAST_ASIAN}]"
    # Each repetition starts on a character that the one before cannot take: linear on any text.
    word = f"{letter}+(?:[{marks()}]+{letter}*)*"
    joint = r"(?:[-._@:/'’&]|(?<=\d),(?=\d{3}(?!\d)))"
    return re.compile(
        f"(?P<word>{word}(?:{joint}{word})*(?:(?<=\\b[a-z])(?:\\+\\+|#))?)"
        f"|(?P<unspaced>[{EAST_ASIAN}]+)|(?P<clusters>[{SOUTH_EAST_ASIAN}]+)"
        f"|(?P<emoji>[{_FLAG_LETTERS}]{{2}}|[{_PICTOGRAPHS}])"
    )


@cache
def _clusters() -> re.Pattern[str]:
    return re.compile(f".[{marks()}]*")


@cache
def _separators() -> re.Pattern[str]:
    return re.compile(f"(?:[^\\w{marks()}]|_)+")
