"""The endpoint of a peer for Spark, without Spark: queries read and write in the order of Spark."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.flight as fl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_stream._birth_times import BirthTimes
from spark_stream._exchange import Exchange
from spark_stream._sources import Reader, Writer, Written
from spark_stream._spool import FIRST, Offset, Spool
from spark_stream._staging import Files, Staged, convert, direct, totals_of, write_whole
from spark_stream._tables import MARK, arrow_schema
from spark_stream.callbacks import QueryCallbacks
from spark_stream.peer_endpoint import PeerEndpoint
from spark_stream.results import ExchangeRefused, Slice
from spark_stream.supported import supported_source
from synergy_nb import source, traces
from synergy_nb.dataflow.tuples import END, START, Batch, Item, Punctuation
from synergy_nb.plan import Operator
from tests.spark_stream.endpoint_batches import COLUMNS, END_TIME, batch, numbers

WITHIN = 60.0  # seconds that anything may take
WINDOWED = {"time": "time", "window_start": "time", "window_end": "time", "n": "int"}


# -- what a query reads ------------------------------------------------------------------------------------------------


@st.composite
def streams(draw: st.DrawFn) -> list[Item]:
    """Batches out of order, and punctuations that some rows come too late for."""
    items: list[Item] = []
    position = low = 0
    for _ in range(draw(st.integers(1, 12))):
        if draw(st.booleans()):
            times = draw(st.lists(st.integers(max(low - 3, 0), low + 20), max_size=6))
            items.append(batch(times, position))
            position += len(times)
        else:
            low += draw(st.integers(0, 12))
            items.append(Punctuation(low, position, 0.0))
    return [*items, Punctuation(END, position, 0.0)]


@pytest.mark.slow
@given(streams(), st.integers(1, 8), st.data())
def test_rows_are_those_between_two_punctuations_however_often_they_are_read(
    items: list[Item], most: int, data: st.DataObject
) -> None:
    spool = Spool(most=most)
    seen: list[tuple[int, int, int]] = []  # position, time and number of all rows that were in time
    low = START
    offsets = [FIRST]
    late = 0
    for item in items:
        if isinstance(item, Batch):
            for place, row in enumerate(item.table.iter_rows(named=True)):
                time = int(item.table["time"].cast(pl.Int64)[place])
                if time < low:
                    late += 1
                else:
                    seen.append((item.position + place, time, row["n"]))
        else:
            low = max(low, item.time)
        spool.append(item)
        while data.draw(st.booleans()) and (end := spool.latest(0, offsets[-1], 0.0)) != offsets[-1]:
            offsets.append(end)
    while (end := spool.latest(0, offsets[-1], 0.0)) != offsets[-1]:
        offsets.append(end)
    assert spool.late == late
    assert offsets[-1].time == END
    read: list[int] = []
    for start, end in itertools.pairwise(offsets):
        expected = [
            number
            for position, time, number in seen
            if (position < end.position and time <= end.time) and not (position < start.position and time <= start.time)
        ]
        for _ in range(2):
            assert sorted(numbers(spool.tables(start, end))) == expected
        rows = spool.rows(start, end)
        assert rows == len(expected)
        half = rows // 2
        assert numbers(spool.tables(start, end, 0, half)) + numbers(spool.tables(start, end, half, rows - half)) == (
            numbers(spool.tables(start, end))
        )
        read += expected
    assert sorted(read) == [number for _, _, number in seen]
    spool.commit(0, offsets[-1])
    assert spool.retained_bytes == 0


def test_a_row_that_no_punctuation_covers_is_held_back() -> None:
    spool = Spool()
    spool.append(batch([1, 50, 3]))
    spool.append(Punctuation(10, 3, 0.0))
    first = spool.latest(0, FIRST, 0.0)
    assert first == Offset(3, 10)
    assert numbers(spool.tables(FIRST, first)) == [0, 2]
    spool.append(Punctuation(50, 3, 0.0))  # the row is as old as the punctuation: it may go
    assert numbers(spool.tables(first, spool.latest(0, first, 0.0))) == [1]


def test_a_micro_batch_ends_at_a_punctuation_and_has_not_too_many_rows() -> None:
    spool = Spool(most=10)
    for number in range(6):
        spool.append(batch([number] * 4, 4 * number))
        spool.append(Punctuation(number + 1, 4 * number + 4, 0.0))
    first = spool.latest(0, FIRST, 0.0)
    assert first == Offset(8, 2)
    spool.append(batch([10] * 50, 24))
    spool.append(Punctuation(11, 74, 0.0))
    last = spool.latest(0, Offset(24, 6), 0.0)
    assert last == Offset(74, 11)  # more than that, as there is no punctuation within


def test_rows_that_all_readers_have_committed_are_removed() -> None:
    spool = Spool(taps=2)
    spool.append(batch([1, 2]))
    spool.append(Punctuation(5, 2, 0.0))
    end = spool.latest(0, FIRST, 0.0)
    spool.commit(0, end)
    assert numbers(spool.tables(FIRST, end)) == [0, 1]
    spool.commit(1, end)
    assert spool.retained_bytes == 0
    with pytest.raises(LookupError, match=r"position 0; expected at least 2"):
        spool.tables(FIRST, end)


def test_a_full_spool_has_room_again_when_half_of_it_is_read() -> None:
    spool = Spool(limit=10_000)
    position = 0
    while not spool.full:
        spool.append(batch([position] * 20, position))
        position += 20
        spool.append(Punctuation(position, position, 0.0))
    assert 10_000 <= spool.retained_bytes < 12_000
    first = Offset(20, 20)
    spool.read(0, first)
    assert spool.full
    spool.read(0, spool.latest(0, first, 0.0))
    assert not spool.full


def test_rows_that_are_held_back_do_not_keep_their_punctuation_out() -> None:
    spool = Spool(limit=1000)
    spool.append(batch([5] * 100))
    assert spool.retained_bytes > 1000
    assert not spool.full
    spool.append(Punctuation(6, 100, 0.0))
    assert spool.full


def test_positions_are_kept_where_they_are_asked_for() -> None:
    spool = Spool(numbered=True)
    spool.append(Punctuation(3, 7, 0.0))
    spool.append(batch([1, 4, 2, 5], 7))
    spool.append(Punctuation(END, 11, 0.0))
    (table,) = spool.tables(Offset(7, 3), Offset(11, END))
    assert table["_position"].to_list() == [8, 10]


# -- what comes of it --------------------------------------------------------------------------------------------------


class Query:
    """An exchange with inputs from peers, and what it hands over."""

    def __init__(
        self,
        ports: int = 1,
        *,
        taps: int = 1,
        limit: int = 1 << 20,
        name: str = "q",
        take: Callable[[list[Item]], None] | None = None,
        **options: Any,
    ) -> None:
        self.items: list[Item] = []
        self.rooms = 0
        self.now = 100.0
        options = {"windowed": False, "columns": COLUMNS, **options}
        callbacks = QueryCallbacks(on_items=take or self.items.extend, on_room=self._room)
        self.exchange = Exchange(name, callbacks=callbacks, clock=lambda: self.now, **options)
        for _ in range(ports):
            self.exchange.attach(Spool(limit=limit, taps=taps), arrow_schema(COLUMNS), taps)
        self.run = self.exchange.begin(END_TIME)

    def _room(self) -> None:
        self.rooms += 1

    def is_full(self) -> bool:
        return self.exchange.full

    @property
    def rows(self) -> list[int]:
        return [row for item in self.items if isinstance(item, Batch) for row in item.table["n"]]

    @property
    def punctuations(self) -> list[int]:
        return [item.time for item in self.items if isinstance(item, Punctuation)]


class Spark:
    """What Spark does with a source and a sink, one micro-batch after another."""

    def __init__(self, query: Query, ports: int = 1, *, no_data: bool = False) -> None:
        self.exchange, self.run = query.exchange, query.run
        self.batch = 0
        self.again = False  # whether a watermark has still to take effect
        self.no_data = no_data
        self.at = [FIRST] * ports
        self.logged: list[tuple[Offset, Offset]] | None = None

    def step(self, rows: list[dict[str, Any]] | None = None) -> bool:
        """Run a micro-batch if there is a reason to, and write what was read, or ``rows``; gives whether it did."""
        ends = [self.exchange.latest(self.run, port, 0, at, 0.0) for port, at in enumerate(self.at)]
        if ends == self.at and not self.again:
            return False
        self.again = self.no_data and ends != self.at
        spans = list(zip(self.at, ends, strict=True))
        self.write(spans, rows)
        self.at = ends
        self.batch += 1
        return True

    def write(self, spans: list[tuple[Offset, Offset]], rows: list[dict[str, Any]] | None = None) -> None:
        found = []
        for port, (start, end) in enumerate(spans):
            if start == end:
                continue
            for part in self.exchange.partitions(self.run, port, 0, start, end):
                table = self.exchange.read(self.run, port, start, end, part)
                found.append(table.filter(pa.compute.invert(table[MARK])).drop_columns([MARK]))
        if rows is not None:
            found = [pa.Table.from_pylist(rows, schema=arrow_schema(WINDOWED).remove(len(WINDOWED)))]
        puts = [f"{self.run}-{self.batch}-{number}" for number, _ in enumerate(found)]
        for put, table in zip(puts, found, strict=True):
            self.exchange.put(self.run, put, table.to_batches())
        self.exchange.finish(self.run, self.batch, puts)
        for port, (start, _) in enumerate(spans):
            self.exchange.commit(self.run, port, 0, start)


def test_without_state_rows_are_complete_at_the_commit() -> None:
    query = Query(2)
    spark = Spark(query, 2)
    query.exchange.append(0, batch([5, 3], 0, born=1.0))
    query.exchange.append(0, Punctuation(10, 2, 2.0))
    assert spark.step()
    assert query.rows == [1, 0]  # in the order of their times
    assert query.punctuations == []  # the other input may still give earlier ones
    query.exchange.append(1, Punctuation(7, 0, 3.0))
    assert spark.step()
    assert query.items[-1] == Punctuation(7, 2, 3.0)
    for port in (0, 1):
        query.exchange.append(port, Punctuation(END, 2, 4.0))
        assert spark.step()
    assert query.items[-1] == Punctuation(END, 2, 4.0)
    assert query.exchange.ended
    assert not spark.step()


def test_with_state_rows_are_complete_when_the_watermark_has_taken_effect() -> None:
    query = Query(lag=1000)
    spark = Spark(query, no_data=True)
    query.exchange.append(0, batch([5000]))
    query.exchange.append(0, Punctuation(10_700, 1, 0.0))
    assert spark.step()
    assert query.punctuations == []
    assert spark.step()
    assert query.punctuations == [9000]  # Spark counts in milliseconds, and a join lets what follows it lag behind
    query.exchange.append(0, Punctuation(END, 1, 0.0))
    assert spark.step()
    assert not query.exchange.ended
    assert spark.step()
    assert query.punctuations == [9000, END]


def test_a_query_that_runs_no_micro_batch_by_itself_is_given_a_turn() -> None:
    query = Query(lag=0)
    spark = Spark(query)  # as after a restart, when Spark has forgotten that a watermark has to take effect
    query.exchange.append(0, Punctuation(END, 0, 0.0))
    assert spark.step()
    assert not spark.step()  # it is asked once whether there is anything new
    assert spark.step()
    assert spark.at == [Offset(0, END, 1)]
    assert query.punctuations == [END]
    assert not any(spark.step() for _ in range(3))


def test_a_micro_batch_that_is_written_again_is_not_handed_over_again() -> None:
    query = Query()
    spark = Spark(query)
    query.exchange.append(0, batch([1, 2]))
    query.exchange.append(0, Punctuation(5, 2, 0.0))
    spark.step()
    before = list(query.items)
    spark.run = query.exchange.begin(END_TIME)  # the server has died before it could note the commit
    spark.batch = 0
    spark.write([(FIRST, Offset(2, 5))])
    assert query.items == before
    spark.batch = 1
    query.exchange.append(0, batch([6], 2))
    query.exchange.append(0, Punctuation(END, 3, 0.0))
    assert spark.step()
    assert query.rows == [0, 1, 2]
    assert [item.position for item in query.items] == [0, 2, 2, 3]


def test_results_of_an_earlier_run_are_refused() -> None:
    query = Query()
    old, new = query.run, query.exchange.begin(END_TIME)
    for call in (
        lambda: query.exchange.latest(old, 0, 0, FIRST),
        lambda: query.exchange.partitions(old, 0, 0, FIRST, FIRST),
        lambda: query.exchange.put(old, "p", []),
        lambda: query.exchange.finish(old, 0, []),
        lambda: query.exchange.commit(old, 0, 0, FIRST),
    ):
        with pytest.raises(ExchangeRefused, match=r"run 1; expected 2"):
            call()
    query.exchange.finish(new, 0, [])


def test_only_rows_that_the_commit_names_are_handed_over() -> None:
    query = Query()
    table = pa.Table.from_pylist([{"time": 1, "n": 7, "text": ""}], schema=arrow_schema(COLUMNS).remove(3))
    for put in ("kept", "of a task that failed"):
        query.exchange.put(query.run, put, table.to_batches())
    query.exchange.finish(query.run, 0, ["kept"])
    assert query.rows == [7]
    with pytest.raises(ExchangeRefused, match=r"micro-batch 1: 1 of 1 parts of it never came"):
        query.exchange.finish(query.run, 1, ["of a task that failed"])


def test_rows_of_windows_have_the_birth_time_of_the_tuple_that_closed_them() -> None:
    query = Query(columns=WINDOWED, windowed=True, lag=0)
    spark = Spark(query, no_data=True)
    for time, born in ((10_000, 1.0), (20_000, 2.0), (30_000, 3.0), (30_500, 3.1)):
        query.exchange.append(0, Punctuation(time, 0, born))
    spark.step(rows=[])
    windows = [{"time": end - 1, "window_start": end - 10_000, "window_end": end, "n": end} for end in (30_000, 10_000)]
    spark.step(rows=[*windows, {**windows[0], "n": 1}])
    assert [(item.born, item.table["n"].to_list()) for item in query.items if isinstance(item, Batch)] == [
        (1.0, [10_000]),
        (3.0, [30_000, 1]),
    ]
    assert query.items[-1] == Punctuation(30_000, 3, 3.0)


def test_rows_without_windows_have_the_birth_time_of_their_input() -> None:
    query = Query()
    spark = Spark(query)
    query.exchange.append(0, batch([5], 0, born=7.0))
    query.exchange.append(0, Punctuation(10, 1, 9.0))
    spark.step()
    assert [item.born for item in query.items] == [7.0, 9.0]


def test_birth_times_are_retained_only_for_later_rows() -> None:
    ages = BirthTimes(0.0)
    for number in range(100):
        ages.passed(10 * number, float(number))
    ages.forget(500)
    assert ages.of(400) == ages.of(510) == 51.0
    assert ages.of(10_000) == 0.0


def test_an_input_that_is_not_read_delays_nothing() -> None:
    query = Query(2, taps=2, limit=50)
    spark = Spark(query)  # it reads the first input by its first tap and nothing else
    query.exchange.append(1, batch([1]))
    query.exchange.append(1, Punctuation(2, 1, 0.0))
    assert query.is_full()
    query.exchange.append(0, Punctuation(END, 0, 0.0))
    assert spark.step()
    assert query.exchange.ended
    query.exchange.append(1, batch([5], 1))
    assert not query.is_full()
    assert query.exchange.late == 0


def test_a_full_input_reports_when_it_has_room() -> None:
    query = Query(limit=500)
    spark = Spark(query)
    query.exchange.append(0, batch([1] * 40))
    query.exchange.append(0, Punctuation(2, 40, 0.0))
    assert query.is_full()
    assert spark.step()
    assert query.rooms == 1
    assert not query.is_full()


def test_a_query_with_news_on_one_input_does_not_wait_on_the_other() -> None:
    query = Query(2)
    query.exchange.append(0, Punctuation(5, 0, 0.0))
    for _ in range(3):
        assert query.exchange.latest(query.run, 1, 0, FIRST, WITHIN) == FIRST
    assert query.exchange.latest(query.run, 0, 0, FIRST, WITHIN) == Offset(0, 5)


def test_an_idle_query_waits_for_news() -> None:
    query = Query()
    assert query.exchange.latest(query.run, 0, 0, FIRST, WITHIN) == FIRST  # the first time, it is answered at once
    answers: list[Offset] = []
    waiting = threading.Thread(
        target=lambda: answers.append(query.exchange.latest(query.run, 0, 0, FIRST, WITHIN)), daemon=True
    )
    waiting.start()
    query.exchange.append(0, Punctuation(5, 0, 0.0))
    waiting.join(WITHIN)
    assert answers == [Offset(0, 5)]


def test_results_that_break_a_promise_are_refused() -> None:
    query = Query(columns=WINDOWED, windowed=True)
    spark = Spark(query)
    query.exchange.append(0, Punctuation(10_000, 0, 0.0))
    spark.step(rows=[])
    query.exchange.append(0, Punctuation(20_000, 0, 0.0))
    with pytest.raises(ValueError, match=r"column 'time': 5999 µs since 1970; expected at least 10000, as promised"):
        spark.step(rows=[{"time": 5999, "window_start": 0, "window_end": 6000, "n": 1}])


# -- through the endpoint ----------------------------------------------------------------------------------------------


@pytest.fixture(params=["socket", "port"])
def endpoint(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[PeerEndpoint]:
    endpoint = PeerEndpoint(folder=lambda: tmp_path if request.param == "socket" else None)
    yield endpoint
    endpoint.close()


def options(endpoint: PeerEndpoint, asked: Query, **other: Any) -> dict[str, str]:
    name, run = asked.exchange.name, asked.run
    found = {
        "endpoint": endpoint.address,
        "token": endpoint.token,
        "certificate": endpoint.certificate,
        "query": name,
        "run": run,
        "port": 0,
        "tap": 0,
        **other,
    }
    return {name: str(value) for name, value in found.items()}


def test_spark_reads_and_writes_through_the_endpoint(endpoint: PeerEndpoint) -> None:
    query = Query()
    endpoint.admit(query.exchange)
    reader, writer = Reader(options(endpoint, query)), Writer(options(endpoint, query))
    start = reader.initialOffset()
    assert start == {"position": 0, "time": START, "turn": 0}
    assert reader.latestOffset(start) == start
    query.exchange.append(0, batch([4, 2, 3]))
    query.exchange.append(0, Punctuation(END, 3, 0.0))
    end = reader.latestOffset(start)
    assert json.loads(json.dumps(end)) == {"position": 3, "time": END, "turn": 0}
    (part,) = reader.partitions(start, end)
    batches = list(reader.read(part))
    assert all(each.schema.equals(arrow_schema(COLUMNS)) for each in batches)
    table = pa.Table.from_batches(batches)
    assert table["n"].to_pylist() == [0, 1, 2, None]
    assert table[MARK].to_pylist() == [False, False, False, True]
    assert table["time"].cast(pa.int64()).to_pylist()[-1] == END_TIME
    rows = table.slice(0, 3).drop_columns([MARK])
    messages = [writer.write(iter(rows.slice(at, 1).to_batches())) for at in range(3)]
    messages.append(writer.write(iter([])))
    assert messages[3].put == ""
    writer.commit([*messages, None], 0)
    writer.commit([*messages, None], 0)
    assert query.rows == [1, 2, 0]
    assert query.punctuations == [END]
    reader.commit(end)
    with pytest.raises(fl.FlightServerError, match=r"position 0; expected at least 3: what lies before it was commit"):
        reader.partitions(start, end)


def test_a_large_micro_batch_is_read_by_two_tasks(endpoint: PeerEndpoint) -> None:
    query = Query(limit=1 << 30)
    endpoint.admit(query.exchange)
    reader = Reader(options(endpoint, query))
    query.exchange.append(0, batch(list(range(150_001))))
    query.exchange.append(0, Punctuation(END, 150_001, 0.0))
    start = reader.initialOffset()
    parts = reader.partitions(start, reader.latestOffset(start))
    tables = [pa.Table.from_batches(reader.read(part)) for part in parts]
    assert [table.num_rows for table in tables] == [75_001, 75_001]
    assert [sum(table[MARK].to_pylist()) for table in tables] == [1, 0]
    numbers = [number for table in tables for number in table["n"].to_pylist() if number is not None]
    assert numbers == list(range(150_001))


def test_a_client_without_the_token_is_refused(endpoint: PeerEndpoint) -> None:
    query = Query()
    endpoint.admit(query.exchange)
    reader = Reader(options(endpoint, query, token="guessed"))
    with pytest.raises(fl.FlightUnauthenticatedError, match=r"token: expected that of the endpoint"):
        reader.initialOffset()
    with pytest.raises(fl.FlightUnauthenticatedError):
        fl.connect(endpoint.address, tls_root_certs=endpoint.certificate or None).do_get(fl.Ticket(b"{}"))


def test_errors_come_to_spark_in_one_line(endpoint: PeerEndpoint) -> None:
    query = Query()
    with pytest.raises(fl.FlightServerError, match=r"^query 'q' is not at this endpoint"):
        Reader(options(endpoint, query)).initialOffset()
    endpoint.admit(query.exchange)
    with pytest.raises(fl.FlightServerError, match=r"^query q: run 9; expected 1, the query has been restarted"):
        Reader(options(endpoint, query, run=9)).initialOffset()
    table = pa.Table.from_pylist([{"time": None, "n": 1, "text": ""}], schema=arrow_schema(COLUMNS).remove(3))
    writer = Writer(options(endpoint, query))
    with pytest.raises(fl.FlightServerError, match=r"^column 'time': 1 of 1 tuples have none"):
        writer.commit([writer.write(iter(table.to_batches()))], 0)
    endpoint.dismiss(query.exchange)
    with pytest.raises(fl.FlightServerError, match=r"not at this endpoint"):
        writer.write(iter(table.to_batches()))


def test_a_commit_waits_until_the_peer_accepts_more(endpoint: PeerEndpoint) -> None:
    taken, room = threading.Event(), threading.Event()
    handed: list[Item] = []

    def take(items: list[Item]) -> None:
        taken.set()
        room.wait(WITHIN)
        handed.extend(items)

    query = Query(take=take)
    endpoint.admit(query.exchange)
    writer = Writer(options(endpoint, query))
    table = pa.Table.from_pylist([{"time": 1, "n": 1, "text": ""}], schema=arrow_schema(COLUMNS).remove(3))
    message: Written = writer.write(iter(table.to_batches()))
    commits = [threading.Thread(target=writer.commit, args=([message], 0), daemon=True) for _ in range(2)]
    commits[0].start()
    assert taken.wait(WITHIN)
    commits[1].start()  # the same one again, as after the death of a server in the meantime
    assert handed == []
    room.set()
    for commit in commits:
        commit.join(WITHIN)
        assert not commit.is_alive()
    assert len(handed) == 1


def test_waiting_results_are_refused_when_the_query_is_stopped(endpoint: PeerEndpoint) -> None:
    query = Query()
    endpoint.admit(query.exchange)
    query.exchange.latest(query.run, 0, 0, FIRST)
    errors: list[str] = []

    def wait() -> None:
        with pytest.raises(ExchangeRefused) as caught:
            query.exchange.latest(query.run, 0, 0, FIRST, WITHIN)
        errors.append(str(caught.value))

    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    endpoint.dismiss(query.exchange)
    waiting.join(WITHIN)
    assert errors == ["query q has been stopped"]


def test_one_query_is_dismissed_and_another_goes_on(endpoint: PeerEndpoint) -> None:
    one, other = Query(), Query(name="other")
    endpoint.admit(one.exchange)
    endpoint.admit(other.exchange)
    with pytest.raises(ValueError, match=r"query 'q' is at the endpoint already"):
        endpoint.admit(one.exchange)
    reader = Reader(options(endpoint, other))
    start = reader.initialOffset()
    endpoint.dismiss(one.exchange)
    other.exchange.append(0, Punctuation(3, 0, 0.0))
    assert reader.latestOffset(start)["time"] == 3


def test_an_endpoint_at_a_port_speaks_tls_only() -> None:
    endpoint, other = PeerEndpoint(), PeerEndpoint()
    address = endpoint.address
    assert address.startswith("grpc+tls://127.0.0.1:")
    action = fl.Action("latest", b"{}")
    for client in (
        fl.connect(address.replace("grpc+tls", "grpc")),
        fl.connect(address),
        fl.connect(address, tls_root_certs=(other.address and other.certificate)),
    ):
        with pytest.raises(fl.FlightUnavailableError):
            list(client.do_action(action))
    with pytest.raises(fl.FlightUnauthenticatedError):
        list(fl.connect(address, tls_root_certs=endpoint.certificate).do_action(action))
    endpoint.close()
    other.close()


def test_a_path_that_is_too_long_for_a_socket_is_left_for_a_port(tmp_path: Path) -> None:
    endpoint = PeerEndpoint(folder=lambda: tmp_path / ("x" * 120))
    assert endpoint.address.startswith("grpc+tls://")
    endpoint.close()


def test_a_closed_endpoint_does_not_open_again() -> None:
    endpoint = PeerEndpoint()
    address = endpoint.address
    endpoint.close()
    with pytest.raises(RuntimeError, match="closed"):
        _ = endpoint.address
    with pytest.raises(fl.FlightUnavailableError):
        list(fl.connect(address).do_action(fl.Action("latest", b"{}")))


# -- files that Spark reads itself -------------------------------------------------------------------------------------


def operator(**params: Any) -> Operator:
    connector = params.pop("connector", "trace")
    return source(connector, **params).sink().operators["source"]


def test_a_file_is_announced_when_the_previous_one_was_read(tmp_path: Path) -> None:
    files = Files(tmp_path, taps=2)
    query = Query(0)
    query.exchange.attach(files, arrow_schema(COLUMNS), 2)
    paths = [tmp_path / f"{number}.parquet" for number in range(3)]
    for path, time in zip(paths, (10, 20, END), strict=True):
        path.touch()
        files.stage(Staged(path, time))
    run = query.exchange.begin(END_TIME)
    links = [folder / "000000.parquet" for folder in files.folders]
    assert all(link.resolve() == paths[0] for link in links)
    ask = query.exchange.latest
    at = query.exchange.initial(run, 0, 0)
    assert at == Offset(1, START)
    offsets = []
    while (end := ask(run, 0, 0, at, 0.0)) != at:
        offsets.append(end)
        assert max(path.name for path in files.folders[0].iterdir()) == f"{end.position - 1:06}.parquet"
        at = end
    assert offsets == [Offset(2, 10), Offset(3, 20), Offset(3, END)]
    assert query.exchange.partitions(run, 0, 0, offsets[0], offsets[1]) == [Slice(0, 0, True)]
    query.exchange.commit(run, 0, 0, offsets[1])
    assert all(path.exists() for path in paths)  # the other reader has not committed it
    query.exchange.commit(run, 0, 1, offsets[1])
    assert [path.exists() for path in paths] == [False, False, True]
    assert not any(link.is_symlink() for link in links)


def test_staging_does_not_run_far_ahead(tmp_path: Path) -> None:
    query = Query(0)
    query.exchange.attach(Files(tmp_path), arrow_schema(COLUMNS), 1)
    staged: list[int] = []
    progressed = threading.Condition()

    def stage() -> None:
        for number in range(5):
            with progressed:
                staged.append(number)
                progressed.notify_all()
            if not query.exchange.stage(0, Staged(tmp_path / str(number), number)):
                return

    thread = threading.Thread(target=stage, daemon=True)
    thread.start()
    assert query.exchange.staged()
    with progressed:
        assert progressed.wait_for(lambda: len(staged) == 2, WITHIN)
    run = query.exchange.begin(END_TIME)
    with progressed:
        assert progressed.wait_for(lambda: len(staged) == 3, WITHIN)
    assert query.exchange.latest(run, 0, 0, Offset(1, START), 0.0) == Offset(2, 0)
    query.exchange.close()
    thread.join(WITHIN)
    assert not thread.is_alive()
    assert not query.exchange.staged()


@pytest.mark.parametrize("numbered", [False, True])
def test_a_converted_source_is_the_same_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, numbered: bool) -> None:
    monkeypatch.setattr("spark_stream._staging.FILE_ROWS", 400)
    made = operator(connector="packets", seed=3, count=1000, speed=0)
    files = list(convert(made, tmp_path, numbered=numbered))
    expected = pl.concat([item.table for item in traces.read(made.params) if isinstance(item, Batch)])
    tables = [pl.read_parquet(file.path) for file in files]
    assert [table.height for table in tables] == [400, 400, 200]
    assert files[-1].time == END
    for file, following in zip(files, tables[1:], strict=False):
        assert following["time"].dt.timestamp("us").min() == file.time
    found = pl.concat(tables).with_columns(pl.col("time").dt.replace_time_zone(None))
    if numbered:
        assert found["_position"].to_list() == list(range(1000))
        found = found.drop("_position")
    assert found.equals(expected)


@pytest.mark.parametrize("numbered", [False, True])
def test_a_whole_stream_is_one_file_in_its_order(tmp_path: Path, numbered: bool) -> None:
    path, kinds = tmp_path / "rows.parquet", {"time": "time", "lasts": "duration", "n": "int", "a.b": "str"}
    rows = pl.DataFrame({"time": [5, 3, 4, 3], "lasts": [1, None, 2, 3], "n": [1, 2, 3, 4], "a.b": list("xyxz")})
    rows = rows.with_columns(pl.col("time").cast(pl.Datetime("us")), pl.col("lasts").cast(pl.Duration("us")))
    assert write_whole(rows.iter_slices(3), path, kinds, numbered=numbered) == {"n": 4 * 4}
    found = pl.read_parquet(path)
    if numbered:
        assert found["_position"].to_list() == [0, 1, 2, 3]
        found = found.drop("_position")
    assert found.schema["lasts"] == pl.Int64()
    assert found.schema["time"] == pl.Datetime("us", "UTC")
    assert found.select("n", "a.b").rows() == rows.select("n", "a.b").rows()
    assert write_whole([], path, kinds, numbered=numbered) == {"n": 0}
    assert pl.read_parquet(path).height == 0


def test_a_file_says_how_large_a_sum_of_its_integers_can_be(tmp_path: Path) -> None:
    """Of all groups of rows, whatever the sign; a column without statistics is not known."""
    path, kinds = tmp_path / "rows.parquet", {"time": "time", "n": "int", "m": "int"}
    rows = pl.DataFrame({"time": [1, 2, 3, 4], "n": [1, -(2**61), None, 5], "m": [None, None, 7, 7]})
    rows = rows.with_columns(pl.col("time").cast(pl.Datetime("us")))
    assert write_whole(rows.iter_slices(2), path, kinds, numbered=False) == {"n": 2**63, "m": 28}
    assert totals_of(path, ["n", "m"]) == {}  # it needs no statistics
    rows.write_parquet(path, row_group_size=1)
    assert totals_of(path, ["n"]) == {}  # nor has a group of NULLs any
    rows.fill_null(0).write_parquet(path, row_group_size=1)
    assert totals_of(path, ["n", "m"]) == {"n": 2**63, "m": 28}


def test_a_trace_out_of_order_is_cut_at_its_punctuations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_stream._staging.FILE_ROWS", 3)
    path = tmp_path / "trace.csv"
    path.write_text("time,n\n1,0\n5,1\n2,2\n3,3\n6,4\n4,5\n7,6\n")
    made = operator(path=str(path), format="csv", columns={"time": "time", "n": "int"}, lateness="3 s")
    files = list(convert(made, tmp_path))
    assert [pl.read_parquet(file.path)["n"].to_list() for file in files] == [[0, 2], [1, 3, 4, 5], [6]]
    times = [pl.read_parquet(file.path)["time"].dt.timestamp("us") for file in files]
    for file, following in zip(files, times[1:], strict=False):
        assert following.to_list() >= [file.time]


def test_spark_reads_a_trace_as_it_is_if_it_is_right(tmp_path: Path) -> None:
    columns = {"time": "time", "n": "int"}
    table = pl.DataFrame({"ts": [1, 2, 3], "n": [1, 2, 3]}).with_columns(pl.col("ts").cast(pl.Datetime("us")))
    path = tmp_path / "trace.parquet"

    def found(table: pl.DataFrame, *, ordered: bool = True, statistics: bool = True, **params: Any) -> bool:
        table.write_parquet(path, statistics=statistics)
        made = operator(path=str(path), format="parquet", columns={"ts": "time", "n": "int"}, time="ts", **params)
        read = direct(made, columns, ordered=ordered)
        assert read is None or read[0] == Staged(path, END, temporary=False)
        return read is not None

    assert found(table)
    assert not found(table, lateness="1 s")
    assert not found(table.reverse())
    assert not found(table.with_columns(pl.col("n").cast(pl.Int32)))
    assert not found(table.with_columns(pl.col("ts").dt.timestamp("us") / 1e6))
    assert not found(table.head(0))
    nothing = pl.Series("ts", [None], dtype=pl.Datetime("us"))
    assert not found(pl.concat([table, pl.DataFrame({"ts": nothing, "n": [4]})]))
    far = table.with_columns(pl.Series("ts", [-(10**18), 0, 1], dtype=pl.Datetime("us")))
    for known in (True, False):  # by the statistics of the file, or by its rows
        assert found(table.reverse(), ordered=False, statistics=known)
        assert not found(pl.concat([table, pl.DataFrame({"ts": nothing, "n": [4]})]), ordered=False, statistics=known)
        assert not found(far, ordered=False, statistics=known)
    zoned = table.with_columns(pl.col("ts").dt.replace_time_zone("UTC"))
    assert found(zoned)


def test_formats_that_spark_does_not_read_are_named() -> None:
    assert supported_source(operator(connector="packets", count=5, speed=0), local=True) == ""
    assert "a peer has to time" in supported_source(operator(connector="packets", count=5), local=True)
    assert supported_source(operator(connector="packets", count=5, speed=0), local=False) == (
        "the trace is on this machine, and Spark is on another"
    )
