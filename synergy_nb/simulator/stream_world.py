"""The data plane of many peers in virtual time: real operators on real tuples, with faults, without Dask and sockets.

Theory of operation
-------------------
The heap contains (time, sequence, action). Peers are the same :class:`~synergy_nb.dataflow.streams.hosting.Hosting`
values that the runtime drives. A frame arrives after a delay, unless it is lost; work is executed at once and finishes
after its service time, and so does a snapshot. A *director* replaces the control plane: it knows the deployments,
learns of deaths after a delay, and sends new deployments to all peers, to each at a different time.

A crashed peer receives nothing any more. A hung peer receives all frames at once when it resumes. Over a broken link
frames are lost, and both ends are informed. Sources emit the same tuples each time they are opened, in different
batches.

Examples
--------
>>> from synergy_nb.plan import source
>>> import polars as pl
>>> plan = source("python", name="n", columns={"v": "int"}, rate=10.0, id="n").filter("v > 2", id="f").sink("out")
>>> rows = pl.DataFrame({"time": pl.Series([0, 1, 2, 3, 4], dtype=pl.Datetime("us")), "v": [1, 2, 3, 4, 5]})
>>> world = StreamWorld(seed=1, peers=("a", "b", "c"))
>>> world.deploy("app", plan, {"n": "a", "f": "b", "sink": "c"}, {"n": rows}, backups={"f": ("a",)})
>>> world.run(10.0)
>>> world.results["app", "sink"].rows["v"].to_list(), world.results["app", "sink"].ended
([3, 4, 5], True)
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import polars as pl

from synergy_nb.dataflow.operators import create
from synergy_nb.dataflow.streams.component import Component
from synergy_nb.dataflow.streams.deployments import Assignment, Deployment, Feed, SharedReader
from synergy_nb.dataflow.streams.effects import Capture, Captured, Close, Effect, Fact, FactKind, Open, Restore, Send
from synergy_nb.dataflow.streams.execution import Logic, Outcome, Work
from synergy_nb.dataflow.streams.hosting import Hosting
from synergy_nb.dataflow.streams.log import LIMITS, Limits
from synergy_nb.dataflow.streams.values import chunks_of
from synergy_nb.dataflow.streams.wire import decode, encode
from synergy_nb.models.hot_spot_config import HotSpotConfig
from synergy_nb.plan import Plan
from synergy_nb.simulator.collected_results import Results
from synergy_nb.simulator.scripted_faults import Faults, Links, ScriptedSource, SimulatedPeer, weight

__all__ = ["StreamWorld"]


class StreamWorld:
    """Peers, the network between them, applications on them, and faults.

    Parameters
    ----------
    seed
        Seed of all that is drawn.
    peers
        Addresses.
    faults
        Faults of the network.
    detection
        Seconds after which the director hears of deaths.
    service
        Seconds that a tuple takes to be executed.
    codec
        Whether each frame is encoded and decoded on its way, as between real peers.
    limits
        Bytes that each log holds.
    discipline
        Scheduling discipline of the peers.
    hotspots
        Parameters of hot spots; None: the default ones.

    Attributes
    ----------
    facts : list of (float, str, Fact)
        Facts that peers reported: time in seconds, address, fact.
    results : dict
        Application and sink to what was collected there.
    clients : dict
        Application and sink to the seconds between two collections of its results.
    doubted : set of str
        Peers that the director is going to replace.
    pace : float
        Seconds between two batches of a source.
    most_bytes : int
        Bytes that a log held at most, of a component or a copy.
    most_made : int
        Bytes that an execution made at most, or a source gave.
    """

    def __init__(
        self,
        seed: int,
        peers: Sequence[str],
        faults: Faults | None = None,
        detection: float = 0.3,
        service: float = 1e-4,
        codec: bool = False,
        limits: Limits = LIMITS,
        discipline: str = "fcfs",
        hotspots: HotSpotConfig | None = None,
    ) -> None:
        self.rng = random.Random(seed)
        self.faults = faults or Faults()
        self.detection = detection
        self.service = service
        self._codec = codec
        self.now = 0.0
        self.facts: list[tuple[float, str, Fact]] = []
        self.clients: dict[tuple[str, str], float] = {}
        self.doubted: set[str] = set()
        self.pace = 0.02
        self.most_bytes = self.most_made = 0
        self.deployments: dict[str, Deployment] = {}
        self._ready: set[tuple[str, str, str]] = set()  # application, operator, peer: it said that it can take over
        self._first: set[tuple[str, str, str]] = set()  # it has kept a backup from the beginning
        self._plans: dict[str, Plan] = {}
        self._inputs: dict[str, Mapping[str, pl.DataFrame]] = {}
        self.results: dict[tuple[str, str], Results] = {}
        more: dict[str, Any] = {} if codec else {"near": lambda _: True, "share": lambda _: None}  # nobody needs bytes
        more["hotspots"] = hotspots
        self._nodes = {
            peer: SimulatedPeer(Hosting(peer, self._create, limits, None, discipline, **more)) for peer in peers
        }
        self._links = Links(self.rng, self.faults)
        self._heap: list[tuple[float, int, Callable[..., Any], tuple[Any, ...]]] = []
        self._sequence = 0

    def _create(self, deployment: Deployment, component: Component) -> Logic | None:
        plan = self._plans[deployment.application]
        asked = plan.operators[component.operator]
        component.kind, component.discipline = asked.kind, plan.qos.scheduling or ""
        component.limit = math.inf if plan.qos.delay is None else plan.qos.delay
        component.drops = plan.qos.overdue == "drop"
        return None if asked.kind == "source" else create(asked, plan, wait=lambda _: None)

    # -- the director --------------------------------------------------------------------------------------------

    def deploy(
        self,
        application: str,
        plan: Plan,
        peers: Mapping[str, str],
        inputs: Mapping[str, pl.DataFrame],
        *,
        backups: Mapping[str, tuple[str, ...]] | None = None,
        shares: Mapping[str, tuple[str, str]] | None = None,
    ) -> None:
        """Deploy an application.

        Parameters
        ----------
        application, plan
            Id and plan.
        peers
            Operator to the peer that executes it.
        inputs
            Source to its tuples, in the order of their event times.
        backups
            Operator to the peers that keep backups of it.
        shares
            Source to the application and operator whose stream it shares, instead of tuples of its own.
        """
        self._plans[application] = plan
        self._inputs[application] = inputs
        shared = shares or {}
        assignments: dict[str, Assignment] = {}
        for name, operator in plan.operators.items():
            if name in shared:
                continue
            feeds = tuple(Feed(*shared[up]) if up in shared else Feed(application, up) for up in operator.inputs)
            copies, sink = (backups or {}).get(name, ()), operator.kind == "sink"
            assignments[name] = Assignment(peers[name], 0, copies, "", feeds, (), sink)
            if all(feed.application == application for feed in feeds):  # who shares a stream joins it somewhere
                self._first |= {(application, name, peer) for peer in assignments[name].backups}
            if sink:
                self.results[application, name] = Results(application, name, plan.qos.delay)
                self.clients.setdefault((application, name), 0.05)
                self._later(0.05, self._collect, application, name)
        for owner in {feed.application for each in assignments.values() for feed in each.inputs} - {application}:
            self._add_sharer(application, owner, assignments)
        self._publish(Deployment(application, 1, assignments))

    def _add_sharer(self, application: str, owner: str, assignments: Mapping[str, Assignment]) -> None:
        """Publish the readers of shared streams to the peers of their owner."""
        owned = self.deployments[owner]
        changed: dict[str, Assignment] = {}
        for name, assignment in owned.assignments.items():
            kept = tuple(reader for reader in assignment.shared_readers if reader.application != application)
            added = tuple(
                SharedReader(application, reader, port, there.active, there.epoch)
                for reader, there in assignments.items()
                for port, feed in enumerate(there.inputs)
                if feed == (owner, name)
            )
            changed[name] = msgspec.structs.replace(assignment, shared_readers=(*kept, *added))
        everybody = {peer for there in assignments.values() for peer in (there.active, *there.copies)}
        witnesses = tuple(sorted(peer for peer in everybody.union(owned.witnesses) if not self.dead(peer)))
        known = self.deployments.get(application)
        requires = {**owned.requires, application: 1 if known is None else known.version + 1}
        version = owned.version + 1
        self._publish(
            msgspec.structs.replace(owned, version=version, assignments=changed, witnesses=witnesses, requires=requires)
        )

    def dead(self, peer: str) -> bool:
        """Whether a peer has crashed."""
        return self._nodes[peer].crashed

    def change(self, application: str, assignments: Mapping[str, Assignment]) -> None:
        """Publish a new deployment of an application, and of those whose streams it shares."""
        for owner in {feed.application for each in assignments.values() for feed in each.inputs} - {application}:
            self._add_sharer(application, owner, assignments)
        known = self.deployments[application]
        witnesses = tuple(peer for peer in known.witnesses if not self.dead(peer))
        version = known.version + 1
        changed = dict(assignments)
        self._publish(msgspec.structs.replace(known, version=version, assignments=changed, witnesses=witnesses))

    def _publish(self, deployment: Deployment) -> None:
        """Send a deployment to all peers, to each at a different time."""
        self.deployments[deployment.application] = deployment
        for peer in self._nodes:
            late = 20.0 if self.faults.late and self.rng.random() < self.faults.late else 1.0
            self._later(self.rng.uniform(0.001, self.faults.news * late), self._converge, peer, deployment)

    def _converge(self, peer: str, deployment: Deployment) -> None:
        self._at(peer, lambda hosting: hosting.converge(deployment, self.now))

    def ready(self, application: str, operator: str, peer: str) -> bool:
        """Whether a peer has reported that it can take over a component, or has had a backup from the beginning."""
        key = (application, operator, peer)
        return key in self._ready or key in self._first

    def replace_dead(self, dead: str) -> None:
        """Have backups take over the components of a peer, and create new backups."""
        self.doubted.discard(dead)
        for application in tuple(self.deployments):
            known = self.deployments[application].assignments
            assignments = {name: self._without(application, name, each, dead) for name, each in known.items()}
            if assignments != known:
                self.change(application, assignments)

    def _without(self, application: str, operator: str, assignment: Assignment, dead: str) -> Assignment:
        """The new peer of a component after a death; its old peer if no backup can take over."""
        backups = tuple(peer for peer in assignment.backups if peer != dead)
        follower = "" if assignment.follower == dead else assignment.follower
        active, epoch = assignment.active, assignment.epoch
        if active == dead:
            heirs = [peer for peer in (*backups, follower) if peer and self.ready(application, operator, peer)]
            if not heirs:
                return assignment
            active, epoch, follower = self.rng.choice(heirs), epoch + 1, ""
            backups = tuple(peer for peer in backups if peer != active)
        if len(backups) < len(assignment.backups):
            backups += self._another(application, operator, {active, follower, *backups})
        return msgspec.structs.replace(assignment, active=active, epoch=epoch, backups=backups, follower=follower)

    def _another(self, application: str, operator: str, taken: set[str]) -> tuple[str, ...]:
        """A further peer for a backup, if there is one."""
        free = [peer for peer in self._nodes if not self.dead(peer) and peer not in taken]
        if not free:
            return ()
        peer = self.rng.choice(free)
        self._begins(application, operator, peer)
        return (peer,)

    def _begins(self, application: str, operator: str, peer: str) -> None:
        """Note a new copy at a peer, which cannot take over before it reports so."""
        self._ready.discard((application, operator, peer))
        self._first.discard((application, operator, peer))

    def move(self, application: str, operator: str, to: str, patience: float) -> None:
        """Move a component: a follower first, which replaces it once it is ready.

        Parameters
        ----------
        application, operator
            Component that moves.
        to
            Address of the peer that it moves to.
        patience
            Seconds until the director looks for the first time whether the follower is ready.
        """
        assignment = self.deployments[application].assignments[operator]
        if to == assignment.active or assignment.follower or self.dead(to):
            return
        if to not in assignment.backups:
            self._begins(application, operator, to)
        backups = tuple(peer for peer in assignment.backups if peer != to)
        self._assign(application, operator, msgspec.structs.replace(assignment, follower=to, backups=backups))
        self._later(patience, self._finish_move, application, operator, to, assignment.epoch, 40)

    def _finish_move(self, application: str, operator: str, to: str, epoch: int, tries: int) -> None:
        assignment = self.deployments[application].assignments[operator]
        if assignment.epoch != epoch or assignment.follower != to or self.dead(to):
            return
        if self.ready(application, operator, to):
            new = msgspec.structs.replace(assignment, active=to, epoch=epoch + 1, follower="")
            self._assign(application, operator, new)
        elif tries:
            self._later(0.05, self._finish_move, application, operator, to, epoch, tries - 1)
        else:
            self._assign(application, operator, msgspec.structs.replace(assignment, follower=""))

    def _assign(self, application: str, operator: str, assignment: Assignment) -> None:
        self.change(application, {**self.deployments[application].assignments, operator: assignment})

    # -- faults --------------------------------------------------------------------------------------------------

    def crash(self, peer: str) -> None:
        """Crash a peer; the director learns of it later."""
        self._nodes[peer].crashed = True
        self.doubted.add(peer)
        for other in self._nodes:
            if other != peer:
                self._later(self.rng.uniform(0.0, 0.1), self._link_down, other, peer)
        self._later(self.detection, self.replace_dead, peer)

    def hang(self, peer: str, seconds: float) -> None:
        """Stop a peer for some time; it then handles all that has arrived meanwhile."""
        node = self._nodes[peer]
        node.hung_until = max(node.hung_until, self.now + seconds)

    def suspect(self, peer: str, seconds: float) -> None:
        """Hang a peer and declare it dead: backups take over, and then it resumes."""
        self.hang(peer, seconds)
        self.doubted.add(peer)
        self._later(self.detection, self.replace_dead, peer)

    def cut(self, one: str, other: str, seconds: float) -> None:
        """Break the link between two peers for some time; frames in flight are lost."""
        self._links.cut(one, other, self.now + seconds)
        self._later(0.0, self._link_down, one, other)
        self._later(self.rng.uniform(0.0, 0.05), self._link_down, other, one)

    def _link_down(self, peer: str, other: str) -> None:
        self._at(peer, lambda hosting: hosting.link_down(other, self.now))

    # -- results -------------------------------------------------------------------------------------------------

    def _collect(self, application: str, sink: str) -> None:
        deployment = self.deployments.get(application)
        if deployment is None or sink not in deployment.assignments:
            return
        peer = deployment.assignments[sink].active

        results = self.results[application, sink]
        self._at(peer, lambda hosting: results.collect(hosting, self.now))
        if not results.ended:
            self._later(self.clients[application, sink], self._collect, application, sink)

    def failures(self) -> list[str]:
        """The peers' reports of failed components."""
        failed = [(at, fact) for _, at, fact in self.facts if fact.kind is FactKind.COMPONENT_FAILED]
        return [f"{at}: {fact.application}: {fact.operator}: {fact.reason}" for at, fact in failed]

    # -- time ----------------------------------------------------------------------------------------------------

    def run(self, seconds: float) -> None:
        """Advance virtual time."""
        until = self.now + seconds
        while self._heap and self._heap[0][0] <= until:
            self.now, _, action, arguments = heapq.heappop(self._heap)
            action(*arguments)
        self.now = until

    def _later(self, seconds: float, action: Callable[..., Any], *arguments: Any) -> None:
        self._sequence += 1
        heapq.heappush(self._heap, (self.now + seconds, self._sequence, action, arguments))

    def _at(self, peer: str, act: Callable[[Hosting], list[Effect]]) -> None:
        """Have a peer do something at a time, or when it resumes if it hangs then."""
        node = self._nodes[peer]
        if node.crashed:
            return
        if node.hung_until > self.now:
            self._later(node.hung_until - self.now, self._at, peer, act)
            return
        self._carry_out(peer, act(node.hosting))
        self._work(peer)
        self._set_timer(peer)

    def _set_timer(self, peer: str) -> None:
        node = self._nodes[peer]
        at = node.hosting.next_timer
        if at is not None and (node.timer is None or at < node.timer or node.timer <= self.now):
            node.timer = max(at, self.now)
            self._later(node.timer - self.now, self._tick, peer, node.timer)

    def _tick(self, peer: str, at: float) -> None:
        node = self._nodes[peer]
        if node.timer == at:
            node.timer = None
            self._at(peer, lambda hosting: hosting.tick(self.now))

    def _work(self, peer: str) -> None:
        node = self._nodes[peer]
        work = node.hosting.next(self.now, together=self.rng.choice((0, 0, 20))) if not node.busy else None
        if work is not None:
            if self.rng.random() < 0.5:
                work = node.hosting.chained(work)
            node.busy = True
            self._later(self.service * (1 + work.rows), self._finish, peer, work)
        for kept in (node.hosting.components, node.hosting.roles.copies):
            for each in kept.values():
                if each.log.size > self.most_bytes:
                    self.most_bytes = each.log.size

    def _finish(self, peer: str, work: Work) -> None:
        node = self._nodes[peer]
        node.busy = False

        def finish(hosting: Hosting) -> list[Effect]:
            outcome = work.run(lambda: self.now, hosting.limits.window)
            self._measure(work, outcome)
            self.most_made = max(self.most_made, sum(chunk.size for chunk in outcome.chunks))
            return hosting.finished(work, outcome, self.now)

        self._at(peer, finish)

    def _measure(self, work: Work, outcome: Outcome) -> None:
        """Record the delays of tuples that an execution, or one chained to it, has emitted to a sink."""
        component = work.component
        if component.kind == "sink":
            self.results[component.application, component.operator].arrived(outcome.chunks, self.now)
        if outcome.then is not None:
            self._measure(*outcome.then)

    # -- effects -------------------------------------------------------------------------------------------------

    def _carry_out(self, peer: str, effects: list[Effect]) -> None:
        node = self._nodes[peer]
        for effect in effects:
            match effect:
                case Send(to, frame):
                    self._send(peer, to, frame)
                case Capture():
                    self._later(self.rng.uniform(0.0, self.faults.capture), self._save, peer, effect)
                case Restore():
                    self._later(self.rng.uniform(0.0, self.faults.capture), self._restore, peer, effect)
                case Open(application, operator, since):
                    table = self._inputs[application][operator]
                    node.scripts[application, operator] = ScriptedSource(table, random.Random(self.rng.random()), since)
                    self._later(self.pace, self._read, peer, (application, operator))
                case Close(application, operator):
                    node.scripts.pop((application, operator), None)
                case Fact():
                    self.facts.append((self.now, peer, effect))
                    if effect.kind is FactKind.COPY_READY:
                        self._ready.add((effect.application, effect.operator, peer))

    def _save(self, peer: str, capture: Capture) -> None:
        made = capture.encode(capture.save())
        self._at(peer, lambda hosting: hosting.saved(capture, self.now))
        self._later(self.rng.uniform(0.0, self.faults.capture), self._captured, peer, capture, made)

    def _captured(self, peer: str, capture: Capture, made: Captured) -> None:
        self._at(peer, lambda hosting: hosting.captured(capture, made, self.now))

    def _restore(self, peer: str, restore: Restore) -> None:
        restore.make()
        self._at(peer, lambda hosting: hosting.restored(restore, None, self.now))

    def _read(self, peer: str, key: tuple[str, str]) -> None:
        script = self._nodes[peer].scripts.get(key)
        if script is None or script.ended:
            return

        def read(hosting: Hosting) -> list[Effect]:
            if self._nodes[peer].scripts.get(key) is not script or not hosting.may_emit(*key):
                return []
            items = script.next(self.now)
            self.most_made = max(self.most_made, weight(items))
            return hosting.emit(*key, chunks_of(items, hosting.components[key].log.end), self.now)

        self._at(peer, read)
        self._later(self.pace * self.rng.uniform(0.5, 1.5), self._read, peer, key)

    def _send(self, peer: str, to: str, frame: Any) -> None:
        arrivals = self._links.arrivals(peer, to, self.now)
        if self._codec and arrivals:
            frame = decode(encode(frame))
        for at in arrivals:
            self._later(at - self.now, self._arrive, peer, to, frame, self.now)

    def _arrive(self, peer: str, to: str, frame: Any, sent: float) -> None:
        if not self._links.broken(peer, to, sent):  # else the link broke while it was under way
            self._at(to, lambda hosting: hosting.receive(peer, frame, self.now))
