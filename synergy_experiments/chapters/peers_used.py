"""A2: availability against the number of peers that an application uses (section 4.3.1, figure 4.2).

There are 30 peers, of which 5 fail, in all combinations. The replicas of 3, 5 or 10 components are distributed evenly
over some of them.

Findings
--------
Our results are those of the paper, except for one point. Availability depends on the groups of peers whose failure
makes a component fail, not on the number of peers: three components on three peers form three pairs of three, any two
failures of which end the application; on four peers they form two pairs or three of six, and are slightly more
available (.941 against .936).
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, cast

from synergy_experiments.chapters.availability import check_numbers
from synergy_experiments.framework.claim import Cell, Check, Claim, Panel
from synergy_experiments.framework.measurements import Measured
from synergy_experiments.framework.parameters import Setup, whole, wholes
from synergy_experiments.framework.verdicts import at_all, near, own
from synergy_experiments.worlds.replica_placements import mean
from synergy_nb.algorithms.availability import ExactlyFailed, availability, optimal_availability

__all__ = ["CLAIMED", "spread", "spread_evenly"]


def spread_evenly(components: int, peers: Sequence[str], degree: int, rng: random.Random) -> dict[str, tuple[str, ...]]:
    """Distribute replicas evenly over all of the peers: those of each component to the peers with the fewest so far.

    Examples
    --------
    >>> spread_evenly(2, ["a", "b", "c", "d"], 2, random.Random(1))
    {'o0': ('a', 'd'), 'o1': ('b', 'c')}
    """
    had = dict.fromkeys(peers, 0)
    found: dict[str, tuple[str, ...]] = {}
    for each in range(components):
        chosen = tuple(sorted(had, key=lambda peer: (had[peer], rng.random()))[:degree])
        for peer in chosen:
            had[peer] += 1
        found[f"o{each}"] = chosen
    return found


def spread(peers: int, failed: int, components: int, degree: int, used: int, count: int, seed: int) -> dict[str, float]:
    """Return the mean exact availability of placements on a number of the peers."""
    rng = random.Random(f"{components}/{used}/{seed}")
    names = [f"peer-{each}" for each in range(peers)]
    model = ExactlyFailed(names, failed)
    return {
        "availability": mean([availability(spread_evenly(components, rng.sample(names, used), degree, rng), model)
                              for _ in range(count)])
    }  # fmt: skip


def _used(setup: Setup) -> Iterator[Cell]:
    check_numbers(setup)
    peers, degree = cast("int", setup["peers"]), cast("int", setup["degree"])
    for components in cast("tuple[int, ...]", setup["components"]):
        for used in range(degree, min(degree * components, peers) + 1):
            arguments = (peers, setup["failed"], components, degree, used, setup["placements"])
            yield Cell(spread, arguments, used, f"{components} components")


def _by_used(measured: Measured, setup: Setup) -> Iterator[Check]:
    sizes = [f"{components} components" for components in cast("tuple[int, ...]", setup["components"])]
    for name in sizes:
        falls = [(used, None if change is None else change.at_most(0.002))
                 for used, change in measured.changes(name, "availability")]  # fmt: skip
        yield at_all(f"the more peers are used, the lower is the availability of {name}", "falls throughout", falls)
    for smaller, larger in pairwise(sizes):
        both = [used for used in measured.xs("availability", smaller) if used != cast("int", setup["degree"])]
        lower = [(used, measured.higher(used, smaller, larger, "availability", 0.001)) for used in both]
        yield at_all(f"{larger} are less available than {smaller}", "larger n, lower", lower)
    best = optimal_availability(cast("int", setup["peers"]), cast("int", setup["failed"]), cast("int", setup["degree"]))
    ours = measured.estimate(cast("int", setup["degree"]), sizes[0], "availability")
    yield own(near("with the fewest peers that are possible: the closed form", best, ours, 1e-9, 1e-6, unit=""))


CLAIMED: Final = (
    Claim(
        id="A2",
        title="availability against peers used",
        source="dissertation 4.3.1, figure 4.2",
        says="the fewer peers are used, the higher the availability; the larger the application, the lower",
        parameters={
            "peers": whole("peers", 30),
            "failed": whole("peers that have failed, in all combinations", 5, least=0),
            "degree": whole("replicas of each component", 2),
            "components": wholes("components of an application", (3, 5, 10)),
            "placements": whole("placements over which the mean is computed", 10, 50),
        },
        cells=_used,
        checks=_by_used,
        panels=(Panel("availability", "availability (%)", factor=100.0),),
        xlabel="peers used",
        repeat=(3, 5),
        shares=("availability",),
    ),
)
