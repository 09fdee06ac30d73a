"""Sources with positions on real peers: the one that reads is killed, or the source moves, and each row comes once."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import polars as pl
import pytest

from synergy_nb import Application, Cluster, source
from synergy_nb.assembly import PeerConfig
from synergy_nb.events import SourceBroken, SourceMended, SourceRemarked
from synergy_nb.runtime.process import starting
from tests.waiting import asked_until

COLUMNS = {"time": "time", "n": "int"}


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have peers ask one another less often: on a busy machine they would take each other for dead."""
    monkeypatch.setattr(starting, "_pings", lambda peers: 4.0 * PeerConfig().pings)


def kill(cluster: Cluster, peer: str) -> None:
    state = cluster.states()[peer]
    assert state is not None
    os.kill(state.pid, signal.SIGKILL)


def write(path: Path, start: int, stop: int) -> None:
    """Append rows to a file of lines."""
    with path.open("a", encoding="utf-8") as file:
        file.write("".join(f"{n / 1000},{n}\n" for n in range(start, stop)))


def has(application: Application, rows: int) -> None:
    """Assert that these are the first rows of an application's result, once each and in order."""
    assert application.head(rows)["n"].to_list() == list(range(rows))


@pytest.mark.slow(20)
def test_a_tail_goes_on_at_its_byte_where_its_peer_is_killed_and_where_it_moves(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    rows = source("tail", path=path, format="csv", columns=COLUMNS, id="rows", availability="degree 2")
    plan = rows.filter("n >= 0", id="kept").sink("out", availability="active 2")
    with Cluster(4, cores=1.0, spark=False) as cluster:
        application = cluster.submit(plan, origin="peer-1")
        asked_until(lambda: application.events().of(SourceBroken))
        path.write_text("time,n\n", encoding="utf-8")
        write(path, 0, 500)
        has(application, 500)
        assert application.events().of(SourceMended)
        first, (backup,) = application.graph["rows"], application.backups["rows"]
        cluster.cut(first, backup)
        write(path, 500, 1000)
        has(application, 1000)
        with path.open("r+b") as file:  # whoever reads from the beginning would see it
            file.write(b"x" * 1000)
        kill(cluster, first)
        write(path, 1000, 1500)
        has(application, 1500)
        second = application.graph["rows"]
        assert second != first
        path.rename(tmp_path / "rows.csv.1")
        path.write_text("n,time\n", encoding="utf-8")
        third = next(each for each in cluster.peers if each not in {second, "peer-1"})
        with path.open("a", encoding="utf-8") as file:
            file.write("".join(f"{n},{n / 1000}\n" for n in range(1500, 2000)))
        cluster.move(application, "rows", third)
        with path.open("a", encoding="utf-8") as file:
            file.write("".join(f"{n},{n / 1000}\n" for n in range(2000, 2500)))
        has(application, 2500)
        assert application.graph["rows"] == third
        assert not application.events().of(SourceRemarked)
        application.stop()


@pytest.mark.slow
def test_the_files_of_a_folder_come_once_each_though_the_peer_that_reads_them_is_killed(tmp_path: Path) -> None:
    def put(name: str, start: int, stop: int) -> None:
        table = pl.DataFrame({"n": range(start, stop)}).with_columns(time=pl.col("n") / 1000)
        table.write_parquet(tmp_path / f".{name}")
        (tmp_path / f".{name}").rename(tmp_path / f"{name}.parquet")

    files = tmp_path / "*.parquet"
    rows = source("directory", path=files, format="parquet", columns=COLUMNS, id="rows", availability="degree 2")
    plan = rows.filter("n >= 0", id="kept").sink("out", availability="active 2")
    put("a", 0, 500)
    with Cluster(4, cores=1.0, spark=False) as cluster:
        application = cluster.submit(plan, origin="peer-1")
        has(application, 500)
        put("b", 500, 1000)
        has(application, 1000)
        first = application.graph["rows"]
        kill(cluster, first)
        put("c", 1000, 1500)
        has(application, 1500)
        assert application.graph["rows"] != first
        application.stop()


@pytest.mark.slow
def test_a_folder_without_a_file_of_the_declared_columns_fails_by_name(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("time,m\n0,1\n", encoding="utf-8")
    rows = source("directory", path=tmp_path / "*.csv", format="csv", columns=COLUMNS, id="rows")
    with Cluster(1, cores=1.0, spark=False) as cluster:
        application = cluster.submit(rows.sink("out"))
        with pytest.raises(Exception, match="column 'n' is not there; expected one of time, m"):
            application.results()
        assert application.status == "failed"
