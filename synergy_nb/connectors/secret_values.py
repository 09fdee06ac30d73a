"""Secrets as they are given, and as connectors use them: values that are in no plan, no error and no name.

Who starts peers gives secrets by name, either the value itself, as ``bytes``, or where it is, as text:
``env:VARIABLE``, ``file:PATH`` or ``keyring:SERVICE/USER``. A text is never the value, so no value is in an error of a
misspelled one. Peers keep the values in memory; a plan has the names.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import quote

from synergy_nb.dataflow.logic import ANYTHING
from synergy_nb.errors import SynergyError
from synergy_nb.plan.derived.named_secrets import NamedSecret
from synergy_nb.plan.terms.secret_names import filled

__all__ = ["Secrets", "discreet", "given_secrets"]

T = TypeVar("T")

_EXPECTED: Final = "'env:VARIABLE', 'file:PATH' or 'keyring:SERVICE/USER', or the value itself as bytes"


def given_secrets(given: Mapping[str, bytes | str] | None) -> dict[str, bytes]:
    """Return the values of secrets by name.

    Raises ``ValueError`` if one is not where it is said to be, or is empty.
    """
    if not isinstance(given, Mapping | None):  # it may have secrets: it is not shown
        raise ValueError(f"secrets: a {type(given).__name__}; expected a mapping of names to {_EXPECTED}")
    return {name: _value(name, where) for name, where in (given or {}).items()}


def _value(name: str, where: bytes | str) -> bytes:
    if not isinstance(name, str) or not name or any(each in "${}" for each in name):
        raise ValueError(f"secrets: {name!r}; expected a name without '$', '{{' and '}}'")
    what = f"secrets: {name!r}"
    if isinstance(where, bytes):
        found, place = where, "the value"
    else:
        kind, colon, rest = where.partition(":") if isinstance(where, str) else ("", "", "")
        read = _READERS.get(kind) if colon and rest else None
        if read is None:  # it may be the secret: it is not shown
            raise ValueError(f"{what}: it is something else; expected {_EXPECTED}")
        place = where
        try:
            found = read(rest)
        except LookupError as error:
            raise ValueError(f"{what}: {where!r}: {error.args[0]}") from None
        except OSError as error:
            raise ValueError(f"{what}: {where!r}: {error.strerror}; expected a file with the secret") from None
    if not found:
        raise ValueError(f"{what}: {place} is empty; expected a secret")
    return found


def _of_environment(name: str) -> bytes:
    found = os.environ.get(name)
    if found is None:
        raise LookupError("it is not set; expected a variable of the environment")
    return found.encode("utf-8", "surrogateescape")


def _of_file(path: str) -> bytes:
    return Path(path).read_bytes()


def _of_keyring(entry: str) -> bytes:
    service, slash, user = entry.rpartition("/")
    if not (slash and service and user):
        raise LookupError("expected a service and a user, as 'keyring:SERVICE/USER'")
    try:
        keyring = import_module("keyring")  # an extra
    except ModuleNotFoundError:
        raise LookupError("the package keyring is not installed; expected `pip install synergy-nb[keyring]`") from None
    try:
        found = keyring.get_password(service, user)
    except ANYTHING as error:  # each system has its own keyring
        raise LookupError(f"{type(error).__name__}; expected a keyring that can be read") from None
    if found is None:
        raise LookupError("it is not there; expected an entry of the keyring")
    return str(found).encode()


_READERS: Final[Mapping[str, Callable[[str], bytes]]] = {
    "env": _of_environment,
    "file": _of_file,
    "keyring": _of_keyring,
}


class Secrets:
    """The secrets that one operator names, as its peer has them."""

    def __init__(self, named: Iterable[NamedSecret], values: Mapping[str, bytes]) -> None:
        """Raises ``ValueError`` if one is missing, or is no text."""
        self._values: dict[str, str] = {}
        for field, name in named:
            if name not in values:
                has = ", ".join(sorted(values)) or "none"
                raise ValueError(f"{field}: secret {name!r}; expected one that this peer has ({has})")
            try:
                text = values[name].decode().rstrip("\r\n")  # as editors end files
            except UnicodeDecodeError:
                raise ValueError(f"{field}: secret {name!r}; expected a text in UTF-8") from None
            if not text.isprintable() or not text:
                raise ValueError(f"{field}: secret {name!r}; expected a line of text")
            self._values[name] = text

    def __repr__(self) -> str:
        return f"Secrets({', '.join(self._values)})"

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._values)

    def value(self, name: str) -> str:
        """Value of a secret."""
        return self._values[name]

    def fill(self, text: str) -> str:
        """A text with the values of the secrets that it names."""
        return filled(text, self.value)

    def fill_in(self, value: Any) -> Any:
        """A value that JSON has, with the values of the secrets that its texts name."""
        if isinstance(value, str):
            return self.fill(value)
        if isinstance(value, Mapping):
            return {name: self.fill_in(each) for name, each in value.items()}
        return [self.fill_in(each) for each in value] if isinstance(value, list) else value

    def fill_url(self, url: str) -> str:
        """A URL with the values of the secrets that it names."""
        return filled(url, lambda name: quote(self._values[name], safe=""))

    def hide(self, text: str) -> str:
        """A text with names in place of values, for errors and journals."""
        for name, value in self._values.items():
            for shown in (value, quote(value, safe=""), repr(value)[1:-1]):
                text = text.replace(shown, f"${{{name}}}")
        return text


def discreet(made: T, secrets: Secrets, methods: Iterable[str]) -> T:
    """Let the methods of a source or of a writer raise errors that have names of secrets in place of values."""
    if secrets:
        for name in methods:
            setattr(made, name, _hiding(getattr(made, name), secrets))
    return made


def _hiding(method: Callable[..., Any], secrets: Secrets) -> Callable[..., Any]:
    @wraps(method)
    def called(*given: Any) -> Any:
        try:
            return method(*given)
        except ANYTHING as error:
            shown = secrets.hide(str(error))
            if shown == str(error):
                raise
            kind = type(error) if isinstance(error, SynergyError) else ValueError
        raise kind(shown)  # outside of `except`: a traceback shows no error that it comes from

    return called
