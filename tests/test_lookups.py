"""Streams with a table run on live peers and in simulations, also when the peer that looks up is killed or moves."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest

from synergy_nb import Cluster, ClusterError, Plan, Simulation, source

SITES = pl.DataFrame(
    {"source": [f"h{number:03}" for number in range(1, 200)], "site": ["Bonn", "Oslo", None] * 66 + ["Rome"]}
)


def query(table: Any, availability: str | None = None, duration: str = "6 s", **pace: Any) -> Plan:
    packets = source("packets", rate="500 tuples/s", duration=duration, seed=3, id="packets", at="peer-1", **pace)
    large = packets.filter("bytes > 100", id="large", at="peer-3")
    located = large.lookup(table, on="source", how="left", id="located", at="peer-3")
    sums = located.aggregate("site", "500 ms", n="count(*)", total="sum(bytes)", id="by", at="peer-4")
    return sums.sink("out", availability=availability, id="out")


def wanted(duration: str = "6 s") -> list[tuple[Any, ...]]:
    """The rows by DuckDB, over the same packets."""
    packets = source("packets", rate="500 tuples/s", duration=duration, seed=3, speed=0.0)
    plan = packets.filter("bytes > 100").sink("all")
    connection = duckdb.connect()
    connection.register("packets", Simulation(peers=1, cores=1, seed=1).submit(plan).results().to_arrow())
    connection.register("sites", SITES.to_arrow())
    return connection.execute(
        "SELECT site, count(*), sum(bytes)::BIGINT FROM packets LEFT JOIN sites USING (source) "
        "GROUP BY time_bucket(INTERVAL 500 MILLISECONDS, time), site ORDER BY ALL"
    ).fetchall()


def rows(results: pl.DataFrame) -> list[tuple[Any, ...]]:
    connection = duckdb.connect()
    connection.register("results", results.to_arrow())
    return connection.execute("SELECT site, n, total FROM results ORDER BY ALL").fetchall()


def test_a_simulation_looks_up_and_a_backup_takes_over(tmp_path: Path) -> None:
    SITES.write_csv(tmp_path / "sites.csv")
    simulation = Simulation(peers=5, cores=1, network="local", seed=1)
    application = simulation.submit(query(str(tmp_path / "sites.csv"), "degree 2"), origin="peer-1")
    assert application.graph["located"] == "peer-3"
    simulation.run("2 s")
    simulation.kill("peer-3")
    assert rows(application.results()) == wanted()
    assert application.explain().takeovers


def test_a_file_that_has_changed_since_the_plan_was_made_is_refused(tmp_path: Path) -> None:
    SITES.write_parquet(tmp_path / "sites.parquet")
    plan = query(str(tmp_path / "sites.parquet"))
    SITES.head(50).write_parquet(tmp_path / "sites.parquet")
    with pytest.raises(ClusterError, match=r"operator 'located': table: .*it has changed since the plan was made"):
        Simulation(peers=5, cores=1, network="local", seed=1).submit(plan)
    (tmp_path / "sites.parquet").unlink()
    with pytest.raises(ClusterError, match=r"operator 'located': table: .*expected a file that is there"):
        Simulation(peers=5, cores=1, network="local", seed=1).submit(plan)


def test_equal_look_ups_are_shared() -> None:
    simulation = Simulation(peers=4, cores=1, network="local", seed=1)
    packets = source("packets", rate="100 tuples/s", seed=3, id="packets")
    first = simulation.submit(packets.lookup(SITES, on="source", id="located").sink("first"))
    simulation.run("1 s")
    second = simulation.submit(packets.lookup(SITES.reverse(), on="source", id="sites").sink("second"))
    assert second.explain().shared == {"sites": (first.id, "located")}


def _readings() -> Iterator[dict[str, Any]]:
    """Readings of a table, one a second, and each tenth of a second a row that promises its time."""
    sites = [{"h001": "Bonn", "h002": "Oslo"}, {"h001": "Bonn"}, {"h001": "Kiel", "h003": "Rome"}]
    for second, reading in enumerate(sites):
        now = dt.datetime(1970, 1, 1) + dt.timedelta(seconds=second)  # noqa: DTZ001 - event times have no zone
        yield from ({"time": now, "source": key, "site": site} for key, site in reading.items())
        for tenth in range(1, 10):
            yield {"time": now + dt.timedelta(seconds=tenth / 10), "source": None, "site": None}


@pytest.mark.slow
@pytest.mark.parametrize("availability", ["degree 2", "active 2"])
def test_a_table_that_is_read_again_is_a_stream_of_readings(availability: str) -> None:
    """As the page of plans says: each tuple has the reading at its time, also after a death."""
    rows = list(_readings())
    packets = source("packets", rate="200 tuples/s", duration="3 s", seed=3, id="packets", at="peer-1")
    few = packets.filter("source <= 'h003'", id="few")
    readings = source(pl.DataFrame(rows, infer_schema_length=None), id="readings", at="peer-2")
    located = few.asof(readings, on="source", within="999999 us", how="left", id="located")
    simulation = Simulation(peers=5, cores=1, network="local", seed=1)
    application = simulation.submit(located.sink("out", availability=availability, id="out"), origin="peer-1")
    simulation.run("1500 ms")
    at = next(peer for peer in application.graph.values() if peer not in ("peer-1", "peer-2"))
    simulation.kill(at)
    found = application.results()
    known = {(row["time"].second, row["source"]): row["site"] for row in rows if row["source"] is not None}
    wanted = [known.get((time.second, key)) for time, key in found.select("time", "source").rows()]
    assert found["site"].to_list() == wanted
    assert {*wanted} == {"Bonn", "Oslo", "Kiel", "Rome", None}
    alone = Simulation(peers=1, cores=1, seed=1)
    plain = alone.submit(source("packets", rate="200 tuples/s", duration="3 s", seed=3).sink("all")).results()
    assert found.height == plain.filter(pl.col("source") <= "h003").height


@pytest.mark.slow
def test_live_peers_look_up_and_go_on_when_one_is_killed() -> None:
    with Cluster(5, cores=1.0, spark=False) as cluster:
        application = cluster.submit(query(SITES, "degree 2", "2 min"), origin="peer-1")
        assert application.graph["located"] == "peer-3"
        results = iter(application)
        tables = [next(results)]
        cluster.kill("peer-3")
        cluster.pace(application, "packets", 1000)  # the rest comes at once
        tables.extend(results)
        assert rows(pl.concat(tables)) == wanted("2 min")
        assert application.explain().takeovers
