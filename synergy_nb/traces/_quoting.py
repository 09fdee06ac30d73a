"""Search for the bytes of a CSV text that are within quotes, for 64 bytes at once.

One bit represents each byte, so a text becomes words of an eighth of its size. The bit for "within quotes" is the
parity of the quotes up to its byte.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

Bits: TypeAlias = np.ndarray[Any, np.dtype[np.uint8]]
"""One bit for each byte of a text, the first in the highest place."""

_QUOTE, _LINE_FEED, _RETURN = b'"\n\r'
_CACHED: Final = 1 << 16  # bytes that are compared at once: they fit the processor's cache
_SHIFTS: Final = (1, 2, 4, 8, 16, 32)


class Quoting(NamedTuple):
    """Facts about the quotes of a text."""

    end: int  # number of bytes up to the end of the last whole row; 0 if no row ends
    # number of bytes up to the first row with a quote that neither begins a field, ends one nor is doubled within one;
    # end if there is none
    clean: int
    # separators, line_feeds: numbers of separators and line feeds up to end that are within quotes
    separators: int
    line_feeds: int


def quoting(data: bytes, separator: str, *, last: bool) -> Quoting:
    """Analyse the quotes of ``data``, which begins with a row.

    ``separator``: character between fields; ``last``: whether ``data`` is the end of the text, so that its last row
    ends there as well.

    Examples
    --------
    >>> quoting(b'1,"a, b"' + bytes([10]) + b'2,"c', ",", last=False)
    Quoting(end=9, clean=9, separators=1, line_feeds=0)
    """
    values = np.frombuffer(data, dtype=np.uint8)
    quotes = _where(values, _QUOTE)
    within = _parities(quotes)
    marks, feeds = _where(values, ord(separator)), _where(values, _LINE_FEED)
    edges = marks | feeds | quotes
    before = edges >> 1
    before[1:] |= edges[:-1] << 7
    before[0] |= 0x80  # the text begins with a field
    if b"\r" in data:
        edges |= _where(values, _RETURN)
    after = edges << 1
    after[:-1] |= edges[1:] >> 7
    ends = feeds & ~within
    if last and not _count(quotes) % 2:
        end = len(data)
        after[-1] |= 1 << (-len(data) % 8)  # and it ends with one
    else:
        end = _last(ends)
    limit = _up_to(end, len(quotes))
    wrong = quotes & ((within & ~before) | (~within & ~after)) & limit
    counted = within & limit
    clean = end
    if wrong.any():
        first = int(np.argmax(wrong != 0))
        clean = _last(ends & _up_to(8 * (first + 1) - int(wrong[first]).bit_length(), len(quotes)))
    return Quoting(end, clean, _count(marks & counted), _count(feeds & counted))


def _where(values: Bits, value: int) -> Bits:
    """Return one bit for each byte: whether it has that value."""
    found = np.empty(-(-len(values) // 8), dtype=np.uint8)
    equal = np.empty(_CACHED, dtype=np.bool_)
    for start in range(0, len(values), _CACHED):
        part = values[start : start + _CACHED]
        bits = np.packbits(np.equal(part, value, out=equal[: len(part)]))
        found[start // 8 : start // 8 + len(bits)] = bits
    return found


def _parities(bits: Bits) -> Bits:
    """Return the parity of each bit with all bits before it."""
    words = np.pad(bits, (0, -len(bits) % 8)).view(">u8").astype(np.uint64)
    for shift in _SHIFTS:  # each step doubles the number of bits in each parity, up to a word
        words ^= words >> np.uint64(shift)
    odd = np.bitwise_xor.accumulate(words & np.uint64(1))  # up to the end of each word
    words[1:] ^= np.uint64(0) - odd[:-1]
    return words.astype(">u8").view(np.uint8)[: len(bits)]


def _last(bits: Bits) -> int:
    """Number of bytes up to the last bit that is set; 0 if none is."""
    back = int(np.argmax(bits[::-1] != 0))
    found = int(bits[len(bits) - 1 - back])
    return (len(bits) - back) * 8 - ((found & -found).bit_length() - 1) if found else 0


def _up_to(end: int, size: int) -> Bits:
    """Set the bits of the first ``end`` bytes."""
    bits = np.zeros(size, dtype=np.uint8)
    bits[: end // 8] = 0xFF
    if end % 8:
        bits[end // 8] = 0xFF << (8 - end % 8) & 0xFF
    return bits


def _count(bits: Bits) -> int:
    return int(np.bitwise_count(bits).sum())
