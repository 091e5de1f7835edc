"""The notebooks run from top to bottom, and are committed without their outputs."""

import json
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "docs"))

from cells import run_cell

NOTEBOOKS = sorted((Path(__file__).parents[2] / "docs" / "notebooks").glob("*.ipynb"))


def cells(path):
    return json.loads(path.read_text(encoding="utf-8"))["cells"]


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs(path, tmp_path, monkeypatch):
    """Cell by cell in one namespace, as a kernel does; what the last line of a cell is, is shown."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    namespace = {"__name__": "notebook"}
    started = time.process_time()
    for number, cell in enumerate(cells(path)):
        if cell["cell_type"] == "code":
            shown = run_cell("".join(cell["source"]), namespace, f"{path.name}, cell {number}")
            assert shown is None or repr(shown)
    assert time.process_time() - started < 20


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_is_committed_without_outputs(path):
    assert NOTEBOOKS
    found = json.loads(path.read_text(encoding="utf-8"))
    assert (found["nbformat"], found["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in found["cells"]}) == len(found["cells"])
    assert not [cell for cell in found["cells"] if cell.get("outputs") or cell.get("execution_count")]
    assert found["cells"][0]["source"][0].startswith("# ")
