"""What may be changed on a cluster while an application runs: links, load, pace and costs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from synergy_nb import Application, Cluster, source
from synergy_nb.events import LinkBroken, PeerMeasured
from synergy_nb.runtime.process._peer_knobs import OtherLoad
from tests.waiting import DEADLINE


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(peers=3, cores=1.0, overload=True, hotspots="off", spark=False) as started:
        yield started


@pytest.fixture(scope="module")
def application(cluster: Cluster) -> Application:
    """Packets from one peer to another, which are delayed by 0.1 ms each there; the test ends them."""
    packets = source("packets", seed=1, rate="100 tuples/s", duration="10 min", id="packets", at="peer-2")
    return cluster.submit(packets.delay(cost="100 us", id="work", at="peer-3").sink(delay="200 ms"), origin="peer-1")


def until(condition: Callable[[], object], application: Application) -> None:
    """Ask again and again, each time after results have come or half a second has passed."""
    for _ in range(int(2 * DEADLINE)):
        if condition():
            return
        application.results(seconds=0.5)
    raise AssertionError("nothing came of it")


@pytest.mark.slow
def test_knobs_change_what_runs(cluster: Cluster, application: Application) -> None:
    def slow_at(peer: str) -> bool:
        found = cluster.events().of(PeerMeasured)
        here = [part for event in found if event.peer == cluster.peers[peer] for part in event.components]
        return any(part.processing_s > 0.01 for part in here if part.operator == "work")

    until(lambda: application.qos().get("tuples", 0) > 20, application)
    cluster.cost(application, "work", "15 ms")  # 100 tuples/s need 1.5 cores
    until(lambda: application.qos()["delay_max_s"] > 0.4, application)
    assert application.qos()["miss_rate"] > 0.0
    cluster.move(application, "work", "peer-1")
    until(lambda: slow_at("peer-1"), application)
    cluster.move(application, "work", "peer-3")
    cluster.cost(application, "work", 0.0)

    def measured() -> list[PeerMeasured]:
        found = cluster.events().of(PeerMeasured)
        return [event for event in found if event.peer == cluster.peers["peer-3"]]

    cluster.load("peer-3", 0.8)
    until(lambda: any(event.cpu > 0.3 for event in measured()[-1:]), application)
    cluster.load("peer-3", 0)
    cluster.cut("peer-2", "peer-3")
    until(lambda: [e for e in cluster.events().of(LinkBroken) if e.reason == "cut on purpose"], application)
    cluster.mend("peer-2", "peer-3")
    cluster.pace(application, "packets", 10_000)  # the rest comes at once
    assert application.results().height == application.qos()["tuples"] > 50_000


def test_a_thread_makes_the_other_load_as_long_as_there_is_any() -> None:
    load = OtherLoad()
    before = threading.active_count()
    load.change(0.01)
    load.change(0.02)
    assert threading.active_count() == before + 1
    load.change(0.0)
    assert threading.active_count() == before
    load.change(0.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"overload": "yes"}, "overload: 'yes'; expected True or False"),
        ({"composition": 3}, "composition: 3; expected a CompositionConfig"),
    ],
)
def test_a_wrong_option_is_refused_before_anything_starts(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match="expected") as refused:
        Cluster(1, **options)
    assert message in str(refused.value)
