"""The quickstart in a real JupyterLab: every cell runs, and its view draws what the peers measure while they do.

Also there: what other notebooks do with our views, which needs the widgets of JupyterLab itself, and what is left of
views whose kernel was restarted or has ended.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import psutil
import pytest

from tests.browser import ARTEFACTS, ROOT
from tests.jupyterlab import ASKED, Cell, JupyterLab, LabNotebook
from tests.stored_outputs import COMPARED, kept, numbered

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

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
        notebook.page.wait_for_function(enough, arg=points, timeout=ALL_CELLS * 1000, polling=ASKED)
    except TooLong:
        told = "\n".join([*faults, *(cell.text() for cell in notebook.cells())])
        raise AssertionError(f"the view did not draw {points} points:\n{told}") from None
    found: dict[str, Any] = notebook.page.evaluate(DRAWN)
    return found


@pytest.mark.slow(40)
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
    stored = json.loads((ROOT / "notebooks" / "01_quickstart.ipynb").read_text("utf-8"))["cells"]
    for cell, before in zip(cells, (each for each in stored if each["cell_type"] == "code"), strict=True):
        if before["outputs"] and COMPARED in before["metadata"].get("tags", ()):
            assert numbered(kept(cell.outputs), cell.execution_count or 0) == before["outputs"], before["id"]
    died = next(cell for cell in cells if KILLS in cell.source)
    assert "failed - peer-" in died.text()

    page.locator(".synergy-qos .badge").filter(has_text="failed").first.wait_for()
    page.screenshot(path=ARTEFACTS / "quickstart_after_a_kill.png")
    assert not faults, faults
    notebook.close()


def _notebook(folder: Path, name: str, sources: Sequence[str]) -> str:
    """Write a notebook of code cells, and return its path."""
    code: dict[str, Any] = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": []}
    cells = [{**code, "id": f"c{number}", "source": source} for number, source in enumerate(sources)]
    metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    contents = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    (folder / name).write_text(json.dumps(contents), "utf-8")
    return name


RESTARTED: Final = (
    (
        "from synergy_nb import Cluster, edit, explore, source, watch\n"
        "cluster = Cluster(peers=2, cores=1, spark=False)\n"
        "print(*(process.pid for process in cluster._asynchronous.local.processes.values()))"
    ),
    (
        'packets = source("packets", seed=1, rate="200 tuples/s")\n'
        'editor = edit(packets.filter("bytes > 1000").sink("large", delay="2 s"))\neditor'
    ),
    "application = cluster.submit(editor.plan)\nrows = application.head(100)\nwatch(application)",
    "application.replay()",
    "levels = explore.load_levels()\nlevels",
    "levels.set(levels=2).sentence",
)
LIVE: Final = (".synergy-editor", ".synergy-qos", ".synergy-stage", ".synergy-explorer")
STILL: Final = "[data-synergy-last]"
RESTART: Final = "async () => { await panel.sessionContext.session.kernel.restart(); }"
SAVE: Final = "async () => { await panel.context.save(); }"
# Whether the picture of the explorer is that of two levels.
REPLACED: Final = """() => {
    const pictures = [...document.querySelectorAll("[data-synergy-last]")].map(each => each.textContent);
    const explorers = pictures.filter(each => each.includes("level 1"));
    return explorers.length === 1 && !explorers[0].includes("level 4");
}"""
# Reopens a notebook without a kernel, and says what its outputs show.
REOPEN: Final = """async path => {
    await jupyterapp.restored;
    const nobody = { kernel: null, kernelPreference: { shouldStart: false, canStart: false } };
    const panel = await jupyterapp.commands.execute("docmanager:open", { path, factory: "Notebook", ...nobody });
    await panel.context.ready;
}"""
# What the outputs of the notebook that are in sight show: their text, and how many views they hold as pictures.
SHOWN: Final = """() => {
    const seen = [...document.querySelectorAll(".jp-OutputArea-child")].filter(each => each.offsetHeight > 0);
    return seen.map(each => [each.innerText.trim(), each.querySelectorAll("[data-synergy-last]:has(svg)").length]);
}"""


def _pictures(page: Page) -> list[int]:
    """Wait until each view is a picture, and return how many each output in sight shows; none tells of a lost view."""
    page.locator(f"{STILL}:has(svg)").nth(len(LIVE) - 1).wait_for()
    shown = page.evaluate(SHOWN)
    assert not [text for text, _ in shown if "model not found" in text or "Loading widget" in text], shown
    return [pictures for _, pictures in shown]


def _run_to_live_views(notebook: LabNotebook) -> list[Cell]:
    """Run all cells; their views are there, and not their pictures."""
    notebook.start()
    cells = notebook.finish(ALL_CELLS)
    assert not [cell.text() for cell in cells if any(each["output_type"] == "error" for each in cell.outputs)]
    for selector in LIVE:
        notebook.page.locator(selector).first.wait_for()
    notebook.page.locator(f"{STILL}:visible").first.wait_for(state="hidden")
    return cells


@pytest.mark.slow(35)
def test_views_are_their_last_pictures_after_the_kernels_restart_and_without_one(
    page: Page, jupyterlab: JupyterLab
) -> None:
    path = _notebook(jupyterlab.folder, "restart.ipynb", RESTARTED)
    notebook = jupyterlab.open(page, path)
    page.set_viewport_size({"width": 1100, "height": 2400})
    cells = _run_to_live_views(notebook)
    peers = [psutil.Process(int(process)) for process in cells[0].text().split()]
    page.evaluate(SAVE)
    ARTEFACTS.mkdir(parents=True, exist_ok=True)

    page.evaluate(RESTART)
    _, left = psutil.wait_procs(peers, timeout=60.0)
    assert not left, "peers outlive the kernel that started them"
    page.locator(".synergy-qos .silence", has_text="No news for").first.wait_for()
    page.screenshot(path=ARTEFACTS / "restart_before_reload.png")

    page.reload()
    notebook.reopen(path)
    assert [pictures for pictures in _pictures(page) if pictures] == [1, 1, 1, 1]
    page.screenshot(path=ARTEFACTS / "restart_after_reload.png")

    _run_to_live_views(notebook)
    page.screenshot(path=ARTEFACTS / "restart_run_again.png")
    page.wait_for_function(REPLACED, polling=ASKED)  # some seconds after the first picture
    page.evaluate(SAVE)
    notebook.close()
    page.reload()
    page.wait_for_function("() => globalThis.jupyterapp !== undefined")
    page.evaluate(REOPEN, path)
    page.locator(f"{STILL} svg.synergy-plane").wait_for()
    assert _pictures(page)[-2:] == [1, 0]
    assert page.evaluate(REPLACED)


ARRANGED: Final = (
    """
import polars as pl
from ipywidgets import HBox, IntSlider, IntText, VBox, interactive, jslink
from synergy_nb import Simulation, explore, source, watch

seen = []
slider, loads = IntSlider(value=50, min=5, max=95, step=5), explore.bursts()
loads.observe(lambda change: seen.append(change.new), "load")
links = [jslink((slider, "value"), (loads, "load"))]
HBox([slider, loads])
""",
    """
frame = pl.DataFrame({"time": [float(n) for n in range(90)], "host": ["a", "b", "c"] * 30})
one, two, rows = explore.trace(frame), explore.trace(frame), IntText()
links += [jslink((one, "selection"), (two, "selection")), jslink((two, "rows"), (rows, "value"))]
HBox([one, two, rows])
""",
    """
levels = explore.load_levels()
VBox([interactive(lambda level: levels.set(levels=level).sentence, level=(2, 8)), levels])
""",
    """
simulation = Simulation(peers=2, seed=1)
small = source("packets", seed=1, rate="50 tuples/s").filter("bytes > 500").sink("small", delay="2 s")
application = simulation.submit(small)
simulation.run("1 s")
step, stage = IntSlider(max=5), application.replay().view()
links.append(jslink((step, "value"), (stage, "step")))
VBox([step, HBox([watch(application), simulation.knobs(), stage])])
""",
    "print(slider.value, loads.load, seen, two.rows, rows.value, levels.levels, stage.step)",
)
WIDTHS: Final = "views => views.map(view => view.getBoundingClientRect().width)"


@pytest.mark.slow
def test_our_views_are_arranged_linked_and_observed_as_ipywidgets(page: Page, jupyterlab: JupyterLab) -> None:
    notebook = jupyterlab.open(page, _notebook(jupyterlab.folder, "arranged.ipynb", ARRANGED))
    page.set_viewport_size({"width": 1500, "height": 1000})
    page.evaluate("() => jupyterapp.commands.execute('application:toggle-left-area')")
    notebook.start(before=ARRANGED[-1])
    cells = [page.locator(".jp-CodeCell").nth(number) for number in range(4)]
    mine, other = cells[0].locator("input[data-of=load]"), cells[0].locator(".noUi-handle")
    other.focus()
    other.press("ArrowRight")
    page.wait_for_function("input => input.value === '55'", arg=mine.element_handle())
    mine.focus()
    for _ in range(3):
        mine.press("ArrowLeft")  # which JupyterLab would take to fold the cell
    cells[0].get_by_text("40", exact=True).first.wait_for()  # what the slider of ipywidgets reads

    cells[1].locator(".synergy-trace").nth(1).locator(".key").first.click()
    page.wait_for_function(
        "cell => [...cell.querySelectorAll('.sentence')].every(each => each.textContent.startsWith('30 of'))",
        arg=cells[1].element_handle(),
    )
    mine, handle = cells[2].locator("input[data-of=levels]"), cells[2].locator(".noUi-handle")
    handle.focus()
    handle.press("ArrowRight")
    page.wait_for_function("input => input.value === '6'", arg=mine.element_handle())
    cells[3].locator(".synergy-stage:not(.empty)").wait_for()
    handle = cells[3].locator(".noUi-handle")
    handle.focus()
    handle.press("ArrowRight")
    cells[3].locator(".synergy-stage .count").get_by_text("2 of").wait_for()

    for theme in ("JupyterLab Light", "JupyterLab Dark"):
        page.evaluate("theme => jupyterapp.commands.execute('apputils:change-theme', { theme })", theme)
        page.wait_for_function("theme => document.body.dataset.jpThemeName === theme", arg=theme)
        for number, cell in enumerate(cells):
            cell.screenshot(path=ARTEFACTS / f"arranged_{number}_{theme.split()[-1].lower()}.png")
    widths = [cell.locator("[class^=synergy-]").evaluate_all(WIDTHS) for cell in cells]
    assert all(width >= 318 for each in widths for width in each), widths
    assert cells[0].locator(".slider-container").first.bounding_box()["width"] > 100  # type: ignore[index]
    notebook.start(at=ARRANGED[-1])
    told = notebook.finish(ALL_CELLS)[-1].text()
    assert told.split("[")[0].split() == ["40", "40"]
    assert told.rpartition("]")[2].split() == ["30", "30", "6", "1"], "rows of the other view, levels, and the step"
    notebook.close()
