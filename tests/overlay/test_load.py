"""Loads in the directory, and probes that go to peers with free capacity."""

from __future__ import annotations

from synergy_nb.algorithms.composition import CompositionConfig
from synergy_nb.assembly import PeerConfig
from synergy_nb.control.driver_messages import StopApplication
from synergy_nb.events import GraphEvaluated, GraphSelected, ProbeAccepted
from synergy_nb.overlay.directory_entries import Entry, PeerLoad
from synergy_nb.overlay.load_levels import free_cores, reported_loads
from synergy_nb.plan import source
from tests.composition.plans import chain
from tests.simulated import Ring

LEVEL = 0.06  # greatest difference of a published promised load: the width of a level, and its overlap


def ring_of(loaded: dict[str, float], **config: object) -> Ring:
    """Six peers of two cores of which some have less."""

    def settings(number: int) -> PeerConfig:
        cores = loaded.get(f"peer-{number}", 2.0)
        composition = CompositionConfig(**config)  # type: ignore[arg-type]
        return PeerConfig(name=f"peer-{number}", cores=cores, seed=number, composition=composition)

    return Ring(6, seed=4, config=settings)


def free(ring: Ring, name: str = "filter") -> dict[str, float]:
    """What the directory says."""
    found: dict[str, float] = {}
    directory = ring.synergy["peer-0"].directory

    def done(entries: object) -> None:
        assert isinstance(entries, dict)
        found.update(free_cores(entries[name]))

    ring.simulation.call("peer-0", directory.lookup, [name], done)
    ring.run(1.0)
    return found


def test_the_share_of_a_peer_that_a_new_component_gets() -> None:
    """It is what is not promised; the n-th part of it where the load is n; the newest load counts."""
    entries = [
        Entry("a", "p", "component", {"cores": 4.0}, 30.0, PeerLoad(0.25, version=1)),
        Entry("b", "p", "component", {"cores": 4.0}, 30.0, PeerLoad(0.5, 0.9, version=2)),
        Entry("a", "q", "component", {"cores": 2.0}, 30.0, PeerLoad(0.5, 0.9, 5.0, version=7)),
        Entry("a", "r", "component", {"cores": 2.0}, 30.0, PeerLoad(1.5)),
        Entry("a", "s", "component", {"cores": 2.0}, 30.0),
        Entry("a", "t", "component", {}, 30.0, PeerLoad(0.5)),
    ]
    assert free_cores(entries) == {"p": 2.0, "q": 0.2, "r": 0.0}
    assert reported_loads(reversed(entries))["p"].version == 2


def test_the_directory_follows_what_peers_have_promised() -> None:
    ring = ring_of({"peer-3": 0.5})
    before = free(ring)
    assert before == {f"peer-{n}": 0.5 if n == 3 else 2.0 for n in range(6)}
    ring.submit("peer-1", "r", chain(rate=3000.0))
    report = ring.until_decided("r")
    assert report.status == "running"
    ring.run(3.0)
    known = free(ring)
    for address, each in ring.synergy.items():
        assert abs(known[address] / each.ledger.cores - (1.0 - each.ledger.load)) <= LEVEL
    assert known != before
    ring.simulation.report("peer-1", StopApplication("r"))
    ring.run(5.0)
    assert all(abs(cores - before[address]) <= LEVEL * 2.0 for address, cores in free(ring).items())


def test_a_component_that_is_deployed_later_has_the_load_of_its_peer() -> None:
    ring = ring_of({})
    synergy = ring.synergy["peer-2"]
    ring.simulation.call("peer-2", synergy.loads.offer, "delay:new", {"peer": "peer-2"})
    ring.run(1.0)
    assert free(ring, "delay:new") == {"peer-2": 2.0}
    ring.simulation.call("peer-2", synergy.loads.withdraw)
    ring.run(1.0)
    assert free(ring, "delay:new") == {}


def test_peers_that_are_overloaded_are_probed_last() -> None:
    """Nothing is promised anywhere, but some peers have measured that they are overloaded."""
    ring = ring_of({}, choice="balanced", ratio=0.1, at_least=2)
    for busy in ("peer-0", "peer-2", "peer-4", "peer-5"):
        ring.simulation.call(busy, ring.synergy[busy].loads.report, 30.0, None)
    ring.run(1.0)
    ring.submit("peer-1", "r", chain(rate=1000.0))
    assert ring.until_decided("r").status == "running"
    assert {e.via[-1] for e in ring.events("r", ProbeAccepted) if e.via} == {"peer-1", "peer-3"}


def test_probes_go_to_peers_that_have_capacity_left() -> None:
    loaded = {"peer-0": 0.4, "peer-2": 0.4, "peer-4": 0.4, "peer-5": 0.4}
    probed = {}
    for choice in ("balanced", "random"):
        ring = ring_of(loaded, choice=choice, ratio=0.1, at_least=2)
        ring.submit("peer-1", "r", chain(rate=1000.0))
        assert ring.until_decided("r").status == "running"
        probed[choice] = {e.via[-1] for e in ring.events("r", ProbeAccepted) if e.via}
    assert probed["balanced"] == {"peer-1", "peer-3"}
    assert probed["random"] & loaded.keys()


def test_the_fastest_graph_is_set_up_if_that_is_asked_for() -> None:
    chosen = {}
    for objective in ("balance", "delay"):
        ring = ring_of({"peer-1": 0.7}, objective=objective, ratio=1.0, budget=256, sharing="off")
        ring.submit("peer-1", "r", chain(rate=1000.0))
        assert ring.until_decided("r").status == "running"
        graphs = [e for e in ring.events("r", GraphEvaluated) if not e.unqualified]
        assert len(graphs) > 1
        (selected,) = ring.events("r", GraphSelected)
        chosen[objective] = selected
        key = "phi" if objective == "balance" else "delay_s"
        assert getattr(selected, key) == min(getattr(each, key) for each in graphs)
    assert chosen["delay"].delay_s < chosen["balance"].delay_s


def test_loads_reported_with_data_save_probes_and_expire_soon() -> None:
    """Peer 1 knows that two candidates are full, which the directory does not yet."""
    probed = {}
    for later in (0.0, 2.0):
        ring = ring_of({}, ratio=1.0, budget=256, sharing="off")
        probing = ring.synergy["peer-1"].probing
        for full in ("peer-2", "peer-3"):
            ring.simulation.call("peer-1", probing.cores_reported, full, 0.0)
        ring.run(later)
        plan = source("packets", rate=1000.0, at="peer-1").filter("bytes > 0", cost="100 us", id="o0").sink()
        ring.submit("peer-1", "r", plan)
        assert ring.until_decided("r").status == "running"
        told = ring.events("r", ProbeAccepted)
        probed[later] = {event.peer for event in told if event.operator == "o0"}
    assert probed == {
        0.0: {"peer-0", "peer-1", "peer-4", "peer-5"},
        2.0: {f"peer-{number}" for number in range(6)},
    }


def test_candidates_that_are_all_reported_full_are_probed_nevertheless() -> None:
    ring = ring_of({}, ratio=1.0, budget=256, sharing="off")
    for peer in range(6):
        ring.simulation.call("peer-1", ring.synergy["peer-1"].probing.cores_reported, f"peer-{peer}", 0.0)
    plan = source("packets", rate=1000.0, at="peer-1").filter("bytes > 0", cost="100 us", at="peer-2").sink()
    ring.submit("peer-1", "r", plan)
    assert ring.until_decided("r").status == "running"
