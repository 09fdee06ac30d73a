"""A table that is read again at an interval, as a stream: each reading is rows with the time at which it was made."""

from __future__ import annotations

import asyncio
import time as clock
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final

import polars as pl

from synergy_nb.errors import SynergyError, user_facing
from synergy_nb.plan.builder import Stream, source, table_stated
from synergy_nb.plan.operators.schemas import IMPLICIT
from synergy_nb.plan.tables.lookup_tables import read_again, table_of, terms_of
from synergy_nb.plan.terms.units import WrongValue, duration
from synergy_nb.reporting.formatting import seconds

__all__ = ["ReadingError", "Readings", "readings"]

_BEAT: Final = 0.2  # most seconds between two rows: whoever waits for the promise of no earlier ones waits as long


class ReadingError(SynergyError, ValueError):
    """A table cannot be read, or not be read again; the text names it.

    Examples
    --------
    >>> from synergy_nb import ReadingError, readings
    >>> try:
    ...     readings({"city": ["Bonn"], "fare": [2.5]}, "1 min")
    ... except ReadingError as error:
    ...     print(error)
    table: a table in memory; expected the path of a file, which may change
    """


@user_facing
def readings(table: Any, every: str | float, *, id: str | None = None) -> Stream:  # noqa: A002 - as for all streams
    """Make a stream of a table that this program reads again and again, for ``asof``.

    Each reading is all rows of the table, with the time at which it was made; the first one is made now.
    ``clicks.asof(readings("fares.csv", "1 min"), on="city", within="2 min")`` gives each click the row of its city in
    the last reading before it, whenever either arrives: also after a take-over or a move, and on active replicas.
    Between two readings there are rows with NULL in all columns, which match nothing and promise that no earlier row
    follows.

    Parameters
    ----------
    table
        Path of a CSV or Parquet file, or a mapping with the ``path`` of a DuckDB file and a ``query``; ``columns`` in
        the mapping states the columns and their types, as for ``lookup``.
    every
        Time between two readings, such as ``"1 min"``, or seconds. A reading that fails is tried again until the next
        one is due, and the one before counts; then the application fails.
    id
        Id of the source in the plan.

    Returns
    -------
    Stream
        Stream with the columns of the table; its event time is the clock of this machine.

    Raises
    ------
    ReadingError
        If the table cannot be read now, or has a column of a name that every stream has.
    ValueError
        If ``every`` is no time above 0.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "fares.csv"
    >>> _ = file.write_text("city,fare\\nBonn,2.5\\n")
    >>> readings(str(file), "1 min").sink("fares").schema("source")
    {'time': 'time', 'city': 'str', 'fare': 'float'}
    """
    interval = duration("every", every)
    stated = table_stated(table)
    if isinstance(stated, Mapping) and "path" not in stated:
        raise ReadingError("table: a table in memory; expected the path of a file, which may change")
    try:
        terms = terms_of(stated)
    except WrongValue as error:
        raise ReadingError(f"table: {error}") from None
    if taken := [name for name in terms["columns"] if name in IMPLICIT]:
        raise ReadingError(f"table: column {taken[0]!r}; expected a name other than those that every stream has")
    options = {} if id is None else {"id": id}
    return source(Readings(terms, interval), columns=terms["columns"], **options)


class Readings:
    """The rows of all readings, anew for each application that reads them; the first one has been made already."""

    def __init__(
        self,
        terms: Mapping[str, Any],  # terms of the table
        interval: float,  # seconds between two readings
        now: Callable[[], float] = clock.time,  # function that returns the time, seconds since 1970
        wait: Callable[[float], Awaitable[None]] = asyncio.sleep,  # function that waits for so many seconds
    ) -> None:
        self._terms, self._interval, self._now, self._wait = terms, interval, now, wait
        self._made = now()

    async def __aiter__(self) -> AsyncIterator[pl.DataFrame]:
        """Give the table of each reading, and between two of them rows that match nothing."""
        nothing = pl.DataFrame({name: [None] for name in self._terms["columns"]})
        failing = 0.0  # time of the first try to make a reading that has failed since
        at, due = self._made, self._made + self._interval
        found = await asyncio.to_thread(table_of, self._terms)
        while True:
            yield found.with_columns(pl.lit(round(at * 1e6)).cast(pl.Datetime("us")).alias("time"))
            await self._wait(min(_BEAT, self._interval))
            at, found = max(at, self._now()), nothing
            if at < due:
                continue
            try:
                found = await asyncio.to_thread(read_again, self._terms)
            except WrongValue as error:
                failing = failing or at
                if at >= failing + self._interval:
                    what = f"table: {error}; it could not be read for {seconds(at - failing)}"
                    raise ReadingError(what) from None
            else:
                due, failing = at + self._interval, 0.0
                at = max(at, self._now())
