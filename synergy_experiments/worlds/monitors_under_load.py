"""Peers that execute many top-k monitors, with and without migrations away from hot spots (dissertation, section 3.5).

Each peer requests some applications: the eight components of the monitor, on random different peers. Components of an
operator take the same time for a tuple at peers of speed 1; the speeds of peers differ by a stated factor, as those of
shared hosts do. Ten applications a peer take a stated share of all capacity, so some peers are overloaded while others
have room. The filter passes 31 % of the packets (claim C12), the other components give a tuple for each. Sources and
sinks do not migrate.

Each application replays the load from a random time on: packets (the trace, or generated ones), whose bursts are
shorter than the limit of 20 s, or requests per second (recorded, or generated), whose rates vary over minutes. Either
is replayed at a stated mean rate, so that ten minutes of requests take seconds.

A *miss* is a result that is late, or that a tuple that was dropped or lost would have given; the miss rate is their
share of all results. Delays are those of results in time, and those of all results if a miss takes as long as the limit
(the first alone are the lower, the more is dropped). At the end the simulation runs until nothing waits.
"""

from __future__ import annotations

import functools
import gzip
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from synergy_experiments.flows.flow import Drop, Flow
from synergy_experiments.flows.flow_applications import Application, Arrivals, Component, Service
from synergy_experiments.flows.flow_control import FlowControl, Migrated
from synergy_experiments.flows.flow_meters import RateReading
from synergy_experiments.framework.measurements import Point
from synergy_nb import traces
from synergy_nb.models.hot_spot_config import HotSpotConfig
from synergy_nb.simulator.network import transit_stub
from synergy_nb.traces import datasets

__all__ = [
    "LITERAL", "LOADS", "NOTHING", "ONE", "POLICIES", "PREDICTION", "REACTION", "READINGS", "Policy",
    "applications_of", "measured_flow", "monitored", "named", "speeds_of",
]  # fmt: skip

Array = npt.NDArray[np.float64]


class Policy(NamedTuple):
    """What peers do about hot spots.

    Parameters
    ----------
    config
        Parameters; None: they do nothing.
    rates
        Predictor of rates.
    all_act
        Whether all peers on a path without slack act, not only that of the worst component.
    """

    config: HotSpotConfig | None
    rates: RateReading = "combined"
    all_act: bool = False


NOTHING: Final = "no migration"
REACTION: Final = "reaction"
LITERAL: Final = "prediction, equation 3.6"
PREDICTION: Final = "prediction"

POLICIES: Final[Mapping[str, Policy]] = {
    NOTHING: Policy(None),
    REACTION: Policy(HotSpotConfig(predict=False)),
    LITERAL: Policy(HotSpotConfig(), "equation 3.6"),
    PREDICTION: Policy(HotSpotConfig()),
}

_AT_ONCE: Final = HotSpotConfig(tuples=1, seconds=0.0)
_UNGUARDED: Final = HotSpotConfig(rest=0.0, return_ban=0.0)
_LETTER: Final = HotSpotConfig(tuples=1, seconds=0.0, rest=0.0, return_ban=0.0, selection="largest_first", margin=0.0)

#: Readings of what the dissertation leaves open about migrations, each in place of ours in :data:`PREDICTION`.
READINGS: Final[Mapping[str, Policy]] = {
    "largest rate first": Policy(HotSpotConfig(selection="largest_first")),
    "all on the path act": Policy(HotSpotConfig(), all_act=True),
    "the first tuple triggers": Policy(_AT_ONCE),
    "only projection prevents ping-pong": Policy(_UNGUARDED),
    "all of these, equation 3.6": Policy(_LETTER, "equation 3.6", all_act=True),
}

LOADS: Final = ("packets", "requests")

#: Operator to what it reads, the tuples that it gives for one, and its relative processing time.
MONITOR: Final[Mapping[str, tuple[tuple[str, ...], float, float]]] = {
    "source": ((), 1.0, 0.1),
    "filter": (("source",), 0.31, 0.4),
    "project": (("filter",), 1.0, 0.6),
    "aggregate": (("project",), 1.0, 1.6),
    "sort": (("aggregate",), 1.0, 1.6),
    "count": (("aggregate",), 1.0, 0.8),
    "compare": (("sort", "count"), 0.5, 0.8),
    "sink": (("compare",), 1.0, 0.2),
}
FULL: Final = 10.0  # applications a peer at which all of them take the stated share of the capacity
MINUTES: Final = 8000  # of generated requests
MEAN: Final = 0.7  # of their rate, requests/s, as that of the recorded ones
FADING: Final = 0.95  # correlation of their level from one minute to the next
NOISE: Final = 0.15  # standard deviation of the change of the logarithm of their level in a minute
DRAIN: Final = 200.0  # seconds after the end in which what waits is executed
ONE: Final = "one application"
SHOWN: Final = 60  # points of the delay of one application, each the mean of neighbours


def monitored(
    per_peer: int,
    drop: Drop,
    load: str,
    policies: tuple[str, ...],
    peers: int,
    rate: float,
    share: float,
    spread: float,
    limit: float,
    duration: float,
    step: float,
    horizon: float,
    seed: int,
) -> list[Point]:
    """Misses, delays and migrations under each policy, in the same run.

    Parameters
    ----------
    per_peer
        Applications that each peer requests.
    drop
        Rule of peers for late tuples.
    load
        Element of :data:`LOADS`, or the path of a packet trace.
    policies
        Names of policies, from :data:`POLICIES` or :data:`READINGS`.
    peers
        Number of peers.
    rate
        Mean rate of a source, tuples/s.
    share
        Share of the capacity that ten applications a peer take.
    spread
        Speed of the fastest peer over that of the slowest one.
    limit
        Limit q_t of the delay, seconds.
    duration
        Duration of the load, seconds.
    step
        Time from one decision to the next, seconds.
    horizon
        Time ahead for which execution times are predicted, seconds.
    seed
        Seed of the network, the placement and the load.

    Returns
    -------
    list of Point
        Metrics by the applications of a peer, and the delays of one application by the number of its result; the names
        of metrics end with the load and the rule for late tuples.
    """
    applications = applications_of(per_peer, peers, load, rate, share, limit, duration, seed)
    found: list[Point] = []
    runs = {
        name: _run(applications, peers, {**POLICIES, **READINGS}[name], drop, spread, duration, step, horizon, seed)
        for name in policies
    }
    shown = _hottest(*runs[PREDICTION]) if PREDICTION in runs else None
    of = named(Path(load).name if load not in LOADS else load, drop)
    for name, (flow, control) in runs.items():
        measures = _measured(applications, flow, control)
        found += (Point(per_peer, name, f"{metric}, {of}", value) for metric, value in measures.items())
        if shown is not None:
            course = _course(flow, shown.application)
            found += (Point(x, name, f"{ONE}, {per_peer} a peer, {of}", y) for x, y in course)
            for metric, number in _excess(course, limit / 2.0).items():
                found.append(Point(per_peer, name, f"{metric}, {of}", number))
    return found


def named(load: str, drop: Drop) -> str:
    """End of the names of metrics."""
    return f"{load}, drop {drop}"


def measured_flow(
    applications: list[Application], peers: int, policy: str, spread: float, duration: float, seed: int
) -> dict[str, float]:
    """Measures of a policy in the flow simulator, where overdue tuples are dropped; see :func:`monitored`.

    Peers count, report and decide once a second, and so does this.
    """
    step, horizon = 1.0, HotSpotConfig().horizon
    run = _run(applications, peers, POLICIES[policy], "overdue at dequeue", spread, duration, step, horizon, seed)
    return _measured(applications, *run)


def speeds_of(peers: Sequence[str], spread: float, seed: int) -> dict[str, float]:
    """Speeds of peers, 1 on average, of which the fastest is ``spread`` times the slowest."""
    faster = np.random.default_rng([seed, 93]).permutation(np.linspace(1.0, spread, len(peers)))
    return dict(zip(peers, (faster / faster.mean()).tolist(), strict=True))


def applications_of(
    per_peer: int,
    peers: int,
    load: str,
    rate: float,
    share: float,
    limit: float,
    duration: float,
    seed: int,
    service: Callable[[float], Service] = Service.exponential,
) -> list[Application]:
    """Monitors at random peers, each with its part of the load; parameters as of :func:`monitored`.

    ``service`` returns the processing times of a component from their mean in seconds.
    """
    rng = np.random.default_rng([seed, 91])
    rates = {"source": 1.0}
    for operator, (inputs, _, _) in MONITOR.items():
        if inputs:
            rates[operator] = sum(rates[each] * MONITOR[each][1] for each in inputs)
    work = sum(weight for _, _, weight in MONITOR.values())
    taus = {name: share / FULL * weight / work / (rates[name] * rate) for name, (_, _, weight) in MONITOR.items()}
    arrivals = _Load(load, rate, duration, rng)
    found = []
    for number in range(per_peer * peers):
        placed = rng.permutation(peers)[: len(MONITOR)]
        parts = {
            operator: Component(f"peer-{peer}", service(taus[operator]), inputs, selectivity)
            for (operator, (inputs, selectivity, _)), peer in zip(MONITOR.items(), placed.tolist(), strict=True)
        }
        times = arrivals.times(rng)
        found.append(Application(f"a{number}", parts, {"source": Arrivals.trace(times)}, limit=limit))
    return found


class _Load:
    """Times of a load's tuples at a mean rate, from a random time of it on."""

    def __init__(self, load: str, rate: float, duration: float, rng: np.random.Generator) -> None:
        self.duration = duration
        self.counts: Array | None = None
        if load == "requests":
            counts = requests_per_second(int(rng.integers(1 << 31)))
            self.counts = counts
            self.scale = rate / float(counts.mean())  # seconds of the trace in one
        else:
            count = round(8.0 * duration * rate)
            if load == "packets" and (known := datasets.find("lbl-tcp-3").path) is not None:
                load = str(known)
            params = (
                {"connector": "packets", "seed": int(rng.integers(1 << 31)), "rate": 250.0, "count": count}
                if load == "packets"
                else {"connector": "trace", "path": load}
            )
            seconds = traces.table(params)["time"].to_physical().to_numpy()[:count] / 1e6
            seconds = np.sort(seconds - seconds.min())
            self.packets = np.asarray(seconds * (len(seconds) / rate / seconds[-1]))

    def times(self, rng: np.random.Generator) -> Array:
        """Times of the tuples of one application, seconds."""
        if self.counts is not None:
            length = math.ceil(self.duration * self.scale)
            begin = int(rng.integers(len(self.counts)))
            counts = np.take(self.counts, np.arange(begin, begin + length), mode="wrap").astype(np.int64)
            seconds = np.repeat(np.arange(length, dtype=np.float64), counts)
            found = np.sort(seconds + rng.uniform(0.0, 1.0, len(seconds))) / self.scale
        else:
            whole = float(self.packets[-1])
            begin_at = rng.uniform(0.0, whole)
            found = np.sort((self.packets - begin_at) % whole)
        return found[found < self.duration]


@functools.lru_cache(maxsize=1)
def requests_per_second(seed: int) -> Array:
    """Requests of each second: the recorded ones of a web server, or generated ones where that trace is missing."""
    path = datasets.find("nasa-http-rate").path
    if path is not None:
        with gzip.open(path, "rb") as lines:
            return np.array(lines.read().split(), dtype=np.float64)
    rng = np.random.default_rng([seed, 92])
    level, levels = 0.0, []
    for change in rng.normal(0.0, NOISE, MINUTES).tolist():
        level = FADING * level + change
        levels.append(math.exp(level))
    rates = np.repeat(levels, 60) * (MEAN / (math.fsum(levels) / MINUTES))
    return np.asarray(rng.poisson(rates), dtype=np.float64)


def _run(
    applications: list[Application],
    peers: int,
    policy: Policy,
    drop: Drop,
    spread: float,
    duration: float,
    step: float,
    horizon: float,
    seed: int,
) -> tuple[Flow, FlowControl | None]:
    network = transit_stub(peers, seed=seed, capacities={1.0: 1.0})
    flow = Flow(network, speeds=speeds_of(network.peers, spread, seed), seed=seed, drop=drop, keep=4096)
    if policy.config is None:
        for application in applications:
            flow.add(application)
        flow.run(until=duration + DRAIN)
        return flow, None
    config = msgspec.structs.replace(policy.config, horizon=horizon)
    offered: dict[str, set[str]] = {peer: set() for peer in network.peers}
    for application in applications:
        for operator, component in application.components.items():
            if operator != "sink":  # whose results are wanted where they are
                offered[str(component.peer)].add(operator)
    control = FlowControl(
        flow, network.peers, config, offered=offered, rates=policy.rates, step=step, all_act=policy.all_act
    )
    for application in applications:
        control.add(application)
    control.run(until=duration)
    flow.run(until=duration + DRAIN)
    return flow, control


def _measured(applications: list[Application], flow: Flow, control: FlowControl | None) -> dict[str, float]:
    missed = results = in_time = seconds = 0.0
    gains = dict.fromkeys(MONITOR, 1.0)
    for operator in reversed(list(MONITOR)):
        after = [each for each, (inputs, _, _) in MONITOR.items() if operator in inputs]
        if after:
            gains[operator] = MONITOR[operator][1] * sum(gains[each] for each in after)
    for application in applications:
        delays = flow.delays(application.name)
        executed = {operator: flow.executed(application.name, operator) for operator in MONITOR}
        absent = sum((each.dropped + each.lost) * gains[operator] for operator, each in executed.items())
        missed += delays.late + absent
        results += delays.tuples + absent
        if delays.tuples > delays.late:
            in_time += delays.tuples - delays.late
            seconds += delays.in_time * (delays.tuples - delays.late)
    found = {
        "miss rate": missed / results if results else 0.0,
        "delay": seconds / in_time if in_time else math.nan,
        "delay with misses": (seconds + missed * applications[0].limit) / results if results else math.nan,
        "applications": float(len(applications)),
    }
    if control is not None:
        found["migrations"] = float(len(control.migrations))
        found["negative replies"] = float(control.refusals)
        found["hot spots"] = float(control.hot_spots)
        found["applications with a migration"] = float(len({each.application for each in control.migrations}))
    return found


def _hottest(flow: Flow, control: FlowControl | None) -> Migrated | None:
    """The first migration of the application that was slowest of those that had a component migrate."""
    assert control is not None
    slowest = max(control.migrations, key=lambda each: flow.delays(each.application).most, default=None)
    return None if slowest is None else next(m for m in control.migrations if m.application == slowest.application)


def _course(flow: Flow, name: str) -> list[tuple[float, float]]:
    """Delay by the number of the result, in the order of birth, as means of neighbours."""
    born, delays = flow.records(name)
    ordered = delays[np.argsort(born, kind="stable")]
    total = flow.delays(name).tuples
    width = max(len(ordered) // SHOWN, 1)
    means = ordered[: len(ordered) // width * width].reshape(-1, width).mean(axis=1)
    numbers = (np.arange(len(means)) + 0.5) * total / max(len(means), 1)
    return list(zip(numbers.tolist(), means.tolist(), strict=True))


def _excess(course: Sequence[tuple[float, float]], level: float) -> dict[str, float]:
    """Numbers of the first and the last result of an application whose delay is above a level."""
    above = [number for number, delay in course if delay > level]
    return {"first slow result": above[0], "last slow result": above[-1], "results": course[-1][0]} if above else {}
