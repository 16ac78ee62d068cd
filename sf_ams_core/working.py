"""The state of one session: what was chosen, which step was reached. Lives as long as its time to live."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Self

from .aio import LazyPool, twin
from .kernel import Kernel
from .paths.drafting import check_key, check_ttl, clean_value
from .stores import facts as store
from .types import Json, Scope, check_id

_FOREVER = timedelta(days=36_500)


@dataclass(frozen=True, slots=True)
class WorkingMemory:
    """Key-value state of a session. Raises InvalidInput and StoreUnavailable."""

    scope: Scope
    session: str
    kernel: Kernel = field(repr=False)
    pool: LazyPool = field(repr=False)

    def __post_init__(self) -> None:
        check_id(self.session, "session")

    def __deepcopy__(self, memo: object) -> Self:
        return self  # frozen, and bound to the one engine

    def set(self, key: str, value: Json, *, ttl: float | None = None) -> None:
        """Set a key to a JSON value, for `ttl` seconds (by default as long as a session may idle)."""
        name = check_key(key)
        if ttl is not None:
            check_ttl(ttl)
        rules = self.kernel.settings
        seconds = ttl if ttl is not None else rules.context.session_idle_minutes * 60
        expires = self.kernel.clock.now() + min(timedelta(seconds=min(seconds, 3e9)), _FOREVER)
        kept = clean_value(name, value, rules.write)
        with self.kernel.database.write(self.scope) as writer:
            store.put_working(writer, self.session, name, kept, expires)

    def get(self, key: str, default: Json = None) -> Json:
        """The value of a key, `default` where it is not set or has expired."""
        return self.all().get(check_key(key), default)

    def all(self) -> Mapping[str, Json]:
        """Every key that is set, in order."""
        with self.kernel.database.read(self.scope) as reader:
            return store.all_working(reader, self.session, self.kernel.clock.now())

    def delete(self, key: str) -> bool:
        """Delete a key; whether it was set."""
        name = check_key(key)
        with self.kernel.database.write(self.scope) as writer:
            return store.delete_working(writer, self.session, name) > 0

    def clear(self) -> None:
        """Delete every key of the session."""
        with self.kernel.database.write(self.scope) as writer:
            store.delete_working(writer, self.session)

    aset = twin(set)
    aget = twin(get)
    aall = twin(all)
    adelete = twin(delete)
    aclear = twin(clear)
