"""Server-sent events: a page whose answer never ends, one JSON object or list of them an event.

The position is the ``id`` of the last event, if the server gives any; it is sent back as ``Last-Event-ID``, and whether
the server goes on behind it is the server's decision.
"""

from __future__ import annotations

import http.client
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from synergy_nb.connectors._addresses import WebRequest, secret_headers
from synergy_nb.connectors._reading_threads import ReadingThread
from synergy_nb.connectors.secret_values import Secrets
from synergy_nb.dataflow.sources import BrokenForNow, Polled, Source
from synergy_nb.traces.line_tables import LineTables


class EventSource(Source):
    """The events of a page."""

    def __init__(self, params: Mapping[str, Any], schema: Mapping[str, str], secrets: Secrets) -> None:
        self._url = params["url"]
        self._headers: Mapping[str, str] = params.get("headers", {})
        self._secrets = secrets
        self._lines = LineTables(self._url, schema, {**params, "format": "json"})
        self._request: WebRequest | None = None
        self._thread: ReadingThread | None = None
        self._last: str | None = None  # id of the last event
        self._number = 0  # events so far

    def open(self, position: Any) -> None:
        """Ask for the events behind a position."""
        self._last = position
        headers = {"Accept": "text/event-stream", "Cache-Control": "no-cache"}
        headers |= secret_headers(self._headers, self._secrets) | ({"Last-Event-ID": position} if position else {})
        request = WebRequest(self._secrets.fill_url(self._url), self._url, headers)
        self._request = request
        kind = request.answer.headers.get("Content-Type", "")
        if kind.partition(";")[0].strip() != "text/event-stream":
            raise ValueError(f"{request.what}: content of type {kind!r}; expected text/event-stream")
        request.wait_without_end()
        self._thread = ReadingThread(lambda put: _events(request, put), f"synergy events of {self._url}")

    def poll(self, seconds: float) -> Polled | None:
        """Return the rows of the events that have come."""
        assert self._thread is not None
        try:
            found = self._thread.take(seconds)
        except (EOFError, OSError, http.client.HTTPException, ValueError) as error:
            said = "the server has ended the answer" if isinstance(error, EOFError) else str(error)
            raise BrokenForNow(f"GET {self._url}: {said}") from None
        if not found:
            return None
        values: list[Any] = []
        for data, name in found:
            self._last = name or self._last
            values += _values(data)
        self._number += len(found)
        table = self._lines.of_values(values, self._number)
        return Polled(table, self._last, said=self._lines.said(), skipped=self._lines.skipped)

    def close(self) -> None:
        """Close the connection."""
        if self._thread is not None and self._request is not None:
            self._thread.stop()
            self._request.interrupt()
            self._thread.join()
            self._thread = None
        if self._request is not None:
            self._request.close()
            self._request = None


def _events(request: WebRequest, put: Callable[[Any], bool]) -> None:
    """Hand over the data and the id of each event."""
    data: list[str] = []
    name = ""
    while line := request.readline():
        text = line.decode("utf-8", "replace").rstrip("\r\n")
        if not text:
            if data and not put(("\n".join(data), name)):
                return
            data = []
            continue
        field, _, value = text.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            data.append(value)
        elif field == "id":
            name = value


def _values(data: str) -> list[Any]:
    """What an event holds: objects, or what is none."""
    try:
        found = msgspec.json.decode(data)
    except msgspec.DecodeError:
        return [data]
    return found if isinstance(found, list) else [found]
