"""Who answers at the address of the scheduler: only a scheduler is spoken to there."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from distributed.comm.core import Comm, CommClosedError, connect, listen
from distributed.comm.registry import get_backend

from synergy_nb import connect_cluster
from synergy_nb.control.identity import OWNER, PEER, SCHEDULER, USER
from synergy_nb.reporting.cluster_errors import ClusterError
from synergy_nb.runtime.identity.authority import Authority
from synergy_nb.runtime.identity.security import IdentitySecurity

GREEN = Authority("green")


@asynccontextmanager
async def listening(role: str, name: str = "") -> AsyncIterator[str]:
    """The address of somebody who speaks Dask's protocol."""
    held = IdentitySecurity(GREEN.issue(role, name))

    async def silent(_: Comm) -> None:
        """Wait for nothing."""

    listener = await listen("tls://127.0.0.1:0", silent, **held.get_listen_args("scheduler"))
    try:
        yield listener.contact_address
    finally:
        listener.stop()


async def spoken_to(at: str, security: IdentitySecurity) -> None:
    """Open one connection, as far as TLS goes."""
    connector = get_backend("tls").get_connector()
    comm: Any = await connector.connect(at.removeprefix("tls://"), **security.get_connection_args("worker"))
    comm.abort()


@pytest.mark.parametrize(("role", "name"), [(USER, "eve"), (PEER, "liar"), (OWNER, "ada")])
async def test_nobody_else_is_spoken_to_at_the_address_of_the_scheduler(role: str, name: str) -> None:
    """He would tell a worker what to run. A certificate of the cluster was enough."""
    async with listening(role, name) as at:
        peer, seen = IdentitySecurity(GREEN.issue(PEER, "peer-1"), at), list[tuple[str, str]]()
        peer.on_impostor.append(lambda *each: seen.append(each))
        with pytest.raises(CommClosedError) as refused:
            await spoken_to(at, peer)
        assert f"at the address of the scheduler, {at}, listens spiffe://green/" in str(refused.value.__cause__)
        assert seen == [(at, f"spiffe://green/{role}/{name}")]
        peer.scheduler = "tls://127.0.0.1:1"
        await spoken_to(at, peer)  # as the link to a peer


async def test_a_scheduler_is_spoken_to() -> None:
    async with listening(SCHEDULER) as at:
        peer = IdentitySecurity(GREEN.issue(PEER, "peer-1"), at)
        comm = await connect(at, **peer.get_connection_args("worker"))
        comm.abort()
        assert not peer.impostor


async def test_a_notebook_names_who_listens_instead_of_the_scheduler() -> None:
    async with listening(USER, "eve") as at:
        with pytest.raises(ClusterError, match=f"at '{at}' listens spiffe://green/user/eve; expected a scheduler"):
            await connect_cluster(at, security=IdentitySecurity(GREEN.issue(OWNER, "ada")), timeout=0.1)
