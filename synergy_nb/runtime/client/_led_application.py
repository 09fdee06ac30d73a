"""The peer that leads an application, as a client knows it: its origin, or the successor of an origin that has died."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final, Protocol

import msgspec

from synergy_nb.events.application_states import LASTING
from synergy_nb.events.peer_names import peer_phrase
from synergy_nb.plan import Plan
from synergy_nb.reporting.formatting import seconds
from synergy_nb.reporting.peer_states import PeerState
from synergy_nb.runtime.client._accounts import Journals
from synergy_nb.runtime.client._peer_requests import SILENT_FOR
from synergy_nb.runtime.process.requests import (
    AccessRevoked,
    ApplicationId,
    ApplicationState,
    ClosedClusterError,
    ClusterError,
    PeerUnreachable,
    pack,
    unpack,
)

SUCCEEDS: Final = (
    60.0  # most seconds until another peer leads an application whose origin has died; two or three usually
)


class ClusterAccess(Journals, Protocol):
    """The part of a cluster that an application needs."""

    async def request(self, peer: str, operation: str, payload: bytes = b"", timeout: float = 5.0) -> bytes:
        """Send a request to a peer and return its answer."""

    async def request_while_alive(self, peer: str, operation: str, payload: bytes = b"", timeout: float = 5.0) -> bytes:
        """Send a request that may be repeated, again and again for a minute while its peer may live."""

    async def leader(self, application: str, without: str, seconds: float) -> tuple[str, ApplicationState] | None:
        """Return the peer that leads an application instead of its origin, and the state that it knows."""

    async def run_beside(self, plan: Plan, application: LedApplication, patience: float, *, trial: bool = False) -> Any:
        """Run a plan that is made of the streams of an application, or find out only whether the peers would."""

    async def send_contents(self, plan: Plan) -> None:
        """Have the peers know the functions and tables of a plan."""

    def exchange(self, application: Any, former: Any) -> None:
        """Know the handle of an application by its new id; ``former`` is a handle of the one that it was of."""

    async def states(self) -> Mapping[str, PeerState | None]:
        """Return the states of all peers; None for one that does not answer."""

    def name(self, address: str) -> str:
        """Return the name of a peer."""

    def readable(self, text: str) -> str:
        """Replace the addresses in a text by names."""

    def tell(self, text: str) -> None:
        """Write a line for the user."""

    def forget(self, application: str) -> None:
        """Remove the application from those that are stopped when the cluster closes."""


class LedApplication:
    """An application, and requests to the peer that leads it.

    Parameters
    ----------
    cluster
        Cluster that runs it.
    plan, origin
        Submitted plan, and address of the peer that leads it.
    state
        State of the application, as that peer has reported it.

    Attributes
    ----------
    broken : ClusterError or None
        Error of a feed that has failed.
    """

    def __init__(self, cluster: ClusterAccess, plan: Plan, origin: str, state: ApplicationState) -> None:
        self.cluster = cluster
        self.id = state.application
        self.plan = plan
        self.origin = origin
        self.last = state  # reported by the origin
        self.broken: ClusterError | None = None
        self._clock = time.monotonic
        self._silent_since: float | None = None  # time of the first request without an answer of the origin since then

    async def state(self) -> ApplicationState:
        """Return the state as the origin knows it now.

        It is ``paused`` while the origin is silent, but may live, and no successor of it answers; ``failed`` once the
        origin has been silent for a minute, or its process has ended. For a closed cluster, return the last known
        state.

        Raises
        ------
        AccessRevoked
            If the certificate of this client was revoked.
        """
        try:
            answer = await self._asked()
        except ClosedClusterError:
            return self.last
        except AccessRevoked:
            raise
        except ClusterError as error:
            if await self._led_on(error):
                return self.last
            return self.record_state(self._unanswered(error))
        self._silent_since = None
        return self.record_state(unpack(answer, ApplicationState))

    async def _asked(self) -> bytes:
        """Ask the origin; if the connection breaks, once more: a new one is refused if the process has ended."""
        question = self.origin, "application", pack(ApplicationId(self.id))
        try:
            return await self.cluster.request(*question)
        except PeerUnreachable as error:
            if error.ended or isinstance(error.__cause__, TimeoutError):
                raise
        return await self.cluster.request(*question)

    def _unanswered(self, error: ClusterError) -> ApplicationState:
        """Return the state after an error of its origin: paused as long as that may live, else failed."""
        reason = str(error)
        if self._may_live(error) and self.last.status in LASTING:
            now, peer = self._clock(), peer_phrase(self.cluster.name(self.origin))
            self._silent_since = now if self._silent_since is None else self._silent_since
            if now - self._silent_since < SILENT_FOR:
                waits = f"waiting for {peer}, which leads it and does not answer"
                return msgspec.structs.replace(self.last, status="paused", reason=waits)
            reason = f"{peer}, which leads it, has not answered for {seconds(now - self._silent_since)}"
        return msgspec.structs.replace(self.last, status="failed", reason=reason)

    @staticmethod
    def _may_live(error: ClusterError) -> bool:
        """Whether an error says that a peer does not answer, while its process may still run."""
        return isinstance(error, PeerUnreachable) and not error.ended

    async def _led_on(self, error: ClusterError) -> bool:
        """Find the peer that leads it now, after an error of its origin; return False if there is none.

        If the process of the origin has ended, it may take some seconds until another peer leads.
        """
        if self.sink_peer(self.plan.sinks[0]) == self.origin:
            return False
        ended = isinstance(error, PeerUnreachable) and error.ended
        patience = SUCCEEDS if ended and self.last.status in LASTING else 0.0
        found = await self.cluster.leader(self.id, self.origin, patience)
        if found is not None:
            self.origin = found[0]
            self.record_state(found[1])
        return found is not None

    async def ask(self, operation: str, payload: bytes, timeout: float = 5.0) -> bytes:
        """Send a request to the peer that leads it, and return the answer.

        Raises
        ------
        ClusterError
            If the origin does not answer, or answers with an error, and no other peer leads it.
        """
        try:
            return await self.cluster.request(self.origin, operation, payload, timeout)
        except (ClosedClusterError, AccessRevoked):
            raise
        except ClusterError as error:
            if not await self._led_on(error):
                raise
            return await self.cluster.request(self.origin, operation, payload, timeout)

    def sink_peer(self, sink: str) -> str:
        """Return the address of the peer of a sink, which retains its results."""
        return self.last.roles.peers.get(sink) or self.origin

    def record_state(self, state: ApplicationState) -> ApplicationState:
        """Record the state that the origin has reported; the last known measurements of sinks elsewhere stay."""
        if state.application != self.id:
            return self.last  # it was asked for before another plan took the place of its own
        broken = self.broken
        if broken is not None:
            state = msgspec.structs.replace(state, status="failed", reason=str(broken))
        roles = state.roles if state.roles.peers else self.last.roles
        self.last = msgspec.structs.replace(state, roles=roles, qos=self.last.qos | state.qos)
        return self.last
