"""Synchronization and deterministic order on the data path: whatever happens to peers, results stay the same.

The schedules are those of passive replication. Synchronization promises one thing more, which is checked for each chunk
that leaves a component: every backup that readers wait for has it.
"""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from synergy_experiments.flows.stream_world import StreamWorld
from synergy_nb.dataflow.deployments import Role
from synergy_nb.dataflow.streams.hosting._snapshots import HELD_S
from synergy_nb.dataflow.streams.hosting.effects import FactKind
from synergy_nb.dataflow.streams.hosting.hosting import Hosting
from synergy_nb.dataflow.streams.log.frames import Data, Frame, Recall
from synergy_nb.dataflow.streams.log.log import Limits
from synergy_nb.dataflow.streams.log.values import COPY
from synergy_nb.plan import Plan
from synergy_nb.plan.checks.validation import Checked, Operator
from synergy_nb.plan.terms.qos import QoS
from tests.moving_schedules import undisturbed
from tests.quick_cases import quick_first
from tests.stream_schedules import (
    PEERS,
    Row,
    deep_query,
    disturb,
    drawn_faults,
    finish,
    hostile_faults,
    inputs_of,
    placed,
    query,
    sorted_rows,
    stream,
)

TECHNIQUES = ("synchronized", "ordered")


class Watched(StreamWorld):
    """Peers of which each chunk is checked that leaves a synchronized component for a reader."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.unconfirmed = self.confirmed = 0  # chunks that a backup lacked, and had, when a reader was sent them
        self.recalls: list[Recall] = []

    def hosting_of(self, peer: str) -> Hosting:
        return self.nodes[peer].hosting

    def _send(self, peer: str, to: str, frame: Frame) -> None:
        if isinstance(frame, Recall):
            self.recalls.append(frame)
        if isinstance(frame, Data) and frame.chunks and frame.reader.port != COPY:
            component = self.nodes[peer].hosting.producer(frame.output)
            for backup in () if component is None else component.copy_holders.confirming:
                copy = self.nodes[backup].hosting.roles.copies.get((frame.output.application, frame.output.operator))
                if copy is not None and copy.output == frame.output:
                    has = copy.merge.received >= frame.chunks[-1].end
                    self.confirmed += has
                    self.unconfirmed += not has
        super()._send(peer, to, frame)


def changed(plan: Plan, operators: dict[str, Operator], qos: QoS) -> Plan:
    schemas = {name: plan.schema(name) for name in plan.operators}
    windows = {name: plan.window(name) for name in plan.operators}
    return Plan.composed(plan.name, qos, Checked(operators, schemas, windows))


def asking(plan: Plan, **qos: int) -> Plan:
    """The same plan with a requirement."""
    return changed(plan, dict(plan.operators), msgspec.structs.replace(plan.qos, **qos))


def mixed(plan: Plan, rng: random.Random, degree: int) -> Plan:
    """The same plan, in which each operator asks for a technique of its own."""
    operators = {
        name: msgspec.structs.replace(each, availability=f"{rng.choice(('degree', *TECHNIQUES))} {degree}")
        if each.inputs and each.kind != "sink"
        else each
        for name, each in plan.operators.items()
    }
    return changed(plan, operators, plan.qos)


def run(seed: int, *, technique: str = "", hostile: bool = False, pressed: bool = False) -> Watched:
    """Run a query under faults and check its results.

    Parameters
    ----------
    seed
        Seed of everything that is drawn.
    technique
        What all operators ask for; empty: each for another technique.
    hostile
        Whether components with several inputs follow one another, and much is lost and late.
    pressed
        Whether clients are slow and windows small.
    """
    rng = random.Random(seed)
    plan = (deep_query if hostile else query)(rng)
    degree = rng.choice((2, 2, 3))
    plan = asking(plan, **{technique: degree}) if technique else mixed(plan, rng, degree)
    peers, backups = placed(rng, plan, degree)
    inputs = inputs_of(rng, plan, groups=3 if hostile else 10, rows=60 if hostile or pressed else 120)
    wanted = undisturbed(plan, inputs)
    limits = Limits(1_500, 4_000, 1_500, 200) if pressed else Limits(piece=(1 << 20, 200, 4_000)[seed % 3])
    faults = hostile_faults(rng) if hostile else drawn_faults(rng)
    world = Watched(seed, PEERS, faults, codec=seed % 4 == 0, limits=limits)
    world.pace = rng.choice((0.02, 0.06))
    world.clients["app", "out"] = rng.choice((0.02, 0.5))
    world.deploy("app", plan, peers, inputs, backups=backups)
    disturb(world, rng, rng.randint(1, 8), longest=rng.choice((0.2, 0.6)))
    finish(world)
    world.clients["app", "out"] = 0.02
    finish(world)
    assert not world.failures(), world.failures()
    assert world.results["app", "out"].ended, "it stands still"
    assert sorted_rows(world.results["app", "out"].rows) == sorted_rows(wanted)
    assert not world.unconfirmed, "a reader was sent what a backup lacked"
    return world


@pytest.mark.parametrize("technique", TECHNIQUES)
@pytest.mark.parametrize("seed", quick_first(range(8), 1))
def test_results_are_those_of_the_undisturbed_run(technique: str, seed: int) -> None:
    world = run(seed, technique=technique)
    assert bool(world.confirmed) == (technique == "synchronized")


@pytest.mark.slow
@pytest.mark.parametrize("technique", TECHNIQUES)
@pytest.mark.parametrize("seed", quick_first(range(8), 1))
def test_components_in_a_row_survive_much_loss(technique: str, seed: int) -> None:
    run(100 + seed, technique=technique, hostile=True)


@pytest.mark.slow
@pytest.mark.parametrize("seed", quick_first(range(8), 1))
def test_techniques_can_meet_in_one_plan(seed: int) -> None:
    run(200 + seed, hostile=True)


@pytest.mark.parametrize("technique", TECHNIQUES)
@pytest.mark.parametrize("seed", quick_first(range(6), 1))
def test_small_windows_stall_nothing(technique: str, seed: int) -> None:
    run(300 + seed, technique=technique, pressed=True)


# -- single properties ---------------------------------------------------------------------------------------------


def merging(technique: str, rows: int = 400, limits: Limits | None = None) -> tuple[Watched, list[Row]]:
    """A union at ``c`` with its backup at ``d``, and the rows that it has to make."""
    rng = random.Random(1)
    one, other = stream("n"), stream("m")
    plan = asking(one.union(other, id="u").filter("v >= 0", id="f").sink("out", id="out"), **{technique: 2})
    inputs = inputs_of(rng, plan, rows=rows)
    world = Watched(1, tuple("abcd"), limits=limits or Limits())
    world.pace = 0.4
    world.clients["app", "out"] = 0.02
    where = {"n": "a", "m": "b", "u": "c", "f": "a", "out": "a"}
    world.deploy("app", plan, where, inputs, backups={"u": ("d",)})
    return world, sorted_rows(undisturbed(plan, inputs))


def ends(world: Watched, wanted: list[Row]) -> None:
    world.pace = 0.02
    finish(world)
    assert not world.failures(), world.failures()
    assert world.results["app", "out"].ended, "it stands still"
    assert sorted_rows(world.results["app", "out"].rows) == wanted


def came(world: Watched) -> int:
    return world.results["app", "out"].rows.height


@pytest.mark.slow
def test_readers_of_a_synchronized_component_wait_for_its_backup_but_not_for_ever() -> None:
    world, wanted = merging("synchronized")
    world.run(3.0)
    before = came(world)
    assert before
    world.cut("c", "d", HELD_S + 15.0)
    world.run(0.5)
    held = came(world)
    world.run(HELD_S - 5.0)
    assert came(world) == held, "a backup that does not answer is waited for"
    world.run(7.0)
    assert came(world) > held, "and left behind after a while"
    assert any(fact.kind is FactKind.COPIES_BEHIND and fact.peers == ("d",) for _, _, fact in world.facts)
    world.run(20.0)
    assert world.hosting_of("c").components["app", "u"].copy_holders.confirming == {"d"}, "it answers again"
    world.crash("c")
    ends(world, wanted)


def test_readers_of_a_component_with_passive_backups_wait_for_nobody() -> None:
    world, wanted = merging("degree")
    world.run(3.0)
    world.cut("c", "d", 20.0)
    world.run(0.5)
    before = came(world)
    world.run(3.0)
    assert came(world) > before
    ends(world, wanted)


@pytest.mark.slow
def test_the_backup_of_an_ordered_component_has_emitted_the_same_and_sends_without_being_asked() -> None:
    world, wanted = merging("ordered")
    world.run(5.0)
    primary, standby = (world.hosting_of(peer).components["app", "u"] for peer in "cd")
    assert standby.role is Role.FOLLOWER
    assert not primary.ordered
    assert not primary.reading.made, "nobody needs a record of its order"
    assert standby.log.end.position >= came(world) > 0
    asked = len(world.recalls)
    world.crash("c")
    world.run(1.0)
    assert world.hosting_of("d").components["app", "u"] is standby, "it goes on from where it is"
    assert len(world.recalls) == asked, "nobody is asked for an order"
    ends(world, wanted)


@pytest.mark.slow
def test_a_standby_for_which_too_little_was_retained_starts_again_from_a_snapshot() -> None:
    world, wanted = merging("ordered", rows=1_500, limits=Limits(2_000, 4_000, 2_000))
    world.pace = 0.05
    world.run(3.0)
    behind = world.hosting_of("d").components["app", "u"]
    world.hang("d", 6.0)
    world.run(6.0)
    assert any(fact.kind is FactKind.COPIES_BEHIND and fact.peers == ("d",) for _, _, fact in world.facts)
    world.run(7.0)
    again = world.hosting_of("d").components["app", "u"]
    assert again is not behind
    assert again.role is Role.FOLLOWER
    assert not world.hosting_of("c").components["app", "u"].copy_holders.cannot_take_over
    assert not world.results["app", "out"].ended, "there is more to come"
    world.crash("c")
    ends(world, wanted)


def test_the_last_results_are_held_no_longer_than_others() -> None:
    world, wanted = merging("synchronized")
    world.run(3.0)
    world.pace = 0.02
    world.cut("c", "d", HELD_S + 60.0)
    world.run(HELD_S + 1.5)
    assert world.results["app", "out"].ended
    ends(world, wanted)
