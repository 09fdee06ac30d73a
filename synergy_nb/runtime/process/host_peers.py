"""The peers of a host that has joined a cluster of another one by a token."""

from __future__ import annotations

import asyncio
import os
import re
import socket
from collections.abc import Callable
from typing import Any, Final

import msgspec

from synergy_nb.plan.terms.units import counted
from synergy_nb.reporting.cluster_errors import ClusterError
from synergy_nb.runtime.client.progress import Progress
from synergy_nb.runtime.identity.joining import Admitted, JoinToken, ask_to_join
from synergy_nb.runtime.process._peer_factory import FACTORY
from synergy_nb.runtime.process.fork_server import ForkServer, ProcessStartError
from synergy_nb.runtime.process.processes import ProcessSpec, launch_fork_server, serve
from synergy_nb.runtime.process.starting import operator_memory
from synergy_nb.runtime.transport.wire import LinkLimits

__all__ = ["HostPeers", "host_name", "join_host"]

STARTS: Final = 60.0  # seconds without a ready process after which a start is given up
GRACE: Final = 2.0  # seconds within which a process may end by itself


def host_name() -> str:
    """Return the name of this host, with what a name in an identity may have."""
    return re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname().partition(".")[0])[:48] or "host"


class HostPeers:
    """Peers of this host in a cluster of another one; they end with that cluster, or when they are closed."""

    def __init__(self, admitted: Admitted, fork_server: ForkServer, peers: dict[str, str]) -> None:
        self.scheduler = admitted.scheduler
        self.peers = peers  # peer name to address
        self._fork_server = fork_server

    async def ended(self) -> None:
        """Return when all of them have ended."""
        await asyncio.gather(*(self._fork_server.exited(name) for name in self.peers))

    async def close(self) -> None:
        """End them."""
        try:
            await asyncio.gather(*(self._fork_server.stop(name, GRACE) for name in self.peers))
        finally:
            await self._fork_server.close()


async def join_host(
    token: JoinToken,
    peers: int,
    name: str = "",
    host: str = "",
    on_progress: Callable[[Progress], object] | None = None,
) -> HostPeers:
    """Start so many peers on this host that join the cluster of a token.

    ``name``: name of this host, with which those of its peers begin; by default its own. ``host``: address at which
    they listen; by default that from which the cluster is reached.

    Raises ``JoinRefused`` if the cluster refuses them, ``ClusterError`` if they do not start.
    """
    fork_server = launch_fork_server(peers, FACTORY)  # it imports while the door is asked
    try:
        admitted = await ask_to_join(token, name or host_name(), peers, host)
        config: dict[str, Any] = {
            **admitted.settings,
            "cores": (os.cpu_count() or 1) / peers,
            "memory": operator_memory(peers),
        }
        ready: dict[str, str] = {}

        async def begin(peer: str) -> None:
            spec = ProcessSpec(
                scheduler=admitted.scheduler,
                names=(peer,),
                host=admitted.host,
                security={},
                credentials={peer: admitted.peers[peer]},
                dask_config={},
                factory=FACTORY,
                config=config,
                area=None,
                limits=LinkLimits(),
                enters=True,
            )
            target = f"{serve.__module__}:{serve.__name__}"
            report = await fork_server.fork(peer, target, msgspec.msgpack.encode(spec), STARTS)
            ready.update(report["peers"])
            if on_progress is not None:
                on_progress(Progress(len(ready), peers, "peers run"))

        await asyncio.gather(*map(begin, admitted.peers))
        return HostPeers(admitted, fork_server, {peer: ready[peer] for peer in admitted.peers})
    except ProcessStartError as error:
        fork_server.kill()
        raise ClusterError(f"{counted(peers, 'peer')} of this host did not start: {error}") from None
    except BaseException:
        fork_server.abandon()
        fork_server.kill()
        raise
