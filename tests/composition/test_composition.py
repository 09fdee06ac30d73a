"""Composition by probes on simulated peers (section 2.3.1)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from synergy_nb.algorithms.composition import CompositionConfig
from synergy_nb.algorithms.composition._adaptive import RoundsHistory, adapted
from synergy_nb.algorithms.composition.messages import Probe, ProbedRequest, Release, encode_request
from synergy_nb.assembly import PeerConfig, SynergyPeer
from synergy_nb.control.driver_messages import StopApplication
from synergy_nb.control.graph import Hop
from synergy_nb.control.peer import Effect, Instruct, Record, Send
from synergy_nb.control.roles import Roles
from synergy_nb.dataflow.deployments import Deployment
from synergy_nb.events import (
    GraphEvaluated,
    GraphSelected,
    MessageOutdated,
    MessageRefused,
    ProbeAccepted,
    ProbeDropped,
)
from synergy_nb.lifecycle.records.messages import Confirm, Graph
from synergy_nb.plan import Plan, source
from synergy_nb.plan.operators.catalogue import ALL_COMPONENTS
from synergy_nb.reporting.explanation import Explanation
from tests.simulated import Ring


def chain(rate: float = 1000.0, delay: str = "2 s", operators: int = 3, cost: str = "100 us") -> Plan:
    stream = source("python", name="numbers", columns={"v": "float"}, rate=rate)
    for number in range(operators):
        stream = stream.delay(cost, id=f"o{number}")
    return stream.sink("out", delay=delay)


def diamond() -> Plan:
    """The query plan of figure 2.6."""
    s2 = source("python", name="s1", columns={"v": "float"}, rate=100.0).delay("10 us", id="o1")
    upper = s2.delay("10 us", id="o2").delay("10 us", id="o4")
    lower = s2.delay("10 us", id="o3").delay("10 us", id="o5")
    return upper.union(lower, id="o6").sink("s8", delay="2 s")


def test_a_chain_is_composed_deployed_and_started() -> None:
    ring = Ring(8, seed=1, codec=True)
    ring.submit("peer-3", "r", chain())
    report = ring.until_decided("r")
    ring.run(1.0)
    assert report.status == "running", report.reason
    assert {operator: peer for peer, _, operator in ring.deployed} == report.peers
    assert report.peers["sink"] == "peer-3"
    assert ring.started == {(report.peers["source"], "r", "source")}


def test_a_dag_with_a_split_and_a_join_is_composed() -> None:
    ring = Ring(8, seed=2)
    query = diamond()
    ring.submit("peer-0", "r", query)
    report = ring.until_decided("r")
    assert report.status == "running", report.reason
    assert set(report.peers) == set(query.operators)


def test_the_graph_of_least_phi_is_chosen() -> None:
    ring = Ring(8, seed=3)
    ring.submit("peer-0", "r", diamond())
    ring.until_decided("r")
    graphs = ring.events("r", GraphEvaluated)
    chosen = ring.events("r", GraphSelected)[0]
    assert len(graphs) > 1
    assert chosen.phi == min(graph.phi for graph in graphs if graph.phi is not None)


def test_reservations_of_graphs_that_were_not_chosen_are_released_at_once() -> None:
    ring = Ring(8, seed=4)
    query = chain()
    ring.submit("peer-0", "r", query)
    report = ring.until_decided("r")
    ring.run(1.0)
    for address, each in ring.synergy.items():
        assert not each.ledger.reservations
        load = sum(query.load(operator) for operator, peer in report.peers.items() if peer == address)
        assert each.ledger.residual_cores("") == pytest.approx(1.0 - load)


def test_a_stopped_application_leaves_no_resources_behind() -> None:
    ring = Ring(6, seed=5)
    ring.submit("peer-1", "r", chain())
    ring.until_decided("r")
    ring.simulation.report("peer-1", StopApplication("r"))
    ring.run(2.0)
    assert ring.status("r") == "stopped"
    assert not ring.deployed
    assert all(not each.ledger.requests and not each.session.applications for each in ring.synergy.values())


def test_a_missing_operator_is_rejected_by_name() -> None:
    offers = tuple(name for name in ALL_COMPONENTS if name not in ("delay", "source:python"))
    config = CompositionConfig(deployment="off")
    ring = Ring(5, seed=6, config=lambda n: PeerConfig(f"peer-{n}", offers, seed=n, composition=config))
    ring.submit("peer-0", "r", chain())
    report = ring.until_decided("r")
    assert report.status == "rejected"
    assert "no component offers 'delay'" in report.reason
    assert "no component offers 'source:python'" in report.reason
    assert not ring.deployed


def test_an_operator_runs_where_it_is_pinned() -> None:
    ring = Ring(8, seed=7)
    query = source("python", name="n", columns={"v": "float"}, at="peer-5").delay("1 us", at="peer-2").sink("out")
    ring.submit("peer-0", "r", query)
    report = ring.until_decided("r")
    assert (report.peers["source"], report.peers["delay"]) == ("peer-5", "peer-2")


def test_too_little_capacity_is_refused_with_the_numbers() -> None:
    ring = Ring(4, seed=8, config=lambda n: PeerConfig(name=f"peer-{n}", cores=0.05, seed=n))
    ring.submit("peer-0", "r", chain(rate=1000.0, cost="100 us"))
    report = ring.until_decided("r")
    assert report.status == "rejected"
    assert "processing capacity" in report.reason
    assert "where 0.1 cores are needed" in report.reason
    drops = ring.events("r", ProbeDropped)
    assert {event.condition for event in drops} == {"processing capacity"}
    ring.run(1.0)
    assert not any(each.ledger.requests for each in ring.synergy.values())


def test_too_little_bandwidth_is_refused_with_the_numbers() -> None:
    ring = Ring(4, seed=9, config=lambda n: PeerConfig(name=f"peer-{n}", bandwidth=100.0, seed=n))
    pinned = source("python", name="n", columns={"v": "float"}, rate=1000.0, at="peer-1").delay("1 us", at="peer-2")
    ring.submit("peer-0", "r", pinned.sink("out"))
    report = ring.until_decided("r")
    assert report.status == "rejected"
    assert "delay: bandwidth" in report.reason


def test_a_delay_limit_that_no_path_meets_is_refused_with_the_numbers() -> None:
    ring = Ring(5, seed=10)
    pinned = source("python", name="n", columns={"v": "float"}, at="peer-1").delay("1 us", at="peer-2")
    ring.submit("peer-0", "r", pinned.sink("out", delay="1 ms"))
    report = ring.until_decided("r")
    assert report.status == "rejected"
    assert "delay" in report.reason
    assert "0.001 s is allowed" in report.reason


def test_concurrent_requests_never_overbook() -> None:
    """Sixteen requests of 0.3 cores meet eight peers of one core each, at the same instant."""
    ring = Ring(8, seed=11)
    for number in range(16):
        ring.submit(f"peer-{number % 8}", f"r{number}", chain(rate=1000.0, cost="150 us", operators=2))
    for _ in range(60):
        ring.run(0.25)
        assert not ring.overbooked()
    statuses = {ring.status(f"r{number}") for number in range(16)}
    assert statuses <= {"running", "rejected"}
    assert "running" in statuses
    ring.run(15.0)
    assert not any(each.ledger.reservations for each in ring.synergy.values())


@pytest.mark.slow
def test_requests_are_admitted_until_the_peers_are_full() -> None:
    ring = Ring(4, seed=12, config=lambda n: PeerConfig(name=f"peer-{n}", cores=1.0, seed=n))
    admitted = 0
    for number in range(30):
        ring.submit("peer-0", f"r{number}", chain(rate=1000.0, cost="200 us", operators=2))
        admitted += ring.until_decided(f"r{number}").status == "running"
        ring.run(0.5)
        assert not ring.overbooked()
    assert 8 <= admitted <= 10  # 4 cores hold ten times 0.4 cores; the last ones need the right two peers


def test_a_dead_participant_ends_its_application_with_the_reason() -> None:
    ring = Ring(8, seed=13)
    pinned = source("python", name="n", columns={"v": "float"}).delay("1 us", at="peer-4").sink("out")
    ring.submit("peer-0", "r", pinned)
    assert ring.until_decided("r").status == "running"
    ring.crash("peer-4")
    ring.run(15.0)
    assert ring.status("r") == "failed"
    assert "peer-4 died (delay)" in ring.reports["r"][-1].reason
    assert set(ring.deployed) == {("peer-0", "r", "sink")}, "what had been found stays at the sink until it is stopped"
    ring.simulation.report("peer-0", StopApplication("r"))
    assert not ring.deployed
    assert not any(each.ledger.requests for each in ring.synergy.values())
    ring.submit("peer-1", "again", chain())
    assert ring.until_decided("again").status == "running"


def test_a_dead_origin_frees_its_participants() -> None:
    ring = Ring(8, seed=14)
    ring.submit("peer-0", "r", source("python", name="n", columns={"v": "float"}, at="peer-3").sink("out"))
    assert ring.until_decided("r").status == "running"
    ring.crash("peer-0")
    ring.run(20.0)
    assert not ring.deployed
    assert not any(each.ledger.requests for each in ring.synergy.values())


@pytest.mark.slow
def test_the_same_seed_gives_the_same_run() -> None:
    def run() -> list[tuple[float, str, str]]:
        ring = Ring(8, seed=15)
        for number in range(4):
            ring.submit(f"peer-{number}", f"r{number}", diamond())
        ring.run(10.0)
        return [(event.time, event.peer, event.kind) for event in ring.simulation.journal]

    assert run() == run()


def test_messages_are_bounded_by_the_budget() -> None:
    config = CompositionConfig(ratio=1.0, budget=8)
    ring = Ring(12, seed=16, config=lambda n: PeerConfig(name=f"peer-{n}", seed=n, composition=config))
    ring.submit("peer-0", "r", chain(operators=6))
    assert ring.until_decided("r").status == "running"
    probes = sum(each.probing.probes for each in ring.synergy.values())
    assert probes <= 8 * 8


def test_messages_are_bounded_where_routes_meet_before_a_long_chain() -> None:
    """All probers choose alike after the union; each hop of the chain must not double the paths."""
    ring = Ring(8, seed=17)
    left = source("python", name="a", columns={"v": "float"}, rate=10.0)
    stream = left.union(source("python", name="b", columns={"v": "float"}, rate=10.0))
    for number in range(10):
        stream = stream.delay("1 us", id=f"o{number}")
    ring.submit("peer-0", "r", stream.sink("out"))
    assert ring.until_decided("r").status == "running"
    config = CompositionConfig()
    paths = 2 * config.budget * config.at_least
    assert sum(each.probing.probes for each in ring.synergy.values()) <= paths * 13


def test_a_plan_of_too_many_routes_is_refused_at_once() -> None:
    """Nine splits that join again have 2^9 routes."""
    ring = Ring(3, seed=19)
    stream = source("python", name="n", columns={"v": "float"})
    for number in range(9):
        stream = stream.delay("1 us", id=f"l{number}").union(stream.delay("1 us", id=f"r{number}"), id=f"u{number}")
    ring.submit("peer-0", "r", stream.sink("out"))
    assert ring.status("r") == "rejected"
    assert ring.reports["r"][0].reason.startswith("512 routes lead from its sources to its sinks; at most 256")
    assert not ring.synergy["peer-0"].requests.undecided


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("ratio", 0.0),
        ("ratio", float("nan")),
        ("choice", "neareset"),
        ("objective", "least"),
        ("tolerance", -0.1),
        ("guard_band", -0.1),
        ("guard_band", float("nan")),
        ("at_least", 0),
        ("budget", -1),
        ("attempts", 0),
        ("acknowledgement", 0.0),
        ("probing", float("nan")),
        ("probing", "2 s"),
        ("late", "5 %"),
        ("patience", float("inf")),
        ("budget", 2.5),
        ("tries", True),
        ("agreed", 3),
        ("merged", "no"),
    ],
)
def test_parameters_of_composition_that_make_no_sense_are_refused(field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"^{field}: .*; expected"):
        CompositionConfig(**{field: value})


def test_limits_are_agreed_on_only_where_delays_are_projected() -> None:
    with pytest.raises(ValueError, match=r"^agreed: True; expected a projection"):
        CompositionConfig(agreed=True, projection=None)


def test_an_explanation_says_each_reason_once() -> None:
    anywhere = CompositionConfig(choice="random")
    ring = Ring(
        5,
        seed=20,
        config=lambda n: PeerConfig(name=f"peer-{n}", cores=1.0 if n else 0.05, seed=n, composition=anywhere),
    )
    ring.submit("peer-1", "r", chain(operators=3))
    assert ring.until_decided("r").status == "running"
    account = Explanation("r", ring.events("r"), {})
    assert account.why("sink") == "its only candidate"
    for operator in ("source", "o0", "o1", "o2"):
        assert account.why(operator).count("peer-0 (processing capacity)") <= 1
    drops = [(drop.operator, drop.at, drop.condition) for drop in account.dropped]
    assert any(drops.count(drop) > 1 for drop in drops)


# -- what other peers may send ---------------------------------------------------------------------------------------


def probe(query: Plan, attempt: int = 1, **changed: Any) -> Probe:
    """A probe from b to a for the first operator after the source; changed fields are of the probe or its request."""
    before = Hop("source", "b", 1.0, 1e6, 0.0, 0.0)
    request = ProbedRequest(
        "r", attempt, "b", query.to_bytes(), dict.fromkeys(query.operators, ("a",)), 0.5, 2, "random"
    )
    fields = {name: changed.pop(name) for name in tuple(changed) if name in ProbedRequest.__struct_fields__}
    sound = Probe(encode_request(msgspec.structs.replace(request, **fields)), "o0", (before,), 4, 100, 0.0)
    return msgspec.structs.replace(sound, **changed)


def refusals(effects: list[Effect]) -> list[str]:
    """Reasons of refused messages; there must be no other effect of any."""
    events = [effect.event for effect in effects if isinstance(effect, Record)]
    found = [event.reason for event in events if isinstance(event, MessageRefused | MessageOutdated)]
    assert not found or not any(isinstance(effect, Send) for effect in effects)
    return found


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"plan": b"no plan"}, "a plan"),
        ({"candidates": {"o0": ("a",)}}, "candidates: expected at least one for each operator"),
        ({"candidates": {"source": ("a",), "o0": ("a",), "sink": ()}}, "candidates: expected at least one"),
        ({"ratio": float("nan")}, "ratio, at_least: nan, 2"),
        ({"at_least": 0}, "ratio, at_least: 0.5, 0"),
        ({"operator": "nonsense"}, "path: source > nonsense"),
        ({"operator": "sink"}, "path: source > sink"),
        ({"path": ()}, "path: o0; expected the beginning of a route of the plan"),
        ({"path": (Hop("nonsense", "b", 1.0, 1.0, 0.0, 0.0),)}, "path: nonsense > o0"),
        ({"request": b"no request"}, ""),
    ],
)
def test_a_malformed_probe_is_refused_and_reserves_nothing(changed: dict[str, Any], reason: str) -> None:
    synergy = SynergyPeer("a", PeerConfig(name="a"))
    sound = probe(chain(operators=1))
    if "request" in changed:
        bad = msgspec.structs.replace(sound, request=changed["request"])
    else:
        bad = probe(chain(operators=1), **changed)
    assert any(reason in text for text in refusals(synergy.peer.receive("b", bad, 1.0)))
    assert not synergy.ledger.requests
    assert refusals(synergy.peer.receive("b", sound, 1.0)) == []
    assert synergy.ledger.reservations == {"r"}


def test_a_probe_of_an_earlier_attempt_does_not_end_the_current_one() -> None:
    synergy = SynergyPeer("a", PeerConfig(name="a"))
    synergy.peer.receive("b", probe(chain(operators=1), attempt=2), 1.0)
    assert refusals(synergy.peer.receive("b", probe(chain(operators=1), attempt=1), 1.1)) == ["stale attempt"]
    synergy.peer.receive("b", Release("r", 1), 1.2)
    assert synergy.ledger.reservations == {"r"}
    synergy.peer.receive("b", Release("r", 2), 1.3)
    assert not synergy.ledger.requests


def confirm(query: Plan, operator: str, consumer: str, attempt: int = 1, **changed: Any) -> Confirm:
    """A confirmation of a graph that runs on a, but for its sink at its origin b; changed fields are of the graph."""
    peers = {**dict.fromkeys(query.operators, "a"), "sink": "b"}
    graph = Graph("r", attempt, "b", query.to_bytes(), Roles(peers))
    return Confirm(msgspec.structs.replace(graph, **changed), operator, consumer)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"plan": b"no plan"}, "a plan"),
        ({"roles": Roles({"o0": "a"})}, "peers: for the operators o0; expected one for each of source, o0, sink"),
        (
            {"roles": Roles(dict.fromkeys(("source", "o0", "sink", "nonsense"), "a"))},
            "peers: for the operators source, o0, sink, nonsense",
        ),
        ({"origin": "a"}, "this peer does not lead the application"),
    ],
)
def test_a_malformed_confirmation_is_refused_and_commits_nothing(changed: dict[str, Any], reason: str) -> None:
    synergy = SynergyPeer("a", PeerConfig(name="a"))
    bad = confirm(chain(operators=1), "o0", "sink", **changed)
    assert any(reason in text for text in refusals(synergy.peer.receive("b", bad, 1.0)))
    assert not synergy.session.applications
    assert not synergy.ledger.requests
    assert refusals(synergy.peer.receive("b", confirm(chain(operators=1), "o0", "sink"), 1.0)) == []
    assert synergy.ledger.requests == {"r"}


def test_a_malformed_later_confirmation_does_not_end_the_session() -> None:
    synergy = SynergyPeer("a", PeerConfig(name="a"))
    synergy.peer.receive("b", confirm(chain(operators=1), "o0", "sink"), 1.0)
    bad = confirm(chain(operators=1), "o0", "sink", attempt=2, plan=b"no plan")
    assert len(refusals(synergy.peer.receive("b", bad, 1.0))) == 1
    assert synergy.session.applications == {"r"}
    assert synergy.ledger.requests == {"r"}


def test_a_confirmation_of_an_earlier_attempt_deploys_nothing_of_the_current_one() -> None:
    """Of two consumers, one has confirmed in the first attempt, the other in the second."""
    synergy = SynergyPeer("a", PeerConfig(name="a"))
    query = diamond()
    synergy.peer.receive("b", confirm(query, "o1", "o2", attempt=2), 1.0)
    effects = synergy.peer.receive("b", confirm(query, "o1", "o3", attempt=1), 1.1)
    assert refusals(effects) == ["stale attempt"]
    effects = synergy.peer.receive("b", confirm(query, "o1", "o3", attempt=2), 1.2)
    told = [effect.instruction for effect in effects if isinstance(effect, Instruct)]
    deployments = [each for each in told if isinstance(each, Deployment)]
    assert [
        sorted(name for name in each.assignments if each.assignments[name].active == "a") for each in deployments
    ] == [
        ["o1"],
        ["o1", "source"],
    ]


def test_a_late_confirmation_does_not_revive_a_finished_application() -> None:
    ring = Ring(4, seed=18)
    query = source("python", name="n", columns={"v": "float"}, at="peer-1").delay("1 us", at="peer-0").sink("out")
    ring.submit("peer-0", "r", query)
    assert ring.until_decided("r").status == "running"
    origin = ring.synergy["peer-0"]
    peers = ring.reports["r"][-1].peers
    ring.simulation.call("peer-0", origin.session.sinks.ended, "r")
    assert ring.status("r") == "finished"
    late = Confirm(Graph("r", 1, "peer-0", query.to_bytes(), Roles(peers)), "delay", "sink")
    origin.peer.receive("peer-0", late, ring.simulation.now)
    assert not origin.ledger.requests


def test_an_explanation_states_how_each_requirement_is_checked() -> None:
    ring = Ring(5, seed=21)
    asked = {"delay": "2 s", "miss_rate": "5 %", "throughput": "10 tuples/s", "availability": "99 %"}
    ring.submit("peer-0", "r", source("python", name="n", columns={"v": "float"}).filter("v > 0").sink("out", **asked))
    assert ring.until_decided("r").status == "running"
    account = Explanation("r", ring.events("r"), {})
    assert set(account.qos) == {"delay", "miss_rate", "throughput_tuples", "availability"}
    assert "delay at most 2 s, checked by every probe" in str(account)
    assert "availability of 0.99: as many replicas as that takes" in str(account)
    assert {replica.operator for replica in account.replicas} >= {"filter"}
    del asked["availability"]
    ring.submit("peer-0", "s", source("python", name="n", columns={"v": "float"}).sink("out", **asked))
    assert ring.until_decided("s").status == "running"
    account = Explanation("s", ring.events("s"), {})
    assert "delay at most 2 s, checked by every probe" in str(account)
    assert {probe.operator for probe in account.accepted} == {"source", "sink"}


def test_an_adaptive_ratio_follows_what_requests_need() -> None:
    easy, tight = chain(delay="10 s"), chain(operators=3, cost="300 us", delay="1 ms")
    history = RoundsHistory()
    assert adapted(0.1, easy, history) == pytest.approx(0.1, rel=0.01)
    assert adapted(0.1, tight, history) == pytest.approx(0.19, rel=0.02)
    for _ in range(50):
        history.add(2)
    assert adapted(0.1, easy, history) == pytest.approx(0.2, rel=0.01)
    config = CompositionConfig(adaptive=True, ratio=0.2, at_least=1)
    ring = Ring(12, seed=30, config=lambda n: PeerConfig(f"peer-{n}", seed=n, composition=config))
    ring.submit("peer-0", "r", chain())
    assert ring.until_decided("r").status == "running"


def through_one_peer(cores: float = 1.0, bandwidth: float = 125e6) -> Ring:
    """Of two peers, one has the sources and sinks, the other the operators between them."""

    def config(number: int) -> PeerConfig:
        offers = ("filter", "project") if number else ("source:packets", "sink")
        settings = CompositionConfig(sharing="off")
        return PeerConfig(f"peer-{number}", offers, cores=cores, bandwidth=bandwidth, composition=settings)

    return Ring(2, seed=1, config=config)


def test_a_probe_counts_the_load_of_its_own_earlier_operators_at_the_same_peer() -> None:
    ring = through_one_peer()
    stream = source("packets", rate=10, id="packets")
    stream = stream.filter("bytes > 9", cost="60 ms", selectivity=1.0, id="one", at="peer-1")
    ring.submit("peer-0", "r", stream.project("link", cost="60 ms", id="two", at="peer-1").sink("all"))
    assert ring.until_decided("r").status == "rejected"
    first = ring.events("r", ProbeDropped)[0]
    assert (first.operator, first.condition) == ("two", "processing capacity")
    assert (first.required, first.available) == pytest.approx((0.6, 0.4)), "one core, of which it has taken 0.6"


def test_a_probe_reserves_the_bandwidth_of_its_link() -> None:
    stream = source("packets", rate=10, id="packets")
    plan = stream.filter("bytes > 9", selectivity=0.1, id="one", at="peer-1").sink("all")
    ring = through_one_peer(bandwidth=1.5 * plan.bandwidth("packets"))
    ring.submit("peer-0", "r", plan)
    for _ in range(1000):
        if any(each.operator == "one" for each in ring.events("r", ProbeAccepted)):
            break
        ring.run(0.001)
    assert not ring.reports.get("r"), "nothing is committed yet"
    left = ring.synergy["peer-1"].ledger.residual_bandwidth("another request", "peer-0")
    assert left == pytest.approx(0.5 * plan.bandwidth("packets"))
