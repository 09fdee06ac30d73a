"""Linked charts in a real page: brushes by mouse, touch and keys, both themes, and how long a brush takes."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from synergy_nb import explore
from synergy_nb.explore._trace_view import TraceView
from tests.browser import ARTEFACTS, BarePage
from tests.explore.trace_frames import ODD, mixed_frame
from tests.widgets.contrast import faint

pytestmark = pytest.mark.slow  # a browser


def _view(rows: int = 400) -> TraceView:
    return explore.trace(mixed_frame(rows), columns=["time", ODD, "size", "many", "delay", "ok"])


def _middle(box: Any, share: float) -> tuple[float, float]:
    return box["x"] + share * box["width"], box["y"] + box["height"] / 2


def test_a_brush_in_one_chart_filters_all_others(bare: BarePage) -> None:
    shown = _view()
    view = bare.show(shown)
    surface = view.locator(".chart.time .surface")
    box = surface.bounding_box()
    mouse = bare.page.mouse
    mouse.move(*_middle(box, 0.25))
    mouse.down()
    for share in (0.3, 0.4, 0.5):
        mouse.move(*_middle(box, share))
    mouse.up()
    bars = shown.crossfilter.charts[0].bars
    bare.until_here(lambda: (shown.brushes[0] or [0])[-1] == int(bars * 0.5))
    assert shown.brushes[0] == list(range(int(bars * 0.25), int(bars * 0.5) + 1))
    bare.until("words => document.querySelector('.sentence').textContent === words", shown.sentence)
    before = list(shown.brushes[0])
    mouse.move(*_middle(box, 0.4))  # within the brush: it moves
    mouse.down()
    mouse.move(*_middle(box, 0.6), steps=3)
    mouse.up()
    bare.until_here(lambda: shown.brushes[0] != before)
    assert len(shown.brushes[0]) == len(before)
    view.get_by_role("button", name="it's").click()
    view.get_by_role("button", name="others").click()
    bare.until_here(lambda: len(shown.selection) == 3)
    counts = view.locator(".chart.keys").nth(1).locator(".key:not([hidden]) .count").all_inner_texts()
    assert shown.rows == int(counts[-1].replace(",", "")), "the others of many"
    view.get_by_role("button", name="Clear time").click()
    bare.until_here(lambda: "time" not in shown.selection)
    view.get_by_role("button", name="Clear all").click()
    bare.until_here(lambda: shown.rows == shown.total)
    bare.until("() => document.querySelector('.sentence').textContent === 'All 400 rows.'")


def test_keys_and_touch_do_what_a_mouse_does(bare: BarePage) -> None:
    shown = _view()
    view = bare.show(shown)
    surface = view.locator(".chart.number .surface")
    surface.focus()
    for key in ("ArrowRight", "ArrowRight", "Shift+ArrowRight", "End"):
        surface.press(key)
    place = [chart.column for chart in shown.crossfilter.charts].index("size")
    bars = shown.crossfilter.charts[place].bars
    bare.until_here(lambda: shown.brushes[place] == [bars - 2, bars - 1])
    surface.press("Escape")
    bare.until_here(lambda: shown.rows == shown.total)
    button = view.get_by_role("button", name="it's")
    button.focus()
    for key in ("ArrowDown", "ArrowUp", "Enter"):
        button.press(key)
    bare.until_here(lambda: ODD in shown.selection)
    view.locator(".chart.duration .surface").evaluate(
        """surface => {
          const { x, y, width } = surface.getBoundingClientRect();
          surface.setPointerCapture = () => {};
          const touch = (kind, share) => surface.dispatchEvent(new PointerEvent(kind,
            { pointerId: 7, pointerType: "touch", clientX: x + share * width, clientY: y + 9, bubbles: true }));
          touch("pointerdown", 0.1), touch("pointermove", 0.3), touch("pointerup", 0.3);
        }"""
    )
    bare.until_here(lambda: "delay" in shown.selection)
    view.locator(".chart.duration .none").click()
    bare.until_here(lambda: shown.selection["delay"].get("missing"))


def test_a_selection_from_python_is_shown_in_all_views_and_after_a_reload(bare: BarePage) -> None:
    shown = _view()
    bare.show(shown)
    bare.show(shown).locator(".sentence").wait_for()
    shown.select({ODD: ["it's", None]}, size=(100, 10_000))
    sentences = "words => [...document.querySelectorAll('.sentence')].every(each => each.textContent === words)"
    bare.until(sentences, shown.sentence)
    bare.until("() => document.querySelectorAll('.key[aria-pressed=true]').length === 4")
    bare.reload()
    bare.until("() => document.querySelectorAll('.key[aria-pressed=true]').length === 4")
    bare.until(sentences, shown.sentence)
    assert bare.page.locator(".brush:not([hidden])").count() == 2


def test_a_kernel_that_is_gone_is_said(bare: BarePage) -> None:
    bare.page.clock.install()
    view = bare.show(_view())
    view.locator(".sentence").wait_for()
    bare.kernel_answers = False
    bare.page.clock.run_for(12_000)
    assert "the kernel is gone" in view.locator(".silence").inner_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_charts_can_be_read_in_both_themes_and_narrow(bare: BarePage, scheme: Any) -> None:
    bare.page.emulate_media(color_scheme=scheme)
    ARTEFACTS.mkdir(parents=True, exist_ok=True)
    shown = _view(3000)
    view = bare.show(shown)
    view.locator(".sentence").wait_for()
    shown.select({ODD: ["it's", "", None]}, size=(50, 10_000))
    bare.until("words => document.querySelector('.sentence').textContent === words", shown.sentence)
    view.screenshot(path=ARTEFACTS / f"trace_view_{scheme}.png")
    assert not faint(bare, ".synergy-trace")
    bare.page.set_viewport_size({"width": 380, "height": 800})
    assert not view.evaluate("each => each.scrollWidth > each.clientWidth")
    view.screenshot(path=ARTEFACTS / f"trace_view_narrow_{scheme}.png")
    bare.page.set_viewport_size({"width": 1000, "height": 800})
    bare.page.evaluate("still => { document.body.innerHTML = still; }", shown.to_svg())
    bare.page.locator("svg").screenshot(path=ARTEFACTS / f"trace_view_still_{scheme}.png")


def test_an_empty_trace_and_odd_values_are_drawn(bare: BarePage) -> None:
    view = bare.show(explore.trace({"time": [], "a": []}))
    view.get_by_text("No values.").wait_for()
    markup = pl.DataFrame({"time": [0.0], "<i>name</i>": ["<img src=x onerror=alert(1)>"]})
    other = bare.show(explore.trace(markup, columns=["time", "<i>name</i>"]))
    other.get_by_text("<img src=x onerror=alert(1)>").wait_for()
    assert not other.locator("img, i:not(.edge)").count()
