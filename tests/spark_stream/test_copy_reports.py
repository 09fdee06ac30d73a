"""Reports of a peer about copies of parts on Spark: whether its own server could resume from their checkpoints."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from spark_stream import checkpoints, session
from spark_stream.java import SparkUnavailable
from spark_stream.part import Part
from spark_stream.results import DeliveryProgress
from spark_stream.resumption import Resumption
from synergy_nb.control.driver_messages import CopiesLagging, CopyReady, CopyUnusable
from synergy_nb.control.peer import DriverMessage
from synergy_nb.dataflow.deployments import Assignment
from synergy_nb.dataflow.streams.hosting.effects import Fact, FactKind
from synergy_nb.plan import source
from synergy_nb.plan.derived.spark_parts import replace_parts
from synergy_nb.runtime.data.copy_reports import CopyReports
from synergy_nb.runtime.data.spark_servers import SparkHost
from synergy_nb.runtime.process.requests import SparkState, SparkStatus
from tests.two_hosts import play
from tests.waiting import until

on_loop = play  # how the tests that are coroutines run

READY = Fact(FactKind.COPY_READY, "app", "count")
PLAN = replace_parts(
    source("python", name="n", columns={"link": "str"}, rate=1.0, id="n")
    .aggregate("link", "1 s", n="count(*)", id="count")
    .sink(),
    {"count"},
    0.1,
)
AWAY = Resumption("q", DeliveryProgress(3, 0, 0, 0, ()), (), "sc://there:1", "/there/q")


class Hosting:
    """A peer with the copy of a part that says how far it is."""

    peer = "w"

    def __init__(self, resumption: Resumption) -> None:
        self.epoch = 0
        self.deployments = {"app": SimpleNamespace(plan=PLAN.to_bytes())}
        state = SimpleNamespace(head=msgspec.msgpack.encode(resumption))
        self.roles = SimpleNamespace(copies={("app", "count"): SimpleNamespace(state=state)})

    def assignment(self, *_: str) -> Assignment:
        return Assignment("x", self.epoch, ("w",), external=True)


class Peer:
    """A peer with a Spark of its own, and what its session is told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, why: Callable[[], str] = str) -> None:
        loop = asyncio.get_running_loop()
        self.opened = self.rehearsed = 0
        self.looked: list[tuple[str, str]] = []
        self.said: list[DriverMessage] = []
        self.spark = SparkHost(loop, lambda: 0.0, lambda *_, **__: None)
        self.spark.receive_state(SparkState(SparkStatus.READY, "", "sc://here:1/;token=secret"))
        monkeypatch.setattr(session, "connect", self._connect)
        monkeypatch.setattr(session, "disconnect", lambda _: None)

        def unreachable(_: object, checkpoint: str, place: str) -> str:
            self.looked.append((checkpoint, place))
            return why()

        monkeypatch.setattr(checkpoints, "unreachable", unreachable)
        monkeypatch.setattr(self.spark, "rehearse", self._rehearse)
        self.standbys = CopyReports(self.said.append, loop, self.spark, {})

    def _rehearse(self, part: Part, _: object) -> None:
        assert (part.operator, part.members, part.inputs) == ("count", ("count",), ("n",))
        self.rehearsed += 1

    def _connect(self, _: object) -> Any:
        self.opened += 1
        return SimpleNamespace(conf={"spark.sql.warehouse.dir": "file:/here"})

    async def hear(self, hosting: Any, fact: Fact = READY) -> DriverMessage:
        """What it says first of a fact."""
        self.standbys.handle(fact, hosting)
        await until(lambda: bool(self.said))
        return self.said[0]


async def test_a_copy_is_ready_once_its_spark_has_reached_the_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    peer = Peer(monkeypatch)
    assert await peer.hear(Hosting(AWAY)) == CopyReady("app", "count")
    assert peer.looked == [("/there/q", "file:/here")]
    assert peer.rehearsed == 1


async def test_a_copy_that_cannot_continue_reports_a_sentence_with_both_servers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    peer = Peer(monkeypatch, lambda: "it is not to be found there")
    reason = (
        "Spark at sc://here:1 cannot go on with the checkpoint of Spark at sc://there:1, /there/q: "
        "it is not to be found there"
    )
    assert await peer.hear(Hosting(AWAY)) == CopyUnusable("app", "count", reason)


async def test_a_lost_session_on_a_server_is_opened_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def why() -> str:
        if peer.opened == 1:
            raise SparkUnavailable("it has gone")
        return ""

    peer = Peer(monkeypatch, why)
    assert await peer.hear(Hosting(AWAY)) == CopyReady("app", "count")
    assert peer.opened == 2, "the lost session is of no use"


async def test_on_the_same_server_the_checkpoint_is_not_examined(monkeypatch: pytest.MonkeyPatch) -> None:
    peer = Peer(monkeypatch)
    same = msgspec.structs.replace(AWAY, server="sc://here:1")
    assert await peer.hear(Hosting(same)) == CopyReady("app", "count")
    assert (peer.looked, peer.rehearsed) == ([], 0)
    assert peer.opened == 1, "its session is ready for the take-over"


async def test_findings_of_an_earlier_epoch_are_not_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    hosting = Hosting(AWAY)

    def moves() -> str:
        hosting.epoch += 1
        return "it is not to be found there"

    peer = Peer(monkeypatch, moves)
    peer.standbys.handle(READY, hosting)  # type: ignore[arg-type]
    await until(lambda: not peer.standbys.looking)
    fact = Fact(FactKind.COPIES_BEHIND, "app", "count")
    assert await peer.hear(hosting, fact) == CopiesLagging("app", "count", {}), "which is the first that is said"


async def test_lagging_copies_are_reported_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    peer = Peer(monkeypatch)
    fact = Fact(FactKind.COPIES_BEHIND, "app", "count", "nothing was heard", ("b", "c"))
    told = {"b": "nothing was heard", "c": "nothing was heard"}
    assert await peer.hear(Hosting(AWAY), fact) == CopiesLagging("app", "count", told)
