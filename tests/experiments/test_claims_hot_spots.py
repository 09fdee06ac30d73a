"""P4 to P6: monitors under load, with and without migrations, and verdicts that can fail."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from synergy_experiments.chapters import find
from synergy_experiments.framework import parameters
from synergy_experiments.framework.claim import Check
from synergy_experiments.framework.measurements import Measured, Point
from synergy_experiments.worlds import monitors_under_load
from synergy_experiments.worlds.monitors_under_load import (
    LITERAL,
    MONITOR,
    NOTHING,
    POLICIES,
    PREDICTION,
    REACTION,
    monitored,
    named,
    requests_per_second,
)

PACKETS, REQUESTS = named("packets", "overdue at dequeue"), named("requests", "overdue at dequeue")


@pytest.mark.slow
def test_policies_meet_the_same_load_and_misses_are_counted() -> None:
    """Ten applications on each of eight peers: 1.5 times the work that fits, so results are missed in a minute."""
    limit = 2.0
    policies = (NOTHING, PREDICTION)
    arguments = (4, "overdue at dequeue", "packets", policies, 8, 20.0, 3.0, 2.0, limit, 30.0, 1.0, 2.0)
    points = monitored(*arguments, 5)  # type: ignore[arg-type]
    found = {(point.algorithm, point.metric): point.value for point in points if point.x == 4}
    assert found[NOTHING, f"applications, {PACKETS}"] == 32.0
    misses = {name: found[name, f"miss rate, {PACKETS}"] for name in policies}
    assert 0.05 < misses[NOTHING] < 1.0
    for name in policies:
        assert found[name, f"delay, {PACKETS}"] < limit
        assert found[name, f"delay, {PACKETS}"] < found[name, f"delay with misses, {PACKETS}"] <= limit
    assert found[PREDICTION, f"migrations, {PACKETS}"] > 0.0
    assert (NOTHING, f"migrations, {PACKETS}") not in found
    course = [point for point in points if point.metric == f"one application, 4 a peer, {PACKETS}"]
    assert {point.algorithm for point in course} == set(policies)
    assert points == monitored(*arguments, 5)  # type: ignore[arg-type]


def test_components_take_the_stated_share_of_the_capacity() -> None:
    rates = {"source": 20.0}
    for operator, (inputs, _, _) in MONITOR.items():
        if inputs:
            rates[operator] = sum(rates[each] * MONITOR[each][1] for each in inputs)
    assert len(MONITOR) == 8
    applications = monitors_under_load.applications_of(10, 8, "packets", 20.0, 0.85, 20.0, 5.0, 1)
    taken = sum(
        rates[operator] * component.service.mean
        for application in applications
        for operator, component in application.components.items()
    )
    assert taken == pytest.approx(0.85 * 8)
    for application in applications:
        assert len({component.peer for component in application.components.values()}) == 8


def test_generated_requests_vary_over_minutes_as_real_ones(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without the recorded requests, generated ones vary as much as real ones, and more than by chance."""
    monkeypatch.delenv("SYNERGY_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    requests_per_second.cache_clear()
    counts = requests_per_second(3)
    requests_per_second.cache_clear()
    minutes = counts[: len(counts) // 60 * 60].reshape(-1, 60).sum(axis=1)
    assert counts.mean() == pytest.approx(0.7, rel=0.05)
    assert minutes.var() > 3.0 * minutes.mean()


# -- verdicts ----------------------------------------------------------------------------------------------------------


def points(
    prediction: float, *, delay: float = 2.0, migrations: float = 1.0 / 3.0, literal: float = 0.25
) -> list[Point]:
    """Made-up measurements: misses with prediction at the highest load, delays, and migrations an application."""
    found = []
    for of in (PACKETS, REQUESTS, *(named("packets", rule) for rule in ("none", "sure to be late"))):
        for x, missed in ((1, 0.0), (5, 0.1), (10, 0.4)):
            if of != PACKETS and x < 10:
                continue
            misses = {NOTHING: missed, REACTION: missed / 2, LITERAL: missed * literal, PREDICTION: missed * prediction}
            for policy, value in misses.items():
                found.append(Point(x, policy, f"miss rate, {of}", value))
                slow = delay if policy in (LITERAL, PREDICTION) and missed else 3.0
                found.append(Point(x, policy, f"delay, {of}", slow))
                found.append(Point(x, policy, f"delay with misses, {of}", slow + 20.0 * value))
                if policy != NOTHING:
                    found.append(Point(x, policy, f"applications, {of}", 34.0 * x))
                    found.append(Point(x, policy, f"migrations, {of}", 34.0 * x * migrations))
    return found


def verdicts(claim: str, *repetitions: list[Point]) -> dict[str, str]:
    (found,) = find([claim])
    derive = found.derive or (lambda _: ())
    checks: list[Check] = list(found.checks(Measured([*each, *derive(each)] for each in repetitions), {}))
    return {check.name: check.verdict for check in checks}


def test_verdicts_hold_where_the_measurements_are_the_papers() -> None:
    for claim in ("P4", "P5", "P6"):
        assert set(verdicts(claim, points(0.1), points(0.1)).values()) == {"holds"}
    assert "undecided" in verdicts("P4", points(0.1)).values()  # one repetition has no interval


@pytest.mark.parametrize(
    ("claim", "measured", "wrong"),
    [
        ("P4", points(0.7), "misses with our prediction are fewer than with reaction"),
        ("P4", points(1.1), f"misses with {PREDICTION} are at most half of those without migration (half is ours)"),
        ("P4", points(0.3), "misses with our prediction are not more than with equation 3.6"),
        (
            "P4",
            points(0.1, literal=1.1),
            f"misses with {LITERAL} are at most half of those without migration (half is ours)",
        ),
        (
            "P4",
            points(0.1, literal=0.6),
            f"misses with {LITERAL} are at most half of those without migration (half is ours)",
        ),
        (
            "P5",
            points(0.1, literal=1.1),
            f"a larger share of the results is delivered than without migration, {LITERAL}",
        ),
        (
            "P6",
            [each._replace(value=0.0) if "migrations" in each.metric and each.x == 1 else each for each in points(0.1)],
            f"migrations per application at each load are within 25% of their mean, {LITERAL}",
        ),
        ("P4", points(0.1, literal=0.7), "misses with equation 3.6 are fewer than with reaction"),
        ("P5", points(0.1, delay=4.0), f"delay of results in time is below that without migration, {LITERAL}"),
        ("P6", points(0.1, migrations=1.0), f"migrations per application over all loads, {LITERAL}"),
        ("P6", points(0.1, migrations=0.0), f"migrations per application over all loads, {LITERAL}"),
    ],
)
def test_a_wrong_measurement_makes_its_verdict_fail(claim: str, measured: list[Point], wrong: str) -> None:
    assert verdicts(claim, measured)[wrong] != "holds"


@pytest.mark.parametrize(
    ("claim", "measured", "name", "why"),
    [
        (
            "P5",
            points(0.1, delay=4.0),
            f"delay of results in time is below that without migration, {LITERAL}",
            "the slowest results are missed and do not count: 10 % with 5 per peer, 40 % with 10 per peer",
        ),
        (
            "P6",
            [
                point._replace(value=0.0) if "migrations" in point.metric and point.x == 5 else point
                for point in points(0.1)
            ],
            f"correlation of migrations with applications, {LITERAL}",
            "with up to 5 per peer nothing moves",
        ),
    ],
)
def test_a_claim_that_is_not_reached_states_why_with_numbers(
    claim: str, measured: list[Point], name: str, why: str
) -> None:
    (found,) = find([claim])
    derive = found.derive or (lambda _: ())
    checks = found.checks(Measured([[*measured, *derive(measured)]]), {})
    (check,) = [each for each in checks if each.name == name]
    assert check.verdict != "holds"
    assert why in check.rule


def test_policies_are_told_apart_by_the_interval_of_their_difference() -> None:
    """By equation 3.6 a quarter is missed, by reaction a half."""
    fewer, not_more = (
        "misses with our prediction are fewer than with reaction",
        "misses with our prediction are not more than with equation 3.6",
    )
    better = verdicts("P4", points(0.2), points(0.22), points(0.19))
    assert (better[fewer], better[not_more]) == ("holds", "holds")
    by_chance = verdicts("P4", points(0.2), points(0.32), points(0.27))
    assert (by_chance[fewer], by_chance[not_more]) == ("holds", "undecided")
    doubtful = verdicts("P4", points(0.3), points(0.6), points(0.31))
    assert (doubtful[fewer], doubtful[not_more]) == ("undecided", "undecided")
    worse = verdicts("P4", points(0.30), points(0.31), points(0.32))
    assert (worse[fewer], worse[not_more]) == ("holds", "does not hold")


def test_the_dissertations_prediction_judges_its_statements_and_ours_judges_our_aims() -> None:
    for claim in ("P4", "P5", "P6"):
        (found,) = find([claim])
        made = points(0.1)
        derived = list(found.derive(made)) if found.derive else []
        checks = list(found.checks(Measured([[*made, *derived]]), {}))
        of_ours = [
            check for check in checks if check.name.split(", ")[-1] == PREDICTION or "our prediction" in check.name
        ]
        assert {check.judges for check in of_ours} == {"own"}
        assert any(check.judges == "paper" and LITERAL in check.name for check in checks)


def test_cells_are_shared_and_each_rule_for_late_tuples_is_shown() -> None:
    claims = find(["P4", "P5", "P6"])
    for scale, count in (("quick", 6), ("paper", 13)):
        cells = [list(claim.cells(parameters.at_scale(claim.parameters, scale))) for claim in claims]  # type: ignore[arg-type]
        assert cells[0] == cells[1] == cells[2]
        assert len(cells[0]) == count
        rules = [cell.arguments[1] for cell in cells[0]]
        assert {rule: rules.count(rule) for rule in set(rules)} == {
            "overdue at dequeue": count - 2,
            "none": 1,
            "sure to be late": 1,
        }
    assert set(POLICIES) == {NOTHING, REACTION, LITERAL, PREDICTION}
    assert np.isclose(sum(weight for *_, weight in MONITOR.values()), 6.1)
