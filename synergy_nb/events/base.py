"""What all events share: when and where they happened, their severity, their encoding, and dispatch on their type."""

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
    """How much an event matters to people.

    ``DETAIL``: it is kept for those who look into the journal, and no view shows it. ``NOTE``: it belongs to the
    account of a request, an application or a peer. ``WARNING``: something was lost or given up, and the rest goes on.
    ``ERROR``: something failed.
    """

    DETAIL = 10
    NOTE = 20
    WARNING = 30
    ERROR = 40


def _kind(name: str) -> str:
    """The kind of an event by the name of its class.

    >>> _kind("ProbeDropped"), _kind("LinkBroken")
    ('probe_dropped', 'link_broken')
    """
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


class _Numbered(msgspec.Struct, frozen=True, gc=False, kw_only=True, array_like=True, tag=_kind):
    """What has a position in a journal; keyword-only, so that it is the last field of every event."""

    sequence: int = -1


class Event(_Numbered, frozen=True, gc=False, array_like=True):
    """One past fact. Its subclasses are the events; the name of the class, in lower case, is the event's kind.

    ``gc=False``: events never refer to themselves, so the collector need not look at them.

    Parameters
    ----------
    time
        Seconds on the clock of the driver (the peer's clock on Dask workers, virtual time in the simulator).
    peer
        Address of the peer at which it happened; empty where a client noticed it.
    subject
        The request, application or peer it is about; empty when it is about the peer itself.
    sequence
        Position in the journal that holds the event; the journal assigns it.

    Attributes
    ----------
    severity : Severity
        Severity of all events of this type.
    """

    severity: ClassVar[Severity] = Severity.NOTE

    time: float
    peer: str
    subject: str

    @property
    def kind(self) -> str:
        """The name of its type as text, such as ``probe_dropped``."""
        return str(self.__struct_config__.tag)

    @property
    def detail(self) -> dict[str, Any]:
        """The fields that only this type of event has, by name."""
        return {name: getattr(self, name) for name in self.__struct_fields__ if name not in BASE}


class RequestEvent(Event, frozen=True, gc=False):
    """Base of the events whose subject is a request, or the application that has come of it."""


#: Names of the fields that every event has.
BASE: Final = frozenset(Event.__struct_fields__)


class Recorder(Protocol):
    """What writes events to a journal; it adds the time and the peer."""

    def __call__(
        self, kind: Callable[Concatenate[float, str, P], Event], /, *fields: P.args, **named: P.kwargs
    ) -> None: ...


def kinds_of(event: type[Event]) -> tuple[type[Event], ...]:
    """The types of events that are declared below a class, or that class itself if it is one of them."""
    below = event.__subclasses__()
    return tuple(kind for each in below for kind in kinds_of(each)) if below else (event,)


def declared() -> tuple[type[Event], ...]:
    """All types of events that are declared so far."""
    return kinds_of(Event)


# -- bytes -----------------------------------------------------------------------------------------------------------

_ENCODER: Final = msgspec.msgpack.Encoder()


def encode_events(events: list[Event]) -> bytes:
    """Events in MessagePack, each an array: kind, time, peer, subject, its own fields, sequence number."""
    return _ENCODER.encode(events)


def decode_events(data: bytes | msgspec.Raw) -> list[Event]:
    """The list of events in ``data``.

    Raises
    ------
    msgspec.MsgspecError
        If these are no events that are declared.
    """
    found: list[Event] = _decoder(declared()).decode(data)
    return found


@lru_cache(maxsize=2)
def _decoder(kinds: tuple[type[Event], ...]) -> msgspec.msgpack.Decoder[Any]:
    union: Any = list[Union[kinds]]  # type: ignore[valid-type]  # noqa: UP007 - built at run time
    return msgspec.msgpack.Decoder(union)


# -- dispatch --------------------------------------------------------------------------------------------------------


class Handlers:
    """A table from types of events to the functions that take them, made by decorating the functions.

    The type is that of their last parameter: one type, a union of types, or a base class for all types below it.

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
        """Have a function take the events that its last parameter is annotated with."""
        given = [hint for name, hint in get_type_hints(handler).items() if name != "return"][-1]
        for kind in get_args(given) or (given,):
            for each in kinds_of(kind):
                if each in self._table:
                    raise TypeError(f"{each.__name__} is taken by {self._table[each].__name__} and {handler.__name__}")
                self._table[each] = handler
        return handler

    def get(self, kind: type[Event]) -> Callable[..., Any] | None:
        """The function that takes events of a type; None: there is none."""
        return self._table.get(kind)

    @property
    def kinds(self) -> frozenset[type[Event]]:
        """All types of events that are taken."""
        return frozenset(self._table)
