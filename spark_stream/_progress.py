"""Spark's progress reports about the micro-batches of a query."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from synergy_nb.dataflow.tuples import START

_CYCLE: Final = timedelta(days=146_097)  # 400 years, after which dates repeat


class Progress(msgspec.Struct, frozen=True):
    """The statistics of a finished micro-batch."""

    batch: int  # number of the micro-batch
    rows: int  # number of rows that it has read
    seconds: float  # seconds that it took
    rate: float  # rows/s that it could have read: `rows / seconds`
    # state_rows, state_bytes: rows and bytes of state that the query holds now
    state_rows: int
    state_bytes: int
    watermark: int  # event time in microseconds that it went by; `START` where it goes by none
    late: int  # rows that Spark has dropped as late; there should be none, see `spark_stream._spool`


def progress_of(event: Any) -> Progress | None:
    """The statistics in a progress report; None if the report says that no micro-batch ran."""
    seconds = event.durationMs.get("triggerExecution", 0) / 1000
    if "addBatch" not in event.durationMs:
        return None
    rows = 0
    for source in event.sources:
        rows += source.numInputRows
        if "turn" in (source.endOffset or ""):  # ours: a row of it carries the punctuation
            begin, end = (msgspec.json.decode(text or "null") or {} for text in (source.startOffset, source.endOffset))
            moved = (begin.get("time", START), begin.get("turn", 0)) != (end["time"], end["turn"])
            rows -= moved and end["time"] > START
    mark = (event.eventTime or {}).get("watermark")
    return Progress(
        batch=event.batchId,
        rows=rows,
        seconds=seconds,
        rate=rows / seconds if seconds else 0.0,
        state_rows=sum(state.numRowsTotal for state in event.stateOperators),
        state_bytes=sum(state.memoryUsedBytes for state in event.stateOperators),
        watermark=START if mark is None else watermark_of(mark),
        late=sum(state.numRowsDroppedByWatermark for state in event.stateOperators),
    )


def watermark_of(mark: str) -> int:
    """Event time in microseconds of a watermark on Spark's clock, as Spark writes it."""
    from spark_stream.operators.frames import SHIFT  # noqa: PLC0415 - imports Spark

    year, _, rest = mark.partition("-")  # the year may have more digits than Python's dates
    cycles, within = divmod(int(year), 400)
    moment = datetime.fromisoformat(f"{2000 + within}-{rest}")
    since: int = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    return since + (cycles - 5) * (_CYCLE // timedelta(microseconds=1)) - SHIFT
