"""What a plan would cost: peers decide on it as on any other, commit nothing, and release all that probes reserved."""

from __future__ import annotations

from collections.abc import Mapping
from threading import Event
from typing import Any

import pytest

from synergy_nb import Cluster, NotAdmitted, source
from synergy_nb.events import ApplicationRunning, ComponentDeployed, GraphSelected, RequestSubmitted
from synergy_nb.notebook._plan_runs import runs_on
from synergy_nb.plan import Plan
from synergy_nb.simulator.simulation import Simulation
from synergy_nb.widgets._journal_series import JournalSeries
from synergy_nb.widgets._status_text import status_pieces
from synergy_nb.widgets.plan_editor import PlanEditor
from tests.waiting import DEADLINE, asked_until


def query(**options: object) -> Plan:
    packets = source("packets", seed=1, rate="200 tuples/s")
    return packets.filter("bytes > 1000").project("link", "bytes").sink("large", delay="2 s", **options)  # type: ignore[arg-type]


@pytest.fixture
def simulation() -> Simulation:
    return Simulation(peers=12, seed=3)


def held(simulation: Simulation) -> dict[str, tuple[float, set[str]]]:
    """What each peer has promised, and the requests that hold something there."""
    ledgers = {name: simulation.world.synergy[name].ledger for name in simulation.peers}
    return {name: (ledger.load, set(ledger.requests)) for name, ledger in ledgers.items()}


@pytest.mark.parametrize("options", [{}, {"availability": "degree 2"}, {"availability": "active 2"}], ids=str)
def test_a_trial_finds_the_graph_and_leaves_nothing_behind(simulation: Simulation, options: dict[str, str]) -> None:
    plan = query(**options)
    before, seen = held(simulation), list(simulation.journal)[-1].sequence + 1
    during: list[dict[str, tuple[float, set[str]]]] = []
    leave = simulation.listen(lambda: during.append(held(simulation)))
    tried = simulation.check(plan, origin="peer-4")
    leave()
    simulation.run("1 s")  # releases arrive
    assert held(simulation) == before
    assert tried.admitted
    assert {name.partition("~")[0] for name in tried.peers} == set(plan.operators)
    assert set(tried.peers.values()) <= set(simulation.peers)
    assert tried.peers["sink"] == "peer-4"
    assert tried.text.startswith(f"would be admitted: {len(tried.peers)} operators on ")
    assert str(tried) == tried.text
    name = next(event.subject for event in simulation.journal.since(seen) if isinstance(event, RequestSubmitted))
    assert not simulation.journal.about(name, ApplicationRunning)
    assert not simulation.journal.about(name, ComponentDeployed)
    assert plan.qos.active or any(each != before for each in during)  # probes had reserved


def test_a_submission_after_a_trial_gets_the_graph_that_was_promised(simulation: Simulation) -> None:
    tried = simulation.check(query(), origin="peer-4")
    running = simulation.submit(query(), origin="peer-4")
    assert running.graph == tried.peers
    selected = [event.peers for event in simulation.journal if isinstance(event, GraphSelected)]
    assert selected[-1] == selected[-2]
    running.stop()


def test_views_do_not_show_trials(simulation: Simulation) -> None:
    simulation.check(query())
    readings = JournalSeries(None, simulation.names)
    readings.read(simulation.journal)
    shown = {run.application for run in readings.runs.values()}
    assert shown <= set(simulation.applications)
    assert status_pieces(readings)["head"]["status"] in ("idle", "running")


def test_a_plan_that_would_be_refused_says_why(simulation: Simulation) -> None:
    plan = source("packets", rate="1 M tuples/s").delay("10 ms").sink("slow")
    tried = simulation.check(plan)
    assert (tried.admitted, tried.peers) == (False, {})
    with pytest.raises(NotAdmitted) as refused:
        simulation.submit(plan)
    assert tried.text.startswith("would be refused: ")
    assert tried.text.removeprefix("would be refused: ").split()[0] in str(refused.value)


@pytest.mark.slow
def test_streams_that_run_are_shared(simulation: Simulation) -> None:
    running = simulation.submit(query())
    simulation.run("8 s")  # its streams are published
    other = source("packets", seed=1, rate="200 tuples/s").filter("bytes > 1000").count(window="1 s").sink("count")
    tried = simulation.check(other)
    assert "not executed again, as a stream that runs is shared: source" in tried.text
    assert "source" not in tried.peers
    assert tried.peers["filter"] == running.graph["filter"]
    running.stop()


@pytest.mark.slow
def test_a_live_cluster_tries_a_plan() -> None:
    with Cluster(peers=3, cores=1.0, spark=False) as cluster:
        _tried_live(cluster)


def _tried_live(cluster: Cluster) -> None:
    tried = cluster.check(query(), origin="peer-2")
    assert tried.peers["sink"] == "peer-2"
    assert not cluster.applications
    running = cluster.submit(query(), origin="peer-2")
    assert list(cluster.applications) == [running.id]
    running.stop(collect=False)

    def complete(live: Mapping[str, Any]) -> bool:  # what peers tell of a plan comes one after the other
        return bool(live["queues"]) and set(live["peers"]) == set(query().operators)

    editor, drawn, ended = PlanEditor(query().to_yaml(), runs=runs_on(cluster)), Event(), Event()
    editor.observe(lambda change: drawn.set() if complete(change["new"]) else None, "live")
    editor.observe(lambda change: None if change["new"]["running"] else ended.set(), "document")
    application = editor.submit()
    assert drawn.wait(DEADLINE)
    assert {at.rpartition("/")[2] for at in editor.live["peers"].values()} <= set(cluster.peers)
    assert set(editor.live["peers"]) == set(application.graph) == set(query().operators)
    asked_until(lambda: application.latest(5).height)  # a look, which takes nothing
    ended.clear()
    editor.stop()
    assert ended.wait(DEADLINE)
    assert application.wait(timeout="1 min") == "stopped"
    assert application.results().height == application.qos()["tuples"] > 0, "Stop loses no results"
    assert application.latest(2).equals(application.results().tail(2))
    editor.plan = source("packets", seed=1, rate="2000 tuples/s", count=50).sink("all", delay="30 s")
    finished = editor.submit()
    assert finished.wait(timeout="1 min") == "finished"
    assert finished.latest(20).height == 20
    editor.stop()
    assert sum(table.height for table in finished) == 50, "nor does it those of a plan that has finished"
    editor.close()
    refused = cluster.check(source("packets", rate="1 M tuples/s").delay("10 ms").sink("slow"))
    assert refused.text.startswith("would be refused: ")
