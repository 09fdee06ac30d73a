"""Code of the duplicate filter's table of tuples: compiled, or plain Python for as long as the compiled code loads.

To load Numba and the compiled code takes a second of processor time, several seconds where all peers of a small machine
begin at once. Streams do not wait for that: a peer loads the code in a thread of its own
(:func:`load_in_background`), and meanwhile filters have an index of their tuples in a dictionary, at about a tenth of
the speed. Both give the same results. Whoever does not ask for it, as the simulator, gets the compiled code at once.
"""

from __future__ import annotations

import threading
from types import ModuleType
from typing import Any, Protocol, cast

import numpy as np

__all__ = ["PLAIN", "TableCode", "load_in_background", "table_code"]


class TableCode(Protocol):
    """Functions on the table from tuples to their counters; :mod:`duplicate_kernel` describes their parameters."""

    def index_of(self, words: Any, used: int) -> Any:
        """Return the index of the first ``used`` distinct tuples."""

    def arrive(
        self,
        rows: Any,
        time: int,
        promise: int,
        stream: int,
        words: Any,
        counts: Any,
        greatest: Any,
        used: int,
        index: Any,
        ranks: Any,
        streams: int,
        new: Any,
    ) -> tuple[int, int, int]:
        """Execute lines 1 to 6 of algorithm 1 for tuples of one stream, in their order."""


class _Plain:
    """The same in Python; the index is a dictionary from the bytes of a tuple's words to its slot."""

    def index_of(self, words: Any, used: int) -> dict[bytes, int]:
        return {words[slot].tobytes(): slot for slot in range(used)}

    def arrive(
        self,
        rows: Any,
        time: int,
        promise: int,
        stream: int,
        words: Any,
        counts: Any,
        greatest: Any,
        used: int,
        index: dict[bytes, int],
        ranks: Any,
        streams: int,
        new: Any,
    ) -> tuple[int, int, int]:
        passed, first = 0, 0
        for number, row in enumerate(rows):
            if row[time] < promise:  # line 2
                ranks[stream, streams - 1] += 1
                continue
            key = row.tobytes()
            slot = index.get(key)
            if slot is None:
                slot = index[key] = used
                words[slot] = row
                used += 1
            copies = counts[slot]
            copies[stream] += 1
            copy = copies[stream]
            rank = int(np.count_nonzero(copies >= copy)) - 1
            if copy > greatest[slot]:
                greatest[slot] = copy
                new[number] = True
                if not passed:
                    first = number
                passed += 1
            elif rank == 0:  # a stream that has left delivered this copy
                rank = 1
            ranks[stream, min(rank, streams - 1)] += 1
        return used, passed, first


PLAIN: TableCode = _Plain()
_lock = threading.Lock()
_compiled: ModuleType | None = None
_loading: threading.Thread | None = None


def table_code() -> TableCode:
    """The compiled code, loaded now unless a thread loads it; until that thread is done, the plain code."""
    if _compiled is not None:
        return cast("TableCode", _compiled)
    if _loading is not None and _loading.is_alive():
        return PLAIN
    return cast("TableCode", _load())


def load_in_background() -> None:
    """Load the compiled code in another thread, if that has not begun."""
    global _loading  # noqa: PLW0603 - once in a process, as the code that it loads
    with _lock:
        if _compiled is None and _loading is None:
            _loading = threading.Thread(target=_load, name="synergy duplicate filter")
            _loading.start()


def _load() -> ModuleType:
    global _compiled  # noqa: PLW0603 - as above
    from synergy_nb.dataflow.streams import duplicate_kernel  # noqa: PLC0415 - most peers never need Numba

    def zeros(*shape: int) -> Any:
        return np.zeros(shape, dtype=np.int64)

    index = duplicate_kernel.index_of(zeros(1, 1), 0)
    new = np.zeros(1, dtype=np.bool_)
    duplicate_kernel.arrive(zeros(1, 1), 0, 0, 0, zeros(1, 1), zeros(1, 1), zeros(1), 0, index, zeros(1, 1), 1, new)
    _compiled = duplicate_kernel
    return duplicate_kernel
