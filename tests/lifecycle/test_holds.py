"""Holds: users pause and resume applications, whatever else happens to them; each row comes once."""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from synergy_nb import ClusterError, NotAdmitted, Simulation, source
from synergy_nb.control.driver_messages import HoldApplication
from synergy_nb.events import HoldBegun, HoldEnded, OriginSucceeded, SetupFailed, TakenOver, WaitBegun
from synergy_nb.plan import Plan
from synergy_nb.reporting.explanation import Explanation
from synergy_nb.simulator.simulated_application import SimulatedApplication
from synergy_nb.widgets._component_status import status
from synergy_nb.widgets._journal_series import JournalSeries
from tests.moving_schedules import table, undisturbed
from tests.succession_world import AT, BACKUPS, ORIGIN, World, chain

BACKED_UP = BACKUPS | {"s": ("h",)}


class Held:
    """A query that is paused and resumed."""

    def __init__(self, seed: int) -> None:
        self.world = world = World(seed)
        world.pace = 0.2
        self.plan, self.inputs = chain(), {"s": table(random.Random(seed), 400)}
        world.deploy("app", self.plan, AT, self.inputs, backups=BACKED_UP, origin=ORIGIN)
        assert world.until(lambda: world.status("app") == "running")
        self.rows = world.results["app", "out"]

    def hold(self, *, on: bool) -> None:
        leader = self.world.origins["app"]
        if not self.world.dead(leader):
            self.world.control.call(leader, partial(self.world.synergy[leader].session.holds.hold, "app", on=on))

    def account(self) -> tuple[str, str]:
        """What it is by its account, and by its view."""
        journal = self.world.control.journal
        readings = JournalSeries("app")
        readings.read(journal)
        account = Explanation("app", journal.about("app"), {})
        return account.outcome, status(readings, readings.run("app"))[0]

    def ends(self) -> None:
        assert self.world.until(lambda: self.rows.ended, 300.0), f"it stands still: {self.world.failures()}"
        assert self.rows.rows.rows() == undisturbed(self.plan, self.inputs).rows()


def test_an_application_on_hold_gives_no_rows_and_says_so_everywhere() -> None:
    run = Held(1)
    world = run.world
    world.run(1.0)
    run.hold(on=True)
    run.hold(on=True)
    world.run(1.0)
    given = run.rows.rows.height
    world.run(20.0)
    assert world.status("app") == "on hold"
    assert run.rows.rows.height == given
    assert run.account() == ("on hold: a user has paused it, and its sources give no rows", "on hold")
    assert not world.of(WaitBegun)
    run.hold(on=False)
    world.run(1.0)
    assert world.status("app") == "running"
    assert run.account() == ("running", "running")
    assert len(world.of(HoldBegun)) == 1
    (ended,) = world.of(HoldEnded)
    assert ended.seconds == pytest.approx(21.0)
    run.ends()


def test_a_silent_peer_pauses_an_application_on_hold_which_is_on_hold_again_when_it_answers() -> None:
    run = Held(1)
    world = run.world
    run.hold(on=True)
    world.run(1.0)
    world.hang("b", 20.0)  # the sink has no backup
    assert world.until(lambda: world.status("app") == "paused", 10.0)
    assert run.account()[1] == "paused"
    assert world.until(lambda: world.status("app") == "on hold", 30.0)
    assert run.account()[1] == "on hold"
    run.hold(on=False)
    run.ends()


@pytest.mark.parametrize("seed", range(9))
def test_deaths_and_moves_of_what_is_on_hold_lose_and_double_nothing(seed: int) -> None:
    rng, run = random.Random(seed), Held(seed)
    world = run.world
    dies = ("c", "d", ORIGIN)[seed % 3]
    when = rng.randrange(7)
    for turn in range(7):
        on = turn % 2 == 0
        run.hold(on=on)
        if turn == when:
            world.run(rng.uniform(0.0, 0.3))
            world.crash(dies)
        elif rng.random() < 0.4 and not world.dead(world.origins["app"]):
            world.move("app", "x", rng.choice("gh"))
        world.run(rng.uniform(0.0, 2.0))
    world.run(20.0)  # until others have taken over
    assert world.of(OriginSucceeded if dies == ORIGIN else TakenOver)
    run.hold(on=True)
    world.run(5.0)
    given = run.rows.rows.height
    world.run(5.0)
    assert run.rows.rows.height == given
    assert world.status("app") == "on hold"
    assert not run.rows.ended
    run.hold(on=False)
    run.ends()


def test_an_application_that_shares_streams_is_not_paused_and_streams_on_hold_are_not_shared() -> None:
    simulation = Simulation(peers=3, seed=1)
    packets = source("packets", seed=1, rate="20 tuples/s", id="packets")
    owner = simulation.submit(packets.filter("bytes > 100", id="large").sink("owner"))
    owner.pause()
    alone = simulation.submit(packets.filter("bytes > 200", id="larger").sink("alone"))
    assert not alone.events().of(HoldBegun)
    assert alone.head(1).height == 1, "it reads a source of its own"
    alone.stop()
    owner.resume()
    simulation.run(20.0)
    reader = simulation.submit(packets.filter("bytes > 200", id="larger").sink("reader"))
    for one, other in ((owner, reader), (reader, owner)):
        with pytest.raises(
            ClusterError, match=f"'{one.id}' shares streams with {other.id}, whose rows would stop, too"
        ):
            one.pause()
        assert one.status == "running"
    reader.stop()
    simulation.run(1.0)
    owner.pause()
    assert owner.status == "on hold"
    assert str(owner.bottleneck()) == f"no operator limits the rate: {owner.id} is on hold"
    owner.stop()
    for change in (owner.pause, owner.resume):
        with pytest.raises(ClusterError, match=f"'{owner.id}' is stopped; expected one that runs"):
            change()


def test_who_reads_streams_of_an_ended_application_alone_is_paused() -> None:
    simulation = Simulation(peers=6, seed=1)
    packets = source("packets", seed=1, rate="20 tuples/s", id="packets")

    def submitted(condition: str) -> SimulatedApplication:
        plan = packets.filter(condition, id="some").sink(condition.replace(" ", "-"), id="out")
        application = simulation.submit(plan)
        assert application.head(1).height == 1
        return application

    owner, reader, other = submitted("bytes > 100"), submitted("bytes > 200"), submitted("bytes < 900")
    makes = owner.graph["packets"]
    assert (reader.graph["packets"], other.graph["packets"]) == (makes, makes)
    owner.stop()
    simulation.run(1.0)
    for one, further in ((reader, other), (other, reader)):
        with pytest.raises(ClusterError, match=f"streams of {owner.id}, which has ended, and so does {further.id}"):
            one.pause()
        assert one.status == "running"
    at_once = {901: reader, 902: other}  # neither of them has heard of the other's
    for number, each in at_once.items():
        simulation.world.command(each.id, HoldApplication(each.id, True, number))
    simulation.run(5.0)
    assert all(simulation.world.answers[number].refusal for number in at_once)
    assert (reader.status, other.status) == ("running", "running")
    assert not [each for each in reader.events() if "hold" in each.kind]
    other.stop()
    simulation.run(1.0)
    reader.pause()
    simulation.run(1.0)
    given = simulation.world.results[reader.id, "out"].rows.height
    alone = submitted("bytes < 800")
    assert alone.events().of(SetupFailed)[0].reason.endswith("is on hold")
    simulation.run(20.0)
    assert (reader.status, simulation.world.results[reader.id, "out"].rows.height) == ("on hold", given)
    assert not reader.events().of(WaitBegun)
    reader.resume()
    assert reader.head(given + 50).height == given + 50
    reader.stop()
    rows = reader.results()
    times = pl.col("time").is_between(rows["time"].min(), rows["time"].max())
    whole = simulation.submit(
        source("packets", seed=1, rate="20 tuples/s", count=2000, speed=0).sink("whole")
    ).results()
    assert_frame_equal(rows, whole.filter((pl.col("bytes") > 200) & times))


def spread(least: int, **stated: Any) -> Plan:
    packets = source("packets", seed=1, rate="50 tuples/s", id="packets", at="peer-3", **stated)
    return packets.filter(f"bytes > {least}", id="large", at="peer-4").sink("r", id="out", at="peer-2")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_what_has_taken_the_place_of_another_plan_is_paused_and_led_on(seed: int) -> None:
    rng, plan = random.Random(seed), spread
    simulation = Simulation(peers=5, seed=seed)
    application = simulation.submit(plan(100), origin="peer-1")
    application.head(5)
    application.pause()
    with pytest.raises(NotAdmitted, match="is on hold"):
        application.replace(plan(900))
    application.resume()
    for least in (900, 1200):
        application.replace(plan(least))
        application.pause()
        simulation.run(1.0)
        given = simulation.world.results[application.id, "out"].rows.height
        if least == 1200:
            simulation.kill("peer-1")
        simulation.run(rng.uniform(15.0, 30.0))
        assert (application.status, simulation.world.results[application.id, "out"].rows.height) == ("on hold", given)
        application.resume()
        application.head(given + 50)
    assert application.origin == "peer-2"
    application.stop()
    rows = application.results()
    whole = simulation.submit(plan(100, count=8000, speed=0)).results()
    cuts = [rows.filter(pl.col("bytes") <= least)["time"].max() for least in (900, 1200)]
    known = whole.filter(pl.col("time") <= rows["time"].max())
    known = known.filter((pl.col("time") <= cuts[0]) | (pl.col("bytes") > 900))
    assert_frame_equal(rows, known.filter((pl.col("time") <= cuts[1]) | (pl.col("bytes") > 1200)))


@pytest.mark.slow
@pytest.mark.parametrize("silent", [5.0, 20.0])
def test_a_pause_waits_for_the_peers_of_an_ended_application_and_is_refused_if_one_does_not_answer(
    silent: float,
) -> None:
    simulation = Simulation(peers=5, seed=1)
    application = simulation.submit(spread(100), origin="peer-1")
    application.head(5)
    application.replace(spread(900))
    simulation.world.hang("peer-3", silent)
    held = silent < 10.0
    if held:
        application.pause()
    else:
        with pytest.raises(ClusterError, match="is not paused: no answer of peer-3, where its sources are"):
            application.pause()
    simulation.run(30.0)
    assert application.status == ("on hold" if held else "running")
    given = simulation.world.results[application.id, "out"].rows.height
    simulation.run(5.0)
    assert (simulation.world.results[application.id, "out"].rows.height == given) == held
    assert [each.kind for each in application.events() if "hold" in each.kind] == ["hold_begun"] * held


def test_what_stood_still_is_not_late() -> None:
    simulation = Simulation(peers=2, seed=1)
    plan = source("packets", seed=1, rate="50 tuples/s", count=200).filter("bytes > 0").sink("r", delay="2 s")
    whole = simulation.submit(plan).results()
    application = simulation.submit(plan)
    application.head(50)
    application.pause()
    simulation.run(60.0)
    application.resume()
    assert application.results().equals(whole)
    assert application.qos()["delay_max_s"] < 1.0


def test_what_is_on_hold_is_led_on_and_resumed_after_the_death_of_its_origin() -> None:
    simulation = Simulation(peers=5, seed=1)
    plan = source("packets", seed=1, rate="50 tuples/s", count=400, at="peer-3").filter("bytes > 0", at="peer-3")
    whole = simulation.submit(plan.sink("whole", at="peer-2")).results()
    application = simulation.submit(plan.sink("r", at="peer-2"), origin="peer-1")
    application.head(20)
    application.pause()
    simulation.kill("peer-1")
    assert application.status == "on hold", "its successor lives"
    simulation.run(20.0)
    assert (application.origin, application.status) == ("peer-2", "on hold")
    application.resume()
    assert application.results().equals(whole)
