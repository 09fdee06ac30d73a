"""Views whose kernel does not answer: they say so, keep what they show, and go on when there is news again."""

from __future__ import annotations

import pytest

from synergy_nb import Simulation
from synergy_nb.events import ApplicationFailed
from synergy_nb.widgets.knob_panel import KnobPanel
from synergy_nb.widgets.plan_editor import PlanEditor
from synergy_nb.widgets.qos_view import QoSView
from tests.browser import ARTEFACTS, BarePage
from tests.qos_story import NAMES, START, qos, story, top_pairs
from tests.widgets.contrast import faint

PLAN = "operators:\n  packets: {kind: source, connector: packets}\n"
WITHOUT = 12_000  # time without an answer, milliseconds of the page's clock
ANSWERED = "() => document.querySelector('.synergy-qos').parentElement.synergyView.contact.asked === null"


def ticking(bare: BarePage) -> None:
    """Give the page a clock of which the test lets time pass."""
    bare.page.clock.install()


@pytest.mark.slow
def test_a_live_view_says_that_there_is_no_news_and_goes_on_with_the_next(bare: BarePage) -> None:
    journal = story(60)
    view = QoSView(journal, top_pairs(), names=NAMES)
    ticking(bare)
    bare.show(view)
    silence, first = bare.page.locator(".silence"), bare.page.locator(".tiles .value").first
    first.wait_for()
    for _ in range(4):
        bare.page.clock.run_for(3_000)
        bare.until(ANSWERED)
    assert silence.is_hidden(), "the kernel has answered"

    bare.kernel_answers = False
    before = first.inner_text()
    journal.append(qos(START + 61, 0.5, 0.9, 12_100))
    view.update()
    bare.page.clock.run_for(WITHOUT)
    said = silence.inner_text()
    assert said.startswith("▲ No news for 1"), said
    assert "the kernel is gone, was restarted, or is busy" in said
    assert first.inner_text() == before, "the last picture stays"
    for scheme in ("light", "dark"):
        bare.page.emulate_media(color_scheme=scheme)
        assert not faint(bare, ".synergy-qos"), scheme
        ARTEFACTS.mkdir(parents=True, exist_ok=True)
        bare.page.screenshot(path=ARTEFACTS / f"qos_view_silent_{scheme}.png")

    bare.kernel_answers = True
    bare.page.clock.run_for(WITHOUT)
    silence.wait_for(state="hidden")
    bare.until("() => document.querySelector('.tiles .value').textContent === '500 ms'")


@pytest.mark.slow
def test_of_an_application_that_has_ended_no_news_is_expected(bare: BarePage) -> None:
    journal = story(20)
    journal.append(ApplicationFailed(START + 21, "p1", "top-1", "p1 died"))
    view = QoSView(journal, top_pairs(), names=NAMES)
    ticking(bare)
    bare.show(view)
    bare.page.locator(".badge", has_text="failed").wait_for()
    bare.kernel_answers = False
    bare.page.clock.run_for(WITHOUT)
    assert bare.page.locator(".silence").is_hidden()


@pytest.mark.slow
def test_the_editor_and_the_knobs_say_so_too(bare: BarePage) -> None:
    editor = PlanEditor(PLAN)
    panel = KnobPanel(Simulation(peers=3, network="local"))
    ticking(bare)
    bare.show(editor)
    bare.show(panel)
    editor_says = bare.page.locator(".synergy-editor footer .bad", has_text="No news for")
    panel_says = bare.page.locator(".synergy-knobs .outcome")
    bare.page.locator(".synergy-editor footer", has_text="1 operator").wait_for()
    bare.until("() => document.querySelector('.synergy-knobs [data-act=kill] select').value === 'peer-1'")
    bare.kernel_answers = False
    bare.page.get_by_role("button", name="Suspend").click()
    lost = {"kind": "act", "act": "suspend", "arguments": {"peer": "peer-1"}}
    bare.until_here(lambda: lost in bare.lost)
    bare.page.clock.run_for(WITHOUT)
    editor_says.wait_for()
    assert "No news for" in panel_says.inner_text()

    bare.kernel_answers = True
    bare.page.clock.run_for(WITHOUT)
    editor_says.wait_for(state="detached")
    bare.page.locator(".synergy-knobs .outcome", has_text="✓ The kernel answers again.").wait_for()
    bare.page.get_by_role("button", name="Suspend").click()
    bare.until_here(lambda: panel.message.startswith("suspend peer-1"))
    bare.page.clock.run_for(1_000)  # the page draws with its clock
    bare.page.locator(".synergy-knobs .outcome", has_text="suspend peer-1").wait_for()
