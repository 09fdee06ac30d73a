"""Which peer becomes the origin of a request (section 2.2.4): by hand, with scripted peers, simulated, and live."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
import pytest

from synergy_experiments.flows.workload import Parameters
from synergy_experiments.worlds.composed_requests import compose
from synergy_experiments.worlds.scenario import Scenario
from synergy_nb import Cluster, WideArea, source
from synergy_nb.cli._run_command import check_origin
from synergy_nb.lifecycle.requests.origins import CLIENT, POLICIES, ends_of, nearest
from synergy_nb.plan import Plan
from synergy_nb.reporting.peer_states import PeerState
from synergy_nb.runtime.client._origins import FRESH, Origins
from synergy_nb.runtime.process.requests import MeasureDelays, unpack

OFFERS = {
    "a": ["source:packets", "source:python", "filter"],
    "b": ["source:python", "filter"],
    "c": ["source:packets", "filter"],
}
#: Round trips of a line a - b - c whose ends are far from each other.
LINE = {("a", "b"): 0.1, ("b", "c"): 0.1, ("a", "c"): 0.3}


def between(one: str, other: str) -> float | None:
    return LINE.get((min(one, other), max(one, other)))


def packets(at: str | None = None, **options: str) -> Plan:
    return source("packets", at=at, **options).sink()


# -- the rule ----------------------------------------------------------------------------------------------------------


def test_each_policy_considers_its_own_ends() -> None:
    fed = source("python", name="rows", columns={"bytes": "int"}, id="fed")
    free_source, bound_source = source("packets", id="free"), source("packets", id="bound", at="second")
    plan = fed.union(free_source.project("bytes"), bound_source.project("bytes")).sink()
    free, bound = frozenset("ac"), frozenset("b")
    found = {policy: ends_of(plan, policy, OFFERS, {"b": "second"}) for policy in POLICIES}
    assert found == {
        "client": [CLIENT],
        "source": [CLIENT, free, bound],
        "sink": [CLIENT],
        "near": [CLIENT, CLIENT, free, bound, CLIENT],
    }
    assert ends_of(source("packets").sink(at="c"), "sink", OFFERS, {}) == [frozenset("c")]


def test_the_sum_of_the_delays_to_all_ends_counts() -> None:
    ends = [frozenset("a"), frozenset("c")]
    assert nearest("abc", ends, {}, between) == ["b", "a", "c"]  # .2 seconds, .3 and .3
    assert nearest("abc", [frozenset("c")], {}, between) == ["c", "b", "a"]
    assert nearest("abc", [CLIENT, frozenset("c")], {"a": 0.1, "b": 0.2, "c": 0.5}, between) == ["b", "a", "c"]


def test_a_source_that_several_could_run_is_at_the_nearest_of_them() -> None:
    assert nearest("abc", [frozenset("ac"), frozenset("c")], {}, between) == ["c", "b", "a"]
    assert nearest("bca", [frozenset("abc")], {}, between) == ["b", "c", "a"], "all could: in the order given"


def test_peers_that_are_equally_near_keep_their_order() -> None:
    client = {"a": 0.0200, "b": 0.0185, "c": 0.0300}
    assert nearest("abc", [CLIENT], client, between)[0] == "a"
    assert nearest("cba", [CLIENT], client, between)[0] == "b"
    far = {"a": 0.209, "b": 0.2, "c": 0.221}
    assert nearest("abc", [CLIENT], far, between) == ["a", "b", "c"]
    assert nearest("cab", [CLIENT], far, between) == ["a", "b", "c"]


def test_peers_without_a_measured_delay_come_last() -> None:
    assert nearest("abc", [CLIENT], {}, between) == ["a", "b", "c"]
    assert nearest("abc", [CLIENT], {"c": 0.2, "b": 0.4}, between) == ["c", "b", "a"]
    assert nearest("abc", [frozenset("d"), frozenset("c")], {}, between) == ["c", "b", "a"], "nobody knows how far d is"


# -- peers that answer as they are told --------------------------------------------------------------------------------


class Scripted:
    """Peers with scripted delays, and a clock that pings move."""

    def __init__(self, client: Mapping[str, float]) -> None:
        self.now = 100.0
        self.client = dict(client)
        self.asked: list[tuple[str, str]] = []

    def clock(self) -> float:
        return self.now

    async def ask(self, operation: str, payload: bytes, addresses: Sequence[str], timeout: float) -> dict[str, bytes]:
        found = {}
        for address in addresses:
            self.asked.append((operation, address))
            if self.client.get(address, math.inf) > timeout:
                continue
            if operation == "ping":
                self.now += self.client[address]
                found[address] = b"."
            else:
                wanted = unpack(payload, MeasureDelays).addresses
                delays = {each: between(address, each) for each in wanted if each != address}
                found[address] = msgspec.msgpack.encode({each: it for each, it in delays.items() if it is not None})
        return found

    async def states(self) -> dict[str, PeerState | None]:
        return {
            f"peer-{name}": PeerState(name, name, 1, 0.0, 1.0, 0.0, OFFERS[name], [], [], [], 0, 0)
            if name in self.client
            else None
            for name in OFFERS
        }


PEERS = {f"peer-{name}": name for name in OFFERS}


def order(
    scripted: Scripted, plan: Plan, origin: str | None, turn: int = 1, *, same_machine: bool = False
) -> list[str]:
    origins = Origins(scripted.ask, scripted.clock, same_machine=same_machine)
    return asyncio.run(origins.order(plan, origin, PEERS, scripted.states, turn))


def test_by_default_the_peer_nearest_to_the_client_is_asked_first() -> None:
    scripted = Scripted({"a": 0.3, "b": 0.02, "c": 0.1})
    assert order(scripted, packets(), None) == order(scripted, packets(), "client") == ["b", "c", "a"]
    assert order(Scripted({"a": 0.3, "c": 0.1}), packets(), None) == ["c", "a"], "b does not answer"
    assert order(Scripted({}), packets(), None) == ["a", "b", "c"], "it will be told which does not"


@pytest.mark.parametrize(
    ("client", "first", "asked"),
    [
        ({"a": 0.3, "b": 0.02}, "a", ["a"]),
        ({"a": 1.3, "b": 0.02}, "b", ["a", "b"]),
        ({"a": 72.0, "b": 9.0, "c": 2.0}, "b", [*"abc", *"abc"]),  # of an overloaded machine
        ({"a": 72.0}, "", [*"abc", *"abc"]),
    ],
)
def test_the_first_peer_that_answers_becomes_the_origin(client: dict[str, float], first: str, asked: list[str]) -> None:
    scripted = Scripted(client)
    origins = Origins(scripted.ask, scripted.clock, same_machine=True)
    assert asyncio.run(origins.first_answering(["a", "b", "c"])) == first
    assert scripted.asked == [("ping", each) for each in asked]


def test_a_client_beside_its_peers_measures_nothing_and_takes_turns() -> None:
    scripted = Scripted({"a": 0.3, "b": 0.02, "c": 0.1})
    assert [order(scripted, packets(), None, turn, same_machine=True)[0] for turn in (1, 2, 3, 4)] == [
        "a",
        "b",
        "c",
        "a",
    ]
    assert scripted.asked == []


def test_delays_to_sources_are_asked_of_their_peers() -> None:
    scripted = Scripted({"a": 0.3, "b": 0.02, "c": 0.1})
    both = source("packets", at="peer-a", id="x").union(source("packets", at="c", id="y")).sink()
    assert order(scripted, both, "source") == ["b", "a", "c"]
    assert scripted.asked == [("delays", "a"), ("delays", "c")]
    assert order(scripted, packets("c"), "near")[0] == "b", "b: .02 + .1 + .02, c: .1 + 0 + .1"
    assert order(scripted, packets("peer-c"), "source") == ["c", "b", "a"]
    assert order(Scripted({"a": 0.3, "b": 0.02}), packets("peer-c"), "source") == ["a", "b"], "c is dead"


def test_a_peer_by_its_name_needs_no_measurement() -> None:
    scripted = Scripted({"a": 0.3, "b": 0.02, "c": 0.1})
    assert order(scripted, packets(), "peer-c") == ["c"]
    assert scripted.asked == []


def test_the_clients_delays_are_measured_once_a_minute() -> None:
    scripted = Scripted({"a": 0.3, "b": 0.02, "c": 0.1})
    origins = Origins(scripted.ask, scripted.clock, same_machine=False)

    async def first() -> str:
        return (await origins.order(packets(), None, PEERS, scripted.states, 1))[0]

    assert asyncio.run(first()) == "b"
    asked = len(scripted.asked)
    scripted.client["b"] = 0.5
    assert asyncio.run(first()) == "b"
    assert len(scripted.asked) == asked
    scripted.now += FRESH + 1.0
    assert asyncio.run(first()) == "c"


def test_the_command_refuses_an_origin_that_cannot_be() -> None:
    for origin in (None, "client", "peer-2"):
        check_origin(origin, 2)
    check_origin("worker-of-somebody", None)
    with pytest.raises(ValueError, match="'peer-3'; expected client, source, sink, near, or one of peer-1, peer-2"):
        check_origin("peer-3", 2)
    with pytest.raises(ValueError, match="did you mean 'source'"):
        check_origin("sources", 2)


# -- simulated ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_near_the_source_is_set_up_faster_and_near_the_client_served_faster() -> None:
    """On a transit-stub network, against origins at random peers."""
    workload = Parameters(components=40, requests=30, operators=(2, 3), sources=6, slack=3.0)
    setup: dict[str, list[float]] = {}
    served: dict[str, list[float]] = {}
    for seed in (1, 2, 3):
        clients = {each.name: each.origin for each in Scenario(workload, peers=80).world(seed)[1].requests}
        for rule in ("random", "client", "source", "near"):
            scenario = Scenario(workload, peers=80, policy="synergy", window=10.0, origin=rule)
            topology, _ = scenario.world(seed)
            for each in compose(scenario, seed).served:
                assert each.status == "running", each.reason
                setup.setdefault(rule, []).append(each.setup)
                fetched = topology.delay(each.request.origin, clients[each.request.name])
                served.setdefault(rule, []).append(each.delay + fetched)
    assert np.mean(setup["source"]) < 0.95 * np.mean(setup["random"])
    assert np.mean(served["client"]) < 0.95 * np.mean(served["random"])
    assert np.mean(served["near"]) < 0.95 * np.mean(served["random"])


# -- live --------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_live_the_peer_between_two_sources_is_chosen() -> None:
    """A line whose ends are far from each other; all peers are on the machine of the client."""
    area = WideArea([[0, 80, 700], [80, 0, 80], [700, 80, 0]])
    with Cluster(peers=3, wide_area=area) as cluster:
        ends = [source("packets", count=10, seed=k, id=f"s{k}", at=f"peer-{k}") for k in (1, 3)]
        application = cluster.submit(ends[0].union(ends[1]).sink(), origin="source")
        assert application.graph["sink"] == "peer-2"
        assert application.results().height == 20
        single = cluster.submit(source("packets", count=10, seed=5, at="peer-3").sink(), origin="near")
        assert single.graph["sink"] == "peer-3"
        assert single.results().height == 10
