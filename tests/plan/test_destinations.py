"""Destinations of sinks in all forms of a plan, what is wrong with them, and who may write."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from synergy_nb import ClusterError, PlanError, Simulation, csv, jsonl, kafka, mqtt, parquet, plan, postgresql, source
from synergy_nb.plan import Plan
from synergy_nb.plan.checks.replica_degrees import Technique, degrees, technique
from synergy_nb.plan.derived.allowed_paths import refused_paths
from synergy_nb.plan.derived.repeatable_results import acts_outside, results_name, unrepeatable
from synergy_nb.plan.derived.stream_sharing import reduced
from synergy_nb.plan.operators.destinations import DESTINATIONS

PACKETS = source("packets")
OWN = source("python", name="rows", columns={"v": "int", "tags": "str[]"})


@pytest.mark.parametrize(
    ("to", "written", "code"),
    [
        (
            parquet("a b", partition="60 min", every="1 min"),
            {"format": "parquet", "path": "a b", "partition": "1 h", "every": "1 min"},
            'parquet("a b", partition="1 h", every="1 min")',
        ),
        (parquet(Path("a")), {"format": "parquet", "path": "a"}, 'parquet("a")'),
        (csv("a.csv", every="1 s"), {"format": "csv", "path": "a.csv"}, 'csv("a.csv")'),
        (jsonl("a.jsonl"), {"format": "jsonl", "path": "a.jsonl"}, 'jsonl("a.jsonl")'),
    ],
)
def test_all_forms_of_a_plan_know_a_destination(to: dict[str, Any], written: dict[str, Any], code: str) -> None:
    made = PACKETS.filter("bytes > 9").sink("out", to=to, delay="2 s")
    assert Plan.from_yaml(made.to_yaml()) == Plan.from_bytes(made.to_bytes()) == made
    assert made.to_yaml().endswith("    to:\n" + "".join(f"      {name}: {each}\n" for name, each in written.items()))
    python = made.to_python()
    assert f'.sink("out", to={code}, delay="2 s")' in python
    assert python.startswith(f"from synergy_nb import {to['format']}, source\n")
    names: dict[str, Any] = {}
    exec(python, names)
    assert names["query"] == made
    assert made != PACKETS.filter("bytes > 9").sink("out", delay="2 s")


def test_several_sinks_of_one_stream_have_destinations() -> None:
    large = PACKETS.filter("bytes > 9")
    both = plan(large.sink("a", to=csv("a.csv")), large.sink("b", to=parquet("b")))
    assert "from synergy_nb import csv, parquet, plan, source\n" in both.to_python()
    names: dict[str, Any] = {}
    exec(both.to_python(), names)
    assert names["query"] == both
    assert [both.operators[sink].params["to"]["path"] for sink in both.sinks] == ["a.csv", "b"]


@pytest.mark.parametrize(
    ("to", "problem"),
    [
        ("a.csv", r"to: 'a.csv'; expected a destination, such as csv\('a.csv'\)$"),
        (Path("a.db"), r"to: .*; expected a destination, such as sqlite\('a.db', 'table'\)$"),
        ("wss://board.local", r"expected a destination, such as websocket\('wss://board.local'\)$"),
        ("rows", r"to: 'rows'; expected a destination such as parquet\('folder'\), csv\('file.csv'\) or jsonl"),
        (
            {"format": "kafka", "topic": "t", "servers": "b.local:9092", "user": "ann"},
            "to.password: missing; expected the name of the secret with the password of user 'ann'",
        ),
        (
            {"format": "parket", "path": "a"},
            r"to.format: 'parket'; expected one of parquet, csv, jsonl, kafka, mqtt, duckdb, sqlite",
        ),
        ({"format": "csv"}, r"to.path: missing; expected a path, as in csv\('...'\)"),
        (
            {"format": "csv", "path": "a", "partition": "1 h"},
            "to: 'partition'; expected one of the options path, every",
        ),
        (
            {"format": "parquet", "path": "a", "partition": "7 min"},
            "to.partition: '7 min'; expected whole seconds that",
        ),
        ({"format": "parquet", "path": "a", "partition": "36 h"}, "to.partition: '36 h'; expected whole seconds that"),
        ({"format": "parquet", "path": "a", "every": 0}, "to.every: 0; expected a duration of at least"),
    ],
)
def test_a_wrong_destination_is_one_problem(to: Any, problem: str) -> None:
    with pytest.raises(PlanError, match=problem):
        PACKETS.sink(to=to)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: parquet("a", partition="7 min"), "partition: '7 min'; expected whole seconds"),
        (lambda: csv(""), "path: ''; expected a text of 1 to"),
        (
            lambda: kafka("t", "b.local:9092", pasword="shop"),  # type: ignore[call-arg]
            "^pasword: 'shop'; expected one of the options topic, .*, every of kafka; did you mean 'password'",
        ),
        (lambda: kafka("large flows", "b.local:9092"), "^topic: 'large flows'; expected a topic of 1 to 249 letters"),
        (lambda: mqtt("t", "b.local:1883", password="shop"), "^user: None; expected the name of the account to which"),
    ],
)
def test_an_invalid_option_is_said_by_the_function_too(make: Callable[[], object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        make()


def test_columns_that_a_format_cannot_hold_are_a_problem_of_the_plan() -> None:
    with pytest.raises(
        PlanError, match=r"to: 'tags'; expected columns of type .* in a CSV file, not str\[\]; parquet and"
    ):
        OWN.sink(to=csv("a.csv"))
    assert OWN.sink(to=jsonl("a")).sinks == OWN.sink(to=parquet("a")).sinks
    named = PACKETS.project(Period="bytes")
    with pytest.raises(PlanError, match=r"to: 'Period'; expected no column of this name with a partition"):
        named.sink(to=parquet("a", partition="1 h"))
    assert named.sink(to=parquet("a")).sinks


def test_only_a_sink_with_a_destination_has_backups_and_they_retain_what_is_written() -> None:
    for availability in ("degree 2", "synchronized 2", "ordered 2"):
        written = PACKETS.filter("bytes > 9").sink(to=parquet("a"), availability=availability)
        read = PACKETS.filter("bytes > 9").sink(availability=availability)
        found = [degrees(each.operators["sink"], each.qos).passive for each in (written, read)]
        assert found == [2, 1]
        assert technique(written.operators["sink"], written.qos) is Technique.PASSIVE
    several = PACKETS.filter("bytes > 9").sink(to=parquet("a"), availability="active 3")
    assert degrees(several.operators["sink"], several.qos) == (1, 1)


def test_plans_of_others_write_nothing() -> None:
    made = PACKETS.sink(to=parquet("/srv/open/a"))
    said = (
        "operator 'sink': to: '/srv/open/a'; expected no destination in a plan of somebody else, which writes no files"
    )
    assert refused_paths(made, ["/srv/open"]) == said
    assert refused_paths(made, ["/srv/open"], "source") == ""
    sent = PACKETS.sink(to=kafka("open", servers="localhost:9092"))
    assert "to: 'open'; expected no destination" in refused_paths(sent, [], hosts=["localhost"])
    kept = PACKETS.sink(to=postgresql("db.local:5432", "rows"))
    assert "to: 'rows'; expected no destination" in refused_paths(kept, [], hosts=["db.local"])
    assert all({"path", "topic", "url", "table"} & fields.keys() for fields in DESTINATIONS.values()), (
        "it is named by it"
    )


def test_a_simulation_writes_nothing(tmp_path: Path) -> None:
    made = source("packets", duration="1 s").sink(to=parquet(tmp_path / "a"))
    simulation = Simulation(peers=1, seed=1)
    with pytest.raises(ClusterError, match=r"operator 'sink': to: .*; expected no destination, as a simulation writes"):
        simulation.submit(made)
    assert simulation.check(made).admitted
    assert not (tmp_path / "a").exists()


def test_results_have_the_name_of_their_stream_only_if_a_later_run_has_the_same_ones() -> None:
    trace = source("trace", path="a.csv", format="csv", columns={"at": "float", "v": "int"}, time="at")
    again = [PACKETS.filter("bytes > 9"), PACKETS.count(window="1 s"), trace.filter("v > 2")]
    for stream in again:
        made = stream.sink(to=csv("a.csv"))
        assert unrepeatable(made, "sink") == ""
        assert results_name(made, "sink", "app-1") == results_name(made, "sink", "app-2") == made.stream_name("sink")
    once = {
        "union reads several streams, in an order that is decided while it runs": trace.union(
            trace.filter("v > 2"), id="union"
        ),
        "the source source (python) cannot be read again": source("python", name="a", columns={"v": "int"}),
        "the source source (peers) cannot be read again": source("peers"),
    }
    for why, stream in once.items():
        made = stream.sink(to=csv("a.csv"))
        assert unrepeatable(made, "sink") == why
        assert results_name(made, "sink", "app-1") == f"{made.stream_name('sink')} of app-1"
    left = reduced(PACKETS.filter("bytes > 9", id="f").sink(id="out"), {"f": {"peer-1": ("a", "x")}})
    outside = {
        "": (PACKETS.filter("bytes > 9", id="f").sink(), "f"),
        "source": (PACKETS.sink(), "source"),
        "the source source (peers) cannot be read again": (source("peers").sink(), "source"),
        "sink gives results to the outside": (PACKETS.sink(), "sink"),
        "f is a stream that began before this one": (left, "f"),
    }
    assert [acts_outside(*each) for each in outside.values()] == ["", "", *list(outside)[2:]]
    dropping = PACKETS.sink(to=csv("a.csv"), delay="1 s", overdue="drop")
    assert unrepeatable(dropping, "sink") == "tuples past their deadline are dropped"
