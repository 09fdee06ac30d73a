"""Counts of the bars of charts under brushes: each chart is counted under the brushes of all others.

Theory of operation
-------------------
The bars of a row are stored once, a byte for each chart. A brush of chart A changes the counts of another chart B by
those rows only that are in the bars that it gains or loses. So the rows are counted by pairs of bars of A and B, under
the brushes of all charts but these two: a *square*. While A is brushed, no square changes, and each answer is a sum of
some of their lines; no row is read. Squares are made when they are needed first, or before, while the user rests
(:meth:`Crossfilter.prepare`), and the latest are kept.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from itertools import combinations, groupby
from typing import Any, Final, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from synergy_nb.explore._opened_traces import OpenedTrace
from synergy_nb.explore._trace_charts import Brush, ChartOfKeys, TraceChart

__all__ = ["Counts", "Crossfilter"]

Counts: TypeAlias = NDArray[np.int64]
_Key: TypeAlias = tuple[int, int, tuple[Brush, ...]]
MOST_BYTES: Final = 64 << 20  # bytes of squares that are kept


class Crossfilter:
    """The bars of the rows of a trace."""

    def __init__(self, trace: OpenedTrace, charts: Sequence[TraceChart]) -> None:
        self.charts = tuple(charts)
        self._trace = trace
        self._squares: OrderedDict[_Key, Counts] = OrderedDict()
        self._bytes = 0
        self.made = 0  # number of squares that were made so far
        numbers = ", ".join(
            f"CAST({each.number()} AS UTINYINT) AS bar{place}" for place, each in enumerate(self.charts)
        )
        joins = " ".join(each.joined() for each in self.charts if isinstance(each, ChartOfKeys))
        trace.database.execute(f"CREATE OR REPLACE TABLE bars AS SELECT {numbers} FROM rows {joins}")  # noqa: S608 - by us
        self.total: int = trace.database.execute("SELECT count(*) FROM bars").fetchall()[0][0]

    def counts(self, brushes: Sequence[Brush], active: int = 0) -> tuple[list[Counts], int]:
        """Counts of the bars of each chart under the brushes of all others, and the number of rows under all brushes.

        ``active``: number of the chart that is being brushed: its squares answer the next brushes, too.
        """
        found = []
        for place in range(len(self.charts)):
            other = active if place != active else int(active == 0)
            found.append(_under(self._square(other, place, brushes), brushes, other))
        return found, int(_chosen(found[active], brushes[active]).sum())

    def prepare(self, brushes: Sequence[Brush], active: int = 0) -> int:
        """Make a square that a brush of any chart would need next, and return how many are missing still.

        ``active``: number of the chart that is likely to be next.
        """
        pairs = sorted(combinations(range(len(self.charts)), 2), key=lambda pair: active not in pair)
        missing = [pair for pair in pairs if self._key(*pair, brushes) not in self._squares]
        if missing:
            self._square(*missing[0], brushes)
        return max(len(missing) - 1, 0)

    def rows(self, brushes: Sequence[Brush]) -> int:
        """Number of rows under brushes."""
        where = _where(enumerate(brushes))
        (found,) = self._trace.database.execute(f"SELECT count(*) FROM bars{where}").fetchone() or (0,)  # noqa: S608 - by us
        return int(found)

    def frame(self, brushes: Sequence[Brush]) -> pl.DataFrame:
        """The rows of the trace that are under brushes, by their values."""
        return self._trace.frame(*self._conditions(brushes))

    def ask(self, what: str, brushes: Sequence[Brush]) -> list[tuple[Any, ...]]:
        """Ask DuckDB for something of the rows of the trace under brushes; names in ``what`` are quoted."""
        where, given = self._conditions(brushes)
        text = f"SELECT {what} FROM rows WHERE {where}"  # noqa: S608 - made here
        found: list[tuple[Any, ...]] = self._trace.database.execute(text, given).fetchall()
        return found

    def _conditions(self, brushes: Sequence[Brush]) -> tuple[str, list[Any]]:
        """SQL of whether a row is under brushes, with its parameters."""
        made = [chart.condition(brush) for chart, brush in zip(self.charts, brushes, strict=True) if brush is not None]
        return " AND ".join(text for text, _ in made) or "true", [value for _, given in made for value in given]

    def _key(self, one: int, other: int, brushes: Sequence[Brush]) -> _Key:
        first, last = sorted((one, other))
        return first, last, tuple(None if place in (one, other) else brush for place, brush in enumerate(brushes))

    def _square(self, one: int, other: int, brushes: Sequence[Brush]) -> Counts:
        """Counts by the bars of ``one`` and of ``other``; of one chart alone, if it is the only one."""
        if len(self.charts) == 1:
            one = other = 0
        key = self._key(one, other, brushes)
        if key not in self._squares:
            self._squares[key] = self._counted(key)
            self._bytes += self._squares[key].nbytes
            self.made += 1
            while self._bytes > MOST_BYTES and len(self._squares) > 1:
                self._bytes -= self._squares.popitem(last=False)[1].nbytes
        self._squares.move_to_end(key)
        found = self._squares[key]
        return found if one <= other else found.T

    def _counted(self, key: _Key) -> Counts:
        first, last, brushes = key
        made = np.zeros((self.charts[first].bars + 1, self.charts[last].bars + 1), np.int64)
        rows = self._trace.database.execute(
            f"SELECT bar{first} AS one, bar{last} AS other, count(*) AS number FROM bars{_where(enumerate(brushes))} "  # noqa: S608 - by us
            "GROUP BY ALL"
        ).fetchnumpy()
        made[rows["one"], rows["other"]] = rows["number"]
        return made


def _under(square: Counts, brushes: Sequence[Brush], one: int) -> Counts:
    """Counts of the second chart of a square under the brush of the first."""
    if one >= len(brushes):  # a chart alone
        return np.diagonal(square)
    return _chosen(square, brushes[one]).sum(axis=0)  # type: ignore[no-any-return]


def _chosen(counts: Counts, brush: Brush) -> Counts:
    return counts if brush is None else counts[sorted(brush)]


def _where(brushes: Any) -> str:
    """SQL of the rows of ``bars`` under brushes of numbered charts."""
    parts = []
    for place, brush in brushes:
        if brush is None:
            continue
        runs = [
            [number for _, number in run]
            for _, run in groupby(enumerate(sorted(brush)), lambda each: each[1] - each[0])
        ]
        parts.append("(" + " OR ".join(f"bar{place} BETWEEN {run[0]} AND {run[-1]}" for run in runs) + ")")
    return f" WHERE {' AND '.join(parts)}" if parts else ""
