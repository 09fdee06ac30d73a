"""Another plan takes the place of a durable one while everything is killed: rows are of one plan, then of the other."""

from __future__ import annotations

import random
from collections.abc import Mapping

import msgspec
import pytest

from synergy_nb.dataflow.deployments import FOLDER, Assignment, Deployment, InputFeed, Role
from synergy_nb.dataflow.operators.sinks import Sink
from synergy_nb.dataflow.streams.log.log import Limits
from synergy_nb.dataflow.tuples import START
from synergy_nb.durable.component_files import operators_of
from synergy_nb.durable.restoring import has_changed
from synergy_nb.plan import Plan
from synergy_nb.plan.builder import Stream
from synergy_nb.plan.derived.plan_transitions import transitions
from tests.campaigns import blocks
from tests.durable.durable_world import DurableWorld
from tests.moving_schedules import undisturbed
from tests.stream_schedules import drawn_faults, finish, in_blocks, inputs_of, piece, sorted_rows, stage, stream

ROWS = 90
LONGER = 240  # rows, with backups: before others would end, peers have to find their copies


def rows_of(rng: random.Random, one: Stream, other: Stream) -> Stream:
    """What a plan without windows does with the streams that both plans have."""
    match rng.choice(("filter", "join", "union")):
        case "filter":
            return stage(rng, one, 8).filter(f"v <> {rng.randrange(10)}", id="last")
        case "join":
            return one.join(other, on="v", within="20 ms", id="j").project("v", "w", id="jp")
        case _:
            return one.union(other.filter("w < 0.4", id="half"), id="u").filter("v >= 0", id="last")


def windows_of(rng: random.Random, one: Stream, other: Stream) -> Stream:
    """What a plan with windows does with them."""
    one = rng.choice((one, one.filter("w < 0.7", id="less"), one.union(other, id="u")))
    length = rng.choice(("50 ms", "100 ms", "150 ms"))
    return one.aggregate(by=["v"], window=length, total=rng.choice(("count(*)", "sum(v)")), id="c")


def pair(rng: random.Random) -> tuple[Plan, Plan]:
    """A plan, and another one of the same sources."""
    one, other = stream("n"), stream("m")
    if rng.random() < 0.5:
        one = stage(rng, one, 1)
    if rng.random() < 0.3:
        one = one.union(stream("l"), id="all")
    one = one.union(other.filter("w < 0.5", id="some"), id="both")
    made = rng.choice((rows_of, windows_of))
    old, new = (made(rng, one, other).sink("out", id="out") for _ in range(2))
    return old, new


class Replacing(DurableWorld):
    """An application with a folder that is composed anew of other plans."""

    def compose(
        self, plan: Plan, peers: Mapping[str, str], later: int, backups: Mapping[str, tuple[str, ...]] | None = None,
        *, running: bool = True,
    ) -> None:  # fmt: skip
        """Have the application go on with a plan, some epochs later than before, take-overs included."""
        known = self.deployments["app"]
        epoch = later + max(each.epoch for each in known.assignments.values())
        self.plans["app"] = plan
        assignments: dict[str, Assignment] = {}
        for name, node in plan.operators.items():
            switch = plan.transition.switches.get(name)
            feeds = tuple(InputFeed("app", up) for up in node.inputs)
            assignments[name] = Assignment(
                peers[name], epoch, (backups or {}).get(name, ()), inputs=feeds, sink=node.kind == "sink",
                numbers=() if switch is None else switch.inputs, joins=name in plan.transition.joined,
            )  # fmt: skip
        kept = self.kept.get(("app", "out"))
        if kept is not None:  # inputs that the sink has no more are forgotten
            inputs = {number: point for number, point in kept.inputs.items() if number in assignments["out"].feeds}
            self.kept["app", "out"] = msgspec.structs.replace(kept, inputs=inputs)
        self._ready.clear()
        self._first = {("app", name, backup) for name, found in (backups or {}).items() for backup in found}
        made = self._with_techniques("app", assignments)
        self._publish(Deployment("app", known.version + 1, made, running=running))

    def tell(self, both: Plan, known: int | None) -> int | None:
        """Tell the sink from when the new plan is complete, as clients do.

        ``known``: what all streams had promised when it had joined them, once that is known; returned, too.
        """
        here = {
            name: component
            for node in self.nodes.values()
            if not node.crashed
            for (_, name), component in node.hosting.components.items()
            if name in both.operators and component.role is Role.ACTIVE
        }
        streams = {name: component.log.end.until for name, component in here.items() if name != "out"}
        if len(here) < len(both.operators):
            return None
        if known is None:
            return max(streams.values()) if min(streams.values()) > START else None
        if streams[both.operators["out"].inputs[1]] > known:
            logic = here["out"].logic
            assert isinstance(logic, Sink)
            logic.complete_from(max(streams.values()))
        return known

    def forget_others(self, plan: Plan) -> None:
        """Remove what a plan does not need, as the next cluster does before it starts the application."""
        files = self.files("app")
        for name in files.names():
            if not operators_of([name]) <= {*plan.operators}:
                files.remove(name)
        self.kept = {key: state for key, state in self.kept.items() if key[1] in plan.operators}

    @property
    def switching(self) -> dict[str, object]:
        """What the folder has of the state of the sink, as far as it has acknowledged that."""
        kept = self.kept.get(("app", "out"))
        if kept is None:
            return {}
        found: dict[str, object] = msgspec.msgpack.decode(kept.head, type=dict[str, object])
        return found if "change" in found else {}


def checked(seed: int) -> None:
    """Check one schedule, every other one with backups."""
    run(seed, backed=seed % 2 == 1)


def run(seed: int, *, backed: bool = False) -> str:
    """A change that is begun, given up and completed while everything is killed; returns what became of it.

    In some, whoever leads is cut off as it keeps the new plan: the application goes on with either one then.

    ``backed``: whether each operator but the sinks has a backup, which takes over when a single peer is killed.
    """
    rng, single, cut = random.Random(seed), random.Random(f"{seed} backups"), random.Random(f"{seed} cut off")

    def backups_of(plan: Plan, peers: Mapping[str, str], names: list[str]) -> dict[str, tuple[str, ...]]:
        found = {name: [each for each in names if each != peers[name]] for name in plan.operators if name != "out"}
        return {name: (single.choice(free),) for name, free in found.items() if backed and free}

    def lose_one() -> None:
        living = [peer for peer in world.nodes if not world.dead(peer)]
        known = world.deployments["app"].assignments
        needed = {each.active for each in known.values() if not set(each.backups) - {FOLDER}}
        victims = [peer for peer in living if peer not in needed and not world.doubted]
        if backed and victims and single.random() < 0.5:
            world.crash(single.choice(victims))

    old, new = pair(rng)
    inputs = inputs_of(rng, old, rows=LONGER if backed else ROWS)
    world = Replacing(
        seed, "abcde", drawn_faults(rng), codec=seed % 4 == 0, limits=Limits(piece=piece(seed)),
        segment=rng.choice((300, 4_000, 1 << 20)), small=rng.choice((0, 300, 1 << 16)),
        slow=rng.choice((0.0, 0.05, 0.5)),
    )  # fmt: skip
    world.pace = rng.choice((0.05, 0.1))
    world.clients["app", "out"] = rng.choice((0.02, 0.5))
    peers = {name: rng.choice("abc") for name in old.operators}
    world.deploy("app", old, peers, inputs, backups=backups_of(old, peers, list("abcde")))
    world.run(rng.uniform(0.0, 2.0))
    lose_one()
    wanted = undisturbed(old, inputs)
    had = set(old.operators)
    outcome, kept = "old", (old, old)  # `kept`: plan of the folder, and the one before
    for number in range(1, rng.randint(2, 5)):
        both, after, _ = transitions("app", old, new, number, had - set(old.operators))
        if both.transition.switches.get("out") in (None, old.transition.switches.get("out")):
            break  # the two plans are one
        had |= set(both.operators)
        names = [f"{number}{name}" for name in "abc"[: rng.randint(1, 3)]]
        world.kill_all(names)
        later = 1 + rng.randrange(3)
        peers = {name: rng.choice(names) for name in both.operators}
        world.compose(both, peers, later, backups_of(both, peers, names))
        world.doubted.clear()
        world.after(single.uniform(0.0, 2.0), lose_one)
        patience = world.now + rng.choice((0.3, 3.0, 30.0, 30.0))
        known = None
        while world.now < patience and not world.results["app", "out"].ended:
            world.run(0.05)
            known = world.tell(both, known)
            if world.switching.get("change") == number and world.switching["ready"]:
                break
        state = world.switching
        ready = state.get("change") == number and bool(state["ready"])
        done = ready and rng.random() < 0.8
        led = after if done else old
        if ready and cut.random() < 0.5:
            done, led = True, cut.choice((old, after))
        kept = (old, after) if done else kept
        names = [f"{number}{name}!" for name in "abc"[: rng.randint(1, 3)]]
        for start in range(rng.randint(1, 3)):
            names = [f"{name}." for name in names]
            world.kill_all(names)
            assert not world.forgotten(), world.forgotten()
            plan = led
            if start:
                plan = kept[has_changed(world.files("app"), *kept)]
                assert plan in (old, after)
                world.forget_others(plan)
            peers = {name: rng.choice(names) for name in plan.operators}
            world.compose(plan, peers, 1, backups_of(plan, peers, names))
            world.doubted.clear()
            world.run(rng.choice((0.0, 0.3, 2.0)) * rng.random())
        if plan == after:
            at = int(str(state["at"]))
            rows = undisturbed(new, inputs)
            before = wanted["time"].to_physical() <= at
            wanted = wanted.filter(before).vstack(rows.filter(rows["time"].to_physical() > at))
            outcome, old, new = "new", after, old
            if rng.random() < 0.6:
                break
    finish(world)
    assert not world.failures(), world.failures()
    assert world.results["app", "out"].ended, "it stands still"
    found = world.results["app", "out"].rows
    assert sorted_rows(found.select(wanted.columns)) == sorted_rows(wanted)
    return outcome


def test_an_attempt_that_never_runs_leaves_what_the_folder_has_as_it_was() -> None:
    """It may be of one plan, and the next one, with other readers, of the other."""
    plan = stream("n").filter("v > 0", id="f").sink("out", id="out")
    world = Replacing(1, "a", drawn_faults(random.Random(1)))
    world.deploy("app", plan, dict.fromkeys(plan.operators, "a"), inputs_of(random.Random(1), plan, rows=30))
    world.run(1.0)
    world.kill_all("b")
    before = dict(world.kept)
    world.compose(plan, dict.fromkeys(plan.operators, "b"), 1, running=False)
    world.run(2.0)
    assert world.kept == before
    world.compose(plan, dict.fromkeys(plan.operators, "b"), 1)
    finish(world)
    assert world.results["app", "out"].ended
    assert all(state.output.epoch == 2 for state in world.kept.values())


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(0, 6, 2))
def test_rows_are_of_the_old_plan_up_to_a_time_and_of_the_new_one_after_it(seed: int) -> None:
    run(seed)


@pytest.mark.slow
def test_backups_take_over_meanwhile_from_what_the_folder_has() -> None:
    """In seeds 3 and 5 one takes over before it has a snapshot."""
    assert {run(seed, backed=True) for seed in range(1, 6, 2)} == {"old", "new"}


@pytest.mark.slow(20)
@pytest.mark.parametrize("block", blocks(20, 20))
def test_rows_are_those_of_both_plans_in_many_schedules(block: int) -> None:
    in_blocks(checked, block)
