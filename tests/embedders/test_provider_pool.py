"""The pool in which providers run: an answer in time or a fault, and never a thread too many."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from functools import partial
from typing import TypeVar

import pytest

from sf_ams_core.embedders import ProviderPool
from sf_ams_core.errors import ProviderFault
from sf_ams_core.settings import ProviderSettings

T = TypeVar("T")

SECRET = "the user's blood type is AB"
SOON = 0.02  # seconds; long enough for a thread to start, short enough to wait for
AMPLE = 10.0  # seconds that no test waits out
SETTINGS = ProviderSettings(threads=2)


@pytest.fixture
def release() -> Iterator[threading.Event]:
    """What hanging calls wait for; set when the test is over."""
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture
def pool() -> Iterator[ProviderPool]:
    """A pool of two threads."""
    pool = ProviderPool(SETTINGS)
    yield pool
    pool.close()


def _until(true: Callable[[], bool]) -> None:
    """Wait until another thread has made it so."""
    for _ in range(10_000_000):
        if true():
            return
    raise AssertionError("it never came true")


def _later(callers: ThreadPoolExecutor, pool: ProviderPool, fn: Callable[[], T], timeout: float) -> Future[T]:
    """A call made from a thread of its own."""
    return callers.submit(lambda: pool.call(fn, timeout=timeout))


def test_a_pool_starts_no_thread_before_it_is_used() -> None:
    """Making a pool, as `open` does, starts nothing."""
    before = threading.active_count()
    ProviderPool(SETTINGS).close()
    assert threading.active_count() == before


def test_a_call_returns_what_the_function_returns(pool: ProviderPool) -> None:
    """Arguments go in and the result comes out."""
    assert pool.call(divmod, 17, 5, timeout=AMPLE) == (3, 2)


def test_a_call_sees_the_context_of_its_caller(pool: ProviderPool) -> None:
    """Context variables (a tracing span, a locale) are those of the caller."""
    current: ContextVar[str] = ContextVar("current", default="nobody")
    current.set("alice")
    assert pool.call(current.get, timeout=AMPLE) == "alice"


@pytest.mark.parametrize("error", [ValueError, KeyError, SystemExit, KeyboardInterrupt, TimeoutError, ProviderFault])
def test_whatever_is_raised_becomes_a_fault(pool: ProviderPool, error: type[BaseException]) -> None:
    """Any exception, even one meant to end the process, is a ProviderFault that names its type alone."""

    def fail() -> None:
        raise error(SECRET)

    for _ in range(2 * SETTINGS.threads):  # and no worker dies of it
        with pytest.raises(ProviderFault, match=error.__name__) as raised:
            pool.call(fail, timeout=AMPLE)
        assert SECRET not in "".join(traceback.format_exception(raised.value))


def test_a_late_answer_is_a_fault(pool: ProviderPool, release: threading.Event) -> None:
    """A call that takes longer than its time-out is given up."""
    with pytest.raises(ProviderFault, match="did not answer within"):
        pool.call(release.wait, timeout=SOON)


def test_one_hung_thread_leaves_the_others_working(pool: ProviderPool, release: threading.Event) -> None:
    """The pool goes on with the threads that it has left."""
    with pytest.raises(ProviderFault):
        pool.call(release.wait, timeout=SOON)
    assert pool.call(len, "four", timeout=AMPLE) == 4


def test_a_pool_that_hangs_refuses_at_once_and_recovers(pool: ProviderPool) -> None:
    """While every thread hangs nobody waits out a time-out; when one returns, calls pass again."""
    release, entered = threading.Event(), []

    def hang() -> None:
        entered.append(threading.current_thread())
        release.wait()

    while len(entered) < SETTINGS.threads:
        with pytest.raises(ProviderFault, match="within"):
            pool.call(hang, timeout=SOON)
    with pytest.raises(ProviderFault, match="hang"):
        pool.call(len, "four", timeout=10 * AMPLE)
    release.set()
    _until(lambda: pool.running == 0)
    assert pool.call(len, "four", timeout=AMPLE) == 4


def test_there_are_never_more_threads_than_set(pool: ProviderPool) -> None:
    """However many callers, the provider meets at most `threads` of them at once."""
    lock, inside, most = threading.Lock(), 0, 0

    def visit(_: int) -> None:
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
        with lock:
            inside -= 1

    with ThreadPoolExecutor(8) as callers:
        list(callers.map(lambda n: pool.call(visit, n, timeout=AMPLE), range(200)))
    assert 1 <= most <= SETTINGS.threads


def test_the_nearest_deadline_goes_first(release: threading.Event) -> None:
    """A recall in a hurry overtakes writes that wait already."""
    pool = ProviderPool(ProviderSettings(threads=1))
    order: list[str] = []
    with ThreadPoolExecutor(4) as callers:
        _later(callers, pool, release.wait, AMPLE)
        _until(lambda: pool.running == 1 and pool.waiting == 0)
        waiting: list[Future[None]] = []
        for name, timeout in (("write", 3 * AMPLE), ("write", 3 * AMPLE), ("recall", 2 * AMPLE)):
            waiting.append(_later(callers, pool, partial(order.append, name), timeout))
            _until(lambda: pool.waiting == len(waiting))
        release.set()
        for each in waiting:
            each.result(AMPLE)
    pool.close()
    assert order == ["recall", "write", "write"]


def test_a_full_pool_refuses_at_once(release: threading.Event) -> None:
    """Where more wait than could be served, the next caller is told to come back later."""
    pool = ProviderPool(ProviderSettings(threads=1))
    with ThreadPoolExecutor(32) as callers:
        _later(callers, pool, release.wait, AMPLE)
        _until(lambda: pool.running == 1 and pool.waiting == 0)
        for _ in range(16):
            _later(callers, pool, release.wait, AMPLE)
        _until(lambda: pool.waiting == 16)
        with pytest.raises(ProviderFault, match="retry later"):
            pool.call(len, "four", timeout=10 * AMPLE)
        release.set()
    pool.close()


def test_a_caller_that_waits_in_vain_leaves_the_queue(pool: ProviderPool, release: threading.Event) -> None:
    """A call given up before it began is never made."""
    made: list[int] = []
    with ThreadPoolExecutor(2) as callers:
        hanging = [_later(callers, pool, release.wait, AMPLE) for _ in range(SETTINGS.threads)]
        _until(lambda: pool.running == SETTINGS.threads and pool.waiting == 0)
        with pytest.raises(ProviderFault, match="within"):
            pool.call(made.append, 1, timeout=SOON)
        assert pool.waiting == 0
        release.set()
        for each in hanging:
            each.result(AMPLE)
    pool.call(len, "four", timeout=AMPLE)
    assert made == []


def test_a_closed_pool_refuses_and_leaves_no_idle_thread() -> None:
    """After `close` idle threads are gone, and calls are faults."""
    before = threading.active_count()
    pool = ProviderPool(SETTINGS)
    pool.call(len, "four", timeout=AMPLE)
    pool.close()
    _until(lambda: threading.active_count() <= before)
    with pytest.raises(ProviderFault, match="closed"):
        pool.call(len, "four", timeout=AMPLE)
    pool.close()


def test_closing_frees_those_who_wait(release: threading.Event) -> None:
    """A caller in the queue of a pool that closes gets its fault at once."""
    pool = ProviderPool(ProviderSettings(threads=1))
    with ThreadPoolExecutor(2) as callers:
        _later(callers, pool, release.wait, AMPLE)
        _until(lambda: pool.running == 1 and pool.waiting == 0)
        waiting = _later(callers, pool, partial(len, "four"), 100 * AMPLE)
        _until(lambda: pool.waiting == 1)
        pool.close()
        with pytest.raises(ProviderFault, match="closed"):
            waiting.result(AMPLE)
        release.set()


def test_an_idle_pool_keeps_nothing_of_a_call(pool: ProviderPool) -> None:
    """Once answered, neither the arguments nor the result are held by the pool."""

    class Thing:
        pass

    def held() -> int:
        gc.collect()
        return sum(isinstance(each, Thing) for each in gc.get_objects())

    pool.call(lambda thing: None, Thing(), timeout=AMPLE)
    _until(lambda: pool.running == 0)
    assert held() == 0


def test_a_hung_provider_does_not_keep_the_process_alive() -> None:
    """The interpreter ends although a provider never returns."""
    code = """
import threading
from sf_ams_core.embedders import ProviderPool
from sf_ams_core.errors import ProviderFault
from sf_ams_core.settings import ProviderSettings
try:
    ProviderPool(ProviderSettings()).call(threading.Event().wait, timeout=0.01)
except ProviderFault:
    print("gave up")
"""
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert (told.stdout, told.stderr) == ("gave up\n", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_can_use_the_pool() -> None:
    """A child that inherits a pool starts threads of its own."""
    code = """
import os, threading
from sf_ams_core.embedders import ProviderPool
from sf_ams_core.settings import ProviderSettings
pool = ProviderPool(ProviderSettings(threads=1))
pool.call(len, "four", timeout=10)
child = os.fork()
if child == 0:
    os._exit(pool.call(len, "four", timeout=10))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert told.stdout == "4\n"
