"""Changes of what runs on a cluster, for demonstrations: links, load of peers, pace of sources, cost of delays."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from synergy_nb.control.cuts import Cut
from synergy_nb.plan.derived.active_replicas import original
from synergy_nb.runtime.client.async_application import AsyncApplication
from synergy_nb.runtime.client.async_cluster import AsyncCluster
from synergy_nb.runtime.process.requests import HERE, ChangeCost, ChangeLink, ChangePace, ClusterError, pack

OTHERS: Final = 1.0  # longest time to wait for a peer that does not execute the operator, seconds
_MENDING: Final[set[asyncio.Task[None]]] = set()


async def change_link(
    cluster: AsyncCluster, peer: str, other: str, cut: Cut | None, seconds: float | None = None
) -> None:
    """Cut the link between two peers, for some seconds if these are given; or mend it if ``cut`` is None."""
    one, two = cluster.peers[peer], cluster.peers[other]
    for at, to in ((one, two), (two, one)):
        await cluster.request(at, "cut", pack(ChangeLink(to, cut)))
    if cut is not None and seconds is not None:
        task = asyncio.get_running_loop().create_task(_mend_after(cluster, peer, other, seconds), name="mend a link")
        _MENDING.add(task)
        task.add_done_callback(_MENDING.discard)


async def _mend_after(cluster: AsyncCluster, peer: str, other: str, seconds: float) -> None:
    await asyncio.sleep(seconds)
    with contextlib.suppress(ClusterError):  # a peer has died meanwhile, or the cluster was closed
        await change_link(cluster, peer, other, None)


async def change_cost(cluster: AsyncCluster, application: str, operator: str, seconds: float) -> None:
    """Have a ``delay`` take so many seconds for each tuple."""
    held = await cluster.handle(application)
    kind = held.plan.operators[operator].kind
    if kind != "delay":
        delays = [name for name, each in held.plan.operators.items() if each.kind == "delay"]
        known = ", ".join(delays) or "none: the plan has no delay"
        raise ClusterError(f"operator: {operator!r} is a {kind}, which takes what it takes; expected a delay: {known}")
    await _change(cluster, held, operator, "cost", pack(ChangeCost(held.id, operator, seconds)))


async def change_pace(cluster: AsyncCluster, application: str, source: str, factor: float) -> None:
    """Have a source come at so many times its own pace."""
    held = await cluster.handle(application)
    await _change(cluster, held, source, "pace", pack(ChangePace(held.id, source, factor)))


async def _change(
    cluster: AsyncCluster, application: AsyncApplication, operator: str, operation: str, request: bytes
) -> None:
    """Send a change to all peers: first to those that execute the operator now, then to those it may move to later."""
    peers = (await application.state()).roles.peers
    hosts = {at for name, at in peers.items() if at and original(name) == operator}
    answers = [await cluster.request(at, operation, request) for at in sorted(hosts)]
    others = [at for at in cluster.peers.values() if at not in hosts]
    sent = (cluster.request(at, operation, request, timeout=OTHERS) for at in others)  # a dead one needs no answer
    answers += [each for each in await asyncio.gather(*sent, return_exceptions=True) if isinstance(each, bytes)]
    if HERE not in answers:
        raise ClusterError(f"application: {application.id!r} does not run; expected one that runs")
