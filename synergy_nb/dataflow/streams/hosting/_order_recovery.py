"""Recovery of the order in which a component with several inputs read these before a take-over. No IO, no clock.

Theory of operation
-------------------
A peer knows the orders that came with the chunks that anything on it depends on
(:mod:`~synergy_nb.dataflow.streams.hosting._known_orders`).

A backup that takes over from a dead component asks all peers of the application. Each answers once it knows the
deployment named in the question: from its answer on it refuses frames of the replaced component, so the answer covers
all that anybody will ever depend on. Peers of applications that share the streams answer once they read from the
present components. With a new deployment all are asked anew, as a peer has died that may have passed determinants on to
others.

After a move nobody has to be asked, as the old peer lives: it stops, and states the whole order in which it has read
(:class:`.log.frames.LastOrder`). All peers are asked only if that does not arrive in time, as
where the old peer itself still repeated a component before it. A component that reads its inputs aligned
(:mod:`~synergy_nb.dataflow.streams.component._alignment`) does not wait for the answers; from them it learns how far it
repeats what others have received.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from synergy_nb.dataflow.deployments import Assignment, Deployment, Role
from synergy_nb.dataflow.streams.component.component import Component
from synergy_nb.dataflow.streams.hosting.copies import Copy
from synergy_nb.dataflow.streams.hosting.effects import Fact, FactKind
from synergy_nb.dataflow.streams.log.frames import Determinants, LastOrder, Recall
from synergy_nb.dataflow.streams.log.values import ORIGIN, ComponentStream, Determinant

if TYPE_CHECKING:
    from synergy_nb.dataflow.streams.hosting._exchange import Exchange
    from synergy_nb.dataflow.streams.hosting._held_roles import HeldRoles
    from synergy_nb.dataflow.streams.hosting._hosted_components import HostedComponents
    from synergy_nb.dataflow.streams.hosting._known_deployments import KnownDeployments
    from synergy_nb.dataflow.streams.hosting._known_orders import Orders
    from synergy_nb.dataflow.streams.hosting._outbox import Outbox
    from synergy_nb.dataflow.streams.log.values import Point

RECALL_S: Final = 0.1  # seconds until the peers that have not answered are asked again
LAST_ORDER_S: Final = 0.5  # seconds that a former follower waits for the order of the component that it replaces


def arrived(components: Iterable[Component], copy: Copy | None, stream: ComponentStream) -> Point:
    """Return the point up to which a stream has arrived at a peer: at readers among its components, and at its copy."""
    found = copy.merge.received if copy is not None and copy.merge.joined else ORIGIN
    for component in components:
        for number, port in component.ports.items():
            if component.feeds[number] == (stream.application, stream.operator) and port.joined:
                found = found.joined(port.received)
    return found


def still_repeats(component: Component) -> bool:
    """Whether a component repeats what one before it had emitted, so that others depend on more than it has read."""
    reading = component.reading
    return component.alignment.behind or not reading.free or reading.next_run(component.ports) is not None


class Recovery:
    """The answers that a component waits for before it reads freely."""

    def __init__(self, component: Component, wait_s: float) -> None:
        self.component = component
        self._wait_s = wait_s  # seconds until it asks for the first time
        self.missing: set[str] = set()  # addresses of the peers that have not answered
        self.found: list[Determinant] = []  # determinants in the answers so far
        self.end = ORIGIN  # point up to which the stream has arrived at any of the peers that have answered
        self.retry_at = 0.0  # time in seconds at which the missing peers are asked again
        self._deployment: Deployment | None = None
        self._question = 0

    def begin(self, deployment: Deployment, now: float) -> None:
        """Expect the answers of all peers of a deployment, which may know the order."""
        self._deployment = deployment
        self._question += 1
        self.missing = set(deployment.peers)
        self.found.clear()
        self.retry_at = now + self._wait_s
        self._wait_s = 0.0

    def recall(self, now: float) -> tuple[Recall, list[str]]:
        """Return the question, and the peers to ask now."""
        self.retry_at = now + RECALL_S
        known = self._deployment
        if known is None:
            return Recall(self.component.output, 0), []
        epochs = {operator: assignment.epoch for operator, assignment in known.assignments.items() if assignment.epoch}
        question = Recall(self.component.output, known.version, self._question, epochs, known.requires)
        return question, sorted(self.missing)

    def answer(self, sender: str, answer: Determinants) -> bool:
        """Record an answer; True if it was the last missing one."""
        known = self._deployment
        if known is None or answer.stream != self.component.output.stream or answer.version != known.version:
            return False
        if answer.question != self._question or sender not in self.missing:
            return False
        self.missing.remove(sender)
        self.found += answer.found
        self.end = self.end.joined(answer.end)
        return not self.missing


class OrderRecovery:
    """The questions of one peer about the order of inputs, and its answers to those of others."""

    def __init__(
        self,
        peer: str,  # address of the peer
        # outbox, known, hosted, held: effects of the peer, deployments that it knows, its components and its roles
        outbox: Outbox,
        known: KnownDeployments,
        hosted: HostedComponents,
        held: HeldRoles,
        # exchange, orders: subscriptions of the peer, and the orders of inputs that it knows
        exchange: Exchange,
        orders: Orders,
    ) -> None:
        self._peer = peer
        self._outbox = outbox
        self._known = known
        self._hosted = hosted
        self._held = held
        self._exchange = exchange
        self._orders = orders
        self._unanswered: dict[ComponentStream, tuple[str, Recall]] = {}  # questions that cannot be answered yet

    # -- answers ---------------------------------------------------------------------------------------------------

    def recall(self, sender: str, recall: Recall) -> None:
        """Answer a component that takes over with all known determinants of its stream.

        If the deployment is not known here yet, the answer is sent as soon as it is.
        """
        stream = recall.output.stream
        known = self._asked_about(recall)
        if known is None:
            return  # the question is repeated
        self._unanswered[stream] = sender, recall
        if not self._may_answer(recall, known):
            return
        del self._unanswered[stream]
        self._exchange.refuse_older(stream)
        found = self._orders.of(stream)
        copy = self._held.copy((recall.output.application, recall.output.operator))
        if copy is not None and copy.state is not None:
            start = copy.state.end
            found = (*found, Determinant(stream, start, start, copy.state.order, ORIGIN))
        end = arrived(self._hosted.found.values(), copy, stream)
        self._outbox.send(sender, Determinants(stream, known.version, found, recall.question, end))

    def _asked_about(self, recall: Recall) -> Deployment | None:
        """Return the deployment that a question is about, as far as this peer will know it; None if it may come."""
        application = recall.output.stream.application
        known = self._known.found.get(application)
        left = known is None or (known.version < recall.version and self._peer not in known.peers)
        if left and (recall.requires or self._known.epochs_used(application)):
            return Deployment(application, recall.version)  # only a stream of it is shared here: no more may be heard
        return known

    def _may_answer(self, recall: Recall, known: Deployment) -> bool:
        """Whether nothing here will depend any more on what was replaced, which an answer promises."""
        if known.version < recall.version:
            return False
        using = self._known.epochs_used(known.application)
        if any(each.get(operator, epoch) < epoch for each in using for operator, epoch in recall.epochs.items()):
            return False  # its shared input may still come from a replaced component
        required = (*known.requires.items(), *recall.requires.items())
        return all(name not in self._known.found or self._known.version(name) >= version for name, version in required)

    def reconsider(self, ended: str = "") -> None:
        """Answer the questions that waited for a deployment; forget those about an application that has ended."""
        self._unanswered = {
            stream: question for stream, question in self._unanswered.items() if stream.application != ended
        }
        for sender, question in tuple(self._unanswered.values()):
            self.recall(sender, question)

    def forget(self, deployment: Deployment) -> None:
        """Forget the determinants of the streams that an application shared which ended here."""
        for application in deployment.producer_epochs:
            known = self._known.found.get(application)
            if (known is None or self._peer not in known.peers) and not self._known.epochs_used(application):
                self._orders.forget(application)

    def forget_left(self, deployment: Deployment) -> None:
        """Forget the determinants of an application that this peer has left.

        It is not asked about them any more, so they may become wrong.
        """
        if self._peer not in deployment.peers and not self._known.epochs_used(deployment.application):
            self._orders.forget(deployment.application)

    def tell_order(self, component: Component, assignment: Assignment) -> None:
        """Tell the peer to which a component has moved from here in which order it has read its inputs.

        Not while the component here repeats what one before it had emitted: others depend on more than it has read.
        """
        if assignment.epoch != component.epoch + 1 or component.failed:
            return
        decides = component.ordered or component.alignment.holds
        if component.role is Role.ACTIVE and decides and not still_repeats(component):
            order = LastOrder(component.output, assignment.active, component.log.end, tuple(component.reading.made))
            # Over the readers, too: one of them may be near the new peer, which pauses until it hears this
            readers = {cursor.reader.peer for cursor in component.log.cursors.values()}
            for peer in sorted({assignment.active, *readers} - {self._peer}):
                self._outbox.send(peer, order)

    # -- questions -------------------------------------------------------------------------------------------------

    def begin(self, deployment: Deployment, now: float) -> None:
        """Ask all peers of a deployment about the components that have taken over here."""
        for key, recovery in self._held.recoveries.items():
            if key[0] == deployment.application:
                recovery.begin(deployment, now)

    def ask(self, recovery: Recovery, now: float) -> None:
        """Ask the peers that have not answered again."""
        question, peers = recovery.recall(now)
        for peer in peers:
            self._outbox.send(peer, question)

    def last_order(self, told: LastOrder) -> None:
        """Receive the whole order of the component that one of this peer replaces, or pass it on."""
        key = told.output.application, told.output.operator
        if told.to != self._peer:
            self._outbox.send(told.to, told)
            return
        component = self._hosted.found.get(key)
        if component is None or (component.epoch - 1, component.rebuilt) != (told.output.epoch, told.output.rebuilt):
            return
        held = self._held.of(key)
        if component.alignment.endless:
            component.alignment.repeat(told.end)
            if held.recovery is not None:
                held.settle()
            return
        if component.role is Role.ACTIVE and held.recovery is None:
            return
        self._outbox.touch(*key)
        if component.reading.prescribe(told.found) or component.reading.known < told.end:
            return  # something of it has not arrived here; all peers are asked
        component.reading.complete_order()
        if held.recovery is not None:  # else it is still a follower, which replays nothing once it is active
            held.settle()
            self._outbox.effect(Fact(FactKind.TAKEN_OVER, *key))

    def tell_kept(self, component: Component) -> None:
        """Have a component that goes on from a folder read in the order that the folder has, which is all of it."""
        if component.ordered:
            reason = component.reading.prescribe(self._orders.of(component.output.stream))
            if reason:
                self._exchange.fail(component, reason)
            component.reading.complete_order()

    def determinants(self, sender: str, answer: Determinants) -> None:
        """Receive an answer about the order of inputs."""
        key = answer.stream.application, answer.stream.operator
        self._outbox.touch(*key)
        held = self._held.found.get(key)
        recovery = None if held is None else held.recovery
        if held is None or recovery is None or not recovery.answer(sender, answer):
            return
        held.settle()
        component = recovery.component
        if component.reading.free:  # it is aligned, and did not need the order
            component.alignment.repeat(recovery.end)
            return
        reason = component.reading.prescribe(recovery.found)
        if reason:
            self._exchange.fail(component, reason)
        component.reading.decide()
        self._outbox.effect(Fact(FactKind.TAKEN_OVER, *key))
