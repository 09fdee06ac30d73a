"""The streams of rebuilt replicas: they are complete once their readers could do without the other replicas.

The origin asks the peers of the readers (:class:`~synergy_nb.lifecycle.records.messages.ReadersQuestion`) until the
stream is complete at each reader: it contains every tuple that has not passed the reader's filter. Before that, readers
still need the other replicas.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from synergy_nb.control.driver_messages import InputsReported
from synergy_nb.control.peer import Message
from synergy_nb.events import ReplicaRebuilt
from synergy_nb.lifecycle.changes.graph_changes import GraphChanger, GraphChanges
from synergy_nb.lifecycle.records.messages import ReadersComplete, ReadersQuestion
from synergy_nb.lifecycle.records.session_config import RESEND_INTERVAL
from synergy_nb.plan import Plan
from synergy_nb.plan.derived.active_replicas import original, replicas_of


class _RebuiltStream:
    """The stream of a rebuilt replica (step 5), whose readers may still need the other replicas."""

    __slots__ = ("began", "complete", "epoch", "source")

    def __init__(self, source: str, epoch: int, began: float) -> None:
        # replica from whose state the rebuilt one began; empty where an earlier origin has rebuilt it
        self.source = source
        self.epoch = epoch  # epoch of the graph in which the rebuilt replica began to execute
        self.began = began  # time at which the rebuild began, seconds
        self.complete: set[str] = set()  # addresses of the peers at whose readers the stream is complete


class RebuiltStreams(GraphChanger):
    """Finds when the streams of rebuilt replicas are complete, and answers other origins that ask for that."""

    def __init__(self, changes: GraphChanges) -> None:
        super().__init__(changes)
        self._streams: dict[tuple[str, str], _RebuiltStream] = {}  # by application and rebuilt replica
        self._complete: dict[tuple[str, str], frozenset[int]] = {}  # reader here to its inputs with all tuples
        self.handlers: dict[type[Message], Callable[[str, Any], None]] = {
            ReadersQuestion: self._readers_asked,
            ReadersComplete: self._readers_complete,
        }

    # -- at the origin -----------------------------------------------------------------------------------------------

    def watch(self, application: str, replica: str, source: str, began: float) -> None:
        """Ask the readers of a rebuilt replica, which executes, until its stream is complete at all of them.

        ``application``, ``replica``: id of the application, and of the rebuilt replica; ``source``: replica from whose
        state it began; empty where an earlier origin has rebuilt it; ``began``: time at which the rebuild began,
        seconds.
        """
        stream = _RebuiltStream(source, self.led[application].graph.roles.rebuilt[replica], began)
        self._streams[application, replica] = stream
        self._ask(application, replica, stream)

    def settled(self, application: str) -> bool:
        """Return whether the streams of all rebuilt replicas of an application are complete at their readers."""
        return not self.incomplete(application)

    def incomplete(self, application: str) -> set[str]:
        """Rebuilt replicas of an application whose readers still need the other ones."""
        return {replica for name, replica in self._streams if name == application}

    def end(self, application: str) -> None:
        """Forget the streams of an application."""
        for key in [key for key in self._streams if key[0] == application]:
            del self._streams[key]

    def _ask(self, application: str, replica: str, stream: _RebuiltStream) -> None:
        """Ask the peers of readers whether the stream is complete there, now and once every interval (step 5)."""
        if self._streams.get((application, replica)) is not stream:
            return
        graph = self.led[application].graph
        roles, plan = graph.roles, Plan.from_bytes(graph.plan)
        if roles.rebuilt.get(replica) != stream.epoch or not roles.peers[replica]:  # it was lost again
            del self._streams[application, replica]
            return
        readers = [name for name in plan.downstream(replica) if replica in roles.reads(plan, name).values()]
        waiting = {roles.peers[name] for name in readers} - {""} - stream.complete
        if not waiting and replica not in roles.rebuilds:
            del self._streams[application, replica]
            if not stream.source:
                return  # the origin before this one has recorded it
            group = replicas_of(plan)[original(replica)]
            self.peer.record(
                ReplicaRebuilt,
                application,
                operator=replica,
                source=stream.source,
                at=roles.peers[replica],
                seconds=self.peer.now - stream.began,
                left=sum(bool(roles.peers[each]) for each in group),
                peers=self.led[application].roles.peers,
            )
            return
        for address in sorted(waiting):
            self.peer.send(address, ReadersQuestion(application, graph.attempt, replica, stream.epoch))
        self.peer.after(RESEND_INTERVAL, self._ask, application, replica, stream)

    def _readers_complete(self, sender: str, message: ReadersComplete) -> None:
        stream = self._streams.get((message.application, message.operator))
        request = self.led.get(message.application)
        if stream is None or request is None or request.graph.attempt != message.attempt:
            return
        if stream.epoch == message.rebuilt:
            stream.complete.add(sender)

    # -- at members --------------------------------------------------------------------------------------------------

    def inputs_reported(self, report: InputsReported) -> None:
        """The driver's report of the inputs of components that read active replicas."""
        self._complete = {
            (each.application, each.operator): frozenset(
                number for number, state in each.inputs.items() if state.complete
            )
            for each in report.components
        }

    def _readers_asked(self, sender: str, message: ReadersQuestion) -> None:
        """Answer the origin if the stream of the rebuilt replica is complete at all readers here."""
        member = self.changes.members.get(message.application)
        if member is None or member.graph.attempt != message.attempt:
            return
        roles, plan, replica = member.graph.roles, member.plan, message.operator
        if roles.rebuilt.get(replica) != message.rebuilt:
            return
        for name in member.operators:
            numbers = [number for number, up in roles.reads(plan, name).items() if up == replica]
            if not self._complete.get((message.application, name), frozenset()).issuperset(numbers):
                return
        self.peer.send(sender, ReadersComplete(message.application, message.attempt, replica, message.rebuilt))
