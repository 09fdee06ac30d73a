"""Operators at work on two peers in one process: splits and joins, back-pressure, failures, removal, sources."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import msgspec
import polars as pl
import pytest

from synergy_nb.dataflow.hosting import Hosting
from synergy_nb.dataflow.operators import OperatorLogic
from synergy_nb.dataflow.operators import create as create_logic
from synergy_nb.dataflow.tuples import Batch, Item, Punctuation, encode
from synergy_nb.graph import Deploy, Start, Undeploy
from synergy_nb.plan import source
from synergy_nb.runtime import datapath, execution
from synergy_nb.runtime.sources import Stream
from tests.two_hosts import Pair, fetched, numbers, play, reading, table, trace
from tests.waiting import DEADLINE, turns, until

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
            lambda: (
                len(pair.net["a"]._path.feeds) == 1 and len(next(iter(pair.net["a"]._path.feeds.values())).pending) >= 2
            )
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
                few = 10 if batch.rows < 64 else 100  # those that wait are executed together
                threads[few].add("loop" if threading.current_thread() is threading.main_thread() else "pool")
                return process(port, rows, batch, kept)

            monkeypatch.setattr(logic, "process", spied)
        return logic

    monkeypatch.setattr(execution, "create", create)
    monkeypatch.setattr(datapath, "LIGHT_SECONDS", 10.0)

    async def scenario(rows: int) -> None:
        narrow = {"window_bytes": 4000} if rows == 10 else {}  # however many wait, few of them go together
        pair = Pair(read=reading(20, rows), **narrow)
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
            monkeypatch.setattr(logic, "take", lambda port, item: dict[str, int]()["secret"])
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
        events = [detail for kind, subject, detail in pair.runtimes["b"].events if kind == "operator_failed"]
        assert events == [{"operator": "filter", "reason": "KeyError: 'secret'"}]
        pair.undeploy("bad", peers)
        assert [component.application for component in pair.net["b"].hosting.components] == ["good"]

    play(scenario)


def test_a_panic_of_polars_is_a_failure_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def create(operator: Any, plan: Any, **options: Any) -> OperatorLogic:
        logic = create_logic(operator, plan, **options)

        def panic(port: int, batch: Batch) -> list[Item]:
            raise pl.exceptions.PanicException("index out of bounds")

        monkeypatch.setattr(logic, "take", panic)
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
        pair.net["b"].on_data("a", "data:damaged/source>filter:0", b"nothing that an item looks like")
        pair.net["b"].on_data("a", "data:gap/source>filter:0", encode(Batch(table(5, 1), 5, 0.0)))
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
            pair.net["a"].on_data("b", "data:app/source>filter:0", b"")
            pair.net["a"].on_data("b", "credit:app/source>filter:0", b"123")
            pair.net["a"].on_data("b", "credit:unknown", bytes(12))
        assert [(kind, subject) for kind, subject, _ in pair.runtimes["a"].events] == [
            ("data_refused", "data:app/source>filter:0"),
            ("data_refused", "credit:app/source>filter:0"),
        ]

    play(scenario)


def test_whoever_sends_data_is_told_what_its_reader_has_left() -> None:
    async def scenario() -> None:
        heard: set[tuple[str, float]] = set()
        pair = Pair(
            read=reading(30, 100),
            window_bytes=4000,
            left=lambda: 0.75,
            heard=lambda address, cores: heard.add((address, cores)),
        )
        pair.deploy("app", trace().filter("bytes >= 0").sink(), {"source": "a", "filter": "b", "sink": "b"})
        assert sum(batch.table.height for batch in await pair.results("b", "app")) == 3000
        assert heard == {("b", 0.75)}

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
        with pytest.raises(TypeError, match=r"instruction: int; expected an instruction of synergy_nb\.graph"):
            one.carry_out(7)
        with pytest.raises(LookupError, match="application 'app': sink None: found none; expected exactly one"):
            one.fetch("app", 1)

    play(scenario)


def test_each_kind_of_operator_has_run_once_before_the_first_tuple(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[str, int]] = []

    def create(operator: Any, plan: Any, **options: Any) -> OperatorLogic:
        logic = create_logic(operator, plan, **options)
        take = logic.take

        def spied(port: int, item: Item) -> Iterator[Item]:
            if isinstance(item, Punctuation):
                made.append((operator.kind, logic.position))
            return take(port, item)

        monkeypatch.setattr(logic, "take", spied)
        return logic

    monkeypatch.setattr(execution, "create", create)

    async def scenario() -> None:
        pair = Pair()
        one = pair.net["a"]
        plan = trace().filter("bytes >= 0").filter("bytes < 9").sink()
        for operator in reversed(list(plan.operators)):
            one.carry_out(Deploy("app", operator, plan.to_bytes(), dict.fromkeys(plan.operators, "a")))
        await pair.close()
        assert made == [("sink", 1), ("filter", 1)]
        assert not pair.failed

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
        await turns()  # it begins to wait
        pair.undeploy("app", peers)
        await waiting
        await until(lambda: not any(t.name.startswith("synergy app") for t in threading.enumerate()))
        for one in pair.net.values():
            path = one._path
            assert (one.hosting.components, path.routes, path.senders, path.feeds, path.executions) == (
                (),
                {},
                {},
                {},
                {},
            )
            assert (one._executions, one._sinks.timer) == ({}, None)
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
            "operator": "sink", "delay_p50_s": None, "delay_p95_s": None, "delay_p99_s": None,
            "delay_mean_s": None, "delay_max_s": None, "miss_rate": None,
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


def test_data_that_are_late_are_no_error_and_those_for_nobody_are() -> None:
    async def scenario() -> None:
        pair = Pair(read=reading(10, 100))
        pair.deploy("app", trace().filter("bytes >= 0").sink(), {"source": "a", "filter": "b", "sink": "a"})
        await pair.results("a", "app")
        pair.net["b"].carry_out(Undeploy("app", "filter"))
        payload = encode(Batch(table(0, 3), 0, 0.0))
        for channel in ("data:app/source>filter:0", "data:other/source>filter:0", "data:%FF/source>filter:0", "data:"):
            pair.net["b"].on_data("a", channel, payload)
        refused = [subject for kind, subject, _ in pair.runtimes["b"].events if kind == "data_refused"]
        assert refused == ["data:other/source>filter:0", "data:%FF/source>filter:0", "data:"]

    play(scenario)
