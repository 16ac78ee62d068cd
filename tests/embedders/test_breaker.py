"""The circuit breaker: when a provider is left alone, and when it is tried again."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from sf_ams_core.embedders import Breaker
from sf_ams_core.testing import FakeClock


def test_the_circuit_opens_after_failures_in_a_row() -> None:
    """Two failures and a success do not open it; three in a row do."""
    breaker = Breaker(3, 30.0, FakeClock().monotonic)
    for outcome in (breaker.failed, breaker.failed, breaker.succeeded, breaker.failed, breaker.failed):
        outcome()
    assert (breaker.state, breaker.allow()) == ("closed", True)
    breaker.failed()
    assert (breaker.state, breaker.allow()) == ("open", False)


def test_a_rested_circuit_lets_one_call_try() -> None:
    """After the rest one call passes; the others wait for its outcome."""
    clock = FakeClock()
    breaker = Breaker(1, 30.0, clock.monotonic)
    breaker.failed()
    clock.advance(seconds=30)
    assert breaker.state == "half-open"
    assert [breaker.allow(), breaker.allow()] == [True, False]
    breaker.succeeded()
    assert (breaker.state, breaker.allow()) == ("closed", True)


def test_a_failed_trial_starts_the_rest_anew() -> None:
    """The circuit stays open for another whole rest after a trial that failed."""
    clock = FakeClock()
    breaker = Breaker(1, 30.0, clock.monotonic)
    breaker.failed()
    clock.advance(seconds=31)
    assert breaker.allow()
    breaker.failed()
    clock.advance(seconds=29)
    assert not breaker.allow()


def test_a_trial_that_never_reports_is_followed_by_another() -> None:
    """A caller that dies during the trial does not leave the circuit open for ever."""
    clock = FakeClock()
    breaker = Breaker(1, 30.0, clock.monotonic)
    breaker.failed()
    clock.advance(seconds=30)
    assert breaker.allow()
    clock.advance(seconds=30)
    assert breaker.allow()


def test_only_one_of_many_threads_tries() -> None:
    """Of threads that ask at once when the rest is over, one is let through."""
    clock = FakeClock()
    breaker = Breaker(1, 30.0, clock.monotonic)
    breaker.failed()
    clock.advance(seconds=30)
    with ThreadPoolExecutor(8) as threads:
        allowed = list(threads.map(lambda _: breaker.allow(), range(64)))
    assert sum(allowed) == 1
