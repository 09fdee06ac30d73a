"""Composition on the kernel together with tuples in the flow simulator, the base of the simulated claims."""

from __future__ import annotations

import math
from typing import Any

import pytest

from synergy_experiments.chapters import find
from synergy_experiments.framework import parameters, runner
from synergy_experiments.worlds.composed_requests import Composed, compose, executed
from synergy_experiments.worlds.scenario import Outcome, Scenario
from synergy_experiments.worlds.sweeps import SIMULATED, scenario
from synergy_nb.plan.stream_sharing import taps_of
from synergy_nb.simulator.workload import Parameters

SMALL = {"components": 12, "replication": 3, "requests": 12, "sources": 3, "operators": (2, 4), "population": 6}


def small(policy: str = "synergy", **changes: Any) -> Scenario:
    workload = {name: changes.pop(name) for name in list(changes) if name in Parameters.__dataclass_fields__}
    return Scenario(Parameters(**{**SMALL, **workload}), peers=24, policy=policy, window=20.0, **changes)


@pytest.fixture(scope="module")
def shared() -> Outcome:
    return compose(small(), seed=3)


def test_every_request_is_decided_and_measured(shared: Outcome) -> None:
    assert len(shared.served) == 12
    for each in shared.served:
        assert each.status in ("running", "rejected")
        assert each.admitted == bool(each.peers)
        if each.admitted:
            assert each.tuples > 0
            assert each.plan is not None
            assert set(each.peers) == set(each.plan.operators)
            assert 0.0 < each.own_delay <= each.delay
            assert 0.0 < each.discovery < each.setup < 10.0
    metrics = shared.metrics()
    assert metrics["success"] == sum(each.success for each in shared.served) / 12
    assert metrics["setup"] == pytest.approx(metrics["discovery"] + metrics["probing"])
    assert 0.0 < metrics["load"] < metrics["most_load"] < 1.0
    assert shared.probes == metrics["all_probes"] == 12 * metrics["probes"]
    assert shared.messages > shared.probes


def test_synergy_shares_streams_and_the_flow_simulator_executes_them_once(shared: Outcome) -> None:
    sharing = [each for each in shared.served if each.plan is not None and taps_of(each.plan)]
    assert len(sharing) >= 3
    alone = [each for each in shared.served if each.admitted and each not in sharing]
    assert all(each.own_delay == each.delay for each in alone)
    assert all(each.own_delay < each.delay for each in sharing)
    for each in sharing:
        assert each.plan is not None
        application = executed("again", each.plan, each.peers)
        assert not set(taps_of(each.plan)) & set(application.components)
    without = compose(small("composition"), seed=3)
    assert sum(shared.loads) < sum(without.loads)
    assert shared.component_tuples < without.component_tuples


def test_a_run_is_a_function_of_its_seed(shared: Outcome) -> None:
    again = compose(small(), seed=3)
    assert again.metrics() == shared.metrics()
    assert [each.peers for each in again.served] == [each.peers for each in shared.served]
    assert compose(small(), seed=4).metrics() != shared.metrics()


def test_policies_meet_the_same_network_and_the_same_requests() -> None:
    one, other = (Composed(small(policy), seed=5) for policy in ("synergy", "random"))
    assert one.workload is other.workload
    assert one.topology is other.topology
    assert small().world(6)[1].requests != one.workload.requests


@pytest.mark.parametrize("policy", ["synergy", "composition+projection", "composition"])
def test_peers_never_promise_more_than_they_have(policy: str) -> None:
    composed = Composed(small(policy, costs=(0.01, 0.05)), seed=2)
    composed.stabilise()
    composed.serve()
    assert all(each.ledger.overbooked() is None for each in composed.peers.values())
    outcome = composed.count()
    assert outcome.metrics()["most_load"] < 1.15  # of random arrivals in a window, where promises are of means


def test_policies_that_check_nothing_admit_everything() -> None:
    for policy in ("greedy", "random"):
        outcome = compose(small(policy, costs=(0.05, 0.1)), seed=2)
        assert all(each.admitted for each in outcome.served)
        assert max(outcome.loads) > 1.0


def test_feedback_reaches_the_peers_of_an_application() -> None:
    composed = Composed(small(requests=2), seed=3)
    composed.stabilise()
    composed.serve()
    composed.advance(composed.simulation.now + 10.0)
    for served in composed.served.values():
        measured = composed.flow.delays(served.request.name).mean
        assert served.admitted
        for peer in set(served.peers.values()):
            told = composed.peers[peer].session.delay(served.request.name)
            assert told == pytest.approx(measured, rel=0.3)


def test_a_missing_component_is_deployed_where_the_policy_says() -> None:
    rejected = compose(small(missing=1), seed=3)
    assert not any(each.admitted for each in rejected.served)
    deployed = compose(small(missing=1, deployment=""), seed=3)
    assert any(each.admitted for each in deployed.served)
    composed = Composed(small("composition", missing=1, deployment="nearest", requests=3), seed=3)
    composed.stabilise()
    composed.serve()
    near = 0
    for each in composed.served.values():
        for operator, peer in each.peers.items():
            assert each.plan is not None
            if str(each.plan.operators[operator].params.get("component", "")).startswith("new"):
                (upstream,) = (each.peers[up] for up in each.plan.upstream(operator))
                others = [other for other in composed.topology.peers if other != upstream]
                ranked = sorted(others, key=lambda other: composed.topology.delay(upstream, other))
                assert peer in ranked[:8]
                near += 1
    assert near == sum(each.admitted for each in composed.served.values()) > 0


def test_a_measured_network_has_its_delays(tmp_path: Any) -> None:
    import numpy as np

    rtt = np.full((30, 30), 80.0)
    np.fill_diagonal(rtt, 0.0)
    np.savez(tmp_path / "rtt.npz", rtt_ms=rtt)
    composed = Composed(small(delays=str(tmp_path / "rtt.npz")), seed=1)
    assert composed.topology.mean_delay() == pytest.approx(0.04)


def test_a_scenario_has_the_values_of_its_set_up() -> None:
    setup = {**parameters.at_scale(SIMULATED, "quick"), "costs": (0.001, 0.002), "peers": 30, "choice": "nearest"}
    found = scenario(setup, policy="composition", slack=0.1)
    assert (found.peers, found.choice, found.policy) == (30, "nearest", "composition")
    assert (found.workload.costs, found.workload.slack) == ((0.001, 0.002), 0.1)
    config = found.config()
    assert (config.choice, config.sharing, config.deployment, config.ratio) == ("nearest", "off", "off", 0.1)
    assert scenario(setup, policy="random").config().budget == 1


TINY = {"peers": 24, "components": 12, "replication": 3, "sources": 3, "population": 6, "window": 10.0}


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("C1", {"requests": (6, 12), "network": "transit-stub"}),
        ("C2", {"requests": (6, 12), "network": "transit-stub"}),
        ("C3", {"peers": (12, 16, 20), "requests": 20, "network": "transit-stub"}),
        ("C4", {"requests": 8, "network": "transit-stub"}),
        ("C5", {"requests": (4, 8), "operators": (2, 3)}),
        ("C6", {"requests": (4, 8), "operators": (2, 3), "algorithms": ("composition", "composition+projection")}),
        ("C7", {"requests": (4, 8), "operators": (2, 3)}),
        ("C8", {"replication": (2, 4), "requests": 6, "operators": (2, 3)}),
        ("C9", {"slack": (0.1, 0.5), "requests": 6, "operators": (2, 3)}),
        ("C10", {"repetitions": (0.0, 0.2, 0.4), "requests": (6,), "operators": (2, 3)}),
        ("C11", {"requests": 6, "operators": (2, 3)}),
    ],
)
def test_every_simulated_claim_runs_in_a_tiny_size(name: str, changes: dict[str, Any]) -> None:
    (claim,) = find([name])
    chosen = {key: value for key, value in {**TINY, **changes}.items() if key in claim.parameters}
    (result,) = runner.reproduce([(claim, chosen)], repeat=2)
    assert result.rows
    assert all(math.isfinite(row.value) for row in result.rows)
    shown = {row.metric for row in result.rows}
    assert all(panel.metric in shown for panel in claim.panels)
    assert {row.algorithm for row in result.rows} >= set(chosen.get("algorithms", ()))
    assert result.checks
    assert all(check.rule for check in result.checks)
    assert any(check.verdict != "not comparable" for check in result.checks) or name in ("C6", "C9")
