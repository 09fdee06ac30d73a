"""Surveys of rows: counts, sketches and extreme values, made in one pass over files in the order of time, and added up.

Theory of operation
-------------------
A file has the rows of whole hours in the order of their times, as ``prepare`` writes them; so no window of an hour or
less goes over the end of one. A survey reads a file once, block by block, and keeps little of it: the rows of each
period, least hashes of values, frequent values with their counts, numbers by classes of equal ratio, the largest
numbers, and how many windows have how many rows and groups. Surveys of several files are added up, in any grouping, to
that of all rows. Where everything fits, numbers are exact; where something was left out, the survey knows how much:

- *different values*: the :data:`HASHES` least hashes [1]_; exact as long as there are fewer, then the number follows
  from the greatest of them, with a standard error of 1/sqrt(HASHES). A hash has 44 bits: that two of a million
  different values have the same one happens three times in a hundred.
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
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from synergy_nb.plan.terms.column_types import column_bytes, family

__all__ = [
    "ACCURACY",
    "BUCKETS",
    "HASHES",
    "OPEN",
    "VERSION",
    "WINDOWS",
    "ColumnSurvey",
    "DaySurvey",
    "RowSurvey",
    "added",
    "from_bytes",
    "number_of",
    "step_for",
    "surveyed",
    "to_bytes",
]

Ints = npt.NDArray[np.int64]
Names = npt.NDArray[np.uint64]
#: Surveys of one version can be added up: values are named by hashes of Polars.
VERSION: Final = f"1-{pl.__version__}"
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
# A value is named by the first bits of its hash; the rest holds a place within a block: of a row, or of a window.
_NAME: Final = np.uint64(44)  # bits of a name
_PLACES: Final = np.uint64(20)
_NAMES: Final = np.uint64((1 << 44) - 1)
_PLACE: Final = np.uint64((1 << 20) - 1)
_WHOLE: Final = 2.0**44
_NOBODY: Final = np.zeros(0, np.uint64)
BLOCK: Final = 1 << 19  # rows that are looked at at once, at most as many as there are places
_FEW: Final = 1000  # times whose divisor is looked at first
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
    hashes: bytes = b""  # least names of different values, in their order
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
    for table in (part for each in tables for part in each.iter_slices(BLOCK) if part.height):
        times = table.get_column("time").to_physical().to_numpy()
        found.rows += len(times)
        found.first = int(times[0]) if found.first is None else found.first
        found.last = int(times[-1])
        if found.resolution != 1:
            found.resolution = _divisor(found.resolution, times)
        part = _runs(times // step)
        periods.append(part[0])
        counts.append(part[1])
        names = {name: table.get_column(name).hash(_SEED).to_numpy() >> _PLACES for name in found.columns}
        for name, column in columns.items():
            column.take(table.get_column(name), names[name])
        windows.take(times, {name: names[name] for name in keys})
        _take_days(found, table, times, names)
    windows.end()
    for column in columns.values():
        column.end()
    for day in found.days.values():
        for name, numbers in day.numbers.items():
            _add_up(found.columns[name].numbers, numbers)
    if periods:
        at, rows = _summed(np.concatenate(periods), np.concatenate(counts))
        found.periods, found.counts = at.tobytes(), rows.tobytes()
    return found


def added(surveys: Iterable[RowSurvey]) -> RowSurvey | None:
    """Add up surveys of other rows each, in the order of their times; None: there are none."""
    found: RowSurvey | None = None
    periods: list[Ints] = []
    counts: list[Ints] = []
    for each in surveys:
        periods.append(np.frombuffer(each.periods, np.int64))
        counts.append(np.frombuffer(each.counts, np.int64))
        if found is None:
            found = each
        elif each.rows:
            _add(found, each)
    if found is not None and len(periods) > 1:  # together at the end: there may be millions
        at, rows = _summed(np.concatenate(periods), np.concatenate(counts))
        found.periods, found.counts = at.tobytes(), rows.tobytes()
    return found


def to_bytes(survey: RowSurvey) -> bytes:
    """Pack a survey, to be kept or sent.

    >>> from_bytes(to_bytes(RowSurvey(1000, rows=2))).rows
    2
    """
    steps = np.diff(np.frombuffer(survey.periods, np.int64), prepend=0).tobytes()  # they pack well
    packed = pa.BufferOutputStream()
    with pa.CompressedOutputStream(packed, "zstd") as file:
        file.write(msgspec.msgpack.encode(msgspec.structs.replace(survey, periods=steps)))
    return bytes(packed.getvalue())


def from_bytes(data: bytes) -> RowSurvey:
    """Unpack a survey."""
    with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as file:
        found = msgspec.msgpack.decode(file.read(), type=RowSurvey)
    found.periods = np.cumsum(np.frombuffer(found.periods, np.int64)).tobytes()
    return found


# -- blocks ------------------------------------------------------------------------------------------------------------


class _ColumnReader:
    """Takes the blocks of a column."""

    def __init__(self, found: ColumnSurvey) -> None:
        self._found = found
        self._least = _NOBODY
        self._largest = np.zeros(0)
        self._counted = found.kind in _KEYS
        self._numbers = family(found.kind) in _NUMBERS
        # frequent values in the order of their names, and the rows of each
        self._names = _NOBODY
        self._rows = np.zeros(0, np.int64)
        self._values: pl.Series | None = None

    def take(self, values: pl.Series, names: Names) -> None:
        """Take a block: its values, and their names."""
        found = self._found
        found.nulls += values.null_count()
        found.nbytes += _nbytes(values, found.kind)
        if values.has_nulls():
            names, values = names[values.is_not_null().to_numpy()], values.drop_nulls()
        if not len(values):
            return
        # Once sorted, equal names are side by side, and the place of the first of them is in the same number.
        placed = np.sort(names << _PLACES | np.arange(len(names), dtype=np.uint64))
        different = placed >> _PLACES
        begins = _begins(different)
        different = different[begins]
        self._least = _least(np.concatenate((self._least, different[:HASHES])), HASHES)
        if self._counted:
            places = (placed[begins] & _PLACE).astype(np.int64)
            self._count(different, np.diff(begins, append=len(placed)), values, places)
        if self._numbers:
            self._take_numbers(values.cast(pl.Float64).to_numpy())

    def _count(self, names: Names, rows: Ints, values: pl.Series, places: Ints) -> None:
        """Add the rows of names, which are in their order; ``places``: that of a value of each."""
        if self._values is None:
            self._values = values.clear()
        at = np.minimum(np.searchsorted(names, self._names), len(names) - 1)
        again = names[at] == self._names
        rows[at[again]] += self._rows[again]
        before = np.flatnonzero(~again)
        names, rows = np.concatenate((names, self._names[before])), np.concatenate((rows, self._rows[before]))
        kept = self._cut(rows, 4 * VALUES)
        old, new = kept[kept >= len(places)] - len(places), kept[kept < len(places)]
        kept = np.concatenate((new, old + len(places)))
        order = np.argsort(names[kept])
        self._values = pl.concat([values.gather(places[new]), self._values.gather(before[old])]).gather(order)
        self._names, self._rows = names[kept][order], rows[kept][order]

    def _cut(self, rows: Ints, most: int) -> Ints:
        """Places of the most frequent values, or of all, if these are no more than ``most``."""
        if len(rows) <= most:
            return np.arange(len(rows))
        ranked = np.argpartition(-rows, VALUES)
        self._found.missed += int(rows[ranked[VALUES]])
        return ranked[:VALUES]

    def _take_numbers(self, numbers: npt.NDArray[np.float64]) -> None:
        found, numbers = self._found, numbers[np.isfinite(numbers)]
        if not len(numbers):
            return
        found.low, found.high = min(found.low, float(numbers.min())), max(found.high, float(numbers.max()))
        found.total, found.squares = found.total + float(numbers.sum()), found.squares + float((numbers**2).sum())
        found.finite += len(numbers)
        if len(self._largest) == LARGEST:
            numbers = numbers[numbers > self._largest[0]]
        largest = np.concatenate((self._largest, numbers))
        if len(largest) > LARGEST:
            largest = np.partition(largest, -LARGEST)[-LARGEST:]
        self._largest = np.sort(largest)

    def end(self) -> None:
        """Keep what was found."""
        found = self._found
        found.hashes, found.largest = self._least.tobytes(), self._largest.tobytes()
        if self._values is not None:
            kept = self._cut(self._rows, VALUES)
            pairs = pl.DataFrame({"value": self._values.gather(kept), "rows": self._rows[kept]})
            ranked = pairs.sort("rows", "value", descending=[True, False])
            found.values = {_text(value): rows for value, rows in ranked.iter_rows()}


class _Open(NamedTuple):
    """The last window of a length, which the next block may go on with, and the different values of a column in it."""

    window: int
    names: Names  # in their order
    cut: bool = False  # whether the greatest of them were left out


class _WindowReader:
    """Counts rows and groups of windows, of which the last one of each length is open until the next block."""

    def __init__(self, found: RowSurvey, keys: list[str]) -> None:
        self._found = found
        self._rows = dict.fromkeys(WINDOWS, (0, 0))  # number of the open window, and its rows
        self._open: dict[tuple[int, str], _Open] = {}
        for length in WINDOWS:
            found.windows[length].groups = {key: {} for key in keys}

    def take(self, times: Ints, names: Mapping[str, Names]) -> None:
        """Take a block; ``names``: of each column by which rows may be grouped."""
        windows, rows = _runs(times // WINDOWS[0])
        # A pair is a window, by its number within the block, with a name; sorted, those of a window are side by side.
        places = np.repeat(np.arange(len(windows), dtype=np.uint64) << _NAME, rows)
        pairs = {key: _distinct(places | each) for key, each in names.items()}
        for length, wider in zip(WINDOWS, (*WINDOWS[1:], 0), strict=True):
            self._take_rows(length, windows, rows)
            for key, each in pairs.items():
                self._take_groups(length, key, windows, each)
            if wider:
                windows, parts = _runs(windows // (wider // length))
                rows = np.add.reduceat(rows, np.cumsum(parts) - parts)
                places = np.repeat(np.arange(len(windows), dtype=np.uint64) << _NAME, parts)
                pairs = {key: _distinct(places[each >> _NAME] | each & _NAMES) for key, each in pairs.items()}

    def _take_rows(self, length: int, windows: Ints, rows: Ints) -> None:
        number, before = self._rows[length]
        found, rows = self._found.windows[length].rows, rows.copy()
        if before and number == windows[0]:
            rows[0] += before
        elif before:
            _add_one(found, before)
        _count(found, rows[:-1])
        self._rows[length] = int(windows[-1]), int(rows[-1])

    def _take_groups(self, length: int, key: str, windows: Ints, pairs: Names) -> None:
        """Close all windows but the last one."""
        groups = np.bincount((pairs >> _NAME).astype(np.int64), minlength=len(windows))
        held = self._open.get((length, key))
        if held is not None and held.window == windows[0]:
            together = np.concatenate((held.names, pairs[: groups[0]] & _NAMES))
            held = held._replace(names=_distinct(together))
            if len(windows) > 1:
                self._close(length, key, held)
                held, groups = None, groups[1:]
        elif held is not None:
            self._close(length, key, held)
            held = None
        _count(self._found.windows[length].groups[key], groups[:-1])
        if held is None:
            held = _Open(int(windows[-1]), pairs[len(pairs) - groups[-1] :] & _NAMES)
        if len(held.names) > OPEN:
            held = _Open(held.window, held.names[:OPEN], cut=True)
        self._open[length, key] = held

    def _close(self, length: int, key: str, held: _Open) -> None:
        window = self._found.windows[length]
        number = _different(held.names[:OPEN], OPEN)[0] if held.cut else len(held.names)
        window.estimated |= held.cut
        _add_one(window.groups[key], round(number))

    def end(self) -> None:
        """Close what is open."""
        for length, (_, rows) in self._rows.items():
            if rows:
                _add_one(self._found.windows[length].rows, rows)
        for (length, key), held in self._open.items():
            self._close(length, key, held)


def _take_days(found: RowSurvey, table: pl.DataFrame, times: Ints, names: Mapping[str, Names]) -> None:
    days = times // _DAY
    numbers = {
        column: table.get_column(column).cast(pl.Float64).fill_null(math.nan).to_numpy()
        for column, each in found.columns.items()
        if family(each.kind) in _NUMBERS
    }
    for number in range(int(days[0]), int(days[-1]) + 1):
        begin, end = np.searchsorted(days, [number, number + 1]).tolist()
        if begin == end:
            continue
        name = (_EPOCH + dt.timedelta(days=number)).isoformat()
        day = found.days.setdefault(name, DaySurvey())
        day.rows += end - begin
        _count(day.hours, times[begin:end] % _DAY // (_DAY // 24))
        for column, each in names.items():
            if found.columns[column].kind in _KEYS:
                rows = np.bincount((each[begin:end] % BUCKETS).astype(np.int64), minlength=BUCKETS).tolist()
                _add_classes(day.classes, column, rows)
        for column, values in numbers.items():
            part = values[begin:end]
            _count(day.numbers.setdefault(column, {}), _class_of(part[np.isfinite(part)]))


def _divisor(known: int, times: Ints) -> int:
    """Greatest common divisor of a number and of times; of a few first, which mostly is that of all."""
    found = math.gcd(known, int(np.gcd.reduce(times[:_FEW])))
    if found == 1:
        return 1
    rest = times % found if found else times
    return math.gcd(found, int(np.gcd.reduce(rest[rest != 0], initial=0)))


# -- sums --------------------------------------------------------------------------------------------------------------


def _add(found: RowSurvey, other: RowSurvey) -> None:
    if other.step != found.step:
        raise ValueError(f"step: {other.step}; expected {found.step}, as of the survey before it")
    found.rows += other.rows
    found.first = min(each for each in (found.first, other.first) if each is not None)
    found.last = max(each for each in (found.last, other.last) if each is not None)
    found.resolution = math.gcd(found.resolution, other.resolution)
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


def _least(names: Names, most: int) -> Names:
    """The least different names, in their order."""
    return _distinct(names)[:most]


def _distinct(numbers: Names) -> Names:
    """The different ones of numbers, in their order; NumPy sorts them in a few ns each, and its `unique` does not."""
    numbers = np.sort(numbers)
    return numbers[_begins(numbers)]


def _begins(values: npt.NDArray[Any]) -> Ints:
    """Places at which runs of equal values begin."""
    return np.flatnonzero(np.concatenate((np.ones(min(len(values), 1), bool), values[1:] != values[:-1])))


def _different(least: Names, most: int) -> tuple[float, bool]:
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
    begins = _begins(values)
    return values[begins], np.diff(begins, append=len(values))


def _summed(keys: Ints, rows: Ints) -> tuple[Ints, Ints]:
    if not len(keys):
        return keys, rows
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
