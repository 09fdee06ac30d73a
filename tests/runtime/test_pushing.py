"""The client's end of a source: what it sends again and to whom, what it retains, and when it gives up, by name."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import msgspec
import polars as pl
import pytest

from synergy_nb.control.roles import Roles
from synergy_nb.dataflow.streams.log.pushes import PushWindow, rest_of
from synergy_nb.dataflow.streams.log.values import Point
from synergy_nb.dataflow.tuples import END, START, Batch, Item, Punctuation, decode
from synergy_nb.plan import Plan, source
from synergy_nb.runtime.client import _pushing as pushing
from synergy_nb.runtime.client._pushing import Pushing
from synergy_nb.runtime.process.requests import (
    ApplicationState,
    AwaitCopies,
    ClusterError,
    PeerUnreachable,
    Push,
    Pushed,
    pack,
    unpack,
)
from tests.waiting import until


def batch(start: int, rows: int) -> Batch:
    times = pl.Series(range(start, start + rows), dtype=pl.Int64).cast(pl.Datetime("us"))
    return Batch(pl.DataFrame({"time": times, "v": list(range(start, start + rows))}), start, 0.0)


def plan(availability: str | None = "degree 2") -> Plan:
    numbers = source("python", name="n", columns={"v": "int"}, id="n", availability=availability)
    return numbers.filter("v >= 0", id="f").sink("out", availability="active 2")


class Source:
    """A source at a peer: what it has, what its copies have, and how it answers."""

    def __init__(self, epoch: int = 0, rows: list[int] | None = None) -> None:
        self.epoch = epoch
        self.rows = [] if rows is None else rows
        self.until = START
        self.copied = Point(0, START)
        self.copies = True  # whether copies have at once what the source has
        self.changed = asyncio.Event()
        self.ages: list[float] = []
        self.pushes = 0

    @property
    def end(self) -> Point:
        return Point(len(self.rows), self.until)

    def copy(self) -> None:
        """Have the copies have everything."""
        self.copied = self.end
        self.changed.set()

    def take(self, request: Push) -> Pushed:
        self.pushes += 1
        self.ages.append(request.age)
        item = decode(request.item)
        rest = rest_of(item, self.end) if Point(*request.start) <= self.end else None
        if isinstance(rest, Batch):
            self.rows += rest.table["v"].to_list()
        elif rest is not None:
            self.until = rest.time
        if self.copies:
            self.copy()
        return self.progress()

    def progress(self) -> Pushed:
        return Pushed(self.epoch, self.end, self.copied)


class Net:
    """A cluster with the peers of one source, and the application that it belongs to."""

    def __init__(self, plan: Plan, **sources: Source) -> None:
        self.plan = plan
        self.id = "app"
        self.sources: dict[str, Source | None] = dict(sources)
        self.where = next(iter(sources))
        self.status = "running"
        self.silent: set[str] = set()  # peers that do not answer, like suspended ones
        self.lost = 0  # answers that get lost from now on
        self.states = 0

    @property
    def last(self) -> ApplicationState:
        return ApplicationState("app", self.status, roles=Roles({"n": self.where}))

    async def state(self) -> ApplicationState:
        self.states += 1
        return self.last

    def name(self, address: str) -> str:
        return address

    async def request(self, peer: str, operation: str, payload: bytes = b"", timeout: float = 5.0) -> bytes:
        if peer in self.silent:
            await asyncio.Event().wait()
        if peer not in self.sources:
            raise PeerUnreachable(f"peer {peer} does not answer: its process has ended", ended=True)
        source = self.sources[peer]
        if source is None:
            return pack(Pushed(0, (0, START), (0, START), gone=True))
        if operation == "push":
            answer = source.take(unpack(payload, Push))
        else:
            asked = unpack(payload, AwaitCopies)
            while (
                source.epoch == asked.epoch
                and not source.copied > Point(*asked.beyond)
                and self.sources.get(peer) is source
            ):
                source.changed.clear()
                await source.changed.wait()
            if self.sources.get(peer) is not source:
                raise PeerUnreachable(f"peer {peer} does not answer: its process has ended")
            answer = source.progress()
        if self.lost:
            self.lost -= 1
            raise PeerUnreachable(f"peer {peer} does not answer: its process has ended, or the connection to it broke")
        return pack(answer)

    def die(self, peer: str, heir: str = "") -> None:
        """End a peer, whose source another one takes over."""
        source = self.sources.pop(peer)
        assert source is not None
        source.changed.set()
        self.where = heir or self.where


class Program:
    """Items that a program gives one after another, as soon as they are taken."""

    def __init__(self) -> None:
        self.given: asyncio.Queue[Item | None] = asyncio.Queue()
        self.taken = 0

    def rows(self, start: int, count: int) -> None:
        """Give a batch, and the promise behind it."""
        self.given.put_nowait(batch(start, count))
        self.given.put_nowait(Punctuation(start + count, start + count, 0.0))

    def end(self, position: int) -> None:
        self.given.put_nowait(Punctuation(END, position, 0.0))
        self.given.put_nowait(None)

    async def items(self) -> AsyncIterator[Item]:
        while (item := await self.given.get()) is not None:
            self.taken += 1
            yield item


def begun(net: Net, program: Program, most: int = 1 << 20) -> asyncio.Task[None]:
    return asyncio.create_task(Pushing(net, net, "n", most).send(program.items()))


@pytest.fixture(autouse=True)
def _hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits before asking again; whatever takes a turn of the loop has been patient."""
    monkeypatch.setattr(pushing, "PATIENCE_S", 0.0)
    monkeypatch.setattr(pushing, "AGAIN_S", 0.0)


@pytest.mark.parametrize("availability", ["degree 2", None])
async def test_an_item_whose_answer_was_lost_is_sent_again_and_taken_once(availability: str | None) -> None:
    net, program = Net(plan(availability), a=(one := Source())), Program()
    net.lost = 3
    sending = begun(net, program)
    program.rows(0, 5)
    program.rows(5, 5)
    program.end(10)
    await sending
    assert one.rows == list(range(10))
    assert one.pushes > 5


async def test_what_copies_lack_goes_to_the_peer_that_takes_over_although_nothing_more_is_pushed() -> None:
    one, other = Source(), Source(epoch=1)
    net, program = Net(plan(), a=one, b=other), Program()
    one.copies = False
    sending = begun(net, program)
    program.rows(0, 5)
    program.rows(5, 5)
    await until(lambda: one.end == (10, 10))
    other.rows = [0, 1, 2]  # a copy may end anywhere
    net.die("a", "b")
    await until(lambda: other.end == (10, 10))
    assert other.rows == list(range(10))
    assert one.ages[0] == 0.0
    assert all(age > 0.0 for age in other.ages), "its rows have not entered just now"
    program.end(10)
    await sending
    assert other.end == (10, END)


@pytest.mark.parametrize("how", ["silent", "unreachable", "gone"])
async def test_the_origin_says_who_has_the_source_now(how: str) -> None:
    one, other = Source(), Source(epoch=1)
    net, program = Net(plan(), a=one, b=other), Program()
    one.copies = False
    sending = begun(net, program)
    program.rows(0, 5)
    await until(lambda: one.end == (5, 5))
    match how:
        case "silent":
            net.silent.add("a")
        case "gone":
            net.sources["a"] = None
        case _:
            net.die("a")
    one.changed.set()
    program.rows(5, 5)
    program.end(10)
    asked = net.states
    await until(lambda: net.states > asked + 3)
    assert not sending.done(), "nobody has taken it over yet"
    net.where = "b"
    await sending
    assert other.rows == list(range(10))


async def test_a_program_waits_while_copies_lack_too_much() -> None:
    net, program = Net(plan(), a=(one := Source())), Program()
    one.copies = False
    sending = begun(net, program, most=2000)
    for start in range(0, 1000, 10):
        program.rows(start, 10)
    program.end(1000)
    taken = 14  # ten rows of 16 bytes, and 64 bytes more for each batch and promise
    await until(lambda: program.taken == taken)
    states = net.states
    await until(lambda: net.states > states + 20)
    assert program.taken == taken
    one.copy()
    await until(lambda: program.taken == 2 * taken)
    one.copies = True
    one.copy()
    await sending
    assert one.rows == list(range(1000))


async def test_rows_that_nobody_has_are_an_error_by_name() -> None:
    one, other = Source(), Source(epoch=1)
    net, program = Net(plan(), a=one, b=other), Program()
    sending = begun(net, program)
    program.rows(0, 10)
    await until(lambda: one.copied == (10, 10))
    await until(lambda: program.taken == 2)
    other.rows = list(range(4))  # it did not answer for so long that nobody waited for it
    net.die("a", "b")
    program.rows(10, 5)
    with pytest.raises(ClusterError, match="n: rows 4 to 9 are lost: b, which has taken the source over, lacks them"):
        await sending


@pytest.mark.parametrize(
    ("status", "raised"), [("finished", None), ("stopped", "app has ended: stopped"), ("failed", "has ended: failed")]
)
async def test_the_end_of_the_application_ends_the_sending(status: str, raised: str | None) -> None:
    net, program = Net(plan(), a=(one := Source())), Program()
    one.copies = False
    sending = begun(net, program)
    program.rows(0, 10)
    await until(lambda: one.end == (10, 10))
    net.status, net.sources["a"] = status, None
    one.changed.set()
    if raised is None:
        await sending
    else:
        with pytest.raises(ClusterError, match=raised):
            await sending


@pytest.mark.parametrize("gone", [False, True])
async def test_a_source_without_backups_ends_with_its_peer(gone: bool) -> None:
    net, program = Net(plan(None), a=Source(), b=Source(epoch=1)), Program()
    sending = begun(net, program)
    program.rows(0, 10)
    await until(lambda: program.taken == 2)
    if gone:
        net.sources["a"] = None
    else:
        net.die("a", "b")
    program.rows(10, 10)
    expected = "expected a python source of app that runs there" if gone else "its process has ended"
    with pytest.raises(ClusterError, match=expected):
        await sending


async def test_a_source_without_backups_retains_nothing_that_its_peer_has() -> None:
    net, program = Net(plan(None), a=(one := Source())), Program()
    one.copies = False
    sending = begun(net, program, most=100)
    program.rows(0, 1000)
    program.end(1000)
    await sending
    assert one.end == (1000, END)
    assert net.states == 0


async def test_a_peer_that_never_answers_and_that_nobody_replaces_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pushing, "GIVES_UP_S", 0.0)
    net, program = Net(plan(), a=Source()), Program()
    net.die("a")
    sending = begun(net, program)
    program.rows(0, 10)
    with pytest.raises(PeerUnreachable, match="its process has ended"):
        await sending


# -- the window ------------------------------------------------------------------------------------------------------


def window(*ends: int) -> PushWindow[int]:
    made = PushWindow[int](1000)
    for end in ends:
        made.add(batch(made.end.position, end - made.end.position), end)
    return made


def test_answers_that_come_late_or_twice_move_a_window_forwards_only() -> None:
    one = window(3, 5, 8)
    assert one.answered(0, Point(8, START), Point(5, START))
    assert (one.next, one.start, one.lacking) == (None, (5, START), [])
    for end, copied in ((3, 0), (5, 3), (8, 5), (0, 0)):
        assert one.answered(0, Point(end, START), Point(copied, START))
        assert (one.next, one.start, one.lacking) == (None, (5, START), [])
    assert one.answered(2, Point(6, START), Point(5, START)), "a part of the last item"
    assert one.lacking == [8]
    assert one.answered(1, Point(8, START), Point(8, START)), "a peer that was replaced"
    assert one.lacking == [8]
    assert not one.empty


def test_a_part_of_an_item_that_copies_have_is_no_reason_to_forget_it() -> None:
    one = window(10, 20)
    assert one.answered(0, Point(20, START), Point(19, START))
    assert one.start == (10, START)
    assert not window(10).answered(0, Point(0, START), Point(10, START)), "it could not go on"


@pytest.mark.parametrize(("end", "rows"), [(0, 5), (10, 5), (11, 4), (14, 1), (15, None), (99, None)])
def test_the_rest_of_a_batch_is_what_comes_after_a_point(end: int, rows: int | None) -> None:
    rest = rest_of(msgspec.structs.replace(batch(10, 5), born=7.0), Point(end, START))
    if rows is None:
        assert rest is None
        return
    assert isinstance(rest, Batch)
    assert rest.table["v"].to_list() == list(range(15 - rows, 15))
    assert (rest.position, rest.born) == (15 - rows, 7.0)


def test_a_promise_is_new_at_or_behind_a_point_if_it_is_later() -> None:
    promise = Punctuation(50, 10, 0.0)
    assert rest_of(promise, Point(10, 49)) == promise
    assert rest_of(promise, Point(9, 49)) == promise
    assert rest_of(promise, Point(10, 50)) is None
    assert rest_of(promise, Point(11, 49)) is None
