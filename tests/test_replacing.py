"""A plan takes the place of a running one: each row is of the old plan up to a point, and of the new one after it."""

from __future__ import annotations

import itertools
import random
from typing import Any

import polars as pl
import pytest

from synergy_nb import ClusterError, NotAdmitted, PlanError, Simulation, csv, plan, source
from synergy_nb.plan import Plan, Stream
from synergy_nb.plan.derived.plan_changes import change_of, check_replacement

WHOLE: dict[str, Any] = {"count": 4000, "speed": 0}


def packets(**stated: Any) -> Stream:
    return source("packets", seed=3, rate="100 tuples/s", id="packets", **stated)


def large(least: int, **stated: Any) -> Plan:
    return packets(**stated).filter(f"bytes > {least}", id="large").sink("r", id="out")


def counts(least: int, window: str, asked: str | None = None, **stated: Any) -> Plan:
    found = packets(**stated).filter(f"bytes > {least}", id="large")
    return found.count(window=window, id="n").sink("r", id="out", delay="5 s", availability=asked)


def joins(within: str, **stated: Any) -> Plan:
    every = packets(**stated)
    few, fewer = every.filter("bytes > 1400", id="few"), every.filter("bytes > 1450", id="fewer")
    return few.join(fewer, on="link", within=within, id="j").sink("r", id="out")


def of_two_sinks(least: int) -> Plan:
    every = packets()
    return plan(every.sink("a", id="a"), every.filter(f"bytes > {least}", id="f").sink("b", id="b"), name="both")


def latest(least: int) -> Plan:
    every = packets()
    few = every.filter(f"bytes > {least}", id="few")
    return every.asof(few, on="link", within="1 min", id="j").sink("r", id="out")


def of_one_point(simulation: Simulation, found: pl.DataFrame, old: Plan, new: Plan) -> bool:
    """Whether there is a time up to which rows are those of the old plan, and after which those of the new one."""
    before, after = (sorted(simulation.submit(each).results().rows()) for each in (old, new))
    *times, last = sorted({row[0] for row in found.rows()})  # of the last time, not all rows may be there
    rows = sorted(row for row in found.rows() if row[0] < last)
    return any(
        rows == [row for row in before if row[0] <= time] + [row for row in after if time < row[0] < last]
        for time in times
    )


@pytest.mark.parametrize("seed", range(3))
def test_each_row_is_of_the_old_plan_up_to_a_point_and_of_the_new_one_after_it(seed: int) -> None:
    rng = random.Random(seed)
    make, old, new = (
        (large, (100,), (900,)),
        (counts, (100, "1 s"), (900, "2 s")),
        (counts, (100, "2 s"), (100, "3 s")),
    )[seed % 3]
    simulation = Simulation(peers=5, seed=seed)
    application = simulation.submit(make(*old))
    former = application.id
    tables = application.stream()
    got = [next(tables)]
    simulation.run(rng.uniform(0.0, 5.0))
    idle = sorted(set(simulation.peers) - set(application.graph.values()))
    simulation.kill(rng.choice(idle))
    change = application.replace(make(*new))
    assert set(change.kept) == {"packets"} if old[0] != new[0] else {"packets", "large"}
    assert (application.id != former, application.plan) == (True, make(*new))
    assert application.status == "running"
    assert simulation.applications[former].status == "stopped"
    simulation.run(8.0)
    application.stop()
    found = pl.concat([*got, *tables])
    assert of_one_point(simulation, found, make(*old, **WHOLE), make(*new, **WHOLE))


@pytest.mark.slow
def test_a_second_plan_takes_the_place_of_the_first_and_goes_on_with_its_streams() -> None:
    simulation = Simulation(peers=4, seed=1)
    application = simulation.submit(counts(100, "1 s"))
    application.head(2)
    application.replace(counts(900, "1 s"))
    application.head(6)
    application.pause()
    simulation.run(10.0)
    application.resume()
    change = application.replace(counts(900, "4 s"))
    assert change.kept == {"packets": "packets", "large": "large"}
    rows = application.head(20).rows()
    application.stop()
    alike = [(100, "1 s"), (900, "1 s"), (900, "4 s")]
    known = [set(simulation.submit(counts(*each, count=8000, speed=0)).results().rows()) for each in alike]
    of = [next(number for number, each in enumerate(known) if row in each) for row in rows]
    assert of == sorted(of)
    assert set(of) == {0, 1, 2}
    for before, after in itertools.pairwise(rows):
        assert after[1] == before[2], "windows follow one another without a gap"


@pytest.mark.slow
def test_joins_have_all_of_their_partners_after_the_point() -> None:
    simulation = Simulation(peers=4, seed=1)
    application = simulation.submit(joins("1 s"))
    application.head(5)
    application.replace(joins("2 s"))
    rows = application.head(120)
    application.stop()
    assert of_one_point(simulation, rows, joins("1 s", **WHOLE), joins("2 s", **WHOLE))


@pytest.mark.slow
@pytest.mark.parametrize(("before", "after"), [(None, "degree 2"), ("active 2", "ordered 2"), ("degree 2", "99.9 %")])
def test_a_plan_with_backups_survives_the_death_of_what_has_begun_anew(before: str | None, after: str) -> None:
    simulation = Simulation(peers=6, seed=1)
    application = simulation.submit(counts(100, "1 s", before))
    application.head(3)
    change = application.replace(counts(100, "2 s", after))
    assert (change.kept, change.anew) == ({"packets": "packets"}, ("large", "n"))
    (replicated,) = application.notices
    alone = application.graph["packets"]
    assert replicated.startswith(f"Replicas cover large, n. The application ends when {alone} (packets")
    assert replicated in str(application.explain())
    dies = application.graph["n"]
    assert dies != alone
    simulation.kill(dies)
    simulation.run(20.0)
    assert (application.status, application.graph["n"] == dies) == ("running", False)
    application.stop()
    found = application.results()
    assert of_one_point(simulation, found, *(counts(100, length, **WHOLE) for length in ("1 s", "2 s")))


def test_what_is_refused_leaves_the_application_as_it_is() -> None:
    simulation = Simulation(peers=3, seed=1)
    application = simulation.submit(counts(100, "1 s"))
    former = application.id
    few = packets().filter("bytes > 100", id="large").delay("1 s", id="slow").count(window="1 s", id="n")
    with pytest.raises(NotAdmitted, match="slow"):
        application.replace(few.sink("r", id="out", delay="5 s"))
    with pytest.raises(ClusterError, match=f"{former} goes on as before: the new plan has not caught up"):
        application.replace(counts(100, "1 h"), timeout="5 s")
    assert application.head(30).height == 30
    wrong = {
        "operator 'packets', source": source("packets", seed=4, rate="100 tuples/s", id="packets")
        .count(window="1 s")
        .sink("r", id="out"),
        "operator 'out', columns": packets().sink("r", id="out"),
        "operator 'in', id: .*in.*; expected the sinks of the plan that runs: out": packets()
        .count(window="1 s")
        .sink("r", id="in"),
        "availability: 'active replicas'; expected none or backups of the new plan": packets()
        .count(window="1 s")
        .sink("r", id="out", availability="active 2"),
    }
    for text, each in wrong.items():
        with pytest.raises(PlanError, match=text):
            application.replace(each)
    with pytest.raises(PlanError, match="plan: 'an int'; expected a Plan"):
        application.replace(3)  # type: ignore[arg-type]
    assert (application.id, application.status) == (former, "running")
    application.stop()
    for preview in (True, False):
        with pytest.raises(ClusterError, match=f"application: '{former}' is stopped; expected one that runs"):
            application.replace(counts(900, "1 s"), preview=preview)
    assert {each.status for name, each in simulation.applications.items() if name != former} <= {"stopped"}


def test_a_change_says_what_goes_on_what_begins_anew_and_how_long_it_takes() -> None:
    simulation = Simulation(peers=3, seed=1)
    application = simulation.submit(counts(100, "2 s"))
    former = application.id
    change = application.replace(counts(100, "3 s"), preview=True)
    assert str(change) == (
        "the new plan takes over after 15 s of event time at most\n"
        "  go on with their state: packets, large\n"
        "  begin anew: n\n"
        "  end: n"
    )
    assert (application.id, list(simulation.applications)) == (former, [former])
    old, new = (of_two_sinks(least) for least in (9, 8))
    assert (change_of(old, new).anew, change_of(old, new).seconds) == (("f",), 0.0)
    alike = counts(100, "2 s", "active 2", availability="active 2")
    with pytest.raises(
        PlanError, match="operator 'packets', availability: 'active 2'; expected none of r-1, as the so"
    ):
        check_replacement("r-1", alike, counts(100, "3 s"))
    backed = counts(100, "3 s", "degree 2")
    assert change_of(counts(100, "2 s"), backed).kept == {"packets": "packets"}
    assert change_of(counts(100, "2 s"), backed, durable=True).kept == {"packets": "packets", "large": "large"}
    change = change_of(latest(1400), latest(1300))
    assert change.stateless == ("j",)
    assert "without what they would remember: j" in str(change)


def test_destinations_are_the_same_before_and_after_a_change() -> None:
    few, rows = packets().filter("bytes > 9", id="few"), csv("rows.csv")
    old = packets().sink(id="out", to=rows, at="peer-1")
    change = change_of(old, few.sink(id="out", to=rows, at="peer-1"))
    assert change.destinations == {"out": "'rows.csv'"}
    assert str(change).endswith(
        "  get the rows of the old plan, and from one event time on those of the new one: 'rows.csv' (of out)"
    )
    expected = r"expected that of the plan that runs: 'rows.csv', with the same options"
    wrong = {
        rf"to: missing; {expected}": few.sink(id="out", at="peer-1"),
        rf"to: .*other.csv.*; {expected}": few.sink(id="out", to=csv("other.csv"), at="peer-1"),
        rf"to: .*rows.csv.*; {expected}": few.sink(id="out", to=csv("rows.csv", every="1 min"), at="peer-1"),
        r"at: missing; expected 'peer-1', as in the plan that runs": few.sink(id="out", to=rows),
    }
    for text, each in wrong.items():
        with pytest.raises(PlanError, match=text):
            change_of(old, each)
    with pytest.raises(
        PlanError, match=r"availability: 'that of the plan'; expected that of operators of the new plan"
    ):
        check_replacement("r-1", old, few.sink(id="out", to=rows, at="peer-1", availability="degree 2"))
    with pytest.raises(PlanError, match=r"to: .*rows.csv.*; expected none"):
        change_of(packets().sink(id="out"), packets().sink(id="out", to=rows))
