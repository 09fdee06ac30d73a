"""Streams under faults: whatever is lost, doubled, overtaken, cut, crashed, hung, slow or moved, results stay the same.

Every schedule is run with faults, backups and moves; at each sink the rows have to come that the same operators make of
all inputs at once, and the run has to end.
"""

from __future__ import annotations

import random

import pytest

from synergy_experiments.flows.stream_world import StreamWorld
from synergy_nb.dataflow.streams.hosting.effects import FactKind
from synergy_nb.dataflow.streams.log.log import Limits
from synergy_nb.simulator.scripted_faults import Faults
from tests.campaigns import blocks
from tests.moving_schedules import undisturbed
from tests.quick_cases import quick_first
from tests.stream_schedules import (
    END_S,
    KINDS,
    PEERS,
    ROWS,
    deep_query,
    disturb,
    drawn_faults,
    finish,
    hostile_faults,
    in_blocks,
    inputs_of,
    piece,
    placed,
    query,
    reading_query,
    shared_query,
    sorted_rows,
)
from tests.streams.fault_schedules import WeighedWorld, run


def run_deep(seed: int) -> None:
    """Several inputs in a row, readers that are ahead of copies, deaths of two at once, peers that come back."""
    rng = random.Random(seed)
    plan = deep_query(rng)
    peers, backups = placed(rng, plan, degree=rng.choice((2, 3, 3)))
    inputs = inputs_of(rng, plan, groups=3, rows=60)

    wanted = undisturbed(plan, inputs)

    limits = Limits(piece=piece(seed))
    world = StreamWorld(seed, PEERS, hostile_faults(rng), codec=seed % 8 == 0, limits=limits)
    world.pace = rng.choice((0.02, 0.06))
    world.clients["app", "out"] = rng.choice((0.02, 0.5))
    world.deploy("app", plan, peers, inputs, backups=backups)
    disturb(world, rng, rng.randint(1, 8), longest=rng.choice((0.2, 0.5)))
    finish(world)
    world.clients["app", "out"] = 0.02  # joins make many tuples, which a slow client would collect for hours
    finish(world)
    assert not world.failures(), world.failures()
    assert world.results["app", "out"].ended, "it stands still"
    assert sorted_rows(world.results["app", "out"].rows) == sorted_rows(wanted)


def run_sharing(seed: int) -> None:
    """Two applications, of which one may be slow, share a stream of a third one; the second may lend it on."""
    rng = random.Random(seed)
    plans = {"app": shared_query(rng), "reader": reading_query(rng), "other": reading_query(rng)}
    shares = {"reader": {"n": ("app", "end")}, "other": {"n": rng.choice((("app", "end"), ("reader", "end")))}}
    slow = rng.choice(("", "", "other"))
    kinds = ("move", "calm") if slow else KINDS
    limits = Limits(2_000, 20_000 if slow else 1 << 20, 2_000, piece(seed))
    faults = Faults(duplication=0.1) if slow else drawn_faults(rng)
    world = StreamWorld(seed, PEERS, faults, codec=seed % 8 == 0, limits=limits)
    world.pace = 0.06 if slow else rng.choice((0.02, 0.06))
    inputs = {name: inputs_of(rng, plan, rows=2 * ROWS if slow else ROWS) for name, plan in plans.items()}
    for name, plan in plans.items():
        world.clients[name, "out"] = 20.0 if name == slow else rng.choice((0.02, 0.2))
        lost = [peer for peer in PEERS if world.dead(peer) or peer in world.doubted]
        peers, backups = placed(rng, plan, rng.choice((2, 3)), lost)
        world.deploy(name, plan, peers, inputs[name], backups=backups, shares=shares.get(name))
        disturb(world, rng, rng.randint(0, 3), longest=0.4, most_deaths=1, kinds=kinds)
    disturb(world, rng, rng.randint(0, 4), longest=0.4, most_deaths=1, kinds=kinds)
    finish(world, END_S / 2)
    world.clients["other", "out"] = 0.2
    finish(world)

    failed = {fact.application for _, _, fact in world.facts if fact.kind is FactKind.COMPONENT_FAILED}
    assert failed <= {slow}, world.failures()
    assert all("it reads too slowly" in failure for failure in world.failures()), world.failures()
    for name in plans.keys() - failed:
        assert world.results[name, "out"].ended, f"{name} stands still"
    rows = {name: world.results[name, "out"].rows.rows() for name in plans}
    own = {row for table in inputs["app"].values() for row in table.rows()}
    assert sorted(rows["app"]) == sorted(own), "rows of the owner"
    for name in plans.keys() - failed - {"app"}:
        mine = {row for source, table in inputs[name].items() if source != "n" for row in table.rows()}
        lender = rows[shares[name]["n"][0]]
        theirs = [row for row in rows[name] if row not in mine]
        assert len(rows[name]) == len(mine) + len(theirs), f"rows of {name} itself"
        assert theirs == lender[len(lender) - len(theirs) :], f"{name} has not all from where it joined, in order"


def run_pressed(seed: int) -> None:
    """Slow clients and small windows: nothing is lost, and no log grows beyond its bound."""
    rng = random.Random(seed)
    deep = rng.random() < 0.5
    plan = deep_query(rng) if deep else query(rng)
    peers, backups = placed(rng, plan, degree=rng.choice((1, 2, 3)))
    inputs = inputs_of(rng, plan, rows=60)

    wanted = undisturbed(plan, inputs)

    window = 1_500 if deep else rng.choice((400, 1_500))
    limits = Limits(window, rng.choice((1_500, 4_000)), window, piece(seed))
    world = WeighedWorld(seed, PEERS, drawn_faults(rng), limits=limits, service=rng.choice((1e-4, 5e-3)))
    world.clients["app", "out"] = rng.choice((0.05, 0.5, 2.0))
    world.deploy("app", plan, peers, inputs, backups=backups)
    disturb(world, rng, rng.randint(0, 5), longest=1.0, most_deaths=2)
    finish(world)
    world.clients["app", "out"] = 0.02  # joins make many tuples, which a slow client would collect for hours
    finish(world)
    assert not world.failures(), world.failures()
    assert world.results["app", "out"].ended, "it stands still"
    assert sorted_rows(world.results["app", "out"].rows) == sorted_rows(wanted)
    # one execution beyond the bound; the heads of chunks count, and a copy may have those of two epochs
    assert world.most_bytes <= max(limits) + 2 * world.most_made, "a log is larger than its bound"


@pytest.mark.parametrize("seed", quick_first(range(20), 2))
def test_results_are_those_of_the_undisturbed_run(seed: int) -> None:
    run(seed)


@pytest.mark.parametrize("seed", quick_first(range(20), 1))
def test_a_successor_reads_in_the_order_on_which_others_depend(seed: int) -> None:
    run_deep(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_a_sharer_has_the_whole_stream_or_fails_alone_by_name(seed: int) -> None:
    run_sharing(seed)


@pytest.mark.parametrize("seed", quick_first(range(10), 2))
def test_no_log_grows_beyond_its_bound_and_nothing_stalls(seed: int) -> None:
    run_pressed(seed)


@pytest.mark.slow(20)
@pytest.mark.parametrize("block", blocks(11, 11))
def test_results_are_those_of_the_undisturbed_run_in_many_schedules(block: int) -> None:
    in_blocks(run, block)


@pytest.mark.slow(25)
@pytest.mark.parametrize("block", blocks(13, 13))
def test_a_successor_reads_in_order_in_many_schedules(block: int) -> None:
    in_blocks(run_deep, block)


@pytest.mark.slow(55)
@pytest.mark.parametrize("block", blocks(8, 8))
def test_a_sharer_has_the_whole_stream_in_many_schedules(block: int) -> None:
    in_blocks(run_sharing, block)


@pytest.mark.slow(20)
@pytest.mark.parametrize("block", blocks(8, 8))
def test_no_log_grows_beyond_its_bound_in_many_schedules(block: int) -> None:
    in_blocks(run_pressed, block)
