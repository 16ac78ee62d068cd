"""Whose memory a call is about: said by a constructor, else by the run, never by an argument that a model chose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from langchain_core.runnables.config import ensure_config

from sf_ams_core.errors import InvalidScope
from sf_ams_core.types import Scope

DEFAULT = "default"
_PARTS = ("tenant_id", "user_id", "namespace", "session_id")


@dataclass(frozen=True)
class MemoryContext:
    """What an agent's run says about whose memory it uses: `create_agent(..., context_schema=MemoryContext)`.

    A part that is None is looked up in `config["configurable"]`, then defaults to "default"; `session_id` defaults to
    the run's `thread_id`. Any object or mapping with a `user_id` may stand in for it.
    """

    user_id: str
    tenant_id: str | None = None
    namespace: str | None = None
    session_id: str | None = None


@dataclass(frozen=True, slots=True)
class Identity:
    """What a constructor said. With a `user_id` the scope is closed and nothing in a run can change it.

    Raises InvalidScope where a part that was given is blank, too long or no string.
    """

    tenant_id: str | None = None
    user_id: str | None = None
    namespace: str = DEFAULT
    session_id: str | None = None

    def __post_init__(self) -> None:
        Scope(_given(self.tenant_id), _given(self.user_id), self.namespace)

    def resolve(self, context: object = None) -> tuple[Scope, str | None]:
        """The scope and, if known, the session of the run that this is called in; `context` is its runtime context.

        Raises InvalidScope where neither the constructor nor the run names a user.
        """
        run = _said_by_run(context)
        return self._scope(run), self.session_id or run.get("session_id")

    def _scope(self, run: Mapping[str, str]) -> Scope:
        if self.user_id is not None:
            return Scope(_given(self.tenant_id), self.user_id, self.namespace)
        if "user_id" not in run:
            raise InvalidScope(
                "no user: pass user_id to the constructor, or run with context=MemoryContext(user_id=...) "
                "or config={'configurable': {'user_id': ...}}"
            )
        namespace = run.get("namespace", DEFAULT) if self.namespace == DEFAULT else self.namespace
        return Scope(self.tenant_id or run.get("tenant_id", DEFAULT), run["user_id"], namespace)


def configurable() -> Mapping[str, object]:
    """`config["configurable"]` of the run that this is called in; empty outside of runs."""
    return ensure_config().get("configurable", {})


def _given(part: str | None) -> str:
    return DEFAULT if part is None else part


def _said_by_run(context: object) -> dict[str, str]:
    config = configurable()
    said = {part: _read(context, part, config.get(part)) for part in _PARTS}
    thread = config.get("thread_id")
    if said["session_id"] is None and thread is not None:
        said["session_id"] = str(thread)
    # Scope refuses what is no string; a number is not turned into one, or 1 and "1" would share their memory.
    return {part: value for part, value in said.items() if value is not None}  # type: ignore[misc]


def _read(context: object, part: str, otherwise: object) -> object:
    value = context.get(part) if isinstance(context, Mapping) else getattr(context, part, None)
    return otherwise if value is None else value
