"""The journals of a cluster, followed for displays: of one for coroutines, or of one for synchronous code."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from synergy_nb.runtime.client.async_cluster import AsyncCluster
from synergy_nb.runtime.client.cluster import Cluster
from synergy_nb.runtime.client.journal_follower import JournalFollower, follower_of
from synergy_nb.runtime.process.requests import ClusterError

__all__ = ["follow_journals"]

CATCH_UP: Final = 3.0  # longest time to wait for earlier events, seconds


def follow_journals(cluster: Cluster | AsyncCluster) -> JournalFollower:
    """Return the follower of a cluster: the existing one, or a new one.

    ``cluster``: cluster for synchronous code, from any thread but its own: then the earlier events of its peers are
    read first, as far as possible within a few seconds. Or a cluster for coroutines, on its event loop.

    Raises ``ClusterError`` if the cluster is closed, or a cluster for coroutines is not followed on its event loop.
    """
    if isinstance(cluster, Cluster):
        return cluster._run(_caught_up(cluster._asynchronous))
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        raise ClusterError(
            "cluster: one for coroutines; expected a call within a coroutine on its event loop"
        ) from None
    return follower_of(cluster)


async def _caught_up(cluster: AsyncCluster) -> JournalFollower:
    follower = follower_of(cluster)
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(follower.caught_up.wait(), CATCH_UP)
    return follower
