"""Connectors: one outside system, one module, each a :class:`~synergy_nb.dataflow.sources.Source`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from synergy_nb.connectors._databases import QuerySource
from synergy_nb.connectors._directories import DirectorySource
from synergy_nb.connectors._event_streams import EventSource
from synergy_nb.connectors._kafka_topics import TopicSource
from synergy_nb.connectors._mqtt import MessageSource
from synergy_nb.connectors._sockets import SocketSource
from synergy_nb.connectors._tails import TailSource
from synergy_nb.connectors._web_pages import PageSource
from synergy_nb.connectors._web_sockets import WebSocketSource
from synergy_nb.connectors.secret_values import Secrets, discreet
from synergy_nb.dataflow.sources import Source
from synergy_nb.plan.derived.named_secrets import secrets_of
from synergy_nb.plan.operators.sources import reader_of

__all__ = ["POLLED", "connected"]

_MAKERS: Final[Mapping[str, Callable[[Mapping[str, Any], Mapping[str, str], Secrets], Source]]] = {
    "directory": DirectorySource,
    "http": PageSource,
    "kafka": TopicSource,
    "mqtt": MessageSource,
    "socket": SocketSource,
    "sql": QuerySource,
    "sse": EventSource,
    "tail": TailSource,
    "websocket": WebSocketSource,
}
#: Connectors that this room has.
POLLED: Final = tuple(_MAKERS)


def connected(params: Mapping[str, Any], schema: Mapping[str, str], secrets: Mapping[str, bytes]) -> Source:
    """Return the source that the parameters of a plan's source describe, which is not open yet.

    ``schema``: columns of its stream with their types; ``secrets``: values by the names that plans use for them. What
    the source says has the names in place of the values.

    Raises ``ValueError`` if the source names a secret that is not there.
    """
    named = Secrets(secrets_of("source", params), secrets)
    source = _MAKERS[params["connector"]](params, schema, named)
    if (reader := reader_of(params)) is not None:
        source.split(*reader)
    return discreet(source, named, ("open", "poll", "close"))
