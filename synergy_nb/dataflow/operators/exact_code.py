"""Code of exact sums: compiled, or NumPy and Python integers for as long as the compiled code loads."""

from __future__ import annotations

import math
from typing import Any, Final, cast

import numpy as np

from synergy_nb.models.compiled_modules import CompiledModule

__all__ = ["CENTRE", "COMPILED", "ODD", "PLAIN", "SumCode", "sum_code"]

ODD: Final = -1  # scale of the counters of positive infinities, negative infinities and NaN
CENTRE: Final = 16  # position of the bit that stands for 2**-1074, so that scales change far from 1
_MASK: Final = (1 << 32) - 1
_FRACTION: Final = 52  # bits of a float's fraction
_ONE: Final = 1 << (1074 + CENTRE)  # the number of a sum of 1.0


class SumCode:
    """Functions that split floats into limbs and round limbs to floats, with NumPy and Python integers.

    The module :mod:`~synergy_nb.dataflow.operators._exact_kernel` has the same functions, and describes their
    parameters.
    """

    def split_all(self, floats: Any, scales: Any, low: Any, middle: Any, high: Any) -> None:
        """Split floats, given as their bits, into limbs."""
        exponent = floats >> _FRACTION & 0x7FF
        fraction = floats & ((1 << _FRACTION) - 1)
        normal = (exponent > 0).astype(np.int64)
        integer = fraction | normal << _FRACTION
        place = exponent - normal + CENTRE
        lower = (integer & _MASK) << (place & 31)  # less than 2**63
        upper = (integer >> 32) << (place & 31)  # less than 2**52
        sign = floats >> 63 | 1
        scales[:] = place >> 5
        low[:] = sign * (lower & _MASK)
        middle[:] = sign * ((lower >> 32) + (upper & _MASK))
        high[:] = sign * (upper >> 32)
        odd = exponent == 0x7FF
        if odd.any():
            scales[odd] = ODD
            low[odd] = ((fraction == 0) & (floats > 0))[odd]
            middle[odd] = ((fraction == 0) & (floats < 0))[odd]
            high[odd] = (fraction != 0)[odd]

    def round_all(self, ends: Any, scales: Any, low: Any, middle: Any, high: Any, sums: Any) -> None:
        """Round the sum of each group to the nearest float, with ties to even."""
        floats = sums.view(np.float64)
        rows = list(zip(scales.tolist(), low.tolist(), middle.tolist(), high.tolist(), strict=True))
        start = 0
        for group, end in enumerate(ends.tolist()):
            total, odd = 0, [0, 0, 0]
            for scale, *limbs in rows[start:end]:
                if scale == ODD:
                    odd = [count + more for count, more in zip(odd, limbs, strict=True)]
                else:
                    total += (limbs[0] + (limbs[1] << 32) + (limbs[2] << 64)) << (32 * scale)
            start = end
            plus, minus, nan = odd
            if nan or (plus and minus):
                floats[group] = math.nan
            elif plus or minus:
                floats[group] = math.inf if plus else -math.inf
            else:
                floats[group] = _nearest(total)


def _nearest(total: int) -> float:
    """The float nearest to a sum of limbs; Python rounds a quotient of integers once, with ties to even."""
    try:
        return total / _ONE
    except OverflowError:
        return -math.inf if total < 0 else math.inf


def _warm(kernel: Any) -> None:
    one = np.ones(1, dtype=np.int64)
    limbs = [np.zeros(1, dtype=np.int64) for _ in range(4)]
    kernel.split_all(one, *limbs)
    kernel.round_all(one, *limbs, np.zeros(1, dtype=np.int64))


PLAIN: Final = SumCode()
COMPILED: Final = CompiledModule("synergy_nb.dataflow.operators._exact_kernel", _warm)


def sum_code() -> SumCode:
    """The compiled code, or the plain one while a thread loads it."""
    return cast("SumCode", COMPILED.loaded() or PLAIN)
