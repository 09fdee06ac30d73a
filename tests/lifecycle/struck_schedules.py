"""Schedules that strike while something goes on, drawn from seeds, over whole peers.

They are :mod:`~tests.lifecycle.late_schedules` with other queries and faults, and the same checks at the end:

=============  ========================================================================================================
queries        windows, keyed states and functions of users' own, joins; behind filters
clocks         of the peers are up to two hours apart, as those of machines may be
a move         a component moves, and a peer dies or is cut off when a message of the move is sent, or soon after
a take-over    a peer dies, and while backups take over another one dies, is cut off for a while, or a component moves
a rebuild      the same while a lost copy is rebuilt
a succession   the same while another peer begins to lead
two kills      two peers die within half a second
a refused one  a component is to move to a peer that has no room, until it has
composition    peers die, links are cut, or messages are lost while a query is composed or set up
=============  ========================================================================================================

What a protocol waits for is lost now and then, so that changes take long enough for anything to happen meanwhile. A
random time would meet a move of some milliseconds in none of a thousand schedules. An application may end only where
its peers have died with all copies of a component, or copies lag as peers were late: see :meth:`Struck._kill`.

``python -m tests.lifecycle.struck_schedules SEED`` runs one; with ``--shrink`` it looks for the fewest faults that
fail; with ``--until SEED`` it runs many, and counts what they reach (:mod:`~tests.lifecycle.rare_events`).
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final
from unittest import mock

import msgspec
import polars as pl

from synergy_nb import function, keyed, source
from synergy_nb.control.cuts import Cut
from synergy_nb.control.peer import Effect, Message, Peer
from synergy_nb.events import ApplicationRunning, ComponentMoved, Event, MoveBegun
from synergy_nb.lifecycle.records.messages import Confirm, Graph, Rebuild
from synergy_nb.plan.derived.active_replicas import original
from synergy_nb.recording.noted_steps import NotedPeer, NotedSteps
from tests.campaigns import CUTS
from tests.lifecycle.late_schedules import TUPLES, Asked, Fault, Schedule, main, run_of
from tests.lifecycle.rare_events import ANSWERS, RARE, Rebuilding, Span, met

__all__ = ["SOMETIMES", "Struck", "run"]

AVAILABILITIES: Final = (
    None, "degree 2", "degree 2", "degree 3", "active 2", "active 2", "ordered 2", "synchronized 2",
)  # fmt: skip
SHAPES: Final = ("windows", "keyed", "function", "join", "left join")
CLOCKS: Final = (0.0, 0.0, 0.3, 0.6, 60.0, 120.0, 7200.0)  # seconds by which a clock is ahead; none is before zero
LEAST: Final = 3  # peers that live on
COMPOSING: Final = ("Probe PlacementRequest CandidateQuestion", "Returned PlacementReply CandidateAnswer")
SETTING_UP: Final = ("Confirm", "Confirmed", "Share", "Entrust", "Begin")
MOVING: Final = ("Follow", "Follow", "Followed", "Followed", "GraphChanged")
TAKING_OVER: Final = ("TakeOver", "TookOver")
REBUILDING: Final = ("Rebuild", "Rebuilt", "ReadersQuestion")
SUCCEEDING: Final = ("Claim", "Claimed")
#: What a schedule is about, and how often; see :meth:`Struck._draw`.
SCENES: Final = {
    "a move": 8, "a take-over": 4, "a rebuild": 3, "a succession": 3, "two kills": 3, "moves": 2, "a refused move": 1,
    "hang": 1, "cut": 2, "starve": 1,
}  # fmt: skip

#: What a campaign has to reach at least once; else it tests less than it says.
SOMETIMES: Final = (
    *SHAPES, *RARE, "clocks are apart", "a component moved", "links were cut during a composition",
)  # fmt: skip


@function(columns={"w": "int"}, deterministic=True)
def doubled(batch: pl.DataFrame) -> pl.DataFrame:
    """Twice the bytes of each packet."""
    return batch.select(w=2 * pl.col("bytes"))


@keyed(columns={"n": "int", "total": "int"}, deterministic=True)
class Numbered:
    """The number of each row of its key, and the sum until then."""

    def __init__(self) -> None:
        self.rows = self.total = 0

    def on_rows(self, key: Any, rows: Iterable[Any]) -> Iterator[dict[str, int]]:
        """Count a row."""
        for row in rows:
            self.rows += 1
            self.total += row["bytes"]
            yield {"n": self.rows, "total": self.total}


class SkewedPeer(NotedPeer):
    """A kernel whose clock is ahead of that of the simulation."""

    __slots__ = ("ahead",)

    def __init__(self, address: str, seed: int, name: str, noted: NotedSteps, ahead: float) -> None:
        super().__init__(address, seed, name, noted)
        self.ahead = ahead

    def start(self, now: float) -> list[Effect]:
        """Start all protocols."""
        return super().start(now + self.ahead)

    def receive(self, sender: str, message: Message, now: float) -> list[Effect]:
        """Handle one message."""
        return super().receive(sender, message, now + self.ahead)

    def tick(self, now: float) -> list[Effect]:
        """Fire the timers that are due; those of this moment are, whatever sums of floats are."""
        due = super().next_timer
        return super().tick(due if due is not None and due - self.ahead == now else now + self.ahead)

    def call(self, now: float, function: Callable[..., Any], *arguments: Any) -> list[Effect]:
        """Call a method of a protocol."""
        return super().call(now + self.ahead, function, *arguments)

    @property
    def next_timer(self) -> float | None:
        """Time of the simulation at which the next timer is due."""
        due = super().next_timer
        return None if due is None else due - self.ahead


def clocks(rng: random.Random) -> Any:
    """A context in which simulated peers are created with clocks of their own."""

    def kernel(noted: NotedSteps, name: str) -> Callable[[str, int], Peer]:
        return lambda address, seed: SkewedPeer(address, seed, name, noted, rng.choice(CLOCKS))

    return mock.patch.object(NotedSteps, "kernel", kernel)


class Struck(Schedule):
    """The schedule of a seed, and what it has come to; see :class:`~tests.lifecycle.late_schedules.Schedule`."""

    command = "tests.lifecycle.struck_schedules"
    sizes = (6, 10)
    windows = (8.0, 8.0, 8.0, 8.0, 12.0, 20.0)

    def __init__(self, seed: int, keep: Sequence[int] | None = None) -> None:
        rng = random.Random(f"struck/{seed}")
        apart = rng.random() < 0.5
        with clocks(rng) if apart else mock.MagicMock():
            super().__init__(seed, keep)
        self.rng = rng
        if apart:
            self.reached.add("clocks are apart")
        self.early = self._drawn_early()
        self._armed = [fault for number, fault in enumerate(self.early) if keep is None or number in keep]
        self._sends: Counter[int] = Counter()  # id of a fault to the messages of its kind that were sent
        self._heals: list[float] = []
        self._compositions: list[Span] = []
        self._setups: dict[str, float] = {}  # application to the time of its first Confirm
        self._rebuilds: dict[Rebuilding, float] = {}
        self._times: list[float] = []  # when the events of the journal were recorded; their own times are of clocks
        self._begun: dict[str, MoveBegun] = {}  # application to the last move that began
        self._copied: dict[str, str] = {}  # application to the peer of the component that was copied last for a rebuild
        append, transmit = self.journal.append, self.world.control.transmit
        self._times += [0.0] * self.journal.next_sequence

        def noted(event: Event) -> Event:
            self._times.append(max(self.world.now, self.world.control.now))
            if isinstance(event, MoveBegun):
                self._begun[event.subject] = event
            return append(event)

        self.journal.append = noted  # type: ignore[method-assign]

        def watched(sender: str, to: str, message: Message) -> None:
            if self._sent(sender, to, message):
                transmit(sender, to, message)

        self.world.control.transmit = watched  # type: ignore[method-assign]

    # -- what is drawn -----------------------------------------------------------------------------------------------

    def _plan(self, number: int, *, shares: bool) -> Asked:
        """Draw an application."""
        rng, shape, availability = self.rng, self.rng.choice(SHAPES), self.rng.choice(AVAILABILITIES)
        backed = "degree 2" if availability == "active 2" and rng.random() < 0.7 else None

        def packets(id: str, seed: int) -> Any:  # noqa: A002 - as sources name it
            return source(
                "packets", rate=TUPLES / self.window, seed=seed, sources=8, duration=self.window + 6.0,
                heartbeat=self.window / 20.0, speed=1, at=rng.choice(self.peers), id=id, availability=backed,
            )  # fmt: skip

        stream = packets("s", 100 * self.seed + number).filter("bytes > 20", id="f")
        match shape:
            case "windows":
                every = rng.choice(("1 s", "2 s every 500 ms"))
                stream = stream.aggregate("link", every, n="count(*)", total="sum(bytes)", id="x")
            case "keyed":
                stream = stream.apply_keyed(Numbered, key="source", id="x")
            case "function":
                stream = stream.apply(doubled, keep=True, id="x").aggregate("link", "1 s", sum="sum(w)", id="y")
            case "join" | "left join":
                how = "left" if shape == "left join" else "inner"
                other = packets("t", 100 * self.seed + number + 50)
                stream = stream.join(other, on="source", within="1 s", how=how, id="u")
        sink, origin = rng.sample(self.peers, 2)
        plan = stream.sink(id="out", at=sink, name=f"a{number}", availability=availability)
        self.reached.add(shape)
        return Asked(plan, sink if rng.random() < 0.2 else origin, availability, availability is None)

    def _drawn_early(self) -> list[Fault]:
        """Draw what happens while applications are composed and set up."""
        rng = self.rng
        if rng.random() < 0.7:
            return []
        if rng.random() < 0.4:
            return [Fault(0.0, "composition", (), 0.0)]
        if rng.random() < 0.4:
            return [Fault(0.0, "lose", (), 0.0, on=rng.choice(SETTING_UP), number=rng.randint(1, 3))]
        return [self._on(rng.choice((COMPOSING, SETTING_UP)), "kill", ("sender", "receiver", "receiver"), most=6)]

    def _on(self, messages: Sequence[str], kind: str, roles: Sequence[str], *, most: int = 4) -> Fault:
        """Draw what happens at the sending of one of the first messages of a kind, or a little later."""
        rng = self.rng
        after = rng.choice((0.0, 0.0, 0.005, 0.02, 0.1, 0.4) if kind == "kill" else (0.0, 0.0, 0.005))
        seconds = rng.choice((0.3, 1.0, 2.5)) if kind == "cut" else 0.0
        number, on = rng.randint(1, most), rng.choice(messages)
        return Fault(after, kind, (), seconds, how=rng.choice(CUTS), role=rng.choice(roles), on=on, number=number)

    def _slow(self, *messages: str) -> list[Fault]:
        """Draw what makes a change take longer: the first messages of a kind are lost, and sent again."""
        rng = self.rng
        lost = Fault(0.0, "lose", (), 0.0, on=rng.choice(messages), number=rng.choice((1, 2, 2, 3)))
        return [lost] if rng.random() < 0.7 else []

    def _draw(self) -> None:
        """Draw the faults: those of a seed come at their times, others at messages that say what goes on."""
        rng, drawn = self.rng, list(self.early)
        for scene in rng.choices(tuple(SCENES), tuple(SCENES.values()), k=rng.choice((1, 2, 2, 3))):
            at = rng.uniform(0.3, 0.5 * self.window)
            match scene:
                case "hang" | "cut" | "starve":
                    drawn += self._fault(scene, at)
                case "moves" if rng.random() < 0.7:  # the old peer dies as all learn of the follower
                    old = Fault(0.0, "kill", (), 0.0, role="old", on="GraphChanged")
                    far = Fault(0.0, "cut", (), 1.0, how=Cut.LOSE, role="new", on="GraphChanged")
                    drawn += [Fault(at, "move", (), 0.0), old, far][: rng.choice((2, 3))]
                case "moves":
                    drawn += [Fault(at + 1.5 * number, "move", (), 0.0) for number in range(rng.randint(1, 4))]
                case "a move":
                    kind = rng.choice(("kill", "kill", "kill", "cut"))
                    drawn += [Fault(at, "move", (), 0.0), *self._slow("Follow", "Followed")]
                    drawn.append(self._on(MOVING, kind, ("old", "new", "origin", "primary", "backup"), most=2))
                case "a refused move":
                    drawn.append(Fault(at, "refused move", (), rng.uniform(0.3, 1.5)))
                case "a take-over":
                    kind = rng.choice(("kill", "kill", "cut", "cut", "move"))
                    drawn += [Fault(at, "kill", (), 0.0, role="primary"), *self._slow("TakeOver", "TookOver")]
                    drawn.append(self._on(TAKING_OVER, kind, ("sender", "receiver", "origin", "primary"), most=2))
                case "a rebuild":
                    role, kind = (
                        rng.choice(("primary", "replica", "backup")),
                        rng.choice(("kill", "kill", "cut", "move")),
                    )
                    drawn += [Fault(at, "kill", (), 0.0, role=role), *self._slow(*REBUILDING)]
                    drawn.append(self._on(REBUILDING, kind, ("sender", "receiver", "origin", "old", "new")))
                case "a succession":
                    kind = rng.choice(("kill", "kill", "cut", "move"))
                    drawn += [Fault(at, "kill", (), 0.0, role="origin"), *self._slow("Claim", "Claimed")]
                    drawn.append(self._on(SUCCEEDING, kind, ("sender", "receiver", "primary"), most=6))
                case "two kills":
                    drawn.append(Fault(at, "kill", (), 0.0, role=rng.choice(("primary", "origin"))))
                    then = at + rng.choice((0.0, 0.05, 0.2, 0.5))
                    drawn.append(Fault(then, "kill", (), 0.0, role=rng.choice(("primary", "backup", "replica", "any"))))
        self.faults = [fault for number, fault in enumerate(drawn) if self.keep is None or number in self.keep]
        self._armed += [fault for fault in self.faults if fault not in self.early]

    # -- what happens ------------------------------------------------------------------------------------------------

    def _submit(self, asked: Asked) -> None:
        world, before, begun = self.world, set(self.applications), self.world.now
        for fault in self._armed:
            if fault.kind == "composition":
                (cut,) = self._fault("cut", 0.5 * self.window)
                world.after(0.02, self._strike, cut)
                self.reached.add("links were cut during a composition")
        super()._submit(asked)
        self._compositions += [Span(name, begun, world.now) for name in self.applications.keys() - before or {""}]

    def _sent(self, sender: str, to: str, message: Message) -> bool:
        """Look at a message that is sent, and have happen what happens at it; return whether it arrives."""
        what, world = type(message).__name__, self.world
        told = getattr(message, "graph", None)
        graph = told if isinstance(told, Graph) else None
        name = graph.application if graph is not None else getattr(message, "application", "")
        now = world.now = max(world.now, world.control.now)
        if isinstance(message, Rebuild):
            self._rebuilds.setdefault(Rebuilding(name, message.operator, to, sender), now)
            roles = message.graph.roles
            self._copied[name] = roles.peers[roles.rebuilds.get(message.operator, (message.operator, ""))[0]]
        elif isinstance(message, Confirm):
            self._setups.setdefault(name, now)
        arrives = True
        for fault in self._armed:
            if what not in fault.on.split():
                continue
            self._sends[id(fault)] += 1
            if fault.kind == "lose" and self._sends[id(fault)] <= fault.number and sender != to:
                arrives = False
                self.reached.add(f"loss of an acknowledgement: {what}" if what in ANSWERS else f"a lost {what}")
            elif fault.kind != "lose" and self._sends[id(fault)] == fault.number:
                origin = graph.origin if graph is not None else to if what in ANSWERS else ""
                involved = {"sender": sender, "receiver": to, "origin": origin, **self._changing(origin, name)}
                world.after(fault.at, self._strike_at, fault, name, involved)
        return arrives

    def _changing(self, origin: str, application: str) -> dict[str, str]:
        """The old and the new peer of what moves or is rebuilt in an application that a peer leads."""
        if (leader := self.world.synergy.get(origin)) is None:
            return {}
        if to := leader.session.moves.target(application):
            return {"old": self._begun[application].at, "new": to}
        if to := leader.session.rebuilds.target(application):
            return {"old": self._copied.get(application, ""), "new": to}
        return {}

    def _strike_at(self, fault: Fault, application: str, roles: Mapping[str, str]) -> None:
        """Have happen what was to happen at a message of an application, in which peers have roles."""
        rng = random.Random(f"{self.seed}/{fault}")
        if fault.kind == "move":
            self._move(rng, application)
        elif peer := roles.get(fault.role) or self._with_role(rng, fault.role, application):
            if fault.kind == "kill":
                if not self._borne(peer) and rng.random() < (0.1 if fault.role == "old" else 0.8):
                    others = [each for each in roles.values() if each and each not in self.killed and self._borne(each)]
                    peer = rng.choice(others) if others else ""
                self._may_kill(peer)
            elif fault.kind == "cut":
                others = [each for each in self.peers if each != peer]
                if rng.random() < 0.5 and len(set(roles.values())) > 1:
                    others = [each for each in others if each in roles.values()]
                links = tuple((peer, other, fault.seconds) for other in others)
                self._strike(fault._replace(peers=(peer,), links=links, role="one peer"))

    def _strike(self, fault: Fault) -> None:
        rng = random.Random(f"{self.seed}/{fault}")
        match fault.kind:
            case "move":
                self._move(rng)
            case "refused move":
                self._move_refused(rng, fault.seconds)
            case "kill":
                self._may_kill(self._with_role(rng, fault.role))
            case "cut":
                super()._strike(fault)
                self.late = True
                self._heals += [self.world.now + seconds for _, _, seconds in fault.links]
            case "hang" | "starve":
                super()._strike(fault)
                self.late = True

    def _with_role(self, rng: random.Random, role: str, application: str = "") -> str:
        """A living peer that has a role in an application, or in any, and whose death can be borne; empty if none."""
        found: set[str] = set()
        members: set[str] = set()
        for name in [application] if application in self.applications else self.applications:
            graph = self._known(name)
            if graph is None:
                continue
            inner = {each: peer for each, peer in graph.roles.peers.items() if peer and each != "out"}
            members |= set(graph.addresses)
            replicas = {peer for each, peer in inner.items() if len([*_group(inner, each)]) > 1}
            found |= {
                "origin": {graph.origin},
                "primary": set(inner.values()) - replicas,
                "replica": replicas,
                "backup": {peer for peers in graph.roles.backups.values() for peer in peers},
            }.get(role, set(graph.addresses))
        living = sorted(found - self.killed.keys())
        borne = [peer for peer in living if self._borne(peer)]
        borne = borne or [peer for peer in sorted(members - self.killed.keys()) if self._borne(peer)]
        return rng.choice((borne if rng.random() < 0.9 else living) or [""])

    def _borne(self, victim: str) -> bool:
        """Whether all applications can do without a peer."""
        graphs = [graph for name in self.applications if (graph := self._known(name)) is not None]
        return not any(self._lacking(graph, {*self.killed, victim}) for graph in graphs)

    def _move(self, rng: random.Random, application: str = "") -> None:
        """Ask for a move of any component, or of one of an application, to any peer."""
        every = self._choices(set(self.peers))
        choices = [each for each in every if each[0] == application] or every
        if choices:
            self.world.move(*rng.choice(choices))

    def _choices(self, to: Collection[str]) -> list[tuple[str, str, str]]:
        """All moves to some peers that could be asked for: application, operator, new peer."""
        alive = [peer for peer in self.peers if peer not in self.killed]
        return [
            (name, operator, peer)
            for name in self.applications
            if (graph := self._graph(name)) is not None and self.world.origins[name] in alive
            for operator, old in graph.roles.peers.items()
            if operator != "out" and old in alive
            for peer in alive
            if peer in to and peer != old
        ]

    def _move_refused(self, rng: random.Random, seconds: float) -> None:
        """Ask for a move to a peer that has no room, which is free later; who asked asks again."""
        taken = {peer for name in self.applications if (graph := self._known(name)) for peer in graph.addresses}
        choices = self._choices(set(self.peers) - taken)
        if choices:
            chosen = rng.choice(choices)
            ledger = self.world.synergy[chosen[2]].ledger
            ledger.commit("another", "all", ledger.residual_cores("another"), {})
            self.world.after(seconds, ledger.release, "another")
            self._ask(chosen, 20)

    def _ask(self, chosen: tuple[str, str, str], times: int, outcome: Sequence[str] = ("not yet",)) -> None:
        """Ask for a move again, as long as it is refused."""
        name, operator, to = chosen
        if not outcome:
            self.world.after(0.25, self._ask, chosen, times, outcome)
        elif outcome != [""] and times and {self.world.origins[name], to}.isdisjoint(self.killed):
            self.world.after(0.25, self._ask, chosen, times - 1, self.world.move(name, operator, to))

    # -- who dies ----------------------------------------------------------------------------------------------------

    def _may_kill(self, victim: str) -> None:
        if victim and victim not in self.killed and len(self.peers) - len(self.killed) > LEAST:
            self._kill(victim)

    def _kill(self, victim: str) -> None:
        """Kill a peer, and note which applications may end because of that."""
        self.killed[victim] = self.world.now
        for name in self.applications:
            graph = self._known(name)
            lacking = self._lacking(graph, set(self.killed)) if graph is not None else "which had it alone"
            if graph is not None and not lacking and self.late and victim in graph.roles.peers.values():
                lacking = "while others were late, so its copies may lag"
            if lacking:
                self.excused.setdefault(name, f"{victim} died, {lacking}")
        self.world.crash(victim)

    def _known(self, name: str) -> Graph | None:
        """The latest graph of an application that somebody knows; None if only those know it who died."""
        found = [each.session.graph(name) for each in self.world.synergy.values()]
        return max((graph for graph in found if graph is not None), key=lambda graph: graph.epoch, default=None)

    def _lacking(self, graph: Graph, dead: set[str]) -> str:
        """What an application lacks without some peers; empty if it can go on."""
        if graph.origin in dead and (not graph.successor or graph.successor in dead):
            return "its origin"
        copies = self._copies(graph)
        leader = self.world.synergy.get(graph.origin)
        if leader is not None and leader.session.moves.target(graph.application) in dead:
            operator = self._begun[graph.application].operator
            if not copies.get(operator, set()) - dead:  # it may get the component before its origin learns of the death
                return f"to which {operator} moved"
        # readers still need the others of a rebuilt replica until its stream is complete there
        incomplete = set() if leader is None else leader.session.takeovers.incomplete(graph.application)
        whole = {each: peer for each, peer in graph.roles.peers.items() if each not in incomplete}
        lost = [
            each
            for each, peer in graph.roles.peers.items()
            if peer in dead and not {*copies.get(each, ()), *_group(whole, each)} - dead - {peer}
        ]
        return f"which had {', '.join(lost)}" if lost else ""

    def _copies(self, graph: Graph) -> dict[str, set[str]]:
        """The peers of copies that can take over, by operator; also of one that is a follower meanwhile."""
        leader = self.world.synergy.get(graph.origin)
        found = {each: set(peers) for each, peers in graph.roles.backups.items()}
        if leader is not None and graph.application in leader.session.led:
            for each in found:
                found[each] -= leader.session.copies.cannot_take_over(graph.application, each).keys()
        return found

    # -- the end -----------------------------------------------------------------------------------------------------

    def _note_events(self) -> None:
        super()._note_events()
        if any(isinstance(each, ComponentMoved) for each in self.journal):
            self.reached.add("a component moved")
        events = [msgspec.structs.replace(each, time=self._times[each.sequence]) for each in self.journal]
        running = {each.subject: each.time for each in events if isinstance(each, ApplicationRunning)}
        setups = [Span(name, begun, running.get(name, math.inf)) for name, begun in self._setups.items()]
        self.reached |= met(events, self.killed, self._heals, self._compositions, setups, self._rebuilds)
        if any(each.status == "failed" for each in self.applications.values()):
            self.reached.add("an application ended by name")

    def _may_refuse(self) -> bool:
        return bool(self.killed or self.late or any(fault.kind in ("lose", "composition") for fault in self.early))

    late = False  # whether peers were cut off or late, so that copies may lag


def _group(peers: Mapping[str, str], operator: str) -> Iterator[str]:
    """The peers of all active replicas of an operator."""
    return (peer for each, peer in peers.items() if original(each) == original(operator) and peer)


def run(seed: int, keep: Sequence[int] | None = None) -> Schedule:
    """Run the schedule of a seed; an error says how to run it again."""
    return run_of(Struck, seed, keep)


if __name__ == "__main__":
    main(Struck)
