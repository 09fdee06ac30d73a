"""A few peers that are talked to by hand: what they say to one another when frames are lost, and when somebody dies."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable

import msgspec
import polars as pl
import pytest

from synergy_nb.dataflow.deployments import Assignment, Deployment, InputFeed, SharedReader
from synergy_nb.dataflow.logic import Logic
from synergy_nb.dataflow.operators import create
from synergy_nb.dataflow.streams.component.component import Component
from synergy_nb.dataflow.streams.hosting.effects import Capture, Effect, Fact, FactKind, Open, Restore, SendFrame
from synergy_nb.dataflow.streams.hosting.hosting import Hosting
from synergy_nb.dataflow.streams.log.frames import (
    Ack,
    ComponentState,
    Data,
    Determinants,
    Frame,
    Recall,
    Subscribe,
    Unsubscribe,
)
from synergy_nb.dataflow.streams.log.log import EXPECTED, LIMITS, Limits
from synergy_nb.dataflow.streams.log.merge import ASKING, SUBSCRIBED
from synergy_nb.dataflow.streams.log.values import (
    COPY,
    ORIGIN,
    Chunk,
    ComponentStream,
    Determinant,
    OnLag,
    OrderRun,
    Output,
    Point,
    Reader,
    chunks_of,
)
from synergy_nb.dataflow.tuples import START, Batch, Item
from synergy_nb.plan import source
from tests.streams.test_merge import batch, promise

ALL = source("python", name="n", columns={"v": "int"}, rate=1.0, id="n")
OTHER = source("python", name="m", columns={"v": "int"}, rate=1.0, id="m")
UNION = ALL.union(OTHER, id="u").sink("out", id="out")
CHAIN = ALL.filter("v >= 0", id="u").sink("out", id="out")


class Peers:
    """Peers whose frames arrive in order, unless they are lost, whenever a test says so."""

    def __init__(self, inputs: int = 1, limits: Limits = LIMITS) -> None:
        self.now = 0.0
        self.plan = UNION if inputs == 2 else CHAIN
        self.collected = ORIGIN
        self.hostings = {peer: Hosting(peer, self.create, limits) for peer in "sxyzw"}
        self.frames: deque[tuple[str, str, Frame]] = deque()
        self.facts: list[tuple[str, Fact]] = []
        self.opened: list[tuple[str, Open]] = []
        self.lose: Callable[[Frame], bool] = lambda _: False
        self.dead: set[str] = set()
        self.rows: list[int] = []
        self.tables: list[pl.DataFrame] = []
        self.captures: list[Capture] | None = None  # that are not made before a test says so
        feeds = tuple(InputFeed("app", name) for name in "nm"[:inputs])
        assignments = {name: Assignment("s") for name in "nm"[:inputs]}
        assignments["u"] = Assignment("x", 0, ("y",), "", feeds)
        assignments["out"] = Assignment("z", 0, (), "", (InputFeed("app", "u"),), (), True)
        self.deployment = Deployment("app", 1, assignments)

    def create(self, _: Deployment, component: Component) -> Logic | None:
        operator = component.operator
        asked = self.plan.operators[operator if operator in self.plan.operators else "u"]
        return None if asked.kind == "source" else create(asked, self.plan, wait=lambda _: None)

    def begin(self) -> Peers:
        self.tell(self.deployment)
        self.later(0.2)
        return self

    def tell(self, deployment: Deployment, *peers: str) -> None:
        """Tell some peers, or all, of a deployment."""
        if deployment.application == "app":
            self.deployment = deployment
        for peer in peers or tuple(self.hostings):
            if peer not in self.dead:
                self.do(peer, self.hostings[peer].converge(deployment, self.now))
        self.deliver()

    def assign(self, operator: str, assignment: Assignment, *peers: str) -> None:
        """Tell some peers, or all, that a component has another assignment."""
        known = self.deployment
        self.tell(
            msgspec.structs.replace(
                known, version=known.version + 1, assignments={**known.assignments, operator: assignment}
            ),
            *peers,
        )

    def do(self, peer: str, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case SendFrame(to, frame):
                    self.frames.append((peer, to, frame))
                case Capture() if self.captures is not None:
                    self.captures.append(effect)
                case Capture():
                    made = effect.encode(effect.save())
                    self.do(peer, self.hostings[peer].captured(effect, made, self.now))
                case Restore():
                    effect.make()
                    self.do(peer, self.hostings[peer].restored(effect, None, self.now))
                case Open():
                    self.opened.append((peer, effect))
                case Fact():
                    self.facts.append((peer, effect))

    def deliver(self) -> None:
        """Let all arrive that is under way, and execute what can be executed."""
        while self.frames:
            sender, to, frame = self.frames.popleft()
            if to not in self.dead and not self.lose(frame):
                self.say(sender, to, frame)

    def say(self, sender: str, to: str, frame: Frame) -> None:
        hosting = self.hostings[to]
        self.do(to, hosting.receive(sender, frame, self.now))
        while (work := hosting.next(self.now)) is not None:
            self.do(to, hosting.finished(work, work.run(lambda: self.now), self.now))
        for chunk in hosting.results("app", "out", self.collected, math.inf):
            self.collected = chunk.end
            self.do(to, hosting.collected("app", "out", chunk.end, chunk.end, self.now))
            if isinstance(chunk.item, Batch):
                self.tables.append(chunk.item.table)
                self.rows += chunk.item.table.get_column("v").to_list()

    def later(self, seconds: float) -> None:
        """Let time pass in small steps."""
        for _ in range(round(seconds / 0.05)):
            self.now += 0.05
            for peer, hosting in self.hostings.items():
                if peer not in self.dead:
                    self.do(peer, hosting.tick(self.now))
            self.deliver()

    def emit(self, operator: str, *items: Item, deliver: bool = True) -> None:
        peer = self.deployment.assignments[operator].active
        hosting = self.hostings[peer]
        chunks = chunks_of(items, hosting.components["app", operator].log.end)
        self.do(peer, hosting.emit("app", operator, chunks, self.now))
        if deliver:
            self.deliver()

    def said(self, kind: str) -> list[str]:
        return [f"{peer} {fact.application} {fact.operator}" for peer, fact in self.facts if fact.kind == kind]


def once(kind: type, number: int = 1) -> Callable[[Frame], bool]:
    """Loses the first frames of a kind."""
    left = [number]

    def lose(frame: Frame) -> bool:
        if isinstance(frame, kind) and left[0]:
            left[0] -= 1
            return True
        return False

    return lose


HEIR = Assignment("y", 1, (), "", (InputFeed("app", "n"),))
HEIR2 = Assignment("y", 1, (), "", (InputFeed("app", "n"), InputFeed("app", "m")))

# -- what is lost --------------------------------------------------------------------------------------------------


def test_a_lost_subscription_answer_or_acknowledgement_is_repeated() -> None:
    for kind in (Subscribe, Data, Ack):
        peers = Peers()
        peers.lose = once(kind, 3)
        peers.begin()
        peers.emit("n", batch(0, 3))
        peers.lose = once(kind, 3)
        peers.emit("n", batch(3, 2))
        peers.later(5.0)
        assert peers.rows == [0, 1, 2, 3, 4], kind
        assert len(peers.hostings["s"].components["app", "n"].log) == 0, f"{kind}: its log is not trimmed"


def test_the_last_chunk_is_sent_again_though_nothing_follows() -> None:
    peers = Peers().begin()
    peers.lose = lambda frame: isinstance(frame, Data) and bool(frame.chunks)
    peers.emit("n", batch(0, 3))
    peers.lose = lambda _: False
    assert peers.rows == []
    peers.later(1.0)
    assert peers.rows == [0, 1, 2]


def test_a_lost_acknowledgement_does_not_hold_the_producer_up_for_ever() -> None:
    peers = Peers(limits=Limits(200, 300))
    peers.deployment.assignments["u"] = msgspec.structs.replace(peers.deployment.assignments["u"], backups=())
    peers.begin()
    peers.lose = lambda frame: isinstance(frame, Ack) and frame.reader.port == 0 and frame.consumed > ORIGIN
    peers.emit("n", batch(0, 20))
    peers.later(0.2)
    end = peers.hostings["s"].components["app", "n"].log.end
    peers.say("x", "s", Ack(Output("app", "n"), Reader("app", "u", 0, "x"), end, ORIGIN, ORIGIN))
    peers.lose = lambda _: False
    assert not peers.hostings["s"].may_emit("app", "n")
    peers.later(2.0)
    assert peers.hostings["s"].may_emit("app", "n")


def test_a_lost_snapshot_is_sent_again_though_nothing_follows() -> None:
    peers = Peers().begin()
    peers.lose = lambda frame: isinstance(frame, ComponentState)
    peers.emit("n", batch(0, 3))
    peers.later(0.5)
    assert len(peers.hostings["s"].components["app", "n"].log) == 1
    peers.lose = lambda _: False
    peers.later(2.0)
    assert len(peers.hostings["s"].components["app", "n"].log) == 0


def test_a_copy_whose_position_was_trimmed_begins_anew_though_nothing_follows() -> None:
    peers = Peers().begin()
    peers.lose = lambda frame: isinstance(frame, Data) and frame.reader.port == COPY
    peers.emit("n", batch(0, 3))
    peers.later(3.0)  # the sink has all, and the log has let go of it
    peers.lose = lambda _: False
    peers.later(3.0)
    assert peers.hostings["y"].roles.copies["app", "u"].merge.received == Point(3, START)
    assert len(peers.hostings["s"].components["app", "n"].log) == 0


def test_a_broken_link_loses_nothing() -> None:
    peers = Peers().begin()
    peers.lose = lambda frame: isinstance(frame, Data)
    peers.emit("n", batch(0, 3))
    peers.lose = lambda _: False
    for one, other in ("sx", "xs"):
        peers.do(one, peers.hostings[one].link_down(other, peers.now))
    peers.later(0.1)
    assert peers.rows == [0, 1, 2], "it does not wait until it sends again by itself"


# -- who takes over --------------------------------------------------------------------------------------------------


def test_a_backup_takes_over_and_nothing_is_lost_or_doubled() -> None:
    peers = Peers().begin()
    peers.emit("n", batch(0, 3))
    peers.later(0.5)
    peers.lose = lambda frame: isinstance(frame, ComponentState)
    peers.emit("n", batch(3, 3))
    peers.dead.add("x")
    peers.lose = lambda _: False
    peers.assign("u", HEIR)
    peers.emit("n", batch(6, 1))
    peers.later(0.5)
    assert peers.rows == [0, 1, 2, 3, 4, 5, 6]
    assert peers.said("taken_over") == ["y app u"]


def interleaved(peers: Peers) -> None:
    """The inputs of a union in an order that nobody else can know."""
    peers.emit("m", batch(0, 1))
    peers.emit("n", batch(0, 2))
    peers.emit("m", batch(1, 2))
    peers.emit("n", batch(2, 1))


def test_a_successor_reads_in_the_order_that_its_readers_have_seen() -> None:
    peers = Peers(2).begin()
    peers.lose = lambda frame: (
        isinstance(frame, ComponentState) or (isinstance(frame, Data) and frame.reader.port == COPY)
    )
    interleaved(peers)
    assert peers.rows == [0, 0, 1, 1, 2, 2]
    peers.dead.add("x")
    peers.assign("u", HEIR2)
    peers.later(0.5)
    again = peers.hostings["y"].components["app", "u"]
    order = [run for each in peers.hostings["z"].orders.of(ComponentStream("app", "u")) for run in each.runs]
    assert [run.port for run in order] == [1, 0, 1, 0]
    assert (again.ports[0].consumed, again.ports[1].consumed) == (Point(3, START), Point(3, START))
    peers.emit("n", batch(3, 1))
    assert peers.rows == [0, 0, 1, 1, 2, 2, 3]


def test_a_successor_of_a_rebuilt_replica_reads_in_the_order_of_its_stream_and_not_of_the_lost_one() -> None:
    peers = Peers(2)
    assignments = peers.deployment.assignments
    assignments["u"] = msgspec.structs.replace(assignments["u"], epoch=1, rebuilt=1)
    peers.begin()
    lost = Determinant(
        ComponentStream("app", "u"),
        ORIGIN,
        Point(6, START),
        (OrderRun(0, Point(3, 0)), OrderRun(1, Point(3, 0))),
        ORIGIN,
    )
    peers.hostings["z"].orders.add([lost])
    peers.lose = lambda frame: (
        isinstance(frame, ComponentState) or (isinstance(frame, Data) and frame.reader.port == COPY)
    )
    interleaved(peers)
    assert peers.rows == [0, 0, 1, 1, 2, 2]
    peers.dead.add("x")
    peers.assign("u", msgspec.structs.replace(HEIR2, epoch=2, rebuilt=1))
    again = peers.hostings["y"].components["app", "u"]
    assert not again.reading.free, "it asks before it decides"
    peers.later(0.5)
    order = [run for each in peers.hostings["z"].orders.of(ComponentStream("app", "u", 1)) for run in each.runs]
    assert [run.port for run in order] == [1, 0, 1, 0]
    assert (again.ports[0].consumed, again.ports[1].consumed) == (Point(3, START), Point(3, START))
    peers.emit("n", batch(3, 1))
    assert peers.rows == [0, 0, 1, 1, 2, 2, 3], "nothing twice, and nothing missing"


def test_a_peer_answers_once_it_knows_the_deployment_and_then_refuses_the_replaced() -> None:
    peers = Peers(2).begin()
    peers.lose = lambda frame: isinstance(frame, ComponentState)
    interleaved(peers)
    peers.dead.add("x")
    peers.assign("u", HEIR2, "s", "y", "w")  # not the reader
    peers.later(0.5)
    assert peers.said("taken_over") == []
    assert peers.hostings["y"].roles.recoveries["app", "u"].missing == {"z"}
    peers.tell(peers.deployment, "z")
    component = peers.hostings["z"].components["app", "out"]
    late = Data(Output("app", "u"), component.reader(0), Point(6, START))
    before = component.ports[0].received
    peers.say("x", "z", msgspec.structs.replace(late, start=before._replace(until=99)))
    assert component.ports[0].received == before
    peers.later(0.5)
    assert peers.said("taken_over") == ["y app u"]


def test_a_subscription_before_the_deployment_is_answered_after_it() -> None:
    peers = Peers(2).begin()
    peers.dead.add("x")
    peers.assign("u", HEIR2, "s", "y", "w")
    peers.later(0.05)
    assert peers.hostings["y"].roles.recoveries["app", "u"].missing == {"z"}
    peers.lose = lambda frame: isinstance(frame, Recall)
    peers.tell(peers.deployment, "z")
    peers.deliver()
    assert peers.said("taken_over") == ["y app u"]


def test_a_sharer_that_left_an_earlier_deployment_still_answers() -> None:
    """Seen in a campaign: no later deployment is sent to it, and the component that took over waited for ever."""
    peers = Peers(2).begin()
    interleaved(peers)
    second = Deployment("second", 1, {"g": Assignment("w")}, producer_epochs={"app": {"u": 0}})
    peers.tell(second, "w")
    peers.dead.add("x")
    peers.deployment = msgspec.structs.replace(peers.deployment, witnesses=("w",))
    peers.assign("u", HEIR2, "s", "y", "z")
    peers.later(0.5)
    assert peers.hostings["y"].roles.recoveries["app", "u"].missing == {"w"}, "it may still read from x"
    peers.tell(msgspec.structs.replace(second, version=2, producer_epochs={"app": {"u": 1}}), "w")
    peers.later(0.5)
    assert peers.said("taken_over") == ["y app u"]


def test_answers_of_an_earlier_version_do_not_count() -> None:
    peers = Peers(2).begin()
    peers.dead |= {"x", "z"}
    peers.assign("u", HEIR2)
    peers.later(0.2)
    recovery = peers.hostings["y"].roles.recoveries["app", "u"]
    peers.assign("out", msgspec.structs.replace(peers.deployment.assignments["out"], epoch=1, active="w"))
    peers.lose = lambda frame: isinstance(frame, Recall | Determinants)
    assert "w" in recovery.missing
    for version, missing in ((2, True), (3, False)):
        recovery.missing = {"w", "s"}
        question = recovery.recall(peers.now)[0].question
        peers.say("w", "y", Determinants(ComponentStream("app", "u"), version, (), question))
        assert ("w" in recovery.missing) is missing


def test_a_snapshot_carries_the_order_and_the_causes_that_no_chunk_has_carried() -> None:
    peers = Peers(2).begin()
    peers.emit("m", promise(5, 0))  # a union says nothing before it has promises of all inputs
    peers.later(0.5)
    active = peers.hostings["x"].components["app", "u"]
    assert [run.upto for run in active.reading.runs] == [Point(0, 5)]
    state = peers.hostings["y"].roles.copies["app", "u"].state
    assert state is not None
    assert state.order == tuple(active.reading.runs)
    peers.frames.clear()
    peers.do("y", peers.hostings["y"].receive("w", Recall(Output("app", "u", 1), 1), peers.now))
    (answer,) = [frame for _, to, frame in peers.frames if to == "w" and isinstance(frame, Determinants)]
    assert (answer.found[-1].start, answer.found[-1].runs) == (state.end, state.order)
    peers.frames.clear()
    upper = answer.found[-1]._replace(stream=ComponentStream("app", "n"), end=Point(9, 9))
    copy = peers.hostings["y"].roles.copies["app", "u"]
    copy.state = msgspec.structs.replace(state, causes=(upper,))
    peers.dead.add("x")
    peers.assign("u", HEIR2)
    heir = peers.hostings["y"].components["app", "u"]
    assert heir.reading.runs == list(state.order)
    assert heir.reading.causes == [upper]
    assert heir.reading.known == state.end


def test_reading_orders_received_with_an_input_are_passed_on_with_its_results() -> None:
    peers = Peers().begin()
    cause = Determinant(ComponentStream("app", "upper"), ORIGIN, Point(3, START), (), ORIGIN)
    active = peers.hostings["x"].components["app", "u"]
    (made,) = chunks_of([batch(0, 3)], ORIGIN)
    made.determinants = (cause,)
    peers.say("s", "x", Data(Output("app", "n"), active.reader(0), ORIGIN, (made,)))
    peers.deliver()
    for peer in "xyz":
        assert peers.hostings[peer].orders.of(cause.stream) == (cause,), peer


def test_a_successor_reads_in_order_the_tuples_before_a_punctuation_of_its_copy() -> None:
    peers = Peers(2).begin()
    stream = ComponentStream("app", "u")
    first = Determinant(stream, ORIGIN, Point(0, 10), (OrderRun(1, Point(2, 10)), OrderRun(0, Point(1, 10))), ORIGIN)
    made = Chunk(ORIGIN, Point(0, 10), promise(10, 0), 64, (first,))
    peers.later(0.5)
    peers.say("x", "y", Data(Output("app", "u"), Reader("app", "u", COPY, "y"), ORIGIN, (made,)))
    assert peers.hostings["y"].roles.copies["app", "u"].log.end == Point(0, 10)
    peers.dead.add("x")
    peers.assign("u", HEIR2)
    peers.later(0.2)
    assert list(peers.hostings["y"].components["app", "u"].reading.prescribed) == list(first.runs)


def test_a_prescribed_run_of_which_a_part_has_come_is_begun() -> None:
    peers = Peers(2).begin()
    orders = (
        Determinant(ComponentStream("app", "u"), ORIGIN, Point(4, START), (OrderRun(0, Point(4, START)),), ORIGIN),
    )
    peers.hostings["z"].orders.add(orders)
    peers.dead.add("x")
    peers.emit("n", batch(0, 2))
    peers.assign("u", HEIR2)
    peers.later(0.5)
    heir = peers.hostings["y"].components["app", "u"]
    assert heir.ports[0].consumed == Point(2, START)
    peers.emit("m", batch(0, 2))
    assert heir.ports[1].consumed == ORIGIN, "it is not its turn"
    peers.emit("n", batch(2, 2))
    peers.later(0.1)
    assert peers.rows == [0, 1, 2, 3, 0, 1]


def test_inputs_are_kept_until_the_last_of_all_copies_has_a_snapshot() -> None:
    peers = Peers()
    peers.deployment.assignments["u"] = msgspec.structs.replace(peers.deployment.assignments["u"], backups=("y", "w"))
    peers.begin()
    peers.lose = lambda frame: isinstance(frame, ComponentState) and frame.reader.peer == "w"
    peers.emit("n", batch(0, 3))
    peers.later(1.0)
    assert len(peers.hostings["s"].components["app", "n"].log) == 1
    peers.lose = lambda _: False
    peers.later(2.0)
    assert len(peers.hostings["s"].components["app", "n"].log) == 0


def test_an_outdated_subscription_of_a_follower_does_not_end_it() -> None:
    peers = Peers().begin()
    assignment = peers.deployment.assignments["u"]
    peers.emit("n", batch(0, 3))
    peers.later(0.5)
    peers.assign("u", msgspec.structs.replace(assignment, backups=(), follower="y"))
    peers.later(0.5)
    peers.emit("n", batch(3, 3))
    peers.later(0.5)
    reader = peers.hostings["y"].components["app", "u"].reader(0)
    peers.say("y", "s", Unsubscribe(Output("app", "n"), reader))  # both are old, and have been overtaken
    peers.say("y", "s", Subscribe(Output("app", "n"), reader, ORIGIN, OnLag.RESYNC))
    peers.deliver()
    assert peers.said("component_failed") == []
    peers.assign("u", msgspec.structs.replace(assignment, active="y", epoch=1, backups=(), follower=""))
    peers.emit("n", batch(6, 1))
    peers.later(0.5)
    assert peers.rows == [0, 1, 2, 3, 4, 5, 6], "nobody knew that it reads"


def moved(peers: Peers) -> Assignment:
    """Three tuples have been read, y follows; the assignment with which it replaces x."""
    assignment = peers.deployment.assignments["u"]
    peers.emit("n", batch(0, 3))
    peers.later(0.5)
    peers.assign("u", msgspec.structs.replace(assignment, backups=(), follower="y"))
    peers.later(0.5)
    return msgspec.structs.replace(assignment, active="y", epoch=1, backups=(), follower="")


def test_a_producer_that_lost_a_subscription_which_its_reader_believes_in_asks_for_it() -> None:
    """An Unsubscribe of y's first follower is overtaken by the subscription of its second, which has replaced x."""
    peers = Peers().begin()
    heir = moved(peers)
    peers.assign("u", heir, "y")
    peers.later(0.1)
    reader = peers.hostings["y"].components["app", "u"].reader(0)
    peers.say("y", "s", Unsubscribe(Output("app", "n"), reader))
    peers.tell(peers.deployment)
    assert peers.hostings["y"].components["app", "u"].ports[0].state is SUBSCRIBED
    assert peers.hostings["s"].components["app", "n"].log.cursors[reader].state is EXPECTED
    peers.emit("n", batch(3, 3))
    peers.later(2.0)
    assert peers.rows == [0, 1, 2, 3, 4, 5]
    assert len(peers.hostings["s"].components["app", "n"].log) == 0


def test_an_old_answer_confirms_no_subscription_for_ever() -> None:
    """What y was sent as a follower arrives after it has replaced x; then it does not subscribe again."""
    peers = Peers().begin()
    heir = moved(peers)
    reader = peers.hostings["y"].components["app", "u"].reader(0)
    peers.say("y", "s", Unsubscribe(Output("app", "n"), reader))
    peers.lose = lambda frame: isinstance(frame, Subscribe) and frame.reader == reader
    peers.assign("u", heir)
    peers.later(0.1)
    peers.say("s", "y", Data(Output("app", "n"), reader, Point(3, START)))
    peers.lose = lambda _: False
    assert peers.hostings["y"].components["app", "u"].ports[0].state is SUBSCRIBED
    assert peers.hostings["s"].components["app", "n"].log.cursors[reader].state is EXPECTED
    peers.emit("n", batch(3, 3))
    peers.later(2.0)
    assert peers.rows == [0, 1, 2, 3, 4, 5]


def test_a_copy_that_believes_that_it_is_subscribed_is_asked() -> None:
    """One deployment had it discarded, the next one kept again; its peer knows only the second."""
    peers = Peers().begin()
    assignment = peers.deployment.assignments["u"]
    peers.emit("n", batch(0, 3))
    peers.later(0.5)
    peers.assign("u", msgspec.structs.replace(assignment, backups=()), "s", "x", "z")
    peers.emit("n", batch(3, 3))
    peers.later(0.5)
    peers.assign("u", assignment)
    peers.emit("n", batch(6, 3))
    peers.later(3.0)
    copy = peers.hostings["y"].roles.copies["app", "u"]
    assert copy.merge.received == Point(9, START)
    assert copy.state is not None
    assert copy.state.end == Point(9, START)
    assert len(peers.hostings["s"].components["app", "n"].log) == 0


def test_an_old_acknowledgement_subscribes_nobody_and_fails_nobody() -> None:
    peers = Peers().begin()
    heir = moved(peers)
    reader = peers.hostings["y"].components["app", "u"].reader(0)
    peers.say("y", "s", Unsubscribe(Output("app", "n"), reader))
    peers.lose = lambda frame: isinstance(frame, Subscribe) and frame.reader == reader
    peers.assign("u", heir)
    peers.say("y", "s", Ack(Output("app", "n"), reader, Point(1, START), ORIGIN, ORIGIN))
    cursor = peers.hostings["s"].components["app", "n"].log.cursors[reader]
    assert cursor.state is EXPECTED
    peers.lose = lambda _: False
    peers.emit("n", batch(3, 3))
    peers.later(2.0)
    assert (peers.said("component_failed"), peers.rows) == ([], [0, 1, 2, 3, 4, 5])


def test_a_reader_that_does_not_answer_is_asked_ever_more_rarely() -> None:
    peers = Peers()
    asked: list[float] = []

    def lose(frame: Frame) -> bool:
        if isinstance(frame, Data) and frame.reader.port >= 0:
            asked.append(peers.now)
        return isinstance(frame, Subscribe | Data)

    peers.lose = lose
    peers.begin()
    peers.emit("n", batch(0, 3))
    peers.later(20.0)
    assert 4 < len(asked) < 16, "two outputs"
    left = [1, 1]  # first chunks of each output

    def lose_first(frame: Frame) -> bool:
        return (
            isinstance(frame, Data)
            and bool(frame.chunks)
            and frame.reader.port >= 0
            and bool(left)
            and bool(left.pop())
        )

    peers.lose = lose_first
    peers.later(3.0)
    assert (left, peers.rows) == ([], [0, 1, 2]), "what is lost is sent again as soon as ever"


def test_a_peer_without_a_role_deletes_the_reading_orders_that_it_knew() -> None:
    peers = Peers(2).begin()
    interleaved(peers)
    assert peers.hostings["y"].orders.of(ComponentStream("app", "u"))
    assignment = msgspec.structs.replace(peers.deployment.assignments["u"], backups=("w",))
    peers.assign("u", assignment)
    assert not peers.hostings["y"].orders.of(ComponentStream("app", "u"))
    assert peers.hostings["z"].orders.of(ComponentStream("app", "u"))


def test_an_outdated_answer_does_not_reset_a_copy() -> None:
    peers = Peers().begin()
    peers.emit("n", batch(0, 3))
    copy = peers.hostings["y"].roles.copies["app", "u"]
    peers.say("x", "y", Data(Output("app", "u"), Reader("app", "u", COPY, "y"), ORIGIN, (), True))
    assert copy.log.end == copy.merge.received == Point(3, START)


def test_a_copy_does_not_begin_in_the_middle() -> None:
    peers = Peers()
    peers.lose = lambda frame: isinstance(frame, Data) and frame.reader.port == COPY and not frame.chunks
    peers.begin()
    peers.emit("n", batch(0, 3))
    peers.later(0.5)
    assert not peers.hostings["y"].roles.copies["app", "u"].merge.joined


def test_an_outdated_answer_to_a_removed_copy_does_not_start_the_new_one() -> None:
    """Seen in a campaign: a peer kept a copy, no longer, and again; the first one's answer came to the second."""
    peers = Peers()
    peers.lose = lambda frame: isinstance(frame, Data) and frame.reader.port == COPY
    peers.begin()
    peers.emit("n", batch(0, 3))
    copy = peers.hostings["y"].roles.copies["app", "u"]
    peers.say("x", "y", Data(Output("app", "u"), Reader("app", "u", COPY, "y"), Point(8, 5)))
    assert not copy.merge.joined
    assert not copy.log
    peers.lose = lambda _: False
    peers.later(0.5)
    assert copy.log.end == copy.merge.received == Point(3, START)


def test_a_follower_continues_at_its_position_after_a_move() -> None:
    peers = Peers(2).begin()
    interleaved(peers)
    assignment = peers.deployment.assignments["u"]
    peers.assign("u", msgspec.structs.replace(assignment, backups=(), follower="w"))
    peers.later(1.0)
    peers.emit("m", batch(3, 1))
    peers.emit("n", batch(3, 1))
    peers.later(0.5)
    follower, active = (peers.hostings[peer].components["app", "u"] for peer in "wx")
    assert follower.log.end == active.log.end == Point(8, START)
    peers.assign("u", msgspec.structs.replace(assignment, active="w", epoch=1, backups=(), follower=""))
    peers.emit("n", batch(4, 1))
    peers.later(0.5)
    assert peers.rows == [0, 0, 1, 1, 2, 2, 3, 3, 4]
    assert ("app", "u") not in peers.hostings["x"].components


def test_a_reader_that_is_sent_chunks_before_it_has_subscribed_subscribes_nevertheless() -> None:
    peers = Peers().begin()
    assignment = moved(peers)
    peers.lose = lambda frame: isinstance(frame, Subscribe)
    peers.assign("u", assignment)
    peers.emit("n", batch(3, 1))
    assert peers.rows == [0, 1, 2, 3]
    port = peers.hostings["z"].components["app", "out"].ports[0]
    before = port.state
    assert before is ASKING, "the new peer need not know of it"
    peers.lose = lambda _: False
    peers.later(1.0)
    assert port.state is SUBSCRIBED


def test_a_follower_that_is_sent_a_snapshot_before_it_has_subscribed_subscribes_nevertheless() -> None:
    peers = Peers().begin()
    peers.emit("n", batch(0, 3))
    peers.lose = lambda frame: isinstance(frame, Subscribe) and frame.reader.port == COPY
    assignment = msgspec.structs.replace(peers.deployment.assignments["u"], backups=(), follower="w")
    peers.assign("u", assignment)
    peers.later(0.05)
    copy = peers.hostings["w"].roles.copies["app", "u"]
    assert ("app", "u") in peers.hostings["w"].components
    before = copy.merge.state
    assert before is ASKING, "the old peer need not know of it"
    peers.lose = lambda _: False
    peers.later(1.0)
    assert copy.merge.state is SUBSCRIBED


def test_a_source_moves_and_is_read_from_where_its_copy_is() -> None:
    peers = Peers()
    peers.deployment.assignments["n"] = Assignment("s", 0, ("y",))
    peers.begin()
    peers.emit("n", batch(0, 3))
    peers.later(0.5)
    peers.assign("n", Assignment("y", 1))
    assert [(peer, each.since) for peer, each in peers.opened] == [("s", ORIGIN), ("y", Point(3, START))]
    peers.emit("n", batch(3, 1))
    peers.later(0.5)
    assert peers.rows == [0, 1, 2, 3]


# -- who shares ------------------------------------------------------------------------------------------------------


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


def test_tuples_in_transit_over_a_slow_link_are_not_repeated() -> None:
    peers = Peers().begin()
    held: list[tuple[str, str, Frame]] = []
    peers.emit("n", batch(0, 3), deliver=False)
    sent = 0
    for _ in range(300):  # 15 s, in which nothing arrives
        peers.now += 0.05
        for peer, hosting in peers.hostings.items():
            peers.do(peer, hosting.tick(peers.now))
        while peers.frames:
            frame = peers.frames.popleft()
            sent += isinstance(frame[2], Data) and bool(frame[2].chunks)
            held.append(frame)
    assert 2 <= sent <= 6
    peers.frames.extend(held)
    peers.later(1.0)
    assert peers.rows == [0, 1, 2]


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
