"""Every measurement runs, in a tiny size, and gives what it says; how long it takes is no matter here."""

from __future__ import annotations

import json
from contextlib import nullcontext
from typing import Any

import pytest

from synergy_nb import Cluster
from synergy_nb.experiments import bench, spark
from synergy_nb.experiments.rivals import RIVALS, missing, reference
from synergy_nb.experiments.throughput import tuples

UNITS = {"of those admitted", "s", "tuples/s", "events/s", "hops", "MB", "cores"}
DETAIL = {
    "ready": {"joined", "import", "close", "candidates_found"},
    "compose": {"p50", "p99", "messages_a_request", "probes_a_request", "discovery_p50", "probing_p50"},
    "admission": {"admitted", "admitted_kept", "refused", "refused_would_have_kept", "measured_to_projected"},
    "hop": {"hops", "operator_on_the_same_peer"},
    "dataflow": {"tuples", "equal", "cpu_s_a_million"},
    "ingest": {"cases", "least_to_polars", "least_to_duckdb", "most_growth_mb", "way"},
    "feeds": {"rates", "rows", "cpu_s_a_million", "equal"},
    "dht": {"rings", "messages_a_lookup"},
    "kernel": {"overlay", "light", "events_a_virtual_second"},
    "flow": {"sizes"},
    "sim": {"sizes", "seconds"},
    "idle": {"cpu_cores", "memory_mb", "memory_mb_a_peer"},
    "growth": {"rings", "idle", "light", "setup_last_to_first"},
    "view": {"points", "bytes_an_update", "opening_a_page", "reading_the_journal"},
    "spark-ready": {"server_s", "session_s"},
    "spark-topk": {"tuples", "equal", "to_plain", "window_alone_on_spark"},
    "spark-delay": {"delays", "window_added_s"},
    "spark-sessions": {"ready_s", "equal"},
    "spark-kill": {"lost", "doubled", "equal"},
}


def check(result: dict[str, Any], name: str) -> None:
    assert set(result) >= {"name", "value", "unit", "detail"}
    assert result["name"] == name
    assert isinstance(result["value"], float)
    assert result["unit"] in UNITS
    assert json.loads(json.dumps(result, allow_nan=False)) == result


def test_names_are_the_documented_ones() -> None:
    assert set(bench.NAMES) == set(DETAIL)


@pytest.mark.parametrize("name", ["dht", "kernel", "sim", "view"])
def test_a_measurement_without_processes_gives_its_keys(name: str) -> None:
    result = bench.run(name, small=True)
    check(result, name)
    assert result["value"] > 0
    assert set(result["detail"]) >= DETAIL[name]
    assert result["peers"] == []


@pytest.mark.slow
@pytest.mark.timeout(600)  # the first starts a Spark server
@pytest.mark.parametrize("name", ["spark-topk", "spark-delay", "spark-sessions", "spark-kill"])
def test_a_measurement_of_spark_gives_its_keys(
    name: str, spark_peers: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark, "_cluster", lambda _peers: nullcontext(spark_peers))
    result = bench.run(name, small=True)
    check(result, name)
    assert set(result["detail"]) >= DETAIL[name] | {"load"}
    assert len(result["peers"]) == {"spark-topk": 2}.get(name, 0)
    if name == "spark-kill":
        assert result["detail"]["lost"] == result["detail"]["doubled"] == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["ready", "compose", "admission", "hop", "idle", "growth", "dataflow", "ingest", "feeds"]
)
def test_a_measurement_on_processes_gives_its_keys(name: str) -> None:
    result = bench.run(name, small=True)
    check(result, name)
    assert set(result["detail"]) >= DETAIL[name] | {"load"}
    for peer in result["peers"]:
        check(peer, peer["name"])
        assert peer["value"] > 0 or peer["detail"]["note"]
    assert len(result["peers"]) == {"ready": 1, "dataflow": len(RIVALS), "ingest": 2, "feeds": 1}.get(name, 0)


def test_every_lookup_is_answered_and_short() -> None:
    ring = bench.run("dht", small=True)["detail"]["rings"][0]
    assert ring["found"] == ring["lookups"]
    assert ring["hops_most"] <= 3  # ceil(log16 20) + 1
    assert sum(ring["hops"].values()) == ring["lookups"]


@pytest.mark.parametrize("rival", RIVALS, ids=lambda rival: rival.name)
def test_the_systems_compared_run_the_same_query(rival: Any) -> None:
    note = missing(rival.system)
    if note:
        assert rival.system in note or "extra" in note
        return
    table = tuples(30_000)
    seconds, rows = rival.run(table)
    assert seconds > 0
    assert rows == reference(table)
    assert len(rows) == 100  # 0.3 s of 100 keys


def test_an_unknown_measurement_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ValueError, match=r"measurement: 'kernal'; expected one of .*did you mean 'kernel'"):
        bench.run("kernal")
