"""Changes of what runs on a cluster, for demonstrations: links, load of peers, pace of sources, cost of delays."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from synergy_nb.lifecycle.knob_values import checked_factor, checked_operator, checked_share, checked_source
from synergy_nb.plan.active_replicas import original
from synergy_nb.plan.units import did_you_mean, duration
from synergy_nb.runtime.client.applications import Identified
from synergy_nb.runtime.client.async_application import AsyncApplication
from synergy_nb.runtime.client.async_cluster import AsyncCluster
from synergy_nb.runtime.process.requests import (
    HERE,
    ChangeCost,
    ChangeLink,
    ChangeLoad,
    ChangePace,
    ClusterError,
    pack,
)

__all__ = ["change_cost", "change_link", "change_load", "change_pace"]

OTHERS: Final = 1.0  # longest time to wait for a peer that does not execute the operator, seconds
_MENDING: Final[set[asyncio.Task[None]]] = set()


async def change_link(
    cluster: AsyncCluster, peer: str, other: str, *, severed: bool, seconds: float | str | None = None
) -> None:
    """Cut the link between two peers, or mend it.

    Parameters
    ----------
    cluster
        Cluster of the peers.
    peer, other
        Names of the peers.
    severed
        Whether to cut it.
    seconds
        Time after which a cut link is mended, in seconds or as ``"2 min"``; None: it stays cut.
    """
    one, two = _address(cluster, "peer", peer), _address(cluster, "other", other)
    if one == two:
        raise ClusterError(f"other: {other!r}; expected another peer than {peer!r}")
    later = None if seconds is None else duration("seconds", seconds)
    for at, to in ((one, two), (two, one)):
        await cluster.request(at, "cut", pack(ChangeLink(to, severed)))
    if severed and later is not None:
        task = asyncio.get_running_loop().create_task(_mend_after(cluster, peer, other, later), name="mend a link")
        _MENDING.add(task)
        task.add_done_callback(_MENDING.discard)


async def _mend_after(cluster: AsyncCluster, peer: str, other: str, seconds: float) -> None:
    await asyncio.sleep(seconds)
    with contextlib.suppress(ClusterError):  # a peer has died meanwhile, or the cluster was closed
        await change_link(cluster, peer, other, severed=False)


async def change_load(cluster: AsyncCluster, peer: str, share: float) -> None:
    """Have the process of a peer be busy with other work for a share of the time.

    Parameters
    ----------
    cluster
        Cluster of the peer.
    peer
        Name of the peer.
    share
        Share of the time, from 0 to 0.99.
    """
    wanted = checked_share(share)
    await cluster.request(_address(cluster, "peer", peer), "load", pack(ChangeLoad(wanted)))


async def change_cost(
    cluster: AsyncCluster, application: str | Identified, operator: str, seconds: float | str
) -> None:
    """Have a ``delay`` take another time for each tuple.

    Parameters
    ----------
    cluster
        Cluster of the application.
    application
        Application, its id, or the name of its plan if exactly one running application has that name.
    operator
        Operator id of the delay.
    seconds
        Time of a tuple, in seconds or as ``"2 ms"``.
    """
    held = await cluster.handle(application)
    kind = held.plan.operators[checked_operator(held.plan, operator)].kind
    if kind != "delay":
        delays = [name for name, each in held.plan.operators.items() if each.kind == "delay"]
        known = ", ".join(delays) or "none: the plan has no delay"
        raise ClusterError(f"operator: {operator!r} is a {kind}, which takes what it takes; expected a delay: {known}")
    wanted = duration("seconds", seconds, least=0.0)
    await _change(cluster, held, operator, "cost", pack(ChangeCost(held.id, operator, wanted)))


async def change_pace(cluster: AsyncCluster, application: str | Identified, source: str, factor: float) -> None:
    """Have a source come at another pace than its own.

    Parameters
    ----------
    cluster
        Cluster of the application.
    application
        Application, its id, or the name of its plan if exactly one running application has that name.
    source
        Operator id of the source.
    factor
        Factor of its own pace: 2 is twice as fast, 0 stops it.
    """
    held = await cluster.handle(application)
    request = pack(ChangePace(held.id, checked_source(held.plan, source), checked_factor(factor)))
    await _change(cluster, held, source, "pace", request)


async def _change(
    cluster: AsyncCluster, application: AsyncApplication, operator: str, operation: str, request: bytes
) -> None:
    """Send a change to all peers: first to those that execute the operator now, then to those it may move to."""
    peers = (await application.state()).roles.peers
    hosts = {at for name, at in peers.items() if at and original(name) == operator}
    answers = [await cluster.request(at, operation, request) for at in sorted(hosts)]
    others = [at for at in cluster.peers.values() if at not in hosts]
    sent = (cluster.request(at, operation, request, timeout=OTHERS) for at in others)  # a dead one needs no answer
    answers += [each for each in await asyncio.gather(*sent, return_exceptions=True) if isinstance(each, bytes)]
    if HERE not in answers:
        raise ClusterError(f"application: {application.id!r} does not run; expected one that runs")


def _address(cluster: AsyncCluster, field: str, peer: str) -> str:
    found = cluster.peers.get(peer)
    if found is None:
        known = ", ".join(cluster.peers)
        raise ClusterError(f"{field}: {peer!r}; expected one of {known}{did_you_mean(peer, cluster.peers)}")
    return found
