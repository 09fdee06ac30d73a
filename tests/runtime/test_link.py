"""Links between peers, over comms in memory and in virtual time."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest

from synergy_nb.control.cuts import Cut
from synergy_nb.control.identity import Identity, WrongIdentity
from synergy_nb.runtime.transport.cut_links import CuttableLinks
from synergy_nb.runtime.transport.link import (
    DISMISSED,
    HANDLER,
    PROTOCOL_VERSION,
    REVOCATIONS,
    REVOKED,
    LinkDown,
    LinkFull,
    LinkLimits,
    Links,
    RemoteError,
)
from synergy_nb.runtime.transport.wide_area import WideArea
from tests.memory_comm import Log, MemoryComm, Net, pair, run
from tests.waiting import turns, until

on_loop = run  # how the tests that are coroutines run

A, B, C = "mem://a", "mem://b", "mem://c"
CLIENT = "client-1"


def numbers(log: Any) -> list[int]:
    return [int(entry[-1]) for entry in log.entries]


# -- messages and data -------------------------------------------------------------------------------------------------


async def linked() -> tuple[Net, CuttableLinks, Mapping[str, Log], CuttableLinks, Mapping[str, Log]]:
    """A network with two peers of which the first has sent the other a message: the links and logs of both."""
    net = Net()
    a, at_a = net.join(A)
    b, at_b = net.join(B)
    a.send(B, b"1")
    await at_b["message"].reaches(1)
    return net, a, at_a, b, at_b


async def test_messages_arrive_in_order_and_share_one_write() -> None:
    net = Net()
    a, _ = net.join(A)
    _, at_b = net.join(B)
    for number in range(100):
        a.send(B, b"%d" % number)
    await at_b["message"].reaches(100)
    assert at_b["message"].entries == [(A, b"%d" % number) for number in range(100)]
    (comm,) = net.opened
    assert [type(message) for message in comm.written] == [dict, tuple]  # hello, and everything else
    assert a.pending(B) == 0


async def test_control_data_and_requests_keep_one_order() -> None:
    seen: list[str] = []
    net = Net()
    a, _ = net.join(A)

    async def answer(sender: str, operation: str, payload: bytes) -> bytes:
        return b""

    b, _ = net.join(B, answer=answer)
    b._on_message = lambda sender, message: seen.append(message.decode())
    b.on_channel("s", lambda sender, payload: seen.append(f"s:{payload.decode()}"))
    for number in range(5):
        a.send_data(B, "s", b"%d" % number)
        a.send(B, b"%d" % number)
    await a.request(B, "x")
    assert seen == list(itertools.chain(*((f"s:{n}", f"{n}") for n in range(5))))


async def test_the_other_side_uses_the_comm_that_is_open() -> None:
    net, a, at_a, b, _ = await linked()
    b.send(A, b"2")
    await at_a["message"].reaches(1)
    assert len(net.opened) == 1
    assert a.connected() == [B]
    assert b.connected() == [A]


@pytest.mark.parametrize("first", [A, B])
@pytest.mark.parametrize("held", [(), (A,), (B,), (A, B)])
async def test_simultaneous_opening_settles_on_one_comm(first: str, held: tuple[str, ...]) -> None:
    """Whoever begins, and whosever connection takes long: one comm, and nothing lost or out of order."""

    net = Net()
    a, at_a = net.join(A)
    b, at_b = net.join(B)
    for own in held:
        net.gates[own, B if own == A else A] = asyncio.Event()
    for own in (first, B if first == A else A):
        for number in range(50):
            net.links[own].send(B if own == A else A, b"%d" % number)
    for own in held:
        await turns(5)
        net.gates[own, B if own == A else A].set()
    await at_a["message"].reaches(50)
    await at_b["message"].reaches(50)
    for number in range(50, 60):
        a.send(B, b"%d" % number)
        b.send(A, b"%d" % number)
    await at_a["message"].reaches(60)
    await at_b["message"].reaches(60)
    assert numbers(at_a["message"]) == numbers(at_b["message"]) == list(range(60))
    assert sum(not comm.closed() for comm in net.opened) == 1
    assert not at_a["down"].entries
    assert not at_b["down"].entries


async def test_an_attempt_older_than_the_comm_in_use_is_refused_and_a_newer_one_replaces_it() -> None:
    _, a, at_a, _, _ = await linked()

    async def hello(ordinal: int) -> Any:
        here, there = pair()
        task = asyncio.create_task(
            a.accept(there, {"version": PROTOCOL_VERSION, "sender": B, "ordinal": ordinal}), name="accept"
        )
        answer = await here.read()
        here.abort()
        await task
        return answer

    assert await hello(1) == {"crossed": True}
    assert a.connected() == [B]
    assert (await hello(2**62))["welcome"] == PROTOCOL_VERSION
    assert [entry[0] for entry in at_a["down"].entries] == [B, B]  # the replaced one, and the new one as it closed


# -- failures ----------------------------------------------------------------------------------------------------------


async def test_a_closed_comm_is_reported_at_both_ends_and_the_next_message_opens_another() -> None:
    net, a, at_a, _, at_b = await linked()
    net.opened[0].abort()
    assert (await at_a["down"].reaches(1))[0][0] == B
    assert (await at_b["down"].reaches(1))[0][0] == A
    a.send(B, b"2")
    await at_b["message"].reaches(2)
    assert len(net.opened) == 2


@pytest.mark.parametrize(("kind", "reason"), [("dead", "refused"), ("silent", "no link within 2.5 s")])
async def test_a_peer_that_cannot_be_reached_is_reported_and_its_queue_dropped(kind: str, reason: str) -> None:
    net = Net()
    a, at_a = net.join(A)
    getattr(net, kind).add(B)
    a.send(B, b"lost")
    assert a.pending(B) > 0
    ((address, why),) = await at_a["down"].reaches(1)
    assert address == B
    assert reason in why
    assert a.pending(B) == 0
    assert asyncio.get_running_loop().time() <= 2.6
    with pytest.raises(LinkDown, match=B):
        await a.request(B, "ping", timeout=10.0)


async def test_the_bound_on_control_bytes_is_reported_once_an_episode() -> None:
    net = Net()
    a, at_a = net.join(A, limits=LinkLimits(control=1000))
    _, at_b = net.join(B)
    for _ in range(50):
        a.send(B, b"x" * 84)  # 100 bytes with the frame's overhead
    assert a.pending(B) == 1000
    assert at_a["record"].entries == [("link_overflowed", B, {"queued": 1000, "limit": 1000})]
    await at_b["message"].reaches(10)
    await at_a["record"].reaches(2)
    assert at_a["record"].entries[1] == ("link_resumed", B, {"dropped": 40})
    assert len(at_b["message"].entries) == 10
    a.send(B, b"again")
    await at_b["message"].reaches(11)


async def test_a_slow_socket_holds_two_chunks_and_the_rest_waits_in_the_queue() -> None:
    net = Net()
    a, _ = net.join(A, limits=LinkLimits(chunk=1000, data=20_000))
    _, at_b = net.join(B)
    a.send_data(B, "s", b"first")
    await at_b["data"].reaches(1)
    (comm,) = net.opened
    stalled = comm.stream.stalled = asyncio.get_running_loop().create_future()
    for _ in range(10):
        a.send_data(B, "s", b"x" * 984)
    await until(lambda: len(comm.written) >= 2 + 2)
    await turns(20)
    assert len(comm.written) == 2 + 2  # hello, the first, and two chunks
    assert a.pending(B) == 9000  # the second of these counts until the first has left
    with pytest.raises(LinkFull, match="9000 bytes"):
        a.send_data(B, "s", b"x" * 20_000)
    comm.stream.stalled = None
    stalled.set_result(None)
    await at_b["data"].reaches(11)
    assert a.pending(B) == 0


async def test_one_frame_larger_than_the_bound_goes_alone() -> None:
    net = Net()
    a, _ = net.join(A, limits=LinkLimits(chunk=100, data=100))
    _, at_b = net.join(B)
    a.send_data(B, "s", b"x" * 5000)
    await at_b["data"].reaches(1)


async def test_dropping_a_link_ends_its_requests_and_forgets_its_queue() -> None:
    net = Net()

    async def never(sender: str, operation: str, payload: bytes) -> bytes:
        await asyncio.get_running_loop().create_future()
        return b""

    a, at_a = net.join(A)
    net.join(B, answer=never)
    asking = asyncio.create_task(a.request(B, "x", timeout=100.0))
    await until(lambda: a.pending(B))
    a.drop(B, "declared dead")
    with pytest.raises(LinkDown, match="declared dead"):
        await asking
    assert at_a["down"].entries == [(B, "declared dead")]
    a.drop(B)  # nothing to drop: nothing happens


# -- requests ----------------------------------------------------------------------------------------------------------


async def shout(sender: str, operation: str, payload: bytes) -> bytes:
    if operation == "fail":
        raise KeyError("no such plan")
    if operation == "hang":
        await asyncio.get_running_loop().create_future()
    return b"%s %s %s" % (sender.encode(), operation.encode(), payload.upper())


async def test_requests_are_answered_and_errors_come_back_as_text() -> None:
    net = Net()
    a, _ = net.join(A, answer=shout)
    net.join(B, answer=shout)
    client, _ = net.join(CLIENT)
    assert await client.request(B, "say", b"hello") == b"client-1 say HELLO"
    assert await a.request(B, "say", b"hello") == b"mem://a say HELLO"
    assert await a.request(A, "say", b"me") == b"mem://a say ME"
    for to in (A, B):
        with pytest.raises(RemoteError, match="KeyError: 'no such plan'"):
            await a.request(to, "fail")
    answers = await asyncio.gather(*(client.request(B, "say", b"%d" % n) for n in range(100)))
    assert answers == [b"client-1 say %d" % n for n in range(100)]


@pytest.mark.parametrize("to", [A, B])
async def test_a_request_ends_by_its_deadline(to: str) -> None:
    net = Net()
    a, _ = net.join(A, answer=shout)
    net.join(B, answer=shout)
    with pytest.raises(TimeoutError, match=f"request 'hang' to {to}: no answer within 3 s"):
        await a.request(to, "hang", timeout=3.0)
    assert asyncio.get_running_loop().time() == pytest.approx(3.0)
    assert await a.request(to, "say", b"still there")


async def test_no_more_requests_are_served_at_once_than_the_bound() -> None:
    """A client that has taken its share is refused by name, and another one is served meanwhile."""
    net, shed = Net(), list[tuple[str, str]]()
    net.join(B, answer=shout, limits=LinkLimits(serving=4), on_shed=lambda *told: shed.append(told[:2]))
    client, _ = net.join(CLIENT)
    other, _ = net.join(A)
    hanging = [asyncio.create_task(client.request(B, "hang", timeout=5.0)) for _ in range(2)]
    await until(lambda: client.pending(B))
    with pytest.raises(RemoteError, match="busy: 2 requests"):
        await client.request(B, "say")
    assert shed == [(CLIENT, "requests")]
    assert await other.request(B, "say", b"a") == b"mem://a say A"
    for task in hanging:
        with pytest.raises(TimeoutError):
            await task


async def test_a_request_waits_until_the_queue_has_room_for_it() -> None:
    """A push of a long row ended its application if anything else waited on the link."""
    net = Net()
    a, at_a = net.join(A, limits=LinkLimits(control=1000, data=5000))
    _, at_b = net.join(B, answer=shout)
    net.gates[A, B] = asyncio.Event()
    sizes = (800, 800, 4000, 4000, 10)
    requests = [asyncio.create_task(a.request(B, "say", b"x" * size)) for size in sizes]
    await until(lambda: a.pending(B))
    await turns(5)
    assert 4810 < a.pending(B) < 5000, "of each two of a kind one waits"
    a.send(B, b"not dropped")
    net.gates[A, B].set()
    await at_b["message"].reaches(1)
    assert [answer.count(b"X") for answer in await asyncio.gather(*requests)] == list(sizes)
    assert not at_a["record"].entries


async def test_a_request_that_finds_no_room_in_time_says_so_and_closing_ends_it() -> None:
    net = Net()
    net.gates[CLIENT, B] = asyncio.Event()
    net.join(B, answer=shout)
    client, _ = net.join(CLIENT, limits=LinkLimits(control=1000))
    first, second, third = (
        asyncio.create_task(client.request(B, "say", b"x" * 900, timeout)) for timeout in (90.0, 0.5, 90.0)
    )
    with pytest.raises(TimeoutError, match="no answer within"):
        await second
    await client.close()
    for waiting in (first, third):
        with pytest.raises(LinkDown):
            await waiting


# -- clients -----------------------------------------------------------------------------------------------------------


async def test_a_client_gets_data_but_sends_none_and_is_lost_when_it_goes() -> None:
    net = Net()
    b, at_b = net.join(B, answer=shout)
    client, at_client = net.join(CLIENT)
    await client.request(B, "say")
    b.send_data(CLIENT, "results", b"row")
    assert await at_client["data"].reaches(1) == [(B, "results", b"row")]
    for _ in range(5):
        client.send_data(B, "s", b"data")
    await client.request(B, "say")
    refused = {"what": "data on the channel 's'", "expected": "peer"}
    assert at_b["record"].entries == [("sender_refused", CLIENT, {**refused, "times": n}) for n in (1, 2, 4)]
    assert b.refused == {(CLIENT, "data on the channel 's'"): 5}
    assert not at_b["data"].entries
    await client.close()
    await at_b["down"].reaches(1)
    b.send_data(CLIENT, "results", b"row")
    assert (await at_b["down"].reaches(2))[1] == (CLIENT, "not connected, and no address to connect to")


async def test_a_user_who_connects_from_many_processes_leaves_links_to_others() -> None:
    net, shed = Net(), list[tuple[str, ...]]()
    net.join(B, answer=shout, limits=LinkLimits(clients=8), on_shed=lambda *told: shed.append(told))

    async def asks(name: str) -> bytes:
        return await net.join(name)[0].request(B, "say", b"x")

    for number in range(4):
        await asks(f"user/eve#{number}")
    for number in range(4, 7):
        with pytest.raises(LinkDown, match="too many links: this peer has at most 8 of clients, and 4 of user/eve"):
            await asks(f"user/eve#{number}")
    assert shed == [("user/eve", "links", "at most 8 of clients, and 4 of user/eve")] * 3
    for name in ("owner/ada#1", "user/bob#1"):
        await asks(name)
    with pytest.raises(LinkDown):
        await asks("user/eve#8")
    for number in range(3):
        await net.links[f"user/eve#{number}"].close()
    await asks("user/eve#9")


async def test_a_user_who_asks_from_many_processes_leaves_requests_to_others() -> None:
    net, shed, hold = Net(), list[tuple[str, ...]](), asyncio.Event()

    async def slow(_sender: str, operation: str, payload: bytes) -> bytes:
        if operation == "wait":
            await hold.wait()
        return payload

    net.join(B, answer=slow, limits=LinkLimits(serving=8), on_shed=lambda *told: shed.append(told[:2]))
    flood = [asyncio.create_task(net.join(f"user/eve#{each}")[0].request(B, "wait", b"x", 90.0)) for each in range(8)]
    other = net.join("user/bob#1")[0]
    await until(lambda: len(shed) == 4)
    assert await other.request(B, "say", b"x") == b"x"
    assert shed == [("user/eve", "requests")] * 4
    hold.set()
    answers = await asyncio.gather(*flood, return_exceptions=True)
    assert sorted(map(type, answers), key=str) == [bytes] * 4 + [RemoteError] * 4
    assert await net.links["user/eve#0"].request(B, "say", b"y") == b"y"


class Certificates:
    """Who is who by the name that it states, and whose certificates were revoked."""

    def __init__(self) -> None:
        self.revoked: set[str] = set()

        self.revocations = b""

    def identify(self, _comm: Any) -> Identity | None:
        return Identity("green", "user", "eve")

    def take_revocations(self, _told: bytes) -> None:
        raise AssertionError


async def test_who_was_revoked_is_told_so_and_gets_nothing_else() -> None:
    net, certificates, hold = Net(), Certificates(), asyncio.Event()

    async def slow(_sender: str, operation: str, payload: bytes) -> bytes:
        if operation == "wait":
            await hold.wait()
        return payload

    b, at_b = net.join(B, answer=slow, identities=certificates)
    client, at_client = net.join("user/eve#1")
    asked = asyncio.create_task(client.request(B, "wait", b"x", 90.0))
    await until(lambda: b.connected() and not client.pending(B))
    assert await client.request(B, "say", b"x") == b"x"
    b.send_data("user/eve#1", "results", b"sent before")
    certificates.revoked.add("spiffe://green/user/eve")
    b.revocations_grew()
    hold.set()
    with pytest.raises(LinkDown, match=f"{B}: {DISMISSED}"):
        await asked
    assert at_client["down"].entries == [(B, DISMISSED)]
    assert at_b["down"].entries == [("user/eve#1", REVOKED)]
    assert not at_client["data"].entries, "what had waited is not sent any more"
    assert not b.connected()
    with pytest.raises(LinkDown, match=DISMISSED):
        await client.request(B, "say", b"x")
    opened = len(net.opened)
    with pytest.raises(LinkDown, match=DISMISSED):
        await client.request(B, "say", b"x")
    assert len(net.opened) == opened, "a name that was revoked never counts again"


class Told(Certificates):
    """Who is who by the name of the other end; a list of the authority begins so."""

    SIGNED = b"signed: "
    links: Links

    def identify(self, comm: Any) -> Identity | None:
        role, name = ("peer", comm.to[-1]) if "://" in comm.to else comm.to.partition("#")[0].split("/")
        return Identity("green", role, name, comm.to if role == "peer" else "")

    def take_revocations(self, told: bytes) -> None:
        if not told.startswith(self.SIGNED):
            raise WrongIdentity("revoked: a list that nobody has signed")
        if told != self.revocations:
            self.revocations, ids = told, told.removeprefix(self.SIGNED).decode().split()
            self.revoked.update(ids)
            self.links.revocations_grew()


async def told_of_revocations(*names: str) -> tuple[Net, dict[str, Told], dict[str, Mapping[str, Log]]]:
    """A network whose peers and clients pass on what was revoked."""
    net, held, logs = Net(), {}, {}

    async def same(_sender: str, _operation: str, payload: bytes) -> bytes:
        return payload

    for name in names:
        held[name] = Told()
        held[name].links, logs[name] = net.join(name, answer=same, identities=held[name])
    return net, held, logs


async def test_clients_learn_from_peers_what_was_revoked() -> None:
    """One that is connected spoke on to a revoked peer, one that came later did so, too."""
    ada, bob, signed = "user/ada#1", "owner/bob#1", Told.SIGNED + b"spiffe://green/peer/b"
    net, held, logs = await told_of_revocations(A, B, ada, bob)
    for at in (A, B):
        assert await net.links[ada].request(at, "say", b"x") == b"x"
    held[A].take_revocations(signed)
    assert (await logs[ada]["down"].reaches(1)) == [(B, REVOKED)]
    with pytest.raises(LinkDown, match=f"refused: {REVOKED}"):
        await net.links[ada].request(B, "say", b"x")
    assert await net.links[bob].request(B, "say", b"x") == b"x", "nobody has told him"
    assert await net.links[bob].request(A, "say", b"x") == b"x"
    assert (await logs[bob]["down"].reaches(1)) == [(B, REVOKED)]
    assert held[bob].revocations == signed


async def test_nobody_adds_to_what_the_authority_has_revoked() -> None:
    ada, bob = "user/ada#1", "owner/bob#1"
    net, held, logs = await told_of_revocations(A, B, ada, bob)
    held[B].revocations = b"spiffe://green/peer/a"
    held[ada].revocations = Told.SIGNED + b"spiffe://green/owner/bob"
    for name in (ada, bob):
        assert await net.links[name].request(B, "say", b"x") == b"x"
        assert await net.links[name].request(A, "say", b"x") == b"x"
        assert logs[name]["record"].entries == [
            ("frame_refused", B, {"reason": "revoked: a list that nobody has signed"})
        ]
        assert not held[name].revoked
    net.links[ada].by_address[A].put((REVOCATIONS, held[ada].revocations), 100, data=False, shape=None)
    assert await net.links[ada].request(A, "say", b"x") == b"x"
    (refused,) = logs[A]["record"].entries
    assert refused[0] == "sender_refused"
    assert refused[2] == {"what": "a list of what was revoked", "expected": "owner or peer", "times": 1}
    assert not held[A].revoked


# -- refusals ----------------------------------------------------------------------------------------------------------

HELLO = {"version": PROTOCOL_VERSION, "sender": B, "ordinal": 5}


@pytest.mark.parametrize(
    ("hello", "reason"),
    [
        ({**HELLO, "version": 99}, "link protocol version 99; this peer speaks 3"),
        ({**HELLO, "sender": 3}, "hello: sender is 3; expected str"),
        ({**HELLO, "sender": ""}, "hello: sender is empty"),
        ({**HELLO, "ordinal": "x"}, "hello: ordinal is 'x'; expected int"),
        ({}, "hello: version is None; expected int"),
    ],
)
async def test_a_wrong_hello_is_refused_by_name(hello: dict[str, Any], reason: str) -> None:
    a, logs = Net().join(A)
    here, there = pair()
    accepting = asyncio.create_task(a.accept(there, hello))
    answer = await here.read()
    assert reason in answer["refused"]
    here.abort()
    await accepting
    assert logs["record"].entries[0][0] == "link_refused"
    assert reason in logs["record"].entries[0][-1]["reason"]
    assert a.connected() == []
    await a.close()


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (None, f"not a Synergy peer: no handler {HANDLER!r}"),
        ({"refused": "link protocol version 2; this peer speaks 3"}, "this peer speaks 3"),
        ({"welcome": 99, "ordinal": 1}, "not a Synergy peer"),
    ],
)
async def test_a_link_that_is_not_accepted_fails_with_the_reason(answer: Any, reason: str) -> None:
    here, there = pair()

    async def connect(_address: str) -> MemoryComm:
        return here

    client = Links(CLIENT, connect)
    asking = asyncio.create_task(client.request(B, "ping"))
    message = await there.read()
    assert message == {"op": HANDLER, "reply": True, "hello": message["hello"]}
    assert message["hello"]["version"] == PROTOCOL_VERSION
    await there.write(answer)
    with pytest.raises(LinkDown, match=reason):
        await asking
    await client.close()


async def test_bad_frames_and_failing_callbacks_do_not_end_the_link() -> None:
    net = Net()
    a, _ = net.join(A)
    b, at_b = net.join(B)

    def fail(sender: str, payload: bytes) -> None:
        raise ValueError("no such reader")

    b.on_channel("s", fail)
    a.send(B, b"1")
    await at_b["message"].reaches(1)
    (comm,) = net.opened
    await comm.write("text")
    await comm.write((7, ("x", 3), {"a": 1}))
    a.send_data(B, "s", b"data")
    a.send(B, b"2")
    await at_b["message"].reaches(2)
    kinds = [(kind, *detail.values()) for kind, _, detail in at_b["record"].entries]
    assert kinds == [
        ("frame_refused", "str; expected a tuple of frames"),
        ("frame_refused", "unknown frame 7"),
        ("frame_refused", "unknown frame ('x', 3)"),
        ("frame_refused", "unknown frame {'a': 1}"),
        ("frame_unhandled", "ValueError: no such reader"),
    ]


# -- closing -----------------------------------------------------------------------------------------------------------


async def test_closing_sends_queued_messages_and_ends_all_tasks() -> None:
    net = Net()
    a, at_a = net.join(A)
    _, at_b = net.join(B)
    a.send(B, b"first")
    await at_b["message"].reaches(1)
    for number in range(3000):
        a.send(B, b"%d" % number)
    await a.close()
    await a.close()
    await at_b["message"].reaches(3001)
    assert not at_a["down"].entries  # its own doing
    a.send(B, b"too late")
    a.send_data(B, "s", b"too late")
    with pytest.raises(LinkDown, match="the links of mem://a are closed"):
        await a.request(B, "ping")
    assert a.connected() == []


async def test_closing_does_not_wait_for_a_stopped_peer() -> None:
    net = Net()
    a, _ = net.join(A, limits=LinkLimits(chunk=100))
    _, at_b = net.join(B)
    a.send(B, b"1")
    await at_b["message"].reaches(1)
    net.opened[0].stream.stalled = asyncio.get_running_loop().create_future()
    for _ in range(10):
        a.send(B, b"x" * 100)
    await a.close()
    assert asyncio.get_running_loop().time() == pytest.approx(0.5)


@pytest.mark.parametrize("channel", ["", "data:app/source>filter:0", "streams", "x" * 200])
async def test_data_on_an_unknown_channel_are_refused_and_recorded(channel: str) -> None:
    net = Net()
    a, _ = net.join(A)
    b, at_b = net.join(B)
    b.on_channel("known", lambda _sender, _payload: None)
    a.send_data(B, channel, b"")
    await at_b["record"].reaches(1)
    ((kind, subject, detail),) = at_b["record"].entries
    assert (kind, subject) == ("data_refused", A)
    assert repr(channel)[:50] in detail["reason"]
    assert detail["reason"].endswith(" or 'known'")


# -- wide area ---------------------------------------------------------------------------------------------------------


async def test_a_shaped_link_delays_by_distance_and_size_and_keeps_the_order() -> None:
    loop = asyncio.get_running_loop()
    area = WideArea([[0, 100, 300], [100, 0, 50], [300, 50, 0]], bandwidth=1000.0)
    area.set_sites([A, B, C])
    net = Net()
    a, _ = net.join(A, shape=area.shape(A))
    b, at_b = net.join(B)
    c, _ = net.join(C)
    times: list[tuple[str, float]] = []

    def timed(channel: str, _sender: str, _payload: bytes) -> None:
        times.append((channel, loop.time()))

    for links, channel in ((b, "one"), (b, "two"), (b, "three"), (c, "far")):
        links.on_channel(channel, partial(timed, channel))
    a.send_data(C, "far", b"x" * 84)
    a.send_data(B, "one", b"x" * 84)
    a.send_data(B, "two", b"x" * 184)
    a.send(B, b"after")
    assert a.pending(B) > 300
    await at_b["message"].reaches(1)
    area.set_sites({B: 0})  # a shorter way from here on
    a.send_data(B, "three", b"")
    a.send(B, b"last")
    await at_b["message"].reaches(2)
    assert [channel for channel, _ in times] == ["one", "far", "two", "three"]
    due = [0.05 + 0.1, 0.15 + 0.1, 0.05 + 0.3, 0.05 + 0.3 + 0.021 + 0.016]
    assert [when for _, when in times] == pytest.approx(due, abs=1e-3)


def test_a_wide_area_is_the_same_for_every_peer() -> None:
    area = WideArea.generated(20, seed=3)
    area.set_sites([A, B])
    again = WideArea.from_bytes(area.to_bytes())
    assert len(again) == 20
    for to in (B, C, "mem://never placed"):
        assert again.shape(A)(to) == area.shape(A)(to)
        assert area.shape(A)(to) == area.shape(to)(A)
    assert area.shape(A)(CLIENT) == (0.0, float("inf"))
    assert WideArea.generated(20, seed=3).delay(4, 5) == area.delay(4, 5)
    assert WideArea.generated(20, seed=4).delay(4, 5) != area.delay(4, 5)
    assert 0.0005 <= area.delay(4, 5) <= 0.1
    assert 1.25e6 <= area.bandwidth(4, 5) <= 12.5e6


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: WideArea([[0, 1, 2]]), r"rtt_ms: shape \(1, 3\); expected a square matrix"),
        (lambda: WideArea([[0, -1], [1, 0]]), "rtt_ms: has entries that are negative or not finite"),
        (lambda: WideArea([[0, 1], [1, 0]], bandwidth=0), "bandwidth: 0 bytes/s; expected more than 0"),
        (lambda: WideArea([[0, 1], [1, 0]], sites=3), "sites: 3; expected 1 to 2"),
        (lambda: WideArea.generated(0), "sites: 0; expected at least 1"),
        (lambda: WideArea([[0]]).set_sites({A: 1}), "site of mem://a: 1; expected 0 to 0"),
    ],
)
def test_a_wrong_wide_area_is_refused_by_name(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_a_wide_area_has_the_delays_of_a_measured_matrix(real_data: Any) -> None:
    area = WideArea.from_file(real_data / "planetlab-rtt-490.npz", sites=8, seed=1)
    assert len(area) == 8
    delays = [area.delay(one, other) for one in range(8) for other in range(one)]
    assert 0.001 < min(delays) < max(delays) < 1.0
    assert WideArea.from_file(real_data / "planetlab-rtt-490.npz", sites=8, seed=1).delay(0, 1) == area.delay(0, 1)


def test_a_file_without_round_trip_times_is_refused(tmp_path: Any) -> None:
    import numpy as np

    np.savez(tmp_path / "x.npz", delays=np.zeros((2, 2)))
    with pytest.raises(ValueError, match=r"expected an \.npz file .*: it has the arrays delays"):
        WideArea.from_file(tmp_path / "x.npz")


async def test_a_cut_link_carries_nothing_until_it_is_mended() -> None:
    net, a, at_a, b, at_b = await linked()
    for one, other in ((a, B), (b, A)):
        one.cut(other)
    assert (await at_a["down"].reaches(1))[0] == (B, "cut on purpose")
    assert a.connected() == []
    a.send(B, b"lost")
    assert (await at_a["down"].reaches(2))[1] == (B, "cut on purpose")
    assert len(net.opened) == 1
    for one, other in ((a, B), (b, A)):
        one.mend(other)
    a.send(B, b"2")
    assert [message for _, message in await at_b["message"].reaches(2)] == [b"1", b"2"]


async def test_a_cut_that_delays_sends_in_order_what_waited_and_one_that_loses_does_not() -> None:
    net, a, at_a, b, at_b = await linked()
    for one, other in ((a, B), (b, A)):
        one.cut(other, Cut.LOSE)
    a.send(B, b"lost")
    await turns(20)
    for one, other in ((a, B), (b, A)):
        one.cut(other, Cut.DELAY)
    a.send(B, b"2")
    a.send(B, b"3")
    answer = asyncio.ensure_future(b.request(A, "ping", b"4"))
    await turns(20)
    assert (a.pending(B) > 0, len(at_b["message"].entries), at_a["down"].entries) == (True, 1, [])
    for one, other in ((a, B), (b, A)):
        one.mend(other)
    assert [message for _, message in await at_b["message"].reaches(3)] == [b"1", b"2", b"3"]
    with pytest.raises(RemoteError, match="answers no requests"):
        await answer
    assert len(net.opened) == 1, "nobody knows of the cut"


async def test_a_link_that_opens_while_a_cut_delays_opens_when_it_is_mended() -> None:
    net = Net()
    a, _ = net.join(A)
    b, at_b = net.join(B)
    b.cut(A, Cut.DELAY)
    a.send(B, b"1")
    await turns(20)
    assert a.connected() == []
    b.mend(A)
    assert [message for _, message in await at_b["message"].reaches(1)] == [b"1"]


async def test_one_end_alone_keeps_a_link_cut() -> None:
    net = Net()
    a, at_a = net.join(A)
    b, at_b = net.join(B)
    b.cut(A)
    a.send(B, b"lost")
    await at_a["down"].reaches(1)
    b.mend(A)
    a.send(B, b"1")
    assert [message for _, message in await at_b["message"].reaches(1)] == [b"1"]
