"""Copies of components that could not take over: whoever finds that out tells the origin, which then prefers others.

Theory of operation
-------------------
A component does not wait for a copy of which nothing is heard: inputs that the copy would need may be let go, and from
then on it could not take over, until it has a snapshot that was made later (:mod:`synergy_nb.dataflow.streams`). The
peer of the component says so to the origin, and again when that is over. A peer that keeps a copy may find out, too,
that it could not go on: its Spark cannot reach the checkpoint of a part. The origin tells both in its journal, has
other backups take over where there are any, and does not end a move before its follower is fit.

What is said is numbered and said more than once, since messages may be lost, doubled and overtaken. Of who executes a
component no more, and keeps no copy of it, nothing counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from synergy_nb.control.peer import Message, Peer
from synergy_nb.events import CopiesBehind
from synergy_nb.lifecycle.graph_changes import AGAIN, TIMES
from synergy_nb.lifecycle.members import Member
from synergy_nb.lifecycle.messages import CopiesLag
from synergy_nb.lifecycle.request import Request

__all__ = ["LaggingCopies"]


class LaggingCopies:
    """What is known of the copies of components: of those at this peer, and of the applications that it leads.

    Parameters
    ----------
    peer
        The peer.
    owned, members
        Applications that it leads, and in which it takes part.

    Attributes
    ----------
    on_ready : list of callables (member, operator)
        Told of each copy here from which the peer could go on.
    on_failed : list of callables (member, operator, reason)
        Told of each follower here from which it could not.
    """

    def __init__(self, peer: Peer, owned: Mapping[str, Request], members: Mapping[str, Member]) -> None:
        self.peer = peer
        self.owned = owned
        self.members = members
        self.on_ready: list[Callable[[Member, str], object]] = []
        self.on_failed: list[Callable[[Member, str, str], object]] = []
        self._said: dict[tuple[str, str], CopiesLag] = {}  # by application and operator
        self._number = 0
        self._heard: dict[
            str, dict[tuple[str, str], CopiesLag]
        ] = {}  # by application of this peer: operator and sender
        self.handlers: dict[type[Message], Callable[[str, Any], None]] = {CopiesLag: self._behind}

    # -- at those who take part --------------------------------------------------------------------------------------

    def ready(self, application: str, operator: str) -> None:
        """The driver's report that it could go on with a component of which it keeps a backup, or that it follows."""
        member = self.members.get(application)
        if member is not None:
            self._say(member, operator, {})
            for listener in self.on_ready:
                listener(member, operator)

    def failed(self, application: str, operator: str, reason: str) -> None:
        """The driver's report that it could not go on with a component of which this peer keeps a copy."""
        member = self.members.get(application)
        if member is None:
            return
        if member.graph.roles.followers.get(operator) == self.peer.address:
            for listener in self.on_failed:
                listener(member, operator, reason)
        else:
            member.ready.discard(operator)
            self._say(member, operator, {self.peer.address: reason})

    def behind(self, application: str, operator: str, peers: Mapping[str, str]) -> None:
        """The driver's report of which copies of a component here could not go on, and why; none: all could."""
        member = self.members.get(application)
        if member is not None:
            self._say(member, operator, dict(peers))

    def _say(self, member: Member, operator: str, peers: dict[str, str]) -> None:
        """Tell the origin, if that is news."""
        graph, key = member.graph, (member.graph.application, operator)
        said = self._said.get(key)
        if peers == ({} if said is None else said.peers):
            return
        self._number += 1
        message = self._said[key] = CopiesLag(graph.application, graph.attempt, operator, self._number, peers)
        self._repeat(key, message, TIMES)

    def _repeat(self, key: tuple[str, str], message: CopiesLag, times: int) -> None:
        member = self.members.get(key[0])
        if self._said.get(key) is not message:
            return
        if member is None or member.ended or member.graph.attempt != message.attempt:
            del self._said[key]
        elif times:
            self.peer.send(member.graph.origin, message)
            self.peer.after(AGAIN, self._repeat, key, message, times - 1)

    # -- at the origin -----------------------------------------------------------------------------------------------

    def cannot_take_over(self, application: str, operator: str) -> dict[str, str]:
        """Peers whose copy of a component could not take over, as far as is known, and why."""
        roles = self.owned[application].graph.roles
        active, copies = roles.peers[operator], {*roles.backups.get(operator, ()), roles.followers.get(operator, "")}
        found: dict[str, str] = {}
        for (name, sender), message in self._heard.get(application, {}).items():
            if name == operator and sender in (active, *copies):
                found |= {peer: reason for peer, reason in message.peers.items() if peer in copies}
        return found

    def _behind(self, sender: str, message: CopiesLag) -> None:
        application, operator = message.application, message.operator
        for name in [name for name in self._heard if name not in self.owned]:
            del self._heard[name]
        owned = self.owned.get(application)
        if owned is None or owned.graph.attempt != message.attempt or operator not in owned.graph.roles.peers:
            return
        heard = self._heard.setdefault(application, {})
        known = heard.get((operator, sender))
        if known is not None and known.number >= message.number:
            return
        before = self.cannot_take_over(application, operator)
        heard[operator, sender] = message
        now = self.cannot_take_over(application, operator)
        if now != before:
            backups = owned.graph.roles.backups.get(operator, ())
            asked, left = 1 + len(backups), 1 + len(set(backups) - set(now))
            self.peer.record(CopiesBehind, application, operator=operator, asked=asked, left=left, peers=now)
