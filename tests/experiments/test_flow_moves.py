"""Components that move in the flow simulator, and late tuples that peers drop: exact numbers of worked examples."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pytest

from synergy_experiments.flows.flow import Drop, Flow
from synergy_experiments.flows.flow_applications import Application, Arrivals, Component, Service
from tests.experiments.slow_flow import OUTSIDE, chain


class Hops:
    """Delays of single links, milliseconds; equal in both directions."""

    def __init__(self, delays: Mapping[str, float]) -> None:
        self.delays = delays

    def delay(self, sender: str, to: str) -> float:
        """Delay of a link, seconds."""
        return self.delays.get(f"{sender} {to}", self.delays.get(f"{to} {sender}", 0.0)) / 1e3


# -- a hot spot that comes with a rising rate --------------------------------------------------------------------------

LIMIT, HOP = 0.5, 50.0


def rising(drop: Drop) -> Flow:
    """Two applications at S, 10 ms a tuple; the second one doubles its rate at 10 s. T is idle."""
    flow = Flow(Hops({f"{end} {peer}": HOP for end in ("source", "sink") for peer in "ST"}), drop=drop, keep=8192)
    two = np.concatenate([0.0125 + 0.025 * np.arange(400), 10.0125 + 0.0125 * np.arange(2399)])
    for name, times in (("one", 0.025 * np.arange(1600)), ("two", two)):
        parts = {
            "source": Component("source"),
            "work": Component("S", Service.constant(0.01), ["source"]),
            "sink": Component("sink", inputs=["work"]),
        }
        flow.add(Application(name, parts, {"source": Arrivals.trace(times)}, limit=LIMIT))
    return flow


def missed(flow: Flow) -> int:
    dropped = sum(flow.executed(name, part).dropped for name in ("one", "two") for part in ("source", "work", "sink"))
    return dropped + sum(flow.delays(name).late for name in ("one", "two"))


@pytest.mark.parametrize(
    ("drop", "numbers"),
    [
        ("none", (3364, 0, 0, 5, 271, 1071)),
        ("overdue at dequeue", (3364, 0, 0, 5, 248, 968)),
        ("sure to be late", (561, 0, 0, 1, 41, 161)),
    ],
)
def test_the_earlier_a_move_the_fewer_miss(drop: Drop, numbers: tuple[int, ...]) -> None:
    found = []
    for move in (math.inf, 10.0, 11.0, 12.0, 14.0, 20.0):
        flow = rising(drop)
        if move < math.inf:
            flow.run(until=move)
            flow.migrate("two", "work", "T", {"source": move})
        flow.run(until=100.0)
        tuples = sum(flow.delays(name).tuples for name in ("one", "two"))
        dropped = sum(flow.executed(name, part).dropped for name in ("one", "two") for part in ("work", "sink"))
        assert tuples + dropped == 4399
        found.append(missed(flow))
    assert tuple(found) == numbers


def test_a_move_changes_the_mean_delay_of_timely_tuples_as_in_the_worked_example() -> None:
    for move, mean in ((math.inf, 0.154457), (14.0, 0.122422)):
        flow = rising("none")
        if move < math.inf:
            flow.migrate("two", "work", "T", {"source": move})
        flow.run(until=100.0)
        delays = np.concatenate([flow.records(name)[1] for name in ("one", "two")])
        assert delays[delays <= LIMIT + 1e-9].mean() == pytest.approx(mean, abs=5e-7)
        of = [flow.delays(name) for name in ("one", "two")]
        assert sum(each.in_time * (each.tuples - each.late) for each in of) == pytest.approx(
            mean * sum(each.tuples - each.late for each in of), rel=1e-5
        )
        born = np.concatenate([flow.records(name)[0] for name in ("one", "two")])
        assert born[delays > LIMIT + 1e-9].min() == pytest.approx(11.95)


# -- the six phases, to the millisecond --------------------------------------------------------------------------------

LINKS = {"U1 S": 20, "U2 S": 60, "U1 T": 50, "U2 T": 15, "S T": 40, "S D": 30, "T D": 10}


def two_upstreams() -> Flow:
    """Component c at S with two upstream components; 150 ms of work wait at S."""
    flow = Flow(Hops(LINKS), speeds={"T": 4.0}, keep=128)
    flow.add(chain("before", Arrivals.trace([0.0]), Component("S", Service.constant(0.15))))
    times = {"U1": np.arange(3, 600, 10) / 1e3, "U2": np.arange(7, 600, 25) / 1e3}
    parts = {name: Component(name) for name in times}
    parts["c"] = Component("S", Service.constant(0.008), list(times))
    parts["sink"] = Component("D", inputs=["c"])
    flow.add(Application("a", parts, {name: Arrivals.trace(each) for name, each in times.items()}))
    flow.observe()
    return flow


def test_tuples_go_to_the_old_peer_until_their_sender_switches() -> None:
    flow = two_upstreams()
    flow.migrate("a", "c", "T", {"U1": 0.105, "U2": 0.145})
    assert flow.moving("a", "c")
    assert flow.placed("a", "c") == "T"
    flow.run(until=2.0)
    seen = flow.observed()
    at_c = np.array([flow.instance(int(each)) == ("a", "c") for each in seen.component])
    instances = sorted(set(seen.component[at_c].tolist()))
    old, new = (seen.component == each for each in instances)
    assert (old.sum(), new.sum()) == (17, 67)
    assert seen.departed[old].max() == pytest.approx(0.286)  # S is killed then
    born = seen.born[old]
    first, second = (seen.departed[old][np.isclose(born, last)] for last in (0.103, 0.132))
    assert (*first, *second) == pytest.approx((0.262, 0.286)), "the last tuples of U1 and U2 that S executes"
    assert len(seen.component[[flow.instance(int(each)) == ("a", "sink") for each in seen.component]]) == 84
    from_first = np.isclose((born * 1e3 - 3) % 10, 0) | np.isclose((born * 1e3 - 3) % 10, 10)
    assert (born[from_first].max(), born[~from_first].max()) == pytest.approx((0.103, 0.132))  # numbers 10 and 5
    by_old = np.isin(seen.born[~at_c], born)  # at the sink
    sink = np.array([flow.instance(int(each)) == ("a", "sink") for each in seen.component[~at_c]])
    delays = (seen.arrived - seen.born)[~at_c]
    assert delays[sink & by_old].mean() == pytest.approx(0.193176, abs=1e-6)
    assert delays[sink & by_old].max() == pytest.approx(0.227)
    assert delays[sink & ~by_old].mean() == pytest.approx(0.052731, abs=1e-6)
    assert delays[sink & ~by_old].max() == pytest.approx(0.063)
    assert flow.executed("a", "c").tuples == 84
    assert not flow.moving("a", "c")
    births, arrivals = (each[~at_c][sink] for each in (seen.born, seen.arrived))
    waits, late, held = [], 0, np.zeros(len(births), dtype=int)  # held: at each arrival, by both upstreams
    for first, gap in ((3.0, 10.0), (7.0, 25.0)):  # in the order of each upstream a tuple waits for those before it
        own = np.isclose(np.mod(births * 1e3 - first + 1e-6, gap), 0.0, atol=1e-3)
        came = arrivals[own][np.argsort(births[own])]
        leaves = np.maximum.accumulate(came)
        waits.append(float((leaves - came).max()))
        late += sum(bool((came[number + 1 :] < time).any()) for number, time in enumerate(came))
        held += [int(((came <= now + 1e-9) & (leaves > now + 1e-9)).sum()) for now in np.sort(arrivals)]
    assert max(waits) == pytest.approx(0.132)
    assert late == 17, "each tuple by the old peer comes after a later one of its upstream"
    assert held.max() <= 17


STATE_LINK = 12.5e6  # bytes/s


def test_a_state_that_is_sent_after_the_last_tuple_holds_back_the_new_peer_s_first_ones() -> None:
    """The dissertation's protocol with a transfer of state, which it leaves open: T waits until S was killed.

    Our own hand-over sends the state while S goes on, so that nothing waits for it (``test_six_phases``).
    """
    flow = two_upstreams()
    flow.migrate("a", "c", "T", {"U1": 0.105, "U2": 0.145})
    flow.run(until=2.0)
    seen = flow.observed()
    at_c = np.array([flow.instance(int(each)) == ("a", "c") for each in seen.component])
    old, new = (seen.component == each for each in sorted(set(seen.component[at_c].tolist())))
    killed = seen.departed[old].max()
    births, arrivals = seen.born[new], seen.arrived[new]
    of_first = np.isclose(np.mod(births * 1e3 - 3.0 + 1e-6, 10.0), 0.0, atol=1e-3)
    firsts = arrivals[of_first].min(), arrivals[~of_first].min()
    assert firsts == pytest.approx((0.163, 0.172))
    waits = {}
    for size in (0.0, 1e6, 50e6):
        there = killed + LINKS["S T"] / 1e3 + size / STATE_LINK
        waits[round(1e3 * there)] = [round(1e3 * max(0.0, there - first)) for first in firsts]
    assert waits == {326: [163, 154], 406: [243, 234], 4326: [4163, 4154]}


def test_retained_tuples_move_with_their_component() -> None:
    """A union of two branches that are matched moves, and so does one of the branches: no tuple loses its partner."""
    hops = Hops({"u v": 20, "u w": 40, "u x": 5, "v y": 30, "w y": 20, "w x": 30, "v x": 10})
    parts = {
        "f": Component("u"),
        "left": Component("v", Service.constant(0.004), ["f"]),
        "right": Component("w", Service.constant(0.002), ["f"]),
        "both": Component("v", Service.constant(0.001), ["left", "right"], selectivity=0.4, match=True),
        "sink": Component("y", inputs=["both"]),
    }
    found = []
    for moves in (False, True):
        flow = Flow(hops, keep=1024)
        flow.add(Application("a", parts, {"f": Arrivals.periodic(100.0, tuples=500)}))
        if moves:
            flow.run(until=1.0)
            flow.migrate("a", "both", "x", {"left": 1.2, "right": 1.5})
            flow.run(until=2.0)
            flow.migrate("a", "left", "x", {"f": 2.25})
            flow.run(until=3.0)
            flow.migrate("a", "both", "w", {"left": 3.0, "right": 3.2})
        flow.run(until=20.0)
        assert flow.lost == 0
        assert flow.executed("a", "both").tuples == 500
        found.append(sorted(flow.records("a")[0]))
    assert len(found[0]) == 200
    assert found[0] == pytest.approx(found[1], abs=0.0301), "a partner may be counted with the next one at a move"


def test_tuples_that_wait_for_a_link_are_sent_to_the_new_peer() -> None:
    """Ten tuples wait for a link that takes 0.1 s for each; after 0.35 s the rest takes the other link."""
    flow = Flow(Hops({"u v": 10, "u w": 20}), bandwidth=lambda *_: 1000.0, keep=64)
    parts = {"f": Component("u", size=100.0), "c": Component("v", inputs=["f"])}
    flow.add(Application("a", parts, {"f": Arrivals.trace([0.0] * 10)}))
    flow.migrate("a", "c", "w", {"f": 0.35})
    flow.run(until=5.0)
    late = [0.42 + 0.1 * number + 0.1 for number in range(6)]
    assert sorted(flow.records("a")[1]) == pytest.approx([0.11, 0.21, 0.31, 0.41, *late])
    assert flow.load("u", "v") * 5.0 == pytest.approx(0.4)
    assert flow.load("u", "w") * 5.0 == pytest.approx(0.6)


def test_an_application_that_moved_can_be_removed() -> None:
    flow = Flow()
    flow.add(chain("a", Arrivals.periodic(10.0), Component("v", Service.constant(0.01)), OUTSIDE))
    flow.run(until=1.0)
    flow.migrate("a", "c0", "w", {"feed": 1.5})
    flow.run(until=2.05)
    flow.migrate("a", "c0", "x", {"feed": 5.0})
    flow.remove("a")
    flow.run(until=10.0)
    assert not flow.running("a", "feed")
    assert flow.in_flight == 0
    assert flow.executed("a", "c0").tuples == 20


def test_late_tuples_take_no_service() -> None:
    """Ten tuples at once, 0.1 s each: the limit of 0.5 s lets six begin, but only five end in time."""
    for drop, served in (("none", 10), ("overdue at dequeue", 6), ("sure to be late", 5)):
        flow = Flow(drop=drop)  # type: ignore[arg-type]
        flow.add(chain("a", Arrivals.trace([0.0] * 10), Component("v", Service.constant(0.1)), limit=0.5))
        flow.run(until=10.0)
        assert flow.executed("a", "c0").tuples == served
        assert flow.executed("a", "c0").dropped == 10 - served
        assert flow.delays("a").late == served - 5


def test_a_tuple_is_dropped_only_if_it_is_late_for_all_readers() -> None:
    flow = Flow(drop="overdue at dequeue")
    flow.add(chain("a", Arrivals.trace([0.0] * 10), Component("v", Service.constant(0.1)), OUTSIDE, limit=0.25))
    flow.add(Application("b", {"end": Component(None, inputs=[("a", "c0")])}, limit=0.65))
    flow.run(until=10.0)
    assert flow.executed("a", "c0").tuples == 7
    assert (flow.delays("a").late, flow.delays("b").late) == (5, 1)


def test_moves_that_are_impossible_are_refused() -> None:
    flow = Flow()
    parts = [Component("v"), Component("w"), Component("x")]
    flow.add(chain("a", Arrivals.periodic(10.0), *parts, OUTSIDE))
    flow.run(until=1.0)
    for operator, to, switches, message in (
        ("z", "y", {}, r"component: \('a', 'z'\); expected one that runs"),
        ("c1", "w", {"c0": 2.0}, "expected one with inputs, at a peer other than 'w'"),
        ("feed", "w", {}, "expected one with inputs"),
        ("c1", "y", {}, r"switches: None of \('a', 'c0'\); expected a time from 1.0 on"),
        ("c1", "y", {"c0": 0.5}, "switches: 0.5 of"),
    ):
        with pytest.raises(ValueError, match=message):
            flow.migrate("a", operator, to, switches)  # type: ignore[arg-type]
    flow.migrate("a", "c1", "y", {"c0": 2.0})
    for operator in ("c0", "c1", "c2"):
        with pytest.raises(ValueError, match="which is moving; expected that to be complete"):
            flow.migrate("a", operator, "y2", {"feed": 2.0, "c0": 2.0, "c1": 2.0})
    flow.run(until=2.0)
    flow.migrate("a", "c2", "y2", {"c1": 2.0})
    with pytest.raises(ValueError, match="drop: 'late'; expected one of 'none', 'overdue at dequeue'"):
        Flow(drop="late")  # type: ignore[arg-type]
