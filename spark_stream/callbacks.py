"""What a peer is told of a query on Spark while it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from spark_stream._progress import Progress
from spark_stream.results import DeliveryProgress
from synergy_nb.dataflow.tuples import Item
from synergy_nb.events import SkippedLines

__all__ = ["QueryCallbacks"]


def _ignored(*_: object) -> None:
    """Tell nobody."""


class QueryCallbacks(NamedTuple):
    """Functions of a peer that a query calls, on any thread; what is not given is told to nobody."""

    on_items: Callable[[list[Item]], None] = _ignored  # receives results, in order; Spark waits until it returns
    # the query runs; if it reads streams of peers, its first micro-batch, which has no tuples, is over
    on_ready: Callable[[], None] = _ignored
    on_failed: Callable[[str], None] = _ignored  # the query has failed, with the reason
    on_progress: Callable[[Progress], None] = _ignored  # a micro-batch is over
    on_room: Callable[[], None] = _ignored  # the query is no longer full
    # malformed lines of a trace that Spark reads itself, with the source that skips them
    on_skipped: Callable[[str, SkippedLines], None] = _ignored
    # called after `on_items` of each micro-batch, which Spark commits when it returns; if it raises, Spark does not
    # commit
    on_handed: Callable[[DeliveryProgress], None] = _ignored
    on_committed: Callable[[], None] = _ignored  # inputs are needed from a later position on than before
