"""The algorithms that the dissertation compares (section 2.4), as configurations of one protocol.

They differ in their decisions only: all use the same directory, probes and sessions.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from synergy_nb.algorithms.composition.messages import CompositionConfig

_composition = CompositionConfig(sharing="off", projection=None, deployment="nearest", objective="delay")

#: Name to configuration. *Greedy* probes one candidate of each operator, the one nearest to the previous component, and
#: only checks that it offers the component. *Random* visits as many candidates as the others ("could also be tuned to
#: allow less candidates to be visited") and chooses among the graphs by chance. *Composition* probes several
#: candidates, checks resources and the QoS of the new application, and chooses "the ones that resulted in the minimum
#: end-to-end delay" (Middleware 2006, section 4.1); *composition by φ* balances the load instead. *Synergy* also shares
#: running streams, projects the impact on running applications, and balances the load; *synergy by delay* chooses the
#: least delay.
POLICIES: Final[Mapping[str, CompositionConfig]] = MappingProxyType(
    {
        "synergy": CompositionConfig(),
        "synergy by delay": CompositionConfig(objective="delay"),
        "composition+projection": CompositionConfig(sharing="off", objective="delay"),
        "composition": _composition,
        "composition by φ": msgspec.structs.replace(_composition, objective="balance"),
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
            choice="random",
            objective="chance",
            attempts=1,
            sharing="off",
            projection=None,
            deployment="random",
            enforce=False,
        ),
    }
)
