"""The algorithms that the dissertation compares (section 2.4), as parameters of one protocol.

They differ in what is decided, not in how it is carried out: all use the same directory, probes and sessions.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from synergy_nb.algorithms.composition.messages import CompositionConfig

__all__ = ["POLICIES"]

_composition = CompositionConfig(sharing="off", projection=None, deployment="nearest")

#: By name. *Random* and *greedy* take one candidate of each operator, any or the one nearest to what comes before, and
#: check nothing but that it is there. *Composition* probes, checks resources and the QoS of the new application and
#: balances the load. *Synergy* also uses streams that run, and projects the impact on the applications that run.
POLICIES: Final[Mapping[str, CompositionConfig]] = MappingProxyType(
    {
        "synergy": CompositionConfig(),
        "composition+projection": CompositionConfig(sharing="off"),
        "composition": _composition,
        "greedy": CompositionConfig(
            ratio=1e-9,
            at_least=1,
            budget=1,
            choice="nearest",
            attempts=1,
            sharing="off",
            projection=None,
            deployment="nearest",
            enforce=False,
        ),
        "random": CompositionConfig(
            ratio=1e-9,
            at_least=1,
            budget=1,
            choice="random",
            attempts=1,
            sharing="off",
            projection=None,
            deployment="random",
            enforce=False,
        ),
    }
)
