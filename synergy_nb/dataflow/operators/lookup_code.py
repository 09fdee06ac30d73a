"""Code of look-ups: compiled, or NumPy for as long as the compiled code loads."""

from __future__ import annotations

from typing import Any, Final, cast

import numpy as np

from synergy_nb.models.compiled_modules import CompiledModule

__all__ = ["COMPILED", "NONE", "PLAIN", "LookupCode", "lookup_code"]

NONE: Final = -1  # number of a key or a row that there is not


class LookupCode:
    """Functions that find keys by their hashes, and versions of keys by their times, for all rows at once in NumPy.

    The module :mod:`~synergy_nb.dataflow.operators._lookup_kernel` has the same functions, and describes their
    parameters.
    """

    def find_keys(self, wanted: Any, hashes: Any, starts: Any, shift: Any, found: Any) -> None:
        """Set ``found`` to the number of the key with each wanted hash, or ``NONE``."""
        found[:] = NONE
        buckets = (wanted >> shift).astype(np.int64)
        at, end = starts[buckets], starts[buckets + 1]
        left = np.flatnonzero(at < end)
        at, end = at[left], end[left]
        while len(left):
            same = hashes[at] == wanted[left]
            found[left[same]] = at[same]
            more = ~same & (at + 1 < end)
            left, at, end = left[more], at[more] + 1, end[more]

    def find_versions(self, keys: Any, times: Any, first: Any, valid_from: Any, found: Any) -> None:
        """Set ``found`` to the last row of each key that is not valid from later than ``times``, or ``NONE``."""
        found[:] = NONE
        known = np.flatnonzero(keys != NONE)
        start, high, times = first[keys[known]], first[keys[known] + 1], times[known]
        low = start
        while (low < high).any():  # rows before `low` are early enough, those from `high` on are later
            middle = (low + high) >> 1
            early = (low < high) & (valid_from[np.minimum(middle, len(valid_from) - 1)] <= times)
            high = np.where((low < high) & ~early, middle, high)
            low = np.where(early, middle + 1, low)
        found[known] = np.where(low > start, low - 1, NONE)


def _warm(kernel: Any) -> None:
    one = np.zeros(1, dtype=np.int64)
    hashes, two = one.view(np.uint64), np.array([0, 1])
    kernel.find_keys(hashes, hashes, two, np.uint64(63), one.copy())
    kernel.find_versions(one, one, two, one, one.copy())


PLAIN: Final = LookupCode()
COMPILED: Final = CompiledModule("synergy_nb.dataflow.operators._lookup_kernel", _warm)


def lookup_code() -> LookupCode:
    """The compiled code, or the plain one while a thread loads it."""
    return cast("LookupCode", COMPILED.loaded() or PLAIN)
