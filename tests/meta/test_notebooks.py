"""The notebooks run from top to bottom, offline, in the environment of the tests, and are kept without outputs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat import NotebookNode

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
FIRST = NOTEBOOKS / "01_first_memory.ipynb"
SECONDS = 120  # a cell


def read(path: Path) -> NotebookNode:
    """A notebook, checked against the format. Raises ValidationError."""
    notebook: NotebookNode = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    nbformat.validate(notebook)
    return notebook


def code_cells(notebook: NotebookNode) -> list[NotebookNode]:
    """The cells that run."""
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


@contextmanager
def executed(path: Path, folder: Path) -> Iterator[NotebookNode]:
    """The notebook with its outputs, run in `folder` by a kernel that is gone afterwards, whatever happened."""
    client = NotebookClient(
        read(path), timeout=SECONDS, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    )
    kernel = client.create_kernel_manager()
    try:
        yield client.execute()
    finally:
        assert not kernel.has_kernel


def printed(cell: NotebookNode) -> str:
    """What a cell wrote to its standard output."""
    return "".join(output.text for output in cell.outputs if output.output_type == "stream" and output.name == "stdout")


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem)
def test_notebooks_are_kept_without_outputs(path: Path) -> None:
    """A notebook in the repository holds no output and no count of runs, so that its changes can be read."""
    assert all(not cell.outputs and cell.execution_count is None for cell in code_cells(read(path)))


def test_the_first_memory_runs_from_install_to_undo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten cells: the memory recalls, corrects itself, serves both frameworks, forgets and takes it back."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
        monkeypatch.setenv(name, os.fspath(tmp_path / name.lower()))
    with executed(FIRST, tmp_path) as notebook:
        outputs = {cell.id: printed(cell) for cell in code_cells(notebook)}
    assert len(notebook.cells) == 10
    assert outputs["step-3"].startswith("The Orion launch is on 12 May.")
    assert outputs["step-4"].splitlines() == [
        "['The Orion launch has moved to 19 May.']",
        "['The Orion launch has moved to 19 May.', 'The Orion launch is on 12 May.']",
    ]
    assert "I prefer answers in bullet points." in outputs["step-5"]
    assert outputs["step-6"].endswith("The Orion launch has moved to 19 May.\n")
    assert outputs["step-7"] == "True\n"
    assert outputs["step-8"].endswith("| Ben had soup.\n")
    assert outputs["step-9"].splitlines() == [
        "['Ben is allergic to peanuts.']",
        "['Ben is allergic to peanuts.', 'Ben had soup.']",
    ]
