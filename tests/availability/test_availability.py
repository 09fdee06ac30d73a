"""Availability of placements: exact against brute force and closed forms, sampled against exact, degrees, baselines."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from itertools import combinations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synergy_nb.algorithms.availability import (
    ExactlyFailed,
    IndependentFailures,
    InsufficientCapacity,
    ResidualLimits,
    availability,
    components_of,
    costs,
    degree_for,
    groups_of,
    latency_placement,
    nondominated,
    on_one_group,
    optimal_availability,
    optimal_placement,
    optimum,
    partition_availability,
    partition_placement,
    random_availability,
    random_placement,
    sampled_availability,
)
from synergy_nb.control.roles import Roles
from synergy_nb.plan import Plan, source
from tests.quick_cases import quick_first

PEERS = [f"v{number}" for number in range(20)]
SMALL = PEERS[:7]
Groups = dict[str, tuple[str, ...]]


def chain(components: int, cost: str = "500 us") -> Plan:
    """A source, components in a row, a sink; each takes 0.05 cores by default, each stream 1600 bytes/s."""
    stream = source("python", name="n", columns={"v": "float"}, rate=100.0, id="source")
    for number in range(components):
        stream = stream.delay(cost, id=f"o{number}")
    return stream.sink("out")


# -- exact -------------------------------------------------------------------------------------------------------------


def naive(groups: Groups, failed: frozenset[str]) -> bool:
    return all(any(peer not in failed for peer in peers) for peers in groups.values())


def by_states(groups: Groups, model: IndependentFailures, racks: dict[str, str], chance: dict[str, float]) -> float:
    """Every state of every peer and rack, one by one."""
    total = 0.0
    causes = [*model.peers, *chance]
    for state in product((False, True), repeat=len(causes)):
        down = {cause for cause, failed in zip(causes, state, strict=True) if failed}
        weight = 1.0
        for cause in causes:
            value = chance[cause] if cause in chance else model.probability[cause]
            weight *= value if cause in down else 1.0 - value
        failed = frozenset(peer for peer in model.peers if peer in down or racks.get(peer) in down)
        total += weight * naive(groups, failed)
    return total


placements = st.dictionaries(
    st.sampled_from(["o0", "o1", "o2", "o3", "o4"]),
    st.lists(st.sampled_from(SMALL), min_size=1, max_size=4, unique=True).map(tuple),
    min_size=1,
)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(placements, st.integers(0, 7))
def test_exactly_so_many_failures_equal_brute_force(groups: Groups, count: int) -> None:
    model = ExactlyFailed(SMALL, count)
    sets = [frozenset(failed) for failed in combinations(SMALL, count)]
    assert availability(groups, model) == pytest.approx(
        sum(naive(groups, each) for each in sets) / len(sets), abs=1e-12
    )


@pytest.mark.parametrize("count", range(len(SMALL) + 1))
def test_all_sets_of_so_many_failures_are_equally_probable(count: int) -> None:
    sets = [frozenset(failed) for failed in combinations(SMALL, count)]
    found = dict(ExactlyFailed(SMALL, count).sets())
    assert found == pytest.approx(dict.fromkeys(sets, 1.0 / len(sets)))


@settings(max_examples=30, deadline=None)
@given(placements, st.lists(st.floats(0, 1), min_size=7, max_size=7), st.lists(st.floats(0, 1), min_size=2, max_size=2))
def test_independent_failures_with_racks_equal_brute_force(groups: Groups, own: list[float], rack: list[float]) -> None:
    racks = {peer: "r1" if number < 3 else "r2" for number, peer in enumerate(SMALL) if number < 5}
    chance = dict(zip(("r1", "r2"), rack, strict=True))
    domains = {peer: (name,) for peer, name in racks.items()}
    model = IndependentFailures(dict(zip(SMALL, own, strict=True)), domains, chance)
    exact = by_states(groups, model, racks, chance)
    assert availability(groups, model) == pytest.approx(exact, abs=1e-9)
    assert sum(value for failed, value in model.sets() if naive(groups, failed)) == pytest.approx(exact, abs=1e-9)


def test_racks_in_sites_and_failing_domains() -> None:
    where = {"a": ("s1", "r1"), "b": ("s1", "r2"), "c": ("s2",)}
    chances = {"s1": 0.1, "r1": 0.2, "r2": 0.3, "s2": 0.05}
    model = IndependentFailures({"a": 0.01, "b": 0.02, "c": 0.03, "d": 0.04}, where, chances)
    one, two = 0.2 + 0.8 * 0.01, 0.3 + 0.7 * 0.02
    assert model.all_fail("ab") == pytest.approx(0.1 + 0.9 * one * two)
    assert model.all_fail("abcd") == pytest.approx((0.1 + 0.9 * one * two) * (0.05 + 0.95 * 0.03) * 0.04)
    assert availability({"o": "ab"}, model) == pytest.approx(1.0 - 0.1 - 0.9 * one * two)
    racks = ExactlyFailed("abcd", 1, {"a": "r", "b": "r"})  # the rack, c or d
    assert availability({"o": "ab"}, racks) == pytest.approx(2 / 3)
    assert availability({"o": "ac"}, racks) == 1.0


@pytest.mark.parametrize(
    ("degree", "optimal", "partition", "at_random"),
    [(2, 0.9842, 0.9033, 0.8665), (3, 0.9991, 0.9958, 0.9921)],
)
def test_the_closed_forms_of_20_peers_3_failed_9_components(
    degree: int, optimal: float, partition: float, at_random: float
) -> None:
    assert optimal_availability(20, 3, degree) == pytest.approx(optimal, abs=5e-5)
    assert partition_availability(20, 3, degree, 9) == pytest.approx(partition, abs=5e-5)
    assert random_availability(20, 3, degree, 9) == pytest.approx(at_random, abs=5e-5)


def test_placements_have_the_availability_that_the_closed_forms_expect() -> None:
    rng = random.Random(1)
    model, plan, pinned = ExactlyFailed(PEERS, 3), chain(9), {"source": "v0", "sink": "v1"}
    together = optimal_placement(plan, 2, PEERS, rng, pinned=pinned)
    assert availability(together, model) == pytest.approx(optimal_availability(20, 3, 2))
    spread = [availability(random_placement(plan, 2, PEERS, rng, pinned=pinned), model) for _ in range(300)]
    assert sum(spread) / 300 == pytest.approx(random_availability(20, 3, 2, 9), abs=0.002)
    groups = groups_of(PEERS, 2, rng)
    parted = [availability(partition_placement(plan, groups, rng, pinned=pinned), model) for _ in range(300)]
    assert sum(parted) / 300 == pytest.approx(partition_availability(20, 3, 2, 9), abs=0.003)


def test_sampling_states_its_error_and_keeps_to_it() -> None:
    rng = random.Random(2)
    within = 0
    for seed in range(40):
        groups = {f"o{number}": tuple(rng.sample(PEERS, 2)) for number in range(9)}
        model = ExactlyFailed(PEERS, 3) if seed % 2 else IndependentFailures(dict.fromkeys(PEERS, 0.15))
        found = sampled_availability(groups, model, 1000, seed)
        within += abs(found.value - availability(groups, model)) <= found.error
        assert 0.0 < found.error < 0.04
    assert within >= 35  # 95 % of 40 are 38
    sure = sampled_availability({"o": ("v0",)}, ExactlyFailed(PEERS, 0), 1000, 1)
    assert sure.value == 1.0
    assert 0.0 < sure.error < 0.005


def test_exact_evaluation_takes_milliseconds() -> None:
    rng = random.Random(3)
    groups = {f"o{number}": tuple(rng.sample(PEERS, 2)) for number in range(9)}
    began = time.thread_time()
    for _ in range(20):
        availability(groups, ExactlyFailed(PEERS, 3))
    assert (time.thread_time() - began) / 20 < 0.02


# -- the degree for a target -------------------------------------------------------------------------------------------


def test_the_degree_follows_from_the_target_and_the_peers_failure_probabilities() -> None:
    alike = IndependentFailures(dict.fromkeys(PEERS, 0.15))
    assert [degree_for(target, alike) for target in (0.0, 0.85, 0.9, 0.99, 0.999)] == [1, 1, 2, 3, 4]
    mixed = IndependentFailures({"a": 0.5, "b": 0.1, "c": 0.01})
    for degree in (1, 2, 3):
        groups = list(combinations("abc", degree))
        mean = sum(1.0 - mixed.all_fail(group) for group in groups) / len(groups)
        assert degree_for(mean - 1e-9, mixed) == degree
        assert mixed.mean_all_fail(degree) == pytest.approx(1.0 - mean)
    with pytest.raises(ValueError, match=r"availability: 0.9999; expected at most 0.9995, which degree 3 reaches"):
        degree_for(0.9999, mixed)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 6), st.integers(0, 5))
def test_the_mean_over_all_groups_is_that_of_an_enumeration(count: int, failed: int) -> None:
    racks = {"v0": "r1", "v1": "r1", "v2": "r1", "v3": "r2", "v4": "r2"}
    domains = {peer: (rack,) for peer, rack in racks.items()}
    own = {peer: 0.1 * number for number, peer in enumerate(SMALL)}
    for model in (
        ExactlyFailed(SMALL, failed),
        ExactlyFailed(SMALL, min(failed, 4), racks),
        IndependentFailures(own, domains, {"r1": 0.3}),
    ):
        groups = list(combinations(SMALL, count))
        mean = sum(model.all_fail(group) for group in groups) / len(groups)
        assert model.mean_all_fail(count) == pytest.approx(mean, abs=1e-12)


# -- baselines and limits ----------------------------------------------------------------------------------------------


def nearby(one: str, other: str) -> float:
    return abs(PEERS.index(one) - PEERS.index(other)) * 0.01


@pytest.mark.parametrize("degree", [1, 2, 3])
def test_each_baseline_places_by_its_own_rule(degree: int) -> None:
    rng, plan, pinned = random.Random(4), chain(9), {"source": "v3", "sink": "v1", "o4": "v9"}
    groups = groups_of(PEERS, degree, rng)
    assert len({peer for group in groups for peer in group}) == degree * (20 // degree)
    free = {"source": "v3", "sink": "v1"}
    together = optimal_placement(plan, degree, PEERS, rng, pinned=free)
    assert len(together.hosts) == degree
    assert len({together.peers[name] for name in components_of(plan)}) == 1
    parted = partition_placement(plan, groups, rng, pinned=pinned if degree < 3 else free)
    assert all(sorted(peers) in [sorted(group) for group in groups] for peers in parted.replicas.values())
    anywhere = random_placement(plan, degree, PEERS, rng, pinned=pinned)
    near = latency_placement(plan, degree, PEERS, nearby, pinned=free)
    assert near.peers["o8"] == "v3"  # nothing is nearer than the peer itself
    assert all(set(near.backups[name]) <= {"v2", "v4"} for name in components_of(plan))
    apart = latency_placement(plan, degree, PEERS, nearby, pinned=free, apart=True)
    assert len(apart.hosts) == min(9 * degree, 20)
    for placed in (together, parted, anywhere, near, apart):
        assert placed.peers["source"] == "v3"
        assert placed.backups.keys() == set(components_of(plan))
        assert all(len(set(peers)) == degree for peers in placed.replicas.values())
    assert anywhere.peers["o4"] == "v9"


@pytest.mark.parametrize("seed", range(5))
def test_with_limits_nothing_is_overbooked(seed: int) -> None:
    rng, plan = random.Random(seed), chain(6)
    makers: list[Callable[[ResidualLimits, dict[str, str]], Roles]] = [
        lambda limits, pinned: random_placement(plan, 2, PEERS, rng, pinned=pinned, limits=limits),
        lambda limits, pinned: partition_placement(
            plan, groups_of(PEERS, 2, random.Random(0)), rng, pinned=pinned, limits=limits
        ),
        lambda limits, pinned: latency_placement(plan, 2, PEERS, nearby, pinned=pinned, limits=limits),
    ]
    for make in makers:
        cores = {peer: rng.choice([0.1, 0.25]) for peer in PEERS}
        limits, witness = (ResidualLimits(cores, lambda one, other: 5000.0) for _ in range(2))
        placed = 0
        for _ in range(12):
            try:
                graph = make(limits, {"source": rng.choice(PEERS), "sink": rng.choice(PEERS)})
            except InsufficientCapacity:
                break
            witness.admit(plan, graph)  # which checks what it is given
            placed += 1
        assert placed >= 3
        assert limits.cores == pytest.approx(witness.cores)
    with pytest.raises(InsufficientCapacity, match="operator 'o3': no peer has room"):
        optimal_placement(plan, 2, PEERS, rng, pinned={"source": "v0", "sink": "v0"},
                          limits=ResidualLimits(dict.fromkeys(PEERS, 0.16), lambda one, other: 1e9))  # fmt: skip


# -- optimum -----------------------------------------------------------------------------------------------------------


def exhaustive(plan: Plan, degree: int, model: ExactlyFailed | IndependentFailures,
               limits: Callable[[], ResidualLimits],
               pinned: dict[str, str]) -> float | None:  # fmt: skip
    """Best availability over every primary and every set of backups of every component."""
    names = components_of(plan)
    ways = [(primary, *rest) for primary in model.peers
            for rest in combinations([peer for peer in model.peers if peer != primary], degree - 1)]  # fmt: skip
    best: float | None = None
    for chosen in product(ways, repeat=len(names)):
        graph = Roles(
            {**pinned, **{name: way[0] for name, way in zip(names, chosen, strict=True)}},
            {name: way[1:] for name, way in zip(names, chosen, strict=True)},
        )
        if any(graph.peers[name] != peer for name, peer in pinned.items()):
            continue
        try:
            limits().admit(plan, graph)
        except InsufficientCapacity:
            continue
        found = availability(graph, model)
        best = found if best is None else max(best, found)
    return best


@pytest.mark.parametrize("seed", quick_first(range(8), 3))
def test_the_optimum_is_the_best_of_all_placements(seed: int) -> None:
    rng = random.Random(seed)
    peers, plan, degree = PEERS[:4], chain(3), rng.choice([1, 2])
    pinned = {"source": rng.choice(peers), "sink": rng.choice(peers)}
    if seed % 3 == 0:
        pinned["o1"] = rng.choice(peers)
    cores = {peer: rng.choice([0.06, 0.11, 0.2]) for peer in peers}
    wide = rng.choice([1700.0, 3300.0, 1e9])

    def limits() -> ResidualLimits:
        return ResidualLimits(cores, lambda one, other: wide)

    own = {peer: rng.choice([0.05, 0.2, 0.4]) for peer in peers}
    domains = {"v0": ("r",), "v1": ("r",)}
    for model in (ExactlyFailed(peers, 2), IndependentFailures(own, domains, {"r": 0.1})):
        best = exhaustive(plan, degree, model, limits, pinned)
        if best is None:
            with pytest.raises(InsufficientCapacity, match="application: it does not fit"):
                optimum(plan, degree, model, limits(), pinned=pinned)
            continue
        found = optimum(plan, degree, model, limits(), pinned=pinned)
        limits().admit(plan, found.placed)
        assert found.availability == pytest.approx(best, abs=1e-9)


def test_one_group_is_found_for_20_peers() -> None:
    plan, pinned = chain(9), {"source": "v0", "sink": "v1"}
    limits = ResidualLimits(dict.fromkeys(PEERS, 0.3), lambda one, other: 1e9)
    for degree in (2, 3, 4):
        placed = on_one_group(plan, degree, PEERS, limits, pinned=pinned)
        assert placed is not None
        assert len(placed.hosts) == degree
        ResidualLimits(dict.fromkeys(PEERS, 0.3), lambda one, other: 1e9).admit(plan, placed)
    assert on_one_group(plan, 1, PEERS, limits, pinned=pinned) is None


# -- costs -------------------------------------------------------------------------------------------------------------


def test_costs_and_delays_of_a_placement() -> None:
    plan = chain(3)
    placed = Roles(
        {"source": "v9", "o0": "v0", "o1": "v2", "o2": "v2", "sink": "v15"},
        {"o0": ("v1",), "o1": ("v5",), "o2": ("v0",)},
    )
    found = costs(plan, placed, nearby)
    assert found.inter_delay == pytest.approx(0.01)  # 20 ms and none
    assert found.intra_delay == pytest.approx((0.01 + 0.03 + 0.02) / 3)
    assert found.inter == pytest.approx(1600.0 * 0.02)
    assert found.intra == pytest.approx(1600.0 * 0.06)
    alone = Roles({"source": "v9", "o0": "v0", "o1": "v0", "o2": "v0", "sink": "v1"}, {"o0": (), "o1": (), "o2": ()})
    assert costs(plan, alone, nearby) == (0.0, 0.0, 0.0, 0.0)


def test_the_placements_that_no_other_dominates_are_found() -> None:
    assert nondominated({"a": (0.9, 0.1), "b": (0.9, 0.1), "c": (0.95, 0.2), "d": (0.8, 0.2)}) == ["a", "b", "c"]


# -- bad input ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ExactlyFailed(PEERS, 21), "failed: 21; expected 0 to 20, as many as can fail"),
        (lambda: ExactlyFailed(PEERS, -1), "failed: -1; expected 0 to 20"),
        (lambda: ExactlyFailed("ab", 1, {"c": "r"}), "peer: 'c'; expected one of the 2"),
        (lambda: IndependentFailures({"a": 1.5}), "probability of a: 1.5; expected a number from 0 to 1"),
        (lambda: IndependentFailures({"a": 0.1}, {"a": ("r",)}, {"q": 0.1}), "'q'; expected a domain of a peer"),
        (
            lambda: IndependentFailures({"a": 0.1, "b": 0.1}, {"a": ("s", "r"), "b": ("r",)}),
            "domains: 'r' of 'b' lies in s and none; expected one domain around it",
        ),
        (lambda: availability({}, ExactlyFailed(PEERS, 1)), "components: none; expected at least one"),
        (lambda: availability({"o": ()}, ExactlyFailed(PEERS, 1)), "replicas of 'o': ()"),
        (lambda: availability({"o": ("v0", "v0")}, ExactlyFailed(PEERS, 1)), "and none twice"),
        (lambda: availability({"o": ("x",)}, ExactlyFailed(PEERS, 1)), "peer: 'x'; expected one of the 20"),
        (lambda: sampled_availability({"o": ("v0",)}, ExactlyFailed(PEERS, 1), 0, 1), "count: 0; expected at least 1"),
        (lambda: degree_for(1.5, ExactlyFailed(PEERS, 1)), "target: 1.5; expected a number from 0 to 1"),
        (lambda: optimal_availability(20, 3, 21), "degree: 21; expected 1 to 20, the number of peers"),
        (lambda: random_availability(20, 30, 2, 9), "failed: 30; expected 0 to 20"),
        (lambda: groups_of(PEERS, 21, random.Random(1)), "degree: 21; expected 1 to 20, the number of peers"),
        (
            lambda: random_placement(chain(2), 30, PEERS, random.Random(1), pinned={}),
            "degree: 30; expected 1 to 20, the number of peers",
        ),
        (
            lambda: optimum(chain(2), 8, ExactlyFailed(SMALL, 1), ResidualLimits({}, nearby), pinned={}),
            "degree: 8; expected 1 to 7, the number of peers",
        ),
        (lambda: list(ExactlyFailed(PEERS, 10).sets()), "failure sets: 184756; expected at most 65536"),
        (
            lambda: availability(
                {f"o{n}": (f"a{n}", f"b{n}") for n in range(18)},
                IndependentFailures({f"{x}{n}": 0.1 for n in range(18) for x in "ab"}),
            ),
            "components: 18 groups of peers that hardly overlap; expected fewer, or sampling",
        ),
    ],
)  # fmt: skip
def test_wrong_input_of_availability_is_one_error_each(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the text is what is compared
        make()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
