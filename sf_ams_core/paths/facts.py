"""Exact facts: one current version a key, every older one kept, and a record so that recall finds it.

key, value ──redact──▶ new version + keyed record, one transaction; the record before is superseded
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime

from ..errors import InvalidInput, StoreUnavailable
from ..kernel import Kernel
from ..stores import facts as store
from ..stores import memories
from ..stores.database import Writer
from ..types import Fact, Json, Note, Refused, Scope, Source, State
from .drafting import TRUST, check_key, clean_value, draft_note
from .write import write_drafts


def set_fact(kernel: Kernel, scope: Scope, key: str, value: Json, source: Source) -> Fact:
    """Make `value` the current version of `key`. Raises InvalidInput and StoreUnavailable."""
    name = check_key(key)
    kept = clean_value(name, value, kernel.settings.write)
    with kernel.database.read(scope) as reader:
        current = store.current_facts(reader, name)
    if current and _same(current[0].value, kept):
        return current[0]
    if source not in TRUST:
        raise InvalidInput(f"unknown source {source!r}; use one of {', '.join(TRUST)}")
    if current and TRUST[source] < TRUST[current[0].source]:
        raise InvalidInput(f"{source} may not change what {current[0].source} set under this key")
    spoken = kept if isinstance(kept, str) else json.dumps(kept, ensure_ascii=False)
    note = Note(f"{name}: {spoken}", type="fact", key=name, source=source)
    # The user's own settings are facts whatever they look like: only misuse and switched-off memory keep them out.
    draft = draft_note(note, scope, kernel.settings, kernel.clock)
    if isinstance(draft, Refused) or not kernel.enabled:
        now = kernel.clock.now()
        with kernel.database.write(scope) as writer:
            _let_go(writer, name, now)  # recall must not tell the value before
            return store.put_fact(writer, name, kept, now, source, None)
    write_drafts(kernel, scope, [replace(draft, value=kept, keeps_value=True)])
    with kernel.database.read(scope) as reader:
        held = store.current_facts(reader, name)
    if not held:
        raise StoreUnavailable("the fact was changed by another writer at the same moment; set it again")
    return held[0]


def _same(first: Json, second: Json) -> bool:
    """Whether two values are one, by type too: 1, True and "1" are three."""
    return json.dumps(first, sort_keys=True) == json.dumps(second, sort_keys=True)


def delete_fact(kernel: Kernel, scope: Scope, key: str) -> bool:
    """End the current version of a key; its history stays. Whether there was one."""
    name = check_key(key)
    now = kernel.clock.now()
    with kernel.database.write(scope) as writer:
        ended = store.end_fact(writer, name, now)
        _let_go(writer, name, now)
    return ended


def _let_go(writer: Writer, name: str, now: datetime) -> None:
    ids = [memory.id for memory in memories.with_key(writer, name)]
    memories.set_state(writer, ids, State.ARCHIVED, "released", now, retired_at=now)
