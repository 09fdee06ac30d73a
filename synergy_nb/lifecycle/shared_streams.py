"""Streams that others share may move, or be taken over: their readers follow.

Theory of operation
-------------------
The origin of an application knows who shares its streams: their origins say so before they start
(:class:`~synergy_nb.lifecycle.messages.Share`), unless what they ask for has moved meanwhile. Whenever its
graph changes, it tells these origins where its components are, and who keeps copies of them (:class:`ProducersMoved`),
until they have heard (:class:`ProducersFollowed`). Each of them makes a graph of its own of that, and everybody who
takes part in it learns it: the readers read from the new place, and the peers of components and copies know who reads.

A peer dies that has a shared component: whoever shares it waits for the origin to say where it goes, as long as a lease
lasts. That origin ends, or dies: what others share of its application goes on where it is, without copies, and can
neither move nor be taken over.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

import msgspec

from synergy_nb.control.graph import Use
from synergy_nb.control.peer import Message, Peer
from synergy_nb.events import SharedStreamMoved
from synergy_nb.events.application_states import State
from synergy_nb.lifecycle.graph_changes import AGAIN, GraphChanges
from synergy_nb.lifecycle.members import deployment_of, producer_of
from synergy_nb.lifecycle.messages import End, Graph, ProducersFollowed, ProducersMoved, SessionConfig
from synergy_nb.lifecycle.migration import Migrations
from synergy_nb.lifecycle.request import Request
from synergy_nb.overlay.membership import Membership
from synergy_nb.plan import Plan
from synergy_nb.plan.catalogue import TAP

__all__ = ["SharedStreams"]

GONE: Final = -1  # epoch of an answer: who shares has ended
CHANGING: Final = (State.TAKING_OVER, State.MOVING)
DEAD: Final = 1 << 60  # later than any epoch: the origin has died


class _Sharer:
    """An application that shares streams of one that this peer leads."""

    __slots__ = ("attempt", "operators", "origin")

    def __init__(self, graph: Graph, application: str) -> None:
        self.attempt = graph.attempt
        self.origin = graph.origin
        self.operators = {use.operator for use in graph.uses if use.application == application}


class SharedStreams:
    """Who shares streams of the applications that a peer leads, and what becomes of the streams that these share.

    Parameters
    ----------
    peer, membership, changes
        Parts of the peer that sharing works with.
    config
        Times.
    owned
        Applications that it leads.
    moves
        Moves of the applications that it leads.
    lost
        Called with (application, attempt, reason) when an application that this peer leads cannot go on.
    """

    def __init__(
        self,
        peer: Peer,
        membership: Membership,
        changes: GraphChanges,
        config: SessionConfig,
        owned: Mapping[str, Request],
        moves: Migrations,
        lost: Callable[[str, int, str], None],
    ) -> None:
        self.peer = peer
        self.membership = membership
        self.changes = changes
        self.config = config
        self.owned = owned
        self.moves = moves
        self.lost = lost
        self._sharers: dict[str, dict[str, _Sharer]] = {}  # by application of this peer, who shares it
        self._told: dict[str, tuple[Use, ...]] = {}  # what they were told last
        self._unheeded: dict[
            tuple[str, str], ProducersMoved
        ] = {}  # by who shares and owner, what may not have been heard
        self._heard: dict[str, dict[str, int]] = {}  # by application of this peer and owner, the epoch of what it heard
        self._later: dict[
            str, dict[str, tuple[str, ProducersMoved]]
        ] = {}  # the same, what it heard too early, and of whom
        changes.on_published.append(self._published)
        changes.on_settled.append(self.resume)
        self.handlers: dict[type[Message], Callable[[str, Any], None]] = {
            ProducersMoved: self._elsewhere,
            ProducersFollowed: self._heeded,
        }

    # -- at the origin of what is shared -----------------------------------------------------------------------------

    def admit(self, graph: Graph) -> tuple[str, str]:
        """Take note of an application that shares streams of this peer's; a tap and why that cannot be, or nothing."""
        for tap, uses in graph.shared.items():
            for use in uses:
                owned = self.owned.get(use.application) if use.origin == self.peer.address else None
                if owned is not None and (owned.state in CHANGING or deployment_of(owned.graph, use.operator) != use):
                    return tap, f"{tap}: {use.operator} of {use.application} moves"
        for application in sorted({use.application for use in graph.uses if use.origin == self.peer.address}):
            if application in self.owned:
                self._told[application] = self._uses(application)
                self._sharers.setdefault(application, {})[graph.application] = _Sharer(graph, application)
        return "", ""

    def of(self, application: str, operator: str) -> tuple[str, ...]:
        """Applications that use a component of one that this peer leads."""
        sharers = self._sharers.get(application, {})
        return tuple(sorted(name for name, each in sharers.items() if operator in each.operators))

    def gone(self, application: str, attempt: int) -> None:
        """An application has ended, and shares nothing any more."""
        for owner, sharers in self._sharers.items():
            found = sharers.get(application)
            if found is not None and found.attempt <= attempt:
                del sharers[application]
                self._unheeded.pop((application, owner), None)

    def ended(self, graph: Graph) -> None:
        """An application of this peer has ended: it shares nothing, and what others share of it goes on by itself."""
        application = graph.application
        self._later.pop(application, None)
        self._heard.pop(application, None)
        self._told.pop(application, None)
        for name, each in sorted(self._sharers.pop(application, {}).items()):
            self._tell(each, ProducersMoved(name, each.attempt, application, graph.epoch + 1, (), ended=True))
        for address in sorted(graph.shared_owners - {self.peer.address, *graph.addresses}):
            self.peer.send(address, End(application, graph.attempt, "it has ended"))
        self.gone(application, graph.attempt)

    def _uses(self, application: str) -> tuple[Use, ...]:
        """Where the components of an application are that others may use."""
        graph = self.owned[application].graph
        operators = Plan.from_bytes(graph.plan).operators.items()
        return tuple(deployment_of(graph, name) for name, each in operators if each.kind not in ("sink", TAP))

    def _published(self, application: str) -> None:
        """Everybody learns a new graph of an application of this peer."""
        sharers = self._sharers.get(application)
        uses = self._uses(application) if sharers else ()
        if not sharers or uses == self._told.get(application):
            return
        self._told[application] = uses
        epoch = self.owned[application].graph.epoch
        for name, each in sorted(sharers.items()):
            self._tell(each, ProducersMoved(name, each.attempt, application, epoch, uses, ended=False))

    def _tell(self, sharer: _Sharer, message: ProducersMoved) -> None:
        key = message.application, message.owner
        self._unheeded[key] = message
        self._say(sharer.origin, key, message, self.peer.now + self.config.lease)

    def _say(self, origin: str, key: tuple[str, str], message: ProducersMoved, until: float) -> None:
        """Say it now and every so often, until it is heard or nobody is there."""
        if self._unheeded.get(key) is not message:
            return
        if self.peer.now > until or self.membership.is_dead(origin):
            del self._unheeded[key]
            self._sharers.get(message.owner, {}).pop(message.application, None)
            return
        self.peer.send(origin, message)
        self.peer.after(AGAIN, self._say, origin, key, message, until)

    def _heeded(self, sender: str, message: ProducersFollowed) -> None:
        key = message.application, message.owner
        said = self._unheeded.get(key)
        if said is not None and said.attempt == message.attempt and message.epoch in (GONE, said.epoch):
            del self._unheeded[key]
        sharers = self._sharers.get(message.owner, {})
        found = sharers.get(message.application)
        if message.epoch == GONE and found is not None and found.attempt == message.attempt:
            del sharers[message.application]

    # -- at the origin of who shares ---------------------------------------------------------------------------------

    def _elsewhere(self, sender: str, message: ProducersMoved) -> None:
        application, owner = message.application, message.owner
        owned = self.owned.get(application)
        if owned is None or owned.graph.attempt != message.attempt:
            self._answer(sender, message, GONE)
            return
        if message.epoch < self._heard.setdefault(application, {}).get(owner, 0):
            return
        self._heard[application][owner] = message.epoch
        graph = _told(owned.graph, message)
        if graph is None:
            self._answer(sender, message, message.epoch)
            return
        places = {use[:4] for use in owned.graph.uses}
        moves = [use for use in graph.uses if use[:4] not in places]
        if owned.state is State.MOVING and moves:
            self.moves.give_up(
                application, f"{moves[0].operator} of {owner}, which it shares, is at {moves[0].peer} now"
            )
            if application not in self.owned:
                return
            graph = _told(owned.graph, message)
        if owned.state is not State.RUNNING or graph is None:
            self._later.setdefault(application, {})[owner] = sender, message
            return
        self._follow(application, graph)
        self._answer(sender, message, message.epoch)
        if not self.awaits(application):
            self._bereft(application)

    def _answer(self, sender: str, message: ProducersMoved, epoch: int) -> None:
        if sender:
            self.peer.send(sender, ProducersFollowed(message.application, message.attempt, message.owner, epoch))

    def _follow(self, application: str, graph: Graph) -> None:
        """Make a graph that of an application of this peer, of which streams that it shares are elsewhere."""
        before = self.owned[application].graph
        self.changes.change(application, graph)
        self.changes.publish(application, set(before.addresses) - set(graph.addresses))
        was = {use[:2]: use.peer for use in before.uses}
        peers = self.owned[application].roles.peers
        uses = {tap: [use[:3] for use in made] for tap, made in graph.shared.items()}
        for use in graph.uses:
            at = was.get(use[:2], use.peer)
            if at != use.peer:
                self.peer.record(
                    SharedStreamMoved,
                    application,
                    operator=use.operator,
                    of=use.application,
                    at=at,
                    to=use.peer,
                    peers=peers,
                    uses=uses,
                )
        if graph.roles.peers != before.roles.peers:
            self.peer.instruct(self.owned[application].report())

    def resume(self, application: str) -> None:
        """An application of this peer may be changed: heed what came too early."""
        for sender, message in self._later.pop(application, {}).values():
            self._elsewhere(sender, message)

    def died(self, application: str, address: str) -> None:
        """A peer has died: if it led what an application of this peer shares, that has ended."""
        graph = self.owned[application].graph
        for owner in sorted({use.application for use in graph.uses if use.origin == address}):
            self._elsewhere("", ProducersMoved(application, graph.attempt, owner, DEAD, (), ended=True))

    def awaits(self, application: str) -> bool:
        """Whether all that an application of this peer shares is there, or may be taken over."""
        graph = self.owned[application].graph
        dead = self.membership.is_dead
        lost = [use for use in graph.uses if dead(use.peer)]
        for use in lost:
            if not use.origin or dead(use.origin) or all(dead(peer) for peer in use.copies):
                return False
        if lost:
            self.peer.after(self.config.lease, self._waited, application, graph.attempt, lost)
        return True

    def _waited(self, application: str, attempt: int, lost: Collection[Use]) -> None:
        """By now somebody must have said where what was lost is."""
        owned = self.owned.get(application)
        if owned is None or owned.graph.attempt != attempt:
            return
        if {use[:4] for use in lost} & {use[:4] for use in owned.graph.uses}:
            self._bereft(application)

    def _bereft(self, application: str) -> None:
        """End an application of this peer if peers have died that have what it shares."""
        graph = self.owned[application].graph
        dead = sorted({use.peer for use in graph.uses if self.membership.is_dead(use.peer)})
        if dead:
            self.lost(application, graph.attempt, f"peer {dead[0]} died ({', '.join(graph.at(dead[0]))})")


def _told(graph: Graph, message: ProducersMoved) -> Graph | None:
    """The next graph of an application that was told where what it shares is; None if it is there already."""
    now = {use[:2]: use for use in message.uses}

    def follow(use: Use) -> Use:
        if use.application != message.owner:
            return use
        return use.left_alone() if message.ended else now.get(use[:2], use)

    shared = {tap: tuple(sorted(follow(use) for use in uses)) for tap, uses in graph.shared.items()}
    if all(set(shared[tap]) == set(uses) for tap, uses in graph.shared.items()):
        return None
    peers = dict(graph.roles.peers)
    plan = Plan.from_bytes(graph.plan)
    for tap, uses in shared.items():
        maker = producer_of(graph, plan, tap)
        if maker is not None:
            peers[tap] = next(use.peer for use in uses if use[:2] == maker[:2])
    return graph.changed(msgspec.structs.replace(graph.roles, peers=peers), shared=shared)
