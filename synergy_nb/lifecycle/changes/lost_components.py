"""Reports of lost components: a peer reports those of its own, and the origin decides whether the application goes on.

A component is lost if it fails, or if its peer has no session of its application any more. If it has failed, a backup
would fail as well, so the application goes on only if it was an active replica, and others of its operator live. If its
peer has no session, the application goes on as after the death of that peer (:meth:`.TakeOvers.begin`). Otherwise it
fails, and the reason names the component.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from synergy_nb.control.peer import Message
from synergy_nb.events import ComponentFailed
from synergy_nb.lifecycle.changes.graph_changes import GraphChanges
from synergy_nb.lifecycle.changes.migration import Migrations
from synergy_nb.lifecycle.changes.rebuilds import Rebuilds
from synergy_nb.lifecycle.changes.takeover import TakeOvers
from synergy_nb.lifecycle.records.messages import Lost
from synergy_nb.lifecycle.sessions.deploying import needed_by

__all__ = ["LostComponents"]


class LostComponents:
    """Reports lost components of this peer, and handles such reports to applications that this peer leads."""

    def __init__(
        self,
        changes: GraphChanges,
        moves: Migrations,
        rebuilds: Rebuilds,
        takeovers: TakeOvers,
        # callback with (application, attempt, reason) when an application that this peer leads cannot go on
        fail: Callable[[str, int, str], None],
        # callback with the same for one whose peer has forgotten it, as after a death
        lose: Callable[[str, int, str], None],
        # callback with an application that this peer leads, and a peer that says that its successor has ended it
        said_ended: Callable[[str, str], None],
    ) -> None:
        self._peer = changes.peer
        self._components = changes.components
        self._led = changes.led
        self._members = changes.members
        self._changes = changes
        self._moves = moves
        self._rebuilds = rebuilds
        self._takeovers = takeovers
        self._fail = fail
        self._lose = lose
        self._said_ended = said_ended
        self.handlers: dict[type[Message], Callable[[str, Any], None]] = {Lost: self._lost}

    # -- at the peer of a component ------------------------------------------------------------------------------------

    def failed(self, application: str, operator: str, reason: str) -> None:
        """Report that a component has failed at this peer, to the origins of all applications that use it."""
        component = self._components.get((application, operator))
        users = {application} if component is None else component.users
        known = [self._members[user].graph for user in sorted(users) if user in self._members]
        if known:
            self._peer.record(ComponentFailed, application, operator=operator, reason=reason)
        if application in self._members:
            self._members[application].components.fail(operator)
        for graph in known:
            own = graph.application == application
            text = f"{operator}{'' if own else f' of {application}'} at {self._peer.address}: {reason}"
            lost = operator if own else ""
            self._peer.send(graph.origin, Lost(graph.application, graph.attempt, text, operator=lost, failed=True))

    def reader_failed(self, application: str, operator: str, reader: str, reason: str) -> None:
        """Fail a component that blocks other readers of a shared stream, unless their applications need it as well."""
        others = self._components[application, operator].users - {application}
        needed = {each for user in others for each in needed_by(self._members[user].graph)}
        if others and (application, reader) not in needed:
            self.failed(application, reader, reason)

    # -- at the origin -------------------------------------------------------------------------------------------------

    def _lost(self, sender: str, message: Lost) -> None:
        application = message.application
        request = self._led.get(application)
        if request is None or 0 <= message.epoch < request.graph.epoch or sender not in request.graph.addresses:
            return  # the message is about an earlier graph: the component has moved since
        graph = request.graph
        if sender not in {*graph.roles.addresses, *graph.producer_peers}:
            self._changes.tell(application, sender)  # it has a copy of a shared component, and does not know the graph
            return
        if message.attempt != graph.attempt:
            return
        if message.ended and graph.successor and request.running:
            self._said_ended(application, sender)
            return
        here = {name for name, peer in graph.roles.peers.items() if peer == sender}
        if message.epoch < 0 and not message.failed and here <= graph.shared.keys() and sender in graph.producer_peers:
            self._changes.tell(application, sender)  # it has a shared component, and the graph was lost on its way
            return
        lost = here & {message.operator} if message.operator else here
        forgot = not message.operator and sender not in graph.producer_peers
        if request.running and (forgot or self._takeovers.dispensable(application, lost)):
            self._moves.interrupt(application, message.reason)
            self._rebuilds.interrupt(application, message.reason)
            if self._takeovers.begin(application, sender, message.reason, lost, forgot=forgot):
                self._changes.dismiss(application, (sender,))
                return
        (self._lose if forgot else self._fail)(application, message.attempt, message.reason)
