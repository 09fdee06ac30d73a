"""Times of a file that states none, as clocks of a time zone showed them, in UTC.

Of a time that the clocks had twice the first is meant; one that they skipped counts as if they had not been set yet.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Final
from zoneinfo import ZoneInfo

import polars as pl

__all__ = ["in_utc", "states_zone", "tables_in_utc", "zone_of"]

_STATED: Final = r"^\s*[+-]?\d+(?:\.\d*)?\s*$|[Zz]\s*$|\d[+-]\d\d(?::?\d\d)?\s*$"  # numbers are since 1970 in UTC
_DATE: Final = r"^\s*\d{4}-\d\d-\d\d\s*$"


def zone_of(name: str) -> str:
    """Return the name of a time zone; raise ``ValueError`` if there is none of it."""
    try:
        return str(ZoneInfo(name))
    except (ValueError, OSError, KeyError):  # ZoneInfoNotFoundError is a KeyError
        raise ValueError(
            f"time_zone: {name!r}; expected the name of a time zone, such as 'America/Los_Angeles'"
        ) from None


def states_zone(texts: pl.Series) -> bool:
    """Whether any of the texts is a time that says which instant it is."""
    return bool((texts.str.contains(_STATED) & ~texts.str.contains(_DATE)).any())


def tables_in_utc(tables: Iterator[pl.DataFrame], zone: str) -> Iterator[pl.DataFrame]:
    """Convert the column ``time`` of tables."""
    for table in tables:
        yield table.with_columns(in_utc(table.get_column("time"), zone).alias("time"))


def in_utc(times: pl.Series, zone: str) -> pl.Series:
    """Convert times of a zone.

    >>> times = pl.Series(["2026-03-29 01:30:00", "2026-03-29 02:30:00", "2026-10-25 02:30:00"]).str.to_datetime()
    >>> [str(each) for each in in_utc(times, "Europe/Berlin")]
    ['2026-03-29 00:30:00', '2026-03-29 01:30:00', '2026-10-25 00:30:00']
    """
    local = times.dt.replace_time_zone(zone, ambiguous="earliest", non_existent="null")
    found = local.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
    skipped = found.is_null().arg_true().to_list()
    if not skipped:
        return found
    known = ZoneInfo(zone)
    made = [times[place].replace(tzinfo=known).astimezone(dt.UTC).replace(tzinfo=None) for place in skipped]
    return found.scatter(skipped, made)
