"""A disk that takes its time: whose rows wait for it is said within five seconds."""

from __future__ import annotations

import asyncio
import random
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from synergy_nb.dataflow.deployments import FOLDER, Assignment, Deployment, Role
from synergy_nb.dataflow.streams.component._copy_holders import CopyHolders
from synergy_nb.dataflow.streams.log.frames import Ack, ComponentState, Data, Frame, PieceReply
from synergy_nb.dataflow.streams.log.state_pieces import Part
from synergy_nb.dataflow.streams.log.values import COPY, ORIGIN, Output, Reader, chunks_of
from synergy_nb.durable.disk import Disk
from synergy_nb.durable.folder import DurableFolder, KeptApplication
from synergy_nb.events import Event, WaitBegun, WaitEnded, Why
from synergy_nb.reporting.stalls import OpenWaits, stalls
from synergy_nb.runtime.data._durable_copies import TOGETHER, DurableCopies
from tests.durable.durable_world import DurableWorld
from tests.durable.kept_component import piece_of
from tests.stream_schedules import inputs_of, stream
from tests.streams.items import batch
from tests.waiting import run_loop, until


def test_what_waits_for_a_slow_disk_is_named_and_what_would_help() -> None:
    plan = stream("n").filter("v >= 0", id="f").sink("out", id="out")
    world = DurableWorld(1, "ab", slow=0.0)
    world.pace = 0.2
    world.deploy("app", plan, {"n": "a", "f": "a", "out": "b"}, inputs_of(random.Random(1), plan, rows=600))
    journal: list[Event] = []

    def recorder(peer: str) -> Any:
        return lambda kind, subject, **fields: journal.append(kind(world.now, peer, subject, **fields))

    def look(seconds: int) -> None:
        for _ in range(seconds):
            world.run(1.0)
            for peer, node in world.nodes.items():
                node.hosting.waits.look(world.now, recorder(peer), lambda _: False, lambda _: "")

    look(2)
    assert not [each for each in journal if isinstance(each, WaitBegun) and each.why is Why.FOLDER]
    world.slow = 1e6
    look(5)
    waits = OpenWaits()
    for event in journal:
        waits.add(event)
    said = [str(each) for each in stalls(waits, world.now)]
    assert any("out at peer b has rows that the durable folder has not taken for" in each for each in said), said
    assert any(each.endswith("see what slows its disk down, and whether it has space") for each in said)
    world.slow = 0.0
    look(2)
    assert "out" in {each.operator for each in journal if isinstance(each, WaitEnded)}


class HeldDisk(Disk):
    """A disk that takes as long as a test wants."""

    def __init__(self) -> None:
        self.asked, self.goes_on = threading.Event(), threading.Event()

    def sync(self, opened: int) -> None:
        self.asked.set()
        self.goes_on.wait()
        super().sync(opened)


def copies_of(
    *operators: str, folder: Path, disk: Disk, said: list[Frame], confirming: tuple[str, ...] = (FOLDER,)
) -> DurableCopies:
    """The copies of components for which readers wait, unless nobody confirms what they give."""
    DurableFolder(folder).prepare()
    DurableFolder(folder).keep(KeptApplication("app", b"", "composed", 0.0), {})
    holders = CopyHolders((FOLDER,), confirming)
    components = {
        ("app", name): SimpleNamespace(
            role=Role.ACTIVE,
            copies={FOLDER: 0},
            failed=False,
            output=Output("app", name, 0),
            epoch=0,
            external=False,
            copy_holders=holders,
            unsaved_at=lambda _: 0,
        )
        for name in operators
    }
    hosting: Any = SimpleNamespace(peer="a", components=components)
    refused: Any = None
    loop = asyncio.get_running_loop()
    copies = DurableCopies(
        DurableFolder(folder, disk), hosting, loop, loop.time, refused, said.append, refused, refused, refused
    )
    copies.converged(Deployment("app", 1, {name: Assignment("a", 0, (FOLDER,)) for name in operators}))
    return copies


def begun(operator: str) -> Data:
    return Data(Output("app", operator, 0), Reader("app", operator, COPY, FOLDER), ORIGIN, (), True)


def test_a_peer_goes_on_while_the_disk_takes_its_time_and_nothing_is_answered_before(tmp_path: Path) -> None:
    disk, said = HeldDisk(), list[Frame]()

    async def scenario() -> None:
        copies = copies_of("f", folder=tmp_path, disk=disk, said=said)
        copies.take(begun("f"))
        try:
            await asyncio.to_thread(disk.asked.wait)  # the loop goes on
            assert not any(isinstance(each, Ack) for each in said)
        finally:
            disk.goes_on.set()
        await until(lambda: any(isinstance(each, Ack) for each in said))
        await copies.close()

    run_loop(scenario())


def test_rows_do_not_wait_for_the_pieces_of_a_large_state(tmp_path: Path) -> None:
    disk, said = HeldDisk(), list[Frame]()
    pieces = tuple(piece_of(number, 70_000) for number in range(3 * TOGETHER))
    output, reader = Output("app", "large", 0), Reader("app", "large", COPY, FOLDER)
    parts = (Part(0, tuple(each.number for each in pieces)),)

    async def scenario() -> None:
        copies = copies_of("large", "rows", folder=tmp_path, disk=disk, said=said)
        copies.take(begun("large"))
        copies.take(ComponentState(output, reader, 0, {}, ORIGIN, ORIGIN, b"h", parts))
        await asyncio.to_thread(disk.asked.wait)
        for piece in pieces:
            copies.take(PieceReply(output, reader, piece))
        copies.take(begun("rows"))
        disk.goes_on.set()
        await until(lambda: any(isinstance(each, Ack) and each.snapshot == 0 for each in said))
        await copies.close()

    run_loop(scenario())
    acks = [each.output.operator for each in said if isinstance(each, Ack)]
    assert acks.index("rows") < len(acks) - 1
    assert acks[-1] == "large"


def test_output_that_is_made_again_does_not_wait_for_the_disk_and_its_snapshot_does(tmp_path: Path) -> None:
    disk, said = HeldDisk(), list[Frame]()
    output, reader = Output("app", "n", 0), Reader("app", "n", COPY, FOLDER)
    chunks = tuple(chunks_of([batch(0, 10)], ORIGIN))

    async def scenario() -> None:
        copies = copies_of("n", folder=tmp_path, disk=disk, said=said, confirming=())
        copies.take(begun("n"))
        copies.take(ComponentState(output, reader, 0, {}, ORIGIN, ORIGIN, b"h"))
        await asyncio.to_thread(disk.asked.wait)
        copies.take(Data(output, reader, ORIGIN, chunks))
        try:
            await until(lambda: any(isinstance(each, Ack) and each.received == chunks[-1].end for each in said))
            assert not any(isinstance(each, Ack) and each.snapshot >= 0 for each in said)
        finally:
            disk.goes_on.set()
        await until(lambda: any(isinstance(each, Ack) and each.snapshot == 0 for each in said))
        await copies.close()

    run_loop(scenario())
