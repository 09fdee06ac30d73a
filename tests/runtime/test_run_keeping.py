"""A cluster keeps its runs where it is asked to: those that end by themselves, and those that end with it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from synergy_nb import Cluster, ClusterError, runs, source
from synergy_nb.events import ApplicationFinished, ClusterClosed, PeerMeasured, RequestSubmitted, SinkMeasured
from synergy_nb.events.journal import Journal
from synergy_nb.events.peers import ComponentMeasurements
from synergy_nb.runtime.client.run_keeping import RunKeeping
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


class _Followed:
    """A follower of a journal that has been written before."""

    def __init__(self) -> None:
        self.journal, self.names = Journal(100), {"tcp:a": "peer-1"}
        self._listener: Callable[[], None] = lambda: None

    def listen(self, listener: Callable[[], None]) -> Callable[[], None]:
        self._listener = listener
        return lambda: None

    def tell(self) -> None:
        self._listener()


def test_runs_at_once_have_their_own_measurements_and_their_own_end(tmp_path: Path) -> None:
    """A cluster that is closed stops what has finished, too; that is no other end of it."""
    plans = {name: source("packets", seed=1).sink(name) for name in ("one", "two")}
    followed = _Followed()
    parts = [ComponentMeasurements(name, "sink", "sink", 1.0, 1.0, 0.1, 0.0, 0.0, 0, 0, None, 0) for name in plans]
    for name in plans:
        followed.journal.append(RequestSubmitted(1.0, "tcp:a", name, name, ("source", "sink"), {}))
    followed.journal.append(PeerMeasured(2.0, "tcp:a", "", 0.5, 1, 1.0, 0.5, parts))
    for name in plans:
        followed.journal.append(ApplicationFinished(3.0, "tcp:a", name))
    followed.journal.append(ClusterClosed(4.0, "tcp:a", ""))

    async def no_qos(sink: str) -> None: ...

    def held(name: str) -> Any:
        last = SimpleNamespace(status="stopped", reason="", qos={})
        readable = SimpleNamespace(readable=lambda text: text)
        return SimpleNamespace(plan=plans[name], last=last, cluster=readable, graph={}, qos=no_qos)

    async def keep() -> None:
        keeping = RunKeeping(tmp_path, followed, held)  # type: ignore[arg-type]
        followed.tell()
        await keeping.close()

    asyncio.run(keep())
    for run in runs(tmp_path):
        (measured,) = run.events().of(PeerMeasured)
        assert [part.application for part in measured.components] == [run.id]
        assert run.status == "finished"
