"""What exact sums of active replicas cost: admission and projection count it where a plan states no cost itself."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from synergy_nb.plan.checks.validation import Operator

__all__ = ["exact_sums_factor"]

#: Processing time of an aggregate with exact sums over that without, as measured (`docs/design/replicas.md`): with
#: one sum of floats, for each further one, and with sums that decay.
FIRST: Final = 1.94
FURTHER: Final = 0.6
DECAYING: Final = 3.4


def exact_sums_factor(operator: Operator, schema: Mapping[str, str]) -> float:
    """Return the processing time of an operator with exact sums, as a multiple of that without.

    ``operator``: operator that has active replicas; ``schema``: columns of its input, with their types.
    """
    if operator.kind != "aggregate":
        return 1.0
    decays = operator.params.get("half_life") is not None
    number = sum(_sums_floats(call, schema, decays=decays) for call in operator.params["values"].values())
    if not number:
        return 1.0
    return DECAYING if decays else FIRST + FURTHER * (number - 1)


def _sums_floats(call: str, schema: Mapping[str, str], *, decays: bool) -> bool:
    """Whether a canonical call adds floats."""
    name, _, argument = call.partition("(")
    if name == "count":
        return decays and not argument.startswith("DISTINCT")
    if name not in ("sum", "avg"):
        return False
    floats = any(schema.get(word) == "float" for word in re.findall(r"\w+", argument))
    return decays or floats or "/" in argument or "." in argument
