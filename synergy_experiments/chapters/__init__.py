"""The quantitative claims of the papers, each reproduced by a command: ``synergy reproduce C5``.

:mod:`~synergy_experiments.framework.claim` defines a claim; the other modules of the framework contain set-ups,
repetitions, intervals, verdicts and figures. Each other module of this package contains one or several experiments.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Final

from synergy_experiments.framework.claim import Claim
from synergy_nb.plan.terms.units import WrongValue, nearest

__all__ = ["CLAIMS", "find"]

#: Claim to its module, in the order of the papers; claims B are beyond the papers. A module is imported on first use.
CLAIMS: Final[Mapping[str, str]] = {
    "C1": "prototype",
    "C2": "prototype",
    "C3": "prototype",
    "C4": "prototype",
    "C5": "loads",
    "C6": "loads",
    "C7": "loads",
    "C8": "sensitivity",
    "C9": "sensitivity",
    "C10": "sensitivity",
    "C11": "deployment",
    "C12": "selectivity",
    "C13": "accuracy",
    "C14": "accuracy",
    "P1": "rates",
    "P2": "rates",
    "P3": "prediction_times",
    "P4": "hot_spots",
    "P5": "hot_spots",
    "P6": "hot_spots",
    "P7": "migration_times",
    "P8": "load_updates",
    "A1": "replication_degrees",
    "A2": "peers_used",
    "A3": "availability",
    "A4": "failed_replicas",
    "A5": "replica_delays",
    "A6": "replica_delays",
    "R1": "small_graphs",
    "R2": "feasible_sets",
    "R3": "feasible_sets",
    "R4": "lower_bounds",
    "R5": "clusters",
    "R6": "latencies",
    "R7": "feasible_sets",
    "H1": "techniques_compared",
    "H2": "replica_latencies",
    "H3": "replica_costs",
    "H4": "wide_area_replicas",
    "H5": "wide_area_replicas",
    "H6": "collected_replicas",
    "B1": "optimum",
    "B2": "execution_times",
    "B3": "measured_sets",
    "B4": "whole_peers",
}


def find(names: list[str]) -> list[Claim]:
    """Return claims by name, in the requested order; ``all`` stands for all claims of the papers.

    Raises
    ------
    ValueError
        If there is no such claim.

    Examples
    --------
    >>> find(["c12"])[0].title
    'traffic that each operator of the top-k monitor lets through'
    """
    wanted: dict[str, None] = {}
    for name in names:
        if name == "all":
            wanted.update(dict.fromkeys(each for each in CLAIMS if not each.startswith("B")))
        elif name.upper() in CLAIMS:
            wanted[name.upper()] = None
        else:
            raise WrongValue(name, f"all, or one of {', '.join(CLAIMS)}", nearest(name, [*CLAIMS, "all"]))
    return [_claims(CLAIMS[name])[name] for name in wanted]


def _claims(module: str) -> dict[str, Claim]:
    found: tuple[Claim, ...] = import_module(f"{__name__}.{module}").CLAIMED
    return {claim.id: claim for claim in found}
