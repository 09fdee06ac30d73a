"""How it is decided who executes what: one question, and whoever answers it.

Theory of operation
-------------------
A :class:`Decider` is asked where the components of a plan go, and answers with a :class:`Decision` or a
:class:`Refusal`, later, when it has heard of other peers. There are three:

==========  ============================================================  ===========================
composed    probes find the candidates that serve it best (chapter 2)     ``algorithms/composition``
resilient   ROD proposes a peer for each operator (chapter 3), and        :mod:`.resilient_placement`
            probes find out whether these can
replicated  the placement protocol proposes a peer and backups for each   :mod:`.replica_placement`
            (chapter 4), and probes find out whether these can
==========  ============================================================  ===========================

So what is proposed is held to the same conditions as what was found: capacity, bandwidth, the limits of the plan, and
the projected impact on the applications that run. Relocation will be the fourth: for an application that runs it will
propose peers as the last two do, and :mod:`synergy_nb.lifecycle.migration` will carry out what was decided.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeAlias

from synergy_nb.control.graph import Roles
from synergy_nb.control.peer import Peer
from synergy_nb.events import CandidatesFound
from synergy_nb.lifecycle.alternatives import Found
from synergy_nb.lifecycle.request import Request
from synergy_nb.overlay.load_levels import residual_cores
from synergy_nb.plan import Plan
from synergy_nb.plan.catalogue import KINDS, TAP

__all__ = ["Answer", "Decided", "Decider", "Decision", "Prober", "Refusal", "component_name", "names", "offers"]


class Decision(NamedTuple):
    """Who executes what.

    Parameters
    ----------
    roles
        Component graph λ, and replication graph ρ where the plan is replicated.
    reached
        Operator to the seconds from a source until a tuple is done, as probes found it.
    """

    roles: Roles
    reached: dict[str, float]


class Refusal(NamedTuple):
    """Why nobody executes it.

    Parameters
    ----------
    reason
        The conditions that failed, where, with the numbers.
    again
        Whether the decider is to be asked once more, with what the directory knows by then.
    at
        Addresses of the peers that cannot take on what was to be theirs, or would harm others by that.
    """

    reason: str
    again: bool = False
    at: frozenset[str] = frozenset()


Answer: TypeAlias = Decision | Refusal
Decided: TypeAlias = Callable[[Request, Answer], None]
"""Takes the answer of a decider."""


class Decider(Protocol):
    """Decides who executes what."""

    def decide(self, request: Request, found: Found, decided: Decided) -> None:
        """Decide on ``request.way``; the answer goes to ``decided``, once for each call.

        Parameters
        ----------
        request
            Request that is to be decided.
        found
            Entries of the directory by name, of the components of the plan among others.
        decided
            Takes the answer.
        """

    def next(self, request: Request, reason: str, decided: Decided) -> None:
        """Decide otherwise, as what was decided could not be set up for that reason; the answer goes to ``decided``."""

    def established(self, request: Request) -> None:
        """The last decision was carried out: give back what is held for any other."""

    def release(self, request: Request) -> None:
        """The request was given up or rejected, or its application has ended: give back all that is held for it."""


class Prober(Decider, Protocol):
    """Decides by probes, also for others that have proposed who executes what."""

    def probe(self, request: Request, proposed: Roles, decided: Decided) -> None:
        """Have probes find out whether one peer for each operator can serve a request; the answer goes to ``decided``.

        Parameters
        ----------
        request
            Request that is to be decided.
        proposed
            Who is to execute what, and who is to back it up.
        decided
            Takes the answer.
        """


def component_name(plan: Plan, operator: str) -> str:
    """Directory name of the components that can execute an operator: its kind, and for a source its connector.

    A delay that names a component is executed by ``delay:NAME``. All parts on Spark are executed by ``spark``. What
    gives a running stream is not looked up by such a name.
    """
    asked = plan.operators[operator]
    which = asked.params.get(KINDS[asked.kind].component) if asked.kind in KINDS else None
    return f"{asked.kind}:{which}" if which else asked.kind


def names(plan: Plan) -> set[str]:
    """Directory names of the components of a plan."""
    return {component_name(plan, name) for name, each in plan.operators.items() if each.kind != TAP}


class Offers(NamedTuple):
    """What the directory knows for a plan.

    Parameters
    ----------
    candidates
        Operator to the addresses of the peers that may execute it.
    missing
        Operator that nobody can execute to the reason.
    free
        Address to the cores that a peer has left, where the directory knows.
    """

    candidates: dict[str, tuple[str, ...]]
    missing: dict[str, str]
    free: dict[str, float]


def offers(peer: Peer, request: Request, found: Found, is_dead: Callable[[str], bool]) -> Offers:
    """Find out who may execute each operator of a request, and write it down.

    Parameters
    ----------
    peer
        The peer, which has the sinks.
    request
        Request that is to be decided.
    found
        Entries of the directory by name.
    is_dead
        Tells whether a peer is known to have died.
    """
    able: dict[str, tuple[str, ...]] = {}
    missing: dict[str, str] = {}
    plan = request.way.plan
    for operator, asked in plan.operators.items():
        if asked.kind == "sink":
            able[operator] = (peer.address,)
            continue
        if asked.kind == TAP:
            able[operator] = tuple(sorted(asked.params["providers"]))
            continue
        name = component_name(plan, operator)
        entries = [entry for entry in found.get(name, ()) if not is_dead(entry.host)]
        if asked.at is not None:
            entries = [entry for entry in entries if asked.at in (entry.host, entry.attributes.get("peer"))]
        able[operator] = tuple(sorted({entry.host for entry in entries}))
        if not entries:
            where = f" at {asked.at!r}" if asked.at is not None else ""
            missing[operator] = f"{operator}: no component offers {name!r}{where}"
    free = residual_cores(entry for entries in found.values() for entry in entries)
    known = {operator: list(peers) for operator, peers in able.items()}
    peer.record(CandidatesFound, request.name, candidates=known, free=free)
    return Offers(able, missing, free)
