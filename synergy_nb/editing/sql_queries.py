"""Queries as SQL: ``sql()`` makes a stream of a text, as the methods of streams do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from synergy_nb.editing.data_files import file_fields
from synergy_nb.errors import user_facing
from synergy_nb.plan import Stream, source
from synergy_nb.plan.data_frames import DataFrameError
from synergy_nb.plan.queries.query import QueryError, stream_of
from synergy_nb.plan.terms.units import type_of

__all__ = ["QueryError", "sql"]


@user_facing
def sql(text: str, *, sources: Mapping[str, Any] | None = None, tables: Mapping[str, Any] | None = None) -> Stream:
    """Make a stream of a query in SQL.

    Parameters
    ----------
    text
        Query of the documented subset (``docs/plans.md``): SELECT with WHERE, GROUP BY with windows, HAVING, joins
        within an interval, UNION ALL, DISTINCT and ORDER BY in windows, WITH, and subqueries in FROM.
    sources
        Streams by the names that FROM uses; rows that ``source`` accepts, such as tables, are made sources. ``packets``
        and ``peers`` need no entry, files are named in single quotes.
    tables
        Tables of which streams look up rows, by the names that JOIN uses: what ``lookup`` accepts, such as data frames
        and paths of files.

    Returns
    -------
    Stream
        Stream of the query's rows; ``.sink(delay="2 s")`` makes the plan, with what SQL does not state.

    Raises
    ------
    QueryError
        If the query is wrong, or holds what no operator does; it names the place.
    ValueError
        If rows in ``sources`` have no event time.

    Examples
    --------
    >>> text = "SELECT link, sum(bytes) AS total FROM packets GROUP BY link, TUMBLE(time, INTERVAL '10 seconds')"
    >>> sql(text).sink("traffic", delay="2 s").stream_name("aggregate")
    'aggregate[by=[link], values={total: sum(bytes)}, window=10 s](packets)'
    """
    if not isinstance(text, str):
        raise TypeError(f"sql: {type_of(text)}; expected the text of a query")
    given: dict[str, Stream] = {}
    for name, value in (sources or {}).items():
        try:
            given[name] = value if isinstance(value, Stream) else source(value)
        except DataFrameError as error:
            hint = "a table that rows are looked up in goes to tables="
            raise DataFrameError(f"sources: {name!r}: {error}; {hint}") from None
    return stream_of(text, given, tables or {}, _file)


def _file(path: str, params: Mapping[str, Any]) -> Stream:
    """The source of a file, with the columns that its beginning shows unless the query states them."""
    if "columns" in params:
        return source("trace", path=path, **params)
    fields = file_fields(path, str(params.get("encoding", "")))
    found: dict[str, Any] = {"path": path, "format": fields.format}
    if fields.columns:
        found["columns"] = fields.columns
    if fields.time:
        found["time"] = fields.time
    if fields.encoding:
        found["encoding"] = fields.encoding
    return source("trace", **{**found, **params})
