"""The public names and signatures that users rely on stay as they are."""

import inspect

import pytest

import sf_ams_core
from sf_ams_core import MemoryEngine
from sf_ams_core.working import WorkingMemory

SIGNATURES = {
    "remember": "scope, content, *, type, importance, ttl, key, entities, metadata, session, source, visibility, "
    "occurred_at, source_ids",
    "remember_many": "scope, notes",
    "add_turns": "scope, session, turns",
    "recall": "scope, query, *, k, types, min_importance, since, until, entities, metadata, session, include, visible, "
    "turns, min_score, preset, as_of",
    "context": "scope, session, query, *, token_budget, recent_turns",
    "locate": "scope, words, *, k",
    "correct": "scope, target, new_content",
    "release": "scope, target",
    "restore": "scope, ids",
    "erase": "scope, *, ids, identifier, also_similar, everything",
    "get": "scope, id",
    "list": "scope, *, types, min_importance, since, until, entities, metadata, session, include, visible, turns, "
    "as_of",
    "turns": "scope, session",
    "history": "scope, id",
    "stats": "scope",
    "health": "",
    "pin": "scope, id",
    "unpin": "scope, id",
    "set_importance": "scope, id, importance",
    "set_fact": "scope, key, value, *, source",
    "fact": "scope, key, *, as_of",
    "facts": "scope",
    "fact_history": "scope, key",
    "delete_fact": "scope, key",
    "end_session": "scope, session",
    "plan_forgetting": "scope, *, policy, capacity, keep_chars, keep_tokens, ratio, threshold, task",
    "forget": "scope, plan",
    "undo": "report",
    "close": "",
}
DEFAULTS = {
    "remember": {"type": None, "source": "user", "visibility": "default", "entities": (), "ttl": None},
    "recall": {"k": 5, "include": ("active",), "visible": ("default",), "turns": True, "min_importance": 0},
    "context": {"query": None, "token_budget": None, "recent_turns": None},
    "locate": {"k": 10},
    "erase": {"ids": None, "identifier": None, "also_similar": False, "everything": False},
    "forget": {"plan": None},
    "fact": {"as_of": None},
}


def written(signature):
    names, starred = [], False
    for parameter in list(signature.parameters.values())[1:]:
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and not starred:
            names.append("*")
            starred = True
        names.append(parameter.name)
    return ", ".join(names)


@pytest.mark.parametrize("verb", SIGNATURES)
def test_verbs_keep_their_signatures(verb):
    """Every verb takes what the contract says, by these names, in this order."""
    assert written(inspect.signature(getattr(MemoryEngine, verb))) == SIGNATURES[verb]


@pytest.mark.parametrize("verb", SIGNATURES)
def test_every_verb_has_an_async_twin_of_the_same_signature(verb):
    """`a` + verb takes the same arguments and is a coroutine function."""
    twin = getattr(MemoryEngine, f"a{verb}")
    assert inspect.iscoroutinefunction(twin)
    assert inspect.signature(twin) == inspect.signature(getattr(MemoryEngine, verb))


@pytest.mark.parametrize("verb", DEFAULTS)
def test_defaults_are_the_contracts(verb):
    """What a caller leaves out means what the contract says."""
    parameters = inspect.signature(getattr(MemoryEngine, verb)).parameters
    assert {name: parameters[name].default for name in DEFAULTS[verb]} == DEFAULTS[verb]


def test_open_takes_the_contracts_arguments():
    """`open` has the contract's arguments and defaults."""
    parameters = inspect.signature(MemoryEngine.open).parameters
    assert {name: p.default for name, p in parameters.items()} == {
        "url": "sqlite:///sf_ams.db",
        "embedder": "auto",
        "llm": None,
        "index": "exact",
        "settings": None,
        "clock": None,
        "queue": None,
    }


def test_every_public_verb_is_pinned():
    """No verb enters or leaves the engine unseen."""
    public = {
        name
        for name, value in vars(MemoryEngine).items()
        if not name.startswith("_") and inspect.isfunction(value) and not inspect.iscoroutinefunction(value)
    }
    assert public == set(SIGNATURES) | {"conversation", "working"}


@pytest.mark.parametrize("verb", ["set", "get", "all", "delete", "clear"])
def test_working_memory_has_its_verbs(verb):
    """Session state is set, read and cleared, sync and async."""
    assert callable(getattr(WorkingMemory, verb))
    assert inspect.iscoroutinefunction(getattr(WorkingMemory, f"a{verb}"))


@pytest.mark.parametrize(
    ("noun", "fields"),
    [
        ("Scope", "tenant user namespace"),
        ("Turn", "role content id speaker at payload"),
        (
            "Memory",
            "id scope type content importance entities metadata key source source_ids trust visibility pinned "
            "created_at occurred_at updated_at last_accessed_at access_count expires_at state superseded_by "
            "embedding_version session speaker",
        ),
        ("Hit", "memory content score parts routes source_ids"),
        ("Recall", "hits trace_id degraded took_ms"),
        ("MemoryContext", "text messages cited tokens trace_id recall"),
        ("Candidate", "id content score sure why"),
        ("ErasureReceipt", "erased similar checked"),
        (
            "Note",
            "content type importance ttl key entities metadata session source visibility occurred_at source_ids",
        ),
    ],
)
def test_nouns_keep_their_fields(noun, fields):
    """A noun has the contract's fields, in order."""
    assert " ".join(getattr(sf_ams_core, noun).__dataclass_fields__) == fields


def test_note_takes_the_keyword_arguments_of_remember():
    """`Note` and `remember` can't drift apart."""
    arguments = list(inspect.signature(MemoryEngine.remember).parameters)[2:]
    assert list(sf_ams_core.Note.__dataclass_fields__) == arguments
