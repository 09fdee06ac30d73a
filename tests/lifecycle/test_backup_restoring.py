"""Lost backups: after a take-over a component has another one, so that it survives the next death, too."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

import polars as pl
import pytest

from synergy_nb.algorithms.replication.rebuilding import lost_backups
from synergy_nb.assembly import PeerConfig
from synergy_nb.control.driver_messages import OfferComponents
from synergy_nb.control.roles import Roles
from synergy_nb.events import (
    BackupRestored,
    Event,
    PlacementCompleted,
    RebuildGivenUp,
    RebuildImpossible,
    TakenOver,
    TakeoverBegun,
)
from synergy_nb.models.replication_config import ReplicationConfig
from synergy_nb.plan import Plan
from synergy_nb.plan.derived.active_replicas import degrees_of, replicated
from synergy_nb.plan.operators.catalogue import ALL_COMPONENTS
from synergy_nb.reporting.explanation import Explanation
from synergy_nb.simulator.peer_world import PeerWorld
from synergy_nb.simulator.scripted_faults import Faults
from synergy_nb.widgets._journal_series import JournalSeries
from synergy_nb.widgets._status_text import status_pieces
from tests.lifecycle.mixed_backups import chapter_4, mixed
from tests.moving_schedules import table
from tests.replica_schedules import ideal

PEERS = tuple("abcdefg")
PASSIVE = {"u": "b", "x": "c"}  # operators with backups, and the peers of their primaries
E = TypeVar("E", bound=Event)


def synchronized() -> Plan:
    return chapter_4(availability="synchronized 2")


def in_one_order() -> Plan:
    return chapter_4(availability="ordered 2")


class Run:
    """A query at peers that offer all components, but the first, which has sources and sink."""

    def __init__(
        self,
        plan: Plan,
        peers: tuple[str, ...] = PEERS,
        backups: tuple[str, ...] = ("d",),
        primaries: Mapping[str, str] = PASSIVE,
        *,
        rebuild: bool = True,
    ) -> None:
        own = PeerConfig(
            components=ALL_COMPONENTS, cores=16.0, placement=None, replication=ReplicationConfig(rebuild=rebuild)
        )
        self.world = world = PeerWorld(1, peers, Faults(delay=(0.002, 0.02)), config=own)
        for peer in peers[1:]:
            world.control.report(peer, OfferComponents())
        world.run(2.0)
        world.pace = 0.8
        self.plan, rng = plan, random.Random(1)
        self.inputs: dict[str, pl.DataFrame] = {name: table(rng, 400) for name in plan.sources}
        expanded = replicated(plan, {name: each.active for name, each in degrees_of(plan).items()})
        where = dict.fromkeys(expanded.operators, "a") | dict(primaries) | {"f": "e", "f~1": "f"}
        where = {name: where[name] for name in expanded.operators}
        world.deploy("app", expanded, where, self.inputs, backups=dict.fromkeys(PASSIVE, backups))
        assert world.until(lambda: world.status("app") == "running")
        world.run(1.0)

    def of(self, kind: type[E]) -> list[E]:
        return [each for each in self.world.control.journal.about("app") if isinstance(each, kind)]

    def restored(self, count: int) -> list[BackupRestored]:
        """Advance until so many backups have been restored."""
        assert self.world.until(lambda: len(self.of(BackupRestored)) >= count), self.of(RebuildImpossible)
        return self.of(BackupRestored)

    def begins(self) -> tuple[str, str]:
        """Advance until another backup is being set up; return its operator and its peer."""
        assert self.world.until(lambda: bool(self.world.graph("app").roles.rebuilds), 30.0), self.of(RebuildImpossible)
        ((operator, (source, to)),) = self.world.graph("app").roles.rebuilds.items()
        assert source == operator
        return operator, to

    def account(self) -> Explanation:
        return Explanation("app", self.world.control.journal.about("app"), {})

    def ends(self) -> None:
        """Run to the end; the rows at the sink are those of a run in which nothing dies."""
        results = self.world.results["app", "out"]
        assert self.world.until(lambda: results.ended, 900.0), f"it stands still: {self.world.failures()}"
        assert sorted(results.rows.rows(), key=repr) == ideal(self.plan, self.inputs)
        assert self.world.status("app") == "running"


@pytest.mark.slow
@pytest.mark.parametrize("make", [chapter_4, mixed, synchronized, in_one_order])
def test_an_operator_survives_the_deaths_of_one_primary_after_another(make: Callable[[], Plan]) -> None:
    run, died = Run(make()), set[str]()
    for _ in range(3):
        primary = run.world.where("app")["x"]
        run.world.crash(primary)
        died.add(primary)
        assert run.world.until(lambda: not run.world.graph("app").roles.backups["x"])
        assert run.world.until(lambda: all(run.world.graph("app").roles.backups.values()))
        now = {run.world.where("app")["x"], *run.world.graph("app").roles.backups["x"]}
        assert len(now) == 2
        assert not now & {*died, "a"}
    assert len(run.of(TakenOver)) == 3
    run.ends()


@pytest.mark.slow
def test_the_death_of_a_backup_alone_is_made_good() -> None:
    run = Run(chapter_4())
    run.world.crash("d")
    found = run.restored(2)
    assert {each.operator for each in found} == {"u", "x"}
    assert all(each.at in {*PEERS} - {*"ad"} for each in found)
    assert run.world.where("app")["u"] == "b", "nothing else has changed"
    run.world.crash("c")
    assert run.world.until(lambda: run.world.where("app")["x"] == run.restored(2)[-1].at)
    run.ends()


@pytest.mark.slow
def test_where_the_peer_of_a_new_backup_dies_another_one_gets_it() -> None:
    run = Run(chapter_4())
    run.world.crash("d")
    _, to = run.begins()
    run.world.crash(to)
    found = run.restored(2)
    assert [(each.at, each.reason) for each in run.of(RebuildGivenUp)] == [(to, f"peer {to} died")]
    assert {"d", to}.isdisjoint(each.at for each in found)
    run.ends()


@pytest.mark.slow
def test_a_backup_that_is_being_set_up_does_not_take_over() -> None:
    run = Run(chapter_4(), backups=("d", "e"))
    run.world.crash("d")
    operator, to = run.begins()
    run.world.crash(PASSIVE[operator])
    assert run.world.until(lambda: len(run.of(TakenOver)) == 2)
    assert run.of(TakeoverBegun)[-1].operators[operator] == "e"
    assert [(each.operator, each.at) for each in run.of(RebuildGivenUp)] == [(operator, to)]
    assert run.world.until(lambda: all(len(each) == 2 for each in run.world.graph("app").roles.backups.values()))
    run.ends()


@pytest.mark.slow
def test_a_peer_that_had_hung_gets_the_backups_again_once_it_is_alive() -> None:
    run = Run(chapter_4(), ("a", "b", "d"), primaries=dict.fromkeys(PASSIVE, "b"))
    run.world.hang("d", 12.0)
    assert run.world.until(lambda: len(run.of(RebuildImpossible)) == len(PASSIVE))
    reasons = {each.operator: each.reason for each in run.of(RebuildImpossible)}
    assert reasons == {"u": "no other peer offers 'union'", "x": "no other peer offers 'aggregate'"}
    assert {each.at for each in run.restored(2)} == {"d"}
    run.world.crash("b")
    assert run.world.until(lambda: run.world.where("app")["x"] == "d")
    run.ends()


@pytest.mark.slow
def test_a_peer_that_joins_gets_the_backups_that_nobody_could_have() -> None:
    run = Run(chapter_4(), ("a", "b", "d"), primaries=dict.fromkeys(PASSIVE, "b"))
    world = run.world
    world.crash("d")
    assert world.until(lambda: len(run.of(RebuildImpossible)) == len(PASSIVE))
    assert "not rebuilt: u: no other peer offers 'union'" in str(run.account())
    world.join("h", contact="b")
    world.control.report("h", OfferComponents())
    assert {each.at for each in run.restored(2)} == {"h"}
    world.crash("b")
    run.ends()


@pytest.mark.slow
def test_explain_and_the_view_say_where_the_new_backup_is() -> None:
    run = Run(chapter_4())
    where = run.world.where("app")
    placed = PlacementCompleted(0.0, "a", "app", 1, 2, where, dict.fromkeys(PASSIVE, ("d",)), None)

    def account(events: Iterable[Event]) -> Explanation:
        return Explanation("app", [placed, *events], {})

    run.world.crash("c")
    assert run.world.until(lambda: bool(run.of(TakenOver)))
    assert account(run.of(Event)).left == {"x": 1}
    (found,) = run.restored(1)
    after = account(run.of(Event))
    assert f"new backup: x at {found.at} in " in str(after)
    assert "; x has 2 replicas" in str(after)
    assert not after.left, "none is missing any more"
    series = JournalSeries("app")
    series.add_events([placed, *run.of(Event)])
    assert series.run("app").roles.backups == {"u": ("d",), "x": (found.at,)}
    marks = [mark["text"] for mark in status_pieces(series)["marks"]["list"]]
    assert f"x has another backup at {found.at}" in marks
    run.world.crash("d")
    assert run.world.until(lambda: len(run.of(TakenOver)) == 2)
    assert account(run.of(Event)).why("x") == "its backup took over from d", "the peer that died last"


@pytest.mark.slow
def test_nothing_is_restored_where_that_is_turned_off() -> None:
    run = Run(chapter_4(), rebuild=False)
    run.world.crash("c")
    assert run.world.until(lambda: bool(run.of(TakenOver)))
    run.ends()
    assert not run.of(BackupRestored) + run.of(RebuildImpossible)


# -- values ----------------------------------------------------------------------------------------------------------


def test_operators_lack_backups_that_were_placed_unless_they_move() -> None:
    plan = chapter_4()
    placed = {"u": ("d", "e"), "x": ("d",)}
    roles = Roles({"s": "a", "t": "a", "u": "b", "x": "c", "out": "a"}, placed)
    assert lost_backups(plan, roles, placed) == []
    taken = roles.replaced({"x": "d"}, {"u": ("e",), "x": ()})
    assert lost_backups(plan, taken, placed) == ["u", "x"]
    assert lost_backups(plan, taken.with_follower("x", "f"), placed) == ["u"]


def test_a_new_backup_has_a_copy_before_it_counts() -> None:
    roles = Roles({"u": "b", "x": "c"}, {"u": ("d",), "x": ()})
    coming = roles.rebuilding("x", "x", "e")
    assert (coming.backups["x"], coming.copied_for("x"), coming.backed_up("e")) == ((), ("e",), ["x"])
    assert coming.addresses == frozenset("bcde")
    now = coming.with_backup("x")
    assert (now.backups["x"], now.copied_for("x"), now.backed_up("e")) == (("e",), (), ["x"])
    assert coming.released("x") == roles
