"""A4: number of failed replicas (section 4.5.2, figures 4.10 and 4.11).

The set-up is that of A1.

Findings
--------
The claim does not hold, and cannot hold: where each peer fails with the same probability, the mean share of failed
replicas is the share of failed peers for every placement, since the mean of a sum is the sum of the means. Collocation
changes how failures are distributed, not their number. The description of the paper is true of the typical application:
in two of three failures none of Synergy's replicas fails, so the median ratio is zero, while Random and Partition lose
a replica in 95 of 100.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final, cast

import numpy as np

from synergy_experiments.chapters.availability import REPLICAS, SHARE, requests, share_failed
from synergy_experiments.framework.claim import Cell, Check, Claim, Panel
from synergy_experiments.framework.measurements import Measured, Point
from synergy_experiments.framework.parameters import Setup, wholes
from synergy_experiments.framework.verdicts import at_all, near
from synergy_experiments.worlds.replica_placements import Requests, mean, placements, world
from synergy_experiments.worlds.sweeps import algorithms
from synergy_nb.algorithms.availability import ExactlyFailed
from synergy_nb.control.roles import Roles

__all__ = ["CLAIMED", "ratios"]

_BY: Final = {"by peers": "peers", "by failures": "failed peers"}


def ratios(given: Requests, algorithm: str, failed: int, samples: int, kind: str, x: float, seed: int) -> list[Point]:
    """Measure the share of the replicas of each application that fail.

    Metrics, each with ``kind`` behind it: ``ratio`` and ``median``, of the shares of failed replicas over ``samples``
    drawn failures; ``hit``, the exact share of applications and failures in which a replica fails at all; ``outlived``,
    the largest share of failed replicas that an application has outlived.
    """
    peers = world(given, seed).topology.peers
    place = {peer: number for number, peer in enumerate(peers)}
    down = ExactlyFailed(peers, failed).draw(np.random.default_rng(seed), samples)
    shares: list[float] = []
    typical: list[float] = []
    hits: list[float] = []
    outlived: list[float] = []
    for graph in placements(given, algorithm, seed).values():
        lost, alive = _lost_replicas(graph, place, down)
        shares.append(float(lost.mean()))
        typical.append(float(np.median(lost)))
        hits.append(1.0 - math.comb(len(peers) - len(graph.hosts), failed) / math.comb(len(peers), failed))
        outlived.append(float(lost[alive].max(initial=0.0)))
    most = max(outlived, default=math.nan)
    found = {"ratio": mean(shares), "median": mean(typical), "hit": mean(hits), "outlived": most}
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
            fewer = [(x, (measured.gain(x, "synergy", other, f"ratio {kind}") or 0.0) > 0.05) for x in places]
            yield at_all(
                f"Synergy's mean ratio of failed replicas is below that of {other}, {kind}", "fewer fail", fewer
            )
            spared = [(x, (measured.gain(x, "synergy", other, f"hit {kind}") or 0.0) > 0.0) for x in places
                      if (measured.mean(x, other, f"hit {kind}") or 0.0) > 0.0]  # fmt: skip
            name = f"fewer of Synergy's applications than of {other}'s lose a replica, {kind}"
            yield at_all(name, "fewer fail", spared)
    most = [measured.mean(x, "optimal", "outlived by failures") for x in measured.xs("outlived by failures", "optimal")]
    ours = max((value for value in most if value is not None), default=None)
    yield near("ratio of failed replicas that Optimal outlives", (degree - 1) / degree, ours, 1e-6, 0.01)


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
                ("ratio", "failed replicas, mean"),
                ("median", "failed replicas, median"),
                ("hit", "applications that lose a replica"),
            )
        ),
        xlabel="",
        repeat=(3, 10),
    ),
)
