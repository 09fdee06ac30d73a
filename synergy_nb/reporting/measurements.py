"""Measurements of a sink: a dictionary that shows its numbers with six digits, and holds all of them."""

from __future__ import annotations

from typing import Any

__all__ = ["Measurements"]


class Measurements(dict[str, Any]):
    """Names to values.

    Examples
    --------
    >>> found = Measurements(delay_p50_s=0.17375511791698126, tuples=41)
    >>> found
    {'delay_p50_s': 0.173755,
     'tuples': 41}
    >>> found["delay_p50_s"]
    0.17375511791698126
    """

    def __repr__(self) -> str:
        lines = ",\n ".join(f"{name!r}: {_shown(value)}" for name, value in self.items())
        return f"{{{lines}}}"


def _shown(value: object) -> str:
    return repr(float(f"{value:.6g}")) if isinstance(value, float) else repr(value)
