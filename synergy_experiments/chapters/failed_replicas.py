"""A4: number of failed replicas (section 4.5.2, figures 4.10 and 4.11).

The set-up is that of A1.

Which requests are counted? The paper measures availability "by the percentage of successful requests", and a request
whose own source or destination node has failed cannot be submitted. Both readings are shown: all applications, and
those whose own ends, source and sink, live.

Findings
--------
Counting applications whose own ends live, the claim holds: .08 of Synergy's replicas fail, and .15 of those of Random,
Partition and Optimal. Synergy's first component is at the source and others follow it, so many of its replicas are at
peers that are known to live; the other algorithms do not look where the ends are. Counting all applications, the mean
share of failed replicas is the share of failed peers for every placement, since the mean of a sum is the sum of the
means: this is shown, and not judged. In both readings fewer of Synergy's applications lose a replica at all.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final, cast

import numpy as np

from synergy_experiments.chapters.availability import REPLICAS, SHARE, requests, share_failed
from synergy_experiments.framework.claim import Cell, Check, Claim, Panel
from synergy_experiments.framework.measurements import Coordinate, Decision, Estimate, Measured, Point
from synergy_experiments.framework.parameters import Setup, wholes
from synergy_experiments.framework.verdicts import at_all, near, own
from synergy_experiments.worlds.replica_placements import Requests, mean, placements, world
from synergy_experiments.worlds.sweeps import algorithms
from synergy_nb.algorithms.availability import ExactlyFailed
from synergy_nb.control.roles import Roles

__all__ = ["CLAIMED", "ratios"]

FEWER: Final = 0.005  # difference of two ratios below which they are the same
_BY: Final = {"by peers": "peers", "by failures": "failed peers"}


def ratios(given: Requests, algorithm: str, failed: int, samples: int, kind: str, x: float, seed: int) -> list[Point]:
    """Measure the share of the replicas of each application that fail.

    Metrics, each with ``kind`` behind it: ``ratio``, mean share of failed replicas over ``samples`` drawn failures, of
    the applications whose source and sink live; ``ratio of all`` and ``median``, of all applications; ``hit``, the
    exact share of applications and failures in which a replica fails at all; ``outlived``, the largest share of failed
    replicas that an application has outlived.
    """
    peers = world(given, seed).topology.peers
    place = {peer: number for number, peer in enumerate(peers)}
    down = ExactlyFailed(peers, failed).draw(np.random.default_rng(seed), samples)
    shares: list[float] = []
    living = failing = 0.0
    typical: list[float] = []
    hits: list[float] = []
    outlived: list[float] = []
    for graph in placements(given, algorithm, seed).values():
        lost, alive = _lost_replicas(graph, place, down)
        shares.append(float(lost.mean()))
        ends = [place[peer] for operator, peer in graph.peers.items() if operator not in graph.replicas]
        live = ~down[:, ends].any(axis=1)
        living, failing = living + float(live.sum()), failing + float(lost[live].sum())
        typical.append(float(np.median(lost)))
        hits.append(1.0 - math.comb(len(peers) - len(graph.hosts), failed) / math.comb(len(peers), failed))
        outlived.append(float(lost[alive].max(initial=0.0)))
    most = max(outlived, default=math.nan)
    counted = failing / living if living else math.nan
    found = {
        "ratio": counted,
        "ratio of all": mean(shares),
        "median": mean(typical),
        "hit": mean(hits),
        "outlived": most,
    }
    return [Point(x, algorithm, f"{name} {kind}", value) for name, value in found.items()]


def _lost_replicas(graph: Roles, place: dict[str, int], down: Any) -> tuple[Any, Any]:
    """Return the share of failed replicas, and whether the application is available, for each drawn failure."""
    groups = np.array([[place[peer] for peer in peers] for peers in graph.replicas.values()])
    failed = down[:, groups]  # (failures, components, replicas)
    return failed.mean(axis=(1, 2)), ~failed.all(axis=2).any(axis=1)


def _failing(setup: Setup) -> Iterator[Cell]:
    share, samples = cast("float", setup["share"]), setup["samples"]
    for name in algorithms(setup):
        for peers in cast("tuple[int, ...]", setup["sizes"]):
            given = requests(setup, peers=peers, failed=0)
            yield Cell(ratios, (given, name, share_failed(peers, share), samples, "by peers", peers))
        for failed in cast("tuple[int, ...]", setup["failed"]):
            yield Cell(ratios, (requests(setup), name, failed, samples, "by failures", failed))


def _ratio(measured: Measured, setup: Setup) -> Iterator[Check]:
    degree = cast("int", setup["degree"])
    for kind in ("by peers", "by failures"):
        places = measured.xs(f"ratio {kind}", "synergy")
        for other in ("random", "partition"):
            less = [(x, _fewer(measured, x, other, f"ratio of all {kind}")) for x in places]
            name = f"Synergy's ratio of failed replicas is {FEWER:g} below {other}'s, of all applications, {kind}"
            yield at_all(name, "fewer fail", less)
            fewer = [(x, measured.lower(x, "synergy", other, f"ratio {kind}")) for x in places]
            name = f"Synergy's ratio of failed replicas is below {other}'s, of requests whose ends live, {kind}"
            yield at_all(name, "fewer fail", fewer)
            spared = [(x, measured.lower(x, "synergy", other, f"hit {kind}")) for x in places
                      if (measured.mean(x, other, f"hit {kind}") or 0.0) > 0.0]  # fmt: skip
            name = f"fewer of Synergy's applications than of {other}'s lose a replica, {kind}"
            yield at_all(name, "fewer fail", spared)
        alike = [(x, _alike(measured, x, f"ratio {kind}")) for x in places]
        yield at_all(f"the ratios of Random and Partition are similar, within a tenth, {kind}", "similar", alike)
        higher = [(x, measured.higher(x, "optimal", "synergy", f"ratio {kind}")) for x in places]
        yield at_all(f"Optimal's ratio is above Synergy's, {kind}", "higher", higher)
    most = [measured.mean(x, "optimal", "outlived by failures") for x in measured.xs("outlived by failures", "optimal")]
    ours = max((value for value in most if value is not None), default=None)
    greatest = None if ours is None else Estimate.exact(ours)
    yield own(near("ratio of failed replicas that Optimal outlives", (degree - 1) / degree, greatest, 1e-6, 0.01))


def _fewer(measured: Measured, x: Coordinate, other: str, metric: str) -> Decision | None:
    """Whether Synergy's ratio is below another's, by more than what is no difference."""
    apart = measured.difference(x, "synergy", other, metric)
    return None if apart is None else apart.below(-FEWER)


def _alike(measured: Measured, x: Coordinate, metric: str) -> Decision | None:
    relative = measured.gain(x, "random", "partition", metric)
    return None if relative is None else relative.within(0.1)


CLAIMED: Final = (
    Claim(
        id="A4",
        title="ratio of failed replicas",
        source="dissertation 4.5.2, figures 4.10 and 4.11",
        says="Synergy's availability stems from fewer failed replicas; Optimal outlives a ratio of (ϱ - 1) / ϱ",
        parameters={
            **REPLICAS,
            "sizes": wholes("peers, where their number is varied", (10, 20, 30), (10, 15, 20, 25, 30), least=2),
            "failed": wholes("failed peers of the 20", (1, 3, 5, 10), tuple(range(1, 11))),
            "share": SHARE,
        },
        cells=_failing,
        checks=_ratio,
        panels=tuple(
            Panel(f"{metric} {kind}", f"{label} (%)", factor=100.0, xlabel=_BY[kind])
            for kind in _BY
            for metric, label in (
                ("ratio", "failed replicas, of requests whose ends live"),
                ("ratio of all", "failed replicas, of all applications"),
                ("median", "failed replicas, of all, median"),
                ("hit", "applications that lose a replica"),
            )
        ),
        xlabel="",
        repeat=(3, 10),
        shares=("ratio*", "median*", "hit*", "outlived*"),
    ),
)
