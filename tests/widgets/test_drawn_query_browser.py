"""A query is drawn in a page, submitted to a simulation, watched, broken, and stepped through."""

from __future__ import annotations

from typing import Any

import pytest

from synergy_nb import Simulation
from synergy_nb.notebook._plan_runs import runs_on
from synergy_nb.widgets.plan_editor import PlanEditor
from synergy_nb.widgets.protocol_stage import ProtocolStage
from tests.browser import BarePage
from tests.widgets.editor_page import Page

pytestmark = pytest.mark.slow  # a browser


class Waiting(PlanEditor):
    """An editor whose page waits for its answers."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._beside = lambda task: task()


def test_a_query_is_drawn_submitted_watched_broken_and_stepped_through(bare: BarePage) -> None:
    simulation = Simulation(peers=8, seed=4)
    editor = Waiting(runs=runs_on(simulation))
    page = Page(bare, editor)
    page.palette("source").click()
    page.palette("filter").click()
    page.fill("where", "bytes > 100")
    page.palette("sink").click()
    page.fill("name", "large")
    page.view.locator("svg.canvas").click(position={"x": 20, "y": 20})
    page.fill("availability", "degree 2")
    page.still()
    assert page.view.locator(".status .good").text_content() == "✓ valid"

    page.button("Submit").click()
    page.view.locator(".status .note.good").wait_for()
    application = editor.application
    first = application.graph["filter"]
    simulation.run("2 s")
    page.view.locator(".line[data-to=filter] .rate").wait_for()
    page.still()
    assert page.node("filter").locator(".status").text_content() == first
    assert page.node("filter").locator(".ghost").count() == 1  # its backup

    simulation.kill(first)
    simulation.run("8 s")
    second = application.graph["filter"]
    assert second != first
    bare.until("peer => document.querySelector('.node[data-node=filter] .status').textContent === peer", second)
    page.still()
    marks = page.view.locator(".mark").evaluate_all("all => all.map(it => it.title)")
    assert any(f"{first} died" in mark for mark in marks)
    page.shoot("drawn_query")

    stage = ProtocolStage(application.replay())
    view = bare.show(stage)
    view.locator(".synergy-stage:not(.empty)").focus()
    titles = []
    for step in range(1, 4):
        bare.page.keyboard.press("ArrowRight")
        bare.until_here(lambda step=step: stage.step == step)  # type: ignore[misc]
        titles.append(view.locator(".what").inner_text().splitlines()[0])
    assert titles == [moment.title for moment in stage.replay.moments[1:4]]
    application.stop()
