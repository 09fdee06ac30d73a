"""The checks of C1 to C10, each on made-up measurements that are to make it fail."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from synergy_experiments.chapters import find
from synergy_experiments.framework.claim import Check
from synergy_experiments.framework.measurements import Measured, Point
from synergy_experiments.framework.parameters import at_scale

NETWORKS = 10
CLAIMS = {each.id: each for each in find(["C1", "C2", "C4", "C5", "C7", "C9", "C10"])}


def checks(claim: str, points: Callable[[int], Iterable[Point]]) -> dict[str, Check]:
    """Return the checks of a claim on the points of each network by name."""
    found = CLAIMS[claim]
    measured = Measured([list(points(network)) for network in range(NETWORKS)])
    return {each.name: each for each in found.checks(measured, at_scale(found.parameters, "paper"))}


def test_who_serves_half_a_point_less_does_not_serve_the_most() -> None:
    def points(network: int, ours: float) -> Iterable[Point]:
        for load in (100, 200):
            yield Point(load, "synergy", "success (mean)", ours)
            yield Point(load, "composition", "success (mean)", 1.0)
            yield Point(load, "greedy", "success (mean)", 0.9 - 0.001 * network)

    name = "Synergy serves no fewer requests than composition, limits over the mean placement"
    assert checks("C7", lambda network: points(network, 0.995))[name].verdict == "does not hold"
    assert checks("C7", lambda network: points(network, 1.0))[name].verdict == "holds"


def test_a_gain_at_the_load_of_the_comparison_is_none_at_every_load() -> None:
    def points(network: int) -> Iterable[Point]:
        for load, ours in ((25, 1.3), (100, 0.75), (200, 0.5)):
            yield Point(load, "synergy", "delay (20 unique)", ours + 0.001 * network)
            yield Point(load, "composition", "delay (20 unique)", 1.0)

    found = checks("C1", points)
    assert (
        found["delay of synergy, from the source on, against composition, 100 requests, 20 unique"].verdict == "holds"
    )
    every = found["delay of synergy below composition's at every number of requests, 20 unique"]
    assert (every.verdict, every.ours) == ("holds in part", "at 2 of 3; not at 25")


def test_a_policy_that_serves_nobody_in_one_network_makes_no_gain_infinite() -> None:
    def points(network: int) -> Iterable[Point]:
        yield Point(100, "synergy", "success (20 unique, least)", 0.8 + 0.001 * network)
        yield Point(100, "random", "success (20 unique, least)", 0.0 if network == 3 else 0.6)

    gain = checks("C2", points)[
        "more of 100 requests served than by random, 20 unique, limits over the least placement"
    ]
    assert gain.verdict == "holds"
    assert gain.low is not None
    assert gain.high is not None
    assert math.isfinite(gain.low + gain.high)
    assert "1 repetition without a value" in gain.rule


def test_delays_of_few_short_requests_are_not_those_of_all() -> None:
    def points(network: int) -> Iterable[Point]:
        for load in (100, 500):
            for policy, delay, relative in (("synergy", 0.4, 1.3), ("composition", 0.5, 1.1)):
                yield Point(load, policy, "delay (mean)", delay + 0.001 * network)
                yield Point(load, policy, "relative_delay (mean)", relative + 0.001 * network)

    found = checks("C5", points)
    words = "limits over the mean placement"
    assert found[f"Synergy's delay is below composition's, {words}"].verdict == "holds"
    relative = f"Synergy's delay is below composition's, each relative to its request's time in isolation, {words}"
    assert found[relative].verdict == "does not hold"


def test_loads_of_our_own_are_no_statements_of_the_paper() -> None:
    def points(network: int) -> Iterable[Point]:
        for name in ("", ", 300 requests"):
            for x, ours in ((0.0, 0.8), (0.2, 0.66), (0.4, 0.6)):
                yield Point(x, f"synergy{name}", "delay (mean)", ours + 0.001 * network)
                yield Point(x, f"composition{name}", "delay (mean)", 1.0)

    judges = {name: check.judges for name, check in checks("C10", points).items() if "20 % repetitions" in name}
    assert {judged for name, judged in judges.items() if "300 requests" in name} == {"own"}
    assert {judged for name, judged in judges.items() if "100 requests" in name} == {"paper"}


def test_one_network_below_the_aim_is_seen() -> None:
    def points(network: int) -> Iterable[Point]:
        for slack in (0.1, 0.2):
            served = 0.51 if (network, slack) == (9, 0.1) else 0.99 - 0.001 * network
            yield Point(slack, "synergy with agreed limits", "success (least)", served)
            yield Point(slack, "no placement serves more", "success (least)", 1.0)
            yield Point(slack, "synergy", "success (least)", 0.2)

    found = checks("C9", points)
    worst = found["beyond the paper: synergy with agreed limits serves 60% in every network"]
    assert (worst.ours, worst.judges) == ("at 1 of 2; not at 0.1", "own")
    name = "beyond the paper: share of what an oracle could serve, synergy with agreed limits, {} % slack, {}"
    words = "limits over the least placement"
    assert found[name.format(20, words)].verdict == "holds"
    assert found[name.format(10, words)].verdict != "holds"


def test_a_baseline_that_is_faster_than_synergy_is_judged() -> None:
    def points(network: int, theirs: float) -> Iterable[Point]:
        for load in (100, 500):
            yield Point(load, "synergy", "delay (least)", 0.4 + 0.001 * network)
            yield Point(load, "composition+projection", "delay (least)", theirs)

    name = "Synergy's delay is below composition+projection's, limits over the least placement"
    assert checks("C5", lambda network: points(network, 0.35))[name].verdict == "does not hold"
    assert checks("C5", lambda network: points(network, 0.45))[name].verdict == "holds"


def test_the_order_of_random_and_composition_is_that_of_the_papers_table_or_not() -> None:
    def points(network: int, theirs: float) -> Iterable[Point]:
        yield Point("total", "random", "set-up (20 unique)", theirs + 0.001 * network)
        yield Point("total", "composition", "set-up (20 unique)", 1.0)

    name = "Random sets up faster than Composition, 20 unique"
    assert checks("C4", lambda network: points(network, 1.2))[name].verdict == "does not hold"
    assert checks("C4", lambda network: points(network, 0.9))[name].verdict == "holds"
