"""Random operations over many scopes: nobody ever meets a row of somebody else."""

import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from sf_ams_core import MemoryEngine, NotFound, Scope, Turn
from sf_ams_core.testing import FakeClock

SCOPES = [Scope(t, u, n) for t in ("t", "T") for u in ("u", "u1", "ü", "%") for n in ("default", "d")]
WORDS = ["cats", "dogs", "rivers", "预算", "演示", "尾号"]
scopes = st.sampled_from(SCOPES)
words = st.sampled_from(WORDS)


class Isolation(RuleBasedStateMachine):
    """Each record carries the name of its owner; whatever comes out must be the owner's."""

    @initialize()
    def open(self):
        self.folder = tempfile.TemporaryDirectory()
        self.engine = MemoryEngine.open(
            f"sqlite:///{Path(self.folder.name) / 'm.db'}", embedder="hash", clock=FakeClock()
        )
        self.owned = {scope: set() for scope in SCOPES}
        self.number = 0

    def teardown(self):
        if hasattr(self, "engine"):
            self.engine.close()
            self.folder.cleanup()

    def mark(self, scope):
        self.number += 1
        return f"owner{SCOPES.index(scope)} number{self.number}"

    def mine(self, scope, contents):
        assert all(f"owner{SCOPES.index(scope)} " in content for content in contents), contents

    @rule(scope=scopes, word=words)
    def remember(self, scope, word):
        outcome = self.engine.remember(scope, f"{self.mark(scope)} keeps {word}")
        if outcome.id:
            self.owned[scope].add(outcome.id)

    @rule(scope=scopes, word=words)
    def say(self, scope, word):
        for outcome in self.engine.add_turns(scope, "s", [Turn("user", f"{self.mark(scope)} said {word}", id="same")]):
            if outcome.id:
                self.owned[scope].add(outcome.id)

    @rule(scope=scopes, word=words)
    def recall(self, scope, word):
        self.mine(scope, [h.content for h in self.engine.recall(scope, f"{word} owner number", k=50)])

    @rule(scope=scopes, word=words)
    def context(self, scope, word):
        context = self.engine.context(scope, "s", word)
        self.mine(scope, [t.content for t in context.messages])
        assert set(context.cited) <= self.owned[scope]

    @rule(scope=scopes, other=scopes)
    def reach_across(self, scope, other):
        for memory_id in sorted(self.owned[other] - self.owned[scope])[:1]:
            assert self.engine.get(scope, memory_id) is None
            for verb in (self.engine.release, self.engine.pin, self.engine.correct):
                try:
                    verb(scope, memory_id, "stolen words") if verb == self.engine.correct else verb(scope, memory_id)
                except NotFound:
                    continue
                raise AssertionError(f"{verb.__name__} reached another scope")

    @rule(scope=scopes)
    def forget(self, scope):
        report = self.engine.forget(scope, self.engine.plan_forgetting(scope, ratio=0.5))
        assert {step.id for step in report.applied} <= self.owned[scope]

    @rule(scope=scopes)
    def erase(self, scope):
        assert set(self.engine.erase(scope, everything=True).erased) <= self.owned[scope]
        self.owned[scope] = set()

    @invariant()
    def everybody_has_only_their_own(self):
        if hasattr(self, "engine"):
            scope = SCOPES[self.number % len(SCOPES)]
            self.mine(scope, [m.content for m in self.engine.list(scope)])


TestIsolation = Isolation.TestCase
TestIsolation.settings = settings(
    max_examples=12, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
