"""A1: availability against the replication degree (section 4.5.1, figure 4.6), and what sharing of resources does.

The set-up is that of :mod:`~synergy_experiments.chapters.availability`.
:mod:`~synergy_experiments.chapters.shared_resources` has the set-ups in which requests contend for resources.

*synergy* is the protocol of section 4.4. *Synergy looking ahead* is ours: a peer that is asked for a primary offers all
later components that it has room for, with their backups (:mod:`synergy_nb.algorithms.availability._offers`).

Findings
--------
*Distance to the optimum.* The availability of the protocol is below the optimum by less than .01 at every degree with
100 kB/s a stream, and by .011 and .020 at degree 2 with 300 and 600 kB/s, where links are full sooner. What is lost
there is lost in the middle of an application: a link carries the backups of its first components and not of the last,
which then go to a third peer. Looking ahead closes that distance, as an application begins where it can end, and
requests at the same time cannot divide what a peer has offered. Degree 1 is the hardest case, as an application whose
peer is full before all components are placed depends on two peers. So the requests use a quarter of the capacity here.
The closed forms with which Optimal, Partition and Random are compared are those of independent placements: Partition
.9033 with ten groups of two, and .9958 with six of three.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, cast

from synergy_experiments.chapters.availability import CLOSED, NEAR, REPLICAS, USUAL, exact, requests
from synergy_experiments.chapters.shared_resources import (
    PANELS,
    SHARED,
    contention,
    contention_checks,
    distance,
)
from synergy_experiments.framework.claim import Cell, Check, Claim, Panel
from synergy_experiments.framework.measurements import Decision, Measured, Point, both
from synergy_experiments.framework.parameters import Setup, numbers, several, whole, wholes
from synergy_experiments.framework.verdicts import at_all, near, own
from synergy_experiments.worlds.replica_placements import AHEAD, ALGORITHMS, Requests
from synergy_experiments.worlds.sweeps import algorithms

__all__ = ["CLAIMED"]

PROTOCOLS: Final = ("synergy", AHEAD)
LOADED: Final = (*PROTOCOLS, "optimum", "optimal")  # algorithms that are compared at several loads


def loaded(given: Requests, algorithm: str, failed: int, seed: int) -> dict[str, float]:
    """Return the unavailability where the primaries use a share of the capacity."""
    return {"loaded": 1.0 - exact(given, algorithm, failed, 1, seed)["availability"]}


def by_stream(given: Requests, names: tuple[str, ...], failed: int, seed: int) -> list[Point]:
    """Measure how far protocols are below the optimum under the same limits, at a rate of the streams."""
    best = exact(given, "optimum", failed, 1, seed)["availability"]
    return [
        Point(given.stream, name, "distance by stream", best - exact(given, name, failed, 1, seed)["availability"])
        for name in names
    ]


def _degrees(setup: Setup) -> Iterator[Cell]:
    failed, samples = setup["failed"], setup["samples"]
    protocols = tuple(name for name in algorithms(setup) if name in PROTOCOLS)
    for degree in cast("tuple[int, ...]", setup["degree"]):
        given = requests(setup, degree=degree)
        for name in algorithms(setup):
            yield Cell(exact, (given, name, failed, samples), degree, name)
    for load in cast("tuple[float, ...]", setup["loads"]):
        for name in algorithms(setup):
            if name in LOADED:
                yield Cell(loaded, (requests(setup, degree=2, load=load), name, failed), load, name)
    for stream in cast("tuple[float, ...]", setup["streams"]):
        yield Cell(by_stream, (requests(setup, degree=2, stream=stream), protocols, failed))
    small = cast("int", setup["small"])
    for degree in (1, 2):
        tight = requests(setup, peers=small, failed=2, components=3, degree=degree, load=0.5, stream=600e3)
        for name in protocols:
            yield Cell(distance, (tight, name, 2), degree, name)
    yield from contention(setup)


def _lost(points: Sequence[Point]) -> Iterator[Point]:
    """Difference between the optimum under limits and each protocol."""
    found = {(x, name): value for x, name, metric, value in points if metric == "availability"}
    for (x, name), best in found.items():
        for ours in PROTOCOLS if name == "optimum" else ():
            if (x, ours) in found:
                yield Point(x, ours, "distance", best - found[x, ours])


def _by_degree(measured: Measured, setup: Setup) -> Iterator[Check]:
    degrees = [cast("int", degree) for degree in measured.xs("availability", "synergy")]
    for name in (each for each in algorithms(setup) if each in PROTOCOLS):
        for degree in degrees:
            lost = measured.estimate(degree, name, "distance")
            if lost is not None:
                statement = f"{name} below the exact optimum under the same limits, degree {degree}"
                yield own(near(statement, 0.0, lost, NEAR, 3 * NEAR))
    for other in ("partition", "random"):
        above = [
            (degree, measured.higher(degree, "synergy", other, "availability"))
            for degree in degrees
            if degree <= cast("int", setup["failed"])
        ]
        yield at_all(f"Synergy is above {other}", "at every degree at which failures matter", above)
    lost = measured.paired(
        (2, "optimal", "availability"), (2, "synergy", "availability"), lambda best, ours: best - ours
    )
    yield near("Synergy below Optimal without limits, degree 2", 0.0, lost, NEAR, 3 * NEAR)
    later = [(name, _comparable(measured, name)) for name in ("random", "partition") if name in algorithms(setup)]
    yield at_all("one replica more brings others to where Synergy is with two", "Random and Partition need 3", later)
    for (degree, name), exactly in CLOSED.items():
        ours = measured.estimate(degree, name, "availability")
        if ours is not None and _usual(setup):
            yield own(near(f"{name} at degree {degree}, closed form", exactly, ours, NEAR, 2 * NEAR))
    agree = [(f"{name} at {x}", _agree(measured, x, name)) for x in degrees for name in algorithms(setup)]
    yield own(at_all("sampled and exact availability agree within the stated error", "(ours)", agree))
    placed = [(degree, measured.always(degree, "synergy", "placed", lambda share: share == 1.0)) for degree in degrees]
    yield own(at_all("every request is placed", "(ours)", placed))
    for name in measured.algorithms("distance by stream"):
        for stream in (cast("float", x) for x in measured.xs("distance by stream", name)):
            statement = (
                f"{name} below the exact optimum under the same limits, degree 2, {stream / 1e3:g} kB/s a stream"
            )
            lost = measured.estimate(stream, name, "distance by stream")
            yield own(near(statement, 0.0, lost, NEAR, 3 * NEAR))
    for name in measured.algorithms("small"):
        for place in measured.xs("small", name):
            statement = f"{name}: loss against the exact optimum of a small system with little capacity, degree {place}"
            yield own(near(statement, 0.0, measured.estimate(place, name, "small"), 3 * NEAR, 0.1))
    yield from contention_checks(measured, setup)


def _comparable(measured: Measured, name: str) -> Decision | None:
    """Whether another algorithm is below Synergy with two replicas, and not below it with three."""
    ours, two, three = (2, "synergy", "availability"), (2, name, "availability"), (3, name, "availability")
    behind = measured.paired(ours, two, lambda one, other: one - other)
    after = measured.paired(ours, three, lambda one, other: one - other)
    return None if behind is None or after is None else both(behind.above(NEAR), after.below(NEAR))


def _agree(measured: Measured, degree: int, name: str) -> Decision | None:
    apart = measured.paired(
        (degree, name, "availability"), (degree, name, "sampled"), lambda known, drawn: known - drawn
    )
    error = measured.mean(degree, name, "error")
    return None if apart is None or error is None else apart.within(error)


def _usual(setup: Setup) -> bool:
    """Whether the reference numbers are valid for this set-up."""
    return (setup["peers"], setup["failed"], setup["components"]) == USUAL and setup["limits"] == "off"


CLAIMED: Final = (
    Claim(
        id="A1",
        title="availability against replication degree",
        source="dissertation 4.5.1, figure 4.6",
        says="Synergy close to Optimal at degree 2; Random and Partition need one replica more; due to resource "
        "sharing, an application uses n or more nodes (n components)",
        parameters={
            **REPLICAS,
            "degree": wholes("replicas of each component", (1, 2, 3, 4)),
            "loads": numbers("shares of the capacity, at degree 2", (0.25, 0.5, 0.75), least=1e-6, most=1.0),
            "streams": numbers("bytes/s of a stream, at degree 2", (100e3, 300e3, 600e3, 1200e3), least=1.0),
            "small": whole("peers of the small systems whose exact optimum is computed", 6, least=3, most=8),
            "shared": several("set-ups in which requests contend for resources, at degree 2", tuple(SHARED)),
            "algorithms": several("algorithms compared", ALGORITHMS,
                                  ("synergy", AHEAD, "optimum", "optimal", "random", "partition")),
        },
        cells=_degrees,
        checks=_by_degree,
        panels=(
            Panel("availability", "availability, exact (%)", factor=100.0),
            Panel("sampled", "availability, sampled (%)", factor=100.0),
            Panel("distance", "distance to the optimum under limits (%)", factor=100.0),
            Panel("hosts", "peers used"),
            Panel("loaded", "unavailability at degree 2 (%)", factor=100.0, xlabel="share of the capacity"),
            Panel("small", "distance to the optimum, small system (%)", factor=100.0),
            Panel("distance by stream", "distance to the optimum under limits (%)", factor=100.0,
                  xlabel="bytes/s of a stream"),
            *PANELS,
        ),
        xlabel="replication degree",
        derive=_lost,
        paper=tuple(Point(degree, name, "availability", value) for (degree, name), value in CLOSED.items()),
        repeat=(3, 10),
        shares=("availability*", "sampled", "loaded", "fitted*", "reached*", "small*", "distance*", "placed"),
    ),
)  # fmt: skip
