"""Reports of sinks to the origin: their measured delay, and the end of their streams.

A plan may bind sinks to other peers than its origin. Each of these reports the delays that its driver has measured, and
the end of all streams there, which it repeats until the origin ends the session. The application has finished when the
sinks at all peers have. Results are retained at the peers of the sinks; the origin has them discarded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from synergy_nb.control.peer import Message, Peer
from synergy_nb.events.application_states import State, Status
from synergy_nb.lifecycle.records.members import Member
from synergy_nb.lifecycle.records.messages import End, Graph, SinksReported
from synergy_nb.lifecycle.records.request import Request
from synergy_nb.lifecycle.records.session_config import RESEND_INTERVAL, SENDS
from synergy_nb.plan import Plan

__all__ = ["RETAINING", "SinkReports", "sink_peers"]

#: Status of ended applications whose results are retained.
RETAINING = frozenset({Status.FINISHED.value, Status.FAILED.value})


def sink_peers(graph: Graph) -> set[str]:
    """Addresses of the peers that have sinks of an application."""
    return {graph.roles.peers[sink] for sink in Plan.from_bytes(graph.plan).sinks}


class SinkReports:
    """Reports the sinks of a peer, and collects such reports of the applications that it leads."""

    def __init__(
        self,
        peer: Peer,
        # led, members: applications that the peer leads, and member records of those in which it takes part, by id
        led: Mapping[str, Request],
        members: Mapping[str, Member],
        # callback with an application of this peer whose streams have ended at all sinks, and its state from then on
        end: Callable[[str, State], None],
    ) -> None:
        self._peer = peer
        self._led = led
        self._members = members
        self._end = end
        self._retained: dict[str, tuple[Graph, str, str]] = {}  # ended applications with results elsewhere
        self.handlers: dict[type[Message], Callable[[str, Any], None]] = {SinksReported: self._reported}

    # -- at the peers of sinks ---------------------------------------------------------------------------------------

    def measured(self, application: str, delay: float) -> None:
        """The driver's report of the end-to-end execution time at the sinks here, in seconds."""
        member = self._members.get(application)
        if member is not None:
            member.sinks_measured(delay)
            if application not in self._led:
                self._report(member, delay)

    def ended(self, application: str) -> None:
        """The driver's report that the streams of all sinks here have ended."""
        member = self._members.get(application)
        if member is not None and member.sinks_end():
            self._repeat(member)

    def _repeat(self, member: Member) -> None:
        """Report the end of all streams here, now and once every interval, until the session ends."""
        application = member.graph.application
        if self._members.get(application) is member and not member.ended:
            self._report(member, member.delay)
            self._peer.after(RESEND_INTERVAL, self._repeat, member)

    def _report(self, member: Member, delay: float) -> None:
        graph = member.graph
        report = SinksReported(graph.application, graph.attempt, delay, member.sinks_ended)
        self._peer.send(member.leader, report)

    # -- at the origin -----------------------------------------------------------------------------------------------

    def delay(self, application: str) -> float:
        """Return the greatest measured delay of the sinks of an application, seconds; negative if there is none."""
        member = self._members.get(application)
        return max((-1.0 if member is None else member.delay, *self._led[application].delays.values()))

    def _reported(self, sender: str, message: SinksReported) -> None:
        application = message.application
        request = self._led.get(application)
        if request is None:
            self.answer(sender, application)
        if request is None or not request.running or request.graph.attempt != message.attempt:
            return
        own = sender == self._peer.address  # then its member knows the delay
        request.sinks_reported(sender, -1.0 if own else message.delay, ended=message.ended)
        if message.ended and request.ended_sinks.issuperset(sink_peers(request.graph)):
            self._end(application, State.FINISHED)

    def answer(self, sender: str, application: str) -> bool:
        """Tell another peer again that an application has ended whose results it retains; return False if unknown."""
        graph, status, reason = self._retained.get(application, (None, "", ""))
        if graph is None or sender == self._peer.address or sender not in sink_peers(graph):
            return False
        self._peer.send(sender, End(application, graph.attempt, reason, status))
        return True

    def retain(self, graph: Graph, status: str, reason: str) -> None:
        """Have the other peers with sinks of an application that ends now retain the results."""
        self._retained[graph.application] = graph, status, reason
        self._send(graph, status, reason, SENDS)

    def _send(self, graph: Graph, status: str, reason: str, times: int) -> None:
        """Send the end to the other peers with sinks, now and a few times more."""
        if times and self._retained.get(graph.application, (None,))[0] is graph:
            for address in sorted(sink_peers(graph) - {self._peer.address}):
                self._peer.send(address, End(graph.application, graph.attempt, reason, status))
            self._peer.after(RESEND_INTERVAL, self._send, graph, status, reason, times - 1)

    def discard(self, application: str) -> bool:
        """Have the results of an ended application discarded at other peers; return False if there are none."""
        graph, *_ = self._retained.pop(application, (None,))
        if graph is None:
            return False
        for address in sorted(sink_peers(graph) - {self._peer.address}):
            self._peer.send(address, End(application, graph.attempt, "its results have been discarded"))
        return True
