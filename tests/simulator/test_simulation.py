"""The simulation for notebooks: whole peers that compose and execute what is submitted, and its knobs."""

from __future__ import annotations

import asyncio
import gc
import math
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any

import numpy as np
import polars as pl
import pytest

from synergy_nb import Plan, PlanError, Simulation, source, traces, watch
from synergy_nb.dataflow.tuples import Batch
from synergy_nb.events import (
    ComponentMoved,
    HotSpotDetected,
    LateRows,
    PeerDeclaredDead,
    PeerMeasured,
    TakenOver,
)
from synergy_nb.reporting.cluster_errors import ClosedClusterError, ClusterError
from synergy_nb.simulator._paced_sources import PacedSource, opened, tabled, timed
from synergy_nb.traces.rows import FeedError, RowReader

ROWS = pl.DataFrame({"time": [0.0, 1.0, 2.0, 3.0], "v": [1, 2, 3, 4]})
PACKETS: dict[str, Any] = {"seed": 1, "rate": "200 tuples/s"}
TRACE: dict[str, Any] = {"seed": 1, "rate": 200.0}


def local(peers: int = 6, **options: Any) -> Simulation:
    settings: dict[str, Any] = {"network": "local", "cores": 1, "seed": 3} | options
    return Simulation(peers, **settings)


def sums(seconds: int = 6, **requirements: Any) -> Plan:
    packets = source("packets", duration=f"{seconds} s", id="packets", **PACKETS)
    wide = packets.filter("bytes > 1000", id="wide")
    return wide.aggregate(by="source", window="1 s", total="sum(bytes)", id="sums").sink(**requirements)


def expected(seconds: int = 6) -> dict[Any, int]:
    """The greatest window of each source, computed on the trace itself."""
    rows = traces.table({"connector": "packets", "duration": float(seconds), **TRACE})
    found = rows.filter(pl.col("bytes") > 1000)
    windows = found.group_by("source", pl.col("time").dt.truncate("1s").alias("at")).agg(pl.col("bytes").sum())
    return dict(windows.group_by("source").agg(pl.col("bytes").max()).iter_rows())


def greatest(results: pl.DataFrame) -> dict[Any, int]:
    return dict(results.group_by("source").agg(pl.col("total").max()).iter_rows())


# -- what runs ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_run_is_a_function_of_its_seed() -> None:
    def run(seed: int) -> tuple[dict[str, str], list[Any]]:
        simulation = Simulation(12, seed=seed)
        application = simulation.submit(sums(2))
        application.results()
        return application.graph, [(event.kind, event.time, event.peer) for event in simulation.events()]

    assert run(5) == run(5)
    assert run(5) != run(6)


@pytest.mark.slow
def test_a_source_is_read_at_its_own_pace() -> None:
    simulation = local()
    application = simulation.submit(source("packets", duration="4 s", **PACKETS).sink(delay="1 s"))
    began = simulation.now
    application.results()
    assert 3.9 < simulation.now - began < 4.3  # virtual seconds
    assert application.qos()["tuples"] == traces.table({"connector": "packets", "duration": 4.0, **TRACE}).height


def test_tables_and_generators_are_sources() -> None:
    simulation = local(2)
    plan = source(ROWS).filter("v > 1").sink()
    assert simulation.submit(plan).results()["v"].to_list() == [2, 3, 4]
    rows = ({"time": float(number), "v": number} for number in range(5))
    plan = source("python", name="rows", columns={"v": "int"}, rate="10/s", id="rows").sink()
    assert simulation.submit(plan, feeds={"rows": rows}).results()["v"].to_list() == [0, 1, 2, 3, 4]


def test_an_asynchronous_generator_in_a_reference_cycle_is_closed() -> None:
    closed = []

    async def rows() -> AsyncIterator[dict[str, float]]:
        try:
            for number in range(10_000):
                yield {"time": float(number), "v": number}
        finally:
            closed.append("rows")

    simulation = local(2)
    simulation.submit(source(rows(), columns={"v": "int"}, rate="10/s").sink("open")).head(3)
    simulation.itself = simulation  # type: ignore[attr-defined]
    del simulation
    gc.collect()
    assert closed == ["rows"]


@pytest.mark.parametrize("within_a_loop", [False, True])
def test_asynchronous_generators_are_sources(within_a_loop: bool) -> None:
    """They are read on a loop of their own, so also within a notebook's; who stops an application closes its."""
    closed = []

    async def rows(most: int) -> AsyncIterator[dict[str, float]]:
        try:
            for number in range(most):
                await asyncio.to_thread(int)
                yield {"time": float(number), "v": number}
            if most < 5:
                raise ValueError(f"none after {most}")
        finally:
            closed.append(most)

    def use() -> None:
        simulation = local(2)
        whole = simulation.submit(source(rows(5), columns={"v": "int"}, rate="10/s").sink("whole"))
        assert whole.results()["v"].to_list() == [0, 1, 2, 3, 4]
        failing = simulation.submit(source(rows(2), columns={"v": "int"}, rate="10/s").sink("failing"))
        with pytest.raises(ClusterError, match="its feed raised ValueError: none after 2"):
            failing.results()
        stopped = simulation.submit(source(rows(10_000), columns={"v": "int"}, rate="10/s").sink("stopped"))
        assert stopped.head(3).height == 3
        assert closed == [5, 2]
        stopped.stop()
        assert closed == [5, 2, 10_000]
        simulation.submit(source(rows(20_000), columns={"v": "int"}, rate="10/s").sink("open")).head(3)
        simulation.close()
        assert closed == [5, 2, 10_000, 20_000]

    async def used() -> None:
        use()

    if within_a_loop:
        asyncio.run(used())
    else:
        use()


def test_peers_measure_themselves() -> None:
    simulation = local(3)
    samples = simulation.submit(source("peers", interval="1 s").sink()).results(seconds=3.5)
    assert {"cpu", "ping"} == set(samples["metric"])
    assert samples.filter(pl.col("metric") == "ping")["value"].max() == pytest.approx(0.001)
    assert samples["time"].is_sorted()


def test_an_application_that_was_stopped_gets_no_more_rows() -> None:
    simulation = local(2)
    application = simulation.submit(source("packets", **PACKETS).sink())
    assert application.head(20).height == 20
    application.stop()
    before = application.results(wait=False).height
    simulation.run(1.0)
    assert application.results(wait=False).height == before


@pytest.mark.slow
def test_all_rows_are_available_after_waiting_for_the_end() -> None:
    application = local(4).submit(source(ROWS).filter("v > 1").sink())
    assert application.wait() == "finished"
    assert application.results(wait=False)["v"].to_list() == [2, 3, 4]


def test_results_do_not_depend_on_losses_and_repeated_messages() -> None:
    simulation = local(loss=0.03, duplication=0.05, reordering=0.05, seed=7)
    assert greatest(simulation.submit(sums(3)).results()) == expected(3)


@pytest.mark.slow
def test_applications_are_listed_as_those_of_a_cluster() -> None:
    simulation = local()
    assert repr(simulation.applications) == "Applications: 0 running, 0 ended"
    first, second = simulation.submit(sums(2, delay="1 s")), simulation.submit(sums())
    first.results()
    found = simulation.applications
    assert list(found) == [second.id, first.id], "running ones come first"
    assert found[first.id] is first
    shown = repr(found)
    assert shown.startswith("Applications: 1 running, 1 ended")
    assert f'simulation.stop("{second.id}")' in shown
    assert "limit 1 s" in shown
    assert "<table" in found._repr_html_()
    with pytest.raises(KeyError, match=r"application: 'plam-1'; expected .*did you mean 'plan"):
        found["plam-1"]
    assert found["plan"] is second, "the only one that runs has this plan"


def test_a_closed_simulation_answers_what_needs_no_time() -> None:
    with local() as simulation:
        application = simulation.submit(sums())
        heard: list[float] = []
        simulation.listen(lambda: heard.append(simulation.now))
        simulation.run(2)
    assert simulation.closed
    assert application.status == "stopped"
    now, told = simulation.now, len(heard)
    simulation.close()
    assert (simulation.now, len(heard)) == (now, told), "nothing happens twice"
    assert application.results(wait=False).height > 0
    assert "stopped" in str(application.explain())
    assert "closed" in repr(simulation)
    assert "closed" in simulation._repr_html_()
    application.stop()
    with pytest.raises(ClusterError, match=r"stopped: on request; \d+ rows have arrived, which results\(wait=False\)"):
        application.results()
    for change in (
        lambda: simulation.run(1),
        lambda: simulation.submit(sums()),
        lambda: simulation.check(sums()),
        lambda: simulation.kill("peer-1"),
        lambda: simulation.join("new"),
        lambda: simulation.move(application, "sums", "peer-1"),
    ):
        with pytest.raises(ClosedClusterError, match="the simulation is closed; expected an open one"):
            change()


def test_peers_that_admit_in_spite_of_limits_do_so_at_the_set_up_too() -> None:
    simulation = local(3, overload=True, hotspots="off")
    packets = source("packets", rate="10/s", seed=1, id="packets", at="peer-2")
    for cost in ("40 ms", "70 ms"):  # together more than the peer can do
        work = packets.delay(cost=cost, id=f"work of {cost}", at="peer-1")
        assert simulation.submit(work.sink(delay="400 ms"), origin="peer-3").status == "running"


@pytest.mark.slow
def test_an_overload_on_purpose_breaks_its_promise() -> None:
    simulation = local(3, overload=True, hotspots="off")
    application = simulation.submit(source("packets", **PACKETS).delay(cost="8 ms").sink(delay="100 ms"))
    simulation.run(6)
    assert application.qos()["miss_rate"] > 0.5


# -- knobs -------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_backup_takes_over_from_a_killed_peer() -> None:
    simulation = local(8)
    application = simulation.submit(sums(8, availability="degree 2"))
    victim = application.graph["sums"]
    assert victim != application.origin
    simulation.run(2.5)
    simulation.kill(victim)
    assert greatest(application.results()) == expected(8)
    assert application.events().of(TakenOver)
    assert victim not in application.graph.values()
    assert victim not in simulation.peers
    assert {event.subject for event in simulation.events().of(PeerDeclaredDead)} == {victim}


@pytest.mark.slow
def test_a_suspended_peer_is_declared_dead_and_comes_back() -> None:
    simulation = local(5)
    application = simulation.submit(sums(60, delay="1 s"), origin="peer-1")
    idle = next(peer for peer in simulation.peers if peer not in {*application.graph.values(), "peer-1"})
    simulation.suspend(idle)
    simulation.run(15)
    dead = {event.subject for event in simulation.events().of(PeerDeclaredDead)}
    assert dead == {idle}
    simulation.resume(idle)
    simulation.run(10)
    assert not any(each.membership.is_dead(idle) for each in simulation.world.synergy.values())
    assert application.status == "running"


@pytest.mark.slow
def test_a_short_suspension_delays_and_loses_nothing() -> None:
    simulation = local()
    application = simulation.submit(sums(4))
    simulation.run(1.2)
    at = application.graph["sums"]
    simulation.suspend(at)
    simulation.run(0.4)
    simulation.resume(at)
    assert greatest(application.results()) == expected(4)


@pytest.mark.slow
def test_a_cut_link_stalls_a_stream_until_it_is_mended() -> None:
    simulation = local(4)
    plan = source("packets", duration="6 s", id="packets", at="peer-2", **PACKETS).sink(at="peer-1")
    application = simulation.submit(plan)
    simulation.run(1.0)
    simulation.cut("peer-1", "peer-2")
    simulation.run(0.5)
    before = application.results(wait=False).height
    simulation.run(1.5)
    assert application.results(wait=False).height == before
    simulation.mend("peer-2", "peer-1")
    whole = traces.table({"connector": "packets", "duration": 6.0, **TRACE}).height
    assert application.results().height == whole


@pytest.mark.slow
@pytest.mark.parametrize("how", ["reset", "delay", "lose"])
def test_a_short_cut_of_any_kind_loses_nothing(how: str) -> None:
    simulation = local(4)
    plan = source("packets", duration="3 s", id="packets", at="peer-2", **PACKETS).sink(at="peer-1")
    application = simulation.submit(plan)
    simulation.run(1.0)
    simulation.cut("peer-1", "peer-2", "1 s", how=how)
    whole = traces.table({"connector": "packets", "duration": 3.0, **TRACE}).height
    assert application.results().height == whole


@pytest.mark.slow
def test_a_component_moves_and_loses_nothing() -> None:
    simulation = local()
    application = simulation.submit(sums(4))
    simulation.run(1.0)
    to = next(peer for peer in simulation.peers if peer not in application.graph.values())
    simulation.move(application, "sums", to)
    assert application.graph["sums"] == to
    assert [event.to for event in application.events().of(ComponentMoved)] == [to]
    assert greatest(application.results()) == expected(4)


@pytest.mark.slow
def test_the_pace_of_a_source_and_the_load_of_a_peer_can_be_changed() -> None:
    simulation = local(3, hotspots="observe")
    rows = pl.DataFrame({"time": [float(number) for number in range(4000)], "v": range(4000)})
    plan = source(rows, rate="100/s", id="rows").delay(cost="4 ms", id="work").sink(delay="200 ms")
    application = simulation.submit(plan)
    simulation.run(2)
    at = application.graph["work"]

    def arrived(seconds: float) -> int:
        before: int = application.qos()["tuples"]
        simulation.run(seconds)
        after: int = application.qos()["tuples"]
        return after - before

    assert arrived(2) == pytest.approx(200, abs=3)
    simulation.pace(application, "rows", 2.0)
    assert arrived(2) == pytest.approx(400, abs=6)
    simulation.load(at, 0.6)  # 200 tuples/s of 4 ms need .8 of the core, and .4 is left
    assert arrived(3) == pytest.approx(300, abs=30)
    assert [event for event in simulation.events().of(PeerMeasured) if event.peer == at][-1].cpu > 0.9
    assert application.events().of(HotSpotDetected)
    assert application.qos()["delay_max_s"] > 1.0
    simulation.load(at, 0.0)
    simulation.pace(application, "rows", 0.0)
    simulation.run(3)
    assert arrived(1) == 0
    simulation.pace(application, "rows", 1.0)
    assert arrived(1) == pytest.approx(100, abs=3)


@pytest.mark.slow
def test_a_hot_spot_is_cured_by_a_migration() -> None:
    simulation = local(4)
    plan = source("packets", id="packets", **PACKETS).delay(cost="2 ms", id="work").sink(delay="200 ms")
    application = simulation.submit(plan)
    simulation.run(4)
    before = application.graph["work"]
    simulation.load(before, 0.9)
    assert simulation.until(lambda: application.graph["work"] != before, 30.0)


def test_the_cost_of_an_operator_can_be_changed() -> None:
    simulation = local(2, hotspots="off")
    plan = source("packets", id="packets", **PACKETS).delay(cost="1 ms", id="work").sink()
    application = simulation.submit(plan)
    simulation.cost(application, "work", "50 ms")
    simulation.run(4)
    assert application.qos()["delay_max_s"] > 0.5


@pytest.mark.slow
@pytest.mark.parametrize("peers", [8, 60])
def test_a_light_plan_can_be_spread(peers: int) -> None:
    together, apart = local(peers).submit(sums()), local(peers).submit(sums(), spread=True)
    assert len({*together.graph.values()}) < 4
    assert len({*apart.graph.values()}) == 4
    selected = apart.explain().selected
    assert selected is not None
    assert selected.rule.startswith("most peers")


# -- time, views and networks ------------------------------------------------------------------------------------------


def test_virtual_time_passes_only_within_calls() -> None:
    simulation = local(3)
    assert simulation.now == 12.0
    assert simulation.run("500 ms").now == 12.5
    assert simulation.until(lambda: simulation.now >= 13.0, 10.0)
    assert simulation.now < 13.5
    simulation.submit(sums(1))
    words = simulation.step(3)
    assert len(words) == 3
    assert all("→" in each for each in words)


@pytest.mark.slow
def test_a_view_follows_while_time_passes() -> None:
    simulation = local(3)
    application = simulation.submit(sums(5, delay="1 s"))
    view = application.watch()
    assert "running" in view.to_text()
    simulation.run(3)
    assert "tuples/s" in view.to_text()
    assert simulation._listeners
    view.close()
    assert not simulation._listeners
    whole = watch(simulation)
    assert "Cluster of 3 peers" in whole.to_text()
    whole.close()


@pytest.mark.slow
def test_a_simulation_has_the_given_network_and_names_or_those_of_the_paper() -> None:
    matrix = [[0.0, 80.0], [80.0, 0.0]]
    apart = Simulation(2, network=matrix, cores=2)
    assert apart.world.topology.delay("peer-1", "peer-2") == pytest.approx(0.04)
    names = Simulation(["ann", "bob"], network="local")
    assert list(names.peers) == ["ann", "bob"]
    assert set(Simulation(40).world.topology.cores.values()) == {0.5, 1.0, 2.0}


@pytest.mark.slow
def test_five_hundred_peers_execute_a_plan() -> None:
    simulation = Simulation(500, seed=1)
    assert greatest(simulation.submit(sums(2, delay="2 s")).results()) == expected(2)


def test_a_stream_continues_after_a_point() -> None:
    params = {"connector": "packets", "duration": 1.0, "seed": 1, "rate": 100.0, "speed": 1.0}

    def positions(since: Any) -> list[int]:
        entries, paced = opened(params)
        reading = PacedSource(entries, paced=paced, now=0.0, since=since)
        return [item.position for item, _ in reading.take(math.inf) if isinstance(item, Batch)]

    from synergy_nb.dataflow.streams.log.values import ORIGIN, Point

    whole = positions(ORIGIN)
    rest = positions(Point(whole[5], -(1 << 63)))
    assert rest == whole[5:]


def test_rows_enter_at_a_rate() -> None:
    reading = PacedSource(timed(ROWS.with_columns(pl.col("time").cast(pl.Datetime("us"))), 2.0), paced=True, now=5.0)
    born = [at for item, at in reading.take(math.inf) if isinstance(item, Batch)]
    assert born == [5.0, 5.5, 6.0, 6.5]


@pytest.mark.parametrize("clock", ["time", "@timestamp"])
def test_a_table_of_many_years_ends(clock: str) -> None:
    times = pl.Series(
        ["0001-01-01T00:00:00", "1582-10-10T00:00:00", "1900-01-01T00:00:00", "9999-12-31T23:59:59.999999"]
    )
    table = pl.DataFrame({clock: times.str.to_datetime(time_unit="us"), "v": [1, 2, 3, 4]})
    query = source(table, time=clock).aggregate(window="1 h", v="sum(v)")
    assert local(3).submit(query.sink("sums")).results()["v"].to_list() == [1, 2, 3, 4]


def test_a_stated_rate_holds_for_a_table_that_takes_hours() -> None:
    times = pl.Series([0, 86400, 2 * 86400]) * 1_000_000
    days = pl.DataFrame({"time": times.cast(pl.Datetime("us")), "v": [1, 2, 3]})
    reader = RowReader("source", {"time": "time", "v": "int"})
    for rate, due in ((3 / (2 * 86400), [0.0, 20.0, 40.0]), (1e-4, [0.0, 1e4, 2e4])):
        assert [at for at, item in tabled(days, reader, rate) if isinstance(item, Batch)] == due


UNORDERED = [{"time": time, "v": 1} for time in (10.0, 12.0, 11.0, 3.0, 4.0, 30.0)]
COLUMNS = {"time": "time", "v": "int"}


def test_late_rows_are_dropped_counted_and_journaled() -> None:
    simulation = local()
    query = source(iter(UNORDERED), columns=COLUMNS, lateness="2 s", rate="2 tuples/s")
    application = simulation.submit(query.aggregate(window="10 s", n="count(*)").sink("counts"))
    assert application.results()["n"].to_list() == [3, 1]
    assert application.qos()["late"] == 2
    assert "late at source: 2 rows dropped" in repr(application)
    told = application.events().of(LateRows)
    assert [(each.operator, each.dropped) for each in told] == [("source", 2)]


def test_rows_that_cannot_be_are_refused_before_anything_starts() -> None:
    simulation = local(3)
    query = source("python", name="n", columns=COLUMNS).sink("rows")
    used = iter(row for row in UNORDERED)
    list(used)
    for given, message in (
        ("text", "source: rows: a str; expected a pandas, Polars or Arrow table"),
        (used, "source: rows: a generator that has been read to its end; expected a new one"),
        (pl.DataFrame({"time": [0], "V": [1]}), "source: column 'v' is missing; expected int, found time, V"),
    ):
        with pytest.raises(FeedError, match=re.escape(message)):
            simulation.submit(query, feeds={"n": given})
    assert not simulation.applications


def test_the_rows_before_an_error_of_their_program_come_first() -> None:
    rows = ({"time": 1.0 / left, "v": left} for left in (2, 1, 0))
    entries = tabled(rows, RowReader("source", COLUMNS), 2.0)
    assert [isinstance(next(entries)[1], Batch) for _ in range(4)] == [True, False, True, False]
    with pytest.raises(FeedError, match="its feed raised ZeroDivisionError"):
        next(entries)


def test_a_source_has_the_rows_before_an_error_and_then_the_error() -> None:
    reading = PacedSource(tabled(UNORDERED, RowReader("source", COLUMNS), 2.0), paced=True, now=0.0)
    rows = [item.table for item, _ in reading.take(math.inf) if isinstance(item, Batch)]
    assert pl.concat(rows)["time"].dt.epoch("s").to_list() == [10, 12]
    assert reading.due < math.inf
    with pytest.raises(FeedError, match="lateness='1 s'"):
        reading.take(math.inf)


# -- bad input ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Simulation(0), "peers: 0; expected a number of peers"),
        (lambda: Simulation(["a", "a"]), "each once"),
        (lambda: Simulation(2, network="wid area"), "did you mean 'wide area'"),
        (lambda: Simulation(2, network="none.npz"), "expected an .npz file"),
        (lambda: Simulation(2, network=np.ones((2, 3))), "expected a square matrix"),
        (lambda: Simulation(2, network=3), "network: 3; expected"),
        (lambda: Simulation(2, cores=-1), "cores: -1; expected a positive number"),
        (lambda: Simulation(2, loss=1.0), "loss: 1.0; expected a probability"),
        (lambda: Simulation(2, hotspots="maybe"), "hotspots: 'maybe'"),
        (lambda: Simulation(2, discipline="lifo"), "discipline: 'lifo'"),
        (lambda: Simulation(2, composition=3), "composition: 3; expected a CompositionConfig"),  # type: ignore[arg-type]
        (
            lambda: Simulation(2, secrets={"k": "a token"}),
            "secrets: 'k': it is something else; expected 'env:",
        ),
        (lambda: Simulation(2, seed=-1), "seed: -1; expected an integer"),
    ],
)
def test_a_wrong_argument_is_refused_by_name(make: Callable[[], Simulation], message: str) -> None:
    with pytest.raises(ValueError, match="^" if message.startswith("^") else None) as refused:
        make()
    assert message in str(refused.value)


@pytest.fixture(scope="module")
def small() -> Simulation:
    simulation = local(3)
    simulation.submit(source("packets", id="packets", **PACKETS).filter("bytes > 0", id="all").sink())
    return simulation


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda it: it.cut("peer-1", "peer-2", "soon"), "seconds: 'soon'; expected a duration"),
        (lambda it: it.cut("peer-1", "peer-2", how="delays"), "how: 'delays'; expected one of reset, delay, lose"),
        (
            lambda it: it.pace("packet-1", "packets", 2),
            "application: 'packet-1'; expected the id or the plan's name",
        ),
        (lambda it: it.pace("plan-1", "packet", 2), "did you mean 'packets'"),
        (lambda it: it.cost("plan-1", "all", "-1 s"), "seconds: '-1 s'"),
        (lambda it: it.move("plan-1", "all", "peer-8"), "to: 'peer-8'; expected a peer"),
        (lambda it: it.run("x"), "seconds: 'x'; expected a duration"),
        (lambda it: it.step(0), "messages: 0; expected a number"),
        (lambda it: it.until(True), "condition: True; expected a function"),
        (lambda it: it.submit(3), "expected a Plan"),
        (lambda it: it.submit(sums(), origin="peer-7"), "origin: 'peer-7'; expected"),
        (lambda it: it.submit(sums(), placement="best"), "placement: 'best'"),
        (lambda it: it.submit(sums(), placement="resilient", spread=True), "spread: True; expected False"),
        (lambda it: it.submit(sums(availability="degree 2"), spread=True), "spread: True; expected False"),
        (lambda it: it.applications["plan-1"].results("out"), "sink: 'out'; expected one of sink"),
    ],
)
def test_a_wrong_request_is_refused_by_name(small: Simulation, act: Callable[[Simulation], Any], message: str) -> None:
    with pytest.raises((ClusterError, ValueError, PlanError)) as refused:
        act(small)
    assert message in str(refused.value)


def test_a_killed_peer_is_named() -> None:
    simulation = local(2)
    simulation.kill("peer-2")
    with pytest.raises(ClusterError, match="'peer-2' was killed"):
        simulation.suspend("peer-2")


@pytest.mark.slow
def test_a_simulation_loads_no_runtime() -> None:
    code = "import sys, synergy_nb; synergy_nb.Simulation; print('distributed' in sys.modules, 'dask' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["False", "False"]
