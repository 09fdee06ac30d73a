"""A notebook whose kernel is restarted: its views keep their last pictures, its peers end, and it can be run again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import psutil
import pytest

from tests.browser import ARTEFACTS
from tests.jupyterlab import JupyterLab

if TYPE_CHECKING:
    from playwright.sync_api import Page

ALL_CELLS: Final = 150.0  # seconds
SOURCES: Final = (
    (
        "from synergy_nb import Cluster, edit, source, watch\n"
        "cluster = Cluster(peers=2, cores=1, spark=False)\n"
        "print(*(process.pid for process in cluster._asynchronous.local.processes.values()))"
    ),
    (
        'packets = source("packets", seed=1, rate="200 tuples/s")\n'
        'editor = edit(packets.filter("bytes > 1000").sink("large", delay="2 s"))\neditor'
    ),
    "application = cluster.submit(editor.plan)\nrows = application.head(100)\nwatch(application)",
    "application.replay()",
)
LIVE: Final = (".synergy-editor", ".synergy-qos", ".synergy-stage")
RESTART: Final = "async () => { await panel.sessionContext.session.kernel.restart(); }"
# What the outputs of the notebook that are in sight show: their text, and how many views they hold as pictures.
SHOWN: Final = """() => {
    const seen = [...document.querySelectorAll(".jp-OutputArea-child")].filter(each => each.offsetHeight > 0);
    return seen.map(each => [each.innerText.trim(), each.querySelectorAll("[data-synergy-last]:has(svg)").length]);
}"""


def _notebook(lab: JupyterLab) -> str:
    """Write the notebook, and return its path."""
    code: dict[str, Any] = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": []}
    cells = [{**code, "id": f"c{number}", "source": source} for number, source in enumerate(SOURCES)]
    metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    book = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    (lab.folder / "restart.ipynb").write_text(json.dumps(book), "utf-8")
    return "restart.ipynb"


@pytest.mark.slow(35)
def test_a_restarted_kernel_leaves_pictures_and_no_processes(page: Page, jupyterlab: JupyterLab) -> None:
    path = _notebook(jupyterlab)
    notebook = jupyterlab.open(page, path)
    page.set_viewport_size({"width": 1100, "height": 2400})
    notebook.start()
    cells = notebook.finish(ALL_CELLS)
    assert not [cell.text() for cell in cells if any(each["output_type"] == "error" for each in cell.outputs)]
    for selector in LIVE:
        page.locator(selector).first.wait_for()
    processes = map(int, cells[0].text().split())
    peers = [psutil.Process(process) for process in processes]
    page.evaluate("async () => { await panel.context.save(); }")
    ARTEFACTS.mkdir(parents=True, exist_ok=True)

    page.evaluate(RESTART)
    _, left = psutil.wait_procs(peers, timeout=60.0)
    assert not left, "peers outlive the kernel that started them"
    page.locator(".synergy-qos .silence", has_text="No news for").first.wait_for()
    page.screenshot(path=ARTEFACTS / "restart_before_reload.png")

    page.reload()
    notebook.reopen(path)
    page.locator("[data-synergy-last]:has(svg)").nth(2).wait_for()
    shown = page.evaluate(SHOWN)
    page.screenshot(path=ARTEFACTS / "restart_after_reload.png")
    assert [pictures for _, pictures in shown if pictures] == [1, 1, 1], shown
    assert not [text for text, _ in shown if "model not found" in text or "Loading widget" in text], shown

    notebook.start()
    again = notebook.finish(ALL_CELLS)
    assert not [cell.text() for cell in again if any(each["output_type"] == "error" for each in cell.outputs)]
    for selector in LIVE:
        page.locator(selector).first.wait_for()
    page.screenshot(path=ARTEFACTS / "restart_run_again.png")
    notebook.close()
