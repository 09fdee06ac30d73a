"""Formatting of numbers for people: three significant digits and a suitable unit."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from synergy_nb.plan.checks.source_sizes import SourceSize
from synergy_nb.plan.terms.units import amount, counted

__all__ = [
    "DISCIPLINE_NAMES",
    "HOTSPOT_MODES",
    "cell",
    "known_rows",
    "off",
    "rate",
    "seconds",
    "share",
    "size",
    "window",
]

#: Scheduling disciplines in words.
DISCIPLINE_NAMES: Final = {
    "fcfs": "first come, first served",
    "edf": "earliest deadline first",
    "least_slack": "least slack first",
}
#: Modes of hot spots that a plan states, in words.
HOTSPOT_MODES: Final = {
    "on": "operators leave hot spots",
    "observe": "hot spots are observed only",
    "off": "hot spots are not predicted",
}


def seconds(value: float | None) -> str:
    """Format a duration given in seconds.

    >>> seconds(0.00512), seconds(1.0), seconds(95.4), seconds(5400), seconds(-0.02), seconds(None)
    ('5.12 ms', '1 s', '95.4 s', '1 h 30 min', '-20 ms', '-')
    """
    if value is None:
        return "-"
    if value < 0.0:
        return f"-{seconds(-value)}"
    if value < 1e-3:
        return f"{value * 1e6:.3g} µs" if value else "0 s"
    if value < 0.9995:
        return f"{value * 1e3:.3g} ms"
    if value < 119.5:
        return f"{value:.3g} s"
    minutes = round(value / 60)
    if minutes < 120 and minutes % 60:
        return f"{minutes // 60} h {minutes % 60} min" if minutes > 60 else f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min" if minutes % 60 else f"{minutes // 60} h"


def size(value: float) -> str:
    """Format a number of bytes.

    >>> size(0), size(999), size(12_345), size(256e6), size(4.2e9), size(1.7e12)
    ('0 B', '999 B', '12.3 kB', '256 MB', '4.2 GB', '1.7 TB')
    """
    for unit, of in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= 0.9995 * of:
            return f"{value / of:.3g} {unit}"
    return f"{value:.0f} B"


def known_rows(size: SourceSize) -> str:
    """Say what is known of the rows of a source.

    >>> known_rows(SourceSize(100.0, 356_400.0, True)), known_rows(SourceSize(3e5)), known_rows(SourceSize())
    ('100 rows over 99 h', 'about 300,000 rows', 'an unknown number of rows')
    """
    if size.rows is None:
        return "an unknown number of rows"
    rows = counted(round(size.rows), "row") if size.exact else f"about {counted(float(f'{size.rows:.3g}'), 'row')}"
    return f"{rows} over {seconds(size.seconds)}" if size.seconds else rows


def rate(value: float | None) -> str:
    """Format a rate in tuples/s.

    >>> rate(4712.9), rate(2.5), rate(1_913_442.0)
    ('4,713 tuples/s', '2.5 tuples/s', '1.91 M tuples/s')
    """
    if value is None:
        return "-"
    return f"{value / 1e6:.3g} M tuples/s" if value >= 1e6 else f"{amount(value)} tuples/s"


def share(value: float | None) -> str:
    """Format a fraction in per cent.

    >>> share(0.05), share(0.0), share(0.000123)
    ('5 %', '0 %', '0.0123 %')
    """
    return "-" if value is None else f"{value * 100:.3g} %"


def window(start: datetime | str, end: datetime | str) -> str:
    """Format a time window, without the date if that is in 1970; a bound that Python does not have is text.

    >>> window(datetime(1995, 8, 22, 14, 20), datetime(1995, 8, 22, 14, 40))
    '1995-08-22 14:20 to 14:40'
    >>> window(datetime(1970, 1, 1, 0, 20), datetime(1970, 1, 1, 0, 40))
    '00:20 to 00:40'
    """
    if isinstance(start, str) or isinstance(end, str):
        return f"{start} to {end}"
    clock = "%H:%M" if start.second == end.second == 0 and not (start.microsecond or end.microsecond) else "%H:%M:%S"
    date = "" if start.date() == end.date() == datetime(1970, 1, 1).date() else f"{start:%Y-%m-%d} "  # noqa: DTZ001
    late = f"{end:%Y-%m-%d} " if date and end.date() != start.date() else ""
    return f"{date}{start.strftime(clock)} to {late}{end.strftime(clock)}"


def cell(value: Any) -> str:
    """Format a value of a table of results."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return amount(value)
    if isinstance(value, datetime):
        return value.isoformat(sep=" ", timespec="auto" if value.microsecond else "seconds")
    if isinstance(value, bytes):
        return f"{value[:8].hex()}{'…' if len(value) > 8 else ''} ({counted(len(value), 'byte')})"
    return str(value)


def off(ratio: float | None) -> str:
    """Write how far predictions are off, by the times as long as predicted that was measured; empty if they are not.

    >>> off(5.52), off(0.25), off(757.6), off(None)
    ('5.5 times too short', '4 times too long', '758 times too short', '')
    """
    if ratio is None:
        return ""
    factor = max(ratio, 1.0 / ratio)
    written = f"{factor:.2g}" if factor < 99.5 else f"{factor:,.0f}"
    return f"{written} times too {'short' if ratio > 1.0 else 'long'}"
