"""The engine: every verb, each a few lines into a path.

with MemoryEngine.open("sqlite:///memory.db") as engine:
    engine.remember(Scope("acme", "ann"), "Ann prefers short answers.")
    engine.recall(Scope("acme", "ann"), "How should I answer?")
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Literal, Self, TypeVar

from .aio import LazyPool, twin
from .clock import Clock, SystemClock
from .conversation import Conversation, Waiting
from .embedders import resolve_embedder
from .embedders.guard import Breaker, GuardedEmbedder, GuardedModel, ProviderPool
from .errors import InvalidInput, NotFound, StoreUnavailable
from .events import Events
from .indexes.cache import SnapshotCache
from .kernel import Kernel
from .paths import context as context_path
from .paths import erase as erase_path
from .paths import facts as facts_path
from .paths import forget as forget_path
from .paths import locate as locate_path
from .paths import recall as recall_path
from .paths import sessions, transcript, write
from .paths.common import write_uses
from .paths.drafting import check_key
from .ports import Embedder, LanguageModel
from .registry import forget_engine, register_engine, resolve_engine
from .rules.entities import fold_identifier
from .settings import Preset, Settings
from .stores import facts as facts_store
from .stores import memories as memories_store
from .stores import turns as turns_store
from .stores import upkeep as upkeep_store
from .stores.database import Database
from .stores.filters import (
    Filters,
    check_importance,
    check_metadata,
    check_moment,
    check_states,
    check_types,
    check_visible,
)
from .types import (
    Candidate,
    ErasureReceipt,
    Fact,
    ForgettingPlan,
    ForgettingReport,
    Health,
    Json,
    Memory,
    MemoryContext,
    Note,
    Recall,
    Scope,
    Source,
    State,
    Stats,
    Turn,
    WriteOutcome,
    check_id,
)
from .working import WorkingMemory

T = TypeVar("T")

_THREADS = 8  # of async twins; SQLite takes one writer at a time anyway


class MemoryEngine:
    """A memory: one database, one embedder, all scopes. Thread-safe; usable from any event loop.

    Made by `open`. Every verb has an `a…` twin with the same signature. Verbs raise InvalidInput for misuse and
    StoreUnavailable where the database can't be used; `recall` raises for misuse only.
    """

    def __init__(self, kernel: Kernel, providers: Sequence[ProviderPool]) -> None:
        self._kernel = kernel
        self._providers = providers
        self._waiting = Waiting(kernel.settings.context.retry_buffer)
        self._closed = threading.Event()
        self.pool = LazyPool(_THREADS)
        self.ref = kernel.clock.new_id("engine")

    @classmethod
    def open(
        cls,
        url: str = "sqlite:///sf_ams.db",
        *,
        embedder: Embedder | Literal["auto", "local", "hash"] = "auto",
        llm: LanguageModel | None = None,
        index: Literal["exact"] = "exact",
        settings: Settings | None = None,
        clock: Clock | None = None,
        queue: None = None,
    ) -> Self:
        """Open (and create or migrate) a memory.

        Models load here, not inside a recall; no thread is started. `llm=None`: everything works by rules.
        Raises InvalidInput, MissingExtra and StoreUnavailable.
        """
        if index != "exact":
            raise InvalidInput(f"unknown index {index!r}; use 'exact'")
        if queue is not None:
            raise InvalidInput("queue must be None: writes are made in the caller's thread")
        rules, events = settings or Settings(), Events()
        # A pool each: a model that hangs must not take the embedder's threads.
        pools = (ProviderPool(rules.providers), ProviderPool(rules.providers))
        guarded = GuardedEmbedder(resolve_embedder(embedder), pools[0], _breaker(rules), rules.providers, events)
        model = None if llm is None else GuardedModel(llm, pools[1], _breaker(rules), rules.providers, events)
        database = Database(url, rules.store)
        cache = SnapshotCache(rules.store.cache_bytes)
        kernel = Kernel(database, guarded, model, clock or SystemClock(), rules, events, cache)
        engine = cls(kernel, pools)
        register_engine(engine, _unique_ref())
        return engine

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (resolve_engine, (self.ref,))

    @property
    def enabled(self) -> bool:
        """The kill switch: False keeps the transcript only, recalls nothing and writes no memories."""
        return self._kernel.enabled

    @enabled.setter
    def enabled(self, on: bool) -> None:
        self._kernel.enabled = bool(on)

    @property
    def settings(self) -> Settings:
        """The settings it was opened with."""
        return self._kernel.settings

    def close(self) -> None:
        """Write down what waits and release every resource. Closing twice is fine."""
        if self._closed.is_set():
            return
        self._closed.set()
        for scope in self._kernel.uses.scopes():
            self._settle(scope)
        self.pool.close()
        for providers in self._providers:
            providers.close()
        self._kernel.database.close()
        forget_engine(self)

    def conversation(self, scope: Scope, session: str) -> Conversation:
        """One session, for adapters: the same verbs, and never an error for memory's sake."""
        return Conversation(_scope(scope), session, self._kernel, self._waiting, self.pool)

    def remember(
        self,
        scope: Scope,
        content: str,
        *,
        type: str | None = None,
        importance: float | None = None,
        ttl: float | None = None,
        key: str | None = None,
        entities: Sequence[str] = (),
        metadata: Mapping[str, Json] | None = None,
        session: str | None = None,
        source: Source = "user",
        visibility: str = "default",
        occurred_at: datetime | None = None,
        source_ids: Sequence[str] = (),
    ) -> WriteOutcome:
        """Write one memory now; `ttl` in seconds. A keyed one overwrites its predecessor, which stays as history."""
        note = Note(
            content,
            type=type,
            importance=importance,
            ttl=ttl,
            key=key,
            entities=_strings(entities, "entities"),
            metadata=metadata,
            session=session,
            source=source,
            visibility=visibility,
            occurred_at=occurred_at,
            source_ids=_strings(source_ids, "source_ids"),
        )
        return write.remember_many(self._kernel, _scope(scope), [note])[0]

    def remember_many(self, scope: Scope, notes: Sequence[Note]) -> tuple[WriteOutcome, ...]:
        """Write many memories with one embedding batch and one transaction; an outcome each, in order."""
        return tuple(write.remember_many(self._kernel, _scope(scope), _several(notes, "notes")))

    def add_turns(self, scope: Scope, session: str, turns: Sequence[Turn]) -> tuple[WriteOutcome, ...]:
        """Write turns to the transcript and a record of each; an outcome each. Known ids change nothing."""
        check_id(session, "session")
        return tuple(transcript.add_turns(self._kernel, _scope(scope), session, _several(turns, "turns")))

    def recall(
        self,
        scope: Scope,
        query: str,
        *,
        k: int = 5,
        types: Collection[str] | None = None,
        min_importance: float = 0,
        since: datetime | None = None,
        until: datetime | None = None,
        entities: Collection[str] | None = None,
        metadata: Mapping[str, Json] | None = None,
        session: str | None = None,
        include: Collection[str] = ("active",),
        visible: Collection[str] = ("default",),
        turns: bool = True,
        min_score: float | None = None,
        preset: Preset | None = None,
        as_of: datetime | None = None,
    ) -> Recall:
        """The best memories for a question, every filter applied before ranking.

        `types` leaves dialogue out unless it is named; `as_of` shows what held then. Raises for misuse only.
        """
        recall_path.check_request(query, k, preset, min_score)
        filters = _filters(
            types=types,
            min_importance=min_importance,
            since=since,
            until=until,
            entities=entities,
            metadata=metadata,
            session=session,
            include=include,
            visible=check_visible(visible),  # None is no label here: nothing opens by a missing setting
            turns=turns,
            as_of=as_of,
        )
        request = recall_path.Request(query, k, filters, min_score, preset)
        return recall_path.recall(self._kernel, _scope(scope), request)

    def context(
        self,
        scope: Scope,
        session: str,
        query: str | None = None,
        *,
        token_budget: int | None = None,
        recent_turns: int | None = None,
    ) -> MemoryContext:
        """What a prompt of this session needs: facts, summary, recalled block, recent turns (default 6 messages)."""
        check_id(session, "session")
        return context_path.build_context(
            self._kernel,
            _scope(scope),
            session,
            query,
            token_budget=token_budget,
            recent_turns=recent_turns,
            recall_k=None,
        )

    def locate(self, scope: Scope, words: str, *, k: int = 10) -> tuple[Candidate, ...]:
        """Which memories words mean, sure ones first."""
        recall_path.check_request(words, k)
        return tuple(locate_path.locate(self._kernel, _scope(scope), words, k))

    def correct(self, scope: Scope, target: str | Sequence[str], new_content: str) -> WriteOutcome:
        """Replace what ids or words mean by new words; the old ones become history. Raises NotFound."""
        return locate_path.correct(self._kernel, _scope(scope), target, new_content)

    def release(self, scope: Scope, target: str | Sequence[str]) -> tuple[str, ...]:
        """Soft forget by ids or words; the ids, for `restore`. Raises NotFound."""
        return tuple(locate_path.release(self._kernel, _scope(scope), target))

    def restore(self, scope: Scope, ids: str | Sequence[str]) -> tuple[str, ...]:
        """Undo a release or a demotion. Raises NotFound."""
        return tuple(locate_path.restore(self._kernel, _scope(scope), ids))

    def erase(
        self,
        scope: Scope,
        *,
        ids: Sequence[str] | None = None,
        identifier: str | None = None,
        also_similar: bool = False,
        everything: bool = False,
    ) -> ErasureReceipt:
        """Hard delete with every derivative; the receipt says what was looked for afterwards. Raises NotFound."""
        if everything or identifier is not None:
            self._waiting.drop(_scope(scope), None if everything else erase_path.check_identifier(identifier))
        return erase_path.erase(
            self._kernel,
            _scope(scope),
            ids=ids,
            identifier=identifier,
            also_similar=also_similar,
            everything=everything,
        )

    def get(self, scope: Scope, id: str) -> Memory | None:
        """One memory of this scope in any state, None where there is none."""
        self._settle(_scope(scope))
        with self._kernel.database.read(scope) as reader:
            return memories_store.by_ids(reader, [check_id(id, "id")]).get(id)

    def list(
        self,
        scope: Scope,
        *,
        types: Collection[str] | None = None,
        min_importance: float = 0,
        since: datetime | None = None,
        until: datetime | None = None,
        entities: Collection[str] | None = None,
        metadata: Mapping[str, Json] | None = None,
        session: str | None = None,
        include: Collection[str] = ("active",),
        visible: Collection[str] | None = None,
        turns: bool = True,
        as_of: datetime | None = None,
    ) -> tuple[Memory, ...]:
        """Every memory that passes the filters, in order of arrival; all active ones by default."""
        filters = _filters(
            types=types,
            min_importance=min_importance,
            since=since,
            until=until,
            entities=entities,
            metadata=metadata,
            session=session,
            include=include,
            visible=visible,
            turns=turns,
            as_of=as_of,
        )
        self._settle(_scope(scope))
        with self._kernel.database.read(scope) as reader:
            found = memories_store.matching(reader, filters, self._kernel.clock.now())
        return tuple(memory for _, memory in found)

    def turns(self, scope: Scope, session: str) -> tuple[Turn, ...]:
        """The transcript of a session in order of arrival."""
        with self._kernel.database.read(_scope(scope)) as reader:
            return tuple(turns_store.transcript(reader, check_id(session, "session")))

    def history(self, scope: Scope, id: str) -> tuple[Memory, ...]:
        """Every version of a memory, oldest first: what it superseded, and what superseded it."""
        with self._kernel.database.read(_scope(scope)) as reader:
            return tuple(memories_store.versions(reader, check_id(id, "id")))

    def stats(self, scope: Scope) -> Stats:
        """Counts of one scope."""
        with self._kernel.database.read(_scope(scope)) as reader:
            counts = memories_store.counts(reader)
            said, held = turns_store.counts(reader)
            facts = len(facts_store.current_facts(reader))
            awaiting = upkeep_store.waiting(reader, "vector")
        by_state = {s: sum(n for (state, _), (n, _) in counts.items() if state == s) for s in State}
        active = {kind: n for (state, kind), (n, _) in counts.items() if state == State.ACTIVE}
        characters = sum(chars for (state, _), (_, chars) in counts.items() if state == State.ACTIVE)
        return Stats(
            active=by_state[State.ACTIVE],
            cold=by_state[State.COLD],
            archived=by_state[State.ARCHIVED],
            quarantined=by_state[State.QUARANTINED],
            by_type=active,
            characters=characters,
            turns=said,
            sessions=held,
            facts=facts,
            awaiting_vectors=awaiting,
        )

    def health(self) -> Health:
        """Whether the parts work; never raises."""
        try:
            schema, database = self._kernel.database.schema_version(), True
        except StoreUnavailable:
            schema, database = "", False
        embedder = self._kernel.embedder
        return Health(
            ok=database and embedder.healthy,
            database=database,
            embedder=embedder.space,
            embedder_ok=embedder.healthy,
            schema=schema,
            enabled=self.enabled,
            counters=self._kernel.events.counters,
        )

    def pin(self, scope: Scope, id: str) -> None:
        """Protect a memory from being forgotten. Raises NotFound."""
        self._change(scope, id, pinned=True)

    def unpin(self, scope: Scope, id: str) -> None:
        """Let a memory be forgotten again. Raises NotFound."""
        self._change(scope, id, pinned=False)

    def set_importance(self, scope: Scope, id: str, importance: float) -> None:
        """Say how important a memory is, 0..1. Raises NotFound."""
        self._change(scope, id, importance=check_importance(importance))

    def set_fact(self, scope: Scope, key: str, value: Json, *, source: Source = "user") -> Fact:
        """Make a JSON value the current version of a key; the version before it stays as history."""
        return facts_path.set_fact(self._kernel, _scope(scope), key, value, source)

    def fact(self, scope: Scope, key: str, *, as_of: datetime | None = None) -> Fact | None:
        """The current version of a key, or the one that held at `as_of`."""
        name = check_key(key)
        moment = check_moment(as_of, "as_of")
        with self._kernel.database.read(_scope(scope)) as reader:
            if moment is not None:
                return facts_store.fact_at(reader, name, moment)
            return next(iter(facts_store.current_facts(reader, name)), None)

    def facts(self, scope: Scope) -> tuple[Fact, ...]:
        """The current version of every key, in order of key."""
        with self._kernel.database.read(_scope(scope)) as reader:
            return tuple(facts_store.current_facts(reader))

    def fact_history(self, scope: Scope, key: str) -> tuple[Fact, ...]:
        """Every version of a key, oldest first."""
        with self._kernel.database.read(_scope(scope)) as reader:
            return tuple(facts_store.fact_versions(reader, check_key(key)))

    def delete_fact(self, scope: Scope, key: str) -> bool:
        """End the current version of a key, keeping its history; whether there was one."""
        return facts_path.delete_fact(self._kernel, _scope(scope), key)

    def working(self, scope: Scope, session: str) -> WorkingMemory:
        """The state of a session: set, get, all, delete, clear, with a time to live."""
        return WorkingMemory(_scope(scope), session, self._kernel, self.pool)

    def end_session(self, scope: Scope, session: str) -> WriteOutcome | None:
        """Close a session: its summary is kept, its state dropped, its turns become forgettable. Raises NotFound."""
        return sessions.end_session(self._kernel, _scope(scope), check_id(session, "session"))

    def plan_forgetting(
        self,
        scope: Scope,
        *,
        policy: str | None = None,
        capacity: int | None = None,
        keep_chars: int | None = None,
        keep_tokens: int | None = None,
        ratio: float | None = None,
        threshold: float | None = None,
        task: str | None = None,
    ) -> ForgettingPlan:
        """What would be forgotten and why; changes nothing. One budget at most; none means the settings' ratio.

        `task` is what a reviewer is told about; without one it changes nothing.
        """
        if task is not None and not isinstance(task, str):
            raise InvalidInput(f"task must be a string, got {type(task).__name__}")
        budget = forget_path.Budget(capacity, keep_chars, keep_tokens, ratio, threshold)
        return forget_path.plan_forgetting(self._kernel, _scope(scope), policy, budget)

    def forget(self, scope: Scope, plan: ForgettingPlan | None = None) -> ForgettingReport:
        """Apply a plan (made now where none is given), rechecking each step; the report can be undone."""
        return forget_path.forget(self._kernel, _scope(scope), plan or self.plan_forgetting(scope))

    def undo(self, report: ForgettingReport) -> tuple[str, ...]:
        """Put back what a report changed; the ids that came back."""
        return tuple(forget_path.undo(self._kernel, report))

    def _settle(self, scope: Scope) -> None:
        """Write down the use that waits; a database that only reads is no reason not to read."""
        try:
            write_uses(self._kernel, scope)
        except StoreUnavailable as fault:
            self._kernel.events.fault("uses", fault)

    def _change(self, scope: Scope, memory_id: str, **values: object) -> None:
        check_id(memory_id, "id")
        with self._kernel.database.write(_scope(scope)) as writer:
            if not memories_store.change(writer, [memory_id], self._kernel.clock.now(), **values):
                raise NotFound(f"no memory {memory_id!r} in this scope")

    aremember = twin(remember)
    aremember_many = twin(remember_many)
    aadd_turns = twin(add_turns)
    arecall = twin(recall)
    acontext = twin(context)
    alocate = twin(locate)
    acorrect = twin(correct)
    arelease = twin(release)
    arestore = twin(restore)
    aerase = twin(erase)
    aget = twin(get)
    alist = twin(list)
    aturns = twin(turns)
    ahistory = twin(history)
    astats = twin(stats)
    ahealth = twin(health)
    apin = twin(pin)
    aunpin = twin(unpin)
    aset_importance = twin(set_importance)
    aset_fact = twin(set_fact)
    afact = twin(fact)
    afacts = twin(facts)
    afact_history = twin(fact_history)
    adelete_fact = twin(delete_fact)
    aend_session = twin(end_session)
    aplan_forgetting = twin(plan_forgetting)
    aforget = twin(forget)
    aundo = twin(undo)

    async def aclose(self) -> None:
        """Async twin of `close`; off the engine's own threads, which it ends."""
        await asyncio.to_thread(self.close)


def _unique_ref() -> str:
    return SystemClock().new_id("engine")


def _breaker(settings: Settings) -> Breaker:
    return Breaker(settings.providers.breaker_failures, settings.providers.breaker_rest)


def _scope(scope: Scope) -> Scope:
    if not isinstance(scope, Scope):
        raise InvalidInput(f"the first argument must be a Scope, got {type(scope).__name__}")
    return scope


def _several(values: Iterable[T], what: str) -> list[T]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise InvalidInput(f"{what} must be a sequence, got {type(values).__name__}")
    return list(values)


def _strings(names: Collection[str], what: str) -> tuple[str, ...]:
    if isinstance(names, str) or not isinstance(names, Collection):
        raise InvalidInput(f"{what} must be a sequence of strings, got {type(names).__name__}")
    return tuple(names)


def _filters(
    *,
    types: Collection[str] | None,
    min_importance: float,
    since: datetime | None,
    until: datetime | None,
    entities: Collection[str] | None,
    metadata: Mapping[str, Json] | None,
    session: str | None,
    include: Collection[str],
    visible: Collection[str] | None,
    turns: bool,
    as_of: datetime | None,
) -> Filters:
    return Filters(
        types=check_types(types),
        min_importance=check_importance(min_importance, "min_importance"),
        since=check_moment(since, "since"),
        until=check_moment(until, "until"),
        entities=tuple(fold_identifier(check_id(name, "entities")) for name in _strings(entities or (), "entities")),
        metadata=check_metadata(metadata),
        session=None if session is None else check_id(session, "session"),
        include=check_states(include),
        visible=None if visible is None else check_visible(visible),
        turns=turns,
        as_of=check_moment(as_of, "as_of"),
    )
