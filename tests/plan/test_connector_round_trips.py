"""Every connector and every destination is the same plan after YAML and Python, with each parameter that it has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

import synergy_nb
from synergy_nb import Plan
from synergy_nb.plan.operators.destinations import DESTINATIONS
from synergy_nb.plan.operators.sources import CONNECTORS

COLUMNS = {"time": "time", "n": "int", "word": "str"}
SCHEMA = """{"type": "record", "name": "Row", "fields": [
    {"name": "time", "type": "long"}, {"name": "n", "type": "long"}, {"name": "word", "type": "string"}]}"""
#: A value of each parameter, other than its default; by connector where that matters.
VALUES: dict[str, Any] = {
    "columns": COLUMNS, "time": "time", "time_unit": "ms", "quotes": False, "strict": True, "tolerance": "5 %",
    "lateness": "2 s", "rate": "500 tuples/s", "signature": [["2 s", "400/s"], ["8 s", "25/s"]], "order": "time",
    "ends": True, "by": "n", "every": "3 s", "rows_in": "data.items", "hello": '{"op": "${shop}"}', "query": "rows",
    "headers": {"Accept-Language": "en", "Authorization": "Bearer ${shop}"}, "address": "meter.local:7000",
    "speed": 2.0, "heartbeat": "1 s", "encoding": "windows-1252", "seed": 3, "sources": 8, "hosts": 50,
    "links": ["X", "Y"], "duration": "1 min", "count": 100, "alpha": 1.5, "zipf": 0.5, "flags": True, "start": 5.0,
    "table": "bid", "interval": "2 s", "name": "mine", "servers": ["one.local:9092", "two.local:9092"], "tls": True,
    "topic": "rows", "topics": ["rows"], "user": "ann", "password": "shop", "path": "rows.csv", "key": "n",
    "partition": "1 hour", "mechanism": "PLAIN", "server": "one.local:9000", "profile": "clean",
    "function": "meters:Meters", "arguments": {"city": "Pisa"}, "repeats": True, "timeout": "3 s", "memory": "100 MB",
    "readers": 2, "share": "2 of 3", "database": "shop", "retain": True, "session": "mine", "topic_as": "word",
}  # fmt: skip
OF: dict[str, dict[str, Any]] = {
    "trace": {"format": "csv"},
    "directory": {"path": "rows/*.csv", "format": "csv"},
    "tail": {"format": "csv"},
    "kafka": {"start": "earliest", "format": "avro", "schema": SCHEMA},
    "sql": {"path": "rows.sqlite"},
    "http": {"url": "https://shop.example/?token=${shop}", "format": "csv"},
    "sse": {"url": "https://shop.example/rows"},
    "websocket": {"url": "wss://shop.example/rows"},
    "socket": {"format": "csv"},
    "duckdb": {"key": ["n", "word"]},
    "sqlite": {"key": ["word"]},
}
#: Parameters that exclude others.
OF_SERVERS = ("server", "database", "tls", "user", "password")


def parameters(name: str, known: Any, without: Sequence[str] = ()) -> dict[str, Any]:
    """A value of each parameter."""
    values = {**VALUES, **OF.get(name, {})}
    assert not set(known) - set(values), "a parameter has no value here: state one"
    return {each: values[each] for each in known if each not in without}


def same_again(plan: Plan) -> None:
    assert Plan.from_yaml(plan.to_yaml()) == plan
    assert Plan.from_bytes(plan.to_bytes()) == plan
    names: dict[str, Any] = {}
    exec(plan.to_python(), names)
    (made,) = [each for each in names.values() if isinstance(each, Plan)]
    assert made == plan


@pytest.mark.parametrize(
    ("connector", "without"),
    [
        *((each, ("share",)) for each in CONNECTORS if each not in ("python", "sql")),
        *(("kafka", ("readers",)), ("sql", OF_SERVERS), ("sql", ("path",))),
    ],
)
def test_a_source_is_the_same_in_yaml_and_in_python(connector: str, without: Sequence[str]) -> None:
    params = parameters(connector, CONNECTORS[connector], without)
    plan = synergy_nb.source(connector, **params).sink("out")
    held = plan.operators["source"].params
    assert set(held) >= set(params), "a parameter that is stated is in the plan"
    same_again(plan)


@pytest.mark.parametrize("form", DESTINATIONS)
def test_a_destination_is_the_same_in_yaml_and_in_python(form: str) -> None:
    options = parameters(form, DESTINATIONS[form])
    rows = synergy_nb.source("trace", path="rows.csv", format="csv", columns=COLUMNS)
    plan = rows.sink("out", to=getattr(synergy_nb, form)(**options))
    assert plan.operators["sink"].params["to"].keys() == {"format", *DESTINATIONS[form]}
    same_again(plan)
