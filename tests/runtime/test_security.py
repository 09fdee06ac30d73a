"""Who answers: at the address of the scheduler only a scheduler is spoken to, and nobody's answers are unpickled."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from distributed.comm.core import Comm, CommClosedError, connect, listen
from distributed.comm.registry import get_backend
from distributed.protocol.serialize import to_serialize

from synergy_nb import connect_cluster
from synergy_nb.control.identity import OWNER, PEER, SCHEDULER, USER
from synergy_nb.reporting.cluster_errors import ClusterError
from synergy_nb.runtime.identity.authority import Authority
from synergy_nb.runtime.identity.security import IdentitySecurity
from synergy_nb.runtime.process._plugin import client_links
from synergy_nb.runtime.transport.link import LinkDown

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
        with pytest.raises(ClusterError, match=f"spiffe://green/user/eve listens at '{at}'; expected a scheduler"):
            await connect_cluster(at, security=IdentitySecurity(GREEN.issue(OWNER, "ada")), timeout=0.1)


class Writes:
    """An object whose unpickling writes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.write_text, (self.path, "unpickled")


@pytest.mark.parametrize("early", [True, False], ids=["in the handshake", "to the hello"])
async def test_a_peer_that_answers_a_link_with_an_object_is_refused_and_nothing_is_unpickled(
    early: bool, tmp_path: Path
) -> None:
    written, liar = tmp_path / "written", IdentitySecurity(GREEN.issue(PEER, "liar"))
    answer = {"compression": None, "pickle-protocol": 4, "welcome": to_serialize(Writes(written))}

    async def answers(comm: Comm) -> None:
        await comm.write(answer)
        await comm.read()

    listener = await listen("tls://127.0.0.1:0", answers, **liar.get_listen_args("worker"))
    if early:
        listener.on_connection = answers
    at = f"{listener.contact_address}#{liar.identity.peer_id}"
    held = IdentitySecurity(GREEN.issue(USER, "ada"))
    links = client_links(held.get_connection_args("client"), security=held)
    try:
        with pytest.raises(LinkDown, match="with an object that would have to be unpickled; expected plain data"):
            await links.request(at, "ping")
    finally:
        await links.close()
        listener.stop()
    assert not written.exists()
