"""Leases of clients: an application ends when nothing has been heard of the client that submitted it.

A client that ends in good order stops what it has submitted. One that is killed, or whose machine or network fails,
cannot; its applications would run for ever. So a client renews the lease of each of its applications, about six times
in its duration. The peer that leads an application looks as often whether a renewal has come, and ends the application
after six looks without one. It counts looks rather than time: a peer that was suspended, or had no processor, misses
looks as it misses renewals, and does not take its own silence for that of the client.

An application without a lease, which was submitted to go on without its client, is stopped by users only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from synergy_nb.control.peer import Peer
from synergy_nb.events.application_states import LASTING
from synergy_nb.lifecycle.records.request import Request
from synergy_nb.plan.terms.units import format_duration

__all__ = ["LOOKS", "ClientLeases"]

LOOKS: Final = 6  # number of looks for the client in the duration of a lease


class ClientLeases:
    """Ends the applications that this peer leads when the leases of their clients expire."""

    def __init__(self, peer: Peer, requests: Mapping[str, Request], stop: Callable[[str, str], object]) -> None:
        self._peer = peer
        self._requests = requests
        self._stop = stop  # function that ends a request, by its id and the reason
        self._silent: dict[Request, int] = {}  # number of looks since its client was heard of

    def begin(self, request: Request) -> None:
        """Begin the lease of a request that this peer leads from now on."""
        if request.lease > 0.0:
            self._silent[request] = 0
            self._peer.after(request.lease / LOOKS, self._look, request)

    def renew(self, name: str) -> None:
        """Note that the client of an application is alive."""
        request = self._requests.get(name)
        if request in self._silent:
            self._silent[request] = 0

    def _look(self, request: Request) -> None:
        """Look whether the client has been heard of."""
        if self._requests.get(request.name) is not request or request.status not in LASTING:
            del self._silent[request]
            return
        self._silent[request] += 1
        if self._silent[request] > LOOKS:
            del self._silent[request]
            self._stop(request.name, _lost(request.lease))
        else:
            self._peer.after(request.lease / LOOKS, self._look, request)


def _lost(lease: float) -> str:
    return (
        f"nothing was heard of its client for {format_duration(lease)}: its process has ended, or cannot reach the "
        "peers; submit(..., detach=True) has a query go on without its client"
    )
