"""The plan editor in a real Chromium: the real page and the real widget, by mouse and by keyboard."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

from synergy_nb import Plan, plan, source
from synergy_nb.widgets.plan_editor import PlanEditor
from tests.browser import ARTEFACTS, ROOT, BarePage, new_page
from tests.jupyterlab import CONFIGURATION, JupyterLab
from tests.widgets.contrast import faint
from tests.widgets.editor_page import Page

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator

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
    page.palette("count").click(modifiers=["Shift"])  # beside its reader
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
    page.type(" 90 %", "Enter", "Escape", "ArrowLeft", "ArrowLeft", "/", " count", "Shift+Enter", "Escape")
    page.type("c")
    assert any(words.endswith("To compare, count: 3 of 3.") for words in page.said())
    page.type("Enter", "ArrowRight", "/", " sink", "Enter", "Control+A", " top pairs", "Enter", "Escape", "Escape")
    page.view.locator(".form .kind", has_text="plan").wait_for()
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


# -- gestures ----------------------------------------------------------------------------------------------------------


def inputs(page: Page) -> dict[str, list[str]]:
    """What each operator reads, as the kernel has it."""
    page.still()
    return {each["id"]: each["inputs"] for each in page.editor.document["operators"]}


def test_the_destination_of_a_sink_is_a_format_and_its_options(filled: Page) -> None:
    page = filled
    (sink,) = page.editor.plan.sinks
    page.node(sink).click()
    page.field("to").select_option("sqlite")
    page.fill("to.path", "rows, of [today].sqlite")
    page.fill("to.table", "pairs")
    page.fill("to.key", "[source, destination]")
    page.fill("to.every", "2 s")
    expected = {
        "format": "sqlite",
        "path": "rows, of [today].sqlite",
        "table": "pairs",
        "key": ["destination", "source"],
        "every": 2.0,
    }
    page.bare.until_here(lambda: page.editor.plan.operators[sink].params.get("to") == expected)
    assert page.view.locator(".status .good").text_content() == "✓ valid"
    page.shoot("plan_editor_destination")
    page.field("to").select_option("csv")  # which has no table
    kept = {"format": "csv", "path": "rows, of [today].sqlite", "every": 2.0}
    page.bare.until_here(lambda: page.editor.plan.operators[sink].params.get("to") == kept)
    page.field("to").select_option("")
    page.bare.until_here(lambda: "to" not in page.editor.plan.operators[sink].params)


def test_an_operator_that_is_dropped_on_a_line_goes_between_and_removing_it_restores_the_line(filled: Page) -> None:
    page = filled
    before = inputs(page)
    line = page.view.locator(".line[data-from=on_b] .reach")
    page.drag(page.palette("sample"), line)
    after = inputs(page)
    assert (after["sample"], after["traffic"]) == (["on_b"], ["sample"])
    assert page.field("fraction").evaluate("it => it === document.activeElement")
    page.type(" 10 %", "Enter", "Escape", "Delete")
    assert inputs(page) == before
    page.type("Control+Z", "Control+Z", "Control+Z")
    page.still()
    assert page.editor.yaml == quickstart().to_yaml()
    page.type("Control+Shift+Z")
    assert "sample" in inputs(page)
    page.button("Undo").click()
    assert inputs(page) == before
    assert "Undone: add sample." in page.said()


def test_a_click_in_the_palette_goes_between_what_is_selected_and_its_readers(filled: Page) -> None:
    page = filled
    page.node("on_b").click()
    page.palette("sample").click()
    after = inputs(page)
    assert (after["sample"], after["traffic"]) == (["on_b"], ["sample"])
    page.node("traffic").click()
    page.palette("distinct").click()
    after = inputs(page)
    assert (after["distinct"], after["sort"], after["count"]) == (["traffic"], ["distinct"], ["distinct"])
    page.node("sort").click()
    page.palette("sink").click()  # nothing reads a sink
    assert inputs(page)["compare"] == ["sort", "count"]


def test_a_line_that_is_dropped_on_the_empty_canvas_offers_what_fits(filled: Page) -> None:
    page = filled
    canvas = page.view.locator("svg.canvas").bounding_box()
    assert canvas is not None

    def drop(port: Locator) -> None:
        page.still()
        box = port.bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        page.mouse.down()
        page.mouse.move(canvas["x"] + 300, canvas["y"] + canvas["height"] - 30, steps=6)
        page.mouse.up()
        offered.wait_for()

    offered = page.view.locator(".offer")
    drop(page.node("on_b").locator(".source"))
    kinds = offered.get_by_role("option").all_inner_texts()
    assert "sink" in kinds
    assert "source" not in kinds
    page.shoot("plan_editor_offer")
    page.type(" dist", "Enter")
    after = inputs(page)
    assert (after["distinct"], after["traffic"]) == (["on_b"], ["on_b"])
    drop(page.node("traffic").locator(".target"))
    assert {"source", "sink"} & set(offered.get_by_role("option").all_inner_texts()) == {"source"}
    page.type("Escape")
    assert inputs(page) == after
    drop(page.node("traffic").locator(".source"))
    page.type("ArrowUp")  # the last of the list, which is seen
    chosen = "() => { const box = document.querySelector('.offer ul').getBoundingClientRect(); const one ="
    chosen += " document.querySelector('.offer [aria-selected=true]').getBoundingClientRect();"
    page.bare.until(f"{chosen} return one.top > box.top && one.bottom < box.bottom + 1; }}")
    page.type("Escape")
    drop(page.node("traffic").locator(".target"))
    offered.get_by_role("option", name="source", exact=True).click()
    assert inputs(page)["traffic"] == ["source"]
    page.still()
    page.drag(page.node("on_b").locator(".source"), page.node("sort").locator(".name"))
    assert inputs(page)["sort"] == ["on_b"]


def test_a_file_is_chosen_and_its_header_is_read(empty: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trips").mkdir()
    more = [f"c{n}" for n in range(12)]  # so that the form is longer than its place
    rows = "".join(f"{n}.5,2024-01-01 00:{n:02}:00,2024-01-01 01:00:00,{',' * 12}5\n" for n in range(30))
    (tmp_path / "trips" / "taxi.csv").write_text(f"tip,began,ended,{','.join(more)},1\n{rows}", "utf-8")
    (tmp_path / "plain.csv").write_text("when,größe\n1.5,2\n", "latin-1")
    page = empty
    page.bare.page.set_viewport_size({"width": 700, "height": 800})
    page.button("Open a data file…").click()
    page.button("trips/").click()
    page.view.locator(".picker").get_by_role("button", name="taxi.csv").wait_for()
    page.shoot("plan_editor_picker")
    page.type("ArrowDown", "Enter")  # from the folder above to the file
    page.view.locator(".sample tbody tr").nth(19).wait_for()
    page.shoot("plan_editor_file")
    found = page.editor.document["operators"][0]["fields"]
    assert (found["path"], found["format"], found["time"]) == ("trips/taxi.csv", "csv", "began")
    assert found["columns"].startswith("{tip: float, began: time, ended: time, c0: str, ")
    assert found["columns"].endswith(", '1': int}")  # in the order of the file
    assert "Event time: began; ended holds times, too." in page.view.locator(".status .note").inner_text()
    page.button("Browse…").click()  # another file, in the folder above
    page.button("folder above").click()
    page.view.locator(".picker").get_by_role("button", name="plain.csv").click()
    page.bare.until("() => document.activeElement.dataset.field === 'time'")
    page.type(" when", "Enter")
    page.still()
    found = page.editor.document["operators"][0]["fields"]
    assert (found["path"], found["columns"], found["time"]) == ("plain.csv", "{when: float, größe: int}", "when")
    assert found["encoding"] == "windows-1252"
    page.fill("path", "gone.csv")
    wrong = page.view.locator("[data-row=path] .problem")
    wrong.get_by_text("gone.csv: no such file").wait_for()
    assert invalid(page, "path") == "▲gone.csv: no such file; expected a trace file; did you mean 'plain.csv'?"
    assert not page.editor.document["undo"].startswith("read")
    page.fill("format", "csv")
    page.still()
    assert wrong.count() == 1, "the path is still there"
    page.shoot("plan_editor_wrong_path")
    page.button("Browse…").click()
    typed = page.view.locator(".picker input")
    typed.fill("gone.csv")
    typed.press("Enter")
    page.bare.until("() => document.querySelector('.picker input').getAttribute('aria-invalid') === 'true'")
    typed.fill("trips/taxi.csv")
    typed.press("Enter")
    page.bare.until("() => !document.querySelector('[data-row=path] .problem')")
    assert invalid(page, "path") is None
    page.palette("source").click()
    page.field("connector").select_option("tail")
    page.fill("path", "plain.csv")
    page.still()
    page.bare.until("() => !document.querySelector('#view-1').synergyEditor.editor.waiting.size")
    assert page.editor.document["operators"][-1]["fields"]["connector"] == "tail", "it is no trace"


def test_a_click_on_a_problem_goes_to_its_field_and_tab_to_the_next_column(filled: Page) -> None:
    page = filled
    page.editor.apply(
        {"op": "set", "operator": "on_b", "field": "cost", "value": "fast"},
        {"op": "set", "operator": "traffic", "field": "values.total", "value": "sum(byts)"},
        {"op": "disconnect", "from": "traffic", "to": "count"},
        {"op": "qos", "field": "memory", "value": "much"},
    )
    page.still()
    went = []
    for _ in range(4):
        page.view.locator(".status button.bad").click()
        page.still()
        went.append(_focused(page))
    assert sorted(map(str, went)) == ["cost", "input-0", "memory", "values.total="]
    page.node("traffic").locator(".problem-badge").click()
    assert _focused(page) == "values.total="
    page.type(
        "Control+A", " sum(bytes)", "Tab", " mean", "Tab", " avg(bytes)", "Tab", " most", "Tab", " max(bytes)", "Tab"
    )
    assert _focused(page) == "values"
    page.field("by").click()
    page.type("Escape", " source_port", "Tab", " destination_port", "Tab")
    assert _focused(page) == "by"
    page.still()
    traffic = next(each for each in page.editor.document["operators"] if each["id"] == "traffic")
    assert traffic["fields"]["values"] == "{total: sum(bytes), mean: avg(bytes), most: max(bytes)}"
    assert traffic["fields"]["by"] == "[destination, source, source_port, destination_port]"


def test_a_drag_between_ports_connects_and_one_that_closes_a_circle_does_not(filled: Page) -> None:
    page = filled
    page.drag(page.node("on_b").locator(".source"), page.node("compare").locator(".target").nth(1))
    assert inputs(page)["compare"] == ["sort", "on_b"]
    before = inputs(page)
    page.drag(page.node("compare").locator(".source"), page.node("on_b").locator(".target"))
    assert inputs(page) == before


def test_a_problem_is_at_the_operator_and_its_field_and_mended_by_a_click(filled: Page) -> None:
    page = filled
    page.node("on_b").dblclick()
    page.fill("where", "lnk = 'B' AND bytes > 0")
    page.still()
    assert page.view.locator(".node.wrong").get_attribute("data-node") == "on_b"
    wrong = page.view.locator(".form .row.bad .problem")
    assert "expected a column of its input" in wrong.inner_text()
    assert page.field("where").get_attribute("aria-invalid") == "true"
    wrong.get_by_role("button", name="did you mean link?").click()
    page.still()
    assert page.field("where").input_value() == "link = 'B' AND bytes > 0"
    assert "where: link = 'B' AND bytes > 0\n" in page.editor.yaml


def test_a_hint_goes_with_the_next_action_and_an_error_stays(filled: Page) -> None:
    page = filled
    note = page.view.locator(".status .note")
    page.node("on_b").click()
    page.drag(page.node("on_b").locator(".name"), page.node("sort").locator(".name"))
    note.filter(has_text="Places are automatic").wait_for()
    page.node("traffic").click()
    page.still()
    assert note.count() == 0
    page.node("compare").click()
    page.type("F2", "Control+A", " sort", "Enter")
    note.filter(has_text="There is an operator sort already.").wait_for()
    page.node("traffic").click()
    page.still()
    assert note.count() == 1


def test_text_can_be_typed_and_its_errors_have_lines(filled: Page) -> None:
    page = filled
    page.button("YAML").click()
    area = page.view.locator(".yaml textarea")
    text = page.editor.yaml
    line = text.splitlines().index(next(each for each in text.splitlines() if "total desc" in each)) + 1
    area.fill(text.replace("total desc", "totl desc"))
    page.view.locator("svg.canvas").click(position={"x": 20, "y": 20})  # leaving commits
    page.still()
    assert page.editor.yaml == text.replace("total desc", "totl desc")
    assert page.view.locator(".gutter .bad").all_inner_texts()[0].strip("▲\n") == str(line)
    page.view.locator(".errors .mend").first.click()
    page.still()
    assert page.editor.plan == quickstart()
    assert area.input_value() == page.editor.yaml
    page.button("Python").click()
    assert page.view.locator(".python pre").inner_text().rstrip() == page.editor.python.rstrip()
    page.button("YAML").click()
    area.fill("operators: {a: [")
    page.view.locator("svg.canvas").click(position={"x": 20, "y": 20})
    page.still()
    assert page.view.locator(".errors li").count() == 1
    assert page.view.locator(".node").count() == 7  # those of the last text that can be read


def test_text_that_is_typed_is_merged_with_what_others_change_meanwhile(filled: Page) -> None:
    page = filled
    page.button("YAML").click()
    area = page.view.locator(".yaml textarea")
    area.fill(page.editor.yaml.replace("90 %", "80 %"))
    page.editor.apply({"op": "set", "operator": "on_b", "field": "cost", "value": "99 us"})
    page.view.locator("svg.canvas").click(position={"x": 20, "y": 20})
    page.still()
    assert "80 %" in page.editor.yaml
    assert "99 us" in page.editor.yaml
    assert area.input_value() == page.editor.yaml
    typed = page.editor.yaml.replace("80 %", "70 %")
    with page.typing_goes_on():
        area.fill(typed)
        page.editor.apply({"op": "set", "operator": "compare", "field": "fraction", "value": "60 %"})
        page.view.locator("svg.canvas").click(position={"x": 20, "y": 20})
    page.view.locator(".status .note.bad").wait_for()
    page.still()
    assert "60 %" in page.editor.yaml
    assert area.input_value() == typed  # and is not lost


def test_operators_are_copied_and_pasted_as_yaml(filled: Page) -> None:
    page = filled
    page.node("sort").click()
    page.node("compare").click(modifiers=["Shift"])
    page.type("Control+C", "Control+V")
    after = inputs(page)
    assert (after["sort_2"], after["compare_2"]) == (["traffic"], ["sort_2", "count"])
    other = Page(page.bare, PlanEditor())
    other.view.locator("svg.canvas").focus()
    other.type("Control+V")
    assert inputs(other) == {"sort": [], "compare": ["sort"]}


def test_a_whole_plan_is_pasted_into_an_empty_editor_with_its_requirement(filled: Page) -> None:
    page = filled
    page.view.locator("svg.canvas").focus()
    page.type("Control+A", "Control+C")
    other = Page(page.bare, PlanEditor())
    other.view.locator("svg.canvas").focus()
    other.type("Control+V")
    other.still()
    assert _same(other.editor.plan, quickstart())
    other.button("Undo").click()
    other.still()
    assert other.editor.yaml == PlanEditor().yaml


def invalid(page: Page, name: str) -> str | None:
    """What a field says is wrong with it, to eyes and to screen readers; None: nothing."""
    field = page.field(name)
    if field.get_attribute("aria-invalid") == "false":
        return None
    told = page.view.locator(f"#{field.get_attribute('aria-describedby')}")
    return "".join(told.locator(".problem > span").all_text_contents()).strip()


def test_a_refused_name_leaves_the_form_open_and_the_old_name(filled: Page) -> None:
    page = filled
    page.node("on_b").click()
    page.fill("id", "on: b")
    page.view.locator(".status .note.bad").wait_for()
    page.still()
    assert page.field("id").input_value() == "on_b"
    assert (invalid(page, "id") or "").startswith("▲on: b: expected an id of 1 to 100 characters")
    assert page.field("id").evaluate("it => it === document.activeElement")
    page.fill("id", "sort")
    page.view.locator(".form .problem").get_by_text("There is an operator sort already.").wait_for()
    assert invalid(page, "id") == "▲There is an operator sort already."
    assert page.node("on_b").evaluate("it => it.classList.contains('selected')")
    page.fill("id", "on: b")
    page.button("did you mean on b?").click()
    page.still()
    assert "on b" in inputs(page)
    assert invalid(page, "id") is None
    page.fill("id", "große")
    page.still()
    assert "große" in inputs(page)


def test_what_is_still_to_fill_in_is_no_mistake_before_it_had_a_value(empty: Page) -> None:
    page = empty
    page.palette("source").click()
    page.palette("filter").click()
    page.still()
    assert page.node("filter").locator(".due-badge title").text_content() == "to do: fill in where"
    assert page.view.locator(".wrong, .bad").count() == 0
    assert page.view.locator(".row .due").inner_text() == "to fill in"
    assert page.view.locator(".status button.due").inner_text() == "… 2 to do"
    assert "To do: filter, fill in where; a sink." in page.said()
    page.shoot("plan_editor_to_do")
    page.fill("where", "bytes > 0")
    page.field("where").click()
    page.type("Control+A", "Delete", "Enter")
    page.still()
    assert page.node("filter").get_attribute("class") == "node selected wrong nopan"
    assert page.view.locator(".status button.bad").inner_text() == "▲ 1 problem"
    page.palette("sort").click()
    page.still()
    assert page.view.locator(".node.wrong").count() == 1
    page.button("Check").click()
    page.still()
    assert page.view.locator(".node.wrong").count() == 2
    assert page.view.locator(".status button.bad").inner_text() == f"▲ {len(page.editor.problems)} problems"


def test_several_operators_are_selected_by_a_rectangle_and_removed_copied_and_moved_as_one_gesture(
    filled: Page,
) -> None:
    page = filled
    before = page.editor.yaml
    boxes = [page.node(name).locator(".shape").bounding_box() for name in ("sort", "count")]
    assert boxes[0] is not None
    assert boxes[1] is not None
    page.keyboard.down("Shift")
    page.mouse.move(boxes[0]["x"] - 8, min(box["y"] for box in boxes if box) - 8)
    page.mouse.down()
    page.mouse.move(boxes[0]["x"] + 10, max(box["y"] for box in boxes if box) + 10, steps=4)
    page.bare.page.screenshot(path=ARTEFACTS / "plan_editor_rectangle.png")
    page.mouse.up()
    page.keyboard.up("Shift")
    assert page.view.locator(".node.selected").evaluate_all("all => all.map(it => it.dataset.node)") == [
        "sort",
        "count",
    ]
    assert page.view.locator(".form .several").inner_text().split() == ["2", "operators", "selected"]
    assert page.said()[-1] == "2 operators selected."
    page.type("Control+C", "Delete")
    assert list(inputs(page)) == ["packets", "on_b", "traffic", "compare", "sink"]
    page.type("Control+Z")
    page.still()
    assert page.editor.yaml == before
    page.type("Control+V")
    assert inputs(page)["sort_2"] == inputs(page)["count_2"] == ["traffic"]
    page.type("Control+Z")
    page.still()
    assert page.editor.yaml == before


def test_operators_in_a_row_are_moved_to_another_line_by_mouse_and_by_keyboard(filled: Page) -> None:
    page = filled
    before = inputs(page)
    page.drag(page.node("on_b").locator(".shape"), page.view.locator(".line[data-from=count] .reach"))
    moved = inputs(page)
    assert (moved["traffic"], moved["on_b"], moved["compare"]) == (["packets"], ["count"], ["sort", "on_b"])
    page.type("Control+Z")
    assert inputs(page) == before
    page.node("on_b").click()
    page.type("Shift+ArrowRight", "m")
    assert page.said()[-1].startswith(
        "Move. Arrows choose the line, Enter moves, Escape does not. Between sort and compare"
    )
    page.type("ArrowRight", "ArrowRight")
    page.still()
    assert page.view.locator(".line.aimed").get_attribute("data-to") == "sink"
    page.type("Enter")
    moved = inputs(page)
    assert (moved["sort"], moved["count"], moved["on_b"], moved["traffic"], moved["sink"]) == (
        ["packets"], ["packets"], ["compare"], ["on_b"], ["traffic"],
    )  # fmt: skip
    assert "Moved on_b, traffic between compare and sink." in page.said()
    page.type("Control+Z")
    assert inputs(page) == before
    page.node("sort").click()
    page.type("Control+ArrowLeft", "Control+ArrowLeft", "Control+Space")
    assert page.said()[-1] == "2 operators selected."
    page.type("m")
    assert page.said()[-1] == "Only operators in a row can be moved to a line."


def answer_by(answer: Callable[[Any], None], editor: PlanEditor, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have ``answer`` get the messages of the page, but for its questions whether the kernel lives."""
    answers = editor.on_page_message

    def received(message: Any) -> None:
        (answers if message.get("type") == "here" else answer)(message)

    monkeypatch.setattr(editor, "on_page_message", received)


def test_a_path_is_typed_while_the_folder_is_being_read(
    empty: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "some.csv").write_text("time,bytes\n1.5,2\n", "utf-8")
    page, waiting = empty, list[Any]()
    page.button("Open a data file…").click()
    page.view.locator(".entries").get_by_role("button", name="some.csv").wait_for()
    page.type("Escape")
    answer_by(waiting.append, page.editor, monkeypatch)
    page.button("Browse…").click()
    typed = page.view.locator(".picker input")
    typed.fill("gone.csv")
    typed.press("Enter")
    page.bare.until_here(lambda: len(waiting) == 2)
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    folder, header = waiting
    page.editor.on_page_message(header)
    page.view.locator(".picker [aria-invalid=true]").wait_for()
    page.editor.on_page_message(folder)
    page.view.locator(".entries").get_by_role("button", name="some.csv").wait_for()
    assert typed.get_attribute("aria-invalid") == "true", "the file is still not there"
    page.shoot("plan_editor_typed_path")
    page.type("Control+A", " some.csv", "Enter")  # the text has the focus as before
    page.view.locator(".sample tbody tr").wait_for()
    assert page.editor.document["operators"][0]["fields"]["path"] == "some.csv"


def test_edits_are_drawn_while_the_kernel_is_busy(filled: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    page = filled
    waiting: list[Any] = []
    answer_by(waiting.append, page.editor, monkeypatch)
    page.node("on_b").click()
    page.type("Enter", "Control+A", " bytes > 1", "Enter", "Escape", "F2", " large", "Enter", "Escape", "Delete")
    page.bare.until_here(lambda: len(waiting) == 3)
    assert page.view.locator(".node[data-node=large]").count() == 0
    assert page.view.locator(".status .late").inner_text() == "◌ 3 changes not checked yet"
    assert page.view.locator(".node.unchecked").get_attribute("data-node") == "traffic"
    page.type("Control+Z")
    page.node("large").wait_for()
    page.bare.until_here(lambda: len(waiting) == 4)
    monkeypatch.undo()
    for message in waiting:
        page.editor.on_page_message(message)
    assert inputs(page)["traffic"] == ["large"]
    assert page.editor.plan.operators["large"].params["where"] == "bytes > 1"
    assert page.view.locator(".late, .unchecked").count() == 0


def test_keys_that_come_before_the_next_frame_lose_nothing(filled: Page) -> None:
    page = filled
    page.node("traffic").click()
    page.field("by").wait_for()
    page.view.evaluate(
        """async view => {  // within one task no frame is drawn
            for (const name of ["bytes", "link"]) {
                const field = view.querySelector("[data-field=by]");
                field.value = name;
                field.dispatchEvent(new Event("input", { bubbles: true }));
                await null;
                await null;
                field.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true, cancelable: true }));
                await null;
                await null;
            }
        }"""
    )
    page.still()
    assert sorted(page.editor.plan.operators["traffic"].params["by"]) == ["bytes", "destination", "link", "source"]


def test_two_views_and_python_edit_one_plan(filled: Page) -> None:
    page = filled
    other = Page(page.bare, page.editor)
    page.node("count").click()
    page.type("Delete")
    page.editor.apply({"op": "rename", "operator": "sort", "to": "ranked"})
    page.bare.until("() => document.querySelectorAll('.node[data-node=ranked]').length === 2")
    assert inputs(other)["compare"] == ["ranked", "traffic"]
    page.bare.reload()
    page.bare.until("() => document.querySelectorAll('.node[data-node=ranked]').length === 2")


def test_a_template_is_taken_and_its_picture_saved(empty: Page) -> None:
    page = empty
    shown = page.view.locator(".templates button b").all_text_contents()
    assert shown == [each["label"] for each in page.editor.catalogue["templates"]]
    page.view.locator(".templates button").first.click()
    page.still()
    assert page.editor.plan.name == "top pairs"
    for kind, head in (("SVG", b"<svg"), ("PNG", b"\x89PNG")):
        with page.bare.page.expect_download() as download:
            page.button(kind).click()
        data = download.value.path().read_bytes()
        assert data.startswith(head)
        assert download.value.suggested_filename == f"top_pairs.{kind.lower()}"
        if kind == "SVG":
            text = data.decode()
            assert "traffic" in text
            assert not re.search(r"var\(|class=|style=", text), "it would depend on the page"


def test_sample_rows_are_shown_beside_an_operator(filled: Page) -> None:
    page = filled
    page.node("on_b").click()
    page.type("s")
    sample = page.view.locator(".sample")
    sample.locator("td").first.wait_for()
    assert sample.locator("th").all_inner_texts()[:3] == ["time", "link", "source"]
    assert set(sample.locator("td:nth-child(2)").all_inner_texts()) == {"B"}
    page.shoot("plan_editor_sample")
    node, shown = page.node("on_b").locator(".shape").bounding_box(), sample.bounding_box()
    assert node is not None
    assert shown is not None
    assert shown["y"] >= node["y"] + node["height"] or shown["y"] + shown["height"] <= node["y"]
    page.button("close the sample").click()
    assert sample.count() == 0
    assert page.node("on_b").evaluate("it => it === document.activeElement")


def test_check_submit_and_stop_show_the_answers(filled: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    page, editor = filled, filled.editor
    asked = []
    answers: dict[str, dict[str, Any]] = {
        "cost": {"text": "3 of 4 peers, delay 12 ms\non_b peer-2", "peers": {"on_b": "peer-2"}, "admitted": True},
        "submit": {"application": "top-1"},
        "results": {"operator": "sink", "columns": ["total"], "rows": [], "note": ""},
        "stop": {"error": "nothing runs"},
    }

    def answer(message: Any) -> None:
        asked.append(message["type"])
        kind = {"submit": "submitted", "stop": "stopped"}.get(message["type"], message["type"])
        editor.send({"type": kind, "id": message["id"], **answers[message["type"]]})

    answer_by(answer, editor, monkeypatch)
    editor.catalogue = {**editor.catalogue, "cluster": True}
    page.button("Submit").wait_for()  # now the page knows that there is a cluster
    page.button("Check").click()
    cost = page.view.locator(".cost")
    cost.locator("summary").click()
    assert cost.locator("pre").all_inner_texts() == ["3 of 4 peers, delay 12 ms", "on_b peer-2"]
    page.still()
    assert page.node("on_b").locator(".status").text_content() == "peer-2 · 0.3 cores"
    assert page.view.locator(".line[data-from=on_b] .rate").text_content() == "1,000/s"
    page.button("Submit").click()
    page.view.locator(".status .note.good", has_text="Submitted as top-1.").wait_for()
    rows = page.view.locator(".sample")
    rows.locator("p", has_text="No result has come yet.").wait_for()
    answers["results"]["rows"] = [[1], [2]]
    editor.live = RUNS  # it runs on, so the results are asked for again
    rows.locator("header", has_text="last 2 rows").wait_for()
    assert rows.locator("td").all_inner_texts() == ["1", "2"]
    editor.document = {**editor.document, "running": True}
    page.button("Stop").click()
    page.view.locator(".status .note.bad", has_text="nothing runs").wait_for()
    assert asked == ["cost", "submit", "results", "results", "stop"]


def test_a_second_click_on_submit_submits_nothing_more(filled: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    page, editor = filled, filled.editor
    asked: list[Any] = []
    answer_by(asked.append, editor, monkeypatch)
    editor.catalogue = {**editor.catalogue, "cluster": True}
    page.button("Submit").dblclick()
    page.bare.until_here(lambda: asked)
    editor.send({"type": "submitted", "id": asked[0]["id"], "error": "too much"})
    page.view.locator(".status .note.bad", has_text="too much").wait_for()
    assert len(asked) == 1
    page.button("Submit").click()  # once more, after the answer
    page.bare.until_here(lambda: asked[1:])
    assert [each["type"] for each in asked] == ["submit", "submit"]


def test_what_was_edited_before_the_kernel_was_restarted_can_be_taken(bare: BarePage) -> None:
    text = quickstart().to_yaml()
    before = Page(bare, PlanEditor(text, opened="the quickstart"))
    before.node("on_b").click()
    before.fill("where", "link = 'A'")
    before.still()
    edited = before.editor.yaml
    assert edited != text
    for opened in ("", "another"):
        assert Page(bare, PlanEditor(text, opened=opened)).view.locator(".earlier").count() == 0
    after = Page(bare, PlanEditor(text, opened="the quickstart"))
    after.shoot("plan_editor_earlier")
    after.button("Take them").click()
    after.still()
    assert after.editor.yaml == edited
    assert after.view.locator(".earlier").count() == 0
    assert after.editor.undo() == "edit the text"
    assert after.editor.yaml == text
    after.button("YAML").click()
    bare.until("text => document.querySelector('.yaml textarea')?.value === text", text)
    again = Page(bare, PlanEditor(text, opened="the quickstart"))
    assert again.view.locator(".earlier").count() == 0  # its text is the last one that was here
    assert before.view.locator(".earlier").count() == 0


# -- what runs ---------------------------------------------------------------------------------------------------------

RUNS: dict[str, Any] = {
    "state": "running",
    "tone": "bad",
    "sentence": "traffic is overloaded.",
    "states": {"on_b": "running", "traffic": "overloaded"},
    "tips": {"traffic": ["load 97 %"]},
    "start": 0.0,
    "now": 75.0,
    "peers": {"packets": "peer-1", "on_b": "peer-1", "traffic": "peer-2", "sort": "peer-2", "count": "peer-3"},
    "rates": {"packets>on_b": "2,000/s", "on_b>traffic": "1,001 tuples/s"},
    "queues": {"on_b": 0.2, "traffic": 0.91, "sort": 0.7},
    "backups": {"traffic": ["peer-4"]},
    "replicas": {},
    "shared": {"packets": "top-1"},
    "spark": ["count"],
    "marks": [
        {"t": -106.0, "kind": "death", "text": "peer-4 died"},
        {"t": 31.0, "kind": "move", "text": "traffic moved"},
        {"t": 52.0, "kind": "death", "text": "peer-5 died"},
    ],
}


def test_labels_name_a_function_without_its_hash_and_a_table_by_its_rows(bare: BarePage) -> None:
    owned = source("packets", count=5).lookup({"link": ["A", "B"], "owner": ["x", "y"]}, on="link")
    scored = owned.apply("score@0123456789abcdef0123456789abcdef", columns={"n": "int"}, id="one")
    scored = scored.apply("fares.models:cost", columns={"c": "int"}, id="two")
    page = Page(bare, PlanEditor(scored.sink("all").to_yaml()))
    labels = [page.node(name).get_attribute("aria-label") for name in ("lookup", "one", "two")]
    wanted = ["lookup, lookup, table of 2 rows · link, ", "one, apply, score, ", "two, apply, cost, "]
    assert all(str(label).startswith(text) for label, text in zip(labels, wanted, strict=True)), labels


def test_readers_of_one_source_are_told_apart(bare: BarePage) -> None:
    files = {"path": "orders/*.csv", "format": "csv", "columns": {"time": "time", "n": "int"}}
    own = [source("directory", **files, share=f"{number} of 2", id=f"own_{number}") for number in (1, 2)]
    both = source("directory", **files, readers=2, id="both")
    page = Page(bare, PlanEditor(plan(own[0].union(own[1]).sink("a"), both.sink("b"), name="p").to_yaml()))
    briefs = [page.node(name).get_attribute("aria-label") for name in ("own_1", "own_2", "both")]
    wanted = ["directory · 1 of 2 · orders/*.csv", "directory · 2 of 2 · ", "directory · 2 readers · orders"]
    assert all(text in str(label) for label, text in zip(briefs, wanted, strict=True)), briefs


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_what_runs_is_drawn_over_the_plan_and_can_be_read(filled: Page, theme: Literal["light", "dark"]) -> None:
    page = filled
    page.bare.page.emulate_media(color_scheme=theme)
    page.bare.page.set_viewport_size({"width": 1300, "height": 800})
    page.editor.live = RUNS
    page.bare.until("() => document.querySelector('.marks-axis')")
    page.still()
    assert page.node("traffic").get_attribute("aria-label") == (
        "traffic, aggregate, 1 s · total: sum(bytes), reads on_b, on peer-2 · overloaded, backup peer-4"
    )
    assert page.node("traffic").locator("title").first.text_content() == "load 97 %"
    assert "running: traffic is overloaded." in page.view.locator("footer.status").inner_text()
    assert page.node("packets").locator(".owner").text_content() == "⇄ shared with top-1"
    assert page.node("count").locator(".spark").count() == 1
    levels = {name: page.view.locator(f".line[data-to={name}]").get_attribute("class") for name in RUNS["queues"]}
    assert levels == {"on_b": "line calm", "traffic": "line high", "sort": "line raised"}
    assert page.view.locator(".line[data-to=traffic] text").text_content() == "1,001/s 91 %"
    assert page.view.locator(".mark").evaluate_all("all => all.map(it => it.ariaLabel)") == [
        "1:46 before the start: peer-4 died",
        "after 0:31: traffic moved",
        "after 0:52: peer-5 died",
    ]
    page.editor.document = page.editor.document | {
        "running": True,
        "draft": {"added": ["sort"], "changed": ["traffic"], "removed": [], "shared": ["packets", "on_b"]},
    }
    page.bare.until("() => document.querySelector('.draft')")
    page.still()
    assert page.view.locator(".draft").inner_text().startswith("Draft above what runs: 1 new, 1 changed, 2 shared")
    assert "peer-2" not in (page.node("sort").text_content() or "")
    page.button("Check").click()
    page.node("traffic").click()
    page.shoot(f"plan_editor_live_{theme}")
    assert faint(page.bare, ".synergy-editor") == []


def test_marks_of_one_moment_are_beside_one_another(filled: Page) -> None:
    page = filled
    marks = [{"t": 52.0 + number / 10, "kind": "move", "text": f"number {number}"} for number in range(4)]
    page.editor.live = {**RUNS, "marks": [*marks, {"t": 75.0, "kind": "move", "text": "the last"}]}
    page.editor.document = {**page.editor.document, "running": True}
    page.view.locator(".mark").nth(4).wait_for()
    lefts = page.view.locator(".mark").evaluate_all("all => all.map(it => it.getBoundingClientRect().left)")
    assert min(right - left for left, right in pairwise(lefts)) > 10  # pixels


@pytest.mark.parametrize("width", [700, 1000])
def test_no_text_of_the_editor_is_cut_off(filled: Page, width: int) -> None:
    page = filled
    page.bare.page.set_viewport_size({"width": width, "height": 900})
    page.node("traffic").click()
    page.shoot(f"plan_editor_{width}")
    over = page.view.locator(".synergy-editor").evaluate(
        """root => [root, ...root.querySelectorAll(".bar, .palette, .side, .scroll, .status, .row")]
            .filter(it => it.scrollWidth > it.clientWidth + 1).map(it => it.className)"""
    )
    assert over == []
    boxes = [page.node(each).locator(".shape").bounding_box() for each in quickstart().operators]
    pane = page.view.locator(".pane").bounding_box()
    assert pane is not None
    assert sum(box is not None and box["x"] + box["width"] < pane["x"] + pane["width"] for box in boxes) >= 4


def test_in_a_shadow_tree_the_theme_is_the_pages_and_the_focus_stays(filled: Page) -> None:
    page = filled
    page.bare.page.evaluate(
        """name => {
            const host = document.body.appendChild(document.createElement("div"));
            host.style.colorScheme = "dark"; // while the system is light
            host.attachShadow({ mode: "open" }).append(document.getElementById(name));
        }""",
        page.view.get_attribute("id"),
    )
    root = page.bare.page.locator(".synergy-editor")
    assert root.evaluate("it => getComputedStyle(it).backgroundColor") == "rgb(17, 20, 24)"
    page.node("on_b").click()
    page.type("Delete")
    page.node("on_b").wait_for(state="detached")
    assert root.evaluate("it => it.getRootNode().activeElement.dataset.node") == "packets"


# -- in JupyterLab -----------------------------------------------------------------------------------------------------

NOTEBOOK: dict[str, Any] = {
    "cells": [
        {"cell_type": "code", "id": "one", "execution_count": None, "metadata": {}, "outputs": [], "source": source}
        for source in ("from synergy_nb import edit\neditor = edit()\neditor", "1 + 1")
    ],
    "metadata": {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}},
    "nbformat": 4,
    "nbformat_minor": 5,
}
STATE = "() => JSON.stringify(panel.content.widgets.map(cell => cell.model.sharedModel.source))"


def test_keys_stay_in_the_editor_and_the_notebook_stays_small(browser: Browser, jupyterlab: JupyterLab) -> None:
    for number, cell in enumerate(NOTEBOOK["cells"]):
        cell["id"] = f"cell-{number}"
    (jupyterlab.folder / "editor.ipynb").write_text(json.dumps(NOTEBOOK), "utf-8")
    with new_page(browser) as page:
        notebook = jupyterlab.open(page, "editor.ipynb")
        notebook.start()
        notebook.finish(60.0)
        editor = page.locator(".synergy-editor")
        before = page.evaluate(STATE)
        editor.locator("svg.canvas").click(position={"x": 30, "y": 30})
        for key in ("x", "d", "d", "a", "Escape", "b", "m", "y", "Shift+Enter", "Enter", "z", "0", "0", "Escape"):
            page.keyboard.press(key)
            inside = "() => document.activeElement.closest('.synergy-editor') !== null"
            assert page.evaluate(inside), f"{key} moves the focus out of the editor"
        editor.locator(".status").click()  # where nothing takes the focus
        for key in ("x", "d", "d"):
            page.keyboard.press(key)
        page.keyboard.press("/")
        page.keyboard.type("source")
        page.keyboard.press("Enter")
        page.keyboard.press("Escape")
        for key in ("x", "d", "d", "b", "Shift+Enter"):
            page.keyboard.press(key)
        editor.locator(".node[data-node=source]").wait_for()
        assert page.evaluate(STATE) == before, "a key has reached the notebook"
        ARTEFACTS.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=ARTEFACTS / "plan_editor_lab.png")
        assert page.locator(".Toastify__toast").count() == 0, "a box of JupyterLab covers the view"
        assert CONFIGURATION.relative_to(ROOT).as_posix() in (ROOT / "Makefile").read_text("utf-8")
        stored = json.dumps(page.evaluate("() => panel.context.model.toJSON()"))
        assert len(stored) < 60_000, "the bundle is stored in the notebook"
        assert "synergy-flow__handle" not in stored
        notebook.close()
