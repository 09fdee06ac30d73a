"""C1 to C4 on Dask workers: the scenario's peers, requests and delays, and the measurements of its sinks."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from synergy_experiments.chapters import find
from synergy_experiments.flows.workload import Parameters
from synergy_experiments.framework import parameters, runner
from synergy_experiments.worlds.live_requests import live, run_live
from synergy_experiments.worlds.scenario import Scenario

WORKLOAD = Parameters(
    components=6,
    replication=2,
    requests=4,
    operators=(2, 3),
    sources=2,
    population=2,
    costs=(0.001, 0.002),
    slack=300.0,
)


def test_the_cells_on_dask_are_as_many_peers_as_the_machine_carries_with_a_load_in_proportion(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SYNERGY_DATA", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (claim,) = find(["C4"])
    setup = {**parameters.at_scale(claim.parameters, "quick"), "driver": "dask", "dask_peers": 22, "requests": 80}
    setup |= {"components": (100,), "algorithms": ("synergy", "composition", "random")}
    cells = list(claim.cells(setup))
    assert [cell.algorithm for cell in cells] == ["synergy", "composition", "random"]
    for cell in cells:
        (given,) = cell.arguments
        assert isinstance(given, Scenario)
        assert cell.function is live
        assert cell.alone
        assert (given.peers, given.workload.requests, given.workload.components) == (22, 20, 25)
        assert given.workload.arrivals == pytest.approx(9.0 / 4)
        assert given.equal
        assert not given.delays  # no matrix is at hand


def test_a_matrix_of_the_right_name_with_other_delays_is_not_the_measured_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    np.savez(tmp_path / "planetlab-rtt-490.npz", rtt_ms=np.zeros((4, 4)))
    monkeypatch.setenv("SYNERGY_DATA", str(tmp_path))
    (claim,) = find(["C4"])
    setup = parameters.at_scale(claim.parameters, "quick")
    assert setup["network"] == "transit-stub"
    with pytest.raises(ValueError, match=r"'planetlab-rtt-490\.npz' has other contents than those measured"):
        parameters.parse(["network=measured"], [claim.parameters])


@pytest.mark.slow
def test_requests_are_composed_and_executed_by_real_peers(tmp_path: Path) -> None:
    rtt = np.full((6, 6), 40.0)
    np.fill_diagonal(rtt, 0.0)
    np.savez(tmp_path / "rtt.npz", rtt_ms=rtt)
    given = Scenario(
        WORKLOAD, peers=6, delays=str(tmp_path / "rtt.npz"), equal=True, policy="synergy", window=3.0, pings=2.0
    )
    began = time.monotonic()
    outcome = run_live(given, 1)
    took = time.monotonic() - began
    topology, workload = given.world(1)
    assert [each.status for each in outcome.served] == ["running"] * 4
    for each in outcome.served:
        plan = workload.plan(each.request)
        assert set(each.peers) <= set(plan.operators)
        assert set(each.peers.values()) <= set(topology.peers)
        assert each.peers["sink"] == each.request.origin
        hops = sum(
            each.peers[up] != each.peers[operator]
            for operator in each.peers
            for up in plan.upstream(operator)
            if up in each.peers
        )
        assert each.tuples > 5
        assert 0.02 * hops <= each.delay < took
        assert 0.02 < each.discovery < each.setup < took
    assert outcome.probes >= 4
    assert outcome.component_tuples > sum(each.tuples for each in outcome.served)


@pytest.mark.slow
def test_a_claim_runs_on_real_peers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SYNERGY_DATA", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (claim,) = find(["C4"])
    chosen: dict[str, parameters.Value] = {
        "driver": "dask", "dask_peers": 4, "peers": 4, "components": (4,), "replication": 2, "requests": 2,
        "window": 2.0, "algorithms": ("synergy", "composition"), "costs": (0.001, 0.002),
    }  # fmt: skip
    (result,) = runner.reproduce([(claim, chosen)], repeat=1)
    assert {row.x for row in result.rows if row.metric.startswith("set-up")} == {"discovery", "probing", "total"}
    assert {row.algorithm for row in result.rows} == {"synergy", "composition"}
