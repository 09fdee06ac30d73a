"""Servers on the loopback, at free ports, for tests of what comes over a network."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

from tornado.httpserver import HTTPServer
from tornado.web import Application
from tornado.websocket import WebSocketHandler

Answer = tuple[int, dict[str, str], bytes]


class LineServer:
    """Sends lines to whoever connects, and closes the connection when it is told to."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        self.connection: socket.socket | None = None

    def accept(self) -> None:
        """Wait for the next client."""
        self.hang_up()
        self.connection = self.listener.accept()[0]

    def send(self, text: str) -> None:
        assert self.connection is not None
        self.connection.sendall(text.encode())

    def hang_up(self) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def __enter__(self) -> LineServer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.hang_up()
        self.listener.close()


@contextmanager
def page_server(answer: Callable[[dict[str, str]], Answer | Iterator[bytes]]) -> Iterator[str]:
    """Serve one page; ``answer`` gets the headers of a request, and returns the answer, or pieces of an endless one."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            made = answer(dict(self.headers))
            if isinstance(made, tuple):
                status, headers, body = made
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
                return
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream; charset=utf-8")
            self.end_headers()
            for piece in made:
                self.wfile.write(piece)
                self.wfile.flush()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/rows"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class Messages:
    """A WebSocket that sends what it is told to, and notes what it is sent."""

    def __init__(self) -> None:
        self.url = ""
        self.heard: list[str] = []
        self.clients: list[WebSocketHandler] = []
        self.connected = threading.Semaphore(0)
        self.spoken = threading.Semaphore(0)  # for each message that it has heard
        self._loop = asyncio.new_event_loop()
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        messages = self

        class Handler(WebSocketHandler):
            def open(self, *_: str, **__: str) -> None:
                messages.clients.append(self)
                messages.connected.release()

            def on_message(self, message: str | bytes) -> None:
                messages.heard.append(str(message))
                messages.spoken.release()

        async def serve() -> None:
            server = HTTPServer(Application([("/rows", Handler)]))
            listener = socket.create_server(("127.0.0.1", 0))
            listener.setblocking(False)
            server.add_sockets([listener])
            self.url = f"ws://127.0.0.1:{listener.getsockname()[1]}/rows"
            self._stop = asyncio.Event()
            self._started.set()
            await self._stop.wait()
            server.stop()
            await server.close_all_connections()

        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(serve())
        self._loop.close()

    def send(self, text: str) -> None:
        self._call(lambda: self.clients[-1].write_message(text))

    def hang_up(self) -> None:
        self._call(self.clients[-1].close)

    def _call(self, do: Callable[[], object]) -> None:
        done = threading.Event()
        self._loop.call_soon_threadsafe(do)
        self._loop.call_soon_threadsafe(done.set)
        done.wait()

    def __enter__(self) -> Messages:
        self._thread.start()
        self._started.wait()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
