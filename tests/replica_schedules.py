"""Schedules of active replicas: queries, where their replicas are, and what happens to peers, streams and replicas.

Sources with jitter feed random graphs of operators of all kinds. Peers crash, hang and are cut off, and may be known as
dead while they live; streams are discarded and revived, replicas are rebuilt and move, and in each schedule one moves
after half of all that happens. Where only some operators have active replicas, others have backups or neither, and move
as well. On whole peers, which rebuild replicas by themselves, further peers die meanwhile.
Everything is drawn from a seed.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping
from functools import partial

import msgspec
import polars as pl

from synergy_nb.assembly import PeerConfig
from synergy_nb.control.driver_messages import OfferComponents
from synergy_nb.dataflow.operators import create
from synergy_nb.dataflow.streams.replicas._sorted_input import SortedInput
from synergy_nb.dataflow.tuples import END, Batch, Item, Punctuation
from synergy_nb.events import Event, ReplicaRebuilt
from synergy_nb.plan import Plan, PlanError
from synergy_nb.plan.builder import Stream
from synergy_nb.plan.checks.replica_degrees import is_replicable
from synergy_nb.plan.derived.active_replicas import degrees_of, replicas_of, replicated
from synergy_nb.plan.derived.replica_agreement import agreement
from synergy_nb.plan.operators.catalogue import ALL_COMPONENTS, KINDS
from synergy_nb.simulator.peer_world import PeerWorld
from synergy_nb.simulator.scripted_faults import Faults
from tests.campaigns import CUTS
from tests.moving_schedules import KEYS, packets, table
from tests.replica_world import ReplicaWorld

PEERS = tuple("abcdefgh")
SAFE = "a"  # peer of the sources and of the sink
END_S = 90.0
WHAT = ("crash", "hang", "hang", "suspect", "cut", "cut", "discard", "discard", "revive", "rebuild", "move")


def stage(rng: random.Random, one: Stream, number: int) -> Stream:
    """One more operator, of those whose replicas agree without being sorted."""
    match rng.choice(("filter", "filter", "project", "delay")):
        case "filter":
            return one.filter(f"bytes > {rng.randrange(600)}", id=f"f{number}")
        case "delay":
            return one.delay("1 ms", id=f"d{number}")
        case _:
            names = ("link", "source", "destination", "source_port", "destination_port")
            return one.project(*names, bytes=f"bytes + {rng.randrange(9)}", id=f"p{number}")


def ordered(rng: random.Random, one: Stream) -> Stream:
    """One more operator, of those whose replicas agree only if their inputs are sorted."""
    match rng.choice(("sample", "count windows", "distinct", "encrypt")):
        case "sample":
            return one.sample("40 %", id="x")
        case "count windows":
            return one.aggregate("link", "7 rows", total="sum(bytes)", id="x")
        case "distinct":
            return one.distinct("source_port", window="200 ms", id="x")
        case _:
            return one.encrypt("bytes", key="k", id="x").decrypt({"bytes": "int"}, key="k", id="y")


def windowed(rng: random.Random, one: Stream) -> Stream:
    """One more operator, of those that emit the result of a window, or two in a row."""
    match rng.choice(("aggregate", "sliding", "sessions", "decaying", "sort", "top", "percentile", "count", "compare")):
        case "aggregate":
            return one.aggregate("link", "200 ms", n="count(*)", total="sum(bytes)", id="x")
        case "sliding":
            return one.aggregate("source", "200 ms every 50 ms", least="min(bytes)", most="max(bytes)", id="x")
        case "sessions":
            return one.aggregate("source", "15 ms gap", n="count(*)", id="x")
        case "decaying":
            return one.aggregate("link", "200 ms every 100 ms", load="sum(bytes)", half_life="70 ms", id="x")
        case "sort":
            return one.sort("bytes desc", window="200 ms", id="x")
        case "top":
            return one.top(3, "bytes desc", per="link", window="200 ms", id="x")
        case "percentile":
            return one.percentile("bytes", 0.5, by=["link"], window="200 ms", name="half", id="x")
        case "count":
            return one.count("n", window="200 ms every 50 ms", id="x")
        case _:
            return one.sort("bytes", window="200 ms", id="x").compare("bytes", 0.6, by=["link"], id="y")


def ideal(plan: Plan, inputs: Mapping[str, pl.DataFrame]) -> list[tuple[object, ...]]:
    """The rows of a plan whose operators get all of each input at once, in order of time where they need an order."""
    made: dict[str, list[Item]] = {}
    for name, operator in plan.operators.items():
        if operator.kind == "source":
            made[name] = [Batch(inputs[name], 0, 0.0), Punctuation(END, inputs[name].height, 0.0)]
            continue
        found = agreement(plan, name)
        streams = [made[up] for up in operator.inputs]
        if found.sorts:
            held = [SortedInput(found.order) for _ in streams]
            streams = [
                [out for item in each for out in one.receive(item)] for one, each in zip(held, streams, strict=True)
            ]
        logic = create(operator, plan, secrets=KEYS, wait=lambda _: None, exact=True)
        given = [(port, item) for port, items in enumerate(streams) for item in items]
        given.sort(key=lambda pair: isinstance(pair[1], Punctuation))
        made[name] = [out for port, item in given for out in logic.execute(port, item)]
    tables = [item.table for item in made["out"] if isinstance(item, Batch)]
    return sorted((row for each in tables for row in each.rows()), key=repr)


def query(rng: random.Random) -> Plan:
    """Unions, joins and windows of two or three sources."""
    left = [packets(f"s{number}", number) for number in range(rng.choice((2, 2, 3)))]
    number = 0
    while len(left) > 1:
        one, other = left.pop(), left.pop()
        if rng.random() < 0.5:
            one = stage(rng, one, 10 + number)
        if rng.random() < 0.3 and not left:
            how = rng.choice(("inner", "inner", "left", "anti"))
            return one.join(other, on="source", within="30 ms", how=how, id=f"j{number}").sink("out", id="out")
        left.append(one.union(other, id=f"u{number}"))
        number += 1
    one = stage(rng, left[0], 20)
    match rng.choice(("none", "windowed", "windowed", "windowed", "diamond", "ordered", "ordered")):
        case "windowed":
            one = windowed(rng, one)
        case "ordered":
            one = ordered(rng, one)
        case "diamond":
            one = stage(rng, one, 30).union(one.filter("bytes > 700", id="d"), id="ud")
    return one.sink("out", id="out")


def mixed(rng: random.Random, plan: Plan) -> Plan:
    """Give some operators of a plan active replicas, some backups, and some neither."""
    wanted = {
        name: rng.choice(("active 2", "active 3", "degree 2", "degree 2", "degree 3", "degree 1"))
        for name, operator in plan.operators.items()
        if is_replicable(operator)
    }
    chosen = rng.sample(list(wanted), min(2, len(wanted)))
    wanted.update(zip(chosen, ("degree 2", "active 2"), strict=False))
    for name, operator in plan.operators.items():
        if name in wanted and not KINDS[operator.kind].replicas(operator.params)[0]:  # rows would depend on the order
            wanted[name] = rng.choice(("active 2", "degree 2"))
            wanted.update({up: "active 2" for up in operator.inputs if up in wanted})
    operators = [
        msgspec.structs.replace(operator, availability=wanted.get(name)) for name, operator in plan.operators.items()
    ]
    return Plan(operators, plan.qos, plan.name)


def read_by(plan: Plan, degree: int) -> Plan:
    """Have so many peers read each source of a plan, and so many execute each operator."""
    operators = [
        msgspec.structs.replace(each, availability=f"active {degree}") if each.kind == "source" else each
        for each in plan.operators.values()
    ]
    return Plan(operators, msgspec.structs.replace(plan.qos, active=degree), plan.name)


class Schedule:
    """A schedule that was drawn from a seed, and what it has come to.

    Parameters
    ----------
    seed
        Seed of all that is drawn.
    some
        Whether only some operators have active replicas, while others have backups.
    entries
        Whether sources have active replicas, too.
    """

    def __init__(self, seed: int, *, some: bool = False, entries: bool = False) -> None:
        self.rng = rng = random.Random(seed)
        self.plan = query(rng)
        self.degree = rng.choice((2, 2, 3))
        if entries:
            self.plan = read_by(self.plan, self.degree)
        if some:
            self.plan = mixed(rng, self.plan)
        self.passive = {name: each.passive for name, each in degrees_of(self.plan).items() if each.passive > 1}
        self.single = [name for name, each in degrees_of(self.plan).items() if some and each == (1, 1)]
        self.single = [name for name in self.single if self.plan.operators[name].kind not in ("source", "sink")]
        self.inputs = {name: table(rng) for name in self.plan.sources}
        faults = Faults(
            delay=(0.0, rng.choice((0.005, 0.05, 0.3))),
            loss=rng.choice((0.0, 0.0, 0.05)),
            duplication=rng.choice((0.0, 0.1)),
        )
        self.world = ReplicaWorld(seed, PEERS, faults, rng.choice((0.3, 5.0)))
        self.world.secrets.update(KEYS)
        self.world.pace = rng.choice((0.02, 0.06))
        degrees = {name: each.active for name, each in degrees_of(self.plan).items()}
        self.expanded = replicated(self.plan, degrees if some else self.degree)
        self.operators = replicas_of(self.expanded)
        self.done: list[str] = []
        self.moves = 0

    def deploy(self) -> None:
        """Put the replicas of each operator on different peers."""
        peers = dict.fromkeys(self.expanded.operators, SAFE)
        for several in self.operators.values():
            for name, peer in zip(several, self.rng.sample(PEERS[1:], len(several)), strict=True):
                peers[name] = peer
        backups: dict[str, tuple[str, ...]] = {}
        for name, degree in self.passive.items():
            peers[name], *others = self.rng.sample(PEERS[1:], degree)
            backups[name] = tuple(others)
        peers.update({name: self.rng.choice(PEERS[1:]) for name in self.single})
        self.world.deploy("app", self.expanded, peers, self.inputs, backups=backups)

    # -- what happens --------------------------------------------------------------------------------------------

    def bears_without(self, peer: str) -> bool:
        """Whether each operator has a replica elsewhere that reads and feeds all others, and that nobody doubts."""
        world = self.world
        known, gone = world.deployments["app"].assignments, {peer, *world.doubted}
        if any(known[name].active == peer for name in self.single):
            return False
        for name in self.passive:
            copies = [each for each in known[name].copies if each not in gone and world.ready("app", name, each)]
            if known[name].active in gone and not any(not world.dead(each) for each in copies):
                return False
        return all(self._sound(operator, {peer}) for operator in self.operators)

    def _sound(self, operator: str, gone: set[str]) -> list[str]:
        world = self.world
        assignments = world.deployments["app"].assignments
        found = []
        for name in world.replicas("app", operator):
            each = assignments[name]
            whole = "~" not in name or int(name.partition("~")[2]) < 99
            planned = self.expanded.operators[name].inputs if whole else ()
            reads = {number for number, feed in each.feeds.items() if feed.operator}
            whole = whole and reads.issuperset(range(len(planned))) and self._feeds_all(name)
            if each.active not in gone and each.active not in world.doubted and whole:
                found.append(name)
        return found

    def _feeds_all(self, replica: str) -> bool:
        """Whether no reader has ever had the stream of a replica discarded."""
        original = self.expanded.operators.get(replica)
        readers = [name for name, each in self.expanded.operators.items() if replica in each.inputs]
        assignments = self.world.deployments["app"].assignments
        return original is not None and all(
            any(
                feed.operator == replica and number < len(self.expanded.operators[name].inputs)
                for number, feed in assignments[name].feeds.items()
            )
            for name in readers
            if name in assignments
        )

    def act(self, what: str = "", peer: str = "") -> None:
        """Have one thing happen, or a certain one, at a certain peer."""
        rng, world = self.rng, self.world
        peer = peer or rng.choice(PEERS[1:])
        operator = rng.choice((*self.operators, *self.passive, *self.single))
        what = what or rng.choice(WHAT)
        if what in ("crash", "suspect") and not self.bears_without(peer):
            what = "hang"
        self.done.append(f"{world.now:.3f} {what} {peer} {operator}")
        match what:
            case "crash":
                world.crash(peer)
            case "hang":
                world.hang(peer, rng.choice((0.05, 1.0, 8.0)))
            case "suspect":
                world.suspect(peer, rng.choice((1.0, 8.0)))
            case "cut":
                other, seconds = rng.choice([each for each in PEERS if each != peer]), rng.choice((0.1, 2.0, 8.0))
                world.cut(peer, other, seconds, rng.choice(CUTS))
            case "discard":
                self.discard()
            case "revive":
                self.revive()
            case "rebuild":
                world.rebuild("app", operator, peer)
            case _ if operator in self.passive or operator in self.single:
                world.move("app", operator, peer, rng.choice((0.0, 0.1)))
            case _:
                self.move(rng.choice(world.replicas("app", operator) or [""]))

    def move(self, replica: str) -> None:
        """Have a replica move to a peer without another one of its operator."""
        world, rng = self.world, self.rng
        assignments = world.deployments["app"].assignments
        if not replica or assignments[replica].copies:
            return
        here = {each.active for each in assignments.values() if each.replica_of == assignments[replica].replica_of}
        free = [peer for peer in PEERS[1:] if peer not in here and not world.dead(peer)]
        if free:
            self.moves += 1
            world.move("app", replica, rng.choice(free), rng.choice((0.0, 0.1)))

    def lose_input(self) -> None:
        """Have a replica die that a component reads which is moving."""
        known = self.world.deployments["app"].assignments
        moving = [each for each in known.values() if each.follower]
        read = sorted({feed.operator for each in moving for feed in each.inputs} & known.keys())
        peers = sorted({known[name].active for name in read if known[name].replica_of})
        peers = [peer for peer in peers if self.bears_without(peer)]
        if peers:
            self.act("crash", self.rng.choice(peers))

    def discard(self) -> None:
        """Discard a stream where producer and reader have another one, which nothing has happened to."""
        world, rng = self.world, self.rng
        assignments = world.deployments["app"].assignments
        streams = world.streams("app")
        if not streams:
            return
        producer, reader = rng.choice(streams)
        operator = assignments[producer].replica_of
        sound = [name for name in self._sound(operator, set()) if name != producer]
        others = {up for up, down in streams if down == reader}
        peers = [
            each
            for name, each in assignments.items()
            if each.replica_of and each.replica_of == assignments[reader].replica_of and name != reader
        ]
        kept = (
            [name for name in self._sound(assignments[reader].replica_of, set()) if name != reader] if peers else [""]
        )
        if set(sound) & others and kept:
            self.done[-1] += f": {producer} > {reader}"
            world.discard("app", producer, reader)

    def revive(self) -> None:
        """Revive a stream that was discarded."""
        world, rng = self.world, self.rng
        assignments = world.deployments["app"].assignments
        running = set(world.streams("app"))
        gone = []
        for name, each in assignments.items():
            node = self.expanded.operators.get(name) or self.expanded.operators[each.replica_of]
            for number, up in enumerate(node.inputs):
                port = node.ports[number] if node.ports else number
                if up in assignments and assignments[up].replica_of and (up, name) not in running:
                    gone.append((up, name, port))
        if gone:
            up, name, port = rng.choice(gone)
            self.done[-1] += f": {up} > {name}"
            world.revive("app", up, name, port)

    def run(self) -> None:
        """Deploy, have things happen, and compare the rows at the sink with those of a run without any of it."""
        self.deploy()
        events = self.rng.randint(1, 10)
        for event in range(events):
            self.world.run(self.rng.choice((0.01, 0.1, 0.4)))
            self.act("move" if event == events // 2 else "")
            if event == events // 2 and self.rng.random() < 0.5:
                self.world.run(self.rng.choice((0.0, 0.02, 0.05)))
                self.lose_input()
        self.world.run(END_S)
        results = self.world.results["app", "out"]
        assert results.ended, f"stands still; failures: {self.world.failures()}"
        found = sorted(results.rows.rows(), key=repr)
        wanted = ideal(self.plan, self.inputs)
        assert found == wanted, f"{len(found)} rows; expected {len(wanted)}"


def run(seed: int, *, some: bool = False, entries: bool = False) -> Schedule:
    """Run the schedule of a seed; see :class:`Schedule`."""
    schedule = Schedule(seed, some=some, entries=entries)
    try:
        schedule.run()
    except AssertionError as error:
        asked = f"some=True: passive {schedule.passive}" if some else f"degree {schedule.degree}"
        raise AssertionError(f"run({seed}): {asked}: {schedule.done}: {error}") from error
    return schedule


def _is_submittable(plan: Plan) -> bool:
    """Whether an expanded plan has no more paths from sources to sinks than peers accept."""
    try:
        Plan.from_bytes(plan.to_bytes())
    except PlanError:
        return False
    return True


class WholeSchedule:
    """A schedule of whole peers, which rebuild replicas whatever dies meanwhile; parameters as of :class:`Schedule`."""

    def __init__(self, seed: int, *, some: bool = False, entries: bool = False) -> None:
        self.rng = rng = random.Random(seed)
        self.plan = query(rng)
        self.degree = rng.choice((2, 2, 3))
        if entries:
            self.plan = read_by(self.plan, self.degree)
        if self.degree == 3 and not _is_submittable(replicated(self.plan, 3)):
            self.degree = 2
        if some:
            self.plan = mixed(rng, self.plan)
        self.passive = {name: each.passive for name, each in degrees_of(self.plan).items() if each.passive > 1}
        self.inputs = {name: table(rng, rng.choice((200, 400))) for name in self.plan.sources}
        delay = (0.001, rng.choice((0.005, 0.05, 0.15)))
        own = PeerConfig(components=ALL_COMPONENTS, cores=16.0, placement=None)
        self.world = world = PeerWorld(seed, PEERS, Faults(delay=delay), config=own)
        world.secrets.update(KEYS)
        for peer in PEERS:
            world.control.report(peer, OfferComponents())
        world.run(2.0)
        world.pace = rng.choice((0.3, 0.6))
        degrees = {name: each.active for name, each in degrees_of(self.plan).items()}
        expanded = replicated(self.plan, degrees if some else self.degree)
        self.operators = replicas_of(expanded)
        peers, columns = dict.fromkeys(expanded.operators, SAFE), rng.sample(PEERS[1:], 3 if some else self.degree)
        apart = rng.random() < 0.5
        for several in self.operators.values():
            others = rng.sample(PEERS[1:], len(several)) if apart else columns[: len(several)]
            peers.update(zip(several, others, strict=True))
        backups: dict[str, tuple[str, ...]] = {}
        for name, degree in self.passive.items():
            peers[name], *copies = rng.sample(PEERS[1:], degree) if apart else columns[:degree]
            backups[name] = tuple(copies)
        world.deploy("app", expanded, peers, self.inputs, backups=backups)
        assert world.until(lambda: world.status("app") == "running")
        world.disturb(Faults(delay=delay, loss=rng.choice((0.0, 0.0, 0.03)), duplication=rng.choice((0.0, 0.1))))
        self.done: list[str] = []

    def of(self, kind: type[Event]) -> list[Event]:
        return [each for each in self.world.control.journal.about("app") if isinstance(each, kind)]

    @property
    def over(self) -> bool:
        return self.world.results["app", "out"].ended or self.world.status("app") != "running"

    def survives(self, peer: str, uncertain: Collection[str] = ()) -> bool:
        """Whether each operator has a replica elsewhere, and one that its readers could do with alone."""
        where, world = self.world.where("app"), self.world
        journal = self.of(ReplicaRebuilt)
        present = {each.operator: each.at for each in journal if isinstance(each, ReplicaRebuilt)}
        began = world.graph("app").roles.rebuilt
        sound = {
            name
            for name, at in where.items()
            if at in world.synergy and name not in uncertain and (name not in began or present.get(name) == at)
        }
        alive = len(world.synergy) > self.degree + 2
        copies = world.graph("app").roles.backups
        for name in self.passive:
            if where[name] == peer and not any(each != peer and each in world.synergy for each in copies[name]):
                return False
        return alive and all(
            any(where[name] != peer for name in group if name in sound) for group in self.operators.values()
        )

    def lose(self, peer: str, what: str) -> None:
        self.done.append(f"{self.world.now:.3f} {what} {peer}")
        if what == "hang":
            self.world.hang(peer, self.rng.choice((6.0, 12.0)))
        else:
            self.world.crash(peer)

    def _left(self, peer: str) -> bool:
        return self.over or peer not in self.world.where("app").values()

    def disturb_rebuild(self) -> None:
        """Have the new peer, the source or another peer of a rebuild die."""
        world, rng = self.world, self.rng
        world.until(lambda: bool(world.graph("app").roles.rebuilds) or self.over, 20.0)
        world.run(rng.choice((0.0, 0.05, 0.3)))
        for replica, (source, to) in world.graph("app").roles.rebuilds.items():
            victim = rng.choice((to, world.where("app")[source], rng.choice(PEERS[1:])))
            if victim in world.synergy and victim not in (SAFE, "") and self.survives(victim, {replica}):
                self.lose(victim, "crash while rebuilding")

    def run(self) -> int:
        """Have peers die one after another; return the number of replicas that were rebuilt."""
        world, rng = self.world, self.rng
        for _ in range(rng.randint(1, 3)):
            world.run(rng.choice((0.3, 1.0, 4.0)))
            peer = rng.choice(sorted(set(world.where("app").values()) - {SAFE, ""}))
            if self.over or peer not in world.synergy or not self.survives(peer):
                continue
            self.lose(peer, rng.choice(("crash", "crash", "hang")))
            world.until(partial(self._left, peer), 40.0)
            if rng.random() < 0.4:
                self.disturb_rebuild()
            world.until(lambda: self.over or (all(world.where("app").values()) and self.survives("")), 90.0)
        results = world.results["app", "out"]
        assert world.until(lambda: results.ended, 600.0), f"stands still; {world.status('app')}, {world.failures()}"
        found, wanted = sorted(results.rows.rows(), key=repr), ideal(self.plan, self.inputs)
        assert found == wanted, f"{len(found)} rows; expected {len(wanted)}"
        return len(self.of(ReplicaRebuilt))


def run_whole(seed: int, *, some: bool = False, entries: bool = False) -> int:
    """Run the schedule of whole peers of a seed; return the number of replicas that were rebuilt."""
    schedule = WholeSchedule(seed, some=some, entries=entries)
    try:
        return schedule.run()
    except AssertionError as error:
        asked = f"some=True: passive {schedule.passive}" if some else f"degree {schedule.degree}"
        raise AssertionError(f"run_whole({seed}): {asked}: {schedule.done}: {error}") from error
