"""Measurements of a sink: a dictionary that shows its numbers with six digits, and holds all of them.

Beside what was measured at the sink are the rows that its results lack: those that came too late, and malformed lines.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from synergy_nb.events import SkippedLines
from synergy_nb.plan.terms.units import counted

__all__ = ["Measurements", "lacking", "lacking_rows"]


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


def lacking(measured: Mapping[str, Any], late: Mapping[str, int], skipped: Mapping[str, SkippedLines]) -> Measurements:
    """Return measurements of a sink, with the rows that its sources have not emitted; nothing if there are none yet.

    ``measured``: measurements of a sink; ``late``: source to the number of rows that it has dropped because they came
    too late; ``skipped``: source to the malformed lines of its trace that it skips.
    """
    if not measured:
        return Measurements()
    count = sum(lines.count for lines in skipped.values())
    first = next((f"{lines.path}: {lines.first}" for lines in skipped.values() if lines.count), None)
    return Measurements({**measured, "late": sum(late.values()), "malformed": count, "malformed_first": first})


def lacking_rows(late: Mapping[str, int], skipped: Mapping[str, SkippedLines]) -> list[tuple[str, str]]:
    """Return what is lacking in words, each with a heading, for the summary of an application."""
    rows = [(f"late at {name}", f"{counted(number, 'row')} dropped") for name, number in late.items()]
    return rows + [(lines.heading(name), str(lines)) for name, lines in skipped.items()]


def _shown(value: object) -> str:
    return repr(float(f"{value:.6g}")) if isinstance(value, float) else repr(value)
