"""Holds: a user pauses an application, whose sources give no rows until he resumes it.

The graph states it, as it states rights: so all peers know it, also those that take a source over, and a successor of
the origin. While the graph changes for another reason, the hold is published after that. What sources have given before
is executed, and reaches the sinks.

An application that shares streams with another one cannot be paused: the source of a stream has one place for all of
its readers, so the others would stand still, too. If the owner of a stream has ended, nobody leads the components that
make it, and only their peers know who uses them. A source there is on hold while all of its users are. Each such peer
answers a graph that is on hold with the further users (:class:`HoldAnswered`), and no application joins from then on;
the pause is refused if there is any, and a user is answered once all peers have agreed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import Any

from synergy_nb.control.peer import Message
from synergy_nb.events import HoldBegun, HoldEnded
from synergy_nb.events.application_states import State
from synergy_nb.lifecycle.changes.graph_changes import GraphChanges
from synergy_nb.lifecycle.records.members import NEVER_ENDED
from synergy_nb.lifecycle.records.messages import HoldAnswered
from synergy_nb.lifecycle.records.request import Request
from synergy_nb.overlay.answer_limits import AnswerLimit

__all__ = ["Holds"]


class _Asked:
    """A hold to which peers with components of applications that have ended have not all agreed."""

    __slots__ = ("answers", "limit", "peers")

    def __init__(self, peers: set[str], answer: Callable[[str], None], limit: AnswerLimit) -> None:
        self.peers = peers  # addresses of those that have not agreed
        self.answers = [answer]  # functions that are called with an empty text, or with the reason of a refusal
        self.limit = limit


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
        self._asked: dict[str, _Asked] = {}  # by application of this peer
        changes.on_change_ended.append(self._change_ended)
        changes.on_adopted.append(self._adopted)
        self.handlers: dict[type[Message], Callable[[str, Any], None]] = {HoldAnswered: self._answered}

    # -- at the origin -----------------------------------------------------------------------------------------------

    def hold(self, application: str, *, on: bool, answer: Callable[[str], None] = lambda _refusal: None) -> None:
        """Pause an application that this peer leads, or resume it; nothing happens if it is as asked for.

        ``answer``: function that is called once its sources stand still, or go on, with an empty text, or else with the
        reason of a refusal.

        Raises ``ValueError`` if it shares streams with applications that run.
        """
        request, asked = self._changes.led[application], self._asked.get(application)
        if on == request.on_hold:
            if asked is None:
                answer("")
            else:
                asked.answers.append(answer)
            return
        if not on:
            self._resume(request, "a user has resumed it meanwhile")
            answer("")
            return
        self._check_alone(request)
        request.hold(self._peer.now)
        if peers := request.graph.producer_peers:
            seconds = self._changes.participation.config.lease
            late = request.name, request.graph.attempt
            limit = self._changes.membership.answers.after(seconds, peers, self._late, *late)
            self._asked[application] = _Asked(set(peers), answer, limit)
        else:
            self._peer.record(HoldBegun, request.name)
        self._publish(request)
        self._peer.instruct(request.report())
        if not peers:
            answer("")

    def end(self, application: str, reason: str) -> None:
        """Refuse the hold of an application that this peer leads no more, if peers have not agreed to it yet."""
        asked = self._asked.pop(application, None)
        if asked is not None:
            asked.limit.cancel()
            for answer in asked.answers:
                answer(f"application: {application!r} is not paused: {reason}")

    def _check_alone(self, request: Request) -> None:
        """Raise ``ValueError`` if an application that runs reads its streams, or makes some of them."""
        owners = {
            each.application for each in request.graph.producers if not self._has_ended(each.application, each.origin)
        }
        if others := sorted(owners.union(self._sharers(request.name))):
            raise ValueError(
                f"application: {request.name!r} shares streams with {', '.join(others)}, whose rows would stop, too; "
                "expected one that shares none, as with Cluster(composition=CompositionConfig(sharing='off'))"
            )

    def _has_ended(self, application: str, origin: str = "?") -> bool:
        """Whether an application has ended; ``origin``: who leads it by a graph, or nothing if nobody does."""
        changes, member = self._changes, self._changes.members.get(application)
        ended = changes.participation.ended.get(application, NEVER_ENDED).until == math.inf
        return not origin or (ended and application not in changes.led and (member is None or member.ended))

    def _resume(self, request: Request, reason: str) -> None:
        """End a hold; ``reason``: why, for those that wait for its beginning."""
        since = request.held_since
        request.hold(None)
        if since is not None and request.name not in self._asked:
            self._peer.record(HoldEnded, request.name, seconds=self._peer.now - since)
        self._publish(request)
        self._peer.instruct(request.report())
        self.end(request.name, reason)

    def _answered(self, sender: str, message: HoldAnswered) -> None:
        request = self._changes.led.get(message.application)
        if request is None or not request.on_hold or sender not in request.graph.producer_peers:
            return
        if (message.attempt, message.epoch) != (request.graph.attempt, request.graph.epoch):
            return  # a later graph will be answered
        if others := [each for each in message.users if not self._has_ended(each)]:
            ended = sorted({each.application for each in request.graph.producers})
            self._resume(
                request,
                f"it reads streams of {', '.join(ended)}, which has ended, and so does {', '.join(others)}, whose rows "
                "would stop, too; expected an application that reads them alone",
            )
            return
        asked = self._asked.get(request.name)
        if message.users or asked is None:  # that peer will hear of their end, and of this graph once more
            return
        asked.peers.discard(sender)
        if not asked.peers:
            asked.limit.cancel()
            del self._asked[request.name]
            self._peer.record(HoldBegun, request.name)
            for answer in asked.answers:
                answer("")

    def _late(self, application: str, attempt: int) -> None:
        request, asked = self._changes.led.get(application), self._asked.get(application)
        if request is not None and asked is not None and request.graph.attempt == attempt:
            self._resume(request, f"no answer of {', '.join(sorted(asked.peers))}, where its sources are")

    def _publish(self, request: Request) -> None:
        if request.state is State.RUNNING and request.graph.on_hold != request.on_hold:
            graph = request.graph
            self._changes.change(request.name, graph.changed(graph.roles, on_hold=request.on_hold))
            self._changes.publish(request.name)

    def _change_ended(self, application: str) -> None:
        if application in self._changes.led:
            self._publish(self._changes.led[application])

    # -- at peers with components that it uses -----------------------------------------------------------------------

    def _adopted(self, application: str) -> None:
        """Answer a graph that is on hold, as often as it comes."""
        member, address = self._changes.members.get(application), self._peer.address
        if member is None or not member.graph.on_hold or address not in member.graph.producer_peers:
            return
        graph, users = member.graph, set[str]()
        for producer in graph.producers:
            if producer.peer == address:
                users |= self._changes.deploying.users(producer[:2], application)
        self._peer.send(graph.origin, HoldAnswered(application, graph.attempt, graph.epoch, tuple(sorted(users))))
