"""Shared streams on live hosts: the tuples of a sharer, its isolation from others, and its end."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import msgspec
import pytest

from synergy_nb.dataflow.deployments import Deployment, SharedProducer, SharedReader
from synergy_nb.dataflow.deployments import InputFeed as Reads
from synergy_nb.dataflow.logic import SavedState
from synergy_nb.dataflow.operators import OperatorLogic
from synergy_nb.dataflow.operators import create as create_logic
from synergy_nb.dataflow.streams.component.component import Component
from synergy_nb.dataflow.streams.component.execution import Committed
from synergy_nb.dataflow.streams.log.log import Limits
from synergy_nb.dataflow.streams.log.values import ORIGIN, Chunk, Encoding, OnLag, Point
from synergy_nb.dataflow.tuples import END, Batch, Item, Punctuation, decode, encode
from synergy_nb.plan import Plan, source
from synergy_nb.plan.builder import Stream
from synergy_nb.plan.derived.spark_parts import replace_parts
from synergy_nb.plan.derived.stream_sharing import provider, reduced
from synergy_nb.plan.operators.catalogue import TAP
from synergy_nb.runtime.data import host, instances
from synergy_nb.runtime.data.sources import SourceFeed
from tests.quick_cases import quick_first
from tests.two_hosts import COLUMNS, Pair, arrival, deployment, fetched, numbers, play, portion, reading, table, trace
from tests.waiting import DEADLINE, first_of, turns, until

on_loop = play  # how the tests that are coroutines run

HERE = {"source": "a", "filter": "a", "sink": "a"}
EVEN = {"even": "a", "sink": "a"}
ELSEWHERE = {"even": "b", "sink": "b"}
NARROW = Limits(20_000, results=20_000)


def pushed(*, where: str = "bytes >= 0") -> Plan:
    """Tuples that a test pushes, filtered: those of the first application."""
    return source("python", name="mine", columns=COLUMNS).filter(where).sink()


def filtered(of: str = "first") -> Plan:
    """The filtered tuples of an application, given by peer a, and some of them."""
    stream = source("python", name="mine", columns=COLUMNS).filter("bytes >= 0").filter("bytes % 2 = 0", id="even")
    return shared(stream, "filter", of)


def shared(stream: Stream, point: str, of: str = "first", operator: str = "") -> Plan:
    """A plan of which one stream is given by an application's operator, which has the same name unless it is given."""
    return reduced(stream.sink(), {point: {"a": (of, operator or point)}})


class Sharing(Pair):
    """Two hosts, a source on ``a`` that is pushed to, and applications that read streams of others there."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.position = 0
        self.orders: dict[str, Deployment] = {}

    def deploy(self, application: str, plan: Plan, peers: Mapping[str, str]) -> None:
        """Deploy all components of an application that shares nothing of another one, and start its sources."""
        self.tell(deployment(application, plan, peers))

    def prepare(self, application: str, plan: Plan, peers: Mapping[str, str]) -> Deployment:
        """Deploy all components of an application that shares streams; gives the deployment of one that runs."""
        makers = {name: provider(each, "a") for name, each in plan.operators.items() if each.kind == TAP}
        order = deployment(application, plan, peers)
        assignments = {
            name: msgspec.structs.replace(
                each,
                inputs=tuple(Reads(*(makers.get(feed.operator) or feed)) for feed in each.inputs),
            )
            for name, each in order.assignments.items()
        }
        shared = tuple(SharedProducer(*maker, "a") for maker in makers.values() if maker is not None)
        order = msgspec.structs.replace(order, assignments=assignments, shared_producers=shared)
        self.tell(msgspec.structs.replace(order, running=False))
        return order

    def share(self, application: str, plan: Plan, peers: Mapping[str, str]) -> None:
        """Deploy an application that shares streams, and tell the peers of these who reads them."""
        self.add_sharer(self.prepare(application, plan, peers))

    def add_sharer(self, order: Deployment) -> None:
        """An application that shares streams runs: whoever makes them is told of it."""
        self.tell(order)
        for producer in order.shared_producers:
            readers = tuple(
                SharedReader(order.application, name, port, each.active, each.epoch)
                for name, each in order.assignments.items()
                for port, feed in enumerate(each.inputs)
                if feed == (producer.application, producer.operator)
            )
            known = self.orders[producer.application].assignments[producer.operator]
            self.change(producer.application, readers={producer.operator: (*known.shared_readers, *readers)})

    def leave(self, application: str) -> None:
        """An application that shares streams has ended."""
        order = self.orders[application]
        self.tell(Deployment(application, order.version))
        for producer in order.shared_producers:
            known = self.orders[producer.application].assignments[producer.operator]
            readers = tuple(each for each in known.shared_readers if each.application != application)
            self.change(producer.application, readers={producer.operator: readers})

    def undeploy(self, application: str, peers: Mapping[str, str]) -> None:
        """An application ends on some peers, whoever shares its streams."""
        for address in dict.fromkeys(peers.values()):
            self.net[address].carry_out(Deployment(application, self.orders[application].version))

    def change(
        self,
        application: str,
        *,
        without: tuple[str, ...] = (),
        readers: Mapping[str, tuple[SharedReader, ...]] | None = None,
    ) -> None:
        """Deploy an application anew: without some of its components, or with other readers of its streams."""
        known = self.orders[application]
        assignments = {
            name: msgspec.structs.replace(each, shared_readers=(readers or {}).get(name, each.shared_readers))
            for name, each in known.assignments.items()
            if name not in without
        }
        self.tell(msgspec.structs.replace(known, version=known.version + 1, assignments=assignments))

    def tell(self, order: Deployment) -> None:
        self.orders[order.application] = order
        for one in self.net.values():
            one.carry_out(order)

    def component(self, application: str, operator: str) -> Component:
        return self.net["a"].hosting.components[application, operator]

    def emitted(self, operator: str = "filter") -> int:
        """Tuples that an operator of the first application has emitted."""
        return self.component("first", operator).log.end.position

    def push(self, rows: int, *, promise: bool = True, application: str = "first") -> None:
        """Push so many tuples, and that nothing older follows."""
        one = self.net["a"]
        assert one.pushed.push(application, "mine", encode(Batch(table(self.position, rows), self.position, 0.0)))
        self.position += rows
        if promise:
            assert one.pushed.push(application, "mine", encode(Punctuation(self.position * 1000, self.position, 0.0)))

    def end(self, application: str = "first") -> None:
        assert self.net["a"].pushed.push(application, "mine", encode(Punctuation(END, self.position, 0.0)))

    def pending(self) -> int:
        """Chunks that wait at the source."""
        return len(next(iter(self.net["a"].feeds.values())).pending)

    async def flow(self, got: dict[str, list[int]], rows: int = 20, turns: int = 20) -> None:
        """Push so many tuples as soon as there is room, and take results on ``a`` as they come, meanwhile and later."""
        items = [Batch(table(self.position, rows), self.position, 0.0)]
        self.position += rows
        await self._put([*items, Punctuation(self.position * 1000, self.position, 0.0)], got)
        for _ in range(turns):
            await self.turn(got)

    async def finish(self, got: dict[str, list[int]]) -> None:
        """End the stream, and take the results on ``a`` until they end."""
        await self._put([Punctuation(END, self.position, 0.0)], got)
        async with asyncio.timeout(DEADLINE):
            left = set(got)
            while left:
                for name in tuple(left):
                    found = portion(self.net["a"], name)
                    got[name] += numbers([item for item in map(decode, found.items) if isinstance(item, Batch)])
                    left -= {name} if found.finished else set()
                if left:
                    await first_of(*self._arrivals(left))

    async def _put(self, items: list[Any], got: dict[str, list[int]]) -> None:
        async with asyncio.timeout(DEADLINE):
            for item in items:
                while not self.net["a"].pushed.push("first", "mine", encode(item)):
                    self._take(got)
                    await first_of(self.net["a"].pushed.room("first", "mine"), *self._arrivals(got))

    def _arrivals(self, names: Iterable[str]) -> list[Coroutine[Any, Any, None]]:
        return [arrival(self.net["a"], name) for name in names]

    async def turn(self, got: dict[str, list[int]]) -> None:
        self._take(got)
        await turns()

    def _take(self, got: dict[str, list[int]]) -> None:
        for name in got:
            got[name] += numbers(fetched(self.net["a"], name))


async def stuck(pair: Sharing, got: dict[str, list[int]]) -> int:
    """Push until the filter of the first application waits for its own reader; gives the tuples that it has emitted."""
    made = pair.component("first", "filter")
    (sink,) = [
        component
        for one in pair.net.values()
        for key, component in one.hosting.components.items()
        if key == ("first", "sink")
    ]

    def waits() -> bool:
        (port,) = sink.ports.values()
        here = [made, sink]
        said = port.acknowledged[1] == port.consumed
        return said and all(each.log.blocked and not each.running for each in here)

    while not waits():
        if not pair.pending():
            pair.push(20)
        await pair.turn(got)
    return pair.emitted()


def spied(monkeypatch: pytest.MonkeyPatch, kinds: Mapping[str, list[Item]]) -> None:
    """Note what operators get, by the id of the operator."""

    def create(operator: Any, plan: Any, **options: Any) -> OperatorLogic:
        logic = create_logic(operator, plan, **options)
        seen = kinds.get(operator.id)
        if seen is not None and options.get("secrets") is not None:  # not one that is only warmed up
            monkeypatch.setattr(logic, "execute", partial(recorded, seen, logic.execute))
        return logic

    def recorded(seen: list[Item], execute: Callable[..., Iterator[Item]], port: int, item: Item) -> Iterator[Item]:
        seen.append(item)
        return execute(port, item)

    monkeypatch.setattr(instances, "create", create)


def encoded(made: Component) -> bool:
    """Whether what a component makes is encoded."""
    return made.log.encoding(made.peer, lambda _: False) is Encoding.WIRE


# -- what a sharer gets ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("at", ["a", "b"])
@pytest.mark.parametrize("point", ["source", "filter"])
async def test_a_sharer_gets_the_last_promise_and_all_that_follows(
    point: str, at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Item] = []
    spied(monkeypatch, {"even": seen})

    pair = Sharing()
    pair.deploy("first", pushed(), HERE)
    pair.push(100)
    pair.push(10, promise=False)
    await until(lambda: pair.emitted() == 110)
    stream = source("python", name="mine", columns=COLUMNS)
    stream = stream.filter("bytes >= 0") if point == "filter" else stream
    plan = shared(stream.filter("bytes % 2 = 0", id="even"), point)
    order = pair.prepare("second", plan, {"even": at, "sink": at})
    pair.push(10)  # the second is here, but does not run: that is not for it
    await until(lambda: pair.emitted() == 120)
    pair.add_sharer(order)
    pair.tell(order)
    await until(lambda: bool(seen))
    pair.push(30)
    pair.push(7, promise=False)
    pair.end()
    assert numbers(await pair.results("a", "first")) == list(range(157))
    assert numbers(await pair.results(at, "second")) == list(range(120, 157, 2))
    opening = seen[0]
    assert isinstance(opening, Punctuation)
    assert (opening.time, opening.position) == (120_000, 120)
    assert next(item.position for item in seen if isinstance(item, Batch)) == 120, "as in the shared stream"
    assert sum(item.rows for item in seen if isinstance(item, Batch)) == 37
    assert [item.time for item in seen if isinstance(item, Punctuation)][-1] == END
    assert not pair.failed


async def test_a_stream_without_a_promise_can_be_joined() -> None:
    pair = Sharing()
    pair.deploy("first", pushed(), HERE)
    pair.push(5, promise=False)
    await until(lambda: pair.emitted() == 5)
    pair.share("second", filtered(), ELSEWHERE)
    pair.push(5)
    pair.end()
    assert numbers(await pair.results("b", "second")) == [6, 8]


async def test_a_stream_that_has_ended_gives_its_end_at_once() -> None:
    pair = Sharing()
    pair.deploy("first", pushed(), HERE)
    pair.push(10)
    pair.end()
    await pair.results("a", "first")
    pair.share("second", filtered(), ELSEWHERE)
    assert await pair.results("b", "second") == []
    pair.undeploy("first", HERE)  # and its end is all that there is to come
    await turns(50)
    assert not pair.failed


@pytest.mark.parametrize("seed", quick_first(range(12), 4))
async def test_a_sharer_gets_a_suffix_of_the_stream_whenever_it_joins(seed: int) -> None:
    rng = random.Random(seed)

    pair = Sharing(limits=Limits(rng.choice([8_000, 200_000]), retain=400_000))
    pair.deploy("first", pushed(), HERE)
    joined: dict[str, tuple[str, int]] = {}
    for _ in range(60):
        if rng.random() < 0.15 and len(joined) < 4:
            name, at = f"app{len(joined) + 1}", rng.choice("ab")
            joined[name] = at, pair.emitted()
            pair.share(name, filtered(), {"even": rng.choice("ab"), "sink": at})
        rows = rng.randint(1, 40)
        item = encode(Batch(table(pair.position, rows), pair.position, 0.0))
        while not pair.net["a"].pushed.push("first", "mine", item):
            await pair.net["a"].pushed.room("first", "mine")
        pair.position += rows
        await turns(rng.randrange(4))
    await pair.net["a"].pushed.room("first", "mine")
    pair.end()
    assert numbers(await pair.results("a", "first")) == list(range(pair.position))
    for name, (at, first) in joined.items():
        assert numbers(await pair.results(at, name)) == list(range(first + first % 2, pair.position, 2))
    assert not pair.failed
    await until(lambda: len(pair.component("first", "filter").log) == 0)


async def test_a_stream_made_on_spark_is_shared_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    class Part(SourceFeed):
        """Takes items and commits them at once."""

        full, late, state_bytes, uncovered_bytes = False, 0, 0, 0

        def __init__(self, ready: Callable[[], None], clock: Callable[[], float], **options: Any) -> None:
            super().__init__(ready, clock, most=options["most"])
            self.taken = ORIGIN

        def prepare(self, since: Point = ORIGIN) -> None:
            self.point = since

        @property
        def committed(self) -> Committed:
            return Committed((self.taken,), self.point, 0, True, SavedState)

        def set_copies(self, *, copies: bool, safe: bool) -> None:
            """Nobody keeps a copy."""

        def needs(self, port: int, item: Item) -> float:
            return 0.0

        def execute(self, port: int, item: Item) -> list[Item]:
            self.pending.extend(self._cut(item, item.born))
            self.taken = self.point
            self.ready()
            return []

    monkeypatch.setattr(instances, "SparkPart", Part)
    monkeypatch.setattr(host, "SparkPart", Part)

    pair = Sharing(spark=object())
    stream = source("python", name="mine", columns=COLUMNS).filter("bytes >= 0", engine="spark")
    pair.deploy("first", replace_parts(stream.sink(), {"filter"}, 0.5), HERE)
    pair.push(10)
    await until(lambda: pair.emitted() == 10)
    pair.share("second", filtered(), ELSEWHERE)
    pair.push(10)
    pair.end()
    assert numbers(await pair.results("b", "second")) == [10, 12, 14, 16, 18]
    assert numbers(await pair.results("a", "first")) == list(range(20))
    stats = {record["operator"]: record for record in pair.net["a"].stats() if record["application"] == "first"}
    assert stats["filter"]["cost"] is None, "a micro-batch takes no core of this peer"


@pytest.mark.slow
async def test_a_shared_stream_is_retained_once_and_encoded_once_for_remote_readers() -> None:
    pair = Sharing(limits=Limits(2_000, results=2_000))
    pair.deploy("first", pushed(), HERE)
    made = pair.component("first", "filter")
    assert not encoded(made)
    for name in ("second", "third"):
        pair.share(name, filtered(), ELSEWHERE)
    assert encoded(made)

    def sent() -> list[Chunk]:
        upto = max(cursor.sent for cursor in made.log.cursors.values() if cursor.on_lag is OnLag.FAIL)
        return [chunk for chunk in made.log.chunks(made.log.start) if chunk.end <= upto]

    async with asyncio.timeout(DEADLINE):
        while len(made.log) < 8 or not sent():  # nobody fetches what the others make
            if not pair.pending():
                pair.push(20)
            fetched(pair.net["a"], "first")
            await turns()
    assert all(isinstance(chunk.payload, bytes) for chunk in sent() if chunk.rows), (
        "what the loop's thread made, once it is sent"
    )
    for name in ("second", "third"):
        pair.leave(name)
    assert not encoded(made), "nobody wants it encoded any more"
    assert not [cursor for cursor in made.log.cursors.values() if cursor.on_lag is OnLag.FAIL]
    assert not pair.failed


# -- what is measured ------------------------------------------------------------------------------------------------


async def test_shared_work_is_measured_once() -> None:
    pair = Sharing()
    pair.deploy("first", pushed(), HERE)
    pair.share("second", filtered(), EVEN)
    for _ in range(50):
        pair.push(10)
    pair.end()
    assert len(numbers(await pair.results("a", "second"))) == 250
    await pair.results("a", "first")
    stats = {(record["application"], record["operator"]): record for record in pair.net["a"].stats()}
    assert stats.keys() == {("first", name) for name in HERE} | {("second", name) for name in EVEN}
    made, reader = stats["first", "filter"], stats["second", "even"]
    assert (made["tuples_out"], reader["tuples_in"], reader["tuples_out"]) == (500, 500, 250)
    assert reader["rate"] > 0
    assert made["load"] > 0
    assert made["processing_s"] > 0


# -- whom it never stops ---------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_sharer_that_falls_behind_fails_by_name_and_delays_no_other() -> None:
    pair = Sharing(limits=Limits(20_000, 50_000, 20_000))
    pair.deploy("first", pushed(), HERE)
    pair.share("slow", filtered(), ELSEWHERE)  # nobody fetches its results
    pair.share("quick", filtered(), EVEN)
    got: dict[str, list[int]] = {"first": [], "quick": []}
    log = pair.component("first", "filter").log
    most = 0
    while not pair.failed:
        await pair.flow(got)
        most = max(most, log.size)
    (application, operator, reason) = pair.failed[0]
    assert (application, operator) == ("slow", "even")
    assert re.fullmatch(r"input 0, filter: it reads too slowly: .* are retained; expected at most 50000", reason)
    assert 30_000 < most <= 50_000
    for _ in range(20):
        await pair.flow(got, turns=1)
    await until(lambda: sum(each.on_lag is OnLag.FAIL for each in log.cursors.values()) == 1)
    await pair.finish(got)
    assert got == {"first": list(range(pair.position)), "quick": list(range(0, pair.position, 2))}
    assert len(pair.failed) == 1
    pair.leave("slow")


async def test_a_consumer_that_takes_nothing_is_reported_where_others_share_its_stream() -> None:
    reports: list[tuple[str, str, str, str]] = []
    pair = Sharing(limits=NARROW, standstill_s=0.04, on_slow_reader=lambda *report: reports.append(report))
    pair.deploy("first", pushed(), HERE)
    await stuck(pair, {})  # nobody fetches the results of the first
    assert not reports, "nobody shares its stream"
    pair.share("second", filtered(), EVEN)
    await until(lambda: bool(reports))
    assert reports[0][:3] == ("first", "filter", "sink")
    assert re.fullmatch(r"took nothing for [\d.]+ s of the stream of filter, which others share", reports[0][3])
    got: dict[str, list[int]] = {"first": [], "second": []}
    await pair.finish(got)  # it may still be taken
    assert got["first"] == list(range(pair.position))
    assert not pair.failed


# -- without consumers of its own ------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("sink_at", ["a", "b"])
async def test_a_component_goes_on_for_those_who_share_it(sink_at: str) -> None:
    pair = Sharing(limits=NARROW)
    pair.deploy("first", pushed(), {**HERE, "sink": sink_at})
    pair.share("second", filtered(), EVEN)
    got: dict[str, list[int]] = {"second": []}
    before = await stuck(pair, got)  # nobody fetches the results of the first
    pair.change("first", without=("sink",))
    pair.change("first", without=("sink",))
    assert all(each.on_lag is OnLag.FAIL for each in pair.component("first", "filter").log.cursors.values())
    assert ("first", "sink") not in pair.net[sink_at].hosting.components
    for _ in range(20):
        await pair.flow(got, turns=1)
    pair.share("third", filtered(), EVEN)  # and others may come yet
    got["third"], since = [], pair.emitted()
    await pair.finish(got)
    assert pair.position > before
    assert got["second"] == list(range(0, pair.position, 2))
    assert got["third"] == list(range(since + since % 2, pair.position, 2))
    assert not pair.failed
    assert not [event for event in pair.runtimes["a"].events if event[0] == "data_refused"]


async def test_one_of_several_consumers_may_go() -> None:
    pair = Sharing()
    stream = source("python", name="mine", columns=COLUMNS)
    plan = stream.filter("bytes % 2 = 0").union(stream.filter("bytes % 2 = 1")).sink()
    peers = {"source": "a", "filter": "b", "filter_2": "a", "union": "a", "sink": "a"}
    pair.deploy("first", plan, peers)
    made = pair.component("first", "source")
    pair.push(10)
    await until(lambda: made.log.end.position == 10 and not len(made.log))
    assert encoded(made)
    other = pair.net["b"].hosting.components["first", "filter"]
    pair.change("first", without=("filter",))
    assert not encoded(made), "the only one that was elsewhere has gone"
    pair.push(10)
    await until(lambda: pair.emitted("filter_2") == 10)
    assert other.tuples_in == 10
    await until(lambda: not len(made.log))


@pytest.mark.slow
async def test_sharers_alone_set_the_pace_by_the_fastest_of_them() -> None:
    taken: list[int] = []
    pair = Sharing(read=reading(500, 100, taken), limits=Limits(20_000, 60_000, 20_000))
    pair.deploy("first", trace().filter("bytes >= 0").sink(), HERE)
    plan = shared(trace().filter("bytes >= 0"), "filter")
    for name in ("second", "third"):
        pair.share(name, plan, {"sink": "b"})
    pair.change("first", without=("sink",))
    quiet = 0
    while quiet < 200:  # nobody fetches anything: all has to come to rest, and nobody may fail
        before = len(taken)
        await turns()
        quiet = quiet + 1 if len(taken) == before else 0
    assert not pair.failed
    assert len(taken) < 200
    first: list[int] = []
    while not pair.failed:
        first += numbers(fetched(pair.net["b"], "second"))
        await first_of(arrival(pair.net["b"], "second"), until(lambda: pair.failed))
    assert [report[:2] for report in pair.failed] == [("third", "sink")]
    first += numbers(await pair.results("b", "second"))
    assert first == list(range(first[0], 50_000))
    assert len(taken) == 1000


# -- what ends it ----------------------------------------------------------------------------------------------------


def raising(monkeypatch: pytest.MonkeyPatch, since: int) -> None:
    """Let the operator ``filter`` raise from a position on."""

    def create(operator: Any, plan: Any, **options: Any) -> OperatorLogic:
        logic = create_logic(operator, plan, **options)
        execute = logic.execute

        def raises(port: int, item: Item) -> Iterator[Item]:
            if operator.id == "filter" and isinstance(item, Batch) and item.position >= since:
                raise KeyError("secret")
            return execute(port, item)

        monkeypatch.setattr(logic, "execute", raises)
        return logic

    monkeypatch.setattr(instances, "create", create)


@pytest.mark.parametrize("at", ["a", "b"])
async def test_sharing_a_failed_component_is_refused_by_name(at: str, monkeypatch: pytest.MonkeyPatch) -> None:
    raising(monkeypatch, 0)

    pair = Sharing()
    pair.deploy("first", pushed(), HERE)
    pair.push(1)
    await until(lambda: bool(pair.failed))
    assert pair.failed.pop() == ("first", "filter", "KeyError: 'secret'")
    pair.share("second", filtered(), {"even": at, "sink": at})
    await until(lambda: bool(pair.failed))
    reason = "input 0, filter: first/filter, whose stream it shares, has failed: KeyError: 'secret'"
    assert pair.failed == [("second", "even", reason)]


@pytest.mark.parametrize("at", ["a", "b"])
@pytest.mark.parametrize("how", ["failed", "undeployed"])
async def test_a_sharer_fails_by_name_with_what_it_shares(how: str, at: str, monkeypatch: pytest.MonkeyPatch) -> None:
    raising(monkeypatch, 20)

    pair = Sharing()
    peers = {"even": at, "sink": at}
    pair.deploy("first", pushed(), HERE)
    pair.share("second", filtered(), peers)
    pair.push(20)
    await until(lambda: pair.emitted() == 20)
    what = "input 0, filter: first/filter, whose stream it shares, "
    if how == "failed":
        pair.push(1)
        reports = [
            ("first", "filter", "KeyError: 'secret'"),
            ("second", "even", f"{what}has failed: KeyError: 'secret'"),
        ]
    else:
        pair.undeploy("first", HERE)
        reports = [("second", "even", f"{what}has ended")]
    await until(lambda: len(pair.failed) == len(reports))
    assert pair.failed == reports
    pair.undeploy("second", peers)
    pair.undeploy("first", HERE)
    assert all(one.hosting.components == {} for one in pair.net.values())


async def test_a_sharer_that_leaves_leaves_the_stream_alone() -> None:
    pair = Sharing()
    pair.deploy("first", pushed(), HERE)
    pair.share("second", filtered(), ELSEWHERE)
    pair.push(10)
    await until(lambda: pair.net["b"].hosting.components["second", "even"].tuples_in == 10)
    pair.leave("second")
    await turns(20)
    frames = pair.runtimes["a"].frames
    pair.push(10)
    pair.end()
    assert numbers(await pair.results("a", "first")) == list(range(20))
    assert pair.runtimes["a"].frames == frames
    log = pair.component("first", "filter").log
    assert [cursor.on_lag for cursor in log.cursors.values()] == [OnLag.BLOCK]
    assert not pair.failed


@pytest.mark.parametrize("closed", ["a", "b"])
async def test_hosts_that_close_take_what_they_share_along(closed: str) -> None:
    pair = Sharing()
    pair.deploy("first", pushed(), HERE)
    pair.share("second", filtered(), ELSEWHERE)
    pair.push(10)
    await pair.net[closed].close()
    assert pair.net[closed].feeds == {}
    assert not pair.failed
