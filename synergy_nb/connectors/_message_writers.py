"""A WebSocket as the destination of a stream: each row is a message, an object in JSON.

It remembers nothing. A commit ends when the server has answered a ping that follows its rows: then it has read them.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import polars as pl
from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.simple_httpclient import HTTPTimeoutError
from tornado.websocket import WebSocketClientConnection, WebSocketError, websocket_connect

from synergy_nb.connectors._addresses import PATIENCE_S, may_pass, secret_headers
from synergy_nb.connectors._appended_file import as_text
from synergy_nb.connectors.secret_values import Secrets
from synergy_nb.dataflow.sinks.buffering import BufferedWriter
from synergy_nb.dataflow.sinks.protocol import SinkFailed, SinkUnavailable
from synergy_nb.dataflow.streams.log.values import Point
from synergy_nb.dataflow.tuples import Batch

__all__ = ["MessageWriter"]

T = TypeVar("T")


class MessageWriter(BufferedWriter):
    """Writes a stream to a WebSocket."""

    remembers: ClassVar[bool] = False

    def __init__(self, to: Mapping[str, Any], secrets: Secrets) -> None:
        super().__init__()
        self._url = str(to["url"])
        self._headers: Mapping[str, str] = to.get("headers", {})
        self._secrets = secrets
        self._loop: asyncio.AbstractEventLoop | None = None
        self._connecting: asyncio.Task[WebSocketClientConnection] | None = None

    def _begin(self) -> None:
        """Connect."""
        self._loop = asyncio.new_event_loop()
        url, headers = self._secrets.fill_url(self._url), secret_headers(self._headers, self._secrets)
        request = HTTPRequest(url, headers=headers, connect_timeout=PATIENCE_S, follow_redirects=False)
        try:
            # the task has the connection, also if this is interrupted before it returns
            self._connecting = self._loop.create_task(_connected(request))
            self._loop.run_until_complete(self._connecting)
        except HTTPClientError as error:
            if isinstance(error, HTTPTimeoutError) or may_pass(error.code):
                raise SinkUnavailable(f"{self._url}: {error}") from None
            raise SinkFailed(f"{self._url}: {error}; expected a WebSocket") from None
        except WebSocketError as error:
            raise SinkFailed(f"{self._url}: {error}; expected a WebSocket") from None
        except OSError as error:
            raise SinkUnavailable(f"{self._url}: {error.strerror or error}") from None

    def _carry_out(self, batches: Sequence[Batch], point: Point) -> None:
        """Send rows, and wait until the server has read them."""
        if not batches:
            return
        connection = self._connection()
        if connection is None or self._loop is None:
            raise SinkUnavailable(f"{self._url}: it is not connected")
        try:
            self._loop.run_until_complete(_sent(connection, pl.concat([each.table for each in batches])))
        except TimeoutError:
            raise SinkUnavailable(f"{self._url}: no answer to a ping within {PATIENCE_S:g} s") from None
        except (OSError, WebSocketError):
            raise SinkUnavailable(f"{self._url}: the server has closed it") from None

    def _release(self) -> None:
        """Close the connection."""
        if self._loop is None:
            return
        if (connection := self._connection()) is not None:
            with contextlib.suppress(TimeoutError, OSError, WebSocketError):
                self._loop.run_until_complete(_closed(connection))
        self._loop.close()
        self._loop = self._connecting = None

    def _connection(self) -> WebSocketClientConnection | None:
        task = self._connecting
        if task is None or not task.done() or task.cancelled() or task.exception() is not None:
            return None
        return task.result()


async def _connected(request: HTTPRequest) -> WebSocketClientConnection:
    return await websocket_connect(request)


async def _sent(connection: WebSocketClientConnection, rows: pl.DataFrame) -> None:
    """Send rows and a ping, and return when it is answered."""
    answered = asyncio.get_running_loop().create_future()

    def on_pong(_data: bytes) -> None:
        if not answered.done():
            answered.set_result(None)

    vars(connection)["on_pong"] = on_pong  # in place of a method that does nothing
    for line in as_text(rows).write_ndjson().splitlines():
        await connection.write_message(line)
    connection.ping(b"")
    closed = asyncio.ensure_future(_ended(connection))
    async with asyncio.timeout(PATIENCE_S):
        await asyncio.wait({answered, closed}, return_when=asyncio.FIRST_COMPLETED)
    closed.cancel()
    if not answered.done():
        raise OSError


async def _closed(connection: WebSocketClientConnection) -> None:
    connection.close()  # within the loop: outside of one Tornado makes another, which nobody closes
    await _ended(connection)


async def _ended(connection: WebSocketClientConnection) -> None:
    """Read what a server says, which does not matter, until it closes the connection."""
    async with asyncio.timeout(PATIENCE_S):
        while await connection.read_message() is not None:
            pass
