"""The notebooks run from the first cell to the last, and hold no outputs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))

# Of the quickstart all cells run in a real JupyterLab: see test_quickstart.
RUN = [path for path in NOTEBOOKS if path.stem != "01_quickstart"]

# Who reads between the cells of notebooks with queries that run: what has happened before the next cell.
READERS = {
    "00_tour": """
_newest = lambda: application.latest(1)["window_end"].to_physical().max() or 0
_until = _newest() + 2_000_000  # two more windows
while application.status == "running" and _newest() < _until:
    pass  # each question takes a peer's answer
""",
    "07_replication": """
_newest = lambda: steady.latest(1)["n"].max() or 0
_until = _newest() + 4 * RATE  # rows of four more seconds: as many as the whole notebook once had after three cells
while steady.status == "running" and not end.is_set() and _newest() < _until:
    pass
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


@pytest.mark.slow(60)
@pytest.mark.timeout(900)  # they take less than a minute where nothing else runs
@pytest.mark.parametrize("path", RUN, ids=lambda path: path.stem)
def test_every_cell_of_the_other_notebooks_runs(path: Path) -> None:
    _run(path)


@pytest.mark.slow(60)
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", READERS)
def test_a_notebook_holds_when_one_reads_between_its_cells(name: str, tmp_path: Path) -> None:
    """Up to the cell that ends its queries: nobody reads between those that follow, which run in the other test."""
    notebook = json.loads((ROOT / "notebooks" / f"{name}.ipynb").read_text(encoding="utf-8"))
    cells, running, read, ended = [], False, 0, False
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        ended = ".close()" in source
        if running and not ended and cell["cell_type"] == "code":
            cells.append(cell | {"id": f"read-{cell['id']}", "source": READERS[name]})
            read += 1
        cells.append(cell)
        if ended:
            break
        running = running or "= cluster.submit(" in source
    assert ended
    assert read
    paced = tmp_path / f"{name}.ipynb"
    paced.write_text(json.dumps(notebook | {"cells": cells}), encoding="utf-8")
    _run(paced)


def _run(path: Path) -> None:
    """Run all cells of a notebook; its first error fails the test."""
    options = "-q -p no:cacheprovider -o addopts= --nbval-lax --nbval-cell-timeout=400"
    command = [sys.executable, "-m", "pytest", *options.split()]
    done = subprocess.run([*command, str(path)], cwd=ROOT, capture_output=True, text=True, timeout=880, check=False)
    assert done.returncode == 0, done.stdout[-4000:]
