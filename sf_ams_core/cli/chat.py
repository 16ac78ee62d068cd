"""`sf-ams chat`: talk to a LangChain agent with a memory, and look into that memory while you talk."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..engine import MemoryEngine
from ..errors import NotFound, ProviderFault
from ..types import ForgettingReport, Scope, Stored, Superseded
from .agents import LangChainTalker, Talker
from .endpoint import Endpoint, open_endpoint
from .inspect import Database, Embedding, Namespace, Tenant, database_url
from .narrator import hit_line, plan_table
from .stage import recalled

_PLANNED = 12  # rows shown of a plan


def chat(
    *,
    db: Database = "sf_ams.db",
    user: Annotated[str, typer.Option(help="Whose memory it is.")] = "me",
    tenant: Tenant = "default",
    namespace: Namespace = "default",
    session: Annotated[str | None, typer.Option(help="Name of the session; by default the time.")] = None,
    embedder: Embedding = "auto",
) -> None:
    """Talk in the terminal, in English or Chinese; /help lists what else can be done, Ctrl-D ends."""
    console = Console()
    scope = Scope(tenant, user, namespace)
    with open_endpoint() as endpoint, MemoryEngine.open(database_url(db), embedder=embedder) as engine:
        console.print(Text(f"You talk to {endpoint.described}."))
        if not endpoint.own:
            console.print(Text("Set OPENAI_BASE_URL or OPENAI_API_KEY (and OPENAI_MODEL) to talk to a model.", "dim"))
        with Console(stderr=True).status("Loading LangChain …"):
            talker = LangChainTalker(endpoint, engine, scope)
        room = _Room(console, engine, scope, session or f"chat-{datetime.now(UTC):%Y%m%d-%H%M%S}", endpoint, talker)
        room.talk()


@dataclass(slots=True)
class _Room:
    """One session at the terminal."""

    console: Console
    engine: MemoryEngine
    scope: Scope
    session: str
    endpoint: Endpoint
    talker: Talker
    question: str = ""
    asked_at: int = 0  # prompts sent before the last question
    report: ForgettingReport | None = None

    def talk(self) -> None:
        """Read and answer until /quit or the end of the input, then close the session."""
        commands: Mapping[str, Callable[[], None]] = {
            "/why": self.why,
            "/memories": self.memories,
            "/forget": self.forget,
            "/undo": self.undo,
            "/help": self.help,
        }
        while (line := self._read("› ")) is not None and line != "/quit":
            if line.startswith("/"):
                commands.get(line, self.help)()
            elif line:
                self.say(line)
        self.close()

    def say(self, text: str) -> None:
        """Say something to the agent and print its answer; a model that fails is told and the chat goes on."""
        self.question, self.asked_at = text, len(self.endpoint.prompts)
        try:
            answer = self.talker.say(self.session, text, datetime.now(UTC))
        except ProviderFault as fault:
            self._tell(str(fault), "red")
            return
        self._tell(answer, "bold")

    def why(self) -> None:
        """What was recalled for the last answer, and how each score came about."""
        prompts = self.endpoint.prompts[self.asked_at :]
        hits = recalled(self.engine, self.scope, self.session, self.question, prompts) if prompts else ()
        if not hits:
            turns = prompts[-1].turns if prompts else 0
            self._tell(f"Nothing was recalled; the last prompt held {turns} earlier turns of this session.")
        for hit in hits:
            self.console.print(hit_line(hit, self.console.width))

    def memories(self) -> None:
        """What is remembered beyond the wording of turns."""
        held = self.engine.list(self.scope)
        worth = [memory for memory in held if memory.type != "dialogue"]
        table = Table("said", "type", "importance", "words", pad_edge=False)
        for memory in worth:
            cells = (f"{memory.said_at:%Y-%m-%d}", memory.type, f"{memory.importance:.1f}", memory.content)
            table.add_row(*map(Text, cells))
        table.caption = Text(f"and {len(held) - len(worth)} remarks word for word")
        self.console.print(table)

    def forget(self) -> None:
        """Show what would be forgotten, ask, and do it."""
        plan = self.engine.plan_forgetting(self.scope)
        if not plan.steps:
            self._tell("There is nothing to forget.")
            return
        held = {memory.id: memory for memory in self.engine.list(self.scope)}
        self.console.print(plan_table(plan, held, _PLANNED))
        if (self._read("Forget them? [y/N] ") or "").casefold() not in ("y", "yes", "是", "好"):
            self._tell("Nothing was forgotten.")
            return
        self.report = self.engine.forget(self.scope, plan)
        self._tell(f"{len(self.report.applied)} forgotten; /undo brings them back.")

    def undo(self) -> None:
        """Take the last forgetting back."""
        if self.report is None:
            self._tell("Nothing was forgotten in this chat.")
            return
        self._tell(f"{len(self.engine.undo(self.report))} came back.")
        self.report = None

    def help(self) -> None:
        """What can be typed."""
        self._tell(
            "/why what the last answer rests on · /memories what is remembered · /forget the least valuable · "
            "/undo the forgetting · /quit or Ctrl-D"
        )

    def close(self) -> None:
        """End the session, and say what is kept of it."""
        try:
            outcome = self.engine.end_session(self.scope, self.session)
        except NotFound:
            return  # nothing was said
        kept = isinstance(outcome, Stored | Superseded)
        self._tell(f"Session {self.session} is closed{', its summary is kept' if kept else ''}.", "dim")

    def _read(self, prompt: str) -> str | None:
        """A line without the spaces around it; None where the input ends."""
        try:
            return self.console.input(Text(prompt, "cyan")).strip()
        except (EOFError, KeyboardInterrupt):
            self.console.print()
            return None

    def _tell(self, words: str, style: str = "") -> None:
        self.console.print(Text(words, style))
