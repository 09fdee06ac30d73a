"""The plan editor in a real Chromium: the real page and the real widget, by mouse and by keyboard."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from synergy_nb import Plan, source
from synergy_nb.widgets.plan_editor import PlanEditor
from tests.browser import ARTEFACTS, BarePage

if TYPE_CHECKING:
    from playwright.sync_api import Locator

pytestmark = pytest.mark.slow


def quickstart() -> Plan:
    """The plan of notebooks/01_quickstart.ipynb, with names for its operators."""
    packets = source("packets", seed=1, rate="2000 tuples/s", sources=500, id="packets")
    on_b = packets.filter("link = 'B'", cost="150 us", id="on_b")
    traffic = on_b.aggregate(
        by=["source", "destination"], window="1 s", total="sum(bytes)", cost="300 us", id="traffic"
    )
    top = traffic.sort("total desc").compare("total", "90 %", count=traffic.count())
    return top.sink("top pairs", delay="2 s")


class Page:
    """One view of an editor, and what people do in it.

    Parameters
    ----------
    bare
        The page.
    editor
        The editor that is shown.
    """

    def __init__(self, bare: BarePage, editor: PlanEditor) -> None:
        self.bare = bare
        self.editor = editor
        self.view = bare.show(editor)
        self.keyboard, self.mouse = bare.page.keyboard, bare.page.mouse
        bare.until("name => document.getElementById(name).synergyEditor", self.view.get_attribute("id"))

    def node(self, name: str) -> Locator:
        return self.view.locator(f".node[data-node='{name}']")

    def field(self, name: str) -> Locator:
        return self.view.locator(f".form [data-field='{name}']")

    def palette(self, kind: str) -> Locator:
        return self.view.locator(f".palette button[data-kind={kind}]")

    def button(self, name: str) -> Locator:
        return self.view.get_by_role("button", name=name, exact=True)

    def fill(self, name: str, text: str) -> None:
        """Type into a field, and leave it by Enter."""
        self.field(name).click()
        self.keyboard.press("Control+A")
        self.keyboard.type(text)
        self.keyboard.press("Enter")

    def type(self, *keys: str) -> None:
        """Press keys, or type texts, which begin with a space."""
        for key in keys:
            if key.startswith(" "):
                self.keyboard.type(key[1:])
            else:
                self.keyboard.press(key)

    def drag(self, start: Locator, end: Locator) -> None:
        """Drag from the middle of one element to that of another."""
        self.still()
        for place, act in ((start, self.mouse.down), (end, self.mouse.up)):
            box = place.bounding_box()
            assert box is not None
            self.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2, steps=6)
            act()

    def still(self) -> None:
        """Wait until the picture has come to rest and every edit has been checked."""
        self.bare.until(
            """name => {
                const { editor, scene, frame } = document.getElementById(name).synergyEditor;
                return !editor.edits.pending.length && !frame && !scene.moving(performance.now());
            }""",
            self.view.get_attribute("id"),
        )

    def said(self) -> list[str]:
        """What was announced to screen readers at last."""
        self.still()
        return self.view.locator(".announcement[aria-live] p").all_text_contents()

    def shoot(self, name: str) -> None:
        """Keep a picture for people to look at."""
        self.still()
        ARTEFACTS.mkdir(parents=True, exist_ok=True)
        self.bare.page.screenshot(path=ARTEFACTS / f"{name}.png")


@pytest.fixture
def empty(bare: BarePage) -> Page:
    return Page(bare, PlanEditor())


@pytest.fixture
def filled(bare: BarePage) -> Page:
    return Page(bare, PlanEditor(quickstart().to_yaml()))


def test_the_quickstarts_plan_is_built_by_mouse(empty: Page) -> None:
    page = empty
    page.palette("source").click()
    page.fill("id", "packets")
    for name, text in (("seed", "1"), ("rate", "2000 tuples/s"), ("sources", "500")):
        page.fill(name, text)
    page.palette("filter").click()
    page.fill("where", "link = 'B'")
    page.fill("id", "on_b")
    page.view.locator(".form summary").click()
    page.fill("cost", "150 us")
    page.palette("aggregate").click()
    page.fill("id", "traffic")
    for column in ("source", "destination"):
        page.field("by").click()
        page.view.get_by_role("option", name=f"{column} str", exact=True).click()
    page.fill("window", "1 s")
    page.fill("values", "total")
    page.fill("values=", "sum(bytes)")
    page.fill("cost", "300 us")  # the other fields stay unfolded
    page.palette("sort").click()
    page.field("by").click()
    page.view.get_by_role("option", name="total int").click()
    page.view.get_by_role("button", name="total: smallest first; turn").click()
    page.palette("compare").click()
    page.field("value").click()
    page.view.get_by_role("option", name="total int").click()
    page.fill("fraction", "90 %")
    page.node("traffic").click()
    page.palette("count").click()
    page.drag(page.node("count").locator(".source"), page.node("compare").locator(".target").nth(1))
    page.node("compare").click()
    page.palette("sink").click()
    page.fill("name", "top pairs")
    page.view.locator("svg.canvas").click(position={"x": 20, "y": 20})
    page.fill("name", "top pairs")
    page.fill("delay", "2 s")
    page.shoot("plan_editor")
    assert _same(page.editor.plan, quickstart())
    assert page.view.locator(".status .good").text_content() == "✓ valid"


def test_the_quickstarts_plan_is_built_by_keyboard(empty: Page) -> None:
    page = empty
    page.bare.page.evaluate("() => document.querySelector('.synergy-editor svg.canvas').focus()")
    page.type("/", " source", "Enter")
    page.type("Escape", "F2", " packets", "Enter")
    for name, text in (("seed", "1"), ("rate", "2000 tuples/s"), ("sources", "500")):
        _tab_to(page, name)
        page.type(f" {text}", "Enter")
    page.type("Escape", "/", " filter", "Enter", " link = 'B'", "Enter", "Escape", "F2", " on_b", "Enter")
    _cost(page, "150 us")
    page.type("Escape", "/", " aggr", "Enter")
    assert _focused(page) == "window"
    page.type(" 1 s", "Enter", "Escape", "F2", " traffic", "Enter")
    _tab_to(page, "by")
    page.type(" sour", "ArrowDown", "Enter", " dest", "ArrowDown", "Enter")
    _tab_to(page, "values")
    page.type(" total", "Tab", " sum", "ArrowDown", "Enter", " byt", "ArrowDown", "Enter", "End", "Enter")
    _cost(page, "300 us")
    page.type("Escape", "/", " sort", "Enter", " total desc", "Enter", "Escape")
    page.type("/", " comp", "Enter", " to", "ArrowDown", "Enter")
    _tab_to(page, "fraction")
    page.type(" 90 %", "Enter", "Escape", "ArrowLeft", "ArrowLeft", "/", " count", "Enter", "Escape")
    page.type("c")
    assert any(words.endswith("To compare, count: 3 of 3.") for words in page.said())
    page.type("Enter", "ArrowRight", "/", " sink", "Enter", "Control+A", " top pairs", "Enter", "Escape", "Escape")
    _tab_to(page, "name")
    page.type("Control+A", " top pairs", "Enter")
    _tab_to(page, "delay")
    page.type(" 2 s", "Enter")
    page.still()
    assert _same(page.editor.plan, quickstart())


def _same(one: Plan, other: Plan) -> bool:
    """Whether two plans are equal but for the order in which their operators are written."""
    return (one.name, one.qos, one.operators) == (other.name, other.qos, other.operators)


def _focused(page: Page) -> str | None:
    name: str | None = page.bare.page.evaluate("() => document.activeElement.dataset.field ?? null")
    return name


def _tab_to(page: Page, field: str) -> None:
    """Press Tab until a field has the focus."""
    for _ in range(60):
        if _focused(page) == field:
            return
        page.type("Tab")
    raise AssertionError(f"no field {field} is reached by Tab")


def _cost(page: Page, text: str) -> None:
    """Unfold the other fields of the form, if they are not, and type a cost."""
    if not page.field("cost").count():
        for _ in range(40):
            if page.bare.page.evaluate("() => document.activeElement.tagName") == "SUMMARY":
                break
            page.type("Tab")
        page.type("Enter")
    _tab_to(page, "cost")
    page.type(f" {text}", "Enter")
