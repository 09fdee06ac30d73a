"""The instruction of a peer to its driver: one deployment for each application, computed anew when a session changes.

Theory of operation
-------------------
A :class:`~synergy_nb.dataflow.deployments.Deployment` describes all that a peer does for an application. It
follows from the component graph, from the components that this peer has committed, from whether the application runs,
and from the applications that share its streams. It contains only those operators of this peer that are committed, so
no tuple can arrive at a component whose inputs are not confirmed.

A tap is not a component. A reader of a tap reads the producer of the stream (``shared_producers``), and the peer of the
producer lists these readers (``shared_readers``) while their application runs. Peers with copies of the producer know
the graphs of its sharers, too, so a copy that takes over lists the readers at once. The peers of the sharers may depend
on the order in which the producer reads its inputs (``witnesses``, ``requires``); they report what they know of that
order once they read from its present peer (``producer_epochs``).

When an application has ended at this peer, two kinds of its components stay: those that other applications use, and
sinks whose results have not been collected. Such a sink reads nothing any more, and no copies are kept. When nothing is
left, the deployment has no assignments.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from synergy_nb.control.graph import Producer
from synergy_nb.control.peer import Peer
from synergy_nb.dataflow.deployments import FOLDER, Assignment, Deployment, InputFeed, SharedProducer, SharedReader
from synergy_nb.lifecycle.records.hosted_components import ComponentId, Components
from synergy_nb.lifecycle.records.members import Member, producer_of
from synergy_nb.lifecycle.records.messages import Graph
from synergy_nb.plan import Plan
from synergy_nb.plan.checks.replica_degrees import Technique, technique
from synergy_nb.plan.derived.active_replicas import original, replicas_of
from synergy_nb.plan.derived.spark_parts import PART
from synergy_nb.plan.operators.catalogue import TAP
from synergy_nb.plan.operators.sources import HELD, UNREPEATED

__all__ = ["EPOCHS", "Deploying", "needed_by", "remaining_times", "version_of"]

EPOCHS = 1 << 20  # number of epochs, and so of deployment versions, in one attempt


def version_of(graph: Graph) -> int:
    """Version of the deployments of a graph: ordered by attempt first, by epoch second."""
    return graph.attempt * EPOCHS + graph.epoch


def needed_by(graph: Graph) -> set[ComponentId]:
    """Return all components that an application uses, at any peer."""
    own = {(graph.application, operator) for operator in graph.roles.peers}
    return own | {
        (producer.application, producer.operator) for producers in graph.shared.values() for producer in producers
    }


class _SharingGraph(NamedTuple):
    """The graph of an application that shares streams, and what follows from it for the owners of these streams."""

    graph: Graph
    producers: tuple[Producer, ...]
    addresses: tuple[str, ...]
    version: int
    delay: float | None

    @classmethod
    def of(cls, graph: Graph) -> _SharingGraph:
        delay = Plan.from_bytes(graph.plan).qos.delay
        return cls(graph, tuple(graph.producers), tuple(graph.addresses), version_of(graph), delay)


class Deploying:
    """Computes the deployments of one peer, and instructs its driver."""

    def __init__(
        self,
        peer: Peer,
        components: Components,
        members: Mapping[str, Member],
        *,
        compares: bool = False,
        durable: bool = False,
    ) -> None:
        self._compares = compares  # whether readers compare the streams of active replicas
        self._durable = durable  # whether each component has a copy in a folder
        self.peer = peer
        self.components = components
        self.members = members  # member records of the applications in which the peer takes part, by id
        self._instructed: dict[str, Deployment] = {}  # application to its last deployment, unless that is empty
        # application to its graph and the deployment of that graph, see _outline()
        self._outlines: dict[str, tuple[Graph, Deployment]] = {}
        # sharer, then producer, to the inputs of the sharer that read it; and producer, then sharer, to the same
        self._reads: dict[str, dict[ComponentId, list[SharedReader]]] = {}
        self._shared_readers: dict[ComponentId, dict[str, tuple[SharedReader, ...]]] = {}
        self._sharing: dict[str, _SharingGraph] = {}
        self._sharers: dict[str, set[str]] = {}  # owner to its sharers, also those through further streams

    def deploy(self, application: str) -> None:
        """Instruct the driver with the deployment of an application, if it has changed."""
        member, known = self.members.get(application), self._instructed.get(application)
        owners = self._note_sharing(application, None if member is None or member.ended else member.graph)
        deployment: Deployment | None
        if member is not None and not member.ended:
            deployment = self._deployment(member)
        else:
            self._outlines.pop(application, None)
            sinks: Collection[str] = () if member is None else member.deployed
            deployment = None if known is None else self._remaining_deployment(known, sinks)
        if deployment is not None and deployment != known and (known is not None or deployment.assignments):
            if deployment.assignments:
                self._instructed[application] = deployment
            else:
                del self._instructed[application]
            self.peer.instruct(deployment)
            owners |= self._note_reads(deployment)
        for owner in sorted(owners - {application}):
            self.deploy(owner)

    def _note_sharing(self, application: str, graph: Graph | None) -> set[str]:
        """Note the graph of an application that may be a sharer; return the owners whose sharers have changed."""
        noted = self._sharing.get(application)
        before = None if noted is None else noted.graph
        if before is graph or (before is None and (graph is None or not graph.shared)):
            return set()
        if graph is not None and graph.shared:
            self._sharing[application] = _SharingGraph.of(graph)
        else:
            del self._sharing[application]
        owners = {
            producer.application for known in (before, graph) if known is not None for producer in known.producers
        }
        for owner in owners:
            self._sharers.setdefault(owner, set()).discard(application)
        for producer in () if graph is None else graph.producers:
            self._sharers[producer.application].add(application)
        for owner in owners:
            if not self._sharers[owner]:
                del self._sharers[owner]
        return owners

    def sharers(self, application: str) -> list[str]:
        """Applications at this peer that share streams of another one, directly or through further streams."""
        return sorted(self._sharers.get(application, ()))

    def _note_reads(self, deployment: Deployment) -> set[str]:
        """Note which streams of others an application reads; return the owners whose readers have changed."""
        application = deployment.application
        reads: dict[ComponentId, list[SharedReader]] = {}
        for operator, assignment in deployment.assignments.items() if deployment.running else ():
            for port, feed in enumerate(assignment.inputs):
                if feed.application != application:
                    reader = SharedReader(application, operator, port, assignment.active, assignment.epoch)
                    reads.setdefault((feed.application, feed.operator), []).append(reader)
        before = self._reads.pop(application, {})
        if reads:
            self._reads[application] = reads
        changed = {each for each in before.keys() | reads.keys() if before.get(each) != reads.get(each)}
        for producer in changed:
            readers = self._shared_readers.setdefault(producer, {})
            readers.pop(application, None)
            if producer in reads:
                readers[application] = tuple(reads[producer])
            elif not readers:
                del self._shared_readers[producer]
        return {owner for owner, _ in changed}

    # -- computation of deployments ----------------------------------------------------------------------------------

    def _deployment(self, member: Member) -> Deployment:
        """The deployment of an application that has not ended at this peer."""
        outline, address = self._outline(member), self.peer.address
        witnesses, requires = self._sharing_peers(outline.application)
        assignments = {
            operator: self._assignment(member, operator, assignment)
            for operator, assignment in outline.assignments.items()
            if assignment.active != address or operator in member.deployed
        }
        return msgspec.structs.replace(
            outline,
            assignments=assignments,
            running=member.started,
            witnesses=witnesses,
            requires=requires,
            limits=self._limits(outline.application),
        )

    def _outline(self, member: Member) -> Deployment:
        """The part of a deployment that follows from the graph alone, computed once for each graph.

        It has all components, as if this peer had committed its own and its backups. A peer computes a deployment for
        each component that it commits.
        """
        graph, plan = member.graph, member.plan
        known, outline = self._outlines.get(graph.application, (None, None))
        if outline is not None and known is graph:
            return outline
        producers = {tap: producer_of(graph, plan, tap) for tap in graph.shared}
        originals = {each: name for name, group in replicas_of(plan).items() for each in group}
        outline = Deployment(
            graph.application,
            version_of(graph),
            {
                operator: self._kept(
                    _outlined(graph, plan, operator, producers, originals.get(operator, "")), plan, operator
                )
                for operator, node in plan.operators.items()
                if node.kind != TAP and graph.roles.peers[operator]
            },
            tuple(_shared_producer(each) for each in producers.values() if each is not None),
            producer_epochs=_epochs(graph.producers),
            plan=graph.plan,
            remaining=remaining_times(graph.reached, plan),
            compares=self._compares,
            beside=graph.beside,
        )
        self._outlines[graph.application] = graph, outline
        return outline

    def _kept(self, assignment: Assignment, plan: Plan, operator: str) -> Assignment:
        """An assignment with its copy in the folder, if components have one there.

        Readers wait for that copy where nobody could make the same output again after the death of all peers.
        """
        if not self._durable:
            return assignment
        node = plan.operators[operator]
        decides = len(assignment.inputs) > 1 or plan.qos.overdue == "drop"
        waited = decides or node.kind in ("sink", PART) or node.params.get("connector") in UNREPEATED
        return msgspec.structs.replace(
            assignment,
            backups=(*assignment.backups, FOLDER),
            synchronized=(*assignment.synchronized, *((FOLDER,) if waited else ())),
        )

    def _limits(self, application: str) -> dict[str, float]:
        """Operator with a shared stream to the least delay limit of the applications that share it, seconds."""
        found: dict[str, float] = {}
        for name in self.sharers(application):
            sharer = self._sharing[name]
            for producer in sharer.producers if sharer.delay is not None else ():
                if producer.application == application and sharer.delay is not None:
                    found[producer.operator] = min(sharer.delay, found.get(producer.operator, sharer.delay))
        return found

    def _sharing_peers(self, application: str) -> tuple[tuple[str, ...], dict[str, int]]:
        """Peers of the sharers of an application, and the version of the graph of each sharer."""
        sharers = {name: self._sharing[name] for name in self.sharers(application)}
        peers = set().union(*(sharer.addresses for sharer in sharers.values()))
        return tuple(sorted(peers)), {name: sharer.version for name, sharer in sharers.items()}

    def _assignment(self, member: Member, operator: str, outlined: Assignment) -> Assignment:
        """The assignment of a component as it is now: with the copies that are committed, and the present readers."""
        roles, address = member.graph.roles, self.peer.address
        changed: dict[str, Any] = {}
        if not member.backups_committed and address in roles.backups.get(operator, ()):
            committed = tuple(peer for peer in roles.backups[operator] if peer != address)
            changed["backups"] = committed + roles.copied_for(operator) + ((FOLDER,) if self._durable else ())
        if member.moves.keeps(operator):
            changed["keeps"] = True
        if early := member.moves.early(operator):  # as in the graph that the origin will publish, if it agrees
            changed["follower"], changed["move"] = early, version_of(member.graph) + 1
        if outlined.follower == address and operator not in member.deployed:
            changed["follower"], changed["move"] = "", 0
        readers = self._readers(member.graph.application, operator, outlined.active)
        if readers:
            changed["shared_readers"] = readers
        return msgspec.structs.replace(outlined, **changed) if changed else outlined

    def _remaining_deployment(self, known: Deployment, sinks: Collection[str]) -> Deployment:
        """The deployment of an application that has ended here: components that others use, and sinks with results."""
        application = known.application
        producers = {
            producer[:2]: producer for user in self.sharers(application) for producer in self._sharing[user].producers
        }
        needed = {operator for owner, operator in producers if owner == application}
        assignments: dict[str, Assignment] = {}
        for operator, assignment in known.assignments.items():
            if operator in needed:
                readers = self._readers(application, operator, assignment.active)
                on_hold = self._is_held((application, operator))
                assignments[operator] = msgspec.structs.replace(
                    assignment, shared_readers=readers, backups=(), follower="", synchronized=(), on_hold=on_hold
                )
            elif operator in sinks and assignment.active == self.peer.address:
                assignments[operator] = msgspec.structs.replace(assignment, inputs=(), numbers=(), ports=())
        streams = [(each.application, each.operator) for each in known.shared_producers] if needed else []
        return msgspec.structs.replace(
            known,
            assignments=assignments,
            shared_producers=tuple(_shared_producer(producers[stream]) for stream in streams if stream in producers),
            witnesses=(),
            requires={},
            producer_epochs=_epochs(
                producer for producer in producers.values() if producer.application in known.producer_epochs
            )
            if needed
            else {},
        )

    # -- streams that are shared -------------------------------------------------------------------------------------

    def add_user(self, member: Member) -> tuple[str, str]:
        """Register an application as a user of this peer's components.

        Returns: tap whose producer cannot be used, and why; empty if all can.
        """
        graph, address = member.graph, self.peer.address
        for tap, producers in graph.shared.items():
            for producer in producers:
                refusal = self._add_user(producer, graph.application) if producer.peer == address else ""
                if refusal:
                    return tap, f"{tap}: {producer.operator} of {producer.application} at {address} {refusal}"
        return "", ""

    def _add_user(self, producer: Producer, application: str) -> str:
        owner, component = self.members.get(producer.application), self.components.get(producer[:2])
        if owner is not None and producer.operator in owner.graph.roles.followers:
            return "is moving"
        if component is not None and component.epoch != producer.epoch:
            return "has moved"
        if self._is_held(producer[:2], application):
            return "is on hold"
        return "" if self.components.use(producer[:2], application) else "has ended"

    def _is_held(self, component: ComponentId, besides: str = "") -> bool:
        """Whether users have paused all applications that use a component here, apart from one.

        One that is being set up uses it once it was registered: an attempt to join what is on hold has no effect.
        """
        users = self.users(component, besides)
        return bool(users) and all(user in self.members and self.members[user].graph.on_hold for user in users)

    def users(self, component: ComponentId, besides: str) -> set[str]:
        """Applications that use a component here, apart from one."""
        found = self.components.get(component)
        return set() if found is None else found.users - {besides}

    def update_sharers(self, owner: str) -> None:
        """Register the applications that share streams of an owner as users of its components that are new here."""
        for name in self.sharers(owner):
            for producer in self._sharing[name].producers:
                if producer.application == owner:
                    self.components.use(producer[:2], name)

    def ended_reader(self, application: str, operator: str) -> str:
        """Return an application that has ended and still reads a stream of this peer for others; empty if none does."""
        gone = (name for name in self._shared_readers.get((application, operator), ()) if self._ended(name))
        return next(gone, "")

    def _ended(self, application: str) -> bool:
        member = self.members.get(application)
        return member is None or member.ended

    def _readers(self, application: str, operator: str, peer: str) -> tuple[SharedReader, ...]:
        """Inputs of other applications that read the stream of a component, if this peer executes the component."""
        found = self._shared_readers.get((application, operator)) if peer == self.peer.address else None
        return tuple(each for name in sorted(found) for each in found[name]) if found else ()


def _outlined(
    graph: Graph, plan: Plan, operator: str, producers: Mapping[str, Producer | None], replica_of: str
) -> Assignment:
    """The assignment of a component in a graph, with all its copies and without readers of other applications."""
    node, roles = plan.operators[operator], graph.roles
    feeds = []
    reads = roles.reads(plan, operator)
    for up in reads.values():
        producer = producers.get(up)
        own = InputFeed(graph.application, up)  # ``up`` is empty for a lost active replica and a discarded stream
        feeds.append(own if producer is None else InputFeed(*producer[:2]))
    how, follower = technique(node, plan.qos), roles.followers.get(operator, "")
    backups = roles.backups.get(operator, ())
    synchronized = backups if how is Technique.SYNCHRONIZED else ()
    # whoever goes on with it has to have all that readers have, or that the outside has
    if node.params.get("connector") in HELD or node.kind == "sink":
        synchronized = (*backups, follower) if follower else backups
    return Assignment(
        roles.peers[operator],
        roles.epochs.get(operator, 0),
        backups + roles.copied_for(operator),
        follower,
        tuple(feeds),
        sink=node.kind == "sink",
        external=node.kind == PART,
        ports=roles.ports(plan, operator),
        replica_of=replica_of,
        state_from=roles.rebuilds.get(operator, ("", ""))[0] if replica_of else "",
        rebuilt=roles.rebuilt.get(operator, 0),
        numbers=_numbers(plan, operator, tuple(reads) if operator in roles.inputs else ()),
        move=version_of(graph) if follower else 0,
        synchronized=synchronized,
        in_order=how is Technique.ORDERED,
        joins=operator in plan.transition.joined,
        on_hold=graph.on_hold,
    )


def _numbers(plan: Plan, operator: str, present: tuple[int, ...]) -> tuple[int, ...]:
    """The number of each input: of a sink that goes on with another plan those of the change."""
    switch = plan.transition.switches.get(operator)
    return present if switch is None else switch.inputs


def _shared_producer(producer: Producer) -> SharedProducer:
    return SharedProducer(producer.application, producer.operator, producer.peer, producer.epoch)


def remaining_times(reached: Mapping[str, float], plan: Plan) -> dict[str, float]:
    """Return operator to the longest predicted time from the operator to a sink, seconds.

    Of active replicas that read an operator, the one whose results are first counts.
    """
    found: dict[str, float] = {}
    for operator in reversed(list(plan.operators)):
        if operator in reached:
            here = reached[operator]
            paths: dict[str, float] = {}
            for down in plan.downstream(operator):
                if down in found:
                    # the difference is negative if a faster replica serves the reader, which does not wait for this one
                    path, of = max(reached[down] - here, 0.0) + found[down], original(down)
                    paths[of] = min(path, paths.get(of, path))
            found[operator] = max(paths.values(), default=0.0)
    return found


def _epochs(producers: Iterable[Producer]) -> dict[str, dict[str, int]]:
    """Return the epochs of components by application and operator."""
    found: dict[str, dict[str, int]] = {}
    for producer in producers:
        found.setdefault(producer.application, {})[producer.operator] = producer.epoch
    return found
