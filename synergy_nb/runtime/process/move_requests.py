"""Requests to move a component, answered at the origin of its application."""

from __future__ import annotations

import asyncio

from synergy_nb.assembly import SynergyPeer
from synergy_nb.runtime.process.peer_driver import PeerRuntime
from synergy_nb.runtime.process.requests import Move, Outcome, pack, unpack

__all__ = ["MOVES_WITHIN", "MoveRequests"]

MOVES_WITHIN = 150.0  # seconds after which whoever asked is told that nothing is known


class MoveRequests:
    """Answers requests to move components of the applications that were submitted at a peer.

    Parameters
    ----------
    runtime
        Runs the peer.
    synergy
        The peer.
    """

    def __init__(self, runtime: PeerRuntime, synergy: SynergyPeer) -> None:
        self._runtime = runtime
        self._synergy = synergy

    async def move(self, payload: bytes) -> bytes:
        """Answer a :class:`~synergy_nb.runtime.process.requests.Move` when the component has moved, or why it has not.

        What cannot be done at all is answered at once.
        """
        asked = unpack(payload, Move)
        outcome: asyncio.Future[str] = self._runtime.loop.create_future()

        def told(reason: str) -> None:
            if not outcome.done():
                outcome.set_result(reason)

        try:
            self._runtime.call(self._synergy.session.move, asked.application, asked.operator, asked.to, told)
        except ValueError as error:
            return pack(Outcome(str(error), begun=False))
        try:
            return pack(Outcome(await asyncio.wait_for(outcome, MOVES_WITHIN)))
        except TimeoutError:
            return pack(Outcome(f"nothing is known of it after {MOVES_WITHIN:g} s"))
