"""The real-time driver: runs one peer on an event loop, over links, and carries out its effects.

It passes the time, messages and timers to the peer, and carries out its effects: sends go to the links, records to the
journal, instructions to a :class:`DataHost`. It does not depend on Dask; ``_plugin.py`` runs it on a worker.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Concatenate, Final, ParamSpec, Protocol

import msgspec

from synergy_nb.control.identity import MESSAGES, OPERATIONS, OWNERS, PEERS, NotAllowed, guest_of, holder_of, role_of
from synergy_nb.control.peer import (
    DRIVER,
    Codec,
    DriverMessage,
    Effect,
    Instruct,
    MalformedMessage,
    Message,
    Peer,
    Record,
    Send,
    UnknownMessage,
)
from synergy_nb.control.shedding import Allowance, Allowances
from synergy_nb.events import (
    REFUSED,
    Event,
    FloodShed,
    HandlerFailed,
    LinkBroken,
    LinkClosed,
    MessageRefused,
    PeerStarted,
    PeerTrouble,
    encode_events,
)
from synergy_nb.events.journal import Journal
from synergy_nb.plan.terms.units import nearest
from synergy_nb.runtime.process._peer_reports import LinkBandwidths
from synergy_nb.runtime.transport.cut_links import CuttableLinks
from synergy_nb.runtime.transport.link import REPLACED, Identities, LinkLimits
from synergy_nb.runtime.transport.wide_area import WideArea

JOURNALED: Final = 16 << 20  # bytes of older events that a peer's journal retains
# control messages that a peer takes of one sender; an honest one sends some hundreds a second
CONTROL: Final = Allowance(rate=4000.0, burst=40_000.0)
SUBMISSIONS: Final = Allowance(rate=20.0, burst=1000.0)  # plans that one client may submit or try
TROUBLES: Final = Allowance(rate=2.0, burst=200.0)  # errors about one subject that are journaled
ALL_TROUBLES: Final = Allowance(rate=20.0, burst=2000.0)  # and about all of them
P = ParamSpec("P")
Operation = Callable[[bytes], Awaitable[bytes]]


class DataHost(Protocol):
    """Carries out a peer's instructions on its machine.

    ``close`` may be a coroutine function.
    """

    def carry_out(self, instruction: msgspec.Struct) -> None:
        """Carry out an instruction; its outcome is a message to the peer, by ``PeerRuntime.report``."""

    def close(self) -> Any:
        """Stop everything."""


class Factory(Protocol):
    """Creates a peer and its host for a runtime; may add to ``runtime.operations`` and to the lists of listeners."""

    def __call__(self, runtime: PeerRuntime, config: Mapping[str, Any], /) -> tuple[Peer, DataHost]: ...


class PeerRuntime:
    """One running peer, with its links, its journal and its host."""

    def __init__(
        self,
        address: str,
        name: str,  # name for users, such as `peer-3`
        connect: Callable[[str], Awaitable[Any]],  # coroutine that opens a comm to an address (see `Links`)
        factory: Factory,
        config: Mapping[str, Any],  # plain values for the factory
        *,
        limits: LinkLimits | None = None,
        area: WideArea | None = None,
        identities: Identities | None = None,  # who is at the other end of a comm; None: who its hello says
    ) -> None:
        self.address = address
        self.name = name
        self.loop = asyncio.get_running_loop()
        self.journal = Journal(volume=JOURNALED)
        # name of a request of clients to the coroutine function `(payload) -> answer`. `ping` returns the payload,
        # `journal` the events since a sequence number (MessagePack in and out), `area` imposes a wide area (`to_bytes`;
        # empty for none) on the peer's links
        self.operations: dict[str, Operation] = {
            "ping": self._ping,
            "journal": self._journal,
            "area": self._area,
        }
        # the same for those whose answer depends on who asks: `(name of the sender on the links, payload) -> answer`
        self.personal: dict[str, Callable[[str, bytes], Awaitable[bytes]]] = {}
        # coroutine function (name of a guest, operation, payload) that answers guests; None: as everybody
        self.serve_guest: Callable[[str, str, bytes], Awaitable[bytes]] | None = None
        self.on_start: list[Callable[[], None]] = []
        # called with each wide area that is imposed on the links; None for none
        self.on_area: list[Callable[[WideArea | None], None]] = []
        self.on_down: list[Callable[[str, str], None]] = []  # called for each peer whose link failed
        self._refused: set[str] = set()  # addresses at which no process listened when a link was tried last
        self.on_trouble: list[Callable[[Event], None]] = []  # called for each `PeerTrouble` in the journal
        self.links = CuttableLinks(
            address,
            connect,
            on_message=self._on_message,
            on_down=self._on_link_down,
            on_request=self._on_request,
            record=self.record,
            limits=limits,
            shape=None if area is None else area.shape(address),
            on_mark=self._on_mark,
            identities=identities,
            on_shed=self.shed,
        )
        self.send_data = self.links.send_data  #: queues a data frame on the link to a peer
        self.on_channel = self.links.on_channel  #: has the frames of a channel be passed to a function
        self.bandwidths = LinkBandwidths(self.loop.time, self.report)
        self.messages = 0  # number of control messages that the peer has sent
        self._imposed_area = area
        self._wall = time.time() - self.loop.time()
        self._effects: deque[Effect] = deque()
        self._carrying = False
        self._messages = Allowances(CONTROL)
        self._submissions = Allowances(SUBMISSIONS)
        self._troubles, self._all_troubles = Allowances(TROUBLES), Allowances(ALL_TROUBLES)
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        self._closed = False
        self.peer, self.host = factory(self, config)
        self.codec = Codec(self.peer.message_types)
        self._senders = {kind: MESSAGES.get(kind.__name__, PEERS) for kind in self.peer.message_types}

    @property
    def now(self) -> float:
        """Time in seconds: the wall clock at the start, monotonic from then on."""
        return self._wall + self.loop.time()

    def clock(self) -> float:
        """Return :attr:`now`; thread-safe."""
        return self._wall + time.monotonic()  # which is the loop's time: asked 16 times for a tuple

    # -- life ----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the peer's protocols."""
        self.record(PeerStarted, self.address, name=self.name)
        self._run("start", self.peer.start)
        for listener in self.on_start:
            listener()
        if self._imposed_area is not None:
            self._impose(self._imposed_area)

    async def close(self) -> None:
        """Stop the timers, the host and the links, in this order; nothing remains."""
        if self._closed:
            return
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        try:
            ending = self.host.close()
            if inspect.isawaitable(ending):
                await ending
        except Exception as error:  # noqa: BLE001 - the links must be closed whatever the host does
            self._error("close", error)
        await self.links.close()

    # -- for hosts and clusters ----------------------------------------------------------------------------------

    def request(self, message: DriverMessage) -> None:
        """Send a message of the driver to the peer, and carry out the effects; raise what the handler raises."""
        try:
            effects = self.peer.receive(DRIVER, message, self.now)
        finally:
            self._schedule()
        self._carry_out_all(effects)
        self._schedule()

    def report(self, message: DriverMessage) -> None:
        """Send a message of the driver to the peer, and carry out the effects; journal an error."""
        self._receive(DRIVER, message)

    def report_soon(self, message: DriverMessage) -> None:
        """Call :meth:`report` on a separate turn of the loop."""
        self.loop.call_soon(self.report, message)

    def record(self, kind: Callable[Concatenate[float, str, P], Event], /, *fields: P.args, **named: P.kwargs) -> None:
        """Append an event of the driver or the host to the journal, on the loop's thread: subject and event fields."""
        self._append(kind(self.now, self.address, *fields, **named))

    def shed(self, sender: str, what: str, limit: str) -> None:
        """Count what is not done for a sender that is beyond its ``limit``, and record it now and then."""
        number = self.peer.sheds.note(sender, what, self.now)
        if number:
            self._journal_event(FloodShed(self.now, self.address, sender, what=what, shed=number, limit=limit))

    def _append(self, event: Event) -> None:
        if isinstance(event, PeerTrouble) and not isinstance(event, FloodShed):
            # each of them is an answer to what somebody has sent: who floods must not have all else forgotten
            if not self._troubles.take(event.subject, self.now):
                self.shed(event.subject, "journaled errors", f"{TROUBLES.rate:g} a second")
                return
            if not self._all_troubles.take("", self.now):
                self.shed("all senders", "journaled errors", f"{ALL_TROUBLES.rate:g} a second")
                return
        self._journal_event(event)

    def _journal_event(self, event: Event) -> None:
        self.journal.append(event)
        if isinstance(event, PeerTrouble) and not self._closed:
            for listener in self.on_trouble:
                listener(event)

    # -- inside: the peer ----------------------------------------------------------------------------------------

    def _run(self, what: str, function: Callable[[float], list[Effect]]) -> None:
        """Call the peer with the time; an exception is journaled, and the peer continues."""
        if self._closed:
            return
        try:
            effects = function(self.now)
        except Exception as error:  # noqa: BLE001 - a protocol's bug must not end the peer
            self._error(what, error)
        else:
            self._carry_out_all(effects)
        self._schedule()

    def _receive(self, sender: str, message: Message) -> None:
        self._run(type(message).__name__, lambda now: self.peer.receive(sender, message, now))

    def _error(self, what: str, error: BaseException) -> None:
        self.record(HandlerFailed, what, error=f"{type(error).__name__}: {error}")

    def _carry_out_all(self, effects: list[Effect]) -> None:
        """Carry out effects in order; the effects of nested calls come after them."""
        pending = self._effects
        pending.extend(effects)
        if self._carrying:
            return
        self._carrying = True
        try:
            while pending:
                effect = pending.popleft()
                try:
                    match effect:
                        case Send(to, message):
                            self.messages += 1
                            self.links.send(to, self.codec.encode(message))
                        case Record(event):
                            self._append(event)
                        case Instruct(instruction):
                            self.host.carry_out(instruction)
                except Exception as error:  # noqa: BLE001 - the other effects must be carried out
                    self._error(type(effect).__name__, error)
        finally:
            self._carrying = False

    def _schedule(self) -> None:
        """Schedule one wake-up, at the peer's next timer; it is only ever moved earlier."""
        when = self.peer.next_timer
        if when is None or self._closed:
            return
        if self._timer is not None:
            if self._due <= when:
                return
            self._timer.cancel()
        self._due = when
        self._timer = self.loop.call_at(self.loop.time() + (when - self.now), self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._run("tick", self.peer.tick)

    # -- inside: the links ---------------------------------------------------------------------------------------

    def _on_message(self, sender: str, data: bytes) -> None:
        if not self._messages.take(holder_of(sender), self.now):
            self.shed(holder_of(sender), "control messages", f"{CONTROL.burst:g} at once and {CONTROL.rate:g} a second")
            return
        self._refused.discard(sender)
        try:
            message = self.codec.decode(data)
        except (UnknownMessage, MalformedMessage) as error:
            kind = "unknown message" if isinstance(error, UnknownMessage) else "malformed message"
            self.record(MessageRefused, sender, reason=kind, message=str(error)[:500])
            return
        senders = self._senders[type(message)]
        if role_of(sender) not in senders:
            self.links.refuse(sender, f"the message {type(message).__name__}", senders)
            return
        self._receive(sender, message)

    def _on_mark(self, sender: str, size: int, contiguous: bool) -> None:
        if not self._closed and "://" in sender:  # no bandwidth is promised on links of clients
            self.bandwidths.mark(sender, size, contiguous)

    def _on_link_down(self, address: str, reason: str) -> None:
        ends = "://" not in address or reason.startswith(REPLACED)  # clients come and go
        if reason != REFUSED or address not in self._refused:  # later attempts to reach an ended peer are no news
            self.record(LinkClosed if ends else LinkBroken, address, reason=reason)
        if reason == REFUSED:
            self._refused.add(address)
        if not self._closed:
            for listener in self.on_down:
                listener(address, reason)

    async def _on_request(self, sender: str, operation: str, payload: bytes) -> bytes:
        holder = holder_of(sender)
        if operation == "submit" and not self._submissions.take(holder, self.now):
            limit = f"{SUBMISSIONS.burst:g} at once and {SUBMISSIONS.rate:g} a second"
            self.shed(holder, "submissions", limit)
            raise ValueError(f"submissions: more than {self.name} takes of {holder}; expected at most {limit}")
        handler, personal = self.operations.get(operation), self.personal.get(operation)
        if handler is None and personal is None:
            known = {**self.operations, **self.personal}
            near = nearest(operation, known)
            expected = f"{near!r}" if near is not None else f"one of {', '.join(sorted(known))}"
            raise ValueError(f"operation: {operation!r} is unknown to {self.name}; expected {expected}")
        roles = OPERATIONS.get(operation, OWNERS)
        if role_of(sender) not in roles and sender != self.address:
            self.links.refuse(sender, f"the operation {operation!r}", roles)
            expected = " or ".join(sorted(roles))
            raise NotAllowed(f"operation: {operation!r} is not for {holder}; expected {expected}")
        if self.serve_guest is not None and (guest := guest_of(sender)):
            return await self.serve_guest(guest, operation, payload)
        if personal is not None:
            return await personal(sender, payload)
        assert handler is not None
        return await handler(payload)

    async def _ping(self, payload: bytes) -> bytes:
        return payload

    async def _journal(self, payload: bytes) -> bytes:
        since = msgspec.msgpack.decode(payload, type=int) if payload else 0
        return encode_events(self.journal.since(since, limit=10_000))

    async def _area(self, payload: bytes) -> bytes:
        self._impose(WideArea.from_bytes(payload) if payload else None)
        return b""

    def _impose(self, area: WideArea | None) -> None:
        self.links.shape = None if area is None else area.shape(self.address)
        for listener in self.on_area:
            listener(area)
