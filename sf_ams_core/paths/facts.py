"""Exact facts: one current version a key, every older one kept, and a record so that recall finds it.

key, value ──redact──▶ new version + keyed record, one transaction; the record before is superseded
"""

from __future__ import annotations

import json
from dataclasses import replace

from ..errors import InvalidInput, StoreUnavailable
from ..kernel import Kernel
from ..rules import privacy, text
from ..stores import facts as store
from ..stores import memories
from ..types import Fact, Json, Note, Refused, Scope, Source, State, check_id
from .drafting import check_json, draft_note
from .write import write_drafts


def set_fact(kernel: Kernel, scope: Scope, key: str, value: Json, source: Source) -> Fact:
    """Make `value` the current version of `key`. Raises InvalidInput and StoreUnavailable."""
    check_id(key, "key")
    check_json(value, "value")
    rules = kernel.settings.write
    kept, _ = privacy.redact_json(value, phones=rules.redact_phones, emails=rules.redact_emails)
    name = text.clean(key)
    with kernel.database.read(scope) as reader:
        current = store.current_facts(reader, name)
    if current and current[0].value == kept:
        return current[0]
    spoken = kept if isinstance(kept, str) else json.dumps(kept, ensure_ascii=False)
    note = Note(f"{name}: {spoken}", type="fact", key=name, source=source)
    # The user's own settings are facts whatever they look like: only misuse and switched-off memory keep them out.
    draft = draft_note(note, scope, kernel.settings, kernel.clock)
    if isinstance(draft, Refused) or not kernel.enabled:
        with kernel.database.write(scope) as writer:
            return store.put_fact(writer, name, kept, kernel.clock.now(), source, None)
    write_drafts(kernel, scope, [replace(draft, value=kept, keeps_value=True)])
    with kernel.database.read(scope) as reader:
        held = store.current_facts(reader, name)
    if not held:
        raise StoreUnavailable("the fact was changed by another writer at the same moment; set it again")
    return held[0]


def delete_fact(kernel: Kernel, scope: Scope, key: str) -> bool:
    """End the current version of a key; its history stays. Whether there was one."""
    name = text.clean(check_id(key, "key"))
    now = kernel.clock.now()
    with kernel.database.write(scope) as writer:
        ended = store.end_fact(writer, name, now)
        ids = [m.id for m in memories.with_key(writer, name)]
        memories.set_state(writer, ids, State.ARCHIVED, "released", now, retired_at=now)
    return ended


def check_key(key: str) -> str:
    """A fact's key as it is stored. Raises InvalidInput."""
    if not isinstance(key, str):
        raise InvalidInput(f"key must be a string, got {type(key).__name__}")
    return text.clean(check_id(key, "key"))
