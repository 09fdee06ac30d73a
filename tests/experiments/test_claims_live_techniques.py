"""The verdicts of H1 on Dask workers, on stated measurements: each fails where what it says is not so."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pytest

from synergy_experiments.chapters import find, live_techniques
from synergy_experiments.chapters.live_techniques import (
    LIVE,
    NONE,
    ORDERED,
    PASSIVE,
    REPLACED,
    REPLICATION,
    SYNCHRONIZATION,
    live_checks,
    through_live,
)
from synergy_experiments.framework.measurements import Measured, Point
from synergy_experiments.framework.parameters import at_scale
from synergy_experiments.worlds.reliable_peers import Lived, area
from synergy_experiments.worlds.reliable_streams import CRASH, FAULTS, HANG, SLOW, Arrival
from synergy_nb import ClusterError

PERIOD = 0.1
LATENCY = {NONE: 0.04, REPLICATION: 0.045, SYNCHRONIZATION: 0.08, ORDERED: 0.15, PASSIVE: 0.04}


def lived(names: Sequence[str], fault: str, at: float, after: float, period: float, _hang: float) -> dict[str, Lived]:
    return {name: one(name, fault, at, after, period) for name in names}


def one(name: str, fault: str, at: float, after: float, period: float) -> Lived:
    """A run as it should be: results wait for a fail-over of 2.5 s, or for a slow link."""
    arrivals = []
    for number in range(round((at + after) / period)):
        stamp, latency = number * period, LATENCY[name]
        if stamp >= at and name != REPLICATION:
            if fault == SLOW:
                latency = 5.0
            elif name == NONE:
                break
            else:
                latency = max(at + 2.5 - stamp, 0.15 if name == ORDERED else 0.045)
        arrivals += [Arrival(stamp + latency, stamp, server) for server in "BC"]
    return Lived(arrivals, at, at + 2.5, 0, "")


@pytest.fixture
def points(monkeypatch: pytest.MonkeyPatch) -> list[Point]:
    monkeypatch.setattr(live_techniques, "lived", lived)
    return [each for fault in FAULTS for each in through_live(fault, 6.0, 9.0, PERIOD, 5.0, 0)]


def failing(points: Iterable[Point]) -> set[str]:
    runs = [list(points)] * 2  # one run has no interval
    return {check.name for check in live_checks(Measured(runs), PERIOD) if check.verdict != "holds"}


def test_all_verdicts_hold_where_everything_is_as_computed(points: list[Point]) -> None:
    assert failing(points) == set()


@pytest.mark.parametrize(
    ("changed", "value", "name"),
    [
        ((CRASH, REPLICATION, "before, B"), 0.09, "no technique has a lower latency"),
        ((CRASH, SYNCHRONIZATION, "before, C"), 0.04, "synchronization and deterministic"),
        ((CRASH, NONE, "last, B"), 1.0, "without replication there is"),
        ((HANG, REPLICATION, "longest pause, B"), 0.9, "no gap of replication"),
        ((HANG, PASSIVE, "longest pause, B"), 0.2, "all others have a gap"),
        ((CRASH, SYNCHRONIZATION, "after, B"), 0.08, "the latency of synchronization drops"),
        ((SLOW, ORDERED, "missing, B"), 1.0, "no result is lost or doubled"),
        ((SLOW, PASSIVE, "doubled, C"), 1.0, "no result is lost or doubled"),
        ((SLOW, REPLICATION, "after, C"), 5.0, "slow link: the latency of replication"),
        ((SLOW, ORDERED, "after, C"), 0.2, "slow link: all others are 5 s"),
        ((HANG, PASSIVE, "taken for dead before"), 1.0, "no peer is taken for dead before the fault"),
        ((CRASH, ORDERED, "after, B"), 0.4, f"{ORDERED}, B: median latency after"),
    ],
)  # fmt: skip
def test_a_verdict_fails_where_it_is_not_so(
    changed: tuple[str, str, str], value: float, name: str, points: list[Point]
) -> None:
    broken = [each._replace(value=value) if each[:3] == changed else each for each in points]
    assert broken != points
    assert [each for each in failing(broken) if each.startswith(name)]


@pytest.mark.parametrize("name", LIVE)
def test_an_application_that_fails_is_an_error_but_without_replication(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failed(names: Sequence[str], *_: object) -> dict[str, Lived]:
        return {each: Lived([], 6.0, 8.0, 0, "no session at peer-5" if each == name else "") for each in names}

    monkeypatch.setattr(live_techniques, "lived", failed)
    if name == NONE:
        assert through_live(CRASH, 6.0, 9.0, PERIOD, 5.0, 0)
        return
    with pytest.raises(ClusterError, match=f"{name}, crash: the application has failed: no session at"):
        through_live(CRASH, 6.0, 9.0, PERIOD, 5.0, 0)


def test_dask_workers_measure_all_but_promises_at_once() -> None:
    (claim,) = find(["H1"])
    setup = at_scale(claim.parameters, "quick") | {"driver": "dask"}
    cells = list(claim.cells(setup))
    assert [each.arguments[0] for each in cells] == list(FAULTS)
    assert all(each.alone for each in cells)
    assert {*REPLACED, NONE, REPLICATION} == set(LIVE)


def test_the_sites_have_the_delays_of_the_shortest_path_where_none_is_stated() -> None:
    delays = np.array([[area().delay(a, b) for b in range(6)] for a in range(6)])
    assert delays[0, 3] == pytest.approx(0.012)  # A to WISC
    assert delays[0, 5] == pytest.approx(0.037)  # A to OSU, by WISC
    assert (delays == delays.T).all()
    assert area(5.0).delay(3, 5) == 5.0
