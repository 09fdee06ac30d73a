"""An application with replicas on real peers, of which one is killed."""

from __future__ import annotations

import os
import signal

import polars as pl
import pytest

from synergy_nb import Cluster, ClusterError, Plan, source
from synergy_nb.plan import plan


def query(availability: str | None = "degree 2") -> Plan:
    packets = source("packets", rate="1000 tuples/s", duration="6 s", seed=3, id="packets", at="peer-1")
    large = packets.filter("bytes > 100", id="large", at="peer-3")
    totals = large.aggregate("source", "500 ms", n="count(*)", total="sum(bytes)", id="by", at="peer-3")
    return totals.filter("n > 1", id="several", at="peer-4").sink("out", availability=availability)


@pytest.mark.slow
def test_an_application_goes_on_as_if_its_primaries_had_not_been_killed() -> None:
    with Cluster(5, spark=False) as cluster:
        undisturbed = cluster.submit(query(None), at="peer-1").results()
        application = cluster.submit(query(), at="peer-1")
        where, backups = application.graph, application.backups
        assert (where["large"], where["by"], where["several"]) == ("peer-3", "peer-3", "peer-4")
        assert {len(peers) for peers in backups.values()} == {1}
        assert "backups" in repr(application)
        results = iter(application)
        tables = [next(results)]
        while sum(table.height for table in tables) < 100:
            tables.append(next(results))
        state = cluster.states()["peer-3"]
        assert state is not None
        os.kill(state.pid, signal.SIGKILL)
        tables.extend(results)
        assert pl.concat(tables).equals(undisturbed), "nothing is lost, nothing comes twice"
        assert application.status == "finished"
        assert application.graph == where | {"large": backups["large"][0], "by": backups["by"][0]}
        account = application.explain()
        assert account.takeovers
        assert "from peer-3 to" in str(account)


def test_replicas_and_another_placement_exclude_one_another() -> None:
    with Cluster(4, spark=False) as cluster:
        with pytest.raises(ClusterError, match=r"placement: 'resilient'; expected 'composed' where qos\.availability"):
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
    with Cluster(3, spark=False) as cluster:
        application = cluster.submit(asked, placement="resilient")
        where = application.graph
        assert len({where["o1"], where["o2"], where["o3"], where["o4"]}) == 3, "all peers carry something"
        assert application.results("a").height
        assert "feasible set" in application.explain().placed
