"""Schedules of components that move: what they execute, where they are, and what happens in which phase of a move.

Peers are whole (:class:`~synergy_nb.simulator.peer_world.PeerWorld`): their sessions lead the moves, and real operators
read real tuples. Everything is drawn from a seed, and times are virtual.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import NamedTuple

import polars as pl

from synergy_nb.dataflow.deployments import Deployment, Role
from synergy_nb.dataflow.operators import create
from synergy_nb.dataflow.streams.component.component import Component
from synergy_nb.dataflow.streams.component.execution import ExecutionOutcome, Work
from synergy_nb.dataflow.streams.hosting.effects import FactKind
from synergy_nb.dataflow.streams.log.log import Limits
from synergy_nb.dataflow.tuples import END, Batch, Item, Punctuation
from synergy_nb.events import MoveGivenUp
from synergy_nb.plan import Plan, source
from synergy_nb.plan.builder import Stream
from synergy_nb.simulator.peer_world import PeerWorld
from synergy_nb.simulator.scripted_faults import Faults
from tests.campaigns import CUTS

PEERS = tuple("abcdefgh")
ORIGINS = {"app": "a", "other": "b"}  # where the sinks are
KEYS = {"k": bytes(range(32))}
ROWS = 100
CALM = Faults(delay=(0.0, 0.001), capture=0.005)
LONG_S = 4.0  # a peer that hangs so long is declared dead
SLOW_S, FAST_S = 0.5, 0.08  # between two batches of a source, before a living peer is declared dead, and then
FAR_S = 0.4  # between the origin and the producers of such a peer

Row = tuple[object, ...]
Table = tuple[tuple[str, object], ...]


def packets(name: str, seed: int = 0) -> Stream:
    """A source that can be read again, so that it may move."""
    return source("packets", rate=50.0, seed=seed, id=name)


def table(rng: random.Random, rows: int = ROWS, us: int = 1_000_000) -> pl.DataFrame:
    """Tuples of so many µs, out of which windows of any kind can be made; ``destination_port`` tells them apart."""
    times = sorted(rng.randrange(us) for _ in range(rows))
    return pl.DataFrame(
        {
            "time": pl.Series(times, dtype=pl.Int64).cast(pl.Datetime("us")),
            "link": [rng.choice("AB") for _ in range(rows)],
            "source": [rng.choice("abc") for _ in range(rows)],
            "destination": [rng.choice("xyz") for _ in range(rows)],
            "source_port": [rng.randrange(9) for _ in range(rows)],
            "destination_port": list(range(rows)),
            "bytes": [rng.randrange(1500) for _ in range(rows)],
        }
    )


class Case(NamedTuple):
    """A query whose operator ``x`` has state, or depends on positions.

    Parameters
    ----------
    build
        Function from a stream of packets, and others, to that operator and all that is behind it.
    sources
        Number of sources.
    ordered
        Whether the rows at the sink have one order, so whether each input on the way there is the only one.
    digits
        Significant digits of floats that are compared; sums of floats depend on how tuples came together.
    """

    build: Callable[..., Stream]
    sources: int = 1
    ordered: bool = True
    digits: int = 17


def compared(stream: Stream) -> Stream:
    totals = stream.aggregate("source", "200 ms", total="sum(bytes)", id="x")
    return totals.compare("total", "50 %", count=totals.count(id="y"), id="z")


def with_itself(stream: Stream) -> Stream:
    return stream.join(stream.filter("bytes > 700", id="y"), on="link", within="20 ms", id="x")


CASES: dict[str, Case] = {
    "aggregate": Case(lambda s: s.aggregate("link", "200 ms", n="count(*)", total="sum(bytes)", id="x")),
    "sliding": Case(lambda s: s.aggregate("link", "200 ms every 50 ms", least="min(bytes)", id="x")),
    "sessions": Case(lambda s: s.aggregate("source", "15 ms gap", n="count(*)", id="x")),
    "count windows": Case(lambda s: s.aggregate("link", "7 rows", total="sum(bytes)", id="x")),
    "fading": Case(lambda s: s.aggregate("link", "100 ms", total="sum(bytes)", half_life="50 ms", id="x"), digits=12),
    "sort": Case(lambda s: s.sort("bytes desc", window="150 ms", id="x")),
    "distinct": Case(lambda s: s.distinct("source_port", window="200 ms", id="x")),
    "top": Case(lambda s: s.top(3, "bytes desc", per="link", window="150 ms", id="x")),
    "percentile": Case(lambda s: s.percentile("bytes", "90 %", by="link", window="200 ms", id="x")),
    "count": Case(lambda s: s.count(window="11 rows", id="x")),
    "sample": Case(lambda s: s.sample("40 %", id="x")),
    "encrypt": Case(lambda s: s.encrypt("bytes", key="k", id="x")),
    "encrypt, decrypt": Case(lambda s: s.encrypt("bytes", key="k", id="x").decrypt({"bytes": "int"}, key="k", id="y")),
    "compare": Case(compared, ordered=False),
    "join": Case(lambda s, t: s.join(t, on="source", within="60 ms", id="x"), 2, ordered=False),
    "left join": Case(
        lambda s, t: s.join(t, on="source_port", within="30 ms", how="left", id="x"), 2, ordered=False
    ),
    "join with itself": Case(with_itself, ordered=False),
    "union, encrypt": Case(
        lambda s, t: s.union(t, id="x").encrypt("bytes", key="k", id="y").decrypt({"bytes": "int"}, key="k", id="z"),
        2,
        ordered=False,
    ),
    "unions": Case(lambda s, t, r: s.union(t, id="y").filter("bytes > 99", id="x").union(r, id="z"), 3, ordered=False),
}  # fmt: skip


SEVERAL = tuple(name for name, case in CASES.items() if not case.ordered)  # with an operator of several inputs


def query(name: str, seed: int = 0) -> Plan:
    """A case behind filters, one for each source."""
    case = CASES[name]
    streams = [
        packets(f"s{number}", 10 * seed + number).filter("bytes > 20", id=f"f{number}")
        for number in range(case.sources)
    ]
    return case.build(*streams).sink(id="out")


def undisturbed(plan: Plan, inputs: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """The rows of a plan whose operators get all of each input at once."""
    made: dict[str, list[Item]] = {}
    for name, operator in plan.operators.items():
        if operator.kind == "source":
            made[name] = [Batch(inputs[name], 0, 0.0), Punctuation(END, inputs[name].height, 0.0)]
            continue
        logic = create(operator, plan, secrets=KEYS, wait=lambda _: None)
        given = [(port, item) for port, up in enumerate(operator.inputs) for item in made[up]]
        given.sort(key=lambda pair: isinstance(pair[1], Punctuation))  # promises last: nothing is late
        made[name] = [out for port, item in given for out in logic.execute(port, item)]
    (sink,) = plan.sinks
    return pl.concat([item.table for item in made[sink] if isinstance(item, Batch)] or [pl.DataFrame()])


def rounded(rows: pl.DataFrame, digits: int) -> list[Row]:
    """The rows of a table, with floats of so many significant digits."""
    return rows.with_columns(pl.col(pl.Float64).round_sig_figs(digits) if digits < 17 else pl.all()).rows()


class Delays:
    """Delays between peers: near, some tens of ms, or 300 ms; each pair has one."""

    def __init__(self, rng: random.Random) -> None:
        far = rng.choice((0.0, 0.15, 0.4))
        self._delays = {
            frozenset((one, other)): 0.3 if rng.random() < far else rng.choice((0.002, 0.02, 0.02, 0.06))
            for number, one in enumerate(PEERS)
            for other in PEERS[:number]
        }

    def delay(self, sender: str, to: str) -> float:
        return self._delays[frozenset((sender, to))]

    def between(self, one: str, other: str, seconds: float) -> None:
        """Have messages between two peers take so long from now on."""
        self._delays[frozenset((one, other))] = seconds


class World(PeerWorld):
    """Peers whose executions are checked: one active component in each epoch, and each position read once."""

    def __init__(self, seed: int, rng: random.Random) -> None:
        limits = Limits(piece=(1 << 20, 300, 4_000)[seed % 3])
        self.delays = Delays(rng)
        super().__init__(seed, PEERS, CALM, network=self.delays, limits=limits, codec=seed % 10 == 0)
        self.secrets.update(KEYS)
        self.pace = rng.choice((0.03, 0.06, 0.1))
        self.active: dict[tuple[str, str, int], str] = {}
        self.read: dict[tuple[Component, int], int] = {}

    def _claim(self, application: str, operator: str, epoch: int, peer: str) -> None:
        found = self.active.setdefault((application, operator, epoch), peer)
        assert found == peer, f"{application}/{operator} is active at {found} and {peer} in epoch {epoch}"

    def _deploy_at(self, address: str, deployment: Deployment) -> None:
        for operator, assigned in deployment.assignments.items():
            self._claim(deployment.application, operator, assigned.epoch, assigned.active)
        super()._deploy_at(address, deployment)

    def _measure(self, work: Work, outcome: ExecutionOutcome) -> None:
        each = work.component
        if each.role is Role.ACTIVE:
            self._claim(each.application, each.operator, each.epoch, each.peer)
        if work.chunks and not work.dropped:
            start, end = work.chunks[0].start.position, work.chunks[-1].end.position
            before = self.read.get((each, work.port), start)
            assert start == before, f"{each.operator} at {each.peer} reads {start} after {before}"
            self.read[each, work.port] = end
        super()._measure(work, outcome)


# -- phases of a move --------------------------------------------------------------------------------------------------


def _agreed(world: World, move: Move) -> bool:
    return move.to in world.synergy and "app" in world.synergy[move.to].session.applications


def _following(world: World, move: Move) -> bool:
    copies = world.nodes[move.to].hosting.roles.copies
    return (move.application, move.operator) in copies


def _executing(world: World, move: Move) -> bool:
    return (move.application, move.operator) in world.nodes[move.to].hosting.components


def _completed(world: World, move: Move) -> bool:
    return bool(move.outcome)


def _switched(world: World, move: Move) -> bool:
    component = world.nodes[move.to].hosting.components.get((move.application, move.operator))
    return component is not None and component.role is Role.ACTIVE


#: Phase of a move to its condition; the fault happens when it first holds, or a little later.
PHASES: dict[str, Callable[[World, Move], bool]] = {
    "asked": lambda _world, _move: True,
    "agreed": _agreed,
    "following": _following,
    "executing": _executing,
    "completed": _completed,
    "switched": _switched,
}


class Move:
    """A move that was asked for."""

    def __init__(self, world: World, application: str, operator: str, to: str) -> None:
        self.application, self.operator, self.to = application, operator, to
        graph = world.graph(application)
        plan = Plan.from_bytes(graph.plan)
        peers = graph.roles.peers
        self.origin = graph.origin
        self.old = peers[operator]
        self.upstream = [peers[up] for up in plan.upstream(operator)]
        self.readers = [peers[down] for down in plan.downstream(operator)]
        self.outcome = world.move(application, operator, to)


FAULTS = ("none", "crash", "crash", "hang", "long hang", "doubted", "doubted", "cut", "storm")
VICTIMS = ("old", "new", "upstream", "reader")
MOVES = ("one", "one", "there and back", "neighbours", "to its backup", "two applications")


class Drawn(NamedTuple):
    """What moves, and what happens in which phase.

    Parameters
    ----------
    case, moving
        Name of the query, and which of its components move.
    fault, victim, phase
        The fault, the peer that it befalls, and the phase of the first move in which it happens.
    """

    case: str
    moving: str
    phase: str
    fault: str
    victim: str


def drawn(rng: random.Random) -> Drawn:
    found = Drawn(*(rng.choice(tuple(each)) for each in (CASES, MOVES, PHASES, FAULTS, VICTIMS)))
    return found._replace(case=rng.choice(SEVERAL)) if found.fault == "doubted" else found


class Schedule:
    """A schedule that was drawn from a seed, and what it has come to."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        self.case, self.moving, self.phase, self.fault, self.victim = drawn(rng)
        self.world = World(seed, rng)
        if self.fault == "doubted":
            self.world.pace = SLOW_S  # tuples pass before and after it is declared dead
        self.moves: list[Move] = []
        self.dead: set[str] = set()
        self.plans: dict[str, Plan] = {}
        self.inputs: dict[str, dict[str, pl.DataFrame]] = {}
        self.doubted = ""  # the operator of several inputs whose peer is declared dead and lives
        self.bearable = True  # whether nothing was lost that has no copy

    def __str__(self) -> str:
        return f"{self.case}: {self.moving}, {self.fault} of {self.victim} when {self.phase}"

    # -- set-up --------------------------------------------------------------------------------------------------

    def deploy(self, name: str, plan: Plan, shares: Mapping[str, tuple[str, str]] | None = None) -> None:
        """Set an application up on peers of which one often has several of its operators."""
        rng, origin = self.rng, ORIGINS[name]
        some = rng.sample([peer for peer in PEERS if peer not in ORIGINS.values()], rng.choice((2, 4, 5)))
        peers = {each: rng.choice(some) for each in plan.operators}
        peers["out"] = origin
        if self.fault == "doubted" and name == "app":
            self.doubted = rng.choice(
                [each for each in plan.operators if each != "out" and len(plan.upstream(each)) > 1]
            )
            peers[self.doubted] = rng.choice([peer for peer in PEERS if peer not in (*ORIGINS.values(), *some)])
            peers |= dict(zip(plan.upstream(self.doubted), some, strict=False))  # each on a peer of its own
        backups: dict[str, tuple[str, ...]] = {}
        if self.moving == "to its backup" or self.fault == "doubted" or rng.random() < 0.4:
            for each in plan.operators:
                free = [peer for peer in PEERS if peer != peers[each]]
                if each == self.doubted:  # another peer takes over than those that hear late of it
                    free = [peer for peer in free if peer not in {peers[up] for up in plan.upstream(each)}]
                if plan.operators[each].kind != "sink" and each not in (shares or {}):
                    backups[each] = tuple(rng.sample(free, rng.choice((1, 1, 2))))
        self.plans[name] = plan
        self.inputs[name] = {each: table(rng) for each in plan.sources}
        self.world.deploy(name, plan, peers, self.inputs[name], backups=backups, shares=shares)
        assert self.world.until(lambda: self.world.status(name) == "running"), f"{name} is not set up"
        self.world.run(0.05)

    def begin(self) -> None:
        """Set the applications up, and let them run for a while."""
        self.deploy("app", query(self.case))
        if self.moving == "two applications":
            self.world.run(self.rng.uniform(0.0, 0.3))
            shared = packets("n").filter("bytes > 0", id="x").sink(id="out")
            self.deploy("other", shared, {"n": ("app", "f0")})
        self.world.run(self.rng.uniform(0.0, 0.8))

    # -- moves and faults ----------------------------------------------------------------------------------------

    def run(self) -> None:
        """Have components move, and the fault happen in its phase."""
        self.begin()
        rng, world = self.rng, self.world
        operators = [name for name in self.plans["app"].operators if name != "out"]
        first = "f0" if self.moving == "two applications" else rng.choice((*operators, "x"))
        move = self.move("app", first)
        if self.moving == "two applications":
            self.move("other", "x")
        world.until(lambda: PHASES[self.phase](world, move) or bool(move.outcome), 3.0)
        if rng.random() < 0.5:
            world.run(rng.choice((0.001, 0.01, 0.05)))
        self.harm(move)
        if self.moving in ("there and back", "neighbours", "one"):
            world.until(lambda: bool(move.outcome), 8.0)
            if self.moving == "there and back":
                self.move("app", first, move.old)
            elif self.moving == "neighbours":
                up = self.plans["app"].upstream(first)
                self.move("app", up[0] if up else "x")
        world.run(rng.uniform(0.0, 1.0))
        self.settle()

    def move(self, application: str, operator: str, to: str = "") -> Move:
        """Ask for a move to a peer, or to one that is drawn."""
        rng, world = self.rng, self.world
        roles = world.graph(application).roles if world.status(application) == "running" else None
        if roles is None:
            return self.moves[-1]
        if not to:
            backups = roles.backups.get(operator, ())
            chosen = backups if self.moving == "to its backup" and backups else PEERS
            to = rng.choice([peer for peer in chosen if peer != roles.peers[operator]])
        self.moves.append(Move(world, application, operator, to))
        return self.moves[-1]

    def harm(self, move: Move) -> None:
        """The fault of the schedule."""
        rng, world = self.rng, self.world
        peers = {
            "old": [move.old],
            "new": [move.to],
            "upstream": move.upstream or [move.old],
            "reader": move.readers,
        }
        victim = rng.choice(peers[self.victim])
        if self.fault == "doubted":  # two peers read in different orders
            self.doubt()
        match self.fault:
            case "crash" | "long hang" if victim not in ORIGINS.values():
                self.lose(victim)
                if self.fault == "crash":
                    world.crash(victim)
                else:
                    world.hang(victim, LONG_S)
            case "hang":
                world.hang(victim, rng.uniform(0.05, 1.0))
            case "cut":
                one, other = rng.sample(sorted({move.origin, move.old, move.to, victim, *move.upstream}), 2)
                world.cut(one, other, rng.uniform(0.01, 0.6), rng.choice(CUTS))
            case "storm":
                lossy = Faults(
                    loss=rng.choice((0.05, 0.2)), duplication=0.2, reordering=0.2, delay=(0.0, 0.01), capture=0.02
                )
                world.disturb(lossy)
                world.run(rng.uniform(0.5, 2.0))
                world.disturb(CALM)

    def doubt(self) -> None:
        """Have a peer that executes an operator of several inputs declared dead, while it executes and sends on.

        Its producers are far from the origin and hear of that last, so it has input until then; its readers are near.
        """
        world = self.world
        if world.status("app") != "running":
            return
        plan, peers, operator = self.plans["app"], world.graph("app").roles.peers, self.doubted
        victim = peers[operator]
        if victim in ORIGINS.values():
            return
        readers = {peers[each] for each in plan.downstream(operator)}
        for each in {peers[up] for up in plan.upstream(operator)} - readers - {victim}:
            world.delays.between("a", each, FAR_S)
            world.delays.between(victim, each, 0.002)
        for each in readers - {victim}:
            world.delays.between(victim, each, 0.002)
        for heir in world.graph("app").roles.backups[operator]:
            for number, up in enumerate(plan.upstream(operator)):  # its inputs arrive in another order
                if peers[up] != heir:
                    world.delays.between(heir, peers[up], FAR_S if number else 0.002)
        self.lose(victim)
        world.stun(victim, LONG_S)
        world.until(lambda: world.synergy["a"].membership.is_dead(victim), LONG_S)
        world.pace = FAST_S

    def lose(self, victim: str) -> None:
        """Note that a peer dies, and whether the applications can go on without it."""
        self.dead.add(victim)
        for name in self.plans:
            if self.world.status(name) != "running" or victim in self.world.graph(name).roles.peers.values():
                self.bearable = False
        ready = {(peer, fact.operator) for _, peer, fact in self.world.facts if fact.kind is FactKind.COPY_READY}
        if any(victim == each.to and (each.to, each.operator) in ready for each in self.moves):
            self.bearable = False  # the origin may give it the component before it learns of the death

    # -- the end -------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Let the applications end, and check what they gave and what they have left."""
        world = self.world
        world.until(lambda: all(self.over(name) for name in self.plans), 60.0)
        world.until(lambda: all(move.outcome for move in self.moves), 70.0)
        for move in self.moves:
            assert move.outcome, f"nothing came of the move of {move.operator} to {move.to}"
        self.wait(self.uneven)
        failed = [name for name in self.plans if world.status(name) == "failed"]
        for name in failed:
            reason = world.reports[name][-1].reason
            assert not self.bearable, f"{name} failed: {reason}"
            assert reason, f"{name} failed without a reason"
        self.check_rows(failed)
        for name in self.plans:
            if name not in failed:
                world.finish(name)
        world.run(1.0)
        for name in self.plans:
            world.stop(name)
        self.wait(self.left)

    def wait(self, wrong: Callable[[], str]) -> None:
        """Wait until nothing is wrong; leases of peers that were declared dead, and live, have to end first."""
        for _ in range(40):
            self.world.run(0.5)
            if not wrong():
                return
        raise AssertionError(wrong())

    def left(self) -> str:
        """What peers still hold of the applications, which have ended."""
        for address, each in self.world.synergy.items():
            hosting = self.world.nodes[address].hosting
            for held in (each.ledger.requests, each.session.applications, hosting.components, hosting.roles.copies):
                if held:
                    return f"{address} still has {list(held)}"
        return ""

    def over(self, name: str) -> bool:
        """Whether an application has given all its rows, or has failed."""
        return self.world.status(name) == "failed" or self.world.results[name, "out"].ended

    def check_rows(self, failed: list[str]) -> None:
        """Compare the rows at the sinks with those of a run without moves; what failed may have given fewer."""
        plan, (_, _, ordered, digits) = self.plans["app"], CASES[self.case]
        wanted = rounded(undisturbed(plan, self.inputs["app"]), digits)
        found = rounded(self.world.results["app", "out"].rows, digits)
        if "app" not in failed:
            assert self.world.results["app", "out"].ended, "app stands still"
            assert ordered or sorted(found, key=repr) == sorted(wanted, key=repr), "rows of app"
            assert not ordered or found == wanted, "rows of app, in order"
        elif ordered:
            assert found == wanted[: len(found)], "rows of app until it failed"
        if "other" in self.plans and "other" not in failed:
            assert self.world.results["other", "out"].ended or "app" in failed, "other stands still"
            every = [row for row in self.inputs["app"]["s0"].rows() if row[6] > 20]
            theirs = self.world.results["other", "out"].rows.rows()
            if self.world.results["other", "out"].ended:
                assert theirs == every[len(every) - len(theirs) :], "other has not all from where it joined, in order"

    def uneven(self) -> str:
        """A difference between what a peer has committed and what its part in the graphs needs."""
        if any(self.world.status(name) == "failed" for name in self.plans):
            return ""  # components of an application that has ended may go on for the other
        for address, each in self.world.synergy.items():
            cores, links = self.needed(address)
            held = each.ledger.load * each.ledger.cores
            if abs(held - cores) > 1e-6:
                return f"{address} has committed {held} cores, and needs {cores}"
            for other in PEERS:
                found = each.ledger.bandwidth_from(other) - each.ledger.residual_bandwidth("", other)
                if other != address and abs(found - links.get(other, 0.0)) > 1e-3:
                    return f"{address} has committed {found} bytes/s from {other}, and needs {links.get(other, 0.0)}"
        return ""

    def needed(self, address: str) -> tuple[float, dict[str, float]]:
        """Cores, and bytes/s by upstream peer, that the components and backups at a peer need."""
        cores = 0.0
        links: dict[str, float] = {}
        for name in self.plans:
            graph = self.world.graph(name)
            plan, roles = Plan.from_bytes(graph.plan), graph.roles
            for operator, peer in roles.peers.items():
                if operator in graph.shared:
                    continue
                if peer == address:
                    cores += plan.load(operator)
                    for up in plan.upstream(operator):
                        at = roles.peers[up]
                        links[at] = links.get(at, 0.0) + plan.bandwidth(up) * (at != address)
                elif address in roles.backups.get(operator, ()):
                    links[peer] = links.get(peer, 0.0) + plan.bandwidth(operator)
        return cores, links

    @property
    def moved(self) -> int:
        """Number of moves that were completed."""
        return sum(move.outcome == [""] for move in self.moves)

    @property
    def given_up(self) -> list[str]:
        """Reasons of moves that were given up."""
        return [event.reason for event in self.world.control.journal.about("app", MoveGivenUp)]


def run(seed: int) -> Schedule:
    """Run the schedule of a seed."""
    schedule = Schedule(seed)
    try:
        schedule.run()
    except AssertionError as error:
        raise AssertionError(f"run({seed}): {schedule}: {error}") from error
    return schedule
