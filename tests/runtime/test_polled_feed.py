"""The feed of a source with positions: places on chunks, resumed at any of them, and sources that break."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import polars as pl
import pytest

from synergy_nb import events
from synergy_nb.dataflow.sources import BrokenForNow, Polled, Source
from synergy_nb.dataflow.streams.log.values import ORIGIN, Chunk, Point, SourcePlace
from synergy_nb.dataflow.tuples import END
from synergy_nb.runtime.data._polled_feed import PolledFeed
from synergy_nb.traces.rows import RowReader
from tests.runtime.emptied_feed import EmptiedFeed

SECOND = 1_000_000


class Listed(Source):
    """Gives rows of a list, some at a time; entries that are exceptions are raised, None is nothing yet."""

    repeats = True

    def __init__(self, entries: list[Any], *, positions: bool = True) -> None:
        self.entries = entries
        self.positions = positions
        self.opened: list[Any] = []
        self.closed = 0
        self.at = 0

    def open(self, position: Any) -> None:
        self.opened.append(position)
        self.at = position or 0 if self.positions else self.at

    def poll(self, seconds: float) -> Polled | None:
        if self.at == len(self.entries):
            return Polled(position=self.at if self.positions else None, ends=True)
        entry = self.entries[self.at]
        if isinstance(entry, BaseException):
            self.entries[self.at] = None
            raise entry
        self.at += 1
        position = self.at if self.positions else None
        return None if entry is None else Polled([{"time": n, "n": n} for n in entry], position)

    def close(self) -> None:
        self.closed += 1


class Once(Listed):
    """Cannot go back."""

    repeats = False


class Fed(EmptiedFeed):
    """A feed on the loop of a test, and what comes of it; its clock goes on while it waits."""

    feed: PolledFeed

    def __init__(
        self,
        source: Source,
        since: Point = ORIGIN,
        place: SourcePlace | None = None,
        *,
        lateness: float | None = None,
        most: int = 1 << 20,
    ) -> None:
        super().__init__()
        self.now = 1000.0
        self.waited: list[float] = []
        self.failures: list[BaseException] = []
        self.noted: list[tuple[type[events.Event], dict[str, Any]]] = []
        self.feed = PolledFeed(
            self.empty,
            lambda: self.now,
            most=most,
            since=since,
            loop=asyncio.get_running_loop(),
            failed=self.failures.append,
            name="synergy test",
            source=source,
            place=place,
            reader=RowReader("s", {"n": "int"}),
            lateness=lateness,
            noted=lambda kind, **fields: self.noted.append((kind, fields)),
        )
        self.feed.halt.wait = self._wait  # type: ignore[method-assign]

    def _wait(self, seconds: float) -> bool:
        self.waited.append(seconds)
        self.now += seconds
        return self.feed.halt.is_set()


def rows(chunks: list[Chunk]) -> list[int]:
    """Tuples of chunks."""
    return [n for chunk in chunks if chunk.rows for n in chunk.item.table["n"].to_list()]  # type: ignore[union-attr]


def at(number: int, position: int, reached: int) -> SourcePlace:
    """Place after so many tuples; ``position``: that of the source; ``reached``: seconds."""
    return SourcePlace(number, reached * SECOND, msgspec.msgpack.encode(position))


async def test_the_last_chunk_of_a_poll_carries_the_place_after_it() -> None:
    fed = Fed(Listed([[0, 1], None, [2], [], [3]]))
    chunks = await fed.whole()
    assert rows(chunks) == [0, 1, 2, 3]
    assert [(chunk.end, chunk.place) for chunk in chunks] == [
        ((2, -(2**63)), None),
        ((2, 1 * SECOND), at(2, 1, 1)),
        ((3, 1 * SECOND), None),
        ((3, 2 * SECOND), at(3, 3, 2)),
        ((4, 2 * SECOND), at(3, 4, 2)),
        ((4, 3 * SECOND), at(4, 5, 3)),
        ((4, END), None),
    ]


class Promising(Listed):
    """States with each poll the time that no later row precedes."""

    def poll(self, seconds: float) -> Polled | None:
        polled = super().poll(seconds)
        if polled is None or polled.ends:
            return polled
        *found, until = (dict(row) for row in polled.rows)
        return polled._replace(rows=found, until=until["n"] * SECOND)


async def test_a_source_that_promises_a_time_closes_windows_while_it_gives_no_row() -> None:
    fed = Fed(Promising([[0, 1, 2], [9], [9, 12]]))
    chunks = await fed.whole()
    assert rows(chunks) == [0, 1, 9]
    assert [chunk.end.until for chunk in chunks if not chunk.rows] == [2 * SECOND, 9 * SECOND, 12 * SECOND, END]
    early = Fed(Promising([[9], [8, 8]]))
    await early.whole()
    assert "yielded a tuple of 1970-01-01 00:00:08 after one of 1970-01-01 00:00:09" in str(early.failures[0])


async def test_a_source_on_hold_is_not_polled() -> None:
    source = Listed([[0], [1, 2]])
    fed = Fed(source)
    fed.feed.hold(on=True)
    at: list[int] = []

    def waiting(seconds: float) -> bool:
        at.append(source.at)
        if len(at) == 5:
            fed.feed.hold(on=False)
        return False

    fed.feed.halt.wait = waiting  # type: ignore[method-assign]
    assert rows(await fed.whole()) == [0, 1, 2]
    assert at == [0] * 5


@pytest.mark.parametrize("most", [100, 1 << 20])
async def test_from_each_chunk_a_successor_goes_on_where_the_other_has_ended(most: int) -> None:
    def source() -> Listed:
        return Listed([[0, 1, 2, 3, 9], [4, 5, 6], [], [7, 8], [4, 9, 10]])

    whole = await Fed(source(), lateness=4.0, most=most).whole()
    expected = rows(whole)
    assert expected == [0, 1, 2, 3, 9, 5, 6, 7, 8, 9, 10], "both rows of 4 are too late"
    place = None
    for number, chunk in enumerate(whole):
        place = chunk.place or place
        again = source()
        fed = Fed(again, chunk.end, place, lateness=4.0, most=most)
        found = await fed.whole()
        assert not fed.failures
        assert rows(found) == rows(whole[number + 1 :])
        assert not found or found[-1].end == whole[-1].end
        if place is not None and chunk.end.until != END:
            assert again.opened == [msgspec.msgpack.decode(place.mark)]
        unplaced = Fed(source(), chunk.end, lateness=4.0, most=most)
        assert rows(await unplaced.whole()) == rows(found), "it is read from its beginning"


async def test_a_source_that_cannot_go_back_goes_on_with_what_it_gives_now() -> None:
    fed = Fed(Once([[7], [8]], positions=False), Point(5, 6 * SECOND))
    chunks = await fed.whole()
    assert rows(chunks) == [7, 8]
    assert [chunk.place for chunk in chunks] == [None] * len(chunks)
    late = Fed(Once([[5]], positions=False), Point(5, 6 * SECOND))
    await late.whole()
    assert "expected event times in order" in str(late.failures[0])


async def test_a_broken_source_is_opened_again_at_its_place_after_waits_that_double() -> None:
    breaks = [BrokenForNow("GET /: 503")] * 3

    class Breaking(Listed):
        def poll(self, seconds: float) -> Polled | None:
            if self.at == 1 and breaks:
                raise breaks.pop()
            return super().poll(seconds)

    source = Breaking([[0], [1]])
    fed = Fed(source)
    assert rows(await fed.whole()) == [0, 1]
    assert source.opened == [None, 1, 1, 1]
    assert source.closed == 4
    found = [(kind, fields.get("tries"), fields.get("wait_s")) for kind, fields in fed.noted]
    assert found == [
        (events.SourceBroken, 1, 0.1),
        (events.SourceBroken, 2, 0.2),
        (events.SourceBroken, 3, 0.4),
        (events.SourceMended, None, None),
    ]
    assert fed.noted[-1][1]["seconds"] == pytest.approx(0.7)


async def test_what_is_broken_for_good_fails_and_is_closed() -> None:
    source = Listed([[0], OSError("the table has no column 'id'")])
    fed = Fed(source)
    assert rows(await fed.whole()) == [0]
    assert [str(error) for error in fed.failures] == ["the table has no column 'id'"]
    assert source.closed == 1


async def test_a_source_that_has_fewer_rows_than_before_is_refused() -> None:
    fed = Fed(Listed([[0]]), Point(3, SECOND))
    await fed.whole()
    assert str(fed.failures[0]) == "its stream has 1 tuples; expected at least 3, as it had before"


async def test_rows_that_come_too_late_are_dropped_and_counted() -> None:
    fed = Fed(Listed([[5], [1], [6], [2, 3, 6]]), lateness=2.0)
    assert rows(await fed.whole()) == [5, 6, 6]
    assert [fields["dropped"] for kind, fields in fed.noted if kind is events.LateRows] == [1, 3]


async def test_tables_keep_their_order() -> None:
    table = pl.DataFrame({"n": [2, 1], "time": [2, 1]})

    class Tabled(Listed):
        def poll(self, seconds: float) -> Polled | None:
            return Polled(table, 1, ends=True)

    fed = Fed(Tabled([]), lateness=1.0)
    assert rows(await fed.whole()) == [2, 1]
