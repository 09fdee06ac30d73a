"""A component moves at any position of its inputs, again and again: its rows are those of a run without moves."""

from __future__ import annotations

import random
from collections.abc import Mapping

import polars as pl
import pytest

from synergy_nb.dataflow.streams.hosting.effects import Effect, Open
from synergy_nb.dataflow.tuples import END, Batch, Item, Punctuation
from synergy_nb.plan import Plan
from synergy_nb.simulator.peer_world import PeerWorld
from synergy_nb.simulator.scripted_faults import Faults, ScriptedSource
from tests.campaigns import blocks
from tests.moving_schedules import CASES, KEYS, packets, rounded, table, undisturbed

POSITIONS = 200
EVERY = 10  # tuples from one move to the next
PACE_S = 0.02
FIRST_S = 0.2  # until the first tuple: a subscription that came before its producer was deployed is repeated by then


class OneByOne(ScriptedSource):
    """A source whose batches have one tuple, each with a promise behind it."""

    def next(self, now: float) -> list[Item]:
        """The next tuple."""
        if self._at == self._table.height:
            self._until = END
            return [Punctuation(END, self._at, now)]
        items: list[Item] = [Batch(self._table.slice(self._at, 1), self._at, now)]
        self._at += 1
        until = int(self._times[self._at]) if self._at < self._table.height else self._until
        if until > self._until:
            self._until = until
            items.append(Punctuation(until, self._at, now))
        return items


class World(PeerWorld):
    """Peers near one another, whose sources emit tuple by tuple."""

    def __init__(self, seed: int, peers: str) -> None:
        super().__init__(seed, tuple(peers), Faults(delay=(0.001, 0.002), capture=0.001))
        self.secrets.update(KEYS)
        self.pace = FIRST_S

    def begin(self) -> None:
        """Wait until the application ``app`` runs, in which all inputs are subscribed before there are tuples."""
        assert self.until(lambda: self.status("app") == "running")
        self.pace = PACE_S

    def _carry_out(self, peer: str, effects: list[Effect]) -> None:
        super()._carry_out(peer, effects)
        for effect in effects:
            if isinstance(effect, Open):
                key = effect.application, effect.operator
                rows = self._inputs[effect.application][effect.operator]
                self.nodes[peer].scripts[key] = OneByOne(rows, random.Random(0), effect.since)

    def read(self, application: str, operator: str) -> int:
        """Tuples of its inputs that a component has executed."""
        key = application, operator
        component = self.nodes[self.where(application)[operator]].hosting.components.get(key)
        return 0 if component is None else sum(port.consumed.position for port in component.ports.values())


def inputs_of(plan: Plan, rows: int) -> dict[str, pl.DataFrame]:
    rng = random.Random(5)
    return {name: table(rng, rows, 10_000 * rows) for name in plan.sources}


def moved(plan: Plan, inputs: Mapping[str, pl.DataFrame], first: int) -> tuple[World, list[int]]:
    """Move ``x`` to and fro at the position ``first`` and every so many later; return where it was each time."""
    world = World(first, "abcdef")
    peers = dict(zip(plan.operators, "abcabcabc", strict=False)) | {"x": "e", "out": "a"}
    world.deploy("app", plan, peers, inputs)
    world.begin()
    at: list[int] = []
    for position in range(first, POSITIONS, EVERY):
        assert world.until(lambda position=position: world.read("app", "x") >= position, 30.0)  # type: ignore[misc]
        at.append(world.read("app", "x"))
        outcome = world.move("app", "x", "f" if len(at) % 2 else "e")
        assert world.until(lambda outcome=outcome: bool(outcome), 5.0)  # type: ignore[misc]
        assert outcome == [""]
    assert world.until(lambda: world.results["app", "out"].ended, 60.0)
    return world, at


@pytest.mark.slow
@pytest.mark.parametrize("first", blocks(EVERY, EVERY))
@pytest.mark.parametrize("name", CASES)
def test_a_component_that_moves_at_every_position_has_the_rows_of_one_that_stays(name: str, first: int) -> None:
    case = CASES[name]
    plan = case.build(*(packets(f"s{number}", number) for number in range(case.sources))).sink(id="out")
    inputs = inputs_of(plan, POSITIONS // min(case.sources, 2) + EVERY)  # the third stream of unions does not reach x
    world, at = moved(plan, inputs, first)
    assert at == list(range(first, POSITIONS, EVERY)), "at exactly these positions"
    wanted = rounded(undisturbed(plan, inputs), case.digits)
    found = rounded(world.results["app", "out"].rows, case.digits)
    assert found == wanted if case.ordered else sorted(found, key=repr) == sorted(wanted, key=repr)


@pytest.mark.slow
def test_a_join_of_two_streams_of_one_peer_moves_with_three_applications_that_read_it() -> None:
    case = CASES["join"]
    plan = case.build(packets("s0"), packets("s1", 1)).sink(id="out")
    inputs = inputs_of(plan, POSITIONS // 2)
    world = World(1, "abcdefgh")
    world.deploy("app", plan, {"s0": "b", "s1": "b", "x": "e", "out": "a"}, inputs)
    world.begin()
    reading = packets("n").filter("true", id="y").sink(id="out")
    for name, reader, origin in (("one", "c", "d"), ("two", "b", "g"), ("three", "h", "a")):
        world.deploy(name, reading, {"n": "", "y": reader, "out": origin}, {}, shares={"n": ("app", "x")})
        assert world.until(lambda name=name: world.status(name) == "running")  # type: ignore[misc]
    for to in "fef":
        assert world.until(lambda: world.read("app", "x") >= 40, 30.0)
        outcome = world.move("app", "x", to)
        assert world.until(lambda outcome=outcome: bool(outcome), 5.0)  # type: ignore[misc]
        assert outcome == [""]
        world.run(0.3)
    names = ("app", "one", "two", "three")
    assert world.until(lambda: all(world.results[name, "out"].ended for name in names), 60.0)
    whole = world.results["app", "out"].rows.rows()
    assert sorted(whole) == sorted(undisturbed(plan, inputs).rows())
    for name in names[1:]:
        found = world.results[name, "out"].rows.rows()
        assert len(found) > len(whole) // 2
        assert found == whole[len(whole) - len(found) :], "all from where it joined, in order"
