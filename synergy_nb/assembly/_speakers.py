"""Who may say what: the one table of what a peer believes whom.

Theory of operation
-------------------
A peer may only speak for itself. Who has sent a message is what the driver says, which takes it from the certificate of
the link; the fields of a message never are. So a message that names a peer (an origin, a host, a reader) counts only if
that peer has sent it, or one of which its receiver knows that it may speak for that peer in the present state. The rest
is refused by name, and recorded. Nothing here uses cryptography.

``SPEAKERS`` has a row for each type of message, of one of these kinds:

- *its sender only*: the message says nothing of others, or the handler looks up the sender where it stores what is said
  (a load, a signature of life, a question);
- *an answer*: the handler takes it from the peer that it has asked, by the number of its question;
- *by a check*: a method of :class:`Speakers` decides, from what this peer knows of the application or of the ring.

A peer *leads* an application in the eyes of another one if that knows it as its origin, as its successor, or as an
earlier one of both. If all of them are dead there, any peer that takes part may lead: nobody else could show it.

What a peer says of others counts as far as they or measurements confirm it: see :mod:`synergy_nb.overlay.membership`
for who lives, and :mod:`synergy_nb.overlay.directory_entries` for what others offer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from synergy_nb.algorithms.availability import PlacementOrigin
from synergy_nb.algorithms.availability.messages import decode_task
from synergy_nb.algorithms.composition import Probing
from synergy_nb.control.peer import Message, Peer
from synergy_nb.lifecycle.records.messages import Graph
from synergy_nb.lifecycle.session import Session
from synergy_nb.lifecycle.sessions.sink_reports import sink_peers
from synergy_nb.overlay.pastry import Pastry

__all__ = ["SPEAKERS", "Speaker", "Speakers"]


class Speaker(NamedTuple):
    """Who may send a message: in words, and the name of the method of :class:`Speakers` that checks it, if one does."""

    who: str
    check: str = ""


ITSELF: Final = Speaker("any peer, about itself")
ASKED: Final = Speaker("the peer that was asked")
LEADER: Final = Speaker("who leads the application", "leads")
NEW_GRAPH: Final = Speaker("who leads the application by the graph in it, and is known to", "leads_by_graph")
MEMBER: Final = Speaker("a peer of the application", "takes_part")
EXECUTES: Final = Speaker("the peer that executes the component; its handler compares")
NEIGHBOUR: Final = Speaker("a neighbour in the ring, never against what the host said itself", "is_neighbour")

SPEAKERS: Final[Mapping[str, Speaker]] = {
    # the ring
    "Routed": Speaker("any peer; the message in it has only the word of the last hop for its origin"),
    "JoinRequest": ITSELF,
    "RouteAck": ASKED,
    "JoinReply": ASKED,
    "Leaves": Speaker("any peer; whom it mentions is pinged"),
    "RowRequest": ITSELF,
    "RowReply": Speaker("any peer; whom it mentions is pinged"),
    "Leaving": ITSELF,
    # who lives
    "Ping": Speaker("any peer, about itself; what it says of others is a reason to look"),
    "PingAck": Speaker("any peer, about itself; what it says of others is a reason to look"),
    "PingFor": ITSELF,
    "PingForAck": ASKED,
    # the directory
    "Register": Speaker("the host of the entries; if others hand it on, the host is asked"),
    "Renew": ITSELF,
    "LoadUpdate": ITSELF,
    "Copies": NEIGHBOUR,
    "CopiesStored": ASKED,
    "RenewCopies": NEIGHBOUR,
    "EntriesRequested": ITSELF,
    "Lookup": ITSELF,
    "Pull": ITSELF,
    "Pulled": ASKED,
    "Registered": Speaker("any peer; what is missing is sent again"),
    "Found": ASKED,
    "ContentsHeld": ITSELF,
    # set-up
    "Confirm": Speaker("who leads the application, or the peer of the consumer by the graph in it", "confirms"),
    "Share": NEW_GRAPH,
    "Confirmed": Speaker("the peer of the source, the helper itself, or the successor", "has_confirmed"),
    "Refused": MEMBER,
    "Begin": LEADER,
    "End": LEADER,
    "Feedback": Speaker("who leads the application; its handler compares"),
    "GraphAsked": ITSELF,
    "Granted": Speaker("who leads the application, or led it when the receiver left it, or may succeed that peer"),
    # what components add to delays
    "TimesReported": EXECUTES,
    "GrowthAsked": MEMBER,
    "GrowthAnswered": LEADER,
    "GrowthChanged": MEMBER,
    # changes
    "GraphChanged": Speaker("who leads the application; told by others, it is a reason to ask", "tells_graph"),
    "TakeOver": NEW_GRAPH,
    "TookOver": Speaker("the peer of the component by the graph", "executes"),
    "Lost": Speaker("a peer of the application, about what it executes; its handler compares"),
    "Follow": NEW_GRAPH,
    "Followed": Speaker("the old or the new peer of the move; its handler compares"),
    "Rebuild": NEW_GRAPH,
    "Rebuilt": Speaker("the new peer of the replica; its handler compares"),
    "ReadersQuestion": LEADER,
    "ReadersComplete": MEMBER,
    "CopiesLag": Speaker("who executes the component, or keeps a copy, about that copy", "knows_copies"),
    "HoldAnswered": Speaker("a peer whose components the application shares; its handler compares"),
    "ProducersMoved": Speaker("who leads the owner of the streams", "leads_owner"),
    "ProducersFollowed": Speaker("who leads the sharer; its handler compares"),
    "SharerLed": Speaker("who leads the sharer by the graph in it; its handler compares"),
    "SinksReported": Speaker("a peer with sinks of the application", "has_sinks"),
    "SkippedReported": MEMBER,
    "Entrust": NEW_GRAPH,
    "Claim": Speaker("the successor; its handler compares"),
    "Claimed": ASKED,
    # composition
    "Probe": Speaker("the peer of the last hop of its path, for a known origin; its handler compares"),
    "Acknowledged": ASKED,
    "Release": LEADER,
    "Returned": Speaker("the peer of the last hop of its path", "ends_path"),
    "Merged": Speaker("the peer of the last hop of its path", "ends_path"),
    "Dropped": Speaker("the peer that drops, or the one before a silent peer", "dropped"),
    "CandidateQuestion": ITSELF,
    "CandidateAnswer": ASKED,
    # migration and collection
    "MigrationReply": ASKED,
    "MigrationEndReported": Speaker("who leads the application of the component; its handler compares"),
    "MigrationRequest": ITSELF,
    "MeasureHop": ITSELF,
    "HopMeasured": ASKED,
    "Relocate": EXECUTES,
    "NoTargetFound": EXECUTES,
    "WeightsReported": EXECUTES,
    "RevivalRequested": EXECUTES,
    # placement of replicas
    "PlacementReply": ASKED,
    "Survey": ITSELF,
    "Surveyed": ASKED,
    "PlacementNegotiation": Speaker("a peer of the graph in it, or the origin", "is_placed"),
    "PlacementRequest": Speaker("a peer of the graph in it, or the origin", "is_placed"),
    "PlacementDecision": Speaker("a peer of the graph in it, or the origin", "is_placed"),
    "PlacementRenewal": LEADER,
    "PlacementWithdrawn": Speaker("who leads the application, or has asked for the replica", "has_asked"),
    "PlacementReport": Speaker("any peer that knows the attempt; at worst the application is placed anew"),
}


class Speakers:
    """What one peer knows of who may say what, for the checks of :data:`SPEAKERS`: "" or the reason of a refusal."""

    def __init__(
        self, peer: Peer, pastry: Pastry, session: Session, probing: Probing, placement: PlacementOrigin | None
    ) -> None:
        self._peer = peer
        self._pastry = pastry
        self._session = session
        self._probing = probing
        self._hosting = None if placement is None else placement.replica_host

    def guard(self) -> None:
        """Have the kernel refuse what its sender may not say; called when all protocols are added."""
        checks = {kind: SPEAKERS[kind.__name__].check for kind in self._peer.message_types if not kind.routed}
        rules: dict[type[Message], Callable[[str, Any], str]] = {
            kind: getattr(self, check) for kind, check in checks.items() if check
        }
        self._peer.guard(rules)

    # -- who leads -----------------------------------------------------------------------------------------------------

    def leaders(self, application: str) -> set[str]:
        """Peers that lead an application, may succeed, or have led it, as far as this peer knows."""
        session = self._session
        known: set[str] = set()
        member, led = session.members.get(application), session.led_graph(application)
        if member is not None:
            known.update((member.leader, *member.led_before, member.graph.origin, member.graph.successor))
        if led is not None:
            known.update((led.origin, led.successor))
        entrusted = session.succession.entrusted.get(application)
        if entrusted is not None:
            known.update((entrusted.graph.origin, entrusted.graph.successor))
        known.add(self._probing.origin(application))
        if self._hosting is not None:
            known.add(self._hosting.origin(application))
        return known - {""}

    def _leads(self, sender: str, application: str) -> str:
        known = self.leaders(application)
        if not known or sender in known:
            return ""
        member = self._session.members.get(application)
        graph = self._session.graph(application) if member is None else member.graph
        dead = self._session.membership.is_dead
        if graph is not None and sender in graph.watched and all(map(dead, known - {self._peer.address})):
            return ""
        return f"{', '.join(sorted(known))} may lead {application}"

    def leads(self, sender: str, message: Any) -> str:
        """Check that the sender leads the application, if this peer knows it."""
        return self._leads(sender, getattr(message, "application", "") or message.request)

    def leads_by_graph(self, sender: str, message: Any) -> str:
        """Check that the graph in the message names its sender as its origin, and that this may lead."""
        graph: Graph = message.graph
        if graph.origin != sender:
            return f"{graph.origin} leads {graph.application} by its graph"
        return "" if self._is_old(graph) else self._leads(sender, graph.application)

    def tells_graph(self, sender: str, message: Any) -> str:
        """Check a graph that comes from its origin; what others tell is only a reason to ask that one."""
        return self.leads_by_graph(sender, message) if message.graph.origin == sender else ""

    def confirms(self, sender: str, message: Any) -> str:
        """Check who sets up a component: its origin, or the peer of the consumer that is set up already."""
        graph: Graph = message.graph
        if sender not in (graph.origin, graph.roles.peers.get(message.consumer)):
            return f"{graph.origin} leads {graph.application} by its graph"
        member = self._session.members.get(graph.application)
        if member is not None and member.started and graph.attempt > member.graph.attempt:
            return f"{graph.application} runs here"
        return "" if self._is_old(graph) else self._leads(graph.origin, graph.application)

    def _is_old(self, graph: Graph) -> bool:
        """Whether the handler refuses a graph, as this peer knows a later one."""
        member = self._session.members.get(graph.application)
        return member is not None and member.outdates(graph)

    def leads_owner(self, sender: str, message: Any) -> str:
        """Check that the sender leads the owner of streams that an application of this peer shares."""
        graph = self._session.led_graph(message.application)
        if graph is None:
            return ""
        owned = [each for each in graph.producers if each.application == message.owner]
        known = {each.origin for each in owned} | {each.successor for each in owned} - {""}
        if not owned or sender in known or all(map(self._session.membership.is_dead, known)):
            return ""
        return f"{', '.join(sorted(known))} may lead {message.owner}"

    # -- who takes part ------------------------------------------------------------------------------------------------

    def _led(self, message: Any) -> Graph | None:
        """The graph of an application that this peer leads, if the message is about its attempt."""
        graph = self._session.led_graph(message.application)
        return graph if graph is not None and graph.attempt == getattr(message, "attempt", graph.attempt) else None

    def takes_part(self, sender: str, message: Any) -> str:
        """Check that the sender is a peer of the application, if this peer leads it."""
        return self._one_of(sender, message, self._session.taking_part)

    def _one_of(self, sender: str, message: Any, those: Callable[[Graph], Collection[str]]) -> str:
        graph = self._led(message)
        if graph is None or sender in those(graph):
            return ""
        return f"{sender} has no such part in {message.application}"

    def has_confirmed(self, sender: str, message: Any) -> str:
        """Check that the peer of a source, a helper or the successor speaks for itself."""
        graph = self._led(message)
        if graph is None:
            return ""
        expected = graph.roles.peers.get(message.operator, message.operator) or graph.successor
        return "" if sender in (expected, message.operator) else f"{expected} has to confirm it"

    def executes(self, sender: str, message: Any) -> str:
        """Check that the sender executes the component by the graph."""
        return self._one_of(sender, message, lambda graph: (graph.roles.peers.get(message.operator, ""),))

    def has_sinks(self, sender: str, message: Any) -> str:
        """Check that the sender has sinks of the application."""
        return self._one_of(sender, message, sink_peers)

    def knows_copies(self, sender: str, message: Any) -> str:
        """Check that the sender executes the component, or reports on the copy that it keeps itself."""
        graph = self._led(message)
        if graph is None or graph.roles.peers.get(message.operator) == sender or message.peers.keys() <= {sender}:
            return ""
        return f"{graph.roles.peers.get(message.operator)} reports on copies of other peers"

    def is_neighbour(self, sender: str, message: Any) -> str:
        """Check that the sender is in the leaf set."""
        del message
        return "" if sender in self._pastry.leaves else "only neighbours in the ring hold the same entries"

    # -- composition and placement -------------------------------------------------------------------------------------

    def ends_path(self, sender: str, message: Any) -> str:
        """Check that a path ends at the peer that returns it."""
        last = message.path[-1].peer if message.path else ""
        return "" if last == sender else f"its path ends at {last}"

    def dropped(self, sender: str, message: Any) -> str:
        """Check that a probe is reported by the peer that has dropped it, or by the one that has sent it in vain."""
        silent = message.condition == "acknowledgement" and sender in message.via
        return "" if silent or message.at == sender else f"{message.at} is said to have dropped it"

    def is_placed(self, sender: str, message: Any) -> str:
        """Check that whoever places a replica is in the graph so far, or is the origin of the application."""
        try:
            task = decode_task(message.task)[0]
        except (msgspec.MsgspecError, ValueError):
            return ""  # the handler refuses it, and says why
        if sender == task.origin:
            return self._leads(sender, task.request)
        if sender not in message.graph.addresses:
            return f"it has no part in {task.request} by the graph"
        return self._leads(task.origin, task.request)

    def has_asked(self, sender: str, message: Any) -> str:
        """Check that who withdraws a replica has asked for it, or leads the application."""
        if message.operator and self._hosting is not None and sender in self._hosting.askers(message.request):
            return ""
        return self.leads(sender, message)
