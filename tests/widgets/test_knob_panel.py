"""The panel of knobs: what a page asks for happens, and errors are its message; in a real Chromium."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from synergy_nb import Simulation, source
from synergy_nb.widgets.knob_panel import ACTS, KnobPanel
from tests.browser import ARTEFACTS, BarePage
from tests.widgets.contrast import faint


@pytest.fixture
def simulation() -> Simulation:
    simulation = Simulation(5, network="local", cores=1, seed=3)
    packets = source("packets", rate="50/s", seed=1, id="packets")
    simulation.submit(packets.delay(cost="1 ms", id="work").sink(delay="1 s"))
    return simulation


@pytest.fixture
def sent(simulation: Simulation) -> Iterator[tuple[KnobPanel, list[Any]]]:
    panel, messages = KnobPanel(simulation), list[Any]()
    panel.send = lambda content, buffers=None: messages.append(content)
    yield panel, messages
    panel.close()


def test_each_knob_is_a_method_of_a_simulation() -> None:
    assert all(callable(getattr(Simulation, name)) for name in ACTS)


def test_a_page_offers_the_cost_of_what_reads_tuples(simulation: Simulation, sent: tuple[KnobPanel, list[Any]]) -> None:
    panel, _ = sent
    offered = panel.state()["applications"]["plan-1"]
    assert offered == {"sources": ["packets"], "operators": ["work", "sink"]}
    for operator in offered["operators"]:
        simulation.cost("plan-1", operator, "1 ms")


@pytest.mark.slow
def test_a_message_of_a_page_calls_the_method_of_the_knob(
    simulation: Simulation, sent: tuple[KnobPanel, list[Any]]
) -> None:
    panel, messages = sent
    application = simulation.applications["plan-1"]
    victim = next(peer for peer in simulation.peers if peer not in {application.origin, *application.graph.values()})
    acts: list[tuple[str, dict[str, Any]]] = [
        ("run", {"seconds": 1}),
        ("load", {"peer": application.graph["work"], "share": 0.5}),
        ("pace", {"application": "plan-1", "source": "packets", "factor": 2}),
        ("cost", {"application": "plan-1", "operator": "work", "seconds": 0.004}),
        ("cut", {"peer": "peer-1", "other": "peer-2"}),
        ("mend", {"peer": "peer-1", "other": "peer-2"}),
        ("suspend", {"peer": victim}),
        ("resume", {"peer": victim}),
        ("kill", {"peer": victim}),
        ("join", {"peer": "new"}),
        ("leave", {"peer": "new"}),
    ]
    before = simulation.now
    for name, arguments in acts:
        panel.on_page_message({"kind": "act", "act": name, "arguments": arguments})
        assert not messages[-1]["failed"], messages[-1]["message"]
    assert simulation.now > before + 1  # joining and leaving take time
    assert simulation.world.load_of == {application.graph["work"]: 0.5}
    assert simulation.world.pace_of["plan-1", "packets"] == 2.0
    assert simulation.world.cost_of["plan-1", "work"] == 0.004
    assert victim not in messages[-1]["peers"]


@pytest.mark.parametrize(
    ("act", "arguments", "message"),
    [
        ("kill", {"peer": "peer-9"}, "peer: 'peer-9'; expected a peer"),
        ("load", {"peer": "peer-1"}, "share: None; expected a share"),
        ("cost", {"application": "plan-1", "operator": "work", "seconds": None}, "seconds: None; expected a duration"),
        ("close", {}, "close: expected one of kill, suspend"),
        ("run", None, "run: expected one of"),
    ],
)
def test_a_wrong_act_is_a_message(sent: tuple[KnobPanel, list[Any]], act: str, arguments: Any, message: str) -> None:
    panel, messages = sent
    panel.on_page_message({"kind": "act", "act": act, "arguments": arguments})
    assert messages[-1]["failed"]
    assert message in messages[-1]["message"]


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_panel_in_a_browser_turns_knobs(bare: BarePage, simulation: Simulation, theme: str) -> None:
    bare.page.emulate_media(color_scheme="light" if theme == "light" else "dark")
    name = str(bare.show(KnobPanel(simulation)).get_attribute("id"))
    bare.page.locator(f"#{name} .now").filter(has_text="s").wait_for()
    before = simulation.now
    bare.page.get_by_role("button", name="10 s").click()
    bare.until_here(lambda: simulation.now == before + 10)
    bare.page.get_by_label("Pace").select_option("2")
    bare.page.get_by_role("button", name="Set pace").click()
    bare.until_here(lambda: simulation.world.pace_of)
    status = bare.page.get_by_role("status")
    status.filter(has_text="✓ pace plan-1 packets 2").wait_for()
    bare.page.get_by_label("Cost of a tuple").fill("-1")
    bare.page.get_by_role("button", name="Set cost").click()
    status.filter(has_text="▲ seconds: -0.001; expected").wait_for()
    bare.page.get_by_label("New peer").fill(" late <i>comer</i>")
    bare.page.get_by_role("button", name="Join").click()
    status.filter(has_text="✓ join late <i>comer</i>").wait_for()
    bare.page.get_by_label("Peer that leaves").select_option("late <i>comer</i>")
    bare.page.get_by_role("button", name="Leave").click()
    status.filter(has_text="✓ leave late <i>comer</i>").wait_for()
    assert faint(bare, f"#{name} .synergy-knobs") == []
    ARTEFACTS.mkdir(parents=True, exist_ok=True)
    bare.page.screenshot(path=ARTEFACTS / f"knobs-{theme}.png")
    bare.page.get_by_role("button", name="Play").click()
    bare.until_here(lambda: simulation.now > before + 10)
    bare.page.get_by_role("button", name="Pause").click()
