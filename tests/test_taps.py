"""Streams that applications share on live hosts: what a tap forwards, whom it never stops, and what ends it."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import pytest

from synergy_nb.dataflow.operators import OperatorLogic
from synergy_nb.dataflow.operators import create as create_logic
from synergy_nb.dataflow.packing import pack
from synergy_nb.dataflow.tuples import END, START, Batch, Item, Punctuation, decode, encode
from synergy_nb.graph import Deploy, Detach, Start, Undeploy
from synergy_nb.plan import Plan, source
from synergy_nb.plan.builder import Stream
from synergy_nb.plan.parts import place
from synergy_nb.plan.sharing import TAP, reduced
from synergy_nb.runtime import execution
from synergy_nb.runtime.host import Host
from synergy_nb.runtime.sources import Feed
from synergy_nb.runtime.taps import Tap
from tests.two_hosts import Pair, fetched, numbers, play, reading, table, trace
from tests.waiting import DEADLINE, turns, until

COLUMNS = {
    name: "int" if name in {"source_port", "destination_port", "bytes"} else "str" for name in table(0, 1).columns[1:]
}
HERE = {"source": "a", "filter": "a", "sink": "a"}


def pushed(*, where: str = "bytes >= 0") -> Plan:
    """Tuples that a test pushes, filtered: those of the first application."""
    return source("python", name="mine", columns=COLUMNS).filter(where).sink()


def filtered(of: str = "first") -> Plan:
    """The filtered tuples of an application, given by peer a, and some of them."""
    stream = source("python", name="mine", columns=COLUMNS).filter("bytes >= 0").filter("bytes % 2 = 0", id="even")
    return shared(stream, "filter", of)


def shared(stream: Stream, point: str, of: str = "first", operator: str = "", at: str = "a") -> Plan:
    """A plan of which one stream is given by an application's operator, which has the same name unless it is given."""
    return reduced(stream.sink(), {point: {at: (of, operator or point)}})


class Pushing(Pair):
    """Two hosts, and a source on ``a`` that is pushed to."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.position = 0

    def push(self, rows: int, *, promise: bool = True, application: str = "first") -> None:
        """Push so many tuples, and that nothing older follows."""
        one = self.net["a"]
        assert one.push(application, "mine", encode(Batch(table(self.position, rows), self.position, 0.0)))
        self.position += rows
        if promise:
            assert one.push(application, "mine", encode(Punctuation(self.position * 1000, self.position, 0.0)))

    def end(self, application: str = "first") -> None:
        assert self.net["a"].push(application, "mine", encode(Punctuation(END, self.position, 0.0)))

    async def flow(self, got: dict[str, list[int]], rows: int = 20, turns: int = 20) -> None:
        """Push so many tuples as soon as there is room, and take results on ``a`` as they come, meanwhile and later."""
        items = [Batch(table(self.position, rows), self.position, 0.0)]
        self.position += rows
        await self._put([*items, Punctuation(self.position * 1000, self.position, 0.0)], got)
        for _ in range(turns):
            await self._turn(got)

    async def finish(self, got: dict[str, list[int]]) -> None:
        """End the stream, and take the results on ``a`` until they end."""
        await self._put([Punctuation(END, self.position, 0.0)], got)
        async with asyncio.timeout(DEADLINE):
            left = set(got)
            while left:
                for name in tuple(left):
                    items, ended = self.net["a"].fetch(name, 1 << 20)
                    got[name] += numbers([item for item in map(decode, items) if isinstance(item, Batch)])
                    left -= {name} if ended else set()
                await turns()

    async def _put(self, items: list[Any], got: dict[str, list[int]]) -> None:
        async with asyncio.timeout(DEADLINE):
            for item in items:
                while not self.net["a"].push("first", "mine", encode(item)):
                    await self._turn(got)

    async def _turn(self, got: dict[str, list[int]]) -> None:
        for name in got:
            got[name] += numbers(fetched(self.net["a"], name))
        await turns()


def spied(monkeypatch: pytest.MonkeyPatch, kinds: Mapping[str, list[Item]]) -> None:
    """Note what operators get, by the id of the operator."""

    def create(operator: Any, plan: Any, **options: Any) -> OperatorLogic:
        logic = create_logic(operator, plan, **options)
        seen = kinds.get(operator.id)
        if seen is not None and options.get("keys") is not None:  # not one that is only warmed up
            monkeypatch.setattr(logic, "take", partial(noted, seen, logic.take))
        return logic

    def noted(seen: list[Item], takes: Callable[[int, Item], Iterator[Item]], port: int, item: Item) -> Iterator[Item]:
        seen.append(item)
        return takes(port, item)

    monkeypatch.setattr(execution, "create", create)


def encodes(one: Host, operator: str) -> bool:
    """Whether the stream of an operator of the first application is encoded."""
    return one._executions["first", operator].wire


def taps(one: Host) -> list[Tap]:
    return [feed for feed in one._path.feeds.values() if isinstance(feed, Tap)]


# -- what it forwards ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("at", ["a", "b"])
@pytest.mark.parametrize("point", ["source", "filter"])
def test_who_joins_gets_the_last_promise_and_all_that_follows_it(
    point: str, at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Item] = []
    spied(monkeypatch, {"even": seen})

    async def scenario() -> None:
        pair = Pushing()
        pair.deploy("first", pushed(), HERE)
        pair.push(100)
        pair.push(10, promise=False)
        await until(lambda: pair.net["a"].stats()[1]["tuples_out"] == 110)
        stream = source("python", name="mine", columns=COLUMNS)
        stream = stream.filter("bytes >= 0") if point == "filter" else stream
        plan = shared(stream.filter("bytes % 2 = 0", id="even"), point)
        peers = {point: "a", "even": at, "sink": at}
        for operator in reversed(list(plan.operators)):
            pair.net[peers[operator]].carry_out(Deploy("second", operator, plan.to_bytes(), peers))
        pair.push(10)  # between Deploy and Start: not for the second
        await until(lambda: pair.net["a"].stats()[1]["tuples_out"] == 120)
        pair.net["a"].carry_out(Start("second", point))
        pair.net["a"].carry_out(Start("second", point))
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
        record = {"operator": point, "shares": f"first/{point}"}
        assert ("source_started", "second", record) in pair.runtimes["a"].events

    play(scenario)


def test_a_stream_that_has_promised_nothing_is_joined_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Item] = []
    spied(monkeypatch, {"even": seen})

    async def scenario() -> None:
        pair = Pushing()
        pair.deploy("first", pushed(), HERE)
        pair.push(5, promise=False)
        await until(lambda: pair.net["a"].stats()[1]["tuples_out"] == 5)
        pair.deploy("second", filtered(), {"filter": "a", "even": "b", "sink": "b"})
        await until(lambda: bool(seen))
        assert [(item.time, item.position) for item in seen if isinstance(item, Punctuation)] == [(START, 5)]
        pair.push(5)
        pair.end()
        assert numbers(await pair.results("b", "second")) == [6, 8]

    play(scenario)


def test_a_stream_that_has_ended_gives_its_end_at_once() -> None:
    async def scenario() -> None:
        pair = Pushing()
        pair.deploy("first", pushed(), HERE)
        pair.push(10)
        pair.end()
        await pair.results("a", "first")
        pair.deploy("second", filtered(), {"filter": "a", "even": "b", "sink": "b"})
        assert await pair.results("b", "second") == []
        pair.undeploy("first", HERE)
        third = filtered(of="second")
        for operator in ("sink", "even", "filter"):
            pair.net["a"].carry_out(Deploy("third", operator, third.to_bytes(), dict.fromkeys(third.operators, "a")))
        pair.net["a"].carry_out(Start("third", "filter"))  # what it shares has gone, but not before its end
        assert await pair.results("a", "third") == []
        assert not pair.failed

    play(scenario)


@pytest.mark.parametrize("seed", range(12))
def test_whoever_joins_whenever_gets_a_suffix_of_the_stream(seed: int) -> None:
    rng = random.Random(seed)

    async def scenario() -> None:
        pair = Pushing(window_bytes=rng.choice([8_000, 200_000]), tap_bytes=400_000)
        pair.deploy("app0", pushed(), HERE)
        joined: dict[str, tuple[str, int]] = {}
        for _ in range(60):
            if rng.random() < 0.15 and len(joined) < 4:
                name, of = f"app{len(joined) + 1}", f"app{rng.randrange(len(joined) + 1)}"
                at = rng.choice("ab")
                stats = next(s for s in pair.net["a"].stats() if s["operator"] == "filter")
                joined[name] = at, stats["tuples_out"]
                pair.deploy(name, filtered(of), {"filter": "a", "even": rng.choice("ab"), "sink": at})
            rows = rng.randint(1, 40)
            item = encode(Batch(table(pair.position, rows), pair.position, 0.0))
            while not pair.net["a"].push("app0", "mine", item):
                await pair.net["a"].room("app0", "mine")
            pair.position += rows
            await turns(rng.randrange(4))
        await pair.net["a"].room("app0", "mine")
        pair.end("app0")
        assert numbers(await pair.results("a", "app0")) == list(range(pair.position))
        for name, (at, first) in joined.items():
            assert numbers(await pair.results(at, name)) == list(range(first + first % 2, pair.position, 2))
        assert not pair.failed
        for one in pair.net.values():
            assert all(not component.taps for component in one.hosting.components), "they leave when they have all"

    play(scenario)


def test_what_is_made_on_spark_is_shared_like_anything_else(monkeypatch: pytest.MonkeyPatch) -> None:
    class Part(Feed):
        """Takes items and commits them at once."""

        full, late, state_bytes = False, 0, 0

        def __init__(self, ready: Callable[[], None], clock: Callable[[], float], **options: Any) -> None:
            super().__init__(ready, clock, wire=options["wire"], most=options["most"])

        def needs(self, port: int, item: Item) -> float:
            return 0.0

        def take(self, port: int, item: Item) -> list[Item]:
            self.pending.extend(pack([item], wire=self.wire, most=1 << 20))
            return []

    monkeypatch.setattr(execution, "SparkPart", Part)

    async def scenario() -> None:
        pair = Pushing(spark=object())
        stream = source("python", name="mine", columns=COLUMNS).filter("bytes >= 0", engine="spark")
        pair.deploy("first", place(stream.sink(), {"filter"}, 0.5), HERE)
        pair.push(10)
        await until(lambda: pair.net["a"].stats()[1]["tuples_out"] == 10)
        pair.deploy("second", filtered(), {"filter": "a", "even": "b", "sink": "b"})
        pair.push(10)
        pair.end()
        assert numbers(await pair.results("b", "second")) == [10, 12, 14, 16, 18]
        assert numbers(await pair.results("a", "first")) == list(range(20))
        stats = {record["operator"]: record for record in pair.net["a"].stats() if record["application"] == "first"}
        assert stats["filter"]["cost"] is None, "a micro-batch takes no core of this peer"

    play(scenario)


def test_nothing_is_copied_for_those_who_share() -> None:
    async def scenario() -> None:
        pair = Pushing(window_bytes=2_000, result_bytes=2_000)
        one = pair.net["a"]
        pair.deploy("first", pushed(), HERE)
        assert not encodes(one, "filter")
        for name in ("second", "third"):
            pair.deploy(name, filtered(), {"filter": "a", "even": "b", "sink": "b"})
        assert encodes(one, "filter")
        while any(tap.source.tuples_out == 0 or len(tap.pending) < 3 for tap in taps(one)):
            if not next(iter(one._path.feeds.values())).pending:
                pair.push(20)
            fetched(one, "first")
            await turns()
        waiting = [{parcel.position: parcel for parcel in tap.pending if parcel.rows} for tap in taps(one)]
        both = waiting[0].keys() & waiting[1].keys()
        assert both
        for position in both:
            assert waiting[0][position] is waiting[1][position]
            assert isinstance(waiting[0][position].payload, bytes)
        for name in ("second", "third"):
            pair.undeploy(name, {"filter": "a", "even": "b", "sink": "b"})
        assert not encodes(one, "filter"), "nobody wants it encoded any more"
        assert not pair.failed

    play(scenario)


# -- what is measured ------------------------------------------------------------------------------------------------


def test_saved_work_shows_in_what_is_measured() -> None:
    async def scenario() -> None:
        pair = Pushing()
        pair.deploy("first", pushed(), HERE)
        plan = filtered()
        pair.deploy("second", plan, dict.fromkeys(plan.operators, "a"))
        for _ in range(50):
            pair.push(10)
        pair.end()
        assert len(numbers(await pair.results("a", "second"))) == 250
        await pair.results("a", "first")
        stats = {(record["application"], record["operator"]): record for record in pair.net["a"].stats()}
        made, tap = stats["first", "filter"], stats["second", "filter"]
        assert (tap["kind"], made["kind"]) == (TAP, "filter")
        assert tap["stream"] == made["stream"]
        assert tap["rate"] == tap["output_rate"] > 0
        assert (tap["tuples_out"], tap["bytes_out"] > 0) == (500, True)
        assert (tap["load"], tap["cost"], tap["processing_s"]) == (0.0, None, 0.0)
        assert made["load"] > 0
        assert made["processing_s"] > 0
        assert made["cost"] is None  # items of ten tuples tell what a call costs, and not what a tuple does
        assert stats["first", "source"]["cost"] is None

    play(scenario)


# -- whom it never stops ---------------------------------------------------------------------------------------------


def test_who_falls_behind_fails_by_name_and_stops_nobody() -> None:
    async def scenario() -> None:
        pair = Pushing(window_bytes=20_000, result_bytes=20_000, tap_bytes=50_000)
        one = pair.net["a"]
        pair.deploy("first", pushed(), HERE)
        plan, elsewhere = filtered(), {"filter": "a", "even": "b", "sink": "b"}
        pair.deploy("slow", plan, elsewhere)  # nobody fetches its results
        pair.deploy("quick", plan, dict.fromkeys(plan.operators, "a"))
        got: dict[str, list[int]] = {"first": [], "quick": []}
        most = 0
        while not pair.failed:
            await pair.flow(got)
            most = max([most, *(tap.waiting for tap in taps(one))])
        (application, operator, reason) = pair.failed[0]
        assert (application, operator) == ("slow", "filter")
        assert re.fullmatch(r"reads slower than first/filter emits: \d+ bytes wait; expected at most 50000", reason)
        assert 0 < most <= 50_000
        assert len(taps(one)) == 1, "the quick one"
        for _ in range(20):
            await pair.flow(got, turns=1)
        await pair.finish(got)
        assert got == {"first": list(range(pair.position)), "quick": list(range(0, pair.position, 2))}
        assert len(pair.failed) == 1
        pair.undeploy("slow", elsewhere)

    play(scenario)


def test_a_tap_of_a_tap_does_not_depend_on_the_pace_of_the_first() -> None:
    async def scenario() -> None:
        pair = Pushing(window_bytes=20_000, result_bytes=20_000, tap_bytes=50_000)
        one = pair.net["a"]
        pair.deploy("first", pushed(), HERE)
        pair.deploy("slow", filtered(), {"filter": "a", "even": "b", "sink": "b"})
        plan = filtered(of="slow")
        pair.deploy("third", plan, dict.fromkeys(plan.operators, "a"))
        got: dict[str, list[int]] = {"first": [], "third": []}
        while not pair.failed:
            await pair.flow(got)
        assert [report[:2] for report in pair.failed] == [("slow", "filter")]
        await pair.finish(got)
        assert got["third"] == list(range(0, pair.position, 2))
        one.carry_out(Deploy("late", "filter", filtered(of="slow").to_bytes(), {"even": "a", "filter": "a"}))
        assert pair.failed[1][2].startswith("slow/filter, whose stream is to be shared, has failed: reads slower than")

    play(scenario)


def test_a_consumer_that_takes_nothing_is_reported_where_others_share_its_stream() -> None:
    async def scenario() -> None:
        reports: list[tuple[str, str, str, str]] = []
        pair = Pushing(
            window_bytes=20_000,
            result_bytes=20_000,
            standstill_s=0.04,
            held_up=lambda *report: reports.append(report),
        )
        one = pair.net["a"]
        pair.deploy("first", pushed(), HERE)
        made = one._executions["first", "filter"].component
        while made.open or made.running:  # nobody fetches the results of the first
            if not next(iter(one._path.feeds.values())).pending:
                pair.push(20)
            await turns()
        assert not reports, "nobody shares its stream"
        plan = filtered()
        pair.deploy("second", plan, dict.fromkeys(plan.operators, "a"))
        await until(lambda: bool(reports))
        assert reports[0][:3] == ("first", "filter", "sink")
        assert re.fullmatch(r"took nothing for 0\.\d+ s of the stream of filter, which others share", reports[0][3])
        got: dict[str, list[int]] = {"first": [], "second": []}
        await pair.finish(got)  # it may still be taken
        assert got["first"] == list(range(pair.position))
        assert not pair.failed

    play(scenario)


# -- without consumers of its own ------------------------------------------------------------------------------------


@pytest.mark.parametrize("sink_at", ["a", "b"])
def test_a_detached_component_goes_on_for_those_who_share_it(sink_at: str) -> None:
    async def scenario() -> None:
        pair = Pushing(window_bytes=20_000, result_bytes=20_000)
        one = pair.net["a"]
        pair.deploy("first", pushed(), {**HERE, "sink": sink_at})
        plan = filtered()
        peers = dict.fromkeys(plan.operators, "a")
        pair.deploy("second", plan, peers)
        got: dict[str, list[int]] = {"second": []}
        made = one._executions["first", "filter"].component
        while made.open or made.running:  # nobody fetches the results of the first
            if not next(iter(one._path.feeds.values())).pending:
                pair.push(20)
            got["second"] += numbers(fetched(one, "second"))
            await turns()
        stuck = made.tuples_out
        order = Detach("first", "filter", ("sink", "nobody"))
        one.carry_out(order)
        one.carry_out(order)
        pair.net[sink_at].carry_out(Undeploy("first", "sink"))
        assert made.outlets == []
        assert not [channel for channel in one._path.routes if channel.startswith("data:first/filter>")]
        for _ in range(20):
            await pair.flow(got, turns=1)
        await pair.finish(got)
        assert pair.position > stuck
        assert got["second"] == list(range(0, pair.position, 2))
        assert not pair.failed
        assert not [event for event in pair.runtimes["a"].events if event[0] == "data_refused"]
        one.carry_out(Detach("nobody", "filter", ("sink",)))

    play(scenario)


def test_one_of_several_consumers_may_go() -> None:
    async def scenario() -> None:
        pair = Pushing()
        stream = source("python", name="mine", columns=COLUMNS)
        plan = stream.filter("bytes % 2 = 0").union(stream.filter("bytes % 2 = 1")).sink()
        peers = {"source": "a", "filter": "b", "filter_2": "a", "union": "a", "sink": "a"}
        pair.deploy("first", plan, peers)
        pair.push(10)
        await until(lambda: pair.net["a"].stats()[0]["tuples_out"] == 10)
        assert encodes(pair.net["a"], "source")
        pair.net["a"].carry_out(Detach("first", "source", ("filter",)))
        assert not encodes(pair.net["a"], "source"), "the only one that was elsewhere has gone"
        pair.push(10)
        await until(lambda: pair.net["a"].stats()[0]["tuples_out"] == 15)
        assert next(s for s in pair.net["b"].stats() if s["operator"] == "filter")["tuples_in"] == 10
        assert sorted(numbers(fetched(pair.net["a"], "first"))) == [*range(10), *range(11, 20, 2)]

    play(scenario)


def test_on_its_own_for_taps_a_component_goes_at_the_pace_of_the_fastest() -> None:
    async def scenario() -> None:
        taken: list[int] = []
        pair = Pair(read=reading(500, 100, taken), window_bytes=20_000, result_bytes=20_000, tap_bytes=60_000)
        one = pair.net["a"]
        pair.deploy("first", trace().filter("bytes >= 0").sink(), HERE)
        plan = shared(trace().filter("bytes >= 0"), "filter")
        for name in ("second", "third"):
            pair.deploy(name, plan, {"filter": "a", "sink": "b"})
        one.carry_out(Detach("first", "filter", ("sink",)))
        pair.net["a"].carry_out(Undeploy("first", "sink"))
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
            await turns()
        assert [report[:2] for report in pair.failed] == [("third", "filter")]
        first += numbers(await pair.results("b", "second"))
        assert first == list(range(first[0], 50_000))
        assert len(taken) == 1000

    play(scenario)


def test_a_detached_tap_keeps_what_it_shares_findable_and_holds_nobody_up() -> None:
    async def scenario() -> None:
        pair = Pushing(window_bytes=20_000, result_bytes=20_000, tap_bytes=50_000)
        one = pair.net["a"]
        pair.deploy("first", pushed(), HERE)
        plan = filtered()
        peers = dict.fromkeys(plan.operators, "a")
        pair.deploy("second", plan, peers)
        pair.deploy("third", filtered(of="second"), peers)
        one.carry_out(Detach("second", "filter", ("even",)))
        for operator in ("even", "sink"):
            one.carry_out(Undeploy("second", operator))
        one.carry_out(Detach("first", "filter", ("sink",)))
        one.carry_out(Undeploy("first", "sink"))
        pair.deploy("fourth", filtered(of="second"), peers)
        got: dict[str, list[int]] = {"third": [], "fourth": []}
        for _ in range(100):
            await pair.flow(got, turns=5)
        await pair.finish(got)
        assert got["third"] == got["fourth"] == list(range(0, pair.position, 2))
        assert not pair.failed

    play(scenario)


def test_a_sink_that_is_detached_keeps_no_results() -> None:
    async def scenario() -> None:
        pair = Pushing(window_bytes=20_000, result_bytes=20_000)
        one = pair.net["a"]
        pair.deploy("first", pushed(), HERE)
        plan = shared(source("python", name="mine", columns=COLUMNS).filter("bytes >= 0"), "filter", operator="sink")
        pair.deploy("second", plan, {"filter": "a", "sink": "a"})
        one.carry_out(Detach("first", "sink", ()))
        with pytest.raises(LookupError, match="application 'first'"):
            one.fetch("first", 1)
        got: dict[str, list[int]] = {"second": []}
        for _ in range(60):
            await pair.flow(got, turns=5)
        await pair.finish(got)
        assert got["second"] == list(range(1200))
        assert pair.finished == [("second", "sink")]
        one.measure()
        assert {application for application, _, _ in pair.measured} == {"second"}
        pair.undeploy("second", {"filter": "a", "sink": "a"})
        assert one._sinks.timer is None
        one.carry_out(Undeploy("first", "sink"))

    play(scenario)


# -- what ends it ----------------------------------------------------------------------------------------------------


def test_what_cannot_be_shared_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def create(operator: Any, plan: Any, **options: Any) -> OperatorLogic:
        logic = create_logic(operator, plan, **options)
        if operator.params.get("where") == "bytes < 0":
            monkeypatch.setattr(logic, "take", lambda port, item: dict[str, int]()["secret"])
        return logic

    monkeypatch.setattr(execution, "create", create)

    async def scenario() -> None:
        pair = Pushing()
        pair.deploy("first", pushed(where="bytes < 0"), HERE)
        pair.deploy("gone", pushed(), HERE)
        pair.undeploy("gone", HERE)
        pair.push(1)
        await until(lambda: bool(pair.failed))
        assert pair.failed.pop() == ("first", "filter", "KeyError: 'secret'")
        peers = dict.fromkeys(("filter", "even", "sink"), "a")
        for of in ("gone", "nobody", "first"):
            pair.net["a"].carry_out(Deploy("second", "filter", filtered(of).to_bytes(), peers))
        elsewhere = shared(source("python", name="mine", columns=COLUMNS).filter("bytes >= 0"), "filter", at="b")
        pair.net["a"].carry_out(Deploy("second", "filter", elsewhere.to_bytes(), peers))
        assert pair.failed == [
            ("second", "filter", "gone/filter, whose stream is to be shared, is not on this peer"),
            ("second", "filter", "nobody/filter, whose stream is to be shared, is not on this peer"),
            ("second", "filter", "first/filter, whose stream is to be shared, has failed: KeyError: 'secret'"),
            ("second", "filter", "operator 'filter': this peer gives no such stream"),
        ]
        assert {component.application for component in pair.net["a"].hosting.components} == {"first"}
        pair.net["a"].carry_out(Start("second", "filter"))

    play(scenario)


@pytest.mark.parametrize("started", [True, False])
@pytest.mark.parametrize("how", ["failed", "undeployed"])
def test_a_tap_fails_by_name_with_what_it_taps(how: str, started: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def create(operator: Any, plan: Any, **options: Any) -> OperatorLogic:
        logic = create_logic(operator, plan, **options)
        take = logic.take

        def raising(port: int, item: Item) -> Iterator[Item]:
            if operator.id == "filter" and isinstance(item, Batch) and item.position >= 20:
                raise KeyError("secret")
            return take(port, item)

        monkeypatch.setattr(logic, "take", raising)
        return logic

    monkeypatch.setattr(execution, "create", create)

    async def scenario() -> None:
        pair = Pushing()
        one = pair.net["a"]
        pair.deploy("first", pushed(), HERE)
        plan, peers = filtered(), {"filter": "a", "even": "b", "sink": "b"}
        for operator in ("sink", "even", "filter"):
            pair.net[peers[operator]].carry_out(Deploy("second", operator, plan.to_bytes(), peers))
        if started:
            one.carry_out(Start("second", "filter"))
        pair.push(20)
        await until(lambda: one.stats()[1]["tuples_out"] == 20)
        if how == "failed":
            pair.push(1)
            reasons = ["KeyError: 'secret'", "first/filter, whose stream it shares, has failed: KeyError: 'secret'"]
        else:
            pair.undeploy("first", HERE)
            reasons = ["first/filter, whose stream it shares, was undeployed"]
        await until(lambda: len(pair.failed) == len(reasons))
        assert [reason for _, _, reason in pair.failed] == reasons
        assert pair.failed[-1][:2] == ("second", "filter")
        assert taps(one) == []
        pair.undeploy("second", peers)
        pair.undeploy("first", HERE)
        assert one.hosting.components == ()

    play(scenario)


def test_a_tap_that_goes_with_what_it_taps_does_not_fail() -> None:
    async def scenario() -> None:
        pair = Pushing()
        one = pair.net["a"]
        plan = filtered()
        peers = dict.fromkeys(plan.operators, "a")
        pair.deploy("first", pushed(), HERE)
        pair.deploy("second", plan, peers)
        pair.push(10)
        await until(lambda: one.stats()[1]["tuples_out"] == 10)
        pair.undeploy("first", HERE)
        pair.undeploy("second", peers)
        await turns(5)
        assert not pair.failed
        path = one._path
        assert (one.hosting.components, path.routes, path.senders, path.feeds, path.executions) == ((), {}, {}, {}, {})

    play(scenario)


def test_undeploying_a_tap_ends_its_forwarding_and_leaves_the_stream_alone() -> None:
    async def scenario() -> None:
        pair = Pushing()
        one = pair.net["a"]
        plan, peers = filtered(), {"filter": "a", "even": "b", "sink": "b"}
        pair.deploy("first", pushed(), HERE)
        pair.deploy("second", plan, peers)
        pair.push(10)
        await until(lambda: pair.net["b"].stats()[0]["tuples_in"] == 5)
        one.carry_out(Undeploy("second", "filter"))
        frames = pair.runtimes["a"].frames
        pair.push(10)
        pair.end()
        assert numbers(await pair.results("a", "first")) == list(range(20))
        assert pair.runtimes["a"].frames == frames
        assert not one._executions["first", "filter"].component.taps
        assert not pair.failed

    play(scenario)


@pytest.mark.parametrize("closed", ["a", "b"])
def test_hosts_that_close_take_their_taps_along(closed: str) -> None:
    async def scenario() -> None:
        pair = Pushing()
        pair.deploy("first", pushed(), HERE)
        pair.deploy("second", filtered(), {"filter": "a", "even": "b", "sink": "b"})
        pair.push(10)
        await pair.net[closed].close()
        assert pair.net[closed].hosting.components == ()
        assert not pair.failed

    play(scenario)
