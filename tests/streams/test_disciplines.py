"""Scheduling disciplines: the order of tuples of several applications, and its effect on misses."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synergy_experiments.flows.stream_world import StreamWorld
from synergy_nb import Cluster
from synergy_nb.dataflow.deployments import Role
from synergy_nb.dataflow.meters import DelayHistogram
from synergy_nb.dataflow.streams.component.component import Component
from synergy_nb.dataflow.streams.log.values import Chunk
from synergy_nb.events import ComponentDeployed, RequestSubmitted
from synergy_nb.lifecycle.sessions.deploying import remaining_times
from synergy_nb.plan import Plan, plan, source
from synergy_nb.plan.checks.requirements import DISCIPLINES
from synergy_nb.reporting.explanation import Explanation
from tests.peer_states import states_of
from tests.stream_bench import Bench, work_of
from tests.stream_schedules import stream, table

OWN = ("", *DISCIPLINES)


# -- several disciplines at one peer ---------------------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(
    discipline=st.sampled_from(DISCIPLINES),
    stated=st.lists(st.tuples(st.sampled_from(OWN), st.none() | st.integers(1, 5)), min_size=2, max_size=5),
    arrivals=st.lists(
        st.tuples(st.integers(0, 4), st.integers(0, 20), st.integers(1, 5), st.booleans()), min_size=1, max_size=40
    ),
)
def test_each_class_orders_its_own_and_the_peer_orders_the_classes(
    discipline: str, stated: list[tuple[str, int | None]], arrivals: list[tuple[int, int, int, bool]]
) -> None:
    """The twin sorts all that waits: within each class by its discipline, then the first of each by the peer's."""
    names = [f"o{number}" for number in range(len(stated))]
    per_tuple = [0.25 * (number + 1) for number in range(len(stated))]
    limits = [math.inf if limit is None else float(limit) for _, limit in stated]
    bench = Bench(
        {name: [f"s{name}"] for name in names},
        discipline=discipline,
        delays=dict(zip(names, limits, strict=True)),
        remaining=dict(zip(names, per_tuple, strict=True)),
    )
    for name, (own, _) in zip(names, stated, strict=True):
        bench[name].agree(bench[name].terms._replace(discipline=own))
    waiting: list[tuple[int, int, Chunk]] = []  # order of arrival, component

    def rank(entry: tuple[int, int, Chunk], by: str) -> tuple[float, int]:
        arrival, number, chunk = entry
        deadline = chunk.born + limits[number]
        slack = deadline - per_tuple[number] * chunk.rows
        return {"fcfs": 0.0, "edf": deadline, "least_slack": slack}[by], arrival

    def serve() -> None:
        heads = {number: entry for entry in reversed(waiting) for number in [entry[1]]}
        nominated = []
        for each in DISCIPLINES:
            of_class = [entry for number, entry in heads.items() if (stated[number][0] or discipline) == each]
            if of_class:
                nominated.append(min(of_class, key=lambda entry: rank(entry, each)))
        expected = min(nominated, key=lambda entry: rank(entry, discipline))
        waiting.remove(expected)
        work = work_of(bench.hosting)
        assert (work.component.operator, work.chunks) == (names[expected[1]], [expected[2]])
        bench.done(work)

    for order, (number, born, rows, served) in enumerate(arrivals):
        chosen = number % len(stated)
        waiting.append((order, chosen, bench.offer(names[chosen], rows, born=float(born))))
        if served:
            serve()
    while waiting:
        serve()
    assert bench.hosting.next(0.0) is None


def test_a_driver_is_asked_of_a_component_only_if_it_would_be_next() -> None:
    """Many light applications wait at a time, and each choice asked the driver of all of them."""
    bench = Bench({f"o{number}": [f"s{number}"] for number in range(20)})
    for number in range(20):
        bench.offer(f"o{number}")
    asked: list[str] = []

    def accept(component: Component, _chunk: Chunk) -> bool:
        asked.append(component.operator)
        return component.operator != "o0"

    work = bench.hosting.next(0.0, accept)
    assert work is not None
    assert work.component.operator == "o1"
    assert asked == ["o0", "o1"]


def test_a_discipline_that_a_plan_states_gives_it_no_precedence_over_others() -> None:
    bench = Bench({"urgent": ["u"], "other": ["o"]}, delays={"urgent": 0.001, "other": 10.0})
    bench["urgent"].agree(bench["urgent"].terms._replace(discipline="edf"))
    bench.offer("other", now=1.0)
    bench.offer("urgent", now=2.0)
    assert work_of(bench.hosting, 3.0).component.operator == "other", "the peer serves first who came first"


def test_least_slack_counts_the_way_that_is_left() -> None:
    delays = {"near": 1.0, "far": 1.2}
    bench = Bench({"near": ["n"], "far": ["f"]}, discipline="edf", delays=delays)
    bench.offer("near")
    bench.offer("far")
    bench["far"].agree(bench["far"].terms._replace(transit=0.5))
    assert bench.hosting.next(0.0, lambda component, _: component.operator == "none") is None
    bench.hosting.discipline = "least_slack"
    assert work_of(bench.hosting).component.operator == "far"
    assert work_of(bench.hosting).component.operator == "near"


@pytest.mark.parametrize("discipline", DISCIPLINES)
def test_a_follower_is_executed_when_no_active_component_has_anything_to_do(discipline: str) -> None:
    delays = {"follower": 0.001, "active": 10.0}
    bench = Bench({"follower": ["f"], "active": ["a"]}, discipline=discipline, delays=delays)
    bench["follower"].role = Role.FOLLOWER
    bench.offer("follower")
    bench.offer("active")
    assert [work_of(bench.hosting).component.operator for _ in range(2)] == ["active", "follower"]


def test_the_way_that_is_left_is_the_longest_downstream_as_probes_found_it() -> None:
    one = stream("n").filter("v >= 0", id="f")
    both = plan(one.sink("x", id="x"), one.project("v", id="p").sink("y", id="y"))
    reached = {"n": 0.1, "f": 0.3, "x": 0.4, "p": 0.7, "y": 1.5}
    assert remaining_times(reached, both) == pytest.approx({"y": 0.0, "p": 0.8, "x": 0.0, "f": 1.2, "n": 1.4})
    assert remaining_times({}, both) == {}


# -- what disciplines do to misses -----------------------------------------------------------------------------------


def asked(limit: float, scheduling: str | None) -> Plan:
    return stream("n").filter("v >= 0", id="f").sink("out", id="out", delay=limit, scheduling=scheduling)


def overloaded(discipline: str, scheduling: str | None = None) -> tuple[DelayHistogram, DelayHistogram]:
    """Delays of two applications, with limits of .2 and 5 s, whose filters are on a peer that is overloaded for 9 s."""
    rng = random.Random(1)
    world = StreamWorld(1, ("a", "b", "c", "d"), service=2.5e-3, discipline=discipline)
    for name, limit, sink in (("tight", 0.2, "c"), ("loose", 5.0, "d")):
        peers = {"n": "a", "f": "b", "out": sink}
        world.deploy(name, asked(limit, scheduling), peers, {"n": table(rng, 2000)})
    world.run(60.0)
    assert not world.failures()
    assert all(world.results[name, "out"].ended for name in ("tight", "loose"))
    assert all(world.results[name, "out"].rows.height == 2000 for name in ("tight", "loose"))
    return world.results["tight", "out"].delays, world.results["loose", "out"].delays


@pytest.mark.slow
@pytest.mark.parametrize("discipline", ["edf", "least_slack"])
def test_deadlines_lower_the_misses_of_a_peer_that_is_overloaded(discipline: str) -> None:
    tight, loose = overloaded("fcfs")
    before = tight.missed + loose.missed
    assert tight.miss_rate is not None
    assert tight.miss_rate > 0.9
    tight, loose = overloaded(discipline)
    assert tight.miss_rate is not None
    assert tight.miss_rate < 0.1
    assert tight.missed + loose.missed < before / 4


@pytest.mark.slow
def test_plans_that_state_a_discipline_are_ordered_by_it_among_themselves() -> None:
    by_peer, by_plans = overloaded("edf"), overloaded("fcfs", "edf")
    assert [each.missed for each in by_plans] == [each.missed for each in by_peer]


# -- what is said of it ----------------------------------------------------------------------------------------------


def explained(scheduling: str, *disciplines: str) -> list[str]:
    submitted = RequestSubmitted(0.0, "p", "r", plan="p", operators=["f"], qos={}, scheduling=scheduling)
    deployed = [
        ComponentDeployed(1.0, f"p{number}", "r", operator="f", discipline=each)
        for number, each in enumerate(disciplines)
    ]
    told = str(Explanation("r", [submitted, *deployed], {"p0": "peer-0", "p1": "peer-1"})).splitlines()
    return [line.strip() for line in told if "scheduling" in line]


def test_an_explanation_names_the_discipline_and_who_chose_it() -> None:
    assert explained("") == []
    assert explained("edf", "edf") == ["scheduling: earliest deadline first, as the plan states"]
    assert explained("", "fcfs", "fcfs") == ["scheduling: first come, first served, the default of its peers"]
    assert explained("", "fcfs", "least_slack") == [
        "scheduling: first come, first served at peer-0; least slack first at peer-1"
    ]


def test_a_plan_states_its_discipline_in_python_yaml_and_bytes() -> None:
    plan = asked(2.0, "least_slack")
    assert plan.qos.scheduling == "least_slack"
    assert "scheduling: least_slack" in plan.to_yaml()
    assert Plan.from_yaml(plan.to_yaml()) == plan == Plan.from_bytes(plan.to_bytes())
    assert plan.qos.numbers == {"delay": 2.0}


def test_a_discipline_that_is_none_or_has_no_deadline_is_refused() -> None:
    with pytest.raises(ValueError, match=r"qos\.scheduling: 'ed'; expected one of fcfs, edf, .*; did you mean 'edf'"):
        asked(2.0, "ed")
    with pytest.raises(ValueError, match=r"qos\.scheduling: 'edf'; expected a delay as well: deadlines follow"):
        source("packets", rate=1.0).sink(scheduling="edf")
    assert source("packets", rate=1.0).sink(scheduling="fcfs").qos.scheduling == "fcfs"
    with pytest.raises(ValueError, match=r"discipline: 'least-slack'; expected one of .*; did you mean 'least_slack'"):
        Cluster(1, discipline="least-slack")


def test_plans_that_become_one_state_the_same_discipline() -> None:
    packets = source("packets", rate=1.0)
    edf, fcfs = packets.sink("one", delay="2 s", scheduling="edf"), packets.sink("other", scheduling="fcfs")
    assert plan(edf, packets.sink("other")).qos.scheduling == "edf"
    assert plan(edf, fcfs, scheduling="least_slack").qos.scheduling == "least_slack"
    with pytest.raises(ValueError, match=r"qos\.scheduling: 'edf and fcfs'; expected the same of all plans"):
        plan(edf, fcfs)


@pytest.mark.slow
def test_live_peers_execute_by_the_discipline_of_their_cluster_or_of_the_plan() -> None:
    packets = source("packets", seed=1, rate="1000 tuples/s", duration="1 s", speed=0)
    with Cluster(2, discipline="edf", spark=False) as cluster:
        assert {state.discipline for state in states_of(cluster).values()} == {"edf"}
        one = cluster.submit(packets.filter("bytes > 1000").sink("one"))
        other = cluster.submit(packets.filter("bytes > 1200").sink("other", delay="1 min", scheduling="least_slack"))
        assert one.results().height > other.results().height > 0
        assert "scheduling: earliest deadline first, the default of its peers" in str(one.explain())
        assert "scheduling: least slack first, as the plan states" in str(other.explain())
        assert set(other.explain().disciplines) == {"least_slack"}
