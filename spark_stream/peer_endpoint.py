"""The door of a peer to Spark: where the Python workers of Spark find what its queries read and make."""

from __future__ import annotations

import secrets
import threading
from typing import TYPE_CHECKING

from spark_stream.exchange import Exchange
from spark_stream.results import ExchangeRefused

if TYPE_CHECKING:
    from spark_stream.flight_server import FlightServer

__all__ = ["PeerEndpoint"]


class PeerEndpoint:
    """The door of a peer to Spark, opened when the first query comes; :meth:`close` it when done.

    Parameters
    ----------
    host
        Address that Spark's workers reach this machine at.
    """

    def __init__(self, host: str = "127.0.0.1") -> None:
        self.host = host
        self.token = secrets.token_urlsafe(24)
        self._lock = threading.Lock()
        self._exchanges: dict[str, Exchange] = {}
        self._server: FlightServer | None = None
        self._closed = False

    @property
    def address(self) -> str:
        """Where Spark's workers find it; opens it."""
        with self._lock:
            if self._closed:
                raise RuntimeError("the door was closed")
            if self._server is None:
                # gRPC must not be there when a process forks, and starts its threads when it is
                from spark_stream.flight_server import FlightServer  # noqa: PLC0415

                self._server = FlightServer(self.host, self.token, self.exchange)
            return self._server.address

    def admit(self, exchange: Exchange) -> None:
        """Let the query of ``exchange`` in."""
        with self._lock:
            if exchange.name in self._exchanges:
                raise ValueError(f"query {exchange.name!r} is at the door already")
            self._exchanges[exchange.name] = exchange

    def dismiss(self, exchange: Exchange) -> None:
        """Let the query of ``exchange`` in no longer; what it waits for is refused."""
        exchange.close()
        with self._lock:
            if self._exchanges.get(exchange.name) is exchange:
                del self._exchanges[exchange.name]

    def exchange(self, name: str) -> Exchange:
        """What is kept for a query.

        Raises
        ------
        ExchangeRefused
            If there is no such query.
        """
        with self._lock:
            found = self._exchanges.get(name)
        if found is None:
            raise ExchangeRefused(f"query {name!r} is not at this door")
        return found

    def close(self) -> None:
        """Refuse all queries and close."""
        with self._lock:
            self._closed = True
            exchanges, self._exchanges = tuple(self._exchanges.values()), {}
            server, self._server = self._server, None
        for exchange in exchanges:
            exchange.close()
        if server is not None:
            server.close()
