"""Counts of the bars of charts under brushes: each chart is counted under the brushes of all others.

Theory of operation
-------------------
The bars of a row are stored once, a byte for each chart, in a file that is mapped to memory. A brush of chart A changes
the counts of another chart B by those rows only that are in the bars that it gains or loses. So the rows are counted by
pairs of bars of A and B, under the brushes of all charts but these two: a *square*. While A is brushed, no square
changes, and each answer is a sum of some of their lines; no row is read. The squares of a chart with all others are
made together, block by block: it is counted how many brushes leave out each row, and a row is in the square of A and B
if no brush but those of A and B does. Squares are made when they are needed first, or before, while the user rests
(:meth:`Crossfilter.prepare`), and the latest are kept.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from itertools import combinations
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
BLOCK: Final = 1 << 17  # rows whose bars stay in the processor's cache from one square to the next
FEW: Final = 8  # if at most one row of so many is kept, only these are looked at


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
        self._bars = self._mapped()
        cells = sum((one.bars + 1) * (other.bars + 1) for one, other in combinations(self.charts, 2))
        self._all_fit = 8 * cells <= MOST_BYTES  # whether the squares of all pairs can be kept
        self.prepare([None] * len(self.charts), charts=len(self.charts))

    def _mapped(self) -> NDArray[np.uint8]:
        """The bars of all rows, from DuckDB: ``[chart, row]``, in a file."""
        shape, database = (len(self.charts), self.total), self._trace.database
        if not self.total:
            return np.zeros(shape, np.uint8)
        found = np.memmap(self._trace.folder / "bars", np.uint8, "w+", shape=shape)
        for place in range(len(self.charts)):
            found[place] = database.execute(f"SELECT bar{place} FROM bars").fetchnumpy()[f"bar{place}"]  # noqa: S608 - by us
        database.execute("DROP TABLE bars")
        return np.asarray(found)

    def counts(self, brushes: Sequence[Brush], active: int = 0) -> tuple[list[Counts], int]:
        """Counts of the bars of each chart under the brushes of all others, and the number of rows under all brushes.

        ``active``: number of the chart that is being brushed: its squares answer the next brushes, too.
        """
        self._make(active, brushes)
        if len(self.charts) == 1:
            alone = np.diagonal(self._square(0, 0, brushes))
            return [alone], int(_chosen(alone, brushes[0]).sum())
        found = []
        for place in range(len(self.charts)):
            other = active if place != active else int(active == 0)
            found.append(_chosen(self._square(other, place, brushes), brushes[other]).sum(axis=0))
        return found, int(_chosen(found[active], brushes[active]).sum())

    def prepare(self, brushes: Sequence[Brush], active: int = 0, charts: int = 1) -> int:
        """Make the squares that a brush of a chart would need next, and return how many charts are left.

        ``active``: number of the chart that is likely to be next; ``charts``: number of charts to prepare.
        """
        near = sorted(range(len(self.charts)), key=lambda place: place != active)
        missing = [place for place in near[: None if self._all_fit else 1] if self._missing(place, brushes)]
        for place in missing[:charts]:
            self._make(place, brushes)
        return sum(bool(self._missing(place, brushes)) for place in missing[charts:])

    def rows(self, brushes: Sequence[Brush]) -> int:
        """Number of rows under brushes."""
        return self.counts(brushes)[1]

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
        """Counts by the bars of ``one`` and of ``other``, which have been made."""
        key = self._key(one, other, brushes)
        self._squares.move_to_end(key)
        return self._squares[key] if one <= other else self._squares[key].T

    def _missing(self, one: int, brushes: Sequence[Brush]) -> list[int]:
        """Numbers of the charts with which a chart has no square; one chart alone has one with itself."""
        return [place for place in self._others(one) if self._key(one, place, brushes) not in self._squares]

    def _others(self, one: int) -> list[int]:
        return [place for place in range(len(self.charts)) if place != one] or [one]

    def _make(self, one: int, brushes: Sequence[Brush]) -> None:
        """Make the squares of a chart that are missing; the oldest ones of others go."""
        others = self._missing(one, brushes)
        if not others:
            return
        for other, square in zip(others, self._counted(one, others, brushes), strict=True):
            self._squares[self._key(one, other, brushes)] = square if one <= other else square.T
            self._bytes += square.nbytes
            self.made += 1
        kept = {self._key(one, place, brushes) for place in self._others(one)}
        for key in [each for each in self._squares if each not in kept]:
            if self._bytes <= MOST_BYTES:
                break
            self._bytes -= self._squares.pop(key).nbytes

    def _counted(self, one: int, others: Sequence[int], brushes: Sequence[Brush]) -> list[Counts]:
        """Squares of a chart with others."""
        bars = [chart.bars + 1 for chart in self.charts]
        found = [np.zeros((bars[one], bars[other]), np.int64) for other in others]
        runs = {place: _runs(brush) for place, brush in enumerate(brushes) if brush is not None and place != one}
        for start in range(0, self.total, BLOCK):
            block = self._bars[:, start : start + BLOCK]
            left_out = {place: _outside(block[place], each) for place, each in runs.items()}
            times = sum(left_out.values(), np.zeros(block.shape[1], np.uint8))  # that each row is left out
            for other, square in zip(others, found, strict=True):
                kept = times == left_out.get(other, 0) if left_out else None
                _add(block[one], block[other], kept, square)
        return found


def _runs(brush: frozenset[int]) -> list[tuple[int, int]]:
    """First and last bar of each run of neighbouring bars."""
    bars = sorted(brush)
    firsts = [bar for bar in bars if bar - 1 not in brush]
    return list(zip(firsts, [bar for bar in bars if bar + 1 not in brush], strict=True))


def _outside(bars: NDArray[np.uint8], runs: Sequence[tuple[int, int]]) -> NDArray[np.bool_]:
    """Whether each row's bar is in no run."""
    inside = np.zeros(bars.shape, np.bool_)
    for first, last in runs:
        inside |= bars - np.uint8(first) <= last - first  # a bar before the first one wraps around, and is large
    return ~inside


def _add(mine: NDArray[np.uint8], theirs: NDArray[np.uint8], kept: NDArray[np.bool_] | None, square: Counts) -> None:
    """Add rows to a square: those that are kept, or all."""
    from synergy_nb.explore._square_kernel import add_kept_rows, add_rows  # noqa: PLC0415 - loads numba

    number = mine.size if kept is None else np.count_nonzero(kept)
    if kept is None or number == mine.size:
        add_rows(mine, theirs, square)
    elif number > mine.size // FEW:
        add_kept_rows(mine, theirs, kept, square)
    elif number:
        rows = np.flatnonzero(kept)
        add_rows(mine[rows], theirs[rows], square)


def _chosen(counts: Counts, brush: Brush) -> Counts:
    return counts if brush is None else counts[sorted(brush)]
