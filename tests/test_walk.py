"""One message walked through both frameworks: written, recalled, corrected, forgotten, undone, erased.

What one framework wrote the other recalls, from the same file, also in another process.
"""

import subprocess
import sys

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from llama_index.core.llms import ChatMessage

from sf_ams_core import MemoryEngine, Scope, State
from sf_ams_langchain import SFAMSChatMessageHistory, SFAMSRetriever, create_memory_tools
from sf_ams_llamaindex import SFAMSMemory
from sf_ams_llamaindex import SFAMSRetriever as LlamaRetriever

SCOPE = Scope("default", "ann")
SAID = "The final demo of Stellar AI is on 27 October."
NEWER = "The final demo of Stellar AI is on 1 November."
QUESTION = "When is the final demo of Stellar AI?"


class LangChain:
    """The walk's steps as a LangChain user takes them."""

    def __init__(self, engine):
        self.engine = engine
        tools = create_memory_tools(engine, user_id="ann", session_id="lc")
        self.tools = {tool.name: tool for tool in tools}

    def write(self, text):
        history = SFAMSChatMessageHistory("lc", engine=self.engine, user_id="ann")
        history.add_messages([HumanMessage(text), AIMessage("Noted.")])

    def recall(self, question):
        retriever = SFAMSRetriever(engine=self.engine, tenant_id="default", user_id="ann", namespace="default")
        return [document.page_content for document in retriever.invoke(question)]

    def correct(self, target, words):
        # An agent may only pass on what the user has just said.
        history = SFAMSChatMessageHistory("lc", engine=self.engine, user_id="ann")
        history.add_messages([HumanMessage(f"Please correct that: {words}")])
        self.tools["correct_memory"].invoke({"target": target, "new_content": words})

    def shown(self, question):
        history = SFAMSChatMessageHistory("lc-2", engine=self.engine, user_id="ann")
        history.add_messages([HumanMessage(question)])
        return history.messages[0].text


class LlamaIndex:
    """The same steps as a LlamaIndex user takes them."""

    def __init__(self, engine):
        self.engine = engine

    def memory(self, session):
        return SFAMSMemory.from_defaults(self.engine, session_id=session, user_id="ann")

    def write(self, text):
        memory = self.memory("li")
        memory.put(ChatMessage(role="user", content=text))
        memory.put(ChatMessage(role="assistant", content="Noted."))

    def recall(self, question):
        retriever = LlamaRetriever(engine=self.engine, tenant_id="default", user_id="ann", namespace="default")
        return [node.node.get_content() for node in retriever.retrieve(question)]

    def correct(self, target, words):
        self.engine.correct(SCOPE, target, words)

    def shown(self, question):
        memory = self.memory("li-2")
        memory.put(ChatMessage(role="user", content=question))
        return memory.get()[0].content


FRAMEWORKS = {"langchain": LangChain, "llamaindex": LlamaIndex}


@pytest.mark.parametrize(("writer", "reader"), [("langchain", "llamaindex"), ("llamaindex", "langchain")])
def test_a_message_walks_through_both_frameworks(engine, writer, reader):
    """Said in one, recalled in the other; corrected, forgotten, undone and erased with the same effect in both."""
    said, asked = FRAMEWORKS[writer](engine), FRAMEWORKS[reader](engine)

    said.write(SAID)
    assert asked.recall(QUESTION)[0] == SAID
    assert SAID in asked.shown(QUESTION)

    said.correct("final demo of Stellar AI", NEWER)
    assert NEWER in asked.recall(QUESTION)[0]
    assert SAID not in asked.recall(QUESTION)

    current = next(m for m in engine.list(SCOPE) if m.content == NEWER)
    for session in ("lc", "li", "lc-2", "li-2"):
        if engine.turns(SCOPE, session):
            engine.end_session(SCOPE, session)
    report = engine.forget(SCOPE, engine.plan_forgetting(SCOPE, ratio=1.0))
    assert engine.get(SCOPE, current.id).state is State.COLD
    assert not any(NEWER in text for text in asked.recall(QUESTION))

    assert current.id in engine.undo(report)
    assert NEWER in asked.recall(QUESTION)[0]

    receipt = engine.erase(SCOPE, identifier="Stellar AI")
    assert set(receipt.checked.values()) == {0}
    assert not any("Stellar" in text for text in (*asked.recall(QUESTION), *said.recall(QUESTION)))


WRITE = {
    "langchain": """
from langchain_core.messages import HumanMessage
from sf_ams_langchain import SFAMSChatMessageHistory
SFAMSChatMessageHistory("s", engine=engine, user_id="ann").add_messages([HumanMessage(text)])
""",
    "llamaindex": """
from llama_index.core.llms import ChatMessage
from sf_ams_llamaindex import SFAMSMemory
SFAMSMemory.from_defaults(engine, session_id="s", user_id="ann").put(ChatMessage(role="user", content=text))
""",
}


@pytest.mark.parametrize(("writer", "reader"), [("langchain", "llamaindex"), ("llamaindex", "langchain")])
def test_a_second_process_and_framework_recalls_what_the_first_was_told(url, writer, reader):
    """The file is all that the two processes share."""
    script = (
        f"from sf_ams_core import MemoryEngine\nengine = MemoryEngine.open({url!r}, embedder='hash')\ntext = {SAID!r}\n"
    )
    subprocess.run([sys.executable, "-c", f"{script}{WRITE[writer]}\nengine.close()"], check=True, timeout=120)
    with MemoryEngine.open(url, embedder="hash") as engine:
        assert FRAMEWORKS[reader](engine).recall(QUESTION) == [SAID]
