"""The directory: all peers find registered entries, through crashes, joins and leaves; entries end with their host."""

from __future__ import annotations

import random
from itertools import combinations, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from synergy_nb.control.peer import Peer, Send, key_of
from synergy_nb.overlay.directory import Directory, Entry, EntryCopy
from synergy_nb.overlay.directory_entries import HELD_FRACTION, LONGEST, Store
from synergy_nb.overlay.directory_messages import Copies, Found, Lookup
from synergy_nb.overlay.pastry import Pastry
from tests.overlay_world import World

NAMES = [f"op{number}" for number in range(10)]


def ring(count: int, seed: int = 0, lease: float = 30.0) -> World:
    """An assembled ring in which all peers have joined."""
    world = World(count, seed=seed, assembled=True, lease=lease)
    world.run(0.5)
    return world


def register(world: World, host: str, *names: str, **attributes: str | float) -> None:
    for name in names:
        world.call(host, world.directory[host].register, name, "component", attributes)


def holders(world: World, name: str) -> set[str]:
    """Peers that hold a live entry of ``name``."""
    now = world.simulation.now
    return {address for address, directory in world.directory.items() if directory.store.get(name, now)}


# -- entries -------------------------------------------------------------------------------------------------------

COPIES = st.builds(
    lambda name, host, version, remaining: EntryCopy(
        Entry(name, host, "component", {"version": version}, 10.0), version, remaining, removed=version == 2
    ),
    st.sampled_from("ab"),
    st.sampled_from("hk"),
    st.integers(1, 3),
    st.floats(0.5, 9.0),
)


@pytest.mark.slow
@given(st.lists(COPIES, min_size=1, max_size=4))
def test_the_order_in_which_copies_arrive_does_not_matter(copies: list[EntryCopy]) -> None:
    outcomes = set()
    for order in permutations(copies):
        store = Store()
        for copy in order:
            store.put(copy, 0.0)
        outcomes.add(
            tuple((entry.host, entry.attributes["version"]) for name in "ab" for entry in store.get(name, now=0.4))
        )
    assert len(outcomes) == 1


def test_a_withdrawn_entry_is_not_restored_by_an_older_copy() -> None:
    store = Store()
    entry = Entry("a", "h", "component", {}, 10.0)
    store.put(EntryCopy(entry, 1, 9.0), 0.0)
    assert store.put(EntryCopy(entry, 2, 9.0, removed=True), 1.0)
    assert not store.put(EntryCopy(entry, 1, 9.0), 2.0)
    assert store.get("a", 2.0) == ()
    assert not store.renew("a", "component", "h", 2, 3.0)
    assert store.put(EntryCopy(entry, 3, 9.0), 4.0)
    assert store.get("a", 4.0) == (entry,)
    store.put(EntryCopy(entry, 4, 1.0), 5.0)
    store.put(EntryCopy(entry, 3, 9.0), 5.0)
    assert store.get("a", 6.0) == ()  # nor does an older copy lend a newer one its lease


def test_a_store_expires_drops_hosts_and_is_bounded() -> None:
    store = Store(capacity=3)
    for host in "abcd":
        store.put(EntryCopy(Entry("x", host, "component", {}, 10.0), 1, 100.0), 0.0)
    assert [entry.host for entry in store.get("x", 0.0)] == ["a", "b", "c"]
    assert store.get("x", HELD_FRACTION * 10.0) == ()  # no copy claims more than the lease
    assert store.drop_host("a") == 1
    assert store.drop_host("a") == 0
    store.expire(20.0)
    assert len(store) == 0
    assert store.names() == ()


def test_no_host_takes_the_entries_of_others() -> None:
    """A host that registers names without end, for ever, has half of the entries at most, and for some minutes."""
    store, forever = Store(capacity=40), float("inf")
    for number in range(100):
        store.put(EntryCopy(Entry(f"{number}", "flood", "stream", {}, forever), 1, forever), 0.0)
    assert len(store) == 20
    assert all(store.put(EntryCopy(Entry("x", f"host-{n}", "component", {}, 30.0), 1, 30.0), 0.0) for n in range(10))
    assert not store.put(EntryCopy(Entry("y", "liar", "stream", {}, 30.0), 1, float("nan")), 0.0)
    store.expire(LONGEST)
    assert len(store) == 0


# -- register, look up ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 3, 8, 60])
def test_a_registered_entry_is_found_by_every_peer(count: int) -> None:
    world = ring(count, seed=count)
    register(world, "p0", "filter", load=0.5)
    register(world, world.live[-1], "filter", "join", load=0.25)
    world.run(2.0)
    assert world.directory["p0"].confirmed
    for origin in world.live[::7]:
        found = world.lookup(origin, ["filter", "join", "nothing"])
        assert found is not None
        assert {entry.host for entry in found["filter"]} == {"p0", world.live[-1]}
        assert found["join"][0].attributes == {"load": 0.25}
        assert found["nothing"] == ()


def test_components_and_streams_of_one_name_are_two_entries() -> None:
    world = ring(8)
    world.call("p1", world.directory["p1"].register, "packets", "component")
    world.call("p1", world.directory["p1"].register, "packets", "stream", {"rate": 10})
    world.run(2.0)
    found = world.lookup("p2", ["packets"])
    assert found is not None
    assert [(entry.kind, entry.host, entry.attributes) for entry in found["packets"]] == [
        ("component", "p1", {}),
        ("stream", "p1", {"rate": 10}),
    ]
    world.call("p1", world.directory["p1"].unregister, "packets", "component")
    world.run(2.0)
    found = world.lookup("p2", ["packets"])
    assert found is not None
    assert [entry.kind for entry in found["packets"]] == ["stream"]


def test_registering_again_changes_the_attributes_and_unregistering_removes() -> None:
    world = ring(12)
    register(world, "p1", "filter", load=0.1)
    world.run(2.0)
    register(world, "p1", "filter", load=0.9)
    world.run(2.0)
    found = world.lookup("p2", ["filter"])
    assert found is not None
    assert [entry.attributes for entry in found["filter"]] == [{"load": 0.9}]
    world.call("p1", world.directory["p1"].unregister, "filter")
    world.call("p1", world.directory["p1"].unregister, "never")
    world.run(2.0)
    assert world.hosts("p2", "filter") == []
    assert holders(world, "filter") == set()
    assert world.directory["p1"].registered == ()
    assert world.directory["p1"].confirmed


def test_an_unknown_kind_is_refused() -> None:
    peer = Peer("a", seed=1)
    directory = Directory(peer, Pastry(peer))
    with pytest.raises(ValueError, match=r"kind: 'steam'; expected 'component' or 'stream', nearest 'stream'"):
        directory.register("x", "steam")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"lease: 0 s; expected more than 0"):
        Directory(peer, Pastry(peer), lease=0)


def test_names_of_which_the_asker_is_root_cost_no_message_and_answer_within_the_call() -> None:
    world = ring(8)
    mine = [name for name in (f"n{number}" for number in range(200)) if world.root(key_of(name)) == "p3"]
    register(world, "p5", *mine)
    world.run(3.0)
    before, answers = world.simulation.messages, []  # type: ignore[var-annotated]
    during: list[bool] = []

    def ask() -> None:
        world.directory["p3"].lookup(mine, answers.append)
        during.append(bool(answers))

    world.call("p3", ask)
    assert world.simulation.messages == before
    assert [sorted(answer) for answer in answers] == [sorted(mine)]
    assert during == [False]  # never before the call returns


def test_one_message_goes_to_each_root() -> None:
    world = ring(8)
    names = [f"n{number}" for number in range(40)]
    roots = {world.root(key_of(name)) for name in names} - {"p3"}
    effects = world.directory["p3"].peer.call(
        world.simulation.now, world.directory["p3"].lookup, names, lambda found: None
    )
    routed = [effect for effect in effects if isinstance(effect, Send)]
    assert sorted(effect.to for effect in routed) == sorted(roots)


@pytest.mark.slow
def test_a_root_that_was_found_once_is_asked_straight_away() -> None:
    world = ring(200, seed=1)
    origin = world.live[0]
    name = next(
        name
        for name in (f"n{number}" for number in range(100))
        if world.root(key_of(name)) not in world.pastry[origin].known()
    )
    world.lookup(origin, [name])
    before = [pastry.hops[1] for pastry in world.pastry.values()]
    world.lookup(origin, [name])
    after = [pastry.hops[1] for pastry in world.pastry.values()]
    assert sum(after) - sum(before) == 1


def test_no_names_are_found_at_once() -> None:
    world = ring(3)
    assert world.lookup("p1", []) == {}


def test_none_comes_only_when_the_deadline_is_over() -> None:
    world = ring(8)
    far = next(name for name in NAMES if world.root(key_of(name)) != "p1")
    world.simulation.loss = 1.0
    answers: list[object] = []
    world.call("p1", world.directory["p1"].lookup, [far], answers.append, 0.5)
    world.run(0.49)
    assert answers == []
    world.run(0.02)
    assert answers == [None]


def test_lookups_are_repeated_until_the_deadline() -> None:
    world = ring(20)
    register(world, "p1", *NAMES)
    world.run(3.0)
    world.simulation.loss = 0.2
    for origin in world.live[::3]:
        found = world.lookup(origin, NAMES, deadline=10.0)
        assert found is not None
        assert all([entry.host for entry in found[name]] == ["p1"] for name in NAMES)


def test_registrations_and_lookups_before_the_join_are_processed_after_it() -> None:
    world = ring(8)
    register(world, "p1", "filter")
    world.run(1.0)
    world.simulation.add(world.make("new"))
    world.simulation.start("new")
    register(world, "new", "filter")
    answers: list[dict[str, tuple[Entry, ...]] | None] = []
    world.call("new", world.directory["new"].lookup, ["filter"], answers.append, 5.0)
    world.call("new", world.pastry["new"].join, "p1")
    world.run(5.0)
    assert answers[0] is not None
    assert "p1" in [entry.host for entry in answers[0]["filter"]]
    assert world.hosts("p2", "filter") == ["new", "p1"]


# -- copies --------------------------------------------------------------------------------------------------------


def test_the_root_and_two_neighbours_on_each_side_hold_an_entry() -> None:
    world = ring(20)
    register(world, "p1", *NAMES)
    world.run(2.0)
    for name in NAMES:
        root = world.root(key_of(name))
        index = world.live.index(root)
        assert holders(world, name) == {world.live[(index + step) % 20] for step in range(-2, 3)}


@pytest.mark.slow
def test_an_entry_survives_any_two_simultaneous_crashes() -> None:
    name = "the name"
    probe = ring(14)
    root = probe.live.index(probe.root(key_of(name)))
    host = probe.live[(root + 7) % 14]
    near = [probe.live[(root + step) % 14] for step in range(-3, 4)]
    for victims in combinations(near, 2):
        world = ring(14, lease=600.0)
        register(world, host, name)
        world.run(1.0)
        world.crash(*victims)
        asker = next(address for address in world.live if address not in near)
        assert world.hosts(asker, name) == [host], victims
        world.run(6.0)
        assert world.hosts(asker, name) == [host], victims
        assert len(holders(world, name)) >= 5  # copied anew


def test_two_crashes_again_and_again_leave_the_entry() -> None:
    world = ring(24, lease=600.0)
    register(world, "p1", "x")
    world.run(1.0)
    for _ in range(5):
        root = world.root(key_of("x"))
        victims = [root, *world.pastry[root].root_neighbours(1)]
        world.crash(*[address for address in victims if address != "p1"][:2])
        world.run(6.0)
        assert world.hosts("p1", "x") == ["p1"]
        world.run(1.0)


def test_copies_that_are_lost_are_sent_again() -> None:
    """A root sends a copy a few times only, so of many one may be missing; sent once, three of ten would be."""
    missing = 0
    for seed in range(3):
        world = ring(12, seed, lease=600.0)
        world.simulation.loss = 0.3
        register(world, "p1", *NAMES)
        world.run(12.0)
        missing += sum(max(0, 5 - len(holders(world, name))) for name in NAMES)
        assert not any(directory.copying for directory in world.directory.values())
    assert missing <= 0.05 * 3 * 5 * len(NAMES)


def test_a_renewed_entry_outlives_its_lease_everywhere() -> None:
    world = ring(12, lease=3.0)
    register(world, "p1", "x")
    world.run(30.0)
    assert len(holders(world, "x")) == 5


def test_a_neighbour_that_lacks_a_renewed_entry_asks_for_it() -> None:
    world = ring(12, lease=6.0)
    register(world, "p1", "x")
    world.run(1.0)
    neighbour = world.pastry[world.root(key_of("x"))].root_neighbours(1)[0]
    world.directory[neighbour].store.drop_host("p1")
    world.run(8.0)
    assert neighbour in holders(world, "x")


# -- roots that change ---------------------------------------------------------------------------------------------


def test_a_root_that_has_just_joined_misses_nothing() -> None:
    world = ring(6, lease=600.0)
    names = [f"n{number}" for number in range(30)]
    register(world, "p0", *names)
    world.run(2.0)
    wrong: list[tuple[str, str]] = []
    answered: list[int] = []

    def check(origin: str) -> None:
        def done(found: dict[str, tuple[Entry, ...]] | None) -> None:
            answered.append(1)
            wrong.extend((origin, name) for name in names if found is None or len(found[name]) != 1)

        world.call(origin, world.directory[origin].lookup, names, done, 5.0)

    for number in range(12):
        address = f"new{number}"
        world.simulation.add(world.make(address))
        world.simulation.start(address)
        world.call(address, world.pastry[address].join, "p0")
        for _ in range(8):
            check(world.rng.choice([origin for origin in world.live if world.pastry[origin].joined]))
            world.run(0.03)
    world.run(6.0)
    assert len(answered) == 96
    assert wrong == []
    assert any(world.root(key_of(name)).startswith("new") for name in names)


def test_entries_of_hosts_that_do_not_know_their_new_root_stay_beyond_a_lease() -> None:
    world = ring(40, lease=3.0)
    hosts = world.live[::8]
    for host in hosts:
        register(world, host, *NAMES)
    world.run(2.0)
    before = {name: world.root(key_of(name)) for name in NAMES}
    for number in range(20):
        address = f"new{number}"
        world.simulation.add(world.make(address))
        world.simulation.start(address)
        world.call(address, world.pastry[address].join, "p0")
    world.run(3.0)
    assert any(world.root(key_of(name)) != root for name, root in before.items())
    for _ in range(6):
        found = world.lookup("p1", NAMES)
        assert found is not None
        assert all({entry.host for entry in found[name]} == set(hosts) for name in NAMES)
        world.run(1.0)


def test_a_restarted_root_has_its_entries_back() -> None:
    world = ring(10, lease=600.0)
    register(world, "p1", "x")
    world.run(1.0)
    root = world.root(key_of("x"))
    assert root != "p1"
    world.crash(root)
    world.restart(root, "p1")  # before anybody noticed
    world.run(4.0)
    assert root in holders(world, "x")
    assert world.hosts(root, "x") == ["p1"]


def test_peers_that_leave_one_after_the_other_hand_over() -> None:
    world = ring(16, lease=600.0)
    register(world, "p0", *NAMES)
    world.run(2.0)
    for address in [address for address in world.live if address != "p0"][:12]:
        world.call(address, world.pastry[address].leave)
        world.run(0.7)
        world.crash(address)
        found = world.lookup("p0", NAMES)
        assert found is not None
        assert all([entry.host for entry in found[name]] == ["p0"] for name in NAMES)


def test_a_host_that_leaves_takes_its_entries_along() -> None:
    world = ring(16, lease=600.0)
    register(world, "p5", *NAMES)
    world.run(2.0)
    world.call("p5", world.pastry["p5"].leave)
    world.run(2.0)
    world.crash("p5")
    assert all(holders(world, name) == set() for name in NAMES)


def test_both_sides_of_a_partition_end_with_all_entries() -> None:
    world = ring(16, lease=600.0)
    one = world.rng.sample(world.live, 6)
    world.simulation.partition([one])
    world.run(10.0)
    other = next(address for address in world.live if address not in one)
    register(world, one[0], "x")
    register(world, other, "x")
    world.run(4.0)
    assert world.hosts(one[1], "x") == [one[0]]
    assert world.hosts(other, "x") == [other]
    world.simulation.heal()
    world.run(25.0)
    assert world.hosts(one[1], "x") == sorted([one[0], other])


# -- hosts that die ------------------------------------------------------------------------------------------------


def test_entries_of_a_dead_host_go_promptly() -> None:
    world = ring(20, lease=600.0)
    register(world, "p5", *NAMES)
    world.run(2.0)
    world.crash("p5")
    world.run(5.0)
    assert all(holders(world, name) == set() for name in NAMES)


def test_without_a_failure_detector_entries_of_dead_hosts_expire_with_their_lease() -> None:
    world = ring(20, lease=6.0)
    register(world, "p5", *NAMES)
    world.run(13.0)
    for address, directory in world.directory.items():
        directory.is_dead = lambda _: False
        world.membership[address].on_dead.clear()
    world.crash("p5")
    world.run(6.0)
    assert all(holders(world, name) == set() for name in NAMES)


def test_a_host_that_was_wrongly_declared_dead_registers_again_at_once() -> None:
    world = ring(20, lease=600.0)
    register(world, "p5", *NAMES)
    world.run(2.0)
    world.simulation.hang("p5", 8.0)
    world.run(7.0)
    assert world.hosts("p6", NAMES[0], deadline=0.9) == []
    world.run(6.0)
    found = world.lookup("p6", NAMES)
    assert found is not None
    assert all([entry.host for entry in found[name]] == ["p5"] for name in NAMES)


def test_a_copy_of_a_dead_hosts_entry_is_not_taken() -> None:
    world = ring(8)
    world.crash("p5")
    world.run(6.0)
    directory = world.directory["p1"]
    copy = EntryCopy(Entry("x", "p5", "component", {}, 30.0), 1, 27.0)
    directory.peer.receive("p2", Copies(1, (copy,)), world.simulation.now)
    assert len(directory.store) == 0


# -- bounds --------------------------------------------------------------------------------------------------------


def test_waiting_lookups_and_remembered_roots_are_bounded() -> None:
    world = World(4, seed=1)
    directory = world.directory["p1"]
    for number in range(2000):
        directory.peer.receive("p2", Lookup(number, "p2", ("x",)), 0.0)
    assert len(directory.waiting) <= 512
    world.run(5.0)
    names = [f"n{number}" for number in range(6000)]
    assert world.lookup("p1", names, deadline=20.0) is not None
    assert len(directory.known_roots) <= 2048
    assert not directory.pending


def test_an_answer_to_no_pending_lookup_is_ignored() -> None:
    world = ring(4)
    assert world.directory["p1"].peer.receive("p2", Found(12345, {"x": ()}), 1.0) == []


def test_renewals_of_all_names_at_a_root_share_a_message() -> None:
    world = ring(8, lease=30.0)
    for address in world.live:
        register(world, address, *[f"{address}/{number}" for number in range(10)])
    world.run(60.0)
    before = world.simulation.messages
    world.run(60.0)
    assert (world.simulation.messages - before) / 60.0 / 8 < 7.0  # of which 4.2 are the detector's


def test_the_same_seed_gives_the_same_answers() -> None:
    def run() -> tuple[object, int]:
        world = World(16, seed=3)
        world.simulation.loss = world.simulation.reordering = 0.1
        world.run(5.0)
        rng = random.Random(1)
        for address in world.live:
            register(world, address, *rng.sample(NAMES, 3))
        world.run(5.0)
        return world.lookup("p2", NAMES), world.simulation.messages

    assert run() == run()
