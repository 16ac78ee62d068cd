"""The assistant by rules: it says what its prompt holds, in the language of the question, and nothing else."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sf_ams_core.cli.assistant import memory_assistant
from sf_ams_core.cli.protocol import ChatReply, ChatRequest, Message, ToolCall
from sf_ams_core.rules.text import MEMORY_HEADER_EN, MEMORY_HEADER_ZH, MEMORY_TAG
from sf_ams_core.types import Json

TOOLS: tuple[Message, ...] = tuple(
    {"type": "function", "function": {"name": name, "parameters": {"required": [*required]}}}
    for name, required in (
        ("save_memory", ("content",)),
        ("recall_memories", ("query",)),
        ("forget_memory", ("what",)),
        ("correct_memory", ("target", "new_content")),
    )
)
DEMO = "- [mem_0123] (deadline, importance 0.9, 2026-01-05, user) The demo is on 1 November."
TEA = "- [mem_0124] (preference, importance 0.8, 2026-01-04, user) Maya likes green tea &amp; cake."
SCHOOL = "- [mem_0200] (fact, importance 0.8, 2026-01-04, user) 我女儿在阳光小学上学。"


def block(*lines: str, header: str = MEMORY_HEADER_EN) -> str:
    return "\n".join([f"<{MEMORY_TAG} v=1>", header, *lines, f"</{MEMORY_TAG}>"])


def ask(question: str, *lines: str, turns: tuple[str, ...] = ()) -> str:
    messages = [{"role": "system", "content": "You help.\n" + block(*lines)}]
    messages += [{"role": "user", "content": turn} for turn in (*turns, question)]
    return memory_assistant(ChatRequest(tuple(messages))).content or ""


def order(text: str, *lines: str, tools: tuple[Message, ...] = TOOLS) -> ChatReply:
    messages: tuple[Message, ...] = (
        {"role": "system", "content": block(*lines)},
        {"role": "user", "content": text},
    )
    return memory_assistant(ChatRequest(messages, tools))


def test_it_answers_from_the_block() -> None:
    """A question is answered with the line that fits, without its id, marks or escapes."""
    assert ask("When is the demo?", DEMO, TEA) == "As far as I know: The demo is on 1 November."
    assert ask("What does Maya like?", DEMO, TEA) == "As far as I know: Maya likes green tea & cake."


def test_it_answers_in_the_language_of_the_question() -> None:
    """A Chinese question gets a Chinese answer, and words of the trade are understood across languages."""
    assert ask("我女儿在哪里上学？", SCHOOL, DEMO) == "据我所知：我女儿在阳光小学上学。"
    assert ask("演示是哪天？", SCHOOL, DEMO) == "据我所知：The demo is on 1 November."


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What is the budget?", "I don't know yet."),
        ("Where is the demo?", "I don't know yet."),
        ("When does Maya drink tea?", "I don't know yet."),
        ("预算是多少？", "我还不知道。"),
        ("谁负责后端？", "我还不知道。"),
    ],
)
def test_it_does_not_make_things_up(question: str, answer: str) -> None:
    """Where no line fits, by subject or by the kind of answer asked for, it says that it does not know."""
    assert ask(question, DEMO, TEA, SCHOOL) == answer


def test_it_hears_the_turns_before() -> None:
    """What the user said earlier in the conversation is as good as a memory; what it said itself is not."""
    assert ask("Who feeds the cat?", turns=("Jonas feeds the cat.",)) == "As far as I know: Jonas feeds the cat."
    own = "- [mem_0300] (dialogue, importance 0.4, 2026-01-09, assistant) As far as I know: The demo is on 27 October."
    assert "1 November" in ask("When is the demo?", own, DEMO)


@pytest.mark.parametrize("news", ["The demo has moved to 5 December.", "演示改到12月5日了。"])
def test_the_newest_version_counts(news: str) -> None:
    """Of two versions of a statement the newer answers, unless the question looks back."""
    turns = (news,)
    assert ask("When is the demo?", DEMO, turns=turns).endswith(news)
    assert "1 November" in ask("When was the demo originally?", DEMO, turns=turns)


def test_facts_and_summaries_are_read() -> None:
    """Exact facts and single sentences of a summary answer too."""
    lines = ("Facts:", "- budget: 48,000 euros", "Summary: Tomas owns the backend. Lunch is at noon.")
    assert ask("How much is the budget?", *lines) == "As far as I know: budget: 48,000 euros"
    assert ask("Who owns the backend?", *lines) == "As far as I know: Tomas owns the backend."


def test_a_block_in_the_users_message_is_not_what_was_said() -> None:
    """A block merged into the user's message is evidence; the question is what stands around it."""
    text = f"<memory>\n<sf_ams>\n{block(DEMO, header=MEMORY_HEADER_ZH)}\n</sf_ams>\n</memory>\nWhen is the demo?"
    reply = memory_assistant(ChatRequest(({"role": "user", "content": text},)))
    assert reply.content == "As far as I know: The demo is on 1 November."


@pytest.mark.parametrize(("said", "reply"), [("Jonas feeds the cat.", "Got it."), ("今天下雨了。", "好的。")])
def test_statements_are_acknowledged(said: str, reply: str) -> None:
    """A statement gets a short word, in its language."""
    assert ask(said, DEMO) == reply


@pytest.mark.parametrize(
    ("text", "call"),
    [
        ("Remember that the cat is called Miso.", ToolCall("save_memory", {"content": "the cat is called Miso"})),
        ("Please don't forget: the cat is Miso", ToolCall("save_memory", {"content": "the cat is Miso"})),
        ("请记住，猫叫味噌。", ToolCall("save_memory", {"content": "猫叫味噌"})),
        ("别忘了周五交报告", ToolCall("save_memory", {"content": "周五交报告"})),
        ("Forget what I said about the cat.", ToolCall("forget_memory", {"what": "what I said about the cat"})),
        ("忘掉猫的事", ToolCall("forget_memory", {"what": "猫的事"})),
    ],
)
def test_orders_call_the_tool(text: str, call: ToolCall) -> None:
    """Remember and forget call the offered tool, under the argument that its schema requires."""
    assert order(text).tool_calls == (call,)


@pytest.mark.parametrize("text", ["correct: the demo is on 5 December", "更正：演示是12月5日"])
def test_a_correction_names_what_it_corrects(text: str) -> None:
    """A correction calls the tool with the id of the memory it is about and the new words."""
    (call,) = order(text, DEMO, TEA).tool_calls
    assert call.name == "correct_memory"
    assert call.arguments["target"] == "mem_0123"
    assert "5" in str(call.arguments["new_content"])


@pytest.mark.parametrize("text", ["Do you remember when the demo is?", "I forget things.", "Forget it.", "记住了吗？"])
def test_what_only_sounds_like_an_order(text: str) -> None:
    """Words about remembering that order nothing save and forget nothing."""
    assert not any(call.name in ("save_memory", "forget_memory") for call in order(text, DEMO).tool_calls)


def test_orders_without_a_tool_are_acknowledged() -> None:
    """Where no tool is offered an order is a statement."""
    assert order("Remember that the cat is called Miso.", tools=()) == ChatReply("Got it.")


def test_it_looks_up_what_the_prompt_does_not_hold() -> None:
    """An unanswered question is looked up where that is offered; a second look is not taken."""
    question = "What is the budget?"
    (call,) = order(question, DEMO).tool_calls
    assert call.name == "recall_memories"
    assert str(call.arguments["query"]).startswith(question)
    assert "预算" in str(call.arguments["query"])
    assert order("When is the demo?", DEMO).tool_calls == ()
    assert after_tool(question, "recall_memories", "- The budget is 48,000.").endswith("The budget is 48,000.")
    assert after_tool(question, "recall_memories", "Nothing found.") == "I don't know yet."


def after_tool(said: str, name: str, found: str) -> str:
    function: Json = {"name": name, "arguments": "{}"}
    messages: tuple[Message, ...] = (
        {"role": "user", "content": said},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": "c", "content": found},
    )
    reply = memory_assistant(ChatRequest(messages, TOOLS))
    assert reply.tool_calls == ()
    return reply.content or ""


@pytest.mark.parametrize(
    ("said", "name", "found", "reply"),
    [
        ("Remember the cat.", "save_memory", "saved mem_1", "Saved, I will remember that."),
        ("忘掉猫的事", "forget_memory", "ok", "已忘掉。"),
        ("更正：猫叫味噌", "correct_memory", "ok", "已更正。"),
        ("Remember the cat.", "save_memory", "Error: the store is down", "That did not work."),
    ],
)
def test_it_reports_what_a_tool_did(said: str, name: str, found: str, reply: str) -> None:
    """After a tool ran it says in the user's language what was done, or that it failed."""
    assert after_tool(said, name, found) == reply


STANDUP = "- [mem_0300] (fact, importance 0.8, 2026-01-02, user) The stand-up is at half past nine, at 9:30."


@pytest.mark.parametrize(
    ("news", "target", "now"),
    [
        ("The demo has moved to 5 December.", "mem_0123", "The demo is on 5 December."),
        ("演示改到12月5日了。", "mem_0123", "The demo is on 12月5日."),
        ("We moved the stand-up from 9:30 to 10:15.", "mem_0300", "The stand-up is at half past nine, at 10:15."),
        ("Maya no longer likes green tea & cake.", "mem_0124", "Maya no longer likes green tea & cake."),
    ],
)
def test_news_corrects_the_memory_it_makes_untrue(news: str, target: str, now: str) -> None:
    """A change that a memory does not know yet is written with the correcting tool, as a whole statement."""
    (call,) = order(news, DEMO, TEA, STANDUP).tool_calls
    assert call == ToolCall("correct_memory", {"target": target, "new_content": now})


def test_news_about_something_unknown_is_looked_up_once() -> None:
    """A change of which the prompt tells nothing is looked up; where nothing is found it is only noted."""
    (call,) = order("The rent has changed to 900.", DEMO).tool_calls
    assert call.name == "recall_memories"
    assert after_tool("The rent has changed to 900.", "recall_memories", "Nothing found.") == "Got it."


def test_news_never_corrects_itself() -> None:
    """A memory that tells the news already is not corrected by it."""
    known = "- [mem_0400] (event, importance 0.8, 2026-01-06, user) The demo has moved to 5 December."
    assert [call.name for call in order("The demo has moved to 5 December.", known).tool_calls] == ["recall_memories"]


def test_what_is_meant_goes_by_its_id() -> None:
    """Forgetting names the memory that the prompt shows, not words that may fit the order itself."""
    assert order("Forget that Maya likes green tea.", DEMO, TEA).tool_calls[0].arguments == {"what": "mem_0124"}


def test_what_a_tool_let_go_is_no_evidence() -> None:
    """The result of a forgetting repeats what was forgotten; later questions are not answered with it."""
    function: Json = {"name": "forget_memory", "arguments": "{}"}
    history: tuple[Message, ...] = (
        {"role": "user", "content": "Forget the party for Maya."},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": "c", "content": "Let go: [mem_1]: The party for Maya is on Friday."},
        {"role": "assistant", "content": "Done, I have let go of that."},
        {"role": "user", "content": "When is the party for Maya?"},
    )
    assert memory_assistant(ChatRequest(history)).content == "I don't know yet."


def test_what_is_asked_to_be_remembered_is_important() -> None:
    """Where the tool takes an importance, an order to remember gives one."""
    parameters: Json = {"required": ["content"], "properties": {"content": {}, "type": {}, "importance": {}}}
    rating: Message = {"type": "function", "function": {"name": "save_memory", "parameters": parameters}}
    (call,) = order("Remember that the cat is called Miso.", tools=(rating,)).tool_calls
    assert call.arguments == {"content": "the cat is called Miso", "importance": 0.8}


@given(st.lists(st.text(max_size=60), max_size=6), st.text(max_size=60))
def test_every_answer_is_a_line_of_the_prompt(lines: list[str], question: str) -> None:
    """Whatever the prompt holds, an answer is taken from it."""
    messages = tuple({"role": "user", "content": text} for text in (*lines, question))
    reply = memory_assistant(ChatRequest(messages)).content or ""
    for known in ("As far as I know: ", "据我所知："):
        if reply.startswith(known):
            assert any(reply.removeprefix(known) in line for line in lines)


def test_hostile_prompts_take_linear_time() -> None:
    """Long runs of what the patterns look for are read at once."""
    start = time.perf_counter()
    for hostile in ("<sf-ams-memory", "please ", "谁", "? ", "- [", "remember ", "，", "Summary: "):
        ask("When is the demo?", turns=(hostile * (100_000 // len(hostile)),))
    assert time.perf_counter() - start < 10  # a fraction of a second; minutes if it were quadratic
