"""What every protocol must do, whatever it is for.

A case builds a simulation of peers that run the protocol, does a round of its ordinary work, and says what is wrong
once all is quiet. A further protocol is held to the contract by one more case in ``CASES``.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import pytest

from synergy_nb.algorithms.availability import PlacementConfig
from synergy_nb.assembly import PeerConfig
from synergy_nb.control.driver_messages import StopApplication
from synergy_nb.control.peer import Message, Peer, Protocol, Timer, key_of
from synergy_nb.events import Event, MessageRefused
from synergy_nb.overlay.directory import Directory
from synergy_nb.overlay.latency import Latency
from synergy_nb.overlay.membership import Membership
from synergy_nb.overlay.pastry import Pastry
from synergy_nb.overlay.recently_seen import Latest, Recent
from synergy_nb.plan import source
from synergy_nb.simulator.kernel import SimulatedPeers
from tests.composed_rings import check
from tests.loaded import Loaded
from tests.loaded_world import LoadedWorld
from tests.moving import Movers, move
from tests.overlay_world import RoutedLabel, World
from tests.placing import Placements


class Bench(NamedTuple):
    """A protocol at work."""

    simulation: SimulatedPeers
    work: Callable[[int], None]  # one round, with its number
    complaints: Callable[[], list[str]]  # what is wrong, asked in quiet
    protocols: Mapping[str, Callable[[], Iterable[object]]]  # by name: all instances, to be weighed


def ring(seed: int, codec: bool) -> Bench:
    """Pastry: messages to random keys, and one peer that leaves and joins again."""
    world = World(14, seed=seed, codec=codec)

    def work(number: int) -> None:
        for label in range(4):
            origin = world.rng.choice(world.live)
            world.call(origin, world.pastry[origin].route, key_of(f"{number}/{label}"), RoutedLabel(label))
        mover = world.pastry["p5"]
        if number % 4 == 1:
            world.call("p5", mover.leave)
        elif number % 4 == 2:
            world.call("p5", mover.join, "p1")
        world.arrived.clear()

    def complaints() -> list[str]:
        keys = [key_of(f"key {number}") for number in range(30)]
        found = [f"leaf set of {address}: {wrong}" for address, wrong in world.wrong_leaf_sets().items()]
        return found + [
            f"{key} at {place}, not {world.root(key)}"
            for key, place in zip(keys, world.arrivals_of(keys), strict=True)
            if place != world.root(key)
        ]

    return Bench(world.simulation, work, complaints, {"pastry": world.pastry.values})


def detector(seed: int, codec: bool) -> Bench:
    """Membership: a peer hangs in every round."""
    world = World(14, seed=seed, codec=codec)

    def work(number: int) -> None:
        world.simulation.hang(world.live[number % 14], 4.0)

    def complaints() -> list[str]:
        return [f"{who} holds {whom} for dead" for who, whom in world.false_deaths()]

    return Bench(world.simulation, work, complaints, {"membership": world.membership.values})


def directory(seed: int, codec: bool) -> Bench:
    """Directory: entries come, change and go."""
    world = World(14, seed=seed, lease=6.0, codec=codec)
    names = [f"n{number}" for number in range(12)]

    def work(number: int) -> None:
        for address in world.live:
            mine = world.directory[address]
            world.call(address, mine.register, world.rng.choice(names), "component", {"load": number})
            world.call(address, mine.unregister, world.rng.choice(names))
            world.call(address, mine.lookup, world.rng.sample(names, 3), lambda found: None, 1.0)

    def complaints() -> list[str]:
        found = world.lookup("p3", names)
        if found is None:
            return ["no answer"]
        return [
            f"{name}: {hosts} instead of {right}"
            for name in names
            for hosts, right in [
                (
                    {entry.host for entry in found[name]},
                    {address for address in world.live if _registers(world.directory[address], name)},
                )
            ]
            if hosts != right
        ]

    return Bench(world.simulation, work, complaints, {"directory": world.directory.values})


def _registers(directory: Directory, name: str) -> bool:
    return any(entry.name == name for entry in directory.registered)


def loads(seed: int, codec: bool) -> Bench:
    """Load updates: loads are reported and promised, components come and go."""
    world = LoadedWorld(14, seed=seed, levels=11, lease=6.0, codec=codec)
    world.simulation.duplication = 0.0
    names = [f"n{number}" for number in range(12)]
    for each in world.loads.values():
        each.ledger.on_change.append(each.promises_changed)

    def work(number: int) -> None:
        for address in world.live:
            own, rng = world.loads[address], world.rng
            if rng.random() < 0.1:
                world.call(address, own.withdraw)
            world.offer(address, rng.choice(names))
            world.report(address, rng.uniform(0.0, 12.0), rng.choice([None, rng.uniform(0.0, 12.0)]))
            world.call(address, own.ledger.release, "r")
            world.call(address, own.ledger.commit, "r", "o", rng.random(), {})

    def complaints() -> list[str]:
        known = world.known("p3", names)
        return [
            f"{address}: {known.get(address)} instead of {own.directory.own_load}"
            for address, own in world.loads.items()
            if own.offered and known.get(address) != own.directory.own_load
        ]

    weighed = {"load levels": lambda: (*world.loads.values(), *world.directory.values())}
    return Bench(world.simulation, work, complaints, weighed)


def placement(seed: int, codec: bool) -> Bench:
    """Placement of replicas: applications come and go."""
    brisk = PlacementConfig(answer=0.5, reservation=4.0, placement=5.0, refresh=1.0, lease=8.0)
    world = Placements(
        10,
        seed,
        config=lambda number: PeerConfig(name=f"peer-{number}", seed=seed * 100 + number, cores=0.4, placement=brisk),
        codec=codec,
    )
    rng = random.Random(seed)

    def work(number: int) -> None:
        for request in sorted(world.standing()):
            if rng.random() < 0.4:
                world.release(request)
        stream = source("python", name="n", columns={"v": "float"}, rate=100.0, at=f"peer-{rng.randrange(10)}")
        upper = stream.delay("500 us", id="a")
        lower = stream.delay("500 us", id="b").delay("1 ms", id="c")
        plan = upper.union(lower, id="u").sink("out")
        world.place(f"peer-{rng.randrange(10)}", f"r{number}", plan, degree=rng.randint(1, 3))

    def complaints() -> list[str]:
        pending = [f"{address} places" for address in world.synergy if world.placement(address).pending]
        doubled = [f"two replicas of {name} on a peer" for name in world.doubled()]
        return world.wrong_books() + [f"overbooked: {text}" for text in world.overbooked().values()] + pending + doubled

    def protocols() -> Iterable[Protocol]:
        return [protocol for address in world.synergy for protocol in world.placement(address).protocols]

    return Bench(world.simulation, work, complaints, {"placement": protocols})


class _Queries:
    """Applications that come, share streams, move and go, beside those that peers end because somebody died."""

    def __init__(self, seed: int, codec: bool, kind: type[Movers] = Movers) -> None:
        self.ring = kind(
            8, seed, takes=0.2, codec=codec, config=lambda n: PeerConfig(name=f"peer-{n}", seed=seed * 100 + n)
        )
        self.rng = random.Random(seed)
        self.asked: list[str] = []

    def work(self, number: int) -> None:
        """A request, a move and an end, as it happens."""
        ring, rng = self.ring, self.rng
        led = [(at, name) for at, each in ring.synergy.items() for name in sorted(each.session.led)]
        for at, name in led:
            if rng.random() < 0.3:
                ring.simulation.report(at, StopApplication(name))
        standing = [(at, name) for at, name in led if name in ring.synergy[at].session.led]
        if standing:
            at, name = rng.choice(standing)
            with contextlib.suppress(ValueError):  # it has not begun yet, or cannot move there
                operator = rng.choice(("source", "f0", "f1"))
                move(ring, operator, rng.choice(sorted(ring.synergy)), name, at)
        name = f"r{number}"
        self.asked.append(name)
        stream = source("packets", rate=100.0, seed=rng.randint(1, 3), id="source")
        for stage in range(rng.randint(1, 2)):
            stream = stream.filter(f"bytes > {stage}", cost="200 us", id=f"f{stage}")
        ring.submit(rng.choice(sorted(ring.synergy)), name, stream.sink("out", delay="3 s"))

    def complaints(self) -> list[str]:
        """What peers hold that no application needs, and the other way round."""
        ring = self.ring
        for address, each in ring.synergy.items():
            for name in sorted(each.session.applications - each.session.led):
                if ring.status(name) == "failed":
                    ring.simulation.report(address, StopApplication(name))
        ring.run(1.0)
        try:
            check(ring, self.asked)
        except AssertionError as error:
            return [str(error)]
        return [f"overbooked: {text}" for text in ring.overbooked().values()]


class _HotSpots(_Queries):
    """The same, and peers whose components have no slack where many tuples arrive."""

    ring: Loaded

    def __init__(self, seed: int, codec: bool) -> None:
        super().__init__(seed, codec, Loaded)
        self.ring.tau = {"f0": 0.3, "f1": 0.3}
        self.ring.slope = 0.01

    def work(self, number: int) -> None:
        super().work(number)
        name, rate = self.asked[-1], self.rng.choice((20.0, 60.0, 120.0))
        self.ring.rates[name] = lambda _now: rate
        self.ring.second_reports()


def hot_spots(seed: int, codec: bool) -> Bench:
    """Hot spots: components that lose their slack look for other peers while applications come and go."""
    world = _HotSpots(seed, codec)
    peers = world.ring.synergy

    def complaints() -> list[str]:
        sought = [f"{address} looks for a target" for address, each in peers.items() if not each.hot_spots.quiet]
        return world.complaints() + sought

    weighed = {"hot spots": lambda: [each.hot_spots for each in peers.values()]}
    return Bench(world.ring.simulation, world.work, complaints, weighed)


def queries(seed: int, codec: bool) -> Bench:
    """The protocols that bring applications to run."""
    world = _Queries(seed, codec)
    peers = world.ring.synergy
    weighed: dict[str, Callable[[], Iterable[object]]] = {
        "probing": lambda: [each.probing for each in peers.values()],
        "composition": lambda: [each.composition for each in peers.values()],
        "session": lambda: [each.session for each in peers.values()],
    }
    return Bench(world.ring.simulation, world.work, world.complaints, weighed)


CASES: dict[str, Callable[[int, bool], Bench]] = {
    "pastry": ring,
    "membership": detector,
    "directory": directory,
    "load levels": loads,
    "placement": placement,
    "probing, composition, session": queries,
    "hot spots": hot_spots,
}
cases = pytest.mark.parametrize("build", CASES.values(), ids=CASES.keys())


def rounds(bench: Bench, first: int, count: int) -> None:
    for number in range(first, first + count):
        bench.work(number)
        bench.simulation.run(until=bench.simulation.now + 1.0)


def quiet(bench: Bench) -> None:
    simulation = bench.simulation
    simulation.loss = simulation.duplication = simulation.reordering = 0.0
    simulation.run(until=simulation.now + 30.0)


def weight(value: Any, seen: set[int]) -> int:
    """Items in all containers that an object keeps, followed through containers and plain objects."""
    if id(value) in seen or isinstance(value, str | bytes | int | float | Peer | Message | type) or value is None:
        return 0
    seen.add(id(value))
    if isinstance(value, dict):
        return len(value) + sum(weight(item, seen) for item in value.values())
    if isinstance(value, list | tuple | set | frozenset):
        return len(value) + sum(weight(item, seen) for item in value)
    if callable(value) or isinstance(value, Timer | Recent | Latest):  # memories of known bounds, reached on purpose
        return 0
    return sum(weight(getattr(value, name), seen) for name in _fields(value))


def _fields(value: Any) -> list[str]:
    names = list(getattr(value, "__dict__", ()))
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        names.extend([slots] if isinstance(slots, str) else slots)
    others = (Pastry, Membership, Latency)
    return [name for name in names if hasattr(value, name) and not isinstance(getattr(value, name), others)]


@pytest.mark.slow
@cases
def test_protocols_recover_from_lost_repeated_and_reordered_messages(build: Callable[[int, bool], Bench]) -> None:
    for seed in range(3):
        bench = build(seed, False)
        simulation = bench.simulation
        simulation.loss, simulation.duplication, simulation.reordering = 0.1, 0.2, 0.2
        simulation.run(until=5.0)
        rounds(bench, 0, 11)
        quiet(bench)
        assert bench.complaints() == []


@cases
def test_all_messages_survive_the_wire(build: Callable[[int, bool], Bench]) -> None:
    bench = build(1, True)
    bench.simulation.run(until=5.0)
    rounds(bench, 0, 7)
    quiet(bench)
    assert bench.complaints() == []
    assert not [event for event in bench.simulation.journal if isinstance(event, MessageRefused)]


@cases
def test_the_same_seed_gives_the_same_run(build: Callable[[int, bool], Bench]) -> None:
    def run(seed: int) -> tuple[int, int, list[Event]]:
        bench = build(seed, False)
        simulation = bench.simulation
        simulation.loss, simulation.duplication, simulation.reordering = 0.1, 0.1, 0.1
        simulation.run(until=4.0)
        rounds(bench, 0, 5)
        return simulation.messages, simulation.events, list(simulation.journal)

    first = run(1)
    assert run(1) == first
    assert run(2) != first


@pytest.mark.slow
@cases
def test_state_does_not_grow_with_time(build: Callable[[int, bool], Bench]) -> None:
    bench = build(2, False)
    bench.simulation.run(until=5.0)

    def weigh() -> dict[str, int]:
        quiet(bench)
        return {name: sum(weight(each, set()) for each in found()) for name, found in bench.protocols.items()}

    rounds(bench, 0, 10)
    early = weigh()
    rounds(bench, 10, 90)
    grown = {name: (early[name], late) for name, late in weigh().items() if late > 1.3 * early[name] + 100}
    assert grown == {}


@cases
def test_no_message_is_handled_before_the_peer_has_joined_or_after_it_left(
    build: Callable[[int, bool], Bench],
) -> None:
    """Messages to a peer that is not in the ring change nothing that lasts, and are no error."""
    bench = build(3, False)
    simulation = bench.simulation
    caught: list[tuple[str, str, Message]] = []
    push = simulation.put

    def spy(when: float, address: str, sender: str, message: Message | None) -> None:
        if message is not None and len(caught) < 3000:
            caught.append((address, sender, message))
        push(when, address, sender, message)

    simulation.put = spy  # type: ignore[method-assign]
    simulation.duplication = 1e-12  # so that all messages pass the spy
    simulation.run(until=5.0)
    rounds(bench, 0, 5)
    lonely = World(1, seed=9)
    stranger = lonely.make("stranger")
    stranger.start(0.0)
    for _, sender, message in caught:
        stranger.receive(sender, message, 1.0)
    assert lonely.pastry["stranger"].known() == ()
    assert len({type(message) for _, _, message in caught}) > 5
