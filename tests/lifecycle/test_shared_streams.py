"""Running streams are reused: found, reserved, and retained while an application uses them (section 2.3.3)."""

from __future__ import annotations

from typing import Any

import pytest

from synergy_nb.algorithms.composition import CompositionConfig
from synergy_nb.assembly import PeerConfig
from synergy_nb.control.driver_messages import StopApplication
from synergy_nb.dataflow.deployments import Deployment, InputFeed, SharedProducer, SharedReader
from synergy_nb.events import SharingFound, SharingGivenUp
from synergy_nb.plan import Plan, source
from synergy_nb.plan.builder import Stream
from tests.simulated import Ring


def packets(rate: float = 100.0) -> Stream:
    return source("packets", rate=rate, seed=1, id="packets").filter("bytes > 100", cost="1 ms", id="large")


def by_link(**qos: Any) -> Plan:
    return packets().aggregate("link", "1 s", n="count(*)", cost="1 ms", id="by_link").sink("all", **qos)


def by_source(**qos: Any) -> Plan:
    return packets().aggregate("source", "1 s", n="count(*)", cost="1 ms", id="by_source").sink("all", **qos)


def started(ring: Ring, at: str, name: str, plan: Plan) -> dict[str, str]:
    ring.submit(at, name, plan)
    report = ring.until_decided(name)
    assert report.status == "running", report.reason
    ring.run(2.0)
    return report.peers


def points(ring: Ring, name: str) -> set[str]:
    found = ring.events(name, SharingFound)
    return set(found[0].detail["points"]) if found else set()


def told_of(ring: Ring, at: str, application: str = "a") -> Deployment:
    return ring.deployments[at, application]


def shared_readers(ring: Ring, at: str, operator: str) -> tuple[SharedReader, ...]:
    """Who shares a stream of application ``a``, as its peer was told."""
    return told_of(ring, at).assignments[operator].shared_readers


def readers(ring: Ring, at: str, operator: str) -> list[tuple[str, int]]:
    """Who of application ``a`` itself reads a stream, as its peer was told."""
    return told_of(ring, at).readers(operator)


def stop(ring: Ring, at: str, name: str) -> None:
    ring.simulation.report(at, StopApplication(name))
    ring.run(2.0)


def left(ring: Ring) -> bool:
    return any(
        each.ledger.requests or each.session.applications or len(each.session.components)
        for each in ring.synergy.values()
    )


def test_a_repeated_query_deploys_only_a_sink() -> None:
    ring = Ring(8, seed=1, codec=True)
    first = started(ring, "peer-3", "a", by_link())
    loads = {address: each.ledger.load for address, each in ring.synergy.items()}
    second = started(ring, "peer-5", "b", by_link())
    assert points(ring, "b") == {"by_link"}
    assert second == {"by_link": first["by_link"], "sink": "peer-5"}
    told = ring.deployments["peer-5", "b"]
    assert told.assignments["sink"].inputs == (InputFeed("a", "by_link"),)
    assert told.shared_producers == (SharedProducer("a", "by_link", first["by_link"]),)
    assert shared_readers(ring, first["by_link"], "by_link") == (SharedReader("b", "sink", 0, "peer-5"),)
    grown = {a for a, each in ring.synergy.items() if each.ledger.load > loads[a] + 1e-9}
    assert grown <= {"peer-5"}  # a sink costs next to nothing, the rest is there already


def test_two_filters_share_the_stream_of_one_with_both_conditions_and_the_other_way_round() -> None:
    ring = Ring(8, seed=1, codec=True)
    source_ = source("packets", rate=100.0, seed=1, id="packets")
    both = source_.filter("bytes > 100 AND link = 'A'", id="both").sink("all", id="sink")
    apart = source_.filter("link = 'A'", id="link").filter("bytes > 100", id="large").sink("all", id="sink")
    first = started(ring, "peer-3", "a", both)
    assert started(ring, "peer-5", "b", apart) == {"large": first["both"], "sink": "peer-5"}
    assert ring.deployments["peer-5", "b"].assignments["sink"].inputs == (InputFeed("a", "both"),)
    ring = Ring(8, seed=1, codec=True)
    first = started(ring, "peer-3", "a", apart)
    assert started(ring, "peer-5", "b", both) == {"both": first["large"], "sink": "peer-5"}
    assert ring.deployments["peer-5", "b"].assignments["sink"].inputs == (InputFeed("a", "large"),)


def test_a_query_that_begins_alike_takes_the_stream_where_they_part() -> None:
    ring = Ring(8, seed=2)
    first = started(ring, "peer-3", "a", by_link())
    second = started(ring, "peer-5", "b", by_source())
    assert points(ring, "b") == {"large"}
    assert second["large"] == first["large"]
    assert set(second) == {"large", "by_source", "sink"}
    assert shared_readers(ring, first["large"], "large") == (SharedReader("b", "by_source", 0, second["by_source"]),)
    if second["by_source"] != second["large"]:
        taken = ring.synergy[second["by_source"]].ledger
        assert taken.residual_bandwidth("", second["large"]) < taken.bandwidth_from(second["large"])


def test_both_branches_of_a_plan_may_have_a_point() -> None:
    ring = Ring(8, seed=3)
    started(ring, "peer-1", "a", by_link())
    started(ring, "peer-2", "b", by_source())

    stem = packets()

    def counts(by: str) -> Stream:
        return stem.aggregate(by, "1 s", n="count(*)", cost="1 ms", id=f"by_{by}").project("n", id=f"only_{by}")

    joined = counts("link").union(counts("source"), id="both").sink("all")
    third = started(ring, "peer-4", "c", joined)
    assert points(ring, "c") == {"by_link", "by_source"}
    assert "packets" not in third


def test_a_producer_stays_for_its_consumers_and_goes_with_the_last() -> None:
    ring = Ring(8, seed=4)
    first = started(ring, "peer-3", "a", by_link())
    second = started(ring, "peer-5", "b", by_source())
    assert readers(ring, first["large"], "large") == [("by_link", 0)]
    stop(ring, "peer-3", "a")
    assert ring.status("a") == "stopped"
    assert readers(ring, first["large"], "large") == []
    assert readers(ring, first["packets"], "packets") == [("large", 0)]
    assert shared_readers(ring, first["large"], "large") == (SharedReader("b", "by_source", 0, second["by_source"]),)
    here = {(peer, application, operator) for peer, application, operator in ring.deployed}
    assert {(first["packets"], "a", "packets"), (first["large"], "a", "large")} <= here
    assert not {operator for _, application, operator in here if application == "a"} - {"packets", "large"}
    stop(ring, "peer-5", "b")
    assert not ring.deployed
    assert not left(ring)
    assert second["large"] == first["large"]


def test_retained_results_of_a_sink_do_not_delay_sharers() -> None:
    ring = Ring(8, seed=4)
    first = started(ring, "peer-3", "a", by_link())
    started(ring, "peer-5", "b", by_link())
    ring.simulation.call("peer-3", ring.synergy["peer-3"].session.component_failed, "a", "sink", "broken")
    ring.run(2.0)
    assert ring.status("a") == "failed"
    kept = told_of(ring, "peer-3").assignments["sink"]
    assert (kept.sink, kept.inputs) == (True, ())
    assert readers(ring, first["by_link"], "by_link") == []
    assert shared_readers(ring, first["by_link"], "by_link") == (SharedReader("b", "sink", 0, "peer-5"),)
    stop(ring, "peer-5", "b")
    assert set(ring.deployed) == {("peer-3", "a", "sink")}
    stop(ring, "peer-3", "a")
    assert not ring.deployments
    assert not left(ring)


def test_a_shared_stream_retains_all_producers_upstream() -> None:
    ring = Ring(10, seed=5)
    first = started(ring, "peer-1", "a", by_link())
    ranked = packets().aggregate("link", "1 s", n="count(*)", cost="1 ms", id="by_link").sort("n desc", id="ranked")
    second = started(ring, "peer-2", "b", ranked.sink("all"))
    third = started(ring, "peer-3", "c", ranked.project("n", id="n").sink("all"))
    assert points(ring, "c") == {"ranked"}
    stop(ring, "peer-1", "a")
    stop(ring, "peer-2", "b")
    alive = {(application, operator) for _, application, operator in ring.deployed}
    assert {("a", "packets"), ("a", "large"), ("a", "by_link"), ("b", "ranked")} <= alive
    assert not {("a", "sink"), ("b", "sink")} & alive
    assert shared_readers(ring, first["by_link"], "by_link") == (SharedReader("b", "ranked", 0, second["ranked"]),)
    assert told_of(ring, second["ranked"], "b").assignments["ranked"].shared_readers == (
        SharedReader("c", "n", 0, third["n"]),
    )
    assert ring.status("c") == "running"
    stop(ring, "peer-3", "c")
    assert not ring.deployed
    assert not left(ring)
    assert first["by_link"] == second["by_link"]
    assert third["ranked"] == second["ranked"]


def test_the_death_of_the_peer_of_a_shared_producer_ends_all_its_applications() -> None:
    ring = Ring(10, seed=6)
    first = started(ring, "peer-1", "a", by_link())
    started(ring, "peer-2", "b", by_source())
    lost = next(peer for peer in (first["large"], first["packets"]) if peer not in ("peer-1", "peer-2"))
    ring.crash(lost)
    ring.run(30.0)
    assert (ring.status("a"), ring.status("b")) == ("failed", "failed")
    ring.run(30.0)
    assert all(not each.ledger.requests for each in ring.synergy.values())


def test_a_failed_component_fails_all_its_applications() -> None:
    ring = Ring(8, seed=7)
    first = started(ring, "peer-1", "a", by_link())
    started(ring, "peer-2", "b", by_source())
    stop(ring, "peer-1", "a")
    at = first["large"]
    ring.simulation.call(at, ring.synergy[at].session.component_failed, "a", "large", "broken")
    ring.run(2.0)
    assert ring.status("b") == "failed"
    assert "large of a" in ring.reports["b"][-1].reason
    assert {operator for _, _, operator in ring.deployed} == {"sink"}  # with its results


def test_a_reader_that_consumes_nothing_fails_its_application_alone() -> None:
    ring = Ring(8, seed=2)
    first = started(ring, "peer-3", "a", by_link())
    started(ring, "peer-5", "b", by_source())
    report = ("a", "packets", "large", "takes nothing")
    ring.simulation.call(first["packets"], ring.synergy[first["packets"]].session.lost.reader_failed, *report)
    ring.run(2.0)
    assert (ring.status("a"), ring.status("b")) == ("running", "running"), "others need what reads there"
    report = ("a", "large", "by_link", "takes nothing")
    ring.simulation.call(first["large"], ring.synergy[first["large"]].session.lost.reader_failed, *report)
    ring.run(2.0)
    assert (ring.status("a"), ring.status("b")) == ("failed", "running")
    assert "by_link" in ring.reports["a"][-1].reason
    assert "takes nothing" in ring.reports["a"][-1].reason
    stop(ring, "peer-5", "b")
    stop(ring, "peer-3", "a")
    assert not left(ring)


def test_if_a_stream_cannot_be_shared_its_components_are_composed_anew() -> None:
    """A limit that the way over the shared stream breaks, but a graph of its own keeps."""
    ring = Ring(8, seed=8)
    first = started(ring, "peer-1", "a", by_link())
    host = ring.synergy[first["large"]]
    host.session.components["a", "large"].reached = 5.0  # it comes late, for whatever reason
    second = started(ring, "peer-2", "b", by_source(delay="2 s"))
    assert points(ring, "b") == {"large"}
    assert "delay" in ring.events("b", SharingGivenUp)[0].reason
    assert set(second) == {"packets", "large", "by_source", "sink"}


def test_streams_that_begin_with_their_application_are_shared_only_on_request() -> None:
    def plan() -> Plan:
        return source("packets", rate=100, count=1000, seed=1).filter("bytes > 100").sink("all")

    ring = Ring(6, seed=9)
    started(ring, "peer-1", "a", plan())
    started(ring, "peer-2", "b", plan())
    assert points(ring, "b") == set()
    config = CompositionConfig(sharing="all")
    ring = Ring(6, seed=9, config=lambda n: PeerConfig(f"peer-{n}", seed=n, composition=config))
    started(ring, "peer-1", "a", plan())
    started(ring, "peer-2", "b", plan())
    assert points(ring, "b") == {"filter"}


def test_a_stream_of_rows_that_a_program_pushes_is_never_shared() -> None:
    def plan() -> Plan:
        return source("python", name="rows", columns={"v": "int"}, rate=100).filter("v > 1").sink("all")

    config = CompositionConfig(sharing="all")
    ring = Ring(6, seed=9, config=lambda n: PeerConfig(f"peer-{n}", seed=n, composition=config))
    started(ring, "peer-1", "a", plan())
    started(ring, "peer-2", "b", plan())
    assert points(ring, "b") == set()


def test_without_sharing_nothing_is_offered_or_found() -> None:
    config = CompositionConfig(sharing="off")
    ring = Ring(6, seed=10, config=lambda n: PeerConfig(f"peer-{n}", seed=n, composition=config))
    started(ring, "peer-1", "a", by_link())
    assert set(started(ring, "peer-2", "b", by_link())) == set(by_link().operators)


@pytest.mark.parametrize("seed", range(4))
def test_a_stream_that_ends_during_sharing_harms_no_application(seed: int) -> None:
    ring = Ring(8, seed=20 + seed)
    started(ring, "peer-1", "a", by_link())
    ring.submit("peer-2", "b", by_source())
    ring.run(0.02 * (seed + 1))
    ring.simulation.report("peer-1", StopApplication("a"))
    ring.until_decided("b")
    ring.run(15.0)
    assert ring.status("b") == "running"
    stop(ring, "peer-2", "b")
    assert not ring.deployed
    assert not left(ring)
