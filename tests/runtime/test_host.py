"""Operators at work on two peers in one process: splits and joins, back-pressure, failures, removal, sources."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import msgspec
import polars as pl
import pytest

from synergy_nb.dataflow.deployments import Deployment
from synergy_nb.dataflow.memory_shares import Memory
from synergy_nb.dataflow.operators import OperatorLogic
from synergy_nb.dataflow.operators import create as create_logic
from synergy_nb.dataflow.streams.component.component_metrics import ComponentMetrics
from synergy_nb.dataflow.streams.log.frames import Data
from synergy_nb.dataflow.streams.log.log import LIMITS, Limits
from synergy_nb.dataflow.streams.log.values import ORIGIN, Output, Point, Reader, chunks_of
from synergy_nb.dataflow.streams.log.wire import encode as encode_frame
from synergy_nb.dataflow.tuples import Batch, Item, Punctuation, decode, encode
from synergy_nb.plan import source
from synergy_nb.runtime.data import instances, stream_driver
from synergy_nb.runtime.data._sinks import SILENT, Portion
from synergy_nb.runtime.data.sources import Stream
from synergy_nb.runtime.data.stream_driver import STREAM
from synergy_nb.traces import Skipped
from tests.two_hosts import PLACES, Pair, arrival, deployment, fetched, numbers, play, reading, table, trace
from tests.waiting import DEADLINE, turns, until

on_loop = play  # how the tests that are coroutines run

# -- the data path ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("discipline", ["fcfs", "edf", "least_slack"])
@pytest.mark.parametrize("filter_at", ["a", "b"])
async def test_a_query_gives_all_results_in_order(filter_at: str, discipline: str) -> None:
    pair = Pair(read=reading(30, 100))
    plan = trace().filter("bytes % 2 = 0").sink(delay="2 min", scheduling=discipline)
    pair.deploy("app", plan, {"source": "a", "filter": filter_at, "sink": "a"})
    assert pair.net["a"].hosting.components["app", "sink"].terms.discipline == discipline
    batches = await pair.results("a", "app")
    assert numbers(batches) == list(range(0, 3000, 2))
    assert [batch.position for batch in batches] == list(itertools.accumulate((b.rows for b in batches), initial=0))[
        :-1
    ]
    assert pair.finished == [("app", "sink")]
    qos = pair.net["a"].qos("app")
    assert (qos["tuples"], qos["limit_s"], qos["miss_rate"], qos["finished"]) == (1500, 120.0, 0.0, True)
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


async def test_a_stream_that_splits_and_joins_is_complete() -> None:
    pair = Pair(read=reading(40, 50), limits=Limits(20_000))
    packets = trace()
    plan = packets.filter("bytes % 2 = 0").union(packets.filter("bytes % 3 = 0")).sink()
    peers = {"source": "a", "filter": "a", "filter_2": "b", "union": "a", "sink": "b"}
    pair.deploy("app", plan, peers)
    assert sorted(numbers(await pair.results("b", "app", max_bytes=1))) == sorted(
        [*range(0, 2000, 2), *range(0, 2000, 3)]
    )


async def test_large_batches_are_cut_to_fit_the_window() -> None:
    pair = Pair(read=reading(2, 5000), limits=Limits(40_000))
    pair.deploy("app", trace().filter("bytes >= 0").sink(), {"source": "a", "filter": "b", "sink": "a"})
    batches = await pair.results("a", "app")
    assert numbers(batches) == list(range(10_000))
    assert max(len(encode(batch)) for batch in batches) <= 40_000


@pytest.mark.slow
async def test_a_slow_reader_slows_the_source_and_nothing_is_lost() -> None:
    taken: list[int] = []
    pair = Pair(read=reading(500, 100, taken), limits=Limits(20_000, results=20_000))
    pair.deploy("app", trace().filter("bytes >= 0").sink(), {"source": "a", "filter": "b", "sink": "a"})

    def stuck() -> bool:
        here = [each for one in pair.net.values() for each in one.hosting.components.values()]
        return len(here) == 3 and all(each.log.blocked and not each.running for each in here)

    await until(stuck)
    (feed,) = pair.net["a"].feeds.values()
    await until(lambda: len(feed.pending) >= 2)
    assert len(taken) < 60, "three windows of two or three batches, and what is under way"
    for one in pair.net.values():
        for component in one.hosting.components.values():
            assert all(port.queued <= 20_000 for port in component.ports.values())
    assert numbers(await pair.results("a", "app", max_bytes=1)) == list(range(50_000))
    assert len(taken) == 1000


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

    monkeypatch.setattr(instances, "create", create)
    monkeypatch.setattr(stream_driver, "LIGHT_SECONDS", 10.0)

    async def scenario(rows: int) -> None:
        narrow = {"limits": Limits(4000)} if rows == 10 else {}  # however many wait, few of them go together
        pair = Pair(read=reading(20, rows), **narrow)
        pair.deploy("app", trace().filter("bytes >= 0").sink(), dict.fromkeys(("source", "filter", "sink"), "a"))
        assert len(numbers(await pair.results("a", "app"))) == 20 * rows

    for rows in threads:
        play(scenario(rows))
    assert "loop" in threads[10]
    assert threads[100] == {"pool"}


# -- failures --------------------------------------------------------------------------------------------------------


async def test_a_failing_operator_stops_its_application_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def create(operator: Any, plan: Any, **options: Any) -> OperatorLogic:
        logic = create_logic(operator, plan, **options)
        if operator.params.get("where") == "bytes < 0":
            monkeypatch.setattr(logic, "execute", lambda port, item: dict[str, int]()["secret"])
        return logic

    monkeypatch.setattr(instances, "create", create)

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
    assert list(pair.net["b"].hosting.components) == [("good", "filter")]


async def test_a_panic_of_polars_is_a_failure_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def create(operator: Any, plan: Any, **options: Any) -> OperatorLogic:
        logic = create_logic(operator, plan, **options)

        def panic(port: int, batch: Batch) -> list[Item]:
            raise pl.exceptions.PanicException("index out of bounds")

        monkeypatch.setattr(logic, "execute", panic)
        return logic

    monkeypatch.setattr(instances, "create", create)

    pair = Pair(read=reading(1, 100))
    pair.deploy("app", trace().sink(), {"source": "a", "sink": "a"})
    await until(lambda: bool(pair.failed))
    assert pair.failed == [("app", "sink", "PanicException: index out of bounds")]


async def test_a_source_that_cannot_be_read_fails() -> None:
    def read(params: Mapping[str, Any], _skipped: Skipped) -> tuple[Stream, bool]:
        raise FileNotFoundError(2, "No such file", params["path"])

    pair = Pair(read=read)
    pair.deploy("app", trace().sink(), {"source": "a", "sink": "a"})
    await until(lambda: bool(pair.failed))
    assert pair.failed == [("app", "source", "FileNotFoundError: [Errno 2] No such file: 'fake.tcp'")]


async def test_a_file_is_read_only_if_the_application_may() -> None:
    opened: list[str] = []

    def read(params: Mapping[str, Any], _skipped: Skipped) -> tuple[Stream, bool]:
        opened.append(params["path"])
        raise FileNotFoundError(2, "No such file", params["path"])

    pair = Pair(read=read, folders=lambda application: None if application == "own" else [])
    for application in ("guest", "own"):
        pair.deploy(application, trace().sink(), {"source": "a", "sink": "a"})
    await until(lambda: len(pair.failed) == 2)
    reasons = {application: reason for application, _, reason in pair.failed}
    none = "expected no file: this peer lets the plans of others read none"
    assert reasons["guest"] == f"operator 'source': path: 'fake.tcp'; {none}"
    assert "No such file" in reasons["own"]
    assert opened == ["fake.tcp"]
    lines = source("socket", address="127.0.0.1:1", columns={"time": "time", "n": "int"}).sink()
    pair.deploy("other", lines, {"source": "a", "sink": "a"})
    await until(lambda: len(pair.failed) == 3)
    assert pair.failed[-1][2].endswith("address: '127.0.0.1:1'; expected no host: none was named for guests")


async def test_damaged_data_and_data_without_a_reader_are_ignored() -> None:
    pair = Pair(read=reading(10, 100))
    chunks = tuple(chunks_of([Batch(table(0, 3), 0, 0.0)], ORIGIN))
    for application in ("app", "other"):
        frame = Data(Output(application, "source"), Reader(application, "filter", 0, "b"), ORIGIN, chunks)
        pair.runtimes["b"].channels[STREAM]("a", encode_frame(frame))  # nothing like that is here yet
    pair.deploy("app", trace().filter("bytes >= 0").sink(), {"source": "a", "filter": "b", "sink": "a"})
    pair.runtimes["b"].channels[STREAM]("a", b"nothing that a frame looks like")
    assert numbers(await pair.results("a", "app")) == list(range(1000))
    refused = [
        detail["reason"] for kind, who, detail in pair.runtimes["b"].events if (kind, who) == ("data_refused", "a")
    ]
    assert len(refused) == 1
    assert not pair.failed


async def test_senders_are_told_the_free_cores_of_their_readers() -> None:
    heard: set[tuple[str, float]] = set()
    pair = Pair(
        read=reading(30, 100),
        limits=Limits(4000),
        unused_cores=lambda: 0.75,
        on_unused_cores=lambda address, cores: heard.add((address, cores)),
    )
    pair.deploy("app", trace().filter("bytes >= 0").sink(), {"source": "a", "filter": "b", "sink": "b"})
    assert sum(batch.table.height for batch in await pair.results("b", "app")) == 3000
    assert heard == {("b", 0.75)}


async def test_nobody_asks_for_the_free_cores_that_a_reader_on_the_same_peer_has() -> None:
    asked: list[float] = []

    def unused() -> float:
        asked.append(0.75)
        return asked[-1]

    pair = Pair(read=reading(30, 100), limits=Limits(4000), unused_cores=unused)
    plan = trace().filter("bytes >= 0").sink()
    pair.deploy("app", plan, dict.fromkeys(plan.operators, "a"))
    assert sum(batch.table.height for batch in await pair.results("a", "app")) == 3000
    assert asked == []


@pytest.mark.slow
async def test_a_link_that_takes_no_more_for_a_while_loses_nothing_and_fails_nobody() -> None:
    pair = Pair(read=reading(300, 100), limits=Limits(20_000))
    pair.deploy("app", trace().filter("bytes >= 0").sink(), {"source": "a", "filter": "b", "sink": "a"})
    got: list[int] = []
    for tuples in (1000, 10_000, 20_000):
        while len(got) < tuples:
            await arrival(pair.net["a"], "app")
            got += numbers(fetched(pair.net["a"], "app"))
        for runtime in pair.runtimes.values():
            runtime.broken = True
        for _ in range(20):
            got += numbers(fetched(pair.net["a"], "app"))
            await turns()
        for runtime in pair.runtimes.values():
            runtime.broken = False
    got += numbers(await pair.results("a", "app"))
    assert got == list(range(30_000))
    assert not pair.failed


async def test_deployments_that_cannot_be_executed_report_the_reason() -> None:
    pair = Pair()
    plan = trace().filter("bytes >= 0").sink()
    peers = dict.fromkeys(plan.operators, "a")
    one = pair.net["a"]
    order = deployment("app", plan, peers)
    typo = {"fliter": order.assignments["filter"]}
    one.carry_out(msgspec.structs.replace(order, assignments=typo))
    one.carry_out(msgspec.structs.replace(order, application="other", assignments=typo, plan=b"nothing like a plan"))
    pair.deploy("measuring", source("peers").sink(), dict.fromkeys(("source", "sink"), "a"))
    await until(lambda: len(pair.failed) == 3)
    reasons = {(application, operator): reason for application, operator, reason in pair.failed}
    assert reasons["app", "fliter"] == "operator: 'fliter'; expected one of source, filter, sink"
    assert "expected a plan" in reasons["other", "fliter"]
    what = "operator 'source': connector: 'peers': this peer does not measure itself; expected one that does"
    assert reasons["measuring", "source"] == what
    assert not any(application == "app" for application, _ in one.hosting.components)
    with pytest.raises(TypeError, match=r"instruction: int; expected a Deployment"):
        one.carry_out(7)
    with pytest.raises(LookupError, match="application 'app': sink None: found none; expected exactly one"):
        one.fetch("app", None, "me", None, 1)


async def test_each_kind_of_operator_has_run_once_before_the_first_tuple(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[str, int]] = []

    def create(operator: Any, plan: Any, **options: Any) -> OperatorLogic:
        logic = create_logic(operator, plan, **options)
        punctuated = logic.on_punctuation

        def spied(port: int, item: Punctuation) -> list[Item]:
            made.append((operator.kind, item.position))
            return punctuated(port, item)

        monkeypatch.setattr(logic, "on_punctuation", spied)
        return logic

    monkeypatch.setattr(instances, "create", create)

    pair = Pair()
    plan = trace().filter("bytes >= 0").filter("bytes < 9").sink()
    order = deployment("app", plan, dict.fromkeys(plan.operators, "a"))
    pair.net["a"].carry_out(msgspec.structs.replace(order, running=False))
    await pair.close()
    assert sorted(made) == [("filter", 1), ("sink", 1)]
    assert not pair.failed


# -- the end of it ---------------------------------------------------------------------------------------------------


async def test_undeploying_during_execution_leaves_nothing() -> None:
    pair = Pair(read=reading(10**9, 100), limits=Limits(20_000))
    peers = {"source": "a", "filter": "b", "sink": "a"}
    pair.deploy("app", trace().filter("bytes >= 0").sink(), peers)
    await arrival(pair.net["a"], "app")
    assert fetched(pair.net["a"], "app", 1)
    while pair.net["a"].hosting.components["app", "sink"].collectable:
        fetched(pair.net["a"], "app")
    waiting = asyncio.create_task(arrival(pair.net["a"], "app"))
    await turns()  # it begins to wait
    pair.undeploy("app", peers)
    await waiting
    await until(lambda: not any(t.name.startswith("synergy app") for t in threading.enumerate()))
    for one in pair.net.values():
        hosting = one.hosting
        assert (hosting.components, hosting.deployments, hosting.opened, one.feeds) == ({}, {}, set(), {})
        assert (hosting.roles.copies, hosting.roles.recoveries) == ({}, {})
        assert (hosting.memory.used, hosting.next_timer, one._sinks.timer) == (0, None, None)
    pair.undeploy("app", peers)
    assert not pair.failed
    pair.deploy("app", trace().filter("bytes < 100").sink(), peers)  # the name may be used again
    PLACES.clear()
    await arrival(pair.net["a"], "app")
    assert numbers(fetched(pair.net["a"], "app", 1))[0] == 0


async def test_a_repeated_deployment_is_executed_once() -> None:
    pair = Pair(read=reading(3, 10))
    plan, peers = trace().sink(), {"source": "a", "sink": "a"}
    for _ in range(2):
        pair.deploy("app", plan, peers)
    assert len(numbers(await pair.results("a", "app"))) == 30
    kinds = [kind for kind, _, _ in pair.runtimes["a"].events]
    assert (kinds.count("component_deployed"), kinds.count("source_started")) == (2, 1)
    assert not pair.failed


# -- measurements ----------------------------------------------------------------------------------------------------


async def test_sinks_are_measured_again_and_again_until_they_end() -> None:
    pair = Pair(read=reading(10, 100))
    one = pair.net["a"]
    plan = trace().sink(delay="2 min")
    order = deployment("app", plan, dict.fromkeys(plan.operators, "a"))
    one.carry_out(msgspec.structs.replace(order, running=False))
    one.measure()
    application, operator, record = pair.measured.pop()
    assert (application, operator) == ("app", "sink")
    assert record == {
        "operator": "sink", "delay_p50_s": None, "delay_p95_s": None, "delay_p99_s": None,
        "delay_mean_s": None, "delay_max_s": None, "miss_rate": None,
        "limit_s": 120.0, "tuples_per_s": 0.0, "bytes_per_s": 0.0, "tuples": 0, "finished": False,
        "dropped": {}, "lost": 0.0,
    }  # fmt: skip
    one.carry_out(order)
    await pair.results("a", "app")
    record = pair.measured.pop()[2]  # before anybody hears of the end
    assert (record["tuples"], record["finished"], record["miss_rate"]) == (1000, True, 0.0)
    assert record["delay_mean_s"] > 0
    one.measure()
    assert not pair.measured
    journaled = [
        detail for kind, subject, detail in pair.runtimes["a"].events if (kind, subject) == ("sink_measured", "app")
    ]
    assert len(journaled) == 2
    assert journaled[-1] == record
    msgspec.json.encode(journaled)
    msgspec.json.encode(one.stats())


async def test_hosts_of_one_process_share_nothing() -> None:
    pair = Pair(limits=Limits(1000))
    assert pair.net["a"].hosting is not pair.net["b"].hosting
    assert pair.net["a"].hosting.limits != LIMITS
    await pair.close()
    await pair.close()


async def test_data_that_are_late_are_no_error() -> None:
    pair = Pair(read=reading(10, 100))
    peers = {"source": "a", "filter": "b", "sink": "a"}
    pair.deploy("app", trace().filter("bytes >= 0").sink(), peers)
    await pair.results("a", "app")
    pair.net["b"].carry_out(Deployment("app", 1))
    chunks = tuple(chunks_of([Batch(table(0, 3), 0, 0.0)], ORIGIN))
    late = Data(Output("app", "source"), Reader("app", "filter", 0, "b"), ORIGIN, chunks)
    pair.runtimes["b"].channels[STREAM]("a", encode_frame(late))
    assert not [event for event in pair.runtimes["b"].events if event[0] == "data_refused"]
    assert pair.net["b"].hosting.components == {}
    assert not pair.failed


# -- results ---------------------------------------------------------------------------------------------------------


async def test_each_reader_has_its_place_in_the_results_and_the_last_one_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = {"seconds": 0.0}
    pair = Pair(read=reading(20, 100), limits=Limits(20_000, results=20_000))
    one = pair.net["a"]
    monkeypatch.setattr(one, "_clock", lambda: now["seconds"])
    pair.deploy("app", trace().sink(), {"source": "a", "sink": "a"})
    component = one.hosting.components["app", "sink"]
    await until(lambda: component.log.blocked)

    places: dict[str, Point | None] = dict.fromkeys(("fast", "slow", "lost", "late"))
    got: dict[str, list[int]] = {name: [] for name in places}

    def read(name: str, most: int = 1 << 20) -> Portion:
        found = one.fetch("app", "sink", name, places[name], most)
        if name != "lost":
            places[name] = found.end
        got[name] += numbers([item for item in map(decode, found.items) if isinstance(item, Batch)])
        return found

    repeated = read("lost", 1)
    assert (repeated.start, repeated.missed) == (ORIGIN, 0)
    assert read("lost", 1) == repeated, "its answer was lost"
    places["lost"] = repeated.end
    read("slow", 1)
    for _ in range(20):  # the log is full of what the others have yet to read
        read("fast")
        await turns(5)
    assert component.log.blocked
    assert component.log.start == ORIGIN
    now["seconds"] += SILENT + 1
    read("slow", 1)  # it is slow, but it reads: nothing is lost for it
    while not all([read("slow").finished, read("fast").finished]):  # who is not heard of any more stops nobody
        await turns(5)
    assert got["fast"] == got["slow"] == list(range(2000))
    read("slow"), read("fast")  # both acknowledge the last results
    assert component.log.size <= 20_000 // 4
    assert read("late").missed == 2000 - len(got["late"]) > 0
    assert got["late"] == list(range(2000 - len(got["late"]), 2000)), "it begins with what is retained"
    assert one.fetch("app", "sink", "lost", repeated.end, 1).missed > 0, "it was passed over"
    missed = [
        (what["operator"], what["rows"] > 0) for kind, _, what in pair.runtimes["a"].events if kind == "results_missed"
    ]
    assert missed == [("sink", True)] * 2, "the late one and the lost one"


async def test_results_are_retained_after_all_other_components_have_gone() -> None:
    pair = Pair(read=reading(50, 100))
    one = pair.net["a"]
    plan = trace().filter("bytes >= 0").sink()
    order = deployment("app", plan, {"source": "b", "filter": "b", "sink": "a"})
    for each in pair.net.values():
        each.carry_out(order)
    await until(lambda: bool(pair.finished))
    left = {"sink": msgspec.structs.replace(order.assignments["sink"], inputs=())}
    pair.net["b"].carry_out(Deployment("app", 1))
    one.carry_out(msgspec.structs.replace(order, assignments=left))
    assert list(one.hosting.components) == [("app", "sink")]
    assert numbers(await pair.results("a", "app", max_bytes=1)) == list(range(5000))
    one.carry_out(Deployment("app", 1))
    assert not one.hosting.components
    assert one.fetch("app", None, "another", None, 1).items, "it reads them after the sink has gone, too"
    one.ended.discard("app")
    with pytest.raises(LookupError):
        one.fetch("app", None, "test", None, 1)
    assert not pair.failed


async def test_a_halted_application_returns_the_results_so_far_and_no_later_ones() -> None:
    pair = Pair(read=reading(10**9, 100), limits=Limits(20_000, results=20_000))
    one = pair.net["a"]
    pair.deploy("app", trace().sink(), {"source": "a", "sink": "a"})
    await until(lambda: one.hosting.components["app", "sink"].log.blocked)
    had = one.hosting.components["app", "sink"].log.end.position
    one.halt("app")
    got: list[int] = []
    for _ in range(50):
        got += numbers(fetched(one, "app"))
        await turns()
    assert got == list(range(had))
    assert pair.measured[-1][2]["tuples"] == had


def test_an_operator_of_known_cost_takes_that_on_average_however_late_it_is_woken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, late = [0.0], iter((0.004, 0.0, 0.009, 0.0, 5.0, 0.0))

    def sleep(seconds: float) -> None:
        now[0] += seconds + next(late)

    monkeypatch.setattr(instances, "time", SimpleNamespace(sleep=sleep, monotonic=lambda: now[0]))
    component = ComponentMetrics(measure_s=1.0, share=Memory().share("app", "f"), now=0.0)
    wait, ends = instances.Waiting(component), []
    for _ in range(6):
        wait(0.010)
        ends.append(round(now[0], 6))
    assert ends[:4] == [0.014, 0.020, 0.039, 0.040]
    assert component.waited_s == pytest.approx(ends[5])
    assert ends[5] == ends[4], "what was far too long is made up for, too, but no more than a tenth of a second"
