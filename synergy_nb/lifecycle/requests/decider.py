"""The interface of the algorithms that decide which peer executes which operator of a plan.

Theory of operation
-------------------
The engine asks a :class:`Decider` for the peers of a plan. The decider exchanges messages with other peers, and calls
back later with a :class:`Decision` or a :class:`Refusal`. There are four deciders:

==========  ============================================================  ===========================
composed    probes find the candidates with the best graph (chapter 2)    ``algorithms/composition``
resilient   ROD proposes a peer for each operator (chapter 3), and        :mod:`.resilient_placement`
            probes check the proposal
replicated  the placement protocol proposes a primary and backups for     :mod:`.replica_placement`
            each operator (chapter 4), and probes check the primaries
active      the origin computes a deployment of active replicas, and of   ``algorithms/replication``
            the backups beside them, from the answers of all candidates;
            no probes, as routes multiply
==========  ============================================================  ===================="""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple, Protocol, TypeAlias

from synergy_nb.control.peer import Peer
from synergy_nb.control.roles import Roles
from synergy_nb.events import CandidatesFound
from synergy_nb.lifecycle.records.request import Request
from synergy_nb.lifecycle.requests.alternatives import DirectoryEntries
from synergy_nb.overlay.load_levels import free_cores
from synergy_nb.plan import Operator, Plan
from synergy_nb.plan.operators.catalogue import KINDS, TAP
from synergy_nb.plan.operators.sources import SOURCE

__all__ = [
    "Decided",
    "Decider",
    "Decision",
    "Prober",
    "Refusal",
    "component_name",
    "component_names",
    "find_candidates",
    "needed_contents",
    "needs_content",
]


class Decision(NamedTuple):
    """An accepted placement of a plan.

    Parameters
    ----------
    roles
        Component graph λ, and replication graph ρ where the plan is replicated.
    reached
        Operator to the projected seconds from a source until a tuple leaves the operator.
    promised
        Operator to its projected execution time, seconds; empty where peers need no agreement
        (:mod:`synergy_nb.lifecycle.sessions.agreements`).
    """

    roles: Roles
    reached: dict[str, float]
    promised: Mapping[str, float] = MappingProxyType({})


class Refusal(NamedTuple):
    """The answer of a decider that found no placement.

    Parameters
    ----------
    reason
        Conditions that failed, the peers where they failed, and the numbers.
    retry
        Whether the engine is to query the directory again and then ask the decider once more.
    refused_by
        Addresses of the peers that refused their components for lack of resources or because of the impact on others.
    unanswered
        Whether nobody has refused, but not all have answered in time: then the engine tries again for a while.
    missing
        Whether no peer that lives has some component: a silent one may have it, and then the engine tries again, too.
    """

    reason: str
    retry: bool = False
    refused_by: frozenset[str] = frozenset()
    unanswered: bool = False
    missing: bool = False


Decided: TypeAlias = Callable[[Request, Decision | Refusal], None]
"""Callback that receives the answer of a decider."""


class Decider(Protocol):
    """An algorithm that decides which peer executes which operator."""

    def decide(self, request: Request, found: DirectoryEntries, decided: Decided) -> None:
        """Decide on ``request.alternative``, and call ``decided`` once with the answer.

        Parameters
        ----------
        request
            Request that is to be decided.
        found
            Entries of the directory by name; those of all components of the plan are among them.
        decided
            Callback for the answer.
        """

    def next(self, request: Request, reason: str, decided: Decided) -> None:
        """Decide once more, because set-up of the last decision failed for that reason; call ``decided`` once."""

    def established(self, request: Request) -> None:
        """Release what is held for other graphs, because the last decision runs."""

    def release(self, request: Request) -> None:
        """Release all that is held for a request, because it was stopped or rejected, or its application has ended."""


class Prober(Decider, Protocol):
    """A decider by probes, which also checks the proposals of other deciders."""

    def probe(self, request: Request, proposed: Roles, decided: Decided) -> None:
        """Have probes check whether the proposed peers can execute the plan, and call ``decided`` once.

        Parameters
        ----------
        request
            Request that is to be decided.
        proposed
            Proposed peer of each operator, and proposed backups.
        decided
            Callback for the answer.
        """


def component_name(plan: Plan, operator: str) -> str:
    """Directory name of the components that can execute an operator: its kind, and for a source its connector.

    If an operator ``delay`` has a name, its component is ``delay:NAME``. A function or a table is named by its content.
    The component of every part on Spark is ``spark``. Taps have no component name.
    """
    node = plan.operators[operator]
    kind = KINDS.get(node.kind)
    if node.kind == SOURCE.kind and "function" in node.params:
        return f"{node.kind}:{node.params['function']}"
    which = None if kind is None else node.params.get(kind.component)
    if kind is None or not which:
        return node.kind
    text = kind.parameters[kind.component].type.text if kind.component in kind.parameters else None
    return f"{node.kind}:{which if text is None else text(which)}"


def needs_content(operator: Operator) -> bool:
    """Whether a peer needs what a plan only names to execute an operator: a function or a table."""
    return "function" in operator.params or (operator.kind in KINDS and KINDS[operator.kind].shipped)


def needed_contents(plan: Plan) -> dict[str, str]:
    """Contents that peers need for a plan: component to an operator that has it."""
    return {component_name(plan, name): name for name, each in plan.operators.items() if needs_content(each)}


def component_names(plan: Plan) -> set[str]:
    """Directory names of the components of a plan."""
    return {component_name(plan, name) for name, each in plan.operators.items() if each.kind != TAP}


class Candidates(NamedTuple):
    """The candidates of a plan.

    Parameters
    ----------
    candidates
        Operator to the addresses of the peers that can execute it.
    missing
        Operator without candidates to the reason.
    free
        Address of a peer to its free cores, for peers that have published their load.
    """

    candidates: dict[str, tuple[str, ...]]
    missing: dict[str, str]
    free: dict[str, float]


def find_candidates(
    peer: Peer, request: Request, found: DirectoryEntries, is_dead: Callable[[str], bool]
) -> Candidates:
    """Select the candidates of each operator of a request from the directory's answer, and record them.

    Parameters
    ----------
    peer
        The origin, which executes the sinks that are not bound to another peer.
    request
        Request that is to be decided.
    found
        Entries of the directory by name.
    is_dead
        Function from an address to whether that peer is known to have died.
    """
    peers_of: dict[str, tuple[str, ...]] = {}
    missing: dict[str, str] = {}
    plan = request.alternative.plan
    for operator, node in plan.operators.items():
        if node.kind == "sink":
            at = _sink_peer(request, node.at, peer.address, found)
            peers_of[operator] = (at,) if at and not is_dead(at) else ()
            if not peers_of[operator]:
                missing[operator] = f"{operator}: no peer {node.at!r} offers a component of the plan"
            continue
        if node.kind == TAP:
            peers_of[operator] = tuple(sorted(node.params["providers"]))
            continue
        name = component_name(plan, operator)
        entries = [entry for entry in found.get(name, ()) if not is_dead(entry.host)]
        if node.at is not None:
            entries = [entry for entry in entries if node.at in (entry.host, entry.attributes.get("peer"))]
        peers_of[operator] = tuple(sorted({entry.host for entry in entries}))
        if not entries:
            where = f" at {node.at!r}" if node.at is not None else ""
            missing[operator] = f"{operator}: no component offers {name!r}{where}"
    free = free_cores(entry for entries in found.values() for entry in entries)
    known = {operator: list(peers) for operator, peers in peers_of.items()}
    peer.record(CandidatesFound, request.name, candidates=known, free=free)
    return Candidates(peers_of, missing, free)


def _sink_peer(request: Request, at: str | None, origin: str, found: DirectoryEntries) -> str:
    """Address of the peer of a sink: the one that it is bound to, or else the origin; empty if it is not known."""
    if at is None or at in request.origin_names:
        return origin
    entries = (entry for each in found.values() for entry in each)
    return next((entry.host for entry in entries if at in (entry.host, entry.attributes.get("peer"))), "")
