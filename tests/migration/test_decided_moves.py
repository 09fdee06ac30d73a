"""Migrations that peers decide themselves, under faults: schedules of moves that begin while the target decides.

As in ``test_moving_campaign``, but the component's peer finds that it has no slack, and asks the new peer while the
origin begins the move already. In a third of the schedules the new peer refuses, after snapshots and tuples for it are
on their way: then everything has to be as if it had not been asked.
"""

from __future__ import annotations

from random import Random

import pytest

from synergy_nb.control.driver_messages import PredictionsMade, SlackLost
from synergy_nb.dataflow.prediction_reports import PeerPrediction, Prediction, SlackViolation
from synergy_nb.events import ComponentMoved, MigrationDecided, MigrationEnded, MigrationProjected
from synergy_nb.lifecycle.requests.decider import component_name
from synergy_nb.plan import Plan
from tests.campaigns import blocks
from tests.moving_schedules import CASES, FAULTS, ORIGINS, PEERS, PHASES, VICTIMS, Move, Schedule, World, drawn, packets

LIMIT_S = 600.0
BLOCK = 20
MANY = 400


class Decided(Move):
    """A migration whose component has no slack at its peer; only one other peer offers it."""

    def __init__(self, world: World, application: str, operator: str, to: str, *, refused: bool) -> None:
        self.application, self.operator, self.to = application, operator, to
        graph = world.graph(application)
        plan, peers = Plan.from_bytes(graph.plan), graph.roles.peers
        self.origin, self.old = graph.origin, peers[operator]
        self.upstream = [peers[up] for up in plan.upstream(operator)]
        self.readers = [peers[down] for down in plan.downstream(operator)]
        self.world, self.began = world, world.now
        name, target = component_name(plan, operator), world.synergy[to]
        if refused:
            target.hot_spots.target.offers = lambda *_: False
        else:
            target.probing.offers.add(name)
        world.control.call(to, target.loads.offer, name, {})
        world.run(1.0)
        slow = Prediction(
            application, operator, 50.0, 50.0, "", 2e3, 2e3, "last measurement", 0.0, 0.0, -1.0, 0.001, 0.1
        )
        world.control.report(self.old, PredictionsMade(PeerPrediction((slow,), 50.0, 50.0, 1.0, 1.0)))
        world.control.report(self.old, SlackLost(SlackViolation(slow, -LIMIT_S, 0.1, 5, 1.0)))
        world.until(self.asked, 3.0)

    def asked(self) -> bool:
        """Whether the old peer has asked the new one."""
        return any(isinstance(event, MigrationDecided) for event in self.world.control.journal)

    @property
    def outcome(self) -> list[str]:  # type: ignore[override]  # of the journal, not of a command
        """What has come of it; empty as long as nothing has."""
        ended = [event for event in self.world.control.journal if isinstance(event, MigrationEnded)]
        if ended:
            return [ended[0].failure]
        if self.old not in self.world.synergy or self.world.status(self.application) != "running":
            return ["nobody knows any more"]
        return [] if self.asked() else ["no peer was asked"]


class DecidedSchedule(Schedule):
    """A schedule whose first move is decided by the component's peer."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.moving = self.rng.choice(("one", "one", "to its backup"))
        self.refused = self.rng.random() < 1 / 3
        if self.fault == "doubted":
            self.fault = "none"

    def begin(self) -> None:
        case = CASES[self.case]
        streams = [
            packets(f"s{number}", number).filter("bytes > 20", id=f"f{number}") for number in range(case.sources)
        ]
        self.deploy("app", case.build(*streams).sink(id="out", delay=LIMIT_S))
        self.world.run(self.rng.uniform(0.0, 0.8))

    def move(self, application: str, operator: str, to: str = "") -> Move:
        """Have a peer decide that a component with inputs leaves it."""
        rng, roles, plan = self.rng, self.world.graph(application).roles, self.plans[application]
        if not plan.upstream(operator):
            operator = rng.choice([name for name in plan.operators if plan.upstream(name) and name != "out"])
        backups = roles.backups.get(operator, ())
        chosen = backups if self.moving == "to its backup" and backups else PEERS
        to = rng.choice([peer for peer in chosen if peer != roles.peers[operator]])
        self.moves.append(Decided(self.world, application, operator, to, refused=self.refused))
        return self.moves[-1]

    def __str__(self) -> str:
        return f"{super().__str__()}{', refused' if self.refused else ''}"


def run(seed: int) -> DecidedSchedule:
    """Run the schedule of a seed."""
    schedule = DecidedSchedule(seed)
    try:
        schedule.run()
    except AssertionError as error:
        raise AssertionError(f"run({seed}): {schedule}: {error}") from error
    return schedule


@pytest.mark.slow
@pytest.mark.parametrize("block", blocks(MANY // BLOCK, 10))
def test_nothing_is_lost_doubled_or_reordered_by_a_migration_in_many_schedules(block: int) -> None:
    schedules = [run(seed) for seed in range(BLOCK * block, BLOCK * (block + 1))]
    accepted = [each for each in schedules if not each.refused]
    assert sum(each.moved for each in accepted) > len(accepted) // 2
    for each in schedules:
        assert ORIGINS["app"] not in each.dead
        moved = [event.to for event in each.world.control.journal if isinstance(event, ComponentMoved)]
        assert not (each.refused and each.moves[0].to in moved)
    answers = [
        event.accepted
        for each in schedules
        for event in each.world.control.journal
        if isinstance(event, MigrationProjected)
    ]
    assert answers.count(True) > BLOCK // 3
    assert answers.count(False) > BLOCK // 10


def test_schedules_have_every_fault_in_every_phase() -> None:
    schedules = [drawn(Random(seed)) for seed in range(MANY)]  # all that a schedule draws before it has a world
    for field, names in (("phase", PHASES), ("fault", FAULTS), ("victim", VICTIMS)):
        assert {getattr(each, field) for each in schedules} == set(names)
