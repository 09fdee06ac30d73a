"""Compiled parts of the duplicate filter: a hash table from whole tuples to their counters.

A tuple is a row of 64-bit words (:mod:`.replicas._tuple_words`). Equal hashes are not sufficient: the
table compares all words of two rows. Distinct tuples have consecutive slots; ``index`` maps the hash of a tuple to its
slot by open addressing with linear probing, and at most half of it is used.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from synergy_nb.models.compiling import compiled

_EMPTY: Final = -1  # an entry of the index without a slot
_FACTOR: Final = np.uint64(0x9E3779B97F4A7C15)
_MIX: Final = np.uint64(0xBF58476D1CE4E5B9)
_HALF: Final = np.uint64(32)


@compiled
def _hash(row: Any) -> Any:
    value = np.uint64(0)
    for word in range(len(row)):
        value = (value ^ np.uint64(row[word])) * _FACTOR
        value ^= value >> _HALF
    value *= _MIX
    return value ^ (value >> _HALF)


@compiled
def _entry(row: Any, words: Any, index: Any) -> Any:
    """Return the entry of the index that has the slot of a tuple, or the empty entry where it would be."""
    mask = np.uint64(len(index) - 1)
    at = _hash(row) & mask
    while True:
        slot = index[at]
        if slot == _EMPTY:
            return at
        same = True
        for word in range(len(row)):
            if words[slot, word] != row[word]:
                same = False
                break
        if same:
            return at
        at = (at + np.uint64(1)) & mask


@compiled
def _insert_all(words: Any, used: int, index: Any) -> None:
    """Write the first ``used`` distinct tuples into an empty index."""
    for slot in range(used):
        index[_entry(words[slot], words, index)] = slot


def index_of(words: Any, used: int) -> Any:
    """Return the index of the first ``used`` distinct tuples, with room for as many as ``words``."""
    index = np.full(2 * len(words), _EMPTY, dtype=np.int64)
    _insert_all(words, used, index)
    return index


@compiled
def arrive(
    rows: Any,  # words of the tuples that arrive, shape (tuples, words)
    time: int,  # number of the word with the event time
    promise: int,  # greatest valid punctuation; earlier tuples have passed (line 2)
    stream: int,  # number of the stream from which they arrive
    # words, counts, greatest: words of a distinct tuple, `count[t][i]` for each stream, and `max_count[t]`, by slot.
    # There must be slots for all of `rows`; unused ones contain zeros
    words: Any,
    counts: Any,
    greatest: Any,
    used: int,  # number of slots in use
    index: Any,  # slots by hash
    # number of arrivals by stream and by rank, which is the number of streams that delivered the same copy earlier
    ranks: Any,
    streams: int,  # number of streams, without those that have left, whose columns contain zeros
    new: Any,  # output: whether each tuple passes
) -> tuple[int, int, int]:
    """Execute lines 1 to 6 of algorithm 1 for tuples of one stream, in their order.

    Returns: number of slots in use afterwards, number of tuples that pass, and number of the first that passes.
    """
    passed, first = 0, 0
    for number in range(len(rows)):
        if rows[number, time] < promise:  # line 2
            ranks[stream, streams - 1] += 1
            continue
        at = _entry(rows[number], words, index)
        slot = index[at]
        if slot == _EMPTY:
            slot = used
            used += 1
            index[at] = slot
            for word in range(rows.shape[1]):
                words[slot, word] = rows[number, word]
        counts[slot, stream] += 1
        copy = counts[slot, stream]
        rank = 0
        for other in range(counts.shape[1]):
            if other != stream and counts[slot, other] >= copy:
                rank += 1
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
