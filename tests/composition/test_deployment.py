"""Components that are missing, or that no candidate can take on, are deployed (section 2.3.2, figure 2.8)."""

from __future__ import annotations

import pytest

from synergy_nb.algorithms.composition import CompositionConfig
from synergy_nb.assembly import PeerConfig
from synergy_nb.events import DeploymentConsidered, ProbeAccepted
from synergy_nb.plan import Plan, source
from synergy_nb.plan.operators.catalogue import ALL_COMPONENTS
from tests.simulated import Ring

WITHOUT = tuple(name for name in ALL_COMPONENTS if name not in ("distinct", "source:packets"))


def offering(number: int) -> tuple[str, ...]:
    """Each kind of operator is offered by two peers of eight; nobody offers the missing one."""
    kinds = {0: ("source:packets",), 1: ("filter",), 2: ("project",), 3: ("sample",)}[number % 4]
    return (*kinds, "sink")


def ring(seed: int, **settings: object) -> Ring:
    config = CompositionConfig(sharing="off", **settings)  # type: ignore[arg-type]
    return Ring(8, seed=seed, config=lambda n: PeerConfig(f"peer-{n}", offering(n), seed=n, composition=config))


def middle(selectivity: float) -> Plan:
    stream = source("packets", rate=10, id="packets").filter("bytes > 9", id="before")
    return (
        stream.distinct("link", window="1 s", selectivity=selectivity, id="missing")
        .project("link", id="after")
        .sink("all")
    )


def first() -> Plan:
    stream = source("packets", rate=10, id="packets").distinct("link", window="1 s", id="missing")
    return stream.filter("bytes > 9", id="after").sink("all")


def last() -> Plan:
    stream = source("packets", rate=10, id="packets").filter("bytes > 9", id="before")
    return stream.distinct("link", window="1 s", id="missing").sink("all")


@pytest.mark.parametrize(
    ("plan", "beside"),
    [
        (middle(0.5), "before"),
        (middle(1.0), "before"),
        (middle(2.0), "after"),
        (first(), "after"),
        (last(), "before"),
    ],
    ids=["little comes out", "as much comes out", "much comes out", "at the beginning", "at the end"],
)
def test_a_missing_component_goes_where_least_has_to_travel(plan: Plan, beside: str) -> None:
    made = ring(1)
    made.submit("peer-0", "r", plan)
    report = made.until_decided("r")
    assert report.status == "running", report.reason
    assert report.peers["missing"] == report.peers[beside]
    assert made.events("r", DeploymentConsidered)[0].detail == {"operators": ["missing"], "stage": 1}
    made.run(3.0)
    found: list[object] = []
    made.simulation.call("peer-7", made.synergy["peer-7"].directory.lookup, ["distinct"], found.append)
    made.run(2.0)
    assert [entry.host for entry in found[0]["distinct"]] == [report.peers["missing"]]  # type: ignore[index]


def test_a_component_that_was_only_tried_is_not_registered_and_releases_its_resources() -> None:
    made = ring(2, ratio=1.0, budget=8)
    made.submit("peer-0", "r", middle(0.5))
    report = made.until_decided("r")
    made.run(10.0)
    tried = {event.peer for event in made.events("r", ProbeAccepted) if event.operator == "missing"}
    assert len(tried) > 1
    having = {address for address, each in made.synergy.items() if "distinct" in each.probing.offers}
    assert having == {report.peers["missing"]}
    assert all(not each.ledger.reservations for each in made.synergy.values())


def test_the_other_side_is_tried_when_the_preferred_one_is_full() -> None:
    """All peers that offer what comes before have no capacity left for more."""

    def config(number: int) -> PeerConfig:
        cores = 0.05 if number % 4 == 1 else 1.0
        settings = CompositionConfig(sharing="off")
        return PeerConfig(f"peer-{number}", offering(number), cores=cores, seed=number, composition=settings)

    made = Ring(8, seed=3, config=config)
    stream = source("packets", rate=10, id="packets").filter("bytes > 9", cost="1 ms", id="before")
    plan = (
        stream.distinct("link", window="1 s", selectivity=0.5, cost="10 ms", id="missing")
        .project("link", id="after")
        .sink("all")
    )
    made.submit("peer-0", "r", plan)
    report = made.until_decided("r")
    assert report.status == "running", report.reason
    assert report.peers["missing"] == report.peers["after"]
    assert [event.stage for event in made.events("r", DeploymentConsidered)] == [1, 2]


def test_candidates_that_are_all_full_give_way_to_a_new_component() -> None:
    def config(number: int) -> PeerConfig:
        cores = 0.05 if number % 4 == 2 else 1.0
        settings = CompositionConfig(sharing="off")
        return PeerConfig(f"peer-{number}", offering(number), cores=cores, seed=number, composition=settings)

    made = Ring(8, seed=4, config=config)
    stream = source("packets", rate=10, id="packets").filter("bytes > 9", id="before")
    plan = stream.project("link", cost="20 ms", id="full").sample(0.5, id="after").sink("all")
    made.submit("peer-0", "r", plan)
    report = made.until_decided("r")
    assert report.status == "running", report.reason
    assert report.peers["full"] in ("peer-1", "peer-5", "peer-3", "peer-7")
    assert made.events("r", DeploymentConsidered)[0].operators == ["full"]


def test_a_complete_graph_is_the_last_resort() -> None:
    """Whoever offers anything but sources is full; peers that offer nothing take the whole graph."""

    def config(number: int) -> PeerConfig:
        settings = CompositionConfig(sharing="off")
        if number < 4:
            cores = 1.0 if number == 0 else 0.001
            return PeerConfig(f"peer-{number}", offering(number), cores=cores, seed=number, composition=settings)
        return PeerConfig(f"peer-{number}", ("sink",), seed=number, composition=settings)

    made = Ring(8, seed=5, config=config)
    stream = source("packets", rate=10, id="packets").filter("bytes > 9", cost="30 ms", id="one")
    plan = stream.project("link", cost="30 ms", id="two").sample(0.5, cost="30 ms", id="three").sink("all")
    made.submit("peer-0", "r", plan)
    report = made.until_decided("r")
    assert report.status == "running", report.reason
    assert not {"peer-1", "peer-2", "peer-3"} & {report.peers[name] for name in ("one", "two", "three")}


def test_a_deployed_component_is_found_by_the_next_request() -> None:
    made = ring(6)
    made.submit("peer-0", "r", middle(0.5))
    made.until_decided("r")
    made.run(3.0)
    made.submit("peer-4", "s", last())
    report = made.until_decided("s")
    assert report.status == "running", report.reason
    assert not made.events("s", DeploymentConsidered)


@pytest.mark.parametrize("policy", ["nearest", "random"])
def test_each_deployment_policy_takes_its_own_peers(policy: str) -> None:
    made = ring(7, deployment=policy)
    made.submit("peer-0", "r", middle(0.5))
    assert made.until_decided("r").status == "running"
