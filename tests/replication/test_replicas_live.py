"""An application with replicas on real peers, of which one is killed."""

from __future__ import annotations

import polars as pl
import pytest

from synergy_nb import Application, Cluster, ClusterError, Plan, source
from synergy_nb.plan import plan
from synergy_nb.plan.builder import Stream
from tests.waiting import DEADLINE


def query(availability: str | None = "degree 2", speed: float = 1.0) -> Plan:
    """A query of two minutes, in which a peer is killed, or of no time at all."""
    packets = source("packets", rate="200 tuples/s", duration="2 min", speed=speed, seed=3, id="packets", at="peer-1")
    large = packets.filter("bytes > 100", id="large", at="peer-3")
    totals = large.aggregate("source", "500 ms", n="count(*)", total="sum(bytes)", id="by", at="peer-3")
    return totals.filter("n > 1", id="several", at="peer-4").sink("out", availability=availability)


@pytest.mark.slow
def test_an_application_goes_on_as_if_its_primaries_had_not_been_killed() -> None:
    with Cluster(5, cores=1.0, spark=False) as cluster:
        undisturbed = cluster.submit(query(None, speed=0.0), origin="peer-1").results()
        application = cluster.submit(query(), origin="peer-1")
        where, backups = application.graph, application.backups
        assert (where["large"], where["by"], where["several"]) == ("peer-3", "peer-3", "peer-4")
        assert {len(peers) for peers in backups.values()} == {1}
        assert "backups" in repr(application)
        results = iter(application)
        tables = [next(results)]
        while sum(table.height for table in tables) < 100:
            tables.append(next(results))
        cluster.kill("peer-3")
        cluster.pace(application, "packets", 1000)  # the rest comes at once
        tables.extend(results)
        assert pl.concat(tables).equals(undisturbed), "nothing is lost, nothing comes twice"
        assert application.wait(DEADLINE) == "finished"
        assert application.graph == where | {"large": backups["large"][0], "by": backups["by"][0]}
        account = application.explain()
        assert account.takeovers
        assert "from peer-3 to" in str(account)


def counted(duration: str | None = None) -> Stream:
    """Counts whose stream others share; all of them, or those of so long a time as fast as can be."""
    bounded = {} if duration is None else {"duration": duration, "speed": 0.0}
    packets = source("packets", rate="1000 tuples/s", seed=3, id="packets", at="peer-1", **bounded)
    large = packets.filter("bytes > 100", id="large", at="peer-3")
    return large.aggregate("source", "500 ms", n="count(*)", total="sum(bytes)", id="by", at="peer-3")


@pytest.mark.slow
def test_sharers_follow_a_stream_whose_peer_is_killed() -> None:
    with Cluster(6, cores=1.0, spark=False) as cluster:
        undisturbed = cluster.submit(counted("60 s").sink("out"), origin="peer-6").results().rows()
        owner = cluster.submit(counted().sink("out", availability="degree 2"), origin="peer-1")
        own = collected(owner, [], 20)
        sharer = cluster.submit(counted().filter("n > 0", id="all", at="peer-4").sink("out"), origin="peer-2")
        assert sharer.explain().shared == {"by": (owner.id, "by")}
        shared = collected(sharer, [], 10)
        heir = owner.backups["by"][0]
        cluster.kill("peer-3")
        while not owner.explain().takeovers:
            own = collected(owner, own, len(own) + 1)
        while not sharer.explain().moves:
            shared = collected(sharer, shared, len(shared) + 1)
        own = collected(owner, own, len(own) + 60)
        shared = collected(sharer, shared, len(shared) + 60)
        assert own == undisturbed[: len(own)], "nothing is lost, nothing comes twice"
        joined = undisturbed.index(shared[0])
        assert joined > 0
        assert shared == undisturbed[joined : joined + len(shared)]
        assert sharer.explain().peers["by"] == owner.explain().peers["by"] == heir
        assert f"by of {owner.id}, which it shares, from peer-3 to {heir}" in str(sharer.explain())
        owner.stop()
        shared = collected(sharer, shared, len(shared) + 20)
        assert shared == undisturbed[joined : joined + len(shared)], "it goes on when its owner has ended"
        sharer.stop()


def collected(application: Application, rows: list[tuple[object, ...]], count: int) -> list[tuple[object, ...]]:
    """Rows of an application, until there are so many."""
    results = iter(application)
    while len(rows) < count:
        rows = rows + next(results).rows()
    return rows


@pytest.mark.slow
def test_replicas_and_another_placement_exclude_one_another() -> None:
    with Cluster(4, cores=1.0, spark=False) as cluster:
        with pytest.raises(
            ClusterError, match=r"placement: 'resilient'; expected 'composed' where availability places replicas"
        ):
            cluster.submit(query(), placement="resilient")
        with pytest.raises(ClusterError, match="placement: 'resilent'; expected composed or resilient"):
            cluster.submit(query(None), placement="resilent")


@pytest.mark.slow
def test_a_plan_is_placed_resiliently() -> None:
    one = source("packets", id="one", rate=10.0, duration="1 s", speed=0.0)
    two = source("packets", id="two", rate=10.0, duration="1 s", speed=0.0, seed=1)
    asked = plan(
        one.delay("14 ms", id="o1").delay("6 ms", id="o2").sink("a", id="a"),
        two.delay("9 ms", id="o3").delay("7 ms", id="o4").sink("b", id="b"),
    )
    with Cluster(3, cores=1.0, spark=False) as cluster:
        application = cluster.submit(asked, placement="resilient")
        where = application.graph
        assert len({where["o1"], where["o2"], where["o3"], where["o4"]}) == 3, "all peers carry something"
        assert application.results("a").height
        assert "feasible set" in application.explain().placed
