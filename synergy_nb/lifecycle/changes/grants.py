"""Rights that owners grant: all peers with facts of an application know them, also after its end.

While an application runs, its peers learn the rights by its next graph, as they learn all that changes. Graphs do not
reach a peer that has left, nor anybody once the application has ended; but such a peer has events in its journal, or
retains results, and guests ask for these. So it remembers the rights of each application that it has left, who led it
then, and who was to succeed that peer; whoever of these leads tells it what is granted later
(:class:`~synergy_nb.lifecycle.records.messages.Granted`). Of an application whose rights a peer does not know any more,
only owners of the cluster get anything there.

While a graph changes, what is granted is told to the successor alone. If the origin dies before it has published that,
the first graph of the successor states it. A successor tells the peers of which it knows, by the graphs that it has
adopted, that they have left.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, KeysView
from typing import Any, Final, NamedTuple

from synergy_nb.control.peer import Message
from synergy_nb.control.rights import OWNED, Rights
from synergy_nb.events.application_states import State
from synergy_nb.lifecycle.changes.graph_changes import GraphChanges
from synergy_nb.lifecycle.records.members import Member
from synergy_nb.lifecycle.records.messages import Granted
from synergy_nb.lifecycle.records.request import Request
from synergy_nb.lifecycle.records.session_config import RESEND_INTERVAL, SENDS
from synergy_nb.lifecycle.sessions.participation import ENDED_SESSIONS
from synergy_nb.overlay.recently_seen import Latest

__all__ = ["Grants"]


class _Left(NamedTuple):
    """What a peer remembers of an application that it has left."""

    attempt: int
    changes: int  # of the rights
    leaders: frozenset[str]  # address of the peer that led it then, and that of its successor
    rights: Rights


NEVER: Final = _Left(0, -1, frozenset(), OWNED)


class Grants:
    """Publishes the rights to the applications that a peer leads, and knows those to others."""

    def __init__(self, changes: GraphChanges) -> None:
        self._changes = changes
        self._peer = changes.peer
        self._left: Latest[_Left] = Latest(ENDED_SESSIONS)  # by application
        # application that this peer may lead after its origin to what that has granted and no graph may state yet
        self._told: dict[str, Rights] = {}
        changes.on_change_ended.append(self._change_ended)
        changes.participation.on_left.append(self._leaving)
        self.handlers: dict[type[Message], Callable[[str, Any], None]] = {Granted: self._granted}

    def rights(self, application: str) -> Rights | None:
        """The rights to an application in which this peer takes part, or has done so; None if it knows none."""
        member = self._changes.members.get(application)
        if member is not None:
            return member.graph.rights
        left = self._left.get(application, NEVER)
        return None if left is NEVER else left.rights

    @property
    def left(self) -> KeysView[str]:
        """The applications that this peer has left, as far as it remembers."""
        return self._left.names

    # -- at the origin -----------------------------------------------------------------------------------------------

    def publish(self, request: Request) -> None:
        """Publish the rights to an application if they have changed; while its graph changes, only after that."""
        if request.began is None or request.graph.rights == request.rights:
            return
        application, changed = request.name, request.graph.changed(request.graph.roles, rights=request.rights)
        if request.state is State.RUNNING:
            self._changes.change(application, changed)
            self._changes.publish(application)
            self._tell(request, request.rights, request.former)
        elif not request.running:
            request.change(changed)
            self._tell(request, request.rights, {*changed.addresses, *request.former})
        else:
            self._tell(request, request.rights, {request.graph.successor} - {""})

    def _change_ended(self, application: str) -> None:
        if application in self._changes.led:
            self.publish(self._changes.led[application])

    def _tell(self, request: Request, rights: Rights, addresses: Collection[str], times: int = SENDS) -> None:
        """Send the rights to peers that no graph reaches, now and a few times more."""
        others = sorted(set(addresses) - {self._peer.address})
        if not times or not others or request.rights is not rights:
            return
        for address in others:
            self._peer.send(address, Granted(request.name, request.graph.attempt, rights))
        self._peer.after(RESEND_INTERVAL, self._tell, request, rights, addresses, times - 1)

    # -- at the successor --------------------------------------------------------------------------------------------

    def latest(self, application: str, *known: Rights) -> Rights:
        """Return the latest of the rights that members know, and of those that the origin has told this peer."""
        told = self._told.pop(application, OWNED)  # which is older than any that somebody was told
        latest: Rights = max(*known, told, key=lambda rights: rights.changes)
        return latest

    # -- at members --------------------------------------------------------------------------------------------------

    def _leaving(self, application: str) -> None:
        member = self._changes.members[application]
        graph = member.graph
        self._told.pop(application, None)
        self._left.raise_to(application, _Left(graph.attempt, graph.rights.changes, _leaders(member), graph.rights))

    def _granted(self, sender: str, message: Granted) -> None:
        application, attempt, rights = message.application, message.attempt, message.rights
        member = self._changes.members.get(application)
        left = self._left.get(application, NEVER)
        if member is not None:
            known, leaders, changes = member.graph.attempt, _leaders(member), member.graph.rights.changes
        else:
            known, leaders, changes = left.attempt, left.leaders, left.changes
        if sender not in leaders or attempt != known or rights.changes <= changes:
            return
        if member is None:
            self._left.raise_to(application, _Left(attempt, rights.changes, leaders, rights))
        elif member.ended:
            member.learn_rights(rights)
        elif self._peer.address == member.graph.successor:
            self._told[application] = max(rights, self._told.get(application, rights), key=lambda each: each.changes)


def _leaders(member: Member) -> frozenset[str]:
    """The peers that may say who may read an application: who leads it, and who is to succeed that peer."""
    return frozenset({member.leader, member.graph.successor} - {""})
