"""Where streams enter a peer: pushed items, the peer's own samples, paced traces."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synergy_nb.dataflow.hosting import Parcel
from synergy_nb.dataflow.operators import create
from synergy_nb.dataflow.packing import coalesce
from synergy_nb.dataflow.tuples import END, TYPES, Batch, Item, Punctuation, encode
from synergy_nb.graph import Deploy, Start
from synergy_nb.plan import source
from synergy_nb.runtime.sources import PeerFeed, Stream, ThreadFeed
from tests.two_hosts import Pair, fetched, numbers, play, table, trace
from tests.waiting import DEADLINE, turns, until


def test_a_pushed_source_takes_each_item_once_and_turns_away_what_does_not_fit() -> None:
    async def scenario() -> None:
        pair = Pair(window_bytes=20_000, result_bytes=20_000)
        one = pair.net["a"]
        columns = {
            name: "int" if name in {"source_port", "destination_port", "bytes"} else "str"
            for name in table(0, 1).columns[1:]
        }
        plan = source("python", name="mine", columns=columns).filter("bytes >= 0").sink()
        for operator in reversed(list(plan.operators)):
            one.carry_out(Deploy("app", operator, plan.to_bytes(), dict.fromkeys(plan.operators, "a")))
        with pytest.raises(LookupError, match="application 'app' has no started source 'mine'"):
            one.push("app", "mine", b"")
        one.carry_out(Start("app", "source"))
        with pytest.raises(LookupError, match="application 'app' has no started source 'yours'"):
            one.push("app", "yours", b"")
        with pytest.raises(ValueError, match="item: "):
            one.push("app", "mine", b"nothing that an item looks like")
        with pytest.raises(ValueError, match="position: 3; expected 0: items are missing"):
            one.push("app", "mine", encode(Batch(table(0, 1), 3, 0.0)))
        with pytest.raises(ValueError, match="column 'bytes'"):
            one.push("app", "mine", encode(Batch(table(0, 1).drop("bytes"), 0, 0.0)))
        pushed = 0
        while one.push("app", "mine", encode(Batch(table(pushed, 10), pushed, 0.0))):
            pushed += 10
            one.push("app", "mine", encode(Batch(table(pushed - 10, 10), pushed - 10, 0.0)))  # again: it is known
            assert pushed < 10_000, "a queue that is never full is not bounded"
            await turns()
        received: list[int] = []

        async def insist(item: Item) -> None:
            while not one.push("app", "mine", encode(item)):
                waiting = asyncio.create_task(one.room("app", "mine"))
                while not waiting.done():
                    received.extend(numbers(fetched(one, "app")))
                    await turns()

        await insist(Batch(table(pushed - 5, 10), pushed - 5, 0.0))  # half of it is new
        pushed += 5
        await insist(Punctuation(END, pushed, 0.0))
        received += numbers(await pair.results("a", "app"))
        assert received == list(range(pushed))
        assert one.push("app", "mine", encode(Punctuation(END, pushed, 0.0)))
        with pytest.raises(ValueError, match="batch after the end of the stream"):
            one.push("app", "mine", encode(Batch(table(pushed, 1), pushed, 0.0)))

    play(scenario)


def test_peers_emit_their_own_samples() -> None:
    samples = [[("cpu", "process", 0.25), ("ping", "b", 0.003)], [("cpu", "process", 0.5)], []]

    async def scenario() -> None:
        pair = Pair(samples=lambda: samples.pop(0))
        one = pair.net["a"]
        pair.deploy("app", source("peers", interval=3600).sink(), {"source": "a", "sink": "a"})
        feed = next(iter(one._path.feeds.values()))
        assert isinstance(feed, PeerFeed)
        feed.tick()
        feed.tick()
        await until(lambda: one.qos("app")["tuples"] == 3)
        batches = fetched(one, "app")
        rows = [row for batch in batches for row in batch.table.select("peer", "metric", "target", "value").rows()]
        assert rows == [("a", "cpu", "process", 0.25), ("a", "ping", "b", 0.003), ("a", "cpu", "process", 0.5)]
        assert [batch.position for batch in batches] == [0, 2]
        assert batches[0].table["time"][0] < batches[1].table["time"][0]

    play(scenario)


def test_a_live_stream_has_positions_true_punctuations_and_the_schema_of_its_plan() -> None:
    async def scenario() -> None:
        clock = iter((10.0, 10.5, 10.5, 9.0))  # it stands still, and steps back
        feed = PeerFeed(
            lambda: None,
            lambda: next(clock),
            wire=False,
            most=1 << 20,
            loop=asyncio.get_running_loop(),
            address="a",
            interval=1000.0,
            samples=lambda: [("cpu", "process", 0.25), ("ping", "b", 0.003)],
        )
        found = []
        for _ in range(4):
            feed.tick()
            found += [parcel.item for parcel in feed.pending]
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

    play(scenario)


async def collected(stream: Stream, clock: Callable[[], float], most: int = 1 << 20) -> list[Parcel]:
    """What a feed makes of a paced stream, until its end."""
    got = asyncio.Event()
    failures: list[BaseException] = []
    feed = ThreadFeed(
        got.set,
        clock,
        wire=False,
        most=most,
        loop=asyncio.get_running_loop(),
        read=lambda: (stream, True),
        failed=failures.append,
        name="synergy test",
    )
    feed.start()
    seen: list[Parcel] = []
    while not (seen and seen[-1].time == END):
        await asyncio.wait_for(got.wait(), DEADLINE)
        got.clear()
        while feed.pending:
            seen.append(feed.pending.popleft())
            feed.emitted(seen[-1])
    feed.stop()
    await feed.closed()
    assert not failures
    return seen


def pieces(number: int, every: float) -> Stream:
    """A tuple every ``every`` seconds, and a punctuation after each."""
    for index in range(number):
        yield index * every, Batch(table(index, 1), index, 0.0)
        yield index * every, Punctuation((index + 1) * 1000, index + 1, 0.0)
    yield (number - 1) * every, Punctuation(END, number, 0.0)


def test_a_source_that_is_behind_hands_over_what_is_overdue_in_few_items() -> None:
    """The thread gets the processor at the start, and then not for 0.5 s."""
    looks = itertools.chain([1000.0], itertools.repeat(1000.5))

    async def scenario() -> None:
        seen = await collected(pieces(100, 1 / 256), lambda: next(looks))
        batches = [parcel for parcel in seen if parcel.time is None]
        assert numbers([parcel.item for parcel in batches]) == list(range(100))
        assert [(parcel.position, parcel.rows) for parcel in batches] == [(0, 52), (52, 48)]
        assert [parcel.born for parcel in batches] == [1000.0, 1000.0 + 52 / 256], "as old as the oldest tuple"
        assert [(parcel.time, parcel.position) for parcel in seen if parcel.time is not None] == [
            (52_000, 52),
            (END, 100),
        ]

    play(scenario)


def test_a_source_in_time_hands_over_each_item_as_it_is() -> None:
    """The clock is the due time of the item."""
    dues = [due for due, _ in pieces(20, 0.1) for _ in range(2)]
    looks = itertools.chain([1000.0], (1000.0 + due for due in dues))

    async def scenario() -> None:
        seen = await collected(pieces(20, 0.1), lambda: next(looks))
        assert len(seen) == 41
        assert [parcel.born - 1000.0 for parcel in seen] == pytest.approx([due for due, _ in pieces(20, 0.1)])

    play(scenario)


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


def test_what_is_merged_is_as_old_as_its_oldest_part() -> None:
    first, second = Batch(table(0, 2), 4, 3.0), Batch(table(2, 3), 6, 4.0)
    early, late = Punctuation(1000, 6, 3.5), Punctuation(5000, 9, 4.5)
    assert coalesce([first, early, second, late]) == [Batch(table(0, 5), 4, 3.0), Punctuation(5000, 9, 3.5)]
    assert coalesce([first, early, second]) == [Batch(table(0, 5), 4, 3.0), Punctuation(1000, 9, 3.5)]
    assert coalesce([first, late, second]) == [first, msgspec.structs.replace(late, position=9), second]


@pytest.mark.parametrize("paced", [True, False])
def test_tuples_of_a_paced_stream_are_born_when_they_were_due(paced: bool) -> None:
    """The clock goes 10 s ahead at each look, so that nothing is ever waited for."""
    looks = itertools.count(1000, 10)

    async def scenario() -> None:
        got = asyncio.Event()
        failures: list[BaseException] = []
        feed = ThreadFeed(
            got.set,
            lambda: float(next(looks)),
            wire=False,
            most=1 << 20,
            loop=asyncio.get_running_loop(),
            read=lambda: (iter([(0.0, Batch(table(0, 1), 0, 0.0)), (1.5, Batch(table(1, 2), 0, 0.0))]), paced),
            failed=failures.append,
            name="synergy test",
        )
        feed.start()
        seen: list[Parcel] = []
        while len(seen) < 3:
            await asyncio.wait_for(got.wait(), DEADLINE)
            got.clear()
            while feed.pending:
                seen.append(feed.pending.popleft())
                feed.emitted(seen[-1])
        feed.stop()
        await feed.closed()
        assert [(parcel.position, parcel.time) for parcel in seen] == [(0, None), (1, None), (3, END)], (
            "the end is added"
        )
        births = [parcel.born for parcel in seen[:2]]
        if paced:
            assert births[1] - births[0] == 1.5
        else:
            assert births[1] - births[0] == 10.0
        assert not failures

    play(scenario)
