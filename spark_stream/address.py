"""Addresses of Spark Connect servers; read without importing Spark's client, which takes a second."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import quote, unquote, urlsplit

__all__ = ["LONGEST_SOCKET", "Address", "parse_url"]

LONGEST_SOCKET: Final = 100  # bytes of a path up to which it is an address of a socket on every system
PORT: Final = 15002  # port of Spark Connect where a URL names none
EXPECTED: Final = "expected sc://HOST or sc://HOST:PORT, with options as in sc://HOST:PORT/;use_ssl=true;token=..."
_SOCKET: Final = "unix://"  # beginning of the URL of a server at a socket of this machine


class Address(NamedTuple):
    """What a URL of Spark Connect says."""

    host: str  # name or address; empty for a server at a socket
    port: int  # port of the server; 0 for one at a socket
    options: Mapping[str, str]  # such as `token`, `use_ssl` and `user_id`
    socket: str = ""  # path of its socket; empty for a server at a port

    @property
    def name(self) -> str:
        """Its URL without the options, which may contain a token."""
        return f"{_SOCKET}{quote(self.socket)}" if self.socket else f"sc://{self.host}:{self.port}"


def parse_url(url: str) -> Address:
    """Read a URL of Spark Connect, without connecting.

    Raises ``ValueError`` if it is none; the text says what was expected.

    Examples
    --------
    >>> parse_url("sc://spark.example.org")
    Address(host='spark.example.org', port=15002, options={}, socket='')
    >>> parse_url("unix:///tmp/spark/connect/;token=abc")
    Address(host='', port=0, options={'token': 'abc'}, socket='/tmp/spark/connect')
    """
    if url.startswith(_SOCKET):
        path, *pairs = url.removeprefix(_SOCKET).split(";")
        if not path.startswith("/") or path == "/":
            raise ValueError(f"Spark URL: {url!r}; expected unix:///PATH, the path of a socket")
        return Address("", 0, _options(url, pairs), unquote(path.rstrip("/")))
    if not url.startswith("sc://"):
        raise ValueError(f"Spark URL: {url!r}; {EXPECTED}")
    try:
        parts = urlsplit("http" + url[2:])
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise ValueError(f"Spark URL: {url!r}: {error}; {EXPECTED}") from None
    path, *pairs = parts.path.split(";")
    if not host or port == 0 or path not in {"", "/"} or parts.query or parts.fragment or parts.username:
        raise ValueError(f"Spark URL: {url!r}; {EXPECTED}")
    return Address(host, PORT if port is None else port, _options(url, pairs))


def _options(url: str, pairs: list[str]) -> dict[str, str]:
    options = dict(pair.partition("=")[::2] for pair in pairs if pair)
    if bad := [name for name, value in options.items() if not value or not re.fullmatch(r"[A-Za-z_][\w.-]*", name)]:
        raise ValueError(f"Spark URL: option {bad[0]!r} of {url!r} has no value or no proper name; {EXPECTED}")
    return {name: unquote(value) for name, value in options.items()}
