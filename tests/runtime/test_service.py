"""What a peer answers to clients, where the order of two requests matters: the peer is in this process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from synergy_nb.control.identity import CHANNELS, OPERATIONS
from synergy_nb.control.peer import Peer
from synergy_nb.durable._disk_place import DiskPlace
from synergy_nb.durable.folder import DurableFolder, KeptApplication
from synergy_nb.plan import Plan, source
from synergy_nb.runtime.process import _service
from synergy_nb.runtime.process._peer_driver import PeerRuntime
from synergy_nb.runtime.process._peer_factory import make
from synergy_nb.runtime.process._service import Service
from synergy_nb.runtime.process.requests import ApplicationId, Submit, pack
from tests.waiting import turns, until

SUBMIT = pack(Submit("app", source("packets", rate="10 tuples/s").sink("all").to_bytes(), "composed"))
STOP = pack(ApplicationId("app"))


class Sizing:
    """Sizes plans by their traces, for as long as a test wants."""

    def __init__(self) -> None:
        self.begun, self.ends = threading.Event(), threading.Event()

    def sized(self, plan: Plan) -> Plan:
        self.begun.set()
        self.ends.wait()
        return plan


@pytest.fixture
def sizing(monkeypatch: pytest.MonkeyPatch) -> Iterator[Sizing]:
    held = Sizing()
    monkeypatch.setattr(_service, "sized_by_traces", held.sized)
    yield held
    held.ends.set()


async def _unconnected(address: str) -> object:
    raise OSError(f"{address}: there is no other peer")


async def _after(sizing: Sizing, operation: str, payload: bytes) -> tuple[asyncio.Future[bytes], list[str], str]:
    """Make a second request while a submitted plan is sized.

    Return the task of the submission, the requests that the peer leads then, and how the second request was refused.
    """
    services: list[Service] = []

    def factory(of: PeerRuntime, config: Mapping[str, Any]) -> tuple[Peer, Service]:
        peer, service = make(of, config)
        services.append(service)
        return peer, service

    runtime = PeerRuntime("tcp://127.0.0.1:1", "peer-1", _unconnected, factory, {"name": "peer-1"})
    runtime.start()
    submitted = asyncio.ensure_future(runtime.operations["submit"](SUBMIT))
    second = asyncio.ensure_future(runtime.operations[operation](payload))
    await until(sizing.begun.is_set)
    await turns(3)
    refusal = str(second.exception()) if second.done() else "it waits"
    sizing.ends.set()
    await until(lambda: submitted.done() or services[0].synergy.requests)
    led = list(services[0].synergy.requests)
    for task in (submitted, second):
        task.cancel()
    await asyncio.wait([submitted, second])
    await runtime.close()
    return submitted, led, refusal


async def test_a_submission_that_is_stopped_while_its_plan_is_sized_is_not_begun(sizing: Sizing) -> None:
    submitted, led, _ = await _after(sizing, "stop", STOP)
    assert not led
    with pytest.raises(ValueError, match="stopped before it was submitted"):
        submitted.result()


async def test_a_name_is_in_use_while_its_plan_is_sized(sizing: Sizing) -> None:
    _, led, refusal = await _after(sizing, "submit", SUBMIT)
    assert "expected a name that is not in use" in refusal
    assert led == ["app"]


@pytest.mark.parametrize(("id_", "wrong"), [("kept", "not in use"), ("../photos", "one word"), ("a b", "one word")])
async def test_a_guest_chooses_no_id_by_which_he_gets_what_is_of_others(id_: str, wrong: str, tmp_path: Path) -> None:
    """With the id of an application of a durable folder he went on from its state, and had it removed at his end."""
    folder = DurableFolder(tmp_path / "folder")
    folder.prepare()
    folder.keep(KeptApplication("kept", b"", "composed", 0.0), {})
    settings = {"name": "peer-1", "durable": folder.where, "session": {"durable": True}}
    runtime = PeerRuntime("tcp://127.0.0.1:1", "peer-1", _unconnected, make, settings)
    runtime.start()
    try:
        assert runtime.serve_guest is not None
        for trial in (False, True):
            plan = source("packets", rate="10 tuples/s").sink("all").to_bytes()
            with pytest.raises(ValueError, match=f"application: '{id_}'; expected .*{wrong}"):
                await runtime.serve_guest("eve", "submit", pack(Submit(id_, plan, trial=trial)))
        assert [each.id for each in folder.applications()] == ["kept"]
    finally:
        await runtime.close()


async def test_an_operator_on_spark_is_refused_where_the_folder_has_no_room_for_its_checkpoints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DiskPlace, "checkpoints", lambda _place, _folder: None)
    folder = DurableFolder(tmp_path / "folder")
    folder.prepare()
    settings = {"name": "peer-1", "durable": folder.where, "session": {"durable": True}}
    runtime = PeerRuntime("tcp://127.0.0.1:1", "peer-1", _unconnected, make, settings)
    runtime.start()
    plan = source("packets", rate="10 tuples/s").filter("bytes > 1", engine="spark", id="f").sink("all")
    try:
        with pytest.raises(ValueError, match="operator 'f': engine: 'spark'; expected 'peer', as Spark keeps no"):
            await runtime.operations["submit"](pack(Submit("app", plan.to_bytes())))
        assert folder.applications() == []
    finally:
        await runtime.close()


def test_each_operation_and_channel_of_an_assembled_peer_has_a_row() -> None:
    async def main() -> None:
        runtime = PeerRuntime("tcp://127.0.0.1:1", "peer-1", _unconnected, make, {"name": "peer-1"})
        assert {*runtime.operations, *runtime.personal, "record", "credentials"} == set(
            OPERATIONS
        )  # of peers that record, or have TLS
        assert {*runtime.links.channels, "trouble", "newcomer"} == set(CHANNELS)  # the last two are clients'
        await runtime.close()

    asyncio.run(main())
