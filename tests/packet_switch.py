"""A network of namespaces of this machine, whose packets pass a switch that loses, delays and resets.

Each end has a network namespace of its own with one TUN device; this process has one, too. Whatever an end sends to
another one comes to the switch as IP packets, in a process of its own, which does with them what its rules say. So TCP,
TLS, Dask and peers are the real ones, and what a rule does, a network of machines does.

Nothing of it has a name outside, so nothing remains when its processes have ended. Kernels without ``netem`` and tables
of packets will do; it needs root.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import heapq
import json
import os
import random
import selectors
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Iterable, Sequence
from typing import Any, Final

__all__ = ["Network", "Rules", "enter", "reset_of"]

NET: Final = 0x40000000  # CLONE_NEWNET
MOUNTS: Final = 0x00020000  # CLONE_NEWNS
TUNSETIFF: Final = 0x400454CA
TUN_WITHOUT_HEADER: Final = 0x1001  # IFF_TUN | IFF_NO_PI
PREFIX: Final = "10.214.0"
MTU: Final = 9000
TCP: Final = 6
FIN, SYN, RST, ACK = 1, 2, 4, 16
LIBC: Final = ctypes.CDLL(None, use_errno=True)

Flow = tuple[int, int, int, int]
"""Addresses of source and destination, by their last bytes, and the ports of both."""


def _system(name: str, *arguments: int) -> None:
    if getattr(LIBC, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), name)


def enter(path: str) -> None:
    """Have this thread, and all it starts, be in the network namespace of a file."""
    number = os.open(path, os.O_RDONLY)
    try:
        _system("setns", number, NET)
    finally:
        os.close(number)


# -- packets ---------------------------------------------------------------------------------------------------------


def checksum(data: bytes) -> int:
    """The sum of 16-bit words that IP and TCP have in their headers."""
    total = sum(struct.unpack(f"!{len(data) // 2}H", data)) if len(data) % 2 == 0 else checksum(data + b"\0") ^ 0xFFFF
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def reset_of(packet: bytes, *, back: bool) -> bytes:
    """A packet that resets the connection of a packet: for its sender (``back``), or for its receiver.

    A system obeys only if the number is the one that it expects next. That is the acknowledged one for the sender, and
    the packet's own one for the receiver, whom the packet must not reach.
    """
    head = 4 * (packet[0] & 15)
    source, destination = packet[12:16], packet[16:20]
    here, there, sequence, acknowledged = struct.unpack_from("!HHII", packet, head)
    if back:
        source, destination, here, there, sequence = destination, source, there, here, acknowledged
    segment = struct.pack("!HHIIBBHHH", here, there, sequence, 0, 5 << 4, RST, 0, 0, 0)
    summed = checksum(source + destination + struct.pack("!HH", TCP, len(segment)) + segment)
    segment = segment[:16] + struct.pack("!H", summed) + segment[18:]
    header = struct.pack("!BBHHHBBH", 0x45, 0, 40, 0, 0x4000, 64, TCP, 0) + source + destination
    return header[:10] + struct.pack("!H", checksum(header)) + header[12:] + segment


def flow_of(packet: bytes) -> Flow | None:
    """The connection of a packet; None if it is of none."""
    if packet[9] != TCP:
        return None
    return (packet[15], packet[19], *struct.unpack_from("!HH", packet, 4 * (packet[0] & 15)))


class Rules:
    """What becomes of packets from one end to another: a value that changes, and draws from its seed.

    Ends are the last bytes of their addresses. Times are those of whoever asks, in seconds.
    """

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self._loss: dict[tuple[int, int], float] = {}
        self._delay: dict[tuple[int, int], tuple[float, float]] = {}
        self._last: dict[tuple[int, int], float] = {}
        self._flows: set[Flow] = set()
        self._doomed: set[Flow] = set()
        self.counts = {"passed": 0, "lost": 0, "delayed": 0, "reset": 0}

    def obey(self, command: Sequence[Any]) -> None:
        """Change what a command says: ``lose``, ``delay``, ``reset`` from one end to another, or ``heal``."""
        match command:
            case ["lose", one, other, share]:
                self._loss[one, other] = share
            case ["delay", one, other, seconds, jitter]:
                self._delay[one, other] = seconds, jitter
            case ["reset", one, other]:
                self._doomed |= {flow for flow in self._flows if {flow[0], flow[1]} == {one, other}}
            case ["heal"]:
                self._loss.clear()
                self._delay.clear()
                self._doomed.clear()
            case _:
                raise ValueError(f"command: {command!r}; expected lose, delay, reset or heal")

    def passed(self, packet: bytes, now: float) -> list[tuple[float, bytes]]:
        """What arrives because of a packet, and when."""
        pair = packet[15], packet[19]
        flow = flow_of(packet)
        if flow is not None:
            if flow in self._doomed:
                twin = flow[1], flow[0], flow[3], flow[2]
                self._doomed -= {flow, twin}
                self._flows -= {flow, twin}
                self.counts["reset"] += 1
                return [(now, reset_of(packet, back=True)), (now, reset_of(packet, back=False))]
            flags = packet[4 * (packet[0] & 15) + 13]
            self._flows.discard(flow) if flags & (FIN | RST) else self._flows.add(flow)
        loss = self._loss.get(pair, 0.0)
        if loss and self._rng.random() < loss:
            self.counts["lost"] += 1
            return []
        self.counts["passed"] += 1
        seconds, jitter = self._delay.get(pair, (0.0, 0.0))
        if not seconds:
            return [(now, packet)]
        self.counts["delayed"] += 1
        at = self._last[pair] = max(now + seconds + jitter * self._rng.random(), self._last.get(pair, 0.0))
        return [(at, packet)]


# -- the switch, in its process --------------------------------------------------------------------------------------


def _switch(devices: dict[int, int], control: socket.socket, seed: int) -> None:
    """Pass packets until the other end of the control is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    rules, waiting, number = Rules(seed), list[tuple[float, int, bytes]](), 0
    selector = selectors.DefaultSelector()
    for each in devices.values():
        os.set_blocking(each, False)
        selector.register(each, selectors.EVENT_READ)
    selector.register(control, selectors.EVENT_READ)
    lines = b""

    def give(packet: bytes) -> None:
        if (to := devices.get(packet[19])) is not None:
            try:
                os.write(to, packet)
            except OSError as error:  # a queue that is full loses it, as a router does
                if error.errno not in (errno.EAGAIN, errno.ENOBUFS, errno.EIO):
                    raise

    while True:
        now = time.monotonic()
        while waiting and waiting[0][0] <= now:
            give(heapq.heappop(waiting)[2])
        for key, _ in selector.select(waiting[0][0] - now if waiting else None):
            if key.fileobj is control:
                said = control.recv(1 << 16)
                if not said:
                    return
                *commands, lines = (lines + said).split(b"\n")
                for command in map(json.loads, commands):
                    if command == ["count"]:
                        control.sendall(json.dumps(rules.counts).encode() + b"\n")
                    else:
                        rules.obey(command)
                continue
            for _ in range(64):
                try:
                    packet = os.read(key.fd, 65536)
                except BlockingIOError:
                    break
                if packet[0] >> 4 != 4:
                    continue
                for at, made in rules.passed(packet, time.monotonic()):
                    if at <= now:
                        give(made)
                    else:
                        number += 1
                        heapq.heappush(waiting, (at, number, made))
                now = time.monotonic()


# -- the network -----------------------------------------------------------------------------------------------------


def _device(end: int) -> int:
    """A TUN device of the namespace in which this thread is, with the address of an end."""
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", b"synergy", TUN_WITHOUT_HEADER))
    for command in (
        f"address add {PREFIX}.{end}/24 dev synergy",
        f"link set synergy mtu {MTU} txqueuelen 2000 up",
        "link set lo up",
    ):
        subprocess.run(["ip", *command.split()], check=True, capture_output=True)
    return device


class Network:
    """Namespaces, one for each of so many ends, and the switch between them; this process is the end 1.

    Make it before any thread is started: it moves this process to a namespace of its own, and to one of mounts.
    """

    def __init__(self, ends: int, seed: int) -> None:
        _system("unshare", NET | MOUNTS)
        subprocess.run(["mount", "--make-rprivate", "/"], check=True)
        own = os.open("/proc/self/ns/net", os.O_RDONLY)
        devices = {1: _device(1)}
        self._namespaces: dict[int, int] = {}
        for end in range(2, ends + 2):
            _system("unshare", NET)
            devices[end] = _device(end)
            self._namespaces[end] = os.open("/proc/self/ns/net", os.O_RDONLY)
            _system("setns", own, NET)
        self._control, theirs = socket.socketpair()
        self._pid = os.fork()
        if not self._pid:
            self._control.close()
            try:
                _switch(devices, theirs, seed)
            finally:
                os._exit(0)
        theirs.close()
        for device in devices.values():
            os.close(device)
        self._answers = self._control.makefile("rb")

    @staticmethod
    def address(end: int) -> str:
        """The address of an end."""
        return f"{PREFIX}.{end}"

    def namespace(self, end: int) -> str:
        """A file by which another process enters the namespace of an end, while this one lives."""
        return f"/proc/{os.getpid()}/fd/{self._namespaces[end]}"

    def _tell(self, *command: Any) -> None:
        self._control.sendall(json.dumps(command).encode() + b"\n")

    def lose(self, ways: Iterable[tuple[int, int]], share: float = 1.0) -> None:
        """Lose a share of the packets of ways, each from one end to another."""
        for one, other in ways:
            self._tell("lose", one, other, share)

    def delay(self, ways: Iterable[tuple[int, int]], seconds: float, jitter: float = 0.0) -> None:
        """Delay the packets of ways, by so many seconds and up to ``jitter`` more; they keep their order."""
        for one, other in ways:
            self._tell("delay", one, other, seconds, jitter)

    def reset(self, ways: Iterable[tuple[int, int]]) -> None:
        """Reset all connections of pairs, each with its next packet."""
        for one, other in ways:
            self._tell("reset", one, other)

    def heal(self) -> None:
        """End all that is done to packets, but what has been reset."""
        self._tell("heal")

    def counts(self) -> dict[str, int]:
        """Packets so far: passed, of those delayed, lost, and connections that were reset."""
        self._tell("count")
        found: dict[str, int] = json.loads(self._answers.readline())
        return found

    def close(self) -> None:
        """End the switch."""
        self._control.close()
        self._answers.close()
        os.waitpid(self._pid, 0)
