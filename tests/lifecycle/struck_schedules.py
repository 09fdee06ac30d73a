"""Schedules in which components with state move and their peers die, drawn from seeds, over whole peers.

They are :mod:`~tests.lifecycle.late_schedules` with other queries and faults, and the same checks at the end:

==============  ========================================================================================================
queries         windows, keyed states and functions of users' own, joins; behind filters
clocks          of the peers are up to two hours apart, as those of machines may be
move            a component moves to another peer
kill in a move  the old or the new peer of a move dies while it moves
two kills       two peers die at once
composition     links are cut while a query is composed
==============  ========================================================================================================

``python -m tests.lifecycle.struck_schedules SEED`` runs one; with ``--shrink`` it looks for the fewest faults that
fail.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final
from unittest import mock

import polars as pl

from synergy_nb import function, keyed, source
from synergy_nb.control.peer import Effect, Message, Peer
from synergy_nb.events import ComponentMoved
from synergy_nb.recording.noted_steps import NotedPeer, NotedSteps
from tests.lifecycle.late_schedules import AVAILABILITIES, TUPLES, Asked, Fault, Schedule, main, run_of

__all__ = ["SOMETIMES", "Struck", "run"]

SHAPES: Final = ("windows", "keyed", "function", "join", "left join")
CLOCKS: Final = (0.0, 0.0, 0.3, 0.6, 60.0, 120.0, 7200.0)  # seconds by which a clock is ahead; none is before zero
LEAST: Final = 5  # peers that live on, so that operators and copies have room

#: What a campaign has to reach at least once; else it tests less than it says.
SOMETIMES: Final = (
    *SHAPES, "clocks are apart", "a component moved", "the old peer of a move died", "the new peer of a move died",
    "two deaths at once", "links were cut during a composition",
)  # fmt: skip


@function(columns={"w": "int"}, deterministic=True)
def doubled(batch: pl.DataFrame) -> pl.DataFrame:
    """Twice the bytes of each packet."""
    return batch.select(w=2 * pl.col("bytes"))


@keyed(columns={"n": "int", "total": "int"}, deterministic=True)
class Numbered:
    """The number of each row of its key, and the sum until then."""

    def __init__(self) -> None:
        self.rows = self.total = 0

    def on_rows(self, key: Any, rows: Iterable[Any]) -> Iterator[dict[str, int]]:
        """Count a row."""
        for row in rows:
            self.rows += 1
            self.total += row["bytes"]
            yield {"n": self.rows, "total": self.total}


class SkewedPeer(NotedPeer):
    """A kernel whose clock is ahead of that of the simulation."""

    __slots__ = ("ahead",)

    def __init__(self, address: str, seed: int, name: str, noted: NotedSteps, ahead: float) -> None:
        super().__init__(address, seed, name, noted)
        self.ahead = ahead

    def start(self, now: float) -> list[Effect]:
        """Start all protocols."""
        return super().start(now + self.ahead)

    def receive(self, sender: str, message: Message, now: float) -> list[Effect]:
        """Handle one message."""
        return super().receive(sender, message, now + self.ahead)

    def tick(self, now: float) -> list[Effect]:
        """Fire the timers that are due; those of this moment are, whatever sums of floats are."""
        due = super().next_timer
        return super().tick(due if due is not None and due - self.ahead == now else now + self.ahead)

    def call(self, now: float, function: Callable[..., Any], *arguments: Any) -> list[Effect]:
        """Call a method of a protocol."""
        return super().call(now + self.ahead, function, *arguments)

    @property
    def next_timer(self) -> float | None:
        """Time of the simulation at which the next timer is due."""
        due = super().next_timer
        return None if due is None else due - self.ahead


def clocks(rng: random.Random) -> Any:
    """A context in which simulated peers are created with clocks of their own."""

    def kernel(noted: NotedSteps, name: str) -> Callable[[str, int], Peer]:
        return lambda address, seed: SkewedPeer(address, seed, name, noted, rng.choice(CLOCKS))

    return mock.patch.object(NotedSteps, "kernel", kernel)


class Struck(Schedule):
    """The schedule of a seed, and what it has come to; see :class:`~tests.lifecycle.late_schedules.Schedule`."""

    command = "tests.lifecycle.struck_schedules"

    def __init__(self, seed: int, keep: Sequence[int] | None = None) -> None:
        rng = random.Random(f"struck/{seed}")
        apart = rng.random() < 0.5
        with clocks(rng) if apart else mock.MagicMock():
            super().__init__(seed, keep)
        self.rng = rng
        if apart:
            self.reached.add("clocks are apart")
        self.moving: list[tuple[str, str, str]] = []  # application, operator, and the peer it moves to

    def _plan(self, number: int, *, shares: bool) -> Asked:
        """Draw an application."""
        rng, shape = self.rng, self.rng.choice(SHAPES)

        def packets(id: str, seed: int) -> Any:  # noqa: A002 - as sources name it
            return source(
                "packets", rate=TUPLES / self.window, seed=seed, sources=8, duration=self.window + 6.0,
                heartbeat=self.window / 20.0, speed=1, at=rng.choice(self.peers), id=id,
            )  # fmt: skip

        stream = packets("s", 100 * self.seed + number).filter("bytes > 20", id="f")
        match shape:
            case "windows":
                every = rng.choice(("1 s", "2 s every 500 ms"))
                stream = stream.aggregate("link", every, n="count(*)", total="sum(bytes)", id="x")
            case "keyed":
                stream = stream.apply_keyed(Numbered, key="source", id="x")
            case "function":
                stream = stream.apply(doubled, keep=True, id="x").aggregate("link", "1 s", sum="sum(w)", id="y")
            case "join" | "left join":
                how = "left" if shape == "left join" else "inner"
                other = packets("t", 100 * self.seed + number + 50)
                stream = stream.join(other, on="source", within="1 s", how=how, id="u")
        sink, availability = rng.choice(self.peers), rng.choice(AVAILABILITIES)
        plan = stream.sink(id="out", at=sink, name=f"a{number}", availability=availability)
        self.reached.add(shape)
        return Asked(plan, rng.choice((sink, rng.choice(self.peers))), availability, availability is None)

    def _draw(self) -> None:
        """Draw the faults."""
        rng, drawn = self.rng, list[Fault]()
        weights = {"move": 4, "kill in a move": 3, "two kills": 1, "hang": 2, "cut": 3, "starve": 1}
        for kind in rng.choices(tuple(weights), tuple(weights.values()), k=rng.choice((1, 1, 2, 3))):
            at = rng.uniform(0.2, 0.6 * self.window)
            drawn += self._fault(kind, at) if kind in ("hang", "cut", "starve") else [Fault(at, kind, (), 0.0)]
        if rng.random() < 0.5:
            (cut,) = self._fault("cut", 0.5 * self.window)
            drawn.append(cut._replace(at=math.inf, kind="composition"))  # when one is composed
        self.faults = [fault for number, fault in enumerate(drawn) if self.keep is None or number in self.keep]

    def _submit(self, asked: Asked) -> None:
        for fault in self.faults:
            if fault.kind == "composition":
                self.world.after(0.02, self._strike, fault._replace(kind="cut"))
                self.reached.add("links were cut during a composition")
        super()._submit(asked)

    def _strike(self, fault: Fault) -> None:
        rng = random.Random(f"{self.seed}/{fault.at}")
        match fault.kind:
            case "move":
                self._move(rng)
            case "kill in a move":
                moved = self._move(rng)
                self.world.after(rng.choice((0.0, 0.05, 0.2, 0.5)), self._kill_in_a_move, rng, moved)
            case "two kills":
                alive = [peer for peer in self.peers if peer not in self.killed]
                if len(alive) >= LEAST + 2:
                    for victim in rng.sample(alive, 2):
                        self._kill(victim)
                    self.reached.add("two deaths at once")
            case "composition":
                pass
            case _:
                super()._strike(fault)

    def _move(self, rng: random.Random) -> tuple[str, str, list[str]] | None:
        """Ask for a move; return the old and the new peer, and the list that gets its outcome."""
        running = {name: graph for name in self.applications if (graph := self._graph(name)) is not None}
        alive = [peer for peer in self.peers if peer not in self.killed]
        choices = [
            (name, operator, old, to)
            for name, graph in running.items()
            for operator, old in graph.roles.peers.items()
            if operator != "out" and old in alive and self.world.origins[name] in alive
            for to in alive
            if to != old
        ]
        if not choices:
            return None
        name, operator, old, to = rng.choice(choices)
        self.moving.append((name, operator, to))
        return old, to, self.world.move(name, operator, to)

    def _kill_in_a_move(self, rng: random.Random, moved: tuple[str, str, list[str]] | None) -> None:
        if moved is None or moved[2] or len(self.peers) - len(self.killed) <= LEAST:
            return  # none moves any more
        old, to, _ = moved
        victim, role = rng.choice(((old, "old"), (to, "new")))
        if victim not in self.killed:
            self._kill(victim)
            self.reached.add(f"the {role} peer of a move died")

    def _kill(self, victim: str) -> None:
        for name, operator, to in self.moving:
            if to == victim:  # its origin may give it the component before it learns of the death
                self.excused.setdefault(name, f"{victim} died, to which {operator} moved")
        super()._kill(victim)

    def _note_events(self) -> None:
        super()._note_events()
        if any(isinstance(each, ComponentMoved) for each in self.journal):
            self.reached.add("a component moved")


def run(seed: int, keep: Sequence[int] | None = None) -> Schedule:
    """Run the schedule of a seed; an error says how to run it again."""
    return run_of(Struck, seed, keep)


if __name__ == "__main__":
    main(Struck)
