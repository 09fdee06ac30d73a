"""The endpoint of a peer for Spark: its Python workers fetch the inputs of queries here, and deliver results."""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from spark_stream._exchange import Exchange
from spark_stream.address import LONGEST_SOCKET
from spark_stream.results import ExchangeRefused

if TYPE_CHECKING:
    from spark_stream._flight_server import FlightServer

__all__ = ["PeerEndpoint"]


class PeerEndpoint:
    """The endpoint of a peer for Spark, opened with the first query; call :meth:`close` at the end."""

    def __init__(self, host: str = "127.0.0.1", folder: Callable[[], Path | None] = lambda: None) -> None:
        self.host = host  # address that Spark's workers reach this machine at
        # function that returns the folder of the Spark server if it is one of this user's on this machine
        self._folder = folder
        self.token = secrets.token_urlsafe(24)
        self._lock = threading.Lock()
        self._exchanges: dict[str, Exchange] = {}
        self._server: FlightServer | None = None
        self._closed = False

    @property
    def address(self) -> str:
        """Address for Spark's workers; opens the endpoint if it is not open."""
        return self._open().address

    @property
    def certificate(self) -> str:
        """Certificate that Spark's workers have to trust; opens the endpoint if it is not open. Empty at a socket."""
        return self._open().certificate

    def _open(self) -> FlightServer:
        with self._lock:
            if self._closed:
                raise RuntimeError("the endpoint was closed")
            if self._server is None:
                # gRPC must not be there when a process forks, and starts its threads when it is
                from spark_stream._flight_server import FlightServer  # noqa: PLC0415

                self._server = FlightServer(self.host, self._socket(), self.token, self.exchange)
            return self._server

    def _socket(self) -> Path | None:
        """Path of a socket in the folder of the Spark server; None if there is none that an address can have."""
        folder = self._folder()
        path = None if folder is None else folder / f"peer-{secrets.token_hex(8)}"
        return path if path is not None and len(os.fsencode(path)) < LONGEST_SOCKET else None

    def admit(self, exchange: Exchange) -> None:
        """Accept calls of the query of ``exchange``."""
        with self._lock:
            if exchange.name in self._exchanges:
                raise ValueError(f"query {exchange.name!r} is at the endpoint already")
            self._exchanges[exchange.name] = exchange

    def dismiss(self, exchange: Exchange) -> None:
        """Refuse further calls of the query of ``exchange``, and those that wait."""
        exchange.close()
        with self._lock:
            if self._exchanges.get(exchange.name) is exchange:
                del self._exchanges[exchange.name]

    def exchange(self, name: str) -> Exchange:
        """The exchange of a query.

        Raises ``ExchangeRefused`` if there is no such query.
        """
        with self._lock:
            found = self._exchanges.get(name)
        if found is None:
            raise ExchangeRefused(f"query {name!r} is not at this endpoint")
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
