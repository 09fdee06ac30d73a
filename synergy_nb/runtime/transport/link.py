"""One multiplexed link for each pair of peers: control messages, data and requests over one comm.

Theory of operation
-------------------
:class:`Links` belongs to one peer (or to a client, such as a notebook) and runs on one event loop. It does not depend
on Dask: its caller passes ``connect(address) -> comm`` for outgoing connections, and the driver passes incoming ones to
:meth:`Links.accept`. A comm is any object with ``read``, ``write``, ``abort`` and ``closed`` as Dask's have; a tuple of
frames is one message on it, which is sent over the comm's stream if it has one
(:mod:`~synergy_nb.runtime.transport._framing`).

Frames: ``bytes`` is a control message; ``(channel, payload)`` is data; ``(1, id, operation, payload)`` a request;
``(2, id, succeeded, payload)`` its answer; ``(3, bytes, contiguous)`` a mark of the bytes sent; ``(4,)`` the last one,
where the certificate of its receiver was revoked; ``(5, list)`` what was revoked, which the authority has signed. All
frames of a link arrive in the order in which they were sent: data sent before a control message arrives before it.

A link opens when something is sent on it. The opener sends a hello (protocol version, its address, an ordinal) and
waits for a welcome before it sends anything else, so two peers that open at once agree on one comm before the first
frame, and the order is always defined: of two crossing attempts that of the lower address continues, and the other is
answered that it crossed. Ordinals grow with every comm in which a peer takes part, across restarts; each side learns
the other's ordinal of the comm in use, and so distinguishes an attempt that is older than that comm (refused) from a
reconnection by a peer that has already dropped it (accepted as its replacement).

Who the other end is, its certificate says, where there are certificates (``identities``): a hello from somebody else
than the sender that it states is refused, and so is who answers at an address that its certificate does not have. What
only some roles may send (:mod:`synergy_nb.control.identity`) is refused from others, by name. Both ends of a link tell
each other what was revoked, when it opens and whenever they learn of more: so clients know what the peers know.

A link that fails is discarded with all that is queued on it, and reported; the next send opens another. The queue is
bounded in bytes: control messages beyond the limit are dropped and reported (the protocols tolerate their loss), data
beyond it raise :class:`LinkFull`, and requests wait.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final, Protocol, TypeAlias

from synergy_nb.control.identity import (
    CHANNELS,
    OWNERS,
    PEERS,
    Identity,
    WrongIdentity,
    difference,
    holder_of,
    role_of,
)
from synergy_nb.control.shedding import Shares
from synergy_nb.events import (
    DataRefused,
    Event,
    FrameRefused,
    FrameUnhandled,
    LinkOverflowed,
    LinkRefused,
    LinkResumed,
    Recorder,
    SenderRefused,
)
from synergy_nb.runtime.transport._framing import framed
from synergy_nb.runtime.transport.wire import (
    FRAME_OVERHEAD,
    Comm,
    LinkDown,
    LinkFull,
    LinkLimits,
    Outgoing,
    RemoteError,
    Shape,
)

__all__ = [
    "DISMISSED",
    "HANDLER",
    "PROTOCOL_VERSION",
    "REPLACED",
    "REVOCATIONS",
    "REVOKED",
    "Comm",
    "Identities",
    "LinkDown",
    "LinkFull",
    "LinkLimits",
    "Links",
    "RemoteError",
    "Shape",
]

PROTOCOL_VERSION: Final = 3
REVOKED: Final = "its certificate was revoked"
DISMISSED: Final = "it has closed the connection, as the certificate of this end was revoked"
REPLACED: Final = "replaced by a new connection"
HANDLER: Final = "synergy_link"  # name of the handler that a peer adds to its Dask worker
REQUEST, ANSWER, PARTING, REVOCATIONS = 1, 2, 4, 5
MAY_REVOKE: Final = PEERS | OWNERS  # roles that pass on what was revoked; nobody has guests check signatures
MOST_COUNTED: Final = 1024  # most senders and things whose refusals are counted one by one

Receive: TypeAlias = Callable[[str, bytes], None]
"""Callback for the frames of a channel: address of the sender, payload."""


class Identities(Protocol):
    """Who is at the other end of a comm."""

    @property
    def revoked(self) -> AbstractSet[str]:
        """The ids whose certificates no longer count."""

    @property
    def revocations(self) -> bytes:
        """The list of them that the authority has signed; empty: none."""

    def take_revocations(self, revocations: bytes, /) -> None:
        """Learn of more; ``WrongIdentity`` is raised if the authority has not signed the list."""

    def identify(self, comm: Any, /) -> Identity | None:
        """Return who holds the certificate of the other end; None if it has none of this cluster."""


def _nowhere(_kind: Callable[..., Event], /, *_fields: object, **_named: object) -> None:
    """Discard an event."""


def _not_counted(_sender: str, _what: str, _limit: str) -> None:
    """Stand in for a callback."""


class _Link(Outgoing):
    """State of the link to one other peer; it is discarded when the link fails."""

    comm: Comm | None = None
    theirs = 0  # the other side's ordinal of the comm in use
    id = ""  # id of SPIFFE of the other side, if it has a certificate
    opener: asyncio.Task[None] | None = None
    reader: asyncio.Task[None] | None = None
    writer: asyncio.Task[None] | None = None

    def __init__(self, to: str, limits: LinkLimits, resumed: Callable[[str, int], None]) -> None:
        super().__init__(to, limits, resumed)
        self.role = role_of(to)
        self.calls: dict[int, asyncio.Future[tuple[bool, bytes]]] = {}


class Links:
    """All links of one peer, or of a client that only makes requests.

    Notes
    -----
    Nothing here is thread-safe: call it on the event loop of its peer.
    """

    def __init__(
        self,
        address: str,  # address of this peer; for a client any name without `://` that no other client has
        # coroutine that opens a comm to an address. It may raise `OSError`, `ValueError` or `RuntimeError`
        connect: Callable[[str], Awaitable[Any]],
        *,
        on_message: Callable[[str, bytes], None] | None = None,  # callback `(sender, message)` for each control message
        # name of each channel of data to the callback `(sender, payload)` of those whom it concerns, see `on_channel`
        channels: Mapping[str, Receive] | None = None,
        # callback `(address, reason)`, once for each link that failed: queued and travelling frames are lost
        on_down: Callable[[str, str], None] | None = None,
        # coroutine `(sender, operation, payload)` that returns the answer to a request
        on_request: Callable[[str, str, bytes], Awaitable[bytes]] | None = None,
        record: Recorder | None = None,  # function that writes events to the journal, or None
        limits: LinkLimits | None = None,
        shape: Shape | None = None,  # delays and bandwidths imposed on the links, or None
        # callback `(sender, bytes, contiguous)` for each mark of bytes sent, see `synergy_nb.models.link_bandwidth`
        on_mark: Callable[[str, int, bool], None] | None = None,
        identities: Identities | None = None,  # who is at the other end of a comm; None: who its hello says
        # callback `(sender, what, limit)` for each request or link that is refused as its sender has too many
        on_shed: Callable[[str, str, str], None] = _not_counted,
    ) -> None:
        self.address = address
        self.refused: Counter[tuple[str, str]] = Counter()  # (sender, what) to the times that it was refused
        self._identities = identities
        self.limits = limits or LinkLimits()
        self.shape = shape
        self._connect = connect
        self._on_message = on_message
        self.channels: dict[str, tuple[Receive, frozenset[str]]] = {}  # and the roles that may send
        for channel, receive in (channels or {}).items():
            self.on_channel(channel, receive)
        self._on_down = on_down
        self._on_request = on_request
        self._on_mark = on_mark
        self._on_shed = on_shed
        self._record: Recorder = record or _nowhere
        self.by_address: dict[str, _Link] = {}
        self._tasks: set[asyncio.Task[None]] = set()  # tasks that close() has to end
        self._serving = Shares(self.limits.serving)  # requests under way
        self._served_bytes = Shares(2 * self.limits.longest)  # of them; one sender alone gets the longest request
        self._ids = itertools.count(1)
        self._last_ordinal = 0
        self._dismissed: set[str] = set()  # other ends that have said that the certificate of this one was revoked
        self._closed = False

    # -- sending -------------------------------------------------------------------------------------------------

    def on_channel(self, channel: str, receive: Receive) -> None:
        """Pass each data frame of a channel to a function, with the address of its sender."""
        self.channels[channel] = receive, CHANNELS.get(channel, PEERS)

    def send(self, to: str, message: bytes) -> None:
        """Queue a control message on the link to ``to``; drop and report it if the link is full."""
        if self._closed:
            return
        link = self.by_address.get(to) or self._link(to)
        size = len(message) + FRAME_OVERHEAD
        if link.control + size > self.limits.control:
            if not link.dropped:  # one event for each episode, not for each message
                self._record(LinkOverflowed, to, queued=link.control, limit=self.limits.control)
            link.dropped += 1
            return
        link.put(message, size, data=False, shape=self.shape)

    def send_data(self, to: str, channel: str, payload: bytes) -> None:
        """Queue ``payload`` on ``channel`` of the link to ``to``.

        Raises ``LinkFull`` if more than ``limits.data`` bytes would be queued, or the payload has more than
        ``limits.message``.
        """
        if self._closed:
            return
        link = self.by_address.get(to) or self._link(to)
        size = len(payload) + FRAME_OVERHEAD
        if size > self.limits.message:
            raise LinkFull(f"link to {to}: a frame of {size} bytes; limit {self.limits.message}")
        if link.data + size > self.limits.data and link.data:
            raise LinkFull(f"link to {to}: {link.data} bytes of data wait; limit {self.limits.data}")
        link.put((channel, payload), size, data=True, shape=self.shape)

    def pending(self, to: str) -> int:
        """Return the bytes queued on the link to ``to``, including delayed ones."""
        link = self.by_address.get(to)
        return 0 if link is None else link.control + link.data

    async def request(self, to: str, operation: str, payload: bytes = b"", timeout: float = 5.0) -> bytes:
        """Send a request to the peer at ``to`` and return its answer.

        Raises ``TimeoutError`` if no answer arrived within ``timeout`` seconds, including the time to connect;
        ``LinkDown`` if the link could not be opened, or failed meanwhile; ``LinkFull`` if it has more than
        ``limits.message`` bytes. While too many others are queued, it waits; ``RemoteError`` if the handler failed; the
        message is that of its error.
        """
        if self._closed:
            raise LinkDown(f"{to}: the links of {self.address} are closed")
        answer: asyncio.Future[tuple[bool, bytes]] = asyncio.get_running_loop().create_future()
        number = next(self._ids)
        link: _Link | None = None
        size = len(payload) + len(operation) + FRAME_OVERHEAD
        if size > self.limits.message:
            raise LinkFull(f"link to {to}: a request of {size} bytes; limit {self.limits.message}")
        if to == self.address:
            self._serve(None, number, operation, payload, answer)
        try:
            async with asyncio.timeout(timeout):
                if to != self.address:
                    while not (found := self.by_address.get(to) or self._link(to)).fits(size):
                        await found.movement()
                    link = found
                    link.calls[number] = answer
                    link.put((REQUEST, number, operation, payload), size, data=None, shape=self.shape)
                succeeded, body = await answer
        except TimeoutError:
            raise TimeoutError(f"request {operation!r} to {to}: no answer within {timeout:g} s") from None
        finally:
            if link is not None:
                link.calls.pop(number, None)
        if not succeeded:
            raise RemoteError(body.decode(errors="replace"))
        return body

    # -- life ----------------------------------------------------------------------------------------------------

    def connected(self) -> list[str]:
        """Return the names of the other ends of all open links."""
        return [link.to for link in self.by_address.values() if link.comm is not None]

    def drop(self, to: str, reason: str = "dropped") -> None:
        """Discard the link to ``to`` and its queue; the next send opens it anew."""
        link = self.by_address.get(to)
        if link is not None:
            self._fail(link, reason)

    def refuse(self, sender: str, what: str, roles: AbstractSet[str]) -> None:
        """Count that a sender was refused what other roles may do; note it the 1st, 2nd, 4th, 8th ... time."""
        holder = holder_of(sender)[:200]
        times = self._counted(holder, what)
        if times:
            self._record(SenderRefused, holder, what=what, expected=" or ".join(sorted(roles)), times=times)

    def _counted(self, sender: str, what: str) -> int:
        """Count a refusal; return how many there were if it is to be noted, else 0."""
        key = (sender, what)
        if key not in self.refused and len(self.refused) >= MOST_COUNTED:
            key = ("others", what[:20])
        self.refused[key] += 1
        times = self.refused[key]
        return 0 if times & (times - 1) else times

    def revocations_grew(self) -> None:
        """Close the links of those whose certificates no longer count, and tell them why; pass the list on to others.

        Nothing else is sent to those.
        """
        revoked = self._identities.revoked if self._identities is not None else ()
        for link in [each for each in self.by_address.values() if each.id in revoked]:
            comm, writer = link.comm, link.writer
            link.comm = link.writer = None  # which go on until the last frame is sent
            self._fail(link, REVOKED)
            if comm is not None and writer is not None:
                link.put((PARTING,), FRAME_OVERHEAD, data=False, shape=None)
                self._task(self._part(link, comm, writer), f"link to {link.to}: part")
        for link in self.by_address.values():
            if link.comm is not None:
                self._put_revocations(link)

    async def accept(self, comm: Any, hello: Mapping[str, Any]) -> None:
        """Serve an incoming comm whose first message was ``hello``; return when it is closed."""
        comm.allow_offload = False  # frames are bounded and copied fast: threads would only add delay
        sender, ordinal = hello.get("sender"), hello.get("ordinal")
        refusal, holder = self._refusal(hello), ""
        if refusal is None and sender == self.address:
            refusal = "hello: sender is this peer's own address"
        if refusal is None:
            refusal, holder = self._impostor(comm, str(sender), listens=True)
        if refusal is not None or not isinstance(sender, str) or not isinstance(ordinal, int):
            who, reason = holder or str(sender)[:200], refusal or "malformed hello"
            if self._counted(who, reason):
                self._record(LinkRefused, who, reason=reason)
            await self._turn_away(comm, {"refused": refusal or "malformed hello"})
            return
        link = self.by_address.get(sender)
        if link is not None and link.comm is not None:
            if ordinal <= link.theirs:  # an attempt from before the comm in use
                await self._turn_away(comm, {"crossed": True})
                return
            self._fail(link, REPLACED)
            link = self.by_address.get(sender)
        if link is not None and link.opener is not None and self.address < sender:
            await self._turn_away(comm, {"crossed": True})
            return
        if link is None and (full := self._full(sender)):
            self._on_shed(holder_of(sender), "links", full)
            await self._turn_away(comm, {"refused": f"too many links: this peer has {full}"})
            return
        if link is None:
            link = self.by_address[sender] = self._new(sender)
        self._dismissed.discard(sender)
        welcome = {"welcome": PROTOCOL_VERSION, "address": self.address, "ordinal": self._ordinal()}
        link.id = holder
        await self._read(link, self._adopt(link, comm, ordinal, welcome))

    async def close(self) -> None:
        """Wait a moment until queued frames are sent, then end all links and tasks."""
        if self._closed:
            return
        waiting = [link.drained() for link in self.by_address.values() if link.comm is not None]
        if waiting:
            try:
                async with asyncio.timeout(self.limits.flush):
                    await asyncio.gather(*waiting)
            except TimeoutError:
                pass
        self._closed = True
        for link in list(self.by_address.values()):
            self._fail(link, "closed", report=False)
        tasks = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- inside: state of a link ---------------------------------------------------------------------------------

    def _ordinal(self) -> int:
        self._last_ordinal = max(self._last_ordinal + 1, time.time_ns())  # grows over restarts, too
        return self._last_ordinal

    def _task(self, work: Any, name: str) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _new(self, to: str) -> _Link:
        return _Link(to, self.limits, lambda to, dropped: self._record(LinkResumed, to, dropped=dropped))

    def _link(self, to: str) -> _Link:
        """A new link, opening."""
        if self._closed:
            raise LinkDown(f"{to}: the links of {self.address} are closed")
        link = self.by_address[to] = self._new(to)
        if to in self._dismissed:  # a name that was revoked is never let in again
            asyncio.get_running_loop().call_soon(self._fail, link, DISMISSED)
        elif "://" in to:
            link.opener = self._task(self._open(link), f"link to {to}: open")
        else:  # a client that has left: only the client can open a link
            asyncio.get_running_loop().call_soon(self._fail, link, "not connected, and no address to connect to")
        return link

    def _adopt(self, link: _Link, comm: Comm, theirs: int, welcome: Any = None) -> Comm:
        """Use a comm for a link; return what frames are read from."""
        link.comm, link.theirs, link.opener = comm, theirs, None
        self._put_revocations(link)
        frames = framed(comm, self.limits)
        link.writer = self._task(self._write(link, frames, welcome), f"link to {link.to}: write")
        return frames

    def _put_revocations(self, link: _Link) -> None:
        """Tell the other end what was revoked; a guest tells nobody, and has it from the peers."""
        told = self._identities.revocations if self._identities is not None else b""
        if told and role_of(self.address) in MAY_REVOKE:
            link.put((REVOCATIONS, told), len(told) + FRAME_OVERHEAD, data=False, shape=self.shape)

    def _take_revocations(self, link: _Link, told: bytes) -> None:
        if link.role not in MAY_REVOKE:
            self.refuse(link.to, "a list of what was revoked", MAY_REVOKE)
        elif self._identities is not None:
            try:
                self._identities.take_revocations(told)
            except WrongIdentity as error:
                self._record(FrameRefused, link.to, reason=str(error))

    def _fail(self, link: _Link, reason: str, *, report: bool = True) -> None:
        if self.by_address.get(link.to) is not link:
            return  # already given up
        del self.by_address[link.to]
        if link.comm is not None:
            link.comm.abort()
        current = asyncio.current_task()
        for task in (link.opener, link.reader, link.writer):
            if task is not None and task is not current:
                task.cancel()
        link.clear()
        for answer in link.calls.values():
            if not answer.done():
                answer.set_exception(LinkDown(f"{link.to}: {reason}"))
                answer.exception()  # retrieved: the caller may have been cancelled
        if report and self._on_down is not None:
            self._call(link.to, self._on_down, link.to, reason)

    async def _part(self, link: _Link, comm: Comm, writer: asyncio.Task[None]) -> None:
        """Close the comm of a discarded link when its last frame has been sent, or soon."""
        try:
            async with asyncio.timeout(self.limits.flush):
                await link.drained()
                stream = getattr(comm, "stream", None)
                if stream is not None and stream.writing():
                    await stream.write(b"")
        except (TimeoutError, OSError):
            pass
        finally:
            writer.cancel()
            comm.abort()

    # -- inside: opening -----------------------------------------------------------------------------------------

    async def _open(self, link: _Link) -> None:
        comm: Any = None
        try:
            async with asyncio.timeout(self.limits.connect):
                comm = await self._connect(link.to)
                comm.allow_offload = False
                wrong, holder = self._impostor(comm, link.to, listens="://" in self.address)
                if wrong is not None:
                    if self._counted(holder or link.to, wrong):
                        self._record(LinkRefused, holder or link.to, reason=wrong)
                    raise ValueError(f"refused: {wrong}")
                if link.comm is None:
                    hello = {"version": PROTOCOL_VERSION, "sender": self.address, "ordinal": self._ordinal()}
                    await comm.write({"op": HANDLER, "reply": True, "hello": hello})
                    answer = await comm.read()
                    if link.comm is None and isinstance(answer, Mapping) and answer.get("crossed"):
                        comm.abort()
                        await asyncio.get_running_loop().create_future()  # until the other's attempt comes, or never
        except (OSError, ValueError, RuntimeError, TypeError) as error:  # TimeoutError is an OSError
            if comm is not None:
                comm.abort()
            if link.comm is None:
                reason = f"no link within {self.limits.connect:g} s" if isinstance(error, TimeoutError) else str(error)
                self._fail(link, reason or type(error).__name__)
            return
        except asyncio.CancelledError:
            if comm is not None:
                comm.abort()
            raise
        if link.comm is not None:  # the other side's attempt arrived first
            comm.abort()
        elif isinstance(answer, Mapping) and answer.get("welcome") == PROTOCOL_VERSION:
            link.id = holder
            frames = self._adopt(link, comm, int(answer["ordinal"]))
            link.reader = self._task(self._read(link, frames), f"link to {link.to}: read")
        else:
            comm.abort()
            refused = answer.get("refused") if isinstance(answer, Mapping) else None
            reason = f"refused: {refused}" if refused else f"not a Synergy peer: no handler {HANDLER!r} at {link.to}"
            if refused == REVOKED:
                self._dismissed.add(link.to)
                reason = DISMISSED
            if self._counted(link.to, reason):
                self._record(LinkRefused, link.to, reason=reason)
            self._fail(link, reason)

    def _impostor(self, comm: Any, sender: str, *, listens: bool) -> tuple[str | None, str]:
        """Return why the other end of a comm is not ``sender``, or None, and the id of its certificate if it has one.

        ``listens``: False where a peer may not have got the certificate with its address yet.
        """
        if self._identities is None:
            return None, ""
        identity = self._identities.identify(comm)
        held = "" if identity is None else identity.id
        if held in self._identities.revoked:
            return REVOKED, held
        return difference(sender, identity, listens=listens) or None, held

    def _full(self, sender: str) -> str:
        """Words for the links that this peer may have, if it has as many; empty if there is room for another one.

        Who connects from many processes has no more links than are free, see :class:`.Shares`.
        """
        peer, holder = "://" in sender, holder_of(sender)
        most = self.limits.peers if peer else self.limits.clients
        held = [each for each in self.by_address if ("://" in each) == peer]
        own = sum(holder_of(each) == holder for each in held)
        if own < most - len(held):
            return ""
        of = f", and {own} of {holder}" if own else ""
        return f"at most {most} of {'peers' if peer else 'clients'}{of}"

    @staticmethod
    def _refusal(hello: Mapping[str, Any]) -> str | None:
        """Return why a hello is refused; None if it is accepted."""
        expected = {"version": int, "sender": str, "ordinal": int}
        for name, kind in expected.items():
            if not isinstance(hello.get(name), kind):
                return f"hello: {name} is {hello.get(name)!r:.100}; expected {kind.__name__}"
        if hello["version"] != PROTOCOL_VERSION:
            return f"link protocol version {hello['version']}; this peer speaks {PROTOCOL_VERSION}"
        if not hello["sender"]:
            return "hello: sender is empty; expected a peer's address or a client's name"
        return None

    @staticmethod
    async def _turn_away(comm: Any, answer: Mapping[str, Any]) -> None:
        try:
            await comm.write(dict(answer))
            await comm.read()  # the opener reads the answer, then closes
        except OSError:
            pass
        comm.abort()

    # -- inside: writing -----------------------------------------------------------------------------------------

    async def _write(self, link: _Link, frames: Comm, welcome: Any) -> None:
        try:
            if welcome is not None and link.comm is not None:
                await link.comm.write(welcome)
            await link.write(frames)
        except (OSError, AttributeError) as error:  # AttributeError: a comm closed under the writer
            self._fail(link, f"cannot write: {error}")

    # -- inside: reading -----------------------------------------------------------------------------------------

    async def _read(self, link: _Link, comm: Comm) -> None:
        try:
            while True:
                frames = await comm.read()
                if self.by_address.get(link.to) is not link:
                    continue  # it was discarded, and is about to be closed
                if not isinstance(frames, tuple):
                    self._record(FrameRefused, link.to, reason=f"{type(frames).__name__}; expected a tuple of frames")
                    continue
                for frame in frames:
                    self._dispatch(link, frame)
        except (OSError, AttributeError) as error:
            self._fail(link, f"connection closed: {error}" if str(error) else "connection closed")
        except Exception as error:  # noqa: BLE001 - bytes that are not what a comm carries, whatever the decoder raises
            self._record(FrameRefused, link.to, reason=str(error)[:500])
            self._fail(link, f"garbled: {error}")

    def _dispatch(self, link: _Link, frame: Any) -> None:
        match frame:
            case bytes() if len(frame) > self.limits.control:  # longer than any that a peer can send
                reason = f"a control message of a length of {len(frame)}; expected at most {self.limits.control}"
                self._record(FrameRefused, link.to, reason=reason)
            case bytes():
                if self._on_message is not None:
                    self._call(link.to, self._on_message, link.to, frame)
            case (str(channel), bytes() as payload):
                receive, senders = self.channels.get(channel, (None, PEERS))
                if link.role not in senders:
                    self.refuse(link.to, f"data on the channel {channel!r:.100}", senders)
                    return
                if receive is None:
                    expected = " or ".join(map(repr, self.channels)) or "no data"
                    self._record(DataRefused, link.to, reason=f"channel {channel!r:.100}; expected {expected}")
                    return
                try:
                    receive(link.to, payload)
                except Exception as error:  # noqa: BLE001 - one bad frame must not end the link
                    self._record(FrameUnhandled, link.to, error=f"{type(error).__name__}: {error}")
            case (3, int(size), bool(contiguous)):
                if self._on_mark is not None:
                    self._on_mark(link.to, size, contiguous)
            case (1, int(number), str(operation), bytes() as payload):
                self._serve(link, number, operation, payload, None)
            case (4,):
                self._dismissed.add(link.to)
                self._fail(link, DISMISSED)
            case (5, bytes() as told):
                self._take_revocations(link, told)
            case (2, int(number), bool(succeeded), bytes() as payload):
                answer = link.calls.pop(number, None)
                if answer is not None and not answer.done():
                    answer.set_result((succeeded, payload))
            case _:
                self._record(FrameRefused, link.to, reason=f"unknown frame {frame!r:.100}")

    def _call(self, subject: str, callback: Callable[..., None], *arguments: Any) -> None:
        try:
            callback(*arguments)
        except Exception as error:  # noqa: BLE001 - one bad frame must not end the link
            self._record(FrameUnhandled, subject, error=f"{type(error).__name__}: {error}")

    def _serve(
        self,
        link: _Link | None,
        number: int,
        operation: str,
        payload: bytes,
        answer: asyncio.Future[tuple[bool, bytes]] | None,
    ) -> None:
        sender = self.address if link is None else holder_of(link.to)
        if not self._served_bytes.take(sender, len(payload)):
            self._on_shed(sender, "requests", f"its share of {self._served_bytes.places} bytes at a time")
            self._answer(link, number, False, b"busy: requests of so many bytes are under way", answer)
            return
        if not self._serving.take(sender):
            self._served_bytes.give_back(sender, len(payload))
            own = self._serving.of(sender)
            busy = f"busy: {own} requests of {sender} are under way, and {self._serving.held} in all"
            self._on_shed(sender, "requests", f"its share of {self.limits.serving} at a time")
            self._answer(link, number, False, busy.encode(), answer)
            return
        self._task(self._handle(link, number, operation, payload, answer), f"request {operation}")

    async def _handle(
        self,
        link: _Link | None,
        number: int,
        operation: str,
        payload: bytes,
        answer: asyncio.Future[tuple[bool, bytes]] | None,
    ) -> None:
        sender = self.address if link is None else link.to
        holder = sender if link is None else holder_of(sender)
        try:
            if self._on_request is None:
                raise RuntimeError(f"{self.address} answers no requests")
            succeeded, body = True, bytes(await self._on_request(sender, operation, payload))
        except Exception as error:  # noqa: BLE001 - sent to the caller
            succeeded, body = False, f"{type(error).__name__}: {error}".encode()
        finally:
            self._serving.give_back(holder)
            self._served_bytes.give_back(holder, len(payload))
        self._answer(link, number, succeeded, body, answer)

    def _answer(
        self,
        link: _Link | None,
        number: int,
        succeeded: bool,
        body: bytes,
        answer: asyncio.Future[tuple[bool, bytes]] | None,
    ) -> None:
        if answer is not None:  # a request to itself
            if not answer.done():
                answer.set_result((succeeded, body))
            return
        if link is None or self.by_address.get(link.to) is not link:
            return  # the link failed meanwhile: so did the request
        size = len(body) + FRAME_OVERHEAD
        if link.data + size > self.limits.data and link.data:
            succeeded, body, size = False, b"LinkFull: too many answers wait", 64
        elif size > self.limits.message:
            text = f"LinkFull: an answer of {size} bytes; limit {self.limits.message}"
            succeeded, body, size = False, text.encode(), 128
        link.put((ANSWER, number, succeeded, body), size, data=True, shape=self.shape)
