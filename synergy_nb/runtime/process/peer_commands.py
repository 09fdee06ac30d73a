"""Commands of clients that a peer answers: each is a message with a number, and so is the answer."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

from synergy_nb.control.driver_messages import (
    Answer,
    HostsLookedUp,
    LeaseRenewed,
    LookUpHosts,
    MoveComponent,
    SubmitPlan,
)
from synergy_nb.control.peer import DriverMessage
from synergy_nb.runtime.process.requests import Move, Outcome, RenewLeases, Submit, pack, unpack

__all__ = ["MOVES_WITHIN", "Commands"]

MOVES_WITHIN = 150.0  # seconds after which a client is answered that nothing is known


class Commands:
    """Sends commands to a peer, and waits for their answers.

    Parameters
    ----------
    request
        Function that sends a message of the driver to the peer; it raises what the peer's handler raises.
    """

    def __init__(self, request: Callable[[DriverMessage], None]) -> None:
        self._request = request
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}

    async def _command(self, number: int, message: DriverMessage) -> Any:
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            self._request(message)
            return await answer
        finally:
            del self._waiting[number]

    def answered(self, answer: Answer | HostsLookedUp) -> None:
        """Handle an answer of the peer."""
        waiting = self._waiting.get(answer.number)
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)

    async def submit(self, request: Submit) -> None:
        """Submit a plan, or only have it decided on.

        Raises
        ------
        ValueError
            If the peer refuses the plan at once.
        """
        number = next(self._numbers)
        named = request.application, request.plan, request.placement
        answer: Answer = await self._command(number, SubmitPlan(*named, number, request.trial, request.lease))
        if answer.refusal:
            raise ValueError(answer.refusal)

    async def renew(self, payload: bytes) -> bytes:
        """Answer a :class:`~synergy_nb.runtime.process.requests.RenewLeases`."""
        for application in unpack(payload, RenewLeases).applications:
            self._request(LeaseRenewed(application))
        return b""

    async def hosts(self, names: list[str], seconds: float) -> dict[str, list[str]] | None:
        """Return hosts of components and streams by name; None if the directory did not answer in time (seconds)."""
        number = next(self._numbers)
        found: HostsLookedUp = await self._command(number, LookUpHosts(number, tuple(names), seconds))
        return found.hosts

    async def move(self, payload: bytes) -> bytes:
        """Answer a :class:`~synergy_nb.runtime.process.requests.Move` when the component has moved or the move failed.

        An impossible move is answered at once.
        """
        request = unpack(payload, Move)
        number = next(self._numbers)
        command = MoveComponent(request.application, request.operator, request.to, number)
        try:
            answer: Answer = await asyncio.wait_for(self._command(number, command), MOVES_WITHIN)
        except TimeoutError:
            return pack(Outcome(f"nothing is known of it after {MOVES_WITHIN:g} s"))
        return pack(Outcome(answer.refusal, begun=answer.begun))
