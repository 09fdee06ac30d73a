"""Sources whose rows a program pushes: whatever is lost, doubled or dies, each row comes once, and all do."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

import pytest

from synergy_experiments.flows.stream_world import StreamWorld
from synergy_nb.assembly import PeerConfig
from synergy_nb.control.driver_messages import OfferComponents
from synergy_nb.dataflow.streams.log.log import LIMITS, Limits
from synergy_nb.events import BackupRestored, TakenOver
from synergy_nb.events.journal import Journal
from synergy_nb.plan import source
from synergy_nb.plan.derived.active_replicas import replicas_of, replicated
from synergy_nb.plan.operators.catalogue import ALL_COMPONENTS
from synergy_nb.simulator.peer_world import PeerWorld
from synergy_nb.simulator.scripted_faults import Faults
from tests.campaigns import blocks
from tests.moving_schedules import table, undisturbed
from tests.replica_schedules import ideal
from tests.stream_schedules import (
    END_S,
    KINDS,
    PEERS,
    deep_query,
    disturb,
    drawn_faults,
    finish,
    hostile_faults,
    inputs_of,
    placed,
    query,
    sorted_rows,
)

WHOLE = tuple("abcdefghijk")
COLUMNS = {
    "link": "str",
    "source": "str",
    "destination": "str",
    "source_port": "int",
    "destination_port": "int",
    "bytes": "int",
}


def run(seed: int, kinds: tuple[str, ...] = KINDS) -> StreamWorld:
    """An application of any shape whose rows are pushed, with backups of all but its sink."""
    rng = random.Random(seed)
    deep = rng.random() < 0.5
    plan = deep_query(rng) if deep else query(rng)
    degree = rng.choice((2, 3))
    peers, backups = placed(rng, plan, degree)
    inputs = inputs_of(rng, plan, groups=3 if deep else 10, rows=60)
    wanted = undisturbed(plan, inputs)
    small = not deep and rng.random() < 0.5
    limits = Limits(1_500, 4_000, 1_500) if small else LIMITS
    world = StreamWorld(
        seed, PEERS, hostile_faults(rng) if deep else drawn_faults(rng), codec=seed % 8 == 0, limits=limits
    )
    world.pace = rng.choice((0.02, 0.06))
    world.clients["app", "out"] = rng.choice((0.02, 0.5))
    most = rng.choice((600, 4_000, LIMITS.retain))
    programs = [world.push("app", name, table, most) for name, table in inputs.items()]
    world.deploy("app", plan, peers, inputs, backups=backups)
    disturb(world, rng, rng.randint(1, 8), longest=rng.choice((0.2, 0.5)), kinds=kinds)
    finish(world, END_S / 4)
    world.clients["app", "out"] = 0.02  # joins make many tuples, which a slow client would collect for hours
    finish(world)
    assert not world.failures(), world.failures()
    assert not any(each.lost for each in programs), "rows that nobody retains are lacking"
    assert world.results["app", "out"].ended, "it stands still"
    assert sorted_rows(world.results["app", "out"].rows) == sorted_rows(wanted)
    for _ in range(50):  # copies that did not answer are asked again ever more rarely, and every other answer is lost
        world.run(0.0 if all(each.done for each in programs) else END_S / 10)
    assert all(each.done for each in programs), "a program retains rows that all copies have"
    assert all(each.most_bytes <= most + 2 * world.most_made for each in programs), "a program retains too much"
    return world


def in_blocks(run_one: Callable[[int], object], block: int, size: int = 20) -> None:
    for seed in range(size * block, size * (block + 1)):
        try:
            run_one(seed)
        except AssertionError as error:
            raise AssertionError(f"{run_one.__name__}({seed}): {error}") from error


def _replaced(world: PeerWorld, operator: str, before: str) -> bool:
    return world.where("app")[operator] != before


def _restored(journal: Journal, deaths: int) -> bool:
    """Whether all that is to have backups has them: the peer that died may have had those of others, too."""
    changes = [each for each in journal.about("app") if isinstance(each, TakenOver | BackupRestored)]
    return sum(isinstance(each, TakenOver) for each in changes) == deaths and all(changes[-1].backups.values())


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_whole_peers_lose_the_source_its_backup_and_its_readers_one_after_another(seed: int) -> None:
    rng = random.Random(seed)
    faults = Faults(delay=(0.002, 0.02), loss=rng.choice((0.0, 0.02)), duplication=rng.choice((0.0, 0.1)))
    own = PeerConfig(components=ALL_COMPONENTS, cores=16.0, placement=None)
    world = PeerWorld(seed, WHOLE, faults, config=own)
    for peer in WHOLE:
        world.control.report(peer, OfferComponents())
    world.run(5.0)  # until the directory knows all names: with losses 2 s were too short for twenty and more
    world.pace = 0.2
    rows = source("python", name="s", columns=COLUMNS, rate=50.0, id="s", availability="degree 2")
    kept = rows.filter("bytes > 100", id="f")
    counts = kept.aggregate("link", "200 ms", n="count(*)", total="sum(bytes)", id="x", availability="degree 2")
    plan = counts.filter("n > 0", id="g").sink("out", id="out", availability="active 2")
    inputs = {"s": table(rng, 300)}
    expanded = replicated(plan, {"s": 1, "x": 1, "f": 2, "g": 2, "out": 1})
    where = dict.fromkeys(expanded.operators, "a") | {"s": "d", "x": "f"}
    for several in replicas_of(expanded).values():
        where.update(zip(several, "bc", strict=True))
    program = world.push("app", "s", inputs["s"], most=rng.choice((500, LIMITS.retain)))
    world.deploy("app", expanded, where, inputs, backups={"s": ("e",), "x": ("g",)})
    assert world.until(lambda: world.status("app") == "running")
    results, journal = world.results["app", "out"], world.control.journal
    for number, victim in enumerate(("s", "x", "s"), 1):
        world.run(rng.uniform(0.1, 2.0))
        before = world.where("app")[victim]
        world.crash(before)
        assert world.until(partial(_replaced, world, victim, before), 20.0)
        assert world.until(partial(_restored, journal, number), 60.0)
    assert not program.lost
    assert world.until(lambda: results.ended, 300.0), world.failures()
    assert sorted(results.rows.rows(), key=repr) == ideal(plan, inputs)
    assert program.most_bytes < LIMITS.retain


@pytest.mark.slow(20)
@pytest.mark.parametrize("block", blocks(50, 25))
def test_each_row_that_was_pushed_comes_once_whoever_dies_at_any_moment(block: int) -> None:
    in_blocks(run, block)
