"""Applications of guests: on which peers they run, on how much of these, and who may read their streams."""

from __future__ import annotations

import re

import pytest

from synergy_nb.assembly import PeerConfig
from synergy_nb.control.driver_messages import (
    CopyReady,
    MoveComponent,
    OperatorStopped,
    ShareApplication,
    SinksEnded,
    StopApplication,
)
from synergy_nb.control.rights import Acceptance, Rights
from synergy_nb.control.roles import Roles
from synergy_nb.lifecycle.records.messages import Confirm, End, Followed, Granted, Graph
from synergy_nb.plan import Plan, source
from synergy_nb.plan.checks.memory_estimates import retained_bytes
from tests.one_peer import OnePeer
from tests.simulated import Ring


def ring(accepts: Acceptance, peers: int = 4) -> Ring:
    return Ring(peers, 1, config=lambda number: PeerConfig(name=f"peer-{number}", seed=number, accepts=accepts))


def plan(at: str | None = None, seed: int = 1) -> Plan:
    """A plan that takes a third of a core; one of another seed has other streams."""
    packets = source("packets", seed=seed, rate="300 tuples/s", at=at)
    return packets.delay("1 ms", id="work", at=at).sink(id="sink")


def running(name: str, system: Ring) -> str:
    system.until_decided(name)
    return system.status(name)


def granted(system: Ring, at: str, *rights: str | None) -> None:
    system.simulation.report(at, ShareApplication("a", *rights))  # type: ignore[arg-type]


def test_a_guest_has_his_share_of_the_cores_and_an_owner_the_rest() -> None:
    system = ring(Acceptance(cores=0.5), peers=1)
    system.submit("peer-0", "a", plan(), user="ann")
    assert running("a", system) == "running"
    system.submit("peer-0", "b", plan(seed=2), user="ann")
    assert running("b", system) == "rejected"
    assert "of the 0.5 cores that its user may have here" in system.reports["b"][-1].reason
    system.submit("peer-0", "c", plan(seed=3))
    assert running("c", system) == "running"
    system.synergy["peer-0"].requests.stop("a")
    system.submit("peer-0", "d", plan(seed=4), user="ann")
    assert running("d", system) == "running", "what has ended counts no more"


@pytest.mark.parametrize("placement", ["composed", "resilient"])
def test_a_guest_has_his_share_of_the_memory_and_an_owner_the_rest(placement: str) -> None:
    accepts = Acceptance(memory=0.5)
    config = PeerConfig("peer-0", seed=1, accepts=accepts, memory=1e9)
    system = Ring(1, 1, config=lambda _: config)

    def sorting(seed: int) -> Plan:
        """A plan that retains more than a quarter of the memory of the peer."""
        packets = source("packets", seed=seed, rate="2000 tuples/s", duration="30 min")
        plan = packets.sort("bytes", window="30 min", id="sort", cost="10 us").sink(id="sink")
        assert 2.5e8 < retained_bytes(plan, "sort") < 5e8
        return plan

    system.submit("peer-0", "a", sorting(1), placement, user="ann")
    assert running("a", system) == "running"
    system.submit("peer-0", "b", sorting(2), placement, user="ann")
    assert running("b", system) == "rejected"
    reason = system.reports["b"][-1].reason
    assert re.search(r"memory: \S+ MB left of the 500 MB that its user may have here, where \S+ MB are needed", reason)
    system.submit("peer-0", "c", sorting(3), placement)
    assert running("c", system) == "running"
    system.simulation.report("peer-0", StopApplication("a"))
    system.submit("peer-0", "d", sorting(4), placement, user="ann")
    assert running("d", system) == "running", "what has ended counts no more"


def test_peers_that_do_not_accept_a_guest_are_not_composed_and_say_why() -> None:
    system = ring(Acceptance(users=("ann",)))
    system.submit("peer-0", "a", plan(), user="ann")
    assert running("a", system) == "running"
    system.submit("peer-0", "b", plan(), user="bob")
    assert running("b", system) == "rejected"
    assert "accepts no plans of bob; expected one of the users whom its owner has" in system.reports["b"][-1].reason


@pytest.mark.parametrize("placement", ["composed", "resilient"])
def test_a_peer_that_no_probe_has_asked_refuses_a_guest_when_it_is_to_deploy(placement: str) -> None:
    def config(number: int) -> PeerConfig:
        accepts = Acceptance(users=()) if number == 2 else Acceptance()
        return PeerConfig(name=f"peer-{number}", seed=number, accepts=accepts)

    system = Ring(4, 1, config=config)
    system.submit("peer-0", "a", plan(at="peer-2"), placement, user="bob")
    assert running("a", system) == "rejected"
    assert "accepts no plans of bob" in system.reports["a"][-1].reason


def test_all_peers_of_an_application_learn_what_its_owner_grants() -> None:
    system = ring(Acceptance())
    granted(system, "peer-0", "bob", "read")  # of no application: it is answered, and nothing else happens
    system.submit("peer-0", "a", plan(at="peer-1"), user="ann")
    granted(system, "peer-0", "bob", "control")  # before it runs
    assert running("a", system) == "running"
    system.run(5.0)
    assert known_rights(system) == dict.fromkeys(["peer-0", "peer-1"], Rights("ann", {"bob": "control"}, 1))
    granted(system, "peer-0", "bob", None)
    granted(system, "peer-0", "eve", "read")
    system.run(5.0)
    assert known_rights(system) == dict.fromkeys(["peer-0", "peer-1"], Rights("ann", {"eve": "read"}, 3))
    assert system.status("a") == "running"


def known_rights(system: Ring) -> dict[str, Rights]:
    """What each peer that knows of the application believes of it."""
    found = {}
    for address, each in system.synergy.items():
        request = each.requests.get("a")
        rights = each.session.grants.rights("a") if request is None else request.rights
        if rights is not None:
            found[address] = rights
    return found


@pytest.mark.parametrize("ends", ["stopped", "failed", "finished"])
def test_all_peers_learn_what_is_granted_after_the_end(ends: str) -> None:
    system = ring(Acceptance())
    packets = source("packets", rate="300 tuples/s", at="peer-1").delay("1 ms", id="work", at="peer-2")
    system.submit("peer-0", "a", packets.sink(id="sink", at="peer-3"), user="ann")
    assert running("a", system) == "running"
    system.simulation.report("peer-0", MoveComponent("a", "work", "peer-0"))
    system.run(5.0)
    assert known_rights(system) == dict.fromkeys(system.synergy, Rights("ann")), "peer-2 was left"
    if ends == "finished":
        system.simulation.report("peer-3", SinksEnded("a"))
    elif ends == "failed":
        system.simulation.report("peer-1", OperatorStopped("a", "source", "a fault"))
    else:
        system.simulation.report("peer-0", StopApplication("a"))
    granted(system, "peer-0", "eve", "read")  # its end is on its way to the others
    system.run(5.0)
    assert system.status("a") == ends
    assert known_rights(system) == dict.fromkeys(system.synergy, Rights("ann", {"eve": "read"}, 1))
    system.simulation.loss = 0.3
    granted(system, "peer-0", "eve", None)
    granted(system, "peer-0", "bob", "control")
    system.run(5.0)
    assert known_rights(system) == dict.fromkeys(system.synergy, Rights("ann", {"bob": "control"}, 3))


@pytest.mark.parametrize("ends", [False, True], ids=["it runs", "it has ended"])
def test_all_peers_learn_what_is_granted_at_a_successor(ends: bool) -> None:
    """Also one that a component had left before: the successor knows it by the graphs that it has adopted."""
    system = sunk()
    system.simulation.report("peer-0", MoveComponent("a", "work", "peer-4"))
    system.run(1.0)
    system.simulation.report("peer-4", CopyReady("a", "work"))
    system.run(5.0)
    assert "a" not in system.synergy["peer-2"].session.members
    granted(system, "peer-0", "bob", "read")
    if ends:
        system.simulation.report("peer-3", SinksEnded("a"))
    system.run(5.0)
    system.crash("peer-0")
    system.run(10.0)
    before = Rights("ann", {"bob": "read"}, 1)
    assert known_rights(system) == dict.fromkeys(system.synergy, before), "peer-2 was left"
    granted(system, "peer-3", "eve", "read")
    system.run(5.0)
    assert known_rights(system) == dict.fromkeys(system.synergy, before.granted("eve", "read"))
    assert system.status("a") == ("finished" if ends else "running")


def test_what_is_granted_while_a_graph_changes_holds_at_the_successor() -> None:
    """The origin dies before it has published it."""
    system = sunk()
    transmit = system.simulation.transmit
    system.simulation.transmit = lambda sender, to, message: (  # type: ignore[method-assign]
        None if isinstance(message, Followed) else transmit(sender, to, message)
    )
    system.simulation.report("peer-0", MoveComponent("a", "work", "peer-4"))
    granted(system, "peer-0", "eve", "read")
    system.run(0.5)
    assert "peer-1" in known_rights(system)
    assert known_rights(system)["peer-1"] == Rights("ann"), "no graph states it yet"
    system.crash("peer-0")
    system.run(10.0)
    members = {peer: rights for peer, rights in known_rights(system).items() if peer != "peer-4"}
    assert members == dict.fromkeys(members, Rights("ann", {"eve": "read"}, 1))
    assert {"peer-1", "peer-2", "peer-3"} <= members.keys()


def sunk() -> Ring:
    """Five peers, and an application of the first that another one succeeds: that with the sink."""
    system = ring(Acceptance(), peers=5)
    packets = source("packets", rate="300 tuples/s", at="peer-1").delay("1 ms", id="work", at="peer-2")
    system.submit("peer-0", "a", packets.sink(id="sink", at="peer-3"), user="ann")
    assert running("a", system) == "running"
    return system


def test_only_who_leads_an_application_says_who_may_read_it_and_old_grants_do_not_count() -> None:
    one, liar = OnePeer("m"), Rights("ann", {"eve": "read"}, 9)
    graph = Graph(
        "a", 1, "o", plan().to_bytes(), Roles({"source": "m", "work": "d", "sink": "d"}), rights=Rights("ann")
    )

    def known(*told: tuple[str, Granted]) -> Rights | None:
        for sender, message in told:
            one.receive(sender, message)
        return one.synergy.session.grants.rights("a")

    assert known(("o", Granted("a", 1, liar))) is None, "it takes no part"
    one.receive("d", Confirm(graph, "source", "work"))
    assert known(("d", Granted("a", 1, liar)), ("o", Granted("a", 2, liar))) == Rights("ann")
    one.receive("o", End("a", 1, "it has ended", "stopped"))
    assert "a" not in one.synergy.session.members
    assert known(("d", Granted("a", 1, liar)), ("o", Granted("a", 2, liar))) == Rights("ann")
    second = Rights("ann", {"bob": "control"}, 2)
    assert known(("o", Granted("a", 1, second)), ("o", Granted("a", 1, Rights("ann", {"bob": "read"}, 1)))) == second


def test_a_stream_is_shared_with_those_only_who_may_read_its_application() -> None:
    system = ring(Acceptance())
    system.submit("peer-0", "a", plan(at="peer-1"), user="ann")
    assert running("a", system) == "running"
    system.run(5.0)
    for name, user, shares in (("b", "bob", False), ("c", "", True), ("d", "ann", True)):
        system.submit("peer-3", name, plan(at="peer-1"), user=user)
        assert running(name, system) == "running"
        graph = system.synergy["peer-3"].session.graph(name)
        assert graph is not None
        assert bool(graph.shared) == shares, name
    granted(system, "peer-0", "eve", "read")
    system.run(5.0)
    system.submit("peer-3", "e", plan(at="peer-1"), user="eve")
    assert running("e", system) == "running"
    graph = system.synergy["peer-3"].session.graph("e")
    assert graph is not None
    assert graph.shared
