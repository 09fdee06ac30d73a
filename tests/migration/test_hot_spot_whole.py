"""A hot spot from its first tuple to its end: sessions, migrations and streams of whole peers, with stated times."""

from __future__ import annotations

import gzip
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from synergy_experiments.bench.hotspots import SPEED, arrivals, stretches
from synergy_experiments.flows.timed_world import TimedWorld
from synergy_nb import Simulation
from synergy_nb.assembly import PeerConfig
from synergy_nb.control.driver_messages import DepartureLimits, PredictionsMade, SlackLost
from synergy_nb.control.graph import ComponentGraph, Hop
from synergy_nb.control.peer import DriverMessage
from synergy_nb.dataflow.deployments import Deployment
from synergy_nb.dataflow.prediction_reports import PeerPrediction, SlackViolation
from synergy_nb.dataflow.streams.hosting.effects import Effect
from synergy_nb.events import ComponentMoved, Event, HotSpotDetected, MigrationDecided, SourceStarted
from synergy_nb.models.hot_spot_config import HotSpotConfig
from synergy_nb.plan import Plan, source
from synergy_nb.simulator.collected_results import CollectedResults
from synergy_nb.simulator.kernel import Uniform
from synergy_nb.traces.profiles.profiling import profile_of
from synergy_nb.traces.profiles.surveys import surveyed
from synergy_nb.traces.profiles.trace_profile import TraceProfile
from tests.migration.rising_rates import away, journaled, observe, written
from tests.session_streams import Deployed
from tests.simulated import Ring

STEP = 0.005  # seconds by which the two worlds go on in turn
HOP = 0.05
TIME = 0.010  # seconds that a tuple takes
FIRST_MISS = 11.95  # seconds after the begin, by arithmetic (ORACLES 2A.7): the birth of the first tuple that misses


class Timed(TimedWorld, Deployed):
    """Streams that the sessions of a ring deploy, with stated times."""

    def __init__(
        self, ring: Whole, peers: Sequence[str], service: Mapping[tuple[str, str], float], hotspots: HotSpotConfig
    ) -> None:
        super().__init__(peers, service, HOP, hotspots)
        self.ring = ring
        self.inputs = {}
        self.told_plans = {}

    def feed(self, application: str, name: str, times: Sequence[float]) -> None:
        """Have a source emit a tuple at each of these times."""
        self.emissions[application, name] = times
        moments = pl.Series("time", [round(each * 1e6) for each in times], dtype=pl.Int64).cast(pl.Datetime("us"))
        self._inputs[application] = {name: pl.DataFrame([moments, pl.Series("v", range(len(times)), dtype=pl.Int64)])}
        plan = self.plans[application]
        for sink in plan.sinks:
            self.results[application, sink] = CollectedResults(application, sink, plan.qos.delay)
            self.clients[application, sink] = 0.05
            self.after(0.05, self._collect, application, sink)

    def _carry_out(self, peer: str, effects: list[Effect]) -> None:
        super()._carry_out(peer, effects)
        for effect in effects:
            report: DriverMessage
            match effect:
                case SlackViolation():
                    report = SlackLost(effect)
                case PeerPrediction():
                    report = PredictionsMade(effect)
                case _:
                    continue
            self.ring.simulation.report(peer, report)


class Whole(Ring):
    """Peers with sessions, the streams that they deploy, and drivers that report what these measure."""

    def __init__(self, peers: int, service: Mapping[tuple[str, str], float], hotspots: HotSpotConfig) -> None:
        addresses = tuple(f"peer-{number}" for number in range(peers))
        self.streams = Timed(self, addresses, service, hotspots)
        self._heard = 0
        super().__init__(
            peers,
            7,
            config=lambda n: PeerConfig(name=f"peer-{n}", cores=1.0, seed=n, hotspots=hotspots),
            network=Uniform(HOP, HOP, 7),
        )
        self.streams.now = self.simulation.now

    def _carry_out(self, address: str, instruction: object) -> None:
        super()._carry_out(address, instruction)
        if isinstance(instruction, Deployment):
            self.streams.told(address, instruction)
        elif isinstance(instruction, DepartureLimits):
            self.streams.set_limits(address, instruction.application, instruction.limits)

    def run(self, seconds: float) -> None:
        """Let virtual time pass in both worlds."""
        for _ in range(round(seconds / STEP)):
            super().run(STEP)
            self.streams.run(self.simulation.now - self.streams.now)
            self._heard = self.streams.tell(self._heard)

    def begin(self, name: str, plan: Plan, where: Mapping[str, str], times: Sequence[float]) -> None:
        """Run an application on given peers."""
        self.streams.plans[name] = plan
        self.streams.told_plans[name] = plan.to_bytes()
        self.streams.feed(name, "n", times)
        hops = {each: Hop(each, where[each], 1.0, 1e8, TIME, HOP) for each in plan.operators}
        edges = [(up, each) for each in plan.operators for up in plan.upstream(each)]
        answers = self.establish("peer-0", name, plan, ComponentGraph(hops, dict.fromkeys(edges, (math.inf, HOP))))
        self.run(1.0)
        assert answers == [""]

    def journaled(self, kind: type[Event]) -> list[Any]:
        return [event for event in self.simulation.journal if isinstance(event, kind)]


def two(config: HotSpotConfig, times: Mapping[str, Sequence[float]], until: float) -> tuple[Whole, float]:
    """Two applications of 10 ms a tuple that share a peer, whose tuples come at these times after the begin."""
    ring = Whole(5, {(name, "f"): TIME for name in times}, config)
    start = ring.simulation.now + 3.0
    stream = source("python", name="n", columns={"v": "int"}, rate=40.0, id="n").filter("v >= 0", cost="10 ms", id="f")
    where = {"n": "peer-1", "f": "peer-2", "sink": "peer-0"}
    for name, moments in times.items():
        ring.begin(name, stream.sink(id="sink", delay=0.5), where, [start + each for each in moments])
    ring.run(start + until + 3.0 - ring.simulation.now)
    return ring, start


def rising(config: HotSpotConfig, until: float = 40.0) -> tuple[Whole, float]:
    """ORACLES 2A.7 with whole peers: one server of 10 ms a tuple, whose load rises from .8 to 1.2 after 10 s."""
    steady = [0.025 * number for number in range(round(until / 0.025))]
    second = [0.0125 + 0.025 * number for number in range(400)]
    second += [10.0 + 0.0125 + 0.0125 * number for number in range(round((until - 10.0) / 0.0125))]
    return two(config, {"one": steady, "two": second}, until)


def missed(ring: Whole) -> int:
    """Tuples that came later than the limit."""
    return sum(each.delays.missed for each in ring.streams.results.values())


@pytest.fixture(scope="module")
def predicted() -> tuple[Whole, float]:
    return rising(HotSpotConfig())


@pytest.mark.slow
def test_a_migration_is_decided_before_the_first_miss_and_hardly_any_tuple_misses(
    predicted: tuple[Whole, float],
) -> None:
    ring, start = predicted
    first = ring.journaled(HotSpotDetected)[0]
    decided = ring.journaled(MigrationDecided)[0]
    assert 10.0 < first.time - start <= decided.time - start < FIRST_MISS
    (moved,) = ring.journaled(ComponentMoved)
    assert moved.at == "peer-2"
    assert missed(ring) < 10, "the queue has grown for a quarter of a second until the move, as a move at 12 s has 5"


@pytest.mark.slow
def test_nothing_is_lost_doubled_or_reordered(predicted: tuple[Whole, float]) -> None:
    ring, _ = predicted
    for name in ("one", "two"):
        result = ring.streams.results[name, "sink"]
        assert result.ended
        assert result.rows["v"].to_list() == list(range(result.rows.height))
        assert result.rows.height == len(ring.streams.emissions[name, "n"])


@pytest.mark.slow
def test_prediction_misses_less_than_reaction_and_that_less_than_no_migration(predicted: tuple[Whole, float]) -> None:
    reaction, _ = rising(HotSpotConfig(predict=False))
    nothing, _ = rising(HotSpotConfig(mode="observe"))
    assert missed(predicted[0]) < missed(reaction) < missed(nothing)
    assert nothing.journaled(MigrationDecided)
    assert not nothing.journaled(ComponentMoved)


@pytest.mark.slow(20)
def test_prediction_misses_less_than_reaction_on_recorded_requests(real_data: Path) -> None:
    """A stretch of a web server's trace, 60 times as fast; its second half has twice the requests."""
    with gzip.open(real_data / "nasa-http-requests-per-second.txt.gz", "rt", encoding="ascii") as lines:
        counts = np.fromiter((float(line) for line in lines), dtype=np.float64)
    begin, until = 395_820, 40.0
    seconds = round(until * SPEED)
    steady = arrivals(next(stretches(counts, seconds, 1.0)), (40.0, 40.0)).tolist()
    doubling = arrivals(counts[begin : begin + seconds], (40.0, 80.0)).tolist()
    times = {"one": steady, "two": doubling}
    modes = (HotSpotConfig(), HotSpotConfig(predict=False), HotSpotConfig(mode="off"))
    prediction, reaction, nothing = (missed(two(mode, times, until)[0]) for mode in modes)
    assert prediction < reaction < nothing


HOURS = [(1.0, rate) for rate in (25, 25, 25, 25, 25, 25, 35, 45, 55, 65, *[75] * 8, 65, 55, 45, 35, 25, 25)]


@pytest.mark.slow
def test_a_morning_that_the_profile_knows_is_a_hot_spot_before_it_comes(tmp_path: Path) -> None:
    """A day in 24 s, whose rate rises from 6 to 11; by another profile it does so in the evening."""
    for name, hours in (("right", HOURS), ("wrong", HOURS[12:] + HOURS[:12])):
        days_of(hours).save(tmp_path / f"{name}.json")
    without, right, wrong = (found_at(tmp_path, profile) for profile in ("", "right", "wrong"))
    assert right < without - 0.5
    assert wrong > without - 0.5


def days_of(hours: Sequence[tuple[float, float]]) -> TraceProfile:
    """The profile of six days with these rows in each hour."""
    moments = [np.arange(rate) * 3600.0 / rate + 3600.0 * hour for hour, (_, rate) in enumerate(hours)]
    times = np.concatenate([np.concatenate(moments) + 86_400.0 * day for day in range(6)])
    rows = pl.DataFrame({"time": pl.Series((times * 1e6).astype(np.int64)).cast(pl.Datetime("us"))})
    return profile_of("earlier days", surveyed([rows], {"time": "time"}, 60_000_000), None)


def found_at(folder: Path, profile: str) -> float:
    """Seconds after its first tuple at which the hot spot of a day is found; ``profile``: name of that of its trace."""
    written(folder / "day.parquet", HOURS[:14], 3600.0)
    written(folder / "even.parquet", [(14.0, 50.0)], 3600.0)
    simulation = Simulation(4, network="local", cores=1.0, seed=3, hotspots=HotSpotConfig(rest=0.0))

    def query(name: str, at: str | None, **more: str) -> Plan:
        rows = source("trace", path=str(folder / f"{name}.parquet"), format="parquet", columns={"v": "int"},
                      speed=3600, rate=25.0, id="rows", at="peer-1", **more)  # fmt: skip
        return rows.delay("10 ms", id="slow", at=at).sink(name, delay=0.5, id="out")

    even = simulation.submit(query("even", None), origin="peer-1")
    known = {"profile": str(folder / f"{profile}.json")} if profile else {}
    day = simulation.submit(query("day", away(simulation, even, "slow"), **known), origin="peer-1")
    simulation.run(15.0)
    started = min(each.time for each in journaled(simulation, SourceStarted) if each.subject == day.id)
    found = float(min(each.time for each in journaled(simulation, HotSpotDetected)) - started)
    simulation.close()
    return found


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["observe", "off"])
def test_observing_peers_move_nothing_and_peers_without_hot_spots_record_nothing(tmp_path: Path, mode: str) -> None:
    simulation = Simulation(3, network="local", cores=1.0, hotspots=mode, seed=1)
    observe(simulation, mode, tmp_path, simulation.until)
