"""Hosting as a whole: those who share the stream of another application, and components that cannot be created."""

from __future__ import annotations

import msgspec
import pytest

from synergy_nb.dataflow.deployments import Assignment, Deployment, InputFeed, SharedReader
from synergy_nb.dataflow.logic import Logic
from synergy_nb.dataflow.streams.component.component import Component
from synergy_nb.dataflow.streams.hosting.effects import FactKind
from synergy_nb.dataflow.streams.log.frames import Data, Subscribe, Unsubscribe
from synergy_nb.dataflow.streams.log.log import Limits
from synergy_nb.dataflow.streams.log.values import OnLag, Output, Point, Reader
from synergy_nb.dataflow.tuples import START
from tests.streams.items import batch
from tests.streams.peers import Peers


def sharing(peers: Peers) -> Deployment:
    """Another application, on one peer, that reads what the first one's operator makes."""
    assignment = peers.deployment.assignments["u"]
    peers.assign("u", msgspec.structs.replace(assignment, shared_readers=(SharedReader("second", "g", 0, "w"),)))
    return Deployment("second", 1, {"g": Assignment("w", 0, (), "", (InputFeed("app", "u"),), (), True)})


def test_a_sharer_is_refused_before_its_deployment_is_known() -> None:
    peers = Peers().begin()
    reader = Reader("second", "g", 0, "w")
    peers.say("w", "x", Subscribe(Output("app", "u"), reader, None, OnLag.FAIL))
    assert reader not in peers.hostings["x"].components["app", "u"].log.cursors
    second = sharing(peers)
    peers.emit("n", batch(0, 2))
    peers.tell(second)
    peers.later(0.2)
    assert peers.hostings["w"].components["second", "g"].ports[0].received == Point(2, START)


def test_the_cursor_of_a_sharer_that_leaves_is_retained_for_its_successor() -> None:
    peers = Peers().begin()
    peers.tell(sharing(peers))
    peers.later(0.2)
    reader = Reader("second", "g", 0, "w")
    peers.say("w", "x", Unsubscribe(Output("app", "u"), reader))
    assert reader in peers.hostings["x"].components["app", "u"].log.cursors


def test_a_slow_sharer_fails_alone_and_is_notified_again_if_the_notice_is_lost() -> None:
    peers = Peers(limits=Limits(200, 600, 200)).begin()
    peers.tell(sharing(peers))
    peers.later(0.2)
    peers.lose = lambda frame: isinstance(frame, Unsubscribe)  # nobody collects what the sharer makes
    for position in range(0, 60, 4):
        peers.emit("n", batch(position, 4))
        peers.later(0.3)
    assert peers.rows == list(range(60)), "the owner goes on"
    assert peers.said("component_failed") == []
    peers.lose = lambda _: False
    peers.later(1.0)
    assert peers.said("component_failed") == ["w second g"]
    (reason,) = [fact.reason for _, fact in peers.facts if fact.kind is FactKind.COMPONENT_FAILED]
    assert "it reads too slowly" in reason
    peers.later(1.0)
    assert Reader("second", "g", 0, "w") not in peers.hostings["x"].components["app", "u"].log.cursors


def test_a_sharer_that_has_not_joined_makes_no_snapshot() -> None:
    peers = Peers().begin()
    second = sharing(peers)
    assignment = msgspec.structs.replace(second.assignments["g"], backups=("y",))
    peers.lose = lambda frame: (
        isinstance(frame, Data) and frame.reader.application == "second" and frame.reader.port == 0
    )
    peers.tell(msgspec.structs.replace(second, assignments={"g": assignment}))
    peers.later(1.0)
    assert peers.hostings["y"].roles.copies["second", "g"].state is None
    peers.lose = lambda _: False
    peers.later(1.0)
    assert peers.hostings["y"].roles.copies["second", "g"].state is not None


def test_a_component_that_cannot_be_created_is_reported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However often its peer is told to execute it; another attempt or another epoch may succeed."""
    peers = Peers()
    make = peers.create
    hosting = peers.hostings["x"]

    def refuse(deployment: Deployment, component: Component) -> Logic | None:
        if component.operator == "u":
            raise ValueError("there is no key")
        return make(deployment, component)

    monkeypatch.setattr(hosting, "create", refuse)
    peers.begin()
    for _ in range(3):
        peers.assign("u", peers.deployment.assignments["u"])
    assert peers.said("component_failed") == ["x app u"]
    peers.assign("u", msgspec.structs.replace(peers.deployment.assignments["u"], epoch=1))
    assert peers.said("component_failed") == ["x app u"] * 2
    known = peers.deployment
    peers.tell(Deployment("app", known.version + 1))
    peers.tell(Deployment("app", known.version + 2, known.assignments))
    assert peers.said("component_failed") == ["x app u"] * 3
