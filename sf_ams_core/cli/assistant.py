"""A project assistant by rules, with no knowledge of its own: what it says right, its prompt has told it.

    prompt ──statements with their age──▶ the line that fits the question best ──newest version──▶ answer

It plays the model where none is at hand, so it reads its prompt as a model does: memory block, turns, results of tools.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from ..rules.text import MEMORY_HEADER_EN, MEMORY_HEADER_ZH, MEMORY_TAG, index_terms, language, query_terms, stem
from .protocol import ChatReply, ChatRequest, Message, ToolCall, calls_of, mapping, text_of

# What the assistant knows of projects: words of one meaning, led by the one that stands for all.
_VOCABULARY = """
    demo presentation 演示
    deadline due date 截止日期 截止 期限 日期
    budget money cost 预算 经费 费用
    goal aim purpose 目标 目的
    risk worry danger 风险 隐患
    decision decide choose chose chosen agree 决定 选择 选用 选了 定了
    preference prefer like favourite want 喜欢 偏好 想要 希望
    answer reply 回答 回复
    contact reach sms email text phone 联系 短信 邮件 电话
    customer client 客户
    design designer 设计
    backend 后端
    test tester 测试
    data 数据
    clean 清洗 清理
    database 数据库
    language english chinese 语言 英语 中文
    colour color 颜色
    standup stand-up 站会 晨会
    away holiday leave absent 休假 请假 不在
    responsible owner own lead charge 负责
    approval approve sign 批准 签字 验收
    place venue room office 地点 会议室 办公室
    report 报告 周报
    freeze frozen 冻结
"""
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
_HOUR = r"(?:\d|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|noon|midnight)"
# What a kind of question asks for, and what a line must hold to answer it.
_ANSWERS = tuple(
    (re.compile(asks), re.compile(fits))
    for asks, fits in (
        (
            r"\bwhen\b|\b(?:what|which) (?:time|date|day)\b|什么时候|何时|哪一?[天日]|几[点号月]|[星周]期?几",
            rf"\d{{4}}-\d|\d(?:st|nd|rd|th)? {_MONTH}|\b{_MONTH} \d|january|february|october|november|december"
            r"|(?:mon|tues|wednes|thurs|fri|satur|sun)day|today|tomorrow|tonight"
            rf"|\bat {_HOUR}\b|o'clock|\d ?[ap]m\b|\d:\d"
            r"|[\d一二三四五六七八九十][月日号点]|[周期][一二三四五六日天末]|[今明后][天年]",
        ),
        (r"\bhow (?:much|many)\b|多少|几[个人位次]", rf"\d|\b{_HOUR}\b|dozen|hundred|[一二两三四五六七八九十百千万]"),
        (r"\bwhere\b|哪里|哪儿|什么地方", r"\b(?:in|at|room|office|street|floor)\b|[在室楼厅]"),
    )
)
# Values of which one takes the place of another of its kind.
_VALUE = re.compile(
    rf"(?P<date>\d{{4}}-\d\d-\d\d|\b\d{{1,2}}(?:st|nd|rd|th)? {_MONTH}|\b{_MONTH} \d{{1,2}}\b"
    r"|\d{1,2}月\d{1,2}[日号]?)"
    rf"|(?P<time>\b(?:\d{{1,2}}:\d\d|{_HOUR} o'clock)|[早晚]?[上下]?午?[\d一二三四五六七八九十]{{1,3}}点半?)"
    r"|(?P<weekday>\b(?:mon|tues|wednes|thurs|fri|satur|sun)day|(?:星期|周)[一二三四五六日天])",
    re.IGNORECASE,
)
_QUESTION = re.compile(
    r"^(?:who|whose|what|when|where|which|why|how)\b|什么样?|谁|哪|多少|怎么|为何|何时|是不是|几[点号月个天]"
)
_QUESTION_WORDS = re.compile("|".join([*(asks.pattern for asks, _ in _ANSWERS), _QUESTION.pattern]), re.IGNORECASE)
_TELL = re.compile(r"(?:please |请)?(?:tell me|remind me|告诉我|提醒我)")
_CHANGED = re.compile(
    r"\bactually\b|\b(?:moved|changed|replaced|switched)\b|no longer|from now on|改|换|不再|推迟|提前|更正",
    re.IGNORECASE,
)
_FORMERLY = re.compile(
    r"\boriginal(?:ly)?\b|\bused to\b|\bat first\b|\bpreviously\b|\bearlier\b|原来|原定|原本|本来|之前|以前|最初|当初"
)
_ASIDE = r"(?:(?:please|also|and|ok|okay|so|hey|now|can you|could you|would you)[\s,]+)*(?:请|你|帮我|麻烦|另外|再|，)*"
_WHAT = r"[\s:：,，]*(?:that\b|about\b|关于|一下)?[\s:：,，]*(?P<what>.+)"
# Orders to a tool of the memory, by the words that open them; then its arguments where the schema names none.
_ORDERS = {
    tool: re.compile(f"{_ASIDE}(?:{verbs}){_WHAT}", re.IGNORECASE | re.DOTALL)
    for tool, verbs in (
        (
            "save_memory",
            r"(?:remember|keep in mind|(?:don't|do not) forget|note down)\b|记住|记下|记一下|别忘了|不要忘[了记]",
        ),
        ("forget_memory", r"forget\b|忘掉|忘记|忘了"),
        ("correct_memory", r"correct(?:ion)?\s*[:：]|(?:更正|纠正)(?:一下)?\s*[:：,，]"),
    )
}
_ARGUMENTS = {
    "save_memory": ("content",),
    "recall_memories": ("query",),
    "forget_memory": ("target",),
    "correct_memory": ("target", "new_content"),
}
_FAILED = re.compile(r"\s*(?:error|failed|refused|could not|cannot|错误|失败|无法|拒绝)", re.IGNORECASE)
_MEMORY_LINE = re.compile(r"- \[(?P<id>[^\]]*)\] \((?P<about>[^)]*)\)\s*(?P<words>.*)")
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_LABEL = re.compile(r"(?:summary|摘要)\s*[:：]\s*", re.IGNORECASE)
_SENTENCE_END = re.compile(r"(?<=[.!?;]) |(?<=[。！？；])")
_SAYINGS = {
    "known": ("As far as I know: ", "据我所知："),
    "unknown": ("I don't know yet.", "我还不知道。"),
    "noted": ("Got it.", "好的。"),
    "failed": ("That did not work.", "这次没有成功。"),
    "save_memory": ("Saved, I will remember that.", "已记住。"),
    "forget_memory": ("Done, I have let go of that.", "已忘掉。"),
    "correct_memory": ("Corrected.", "已更正。"),
}
_OWN_WORDS = tuple(saying for pair in _SAYINGS.values() for saying in pair)
_ENOUGH = 0.42  # of what a question names, by weight, a line must hold to answer it


def memory_assistant(request: ChatRequest) -> ChatReply:
    """A project assistant by rules, without any knowledge of its own.

    A question is answered with the line of the prompt (memory block, earlier words of the user, results of tools) that
    fits it best, the newest where lines differ in time. "Remember …", "forget …", "correct: …", and news of a change
    where a memory still tells the old state, call the tool where there is one. What the prompt leaves open is looked up
    with `recall_memories` if that is offered. Anything else is acknowledged.
    """
    asked, lines = _read_prompt(request.messages)
    looked_up = request.messages[-1]["role"] == "tool"
    if looked_up and (report := _report(request.messages, asked)):
        return ChatReply(report)
    if not looked_up and (call := _order(request, asked, lines)):
        return ChatReply(tool_calls=(call,))
    best = _best(asked, lines) if _asks(asked) else None
    if best is None and (call := _news(request, asked, lines)):
        return ChatReply(tool_calls=(call,))
    in_doubt = best is None and (_asks(asked) or _CHANGED.search(asked))
    if in_doubt and not looked_up and request.tool("recall_memories"):
        return ChatReply(tool_calls=(_call(request, "recall_memories", (_in_other_words(asked),)),))
    return ChatReply(_answer(asked, best) if _asks(asked) else _say("noted", asked))


@dataclass(frozen=True, slots=True)
class _Line:
    """A statement of the prompt; `age` sorts from the oldest to the newest, `id` is that of a memory."""

    text: str
    age: tuple[int, str, int]
    id: str = ""


def _read_prompt(messages: Sequence[Message]) -> tuple[str, list[_Line]]:
    """The user's last words, and every statement before them that may serve as evidence."""
    last = max((place for place, message in enumerate(messages) if message["role"] == "user"), default=-1)
    # What a tool of the memory says that it did repeats what is over.
    done = {call.get("id") for message in messages for call in calls_of(message) if _name(call) in _ORDERS}
    asked, lines = "", list[_Line]()
    for place, message in enumerate(messages):
        said, block = _split_block(text_of(message))
        lines += _memory_lines(block)
        if place == last:
            asked = said
        elif message["role"] == "user":
            lines += [_Line(line, (1, "", place)) for line in said.splitlines()]
        elif message["role"] == "tool" and message.get("tool_call_id") not in done:
            lines += _memory_lines(said)
    return asked, [line for line in lines if _is_statement(line.text)]


def _split_block(text: str) -> tuple[str, str]:
    """What was said, and what the library put between its fences."""
    for header in (MEMORY_HEADER_EN, MEMORY_HEADER_ZH):
        text = text.replace(header, "")
    said, *rest = text.split(f"<{MEMORY_TAG}")
    blocks = [part.partition(f"</{MEMORY_TAG}>") for part in rest]
    spoken = "\n".join([said, *(after for _, _, after in blocks)])
    # Frameworks wrap the block in tags of their own, one a line.
    kept = [line for line in spoken.splitlines() if not (line.startswith("<") and line.rstrip().endswith(">"))]
    return "\n".join(kept).strip(), "\n".join(block.partition(">")[2] for block, _, _ in blocks)


def _memory_lines(block: str) -> Iterator[_Line]:
    """The lines of a block without marks and ids. Of one day the first is the newest: successors lead."""
    for place, raw in enumerate(block.splitlines()):
        line = html.unescape(raw.strip())
        if memory := _MEMORY_LINE.match(line):
            day = _DAY.search(memory["about"])
            yield _Line(memory["words"], (0, day[0] if day else "", -place), memory["id"])
        elif line.startswith("- "):
            yield _Line(line[2:], (0, "9999", -place))  # an exact fact is always the present one
        else:
            yield from (_Line(part.strip(), (0, "", -place)) for part in _SENTENCE_END.split(_LABEL.sub("", line)))


def _is_statement(text: str) -> bool:
    return bool(text) and not (_asks(text) or text.startswith(_OWN_WORDS) or _ORDERS["forget_memory"].match(text))


def _asks(text: str) -> bool:
    words = text.strip().lower()
    if words.endswith(("?", "？", "吗")) or "? " in words or _TELL.match(words):
        return True
    return not words.endswith((".", "!", "。", "！")) and bool(_QUESTION.search(words))


def _answer(asked: str, best: _Line | None) -> str:
    if best is None:
        return _say("unknown", asked)
    order = next((order for opening in _ORDERS.values() if (order := opening.match(best.text))), None)
    return _say("known", asked) + (order["what"] if order else best.text)


def _best(asked: str, lines: Sequence[_Line]) -> _Line | None:
    """The line that answers: of versions of one statement the newest, or the oldest if the question looks back."""
    fits = [fits for asks, fits in _ANSWERS if asks.search(asked.lower())]
    wanted = _features(_QUESTION_WORDS.sub(" ", asked))
    if fits and len(wanted) > 1:
        wanted.pop("deadlin", None)  # the kind of answer, not its subject
    scored = [(_share(wanted, line), line) for line in lines if all(fit.search(line.text.lower()) for fit in fits)]
    good = [(score, line) for score, line in scored if score >= _ENOUGH]
    if not good:
        return None
    best = max(good, key=lambda pair: (pair[0], pair[1].age))[1]
    if _FORMERLY.search(asked.lower()):
        return min((line for _, line in good if line is best or _replaces(best, line)), key=lambda line: line.age)
    return max((line for _, line in good if line is best or _replaces(line, best)), key=lambda line: line.age)


def _share(wanted: Mapping[str, int], line: _Line) -> float:
    """How much of `wanted` a line holds, by weight (0 to 1), and up to 0.1 more the less else it holds."""
    held = _features(line.text)
    common = sum(weight for term, weight in wanted.items() if term in held)
    return common / max(sum(wanted.values()), 1) + 0.1 * common / max(sum(held.values()), common, 1)


def _replaces(new: _Line, old: _Line) -> bool:
    """Whether a newer line tells the same thing anew: it speaks of a change, or in almost the same words."""
    if new.age <= old.age:
        return False
    mine, theirs = ({term for term in _features(line.text) if not term[0].isdigit()} for line in (new, old))
    return bool(_CHANGED.search(new.text)) or len(mine & theirs) >= 0.7 * len(mine | theirs)


def _features(text: str) -> dict[str, int]:
    """The terms of a text with their weights: words of the trade 3, common words 2, names, numbers and pairs 1."""
    pattern, meanings = _vocabulary()
    plain = pattern.sub(lambda word: f" {known} " if (known := meanings.get(stem(word[0]))) else word[0], text.lower())
    names = {stem(name.lower()) for name in re.findall(r"\b[A-Z]\w+", text)}
    trade = set(meanings.values())

    def weight(term: str) -> int:
        if term in trade:
            return 3
        return 1 if term in names or not term.isascii() or term[0].isdigit() else 2

    filed = set(index_terms(plain))  # stop words, which a question of nothing else falls back on, are not filed
    return {term: weight(term) for term in query_terms(plain) if term in filed}


@cache
def _vocabulary() -> tuple[re.Pattern[str], Mapping[str, str]]:
    rows = [row.split() for row in _VOCABULARY.split("\n") if row.strip()]
    meanings = {stem(word): stem(row[0]) for row in rows for word in row}
    literal = sorted((word for word in meanings if not stem(word).isascii() or "-" in word), key=len, reverse=True)
    return re.compile("|".join([*literal, "[a-z]+"])), meanings


def _order(request: ChatRequest, asked: str, lines: Sequence[_Line]) -> ToolCall | None:
    """The call of the tool that the user's words order; what they mean goes by its id where the prompt shows it."""
    for name, opening in _ORDERS.items():
        order = opening.match(asked)
        if order is None or request.tool(name) is None:
            continue
        what = order["what"].strip(" .。!！")
        if not _features(what) or _asks(order["what"]):
            continue
        if name == "save_memory":
            call = _call(request, name, (what,))
            # What somebody asks to be remembered is no trifle.
            rated = {"importance": 0.8} if "importance" in _properties(request, name) else {}
            return ToolCall(name, {**call.arguments, **rated})
        meant = _best(what, [line for line in lines if line.id] or lines)
        target = (meant.id or meant.text) if meant else what
        return _call(request, name, (target, what) if name == "correct_memory" else (target,))
    return None


def _news(request: ChatRequest, asked: str, lines: Sequence[_Line]) -> ToolCall | None:
    """The correction of the memory that a change makes untrue, where the prompt still shows it."""
    if request.tool("correct_memory") is None or _asks(asked) or not _CHANGED.search(asked):
        return None
    told = _CHANGED.sub(" ", asked)
    fits = [fits for _, fits in _ANSWERS if fits.search(told.lower())]  # a date is replaced by a date
    subject = _features(_VALUE.sub(" ", told))
    old = [line for line in lines if line.id and all(fit.search(line.text.lower()) for fit in fits)]
    old = [line for line in old if asked.strip() not in line.text]
    best = max(old, key=lambda line: (_share(subject, line), line.age), default=None)
    if best is None or _share(subject, best) < _ENOUGH:
        return None
    return _call(request, "correct_memory", (best.id, _restated(best.text, told) or asked.strip()))


def _restated(old: str, news: str) -> str | None:
    """The old statement with the date or time that the news ends on; None where they do not both have one."""
    new = {match.lastgroup: match[0] for match in _VALUE.finditer(news)}
    value = next((match for match in _VALUE.finditer(old) if match.lastgroup in new), None)
    return old[: value.start()] + new[value.lastgroup] + old[value.end() :] if value else None


def _call(request: ChatRequest, name: str, values: tuple[str, ...]) -> ToolCall:
    """A call with `values` under the names that the tool's schema requires, in its order, as a model reads them."""
    required = mapping((request.tool(name) or {}).get("parameters")).get("required")
    offered = required if isinstance(required, list) else [*_properties(request, name)]
    names = [str(argument) for argument in offered] if len(offered) >= len(values) else _ARGUMENTS[name]
    return ToolCall(name, dict(zip(names, values, strict=False)))


def _properties(request: ChatRequest, name: str) -> Message:
    return mapping(mapping((request.tool(name) or {}).get("parameters")).get("properties"))


def _in_other_words(asked: str) -> str:
    """A question with the words of the trade that mean the same, in both languages."""
    terms = {*query_terms(asked), *_features(asked)}
    rows = (row.split() for row in _VOCABULARY.split("\n"))
    same = [word for row in rows if any(stem(word) in terms or word in asked for word in row) for word in row]
    return " ".join([asked, *(word for word in same if word not in asked.lower())])


def _report(messages: Sequence[Message], asked: str) -> str | None:
    """What to say of the tools that ran: that an order was carried out or that one failed; None of a mere look-up."""
    place = max(place for place, message in enumerate(messages) if message["role"] == "assistant")
    if any(_FAILED.match(text_of(result)) for result in messages[place + 1 :]):
        return _say("failed", asked)
    done = next((name for call in calls_of(messages[place]) if (name := _name(call)) in _ORDERS), None)
    return _say(done, asked) if done else None


def _name(call: Message) -> str:
    return str(mapping(call.get("function")).get("name"))


def _say(what: str, to: str) -> str:
    english, chinese = _SAYINGS[what]
    return chinese if language(to) == "zh" else english
