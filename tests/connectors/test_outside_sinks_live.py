"""Results of real peers on disk: each row once, whoever is killed."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from synergy_nb import Application, Cluster, Feed, parquet, source
from synergy_nb.assembly import PeerConfig
from synergy_nb.events import DestinationOpened
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
        other = cluster.submit(large.sink(to=parquet(folder)))
        assert other.wait(60.0) == "failed"
        assert "it has rows of project" in other.reason
        assert "expected rows of project" in other.reason
        again = tmp_path / "again"
        for run in range(2):
            application = cluster.submit(large.sink(to=parquet(again, every="10 ms")))
            assert application.wait(60.0) == "finished"
            assert rows(again) == whole
            assert opened(application) == [(run * len(whole), run * len(whole))]
