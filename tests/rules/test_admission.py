"""What is promoted, as what, how important it is, and what is turned away."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sf_ams_core.rules.admission import assess, hard_refusal, turn_importance
from sf_ams_core.rules.text import MEMORY_HEADER_EN, MEMORY_HEADER_ZH, MEMORY_TAG
from sf_ams_core.settings import WriteSettings
from sf_ams_core.types import MEMORY_TYPES, RefusalReason

SETTINGS = WriteSettings()


@pytest.mark.parametrize(
    ("type", "chinese", "english"),
    [
        ("fact", "我住在青岛", "I live in Porto"),
        ("fact", "我妹妹的生日是五月七日", "My sister's birthday is in May"),
        ("fact", "用戶結算帳號尾號為8890", "The user account is registered in Norway"),
        ("preference", "我不喜歡香菜", "I really hate coriander"),
        ("preference", "以后都用中文回复", "Always reply in Dutch"),
        ("goal", "我打算明年考驾照", "I'm training for a triathlon"),
        ("decision", "我们最终敲定用蓝色方案", "We settled on the blue design"),
        ("deadline", "合同周五前必须提交", "The contract is due on Friday"),
        ("risk", "供应商可能会延期", "The supplier might be late"),
        ("meeting_note", "會議紀要：預算追加十萬", "Meeting notes: budget raised by 10k"),
        ("action", "小王跟进物流", "Kim is following up on shipping"),
        ("fact", "小王负责物流", "Kim is responsible for shipping"),
        ("fact", "预算是45000元", "The budget of the project is 45,000"),
        ("fact", "客户想要红色主题", "The client wants a red theme"),
        ("preference", "叫我小丹就行", "Please call me Dan"),
        ("event", "我昨天去了植物园", "I visited the botanical garden yesterday"),
        ("dialogue", "风很大，树叶沙沙响", "Leaves rustling and a bit of wind"),
    ],
)
def test_the_type_is_read_from_the_words(type: str, chinese: str, english: str) -> None:
    """Each type has its signs in Chinese, either way of writing, and in English."""
    assert [assess(text, SETTINGS).type for text in (chinese, english)] == [type, type]


def test_a_given_type_is_kept() -> None:
    """The caller knows better."""
    assert assess("我住在青岛", SETTINGS, type="state").type == "state"


@pytest.mark.parametrize(
    ("text", "type", "importance"),
    [
        ("结算账号尾号为8890", "fact", 0.8),
        ("用户偏好深色模式", "dialogue", 0.8),
        ("用户喜欢咖啡", "fact", 1.0),
        ("结论是采用方案二", "dialogue", 0.7),
        ("一些普通的话语", "dialogue", 0.5),
        ("蓝色", "dialogue", 0.2),
        ("blue", "dialogue", 0.2),
        ("some ordinary words", "dialogue", 0.5),
        ("she prefers tea", "dialogue", 0.8),
    ],
)
def test_importance_follows_the_rule_function(text: str, type: str, importance: float) -> None:
    """Base, fact, preference, decision and fragment add up as in the seed, in both languages."""
    assert assess(text, SETTINGS, type=type).importance == pytest.approx(importance)


@pytest.mark.parametrize("source", ["assistant", "tool", "document"])
def test_what_was_not_said_by_the_user_is_never_very_important(source: str) -> None:
    """Generated and read text gets no bonus for preferences and stays at or below 0.6."""
    assert assess("I prefer BrandX and decided on it", SETTINGS, source=source).importance <= 0.6  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("reason", "texts"),
    [
        (
            "small_talk",
            ["好的", "谢谢！", "嗯嗯，我知道了", "哈哈哈", "thanks, Maria!", "Sounds good, see you later", "ok", "😀"],
        ),
        (
            "command",
            [
                "帮我查下今天的天气",
                "翻譯一下這段話",
                "请总结",
                "check the weather",
                "Can you book a table?",
                "please stop",
            ],
        ),
        (
            "question",
            [
                "我叫什么名字",
                "你喜歡狗嗎？",
                "如果下雨，我们还去吗？",
                "What is my name",
                "Do you know Ann?",
                "If so, why?",
            ],
        ),
        ("low_importance", ["蓝色", "外面下着小雨", "blue", "just some clouds over the bay"]),
    ],
)
def test_what_is_not_worth_promoting_is_told_apart(reason: str, texts: list[str]) -> None:
    """Courtesies, one-off commands, questions and trifles are refused by name."""
    assert {text: str(assess(text, SETTINGS).reason) for text in texts} == dict.fromkeys(texts, reason)


@pytest.mark.parametrize(
    "text",
    [
        "我喜欢摄影，你呢？",
        "谢谢！我住在青岛。",
        "I'm allergic to nuts, can you suggest a snack?",
        "Thanks! My brother lives in Oslo.",
        "请记住我对花生过敏",
        "please always answer in Dutch",
        "请假三天是我的决定",
    ],
)
def test_a_statement_survives_its_company(text: str) -> None:
    """Thanks and questions around a statement do not sink it, and a lasting wish is no command."""
    assert assess(text, SETTINGS).reason is None


def test_the_threshold_is_a_setting() -> None:
    """A lower bar lets the plain statement in."""
    assert assess("外面下着小雨", WriteSettings(write_threshold=0.5)).reason is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (" \n\t", RefusalReason.BLANK),
        ("x" * 51, RefusalReason.TOO_LONG),
        (f"<{MEMORY_TAG}>", RefusalReason.INJECTED),
        (MEMORY_HEADER_ZH + "…", RefusalReason.INJECTED),
        (MEMORY_HEADER_EN[:50] + "", None),
        ("You are a helpful assistant.", RefusalReason.PROMPT_ECHO),
        ("You are an AI bot. Your task is to greet", RefusalReason.PROMPT_ECHO),
        ("你是一个翻译助手，请用中文回答", RefusalReason.PROMPT_ECHO),
        ("你是我最好的助手", None),
        ("You are a great agent and I admire that", None),
        ("What is my name?", None),
    ],
)
def test_hard_refusals_hold_for_everyone(text: str, reason: RefusalReason | None) -> None:
    """Blank, too long, injected and echoed text is refused even to code; questions are not."""
    assert hard_refusal(text, max_chars=50) == reason


@pytest.mark.parametrize(
    ("rich", "poor"),
    [
        ("我下个月十号要搬到青岛，在海信做测试工程师", "嗯，今天还行吧"),
        ("我每周三晚上七点在奥体中心游泳", "你说得对，谢谢你的建议"),
        ("My daughter Mia starts school in Lyon on 4 September", "Yeah, that's so true!"),
        ("I bought a second-hand cello from Tom for 900 euros", "What do you usually do on weekends?"),
    ],
)
def test_telling_turns_outrank_chatter(rich: str, poor: str) -> None:
    """Names, numbers, plans and facts in the first person count; courtesies and questions do not."""
    marks = [turn_importance(text, role="user", settings=SETTINGS) for text in (rich, poor)]
    assert marks[0] > marks[1] + 0.3


@pytest.mark.parametrize("role", ["assistant", "tool", "system"])
def test_only_the_user_tells_about_the_user(role: str) -> None:
    """Other roles get nothing."""
    assert turn_importance("My daughter starts school", role=role, settings=SETTINGS) == 0.0  # type: ignore[arg-type]


@given(st.text() | st.text(st.sampled_from("我你是吗？,. Iamthe好谢")), st.sampled_from([None, "fact"]))
def test_any_text_is_judged_within_bounds(text: str, type: str | None) -> None:
    """Nothing raises; marks stay between 0 and 1 and types are known ones."""
    assessment = assess(text, SETTINGS, type=type)
    assert 0 <= assessment.importance <= 1
    assert assessment.type in MEMORY_TYPES
    assert 0 <= turn_importance(text, role="user", settings=SETTINGS) <= 1
    hard_refusal(text, max_chars=100)


@pytest.mark.parametrize(
    "unit", ["好", "ha", "my ", "the finish ", "，", "？", "我是", "i've ", "you are a ", "'s a ", "thanks "]
)
def test_hostile_repetition_costs_linear_time(unit: str) -> None:
    """20,000 characters, the longest memory, are judged in a moment."""
    text = (unit * 20_000)[:20_000]
    start = time.perf_counter()
    assess(text, SETTINGS)
    turn_importance(text, role="user", settings=SETTINGS)
    hard_refusal(text, max_chars=30_000)
    assert time.perf_counter() - start < 3
