"""Operators that process all rows of a window at once: sort, compare, distinct, top, percentile, over.

Groups have no order in Spark, so the rows of a window are collected in a list, sorted and exploded again; ``ORDER``
retains the order. The same micro-batch closes all rows of a window.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql.connect import functions as sf

from spark_stream._expressions import quote, share_of
from spark_stream.operators._registry import implements
from spark_stream.operators.arrow_functions import of_rows
from spark_stream.operators.frames import ORDER, UNORDERED, Work, columns_of, named, struct
from spark_stream.operators.windows import WINDOW_COLUMN, Windowed, windowed
from synergy_nb.dataflow.operators.ordered import OverValues, sort_keys
from synergy_nb.plan.operators.catalogue import KINDS
from synergy_nb.plan.terms.column_types import family
from synergy_nb.plan.terms.naming import internal

if TYPE_CHECKING:
    import polars as pl
    from pyspark.sql import DataFrame

__all__ = ["compare", "counted_here", "distinct", "for_groups", "over", "percentile", "sort", "top"]

_NIBBLES: Final = "0123456789ABCDEF"


def _ascending(kind: str, column: str, *, down: bool) -> list[str]:
    """SQL of sort keys that are always sorted upwards: they stand for a column upwards or downwards, with NULL last."""
    null = f"{column} IS NULL"
    if not down:
        return [null, column]
    if kind in ("int", "duration"):
        return [null, f"~ {column}"]
    if kind == "date":
        return [null, f"~ unix_date({column})"]
    if family(kind) == "decimal":
        return [null, f"- {column}"]
    if kind == "float":
        return [null, f"NOT isnan({column})", f"- {column}"]
    if kind == "bool":
        return [null, f"NOT {column}"]
    if kind == "time":
        return [null, f"~ unix_micros({column})"]
    # Each half byte is inverted, and a character greater than all of them ends the text, so that a prefix sorts last.
    return [null, f"concat(translate(hex({column}), '{_NIBBLES}', '{_NIBBLES[::-1]}'), 'G')"]


def _keys(by: Sequence[str], schema: Mapping[str, str]) -> dict[str, bool]:
    """Columns of a sort, and whether each is descending: its keys, then the remaining columns."""
    keys = sort_keys(by, schema)
    return {**keys, **{name: False for name in columns_of(schema) if name not in keys}}


class _Sorting(NamedTuple):
    """The structs by which the rows of a window are sorted."""

    parts: list[str]  # SQL of the fields of a struct that sorts like the rows and contains all columns
    places: dict[str, int]  # column to the number of its field

    def columns(self, work: Work) -> dict[str, str]:
        """SQL of the columns of a result, from rows in `` row``."""
        return {name: f"` row`.c{self.places[name]}" for name in columns_of(work.output)}


def _sorting(work: Work) -> _Sorting:
    schema = work.schemas[0]
    parts: list[str] = []
    places: dict[str, int] = {}
    turned: list[str] = []
    for name, down in _keys(work.params["by"], schema).items():
        parts += _ascending(schema[name], quote(name), down=down)
        if down:
            turned.append(name)
        else:
            places[name] = len(parts) - 1
    for name in turned:
        places[name] = len(parts)
        parts.append(quote(name))
    return _Sorting(parts, places)


@implements("sort")
def sort(work: Work) -> DataFrame:
    """The tuples of each window in order; NULL is last in either direction, the remaining columns break ties."""
    sorting, windows = _sorting(work), windowed(work)
    rows = windows.by().agg(named(f"sort_array(collect_list({struct(sorting.parts)}))", " rows"))
    rows = rows.select(sf.col(quote(WINDOW_COLUMN)), sf.expr("posexplode(` rows`)").alias(" place", " row"))
    return windows.finished(rows, sorting.columns(work), "CAST(` place` AS BIGINT)")


@implements("top")
def top(work: Work) -> DataFrame:
    """The first tuples of each window or group, in the order of a sort."""
    sorting, per = _sorting(work), list(work.params.get("per") or ())
    windows = for_groups(work, per)
    groups = windows.by([named(quote(name), f" per {name}") for name in per])
    first = f"slice(sort_array(collect_list({struct(sorting.parts)})), 1, {work.params['k']})"
    rows = groups.agg(named(first, " rows")).select(sf.col(quote(WINDOW_COLUMN)), named("explode(` rows`)", " row"))
    return windows.finished(rows, sorting.columns(work), "` row`")


@implements("percentile")
def percentile(work: Work) -> DataFrame:
    """The percentile of the values of each window and group."""
    by, name = list(work.params.get("by") or ()), work.params["name"]
    windows = for_groups(work, by)
    groups = windows.by([named(quote(column), f" by {column}") for column in by])
    rows = groups.agg(named(f"sort_array(collect_list({quote(work.params['value'])}))", " values"))
    place = share_of(work.params["fraction"], "size(` values`)", up=True)
    found = {column: quote(f" by {column}") for column in by}
    found[name] = f"get(` values`, CAST(greatest({place}, 1L) AS INT) - 1)"
    order = struct(part for column in by for part in (f"{found[column]} IS NULL", found[column])) if by else UNORDERED
    return windows.finished(rows, {column: found[column] for column in columns_of(work.output)}, order)


def for_groups(work: Work, by: Sequence[str], columns: Sequence[str] = ()) -> Windowed:
    """The input with its windows, for grouping; sessions are those of the whole stream, not of each group.

    ``columns``: columns that are needed; empty: all but time and the bounds of windows.
    """
    windows = windowed(work)
    if not by or (work.params.get("window") or {}).get("kind") != "session":
        return windows
    names = columns or columns_of(work.schemas[0])
    rows = windows.by().agg(named(f"collect_list({struct(map(quote, names))})", " rows"))
    rows = rows.select(sf.col(quote(WINDOW_COLUMN)), named("explode(` rows`)", " row"))
    fields = [named(f"` row`.c{number}", name) for number, name in enumerate(names)]
    window = sf.col(quote(WINDOW_COLUMN))
    return windows._replace(frame=rows.select(window, *fields), window=window, keys=())


@implements("distinct")
def distinct(work: Work) -> DataFrame:
    """The first tuple of each window for each combination of values; without an order, the oldest, then the least."""
    names = columns_of(work.output)
    columns = {name: f"c{number}" for number, name in enumerate(names, 2)}
    row = struct([quote(ORDER), "`time`", *map(quote, names)])
    on = {name: quote(name) for name in columns_of(dict.fromkeys(work.params.get("on") or names, ""))}
    windows = windowed(work)
    if (work.params.get("window") or {}).get("kind") == "session":  # Spark would make sessions for each combination
        rows = windows.by().agg(named(f"collect_list({row})", " rows"))
        rows = rows.select(sf.col(quote(WINDOW_COLUMN)), named("explode(` rows`)", " row"))
        windows = windows._replace(frame=rows, window=sf.col(quote(WINDOW_COLUMN)), keys=())
        row, on = "` row`", {name: f"` row`.{columns[name]}" for name in on}
    first = windows.by([named(text, f" on {name}") for name, text in on.items()]).agg(named(f"min({row})", " first"))
    return windows.finished(first, {name: f"` first`.{field}" for name, field in columns.items()}, "` first`.c0")


@implements("over")
def over(work: Work) -> DataFrame:
    """The tuples of each window with the values of calls over those of their key in order, which Polars computes.

    Spark sorts the tuples of a window and key; :class:`.OverValues` of peers computes the values, in Python.
    """
    schema, by, params, output = dict(work.schemas[0]), list(work.params["by"]), dict(work.params), dict(work.output)
    keys = [part for name, down in sort_keys(params.get("order") or (), schema).items()
            for part in _ascending(schema[name], quote(name), down=down)]  # fmt: skip
    keys += ["`time`", *(["`window_start`"] if "window_start" in schema else []), quote(ORDER)]
    places = {name: len(keys) + number for number, name in enumerate(schema)}
    group, new = internal("group"), {name: output[name] for name in params["values"]}

    def values() -> Callable[[pl.DataFrame], pl.DataFrame]:
        return OverValues(params, schema, output, [group]).added

    windows = for_groups(work, by, [*schema, ORDER])
    groups = windows.by([named(quote(name), f" by {name}") for name in by])
    rows = groups.agg(named(f"sort_array(collect_list({struct([*keys, *map(quote, schema)])}))", " rows"))
    window = sf.col(quote(WINDOW_COLUMN))
    rows = rows.select(window, sf.col("` rows`"), of_rows(values, " rows", places, schema, new, group).alias(" values"))
    rows = rows.select(window, sf.expr("posexplode(arrays_zip(` rows`, ` values`))").alias(" place", " row"))
    found = {name: f"` row`.` values`.c{number}" for number, name in enumerate(new)}
    found |= {name: f"` row`.` rows`.c{places[name]}" for name in columns_of(schema)}
    order = struct(f"` row`.` rows`.c{number}" for number in range(len(keys))) if by else "CAST(` place` AS BIGINT)"
    return windows.finished(rows, {name: found[name] for name in columns_of(output)}, order)


@implements("compare")
def compare(work: Work) -> DataFrame:
    """The tuples whose value exceeds those of a given fraction of their window or group.

    More than ``fraction * n`` values are smaller than a value if it is larger than the value with the index
    ``floor(fraction * n)``, from 0, of the sorted values. If the input is to be sorted, only the result is sorted.
    """
    schema, names = work.schemas[0], columns_of(work.output)
    keys = _keys(work.order, schema) if work.order else {ORDER: False}
    fields = {name: f"c{number}" for number, name in enumerate(dict.fromkeys([work.params["value"], *names, *keys]))}
    value, row = fields[work.params["value"]], struct(map(quote, fields))
    groups = [named(quote(name), f" by {name}") for name in work.params.get("by") or ()]
    windows = windowed(work)
    if len(work.inputs) == 2 and not counted_here(work):
        windows = _with_counts(work, windows, row)
        closed = windows.by(groups).agg(named("collect_list(` row`)", " rows"), named("max(` count`)", " number"))
    else:
        closed = windows.by(groups).agg(named(f"collect_list({row})", " rows"), named("count(1L)", " number"))

    bar = share_of(work.params["fraction"], "` number`")
    values = f"sort_array(filter(transform(` rows`, r -> r.{value}), v -> v IS NOT NULL))"
    least = f"get({values}, CAST(least({bar}, 2147483647L) AS INT))"
    window = sf.col(quote(WINDOW_COLUMN))
    everybody = "` number` < 0" if work.params["fraction"] else "FALSE"  # a count may be a sum
    barred = closed.select(window, sf.col("` rows`"), named(everybody, " everybody"), named(least, " least"))
    kept = f"filter(` rows`, r -> r.{value} IS NOT NULL AND (` everybody` OR r.{value} > ` least`))"
    of_row = {name: f"r.{field}" for name, field in fields.items()}
    if work.order:
        parts = [part for name, down in keys.items() for part in _ascending(schema[name], of_row[name], down=down)]
    else:
        parts = [of_row[ORDER]]
    sorted_rows = f"posexplode(sort_array(transform({kept}, r -> {struct([*parts, 'r'])})))"
    rows = barred.select(window, sf.expr(sorted_rows).alias(" place", " row"))
    found = f"` row`.c{len(parts)}"
    order = "CAST(` place` AS BIGINT)" if work.order else f"{found}.{fields[ORDER]}"
    return windows.finished(rows, {name: f"{found}.{fields[name]}" for name in names}, order)


def _with_counts(work: Work, windows: Windowed, row: str) -> Windowed:
    """Both inputs of a comparison in one: the second one fills ``count``, so that a window is one group."""
    counts = windowed(work, port=1)
    (number,) = columns_of(work.schemas[1])
    left = windows.frame.select(windows.window.alias(WINDOW_COLUMN), named(row, " row"))
    right = counts.frame.select(counts.window.alias(WINDOW_COLUMN), named(quote(number), " count"))
    both = left.unionByName(right, allowMissingColumns=True)
    return Windowed(both, sf.col(quote(WINDOW_COLUMN)), windows.shift)


def counted_here(work: Work) -> bool:
    """Whether the second input of a comparison counts the tuples of the first; then it need not be read.

    This holds if it is a count in the same query, and both inputs derive from one stream by operators that retain all
    tuples and their windows.
    """
    plan = work.plan
    first, second = work.operator.inputs
    count = plan.operators[second]
    if second not in work.inside or count.kind != "count" or "window" in count.params:
        return False
    origins = set()
    for stream in (first, count.inputs[0]):
        above = plan.operators[stream]
        while above.kind in KINDS and KINDS[above.kind].retains_all and "window" not in above.params:
            above = plan.operators[above.inputs[0]]
        origins.add(plan.stream_name(above.id))
    return len(origins) == 1
