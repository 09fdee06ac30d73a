"""What clients wait for at a peer: the answer to a command, or a state that the peer reaches by itself.

A command is a message with a number, and so is its answer. A state is the peer's own, such as that of an application:
nothing is kept of it here, and it is looked at whenever the peer reports a change.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

from synergy_nb.control.driver_messages import (
    Answer,
    ChangePlan,
    HoldApplication,
    HostsLookedUp,
    LeaseRenewed,
    LookUpHosts,
    MoveComponent,
    SubmitPlan,
)
from synergy_nb.control.peer import DriverMessage
from synergy_nb.runtime.process.requests import HoldSources, Move, Outcome, RenewLeases, Submit, pack, unpack

__all__ = ["MOVES_WITHIN", "Commands"]

MOVES_WITHIN = 150.0  # seconds after which a client is answered that the result of a move is not known


class Commands:
    """Sends commands to a peer, and waits for their answers and for its states."""

    def __init__(self, request: Callable[[DriverMessage], None], loop: asyncio.AbstractEventLoop) -> None:
        # function that sends a message of the driver to the peer; it raises what the peer's handler raises
        self._request = request
        self._loop = loop
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._awaited: dict[asyncio.Future[None], Callable[[], bool]] = {}  # to the condition that ends the wait
        self._looking = False  # whether the conditions will be looked at soon

    async def until(self, condition: Callable[[], bool], seconds: float) -> None:
        """Wait until a condition on the peer's state holds, but not for longer than some seconds."""
        if condition():
            return
        held = self._loop.create_future()
        self._awaited[held] = condition
        try:
            async with asyncio.timeout(seconds):
                await held
        except TimeoutError:
            pass
        finally:
            del self._awaited[held]

    def look(self) -> None:
        """Check all conditions that are waited for, once the peer has finished what it does now."""
        if not self._looking:
            self._looking = True
            self._loop.call_soon(self._look)

    def _look(self) -> None:
        self._looking = False
        for held, condition in self._awaited.items():
            if not held.done() and condition():
                held.set_result(None)

    async def _command(self, number: int, message: DriverMessage) -> Any:
        answer = self._waiting[number] = self._loop.create_future()
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

    async def submit(self, request: Submit, user: str) -> None:
        """Submit a plan, or only have it decided on; ``user``: guest who does so, or nothing for an owner.

        Raises ``ValueError`` if the peer refuses the plan at once.
        """
        number = next(self._numbers)
        named = request.application, request.plan, request.placement
        stated = SubmitPlan(*named, number, request.trial, request.lease, user, request.epoch, request.beside)
        answer: Answer = await self._command(number, stated)
        if answer.refusal:
            raise ValueError(answer.refusal)

    async def hold(self, payload: bytes) -> bytes:
        """Answer a :class:`~synergy_nb.runtime.process.requests.HoldSources`."""
        request, number = unpack(payload, HoldSources), next(self._numbers)
        answer: Answer = await self._command(number, HoldApplication(request.application, request.on, number))
        return pack(Outcome(answer.refusal))

    async def change_plan(self, application: str, step: str, plan: bytes = b"") -> str:
        """Take a step of the change of a plan; return why it is not possible, or nothing."""
        number = next(self._numbers)
        answer: Answer = await self._command(number, ChangePlan(application, step, plan, number))
        return answer.refusal

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
