"""Measures brushes over linked charts in Chromium: ``python -m tests.explore.brush_frames [ROWS]``.

A table of six columns is opened. A third of each chart is selected, and then a brush of each other chart is begun, for
which nothing is prepared; then a brush is dragged over the chart of times. The output are the processor time of the
kernel for each answer, that of the page's main thread for each brush, and the time from a move of the pointer to the
picture that shows its counts.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from itertools import permutations
from time import process_time
from typing import Any, Final

import numpy as np
import polars as pl
from playwright.sync_api import sync_playwright

from synergy_nb import explore
from tests.browser import FLAGS, NO_CHROMIUM, BarePage, Tab, find_chromium, new_page
from tests.widgets.overlay_frames import tasks_of

ROWS: Final = 10_000_000
TURNS: Final = 150
# Drags over the chart of times, and returns the milliseconds from each move to the frame that draws its counts.
DRAG: Final = """async (turns) => {
  const surface = document.querySelector(".chart.time .surface");
  const { x, y, width, height } = surface.getBoundingClientRect();
  surface.setPointerCapture = () => {};
  const point = (kind, share) => surface.dispatchEvent(new PointerEvent(kind,
    { pointerId: 1, clientX: x + share * width, clientY: y + height / 2, bubbles: true }));
  const frame = () => new Promise(requestAnimationFrame);
  const found = [];
  point("pointerdown", 0.2);
  for (let turn = 1; turn <= turns; turn++) {
    const began = performance.now();
    const drawn = new Promise((done) => {
      const seen = new MutationObserver(() => { seen.disconnect(); done(); });
      seen.observe(document.querySelector(".sentence"), { childList: true, characterData: true, subtree: true });
    });
    point("pointermove", 0.25 + 0.5 * Math.abs(Math.sin(turn / 20)) + turn / turns / 10);
    if (await Promise.race([drawn.then(() => true), new Promise((done) => setTimeout(done, 2000))])) {
      await frame();
      found.push(performance.now() - began);
    }
    await frame();
  }
  point("pointerup", 0.5);
  return found;
}"""


def trace(rows: int) -> pl.DataFrame:
    """Requests, with a season, heavy tails, and keys of which few are frequent."""
    chance = np.random.default_rng(1)
    hours = np.sort(chance.random(rows) * 24 + np.sin(chance.random(rows) * 6))
    return pl.DataFrame(
        {
            "time": pl.Series((hours * 3.6e9).astype(np.int64)).cast(pl.Datetime("us")),
            "host": pl.Series(np.minimum(chance.zipf(1.4, rows), 5000)).cast(pl.String),
            "status": pl.Series(chance.choice([200, 200, 200, 304, 404, 500], rows)),
            "bytes": chance.pareto(1.2, rows) * 400,
            "delay": chance.gamma(2.0, 0.05, rows),
            "load": chance.normal(0.5, 0.1, rows),
        }
    )


def _shown(words: str, seconds: list[float]) -> None:
    middle, most = np.percentile(seconds, [50, 95]) * 1000
    print(f"{words}: {middle:.1f} ms, 95th percentile {most:.1f} ms ({len(seconds)})")


def main(rows: int) -> None:
    """Measure, and print what was found."""
    executable = find_chromium()
    if executable is None:
        sys.exit(NO_CHROMIUM)
    table = trace(rows)
    began = process_time()
    view = explore.trace(table, columns=table.columns)
    print(f"{rows:,} rows; opened in {process_time() - began:.1f} s of a processor")
    first: list[float] = []
    for place, other in permutations(range(len(view.crossfilter.charts)), 2):
        third = view.crossfilter.charts[place].bars // 3
        view.clear()
        view.on_page_message({"kind": "brush", "chart": place, "bars": list(range(third, 2 * third + 1))})
        began = process_time()
        view.on_page_message({"kind": "brush", "chart": other, "bars": [0]})
        first.append(process_time() - began)
    _shown("kernel, first brush of a chart after one of another", first)
    rests: list[float] = []
    left: list[int] = []
    view.send = lambda content, **_: left.append(content["left"])
    for turn in range(5):
        view.on_page_message({"kind": "brush", "chart": turn, "bars": [0, 1]})
        left.append(1)
        while left[-1]:
            began = process_time()
            view.on_page_message({"kind": "rest", "chart": 0})
            rests.append(process_time() - began)
    view.clear()
    del view.send
    _shown("kernel, a step of preparation", rests)
    answers: list[float] = []
    plain = view.on_page_message

    def timed(content: Mapping[str, Any]) -> None:
        began = process_time()
        plain(content)
        if content.get("kind") == "brush":
            answers.append(process_time() - began)

    view.on_page_message = timed  # type: ignore[method-assign]
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=executable, args=FLAGS)
        with new_page(chromium) as made:
            bare = BarePage(Tab(made))
            bare.show(view).locator(".sentence").wait_for()
            made.evaluate(DRAG, 20)
            answers.clear()
            chromium.start_tracing(page=made, categories=["toplevel"])
            found = made.evaluate(DRAG, TURNS)
            work = tasks_of(chromium.stop_tracing(), "tdur")
            bare.close()
        chromium.close()
    _shown("kernel, an answer", answers)
    print(f"page, a brush: {sum(work) / len(answers):.1f} ms of a processor; longest task {work[0]:.1f} ms")
    _shown("from the pointer to the picture, wall time", [each / 1000 for each in found])


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else ROWS)
