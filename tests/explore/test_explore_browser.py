"""Explorers in a real page: sliders, choices, buttons, and operators that are dragged from node to node."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Any

import pytest

from synergy_nb import explore
from synergy_nb.explore._explorer import Drawn, Explorer, Range
from tests.browser import ARTEFACTS, BarePage

pytestmark = pytest.mark.slow  # a browser

EXPLORERS: dict[str, Callable[[], Explorer]] = {
    "feasible_set": explore.feasible_set,
    "feasible_set_in_three": lambda: explore.feasible_set(inputs=3),
    "availability": explore.availability,
    "bursts": explore.bursts,
    "duplicates": explore.duplicates,
    "load_levels": explore.load_levels,
}


def test_operators_are_dragged_and_sliders_moved(bare: BarePage) -> None:
    shown = explore.feasible_set()
    view = bare.show(shown)
    chip, place = view.locator("[data-part=o2]").bounding_box(), view.locator("[data-place=N2]").bounding_box()
    assert chip is not None
    assert place is not None
    mouse = bare.page.mouse
    mouse.move(chip["x"] + 10, chip["y"] + 10)
    mouse.down()
    mouse.move(place["x"] + 200, place["y"] + 15, steps=4)
    mouse.up()
    bare.until_here(lambda: shown.values["o2"] == "N2")
    view.get_by_label("node of o3").select_option("N2")
    bare.until_here(lambda: shown.values["o3"] == "N2")
    assert shown.values["o1"] == shown.values["o4"] == "N1"
    bare.until("() => document.querySelector('.numbers').textContent.includes('0.7559')")
    slider = view.get_by_label("capacity of N2")
    slider.focus()
    slider.press("ArrowRight")
    bare.until_here(lambda: shown.values["c1"] == 1.25)
    view.get_by_role("button", name="largest load first").click()
    shown.set(c1=1.0)
    bare.until("() => document.querySelector('output').textContent === '1 times'")


def test_a_widget_that_is_linked_in_the_page_moves_a_control_and_is_moved_by_it(bare: BarePage) -> None:
    shown: Any = explore.bursts()
    view = bare.show(shown)
    bare.page.evaluate(
        """id => {
          globalThis.heard = [];
          const model = models.get(id);
          const other = model.seenBy("another widget");
          other.on("change:load", (_, value) => heard.push(value));
          other.set("load", 70);
        }""",
        shown.model_id,
    )
    bare.until_here(lambda: shown.load == shown.values["load"] == 70)
    slider = view.get_by_label("mean load p")
    bare.until("() => document.querySelector('output').textContent === '70 %'")
    slider.press("ArrowRight")
    bare.until_here(lambda: shown.load == 75)
    bare.until("() => heard.includes(75)")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_explorer_is_drawn_in_both_themes(bare: BarePage, scheme: str) -> None:
    bare.page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    ARTEFACTS.mkdir(parents=True, exist_ok=True)
    for name, make in EXPLORERS.items():
        shown = make()
        if "ROD" in shown.buttons:
            shown.press("ROD")
        view = bare.show(shown)
        assert view.locator(".picture svg").first.is_visible()
        wide = view.evaluate("each => each.scrollWidth > each.clientWidth")
        assert not wide
        view.screenshot(path=ARTEFACTS / f"explore_{name}_{scheme}.png")
        bare.hide(view)


def test_a_slow_button_says_so_and_the_sliders_go_on(bare: BarePage) -> None:
    computed = threading.Event()

    def search(values: dict[str, Any]) -> dict[str, Any]:
        computed.wait()
        return {**values, "size": 9}

    def draw(size: float, angle: float) -> Drawn:
        return Drawn("<svg></svg>", (("size", f"{size:g}"), ("angle", f"{angle:g}")), "")

    controls = (Range("size", "size", 0, 10), Range("angle", "angle", 0, 10))
    first = {"size": 1, "angle": 1}
    shown = Explorer("t", "e", controls, first, draw, {"search": search}, slow="The first time takes longer.")
    bare.page.clock.install()
    view = bare.show(shown)
    view.get_by_role("button", name="search").click()
    working = view.locator(".working")
    assert working.inner_text() == "Computing: search…"
    bare.page.clock.run_for(3_000)
    assert re.fullmatch(r"Computing: search, [23] s… The first time takes longer\.", working.inner_text())
    view.get_by_label("angle").focus()
    view.get_by_label("angle").press("ArrowRight")
    bare.until("() => document.querySelector('.numbers').textContent === 'size1angle2'")
    computed.set()
    bare.until("() => document.querySelector('.numbers').textContent === 'size9angle2'")
    working.wait_for(state="hidden")


def test_a_button_that_fails_says_why(bare: BarePage) -> None:
    def search(_values: dict[str, Any]) -> dict[str, Any]:
        raise ValueError("no placement")

    shown = Explorer("t", "e", (Range("size", "size", 0, 10),), {"size": 1}, lambda size: Drawn("", (), f"{size}"),
                     {"search": search})  # fmt: skip
    view = bare.show(shown)
    view.get_by_role("button", name="search").click()
    view.get_by_text("search: no placement").wait_for()
    view.locator(".working").wait_for(state="hidden")


def test_a_kernel_that_does_not_answer_is_said(bare: BarePage) -> None:
    bare.page.clock.install()
    view = bare.show(explore.feasible_set())
    bare.kernel_answers = False
    view.get_by_role("button", name="ROD").click()
    bare.page.clock.run_for(12_000)
    assert re.match(r"No answer for 1[12] s: the kernel is gone", view.locator(".working").inner_text())
