"""Measures a hundred thousand live rows in Chromium: ``python -m tests.widgets.live_rows_frames``.

All rows change ten times a second; meanwhile another column is sorted now and then, and the table is scrolled to
another place each time. The output are the tasks of the page's main thread that took more than 50 ms, by the browser
(``longtask``), and the longest ones, in wall and in processor time.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Final

import polars as pl
from playwright.sync_api import sync_playwright

from synergy_nb.widgets.qos_view import QoSView
from tests.browser import FLAGS, NO_CHROMIUM, BarePage, Tab, find_chromium, new_page
from tests.qos_story import NAMES, story, top_pairs
from tests.widgets.overlay_frames import tasks_of

__all__ = ["MAKE", "MANY", "ROWS"]

TURNS: Final = 100
ROWS: Final = 100_000
# Makes so many messages, and leaves them to MANY.
MAKE: Final = """async ([rows, count]) => {
  const seeds = new Uint32Array(rows).map((_, row) => Math.imul(row + 1, 2654435761) >>> 0);
  const column = (name, kind, array, others = {}) =>
    ({ name, kind, array, bars: [1, 2, 3], low: 0, high: 9, empty: 0, ...others });
  const ends = Int32Array.from({ length: rows }, (_, at) => (at + 1) * 8);
  const make = (turn) => {
    const texts = new Uint8Array(rows * 8).fill(97 + turn % 26);
    const columns = [
      column("host", "text", "i4", { words: rows, longest: 8 }),
      column("x", "number", "f8", { marked: true }),
      column("n", "integer", "i2"),
    ];
    const arrays = [
      Int32Array.from(seeds, (seed) => seed % rows), ends, texts,
      Float64Array.from(seeds, (seed) => (seed >> turn % 4) / 7), Uint8Array.from(seeds, (seed) => seed % 3),
      Int16Array.from(seeds, (seed) => seed % 1000), new Uint8Array(rows),
    ];
    const content = { kind: "rows", sink: "s", caption: `turn ${turn}`, note: "", rows, columns };
    return [content, arrays.map((values) => new DataView(values.buffer))];
  };
  globalThis.messages = [];
  for (let turn = 0; turn < count; turn++) messages.push(make(turn));
}"""
# Shows messages, one each 100 ms, and returns the long tasks, what is drawn at the end, and the frames.
MANY: Final = """async ([name, turns]) => {
  const view = document.getElementById(name).synergyView;
  const rest = (time) => new Promise((done) => setTimeout(done, time));
  const { rows } = messages[0][0];
  view.receive(...messages[0]);
  await rest(300);
  let [counting, frames] = [true, 0];
  const count = () => { frames++; if (counting) requestAnimationFrame(count); };
  requestAnimationFrame(count);
  const long = [];
  const observer = new PerformanceObserver((list) => long.push(...list.getEntries().map(({ duration }) => duration)));
  observer.observe({ type: "longtask" });
  const table = document.querySelector(`#${name} .table`);
  const heads = [...table.querySelectorAll(".heads button")];
  const began = performance.now();
  for (let turn = 0; turn < turns; turn++) {
    view.receive(...messages[turn % messages.length]);
    if (turn % 4 === 0) heads[(turn / 4) % heads.length].click();
    table.scrollTop = (turn * 7919 * 24) % (rows * 24);
    await rest(100);
  }
  await rest(300);
  counting = false;
  observer.disconnect();
  const all = [...document.querySelectorAll(`#${name} .line-of`)];
  const drawn = all.filter((each) => !each.hidden);
  return {
    long, drawn: drawn.length, elements: all.length, height: table.scrollHeight,
    texts: new Set(drawn.map((each) => each.children[1].textContent)).size,
    frames: frames / (performance.now() - began) * 1000,
  };
}"""


class _Nobody:
    """Gives no rows."""

    def wake(self, *, last: bool = False) -> None:
        """Look for none."""

    def moment(self, since: float, until: float, answer: Callable[[pl.DataFrame, int, str], None]) -> None:
        """Answer nothing."""

    def close(self) -> None:
        """Leave."""


def main() -> None:
    """Measure, and print what was found."""
    executable = find_chromium()
    if executable is None:
        sys.exit(NO_CHROMIUM)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=executable, args=FLAGS)
        with new_page(chromium) as made:
            bare = BarePage(Tab(made))
            view = QoSView(story(60), top_pairs(), names=NAMES)
            view.show_rows("pairs", pl.DataFrame(), (), lambda *_: _Nobody())
            name = bare.show(view).get_attribute("id")
            bare.until("() => document.querySelector('.synergy-qos:not(.empty)')")
            made.evaluate(MAKE, [ROWS, 10])
            chromium.start_tracing(page=made, categories=["toplevel"])
            found = made.evaluate(MANY, [name, TURNS])
            trace = chromium.stop_tracing()
            bare.close()
        chromium.close()
    print(f"{found['elements']} elements for 100,000 rows; {found['frames']:.0f} frames a second")
    print(f"{len(found['long'])} long tasks for {TURNS} messages: {[round(each) for each in found['long']]} ms")
    for field, words in (("dur", "wall"), ("tdur", "processor")):
        longest = ", ".join(f"{task:.0f}" for task in tasks_of(trace, field)[:12])
        print(f"longest tasks, {words} time: {longest} ms")


if __name__ == "__main__":
    main()
