"""Succession: an application whose origin dies is led on by the peer of its first sink; whole peers in virtual time."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest

from synergy_nb.control.driver_messages import SinksEnded
from synergy_nb.events import (
    LeadershipLost,
    MessageOutdated,
    OriginSucceeded,
    PeerDeclaredDead,
    SuccessionBegun,
    TakenOver,
)
from synergy_nb.lifecycle.changes.succeeded_graphs import TERM, ending, known_sharers
from synergy_nb.lifecycle.records.messages import Claimed, End, Follow, GraphChanged, Sharer
from synergy_nb.reporting.explanation import Explanation
from synergy_nb.simulator.scripted_faults import Faults
from tests.campaigns import blocks
from tests.moving_schedules import CALM, CASES, packets, query, rounded, table, undisturbed
from tests.moving_schedules import Schedule as MovingSchedule
from tests.quick_cases import quick_first
from tests.succession_world import AT, BACKUPS, ORIGIN, SINK, World, chain


class Run:
    """A query whose origin has none of its components."""

    def __init__(
        self, seed: int = 1, at: Mapping[str, str] = AT, backups: Mapping[str, tuple[str, ...]] = BACKUPS
    ) -> None:
        self.world = world = World(seed)
        world.pace = 0.4
        self.plan = chain()
        self.inputs = {"s": table(random.Random(seed), 400)}
        world.deploy("app", self.plan, at, self.inputs, backups=backups, origin=ORIGIN)

    def running(self) -> Run:
        assert self.world.until(lambda: self.world.status("app") == "running")
        self.world.run(2.0)
        return self

    def succeeded(self) -> OriginSucceeded:
        """Advance until another peer leads it."""
        assert self.world.until(lambda: bool(self.world.of(OriginSucceeded)), 20.0)
        (found,) = self.world.of(OriginSucceeded)
        return found

    def ends(self) -> None:
        """Run to the end: the rows are those of an undisturbed run, and nothing is left."""
        world, results = self.world, self.world.results["app", "out"]
        assert world.until(lambda: results.ended, 200.0), f"it stands still: {world.failures()}"
        assert results.rows.rows() == undisturbed(self.plan, self.inputs).rows()
        assert world.status("app") == "running"
        world.finish("app")
        world.run(2.0)
        assert world.status("app") == "finished"
        world.stop("app")
        world.settled()


@pytest.mark.slow
def test_an_application_goes_on_without_its_origin() -> None:
    run = Run().running()
    run.world.crash(ORIGIN)
    found = run.succeeded()
    assert (found.peer, found.origin, found.epoch) == (SINK, ORIGIN, TERM)
    assert run.world.where("app") == AT
    assert run.world.leaders() == [SINK]
    run.world.run(15.0)  # leases are renewed
    run.ends()
    assert not run.world.of(TakenOver)
    account = Explanation("app", run.world.control.journal.about("app"), {})
    assert account.outcome == "finished"
    assert f"led on: by {SINK}, as its origin {ORIGIN} died" in str(account)


@pytest.mark.slow
def test_the_successor_leads_take_overs_and_moves() -> None:
    run = Run().running()
    run.world.crash(ORIGIN)
    run.succeeded()
    moved = run.world.move("app", "f", "h")
    run.world.run(3.0)
    assert moved == [""]
    assert run.world.where("app")["f"] == "h"
    run.world.crash("e")
    assert run.world.until(lambda: bool(run.world.of(TakenOver)), 20.0)
    assert run.world.where("app")["x"] == "f"
    run.ends()


@pytest.mark.slow
def test_what_dies_with_the_origin_is_taken_over() -> None:
    run = Run().running()
    run.world.crash("e")
    run.world.crash(ORIGIN)
    run.succeeded()
    run.world.run(3.0)
    assert run.world.where("app") == AT | {"x": "f"}
    run.ends()


@pytest.mark.slow
def test_an_origin_that_only_hung_takes_part_no_more_and_changes_nothing() -> None:
    run = Run().running()
    world = run.world
    world.hang(ORIGIN, 9.0)
    run.succeeded()
    world.control.call(ORIGIN, lambda: None)
    assert world.until(lambda: bool(world.of(LeadershipLost)), 20.0)
    (lost,) = world.of(LeadershipLost)
    assert (lost.peer, lost.to) == (ORIGIN, SINK)
    assert world.leaders() == [SINK]
    assert "app" not in world.synergy[ORIGIN].requests
    run.ends()


@pytest.mark.slow
def test_members_refuse_an_origin_that_was_succeeded_by_name() -> None:
    run = Run().running()
    world = run.world
    graph = world.graph("app")
    world.hang(ORIGIN, 9.0)
    run.succeeded()
    later = graph.changed(graph.roles.with_follower("f", "h"))
    for message in (GraphChanged(later), Follow(later, "f"), End("app", graph.attempt, "failed", "failed")):
        world.control.put(world.now, "d", ORIGIN, message)
    world.run(1.0)
    refused = {(each.peer, each.message): each.reason for each in world.of(MessageOutdated)}
    for name in ("GraphChanged", "Follow", "End"):
        assert refused["d", name].startswith(f"{SINK} leads the application"), refused
    run.ends()


def test_a_user_who_stops_it_at_the_old_origin_stops_it() -> None:
    run = Run().running()
    world = run.world
    world.hang(ORIGIN, 6.0)
    run.succeeded()
    world.control.resume(ORIGIN)
    world.control.call(ORIGIN, world.synergy[ORIGIN].session.stop, "app")
    assert world.until(lambda: world.status("app") == "stopped", 10.0) or not world.leaders()
    world.settled()


def test_results_that_a_user_has_discarded_at_the_old_origin_are_awaited_by_nobody() -> None:
    run = Run().running()
    world, attempt = run.world, run.world.graph("app").attempt
    world.hang(ORIGIN, 9.0)
    world.hang("d", 9.0)  # the claim waits for it
    assert world.until(lambda: bool(world.of(SuccessionBegun)), 20.0)
    world.control.put(world.now, SINK, ORIGIN, End("app", attempt, "its results have been discarded"))
    world.run(12.0)
    assert world.status("app") == "stopped"
    world.settled()


def test_an_application_that_its_origin_begins_when_it_returns_is_led_on() -> None:
    run = Run()
    world = run.world
    world.run(0.02)
    assert world.status("app") == ""
    world.hang(ORIGIN, 8.0)  # all that it waits for arrives meanwhile
    assert run.succeeded().time > 8.0
    run.ends()


def test_an_attempt_that_its_living_origin_gives_up_is_left_without_a_word() -> None:
    run = Run()
    world = run.world
    world.run(0.02)
    world.hang(ORIGIN, 20.0)
    assert world.until(lambda: bool(world.of(SuccessionBegun)), 20.0)
    world.run(3.0)  # it waits
    world.control.put(world.now, SINK, ORIGIN, End("app", world.graph("app").attempt, "no answer in time"))
    world.run(2.0)
    assert not world.of(OriginSucceeded)
    world.crash(ORIGIN)
    world.settled()
    assert not world.reports.get("app")


@pytest.mark.parametrize("after", [0.0, 0.01, 0.02, 0.03, 0.05])
def test_an_origin_that_dies_during_set_up_leaves_nothing(after: float) -> None:
    run = Run()
    run.world.run(after)
    assert run.world.status("app") == ""
    run.world.crash(ORIGIN)
    run.world.settled()
    assert run.world.status("app") in ("", "failed")
    if run.world.status("app"):
        assert run.world.reports["app"][-1].reason == f"its origin {ORIGIN} died before it ran"


@pytest.mark.slow
def test_a_move_that_nobody_has_carried_out_is_undone_at_once() -> None:
    run = Run().running()
    world = run.world
    world.move("app", "f", "h")
    assert world.until(lambda: "app" in world.synergy["h"].session.members, 5.0)
    world.crash(ORIGIN)
    run.succeeded()
    world.run(3.0)  # less than a lease
    assert world.where("app") == AT
    assert not world.graph("app").roles.followers
    assert "app" not in world.synergy["h"].session.applications
    assert not world.synergy["h"].ledger.requests
    run.ends()


@pytest.mark.slow
def test_a_follower_that_is_ready_takes_over_from_an_origin_without_backups() -> None:
    run = Run(at=AT | {"x": ORIGIN}, backups={})
    world = run.running().world
    world.move("app", "x", "h")
    members = world.synergy["h"].session.members
    assert world.until(lambda: "app" in members and "x" in members["app"].ready, 5.0)
    world.crash(ORIGIN)
    run.succeeded()
    assert world.until(lambda: world.where("app")["x"] == "h", 5.0)
    run.ends()


@pytest.mark.slow
def test_a_take_over_that_has_reached_one_of_two_peers_is_completed() -> None:
    run = Run(at=AT | {"x": "d"}, backups={"f": ("g",), "x": ("h",)})
    world = run.running().world
    world.delays.between(ORIGIN, "h", 5.0)
    world.crash("d")
    assert world.until(lambda: "f" in world.synergy["g"].session.members["app"].deployed, 10.0)
    assert "x" not in world.synergy["h"].session.members["app"].deployed
    world.crash(ORIGIN)
    run.succeeded()
    assert world.until(lambda: bool(world.of(TakenOver)), 5.0)
    assert (world.where("app")["f"], world.where("app")["x"]) == ("g", "h")
    run.ends()


def test_the_end_of_a_stream_counts_that_comes_while_nobody_leads() -> None:
    run = Run().running()
    world = run.world
    world.crash(ORIGIN)
    assert world.until(lambda: bool(world.of(SuccessionBegun)), 20.0)
    world.control.report(SINK, SinksEnded("app"))
    assert world.until(lambda: world.status("app") == "finished", 5.0)
    world.stop("app")
    world.settled()


def test_sharers_are_known_by_their_last_graph() -> None:
    before, after = (Sharer(1, epoch, origin, "", frozenset("x")) for epoch, origin in ((0, "a"), (TERM, "b")))
    answers = [Claimed("app", 1, None, sharers=(("other", each),)) for each in (before, after, before)]
    assert known_sharers(answers) == {"other": after}


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        ((None, End("app", 1, "peer e died (x)", "failed")), ("failed", "peer e died (x)")),
        ((End("app", 1, "it has ended"), End("app", 1, "finished", "finished")), ("finished", "")),
        ((End("app", 1, "", "stopped"), End("app", 1, "peer e died (x)", "failed")), ("stopped", "")),
        ((End("app", 1, "it has ended"), None), ("stopped", "its origin a had ended it")),
    ],
)
def test_an_application_that_its_origin_has_ended_ends_as_its_members_were_told(
    ends: tuple[End | None, ...], expected: tuple[str, str]
) -> None:
    assert ending(ends, "a", sinks_ended=False) == expected
    assert ending(ends, "a", sinks_ended=True) == ("finished", "")


def test_without_its_successor_an_application_ends() -> None:
    run = Run().running()
    run.world.crash(ORIGIN)
    run.world.crash(SINK)
    run.world.settled()
    assert not run.world.of(OriginSucceeded)


def test_an_origin_with_the_sink_has_no_successor() -> None:
    world = World(1)
    world.deploy("app", chain(), AT | {"out": ORIGIN}, {"s": table(random.Random(1), 400)})
    assert world.until(lambda: world.status("app") == "running")
    assert not world.graph("app").successor
    world.crash(ORIGIN)
    world.settled()


def test_a_source_that_dies_with_the_origin_ends_it_by_name() -> None:
    world = World(1)
    world.deploy("app", chain(), AT | {"s": ORIGIN}, {"s": table(random.Random(1), 400)}, origin=ORIGIN)
    assert world.until(lambda: world.status("app") == "running")
    world.run(1.0)
    world.crash(ORIGIN)
    assert world.until(lambda: world.status("app") == "failed", 20.0)
    assert world.reports["app"][-1].reason == f"its origin {ORIGIN} died, and with it {ORIGIN} (s)"
    world.stop("app")
    world.settled()


class Schedule:
    """A query of random operators whose origin dies, or seems to, in one of these phases."""

    PHASES = ("set-up", "running", "move", "take-over", "move, take-over")

    def __init__(self, seed: int) -> None:
        rng = self.rng = random.Random(seed)
        self.phase, self.case = rng.choice(self.PHASES), rng.choice(tuple(CASES))
        self.kind = rng.choice(("crash", "crash", "hang", "stun"))
        self.storm = rng.random() < 0.4
        self.plan = query(self.case, seed)
        self.plans = {"app": self.plan}
        self.inputs = {name: table(rng) for name in self.plan.sources}
        self.world = World(seed, CALM)
        others = list("cdefgh")
        self.at = {name: rng.choice(others) for name in self.plan.operators} | {"out": SINK}
        inner = [name for name, each in self.plan.operators.items() if each.kind not in ("source", "sink")]
        if rng.random() < 0.3:
            self.at[rng.choice(inner)] = ORIGIN
        self.backups = {
            name: tuple(rng.sample([each for each in others if each != self.at[name]], 2)) for name in inner
        }
        self.inner = inner
        self.lasting = {self.at[name] for name in self.plan.sources} | {SINK}
        self.other = (
            rng.choice((ORIGIN, "h", "")) if self.phase != "set-up" else ""
        )  # origin of a sharer, if there is one
        self.lasting.add(self.other)

    def __repr__(self) -> str:
        other = f", shared by one of {self.other}" if self.other else ""
        return f"{self.case}, {self.phase}, {self.kind}{', storm' if self.storm else ''}{other}"

    def run(self) -> bool:
        """Run it to its end; return whether another peer has led the application."""
        world, rng = self.world, self.rng
        world.deploy("app", self.plan, self.at, self.inputs, backups=self.backups, origin=ORIGIN)
        if self.phase == "set-up":
            world.run(rng.uniform(0.0, 0.4))
            if world.status("app") != "running":
                world.crash(ORIGIN)
                world.settled()
                assert world.status("app") in ("", "failed")
                return False
        else:
            assert world.until(lambda: world.status("app") == "running")
            world.run(rng.uniform(0.1, 1.0))
        if self.other and not world.results["app", "out"].ended:
            self.shares()
        if "move" in self.phase:
            self.moves()
            world.run(rng.choice((0.0, rng.uniform(0.0, 0.8))))
        if "take-over" in self.phase:
            self.loses()
            world.run(rng.uniform(0.0, 5.0))
        self.strikes()
        world.run(rng.uniform(0.0, 6.0))
        world.disturb(CALM)
        world.until(lambda: world.leaders() == [SINK] or (self.kind != "crash" and world.leaders() == [ORIGIN]), 30.0)
        if rng.random() < 0.5:
            world.run(3.0)
            self.moves()
            world.run(rng.uniform(0.0, 2.0))
        if self.phase != "take-over" and rng.random() < 0.5:
            self.loses()
        self.ends()
        return bool(world.of(OriginSucceeded))

    def shares(self) -> None:
        """Set up another application, which reads a stream of the first one."""
        others = [each for each in "cdefgh" if each not in self.lasting] + ["h"]
        where = {"n": self.at["f0"], "x": others[0], "out": SINK}
        plan = self.plans["other"] = packets("n").filter("bytes > 0", id="x").sink(id="out")
        backups, shares = {"x": tuple(others[1:2])} if len(others) > 1 else {}, {"n": ("app", "f0")}
        self.world.deploy("other", plan, where, {}, backups=backups, shares=shares, origin=self.other)
        self.lasting |= {where["x"]} if not backups else set()
        self.world.until(lambda: self.world.status("other") == "running", 4.0)
        if self.world.status("other") != "running":  # the stream has moved meanwhile, or has ended
            del self.plans["other"]

    def moves(self) -> None:
        """Ask whoever leads it to move a component."""
        operator, leaders = self.rng.choice(self.inner), self.world.leaders()
        if leaders and self.world.control.hung.get(leaders[-1], 0.0) <= self.world.now:
            self.world.origins["app"] = leaders[-1]
            self.world.move("app", operator, self.rng.choice("cdefgh"))

    def loses(self) -> None:
        """Crash a peer whose components all have backups."""
        leaders = self.world.leaders()
        graph = self.world.synergy[leaders[-1]].session.graph("app") if leaders else None
        followers = set() if graph is None else set(graph.roles.followers.values())
        found = sorted(set("cdefgh").intersection(self.world.synergy) - self.lasting - followers)
        if found:
            self.world.crash(self.rng.choice(found))

    def strikes(self) -> None:
        """Have the origin die, or hang so long that it may be declared dead."""
        world, rng = self.world, self.rng
        if self.storm:
            world.disturb(
                Faults(loss=rng.choice((0.05, 0.2)), duplication=0.2, reordering=0.2, delay=(0.0, 0.01), capture=0.02)
            )
        match self.kind:
            case "crash":
                world.crash(ORIGIN)
            case "hang":
                world.hang(ORIGIN, rng.uniform(2.0, 9.0))
            case "stun":
                world.stun(ORIGIN, rng.uniform(2.0, 9.0))

    def led_by_one(self) -> bool:
        return all(len(self.world.leaders(name)) == 1 for name in self.plans)

    def uneven(self) -> str:
        return MovingSchedule.uneven(self)  # type: ignore[arg-type]  # it needs the world and the plans alone

    def needed(self, address: str) -> tuple[float, dict[str, float]]:
        return MovingSchedule.needed(self, address)  # type: ignore[arg-type]  # likewise

    def ends(self) -> None:
        world, results = self.world, self.world.results["app", "out"]
        assert world.until(lambda: results.ended or world.status("app") == "failed", 200.0), (
            f"it stands still: {world.failures()}"
        )
        sink_doubted = any(each.subject == SINK for each in world.of(PeerDeclaredDead, SINK))
        if (
            world.status("app") == "failed" and sink_doubted
        ):  # a peer took the sink's, which lives, for dead, and has left
            assert world.reports["app"][-1].reason
            for name in self.plans:
                world.stop(name)
            world.settled()
            return
        assert world.status("app") == "running", world.reports["app"][-1].reason
        _, _, ordered, digits = CASES[self.case]
        wanted, found = (rounded(rows, digits) for rows in (undisturbed(self.plan, self.inputs), results.rows))
        assert found == wanted if ordered else sorted(found, key=repr) == sorted(wanted, key=repr), "rows"
        assert world.until(self.led_by_one, 30.0), {name: world.leaders(name) for name in self.plans}
        if "other" in self.plans:
            theirs = world.results["other", "out"]
            assert world.until(lambda: theirs.ended, 60.0), f"other: {world.reports['other'][-1]}"
            every = [row for row in self.inputs["s0"].rows() if row[6] > 20]
            assert theirs.rows.rows() == every[len(every) - theirs.height :], "other has not all from where it joined"
        world.until(lambda: not self.uneven(), 20.0)
        assert not self.uneven()
        for name in self.plans:
            world.finish(name)
        assert world.until(lambda: all(world.status(name) == "finished" for name in self.plans), 30.0)
        for name in self.plans:
            world.stop(name)
        world.settled()


def scheduled(seed: int) -> bool:
    schedule = Schedule(seed)
    try:
        return schedule.run()
    except Exception as error:
        raise AssertionError(f"scheduled({seed}): {schedule!r}: {error}") from error


@pytest.mark.parametrize("seed", quick_first(range(6), 1))
def test_the_death_of_an_origin_at_any_moment_changes_no_row(seed: int) -> None:
    scheduled(seed)


@pytest.mark.slow(20)
@pytest.mark.parametrize("block", blocks(10, 10))
def test_the_death_of_an_origin_changes_no_row_in_many_schedules(block: int) -> None:
    assert sum(map(scheduled, range(1000 + 50 * block, 1050 + 50 * block))) > 20
