"""Messages of a WebSocket, one JSON object or list of them a message. It has no positions."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.simple_httpclient import HTTPTimeoutError
from tornado.websocket import WebSocketClientConnection, WebSocketError, websocket_connect

from synergy_nb.connectors._addresses import PATIENCE_S, may_pass, secret_headers
from synergy_nb.connectors._reading_threads import ReadingThread
from synergy_nb.connectors.secret_values import Secrets
from synergy_nb.dataflow.sources import BrokenForNow, Polled, Source
from synergy_nb.traces.line_tables import LineTables


class WebSocketSource(Source):
    """The messages of a WebSocket."""

    def __init__(self, params: Mapping[str, Any], schema: Mapping[str, str], secrets: Secrets) -> None:
        self._url = params["url"]
        self._headers: Mapping[str, str] = params.get("headers", {})
        self._secrets = secrets
        self._hello: str | None = params.get("hello")
        self._lines = LineTables(self._url, schema, {**params, "format": "json"})
        self._thread: ReadingThread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._connection: WebSocketClientConnection | None = None
        self._ready = threading.Event()  # whether it is connected, or has failed
        self._failures: list[Exception] = []  # why it could not be connected
        self._number = 0  # messages so far

    def open(self, position: Any) -> None:
        """Connect, and say what is to be said first."""
        self._ready.clear()
        self._failures.clear()
        self._thread = ReadingThread(lambda put: asyncio.run(self._read(put)), f"synergy messages of {self._url}")
        self._ready.wait()
        error = next(iter(self._failures), None)
        if isinstance(error, HTTPTimeoutError) or (isinstance(error, HTTPClientError) and may_pass(error.code)):
            raise BrokenForNow(f"{self._url}: {error}")
        if isinstance(error, HTTPClientError | WebSocketError):
            raise ValueError(f"{self._url}: {error}; expected a WebSocket")
        if error is not None:
            raise BrokenForNow(f"{self._url}: {error}")

    async def _read(self, put: Callable[[Any], bool]) -> None:
        try:
            self._loop = asyncio.get_running_loop()
            url, headers = self._secrets.fill_url(self._url), secret_headers(self._headers, self._secrets)
            request = HTTPRequest(url, headers=headers, connect_timeout=PATIENCE_S, follow_redirects=False)
            connection = await websocket_connect(request)
            if self._hello is not None:
                await connection.write_message(self._secrets.fill(self._hello))
            self._connection = connection
        except Exception as error:  # noqa: BLE001 - it is raised where it is opened
            self._failures.append(error)
            return
        finally:
            self._ready.set()
        while (message := await connection.read_message()) is not None:
            if not put(message):
                break
        connection.close()

    def poll(self, seconds: float) -> Polled | None:
        """Return the rows of the messages that have come."""
        assert self._thread is not None
        try:
            found = self._thread.take(seconds)
        except (EOFError, OSError, WebSocketError) as error:
            said = "the server has closed it" if isinstance(error, EOFError) else str(error)
            raise BrokenForNow(f"{self._url}: {said}") from None
        if not found:
            return None
        values = [value for message in found for value in _values(message)]
        self._number += len(found)
        table = self._lines.of_values(values, self._number)
        return Polled(table, said=self._lines.said(), skipped=self._lines.skipped)

    def close(self) -> None:
        """Close the connection."""
        if self._thread is None:
            return
        self._thread.stop()
        if self._loop is not None and self._connection is not None and not self._loop.is_closed():
            with contextlib.suppress(RuntimeError):  # its thread has just ended
                self._loop.call_soon_threadsafe(self._connection.close)
        self._thread.join()
        self._thread = self._loop = self._connection = None


def _values(message: str | bytes) -> list[Any]:
    try:
        found = msgspec.json.decode(message)
    except msgspec.DecodeError:
        return [message]
    return found if isinstance(found, list) else [found]
