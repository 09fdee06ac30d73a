"""A WebSocket as a destination: each row is a message, at least once."""

from __future__ import annotations

import asyncio
import gc
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from synergy_nb import websocket
from synergy_nb.connectors.sink_writers import writer_of
from synergy_nb.dataflow.sinks.protocol import SinkFailed, SinkUnavailable, SinkWriter
from synergy_nb.dataflow.streams.log.values import Point
from synergy_nb.dataflow.tuples import Batch
from synergy_nb.testing import check_sink
from tests.connectors.servers import Messages, page_server

COLUMNS = {"v": "int"}


def batch(*values: int, position: int = 0) -> Batch:
    return Batch(pl.DataFrame({"v": values}), position, 0.0)


def heard(messages: Messages) -> list[int]:
    return [json.loads(text)["v"] for text in messages.heard]


@pytest.mark.slow
def test_rows_are_messages_and_those_of_a_broken_commit_come_again() -> None:
    with Messages() as messages:
        to = websocket(messages.url, headers={"Authorization": "Bearer ${board}"})
        writer = writer_of(to, COLUMNS, "s", secrets={"board": b"token"})
        assert writer.open() is None
        messages.connected.acquire()
        assert messages.clients[0].request.headers["Authorization"] == "Bearer token"
        writer.write(batch(0, 1))
        writer.commit(Point(2, 0))
        assert heard(messages) == [0, 1], "the server has read what is committed"
        messages.hang_up()
        writer.write(batch(2, position=2))
        with pytest.raises(SinkUnavailable, match="the server has closed it"):
            writer.commit(Point(3, 0))
        assert writer.open() is None
        writer.write(batch(2, position=2))
        writer.commit(Point(3, 0))
        assert heard(messages)[-1] == 2
        writer.close()
        writer.close()
    asyncio.set_event_loop(None)
    gc.collect()  # a loop of this thread that was made and not closed would be found now


@pytest.mark.slow
def test_a_web_socket_has_each_row_at_least_once() -> None:
    begun: dict[Path, int] = {}

    with Messages() as messages:

        def make(place: Path) -> SinkWriter:
            begun.setdefault(place, len(messages.heard))
            return writer_of(websocket(messages.url), COLUMNS, "s")

        def read(place: Path) -> list[dict[str, Any]]:
            return [{"v": v} for v in heard(messages)[begun[place] :]]

        check_sink(make, read, kills=6)


def test_what_is_no_web_socket_fails_and_what_is_not_there_is_waited_for() -> None:
    with page_server(lambda _: (404, {}, b"")) as page:
        url = page.replace("http", "ws")
        with pytest.raises(SinkFailed, match=r"404.*; expected a WebSocket"):
            writer_of(websocket(url), COLUMNS, "s").open()
    with pytest.raises(SinkUnavailable, match="Connection refused"):
        writer_of(websocket(url), COLUMNS, "s").open()
