"""Functions of users' own on live peers and in simulations: the same rows, also after deaths and moves."""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import select
import threading
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import polars as pl
import psutil
import pytest
from distributed import LocalCluster

from synergy_nb import (
    Cluster,
    ClusterError,
    PlanError,
    Simulation,
    Wake,
    aggregate,
    connect_cluster,
    function,
    keyed,
    source,
)
from synergy_nb.lifecycle.requests.decider import needed_contents
from synergy_nb.overlay.held_contents import HeldContents
from synergy_nb.plan import Plan, Stream
from synergy_nb.plan.functions.declaring import OwnFunction
from synergy_nb.runtime.data.function_processes import FunctionProcesses
from synergy_nb.runtime.process._plugin import runtime_of
from synergy_nb.runtime.process._service import Service
from tests.peer_states import state_of
from tests.waiting import DEADLINE, run_loop, until

PEERS = 4
PACKETS = source("packets", seed=1, rate="500 tuples/s", count=1000, id="packets")
# The same rows, for longer than any machine needs, until they are told to hurry.
SLOW_PACKETS = source("packets", seed=1, rate="500 tuples/s", count=1000, speed=0.01, id="packets")


@function(columns={"kB": "float"}, deterministic=True)
def kilobytes(batch: pl.DataFrame) -> pl.DataFrame:
    """The size of each packet, in kilobytes."""
    return batch.select(kB=pl.col("bytes") * 0.001)


@aggregate(columns={"spread": "int"})
def spread(rows: pl.DataFrame) -> dict[str, Any]:
    """Difference of the largest and the least packet."""
    return {"spread": rows["bytes"].max() - rows["bytes"].min()}  # type: ignore[operator]


@keyed(columns={"total": "int"}, deterministic=True)
class Totals:
    """Bytes of a key up to a row."""

    def __init__(self) -> None:
        self.total = 0

    def on_rows(self, _key: Any, rows: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """The sum at each row."""
        for row in rows:
            self.total += row["bytes"]
            yield {"total": self.total}


@keyed(columns={"packets": "int"}, deterministic=True)
class Bursts:
    """Number of packets of a key without a pause of 20 ms."""

    def __init__(self) -> None:
        self.packets = 0
        self.due: dt.datetime | None = None

    def on_rows(self, _key: Any, rows: Iterator[dict[str, Any]]) -> Iterator[Wake]:
        """Wait for 20 ms after each row."""
        for row in rows:
            self.packets += 1
            self.due = row["time"] + dt.timedelta(milliseconds=20)
            yield Wake(self.due)

    def on_time(self, _key: Any, time: dt.datetime) -> Iterator[dict[str, Any]]:
        """The number of packets, if there were no more."""
        if time == self.due:
            yield {"packets": self.packets}
            self.packets = 0


STREAMS: dict[str, Callable[[Stream], Stream]] = {
    "batches": lambda packets: packets.apply(kilobytes, keep=True, id="own"),
    "windows": lambda packets: packets.apply_windows(spread, window="100 ms", by="link", id="own"),
    "keys": lambda packets: packets.apply_keyed(Totals, key="source", id="own"),
    "timers": lambda packets: packets.apply_keyed(Bursts, key="source", id="own"),
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(peers=PEERS, cores=1, spark=False) as started:
        yield started


@pytest.fixture(scope="module")
def wanted() -> dict[str, pl.DataFrame]:
    """The rows of all streams, undisturbed, by one peer in virtual time."""
    alone = Simulation(peers=1, cores=1, seed=2)
    return {name: alone.submit(make(PACKETS).sink(name)).results() for name, make in STREAMS.items()}


#: Drivers and streams: live peers take seconds for each.
CASES = [
    *(
        pytest.param(driver, name, marks=pytest.mark.slow)
        for driver, name in (("cluster", "keys"), ("cluster", "timers"))
    ),
    *(("simulation", name) for name in STREAMS),
]


@pytest.mark.parametrize(("driver", "name"), CASES)
def test_a_function_goes_on_exactly_where_its_peer_has_died(
    driver: str, name: str, wanted: dict[str, pl.DataFrame]
) -> None:
    live = driver == "cluster"
    made: Any = Cluster(peers=PEERS, cores=1, spark=False) if live else Simulation(peers=PEERS, seed=1)
    with made as peers:
        packets = SLOW_PACKETS if live else PACKETS
        application = peers.submit(
            STREAMS[name](packets).sink(name, id="out", availability="degree 2"), origin="peer-1"
        )
        first = list(islice(application, 1)) if name == "keys" else []
        if application.graph["own"] in (application.origin, application.graph["packets"]):
            peers.move(application.id, "own", application.backups["own"][0])
        at = application.graph["own"]
        peers.kill(at)
        if live:
            peers.pace(application, "packets", 10_000)
        rest = application.results()
        assert application.graph["own"] != at
        assert pl.concat([*first, rest]).equals(wanted[name])


@pytest.mark.parametrize(("driver", "name"), CASES)
def test_a_function_moves_with_its_state(
    driver: str, name: str, wanted: dict[str, pl.DataFrame], request: pytest.FixtureRequest
) -> None:
    peers = request.getfixturevalue(driver)
    application = peers.submit(STREAMS[name](source("packets", seed=1, rate="500 tuples/s")).sink(name, id="out"))
    tables = iter(application)
    got = [next(tables)]
    at = application.graph["own"]
    peers.move(application, "own", next(each for each in peers.peers if each != at))
    assert application.graph["own"] != at
    got += islice(tables, 5)
    application.stop()
    rows = pl.concat([*got, *tables])
    # where the short stream ends, its windows and bursts end too early: they go on in this one
    ended = wanted[name]["time"].max() - dt.timedelta(milliseconds=200)  # type: ignore[operator]
    settled = wanted[name].filter(pl.col("time") < ended)
    assert rows.height > 0 < settled.height
    assert rows.head(settled.height).equals(settled.head(rows.height))


@pytest.mark.parametrize("name", ["batches", "timers"])
def test_active_replicas_of_a_deterministic_function_agree(
    either: Any, wanted: dict[str, pl.DataFrame], name: str
) -> None:
    application = either.submit(STREAMS[name](PACKETS).sink(name, id="out", availability="active 2"))
    assert application.results().sort(pl.all()).equals(wanted[name].sort(pl.all()))


def test_replicas_that_execute_need_a_deterministic_function() -> None:
    @function(columns={"x": "int"})
    def some(batch: pl.DataFrame) -> pl.DataFrame:
        return batch.select(x="bytes")

    for asked in ("active 2", "ordered 2"):
        with pytest.raises(PlanError, match="operator 'apply', deterministic: False; expected true beside replicas"):
            PACKETS.apply(some).sink(availability=asked)


def test_two_versions_of_one_name_live_side_by_side(either: Any) -> None:
    def version(by: int) -> OwnFunction:
        @function(columns={"x": "int"})
        def scaled(batch: pl.DataFrame) -> pl.DataFrame:
            return batch.select(x=pl.col("bytes") * by)

        return scaled

    one, two = version(1), version(2)
    assert (one.name, one.reference == two.reference, version(1).reference) == (two.name, False, one.reference)
    results = [either.submit(PACKETS.apply(each).sink("scaled")).results()["x"].sum() for each in (one, two)]
    assert results[1] == 2 * results[0]


@function(columns={"x": "int"}, form="row")
def _raises(row: dict[str, Any]) -> dict[str, Any]:
    if row["bytes"] > 1000:
        raise ValueError("too large")
    return {"x": row["bytes"]}


@function(columns={"x": "int"})
def _returns_text(batch: pl.DataFrame) -> pl.DataFrame:
    return batch.select(x=pl.col("source"))


def test_a_function_that_fails_ends_its_own_application_with_row_and_line(either: Any) -> None:
    other = either.submit(PACKETS.apply(kilobytes).sink("other"))
    failing = either.submit(PACKETS.apply(_raises, id="own").sink("failing"))
    with pytest.raises(
        ClusterError, match=r"function '_raises': row time=.*bytes=1500: ValueError: too large \(line 4"
    ):
        failing.results()
    wrong = either.submit(PACKETS.apply(_returns_text, id="own").sink("wrong"))
    with pytest.raises(
        ClusterError, match=r"function '_returns_text': column 'x': 'h\d+' of type String in row 0; expected int"
    ):
        wrong.results()
    kept = either.submit(PACKETS.apply(_raises, errors="keep").sink("kept")).results()
    assert kept.height == other.results().height == 1000
    assert kept.filter(pl.col("x").is_null()).height == kept["error"].is_not_null().sum() > 0


@pytest.mark.slow
def test_models_of_scikit_learn_and_onnx_are_loaded_at_a_peer(cluster: Cluster, tmp_path: Path) -> None:
    import joblib
    import numpy as np
    import onnxruntime
    from skl2onnx import to_onnx
    from sklearn.tree import DecisionTreeRegressor

    sizes = np.arange(40.0, 1600.0, 20.0).reshape(-1, 1)
    model = DecisionTreeRegressor(max_leaf_nodes=8).fit(sizes, np.sqrt(sizes[:, 0]))
    joblib.dump(model, tmp_path / "model.joblib")
    (tmp_path / "model.onnx").write_bytes(to_onnx(model, sizes[:1].astype("float32")).SerializeToString())

    @function(columns={"score": "float"}, needs=["bytes"], load=joblib.load, file=tmp_path / "model.joblib")
    def scored(batch: pl.DataFrame, model: Any) -> pl.DataFrame:
        return pl.DataFrame({"score": model.predict(batch.select("bytes").to_numpy())})

    @function(
        columns={"onnx": "float"}, needs=["bytes"], load=onnxruntime.InferenceSession, file=tmp_path / "model.onnx"
    )
    def scored_by_onnx(batch: pl.DataFrame, session: Any) -> pl.DataFrame:
        found = session.run(None, {"X": batch.select(pl.col("bytes").cast(pl.Float32)).to_numpy()})[0]
        return pl.DataFrame({"onnx": found[:, 0]})

    plan = PACKETS.apply(scored, keep=True).apply(scored_by_onnx, keep=True, id="onnx").sink("scores")
    found = cluster.submit(plan).results()
    assert found.height == 1000
    assert found["score"].to_list() == model.predict(found.select("bytes").to_numpy()).tolist()
    assert found["onnx"].to_list() == pytest.approx(found["score"].to_list(), rel=1e-6)


@pytest.mark.slow
def test_a_peer_without_the_file_of_a_model_does_not_offer_its_function(cluster: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "model"
    file.write_text("5", encoding="utf-8")

    @function(columns={"x": "int"}, load=lambda path: int(Path(path).read_text(encoding="utf-8")), file=file)
    def added(batch: pl.DataFrame, model: int) -> pl.DataFrame:
        return batch.select(x=pl.col("bytes") + model)

    plan = PACKETS.apply(added, keep=True, id="own").sink("added")
    file.unlink()
    expected = (
        r"operator 'own': function: 'added@\w+': no peer accepts it: file: .*model' cannot be read.*peer-1, peer-2"
    )
    for _ in range(2):
        with pytest.raises(ClusterError, match=expected):
            cluster.submit(plan)
    file.write_text("5", encoding="utf-8")
    found = cluster.submit(plan).results()
    assert (found["x"] - found["bytes"]).unique().to_list() == [5]


def test_a_file_that_a_peer_had_not_is_looked_for_again(tmp_path: Path) -> None:
    file = tmp_path / "model"
    file.write_text("5", encoding="utf-8")
    made = function(columns={"x": "int"}, load=len, file=file)(_raises.content.call)
    file.write_text("6", encoding="utf-8")
    peer = FunctionProcesses()
    with pytest.raises(ValueError, match=r"file: .*; expected the file that was declared"):
        peer.accept(made.reference, made.payload)
    assert "expected the file that was declared" in peer.refusal(made.reference)
    file.write_text("5", encoding="utf-8")
    assert peer.refusal(made.reference) == ""
    peer.accept(made.reference, made.payload)
    assert peer.has(made.reference)


def test_the_file_of_a_model_of_somebody_else_is_in_a_named_folder(tmp_path: Path) -> None:
    file = tmp_path / "model"
    file.write_text("5", encoding="utf-8")
    made = function(columns={"x": "int"}, load=len, file=file)(_raises.content.call)
    file.write_text("6", encoding="utf-8")
    peer = FunctionProcesses()
    with pytest.raises(ValueError, match="lets the plans of others read none"):  # and says nothing of the content
        peer.accept(made.reference, made.payload, folders=[])
    with pytest.raises(ValueError, match=r"expected the file that was declared"):
        peer.accept(made.reference, made.payload, folders=[str(tmp_path)])


def _plan_of(made: OwnFunction, **options: Any) -> Plan:
    return PACKETS.apply(made, id="own", **options).sink(made.name)


@function(columns={"x": "int"}, form="row")
def _ends(row: dict[str, Any]) -> dict[str, Any]:
    os._exit(3)


@function(columns={"x": "int"}, form="row")
def _forks(row: dict[str, Any]) -> dict[str, Any]:
    if os.fork() == 0:
        threading.Event().wait()
    raise ValueError(f"its child lives: {os.getpid()}")


@function(columns={"x": "int"}, form="row")
def _blocks(row: dict[str, Any]) -> dict[str, Any]:
    threading.Event().wait()
    return {"x": 0}


@function(columns={"x": "int"}, form="row")
def _leaks(row: dict[str, Any]) -> dict[str, Any]:
    kept = [bytearray(10_000_000) for _ in range(400)]
    return {"x": len(kept)}


@function(columns={"x": "int"}, load=lambda: bytes(range(256)) * 400_000)
def _holds(batch: pl.DataFrame, held: bytes) -> pl.DataFrame:
    return batch.select(x=pl.lit(len(held)) + 0 * pl.col("bytes"))


@pytest.mark.slow(12)
def test_a_function_that_harms_its_process_harms_no_other_application(cluster: Cluster) -> None:
    slow = source("packets", seed=1, rate="1000 tuples/s", id="packets")
    other = cluster.submit(slow.apply(kilobytes).sink("endless"))
    for made, options, reason in (
        (_ends, {}, "its process has ended with exit status 3"),
        (_blocks, {"timeout": "100 ms"}, "no answer within 100 ms"),
        (_leaks, {"memory": "300 MB"}, "its process needs more than 300 MB"),
    ):
        with pytest.raises(ClusterError, match=f"function '{made.name}': {reason}"):
            cluster.submit(_plan_of(made, **options)).results()
    with pytest.raises(ClusterError, match="its child lives") as told:
        cluster.submit(_plan_of(_forks)).results()
    group = int(str(told.value).partition("its child lives: ")[2].split()[0])
    for process in [each.pid for each in psutil.process_iter() if _group_of(each) == group]:
        with contextlib.suppress(ProcessLookupError):
            select.select([os.pidfd_open(process)], [], [], DEADLINE)  # readable when it has ended
    assert not [each for each in psutil.process_iter() if _group_of(each) == group]
    assert other.status == "running"
    tables = iter(other)
    assert next(tables).height > 0
    other.stop()


@pytest.mark.slow
def test_what_a_function_uses_is_memory_of_its_operator(cluster: Cluster) -> None:
    endless = source("packets", seed=1, rate="100 tuples/s", id="packets").apply(_holds, id="own")
    holding = cluster.submit(endless.sink("holding"))
    assert next(iter(holding))["x"][0] == 102_400_000
    components = state_of(cluster, holding.graph["own"]).components
    used = [each["memory_bytes"] for each in components if each["operator"] == "own"]
    assert used[0] > 102_400_000
    holding.stop()
    with pytest.raises(ClusterError, match="its process needs more than 64 MB; expected less, or more memory= of the "):
        cluster.submit(PACKETS.apply(_holds, id="own").sink("small", memory="64 MB")).results()
    with pytest.raises(
        ClusterError, match="operator 'own', memory: '1,000 MB for its function'; expected at most its "
    ):
        cluster.submit(PACKETS.apply(_holds, id="own", memory="1 GB").sink("stated", memory="64 MB"))


def _group_of(process: psutil.Process) -> int:
    try:
        return 0 if process.status() == psutil.STATUS_ZOMBIE else os.getpgid(process.pid)
    except (ProcessLookupError, psutil.NoSuchProcess):
        return 0


@pytest.mark.slow
def test_what_a_peer_accepts_is_its_owner_s_choice() -> None:
    with Cluster(peers=1, cores=1, spark=False, functions="installed") as peers:
        expected = (
            r"operator 'own': function: 'kilobytes@\w+': no peer accepts it: this peer executes only functions that are"
        )
        with pytest.raises(ClusterError, match=expected):
            peers.submit(STREAMS["batches"](PACKETS).sink())
        installed = PACKETS.apply("tests.installed_functions:kilobytes", columns={"kB": "float"}).sink("installed")
        assert peers.submit(installed).results().height == 1000
        lacking = PACKETS.apply("tests.installed_functions:nothing", columns={"kB": "float"}).sink("lacking")
        with pytest.raises(
            ClusterError,
            match=r"apply at peer-1: function: 'tests.installed_functions:nothing' is nothing; expected what @function",
        ):
            peers.submit(lacking).results()
    with pytest.raises(ValueError, match="functions: 'all'; expected one of off, installed, notebook"):
        Cluster(peers=1, functions="all")


def test_a_function_that_nobody_has_is_refused_by_name(either: Any) -> None:
    gone = f"gone@{'0123456789abcdef' * 2}"
    plan = PACKETS.apply(gone, columns={"x": "int"}).sink()
    with pytest.raises(ClusterError, match=f"operator 'apply': function: '{gone}'"):
        either.submit(plan)


@pytest.mark.slow
def test_a_peer_that_joins_later_gets_functions_and_tables_from_its_neighbours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    simulation = Simulation(peers=3, cores=1, network="local", seed=1)
    packets = source("packets", seed=1, rate="20 tuples/s", id="packets", at="peer-1")
    own = packets.apply_keyed(Totals, key="source", id="own").lookup({"source": ["10.0.0.1"]}, on="source", id="sites")
    application = simulation.submit(own.sink("out", id="out"), origin="peer-1")
    needed = set(needed_contents(own.sink()))

    def has_all(peer: str) -> bool:
        return needed <= simulation.world.synergy[peer].probing.offers

    simulation.join("peer-4")
    assert simulation.until(lambda: has_all("peer-4"), 1.0), "its neighbours have told it"
    for operator in ("own", "sites"):
        simulation.move(application, operator, "peer-4")
        assert application.graph[operator] == "peer-4"
    monkeypatch.setattr(HeldContents, "_tell", lambda *_: None)  # what they tell is lost
    simulation.join("peer-5")
    with pytest.raises(ClusterError, match=r"own did not move: own at peer-5: it has no apply_keyed:Totals@\w+ yet"):
        simulation.move(application, "own", "peer-5")
    simulation.run("1 s")  # it has fetched what it needs
    simulation.move(application, "own", "peer-5")
    assert not has_all("peer-5")
    monkeypatch.undo()
    assert simulation.until(lambda: has_all("peer-5"), 60.0), "one neighbour after the other tells it"


@pytest.mark.slow
def test_a_worker_that_is_added_to_a_dask_cluster_gets_functions_from_its_neighbours() -> None:
    """The peers of this test are in one process, but each knows which functions it has."""
    options: dict[str, Any] = {"processes": False, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}

    async def moved() -> tuple[str, int]:
        async with LocalCluster(n_workers=2, asynchronous=True, silence_logs=50, **options) as workers:  # type: ignore[no-untyped-call]
            first = await connect_cluster(workers.scheduler_address, spark=False, functions="notebook")
            stream = STREAMS["keys"](source("packets", seed=1, rate="500 tuples/s", id="packets"))
            application = await first.submit(stream.sink("keys", id="out"), origin="0")
            workers.scale(3)
            await workers
            second = await connect_cluster(workers.scheduler_address, spark=False, functions="notebook")
            host = runtime_of(workers.workers[2]).host
            assert isinstance(host, Service)
            (component,) = needed_contents(application.plan)
            await until(lambda: component in host.synergy.probing.offers)
            await second.move(application.id, "own", "2")
            rows = (await application.head(1)).height
            at = (await second.handle(application.id)).graph["own"]
            await second.close()
            await first.close()
            return at, rows

    at, rows = run_loop(moved())
    assert (at, rows > 0) == ("2", True)
