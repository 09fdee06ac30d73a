"""A broker of MQTT 3.1.1 on the loopback, with sessions, confirmed messages and an account.

It knows no wildcards but ``#`` at the end, no retained messages and no TLS.
"""

from __future__ import annotations

import contextlib
import socket
import socketserver
import threading
from types import TracebackType
from typing import Any, Final

CONNECT, CONNACK, PUBLISH, PUBACK, SUBSCRIBE, SUBACK, PINGREQ, PINGRESP, DISCONNECT = 1, 2, 3, 4, 8, 9, 12, 13, 14
AHEAD: Final = 20  # messages that a client may leave unconfirmed


class _Session:
    """What a broker keeps of a client."""

    def __init__(self) -> None:
        self.topics: set[str] = set()
        self.waiting: list[tuple[int, str, bytes]] = []  # that are not confirmed, each with its number
        self.sent = 0  # of these, to the present connection
        self.connection: socket.socket | None = None


class MqttBroker:
    """A broker; ``password``: that of the account ``ann``, without which nobody connects."""

    def __init__(self, password: str | None = None) -> None:
        self.password = password
        self.confirmed = 0  # messages that were confirmed to clients
        self.received: list[tuple[str, bytes]] = []
        self.changed = threading.Condition()
        self._sessions: dict[str, _Session] = {}
        self._number = 0
        self._server: Any = None

    def start(self, port: int = 0) -> None:
        broker = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                broker.serve(self.rfile, self.connection)

        class Server(socketserver.ThreadingTCPServer):
            allow_reuse_address = True
            daemon_threads = True

        self._server = Server(("127.0.0.1", port), Handler)
        self.port: int = self._server.server_address[1]
        self.address = f"127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def stop(self) -> None:
        """Close all connections, and listen no more; sessions are kept."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        with self.changed:
            for session in self._sessions.values():
                if session.connection is not None:
                    with contextlib.suppress(OSError):  # its client has closed it, and its thread has seen that first
                        session.connection.shutdown(socket.SHUT_RDWR)
                    session.connection = None

    def publish(self, topic: str, payload: bytes) -> None:
        with self.changed:
            for session in self._sessions.values():
                if any(each == topic or (each[-1:] == "#" and topic.startswith(each[:-1])) for each in session.topics):
                    self._number += 1
                    session.waiting.append((self._number, topic, payload))
                    self._send(session)
            self.received.append((topic, payload))
            self.changed.notify_all()

    def _send(self, session: _Session) -> None:
        while session.connection is not None and session.sent < min(len(session.waiting), AHEAD):
            number, topic, payload = session.waiting[session.sent]
            named = topic.encode()
            body = len(named).to_bytes(2) + named + number.to_bytes(2) + payload
            session.sent += 1
            try:
                session.connection.sendall(_packet(PUBLISH, 0b10, body))
            except OSError:  # its client has closed it
                session.connection = None

    def serve(self, stream: Any, connection: socket.socket) -> None:
        session: _Session | None = None
        while (head := stream.read(1)) and head[0] >> 4 != DISCONNECT:
            kind, flags, body = head[0] >> 4, head[0] & 15, stream.read(_length(stream))
            with self.changed:
                if kind == CONNECT:
                    session = self._connect(body, connection)
                    if session is None:
                        return
                elif kind == PINGREQ:
                    connection.sendall(_packet(PINGRESP, 0, b""))
                assert session is not None
                if kind == SUBSCRIBE:
                    topic = body[4 : 4 + int.from_bytes(body[2:4])].decode()
                    session.topics.add(topic)
                    connection.sendall(_packet(SUBACK, 0, body[:2] + (b"\x80" if topic == "secret" else b"\1")))
                elif kind == PUBACK:
                    number = int.from_bytes(body)
                    session.waiting = [each for each in session.waiting if each[0] != number]
                    session.sent -= 1
                    self.confirmed += 1
                    self._send(session)
                self.changed.notify_all()
            if kind == PUBLISH:
                size = int.from_bytes(body[:2])
                confirmed = flags & 0b10
                self.publish(body[2 : 2 + size].decode(), body[2 + size + (2 if confirmed else 0) :])
                if confirmed:
                    connection.sendall(_packet(PUBACK, 0, body[2 + size : 4 + size]))
        with self.changed:
            if session is not None and session.connection is connection:
                session.connection = None
            self.changed.notify_all()

    def _connect(self, body: bytes, connection: socket.socket) -> _Session | None:
        flags, fields, at = body[7], [], 10
        while at < len(body):
            size = int.from_bytes(body[at : at + 2])
            fields.append(body[at + 2 : at + 2 + size].decode())
            at += 2 + size
        name, *account = fields
        if self.password is not None and account != ["ann", self.password]:
            connection.sendall(_packet(CONNACK, 0, b"\0\4"))
            return None
        if flags & 0b10:
            self._sessions.pop(name, None)
        session = self._sessions.setdefault(name, _Session())
        session.connection, session.sent = connection, 0
        connection.sendall(_packet(CONNACK, 0, b"\0\0"))
        self._send(session)
        return session

    def __enter__(self) -> MqttBroker:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()


def _packet(kind: int, flags: int, body: bytes) -> bytes:
    size, rest = bytearray(), len(body)
    while True:
        rest, part = rest >> 7, rest & 127
        size.append(part | (128 if rest else 0))
        if not rest:
            return bytes([kind << 4 | flags]) + bytes(size) + body


def _length(stream: Any) -> int:
    found, shift = 0, 0
    while True:
        part: int = stream.read(1)[0]
        found |= (part & 127) << shift
        shift += 7
        if part < 128:
            return found
