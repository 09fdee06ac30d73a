"""Passive replication between hosts: the state of backups, and take-overs after the death of a primary's peer."""

from __future__ import annotations

import asyncio
import random

import pytest

from synergy_nb.dataflow.deployments import Deployment
from synergy_nb.dataflow.streams.log.log import Limits
from synergy_nb.dataflow.streams.log.values import COPY, ORIGIN
from synergy_nb.dataflow.tuples import START, Batch, encode
from synergy_nb.events.application_states import Status
from synergy_nb.plan import source
from synergy_nb.runtime.data import deliveries
from synergy_nb.runtime.data.deliveries import Deliveries
from synergy_nb.runtime.process.requests import AwaitCopies, Push, Pushed, pack, unpack
from tests.backed_hosts import BACKED, ROWS, Hosts, pushed, undisturbed, windowed
from tests.quick_cases import quick_first
from tests.two_hosts import COLUMNS, play, table
from tests.waiting import DEADLINE, turns, until

on_loop = play  # how the tests that are coroutines run


@pytest.mark.parametrize("failing", [True, False])
@pytest.mark.parametrize("seed", quick_first(range(4), 1))
async def test_a_backup_continues_as_if_its_primary_had_not_died(seed: int, failing: bool) -> None:
    batches = 40
    expected = await undisturbed(windowed(), batches)
    rng = random.Random(seed)

    hosts = Hosts(windowed(), BACKED)
    hosts.tell()
    crash = rng.randrange(1, batches - 10)
    await hosts.push(crash)
    await turns(rng.randrange(200))
    if rng.random() < 0.7:  # with a state that the backup has
        await hosts.covered("b")
        await until(lambda: set(hosts.ready) == {("app", name) for name in BACKED})
    hosts.lose("p", failing=failing)
    await hosts.push(3)
    hosts.take_over("p")
    await hosts.push(batches - crash - 3)
    assert (await hosts.finish()).equals(expected)
    assert not hosts.failed
    events = [detail["operator"] for kind, _, detail in hosts.wires["b"].events if kind == "component_taken_over"]
    assert events == list(BACKED)


async def test_backups_take_over_one_after_the_other() -> None:
    batches = 30
    expected = await undisturbed(windowed(), batches)
    hosts = Hosts(windowed(), dict.fromkeys(BACKED, ("b", "c")))
    hosts.tell()
    await hosts.push(10)
    hosts.lose("p")
    hosts.take_over("p")
    await hosts.push(10)
    await hosts.covered("c")
    hosts.lose("p", "b")
    hosts.take_over("p", "b")
    await hosts.push(10)
    assert (await hosts.finish()).equals(expected)
    assert not hosts.failed


@pytest.mark.slow
async def test_only_components_of_the_lost_peer_are_taken_over() -> None:
    batches = 20
    expected = await undisturbed(windowed(), batches)
    hosts = Hosts(windowed(), BACKED)
    hosts.peers = {**hosts.peers, "filter": "c", "some": "c"}
    hosts.tell()
    await hosts.push(8)
    hosts.lose("p")
    hosts.take_over("p")
    assert hosts.peers["aggregate"] == "b"
    filtering = hosts.net["c"].hosting.components["app", "filter"]
    await hosts.push(12)
    assert (await hosts.finish()).equals(expected)
    assert hosts.net["c"].hosting.components["app", "filter"] is filtering
    assert {(each.peer, each.epoch) for each in filtering.log.cursors if each.port != COPY} == {("b", 1)}
    assert hosts.net["b"].hosting.components["app", "aggregate"].copies == {}, "nobody is left to take over"


async def test_an_operator_of_two_inputs_that_is_taken_over_loses_and_doubles_nothing() -> None:
    plan = pushed().union(source("python", name="other", columns=COLUMNS)).sink()

    hosts = Hosts(plan, {"union": ("b",)})
    hosts.tell()
    await hosts.push(10)
    await hosts.covered("b")
    await hosts.push(2)
    hosts.lose("p")
    await hosts.push(2)
    hosts.take_over("p")
    await hosts.push(10)
    found = await hosts.finish()
    counted = found.group_by("bytes").len().sort("bytes")
    assert counted["bytes"].to_list() == list(range(hosts.position))
    assert counted["len"].unique().to_list() == [2]
    assert not hosts.failed


async def test_a_component_without_a_copy_of_lost_tuples_fails_by_name() -> None:
    hosts = Hosts(windowed(), {"aggregate": ("b",)})
    hosts.peers["filter"] = "p"
    hosts.tell()
    await hosts.push(3)
    log = hosts.net["a"].hosting.components["app", "source"].log
    await until(lambda: log.start.position == 3 * ROWS)
    hosts.peers["filter"], hosts.epochs["filter"] = "c", 1
    hosts.tell()
    await until(lambda: bool(hosts.failed))
    ((application, operator, reason),) = hosts.failed
    assert (application, operator) == ("app", "filter")
    assert reason.endswith(f"tuples from position 0 on are requested; those from {3 * ROWS} on are retained")


@pytest.mark.slow
async def test_tuples_that_backups_cover_are_trimmed() -> None:
    hosts = Hosts(windowed(), BACKED)
    hosts.tell()
    await hosts.push(20)
    first, *others = [hosts.net[hosts.peers[name]].hosting.components["app", name] for name in hosts.plan.operators]
    await until(lambda: first.log.start.position == 20 * ROWS)
    await until(lambda: not any(len(each.log) for each in others if each.kind != "sink"))
    hosts.backups = {}
    hosts.tell()
    assert hosts.net["b"].hosting.roles.copies == {}


@pytest.mark.slow
async def test_a_backup_that_missed_tuples_continues_from_the_next_snapshot() -> None:
    batches = 30
    expected = await undisturbed(windowed(), batches)
    hosts = Hosts(windowed(), BACKED)
    hosts.tell()
    await hosts.push(5)
    hosts.wires["p"].gone = frozenset("b")
    await hosts.push(5)
    hosts.wires["p"].gone = frozenset()
    await hosts.push(5)
    kept = [hosts.kept("b", name) for name in BACKED]
    told = [copy.state for copy in kept]
    await hosts.push(5)
    await until(lambda: all(copy.state not in (None, was) for copy, was in zip(kept, told, strict=True)))
    hosts.lose("p")
    hosts.take_over("p")
    await hosts.push(10)
    assert (await hosts.finish()).equals(expected)


@pytest.mark.slow
async def test_a_silent_backup_delays_nobody_while_the_log_has_room() -> None:
    hosts = Hosts(windowed(), BACKED, limits=Limits(8_000, retain=4_000_000))
    hosts.lose("b", failing=False)
    hosts.tell()
    await hosts.push(100)
    found = await hosts.finish()
    assert found["n"].sum() == len([each for each in range(hosts.position) if each % 3])
    log = hosts.net["a"].hosting.components["app", "source"].log
    assert log.start == ORIGIN, "it may come yet"
    assert log.size > 100_000
    assert not hosts.failed


@pytest.mark.slow
async def test_a_state_much_larger_than_a_window_is_taken_over() -> None:
    plan = pushed().aggregate(["bytes", "source"], "1 h", n="count(*)").filter("n > 0", id="some").sink()
    batches, rows = 25, 4000
    expected = await undisturbed(plan, batches, rows)
    hosts = Hosts(plan, {"aggregate": ("b",)}, limits=Limits(1 << 18, retain=1 << 22))
    hosts.tell()
    await hosts.push(20, rows)
    copy = hosts.kept("b", "aggregate")
    await until(lambda: sum(map(len, copy.pieces.values())) > 4 << 18)
    hosts.lose("p")
    hosts.take_over("p")
    await hosts.push(5, rows)
    found = await hosts.finish()
    assert found.height == batches * rows
    assert found.sort("bytes").equals(expected.sort("bytes"))
    assert not hosts.failed


async def test_a_client_is_told_what_copies_of_its_source_have_and_who_has_taken_it_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(deliveries, "POLL", 2.0 * DEADLINE)  # an answer comes because there is something to say
    hosts = Hosts(pushed().filter("bytes >= 0").sink(), {"source": ("b",)})
    hosts.tell()

    def at(address: str) -> Deliveries:
        return Deliveries(hosts.net[address], asyncio.get_running_loop(), lambda _: Status.RUNNING)

    async def push(address: str, start: int, rows: int) -> Pushed:
        item = encode(Batch(table(start, rows), start, 0.0))
        return unpack(await at(address).push(pack(Push("app", "mine", item, age=5.0))), Pushed)

    async def copied(address: str, epoch: int, beyond: int) -> Pushed:
        request = pack(AwaitCopies("app", "mine", epoch, (beyond, START)))
        async with asyncio.timeout(DEADLINE):
            return unpack(await at(address).await_copies(request), Pushed)

    answer = await push("p", 0, ROWS)
    assert (answer.epoch, answer.end, answer.copied) == (0, (ROWS, START), ORIGIN)
    assert (await copied("p", 0, 0)).copied == (ROWS, START)
    asked = asyncio.create_task(copied("p", 0, ROWS))
    await turns(20)
    assert not asked.done(), "copies have no more"
    hosts.lose("p", failing=False)
    answer = await push("p", ROWS, ROWS)
    assert answer.end == (2 * ROWS, START)
    hosts.take_over("p")
    answer = await copied("b", 0, ROWS)
    assert (answer.epoch, answer.end) == (1, (ROWS, START)), "it is of another epoch"
    answer = await push("b", 2 * ROWS, ROWS)
    assert answer.end == (ROWS, START), "items before it are missing"
    answer = await push("b", ROWS, ROWS)
    assert answer.end == (2 * ROWS, START)
    await until(lambda: hosts.fetch() or sum(each.height for each in hosts.rows) == 2 * ROWS)
    hosts.position = 2 * ROWS
    assert (await copied("b", 1, ROWS)).copied == (2 * ROWS, START), "it has no copies any more"
    hosts.net["p"].carry_out(Deployment("app", 99, {}))
    assert (await asked).gone
    assert (await copied("p", 0, 0)).gone
