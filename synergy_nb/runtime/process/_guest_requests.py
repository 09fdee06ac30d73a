"""What a peer does for guests: what it does for owners, of the applications only that a guest may read or control.

Each operation that a guest may request has a row in :data:`NEEDS`, or a method here that limits what the guest gets. An
operation without either is not served.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from synergy_nb.assembly import SynergyPeer
from synergy_nb.control.identity import NotAllowed
from synergy_nb.control.rights import CONTROL, READ, Acceptance, Rights
from synergy_nb.events import Event, PeerMeasured, decode_events, encode_events
from synergy_nb.plan import Plan
from synergy_nb.plan.derived.allowed_paths import refused_paths
from synergy_nb.reporting.peer_states import PeerState
from synergy_nb.runtime.process._hidden_names import HiddenNames
from synergy_nb.runtime.process._peer_contents import PeerContents, is_shipped
from synergy_nb.runtime.process.contents import is_table, name_of
from synergy_nb.runtime.process.requests import (
    ApplicationId,
    ChangeSinks,
    ContentsFound,
    FindContents,
    GrantRight,
    JournalPart,
    Listed,
    RenewLeases,
    SendContent,
    Submit,
    pack,
    unpack,
)

__all__ = ["NEEDS", "GuestRequests"]

Operation = Callable[[bytes], Awaitable[bytes]]

#: Operation about one application to the right to it that a guest needs.
NEEDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        **dict.fromkeys(("decision", "application", "wait", "fetch", "sinks", "leads"), READ),
        **dict.fromkeys(
            ("halt", "hold", "move", "stop", "release", "push", "await copies", "dropped", "pace", "cost"), CONTROL
        ),
    }
)
#: Operations of which a peer may serve what is left of an application that it has forgotten, and so its rights.
LEFT: Final = frozenset({"fetch", "sinks"})
#: Operations whose answers have the state of an application, or why something was refused.
STATES: Final = frozenset({"decision", "application", "wait", "leads", "stop", "hold", "move"})
#: Operations that tell nothing of applications.
FREE: Final = frozenset({"ping", "delays", "where", "joined"})


class GuestRequests:
    """Serves the requests of guests at one peer."""

    def __init__(
        self,
        synergy: SynergyPeer,
        operations: Mapping[str, Operation],  # those of the peer, by name
        submit: Callable[[Submit, str], Awaitable[bytes]],  # function that submits a plan for a guest
        contents: PeerContents,
    ) -> None:
        self._synergy = synergy
        self._operations = operations
        self._submit_for = submit
        self._of_peer = contents
        self._names = HiddenNames(self._known, lambda user, application: self._may(user, application, READ))
        self._special: dict[str, Callable[[str, bytes], Awaitable[bytes]]] = {
            "submit": self._submit,
            "change sinks": self._change_sinks,
            "grant": self._grant,
            "applications": self._applications,
            "renew": self._renew,
            "contents": self._contents,
            "content sent": self._content_sent,
            "state": self._state,
            "events": self._events,
            "follow": self._follow,
            "troubles": self._troubles,
            "errors": self._errors,
        }

    @property
    def served(self) -> frozenset[str]:
        """The operations that a guest may request."""
        return FREE | NEEDS.keys() | self._special.keys()

    @property
    def _accepts(self) -> Acceptance:
        return self._synergy.admission.accepts

    async def __call__(self, user: str, operation: str, payload: bytes) -> bytes:
        """Serve a request of a guest.

        Raises ``NotAllowed`` if the guest has no right to what is requested.
        """
        if operation in self._special:
            return await self._special[operation](user, payload)
        if operation in NEEDS:
            application = unpack(payload, ApplicationId).application  # all of them have this field
            self._check(user, application, NEEDS[operation], known=operation in LEFT)
        elif operation not in FREE:
            raise NotAllowed(
                f"operation: {operation!r} is not for guests; expected one of {', '.join(sorted(self.served))}"
            )
        answer = await self._operations[operation](payload)
        return self._names.answer(user, answer) if operation in STATES else answer

    # -- rights ------------------------------------------------------------------------------------------------------

    def rights(self, application: str) -> Rights | None:
        """The rights to an application, as this peer knows them; None if it does not know the application."""
        request = self._synergy.requests.get(application)
        return self._synergy.session.grants.rights(application) if request is None else request.rights

    def _known(self) -> set[str]:
        """The ids of the applications that this peer knows."""
        session = self._synergy.session
        return {*self._synergy.requests, *session.members, *session.grants.left}

    def folders(self, application: str) -> tuple[str, ...] | None:
        """Folders from which an application may read files; None: from all."""
        rights = self.rights(application)
        return None if rights is None or not rights.owner else self._accepts.folders

    @property
    def hosts(self) -> tuple[str, ...]:
        """Hosts that sources of guests may connect to."""
        return self._accepts.hosts

    def memory(self, application: str) -> tuple[str, float]:
        """The guest of an application, and the bytes that his components may use together here; "" for an owner."""
        rights = self.rights(application)
        user = "" if rights is None else rights.owner
        return user, self._synergy.admission.quota if user else math.inf

    def _may(self, user: str, application: str, right: str) -> bool:
        rights = self.rights(application)
        return rights is not None and rights.allow(user, right)

    def _check(self, user: str, application: str, right: str, *, known: bool = False) -> None:
        """Check a right; ``known``: whether it has to be known, else the operation says what it lacks."""
        rights = self.rights(application)
        if (rights is None and known) or (rights is not None and not rights.allow(user, right)):
            raise NotAllowed(
                f"application: {application!r} is not one that {user!r} may {right}; expected one of your own, or one "
                f"whose owner has called share({user!r}, {right!r})"
            )

    # -- operations that are limited -----------------------------------------------------------------------------------

    async def _submit(self, user: str, payload: bytes) -> bytes:
        request, accepts, names = unpack(payload, Submit), self._accepts, self._synergy.requests.of_user(user)
        if not request.trial and (refusal := accepts.too_many(user, len(names))):
            raise NotAllowed(refusal)
        if request.epoch:
            raise NotAllowed(f"epoch: {request.epoch}; expected 0, as only the owner's program continues applications")
        if request.beside:  # by which it would take the place of that application
            self._check(user, request.beside, CONTROL)
        if refusal := refused_paths(Plan.from_bytes(request.plan), accepts.folders, hosts=accepts.hosts):
            raise NotAllowed(refusal)
        return self._names.answer(user, await self._submit_for(request, user))

    async def _change_sinks(self, user: str, payload: bytes) -> bytes:
        asked = unpack(payload, ChangeSinks)
        for each in (asked.application, asked.new):
            self._check(user, each, CONTROL)
        return await self._operations["change sinks"](payload)

    async def _grant(self, user: str, payload: bytes) -> bytes:
        asked = unpack(payload, GrantRight)
        rights = self.rights(asked.application)
        if rights is not None and rights.owner != user:
            raise NotAllowed(f"application: {asked.application!r}; expected one of your own: only its owner shares it")
        return await self._operations["grant"](payload)

    async def _applications(self, user: str, payload: bytes) -> bytes:
        found = unpack(await self._operations["applications"](payload), Listed).applications
        readable = Listed([each for each in found if self._may(user, each.state.application, READ)])
        return self._names.answer(user, pack(readable))

    async def _renew(self, user: str, payload: bytes) -> bytes:
        named = unpack(payload, RenewLeases).applications
        return await self._operations["renew"](pack(RenewLeases([n for n in named if self._may(user, n, CONTROL)])))

    async def _contents(self, user: str, payload: bytes) -> bytes:
        # without the terms of a table, whose file, or query to DuckDB, the peer would read for him; he sends the table
        wanted = pack(FindContents({each: {} for each in unpack(payload, FindContents).contents}))
        found = unpack(await self._of_peer.find_for_guest(wanted), ContentsFound)
        refused = {each: reason for each in found.lacking if (reason := self._refusal(user, each))}
        lacking = tuple(each for each in found.lacking if each not in refused)
        return pack(msgspec.structs.replace(found, lacking=lacking, refused={**found.refused, **refused}))

    async def _content_sent(self, user: str, payload: bytes) -> bytes:
        sent = unpack(payload, SendContent)
        if refusal := self._refusal(user, sent.piece.component):
            raise NotAllowed(refusal)
        await self._of_peer.receive_from_guest(sent, user, self._accepts.folders)
        return b""

    def _refusal(self, user: str, component: str) -> str:
        """Why a content of a guest is not accepted; empty if it is."""
        accepted = self._accepts.functions
        if is_table(component) or accepted is None:
            return ""
        reference = name_of(component)
        name = reference.partition("@")[0]
        if reference in accepted or name in accepted:
            return ""
        expected = f"one of {', '.join(accepted)}" if accepted else "none"
        return f"function {name!r} of guest {user!r}; expected {expected}, as the peer's owner accepts no other code"

    async def _state(self, user: str, payload: bytes) -> bytes:
        state = unpack(await self._operations["state"](payload), PeerState)
        applications = [each for each in state.applications if self._may(user, each, READ)]
        components = [each for each in state.components if self._may(user, each["application"], READ)]
        offers = [each for each in state.offers if not is_shipped(each)]  # functions and tables of others, too
        return pack(msgspec.structs.replace(state, applications=applications, components=components, offers=offers))

    async def _events(self, user: str, payload: bytes) -> bytes:
        subject = msgspec.msgpack.decode(payload, type=str)
        if subject:
            self._check(user, subject, READ)
        return self._visible(user, await self._operations["events"](payload))

    async def _troubles(self, user: str, payload: bytes) -> bytes:
        return self._visible(user, await self._operations["troubles"](payload))

    async def _follow(self, user: str, payload: bytes) -> bytes:
        part = unpack(await self._operations["follow"](payload), JournalPart)
        return pack(msgspec.structs.replace(part, events=msgspec.Raw(self._visible(user, part.events))))

    async def _errors(self, _user: str, _payload: bytes) -> bytes:
        """Errors of a peer may be of any application, so a guest is not sent them as they happen."""
        return b""

    def _visible(self, user: str, events: bytes | msgspec.Raw) -> bytes:
        """Encode the events of applications that a guest may read, and the measurements of the peer."""
        return encode_events([seen for each in decode_events(events) if (seen := self._seen(user, each)) is not None])

    def _seen(self, user: str, event: Event) -> Event | None:
        if isinstance(event, PeerMeasured):
            own = [each for each in event.components if self._may(user, each.application, READ)]
            return msgspec.structs.replace(event, components=own)
        return self._names.event(user, event) if self._may(user, event.subject, READ) else None
