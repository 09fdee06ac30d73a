"""Workloads: the papers' numbers, the same from the same seed, times in isolation as trying everything finds them."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise, product
from typing import Any

import pytest

from synergy_experiments.flows.flow import Flow
from synergy_experiments.flows.flow_applications import from_plan
from synergy_experiments.flows.workload import TUPLE_BYTES, Parameters, Query, Request, Workload, generate
from synergy_nb.assembly import PeerConfig
from synergy_nb.simulator.network import Topology, TransitStub, transit_stub
from tests.simulated import Ring

SMALL = TransitStub(transit_domains=2, transit_routers=2, stub_domains=2, stub_routers=4)


def small(seed: int = 1, **parameters: Any) -> tuple[Topology, Workload]:
    topology = transit_stub(24, SMALL, seed=seed)
    given = {"components": 12, "replication": 3, "requests": 20, "sources": 4, "population": 12, **parameters}
    return topology, generate(topology, Parameters(**given), seed=seed)


@pytest.mark.slow
def test_the_papers_workload_has_the_papers_numbers() -> None:
    topology = transit_stub(seed=1)
    workload = generate(topology, Parameters(requests=400), seed=1)
    assert len(workload.components) == 200
    assert all(len(set(unique.peers)) == 5 for unique in workload.components.values())
    offered = Counter(
        len([name for name in workload.offers(peer) if name.startswith("delay:")]) for peer in topology.peers
    )
    assert sum(number * peers for number, peers in offered.items()) == 1000
    sizes = Counter(len(query.steps) for query in workload.queries)
    assert set(sizes) == set(range(2, 11))
    assert max(sizes.values()) < 3 * min(sizes.values())
    gaps = [after.arrival - before.arrival for before, after in pairwise(workload.requests)]
    assert sum(gaps) / len(gaps) == pytest.approx(1 / 9, rel=0.15)
    assert all(request.limit == pytest.approx(1.3 * request.isolated) for request in workload.requests)


def test_popularity_follows_zipf() -> None:
    _, workload = small(requests=2000, population=50)
    asked = Counter(request.query for request in workload.requests)
    weights = [rank**-1.6 for rank in range(1, 51)]
    for query in (0, 1, 4):
        share = weights[query] / sum(weights)
        assert asked[query] == pytest.approx(2000 * share, abs=4 * math.sqrt(2000 * share * (1 - share)))
    _, even = small(requests=2000, population=50, zipf=0.0)
    assert max(Counter(request.query for request in even.requests).values()) < 80


@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
def test_repeated_requests_have_a_query_of_an_earlier_request(share: float) -> None:
    _, workload = small(requests=500, repetitions=share)
    seen: set[int] = set()
    repeated = 0
    for request in workload.requests:
        repeated += request.query in seen
        assert request.query in seen or request.query == len(seen)
        seen.add(request.query)
    assert repeated == pytest.approx(499 * share, abs=4 * math.sqrt(500 * share * (1 - share)))


def test_equal_queries_ask_for_equal_streams() -> None:
    _, workload = small(requests=60)
    names: dict[int, set[str]] = {}
    for request in workload.requests:
        plan = workload.plan(request)
        assert plan.operators["sink"].at == request.origin
        assert plan.qos.delay == request.limit
        names.setdefault(request.query, set()).add(plan.stream_name("sink"))
    assert all(len(found) == 1 for found in names.values())
    assert len(set.union(*names.values())) == len({workload.queries[query] for query in names})


def test_loads_are_those_of_rates_and_costs() -> None:
    _, workload = small()
    request = workload.requests[0]
    query, plan = workload.queries[request.query], workload.plan(request)
    rate = workload.feeds[query.source].rate
    for step in query.steps:
        assert plan.load(step.name) == pytest.approx(rate * workload.components[step.component].cost)
        assert plan.tuple_bytes(step.name) == TUPLE_BYTES


def tried(topology: Topology, workload: Workload, request: Request) -> list[float]:
    """Times of all placements of a request on idle peers."""
    query: Query = workload.queries[request.query]
    feed = workload.feeds[query.source]
    hosts = [
        topology.peers if step.component == "union" else workload.components[step.component].peers
        for step in query.steps
    ]
    times = []
    for chosen in product(*hosts):
        peer = {"source": feed.peer, "sink": request.origin}
        peer |= dict(zip((step.name for step in query.steps), chosen, strict=True))
        done = {"source": 0.0}

        def sent(upstream: str, to: str, peer: dict[str, str] = peer, done: dict[str, float] = done) -> float:
            pair = peer[upstream], peer[to]
            return done[upstream] + topology.delay(*pair) + TUPLE_BYTES / topology.bandwidth(*pair)

        for step in query.steps:
            cost = 0.0 if step.component == "union" else workload.components[step.component].cost
            begin = max(sent(upstream, step.name) for upstream in step.inputs)
            done[step.name] = begin + cost / topology.cores[peer[step.name]]
        times.append(sent(query.steps[-1].name, "sink"))
    return times


@pytest.mark.parametrize("seed", range(3))
def test_the_time_in_isolation_is_that_of_the_least_or_of_the_mean_placement(seed: int) -> None:
    for isolated in ("least", "mean"):
        topology, workload = small(seed, operators=(2, 4), isolated=isolated)
        for request in workload.requests[:6]:
            times = tried(topology, workload, request)
            expected = min(times) if isolated == "least" else sum(times) / len(times)
            assert request.isolated == pytest.approx(expected)


def test_the_branches_of_a_query_meet_in_a_union() -> None:
    topology, workload = small(2, operators=(3, 5), branching=1.0, isolated="least", requests=8)
    for request in workload.requests:
        query, plan = workload.queries[request.query], workload.plan(request)
        assert 3 <= len(query.steps) <= 5
        assert len(plan.upstream("union")) == 2
        assert len(plan.routes) == 2
    for request in workload.requests[:3]:
        assert request.isolated == pytest.approx(min(tried(topology, workload, request)))


def test_no_peer_offers_a_missing_component() -> None:
    topology, workload = small(missing=1)
    offered = {name for peer in topology.peers for name in workload.offers(peer)}
    for request in workload.requests:
        asked = {step.component for step in workload.queries[request.query].steps}
        assert len({component for component in asked if f"delay:{component}" not in offered}) == 1
        assert request.isolated > 0.0
        assert workload.plan(request).operators


def test_equal_seeds_make_equal_workloads_and_more_requests_begin_alike() -> None:
    _, one = small()
    _, same = small()
    assert one == same
    _, more = small(requests=30)
    assert more.requests[:20] == one.requests
    _, wider = small(replication=5)
    assert [request.query for request in wider.requests] == [request.query for request in one.requests]
    assert wider.queries == one.queries
    _, other = small(2)
    assert other.requests != one.requests


def test_a_request_is_composed_and_takes_its_time() -> None:
    topology, workload = small(slack=3.0)
    ring = Ring(
        len(topology),
        seed=1,
        network=topology,
        config=lambda number: PeerConfig(
            name=f"peer-{number}",
            components=workload.offers(f"peer-{number}"),
            cores=topology.cores[f"peer-{number}"],
            seed=number,
        ),
    )
    request = workload.requests[0]
    plan = workload.plan(request)
    ring.submit(request.origin, request.name, plan)
    report = ring.until_decided(request.name)
    assert report.status == "running", report.reason
    query = workload.queries[request.query]
    for step in query.steps:
        assert report.peers[step.name] in workload.components[step.component].peers
    assert report.peers["sink"] == request.origin
    flow = Flow(topology, bandwidth=topology.bandwidth, speeds=topology.cores, seed=1)
    flow.add(from_plan(request.name, plan, report.peers, service="constant"))
    flow.run(until=60.0)
    placed = [
        time
        for time, chosen in zip(
            tried(topology, workload, request),
            product(*(workload.components[step.component].peers for step in query.steps)),
            strict=True,
        )
        if all(report.peers[step.name] == peer for step, peer in zip(query.steps, chosen, strict=True))
    ]
    assert flow.delays(request.name).tuples > 200
    assert flow.records(request.name)[1].min() == pytest.approx(placed[0], abs=1e-4)  # and 1 µs each of source and sink
    assert flow.delays(request.name).miss_rate == 0.0


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"components": 0}, "components: 0; expected at least 1"),
        ({"requests": -1}, "requests: -1; expected at least 0"),
        ({"operators": (5, 2)}, r"operators: \(5, 2\); expected the least and the greatest"),
        ({"costs": (0.0, 1.0)}, r"costs: \(0.0, 1.0\); expected"),
        ({"repetitions": 1.5}, "repetitions: 1.5; expected a share from 0 to 1"),
        ({"arrivals": 0.0}, "arrivals, zipf, slack: 0.0, 1.6, 0.3; expected a rate above 0"),
        ({"isolated": "best"}, "isolated: 'best'; expected 'mean' or 'least' or 'projected'"),
        ({"missing": 3}, "missing: 3; expected at most 2"),
        ({"replication": 25}, "replication: 25; expected at most 24, the number of peers"),
    ],
)
def test_wrong_parameters_of_a_workload_are_refused_by_name(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        small(**wrong)
