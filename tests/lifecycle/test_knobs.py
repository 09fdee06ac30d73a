"""What a knob refuses, and what a driver is told: the same checks are before every driver."""

from __future__ import annotations

from typing import Any

import pytest

from synergy_nb import Simulation
from synergy_nb.control.cuts import Cut
from synergy_nb.lifecycle.changes.knobs import MOST_LOAD, Knobs
from synergy_nb.plan import Plan, source
from synergy_nb.reporting.cluster_errors import ClusterError

PLAN = source("packets", id="s").delay("1 ms", id="d").sink(id="out")


class Told(Knobs[Any]):
    """A driver with two peers and one application that remembers what it is told."""

    id = "app"
    plan: Plan = PLAN

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []

    def _living(self, field: str, peer: str) -> str:
        if peer not in ("a", "b"):
            raise ClusterError(f"{field}: {peer!r}; expected a or b")
        return peer

    def _found(self, application: Any) -> Any:
        return application

    def _kill(self, peer: str) -> None:
        self.told.append(("kill", peer))

    def _suspend(self, peer: str) -> None:
        self.told.append(("suspend", peer))

    def _resume(self, peer: str) -> None:
        self.told.append(("resume", peer))

    def _cut(self, peer: str, other: str, seconds: float | None, how: Cut) -> None:
        self.told.append(("cut", peer, other, seconds, how))

    def _mend(self, peer: str, other: str) -> None:
        self.told.append(("mend", peer, other))

    def _load(self, peer: str, share: float) -> None:
        self.told.append(("load", peer, share))

    def _pace(self, application: Any, source: str, factor: float) -> None:
        self.told.append(("pace", application.id, source, factor))

    def _cost(self, application: Any, operator: str, seconds: float) -> None:
        self.told.append(("cost", application.id, operator, seconds))


def test_a_driver_is_told_what_was_asked_in_seconds_and_by_name() -> None:
    driver = Told()
    driver.kill("a")
    driver.suspend("a")
    driver.resume("b")
    driver.cut("a", "b")
    driver.cut("b", "a", "2 min", how="lose")
    driver.mend("a", "b")
    driver.load("a", 0)
    driver.load("a", MOST_LOAD)
    driver.pace(driver, "s", 2)
    driver.pace(driver, "s", 0)
    driver.cost(driver, "d", "2 ms")
    driver.cost(driver, "out", 0)
    assert driver.told == [
        ("kill", "a"), ("suspend", "a"), ("resume", "b"), ("cut", "a", "b", None, Cut.RESET),
        ("cut", "b", "a", 120.0, Cut.LOSE), ("mend", "a", "b"), ("load", "a", 0.0), ("load", "a", 0.99),
        ("pace", "app", "s", 2.0), ("pace", "app", "s", 0.0), ("cost", "app", "d", 0.002), ("cost", "app", "out", 0.0),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("kill", ("c",), "peer: 'c'; expected a or b"),
        ("cut", ("a", "c"), "other: 'c'; expected a or b"),
        ("cut", ("a", "a"), "other: 'a'; expected another peer than 'a'"),
        ("cut", ("a", "b", -1), "seconds: -1; expected"),
        ("mend", ("b", "b"), "other: 'b'; expected another peer than 'b'"),
        ("pace", ("d", 1.0), "source: 'd'; expected a source of the plan: s"),
        ("pace", ("x", 1.0), "operator: 'x'; expected one of the plan: s, d, out"),
        ("pace", ("s", -0.1), "factor: -0.1; expected a finite number of at least 0"),
        ("pace", ("s", float("inf")), "factor: inf; expected a finite number"),
        ("pace", ("s", True), "factor: True; expected a finite number"),
        ("pace", ("s", "fast"), "factor: 'fast'; expected a finite number"),
        ("cost", ("s", 1.0), "operator: 's' is a source; expected an operator that reads tuples"),
        ("cost", ("d", -1.0), "seconds: -1.0; expected"),
    ],
)
def test_a_wrong_change_is_refused_before_a_driver_hears_of_it(name: str, given: tuple[Any, ...], said: str) -> None:
    driver = Told()
    first = (driver,) if name in ("pace", "cost") else ()
    with pytest.raises((ClusterError, ValueError), match=said):
        getattr(driver, name)(*first, *given)
    with pytest.raises(ClusterError, match=r"how: 'resett'; expected one of reset, delay, lose.*reset"):
        driver.cut("a", "b", how="resett")
    assert driver.told == []


@pytest.fixture(scope="module")
def simulation() -> Simulation:
    return Simulation(peers=2)


@pytest.mark.parametrize("share", [-0.01, 1.0, 2, True, "half", float("nan"), None])
def test_a_load_that_is_no_share_of_a_peer_is_refused(simulation: Simulation, share: Any) -> None:
    with pytest.raises(ClusterError, match=r"expected a share of the peer's cores from 0 to 0\.99"):
        simulation.load("peer-1", share)


@pytest.mark.parametrize("share", [0, 0.5, MOST_LOAD])
def test_a_share_of_a_peer_is_used(simulation: Simulation, share: float) -> None:
    simulation.load("peer-1", share)
