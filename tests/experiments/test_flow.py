"""The flow simulator equals its slow twin to the last bit and runs as peers on the kernel do."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from synergy_experiments.flows.flow import Flow
from synergy_experiments.flows.flow_applications import Application, Arrivals, Component, Service, from_plan
from synergy_experiments.flows.flow_kernel import INSTANT, RING
from synergy_nb.control.peer import Message, Peer, Protocol
from synergy_nb.models import compiling
from synergy_nb.plan import source
from synergy_nb.simulator.kernel import SimulatedPeers, Uniform
from synergy_nb.simulator.network import Topology, transit_stub
from tests.experiments.slow_flow import OUTSIDE, SlowFlow, chain

END = 1e6  # seconds of virtual time after which nothing is left of a finite run

# -- the slow twin -----------------------------------------------------------------------------------------------------


def _some_service(rng: random.Random) -> Service:
    return rng.choice(
        [
            Service.constant(0.0),
            Service.constant(0.05),
            Service.exponential(0.04),
            Service.drawn([rng.random() / 10 for _ in range(5)]),
        ]
    )


def _some_arrivals(rng: random.Random) -> Arrivals:
    tuples = rng.randint(0, 60)
    return rng.choice(
        [
            Arrivals.poisson(8.0, tuples=tuples),
            Arrivals.periodic(10.0, tuples=tuples),  # meets others of its kind at equal times
            Arrivals.on_off(30.0, rng.choice([0.0, 5.0]), 0.4, 0.7, random=rng.random() < 0.5, tuples=tuples),
            Arrivals.on_off(20.0, 1.0, 0.3, 0.3, duration=4.0),
            Arrivals.trace(np.cumsum([rng.choice([0.0, 0.1, rng.random()]) for _ in range(tuples)])),
        ]
    )


def _some_applications(rng: random.Random) -> list[tuple[Application, float]]:
    found: list[tuple[Application, float]] = []
    streams: list[tuple[str, str]] = []
    for number in range(rng.randint(1, 4)):
        name = f"a{number}"
        parts: dict[str, Component] = {}
        sources: dict[str, Arrivals] = {}
        for place in range(rng.randint(1, 7)):
            operator = f"c{place}"
            choices: list[Any] = [*parts, *streams]
            inputs = rng.sample(choices, min(len(choices), rng.choice([0, 1, 1, 1, 2, 3])))
            if not inputs:
                sources[operator] = _some_arrivals(rng)
            parts[operator] = Component(
                rng.choice([None, "v0", "v1", "v2", "v3"]),
                _some_service(rng),
                inputs,
                rng.choice([0.0, 0.3, 1.0, 1.0, 1.0, 1.5, 2.0]),
                rng.random() < 0.3,
                len(inputs) > 1 and rng.random() < 0.5,
                rng.choice([0.0, 100.0]),
            )
        sinks = rng.sample(list(parts), 1) if rng.random() < 0.3 else []
        found.append((Application(name, parts, sources, sinks, limit=0.3), rng.choice([0.0, 0.0, rng.random()])))
        streams += [(name, operator) for operator in parts]
    return found


@pytest.mark.parametrize("first", range(0, 120, 20))
def test_simulated_flows_equal_a_slow_implementation(first: int) -> None:
    for seed in range(first, first + 20):
        rng = random.Random(seed)
        network = Uniform(0.0, 0.2, seed)
        rate = rng.choice([math.inf, 2000.0])
        speeds = {"v1": 0.7, "v2": 3.0}
        backlog = rng.choice([60.0, 0.2])
        flow = Flow(network, bandwidth=lambda *_, rate=rate: rate, speeds=speeds, seed=seed, keep=4096, backlog=backlog)
        slow = SlowFlow(network.delay, lambda *_, rate=rate: rate, speeds, seed, backlog)
        applications = _some_applications(rng)
        for application, at in applications:
            flow.add(application, at)
            slow.add(application, at)
        for until in sorted(rng.random() * 5 for _ in range(rng.randint(0, 3))):
            flow.run(until)
        flow.run(until=END)
        slow.run()
        served = 0
        for application, _ in applications:
            born, delay = flow.records(application.name)
            theirs = slow.delivered[application.name]
            assert sorted(zip(born.tolist(), delay.tolist(), strict=True)) == sorted(theirs), (seed, application)
            assert flow.delays(application.name).tuples == len(theirs)
            assert flow.delays(application.name).late == sum(delay > 0.3 + INSTANT for _, delay in theirs)
            for operator, component in application.components.items():
                ours, twin = flow.executed(application.name, operator), slow.running[application.name, operator]
                if ours.tuples or component.peer is not None:  # a sink outside takes tuples without being executed
                    assert (ours.tuples, ours.lost) == (twin.served, twin.lost)
                if ours.tuples:
                    assert ours.waiting == twin.waited / twin.served
                served += 0 if component.peer is None else twin.served
        assert flow.served == served


# -- the kernel --------------------------------------------------------------------------------------------------------


class Arrived(Message, frozen=True):
    """A tuple on its way to a component, by its place in the chain."""

    application: int
    place: int
    born: float


class Serving(Protocol):
    """A peer that serves tuples one at a time, first come first served."""

    def __init__(self, peer: Peer, chains: Sequence[Sequence[tuple[str, float]]], done: dict[int, list[float]]) -> None:
        super().__init__(peer)
        self.chains = chains
        self.done = done
        self.free = 0.0
        self.handlers = {Arrived: self.serve}

    def serve(self, sender: str, message: Arrived) -> None:
        self.free = max(self.peer.now, self.free) + self.chains[message.application][message.place][1]
        self.peer.after(self.free - self.peer.now, self.hand_over, message)

    def hand_over(self, message: Arrived) -> None:
        following = message.place + 1
        if following == len(self.chains[message.application]):
            self.done[message.application].append(self.peer.now - message.born)
        else:
            to = self.chains[message.application][following][0]
            self.peer.send(to, Arrived(message.application, following, message.born))


def test_simulated_flows_equal_peers_on_the_kernel() -> None:
    rng = random.Random(4)
    network = transit_stub(6, seed=4)
    chains = [[(rng.choice(network.peers), rng.uniform(0.01, 0.04)) for _ in range(5)] for _ in range(4)]
    times = [sorted(rng.uniform(0, 20) for _ in range(150)) for _ in chains]
    flow = Flow(network, seed=1, keep=1000)
    done: dict[int, list[float]] = {}
    simulation = SimulatedPeers(1, network)
    for address in network.peers:
        peer = Peer(address, 1)
        peer.add(Serving(peer, chains, done))
        simulation.add(peer)
    for number, (peers, arrivals) in enumerate(zip(chains, times, strict=True)):
        done[number] = []
        parts = [Component(peer, Service.constant(seconds)) for peer, seconds in peers]
        flow.add(chain(str(number), Arrivals.trace(arrivals), *parts))
    feeds = sorted((when, number) for number, arrivals in enumerate(times) for when in arrivals)
    for when, number in feeds:
        simulation.run(until=when)
        first = simulation.peers[chains[number][0][0]].protocols[0]
        assert isinstance(first, Serving)
        simulation.call(first.peer.address, first.serve, "", Arrived(number, 0, when))
    simulation.run(until=60.0)
    flow.run(until=60.0)
    for number, delays in done.items():
        assert len(delays) == 150
        assert sorted(flow.records(str(number))[1]) == pytest.approx(sorted(delays), abs=1e-9)
    assert flow.executed("0", "c0").waiting > 0.001  # they did meet


# -- what components mean ----------------------------------------------------------------------------------------------


def delays_of(application: Application, network: Uniform | None = None) -> list[float]:
    flow = Flow(network)
    flow.add(application)
    flow.run(until=1000.0)
    return [round(delay, 9) for delay in flow.records(application.name)[1]]


def test_selectivity_adds_up_to_whole_tuples() -> None:
    part = Component("v", Service.constant(0.001), selectivity=0.4)
    flow = Flow()
    flow.add(chain("a", Arrivals.trace(range(10)), part, Component("v")))
    flow.run(until=100.0)
    assert flow.records("a")[0].tolist() == [2.0, 4.0, 7.0, 9.0]
    assert (flow.executed("a", "c0").tuples, flow.executed("a", "c1").tuples) == (10, 4)


def test_selectivity_by_chance_has_its_mean() -> None:
    flow = Flow(seed=3)
    some = Component(None, selectivity=0.25, random=True)
    flow.add(chain("a", Arrivals.periodic(100.0, tuples=20_000), some, OUTSIDE))
    flow.run(until=1000.0)
    assert flow.delays("a").tuples == pytest.approx(5000, abs=4 * math.sqrt(20_000 * 0.25 * 0.75))


def test_a_selectivity_of_three_gives_three_results_for_each_tuple() -> None:
    parts = {"f": OUTSIDE, "x": Component("v", Service.constant(0.1), ["f"], selectivity=3.0)}
    parts["y"] = Component("v", Service.constant(0.1), ["x"])
    assert delays_of(Application("a", parts, {"f": Arrivals.trace([0.0])})) == [0.2, 0.3, 0.4]


def branches(*, match: bool) -> Application:
    parts = {
        "f": OUTSIDE,
        "quick": Component("u", Service.constant(0.1), ["f"]),
        "slow": Component("v", Service.constant(0.4), ["f"]),
        "both": Component("w", Service.constant(0.05), ["quick", "slow"], match=match),
    }
    return Application("a", parts, {"f": Arrivals.trace([0.0, 1.0])})


def test_a_union_takes_every_tuple() -> None:
    assert delays_of(branches(match=False)) == [0.15, 0.45, 0.15, 0.45]


def test_matched_branches_take_as_long_as_the_longest_path() -> None:
    assert delays_of(branches(match=True)) == [0.45, 0.45]


def test_tuples_that_run_far_ahead_of_their_partners_are_dropped() -> None:
    parts = {"f": OUTSIDE, "g": OUTSIDE, "both": Component("v", inputs=["f", "g"], match=True)}
    late = Arrivals.trace([100.0 + number for number in range(20)])
    flow = Flow()
    flow.add(Application("a", parts, {"f": Arrivals.periodic(100.0, tuples=RING + 10), "g": late}))
    flow.run(until=1000.0)
    assert flow.executed("a", "both") == flow.executed("a", "both")
    assert flow.delays("a").tuples == 10  # of the ten whose partners had been given up, nothing comes
    assert flow.lost == 20


def test_tuples_at_components_outside_the_peers_do_not_queue() -> None:
    slow = Component(None, Service.constant(1.0))
    assert delays_of(chain("a", Arrivals.trace([0.0, 0.0, 0.5]), slow)) == [1.0, 1.0, 1.0]


def test_fast_peers_take_less_time() -> None:
    flow = Flow(speeds={"v": 4.0})
    flow.add(chain("a", Arrivals.trace([0.0]), Component("v", Service.constant(0.2))))
    flow.run(until=10.0)
    assert flow.delays("a").mean == pytest.approx(0.05)


def test_bursts_arrive_in_their_segments() -> None:
    flow = Flow(seed=5, keep=100_000)
    arrivals = Arrivals.on_off(30.0, 10.0, 1.25, 1.25)
    flow.add(chain("a", arrivals, OUTSIDE))
    flow.run(until=2000.0)
    born = flow.records("a")[0]
    high = born % 2.5 < 1.25
    assert arrivals.rate == 20.0
    for part, rate in ((high, 30.0), (~high, 10.0)):
        assert part.sum() / 1000.0 == pytest.approx(rate, abs=4 * math.sqrt(rate / 1000.0))


# -- shared streams ----------------------------------------------------------------------------------------------------


def test_a_tapped_stream_outlives_its_application() -> None:
    flow = Flow()
    part = Component("u", Service.constant(0.01))
    flow.add(chain("a", Arrivals.periodic(10.0), part, Component("v", Service.constant(0.01)), OUTSIDE))
    flow.run(until=1.05)
    flow.add(Application("b", {"end": Component("w", Service.constant(0.02), [("a", "c0")])}))
    flow.run(until=2.05)
    assert flow.executed("a", "c0").tuples == 20  # once for both
    assert (flow.delays("a").tuples, flow.delays("b").tuples) == (20, 10)
    assert flow.recent("b") == pytest.approx(0.03)
    flow.remove("a")
    assert flow.running("a", "c0")
    assert not flow.running("a", "c1")
    flow.run(until=3.05)
    assert (flow.delays("a").tuples, flow.delays("b").tuples) == (20, 20)
    flow.remove("b")
    assert not flow.running("a", "c0")
    assert not flow.running("a", "feed")
    flow.run(until=10.0)
    assert flow.executed("a", "c0").tuples == 30
    assert flow.in_flight == 0
    flow.remove("b")  # twice is once


def test_the_stream_of_a_sink_can_be_tapped() -> None:
    flow = Flow()
    flow.add(chain("a", Arrivals.periodic(10.0, tuples=20), Component("v", Service.constant(0.01)), OUTSIDE))
    flow.run(until=1.05)
    flow.add(Application("b", {"end": Component(None, inputs=[("a", "c1")])}))
    flow.run(until=5.0)
    assert (flow.delays("a").tuples, flow.delays("b").tuples) == (20, 10)


def test_placed_elsewhere_an_application_meets_the_same_arrivals_and_work() -> None:
    found = []
    for peer in ("v1", "v2"):
        flow = Flow(seed=9)
        flow.add(chain("other", 30.0, Component("v2", Service.exponential(0.02))))
        flow.add(chain("a", 5.0, Component(peer, Service.exponential(0.1))))
        flow.run(until=100.0)
        found.append((flow.records("a"), flow.executed("a", "c0")))
    (alone, first), (shared, second) = found
    assert np.array_equal(alone[0], shared[0])
    assert first.busy == second.busy
    assert second.waiting > first.waiting


# -- running -----------------------------------------------------------------------------------------------------------


def test_a_run_in_pieces_equals_one_with_the_same_seed() -> None:
    runs = []
    for pieces in (1, 1, 7):
        flow = Flow(seed=2)
        for number in range(5):
            flow.add(chain(f"a{number}", 20.0, *(Component(f"v{k}", Service.exponential(0.01)) for k in range(4))))
        for piece in range(pieces):
            flow.run(until=200.0 * (piece + 1) / pieces)
        runs.append([flow.delays(f"a{number}") for number in range(5)] + [flow.records("a3")[1].tolist()])
    assert runs[0] == runs[1] == runs[2]
    other = Flow(seed=3)
    other.add(chain("a0", 20.0, Component("v0", Service.exponential(0.01))))
    other.run(until=200.0)
    assert other.delays("a0") != runs[0][0]


def test_records_are_thinned_out_evenly() -> None:
    flow = Flow(keep=64)
    flow.add(chain("a", Arrivals.periodic(8.0, tuples=1000), OUTSIDE))
    flow.run(until=1000.0)
    born = flow.records("a")[0]
    assert 32 <= len(born) <= 64
    assert np.ptp(np.diff(born)) == 0.0
    assert flow.delays("a").tuples == 1000


def test_an_overloaded_peer_takes_bounded_memory() -> None:
    flow = Flow(backlog=2.0)
    flow.add(chain("a", 1000.0, Component("v", Service.constant(0.002)), Component("w")))
    flow.run(until=100.0)
    assert flow.in_flight < 1100
    assert flow.lost == pytest.approx(50_000, rel=0.1)
    assert flow.load("v") == pytest.approx(1.0, abs=0.05)
    assert flow.delays("a").most == pytest.approx(2.0, abs=0.01)


def test_many_at_one_time_stay_in_order() -> None:
    """Many sources that keep step, and rare ones far away: days that are too long and too short."""
    flow = Flow(keep=4096)
    for number in range(1000):
        flow.add(chain(f"a{number}", Arrivals.periodic(1.0, tuples=5), Component("v", Service.constant(1e-4))))
    flow.add(chain("rare", Arrivals.trace([0.5, 5e5, 5e5]), Component("v", Service.constant(1e-4))))
    flow.run(until=END)
    for number in (0, 500, 999):
        assert flow.records(f"a{number}")[1] == pytest.approx([1e-4 * (number + 1)] * 5)
    assert flow.records("rare")[1] == pytest.approx([1e-4, 1e-4, 2e-4])
    assert flow.in_flight == 0


def test_an_event_may_be_added_before_the_next_one() -> None:
    flow = Flow()
    flow.add(chain("late", Arrivals.trace([900.0]), Component("v", Service.constant(1.0))))
    flow.run(until=10.0)
    flow.add(chain("early", Arrivals.trace([5.0]), Component("v", Service.constant(1.0))), at=20.0)
    flow.run(until=30.0)
    assert flow.records("early")[0].tolist() == [25.0]
    assert flow.delays("late").tuples == 0
    flow.run(until=1000.0)
    assert flow.delays("late").tuples == 1


@pytest.mark.slow
def test_ten_thousand_peers_and_five_hundred_requests_run() -> None:
    network = transit_stub(10_000, seed=1)
    flow = placed_at_random(network, 500)
    served = flow.run(until=10.0)
    assert served > 100_000
    assert all(flow.delays(f"a{number}").tuples for number in range(500))


def placed_at_random(network: Topology, requests: int) -> Flow:
    rng = random.Random(1)
    flow = Flow(network, bandwidth=network.bandwidth, speeds=network.cores, keep=64)
    for number in range(requests):
        parts = [
            Component(rng.choice(network.peers), Service.exponential(0.005), size=100.0)
            for _ in range(rng.randint(2, 10))
        ]
        flow.add(chain(f"a{number}", 10.0, *parts))
    return flow


# -- plans, and what is refused ----------------------------------------------------------------------------------------


def test_a_plan_is_translated_to_a_simulated_application() -> None:
    asked = source("peers", rate=50).delay("2 ms", selectivity=0.5).delay("4 ms").sink("all", delay="1 s")
    places = {"source": "u", "delay": "v", "delay_2": "v", "sink": "u"}
    application = from_plan("a", asked, places, service="constant")
    assert application.sources == {"source": Arrivals.poisson(50.0)}
    assert list(application.sinks) == ["sink"]
    assert application.limit == 1.0
    assert application.components["delay"] == Component(
        "v", Service.constant(0.002), ["source"], 0.5, size=asked.tuple_bytes("delay")
    )
    flow = Flow(Uniform(0.01, 0.01))
    flow.add(application)
    flow.run(until=100.0)
    assert flow.delays("a").tuples == pytest.approx(2500, rel=0.1)
    assert 0.026 < flow.delays("a").mean < 0.03


def test_a_plan_may_read_streams_of_a_running_application() -> None:
    asked = source("peers", rate=50).delay("2 ms").delay("4 ms").sink("all", delay="1 s")
    flow = Flow()
    flow.add(from_plan("a", asked, {"source": "u", "delay": "v", "delay_2": "v", "sink": "u"}))
    flow.add(from_plan("b", asked, {"delay_2": "w", "sink": "w"}, taps={"delay": ("a", "delay")}))
    flow.add(from_plan("c", asked, {"sink": "x"}, taps={"delay_2": ("b", "delay_2")}))
    flow.run(until=10.0)
    assert flow.executed("a", "delay").tuples == pytest.approx(500, rel=0.2)
    assert flow.delays("c").tuples == flow.executed("b", "delay_2").tuples
    with pytest.raises(ValueError, match="peers: 'delay_2' is missing; expected its peer, or a tap"):
        from_plan("d", asked, {"sink": "x"})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Service.constant(-1.0), "seconds: -1.0; expected a finite number of seconds from 0"),
        (lambda: Service.exponential(math.nan), "mean: nan; expected a finite"),
        (lambda: Service.drawn([]), r"times: \[\]; expected at least one"),
        (lambda: Arrivals.poisson(0.0), "rate: 0.0; expected a positive number"),
        (lambda: Arrivals.on_off(5.0, -1.0, 1.0, 1.0), "low: -1.0; expected"),
        (lambda: Arrivals.on_off(5.0, 1.0, 1.0, 0.0), "off: 0.0; expected a positive number of seconds"),
        (lambda: Arrivals.trace([1.0, 0.5]), "in ascending order"),
        (lambda: Component(selectivity=-0.1), "selectivity: -0.1; expected"),
        (lambda: Application("a", {}), "components: {}; expected at least one"),
        (lambda: Application("a", {"x": Component(inputs=["y"])}), "'x', inputs: 'y'; expected a component named"),
        (lambda: Application("a", {"x": Component()}), r"'x', inputs: \(\); expected inputs, or a source"),
        (lambda: Application("a", {"x": Component()}, {"x": Arrivals.poisson(1.0)}, ["z"]), "'z', component: None"),
        (lambda: Flow(keep=1), "keep, backlog: 1, 60.0; expected"),
        (lambda: Flow(speeds={"v": 0.0}), "speeds: 'v': 0.0; expected a positive number"),
        (lambda: Flow().run(until=math.inf), "until: inf; expected a finite time"),
    ],
)
def test_meaningless_parameters_are_refused_by_name(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_applications_that_cannot_be_added_are_refused_by_name() -> None:
    flow = Flow()
    flow.add(chain("a", 1.0, OUTSIDE))
    with pytest.raises(ValueError, match="application: 'a'; expected a name that none had before"):
        flow.add(chain("a", 1.0, OUTSIDE))
    with pytest.raises(ValueError, match=r"'x', inputs: \('z', 'c0'\); expected a running stream"):
        flow.add(Application("b", {"x": Component(inputs=[("z", "c0")])}))
    flow.run(until=5.0)
    with pytest.raises(ValueError, match=r"at: 4.0; expected a time from 5.0 on"):
        flow.add(chain("c", 1.0, OUTSIDE), at=4.0)
    with pytest.raises(KeyError, match="application: 'zz'; expected one that was added"):
        flow.delays("zz")


def test_without_a_folder_for_the_cache_the_simulator_is_compiled_anyway(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []

    def njit(*, cache: bool = False, **_options: object) -> Callable[[Any], Any]:
        asked.append(cache)
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return lambda function: function

    monkeypatch.setattr("numba.njit", njit)
    assert compiling.compiled(len) is len
    assert asked == [True, False]
