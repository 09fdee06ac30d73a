"""Plans with active replicas on simulated peers: where replicas are placed, what is refused, and what deaths leave."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import numpy as np
import pytest

from synergy_nb.algorithms.replication.candidate_survey import CandidateAnswer, CandidateQuestion
from synergy_nb.assembly import PeerConfig
from synergy_nb.control.driver_messages import StopApplication
from synergy_nb.control.graph import ComponentGraph, Hop
from synergy_nb.events import ActiveReplicasLost, GraphSelected, ReplicasDeployed, SetupFailed
from synergy_nb.lifecycle.records.members import Member
from synergy_nb.lifecycle.sessions.deploying import remaining_times
from synergy_nb.models.replication_config import ReplicationConfig
from synergy_nb.plan import Plan, PlanError, source
from synergy_nb.plan.derived.active_replicas import original, replicas_of, replicated
from synergy_nb.plan.derived.placement_modes import decider_of
from synergy_nb.reporting.explanation import Explanation
from synergy_nb.simulator.kernel import Uniform
from tests.replication.active_rings import query, ring_of
from tests.simulated import Ring


@pytest.fixture(scope="module")
def ring() -> Ring:
    ring = ring_of(7, 1)
    ring.submit("peer-2", "r", query(delay="1 s"))
    return ring


def test_each_operator_runs_at_as_many_peers_as_the_plan_requires(ring: Ring) -> None:
    report = ring.until_decided("r")
    assert report.status == "running", report.reason
    plan = replicated(query(delay="1 s"), 3)
    assert set(report.peers) == set(plan.operators)
    for group in replicas_of(plan).values():
        where = {report.peers[name] for name in group}
        assert len(where) == 3
        assert "peer-2" not in where, "the application depends on its origin anyway"
    ring.run(1.0)
    at = report.peers["counts~1"]
    assignment = ring.deployed[at, "r", "counts~1"]
    assert assignment.replica_of == ring.deployed[report.peers["counts"], "r", "counts"].replica_of == "counts"
    assert [feed.operator for feed in assignment.inputs] == ["large", "large~1", "large~2"]
    assert assignment.ports == (0, 0, 0)


def test_the_journal_has_costs_and_the_delay_over_the_fastest_replicas(ring: Ring) -> None:
    ring.until_decided("r")
    (deployed,) = ring.events("r", ReplicasDeployed)
    assert {len(peers) for peers in deployed.replicas.values()} == {3}
    plan = query()
    inner, ends = plan.bandwidth("large") + plan.bandwidth("counts"), plan.bandwidth("packets")
    ends += plan.bandwidth("several")
    assert deployed.bandwidth_alone == pytest.approx(inner + ends)
    assert deployed.bandwidth == pytest.approx(9 * inner + 3 * ends)
    assert deployed.cost > 3 * deployed.cost_alone > 0.0
    (chosen,) = ring.events("r", GraphSelected)
    assert chosen.delay_s < 0.1
    account = str(Explanation("r", ring.events("r"), {}))
    assert "active replicas: bandwidth" in account
    assert "counts (aggregate): its replicas agree without a sort" in account


def test_streams_of_replicas_are_not_shared() -> None:
    ring = ring_of(6, 2)
    ring.submit("peer-0", "r", query())
    assert ring.until_decided("r").status == "running"
    ring.run(5.0)
    offered = [component for each in ring.synergy.values() for component in each.session.components.items()]
    assert {operator for (_, operator), component in offered if component.offered} == {"packets"}


def test_without_a_further_peer_an_operator_has_fewer_replicas_and_the_journal_names_it() -> None:
    ring = ring_of(3, 3)
    ring.submit("peer-0", "r", query("active 3", replica_distance="1 us"))
    report = ring.until_decided("r")
    assert report.status == "running", report.reason
    (deployed,) = ring.events("r", ReplicasDeployed)
    assert {len(peers) for peers in deployed.replicas.values()} == {3}, "the origin, too, where there are no others"
    ring.submit("peer-0", "s", query("active 5"))
    assert ring.until_decided("s").status == "running"
    (fewer,) = ring.events("s", ReplicasDeployed)
    assert {len(peers) for peers in fewer.replicas.values()} == {3}
    assert "2 fewer than required" in str(Explanation("s", ring.events("s"), {}))


def test_a_distance_that_no_two_candidates_have_is_refused_with_the_longest() -> None:
    ring = ring_of(5, 4)
    ring.submit("peer-0", "r", query(replica_distance="5 s"))
    report = ring.until_decided("r")
    assert report.status == "rejected"
    assert "qos.replica_distance: 5000 ms; expected less than" in report.reason


def test_replicas_are_further_apart_than_the_plan_requires() -> None:
    ring = Ring(8, seed=5, network=Uniform(0.005, 0.05, 5), config=lambda n: PeerConfig(f"peer-{n}", seed=n))
    ring.submit("peer-0", "r", query("active 2", replica_distance="60 ms"))
    report = ring.until_decided("r")
    assert report.status == "running", report.reason
    (deployed,) = ring.events("r", ReplicasDeployed)
    pairs = [peers for peers in deployed.replicas.values() if len(peers) == 2]
    assert pairs
    for one, other in pairs:
        seen = ring.synergy[one].latency.one_way(other), ring.synergy[other].latency.one_way(one)
        assert sum(way for way in seen if way is not None) / sum(way is not None for way in seen) > 0.03


def test_a_plan_without_capacity_for_its_replicas_is_refused_by_name() -> None:
    ring = ring_of(4, 6, cores=1e-6)
    ring.submit("peer-0", "r", query())
    report = ring.until_decided("r")
    assert report.status == "rejected"
    assert "operator packets: no candidate would execute it: peer-0: no capacity is left" in report.reason


def test_a_delay_that_no_replica_meets_is_refused() -> None:
    ring = ring_of(4, 7)
    ring.submit("peer-0", "r", query(delay="1 ms"))
    report = ring.until_decided("r")
    assert report.status == "rejected"
    assert "exceeds 0.001 s" in report.reason


@pytest.mark.slow
def test_a_peer_that_refuses_to_commit_is_left_out_of_the_next_placement(monkeypatch: pytest.MonkeyPatch) -> None:
    ring = ring_of(7, 11)
    ring.submit("peer-0", "r", query("active 2"))
    first = ring.until_decided("r").peers["counts"]
    ring.simulation.report("peer-0", StopApplication("r"))
    ring.run(3.0)

    def refusal(member: Member, operator: str, *, agreed: bool = False) -> str:
        return "QoS impact on s"

    monkeypatch.setattr(ring.synergy[first].session.impacts, "refusal", refusal)
    ring.submit("peer-0", "t", query("active 2"))
    report = ring.until_decided("t")
    assert report.status == "running", report.reason
    assert first not in report.peers.values()
    assert len(ring.events("t", SetupFailed)) == 1
    for each in ring.synergy.values():
        monkeypatch.setattr(each.session.impacts, "refusal", refusal)
    ring.submit("peer-0", "u", query("active 2"))
    report = ring.until_decided("u")
    assert report.status == "rejected"
    assert "QoS impact on s" in report.reason
    assert len(ring.events("u", SetupFailed)) == 3, "it is given up"


@pytest.mark.parametrize("seed", range(4))
def test_lost_doubled_and_late_messages_leave_a_decision_and_nothing_else(seed: int) -> None:
    ring = ring_of(6, 20 + seed)
    simulation = ring.simulation
    simulation.loss = simulation.duplication = simulation.reordering = 0.15
    ring.submit("peer-0", "r", query())
    report = ring.until_decided("r")
    assert report.status in ("running", "rejected"), report.reason
    if report.status == "running":
        (deployed,) = ring.events("r", ReplicasDeployed)[-1:]
        assert all(len(set(peers)) == len(peers) for peers in deployed.replicas.values())
    simulation.loss = simulation.duplication = simulation.reordering = 0.0
    ring.simulation.report("peer-0", StopApplication("r"))
    ring.run(15.0)
    for each in ring.synergy.values():
        assert each.survey.idle
        assert not each.ledger.requests
    assert not ring.overbooked()


def test_peers_that_do_not_answer_are_left_out() -> None:
    ring = ring_of(6, 30)
    ring.simulation.crash("peer-3")
    ring.submit("peer-0", "r", query())
    report = ring.until_decided("r")
    assert report.status == "running", report.reason
    assert "peer-3" not in report.peers.values()


# -- deaths ----------------------------------------------------------------------------------------------------------


def test_an_application_goes_on_until_the_last_replica_of_an_operator_dies() -> None:
    ring = ring_of(8, 8)
    ring.submit("peer-0", "r", query())
    report = ring.until_decided("r")
    assert report.status == "running", report.reason
    for number, expected in ((0, 2), (1, 1)):
        victim = ring.reports["r"][-1].peers[f"counts~{number}" if number else "counts"]
        ring.crash(victim)
        ring.run(15.0)
        lost = ring.events("r", ActiveReplicasLost)[-1]
        assert lost.left["counts"] == expected
        report = ring.reports["r"][-1]
        assert report.status == "running"
        assert victim not in report.peers.values()
        where = report.peers["counts~2"]
        slots = [feed.operator for feed in ring.deployments[where, "r"].assignments["counts~2"].inputs]
        assert len(slots) == 3
        assert {slot for slot in slots if slot} == {name for name in report.peers if name.startswith("large")}
    assert "lost: " in str(Explanation("r", ring.events("r"), {}))
    ring.crash(report.peers["counts~2"])
    ring.run(15.0)
    report = ring.reports["r"][-1]
    assert report.status == "failed"
    assert "died (counts~2" in report.reason


def test_a_replica_that_fails_ends_alone() -> None:
    ring = ring_of(6, 9)
    ring.submit("peer-0", "r", query("active 2"))
    report = ring.until_decided("r")
    where = report.peers["large~1"]
    ring.run(2.0)
    ring.simulation.call(where, ring.synergy[where].session.component_failed, "r", "large~1", "out of memory")
    ring.run(3.0)
    assert ring.reports["r"][-1].status == "running"
    assert "large~1" not in ring.reports["r"][-1].peers
    assert (where, "r", "large~1") not in ring.deployed
    other = report.peers["large"]
    ring.simulation.call(other, ring.synergy[other].session.component_failed, "r", "large", "out of memory")
    ring.run(3.0)
    assert ring.reports["r"][-1].status == "failed"
    assert "out of memory" in ring.reports["r"][-1].reason


def test_a_replica_moves_but_never_to_a_peer_with_another_one() -> None:
    ring = ring_of(6, 10)
    ring.submit("peer-0", "r", query("active 2"))
    where = ring.until_decided("r").peers
    ring.run(2.0)
    session, outcome = ring.synergy["peer-0"].session, list[str]()
    with pytest.raises(ValueError, match=f"'{where['counts~1']}'; another replica of counts is there"):
        session.moves.move("r", "counts", where["counts~1"], outcome.append)
    ring.crash(where["counts~1"])
    ring.run(15.0)
    with pytest.raises(ValueError, match="operator: 'counts~1'; it was lost"):
        session.moves.move("r", "counts~1", where["counts"], outcome.append)


# -- values ----------------------------------------------------------------------------------------------------------


def test_the_delay_is_that_of_the_fastest_replica_of_each_port_as_by_enumeration() -> None:
    one = source("packets", seed=1, id="a").filter("bytes > 1", id="f")
    plan = one.union(source("packets", seed=2, id="b"), id="u").project("bytes", id="p").sink(id="out")
    expanded = replicated(plan, 2)
    rng = np.random.default_rng(3)
    for _ in range(20):
        hops = {name: Hop(name, name, 1.0, 1.0, float(rng.uniform(0, 1)), 0.0) for name in expanded.operators}
        links = {
            (up, name): (1.0, float(rng.uniform(0, 1)))
            for name, each in expanded.operators.items()
            for up in each.inputs
        }
        graph = ComponentGraph(hops, links)

        def reached(name: str, hops: dict[str, Hop] = hops, links: dict = links) -> float:  # type: ignore[type-arg]
            node = expanded.operators[name]
            ports = node.ports or tuple(range(len(node.inputs)))
            arrived = [
                min(
                    reached(up) + links[up, name][1]
                    for up, port in zip(node.inputs, ports, strict=True)
                    if port == number
                )
                for number in sorted(set(ports))
            ]
            return hops[name].processing + max(arrived, default=0.0)

        assert graph.delay(expanded) == pytest.approx(reached("out"))
        routes = graph.routes(expanded)
        assert len(routes) == len(plan.routes)
        longest = max(
            sum(hops[name].processing for name in route) + sum(links[edge][1] for edge in pairwise(route))
            for route in routes
        )
        assert longest == pytest.approx(graph.delay(expanded))


def test_messages_of_the_survey_survive_their_encoding() -> None:
    for message in (
        CandidateQuestion(3, "r", query().to_bytes(), ("a", "b")),
        CandidateAnswer(
            3, 1.0, 0.5, {"f": Hop("f", "a", 0.5, float("inf"), 1e-3, 0.0)}, {"g": "no capacity is left"}, {}
        ),
    ):
        data = msgspec.msgpack.encode(message)
        assert msgspec.msgpack.decode(data, type=type(message)) == message


# -- bad input -------------------------------------------------------------------------------------------------------


def test_wrong_requirements_of_replicas_are_one_error_each() -> None:
    expected = "qos.availability: 'active 9'; expected at most 8, a peer for each replica"
    with pytest.raises(ValueError, match=expected):
        decider_of(query("active 9"), "composed", 8)
    with pytest.raises(ValueError, match="placement: 'resilient'; expected 'composed'"):
        decider_of(query(), "resilient")
    with pytest.raises(PlanError, match="engine"):
        source("packets").filter("bytes > 1", engine="spark").sink("out", availability="active 2")
    with pytest.raises(PlanError, match="either active replicas or degree 2"):
        Plan(query().operators.values(), {"degree": 2, "active": 3})
    with pytest.raises(PlanError, match="only active replicas are kept apart"):
        query("degree 2", replica_distance="30 ms")
    with pytest.raises(PlanError, match=r"qos\.replica_distance: '-3 ms'"):
        query(replica_distance="-3 ms")
    plan = query(replica_distance="30 ms")
    assert Plan.from_yaml(plan.to_yaml()) == plan


def test_more_replicas_retained_than_there_are_is_refused() -> None:
    config = ReplicationConfig(theta="60 %", k_min=3)
    ring = Ring(5, seed=10, config=lambda n: PeerConfig(f"peer-{n}", seed=n, replication=config))
    ring.submit("peer-0", "r", query("active 2"))
    report = ring.until_decided("r")
    assert report.status == "rejected"
    assert "k_min: 3; expected at most 2, as availability is 'active 2'" in report.reason


def test_the_time_that_is_left_is_that_to_the_first_of_the_replicas_downstream() -> None:
    plan = replicated(query("active 2"), 2)
    fast = [name for name in plan.operators if "~" not in name]
    reached = {name: 0.01 * fast.index(original(name)) + ("~" in name) for name in plan.operators}
    left = remaining_times(reached, plan)
    for one, other in pairwise(fast):
        assert left[one] == pytest.approx(reached[other] - reached[one] + left[other])
