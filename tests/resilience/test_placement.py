"""Plans with resilient placement: decided by ROD, then probed, reserved and set up like any other."""

from __future__ import annotations

import subprocess
import sys

import pytest

from synergy_nb.assembly import PeerConfig
from synergy_nb.assembly.placement_by_rod import decided
from synergy_nb.control.graph import ResilientPlacementRequest
from synergy_nb.events import PlacementComputed
from synergy_nb.plan import Plan, plan, source
from synergy_nb.reporting.explanation import Explanation
from tests.conftest import ROOT
from tests.simulated import Ring


def example(cost: float = 1.0, rate: float = 10.0) -> Plan:
    """Example 2 of the paper (section 3), with rates that leave room."""
    one = source("packets", id="one", rate=rate, at="peer-0")
    two = source("packets", id="two", seed=1, rate=rate, at="peer-0")
    first = one.delay(f"{14 * cost} ms", id="o1").delay(f"{6 * cost} ms", id="o2")
    second = two.delay(f"{9 * cost} ms", id="o3").delay(f"{7 * cost} ms", id="o4")
    return plan(first.sink("a", id="a", at="peer-0"), second.sink("b", id="b", at="peer-0"))


def ring_of(peers: int = 3, **cores: float) -> Ring:
    def settings(number: int) -> PeerConfig:
        name = f"peer-{number}"
        return PeerConfig(name=name, cores=cores.get(f"peer_{number}", 1.0), seed=number)

    return Ring(peers, seed=3, config=settings, codec=True)


@pytest.mark.slow
def test_a_plan_is_set_up_where_it_withstands_most() -> None:
    ring = ring_of(2)
    ring.submit("peer-0", "r", example(), "resilient")
    report = ring.until_decided("r")
    assert report.status == "running", report.reason
    where = report.peers
    assert where["o1"] == where["o4"] != where["o2"] == where["o3"], "plan c, three quarters of the ideal set"
    (placed,) = ring.events("r", PlacementComputed)
    assert placed.ratio == pytest.approx(0.756, abs=0.02)
    account = Explanation("r", ring.events("r"), {})
    assert "feasible set 75" in account.placed
    assert "placed: feasible set" in str(account)
    assert account.why("o1") == "placed there; 2 peers offer it"
    assert account.to_dict()["placed"] == account.placed
    assert {address for address, each in ring.synergy.items() if each.ledger.load > 0} == set(where.values())


def test_capacity_that_others_have_taken_is_not_placed_again() -> None:
    ring = ring_of(3, peer_2=0.02)
    ring.submit("peer-0", "r", example(), "resilient")
    assert ring.until_decided("r").status == "running"
    assert "peer-2" not in ring.reports["r"][0].peers.values()


def test_a_plan_that_no_peers_can_take_is_refused_with_the_numbers() -> None:
    ring = ring_of(2)
    ring.submit("peer-0", "r", example(rate=200.0), "resilient")
    report = ring.until_decided("r")
    assert report.status == "rejected"
    assert "processing capacity" in report.reason
    assert not any(each.ledger.requests for each in ring.synergy.values())


def test_peers_that_offer_all_are_needed() -> None:
    def settings(number: int) -> PeerConfig:
        components = ("sink", "source:packets", "filter" if number % 2 else "project")
        return PeerConfig(name=f"peer-{number}", components=components, seed=number)

    ring = Ring(4, seed=1, config=settings)
    asked = source("packets", rate=1.0).filter("bytes > 0").project("bytes").sink()
    ring.submit("peer-0", "r", asked, "resilient")
    report = ring.until_decided("r")
    assert (report.status, report.reason) == (
        "rejected",
        "no peer offers all of the operators that are to be placed",
    )


def test_no_capacity_is_one_clear_error() -> None:
    found = decided(ResilientPlacementRequest("r", 0, example().to_bytes(), {}, {}))
    assert found.reason == "capacities: none; expected at least one peer"


def test_an_unknown_placement_is_refused() -> None:
    ring = ring_of(1)
    with pytest.raises(ValueError, match="placement: 'best'; expected composed or resilient"):
        ring.submit("peer-0", "r", example(), "best")


@pytest.mark.slow
def test_placing_can_be_loaded_before_it_is_needed() -> None:
    """In an interpreter of its own, as what is loaded stays loaded."""
    code = (
        "import sys; from synergy_nb.assembly.placement_by_rod import decided, warm\n"
        "from synergy_nb.control.graph import ResilientPlacementRequest\n"
        "before = 'numba' in sys.modules; warm(); loaded = set(sys.modules)\n"
        "from synergy_nb.plan import source\n"
        "plan = source('packets').filter('bytes > 9').aggregate('source', '1 s', n='count(*)').sink('a')\n"
        "found = decided(ResilientPlacementRequest('r', 1, plan.to_bytes(), {'a': 1.0, 'b': 1.0}, {}))\n"
        "print(before, sorted(set(sys.modules) - loaded), sorted(found.roles.peers))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=200, check=True
    )
    assert done.stdout.strip() == "False [] ['aggregate', 'filter', 'sink', 'source']"
