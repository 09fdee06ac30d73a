"""Load updates between peers: their number, their receivers, and look-ups that return the last published load."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from synergy_nb.algorithms.migration._candidates import candidates, least_loaded
from synergy_nb.control.peer import Send
from synergy_nb.models.overlapping_levels import OverlappingLevels
from synergy_nb.overlay.directory_entries import Entry, EntryCopy, PeerLoad, Store
from synergy_nb.overlay.directory_messages import LoadUpdate, Registered
from tests.loaded_world import JOINED, LoadedWorld, names_with
from tests.overlay.walks import WALK, reported
from tests.quick_cases import quick_first

NAMES = ("filter", "aggregate", "transcoder")  # figure 3.4
RAMP = [number / 20 for number in (*range(241), *range(240, -1, -1))]


def world_of(count: int = 14, levels: int = 5, **options: Any) -> LoadedWorld:
    world = LoadedWorld(count, seed=3, levels=levels, assembled=True, **options)
    world.run(JOINED)
    return world


def updates_by(world: LoadedWorld, host: str, loads: Sequence[float]) -> Counter[str]:
    """Receivers of the updates of a host after its first report."""
    world.report(host, loads[0])
    world.run(1.0)
    world.updates.clear()
    for load in loads[1:]:
        world.report(host, load)
        world.run(1.0)
    return Counter({to: count for (sender, to), count in world.updates.items() if sender == host})


# -- how many messages ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("levels", "expected"), [(3, 8), (4, 10), (5, 17), (6, 17), (7, 20)])
def test_a_walk_costs_one_message_to_each_responsible_peer_and_level_left(levels: int, expected: int) -> None:
    world = world_of(levels=levels)
    world.offer("p4", *NAMES)
    world.run(3.0)
    others = world.responsible(*NAMES) - {"p4"}
    assert len(others) > 1
    assert updates_by(world, "p4", WALK) == dict.fromkeys(others, expected)


@pytest.mark.parametrize(
    ("loads", "levels", "expected"),
    quick_first(
        [
            ([4.9, 5.1] * 20, 3, 0),
            ([0.0, 12.0] * 20, 3, 39),
            ([0.0, 12.0] * 20, 7, 39),
            (RAMP, 3, 4),
            (RAMP, 5, 8),
            (RAMP, 7, 12),
        ],
        4,
    ),
    ids=["saw-tooth", "jumps, 3 levels", "jumps, 7 levels", "ramp, 3 levels", "ramp, 5 levels", "ramp, 7 levels"],
)
def test_a_load_that_stays_in_its_level_costs_nothing_and_a_jump_one_update(
    loads: list[float], levels: int, expected: int
) -> None:
    assert len(reported(loads, levels)) == expected
    world = world_of(levels=levels)
    world.offer("p4", *NAMES)
    world.run(3.0)
    others = world.responsible(*NAMES) - {"p4"}
    assert updates_by(world, "p4", loads) == (dict.fromkeys(others, expected) if expected else {})


def test_a_responsible_peer_receives_one_update_for_all_components_and_the_host_none() -> None:
    world = world_of()
    names = [*names_with(world, root="p2", count=140), *names_with(world, root="p7", count=3)]
    world.offer("p7", *names)
    world.run(3.0)
    assert updates_by(world, "p7", [0.0, 12.0, 0.0]) == {"p2": 2}
    assert world.known("p0", names) == {"p7": world.loads["p7"].directory.own_load}
    assert world.loads["p7"].messages == world.updates["p7", "p2"] + 1  # the first report


def test_a_peer_that_is_responsible_for_all_of_its_components_sends_nothing() -> None:
    world = world_of()
    names = names_with(world, root="p7", count=3)
    world.offer("p7", *names)
    world.run(3.0)
    assert updates_by(world, "p7", [0.0, 12.0, 3.0]) == {}
    assert {load.measured for load in world.known("p0", names).values()} == {3.0}


def test_a_peer_that_offers_nothing_sends_nothing_and_later_entries_contain_its_load() -> None:
    world = world_of()
    assert updates_by(world, "p3", [0.0, 12.0]) == {}
    world.offer("p3", *NAMES)
    world.run(3.0)
    assert {host: load.load for host, load in world.known("p0", NAMES).items()} == {"p3": 12.0}


def test_renewals_are_no_load_updates() -> None:
    world = world_of(lease=6.0)
    world.offer("p4", *NAMES)
    world.report("p4", 3.0)
    world.run(3.0)
    world.updates.clear()
    world.run(60.0)
    assert not world.updates
    assert {load.load for load in world.known("p0", NAMES).values()} == {3.0}


def test_the_predicted_load_decides_where_there_is_one() -> None:
    world = world_of()
    world.offer("p4", "filter")
    world.run(3.0)
    for measured, predicted, expected in [(1.0, None, 1.0), (9.0, 1.5, 1.0), (1.0, 11.0, 11.0), (1.0, None, 1.0)]:
        world.report("p4", measured, predicted)
        world.run(1.0)
        assert world.known("p0", ["filter"])["p4"].load == expected
    assert world.loads["p4"].load == PeerLoad(0.0, 1.0, None)


@pytest.mark.parametrize("given", [(-1.0, None), (float("nan"), None), (1.0, -0.5), (1.0, float("inf"))])
def test_a_load_that_makes_no_sense_is_refused(given: tuple[float, float | None]) -> None:
    world = world_of(2)
    with pytest.raises(ValueError, match=r"(measured|predicted): .*; expected a finite load from 0"):
        world.loads["p0"].report(*given)


# -- promises ------------------------------------------------------------------------------------------------------


def test_promises_are_published_once_a_second_at_most() -> None:
    world = world_of()
    world.offer("p4", *NAMES)
    world.run(3.0)
    world.updates.clear()
    loads = world.loads["p4"]
    loads.ledger.on_change.append(loads.promises_changed)
    for number in range(40):
        world.call("p4", loads.ledger.commit, f"r{number}", "o", 0.02, {})
        world.run(0.025)
    world.run(2.0)
    others = world.responsible(*NAMES) - {"p4"}
    assert set(world.updates.values()) <= {1, 2}
    assert {to for _, to in world.updates} == others
    assert world.known("p0", NAMES)["p4"].promised == pytest.approx(0.8)
    world.updates.clear()
    world.call("p4", loads.ledger.commit, "little", "o", 0.001, {})
    world.run(3.0)
    assert not world.updates


def test_an_update_because_of_the_load_contains_the_promised_load_too() -> None:
    world = world_of()
    world.offer("p4", "filter")
    world.run(3.0)
    world.call("p4", world.loads["p4"].ledger.commit, "r", "o", 0.25, {})
    world.report("p4", 4.0)
    world.run(1.0)
    found = world.known("p0", ["filter"])["p4"]
    assert (found.promised, found.measured, found.predicted) == (0.25, 4.0, None)


# -- overload ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("levels", [2, 5, 21])
def test_listeners_learn_when_the_load_enters_and_leaves_the_highest_level(levels: int) -> None:
    world = world_of(2, levels=levels)
    loads = world.loads["p0"]
    changes: list[bool] = []
    loads.on_overload.append(changes.append)
    for load in (1.0, 9.0, 12.0, 50.0, 9.99, 3.0, 11.5, 0.0):
        world.report("p0", load)
    assert changes == [True, False, True, False]
    assert not loads.overloaded


# -- what look-ups return ------------------------------------------------------------------------------------------


def published(world: LoadedWorld) -> dict[str, PeerLoad | None]:
    """The load that each host has published last."""
    return {address: world.directory[address].own_load for address in world.live if world.loads[address].offered}


def offering(count: int, **options: Any) -> LoadedWorld:
    """A ring in which every third peer offers components, with loads that differ."""
    world = world_of(count, **options)
    for number, host in enumerate(sorted(world.live)[::3]):
        world.offer(host, *NAMES)
        world.run(0.5)
        world.report(host, float(number))
    world.run(3.0)
    return world


@pytest.mark.parametrize("count", [1, 2, 5, 34])
def test_every_look_up_returns_the_loads_of_all_hosts(count: int) -> None:
    world = offering(count)
    for origin in world.live[::5]:
        assert world.known(origin, NAMES) == published(world)


@pytest.mark.slow
def test_a_root_that_takes_over_from_a_dead_one_has_the_loads() -> None:
    world = offering(20, lease=600.0)  # no renewal repairs anything
    for number, name in enumerate(NAMES):
        root = next(iter(world.responsible(name)))
        host = next(address for address in sorted(world.loads) if world.loads[address].offered and address != root)
        world.report(host, 3.0 + 4.0 * number)
        world.run(0.5)
        world.crash(root)
        world.run(8.0)
        assert world.known(world.live[0], [name]) == published(world)


@pytest.mark.slow
def test_a_root_that_joins_and_one_that_leaves_pass_the_loads_on() -> None:
    world = offering(12, lease=600.0)
    hosts = [address for address in sorted(world.loads) if world.loads[address].offered]
    for number in range(12, 40):
        world.simulation.add(world.make(f"p{number}"))
        world.simulation.start(f"p{number}")
        world.call(f"p{number}", world.pastry[f"p{number}"].join, "p0")
        world.run(0.7)
        world.report(world.rng.choice(hosts), world.rng.uniform(0.0, 20.0))
    world.run(12.0)
    assert world.known("p5", NAMES) == published(world)
    for address in [each for each in world.live if each not in hosts][::2]:
        world.call(address, world.pastry[address].leave)
        world.run(1.0)
        del world.pastry[address], world.loads[address]
    world.run(12.0)
    assert world.known(hosts[0], NAMES) == published(world)


@pytest.mark.parametrize("seed", range(6))
def test_lost_doubled_and_reordered_messages_leave_the_last_load(seed: int) -> None:
    world = LoadedWorld(12, seed=seed, assembled=True, lease=9.0, codec=True)
    world.run(JOINED)
    hosts = world.live[::2]
    for host in hosts:
        world.offer(host, *world.rng.sample(NAMES, 2))
    simulation = world.simulation
    simulation.loss, simulation.duplication, simulation.reordering = 0.2, 0.2, 0.2
    for _ in range(60):
        world.report(world.rng.choice(hosts), world.rng.uniform(0.0, 15.0))
        world.run(world.rng.uniform(0.0, 0.6))
    simulation.loss = simulation.reordering = 0.0
    simulation.duplication = 1e-12
    world.run(8.0)
    assert world.known("p1", NAMES) == published(world)


def test_a_lost_update_is_sent_again_until_it_is_acknowledged() -> None:
    world = world_of(8, lease=600.0)
    names = names_with(world, root="p2", count=2)
    world.offer("p5", *names)
    world.report("p5", 1.0)
    world.run(5.0)
    world.updates.clear()
    world.simulation.loss = 1.0
    world.report("p5", 8.0)
    world.run(2.0)
    world.simulation.loss = 0.0
    world.run(5.0)
    assert world.known("p0", names)["p5"].load == 8.0
    sent = world.updates["p5", "p2"]
    world.run(60.0)
    assert world.updates["p5", "p2"] == sent
    assert world.loads["p5"].messages == 2  # repeated messages are no further updates


def test_an_update_that_comes_late_twice_or_without_entries_changes_nothing() -> None:
    world = world_of(8)
    names = names_with(world, root="p2", count=1)
    world.offer("p5", *names)
    world.report("p5", 4.0)
    world.run(3.0)
    stored = world.known("p0", names)
    root, now = world.directory["p2"].peer, world.simulation.now
    latest = stored["p5"].version
    for host, version, answer in [("p5", latest - 1, latest), ("p5", latest, latest), ("p6", latest + 1, -1)]:
        effects = root.receive(host, LoadUpdate(PeerLoad(0.9, 9.0, version=version)), now)
        assert effects == [Send(host, Registered((), (), answer))]
    assert world.known("p0", names) == stored


def test_a_host_that_starts_again_publishes_a_newer_load() -> None:
    world = world_of(10)
    world.offer("p5", *NAMES)
    world.report("p5", 30.0)
    world.run(2.0)
    world.crash("p5")
    world.restart("p5", "p0")
    world.offer("p5", *NAMES)
    world.run(4.0)
    assert world.known("p1", NAMES)["p5"] == world.directory["p5"].own_load
    assert world.known("p1", NAMES)["p5"].load == 0.0


def test_targets_of_a_migration_are_found_by_the_directory_alone_the_least_loaded_first() -> None:
    world = world_of(16)
    loads = {"p1": (0.2, 6.0), "p4": (4.0, None), "p6": (9.0, 0.5), "p9": (0.6, None), "p12": (0.6, None)}
    for host, (measured, predicted) in loads.items():
        world.offer(host, "filter")
        world.report(host, measured, predicted)
    world.run(3.0)
    sent = world.simulation.messages
    found = world.lookup("p4", ["filter"], wait=0.6)
    assert found is not None
    assert world.simulation.messages - sent < 200  # the pings of the failure detector, and the look-up
    known = candidates(found["filter"])
    assert [each.address for each in known] == ["p6", "p12", "p9", "p4", "p1"]
    assert least_loaded(known, excluded={"p4"}) == ["p6", "p12", "p9", "p1"]


# -- stored entries ------------------------------------------------------------------------------------------------

OF_HOST = st.builds(
    lambda name, host, version, load, removed: EntryCopy(
        Entry(name, host, "component", {}, 10.0, None if load is None else PeerLoad(load / 4, version=load)),
        version,
        9.0,
        removed,
    ),
    st.sampled_from("ab"),
    st.sampled_from("hk"),
    st.integers(1, 3),
    st.none() | st.integers(1, 4),
    st.booleans(),
)


@pytest.mark.slow
@given(st.lists(OF_HOST, min_size=1, max_size=4))
def test_entries_of_a_host_have_its_newest_load_in_whatever_order_copies_arrive(copies: list[EntryCopy]) -> None:
    for order in permutations(copies):
        store = Store()
        newest: dict[str, int] = {}
        for copy in order:
            load = copy.entry.load
            known = newest.get(copy.entry.host, -1)
            newer_load = load is not None and load.version > known
            newer = copy.version > store.version(copy.entry.name, "component", copy.entry.host)
            assert store.put(copy, 0.0) == (newer or newer_load)
            newest[copy.entry.host] = max(known, -1 if load is None else load.version)
        for name in "ab":
            for held in store.copies(name, 0.0):
                version = -1 if held.entry.load is None else held.entry.load.version
                assert version == newest[held.entry.host] == store.load_version(held.entry.host)


def test_a_store_forgets_the_load_of_a_host_with_its_last_entry() -> None:
    store = Store()
    assert not store.update_load("h", PeerLoad(0.5, version=3), 0.0)
    entry = Entry("a", "h", "component", {}, 10.0, PeerLoad(0.5, version=3))
    stream = Entry("s", "h", "stream", {}, 20.0)
    store.put(EntryCopy(entry, 1, 9.0), 0.0)
    store.put(EntryCopy(stream, 1, 18.0), 0.0)
    assert store.update_load("h", PeerLoad(0.25, version=4), 0.0)
    assert [each.load for each in store.get("s", 0.0)] == [None]
    store.expire(10.0)
    assert store.load_version("h") == 4
    store.expire(20.0)
    assert store.load_version("h") == -1
    store.put(EntryCopy(entry, 1, 9.0), 20.0)
    assert store.load_version("h") == 3
    store.drop_host("h")
    assert store.load_version("h") == -1


def test_levels_say_whether_the_last_report_is_in_the_highest() -> None:
    levels = OverlappingLevels(5)
    found = [(levels.contains(1e9), levels.highest)]
    for load in (3.0, 10.0):
        levels.leaves(load)
        found.append((levels.contains(1e9), levels.highest))
    assert found == [(False, False), (False, False), (True, True)]
