"""The terms on which a component executes, as its plan and its deployment state them."""

from __future__ import annotations

import math
from typing import NamedTuple

from synergy_nb.plan.derived.stream_seasons import Season

__all__ = ["ComponentTerms"]


class ComponentTerms(NamedTuple):
    """Limit, scheduling and predicted remainder of a component's application."""

    limit: float = math.inf  # delay limit of the application in seconds; infinite for none
    discipline: str = ""  # scheduling discipline of the application; empty: that of the peer
    drops: bool = False  # whether it drops tuples whose deadline has passed when it would execute them
    remaining: float = 0.0  # predicted processing time downstream of it, in seconds a tuple
    transit: float = 0.0  # predicted time from it to the sink apart from processing, such as communication, in seconds
    season: Season | None = None  # how the rate of its input changes by the time of day; None: not known
