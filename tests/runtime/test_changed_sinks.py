"""A plan takes the place of another one at the peer whose sinks write: who writes what, and who goes on."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import msgspec
import polars as pl
import pytest

from synergy_nb import SinkWriter, jsonl, source
from synergy_nb.dataflow.deployments import Deployment
from synergy_nb.dataflow.streams.log.values import Point
from synergy_nb.dataflow.tuples import END, Batch, Punctuation, encode
from synergy_nb.plan import Plan
from synergy_nb.runtime.data import _outside_sinks, host
from synergy_nb.runtime.data.host import Host
from tests.two_hosts import Pair, deployment, play, table
from tests.waiting import turns, until

on_loop = play  # how the tests that are coroutines run
MS = 1000  # microseconds between two rows
INTEGERS = ("source_port", "destination_port", "bytes")
COLUMNS = {name: "int" if name in INTEGERS else "str" for name in table(0, 1).columns if name != "time"}


def every(least: int, path: Path, times: str = "5 ms") -> Plan:
    rows = source("python", name="mine", columns=COLUMNS).filter(f"bytes % {least} = 0")
    return rows.sink(id="out", to=jsonl(path, every=times))


class Changing:
    """One host that executes an old and a new plan over the same rows."""

    def __init__(self, path: Path, *, old: int = 2, new: int = 3) -> None:
        self.path, self.pair = path, Pair()
        self.host: Host = self.pair.net["a"]
        self.least = {"old": old, "new": new}
        self.pushed = 0
        self.deploy("old")
        self.deploy("new", beside="old")

    def deploy(self, name: str, beside: str = "") -> None:
        plan = every(self.least[name], self.path)
        order = deployment(name, plan, dict.fromkeys(plan.operators, "a"))
        self.host.carry_out(msgspec.structs.replace(order, beside=beside))

    def end(self, name: str) -> None:
        self.host.carry_out(Deployment(name, 2))

    def push(self, count: int, *names: str, ends: bool = False) -> None:
        """Give rows to the plans, with the promise of their end."""
        begin, self.pushed = self.pushed, self.pushed + count
        for name in names or ("old", "new"):
            assert self.host.pushed.push(name, "mine", encode(Batch(table(begin, count), begin, 0.0)))
            promise = Punctuation(END if ends else self.pushed * MS, self.pushed, 0.0)
            assert self.host.pushed.push(name, "mine", encode(promise))

    async def promised(self, *names: str) -> None:
        """Wait until the sinks have all that was pushed."""
        logs = [self.host.hosting.components[name, "out"].log for name in names or ("old", "new")]
        await until(lambda: all(log.end.until == self.pushed * MS for log in logs))

    def written(self) -> list[int]:
        return pl.read_ndjson(self.path)["bytes"].to_list() if self.path.exists() and self.path.stat().st_size else []

    def rows(self, name: str, first: int, last: int) -> list[int]:
        """Rows of a plan between two numbers."""
        return [number for number in range(first, last) if number % self.least[name] == 0]


async def test_the_new_plan_writes_what_comes_after_the_last_row_of_the_old_one(tmp_path: Path) -> None:
    it = Changing(tmp_path / "rows")
    it.push(100)
    await it.promised()
    await until(lambda: it.written() == it.rows("old", 0, 100))
    assert it.host.change_sinks("old", "new", 50 * MS) == 98 * MS, "the destination has later rows: nothing is held"
    at = 130
    assert it.host.change_sinks("old", "new", at * MS) <= at * MS
    it.push(100)
    await it.promised()
    it.push(100, "new")
    it.end("old")
    await until(lambda: len(it.written()) > 100)
    it.push(100, "new", ends=True)
    await until(lambda: it.pair.finished)
    assert it.pair.finished == [("new", "out")]
    assert it.written() == it.rows("old", 0, at + 1) + it.rows("new", at + 1, 400)
    assert not it.pair.failed


async def test_rows_that_waited_for_a_commit_when_the_old_plan_ended_are_there_once(tmp_path: Path) -> None:
    it = Changing(tmp_path / "rows")
    assert it.host.change_sinks("old", "new", 60 * MS) < 0
    it.push(100)
    await it.promised()
    it.end("old")
    it.push(1, "new", ends=True)
    await until(lambda: it.pair.finished)
    assert it.written() == it.rows("old", 0, 61) + it.rows("new", 61, 101)


async def test_the_old_plan_goes_on_as_if_nothing_had_happened_when_the_new_one_ends(tmp_path: Path) -> None:
    it = Changing(tmp_path / "rows")
    it.push(50)
    await it.promised()
    assert it.host.change_sinks("old", "new", 60 * MS) <= 60 * MS
    it.push(50)
    await until(lambda: it.written() == it.rows("old", 0, 50))
    await it.promised()
    it.end("new")
    await until(lambda: it.written() == it.rows("old", 0, 100))
    it.deploy("new", beside="old")
    it.push(10, "old", ends=True)
    await until(lambda: it.pair.finished)
    assert it.written() == it.rows("old", 0, 110)
    assert not it.pair.failed


async def test_rows_are_not_withheld_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_outside_sinks, "HELD_S", 0.02)
    it = Changing(tmp_path / "rows")
    it.host.change_sinks("old", "new", 20 * MS)
    it.push(100)
    await until(lambda: it.written() == it.rows("old", 0, 100))
    assert it.host.change_sinks("old", "new", 20 * MS) == 98 * MS
    it.end("old")
    await until(lambda: it.pair.failed)
    ((application, operator, why),) = it.pair.failed
    assert (application, operator) == ("new", "out")
    assert why.endswith(
        "old has ended before this plan could take the place of its own; expected that it runs until then"
    )
    assert it.written() == it.rows("old", 0, 100)


@pytest.mark.parametrize("ends", ["before it was asked", "before its rows have come", "with its stream"])
async def test_a_plan_does_not_take_the_place_of_one_that_has_ended_too_early(tmp_path: Path, ends: str) -> None:
    it = Changing(tmp_path / "rows")
    it.push(50)
    await it.promised()
    if ends != "before it was asked":
        assert it.host.change_sinks("old", "new", 60 * MS) <= 60 * MS
    if ends == "with its stream":
        it.push(10, "old", ends=True)
        await until(lambda: it.pair.finished)
        with pytest.raises(LookupError, match="all results are there; expected a sink that goes on"):
            it.host.change_sinks("old", "new", 60 * MS)
    it.end("old")
    await until(lambda: it.pair.failed)
    assert [each[:2] for each in it.pair.failed] == [("new", "out")]
    await turns()
    assert set(it.written()) <= set(it.rows("old", 0, 60))


async def test_a_plan_beside_none_that_writes_here_fails(tmp_path: Path) -> None:
    it = Changing(tmp_path / "rows")
    with pytest.raises(LookupError, match="'other': no sink with a destination; expected one beside 'old'"):
        it.host.change_sinks("old", "other", 0)
    with pytest.raises(LookupError, match="it is written already; expected a sink that waits for its turn"):
        it.host.change_sinks("new", "old", 0)
    it.least["third"] = 5
    it.deploy("third", beside="gone")
    await until(lambda: it.pair.failed)
    assert it.pair.failed[0][:2] == ("third", "out")


async def test_a_third_plan_takes_the_place_of_the_second_at_once(tmp_path: Path) -> None:
    it = Changing(tmp_path / "rows")
    it.least["third"] = 5
    assert it.host.change_sinks("old", "new", 30 * MS) < 0
    it.push(50)
    await it.promised()
    it.end("old")
    it.deploy("third", beside="new")
    it.push(50, "new")
    it.pushed = 0
    it.push(100, "third")
    assert it.host.change_sinks("new", "third", 70 * MS) <= 70 * MS
    await it.promised("new", "third")
    it.end("new")
    it.push(20, "third", ends=True)
    await until(lambda: it.pair.finished)
    assert it.written() == it.rows("old", 0, 31) + it.rows("new", 31, 71) + it.rows("third", 71, 120)
    assert not it.pair.failed


async def test_what_the_new_plan_has_before_is_not_retained_and_stops_nobody(tmp_path: Path) -> None:
    it = Changing(tmp_path / "rows")
    assert it.host.change_sinks("old", "new", 10**12) < 0
    log = it.host.hosting.components["new", "out"].log
    it.push(100)
    await it.promised()
    assert it.host.change_sinks("old", "new", 10**12) <= 98 * MS
    assert it.host.hosting.components["new", "out"].log is log
    assert log.end.position == 34
    sink = next(each for each in it.host.sinks("new"))
    assert sink.read(0.0, lambda _: False).position == 34
    await asyncio.wait_for(it.host.flush("new"), 1.0)


async def test_a_destination_that_remembers_nothing_has_no_row_twice_if_nothing_is_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    committed, may, begun, loop = list[int](), threading.Event(), asyncio.Event(), asyncio.get_running_loop()

    class Forgetful(SinkWriter):
        remembers = False

        def open(self) -> None:
            self.waiting = list[int]()

        def write(self, batch: Batch) -> None:
            self.waiting += batch.table["bytes"].to_list()

        def commit(self, point: Point) -> None:
            loop.call_soon_threadsafe(begun.set)
            may.wait()
            committed.extend(self.waiting)
            self.waiting = []

    monkeypatch.setattr(host, "writer_of", lambda *_terms, **_named: Forgetful())
    it = Changing(tmp_path / "rows")
    assert it.host.change_sinks("old", "new", 60 * MS) < 0
    it.push(50)
    await begun.wait()
    it.push(50)
    await it.promised()
    it.end("old")
    it.push(1, "new", ends=True)
    await turns(20)
    may.set()
    await until(lambda: it.pair.finished)
    assert committed == it.rows("old", 0, 61) + it.rows("new", 61, 101)
