"""Errors of a cluster, live or simulated: requests that it cannot carry out, and plans that it refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from synergy_nb.errors import SynergyError
from synergy_nb.plan.terms.units import counted
from synergy_nb.reporting.explanation import Explanation

__all__ = [
    "AccessRevoked",
    "ClosedClusterError",
    "ClusterError",
    "NotAdmitted",
    "PeerUnreachable",
    "check_rows",
    "rows_left",
]


class ClusterError(SynergyError, RuntimeError):
    """A cluster, or one of its peers, cannot carry out a request.

    Examples
    --------
    >>> from synergy_nb import ClusterError, Simulation, source
    >>> simulation = Simulation(4, seed=1)
    >>> simulation.close()
    >>> try:
    ...     simulation.submit(source("packets").sink())
    ... except ClusterError as error:
    ...     print(error)
    the simulation is closed; expected an open one
    """


class ClosedClusterError(ClusterError):
    """The cluster has been closed; it sends no requests to peers."""

    def __init__(self, what: str = "cluster") -> None:
        super().__init__(f"the {what} is closed; expected an open one")


class AccessRevoked(ClusterError):
    """A peer has closed the connection, as the owner of the cluster has revoked the certificate of this client."""

    def __init__(self, what: str, rows: int = 0) -> None:
        super().__init__(
            f"{what}: the certificate with which you have connected was revoked by the owner of the cluster; ask for "
            f"another one{rows_left(rows)}"
        )


class PeerUnreachable(ClusterError):
    """A peer does not answer: it has died, it hangs, or the connection to it is broken.

    Parameters
    ----------
    message
        Name of the peer, and the reason.
    ended
        Whether its process is known to have ended: no process listens at its address.
    """

    def __init__(self, message: str, *, ended: bool = False) -> None:
        super().__init__(message)
        self.ended = ended


class NotAdmitted(ClusterError):
    """The peers refused the plan; the message names each condition that failed, and where.

    Parameters
    ----------
    reason
        Conditions that failed, and the parts of the projected delay if it exceeds its limit.
    explanation
        Explanation from the journals of the peers; None: there is none.
    make_replay
        Function that returns the replay of the request; None: there is none.

    Examples
    --------
    >>> from synergy_nb import NotAdmitted, Simulation, source
    >>> large = source("packets", rate="1000 tuples/s", duration="2 s").filter("bytes > 1000")
    >>> try:
    ...     Simulation(8, seed=1).submit(large.sink(delay="1 ms"))
    ... except NotAdmitted as error:
    ...     print(error.reason.partition(" (")[0])
    plan: operator filter: delay at 4 peers, at best 0.0391 s where 0.001 s is allowed
    """

    def __init__(
        self, reason: str, explanation: Explanation | None = None, make_replay: Callable[[], Any] | None = None
    ) -> None:
        self.reason = reason
        self._explanation = explanation
        self._make_replay = make_replay
        hint = "\n(`except NotAdmitted as error: print(error.explain())` shows what each peer found)"
        super().__init__(reason if explanation is None else f"{reason}{hint}")

    def explain(self) -> Explanation:
        """Explain the refusal: candidates, dropped probes, graphs, and the parts of the delay.

        Raises
        ------
        ClusterError
            If there is no explanation.
        """
        if self._explanation is None:
            raise ClusterError("there is no explanation of this refusal")
        return self._explanation

    def replay(self) -> Any:
        """Return what the peers did until they refused the plan; a notebook shows a stage on which it can be stepped.

        Raises
        ------
        ClusterError
            If there is no replay.
        """
        if self._make_replay is None:
            raise ClusterError("there is no replay of this refusal")
        return self._make_replay()


def check_rows(n: object) -> None:
    """Raise an error unless ``n`` is a number of rows."""
    if isinstance(n, bool) or not isinstance(n, int) or n < 0:
        raise ValueError(f"n: {n!r}; expected a number of rows, at least 0")


def rows_left(rows: int) -> str:
    """Say how a user gets the rows that arrived before an application ended; empty where there are none.

    >>> rows_left(1), rows_left(0)
    ('; 1 row has arrived, which results(wait=False) returns', '')
    """
    return f"; {counted(rows, 'row', 'has', 'have')} arrived, which results(wait=False) returns" if rows else ""
