"""Compiled parts of exact sums: floats to limbs, and limbs to floats.

The number that the limbs of a group stand for is written in digits of 32 bits, and its first 53 bits are rounded.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from synergy_nb.models.compiling import compiled

# scale of infinities and NaN, as in exact_code: compiled functions can only use constants of their own module
ODD: Final = -1
CENTRE: Final = 16
_DIGITS: Final = 72  # digits of the largest sum of 2**63 floats
_MASK: Final = (1 << 32) - 1
_INFINITE: Final = 0x7FF << 52
_NAN: Final = 0x7FF8 << 48
_NEGATIVE: Final = -(1 << 63)
_FRACTION: Final = 52  # bits of a float's fraction


@compiled
def split_all(floats: Any, scales: Any, low: Any, middle: Any, high: Any) -> None:
    """Split floats, given as their bits, into limbs; for infinities and NaN these count how many there are."""
    for row in range(len(floats)):
        bits = floats[row]
        exponent = bits >> _FRACTION & 0x7FF
        integer = bits & ((1 << _FRACTION) - 1)
        if exponent == 0x7FF:
            scales[row] = ODD
            low[row] = integer == 0 and bits > 0
            middle[row] = integer == 0 and bits < 0
            high[row] = integer != 0
            continue
        if exponent:
            integer |= 1 << _FRACTION
            exponent -= 1
        place = exponent + CENTRE
        lower = (integer & _MASK) << (place & 31)  # less than 2**63
        upper = (integer >> 32) << (place & 31)  # less than 2**52
        sign = -1 if bits < 0 else 1
        scales[row] = place >> 5
        low[row] = sign * (lower & _MASK)
        middle[row] = sign * ((lower >> 32) + (upper & _MASK))
        high[row] = sign * (upper >> 32)


@compiled
def _rounded(digits: Any, top: int) -> Any:
    """Return the bits of the float nearest to a positive number, whose greatest digit that is not 0 is given."""
    length = 0
    while digits[top] >> length:
        length += 1
    last = max(32 * top + length - 1 - _FRACTION, CENTRE)  # the last bit of the integer; no float has bits after CENTRE
    integer = np.int64(0)
    for number in range(top, last // 32 - 1, -1):
        shift = 32 * number - last
        integer += digits[number] << shift if shift >= 0 else digits[number] >> -shift
    half = last - 1
    if half >= CENTRE and digits[half // 32] >> (half % 32) & 1:
        more = digits[half // 32] & ((1 << (half % 32)) - 1)
        for number in range(half // 32):
            more |= digits[number]
        if more or integer & 1:
            integer += 1
    if integer < 1 << _FRACTION:
        return integer  # it is subnormal
    bits = ((last - CENTRE) << _FRACTION) + integer  # the leading bit of the integer adds 1 to the exponent
    return min(bits, _INFINITE)


@compiled
def round_all(ends: Any, scales: Any, low: Any, middle: Any, high: Any, sums: Any) -> None:
    """Round the sum of each group to the nearest float, with ties to even.

    ``ends``: index behind the last row of each group; ``scales``, ``low``, ``middle``, ``high``: scale and limbs of
    each row; ``sums``: output: the bits of the sum of each group.
    """
    digits = np.zeros(_DIGITS, dtype=np.int64)
    start = 0
    for group in range(len(ends)):
        digits[:] = 0
        plus, minus, nan = 0, 0, 0
        for row in range(start, ends[group]):
            if scales[row] == ODD:
                plus, minus, nan = plus + low[row], minus + middle[row], nan + high[row]
                continue
            for number, limb in enumerate((low[row], middle[row], high[row])):
                digits[scales[row] + number] += limb & _MASK
                digits[scales[row] + number + 1] += limb >> 32
        start = ends[group]
        if nan or (plus and minus):
            sums[group] = _NAN
            continue
        if plus or minus:
            sums[group] = _INFINITE if plus else _INFINITE | _NEGATIVE
            continue
        carry = np.int64(0)
        for number in range(_DIGITS):
            carry += digits[number]
            digits[number] = carry & _MASK
            carry >>= 32
        negative = carry < 0
        if negative:
            carry = np.int64(1)
            for number in range(_DIGITS):
                carry += digits[number] ^ _MASK
                digits[number] = carry & _MASK
                carry >>= 32
        top = _DIGITS - 1
        while top > 0 and digits[top] == 0:
            top -= 1
        if digits[top] == 0:
            sums[group] = 0
        else:
            bits = _rounded(digits, top)
            sums[group] = bits | _NEGATIVE if negative else bits
