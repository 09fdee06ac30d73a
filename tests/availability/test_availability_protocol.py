"""The distributed placement protocol of section 4.4: where replicas go, what is checked, who decides, what fails."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from synergy_nb.algorithms.availability import IndependentFailures, PlacementConfig, availability
from synergy_nb.algorithms.availability._primary_host import SPREAD
from synergy_nb.algorithms.availability.link_survey import SurveyedLink
from synergy_nb.algorithms.availability.messages import (
    PlacementDecision,
    PlacementNegotiation,
    PlacementRenewal,
    PlacementReply,
    PlacementReport,
    PlacementRequest,
    PlacementWithdrawn,
    Task,
    decode_task,
    encode_task,
)
from synergy_nb.algorithms.availability.selection import agreed, ordered
from synergy_nb.assembly import PeerConfig
from synergy_nb.control.ledger import Ledger
from synergy_nb.control.peer import Message, Send
from synergy_nb.control.roles import Roles
from synergy_nb.events import (
    CandidatePassed,
    DegreeChosen,
    MessageOutdated,
    MessageRefused,
    PlacementAttemptFailed,
    PlacementCompleted,
    PlacementNegotiated,
    ReplicaAccepted,
    ReplicaDecided,
    ReplicaDenied,
    ReplicaPlaced,
    ReplicasLeft,
    ReplicasLost,
)
from synergy_nb.plan import Plan
from synergy_nb.reporting.explanation import Explanation
from synergy_nb.runtime.process import _peer_factory as peer_factory
from synergy_nb.runtime.process._peer_driver import PeerRuntime
from synergy_nb.runtime.process.requests import FindHosts, HostsFound, JoinCommand, pack, unpack
from tests.availability.lines import LOAD, begin, chain, diamond, ring
from tests.memory_comm import Net, run
from tests.placing import Placements

# -- where replicas go -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("degree", [1, 2, 3])
def test_components_are_collocated_and_backups_are_nearest(degree: int) -> None:
    world = ring()
    graph = world.placed("peer-8", chain(6), degree=degree)
    assert graph.peers == {**{f"o{n}": "peer-3" for n in range(6)}, "source": "peer-3", "sink": "peer-8"}
    assert set(graph.backups.values()) == {("peer-2", "peer-4")[: degree - 1]}
    assert list(graph.replicas) == [f"o{n}" for n in range(6)]
    world.run(2.0)
    assert world.wrong_books() == []


def test_replicas_keep_apart_from_source_sink_and_origin_where_they_can() -> None:
    world = ring(placement=PlacementConfig(apart_first=True))
    graph = world.placed("peer-8", chain(4), degree=2)
    alone = {"peer-3", "peer-8"}
    assert {graph.peers[f"o{n}"] for n in range(4)} == {"peer-2"}
    assert graph.hosts.isdisjoint(alone)
    joined = ring(placement=PlacementConfig(apart_first=True)).placed("peer-8", diamond(), degree=2)
    assert joined.hosts.isdisjoint(alone)
    few = ring(3, placement=PlacementConfig(apart_first=True)).placed("peer-0", chain(2, at="peer-1"), degree=2)
    assert {few.peers["o0"], few.peers["o1"]} == {"peer-2"}  # its backups have to be with the source
    assert len(few.backups["o0"]) == 1


def test_where_a_peer_is_full_peers_in_use_come_first_and_the_nearest_of_them() -> None:
    world = ring(cores=lambda number: 0.11 if number == 3 else 0.21)
    graph = world.placed("peer-8", chain(8), degree=2)
    assert [graph.peers[f"o{n}"] for n in range(8)] == [*["peer-3"] * 2, *["peer-2"] * 4, *["peer-1"] * 2]
    assert [graph.backups[f"o{n}"] for n in range(8)] == [
        *[("peer-2",)] * 2, *[("peer-3",)] * 3, ("peer-1",), *[("peer-2",)] * 2,
    ]  # fmt: skip
    assert len(graph.hosts) == 3
    world.run(2.0)
    assert world.wrong_books() == []


def test_pinned_operators_stay_at_their_peers() -> None:
    stream = begin("peer-1").delay(LOAD, id="a").delay(LOAD, id="b", at="peer-7").delay(LOAD, id="c")
    world = ring()
    graph = world.placed("peer-0", stream.sink("out", at="peer-9"), degree=2)
    assert graph.peers == {"source": "peer-1", "a": "peer-1", "b": "peer-7", "c": "peer-7", "sink": "peer-9"}
    assert graph.backups == {"a": ("peer-7",), "b": ("peer-1",), "c": ("peer-1",)}
    world.run(2.0)
    assert world.wrong_books() == []


def test_a_source_that_is_not_pinned_is_at_the_nearest_peer_that_has_it() -> None:
    def components(number: int) -> tuple[str, ...]:
        return ("delay", "sink", "source:python") if number in (2, 6) else ("delay", "sink")

    graph = ring(components=components).placed("peer-5", chain(2, at=None), degree=2)
    assert graph.peers["source"] == "peer-6"


def test_only_peers_that_have_a_component_get_it() -> None:
    def components(number: int) -> tuple[str, ...]:
        return ("delay", "sink", "source:python") if number in (3, 7, 9) else ("sink", "source:python")

    world = ring(components=components)
    graph = world.placed("peer-0", chain(3, at="peer-0"), degree=3)
    assert graph.hosts == {"peer-3", "peer-7", "peer-9"}
    assert graph.peers["o0"] == "peer-3"


# -- what reads more than one operator ---------------------------------------------------------------------------------


def test_the_upper_host_decides_on_a_join_after_negotiation() -> None:
    world = ring(cores=0.11)  # two components a peer, so the branches are apart
    graph = world.placed("peer-8", diamond(), degree=2)
    events = world.events("r1")
    asked = [event for event in events if isinstance(event, PlacementNegotiated)]
    assert [(event.peer, event.upstream, event.to) for event in asked] == [(graph.peers["c2"], "c2", graph.peers["b"])]
    (decided,) = (
        event
        for event in events
        if isinstance(event, ReplicaDecided) and (event.operator, event.role) == ("u", "primary")
    )
    assert decided.peer == graph.peers["b"]
    assert decided.time > asked[0].time
    assert set(decided.order) <= set(asked[0].detail["candidates"])
    world.run(2.0)
    assert world.wrong_books() == []


def test_a_host_that_is_not_known_is_reached_by_the_origin() -> None:
    """The branches come from sources of their own, so neither host has heard of the other."""
    upper = begin("peer-1", "s1").delay(LOAD, id="a")
    lower = begin("peer-9", "s2").delay(LOAD, id="b").delay(LOAD, id="c")
    world = ring()
    graph = world.placed("peer-4", upper.union(lower, id="u").sink("out"), degree=2)
    negotiated = world.events("r1", PlacementNegotiated)
    assert [(event.peer, event.to) for event in negotiated] == [("peer-9", "peer-4")]
    (decided,) = (event for event in world.events("r1", ReplicaDecided) if event.operator == "u"
                  and event.role == "primary")  # fmt: skip
    assert decided.peer == graph.peers["a"] == "peer-1"
    assert graph.peers["u"] in {"peer-1", "peer-9", "peer-2", "peer-8"}
    world.run(2.0)
    assert world.wrong_books() == []


def link(latency: float, bandwidth: float = 1e6, failure: float = 0.0, **domains: float) -> SurveyedLink:
    return SurveyedLink(latency, bandwidth, 1.0, failure, domains)


def test_candidates_are_ordered_by_use_reliability_and_latency() -> None:
    links = {"a": link(0.03), "b": link(0.01), "c": link(0.02), "d": link(0.0, bandwidth=10.0)}
    assert ordered("abcdx", links, {"c"}, 1000.0) == ["c", "b", "a"]  # d has no bandwidth, x does not answer
    assert ordered("abc", links, {"c"}, 1000.0, beside=["c"]) == ["b", "a"]
    weak = {**links, "b": link(0.01, failure=0.2)}
    assert ordered("abc", weak, set(), 0.0) == ["c", "a", "b"]
    assert ordered("abc", weak, {"b"}, 0.0) == ["b", "c", "a"]
    racks = {"a": link(0.0, site=0.1, r1=0.1), "b": link(0.01, site=0.1, r1=0.1), "c": link(0.02, site=0.1, r2=0.1)}
    assert ordered("bc", racks, {"b"}, 0.0, beside=["a"]) == ["c", "b"]  # b would go down with a's rack
    assert ordered("bc", racks, set(), 0.0) == ["b", "c"]


def test_lists_are_joined_in_the_order_of_bandwidth() -> None:
    assert agreed([(1.0, list("abcd")), (3.0, list("dbca")), (2.0, list("cbd"))], set()) == list("dbc")
    assert agreed([(1.0, list("abcd")), (1.0, list("dcba"))], {"c"}) == list("cabd")
    assert agreed([(1.0, ["a"]), (2.0, ["b"])], set()) == []


# -- what is checked ---------------------------------------------------------------------------------------------------


def test_a_primary_needs_processing_and_a_backup_none() -> None:
    world = ring(peers=4, cores=lambda number: 0.06 if number < 2 else 1e-3)
    graph = world.placed("peer-3", chain(2, at="peer-2"), degree=3)
    assert sorted(graph.peers[name] for name in ("o0", "o1")) == ["peer-0", "peer-1"]
    assert any("peer-2" in peers or "peer-3" in peers for peers in graph.backups.values())
    denied = {event.reason for event in world.events("r1", ReplicaDenied)}
    assert any(reason.startswith("processing capacity: 0.05 cores needed, 0.0") for reason in denied)
    world.run(2.0)
    assert world.wrong_books() == []


def narrow(world: Placements, bandwidth: Mapping[tuple[int, int], float]) -> None:
    """Set the bandwidth of some links, by the numbers of both ends."""
    for (sender, to), value in bandwidth.items():
        ledger = world.synergy[f"peer-{to}"].ledger
        before = ledger.bandwidth_from
        ledger.bandwidth_from = lambda peer, before=before, sender=sender, value=value: (  # type: ignore[misc]
            value if peer == f"peer-{sender}" else before(peer)
        )


@pytest.mark.parametrize("ahead", [False, True])
def test_an_application_stays_on_few_peers_where_links_are_looked_at_ahead(ahead: bool) -> None:
    """From peer-3, where the source is, and to peer-1 and peer-4, links carry two streams; an application has five."""
    world = ring(placement=PlacementConfig(ahead=ahead))
    slow = 2 * 1600.0
    narrow(world, {(3, to): slow for to in range(10) if to != 3} | {(sender, to): slow for to in (1, 4)
                   for sender in range(10) if sender != to})  # fmt: skip
    graph = world.placed("peer-8", chain(5), degree=2)
    if ahead:
        assert {graph.peers[f"o{n}"] for n in range(5)} == {"peer-2"}  # the nearest peer with wide links
        assert {graph.backups[f"o{n}"] for n in range(5)} == {("peer-3",)}  # not peer-1, which is as near
        assert [(each.at, each.reason) for each in world.events("r1", CandidatePassed)] == [("peer-3", SPREAD)]
    else:
        assert {graph.peers[f"o{n}"] for n in range(5)} == {"peer-3"}
        assert len(graph.hosts) == 4
    world.run(2.0)
    assert world.wrong_books() == []  # what peers have accepted for nothing is released


def test_where_no_offer_is_better_the_first_peer_that_accepts_has_the_primary() -> None:
    world = ring(bandwidth=2 * 1600.0, placement=PlacementConfig(ahead=True, offers=3))
    graph = world.placed("peer-8", chain(5), degree=2)
    assert graph.peers["o0"] == "peer-3"
    passed = [each.at for each in world.events("r1", CandidatePassed) if each.operator == "o0"]
    assert passed == ["peer-2", "peer-4"]
    world.run(2.0)
    assert world.wrong_books() == []


def test_a_late_withdrawal_of_what_was_accepted_leaves_a_backup() -> None:
    world = ring()
    graph = world.placed("peer-8", chain(2), degree=2)
    (backup,) = graph.backups["o0"]
    attempt = world.events("r1", PlacementCompleted)[0].attempt
    late = PlacementWithdrawn("r1", attempt, "o0", accepted=True)
    world.simulation.call("peer-3", lambda: world.synergy["peer-3"].peer.send(backup, late))
    world.run(2.0)
    assert world.wrong_books() == []


def test_a_primary_needs_bandwidth_downstream() -> None:
    world = ring(peers=5)
    narrow(world, {(3, 4): 1000.0})  # from where the source is to where the sink is
    graph = world.placed("peer-4", chain(1), degree=1)
    assert graph.peers["o0"] == "peer-2"
    (denied,) = world.events("r1", ReplicaDenied)
    assert denied.peer == "peer-3"
    assert denied.reason == "bandwidth downstream: no peer for sink can be given 1600 bytes/s"


def test_a_primary_needs_bandwidth_to_its_backups() -> None:
    world = ring(peers=5)
    narrow(world, {(3, to): 1000.0 for to in (0, 1, 4)})
    graph = world.placed("peer-2", chain(1), degree=3)
    assert graph.peers["o0"] != "peer-3"
    (denied,) = world.events("r1", ReplicaDenied)
    assert denied.reason == "bandwidth to backups: 1 of 2 peers can be given 1600 bytes/s"


def test_a_primary_needs_bandwidth_from_what_it_reads_and_a_backup_from_its_primary() -> None:
    world = ring(peers=6, cores=lambda number: 0.06)
    narrow(world, {(3, 2): 2000.0, (3, 4): 1000.0})
    graph = world.placed("peer-0", chain(2), degree=2)
    # the link from 3 to 2 carries the stream of o0 to the primary of o1, and so no backup of o0
    assert graph.peers["o0"] == "peer-3"
    assert graph.peers["o1"] == "peer-2"
    assert graph.backups["o0"] in {("peer-1",), ("peer-5",)}
    world.run(2.0)
    assert world.wrong_books() == []


def test_replicas_of_a_component_are_never_together() -> None:
    world = ring(peers=3)
    graph = world.placed("peer-0", diamond("peer-1"), degree=3)
    assert all(sorted(peers) == ["peer-0", "peer-1", "peer-2"] for peers in graph.replicas.values())
    request = "other"
    task = Task(request, 1, "peer-0", chain(1).to_bytes(), 2, {"source": ("peer-0",), "o0": ("peer-0", "peer-1"),
                "sink": ("peer-0",)}, {"source": "peer-0", "sink": "peer-0"})  # fmt: skip
    at = world.placement("peer-1").replica_host
    both = Roles({"source": "peer-0", "o0": "peer-0"}, {})
    backup = PlacementDecision(1, encode_task(task), "o0", backup=True, graph=both)
    primary = PlacementRequest(2, encode_task(task), "o0", Roles({"source": "peer-0"}, {}))
    itself = PlacementDecision(
        3, encode_task(task), "o0", backup=True, graph=Roles({"source": "peer-0", "o0": "peer-1"}, {})
    )
    replies = [answer(world, "peer-1", message) for message in (itself, backup, primary)]
    assert replies == ["another replica of it is here", "", "a backup of it is here"]
    assert at.roles(request) == {"o0": "backup"}


def answer(world: Placements, at: str, message: Message, sender: str = "peer-0") -> str | None:
    """What a peer replies to a message at once; None if nothing."""
    peer = world.synergy[at].peer
    effects = peer.receive(sender, message, world.simulation.now)
    replies = [effect.message for effect in effects if isinstance(effect, Send) and effect.to == sender]
    return next((reply.reason for reply in replies if isinstance(reply, PlacementReply)), None)


# -- concurrent placements ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_concurrent_placements_overbook_nothing_and_leave_nothing(seed: int) -> None:
    world = ring(peers=8, seed=seed, cores=0.31, bandwidth=12_000.0, network=None)
    names = [f"r{number}" for number in range(8)]
    for number, name in enumerate(names):
        plan = diamond() if number % 2 else chain(5, at=f"peer-{(3 * number) % 8}")
        world.place(f"peer-{number}", name, plan, degree=1 + number % 3)
    while len(world.outcomes) < len(names):
        world.run(0.02)
        assert not world.overbooked()
    world.run(16.0)  # reservations of those that failed have expired
    standing = world.standing()
    assert 4 <= len(standing) < 8, "the limits have to matter"
    assert {name for name, (graph, _) in world.outcomes.items() if graph is not None} == set(standing)
    assert world.wrong_books() == []
    assert world.doubled() == []
    for name in standing:
        world.release(name)
    world.run(1.0)
    assert world.wrong_books({}) == []


# -- failures ----------------------------------------------------------------------------------------------------------


def until(world: Placements, kind: str, **detail: Any) -> None:
    """Run until an event has happened."""
    journal = world.simulation.journal

    def there() -> bool:
        return any(event.kind == kind and detail.items() <= event.detail.items() for event in journal.since(start))

    start = journal.next_sequence
    world.simulation.run(until=world.simulation.now + 60.0, stop=there)
    assert there()


@pytest.mark.slow
def test_a_candidate_that_has_died_gives_way_to_the_next_one() -> None:
    world = ring(cores=lambda number: 0.06 if number == 3 else 0.5)
    world.place("peer-8", "r1", chain(3), degree=2)
    until(world, "replica_placed", operator="o0", role="primary")
    world.crash("peer-2")  # the nearest, which has answered the survey
    ((graph, reason),) = world.decided("r1")
    assert graph is not None, reason
    assert "peer-2" not in graph.addresses
    passed = {(event.at, event.reason) for event in world.events("r1", CandidatePassed)}
    assert ("peer-2", "no answer") in passed
    world.run(2.0)
    assert world.wrong_books() == []


def test_a_host_that_dies_on_the_way_ends_the_attempt_and_the_next_goes_without_it() -> None:
    world = ring(cores=0.11)
    world.place("peer-8", "r1", chain(5), degree=2)
    until(world, "replica_placed", operator="o2", role="primary")
    (host,) = (event.peer for event in world.events("r1", ReplicaPlaced) if event.operator == "o2")
    world.crash(host)
    ((graph, reason),) = world.decided("r1")
    assert graph is not None, reason
    assert host not in graph.addresses
    assert [event.reason for event in world.events("r1", PlacementAttemptFailed)] == [f"{host} died"]
    world.run(16.0)
    assert world.wrong_books() == []


def test_a_peer_that_hangs_after_it_accepted_is_left_out() -> None:
    world = ring(cores=0.06)
    world.place("peer-8", "r1", chain(2), degree=1)
    until(world, "replica_accepted", operator="o1")
    (host,) = (event.peer for event in world.events("r1", ReplicaAccepted) if event.operator == "o1")
    world.simulation.hang(host, 40.0)
    ((graph, reason),) = world.decided("r1")
    assert graph is not None, reason
    assert host not in graph.addresses
    world.run(60.0)
    assert world.wrong_books() == []  # when it goes on it learns that nobody wants what it has accepted


def test_a_pinned_peer_that_dies_is_named() -> None:
    world = ring()
    world.place("peer-8", "r1", chain(6), degree=2)
    until(world, "replica_placed", operator="o2", role="primary")
    world.crash("peer-3")
    ((graph, reason),) = world.decided("r1")
    assert graph is None
    assert reason == "operator source: peer-3, where it has to be, has died"
    world.run(PlacementConfig().lease + 1.0)
    assert world.wrong_books({}) == []


def test_replicas_of_a_dead_origin_are_released() -> None:
    world = ring()
    world.placed("peer-8", chain(3), degree=2)
    world.run(1.0)
    assert world.synergy["peer-3"].ledger.requests == {"r1"}
    world.crash("peer-8")
    world.run(PlacementConfig().lease + 1.0)
    assert all(not each.ledger.requests for each in world.synergy.values())
    assert {event.reason for event in world.events("r1", ReplicasLeft)} == {"its origin has sent no renewal"}


def test_the_origin_records_replicas_that_are_lost() -> None:
    world = ring()
    world.placed("peer-8", chain(2), degree=2)
    world.crash("peer-2")
    world.run(6.0)
    (lost,) = (event for event in world.events("r1", ReplicasLost) if event.peer == "peer-8")
    assert (lost.at, lost.replicas) == ("peer-2", {"o0": "backup", "o1": "backup"})


def test_a_failed_placement_releases_everything_and_names_the_peer() -> None:
    world = ring(peers=4, cores=0.11)
    reason = world.refused("peer-0", chain(12), degree=2)
    assert reason.startswith("no peer for the primary of o")
    assert "processing capacity" in reason
    assert len(world.events("r1", PlacementAttemptFailed)) == PlacementConfig().attempts
    world.run(16.0)
    assert world.wrong_books({}) == []
    assert not world.placement("peer-0").pending


def test_an_aborted_placement_leaves_no_commitment() -> None:
    world = ring()
    world.place("peer-8", "r1", chain(6), degree=3)
    until(world, "replica_placed", operator="o2", role="backup")
    world.release("r1")
    world.run(PlacementConfig().lease + 1.0)
    assert world.wrong_books({}) == []
    assert "r1" not in world.outcomes
    assert world.placed("peer-8", chain(6), degree=3)  # the name is free again
    world.release("r1")
    assert not world.placement("peer-8").release("r1")


@pytest.mark.slow
def test_lost_messages_are_sent_again() -> None:
    """Also to peer-3, where the source has to be: there is no other to ask. No number of times is always enough."""
    placed = 0
    for seed in range(20):
        world = ring(seed=seed)
        world.simulation.loss = 0.2
        world.place("peer-8", "r1", diamond(), degree=2)
        ((graph, _reason),) = world.decided("r1")
        if graph is not None:
            assert len(graph.hosts) < 5
            placed += 1
        world.simulation.loss = 0.0
        world.run(PlacementConfig().lease + 1.0)
        assert world.wrong_books() == [], seed
    assert placed >= 18


def test_a_survey_asks_silent_peers_again_and_measures_the_answered_question() -> None:
    world = ring(peers=3)
    link_survey = world.placement("peer-0").link_survey
    asked = world.simulation.now
    found: list[tuple[float, dict[str, SurveyedLink]]] = []

    def survey(*peers: str, required: tuple[str, ...] = ()) -> None:
        def done(links: dict[str, SurveyedLink]) -> None:
            found.append((world.simulation.now - asked, links))

        world.simulation.call("peer-0", lambda: link_survey.survey(peers, done, required))

    world.simulation.loss = 1.0
    survey("peer-1", "peer-2")
    world.run(0.5)  # two of three questions are lost
    world.simulation.loss = 0.0
    world.run(0.5)
    ((after, links),) = found
    assert after == pytest.approx(2 / 3 + 0.04)
    assert {name: link.latency for name, link in links.items()} == pytest.approx({"peer-1": 0.01, "peer-2": 0.02}, 0.2)

    found.clear()
    world.simulation.hang("peer-1", 60.0)  # it says nothing; the machine of a crashed one would
    link_survey.forget("peer-1")
    asked = world.simulation.now
    survey("peer-1")
    world.run(1.1)
    ((after, links),) = found
    assert after == pytest.approx(1.0)
    assert not links
    survey("peer-1")
    assert len(found) == 2  # at once: its silence counts
    survey("peer-1", required=("peer-1",))
    assert len(found) == 2  # asked again, as there is no other


# -- failure probabilities, domains, targets ---------------------------------------------------------------------------


def test_reliable_peers_come_before_near_ones() -> None:
    world = ring(failure=lambda number: 0.3 if number in (2, 3, 4) else 0.01)
    graph = world.placed("peer-8", chain(3), degree=2)
    assert graph.hosts == {"peer-1", "peer-0"}  # of the reliable ones the nearest to the source, and the next to that
    assert set(graph.peers.values()) == {"peer-3", "peer-1", "peer-8"}


def test_replicas_are_in_different_racks_where_there_are_several() -> None:
    def racks(number: int) -> dict[str, float]:
        return {"site": 0.01, f"rack {number // 4}": 0.05}

    world = ring(peers=8, domains=racks)
    graph = world.placed("peer-7", chain(4, at="peer-1"), degree=2)
    assert all(int(one[-1]) // 4 != int(other[-1]) // 4 for one, other in graph.replicas.values())
    assert graph.hosts == {"peer-1", "peer-4"}
    together = ring(peers=4, domains=racks).placed("peer-3", chain(2, at="peer-1"), degree=2)
    assert together.hosts == {"peer-0", "peer-1"}  # one rack is all that there is


def test_an_availability_that_is_asked_for_gives_the_degree() -> None:
    world = ring(failure=0.1)
    graph = world.placed("peer-8", chain(4), target=0.995)
    assert {len(peers) for peers in graph.replicas.values()} == {3}
    (done,) = world.events("r1", PlacementCompleted)
    assert done.availability == pytest.approx(0.999)
    assert availability(graph, IndependentFailures(dict.fromkeys(world.synergy, 0.1))) == pytest.approx(0.999)


def test_where_peers_have_no_room_for_all_the_degree_is_raised_until_the_target_is_reached() -> None:
    world = ring(failure=0.1, cores=0.06)  # a component a peer, so two replicas of each fail more often than of all
    graph = world.placed("peer-8", chain(4), target=0.989)
    assert {len(peers) for peers in graph.replicas.values()} == {3}
    (failed,) = world.events("r1", PlacementAttemptFailed)
    assert failed.reason.endswith("is less than 0.989, for peers had no room for more")
    (chosen,) = world.events("r1", DegreeChosen)
    assert chosen.degree == 2
    world.run(2.0)
    assert world.wrong_books() == []
    assert availability(graph, IndependentFailures(dict.fromkeys(world.synergy, 0.1))) >= 0.989


def test_an_unreachable_availability_is_refused_with_the_greatest_possible() -> None:
    reason = ring(peers=3, failure=0.2).refused("peer-0", chain(2, at="peer-1"), target=0.999)
    assert reason == "availability: 0.999; expected at most 0.992, which degree 3 reaches"


# -- bad input ---------------------------------------------------------------------------------------------------------


def test_a_degree_above_the_number_of_peers_is_one_clear_error() -> None:
    assert ring(peers=4).refused("peer-0", chain(2, at="peer-1"), degree=5) == (
        "degree: 5; expected at most 4, the peers that can have o0"
    )


def test_an_operator_that_no_peer_offers_is_named() -> None:
    world = ring(peers=4, components=("sink", "source:python"))
    assert (
        world.refused("peer-0", chain(2, at="peer-1"), degree=1)
        == "operator o0: no peer that answers has its component"
    )
    reason = world.refused("peer-0", chain(1, at="nowhere"), request="r2", degree=1)
    assert reason == "operator source: no peer nowhere has its component"


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"degree": 0}, "degree: 0; expected at least 1, the primary alone"),
        ({"target": 1.0}, "target: 1.0; expected an availability from 0 to less than 1"),
        ({"target": -0.5}, "target: -0.5; expected an availability"),
        ({}, "degree, target: None, None; expected one of them"),
        ({"degree": 2, "target": 0.9}, "degree, target: 2, 0.9; expected one of them"),
    ],
)
def test_wrong_requests_of_placement_are_one_error_each(asked: dict[str, Any], message: str) -> None:
    world = ring(peers=3)
    with pytest.raises(ValueError, match=message):
        world.place("peer-0", "r1", chain(1), **asked)
    with pytest.raises(ValueError, match="has sources and sinks alone; expected an operator to replicate"):
        world.place("peer-0", "r1", begin().sink("out"), degree=1)
    world.place("peer-0", "r1", chain(1), degree=1)
    with pytest.raises(ValueError, match="request: 'r1'; expected an identifier that is not in use"):
        world.place("peer-0", "r1", chain(1), degree=1)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"attempts": 0}, "attempts: 0; expected at least 1"),
        ({"answer": 0.0}, "answer: 0.0 s; expected more than 0"),
        ({"lease": 10.0}, "lease: 10.0 s; expected more than 20 s, the greater of placement and refresh"),
    ],
)
def test_wrong_parameters_of_placement_are_one_error_each(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PlacementConfig(**settings)
    with pytest.raises(ValueError, match=r"rack: 1.5; expected a probability from 0 to 1"):
        PeerConfig(domains={"rack": 1.5})


# -- messages that are late, wrong, or come twice ----------------------------------------------------------------------


def task_of(asked: Plan, **changes: Any) -> bytes:
    peers = dict.fromkeys(asked.operators, ("peer-0", "peer-1"))
    fields = {"request": "r1", "attempt": 5, "origin": "peer-0", "plan": asked.to_bytes(), "degree": 2,
              "candidates": peers, "pinned": {}}  # fmt: skip
    return encode_task(Task(**{**fields, **changes}))


@pytest.mark.parametrize(
    ("task", "operator", "reason"),
    [
        (b"\x00", "o0", "Expected"),
        (task_of(chain(1), candidates={}), "o0", "candidates: expected at least one peer for each operator"),
        (task_of(chain(1), degree=3), "o0", "degree: 3; expected 1 to the number of candidates"),
        (task_of(chain(1), plan=b"x"), "o0", "the plan has a problem"),
        (task_of(chain(1)), "o7", "operator: 'o7'; expected one of the plan"),
        (task_of(chain(2)), "o1", "graph: expected the primaries of all operators upstream"),
    ],
)
def test_a_message_that_makes_no_sense_is_refused_by_name(task: bytes, operator: str, reason: str) -> None:
    world = ring(peers=2)
    peer = world.synergy["peer-1"].peer
    graph = Roles({"source": "peer-0"}, {})
    for message in (
        PlacementRequest(1, task, operator, graph),
        PlacementDecision(1, task, operator, backup=False, graph=graph),
    ):
        effects = peer.receive("peer-0", message, world.simulation.now)
        (event,) = (effect.event for effect in effects)  # type: ignore[union-attr]
        assert isinstance(event, MessageRefused)
        assert event.message == type(message).__name__
        assert event.reason.startswith(reason)
    wrong = PlacementNegotiation(1, task_of(chain(2)), "o1", "o0", graph, ())
    (effect,) = peer.receive("peer-0", wrong, world.simulation.now)
    assert effect.event.reason.startswith("upstream: 'o0'")  # type: ignore[union-attr]
    assert not world.synergy["peer-1"].ledger.requests


def test_late_messages_of_an_attempt_change_nothing() -> None:
    world = ring(peers=2)
    graph = Roles({"source": "peer-0", "o0": "peer-0"}, {})
    decide = [PlacementDecision(1, task_of(chain(1), attempt=number), "o0", backup=True, graph=graph)
              for number in (4, 5, 6)]  # fmt: skip
    ledger, now = world.synergy["peer-1"].ledger, world.simulation.now
    peer = world.synergy["peer-1"].peer
    assert answer(world, "peer-1", decide[1]) == ""
    assert answer(world, "peer-1", decide[1]) == ""  # twice is once
    assert ledger.residual_bandwidth("", "peer-0") == 125e6 - 1600.0
    assert answer(world, "peer-1", decide[0]) is None  # an earlier attempt
    assert answer(world, "peer-1", decide[2]) == ""  # a later one takes its place
    assert ledger.residual_bandwidth("", "peer-0") == 125e6 - 1600.0
    peer.receive("peer-0", PlacementRenewal("r1", 5, ()), now)
    peer.receive("peer-0", PlacementWithdrawn("r1", 5, ""), now)
    assert ledger.requests == {"r1"}
    peer.receive("peer-0", PlacementWithdrawn("r1", 6, "o7"), now)
    peer.receive("peer-0", PlacementWithdrawn("r1", 6, ""), now)
    assert not ledger.requests
    assert answer(world, "peer-1", decide[2]) is None  # it is over
    refused = [event for event in world.simulation.journal if isinstance(event, MessageRefused | MessageOutdated)]
    assert refused == []  # those were handed to the peer without the simulation
    assert answer(world, "peer-0", PlacementReport(9, "unknown", 1, "", graph), sender="peer-1") == ""


def test_an_encoded_task_is_decoded_and_checked_once() -> None:
    data = task_of(chain(2))
    assert decode_task(data)[1] is decode_task(data)[1]
    with pytest.raises((ValueError, msgspec.MsgspecError)):
        decode_task(b"")


# -- beside the rest ---------------------------------------------------------------------------------------------------


def test_the_journal_states_why_each_replica_is_at_its_peer() -> None:
    world = ring(cores=lambda number: 0.11 if number == 3 else 0.5)
    world.placed("peer-8", chain(4), degree=2)
    account = Explanation("r1", world.events("r1"), {f"peer-{n}": f"P{n}" for n in range(10)})
    assert account.outcome == "placed"
    assert account.replicated is not None
    assert account.replicated.backups["o0"] == ["P2"]
    assert account.why_replica("o0", "P3") == "the nearest that could"
    assert account.why_replica("o1", "P3") == "the application uses that peer already"
    assert account.why_replica("o2", "P2") == (
        "the application uses that peer already, 10 ms away; passed over: "
        "P3 (processing capacity: 0.05 cores needed, 0.0099 left)"
    )
    assert account.why_replica("o2", "P9") == "it has no replica of o2"
    text = str(account)
    assert "replicas: degree 2" in text
    assert "o3 (backup) at P3: the application uses that peer already, 10 ms away" in text
    assert account.to_dict()["replicated"]["primaries"]["o2"] == "P2"
    failed = ring(peers=2)
    failed.refused("peer-0", chain(1, at="peer-1"), degree=3)
    why = Explanation("r1", failed.events("r1"), {}).outcome
    assert why == "not placed: degree: 3; expected at most 2, the peers that can have o0"


def test_a_session_finds_its_resources_committed() -> None:
    """What is placed stands in the ledgers under the names that a session commits."""
    world = ring()
    graph = world.placed("peer-8", chain(2), degree=2)
    plan, ledger = world.plans["r1"], world.synergy["peer-3"].ledger
    before = ledger.residual_cores("")
    assert ledger.commit("r1", "o0", plan.load("o0"), {}) == ""
    assert ledger.residual_cores("") == before
    assert graph.at("peer-2") == {"o0": "backup", "o1": "backup"}


def test_a_peer_without_placement_has_none_of_its_messages() -> None:
    world = Placements(3, 1, config=lambda number: PeerConfig(name=f"peer-{number}", placement=None))
    assert world.synergy["peer-0"].placement is None
    assert not any(kind.__name__.startswith("Placement") for kind in world.synergy["peer-0"].peer.message_types)


def test_all_messages_survive_the_wire() -> None:
    world = ring(codec=True, cores=0.11, failure=0.01, domains={"site": 0.001})
    world.placed("peer-8", diamond(), degree=2)
    world.refused("peer-8", chain(30), request="r2", degree=2)
    world.run(PlacementConfig().lease + 1.0)
    assert world.wrong_books() == []
    assert not [event for event in world.simulation.journal if isinstance(event, MessageRefused | MessageOutdated)]


def test_reservations_of_one_request_add_up_with_what_it_holds() -> None:
    ledger = Ledger(cores=1.0, bandwidth=1000.0)
    assert ledger.reserve_additional("r", "a", 0.6, {("p", "x"): 600.0}) == ""
    assert ledger.reserve_additional("r", "a", 0.6, {("p", "x"): 600.0}) == ""  # once
    assert ledger.reserve_additional("r", "b", 0.5, {}) == "processing capacity: 0.5 cores needed, 0.4 left"
    assert (
        ledger.reserve_additional("r", "b", 0.1, {("p", "x"): 500.0})
        == "bandwidth from p: 500 bytes/s needed, 400 left"
    )
    assert ledger.reserve_additional("other", "b", 0.5, {}) == "processing capacity: 0.5 cores needed, 0.4 left"
    assert ledger.reserve_additional("r", "b", 0.4, {}) == ""
    assert ledger.commit("r", "a", 0.6, {("p", "x"): 600.0}) == ""
    assert ledger.commit("r", "b", 0.4, {}) == ""
    ledger.drop("r", "a")
    assert ledger.residual_cores("") == pytest.approx(0.6)
    ledger.drop("r", "b")
    assert not ledger.requests
    assert ledger.reserve_additional("r", "c", 0.4, {}) == ""
    ledger.drop("r", "c")
    assert not ledger.requests


def test_the_same_protocol_places_on_live_peers() -> None:
    """Four peers on the driver of Dask workers, their links in memory: bytes on the wire, and a clock."""

    async def main() -> None:
        net = Net()
        runtimes: list[PeerRuntime] = []
        for number in range(4):
            address = f"mem://{number}"
            settings = {"name": f"peer-{number}", "cores": 0.11}
            runtime = PeerRuntime(address, str(number), net.connector(address), peer_factory.make, settings)
            net.links[address] = runtime.links
            runtime.start()
            runtimes.append(runtime)
        hosts: list[Any] = [runtime.host for runtime in runtimes]
        for runtime in runtimes:
            contact = None if runtime is runtimes[0] else "mem://0"
            await runtime.operations["join"](pack(JoinCommand(contact)))
        async with asyncio.timeout(60):
            found: list[str] = []
            while len(found) < 4:  # until all have told the directory
                answered = await runtimes[0].operations["where"](pack(FindHosts(["delay"])))
                found = unpack(answered, HostsFound).hosts["delay"]
            outcome: asyncio.Future[tuple[Roles | None, str]] = asyncio.get_running_loop().create_future()

            def submit() -> None:
                def placed(graph: Roles | None, reason: str) -> None:
                    outcome.set_result((graph, reason))

                hosts[0].synergy.placement.submit("r1", diamond(), placed, degree=2)

            runtimes[0]._run("submit", lambda now: runtimes[0].peer.call(now, submit))
            graph, reason = await outcome
        assert graph is not None, reason
        assert graph.peers["source"] == "mem://3"
        assert all(len(set(peers)) == 2 for peers in graph.replicas.values())
        for runtime, host in zip(runtimes, hosts, strict=True):
            roles = host.synergy.placement.replica_host.roles("r1")
            assert roles == graph.at(runtime.address)
        account = Explanation("r1", [event for runtime in runtimes for event in runtime.journal], {})
        assert len([each for each in account.replicas if each.role == "backup"]) == 6
        for runtime in runtimes:
            await runtime.close()
        await net.close()

    run(main())


def test_simulated_peers_without_a_part_receive_no_message() -> None:
    world = ring(peers=6)
    told: set[str] = set()
    put = world.simulation.put

    def spy(when: float, address: str, sender: str, message: Message | None) -> None:
        if type(message).__name__.startswith("Placement"):
            told.add(address)
        put(when, address, sender, message)

    world.simulation.put = spy  # type: ignore[method-assign]
    world.simulation.duplication = 1e-12  # so that all messages pass the spy
    graph = world.placed("peer-5", chain(4), degree=2)
    assert told == graph.addresses | {"peer-5"}
    assert all(one < other for one, other in pairwise(sorted(told)))
