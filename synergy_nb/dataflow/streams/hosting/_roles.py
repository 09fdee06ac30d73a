"""How a peer carries out a deployment: which components become active, turn into copies, or leave. No IO, no clock.

Theory of operation
-------------------
When a peer receives a deployment in which a component has a later epoch, it reads from the component's new peer. It
refuses frames of earlier epochs, apart from those on their way after a move. What the peer is for each component is a
:class:`~synergy_nb.dataflow.streams.hosting._held_roles.HeldRole`, and this module makes most of its transitions;
copies and followers are in :mod:`~synergy_nb.dataflow.streams.hosting._standbys`.

A copy that becomes active resumes from what it has: a backup restores its snapshot and reads the inputs after it again;
a follower has already reached the point of the component that it replaces. An active replica that is rebuilt begins
from a copy of another replica, whose output so far becomes its own; from there on it decides for itself, in a stream of
its own. It counts as ready when all of its producers have its subscriptions, so that they retain what it has yet to
read; until then the other replica is not durable beyond the copy. Nobody follows what another engine executes:
its copies know the progress of the engine, and the one that becomes active has the engine resume from there. Where
there are several inputs, a follower first hears their order from the component that it replaces, and a backup asks
every peer that may depend on it, see :mod:`~synergy_nb.dataflow.streams.hosting._order_recovery`.

A component that is active here in an earlier epoch than that of the deployment *goes on*: another peer was to take over
from it, and that was undone (:mod:`~synergy_nb.lifecycle.changes.takeover`). It keeps its state, its output, its inputs
and its order, and subscribes anew, as the reader that it is now. Had this peer been anything else meanwhile, it would
have heard of that, and nothing of the component would be active here.

A deployment is carried out in one order (:meth:`PeerRoles.converge`), and each step needs the one before:

1. What has no role here any more leaves, and tells its order: a component that stays must not read from one that goes.
2. Components and copies take their places, with the inputs that they have now.
3. Recoveries ask the peers of this deployment: one that they waited for may have died with the last.
4. Components learn of their producers and readers, since all that may read each other are here now.
5. Questions of others are answered last: an answer promises that nothing here depends any more on what was replaced
   (``test_order_recovery``, ``test_fault_campaign``).
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from synergy_nb.dataflow.deployments import FOLDER, Assignment, Deployment, Role
from synergy_nb.dataflow.streams.component.component import Component
from synergy_nb.dataflow.streams.hosting._expected_readers import expect_readers
from synergy_nb.dataflow.streams.hosting._held_roles import HeldRole, RoleState
from synergy_nb.dataflow.streams.hosting._order_recovery import LAST_ORDER_S, Recovery, still_repeats
from synergy_nb.dataflow.streams.hosting.copies import Copy, Readiness
from synergy_nb.dataflow.streams.hosting.effects import Fact, FactKind
from synergy_nb.dataflow.streams.log.merge import ASKING

if TYPE_CHECKING:
    from synergy_nb.dataflow.streams.hosting._creation import Creation
    from synergy_nb.dataflow.streams.hosting._exchange import Exchange
    from synergy_nb.dataflow.streams.hosting._held_roles import HeldRoles
    from synergy_nb.dataflow.streams.hosting._hosted_components import HostedComponents
    from synergy_nb.dataflow.streams.hosting._known_orders import Orders
    from synergy_nb.dataflow.streams.hosting._order_recovery import OrderRecovery
    from synergy_nb.dataflow.streams.hosting._outbox import Key, Outbox
    from synergy_nb.dataflow.streams.hosting._snapshots import Snapshots
    from synergy_nb.dataflow.streams.hosting._standbys import Standbys
    from synergy_nb.dataflow.streams.log.log import Limits

LEFT: Final = "it has had no snapshot since the component left it"


class PeerRoles:
    """Carries out deployments on one peer."""

    def __init__(
        self,
        peer: str,  # address of the peer
        # outbox, hosted, held: effects of the peer, its components and its roles
        outbox: Outbox,
        hosted: HostedComponents,
        held: HeldRoles,
        # exchange, snapshots, orders: subscriptions of the peer, snapshots of its components, and the orders of inputs
        # that it knows
        exchange: Exchange,
        snapshots: Snapshots,
        orders: Orders,
        # creation, standbys, recovery: makers of components and keepers of copies, and the questions about orders
        creation: Creation,
        standbys: Standbys,
        recovery: OrderRecovery,
        limits: Limits,  # limits of each log, bytes
    ) -> None:
        self._peer = peer
        self._outbox = outbox
        self._hosted = hosted
        self._held = held
        self._exchange = exchange
        self._snapshots = snapshots
        self._orders = orders
        self._creation = creation
        self._standbys = standbys
        self._recovery = recovery
        self._limits = limits

    # -- deployments ---------------------------------------------------------------------------------------------

    def converge(self, deployment: Deployment, now: float, replaced: Collection[str] = ()) -> None:
        """Carry out a deployment on this peer, in which these components have been replaced."""
        # Components from whose copies here others start: their copies stay until then
        sources = {each.state_from for each in deployment.assignments.values() if each.active == self._peer} - {""}
        self._leave(deployment, sources)
        followed = self._take_places(deployment, sources, now)
        self._recovery.begin(deployment, now)
        self._readdress(deployment, followed, replaced, now)
        self._recovery.forget_left(deployment)
        self._recovery.reconsider(ended="" if deployment.assignments else deployment.application)

    def _leave(self, deployment: Deployment, sources: Collection[str]) -> None:
        """Remove the components and copies that have no role here any more, except copies that others start from."""
        application, assignments = deployment.application, deployment.assignments
        self._creation.forget(application, assignments)
        self._held.leave_failed(application, assignments)
        for key in [key for key in {**self._hosted.found, **self._held.copies} if key[0] == application]:
            component = self._hosted.found.get(key)
            if self._stays(key, component, deployment) or (key[1] in sources and component is None):
                continue
            assignment = assignments.get(key[1])
            if component is not None:
                if assignment is None:
                    self._exchange.notify_sharers(component, "has ended")
                else:
                    self._recovery.tell_order(component, assignment)
            if component is not None and assignment is not None and deployment.role(key[1], self._peer) is Role.BACKUP:
                self._back_up(key, component, assignment)
            else:
                self._drop(key)

    def _stays(self, key: Key, component: Component | None, deployment: Deployment) -> bool:
        """Whether the component or copy here retains some role."""
        role = deployment.role(key[1], self._peer)
        if role is None or component is None or component.role is Role.FOLLOWER:
            return role is not None
        assignment = deployment.assignments[key[1]]
        return role is Role.ACTIVE and component.epoch <= assignment.epoch and component.rebuilt == assignment.rebuilt

    def _take_places(self, deployment: Deployment, sources: Collection[str], now: float) -> set[Key]:
        """Give each component its role here and its inputs; return those that replace one that they have followed."""
        followed: set[Key] = set()
        for operator, assignment in deployment.assignments.items():
            key, role = (deployment.application, operator), deployment.role(operator, self._peer)
            if role is Role.ACTIVE:
                if self._activate(key, assignment):
                    followed.add(key)
            elif role is not None and operator not in sources:
                if self._standbys.belongs_to_another_move(key, assignment, role):
                    self._drop(key)
                self._standbys.update(key, assignment, role, now)
            self._exchange.change_inputs(key, assignment)
        for operator in deployment.assignments:
            self._outbox.touch(deployment.application, operator)
        return followed

    def _readdress(
        self, deployment: Deployment, followed: Collection[Key], replaced: Collection[str], now: float
    ) -> None:
        """Have all components here read from the present producers, and send to the present readers."""
        application = deployment.application
        for key, component in tuple(self._hosted.found.items()):
            if key[0] == application:
                self._exchange.readdress(component, now, replaced)
                self._serve(component, deployment, now, followed=key in followed)
            elif any(feed.application == application for feed in component.feeds.values()):
                self._exchange.readdress(component, now)

    def _serve(self, component: Component, deployment: Deployment, now: float, *, followed: bool) -> None:
        """Set for whom a component works: for sharers and, if it is active, for its readers and copies."""
        operator = component.operator
        component.set_sharers_limit(deployment.limits.get(operator, math.inf))
        if component.role is not Role.ACTIVE:
            return
        expect_readers(component, deployment, self._limits.results)
        if followed:  # its readers have not subscribed yet; asking takes the way to them and back
            component.log.send_unasked()
        assignment = deployment.assignments[operator]
        self._snapshots.keep(component, now, keeps=assignment.keeps)
        self._snapshots.greet(component, assignment.follower, now)
        if component.logic is None and deployment.running:
            self._hosted.open(component)
        self._exchange.flush(component, now)

    # -- leaving ---------------------------------------------------------------------------------------------------

    def _drop(self, key: Key) -> None:
        """Hold nothing of a component any more."""
        component = self._hosted.remove(key)
        self._outbox.touch(*key)
        self._held.leave(key)
        self._hosted.close(key)
        if component is not None:
            self._snapshots.forget(component)
            component.remove()
            self._exchange.leave(component)

    def _back_up(self, key: Key, component: Component, assignment: Assignment) -> None:
        """Make the backup of a component that leaves this peer, from the snapshot and the output that are here."""
        kept = self._snapshots.kept(component)  # before it is dropped, with its snapshots
        ends = component.role is Role.ACTIVE and not component.failed and assignment.epoch == component.epoch + 1
        self._drop(key)
        if not ends or still_repeats(component) or (kept is None and component.feeds):
            self._outbox.effect(Fact(FactKind.COPIES_BEHIND, *key, LEFT, (self._peer,)))
            return
        copy = Copy(component.output, self._limits)
        self._held.of(key).back_up(copy)
        component.log.retain_all(retains=True)
        copy.resume(component.log)
        if kept is not None:
            copy.keep(*kept)
        self._orders.add(component.reading.made)

    # -- becoming active -------------------------------------------------------------------------------------------

    def _activate(self, key: Key, assignment: Assignment) -> bool:
        """Make a component active here; return whether it replaces one that it has followed until now."""
        component = self._hosted.found.get(key)
        if component is not None and component.role is Role.ACTIVE:
            if component.epoch < assignment.epoch:  # it goes on, see above
                component.activate(assignment.epoch)
                self._exchange.resubscribe(component)
            component.set_copy_holders(assignment)
            return False
        held = self._held.of(key)
        moved = held.copy is not None and bool(held.copy.move)  # a source moves without a follower that executes
        rebuilt = component is None and held.copy is None and bool(assignment.state_from)
        told = held.kept and FOLDER in assignment.synchronized
        if component is None:
            origin = (key[0], assignment.state_from) if rebuilt else key
            component = self._creation.make(key, assignment, Role.ACTIVE, self._held.copy(origin))
            if component is not None and held.copy is not None and not held.kept:
                component.follow_backup()
            if rebuilt and self._held.copy(origin) is not None:
                self._held.leave(origin)
        if component is None:
            held.lead(RoleState.FAILED)
            return False
        followed = component.role is Role.FOLLOWER
        component.activate(assignment.epoch)
        component.set_copy_holders(assignment)
        if told:  # readers have nothing that the folder did not have before
            self._recovery.tell_kept(component)
        self._exchange.resubscribe(component)  # what it sent as a follower may be lost or late
        self._lead(held, component, assignment, rebuilt=rebuilt, wait_s=LAST_ORDER_S if followed else 0.0)
        return followed or moved

    def _lead(
        self, held: HeldRole, component: Component, assignment: Assignment, *, rebuilt: bool, wait_s: float
    ) -> None:
        """Enter the state in which a component becomes active."""
        if rebuilt:
            held.lead(RoleState.REBUILDING)
        elif assignment.epoch and component.ordered and not component.reading.complete:
            component.reading.wait()
            held.lead(RoleState.REPLAYING, Recovery(component, wait_s))
        elif assignment.epoch:
            component.reading.decide()
            if component.alignment.endless:
                held.lead(RoleState.ALIGNED, Recovery(component, LAST_ORDER_S))
            else:
                held.lead(RoleState.ACTIVE)
            self._outbox.effect(Fact(FactKind.TAKEN_OVER, component.application, component.operator))
        else:
            held.lead(RoleState.ACTIVE)

    # -- reports and time ------------------------------------------------------------------------------------------

    def report(self, key: Key, held: HeldRole, now: float) -> None:
        """Report that a copy is ready to take over, or that a rebuilt replica is subscribed to all of its inputs."""
        if held.state is RoleState.REBUILDING:
            component = self._hosted.found[key]
            if not component.failed and all(port.state is not ASKING for port in component.ports.values()):
                held.settle()
                self._outbox.effect(Fact(FactKind.COPY_READY, *key))
        elif held.copy is not None and held.copy.readiness is Readiness.CURRENT:
            self._standbys.report_ready(key, held.copy, now)

    @staticmethod
    def due(held: HeldRole) -> float:
        """Return the time in seconds at which :meth:`tick` has work for the copy or the recovery of a component."""
        due = math.inf if held.copy is None else held.copy.due
        return due if held.recovery is None else min(due, held.recovery.retry_at)

    def tick(self, key: Key, now: float) -> None:
        """Subscribe, acknowledge and ask again for a copy or a recovery, where that is due."""
        held = self._held.found.get(key)
        if held is not None and held.copy is not None:
            self._standbys.tick(key, held.copy, now)
        if held is not None and held.recovery is not None and held.recovery.retry_at <= now:
            self._recovery.ask(held.recovery, now)
