"""Two weeks of a project, told to an assistant in everyday words, English and Chinese.

Deadlines move, numbers are corrected, people come and go, and most of what is said matters little. `STORY` is told in
nine sessions; `SEQUEL` carries on over the same database, in another framework, and asks about what was said before.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["say", "ask", "correct", "forget", "chat"]


@dataclass(frozen=True, slots=True)
class Beat:
    """One thing the user says on a day of the project (the first is 1), in a session.

    An answer to an `ask` holds every string of `expect` and none of `avoid`; `a|b` stands for either.
    """

    day: int
    session: str
    lang: Literal["en", "zh"]
    kind: Kind
    text: str
    expect: tuple[str, ...] = ()
    avoid: tuple[str, ...] = ()

    @property
    def trifle(self) -> bool:
        """Whether nothing depends on it: small talk, and the news of a stand-up."""
        return self.kind == "chat" or self.text.startswith("Stand-up:")

    def accepts(self, answer: str) -> bool:
        """Whether an answer says what it must and nothing that is out of date; case does not matter."""
        said = answer.casefold()
        return all(_holds(said, wanted) for wanted in self.expect) and not any(_holds(said, old) for old in self.avoid)


def _holds(said: str, alternatives: str) -> bool:
    return any(words.casefold() in said for words in alternatives.split("|"))


FIRST_DAY = date(2026, 10, 12)  # a Monday
FORGET_BEFORE = "last-week"  # the session in whose night before the memory is cleaned up
ERASED = "王磊"  # who leaves in the end and asks to be erased
_UNKNOWN = "don't know|不知道"
_OLD_DEMO = "27 October|October 27|10月27"
_NEW_DEMO = "1 November|November 1|11月1"

STORY: tuple[Beat, ...] = (
    # The first day: who, what, until when.
    Beat(1, "kickoff", "en", "chat", "Hi there, nice to meet you!"),
    Beat(1, "kickoff", "en", "say", "I run a project called Stellar AI; my Chinese colleagues say 星辰AI."),
    Beat(
        1, "kickoff", "en", "say", "The goal of Stellar AI is to let shop managers ask about sales in plain language."
    ),
    Beat(1, "kickoff", "en", "say", "The final demo of Stellar AI is due on 27 October."),
    Beat(1, "kickoff", "en", "say", "Our customer is Halvorsen Foods, and Ingrid Halvorsen signs off on the result."),
    Beat(1, "kickoff", "en", "say", "The budget for the whole project is 45,000 euros."),
    Beat(1, "kickoff", "en", "say", "Maya does the design."),
    Beat(1, "kickoff", "zh", "say", "后端由托马斯负责。"),
    Beat(1, "kickoff", "en", "say", "I prefer short answers, two sentences at most."),
    Beat(1, "kickoff", "en", "ask", "When is the final demo of Stellar AI due?", ("27 October",)),
    # Stand-ups: many trifles, a few things that last.
    Beat(2, "second-day", "en", "chat", "Morning! I need a coffee first."),
    Beat(2, "second-day", "en", "say", "Stand-up: Tomas fixed the login page, Maya is drawing icons."),
    Beat(2, "second-day", "zh", "say", "王磊做数据清洗，他每周三不在办公室。"),
    Beat(2, "second-day", "zh", "say", "我们的站会每天早上九点半开。"),
    Beat(2, "second-day", "en", "say", "Decision: we use PostgreSQL as our database, because the reports need joins."),
    Beat(2, "second-day", "zh", "chat", "今天食堂的面条不错。"),
    Beat(2, "second-day", "zh", "ask", "谁做数据清洗？", ("王磊",)),
    Beat(3, "risks", "en", "say", "The biggest risk is that the sales figures from Halvorsen arrive late."),
    Beat(3, "risks", "zh", "say", "还有一个风险：店里太吵，语音识别不准。"),
    Beat(3, "risks", "en", "say", "Please don't email me, send me an SMS instead."),
    Beat(3, "risks", "en", "say", "Stand-up: Tomas waits for a review, nothing else happened."),
    Beat(3, "risks", "en", "chat", "My tea went cold again."),
    Beat(3, "risks", "en", "ask", "What is the budget of the project?", ("45,000",)),
    Beat(3, "risks", "en", "chat", "Thanks, that helps."),
    # The first correction, and something that should not have been said.
    Beat(4, "second-look", "en", "say", "Stand-up: Maya finished the icons, Tomas works from home with a cold."),
    Beat(4, "second-look", "en", "correct", "Actually the budget is 48,000 euros, not 45,000."),
    Beat(4, "second-look", "en", "say", "Between us, there will be a surprise party for Maya on Friday at six."),
    Beat(4, "second-look", "zh", "say", "客户希望界面的颜色是深蓝色。"),
    Beat(4, "second-look", "en", "ask", "How much is our budget now?", ("48,000",), ("is 45,000",)),
    Beat(4, "second-look", "zh", "ask", "客户喜欢什么颜色的界面？", ("深蓝",)),
    Beat(5, "friday", "en", "forget", "Forget the surprise party for Maya, I should not have told you."),
    Beat(5, "friday", "en", "say", "Stand-up: all tests are green, Tomas is back."),
    Beat(5, "friday", "zh", "say", "李娜下周一来，她做测试。"),
    Beat(5, "friday", "en", "say", "Remember that the staging server restarts every night at two."),
    Beat(5, "friday", "en", "ask", "What party is there for Maya on Friday?", (_UNKNOWN,), ("surprise",)),
    Beat(5, "friday", "en", "ask", "When does the staging server restart?", ("two",)),
    Beat(5, "friday", "en", "chat", "Have a nice weekend!"),
    # The second week: the plan moves.
    Beat(8, "replanning", "zh", "chat", "早上好，周末过得真快。"),
    Beat(8, "replanning", "zh", "correct", "演示日期改到11月1日了。"),
    Beat(8, "replanning", "en", "say", "Ingrid wants to see the demo in the Oslo office, in the room called Fjord."),
    Beat(8, "replanning", "en", "say", "Stand-up: Li Na set up her laptop."),
    Beat(8, "replanning", "en", "ask", "When is the demo?", (_NEW_DEMO,), (_OLD_DEMO,)),
    Beat(8, "replanning", "zh", "ask", "我希望你的回答是什么样的？", ("short answers|简短",)),
    Beat(10, "midweek", "en", "say", "Stand-up: Tomas deployed build 41, all quiet."),
    Beat(10, "midweek", "en", "say", "Maya is on holiday for two weeks, so Jonas covers the design."),
    Beat(10, "midweek", "zh", "say", "大家决定第一版只支持英语和中文，不做挪威语。"),
    Beat(10, "midweek", "zh", "chat", "午饭吃了饺子，很好吃。"),
    Beat(10, "midweek", "en", "ask", "Who covers the design while Maya is on holiday?", ("Jonas",)),
    Beat(10, "midweek", "zh", "ask", "我们决定用哪个数据库？", ("PostgreSQL",)),
    Beat(10, "midweek", "en", "correct", "The stand-up has moved to ten o'clock."),
    Beat(10, "midweek", "zh", "correct", "王磊不在办公室的日子从周三改成周四了。"),
    Beat(10, "midweek", "en", "say", "Stand-up: Jonas fixed two typos."),
    Beat(10, "midweek", "en", "chat", "It has been raining all day here."),
    Beat(10, "midweek", "en", "ask", "What time is the stand-up?", ("ten|10|十点",), ("九点半",)),
    Beat(10, "midweek", "zh", "ask", "王磊星期几不在办公室？", ("周四",)),
    Beat(12, "last-week", "en", "say", "We record the demo beforehand, as a backup video."),
    Beat(12, "last-week", "en", "say", "The train tickets to Oslo came to 1,200 euros."),
    Beat(12, "last-week", "en", "say", "Stand-up: build 44 is out, nobody complained."),
    Beat(12, "last-week", "en", "ask", "When is the final demo of Stellar AI due?", (_NEW_DEMO,), (_OLD_DEMO,)),
    Beat(12, "last-week", "en", "ask", "What is the goal of Stellar AI?", ("plain language",)),
    Beat(12, "last-week", "zh", "ask", "预算是多少？", ("48,000",), ("is 45,000",)),
    Beat(14, "eve", "en", "chat", "Nearly there, I am a bit nervous."),
    Beat(14, "eve", "zh", "say", "从今天起代码冻结，只修严重的错误。"),
    Beat(14, "eve", "en", "ask", "How should you contact me?", ("SMS|短信",)),
    Beat(14, "eve", "zh", "ask", "第一版支持哪些语言？", ("英语", "中文")),
    Beat(14, "eve", "en", "ask", "Where will the demo be?", ("Oslo|奥斯陆",)),
    Beat(14, "eve", "en", "ask", "What does Mr Petrov think of the prototype?", (_UNKNOWN,)),
    Beat(14, "eve", "en", "chat", "Good night!"),
)

SEQUEL: tuple[Beat, ...] = (
    Beat(16, "handover", "en", "chat", "Hello again."),
    Beat(16, "handover", "en", "ask", "When is the final demo of Stellar AI due?", (_NEW_DEMO,), (_OLD_DEMO,)),
    Beat(16, "handover", "zh", "ask", "演示在什么地方？", ("Oslo|奥斯陆",)),
    Beat(16, "handover", "en", "ask", "Who signs off on the result?", ("Ingrid",)),
    Beat(16, "handover", "zh", "ask", "谁负责后端？", ("托马斯|Tomas",)),
    Beat(16, "handover", "en", "ask", "How much is our budget?", ("48,000",), ("is 45,000",)),
    Beat(16, "handover", "en", "say", "Stand-up: everybody rehearsed, Li Na found one last bug."),
    Beat(17, "news", "en", "correct", "Ingrid no longer signs off on the result, Olav Berg does."),
    Beat(17, "news", "zh", "say", "客户打算明年二月上线第一家店。"),
    Beat(17, "news", "en", "ask", "Who signs off on the result?", ("Olav",)),
    Beat(17, "news", "zh", "ask", "站会几点开？", ("ten|十点|10",), ("九点半",)),
    Beat(18, "looking-back", "zh", "ask", "客户什么时候上线第一家店？", ("二月",)),
    Beat(18, "looking-back", "en", "ask", "When was the demo originally due?", ("27 October",)),
    Beat(18, "looking-back", "en", "ask", "What is the biggest risk?", ("Halvorsen",)),
    Beat(18, "looking-back", "en", "ask", "What party is there for Maya?", (_UNKNOWN,), ("surprise",)),
    Beat(18, "looking-back", "en", "chat", "Thanks for everything."),
)
