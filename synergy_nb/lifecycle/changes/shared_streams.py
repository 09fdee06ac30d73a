"""Shared streams: when a component that other applications use moves or is taken over, these applications follow.

Theory of operation
-------------------
The *owner* of a stream is the application that produces it; an application that reads it is a *sharer*. Before a sharer
starts, its origin sends :class:`~synergy_nb.lifecycle.records.messages.Share` to the origin of the owner, which
registers it, or refuses if the component has moved meanwhile. Whenever the owner's graph changes, its origin sends the
new peers of its components, and of their copies, to the origins of all sharers (:class:`ProducersMoved`), until they
acknowledge (:class:`ProducersFollowed`). Each of these derives the next graph of the sharer and publishes it. So
readers read from the new peer, and the peers of components and copies know their readers. After a move they do so
before: the new peer sends to them without being asked.

If the peer of a shared component dies, the sharers wait for the owner's origin to report a new peer, or for the peer
itself to return (:mod:`~synergy_nb.lifecycle.changes.awaited_peers`). If the owner or the process of its origin ends,
the shared components go on at their peers, without copies; then they can neither move nor be taken over. Where another
peer leads the owner on (:mod:`~synergy_nb.lifecycle.changes.succession`), or its origin is only silent, the sharers
wait for a report; and a peer that leads a sharer on tells the origins of the owners (:class:`SharerLed`) until they
report.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

import msgspec

from synergy_nb.control.graph import Producer
from synergy_nb.control.peer import Message
from synergy_nb.events import SharedStreamMoved
from synergy_nb.events.application_states import CHANGING, State
from synergy_nb.lifecycle.changes.graph_changes import GraphChanger, GraphChanges
from synergy_nb.lifecycle.changes.migration import Migrations
from synergy_nb.lifecycle.records.members import present_producer, producer_of
from synergy_nb.lifecycle.records.messages import End, Graph, ProducersFollowed, ProducersMoved, Sharer, SharerLed
from synergy_nb.lifecycle.records.session_config import RESEND_INTERVAL
from synergy_nb.plan import Plan
from synergy_nb.plan.operators.catalogue import TAP

__all__ = ["SharedStreams"]

SHARER_ENDED: Final = -1  # epoch in an acknowledgement: the sharer has ended
DEAD: Final = 1 << 60  # later than any epoch: the origin has died


class SharedStreams(GraphChanger):
    """Reports moved components to the origins of sharers, and follows those that the applications of a peer share."""

    def __init__(
        self,
        changes: GraphChanges,
        moves: Migrations,
        # function of (application, address of a dead peer) that has an application of this peer wait for it, or ends
        # the application
        handle_death: Callable[[str, str], bool],
    ) -> None:
        super().__init__(changes)
        self.moves = moves
        self.handle_death = handle_death
        self._sharers: dict[str, dict[str, Sharer]] = {}  # owner that this peer leads to its sharers
        self._reported: dict[str, tuple[Producer, ...]] = {}  # owner to the components in its last report
        self._unacknowledged: dict[tuple[str, str], ProducersMoved] = {}  # (sharer, owner) to the report
        self._applied: dict[str, dict[str, int]] = {}  # sharer that this peer leads, then owner, to its reported epoch
        # sharer that this peer leads, then owner, to the sender and the report that cannot be applied yet
        self._deferred: dict[str, dict[str, tuple[str, ProducersMoved]]] = {}
        self._telling: set[tuple[str, str]] = set()  # sharer led anew, and an owner whose leader has not reported since
        changes.on_published.append(self._published)
        changes.on_change_ended.append(self.resume)
        self.handlers: dict[type[Message], Callable[[str, Any], None]] = {
            ProducersMoved: self._producers_moved,
            ProducersFollowed: self._acknowledged,
            SharerLed: self._sharer_led,
        }

    # -- at the origin of the owner ----------------------------------------------------------------------------------

    def admit(self, graph: Graph) -> tuple[str, str]:
        """Register a sharer of applications of this peer; if refused, return a tap and the reason, else empty texts."""
        for tap, producers in graph.shared.items():
            for producer in producers:
                request = self.led.get(producer.application) if producer.origin == self.peer.address else None
                if request is not None and request.state in CHANGING:
                    change = self.moves.present_change(request)
                    return tap, f"{tap}: {producer.application}, which makes it, is changing: {change}"
                if request is not None and present_producer(request.graph, producer.operator) != producer:
                    return tap, f"{tap}: {producer.operator} of {producer.application} has moved"
                if request is not None and request.on_hold:
                    return tap, f"{tap}: {producer.application}, which makes it, is on hold"
        for application in sorted(
            {producer.application for producer in graph.producers if producer.origin == self.peer.address}
        ):
            if application in self.led:
                self._reported[application] = self._producers(application)
                self._sharers.setdefault(application, {})[graph.application] = Sharer.of(graph, application)
        return "", ""

    def sharers(self, application: str) -> Collection[str]:
        """Applications that read streams of an application that this peer leads."""
        return self._sharers.get(application, {}).keys()

    def sharers_of(self, application: str, operator: str) -> tuple[str, ...]:
        """Applications that use a component of an application that this peer leads."""
        sharers = self._sharers.get(application, {})
        return tuple(sorted(name for name, each in sharers.items() if operator in each.operators))

    def sharer_ended(self, application: str, attempt: int, sender: str) -> None:
        """Unregister a sharer that its origin has ended."""
        for owner, sharers in self._sharers.items():
            found = sharers.get(application)
            if found is not None and found.attempt <= attempt and found.origin == sender:
                del sharers[application]
                self._unacknowledged.pop((application, owner), None)

    def ended(self, graph: Graph) -> None:
        """End the sharing of an application that has ended; its sharers go on with its components."""
        application = graph.application
        self._deferred.pop(application, None)
        self._applied.pop(application, None)
        self._reported.pop(application, None)
        for name, each in sorted(self._sharers.pop(application, {}).items()):
            self._report(each, ProducersMoved(name, each.attempt, application, graph.epoch + 1, (), ended=True))
        for address in sorted(graph.owner_origins - {self.peer.address, *graph.addresses}):
            self.peer.send(address, End(application, graph.attempt, "it has ended"))
        self.sharer_ended(application, graph.attempt, self.peer.address)

    def hand_over(self, application: str) -> None:
        """Forget the sharers of an application that another peer leads now."""
        for sharer in self._sharers.pop(application, {}):
            self._unacknowledged.pop((sharer, application), None)
        self._reported.pop(application, None)
        self._deferred.pop(application, None)
        self._applied.pop(application, None)

    def lead(self, application: str, sharers: Mapping[str, Sharer]) -> None:
        """Lead an application with these sharers from now on: its next graph is reported to them."""
        if sharers:
            self._sharers[application] = dict(sharers)
        for owner in sorted({each.application for each in self.led[application].graph.producers if each.origin}):
            self._telling.add((application, owner))
            self._tell(application, owner, self.peer.now + self.config.silence)

    def _tell(self, application: str, owner: str, until: float) -> None:
        """Tell the leader of an owner who leads a sharer now, once every interval until it reports."""
        if (application, owner) not in self._telling:
            return
        graph = self.led[application].graph if application in self.led else None
        if graph is None or self.peer.now > until:
            self._telling.discard((application, owner))
            return
        led = next(each for each in graph.producers if each.application == owner)
        self.peer.send(self._leader(led.origin, led.successor), SharerLed(graph))
        self.peer.after(RESEND_INTERVAL, self._tell, application, owner, until)

    def _sharer_led(self, sender: str, message: SharerLed) -> None:
        """Register the peer that leads a sharer now, and report the present components to it."""
        graph = message.graph
        for owner in sorted({each.application for each in graph.producers}.intersection(self.led)):
            known = self._sharers.get(owner, {}).get(graph.application)
            leads = known is None or sender in (known.origin, known.successor)
            if (
                graph.origin == sender
                and leads
                and (known is None or (known.attempt, known.epoch) <= (graph.attempt, graph.epoch))
            ):
                sharer = self._sharers.setdefault(owner, {})[graph.application] = Sharer.of(graph, owner)
                producers, epoch = self._producers(owner), self.led[owner].graph.epoch
                moved = ProducersMoved(graph.application, graph.attempt, owner, epoch, producers, ended=False)
                self._report(sharer, moved)

    def _producers(self, application: str) -> tuple[Producer, ...]:
        """The components of an application that others may use, with their present peers and copies."""
        graph = self.led[application].graph
        operators = Plan.from_bytes(graph.plan).operators.items()
        return tuple(present_producer(graph, name) for name, each in operators if each.kind not in ("sink", TAP))

    def _published(self, application: str) -> None:
        """Report the present components of an application, whose graph has changed, to its sharers."""
        sharers = self._sharers.get(application)
        producers = self._producers(application) if sharers else ()
        if not sharers or producers == self._reported.get(application):
            return
        self._reported[application] = producers
        epoch = self.led[application].graph.epoch
        for name, each in sorted(sharers.items()):
            self._report(each, ProducersMoved(name, each.attempt, application, epoch, producers, ended=False))

    def _report(self, sharer: Sharer, message: ProducersMoved) -> None:
        key = message.application, message.owner
        self._unacknowledged[key] = message
        self._send_until_acknowledged(sharer, key, message, self.peer.now + self.config.silence)

    def _send_until_acknowledged(
        self, sharer: Sharer, key: tuple[str, str], message: ProducersMoved, until: float
    ) -> None:
        """Send a report now and once every interval, until it is acknowledged, the receiver ends, or time is up."""
        if self._unacknowledged.get(key) is not message:
            return
        if self.peer.now > until or not self._may_be_led(sharer.origin, sharer.successor):
            del self._unacknowledged[key]
            self._sharers.get(message.owner, {}).pop(message.application, None)
            return
        self.peer.send(self._leader(sharer.origin, sharer.successor), message)
        self.peer.after(RESEND_INTERVAL, self._send_until_acknowledged, sharer, key, message, until)

    def _leader(self, origin: str, successor: str) -> str:
        """Address of the peer that leads an application or will lead it: its origin, or the successor of a dead one."""
        return successor if successor and self.membership.is_dead(origin) else origin

    def _may_be_led(self, origin: str, successor: str) -> bool:
        """Whether the process of the origin of an application runs, or that of a peer that leads it on."""
        ended = self.membership.has_ended
        return bool(origin) and (not ended(origin) or (bool(successor) and not ended(successor)))

    def _acknowledged(self, sender: str, message: ProducersFollowed) -> None:
        key = message.application, message.owner
        sent = self._unacknowledged.get(key)
        sharer = self._sharers.get(message.owner, {}).get(message.application)
        if sharer is not None and sender not in (sharer.origin, sharer.successor):
            return  # it does not lead the sharer
        if sent is not None and sent.attempt == message.attempt and message.epoch in (SHARER_ENDED, sent.epoch):
            del self._unacknowledged[key]
        sharers = self._sharers.get(message.owner, {})
        found = sharers.get(message.application)
        theirs = found is not None and found.attempt == message.attempt and found.origin == sender
        if message.epoch == SHARER_ENDED and theirs:
            del sharers[message.application]

    # -- at the origin of the sharer ---------------------------------------------------------------------------------

    def _producers_moved(self, sender: str, message: ProducersMoved) -> None:
        application, owner = message.application, message.owner
        self._telling.discard((application, owner))
        request, member = self.led.get(application), self.changes.members.get(application)
        if request is None and member is not None and not member.ended:
            return  # another peer leads it, or this one soon will
        if request is None or request.graph.attempt != message.attempt:
            self._answer(sender, message, SHARER_ENDED)
            return
        if message.epoch < self._applied.setdefault(application, {}).get(owner, 0):
            return
        self._applied[application][owner] = message.epoch
        graph = _next_graph(request.graph, message)
        if graph is None:
            self._answer(sender, message, message.epoch)
            return
        known = {producer[:4] for producer in request.graph.producers}
        moves = [producer for producer in graph.producers if producer[:4] not in known]
        if request.state is State.MOVING and moves:
            self.moves.abort(application, f"{moves[0].operator} of {owner}, which it shares, is at {moves[0].peer} now")
            if application not in self.led:
                return
            graph = _next_graph(request.graph, message)
        if request.state not in (State.RUNNING, State.PAUSED) or graph is None:
            self._deferred.setdefault(application, {})[owner] = sender, message
            return
        self._follow(application, graph)
        self._answer(sender, message, message.epoch)
        lost = {producer.peer for producer in graph.producers if self.membership.is_dead(producer.peer)}
        if lost or request.state is State.PAUSED:
            self.handle_death(application, min(lost, default=graph.producers[0].peer))

    def _answer(self, sender: str, message: ProducersMoved, epoch: int) -> None:
        if sender:
            self.peer.send(sender, ProducersFollowed(message.application, message.attempt, message.owner, epoch))

    def _follow(self, application: str, graph: Graph) -> None:
        """Replace and publish the graph of an application of this peer, whose shared streams have moved."""
        before = self.led[application].graph
        self.changes.change(application, graph)
        self.changes.publish(application, set(before.addresses) - set(graph.addresses))
        was = {producer[:2]: producer.peer for producer in before.producers}
        peers = self.led[application].roles.peers
        producers = {tap: [producer[:3] for producer in made] for tap, made in graph.shared.items()}
        for producer in graph.producers:
            at = was.get(producer[:2], producer.peer)
            if at != producer.peer:
                self.peer.record(
                    SharedStreamMoved,
                    application,
                    operator=producer.operator,
                    of=producer.application,
                    at=at,
                    to=producer.peer,
                    peers=peers,
                    producers=producers,
                )
        if graph.roles.peers != before.roles.peers:
            self.peer.instruct(self.led[application].report())

    def resume(self, application: str) -> None:
        """Apply the reports that were deferred while the graph of an application was changing."""
        for sender, message in self._deferred.pop(application, {}).values():
            self._producers_moved(sender, message)

    def died(self, application: str, address: str) -> None:
        """Treat the owners of shared streams as ended if the peer that leads them has ended, or stays silent."""
        graph = self.led[application].graph
        of = {each for each in graph.producers if address in (each.origin, each.successor)}
        led = {each.application for each in of if self._may_be_led(each.origin, each.successor)}
        for owner, origin in sorted(
            {(each.application, each.origin) for each in of if self.membership.is_dead(each.origin)}
        ):
            if owner in led:
                self.peer.after(self.config.silence, self._end_owner, application, graph.attempt, owner, origin)
            else:
                self._end_owner(application, graph.attempt, owner, "")

    def _end_owner(self, application: str, attempt: int, owner: str, origin: str) -> None:
        """Treat an owner as ended, unless its silent ``origin`` has returned, or another peer leads it."""
        request = self.led.get(application)
        if request is None or request.graph.attempt != attempt or (origin and not self.membership.is_dead(origin)):
            return
        if not origin or any(each.origin == origin for each in request.graph.producers if each.application == owner):
            self._producers_moved("", ProducersMoved(application, attempt, owner, DEAD, (), ended=True))

    def awaited(self, application: str) -> dict[str, list[str]] | None:
        """The silent peers of components that an application of this peer shares, to the names of these.

        None if the process of such a peer has ended, and the owner of the component cannot replace it.
        """
        ended = self.membership.has_ended
        found: dict[str, list[str]] = {}
        for producer in self.led[application].graph.producers:
            if self.membership.is_dead(producer.peer):
                led = self._may_be_led(producer.origin, producer.successor)
                if ended(producer.peer) and (not led or all(map(ended, producer.copies))):
                    return None
                found.setdefault(producer.peer, []).append(f"{producer.operator} of {producer.application}")
        return found


def _next_graph(graph: Graph, message: ProducersMoved) -> Graph | None:
    """The next graph of a sharer after a report; None if the report changes nothing."""
    now = {producer[:2]: producer for producer in message.producers}

    def follow(producer: Producer) -> Producer:
        if producer.application != message.owner:
            return producer
        return producer.orphaned() if message.ended else now.get(producer[:2], producer)

    shared = {tap: tuple(sorted(follow(producer) for producer in producers)) for tap, producers in graph.shared.items()}
    if all(set(shared[tap]) == set(producers) for tap, producers in graph.shared.items()):
        return None
    peers = dict(graph.roles.peers)
    plan = Plan.from_bytes(graph.plan)
    for tap, producers in shared.items():
        before = producer_of(graph, plan, tap)
        if before is not None:
            peers[tap] = next(producer.peer for producer in producers if producer[:2] == before[:2])
    return graph.changed(msgspec.structs.replace(graph.roles, peers=peers), shared=shared)
