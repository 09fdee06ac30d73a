"""What listens on this machine for the clusters of its user, and who may use it.

Theory of operation
-------------------
The system says which processes of this user listen where. What a port asks for is found by trying it, as anybody could:
Dask speaks first; TLS answers a greeting, and asks for a certificate or not; Spark's processes answer a request with
what they miss, and Spark Connect speaks HTTP/2. So what is open is found whoever opened it. Of other programs than
Dask's, Spark's and those of peers nothing is said. A socket in the file system is as open as its mode and those of the
folders above it are; one with an abstract name is open to the machine.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import socket
import ssl
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import psutil

__all__ = ["Listener", "asked", "listeners", "reaches", "sockets"]

WAIT: Final = 5.0  # seconds for which a port of a cluster may be silent
GLANCE: Final = 0.5  # seconds for which a port of another program may be
LEAST: Final = 9  # bytes of an answer that tell what it is, see `_SPARK_FAILED` and `_SETTINGS`
#: Part of what Dask sends to everybody who connects.
_DASK: Final = b"pickle-protocol"
#: A request as processes of Spark send each other: length, kind, number, length of the body, the body.
_SPARK_REQUEST: Final = (27).to_bytes(8) + b"\x03" + (1).to_bytes(8) + (6).to_bytes(4) + b"hello!"
_SPARK_FAILED: Final = 5  # kind of the answer that refuses a request
_ASKS: Final = b"doAuthChallenge"  # part of that answer, where a secret is asked for
_HTTP2: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04" + bytes(5)
_SETTINGS: Final = b"\x04"  # kind of the first frame of a server of HTTP/2
_TOKEN: Final = "SPARK_CONNECT_AUTHENTICATE_TOKEN"  # noqa: S105 - the name of a variable
_FORKED: Final = "synergy_nb.runtime.process.fork_server"
_LISTENS: Final = "00010000"  # flag of a socket that listens, in /proc/net/unix
_OURS: Final = (_FORKED, "spark_stream", "distributed", "dask")  # parts of command lines of clusters


class Listener(NamedTuple):
    """One place where a process of this user listens."""

    what: str  # what listens there
    address: str  # address and port, or path
    process: int  # process id
    program: str  # name of the program
    since: float  # when the process began, seconds since 1970
    users: str  # who may use it
    open: bool  # whether others than its owner and those that he has let in may


class _Asked(NamedTuple):
    what: str
    users: str
    open: bool


def listeners(processes: list[psutil.Process] | None = None) -> list[Listener]:
    """List what the clusters of this user listen at, what is open first.

    ``processes``: processes to look at; None: all of this user.
    """
    found = []
    for process in _own_processes() if processes is None else processes:
        with contextlib.suppress(psutil.Error, OSError):  # it has ended
            found += list(_listeners(process, ours=processes is not None))
    return sorted(set(found), key=lambda each: (not each.open, each.since, each.address))


def _own_processes() -> list[psutil.Process]:
    own = os.getuid() if hasattr(os, "getuid") else None
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if own is None or process.uids().real == own:
                found.append(process)
    return found


def _listeners(process: psutil.Process, *, ours: bool) -> Iterator[Listener]:
    line = " ".join(process.cmdline())
    java = "org.apache.spark" in line
    ours = ours or java or any(word in line for word in _OURS) or any(_FORKED in each for each in _children(process))
    about = process.pid, process.name(), process.create_time()
    for each in process.net_connections("tcp"):
        if each.status != psutil.CONN_LISTEN:
            continue
        host, port = each.laddr
        found = asked(_local(host), port, process, java=java, ours=ours)
        if found is not None:
            users = found.users if not found.open else f"{found.users} {_reach(host)}"
            yield Listener(found.what, f"{host}:{port}", *about, users, found.open)
    if ours:
        yield from (Listener(each.what, path, *about, each.users, each.open) for path, each in sockets(process))


def _children(process: psutil.Process) -> Iterator[str]:
    for child in process.children():
        with contextlib.suppress(psutil.Error):
            yield " ".join(child.cmdline())


# -- ports -------------------------------------------------------------------------------------------------------------


def _local(host: str) -> str:
    """Address at which this machine reaches a port that is bound to a host."""
    address = ipaddress.ip_address(host.partition("%")[0])
    loopback = "127.0.0.1" if address.version == 4 else "::1"
    return loopback if address.is_unspecified else host


def _reach(host: str) -> str:
    address = ipaddress.ip_address(host.partition("%")[0])
    mapped = getattr(address, "ipv4_mapped", None) or address
    return "on this machine" if mapped.is_loopback else "who reaches this machine"


def asked(host: str, port: int, process: psutil.Process, *, java: bool, ours: bool) -> _Asked | None:
    """Try a port as anybody could; None if it is neither Dask's nor Spark's nor a peer's."""
    everybody, dask = "everybody", "Dask's scheduler or worker, without TLS"
    with contextlib.suppress(OSError):
        if not ours:
            return _Asked(dask, everybody, open=True) if _DASK in _said(host, port, b"", GLANCE) else None
        answer = _said(host, port, _SPARK_REQUEST) if java else b""
        if len(answer) > 8 and answer[8] == _SPARK_FAILED:
            if _ASKS in answer:
                return _Asked("Spark's driver or blocks", "who knows the secret that Spark has made", open=False)
            return _Asked("Spark's driver or blocks, without a secret", everybody, open=True)
        certificate = _tls(host, port)
        if certificate:
            return _Asked("peer, scheduler or worker, with TLS", "who has a certificate of the cluster", open=False)
        if certificate is not None:
            return _Asked("endpoint for Spark, with TLS", "who knows its token", open=False)
        answer = _said(host, port, _HTTP2)  # Dask says the same to everybody
        if _DASK in answer:
            return _Asked(dask, everybody, open=True)
        if answer[3:4] == _SETTINGS:
            if process.environ().get(_TOKEN):
                users = "who knows its token, which passes in plain text"
                return _Asked("Spark Connect, without TLS", users, open=False)
            return _Asked("Spark Connect, without TLS or token", everybody, open=True)
        return _Asked("something that asks for nothing", everybody, open=True) if java else None
    return None


def _said(host: str, port: int, words: bytes, wait: float = WAIT) -> bytes:
    """What a port answers to some words, at first."""
    with socket.create_connection((host, port), wait) as connection:
        connection.sendall(words)
        answer = b""
        until = time.monotonic() + wait
        with contextlib.suppress(TimeoutError, ConnectionError):
            while (left := until - time.monotonic()) > 0.0 and len(answer) < LEAST:
                connection.settimeout(left)
                piece = connection.recv(1 << 12)
                if not piece:
                    break
                answer += piece
        return answer


def _tls(host: str, port: int) -> bool | None:
    """Whether a port with TLS asks for a certificate; None if it has no TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # nothing is told it
    greeted = False
    try:
        with socket.create_connection((host, port), WAIT) as connection, context.wrap_socket(connection) as secured:
            greeted = True
            secured.recv(1)
    except TimeoutError:
        return False if greeted else None
    except ssl.SSLError as error:
        return True if "CERTIFICATE_REQUIRED" in str(error) or "HANDSHAKE_FAILURE" in str(error) else None
    except OSError:
        return False if greeted else None
    return False


# -- sockets in the file system ----------------------------------------------------------------------------------------


def sockets(process: psutil.Process) -> Iterator[tuple[str, _Asked]]:
    """Paths and abstract names of sockets at which a process listens, and who may connect."""
    listening = {}
    with contextlib.suppress(OSError):  # other systems have no such file
        for line in Path("/proc/net/unix").read_text().splitlines()[1:]:
            fields = line.split(maxsplit=7)
            if fields[3] == _LISTENS and len(fields) == 8:
                listening[f"socket:[{fields[6]}]"] = fields[7]
    descriptors = Path(f"/proc/{process.pid}/fd")
    for descriptor in descriptors.iterdir() if listening else ():
        with contextlib.suppress(OSError):
            name = listening.get(str(descriptor.readlink()))
            if name is not None:
                yield _judged(name, process)


def _judged(name: str, process: psutil.Process) -> tuple[str, _Asked]:
    everybody = "everybody on this machine"
    if name.startswith("@"):
        return name, _Asked("socket with an abstract name", everybody, open=True)
    path = Path(name)
    if path.parts[:3] == ("/", "proc", "self") or not path.is_absolute():  # as seen by who has opened it
        path = Path(process.cwd()) / path.name
    is_open = reaches(path)
    return str(path), _Asked("socket", everybody if is_open else "its owner", is_open)


def reaches(path: Path) -> bool:
    """Whether others than the owner may open a file or socket: its mode and those of all folders above it say so."""
    try:
        real = path.resolve(strict=True)
        if not real.stat().st_mode & (0o022 if stat.S_ISSOCK(real.stat().st_mode) else 0o066):
            return False
        return all(folder.stat().st_mode & 0o011 for folder in real.parents)
    except OSError:
        return False  # it is gone
