"""Backups of operators in a plan in which others have active replicas: the origin chooses their peers.

Candidates come in the order of section 4.3 of the dissertation: those that the application uses already, then the more
reliable, then the nearest; those that have no room to take over come after all others, and so do peers whose death ends
the application anyway. A link that cannot carry the output of the primary is left out. What the candidates answered is
all that is known; every peer checks it once more when it commits.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, Protocol

from synergy_nb.algorithms.replication.candidate_survey import CandidateAnswer
from synergy_nb.control.peer import Peer
from synergy_nb.events import ReplicaDecided
from synergy_nb.plan import Plan
from synergy_nb.plan.derived.active_replicas import degrees_of, original
from synergy_nb.plan.terms.units import counted

__all__ = ["BackupPeers", "CandidateLink", "Preferred"]

RECORDED = 8  # maximum number of candidates that an event names


class CandidateLink(NamedTuple):
    """What is known of a candidate for a backup: its link from the primary, and itself."""

    latency: float  # one-way delay from the primary, seconds
    bandwidth: float  # bandwidth that is left from the primary, bytes/s
    cores: float  # cores that the candidate has left
    # failure, domains: probability that it fails by itself, and its failure domains with theirs
    failure: float
    domains: Mapping[str, float]


class Preferred(Protocol):
    """The function that orders candidates, :func:`synergy_nb.algorithms.availability.selection.ordered`."""

    def __call__(
        self,
        candidates: Sequence[str],
        links: Mapping[str, CandidateLink],
        used: Collection[str],
        bandwidth: float,
        *,
        beside: Collection[str],
        needs: float,
        single: Collection[str],
    ) -> list[str]:
        """Return the candidates that can have a backup, the preferred first."""


class BackupPeers:
    """Chooses the peers of the backups of a plan whose primaries and active replicas are placed."""

    def __init__(
        self,
        plan: Plan,  # plan as it was submitted, or with its replicas
        where: Mapping[str, str],  # operator, or active replica, to the address of its peer
        answers: Mapping[str, CandidateAnswer],  # address of each candidate to what it answered
        preferred: Preferred,  # function that orders candidates
        single: Collection[str],  # peers whose death ends the application
        found: Mapping[str, tuple[str, ...]] = MappingProxyType({}),  # backups that it has already, as `found`
    ) -> None:
        self._plan = plan
        self._where = where
        self._answers = answers
        self._preferred = preferred
        self._single = set(single)
        self.found = dict(found)  # operator to the addresses of its backups
        # streams from primaries to their backups, with their bandwidths in bytes/s
        self.streams: list[tuple[str, str, int, float]] = []
        self.cost = 0.0  # network cost of these streams, bytes on the way
        self._links: dict[tuple[str, str], float] = {}  # bandwidth that the application takes, by sender and receiver
        self._cores: dict[str, float] = {}  # cores that the application takes, by peer
        for name, at in where.items():
            self._cores[at] = self._cores.get(at, 0.0) + plan.load(original(name))

    def place(self, peer: Peer, request: str, avoided: Collection[str]) -> str:
        """Choose the backups, and record why; return an empty text, or the reason why there are too few peers.

        ``avoided``: peers that have refused components of it, which are chosen only if there is no other.
        """
        self._count_streams()
        for name, wanted in degrees_of(self._plan).items():
            able = [at for at in sorted(self._answers) if name in self._answers[at].hops]
            for number in range(1, wanted.passive):
                at = self._choose(peer, request, name, [each for each in able if each not in avoided])
                at = at or self._choose(peer, request, name, able)
                if not at:
                    willing = f"{counted(len(able), 'peer')} would execute it"
                    return (
                        f"operator {name}: no peer for backup {number} of {wanted.passive - 1}: "
                        f"{willing}; expected one more, with room on the link from its primary"
                    )
                self.found[name] = (*self.found.get(name, ()), at)
            if name in self.found:
                count = len(self.found[name])
                self.streams.append((name, f"backups of {name}", count, count * self._plan.bandwidth(name)))
        return ""

    def further(self, name: str, able: Sequence[str]) -> list[str]:
        """Return the peers that can have one more backup of an operator, the preferred first.

        ``name``: operator, which has the backups that ``found`` states; ``able``: addresses of the peers that would
        execute it.
        """
        self._count_streams()
        return self._order(name, able)[0]

    def _count_streams(self) -> None:
        """Count the bandwidth of links that the streams of the plan take, and the streams to its present backups."""
        for name, peers in self.found.items():
            for link in ((self._where[name], at) for at in peers):
                self._links[link] = self._links.get(link, 0.0) + self._plan.bandwidth(name)
        replicas: dict[str, list[str]] = {}
        for name, at in self._where.items():
            replicas.setdefault(original(name), []).append(at)
        for name, operator in self._plan.operators.items():
            for up in dict.fromkeys(map(original, () if operator.replica_of else operator.inputs)):
                for link in {(one, other) for one in replicas[up] for other in replicas[name] if one != other}:
                    self._links[link] = self._links.get(link, 0.0) + self._plan.bandwidth(up)

    def _choose(self, peer: Peer, request: str, name: str, able: Sequence[str]) -> str:
        """Choose the peer of one more backup of an operator; empty if there is none."""
        primary, bandwidth = self._where[name], self._plan.bandwidth(name)
        order, links = self._order(name, able)
        if not order:
            return ""
        at = order[0]
        used = self._used
        self._links[primary, at] = self._links.get((primary, at), 0.0) + bandwidth
        self.cost += bandwidth * links[at].latency
        peer.record(
            ReplicaDecided,
            request,
            operator=name,
            role="backup",
            at=at,
            used=at in used,
            apart=bool(self._single),
            latency_s=links[at].latency,
            order=order[:RECORDED],
            candidates=len(order),
            passed=[],
        )
        return at

    @property
    def _used(self) -> set[str]:
        """Peers that the application uses."""
        return {*self._where.values(), *(at for several in self.found.values() for at in several)}

    def _order(self, name: str, able: Sequence[str]) -> tuple[list[str], dict[str, CandidateLink]]:
        """Return the peers that can have one more backup of an operator, the preferred first, and their links."""
        primary, bandwidth = self._where[name], self._plan.bandwidth(name)
        links: dict[str, CandidateLink] = {}
        for each in able:
            answer = self._answers[each]
            link = answer.links.get(primary)
            if link is not None:
                left = link.bandwidth - self._links.get((primary, each), 0.0)
                cores = answer.free - self._cores.get(each, 0.0)
                links[each] = CandidateLink(link.delay, left, cores, answer.failure, answer.domains)
        beside = (primary, *self.found.get(name, ()))
        order = self._preferred(
            able, links, self._used, bandwidth, beside=beside, needs=self._plan.load(name), single=self._single
        )
        return order, links
