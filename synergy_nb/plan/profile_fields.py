"""Fields that operators of every kind may have: what is known of their work, and where they run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from synergy_nb.plan.declaration import Parameter
from synergy_nb.plan.engines import ENGINES
from synergy_nb.plan.parameter_types import DURATION, FACTOR, NAME, choice

__all__ = ["PROFILE"]

#: Fields of operators of every kind, by name.
PROFILE: Final[Mapping[str, Parameter]] = {
    "cost": Parameter(DURATION, "core-seconds per tuple: `10 us`", None, "that of its kind, or as measured before"),
    "selectivity": Parameter(FACTOR, "tuples out over tuples in", None, "that of its kind, or as measured before"),
    "at": Parameter(NAME, "name of the peer that it is pinned to", None, "any peer"),
    "engine": Parameter(choice(*ENGINES), "engine that executes it; `auto` decides by rates and windows", "auto"),
}
