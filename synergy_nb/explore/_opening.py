"""Opens the view of what :func:`synergy_nb.explore.trace` is given."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from synergy_nb.explore._opened_traces import TraceViewError, open_frame, open_trace
from synergy_nb.explore._runs_view import RunsView
from synergy_nb.explore._trace_view import TraceView
from synergy_nb.plan.terms.units import did_you_mean
from synergy_nb.recording.kept_runs import KeptRun, runs

__all__ = ["opened_view"]

#: Options of raw files, and the parameters of their readers.
OPTIONS: Final = {
    "format": "format",
    "columns_of_file": "columns",
    "encoding": "encoding",
    "quotes": "quotes",
    "time_unit": "unit",
    "time_zone": "zone",
}


def opened_view(
    data: Any,
    columns: Sequence[str] | None,
    time: str | None,
    options: Mapping[str, Any],  # those of raw files
) -> TraceView | RunsView:
    """Open the view of a path, of a frame, or of runs."""
    for name in options:
        if name not in OPTIONS:
            raise TraceViewError(
                f"trace: unknown argument {name!r}; expected one of {', '.join(OPTIONS)}{did_you_mean(name, OPTIONS)}"
            )
    if isinstance(columns, str):
        raise TraceViewError(f"columns: {columns!r}; expected a list of columns")
    kept = _runs(data)
    given = {OPTIONS[name]: value for name, value in options.items() if value is not None}
    if kept is not None:
        if not kept:
            raise TraceViewError("trace: no run; expected runs that were kept, as by Cluster(runs=...)")
        return RunsView(kept, columns)
    if isinstance(data, str | os.PathLike):
        given |= {"time": time} if time is not None else {}
        return TraceView(open_trace(Path(data), **given), columns)
    folder = getattr(data, "folder", None)
    if isinstance(folder, str):  # what prepare() returns
        return TraceView(open_trace(folder), columns)
    if given:
        raise TraceViewError(f"trace: {next(iter(options))}: expected only with the path of a raw file")
    return TraceView(open_frame(data, time=time), columns)


def _runs(data: Any) -> list[KeptRun] | None:
    """The runs that are meant; None: it is something else."""
    if isinstance(data, KeptRun):
        return [data]
    if isinstance(data, str | os.PathLike):
        folder = Path(data)
        return list(runs(folder)) if folder.is_dir() and any(folder.glob("*/run.parquet")) else None
    if isinstance(data, Sequence) and not isinstance(data, str) and all(isinstance(each, KeptRun) for each in data):
        return list(data)
    return None
