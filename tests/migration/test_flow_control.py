"""Hot spots in the flow simulator: found before the first miss, moved to a peer with capacity, without ping-pong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from synergy_experiments.flows.flow import Flow
from synergy_experiments.flows.flow_applications import Application, Arrivals, Component, Service, Tap
from synergy_experiments.flows.flow_control import FlowControl
from synergy_nb.models.hot_spot_config import HotSpotConfig
from synergy_nb.simulator.kernel import Uniform
from tests.campaigns import blocks

RISEN = 0.0125  # seconds from one tuple of application 2 to the next, after the rise
PARTS = ("source", "work", "sink")


class Hops:
    """50 ms to and from sources and sinks, 20 ms between the others."""

    def delay(self, sender: str, to: str) -> float:
        """Delay of a link, seconds."""
        return 0.05 if {"source", "sink"} & {sender, to} else 0.02


def rising(
    *, seed: int = 0, jitter: float = 0.0, gap: float = RISEN, rise: float = 10.0, step: float = 0.125, **options: Any
) -> tuple[Flow, FlowControl]:
    """Two applications at S, 10 ms a tuple; the second one doubles its rate at ``rise``, seconds. T is idle."""
    rng = np.random.default_rng(seed)
    flow = Flow(Hops(), keep=8192)
    offered = {"S": ["work"], "T": ["work"]}
    control = FlowControl(flow, ["source", "sink", "S", "T"], offered=offered, step=step, **options)
    two = np.concatenate([np.arange(0.0125, rise, 0.025), np.arange(rise + 0.0125, 40.0, gap)])
    for name, times in (("one", np.arange(0.0, 40.0, 0.025)), ("two", two)):
        moved = np.sort(times + rng.uniform(0.0, jitter, len(times))) if jitter else times
        parts = {
            "source": Component("source"),
            "work": Component("S", Service.constant(0.01), ["source"]),
            "sink": Component("sink", inputs=["work"]),
        }
        control.add(Application(name, parts, {"source": Arrivals.trace(moved)}, limit=0.5))
    return flow, control


def missed(flow: Flow, *names: str) -> int:
    dropped = sum(flow.executed(name, part).dropped for name in names for part in PARTS)
    return dropped + sum(flow.delays(name).late for name in names)


def decided(control: FlowControl) -> float:
    return control.migrations[0].decided


@pytest.mark.slow
def test_prediction_misses_fewer_limits_than_reaction_and_reaction_fewer_than_no_migration() -> None:
    found = {}
    for name, config in (
        ("prediction", HotSpotConfig()),
        ("reaction", HotSpotConfig(predict=False)),
        ("observed", HotSpotConfig(mode="observe")),
    ):
        flow, control = rising(config=config)
        control.run(60.0)
        found[name] = missed(flow, "one", "two")
        assert len(control.migrations) == (0 if name == "observed" else 1)
        assert sum(flow.delays(each).tuples for each in ("one", "two")) == 4399
    assert found["observed"] == 3364
    assert found["prediction"] < 60
    assert 200 < found["reaction"] < 1000


@pytest.mark.slow
def test_a_migration_takes_the_time_of_its_messages() -> None:
    """S asks T (20 ms there and back, 5 ms to prepare), then the source (50 ms)."""
    flow, control = rising()
    control.run(14.0)
    (found,) = control.migrations
    assert (found.operator, found.source, found.target, found.refusals) == ("work", "S", "T", 0)
    assert found.switched - found.decided == pytest.approx(0.095)
    assert flow.placed(found.application, "work") == "T"


class SixPhases:
    """One-way delays of the worked example of the six phases, seconds."""

    MS = MappingProxyType({"U1 S": 20, "U2 S": 60, "U1 T": 50, "U2 T": 15, "S T": 40, "S D": 30, "T D": 10})

    def delay(self, sender: str, to: str) -> float:
        """Delay of a link, seconds; the same in both directions."""
        return self.MS.get(f"{sender} {to}", self.MS.get(f"{to} {sender}", 0)) / 1e3


def test_upstream_peers_switch_when_the_messages_of_the_six_phases_arrive() -> None:
    """Request and reply take 80 ms, the target needs 5, then messages go upstream for 20 and 60 ms, and back.

    Two round trips are the least: 80 ms to the target, and 120 ms to the farther upstream peer.
    """
    hops = SixPhases()
    flow = Flow(hops, speeds={"T": 4.0})
    peers = ("S", "T", "U1", "U2", "D")
    control = FlowControl(flow, peers, offered={"S": ["c"], "T": ["c"]}, step=0.5)
    parts = {
        "U1": Component("U1"),
        "U2": Component("U2"),
        "c": Component("S", Service.constant(0.02), ["U1", "U2"]),
        "sink": Component("D", inputs=["c"]),
    }
    times = {"U1": Arrivals.periodic(40.0, tuples=800), "U2": Arrivals.periodic(30.0, tuples=600)}
    control.add(Application("a", parts, times, limit=1.0))
    switched: dict[str, float] = {}
    migrate = flow.migrate

    def noted(name: str, operator: str, to: str, switches: Mapping[str | Tap, float]) -> None:
        switched.update({str(each): at for each, at in switches.items()})
        migrate(name, operator, to, switches)

    flow.migrate = noted  # type: ignore[method-assign]
    control.run(10.0)
    (found,) = control.migrations
    assert {each: round(1e3 * (at - found.decided)) for each, at in switched.items()} == {"U1": 105, "U2": 145}
    assert found.switched == max(switched.values())
    replied = found.switched + hops.delay("U2", "S")
    assert round(1e3 * (replied - found.decided)) == 205
    least = 2.0 * hops.delay("S", "T") + max(2.0 * hops.delay("S", each) for each in ("U1", "U2"))
    assert round(1e3 * least) == 200


@pytest.mark.parametrize("seed", range(10))
def test_a_migration_is_decided_before_the_first_miss(seed: int) -> None:
    _, control = rising(seed=seed, jitter=0.02)
    control.run(12.2)
    assert 10.0 < decided(control) < 11.95


@pytest.mark.slow
@pytest.mark.parametrize("block", blocks(10, 4))
def test_a_migration_is_decided_before_the_first_miss_in_a_thousand_runs(block: int) -> None:
    """After 5 s, in which all estimates have settled."""
    late = []
    for seed in range(100 * block, 100 * (block + 1)):
        flow, control = rising(seed=seed, jitter=0.02, rise=5.0)
        while not control.migrations and flow.now < 6.95:
            control.run(flow.now + 0.125)
        if not (control.migrations and 5.0 < decided(control) < 6.95):
            late.append(seed)
    assert late == []


@pytest.mark.parametrize("gap", [0.025, 0.0215, 0.0175])
@pytest.mark.parametrize("jitter", [0.0, 0.01])
def test_nothing_moves_if_the_higher_rate_still_fits(gap: float, jitter: float) -> None:
    flow, control = rising(gap=gap, jitter=jitter, seed=3)
    control.run(60.0)
    assert (control.migrations, control.hot_spots, missed(flow, "one", "two")) == ([], 0, 0)


def at_work(name: str, peer: str, rate: float, limit: float = 0.5) -> Application:
    parts = {
        "source": Component("source"),
        "work": Component(peer, Service.constant(0.01), ["source"]),
        "sink": Component("sink", inputs=["work"]),
    }
    return Application(name, parts, {"source": Arrivals.periodic(rate)}, limit=limit)


def test_two_hot_spots_do_not_get_the_same_capacity() -> None:
    """S1 and S2 become hot at the same time; T, the least loaded, has room for one, U for the other."""
    offered = {peer: ["work"] for peer in ("S1", "S2", "T", "U")}
    flow = Flow(Hops())
    control = FlowControl(flow, ["source", "sink", *offered], offered=offered, step=0.125)
    for peer in ("S1", "S2"):
        control.add(at_work(f"first of {peer}", peer, 60.0))
        control.add(at_work(f"second of {peer}", peer, 60.0), at=2.0)
    control.add(at_work("at T", "T", 20.0))
    control.add(at_work("at U", "U", 30.0))
    control.run(20.0)
    assert sorted((each.source, each.target) for each in control.migrations) == [("S1", "T"), ("S2", "U")]
    assert (control.refusals, control.unsolved) == (1, 0)
    assert [each.refusals for each in control.migrations] == [0, 1]


def test_a_peer_with_more_work_than_it_can_do_does_not_wait_for_its_queue() -> None:
    """When the first component has left, S still gets 1.2 times the work that it can do, and 2.7 s of work wait."""
    offered = {peer: ["work"] for peer in ("S", "T", "U", "V")}
    flow = Flow(Hops())
    control = FlowControl(flow, ["source", "sink", *offered], offered=offered, step=0.25)
    risen = np.concatenate([np.arange(0.0, 9.0, 0.025), np.arange(9.0, 20.0, 0.0125)])
    control.add(replace(at_work("one", "S", 40.0, limit=3.0), sources={"source": Arrivals.trace(risen)}))
    for name in ("two", "three"):
        control.add(at_work(name, "S", 40.0, limit=3.0))
    while not control.migrations:
        control.run(flow.now + 0.25)
    waiting = flow.backlog("S")
    assert waiting > 2.0
    control.run(flow.now + waiting)
    assert [each.source for each in control.migrations] == ["S", "S"]


def test_if_no_peer_has_capacity_all_refuse_and_nothing_moves() -> None:
    offered = {peer: ["work"] for peer in ("S", "T", "U")}
    flow = Flow(Hops())
    control = FlowControl(flow, ["source", "sink", *offered], offered=offered, step=0.25)
    for name, peer, rate in (("a", "S", 60.0), ("b", "S", 60.0), ("c", "T", 60.0), ("d", "U", 70.0)):
        control.add(at_work(name, peer, rate))
    control.run(20.0)
    assert control.migrations == []
    assert control.refusals == 2 * control.unsolved > 0


def test_a_hot_peer_upstream_is_no_reason_to_refuse() -> None:
    """A component of the late application at T has no slack because of S; T has room, and accepts."""
    offered = {"S": ["work"], "T": ["work", "after"]}
    flow = Flow(Hops())
    late = HotSpotConfig(predict=False)  # acts when tuples are late already
    control = FlowControl(flow, ["source", "sink", *offered], late, offered=offered, step=0.25)
    parts = {
        "source": Component("source"),
        "work": Component("S", Service.constant(0.01), ["source"]),
        "after": Component("T", Service.constant(0.001), ["work"]),
        "sink": Component("sink", inputs=["after"]),
    }
    control.add(Application("a", parts, {"source": Arrivals.periodic(60.0)}, limit=0.5))
    control.add(at_work("b", "S", 60.0), at=2.0)
    control.run(20.0)
    assert {(each.operator, each.source, each.target) for each in control.migrations} == {("work", "S", "T")}


@pytest.mark.slow
def test_equal_peers_do_not_exchange_components() -> None:
    """Three peers at a load of 0.93, ten minutes: bursts make hot spots, but no component moves twice."""
    counts = []
    for config in (HotSpotConfig(), HotSpotConfig(rest=0.0, return_ban=0.0)):
        flow = Flow(Uniform(0.01, 0.03, 1), seed=1)
        control = FlowControl(flow, ["p0", "p1", "p2"], config)
        for number in range(9):
            peer, other = f"p{number % 3}", f"p{(number + 1) % 3}"
            parts = {
                "source": Component(peer),
                "work": Component(peer, Service.exponential(0.01), ["source"]),
                "sink": Component(other, inputs=["work"]),
            }
            control.add(Application(f"a{number}", parts, {"source": Arrivals.poisson(31.0)}, limit=0.5))
        control.run(600.0)
        counts.append(Counter((each.application, each.operator) for each in control.migrations))
    assert max(counts[0].values()) == 1
    assert max(counts[1].values()) > 1, "without a rest they would"


def test_loads_are_reported_when_they_leave_their_level() -> None:
    _, control = rising()
    control.run(9.0)
    steady = control.reports
    control.run(11.5)
    assert 0 < steady < control.reports < 20


def test_flows_that_cannot_be_controlled_are_refused() -> None:
    control = FlowControl(Flow(), ["p"])
    with pytest.raises(ValueError, match="'a', 'x', peer: 'q'; expected one of those that are controlled"):
        control.add(Application("a", {"x": Component("q")}, {"x": Arrivals.poisson(1.0)}))
    control.add(Application("a", {"x": Component("p")}, {"x": Arrivals.poisson(1.0)}))
    with pytest.raises(ValueError, match=r"'b', 'y', inputs: .*; expected its own"):
        control.add(Application("b", {"y": Component("p", inputs=[("a", "x")])}))
    with pytest.raises(ValueError, match=r"step: 0\.0; expected a positive number of seconds"):
        FlowControl(Flow(), ["p"], step=0.0)
