"""A peer's survey of its links: latency, residual bandwidth, and failure probabilities of other peers.

The dissertation's monitoring module pings, and measures bandwidth (section 4.2). Here the receiving end of a virtual
link records the bandwidth that is committed on it. So one question to a peer gives both: the time until the answer is
the round trip, and the answer contains the residual bandwidth. An answer is used for some seconds, in which a peer may
place many components; the receiving end checks the bandwidth again when a replica is placed there. A peer that has
offered to take components holds the bandwidth of their backups, so that it offers none of it twice.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from synergy_nb.algorithms.availability._failures import IndependentFailures
from synergy_nb.algorithms.availability.messages import PlacementConfig, Survey, Surveyed, Task
from synergy_nb.control.ledger import Ledger
from synergy_nb.control.peer import Peer, Protocol
from synergy_nb.control.roles import Roles
from synergy_nb.overlay.answer_limits import AnswerLimit, AnswerLimits
from synergy_nb.overlay.latency import Latency

__all__ = ["LinkSurvey", "SurveyedLink", "failures_of"]

MOST_LINKS: Final = 4096  # number of measured links that a peer remembers


class SurveyedLink(NamedTuple):
    """A virtual link to another peer."""

    latency: float  # one-way delay l, seconds
    bandwidth: float  # residual bandwidth rb towards the peer, bytes/s
    cores: float  # residual processing capacity rp of the peer
    # failure, domains: failure probability ϕ of the peer, and its domains with their failure probabilities, the widest
    # domain first
    failure: float
    domains: Mapping[str, float]


class _PendingSurvey:
    """A survey under way; every round of questions has its own number, which identifies the round trip of an answer."""

    __slots__ = ("done", "peers", "rounds", "timer", "waiting")

    def __init__(
        self, waiting: set[str], peers: tuple[str, ...], done: Callable[[dict[str, SurveyedLink]], None]
    ) -> None:
        self.waiting = waiting
        self.peers = peers
        self.done = done
        self.rounds: list[int] = []
        self.timer: AnswerLimit | None = None


class LinkSurvey(Protocol):
    """Surveys the links of one peer."""

    def __init__(
        self,
        peer: Peer,
        ledger: Ledger,
        latency: Latency,
        is_dead: Callable[[str], bool],  # whether a peer is known to have died; such a peer is not asked
        config: PlacementConfig,
        answers: AnswerLimits,  # time limits on the answers of other peers, which lateness stretches
        # failure, domains: failure probability ϕ and domains that this peer reports to others
        failure: float = 0.0,
        domains: Mapping[str, float] | None = None,
    ) -> None:
        super().__init__(peer)
        self.ledger = ledger
        self.latency = latency
        self.is_dead = is_dead
        self.config = config
        self._answers = answers
        self.own = SurveyedLink(0.0, math.inf, ledger.cores, failure, dict(domains or {}))
        self._links: dict[
            str, tuple[float, SurveyedLink | None]
        ] = {}  # peer to (time of the question in seconds, answer)
        self._rounds: dict[int, tuple[float, _PendingSurvey]] = {}  # number of a round to (time in seconds, survey)
        self._number = 0
        self._held: dict[tuple[str, str], dict[str, float]] = {}  # (request, operator) to the bytes/s by peer
        self._subtracted: dict[str, set[str]] = {}  # request to the peers on whose links it got bandwidth
        self.handlers = {Survey: self._survey, Surveyed: self._surveyed}

    def start(self) -> None:
        """Start with numbers that this peer has not used before a restart."""
        self._number = int(self.peer.now * 1000)

    def survey_operators(
        self, task: Task, operators: Sequence[str], graph: Roles, done: Callable[[dict[str, SurveyedLink]], None]
    ) -> None:
        """Survey the links that matter for operators, and call ``done`` with the links to peers that answer.

        The links lead to the peers that must be chosen or are likely to be, to this one, and to the nearest of the
        others. Peers of unknown distance are in a different order at each peer.
        """
        own = self.peer.address
        candidates = {peer for name in operators for peer in task.candidates[name]}
        required = {peer for name in operators if len(found := task.for_primary(name)) == 1 for peer in found}
        first = {own} | required | graph.addresses & candidates
        others = sorted(candidates - first, key=lambda peer: zlib.crc32(f"{own}/{peer}".encode()))
        peers = [*sorted(first), *self.latency.nearest(others, self.config.most_surveyed)]
        self.survey(peers, lambda links: done(self._without_held(links, task.request)), required)

    def survey(
        self, peers: Iterable[str], done: Callable[[dict[str, SurveyedLink]], None], required: Collection[str] = ()
    ) -> None:
        """Survey the links to ``peers``, and call ``done`` with those that answer; at once if all are known.

        A peer that does not answer is asked again, ``sends`` times in all, and then not for ``fresh`` seconds, unless
        it is ``required``.
        """
        peers = tuple(dict.fromkeys(peers))
        own = self.peer.address
        stale = {peer for peer in peers if peer != own and not self.is_dead(peer) and self._is_stale(peer, required)}
        if not stale:
            done(self.known(peers))
            return
        self._send(_PendingSurvey(stale, peers, done))

    def _is_stale(self, peer: str, required: Collection[str]) -> bool:
        """Whether the last answer of a peer is too old to be used."""
        when, link = self._links.get(peer, (-math.inf, None))
        return self.peer.now - when > self.config.fresh or (link is None and peer in required)

    def _send(self, pending: _PendingSurvey) -> None:
        """Send a question to the peers that have not answered yet."""
        if len(pending.rounds) == self.config.sends:
            self._complete(pending)
            return
        self._number += 1
        pending.rounds.append(self._number)
        seconds = self.config.survey / self.config.sends
        pending.timer = self._answers.after(seconds, pending.waiting, self._send, pending)
        self._rounds[self._number] = self.peer.now, pending
        for peer in sorted(pending.waiting):
            self.peer.send(peer, Survey(self._number))

    def subtract(self, peer: str, bandwidth: float, request: str, operator: str = "") -> None:
        """Subtract ``bandwidth`` of a link that a request has got; if it was offered before, it was held."""
        held = self._held.get((request, operator), {})
        if peer in held:
            held[peer] -= bandwidth
        self._subtracted.setdefault(request, set()).add(peer)
        sent, link = self._links.get(peer, (0.0, None))
        if link is not None:
            self._links[peer] = sent, link._replace(bandwidth=link.bandwidth - bandwidth)

    def hold(self, request: str, operator: str, bandwidth: Mapping[str, float]) -> None:
        """Keep bandwidth of links (bytes/s by peer), which was offered with an operator, from other requests."""
        self._held[request, operator] = dict(bandwidth)

    @property
    def holds(self) -> frozenset[tuple[str, str]]:
        """Requests and operators for whose offers bandwidth is held."""
        return frozenset(self._held)

    def given_back(self, request: str) -> None:
        """Ask again for the bandwidth of links on which a request has given back what it had."""
        for peer in self._subtracted.pop(request, ()):
            self.forget(peer)

    def let_go(self, request: str, operator: str) -> None:
        """Stop holding bandwidth for what was offered with an operator."""
        self._held.pop((request, operator), None)

    def _without_held(self, links: dict[str, SurveyedLink], request: str) -> dict[str, SurveyedLink]:
        """Links without the bandwidth that is held for other requests."""
        for (other, _), held in self._held.items():
            for peer, bandwidth in held.items() if other != request else ():
                if peer in links:
                    links[peer] = links[peer]._replace(bandwidth=links[peer].bandwidth - bandwidth)
        return links

    def forget(self, peer: str) -> None:
        """Discard the last answer of ``peer``: it has less left than that answer says."""
        self._links.pop(peer, None)

    def known(self, peers: Iterable[str]) -> dict[str, SurveyedLink]:
        """Return the last answers of peers that are not known to have died."""
        found: dict[str, SurveyedLink] = {}
        for peer in peers:
            link = self.own if peer == self.peer.address else self._links.get(peer, (0.0, None))[1]
            if link is not None and not self.is_dead(peer):
                found[peer] = link
        return found

    def _survey(self, sender: str, message: Survey) -> None:
        left = self.ledger.residual_bandwidth("", sender)
        own = self.own
        cores = self.ledger.residual_cores("")
        self.peer.send(sender, Surveyed(message.number, left, cores, own.failure, dict(own.domains)))

    def _surveyed(self, sender: str, message: Surveyed) -> None:
        sent, pending = self._rounds.get(message.number, (0.0, None))
        if pending is None or sender not in pending.waiting:
            return
        self.latency.sample(sender, self.peer.now - sent)
        latency = self.latency.one_way(sender) or 0.0
        link = SurveyedLink(latency, message.bandwidth, message.cores, message.failure, message.domains)
        self._store_link(sender, link)
        pending.waiting.discard(sender)
        if not pending.waiting:
            self._complete(pending)

    def _complete(self, pending: _PendingSurvey) -> None:
        if pending.timer is not None:
            pending.timer.cancel()
        for number in pending.rounds:
            del self._rounds[number]
        for silent in pending.waiting:
            self._store_link(silent, None)
        pending.done(self.known(pending.peers))

    def _store_link(self, peer: str, link: SurveyedLink | None) -> None:
        self._links.pop(peer, None)
        self._links[peer] = self.peer.now, link
        while len(self._links) > MOST_LINKS:
            del self._links[next(iter(self._links))]


def failures_of(links: Mapping[str, SurveyedLink]) -> IndependentFailures:
    """The failure model from the probabilities that peers report; of several for one domain, the highest counts.

    Raises ``ValueError`` if a domain lies in one domain according to one peer, and in another according to another.
    """
    probability: dict[str, float] = {}
    for link in links.values():
        for domain, value in link.domains.items():
            probability[domain] = max(value, probability.get(domain, 0.0))
    return IndependentFailures(
        {peer: link.failure for peer, link in links.items()},
        {peer: tuple(link.domains) for peer, link in links.items()},
        probability,
    )
