"""Component graphs, φ and the ledger, against slow, obvious twins."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from synergy_nb.control.graph import ComponentGraph, Hop, merge
from synergy_nb.control.ledger import Ledger
from synergy_nb.plan import Plan, plan, source


def diamond() -> Plan:
    """The query plan of figure 2.6: o1 to o2 and o3, o2 to o4, o3 to o5, o4 and o5 to o6."""
    s1 = source("python", name="s1", columns={"v": "float"}, id="source", rate=1000.0)
    s2 = s1.delay("1 us", id="o1")
    s4 = s2.delay("2 us", id="o2").delay("4 us", id="o4")
    s5 = s2.delay("3 us", id="o3").delay("5 us", id="o5")
    return s4.union(s5, id="o6").sink("s8", delay="1 s", id="sink")


ROUTES = (("source", "o1", "o2", "o4", "o6", "sink"), ("source", "o1", "o3", "o5", "o6", "sink"))


def path(plan: Plan, route: tuple[str, ...], peers: dict[str, str], capacity: float = 1.0) -> tuple[Hop, ...]:
    hops: list[Hop] = []
    for operator in route:
        remote = bool(hops) and hops[-1].peer != peers[operator]
        hops.append(
            Hop(
                operator,
                peers[operator],
                capacity,
                1e6 if remote else math.inf,
                plan.processing_time(operator),
                0.01 if remote else 0.0,
            )
        )
    return tuple(hops)


def test_the_plan_of_figure_2_6_has_two_routes() -> None:
    assert set(diamond().routes) == set(ROUTES)


def test_two_probed_paths_merge_into_the_graph_of_figure_2_7() -> None:
    """c10, c20, c40, c60 and c10, c30, c50, c60 make one component graph (section 2.3.1, step 4)."""
    query = diamond()
    peers = {"source": "vs", "o1": "c10", "o2": "c20", "o3": "c30", "o4": "c40", "o5": "c50", "o6": "c60", "sink": "vs"}
    graphs = merge(query, [path(query, route, peers) for route in ROUTES])
    assert [graph.peers for graph in graphs] == [peers]
    assert set(graphs[0].links) == {(up, o) for o in query.operators for up in query.upstream(o)}


def test_paths_that_disagree_on_a_shared_component_do_not_merge() -> None:
    query = diamond()
    one = dict.fromkeys(query.operators, "a")
    other = {**one, "o6": "b"}
    assert merge(query, [path(query, ROUTES[0], one), path(query, ROUTES[1], other)]) == []


def test_a_route_without_a_path_leaves_no_graph() -> None:
    query = diamond()
    assert merge(query, [path(query, ROUTES[0], dict.fromkeys(query.operators, "a"))]) == []


@pytest.mark.slow
@given(
    st.lists(st.tuples(*[st.sampled_from("ab")] * 6), max_size=6),
    st.lists(st.tuples(*[st.sampled_from("ab")] * 6), max_size=6),
)
def test_merging_equals_trying_all_pairs(upper: list[tuple[str, ...]], lower: list[tuple[str, ...]]) -> None:
    query = diamond()
    found = {ROUTES[0]: upper, ROUTES[1]: lower}
    paths = [
        path(query, route, dict(zip(route, peers, strict=True))) for route, each in found.items() for peers in each
    ]
    expected = set()
    for first, second in itertools.product(upper, lower):
        one, two = dict(zip(ROUTES[0], first, strict=True)), dict(zip(ROUTES[1], second, strict=True))
        if all(one[operator] == two[operator] for operator in one.keys() & two.keys()):
            expected.add(tuple(sorted({**one, **two}.items())))
    assert {tuple(sorted(graph.peers.items())) for graph in merge(query, paths)} == expected


def test_delay_is_that_of_the_longest_path() -> None:
    query = diamond()
    peers = {**dict.fromkeys(query.operators, "a"), "o3": "b"}
    graph = merge(query, [path(query, route, peers) for route in ROUTES])[0]
    upper = sum(query.processing_time(operator) for operator in ROUTES[0])
    lower = sum(query.processing_time(operator) for operator in ROUTES[1]) + 2 * 0.01
    assert graph.delay(query) == pytest.approx(max(upper, lower))


def test_phi_is_equation_2_5_with_residuals_after_admission() -> None:
    query = diamond()
    peers = {**dict.fromkeys(query.operators, "a"), "o3": "b", "o5": "b"}
    graph = merge(query, [path(query, route, peers, capacity=0.5) for route in ROUTES])[0]
    on = {
        peer: sum(query.load(operator) for operator in query.operators if peers[operator] == peer)
        for peer in ("a", "b")
    }
    expected = sum(
        query.load(operator) / (0.5 - on[peer] + query.load(operator))
        for operator, peer in peers.items()
        if query.load(operator)
    )
    crossing = {("o1", "o3"): ("a", "b"), ("o5", "o6"): ("b", "a")}
    for up, _ in crossing:
        expected += query.bandwidth(up) / (1e6 - query.bandwidth(up) + query.bandwidth(up))
    assert graph.balance(query) == pytest.approx(expected)


def test_phi_is_infinite_where_a_peer_would_be_overloaded() -> None:
    query = diamond()
    peers = dict.fromkeys(query.operators, "a")
    needed = sum(query.load(operator) for operator in query.operators)
    tight = merge(query, [path(query, route, peers, capacity=needed * 1.001) for route in ROUTES])[0]
    short = merge(query, [path(query, route, peers, capacity=needed * 0.999) for route in ROUTES])[0]
    assert math.isfinite(tight.balance(query))
    assert math.isinf(short.balance(query))


def test_phi_is_infinite_where_two_streams_overfill_one_link() -> None:
    """Each stream fits the link alone, both together do not (condition 2.4)."""
    left = source("python", name="l", columns={"v": "float"}, id="left", rate=1000.0)
    right = source("python", name="r", columns={"v": "float"}, id="right", rate=1000.0)
    query = plan(left.union(right, id="both").sink("out"))
    bandwidth = query.bandwidth("left")
    hops = {
        "left": Hop("left", "a", 1.0, math.inf, 0.0, 0.0),
        "right": Hop("right", "a", 1.0, math.inf, 0.0, 0.0),
        "both": Hop("both", "b", 1.0, 1.5 * bandwidth, 0.0, 0.0),
        "sink": Hop("sink", "b", 1.0, math.inf, 0.0, 0.0),
    }
    links = {
        ("left", "both"): (1.5 * bandwidth, 0.0),
        ("right", "both"): (1.5 * bandwidth, 0.0),
        ("both", "sink"): (math.inf, 0.0),
    }
    assert math.isinf(ComponentGraph(hops, links).balance(query))


# -- the ledger ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("cores", "bandwidth"), [(0.0, 1.0), (1.0, -1.0)])
def test_a_peer_without_capacity_is_refused(cores: float, bandwidth: float) -> None:
    with pytest.raises(ValueError, match="expected a positive number"):
        Ledger(cores, bandwidth)


def test_the_own_reservations_of_a_request_do_not_count_against_it() -> None:
    ledger = Ledger(1.0, 100.0)
    ledger.reserve("r", "a", 0.6, ("p", "s"), 70.0)
    assert ledger.residual_cores("r") == 1.0
    assert ledger.residual_cores("other") == pytest.approx(0.4)
    assert ledger.residual_bandwidth("other", "p") == pytest.approx(30.0)


def test_alternatives_of_one_request_reserve_no_more_than_the_capacity() -> None:
    """Two operators of 0.6 cores on a peer of one core: either can be chosen, both cannot, and nobody else gets in."""
    ledger = Ledger(1.0, 100.0)
    ledger.reserve("r", "a", 0.6, None, 0.0)
    ledger.reserve("r", "b", 0.6, None, 0.0)
    assert ledger.overbooked() is None
    assert ledger.residual_cores("other") == 0.0
    assert ledger.commit("r", "b", 0.6, {}) == ""
    assert "processing capacity: 0.6 cores needed, 0.4 left" in ledger.commit("r", "a", 0.6, {})
    assert ledger.residual_cores("other") == pytest.approx(0.4)


def test_a_reservation_is_honoured_despite_reservations_of_others() -> None:
    ledger = Ledger(1.0, 100.0)
    ledger.reserve("first", "a", 0.4, None, 0.0)
    for operator in "abc":
        ledger.reserve("second", operator, 0.5, None, 0.0)
    assert ledger.overbooked() is None
    assert ledger.commit("second", "b", 0.5, {}) == ""
    assert ledger.commit("first", "a", 0.4, {}) == ""
    assert ledger.overbooked() is None


def test_a_commitment_without_reservation_uses_the_request_s_other_reservations() -> None:
    """Of a core, two requests hold a half each; what one commits for another operator comes out of its own half."""
    ledger = Ledger(1.0, 100.0)
    ledger.reserve("r1", "a", 0.5, None, 0.0)
    ledger.reserve("r2", "a", 0.5, None, 0.0)
    assert ledger.commit("r1", "b", 0.5, {}) == ""
    assert ledger.overbooked() is None
    assert ledger.commit("r2", "a", 0.5, {}) == ""
    assert "processing capacity: 0.5 cores needed, 0 left" in ledger.commit("r1", "a", 0.5, {})


def test_a_commitment_without_reservation_needs_free_capacity() -> None:
    ledger = Ledger(1.0, 100.0)
    assert ledger.commit("r1", "a", 0.7, {("p", "s"): 60.0}) == ""
    assert "processing capacity" in ledger.commit("r2", "a", 0.7, {})
    assert "bandwidth from p" in ledger.commit("r2", "a", 0.1, {("p", "s"): 60.0})
    assert ledger.overbooked() is None


steps = st.lists(
    st.tuples(
        st.sampled_from(["reserve", "commit", "expire", "release"]),
        st.sampled_from(["r1", "r2", "r3"]),
        st.sampled_from(["a", "b", "c"]),
        st.floats(0.01, 0.9),
        st.sampled_from(["p", "q"]),
        st.floats(1.0, 90.0),
    ),
    max_size=60,
)


@pytest.mark.slow
@given(steps)
def test_nothing_is_promised_twice_in_any_sequence_of_requests(
    asked: list[tuple[str, str, str, float, str, float]],
) -> None:
    """Reserving what the checks of step 2 allow, and committing in any order, never exceeds a capacity."""
    ledger = Ledger(1.0, 100.0)
    for step, request, operator, cores, peer, bandwidth in asked:
        if step == "reserve":
            fits = ledger.residual_cores(request) >= cores and ledger.residual_bandwidth(request, peer) >= bandwidth
            if fits:
                ledger.reserve(request, operator, cores, (peer, "s"), bandwidth)
        elif step == "commit":
            ledger.commit(request, operator, cores, {(peer, "s"): bandwidth})
        elif step == "expire":
            ledger.expire(request)
        else:
            ledger.release(request)
        assert ledger.overbooked() is None
    for request in list(ledger.requests):
        ledger.release(request)
    assert ledger.residual_cores("") == 1.0
    assert ledger.requests == frozenset()
