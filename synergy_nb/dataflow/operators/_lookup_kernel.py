"""Compiled parts of look-ups: the key of each hash, and the version of each key."""

from __future__ import annotations

from typing import Any

from synergy_nb.models.compiling import compiled


@compiled
def find_keys(wanted: Any, hashes: Any, starts: Any, shift: Any, found: Any) -> None:
    """Set ``found`` to the number of the key with each wanted hash, or -1.

    ``hashes``: those of all keys, in order; ``starts``: the first key of each bucket, and the end of the last; a bucket
    is the hash shifted by ``shift``.
    """
    for row in range(len(wanted)):
        each = wanted[row]
        bucket = each >> shift
        found[row] = -1
        for at in range(starts[bucket], starts[bucket + 1]):
            if hashes[at] == each:
                found[row] = at
                break


@compiled
def find_versions(keys: Any, times: Any, first: Any, valid_from: Any, found: Any) -> None:
    """Set ``found`` to the last row of each key that is valid from a time on that is not later than ``times``, or -1.

    ``keys``: number of each key, or -1; ``first``: the first row of each key, and the end of the last; ``valid_from``:
    times of the rows, in order for each key.
    """
    for row in range(len(keys)):
        found[row] = -1
        if keys[row] < 0:
            continue
        start = low = first[keys[row]]
        high = first[keys[row] + 1]
        while low < high:
            middle = (low + high) >> 1
            if valid_from[middle] <= times[row]:
                low = middle + 1
            else:
                high = middle
        if low > start:
            found[row] = low - 1
