"""Renewals of the leases of the applications that a client has submitted: its peers know by them that it lives.

They begin with the submission, not with its decision, which waits for the start of Spark if the plan needs it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, Protocol

from synergy_nb.lifecycle.requests.client_leases import LOOKS
from synergy_nb.runtime.process.requests import ClusterError, RenewLeases, pack

#: Seconds for which an application goes on without its client. The client renews the lease six times in that time, so
#: a machine or a program that does nothing else for a minute and a half ends no application.
LEASE: Final = 120.0


class Leased(Protocol):
    """A handle of an application."""

    id: str
    origin: str

    async def state(self) -> object:
        """Ask for its state, and so find out which peer leads it."""


class SendsRequests(Protocol):
    """The function that sends a request to a peer."""

    async def __call__(self, peer: str, operation: str, payload: bytes = b"", timeout: float = 5.0) -> bytes:
        """Send a request to a peer and return its answer."""


class LeaseRenewals:
    """Renews leases at the peers that lead the applications."""

    def __init__(
        self, applications: Mapping[str, Leased], request: SendsRequests, every: float = LEASE / LOOKS
    ) -> None:
        self._applications = applications  # handles of the applications with a lease, by id; they may change
        self._request = request  # function that sends a request to a peer
        self._every = every  # seconds between two renewals
        self._composing: dict[str, str] = {}  # application that has no handle yet to its origin
        self._tasks: dict[str, asyncio.Task[None]] = {}  # by the address of the peer; the one that waits is at ""

    def begin(self) -> None:
        """Renew from now on, as long as there are applications."""
        if "" not in self._tasks:
            self._start("", self._repeat())

    @contextmanager
    def composing(self, application: str, origin: str) -> Iterator[None]:
        """Renew the lease of an application that is being decided, and has no handle yet."""
        self._composing[application] = origin
        self.begin()
        try:
            yield
        finally:
            del self._composing[application]

    def close(self) -> None:
        """Renew no more."""
        for task in self._tasks.values():
            task.cancel()

    def _start(self, key: str, work: object) -> None:
        task = self._tasks[key] = asyncio.get_running_loop().create_task(work, name=f"leases {key}")  # type: ignore[arg-type]
        task.add_done_callback(lambda _: self._tasks.pop(key))

    async def _repeat(self) -> None:
        while self._applications or self._composing:
            await asyncio.sleep(self._every)
            led: dict[str, list[str]] = {}
            for each in self._applications.values():
                led.setdefault(each.origin, []).append(each.id)
            for application, origin in self._composing.items():
                led.setdefault(origin, []).append(application)
            for origin, applications in led.items():
                if origin not in self._tasks:  # else its last request has not been answered yet
                    self._start(origin, self._renew(origin, applications))

    async def _renew(self, origin: str, applications: Sequence[str]) -> None:
        """Renew leases at a peer; if it does not answer, find out which peers lead the applications now."""
        try:
            await self._request(origin, "renew", pack(RenewLeases(list(applications))), 10.0)
        except ClusterError:
            held = [self._applications[name] for name in applications if name in self._applications]
            await asyncio.gather(*(each.state() for each in held), return_exceptions=True)
