"""Live peers and a simulation have the same methods with the same meaning, by one body; what only one has, it says.

A body waits for what it needs, as live peers take their time. In a simulation the same calls let virtual time pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

import duckdb
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from synergy_nb import Cluster, ClusterError, NotAdmitted, Simulation, source
from synergy_nb.plan import Plan
from synergy_nb.reporting.one_sided import (
    ONLY_LIVE,
    ONLY_LIVE_APPLICATION,
    ONLY_SIMULATED,
    ONLY_SIMULATED_APPLICATION,
    NotHere,
)
from synergy_nb.widgets.qos_view import QoSView
from tests.conftest import ROOT
from tests.peer_states import state_of, states_of
from tests.waiting import DEADLINE

PEERS = 3


def _plan(name: str, count: int | None = None) -> Plan:
    """Packets that go on for ever, or so many of them."""
    packets = source("packets", seed=1, rate="200 tuples/s", count=count, id="packets")
    return packets.filter("bytes > 100", id="large").sink(name, delay="30 s", availability="degree 2", id="out")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(peers=PEERS, cores=1, spark=False) as started:
        yield started


@pytest.fixture(scope="module")
def running(either: Any) -> Iterator[Any]:
    """An application that runs meanwhile, by the name ``endless``."""
    packets = source("packets", seed=1, rate="10 tuples/s", id="packets")
    application = either.submit(packets.filter("bytes > 0", id="all").sink("endless", id="out"))
    yield application
    application.stop()


def _public(value: object) -> set[str]:
    return {name for name in dir(value) if not name.startswith("_")}


def _check_sides(one: object, other: object, only_one: Mapping[str, str], only_other: Mapping[str, str]) -> None:
    assert _public(one) - _public(other) == set(only_one)
    assert _public(other) - _public(one) == set(only_other)
    for there, lacking in ((only_one, other), (only_other, one)):
        for name, reason in there.items():
            assert not hasattr(lacking, name)
            with pytest.raises(NotHere) as told:
                getattr(lacking, name)
            assert str(told.value) == f"{type(lacking).__name__} has no {name}: {reason}"
    with pytest.raises(AttributeError, match="object has no attribute 'submitt'"):
        _ = one.submitt  # type: ignore[attr-defined]


@pytest.mark.slow
def test_what_only_one_has_is_said_by_the_other(cluster: Cluster, simulation: Simulation) -> None:
    _check_sides(cluster, simulation, ONLY_LIVE, ONLY_SIMULATED)
    live, simulated = cluster.submit(_plan("sides")), simulation.submit(_plan("sides"))
    _check_sides(live, simulated, ONLY_LIVE_APPLICATION, ONLY_SIMULATED_APPLICATION)
    live.stop()
    simulated.stop()


@pytest.mark.slow
def test_states_name_all_peers_and_what_they_execute(either: Any) -> None:
    application = either.submit(_plan("states"))
    names = [f"peer-{number}" for number in range(1, PEERS + 1)]
    assert list(either.states()) == list(either.peers) == names
    assert set(either.names.values()) == set(either.peers)
    at = state_of(either, application.graph["large"])
    assert application.id in at.applications
    assert "large" in {part["operator"] for part in at.components if part["application"] == application.id}
    assert (at.cores, at.discipline) == (1.0, "fcfs")
    assert application.origin in names
    application.stop()


@pytest.mark.slow
def test_rows_go_to_a_loop_or_to_a_table(either: Any) -> None:
    application = either.submit(_plan("loop", 200))
    assert application.cluster is either
    assert application.setup_s > 0.0
    (first,) = islice(application, 1)
    rest = application.results()
    whole = either.submit(_plan("whole", 200)).results()
    assert first.vstack(rest).rows() == whole.rows()
    replication, looped = application.notices
    assert replication.startswith("Replicas cover large. The application ends when peer-")
    assert looped.startswith(f"{first.height} row")
    assert list(application.stream()) == [], "all rows have gone somewhere"


def test_a_stopped_loop_ends(either: Any) -> None:
    endless = source("packets", seed=1, rate="200 tuples/s").sink("endless")
    application = either.submit(endless)
    tables = iter(application)
    assert next(tables).height > 0
    application.stop()
    for _ in tables:  # what had arrived
        pass
    assert application.status == "stopped"


def test_a_paused_application_gives_no_rows_until_it_is_resumed(either: Any) -> None:
    def packets(**stated: Any) -> Plan:
        return source("packets", seed=8, rate="200 tuples/s", id="packets", **stated).sink("held", id="out")

    application = either.submit(packets())
    assert application.head(5).height == 5
    application.pause()
    assert application.status == "on hold"
    given = next(rows for _ in range(100) if (rows := _given(application)) == _given(application))
    assert "on hold" in str(application.explain()).splitlines()[0]
    assert "on hold" in repr(either.applications)
    application.pause()  # it is as asked for
    application.resume()
    assert application.head(given + 20).height == given + 20
    application.stop()
    rows = application.results()
    whole = either.submit(packets(count=rows.height, speed=0)).results()
    assert_frame_equal(rows, whole)
    assert [each.kind for each in application.events() if "hold" in each.kind] == ["hold_begun", "hold_ended"]
    with pytest.raises(ClusterError, match=rf"application: '{application.id}' is stopped; expected one that runs"):
        application.pause()


def _given(application: Any) -> int:
    """Rows that have come after half a second more."""
    return int(application.results(seconds=0.5).height)


def test_both_are_watched_by_a_method(either: Any) -> None:
    application = either.submit(_plan("watched"))
    for view in (either.watch(), application.watch()):
        assert isinstance(view, QoSView)
        view.close()
    application.stop()
    assert not either.closed


# -- what runs ---------------------------------------------------------------------------------------------------------


def readings(rows: int) -> pl.DataFrame:
    """A tuple every 10 ms."""
    numbers = pl.int_range(rows, dtype=pl.Int64, eager=True)
    time = (numbers * 10_000).cast(pl.Datetime("us"))
    return pl.DataFrame({"time": time, "key": "k" + (numbers % 7).cast(pl.String), "v": (numbers * 37 % 101) / 1.0})


@pytest.mark.slow
def test_a_query_gives_what_polars_gives(either: Any) -> None:
    table = readings(1000)
    stream = source("python", name="readings", columns={"key": "str", "v": "float"}, rate="1000 tuples/s")
    large = stream.filter("v >= 50", id="large")
    sums = large.aggregate(by="key", window="1 s", total="sum(v)", n="count(*)").sort("total desc")
    application = either.submit(sums.sink("sums", delay="30 s"), feeds={"readings": table.iter_slices(100)})
    assert set(application.graph) == {"source", "large", "aggregate", "sort", "sink"}
    found = application.results().select("window_start", "key", "total", "n")
    assert application.wait(DEADLINE) == "finished"
    windows = table.filter(pl.col("v") >= 50).with_columns(window_start=pl.col("time").dt.truncate("1s"))
    wanted = windows.group_by("window_start", "key").agg(total=pl.col("v").sum(), n=pl.len().cast(pl.Int64))
    assert_frame_equal(found.sort("window_start", "key"), wanted.sort("window_start", "key"))
    order = found.group_by("window_start", maintain_order=True).agg("total")["total"].to_list()
    assert all(totals == sorted(totals, reverse=True) for totals in order)
    record = application.qos()
    assert record["tuples"] == found.height
    assert 0 < record["delay_p50_s"] <= record["delay_p99_s"] < record["limit_s"] == 30.0
    assert record["miss_rate"] == 0.0
    assert "chosen: φ" in str(application.explain())
    application.stop()


@pytest.mark.slow
def test_an_endless_stream_is_taken_in_parts_and_is_gone_when_it_is_stopped(either: Any) -> None:
    application = either.submit(source("packets", seed=1, rate="200 tuples/s").filter("bytes > 0").sink("parts"))
    assert application.status == "running"
    with pytest.raises(ClusterError, match="endless"):
        application.results()
    assert application.head(20).height == 20
    application.stop()
    assert application.status == "stopped"
    assert all(application.id not in state.applications for state in states_of(either).values())


def test_a_filter_reads_a_running_stream_that_has_all_its_rows(either: Any) -> None:
    packets = source("packets", seed=5, rate="400 tuples/s", id="packets")
    wide = either.submit(packets.filter("bytes > 100", id="large").sink("wide", id="out"))
    assert wide.status == "running"
    where = "bytes > 700 AND link = 'A'"

    def narrow() -> Any:
        found = either.submit(packets.filter(where, id="large").sink("narrow", id="out"))
        if "still tests" in str(found.explain()):
            return found
        found.stop()  # the directory did not have the stream yet
        return None

    reader = next(filter(None, (narrow() for _ in range(100))))
    assert "large reads filter[bytes > 100](packets[" in str(reader.explain())
    assert f"which runs; it still tests {where}" in str(reader.explain())
    found = reader.head(20)
    given = wide.head(2000)
    first, last = found["time"].min(), found["time"].max()
    assert given.height
    query = f"SELECT * FROM given WHERE {where} AND time BETWEEN '{first}' AND '{last}'"
    wanted = pl.DataFrame(duckdb.execute(query).fetchall(), schema=given.schema, orient="row")
    assert_frame_equal(found.filter(pl.col("time") <= given["time"].max()), wanted)
    assert wanted.height > 5
    wide.stop()
    assert reader.head(30).height == 30, "its stream goes on for its readers"
    reader.stop()


def test_an_aggregate_of_coarser_windows_is_made_of_finer_ones_that_run(either: Any) -> None:
    packets = source("packets", seed=6, rate="40 tuples/s", speed=10, id="packets")
    every = either.submit(packets.sink("every", id="out"))
    finer = packets.aggregate(("link", "source"), "1 s", n="count(*)", total="sum(bytes)", id="seconds")
    seconds = either.submit(finer.sink("seconds", id="out"))
    assert (every.status, seconds.status) == ("running", "running")
    asked = packets.filter("link = 'A'", id="a").aggregate("link", "5 s", n="count(*)", mean="avg(bytes)", id="coarse")

    def coarser() -> Any:
        found = either.submit(asked.sink("coarse", id="out"))
        if "still tests link = 'A' and combines windows of 1 s: n of n, mean of n and total" in str(found.explain()):
            return found
        found.stop()  # the directory did not have the stream yet
        return None

    reader = next(filter(None, (coarser() for _ in range(100))))
    assert "coarse reads aggregate[by=[link, source]," in str(reader.explain())
    found = reader.head(4)
    assert found.height == 4
    heads = (every.head(rows) for rows in range(1000, 20_000, 500))
    given = next(head for head in heads if head["time"].max() > found["window_end"].max())
    assert given.height
    bounds = "time_bucket(INTERVAL 5 SECONDS, time) AS s"
    query = f"SELECT {bounds}, count(*), avg(bytes) FROM given WHERE link = 'A' GROUP BY s ORDER BY s"
    wanted = {row[0]: row for row in duckdb.execute(query).fetchall()}
    rows = found.select("window_start", "n", "mean").rows()
    assert rows[0][1] <= wanted[rows[0][0]][1], "the first has what came since it joined"
    assert rows[1:] == [wanted[start] for start, *_ in rows[1:]]
    seconds.stop()
    assert reader.head(1).height == 1, "the finer stream goes on for its readers"
    for each in (reader, every):
        each.stop()


# -- what rows may be --------------------------------------------------------------------------------------------------


def test_a_row_out_of_order_ends_its_application(either: Any) -> None:
    rows = iter([{"time": time, "v": 1} for time in (10.0, 12.0, 11.0, 3.0, 4.0, 30.0)])
    application = either.submit(source(rows, columns={"v": "int"}, rate="2 tuples/s").sink("rows"))
    with pytest.raises(ClusterError, match=r"1970-01-01 00:00:11 after one of 1970-01-01 00:00:12.*lateness='1 s'"):
        application.results()
    assert application.status == "failed"
    assert application.results(wait=False)["time"].dt.epoch("s").to_list()[:1] == [10]


def test_an_error_of_the_program_that_makes_rows_is_named_with_its_cause(either: Any) -> None:
    application = either.submit(source((1 // 0 for _ in range(2)), columns={"v": "int"}).sink("rows"))
    told = "its feed raised ZeroDivisionError: integer division or modulo by zero"
    with pytest.raises(ClusterError, match=told) as caught:
        application.results()
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert application.status == "failed"


# -- what is refused ---------------------------------------------------------------------------------------------------


def test_nothing_is_admitted_beyond_what_peers_have(either: Any) -> None:
    heavy = source("packets", rate="1000 tuples/s").delay("5 ms").sink("heavy", delay="1 s")
    with pytest.raises(NotAdmitted, match=r"operator delay: processing capacity at .* where 5 cores are needed") as no:
        either.submit(heavy)
    assert no.value.explain().dropped
    assert not [name for name in either.applications if name.startswith("heavy")]


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda it, _: it.kill("peer-9"), "peer: 'peer-9'; expected "),
        (lambda it, _: it.cut("peer-1", "peer-9"), "other: 'peer-9'; expected "),
        (lambda it, _: it.cut("peer-1", "peer-1"), "expected another peer"),
        (lambda it, _: it.load("peer-1", 2), "share: 2; expected a share"),
        (lambda it, app: it.pace(app, "all", 2), "source: 'all'; expected a source of the plan: packets"),
        (lambda it, app: it.pace(app, "packets", -1), "factor: -1; expected a finite number"),
        (lambda it, app: it.cost(app, "packets", 1), "operator: 'packets' is a source"),
        (lambda it, app: it.cost(app, "al", 1), "operator: 'al'; expected one of the plan"),
        (lambda it, app: it.move(app, "all", "peer-8"), "to: 'peer-8'; expected a peer "),
        (lambda it, app: it.move(app, "out", "peer-2"), "operator: 'out' is a sink, which stays at its peer"),
        (lambda it, app: it.submit(app.plan, spread=2), "spread: 2; expected True or False"),
    ],
)
def test_a_wrong_request_is_refused_by_name(
    either: Any, running: Any, act: Callable[[Any, Any], object], message: str
) -> None:
    with pytest.raises(ClusterError) as refused:
        act(either, running)
    assert message in str(refused.value)


def test_the_page_lists_what_only_one_has() -> None:
    page = (ROOT / "docs" / "simulation.md").read_text("utf-8")
    for name in (*ONLY_LIVE, *ONLY_LIVE_APPLICATION, *ONLY_SIMULATED, *ONLY_SIMULATED_APPLICATION):
        assert f"`{name}`" in page.partition("## Beside a cluster")[2].partition("\n## ")[0], name


# -- a plan in place of another one ------------------------------------------------------------------------------------


def test_rows_of_a_plan_that_takes_the_place_of_another_one_follow_those_of_that(either: Any) -> None:
    def plan(least: int, **stated: Any) -> Plan:
        packets = source("packets", seed=12, rate="100 tuples/s", id="packets", **stated)
        return packets.filter(f"bytes > {least}", id="large").sink("replaced", id="out")

    application = either.submit(plan(100))
    former = application.id
    tables = iter(application)
    found = [next(tables)]
    change = application.replace(plan(1000))
    assert (change.kept, change.anew) == ({"packets": "packets"}, ("large",))
    assert (application.id != former, application.plan, application.status) == (True, plan(1000), "running")
    assert either.application("replaced").id == application.id
    assert either.applications[former].status == "stopped"
    while (last := found[-1])["bytes"].min() <= 1000 or last.height == 0 or len(found) < 3:
        found.append(next(tables))
    application.stop()
    rows = pl.concat([*found, *tables])
    every = either.submit(plan(100, count=5000, speed=0)).results().filter(pl.col("time") <= rows["time"].max())
    small = rows.filter(pl.col("bytes") <= 1000)["time"].max()
    point = every.filter((pl.col("time") <= small) | (pl.col("bytes") > 1000))
    assert_frame_equal(rows, point)
    endless = either.submit(plan(100))
    slow = source("packets", seed=12, rate="100 tuples/s", id="packets").delay("1 s", id="slow")
    with pytest.raises(NotAdmitted, match="slow"):
        endless.replace(slow.sink("r", id="out"))
    assert endless.head(5).height == 5
    endless.replace(plan(1000))
    endless.pause()  # the source is that of the plan before
    assert endless.status == "on hold"
    given = next(rows for _ in range(100) if (rows := _given(endless)) == _given(endless))
    endless.resume()
    assert endless.head(given + 20).height == given + 20
    endless.stop()
