"""Peers of a cluster that are in network namespaces of their own, with a clock that can be set; for live campaigns."""

from __future__ import annotations

import json
import mmap
import os
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from synergy_nb.runtime.process import _peer_contents, _service, processes
from tests.packet_switch import Network, enter

__all__ = ["ENVIRONMENT", "serve", "through_namespaces"]

ENVIRONMENT: Final = "SYNERGY_LIVE_NETWORK"  # what peers have to know, as JSON, for the fork server's children


def through_namespaces(fork: Callable[..., Any]) -> Callable[..., Any]:
    """A method of a fork server that calls :func:`serve` where it would start a peer."""

    def forked(server: Any, name: str, target: str, *arguments: Any) -> Any:
        peer = target == f"{processes.__name__}:serve"
        return fork(server, name, f"{__name__}:serve" if peer else target, *arguments)

    return forked


def serve(data: bytes, report: Callable[[Any], None]) -> None:
    """Run a peer in its namespace, with its clock: what the fork server calls."""
    settings = json.loads(os.environ[ENVIRONMENT])
    spec = msgspec.msgpack.decode(data, type=processes.ProcessSpec)
    number = int(spec.names[0].partition("-")[2])
    enter(settings["namespaces"][str(number)])
    clock = Path(settings["clock"]).open("rb")  # noqa: SIM115 - the peer reads it as long as it lives
    offsets, real = mmap.mmap(clock.fileno(), 0, access=mmap.ACCESS_READ), time.time
    time.time = lambda: real() + struct.unpack_from("d", offsets, 8 * number)[0]
    if not settings["shared"]:
        for module in (_service, _peer_contents):
            vars(module)["machine"] = str  # peers of different machines
    host = Network.address(number + 1)
    processes.serve(msgspec.msgpack.encode(msgspec.structs.replace(spec, host=host)), report)
