"""Real Dask workers as peers, as a notebook uses them."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import gc
import itertools
import math
import os
import re
import signal
import threading
import traceback
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from distributed import LocalCluster
from polars.testing import assert_frame_equal

from synergy_nb import (
    Cluster,
    ClusterError,
    NotAdmitted,
    Plan,
    WideArea,
    connect_cluster,
    source,
    start_cluster,
)
from synergy_nb.dataflow.tuples import Batch, decode
from synergy_nb.events import ApplicationEnded, ComponentDeployed, RequestSubmitted, SinkMeasured
from synergy_nb.lifecycle import engine
from synergy_nb.runtime.client.async_cluster import AsyncCluster
from synergy_nb.runtime.data import deliveries
from synergy_nb.runtime.data._pushed_sources import PushedSources
from synergy_nb.runtime.process import _service as service
from synergy_nb.runtime.process import starting
from synergy_nb.runtime.process._plugin import runtime_of
from synergy_nb.runtime.process.requests import Fetch, FetchedResults, pack, unpack
from synergy_nb.widgets._stage_picture import state_at
from tests.peer_states import states_of
from tests.waiting import DEADLINE, asked_until

EPOCH = dt.datetime(2026, 1, 1)  # noqa: DTZ001 - event times carry no zone


def numbers(rows: int = 1000) -> pl.DataFrame:
    """A tuple every 10 ms."""
    return pl.DataFrame(
        {
            "time": [EPOCH + dt.timedelta(milliseconds=10 * number) for number in range(rows)],
            "key": [f"k{number % 7}" for number in range(rows)],
            "v": [float(number * 37 % 101) for number in range(rows)],
        },
        schema_overrides={"time": pl.Datetime("us")},
    )


def by_key(delay: str = "30 s") -> Plan:
    """Sums of one second by key, of the larger values."""
    stream = source("python", name="numbers", columns={"key": "str", "v": "float"})
    sums = stream.filter("v >= 50").aggregate(by="key", window="1 s", total="sum(v)", n="count(*)")
    return sums.sort("total desc").sink("sums", delay=delay)


def expected(table: pl.DataFrame) -> pl.DataFrame:
    """The same with Polars alone."""
    return (
        table.filter(pl.col("v") >= 50)
        .with_columns(window_start=pl.col("time").dt.truncate("1s"))
        .group_by("window_start", "key")
        .agg(total=pl.col("v").sum(), n=pl.len().cast(pl.Int64))
        .sort(["window_start", "total"], descending=[False, True])
        .select("window_start", "key", "total", "n")
    )


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(peers=3, cores=1.0) as started:
        yield started


def test_peers_and_clients_look_at_the_rows_of_sources_before_they_decide(cluster: Cluster, tmp_path: Path) -> None:
    path = tmp_path / "hours.csv"
    path.write_text("time,key\n" + "".join(f"{hour * 3600},a\n" for hour in range(100)))
    hours = source("trace", path=path, format="csv", columns={"time": "time", "key": "str"}, id="file")
    table = source(numbers(50).select("time", "key"), id="table")
    plan = hours.union(table).aggregate(window="7 d", n="count(*)").sink()
    told = "sources, as estimates take them: file (100 rows over 99 h), table (50 rows"
    cluster.check(plan)
    application = cluster.submit(plan)
    assert application.results()["n"].sum() == 150
    assert told in str(application.explain())
    tried, ran = (each.sources for each in cluster.events().of(RequestSubmitted) if "file" in each.operators)
    assert tried == ran


def test_results_can_be_read_as_they_come(cluster: Cluster) -> None:
    application = cluster.submit(by_key(), feeds={"numbers": numbers().iter_slices(250)})
    batches = list(application)
    assert pl.concat(batches).height == expected(numbers()).height
    application.stop()


def test_a_finished_application_and_its_cluster_display_in_a_notebook(cluster: Cluster) -> None:
    application = cluster.submit(by_key(), feeds={"numbers": numbers(100).iter_slices(50)})
    application.results()
    assert application.wait(DEADLINE) == "finished"
    assert set(application.graph.values()) <= set(cluster.peers)
    assert "status: finished" in repr(application)
    assert "<table>" in application._repr_html_()
    assert "Cluster of 3 peers" in repr(cluster)
    assert "peer-2" in cluster._repr_html_()
    replay = application.replay()
    assert replay.source == "events"
    assert state_at(replay, len(replay.moments) - 1)[0] == application.graph
    account = application.explain()
    assert account.selected is not None
    assert account.selected.peers == application.graph
    assert "in the graph of least φ" in str(account)
    assert "chosen: φ" in account._repr_html_()
    application.stop()


def test_events_can_be_had_as_a_table_and_a_file(cluster: Cluster, tmp_path: Path) -> None:
    application = cluster.submit(by_key(), feeds={"numbers": numbers(100).iter_slices(50)})
    rows = application.results()
    assert application.wait(DEADLINE) == "finished"
    happened = application.events()
    assert [event.status for event in happened.of(ApplicationEnded)] == ["finished"]
    assert happened.table(SinkMeasured)["tuples"].max() == rows.height
    assert happened.table(ComponentDeployed).height == len(application.graph)
    everything = cluster.events().table()
    assert set(everything["peer"]) == set(cluster.peers)
    assert not any(address in text for address in cluster.peers.values() for text in everything["detail"])
    assert set(cluster.events("peer-1").table()["subject"]) == {"peer-1"}
    assert everything["time"].is_sorted()
    assert set(happened.table()["kind"]) | {"peer_started"} <= set(everything["kind"])
    everything.write_parquet(tmp_path / "run.parquet")
    assert pl.read_parquet(tmp_path / "run.parquet").equals(everything)
    application.stop()


def test_concurrent_applications_share_the_peers(cluster: Cluster) -> None:
    applications = [cluster.submit(by_key(), feeds={"numbers": numbers().iter_slices(100)}) for _ in range(4)]
    heights = {application.results().height for application in applications}
    assert heights == {expected(numbers()).height}
    for application in applications:
        application.stop()


@pytest.mark.slow
def test_an_operator_that_fails_ends_its_application_with_the_reason(cluster: Cluster) -> None:
    stream = source("python", name="numbers", columns={"v": "str"})
    plan = stream.encrypt("v", key="nobody has this").sink("out")
    with pytest.raises((NotAdmitted, ClusterError), match="nobody has this"):
        cluster.submit(plan, feeds={"numbers": []}).results()


# -- readers that stop, come back, are several, or are interrupted ---------------------------------------------------


def all_of_them() -> Plan:
    return source("python", name="numbers", columns={"key": "str", "v": "float"}).filter("v >= 0").sink("all")


def in_two_parts(rest: threading.Event) -> Iterator[pl.DataFrame]:
    """200 tuples, half of them when ``rest`` is set."""
    for number, part in enumerate(numbers(200).iter_slices(10)):
        if number == 10:
            rest.wait()
        yield part


def test_a_reader_that_stops_loses_nothing(cluster: Cluster) -> None:
    rest = threading.Event()
    application = cluster.submit(all_of_them(), feeds={"numbers": in_two_parts(rest)})
    first = next(iter(application))
    rest.set()  # what comes now is another batch: the reader had something before it
    parts = [first, *application.stream()]
    assert len(parts) > 1
    assert_frame_equal(pl.concat(parts).select("v"), numbers(200).select("v"))
    application.stop()


def test_several_readers_get_everything_once(cluster: Cluster) -> None:
    rest = threading.Event()
    application = cluster.submit(all_of_them(), feeds={"numbers": in_two_parts(rest)})
    found: list[pl.DataFrame] = []
    readers = [threading.Thread(target=lambda: found.append(application.results())) for _ in range(3)]
    for reader in readers:
        reader.start()
    rest.set()
    for reader in readers:
        reader.join(DEADLINE)
    assert [table["v"].to_list() for table in found] == [numbers(200)["v"].to_list()] * 3
    application.stop()


@pytest.mark.slow
def test_an_interrupt_ends_a_cell_at_once_and_loses_nothing(cluster: Cluster) -> None:
    """With Polars' handler of signals, a thread that waits without limit would not hear of it."""
    rest = threading.Event()
    application = cluster.submit(all_of_them(), feeds={"numbers": in_two_parts(rest)})
    asked_until(lambda: application.results(wait=False).height > 0)  # Polars takes a signal that comes while it works
    main = threading.main_thread().ident
    assert main is not None

    def interrupted() -> None:
        threading.Timer(0.15, signal.pthread_kill, (main, signal.SIGINT)).start()
        application.results()

    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            interrupted()
    rest.set()
    assert application.results()["v"].to_list() == numbers(200)["v"].to_list()
    application.stop()


def test_a_fetch_that_comes_again_is_answered_as_before(cluster: Cluster) -> None:
    application = cluster.submit(all_of_them(), feeds={"numbers": numbers(50).iter_slices(10)})
    assert application.wait(DEADLINE) == "finished"

    def fetch(since: tuple[int, int] | None) -> FetchedResults:
        asked = pack(Fetch(application.id, "sink", since))
        held = application._asynchronous
        return unpack(cluster._run(held.cluster.request(held.origin, "fetch", asked)), FetchedResults)

    first, again = fetch(None), fetch(None)
    after = fetch(first.end)
    assert again == first
    assert sum(item.table.height for item in map(decode, first.items) if isinstance(item, Batch)) == 50
    assert (after.items, after.start, after.finished) == ([], first.end, True)
    application.stop()


def test_results_of_a_stopped_application_are_those_so_far(cluster: Cluster) -> None:
    application = cluster.submit(all_of_them(), feeds={"numbers": numbers(50).iter_slices(10)})
    assert application.wait(DEADLINE) == "finished"
    application.stop()
    application.stop()
    assert application.status == "stopped"
    assert_frame_equal(application.results().select("v"), numbers(50).select("v"))


def test_a_submission_that_is_given_up_leaves_no_application(cluster: Cluster) -> None:
    def applications() -> set[str]:
        return {name for state in states_of(cluster).values() for name in state.applications}

    before = applications()
    with pytest.raises(ClusterError, match="does not answer"):
        cluster.submit(_endless(), timeout=1e-4)
    asked_until(lambda: applications() <= before)


def test_submissions_use_the_peers_in_turn_as_origins(cluster: Cluster) -> None:
    applications = [cluster.submit(_endless()) for _ in range(3)]
    for application in applications:
        application.stop()
    assert len({application._asynchronous.origin for application in applications}) == 3


@pytest.mark.slow
def test_calls_that_wait_while_a_cluster_closes_end_with_an_error() -> None:
    blocked, held = threading.Event(), threading.Event()

    def feed() -> Iterator[pl.DataFrame]:
        yield numbers(10)
        blocked.set()
        held.wait()  # for ever, as far as the cluster can see

    cluster = Cluster(peers=2, cores=1.0)
    application = cluster.submit(all_of_them(), feeds={"numbers": feed()})
    told: list[str] = []

    reading = threading.Event()

    def read() -> None:
        reading.set()
        try:
            application.results()
        except ClusterError as error:
            told.append(str(error))

    reader = threading.Thread(target=read)
    reader.start()
    assert reading.wait(DEADLINE)
    assert blocked.wait(DEADLINE)
    cluster.close()
    reader.join(DEADLINE)
    assert len(told) == 1
    assert [thread.daemon for thread in threading.enumerate() if thread.name == "synergy feed"] == [True]
    held.set()
    assert "status" in repr(application)


@pytest.mark.slow
def test_a_cluster_without_references_ends() -> None:
    cluster = Cluster(peers=1)
    process = cluster._process("peer-1")
    del cluster
    gc.collect()
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


# -- bad input -------------------------------------------------------------------------------------------------------


def _endless() -> Plan:
    return source("packets", rate="10 tuples/s").sink("all")


FAR = """
format: 1
operators:
  far: {kind: source, connector: trace, path: no such file, format: tcp, at: mars}
  end: {kind: sink, input: far, at: venus}
"""


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            lambda c: c.submit(_endless(), origin="peer-9"),
            "origin: 'peer-9'; expected client, source, sink, near, or a peer that lives: peer-1, peer-2, peer-3",
        ),
        (
            lambda c: c.submit(source("packets", at="mars").sink("all")),
            "operator 'source': at: 'mars'; expected a peer that lives: peer-1, peer-2, peer-3",
        ),
        (lambda c: c.submit(by_key()), "operator 'source': feeds has no 'numbers'; expected rows for this source"),
        (
            lambda c: c.submit(_endless(), feeds={"x": []}),
            "feeds: 'x' is no source of the plan; expected none: the plan has no python source",
        ),
        (
            lambda c: c.submit(source("packets")),
            "plan: a Stream; expected a Plan, which .sink() at the end of a stream returns",
        ),
        (
            lambda c: c.submit("plan.yaml"),
            (
                "plan: a str; expected a Plan, which .sink() at the end of a stream returns; "
                "Plan.from_yaml(text) reads the text of a plan's file"
            ),
        ),
        (
            lambda c: c.submit(by_key(), feeds={"numbers": numbers().rename({"v": "V"})}),
            "source: column 'v' is missing; expected float, found time, key, V; did you mean 'V'?",
        ),
        (
            lambda c: c.submit(source("trace", path="no such file", format="tcp").sink("out")),
            f"operator 'source': path: 'no such file'; expected a file that is there; looked in {Path.cwd()}",
        ),
        (
            lambda c: c.submit(source("trace", path=f"{__file__}x", format="tcp").sink("out")),
            f"operator 'source': path: '{__file__}x'; expected a file that is there; did you mean 'test_cluster.py'?",
        ),
        (
            lambda c: c.submit(
                source("directory", path=f"{Path(__file__).parent}", format="csv", columns={"time": "time"}).sink("out")
            ),
            (
                f"operator 'source': path: '{Path(__file__).parent}': a directory; expected a pattern of the names of "
                f"its files, too, such as '{Path(__file__).parent / '*.csv'}'"
            ),
        ),
        (
            lambda c: c.submit(Plan.from_yaml(FAR), feeds={"x": []}),
            (
                "the submission has 4 problems:\n"
                "  - operator 'far': at: 'mars'; expected a peer that lives: peer-1, peer-2, peer-3\n"
                f"  - operator 'far': path: 'no such file'; expected a file that is there; looked in {Path.cwd()}\n"
                "  - operator 'end': at: 'venus'; expected a peer that lives: peer-1, peer-2, peer-3\n"
                "  - feeds: 'x' is no source of the plan; expected none: the plan has no python source"
            ),
        ),
    ],
)
def test_wrong_names_are_refused_before_anything_starts(
    cluster: Cluster, asked: Callable[[Cluster], object], message: str
) -> None:
    with pytest.raises(ClusterError) as caught:
        asked(cluster)
    assert str(caught.value) == message


def test_results_are_kept_where_the_sink_is_bound_to(cluster: Cluster) -> None:
    application = cluster.submit(source("packets", count=10, speed=0).sink("all", at="peer-3"))
    assert application.graph["sink"] == "peer-3"
    assert application.results().height == 10


def test_a_refusal_explains_the_failed_condition(cluster: Cluster) -> None:
    with pytest.raises(NotAdmitted, match=r"delay at .*\n.*error\.explain\(\)") as caught:
        cluster.submit(source("packets", rate="1000 tuples/s").sink("all", delay="1 us"))
    account = caught.value.explain()
    # at a peer that has not measured its overheads yet the source may pass, and the sink is what is refused first
    assert re.match(r"rejected: operator (source|sink): delay at", account.outcome)
    assert account.dropped
    assert account.qos == {"delay": 1e-6}
    assert account.delay is not None
    assert str(account.delay) in str(account)
    assert str(account.delay) in str(caught.value)
    with pytest.raises(ClusterError, match="there is no explanation"):
        NotAdmitted("refused").explain()
    with pytest.raises(ClusterError, match="no replay of this refusal"):
        NotAdmitted("refused").replay()


def test_a_feed_with_wrong_columns_fails_its_application(cluster: Cluster) -> None:
    application = cluster.submit(by_key(), feeds={"numbers": [{"nonsense": 1}]})
    with pytest.raises(
        ClusterError, match=r"source: column 'time' is missing in row .*; expected time, the event time"
    ):
        application.results()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"peers": 0}, "peers: 0; expected a number of at least 1"),
        (
            {"peers": "8 peers"},
            "peers: '8 peers'; expected the address of a Dask scheduler, such as 'tls://127.0.0.1:8786', or",
        ),
        ({"peers": "localhost"}, "peers: 'localhost'; expected the address of a Dask scheduler"),
        ({"cores": -1.0}, "cores: -1.0; expected a positive number"),
        ({"bandwidth": 0.0}, "bandwidth: 0.0; expected a positive number"),
        ({"secrets": {"k": "a token"}}, "secrets: 'k': it is something else; expected 'env:VARIABLE'"),
    ],
)
def test_a_cluster_that_makes_no_sense_is_not_started(arguments: dict[str, object], message: str) -> None:
    before = threading.active_count()
    with pytest.raises(ValueError, match="expected") as caught:
        Cluster(**arguments)  # type: ignore[arg-type]
    assert threading.active_count() == before
    assert str(caught.value).startswith(message)


@pytest.mark.slow
def test_a_scheduler_that_does_not_answer_is_named() -> None:
    async def connect() -> None:
        await connect_cluster("tcp://127.0.0.1:9", timeout="500 ms")

    with pytest.raises(ClusterError, match=r"no Dask scheduler answered at 'tcp://127\.0\.0\.1:9' as nobody listens"):
        asyncio.run(connect())


@pytest.mark.parametrize(
    ("cause", "refused", "tries", "what"),
    [
        (TimeoutError("timed out"), True, [1.0], "as nobody listens there"),
        (MemoryError("3 EiB"), False, [1.0], "as another program listens there"),
        (TimeoutError("timed out"), False, [1.0, 10.0], "within 10 s"),
    ],
)
def test_the_error_of_an_address_without_a_scheduler_is_one_sentence_as_soon_as_it_is_known(
    monkeypatch: pytest.MonkeyPatch, cause: Exception, refused: bool, tries: list[float], what: str
) -> None:
    tried: list[float] = []

    class Client:
        def __init__(self, *_: object, timeout: float, **__: object) -> None:
            tried.append(timeout)

        def __await__(self) -> Iterator[None]:
            yield from ()
            try:
                raise cause
            except OSError as error:
                raise TimeoutError("timed out") from error

        async def close(self) -> None: ...

    async def refuses(address: str, within: float) -> bool:
        return refused

    monkeypatch.setattr(starting, "Client", Client)
    monkeypatch.setattr(starting, "refuses", refuses)
    with pytest.raises(ClusterError, match=f"no Dask scheduler answered at 'tcp://127.0.0.1:9' {what}: look") as caught:
        Cluster("tcp://127.0.0.1:9")
    lines = traceback.format_exception(caught.value)
    assert sum(line.startswith("Traceback") for line in lines) == 1
    assert sum("File" in line for line in lines) == 2  # the user's line, and where the cluster raises
    assert tried == tries


def test_a_closed_cluster_returns_the_last_known_states() -> None:
    with Cluster(peers=1, spark=False) as closing:
        application = closing.submit(source("packets", count=10, speed=0).sink("all"))
        rows = application.results().height
        assert application.wait(DEADLINE) == "finished"
    assert application.status == "finished"
    assert application.reason == ""
    assert application.qos()["tuples"] == rows == 10
    assert application.head(3).height == 3
    for call in (application.wait, application.stop, application.events, application.explain):
        with pytest.raises(ClusterError, match="the cluster is closed; expected an open one"):
            call()


def test_calls_of_a_closed_cluster_are_refused_by_name() -> None:
    cluster = Cluster(peers=1)
    cluster.close()
    cluster.close()
    assert repr(cluster) == "Cluster (closed)"
    for call in (cluster.states, cluster.events, cluster.spark_session, lambda: cluster.submit(_endless())):
        with pytest.raises(ClusterError, match="the cluster is closed; expected an open one"):
            call()
    for name in ("stop", "move"):
        with pytest.raises(ClusterError, match="the cluster is closed; expected an open one"):
            getattr(cluster, name)("packets", *(("filter", "peer-1") if name == "move" else ()))


# -- coroutines, other clusters, wide areas ------------------------------------------------------------------------


async def _run_once(cluster: AsyncCluster) -> None:
    try:
        application = await cluster.submit(by_key(), feeds={"numbers": numbers(300).iter_slices(100)})
        rows = await application.results()
        await application.stop()
        assert rows.height == expected(numbers(300)).height
    finally:
        await cluster.close()


@contextlib.asynccontextmanager
async def _workers(number: int) -> AsyncIterator[Any]:
    """An existing Dask cluster with so many workers, and peers on them."""
    options = {"processes": False, "n_workers": number, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
    async with LocalCluster(asynchronous=True, silence_logs=50, **options) as existing:  # type: ignore[no-untyped-call]
        yield existing, await connect_cluster(existing.scheduler_address)


async def test_coroutines_start_use_and_close_a_cluster() -> None:
    await _run_once(await start_cluster(2))


@pytest.mark.slow
async def test_the_workers_of_an_existing_cluster_become_peers() -> None:
    async with _workers(3) as (_, cluster):
        await _run_once(cluster)


@pytest.mark.slow
def test_a_peer_forgets_applications_that_ended_long_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "MAX_RETAINED", 3)

    async def main() -> tuple[list[int], list[str]]:
        async with _workers(1) as (existing, cluster):
            running = await cluster.submit(_endless())
            for _ in range(5):  # their results stay, for they are not stopped
                done = await cluster.submit(by_key(), feeds={"numbers": numbers(50).iter_slices(50)})
                await done.wait(DEADLINE)
            host = runtime_of(next(iter(existing.workers.values()))).host
            assert isinstance(host, service.Service)
            kept = [len(known) for known in (host.synergy.requests, host._measurements)]
            held = sorted(host.synergy.session.applications)
            assert running.id in held
            await cluster.close()
            return kept, held

    kept, held = asyncio.run(main())
    assert kept == [3, 3]
    assert len(held) == 3


async def test_a_feed_waits_for_room_longer_than_a_request_may_take(monkeypatch: pytest.MonkeyPatch) -> None:
    """A source that has no room answers so, and is asked again; a reader who pauses must not end the application."""
    monkeypatch.setattr(deliveries, "POLL", 0.01)
    full = iter([True] * 5)
    push = PushedSources.push

    async def no_room(_sources: PushedSources, _application: str, _name: str) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(PushedSources, "room", no_room)
    monkeypatch.setattr(PushedSources, "full", lambda *given: True)
    monkeypatch.setattr(PushedSources, "push", lambda *given: False if next(full, False) else push(*given))

    async with _workers(1) as (_, cluster):
        await _run_once(cluster)
    assert next(full, None) is None


@pytest.mark.slow
def test_a_laptop_behaves_like_a_continent() -> None:
    """Three peers, 60 ms apart: a stream that crosses two links takes two times 30 ms at least."""
    area = WideArea([[0, 60, 60], [60, 0, 60], [60, 60, 0]])
    with Cluster(peers=3, wide_area=area) as cluster:
        area_peers = dict(cluster.peers)
        stream = source("python", name="n", columns={"v": "float"}, at="peer-1").filter("v >= 0", at="peer-2")
        rows = [{"time": EPOCH, "v": 1.0}]
        application = cluster.submit(stream.sink("out"), origin="peer-3", feeds={"n": [rows]})
        assert application.results().height == 1
        assert application.wait(DEADLINE) == "finished"
        assert application.qos()["delay_p50_s"] >= 0.058
        assert set(application.graph.values()) == set(area_peers)
        at = {peer.name: (peer.x, peer.y) for peer in application.replay().peers}
        apart = [math.dist(at[one], at[other]) for one, other in itertools.combinations(sorted(area_peers), 2)]  # type: ignore[arg-type]
        assert apart == pytest.approx([apart[0]] * 3)  # a map of peers that are all as far from one another


# -- peers that end or hang ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_killed_peer_fails_its_applications_and_the_others_go_on() -> None:
    with Cluster(peers=4, cores=1.0) as cluster:
        pinned = source("packets", rate="100 tuples/s", speed=1, at="peer-3").sink("all")
        victim = cluster.submit(pinned, origin="peer-1")
        cluster.kill("peer-3")
        assert victim.wait(DEADLINE) == "failed"
        assert "peer-3 died" in victim.reason
        assert cluster.states()["peer-3"] is None
        for _ in range(3):
            application = cluster.submit(by_key(), feeds={"numbers": numbers().iter_slices(100)})
            assert "peer-3" not in application.graph.values()
            assert application.results().height == expected(numbers()).height
            application.stop()
        with pytest.raises(ClusterError, match="peer-3' has ended"):
            cluster.kill("peer-3")


@pytest.mark.slow
def test_a_hung_peer_is_declared_dead_and_comes_back() -> None:
    with Cluster(peers=4, cores=1.0) as cluster:
        pinned = source("packets", rate="100 tuples/s", speed=1, at="peer-2").sink("all")
        victim = cluster.submit(pinned, origin="peer-1")
        cluster.suspend("peer-2")
        asked_until(lambda: victim.status == "paused")
        assert victim.reason.startswith("waiting for peer-2 (")
        application = cluster.submit(by_key(), origin="peer-1", feeds={"numbers": numbers().iter_slices(100)})
        assert "peer-2" not in application.graph.values()
        assert application.results().height == expected(numbers()).height
        cluster.resume("peer-2")
        asked_until(lambda: cluster.states()["peer-2"] is not None)
        asked_until(lambda: victim.status == "running")
        asked_until(lambda: _admits(cluster, "peer-2"))


def _admits(cluster: Cluster, peer: str) -> bool:
    try:
        cluster.submit(source("packets", rate="10 tuples/s", at=peer).sink("all"), origin="peer-1").stop()
    except NotAdmitted:
        return False
    return True


# -- what a feed may yield -------------------------------------------------------------------------------------------


def _times(cluster: Cluster, *yielded: object) -> list[dt.datetime]:
    stream = source("python", name="n", columns={"v": "int"})
    application = cluster.submit(stream.filter("v >= 0").sink("out"), feeds={"n": yielded})
    return application.results()["time"].to_list()


def test_numbers_in_the_column_time_are_seconds_and_texts_are_dates(cluster: Cluster) -> None:
    epoch = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - event times carry no zone
    assert _times(cluster, {"time": 6.5, "v": 1}, {"time": 60, "v": 2}) == [
        epoch + dt.timedelta(seconds=6.5),
        epoch + dt.timedelta(seconds=60),
    ]
    assert _times(cluster, {"time": "2026-01-01 00:00:00", "v": 1}) == [EPOCH]


def test_tuples_that_are_yielded_together_are_put_in_order(cluster: Cluster) -> None:
    found = _times(cluster, {"time": [3.0, 1.0, 2.0], "v": [3, 1, 2]})
    assert found == sorted(found)
    assert len(found) == 3


def test_waiting_too_long_says_for_what(cluster: Cluster) -> None:
    application = cluster.submit(source("packets", rate="10 tuples/s").sink("all"))
    with pytest.raises(TimeoutError, match=r"all-\d+-\w+ still runs after 100 ms"):
        application.wait(0.1)
    application.stop()


def test_of_an_application_whose_results_have_all_come_only_these_stay(cluster: Cluster) -> None:
    application = cluster.submit(by_key(), feeds={"numbers": numbers(200).iter_slices(100)})
    application.results()
    assert application.wait(DEADLINE) == "finished"

    def parts() -> list[Any]:
        states = states_of(cluster).values()
        return [part for each in states for part in each.components if part["application"] == application.id]

    asked_until(lambda: not parts())
    assert application.qos()["tuples"] == application.results().height


@pytest.mark.slow
def test_results_of_a_failed_application_are_not_lost() -> None:
    with Cluster(peers=3, cores=1.0) as cluster:
        plan = source("packets", rate="500 tuples/s", duration="1 h", speed=1, at="peer-3").sink("all")
        application = cluster.submit(plan, origin="peer-1")
        asked_until(lambda: application.results(wait=False).height > 0)
        cluster.kill("peer-3")
        with pytest.raises(ClusterError, match=r"peer-3 died .* rows? ha(s|ve) arrived"):
            application.results()
        assert application.results(wait=False).height > 0


@pytest.mark.slow
def test_a_reader_is_told_that_the_peer_of_the_sink_is_dead() -> None:
    with Cluster(peers=2, cores=1.0) as cluster:
        plan = source("packets", rate="500 tuples/s", duration="1 h", speed=1).sink("all")
        application = cluster.submit(plan, origin="peer-2")
        assert application.head(3).height == 3
        cluster.kill("peer-2")
        told = (
            rf"^{application.id}: its sink 'sink' gives no more results: peer-2 does not answer: its process has "
            r"ended, as nobody listens at its address; \d+ rows have arrived, which results\(wait=False\) returns\. "
            r"Results are retained at the peer of the sink only, .* if peer-2 is dead, submit the plan again$"
        )
        for read in (application.results, lambda: application.head(10**6), lambda: list(application)):
            with pytest.raises(ClusterError, match=told):
                read()
        assert application.results(wait=False).height >= 3, "what has arrived remains"
        assert application.status == "failed"
        assert application.reason.startswith("peer-2 does not answer: its process has ended")


def test_requirements_are_shown_with_their_measurements(cluster: Cluster) -> None:
    asked = {"delay": "30 s", "miss_rate": "5 %", "throughput": "100000 tuples/s", "availability": "degree 2"}
    stream = source("python", name="n", columns={"v": "int"})
    feeds = {"n": [{"time": float(second), "v": second} for second in range(20)]}
    application = cluster.submit(stream.filter("v >= 0").sink("out", **asked), feeds=feeds)
    application.results()
    shown = repr(application)
    assert "misses: 0, limit 0.05: met" in shown
    assert "limit 1e+05: missed" in shown
    assert "backups: filter@peer-" in shown


def test_a_dask_cluster_is_as_good_as_its_address() -> None:
    options = {"processes": False, "n_workers": 2, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
    with LocalCluster(silence_logs=50, **options) as existing, Cluster(existing) as cluster:  # type: ignore[no-untyped-call]
        assert len(cluster.peers) == 2
        assert cluster.submit(source("packets", rate=100.0, duration="1 s", speed=0).sink("p")).results().height > 0
