"""Explorers in a real page: sliders, choices, buttons, and operators that are dragged from node to node."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from synergy_nb import explore
from synergy_nb.explore.explorer import Explorer
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
