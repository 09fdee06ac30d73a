"""What a reader of results gets of a sink that was restarted, and has cut the same rows into other chunks."""

from __future__ import annotations

import pytest

from synergy_nb.dataflow.streams.log.log import StreamLog
from synergy_nb.dataflow.streams.log.values import ORIGIN, Point, chunks_of
from synergy_nb.dataflow.tuples import START, Batch, decode
from synergy_nb.runtime.data._sinks import DeliveredSink
from tests.streams.items import batch, promise


@pytest.mark.parametrize(("read", "left"), [(0, [0, 1, 2, 3, 4, 5]), (4, [4, 5]), (5, [5]), (6, [])])
def test_a_reader_gets_no_row_again_that_comes_with_a_promise_that_is_new(read: int, left: list[int]) -> None:
    log = StreamLog()
    log.retain_all(retains=True)
    log.append(chunks_of([batch(0, 3), promise(25, 3), batch(3, 3)], ORIGIN))
    sink = DeliveredSink("app", "out", limit=None, now=0.0)
    before = Point(read, START)
    for found in (sink.portion(log, before, 0, 1e9), sink.latest(log, 9, before)):
        items = [item for item in map(decode, found.items) if isinstance(item, Batch)]
        assert [value for item in items for value in item.table["v"]] == left
