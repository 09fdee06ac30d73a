"""Sources of networks: lines, pages, events and messages of servers on the loopback, and servers that break."""

from __future__ import annotations

import json
import queue
from collections.abc import Iterator
from typing import Any

import pytest

from synergy_nb import PlanError, source
from synergy_nb.connectors import connected
from synergy_nb.dataflow.sources import BrokenForNow, Source
from synergy_nb.plan.derived.allowed_paths import refused_paths
from synergy_nb.testing import check_source
from tests.connectors.declared import declared, numbers
from tests.connectors.servers import Answer, LineServer, Messages, page_server

COLUMNS = {"time": "time", "n": "int"}


def rows(start: int, stop: int) -> list[dict[str, int]]:
    return [{"time": n, "n": n} for n in range(start, stop)]


def lines(start: int, stop: int) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows(start, stop))


def made(connector: str, **params: Any) -> Source:
    return declared(connector, columns=COLUMNS, **params)


def taken(found: Source, count: int) -> list[int]:
    """Poll until there are so many rows; no poll waits for long."""
    values: list[int] = []
    while len(values) < count:
        values += numbers(found.poll(1.0))
    return values


@pytest.mark.parametrize(("form", "text"), [("jsonl", lines(0, 3)), ("csv", "n,time\n0,0\n1,1\n2,2\n")])
def test_lines_of_a_connection_are_rows_and_its_end_is_a_break_or_the_end(form: str, text: str) -> None:
    with LineServer() as server:
        found = made("socket", address=server.address, format=form)
        found.open(None)
        server.accept()
        assert found.poll(0.0) is None
        server.send(text[:-4])
        assert taken(found, 2) == [0, 1]
        server.send(text[-4:])
        assert taken(found, 1) == [2]
        server.hang_up()
        with pytest.raises(BrokenForNow, match="the server has closed it"):
            taken(found, 1)
        found.close()
        found.open(None)
        server.accept()
        server.send(text)
        server.hang_up()
        assert taken(found, 3) == [0, 1, 2], "in CSV the header comes again"
        found.close()
        ending = made("socket", address=server.address, format=form, ends=True)
        ending.open(None)
        server.accept()
        server.send(text.rstrip("\n"))
        server.hang_up()
        assert taken(ending, 3) == [0, 1, 2], "the last line has no end"
        polled = ending.poll(0.0)
        assert polled is not None
        assert polled.ends
        ending.close()
    with pytest.raises(BrokenForNow, match=f"connection to {server.address}: Connection refused"):
        found.open(None)


class Page:
    """What a page answers at present, and the headers of the last request."""

    def __init__(self, *answers: Any) -> None:
        self.answer: Answer = (200, {}, json.dumps(answers[0] if answers else []).encode())
        self.asked: dict[str, str] = {}

    def __call__(self, headers: dict[str, str]) -> Answer:
        self.asked = headers
        return self.answer

    def has(self, value: Any, **headers: str) -> None:
        self.answer = 200, headers, (value if isinstance(value, str) else json.dumps(value)).encode()


def page(url: str, **params: Any) -> Source:
    return made("http", url=url, every="1 us", **params)


def test_a_page_that_has_changed_is_the_next_rows() -> None:
    served = Page(rows(0, 2))
    with page_server(served) as url:
        found = page(url)
        found.open(None)
        assert numbers(found.poll(0.0)) == [0, 1]
        assert found.poll(0.0) is None, "it is the same"
        served.has(rows(2, 3), ETag='"v3"')
        polled = found.poll(0.0)
        assert numbers(polled) == [2]
        assert polled is not None
        served.answer = 304, {}, b""
        assert found.poll(0.0) is None
        assert served.asked["If-None-Match"] == '"v3"'
        served.has(rows(2, 3))
        again = page(url)
        again.open(polled.position)
        assert again.poll(0.0) is None, "a successor knows what was there"
        slow = made("http", url=url, every="1 h")
        slow.open(None)
        assert numbers(slow.poll(0.0)) == [2]
        served.has(rows(5, 6))
        assert slow.poll(0.0) is None


def test_of_a_page_with_a_column_that_grows_only_new_rows_come() -> None:
    served = Page({"data": {"items": rows(0, 3)[::-1]}})
    with page_server(served) as url:
        found = page(url, rows_in="data.items", by="n")
        found.open(None)
        polled = found.poll(0.0)
        assert numbers(polled) == [0, 1, 2]
        assert polled is not None
        served.has({"data": {"items": rows(1, 5)}})
        assert numbers(found.poll(0.0)) == [3, 4]
        again = page(url, rows_in="data.items", by="n")
        again.open(polled.position)
        assert numbers(again.poll(0.0)) == [3, 4]
        by_time = page(url, rows_in="data.items", by="time")
        check_source(lambda: page(url, rows_in="data.items", by="n"), rows_of(by_time))


def rows_of(found: Source) -> list[dict[str, Any]]:
    found.open(None)
    polled = found.poll(0.0)
    assert polled is not None
    return polled.rows.to_dicts()  # type: ignore[union-attr]


@pytest.mark.parametrize(("form", "text"), [("jsonl", lines(0, 2)), ("csv", "time,n\n0,0\n1,1")])
def test_pages_have_lines_too(form: str, text: str) -> None:
    served = Page()
    served.has(text)
    with page_server(served) as url:
        found = page(url, format=form)
        found.open(None)
        assert numbers(found.poll(0.0)) == [0, 1]


def test_what_a_page_answers_is_broken_at_present_or_for_good() -> None:
    served = Page(rows(0, 1))
    with page_server(served) as url:

        def asked(status: int, body: bytes = b"", **headers: str) -> Source:
            served.answer = status, headers, body
            return page(url)

        for status in (429, 500, 503):
            with pytest.raises(BrokenForNow, match=f"GET {url}: {status}"):
                asked(status).poll(0.0)
        for status in (401, 403, 404):
            with pytest.raises(ValueError, match=f"{status} .*; expected an answer with rows"):
                asked(status).poll(0.0)
        with pytest.raises(ValueError, match="302 Found to http://elsewhere/, which is not followed"):
            asked(302, Location="http://elsewhere/").poll(0.0)
        with pytest.raises(ValueError, match="expected JSON"):
            asked(200, b"<html>").poll(0.0)
        served.has({"items": []})
        with pytest.raises(ValueError, match="rows_in: 'data'; expected one of items"):
            page(url, rows_in="data").poll(0.0)
    with pytest.raises(BrokenForNow, match="Connection refused"):
        page(url).poll(0.0)


def test_events_of_a_page_are_rows_and_their_id_is_the_position() -> None:
    pieces: queue.Queue[bytes | None] = queue.Queue()
    asked: list[str] = []

    def answer(headers: dict[str, str]) -> Iterator[bytes]:
        asked.append(headers.get("Last-Event-ID", ""))
        return iter(pieces.get, None)

    with page_server(answer) as url:
        found = made("sse", url=url)
        found.open(None)
        assert found.poll(0.0) is None
        pieces.put(b': hello\n\nevent: row\nid: 7\ndata: {"time": 0,\ndata: "n": 0}\n\n')
        assert taken(found, 1) == [0]
        pieces.put(b'data: [{"time": 1, "n": 1}, {"time": 2, "n": 2}]\r\n\r\n')
        values, position = list[int](), None
        while len(values) < 2:
            polled = found.poll(1.0)
            values += numbers(polled)
            position = polled.position if polled is not None else position
        assert (values, position) == ([1, 2], "7")
        pieces.put(None)
        with pytest.raises(BrokenForNow, match="the server has ended the answer"):
            taken(found, 1)
        found.close()
        found.open(position)
        found.close()
        pieces.put(None)
        assert asked == ["", "7"]
    served = Page(rows(0, 1))
    with page_server(served) as url, pytest.raises(ValueError, match="expected text/event-stream"):
        made("sse", url=url).open(None)


def test_messages_of_a_websocket_are_rows() -> None:
    with Messages() as server:
        found = made("websocket", url=server.url, hello='{"subscribe": "rows"}')
        found.open(None)
        server.connected.acquire()
        assert found.poll(0.0) is None
        server.send(json.dumps(rows(0, 2)))
        server.send(json.dumps(rows(2, 3)[0]))
        assert taken(found, 3) == [0, 1, 2]
        assert server.heard == ['{"subscribe": "rows"}']
        server.hang_up()
        with pytest.raises(BrokenForNow, match="the server has closed it"):
            taken(found, 1)
        found.close()
        found.open(None)
        server.connected.acquire()
        server.send(json.dumps(rows(3, 4)))
        assert taken(found, 1) == [3]
        found.close()
    with pytest.raises(BrokenForNow):
        found.open(None)
    found.close()
    with page_server(Page()) as url:
        wrong = made("websocket", url=url.replace("http", "ws"))
        with pytest.raises(ValueError, match="expected a WebSocket"):
            wrong.open(None)
        wrong.close()


@pytest.mark.parametrize("status", [408, 425, 429, 503])
def test_a_websocket_whose_server_is_busy_is_broken_at_present(status: int) -> None:
    served = Page()
    served.answer = status, {}, b""
    with page_server(served) as url:
        found = made("websocket", url=url.replace("http", "ws"))
        with pytest.raises(BrokenForNow, match=str(status)):
            found.open(None)
        found.close()


def test_a_malformed_event_is_counted() -> None:
    with Messages() as server:
        found = made("websocket", url=server.url)
        found.open(None)
        server.connected.acquire()
        server.send("hello")
        while (polled := found.poll(1.0)) is None:
            pass
        assert numbers(polled) == []
        assert polled.skipped is not None
        assert polled.skipped.count == 1
        server.send('{"time": 1, "n": "x"}')
        with pytest.raises(ValueError, match="2 of 2 lines are not of format 'json'"):
            taken(found, 1)
        found.close()


PARAMS = {
    "socket": {"address": "meter.local:7000"},
    "http": {"url": "https://Meter.local/now?x=1", "every": "1 s", "by": "n"},
    "sse": {"url": "http://meter.local:8000/events"},
    "websocket": {"url": "wss://meter.local/now"},
}


@pytest.mark.parametrize("connector", PARAMS)
def test_a_guest_reaches_only_hosts_that_were_named(connector: str) -> None:
    plan = source(connector, **PARAMS[connector], columns=COLUMNS, id="s").sink()
    assert refused_paths(plan, ["/"]).endswith("expected no host: none was named for guests")
    assert refused_paths(plan, [], hosts=["other"]).endswith("expected one of the hosts other")
    assert refused_paths(plan, [], hosts=["METER.local"]) == ""
    assert connected(plan.operators["s"].params, plan.schema("s"), {}) is not None


@pytest.mark.parametrize(
    ("connector", "params", "expected"),
    [
        ("socket", {"address": "meter.local"}, "expected a host and a port, such as 'meter.local:7000'"),
        ("socket", {"address": "::1:80"}, "expected a host and a port"),
        ("socket", {"address": "meter.local:70000"}, "expected a host and a port"),
        ("http", {"url": "file:///etc/passwd", "every": "1 s"}, "expected a URL such as 'https://meter.local/now'"),
        ("http", {"url": "https://ann:secret@meter.local/", "every": "1 s"}, "without a name and a password"),
        ("http", {"url": "https://meter.local/"}, "every: missing; expected a value: source needs every"),
        ("http", {"url": "https://meter.local/", "every": "1 s", "by": "m"}, "by: 'm'; expected one of the columns"),
        ("websocket", {"url": "https://ann:secret@meter.local/"}, "url: 'https://...@meter.local/'; expected a URL"),
        ("websocket", {"url": "https://meter.local/"}, "expected a URL such as 'wss://meter.local/now'"),
    ],
)
def test_wrong_parameters_are_one_error(connector: str, params: dict[str, object], expected: str) -> None:
    with pytest.raises(PlanError) as raised:
        source(connector, columns=COLUMNS, **params).sink("out")
    assert expected in str(raised.value)
    assert "secret" not in str(raised.value)
