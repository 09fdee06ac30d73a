"""What may be executed, or sent, together, so that whoever is behind has less to do for each tuple. No IO, no clock."""

from __future__ import annotations

import math
from typing import Final

__all__ = ["TOGETHER_BORN", "TOGETHER_ROWS", "TOGETHER_WORK", "mergeable"]

TOGETHER_ROWS: Final = 16_384  # tuples that go together at most: beyond them, what an item costs besides is nothing
TOGETHER_BORN: Final = 0.2  # seconds, see contemporary()
TOGETHER_WORK: Final = 0.2  # seconds that an execution of several items may be expected to take


def mergeable(one: float, other: float) -> bool:
    """Whether items born at these times may become one, which is as old as the older of them.

    They may if both times lie between the same two multiples of 0.2 s. However often a stream is merged on its way, no
    delay is measured as longer by more than that.

    Examples
    --------
    >>> mergeable(10.01, 10.19), mergeable(10.19, 10.21)
    (True, False)
    """
    return math.floor(one / TOGETHER_BORN) == math.floor(other / TOGETHER_BORN)
