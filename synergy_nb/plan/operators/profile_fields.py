"""Fields that operators of every kind may have: what is known of their work, and where they run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from synergy_nb.plan.operators.declaration import Parameter
from synergy_nb.plan.operators.engines import ENGINES
from synergy_nb.plan.operators.parameter_types import DURATION, NAME, ValueType, choice, parse_number
from synergy_nb.plan.terms.availability import parse_replicas
from synergy_nb.plan.terms.units import WrongValue

__all__ = ["PROFILE", "own_replicas"]


def _selectivity(value: Any) -> float:
    number = parse_number(value, "tuples out over tuples in, a number of at least 0")
    if number < 0:
        raise WrongValue(value, "tuples out over tuples in, a number of at least 0")
    return number


#: Fields of operators of every kind, by name.
PROFILE: Final[Mapping[str, Parameter]] = {
    "cost": Parameter(DURATION, "core-seconds per tuple: `10 us`", None, "that of its kind, or as measured before"),
    "selectivity": Parameter(
        ValueType("number", _selectivity, least=0.0, annotation="float"),
        "tuples out over tuples in",
        None,
        "that of its kind, or as measured before",
    ),
    "at": Parameter(NAME, "name of the peer that it is pinned to", None, "any peer"),
    "engine": Parameter(choice(*ENGINES), "engine that executes it; `auto` decides by rates and windows", "auto"),
    "availability": Parameter(
        ValueType("replicas", parse_replicas),
        "its replicas: `degree 2` has one backup, of `active 3` all three execute it, `degree 1` has none; "
        "`synchronized 2` waits for its backup, of `ordered 2` both execute in one order",
        None,
        "those that the plan asks for",
    ),
}


def own_replicas(value: Any, kind: str, at: Any) -> str:
    """Parse the ``availability`` of an operator of a kind, which may be pinned to a peer.

    Raises ``WrongValue`` if it has another form, or if such an operator cannot have these replicas.
    """
    wanted = parse_replicas(value)
    if kind == "sink":
        raise WrongValue(
            wanted, "none: the plan states the replicas of a sink, which has some only if it has a destination"
        )
    if kind == "source" and not wanted.startswith(("degree", "active")):
        expected = "'active ...', of which several peers read it, or 'degree ...', of which one reads it at a time"
        raise WrongValue(wanted, expected)
    if at is not None and wanted.startswith("active"):
        raise WrongValue(wanted, f"'degree ...', or no at: active replicas are not all at peer {at!r}")
    return wanted
