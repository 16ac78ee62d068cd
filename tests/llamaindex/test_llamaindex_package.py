"""The package as a whole."""

from __future__ import annotations

import subprocess
import sys


def test_a_missing_framework_is_named_with_its_install_line() -> None:
    """Without llama-index-core the import says what to install."""
    code = "import sys; sys.modules['llama_index'] = None; import sf_ams_llamaindex"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "MissingExtra: 'llama-index-core' is not installed. Run: pip install 'sf-ams[llamaindex]'" in done.stderr
