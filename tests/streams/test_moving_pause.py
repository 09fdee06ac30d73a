"""Nothing pauses while a component moves: sources emit as before, and results arrive as the links permit."""

from __future__ import annotations

import random
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import polars as pl
import pytest

from synergy_experiments.worlds.moved_components import packets
from synergy_nb.dataflow.streams.component.execution import ExecutionOutcome, Work
from synergy_nb.plan import Plan, source
from synergy_nb.simulator.peer_world import PeerWorld
from synergy_nb.simulator.scripted_faults import Faults

PACE_S = 0.02  # mean seconds between two batches of a source
LONGEST_S = 1.5 * PACE_S


class Given:
    """Delays between two peers that are given in ms; 5 ms between all others."""

    def __init__(self, delays: Mapping[str, float]) -> None:
        self.delays = delays

    def delay(self, sender: str, to: str) -> float:
        return self.delays.get(f"{sender} {to}", self.delays.get(f"{to} {sender}", 5.0)) / 1000.0


class Timed(PeerWorld):
    """Peers, with the times at which sources emit and results arrive at the sink."""

    def __init__(self, seed: int, peers: tuple[str, ...], delays: Mapping[str, float], **settings: Any) -> None:
        faults = Faults(delay=(0.0, 0.0), capture=0.001)
        super().__init__(seed, peers, faults, network=Given(delays), **settings)
        self.pace = PACE_S
        self.emitted: dict[str, list[float]] = {}
        self.arrived: list[float] = []  # at the sink of "app"
        self.shared: list[float] = []  # at those of other applications
        self.delays: list[tuple[float, float]] = []  # arrival of a tuple, and its delay, seconds

    def _read(self, peer: str, key: tuple[str, str]) -> None:
        hosting = self.nodes[peer].hosting
        before = hosting.components[key].log.end if key in hosting.components else None
        super()._read(peer, key)
        if key in hosting.components and hosting.components[key].log.end != before:
            self.emitted.setdefault(key[1], []).append(self.now)

    def _measure(self, work: Work, outcome: ExecutionOutcome) -> None:
        super()._measure(work, outcome)
        if work.component.kind == "sink" and any(chunk.rows for chunk in work.chunks):
            (self.arrived if work.component.application == "app" else self.shared).append(self.now)
            self.delays += [(self.now, self.now - chunk.born) for chunk in work.chunks for _ in range(chunk.rows)]


def gap(times: list[float], since: float, until: float) -> float:
    """Longest time between two of them in a part of the run, seconds."""
    within = [time for time in times if since <= time <= until]
    return max(after - before for before, after in pairwise(within))


def run(
    plan: Plan, peers: Mapping[str, str], delays: Mapping[str, float], to: str, **settings: Any
) -> tuple[Timed, float]:
    """Move the operator ``x``; return the world, a while after the move, and the time of the command."""
    rng = random.Random(1)
    world = Timed(1, tuple(sorted({*peers.values(), to})), delays, **settings)
    world.deploy("app", plan, peers, {name: packets(60.0, rng) for name in plan.sources})
    assert world.until(lambda: world.status("app") == "running")
    world.run(2.0)
    began = world.now
    outcome = world.move("app", "x", to)
    assert world.until(lambda: bool(outcome))
    assert outcome == [""]
    world.run(2.0)
    return world, began


ONE = source("packets", rate=50.0, id="u").filter("bytes > 0", id="x").sink(id="out")
AT = {"u": "U", "x": "S", "out": "O"}


@pytest.mark.parametrize(
    ("delays", "longer"),
    [
        pytest.param({}, 0.0, id="near"),
        pytest.param({"U T": 300.0}, 0.295, id="upstream far from the new peer"),
        pytest.param({"U S": 300.0}, 0.0, id="upstream far from the old peer"),
        pytest.param({"S T": 300.0}, 0.0, id="the two peers far from one another"),
        # the origin is the reader: the new peer learns 195 ms later than the old one that it executes the component
        pytest.param({"T O": 200.0}, 0.195 + 0.195, id="the reader, which leads the move, far from the new peer"),
        pytest.param({"S O": 200.0}, 0.0, id="the reader far from the old peer"),
        pytest.param({"U S": 200.0, "U T": 200.0, "S O": 200.0, "T O": 200.0}, 0.0, id="all far"),
    ],
)
def test_results_arrive_with_no_gap_beyond_the_added_delay_of_the_links(
    delays: dict[str, float], longer: float
) -> None:
    world, began = run(ONE, AT, delays, "T")
    before = gap(world.arrived, began - 1.5, began)
    assert gap(world.emitted["u"], began - 1.5, world.now) <= LONGEST_S + 1e-9
    assert gap(world.arrived, began, world.now) <= before + longer + 0.02


TWO = source("packets", rate=50.0, id="u"), source("packets", rate=50.0, seed=2, id="v")
FAR = {f"D {peer}": 200.0 for peer in "OSTUV"}


@pytest.mark.slow
@pytest.mark.parametrize("moving", ["filter", "union", "source"])
def test_a_reader_far_away_waits_for_no_round_trip_to_the_new_peer(moving: str) -> None:
    """The new peer sends it what it has before it has subscribed."""
    x = {
        "filter": TWO[0].filter("bytes > 0", id="x"),
        "union": TWO[0].union(TWO[1], id="x"),
        "source": source("packets", rate=50.0, id="x"),
    }[moving]
    peers = {"u": "U", "v": "V", "x": "S", "y": "D", "out": "O"}
    plan = x.filter("bytes >= 0", id="y").sink(id="out")
    world, began = run(plan, {name: peers[name] for name in plan.operators}, FAR, "T")
    assert gap(world.arrived, began, world.now) <= gap(world.arrived, began - 1.5, began) + 0.005 + 0.02


@pytest.mark.slow
@pytest.mark.parametrize("several", [False, True], ids=["filter", "union"])
@pytest.mark.parametrize(
    "delays",
    [
        pytest.param({f"P {peer}": 200.0 for peer in "ORSTUV"}, id="its origin far from all"),
        pytest.param({"O P": 200.0, "O R": 200.0}, id="its origin and its reader far from the other origin"),
        pytest.param({f"{one} {peer}": 200.0 for one in "PR" for peer in "OSTUV"}, id="both far from all"),
    ],
)
def test_an_application_that_shares_the_stream_reads_from_the_new_peer_before_its_origin_knows_it(
    delays: dict[str, float], several: bool
) -> None:
    """The new peer sends to readers of other applications, too; these paused until a graph of their own named it."""
    x = TWO[0].union(TWO[1], id="x") if several else TWO[0].filter("bytes > 0", id="x")
    peers, rng = {"u": "U", "v": "V", "x": "S", "out": "O"}, random.Random(1)
    plan = x.sink(id="out")
    world = Timed(1, tuple("OPRSTUV"), delays)
    world.deploy(
        "app", plan, {name: peers[name] for name in plan.operators}, {n: packets(60.0, rng) for n in plan.sources}
    )
    assert world.until(lambda: world.status("app") == "running")
    other = source("packets", rate=50.0, id="n").filter("bytes >= 0", id="y").sink(id="out")
    world.deploy("other", other, {"n": "", "y": "R", "out": "P"}, {}, shares={"n": ("app", "x")})
    assert world.until(lambda: world.status("other") == "running")
    world.run(2.0)
    began = world.now
    outcome = world.move("app", "x", "T")
    assert world.until(lambda: bool(outcome))
    assert outcome == [""]
    world.run(2.0)
    for times in (world.arrived, world.shared):
        assert gap(times, began, world.now) <= gap(times, began - 1.5, began) + 0.02


@pytest.mark.slow
def test_sources_with_very_different_delays_emit_as_before() -> None:
    """Two inputs, 20 and 300 ms away, of which the new peer reads different positions when it begins."""
    both = source("packets", rate=50.0, id="u").union(source("packets", rate=50.0, seed=2, id="v"), id="x")
    delays = {"U S": 20.0, "V S": 300.0, "U T": 300.0, "V T": 20.0}
    world, began = run(both.sink(id="out"), {"u": "U", "v": "V", "x": "S", "out": "O"}, delays, "T")
    for name in ("u", "v"):
        assert gap(world.emitted[name], began - 1.5, world.now) <= LONGEST_S + 1e-9


LINK_BYTES_S = 100e6 / 8
SEVERAL = {
    "union": TWO[0].union(TWO[1], id="x").sink(id="out"),
    "join": TWO[0].join(TWO[1], on="link", within="1 s", id="x").sink(id="out"),
}
ALL = "OSTUV"


@pytest.mark.slow
@pytest.mark.parametrize("several", SEVERAL)
@pytest.mark.parametrize(
    ("delays", "longer"),
    [
        # the order of the inputs passes from the old peer to the new one, instead of results to the reader
        pytest.param({}, 0.005, id="near"),
        pytest.param({"U T": 300.0}, 0.295, id="an upstream far from the new peer"),
        pytest.param({"U S": 300.0}, 0.005, id="an upstream far from the old peer"),
        pytest.param({"S T": 300.0}, 0.005, id="the two peers far from one another: the reader passes the order on"),
        # the inputs leave the old peer before the origin reaches it: they, and the new peer, pass the graph on
        pytest.param({"S O": 200.0}, 0.010, id="the old peer far from the reader, which leads the move"),
        pytest.param({"S O": 200.0, "S T": 200.0}, 0.010, id="the old peer far from all but the upstreams"),
        pytest.param({"S O": 200.0, "U S": 200.0, "V S": 200.0}, 0.010, id="the old peer far from all but the new one"),
        pytest.param({"U S": 20.0, "V S": 300.0, "U T": 300.0, "V T": 20.0}, 0.280, id="both upstreams"),
        pytest.param({f"O {peer}": 200.0 for peer in "STUV"}, 0.005, id="the reader, which leads the move, far"),
        pytest.param({f"{a} {b}": 100.0 for a in ALL for b in ALL if a < b}, 0.100, id="all far"),
    ],
)
def test_a_component_of_several_inputs_moves_with_no_gap_beyond_the_added_delay_of_the_links(
    several: str, delays: dict[str, float], longer: float
) -> None:
    """No round of questions passes before the new peer reads its inputs in an order of its own."""
    world, began = run(SEVERAL[several], {"u": "U", "v": "V", "x": "S", "out": "O"}, delays, "T")
    before = gap(world.arrived, began - 1.5, began)
    assert gap(world.arrived, began, world.now) <= before + longer + 0.02
    latest = max(delay for at, delay in world.delays if began - 1.5 <= at < began)
    assert several == "join" or max(delay for at, delay in world.delays if at >= began) <= latest + longer + 0.03


@pytest.mark.slow
@pytest.mark.parametrize("megabytes", [0, 1, 50])
def test_a_state_reaches_the_new_peer_at_the_speed_of_the_link_and_no_result_waits_for_it(megabytes: int) -> None:
    """The dissertation leaves the transfer open: a state sent after the last tuple would hold back the first ones at T.

    T would get it 40 ms and size / bandwidth after the end of S. Here S goes on, and T reads what has come since then.
    """
    rng = random.Random(2)
    rows, wide = 1500, megabytes * 1_000_000 // 50
    table = packets(rows / 50.0, rng)
    long = [rng.randbytes(wide // 2).hex() if number < 50 else "" for number in range(rows)]
    table = table.with_columns(link=pl.Series(long))
    middle = source("packets", rate=50.0, id="u").percentile("link", "50 %", window="1 h every 0.2 s", id="x")
    delays = {"U S": 20.0, "U T": 50.0, "S T": 40.0, "S D": 30.0, "T D": 10.0}
    world = Timed(1, ("D", "S", "T", "U"), delays, codec=True, rate=LINK_BYTES_S)
    world.pace = 0.1
    world.deploy("app", middle.sink(id="out"), {"u": "U", "x": "S", "out": "D"}, {"u": table})
    assert world.until(lambda: len(world.arrived) > 20, 60.0)
    world.run(5.0)  # what was sent has arrived
    used = world.nodes["S"].hosting.components["app", "x"].share.used
    assert used >= 1e6 * megabytes
    began = world.now
    outcome = world.move("app", "x", "T")
    assert world.until(lambda: ("app", "x") in world.nodes["T"].hosting.components, 30.0)
    there = world.now - began - (0.030 + 0.040 + used / LINK_BYTES_S)  # S hears of it, and sends
    assert -0.005 <= there <= 0.080 + 0.010 + 0.6 * used / LINK_BYTES_S, "T asks for pieces, and for some of them twice"
    assert world.until(lambda: bool(outcome), 30.0)
    assert outcome == [""]
    world.run(2.0)
    before = [delay for at, delay in world.delays if began - 4.0 <= at < began]
    during = [delay for at, delay in world.delays if at >= began]
    assert max(during) <= max(before) + 0.010 + 0.02, "10 ms: the way over T is longer"


STATE_BYTES = 10_000_000
ROW_BYTES = 20_000


def quantile(values: list[float], share: float) -> float:
    return sorted(values)[int(share * (len(values) - 1))]


@pytest.mark.slow
def test_a_state_of_10_megabytes_delays_results_by_less_than_50_ms() -> None:
    """Links of 100 Mbit/s carry it in .8 s, meanwhile the component goes on; what has come since then follows."""
    rng = random.Random(2)
    rows = 3 * STATE_BYTES // ROW_BYTES
    large = packets(rows / 50.0, rng).with_columns(
        link=pl.Series([rng.randbytes(ROW_BYTES // 2).hex() for _ in range(rows)])
    )
    # all rows of the window are its state, and each fifth of a second has a result
    middle = source("packets", rate=50.0, id="u").percentile("link", "50 %", window="1 h every 0.2 s", id="x")
    world = Timed(1, ("O", "S", "T", "U"), {}, codec=True, rate=LINK_BYTES_S)
    world.pace = 0.1  # a megabyte a second
    world.deploy("app", middle.sink(id="out"), AT, {"u": large})
    component = world.nodes["S"].hosting.components
    assert world.until(lambda: ("app", "x") in component and component["app", "x"].share.used > STATE_BYTES, 30.0)
    began = world.now
    outcome = world.move("app", "x", "T")
    assert world.until(lambda: bool(outcome), 30.0)
    assert outcome == [""]
    assert 0.8 < world.now - began < 3.0
    world.run(3.0)
    assert not world.results["app", "out"].ended
    before = [delay for at, delay in world.delays if began - 5.0 <= at < began]
    during = [delay for at, delay in world.delays if at >= began]
    assert quantile(during, 0.99) <= quantile(before, 0.99) + 0.05
