"""A cluster and a simulation have the same methods with the same meaning, or say that only the other has them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import pytest

from synergy_nb import Cluster, Simulation, source
from synergy_nb.plan import Plan
from synergy_nb.reporting.one_sided import (
    ONLY_LIVE,
    ONLY_SIMULATED,
    ONLY_SIMULATED_APPLICATION,
    NotHere,
)
from synergy_nb.widgets.qos_view import QoSView
from tests.conftest import ROOT

PEERS = 3


def _plan(name: str) -> Plan:
    packets = source("packets", seed=1, rate="200 tuples/s", count=400, id="packets")
    return packets.filter("bytes > 100", id="large").sink(name, delay="30 s", availability="degree 2", id="out")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(peers=PEERS, cores=1, spark=False) as started:
        yield started


@pytest.fixture(scope="module")
def simulation() -> Simulation:
    return Simulation(peers=PEERS, cores=1, network="local", seed=1)


@pytest.fixture(params=["cluster", pytest.param("simulation")])
def either(request: pytest.FixtureRequest) -> Any:
    """A cluster, and then a simulation."""
    return request.getfixturevalue(request.param)


def _public(value: object) -> set[str]:
    return {name for name in dir(value) if not name.startswith("_")}


def _check_sides(one: object, other: object, only_one: Mapping[str, str], only_other: Mapping[str, str]) -> None:
    assert _public(one) - _public(other) == set(only_one)
    assert _public(other) - _public(one) == set(only_other)
    for there, lacking in ((only_one, other), (only_other, one)):
        for name, reason in there.items():
            assert not hasattr(lacking, name)
            with pytest.raises(NotHere) as told:
                getattr(lacking, name)
            assert str(told.value) == f"{type(lacking).__name__} has no {name}: {reason}"
    with pytest.raises(AttributeError, match="object has no attribute 'submitt'"):
        _ = one.submitt  # type: ignore[attr-defined]


@pytest.mark.slow
def test_what_only_one_has_is_said_by_the_other(cluster: Cluster, simulation: Simulation) -> None:
    _check_sides(cluster, simulation, ONLY_LIVE, ONLY_SIMULATED)
    live, simulated = cluster.submit(_plan("sides")), simulation.submit(_plan("sides"))
    _check_sides(live, simulated, {}, ONLY_SIMULATED_APPLICATION)
    live.stop()
    simulated.stop()


@pytest.mark.slow
def test_states_name_all_peers_and_what_they_execute(either: Any) -> None:
    application = either.submit(_plan("states"))
    states = either.states()
    assert list(states) == list(either.peers) == [f"peer-{number}" for number in range(1, PEERS + 1)]
    assert set(either.names.values()) == set(either.peers)
    at = states[application.graph["large"]]
    assert at is not None
    assert application.id in at.applications
    assert "large" in {part["operator"] for part in at.components if part["application"] == application.id}
    assert (at.cores, at.discipline) == (1.0, "fcfs")
    assert application.origin in states
    application.stop()


@pytest.mark.slow
def test_rows_go_to_a_loop_or_to_a_table(either: Any) -> None:
    application = either.submit(_plan("loop"))
    assert application.cluster is either
    assert application.setup_s > 0.0
    (first,) = islice(application, 1)
    rest = application.results()
    whole = either.submit(_plan("whole")).results()
    assert first.vstack(rest).rows() == whole.rows()
    replication, looped = application.notices
    assert replication.startswith("Replicas cover large. The application ends when peer-")
    assert looped.startswith(f"{first.height} row")
    assert list(application.stream()) == [], "all rows have gone somewhere"


@pytest.mark.slow
def test_a_stopped_loop_ends(either: Any) -> None:
    endless = source("packets", seed=1, rate="200 tuples/s").sink("endless")
    application = either.submit(endless)
    tables = iter(application)
    assert next(tables).height > 0
    application.stop()
    for _ in tables:  # what had arrived
        pass
    assert application.status == "stopped"


@pytest.mark.slow
def test_both_are_watched_by_a_method(either: Any) -> None:
    application = either.submit(_plan("watched"))
    for view in (either.watch(), application.watch()):
        assert isinstance(view, QoSView)
        view.close()
    application.stop()
    assert not either.closed


def test_the_page_lists_what_only_one_has() -> None:
    page = (ROOT / "docs" / "simulation.md").read_text("utf-8")
    for name in (*ONLY_LIVE, *ONLY_SIMULATED, *ONLY_SIMULATED_APPLICATION):
        assert f"`{name}`" in page.partition("## Beside a cluster")[2].partition("\n## ")[0], name
