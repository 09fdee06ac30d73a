"""Sessions with replicated components: backups take over from peers that die."""

from __future__ import annotations

import random

import msgspec
import pytest

from synergy_nb.algorithms.availability import PlacementConfig
from synergy_nb.assembly import PeerConfig
from synergy_nb.control.driver_messages import StopApplication
from synergy_nb.control.graph import Producer
from synergy_nb.dataflow.deployments import Deployment, Role
from synergy_nb.events import DegreeChosen, PlacementCompleted, TakenOver
from synergy_nb.lifecycle.records.messages import TakeOver
from synergy_nb.models.replication_config import ReplicationConfig
from synergy_nb.plan import Plan, source
from synergy_nb.plan.derived.placement_modes import decider_of
from synergy_nb.reporting.explanation import Explanation
from synergy_nb.widgets.report import report as page_of
from tests.lifecycle.backed_chain import BACKUPS, PEERS, at, established, plan, stopped
from tests.quick_cases import quick_first
from tests.simulated import Ring


def unrestored(number: int) -> PeerConfig:
    """A peer that sets up no backup instead of one that was lost or took over, so that nothing else changes."""
    return PeerConfig(name=f"peer-{number}", seed=1000 + number, replication=ReplicationConfig(rebuild=False))


def test_backups_hold_bandwidth_and_no_capacity() -> None:
    ring = Ring(6, seed=1)
    assert established(ring) == [""]
    assert at(ring) == PEERS
    for address in ("peer-3", "peer-4"):
        ledger = ring.synergy[address].ledger
        assert ledger.load == 0.0
        left = ledger.residual_bandwidth("other", "peer-2")
        assert left == pytest.approx(125e6 - plan().bandwidth("o0") - plan().bandwidth("o1"))
    stopped(ring)


def test_a_backup_takes_over_and_then_the_next_one() -> None:
    ring = Ring(6, seed=1, config=unrestored, codec=True)
    assert established(ring) == [""]
    ring.crash("peer-2")
    ring.run(6.0)
    assert ring.status("r") == "running"
    assert at(ring) == PEERS | {"o0": "peer-3", "o1": "peer-3"}
    ring.crash("peer-3")
    ring.run(6.0)
    assert at(ring) == PEERS | {"o0": "peer-4", "o1": "peer-4"}
    assert [event.epoch for event in ring.events("r", TakenOver)] == [1, 2]
    assert ring.reports["r"][-1].peers == PEERS | {"o0": "peer-4", "o1": "peer-4"}
    told = ring.deployments["peer-4", "r"]
    assert {name: (assignment.epoch, assignment.backups) for name, assignment in told.assignments.items()} == {
        "source": (0, ()),
        "o0": (2, ()),
        "o1": (2, ()),
        "sink": (0, ()),
    }
    assert [version % (1 << 20) for version in {known.version for known in ring.deployments.values()}] == [2]
    ring.crash("peer-4")
    ring.run(6.0)
    assert ring.status("r") == "failed"
    assert "peer peer-4 died (o0, o1)" in ring.reports["r"][-1].reason
    stopped(ring)


def test_the_death_of_a_backup_harms_nobody() -> None:
    ring = Ring(6, seed=2)
    assert established(ring) == [""]
    ring.crash("peer-3")
    ring.run(6.0)
    assert ring.status("r") == "running"
    assert at(ring) == PEERS
    assert ring.synergy["peer-0"].session.graph("r").roles.backups == {"o0": ("peer-4",), "o1": ("peer-4",)}  # type: ignore[union-attr]
    stopped(ring)


def test_two_simultaneous_deaths_are_handled_one_after_the_other() -> None:
    ring = Ring(6, seed=3)
    assert established(ring) == [""]
    ring.crash("peer-2")
    ring.crash("peer-3")
    ring.run(9.0)
    assert ring.status("r") == "running"
    assert at(ring) == PEERS | {"o0": "peer-4", "o1": "peer-4"}
    stopped(ring)


@pytest.mark.parametrize("lost", ["peer-1", "peer-2"])
def test_the_death_of_a_component_without_a_backup_ends_its_application(lost: str) -> None:
    ring = Ring(6, seed=4)
    assert established(ring, {"o0": ("peer-3",)} if lost == "peer-2" else None) == [""]
    ring.crash(lost)
    ring.run(6.0)
    assert ring.status("r") == "failed"
    assert f"peer {lost} died" in ring.reports["r"][-1].reason
    stopped(ring)


def test_a_backup_without_capacity_cannot_take_over() -> None:
    ring = Ring(6, seed=5, config=lambda n: PeerConfig(name=f"peer-{n}", cores=0.12 if n == 3 else 1.0, seed=n))
    assert established(ring) == [""]
    ring.crash("peer-2")
    ring.run(6.0)
    assert ring.status("r") == "failed"
    assert "processing capacity" in ring.reports["r"][-1].reason
    assert "at peer-3" in ring.reports["r"][-1].reason
    stopped(ring)


def test_a_backup_without_bandwidth_is_refused() -> None:
    ring = Ring(6, seed=5, config=lambda n: PeerConfig(name=f"peer-{n}", bandwidth=10.0 if n == 4 else 1e8, seed=n))
    (refusal,) = established(ring)
    assert "backup of o0 at peer-4: bandwidth from peer-2" in refusal
    ring.run(1.0)
    assert not any(each.ledger.requests for each in ring.synergy.values())


def test_drivers_receive_deployments_of_copies_and_of_moved_components() -> None:
    ring = Ring(6, seed=1, config=unrestored)
    told: list[tuple[str, Deployment]] = []

    def note(address: str, instruction: object) -> None:
        if isinstance(instruction, Deployment):
            told.append((address, instruction))

    ring.simulation.on_instruction.append(note)
    established(ring)
    for address in ("peer-3", "peer-4"):
        known = ring.deployments[address, "r"]
        assert {name for name in known.assignments if known.role(name, address) is Role.BACKUP} == {"o0", "o1"}
    ring.crash("peer-2")
    told.clear()
    ring.run(6.0)
    assert {address for address, _ in told} == {"peer-0", "peer-1", "peer-3", "peer-4"}
    assert {each.assignments["o1"].active for _, each in told} == {"peer-3"}
    for address, each in told:
        assert "peer-2" not in each.peers, address
        assert each.running


def test_deployments_of_one_graph_share_their_assignments() -> None:
    """A peer instructs its driver with each component that it commits; what is as before is not computed again."""
    ring = Ring(6, seed=1)
    told: list[Deployment] = []

    def note(address: str, instruction: object) -> None:
        if isinstance(instruction, Deployment) and address == "peer-2":
            told.append(instruction)

    ring.simulation.on_instruction.append(note)
    established(ring)
    first, second = told[:2]
    assert set(second.assignments) - set(first.assignments) == {"o0"}  # the peer executes o1, too
    assert all(second.assignments[name] is each for name, each in first.assignments.items())


def test_a_peer_that_takes_over_several_components_loses_the_backups_of_none() -> None:
    """Each is asked for by a message of its own; the first must not take the others' backups away."""
    ring = Ring(6, seed=1, config=unrestored)
    established(ring)
    roles: list[list[Role | None]] = []

    def note(address: str, instruction: object) -> None:
        if isinstance(instruction, Deployment) and address == "peer-3":
            roles.append([instruction.role(name, address) for name in ("o0", "o1")])

    ring.simulation.on_instruction.append(note)
    ring.crash("peer-2")
    ring.run(6.0)
    assert roles == [[Role.ACTIVE, Role.ACTIVE]]


def test_streams_are_published_with_the_peers_that_may_take_over_their_producers() -> None:
    ring = Ring(6, seed=1)
    established(ring)
    source, before = Producer("r", "source", "peer-1", 0, "peer-0"), BACKUPS["o0"]
    assert _offered(ring)["peer-2"] == [
        (Producer("r", "o0", "peer-2", 0, "peer-0", before), source),
        (
            Producer("r", "o0", "peer-2", 0, "peer-0", before),
            Producer("r", "o1", "peer-2", 0, "peer-0", before),
            source,
        ),
    ]
    ring.crash("peer-2")
    ring.run(6.0)
    taken = [Producer("r", name, "peer-3", 1, "peer-0", ("peer-4",)) for name in ("o0", "o1")]
    assert _offered(ring)["peer-3"] == [(taken[0], source), (*taken, source)]


def _offered(ring: Ring) -> dict[str, list[tuple[Producer, ...]]]:
    """What each peer says of the streams that others may share: all that they are made by."""
    found: dict[str, list[tuple[Producer, ...]]] = {}
    for address, each in ring.synergy.items():
        entries = [entry for entry in each.directory.registered if entry.kind == "stream"]
        texts = [str(entry.attributes["producers"]) for entry in entries if "producers" in entry.attributes]
        made = [msgspec.json.decode(text, type=tuple[Producer, ...]) for text in texts]
        found[address] = sorted(made, key=len)
    return found


# -- from a plan that asks for availability --------------------------------------------------------------------------


def available(availability: str = "degree 2") -> Plan:
    stream = source("packets", rate=100.0, at="peer-1", id="source")
    stream = stream.filter("bytes > 0", cost="1 ms", id="o0", at="peer-3")
    stream = stream.filter("bytes > 1", cost="1 ms", id="o1", at="peer-3")
    return stream.sink(id="sink", availability=availability)


def test_a_plan_that_asks_for_replicas_outlives_its_primaries() -> None:
    ring = Ring(7, seed=8, codec=True)
    ring.submit("peer-0", "r", available())
    report = ring.until_decided("r")
    assert report.status == "running", report.reason
    (placed,) = ring.events("r", PlacementCompleted)
    primaries, backups = placed.primaries, placed.backups
    assert report.peers == primaries
    assert {name: len(peers) for name, peers in backups.items()} == {"o0": 1, "o1": 1}
    ring.run(40.0)  # leases are kept
    assert ring.status("r") == "running"
    lost = primaries["o0"]
    assert lost == "peer-3"
    ring.crash(lost)
    ring.run(6.0)
    assert ring.status("r") == "running"
    moved = {name: backups[name][0] if peer == lost else peer for name, peer in primaries.items()}
    assert at(ring) == moved
    ring.run(40.0)
    assert at(ring) == moved
    account = Explanation("r", ring.events("r"), {})
    assert account.replicated is not None
    assert account.replicated.backups == backups
    assert account.peers == moved
    assert account.why("o0") == f"its backup took over from {lost}"
    assert account.why("sink").startswith("its only candidate, ")
    shown = page_of(available(), account, ring.events("r"), title="replicas")
    assert "Backups" in shown
    assert f"o0 from {lost} to {moved['o0']}" in shown
    assert "It does not run" not in shown
    assert f"o0 from {lost} to {moved['o0']}" in str(account)
    stopped(ring)
    assert not any(each.placement.replica_host.requests for each in ring.synergy.values() if each.placement)


def test_an_availability_becomes_a_degree() -> None:
    ring = Ring(7, seed=8)
    ring.submit("peer-0", "r", available("99.9 %"))
    assert ring.until_decided("r").status == "running"
    (chosen,) = ring.events("r", DegreeChosen)
    assert chosen.degree == 2
    (placed,) = ring.events("r", PlacementCompleted)
    assert placed.availability is not None
    assert placed.availability >= 0.999
    stopped(ring)


def test_an_unreachable_availability_is_refused_before_anything_starts() -> None:
    with pytest.raises(ValueError, match=r"qos\.availability: 'degree 9'; expected at most 7, a peer for each replica"):
        decider_of(available("degree 9"), "composed", 7)
    with pytest.raises(ValueError, match=r"qos\.availability: '100 %'; expected less than 1"):
        available("100 %")


def test_more_replicas_than_peers_that_can_have_them_are_refused() -> None:
    ring = Ring(7, seed=8)
    ring.submit("peer-0", "r", available("degree 9"))
    report = ring.until_decided("r")
    assert report.status == "rejected"
    assert "degree: 9; expected at most 7, the peers that can have o0" in report.reason
    assert not any(each.ledger.requests for each in ring.synergy.values())


def test_a_request_that_is_being_placed_can_be_stopped() -> None:
    ring = Ring(7, seed=8)
    ring.submit("peer-0", "r", available())
    ring.run(0.05)
    ring.simulation.report("peer-0", StopApplication("r"))
    ring.run(20.0)
    assert ring.status("r") == "stopped"
    assert not any(each.ledger.requests for each in ring.synergy.values())


def test_backups_go_where_they_could_take_over() -> None:
    """The peers of source and sink, which are used already, have no room."""

    def settings(number: int) -> PeerConfig:
        cores = 0.1 if number < 2 else 0.5
        return PeerConfig(name=f"peer-{number}", cores=cores, seed=number, placement=PlacementConfig(room_first=True))

    ring = Ring(7, seed=8, config=settings)
    ring.submit("peer-0", "r", available())
    assert ring.until_decided("r").status == "running"
    (placed,) = ring.events("r", PlacementCompleted)
    chosen = {peer for peers in placed.backups.values() for peer in peers}
    assert not chosen & {"peer-0", "peer-1", "peer-3"}
    ring.crash("peer-3")
    ring.run(6.0)
    assert ring.status("r") == "running"
    stopped(ring)


@pytest.mark.parametrize("seed", quick_first(range(24), 6))
def test_nothing_is_overbooked_leaked_or_executed_twice_whichever_peer_dies(seed: int) -> None:
    rng = random.Random(seed)
    ring = Ring(8, seed=seed, codec=True)
    names = ("source", "o0", "o1", "sink")
    for number in range(3):
        origin, feeds, works = rng.sample(range(8), 3)
        stream = source("packets", rate=50.0, at=f"peer-{feeds}", id="source")
        stream = stream.filter("bytes > 0", cost="1 ms", id="o0", at=f"peer-{works}").filter("bytes > 1", id="o1")
        asked = stream.sink(id="sink", availability=f"degree {rng.choice((2, 3))}")
        ring.submit(f"peer-{origin}", f"r{number}", asked)
    ring.run(6.0)
    ring.simulation.loss = rng.choice((0.0, 0.05))
    for _ in range(3):
        ring.crash(rng.choice(sorted(ring.synergy)))
        ring.run(rng.uniform(0.2, 5.0))
        assert not ring.overbooked()
    ring.simulation.loss = 0.0
    ring.run(45.0)
    assert not ring.overbooked()
    for address, each in ring.synergy.items():
        for request in each.session.led:
            graph = each.session.graph(request)
            assert graph is not None
            found = {name: [at for at, of, what in ring.deployed if (of, what) == (request, name)] for name in names}
            assert found == {name: [graph.roles.peers[name]] for name in names}, f"{request} of {address}"
            for name, peers in graph.roles.backups.items():
                assert not {graph.roles.peers[name]} & set(peers)
                assert set(peers) <= ring.synergy.keys()
    for address, each in list(ring.synergy.items()):
        for request in sorted(each.session.applications):  # those that failed keep their results
            ring.simulation.report(address, StopApplication(request))
    ring.run(45.0)
    assert not any(each.ledger.requests or each.session.applications for each in ring.synergy.values())
    assert not ring.deployed


def test_a_late_message_of_an_earlier_takeover_harms_nobody() -> None:
    ring = Ring(6, seed=1)
    established(ring)
    ring.crash("peer-2")
    ring.run(6.0)
    before = ring.synergy["peer-0"].session.graph("r")
    assert before is not None
    ring.crash("peer-4")
    ring.run(6.0)
    after = ring.synergy["peer-0"].session.graph("r")
    assert after is not None
    assert after.epoch > before.epoch, "the death of a backup brings a later graph, too"
    for operator in ("o0", "o1"):
        ring.simulation.call("peer-0", ring.synergy["peer-0"].peer.send, "peer-3", TakeOver(before, operator))
    ring.run(3.0)
    assert ring.status("r") == "running"
    assert at(ring) == PEERS | {"o0": "peer-3", "o1": "peer-3"}
    stopped(ring)


def test_a_backup_that_ignores_what_it_is_asked_is_passed_over() -> None:
    ring = Ring(6, seed=1, config=unrestored)
    assert established(ring) == [""]
    mute(ring, "peer-3")
    ring.crash("peer-2")
    ring.run(50.0)
    assert not ring.events("r", TakenOver)
    ring.run(40.0)
    assert ring.status("r") == "running"
    assert at(ring) == PEERS | {"o0": "peer-4", "o1": "peer-4"}
    assert not ring.synergy["peer-3"].session.applications
    stopped(ring)


def test_without_a_backup_that_answers_an_application_ends_by_the_name_of_the_last_one() -> None:
    ring = Ring(6, seed=1, config=unrestored)
    assert established(ring) == [""]
    mute(ring, "peer-3")
    mute(ring, "peer-4")
    ring.crash("peer-2")
    ring.run(180.0)
    assert ring.status("r") == "failed"
    reason = "peer peer-4 was asked for 60 s to take over o0, o1, and did not answer"
    assert ring.reports["r"][-1].reason == reason
    stopped(ring)


def mute(ring: Ring, address: str) -> None:
    """Have a peer that lives ignore that it is to take over."""
    ring.synergy[address].peer.guard({TakeOver: lambda sender, message: "it does not want to"})
