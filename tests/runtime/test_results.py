"""Results are read by position: none is lost or doubled, through interruptions and with several readers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, NoReturn

import msgspec
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synergy_nb.control.roles import Roles
from synergy_nb.dataflow.streams.log.log import LIMITS, Limits, StreamLog
from synergy_nb.dataflow.streams.log.values import ORIGIN
from synergy_nb.dataflow.tuples import END, START, Batch, Item, Punctuation, decode, encode
from synergy_nb.events import Event
from synergy_nb.events.application_states import Status
from synergy_nb.events.table import Events
from synergy_nb.plan import Plan, source
from synergy_nb.reporting.peer_states import PeerState
from synergy_nb.runtime.client._results import NewestRows, Results, gone_notice
from synergy_nb.runtime.client.async_application import AsyncApplication
from synergy_nb.runtime.data._ended_sinks import ENDED
from synergy_nb.runtime.data._sinks import DeliveredSink
from synergy_nb.runtime.data.deliveries import Deliveries
from synergy_nb.runtime.process.requests import (
    ApplicationState,
    ClusterError,
    Fetch,
    FetchedResults,
    Push,
    Pushed,
    pack,
    unpack,
)
from tests.two_hosts import Pair, play, table
from tests.waiting import turns, until

on_loop = play  # how the tests that are coroutines run

COLUMNS = {
    name: "int" if name in {"source_port", "destination_port", "bytes"} else "str" for name in table(0, 1).columns[1:]
}
HERE = {"source": "a", "sink": "a"}


def plan() -> Plan:
    return source("python", name="mine", columns=COLUMNS).sink()


class Peer:
    """A peer with one application, asked by several notebooks; what it answers to these may get lost."""

    def __init__(self, limits: Limits = LIMITS) -> None:
        self.pair = Pair(limits=limits)
        self.told: list[str] = []  # lines for the user
        self.pair.deploy("app", plan(), HERE)
        self.ended = Status.RUNNING  # what has become of it, unless its streams have ended
        self.deliveries = Deliveries(self.pair.net["a"], asyncio.get_running_loop(), lambda _: self.status)
        self.asked = 0  # fetches that were answered
        self.lost = False  # whether answers to fetches get lost
        self.position = 0

    async def leader(self, application: str, without: str, seconds: float) -> tuple[str, ApplicationState] | None:
        """Nobody else leads it."""
        return None

    @property
    def state(self) -> ApplicationState:
        return ApplicationState("app", self.status, roles=Roles(HERE))

    @property
    def status(self) -> Status:
        """The state of the application."""
        return Status.FINISHED if self.pair.finished else self.ended

    async def push(self, rows: int, *, ends: bool = False) -> None:
        """Have so many tuples more at the sink."""
        items: list[Item] = [Batch(table(self.position, rows), self.position, 0.0)] if rows else []
        self.position += rows
        promise = Punctuation(END if ends else self.position * 1000, self.position, 0.0)
        for item in (*items, promise):
            answer = unpack(await self.deliveries.push(pack(Push("app", "mine", encode(item)))), Pushed)
            assert answer.end[0] == self.position
        log = self.pair.net["a"].hosting.components["app", "sink"].log
        await until(lambda: log.end == (self.position, promise.time))

    async def run_beside(self, plan: Plan, application: object, patience: float, *, trial: bool = False) -> NoReturn:
        raise AssertionError("its plan is not replaced")

    async def send_contents(self, plan: Plan) -> None:
        raise AssertionError("its plan is not replaced")

    def exchange(self, application: object, former: str) -> None:
        raise AssertionError("its plan is not replaced")

    async def states(self) -> Mapping[str, PeerState | None]:
        return {}

    async def recorded(self) -> str:
        """Nothing is recorded."""
        return ""

    def notebook(self) -> AsyncApplication:
        """One more handle of the application, in a process of its own."""
        return AsyncApplication(self, plan(), "a", self.state)

    async def fetch(self, request: Fetch) -> FetchedResults:
        """The answer to one request."""
        return unpack(await self.deliveries.fetch(pack(request)), FetchedResults)

    # -- as the cluster of a handle ------------------------------------------------------------------------------

    async def request(self, peer: str, operation: str, payload: bytes = b"", timeout: float = 5.0) -> bytes:
        if operation == "fetch":
            answer = await self.deliveries.fetch(payload)
            self.asked += 1
            if self.lost:
                await asyncio.Event().wait()
            return answer
        assert operation in {"application", "wait", "release"}
        await turns()
        return pack(self.state)

    request_while_alive = request

    async def events(self, subject: str = "") -> Events:
        return Events()

    async def account(self, application: str) -> list[Event]:
        return []

    @property
    def names(self) -> Mapping[str, str]:
        return {"a": "a"}

    def delays(self) -> None:
        return None

    def name(self, address: str) -> str:
        return address

    def readable(self, text: str) -> str:
        return text

    def tell(self, text: str) -> None:
        self.told.append(text)

    def forget(self, application: str) -> None:
        pass


async def interrupt(peer: Peer, call: Any) -> None:
    """Interrupt a call for results when the peer has answered it and the answer is on its way."""
    peer.lost, before = True, peer.asked
    task = asyncio.create_task(call)
    await until(lambda: peer.asked > before)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    peer.lost = False


def taken(application: AsyncApplication) -> list[int]:
    """What a handle has of the results."""
    values: list[int] = application.collected()["bytes"].to_list()
    return values


def values(answer: FetchedResults) -> list[int]:
    found = map(decode, answer.items)
    return [value for item in found if isinstance(item, Batch) for value in item.table["bytes"].to_list()]


async def test_a_lost_answer_is_repeated() -> None:
    peer = Peer()
    mine = peer.notebook()
    await peer.push(10)
    await interrupt(peer, mine.results(wait=False))
    await peer.push(10)
    await interrupt(peer, mine.results(wait=False))
    assert taken(mine) == []
    await mine.results(wait=False)
    assert taken(mine) == list(range(20))
    await peer.push(5)
    await interrupt(peer, mine.head(25))
    await peer.push(5, ends=True)
    assert (await mine.results())["bytes"].to_list() == list(range(30))


async def test_the_same_request_has_the_same_results() -> None:
    peer = Peer()
    await peer.push(10)
    first = await peer.fetch(Fetch("app", "sink", None, wait=0.0))
    again = await peer.fetch(Fetch("app", "sink", None, wait=0.0))
    assert again == first
    assert (values(first), first.start) == (list(range(10)), ORIGIN)
    await peer.push(10)
    after = await peer.fetch(Fetch("app", "sink", first.end, wait=0.0))
    assert (values(after), after.start) == (list(range(10, 20)), first.end)
    assert await peer.fetch(Fetch("app", "sink", first.end, wait=0.0)) == after
    nothing = await peer.fetch(Fetch("app", "sink", after.end, wait=0.0))
    assert nothing == FetchedResults([], after.end, after.end, finished=False)


async def test_reading_takes_results_from_nobody() -> None:
    peer = Peer()
    one, two = peer.notebook(), peer.notebook()
    await peer.push(10)
    assert (await one.head(1))["bytes"].to_list() == [0]
    await peer.push(10)
    await interrupt(peer, two.results(wait=False))
    assert (await two.head(1))["bytes"].to_list() == [0]
    await peer.push(10)
    await one.results(wait=False)
    late = peer.notebook()
    await late.results(wait=False)
    assert taken(one) == taken(late) == list(range(30))
    await peer.push(5, ends=True)
    for each in (two, one, late, peer.notebook()):
        assert (await each.results())["bytes"].to_list() == list(range(35))
        assert each.notices == []


async def test_a_reader_that_comes_too_late_for_the_first_results_says_so() -> None:
    peer = Peer(Limits(results=40_000))
    early, late = peer.notebook(), peer.notebook()
    for _ in range(10):
        await peer.push(50)
        await early.results(wait=False)
    await early.results(wait=False)
    await late.results(wait=False)
    found = taken(late)
    assert taken(early) == list(range(500))
    assert found == list(range(500 - len(found), 500))
    assert 0 < len(found) < 500
    (notice,) = late.notices
    assert notice.startswith(f"{500 - len(found)} rows of 'sink' had been discarded before this handle read them")
    assert peer.told == [f"plan: {notice}"]
    assert early.notices == []


async def test_a_reader_waits_for_results_and_not_for_punctuations() -> None:
    peer = Peer()
    mine = peer.notebook()
    task = asyncio.create_task(mine.head(3))
    for time in (-3000, -2000, -1000):
        await peer.deliveries.push(pack(Push("app", "mine", encode(Punctuation(time, 0, 0.0)))))
        await turns(10)
        assert not task.done()
    await peer.push(3)
    assert (await task)["bytes"].to_list() == [0, 1, 2]


async def test_results_behind_punctuations_are_returned_without_waiting() -> None:
    """Its last answer held promises only, and got lost."""

    peer = Peer()
    mine = peer.notebook()
    await peer.push(0)
    await interrupt(peer, mine.results(wait=False))
    await peer.push(4)
    await mine.results(wait=False)
    assert taken(mine) == [0, 1, 2, 3]


async def test_a_removed_sink_ends_a_waiting_request() -> None:
    peer = Peer()
    mine = peer.notebook()
    await peer.push(3)
    await mine.results(wait=False)
    first = await peer.fetch(Fetch("app", "sink", None, wait=0.0, reader="other"))
    waiting = asyncio.create_task(peer.fetch(Fetch("app", "sink", first.end, wait=5.0, reader="other")))
    await turns(10)
    peer.ended = Status.FINISHED
    peer.pair.undeploy("app", HERE)
    assert (await waiting) == FetchedResults([], first.end, first.end, finished=False)
    peer.pair.net["a"].ended.discard("app")
    assert (await peer.fetch(Fetch("app", "sink", first.end, reader="other"))).gone
    with pytest.raises(ClusterError, match="its results have been discarded: another handle of it has collected them"):
        await mine.results()


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.booleans(), st.integers(0, 3)), max_size=20))
def test_interrupted_readers_receive_all_results(
    steps: list[tuple[int, bool, int]],
) -> None:
    async def scenario() -> None:
        peer = Peer()
        readers = [peer.notebook() for _ in range(3)]
        for number, interrupted, rows in steps:
            await peer.push(rows)
            if interrupted:
                await interrupt(peer, readers[number].results(wait=False))
            else:
                await readers[number].results(wait=False)
        await peer.push(1, ends=True)
        for reader in readers:
            await reader.results()
        assert all(taken(reader) == list(range(peer.position)) for reader in readers)

    play(scenario())


def test_an_answer_with_results_that_were_received_before_is_refused() -> None:
    results = Results("app", "out", "me")
    assert results.request(0.5) == Fetch("app", "out", None, wait=0.5, reader="me")
    item = encode(Batch(table(0, 3), 0, 0.0))
    assert results.add(FetchedResults([item], (0, 0), (3, 9), finished=False)) == len(item)
    assert results.request(0.0).since == (3, 9)
    with pytest.raises(ClusterError, match="app: results of out from tuple 2 on; expected those from 3 on"):
        results.add(FetchedResults([item], (2, 9), (5, 9), finished=False))
    results.add(FetchedResults([item], (7, 9), (10, 9), finished=True))
    assert results.ended
    assert results.rows == 0
    found = results.table()
    assert found is not None
    assert found["bytes"].to_list() == [0, 1, 2, 0, 1, 2]
    assert results.rows == 6


async def test_what_is_unread_when_another_handle_stops_the_application_stays_readable() -> None:
    peer = Peer()
    mine = peer.notebook()
    await peer.push(10)
    assert (await mine.head(3))["bytes"].to_list() == [0, 1, 2]
    await peer.push(20)
    peer.ended = Status.STOPPED
    peer.pair.undeploy("app", HERE)
    late = peer.notebook()
    for each in (mine, late):
        assert (await each.latest(2))["bytes"].to_list() == [28, 29]
        assert (await each.results(wait=False))["bytes"].to_list() == list(range(30))
        assert each.notices == []
        with pytest.raises(ClusterError, match=r"app: stopped: on request"):
            await each.head(31)
    reading = peer.notebook().stream()
    assert (await anext(reading))["bytes"].to_list() == list(range(10))
    assert (await anext(reading))["bytes"].to_list() == list(range(10, 30))
    with pytest.raises(ClusterError, match=r"app: stopped: on request"):
        await anext(reading)


async def test_unread_results_are_retained_within_a_bound_and_who_lacks_some_says_so() -> None:
    peer = Peer(Limits(results=40_000))
    mine = peer.notebook()
    await peer.push(10)
    peer.ended = Status.STOPPED
    peer.pair.undeploy("app", HERE)
    ended = peer.pair.net["a"].ended
    ((_, log),) = ended.of("app")
    many = [DeliveredSink(f"other-{number}", "sink", limit=None, now=0.0) for number in range(ENDED + 1)]
    for each in many[:-2]:
        ended.add(each, StreamLog())
        assert not ended.of(each.application), "nobody lacks anything of it"
        each.ended = True
        ended.add(each, StreamLog())
    assert (await mine.results(wait=False)).height == 10
    for each in many[-2:]:
        ended.add(each, log)
    assert not ended.of("app"), "one more than are retained"
    other = peer.notebook()
    assert (await other.results(wait=False)).height == 0
    assert other.notices == [gone_notice("sink")]
    big = [type("Big", (), {"size": 30_000})() for _ in range(2)]
    ended.add(many[0], big[0])
    ended.add(many[1], big[1])
    assert [name for each in many if ended.of(name := each.application)] == [many[1].application], "in bytes, too"


async def test_a_look_waits_for_what_is_new_and_paces_nobody() -> None:
    peer = Peer(Limits(results=40_000))
    mine, newest = peer.notebook(), NewestRows(15)
    await peer.push(10)
    assert await mine.look(newest, "sink", 0.0) == (10, False)
    assert await mine.look(newest, "sink", 0.0) == (0, False)
    waiting = asyncio.create_task(mine.look(newest, "sink", 60.0))
    await turns()
    assert not waiting.done()
    await peer.push(10)
    assert await waiting == (10, False)
    nothing = table(0, 0)
    assert newest.table(nothing)["bytes"].to_list() == list(range(5, 20)), "the last ones"
    latest = await mine.latest(15)
    assert newest.table(nothing).equals(latest)
    await peer.push(40)
    assert await mine.look(newest, "sink", 0.0) == (15, False), "no more than are wanted"
    assert newest.table(nothing)["bytes"].to_list() == list(range(45, 60))
    assert (await mine.results(wait=False))["bytes"].to_list() == list(range(60)), "nothing was taken"
    await peer.push(0, ends=True)
    assert await mine.look(newest, "sink", 60.0) == (0, True)


async def test_a_look_after_rows_were_discarded_begins_anew_and_one_at_what_has_ended_ends() -> None:
    peer = Peer(Limits(results=8_000))
    mine, newest = peer.notebook(), NewestRows(100)
    await peer.push(2)
    await mine.look(newest, "sink", 0.0)
    for _ in range(20):
        await peer.push(10)
        await mine.results(wait=False)  # what all handles have is retained up to a bound
    came, _ = await mine.look(newest, "sink", 0.0)
    rows = newest.table(table(0, 0))["bytes"].to_list()
    assert rows == list(range(202 - came, 202))
    peer.ended = Status.STOPPED
    peer.pair.undeploy("app", HERE)
    assert await mine.look(newest, "sink", 60.0) == (0, True)


async def test_rows_of_a_time_are_those_that_its_measurements_have_between_them() -> None:
    peer = Peer(Limits(results=8_000))
    mine = peer.notebook()
    (sink,) = peer.pair.net["a"].sinks("app")
    began = 1e10  # after any clock
    for second in range(4):  # when 0, 10, 20 and 30 rows have come
        sink.interval(began + second)
        await peer.push(10)

    async def came(since: float, until: float, rows: int = 100) -> list[int]:
        found, _ = await mine.came_between(began + since, began + until, rows, "sink")
        return found["bytes"].to_list()

    assert await came(1.0, 2.0) == list(range(10, 20))
    assert await came(1.2, 1.4) == list(range(10, 20)), "measurements divide the times"
    assert await came(0.5, 2.5) == list(range(30))
    assert await came(0.5, 2.5, rows=12) == list(range(12)), "the first of them"
    assert await came(3.0, 100.0) == list(range(30, 40)), "those since the last measurement"
    assert await came(-10.0, -1.0) == []
    assert (await mine.results(wait=False)).height == 40, "nothing was taken"
    for _ in range(20):
        await peer.push(10)
        await mine.results(wait=False)
    found, gone = await mine.came_between(began + 1.0, began + 2.0, 100, "sink")
    assert (found.height, gone) == (0, 10)
    peer.ended = Status.STOPPED
    peer.pair.undeploy("app", HERE)
    assert (await came(-began, began))[-1] == 239, "what is retained of it"


def test_rows_after_the_point_at_which_two_sinks_are_cut_are_those_of_the_other_one() -> None:
    def came(results: Results, times: list[int], until: int) -> None:
        rows = pl.DataFrame({"time": pl.Series(times, dtype=pl.Int64).cast(pl.Datetime("us")), "of": results.sink})
        before = results.request(0.0).since or (0, START)
        end = before[0] + rows.height, until
        results.add(FetchedResults([encode(Batch(rows, before[0], 0.0))], before, end, finished=False))

    def rows(results: Results) -> list[tuple[str, int]]:
        return [(row[1], row[0].microsecond) for table in results.arrived for row in table.rows()]

    for given_up in (False, True):
        old, new = Results("a", "old", "r"), Results("b", "new", "s")
        came(old, [1, 3, 2], 4)
        came(new, [2, 9, 5], 4)  # before it is known where both are cut
        for each in (old, new):
            each.cut(0)  # a destination has later rows: another time is chosen
            each.cut(6)
            assert all(table.height for table in each.arrived)
            assert not each.complete
        came(old, [5, 7, 6], 8)
        came(new, [7, 10], 8)
        assert old.complete
        assert new.complete
        if given_up:
            old.release()
            assert sorted(rows(old)) == [("old", time) for time in (1, 2, 3, 5, 6, 7)]
        else:
            arrived = old.arrived
            old.go_on_with(new)
            assert sorted(rows(old)) == [("new", time) for time in (7, 9, 10)] + [
                ("old", time) for time in (1, 2, 3, 5, 6)
            ]
            assert old.arrived is arrived, "loops hold it"
            assert (old.application, old.request(0.0).reader, old.until) == ("b", "s", 8)
            came(old, [12], 13)
            assert rows(old)[-1] == ("old", 12)


async def test_a_sink_that_is_read_from_the_durable_folder_is_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seen in a notebook: after the death of all, its loop over the results ended as there was no sink yet."""
    peer, looks = Peer(), 0

    def restores(application: str) -> bool:
        nonlocal looks
        looks += 1
        if looks == 3:
            peer.pair.deploy("later", plan(), HERE)
        return True

    monkeypatch.setattr(peer.pair.net["a"], "restores", restores)
    asked = Fetch("later", "sink", None, wait=0.0)
    found = await peer.fetch(asked)
    assert (found.gone, found.finished, found.items) == (False, False, []), "it is not there at the end of this request"
    assert not (await peer.fetch(msgspec.structs.replace(asked, wait=5.0))).gone
    assert looks == 3
    monkeypatch.setattr(peer.pair.net["a"], "restores", lambda _: False)
    with pytest.raises(LookupError, match="'other'"):
        await peer.fetch(Fetch("other", "sink", None))
