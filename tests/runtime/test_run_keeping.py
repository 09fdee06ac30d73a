"""A cluster keeps its runs where it is asked to: those that end by themselves, and those that end with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from synergy_nb import Cluster, ClusterError, runs, source
from synergy_nb.events import ApplicationFinished, PeerMeasured, SinkMeasured
from tests.waiting import asked_until


@pytest.mark.slow
def test_runs_are_kept_as_they_end(tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    with Cluster(2, cores=1, spark=False, runs=folder) as cluster:
        packets = source("packets", seed=1, rate="500 tuples/s", count=500, id="packets")
        finished = cluster.submit(packets.filter("bytes > 100", id="large").sink("finished", id="out", delay="10 s"))
        rows = finished.results().height
        asked_until(lambda: len(runs(folder)) == 1)
        cluster.check(packets.sink("trial"))
        endless = source("packets", seed=1, rate="200 tuples/s", id="packets")
        application = cluster.submit(endless.sink("endless", id="out"))
        application.head(1)
        application.replace(endless.filter("bytes > 100", id="large").sink("replaced", id="out"))
        graph = finished.graph
    found = runs(folder)
    kept_as = [("finished", "finished"), ("endless", "stopped"), ("replaced", "stopped")]
    assert [(each.plan.name, each.status) for each in found] == kept_as
    assert [set(each.graph) for each in found][1:] == [{"packets", "out"}, {"packets", "large", "out"}]
    kept = found["finished"]
    assert kept.qos()["tuples"] == rows
    assert kept.graph == graph
    events = kept.events()
    assert events.of(ApplicationFinished)
    assert events.of(SinkMeasured)
    assert {part.application for each in events.of(PeerMeasured) for part in each.components} <= {kept.id}
    assert kept.watch().to_text().startswith("finished: finished\nEvery stream has ended after")
    assert found["endless"].took_s is not None


@pytest.mark.slow
def test_a_folder_that_is_a_file_is_refused_and_none_is_written_without(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises((ValueError, ClusterError), match="runs: "):
        Cluster(1, spark=False, runs=file)


@pytest.mark.slow
def test_a_folder_that_is_gone_is_told_once_and_the_application_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "runs"
    with Cluster(1, cores=1, spark=False, runs=folder) as cluster:
        folder.rmdir()
        folder.touch()
        packets = source("packets", seed=1, rate="500 tuples/s", count=100, id="packets")
        assert [cluster.submit(packets.sink(name, id="out")).results().height for name in ("one", "two")] == [100, 100]
    told = [record.getMessage() for record in caplog.records if "nothing more is kept" in record.getMessage()]
    assert len(told) == 1
    assert told[0].startswith(f"runs: {folder}: ")
