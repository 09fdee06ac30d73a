"""Take-overs that nobody has confirmed: when those who were asked cannot go on, the former primary does."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

from synergy_nb import Simulation, traces
from synergy_nb.control.graph import ComponentGraph, Hop
from synergy_nb.control.peer import Message
from synergy_nb.dataflow.tuples import Batch
from synergy_nb.events import ApplicationPaused, TakenOver, TakeoverBegun
from synergy_nb.plan import Plan, source
from tests.late_peers import OWN, Late
from tests.moving_schedules import undisturbed
from tests.simulated import Ring
from tests.succession_world import ORIGIN

FORMER, BACKUP = OWN["f"], "g"


def lose(control: Any, *names: str) -> Callable[[], None]:
    """Lose all messages of these types on their way; what is returned ends that."""
    transmit = control.transmit

    def some(sender: str, to: str, message: Message) -> None:
        if sender == to or type(message).__name__ not in names:
            transmit(sender, to, message)

    control.transmit = some

    def end() -> None:
        control.transmit = transmit

    return end


def unconfirmed(lost: str, seconds: float) -> tuple[Late, Callable[[], None]]:
    """A run whose former primary is cut off for a while, and a take-over begun of which these messages are lost.

    What is returned beside it ends the loss.
    """
    run = Late(OWN, backups=True)
    heal = lose(run.world.control, lost)
    run.cut(FORMER, seconds)
    assert run.world.until(lambda: bool(run.world.of(TakeoverBegun)), 10.0)
    return run, heal


@pytest.mark.parametrize("lost", ["TakeOver", "TookOver"])
def test_the_former_primary_goes_on_when_the_backup_dies_that_has_not_confirmed(lost: str) -> None:
    """Whether the backup has not heard of it, or has executed since: rows are those of an undisturbed run."""
    run, heal = unconfirmed(lost, 5.0)
    world = run.world
    world.run(0.7)
    assert (("app", "f") in world.nodes[BACKUP].hosting.components) == (lost == "TookOver")
    world.crash(BACKUP)
    heal()
    run.ends()
    back = next(each for each in world.of(TakeoverBegun) if each.epoch == 2)
    assert (back.dead, back.operators) == (BACKUP, {"f": FORMER})
    assert world.of(TakenOver)[0].peers["f"] == FORMER
    (paused,) = world.of(ApplicationPaused)
    assert paused.awaited == {FORMER: ["f"]}  # it was still cut off as the backup died


def test_a_former_primary_that_returns_goes_on_before_a_backup_that_is_silent() -> None:
    run, heal = unconfirmed("TookOver", 5.0)
    world = run.world
    world.run(0.7)
    run.hang(BACKUP, 20.0)
    heal()
    assert world.until(lambda: bool(world.of(TakenOver)), 15.0)
    assert world.of(TakenOver)[0].peers["f"] == FORMER
    run.ends()
    assert ("app", "f") not in world.nodes[BACKUP].hosting.components


def test_a_former_primary_that_returns_is_not_told_of_a_take_over_before_that_is_confirmed() -> None:
    run, heal = unconfirmed("TookOver", 2.5)
    world = run.world
    assert world.until(lambda: not world.synergy[ORIGIN].membership.is_dead(FORMER), 10.0)
    world.run(3.0)
    assert ("app", "f") in world.nodes[FORMER].hosting.components
    heal()
    run.ends()
    assert world.of(TakenOver)[0].peers["f"] == BACKUP
    assert ("app", "f") not in world.nodes[FORMER].hosting.components


def joined(inputs: int) -> tuple[Plan, dict[str, str]]:
    """A plan whose operator `o` reads so many streams; its reader is where its backup is."""
    first, second = (source("packets", rate=100.0, at="peer-1", id=name) for name in ("s", "t"))
    stream = first.union(second, id="o") if inputs == 2 else first.filter("bytes > 0", id="o")
    plan = stream.filter("bytes > 1", id="r").sink(id="out")
    peers = {"s": "peer-1", "t": "peer-1", "o": "peer-2", "r": "peer-3", "out": "peer-0"}
    return plan, {name: peers[name] for name in plan.operators}


@pytest.mark.parametrize("inputs", [1, 2])
def test_no_take_over_is_undone_whose_order_of_inputs_others_may_depend_on(inputs: int) -> None:
    ring = Ring(6, seed=1)
    plan, peers = joined(inputs)
    hops = {name: Hop(name, peer, 1.0, 1e8, 0.001, 0.01) for name, peer in peers.items()}
    edges = {(up, name): (math.inf, 0.01) for name in plan.operators for up in plan.upstream(name)}
    answers = ring.establish("peer-0", "r", plan, ComponentGraph(hops, edges), {"o": ("peer-3",), "r": ("peer-4",)})
    ring.run(3.0)
    assert answers == [""]
    lose(ring.simulation, "TookOver")
    ring.simulation.partition([["peer-2"], [each for each in ring.synergy if each != "peer-2"]])
    ring.simulation.run(until=ring.simulation.now + 20.0, stop=lambda: bool(ring.events("r", TakeoverBegun)))
    ring.run(1.0)
    ring.crash("peer-3")
    ring.run(8.0)
    if inputs == 2:
        assert (ring.status("r"), ring.reports["r"][-1].reason) == ("failed", "peer peer-3 died (o, r)")
    else:
        assert (ring.status("r"), ring.reports["r"][-1].reason) == ("paused", "waiting for peer peer-2 (o)")
        assert ring.events("r", TakeoverBegun)[-1].operators == {"o": "peer-2", "r": "peer-4"}


def test_a_source_that_another_peer_was_to_read_goes_on_where_it_is() -> None:
    """Both have read it; readers have the rows of the one that died, and go on with those of the other."""
    simulation = Simulation([f"p{number}" for number in range(6)], seed=1)
    world = simulation.world
    stream = source("packets", rate=20.0, duration=12.0, speed=1, at="p1", id="s", availability="degree 2")
    plan = stream.filter("bytes > 20", id="f").sink(id="out", at="p0", availability="active 2")
    application = simulation.submit(plan, origin="p0")
    world.run(2.0)
    (backup,) = application.backups["s"]
    heal = lose(world.control, "TookOver")
    for other in sorted(world.synergy.keys() - {"p1"}):
        world.cut("p1", other, 6.0)

    def begun() -> bool:
        return bool(simulation.journal.about(application.id, TakeoverBegun))

    assert until(world, begun)
    world.run(0.7)
    assert (application.id, "s") in world.nodes[backup].hosting.opened
    world.crash(backup)
    heal()
    assert until(world, lambda: application.status != "running" and world.results[application.id, "out"].ended)
    assert (application.status, application.graph["s"]) == ("finished", "p1")
    rows = world.results[application.id, "out"].rows
    assert rows.rows() == undisturbed(plan, {"s": every_row(plan.operators["s"].params)}).rows()


def until(world: Any, condition: Callable[[], bool]) -> bool:
    """Let at most 100 virtual seconds pass until a condition holds; whether it does."""
    return any(condition() or world.run(0.25) for _ in range(400))


def every_row(params: Any) -> pl.DataFrame:
    """All rows of a source with these parameters."""
    return pl.concat([item.table for item in traces.read(params) if isinstance(item, Batch)])


def test_another_backup_takes_over_when_one_has_ended_that_was_asked_and_did_not() -> None:
    """A peer that lies may live, and not do what it is asked to: its owner revokes it, and it counts as dead."""
    simulation = Simulation(peers=6, seed=3, network="local")
    packets = source("packets", seed=1, rate="50 tuples/s", duration="6 s")
    application = simulation.submit(packets.count(window="1 s", id="n").sink("out", availability="degree 3"))
    simulation.run("2 s")
    world, primary = simulation.world, simulation.peers[application.graph["n"]]
    liar, other = (simulation.peers[each] for each in application.backups["n"])
    transmit = world.control.transmit

    def heard(sender: str, to: str, message: Message) -> None:
        if (to, type(message).__name__) != (liar, "TakeOver"):
            transmit(sender, to, message)

    world.control.transmit = heard  # type: ignore[method-assign]
    world.crash(primary)
    simulation.run("10 s")
    assert f"taken over: n from {simulation.names[primary]} to {simulation.names[liar]}" in str(application.explain())
    assert application.status == "running"
    world.crash(liar)
    undisturbed = simulation.submit(packets.count(window="1 s", id="n").sink("out"))
    assert application.results()["n"].to_list() == undisturbed.results()["n"].to_list()
    assert simulation.peers[application.graph["n"]] == other
