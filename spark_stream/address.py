"""Addresses of Spark Connect servers; read without importing Spark's client, which takes a second."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit

__all__ = ["Address", "parse_url"]

PORT: Final = 15002  # port of Spark Connect where a URL names none
EXPECTED: Final = "expected sc://HOST or sc://HOST:PORT, with options as in sc://HOST:PORT/;use_ssl=true;token=..."


class Address(NamedTuple):
    """What a URL of Spark Connect says."""

    host: str  # name or address
    port: int  # port of the server
    options: Mapping[str, str]  # such as `token`, `use_ssl` and `user_id`


def parse_url(url: str) -> Address:
    """Read a URL of Spark Connect, without connecting.

    Raises ``ValueError`` if it is none; the text says what was expected.

    Examples
    --------
    >>> parse_url("sc://spark.example.org")
    Address(host='spark.example.org', port=15002, options={})
    """
    if not url.startswith("sc://"):
        raise ValueError(f"Spark URL: {url!r}; {EXPECTED}")
    try:
        parts = urlsplit("http" + url[2:])
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise ValueError(f"Spark URL: {url!r}: {error}; {EXPECTED}") from None
    path, *pairs = parts.path.split(";")
    options = dict(pair.partition("=")[::2] for pair in pairs if pair)
    if not host or port == 0 or path not in {"", "/"} or parts.query or parts.fragment or parts.username:
        raise ValueError(f"Spark URL: {url!r}; {EXPECTED}")
    if bad := [name for name, value in options.items() if not value or not re.fullmatch(r"[A-Za-z_][\w.-]*", name)]:
        raise ValueError(f"Spark URL: option {bad[0]!r} of {url!r} has no value or no proper name; {EXPECTED}")
    return Address(host, PORT if port is None else port, {name: unquote(value) for name, value in options.items()})
