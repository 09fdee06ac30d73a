"""Sessions of running applications: which confirmations begin one, and what each end leaves behind."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from synergy_nb.assembly import PeerConfig, SynergyPeer
from synergy_nb.control.driver_messages import StopApplication
from synergy_nb.control.peer import Instruct
from synergy_nb.control.roles import Roles
from synergy_nb.dataflow.deployments import Deployment
from synergy_nb.lifecycle.records.messages import Confirm, Graph
from synergy_nb.plan import Plan, source
from tests.composition.plans import chain, diamond
from tests.simulated import Ring, refusals


def test_a_stopped_application_leaves_no_resources_behind() -> None:
    ring = Ring(6, seed=5)
    ring.submit("peer-1", "r", chain())
    ring.until_decided("r")
    ring.simulation.report("peer-1", StopApplication("r"))
    ring.run(2.0)
    assert ring.status("r") == "stopped"
    assert not ring.deployed
    assert all(not each.ledger.requests and not each.session.applications for each in ring.synergy.values())


def test_a_dead_participant_ends_its_application_with_the_reason() -> None:
    ring = Ring(8, seed=13)
    pinned = source("python", name="n", columns={"v": "float"}).delay("1 us", at="peer-4").sink("out")
    ring.submit("peer-0", "r", pinned)
    assert ring.until_decided("r").status == "running"
    ring.crash("peer-4")
    ring.run(15.0)
    assert ring.status("r") == "failed"
    assert "peer-4 died (delay)" in ring.reports["r"][-1].reason
    assert set(ring.deployed) == {("peer-0", "r", "sink")}, "what had been found stays at the sink until it is stopped"
    ring.simulation.report("peer-0", StopApplication("r"))
    assert not ring.deployed
    assert not any(each.ledger.requests for each in ring.synergy.values())
    ring.submit("peer-1", "again", chain())
    assert ring.until_decided("again").status == "running"


def test_a_dead_origin_frees_its_participants() -> None:
    ring = Ring(8, seed=14)
    ring.submit("peer-0", "r", source("python", name="n", columns={"v": "float"}, at="peer-3").sink("out"))
    assert ring.until_decided("r").status == "running"
    ring.crash("peer-0")
    ring.run(20.0)
    assert not ring.deployed
    assert not any(each.ledger.requests for each in ring.synergy.values())


def confirm(query: Plan, operator: str, consumer: str, attempt: int = 1, **changed: Any) -> Confirm:
    """A confirmation of a graph that runs on a, but for its sink at its origin b; changed fields are of the graph."""
    peers = {**dict.fromkeys(query.operators, "a"), "sink": "b"}
    graph = Graph("r", attempt, "b", query.to_bytes(), Roles(peers))
    return Confirm(msgspec.structs.replace(graph, **changed), operator, consumer)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"plan": b"no plan"}, "a plan"),
        ({"roles": Roles({"o0": "a"})}, "peers: for the operators o0; expected one for each of source, o0, sink"),
        (
            {"roles": Roles(dict.fromkeys(("source", "o0", "sink", "nonsense"), "a"))},
            "peers: for the operators source, o0, sink, nonsense",
        ),
        ({"origin": "a"}, "this peer does not lead the application"),
    ],
)
def test_a_malformed_confirmation_is_refused_and_commits_nothing(changed: dict[str, Any], reason: str) -> None:
    synergy = SynergyPeer("a", PeerConfig(name="a"))
    bad = confirm(chain(operators=1), "o0", "sink", **changed)
    assert any(reason in text for text in refusals(synergy.peer.receive("b", bad, 1.0)))
    assert not synergy.session.applications
    assert not synergy.ledger.requests
    assert refusals(synergy.peer.receive("b", confirm(chain(operators=1), "o0", "sink"), 1.0)) == []
    assert synergy.ledger.requests == {"r"}


def test_a_malformed_later_confirmation_does_not_end_the_session() -> None:
    synergy = SynergyPeer("a", PeerConfig(name="a"))
    synergy.peer.receive("b", confirm(chain(operators=1), "o0", "sink"), 1.0)
    bad = confirm(chain(operators=1), "o0", "sink", attempt=2, plan=b"no plan")
    assert len(refusals(synergy.peer.receive("b", bad, 1.0))) == 1
    assert synergy.session.applications == {"r"}
    assert synergy.ledger.requests == {"r"}


def test_a_confirmation_of_an_earlier_attempt_deploys_nothing_of_the_current_one() -> None:
    """Of two consumers, one has confirmed in the first attempt, the other in the second."""
    synergy = SynergyPeer("a", PeerConfig(name="a"))
    query = diamond()
    synergy.peer.receive("b", confirm(query, "o1", "o2", attempt=2), 1.0)
    effects = synergy.peer.receive("b", confirm(query, "o1", "o3", attempt=1), 1.1)
    assert refusals(effects) == ["stale attempt"]
    effects = synergy.peer.receive("b", confirm(query, "o1", "o3", attempt=2), 1.2)
    told = [effect.instruction for effect in effects if isinstance(effect, Instruct)]
    deployments = [each for each in told if isinstance(each, Deployment)]
    assert [
        sorted(name for name in each.assignments if each.assignments[name].active == "a") for each in deployments
    ] == [
        ["o1"],
        ["o1", "source"],
    ]


def test_a_late_confirmation_does_not_revive_a_finished_application() -> None:
    ring = Ring(4, seed=18)
    query = source("python", name="n", columns={"v": "float"}, at="peer-1").delay("1 us", at="peer-0").sink("out")
    ring.submit("peer-0", "r", query)
    assert ring.until_decided("r").status == "running"
    origin = ring.synergy["peer-0"]
    peers = ring.reports["r"][-1].peers
    ring.simulation.call("peer-0", origin.session.sinks.ended, "r")
    assert ring.status("r") == "finished"
    late = Confirm(Graph("r", 1, "peer-0", query.to_bytes(), Roles(peers)), "delay", "sink")
    origin.peer.receive("peer-0", late, ring.simulation.now)
    assert not origin.ledger.requests
