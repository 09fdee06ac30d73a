"""Lines that a server sends over a TCP connection. It has no positions: what is sent while nobody reads is lost."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Any, Final

from synergy_nb.connectors._addresses import connected_to
from synergy_nb.connectors.secret_values import Secrets
from synergy_nb.dataflow.sources import BrokenForNow, Polled, Source
from synergy_nb.plan.operators.parameter_types import host_and_port
from synergy_nb.traces.line_tables import LineTables

READ: Final = 1 << 20  # bytes that are read at a time


class SocketSource(Source):
    """The lines of a TCP connection."""

    def __init__(self, params: Mapping[str, Any], schema: Mapping[str, str], secrets: Secrets) -> None:
        self._address = params["address"]
        self._ends = bool(params.get("ends"))
        self._lines = LineTables(self._address, schema, params)
        self._socket: socket.socket | None = None
        self._rest = b""
        self._number = 1
        self._closed = False  # whether the server has closed the connection

    def open(self, position: Any) -> None:
        """Connect."""
        self._rest, self._number, self._closed = b"", 1, False
        self._lines.begin()
        self._socket = connected_to(*host_and_port(self._address))

    def poll(self, seconds: float) -> Polled | None:
        """Return the rows of the lines that have arrived."""
        assert self._socket is not None
        if self._closed:
            if self._ends:
                return Polled(ends=True)
            raise BrokenForNow(f"connection to {self._address}: the server has closed it")
        try:
            self._socket.settimeout(seconds)
            piece = self._socket.recv(READ)
        except (TimeoutError, BlockingIOError):
            return None
        except OSError as error:
            raise BrokenForNow(f"connection to {self._address}: {error.strerror or error}") from None
        self._rest += piece
        self._closed = not piece
        if self._lines.needs_header:
            end = self._rest.find(b"\n") + 1
            if not end:
                return None
            self._lines.headed_by(self._rest[:end])
            self._rest, self._number = self._rest[end:], 2
        taken = self._lines.take(self._rest, self._number, last=self._closed)
        self._rest, self._number = self._rest[taken.used :], self._number + taken.lines
        return Polled(taken.table, said=self._lines.said(), skipped=self._lines.skipped)

    def close(self) -> None:
        """Close the connection."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
