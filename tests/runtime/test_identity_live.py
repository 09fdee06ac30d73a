"""Who gets in: a cluster with its authority, and those who may not do what they try. Each gets one clear refusal."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest
from distributed.comm.core import CommClosedError, connect
from distributed.core import send_recv
from distributed.protocol.pickle import dumps
from distributed.protocol.serialize import to_serialize

from synergy_nb import Cluster, source
from synergy_nb.control.identity import OWNER, PEER, USER, endpoint_of, peer_id_of
from synergy_nb.events import FrameRefused, LinkRefused, PeerStarted, SenderRefused
from synergy_nb.reporting.cluster_errors import AccessRevoked, ClusterError
from synergy_nb.runtime.client.async_cluster import AsyncCluster
from synergy_nb.runtime.identity.authority import Authority, Credentials, half_life, identity_in
from synergy_nb.runtime.identity.renewals import REVOKE, Renewals
from synergy_nb.runtime.identity.security import IdentitySecurity
from synergy_nb.runtime.process._plugin import client_links, connector
from synergy_nb.runtime.transport.link import DISMISSED, LinkDown, LinkLimits, Links, RemoteError
from tests.peer_states import state_of
from tests.waiting import DEADLINE

pytestmark = pytest.mark.slow
T = TypeVar("T")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(2, spark=False) as started:
        yield started


@pytest.fixture(scope="module")
def at(cluster: Cluster) -> str:
    """The address of a peer."""
    return cluster.peers["peer-1"]


def renewals(cluster: Cluster) -> Renewals:
    held = of(cluster).renewals
    assert held is not None
    return held


def of(cluster: Cluster) -> AsyncCluster:
    return cluster._asynchronous


def on_loop(cluster: Cluster, work: Coroutine[Any, Any, T]) -> T:
    return cluster._run(work)


def security(cluster: Cluster, role: str, name: str, address: str = "") -> IdentitySecurity:
    return IdentitySecurity(renewals(cluster).authority.issue(role, name, address))


def links_of(held: IdentitySecurity, on_down: Callable[[str, str], None] | None = None) -> Links:
    return client_links(held.get_connection_args("client"), security=held, on_down=on_down)


def journaled(cluster: Cluster, kind: type[Any]) -> list[Any]:
    return [event for event in cluster.events() if isinstance(event, kind) and event.peer == cluster.peers["peer-1"]]


async def asked(links: Links, at: str, operation: str = "ping") -> bytes:
    try:
        return await links.request(at, operation, b"x")
    finally:
        await links.close()


async def said(at: str, held: IdentitySecurity, **message: Any) -> Any:
    """What Dask answers to a message."""
    comm = await connect(endpoint_of(at), **held.get_connection_args("client"))
    try:
        return await send_recv(comm, **message)
    finally:
        comm.abort()


def test_a_cluster_has_tls_and_another_notebook_of_its_owner_finds_it_by_its_address(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert all(address.startswith("tls://127.0.0.1:") for address in [cluster.scheduler, *cluster.peers.values()])
    with Cluster(cluster.scheduler.removeprefix("tls://"), spark=False) as second:
        assert second.peers == cluster.peers
        assert second.security.identity == cluster.security.identity
        assert second.security.identity.role == OWNER
    monkeypatch.setenv("SYNERGY_CREDENTIALS", str(tmp_path))  # as for another user
    with pytest.raises(ClusterError, match=r"asks for a certificate, and .* has none for it"):
        Cluster(cluster.scheduler)


def test_who_has_no_certificate_is_refused(cluster: Cluster, at: str) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE

    async def attempt(address: str) -> None:
        with pytest.raises(CommClosedError):
            await connect(address, timeout=5.0, ssl_context=context)

    ports = (endpoint_of(at), cluster.scheduler)
    for address in (*ports, *(each.replace("tls", "tcp") for each in ports)):
        asyncio.run(attempt(address))
    assert "PEER_DID_NOT_RETURN_A_CERTIFICATE" in str(journaled(cluster, FrameRefused)[-2:])


def test_who_has_a_certificate_of_another_cluster_is_refused(cluster: Cluster, at: str) -> None:
    stranger = IdentitySecurity(Authority(renewals(cluster).authority.cluster).issue(OWNER, "ada"))

    async def attempt() -> None:
        with pytest.raises((LinkDown, TimeoutError)):
            await asked(links_of(stranger), at)

    asyncio.run(attempt())
    with pytest.raises(ClusterError, match="does not answer as the scheduler of"):
        Cluster(cluster.scheduler, security=stranger)


@pytest.mark.parametrize("claimed", ["peer-2", "owner"])
def test_a_sender_is_who_its_certificate_says_whatever_its_hello_says(cluster: Cluster, at: str, claimed: str) -> None:
    """A lying peer speaks as another one, and a peer as the owner."""
    liar = security(cluster, PEER, "liar", "tls://127.0.0.1:9")
    name = cluster.peers.get(claimed, "owner/ada#1")

    async def attempt() -> None:
        connects = connector(liar.get_connection_args("client"), LinkLimits())
        with pytest.raises(LinkDown, match=r"refused: it says it is .*; its certificate is of .*/peer/liar at tls://"):
            await asked(Links(name, connects, identities=liar), at)

    for _ in range(2):
        asyncio.run(attempt())
    (noted,) = [event for event in journaled(cluster, LinkRefused) if name in event.reason][:1]
    assert noted.subject == liar.identity.id
    assert state_of(cluster, "peer-2")  # the link of the true one goes on


def test_who_answers_at_an_address_that_its_certificate_does_not_have_is_refused(cluster: Cluster, at: str) -> None:
    """As somebody who listens where a peer listened before."""

    async def attempt() -> None:
        held = security(cluster, USER, "ada")
        links = links_of(held)
        other = security(cluster, PEER, "peer-2", endpoint_of(cluster.peers["peer-2"])).identity
        held.identify = lambda comm: other  # type: ignore[method-assign]
        with pytest.raises(LinkDown, match=r"refused: it says it is tls://.*; its certificate is of .*/peer/peer-2"):
            await asked(links, at)

    asyncio.run(attempt())


def test_a_guest_does_what_guests_may_and_is_refused_the_rest_by_name(cluster: Cluster, at: str) -> None:
    guest = security(cluster, USER, "eve")

    async def attempts() -> None:
        links = links_of(guest)
        assert await links.request(at, "ping", b"x") == b"x"
        with pytest.raises(RemoteError, match="NotAllowed: operation: 'leave' is not for user/eve; expected owner"):
            await links.request(at, "leave")
        links.send(at, msgspec.msgpack.encode(["Leaving"]))
        links.send(at, msgspec.msgpack.encode(["Ping", 1]))
        links.send_data(at, "stream", b"x")
        await asked(links, at)

    asyncio.run(attempts())
    refused = {event.what: event for event in journaled(cluster, SenderRefused) if event.subject == "user/eve"}
    assert {what: event.expected for what, event in refused.items()}["the operation 'leave'"] == "owner"
    assert refused["data on the channel 'stream'"].expected == "peer"
    assert "peer-1" in cluster.states()


def test_a_guest_submits_within_what_peers_accept_and_sees_what_is_his_own_or_shared(
    cluster: Cluster, tmp_path: Path
) -> None:
    for name in ("ann", "bob"):
        cluster.invite(name, tmp_path / name)
    assert (tmp_path / "ann").stat().st_mode & 0o777 == 0o600
    for user, file, wrong in (
        (5, "five", "user: name: 5; expected"),
        ("ann", "ann", "ann': File exists; expected a new"),
    ):
        with pytest.raises(ClusterError, match=wrong):
            cluster.invite(user, tmp_path / file)  # type: ignore[arg-type]
    with pytest.raises(ClusterError, match=r"none: No such file or directory; expected a file that Cluster.invite has"):
        Cluster(cluster.scheduler, security=tmp_path / "none")
    packets = source("packets", seed=1, rate="100 tuples/s", duration="2 s", speed=0)
    hers = source("packets", seed=2, rate="100 tuples/s").count(window="1 s", name="n").sink()
    with (
        Cluster(cluster.scheduler, security=tmp_path / "ann") as ann,
        Cluster(cluster.scheduler.replace("tls", "tcp"), security=str(tmp_path / "bob")) as bob,
    ):
        counted = ann.submit(packets.count(window="1 s", name="n").sink(delay="20 s"))
        assert counted.results().height == 2
        running = ann.submit(hers)
        assert running.id in cluster.applications
        assert list(ann.applications) == [running.id, counted.id]
        assert not bob.applications
        with pytest.raises(ClusterError, match=f"application: '{running.id}'; expected"):
            bob.stop(running.id)
        with pytest.raises(ClusterError, match="right: 'write'; expected one of read, control, or None"):
            running.share("bob", "write")
        running.share("bob")
        of_ann = bob.applications[running.id]
        assert of_ann.status == "running"
        with pytest.raises(ClusterError, match=r"is not one that 'bob' may control; .*share\('bob', 'control'\)"):
            of_ann.stop()
        assert of_ann.head(1).height == 1  # what he may not stop goes on for him, too
        with pytest.raises(ClusterError, match="only its owner shares it"):
            of_ann.share("eve")
        running.share("bob", "control")
        of_ann.stop()
        assert running.wait() == "stopped"
        secret = tmp_path / "secret.csv"
        secret.write_text("a\n1\n")
        with pytest.raises(ClusterError, match="expected no file: this peer lets the plans of others read none"):
            ann.submit(source("trace", path=str(secret), format="csv", rate=1, columns={"a": "int"}).sink())
        with pytest.raises(ClusterError, match="invite: expected a client of the owner of a cluster with an authority"):
            ann.invite("eve", tmp_path / "eve")
        with pytest.raises(ClusterError, match="revoke: expected a client of the owner of a cluster with an authority"):
            ann.revoke("user/bob")


def test_a_guest_who_is_revoked_while_he_reads_is_told_so_and_has_what_had_come(
    cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.invite("carol", tmp_path / "carol")
    with Cluster(cluster.scheduler, security=tmp_path / "carol") as carol, ThreadPoolExecutor(1) as pool:
        endless = carol.submit(source("packets", seed=1, rate="500 tuples/s").sink(delay="20 s"))
        assert endless.head(10).height >= 10
        had = endless.results(wait=False).height
        reading = pool.submit(endless.results, seconds=10 * DEADLINE)
        cluster.revoke("user/carol")
        with pytest.raises(
            AccessRevoked, match=rf"{endless.id}: the certificate .* was revoked .*results\(wait=False\)"
        ):
            reading.result(DEADLINE)
        for asked in (endless.wait, lambda: endless.status, lambda: carol.applications, carol.states):
            with pytest.raises(AccessRevoked, match="was revoked by the owner of the cluster; ask for another one"):
                asked()
        assert endless.results(wait=False).height >= had
    said = [line for line in capsys.readouterr().err.splitlines() if "revoked" in line]
    assert said == [f"{AccessRevoked('synergy')}"], "once, also where nobody asks for anything"
    cluster.stop(endless.id)


@pytest.mark.parametrize("role", [USER, PEER])
def test_neither_a_guest_nor_a_peer_runs_code_by_dask(cluster: Cluster, at: str, role: str) -> None:
    held = security(cluster, role, "eve", "tls://127.0.0.1:9" if role == PEER else "")

    async def attempt(address: str, **message: Any) -> None:
        with pytest.raises(CommClosedError):
            await said(address, held, **message)

    for address, operation in ((at, "run"), (cluster.scheduler, "run_function"), (cluster.scheduler, "broadcast")):
        asyncio.run(attempt(address, op=operation, function=dumps(print), args=to_serialize(())))
    asyncio.run(attempt(cluster.scheduler, op="terminate"))
    asyncio.run(attempt(cluster.scheduler, op=REVOKE, name="peer-1"))
    asyncio.run(attempt(cluster.scheduler, op="register-client", client="x"))
    reasons = [event.reason for event in journaled(cluster, FrameRefused)]
    assert any("with an object that would have to be unpickled" in reason for reason in reasons)
    with Cluster(cluster.scheduler, spark=False) as another:  # nothing has ended
        assert another.peers == cluster.peers


def test_the_owner_uses_dask_as_ever(cluster: Cluster, at: str) -> None:
    async def tries() -> Any:
        return await said(at, cluster.security, op="run", function=dumps(max), args=dumps((1, 2)), kwargs=dumps({}))

    assert asyncio.run(tries()) == {"status": "OK", "result": 2}


def test_peers_and_notebooks_know_at_which_address_only_a_scheduler_is_spoken_to(cluster: Cluster, at: str) -> None:
    def known(dask_worker: Any) -> str:
        return str(dask_worker.security.scheduler)

    async def tries() -> Any:
        arguments = {"function": dumps(known), "args": dumps(()), "kwargs": dumps({})}
        return await said(at, cluster.security, op="run", **arguments)

    assert asyncio.run(tries()) == {"status": "OK", "result": cluster.scheduler}
    assert cluster.security.scheduler == cluster.scheduler


def test_the_key_of_a_peer_on_the_ring_follows_from_its_certificate(cluster: Cluster, at: str) -> None:
    """A peer that is asked for under another id does not answer: there is no such peer, whoever tells of it."""
    certified = identity_in(renewals(cluster).certificates["peer-1"])
    assert (peer_id_of(at), at) == (certified.peer_id, certified.address)
    links = of(cluster).links
    for address in (endpoint_of(at), f"{endpoint_of(at)}#peer-1.00000000"):
        with pytest.raises(LinkDown, match=f"refused: it says it is {address}; its certificate is of .* at {at}$"):
            on_loop(cluster, links.request(address, "ping", b"x"))


def test_another_notebook_of_the_owner_revokes_for_all_and_for_those_that_join_later(
    cluster: Cluster, at: str, tmp_path: Path
) -> None:
    guest = security(cluster, USER, "trudy")
    with Cluster(cluster.scheduler, spark=False) as second:
        told = threading.Event()
        second.security.on_revoked.append(told.set)
        cluster.revoke("user/tom")
        assert told.wait(DEADLINE), "a notebook that is connected learns it from the peers"
        assert second.security.revoked >= {security(cluster, USER, "ada").identity.id.replace("ada", "tom")}
        second.revoke("user/trudy")
        second.invite("tina", tmp_path / "tina")
        with pytest.raises(ClusterError, match=r"user: identity: .*user/tom was revoked; expected another name"):
            second.invite("tom", tmp_path / "tom")
        assert guest.identity.id in second.security.revoked
        with pytest.raises(ClusterError, match="is the owner of the cluster"):
            second.revoke(cluster.security.identity.holder)

    async def meet() -> None:
        with pytest.raises((LinkDown, TimeoutError)):
            await asked(links_of(guest), at)
        tina = IdentitySecurity(Credentials.from_bytes((tmp_path / "tina").read_bytes()))
        assert await asked(links_of(tina), at) == b"x"

    asyncio.run(meet())
    with pytest.raises(ClusterError, match="trudy, whose certificate was revoked"):
        Cluster(cluster.scheduler, security=guest)
    with pytest.raises(ClusterError, match="user/trudy was revoked; expected another name"):
        cluster.invite("trudy", tmp_path / "trudy")
    assert guest.identity.id in renewals(cluster).authority.revoked


def test_certificates_are_renewed_and_links_go_on(cluster: Cluster, at: str, monkeypatch: pytest.MonkeyPatch) -> None:
    held, links = renewals(cluster), of(cluster).links
    before, certificates = (
        links.by_address[at],
        [cluster.security.credentials.certificate, *held.certificates.values()],
    )
    assert on_loop(cluster, held.round()) == pytest.approx(half_life(certificates[0]) - held.clock(), abs=60.0)
    monkeypatch.setattr(held, "clock", lambda: half_life(certificates[-1]) + 60.0)
    on_loop(cluster, held.round())
    renewed = [cluster.security.credentials.certificate, *held.certificates.values()]
    assert not set(renewed) & set(certificates)
    assert [identity_in(each) for each in renewed] == [identity_in(each) for each in certificates]
    assert state_of(cluster, "peer-1")
    assert links.by_address[at] is before

    async def anew() -> bytes:
        return await asked(links_of(security(cluster, USER, "ada")), at)

    assert asyncio.run(anew()) == b"x"
    assert len(journaled(cluster, PeerStarted)) == 1


def test_who_was_revoked_loses_its_links_and_gets_no_new_one(cluster: Cluster, at: str) -> None:
    guest = security(cluster, USER, "mallory")

    async def meet() -> None:
        down = asyncio.Event()
        links = links_of(guest, lambda *_: down.set())
        assert await links.request(at, "ping", b"x") == b"x"
        await asyncio.to_thread(cluster.revoke, "user/mallory")
        await asyncio.wait_for(down.wait(), 60.0)
        with pytest.raises(LinkDown, match=DISMISSED):
            await asked(links, at)
        with pytest.raises((LinkDown, TimeoutError)):
            await asked(links_of(guest), at)

    asyncio.run(meet())
    assert any("mallory, whose certificate was revoked" in event.reason for event in journaled(cluster, FrameRefused))
    with pytest.raises(
        ClusterError, match=r"has refused a handshake by spiffe://.*/user/mallory, whose certificate was revoked"
    ):
        Cluster(cluster.scheduler, security=guest)
    with pytest.raises(ClusterError, match="is the owner of the cluster"):
        cluster.revoke(cluster.security.identity.holder)


@pytest.mark.slow
def test_a_peer_that_was_revoked_ends_and_says_why_in_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    """It asked the scheduler for ever."""
    with Cluster(2, spark=False) as small:
        started: Any = of(small).local
        process = started.processes["peer-2"]
        small.revoke("peer-2")
        on_loop(small, asyncio.wait_for(process.finished(), DEADLINE))
        assert list(started.peers) == ["peer-1"]
        who = f"spiffe://{renewals(small).authority.cluster}/peer/peer-2"
    said = f"peer-2 ends: the scheduler has refused a handshake by {who}, whose certificate was revoked"
    lines = capfd.readouterr().err.splitlines()
    assert [line for line in lines if "peer-2" in line and not line.startswith("synergy: peer-1")] == [said]
