"""The journals of kept runs as rows: what was measured at operators, sinks and peers, and what happened."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import polars as pl

from synergy_nb.events import Event, PeerMeasured, SinkMeasured
from synergy_nb.recording.kept_runs import KeptRun

__all__ = ["names_of", "rows_of_runs"]

#: Columns of the rows; delays in seconds, loads in cores, rates in tuples/s.
COLUMNS: Final[dict[str, pl.DataType]] = {
    "time": pl.Datetime("us"),
    "peer": pl.String(),
    "run": pl.String(),  # plan of the run, or its id if several runs have that plan; NULL: of the whole peer
    "what": pl.String(),  # "operator", "sink", "peer", or the kind of the event
    "operator": pl.String(),
    "delay_s": pl.Float64(),  # of a tuple at an operator; at a sink, from end to end, which 99 % do not exceed
    "late": pl.Boolean(),  # whether this is over the limit, or predicted to be
    "load": pl.Float64(),
    "rate": pl.Float64(),
}


def names_of(runs: Iterable[KeptRun]) -> dict[str, str]:
    """Id of each run to its name in the rows."""
    runs = list(runs)
    times = Counter(run.plan.name for run in runs)
    return {run.id: run.plan.name if times[run.plan.name] == 1 else run.id for run in runs}


def rows_of_runs(runs: Iterable[KeptRun]) -> pl.DataFrame:
    """The rows of all events of some runs, in order of time; what several runs have of a peer is there once."""
    runs = list(runs)
    names = names_of(runs)
    found: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    for run in runs:
        for event in run.events():
            for row in _rows(event, names, run.names, names[run.id]):
                found.setdefault((event.peer, event.sequence, event.subject, *row), row)
    frame = pl.DataFrame(list(found.values()), schema=COLUMNS | {"time": pl.Float64()}, orient="row")
    return frame.with_columns((pl.col("time") * 1e6).round().cast(pl.Int64).cast(COLUMNS["time"])).sort(
        "time", maintain_order=True
    )


def _rows(event: Event, runs: Mapping[str, str], peers: Mapping[str, str], run: str) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of an event of a run."""
    time, peer = event.time, peers.get(event.peer, event.peer)
    if isinstance(event, PeerMeasured):
        yield time, peer, None, "peer", None, None, None, event.cpu, None
        for each in event.components:
            late = None if each.slack is None else each.slack < 0.0
            delay = each.queueing_s + each.processing_s
            own = runs.get(each.application, each.application)
            yield time, peer, own, "operator", each.operator, delay, late, each.load, each.rate
    elif isinstance(event, SinkMeasured):
        most, limit = event.delay_p99_s, event.limit_s
        late = None if most is None or limit is None else most > limit
        own = runs.get(event.subject, event.subject)
        yield time, peer, own, "sink", event.operator, most, late, None, event.tuples_per_s
    else:
        belongs = runs.get(event.subject, run) if event.subject else None
        yield time, peer, belongs, event.kind, getattr(event, "operator", None), None, None, None, None
