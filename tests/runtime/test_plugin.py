"""One peer on a real clock: the driver over comms in memory, and the plugin on Dask workers of this process."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import asyncio
import datetime as dt
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import msgspec
import pytest
from distributed import Client, LocalCluster, Security, Worker
from distributed.comm.core import CommClosedError, listen

from synergy_nb.control.peer import Codec, Peer, Record
from synergy_nb.events import REFUSED, FloodShed, LinkBroken, decode_events
from synergy_nb.runtime.process import _plugin as plugin
from synergy_nb.runtime.process._peer_driver import SUBMISSIONS, PeerRuntime
from synergy_nb.runtime.process._plugin import PLUGIN, SynergyPlugin, client_links, connector, install, runtime_of
from synergy_nb.runtime.process.error_publisher import NEWCOMERS, ErrorPublisher
from synergy_nb.runtime.transport.link import HANDLER, LinkDown, LinkLimits, RemoteError
from synergy_nb.runtime.transport.wide_area import WideArea
from tests.memory_comm import Log, Net, run
from tests.runtime import echo_peer
from tests.runtime.echo_peer import Break, Fail, Greet, Order, Stranger
from tests.runtime.echo_workers import FACTORY, event
from tests.waiting import DEADLINE, run_loop, until

on_loop = run  # how the tests that are coroutines run

A, B = "mem://a", "mem://b"


# -- the driver, in virtual time ---------------------------------------------------------------------------------------


class Driven:
    """Peers in memory, and waiting for events in their journals."""

    def __init__(self) -> None:
        self.net = Net()
        self.a = self.peer(A)
        self.b = self.peer(B)

    def peer(self, address: str) -> PeerRuntime:
        runtime = PeerRuntime(address, address[-1], self.net.connector(address), echo_peer.make, {})
        self.net.links[address] = runtime.links
        runtime.start()
        return runtime

    async def close(self) -> None:
        await self.a.close()
        await self.b.close()
        await self.net.close()


async def test_effects_are_carried_out() -> None:
    driven = Driven()
    driven.a.request(Greet(B, 7))
    assert (await event(driven.a, "echoed")).detail == {"number": 7}
    assert (await event(driven.b, "greeted")).subject == A
    await driven.close()


async def test_an_instruction_reaches_the_host_and_its_outcome_the_peer() -> None:
    driven = Driven()
    driven.a.request(Order("filter"))
    kinds = [event.kind for event in driven.a.journal]
    assert kinds == ["peer_started", "deploy_asked", "deploy_done"]  # effects of the report come after the others
    driven.a.request(Order("impossible"))
    error = await event(driven.a, "handler_failed")
    assert error.detail == {"error": "ValueError: cannot deploy the impossible"}
    assert [event.kind for event in driven.a.journal][-1] == "deploy_asked"  # the other effects were carried out
    await driven.close()


async def test_timers_fire_when_they_are_due_and_in_their_order() -> None:
    driven = Driven()
    start = driven.a.now
    for number, delay in ((3, 3.0), (1, 1.0), (2, 2.0)):
        driven.a.request(Greet(B, number, delay))
    await event(driven.b, "greeted", 3)
    hellos = [event for event in driven.b.journal if event.kind == "greeted"]
    assert [event.detail["number"] for event in hellos] == [1, 2, 3]
    assert hellos[0].time - start >= 1.0 - 1e-6
    assert [event.time - hellos[0].time for event in hellos] == pytest.approx([0.0, 1.0, 2.0], abs=0.01)
    await driven.close()
    assert driven.a.links.connected() == []


async def test_an_error_in_a_handler_is_journaled_and_the_peer_goes_on() -> None:
    driven = Driven()
    driven.b.links.send(A, driven.b.codec.encode(Fail()))
    error = await event(driven.a, "handler_failed")
    assert (error.subject, error.detail) == ("Fail", {"error": "RuntimeError: this handler fails"})
    driven.b.request(Greet(A, 1))
    await event(driven.b, "echoed")
    driven.a.on_down.append(lambda *_: (_ for _ in ()).throw(RuntimeError("listener fails")))
    driven.a.links.drop(B)
    assert (await event(driven.a, "frame_unhandled")).detail == {"error": "RuntimeError: listener fails"}
    with pytest.raises(RuntimeError, match="this handler fails"):  # an error of a request is the caller's
        driven.a.request(Break())
    driven.a.report(Break())
    assert "this handler fails" in (await event(driven.a, "handler_failed", 2)).detail["error"]
    await driven.close()


async def test_attempts_to_reach_a_peer_whose_process_has_ended_are_journaled_once() -> None:
    driven = Driven()
    broken = driven.a._on_link_down
    for _ in range(3):
        broken(B, REFUSED)
    assert [event.reason for event in driven.a.journal if isinstance(event, LinkBroken)] == [REFUSED]
    driven.b.request(Greet(A, 1))
    await event(driven.a, "greeted")
    broken(B, REFUSED)
    assert len([event for event in driven.a.journal if isinstance(event, LinkBroken)]) == 2
    await driven.close()


async def test_unknown_and_malformed_messages_are_refused_by_name() -> None:
    driven = Driven()
    sends = [
        (Codec([Stranger]).encode(Stranger()), "unknown message", "message 'Stranger'; known: Echo, Fail, Hello"),
        (msgspec.msgpack.encode(["Hello", "seven"]), "malformed message", "message 'Hello': Expected `int`"),
        (b"\xc1", "malformed message", "not MessagePack"),
    ]
    for number, (data, reason, text) in enumerate(sends, start=1):
        driven.a.links.send(B, data)
        refused = await event(driven.b, "message_refused", number)
        assert refused.subject == A
        assert refused.detail["reason"] == reason
        assert text in refused.detail["message"]
    driven.a.request(Greet(B, 1))
    await event(driven.a, "echoed")
    await driven.close()


async def test_data_frames_reach_the_host_of_the_other_peer() -> None:
    driven = Driven()
    driven.a.links.send_data(B, "echo", b"batch")
    assert (await event(driven.b, "data_arrived")).detail == {"channel": "echo", "size": 5}
    assert (await event(driven.a, "data_arrived")).detail == {"channel": "echoed", "size": 5}
    await driven.close()


async def test_a_wide_area_is_laid_over_running_links() -> None:
    loop = asyncio.get_running_loop()
    driven = Driven()
    area = WideArea([[0, 100], [100, 0]])
    area.set_sites([A, B])
    for own in (driven.a, driven.b):
        assert await own.links.request(own.address, "area", area.to_bytes()) == b""
    assert await driven.a.links.request(B, "ping", b"x") == b"x"
    assert loop.time() == pytest.approx(0.1, abs=0.001)
    for own in (driven.a, driven.b):
        await own.links.request(own.address, "area")
    assert await driven.a.links.request(B, "ping", b"x") == b"x"
    assert loop.time() == pytest.approx(0.1, abs=0.001)
    await driven.close()


async def test_messages_of_drivers_are_refused_from_other_peers() -> None:
    driven = Driven()
    driven.a.links.send(B, Codec([Order]).encode(Order("sort")))
    refused = await event(driven.b, "message_refused")
    assert (refused.subject, refused.detail["reason"]) == (A, "unknown message")
    effects = driven.b.peer.receive(A, Order("sort"), driven.b.now)  # whatever a codec lets through
    (record,) = effects
    assert isinstance(record, Record)
    assert record.event.detail == {"message": "Order", "reason": "only its driver may send it"}
    await driven.close()


async def test_a_user_who_floods_a_peer_with_submissions_is_shed_by_name_and_others_are_served() -> None:
    driven = Driven()

    async def submit(payload: bytes) -> bytes:
        return payload

    driven.b.operations["submit"] = submit
    links = [driven.net.join(f"user/eve#{number}")[0] for number in range(4)]
    other = driven.net.join("user/bob#1")[0]

    async def submitted(many: int) -> int:
        """Submit from all processes of a user; return how many were taken."""
        asked = (links[each % len(links)].request(B, "submit", b"x") for each in range(many))
        answers = await asyncio.gather(*asked, return_exceptions=True)
        assert all("submissions: more than b takes of user/eve" in str(each) for each in answers if each != b"x")
        return answers.count(b"x")

    burst, rate = int(SUBMISSIONS.burst), int(SUBMISSIONS.rate)
    assert sum([await submitted(250) for _ in range(burst // 250 + 1)]) == burst
    assert await other.request(B, "submit", b"x") == b"x"
    (shed,) = (each for each in driven.b.journal if isinstance(each, FloodShed))
    assert (shed.subject, shed.what) == ("user/eve", "submissions")
    assert driven.b.peer.sheds.counts == {"submissions": 250}
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(2.0):  # virtual
            await asyncio.Event().wait()
    assert await submitted(250) == 2 * rate, "it gets what its rate is"
    await driven.close()


async def test_who_is_told_of_errors_has_a_link_and_is_told_no_more_without_it() -> None:
    driven = Driven()
    sent: list[str] = []

    def send(client: str, channel: str, payload: bytes) -> None:
        sent.append(client)
        driven.b.send_data(client, channel, payload)

    publisher = ErrorPublisher(send)

    async def subscribe(client: str, _payload: bytes) -> bytes:
        publisher.add(client)
        return b""

    driven.b.personal["errors"] = subscribe
    driven.b.on_down.append(lambda client, _reason: publisher.lost(client))
    most = LinkLimits().clients
    refused = 0
    for number in range(most):
        try:
            await driven.net.join(f"owner/eve#{number}")[0].request(B, "errors", b"owner/ada#1")
        except LinkDown:
            refused += 1
    assert refused == most // 2
    other, told = driven.net.join("owner/ada#1")[0], Log()
    other.on_channel(NEWCOMERS, told)
    await other.request(B, "errors", b"")
    publisher.introduce(b"news")
    assert len(sent) == most // 2 + 1, "the name is that of the link, whatever is stated"
    assert await told.reaches(1) == [(B, b"news")]
    for number in range(most):
        await driven.net.links[f"owner/eve#{number}"].close()
    await until(lambda: driven.b.links.connected() == ["owner/ada#1"])
    sent.clear()
    publisher.introduce(b"more")
    assert sent == ["owner/ada#1"]
    await driven.close()


async def test_time_is_the_wall_clock_and_monotone() -> None:
    driven = Driven()
    now = dt.datetime.now(dt.UTC).timestamp()
    assert driven.a.now == pytest.approx(now, abs=5.0)
    assert driven.a.now <= driven.a.now
    await driven.close()


# -- the plugin, on Dask -----------------------------------------------------------------------------------------------


@asynccontextmanager
async def cluster(workers: int = 2, protocol: str = "inproc://", security: Any = None) -> AsyncIterator[Any]:
    """Workers of this process, a client, and after it no task that was not there before."""
    before = asyncio.all_tasks()
    async with (
        LocalCluster(
            n_workers=workers,
            processes=False,
            asynchronous=True,
            dashboard_address="127.0.0.1:0",
            protocol=protocol,
            security=security,
            threads_per_worker=1,
        ) as made,
        Client(made, asynchronous=True) as client,
    ):
        yield made, client
    left = [task for task in asyncio.all_tasks() - before if "link" in task.get_name() or "request" in task.get_name()]
    assert not left


def workers_of(made: Any) -> list[Worker]:
    return list(made.workers.values())


async def converse(made: Any, client: Any, connection_args: Any) -> None:
    """All that a link carries, between two workers and a client."""
    a, b = (runtime_of(worker) for worker in workers_of(made))
    links = client_links(connection_args)
    try:
        number = await links.request(a.address, "greet", msgspec.msgpack.encode((b.address, 3)))
        assert msgspec.msgpack.decode(number) == 3
        assert (await event(a, "echoed")).subject == b.address
        assert (await event(b, "greeted")).subject == a.address
        a.links.send_data(b.address, "echo", b"x" * 3_000_000)
        assert (await event(a, "data_arrived")).detail == {"channel": "echoed", "size": 3_000_000}
        assert await b.links.request(a.address, "ping", b"back") == b"back"
        assert a.links.connected().count(b.address) == 1
        events = decode_events(await links.request(a.address, "journal"))
        assert [event.kind for event in events] == ["peer_started", "echoed", "data_arrived"]
        with pytest.raises(RemoteError, match=r"operation: 'pnig' is unknown to .*; expected 'ping'"):
            await links.request(a.address, "pnig")
    finally:
        await links.close()


@pytest.mark.parametrize("protocol", ["inproc://", "tcp://"])
def test_workers_of_an_existing_cluster_become_peers(protocol: str) -> None:
    async def main() -> None:
        async with cluster(protocol=protocol) as (made, client):
            peers = await install(client, FACTORY)
            assert set(peers.values()) == {worker.address for worker in workers_of(made)}
            await converse(made, client, client.connection_args)

    asyncio.run(main())


def test_the_plugin_adds_exactly_one_handler_and_takes_it_away() -> None:
    async def main() -> None:
        async with cluster(workers=1) as (made, client):
            (worker,) = workers_of(made)
            handlers, streams = set(worker.handlers), set(worker.stream_handlers)
            extensions, callbacks = set(worker.extensions), set(worker.periodic_callbacks)
            await install(client, FACTORY)
            assert set(worker.handlers) - handlers == {HANDLER} == {"synergy_link"}
            assert set(worker.stream_handlers) == streams
            assert set(worker.extensions) == extensions
            assert set(worker.periodic_callbacks) == callbacks
            runtime = runtime_of(worker)
            await client.unregister_worker_plugin(PLUGIN)
            assert set(worker.handlers) == handlers
            assert runtime.host.closed  # type: ignore[attr-defined]
            with pytest.raises(LookupError, match="worker: no peer runs on"):
                runtime_of(worker)

    asyncio.run(main())


def test_peers_that_run_are_left_as_they_are() -> None:
    async def main() -> None:
        async with cluster(protocol="tcp://") as (made, client):
            peers = await install(client, FACTORY)
            first = [runtime_of(worker) for worker in workers_of(made)]
            assert await install(client, FACTORY) == peers
            assert [runtime_of(worker) for worker in workers_of(made)] == first
            (bare, *others) = workers_of(made)
            await bare.plugin_remove(PLUGIN)
            assert await install(client, FACTORY) == peers
            assert runtime_of(bare) is not first[0]
            assert [runtime_of(worker) for worker in others] == first[1:]

    asyncio.run(main())


def test_a_peer_whose_worker_ends_is_reported() -> None:
    async def main() -> None:
        async with cluster(protocol="tcp://") as (made, client):
            await install(client, FACTORY)
            a, b = (runtime_of(worker) for worker in workers_of(made))
            assert await a.links.request(b.address, "ping", b"x") == b"x"
            links = client_links(client.connection_args)
            hanging = asyncio.create_task(links.request(b.address, "hang", timeout=20.0))
            await links.request(b.address, "ping")
            await workers_of(made)[1].close()
            assert (await event(a, "link_broken")).subject == b.address
            with pytest.raises(LinkDown):
                await hanging
            await links.close()

    asyncio.run(main())


def test_a_worker_without_peer_is_refused_by_name(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with cluster(workers=1, protocol="tcp://") as (made, client):
            links = client_links(client.connection_args)
            with pytest.raises(LinkDown, match="not a Synergy peer: no handler 'synergy_link'"):
                await links.request(workers_of(made)[0].address, "ping")
            await links.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("factory", "config", "error", "message"),
    [
        ("echo_peer", {}, ValueError, "factory: 'echo_peer'; expected 'package.module:function'"),
        (
            "tests.runtime.echo_peer:mkae",
            {},
            ValueError,
            "factory: 'tests.runtime.echo_peer:mkae'; expected a function",
        ),
        ("tests.no_such:make", {}, ValueError, "No module named 'tests.no_such'"),
        (FACTORY, {"peer": object()}, TypeError, "Encoding objects of type object is unsupported"),
    ],
)
def test_bad_arguments_are_refused_before_anything_starts(
    factory: str, config: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        SynergyPlugin(factory, config)


def broken(runtime: PeerRuntime, config: Any) -> tuple[Peer, Any]:
    raise RuntimeError("this factory fails")


@pytest.mark.slow
def test_a_failing_factory_is_reported_to_whoever_installs() -> None:
    async def main() -> None:
        async with cluster(workers=1) as (_made, client):
            with pytest.raises(RuntimeError, match="this factory fails"):
                await install(client, "tests.runtime.test_plugin:broken")

    asyncio.run(main())


# -- TLS ---------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_peers_and_clients_talk_over_tls_and_refuse_strangers() -> None:
    async def main() -> None:
        security = Security.temporary()
        async with cluster(protocol="tls://", security=security) as (made, client):
            await install(client, FACTORY)
            await converse(made, client, security.get_connection_args("client"))
            stranger = client_links(Security.temporary().get_connection_args("client"))
            with pytest.raises((LinkDown, CommClosedError, TimeoutError)):
                await stranger.request(workers_of(made)[0].address, "ping", timeout=5.0)
            await stranger.close()

    asyncio.run(main())


def free_address() -> str:
    """An address at which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return f"tcp://127.0.0.1:{free.getsockname()[1]}"


async def connect_as_client(address: str) -> Any:
    """A comm as a client opens it that would try again for an hour."""
    return await connector({}, LinkLimits(connect=3600.0))(address)


def test_a_client_takes_an_address_at_which_nobody_listens_for_dead() -> None:
    async def scenario() -> None:
        with pytest.raises(ConnectionRefusedError, match=REFUSED):
            await connect_as_client(free_address())

    asyncio.run(asyncio.wait_for(scenario(), DEADLINE))


def test_who_listens_in_this_process_is_not_dead_because_a_comm_is_not_open_in_time() -> None:
    """A busy machine opens none within the quarter of a second after which it is asked whether anybody listens."""

    async def scenario() -> None:
        async with listen("inproc://", lambda comm: None) as listener:
            assert not await plugin.refuses(listener.contact_address, DEADLINE)
        assert await plugin.refuses(listener.contact_address, DEADLINE)
        assert await plugin.refuses("inproc://192.0.2.1/1/1", DEADLINE)  # of another process

    run_loop(scenario())


@pytest.mark.slow
def test_a_busy_client_leaves_no_connection_that_carries_nothing() -> None:
    """Its loop finds that a connection is open, and that the time of an attempt is over, both at once."""
    begun: list[asyncio.StreamWriter] = []
    carried: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        begun.append(writer)
        carried.append(await reader.read(1))

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()

        def more_than(found: int) -> bool:
            return sum(map(len, carried)) > found

        def be_busy() -> None:
            until_then = loop.time() + 0.06
            while loop.time() < until_then:
                pass
            if not opening.done():
                loop.call_later(0.002, be_busy)

        for _ in range(8):
            found = sum(map(len, carried))
            opening = asyncio.create_task(connect_as_client(f"tcp://{host}:{port}"))
            loop.call_later(0.002, be_busy)
            await until(partial(more_than, found))
            opening.cancel()
            await asyncio.gather(opening, return_exceptions=True)
        await until(lambda: len(carried) == len(begun))
        for writer in begun:
            writer.close()
            await writer.wait_closed()
        server.close()
        await server.wait_closed()

    run_loop(scenario())


def test_an_address_that_refused_is_tried_once_until_somebody_listens_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dask tries about nine times in a quarter of a second, and peers look again at the dead for half an hour."""
    asked: list[str] = []

    async def refused(address: str, timeout: float) -> Any:
        asked.append(address)
        raise OSError(f"Timed out trying to connect to {address} after {timeout} s")

    monkeypatch.setattr(plugin, "dask_connect", refused)

    async def scenario() -> None:
        connect, address = connector({}, LinkLimits(connect=3600.0)), free_address()
        for _ in range(3):
            with pytest.raises(ConnectionRefusedError, match=REFUSED):
                await connect(address)
        assert asked == [address]
        port = int(address.rpartition(":")[2])
        async with await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", port):
            with pytest.raises(OSError, match="Timed out"):
                await connect(address)
        assert len(asked) == 3  # soon, and then patiently

    asyncio.run(asyncio.wait_for(scenario(), DEADLINE))


def test_an_address_at_which_nobody_listens_is_dead_though_dasks_last_attempt_was_cut_short(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Dask reports what became of its last attempt, which has what little the attempts before it left of its time."""
    asked: list[float] = []

    async def cut_short(address: str, timeout: float) -> Any:
        asked.append(timeout)
        raise OSError(f"Timed out trying to connect to {address}") from TimeoutError()

    monkeypatch.setattr(plugin, "dask_connect", cut_short)

    async def scenario() -> None:
        with pytest.raises(ConnectionRefusedError, match=REFUSED):
            await connect_as_client(free_address())
        assert asked == [3600.0]
        asked.clear()
        async with await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0) as slow:
            with pytest.raises(OSError, match="Timed out"):
                await connect_as_client(f"tcp://127.0.0.1:{slow.sockets[0].getsockname()[1]}")
        assert len(asked) == 2  # somebody listens there, so the client is patient
        assert asked[1] > plugin.REFUSED_WITHIN

    asyncio.run(asyncio.wait_for(scenario(), DEADLINE))
