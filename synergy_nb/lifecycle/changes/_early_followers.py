"""Followers that begin before the origin has named them, as soon as their peer has accepted a component.

Where the origin of an application is far away, the graph with the follower arrives late at both peers of a move. The
peer that has asked and the one that has accepted need not wait for it: each deploys the follower beside the graph that
it knows, the old one tells the origin so with its request, and the new one once the follower is ready: so the origin
waits for no answer to its graph. Nothing else depends on that: the follower sends nothing, no other peer hears of it,
and only a graph of the origin can have it execute the component. The next graph decides: the follower that it names
goes on, any other ends. It ends as well if no graph has arrived after a while.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from synergy_nb.lifecycle.changes.graph_changes import GraphChanges
from synergy_nb.lifecycle.records.members import Member
from synergy_nb.lifecycle.records.messages import Followed, Graph

PATIENCE: Final = 3.0  # seconds after which a follower ends if no graph has named it


class EarlyFollowers:
    """Followers that two peers have agreed upon, at either of them."""

    def __init__(self, changes: GraphChanges, start: Callable[[Member, Graph, str], str]) -> None:
        self.changes = changes
        # function of (member, graph, operator) that starts a follower here; returns the reason of a refusal, or ""
        self.start = start

    def expect(self, application: str, operator: str, to: str) -> None:
        """Begin to serve a follower at the peer ``to``, which was asked to accept a component of this peer."""
        member = self.changes.members.get(application)
        if member is None or member.ended or self.changes.deploying.ended_reader(application, operator):
            return
        if self._helps(member.graph, operator, to):
            self._begin(member, operator, to)
            self.changes.deploying.deploy(application)

    def follow(self, asker: str, graph: Graph, operator: str) -> None:
        """Follow a component that this peer has accepted, by the graph of the peer that has asked."""
        address = self.changes.peer.address
        known = self.changes.members.get(graph.application)
        if not self._helps(graph, operator, address) or graph.roles.peers[operator] != asker:
            return
        if known is not None and (known.ended or known.graph != graph):
            return
        member = self.changes.participation.join(asker, graph, "MigrationRequest")
        if member is not None:
            self._begin(member, operator, address)
            if self.start(member, graph, operator):
                self.end(graph.application, operator)

    def agree(self, application: str, operator: str, to: str) -> None:
        """Tell the origin that this peer serves a follower at the peer ``to``, if it does."""
        member = self.changes.members.get(application)
        if member is not None:
            self.answer(member, operator, to)

    def answer(self, member: Member, operator: str, to: str) -> None:
        """Answer for the graph that would name a follower at ``to``, in case the origin begins this move next."""
        graph = member.graph
        if member.moves.early(operator) == to:
            epoch = graph.epoch + 1
            answer = Followed(graph.application, graph.attempt, epoch, operator, ready=True, refusal="", early=True)
            self.changes.peer.send(graph.origin, answer)

    def end(self, application: str, operator: str) -> None:
        """End a follower that no graph has named."""
        member = self.changes.members.get(application)
        if member is not None and not member.ended and member.moves.end_early(operator):
            self.changes.adopt(member, member.graph)

    @staticmethod
    def _helps(graph: Graph, operator: str, to: str) -> bool:
        """Whether an early follower helps: the origin is elsewhere, and no move or backup there is in the way."""
        roles = graph.roles
        near = graph.origin in (to, roles.peers[operator])
        return not near and not roles.followers and to not in roles.backups.get(operator, ())

    def _begin(self, member: Member, operator: str, to: str) -> None:
        member.moves.begin_early(operator, to)
        graph, answers = member.graph, self.changes.membership.answers
        answers.after(PATIENCE, (graph.origin, graph.roles.peers[operator], to), self._expire, member, graph, operator)

    def _expire(self, member: Member, graph: Graph, operator: str) -> None:
        if self.changes.members.get(graph.application) is member and member.graph is graph:
            self.end(graph.application, operator)
