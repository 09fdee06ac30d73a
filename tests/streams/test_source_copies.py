"""How far the copies of a source are: what a program that pushes its rows still has to retain."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from synergy_nb.dataflow.deployments import Assignment
from synergy_nb.dataflow.streams.hosting.effects import Copied, Effect, FactKind, Open
from synergy_nb.dataflow.streams.log.frames import Ack, ComponentState, Data, Frame
from synergy_nb.dataflow.streams.log.log import LIMITS, Limits
from synergy_nb.dataflow.streams.log.values import COPY, ORIGIN, Point
from synergy_nb.dataflow.tuples import START
from tests.streams.items import batch, promise
from tests.streams.peers import Peers


class Source(Peers):
    """Peers of which s has a source, w and y have copies of it, x reads it, and z has the sink."""

    def __init__(self, *copies: str, limits: Limits = LIMITS) -> None:
        super().__init__(limits=limits)
        self.told = 0
        known = self.deployment.assignments
        known["n"] = msgspec.structs.replace(known["n"], backups=copies)
        known["u"] = msgspec.structs.replace(known["u"], backups=())
        self.begin()

    def do(self, peer: str, effects: list[Effect]) -> None:
        self.told += sum(isinstance(effect, Copied) for effect in effects)
        super().do(peer, effects)

    @property
    def copied(self) -> Point:
        """Point up to which all copies have the source."""
        component = self.hostings[self.deployment.assignments["n"].active].components["app", "n"]
        return component.log.copied(component.copy_holders.behind)

    def end(self, peer: str) -> Point:
        """End of what a copy has."""
        return self.hostings[peer].roles.copies["app", "n"].log.end


def of_copies(kind: type[Ack] | type[Data], *peers: str) -> Callable[[Frame], bool]:
    """Loses frames of a kind to or from copies at these peers."""

    def lose(frame: Frame) -> bool:
        return isinstance(frame, kind) and frame.reader.port == COPY and frame.reader.peer in peers

    return lose


def test_a_source_without_copies_has_what_it_has_emitted() -> None:
    peers = Source()
    peers.emit("n", batch(0, 5), promise(50, 5))
    assert peers.copied == (5, 50)


def test_all_copies_have_what_the_last_of_them_has_said() -> None:
    peers = Source("w", "y")
    assert peers.copied == ORIGIN
    peers.emit("n", batch(0, 5), promise(50, 5))
    assert peers.rows == list(range(5))
    assert peers.copied == ORIGIN, "it is on its way"
    told = peers.told
    peers.later(0.1)
    assert peers.copied == peers.end("w") == peers.end("y") == (5, 50)
    assert peers.told > told
    peers.lose = of_copies(Data, "y")
    peers.emit("n", batch(5, 5), promise(100, 10))
    peers.later(0.2)
    assert (peers.end("w"), peers.copied) == ((10, 100), (5, 50))
    peers.lose = lambda _: False
    peers.later(3.0)
    assert peers.copied == (10, 100)


def test_a_copy_that_subscribes_where_the_log_begins_does_not_have_what_is_before_that() -> None:
    peers = Source("w")
    peers.emit("n", batch(0, 5), promise(50, 5))
    peers.later(0.2)
    peers.lose = of_copies(Data, "w")
    peers.emit("n", batch(5, 5), promise(100, 10))
    peers.emit("n", batch(10, 5), promise(150, 15))
    peers.later(0.2)
    source = peers.hostings["s"]
    assert source.components["app", "n"].log.start == (15, 150), "all readers have it"
    peers.do("w", peers.hostings["w"].link_down("s", peers.now))
    peers.later(1.0)  # it subscribes, and the answer is lost
    assert peers.end("w") == (5, 50)
    assert peers.copied == (5, 50)
    peers.lose = lambda _: False
    peers.later(20.0)
    assert peers.copied == peers.end("w") == (15, 150)


def test_a_promise_that_was_discarded_before_a_copy_had_it_comes_though_nothing_follows() -> None:
    peers = Source("w")
    peers.emit("n", batch(0, 5))
    peers.later(0.2)
    peers.lose = of_copies(Data, "w")
    peers.emit("n", promise(50, 5))
    peers.later(0.2)
    assert peers.copied == (5, START)
    peers.lose = lambda _: False
    peers.later(20.0)
    assert peers.copied == peers.end("w") == (5, 50)


def test_a_copy_that_was_removed_counts_no_more_and_a_new_one_counts_at_once() -> None:
    peers = Source("w")
    peers.lose = of_copies(Data, "w")
    peers.emit("n", batch(0, 5), promise(50, 5))
    peers.later(0.2)
    assert peers.copied == ORIGIN
    known = peers.deployment.assignments["n"]
    peers.assign("n", msgspec.structs.replace(known, backups=()))
    assert peers.copied == (5, 50)
    peers.lose = of_copies(Ack, "y")
    peers.assign("n", msgspec.structs.replace(known, backups=("y",)))
    peers.emit("n", batch(5, 5))
    peers.later(0.2)
    assert peers.copied == ORIGIN
    peers.lose = lambda _: False
    peers.later(3.0)
    assert peers.copied == (10, 50)


def test_a_source_waits_for_no_copy_that_does_not_answer_while_much_is_pushed() -> None:
    peers = Source("w", "y", limits=Limits(2_000, 8_000))
    peers.emit("n", batch(0, 5))
    peers.later(0.2)
    assert peers.copied == (5, START)

    def silent(frame: Frame) -> bool:
        return isinstance(frame, Ack | Data | ComponentState) and frame.reader.port == COPY and frame.reader.peer == "w"

    peers.lose = silent
    at = 5
    for _ in range(3):  # not even half of what may be retained
        peers.emit("n", batch(at, 40))
        at += 40
        peers.later(1.0)
    assert peers.copied == (5, START)
    told = peers.told
    for _ in range(12):
        peers.emit("n", batch(at, 40))
        at += 40
        peers.later(0.5)
    assert peers.copied.position > at - 200
    assert peers.told > told
    assert [fact.peers for _, fact in peers.facts if fact.kind is FactKind.COPIES_BEHIND] == [("w",)]
    peers.lose = lambda _: False
    peers.later(20.0)
    assert peers.copied == (at, START)
    assert peers.end("w") == peers.end("y") == (at, START)


def test_a_copy_that_takes_over_has_no_more_than_itself_though_other_copies_have() -> None:
    peers = Source("w", "y")
    peers.emit("n", batch(0, 5), promise(50, 5))
    peers.later(0.2)
    peers.lose = of_copies(Data, "y")
    peers.emit("n", batch(5, 5), promise(100, 10))
    peers.later(0.2)
    assert (peers.end("w"), peers.end("y")) == ((10, 100), (5, 50))
    peers.dead.add("s")
    peers.lose = lambda _: False
    peers.assign("n", Assignment("y", 1, ("w",)))
    assert peers.opened[-1] == ("y", Open("app", "n", Point(5, 50)))
    peers.later(1.0)
    assert peers.copied == (5, 50)
    peers.emit("n", batch(5, 10))
    peers.later(1.0)
    assert peers.rows == list(range(15))
    assert peers.copied == (15, 50)
