"""Peers, scheduler and notebook are killed, also while they restart: another cluster goes on, with each row once."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest

from synergy_nb import Cluster, ClusterError, csv, source
from synergy_nb.assembly import PeerConfig
from synergy_nb.durable.folder import DurableFolder, KeptApplication
from synergy_nb.runtime.process import starting
from tests.durable.killed_programs import append, program, values
from tests.waiting import asked_until

STARTS_WITHIN = 280.0  # seconds within which a cluster with Spark goes on, on a busy machine


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have peers ask one another less often: on a busy machine they would take each other for dead."""
    monkeypatch.setattr(starting, "_pings", lambda peers: 4.0 * PeerConfig().pings)


@pytest.mark.slow(20)
def test_a_union_goes_on_after_the_death_of_everything_also_while_it_restarts(tmp_path: Path) -> None:
    folder, out = tmp_path / "folder", tmp_path / "out.csv"
    inputs = [tmp_path / "even.csv", tmp_path / "odd.csv"]
    for path in inputs:
        path.write_text("time,v\n")
    columns = {"time": "time", "v": "int"}
    streams = [
        source("tail", path=str(path), format="csv", columns=columns, lateness="1 h", id=path.stem) for path in inputs
    ]
    plan = streams[0].union(streams[1], id="all").filter("v >= 0", id="f").sink("out", to=csv(out, every="50 ms"))
    file = tmp_path / "plan.yaml"
    file.write_text(plan.to_yaml())

    def more(begin: int, end: int) -> None:
        append(inputs[0], begin, end)
        append(inputs[1], 10_000 + begin, 10_000 + end)

    more(0, 300)
    with program(folder, 3, file):
        asked_until(lambda: len(values(out)) >= 100)
        more(300, 600)
    more(600, 900)
    (known,) = DurableFolder(folder).applications()
    with program(folder, 1):
        asked_until(lambda: DurableFolder(folder).applications()[0].epoch > known.epoch)  # it is being restarted
    more(900, 1200)
    with Cluster(2, cores=1.0, spark=False, durable=folder) as cluster:
        (application,) = cluster.applications.values()
        assert application.id == known.id
        assert application.plan.name == plan.name
        with pytest.raises(ClusterError, match="another cluster uses it; expected one at a time"):
            Cluster(1, durable=folder)
        asked_until(lambda: len(values(out)) >= 2400)
        assert "restarted from its durable folder; nothing is lost" in str(application.explain())
        application.stop()
        asked_until(lambda: not DurableFolder(folder).applications())
    found = sorted(map(int, values(out)))
    assert found == [*range(1200), *range(10_000, 11_200)]


def counted(path: Path) -> list[tuple[str, str]]:
    """Windows of a CSV file that are complete, each with its count."""
    if not path.exists():
        return []
    rows = [line.split(",") for line in path.read_text("utf-8").split("\n")[1:-1]]
    return [(row[1], row[-1]) for row in rows]


@pytest.mark.slow(40)
def test_windows_on_spark_go_on_from_their_checkpoint_after_the_death_of_everything(tmp_path: Path) -> None:
    inputs, out, folder = tmp_path / "in.csv", tmp_path / "out.csv", tmp_path / "fol der"
    inputs.write_text("time,v\n")
    tail = source("tail", path=str(inputs), format="csv", columns={"time": "time", "v": "int"}, id="in")
    sums = tail.filter("v >= 0", engine="spark").aggregate(window="100 ms", n="sum(v)", engine="spark", id="n")
    file = tmp_path / "plan.yaml"
    file.write_text(sums.sink("out", to=csv(out, every="50 ms"), id="out").to_yaml())

    def checkpoints() -> set[str]:
        return {str(each) for each in folder.glob("*/spark/*/checkpoint/metadata")}

    until = partial(asked_until, seconds=STARTS_WITHIN)
    append(inputs, 0, 1000)
    with program(folder, 2, file, spark=True):
        until(lambda: len(counted(out)) >= 5)
        append(inputs, 1000, 2000)
        until(lambda: len(counted(out)) >= 12)
    before = checkpoints()
    append(inputs, 2000, 3000)
    with Cluster(2, cores=1.0, durable=folder) as cluster:
        (application,) = cluster.applications.values()
        until(lambda: len(counted(out)) >= 28)
        until(lambda: not before & checkpoints())
        application.stop()
        until(lambda: not list(folder.glob("*/")))
    ends = range(100, 100 * (1 + len(counted(out))), 100)
    assert [number for _, number in counted(out)] == [str(sum(range(end - 100, end))) for end in ends]


@pytest.mark.slow(5)
def test_after_the_death_of_one_peer_it_is_composed_anew_and_goes_on_from_the_folder(tmp_path: Path) -> None:
    inputs, out = tmp_path / "in.csv", tmp_path / "out.csv"
    inputs.write_text("time,v\n")
    tail = source("tail", path=str(inputs), format="csv", columns={"time": "time", "v": "int"}, id="in", at="peer-1")
    counts = tail.aggregate(window="100 ms", n="count(*)", id="n")
    with Cluster(3, cores=1.0, spark=False, durable=tmp_path / "folder") as cluster:
        plan = counts.sink("out", to=csv(out, every="50 ms"), id="out", at="peer-1")
        application = cluster.submit(plan, origin="peer-1", spread=True)
        append(inputs, 0, 1000)
        asked_until(lambda: len(counted(out)) >= 5)
        victim = application.graph["n"]
        assert victim != "peer-1"
        cluster.kill(victim)
        append(inputs, 1000, 2000)
        asked_until(lambda: len(counted(out)) >= 18)
        assert application.graph["n"] != victim
        assert "restarted from its durable folder; nothing is lost" in str(application.explain())
        application.stop()
    found = counted(out)
    assert len({window for window, _ in found}) == len(found)
    assert {number for _, number in found} == {"100"}


@pytest.mark.slow(30)
def test_lost_replicas_go_on_from_the_folder_after_the_death_of_all_and_of_one(tmp_path: Path) -> None:
    inputs, out, folder = tmp_path / "in.csv", tmp_path / "out.csv", tmp_path / "folder"
    inputs.write_text("time,v\n")
    columns = {"time": "time", "v": "int"}
    tail = source("tail", path=str(inputs), format="csv", columns=columns, id="in", availability="active 2")
    counts = tail.filter("v >= 0", id="large").aggregate(window="100 ms", n="count(*)", id="n")
    plan = counts.sink("out", to=csv(out, every="50 ms"), id="out", at="peer-1", availability="active 2")
    file = tmp_path / "plan.yaml"
    file.write_text(plan.to_yaml())
    append(inputs, 0, 1000)
    with program(folder, 4, file):
        asked_until(lambda: len(counted(out)) >= 5)
    append(inputs, 1000, 2000)
    with Cluster(4, cores=1.0, spark=False, durable=folder) as cluster:
        (application,) = cluster.applications.values()
        asked_until(lambda: len(counted(out)) >= 18)
        graph = application.graph
        victim = next(peer for name, peer in graph.items() if name.startswith("n") and peer != "peer-1")
        lost = {name for name, peer in graph.items() if peer == victim}
        cluster.kill(victim)
        append(inputs, 2000, 3000)
        asked_until(lambda: len(counted(out)) >= 28)
        asked_until(lambda: all(application.graph.get(name) not in (None, "", victim) for name in lost))
        append(inputs, 3000, 4000)
        asked_until(lambda: len(counted(out)) >= 38)
        assert str(application.explain()).count("restarted from its durable folder") == 1
        application.stop()
    found = counted(out)
    assert len({window for window, _ in found}) == len(found)
    assert {number for _, number in found} == {"100"}


@pytest.mark.slow(20)
def test_another_plan_takes_the_place_of_one_and_goes_on_after_the_end_of_everything(tmp_path: Path) -> None:
    inputs, out, folder = tmp_path / "in.csv", tmp_path / "out.csv", tmp_path / "folder"
    inputs.write_text("time,v\n")
    append(inputs, 0, 1000)
    tail = source("tail", path=str(inputs), format="csv", columns={"time": "time", "v": "int"}, id="in")
    large = tail.filter("v >= 0", id="large")
    old, new = (
        large.aggregate(window=window, n="count(*)", id="n").sink("out", to=csv(out, every="50 ms"), id="out")
        for window in ("100 ms", "200 ms")
    )
    with Cluster(2, cores=1.0, spark=False, durable=folder) as cluster:
        application = cluster.submit(old)
        asked_until(lambda: len(counted(out)) >= 5)
        stopped, written = threading.Event(), [1000]

        def more() -> None:
            while not stopped.wait(0.05):
                append(inputs, written[0], written[0] + 100)
                written[0] += 100

        writing = threading.Thread(target=more)
        writing.start()
        try:
            change = application.replace(new, timeout="4 min")
        finally:
            stopped.set()
            writing.join()
        assert change.kept == {"in": "in", "large": "large"}
        assert list(application.plan.operators) == ["in", "large", "n_2", "out"]
    end = written[0] + 1000
    append(inputs, written[0], end)
    with Cluster(1, cores=1.0, spark=False, durable=folder) as cluster:
        (application,) = cluster.applications.values()
        assert list(application.plan.operators) == ["in", "large", "n_2", "out"]
        asked_until(lambda: bool(ends(out)) and ends(out)[-1] >= (end - 300) / 1000)
        application.stop()
    found = ends(out)
    steps = [round(later - before, 3) for before, later in pairwise([0.0, *found])]
    assert sorted(steps) == steps  # windows of the old plan, then those of the new one, without a gap
    assert set(steps) == {0.1, 0.2}
    assert {number for _, number in counted(out)} <= {"100", "200"}


def ends(path: Path) -> list[float]:
    """Ends of the windows of a CSV file that are complete, seconds."""
    if not path.exists():
        return []
    rows = [line.split(",") for line in path.read_text("utf-8").split("\n")[1:-1]]
    return [datetime.fromisoformat(row[2]).replace(tzinfo=UTC).timestamp() for row in rows]


@pytest.mark.slow(3)
def test_what_is_refused_at_once_is_not_kept(tmp_path: Path) -> None:
    with Cluster(1, cores=1.0, durable=tmp_path) as cluster:
        with pytest.raises(ClusterError, match="this cluster is durable"):
            cluster.submit(source("packets", duration="1 s", speed=0, engine="spark").sink("large"))
        packets = source("packets", rate="10 tuples/s", id="s")
        application = cluster.submit(packets.count(window="1 s").sink("n", id="out"))
        asked_until(lambda: [each.id for each in DurableFolder(tmp_path).applications()] == [application.id])
        application.stop()
        asked_until(lambda: not DurableFolder(tmp_path).applications())


@pytest.mark.slow(3)
def test_what_was_never_accepted_is_forgotten_if_it_is_refused_after_a_restart(tmp_path: Path) -> None:
    folder = DurableFolder(tmp_path)
    folder.prepare()
    elsewhere = source("packets", rate="10 tuples/s", at="peer-9").sink("all")
    for name in ("accepted", "submitted"):
        decided = name == "accepted"
        folder.keep(KeptApplication(name, elsewhere.to_bytes(), "composed", 1.0, decided=decided), {})
    with Cluster(1, durable=tmp_path) as cluster:
        asked_until(lambda: len(cluster.applications) >= 0 and len(folder.applications()) == 1)
        assert [each.id for each in folder.applications()] == ["accepted"]
