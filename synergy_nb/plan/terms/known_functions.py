"""The functions that this process has declared, or was sent, by reference: where plans find what they only name."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, Protocol

import msgspec

from synergy_nb.plan.terms.function_references import DIGEST_DIGITS, is_installed
from synergy_nb.plan.terms.units import WrongValue

__all__ = ["DECLARED", "Payload", "add", "checked", "forget", "known", "payload_of", "receive"]


class KnownFunction(Protocol):
    """A function of one's own, as :mod:`synergy_nb.plan.functions.declaring` makes it."""

    reference: str
    payload: bytes  # what travels of it

    def wrongs(self, params: Mapping[str, Any]) -> Iterable[WrongValue]:
        """Find what an operator with these parameters cannot be made with."""


_MOST: Final = 1000  # functions that are known; a cell that declares one again and again replaces the oldest
_declared: Final[dict[str, KnownFunction]] = {}
_received: Final[dict[str, bytes]] = {}
#: Functions by reference.
DECLARED: Final[Mapping[str, KnownFunction]] = MappingProxyType(_declared)


class Payload(msgspec.Struct, frozen=True, array_like=True):
    """What travels of a function, as bytes: its code, which only its own process reads, and what a peer checks."""

    code: bytes  # what cloudpickle has written
    file: str = ""  # path of the file of its model; empty: it has none
    sha256: str = ""  # checksum of that file
    places: list[Any] = []  # text, numbers and bytes: where the code was written, for errors; no part of the content

    @property
    def digest(self) -> str:
        """Hash of the content, which is a part of the reference."""
        content = msgspec.msgpack.encode((self.code, self.file, self.sha256))
        return hashlib.sha256(content).hexdigest()[:DIGEST_DIGITS]

    def encoded(self) -> bytes:
        """Write it."""
        return msgspec.msgpack.encode(self)

    @classmethod
    def decoded(cls, data: bytes) -> Payload:
        """Read it; nothing of the code is read."""
        return msgspec.msgpack.decode(data, type=cls)


def add(function: KnownFunction) -> None:
    """Know a function by its reference."""
    _declared.pop(function.reference, None)
    _declared[function.reference] = function
    if len(_declared) > _MOST:
        del _declared[next(iter(_declared))]


def checked(reference: str, payload: bytes) -> Payload:
    """Decode what another process has sent of a function.

    Raises ``ValueError`` if it is not the content that the reference names, whoever has sent it.
    """
    try:
        sent = Payload.decoded(payload)
    except msgspec.MsgspecError as error:
        raise ValueError(f"function: {reference!r}: what has come is no code of a function: {error}") from None
    stated = reference.partition("@")[2]
    if sent.digest != stated:
        raise ValueError(
            f"function: {reference!r}: what has come is other code, with the hash {sent.digest}; expected that with "
            f"{stated}, which the plan names"
        )
    return sent


def receive(reference: str, payload: bytes) -> None:
    """Keep what another process has sent of a function; nothing of it is read here.

    Raises ``ValueError`` as :func:`checked` does.
    """
    checked(reference, payload)
    _received[reference] = payload


def forget(reference: str) -> None:
    """Keep no more what another process has sent of a function."""
    _received.pop(reference, None)


def known(reference: str) -> KnownFunction | None:
    """The function of a reference, if this process has declared it or has imported its module; nothing is imported."""
    if is_installed(reference):
        module, _, name = reference.partition(":")
        found = getattr(sys.modules.get(module), name, None)
        return found if hasattr(found, "reference") else None
    return _declared.get(reference)


def payload_of(reference: str) -> bytes:
    """What travels of a function; nothing for one that is installed.

    Raises ``ValueError`` if this process has not got it.
    """
    if is_installed(reference):
        return b""
    declared = _declared.get(reference)
    payload = _received.get(reference) if declared is None else declared.payload
    if payload is None:
        raise ValueError(f"function: {reference!r}; expected one that this peer has")
    return payload
