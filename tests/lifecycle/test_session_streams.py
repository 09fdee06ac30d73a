"""Sessions and streams together, in virtual time: real operators on real tuples follow the agreements of peers."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable

import polars as pl
import pytest

from synergy_nb.control.driver_messages import StopApplication
from synergy_nb.plan import Plan
from tests.quick_cases import quick_first
from tests.session_streams import Both, packets, table
from tests.stream_schedules import sorted_rows


def chain() -> Plan:
    counts = packets(0).filter("bytes > 100", id="f").aggregate("link", "100 ms", n="count(*)", id="a")
    return counts.sink(id="sink")


def unions() -> Plan:
    both = packets(0).filter("bytes > 100", id="f").union(packets(1), id="u")
    return both.filter("bytes > 50", id="g").union(packets(2), id="v").sink(id="sink")


def joined() -> Plan:
    one = packets(0).filter("bytes > 100", id="f")
    return one.join(packets(1), on="source", within="20 ms", id="j").sink(id="sink")


QUERIES: dict[str, Callable[[], Plan]] = {"chain": chain, "unions": unions, "joined": joined}


def undisturbed(query: Callable[[], Plan], seed: int) -> list[tuple[object, ...]]:
    ring = Both(6, seed)
    ring.submit("peer-0", "r", query())
    ring.until_running("r")
    return ring.until_ended("r")


@pytest.mark.slow
@pytest.mark.parametrize("name", QUERIES)
def test_moves_of_every_component_lose_and_double_nothing(name: str) -> None:
    query, seed = QUERIES[name], 3
    ring = Both(6, seed)
    ring.submit("peer-0", "r", query())
    ring.until_running("r")
    outcomes = []
    rng = random.Random(seed)
    for operator in [operator for operator in query().operators if operator != "sink"]:
        free = [peer for peer in sorted(ring.synergy) if peer != ring.reports["r"][-1].peers[operator]]
        outcomes.append(ring.move("peer-0", "r", operator, rng.choice(free)))
        ring.run(0.5)
        assert not ring.streams.results["r", "sink"].ended
    rows = ring.until_ended("r")
    ring.run(3.0)
    assert outcomes == [[""]] * len(outcomes)
    assert rows == undisturbed(query, seed)
    ring.simulation.report("peer-0", StopApplication("r"))
    ring.run(12.0)
    assert not any(node.hosting.deployments or node.hosting.components for node in ring.streams.nodes.values())


def backed_up() -> Plan:
    """The same with a backup of each operator, all on different peers."""
    both = (
        packets(0, "peer-1").filter("bytes > 100", id="f", at="peer-2").union(packets(1, "peer-1"), id="u", at="peer-3")
    )
    both = both.filter("bytes > 50", id="g", at="peer-4").union(packets(2, "peer-1"), id="v", at="peer-5")
    return both.sink(id="sink", availability="degree 2")


def disturbed(seed: int) -> Both:
    """Its components move, and one of their peers dies, at any moment."""
    rng = random.Random(seed)
    ring = Both(8, seed)
    ring.submit("peer-0", "r", backed_up())
    ring.until_running("r")
    ring.run(rng.uniform(0.1, 0.6))
    for _ in range(rng.randint(0, 2)):
        with contextlib.suppress(ValueError):
            ring.move("peer-0", "r", rng.choice("fugv"), rng.choice(sorted(ring.synergy)))
        ring.run(rng.choice((0.03, 0.06, 0.1, 0.3, 1.0)))
    graph = ring.synergy["peer-0"].session.graph("r")
    assert graph is not None
    apart = {graph.roles.peers[name] for name in ("s0", "s1", "s2", "sink")}
    ring.crash(rng.choice(sorted({*graph.roles.peers.values(), *graph.roles.followers.values()} - apart)))
    return ring


@pytest.mark.slow
@pytest.mark.parametrize("seed", quick_first(range(8), 1))
def test_deaths_and_moves_of_components_with_backups_lose_and_double_nothing(seed: int) -> None:
    ring = disturbed(seed)
    rows = ring.until_ended("r")
    assert ring.status("r") == "running"
    tables = [table(100 * seed + number) for number in range(3)]
    both = pl.concat([tables[0].filter(pl.col("bytes") > 100), tables[1]]).filter(pl.col("bytes") > 50)
    assert rows == sorted_rows(pl.concat([both, tables[2]]))


def test_a_shared_stream_goes_on_for_its_sharers() -> None:
    ring = Both(7, 5, sources=1, rows=400)
    query = packets(0).filter("bytes > 100", id="f")
    ring.submit("peer-0", "a", query.project("destination_port", id="p").sink(id="sink"))
    first = ring.until_running("a")
    ring.run(0.3)
    ring.submit("peer-3", "b", query.filter("bytes > 200", id="g").sink(id="sink"))
    second = ring.until_running("b")
    assert set(second) == {"f", "g", "sink"}
    ring.run(0.1)
    elsewhere = [peer for peer in sorted(ring.synergy) if peer not in {*first.values(), *second.values()}]
    outcome = ring.move("peer-3", "b", "g", elsewhere[0])
    ring.run(0.5)
    assert outcome == [""]
    ring.simulation.report("peer-0", StopApplication("a"))
    rows = ring.until_ended("b")
    wanted = table(500, 400).filter(pl.col("bytes") > 200)
    assert 0 < len(rows) < wanted.height
    assert rows == sorted_rows(wanted.tail(len(rows))), "from when it joined on, all there is"


@pytest.mark.slow
def test_a_component_of_several_inputs_moves_to_where_a_stream_of_its_application_is_shared() -> None:
    """It asks whoever may depend on the order of its inputs; who shares the stream knows nothing of it, and says so."""
    ring = Both(8, 6, sources=2, rows=800)
    query = packets(0, "peer-1").filter("bytes > 100", id="f", at="peer-2")
    ring.submit("peer-0", "a", query.union(packets(1, "peer-1"), id="u", at="peer-3").sink(id="sink"))
    ring.until_running("a")
    ring.run(0.2)
    ring.submit("peer-5", "b", query.filter("bytes > 200", id="g", at="peer-6").sink(id="sink"))
    second = ring.until_running("b")
    assert set(second) == {"f", "g", "sink"}
    ring.run(0.1)
    outcome = ring.move("peer-0", "a", "u", "peer-2")
    rows = ring.until_ended("a")
    assert outcome == [""]
    one, other = table(600, 800), table(601, 800)
    assert rows == sorted_rows(pl.concat([one.filter(pl.col("bytes") > 100), other]))
