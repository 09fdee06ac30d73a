"""How many schedules of a campaign a run makes: a fixed share in the suite, all of them where they are asked for.

A campaign runs a protocol under hundreds or thousands of schedules of faults, each drawn from its seed. All of them
take longer than a suite may that is run for every change. So the suite runs every so many-th block of seeds, the same
ones each time, and ``make campaign`` runs all, for changes of what a campaign tests.
"""

from __future__ import annotations

import os
from typing import Final

from synergy_nb.control.cuts import Cut

__all__ = ["ALL", "CUTS", "blocks"]

#: What the cuts of a schedule do with what is sent meanwhile.
CUTS: Final = (Cut.RESET, Cut.DELAY, Cut.LOSE)

#: Whether all schedules are asked for.
ALL: Final = os.environ.get("SYNERGY_SCHEDULES", "") == "all"


def blocks(total: int, every: int) -> range:
    """Numbers of the blocks of seeds that this run makes, of ``total``: one of ``every`` so many, or all."""
    return range(0, total, 1 if ALL else every)
