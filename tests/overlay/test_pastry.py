"""The ring: state against slow oracles, routing to the live root, joins, leaves, repair, and the cost of a failure."""

from __future__ import annotations

import random
from itertools import pairwise
from math import ceil, log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from synergy_nb.control.peer import Peer, Record, Send, key_of
from synergy_nb.events import RouteDropped
from synergy_nb.overlay.latency import Latency
from synergy_nb.overlay.pastry import JoinRequest, Leaves, Pastry, RowReply, RowRequest
from synergy_nb.overlay.prebuilt_ring import assemble
from synergy_nb.overlay.recently_seen import Recent
from synergy_nb.overlay.ring import MASK, LeafSet, RoutingTable, number_of, ring_position, shared_digits
from synergy_nb.overlay.routing import HOP_LIMIT, QUEUE, RouteAck, Routed
from synergy_nb.simulator.kernel import SimulatedPeers, Uniform
from tests.overlay.naive_ring import ADDRESSES, naive_leaves, naive_root
from tests.overlay_world import Doorstep, RoutedLabel, World

KEYS = st.integers(0, MASK).map(lambda number: f"{number:032x}")


class Flat:
    """The same delay between all peers."""

    def __init__(self, seconds: float = 0.02) -> None:
        self.seconds = seconds

    def delay(self, sender: str, to: str) -> float:
        return self.seconds


class Lines:
    """Delays as on a line: peers are as far apart as their numbers."""

    def delay(self, sender: str, to: str) -> float:
        return 0.002 + abs(int(sender[1:]) - int(to[1:])) * 0.001


# -- state ---------------------------------------------------------------------------------------------------------


@given(st.lists(st.sampled_from(ADDRESSES), max_size=60), st.lists(st.sampled_from(ADDRESSES), max_size=20), KEYS)
def test_a_leaf_set_holds_the_nearest_peers_of_a_full_sort(added: list[str], discarded: list[str], key: str) -> None:
    leaves = LeafSet("me", half=4)
    here: set[str] = set()
    for address in added:
        leaves.add(address)
        here.add(address)
    assert (list(leaves.left), list(leaves.right)) == naive_leaves("me", here, 4)
    for address in discarded:
        leaves.discard(address)
        here.discard(address)
        for other in here:  # as Pastry does: whatever else is known is offered
            leaves.add(other)
    left, right = naive_leaves("me", here, 4)
    assert (list(leaves.left), list(leaves.right)) == (left, right)
    assert set(leaves.members) == leaves.member_set == {*left, *right}
    number = number_of(key)
    if leaves.covers(number):
        assert leaves.nearest(number) == naive_root(number, [*here, "me"])
    assert leaves.nearest(number, avoid={"me", *left[:1]}) == naive_root(
        number, [address for address in {*left, *right} if address not in left[:1]] or ["me"]
    )
    assert leaves.neighbours(1) == tuple(dict.fromkeys([*left[:1], *right[:1]]))


@pytest.mark.slow
@given(st.integers(1, 40), KEYS)
def test_a_leaf_set_covers_the_ring_exactly_when_its_sides_meet(count: int, key: str) -> None:
    leaves = LeafSet("me")
    for address in ADDRESSES[:count]:
        leaves.add(address)
    assert leaves.whole == (count <= 15 or len(leaves) < 16)
    if leaves.whole:
        assert leaves.covers(number_of(key))


def test_gap_counts_steps_along_the_ring() -> None:
    leaves = LeafSet("me")
    for address in ADDRESSES[:40]:
        leaves.add(address)
    arc = [*reversed(leaves.left), "me", *leaves.right]
    assert [leaves.gap(one, other) for one, other in pairwise(arc)] == [1] * 16
    assert leaves.gap(arc[0], arc[-1]) == 16
    outside = next(address for address in ADDRESSES if address not in arc)
    assert leaves.gap("me", outside) is None
    small = LeafSet("me")
    for address in ADDRESSES[:4]:
        small.add(address)
    ring = sorted((*ADDRESSES[:4], "me"), key=ring_position)
    assert small.gap(ring[0], ring[-1]) == 1  # the short way round


@given(KEYS, KEYS)
def test_slots_and_digits_equal_reading_the_keys(one: str, other: str) -> None:
    shared = next((index for index in range(32) if one[index] != other[index]), 32)
    assert shared_digits(number_of(one), number_of(other)) == shared
    table = RoutingTable("me")
    mine = key_of("me")
    row = next((index for index in range(32) if one[index] != mine[index]), 32)
    assert table.slot(number_of(one)) == (16 * row + int(one[row], 16) if row < 32 else -1)


def test_estimated_size_is_of_the_right_order() -> None:
    world = World(300, assembled=True)
    estimates = sorted(pastry.leaves.size_estimate for pastry in world.pastry.values())
    assert 150 < estimates[150] < 600


def test_recent_remembers_at_least_its_size_and_is_bounded() -> None:
    recent = Recent(8)
    for item in range(1000):
        assert recent.add(item)
        assert not recent.add(max(item - 7, 0))
        assert len(recent) <= 16


def test_latency_of_one_direction_is_half_of_the_round_trip_and_unknown_before_the_first() -> None:
    latency = Latency()
    assert latency.one_way("a") is None
    latency.sample("a", 0.2)
    assert latency.rtt("a") == pytest.approx(0.2)
    assert latency.one_way("a") == pytest.approx(0.1)
    assert latency.one_way("b") is None


def test_latency_follows_rfc_6298_and_is_bounded() -> None:
    latency = Latency(capacity=3, unknown=0.5, floor=0.1, ceiling=2.0)
    assert latency.timeout("x") == 0.5
    for address in "abcd":
        latency.sample(address, 0.1)
    assert len(latency) == 3
    assert "a" not in latency
    assert latency.timeout("b") == pytest.approx(0.1 + 4 * 0.05)
    latency.sample("b", 0.2)
    assert latency.rtt("b") == pytest.approx(0.1 + 0.1 / 8)
    assert latency.timeout("b") == pytest.approx(0.1125 + 4 * (0.05 + (0.1 - 0.05) / 4))
    latency.sample("c", 50.0)
    assert latency.timeout("c") == 2.0
    assert latency.nearest(["x", "c", "b"], 2) == ["b", "c"]
    latency.forget("b")
    latency.forget("b")
    assert latency.one_way("b") is None
    with pytest.raises(ValueError, match=r"capacity: 0 peers; expected at least 1"):
        Latency(capacity=0)
    Latency(capacity=1, floor=0.5, unknown=0.5, ceiling=0.5)
    with pytest.raises(ValueError, match=r"floor, unknown, ceiling: 1.0, 0.5, 3.0 s; expected rising and positive"):
        Latency(floor=1.0)


# -- joining, leaving, repair --------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 3, 8, 17, 18, 40, 100])
def test_peers_that_join_together_find_their_places(count: int) -> None:
    world = World(count, seed=count)
    world.run(15.0)
    assert all(pastry.joined for pastry in world.pastry.values())
    assert not world.wrong_leaf_sets()
    keys = [key_of(f"key-{number}") for number in range(60)]
    assert world.arrivals_of(keys) == [world.root(key) for key in keys]


def test_peers_that_join_one_after_the_other_through_different_contacts_find_their_places() -> None:
    world = World(1, seed=4)
    for number in range(1, 30):
        address = f"p{number}"
        contact = world.rng.choice(world.live)
        world.simulation.add(world.make(address))
        world.simulation.start(address)
        world.call(address, world.pastry[address].join, contact)
        world.run(0.3)
    world.run(5.0)
    assert not world.wrong_leaf_sets()


def test_a_peer_that_leaves_and_joins_again_has_the_timers_of_its_new_time_alone() -> None:
    """Each time began another series of exchanges, which never ended."""
    counts: list[list[int]] = []
    for times in (0, 3):
        peer = Peer("me", seed=1)
        pastry = Pastry(peer)
        peer.add(pastry)
        peer.start(0.0)
        for _ in range(times):
            peer.call(0.0, pastry.join, None)
            peer.call(0.0, pastry.leave)
        peer.call(0.0, pastry.join, None)
        for number in range(40):
            peer.call(0.0, pastry.consider, f"p{number}")
        effects = []
        while (due := peer.next_timer) is not None and due < 500.0:
            effects += peer.tick(due)
        messages = [each.message for each in effects if isinstance(each, Send)]
        counts.append([sum(isinstance(each, kind) for each in messages) for kind in (Leaves, RowRequest)])
    for few, many in zip(*counts, strict=True):
        assert few > 5
        assert few == pytest.approx(many, rel=0.4)


def test_a_row_is_answered_by_the_digits_of_keys() -> None:
    peer = Peer("me", seed=1)
    pastry = Pastry(peer)
    peer.add(pastry)
    peer.start(0.0)
    peer.call(0.0, pastry.join, None)
    for number in range(60):
        peer.call(0.0, pastry.consider, f"p{number}")
    here, asker = (*pastry.known(), "me"), key_of("asker")
    apart = [address for address in here if key_of(address)[0] != asker[0]]
    for column in (-1, *range(16)):
        effects = peer.receive("asker", RowRequest(0, column), 1.0)
        replies = [
            each.message.learned for each in effects if isinstance(each, Send) and isinstance(each.message, RowReply)
        ]
        wanted = [address for address in apart if column in (-1, int(key_of(address)[0], 16))]
        assert replies == ([tuple(wanted[:16])] if wanted else [])


def test_joining_survives_loss() -> None:
    world = World(20, seed=2)
    world.simulation.loss = 0.3
    world.run(25.0)
    world.simulation.loss = 0.0
    world.run(10.0)
    assert all(pastry.joined for pastry in world.pastry.values())
    assert not world.wrong_leaf_sets()


def halves(world: World, tables_too: bool) -> None:
    """Make two rings of one: every peer knows only every other peer of the ring, at least in its leaf set."""
    for address, pastry in world.pastry.items():
        mine = world.live[world.live.index(address) % 2 :: 2]
        if tables_too:
            for slot, other in list(pastry.table.entries.items()):
                if other not in mine:
                    del pastry.table.entries[slot]
        pastry.leaves.clear()
        for other in mine:
            pastry.leaves.add(other)
        pastry.join_prebuilt()


@pytest.mark.slow
def test_two_rings_become_one_by_a_single_acquaintance() -> None:
    world = World(40, seed=3, assembled=True)
    halves(world, tables_too=True)
    one, other = world.live[:2]
    world.call(one, world.pastry[one].consider, other)
    world.run(60.0)
    assert not world.wrong_leaf_sets()


@pytest.mark.slow
def test_a_ring_that_goes_round_twice_is_straightened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("synergy_nb.overlay.pastry.ROW_EVERY", 1e9)  # only by peers that look for themselves
    world = World(60, seed=3, assembled=True)
    halves(world, tables_too=False)  # all neighbours agree, and all are wrong
    assert len(world.wrong_leaf_sets()) == 60
    world.run(80.0)
    assert not world.wrong_leaf_sets()


def test_leaving_is_announced_and_leaves_no_gap() -> None:
    world = World(30, seed=5, assembled=True)
    world.run(1.0)
    gone = world.live[7]
    left: list[str] = []
    world.pastry[world.live[8]].on_left.append(left.append)
    world.call(gone, world.pastry[gone].leave)
    assert not world.pastry[gone].joined
    world.crash(gone)
    world.run(1.0)
    assert left == [gone]
    assert not any(gone in pastry.known() for pastry in world.pastry.values())
    world.run(3.0)
    assert not world.wrong_leaf_sets()


def test_a_peer_that_left_can_join_again() -> None:
    world = World(12, seed=6)
    world.run(5.0)
    world.call("p3", world.pastry["p3"].leave)
    world.run(5.0)
    world.call("p3", world.pastry["p3"].join, "p1")
    world.run(8.0)
    assert not world.wrong_leaf_sets()
    assert not world.false_deaths()


def test_the_ring_is_repaired_after_a_quarter_of_it_crashes_at_once() -> None:
    world = World(60, seed=7, assembled=True)
    world.run(2.0)
    world.crash(*world.rng.sample(world.live, 15))
    world.run(20.0)
    assert not world.wrong_leaf_sets()
    assert all(set(pastry.known()) <= set(world.live) for pastry in world.pastry.values())


@pytest.mark.slow
def test_a_routing_slot_is_refilled_from_another_peer_of_the_row() -> None:
    world = World(200, seed=8, assembled=True)
    world.run(2.0)
    pastry = world.pastry["p0"]
    slot, gone = next(
        (slot, address) for slot, address in pastry.table.entries.items() if slot < 16 and address not in pastry.leaves
    )
    world.crash(gone)
    world.run(10.0)
    assert pastry.table.entries.get(slot) not in {None, gone}


@pytest.mark.slow
def test_assembled_rings_are_as_if_joined() -> None:
    world = World(88, seed=9, assembled=True)
    assert not world.wrong_leaf_sets()
    pastry = world.pastry["p5"]
    for slot, address in pastry.table.entries.items():
        assert pastry.table.slot(ring_position(address)) == slot
    for row in range(2):  # no slot is empty that somebody fits
        for other in world.live:
            slot = pastry.table.slot(ring_position(other))
            assert slot == -1 or slot >> 4 != row or slot in pastry.table.entries


def test_assembling_a_started_peer_is_refused() -> None:
    peer = Peer("a", seed=1)
    pastry = Pastry(peer)
    peer.add(pastry)
    peer.start(0.0)
    with pytest.raises(ValueError, match=r"peer 'a': already started; expected one that is not"):
        assemble([pastry])


@pytest.mark.slow
def test_the_nearer_of_two_peers_that_fit_a_slot_stays() -> None:
    network = Lines()
    world = World(120, seed=10, assembled=True, network=network)
    world.run(5.0)
    before = proximity(world, network)
    for address, pastry in world.pastry.items():  # as after joins: everybody hears of more peers than fit
        for other in world.rng.sample(world.live, 40):
            world.call(address, pastry.consider, other)
    world.run(40.0)
    assert proximity(world, network) < 0.8 * before


def proximity(world: World, network: Lines) -> float:
    """Mean delay to the peers of the first row, in seconds."""
    delays = [
        network.delay(address, other) for address, pastry in world.pastry.items() for other in pastry.table.row(0)
    ]
    return sum(delays) / len(delays)


# -- routing -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("count", "bound"), [(20, 1.2), (88, 1.8), (500, 2.2)])
def test_messages_reach_the_root_within_the_expected_hops(count: int, bound: float) -> None:
    world = World(count, seed=count, assembled=True, network=Flat())
    rng = random.Random(count)
    keys = [key_of(f"{count}/{number}") for number in range(1500)]
    origins = rng.choices(world.live, k=len(keys))
    assert world.arrivals_of(keys, origins, wait=2.0) == [world.root(key) for key in keys]
    hops = [sum(pastry.hops[number] for pastry in world.pastry.values()) for number in range(HOP_LIMIT + 1)]
    assert sum(hops) == len(keys)
    assert max(number for number, times in enumerate(hops) if times) <= ceil(log(count, 16)) + 1
    assert sum(number * times for number, times in enumerate(hops)) / sum(hops) <= bound


@pytest.mark.slow
def test_messages_reach_the_root_within_the_expected_hops_after_real_joins() -> None:
    world = World(100, seed=1, network=Flat())
    world.run(20.0)
    for pastry in world.pastry.values():
        pastry.hops[:] = [0] * len(pastry.hops)
    keys = [key_of(f"{number}") for number in range(500)]
    assert world.arrivals_of(keys, wait=2.0) == [world.root(key) for key in keys]
    hops = [sum(pastry.hops[number] for pastry in world.pastry.values()) for number in range(HOP_LIMIT + 1)]
    assert max(number for number, times in enumerate(hops) if times) <= 3


@pytest.mark.slow
def test_a_crashed_hop_costs_one_timeout_and_not_the_message() -> None:
    world = World(100, seed=11, assembled=True, network=Flat(0.02))
    world.run(20.0)  # round trips are measured
    origin = world.live[0]
    pastry = world.pastry[origin]
    slot, hop = next(
        (slot, hop) for slot, hop in pastry.table.entries.items() if slot < 16 and hop not in pastry.leaves
    )
    key = next(
        key
        for key in (key_of(f"x{number}") for number in range(10_000))
        if pastry.next_hop(key) == hop and world.root(key) != hop
    )
    world.crash(hop)
    silent: list[str] = []
    pastry.on_silent.append(silent.append)
    world.call(origin, pastry.route, key, RoutedLabel(1))
    world.run(pastry.latency.timeout(hop) + 6 * 0.02)
    assert [(label, root) for label, root, _ in world.arrived] == [(1, world.root(key))]
    assert silent == [hop]
    assert slot >= 0


def test_a_crashed_root_costs_three_timeouts_and_not_the_message() -> None:
    world = World(30, seed=12, assembled=True, network=Flat(0.02))
    world.run(20.0)
    key = key_of("the key")
    gone = world.root(key)
    origin = next(address for address in world.live if address != gone and gone in world.pastry[address].leaves)
    patience = world.pastry[origin].latency.timeout(gone)
    world.crash(gone)
    world.call(origin, world.pastry[origin].route, key, RoutedLabel(1))
    world.run(3 * patience + 4 * 0.02 + 0.001)
    assert [root for _, root, _ in world.arrived] == [world.root(key)]


def test_lost_messages_do_not_reach_the_wrong_root() -> None:
    world = World(60, seed=13, assembled=True)
    world.run(10.0)
    world.simulation.loss = 0.05
    keys = [key_of(f"{number}") for number in range(300)]
    places = world.arrivals_of(keys, wait=10.0)
    wrong = sum(place != world.root(key) for place, key in zip(places, keys, strict=True))
    assert wrong <= 2  # a root that three attempts did not reach


def test_duplicates_are_delivered_once() -> None:
    world = World(30, seed=14, assembled=True)
    world.run(1.0)
    world.simulation.duplication = 1.0
    keys = [key_of(f"{number}") for number in range(100)]
    world.arrivals_of(keys)
    assert len(world.arrived) == 100


def lone(address: str = "me") -> tuple[Peer, Pastry, list[tuple[int, str, str]]]:
    """A peer on a bench: what it sends is looked at, not carried."""
    peer = Peer(address, seed=1)
    pastry = Pastry(peer)
    arrived: list[tuple[int, str, str]] = []
    peer.add(pastry)
    peer.add(Doorstep(peer, arrived))
    peer.start(0.0)
    return peer, pastry, arrived


def test_a_peer_that_has_not_joined_does_not_acknowledge() -> None:
    peer, _, _ = lone()
    assert peer.receive("other", Routed(key_of("x"), RoutedLabel(1), "other", 1, 1, 1), 1.0) == []


def test_messages_routed_before_the_join_wait_in_a_bounded_queue() -> None:
    peer, pastry, arrived = lone()
    for label in range(QUEUE):
        assert peer.call(1.0, pastry.route, key_of("x"), RoutedLabel(label)) == []
    (effect,) = peer.call(1.0, pastry.route, key_of("x"), RoutedLabel(-1))
    assert isinstance(effect, Record)
    assert isinstance(effect.event, RouteDropped)
    peer.call(2.0, pastry.join, None)
    assert [label for label, _, _ in arrived] == list(range(QUEUE))


def test_the_hop_limit_ends_a_message_that_goes_round() -> None:
    peer, pastry, arrived = lone()
    peer.call(0.0, pastry.join, None)
    peer.call(0.0, pastry.consider, "other")
    key = key_of("other")
    effects = peer.receive("other", Routed(key, RoutedLabel(1), "far", 1, HOP_LIMIT, 7), 1.0)
    assert Send("other", RouteAck(7)) in effects
    assert [effect.event.kind for effect in effects if isinstance(effect, Record)] == ["route_dropped"]
    assert not arrived


def test_a_hop_is_acknowledged_every_time_and_taken_once() -> None:
    peer, pastry, arrived = lone()
    peer.call(0.0, pastry.join, None)
    for _ in range(3):
        assert peer.receive("other", Routed(key_of("x"), RoutedLabel(1), "far", 9, 1, 7), 1.0) == [
            Send("other", RouteAck(7))
        ]
    peer.receive("third", Routed(key_of("x"), RoutedLabel(1), "far", 9, 1, 8), 1.0)  # the same by another way
    assert [label for label, _, _ in arrived] == [1]


def test_a_join_request_is_never_passed_to_the_joiner() -> None:
    peer, pastry, _ = lone()
    peer.call(0.0, pastry.join, None)
    peer.call(0.0, pastry.consider, "joiner")  # an earlier life of it
    request = Routed(key_of("joiner"), JoinRequest("joiner", 1, ()), "joiner", 1, 1, 1)
    effects = peer.receive("joiner", request, 1.0)
    assert not any(isinstance(effect, Send) and isinstance(effect.message, Routed) for effect in effects)


def test_malformed_rows_are_ignored() -> None:
    world = World(5, assembled=True)
    from synergy_nb.overlay.pastry import RowRequest

    for row, column in ((-1, 0), (32, 0), (0, 16), (0, -2)):
        assert world.pastry["p1"].peer.receive("p2", RowRequest(row, column), 1.0) == []


def test_is_root_and_root_of_agree_with_the_oracle() -> None:
    world = World(12, seed=15, assembled=True)
    for number in range(50):
        key = key_of(f"{number}")
        for address, pastry in world.pastry.items():
            assert pastry.root_of(key) == world.root(key)
            assert pastry.is_root(key) == (address == world.root(key))
    assert set(world.pastry["p0"].root_neighbours(8)) == set(world.live) - {"p0"}


# -- idle, replay --------------------------------------------------------------------------------------------------


def test_an_idle_ring_is_quiet() -> None:
    simulation = SimulatedPeers(1, Flat())
    peers = {}
    for number in range(8):
        peer = Peer(f"p{number}", seed=number)
        peers[peer.address] = pastry = Pastry(peer)
        peer.add(pastry)
        simulation.add(peer)
        simulation.start(peer.address)
        simulation.call(peer.address, pastry.join, "p0")
    simulation.run(until=60.0)
    before = simulation.messages
    simulation.run(until=360.0)
    assert (simulation.messages - before) / 300.0 / 8 < 0.25  # messages a second and peer


def test_the_same_seed_gives_the_same_run() -> None:
    def run() -> list[object]:
        world = World(25, seed=16)
        world.simulation.loss = world.simulation.duplication = world.simulation.reordering = 0.1
        world.run(10.0)
        world.crash("p3", "p4")
        world.run(10.0)
        return [world.simulation.messages, *((address, pastry.known()) for address, pastry in world.pastry.items())]

    assert run() == run()


def test_leaf_sets_heal_after_a_partition() -> None:
    world = World(24, seed=17, network=Uniform(0.01, 0.05))
    world.run(6.0)
    world.simulation.partition([world.rng.sample(world.live, 10)])
    world.run(15.0)
    assert world.wrong_leaf_sets()
    world.simulation.heal()
    world.run(20.0)
    assert not world.wrong_leaf_sets()
    assert not world.false_deaths()


def test_a_peer_announces_itself_to_new_members_of_its_leaf_set() -> None:
    peer, pastry, _ = lone()
    peer.call(0.0, pastry.join, None)
    effects = peer.receive("a", Leaves(("b",), False), 1.0)
    assert Send("b", Leaves(("a", "b"), True)) in effects or Send("b", Leaves(("b", "a"), True)) in effects
