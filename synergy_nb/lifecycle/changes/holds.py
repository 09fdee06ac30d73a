"""Holds: a user pauses an application, whose sources give no rows until he resumes it.

The graph states it, as it states rights: so all peers know it, also those that take a source over, and a successor of
the origin. While the graph changes for another reason, the hold is published after that. What sources have given before
is executed, and reaches the sinks.

An application that shares streams with another one cannot be paused: the source of a stream has one place for all of
its readers, so the others would stand still, too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from synergy_nb.events import HoldBegun, HoldEnded
from synergy_nb.events.application_states import State
from synergy_nb.lifecycle.changes.graph_changes import GraphChanges
from synergy_nb.lifecycle.records.request import Request

__all__ = ["Holds"]


class Holds:
    """Pauses and resumes the applications that a peer leads."""

    def __init__(
        self,
        changes: GraphChanges,
        sharers: Callable[[str], Collection[str]],  # applications that read streams of an application of this peer
    ) -> None:
        self._changes = changes
        self._peer = changes.peer
        self._sharers = sharers
        changes.on_change_ended.append(self._change_ended)

    def hold(self, application: str, *, on: bool) -> None:
        """Pause an application that this peer leads, or resume it; nothing happens if it is as asked for.

        Raises ``ValueError`` if it shares streams.
        """
        request = self._changes.led[application]
        if on == request.on_hold:
            return
        if on:
            self._check_alone(request)
        since = request.held_since
        request.hold(self._peer.now if on else None)
        if since is None:
            self._peer.record(HoldBegun, request.name)
        else:
            self._peer.record(HoldEnded, request.name, seconds=self._peer.now - since)
        self._publish(request)
        self._peer.instruct(request.report())

    def _check_alone(self, request: Request) -> None:
        """Raise ``ValueError`` if another application reads its streams, or it reads streams of another one."""
        owners = {producer.application for producer in request.graph.producers if producer.origin}
        ended = {producer.application for producer in request.graph.producers if not producer.origin}
        if others := sorted(owners.union(self._sharers(request.name))):
            raise ValueError(
                f"application: {request.name!r} shares streams with {', '.join(others)}, whose rows would stop, too; "
                "expected one that shares none, as with Cluster(composition=CompositionConfig(sharing='off'))"
            )
        if ended:
            raise ValueError(
                f"application: {request.name!r} reads streams of {', '.join(sorted(ended))}, which has ended, so that "
                "nobody can stop its sources; expected one that reads sources of its own"
            )

    def _publish(self, request: Request) -> None:
        if request.state is State.RUNNING and request.graph.on_hold != request.on_hold:
            graph = request.graph
            self._changes.change(request.name, graph.changed(graph.roles, on_hold=request.on_hold))
            self._changes.publish(request.name)

    def _change_ended(self, application: str) -> None:
        if application in self._changes.led:
            self._publish(self._changes.led[application])
