"""H1 on Dask workers: techniques for reliable streams at work, with the fail-over of the platform.

The query and the sites are those of :mod:`~synergy_experiments.chapters.techniques_compared`; the peers are processes
of this machine (:mod:`~synergy_experiments.worlds.reliable_peers`). A tuple enters each source once a period, and feeds
promise its time only with the next one. So deterministic order delays each result by a period.

Latencies include the work of this machine, which the computed ones do not. So a latency is judged by its median, and an
order of two of them needs a difference beyond :data:`NOISE_MS`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import median
from typing import Final, NamedTuple

from synergy_experiments.framework.claim import Check
from synergy_experiments.framework.measurements import Measured, Point
from synergy_experiments.framework.verdicts import Statement, in_every_run, near, own
from synergy_experiments.worlds.reliable_peers import Lived, lived
from synergy_experiments.worlds.reliable_streams import CRASH, FAULTS, HANG, SLOW, SLOW_S, TECHNIQUES, Arrival
from synergy_nb import ClusterError

__all__ = ["LIVE", "live_checks", "through_live"]

SERVERS: Final = ("B", "C")
NONE, REPLICATION, SYNCHRONIZATION, _, ORDERED, PASSIVE = TECHNIQUES
#: Techniques that are measured: feeds promise with the next tuple.
LIVE: Final = (NONE, REPLICATION, SYNCHRONIZATION, ORDERED, PASSIVE)
REPLACED: Final = (SYNCHRONIZATION, ORDERED, PASSIVE)
NOISE_MS: Final = 15.0  # difference of two medians that the work of the machine can make
NO_GAP_S: Final = 0.5  # longest time beyond a period that is no gap: a fifth of what the detector needs
DETECTED_S: Final = 1.0  # least time beyond a period that a fail-over takes: two periods of the detector
SETTLED_S: Final = 4.0  # seconds after a fault from which on latencies are those after a fail-over


class _Expected(NamedTuple):
    """Latencies before and after the fail-over that follow from the delays of links, ms, for B and for C."""

    before: tuple[float, float]
    after: tuple[float, float]


def _expected(name: str, period: float) -> _Expected:
    wait = 1e3 * period
    return {
        NONE: _Expected((37.0, 49.0), (math.nan, math.nan)),
        REPLICATION: _Expected((37.0, 47.0), (42.0, 49.0)),
        SYNCHRONIZATION: _Expected((73.0, 85.0), (42.0, 49.0)),
        ORDERED: _Expected((49.0 + wait, 49.0 + wait), (49.0 + wait, 49.0 + wait)),
        PASSIVE: _Expected((37.0, 49.0), (42.0, 49.0)),
    }[name]


def through_live(fault: str, at: float, after: float, period: float, hang: float, _seed: int) -> list[Point]:
    """Measure all techniques on Dask workers through one fault.

    Parameters
    ----------
    fault
        Fault.
    at, after
        Time of the fault, and seconds for which tuples enter after it.
    period
        Seconds between two tuples of a source.
    hang
        Seconds of a hang.
    """
    runs = lived(LIVE, fault, at, after, period, hang)
    for name, run in runs.items():
        if run.failed and name != NONE:
            raise ClusterError(f"{name}, {fault}: the application has failed: {run.failed}")
    count = round((at + after) / period)
    return [each for name, run in runs.items() for each in _points(name, fault, run, count, period)]


def _points(name: str, fault: str, run: Lived, count: int, period: float) -> list[Point]:
    """Values of a technique, of which so many results were to come about each server."""
    points = [Point(fault, name, "noticed after", run.noticed - run.fault)]
    points += [Point(fault, name, "taken for dead before", float(run.early))]
    for server in SERVERS:
        own = [each for each in run.arrivals if each.server == server]
        stamps = [round(each.stamp / period) for each in own]
        values = {
            "before": _median(own, 0.0, run.fault - period),
            "after": _median(own, run.fault + SETTLED_S, math.inf),
            "longest pause": max((later.at - one.at for one, later in pairwise(own)), default=math.nan),
            "results": float(len(own)),
            "missing": float(count - len(set(stamps))),
            "doubled": float(len(own) - len(set(stamps))),
            "last": max((each.stamp - run.fault for each in own), default=math.nan),
        }
        points += [Point(fault, name, f"{metric}, {server}", value) for metric, value in values.items()]
        points += [Point(each.stamp, name, f"{fault}, {server}", each.at - each.stamp) for each in own]
    return points


def _median(found: Sequence[Arrival], since: float, until: float) -> float:
    """Median latency of the results with stamps between two times, seconds."""
    latencies = [each.at - each.stamp for each in found if since <= each.stamp < until]
    return median(latencies) if latencies else math.nan


def live_checks(measured: Measured, period: float) -> Iterator[Check]:
    """Compare what was measured on Dask workers with what the paper says, and with what follows from links.

    Parameters
    ----------
    measured
        Points of :func:`through_live`.
    period
        Seconds between two tuples of a source.
    """

    yield from in_every_run(measured, lambda one: _statements(one, period))
    for name in LIVE:
        expected = _expected(name, period)
        for place, server in enumerate(SERVERS):
            for when, several in (("before", expected.before), ("after", expected.after)):
                if not math.isnan(several[place]):
                    ours = measured.estimate(CRASH, name, f"{when}, {server}")
                    what = f"{name}, {server}: median latency {when} the crash, s (computed)"
                    about = (1e-3 * several[place], ours, 1e-3 * NOISE_MS, 5e-3 * NOISE_MS)
                    yield own(near(what, *about, unit="s"))


def _statements(measured: Measured, period: float) -> Iterator[Statement]:
    """What the paper says, and what follows from links: name, statement, and whether it is true at each point."""

    def value(fault: str, name: str, metric: str) -> float:
        found = measured.mean(fault, name, metric)
        return math.nan if found is None else found

    def latency(fault: str, name: str, metric: str) -> float:
        return 1e3 * value(fault, name, metric)

    everywhere = [(fault, server) for fault in FAULTS for server in SERVERS]
    calm = [(f"{name}, {fault}", value(fault, name, "taken for dead before") == 0.0)
            for name in LIVE for fault in FAULTS]  # fmt: skip
    yield ("no peer is taken for dead before the fault", "of the measurement", calm)
    lowest = [(f"{name}, {fault}, {server}", latency(fault, REPLICATION, f"before, {server}")
               <= latency(fault, name, f"before, {server}") + NOISE_MS)
              for name in LIVE if name != REPLICATION for fault, server in everywhere]  # fmt: skip
    yield ("no technique has a lower latency than replication before a fault", "lowest", lowest)
    slower = [(f"{name}, {fault}, {server}", latency(fault, name, f"before, {server}")
               > latency(fault, other, f"before, {server}") + NOISE_MS)
              for name in (SYNCHRONIZATION, ORDERED) for other in (REPLICATION, NONE, PASSIVE)
              for fault, server in everywhere]  # fmt: skip
    yield ("synchronization and deterministic order are slower before a fault", "slower", slower)

    deaths = [(fault, server) for fault in (CRASH, HANG) for server in SERVERS]
    silent = [(server, value(CRASH, NONE, f"last, {server}") <= period) for server in SERVERS]
    yield ("without replication there is silence after the crash", "silence", silent)
    smooth = [(f"{fault}, {server}", value(fault, REPLICATION, f"longest pause, {server}") <= period + NO_GAP_S)
              for fault, server in everywhere]  # fmt: skip
    yield (f"no gap of replication: at most {NO_GAP_S:g} s and a period between two results", "no gap", smooth)
    paused = [(f"{name}, {fault}, {server}", value(fault, name, f"longest pause, {server}") > period + DETECTED_S)
              for name in REPLACED for fault, server in deaths]  # fmt: skip
    yield (f"all others have a gap: more than {DETECTED_S:g} s and a period, until the death is found",
                 "fail-over latency", paused)  # fmt: skip
    drops = [(server, latency(CRASH, SYNCHRONIZATION, f"after, {server}")
              < latency(CRASH, SYNCHRONIZATION, f"before, {server}") - NOISE_MS) for server in SERVERS]  # fmt: skip
    yield ("the latency of synchronization drops after the crash", "drops", drops)
    kept = [(f"{name}, {fault}, {server}", value(fault, name, f"missing, {server}") == 0.0
             and value(fault, name, f"doubled, {server}") == 0.0)
            for name in LIVE if name != NONE for fault, server in everywhere]  # fmt: skip
    yield ("no result is lost or doubled", "none", kept)
    prompt = [(server, latency(SLOW, REPLICATION, f"after, {server}")
               <= latency(SLOW, REPLICATION, f"before, {server}") + 2.0 * NOISE_MS) for server in SERVERS]  # fmt: skip
    yield ("slow link: the latency of replication stays", "stays", prompt)
    late = [(f"{name}, {server}", abs(value(SLOW, name, f"after, {server}") - SLOW_S) <= 0.1 * SLOW_S)
            for name in (NONE, *REPLACED) for server in SERVERS]  # fmt: skip
    yield (f"slow link: all others are {SLOW_S:g} s late and stay so, as the detector tests peers, not links",
                 "(computed)", late)  # fmt: skip
