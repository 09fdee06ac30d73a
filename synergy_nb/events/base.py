"""The base of all events: time and peer, severity, encoding, and dispatch on their type."""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import IntEnum
from functools import lru_cache
from typing import Any, ClassVar, Concatenate, Final, ParamSpec, Protocol, TypeVar, Union, get_args, get_type_hints

import msgspec

__all__ = [
    "BASE",
    "Event",
    "Handlers",
    "Recorder",
    "RequestEvent",
    "Severity",
    "declared",
    "decode_events",
    "encode_events",
    "kinds_of",
]

P = ParamSpec("P")
H = TypeVar("H", bound=Callable[..., Any])


class Severity(IntEnum):
    """Importance of an event for people.

    ``DETAIL``: the journal holds it, and no view shows it. ``NOTE``: it belongs to the account of a request, an
    application or a peer. ``WARNING``: something was lost or abandoned, and the application continues. ``ERROR``:
    something failed.
    """

    DETAIL = 10
    NOTE = 20
    WARNING = 30
    ERROR = 40


def _kind(name: str) -> str:
    """Derive the kind of an event from the name of its class.

    >>> _kind("ProbeDropped"), _kind("LinkBroken")
    ('probe_dropped', 'link_broken')
    """
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


class _Numbered(msgspec.Struct, frozen=True, gc=False, kw_only=True, array_like=True, tag=_kind):
    """Base with the position in a journal; keyword-only, so that it is the last field of every event."""

    sequence: int = -1


class Event(_Numbered, frozen=True, gc=False, array_like=True):
    """One past fact. Its subclasses are the events; the name of the class, in lower case, is the event's kind.

    ``gc=False``: events never refer to themselves, so the garbage collector need not track them.

    ``sequence``: position in the journal that holds the event; the journal assigns it.
    """

    severity: ClassVar[Severity] = Severity.NOTE  # severity of all events of this type

    # time on the clock of the driver (the peer's clock on Dask workers, virtual time in the simulator), seconds
    time: float
    peer: str  # address of the peer at which it happened; empty where a client noticed it
    subject: str  # request, application or peer of the event; empty for the recording peer itself

    @property
    def subjects(self) -> tuple[str, ...]:
        """All subjects of the event: an event may concern further requests beside its ``subject``."""
        return (self.subject,)

    @property
    def kind(self) -> str:
        """Name of the event's type as text, such as ``probe_dropped``."""
        return str(self.__struct_config__.tag)

    @property
    def detail(self) -> dict[str, Any]:
        """Fields of this type of event by name, without those of all events."""
        return {name: getattr(self, name) for name in self.__struct_fields__ if name not in BASE}


class RequestEvent(Event, frozen=True, gc=False):
    """Base of the events whose subject is a request, or the application of an admitted request."""


#: Names of the fields that every event has.
BASE: Final = frozenset(Event.__struct_fields__)


class Recorder(Protocol):
    """Function that writes events to a journal; it adds the time and the peer."""

    def __call__(
        self, kind: Callable[Concatenate[float, str, P], Event], /, *fields: P.args, **named: P.kwargs
    ) -> None: ...


def kinds_of(event: type[Event]) -> tuple[type[Event], ...]:
    """Declared types of events below a class, or the class itself if it is one."""
    below = event.__subclasses__()
    return tuple(kind for each in below for kind in kinds_of(each)) if below else (event,)


def declared() -> tuple[type[Event], ...]:
    """All declared types of events."""
    return kinds_of(Event)


# -- bytes -----------------------------------------------------------------------------------------------------------

_ENCODER: Final = msgspec.msgpack.Encoder()


def encode_events(events: list[Event]) -> bytes:
    """Encode events in MessagePack, each as an array: kind, time, peer, subject, its own fields, sequence number."""
    return _ENCODER.encode(events)


def decode_events(data: bytes | msgspec.Raw) -> list[Event]:
    """Decode the list of events in ``data``.

    Raises ``msgspec.MsgspecError`` if ``data`` holds anything but declared events.
    """
    found: list[Event] = _decoder(declared()).decode(data)
    return found


@lru_cache(maxsize=2)
def _decoder(kinds: tuple[type[Event], ...]) -> msgspec.msgpack.Decoder[Any]:
    union: Any = list[Union[kinds]]  # type: ignore[valid-type]  # noqa: UP007 - built at run time
    return msgspec.msgpack.Decoder(union)


# -- dispatch --------------------------------------------------------------------------------------------------------


class Handlers:
    """A dispatch table from types of events to handlers, which are registered by a decorator.

    The annotation of a handler's last parameter is its type: one type, a union, or a base class for all types below it.

    Examples
    --------
    >>> from synergy_nb.events import Event, PeerStarted
    >>> class Names:
    ...     handlers = Handlers()
    ...     def __init__(self) -> None:
    ...         self.names: list[str] = []
    ...     @handlers.add
    ...     def _started(self, event: PeerStarted) -> None:
    ...         self.names.append(event.name)
    >>> found = Names()
    >>> Names.handlers.get(PeerStarted)(found, PeerStarted(0.0, "a", "a", "peer-1"))
    >>> found.names
    ['peer-1']
    """

    def __init__(self) -> None:
        self._table: dict[type[Event], Callable[..., Any]] = {}

    def add(self, handler: H) -> H:
        """Register a handler for the types of events in the annotation of its last parameter."""
        given = [hint for name, hint in get_type_hints(handler).items() if name != "return"][-1]
        for kind in get_args(given) or (given,):
            for each in kinds_of(kind):
                if each in self._table:
                    raise TypeError(f"{each.__name__} has handlers {self._table[each].__name__} and {handler.__name__}")
                self._table[each] = handler
        return handler

    def get(self, kind: type[Event]) -> Callable[..., Any] | None:
        """Handler of a type of events, or None."""
        return self._table.get(kind)

    @property
    def kinds(self) -> frozenset[type[Event]]:
        """All types of events with a handler."""
        return frozenset(self._table)
