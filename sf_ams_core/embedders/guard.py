"""Between the engine and a provider: whatever that does, the engine gets a sound answer or a ProviderFault.

    caller → Breaker (may it be asked?) → ProviderPool (a thread, a time-out) → provider
    caller ← checks (count, dimension, finite, not zero; text) ←──────────────────┘

A fault is counted and logged once, by kind. What a provider says in its exceptions may repeat the text that it was
given, so only the exception's type ever leaves the worker thread.
"""

from __future__ import annotations

import os
import re
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Literal, TypeVar, TypeVarTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import ProviderFault
from ..events import Events
from ..ports import Embedder, LanguageModel, Vectors
from ..settings import ProviderSettings
from ..types import check_id

T = TypeVar("T")
R = TypeVar("R")
Ts = TypeVarTuple("Ts")

_BACKLOG = 16  # jobs that may wait for each thread; more would only wait to time out
_IDLE_SECONDS = 60.0  # a worker without work ends, so that a pool that nobody closed leaves no thread behind
_CACHED_QUERIES = 256


class Breaker:
    """A circuit breaker: after `failures` in a row it refuses, and every `rest` seconds it lets one call try.

    `monotonic` tells the seconds. Thread-safe.
    """

    def __init__(self, failures: int, rest: float, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._limit = failures
        self._rest = rest
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._failures = 0
        self._since = 0.0

    @property
    def state(self) -> Literal["closed", "open", "half-open"]:
        """`closed`: calls pass; `open`: none does; `half-open`: the next one is the trial."""
        with self._lock:
            return self._state()

    def allow(self) -> bool:
        """Whether a call may be made now; its outcome is told by `succeeded` or `failed`."""
        with self._lock:
            state = self._state()
            if state == "half-open":
                self._since = self._monotonic()  # a trial that never reports is followed by another
            return state != "open"

    def succeeded(self) -> None:
        """An answer came: the circuit closes."""
        with self._lock:
            self._failures = 0

    def failed(self) -> None:
        """A call failed: at the limit the circuit opens, and a failed trial starts the rest anew."""
        with self._lock:
            self._failures += 1
            self._since = self._monotonic()

    def _state(self) -> Literal["closed", "open", "half-open"]:
        if self._failures < self._limit:
            return "closed"
        return "half-open" if self._monotonic() - self._since >= self._rest else "open"


@dataclass(order=True, slots=True)
class _Job:
    deadline: float
    number: int
    work: Callable[[], None] = field(compare=False)
    cancel: Callable[[], bool] = field(compare=False)


class ProviderPool:
    """At most `settings.threads` daemon threads, started when needed, in which providers run.

    The job with the nearest deadline goes first, so a recall overtakes a backlog of writes. A thread whose caller
    gave up is hung until its call returns; once all are, calls are refused at once. Thread-safe; usable after fork.
    """

    def __init__(self, settings: ProviderSettings) -> None:
        self._threads = settings.threads
        self._closed = False
        self._start_empty()
        if hasattr(os, "register_at_fork"):  # a child inherits the books but none of the threads
            start_empty = weakref.WeakMethod(self._start_empty)
            os.register_at_fork(after_in_child=lambda: (method := start_empty()) and method())

    def call(self, fn: Callable[[*Ts], T], *args: *Ts, timeout: float) -> T:
        """What `fn(*args)` returns, run with the caller's context variables, within `timeout` seconds.

        Raises ProviderFault if it raises, is late, finds no thread, or if the pool is closed.
        """
        answer: Future[T] = Future()
        work = partial(_settle, answer, copy_context(), partial(fn, *args))
        job = _Job(time.monotonic() + timeout, next(self._numbers), work, answer.cancel)
        self._submit(job)
        try:
            return answer.result(timeout)
        except TimeoutError:
            raise ProviderFault(f"the provider did not answer within {timeout:g} s") from None
        except CancelledError:
            raise ProviderFault("the provider pool was closed") from None
        finally:
            self._leave(job, answer)

    def close(self) -> None:
        """Refuse further calls, cancel those that wait and end idle threads; running calls are left to end."""
        with self._ready:
            self._closed = True
            for job in self._waiting:
                job.cancel()
            self._waiting.clear()
            idle = list(self._idle)
            self._ready.notify_all()
        for worker in idle:
            worker.join(timeout=1.0)

    @property
    def running(self) -> int:
        """How many calls run now, hung ones among them."""
        with self._ready:
            return len(self._workers) - len(self._idle)

    @property
    def waiting(self) -> int:
        """How many calls wait for a thread."""
        with self._ready:
            return len(self._waiting)

    def _start_empty(self) -> None:
        self._ready = threading.Condition()
        self._numbers = count()
        self._waiting: list[_Job] = []  # a heap
        self._workers: set[threading.Thread] = set()
        self._idle: set[threading.Thread] = set()
        self._hung: set[int] = set()  # numbers of jobs

    def _submit(self, job: _Job) -> None:
        with self._ready:
            if self._closed:
                raise ProviderFault("the provider pool was closed")
            if len(self._hung) >= self._threads:
                raise ProviderFault(f"all {self._threads} provider threads hang in calls that never returned")
            if len(self._waiting) >= self._threads * _BACKLOG:
                raise ProviderFault(f"{len(self._waiting)} calls wait for the provider already; retry later")
            if len(self._waiting) >= len(self._idle) and len(self._workers) < self._threads:
                self._hire()
            heappush(self._waiting, job)
            self._ready.notify()

    def _hire(self) -> None:
        worker = threading.Thread(target=self._work, name="sf-ams-provider", daemon=True)
        self._workers.add(worker)
        try:
            worker.start()
        except RuntimeError:  # out of threads, or the interpreter is ending
            self._workers.discard(worker)
            raise ProviderFault("no thread could be started for the provider") from None

    def _leave(self, job: _Job, answer: Future[T]) -> None:
        """The caller goes: a job that has not begun is dropped, one that runs on counts as hung."""
        with self._ready:
            if answer.cancel():
                self._waiting = [other for other in self._waiting if other is not job]
                heapify(self._waiting)
            elif not answer.done():
                self._hung.add(job.number)

    def _work(self) -> None:
        while self._work_once():
            pass

    def _work_once(self) -> bool:
        """One job; a frame of its own, so that an idle thread holds on to no text."""
        job = self._next_job()
        if job is None:
            return False
        job.work()
        with self._ready:
            self._hung.discard(job.number)
        return True

    def _next_job(self) -> _Job | None:
        me = threading.current_thread()
        with self._ready:
            self._idle.add(me)
            self._ready.wait_for(lambda: self._waiting or self._closed, timeout=_IDLE_SECONDS)
            self._idle.discard(me)
            if self._waiting:
                return heappop(self._waiting)
            self._workers.discard(me)
            return None


def _settle(answer: Future[T], context: Context, call: Callable[[], T]) -> None:
    if not answer.set_running_or_notify_cancel():
        return
    try:
        answer.set_result(context.run(call))
    except BaseException as error:  # noqa: BLE001 - a stranger's code: nothing it raises may end the worker
        answer.set_exception(ProviderFault(f"the provider raised {type(error).__name__}"))


class _Guard:
    """The way to one provider: breaker, pool, checks, and the record of what went wrong."""

    def __init__(self, name: str, pool: ProviderPool, breaker: Breaker, events: Events) -> None:
        self._name = name
        self._pool = pool
        self._breaker = breaker
        self._events = events

    @property
    def healthy(self) -> bool:
        """Whether the circuit is closed: the last calls did not all fail."""
        return self._breaker.state == "closed"

    def _call(self, provider: Callable[[], T], check: Callable[[T], R], timeout: float) -> R:
        """`check` of what the provider returns; a refusal for want of time or trust is no fault of its own."""
        if timeout <= 0:
            raise ProviderFault(f"no time was left for the {self._name}")
        if not self._breaker.allow():
            raise ProviderFault(f"the {self._name} failed several times in a row and rests")
        try:
            answer = check(self._pool.call(provider, timeout=timeout))
        except ProviderFault as fault:
            self._breaker.failed()
            self._events.fault(self._name, fault, why=str(fault))
            raise
        self._breaker.succeeded()
        return answer


class GuardedEmbedder(_Guard):
    """An embedder that answers soundly or raises ProviderFault, whatever the one inside does.

    The dimension is the number at the end of `space` (`use-m3/512`), else that of the first good answer; another
    one later is a fault. Raises InvalidInput where `embedder.space` is not a name.
    """

    def __init__(
        self, embedder: Embedder, pool: ProviderPool, breaker: Breaker, settings: ProviderSettings, events: Events
    ) -> None:
        super().__init__("embedder", pool, breaker, events)
        self._embedder = embedder
        self._settings = settings
        self._space = check_id(embedder.space, "Embedder.space")
        named = re.search(r"/([1-9]\d{0,5})$", self._space)
        self._dimension = int(named[1]) if named else 0
        self._lock = threading.Lock()
        self._queries: dict[bytes, Vectors] = {}  # filed under a digest, so that no text is kept

    @property
    def space(self) -> str:
        """The space of the embedder, as it was at construction."""
        return self._space

    @property
    def dimension(self) -> int:
        """The length of its vectors; 0 until it is known."""
        return self._dimension

    def embed(self, texts: Sequence[str], *, timeout: float | None = None) -> Vectors:
        """Unit vectors, shape (len(texts), dimension), float32, C-contiguous, asked for in batches.

        `timeout` is in seconds a batch (`ProviderSettings.embed_timeout`). Raises ProviderFault.
        """
        size = self._settings.batch
        batches = [list(texts[start : start + size]) for start in range(0, len(texts), size)]
        if not batches:
            return np.empty((0, self._dimension), dtype=np.float32)
        return np.concatenate([self._ask(self._embed_batch, batch, timeout) for batch in batches])

    def embed_query(self, text: str, *, timeout: float | None = None) -> Vectors:
        """The unit vector of a question, shape (dimension,), float32, read-only; the last 256 are remembered.

        `timeout` is in seconds. Raises ProviderFault.
        """
        key = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        with self._lock:
            vector = self._queries.pop(key, None)
        if vector is None:
            vector = self._ask(self._embed_one, [text], timeout)[0]
            vector.setflags(write=False)
        with self._lock:
            self._queries[key] = vector  # the newest stands last
            if len(self._queries) > _CACHED_QUERIES:
                del self._queries[next(iter(self._queries))]
        return vector

    def forget_queries(self) -> None:
        """Drop the remembered vectors of questions, as an erasure must."""
        with self._lock:
            self._queries.clear()

    def _ask(
        self, embed: Callable[[list[str]], NDArray[np.float64]], texts: list[str], timeout: float | None
    ) -> Vectors:
        seconds = self._settings.embed_timeout if timeout is None else timeout
        return self._call(partial(embed, texts), partial(self._checked, len(texts)), seconds)

    def _embed_batch(self, texts: list[str]) -> NDArray[np.float64]:
        return _numbers(self._embedder.embed(texts))

    def _embed_one(self, texts: list[str]) -> NDArray[np.float64]:
        embed_query = getattr(self._embedder, "embed_query", None)
        if embed_query is None:  # an embedder that makes no difference may leave it out
            return self._embed_batch(texts)
        return np.atleast_2d(_numbers(embed_query(texts[0])))

    def _checked(self, texts: int, rows: NDArray[np.float64]) -> Vectors:
        if rows.ndim != 2 or len(rows) != texts:
            raise ProviderFault(f"the embedder gave an array of shape {rows.shape} for {texts} texts")
        with self._lock:
            expected = self._dimension or rows.shape[1]
            if rows.shape[1] != expected or expected == 0:
                raise ProviderFault(f"the embedder gave {rows.shape[1]} dimensions instead of {expected}")
            unit = _unit(rows)
            self._dimension = expected
        return unit


class GuardedModel(_Guard):
    """A language model that answers with text or raises ProviderFault."""

    def __init__(
        self, llm: LanguageModel, pool: ProviderPool, breaker: Breaker, settings: ProviderSettings, events: Events
    ) -> None:
        super().__init__("model", pool, breaker, events)
        self._llm = llm
        self._settings = settings

    def complete(self, prompt: str, *, timeout: float | None = None) -> str:
        """The model's reply. `timeout` is in seconds (`ProviderSettings.model_timeout`). Raises ProviderFault."""
        seconds = self._settings.model_timeout if timeout is None else timeout
        return self._call(partial(self._llm.complete, prompt), _text, seconds)


def _numbers(answer: ArrayLike) -> NDArray[np.float64]:
    """The answer, an array or lists, in double precision; raises TypeError or ValueError where it is not numbers."""
    array = np.asarray(answer)
    if array.dtype.kind not in "fiu":
        raise TypeError(f"vectors of {array.dtype} are not numbers")
    return array.astype(np.float64)


def _unit(rows: NDArray[np.float64]) -> Vectors:
    if not np.isfinite(rows).all():
        raise ProviderFault("the embedder gave a vector with NaN or infinity")
    peak = np.abs(rows).max(axis=1, keepdims=True, initial=0.0)
    if not peak.all():
        raise ProviderFault("the embedder gave a vector of zeros")
    rows = rows / peak  # first, so that squares neither overflow nor vanish
    return np.ascontiguousarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), dtype=np.float32)


def _text(reply: object) -> str:
    if not isinstance(reply, str):
        raise ProviderFault(f"the model replied with {type(reply).__name__} instead of text")
    return reply
