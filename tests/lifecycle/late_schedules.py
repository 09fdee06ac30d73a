"""Schedules of peers that are late, cut off or killed, drawn from seeds, over whole peers in virtual time.

A schedule is a ring of five to nine peers that composes one to three applications, as
:class:`~synergy_nb.Simulation` does for users, and faults of these kinds:

========  ==============================================================================================================
starve    peers get 2 to 100 % of a processor, in bursts, as their machines have other work
hang      a peer of a role stops for 1 to 60 s
cut       links reset, delay or lose what is sent, in both ways or in one, of a pair of peers, of one peer, of a group;
          the links of a group heal one after the other
kill      a peer dies: one in six schedules
========  ==============================================================================================================

All faults but deaths are over within a minute of the first one, so each peer that lives answers within a minute.
When all is quiet again, :meth:`Schedule.run` raises an ``AssertionError`` if

- an application has ended that had what it needs: a replicated one, unless more of its peers died than it can do
  without, or another one while all its processes lived;
- rows differ from those of an undisturbed run, or their order;
- peers disagree on who lives, an application still waits, or its status and account do not say that it is finished;
- a peer holds something of an application that has ended;
- a peer learned of a death later than three seconds after it, though all was quiet before.

``python -m tests.lifecycle.late_schedules SEED`` runs one schedule and prints it; with ``--shrink`` it looks for the
fewest faults that fail.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any, Final, NamedTuple

import polars as pl

from synergy_nb import Plan, Simulation, source, traces
from synergy_nb.algorithms.composition import CompositionConfig
from synergy_nb.control.cuts import Cut
from synergy_nb.control.peer import key_of
from synergy_nb.dataflow.tuples import Batch, empty
from synergy_nb.errors import SynergyError
from synergy_nb.events import (
    ApplicationContinued,
    ApplicationRunning,
    BackupRestored,
    LeadershipLost,
    ReplicaRebuilt,
    TakeoverBegun,
)
from synergy_nb.lifecycle.records.messages import Graph
from synergy_nb.overlay.gossip import DEAD, News
from synergy_nb.overlay.membership import Membership
from synergy_nb.plan.derived.active_replicas import original
from synergy_nb.plan.operators.sources import TRACE_SCHEMAS
from synergy_nb.simulator.simulated_application import SimulatedApplication
from tests.campaigns import CUTS
from tests.moving_schedules import undisturbed
from tests.shrinking import least

ROLES: Final = ("origin", "primary", "backup", "replica", "source", "sink", "directory", "bystander")
AVAILABILITIES: Final = (None, None, "degree 2", "degree 2", "degree 3", "active 2", "ordered 2", "synchronized 2")
SHARED: Final = 2000  # from this seed on applications share the streams of finite sources, too
TUPLES: Final = 60  # of a source, while faults happen
STEP: Final = 0.25  # virtual seconds between two looks at the peers
QUIET: Final = 120.0  # longest time until all is well again, virtual seconds; a peer knocks on a dead one every minute
NOTICED: Final = 3.0  # longest time until all peers know of a death, where all was quiet before, virtual seconds

#: What a campaign has to reach at least once, beside each role and each kind of cut; else it tests less than it says.
SOMETIMES: Final = (
    "a wrongly buried peer rejoined",
    "a paused application continued",
    "a take-over, and the old peer returned",
    "a succession, and the old origin returned",
    "a stale death came after a heal",
    "a confirmed silence",
    "stretch above 1",
    "the greatest stretch",
    "a lost copy was rebuilt",
    "a death in quiet",
    *(f"{role} hung" for role in ROLES),
    *(f"a cut that {how}s" for how in ("reset", "delay", "lose")),
    *(f"a cut of {what}" for what in ("one way", "a pair", "one peer", "a group")),
    "a peer with less than a twentieth of a processor",
    "all peers starved",
)


class Fault(NamedTuple):
    """A fault of a schedule.

    Parameters
    ----------
    at
        Time after the applications have been set up, seconds.
    kind
        ``starve``, ``hang``, ``cut`` or ``kill``.
    peers
        Peers that it befalls; for a cut those on one side of it.
    seconds
        How long it lasts.
    share, turn
        Share of a processor, and turn in seconds.
    how, back, links
        What a cut does, whether in both ways, and the links that it cuts, each with the seconds until it heals.
    role
        Role of the peer, as drawn.
    on, number
        Messages at the sending of one of which it happens, ``at`` seconds later, and the number of that one; empty: at
        its time.
    """

    at: float
    kind: str
    peers: tuple[str, ...]
    seconds: float
    share: float = 1.0
    turn: float = 0.0
    how: Cut = Cut.RESET
    back: bool = True
    links: tuple[tuple[str, str, float], ...] = ()
    role: str = ""
    on: str = ""
    number: int = 1

    def __str__(self) -> str:
        what = " ".join(filter(None, (self.kind, ",".join(self.peers), self.role)))
        more = {
            "starve": f", {self.share:.0%} in turns of {1000 * self.turn:.0f} ms",
            "cut": f", {self.how}{'' if self.back else ' one way'}, {len(self.links)} links",
        }
        when = f"{self.at:.2f} s" + (f" after {self.on} {self.number}" if self.on else "")
        return f"{when}: {what}, for {self.seconds:.1f} s{more.get(self.kind, '')}"


class Asked(NamedTuple):
    """An application that a schedule submits: plan, origin, availability, and whether it is spread over many peers."""

    plan: Plan
    origin: str
    availability: str | None
    spread: bool


class Schedule:
    """The schedule of a seed, and what it has come to.

    Parameters
    ----------
    seed
        Seed of all that is drawn.
    keep
        Numbers of the faults that happen; None: all.

    Attributes
    ----------
    reached : set of str
        Which of :data:`SOMETIMES` it has reached.
    """

    command = "tests.lifecycle.late_schedules"
    sizes: tuple[int, int] = (5, 9)  # fewest and most peers
    windows: tuple[float, ...] = (10.0,) * 6 + (15.0, 15.0, 30.0, 60.0)  # seconds within which faults happen

    def __init__(self, seed: int, keep: Sequence[int] | None = None) -> None:
        self.seed = seed
        self.keep = keep
        self.rng = rng = random.Random(f"late/{seed}")
        self.reached: set[str] = set()
        self.peers = [f"p{number}" for number in range(rng.randint(*self.sizes))]
        self.window = rng.choice(self.windows)
        sharing = CompositionConfig(sharing="all") if seed >= SHARED else None
        self.simulation = Simulation(self.peers, network=self._delays(), cores=8.0, composition=sharing, seed=seed)
        self.world = self.simulation.world
        self.world.noted.noting = False
        self.journal = self.simulation.journal
        self.applications: dict[str, SimulatedApplication] = {}
        self.asked: dict[str, str] = {}  # application to the availability that it asked for
        self.inputs: dict[str, dict[str, pl.DataFrame]] = {}
        self.faults: list[Fault] = []
        self.killed: dict[str, float] = {}
        self.excused: dict[str, str] = {}  # application to the reason why it may end
        self.refusals: list[str] = []
        self._first_source = ""
        self._healed = -1.0  # when a fault has ended last, virtual seconds
        self._watch()

    def __str__(self) -> str:
        lines = [f"seed {self.seed}: {len(self.peers)} peers, faults within {self.window:.0f} s"]
        lines += [
            f"  {each.id} ({self.asked[name]}), led by {each.origin}: {each.status} {each.reason}; {each.graph}, "
            f"backups {each.backups}; {self.excused.get(name, 'has what it needs')}"
            for name, each in self.applications.items()
        ]
        lines += [f"  {number}: {fault}" for number, fault in enumerate(self.faults)]
        return "\n".join(lines)

    # -- what is drawn -----------------------------------------------------------------------------------------------

    def _delays(self) -> Any:
        """A network of near peers, or of peers some tens of milliseconds apart."""
        rng, count = self.rng, len(self.peers)
        if rng.random() < 0.5:
            return "local"
        rtt = [[0.0] * count for _ in range(count)]
        for one in range(count):
            for other in range(one):
                rtt[one][other] = rtt[other][one] = rng.choice((2.0, 10.0, 40.0, 120.0))
        return rtt

    def _plan(self, number: int, *, shares: bool) -> Asked:
        """Draw an application."""
        rng, name = self.rng, f"a{number}"

        def packets(id: str, seed: int, at: str) -> Any:  # noqa: A002 - as sources name it
            return source(
                "packets", rate=TUPLES / self.window, seed=seed, sources=8, duration=self.window + 6.0,
                heartbeat=self.window / 20.0, speed=1, at=at, id=id,
            )  # fmt: skip

        at, seed = rng.choice(self.peers), 100 * self.seed + number
        if shares:
            at, seed = self._first_source, 100 * self.seed
        elif not number:
            self._first_source = at
        stream = packets("s", seed, at).filter("bytes > 20", id="f")
        shape = "plain" if shares else rng.choice(("plain", "chain", "chain", "two sources"))
        match shape:
            case "two sources":
                other = packets("t", seed + 50, rng.choice(self.peers))
                stream = stream.union(other, id="u")
                stream = stream.aggregate("link", "1 s", n="count(*)", total="sum(bytes)", id="x")
            case "chain":
                stream = stream.aggregate("link", "1 s", n="count(*)", total="sum(bytes)", id="x")
            case "plain":
                stream = stream.filter("bytes > 30", id="g")
        sink = rng.choice(self.peers)
        availability = None if shares else rng.choice(AVAILABILITIES)
        plan = stream.sink(id="out", at=sink, name=name, availability=availability)
        origin = sink if rng.random() < 0.3 else rng.choice(self.peers)
        return Asked(plan, origin, availability, availability is None and rng.random() < 0.6)

    def _role(self, role: str) -> str:
        """A peer that has a role in an application; empty if none has."""
        rng, found = self.rng, list(self.applications.values())
        if role == "bystander":
            used = {peer for each in found for peer in (each.origin, *each.graph.values(), *_copies(each))}
            return self._any(set(self.peers) - used)
        if role == "directory":
            keys = {peer: int(key_of(peer), 16) for peer in self.peers}
            wanted = int(key_of(rng.choice(("filter", "aggregate", "union"))), 16)
            return min(keys, key=lambda peer: min((keys[peer] - wanted) % 2**128, (wanted - keys[peer]) % 2**128))
        if not found:
            return ""
        each = rng.choice(found)
        inner = {name: peer for name, peer in each.graph.items() if name not in (*each.plan.sources, *each.plan.sinks)}
        replicas = {peer for name, peer in inner.items() if f"{original(name)}~1" in inner}
        return self._any(
            {
                "origin": {each.origin},
                "primary": set(inner.values()) - replicas,
                "backup": _copies(each),
                "replica": replicas,
                "source": {peer for name, peer in each.graph.items() if name in each.plan.sources},
                "sink": {peer for name, peer in each.graph.items() if name in each.plan.sinks},
            }[role]
        )

    def _any(self, peers: set[str]) -> str:
        return self.rng.choice(sorted(peers)) if peers else ""

    def _fault(self, kind: str, at: float) -> list[Fault]:
        """Draw a fault, or several in a row."""
        rng = self.rng
        longest = self.window - at
        match kind:
            case "hang":
                role = rng.choice(ROLES)
                peer = self._role(role)
                seconds = min(rng.choice((rng.uniform(1.0, 4.0), rng.uniform(4.0, 10.0), longest)), longest)
                return [Fault(at, kind, (peer or rng.choice(self.peers),), seconds, role=role if peer else "")]
            case "starve":
                count = rng.choice((1, 1, 2, len(self.peers) // 2, len(self.peers)))
                peers = tuple(rng.sample(self.peers, count))
                found: list[Fault] = []
                until = at
                while until < self.window - 0.5 and len(found) < 4:
                    seconds = min(rng.uniform(0.5, 8.0), self.window - until)
                    share = rng.choice((0.02, 0.04, 0.1, 0.3, rng.uniform(0.02, 1.0)))
                    found.append(Fault(until, kind, peers, seconds, share=share, turn=rng.choice((0.004, 0.02, 0.05))))
                    until += seconds + rng.choice((0.0, rng.uniform(0.0, 3.0)))
                return found
            case "cut":
                what = rng.choice(("a pair", "one peer", "a group"))
                if what == "a group":
                    side = tuple(rng.sample(self.peers, rng.randint(2, len(self.peers) // 2)))
                else:
                    side = (self._role(rng.choice(ROLES)) or rng.choice(self.peers),)
                others = [peer for peer in self.peers if peer not in side]
                if what == "a pair":
                    others = [rng.choice(others)]
                seconds = min(rng.choice((rng.uniform(0.3, 3.0), rng.uniform(3.0, 10.0), longest)), longest)
                links = tuple(
                    (one, other, seconds * (1.0 if what == "a pair" else rng.uniform(0.5, 1.0)))
                    for one in side
                    for other in others
                )
                how, back = rng.choice(CUTS), rng.random() < 0.7
                if not back and rng.random() < 0.5:
                    links = tuple((other, one, span) for one, other, span in links)
                return [Fault(at, kind, side, seconds, how=how, back=back or how is Cut.RESET, links=links, role=what)]
        return [Fault(at, kind, (self._role(rng.choice(ROLES)) or rng.choice(self.peers),), 0.0)]

    def _draw(self) -> None:
        """Draw the faults."""
        rng = self.rng
        kinds = rng.choices(("hang", "starve", "cut"), (4, 3, 4), k=rng.choice((1, 1, 2, 2, 3, 4)))
        begin = rng.uniform(0.2, 2.0)
        if rng.random() < 1 / 6:
            if rng.random() < 0.4:
                kinds = []  # it dies in quiet
            kinds.insert(rng.randrange(len(kinds) + 1), "kill")
        drawn = []
        for number, kind in enumerate(kinds):
            at = begin if not number else rng.uniform(begin, 0.6 * self.window)
            drawn += self._fault(kind, at)
        self.faults = [fault for number, fault in enumerate(drawn) if self.keep is None or number in self.keep]

    # -- what happens ------------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        """Note what peers learn of others."""
        for address, each in self.world.synergy.items():
            membership = each.membership
            membership.on_alive.append(self._returned)

            def look(piece: News, sender: str, membership: Membership = membership, own: str = address) -> None:
                wrong = piece.status == DEAD and piece.address not in self.killed
                if wrong and self._answers(piece.address, own) and 0.0 <= self._healed <= self.world.now:
                    self.reached.add("a stale death came after a heal")
                Membership._look(membership, piece, sender)

            membership._look = look  # type: ignore[method-assign]

    def _answers(self, peer: str, to: str) -> bool:
        """Whether a peer runs, and reaches another one."""
        world = self.world
        return not world.nodes[peer].hung_until > world.now and world.links.passes(peer, to, world.now)

    def _returned(self, other: str) -> None:
        if other not in self.killed:
            self.reached.add("a wrongly buried peer rejoined")
            if any(isinstance(each, TakeoverBegun) and other == each.dead for each in self.journal):
                self.reached.add("a take-over, and the old peer returned")

    def _look_around(self) -> None:
        """Note what the failure detectors are in."""
        for each in self.world.synergy.values():
            membership = each.membership
            if membership.stretch > 1.0:
                self.reached.add("stretch above 1")
            if membership.stretch >= 8.0:
                self.reached.add("the greatest stretch")
            if any(suspicion.own and len(suspicion.confirmed) > 1 for suspicion in membership.suspects.values()):
                self.reached.add("a confirmed silence")

    def _strike(self, fault: Fault) -> None:
        world, peers = self.world, [peer for peer in fault.peers if peer not in self.killed]
        world.after(fault.seconds, self._heal)
        match fault.kind:
            case "hang":
                for peer in peers:
                    world.hang(peer, fault.seconds)
                if fault.role:
                    self.reached.add(f"{fault.role} hung")
            case "starve":
                for peer in peers:
                    world.starve(peer, fault.seconds, fault.share, fault.turn)
                if fault.share < 0.05:
                    self.reached.add("a peer with less than a twentieth of a processor")
                if set(fault.peers) == set(self.peers):
                    self.reached.add("all peers starved")
            case "cut":
                for one, other, seconds in fault.links:
                    world.cut(one, other, seconds, fault.how, back=fault.back)
                    world.after(seconds, self._heal)
                self.reached |= {f"a cut that {fault.how}s", f"a cut of {fault.role}"}
                if not fault.back:
                    self.reached.add("a cut of one way")
            case "kill":
                for peer in peers:
                    self._kill(peer)

    def _heal(self) -> None:
        self._healed = self.world.now

    def _kill(self, victim: str) -> None:
        """Kill a peer, and note which applications may end because of that."""
        world = self.world
        self.killed[victim] = world.now
        for name in self.applications:
            graph = self._graph(name)
            if graph is None:
                self.excused.setdefault(name, f"{victim} died before it ran")
                continue
            roles, dead = graph.roles, set(self.killed)
            alone = self._lost(graph)
            for producer in chain.from_iterable(graph.shared.values()):
                alone += self._lost_before(producer.application, producer.operator)
            leaderless = graph.origin in dead and (not graph.successor or graph.successor in dead)
            if alone or leaderless:
                self.excused.setdefault(name, f"{victim} died, which had {', '.join(alone) or 'its origin'}")
            elif len(dead & set(graph.addresses)) > 1 or len(self.faults) > 1:
                copies = {other for operator in roles.peers for other in self._others(graph, operator)}
                if victim in roles.peers.values() and copies:
                    self.excused.setdefault(name, f"{victim} died while others were late, so its copies may lag")
        world.crash(victim)
        if len(self.faults) == 1:
            self.reached.add("a death in quiet")

    def _lost(self, graph: Graph) -> list[str]:
        """Operators of an application that died without anybody who may go on."""
        dead = set(self.killed)
        peers = graph.roles.peers.items()
        return [name for name, peer in peers if peer in dead and not set(self._others(graph, name)) - dead]

    def _lost_before(self, name: str, operator: str) -> list[str]:
        """Those of another application on which the stream of one of its operators depends."""
        graph = self._graph(name)
        plan, needed, found = self.applications[name].plan, [operator], set[str]()
        while needed:
            each = original(needed.pop())
            found.add(each)
            needed.extend(plan.operators[each].inputs)
        return [f"{each} of {name}" for each in self._lost(graph) if original(each) in found] if graph else []

    @staticmethod
    def _others(graph: Graph, operator: str) -> list[str]:
        """Peers that may go on without the one that executes an operator."""
        base = original(operator)
        replicas = [peer for name, peer in graph.roles.peers.items() if original(name) == base and name != operator]
        return [*replicas, *graph.roles.backups.get(operator, ())]

    def _graph(self, name: str) -> Graph | None:
        """The latest graph of an application that a living peer leads."""
        found = [each.session.graph(name) for each in self.world.synergy.values() if name in each.session.led]
        return max((graph for graph in found if graph is not None), key=lambda graph: graph.epoch, default=None)

    def _submit(self, asked: Asked) -> None:
        dead_before = set(self.killed)
        try:
            made = self.simulation.submit(asked.plan, origin=asked.origin, spread=asked.spread)
        except SynergyError as refusal:
            self.refusals.append(str(refusal))
            return
        self.applications[made.id] = made
        self.asked[made.id] = asked.availability or "no backups"
        while_composed = self.killed.keys() - dead_before
        if while_composed:
            self.excused[made.id] = f"{', '.join(sorted(while_composed))} died while it was composed"
        self.inputs[made.id] = {each: _rows(asked.plan.operators[each].params) for each in asked.plan.sources}

    def run(self) -> Schedule:
        """Run the schedule to its end, and check all that has to hold."""
        count = self.rng.choice((1, 1, 2, 3))
        for number in range(count):
            self._submit(self._plan(number, shares=number > 0 and self.rng.random() < 0.5))
        assert self.applications or self._may_refuse(), f"none of its applications is admitted: {self.refusals}"
        self._draw()
        for fault in self.faults:
            if not fault.on:
                self.world.after(fault.at, self._strike, fault)
        late = None
        if self.rng.random() < 0.2:
            late = self._plan(count, shares=False)
        self._pass(self.rng.uniform(0.5, 4.0))
        if late is not None and late.origin not in self.killed:
            self._submit(late)
        quiet = self.world.now + self.window + 1.0
        dead = [fault for fault in self.faults if fault.kind == "kill"]
        if dead and len(self.faults) == 1:
            assert self._until(self._agreed, dead[0].at + NOTICED), f"a death is noticed late: {self._disagreed()}"
        while self.world.now < quiet:
            self._pass(STEP)
        self._ends()
        return self

    def _may_refuse(self) -> bool:
        """Whether what has happened may have all applications refused."""
        return False

    def _pass(self, seconds: float) -> None:
        until = self.world.now + seconds
        while self.world.now < until - 1e-9:
            self.world.run(min(STEP, until - self.world.now))
            self._look_around()

    def _until(self, condition: Callable[[], bool], seconds: float) -> bool:
        until = self.world.now + seconds
        while not condition():
            if self.world.now >= until:
                return False
            self._pass(STEP)
        return True

    # -- the end -----------------------------------------------------------------------------------------------------

    def _ends(self) -> None:
        """Check all that has to hold once all is quiet."""
        self._until(lambda: all(map(self._over, self.applications)), QUIET)
        for name, each in self.applications.items():
            if name in self.excused:
                assert each.status in ("finished", "failed"), f"{name} stands still: {each.status} {each.reason}"
                assert each.status == "finished" or each.reason, f"{name} failed without a reason"
            else:
                assert each.status == "finished", f"{name} is {each.status} {each.reason}".rstrip()
            self._check_rows(name, each)
        assert self._until(self._agreed, QUIET), self._disagreed()
        for name, each in self.applications.items():
            self._check_account(name, each)
            each.stop()
        assert self._until(lambda: not self._left(), QUIET), self._left()
        self._note_events()

    def _over(self, name: str) -> bool:
        """Whether an application has failed, or has finished and its rows have been collected."""
        status = self.applications[name].status
        return status == "failed" or (status == "finished" and self.world.results[name, "out"].ended)

    def _check_rows(self, name: str, application: SimulatedApplication) -> None:
        """Compare the rows with those of an undisturbed run; what ended early has the first of them."""
        plan, found = application.plan, self.world.results[name, "out"].rows.rows()
        wanted = undisturbed(plan, self.inputs[name]).rows()
        whole = application.status == "finished"
        if any(provided for graph in self._taps(name) for provided in graph):
            self.reached.add("a shared stream")
            begin = wanted.index(found[0]) if found else len(wanted)  # it joined a stream that ran
            wanted = wanted[begin:]
        if "u" in plan.operators:
            found, wanted = sorted(found, key=repr), sorted(wanted, key=repr)
            if not whole:
                assert set(found) <= set(wanted), f"{name} has rows that no undisturbed run has"
                return
        assert found == wanted if whole else found == wanted[: len(found)], (
            f"{name}: {len(found)} rows, and {len(wanted)} in an undisturbed run"
        )

    def _taps(self, name: str) -> list[Any]:
        return [list(each.shared.values()) for each in self.journal.about(name) if isinstance(each, ApplicationRunning)]

    def _check_account(self, name: str, application: SimulatedApplication) -> None:
        """Check that an application says that all is well, and that nobody waits for anybody."""
        account = application.explain()
        assert account.outcome.startswith(application.status), f"{name}: {account.outcome}, but {application.status}"
        for address, each in self.world.synergy.items():
            waits = each.session.takeovers.awaited.reason(name)
            assert not waits, f"{address} is still {waits} for {name}"

    def _agreed(self) -> bool:
        return not self._disagreed()

    def _disagreed(self) -> str:
        """A peer that is wrong about another one."""
        for address, each in self.world.synergy.items():
            for other in self.peers:
                if other != address and each.membership.is_dead(other) != (other in self.killed):
                    believes = "alive" if other in self.killed else "dead"
                    return f"{address} believes that {other} is {believes}"
        return ""

    def _left(self) -> str:
        """What peers still hold of the applications, which have ended."""
        for address, each in self.world.synergy.items():
            hosting, session = self.world.nodes[address].hosting, each.session
            held = {
                "reservations": each.ledger.requests,
                "sessions": session.applications,
                "led": session.led,
                "components": hosting.components,
                "copies": hosting.roles.copies,
                "records": session.succession.entrusted,
                "claims": session.succession.claims,
            }
            for what, found in held.items():
                if found:
                    return f"{address} still has {what}: {list(found)}"
        return ""

    def _note_events(self) -> None:
        for kind, what in (
            (ApplicationContinued, "a paused application continued"),
            (LeadershipLost, "a succession, and the old origin returned"),
            (BackupRestored, "a lost copy was rebuilt"),
            (ReplicaRebuilt, "a lost copy was rebuilt"),
        ):
            if any(isinstance(each, kind) for each in self.journal):
                self.reached.add(what)

    @property
    def digest(self) -> str:
        """A hash of all events and rows: the same seed has the same one."""
        made = hashlib.sha256()
        for event in self.journal:
            made.update(repr(event).encode())
        for key in sorted(self.world.results):
            made.update(repr(self.world.results[key].rows.rows()).encode())
        return made.hexdigest()


def _copies(application: SimulatedApplication) -> set[str]:
    """Peers with backups of an application."""
    return {peer for peers in application.backups.values() for peer in peers}


def _rows(params: Mapping[str, Any]) -> pl.DataFrame:
    """All rows of a source with these parameters."""
    tables = [item.table for item in traces.read(params) if isinstance(item, Batch)]
    return pl.concat([empty(TRACE_SCHEMAS["packets"]), *tables])


def run(seed: int, keep: Sequence[int] | None = None) -> Schedule:
    """Run the schedule of a seed; an error says how to run it again."""
    return run_of(Schedule, seed, keep)


def run_of(kind: type[Schedule], seed: int, keep: Sequence[int] | None = None) -> Schedule:
    """Run the schedule of a kind that a seed gives; an error says how to run it again."""
    schedule = kind(seed, keep)
    try:
        return schedule.run()
    except Exception as error:
        again = f"python -m {kind.command} {seed}" + ("" if keep is None else f" --keep {_numbers(keep)}")
        raise AssertionError(f"{again}\n{type(error).__name__}: {error}\n{schedule}") from error


def _numbers(keep: Sequence[int] | None) -> str:
    return " ".join(map(str, keep or ()))


def shrunk(kind: type[Schedule], seed: int) -> list[int]:
    """Numbers of the fewest faults with which the schedule of a seed fails."""

    def fails(keep: Sequence[int]) -> bool:
        try:
            run_of(kind, seed, keep)
        except AssertionError:
            return True
        return False

    every = kind(seed)
    with suppress(Exception):  # that it fails is known
        every.run()
    return least(range(len(every.faults)), fails)


def count(kind: type[Schedule], seeds: Sequence[int]) -> None:
    """Run schedules, print those that fail, and how many have reached what."""
    reached, verdicts, begun = Counter[str](), Counter[str](), time.process_time()
    for seed in seeds:
        try:
            done = run_of(kind, seed)
        except AssertionError as error:
            print(error, flush=True)
            verdicts["wrong"] += 1
            continue
        verdicts["ended by name" if any(name in done.excused and each.status == "failed"
                                        for name, each in done.applications.items()) else "survived"] += 1  # fmt: skip
        reached.update(done.reached)
    each_s = (time.process_time() - begun) / max(len(seeds), 1)
    print(f"{len(seeds)} schedules, {each_s:.2f} s of a core each: {dict(verdicts)}")
    print(*(f"| {what} | {number} |" for what, number in sorted(reached.items())), sep="\n")


def main(kind: type[Schedule]) -> None:
    """Run schedules from the command line."""
    parser = argparse.ArgumentParser(description="Run one schedule of whole peers under faults.")
    parser.add_argument("seed", type=int)
    parser.add_argument("--shrink", action="store_true", help="look for the fewest faults that fail")
    parser.add_argument("--keep", type=int, nargs="*", help="numbers of the faults that happen")
    parser.add_argument("--until", type=int, help="run all schedules from SEED to this one, and count what they reach")
    chosen = parser.parse_args()
    if chosen.until is not None:
        count(kind, range(chosen.seed, chosen.until))
        return
    keep = shrunk(kind, chosen.seed) if chosen.shrink else chosen.keep
    if keep is not None:
        print(f"python -m {kind.command} {chosen.seed} --keep {_numbers(keep)}")
    done = run_of(kind, chosen.seed, keep)
    print(done, *sorted(done.reached), done.digest, sep="\n")


if __name__ == "__main__":
    main(Schedule)
