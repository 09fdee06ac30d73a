"""Parts on Spark as components of a peer, with a query that does what a test says."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from spark_stream import query
from spark_stream._spool import FIRST, Offset
from spark_stream.callbacks import QueryCallbacks
from spark_stream.query import SparkAccess
from spark_stream.results import DeliveryProgress, ExchangeRefused
from spark_stream.resumption import Resumption
from synergy_nb.dataflow.streams.log.values import ORIGIN, Point
from synergy_nb.dataflow.tuples import Batch, Item, Punctuation
from synergy_nb.plan import source
from synergy_nb.plan.derived.spark_parts import replace_parts
from synergy_nb.runtime.data._spark_part import PartCallbacks, SparkPart
from synergy_nb.runtime.data.spark_servers import SparkHost
from synergy_nb.runtime.process.requests import SparkState, SparkStatus
from tests.two_hosts import play, table
from tests.waiting import until

on_loop = play  # how the tests that are coroutines run

COMMITTED = ((Offset(3, 500), Point(3, 500)),)


class Query:
    """What a part asks of its query, of what was given to it, and of its checkpoint."""

    made: list[Query]
    full, retained_bytes, late, uncovered_bytes = False, 0, 0, 0
    is_known = True  # whether the location of its checkpoint is
    where = ""  # that of the checkpoint of this query itself, once it has one

    def __init__(
        self, _: Any, spark: SparkAccess, calls: QueryCallbacks, *, secrets: Any, since: Any, epoch: int
    ) -> None:
        self.server = spark.server
        self.name = "app-count-0" if since is None else since.name
        self.since, self.epoch = since, epoch
        self.calls = calls
        self.committed = ((FIRST, ORIGIN),) if since is None else since.inputs
        self.left: bool | None = None
        self.left_former = False
        self.input = self.checkpoint = self
        self.made.append(self)

    def resumption(self, handed: DeliveryProgress, inputs: Any) -> Resumption:
        return Resumption(self.name, handed, inputs, self.server(), "/checkpoint")

    def leave_former(self) -> None:
        self.left_former = True

    def start(self) -> None:
        """It runs."""

    def abandon(self, *, left: bool) -> None:
        self.left = left

    def stop(self) -> None:
        """It ends."""


@pytest.fixture(autouse=True)
def made(monkeypatch: pytest.MonkeyPatch) -> list[Query]:
    """The queries that were made."""
    Query.made = []
    monkeypatch.setattr(query, "PartQuery", Query)
    return Query.made


class Part:
    """A part, whose query hands micro-batches over in a thread."""

    def __init__(self, url: str = "sc://here:1", *, epoch: int = 0, most_uncovered: int | None = None) -> None:
        loop = asyncio.get_running_loop()
        host = SparkHost(loop, lambda: 9.0, lambda *_, **__: None)
        host.receive_state(SparkState(SparkStatus.READY, url, url))
        self.told = 0
        self.threads = ThreadPoolExecutor(2)
        stream = source("python", name="n", columns={"link": "str"}, rate=1.0, id="n")
        plan = replace_parts(stream.aggregate("link", "1 s", n="count(*)", id="count").sink(), {"count"}, 0.1)
        self.part = SparkPart(
            lambda: None,
            lambda: 9.0,
            most=1 << 20,
            host=host,
            application="app",
            operator=plan.operators["count"],
            secrets={},
            told=PartCallbacks(
                failed=lambda _: None,
                prepared=lambda: None,
                executed=lambda _rows, _seconds: None,
                room=lambda: None,
                committed=self._tell,
            ),
            epoch=epoch,
            most_uncovered=most_uncovered,
        )

    def _tell(self) -> None:
        self.told += 1

    def hand(self, batch: int, *items: Item) -> asyncio.Future[None]:
        """The query hands a micro-batch over; done when Spark may commit it."""
        calls = Query.made[-1].calls

        def work() -> None:
            calls.on_items(list(items))
            position = self.part.point.position
            calls.on_handed(DeliveryProgress(batch, position, 0, 0, ((0, 0, 0),)))

        return asyncio.get_running_loop().run_in_executor(self.threads, work)

    def emit(self) -> None:
        """All that waits goes to the log."""
        while self.part.pending:
            self.part.emitted(self.part.pending.popleft())

    async def close(self) -> None:
        self.part.stop()
        await self.part.closed()
        self.threads.shutdown()


def rows(first: int, number: int) -> Batch:
    return Batch(table(first, number), first, 1.0)


async def test_without_copies_spark_commits_as_soon_as_results_are_handed_over() -> None:
    part = Part()
    part.part.prepare()
    await part.hand(0, rows(0, 3))
    assert part.part.committed[1:4] == (ORIGIN, -1, False), "it may have committed what has not been emitted"
    part.emit()
    assert part.part.committed[1:4] == (Point(3, ORIGIN.until), 0, True)
    await part.close()
    assert Query.made[0].left is False


async def test_with_copies_spark_commits_when_all_know_of_the_results() -> None:
    part = Part()
    part.part.prepare()
    part.part.set_copies(copies=True, safe=True)
    handed = part.hand(0, rows(0, 3), Punctuation(500, 3, 1.0))
    await until(lambda: len(part.part.pending) == 2)
    part.emit()
    await until(lambda: part.part.committed.step == 0)
    assert part.part.committed.whole
    assert not handed.done()
    part.part.replicated(0)
    await handed
    last = part.hand(1, rows(3, 1))
    await until(lambda: len(part.part.pending) == 1)
    await part.close()
    with pytest.raises(ExchangeRefused, match="micro-batch 1: the part has left this peer"):
        await last
    assert Query.made[0].left, "another peer goes on with its checkpoint"


async def test_peers_without_a_copy_are_not_waited_for() -> None:
    part = Part()
    part.part.prepare()
    part.part.set_copies(copies=True, safe=True)
    handed = part.hand(0)
    await until(lambda: part.part.committed.step == 0)
    assert not handed.done()
    part.part.set_copies(copies=False, safe=True)
    await handed
    await part.close()


async def test_a_part_continues_the_query_of_another_peer() -> None:
    one, other = Part(), Part(epoch=1)
    one.part.prepare()
    Query.made[0].committed = COMMITTED
    await one.hand(0, rows(0, 3))
    one.emit()
    saved = one.part.save()
    other.part.restore(saved)
    assert other.part.committed.inputs == (Point(3, 500),)
    other.part.prepare(Point(3, 7))
    query = Query.made[1]
    assert (query.name, query.epoch) == (Query.made[0].name, 1)
    assert (query.since.handed.batch, query.since.inputs) == (0, COMMITTED)
    assert other.part.committed[:4] == ((Point(3, 500),), Point(3, 7), 0, True)
    await other.hand(1, rows(3, 2))
    assert [chunk.start for chunk in other.part.pending] == [Point(3, 7)]
    assert other.part.save() == saved, "what it has not emitted is not known elsewhere"
    await one.close()
    await other.close()


async def test_a_part_continues_on_another_spark_server() -> None:
    """Whether that can reach its checkpoint is seen by its query (:mod:`tests.spark_stream.test_spark_checkpoints`)."""

    one, other = Part(), Part("sc://there:2/;token=t", epoch=1)
    one.part.prepare()
    await one.hand(0)
    await until(lambda: one.part.committed.step == 0)
    other.part.restore(one.part.save())
    other.part.prepare(Point(3, 7))
    query = Query.made[1]
    assert (query.since.server, query.since.checkpoint) == ("sc://here:1", "/checkpoint")
    assert query.server() == "sc://there:2", "and no token"
    for each in (one, other):
        await each.close()


async def test_no_snapshot_is_sent_before_the_location_of_the_checkpoint_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    part = Part()
    monkeypatch.setattr(Query, "is_known", False)
    part.part.prepare()
    found = [part.part.committed.whole]
    monkeypatch.setattr(Query, "is_known", True)
    told = part.told
    Query.made[0].calls.on_ready()
    await until(lambda: part.told > told)
    found.append(part.part.committed.whole)
    assert found == [False, True]
    await part.close()


# -- in a durable cluster --------------------------------------------------------------------------------------------


async def test_no_result_leaves_before_the_folder_knows_the_checkpoint_that_it_comes_from(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Killed before that, the next server would begin with the checkpoint before, and divide its input otherwise."""
    one, other = Part(), Part("sc://there:2", epoch=1, most_uncovered=100)
    one.part.prepare()
    await one.hand(0)
    await until(lambda: one.part.committed.step == 0)
    other.part.restore(one.part.save())
    other.part.prepare(Point(3, 7))
    whole = [other.part.committed.whole]
    monkeypatch.setattr(Query, "where", "/checkpoint-1")
    told = other.told
    handed = other.hand(1, rows(3, 2))
    await until(lambda: other.told > told)  # the folder is to have a snapshot
    whole.append(other.part.committed.whole)
    assert whole == [False, True], "the first one would have named the checkpoint of the server before"
    assert not other.part.pending
    other.part.replicated(0)
    await until(lambda: len(other.part.pending) == 1)
    assert not handed.done()
    other.emit()
    await until(lambda: other.part.committed.step == 1)
    other.part.replicated(1)
    await handed
    await one.close()
    await other.close()
    assert Query.made[1].left_former
    assert (Query.made[0].left, Query.made[1].left) == (False, True), "its checkpoint stays for the next server"


async def test_input_that_the_folder_would_need_for_too_long_fails_the_part_by_a_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    part = Part(most_uncovered=100)
    part.part.prepare()
    monkeypatch.setattr(Query, "uncovered_bytes", 100)
    monkeypatch.setattr(Query, "append", lambda *_: None, raising=False)
    assert not list(part.part.execute(0, rows(0, 3)))
    monkeypatch.setattr(Query, "uncovered_bytes", 101)
    with pytest.raises(ValueError, match="101 bytes of its input have come, and no punctuation covers them; expected"):
        part.part.execute(0, rows(0, 3))
    await part.close()
