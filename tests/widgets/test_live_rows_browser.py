"""Rows beside the live view in a real Chromium: sorting, marks, scrolling, moments, and a hundred thousand of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

from synergy_nb.widgets.qos_view import QoSView
from tests.browser import ARTEFACTS, BarePage
from tests.qos_story import NAMES, START, replicated, story, top_pairs
from tests.widgets.contrast import faint
from tests.widgets.live_rows_frames import MANY, ROWS
from tests.widgets.live_rows_frames import windows as tables

pytestmark = pytest.mark.slow  # a browser

CELLS = "[...document.querySelectorAll('.line-of:not([hidden])')].sort((a, b) => a.row - b.row)"
ANSWERED = "() => !document.getElementById('view-1').synergyView.rows.waits"
MARKUP = "<img src=x onerror=alert(1)>"


class Rows:
    """Somebody who gives rows to a view."""

    def __init__(self, empty: pl.DataFrame, keys: tuple[str, ...] = (), journal: Any = None) -> None:
        self.view = QoSView(story(60) if journal is None else journal, top_pairs(), names=NAMES)
        self.asked: list[tuple[float, float]] = []
        self.answer: Callable[[pl.DataFrame, int, str], None] = lambda *_: None
        self.woken = 0

        def follow(take: Any, watched: Any) -> Rows:
            self.take, self.watched = take, watched
            return self

        self.view.show_rows("top pairs", empty, keys, follow)

    def wake(self, *, last: bool = False) -> None:
        self.woken += 1

    def moment(self, since: float, until: float, answer: Callable[[pl.DataFrame, int, str], None]) -> None:
        self.asked.append((since, until))
        self.answer = answer

    def close(self) -> None:
        pass


def windows(end: int, **values: list[Any]) -> pl.DataFrame:
    times = {"window_start": end - 1, "window_end": end}
    same = [pl.lit(at * 1_000_000).cast(pl.Datetime("us")).alias(name) for name, at in times.items()]
    return pl.DataFrame(values).select(*same, *values)


FIRST = windows(1, host=["b", MARKUP, "c", None], n=[10, 9, 9, 1], ratio=[0.5, None, 1e-7, 12345678.9])
SECOND = windows(2, host=["b", MARKUP, "c", "new"], n=[10, 12, 3, 1], ratio=[0.5, None, 1e-7, 12345678.9])


def shown(bare: BarePage, rows: Rows) -> str:
    name = str(bare.show(rows.view).get_attribute("id"))
    bare.until("view => document.querySelector(`#${view} .synergy-qos:not(.empty)`)", name)
    return name


def cells(bare: BarePage, name: str = "view-1") -> list[list[str]]:
    found: list[list[str]] = bare.page.evaluate(
        f"name => {CELLS.replace('document', 'document.getElementById(name)')}"
        ".map((row) => [...row.children].map((cell) => cell.textContent))",
        name,
    )
    return found


def until_cells(bare: BarePage, wanted: list[list[str]], name: str = "view-1") -> None:
    bare.until_here(lambda: cells(bare, name) == wanted)


BEFORE = [["b", "10", "0.5"], [MARKUP, "9", ""], ["c", "9", "1e-7"], ["", "1", "12345700"]]


def test_the_newest_window_its_marks_and_the_order_that_a_click_chooses(bare: BarePage) -> None:
    rows = Rows(FIRST.clear(), ("host",))
    name = shown(bare, rows)
    assert rows.watched()
    assert rows.woken
    rows.take(FIRST, 4, "")
    until_cells(bare, BEFORE)
    head = bare.page.locator(".heads .head")
    assert head.locator(".about").all_inner_texts() == ["3 different, 1 empty", "1 to 10", "1e-7 to 12345700, 1 empty"]
    assert bare.page.locator(".newest .caption").inner_text().startswith("4 rows of the newest window, from 1970-01-01")
    assert bare.page.locator("img").count() == 0, "values are no markup"
    chart = (
        "canvas => canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.some((part) => part)"
    )
    assert all(bare.page.evaluate(chart, each.element_handle()) for each in head.locator("canvas").all())

    by = head.nth(1).locator("button")
    by.click()
    until_cells(bare, [BEFORE[3], BEFORE[1], BEFORE[2], BEFORE[0]])
    assert head.nth(1).get_attribute("aria-sort") == "ascending"
    by.press("Enter")  # by keyboard, too
    until_cells(bare, [BEFORE[0], BEFORE[1], BEFORE[2], BEFORE[3]])
    head.nth(0).locator("button").click()
    until_cells(bare, [BEFORE[1], BEFORE[0], BEFORE[2], BEFORE[3]])

    rows.take(pl.concat([FIRST, SECOND]), 4, "")
    until_cells(bare, [[MARKUP, "12", ""], ["b", "10", "0.5"], ["c", "3", "1e-7"], ["new", "1", "12345700"]])
    looks = f"name => {CELLS}.map((row) => [row.className, ...[...row.children].map((cell) => cell.className)])"
    assert bare.page.evaluate(looks) == [
        ["line-of", "", "number up", "number none"],
        ["line-of", "", "number", "number"],
        ["line-of", "", "number down", "number"],
        ["line-of fresh", "", "number", "number"],
    ]
    ARTEFACTS.mkdir(parents=True, exist_ok=True)
    for scheme in ("light", "dark"):
        bare.page.emulate_media(color_scheme=scheme)
        assert not faint(bare, ".synergy-qos"), scheme
        bare.page.screenshot(path=ARTEFACTS / f"live_rows_{scheme}.png", full_page=True)

    rows.take(FIRST.clear(), 0, "peer-2 does not answer")
    until_cells(bare, [])
    assert bare.page.locator(".newest .silence").inner_text() == "▲ peer-2 does not answer"
    other = shown(bare, rows)
    rows.take(FIRST, 4, "")
    bare.until_here(lambda: len(cells(bare, name)) == len(cells(bare, other)) == 4)
    bare.reload()
    until_cells(bare, BEFORE)


def test_what_is_paused_stays_and_can_be_sorted(bare: BarePage) -> None:
    rows = Rows(FIRST.clear(), ("host",))
    shown(bare, rows)
    rows.take(FIRST, 4, "")
    until_cells(bare, BEFORE)
    bare.page.locator(".hold").click()
    bare.until(ANSWERED)
    rows.take(SECOND, 4, "")
    bare.page.locator(".heads button").nth(0).click()
    until_cells(bare, [BEFORE[1], BEFORE[0], BEFORE[2], BEFORE[3]])
    bare.page.locator(".hold").click()
    bare.until_here(lambda: [row[:2] for row in cells(bare)][2:] == [["c", "3"], ["new", "1"]])


def test_while_the_kernel_is_busy_the_rows_that_are_there_scroll_and_others_come_later(bare: BarePage) -> None:
    many = windows(1, host=[f"{n:04}" for n in range(1000)], n=list(range(1000, 0, -1)))
    rows = Rows(many.clear(), ("host",))
    name = shown(bare, rows)
    rows.take(many, 1000, "")
    lines = CELLS.replace("document", "document.getElementById(name)")
    hosts = f"name => {lines}.map((row) => row.children[0].textContent)"
    table = bare.page.locator(".table")

    def at(first: int, awaited: str) -> None:
        """Scroll to a row, which is shown there."""
        table.evaluate("(table, top) => { table.scrollTop = top; }", first * 24)
        bare.until(f"([name, text]) => ({hosts})(name).some((each) => each === text)", [name, awaited])

    at(0, "0010")
    bare.kernel_answers = False
    at(80, "0090")
    assert "…" not in bare.page.evaluate(hosts, name), "some pages ahead are there"
    at(600, "…")
    bare.page.locator(".heads button").nth(1).click()
    bare.until("() => document.querySelector('.caption').textContent.includes('the kernel is busy')")
    assert table.get_attribute("aria-busy") == "true"
    by = bare.page.locator(".heads .head").nth(1)
    assert (by.get_attribute("aria-sort"), by.locator(".arrow").inner_text()) == ("none", "…"), "it is not sorted yet"
    for scheme in ("light", "dark"):
        bare.page.emulate_media(color_scheme=scheme)
        assert not faint(bare, ".synergy-qos"), scheme
        bare.page.screenshot(path=ARTEFACTS / f"live_rows_busy_{scheme}.png", full_page=True)
    bare.kernel_answers = True
    bare.until(f"name => ({hosts})(name).includes('0395')", name)  # the page asks again
    assert "busy" not in bare.page.locator(".caption").inner_text()
    assert (table.get_attribute("aria-busy"), by.get_attribute("aria-sort")) == ("false", "ascending")
    at(990, "0000")


def test_a_brush_on_the_delays_shows_rows_and_events_of_that_time(bare: BarePage) -> None:
    rows = Rows(FIRST.clear(), ("host",), replicated())
    shown(bare, rows)
    rows.take(FIRST, 4, "")
    until_cells(bare, BEFORE)
    plot = bare.page.locator(".chart.delay .u-over").bounding_box()
    assert plot is not None
    middle = plot["y"] + plot["height"] / 2
    bare.page.mouse.move(plot["x"] + 10, middle)
    bare.page.mouse.down()
    bare.page.mouse.move(plot["x"] + plot["width"] - 10, middle, steps=4)
    bare.page.mouse.up()
    bare.until_here(lambda: rows.asked)
    since, until = rows.asked[0]
    assert START <= since < until
    rows.answer(SECOND.head(2), 3, "")
    until_cells(bare, [["b", "10", "0.5"], [MARKUP, "12", ""]])
    caption = bare.page.locator(".newest .caption").inner_text()
    assert "2 rows; 3 rows of that time are not retained any more" in caption
    then = bare.page.locator(".newest .then li").all_inner_texts()
    assert any("died" in each or "dead" in each for each in then), then
    bare.page.screenshot(path=ARTEFACTS / "live_rows_moment.png", full_page=True)
    rows.take(FIRST, 4, "")
    assert len(cells(bare)) == 2, "one looks at the moment"

    chart = bare.page.locator(".chart.delay")
    chart.press("ArrowLeft")
    bare.until_here(lambda: len(rows.asked) == 2)
    assert rows.asked[1][0] < since
    chart.press("Shift+ArrowRight")
    bare.until_here(lambda: len(rows.asked) == 3)
    assert rows.asked[2][0] == rows.asked[1][0]
    chart.press("Escape")
    until_cells(bare, BEFORE)
    assert bare.page.locator(".newest .back").is_hidden()


# Whether the lines of a table show different rows.
OWN_ROWS = """name => {
  const drawn = [...document.querySelectorAll(`#${name} .line-of`)].filter((each) => !each.hidden);
  return new Set(drawn.map((each) => each.children[0].textContent)).size > 10;
}"""


def test_a_hundred_thousand_rows_are_as_quick_as_a_hundred(bare: BarePage) -> None:
    """Few elements exist for them; how long tasks take is measured by ``python -m tests.widgets.live_rows_frames``."""
    (many,) = tables(ROWS, 1, new=False)
    rows = Rows(many.clear(), ("host",))
    name = shown(bare, rows)
    rows.take(many, ROWS, "")
    bare.until("() => document.querySelector('.line-of')")
    found = bare.page.evaluate(MANY, [name, 2])
    assert 13 <= found["drawn"] <= found["elements"] <= 40
    bare.until(OWN_ROWS, name)  # how soon they come after the last turn depends on the machine
    assert found["height"] > 2_400_000
