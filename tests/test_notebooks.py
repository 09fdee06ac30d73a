"""The notebooks run from the first cell to the last; outputs that are the same in each run are those that they hold."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.kernels import Kernels
from tests.stored_outputs import COMPARED, LARGEST, NOT_COMPARED, WIDGET, kept, numbered, traces_of_here, with_readers

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))

# Of the quickstart all cells run in a real JupyterLab: see test_quickstart.
RUN = [path for path in NOTEBOOKS if path.stem != "01_quickstart"]

HOME = "/" + "home/me"  # of somebody
WIDTH = 88  # characters of a line, as JupyterLab shows them beside its side bar


def test_notebooks_are_found_for_the_other_tests() -> None:
    assert NOTEBOOKS


def test_the_readme_names_every_notebook() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    named = {word.removesuffix(".ipynb") for word in re.findall(r"notebooks/(\w+\.ipynb)", readme)}
    assert named == {path.stem for path in NOTEBOOKS}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_are_stored_and_tell_nothing_of_where_they_were_made(path: Path) -> None:
    notebook = json.loads(path.read_text("utf-8"))
    assert path.stat().st_size <= LARGEST
    assert set(notebook["metadata"]) == {"kernelspec", "language_info"}, "the state of widgets is in no file"
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert any(cell["outputs"] for cell in code), "make notebooks"
    assert not traces_of_here(notebook)
    for number, cell in enumerate(code, start=1):
        assert cell["execution_count"] == number, "as if all cells had run once"
        tags = set(cell["metadata"].get("tags", ())) & {COMPARED, NOT_COMPARED}
        assert len(tags) == bool(cell["outputs"]), f"{cell['id']}: whether its outputs are compared"
        assert numbered(kept(cell["outputs"]), number) == cell["outputs"], "nothing is left of a live view"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_cells_are_narrow_enough_to_read_without_scrolling(path: Path) -> None:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    wide = [line for cell in cells for line in "".join(cell["source"]).splitlines() if len(line) > WIDTH]
    assert not wide


@pytest.mark.slow(30)
@pytest.mark.parametrize("path", RUN, ids=lambda path: path.stem)
def test_every_cell_of_the_other_notebooks_runs(path: Path, kernels: Kernels, tmp_path: Path) -> None:
    """Where queries run, somebody reads between the cells; what cells need at once is asked where they submit."""
    notebook = json.loads(path.read_text("utf-8"))
    notebook["cells"] = with_readers(notebook["cells"], path.stem)
    copy = tmp_path / path.name
    copy.write_text(json.dumps(notebook), "utf-8")
    kernels.run(copy, folder=path.parent)


# -- what is stored of outputs -----------------------------------------------------------------------------------------


def shown(**data: str) -> dict[str, Any]:
    return {"output_type": "display_data", "metadata": {}, "data": {key.replace("_", "/"): data[key] for key in data}}


def test_of_a_live_view_its_last_picture_is_stored_as_an_image_and_the_rest_as_a_table() -> None:
    tall, small = '<svg height="200"><svg height="90"><g/></svg></svg>', '<svg height="22"></svg>'
    inner = f"<div>{tall}<table><tr><th>{small}</th></tr></table></div>"
    live = {**shown(text_plain="", text_html=""), "data": {WIDGET: {"model_id": "0" * 32}, "text/html": ""}}
    still = shown(text_plain="words", text_html=f'<div data-synergy-last="abc"><style>x</style>{inner}</div>')
    picture, table = kept([live, still, shown(text_plain="", text_html="")])
    assert picture["data"] == {"image/svg+xml": tall, "text/plain": "words"}
    assert table["data"]["text/html"] == f"<div><table><tr><th>{small}</th></tr></table></div>"
    assert kept([picture, table]) == [picture, table]


def test_texts_of_one_stream_are_one_and_say_nothing_of_the_machine() -> None:
    said = [
        {"output_type": "stream", "name": "stdout", "text": [text]} for text in ("at tls://10.0.0.1:80#p-1.9f, ", "b")
    ]
    (text,) = kept(said)
    assert text["text"] == "at tls://…, b"
    notebook = {"cells": [{"outputs": [text]}, {"outputs": [shown(text_plain=f"{ROOT}/x and {HOME}/y")]}]}
    assert [str(each).startswith((HOME, str(ROOT))) for each in traces_of_here(notebook)] == [True, True]
    (clean,) = kept(notebook["cells"][1]["outputs"][:1])
    assert clean["data"]["text/plain"].startswith("x and ")


def test_a_cell_that_fails_is_no_output() -> None:
    with pytest.raises(AssertionError, match="a cell failed: ValueError: no"):
        kept([{"output_type": "error", "ename": "ValueError", "evalue": "no", "traceback": []}])
