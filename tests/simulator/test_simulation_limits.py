"""Simulations of one peer, of none, and with odd names; what is asked of what does not run; maps of many peers."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from synergy_nb import Simulation, source, watch
from synergy_nb.recording._peer_places import map_of
from synergy_nb.reporting.cluster_errors import ClusterError

PACKETS: dict[str, Any] = {"seed": 1, "rate": "20/s", "id": "packets"}
ODD = ["päër <b>1</b>", "two words", 'it\'s "quoted"', "日本", "a/b\\c"]


@pytest.fixture(scope="module")
def empty() -> Simulation:
    """A simulation whose only peer was killed while an application ran."""
    simulation = Simulation(1)
    simulation.submit(source("packets", **PACKETS).sink())
    simulation.run(1)
    simulation.kill("peer-1")
    simulation.run(1)
    return simulation


def test_a_simulation_without_peers_says_so(empty: Simulation) -> None:
    assert "0 peers" in repr(empty)
    application = empty.applications["plan-1"]
    assert (application.status, application.reason) == ("failed", "its origin peer-1 has died")
    view = watch(empty)
    text = view.to_text()
    view.close()
    assert "does not answer" in text


def test_names_of_peers_and_sinks_are_any_text() -> None:
    simulation = Simulation(ODD, network="local", cores=1, seed=2)
    packets = source("packets", duration="3 s", **PACKETS)
    plan = packets.aggregate(by="source", window="1 s", total="sum(bytes)").sink("r <e> 's", availability="degree 2")
    application = simulation.submit(plan)
    simulation.run(1)
    simulation.kill(next(peer for peer in ODD if peer != application.origin))
    assert application.results().height > 0
    for view in (application.replay().view(), application.watch()):
        ET.fromstring(view.to_svg())
        view.close()


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda it: it.submit(source("packets", **PACKETS).sink()), "peers: none of this simulation lives any more"),
        (lambda it: it.check(source("packets", **PACKETS).sink()), "peers: none of this simulation lives any more"),
        (lambda it: it.join("x"), "near: no peer of this simulation answers"),
        (lambda it: it.pace("plan-1", "packets", 2), "application: 'plan-1' does not run; expected one that runs"),
        (lambda it: it.cost("plan-1", "sink", 2), "application: 'plan-1' does not run; expected one that runs"),
        (lambda it: it.replay(None), "application: None; expected one that runs, and none does"),
        (lambda it: it.join("driver"), "peer: 'driver'; expected the name of a peer: printable text, but not"),
        (lambda _: Simulation(["timer", "a"]), "peers: 'timer'; expected the name of a peer"),
        (lambda _: Simulation(["a\nb"]), "printable text"),
        (lambda _: Simulation(["\ud800"]), "printable text"),
        (lambda _: Simulation([" "]), "peers: ' '; expected the name of a peer"),
        (lambda _: Simulation(["a", "a"]), "expected a number of peers, at least 1, or their names"),
    ],
)
def test_what_cannot_be_is_refused_by_name(empty: Simulation, act: Callable[[Simulation], Any], message: str) -> None:
    with pytest.raises((ClusterError, ValueError)) as refused:
        act(empty)
    assert message in str(refused.value)


def test_a_map_of_many_peers_has_their_distances() -> None:
    points = np.random.default_rng(1).random((350, 2))
    apart = np.linalg.norm(points[:, None] - points[None], axis=2)
    names = [str(number) for number in range(len(points))]
    found = map_of(names, apart)
    places = np.array([found[name] for name in names])
    drawn = np.linalg.norm(places[:, None] - places[None], axis=2)
    assert np.allclose(drawn / drawn.max(), apart / apart.max(), atol=1e-6)
    assert found == map_of(names, apart)
