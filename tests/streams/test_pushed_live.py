"""Rows that a program pushes on real peers, of which the one with the source is killed: each row comes once."""

from __future__ import annotations

from itertools import count, islice
from queue import SimpleQueue

import polars as pl
import pytest

from synergy_nb import Application, Cluster, Feed, source
from synergy_nb.assembly import PeerConfig
from synergy_nb.events import BackupRestored
from synergy_nb.runtime.process import starting
from tests.waiting import DEADLINE, asked_until


def restored(application: Application) -> int:
    """How often a lost backup was set up again."""
    return len(application.events().of(BackupRestored))


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have peers ask one another less often: on a busy machine they would take each other for dead."""
    monkeypatch.setattr(starting, "_pings", lambda peers: 4.0 * PeerConfig().pings)


@pytest.mark.slow
def test_rows_that_are_pushed_while_the_peer_of_their_source_is_killed_come_once_each() -> None:
    feed = Feed({"v": "int"})
    readings = source(feed, id="readings", availability="degree 2")
    plan = readings.filter("v >= 0", id="kept").sink("out", availability="active 2")
    pushed = 0

    def push(count: int) -> None:
        nonlocal pushed
        for number in range(pushed, pushed + count):
            feed.push({"time": number / 1000, "v": number})
        pushed += count

    with Cluster(4, cores=1.0, spark=False) as cluster:
        application = cluster.submit(plan, origin="peer-1")
        assert application.notices == [
            "Replicas cover readings, kept. The application ends when peer-1 (sink, its results) dies."
        ]
        push(500)
        first, (backup,) = application.graph["readings"], application.backups["readings"]
        assert application.head(500).height == 500
        cluster.cut(first, backup)
        push(500)
        assert application.head(1000).height == 1000, "readers have what the backup has not"
        cluster.kill(first)
        while application.status == "running" and application.graph["readings"] == first:
            push(20)
        assert application.status == "running", application.reason
        asked_until(lambda: restored(application))
        push(500)
        second = application.graph["readings"]
        cluster.kill(second)
        while application.status == "running" and application.graph["readings"] == second:
            push(20)
        push(500)
        feed.close()
        assert application.results()["v"].to_list() == list(range(pushed))
        assert application.wait(DEADLINE) == "finished"
        assert f"its backup took over from {second}" in str(application.explain())


@pytest.mark.slow
def test_rows_of_generators_and_tables_come_once_each_though_the_peer_of_their_source_is_killed() -> None:
    given: SimpleQueue[dict[str, float] | None] = SimpleQueue()
    numbers = count()

    def give(rows: int) -> None:
        for number in islice(numbers, rows):
            given.put({"time": number / 1000, "v": number})

    table = pl.DataFrame({"time": [number / 1000 for number in range(3000)], "v": [-1 - n for n in range(3000)]})
    rows = iter(given.get, None)
    made = source(rows, columns={"v": "int"}, id="made", at="peer-2", availability="degree 2")
    known = source(table, id="known", at="peer-2", availability="degree 2")
    plan = made.union(known, id="all").sink("out", availability="active 2")
    with Cluster(4, cores=1.0, spark=False) as cluster:
        application = cluster.submit(plan, origin="peer-1")
        assert application.graph["made"] == application.graph["known"] == "peer-2"
        give(500)
        assert application.head(100).height == 100
        cluster.kill("peer-2")
        while application.status == "running" and "peer-2" in application.graph.values():
            give(20)
        give(500)
        given.put(None)
        found = application.results()["v"].to_list()
        assert [v for v in found if v >= 0] == list(range(next(numbers)))
        assert [v for v in found if v < 0] == table["v"].to_list()
        assert application.wait(DEADLINE) == "finished"
