"""The algorithms that the dissertation compares (section 2.4), as configurations of one protocol.

They differ in their decisions only: all use the same directory, probes and sessions.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from synergy_nb.algorithms.composition.messages import CompositionConfig

__all__ = ["POLICIES"]

_composition = CompositionConfig(sharing="off", projection=None, deployment="nearest")

#: Name to configuration. *Random* and *greedy* probe one candidate of each operator, a random one or the one nearest to
#: the previous component, and only check that it offers the component. *Composition* probes several candidates, checks
#: resources and the QoS of the new application, and balances the load. *Synergy* also shares running streams, and
#: projects the impact on running applications.
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
