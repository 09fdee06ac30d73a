"""The tuples of open windows that an application loses when it is stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from typing import Final, Protocol

from synergy_nb.plan import Plan
from synergy_nb.plan.derived.spark_parts import has_state
from synergy_nb.reporting.peer_states import PeerState
from synergy_nb.runtime.process.requests import ClusterError, unpack

__all__ = ["open_windows"]

PATIENCE: Final = 1.0  # longest time to wait for a peer, seconds: a slow one delays no stop


class PeerQuery(Protocol):
    """Request to a peer, such as :meth:`~synergy_nb.runtime.client.AsyncCluster.request`."""

    def __call__(self, peer: str, operation: str, payload: bytes = b"", timeout: float = 5.0) -> Awaitable[bytes]:
        """Return the answer of a peer."""


async def open_windows(request: PeerQuery, application: str, plan: Plan, peers: Mapping[str, str]) -> list[str]:
    """Return a notice that names the operators with open windows; empty if there are none.

    ``request``: function that sends a request to a peer; ``peers``: operator id to the address of the peer that
    executes it.
    """
    keeping = {name for name, operator in plan.operators.items() if has_state(operator)}

    async def held_bytes(peer: str) -> dict[str, float]:
        try:
            state = unpack(await request(peer, "state", timeout=PATIENCE), PeerState)
        except ClusterError:  # it has died, or is slow: its state is unknown
            return {}
        own = (part for part in state.components if part["application"] == application)
        return {part["operator"]: part["memory_bytes"] for part in own if part["operator"] in keeping}

    hosts = sorted({peers[name] for name in keeping & peers.keys()})
    found: dict[str, float] = {}
    for each in await asyncio.gather(*map(held_bytes, hosts)):
        found.update(each)
    operators = ", ".join(name for name in plan.operators if found.get(name))
    if not operators:
        return []
    return [f"windows were open when it was stopped, and have no result: {operators} held tuples of them"]
