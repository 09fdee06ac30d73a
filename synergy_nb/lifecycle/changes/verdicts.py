"""Verdicts of the failure detector, and what they mean for the applications of a peer.

A peer that was declared dead may only be silent: it is overloaded, was stopped, or is cut off. It may have ended, which
is known if no process listens at its address any more (:meth:`.Membership.has_ended`). Of an application that the peer
leads, backups take over in either case; what has none is waited for
(:mod:`~synergy_nb.lifecycle.changes.awaited_peers`), and its loss ends the application only if its process has ended.
Of other applications, the peer stays a member while their leader is only silent.

A verdict may be wrong. Then the peer returns: it hears of the graphs that have changed without it, goes on with what
nobody has taken over, and leaves what others execute now.
"""

from __future__ import annotations

from collections.abc import Callable

from synergy_nb.lifecycle.changes.graph_changes import GraphChanges
from synergy_nb.lifecycle.changes.migration import Migrations
from synergy_nb.lifecycle.changes.rebuilds import Rebuilds
from synergy_nb.lifecycle.changes.shared_streams import SharedStreams
from synergy_nb.lifecycle.changes.succession import Succession
from synergy_nb.lifecycle.changes.takeover import TakeOvers

__all__ = ["Verdicts"]


class Verdicts:
    """Has the applications of a peer follow the verdicts of its failure detector."""

    def __init__(
        self,
        # changes, takeovers, moves, rebuilds, sharers, succession: parts of the session that change graphs, and that
        # know who leads
        changes: GraphChanges,
        takeovers: TakeOvers,
        moves: Migrations,
        rebuilds: Rebuilds,
        sharers: SharedStreams,
        succession: Succession,
        # callback with (application, attempt, reason) when an application that this peer leads cannot go on
        fail: Callable[[str, int, str], None],
    ) -> None:
        self._membership = changes.membership
        self._changes = changes
        self._takeovers = takeovers
        self._moves = moves
        self._rebuilds = rebuilds
        self._sharers = sharers
        self._succession = succession
        self._led = changes.led
        self._members = changes.members
        self._fail = fail
        self._membership.on_dead.append(self._died)
        self._membership.on_ended.append(self._died)
        self._membership.on_alive.append(self._returned)

    def _died(self, address: str) -> None:
        """Act on the verdict that a peer is dead, or on the news that its process has ended."""
        for application in list(self._led):
            self._rebuilds.died(application, address)
            if not self._moves.died(application, address):
                self.lost(application, address)
            if application in self._led:
                self._sharers.died(application, address)
        for application, member in list(self._members.items()):
            if not self._succession.continues(member, address):
                self._changes.participation.expire(application, "its origin died")
        self._succession.died(address)

    def lost(self, application: str, address: str) -> bool:
        """Have backups take over the components at a dead peer, wait for it, or end the application.

        Set-up waits for a silent peer as for any answer. Return whether the application goes on.
        """
        request = self._led[application]
        graph = request.graph
        if not self._takeovers.concerns(application, address):
            return True
        if not (request.running or self._membership.has_ended(address)):
            return True
        if not self._takeovers.begin(application, address):
            at = ", ".join(graph.components_at(address))
            self._fail(application, graph.attempt, f"peer {address} died ({at})")
        return application in self._led

    def _returned(self, address: str) -> None:
        """Take back the verdict on a peer: tell it what has changed, and continue what has waited for it."""
        for application, request in list(self._led.items()):
            if request.running and self._takeovers.concerns(application, address):
                self._changes.remind(application, address)
                self._takeovers.begin(application, address)
            elif request.running and address in request.former:
                self._changes.dismiss(application, (address,))
