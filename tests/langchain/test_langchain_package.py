"""The package as it is imported."""

from __future__ import annotations

import subprocess
import sys

import pytest


def python(code: str) -> str:
    """What a fresh interpreter prints."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_importing_the_package_loads_no_framework() -> None:
    """Names are loaded when used."""
    heavy = "('langchain', 'langchain_core', 'langgraph')"
    assert python(f"import sys, sf_ams_langchain; print([m for m in {heavy} if m in sys.modules])") == "[]"


def test_a_history_loads_no_agents() -> None:
    """The history needs langchain-core alone."""
    code = "import sys; from sf_ams_langchain import SFAMSChatMessageHistory; print('langgraph' in sys.modules)"
    assert python(code) == "False"


@pytest.mark.parametrize("missing", ["langchain_core", "langgraph", "langchain"])
def test_a_missing_package_is_named_with_its_install_line(missing: str) -> None:
    """Without the extra the one error says what to install."""
    code = f"""
import sys
sys.modules[{missing!r}] = None
try:
    from sf_ams_langchain import SFAMSMiddleware
except ImportError as fault:
    print(type(fault).__name__, "sf-ams[langchain]" in str(fault))
"""
    assert python(code) == "MissingExtra True"
