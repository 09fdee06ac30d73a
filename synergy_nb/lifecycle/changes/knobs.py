"""Knobs: what users change while applications run, on live peers and on simulated ones.

:class:`Knobs` declares and checks the changes; ``Cluster`` and ``Simulation`` make them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, Final, Generic, Protocol, TypeVar

from synergy_nb.control.cuts import CUTS, Cut
from synergy_nb.drawing.notebook_views import view_of
from synergy_nb.errors import user_facing
from synergy_nb.plan import Plan
from synergy_nb.plan.terms.units import did_you_mean, duration
from synergy_nb.reporting.cluster_errors import ClusterError

__all__ = ["Knobs", "checked_operator"]

MOST_LOAD: Final = 0.99  # greatest share of a peer's cores that other programs may use


class Planned(Protocol):
    """A handle of an application."""

    @property
    def id(self) -> str:
        """Id of the application."""

    @property
    def plan(self) -> Plan:
        """Plan of the application."""


A = TypeVar("A", bound=Planned)


class Knobs(ABC, Generic[A]):
    """The changes that users may make while applications run."""

    # -- peers and links ---------------------------------------------------------------------------------------------

    @user_facing
    def kill(self, peer: str) -> None:
        """End a peer without warning (the process of a live one, by SIGKILL), to see how the others react."""
        self._kill(self._living("peer", peer))

    @user_facing
    def suspend(self, peer: str) -> None:
        """Stop a peer (the process of a live one, by SIGSTOP): it hangs until :meth:`resume`."""
        self._suspend(self._living("peer", peer))

    @user_facing
    def resume(self, peer: str) -> None:
        """Have a suspended peer go on; it handles what has arrived meanwhile."""
        self._resume(self._living("peer", peer))

    @user_facing
    def cut(self, peer: str, other: str, seconds: float | str | None = None, *, how: str = Cut.RESET) -> None:
        """Cut the link between two peers.

        Parameters
        ----------
        peer, other
            Names of the peers.
        seconds
            Time after which the link works again, in seconds or as ``"2 min"``; None: until :meth:`mend`.
        how
            ``reset``: the link breaks, both peers know that, and what is queued and under way on it is lost; ``delay``:
            what they send waits, and arrives when the link works again, as over a network that is down for a while;
            ``lose``: what they send is lost, and neither knows.
        """
        one, two = self._ends(peer, other)
        if how not in CUTS:
            raise ClusterError(f"how: {how!r}; expected one of {', '.join(CUTS)}{did_you_mean(how, CUTS)}")
        self._cut(one, two, None if seconds is None else duration("seconds", seconds), Cut(how))

    @user_facing
    def mend(self, peer: str, other: str) -> None:
        """Mend the link between two peers.

        Parameters
        ----------
        peer, other
            Names of the peers.
        """
        self._mend(*self._ends(peer, other))

    @user_facing
    def load(self, peer: str, share: float) -> None:
        """Have other work use a share of a peer's cores, so that its tuples take longer.

        The process of a live peer does this work. On a simulated peer, other programs do.

        Parameters
        ----------
        peer
            Name of the peer.
        share
            Share of the cores, from 0 to 0.99.
        """
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0.0 <= share <= MOST_LOAD:
            raise ClusterError(f"share: {share!r}; expected a share of the peer's cores from 0 to {MOST_LOAD}")
        self._load(self._living("peer", peer), float(share))

    # -- applications ------------------------------------------------------------------------------------------------

    @user_facing
    def pace(self, application: str | A, source: str, factor: float) -> None:
        """Change the pace of a source, from now on.

        It keeps this pace when it moves to another peer. A live source has to be a trace or generated packets.

        Parameters
        ----------
        application
            Application, its id, or the name of its plan if exactly one running application has that name.
        source
            Id of the source.
        factor
            Multiple of the own pace of the source: 2 is twice as fast, 0 stops it.
        """
        found = self._found(application)
        if found.plan.operators[checked_operator(found.plan, source)].kind != "source":
            raise ClusterError(f"source: {source!r}; expected a source of the plan: {', '.join(found.plan.sources)}")
        if isinstance(factor, bool) or not isinstance(factor, int | float) or not 0.0 <= factor < math.inf:
            raise ClusterError(f"factor: {factor!r}; expected a finite number of at least 0")
        self._pace(found, source, float(factor))

    @user_facing
    def cost(self, application: str | A, operator: str, seconds: float | str) -> None:
        """Change the processing time of an operator, from now on.

        It keeps this time when it moves to another peer. A live operator has to be a ``delay``.

        Parameters
        ----------
        application
            Application, its id, or the name of its plan if exactly one running application has that name.
        operator
            Id of the operator.
        seconds
            Processing time of a tuple on one core, in seconds or as ``"2 ms"``.
        """
        found = self._found(application)
        if found.plan.operators[checked_operator(found.plan, operator)].kind == "source":
            raise ClusterError(f"operator: {operator!r} is a source; expected an operator that reads tuples")
        self._cost(found, operator, duration("seconds", seconds, least=0.0))

    def knobs(self) -> Any:
        """Return a panel for a notebook with which peers, links, sources and operators are changed."""
        return view_of("knobs", self)

    # -- how they are made -------------------------------------------------------------------------------------------

    def _ends(self, peer: str, other: str) -> tuple[str, str]:
        """Return the names of the two peers of a link."""
        one, two = self._living("peer", peer), self._living("other", other)
        if one == two:
            raise ClusterError(f"other: {other!r}; expected another peer than {peer!r}")
        return one, two

    @abstractmethod
    def _living(self, field: str, peer: str) -> str:
        """Return the name of a peer; raise a ClusterError if there is no such peer."""

    @abstractmethod
    def _found(self, application: str | A) -> A:
        """Return an application, given itself, its id or the name of its plan."""

    @abstractmethod
    def _kill(self, peer: str) -> None: ...

    @abstractmethod
    def _suspend(self, peer: str) -> None: ...

    @abstractmethod
    def _resume(self, peer: str) -> None: ...

    @abstractmethod
    def _cut(self, peer: str, other: str, seconds: float | None, how: Cut) -> None: ...

    @abstractmethod
    def _mend(self, peer: str, other: str) -> None: ...

    @abstractmethod
    def _load(self, peer: str, share: float) -> None: ...

    @abstractmethod
    def _pace(self, application: A, source: str, factor: float) -> None: ...

    @abstractmethod
    def _cost(self, application: A, operator: str, seconds: float) -> None: ...


def checked_operator(plan: Plan, operator: Any) -> str:
    """Return an operator id of a plan; raise a ClusterError if there is no such operator."""
    if operator not in plan.operators:
        hint = did_you_mean(operator, plan.operators)
        raise ClusterError(f"operator: {operator!r}; expected one of the plan: {', '.join(plan.operators)}{hint}")
    return str(operator)
