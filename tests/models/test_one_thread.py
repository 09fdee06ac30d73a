"""One thread executes the operators of a peer: it promises what a thread can do, however many cores it offers."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import polars as pl
import pytest

from synergy_nb.assembly import PeerConfig, SynergyPeer
from synergy_nb.control.ledger import Ledger
from synergy_nb.plan import Plan, source
from synergy_nb.recording.construction import construct
from synergy_nb.reporting.cluster_errors import NotAdmitted
from synergy_nb.runtime.process._peer_factory import made_from
from synergy_nb.simulator.composed_world import ComposedWorld
from synergy_nb.simulator.simulation import Simulation

OFFERED = 4.0  # cores of each peer


def needing(cores: float, operators: int = 1, **options: Any) -> Plan:
    """A plan of operators that each need so many cores: 10 ms a tuple."""
    rows = pl.DataFrame({"time": np.arange(9000.0), "v": np.arange(9000)})
    stream = source(rows, rate=100.0 * cores, id="rows")
    for number in range(operators):
        stream = stream.filter("v >= 0", cost=0.01, id=f"f{number}")
    return stream.sink(id="out", **options)


def of_live_peers(monkeypatch: pytest.MonkeyPatch, peers: int) -> Simulation:
    """Peers as the factory of live ones makes them, whose threads have one core."""

    def make(self: ComposedWorld, address: str, seed: int, config: PeerConfig) -> SynergyPeer:
        settings = msgspec.structs.asdict(msgspec.structs.replace(config, seed=seed, cores=OFFERED))
        return construct(made_from(address, address, settings), self.noted.kernel(address))

    monkeypatch.setattr(ComposedWorld, "_make_peer", make)
    return Simulation(peers, network="local", cores=1.0, seed=1)


def test_the_factory_makes_a_peer_that_promises_one_thread_to_operators_and_its_cores_to_spark() -> None:
    for offered, operators, parts in [(0.25, 0.25, 0.25), (1.0, 1.0, 1.0), (4.0, 1.0, 4.0)]:
        peer = construct(made_from("tcp://a", "peer-1", {"cores": offered}))
        assert (peer.ledger.cores, peer.ledger.server) == (operators, 1.0)
        assert peer.ledger.residual_cores("r", external=True) == parts
        assert peer.hot_spots.monitor.server == 1.0


def test_operators_share_one_thread_and_parts_on_spark_have_the_rest_of_the_cores() -> None:
    ledger = Ledger(4.0, 1e6, server=1.0)
    refusal = "processing capacity: 1 core where 1.2 cores are needed, as one thread executes an operator"
    assert ledger.commit("r", "f", 1.2, {}) == refusal
    assert ledger.commit("r", "part", 3.5, {}, external=True) == ""
    assert (ledger.residual_cores("s"), ledger.residual_cores("s", external=True)) == (0.5, 0.5)
    assert ledger.commit("r", "f", 0.6, {}) == "processing capacity: 0.6 cores needed, 0.5 left"
    assert ledger.load == 0.875
    ledger.drop("r", "part")
    ledger.reserve("s", "g", 0.7, None, 0.0)
    assert (ledger.residual_cores("r"), ledger.residual_cores("r", external=True)) == pytest.approx((0.3, 3.3))
    assert ledger.reserve_additional("r", "h", 0.4, {}) == "processing capacity: 0.4 cores needed, 0.3 left"
    assert ledger.commit("r", "h", 0.3, {}) == ""
    assert ledger.load == pytest.approx(0.3)
    assert ledger.overbooked() is None


@pytest.mark.slow
@pytest.mark.parametrize("placement", ["composed", "resilient"])
def test_an_operator_that_needs_more_than_one_core_is_refused_in_these_words(
    monkeypatch: pytest.MonkeyPatch, placement: str
) -> None:
    """Seen: a peer of four cores admitted it, and 94 % of its tuples missed a limit of 500 ms."""
    simulation = of_live_peers(monkeypatch, 4)
    words = "1 core where 1.2 cores are needed, as one thread executes an operator"
    with pytest.raises(NotAdmitted, match=words) as refused:
        simulation.submit(needing(1.2, delay="500 ms"), placement=placement)
    assert words in str(refused.value.explain())
    assert words in simulation.check(needing(1.2), placement=placement).text


@pytest.mark.slow
def test_what_one_thread_cannot_do_goes_to_several_peers_and_is_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    simulation = of_live_peers(monkeypatch, 4)
    application = simulation.submit(needing(0.7, operators=3, delay="500 ms"))
    assert len({application.graph[f"f{number}"] for number in range(3)}) == 3
    simulation.run(10.0)
    assert application.qos()["miss_rate"] == 0.0
