"""What a new statement does to an old one: pure rules, Chinese beside English."""

import pytest

from sf_ams_core.rules.judgement import Statement, Verdict, judge


def verdict(new, old):
    return judge(Statement(new, None, "user", "default"), Statement(old, None, "user", "default"))[0]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("The deadline is October 27.", "The deadline is October 30."),
        ("演示日期是10月27日", "演示日期是11月5日"),
        ("My name is Li Guoyu", "My name is Li Guosong"),
        ("我姓李", "我姓黎"),
        ("The standup is at 9am.", "The standup moved to 10am."),
        ("会议下午三点开始", "会议改到下午五点"),
        ("We decided to use PostgreSQL.", "We decided not to use PostgreSQL."),
        ("默认发邮件", "以后不要默认发邮件，改发短信"),
        ("Wilhelm is a citizen of Germany.", "Wilhelm is a citizen of France."),
        ("The budget is 45,000.", "Actually, the budget is 48,000, not 45,000."),
    ],
)
def test_a_change_of_one_value_supersedes(old, new):
    """The same subject with another value retires the old statement."""
    assert verdict(new, old) is Verdict.SUPERSEDES


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Tom is a father", "Tom is a nurse"),
        ("It is fun", "It is great"),
        ("Airplanes are cool", "Airplanes are pretty cool"),
        ("I was in Paris last week", "I was in Rome last week"),
        ("I moved to Berlin", "I moved to Lisbon"),
        ("I started reading a novel set in Rome", "I started reading a novel set in Paris"),
        ("On Monday I decided to learn how a lamp is made", "On Monday I decided to learn how a violin is made"),
        ("Thanks for the tip about the lamp, I ordered it for Friday", "Thanks for the tip about the lamp, I paid it"),
        ("Not a problem, I am glad to help!", "Not a problem at all! We will keep looking."),
        ("I have heard and read a lot about Turin", "Personally I do not read a lot."),
        (
            "The meeting with Jonas about the camera is on Tuesday in Dublin, room 25.",
            "The meeting with Jonas about the passport is on Wednesday in Lyon, room 40.",
        ),
        ("我朋友小明搬到昆明去了，码头旁放着红色的护照。", "我朋友小红搬到厦门去了，地下室放着蓝色的小提琴。"),
        ("I am doing quite well, how are you today?", "I am doing quite well it is a sunny day today"),
        ("他周游世界", "他周末吃夜宵"),
        ("The account ends in 8890 and the plan is gold", "The account ends in 8891 and the plan is blue"),
    ],
)
def test_what_may_both_be_true_stands(old, new):
    """Events, tastes, other people, longer statements and mere talk retire nothing."""
    assert verdict(new, old) is Verdict.STANDS


@pytest.mark.parametrize(
    ("old", "new"),
    [("I like coffee", "i like coffee!"), ("我喜欢　咖啡", "我喜欢咖啡。"), ("Ｏslo 2026", "oslo, 2026")],
)
def test_the_same_words_repeat_however_they_are_written(old, new):
    """Case, width, spaces and punctuation make no other statement."""
    assert verdict(new, old) is Verdict.REPEATS


@pytest.mark.parametrize("hostile", ["moved to " * 2_000, "not " * 4_000, "a," * 8_000, "改到" * 8_000, "is " * 5_000])
def test_hostile_text_is_judged_in_no_time(hostile):
    """A long text is one that says more than one thing, and costs nothing to judge."""
    assert verdict(hostile, hostile + "x") is Verdict.STANDS
    assert verdict(hostile[:500], hostile[1:499]) in Verdict
