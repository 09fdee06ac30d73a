"""Renewals of the leases of the applications that a client has submitted: its peers know by them that it lives."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from synergy_nb.lifecycle.client_leases import LOOKS
from synergy_nb.runtime.process.requests import ClusterError, RenewLeases, pack

__all__ = ["LEASE", "LeaseRenewals", "Leased"]

#: Seconds for which an application goes on without its client. The client renews the lease six times in that time, so
#: a machine or a program that does nothing else for a minute and a half ends no application.
LEASE: Final = 120.0


class Leased(Protocol):
    """A handle of an application."""

    id: str
    origin: str

    async def state(self) -> object:
        """Ask for its state, and so find out which peer leads it."""


class Requests(Protocol):
    """The function that sends a request to a peer."""

    async def __call__(self, peer: str, operation: str, payload: bytes = b"", timeout: float = 5.0) -> bytes:
        """Send a request to a peer and return its answer."""


class LeaseRenewals:
    """Renews leases at the peers that lead the applications.

    Parameters
    ----------
    applications
        Handles of the applications with a lease, by id; they may change.
    request
        Function that sends a request to a peer.
    every
        Seconds between two renewals.
    """

    def __init__(self, applications: Mapping[str, Leased], request: Requests, every: float = LEASE / LOOKS) -> None:
        self._applications = applications
        self._request = request
        self._every = every
        self._tasks: dict[str, asyncio.Task[None]] = {}  # by the address of the peer; the one that waits is at ""

    def begin(self) -> None:
        """Renew from now on, as long as there are applications."""
        if "" not in self._tasks:
            self._start("", self._repeat())

    def close(self) -> None:
        """Renew no more."""
        for task in self._tasks.values():
            task.cancel()

    def _start(self, key: str, work: object) -> None:
        task = self._tasks[key] = asyncio.get_running_loop().create_task(work, name=f"leases {key}")  # type: ignore[arg-type]
        task.add_done_callback(lambda _: self._tasks.pop(key))

    async def _repeat(self) -> None:
        while self._applications:
            await asyncio.sleep(self._every)
            led: dict[str, list[Leased]] = {}
            for each in self._applications.values():
                led.setdefault(each.origin, []).append(each)
            for origin, applications in led.items():
                if origin not in self._tasks:  # else its last request has not been answered yet
                    self._start(origin, self._renew(origin, applications))

    async def _renew(self, origin: str, applications: Sequence[Leased]) -> None:
        """Renew leases at a peer; if it does not answer, find out which peers lead the applications now."""
        try:
            await self._request(origin, "renew", pack(RenewLeases([each.id for each in applications])), 10.0)
        except ClusterError:
            await asyncio.gather(*(each.state() for each in applications), return_exceptions=True)
