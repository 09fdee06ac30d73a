"""``replicas``: a query of degree 3 loses two peers, one killed and one hung; how much later its results are."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import polars as pl

from synergy_experiments.bench.measurements import machine_load, measurement, quantile, spread
from synergy_experiments.bench.takeovers import differing, expected, pairs_of
from synergy_nb import WideArea
from synergy_nb.events import SourceStarted
from synergy_nb.plan import Plan
from synergy_nb.runtime.client.cluster import Cluster

__all__ = ["Delays", "query", "replicas"]

SEED: Final = 1  # of the moments of the losses
PEERS: Final = 6
HOME: Final = "peer-1"  # has sources and sink; nothing survives its loss
HOP: Final = 0.05  # one way between two peers, seconds
SETTLED: Final = 0.65  # share of the time until the first loss after which delays count: Numba is loaded before


class Delays(NamedTuple):
    """Delays of results in one part of a run, seconds, from the time of a row until it is at the client.

    Parameters
    ----------
    p50, p99, most
        Quantiles and the greatest one.
    gap
        Longest time between two arrivals.
    """

    p50: float
    p99: float
    most: float
    gap: float


def query(number: int, seconds: float, rate: float, availability: str) -> Plan:
    """A join of two paced streams of packets, and a filter; sources and sink are at :data:`HOME`.

    Parameters
    ----------
    number
        Number of the run; each run has different packets.
    seconds, rate
        Duration of the streams in seconds, and packets/s of each.
    availability
        Availability of the operators, such as ``"active 3"``.
    """
    return (
        pairs_of(number, seconds, rate, HOME)
        .filter("bytes > 0", id="kept")
        .sink("out", availability=availability, id="out")
    )


def replicas(*, small: bool = False) -> dict[str, Any]:
    """Seconds by which the latest result after two of three replicas are lost is later than the latest before.

    The machine's own load makes results late, too. So runs without losses are measured in turn with them.
    """
    count, seconds, rate = (1, 3.0, 200.0) if small else (6, 20.0, 50.0)
    rng = random.Random(SEED)
    before = machine_load()
    lost, whole = list[_Run](), list[_Run]()
    for number in range(count):
        moments = rng.uniform(0.45, 0.5) * seconds, rng.uniform(0.7, 0.75) * seconds
        for runs in (lost, whole):
            runs.append(_run(query(number, seconds, rate, "active 3"), moments, loses=runs is lost))
    later = [each.later for each in lost]
    detail: dict[str, Any] = {
        "way": f"a join of two streams of {rate:g} packets/s for {seconds:g} s and a filter, active 3, {PEERS} peers "
        f"with {HOP * 1000:g} ms one way between any two; SIGKILL to the peer of the first replicas, then SIGSTOP to "
        "that of the second; the greatest delay of a result after the losses, less that before; parts of runs without "
        "losses begin at the same moments",
        "hop_s": HOP,
        "tries": count,
        "rows": sum(each.rows for each in lost),
        "lost": sum(each.lost for each in lost + whole),
        "doubled": sum(each.doubled for each in lost + whole),
        "later": spread(later, digits=4),
        "within_a_hop": sum(each <= HOP for each in later),
        "parts": _parts(lost),
        "without_losses": {
            "later": spread([each.later for each in whole], digits=4),
            "within_a_hop": sum(each.later <= HOP for each in whole),
            "parts": _parts(whole),
        },
        "load": {"before": before, "after": machine_load()},
    }
    return measurement("replicas", detail["later"]["median"], "s", detail)


class _Run(NamedTuple):
    """Delays before the losses, after the first and after the second one; results, and those lost and doubled."""

    delays: tuple[Delays, Delays, Delays]
    rows: int
    lost: int
    doubled: int

    @property
    def later(self) -> float:
        """Greatest delay after the first loss less that before, seconds."""
        before, *after = self.delays
        return max(each.most for each in after) - before.most


def _parts(runs: list[_Run]) -> dict[str, dict[str, float]]:
    """Median over runs of each number, for each part of a run."""
    return {
        name: {
            field: spread([getattr(run.delays[part], field) for run in runs], digits=4)["median"]
            for field in Delays._fields
        }
        for part, name in enumerate(("before", "killed", "hung"))
    }


def _run(plan: Plan, moments: tuple[float, float], *, loses: bool) -> _Run:
    """Run a plan on a cluster of its own; end one peer and hang another once results have come so far in the stream.

    Parameters
    ----------
    plan
        Plan of :func:`query`.
    moments
        Event times in seconds from the beginning of the streams.
    loses
        Whether peers are lost; otherwise only the parts of the run begin then.
    """
    area = WideArea(HOP * 2000.0 * (1.0 - np.eye(PEERS)), 1e9)
    parts: list[list[tuple[float, pl.DataFrame]]] = [[]]
    with Cluster(PEERS, cores=1.0, spark=False, wide_area=area) as cluster:
        application = cluster.submit(plan, origin=HOME)
        victims = [peer for name in ("pairs", "pairs~1", "pairs~2") if (peer := application.graph[name]) != HOME]
        due: list[tuple[float, Callable[[str], object], str]] = [
            (moments[0], cluster.kill, victims[0]),
            (moments[1], cluster.suspend, victims[1]),
        ]
        try:
            for table in application:
                parts[-1].append((time.time(), table))
                if due and table.get_column("time").cast(pl.Int64).max() >= due[0][0] * 1e6:  # type: ignore[operator]
                    _, lose, victim = due.pop(0)
                    if loses:
                        lose(victim)
                    parts.append([])
        finally:
            if loses:
                cluster.resume(victims[1])
        started = min(event.time for event in application.events() if isinstance(event, SourceStarted))
    came = [table for part in parts for _, table in part]
    lost, doubled = differing(pl.concat(came), expected(plan))
    settled = [(at, table) for at, table in parts[0] if at - started > SETTLED * moments[0]]
    delays = (
        _delays(settled, started, "before a loss"),
        _delays(parts[1], started, f"after {victims[0]} was killed"),
        _delays(parts[2], started, f"after {victims[1]} was suspended"),
    )
    return _Run(delays, sum(table.height for table in came), lost, doubled)


def _delays(came: list[tuple[float, pl.DataFrame]], started: float, when: str) -> Delays:
    """Delays of the results that came, each with the time of its arrival, of sources that started at some time."""
    if not came:
        raise RuntimeError(f"replicas: no result came {when}; expected some")
    delays: list[float] = []
    for arrived, table in came:
        delays.extend((arrived - started - table.get_column("time").cast(pl.Int64) / 1e6).to_list())
    gaps = [after[0] - before[0] for before, after in pairwise(came)]
    return Delays(quantile(delays, 0.5), quantile(delays, 0.99), max(delays), max(gaps, default=0.0))
