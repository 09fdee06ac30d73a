"""Sources fed by a notebook: iterables, asynchronous ones, frames, and pushed rows."""

from __future__ import annotations

import asyncio
import datetime as dt
import re
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from synergy_nb import Cluster, ClusterError, Feed, FeedError, NotAdmitted, PlanError, connect_cluster, source, watch
from synergy_nb.dataflow.tuples import END, Batch, Item, Punctuation
from synergy_nb.events import LateRows
from synergy_nb.runtime.client.feeds import BATCH_ROWS, check_rows_or_feed, items, supply
from synergy_nb.traces.rows import RowReader
from tests.skipped_rows import ROWS, assert_told, few, rows_of, written
from tests.waiting import DEADLINE

COLUMNS = {"v": "int"}


def reader() -> RowReader:
    return RowReader("numbers", {"time": "time", "v": "int"})


def rows(*times: float) -> list[dict[str, Any]]:
    return [{"time": time, "v": number} for number, time in enumerate(times)]


def stream_of(given: Any, lateness: float | None = None) -> tuple[list[Item], list[int]]:
    """Items that come of rows, and the numbers of rows dropped so far that were told on the way."""
    told: list[int] = []

    async def dropped(count: int) -> None:
        told.append(count)

    async def main() -> list[Item]:
        feed, _ = supply(check_rows_or_feed(given, reader()), reader())
        return [item async for item in items(feed, "numbers", lateness, dropped)]

    return asyncio.run(main()), told


def table_of(stream: list[Item]) -> pl.DataFrame:
    return pl.concat(item.table for item in stream if isinstance(item, Batch))


def values(stream: list[Item]) -> list[int]:
    return table_of(stream)["v"].to_list()


async def nobody(_: int) -> None:
    """Who is told of rows that were dropped, where none are."""


async def later(given: list[Any]) -> AsyncIterator[Any]:
    for each in given:
        yield each


# -- from rows to batches --------------------------------------------------------------------------------------------


def test_rows_that_wait_become_one_batch() -> None:
    """A row of its own batch costs a journey to the peer and back each."""
    feed = Feed(COLUMNS)
    for row in rows(*range(5000)):
        feed.push(row)
    feed.close()
    stream, _ = stream_of(feed)
    assert [type(item) for item in stream] == [Batch, Punctuation, Punctuation]
    assert values(stream) == list(range(5000))
    assert stream[-1] == Punctuation(END, 5000, 0.0)


def test_a_slow_generators_row_does_not_wait_for_others() -> None:
    """The second row is yielded only when the first has come out."""
    out = threading.Event()

    def slow() -> Iterator[dict[str, Any]]:
        yield rows(0.0)[0]
        out.wait(DEADLINE)
        yield rows(1.0)[0]

    async def main() -> list[int]:
        feed, _ = supply(slow(), reader())
        heights = []
        async for item in items(feed, "numbers", None, nobody):
            if isinstance(item, Batch):
                heights.append(item.rows)
                out.set()
        return heights

    assert asyncio.run(main()) == [1, 1]


@pytest.mark.parametrize("asynchronous", [False, True])
def test_dictionaries_and_tables_may_be_mixed(asynchronous: bool) -> None:
    given = [*rows(0, 1), pl.DataFrame({"time": [3, 2], "v": [3, 2]}), {"time": [4.0, 5.0], "v": [4, 5]}, rows(6)]
    stream, _ = stream_of(later(given) if asynchronous else iter(given))
    assert values(stream) == [0, 1, 2, 3, 4, 5, 0]
    assert [item.time for item in stream if isinstance(item, Punctuation)][-2:] == [6_000_000, END]


def test_a_row_is_copied_before_its_generator_changes_the_dictionary() -> None:
    def reusing() -> Iterator[dict[str, Any]]:
        row: dict[str, Any] = {}
        for number in range(100):
            row.update(time=float(number), v=number)
            yield row

    assert values(stream_of(reusing())[0]) == list(range(100))


def test_a_frame_is_emitted_in_batches_with_punctuations_between_them() -> None:
    count = 3 * BATCH_ROWS + 7
    frame = pl.DataFrame({"time": range(count), "v": range(count)})
    stream, _ = stream_of(frame)
    assert values(stream) == list(range(count))
    batches = [item for item in stream if isinstance(item, Batch)]
    assert max(batch.rows for batch in batches) <= BATCH_ROWS
    assert [batch.position for batch in batches] == [0, *(batch.end_position for batch in batches[:-1])]
    promises = [item.time for item in stream if isinstance(item, Punctuation)]
    assert promises == sorted(set(promises))
    assert len(promises) == len(batches) + 1


def test_wide_rows_come_in_smaller_batches() -> None:
    wide = RowReader("numbers", {"time": "time", "v": "str"})
    frame = pl.DataFrame({"time": range(40), "v": ["x" * 100_000] * 40})

    async def main() -> int:
        feed, _ = supply(check_rows_or_feed(frame, wide), wide)
        return max([item.rows async for item in items(feed, "n", None, nobody) if isinstance(item, Batch)])

    assert asyncio.run(main()) < 20


def test_an_empty_generator_is_a_stream_that_ends() -> None:
    given: list[Any] = [[], iter(()), pl.DataFrame({"time": [], "v": []}), later([])]
    for nothing in given:
        assert stream_of(nothing)[0] == [Punctuation(END, 0, 0.0)]


# -- order and lateness ----------------------------------------------------------------------------------------------


def test_without_lateness_the_first_row_out_of_order_is_an_error_after_the_rows_before_it() -> None:
    feed = Feed(COLUMNS)
    for row in rows(1, 5, 3, 6):
        feed.push(row)

    async def main() -> list[Item]:
        stream = items(feed, "numbers", None, nobody)
        came = [await anext(stream), await anext(stream)]
        with pytest.raises(FeedError) as caught:
            await anext(stream)
        told.append(str(caught.value))
        return came

    told: list[str] = []
    assert values(asyncio.run(main())) == [0, 1]
    assert told[0] == (
        "numbers: its feed yielded a tuple of 1970-01-01 00:00:03 after one of 1970-01-01 00:00:05; expected event "
        "times in order (rows that are given together, as one table, are put in order), or a source with lateness='2 s'"
    )


@pytest.mark.parametrize("together", [1, 2, 3, 100])
def test_lateness_does_not_depend_on_the_division_into_batches(together: int) -> None:
    times = [10, 12, 11, 9.9, 10, 20, 18, 17.9, 18.1, 30]

    async def main() -> tuple[list[Item], list[int]]:
        feed, told = Feed(COLUMNS), []

        async def dropped(count: int) -> None:
            told.append(count)

        stream = items(feed, "numbers", 2.0, dropped)
        found: list[Item] = []
        given = rows(*times)
        for start in range(0, len(given), together):
            for row in given[start : start + together]:
                feed.push(row)
            found.append(await anext(stream))
            while not isinstance(found[-1], Punctuation) and feed._waiting == 0 and start + together >= len(given):
                found.append(await anext(stream))
        feed.close()
        found += [item async for item in stream]
        return found, told

    stream, told = asyncio.run(main())
    assert values(stream) == [0, 1, 2, 4, 5, 6, 8, 9]
    assert told[-1] == 2
    low = -(2**63)
    for item in stream:
        if isinstance(item, Punctuation):
            low = item.time
        else:
            assert item.table["time"].to_physical().min() >= low  # type: ignore[operator]


# -- pushing ---------------------------------------------------------------------------------------------------------


def test_a_push_waits_for_room_and_says_how_long_it_has() -> None:
    feed = Feed(COLUMNS, room=2)
    feed.bind("someone")
    feed.push(rows(0, 1, 2))  # whole, or not at all
    with pytest.raises(TimeoutError, match=re.escape("no room within 10 ms: 3 rows wait for someone")):
        feed.push(rows(3)[0], timeout=0.01)
    with pytest.raises(ValueError, match="timeout: 'soon'; expected a duration such as"):
        feed.push(rows(3)[0], timeout="soon")
    with pytest.raises(TimeoutError, match="no room within"):
        asyncio.run(feed.push_async(rows(3)[0], timeout="10 ms"))
    pusher = threading.Thread(target=feed.push, args=(rows(9)[0],))
    pusher.start()

    async def main() -> list[int]:
        counts = [len(await feed.next_pieces() or []) for _ in range(2)]
        waiting = [asyncio.ensure_future(feed.push_async({"time": 10, "v": number})) for number in range(3)]
        while not all(push.done() for push in waiting):
            counts.append(len(await feed.next_pieces() or []))
        return counts

    counts = asyncio.run(main())
    pusher.join(DEADLINE)
    assert counts[:2] == [1, 1]
    assert sum(counts[2:]) + feed._waiting == 3


def test_a_wrong_row_is_an_error_of_push() -> None:
    feed = Feed({"user": "str", "amount": "float"}, time="when")
    for bad, message in (
        ({"when": 0, "user": "ann", "amout": 1.0}, "feed: column 'amount' is missing in row"),
        ({"when": 0, "user": "ann", "amount": "much"}, "feed: column 'amount': 'much' in row 0; expected a number"),
        (pl.DataFrame({"user": ["ann"], "amount": [1.0]}), "feed: column 'when' is missing; expected time, the event"),
        ("text", "feed: 'text'; expected a dictionary with when, user, amount"),
    ):
        with pytest.raises(FeedError, match=re.escape(message)):
            feed.push(bad)
        with pytest.raises(FeedError, match=re.escape(message)):
            asyncio.run(feed.push_async(bad))
    assert "0 rows wait" in repr(feed)


def test_a_closed_feed_takes_nothing_more() -> None:
    feed = Feed(COLUMNS)
    with feed:
        feed.push(rows(0)[0])
    feed.close()
    with pytest.raises(FeedError, match="feed: it has been closed; expected an open one"):
        feed.push(rows(1)[0])
    assert values(stream_of(feed)[0]) == [0]


def test_more_rows_than_fit_before_a_reader_exists_are_an_error() -> None:
    feed = Feed(COLUMNS, room=2)
    feed.push(rows(0, 1))
    with pytest.raises(FeedError, match=r"2 rows wait, and no application reads them; expected submit\(\) before"):
        feed.push(rows(2)[0])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (({},), "columns: {}; expected column to type"),
        (
            ({"v": "integer"},),
            "columns: 'v': 'integer'; expected one of int, float, str, bool, time, bytes, date, duration,",
        ),
        (({"v": "int"}, 0), "room: 0; expected a number of rows of at least 1"),
    ],
)
def test_a_feed_that_makes_no_sense_is_refused(arguments: Any, message: str) -> None:
    columns, *room = arguments
    with pytest.raises(FeedError, match=re.escape(message)):
        Feed(columns, **({"room": room[0]} if room else {}))


# -- through a cluster -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(peers=2, cores=1.0, spark=False) as started:
        yield started


def test_a_frame_is_a_source_and_may_be_used_again(cluster: Cluster) -> None:
    frame = pl.DataFrame({"day": [dt.date(2026, 1, 2), dt.date(2026, 1, 1)], "user": ["b", "a"], "v": [2, 1]})
    query = source(frame.to_pandas(), time="day").filter("v > 0").sink("all")
    for _ in range(2):
        assert cluster.submit(query).results()["user"].to_list() == ["a", "b"]
    assert cluster.submit(query, feeds={"source": frame.head(1).rename({"day": "day"})}).results().height == 1


def test_pushed_rows_come_out_while_the_feed_is_open(cluster: Cluster) -> None:
    feed = Feed(COLUMNS)
    application = cluster.submit(source(feed).filter("v >= 0").sink("all"))
    with feed:
        feed.push(rows(0)[0])
        assert application.head(1).height == 1
        threads = [threading.Thread(target=feed.push, args=({"time": 1.0, "v": number},)) for number in range(1, 9)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(DEADLINE)
        feed.push(pl.DataFrame({"time": [2.0], "v": [9]}))
    assert sorted(application.results()["v"].to_list()) == list(range(10))
    assert application.wait(DEADLINE) == "finished"
    with pytest.raises(FeedError, match="reads it; expected a feed of its own"):
        cluster.submit(source(feed).sink("again"))


def test_an_error_in_the_block_of_a_feed_fails_its_application(cluster: Cluster) -> None:
    feed = Feed(COLUMNS)
    application = cluster.submit(source(feed).sink("all"))

    def fill() -> None:
        with feed:
            feed.push(rows(0)[0])
            raise KeyError("mine")

    with pytest.raises(KeyError):
        fill()
    with pytest.raises(ClusterError, match="its feed raised KeyError: 'mine'"):
        application.results()


def test_a_feed_of_an_ended_application_refuses_rows_by_name(cluster: Cluster) -> None:
    feed = Feed(COLUMNS)
    application = cluster.submit(source(feed).sink("all"))
    feed.push(rows(0)[0])
    application.head(1)
    application.stop()
    with pytest.raises(FeedError, match=f"feed: {application.id} takes no more rows: it has ended"):
        feed.push(rows(1)[0])


def test_a_feed_that_was_not_admitted_can_be_submitted_again(cluster: Cluster) -> None:
    feed = Feed(COLUMNS)
    with pytest.raises(NotAdmitted):
        cluster.submit(source(feed, rate="1000 tuples/s").delay("5 ms").sink("all"))
    feed.push(rows(0)[0])
    feed.close()
    assert cluster.submit(source(feed).sink("all")).results().height == 1


def test_late_rows_are_dropped_counted_and_journaled(cluster: Cluster) -> None:
    times = [10.0, 12.0, 11.0, 3.0, 4.0, 30.0]
    query = source(iter(rows(*times)), columns=COLUMNS, lateness="2 s")
    application = cluster.submit(query.aggregate(window="10 s", n="count(*)").sink("counts"))
    assert application.results()["n"].to_list() == [3, 1]
    assert application.qos()["late"] == 2
    assert "late at source: 2 rows dropped" in repr(application)
    told = application.events().of(LateRows)
    assert (told[-1].operator, told[-1].dropped) == ("source", 2)


def test_malformed_lines_that_are_skipped_are_told_as_late_rows_are(cluster: Cluster, tmp_path: Path) -> None:
    path = written(tmp_path / "rows.csv", 150, 320)
    application = cluster.submit(rows_of(path).sink("rows"))
    assert application.results().height == ROWS - 2
    assert application.wait() == "finished"
    assert_told(application, few(path, 152, 2))
    assert f"source skips {few(path, 152, 2)}" in watch(application).to_text()


def test_coroutines_push_to_feeds_and_yield_rows(cluster: Cluster) -> None:
    async def main() -> tuple[list[int], list[int]]:
        client = await connect_cluster(cluster.scheduler, spark=False)
        try:
            yielded = await client.submit(source(later(rows(*range(300))), columns=COLUMNS).sink("yielded"))
            feed = Feed(COLUMNS, room=10)
            pushed = await client.submit(source(feed).sink("pushed"))
            for row in rows(*range(300)):
                await feed.push_async(row)
            feed.close()
            return (await yielded.results())["v"].to_list(), (await pushed.results())["v"].to_list()
        finally:
            await client.close()

    assert asyncio.run(main()) == (list(range(300)), list(range(300)))


def test_rows_that_cannot_be_are_refused_before_anything_starts(cluster: Cluster) -> None:
    query = source("python", name="n", columns=COLUMNS).sink("all")
    used = iter(row for row in rows(0))
    list(used)
    for given, message in (
        ("text", "source: rows: a str; expected a pandas, Polars or Arrow table, a Feed, or an iterable"),
        ({"time": 0.0, "v": 1}, "source: rows: a dict; expected"),
        (used, "source: rows: a generator that has been read to its end; expected a new one"),
        (pl.DataFrame({"time": [0], "V": [1]}), "source: column 'v' is missing; expected int, found time, V; did you"),
        (Feed({"w": "int"}), "source: a feed of time time, w int; expected time time, v int"),
    ):
        with pytest.raises(FeedError, match=re.escape(message)):
            cluster.submit(query, feeds={"n": given})


def test_the_event_time_of_a_declared_source_may_have_another_name(cluster: Cluster) -> None:
    query = source("python", name="n", columns={"when": "str", "v": "int"}, time="when").sink("all")
    found = cluster.submit(query, feeds={"n": [{"when": "2026-01-01", "v": 1}]}).results()
    assert_frame_equal(found, pl.DataFrame({"time": [dt.datetime(2026, 1, 1)], "v": [1]}))  # noqa: DTZ001
    with pytest.raises(PlanError, match="time"):
        source("python", name="n", columns={"when": "bytes"}, time="when").sink("all")
