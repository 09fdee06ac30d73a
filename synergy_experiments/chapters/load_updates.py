"""P8: load updates by the number of load levels (section 3.5, figure 3.25).

Each peer reports its load when it leaves its level (:mod:`synergy_nb.models.overlapping_levels`). The number of updates
depends on how loads change, which the dissertation does not state; so two processes are compared. *Jumps*: a load is
constant until it jumps, mostly between idle and severe overload. *Slow walk*: it changes a little from one sample to
the next.

The updates are counted on the values of the loads, and also on the simulated network, where peers offer components and
report the same loads (:mod:`~synergy_experiments.worlds.reported_loads`). A peer sends each update once to each
distinct other peer that is responsible for one of its components, so the number of messages follows from the values and
from the hashes of the names.

Findings
--------
More levels cause many more updates where loads change slowly: each boundary is one more to cross, and 7 levels cost
several times as many as 3. The dissertation's 249 to 277 updates are possible only if nearly every change crosses from
the lowest to the highest level, at any number of levels. The probability of a jump and the shares of loads were chosen
to give its numbers; so the jumps show that such a set-up exists, not that the authors had it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

from synergy_experiments.framework.claim import Cell, Check, Claim, Panel
from synergy_experiments.framework.measurements import Decision, Measured, Point
from synergy_experiments.framework.parameters import Setup, number, whole, wholes
from synergy_experiments.framework.verdicts import at_all, fitted, near, not_comparable, own
from synergy_experiments.worlds.reported_loads import COMPONENTS, publish
from synergy_nb.models.overlapping_levels import OverlappingLevels

__all__ = ["CLAIMED", "jumps", "messages", "updates", "walk"]

Array = npt.NDArray[np.float64]

PAPER: Final = {3: 249.0, 7: 277.0}
JUMPS: Final = "jumps"
WALK: Final = "slow walk"
IDLE: Final = 10.0 / 6.0  # load below which a peer is idle: the lowest of seven levels
CROSSED: Final = (
    "the paper does not state how its loads change; a slow load crosses each boundary by itself, and 7 levels have 6 "
    "of them where 3 have 2, so that 3 times as many updates are the least"
)
OVERLOAD: Final = 12.0  # of a severely overloaded peer, at most


def jumps(samples: int, probability: float, between: float, rng: np.random.Generator) -> Array:
    """Return loads that are constant until they jump: to idle and severe overload alike, or to a share ``between``."""
    places = rng.choice(3, samples, p=[(1.0 - between) / 2.0, between, (1.0 - between) / 2.0])
    low, high = np.array([0.0, IDLE, 10.0]), np.array([IDLE, 10.0, OVERLOAD])
    drawn = rng.uniform(low[places], high[places])
    moves = rng.random(samples) < probability
    moves[0] = True
    return np.asarray(drawn[np.maximum.accumulate(np.where(moves, np.arange(samples), 0))])


def walk(samples: int, step: float, rng: np.random.Generator) -> Array:
    """Return loads that change by a normal step, reflected at 0 and at severe overload."""
    free = rng.uniform(0.0, OVERLOAD) + np.cumsum(rng.normal(0.0, step, samples))
    folded = np.mod(free, 2.0 * OVERLOAD)
    return np.asarray(np.minimum(folded, 2.0 * OVERLOAD - folded))


def updates(
    levels: int, overlap: float, peers: int, samples: int, moving: tuple[float, float, float], seed: int
) -> list[Point]:
    """Count the updates of all peers after their first reports.

    Parameters
    ----------
    levels, overlap
        Number of levels, and share of a level's width that neighbours have in common.
    peers, samples
        Number of peers, and of samples of each one's load.
    moving
        Probability of a jump, share of jumps to between idle and overload, and standard deviation of the walk's steps.
    seed
        Seed of the loads, which are the same for all levels.
    """
    loads = _loads(peers, samples, moving, seed)
    total = {name: sum(_reports(levels, overlap, each) for each in own) for name, own in loads.items()}
    return [Point(levels, name, "updates", float(count)) for name, count in total.items()]


def _loads(peers: int, samples: int, moving: tuple[float, float, float], seed: int) -> dict[str, list[list[float]]]:
    """Return samples of the load of each peer, for both processes of loads."""
    rng = np.random.default_rng([seed, 81])
    probability, between, step = moving
    found: dict[str, list[list[float]]] = {JUMPS: [], WALK: []}
    for _ in range(peers):
        found[JUMPS].append(jumps(samples, probability, between, rng).tolist())
        found[WALK].append(walk(samples, step, rng).tolist())
    return found


def _reports(levels: int, overlap: float, loads: list[float]) -> int:
    """Return the number of reports of a peer after the first, from the values of its load."""
    return sum(map(OverlappingLevels(levels, overlap=overlap).leaves, loads)) - 1


def messages(
    levels: int,
    overlap: float,
    peers: int,
    samples: int,
    moving: tuple[float, float, float],
    offered: int,
    seed: int,
) -> list[Point]:
    """Count the messages of simulated peers, and those expected from the values of the same loads and the hashes.

    Parameters
    ----------
    levels, overlap
        Number of levels, and share of a level's width that neighbours have in common.
    peers, samples
        Number of peers, and of samples of each one's load.
    moving
        Probability of a jump, share of jumps to between idle and overload, and standard deviation of the walk's steps.
    offered
        Number of components that each peer offers.
    seed
        Seed of the loads, which are those of :func:`updates`, and of the simulation.
    """
    points = []
    for name, loads in _loads(peers, samples, moving, seed).items():
        sent = publish(levels, overlap, loads, offered, seed)
        reports = [_reports(levels, overlap, each) for each in loads]
        to = [len(each) for each in sent.responsible.values()]
        computed = sum(count * receivers for count, receivers in zip(reports, to, strict=True))
        right = all(sent.receivers[peer] <= others for peer, others in sent.responsible.items())
        points += [
            Point(levels, name, "computed", float(computed)),
            Point(levels, name, "messages", float(sum(sent.messages.values()))),
            Point(levels, name, "only responsible peers", float(right)),
        ]
    return points


def _cells(setup: Setup) -> Iterator[Cell]:
    levels = setup["levels"]
    assert isinstance(levels, tuple)
    moving = (setup["jump"], setup["between"], setup["step"])
    for each in levels:
        loads = (each, setup["overlap"], setup["peers"], setup["samples"], moving)
        yield Cell(updates, loads)
        yield Cell(messages, (*loads, setup["offered"]))


def _checks(measured: Measured, _: Setup) -> Iterator[Check]:
    first, last = PAPER
    for levels, paper in PAPER.items():
        name = f"updates at {levels} levels, {JUMPS} (fitted)"
        yield fitted(near(name, paper, measured.estimate(levels, JUMPS, "updates"), 15.0, 40.0, unit=""))
    for algorithm in (WALK, JUMPS):
        ends = ((last, algorithm, "updates"), (first, algorithm, "updates"))
        ratio = measured.paired(*ends, lambda many, few: many / few)
        name = f"updates at {last} levels over those at {first}, {algorithm}"
        paper = PAPER[last] / PAPER[first]
        if algorithm == WALK:
            yield not_comparable(name, paper, ratio, CROSSED, "times")
        else:
            yield fitted(near(f"{name} (fitted)", paper, ratio, 0.05, 0.25, unit="times"))
    for algorithm in (JUMPS, WALK):
        counted = measured.xs("messages", algorithm)
        equal = [
            (levels, Decision.fact(measured.values(levels, algorithm, "messages")
                                   == measured.values(levels, algorithm, "computed")))
            for levels in counted
        ]  # fmt: skip
        statement = f"an update is one message to each other responsible peer, {algorithm}"
        yield own(at_all(statement, "equal numbers", equal))
        right = [(levels, measured.always(levels, algorithm, "only responsible peers", lambda share: share == 1.0))
                 for levels in counted]  # fmt: skip
        yield own(at_all(f"no other peer receives a load update, {algorithm}", "responsible peers only", right))


_P8: Final = Claim(
    id="P8",
    title="load updates by the number of load levels",
    source="dissertation 3.5, figure 3.25",
    says="the highest level is that of loads above 10, the rest is divided; from 3 to 7 levels updates increase "
    "moderately, from 249 to 277",
    parameters={
        "levels": wholes("numbers of levels", [3, 4, 5, 6, 7], least=2),
        "overlap": number("share of a level's width that neighbours have in common", 0.2, most=1.0),
        "peers": whole("peers", 34),
        "samples": whole("samples of each peer's load", 240),
        "jump": number("probability of a jump from one sample to the next", 0.0535, most=1.0),
        "between": number("share of jumps to loads between idle and severe overload", 0.17, most=1.0),
        "step": number("standard deviation of a step of the slow walk", 0.5),
        "offered": whole("components of each simulated peer", 3, most=COMPONENTS),
    },
    cells=_cells,
    checks=_checks,
    panels=(Panel("updates", "load updates of all peers"), Panel("messages", "messages of all peers")),
    xlabel="load levels",
    paper=[Point(levels, "dissertation", "updates", count) for levels, count in PAPER.items()],
    repeat=(5, 10),
)

CLAIMED: Final = (_P8,)
