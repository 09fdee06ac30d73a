"""The data paths of many peers in virtual time: real operators on real tuples, with faults, without Dask and sockets.

Theory of operation
-------------------
The heap contains (time, sequence, action). Peers are the same :class:`.hosting.Hosting`
values that the runtime drives. A frame arrives after a delay, unless it is lost; work is executed at once and finishes
after its service time, and so does a snapshot. Deployments come from whoever derives from :class:`DataPaths`: in
:mod:`~synergy_nb.simulator.peer_world` from the sessions of the peers.

A crashed peer receives nothing any more. A hung peer receives all frames at once when it resumes, and one that gets
only a share of a processor in its turns (:class:`~synergy_nb.simulator._processor_turns.Turns`). Over a link that was
cut frames are lost, and both ends are informed; or they are lost without a word; or they wait until the cut ends
(:class:`~synergy_nb.control.cuts.Cut`). Sources emit the same tuples each time they are opened, in different
batches.
"""

from __future__ import annotations

import heapq
import math
import random
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import polars as pl

from synergy_nb.control.cuts import Cut
from synergy_nb.dataflow.deployments import Deployment
from synergy_nb.dataflow.logic import Logic
from synergy_nb.dataflow.operators import create
from synergy_nb.dataflow.streams.component.component import Component
from synergy_nb.dataflow.streams.component.component_settings import merged
from synergy_nb.dataflow.streams.component.component_terms import ComponentTerms
from synergy_nb.dataflow.streams.component.execution import ExecutionOutcome, Work
from synergy_nb.dataflow.streams.hosting.effects import (
    Capture,
    Captured,
    Close,
    Effect,
    Fact,
    FactKind,
    Open,
    Restore,
    SendFrame,
)
from synergy_nb.dataflow.streams.hosting.hosting import Hosting
from synergy_nb.dataflow.streams.log.log import LIMITS, Limits
from synergy_nb.dataflow.streams.log.values import ORIGIN, chunks_of
from synergy_nb.dataflow.streams.log.wire import decode, encode
from synergy_nb.models.hot_spot_config import HotSpotConfig
from synergy_nb.plan import Plan
from synergy_nb.plan.derived.active_replicas import original
from synergy_nb.simulator._processor_turns import HANDLING, Turns
from synergy_nb.simulator._pushed_rows import PushingProgram
from synergy_nb.simulator.collected_results import CollectedResults
from synergy_nb.simulator.kernel import Network
from synergy_nb.simulator.scripted_faults import Faults, ScriptedSource, SimulatedLinks, weight

__all__ = ["DataPaths"]


class _Node:
    """A simulated peer."""

    def __init__(self, hosting: Hosting) -> None:
        self.hosting = hosting
        self.crashed = False
        self.hung_until = -math.inf
        self.busy = False
        self.waiting: deque[Callable[[Hosting], list[Effect]]] = deque()  # what it does when it resumes
        self.timer: float | None = None
        self.scripts: dict[tuple[str, str], ScriptedSource] = {}


class DataPaths:
    """The data paths of peers, the network between them, and faults.

    ``most_made``: bytes that an execution made at most, or a source gave.
    """

    def __init__(
        self,
        seed: int,  # seed of all that is drawn
        peers: Sequence[str],  # addresses
        faults: Faults | None = None,
        service: float = 1e-4,  # seconds that a tuple takes to be executed
        codec: bool = False,  # whether each frame is encoded and decoded on its way, as between real peers
        limits: Limits = LIMITS,  # bytes that each log holds
        discipline: str = "fcfs",
        # delays between the peers, which those of `faults` are added to; None: those of `faults` alone
        network: Network | None = None,
        # bandwidth of each link in each direction, bytes/s. If it is finite, `codec` has to be set
        rate: float = math.inf,
        hotspots: HotSpotConfig | None = None,
    ) -> None:
        self.rng = random.Random(seed)
        self.faults = faults or Faults()
        self.service = service
        self._codec = codec
        self.now = 0.0
        self.facts: list[tuple[float, str, Fact]] = []  # facts that peers reported: time in seconds, address, fact
        # application and sink to the seconds between two collections of its results
        self.clients: dict[tuple[str, str], float] = {}
        self.secrets: dict[str, bytes] = {}  # by the name that plans use for them
        self.pace = 0.02  # seconds between two batches of a source
        self.turns: dict[str, Turns] = {}  # peers that get only a share of a processor
        self.most_made = 0
        self.deployments: dict[str, Deployment] = {}
        # application and source to the program that pushes its rows, for sources that no peer can read again
        self.programs: dict[tuple[str, str], PushingProgram] = {}
        self.plans: dict[str, Plan] = {}
        self._inputs: dict[str, Mapping[str, pl.DataFrame]] = {}
        self.results: dict[tuple[str, str], CollectedResults] = {}  # application and sink to what was collected there
        more: dict[str, Any] = {} if codec else {"near": lambda _: True, "share": lambda _: None}  # nobody needs bytes
        more["hotspots"] = hotspots

        def hosting(peer: str) -> Hosting:
            return Hosting(peer, self._create, limits, None, discipline, speed=partial(self.speed, peer), **more)

        self._hosting = hosting
        self.nodes: dict[str, _Node] = {}  # the data path of each peer, for worlds and what looks into them
        for peer in peers:
            self._add_node(peer)
        self.links = SimulatedLinks(self.rng, self.faults, network, rate)
        self._weighs = rate < math.inf
        self._heap: list[tuple[float, int, Callable[..., Any], tuple[Any, ...]]] = []
        self._sequence = 0

    def _add_node(self, peer: str) -> None:
        """Add the data path of a peer."""
        self.nodes[peer] = _Node(self._hosting(peer))

    def speed(self, peer: str) -> float:
        """Work that a peer does in a second, in seconds at a peer of speed 1."""
        turns = self.turns.get(peer)
        return 1.0 if turns is None else turns.share

    def _create(self, deployment: Deployment, component: Component) -> Logic | None:
        plan = self.plans[deployment.application]
        declared = plan.operators.get(component.operator) or plan.operators[original(component.operator)]
        limit = math.inf if plan.qos.delay is None else plan.qos.delay
        terms = ComponentTerms(limit, plan.qos.scheduling or "", drops=plan.qos.overdue == "drop")
        component.agree(terms, declared.kind)
        if declared.kind == "source":
            return None
        logic = create(declared, plan, secrets=self.secrets, wait=lambda _: None)
        return merged(logic, component, plan, compares=deployment.compares)

    # -- faults --------------------------------------------------------------------------------------------------

    def dead(self, peer: str) -> bool:
        """Whether a peer has crashed."""
        return self.nodes[peer].crashed

    def crash(self, peer: str) -> None:
        """Crash a peer; the links to it break a little later, except those that are cut."""
        self.nodes[peer].crashed = True
        for other in self._linked(peer):
            if other != peer and self.links.passes(peer, other, self.now):
                self.after(self.rng.uniform(0.0, 0.1), self._link_down, other, peer)

    def _linked(self, peer: str) -> Iterable[str]:
        """Return the peers that notice at once that a peer has crashed."""
        return self.nodes

    def hang(self, peer: str, seconds: float) -> None:
        """Stop a peer for some time; it then handles all that has arrived meanwhile."""
        node = self.nodes[peer]
        node.hung_until = max(node.hung_until, self.now + seconds)

    def starve(self, peer: str, seconds: float, share: float, turn: float = 0.01) -> None:
        """Have other programs on the machine of a peer leave it only a share of a processor for some time.

        ``peer``, ``seconds``: the peer, and for how long; ``share``, ``turn``: share of a processor, and the duration
        of a turn in seconds, see :class:`.Turns`.
        """
        end = self.now + seconds
        turns = self.turns[peer] = Turns(random.Random(self.rng.random()), share, turn, self.now, end)
        self.after(seconds, self._fed, peer, turns)

    def _fed(self, peer: str, turns: Turns) -> None:
        if self.turns.get(peer) is turns:
            del self.turns[peer]

    def cut(self, one: str, other: str, seconds: float, how: Cut = Cut.RESET, *, back: bool = True) -> None:
        """Cut the link between two peers for some time; frames in flight are lost unless the cut delays.

        Without ``back``, what the second peer sends to the first one arrives; a reset is one of both ways.
        """
        self.links.cut(one, other, self.now + seconds, how, back=back or how is Cut.RESET)
        self.after(seconds, self._expire, one, other)
        if how is Cut.RESET:
            self.after(0.0, self._link_down, one, other)
            self.after(self.rng.uniform(0.0, 0.05), self._link_down, other, one)

    def mend(self, one: str, other: str) -> None:
        """Mend the link between two peers."""
        self.links.mend(one, other, self.now)

    def _expire(self, one: str, other: str) -> None:
        self.links.expire(one, other, self.now)

    def _link_down(self, peer: str, other: str) -> None:
        self._at(peer, lambda hosting: hosting.link_down(other, self.now))

    # -- programs ------------------------------------------------------------------------------------------------

    def push(self, application: str, source: str, table: pl.DataFrame, most: int = LIMITS.retain) -> PushingProgram:
        """Have a program push the rows of a source, which no peer can read.

        ``application``, ``source``: source of an application, which may be deployed later; ``table``: tuples of the
        source, in the order of their event times; ``most``: bytes that the program retains until copies of the source
        have them.
        """
        rng = random.Random(self.rng.random())
        script = ScriptedSource(table, random.Random(self.rng.random()), ORIGIN)
        program = self.programs[application, source] = PushingProgram(self, (application, source), script, rng, most)
        program.begin()
        return program

    # -- results -------------------------------------------------------------------------------------------------

    def _collect(self, application: str, sink: str) -> None:
        deployment = self.deployments.get(application)
        if deployment is None or sink not in deployment.assignments:
            return
        peer = deployment.assignments[sink].active

        results = self.results[application, sink]
        self._at(peer, lambda hosting: results.collect(hosting, self.now))
        if not results.ended:
            self.after(self.clients[application, sink], self._collect, application, sink)

    def failures(self) -> list[str]:
        """The peers' reports of failed components."""
        failed = [(at, fact) for _, at, fact in self.facts if fact.kind is FactKind.COMPONENT_FAILED]
        return [f"{at}: {fact.application}: {fact.operator}: {fact.reason}" for at, fact in failed]

    # -- time ----------------------------------------------------------------------------------------------------

    def run(self, seconds: float) -> None:
        """Advance virtual time."""
        self._run_until(self.now + seconds)

    def _run_until(self, until: float) -> None:
        while self._heap and self._heap[0][0] <= until:
            self._next()
        self.now = until

    def _next(self) -> None:
        self.now, _, action, arguments = heapq.heappop(self._heap)
        action(*arguments)

    @property
    def next_event(self) -> float:
        """Time of the next event of the data paths, seconds; infinite if there is none."""
        return self._heap[0][0] if self._heap else math.inf

    def after(self, seconds: float, action: Callable[..., Any], *arguments: Any) -> None:
        """Call ``action`` with ``arguments`` so many seconds from now."""
        self._sequence += 1
        heapq.heappush(self._heap, (self.now + seconds, self._sequence, action, arguments))

    def _at(self, peer: str, act: Callable[[Hosting], list[Effect]]) -> None:
        """Have a peer do something now, or when it resumes, after all that has waited for that."""
        node = self.nodes[peer]
        if node.waiting:
            node.waiting.append(act)
        elif (resumes := self._resumes(peer)) > self.now:
            node.waiting.append(act)
            self.after(resumes - self.now, self._resume, peer)
        else:
            self._do(peer, act)

    def _resumes(self, peer: str) -> float:
        """Time from which on a peer can handle something that is there now, seconds."""
        resumes = self.nodes[peer].hung_until
        return max(resumes, self.turns[peer].resumes(self.now)) if peer in self.turns else resumes

    def _resume(self, peer: str) -> None:
        """Have a peer do what has waited, in the order in which it arrived."""
        waiting = self.nodes[peer].waiting
        while waiting:
            resumes = self._resumes(peer)
            if resumes > self.now:
                self.after(resumes - self.now, self._resume, peer)
                return
            self._do(peer, waiting.popleft())

    def _do(self, peer: str, act: Callable[[Hosting], list[Effect]]) -> None:
        node = self.nodes[peer]
        if node.crashed:
            return
        if peer in self.turns:
            self.turns[peer].spend(HANDLING, self.now)
        self._carry_out(peer, act(node.hosting))
        self._work(peer)
        self._set_timer(peer)

    def _set_timer(self, peer: str) -> None:
        node = self.nodes[peer]
        at = node.hosting.next_timer
        if at is not None and (node.timer is None or at < node.timer or node.timer <= self.now):
            node.timer = max(at, self.now)
            self.after(node.timer - self.now, self._tick, peer, node.timer)

    def _tick(self, peer: str, at: float) -> None:
        node = self.nodes[peer]
        if node.timer == at:
            node.timer = None
            self._at(peer, lambda hosting: hosting.tick(self.now))

    def _work(self, peer: str) -> None:
        node = self.nodes[peer]
        work = node.hosting.next(self.now, together=self.rng.choice((0, 0, 20))) if not node.busy else None
        if work is not None:
            if self.rng.random() < 0.5:
                work = node.hosting.chained(work)
            node.busy = True
            self.after(self.service * (1 + work.rows) / self.speed(peer), self._finish, peer, work)

    def _finish(self, peer: str, work: Work) -> None:
        node = self.nodes[peer]
        node.busy = False

        def finish(hosting: Hosting) -> list[Effect]:
            outcome = work.run(lambda: self.now, hosting.limits.window)
            self._measure(work, outcome)
            self.most_made = max(self.most_made, sum(chunk.size for chunk in outcome.chunks))
            return hosting.finished(work, outcome, self.now)

        self._at(peer, finish)

    def _measure(self, work: Work, outcome: ExecutionOutcome) -> None:
        """Record the delays of tuples that an execution, or one chained to it, has emitted to a sink."""
        component = work.component
        if component.kind == "sink":
            self.results[component.application, component.operator].arrived(outcome.chunks, self.now)
        if outcome.then is not None:
            self._measure(*outcome.then)

    # -- effects -------------------------------------------------------------------------------------------------

    def _carry_out(self, peer: str, effects: list[Effect]) -> None:
        node = self.nodes[peer]
        for effect in effects:
            match effect:
                case SendFrame(to, frame):
                    self._send(peer, to, frame)
                case Capture():
                    self.after(self.rng.uniform(0.0, self.faults.capture), self._save, peer, effect)
                case Restore():
                    self.after(self.rng.uniform(0.0, self.faults.capture), self._restore, peer, effect)
                case Open(application, operator) if (application, operator) in self.programs:
                    pass  # its program pushes the rows
                case Open(application, operator, since):
                    table = self._inputs[application][original(operator)]
                    node.scripts[application, operator] = ScriptedSource(table, random.Random(self.rng.random()), since)
                    self.after(self.pace, self._read, peer, (application, operator))
                case Close(application, operator):
                    node.scripts.pop((application, operator), None)
                case Fact():
                    self._stated(peer, effect)

    def _stated(self, peer: str, fact: Fact) -> None:
        """Record a fact that a peer has reported."""
        self.facts.append((self.now, peer, fact))

    def _save(self, peer: str, capture: Capture) -> None:
        made = capture.encode(capture.save())
        self._at(peer, lambda hosting: hosting.saved(capture, self.now))
        self.after(self.rng.uniform(0.0, self.faults.capture), self._captured, peer, capture, made)

    def _captured(self, peer: str, capture: Capture, made: Captured) -> None:
        self._at(peer, lambda hosting: hosting.captured(capture, made, self.now))

    def _restore(self, peer: str, restore: Restore) -> None:
        restore.make()
        self._at(peer, lambda hosting: hosting.restored(restore, None, self.now))

    def _read(self, peer: str, key: tuple[str, str]) -> None:
        script = self.nodes[peer].scripts.get(key)
        if script is None or script.ended:
            return

        def read(hosting: Hosting) -> list[Effect]:
            if self.nodes[peer].scripts.get(key) is not script or not hosting.may_emit(*key):
                return []
            items = script.next(self.now)
            self.most_made = max(self.most_made, weight(items))
            return hosting.emit(*key, chunks_of(items, hosting.components[key].log.end), self.now)

        self._at(peer, read)
        self.after(self.pace * self.rng.uniform(0.5, 1.5), self._read, peer, key)

    def _send(self, peer: str, to: str, frame: Any) -> None:
        encoded = encode(frame) if self._codec else None
        size = len(encoded) if encoded is not None and self._weighs else 0

        def deliver(at: float) -> None:
            self.after(at - self.now, self._arrive, peer, to, frame if encoded is None else encoded, self.now)

        self.links.send(peer, to, self.now, size, deliver)

    def _arrive(self, peer: str, to: str, frame: Any, sent: float) -> None:
        if not self.links.broken(peer, to, sent):  # else the link broke while it was under way
            came = decode(frame) if self._codec else frame
            self._at(to, lambda hosting: hosting.receive(peer, came, self.now))
