"""Surveys of rows: counts, sketches and extreme values, made in one pass over files in the order of time, and added up.

Theory of operation
-------------------
A file has the rows of whole hours in the order of their times, as ``prepare`` writes them; so no window of an hour or
less goes over the end of one. A survey reads a file once, block by block, and keeps little of it: the rows of each
period, least hashes of values, frequent values with their counts, numbers by classes of equal ratio, the largest
numbers, and how many windows have how many rows and groups. Surveys of several files are added up, in any grouping, to
that of all rows. Where everything fits, numbers are exact; where something was left out, the survey knows how much:

- *different values*: the :data:`HASHES` least hashes [1]_; exact as long as there are fewer, then the number follows
  from the greatest of them, with a standard error of 1/sqrt(HASHES).
- *frequent values*: the :data:`VALUES` most frequent ones of each file; a value may miss as many rows as the most
  frequent one that was left out [2]_.
- *quantiles of numbers*: classes whose bounds have a ratio of (1+a)/(1-a), so a quantile is off by a share of at most a
  [3]_.
- *groups of a window*: exact up to :data:`OPEN` groups in a window that goes over several blocks.

.. [1] Z. Bar-Yossef et al. Counting distinct elements in a data stream. RANDOM 2002.
.. [2] J. Misra, D. Gries. Finding repeated elements. Science of Computer Programming 2(2), 1982; added up as in
   P. Agarwal et al. Mergeable summaries. PODS 2012.
.. [3] C. Masson, J. E. Rim, H. K. Lee. DDSketch. VLDB 2019.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from synergy_nb.plan.terms.column_types import column_bytes, family

__all__ = [
    "ACCURACY",
    "BUCKETS",
    "HASHES",
    "OPEN",
    "WINDOWS",
    "ColumnSurvey",
    "DaySurvey",
    "RowSurvey",
    "added",
    "number_of",
    "step_for",
    "surveyed",
]

Ints = npt.NDArray[np.int64]
HASHES: Final = 1 << 14
VALUES: Final = 4000
OPEN: Final = 1 << 16
ACCURACY: Final = 0.005  # share by which a quantile may be off
LARGEST: Final = 5000  # largest numbers that are kept of each column
BUCKETS: Final = 20  # classes of values by which days are compared
#: Lengths of windows of which rows and groups are counted, microseconds; each is a multiple of the one before.
WINDOWS: Final = (1_000_000, 10_000_000, 60_000_000, 3_600_000_000)
#: Periods by which rows can be counted, microseconds.
STEPS: Final = (1_000, 10_000, 100_000, 1_000_000, 10_000_000, 60_000_000, 600_000_000, 3_600_000_000)
_PERIODS: Final = 1 << 23  # most periods of a trace
_SEED: Final = 0x5359
_WHOLE: Final = 2.0**64
_INLINE: Final = 12  # bytes of a text up to which a column holds it in place
_NUMBERS: Final = ("int", "float", "decimal")
_KEYS: Final = ("str", "int", "bool", "date")
_RATIO: Final = math.log((1.0 + ACCURACY) / (1.0 - ACCURACY))
_EPOCH: Final = dt.date(1970, 1, 1)
_DAY: Final = 86_400_000_000  # microseconds


class DaySurvey(msgspec.Struct):
    """What is kept of a day, to compare it with others."""

    rows: int = 0
    hours: dict[int, int] = {}  # hour of the day to its rows
    classes: dict[str, list[int]] = {}  # column to the rows whose values are of each class by their hash
    numbers: dict[str, dict[int, int]] = {}  # column to the rows of each class of numbers


class ColumnSurvey(msgspec.Struct):
    """What is kept of a column."""

    kind: str
    nulls: int = 0
    nbytes: float = 0.0  # of all values in memory
    hashes: bytes = b""  # least hashes of different values, in their order
    values: dict[str, int] = {}  # frequent value, as text, to the number of its rows
    missed: int = 0  # rows that a value may have beside those that were counted
    # of numbers: the class k has those up to exp(_RATIO * k), 0 has a class of its own, below 0 they are mirrored
    numbers: dict[int, int] = {}
    low: float = math.inf
    high: float = -math.inf
    total: float = 0.0
    squares: float = 0.0
    finite: int = 0  # number of finite numbers
    largest: bytes = b""

    @property
    def distinct(self) -> tuple[float, bool]:
        """Number of different values, and whether it is exact."""
        return _different(np.frombuffer(self.hashes, np.uint64), HASHES)


class WindowSurvey(msgspec.Struct):
    """What is kept of the windows of one length that have a row."""

    rows: dict[int, int] = {}  # number of rows to the number of windows with so many
    groups: dict[str, dict[int, int]] = {}  # column to number of different values to number of windows
    estimated: bool = False  # whether the groups of some windows were estimated


class RowSurvey(msgspec.Struct):
    """What is kept of rows."""

    step: int  # microseconds of a period
    rows: int = 0
    first: int | None = None  # least event time, microseconds
    last: int | None = None
    resolution: int = 0  # greatest common divisor of all event times, microseconds
    periods: bytes = b""  # numbers of the periods with rows since 1970
    counts: bytes = b""  # and their rows
    columns: dict[str, ColumnSurvey] = {}
    windows: dict[int, WindowSurvey] = {}  # by microseconds
    days: dict[str, DaySurvey] = {}


def step_for(first: int, last: int) -> int:
    """Least period by which rows between two event times can be counted, all in microseconds.

    >>> step_for(0, 86_400_000_000), step_for(0, 60 * 86_400_000_000)
    (100000, 1000000)
    """
    return next((step for step in STEPS if (last - first) // step < _PERIODS), STEPS[-1])


def surveyed(tables: Iterable[pl.DataFrame], schema: Mapping[str, str], step: int) -> RowSurvey:
    """Survey a file, whose rows come in the order of their times.

    ``tables``: its rows, block by block; ``schema``: column to type; ``step``: microseconds of a period.

    >>> rows = pl.DataFrame({"time": pl.Series([0, 0, 1_500_000], dtype=pl.Datetime("us")), "key": ["a", "b", "a"]})
    >>> found = surveyed([rows], {"time": "time", "key": "str"}, 1_000_000)
    >>> found.rows, found.columns["key"].values, found.windows[1_000_000].groups["key"]
    (3, {'a': 2, 'b': 1}, {2: 1, 1: 1})
    """
    found = RowSurvey(step, windows={length: WindowSurvey() for length in WINDOWS})
    found.columns = {name: ColumnSurvey(kind) for name, kind in schema.items() if name != "time"}
    keys = [name for name, column in found.columns.items() if column.kind in _KEYS]
    columns = {name: _ColumnReader(column) for name, column in found.columns.items()}
    windows = _WindowReader(found, keys)
    periods: list[Ints] = []
    counts: list[Ints] = []
    for table in tables:
        if not table.height:
            continue
        times = table.get_column("time").to_physical().to_numpy()
        found.rows += len(times)
        found.first = int(times[0]) if found.first is None else found.first
        found.last = int(times[-1])
        if found.resolution != 1:
            found.resolution = int(np.gcd(found.resolution, np.gcd.reduce(np.unique(times))))
        part = _runs(times // step)
        periods.append(part[0])
        counts.append(part[1])
        hashes = {name: table.get_column(name).hash(_SEED).alias("hash") for name in found.columns}
        for name, column in columns.items():
            column.take(table.get_column(name), hashes[name])
        windows.take(times, {name: hashes[name] for name in keys})
        _take_days(found, table, times, hashes)
    windows.end()
    for column in columns.values():
        column.end()
    if periods:
        at, rows = _summed(np.concatenate(periods), np.concatenate(counts))
        found.periods, found.counts = at.tobytes(), rows.tobytes()
    return found


def added(surveys: Iterable[RowSurvey]) -> RowSurvey | None:
    """Add up surveys of other rows each, in the order of their times; None: there are none."""
    found: RowSurvey | None = None
    for each in surveys:
        if found is None:
            found = each
        elif each.rows:
            _add(found, each)
    return found


# -- blocks ------------------------------------------------------------------------------------------------------------


class _ColumnReader:
    """Takes the blocks of a column."""

    def __init__(self, found: ColumnSurvey) -> None:
        self._found = found
        self._hashes = np.zeros(0, np.uint64)
        self._largest = np.zeros(0)
        self._values: pl.DataFrame | None = None
        self._counted = found.kind in _KEYS
        self._numbers = family(found.kind) in _NUMBERS

    def take(self, values: pl.Series, hashes: pl.Series) -> None:
        """Take a block: its values, and their hashes."""
        found, present = self._found, values.drop_nulls()
        found.nulls += len(values) - len(present)
        found.nbytes += _nbytes(values, found.kind)
        if not len(present):
            return
        different = hashes.filter(values.is_not_null()).unique().to_numpy()
        self._hashes = _least(np.concatenate((self._hashes, different)), HASHES)
        if self._counted:
            counts = present.alias("value").value_counts(name="rows")
            if self._values is not None:
                counts = pl.concat([self._values, counts]).group_by("value").agg(pl.col("rows").sum())
            self._values = self._cut(counts, 4 * VALUES)
        if self._numbers:
            self._take_numbers(present.cast(pl.Float64).to_numpy())

    def _cut(self, counts: pl.DataFrame, most: int) -> pl.DataFrame:
        if counts.height <= most:
            return counts
        ranked = counts.sort("rows", descending=True)
        self._found.missed += int(ranked["rows"][VALUES])
        return ranked.head(VALUES)

    def _take_numbers(self, numbers: npt.NDArray[np.float64]) -> None:
        found, numbers = self._found, numbers[np.isfinite(numbers)]
        if not len(numbers):
            return
        found.low, found.high = min(found.low, float(numbers.min())), max(found.high, float(numbers.max()))
        found.total, found.squares = found.total + float(numbers.sum()), found.squares + float((numbers**2).sum())
        found.finite += len(numbers)
        _count(found.numbers, _class_of(numbers))
        self._largest = np.concatenate((self._largest, numbers))
        if len(self._largest) > LARGEST:
            self._largest = np.partition(self._largest, -LARGEST)[-LARGEST:]

    def end(self) -> None:
        """Keep what was found."""
        found = self._found
        found.hashes, found.largest = self._hashes.tobytes(), np.sort(self._largest).tobytes()
        if self._values is not None:
            ranked = self._cut(self._values, VALUES).sort("rows", "value", descending=[True, False])
            found.values = {_text(value): rows for value, rows in ranked.iter_rows()}


class _WindowReader:
    """Counts rows and groups of windows, of which the last one of each length is open until the next block."""

    def __init__(self, found: RowSurvey, keys: list[str]) -> None:
        self._found = found
        self._rows = dict.fromkeys(WINDOWS, (0, 0))  # number of the open window, and its rows
        empty = pl.DataFrame(schema={"window": pl.Int64, "hash": pl.UInt64})
        self._open = {(length, key): empty for length in WINDOWS for key in keys}
        self._over: set[tuple[int, str]] = set()  # open windows of which hashes were left out
        for length in WINDOWS:
            found.windows[length].groups = {key: {} for key in keys}

    def take(self, times: Ints, hashes: Mapping[str, pl.Series]) -> None:
        """Take a block."""
        for length in WINDOWS:
            at, counts = _runs(times // length)
            number, rows = self._rows[length]
            if rows and number == at[0]:
                counts[0] += rows
            elif rows:
                _add_one(self._found.windows[length].rows, rows)
            _count(self._found.windows[length].rows, counts[:-1])
            self._rows[length] = int(at[-1]), int(counts[-1])
        for key, values in hashes.items():
            pairs = pl.DataFrame({"window": times // WINDOWS[0], "hash": values}).unique()
            before = WINDOWS[0]
            for length in WINDOWS:
                if length != before:
                    pairs = pairs.with_columns(pl.col("window") // (length // before)).unique()
                before = length
                self._group(length, key, pairs)

    def _group(self, length: int, key: str, pairs: pl.DataFrame) -> None:
        """Close all windows but the last one."""
        held = self._open[length, key]
        if held.height:
            together = pl.concat([held, pairs.select("window", "hash")])
            pairs = together.unique()
        last = pairs["window"].max()
        done = pairs.filter(pl.col("window") != last)
        if done.height:
            self._close(length, key, done)
        held = pairs.filter(pl.col("window") == last)
        if held.height > OPEN:
            held = held.sort("hash").head(OPEN)
            self._over.add((length, key))
        self._open[length, key] = held

    def _close(self, length: int, key: str, pairs: pl.DataFrame) -> None:
        groups = self._found.windows[length].groups[key]
        if (length, key) in self._over:  # the first one was cut, whatever came later
            first = pairs["window"].min()
            cut = pairs.filter(pl.col("window") == first)["hash"].to_numpy()
            _add_one(groups, round(_different(_least(cut, OPEN), OPEN)[0]))
            self._found.windows[length].estimated = True
            self._over.discard((length, key))
            pairs = pairs.filter(pl.col("window") != first)
        _count(groups, pairs.group_by("window").len()["len"].to_numpy())

    def end(self) -> None:
        """Close what is open."""
        for length, (_, rows) in self._rows.items():
            if rows:
                _add_one(self._found.windows[length].rows, rows)
        for (length, key), held in self._open.items():
            if held.height:
                self._close(length, key, held)


def _take_days(found: RowSurvey, table: pl.DataFrame, times: Ints, hashes: Mapping[str, pl.Series]) -> None:
    days = times // _DAY
    for number in np.unique(days).tolist():
        begin, end = np.searchsorted(days, [number, number + 1]).tolist()
        name = (_EPOCH + dt.timedelta(days=number)).isoformat()
        day = found.days.setdefault(name, DaySurvey())
        day.rows += end - begin
        _count(day.hours, times[begin:end] % _DAY // (_DAY // 24))
        for column, values in hashes.items():
            part = values.slice(begin, end - begin).to_numpy()
            if found.columns[column].kind in _KEYS:
                rows = np.bincount((part % BUCKETS).astype(np.int64), minlength=BUCKETS).tolist()
                _add_classes(day.classes, column, rows)
            if family(found.columns[column].kind) in _NUMBERS:
                numbers = table.get_column(column).slice(begin, end - begin).drop_nulls().cast(pl.Float64).to_numpy()
                _count(day.numbers.setdefault(column, {}), _class_of(numbers[np.isfinite(numbers)]))


# -- sums --------------------------------------------------------------------------------------------------------------


def _add(found: RowSurvey, other: RowSurvey) -> None:
    if other.step != found.step:
        raise ValueError(f"step: {other.step}; expected {found.step}, as of the survey before it")
    found.rows += other.rows
    found.first = min(each for each in (found.first, other.first) if each is not None)
    found.last = max(each for each in (found.last, other.last) if each is not None)
    found.resolution = math.gcd(found.resolution, other.resolution)
    at = np.concatenate([np.frombuffer(each.periods, np.int64) for each in (found, other)])
    rows = np.concatenate([np.frombuffer(each.counts, np.int64) for each in (found, other)])
    at, rows = _summed(at, rows)
    found.periods, found.counts = at.tobytes(), rows.tobytes()
    for name, column in other.columns.items():
        _add_column(found.columns[name], column)
    for length, window in other.windows.items():
        mine = found.windows[length]
        _add_up(mine.rows, window.rows)
        for key, groups in window.groups.items():
            _add_up(mine.groups[key], groups)
        mine.estimated |= window.estimated
    for name, day in other.days.items():
        mine_of_day = found.days.setdefault(name, DaySurvey())
        mine_of_day.rows += day.rows
        _add_up(mine_of_day.hours, day.hours)
        for column_name, classes in day.classes.items():
            _add_classes(mine_of_day.classes, column_name, classes)
        for column_name, numbers in day.numbers.items():
            _add_up(mine_of_day.numbers.setdefault(column_name, {}), numbers)


def _add_column(found: ColumnSurvey, other: ColumnSurvey) -> None:
    found.nulls += other.nulls
    found.nbytes += other.nbytes
    hashes = np.concatenate([np.frombuffer(each.hashes, np.uint64) for each in (found, other)])
    found.hashes = _least(hashes, HASHES).tobytes()
    _add_up(found.values, other.values)
    found.missed += other.missed
    if len(found.values) > VALUES:
        ranked = sorted(found.values.items(), key=lambda each: (-each[1], each[0]))
        found.missed += ranked[VALUES][1]
        found.values = dict(ranked[:VALUES])
    _add_up(found.numbers, other.numbers)
    found.low, found.high = min(found.low, other.low), max(found.high, other.high)
    found.total, found.squares = found.total + other.total, found.squares + other.squares
    found.finite += other.finite
    largest = np.concatenate([np.frombuffer(each.largest) for each in (found, other)])
    found.largest = np.sort(largest)[-LARGEST:].tobytes()


def _add_up(found: dict[int, int] | dict[str, int], other: Mapping[int, int] | Mapping[str, int]) -> None:
    for key, rows in other.items():
        found[key] = found.get(key, 0) + rows  # type: ignore[index,arg-type]


def _add_classes(found: dict[str, list[int]], column: str, rows: list[int]) -> None:
    found[column] = [a + b for a, b in zip(found.get(column, [0] * BUCKETS), rows, strict=True)]


# -- sketches ----------------------------------------------------------------------------------------------------------


def _least(hashes: npt.NDArray[np.uint64], most: int) -> npt.NDArray[np.uint64]:
    """The least different hashes, in their order."""
    return np.unique(hashes)[:most]


def _different(least: npt.NDArray[np.uint64], most: int) -> tuple[float, bool]:
    """Number of different values by their least hashes, and whether it is exact."""
    if len(least) < most:
        return float(len(least)), True
    return (most - 1) / (float(least[-1]) / _WHOLE), False


def _class_of(numbers: npt.NDArray[np.float64]) -> Ints:
    """Classes of numbers in the order of the numbers: 0 for 0, others by their logarithms, from 2^20 on and below."""
    sizes = np.abs(numbers)
    some = sizes > 0.0
    steps = np.ceil(np.log(np.where(some, sizes, 1.0)) / _RATIO).astype(np.int64) + (1 << 20)
    return np.where(some, np.where(numbers > 0.0, steps, -steps), 0)


def number_of(place: int) -> float:
    """Number in the middle of a class.

    >>> abs(number_of(int(_class_of(np.array([-1234.5]))[0])) / -1234.5 - 1) <= ACCURACY
    True
    """
    if not place:
        return 0.0
    size = 2.0 * math.exp(_RATIO * (abs(place) - (1 << 20))) / (math.exp(_RATIO) + 1.0)
    return math.copysign(size, place)


def _runs(values: Ints) -> tuple[Ints, Ints]:
    """Values of a rising array, each once, with their numbers."""
    begins = np.flatnonzero(np.concatenate(([True], values[1:] != values[:-1])))
    return values[begins], np.diff(np.append(begins, len(values)))


def _summed(keys: Ints, rows: Ints) -> tuple[Ints, Ints]:
    order = np.argsort(keys, kind="stable")
    at, numbers = _runs(keys[order])
    return at, np.add.reduceat(rows[order], np.cumsum(numbers) - numbers)


def _count(found: dict[int, int], values: npt.NDArray[np.integer]) -> None:
    for value, number in zip(*(each.tolist() for each in np.unique(values, return_counts=True)), strict=True):
        found[value] = found.get(value, 0) + number


def _add_one(found: dict[int, int], value: int) -> None:
    found[value] = found.get(value, 0) + 1


def _nbytes(values: pl.Series, kind: str) -> float:
    """Bytes of values in memory, as estimates of memory count them."""
    each = column_bytes(kind)
    if values.dtype != pl.String:
        return each * len(values)
    lengths = values.str.len_bytes()
    return each * len(values) + float(lengths.filter(lengths > _INLINE).sum() or 0)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
