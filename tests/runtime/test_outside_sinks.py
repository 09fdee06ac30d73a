"""Sinks that write to the outside at a host: the stream waits for them, and ends when they have it."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pytest

from synergy_nb import jsonl, parquet, websocket
from synergy_nb.connectors import sink_writers
from synergy_nb.dataflow.sinks.protocol import SinkFailed, SinkWriter
from synergy_nb.dataflow.streams.log.log import Limits
from synergy_nb.dataflow.streams.log.values import Point
from synergy_nb.dataflow.tuples import END, Batch
from synergy_nb.durable.disk import Disk
from synergy_nb.events import DestinationBroken, DestinationMended, WaitBegun, WaitEnded, Why
from synergy_nb.reporting.stalls import OpenWaits, stalls
from synergy_nb.runtime.data import _outside_sinks, host
from synergy_nb.runtime.data.host import Host
from tests.connectors.broken_disk import FailingDisk
from tests.two_hosts import Pair, deployment, numbers, play, reading, trace
from tests.waiting import turns, until

on_loop = play
PEERS = {"source": "a", "filter": "b", "sink": "a"}


class Held(SinkWriter):
    """A writer that waits before each commit until it may."""

    def __init__(self) -> None:
        self.may = threading.Event()
        self.rows = 0
        self.committed: Point | None = None
        self.closed = False

    def open(self) -> Point | None:
        return self.committed

    def write(self, batch: Batch) -> None:
        self.rows += batch.rows

    def commit(self, point: Point) -> None:
        self.may.wait()
        self.committed = point

    def close(self) -> None:
        self.closed = True


def writing(monkeypatch: pytest.MonkeyPatch, writer: SinkWriter | Disk) -> None:
    """Have hosts write with this writer, or with this disk."""
    if isinstance(writer, Disk):
        monkeypatch.setattr(host, "writer_of", partial(sink_writers.writer_of, disk=writer))
    else:
        monkeypatch.setattr(host, "writer_of", lambda *_terms, **_named: writer)


def events(pair: Pair, kind: str) -> list[dict[str, Any]]:
    return [detail for found, _, detail in pair.runtimes["a"].events if found == kind]


def arrived(one: Host) -> bool:
    component = one.hosting.components.get(("app", "sink"))
    return component is not None and component.log.end.position > 0


def written(path: Path) -> list[int]:
    return pl.read_ndjson(path)["bytes"].to_list()


async def test_a_stream_has_ended_when_its_destination_has_it(tmp_path: Path) -> None:
    pair = Pair(read=reading(30, 100))
    path = tmp_path / "rows.jsonl"
    pair.deploy("app", trace().filter("bytes % 2 = 0").sink(to=jsonl(path, every="20 ms")), PEERS)
    await until(lambda: pair.finished)
    assert pair.finished == [("app", "sink")]
    assert written(path) == list(range(0, 3000, 2))
    assert numbers(await pair.results("a", "app")) == list(range(0, 3000, 2)), "a notebook reads them, too"
    assert not pair.failed


async def test_nothing_has_ended_before_the_last_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    held = Held()
    writing(monkeypatch, held)
    pair = Pair(read=reading(3, 100))
    pair.deploy("app", trace().filter("bytes >= 0").sink(to=jsonl("a", every="1 h")), PEERS)
    assert len(numbers(await pair.results("a", "app"))) == 300
    await until(lambda: held.rows == 300)
    assert pair.finished == []
    held.may.set()
    await until(lambda: pair.finished)


async def test_a_destination_that_is_slow_slows_the_source_and_notebooks_do_not_matter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held, taken = Held(), list[int]()
    writing(monkeypatch, held)
    pair = Pair(read=reading(500, 100, taken), limits=Limits(20_000, results=20_000))
    pair.deploy("app", trace().filter("bytes >= 0").sink(to=jsonl("a", every="1 us")), PEERS)

    def stuck() -> bool:
        here = [each for one in pair.net.values() for each in one.hosting.components.values()]
        return len(here) == 3 and all(each.log.blocked and not each.running for each in here)

    async with asyncio.TaskGroup() as tasks:
        quick = tasks.create_task(pair.results("a", "app"))
        await until(stuck)
        assert len(taken) < 100
        held.may.set()
        await until(lambda: pair.finished)
    assert held.rows == len(numbers(quick.result())) == 50_000
    assert pair.net["a"].hosting.components["app", "sink"].log.size <= 20_000


async def test_a_full_disk_is_said_ever_more_rarely_and_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_outside_sinks, "SOON_S", 1e-3)
    monkeypatch.setattr(_outside_sinks, "LATE_S", 2e-3)
    writing(monkeypatch, FailingDisk("write", OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), times=10))
    pair = Pair(read=reading(30, 100))
    path = tmp_path / "rows"
    pair.deploy("app", trace().filter("bytes >= 0").sink(to=parquet(path, every="1 ms")), PEERS)
    await until(lambda: pair.finished)
    assert pl.read_parquet(path / "*.parquet")["bytes"].sort().to_list() == list(range(3000))
    said = events(pair, "destination_broken")
    assert {each["reason"] for each in said} == {f"{str(path)!r}: No space left on device"}
    assert [each["tries"] for each in said] == [1, 2, 3, 4, 8]
    assert [each["wait_s"] for each in said] == [1e-3, 2e-3, 2e-3, 2e-3, 2e-3]
    assert len(events(pair, "destination_mended")) == len(events(pair, "destination_opened")) == 1
    assert not pair.failed


async def test_what_can_never_be_written_fails_the_application_by_name(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("something else")
    pair = Pair(read=reading(30, 100))
    pair.deploy("app", trace().filter("bytes >= 0").sink(to=parquet(tmp_path)), PEERS)
    await until(lambda: pair.failed)
    ((application, operator, reason),) = pair.failed
    assert (application, operator) == ("app", "sink")
    assert reason.startswith(f"{str(tmp_path)!r}: it has 'mine.txt'; expected a folder of its own")
    assert pair.finished == []


async def test_a_destination_whose_secret_is_missing_fails_the_application() -> None:
    pair = Pair(read=reading(3, 100))
    to = websocket("ws://127.0.0.1:1/?token=${board}")
    pair.deploy("app", trace().filter("bytes >= 0").sink(to=to), PEERS)
    await until(lambda: pair.failed or pair.finished)
    assert pair.failed == [("app", "sink", "url: secret 'board'; expected one that this peer has (none)")]
    assert pair.finished == []


async def test_an_error_of_a_writer_fails_its_application_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Wrong(Held):
        def write(self, batch: Batch) -> None:
            raise KeyError("secret")

    good = sink_writers.writer_of
    wrong = Wrong()
    monkeypatch.setattr(
        host, "writer_of", lambda to, *terms, **named: wrong if to["path"] == "bad" else good(to, *terms, **named)
    )
    pair = Pair(read=reading(30, 100))
    pair.deploy("bad", trace().filter("bytes >= 0").sink(to=jsonl("bad")), PEERS)
    pair.deploy("good", trace().filter("bytes >= 0").sink(to=jsonl(tmp_path / "good")), PEERS)
    await until(lambda: pair.failed and pair.finished)
    assert pair.failed == [("bad", "sink", "KeyError: 'secret'")]
    assert pair.finished == [("good", "sink")]
    await until(lambda: wrong.closed)


async def test_what_has_arrived_is_written_when_an_application_is_stopped(tmp_path: Path) -> None:
    pair = Pair(read=reading(30, 100))
    path = tmp_path / "rows.jsonl"
    pair.deploy("app", trace().filter("bytes >= 0").sink(to=jsonl(path, every="1 h")), PEERS)
    one = pair.net["a"]
    await until(lambda: arrived(one))
    one.halt("app")
    there = one.hosting.components["app", "sink"].log.end.position
    await one.flush("app")
    assert written(path) == list(range(there))
    pair.undeploy("app", PEERS)
    await one.close()
    assert written(path) == list(range(there))


async def test_a_sink_that_goes_on_elsewhere_writes_nothing_more(tmp_path: Path) -> None:
    pair = Pair(read=reading(30, 100))
    path = tmp_path / "rows.jsonl"
    pair.deploy("app", trace().filter("bytes >= 0").sink(to=jsonl(path, every="1 h")), PEERS)
    one = pair.net["a"]
    await until(lambda: arrived(one))
    pair.undeploy("app", PEERS)
    await one.close()
    assert not path.exists() or path.read_text() == ""


async def test_a_run_goes_on_where_the_one_before_has_ended(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    plan = trace().filter("bytes >= 0").sink(to=jsonl(path, every="1 ms"))
    first = Pair(read=reading(10, 100))
    first.deploy("first", plan, PEERS)
    await until(lambda: first.finished)
    before = path.stat()
    second = Pair(read=reading(30, 100))
    second.deploy("second", plan, PEERS)
    await until(lambda: second.finished)
    assert written(path) == list(range(3000))
    assert path.stat().st_ino == before.st_ino
    assert events(second, "destination_opened")[0]["rows"] == 1000
    third = Pair(read=reading(10, 100))
    third.deploy("third", plan, PEERS)
    await until(lambda: third.failed)
    assert third.failed[0][2].startswith(f"{str(path)!r}: it has 3000 rows of the stream, which has ended after 1000")
    with pytest.raises(SinkFailed):
        raise SinkFailed(third.failed[0][2])


def test_a_destination_that_is_broken_is_the_reason_of_a_stall() -> None:
    waits = OpenWaits()
    full = "'rows': No space left on device"
    waits.add(WaitBegun(5.0, "a", "app", operator="sink", why=Why.RESULTS, since=3.0))
    waits.add(DestinationBroken(4.0, "a", "app", operator="sink", reason=full, tries=1, wait_s=0.1))
    waits.add(DestinationBroken(6.0, "a", "app", operator="sink", reason=full, tries=2, wait_s=0.2))
    (stall,) = stalls(waits, 14.0)
    assert str(stall).startswith(f"stalled: sink at peer a has not reached for 10 s what it needs: {full}; ")
    waits.add(DestinationMended(15.0, "a", "app", operator="sink", seconds=11.0))
    waits.add(WaitEnded(15.0, "a", "app", operator="sink", seconds=12.0))
    assert stalls(waits, 16.0) == []


async def test_nothing_is_written_that_the_backup_does_not_have(monkeypatch: pytest.MonkeyPatch) -> None:
    held = Held()
    held.may.set()
    writing(monkeypatch, held)
    pair = Pair(read=reading(5, 100))
    plan = trace().filter("bytes >= 0").sink(to=jsonl("a", every="1 ms"))
    order = deployment("app", plan, dict.fromkeys(PEERS, "a"), backups={"sink": ("b",)})
    sink = msgspec.structs.replace(order.assignments["sink"], synchronized=("b",))
    order = msgspec.structs.replace(order, assignments={**order.assignments, "sink": sink})
    pair.net["a"].carry_out(order)
    await until(lambda: arrived(pair.net["a"]))
    component = pair.net["a"].hosting.components["app", "sink"]
    await until(lambda: component.log.end.until == END)
    flushed = asyncio.ensure_future(pair.net["a"].flush("app"))
    await turns(20)
    assert (held.rows, pair.finished, flushed.done()) == (0, [], False), "the backup has not heard of it"
    pair.net["b"].carry_out(order)
    await flushed
    assert held.rows == 500
    await until(lambda: pair.finished)
