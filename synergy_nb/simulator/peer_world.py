"""Whole peers in virtual time: their sessions, and the data paths that these deploy.

Theory of operation
-------------------
Each peer is a :class:`~synergy_nb.assembly.SynergyPeer` with its
:class:`.hosting.Hosting`. Messages of peers and frames of data travel over the same links,
with the same delays and faults, and in the order in which they were sent. What a session instructs its driver to do is
done at once, and what the data path reports goes to the peer in a turn of its own, as in the runtime. The two heaps of
events advance together: the earlier event is next.

The peers of an application's components are given, so nothing is composed, and no component is in the directory.

Examples
--------
>>> import polars as pl
>>> from synergy_nb.plan import source
>>> plan = source("packets", rate=10.0, id="n").filter("bytes > 2", id="f").sink(id="out")
>>> columns = {name: ["A"] * 5 for name in ("link", "source", "destination")}
>>> columns |= {name: [0] * 5 for name in ("source_port", "destination_port")}
>>> rows = pl.DataFrame({"time": pl.Series(range(5), dtype=pl.Datetime("us")), **columns, "bytes": [1, 2, 3, 4, 5]})
>>> world = PeerWorld(1, ("a", "b", "c"))
>>> world.deploy("app", plan, {"n": "a", "f": "b", "out": "a"}, {"n": rows})
>>> world.until(lambda: world.status("app") == "running")
True
>>> moved = world.move("app", "f", "c")
>>> world.run(3.0)
>>> moved, world.where("app")["f"], world.results["app", "out"].rows["bytes"].to_list()
([''], 'c', [3, 4, 5])
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import polars as pl

from synergy_nb.assembly import PeerConfig, SynergyPeer
from synergy_nb.control import driver_messages as driver
from synergy_nb.control.graph import Producer, Report
from synergy_nb.control.peer import DriverMessage, Message
from synergy_nb.control.roles import Roles
from synergy_nb.dataflow.deployments import Deployment
from synergy_nb.dataflow.streams.hosting.effects import Effect, Fact, FactKind
from synergy_nb.dataflow.streams.hosting.input_reports import InputsMeasured
from synergy_nb.events.application_states import State, Status
from synergy_nb.lifecycle.records.members import producers_of
from synergy_nb.lifecycle.records.messages import Graph
from synergy_nb.lifecycle.records.request import Alternative, Request
from synergy_nb.lifecycle.requests.decider import Decision
from synergy_nb.lifecycle.sessions.sink_reports import sink_peers
from synergy_nb.overlay.prebuilt_ring import assemble
from synergy_nb.plan import Plan
from synergy_nb.plan.derived.stream_sharing import reduced
from synergy_nb.simulator.collected_results import CollectedResults
from synergy_nb.simulator.data_paths import DataPaths
from synergy_nb.simulator.kernel import SimulatedPeers
from synergy_nb.simulator.scripted_faults import Faults, SimulatedLinks

__all__ = ["PeerWorld"]

MESSAGE_BYTES = 500  # bytes of a message of peers on a link


class _Control(SimulatedPeers):
    """The peers, whose messages travel over the links of the data paths."""

    def __init__(self, seed: int, links: SimulatedLinks) -> None:
        super().__init__(seed, keep_instructions=False)
        self._links = links

    def _plain(self) -> bool:
        return False

    def resume(self, address: str) -> None:
        """Have a peer that hangs handle now all that has arrived meanwhile."""
        until = self.hung.pop(address, None)
        if until is None:
            return
        waiting = [each for each in self._heap if each[0] == until and each[2] == address]
        self._heap = [each for each in self._heap if not (each[0] == until and each[2] == address)]
        heapq.heapify(self._heap)
        for _, _, _, sender, message in sorted(waiting, key=lambda each: each[1]):
            self.put(self.now, address, sender, message)

    def transmit(self, sender: str, to: str, message: Message) -> None:
        """Carry a message over a link of the data paths."""
        self._links.spoken(sender, to)
        if sender == to:
            self.put(self.now, to, sender, message)
            return
        self._links.send(sender, to, self.now, MESSAGE_BYTES, lambda at: self.put(at, to, sender, message))


class PeerWorld(DataPaths):
    """Whole peers, the network between them, and faults."""

    def __init__(
        self,
        seed: int,
        peers: Sequence[str],
        faults: Faults | None = None,
        *,
        config: PeerConfig | None = None,  # configuration of the peers; their names and seeds are their own
        **settings: Any,
    ) -> None:
        super().__init__(seed, peers, faults, **settings)
        self.control = _Control(seed, self.links)  # the peers without their data paths
        self.control.turns = self.turns
        self.control.on_instruction.append(self._instructed)
        self.control.on_refused.append(self._refused)
        self.reports: dict[str, list[Report]] = {}  # application to the reports of its state
        self.synergy: dict[str, SynergyPeer] = {}  # address to the peer, for those that have not crashed
        self._config = config or PeerConfig(components=(), cores=16.0, placement=None)
        self._next_seed = 1000 * seed
        for address in peers:
            self._add_peer(address)
        assemble([each.pastry for each in self.synergy.values()], self._round_trip(), seed)
        for address in peers:
            self.control.start(address)
        self.origins: dict[str, str] = {}

    def _add_peer(self, address: str) -> None:
        made = self.synergy[address] = self._make_peer(address, self._next_seed, self._config)
        self._next_seed += 1
        self.control.add(made.peer)

    def _make_peer(self, address: str, seed: int, config: PeerConfig) -> SynergyPeer:
        """Create a peer, whose sessions set up graphs that are given: no decider is asked."""
        own = PeerConfig(
            name=address,
            components=config.components,
            cores=config.cores,
            placement=config.placement,
            session=config.session,
            replication=config.replication,
            seed=seed,
        )
        made = SynergyPeer(address, own)
        made.session.on_setup_ended.clear()
        made.session.on_ended.clear()
        return made

    def _round_trip(self) -> Callable[[str, str], float] | None:
        """Return the function that gives the round-trip time of two peers, seconds; None: the ring ignores delays."""
        return None

    # -- applications --------------------------------------------------------------------------------------------

    def deploy(
        self,
        application: str,
        plan: Plan,
        peers: Mapping[str, str],
        inputs: Mapping[str, pl.DataFrame],
        *,
        backups: Mapping[str, tuple[str, ...]] | None = None,
        shares: Mapping[str, tuple[str, str]] | None = None,
        origin: str = "",
    ) -> None:
        """Set up an application, led by the peer ``origin`` or else by that of its sink; it runs a little later.

        Other parameters are those of :meth:`.StreamWorld.deploy`. ``shares`` may name any operator; what is upstream of
        it is not deployed.
        """
        origin = self.origins[application] = origin or peers[plan.sinks[0]]
        points: dict[str, Mapping[str, tuple[str, str]]] = {}
        shared: dict[str, Mapping[str, tuple[Producer, ...]]] = {}
        chosen = dict(peers)
        for point, (owner, operator) in (shares or {}).items():
            graph = self.graph(owner)
            at = chosen[point] = graph.roles.peers[operator]
            points[point] = {at: (owner, operator)}
            shared[point] = {at: producers_of(graph, Plan.from_bytes(graph.plan), operator)}
        composed = reduced(plan, points) if points else plan
        request = Request(application, plan, "given", self.control.now)
        request.found([Alternative(composed, shared)])
        request.enter(State.DECIDING)
        request.enter(State.ESTABLISHING)
        roles = Roles({name: chosen[name] for name in composed.operators}, dict(backups or {}))
        self._inputs[application] = inputs
        for sink in plan.sinks:
            self.results[application, sink] = CollectedResults(application, sink, plan.qos.delay)
            self.clients.setdefault((application, sink), 0.05)
        decision = Decision(roles, dict.fromkeys(composed.operators, 0.0))
        self.control.call(origin, self.synergy[origin].session.establish, request, decision)

    def graph(self, application: str) -> Graph:
        """The graph of a running application, as its origin knows it."""
        graph = self.synergy[self.origins[application]].session.graph(application)
        if graph is None:
            raise ValueError(f"application: {application!r}; expected one that runs")
        return graph

    def where(self, application: str) -> dict[str, str]:
        """Operator to the peer that executes it, as the origin of the application knows it."""
        return self.graph(application).roles.peers

    def status(self, application: str) -> str:
        """Last reported status of an application; empty before the first."""
        found = self.reports.get(application)
        return found[-1].status if found else ""

    def move(self, application: str, operator: str, to: str) -> list[str]:
        """Ask the origin for a move; the list gets an empty text once it is done, or the reason why it was not."""
        outcome: list[str] = []
        origin = self.origins[application]
        moves = self.synergy[origin].session.moves
        try:
            self.control.call(origin, moves.command, application, operator, to, outcome.append)
        except ValueError as error:
            outcome.append(str(error))
        return outcome

    def finish(self, application: str) -> None:
        """Report that all sinks of an application have ended, at the peer of each."""
        for peer in sorted(sink_peers(self.graph(application))):
            self._report(peer, driver.SinksEnded(application))

    def stop(self, application: str) -> None:
        """End an application, and discard its results."""
        origin = self.origins[application]
        if origin in self.synergy:
            self.control.call(origin, self.synergy[origin].session.stop, application)

    # -- the ring ------------------------------------------------------------------------------------------------

    def join(self, address: str, contact: str) -> None:
        """Start a new peer, which joins the ring through the peer ``contact``."""
        self._add_node(address)
        self._add_peer(address)
        self.control.start(address)
        self.control.report(address, driver.JoinRing(contact))

    def leave(self, address: str) -> None:
        """Have a peer announce that it leaves the ring; its components go on until :meth:`crash` ends it."""
        self.control.report(address, driver.LeaveRing())

    # -- faults --------------------------------------------------------------------------------------------------

    def disturb(self, faults: Faults) -> None:
        """Have the network make other faults from now on."""
        self.faults = self.links.faults = faults

    def crash(self, peer: str) -> None:
        """Crash a peer; the links to it break a little later, and the failure detector finds out."""
        super().crash(peer)
        self.synergy.pop(peer, None)
        self.control.crash(peer)

    def hang(self, peer: str, seconds: float) -> None:
        """Stop a peer for some time; it then handles all that has arrived meanwhile."""
        super().hang(peer, seconds)
        self.control.hang(peer, self.nodes[peer].hung_until - self.now)

    def _link_down(self, peer: str, other: str) -> None:
        super()._link_down(peer, other)
        self._report(peer, driver.LinkFailed(other, refused=self.dead(other)))

    def _refused(self, peer: str, other: str) -> None:
        self.now = max(self.now, self.control.now)
        if self.links.passes(other, peer, self.now):
            self._report(peer, driver.LinkFailed(other, refused=True))

    def stun(self, peer: str, seconds: float) -> None:
        """Stop a peer for some time, but not its data path: it may be declared dead, and executes and sends on."""
        self.control.hang(peer, seconds)

    # -- between a peer and its data path ------------------------------------------------------------------------

    def _instructed(self, address: str, instruction: object) -> None:
        self.now = max(self.now, self.control.now)
        match instruction:
            case Report():
                if self._reports_as_origin(address, instruction):
                    self.origins[instruction.application] = address
                    self.reports.setdefault(instruction.application, []).append(instruction)
            case Deployment():
                self._deploy_at(address, instruction)

    def _reports_as_origin(self, address: str, report: Report) -> bool:
        """Whether a report is that of the peer which leads its application; an earlier origin may not know of it."""
        application, known = report.application, self.origins.get(report.application, address)
        if known == address or known not in self.synergy:
            return True
        later = self._epoch_led(address, application)
        runs = report.status in (Status.RUNNING, Status.ON_HOLD)
        return runs and later >= max(self._epoch_led(known, application), (1, 0))

    def _epoch_led(self, peer: str, application: str) -> tuple[int, int]:
        """Attempt and epoch of the graph by which a peer leads an application, or has led it to its end; or 0, 0."""
        synergy = self.synergy[peer]
        request = synergy.requests.get(application)  # a successor may have ended it in the turn in which it succeeded
        if request is not None and request.began is not None:
            return request.graph.attempt, request.graph.epoch
        graph = synergy.session.graph(application) if application in synergy.session.led else None
        return (0, 0) if graph is None else (graph.attempt, graph.epoch)

    def _deploy_at(self, address: str, deployment: Deployment) -> None:
        application = deployment.application
        if application not in self.plans:
            self.plans[application] = Plan.from_bytes(deployment.plan)
        if any(each.sink and each.active == address for each in deployment.assignments.values()):
            if application not in self.deployments:
                for sink in self.plans[application].sinks:
                    self.after(0.05, self._collect, application, sink)
            self.deployments[application] = deployment
        self._at(address, lambda hosting: hosting.converge(deployment, self.now))

    def _carry_out(self, peer: str, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, InputsMeasured):
                self.after(0.0, self._report, peer, driver.InputsReported(effect.components))
        super()._carry_out(peer, effects)

    def _stated(self, peer: str, fact: Fact) -> None:
        super()._stated(peer, fact)
        key = fact.application, fact.operator
        match fact.kind:
            case FactKind.COPY_READY:
                self.after(0.0, self._report, peer, driver.CopyReady(*key))
            case FactKind.COPIES_BEHIND:
                self.after(0.0, self._report, peer, driver.CopiesLagging(*key, dict.fromkeys(fact.peers, fact.reason)))
            case FactKind.COMPONENT_FAILED:
                self.after(0.0, self._report, peer, driver.OperatorStopped(*key, fact.reason))

    def _report(self, peer: str, message: DriverMessage) -> None:
        if peer in self.synergy:
            self.control.report(peer, message)

    # -- time ----------------------------------------------------------------------------------------------------

    def until(self, condition: Callable[[], bool], seconds: float = 60.0) -> bool:
        """Advance virtual time until a condition holds or the time limit is over; return whether it holds."""
        self._advance(self.now + seconds, condition)
        return condition()

    def _run_until(self, until: float) -> None:
        self._advance(until, lambda: False)

    def _advance(self, until: float, condition: Callable[[], bool]) -> None:
        """Have the events of both heaps happen in their order."""
        control = self.control

        def pause() -> bool:
            return self.next_event <= control.next_event or condition()

        while not condition():
            here = min(self.next_event, until)
            if control.next_event <= here:
                control.run(until=here, stop=pause)
                self.now = max(self.now, control.now)
            elif self.next_event <= until:
                self.now = control.now = here
                self._next()
            else:
                self.now = control.now = until
                return
