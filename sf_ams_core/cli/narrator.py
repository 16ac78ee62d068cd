"""How the demo tells its story on a terminal: one line a remark, more where memory shows what it can."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta

from rich.console import Console, Group
from rich.panel import Panel
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from ..types import ForgettingPlan, Hit, Memory, Stats
from .endpoint import Endpoint, Prompt
from .stage import Cost, Erasure, Forgetting, Step, marks
from .story import FIRST_DAY, Beat

_HITS = 2  # shown of those recalled
_PLANNED = 7  # rows shown of a plan
_GUTTER = 6  # columns before the words
_CHARS = 76  # shown of a memory
_LEGEND = "＋ kept as more than a remark  ⇄ superseded  ✂ let go  ∑ summary  ⚙ tools called  ✓ ✗ right or wrong"


class Narrator:
    """Prints what happens. Memories are printed as text, so that nothing in them is taken for markup."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._shown: set[str] = set()

    def opening(self, endpoint: Endpoint, embedder: str, where: str) -> None:
        """What is about to happen, and with what."""
        facts = Table.grid(padding=(0, 2))
        for name, value in (("model", endpoint.described), ("embedder", embedder), ("database", where)):
            facts.add_row(Text(name, "bold"), Text(value))
        told = Text("Two weeks of a project, told in nine short chats that know nothing of each other but by memory;")
        told.append(" then another framework carries on over the same database.")
        self._console.print(
            Panel(Group(told, Text(), facts, Text(), Text(_LEGEND, "dim")), title="SF-AMS", style="cyan")
        )

    def session(self, first: Beat, framework: str) -> None:
        """The heading of a session."""
        day = FIRST_DAY + timedelta(days=first.day - 1)
        title = Text(f"Day {first.day} · {day:%a} {day.day} {day:%b} · {first.session}")
        self._heading(title.append(f"  [{framework}]", "dim"), "cyan")

    def step(self, step: Step) -> None:
        """One beat: what was said, what it changed, and of a question what memory gave to the answer."""
        match step.beat.kind:
            case "chat":
                self._row("you", Text(f"{step.beat.text}  → {step.answer}", "dim"))
            case "ask":
                self._ask(step)
            case _:
                self._row("you", _told(step))
                self._changes(step)

    def summary(self, kept: Memory | None) -> None:
        """What is kept of a session as a whole."""
        if kept is not None:
            self._row("∑", Text(_cut(kept.content, 2 * _CHARS), "dim"))

    def forgetting(self, done: Forgetting) -> None:
        """The plan with its reasons, and what the database held before, after, undone and after again."""
        self._heading(Text("Night · forgetting what is least worth keeping"), "magenta")
        plan = done.plan
        said = f"policy {plan.policy!r}: {len(plan.steps)} of {plan.considered} records, {plan.protected} protected"
        self._console.print(Text(said, "dim"))
        self._console.print(plan_table(plan, done.memories, _PLANNED))
        names = ("before", f"forgot {len(done.report.applied)}", f"undid {len(done.undone)}", "forgot again")
        self._console.print(_stats_table(dict(zip(names, done.stats, strict=True))))

    def erasure(self, done: Erasure) -> None:
        """The receipt of an erasure."""
        self._heading(Text(f"{done.identifier} leaves, and asks to be erased"), "magenta")
        receipt = done.receipt
        gone = f"erased for good: {len(receipt.erased)} records, and every turn that names {done.identifier}"
        self._row("✂", Text(gone))
        places = ", ".join(f"{place} {found}" for place, found in receipt.checked.items())
        self._row("✓", Text(f"looked for afterwards: {places}; recalled by name: {done.still_found}", "green"))

    def costs(self, by_framework: Mapping[str, Sequence[Step]]) -> None:
        """Tokens with memory and without, and how many questions were answered rightly."""
        self._heading(Text("What it cost, and what it was worth"), "cyan")
        self._console.print(_cost_table(by_framework))
        for name, steps in by_framework.items():
            asked, wrong = marks(steps)
            score = (f"{asked - len(wrong)} of {asked}", "bold yellow" if wrong else "bold green")
            self._console.print(Text.assemble(f"{name}: ", score, " questions answered rightly"))
            for step in wrong:
                self._row("✗", Text(f"day {step.beat.day}: {step.beat.text} → {step.answer}", "red"))

    def closing(self, seconds: float, hint: str) -> None:
        """How long it took, and what to try next."""
        self._console.print(Text(f"{seconds:.1f} s in all. {hint}", "dim"))

    def _ask(self, step: Step) -> None:
        self._row("ask", Text(step.beat.text, "bold"))
        prompt = step.prompts[0]
        if step.framework not in self._shown and prompt.block:
            self._shown.add(step.framework)
            self._console.print(_block_panel(prompt, step.framework))
        self._row("", Text(_entered(step), "dim"))
        for hit in step.recalled[:_HITS]:
            self._row("", hit_line(hit, self._console.width - _GUTTER))
        self._tools(step)
        self._row("✓" if step.right else "✗", Text(step.answer, "green" if step.right else "red"))

    def _changes(self, step: Step) -> None:
        self._tools(step)
        for old, new in step.change.superseded:
            if old.source == "user":
                words = Text.assemble((_cut(old.content), "strike dim"), " → ", (_cut(new.content), "yellow"))
                self._row("⇄", words)
        for memory in step.change.released:
            self._row("✂", Text(_cut(memory.content), "strike yellow"))

    def _tools(self, step: Step) -> None:
        if step.tools:
            self._row("⚙", Text(", ".join(step.tools), "cyan"))

    def _row(self, mark: str, words: Text) -> None:
        """Words behind a mark; longer ones wrap under their own beginning."""
        row = Table.grid(padding=(0, 1, 0, 0))
        row.add_column(width=_GUTTER - 1, justify="right", style="cyan")
        row.add_column()
        row.add_row(mark, words)
        self._console.print(row)

    def _heading(self, title: Text, style: str) -> None:
        self._console.print(Rule(title, align="left", style=style))


def _told(step: Step) -> Text:
    words = Text(step.beat.text)
    for memory in step.change.kept:
        words.append(f"  ＋{memory.type} {memory.importance:.1f}", "green")
    return words


def _entered(step: Step) -> str:
    prompt = step.prompts[0]
    memories = sum(line.startswith("- ") for line in prompt.block.splitlines())
    more = f" and {len(step.prompts) - 1} more" if len(step.prompts) > 1 else ""
    return (
        f"prompt of {prompt.tokens:,} tokens{more}: {memories} memories, {prompt.turns} recent turns "
        f"(whole history: {step.history_tokens:,})"
    )


def _block_panel(prompt: Prompt, framework: str) -> Panel:
    words = Text(prompt.block, no_wrap=True, overflow="ellipsis")
    return Panel(words, title=Text(f"what memory puts into the prompt of {framework}"), style="dim")


def hit_line(hit: Hit, width: int) -> Text:
    """One hit: its score, its words, the routes that found it and the addends of the score.

    What does not fit into `width` columns goes on a line of its own.
    """
    parts = sorted(hit.parts.items(), key=lambda part: -part[1])
    addends = " + ".join(f"{name} {value:.2f}" for name, value in parts if abs(value) >= 0.005)
    routes = "  " + ", ".join(hit.routes)
    words = _cut(hit.content, max(20, min(_CHARS, width - 8 - len(routes))))
    found = Text.assemble((f"{hit.score:.2f}  ", "bold"), words, (routes, "cyan"))
    why = Text(f"  = {addends}", "dim")
    if found.cell_len + why.cell_len > width:
        found.append("\n    ")
    return found.append_text(why)


def plan_table(plan: ForgettingPlan, memories: Mapping[str, Memory], rows: int) -> Table:
    """The first rows of a plan; the same words from several turns are one row."""
    table = Table("score", "why", "score parts", "who", "words", pad_edge=False)
    times = Counter(memories[step.id].content for step in plan.steps)
    told: set[str] = set()
    for step in plan.steps:
        memory = memories[step.id]
        if memory.content in told or len(told) == rows:
            continue
        told.add(memory.content)
        parts = " ".join(f"{name} {value:+.2f}" for name, value in step.parts.items() if abs(value) >= 0.005)
        count = f" ×{times[memory.content]}" if times[memory.content] > 1 else ""
        cells = (f"{step.score:.2f}", f"{step.action}: {step.reason}", parts, memory.speaker or memory.source)
        table.add_row(*map(Text, cells), Text(_cut(memory.content, 44) + count))
    if len(times) > rows:
        table.caption = Text(f"and {len(times) - rows} other remarks")
    return table


def _stats_table(stats: Mapping[str, Stats]) -> Table:
    table = Table("", "active", "cold", "characters in use", pad_edge=False)
    for column in table.columns[1:]:
        column.justify = "right"
    for name, counted in stats.items():
        table.add_row(name, f"{counted.active}", f"{counted.cold}", f"{counted.characters:,}")
    return table


def _cost_table(by_framework: Mapping[str, Sequence[Step]]) -> Table:
    costs = {name: Cost.of(steps) for name, steps in by_framework.items()}
    costs["together"] = Cost.of([step for steps in by_framework.values() for step in steps])
    table = Table("tokens of all prompts", *costs, pad_edge=False)
    for column in table.columns[1:]:
        column.justify = "right"

    def row(name: str, value: Callable[[Cost], str], style: str = "") -> None:
        table.add_row(name, *(value(cost) for cost in costs.values()), style=style)

    row("prompts", lambda cost: f"{cost.prompts:,}")
    row("sent, with memory", lambda cost: f"{cost.sent:,}", "bold")
    row("  of it descriptions of tools", lambda cost: f"{cost.tools:,}", "dim")
    row("whole history each time", lambda cost: f"{cost.history:,}", "bold")
    row("saved", lambda cost: f"{1 - cost.sent / cost.history:.0%}", "green")
    row("last prompt, with memory", lambda cost: f"{cost.last:,}")
    row("last prompt, whole history", lambda cost: f"{cost.last_history:,}")
    table.caption = Text(
        "Both sides carry the same instructions and tools. The history counts once a message, though an agent that "
        "calls a tool sends its prompt again."
    )
    return table


def _cut(text: str, chars: int = _CHARS) -> str:
    line = " ".join(text.split())
    return line if len(line) <= chars else line[: chars - 1] + "…"
