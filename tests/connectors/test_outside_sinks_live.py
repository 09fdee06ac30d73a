"""Results of real peers on disk: each row once, whoever is killed."""

from __future__ import annotations

import sqlite3
from bisect import bisect_right
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import datetime, timedelta
from io import StringIO
from itertools import takewhile
from operator import eq, itemgetter
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from synergy_nb import Application, Cluster, ClusterError, Feed, NotAdmitted, csv, parquet, plan, source, sqlite, traces
from synergy_nb.assembly import PeerConfig
from synergy_nb.events import DestinationOpened
from synergy_nb.plan import Plan
from synergy_nb.runtime.process import starting
from tests.waiting import asked_until


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have peers ask one another less often: on a busy machine they would take each other for dead."""
    monkeypatch.setattr(starting, "_pings", lambda peers: 4.0 * PeerConfig().pings)


def rows(folder: Path) -> list[int]:
    """Values of a folder of Parquet files, in the order of their positions."""
    files = sorted(folder.glob("*.parquet"))
    return [value for file in files for value in pl.read_parquet(file)["v"].to_list()]


def opened(application: Application) -> list[tuple[int, int]]:
    return [(event.rows, event.repeated) for event in application.events().of(DestinationOpened)]


@pytest.mark.slow
def test_the_backup_of_a_sink_goes_on_in_its_folder_though_its_peer_is_killed_with_the_union_before_it(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "rows"
    one, other = Feed({"v": "int"}), Feed({"v": "int"})
    streams = [source(feed, id=name, at=at) for feed, name, at in ((one, "a", "peer-3"), (other, "b", "peer-4"))]
    plan = streams[0].union(streams[1], id="all").sink(
        "out", to=parquet(folder, every="20 ms"), availability="degree 2", at="peer-2"
    )  # fmt: skip
    pushed = 0

    def push(count: int) -> None:
        nonlocal pushed
        for number in range(pushed, pushed + count):
            one.push({"time": number / 1000, "v": 2 * number})
            other.push({"time": number / 1000, "v": 2 * number + 1})
        pushed += count

    with Cluster(4, cores=1.0, spark=False) as cluster:
        application = cluster.submit(plan, origin="peer-1")
        assert application.graph["sink"] == "peer-2"
        assert set(application.backups) == {"all", "sink"}
        assert application.notices == [
            "Replicas cover all, sink. The application ends when peer-3 (a) or peer-4 (b) dies."
        ]
        push(500)
        asked_until(lambda: rows(folder))
        cluster.kill("peer-2")
        while application.status == "running" and application.graph["sink"] == "peer-2":
            push(20)
        assert application.status == "running", application.reason
        push(500)
        one.close()
        other.close()
        assert application.wait(60.0) == "finished"
        assert sorted(rows(folder)) == list(range(2 * pushed))
        (has, repeated) = opened(application)[-1]
        assert 0 < has <= 2 * pushed
        assert repeated <= has


def why_not(cluster: Cluster, plan: Plan) -> str:
    """Why a plan does not run: a peer that opens its destination soon says so while the others are set up."""
    try:
        application = cluster.submit(plan)
    except NotAdmitted as error:
        return str(error)
    assert application.wait(60.0) == "failed"
    return application.reason


@pytest.mark.slow
def test_a_plan_goes_on_in_its_folder_when_it_runs_again_and_another_one_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "rows"
    packets = source("packets", seed=1, rate="1000 tuples/s", speed=0, count=3000)
    large = packets.filter("bytes > 1000").project(v="bytes")
    with Cluster(2, cores=1.0, spark=False) as cluster:
        whole = cluster.submit(large.sink("whole")).results()["v"].to_list()
        endless = source("packets", seed=1, rate="1000 tuples/s").filter("bytes > 1000").project(v="bytes")
        stopped = cluster.submit(endless.sink(to=parquet(folder, every="10 ms")))
        asked_until(lambda: rows(folder))
        stopped.stop()
        assert rows(folder) == stopped.results()["v"].to_list()
        reason = why_not(cluster, large.sink(to=parquet(folder)))
        assert "it has rows of project" in reason
        assert "expected rows of project" in reason
        again = tmp_path / "again"
        for run in range(2):
            application = cluster.submit(large.sink(to=parquet(again, every="10 ms")))
            assert application.wait(60.0) == "finished"
            assert rows(again) == whole
            assert opened(application) == [(run * len(whole), run * len(whole))]


def of_two_files(least: int, folder: Path, at: str = "peer-2", window: str = "1 s", **stated: Any) -> Plan:
    packets = source("packets", seed=3, rate="500 tuples/s", id="packets", at="peer-1", **stated)
    large = packets.filter(f"bytes > {least}", id="large", at=at).project("link", "bytes", id="p")
    counts = large.aggregate(by="link", window=window, n="count(*)", id="n")
    return plan(
        large.sink("rows", id="rows", to=csv(folder / "rows.csv", every="50 ms")),
        counts.sink("counts", id="counts", to=sqlite(folder / "counts.sqlite", "counts", every="50 ms")),
        name="both",
    )


def in_files(folder: Path) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    """Rows of the two files as text, by their time."""
    if not (folder / "counts.sqlite").exists():
        return [], []
    with closing(sqlite3.connect(folder / "counts.sqlite")) as database:
        made = database.execute("SELECT count(*) FROM sqlite_master WHERE name = 'counts'").fetchone()[0]
        counts = database.execute("SELECT * FROM counts").fetchall() if made else []
    text = (folder / "rows.csv").read_text() if (folder / "rows.csv").exists() else ""
    rows = pl.read_csv(StringIO(text), infer_schema=False).rows() if text else []
    return sorted(rows), sorted(tuple(map(str, row)) for row in counts)


def counted(folder: Path) -> int:
    """Number of rows of the counts: what is asked again and again need not read all rows."""
    if not (folder / "counts.sqlite").exists():
        return 0
    with closing(sqlite3.connect(folder / "counts.sqlite")) as database:
        made = database.execute("SELECT count(*) FROM sqlite_master WHERE name = 'counts'").fetchone()[0]
        return int(database.execute("SELECT count(*) FROM counts").fetchone()[0]) if made else 0


def changes(found: list[tuple[str, ...]], old: list[tuple[str, ...]], new: list[tuple[str, ...]]) -> set[str]:
    """Times up to which rows are those of the old plan, and after which those of the new one, but for the last time."""
    *times, last = sorted({row[0] for row in found})
    rows, new = ([row for row in each if row[0] < last] for each in (found, new))
    begin = sum(1 for _ in takewhile(bool, map(eq, rows, old)))  # as many are those of the old plan
    end = sum(1 for _ in takewhile(bool, map(eq, reversed(rows), reversed(new))))
    fitting = set()
    for at in times:
        until, of_old, of_new = (bisect_right(each, at, key=itemgetter(0)) for each in (rows, old, new))
        if until == of_old <= begin and len(rows) - until == len(new) - of_new <= end:
            fitting.add(at)
    return fitting


@pytest.mark.slow
def test_another_plan_goes_on_in_the_files_of_the_one_before_and_a_peer_may_die_meanwhile(tmp_path: Path) -> None:
    folder, one, other = (tmp_path / each for each in ("changed", "100", "900"))
    with Cluster(3, cores=1.0, spark=False) as cluster:
        application = cluster.submit(of_two_files(100, folder), origin="peer-1")
        former = application.id

        def grown(by: int) -> None:
            before = counted(folder)
            asked_until(lambda: counted(folder) > before + by)

        grown(5)
        with ThreadPoolExecutor(1) as threads:
            given_up = threads.submit(application.replace, of_two_files(500, folder, "peer-3", "1 h"))
            asked_until(lambda: any("peer-3" in each.graph.values() for each in cluster.applications.values()))
            cluster.kill("peer-3")
            with pytest.raises(ClusterError, match=r"is not replaced: the new plan has failed|goes on as before"):
                given_up.result(60.0)
        assert (application.id, application.status) == (former, "running")
        grown(5)
        application.replace(of_two_files(900, folder))
        grown(20)
        application.stop()
        last = max(datetime.fromisoformat(each[-1][0]) for each in in_files(folder))
        times = traces.table({"connector": "packets", "seed": 3, "rate": 500.0, "count": 150_000, "speed": 0.0})["time"]
        count = int((times < last + timedelta(seconds=5)).sum())  # of packets, more than the files have
        assert count < len(times), "as far as these packets go, the files can be judged"
        for least, alone in ((100, one), (900, other)):
            assert cluster.submit(of_two_files(least, alone, speed=0, count=count)).wait(120.0) == "finished"
        for least in (100, 900):
            assert "it has rows of" in why_not(cluster, of_two_files(least, folder))
    both = [changes(*each) for each in zip(in_files(folder), in_files(one), in_files(other), strict=True)]
    assert all(both)
