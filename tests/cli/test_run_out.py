"""``synergy run --out`` after it was killed, and ``Application.to_parquet``."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from synergy_nb import Cluster, ClusterError, csv, source, start_cluster
from synergy_nb.cli._run_command import execute
from synergy_nb.runtime.client import result_files
from tests.waiting import asked_until, run_loop, until

LARGE = source("packets", seed=1, rate="1000 tuples/s", count=4000, speed=1).filter("bytes > 1000").project(v="bytes")


def committed(positions: Path) -> int:
    return int(json.loads(positions.read_text())["position"]) if positions.exists() else 0


@pytest.mark.slow(20)
def test_a_run_that_was_killed_goes_on_and_doubles_nothing(tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text(LARGE.sink("large").to_yaml())
    line = [sys.executable, "-m", "synergy_nb", "run", "plan.yaml", "--peers", "2", "--out", "rows.csv", "--json"]
    with subprocess.Popen(line, cwd=tmp_path, stdout=subprocess.DEVNULL, start_new_session=True) as first:
        asked_until(lambda: committed(tmp_path / "rows.csv.part.positions"))
        os.kill(first.pid, signal.SIGKILL)
    assert not (tmp_path / "rows.csv").exists()
    had = committed(tmp_path / "rows.csv.part.positions")
    second = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert second.returncode == 0, second.stderr
    assert f"rows.csv goes on after {had} rows of an earlier run, in rows.csv.part" in " ".join(second.stderr.split())
    with Cluster(2, cores=1.0, spark=False) as cluster:
        quick = source("packets", seed=1, rate="1000 tuples/s", count=4000, speed=0)
        application = cluster.submit(quick.filter("bytes > 1000").project(v="bytes").sink())
        assert application.to_parquet(tmp_path / "rows.parquet") == json.loads(second.stdout)["results"]["sink"]["rows"]
        whole = pl.read_parquet(tmp_path / "rows.parquet")["v"].to_list()
        assert pl.read_csv(tmp_path / "rows.csv")["v"].to_list() == whole
        read = cluster.submit(quick.sink())
        with pytest.raises(ClusterError, match=r"cannot be written: .*it is a folder; expected the path of a file"):
            read.to_parquet(tmp_path)
        assert read.to_parquet(tmp_path / "rows.txt") == 4000  # nothing was consumed, and it is Parquet
        assert pl.read_parquet((tmp_path / "rows.txt").read_bytes()).height == 4000
        (tmp_path / "rows.txt").unlink()
        read = cluster.submit(quick.sink())
        assert sum(table.height for table in read) == 4000
        with pytest.raises(
            ClusterError, match=r"cannot be written: .* the first 0 rows of the stream, which retains those"
        ):
            read.to_parquet(tmp_path / "late.parquet")
        with pytest.raises(ClusterError, match=r"its stream is endless"):
            cluster.submit(source("packets", rate=10).sink()).to_parquet(tmp_path / "endless.parquet")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["plan.yaml", "rows.csv", "rows.parquet"]


@pytest.mark.slow
def test_a_run_lasts_until_its_destination_has_all_or_its_time_is_over(tmp_path: Path) -> None:
    class Notes(list[str]):
        note = list.append

        def stage(self, text: str) -> None: ...
        def share(self, done: float) -> None: ...

    path, quick = tmp_path / "rows.csv", source("packets", seed=1, rate=1000, count=1000, speed=0)
    plan = quick.sink(to=csv(path))
    with Cluster(2, cores=1.0, spark=False) as cluster:
        told = Notes()
        with path.open("ab") as other:
            fcntl.flock(other, fcntl.LOCK_EX)
            run = execute(plan, cluster, {}, {}, limit=0, duration=1.0, progress=told)
        assert (run.status, run.reason, run.sinks["sink"].count) == ("stopped", "after 1 s, as asked", 1000)
        assert told[-1].startswith("rows that had arrived are not in its destination: sink at peer-")
        run = execute(plan, cluster, {}, {}, limit=0, duration=None, progress=told)
        assert (run.status, run.sinks["sink"].count) == ("finished", 1000)
    assert pl.read_csv(path).height == 1000


@pytest.mark.slow
def test_a_call_that_was_interrupted_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(result_files, "EVERY_S", 0.01)

    async def scenario() -> None:
        path, plan = tmp_path / "rows.parquet", LARGE.sink()
        async with await start_cluster(2, cores=1.0, spark=False) as cluster:
            application = await cluster.submit(plan)
            assert (await application.head(1)).height == 1
            first = asyncio.create_task(application.to_parquet(path))
            await until(lambda: list(tmp_path.glob("rows.parquet.part/*.parquet")))
            first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first
            assert not path.exists()
            rows = await application.to_parquet(path)
            qos = await application.qos()
            assert pl.read_parquet(path).height == rows == qos["tuples"]

    run_loop(scenario())
    assert [each.name for each in tmp_path.iterdir()] == ["rows.parquet"]
