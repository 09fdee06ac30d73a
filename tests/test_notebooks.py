"""The notebooks run from the first cell to the last, and hold no outputs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.kernels import Kernels

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))

# Of the quickstart all cells run in a real JupyterLab: see test_quickstart.
RUN = [path for path in NOTEBOOKS if path.stem != "01_quickstart"]

# Who reads between the cells of notebooks with queries that run: what has happened before the next cell. It looks, five
# times a second: each look takes a peer's answer.
READERS = {
    "00_tour": """
from threading import Event as _Event
_newest = lambda: application.latest(1)["window_end"].to_physical().max() or 0
_until = _newest() + 2_000_000  # two more windows
while application.status == "running" and _newest() < _until:
    _Event().wait(0.2)
""",
    "07_replication": """
_newest = lambda: steady.latest(1)["n"].max() or 0
_until = _newest() + 4 * RATE  # rows of two more seconds
while steady.status == "running" and not end.is_set() and _newest() < _until:
    end.wait(0.2)
""",
}

WIDTH = 88  # characters of a line, as JupyterLab shows them beside its side bar


def test_notebooks_are_found_for_the_other_tests() -> None:
    assert NOTEBOOKS


def test_the_readme_names_every_notebook() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    named = {word.removesuffix(".ipynb") for word in re.findall(r"notebooks/(\w+\.ipynb)", readme)}
    assert named == {path.stem for path in NOTEBOOKS}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_no_outputs_are_stored(path: Path) -> None:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_cells_are_narrow_enough_to_read_without_scrolling(path: Path) -> None:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    wide = [line for cell in cells for line in "".join(cell["source"]).splitlines() if len(line) > WIDTH]
    assert not wide


@pytest.mark.slow(30)
@pytest.mark.timeout(360)  # they take less than half a minute where nothing else runs
@pytest.mark.parametrize("path", RUN, ids=lambda path: path.stem)
def test_every_cell_of_the_other_notebooks_runs(path: Path, kernels: Kernels, tmp_path: Path) -> None:
    """Where queries run, somebody reads between the cells; what cells need at once is asked where they submit."""
    notebook = json.loads(path.read_text("utf-8"))
    if path.stem in READERS:
        notebook["cells"] = _read(notebook["cells"], READERS[path.stem])
    copy = tmp_path / path.name
    copy.write_text(json.dumps(notebook), "utf-8")
    kernels.run(copy, folder=path.parent)


def _read(cells: list[dict[str, Any]], reading: str) -> list[dict[str, Any]]:
    """Cells, with what one does between those with running queries."""
    sources = ["".join(cell["source"]) if cell["cell_type"] == "code" else "" for cell in cells]
    first = next(at for at, source in enumerate(sources) if "= cluster.submit(" in source)
    last = next(at for at, source in enumerate(sources) if ".close()" in source)
    found = cells[: first + 1]
    for cell in cells[first + 1 : last]:
        if cell["cell_type"] == "code":
            found.append(cell | {"id": f"read-{cell['id']}", "source": reading})
        found.append(cell)
    return found + cells[last:]
