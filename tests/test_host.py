"""Operators at work on two peers in one process: splits and joins, back-pressure, failures, removal, sources."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from typing import Any

import msgspec
import polars as pl
import pytest

from synergy_nb.dataflow.hosting import Hosting, Parcel
from synergy_nb.dataflow.operators import OperatorLogic
from synergy_nb.dataflow.operators import create as create_logic
from synergy_nb.dataflow.tuples import END, Batch, Item, Punctuation, decode, encode
from synergy_nb.graph import Deploy, Start, Undeploy
from synergy_nb.plan import Plan, source
from synergy_nb.runtime import execution, host
from synergy_nb.runtime.host import Host
from synergy_nb.runtime.sources import PeerFeed, Stream, ThreadFeed

DEADLINE = 20.0
OPENED: list[Pair] = []


class FakeRuntime:
    """A peer's runtime whose wire is the event loop: a frame arrives at a later turn of it."""

    def __init__(self, address: str, net: dict[str, Host]) -> None:
        self.address = address
        self.loop = asyncio.get_running_loop()
        self.net = net
        self.events: list[tuple[str, str, dict[str, Any]]] = []
        self.frames = 0
        self.broken = False

    def clock(self) -> float:
        return time.time()

    def send_data(self, to: str, channel: str, payload: bytes) -> None:
        if self.broken:
            raise BufferError(f"link to {to} is full")
        assert to != self.address, "what stays on a peer must not go over the wire"
        self.frames += 1
        self.loop.call_soon(self.net[to].on_data, self.address, channel, payload)

    def record(self, kind: str, subject: str = "", **detail: Any) -> None:
        self.events.append((kind, subject, detail))


class Pair:
    """Two hosts, a and b, and what they reported."""

    def __init__(self, **options: Any) -> None:
        OPENED.append(self)
        self.net: dict[str, Host] = {}
        self.runtimes = {address: FakeRuntime(address, self.net) for address in "ab"}
        self.failed: list[tuple[str, str, str]] = []
        self.finished: list[tuple[str, str]] = []
        self.measured: list[tuple[str, str, dict[str, Any]]] = []
        for address, runtime in self.runtimes.items():
            self.net[address] = Host(
                runtime,
                failed=lambda *report: self.failed.append(report),
                finished=lambda *report: self.finished.append(report),
                measured=lambda *report: self.measured.append(report),
                **options,
            )

    def deploy(self, application: str, plan: Plan, peers: Mapping[str, str], discipline: str = "fcfs") -> None:
        """Deploy all components, downstream first, and start the sources."""
        for operator in reversed(list(plan.operators)):
            order = Deploy(application, operator, plan.to_bytes(), dict(peers), discipline)
            self.net[peers[operator]].carry_out(order)
        for operator in plan.sources:
            self.net[peers[operator]].carry_out(Start(application, operator))

    def undeploy(self, application: str, peers: Mapping[str, str]) -> None:
        for operator, address in peers.items():
            self.net[address].carry_out(Undeploy(application, operator))

    async def results(self, address: str, application: str, max_bytes: int = 1 << 20) -> list[Batch]:
        """All results until the end of the stream."""
        batches: list[Batch] = []
        while True:
            items, finished = self.net[address].fetch(application, max_bytes)
            batches += [item for item in map(decode, items) if isinstance(item, Batch)]
            if finished:
                return batches
            await asyncio.wait_for(self.net[address].arrival(application, None, DEADLINE), DEADLINE)

    async def close(self) -> None:
        for one in self.net.values():
            await one.close()


async def until(condition: Callable[[], bool]) -> None:
    """Let the event loop turn until ``condition`` holds."""
    async with asyncio.timeout(DEADLINE):
        while not condition():  # noqa: ASYNC110 - conditions are about all parts of two hosts
            await asyncio.sleep(0)


def play(scenario: Callable[[], Awaitable[None]]) -> None:
    """Run ``scenario`` on an event loop of its own, close its hosts; no thread of theirs may be left."""

    async def whole() -> None:
        try:
            await scenario()
        finally:
            while OPENED:
                await OPENED.pop().close()

    asyncio.run(whole())
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("synergy")]


# -- streams ---------------------------------------------------------------------------------------------------------


def table(first: int, rows: int) -> pl.DataFrame:
    """Tuples of a TCP trace: one a millisecond, ``bytes`` counts them."""
    numbers = pl.int_range(first, first + rows, dtype=pl.Int64, eager=True)
    return pl.DataFrame(
        {
            "time": (numbers * 1000).cast(pl.Datetime("us")),
            "source": (numbers % 7).cast(pl.String),
            "destination": (numbers % 3).cast(pl.String),
            "source_port": numbers % 1000,
            "destination_port": numbers % 100,
            "bytes": numbers,
        }
    )


def items(batches: int, rows: int) -> Iterator[Item]:
    for number in range(batches):
        yield Batch(table(number * rows, rows), number * rows, 0.0)
        yield Punctuation((number + 1) * rows * 1000 if number + 1 < batches else END, (number + 1) * rows, 0.0)


def reading(
    batches: int, rows: int, counted: list[int] | None = None
) -> Callable[[Mapping[str, Any]], tuple[Stream, bool]]:
    """A reader of traces that gives ``batches`` of ``rows`` and counts in ``counted`` the items that were taken."""

    def read(params: Mapping[str, Any]) -> tuple[Stream, bool]:
        def stream() -> Stream:
            for item in items(batches, rows):
                if counted is not None:
                    counted.append(1)
                yield 0.0, item

        return stream(), False

    return read


def trace() -> Any:
    return source("trace", path="fake.tcp", format="tcp")


def fetched(one: Host, application: str, max_bytes: int = 1 << 20) -> list[Batch]:
    return [item for item in map(decode, one.fetch(application, max_bytes)[0]) if isinstance(item, Batch)]


def numbers(batches: list[Batch]) -> list[int]:
    return [value for batch in batches for value in batch.table["bytes"].to_list()]


# -- the data path ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("discipline", ["fcfs", "edf", "least_slack"])
@pytest.mark.parametrize("filter_at", ["a", "b"])
def test_a_query_gives_all_results_in_order(filter_at: str, discipline: str) -> None:
    async def scenario() -> None:
        pair = Pair(read=reading(30, 100))
        plan = trace().filter("bytes % 2 = 0").sink(delay="2 s")
        pair.deploy("app", plan, {"source": "a", "filter": filter_at, "sink": "a"}, discipline)
        batches = await pair.results("a", "app")
        assert numbers(batches) == list(range(0, 3000, 2))
        assert [batch.position for batch in batches] == list(
            itertools.accumulate((b.rows for b in batches), initial=0)
        )[:-1]
        assert pair.finished == [("app", "sink")]
        qos = pair.net["a"].qos("app")
        assert (qos["tuples"], qos["limit_s"], qos["miss_rate"], qos["finished"]) == (1500, 2.0, 0.0, True)
        assert 0 < qos["delay_p50_s"] <= qos["delay_p99_s"] < DEADLINE
        assert qos["tuples_per_s"] > 0
        assert qos["bytes_per_s"] > qos["tuples_per_s"]
        stats = {record["operator"]: record for one in pair.net.values() for record in one.stats()}
        assert (stats["filter"]["tuples_in"], stats["filter"]["tuples_out"], stats["filter"]["selectivity"]) == (
            3000,
            1500,
            0.5,
        )
        assert (stats["source"]["tuples_out"], stats["sink"]["tuples_in"]) == (3000, 1500)
        assert stats["filter"]["processing_s"] > 0
        assert bool(pair.runtimes["a"].frames) == (filter_at == "b")
        assert not pair.failed

    play(scenario)


def test_a_stream_that_splits_and_joins_is_complete() -> None:
    async def scenario() -> None:
        pair = Pair(read=reading(40, 50), window_bytes=20_000)
        packets = trace()
        plan = packets.filter("bytes % 2 = 0").union(packets.filter("bytes % 3 = 0")).sink()
        peers = {"source": "a", "filter": "a", "filter_2": "b", "union": "a", "sink": "b"}
        pair.deploy("app", plan, peers)
        assert sorted(numbers(await pair.results("b", "app", max_bytes=1))) == sorted(
            [*range(0, 2000, 2), *range(0, 2000, 3)]
        )

    play(scenario)


def test_large_batches_are_cut_to_fit_the_window() -> None:
    async def scenario() -> None:
        pair = Pair(read=reading(2, 5000), window_bytes=40_000)
        pair.deploy("app", trace().filter("bytes >= 0").sink(), {"source": "a", "filter": "b", "sink": "a"})
        batches = await pair.results("a", "app")
        assert numbers(batches) == list(range(10_000))
        assert max(len(encode(batch)) for batch in batches) <= 40_000

    play(scenario)


def test_a_slow_reader_slows_the_source_and_nothing_is_lost() -> None:
    async def scenario() -> None:
        taken: list[int] = []
        pair = Pair(read=reading(500, 100, taken), window_bytes=20_000, result_bytes=20_000)
        pair.deploy("app", trace().filter("bytes >= 0").sink(), {"source": "a", "filter": "b", "sink": "a"})

        def stuck() -> bool:
            blocked = [not c.open and not c.running for one in pair.net.values() for c in one.hosting.components]
            return len(blocked) == 3 and all(blocked)

        await until(stuck)
        await until(
            lambda: len(pair.net["a"]._feeds) == 1 and len(next(iter(pair.net["a"]._feeds.values())).pending) >= 2
        )
        assert len(taken) < 60, "three windows of two or three batches, and what is under way"
        for one in pair.net.values():
            for component in one.hosting.components:
                assert all(inlet.queued <= 20_000 for inlet in component.inlets)
        assert numbers(await pair.results("a", "app", max_bytes=1)) == list(range(50_000))
        assert len(taken) == 1000

    play(scenario)


def test_light_items_stay_on_the_loops_thread_and_heavy_ones_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: dict[int, set[str]] = {10: set(), 100: set()}

    def create(operator: Any, plan: Any, **options: Any) -> OperatorLogic:
        logic = create_logic(operator, plan, **options)
        if operator.kind == "filter":
            process = logic.process

            def spied(port: int, rows: pl.DataFrame, batch: Batch, kept: pl.Series | None) -> Any:
                threads[batch.rows].add("loop" if threading.current_thread() is threading.main_thread() else "pool")
                return process(port, rows, batch, kept)

            monkeypatch.setattr(logic, "process", spied)
        return logic

    monkeypatch.setattr(execution, "create", create)
    monkeypatch.setattr(host, "LIGHT_SECONDS", 10.0)

    async def scenario(rows: int) -> None:
        pair = Pair(read=reading(20, rows))
        pair.deploy("app", trace().filter("bytes >= 0").sink(), dict.fromkeys(("source", "filter", "sink"), "a"))
        assert len(numbers(await pair.results("a", "app"))) == 20 * rows

    for rows in threads:
        play(partial(scenario, rows))
    assert "loop" in threads[10]
    assert threads[100] == {"pool"}


# -- failures --------------------------------------------------------------------------------------------------------


def test_a_failing_operator_stops_its_application_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def create(operator: Any, plan: Any, **options: Any) -> OperatorLogic:
        logic = create_logic(operator, plan, **options)
        if operator.params.get("where") == "bytes < 0":
            monkeypatch.setattr(logic, "on_batch", lambda port, batch: dict[str, int]()["secret"])
        return logic

    monkeypatch.setattr(execution, "create", create)

    async def scenario() -> None:
        pair = Pair(read=reading(30, 100))
        peers = {"source": "a", "filter": "b", "sink": "a"}
        pair.deploy("bad", trace().filter("bytes < 0").sink(), peers)
        pair.deploy("good", trace().filter("bytes >= 0").sink(), peers)
        assert numbers(await pair.results("a", "good")) == list(range(3000))
        await until(lambda: bool(pair.failed))
        assert pair.failed == [("bad", "filter", "KeyError: 'secret'")]
        events = [detail for kind, subject, detail in pair.runtimes["b"].events if kind == "component_failed"]
        assert events == [{"operator": "filter", "reason": "KeyError: 'secret'"}]
        pair.undeploy("bad", peers)
        assert [component.application for component in pair.net["b"].hosting.components] == ["good"]

    play(scenario)


def test_a_panic_of_polars_is_a_failure_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def create(operator: Any, plan: Any, **options: Any) -> OperatorLogic:
        logic = create_logic(operator, plan, **options)

        def panic(port: int, batch: Batch) -> list[Item]:
            raise pl.exceptions.PanicException("index out of bounds")

        monkeypatch.setattr(logic, "on_batch", panic)
        return logic

    monkeypatch.setattr(execution, "create", create)

    async def scenario() -> None:
        pair = Pair(read=reading(1, 100))
        pair.deploy("app", trace().sink(), {"source": "a", "sink": "a"})
        await until(lambda: bool(pair.failed))
        assert pair.failed == [("app", "sink", "PanicException: index out of bounds")]

    play(scenario)


def test_a_source_that_cannot_be_read_fails() -> None:
    def read(params: Mapping[str, Any]) -> tuple[Stream, bool]:
        raise FileNotFoundError(2, "No such file", params["path"])

    async def scenario() -> None:
        pair = Pair(read=read)
        pair.deploy("app", trace().sink(), {"source": "a", "sink": "a"})
        await until(lambda: bool(pair.failed))
        assert pair.failed == [("app", "source", "FileNotFoundError: [Errno 2] No such file: 'fake.tcp'")]

    play(scenario)


def test_damaged_and_missing_data_fail_the_component_that_reads_them() -> None:
    async def scenario() -> None:
        pair = Pair(read=reading(1, 1))
        plan = trace().filter("bytes >= 0").sink()
        peers = {"source": "a", "filter": "b", "sink": "b"}
        for application in ("damaged", "gap"):
            pair.net["b"].carry_out(Deploy(application, "filter", plan.to_bytes(), peers))
        pair.net["b"].on_data("a", "damaged/source>filter:0", b"nothing that an item looks like")
        pair.net["b"].on_data("a", "gap/source>filter:0", encode(Batch(table(5, 1), 5, 0.0)))
        assert [(application, operator) for application, operator, _ in pair.failed] == [
            ("damaged", "filter"),
            ("gap", "filter"),
        ]
        assert pair.failed[0][2].startswith("item: ")
        assert "expected 0: 5 tuples are missing" in pair.failed[1][2]

    play(scenario)


def test_frames_for_nobody_are_journaled_once() -> None:
    async def scenario() -> None:
        pair = Pair()
        for _ in range(3):
            pair.net["a"].on_data("b", "app/source>filter:0", b"")
            pair.net["a"].on_data("b", "credit:app/source>filter:0", b"123")
            pair.net["a"].on_data("b", "credit:unknown", bytes(8))
        assert [(kind, subject) for kind, subject, _ in pair.runtimes["a"].events] == [
            ("data_refused", "app/source>filter:0"),
            ("data_refused", "credit:app/source>filter:0"),
        ]

    play(scenario)


def test_a_link_that_takes_no_more_fails_the_component_that_would_lose_tuples() -> None:
    async def scenario() -> None:
        pair = Pair(read=reading(30, 100))
        pair.runtimes["a"].broken = True
        pair.deploy("app", trace().sink(), {"source": "a", "sink": "b"})
        await until(lambda: bool(pair.failed))
        assert pair.failed == [("app", "source", "BufferError: link to b is full")]

    play(scenario)


def test_orders_that_cannot_be_carried_out_say_why() -> None:
    async def scenario() -> None:
        pair = Pair()
        plan = trace().filter("bytes >= 0").sink()
        data, peers = plan.to_bytes(), {"source": "a", "filter": "a", "sink": "a"}
        one = pair.net["a"]
        one.carry_out(Deploy("app", "filter", data, peers, "fifo"))
        one.carry_out(Deploy("app", "fliter", data, peers))
        one.carry_out(Deploy("app", "filter", data, {"filter": "a"}))
        one.carry_out(Deploy("app", "source", source("peers").sink().to_bytes(), peers))
        assert [reason for _, _, reason in pair.failed] == [
            "discipline: 'fifo'; expected one of fcfs, edf, least_slack",
            "operator: 'fliter'; expected one of source, filter, sink",
            "operator 'filter': no peer is given for sink",
            "operator 'source': connector: 'peers': this peer does not measure itself",
        ]
        assert one.hosting.components == ()
        with pytest.raises(TypeError, match="instruction: int; expected Deploy, Start or Undeploy"):
            one.carry_out(7)
        with pytest.raises(LookupError, match="application 'app': sink None: found none; expected exactly one"):
            one.fetch("app", 1)

    play(scenario)


# -- the end of it ---------------------------------------------------------------------------------------------------


def test_undeploying_in_the_middle_leaves_nothing() -> None:
    async def scenario() -> None:
        pair = Pair(read=reading(10**9, 100), window_bytes=20_000)
        peers = {"source": "a", "filter": "b", "sink": "a"}
        pair.deploy("app", trace().filter("bytes >= 0").sink(), peers)
        await pair.net["a"].arrival("app", None, DEADLINE)
        assert pair.net["a"].fetch("app", 1)[0]
        waiting = asyncio.create_task(pair.net["a"].arrival("app", None, DEADLINE))
        await asyncio.sleep(0)  # let it begin to wait
        pair.undeploy("app", peers)
        await waiting
        await until(lambda: not any(t.name.startswith("synergy app") for t in threading.enumerate()))
        for one in pair.net.values():
            assert (one.hosting.components, one._routes, one._senders, one._feeds, one._by_component) == (
                (),
                {},
                {},
                {},
                {},
            )
            assert (one._executions, one._timer) == ({}, None)
        pair.undeploy("app", peers)
        assert not pair.failed
        pair.deploy("app", trace().filter("bytes < 100").sink(), peers)  # the name may be used again
        await pair.net["a"].arrival("app", None, DEADLINE)
        assert numbers(fetched(pair.net["a"], "app", 1))[0] == 0

    play(scenario)


def test_orders_that_come_twice_are_carried_out_once() -> None:
    async def scenario() -> None:
        pair = Pair(read=reading(3, 10))
        plan, peers = trace().sink(), {"source": "a", "sink": "a"}
        for _ in range(2):
            pair.deploy("app", plan, peers)
        assert len(numbers(await pair.results("a", "app"))) == 30
        kinds = [kind for kind, _, _ in pair.runtimes["a"].events]
        assert (kinds.count("component_deployed"), kinds.count("source_started")) == (2, 1)
        assert not pair.failed

    play(scenario)


# -- sources ---------------------------------------------------------------------------------------------------------


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
            await asyncio.sleep(0)
        received: list[int] = []

        async def insist(item: Item) -> None:
            while not one.push("app", "mine", encode(item)):
                waiting = asyncio.create_task(one.room("app", "mine"))
                while not waiting.done():
                    received.extend(numbers(fetched(one, "app")))
                    await asyncio.sleep(0)

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
        feed = next(iter(one._feeds.values()))
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


# -- measurements ----------------------------------------------------------------------------------------------------


def test_sinks_are_measured_again_and_again_until_they_end() -> None:
    async def scenario() -> None:
        pair = Pair(read=reading(10, 100))
        one = pair.net["a"]
        plan = trace().sink(delay="2 s")
        for operator in reversed(list(plan.operators)):
            one.carry_out(Deploy("app", operator, plan.to_bytes(), dict.fromkeys(plan.operators, "a")))
        one.measure()
        application, operator, record = pair.measured.pop()
        assert (application, operator) == ("app", "sink")
        assert record == {
            "operator": "sink", "delay_p50_s": None, "delay_p99_s": None, "delay_mean_s": None, "miss_rate": None,
            "limit_s": 2.0, "tuples_per_s": 0.0, "bytes_per_s": 0.0, "tuples": 0, "finished": False,
        }  # fmt: skip
        one.carry_out(Start("app", "source"))
        await pair.results("a", "app")
        one.measure()
        record = pair.measured.pop()[2]
        assert (record["tuples"], record["finished"], record["miss_rate"]) == (1000, True, 0.0)
        assert record["delay_mean_s"] > 0
        one.measure()
        assert not pair.measured
        journaled = [detail for kind, subject, detail in pair.runtimes["a"].events if (kind, subject) == ("qos", "app")]
        assert len(journaled) == 2
        assert journaled[-1] == record
        msgspec.json.encode(journaled)
        msgspec.json.encode(one.stats())

    play(scenario)


def test_hosts_of_one_process_share_nothing() -> None:
    async def scenario() -> None:
        pair = Pair(window_bytes=1000)
        assert pair.net["a"].hosting is not pair.net["b"].hosting
        assert Hosting().window != pair.net["a"].hosting.window
        await pair.close()
        await pair.close()

    play(scenario)
