"""Plans that ask for synchronization or deterministic order: at every door, until peers do it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from synergy_nb import Plan, PlanError, source
from synergy_nb.cli._printing import requirement
from synergy_nb.editing._analysis import analyse
from synergy_nb.events import PlacementCompleted
from synergy_nb.plan.checks.replica_degrees import sums_exactly
from synergy_nb.plan.derived.placement_modes import decider_of
from synergy_nb.plan.derived.replication_techniques import technique_sentences
from synergy_nb.reporting.explanation import Explanation
from tests.simulated import Ring

TECHNIQUES = ("synchronized", "ordered")


def query(merged: str | None = None, sums: str | None = None, **qos: str) -> Plan:
    """A union of two streams and sums of it."""
    one, two = (source("packets", seed=number, rate=50.0, id=f"s{number}") for number in range(2))
    both = one.union(two, id="u", availability=merged)
    return both.aggregate("link", "1 s", total="sum(bytes)", id="x", availability=sums).sink("out", id="out", **qos)


@pytest.mark.parametrize("technique", TECHNIQUES)
def test_a_technique_is_written_and_read_in_every_form(technique: str) -> None:
    for plan in (query(availability=f"{technique} 2"), query(f"{technique}  3", "degree 2")):
        assert plan == Plan.from_yaml(plan.to_yaml()) == Plan.from_bytes(plan.to_bytes())
        assert f"availability: {technique} " in plan.to_yaml()
        made: dict[str, Plan] = {}
        exec(plan.to_python(), made)
        assert made["query"] == plan
        assert not plan.validate()
        assert decider_of(plan, "composed") == "replicated"
        text = plan.to_yaml()
        assert analyse(text).plan == plan


def test_the_degree_counts_in_any_technique() -> None:
    with pytest.raises(
        ValueError, match=r"qos\.availability: 'ordered 4'; expected at most 3, a peer for each replica"
    ):
        decider_of(query(availability="ordered 4"), "composed", peers=3)
    with pytest.raises(ValueError, match="operator 'u': availability: 'synchronized 4'; expected at most 3"):
        decider_of(query("synchronized 4"), "composed", peers=3)
    with pytest.raises(ValueError, match="placement: 'resilient'; expected 'composed' where availability places"):
        decider_of(query("ordered 2"), "resilient")


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: query(availability="ordered 1"), "qos.availability: 'ordered 1'; expected 'ordered 2' or more"),
        (lambda: query("synchronized 1"), "operator 'u', availability: 'synchronized 1'; expected 'synchronized 2' or"),
        (lambda: query(availability="synchronised 2"), "or a number of replicas such as 'degree 2', 'active 3', 'sy"),
        (lambda: query("active 2", "ordered 2"), "operator 'x', availability: 'ordered 2'; expected either active"),
        (
            lambda: query("active 2", availability="synchronized 3"),
            "qos.availability: 'synchronized 3'; expected either active replicas or synchronized 3 in one plan",
        ),
        (lambda: query("ordered 2", delay="1 s", overdue="drop"), "qos.overdue: 'drop'; expected keep beside"),
        (
            lambda: source("packets", availability="synchronized 2").sink("x"),
            "operator 'source', availability: 'synchronized 2'; expected 'active ...', of which",
        ),
        (
            lambda: (
                source("packets").filter("bytes > 9", engine="spark").sample("5 %", availability="ordered 2").sink("x")
            ),
            "operator 'filter', engine: 'spark'; expected peer or auto in a plan with availability 'ordered ...'",
        ),
        (
            lambda: Plan.from_yaml(query(availability="ordered 2").to_yaml().replace(
                "  availability: ordered 2\n", "  ordered: 2\n  synchronized: 2\n")),
            "qos.availability: 'ordered 2'; expected either ordered 2 or synchronized 2",
        ),
        (
            lambda: Plan.from_yaml(query(availability="ordered 2").to_yaml().replace(
                "  availability: ordered 2\n", "  availability: 99 %\n  ordered: 2\n")),
            "qos.availability: 'ordered 2'; expected either ordered 2 or availability 99 %",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_combined_is_refused_by_name(make: Callable[[], Plan], problem: str) -> None:
    with pytest.raises(PlanError) as raised:
        make()
    assert problem in str(raised.value)


def test_sums_are_exact_where_replicas_execute_in_one_order() -> None:
    for asked, exact in (("ordered 2", True), ("synchronized 2", False)):
        plan = query(availability=asked)
        assert sums_exactly(plan.operators["x"], plan.operators.values(), plan.qos) is exact


def test_a_technique_is_said_in_words() -> None:
    assert requirement(query(availability="ordered 2")) == "2 replicas of each component in one order"
    assert "3 synchronized replicas of each component" in requirement(query(availability="synchronized 3"))
    assert list(technique_sentences(query("synchronized 3", "ordered 2")).values()) == [
        "u: holds its output until its 2 backups have it",
        "x: 2 peers execute it in the order of event times",
    ]
    assert not technique_sentences(query(availability="degree 2"))


@pytest.mark.parametrize("technique", TECHNIQUES)
def test_peers_place_it_and_are_instructed(technique: str) -> None:
    ring = Ring(5, seed=8, codec=True)
    ring.submit("peer-0", "r", query(availability=f"{technique} 2"))
    report = ring.until_decided("r")
    assert report.status == "running", report.reason
    (placed,) = ring.events("r", PlacementCompleted)
    assert {name: len(peers) for name, peers in placed.backups.items()} == {"u": 1, "x": 1}
    account = str(Explanation("r", ring.events("r"), {}))
    assert placed.techniques["u"] in account
    assert "requirements: 2 replicas of each component, which " in account
    primary, (backup,) = placed.primaries["u"], placed.backups["u"]
    for peer in (primary, backup):
        deployment = ring.deployments[peer, "r"]
        assert deployment.assignments["u"].in_order == (technique == "ordered")
        assert deployment.assignments["u"].synchronized == ((backup,) if technique == "synchronized" else ())
        assert not deployment.assignments["s0"].in_order
