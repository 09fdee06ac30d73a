"""Charts of the columns of a trace: their bars, which bar a row belongs to, and conditions on ranges of bars.

Theory of operation
-------------------
A chart divides the values of a column into bars, numbered from 0; the last number is that of rows without a value
(NULL, or not a number). Each row belongs to one bar of each chart, and a selection is a set of bars of some charts. So
all that is counted is counted by small numbers. The bounds of bars are values that are stated exactly. So a condition
on the values themselves, in DuckDB or in a plan, selects the same rows as the numbers of the bars do.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import Any, Final, TypeAlias

from synergy_nb.explore._opened_traces import OpenedTrace, TraceViewError, quoted
from synergy_nb.plan.sql.sql import literal_text
from synergy_nb.plan.sql.sql import quoted as in_plan
from synergy_nb.plan.terms.units import did_you_mean

__all__ = ["BARS", "Brush", "ChartOfKeys", "ChartOfRange", "TraceChart", "charts_of"]

BARS: Final = 240  # maximum number of bars of a chart of times
FEWER: Final = 60  # likewise of numbers
KEYS: Final = 12  # keys that a chart names
MOST_CHARTS: Final = 6  # charts that are made where no columns are named
SKEWED: Final = 10.0  # how many times its mean the maximum of a column is at least that is drawn on a logarithmic scale
#: Microseconds of which all bounds are multiples, to the letters of a time that are written.
SHORTER: Final = ((86_400_000_000, 10), (60_000_000, 16), (1_000_000, 19), (1000, 23))
FIRST, LAST = (
    -62_135_596_800_000_000,
    253_402_300_799_999_999,
)  # microseconds of the years 1 to 9999, in which times are
EPOCH: Final = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - event times are in UTC, and have no zone
#: Widths of bars of times, seconds.
STEPS: Final = (
    *(each * 10.0**power for power in range(-6, 0) for each in (1, 2, 5)),
    *(1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200),
    *(86400 * each for each in (1, 2, 7, 14, 28, 91, 182, 364, 3640, 36400, 364000)),
)
#: Bounds of bars within a power of ten on a logarithmic scale, for up to so many powers.
MANTISSAS: Final = (
    (6, (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8)),
    (10, (1, 1.5, 2, 3, 5, 7)),
    (math.inf, (1, 3)),
)
EXACT: Final = 2.0**53  # below it each integer is a number of its own
POWERS: Final = 20  # powers of ten that a logarithmic scale has at most; smaller values are in its first bar
WHOLE: Final = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "HUGEINT",
                "UHUGEINT")  # fmt: skip
NUMBERED: Final = re.compile(r"(^|_|\b)(id|port)$", re.IGNORECASE)  # columns whose numbers are names of something
REAL: Final = ("FLOAT", "DOUBLE", "DECIMAL")

#: Which bars of a chart are selected; None: all of them.
Brush: TypeAlias = "frozenset[int] | None"


@dataclass(frozen=True)
class _Column:
    """What is known of a column before it has a chart."""

    name: str
    kind: str  # type in DuckDB
    values: int  # rows with a value
    different: int  # number of different values, about
    low: Any  # least value, of numbers and times as a number; None: there is none
    high: Any  # likewise
    mean: float | None
    tiny: float | None  # least value above 0


@dataclass(frozen=True)
class ChartOfRange:
    """Bars of equal ranges of times or numbers, in their order."""

    column: str
    kind: str  # "time", "number" or "duration"
    value: str  # SQL of a row's value as a number: microseconds since 1970 of times, seconds of durations
    edges: tuple[float, ...]  # bounds of the bars: one more than bars
    whole: bool  # whether values are integers
    real: bool = False  # whether values may be no number (NaN)

    @property
    def bars(self) -> int:
        """Number of bars with a range; the bar after them is that of rows without a value."""
        return len(self.edges) - 1

    def number(self) -> str:
        """SQL of the number of a row's bar."""
        step = self.edges[1] - self.edges[0] if self.bars else 0
        regular = self.whole and self._even and max(map(abs, self.edges)) < EXACT
        if not self.bars:
            inside = "0"
        elif regular:
            inside = f"({self.value} - {int(self.edges[0])}) // {int(step)}"
        else:
            inside = self._found(0, self.bars)
        return f"CASE WHEN {self.value} IS NULL THEN {self.bars} ELSE {inside} END"

    @property
    def _even(self) -> bool:
        """Whether all bars are of equal width."""
        steps = [high - low for low, high in pairwise(self.edges)]
        return bool(steps) and max(steps) - min(steps) <= 1e-6 * max(steps)

    def _found(self, first: int, last: int) -> str:
        """SQL that finds a bar by bisection."""
        if last - first == 1:
            return str(first)
        middle = (first + last) // 2
        edge = _exact(self.edges[middle])
        return f"CASE WHEN {self.value} < {edge} THEN {self._found(first, middle)} ELSE {self._found(middle, last)} END"

    def bounds(self, brush: Sequence[int]) -> tuple[float | None, float | None]:
        """Bounds of the values of neighbouring bars, without that which is no bound of other bars."""
        low, high = min(brush), max(brush) + 1
        return (self.edges[low] if low else None), (self.edges[high] if high < self.bars else None)

    def condition(self, brush: frozenset[int]) -> tuple[str, list[Any]]:
        """SQL of whether a row's value is in selected bars, with its parameters."""
        ranged = brush - {self.bars}
        parts = []
        if ranged:
            low, high = self.bounds(sorted(ranged))
            bounds = [f"{self.value} IS NOT NULL"]
            bounds += [f"{self.value} >= {_exact(low)}"] if low is not None else []
            bounds += [f"{self.value} < {_exact(high)}"] if high is not None else []
            parts.append(f"({' AND '.join(bounds)})")
        if self.bars in brush:
            parts.append(f"{self.value} IS NULL")
        return f"({' OR '.join(parts)})", []

    def in_plan(self, brush: frozenset[int], column: str) -> str:
        """Condition of a plan on a column."""
        name = in_plan(column)
        value = f"epoch({name})" if self.kind == "duration" else name
        ranged = brush - {self.bars}
        parts = []
        if ranged:
            low, high = self.bounds(sorted(ranged))
            bounds = [f"{value} >= {self._literal(low)}"] if low is not None else []
            bounds += [f"{value} < {self._literal(high)}"] if high is not None else []
            bounds += [f"{name} IS NOT NULL"] if not bounds else []
            bounds += [f"NOT isnan({name})"] if high is None and self.real else []
            parts.append(" AND ".join(bounds))
        if self.bars in brush:
            parts.append(f"({name} IS NULL OR isnan({name}))" if self.real else f"{name} IS NULL")
        return " OR ".join(f"({part})" for part in parts) if len(parts) > 1 else parts[0]

    def _literal(self, edge: float) -> str:
        return f"'{self.shown(edge)}'" if self.kind == "time" else _exact(edge)

    def shown(self, edge: float) -> str:
        """A bound as a value for people and for :meth:`brush`: a time as ISO 8601."""
        if self.kind == "time":
            letters = next((most for width, most in SHORTER if all(each % width == 0 for each in self.edges)), None)
            return (EPOCH + dt.timedelta(microseconds=int(edge))).isoformat(" ", "microseconds")[:letters]
        return _exact(edge)

    def stated(self, brush: Brush) -> dict[str, Any] | None:
        """A brush as the value of a trait."""
        if brush is None:
            return None
        ranged = sorted(brush - {self.bars})
        found: dict[str, Any] = {}
        if ranged:
            low, high = self.bounds(ranged)
            found = {"from": self._stated(low), "to": self._stated(high)}
        return found | ({"missing": True} if self.bars in brush else {})

    def _stated(self, edge: float | None) -> Any:
        if edge is None or self.kind == "time":
            return None if edge is None else self.shown(edge)
        return int(edge) if self.whole else edge

    def brush(self, value: Mapping[str, Any]) -> Brush:
        """The brush of the value of a trait, whose bounds move to the nearest bounds of bars."""
        wrong = sorted(set(value) - {"from", "to", "missing"})
        if wrong:
            raise TraceViewError(f"selection: {self.column}: {wrong[0]!r}; expected 'from' and 'to', or 'missing'")
        found: set[int] = {self.bars} if value.get("missing") else set()
        if self.bars and ("from" in value or "to" in value):
            low, high = (self._edge(value.get(name), name) for name in ("from", "to"))
            first = 0 if low is None else self._nearest(low)
            last = self.bars if high is None else self._nearest(high)
            if low is not None and high is not None and low > high:
                raise TraceViewError(
                    f"selection: {self.column}: from {value['from']!r} to {value['to']!r}; expected the lesser first"
                )
            if first == last:  # a range within a bar
                first = min(max(bisect_left(self.edges, (low or 0)) - (low not in self.edges), 0), self.bars - 1)
                last = first + 1
            found |= set(range(first, last))
        return frozenset(found) if found else None

    def _nearest(self, value: float) -> int:
        place = bisect_left(self.edges, value)
        if place == 0 or place > self.bars:
            return min(place, self.bars)
        return place - 1 if value - self.edges[place - 1] < self.edges[place] - value else place

    def _edge(self, value: Any, field: str) -> float | None:
        if value is None:
            return None
        if self.kind == "time":
            try:
                moment = value if isinstance(value, dt.datetime) else dt.datetime.fromisoformat(str(value))
            except ValueError:
                raise TraceViewError(
                    f"selection: {self.column}: {field}: {value!r}; expected a time, such as '2026-01-31 12:00'"
                ) from None
            if moment.tzinfo is not None:
                moment = moment.astimezone(dt.UTC).replace(tzinfo=None)
            return float((moment - EPOCH) // dt.timedelta(microseconds=1))
        if isinstance(value, dt.timedelta):
            value = value.total_seconds()
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise TraceViewError(f"selection: {self.column}: {field}: {value!r}; expected a number")
        return float(value)

    def words(self, brush: frozenset[int]) -> str:
        """A brush in words."""
        ranged = sorted(brush - {self.bars})
        said = []
        if ranged:
            low, high = self.bounds(ranged)
            said += (
                [f"{self.column} from {self.read(low)} to below {self.read(high)}"] if None not in (low, high) else []
            )
            said += [f"{self.column} below {self.read(high)}"] if low is None and high is not None else []
            said += [f"{self.column} of at least {self.read(low)}"] if low is not None and high is None else []
            said += [f"any {self.column}"] if low is high is None else []
        said += [f"without {self.column}"] if self.bars in brush else []
        return " or ".join(said)

    def read(self, edge: float | None) -> str:
        """A bound for people."""
        if edge is None:
            return ""
        if self.kind == "time":
            return self.shown(edge)
        unit = " s" if self.kind == "duration" else ""
        return (f"{int(edge):,}" if float(edge).is_integer() else f"{edge:,.6g}") + unit

    def to_page(self) -> dict[str, Any]:
        """The chart as plain values for a page."""
        labels = [self.read(edge) for edge in self.edges]
        return {"column": self.column, "kind": self.kind, "bars": self.bars, "labels": labels}


@dataclass(frozen=True)
class ChartOfKeys:
    """Bars of the most frequent values of a column, or of all of a few, with one of the others."""

    column: str
    value: str  # SQL of a row's value
    keys: tuple[Any, ...]  # values with a bar: texts, numbers or truth values
    ordered: bool  # whether the keys stand in their order, not in that of their counts
    others: bool  # whether there are other values
    kind: str = "keys"

    @property
    def bars(self) -> int:
        """Number of bars of values, with that of the others; the bar after them is that of rows without a value."""
        return len(self.keys) + 1

    def number(self) -> str:
        """SQL of the number of a row's bar; :meth:`joined` has what it reads."""
        known = f"coalesce({self._table}.bar, {self.bars - 1})" if self.keys else str(self.bars - 1)
        return f"CASE WHEN {self.value} IS NULL THEN {self.bars} ELSE {known} END"

    @property
    def _table(self) -> str:
        return quoted(f"keys of {self.column}")

    def joined(self) -> str:
        """SQL that joins the keys to the rows."""
        return f"LEFT JOIN {self._table} ON {self._table}.key = {self.value}" if self.keys else ""

    def prepare(self, trace: OpenedTrace) -> None:
        """Make the table of the keys."""
        if not self.keys:
            return
        trace.database.execute(
            f"CREATE OR REPLACE TEMP TABLE {self._table} AS SELECT unnest(?) AS key, unnest(?) AS bar",
            [list(self.keys), list(range(len(self.keys)))],
        )

    def condition(self, brush: frozenset[int]) -> tuple[str, list[Any]]:
        """SQL of whether a row's value is one of the selected ones, with its parameters."""
        parts: list[str] = []
        given: list[Any] = []
        chosen = [key for place, key in enumerate(self.keys) if place in brush]
        if chosen:
            parts.append(f"{self.value} IN ({', '.join('?' * len(chosen))})")
            given += chosen
        if self.bars - 1 in brush:
            none_of = (
                f"{self.value} NOT IN ({', '.join('?' * len(self.keys))})" if self.keys else f"{self.value} IS NOT NULL"
            )
            parts.append(none_of)
            given += self.keys
        if self.bars in brush:
            parts.append(f"{self.value} IS NULL")
        return f"({' OR '.join(parts)})", given

    def in_plan(self, brush: frozenset[int], column: str) -> str:
        """Condition of a plan on a column."""
        name = in_plan(column)
        chosen = [key for place, key in enumerate(self.keys) if place in brush]
        parts = [f"{name} IN ({', '.join(map(_literal, chosen))})"] if chosen else []
        if self.bars - 1 in brush:
            parts.append(
                f"{name} NOT IN ({', '.join(map(_literal, self.keys))})" if self.keys else f"{name} IS NOT NULL"
            )
        parts += [f"{name} IS NULL"] if self.bars in brush else []
        return " OR ".join(f"({part})" for part in parts) if len(parts) > 1 else parts[0]

    def stated(self, brush: Brush) -> dict[str, Any] | None:
        """A brush as the value of a trait."""
        if brush is None:
            return None
        found: dict[str, Any] = {"keys": [key for place, key in enumerate(self.keys) if place in brush]}
        found |= {"others": True} if self.bars - 1 in brush else {}
        return found | ({"missing": True} if self.bars in brush else {})

    def brush(self, value: Mapping[str, Any]) -> Brush:
        """The brush of the value of a trait."""
        wrong = sorted(set(value) - {"keys", "others", "missing"})
        keys = value.get("keys", [])
        if wrong or isinstance(keys, str) or not isinstance(keys, Iterable):
            what = f"{wrong[0]!r}" if wrong else f"keys: {keys!r}"
            raise TraceViewError(f"selection: {self.column}: {what}; expected 'keys' with a list, 'others', 'missing'")
        found = {self.bars - 1} if value.get("others") else set()
        found |= {self.bars} if value.get("missing") else set()
        places = {(type(key) is bool, key): place for place, key in enumerate(self.keys)}
        for key in keys:
            place = places.get((type(key) is bool, key))
            if place is None:
                near = did_you_mean(key, [each for each in self.keys if isinstance(each, str)])
                known = ", ".join(map(repr, self.keys))
                raise TraceViewError(f"selection: {self.column}: {key!r}; expected one of {known}, or the others{near}")
            found.add(place)
        return frozenset(found) if found else None

    def words(self, brush: frozenset[int]) -> str:
        """A brush in words."""
        chosen = [self.read(place) for place in sorted(brush)]
        listed = chosen[0] if len(chosen) == 1 else f"{', '.join(chosen[:-1])} or {chosen[-1]}"
        return f"{self.column} {listed}"

    def read(self, place: int) -> str:
        """The key of a bar for people."""
        if place >= len(self.keys):
            return "none" if place == self.bars else "others"
        key = self.keys[place]
        if isinstance(key, bool):
            return "yes" if key else "no"
        return key if isinstance(key, str) and key.strip() and key.isprintable() else repr(key)

    def to_page(self) -> dict[str, Any]:
        """The chart as plain values for a page."""
        return {
            "column": self.column, "kind": "keys", "bars": self.bars, "others": self.others,
            "labels": [self.read(place) for place in range(self.bars + 1)],
        }  # fmt: skip


TraceChart: TypeAlias = ChartOfRange | ChartOfKeys


def _literal(key: Any) -> str:
    return literal_text(key) if isinstance(key, str) else str(key).upper() if isinstance(key, bool) else str(key)


def _exact(edge: float) -> str:
    """A bound as SQL reads it: exactly this number."""
    return str(int(edge)) if float(edge).is_integer() and abs(edge) < 1e15 else repr(float(edge))


# -- choosing charts ---------------------------------------------------------------------------------------------------


def charts_of(trace: OpenedTrace, names: Sequence[str] | None = None) -> list[TraceChart]:
    """Make the charts of a trace: of the named columns, or of those that tell most.

    These are the event time, the texts and few values by which rows can be told apart, and the numbers.
    """
    kinds = trace.columns
    for name in names or ():
        if name not in kinds:
            raise TraceViewError(f"columns: {name!r}; expected some of {', '.join(kinds)}{did_you_mean(name, kinds)}")
    wanted = list(dict.fromkeys(names)) if names is not None else [name for name in kinds if _form(kinds[name])]
    for name in wanted:
        if not _form(kinds[name]):
            raise TraceViewError(
                f"columns: {name!r} of type {kinds[name]}; expected times, numbers, texts or truth values"
            )
    if not wanted:
        raise TraceViewError(
            f"{trace.title}: no column that a chart can show; expected times, numbers, texts or truth values"
        )
    rows, found = _surveyed(trace, wanted, kinds)
    made = {each.name: _chart(trace, each) for each in found}
    if names is None:
        made = _chosen(trace, made, found, rows)
    return list(made.values())


def _form(kind: str) -> str:
    """Which form the values of a type in DuckDB have; empty: none that a chart shows."""
    if kind.startswith(("TIMESTAMP", "DATE")):
        return "time"
    if kind == "INTERVAL":
        return "duration"
    if kind.startswith(REAL) and "[" not in kind:
        return "real"
    if kind in WHOLE:
        return "whole"
    return "keys" if kind in ("VARCHAR", "BOOLEAN", "UUID") or kind.startswith("ENUM") else ""


def _value(name: str, kind: str) -> str:
    """SQL of a value, as bars are made of it: NULL for what has no place among the others."""
    column = f"rows.{quoted(name)}"
    match _form(kind):
        case "time":
            return f"epoch_us(CASE WHEN isfinite({column}) THEN {column} END)"
        case "duration":
            return f"epoch({column})"
        case "real" if kind.startswith("DECIMAL"):
            return f"CAST({column} AS DOUBLE)"
        case "real":
            return f"CASE WHEN NOT isnan({column}) THEN CAST({column} AS DOUBLE) END"
        case "whole" if kind in ("HUGEINT", "UHUGEINT", "UBIGINT"):
            return f"CAST({column} AS DOUBLE)"
        case "whole":
            return f"CAST({column} AS BIGINT)"
    return column if kind in ("VARCHAR", "BOOLEAN") else f"CAST({column} AS VARCHAR)"


def _surveyed(trace: OpenedTrace, names: Sequence[str], kinds: Mapping[str, str]) -> tuple[int, list[_Column]]:
    """The number of rows, and what one pass over them tells of each column."""
    asked = []
    for name in names:
        value = _value(name, kinds[name])
        asked += [f"count({value})", f"approx_count_distinct({value})"]
        if _form(kinds[name]) == "keys":
            asked += ["NULL"] * 4
        else:
            finite = f"CASE WHEN isfinite(CAST({value} AS DOUBLE)) THEN {value} END"
            asked += [f"min({finite})", f"max({finite})", f"avg({finite})", f"min({finite}) FILTER ({value} > 0)"]
    row = trace.database.execute(f"SELECT count(*), {', '.join(asked)} FROM rows").fetchone()  # noqa: S608 - names are quoted
    assert row is not None
    return row[0], [_Column(name, kinds[name], *row[1 + 6 * place : 7 + 6 * place]) for place, name in enumerate(names)]


def _chart(trace: OpenedTrace, column: _Column) -> TraceChart:
    """The chart of a column."""
    form = _form(column.kind)
    value = _value(column.name, column.kind)
    if form == "keys" or (form in ("whole", "real") and column.different <= 2 * KEYS):
        chart = _of_keys(trace, column, value, ordered=form != "keys")
        if form == "keys" or not chart.others:
            chart.prepare(trace)
            return chart
    if form == "time":
        edges = _time_edges(column.low, column.high, least=86400.0 if column.kind == "DATE" else 0.0)
        return ChartOfRange(column.name, "time", value, edges, whole=True)
    whole = form == "whole" and "DOUBLE" not in value
    kind = "duration" if form == "duration" else "number"
    return ChartOfRange(column.name, kind, value, _edges(column, whole=whole), whole, "isnan" in value)


def _of_keys(trace: OpenedTrace, column: _Column, value: str, *, ordered: bool) -> ChartOfKeys:
    """The chart of the most frequent values; ``ordered``: of numbers, which stand in their order."""
    found = trace.database.execute(
        f"SELECT {value}, count(*) FROM rows WHERE {value} IS NOT NULL GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT ?",  # noqa: S608
        [KEYS + 1],
    ).fetchall()
    keys = [key for key, _ in found]
    return ChartOfKeys(
        column.name, value, tuple(sorted(keys[:KEYS]) if ordered else keys[:KEYS]), ordered, others=len(keys) > KEYS
    )


def _chosen(
    trace: OpenedTrace, made: Mapping[str, TraceChart], found: Sequence[_Column], rows: int
) -> dict[str, TraceChart]:
    """The charts that tell most, where nobody has named columns: time, two of keys, and numbers."""
    known = {each.name: each for each in found}
    clock = trace.clock
    dull = [
        name for name, chart in made.items()
        if name != clock and rows and (known[name].different <= 1 or _is_id(chart, known[name], rows))
    ]  # fmt: skip
    told = [name for name in made if name not in dull] or list(made)
    times = [clock] if clock in told else []
    told.sort(key=lambda name: NUMBERED.search(name) is not None)
    keys = [name for name in told if isinstance(made[name], ChartOfKeys)]
    numbers = [name for name in told if name not in keys and name not in times]
    room = MOST_CHARTS - len(times)
    telling = [name for name in numbers if not NUMBERED.search(name)]
    few = keys[: max(room - len(telling), (room + 1) // 2)]
    picked = [*times, *few, *numbers[: room - len(few)]]
    return {name: made[name] for name in [*times, *(each for each in made if each in picked and each not in times)]}


def _is_id(chart: TraceChart, column: _Column, rows: int) -> bool:
    """Whether nearly each row has a text of its own, of which none is frequent."""
    return isinstance(chart, ChartOfKeys) and rows > 4 * KEYS and column.different > rows / 2


def _time_edges(low: int | None, high: int | None, least: float = 0.0) -> tuple[float, ...]:
    """Bounds of bars of times from ``low`` to ``high``, microseconds since 1970."""
    if low is None or high is None:
        return (0.0,)
    for step in STEPS:
        width = round(step * 1e6)
        first, last = low // width, high // width
        if last - first < BARS and step >= least:
            return tuple(float(min(max(width * place, FIRST), LAST)) for place in range(first, last + 2))
    return (float(FIRST), float(LAST))


def _edges(column: _Column, *, whole: bool) -> tuple[float, ...]:
    """Bounds of bars of numbers: of equal widths, or of equal factors where few are much larger than the others."""
    if column.low is None:
        return (0.0,)
    low, high = float(column.low), float(column.high)
    tiny = column.tiny
    if low >= 0.0 and tiny is not None and high > SKEWED * max(column.mean or 0.0, tiny):
        return _growing(max(float(tiny), high / 10.0**POWERS), high, zero=low < tiny, whole=whole)
    width = Decimal(1) if whole else _nice(max((high - low) / FEWER, abs(high) * 1e-12, 1e-300))
    while math.floor(high / float(width)) - math.floor(low / float(width)) >= FEWER:
        width = _next(width)
    first = math.floor(Decimal(low) / width)
    edges = [float(width * first)]
    while edges[-1] <= high:
        edges.append(float(width * (first + len(edges))))
    return tuple(edges)


def _growing(tiny: float, high: float, *, zero: bool, whole: bool) -> tuple[float, ...]:
    """Bounds that grow by about the same factor from ``tiny`` on; ``zero``: with a bar below them."""
    powers = math.log10(high / tiny)
    mantissas = next(each for most, each in MANTISSAS if powers <= most)
    bounds: set[float] = set()
    for power in range(math.floor(math.log10(tiny)) - 1, math.floor(math.log10(high)) + 2):
        for each in mantissas:
            edge = float(Decimal(str(each)).scaleb(power))
            bounds.add(float(math.ceil(edge)) if whole else edge)
    edges = sorted(bounds)
    start = bisect_right(edges, tiny) - 1
    end = bisect_right(edges, high)
    return (*([0.0] if zero else []), *edges[start : end + 1])


def _nice(width: float) -> Decimal:
    """The least of 1, 2 and 5 times a power of ten that is not below ``width``."""
    power = math.floor(math.log10(width))
    found = Decimal(1).scaleb(power)
    while float(found) < width:
        found = _next(found)
    return found


def _next(width: Decimal) -> Decimal:
    """The next greater one of 1, 2 and 5 times a power of ten."""
    digit = width.normalize().as_tuple().digits[0]
    return width * (Decimal("2.5") if digit == 2 else 2)
