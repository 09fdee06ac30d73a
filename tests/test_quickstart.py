"""The quickstart in a real JupyterLab: every cell runs, and its view draws what the peers measure while they do."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.browser import ARTEFACTS
from tests.jupyterlab import JupyterLab, LabNotebook

if TYPE_CHECKING:
    from playwright.sync_api import Page

ALL_CELLS: Final = 150.0  # seconds
KILLS: Final = "cluster.kill"
# What the first view has on its chart of throughput: points in the plot, pixels in the colour of its line, the picture.
DRAWN: Final = """() => {
    const root = document.querySelector(".synergy-qos");
    const view = root?.parentElement.synergyView;
    const canvas = root?.querySelector(".chart.rate canvas");
    if (!view?.charts.rate.plot || !canvas) return null;
    const mark = new OffscreenCanvas(1, 1).getContext("2d");
    mark.fillStyle = view.colours.get("p50");
    mark.fillRect(0, 0, 1, 1);
    const [red, green, blue] = mark.getImageData(0, 0, 1, 1).data;
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    let pixels = 0;
    for (let at = 0; at < data.length; at += 4) {
        const apart = Math.abs(data[at] - red) + Math.abs(data[at + 1] - green) + Math.abs(data[at + 2] - blue);
        if (data[at + 3] > 200 && apart < 60) pixels++;
    }
    return { points: view.charts.rate.plot.data[0].length, pixels, picture: canvas.toDataURL() };
}"""


def _drawn(notebook: LabNotebook, points: int, faults: list[str]) -> dict[str, Any]:
    """What is drawn as soon as there are so many points."""
    from playwright.sync_api import TimeoutError as TooLong

    enough = f"points => (({DRAWN})()?.points ?? 0) >= points"
    try:
        notebook.page.wait_for_function(enough, arg=points, timeout=ALL_CELLS * 1000)
    except TooLong:
        told = "\n".join([*faults, *(cell.text() for cell in notebook.cells())])
        raise AssertionError(f"the view did not draw {points} points:\n{told}") from None
    found: dict[str, Any] = notebook.page.evaluate(DRAWN)
    return found


@pytest.mark.slow(40)
@pytest.mark.timeout(360)
def test_all_cells_run_and_the_view_draws_moving_data(page: Page, jupyterlab: JupyterLab) -> None:
    faults: list[str] = []
    page.on("pageerror", lambda fault: faults.append(str(fault)))
    notebook = jupyterlab.open(page, "01_quickstart.ipynb")
    page.set_viewport_size({"width": 1100, "height": 1500})
    page.evaluate("() => jupyterapp.commands.execute('application:toggle-left-area')")
    # What is killed draws nothing more, however slow the browser is, so the cell that does it waits for the view.
    notebook.start(before=KILLS)

    before = _drawn(notebook, 2, faults)
    after = _drawn(notebook, before["points"] + 3, faults)
    assert after["pixels"] > before["pixels"] > 0
    assert after["picture"] != before["picture"]
    ARTEFACTS.mkdir(parents=True, exist_ok=True)
    page.locator(".synergy-qos").first.evaluate("view => view.scrollIntoView()")
    page.screenshot(path=ARTEFACTS / "quickstart_running.png")

    notebook.start(at=KILLS)
    cells = notebook.finish(ALL_CELLS)
    failed = [cell for cell in cells if any(output["output_type"] == "error" for output in cell.outputs)]
    assert not failed, failed[0].text()
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    died = next(cell for cell in cells if KILLS in cell.source)
    assert "failed - peer-" in died.text()

    page.locator(".synergy-qos .badge").filter(has_text="failed").first.wait_for()
    page.screenshot(path=ARTEFACTS / "quickstart_after_a_kill.png")
    assert not faults, faults
    notebook.close()


# Reopens a notebook without a kernel, and says what its outputs show.
REOPEN: Final = """async path => {
    await jupyterapp.restored;
    const nobody = { kernel: null, kernelPreference: { shouldStart: false, canStart: false } };
    const panel = await jupyterapp.commands.execute("docmanager:open", { path, factory: "Notebook", ...nobody });
    await panel.context.ready;
}"""
REPLACED: Final = """() => {
    const { textContent } = document.querySelector("[data-synergy-last]");
    return textContent.includes("level 1") && !textContent.includes("level 4");
}"""
SHOWN: Final = """() => {
    const seen = [...document.querySelectorAll(".jp-OutputArea-child")].filter(each => each.offsetHeight > 0);
    const still = "[data-synergy-last] svg.synergy-plane";
    return seen.map(each => [each.innerText.trim(), each.querySelectorAll(still).length]);
}"""


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_reopened_notebook_shows_the_last_picture(page: Page, jupyterlab: JupyterLab) -> None:
    sources = ["from synergy_nb import explore\nshown = explore.load_levels()\nshown", "shown.set(levels=2).sentence"]
    code: dict[str, Any] = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": []}
    cells = [{**code, "id": f"c{number}", "source": source} for number, source in enumerate(sources)]
    path = jupyterlab.folder / "last_picture.ipynb"
    metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    path.write_text(json.dumps({"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}), "utf-8")
    notebook = jupyterlab.open(page, path.name)
    notebook.start()
    notebook.finish(ALL_CELLS)
    page.locator(".synergy-explorer").wait_for()
    assert page.locator("[data-synergy-last]").is_hidden()  # the live view is there

    # the picture is replaced some seconds after the first
    page.wait_for_function(REPLACED)
    page.evaluate("async () => { await panel.context.save(); await panel.sessionContext.shutdown(); }")
    page.reload()
    page.wait_for_function("() => globalThis.jupyterapp !== undefined")
    page.evaluate(REOPEN, path.name)
    page.locator("[data-synergy-last] svg.synergy-plane").wait_for()
    shown = page.evaluate(SHOWN)
    assert [pictures for _, pictures in shown] == [1, 0]
    assert not [text for text, _ in shown if "model not found" in text or "Loading widget" in text]
