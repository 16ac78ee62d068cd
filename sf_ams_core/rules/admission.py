"""What is worth keeping: the type of a statement, its importance, and why a text is turned away.

A text is read clause by clause. Small talk, commands and questions fall away first; what is left is judged as a
statement. Every table holds Chinese and English side by side; scores follow the rule function of seed 2, 4.1.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from ..settings import WriteSettings
from ..types import RefusalReason, Role, Source
from .rendering import is_injected
from .text import EAST_ASIAN, index_terms, normalise


@dataclass(frozen=True, slots=True)
class Assessment:
    """The type and importance (0 to 1) of a text; `reason` is set where it is not worth promoting."""

    type: str
    importance: float
    reason: RefusalReason | None


def _pattern(table: str) -> re.Pattern[str]:
    """One pattern out of a table of alternatives, each line a Chinese or an English row."""
    lines = (line.strip().replace("%NAMED%", _NAMED) for line in table.splitlines())
    return re.compile("|".join(line for line in lines if line))


# The tables are written in simplified characters; traditional ones are read as these.
_SIMPLIFIED = str.maketrans(
    "會議紀錄週遲線決結論確認選達風險隱來頸誤敗斷丟歡愛熱聽討厭習慣願寧興後總請說標計劃夢爭準備學減將報辦負責進須盡聯繫處養畢"
    "業對讀書幾個隻條輛臺們戶歲屬於電話號帳郵體職齡鄉歷點時間為剛見發舉參謝問題沒關係厲嗎這麼誰裡兒樣煩幫給譯開閉薦釋寫畫張記"
    "遠從現應該據編規則還讓機專買當難錯擔與無嚴洩",
    "会议纪录周迟线决结论确认选达风险隐来颈误败断丢欢爱热听讨厌习惯愿宁兴后总请说标计划梦争准备学减将报办负责进须尽联系处养毕"
    "业对读书几个只条辆台们户岁属于电话号账邮体职龄乡历点时间为刚见发举参谢问题没关系厉吗这么谁里儿样烦帮给译开闭荐释写画张记"
    "远从现应该据编规则还让机专买当难错担与无严泄",
)

# The subject of a statement about the world: a few words that point at nothing and ask nothing.
_NAMED = r"^(?!(?:it|that|this|there|these|those|you|what|how|here|who)\b)(?:[\w'-]+ ){1,7}"

# The first that fits names the type; `%NAMED%` stands for `_NAMED`.
_TYPES: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "meeting_note",
        _pattern(
            r"""
            会议纪要|会议记录|纪要[：:]|(?:例会|周会|会议)上
            \bmeeting notes?\b|\bminutes of\b|\bin (?:the|today's|our) (?:meeting|standup|stand-up|sync)\b
            """
        ),
    ),
    (
        "deadline",
        _pattern(
            r"""
            截止|最晚|不晚于|最迟|到期|期限|限期|死线|\bddl\b
            (?:提交|交付|完成|上线|交稿)(?:之前|以前)|前(?:必须|要|得|需)?(?:提交|交付|完成|上线|交)
            \bdeadlines?\b|\bno later than\b|\bexpires?\b
            \b(?:is|are|was|be|being) due\b|\bdue (?:on|by|in|at|date|next|this|to)\b
            \b(?:finish|submit|deliver|hand in|complete|pay)\b.{0,40}\b(?:by|before) (?:the|next|this|[a-z]+day|[0-9])
            """
        ),
    ),
    (
        "decision",
        _pattern(
            r"""
            决定|结论|确认|确定|敲定|选定|拍板|定下来|达成一致
            \bdeci(?:ded|sions?)\b|\bconclu(?:ded|sion)\b|\bconfirmed\b|\bagreed (?:to|on|that)\b
            \bsettled on\b|\bgoing with\b|\b(?:chose|opted)\b|\bmade up (?:my|our) minds?\b
            """
        ),
    ),
    (
        "risk",
        _pattern(
            r"""
            风险|隐患|来不及|卡住|瓶颈
            可能会?(?:延期|延误|失败|超支|中断|丢失)
            \brisks?\b|\brisky\b|\bblockers?\b|\bblocked by\b|\bbottlenecks?\b
            \b(?:might|may|could) (?:fail|slip|break|leak|be late|be delayed|run out)\b
            """
        ),
    ),
    (
        "preference",
        _pattern(
            r"""
            偏好|喜欢|喜爱|热爱|最爱|爱[吃喝看听玩]|讨厌|不要|不[吃喝]|忌口
            习惯|更愿意|宁愿|受不了|感兴趣|(?:以后|今后|每次|总是)[都也请]?(?:用|叫|说|回)
            \bprefer(?:s|red|ences?)?\b|\bfavou?rites?\b|\b(?:likes|loves|enjoys|hates|dislikes)\b|\bcan't stand\b
            \b(?:i|we|they|who|also|really|don't|do not|doesn't|both|always) (?:like|love|enjoy|adore|hate|dislike)\b
            \b(?:fond of|keen on|fan of|obsessed with|hooked on|call me)\b|叫我
            (?:^|[.,] )(?:please |pls )?(?:always|never|do not|don't|from now on,?) [a-z]
            """
        ),
    ),
    (
        "goal",
        _pattern(
            r"""
            目标|打算|计划|立志|梦想|争取|想要?(?:成为|学会|考|减|存)
            希望(?:能|以后|将来|今年|明年)|准备(?:考|报|去|搬)
            \bgoals?\b|\b(?:aim|plan|intend|hope|aiming|planning|hoping)s? to\b|\b(?:my|our) (?:dream|plan|resolution)\b
            \bwants? to (?:be|become|learn|start|get|run|write|build|open|move)\b
            \b(?:training|saving|studying|applying) for\b
            \b(?:i'm|i am|we're|we are) going to\b|\bgonna\b|\bplanning (?:on|an?|my|our)\b
            """
        ),
    ),
    (
        "action",
        _pattern(
            r"""
            待办|跟进|(?:需要|必须|得)(?:去|把|先|尽快|联系|准备|处理|更新)
            \bto-?do\b|\baction items?\b|\bfollow(?:ing)? up\b|\bassigned to\b
            \b(?:i|we|he|she|they) (?:needs? to|ha(?:ve|s) to|must|should) (?:call|email|send|fix|contact|buy)\b
            """
        ),
    ),
    (
        "fact",
        _pattern(
            r"""
            我(?:叫|姓|是|住|家在|来自|今年|养|毕业|出生|对|用|每[天周])
            我在[^，。]{1,12}(?:工作|上班|上学|读书)|有[一二两兩三四五六七八九十0-9几]+[个只位名条辆套台]
            (?:我|们|公司|用户|[他她它其的])[^，。！？不]{0,12}(?:是(?![否不很非])|叫|住|姓|岁|来自|属于|位于)
            (?:名字|生日|电话|地址|账号|尾号|邮箱|身高|体重)[^，。]{0,4}[是为在：:]
            (?:职业|年龄|家乡|爱好|学历|地点|时间)[^，。]{0,4}[是为在：:]
            ^(?![你您这那它哪谁什怎今昨明])[^，。！？]{2,12}(?:是(?![否不很非])|为|在|用的|设在)[^，。！？吗呢]{2,}
            ^(?![你您这那它哪谁什怎今昨明])[^，。！？]{2,12}(?:负责|想要|需要|定在|搬到|改到)[^，。！？吗呢]{2,}
            ^[^，。！？你您]{2,10}(?:上午|下午|晚上|早上|中午|周[一二三四五六日天])[^，。！？吗呢]{0,4}(?:点|开始|结束|见|交)
            \b(?:i am|i'm) (?:an?|the|from|in|at|[0-9]|allergic|vegan|vegetarian|married|single|divorced|based|born)\b
            \b(?:i|we)'ve got\b
            \bi (?:lived?|work(?:ed)?|stud(?:y|ied)|teach|own|have|had|speak|come from|grew up|was born|graduated)\b
            \bi (?:use|used to|usually|switched|moved|started|play|run)\b
            \b(?:my|our|his|her|their|its|[a-z]+'s)(?: [\w-]+){1,4} (?:is|are|was|were|has|lives?|works?|costs?|ends?)\b
            \b(?:he|she|they|it|we|user|account|project|budget|server|version)(?: [\w-]+){0,3} (?:is|are|was|has|have)\b
            \b(?:he|she|they|we|user)(?: [\w-]+){0,2} (?:lives?|works?|uses?|runs?|owns?|studies|moved)\b
            %NAMED%(?:is|are) (?:now |still )?(?:on|at|in|from|[0-9$€£])
            %NAMED%(?:is|are) (?:called|named|located|based|allergic|scheduled)\b
            %NAMED%(?:wants|needs|uses|runs|owns|lives|works|likes)\b
            %NAMED%(?:starts|costs|ends|moved (?:to|from))\b
            \bresponsible for\b|\bin charge of\b
            """
        ),
    ),
    (
        "event",
        _pattern(
            r"""
            昨[天晚日]|前天|刚才|刚刚|今[天早晚]|明天|后天|[上下]个?[周月]|去年|周末|星期|将要
            参加|举行|去了|见了|发生|[0-9一二三四五六七八九十]月[0-9一二三四五六七八九十]{1,3}[日号]
            \b(?:yesterday|today|tomorrow|tonight|recently)\b
            \b(?:last|next|this) (?:night|week|weekend|month|year|morning|[a-z]+day)\b
            \b(?:i|we)(?:'ve| have) (?:just |finally |already )?(?!been\b|got\b)[a-z]{2,}(?:ed|en|ght|pt|ne|de)\b
            \b(?:days?|weeks?|months?|years?) ago\b
            \b(?:i|we|he|she|they) (?:just |finally )?(?:went|met|visited|attended|joined)\b
            \b(?:i|we|he|she|they) (?:just |finally )?(?:got|bought|won|lost|finished|saw|took|made|found|gave|ran)\b
            """
        ),
    ),
)

_PREFERENCE = dict(_TYPES)["preference"]
_DECISION = dict(_TYPES)["decision"]
_FACT_LIKE = frozenset({"fact", "deadline", "goal", "decision", "risk"})
_FACT_IF_SPECIFIC = frozenset({"event", "action", "meeting_note"})
_TRUSTED: tuple[Source, ...] = ("user", "system")
_UNTRUSTED_CAP = 0.6  # what was read or generated is never more important than the least that is kept

# Read one after the other and never back, longer forms before their beginnings.
_PLEASANTRY_ZH = _pattern(
    r"""
    谢谢[你您]?|[多感]谢|辛苦了?|[你您]好|早上好|早安|晚上好|晚安|再见|拜拜|收到|我?(?:明白|知道|了解)
    没问题|不客气|没事|没关系|太好|太棒|真[好棒]|加油|不错|厉害|在吗|可以|原来如此
    [嗯哦噢好早哈嘿呵对是行哇喔了的啦呀啊吧呢]
    """
)
_PLEASANTRY_EN = _pattern(
    r"""
    (?:thank you|thanks|thx)(?: (?:so|very) much| a lot| again)?|hi there|hi|hello|hey there|hey|okay|ok|got it
    sounds (?:good|great)|no (?:problem|worries)|you're welcome|(?:good)?bye|see (?:you|ya)(?: later| soon)?|take care
    talk (?:to you )?(?:later|soon)|well done|nice to meet you
    good (?:morning|night|evening|afternoon|luck|idea|point|job)
    how are you(?: doing)?(?: today)?|have (?:fun|a (?:nice|great|good|lovely) (?:day|one|weekend|evening|night))
    (?:so )?(?:glad|happy) to hear (?:that|it)|i (?:see|agree)|(?:me|you) too|same here|of course|for sure|my pleasure
    that(?:'s| is| sounds) (?:so |really |very )?(?:great|cool|nice|awesome|amazing|good|true|right|wonderful)
    al+ ?right|lo+l|(?:ha){2,9}|hm+|aw+|oh|ah|yes|yeah|yep|yup|no|nope|sure|great|cool|nice|right|awesome|wow|amazing
    perfect|congrat(?:ulation)?s|exactly|absolutely|definitely|welcome|and|so|really|very
    """
)
_PLEASANTRY = re.compile(
    rf"[\s,，、~～:：\"”’)）-]*(?:{_PLEASANTRY_ZH.pattern}|(?:{_PLEASANTRY_EN.pattern})(?![a-z'0-9]))"
)
_CALLED = re.compile(r"[\s,，、~～]*+(?:[^\W\d_]{1,15})?[\s~～]*$")
_ONE_WORD = re.compile(r"[a-z]{2,15}$")

_SENTENCE = re.compile(r"([。！？!?…\n]+|\.(?=\s|$))")
_CLAUSE = re.compile(r"[，,；;]+(?![0-9])")
_QUESTION = _pattern(
    r"""
    ^(?:请问|想?问一下|为什么|怎[么样]|什么|[哪谁]|几点|多少|如何|有没有|能不能|是不是|可不可以|要不要)
    ^(?!.*[不没都也忘道]).{0,12}(?:什么|哪[里儿个]|谁|多少|几点|怎么).{0,6}$
    (?:什么|哪[里儿]|谁|多少|几点|怎么样|怎么办|[吗么])[啊呀呢]?$|^[你您][^，。]{0,4}呢$
    ^(?:(?:so|and|but|oh|hey) )?(?:what|how|where|who|why|which)(?:'s| (?:is|are|do|does|did|can|should|was|about))\b
    ^(?:(?:so|and|but|oh|hey) )?(?:do|does|did|is|are|can|could|would|will|should)(?:n't)? (?:you|i|we|they|it|there)\b
    ^(?:i was wondering|i wonder|any (?:idea|tips|advice|suggestions))\b
    """
)
# A sentence that opens so is one question to its end.
_OPENS_QUESTION = re.compile(
    "^(?:如果|要是|假如|请问|为什么|怎么)"
    r"|^(?:if|when|what|how|where|who|why|which|do|does|did|is|are|can|could|would|will|should)\b"
)
_OBJECT = r"(?:me|us|an?|the|this|that|it|my|for|some|what|how|all|on|off|up|out)\b"
_COMMAND = _pattern(
    rf"""
    ^(?:请|麻烦)?[你您]?[帮给替](?:我(?!的)|忙|咱|一下)(?!.*了)|^(?:请(?![问假客教]|别|不要|叫我|始终|总是)|麻烦(?!的))
    ^(?:查|搜索?|找|翻译|播?放|打开|关[闭掉]|总结|推荐|生成|解释|列出|计算|写|画)(?:一?下|一?[个首篇段张]|几|[今明]天)
    ^(?:hey,? |ok,? )?(?:please|pls),? (?!(?:call me|don't|do not|never|always|stop [a-z]+ing)\b)[a-z]
    ^(?:hey,? |please )?(?:can|could|would|will) you\b
    ^(?:check|search|look up|find|show|tell|give|open|close|play|translate|summari[sz]e|write|draft|calculate) {_OBJECT}
    ^(?:explain|list|set|turn|book|order|send|remind|recommend|help|convert|compare|create|generate|make) {_OBJECT}
    """
)
# A wish that is meant to last is no one-off command.
_LASTING = _pattern(
    r"""
    记住|记得我|以后|今后|从现在起|每次|总是|一直|永远|始终
    \bremember (?:that|my|i|we|this)\b|\bfrom now on\b|\balways\b|\bnever\b|\bevery time\b|\bgoing forward\b
    """
)
_HAN_NUMBER = "[一二三四五六七八九十]"
_SPECIFIC = re.compile(rf"[0-9]+|(?<!{_HAN_NUMBER}){_HAN_NUMBER}+[月日号点岁年]|[《「“]|(?<=[a-z,] )[A-Z][a-z]+")
_FIRST_PERSON = re.compile(r"[我咱]|\b(?:i|i'm|i've|i'd|i'll|my|mine|we|we're|we've|our|ours)\b")
_LISTENER = re.compile(r"[你您]|建议|\b(?:you|you're|you've|your|yours)\b")

_ECHO_START = re.compile(
    r"\s*(?:<\|im_start\|>|\[INST\]|<<SYS>>|<system>|#+ ?(?:system|instructions?)\b|system(?: prompt)?\s*[:：]"
    r"|you are (?:an? |the )?(?:[\w-]+,? ){0,6}(?:assistant|ai|agent|chatbot|bot|language model|system|expert)\b"
    r"|act as (?:an? |the )|你(?:现在)?(?:是|将?扮演)[^，。,.\n]{0,24}(?:助手|助理|机器人|模型|专家|AI))",
    re.IGNORECASE,
)
_ECHO_MARK = re.compile(
    r"\s*(?:<\|im_start\|>|\[INST\]|<<SYS>>|you are a helpful,?(?: [\w-]+,?){0,3} assistant\b)", re.IGNORECASE
)
_ECHO_ORDERS = _pattern(
    r"""
    你(?:需要|必须|应该|的任务|的职责)|请(?:根据|根据|按照|遵守|遵循|严格|用)
    不要(?:编造|回答|泄露)|规则[:：]
    \byou (?:must|should|will|need to|can only)\b|\byour (?:task|role|job|goal)\b
    \b(?:respond|reply|answer) (?:in|with|only|to|the|using)\b
    \b(?:do not|never) (?:reveal|invent|make up|mention|answer|include)\b
    \b(?:instructions|guidelines|rules)\s*:|\{\{?\w+\}?\}|\bjson\b
    """
)


def assess(text: str, settings: WriteSettings, *, type: str | None = None, source: Source = "user") -> Assessment:
    """Type, importance and, where it should stay mere dialogue, the reason; a given `type` is kept."""
    statement, dropped = _statement(text)
    named = type or type_of(statement or text)
    importance = _importance(statement or text, named, settings, source)
    if not statement:
        return Assessment(named, importance, dropped or RefusalReason.LOW_IMPORTANCE)
    if importance < settings.write_threshold:
        scrap = dropped is not None and _size(_plain(statement)) < _SCRAP_SIZE
        return Assessment(named, importance, dropped if scrap else RefusalReason.LOW_IMPORTANCE)
    return Assessment(named, importance, None)


_SCRAP_SIZE = 8  # less than four words: beside a question or thanks it states nothing of its own


def type_of(statement: str) -> str:
    """The type of a statement by the first rule that fits; `dialogue` where none does."""
    plain = _plain(statement)
    return next((name for name, pattern in _TYPES if pattern.search(plain)), "dialogue")


def hard_refusal(text: str, *, max_chars: int) -> RefusalReason | None:
    """Why not even an explicit `remember` takes `text`; None where it may."""
    if not text.strip():
        return RefusalReason.BLANK
    if len(text) > max_chars:
        return RefusalReason.TOO_LONG
    if is_injected(text):
        return RefusalReason.INJECTED
    return RefusalReason.PROMPT_ECHO if _is_prompt_echo(text) else None


def turn_importance(text: str, *, role: Role, settings: WriteSettings) -> float:
    """How much a turn tells about who speaks, 0 to 1: a graded mark, for ranking all turns of a dialogue.

    Only what users say counts. It grows with the content words and what is specific, in the first person and of a
    known type; what is asked, wished or said out of courtesy tells nothing.
    """
    if role != "user":
        return 0.0
    statement, _ = _statement(text[: settings.max_chars])
    if not statement:
        return 0.05
    terms = {term for term in index_terms(statement) if not term.startswith("1:")}
    # Two characters of an unspaced script are one pair and about half a word.
    richness = 1 - math.exp(-sum(0.5 if _UNSPACED.match(term) else 1.0 for term in terms) / 8)
    score = 0.5 * richness + 0.2 * min(1.0, len(_SPECIFIC.findall(statement)) / 3)
    score += 0.2 * (type_of(statement) != "dialogue") + 0.1 * bool(_FIRST_PERSON.search(_plain(statement)))
    return score * (0.6 if _LISTENER.search(_plain(text)) else 1.0)


def _importance(statement: str, type: str, settings: WriteSettings, source: Source) -> float:
    plain, trusted = _plain(statement), source in _TRUSTED
    score = settings.base_importance
    if type in _FACT_LIKE or (type in _FACT_IF_SPECIFIC and _SPECIFIC.search(statement)):
        score += settings.fact_bonus
    if trusted and (type == "preference" or _PREFERENCE.search(plain)):
        score += settings.preference_bonus
    if _DECISION.search(plain):
        score += settings.decision_bonus
    if _size(plain) < settings.short_chars:
        score -= settings.short_penalty
    return min(max(score, 0.0), 1.0 if trusted else _UNTRUSTED_CAP)


def _size(plain: str) -> int:
    """Characters of unspaced scripts and twice the other words: four of the one say as much as two of the other."""
    unspaced = len(_UNSPACED.findall(plain))
    return unspaced + 2 * len(_OTHER_WORD.findall(plain))


_UNSPACED = re.compile(f"[{EAST_ASIAN}]")
_OTHER_WORD = re.compile(f"[^\\W_{EAST_ASIAN}]+")


def _plain(text: str) -> str:
    return normalise(text).translate(_SIMPLIFIED).replace("’", "'").strip()


def _statement(text: str) -> tuple[str, RefusalReason | None]:
    """What `text` states, without its small talk, commands and questions; and the weightiest of what was dropped."""
    kept: list[str] = []
    dropped: set[RefusalReason] = set()
    parts = _SENTENCE.split(text)
    for sentence, end in zip(parts[::2], [*parts[1::2], ""], strict=True):
        clauses, reasons = _stated(sentence, asks="?" in end or "？" in end)
        kept += [",".join(clauses)] if clauses else []
        dropped |= reasons
    order = (RefusalReason.COMMAND, RefusalReason.QUESTION, RefusalReason.SMALL_TALK)
    return ". ".join(kept).strip(), next((reason for reason in order if reason in dropped), None)


def _stated(sentence: str, *, asks: bool) -> tuple[list[str], set[RefusalReason]]:
    plain = _plain(sentence)
    if not plain:
        return [], {RefusalReason.QUESTION} if asks else set()
    if asks and _OPENS_QUESTION.search(plain) and not _is_command(plain):
        return [], {RefusalReason.QUESTION}
    clauses = [clause for clause in _CLAUSE.split(sentence) if clause.strip()]
    kept: list[str] = []
    dropped: set[RefusalReason] = set()
    for place, clause in enumerate(clauses):
        plain = _plain(clause)
        # "Thanks, Caroline": the name only says to whom.
        called = not kept and RefusalReason.SMALL_TALK in dropped and _ONE_WORD.match(plain)
        if called or _is_small_talk(plain):
            dropped.add(RefusalReason.SMALL_TALK)
        elif _is_command(plain):
            return kept, dropped | {RefusalReason.COMMAND}  # what follows belongs to it
        elif (asks and place == len(clauses) - 1) or _QUESTION.search(plain):
            dropped.add(RefusalReason.QUESTION)
        else:
            kept.append(clause)
    return kept, dropped


def _is_command(plain: str) -> bool:
    return bool(_COMMAND.search(plain)) and not _LASTING.search(plain)


def _is_small_talk(plain: str) -> bool:
    """Whether a clause is pleasantries from end to end, up to a name that they are said to."""
    end, found = 0, False
    while pleasantry := _PLEASANTRY.match(plain, end):
        end, found = pleasantry.end(), True
    return (found and _CALLED.match(plain, end) is not None) or not any(c.isalnum() for c in plain)


def _is_prompt_echo(text: str) -> bool:
    head = _plain(text[:_ECHO_CHARS])
    if _ECHO_MARK.match(head):
        return True
    start = _ECHO_START.match(head)
    return start is not None and _ECHO_ORDERS.search(head, start.end()) is not None


_ECHO_CHARS = 4_000
