"""The packets of section 7.3.5 at a multiple of their rate, on simulated peers, by placement: delays and overload.

A peer is overloaded when more than a stated amount of work waits at it, as memory would run out then. Tuples beyond
that are lost and counted, and the run continues. A placement may be relieved by one migration: the hot spots of
chapter 3 of the dissertation are predicted, and the first component that leaves one is the last
(:class:`~synergy_experiments.flows.flow_control.FlowControl`). How much work has to wait whatever the placement and the
migrations says which runs no policy can survive.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from synergy_experiments.flows.flow import Flow
from synergy_experiments.flows.flow_applications import Arrivals, from_plan
from synergy_experiments.flows.flow_control import FlowControl
from synergy_experiments.flows.flow_meters import ComponentMeter
from synergy_experiments.framework.measurements import Point
from synergy_experiments.worlds.packet_monitoring import (
    assignments,
    costs_of,
    drifted,
    monitoring_model,
    monitoring_plan,
    packets_of,
    rates_of,
    substreams,
)
from synergy_nb.plan import Plan, source

__all__ = ["BOUND", "Workload", "moved", "replayed", "survival", "unavoidable", "workload"]

Array = npt.NDArray[np.float64]

BOUND: Final = "bound of any placement and migrations"
STEP: Final = 1.0  # virtual seconds from one decision about hot spots to the next
OUTSIDE: Final = "outside"  # where packets come from
DRAIN: Final = 3600.0  # virtual seconds in which all waiting tuples are processed at the end
KEPT: Final = 3  # workloads, as many as there are courses of the rates
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


@lru_cache(maxsize=KEPT)
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
    limit: float | None,
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
    limit
        Limit of the delay of results, seconds, at which one component migrates away from the first hot spot: where
        predicted times leave no slack to it. None: no component migrates.
    seed
        Seed of all random draws.
    """
    given, placements = _placed(trace, generated, streams, peers, load, algorithms, drift, seed)
    points: list[Point] = []
    for algorithm, placed in placements.items():
        run, name = (
            _Run(given, placed, multiplier, peers, seed, limit),
            algorithm if limit is None else moved(algorithm),
        )
        points += [Point(multiplier, name, *found) for found in _measured(run, memory, larger).items()]
    return points


def moved(algorithm: str) -> str:
    """Return the name of a placement with one migration."""
    return f"{algorithm}, one migration"


def unavoidable(
    multiplier: float,
    trace: str,
    generated: tuple[float, float, float, float],
    streams: int,
    peers: int,
    load: float,
    memory: float,
    larger: tuple[float, ...],
    drift: str,
    seed: int,
) -> dict[str, float]:
    """Return whether any placement with any migrations could survive, and the least work that has to wait at a peer.

    All work that waits is at least what would wait at one peer with the capacity of all, which is idle only if nothing
    waits. So at each time one of n peers has at least an n-th of that. Without loss a peer has at most its limit and
    one tuple more, which it accepts while that much waits. Parameters are those of :func:`replayed`.
    """
    given = workload(trace, *generated, streams, load * peers, drift, seed)
    costs = monitoring_model(given.query).load
    times = np.concatenate(given.times) / multiplier
    work = np.repeat(costs.sum(axis=0), [len(own) for own in given.times])
    order = np.argsort(times, kind="stable")
    brought = np.cumsum(work[order])
    ahead = brought - work[order] - peers * times[order]  # of what could have been done, before each packet
    waiting = brought - peers * times[order] - np.minimum(np.minimum.accumulate(ahead), 0.0)
    least = float(waiting.max()) / peers
    limits = {survival(): memory} | {survival(limit): limit for limit in larger}
    survived = {metric: float(least <= limit + costs.max()) for metric, limit in limits.items()}
    return {"least waiting work": least, **survived}


class _Once(FlowControl):
    """Migrates one component, whatever a hot spot needs."""

    def _find_target(self, meter: ComponentMeter, now: float) -> None:
        if not self.migrations:
            super()._find_target(meter, now)


class _Run(NamedTuple):
    """The workload with one placement at a multiple of the rate; ``limit`` of delays, for one migration, or None."""

    given: Workload
    placed: dict[str, str]
    multiplier: float
    peers: int
    seed: int
    limit: float | None = None

    def flow(self, backlog: float) -> tuple[Flow, float, int]:
        """Run to the end of the trace; return the simulation, its end in seconds, and the number of migrations."""
        query, names = self.given.query, _names(self.peers)
        arrivals = {
            name: Arrivals.trace(times / self.multiplier)
            for name, times in zip(query.sources, self.given.times, strict=True)
        }
        peers = dict.fromkeys(query.sources, OUTSIDE) | self.placed
        application = from_plan("monitoring", query, peers, arrivals=arrivals, service="constant")
        flow, end, migrations = Flow(seed=self.seed, backlog=backlog), self.given.seconds / self.multiplier, 0
        if self.limit is None:
            flow.add(application)
        else:
            offered = {name: set(self.placed) for name in names}
            control = _Once(flow, [*names, OUTSIDE], offered=offered)
            control.add(replace(application, limit=self.limit))
            while flow.now < end and not control.migrations:
                control.run(min(flow.now + STEP, end))
            migrations = len(control.migrations)
        flow.run(until=end)
        return flow, end, migrations


def _measured(run: _Run, memory: float, larger: tuple[float, ...]) -> dict[str, float]:
    flow, end, migrations = run.flow(memory)
    busy = [flow.load(name) for name in _names(run.peers)]
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
    } | ({} if run.limit is None else {"migrations": float(migrations)})
    for limit in larger:
        if lost or limit < memory:  # otherwise the run is the same at this limit
            lost = run.flow(limit)[0].lost
        found[survival(limit)] = float(lost == 0)
    return found


def survival(limit: float | None = None) -> str:
    """Return the name of the metric of survival.

    Parameters
    ----------
    limit
        Largest waiting work of a peer, seconds; by default the one for which delays and loads are measured, too.
    """
    return "survives" if limit is None else f"survives {limit:g} s of work"


@lru_cache(maxsize=KEPT)
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
