"""Copies of components that cannot take over: peers report them to the origin, which prefers other copies.

Theory of operation
-------------------
A component does not wait for a silent copy. It may discard inputs that this copy would need; from then on the copy
cannot take over, until it has a later snapshot (:mod:`synergy_nb.dataflow.streams`). The peer of the component reports
this to the origin (:class:`~synergy_nb.lifecycle.records.messages.CopiesLag`), and reports again when it is over. The
peer of a copy reports, too, if its copy cannot take over: because its Spark server cannot reach the checkpoint of a
part, or because the component has just moved away from there without leaving a snapshot. The origin records both in its
journal, prefers other backups for a take-over, and completes a move only when the follower can take over.

Reports are numbered and sent several times, since messages may be lost, duplicated or reordered. The origin ignores
reports of peers that neither execute the component nor keep a copy of it any more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from synergy_nb.control.peer import Message, Peer
from synergy_nb.events import CopiesBehind
from synergy_nb.lifecycle.records.members import Member
from synergy_nb.lifecycle.records.messages import CopiesLag
from synergy_nb.lifecycle.records.request import Request
from synergy_nb.lifecycle.records.session_config import RESEND_INTERVAL, SENDS

__all__ = ["LaggingCopies"]


class LaggingCopies:
    """Reports copies that cannot take over, and collects such reports of the applications that a peer leads."""

    def __init__(self, peer: Peer, led: Mapping[str, Request], members: Mapping[str, Member]) -> None:
        self.peer = peer
        self.led = led
        self.members = members
        # listeners, called with each copy at this peer that can take over
        self.on_ready: list[Callable[[Member, str], object]] = []
        # listeners, called with each follower at this peer that cannot take over, and the reason
        self.on_failed: list[Callable[[Member, str, str], object]] = []
        self._sent: dict[tuple[str, str], CopiesLag] = {}  # (application, operator) to the last report
        self._number = 0
        # application that this peer leads, then (operator, sender), to the last report
        self._received: dict[str, dict[tuple[str, str], CopiesLag]] = {}
        self.handlers: dict[type[Message], Callable[[str, Any], None]] = {CopiesLag: self.behind_reported}

    # -- at members --------------------------------------------------------------------------------------------------

    def ready(self, application: str, operator: str) -> None:
        """The driver's report that its backup or follower of a component could take over, or would after a move."""
        member = self.members.get(application)
        if member is not None:
            if member.graph.roles.peers.get(operator) != self.peer.address:  # else it reports those of others
                self._report(member, operator, {})
            for listener in self.on_ready:
                listener(member, operator)

    def failed(self, application: str, operator: str, reason: str) -> None:
        """The driver's report that this peer's copy of a component cannot take over."""
        member = self.members.get(application)
        if member is None:
            return
        if member.graph.roles.followers.get(operator) == self.peer.address:
            for listener in self.on_failed:
                listener(member, operator, reason)
        else:
            member.copy_lags(operator)
            self._report(member, operator, {self.peer.address: reason})

    def behind(self, application: str, operator: str, peers: Mapping[str, str]) -> None:
        """The driver's report of the copies that cannot take over from a component of this peer, and the reasons."""
        member = self.members.get(application)
        if member is not None:
            self._report(member, operator, dict(peers))

    def _report(self, member: Member, operator: str, peers: dict[str, str]) -> None:
        """Report to the origin, if the report differs from the last one."""
        graph, key = member.graph, (member.graph.application, operator)
        sent = self._sent.get(key)
        if peers == ({} if sent is None else sent.peers):
            return
        self._number += 1
        message = self._sent[key] = CopiesLag(graph.application, graph.attempt, operator, self._number, peers)
        self._repeat(key, message, SENDS)

    def _repeat(self, key: tuple[str, str], message: CopiesLag, times: int) -> None:
        member = self.members.get(key[0])
        if self._sent.get(key) is not message:
            return
        if member is None or member.ended or member.graph.attempt != message.attempt:
            del self._sent[key]
        elif times:
            self.peer.send(member.graph.origin, message)
            self.peer.after(RESEND_INTERVAL, self._repeat, key, message, times - 1)

    def reports(self, application: str) -> tuple[CopiesLag, ...]:
        """Return the last reports of this peer about copies of an application that cannot take over."""
        return tuple(each for (of, _), each in self._sent.items() if of == application)

    def repeat(self, application: str) -> None:
        """Send the last reports about an application again, to the peer that leads it now."""
        for key, message in list(self._sent.items()):
            if key[0] == application:
                self._repeat(key, message, SENDS)

    # -- at the origin -----------------------------------------------------------------------------------------------

    def cannot_take_over(self, application: str, operator: str) -> dict[str, str]:
        """Return the peers whose copy cannot take over, as they or others have reported, each with the reason."""
        roles = self.led[application].graph.roles
        active, copies = roles.peers[operator], {*roles.backups.get(operator, ()), roles.followers.get(operator, "")}
        copies.update(roles.copied_for(operator))
        found: dict[str, str] = {}
        for (name, sender), message in self._received.get(application, {}).items():
            if name == operator and sender in (active, *copies):
                found |= {peer: reason for peer, reason in message.peers.items() if peer in copies}
        return found

    def behind_reported(self, sender: str, message: CopiesLag) -> None:
        """Note the report of a peer, unless a later one is known."""
        application, operator = message.application, message.operator
        for name in [name for name in self._received if name not in self.led]:
            del self._received[name]
        request = self.led.get(application)
        if request is None or request.graph.attempt != message.attempt or operator not in request.graph.roles.peers:
            return
        received = self._received.setdefault(application, {})
        known = received.get((operator, sender))
        if known is not None and known.number >= message.number:
            return
        before = self.cannot_take_over(application, operator)
        received[operator, sender] = message
        now = self.cannot_take_over(application, operator)
        if now != before:
            backups = request.graph.roles.backups.get(operator, ())
            degree, left = 1 + len(backups), 1 + len(set(backups) - set(now))
            self.peer.record(CopiesBehind, application, operator=operator, degree=degree, left=left, peers=now)
