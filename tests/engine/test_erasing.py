"""Gone for good: from every place and every file, and looked for afterwards."""

import itertools

import pytest

from sf_ams_core import InvalidInput, MemoryEngine, NotFound, Scope, Turn


def files_holding(folder, text):
    return [p.name for p in folder.iterdir() if p.is_file() and text.encode() in p.read_bytes()]


@pytest.fixture
def filled(engine, scope):
    engine.add_turns(
        scope,
        "s",
        [
            Turn("user", "My neighbour Zebulon has a boat.", id="1", speaker="Ann"),
            Turn("user", "What is it called?", id="2", speaker="Bob"),
            Turn("user", "I work in Oslo.", id="3", speaker="Ann"),
        ],
    )
    engine.remember(scope, "Zebulon likes herring.", entities=["Zebulon"], metadata={"who": "Zebulon"})
    engine.remember(scope, "The office is in Oslo.")
    engine.set_fact(scope, "neighbour", {"name": "Zebulon"})
    engine.working(scope, "s").set("guest", "Zebulon")
    engine.recall(scope, "Zebulon boat")
    return engine


def test_erasing_an_identifier_leaves_no_byte_of_it(filled, scope, tmp_path):
    """Records, turns, facts, state, terms and the log of the database: nothing of the name is left anywhere."""
    receipt = filled.erase(scope, identifier="Zebulon")
    assert len(receipt.erased) == 3
    assert set(receipt.checked.values()) == {0}
    assert [t.id for t in filled.turns(scope, "s")] == ["2", "3"]
    assert filled.fact(scope, "neighbour") is None
    assert filled.working(scope, "s").get("guest") is None
    assert not any("zebulon" in h.content.casefold() for h in filled.recall(scope, "Zebulon boat herring", k=50))
    for spelling in ("Zebulon", "zebulon"):
        assert files_holding(tmp_path, spelling) == []


def test_the_rest_stays_and_is_found(filled, scope):
    """What was not named is still there, with its vectors."""
    filled.erase(scope, identifier="Zebulon")
    assert [m.content for m in filled.list(scope)] == [
        "What is it called?",
        "I work in Oslo.",
        "The office is in Oslo.",
    ]
    assert filled.recall(scope, "Where do I work?", k=1).hits[0].source_ids == ("3",)
    assert filled.stats(scope).awaiting_vectors == 0


def test_another_process_finds_nothing_either(filled, scope, url):
    """A fresh engine on the same file sees the erasure."""
    filled.erase(scope, identifier="Zebulon")
    with MemoryEngine.open(url, embedder="hash") as other:
        assert not any("zebulon" in h.content.casefold() for h in other.recall(scope, "Zebulon", k=50))


def test_an_engine_with_a_warm_cache_forgets_what_another_erased(filled, scope, url):
    """A cache of another process is outdated by the erasure."""
    with MemoryEngine.open(url, embedder="hash") as other:
        assert other.recall(scope, "Zebulon boat")
        filled.erase(scope, identifier="Zebulon")
        assert not any("zebulon" in h.content.casefold() for h in other.recall(scope, "Zebulon boat", k=50))


@pytest.mark.parametrize(
    ("erased", "kept"),
    [
        ("ann@example.com", "Write to joann@example.com for the tickets."),
        ("8890", "The invoice number is 88901."),
        ("13800138000", "The order number is 2138001380001."),
        ("Zhao Lei", "Zhao Leifeng runs the night shift."),
    ],
)
def test_a_longer_identifier_is_not_touched(engine, scope, erased, kept):
    """Only whole tokens are erased."""
    engine.remember(scope, f"The contact is {erased} for now.")
    other = engine.remember(scope, kept)
    assert len(engine.erase(scope, identifier=erased).erased) == 1
    assert engine.get(scope, other.id).content == kept


def test_spelling_does_not_hide_an_identifier(engine, scope):
    """Case, width, spaces, punctuation and +86 are folded."""
    engine.remember(scope, "Call me at +86 138-0013-8000 after six.")
    engine.remember(scope, "电话：１３８００１３８０００")
    assert len(engine.erase(scope, identifier="13800138000").erased) == 2


def test_erasing_by_ids_takes_the_turn_and_what_cites_it(engine, scope):
    """A turn's record takes its turn and every memory made of it along."""
    record = engine.add_turns(scope, "s", [Turn("user", "My locker is number twelve.", id="1")])[0]
    engine.remember(scope, "Ann has a locker.", session="s", source_ids=["1"])
    assert len(engine.erase(scope, ids=[record.id]).erased) == 2
    assert engine.turns(scope, "s") == ()


def test_erasing_the_older_words_of_a_correction_by_name_takes_all_versions(engine, scope):
    """History is erased with the present."""
    engine.remember(scope, "The tutor of Ann is Zebulon.")
    engine.remember(scope, "The tutor of Ann is Barnabas.")
    assert len(engine.erase(scope, identifier="Zebulon").erased) == 1
    assert len(engine.history(scope, engine.list(scope)[0].id)) == 1


def test_everything_means_everything_of_this_scope_only(filled, scope, tmp_path):
    """All rows of the scope go; another user's stay."""
    other = Scope("acme", "bob")
    filled.remember(other, "Bob collects stamps.")
    receipt = filled.erase(scope, everything=True)
    assert set(receipt.checked.values()) == {0}
    stats = filled.stats(scope)
    assert (stats.active, stats.archived, stats.turns, stats.facts) == (0, 0, 0, 0)
    assert files_holding(tmp_path, "Zebulon") == []
    assert filled.recall(other, "stamps")


def test_a_tombstone_without_content_stays(filled, scope):
    """An erased id is not free again and says nothing."""
    gone = filled.list(scope)[0].id
    filled.erase(scope, ids=[gone])
    assert filled.get(scope, gone) is None
    with pytest.raises(NotFound):
        filled.restore(scope, gone)


def test_unknown_ids_erase_nothing_at_all(filled, scope):
    """One wrong id and the whole erasure is refused."""
    before = len(filled.list(scope))
    with pytest.raises(NotFound):
        filled.erase(scope, ids=[filled.list(scope)[0].id, "mem_nowhere"])
    assert len(filled.list(scope)) == before


def test_a_name_in_another_script_is_listed_and_erased_only_when_asked(engine, scope):
    """Similar names are proposals unless `also_similar` and only one such name is there."""
    engine.remember(scope, "张伟负责夜班。", entities=["张伟"])
    engine.remember(scope, "Zhang Wei runs the night shift.", entities=["Zhang Wei"])
    receipt = engine.erase(scope, identifier="Zhang Wei")
    assert len(receipt.erased) == 1
    assert [c.content for c in receipt.similar] == ["张伟负责夜班。"]
    assert not receipt.similar[0].sure
    engine.erase(scope, identifier="Zhang Wei", also_similar=True)
    assert engine.list(scope) == ()


@pytest.mark.parametrize(
    "arguments",
    [{}, {"everything": False}, {"identifier": " - "}, *(
        dict(pair) for pair in itertools.combinations([("ids", ["a"]), ("identifier", "b"), ("everything", True)], 2)
    )],
)  # fmt: skip
def test_what_to_erase_must_be_said_once(engine, scope, arguments):
    """No argument, a blank identifier or two arguments are misuse."""
    with pytest.raises(InvalidInput):
        engine.erase(scope, **arguments)
