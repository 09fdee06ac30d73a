"""Limits for merging batches, so that a reader that is behind has less overhead for each tuple. No IO, no clock."""

from __future__ import annotations

import math
from typing import Final

__all__ = ["TOGETHER_BORN", "TOGETHER_ROWS", "TOGETHER_WORK", "mergeable"]

TOGETHER_ROWS: Final = 16_384  # most tuples in one batch: beyond them, the overhead of an item is negligible
TOGETHER_BORN: Final = 0.2  # seconds, see mergeable()
TOGETHER_WORK: Final = 0.2  # longest predicted time of an execution of several items, seconds


def mergeable(one: float, other: float) -> bool:
    """Whether two items with these times of entry into the system may be merged; the result has the earlier time.

    They may if both times lie between the same two multiples of 0.2 s. However often a stream is merged on its way, no
    delay is measured as longer by more than that.

    Examples
    --------
    >>> mergeable(10.01, 10.19), mergeable(10.19, 10.21)
    (True, False)
    """
    return math.floor(one / TOGETHER_BORN) == math.floor(other / TOGETHER_BORN)
