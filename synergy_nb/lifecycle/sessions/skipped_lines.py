"""Malformed lines that sources skip: reported to the origin of every application whose results lack them.

Theory of operation
-------------------
The driver of a source reports the malformed lines of its trace when it has read the file, before the first row. The
peer passes this on to the origins of all applications that use the source, also through a stream that they share; and
it does so once a second for as long as the source is here: a message may be lost, an application may begin to share
the stream later, and another peer may lead it later.

The origin keeps the lines by source. So what it keeps is a property of the trace, and no sum over its readings: a
source that is read again by another peer, or by each of several replicas, counts once. The journal of the origin has
the lines once, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from synergy_nb.control.driver_messages import LinesMalformed
from synergy_nb.control.peer import Peer, Protocol
from synergy_nb.events import LinesSkipped, MessageOutdated
from synergy_nb.lifecycle.records.hosted_components import Components
from synergy_nb.lifecycle.records.members import Member
from synergy_nb.lifecycle.records.messages import SkippedReported
from synergy_nb.lifecycle.records.request import Request
from synergy_nb.plan.derived.active_replicas import original

__all__ = ["SkippedReports"]

INTERVAL: Final = 1.0  # seconds between two reports of the same lines


class SkippedReports(Protocol):
    """Reports malformed lines of the sources at a peer, and keeps such reports of the applications that it leads."""

    def __init__(
        self,
        peer: Peer,
        # components, members: components of the peer, and member records of the applications in which it takes part, by
        # id
        components: Components,
        members: Mapping[str, Member],
        # records of the applications that the peer leads, or led until their end, by id
        requests: Mapping[str, Request],
    ) -> None:
        super().__init__(peer)
        self._components = components
        self._members = members
        self._requests = requests
        self._reports: dict[tuple[str, str], LinesMalformed] = {}  # by application and source
        self.handlers = {SkippedReported: self._reported}

    def found(self, report: LinesMalformed) -> None:
        """The driver's report of the malformed lines of a source that it has opened at this peer."""
        self._reports[report.application, report.source] = report
        self._repeat(report)

    def _repeat(self, report: LinesMalformed) -> None:
        """Report to all that use the source, now and once every interval, for as long as it is here."""
        owner, key = report.application, (report.application, report.source)
        if self._reports.get(key) is not report:
            return
        component = self._components.get((owner, report.operator))
        if component is None:
            del self._reports[key]
            return
        source = original(report.source)
        for user in sorted(component.users):
            member = self._members.get(user)
            if member is not None and not member.ended:
                name = source if user == owner else f"{source} of {owner}"
                self.peer.send(member.leader, SkippedReported(user, member.graph.attempt, name, report.lines))
        self.peer.after(INTERVAL, self._repeat, report)

    def _reported(self, sender: str, message: SkippedReported) -> None:
        request = self._requests.get(message.application)
        # a part on Spark reads its files before the application runs, and may have ended a second later
        if request is None or not request.is_of(message.attempt):
            what = type(message).__name__
            self.peer.record(
                MessageOutdated, message.application, message=what, sender=sender, reason="no such application is here"
            )
        elif request.skip(message.source, message.lines):
            self.peer.record(LinesSkipped, message.application, operator=message.source, lines=message.lines)
