"""Where streams enter a peer: pushed items, the peer's own samples, paced traces."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable, Iterable, Iterator

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synergy_nb.dataflow.operators import create
from synergy_nb.dataflow.streams.log.chunking import coalesce
from synergy_nb.dataflow.streams.log.log import Limits
from synergy_nb.dataflow.streams.log.values import ORIGIN, Chunk, Point, encoded
from synergy_nb.dataflow.tuples import END, START, TYPES, Batch, Item, Punctuation, decode, encode
from synergy_nb.plan import source
from synergy_nb.plan.checks.source_sizes import SourceSize
from synergy_nb.plan.checks.trace_facts import TraceFacts
from synergy_nb.plan.derived.gathering import LONGEST_S, STEP_S, gathering
from synergy_nb.runtime.data._spark_part import PartCallbacks, SparkPart
from synergy_nb.runtime.data.sources import FEW_ROWS, PeerFeed, PushFeed, Stream, ThreadFeed
from synergy_nb.runtime.data.spark_servers import SparkHost
from tests.runtime.emptied_feed import EmptiedFeed
from tests.two_hosts import Pair, arrival, deployment, fetched, numbers, play, table, trace
from tests.waiting import DEADLINE, first_of, turns, until

on_loop = play  # how the tests that are coroutines run

TIME = {"time": "time"}
COLUMNS = {
    name: "int" if name in {"source_port", "destination_port", "bytes"} else "str" for name in table(0, 1).columns[1:]
}


async def test_a_pushed_source_takes_each_item_once_and_refuses_wrong_ones() -> None:
    pair = Pair(limits=Limits(window=20_000, results=20_000))
    one = pair.net["a"]
    plan = source("python", name="mine", columns=COLUMNS).filter("bytes >= 0").sink()
    order = deployment("app", plan, dict.fromkeys(plan.operators, "a"))
    one.carry_out(msgspec.structs.replace(order, running=False))
    with pytest.raises(LookupError, match="name: 'mine'; expected a python source of application 'app'"):
        one.pushed.push("app", "mine", b"")
    one.carry_out(order)
    with pytest.raises(LookupError, match="name: 'yours'; expected a python source of application 'app'"):
        one.pushed.push("app", "yours", b"")
    with pytest.raises(ValueError, match="item: "):
        one.pushed.push("app", "mine", b"nothing that an item looks like")
    assert not one.pushed.push("app", "mine", encode(Batch(table(0, 1), 3, 0.0))), "items before it are missing"
    assert not one.pushed.full("app", "mine")
    with pytest.raises(ValueError, match="column 'bytes'"):
        one.pushed.push("app", "mine", encode(Batch(table(0, 1).drop("bytes"), 0, 0.0)))
    pushed = 0
    while one.pushed.push("app", "mine", encode(Batch(table(pushed, 10), pushed, 0.0))):
        pushed += 10
        one.pushed.push("app", "mine", encode(Batch(table(pushed - 10, 10), pushed - 10, 0.0)))  # again: it is known
        assert pushed < 10_000, "a queue that is never full is not bounded"
        await turns()
    received: list[int] = []

    async def insist(item: Item) -> None:
        while not one.pushed.push("app", "mine", encode(item)):
            received.extend(numbers(fetched(one, "app")))
            await first_of(one.pushed.room("app", "mine"), arrival(one, "app"))

    await insist(Batch(table(pushed - 5, 10), pushed - 5, 0.0))  # half of it is new
    pushed += 5
    await insist(Punctuation(END, pushed, 0.0))
    received += numbers(await pair.results("a", "app"))
    assert received == list(range(pushed))
    assert one.pushed.push("app", "mine", encode(Punctuation(END, pushed, 0.0)))
    with pytest.raises(ValueError, match="item: a batch after the end of the stream; expected none"):
        one.pushed.push("app", "mine", encode(Batch(table(pushed, 1), pushed, 0.0)))


async def test_peers_emit_their_own_samples() -> None:
    samples = [[("cpu", "process", 0.25), ("ping", "b", 0.003)], [("cpu", "process", 0.5)], []]

    pair = Pair(samples=lambda: samples.pop(0))
    one = pair.net["a"]
    pair.deploy("app", source("peers", interval=3600).sink(), {"source": "a", "sink": "a"})
    feed = next(iter(one.feeds.values()))
    assert isinstance(feed, PeerFeed)
    for _ in range(2):
        await until(lambda: not feed.pending)  # what is old is worth nothing: no sample is taken while one waits
        feed.tick()
    await until(lambda: one.qos("app")["tuples"] == 3)
    batches = fetched(one, "app")
    rows = [row for batch in batches for row in batch.table.select("peer", "metric", "target", "value").rows()]
    assert rows == [("a", "cpu", "process", 0.25), ("a", "ping", "b", 0.003), ("a", "cpu", "process", 0.5)]
    assert batches[0].position == 0  # whether the second sample is in a batch of its own depends on who is faster
    times = [time for batch in batches for time in batch.table["time"]]
    assert times[1] < times[2]


async def test_a_live_stream_has_positions_true_punctuations_and_the_schema_of_its_plan() -> None:
    clock = iter((10.0, 10.5, 10.5, 9.0))  # it stands still, and steps back
    feed = PeerFeed(
        lambda: None,
        lambda: next(clock),
        most=1 << 20,
        loop=asyncio.get_running_loop(),
        address="a",
        interval=1000.0,
        samples=lambda: [("cpu", "process", 0.25), ("ping", "b", 0.003)],
    )
    found = []
    for _ in range(4):
        feed.tick()
        found += [chunk.item for chunk in feed.pending]
        feed.pending.clear()  # everything downstream has room
    feed.stop()
    batches = [item for item in found if isinstance(item, Batch)]
    promises = [item for item in found if isinstance(item, Punctuation)]
    times = [int(batch.table["time"].to_physical()[0]) for batch in batches]
    assert times == [10_000_000, 10_500_000, 10_500_001, 10_500_002]
    assert all(promise.time <= later for promise, later in zip(promises, times[1:], strict=False))
    assert [batch.position for batch in batches] == [0, 2, 4, 6]
    assert [promise.position for promise in promises] == [2, 4, 6, 8]
    assert batches[0].born == 10.0
    declared = source("peers").sink("out").schema("source")
    assert dict(batches[1].table.schema) == {name: TYPES[kind] for name, kind in declared.items()}


class Replay(EmptiedFeed):
    """What a feed makes of a stream, and a clock that goes on only while the feed waits."""

    def __init__(
        self,
        items: Iterable[tuple[float, Item]],
        since: Point = ORIGIN,
        *,
        paced: bool = True,
        gathers: float = 0.0,
        in_step: bool = False,
    ) -> None:
        super().__init__()
        self.now = 1000.0
        self.waited: list[float] = []
        self.on_wait: Callable[[int], None] = lambda _number: None
        self.failures: list[BaseException] = []

        self.feed = ThreadFeed(
            self.empty,
            self.clock,
            most=1 << 20,
            since=since,
            loop=asyncio.get_running_loop(),
            read=lambda _skipped: (iter(items), paced),
            gathers=gathers,
            in_step=in_step,
            failed=self.failures.append,
            name="synergy test",
        )
        self.feed.halt = Halt(self)  # type: ignore[assignment]

    def clock(self) -> float:
        return self.now


class Halt(threading.Event):
    """Whoever waits for it has waited at once."""

    def __init__(self, replay: Replay) -> None:
        super().__init__()
        self.replay = replay

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.replay.waited.append(timeout)
        self.replay.on_wait(len(self.replay.waited))
        self.replay.now += timeout
        return self.is_set()


async def collected(stream: Stream, clock: Callable[[], float], *, paced: bool = True) -> list[Chunk]:
    """What a feed makes of a stream whose clock shows these times."""
    replay = Replay(stream, paced=paced)
    replay.feed.clock = clock
    chunks = await replay.whole()
    assert not replay.failures
    return chunks


def until_of(chunks: list[Chunk]) -> list[int]:
    """Event times that are promised, in their order."""
    return [chunk.item.time for chunk in chunks if isinstance(chunk.item, Punctuation)]


def tuples_of(chunks: list[Chunk]) -> list[int]:
    """Values of the tuples, in their order."""
    return numbers([chunk.item for chunk in chunks if isinstance(chunk.item, Batch)])


def follow(chunks: list[Chunk], since: Point) -> None:
    """Each chunk begins where the one before it ended, and its item is where the chunk says."""
    for chunk in chunks:
        assert chunk.start == since < chunk.end
        assert chunk.item.position == since.position
        assert chunk.rows == (chunk.item.rows if isinstance(chunk.item, Batch) else 0)
        since = chunk.end


def pieces(number: int, every: float) -> Stream:
    """A tuple every ``every`` seconds, and a punctuation after each."""
    for index in range(number):
        yield index * every, Batch(table(index, 1), index, 0.0)
        yield index * every, Punctuation((index + 1) * 1000, index + 1, 0.0)
    yield (number - 1) * every, Punctuation(END, number, 0.0)


async def test_a_source_that_is_behind_merges_overdue_items() -> None:
    """The thread gets the processor at the start, and then not for 0.5 s."""
    looks = itertools.chain([1000.0], itertools.repeat(1000.5))

    seen = await collected(pieces(100, 1 / 256), lambda: next(looks))
    follow(seen, ORIGIN)
    batches = [chunk for chunk in seen if chunk.rows]
    assert tuples_of(seen) == list(range(100))
    assert [(chunk.start.position, chunk.rows) for chunk in batches] == [(0, 52), (52, 48)]
    assert [chunk.born for chunk in batches] == [1000.0, 1000.0 + 52 / 256], "as old as the oldest tuple"
    assert [chunk.end for chunk in seen if not chunk.rows] == [(52, 52_000), (100, END)]


async def test_a_source_in_time_emits_each_item_unchanged() -> None:
    """The clock is the due time of the item."""
    dues = [due for due, _ in pieces(20, 0.1) for _ in range(2)]
    looks = itertools.chain([1000.0], (1000.0 + due for due in dues))

    seen = await collected(pieces(20, 0.1), lambda: next(looks))
    assert len(seen) == 41
    assert [chunk.born - 1000.0 for chunk in seen] == pytest.approx([due for due, _ in pieces(20, 0.1)])


@pytest.mark.parametrize(("gathers", "most"), [(0.0, 81), (0.2, 33), (0.5, 17)])
async def test_a_source_that_gathers_emits_what_is_due_at_common_instants(gathers: float, most: int) -> None:
    """Ten tuples a second, each with a promise, for four seconds: counted, as each chunk costs its way to the sink."""
    left: list[float] = []
    replay = Replay(pieces(40, 0.1), gathers=gathers)
    replay.feed.encodes_from = 0
    replay.feed.encode = lambda chunk: left.extend([replay.now] * bool(chunk.rows))  # in the thread, as it leaves
    seen = await replay.whole()
    assert not replay.failures
    follow(seen, ORIGIN)
    assert tuples_of(seen) == list(range(40))
    assert until_of(seen)[-1] == END
    assert len(seen) == most
    births = [chunk.born for chunk in seen if chunk.rows]
    assert left[0] == births[0] == 1000.0, "the first one is not kept back"
    for at, born in zip(left, births, strict=True):
        assert at - born <= gathers + 1e-6
        assert not gathers or at == 1000.0 or at / STEP_S == pytest.approx(round(at / STEP_S))


async def test_the_thread_of_a_source_encodes_no_few_rows() -> None:
    encoded: list[int] = []
    for rows in (FEW_ROWS - 1, FEW_ROWS):
        items: list[tuple[float, Item]] = [(0.0, Batch(table(0, rows), 0, 0.0)), (0.0, Punctuation(END, rows, 0.0))]
        replay = Replay(items)
        replay.feed.encode = lambda chunk: encoded.extend([chunk.rows] * bool(chunk.rows))
        await replay.whole()
    assert encoded == [FEW_ROWS]


async def test_a_source_that_gathers_stands_still_at_once_and_loses_nothing() -> None:
    replay = Replay(pieces(20, 0.1), gathers=1.0)
    paces = {2: 0.0, 10: 1.0}  # by the number of the wait, the first of them while it gathers
    replay.on_wait = lambda number: replay.feed.change_pace(paces[number]) if number in paces else None
    seen = await replay.whole()
    assert not replay.failures
    follow(seen, ORIGIN)
    assert tuples_of(seen) == list(range(20))
    assert len(replay.waited) > 10


@st.composite
def streams(draw: st.DrawFn) -> list[Item]:
    """Batches and punctuations in any order; tuples may be late."""
    made: list[Item] = []
    position = 0
    for _ in range(draw(st.integers(0, 12))):
        born = float(draw(st.integers(0, 9)))
        if draw(st.booleans()):
            first, rows = draw(st.integers(0, 60)), draw(st.integers(0, 5))
            made.append(Batch(table(first, rows), position, born))
            position += rows
        else:
            made.append(Punctuation(draw(st.integers(0, 70)) * 1000, position, born))
    return made


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(streams(), st.data())
def test_merging_loses_doubles_reorders_and_makes_late_nothing(stream: list[Item], data: st.DataObject) -> None:
    """An operator gives the same rows at the same positions and drops the same late ones, however its input is cut."""
    plans = {
        "windows": trace().aggregate(by=["source"], window="10 ms", n="count(*)", total="sum(bytes)"),
        "filter": trace().filter("bytes % 2 = 0"),
        "rows": trace().aggregate(by=["source"], window="3 rows", n="count(*)"),
    }
    plan = plans[data.draw(st.sampled_from(sorted(plans)))].sink()
    operator = next(one for one in plan.operators.values() if one.kind not in ("source", "sink"))
    groups = [stream]
    for _ in range(data.draw(st.integers(0, 3))):
        cut = data.draw(st.integers(0, len(groups[-1])))
        groups[-1:] = [groups[-1][:cut], groups[-1][cut:]]
    merged = [item for group in groups for item in coalesce(group)]
    assert len(merged) <= len(stream)
    outcomes = []
    for fed in (stream, merged):
        position = 0
        for item in fed:
            assert item.position == position
            position += item.rows if isinstance(item, Batch) else 0
        logic = create(operator, plan)
        out: list[Item] = []
        for item in (*fed, Punctuation(END, position, 9.0)):
            out += logic.on_batch(0, item) if isinstance(item, Batch) else logic.on_punctuation(0, item)
        rows = [row for item in out if isinstance(item, Batch) for row in item.table.rows()]
        outcomes.append((rows, logic.late, logic.position))
    assert outcomes[0] == outcomes[1]


def test_merged_items_have_the_entry_time_of_the_oldest() -> None:
    first, second = Batch(table(0, 2), 4, 3.0), Batch(table(2, 3), 6, 4.0)
    early, late = Punctuation(1000, 6, 3.5), Punctuation(5000, 9, 4.5)
    assert coalesce([first, early, second, late]) == [Batch(table(0, 5), 4, 3.0), Punctuation(5000, 9, 3.5)]
    assert coalesce([first, early, second]) == [Batch(table(0, 5), 4, 3.0), Punctuation(1000, 9, 3.5)]
    assert coalesce([first, late, second]) == [first, msgspec.structs.replace(late, position=9), second]


@pytest.mark.parametrize("paced", [True, False])
async def test_tuples_of_a_paced_stream_enter_at_their_due_times(paced: bool) -> None:
    """The clock goes 10 s ahead at each look, so that nothing is ever waited for."""
    looks = itertools.count(1000, 10)

    stream = iter([(0.0, Batch(table(0, 1), 0, 0.0)), (1.5, Batch(table(1, 2), 0, 0.0))])
    seen = await collected(stream, lambda: float(next(looks)), paced=paced)
    assert [chunk.end for chunk in seen] == [(1, START), (3, START), (3, END)], "the end is added"
    births = [chunk.born for chunk in seen[:2]]
    if paced:
        assert births[1] - births[0] == 1.5
    else:
        assert births[1] - births[0] == 10.0


# -- from a place on -------------------------------------------------------------------------------------------------


def batches(number: int, rows: int) -> Stream:
    """Batches with a punctuation behind each, the last of which ends the stream."""
    for index in range(1, number + 1):
        yield float(index), Batch(table((index - 1) * rows, rows), 0, 0.0)
        yield float(index), Punctuation(END if index == number else index * rows * 1000, 0, 0.0)


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(st.data())
def test_a_stream_that_is_read_again_continues_behind_any_position(data: st.DataObject) -> None:
    """Whatever was given up to that place and what is given behind it are the whole stream."""
    number, rows = data.draw(st.integers(1, 8)), data.draw(st.integers(1, 7))
    position = data.draw(st.integers(0, number * rows))
    promised = data.draw(st.integers(0, position // rows))
    since = Point(position, START if not promised else END if promised == number else promised * rows * 1000)

    async def scenario() -> None:
        replay = Replay(batches(number, rows), since, paced=False)
        chunks = await replay.whole()
        assert not replay.failures
        follow(chunks, since)
        assert replay.feed.point == ((number * rows, END) if chunks else since)
        assert tuples_of(chunks) == list(range(position, number * rows))
        told = until_of(chunks)
        assert told == sorted(set(told))
        assert told[-1:] == ([] if since.until == END else [END])
        assert all(until > since.until for until in told)

    play(scenario())


async def test_a_position_within_a_batch_splits_it() -> None:
    chunks = await Replay(batches(3, 10), Point(14, 10_000), paced=False).whole()
    assert [(chunk.start, chunk.end) for chunk in chunks] == [
        ((14, 10_000), (20, 10_000)),
        ((20, 10_000), (20, 20_000)),
        ((20, 20_000), (30, 20_000)),
        ((30, 20_000), (30, END)),
    ]
    assert tuples_of(chunks) == list(range(14, 30))


async def test_a_new_punctuation_among_skipped_tuples_is_emitted_once() -> None:
    chunks = await Replay(batches(4, 10), Point(25, 5000), paced=False).whole()
    assert [chunk.end for chunk in chunks[:3]] == [(25, 20_000), (30, 20_000), (30, 30_000)]
    assert tuples_of(chunks) == list(range(25, 40))


async def test_behind_the_end_of_a_stream_nothing_is_emitted() -> None:
    replay = Replay(batches(2, 10), Point(20, END), paced=False)
    assert await replay.whole() == []
    assert not replay.failures
    last = await Replay(batches(2, 10), Point(20, 15_000), paced=False).whole()
    assert [(chunk.start, chunk.end) for chunk in last] == [((20, 15_000), (20, END))]


async def test_a_stream_that_has_become_shorter_fails() -> None:
    replay = Replay(batches(2, 10), Point(21, 15_000), paced=False)
    assert await replay.whole() == []
    assert [str(error) for error in replay.failures] == [
        "its stream has 20 tuples; expected at least 21, as it had before"
    ]


async def test_the_pace_counts_from_the_first_item_that_is_given() -> None:
    """A tuple every 10 s: the 900 that are left out are not waited for, those that follow are."""

    replay = Replay(pieces(1000, 10.0), Point(900, 900_000))
    chunks = await replay.whole()
    assert tuples_of(chunks) == list(range(900, 1000))
    births = [chunk.born for chunk in chunks if chunk.rows]
    assert births == pytest.approx([1000.0 + 10.0 * number for number in range(100)])
    assert sum(replay.waited) == pytest.approx(990.0)


async def test_beside_other_readers_what_came_while_tuples_were_skipped_is_overdue() -> None:
    """Half a second passes until the 900th tuple of ten a second: the next ones are given at once, and then in step."""

    def slowly() -> Stream:
        for number, entry in enumerate(pieces(1000, 0.1)):
            if number == 1800:
                replay.now += 0.5
            yield entry

    replay = Replay(slowly(), Point(900, 900_000), in_step=True)
    chunks = await replay.whole()
    assert tuples_of(chunks) == list(range(900, 1000))
    assert sum(replay.waited) == pytest.approx(99 * 0.1 - 0.5)
    births = [chunk.born for chunk in chunks if chunk.rows]
    assert births[0] == 1000.0
    assert births[-1] == pytest.approx(1000.0 + 99 * 0.1)


@pytest.mark.slow
async def test_skipped_tuples_are_not_retained_and_skipping_can_be_cancelled() -> None:
    skipped = threading.Event()

    def endless() -> Iterator[tuple[float, Item]]:
        for number in itertools.count():
            if number == 1000:
                skipped.set()
            yield 0.0, Batch(table(0, 1), 0, 0.0)

    replay = Replay(endless(), Point(1 << 60, 0))
    replay.feed.start()
    assert await asyncio.to_thread(skipped.wait, DEADLINE)
    assert not replay.chunks
    replay.feed.stop()
    await asyncio.wait_for(replay.feed.closed(), DEADLINE)
    assert not replay.failures


def test_a_pushed_source_continues_behind_a_position() -> None:
    feed = PushFeed(lambda: None, lambda: 7.0, most=500, since=Point(10, 5000), schema=COLUMNS | TIME, room=1 << 20)
    feed.encode = encoded

    def push(item: Item) -> list[Chunk]:
        assert feed.push(encode(item))
        found = list(feed.pending)
        feed.pending.clear()
        return found

    assert push(Batch(table(0, 10), 0, 0.0)) == [], "it is known"
    assert push(Punctuation(4000, 10, 0.0)) == [], "it says nothing new"
    assert push(Punctuation(6000, 9, 0.0)) == [], "it belongs before the place"
    assert not feed.push(encode(Batch(table(20, 1), 20, 0.0))), "items before it are missing"
    assert not feed.push(encode(Batch(table(10, 1), 10, 0.0)), Point(10, 5001)), "a promise before it is missing"
    assert not feed.pending
    chunks = push(Batch(table(5, 30), 5, 0.0)) + push(Punctuation(30_000, 35, 0.0))
    follow(chunks, Point(10, 5000))
    assert len(chunks) > 2
    assert tuples_of(chunks) == list(range(10, 35))
    assert feed.point == (35, 30_000)
    assert feed.push(encode(Batch(table(35, 1), 35, 0.0)), Point(35, 30_000), 2.5)
    assert feed.pending.pop().born == 4.5, "it was sent to another peer before"
    for chunk in chunks:
        assert chunk.size <= 500
        assert chunk.born == 7.0
        if chunk.rows:
            assert chunk.payload is not None
            assert decode(chunk.payload) == chunk.item
        else:
            assert chunk.payload is None, "a punctuation is sent as its points"


async def test_samples_of_a_peer_follow_those_of_its_predecessor() -> None:
    """Its clock is behind, and yet no sample breaks a promise of the other."""

    since = Point(4, 20_000_000)
    feed = PeerFeed(
        lambda: None,
        lambda: 10.0,
        most=1 << 20,
        since=since,
        loop=asyncio.get_running_loop(),
        address="b",
        interval=1000.0,
        samples=lambda: [("cpu", "process", 0.25)],
    )
    feed.tick()
    chunks = list(feed.pending)
    feed.stop()
    follow(chunks, since)
    assert isinstance(chunks[0].item, Batch)
    assert int(chunks[0].item.table["time"].to_physical()[0]) == 20_000_000
    assert chunks[1].end == (5, 20_000_001)


async def test_results_of_a_query_continue_behind_a_position_and_wait_until_they_are_read() -> None:
    """The query counts its tuples from 0, and says when each was born."""

    since, loop = Point(5, 1000), asyncio.get_running_loop()
    part = SparkPart(
        lambda: None,
        lambda: 9.0,
        most=1 << 20,
        since=since,
        host=SparkHost(loop, lambda: 9.0, lambda *_, **__: None),
        application="app",
        operator=trace().sink().operators["source"],
        secrets={},
        told=PartCallbacks(
            failed=lambda _: None,
            prepared=lambda: None,
            executed=lambda _rows, _seconds: None,
            room=lambda: None,
        ),
    )
    part._arrived([Batch(table(0, 3), 0, 7.0), Punctuation(500, 3, 8.0), Punctuation(3000, 3, 8.0)])
    await until(lambda: len(part.pending) == 2)
    chunks = list(part.pending)
    follow(chunks, since)
    assert [chunk.end for chunk in chunks] == [(8, 1000), (8, 3000)]
    assert [chunk.born for chunk in chunks] == [7.0, 8.0]
    assert part.state_bytes == sum(chunk.size for chunk in chunks)
    for chunk in chunks:
        part.emitted(chunk)
    assert part.state_bytes == 0
    part.stop()


@pytest.mark.parametrize(("factor", "apart"), [(2.0, 0.05), (0.5, 0.2)])
async def test_a_source_changes_its_pace_while_it_is_read(factor: float, apart: float) -> None:
    def stream() -> Stream:
        for number, entry in enumerate(pieces(20, 0.1)):
            if number == 20:  # the eleventh tuple: the tenth has been emitted, and its time is now
                replay.feed.change_pace(factor)
            yield entry

    replay = Replay(stream())
    chunks = await replay.whole()
    assert not replay.failures
    follow(chunks, ORIGIN)
    born = [chunk.born for chunk in chunks if chunk.rows]
    gaps = [later - earlier for earlier, later in itertools.pairwise(born)]
    assert gaps[:9] == pytest.approx([0.1] * 9)
    assert gaps[9:] == pytest.approx([apart] * 10)


async def test_a_source_on_hold_stands_still_and_goes_on_at_its_pace() -> None:
    def stream() -> Stream:
        for number, entry in enumerate(pieces(20, 0.1)):
            if number == 20:  # the eleventh tuple: the tenth has been emitted, and its time is now
                replay.feed.hold(on=True)
                replay.feed.change_pace(2.0)  # which counts from the end of the hold on
                held.append(replay.now)
            yield entry

    held: list[float] = []
    replay = Replay(stream())

    class Released(Halt):
        def wait(self, timeout: float | None = None) -> bool:
            if replay.feed.on_hold and replay.now > held[0] + 30.0:
                replay.feed.hold(on=False)
            return super().wait(timeout)

    replay.feed.halt = Released(replay)  # type: ignore[attr-defined]
    chunks = await replay.whole()
    assert not replay.failures
    follow(chunks, ORIGIN)
    born = [chunk.born for chunk in chunks if chunk.rows]
    gaps = [later - earlier for earlier, later in itertools.pairwise(born)]
    assert gaps[:9] == pytest.approx([0.1] * 9)
    assert 30.0 < gaps[9] < 30.5
    assert gaps[-5:] == pytest.approx([0.05] * 5)


async def test_a_row_that_is_due_as_its_source_is_stopped_enters_then() -> None:
    """Not at the end of time: what merges rows by the time at which they entered could not go on."""
    replay = Replay(pieces(20, 0.1))

    class Stopped(Halt):
        def wait(self, timeout: float | None = None) -> bool:
            found = super().wait(timeout)
            if replay.now >= 1000.95 and not stopped:
                stopped.append(replay.now)
                replay.feed.change_pace(0.0)
            elif stopped and replay.now > stopped[0] + 30.0:
                replay.feed.change_pace(1.0)
            return found

    stopped: list[float] = []
    replay.feed.halt = Stopped(replay)  # type: ignore[attr-defined]
    chunks = await replay.whole()
    assert not replay.failures
    born = [chunk.born for chunk in chunks]
    assert born == sorted(born)
    assert stopped[0] in born
    assert born[-1] < stopped[0] + 35.0


async def test_rows_that_waited_for_the_end_of_a_hold_enter_then() -> None:
    now = [5.0]
    feed = PushFeed(lambda: None, lambda: now[0], most=1 << 20, schema=COLUMNS, room=1)
    feed.hold(on=True)
    assert feed.push(encode(Batch(table(0, 1), 0, 0.0)))
    assert not feed.push(encode(Batch(table(1, 1), 1, 0.0))), "it is full: its client waits"
    encoded(feed.pending[0])
    now[0] = 65.0
    feed.hold(on=False)
    (chunk,) = feed.pending
    assert (chunk.born, chunk.item.born, chunk.payload) == (65.0, 65.0, None)
    feed.emitted(feed.pending.popleft())
    assert feed.push(encode(Batch(table(1, 1), 1, 0.0)), age=50.0)
    assert feed.pending[0].born == 65.0, "nobody wanted it before"


async def test_rows_that_are_pushed_have_no_pace() -> None:
    replay = Replay(pieces(3, 0.1), paced=False)
    await replay.whole()
    with pytest.raises(ValueError, match="expected a trace or generated tuples with a speed"):
        replay.feed.change_pace(2.0)


def test_a_trace_without_a_rate_gathers_for_the_longest_time() -> None:
    """The profile of a single row tells the rate 0: such a plan could not be submitted."""
    trace = source("trace", path="one.parquet", format="parquet", columns={"v": "int"}, speed=60).sink(delay="1 h")
    one = trace.sized({"source": SourceSize(facts=TraceFacts("one row", 0.0, (), {}, ()))})
    assert gathering(one, "source") == LONGEST_S
