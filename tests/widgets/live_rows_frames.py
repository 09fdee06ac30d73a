"""Measures a hundred thousand live rows in Chromium: ``python -m tests.widgets.live_rows_frames [ROWS]``.

A window of so many groups comes ten times a second, encoded as a peer sends it: groups of the window before, and then
other ones each time. Meanwhile another column is sorted now and then, and the table is scrolled to another place each
time. The output are the processor time of the kernel for each window, the windows that the page has shown a second, the
time until it shows what was asked for, and the tasks of its main thread that took more than 50 ms, by the browser
(``longtask``), with the longest ones in wall and in processor time.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import polars as pl
from playwright.sync_api import sync_playwright

from synergy_nb.dataflow.tuples import Batch, encode
from synergy_nb.runtime.client._results import NewestRows
from synergy_nb.runtime.process.requests import FetchedResults
from synergy_nb.widgets._row_table import RowTable
from synergy_nb.widgets.qos_view import QoSView
from tests.browser import FLAGS, NO_CHROMIUM, BarePage, Tab, find_chromium, new_page
from tests.qos_story import NAMES, story, top_pairs
from tests.widgets.overlay_frames import tasks_of

__all__ = ["MANY", "ROWS", "windows"]

ROWS: Final = 100_000
WINDOWS: Final = 20  # different ones
TURNS: Final = 100
BETWEEN: Final = 0.1  # seconds
# Sorts and scrolls so many times, and returns the long tasks, the elements, and how often the page has shown rows.
MANY: Final = """async ([name, turns]) => {
  const view = document.getElementById(name).synergyView;
  const { rows } = view;
  const rest = (time) => new Promise((done) => setTimeout(done, time));
  let [counting, frames, shown, asked] = [true, 0, 0, 0];
  const answers = [];
  const count = () => { frames++; if (counting) requestAnimationFrame(count); };
  requestAnimationFrame(count);
  const take = rows.take;
  rows.take = (content) => {
    take.call(rows, content);
    shown++;
    if (asked && !rows.waits) { answers.push(performance.now() - asked); asked = 0; }
  };
  const ask = rows.ask;
  rows.ask = () => { asked = performance.now(); ask.call(rows); };
  const long = [];
  const observer = new PerformanceObserver((list) => long.push(...list.getEntries().map(({ duration }) => duration)));
  observer.observe({ type: "longtask" });
  const table = document.querySelector(`#${name} .table`);
  const heads = [...table.querySelectorAll(".heads button")];
  const began = performance.now();
  for (let turn = 0; turn < turns; turn++) {
    if (turn % 4 === 0) heads[(turn / 4) % heads.length].click();
    table.scrollTop = (turn * 7919 * 24) % table.scrollHeight;
    await rest(100);
  }
  const seconds = (performance.now() - began) / 1000;
  await rest(300);
  counting = false;
  observer.disconnect();
  const all = [...document.querySelectorAll(`#${name} .line-of`)];
  const drawn = all.filter((each) => !each.hidden);
  return {
    long, drawn: drawn.length, elements: all.length, height: table.scrollHeight, answers,
    frames: frames / seconds, shown: shown / seconds,
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


def windows(rows: int, number: int, *, new: bool) -> list[pl.DataFrame]:
    """Windows of so many groups: the same ones, or a tenth of them ``new`` in each."""
    chance = np.random.default_rng(1)
    found = []
    for turn in range(number):
        group = np.arange(rows) + (turn * rows // 10 if new else 0)
        bounds = {"time": turn + 1, "window_start": turn, "window_end": turn + 1}
        times = [pl.lit(at * 100_000).cast(pl.Datetime("us")).alias(name) for name, at in bounds.items()]
        found.append(
            pl.DataFrame(
                {
                    "host": pl.Series("", group).cast(pl.String).str.zfill(9),
                    "packets": chance.integers(0, 1000, rows),
                    "share": chance.random(rows),
                    "bytes": chance.pareto(1.2, rows) * 400,
                    "delay": chance.gamma(2.0, 0.05, rows),
                }
            ).select(*times, pl.all())
        )
    return found


def _kernel(tables: list[pl.DataFrame]) -> None:
    """Print the processor time of the kernel for a window."""
    rows = tables[0].height
    spent: dict[str, list[float]] = {}
    answers = [_answer(table, at * rows) for at, table in enumerate(tables)]
    newest, shown = NewestRows(rows), RowTable("pairs", tables[0].clear(), ["host"])
    nbytes = 0
    for answer in answers:
        began = time.process_time()

        def note(words: str, since: float) -> float:
            now = time.process_time()
            spent.setdefault(words, []).append(now - since)
            return now

        newest.add(answer)
        table = newest.table(tables[0])
        then = note("to receive it", began)
        view = shown.take(table, rows)
        _ = view.heads
        then = note("charts", then)
        nbytes = len(json.dumps(view.page(rows // 2)))
        then = note("rows of a page with their marks", then)
        view.page(rows // 2, "bytes", descending=True)
        then = note("more to sort them", then)
        view.page(rows // 3, "bytes", descending=True)
        note("a page that scrolls", then)
    for words, seconds in spent.items():
        print(f"  kernel, {words}: {np.median(seconds[1:]) * 1000:.1f} ms of a processor")
    print(f"  {nbytes / 1000:.0f} kB for a page")


def _answer(table: pl.DataFrame, position: int) -> FetchedResults:
    item = encode(Batch(table, position, 0.0))
    return FetchedResults([item], (position, 0), (position + table.height, 0), finished=False)


def _feed(take: Any, tables: list[pl.DataFrame], over: threading.Event, pauses: list[float]) -> None:
    """Give a view ten windows a second, unless it wants fewer."""
    rows = tables[0].height
    newest = NewestRows(rows)
    due, turn = time.monotonic(), 0
    while not over.wait(max(due - time.monotonic(), 0.0)):
        newest.add(_answer(tables[turn % len(tables)], turn * rows))
        pauses.append(take(newest.table(tables[0]), rows, ""))
        due = max(due + max(BETWEEN, pauses[-1]), time.monotonic())
        turn += 1


def _page(chromium: Any, tables: list[pl.DataFrame]) -> None:
    """Print what a page has shown, and how long its tasks were."""
    with new_page(chromium) as made:
        bare = BarePage(Tab(made))
        view = QoSView(story(60), top_pairs(), names=NAMES)
        given: list[Any] = []

        def follow(take: Any, _: Any) -> _Nobody:
            given.append(take)
            return _Nobody()

        view.show_rows("pairs", tables[0].clear(), ("host",), follow)
        name = bare.show(view).get_attribute("id")
        bare.until("() => document.querySelector('.synergy-qos:not(.empty)')")
        over, pauses = threading.Event(), list[float]()
        feeding = threading.Thread(target=_feed, args=(given[0], tables, over, pauses), daemon=True)
        feeding.start()
        bare.until("() => document.querySelector('.line-of')")
        chromium.start_tracing(page=made, categories=["toplevel"])
        found = made.evaluate(MANY, [name, TURNS])
        trace = chromium.stop_tracing()
        over.set()
        feeding.join()
        bare.close()
    print(f"  page: {found['shown']:.1f} messages and {found['frames']:.0f} frames a second; {found['elements']} rows")
    print(f"  the view wants a window each {np.median(pauses) * 1000:.0f} ms")
    middle, most = np.percentile(found["answers"], [50, 95])
    print(f"  from a click or a scroll to its rows, wall time: {middle:.0f} ms, 95th percentile {most:.0f} ms")
    print(f"  {len(found['long'])} long tasks: {[round(each) for each in found['long']]} ms")
    for field, words in (("dur", "wall"), ("tdur", "processor")):
        tasks = tasks_of(trace, field)
        longest = ", ".join(f"{task:.0f}" for task in tasks[:8])
        print(f"  tasks, {words} time: {sum(tasks) / TURNS:.1f} ms for each 100 ms; longest {longest} ms")


def main(rows: int) -> None:
    """Measure, and print what was found."""
    executable = find_chromium()
    if executable is None:
        sys.exit(NO_CHROMIUM)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=executable, args=FLAGS)
        for new in (False, True):
            print(f"{rows:,} rows of {'a tenth new groups' if new else 'the same groups'}, each {BETWEEN} s:")
            tables = windows(rows, WINDOWS, new=new)
            _kernel(tables)
            _page(chromium, tables)
        chromium.close()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else ROWS)
