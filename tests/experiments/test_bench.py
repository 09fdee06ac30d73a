"""Every measurement runs in a tiny size and returns its documented keys; its duration does not matter here."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from synergy_experiments.bench import nexmark, spark, suite
from synergy_experiments.bench.engines import ENGINES, Engine, EngineProcess, missing_reason
from synergy_experiments.bench.measurements import Usage
from synergy_experiments.bench.rivals import RIVALS, missing, reference
from synergy_experiments.bench.throughput import leading, tuples, written
from synergy_nb import Cluster, Feed, source, traces
from tests.spark_stream.packet_sums import PACKETS, expected_running, running

UNITS = {
    "of all tuples",
    "of those admitted",
    "of the rate in plain text",
    "s",
    "tuples/s",
    "events/s",
    "hops",
    "calls",
    "MB",
    "cores",
    "of the decisions",
    "of the last value's error",
    "of the windows",
    "of the minutes",
    "of what peers held",
}
DETAIL = {
    "ready": {"joined", "import", "close", "candidates_found"},
    "compose": {"p50", "p99", "messages_a_request", "probes_a_request", "discovery_p50", "probing_p50"},
    "admission": {"admitted", "admitted_kept", "refused", "refused_would_have_kept", "measured_to_projected"},
    "hop": {"hops", "operator_on_the_same_peer"},
    "batch": {"calls", "functions_of_a_leg", "leg"},
    "dataflow": {"tuples", "equal", "cpu_s_a_million"},
    "tls": {"rate", "cpu_s_a_million", "hop_s", "hop_added_s", "target"},
    "ingest": {"cases", "least_to_polars", "least_to_duckdb", "most_growth_mb", "way"},
    "feeds": {"rates", "rows", "cpu_s_a_million", "equal"},
    "lookup": {"rows", "kinds", "target"},
    "kafka": {"parts_us", "client_us", "to_client", "beside_client", "brokers_us", "source_to_client", "tuples/s"},
    "nexmark": {"queries", "from_csv", "p50_s", "p99_s", "events"},
    "dht": {"rings", "messages_a_lookup"},
    "kernel": {"overlay", "light", "events_a_virtual_second"},
    "flow": {"sizes"},
    "sim": {"sizes", "seconds"},
    "idle": {"cpu_cores", "memory_mb", "memory_mb_a_peer"},
    "growth": {"rings", "idle", "light", "light_without_limit", "floor", "light_to_floor", "gathered_to_at_once"}
    | {"setup_last_to_first"},
    "move": {"cases", "delay_ratio", "lost", "doubled"},
    "hotspots": {"policies", "with_state", "lost", "trace"},
    "state": {"keys", "ratio"},
    "takeover": {"tries", "lost", "doubled", "later", "detected", "beyond"},
    "replicas": {"tries", "lost", "doubled", "later", "within_a_hop", "parts", "without_losses"},
    "durable": {"seconds", "with_to_without", "cpu_with_to_without", "tuples/s", "cpu_s", "written_mb"},
    "view": {"points", "bytes_an_update", "opening_a_page", "reading_the_journal"},
    "prediction": {"us", "target", "load"},
    "profiles": {"assumed", "rows", "profile", "wrong", "late", "traces", "peers"},
    "peaks": {"quantile", "cases", "beyond", "traces"},
    "placements": {"assumed", "profile", "wrong", "any", "better", "worse"},
    "seasons": {"errors", "foretold", "late", "days"},
    "day": {"applications", "growing", "objects", "memory_mb"},
    "scale": {"ready_s", "admitted", "refused", "with_rows", "memory_mb_a_peer"},
    "soak": {"submitted", "moved", "killed", "growing", "samples"},
    "spark-ready": {"server_s", "session_s"},
    "spark-topk": {"tuples", "equal", "to_plain", "window_alone_on_spark"},
    "spark-whole": {"tuples", "equal", "queries", "cold"},
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


def small(name: str) -> dict[str, Any]:
    """The result of a measurement in a tiny size, which has the keys that are documented."""
    result = suite.run(name, small=True)
    check(result, name)
    assert set(result["detail"]) >= DETAIL[name]
    return result


def test_the_documented_measurements_are_those_that_exist() -> None:
    assert set(suite.NAMES) == set(DETAIL)


@pytest.mark.parametrize("name", ["batch", "day", "dht", "kernel", "sim", "view"])
def test_a_measurement_without_processes_gives_its_keys(name: str) -> None:
    result = small(name)
    assert result["value"] > 0
    assert result["peers"] == []


@pytest.mark.slow
def test_a_profile_makes_admission_right_more_often_and_one_of_something_else_does_not() -> None:
    result = small("profiles")
    detail = result["detail"]
    assert result["value"] == detail["profile"]["wrong"] < min(detail[arm]["wrong"] for arm in ("assumed", "wrong"))
    peers = detail["peers"]["simulated"]
    assert peers["agree"] == peers["plans"] == 2
    assert peers["late_off"] < 0.05


@pytest.mark.slow
def test_memory_of_a_busy_window_is_exceeded_by_few_and_that_of_a_mean_one_by_many() -> None:
    result = small("peaks")
    assert result["value"] == result["detail"]["beyond"]["busy"] < 0.1 < result["detail"]["beyond"]["mean"]


@pytest.mark.slow
def test_a_placement_by_the_profile_overloads_peers_in_fewer_minutes() -> None:
    result = small("placements")
    detail = result["detail"]
    assert detail["any"] <= result["value"] == detail["profile"]["overloaded"] < detail["assumed"]["overloaded"]
    assert detail["profile"]["feasible"] > detail["assumed"]["feasible"]


@pytest.mark.slow
def test_a_season_of_earlier_days_foretells_rates_and_a_wrong_one_is_soon_not_believed() -> None:
    result = small("seasons")
    detail = result["detail"]
    errors = detail["errors"]["a day in 24 s"]["5 s ahead"]
    assert result["value"] == errors["right"]["weighed"] < 0.5
    assert errors["wrong"]["weighed"] < 1.2 < errors["wrong"]["believed"]
    assert detail["foretold"]["right"]["seconds_before"] > detail["foretold"]["none"]["seconds_before"]


def test_a_cold_run_is_what_its_process_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process does not learn that this one has had sessions of Spark Connect: a classic one would refuse it."""
    given: list[Any] = []
    code = 0

    def run(command: list[str], *, env: dict[str, str], **_: Any) -> subprocess.CompletedProcess[str]:
        given.append((command[-3:], env.get("SPARK_CONNECT_MODE_ENABLED")))
        return subprocess.CompletedProcess(
            command, code, '{"a": "log"}\n{"seconds": 2.5, "rows": 3}\n', "well\nno bash\n"
        )

    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    monkeypatch.setattr(subprocess, "run", run)
    assert spark.cold_run("classic", Path("a.csv"), "csv") == {"seconds": 2.5, "rows": 3}
    assert given == [(["classic", "a.csv", "csv"], None)]
    code = 1
    with pytest.raises(RuntimeError, match=r"classic: \['no bash'\]"):
        spark.cold_run("classic", Path("a.csv"), "csv")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["spark-topk", "spark-whole", "spark-delay", "spark-sessions"])
def test_a_measurement_of_spark_gives_its_keys(
    name: str, spark_peers: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark, "_cluster", lambda _peers: nullcontext(spark_peers))
    result = suite.run(name, small=True)
    check(result, name)
    assert set(result["detail"]) >= DETAIL[name] | {"load"}
    assert len(result["peers"]) == {"spark-topk": 2, "spark-whole": 3}.get(name, 0)


@pytest.mark.slow
def test_a_server_that_is_killed_costs_no_row_and_doubles_none(
    spark_peers: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither windows, which the measurement counts, nor the states of keys, which a class of the notebook keeps.

    The second application is beside that of the measurement, which kills the server, as a start of one takes long.
    """
    monkeypatch.setattr(spark, "_cluster", lambda _peers: nullcontext(spark_peers))
    before = Counter(event.kind for event in spark_peers.events())
    feed, packets = Feed({"link": "str", "source": "str", "bytes": "int"}), traces.table(PACKETS)
    beside = spark_peers.submit(running(source(feed)), timeout=240.0)
    assert len({beside.graph["aggregate"], beside.graph["apply_keyed"]}) == 1
    feed.push(packets.head(2000).select(*feed.source_columns))
    assert beside.head(1).height == 1

    result = suite.run("spark-kill", small=True)
    check(result, "spark-kill")
    assert set(result["detail"]) >= DETAIL["spark-kill"] | {"load"}
    assert result["peers"] == []
    assert result["detail"]["lost"] == result["detail"]["doubled"] == 0

    with feed:
        feed.push(packets.slice(2000).select(*feed.source_columns))
    found = beside.results().select("time", "source", "so_far")
    assert found.sort("time", "source").equals(expected_running())
    kinds = set(Counter(event.kind for event in spark_peers.events()) - before)
    assert {"spark_died", "spark_ready", "part_prepared"} <= kinds


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "ready",
        "compose",
        "admission",
        "hop",
        "idle",
        "growth",
        "scale",
        "dataflow",
        "tls",
        "ingest",
        "feeds",
        "move",
        "hotspots",
        "state",
        "takeover",
        "replicas",
        "kafka",
    ],
)
def test_a_measurement_on_processes_gives_its_keys(name: str) -> None:
    shares: list[float] = []
    result = suite.run(name, small=True, progress=shares.append)
    check(result, name)
    assert shares == sorted(shares)
    assert shares[-1:] == [1.0] * (name in suite.LONG)
    assert set(result["detail"]) >= DETAIL[name] | {"load"}
    assert result["detail"].get("lost", 0) == result["detail"].get("doubled", 0) == 0
    if name == "growth":
        assert result["detail"]["floor"]["rows"] > 0
    for peer in result["peers"]:
        check(peer, peer["name"])
        assert peer["value"] > 0 or peer["detail"]["note"]
        if name == "dataflow" and peer["value"] > 0:
            assert set(peer["detail"]) >= {"how", "way", "rate", "cpu_s_a_million", "equal", "ours_to_theirs"}
    assert len(result["peers"]) == {"ready": 1, "dataflow": len(ENGINES) + len(RIVALS), "ingest": 2, "feeds": 1}.get(
        name, 0
    )


@pytest.mark.slow
def test_queries_of_nexmark_are_timed_on_peers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nexmark, "missing_reason", lambda engine: f"not run: {engine.name} takes minutes")
    shares: list[float] = []
    result = suite.run("nexmark", small=True, progress=shares.append)
    check(result, "nexmark")
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert set(result["detail"]) >= DETAIL["nexmark"] | {"load"}
    assert set(result["detail"]["queries"]) == set(result["detail"]["from_csv"]) == set(nexmark.QUERIES)
    assert [peer["name"] for peer in result["peers"]] == ["Spark", "PyFlink, Table API", "pathway", "bytewax"]
    assert all(peer["detail"]["note"] for peer in result["peers"])


@pytest.mark.slow
def test_look_ups_are_timed_beside_a_join() -> None:
    result = suite.run("lookup", small=True)
    check(result, "lookup")
    assert set(result["detail"]) >= DETAIL["lookup"] | {"load"}
    assert set(result["detail"]["kinds"]) == {"integers", "text", "versions"}
    (join,) = result["peers"]
    check(join, "polars join")


@pytest.mark.slow
def test_predictions_are_timed_beside_fits() -> None:
    result = suite.run("prediction", small=True)
    check(result, "prediction")
    assert result["value"] > 0
    assert set(result["detail"]) >= DETAIL["prediction"]
    (rival,) = result["peers"]
    check(rival, "statsmodels OLS")
    assert rival["value"] > 0


def test_every_lookup_is_answered_and_short() -> None:
    ring = suite.run("dht", small=True)["detail"]["rings"][0]
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
    seconds, processor, rows = rival.run(table)
    assert seconds > 0
    assert processor >= 0
    assert rows == reference(table)
    assert len(rows) == 100  # 0.3 s of 100 keys


@pytest.mark.parametrize("engine", [each for each in ENGINES if not each.jvm], ids=lambda engine: engine.name)
def test_the_engines_compared_run_the_same_query_on_the_same_file(engine: Engine, tmp_path: Path) -> None:
    note = missing_reason(engine)
    if note:
        assert engine.system in note
        return
    table = tuples(120_000)
    file = written(table, tmp_path)[engine.form]
    expected = reference(leading(table) if engine.form == "csv" else table)
    with EngineProcess(engine) as process:
        for _ in range(2):
            seconds, processor, rows = process.run(file)
            assert seconds > 0
            assert processor >= 0
            assert rows == expected


def test_a_missing_engine_is_named_with_the_package_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    here = Engine("Nowhere", "nowhere-at-all", "csv", "")
    assert missing_reason(here) == "not installed: pip install nowhere-at-all"
    elsewhere = Engine("Nowhere", "nowhere-at-all", "csv", "", variable="SYNERGY_NOWHERE_PYTHON")
    monkeypatch.delenv("SYNERGY_NOWHERE_PYTHON", raising=False)
    assert "pip install nowhere-at-all in an environment of its own" in missing_reason(elsewhere)
    assert "set SYNERGY_NOWHERE_PYTHON to the Python there" in missing_reason(elsewhere)
    monkeypatch.setenv("SYNERGY_NOWHERE_PYTHON", "no/such/python")
    assert missing_reason(elsewhere).startswith(
        "not installed: SYNERGY_NOWHERE_PYTHON: 'no/such/python'; expected a Python that has nowhere-at-all"
    )


def test_an_engine_that_fails_says_why(tmp_path: Path) -> None:
    engine = next(engine for engine in ENGINES if engine.system == "duckdb")
    with (
        pytest.raises(RuntimeError, match=r"dataflow: DuckDB failed: .*nowhere\.parquet"),
        EngineProcess(engine) as process,
    ):
        process.run(tmp_path / "nowhere.parquet")
    unknown = Engine("Nowhere", "nowhere-at-all", "csv", "")
    with (
        pytest.raises(RuntimeError, match="dataflow: Nowhere failed: KeyError: 'nowhere-at-all'"),
        EngineProcess(unknown),
    ):
        pass


def test_processor_seconds_hold_those_of_processes_that_were_started_and_have_ended() -> None:
    burn = "import time\nwhile time.process_time() < 0.2: pass"
    start = f"import subprocess, sys; input(); subprocess.run([sys.executable, '-c', {burn!r}]); print(); input()"
    with subprocess.Popen([sys.executable, "-c", start], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        with Usage([process.pid]) as alone, Usage([process.pid], descendants=True) as family:
            process.stdin.write(b"\n")
            process.stdin.flush()
            process.stdout.readline()
        assert family.cpu >= 0.15
        assert family.cpu >= alone.cpu + 0.15
        process.communicate(b"\n")


def test_an_unknown_measurement_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ValueError, match=r"measurement: 'kernal'; expected one of .*did you mean 'kernel'"):
        suite.run("kernal")
