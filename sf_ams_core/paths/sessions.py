"""The end of a session: what lasts is summarised, the rest becomes forgettable."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import NotFound, ProviderFault
from ..kernel import Kernel
from ..rules import digest
from ..rules.text import language
from ..stores import facts as facts_store
from ..stores import memories
from ..stores import turns as turns_store
from ..stores.database import Writer
from ..stores.filters import Filters
from ..types import Note, Refused, Scope, Turn, WriteOutcome
from .common import still_held
from .drafting import draft_note
from .write import supersede, write_drafts

_PROMPT = {
    "en": "Summarise what lasts of this conversation in at most five short sentences. Use only what was said.\n\n",
    "zh": "请用最多五句短话概括这段对话中值得长期保留的内容，只写说过的，不要编造。\n\n",
}
_PROMPT_CHARS = 12_000
_IMPORTANCE = 0.8  # above what a statement gets by default: a summary stands for many


def end_session(kernel: Kernel, scope: Scope, session: str) -> WriteOutcome | None:
    """Close a session and keep a summary of what lasts; None where nothing does.

    Raises NotFound for an unknown session and StoreUnavailable.
    """
    with kernel.database.read(scope) as reader:
        if turns_store.session_of(reader, session) is None:
            raise NotFound(f"session {session!r} has no turns in this scope")
        said = still_held(reader, session, turns_store.transcript(reader, session))
    summary, cited = _summary(kernel, said)
    outcome = _keep(kernel, scope, session, summary, cited) if summary and kernel.enabled else None
    with kernel.database.write(scope) as writer:
        turns_store.change_session(writer, session, closed_at=kernel.clock.now())
        facts_store.delete_working(writer, session)
    kernel.events.emit("session_ended", turns=len(said), summarised=outcome is not None)
    return outcome


def _summary(kernel: Kernel, said: Sequence[Turn]) -> tuple[str, tuple[str, ...]]:
    words = [turn for turn in said if turn.role in ("user", "assistant") and turn.content.strip()]
    if kernel.model is not None and words:
        lines = "\n".join(f"{turn.speaker or turn.role}: {turn.content}" for turn in words)
        try:
            reply = kernel.model.complete(_PROMPT[language(lines)] + lines[-_PROMPT_CHARS:]).strip()
            if reply:
                return reply[: 2 * kernel.settings.context.summary_chars], _ids(words)
        except ProviderFault:
            pass  # the guard has logged and counted it; the rules carry on
    worth = [turn for turn in words if digest.worth_keeping(turn, kernel.settings.write)]
    rules = kernel.settings
    return digest.extend("", worth, rules.context.summary_chars, rules.write), _ids(worth)


def _ids(turns: Sequence[Turn]) -> tuple[str, ...]:
    return tuple(turn.id for turn in turns if turn.id)


def _keep(kernel: Kernel, scope: Scope, session: str, summary: str, cited: tuple[str, ...]) -> WriteOutcome | None:
    note = Note(
        summary,
        type="summary",
        importance=_IMPORTANCE,
        session=session,
        source="system",
        source_ids=cited,
    )
    draft = draft_note(note, scope, kernel.settings, kernel.clock)
    if isinstance(draft, Refused):
        return None

    def retire_older(writer: Writer) -> list[bool]:
        older = Filters(types=("summary",), session=session, visible=None)
        ids = [m.id for _, m in memories.matching(writer, older, kernel.clock.now())]
        supersede(writer, ids, draft.memory, kernel.clock.now())
        return [True]

    return write_drafts(kernel, scope, [draft], before=retire_older)[0]
