"""A few peers that are talked to by hand: what they say to one another, and which of it is lost."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable

import msgspec
import polars as pl

from synergy_nb.dataflow.deployments import Assignment, Deployment, InputFeed
from synergy_nb.dataflow.logic import Logic
from synergy_nb.dataflow.operators import create
from synergy_nb.dataflow.streams.component.component import Component
from synergy_nb.dataflow.streams.hosting.effects import Capture, Effect, Fact, Open, Restore, SendFrame
from synergy_nb.dataflow.streams.hosting.hosting import Hosting
from synergy_nb.dataflow.streams.log.frames import Frame
from synergy_nb.dataflow.streams.log.log import LIMITS, Limits
from synergy_nb.dataflow.streams.log.values import ORIGIN, chunks_of
from synergy_nb.dataflow.tuples import Batch, Item
from synergy_nb.plan import source
from tests.streams.items import batch

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
        self.reads = True  # whether a client collects results as they come
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

    def execute(self, peer: str) -> None:
        """Execute what can be executed at a peer."""
        hosting = self.hostings[peer]
        while (work := hosting.next(self.now)) is not None:
            self.do(peer, hosting.finished(work, work.run(lambda: self.now), self.now))

    def say(self, sender: str, to: str, frame: Frame) -> None:
        hosting = self.hostings[to]
        self.do(to, hosting.receive(sender, frame, self.now))
        self.execute(to)
        for chunk in hosting.results("app", "out", self.collected, math.inf) if self.reads else ():
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


def interleaved(peers: Peers) -> None:
    """The inputs of a union in an order that nobody else can know."""
    peers.emit("m", batch(0, 1))
    peers.emit("n", batch(0, 2))
    peers.emit("m", batch(1, 2))
    peers.emit("n", batch(2, 1))


def moved(peers: Peers) -> Assignment:
    """Three tuples have been read, y follows; the assignment with which it replaces x."""
    assignment = peers.deployment.assignments["u"]
    peers.emit("n", batch(0, 3))
    peers.later(0.5)
    peers.assign("u", msgspec.structs.replace(assignment, backups=(), follower="y"))
    peers.later(0.5)
    return msgspec.structs.replace(assignment, active="y", epoch=1, backups=(), follower="")


COUNTED = ALL.aggregate(by=["v"], window="1 h", n="count(*)", id="u").sink("out", id="out")
