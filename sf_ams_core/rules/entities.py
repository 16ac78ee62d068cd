"""Whom and what a text names: found by form, compared after folding, matched on whole tokens only."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from itertools import pairwise

from anyascii import anyascii

from ..types import MAX_ID_CHARS
from .text import EAST_ASIAN, HAN, SOUTH_EAST_ASIAN, STOP_WORDS, fold, marks, normalise, words

_MOST = 16

# The hundred or so most frequent surnames, both ways of writing, and the two-character ones.
_SURNAME = (
    "(?:欧阳|歐陽|上官|司马|司馬|诸葛|諸葛|司徒|皇甫|令狐|慕容|东方|東方|夏侯|尉迟|[王李张張刘劉陈陳杨楊黄黃赵趙吴吳周徐孙孫马馬朱胡郭何林高罗羅郑鄭梁"
    "谢謝宋唐许許邓鄧冯馮韩韓曹曾彭萧蕭肖田董潘袁蔡蒋蔣余于杜叶葉程魏苏蘇吕呂丁任卢盧姚沈钟鐘姜崔谭譚陆陸范汪廖石金贾賈韦韋夏付方邹鄒熊白孟秦邱江尹薛闫"
    "阎閻段雷侯龙龍史陶黎贺賀顾顧毛郝龚龔邵万萬钱錢覃武戴莫孔向汤湯温溫康施文牛樊葛邢安齐齊易乔喬伍庞龐颜顏倪庄莊聂聶章鲁魯岳翟殷詹申欧歐耿关關兰蘭焦俞"
    "左柳甘祝包宁寧符舒阮柯纪紀梅童凌毕畢单單季裴霍涂成苗谷曲盛冉翁蓝藍骆駱路游辛靳管柴蒙鲍鮑华華喻祁房滕屈饶饒解牟艾尤时時穆司古吉缪繆车車项項连連苑])"
)
# Characters that go on with the sentence rather than with a name.
_NO_NAME = (
    "的了是在有和跟与與也都就还還又很不没沒会會能要想去来來说說做住到从從给給让讓对對把被为為因所以但而或及我你他她它您们們这這那"
    "个個什么麼吗嗎呢吧啊呀喜爱愛今昨每上下里裡吃喝买買看打教养養工常经經正最刚剛已将將叫等并並后後前时時,.!?;:，。！？；：、"
)
_GIVEN = rf"(?:(?![{_NO_NAME}])[{HAN}])"
_END = rf"(?=$|[^{HAN}]|[{_NO_NAME}])"
_CHINESE_NAMES = (
    # 叫, 名字是: whatever follows, up to the end of the name; pets have names too.
    rf"(?:名字(?:是|叫)|姓名(?:是|[:：])|名叫|叫做|(?<![尖大呼])叫)(?P<called>{_GIVEN}{{2,4}}){_END}",
    # 我是, and persons by their relation: only with a surname.
    rf"(?:我是|是我|朋友|同事|同学|同學|室友|老板|老闆|客户|客戶|女儿|女兒|儿子|兒子|老公|老婆|丈夫|妻子|妈妈|媽媽|爸爸|哥哥|姐姐|弟弟|妹妹)"
    rf"(?P<known>{_SURNAME}{_GIVEN}{{1,2}}(?<![生员員师師人者手家工])){_END}",
    rf"(?P<titled>{_SURNAME}{_GIVEN}{{0,2}}(?:先生|女士|小姐|老师|老師|经理|經理|医生|醫生|教授|律师|律師|阿姨|叔叔))",
    rf"(?<![{HAN}])(?P<familiar>[小老阿]{_SURNAME}){_END}",
)
_CAPITAL = "[A-ZÀ-ÖØ-ÞΑ-ΩА-ЯЁ]"
_WORD = rf"(?:{_CAPITAL}|[a-z]{{1,3}}[A-Z])[^\W_]*(?:['’-][^\W_]+)*"
_FORMS = (
    r"(?<![\w.+-])(?P<email>[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8})",
    r"(?<![\w@.])(?P<handle>@[\w.]{1,39}\w)",
    "《(?P<title>[^《》\n]{1,40})》|「(?P<corner>[^「」\n]{1,40})」|“(?P<quoted>[^“”\n。！？!?.]{1,40})”",
    r"(?P<amount>(?:(?<![A-Za-z])[A-Z]{0,3}[$€£¥￥]\s?[0-9][0-9,.]*(?<=[0-9])"
    r"|(?<![A-Za-z0-9_.,])[0-9][0-9,.]{0,20}\s?(?:[万萬亿億]?(?:元|块钱|塊錢|美元)|(?:dollars|euros|pounds|USD|EUR|CNY|RMB)\b)))",
    # Letters and digits in one word; four digits or more, unless they are a year.
    r"(?<![A-Za-z0-9_.-])(?P<code>(?=[A-Za-z_.-]{1,30}[0-9]|[0-9_.-]{1,30}[A-Za-z])[A-Za-z0-9]{1,40}(?:[-_.][A-Za-z0-9]{1,40}){0,8})",
    r"(?<![A-Za-z0-9_.,:/-])(?!(?:19|20)[0-9]{2}(?![0-9]))(?P<digits>[0-9]{4,20})(?![A-Za-z0-9_:/])",
    *_CHINESE_NAMES,
    rf"(?<![^\W{HAN}])(?P<name>{_WORD}(?: (?:(?:of|de|da|van|von|der|la) )?{_WORD})*)",
)
_NO_NAMES = words(
    """
    monday tuesday wednesday thursday friday saturday sunday january february march april may june july august september
    october november december i i'm i've i'd i'll ok okay lol omg hi hello hey thanks thank yes yeah yep no nope wow oh
    ah aww well sure great good nice cool right sorry please congrats congratulations mr mrs ms dr and but so also then
    now today tomorrow yesterday there here anyway maybe actually honestly definitely absolutely let's dear
    """
)
# What people do: after it, or with a possessive, the first word of a sentence is a person.
_PERSON_FOLLOWS = re.compile(
    r"['’]s\b|,? (?:and I|said|says|told|asked|thinks|wants|loves|likes|hates|prefers|lives|lived|works|worked|went"
    r"|came|called|moved|bought|got|plays|studies|married|invited|gave|sent|visited|joined|plans|needs|has|had)\b"
)
_SENTENCE_START = re.compile("(?:^|[.!?:;。！？：；\n])[\\s\"“'(]*$")


def entities(text: str) -> tuple[str, ...]:
    """The names, addresses, titles, identifiers and amounts in `text`, in order, each once, at most 16."""
    found: dict[str, str] = {}
    for match in _scanner().finditer(text):
        kind = str(match.lastgroup)
        name = _name(match, text) if kind == "name" else match[kind].strip()
        if name:
            found.setdefault(fold(name) or name, name)
        if len(found) == _MOST:
            break
    return tuple(found.values())


def _name(match: re.Match[str], text: str) -> str:
    """The capitalised words of `match` that are a name; the first word of a sentence alone mostly is none."""
    names = match["name"].split()
    common = 0
    while common < len(names) and _is_common(names[common]):
        common += 1
    kept = names[common:]
    while kept and _is_common(kept[-1]):
        kept.pop()
    starts = not common and _SENTENCE_START.search(text[max(0, match.start() - 8) : match.start()])
    if (
        len(kept) == 1
        and starts
        and kept[0][1:].islower()
        and not _PERSON_FOLLOWS.match(text, match.end() - _possessive(kept[0]))
    ):
        return ""
    return re.sub("['’]s$", "", " ".join(kept))


def _is_common(word: str) -> bool:
    plain = word.lower().replace("’", "'")
    return len(word) == 1 or plain in _NO_NAMES or plain.split("'")[0] in _NO_NAMES or plain in STOP_WORDS


def _possessive(word: str) -> int:
    return 2 if word.endswith(("'s", "’s")) else 0


@cache
def _scanner() -> re.Pattern[str]:
    return re.compile("|".join(_FORMS))


def fold_identifier(text: str) -> str:
    """`text` without case, width, spaces and punctuation, and a Chinese mobile number without its country code."""
    folded = fold(text)
    mobile = _COUNTRY_CODE.fullmatch(folded)
    return mobile[1] if mobile else folded


_COUNTRY_CODE = re.compile("(?:00)?86(1[3-9][0-9]{9})")


def romanise(text: str) -> str:
    """`text` in folded Latin letters, as 张伟 and `Zhang Wei` are both `zhangwei`."""
    return fold(anyascii(text))


def contains_identifier(text: str, identifier: str) -> bool:
    """Whether `text` names `identifier`: alike after folding, and a whole token, never the part of a longer one."""
    if len(identifier) > MAX_ID_CHARS:  # a whole text rather than an identifier
        return fold(identifier) in fold(text)
    pattern = _identifier_pattern(identifier)
    return pattern is not None and pattern.search(normalise(text)) is not None


@lru_cache(maxsize=1024)
def _identifier_pattern(identifier: str) -> re.Pattern[str] | None:
    plain = normalise(identifier)
    mobile = _COUNTRY_CODE.fullmatch(fold(plain))
    # The letter behind it keeps a long tail of signs from being tried from each of them.
    tokens = _token_characters().findall((mobile[1] if mobile else plain) + "x")[:-1]
    if not tokens:
        return None
    number = sum(c.isdigit() for _, c in tokens) >= _LONG_NUMBER
    first, last = tokens[0][1], tokens[-1][1]
    pieces = [_before(first, short=not number), _PREFIX if number and first == "1" else "", re.escape(first)]
    for (_, previous), (between, character) in pairwise(tokens):
        pieces += [_between(previous, between, character, number=number), re.escape(character)]
    return re.compile("".join([*pieces, _after(last, short=not number)]))


_LONG_NUMBER = 7  # digits: from here on people write it in groups
_PREFIX = r"(?:(?:\+|00)?86[ -]?)?"


@cache
def _token_characters() -> re.Pattern[str]:
    return re.compile(f"((?:[^\\w{marks()}]|_)*)([^\\W_]|[{marks()}])")


def _between(previous: str, written: str, character: str, *, number: bool) -> str:
    """What may stand in a text between two characters of an identifier that has `written` there."""
    if "@" in written:
        return r"\s?@\s?"
    if previous.isdigit() and character.isdigit():
        return r"[ .()-]{0,2}" if number else _SEPARATORS if written else ""
    if written or (previous.isdigit() or character.isdigit()):
        return _SEPARATORS
    return "[ ·・]?" if _UNSPACED.match(character) else "['’-]?"


_SEPARATORS = r"[ \t_.,:;/()&+·・'’\"-]{0,3}"
_UNSPACED = re.compile(f"[{EAST_ASIAN}{SOUTH_EAST_ASIAN}]")
_LETTER = f"[^\\W{EAST_ASIAN}{SOUTH_EAST_ASIAN}]"


def _before(first: str, *, short: bool) -> str:
    if _UNSPACED.match(first):
        return ""
    digits = r"(?<![0-9][:/])" + (r"(?<![0-9]{3} )" if short else "") if first.isdigit() else ""
    return rf"(?<!{_LETTER})(?<![{marks()}])(?<!{_LETTER}[-.@+&'’]){digits}"


def _after(last: str, *, short: bool) -> str:
    if _UNSPACED.match(last):
        return f"(?![{marks()}])"
    digits = r"(?![:/][0-9]|,[0-9]{3}(?![0-9]))" + (r"(?! [0-9]{3})" if short else "") if last.isdigit() else ""
    return rf"(?!{_LETTER}|[{marks()}]|[-.@+&]{_LETTER}|['’](?!s(?!{_LETTER})){_LETTER}){digits}"
