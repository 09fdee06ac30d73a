"""Kept runs as linked charts: their rows, and the same runs in a simulated cluster with another placement."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from synergy_nb import Simulation, SynergyError, explore, runs, source
from synergy_nb.events import ApplicationStopped, PeerMeasured, SinkMeasured
from synergy_nb.explore._runs_view import RunsView
from synergy_nb.plan import Plan
from synergy_nb.recording.kept_runs import Runs, RunWriter


def _query(name: str, seed: int) -> Plan:
    packets = source("packets", seed=seed, rate="100 tuples/s", count=200, id="in")
    return packets.delay("2 ms", id="work").sink(name, id="out", delay="1 s")


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Two runs at once on three peers, both of which have the peers' events."""
    folder = tmp_path_factory.mktemp("runs")
    with Simulation(peers=3, cores=1, network="local", seed=1) as simulation:
        applications = [simulation.submit(_query(name, seed)) for seed, name in enumerate(("one", "two"))]
        for each in applications:
            each.wait()
        for each in applications:
            events = [event for event in simulation.events() if isinstance(event, PeerMeasured)] + list(each.events())
            RunWriter(folder, each.id, each.plan).write(
                events, simulation.names, status="finished", reason="", submitted=1000.0, ended=1003.0, qos={},
                graph=each.graph,
            )  # fmt: skip
    return runs(folder)


@pytest.fixture(scope="module")
def view(kept: Runs) -> RunsView:
    return explore.trace(kept)


def test_the_rows_of_runs_are_their_measurements_and_events_each_once(view: RunsView, kept: Runs) -> None:
    rows = view.clear().table()
    events = {event for run in kept for event in map(repr, run.events())}
    measured = [event for event in kept[0].events() if isinstance(event, PeerMeasured)]
    assert rows.filter(pl.col("what") == "peer").height == len(measured)
    assert rows.filter(~pl.col("what").is_in(["operator"])).height == len(events)
    sinks = kept["one"].events().of(SinkMeasured)
    own = rows.filter((pl.col("what") == "sink") & (pl.col("run") == "one"))
    assert own["delay_s"].to_list() == [event.delay_p99_s for event in sinks]
    assert set(rows["peer"]) <= {"peer-1", "peer-2", "peer-3"}
    assert rows.filter(pl.col("what") == "application_finished")["run"].sort().to_list() == ["one", "two"]
    work = rows.filter(pl.col("operator") == "work", pl.col("rate") > 0.0)
    assert work.height
    assert work["delay_s"].min() >= 0.002  # type: ignore[operator]
    assert [each["column"] for each in view.charts] == [
        "time",
        "peer",
        "run",
        "what",
        "operator",
        "delay_s",
        "late",
        "load",
    ]


def test_a_selection_knows_its_runs_and_their_plan(view: RunsView, kept: Runs) -> None:
    view.clear()
    with pytest.raises(SynergyError, match="plan: rows of one, two; expected rows of one run"):
        view.plan()
    view.select(run="two")
    assert [run.id for run in view.runs()] == [kept["two"].id]
    assert view.plan() == kept["two"].plan
    assert explore.trace(kept["two"]).title == "two"
    assert explore.trace([kept[1], kept[0]]).title == "2 runs"


def test_runs_are_simulated_again_where_they_were_and_elsewhere(view: RunsView, kept: Runs) -> None:
    view.clear()
    before = {run.plan.name: run.graph for run in kept}
    same = view.simulate(graph=before, cores=1, network="local", seed=2)
    assert {each.plan.name: each.graph for each in same.applications.values()} == before
    assert all(each.results().height == 200 for each in same.applications.values())
    there = min({"peer-1", "peer-2", "peer-3"} - {each["work"] for each in before.values()})
    other = view.select(run="one").simulate(graph={"one": {"work": there}}, cores=1, network="local", seed=2)
    (application,) = other.applications.values()
    assert application.graph["work"] == there
    application.wait()
    taken = [
        part.processing_s for event in other.events().of(PeerMeasured) for part in event.components
        if part.operator == "work" and part.rate > 0.0
    ]  # fmt: skip
    assert taken
    assert all(each == pytest.approx(0.002, rel=0.2) for each in taken)
    for graph, words in (
        ({"three": {}}, "graph: run 'three'; expected some of"),
        ({"one": {"wrk": "peer-1"}}, "graph: operator 'wrk'"),
    ):
        with pytest.raises(SynergyError, match=words):
            view.simulate(graph=graph)


def test_what_cannot_be_simulated_again_is_refused(view: RunsView, tmp_path: Path) -> None:
    with pytest.raises(SynergyError, match="simulate: no row of a run is selected"):
        view.select(what=[], run=None).simulate()
    rows = source({"time": [0.0], "n": [1]}).sink("rows")
    RunWriter(tmp_path, "rows-1", rows).write(
        [ApplicationStopped(2.0, "tcp:a", "rows-1")], {}, status="stopped", reason="", submitted=1.0, ended=2.0, qos={},
        graph={},
    )  # fmt: skip
    with pytest.raises(SynergyError, match="simulate: run rows: the rows of source 'source' came from a program"):
        explore.trace(tmp_path).simulate()
