"""Addresses of channels and components: the only place that composes them, and that takes them apart.

An address says first which kind of frame it is for, and then whom: ``data:APPLICATION/UPSTREAM>OPERATOR:PORT`` for a
channel between two components, ``replica:APPLICATION/OPERATOR`` for a component. Names of plans, and so of
applications, are free text. What separates the parts of an address is therefore escaped within a part (``%3A`` for a
colon, as in URLs), and so is whatever cannot be printed. So different parts never give the same address, and an address
can be read in a journal.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote, unquote

__all__ = ["CREDIT", "DATA", "REPLICA", "SETTLED", "STATE", "channel_of", "component_at", "component_of", "kind_of",
           "parts_of", "results_of", "retyped"]  # fmt: skip

DATA: Final = "data"  # items of a stream
CREDIT: Final = "credit"  # how much of a channel its reader has consumed
REPLICA: Final = "replica"  # items of a component for its backups
STATE: Final = "state"  # the state of a component for its backups
SETTLED: Final = "settled"  # position of a channel up to which a backup of its reader needs nothing any more
_RESULTS: Final = "results"  # of a sink, for its client

_SEPARATORS: Final = "%/>:"
_SPECIAL: Final = re.compile(f"[{_SEPARATORS}]")


def channel_of(application: str, upstream: str, operator: str, port: int) -> str:
    """Address of the channel from the operator ``upstream`` to an input of ``operator``.

    Examples
    --------
    >>> channel_of("credit: risk", "source", "filter", 0)
    'data:credit%3A risk/source>filter:0'
    """
    return f"{DATA}:{_escaped(application)}/{_escaped(upstream)}>{_escaped(operator)}:{port:d}"


def results_of(application: str, operator: str) -> str:
    """Address of the channel from a sink to its client."""
    return component_of(_RESULTS, application, operator)


def component_of(kind: str, application: str, operator: str) -> str:
    """Address of frames of a kind about a component.

    Examples
    --------
    >>> component_of(STATE, "in/out", "filter")
    'state:in%2Fout/filter'
    """
    return f"{kind}:{_escaped(application)}/{_escaped(operator)}"


def retyped(address: str, kind: str) -> str:
    """The address of frames of another kind about the same channel or component.

    Examples
    --------
    >>> retyped("data:app/source>filter:0", CREDIT)
    'credit:app/source>filter:0'
    """
    return f"{kind}:{address.partition(':')[2]}"


def kind_of(address: str) -> str:
    """The kind of frames that an address is for."""
    return address.partition(":")[0]


def component_at(address: str) -> tuple[str, str]:
    """Application and operator of the component that an address is about.

    Raises
    ------
    ValueError
        If it is no address of a component.
    """
    parts = parts_of(address)
    if len(parts) != 3:
        raise ValueError(f"address: {address!r}; expected KIND:APPLICATION/OPERATOR")
    return parts[1], parts[2]


def parts_of(address: str) -> tuple[str, ...]:
    """All parts of an address: its kind, and the names in it as they were before they were escaped.

    Examples
    --------
    >>> parts_of("data:credit%3A risk/source>filter:0")
    ('data', 'credit: risk', 'source', 'filter', '0')
    """
    return tuple(unquote(part, errors="strict") for part in re.split("[:/>]", address))


def _escaped(text: str) -> str:
    """A name without separators."""
    if text.isprintable() and not _SPECIAL.search(text):
        return text
    return "".join(each if each.isprintable() and each not in _SEPARATORS else quote(each, safe="") for each in text)
