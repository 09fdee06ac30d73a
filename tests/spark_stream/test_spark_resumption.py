"""A query that continues at another peer with the checkpoint that Spark stores, without Spark."""

from __future__ import annotations

import random
import threading
from typing import Any

import msgspec
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_stream._exchange import Exchange
from spark_stream._spool import FIRST, Offset, Spool
from spark_stream._tables import MARK, arrow_schema
from spark_stream.callbacks import QueryCallbacks
from spark_stream.part import Part
from spark_stream.peer_endpoint import PeerEndpoint
from spark_stream.query import PartQuery, SparkAccess
from spark_stream.results import NONE, DeliveryProgress, ExchangeRefused
from synergy_nb.dataflow.streams.log.values import ORIGIN, Chunk, Point, chunks_of
from synergy_nb.dataflow.tuples import END, Batch, Item, Punctuation
from synergy_nb.plan import source
from tests.spark_stream.endpoint_batches import COLUMNS, END_TIME, batch, numbers

STEPS = ("planned", "read", "handed", "committed")  # how far Spark comes with a micro-batch before its query is stopped


def streams(data: st.DataObject) -> list[Item]:
    """Batches whose times are mixed, and punctuations that no tuple comes too late for; some come at their time."""
    items: list[Item] = []
    position = low = 0
    for _ in range(data.draw(st.integers(2, 14))):
        if data.draw(st.booleans()):
            times = data.draw(st.lists(st.integers(low, low + 20), min_size=1, max_size=6))
            items.append(batch(times, position))
            position += len(times)
        else:
            low += data.draw(st.integers(1, 12))
            items.append(Punctuation(low, position, 0.0))
    return [*items, Punctuation(END, position, 0.0)]


def behind(chunks: list[Chunk], place: Point, rng: random.Random | None = None) -> list[Item]:
    """What a stream gives to who reads it from a place on; its punctuations may not stand where they stood before."""
    items = [chunk.since(place.position).item for chunk in chunks if chunk.end > place]
    return items if rng is None else divided_anew(items, rng)


def divided_anew(items: list[Item], rng: random.Random) -> list[Item]:
    """The same rows, with punctuations at other positions: some of the times before which nothing follows there."""
    rows = [(item, number) for item in items if isinstance(item, Batch) for number in range(item.rows)]
    times = [int(item.table["time"].cast(pl.Int64)[number]) for item, number in rows]
    known = sorted({item.time for item in items if isinstance(item, Punctuation) and not item.ends})
    found: list[Item] = []
    for index, (item, number) in enumerate(rows):
        if known and rng.random() < 0.5:
            least = min(times[index:])
            place = item.position + number
            found += [Punctuation(time, place, 0.0) for time in known if time <= least and rng.random() < 0.5][-1:]
        found.append(Batch(item.table.slice(number, 1), item.position + number, 0.0))
    return [*found, *items[-1:]]


class Peer:
    """A peer with a query: it takes what comes of it, and says how far that is."""

    def __init__(self, ports: int, since: DeliveryProgress = NONE, inputs: Any = ()) -> None:
        self.items: list[Item] = []
        self.handed = since
        self.refuses = False
        self.exchange = Exchange(
            "q",
            COLUMNS,
            QueryCallbacks(on_items=self.items.extend, on_handed=self._hand),
            windowed=False,
            since=since,
        )
        for start, point in inputs or ((FIRST, ORIGIN),) * ports:
            spool = Spool(start=start, point=point, continues=bool(inputs))
            self.exchange.attach(spool, arrow_schema(COLUMNS), 1)
        self.run = self.exchange.begin(END_TIME)

    def _hand(self, handed: DeliveryProgress) -> None:
        if self.refuses:
            raise ExchangeRefused("the part has left this peer")
        self.handed = handed


class Spark:
    """What Spark keeps of a query: where micro-batches end, and how many it has committed."""

    def __init__(self, ports: int) -> None:
        self.ports = ports
        self.planned: list[tuple[Offset, ...]] = [(FIRST,) * ports]
        self.done = 0  # micro-batches that are committed
        self.rows: list[list[int]] = []  # that it has committed, by port

    def waits_for(self, peer: Peer) -> bool:
        """Whether it is to read again what has not come yet."""
        spans = zip(*self.planned[self.done :], strict=True) if len(self.planned) > self.done + 1 else ()
        return any(
            isinstance(inlet, Spool) and not inlet.reaches(end)
            for inlet, (_, end) in zip(peer.exchange.inlets, spans, strict=False)
        )

    def step(self, peer: Peer, until: str = "committed") -> bool:
        """A micro-batch, if there is a reason for one."""
        exchange, run, number = peer.exchange, peer.run, self.done
        if len(self.planned) == number + 1:
            starts = self.planned[number]
            ends = tuple(exchange.latest(run, port, 0, start, 0.0) for port, start in enumerate(starts))
            if ends == starts:
                return False
            self.planned.append(ends)
        if until == "planned":
            return True
        found: list[pa.Table] = []
        for port, (start, end) in enumerate(zip(*self.planned[number : number + 2], strict=True)):
            for part in exchange.partitions(run, port, 0, start, end) if start != end else ():
                table = exchange.read(run, port, start, end, part)
                found.append(table.filter(pa.compute.invert(table[MARK])).drop_columns([MARK]))
        if until == "read":
            return True
        puts = [str(put) for put in range(len(found))]
        for put, table in zip(puts, found, strict=True):
            exchange.put(run, put, table.to_batches())
        peer.refuses = until == "handed"
        try:
            exchange.finish(run, number, puts)
        except ExchangeRefused:
            return True
        self.done += 1
        self.rows.append(sorted(number for table in found for number in table["n"].to_pylist()))
        return True


def merged(known: dict[int, tuple[int, int]], items: list[Item]) -> None:
    """Take what a peer has emitted: the same rows at the same positions as any peer before it."""
    for item in items:
        if isinstance(item, Batch):
            rows = zip(item.table["time"].cast(pl.Int64), item.table["n"], strict=True)
            for position, row in enumerate(rows, item.position):
                assert known.setdefault(position, row) == row


@pytest.mark.slow
@given(st.data(), st.integers(1, 2), st.randoms(use_true_random=False))
def test_a_query_goes_on_at_another_peer_wherever_it_is_stopped(
    data: st.DataObject, ports: int, rng: random.Random
) -> None:
    inputs = [chunks_of(streams(data), ORIGIN) for _ in range(ports)]
    spark, peer = Spark(ports), Peer(ports)
    waiting = [behind(chunks, ORIGIN) for chunks in inputs]
    known: dict[int, tuple[int, int]] = {}

    def give(most: int) -> None:
        for port, items in enumerate(waiting):
            for item in items[:most]:
                peer.exchange.append(port, item)
            del items[:most]

    for until in data.draw(st.lists(st.sampled_from(("more", "more", *STEPS)), max_size=12)):
        give(data.draw(st.integers(0, 4)))
        if spark.waits_for(peer):
            give(len(waiting[0]) + len(waiting[-1]))
        spark.step(peer, "committed" if until == "more" else until)
        merged(known, peer.items)
        if until != "more":
            state = msgspec.msgpack.encode((peer.handed, peer.exchange.committed))
            handed, places = msgspec.msgpack.decode(state, type=tuple[DeliveryProgress, list[tuple[Offset, Point]]])
            peer = Peer(ports, handed, places)
            waiting = [behind(chunks, place, rng) for chunks, (_, place) in zip(inputs, places, strict=True)]
    give(len(waiting[0]) + len(waiting[-1]))
    for _ in range(100):  # until Spark has asked in vain a few times
        if not spark.step(peer) and peer.exchange.ended:
            break
    merged(known, peer.items)
    assert peer.exchange.ended
    batches = [chunk.item for chunks in inputs for chunk in chunks if isinstance(chunk.item, Batch)]
    assert sorted(row for rows in spark.rows for row in rows) == sorted(numbers([each.table for each in batches]))
    assert sorted(known) == list(range(sum(each.rows for each in batches)))


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("positions", [(3, 5), (5, 3)])
def test_rows_of_a_micro_batch_are_the_same_if_a_punctuation_of_its_time_comes_elsewhere(
    positions: tuple[int, int], before: bool
) -> None:
    """Before a row of that time, or behind it; whether Spark asks for them before the rows come, or later."""

    def divided(spool: Spool, position: int) -> None:
        spool.append(batch([1, 4, 9, 4, 5][:position]))
        spool.append(Punctuation(4, position, 0.0))
        spool.append(batch([1, 4, 9, 4, 5][position:], position))
        spool.append(Punctuation(END, 5, 0.0))

    first, again = Spool(most=1), Spool(continues=True)
    divided(first, positions[0])
    end, last = first.latest(0, FIRST, 0.0), Offset(5, END)
    assert end == Offset(positions[0], 4)
    if before:
        again.await_until(FIRST, end)
    divided(again, positions[1])
    again.await_until(FIRST, end)
    assert again.reaches(end)
    assert numbers(again.tables(FIRST, end)) == numbers(first.tables(FIRST, end))
    again.commit(0, end)
    assert again.freed == end
    assert again.committed.position <= 2, "the row that is not committed comes again"
    assert sorted(numbers(again.tables(end, last))) == numbers(first.tables(end, last))


def test_an_offset_covers_no_row_that_has_not_come() -> None:
    """Also if the query before had come to a later position."""
    spool = Spool(start=Offset(3, 3), point=Point(0, 3), continues=True)
    spool.append(batch([5]))
    spool.append(Punctuation(9, 1, 0.0))
    spool.append(batch([9, 9], 1))
    assert spool.latest(0, Offset(3, 3), 0.0) == Offset(1, 9)


def test_input_during_the_start_of_a_query_follows_earlier_input(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = source("python", name="n", columns={"n": "int", "text": "str"}, rate=1.0, id="s")
    plan = stream.filter("n >= 0", engine="spark", id="f").sink()
    taken: list[int] = []
    query = PartQuery(
        Part("app", "f", plan, ("f",), ("s",)),
        SparkAccess(lambda: None, PeerEndpoint(), lambda _: None),  # type: ignore[arg-type, return-value]
        QueryCallbacks(),
        secrets={},
    )
    query.input.append(0, batch([1, 2]))
    query.input.append(0, Punctuation(5, 2, 0.0))
    other = threading.Thread(target=query.input.append, args=(0, batch([6], 2)))
    append = Exchange.append

    def slowly(exchange: Exchange, port: int, item: Item) -> None:
        if not taken:
            other.start()
        taken.append(item.position)
        append(exchange, port, item)

    monkeypatch.setattr(Exchange, "append", slowly)
    exchange = query._prepare()
    other.join()
    assert taken == [0, 2, 2]
    assert exchange.late == 0
    assert isinstance(exchange.inlets[0], Spool)
    assert exchange.inlets[0].loose > 0, "what came last is behind the punctuation"
