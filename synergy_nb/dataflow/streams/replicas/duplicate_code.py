"""Code of the duplicate filter's table of tuples: compiled, or plain Python for as long as the compiled code loads."""

from __future__ import annotations

from typing import Any, Final, cast

import numpy as np

from synergy_nb.models.compiled_modules import CompiledModule

__all__ = ["COMPILED", "PLAIN", "TableCode", "table_code"]


class TableCode:
    """Functions on the table from tuples to their counters, in Python: the index is a dictionary from words to slots.

    The module :mod:`~synergy_nb.dataflow.streams.replicas._duplicate_kernel` has the same functions, and describes
    their parameters.
    """

    def index_of(self, words: Any, used: int) -> Any:
        """Return the index of the first ``used`` distinct tuples."""
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
        index: Any,
        ranks: Any,
        streams: int,
        new: Any,
    ) -> tuple[int, int, int]:
        """Execute lines 1 to 6 of algorithm 1 for tuples of one stream, in their order."""
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


def _warm(kernel: Any) -> None:
    def zeros(*shape: int) -> Any:
        return np.zeros(shape, dtype=np.int64)

    index, new = kernel.index_of(zeros(1, 1), 0), np.zeros(1, dtype=np.bool_)
    kernel.arrive(zeros(1, 1), 0, 0, 0, zeros(1, 1), zeros(1, 1), zeros(1), 0, index, zeros(1, 1), 1, new)


PLAIN: Final = TableCode()
COMPILED: Final = CompiledModule("synergy_nb.dataflow.streams.replicas._duplicate_kernel", _warm)


def table_code() -> TableCode:
    """The compiled code, or the plain one while a thread loads it."""
    return cast("TableCode", COMPILED.loaded() or PLAIN)
