"""B3: a feasible set measured on real peers beside the computed one (ROD, section 7.3.1).

The paper measures the size of a feasible set on its prototype: the share of 100 points, uniform over the ideal set, at
which no node is overloaded. Here peers on Dask workers execute the operators of random trees, placed by ROD and by
LLF, at each such point for some seconds. Beside each share is that of the same points at which the loads that the
model computes are at most 1, and the share of the points at which both agree: of all, and of those at which no
computed load is within a stated margin of 1, where seconds cannot decide.

It takes about three and a half seconds a point and placement, and a machine that does nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from synergy_experiments.framework.claim import Cell, Check, Claim, Panel
from synergy_experiments.framework.measurements import Measured
from synergy_experiments.framework.parameters import Setup, number, several, whole
from synergy_experiments.framework.verdicts import near, own
from synergy_experiments.worlds.measured_feasibility import borne, forest
from synergy_nb.algorithms.resilience import feasible_ratio, largest_load_first, rod

__all__ = ["CLAIMED", "measured_set"]

PLACED: Final = ("rod", "llf")


def measured_set(
    algorithm: str,
    inputs: int,
    each: int,
    nodes: int,
    cost: float,
    points: int,
    seconds: float,
    share: float,
    margin: float,
    seed: int,
) -> dict[str, float]:
    """Measure the share of points that peers bear, and compute it.

    Parameters
    ----------
    algorithm
        Placement: ``rod`` or ``llf``.
    inputs, each, nodes
        Numbers of input streams, of operators of each, and of peers.
    cost
        Largest cost of an operator, seconds a tuple.
    points
        Number of points, uniform over the ideal set.
    seconds, share
        Time at a point, and the share of it that may wait as work at a peer.
    margin
        Distance of a computed load from 1 within which a point is not decided.
    seed
        Seed of trees and points.
    """
    rng = np.random.default_rng([seed, inputs, each])
    trees = forest(inputs, each, cost, rng)
    load, capacity = trees.load, np.ones(nodes)
    even = nodes / load.sum(axis=0) / inputs  # rates at which every stream has the same load
    placed = rod(load, capacity) if algorithm == "rod" else largest_load_first(load, capacity, even[None, :])
    drawn = rng.dirichlet(np.ones(inputs + 1), points)[:, :inputs] * nodes / load.sum(axis=0)
    busiest = np.array([np.bincount(placed, load @ rates, nodes).max() for rates in drawn])
    found = np.array(borne(trees, placed.tolist(), nodes, drawn.tolist(), seconds, share))
    decided = np.abs(busiest - 1.0) > margin
    agree = found == (busiest <= 1.0)
    return {
        "measured": float(found.mean()),
        "computed": float((busiest <= 1.0).mean()),
        "exact": float(feasible_ratio(load, capacity, placed)),
        "agree": float(agree.mean()),
        "agree where decided": float(agree[decided].mean()) if decided.any() else 1.0,
    }


def _cells(setup: Setup) -> Iterator[Cell]:
    given = (setup[name] for name in ("inputs", "each", "nodes", "cost", "points", "seconds", "share", "margin"))
    rest = tuple(given)
    for name in setup["algorithms"]:  # type: ignore[union-attr]
        yield Cell(measured_set, (name, *rest), "", str(name), alone=True)


def _checks(measured: Measured, _: Setup) -> Iterator[Check]:
    for name in measured.algorithms("measured"):
        off = measured.paired(("", name, "measured"), ("", name, "computed"), lambda one, other: one - other)
        yield own(near(f"measured share of the ideal set less the computed one, {name}", 0.0, off, 0.05, 0.1))
        agree = measured.estimate("", name, "agree where decided")
        yield own(near(f"measured and computed agree where loads are not near 1, {name}", 1.0, agree, 0.02, 0.05))


CLAIMED: Final = (
    Claim(
        id="B3",
        title="feasible set measured on real peers",
        source="ROD, VLDB 2006, 7.3.1",
        says="the size of a feasible set is the share of 100 points, uniform over the ideal set, at which no node of "
        "the prototype is overloaded",
        parameters={
            "inputs": whole("input streams", 3),
            "each": whole("operators of each tree", 6),
            "nodes": whole("peers of one core", 3),
            "cost": number(
                "largest cost of an operator, seconds a tuple; the least is a tenth of it", 0.03, least=1e-4
            ),
            "points": whole("points of the workload", 20, 100),
            "seconds": number("seconds at each point", 3.0, least=0.1),
            "share": number("share of this time that may wait as work at a peer", 0.05, least=1e-3),
            "margin": number("distance of a load from 1 within which points are not decided", 0.1, most=1.0),
            "algorithms": several("placements", PLACED),
        },
        cells=_cells,
        checks=_checks,
        panels=(
            Panel("measured", "share of points that peers bear", kind="bars"),
            Panel("computed", "share of points with loads up to 1", kind="bars"),
        ),
        xlabel="",
        repeat=(1, 3),
    ),
)
