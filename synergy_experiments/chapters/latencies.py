"""R6: delays of resilient placements, and the load multiples that they survive (section 7.3.5, figure 18).

16 aggregates over each of ten sub-streams of a packet trace run on five peers in the flow simulator
(:mod:`~synergy_experiments.worlds.packet_monitoring`). Statistics come from the first part of the trace; the rest is
replayed at a multiple of its rate. The processing time of an aggregate is constant for each packet; the 16 times are
uniform between 0.1 and 1, scaled to a stated load. A peer is overloaded when more than a stated amount of work waits at
it, as memory would run out then. Tuples beyond that are lost and counted, and the run continues.

The rates of the sub-streams are steady, or drift after statistics were taken: by a random walk, or as the requests of a
web server do over a day, another day for each sub-stream. All three are run.

Findings
--------
On generated packets of steady rates, which are no reproduction of the paper's trace, the mean and greatest delays of
ROD are the lowest at every multiple of the rate, except at single points where another algorithm cannot be told from it
(stored result: ten runs with 400 packets/s, an hour each, of which ten minutes are for statistics, as in the paper). Up
to twice the rate the algorithms hardly differ, except for Connected; at 3.5 times the rate the others have mean delays
of 28 ms and more, ROD 17 ms. At four times the rate, 92 % of the total capacity, the outcome depends on how much work
may wait at a peer, of which the paper says nothing. If 5 s may, ROD is overloaded in five of ten runs, LLF and MaxRate
in nine, the others in all. If 20 s may, ROD is in none and MaxRate in none, LLF in one, Correlation in seven, Connected
in nine, Random in all. So "only ROD survives" is true of no limit of these two in every run; that more of the others
fail is true of all at 5 s, and of three of five at 20 s. Runs of ten minutes told less: with 5 s, ROD was overloaded in
none of them, LLF and MaxRate in one. These rates hardly drift, so that even statistics of ten minutes suit LLF and
MaxRate nearly as well. Where they drift as a random walk or as requests do, ROD is overloaded at four times the rate
in some runs with either limit. The paper's utilisation grows by .22 for each multiple, which is the load that is set
here. Refinement reduces the mean delay at four times the rate by a fifth and the greatest by a quarter, and is
overloaded in two runs rather than five.

With ``--set driver=dask`` Dask workers execute the same aggregates over ten sub-streams, for seconds
(:mod:`~synergy_experiments.worlds.monitored_peers`). Packets are few there and cost several milliseconds each, several
times what a batch costs the machine, and a peer is overloaded by the bytes in its queues.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Final, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from synergy_experiments.framework.claim import Cell, Check, Claim, Panel, metric_of
from synergy_experiments.framework.measurements import Decision, Measured, Point
from synergy_experiments.framework.parameters import Setup, choice, files, number, numbers, several, whole
from synergy_experiments.framework.verdicts import at_all, near, not_comparable, own
from synergy_experiments.worlds.monitored_peers import monitored
from synergy_experiments.worlds.operator_placements import OTHERS, REFINED
from synergy_experiments.worlds.packet_monitoring import (
    DRIFTS,
    assignments,
    costs_of,
    drifted,
    monitoring_plan,
    packets_of,
    rates_of,
    substreams,
)
from synergy_nb.plan import Plan, source
from synergy_nb.simulator.flow import Flow
from synergy_nb.simulator.flow_applications import Arrivals, from_plan
from synergy_nb.traces import datasets

__all__ = ["CLAIMED", "Workload", "replayed", "workload"]

Array = npt.NDArray[np.float64]

COMPARED: Final = (REFINED, "rod", *OTHERS, "max_rate")
RIVALS: Final = COMPARED[2:]
UTILISATION: Final = {1.0: 0.26, 2.0: 0.48, 3.0: 0.69, 3.5: 0.79, 4.0: 0.91}  # utilisation of the paper, for ROD
PAPERS: Final = "dec-pkt-1"  # "an hour's worth of TCP packet traces", reference 5 of the paper
OTHER: Final = "lbl-tcp-3"  # another packet trace, whose utilisation is not compared
OUTSIDE: Final = "outside"  # where packets come from
DRAIN: Final = 3600.0  # virtual seconds in which all waiting tuples are processed at the end
COLUMNS: Final = {"time": "time", "source": "str", "destination": "str", "bytes": "int"}


class Workload(NamedTuple):
    """The workload that is executed.

    Parameters
    ----------
    query
        Query plan.
    times
        Arrival times of packets at each of its sources, seconds since statistics were taken.
    seconds
        Length of the trace since then, seconds.
    rates
        Statistics: intervals x sources, packets/s.
    """

    query: Plan
    times: tuple[Array, ...]
    seconds: float
    rates: Array


def workload(
    trace: str,
    rate: float,
    duration: float,
    collected: float,
    width: float,
    streams: int,
    cores: float,
    drift: str,
    seed: int,
) -> Workload:
    """Return the workload of a repetition.

    Parameters
    ----------
    trace
        Path of a packet trace; empty for generated packets.
    rate
        Packets/s, if they are generated.
    duration, collected
        Length of the trace, and of its beginning from which statistics are collected, seconds.
    width
        Length of the intervals of the statistics, seconds.
    streams
        Sub-streams.
    cores
        Mean load of all aggregates together, cores.
    drift
        Course of the mean rates, see :func:`~synergy_experiments.worlds.packet_monitoring.drifted`.
    seed
        Seed of all random draws.
    """
    packets = packets_of(trace, rate, duration, seed)
    times = [
        drifted(part["since"].to_numpy(), duration, drift, number, seed)
        for number, part in enumerate(substreams(packets, streams, seed))
    ]
    mean = [len(own) / duration for own in times]
    sources = [
        source("python", name=f"packets {part}", columns=COLUMNS, rate=max(own, 1e-6), cost=0.0, id=f"packets {part}")
        for part, own in enumerate(mean)
    ]
    later = tuple(own[own >= collected] - collected for own in times)
    query = monitoring_plan(sources, costs_of(mean, cores, seed))
    return Workload(query, later, duration - collected, rates_of(times, collected, width))


def replayed(
    multiplier: float,
    trace: str,
    generated: tuple[float, float, float, float],
    streams: int,
    peers: int,
    load: float,
    memory: float,
    larger: tuple[float, ...],
    algorithms: tuple[str, ...],
    drift: str,
    seed: int,
) -> list[Point]:
    """Measure delays and loads at a multiple of the trace's rate, by algorithm.

    Parameters
    ----------
    multiplier
        Multiplier of the rate.
    trace, streams
        Arguments of :func:`workload`.
    generated
        Parameters ``rate``, ``duration``, ``collected`` and ``width`` of the generated trace.
    peers
        Number of peers, of one core each.
    load
        Load of all peers together at the rate of the trace.
    memory
        Largest waiting work of a peer, seconds.
    larger
        Other values of it, ascending, for which only survival is measured.
    algorithms
        Algorithms that are compared.
    drift
        Course of the mean rates.
    seed
        Seed of all random draws.
    """
    given, placements = _placed(trace, generated, streams, peers, load, algorithms, drift, seed)
    arrivals = {
        name: Arrivals.trace(times / multiplier) for name, times in zip(given.query.sources, given.times, strict=True)
    }
    outside = dict.fromkeys(given.query.sources, OUTSIDE)
    names = _names(peers)
    end = given.seconds / multiplier
    points: list[Point] = []
    for algorithm, placed in placements.items():
        flow = Flow(seed=seed, backlog=memory)
        flow.add(from_plan("monitoring", given.query, outside | placed, arrivals=arrivals, service="constant"))
        flow.run(until=end)
        busy = [flow.load(name) for name in names]
        flow.run(until=end + DRAIN)
        delays = flow.delays("monitoring")
        lost = flow.lost
        found = {
            "delay": delays.mean,
            "greatest delay": delays.most,
            "utilisation": float(np.mean(busy)),
            "busiest": max(busy),
            "lost": lost / max(lost + flow.served, 1),
            survival(): float(lost == 0),
        }
        for limit in larger:
            if lost or limit < memory:  # otherwise the run is the same at this limit
                flow = Flow(seed=seed, backlog=limit)
                flow.add(from_plan("monitoring", given.query, outside | placed, arrivals=arrivals, service="constant"))
                flow.run(until=end)
                lost = flow.lost
            found[survival(limit)] = float(lost == 0)
        points += [Point(multiplier, algorithm, metric, value) for metric, value in found.items()]
    return points


def survival(limit: float | None = None) -> str:
    """Return the name of the metric of survival.

    Parameters
    ----------
    limit
        Largest waiting work of a peer, seconds; by default the one for which delays and loads are measured, too.
    """
    return "survives" if limit is None else f"survives {limit:g} s of work"


@lru_cache(maxsize=2)
def _placed(
    trace: str,
    generated: tuple[float, float, float, float],
    streams: int,
    peers: int,
    load: float,
    algorithms: tuple[str, ...],
    drift: str,
    seed: int,
) -> tuple[Workload, dict[str, dict[str, str]]]:
    """Return the workload with its placements, which are the same at every multiple of the rate."""
    given = workload(trace, *generated, streams, load * peers, drift, seed)
    return given, assignments(given.query, dict.fromkeys(_names(peers), 1.0), given.rates, algorithms, seed)


def _names(peers: int) -> list[str]:
    return [f"peer-{number}" for number in range(1, peers + 1)]


def _trace(setup: Setup) -> str:
    given = cast("tuple[str, ...]", setup["trace"])
    return str(Path(given[0]).resolve()) if given else datasets.find(PAPERS).path or datasets.find(OTHER).path or ""


def _cells(setup: Setup) -> Iterator[Cell]:
    if setup["driver"] == "dask":
        for multiplier in cast("tuple[float, ...]", setup["multipliers"]):
            given = (setup[name] for name in ("dask_rate", "dask_collected", "dask_seconds", "dask_streams", "peers"))
            rest = (setup[name] for name in ("dask_load", "dask_memory", "algorithms"))
            yield Cell(monitored, (multiplier, _trace(setup), *given, *rest), alone=True, reading=DRIFTS[0])
        return
    generated = tuple(setup[name] for name in ("rate", "duration", "collected", "width"))
    for multiplier, drift in product(cast("tuple[float, ...]", setup["multipliers"]), _drifts(setup)):
        arguments = (
            multiplier,
            _trace(setup),
            generated,
            *(setup[name] for name in ("streams", "peers", "load", "memory", "larger", "algorithms")),
            drift,
        )
        yield Cell(replayed, arguments, reading=drift)


def _drifts(setup: Setup) -> tuple[str, ...]:
    return cast("tuple[str, ...]", setup["drifts"])


def _checks(measured: Measured, setup: Setup) -> Iterator[Check]:
    for drift in _drifts(setup):
        yield from _of_drift(measured, setup, drift)


def _of_drift(measured: Measured, setup: Setup, drift: str) -> Iterator[Check]:
    places = cast("list[float]", measured.xs(metric_of("delay", drift), "rod"))
    if not places:
        return
    theirs = (bool(setup["trace"]) or datasets.find(PAPERS).path is not None) and drift == DRIFTS[0]
    for x in places:
        if x in UTILISATION:
            name = f"utilisation by ROD at {x:g} times the rate, {drift}"
            ours = measured.estimate(x, "rod", metric_of("utilisation", drift))
            check = near(name, UTILISATION[x], ours, 0.05, 0.1)
            yield check if theirs else not_comparable(name, UTILISATION[x], ours, "set by load; not the paper's trace")
    for metric in ("delay", "greatest delay"):
        lowest = [
            (f"{x:g} {other}", measured.lower(x, "rod", other, metric_of(metric, drift)))
            for x in places
            for other in RIVALS
            if measured.mean(x, other, metric_of(metric, drift)) is not None
        ]
        yield at_all(f"{metric} of ROD below that of any other, {drift}", "ROD better than all others", lowest)
    limits = {cast("float", setup["memory"]): survival()}
    if setup["driver"] == "simulator":
        limits |= {limit: survival(limit) for limit in cast("tuple[float, ...]", setup["larger"])}
    for limit, metric in limits.items():
        work = f"{drift}, {limit:g} s of work may wait" if setup["driver"] == "simulator" else drift
        yield from _of_survival(measured, places[-1], metric_of(metric, drift), work)
    refined = [(x, measured.lower(x, REFINED, "rod", metric_of("delay", drift))) for x in places]
    yield own(at_all(f"beyond the paper: delay of refinement below ROD's, {drift}", "our aim", refined))


def _of_survival(measured: Measured, most: float, survives: str, reading: str) -> Iterator[Check]:
    """Check which algorithms survive the largest multiple of the rate, by three readings."""
    kept = {name: measured.mean(most, name, survives) for name in measured.algorithms(survives)}
    fails = [(name, Decision.fact(share < 1.0)) for name, share in kept.items() if name in RIVALS and share is not None]
    name = f"others are overloaded at {most:g} times the rate, in some run (the lenient reading), {reading}"
    yield at_all(name, "all except ROD fail", fails)
    always = [
        (name, Decision.fact(share == 0.0)) for name, share in kept.items() if name in RIVALS and share is not None
    ]
    yield at_all(f"they are in every run (the strict reading), {reading}", "all except ROD fail", always)
    fewer = [(name, measured.higher(most, "rod", name, survives)) for name in kept if name in RIVALS]
    yield at_all(f"they are in more runs than ROD, by an interval, {reading}", "all except ROD fail", fewer)
    name = f"ROD survives {most:g} times the rate, in all runs, {reading}"
    yield at_all(name, "ROD survives", [("rod", Decision.fact(kept.get("rod") == 1.0))])


_R6: Final = Claim(
    id="R6",
    title="delays of resilient placements, and the load multiples that they survive",
    source="ROD, VLDB 2006, 7.3.5, figure 18",
    says="at 1/2/3/3.5 times the rate (26/48/69/79 % CPU) ROD has the lowest average and maximum delays; at 4 times "
    "(91 %) all others fail by overload",
    parameters={
        "multipliers": numbers("multiples of the trace's rate", (1.0, 2.0, 3.0, 3.5, 4.0), least=0.01),
        "trace": files("packet trace; by default DEC-PKT-1, or LBL-TCP-3, if available, else generated packets"),
        "rate": number("generated packets a second", 200.0, 400.0, least=1.0),
        "duration": number("seconds of the trace", 900.0, 3600.0, least=2.0),
        "collected": number("first seconds of the trace, from which statistics are computed", 300.0, 600.0, least=1.0),
        "width": number("seconds of an interval of the statistics", 1.0, least=0.001),
        "streams": whole("sub-streams", 10),
        "peers": whole("peers of one core", 5),
        "drifts": several("courses of the mean rates of the sub-streams", DRIFTS),
        "load": number("load of all peers together at the trace's rate, share of capacity", 0.23, least=0.001),
        "memory": number("largest waiting work of a peer, seconds", 5.0, least=0.001),
        "larger": numbers("larger limits of it, for which only survival is measured, seconds", (20.0,), least=0.001),
        "algorithms": several("placements compared", COMPARED),
        "driver": choice("what runs the peers: the simulator, or Dask workers on this machine", ["simulator", "dask"]),
        "dask_rate": number("generated packets a second, on Dask workers", 4.0, least=1.0),
        "dask_load": number(
            "load of all peers together by the costs of packets alone, on Dask workers", 0.19, least=0.001
        ),
        "dask_collected": number("first seconds of the trace, for statistics, on Dask workers", 600.0, least=1.0),
        "dask_seconds": number("seconds for which the rest is replayed at every multiple", 10.0, 30.0, least=1.0),
        "dask_streams": whole("sub-streams, on Dask workers", 10),
        "dask_memory": number(
            "bytes in the queues of a peer beyond which it is overloaded, on Dask workers", 64e3, least=1.0
        ),
    },
    cells=_cells,
    checks=_checks,
    panels=(
        *(
            panel
            for drift in DRIFTS
            for panel in (
                Panel(metric_of("delay", drift), f"mean delay (ms), {drift}", factor=1000.0, logarithmic=True),
                Panel(
                    metric_of("greatest delay", drift), f"greatest delay (ms), {drift}", factor=1000.0, logarithmic=True
                ),
                Panel(
                    metric_of("busiest", drift),
                    f"load of the busiest peer, {drift}",
                    bounds=((1.0, "all that it has"),),
                ),
                Panel(metric_of(survival(), drift), f"share of runs without overload, {drift}"),
            )
        ),
        *(Panel(metric_of(survival(20.0), drift), f"the same if 20 s of work may wait, {drift}") for drift in DRIFTS),
    ),
    xlabel="multiple of the trace's rate",
    repeat=(5, 10),
)

CLAIMED: Final = (_R6,)
