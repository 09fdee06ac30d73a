"""Contents that plans only name: sent to peers that have not got them, and fetched by peers from each other."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from synergy_nb import function
from synergy_nb.control.driver_messages import ObtainContents
from synergy_nb.lifecycle.requests.decider import needed_contents
from synergy_nb.plan import Plan, source
from synergy_nb.plan.tables.lookup_tables import table_of
from synergy_nb.plan.terms.known_functions import Payload, payload_of
from synergy_nb.runtime.client import _content_shipping
from synergy_nb.runtime.client._content_shipping import ContentShipping
from synergy_nb.runtime.data.function_processes import FunctionProcesses
from synergy_nb.runtime.process import _peer_contents, contents
from synergy_nb.runtime.process._peer_contents import FRESH, KEPT, MOST, PeerContents
from synergy_nb.runtime.process.contents import name_of, piece
from synergy_nb.runtime.process.requests import (
    ClusterError,
    ContentPiece,
    ContentsFound,
    FetchContent,
    FindContents,
    SendContent,
    pack,
    unpack,
)
from synergy_nb.runtime.transport.wire import RemoteError

SITES = pl.DataFrame({"link": [f"link {number}" for number in range(5_000)], "site": "Bonn"})


@function(columns={"x": "int"})
def twice(batch: pl.DataFrame) -> pl.DataFrame:
    """Twice the bytes."""
    return batch.select(x=pl.col("bytes") * 2)


class Machines:
    """Peers, each on a machine: a folder of tables that is the present one while the peer works."""

    def __init__(self, folder: Path, machines: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.machines, self._patch = folder, machines, monkeypatch
        self.sender = "owner/ada#1"  # name on its link of who sends contents
        self.offered: dict[str, set[str]] = {peer: set() for peer in machines}
        self.told: dict[str, set[str]] = {}  # of those that were offered, what neighbours are told of
        self.peers: dict[str, PeerContents] = {}
        self.refused: list[tuple[str, str]] = []  # senders of what was refused, and why
        for peer in machines:
            self.start(peer)
        self.pieces: list[tuple[str, str]] = []  # receivers, and the components whose contents they got
        self.now, self.needed = 0.0, set[str]()  # the time in seconds, and what applications need
        self._turn = asyncio.Lock()  # one peer at a time, as they share the environment
        self.at("client")
        plan()  # which keeps its table there
        whole = {each: bytes(piece(each, 0).data) for each in (OWN, TABLE)}  # type: ignore[union-attr]
        self._whole = whole
        monkeypatch.setattr(contents, "PIECE", 10_000)
        monkeypatch.setattr(_content_shipping, "piece", self.piece)

    def piece(self, component: str, start: int) -> ContentPiece:
        """The next piece of a content that the client has."""
        whole = self._whole[component]
        return ContentPiece(component, start, len(whole), whole[start : start + 10_000])

    def start(self, peer: str, policy: str = "notebook") -> None:
        async def offer(components: tuple[str, ...], told: bool) -> None:
            self.offered[peer].update(components)
            self.told[peer].update(components if told else ())

        self.offered[peer], self.told[peer] = set(), set()
        self.peers[peer] = PeerContents(
            FunctionProcesses(policy), offer, self.request, lambda: self.now, lambda: self.needed,
            self.offered[peer].difference_update, lambda *told: self.refused.append(told),
        )  # fmt: skip

    def at(self, machine: str) -> None:
        self._present = machine
        self._patch.setenv("SYNERGY_TABLES", str(self.folder / machine))
        self._patch.setattr(_peer_contents, "machine", lambda: machine)

    async def request_all(
        self, operation: str, payload: bytes, addresses: Iterable[str], timeout: float
    ) -> dict[str, bytes]:
        return {each: await self.request(each, operation, payload, timeout) for each in addresses if each != "dead"}

    async def request(self, peer: str, operation: str, payload: bytes, _timeout: float) -> bytes:
        if operation == "content sent":
            self.pieces.append((peer, unpack(payload, SendContent).piece.component))
        if operation == "content":
            return await self._answer(peer, operation, payload)  # within the turn of who asks
        async with self._turn:
            return await self._answer(peer, operation, payload)

    async def _answer(self, peer: str, operation: str, payload: bytes) -> bytes:
        each = self.peers[peer]
        sent: Any = partial(each.receive, self.sender)
        handlers: Any = {"contents": each.find, "content sent": sent, "content": each.give}
        before = self._present
        self.at(self.machines[peer])
        try:
            return bytes(await handlers[operation](payload))
        except ValueError as error:  # as a link says it
            raise (RemoteError if operation == "content" else ClusterError)(str(error)) from error
        finally:
            self.at(before)

    async def obtain(self, peer: str, sender: str, components: Iterable[str]) -> None:
        self.at(self.machines[peer])
        await self.peers[peer].obtain(ObtainContents(sender, tuple(components)))
        self.at("client")


def plan() -> Plan:
    packets = source("packets", rate="10/s")
    return packets.apply(twice, keep=True).lookup(SITES, on="link", id="lookup").sink()


ASKED = plan()
OWN, TABLE = needed_contents(ASKED)


async def test_each_peer_gets_a_function_and_each_machine_a_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machines = {"a": "one", "b": "one", "c": "two", "d": "client", "dead": "three"}
    world = Machines(tmp_path, machines, monkeypatch)
    asked = plan()
    shipping = ContentShipping(world.request_all, world.request, str.upper)
    await shipping.send(asked, machines)
    tables = [peer for peer, component in world.pieces if component == TABLE]
    assert set(tables) == {"a", "c"}, "b is on the machine of a, and d on that of the client"
    assert tables.count("a") == tables.count("c") > 5
    assert [peer for peer, component in world.pieces if component == OWN] == ["a", "b", "c", "d"]
    assert all(world.offered[each] == {OWN, TABLE} for each in "abcd")
    before = len(world.pieces)
    await shipping.send(asked, machines)
    assert len(world.pieces) == before
    world.start("b")  # anew, at its address
    await shipping.send(asked, machines)
    assert world.pieces[before:] == [("b", OWN)]
    assert world.offered["b"] == world.told["b"] == {OWN, TABLE}
    for machine in ("one", "two"):
        world.at(machine)
        assert table_of(asked.operators["lookup"].params["table"]).rows() == SITES.rows()
    await shipping.send(source("packets", rate="10/s").sink(), machines)


async def test_what_no_peer_has_in_the_end_is_an_error_with_the_reasons(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = Machines(tmp_path, {"a": "one", "b": "one"}, monkeypatch)
    world.start("a", "installed")
    shipping = ContentShipping(world.request_all, world.request, str.upper)
    await shipping.send(plan(), ["a", "b"])
    assert (world.offered["a"], world.offered["b"]) == ({TABLE}, {OWN, TABLE})
    with pytest.raises(ClusterError, match=r"operator 'apply': function: 'twice@\w+': no peer accepts it: .* \(A\)$"):
        await shipping.send(plan(), ["a"])
    with pytest.raises(ClusterError, match=r"operator 'apply': .*: no peer answers; expected one that accepts it"):
        await shipping.send(plan(), ["dead"])
    asked = plan()
    world.start("b")
    monkeypatch.setattr(_content_shipping, "piece", lambda *_: None)
    with pytest.raises(ClusterError, match=r"'twice@\w+': no peer accepts it: this peer has not got it: .* \(B\)"):
        await shipping.send(asked, ["b"])


async def test_a_newcomer_fetches_contents_from_another_peer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = Machines(tmp_path, {"a": "one", "b": "two", "c": "three"}, monkeypatch)
    asked = plan()
    await ContentShipping(world.request_all, world.request, str.upper).send(asked, ["a"])
    world.at("nowhere")
    await world.obtain("b", "a", [OWN, TABLE, "apply:gone@0123456789abcdef0123456789abcdef"])
    assert world.offered["b"] == {OWN, TABLE}
    world.at("two")
    assert table_of(asked.operators["lookup"].params["table"]).rows() == SITES.rows()
    world.start("c", "installed")
    await world.obtain("c", "b", [OWN, "apply:tests.installed_functions:kilobytes", TABLE])
    assert world.offered["c"] == {TABLE, "apply:tests.installed_functions:kilobytes"}


async def test_what_a_guest_has_sent_is_told_and_given_to_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = Machines(tmp_path, {"a": "one", "b": "two"}, monkeypatch)
    for start in range(0, world.piece(OWN, 0).size, 10_000):
        await world.peers["a"].receive_from_guest(SendContent("one", world.piece(OWN, start)), "ann", ())
    await world.peers["a"].find_for_guest(pack(FindContents({OWN: {}})))  # as with each later submission
    assert (world.offered["a"], world.told["a"]) == ({OWN}, set())
    await world.obtain("b", "a", [OWN])
    assert world.offered["b"] == set()


async def test_the_file_of_a_guests_model_is_one_of_the_folders_that_the_owner_has_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    accepted: list[object] = []
    monkeypatch.setattr(FunctionProcesses, "accept", lambda _, *given: accepted.append(given))
    world = Machines(tmp_path, {"a": "one"}, monkeypatch)
    await whole(world, "a", of("model"), "ann")
    assert accepted == [(name_of(of("model")), code_of("model").encoded(), ("/srv",))]


async def test_a_peer_takes_only_what_was_announced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = Machines(tmp_path, {"a": "one"}, monkeypatch)
    other = tmp_path / "other.arrow"
    SITES.head(5).write_ipc(other)
    data = other.read_bytes()

    async def send(start: int, data: bytes, size: int, sender: str = "one") -> None:
        sent = SendContent(sender, ContentPiece(TABLE, start, size, data))
        await world.request("a", "content sent", pack(sent), 0.0)

    with pytest.raises(ClusterError, match="expected the one that was announced"):
        await send(0, data, len(data))
    with pytest.raises(ClusterError, match="expected an Arrow file"):
        await send(0, b"no file", 7)
    await send(0, data[:9], len(data))
    with pytest.raises(ClusterError, match="a piece at 12; expected that at 9"):
        await send(12, data[9:], len(data))
    assert not list((tmp_path / "one").glob("*.arrow"))
    assert not world.offered["a"]
    assert name_of(TABLE) in plan().operators["lookup"].params["table"].values()


async def test_pieces_count_on_who_holds_the_certificate_of_the_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = Machines(tmp_path, {"a": "one"}, monkeypatch)
    peer, size = world.peers["a"], 30

    async def send(sender: str, transfer: str, start: int, size: int = size) -> None:
        sent = pack(SendContent(transfer, ContentPiece(f"apply:f{transfer}@1f", start, size, b"x" * 10)))
        await peer.receive(sender, sent)

    await send("owner/ada#1", "honest", 0)
    for number in range(MOST + 3):  # each says that it is another one
        await send(f"user/eve#{number}", f"{number}", 0)
    with pytest.raises(ValueError, match="a piece at 10; expected that at 0"):
        await send("user/eve#0", "3", 10)
    await send("user/eve#0", "4", 10)
    monkeypatch.setattr(_peer_contents, "ROOM", 60)
    await send("user/eve#0", "late", 0)
    with pytest.raises(ValueError, match="a piece at 10; expected that at 0"):
        await send("user/eve#0", "6", 10)
    await send("user/eve#0", "7", 10)
    await send("owner/ada#1", "honest", 10)
    await send("owner/ada#1", "honest", 20, 31)


def code_of(name: str, size: int = 1000) -> Payload:
    """Code of so many bytes, other than that of other names."""
    return Payload(name.encode().ljust(size, b"."))


def of(name: str, size: int = 1000) -> str:
    """The component that needs it."""
    return f"apply:{name}@{code_of(name, size).digest}"


async def whole(world: Machines, peer: str, component: str, sender: str = "ada", code: Payload | None = None) -> None:
    """Have a client send a content to a peer."""
    world.at(world.machines[peer])
    data = (code or code_of(name_of(component).partition("@")[0])).encoded()
    sent = SendContent("one", ContentPiece(component, 0, len(data), data))
    if sender == "ada":
        await world.peers[peer].receive("owner/ada#1", pack(sent))
    else:
        await world.peers[peer].receive_from_guest(sent, sender, ("/srv",))


async def test_what_no_application_needs_is_dropped_after_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = Machines(tmp_path, {"a": "one"}, monkeypatch)
    await ContentShipping(world.request_all, world.request, str.upper).send(plan(), ["a"])
    await whole(world, "a", of("needed"))
    peer, world.needed = world.peers["a"], {of("needed")}
    installed = "apply:tests.installed_functions:kilobytes"
    await peer.find(pack(FindContents({installed: {}})))
    for _ in range(2):
        world.now += KEPT * 0.6
        assert {OWN, TABLE} <= world.offered["a"]
        await peer.look()
    assert world.offered["a"] == {of("needed"), installed}
    with pytest.raises(ValueError, match="expected one that this peer has"):
        payload_of(name_of(of("gone")))
    lacking = unpack(await peer.find(pack(FindContents({OWN: {}, of("needed"): {}}))), ContentsFound).lacking
    assert lacking == (OWN,), "who submits again sends it again"
    world.needed = set()
    world.now += KEPT + 1.0
    await peer.look()
    assert world.offered["a"] == {installed}
    with pytest.raises(ValueError, match="expected one that this peer has"):
        payload_of(name_of(of("needed")))


async def test_a_table_that_the_machine_has_dropped_is_offered_no_more_and_one_that_is_needed_is_marked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = Machines(tmp_path, {"a": "one"}, monkeypatch)
    await ContentShipping(world.request_all, world.request, str.upper).send(plan(), ["a"])
    world.at("one")
    (file,) = (tmp_path / "one").glob("*.arrow")
    world.needed = {TABLE}
    os.utime(file, (1.0, 1.0))
    await world.peers["a"].look()
    assert file.stat().st_mtime > 1.0, "others go first"
    world.needed = set()
    os.utime(file, (1.0, 1.0))
    await world.peers["a"].look()
    assert file.stat().st_mtime == 1.0
    file.unlink()
    await world.peers["a"].look()
    assert world.offered["a"] == {OWN}


async def test_functions_have_so_many_bytes_and_a_flood_drops_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_peer_contents, "FUNCTIONS", 10_000)
    world = Machines(tmp_path, {"a": "one"}, monkeypatch)
    offered = world.offered["a"]
    await whole(world, "a", of("runs"))
    world.needed = {of("runs")}
    world.now += FRESH + 1.0
    await whole(world, "a", of("old"))
    world.now += FRESH + 1.0
    await whole(world, "a", of("bob"), "bob")
    for number in range(20):
        world.now += 1.0
        await whole(world, "a", of(f"eve{number}"), "eve")
    assert {of("runs"), of("bob"), of("eve19")} <= offered
    assert of("old") not in offered, "what was not announced lately goes first"
    assert of("eve0") not in offered
    assert len(offered) == 9
    with pytest.raises(ValueError, match=r"function .large@\w+.: 9\d\d\d bytes; this peer has room for"):
        await whole(world, "a", of("large", 9500), "bob", code_of("large", 9500))
    world.needed = set(offered)
    with pytest.raises(ValueError, match="as applications need the others"):
        await whole(world, "a", of("late", 2000), "bob", code_of("late", 2000))
    world.needed = set()
    world.now += FRESH + 1.0
    await whole(world, "a", of("late", 2000), "bob", code_of("late", 2000))
    assert of("late", 2000) in offered


async def test_what_guests_have_sent_goes_to_others_once_an_owner_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = Machines(tmp_path, {"a": "one"}, monkeypatch)
    peer, own, his = world.peers["a"], of("own"), of("his")
    await whole(world, "a", own)
    for component in (own, his):
        await whole(world, "a", component, "eve")
    assert world.told["a"] == {own}, "what a guest sends again stays that of the owner"
    with pytest.raises(ValueError, match="expected one that this peer has"):
        await peer.give(pack(FetchContent(his, 0)))
    asked = pack(FindContents({own: {}, his: {}}))
    assert unpack(await peer.find_for_guest(asked), ContentsFound).lacking == ()
    assert world.told["a"] == {own}
    assert unpack(await peer.find(asked), ContentsFound).lacking == (), "the hash says that it is what the owner means"
    assert world.told["a"] == {own, his}
    assert await peer.give(pack(FetchContent(his, 0)))


@pytest.mark.parametrize("liar", ["owner", "guest", "peer"])
async def test_code_with_another_hash_than_its_name_states_is_refused(
    liar: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever sends it: else he would choose what a plan of somebody else executes."""
    monkeypatch.setattr(_peer_contents, "FUNCTIONS", 2500)
    world = Machines(tmp_path, {"a": "one", "b": "two"}, monkeypatch)
    meant, earlier = of(liar), of("earlier")
    await whole(world, "a", earlier)
    world.now += FRESH + 1.0
    lies = [code_of("false"), Payload(code_of(liar).code, file="/etc/passwd", sha256="0"), code_of("large", 2000)]
    for lie in lies:
        if liar == "peer":  # as when a peer joins, and its neighbour announces what it has
            data = lie.encoded()
            monkeypatch.setattr(_peer_contents, "piece", lambda *_, data=data: ContentPiece(meant, 0, len(data), data))
            await world.obtain("a", "b", [meant])
            assert [sender for sender, why in world.refused if lie.digest in why] == ["b"]
        else:
            with pytest.raises(ValueError, match=rf"function: '{liar}@\w+': .*hash {lie.digest}; expected that"):
                await whole(world, "a", meant, {"owner": "ada", "guest": "eve"}[liar], lie)
    assert world.offered["a"] == {earlier}, "nor does what is refused take the place of others"
    with pytest.raises(ValueError, match="expected one that this peer has"):
        payload_of(name_of(meant))
    await whole(world, "a", meant)
    assert payload_of(name_of(meant)) == code_of(liar).encoded()
