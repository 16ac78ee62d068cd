"""One session of one user: turns in, context out. The room where memory's failures are forgiven.

Adapters stand on this. Memory is a bonus to the host: a broken database, embedder or model is logged and counted here
and the chat goes on with what is at hand. Only misuse raises.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from .aio import LazyPool, twin
from .errors import InvalidInput, ProviderFault, StoreUnavailable
from .events import new_trace_id
from .kernel import Kernel
from .paths import context as context_path
from .paths import locate, transcript
from .paths import recall as recall_path
from .paths.erase import turn_holds
from .rules import windows
from .stores import turns as turns_store
from .stores.filters import Filters, check_importance, check_types
from .types import MemoryContext, Recall, Scope, Turn, WriteOutcome, check_id

_FORGIVEN = (StoreUnavailable, ProviderFault)


class Waiting:
    """Turns that the store could not take yet: in order, a bounded number of all sessions together."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._turns: OrderedDict[tuple[Scope, str], list[Turn]] = OrderedDict()

    def put(self, scope: Scope, session: str, turns: Sequence[Turn]) -> int:
        """Keep turns for later; how many older ones had to be dropped for it."""
        if not turns:
            return 0  # an empty entry would stand in the way of what is dropped first
        with self._lock:
            self._turns.setdefault((scope, session), []).extend(turns)
            dropped = 0
            while sum(map(len, self._turns.values())) > self._limit:
                key, oldest = next(iter(self._turns.items()))
                oldest.pop(0)
                dropped += 1
                if not oldest:
                    del self._turns[key]
            return dropped

    def take(self, scope: Scope, session: str) -> list[Turn]:
        """The turns that wait for a session; they are the caller's now."""
        with self._lock:
            return self._turns.pop((scope, session), [])

    def look(self, scope: Scope, session: str) -> list[Turn]:
        """The turns that wait for a session."""
        with self._lock:
            return list(self._turns.get((scope, session), ()))

    def drop(self, scope: Scope, naming: str | None) -> None:
        """Forget what waits for a scope, or only the turns that name an identifier."""
        with self._lock:
            for key in [key for key in self._turns if key[0] == scope]:
                self._turns[key] = [turn for turn in self._turns[key] if naming and not turn_holds(turn, naming)]
                if not self._turns[key]:
                    del self._turns[key]


@dataclass(frozen=True, slots=True)
class Conversation:
    """One session of one scope. Raises InvalidInput for misuse, and nothing else but where a verb says so."""

    scope: Scope
    session: str
    kernel: Kernel = field(repr=False)
    waiting: Waiting = field(repr=False)
    pool: LazyPool = field(repr=False)

    def __post_init__(self) -> None:
        check_id(self.session, "session")

    def __deepcopy__(self, memo: object) -> Self:
        return self  # frozen, and bound to the one engine

    def add(self, turns: Sequence[Turn]) -> tuple[WriteOutcome, ...]:
        """Write turns with their memories; while the store is down they wait in memory and the answer is empty."""
        # Ids are given now, so that a turn that has to wait is still written once.
        named = [_named(turn, self.kernel) for turn in turns]
        earlier = self.waiting.take(self.scope, self.session)
        try:
            outcomes = transcript.add_turns(self.kernel, self.scope, self.session, [*earlier, *named])
        except _FORGIVEN as fault:
            dropped = self.waiting.put(self.scope, self.session, [*earlier, *named])
            self.kernel.events.fault("write", fault, waiting=len(named), dropped=dropped)
            return ()
        except InvalidInput:
            self.waiting.put(self.scope, self.session, earlier)
            raise
        return tuple(outcomes[len(earlier) :])

    def messages(self) -> tuple[Turn, ...]:
        """The chat's whole view, in order, waiting turns included."""
        try:
            with self.kernel.database.read(self.scope) as reader:
                held = [placed.turn for placed in turns_store.view(reader, self.session)]
        except _FORGIVEN as fault:
            self.kernel.events.fault("read", fault)
            held = []
        known = {turn.id for turn in held}
        return (*held, *(t for t in self.waiting.look(self.scope, self.session) if t.id not in known))

    def revision(self) -> int | None:
        """A number that grows with every write to the scope; None while the store can't be read."""
        try:
            with self.kernel.database.read(self.scope) as reader:
                return reader.revision
        except _FORGIVEN as fault:
            self.kernel.events.fault("read", fault)
            return None

    def context(
        self,
        query: str | None = None,
        *,
        token_budget: int | None = None,
        recent_turns: int | None = None,
        recall_k: int | None = None,
    ) -> MemoryContext:
        """Facts, summary and recalled memories as a block, and the recent turns.

        Without a `query` the last user turn is the question. Never recalls what is being asked or shown.
        """
        waiting = self.waiting.look(self.scope, self.session)
        try:
            return context_path.build_context(
                self.kernel,
                self.scope,
                self.session,
                query,
                token_budget=token_budget,
                recent_turns=recent_turns,
                recall_k=recall_k,
                waiting=waiting,
            )
        except _FORGIVEN as fault:
            self.kernel.events.fault("context", fault)
            return context_path.bare_context(waiting, recent_turns or self.kernel.settings.context.recent_turns)

    def recall(
        self, query: str, *, k: int = 5, types: Collection[str] | None = None, min_importance: float = 0.0
    ) -> Recall:
        """The best memories for a question, of all sessions of the scope; what is being asked here is none of them."""
        recall_path.check_request(query, k)
        filters = Filters(types=check_types(types), min_importance=check_importance(min_importance, "min_importance"))
        request = recall_path.Request(query, k, filters, hide=(self.session, self._asked()))
        return recall_path.recall(self.kernel, self.scope, request)

    def release(self, target: str | Sequence[str]) -> tuple[str, ...]:
        """Soft forget by tool: what is meant, and the request that repeats it. Raises NotFound, StoreUnavailable."""
        return tuple(locate.release(self.kernel, self.scope, target, asked=(self.session, self._asked())))

    def _asked(self) -> frozenset[str]:
        return frozenset(turn.id for turn in windows.asking(self.messages()) if turn.id)

    def correct(self, target: str | Sequence[str], new_content: str) -> WriteOutcome:
        """What an assistant corrects by tool: only where the user's last turn here holds the new value.

        A tool has to answer, so here faults are raised: NotFound and StoreUnavailable too.
        """
        return locate.correct(self.kernel, self.scope, target, new_content, source="assistant", session=self.session)

    def clear(self) -> None:
        """Empty the chat's view; transcript and memories stay, and a turn that is added again comes back into it."""
        self.waiting.take(self.scope, self.session)
        try:
            with self.kernel.database.write(self.scope) as writer:
                turns_store.clear_view(writer, self.session)
        except _FORGIVEN as fault:
            self.kernel.events.fault("clear", fault, trace_id=new_trace_id())

    aadd = twin(add)
    amessages = twin(messages)
    acontext = twin(context)
    arecall = twin(recall)
    arevision = twin(revision)
    acorrect = twin(correct)
    arelease = twin(release)
    aclear = twin(clear)


def _named(turn: Turn, kernel: Kernel) -> Turn:
    if not isinstance(turn, Turn):
        raise InvalidInput(f"turns must be Turn values, got {type(turn).__name__}")
    return turn if turn.id else replace(turn, id=kernel.clock.new_id("turn"))
