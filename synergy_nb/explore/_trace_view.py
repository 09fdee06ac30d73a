"""The view of a trace, and what becomes of a selection: a plan, a simulation."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from synergy_nb.explore._linked_charts import LinkedCharts
from synergy_nb.explore._opened_traces import TraceViewError, quoted
from synergy_nb.explore._trace_charts import STEPS, Brush, ChartOfKeys, ChartOfRange
from synergy_nb.plan import Plan, source
from synergy_nb.plan.builder import Stream
from synergy_nb.plan.sql.sql import quoted as in_plan
from synergy_nb.plan.tables.column_kinds import column_kind
from synergy_nb.plan.terms.units import duration, format_duration
from synergy_nb.simulator.simulation import Simulation

__all__ = ["TraceView"]

WINDOWS: Final = 60  # windows into which a plan divides the selected time, about
LONGEST: Final = 60.0  # virtual seconds that a simulation replays, unless a speed is stated


class TraceView(LinkedCharts):
    """Linked charts of a trace."""

    def plan(
        self,
        *,
        window: float | str | None = None,
        by: str | Sequence[str] | None = None,
        delay: Any = None,
        name: str = "selection",
    ) -> Plan:
        """The selection as a query plan: the trace, a filter for each chart with a selection, a window and groups.

        Each operator states the selectivity that was measured here.

        ``window``: length of the windows, in seconds or as ``"5 min"``; by default about a 60th of the selected time.
        ``by``: columns by which rows are grouped; by default the first chart of keys. ``delay``: limit of the delay of
        results, see ``sink``. ``name``: name of the plan.

        Raises ``ValueError`` if plans cannot read the trace, or a column is not there.
        """
        stream = self._trace.source()
        brushes: list[Brush] = [None] * len(self._brushes)
        before = self.total
        for place, (chart, brush) in enumerate(zip(self.crossfilter.charts, self._brushes, strict=True)):
            if brush is None:
                continue
            brushes[place] = brush
            left = self.crossfilter.rows(brushes)
            condition = chart.in_plan(brush, self._in_plan(chart.column))
            stream = stream.filter(condition, selectivity=_share(left, before))
            before = left
        return self._grouped(stream, window, by).sink(name, delay=delay)

    def simulate(
        self,
        peers: int | Sequence[str] = 20,
        query: Callable[[Stream], Plan] | None = None,
        *,
        speed: float | None = None,
        delay: Any = None,
        **options: Any,
    ) -> Simulation:
        """Replay the selected rows in a simulated cluster, and return the simulation; ``applications`` has the query.

        ``peers``, ``options``: those of :class:`~synergy_nb.Simulation`. ``query``: function that makes the plan of the
        stream of the selected rows; by default the windows and groups of :meth:`plan`. ``speed``: seconds of the trace
        in a virtual second; by default 1, or more, so that the replay takes a minute at most. ``delay``: limit of the
        delay of results.

        Raises ``ValueError`` if no row is selected or rows have no time, and ``NotAdmitted`` if the peers refuse it.
        """
        clock = self._clock("simulate")
        if not self.rows:
            raise TraceViewError("simulate: no row is selected; expected some")
        folder = Path(tempfile.mkdtemp(prefix="synergy-selection-"))
        try:
            file = folder / "selection.parquet"
            self.table().write_parquet(file)
            kinds = {name: column_kind(dtype) for name, dtype in self._trace.schema().items()}
            first, last = self._times(clock)
            span = (last - first) / 1e6
            pace = max(span / LONGEST, 1.0) if speed is None else speed
            stream = source(
                "trace",
                path=str(file),
                format="parquet",
                columns={name: kind for name, kind in kinds.items() if kind is not None},
                time=clock,
                speed=pace,
                rate=max(self.rows / span, 1e-3) * pace if span and pace else None,
            )
            plan = (
                query(stream) if query is not None else self._grouped(stream, None, None).sink("selection", delay=delay)
            )
            simulation = Simulation(peers, **options)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        weakref.finalize(simulation, shutil.rmtree, folder, ignore_errors=True)
        simulation.submit(plan)
        return simulation

    def _in_plan(self, column: str) -> str:
        """Name of a column in the streams of plans."""
        return "time" if column == self._trace.clock else column

    def _clock(self, wish: str) -> str:
        clock = self._trace.clock
        if clock is None:
            raise TraceViewError(f"{wish}: {self._trace.title} has no column of times; expected one")
        return clock

    def _grouped(self, stream: Stream, window: float | str | None, by: str | Sequence[str] | None) -> Stream:
        """Group the rows of a stream by windows and keys, with the selectivity of the selected rows."""
        clock, columns = self._clock("plan"), self._trace.columns
        charts = self.crossfilter.charts
        keys = [chart.column for chart in charts if isinstance(chart, ChartOfKeys)]
        groups = keys[:1] if by is None else [by] if isinstance(by, str) else list(by)
        for each in groups:
            if each not in columns or each == clock:
                expected = ", ".join(name for name in columns if name != clock)
                raise TraceViewError(f"by: {each!r}; expected some of {expected}")
        first, last = self._times(clock)
        least = (last - first) / 1e6 / WINDOWS
        length = duration("window", window) if window is not None else float(
            next((each for each in STEPS if each >= max(least, 1e-3)), STEPS[-1])
        )  # fmt: skip
        cells = [f"epoch_us(rows.{quoted(clock)}) // {max(round(length * 1e6), 1)}"]
        cells += [f"rows.{quoted(each)}" for each in groups]
        ((found,),) = self.crossfilter.ask(f"count(DISTINCT ({', '.join(cells)}, 0))", self._brushes)
        summed = next((each for each in charts if isinstance(each, ChartOfRange) and each.kind != "time"), None)
        values = {"n" if "n" not in groups else "number": "count(*)"}
        if summed is not None:
            column = in_plan(summed.column)
            values[f"total_{summed.column}"] = (
                f"sum(epoch({column}))" if summed.kind == "duration" else f"sum({column})"
            )
        return stream.aggregate(groups, format_duration(length), values, selectivity=_share(found, self.rows))

    def _times(self, clock: str) -> tuple[int, int]:
        """Least and greatest event time of the selected rows, microseconds since 1970; 0 where there is none."""
        time = f"epoch_us(rows.{quoted(clock)})"
        ((first, last),) = self.crossfilter.ask(f"min({time}), max({time})", self._brushes)
        return first or 0, last or 0


def _share(part: int, whole: int) -> float | None:
    """A selectivity with four digits; None: nothing was measured."""
    return float(f"{part / whole:.4g}") if whole else None
