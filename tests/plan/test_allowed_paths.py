"""Files that plans of somebody else may read: those in folders that the owner of a peer has named, by plain paths."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pytest

from synergy_nb.plan import Plan, source
from synergy_nb.plan.checks.validation import PlanError
from synergy_nb.plan.derived.allowed_paths import allowed, paths_of, refused_paths
from synergy_nb.plan.derived.spark_parts import replace_parts
from synergy_nb.plan.operators.catalogue import KINDS
from synergy_nb.plan.operators.parameter_types import ADDRESS, ADDRESSES, FILES, PATH, URL, WEBSOCKET
from synergy_nb.plan.operators.sources import CONNECTORS
from synergy_nb.plan.operators.tables import TABLE
from tests.example_plans import problems_of


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder that an owner has named, with a file, and beside it a secret one to which links lead."""
    named = tmp_path / "named"
    named.mkdir()
    (named / "open.csv").write_text("city,fare\nBonn,2\n")
    (tmp_path / "secret.csv").write_text("city,fare\nBonn,2\n")
    (named / "link.csv").symlink_to(tmp_path / "secret.csv")
    (named / "up").symlink_to(tmp_path)
    (named / "circle").symlink_to(named / "circle")
    return named


@pytest.mark.parametrize("written", ["open.csv", "./open.csv", "missing.csv", "../named/open.csv", "up/named/open.csv"])
def test_what_is_in_a_named_folder_is_allowed(folder: Path, written: str) -> None:
    assert allowed(f"{folder}/{written}", ["/nowhere", folder])


@pytest.mark.parametrize(
    "written",
    [
        "{}/../secret.csv", "{}/link.csv", "{}/up/secret.csv", "{}/*.csv", "{}/[o]pen.csv", "{}/o?en.csv",
        "file://{}/open.csv", "FILE:{}/open.csv", "s3://bucket/open.csv", "http://127.0.0.1/open.csv", "{}/open.csv\0",
        "{}2/open.csv", "/proc/self/root{}/../secret.csv", "open.csv", "~/open.csv", "",
    ],
)  # fmt: skip
def test_what_leads_elsewhere_is_refused(folder: Path, written: str) -> None:
    assert not allowed(written.format(folder), [folder])


def test_a_relative_path_starts_where_the_peer_runs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert allowed("open.csv", [folder])
    assert allowed("open.csv", ["."])
    assert not allowed("link.csv", ["."])


def _plan(folder: Path) -> Plan:
    trace = source("trace", path=str(folder / "open.csv"), format="csv", columns={"city": "str"}, rate="5 tuples/s")
    return trace.lookup(str(folder.parent / "secret.csv"), on="city").filter("fare > 1", engine="spark").sink()


def test_the_error_names_operator_field_and_path(folder: Path) -> None:
    plan = _plan(folder)
    secret = str(folder.parent / "secret.csv")
    expected = f"expected a file in {folder}, by its plain path"
    assert refused_paths(plan, [folder]) == f"operator 'lookup': table: {secret!r}; {expected}"
    assert refused_paths(plan, [folder], "source") == refused_paths(plan, [folder.parent]) == ""
    assert "lets the plans of others read none" in refused_paths(plan, [], "source")


def test_a_query_is_refused_as_it_can_read_any_file(tmp_path: Path) -> None:
    import duckdb

    with duckdb.connect(str(tmp_path / "a.duckdb")) as shop:
        shop.sql("CREATE TABLE items AS SELECT 1 AS city")
    table = {"path": str(tmp_path / "a.duckdb"), "query": "SELECT * FROM items"}
    trace = source("trace", path=str(tmp_path / "a.csv"), format="csv", columns={"city": "int"})
    plan = trace.lookup(table, on="city").sink()
    assert "SQL can read any file" in refused_paths(plan, [tmp_path])


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/latest", "http://127.0.0.1:8786/", "http://[::ffff:169.254.169.254]/", "http://0xA9FEA9FE/",
        "http://meter.local@127.0.0.1/", "http://meter.local\\@127.0.0.1/", "http://127.0.0.1#@meter.local/",
        "http://127.0.0.1\\.meter.local/", "http://127.0.0.1/?@meter.local", "http://meter.local%00.evil/",
        "http://meter.local.evil/", "http://meter.local\uff0f.evil/", "http://meter.local\u3002evil/",
    ],
)  # fmt: skip
def test_no_url_leads_to_another_host_than_the_named_one(url: str) -> None:
    def refusal(url: str) -> str:
        try:
            asks = source("http", url=url, format="json", columns={"time": "time", "n": "int"}, every="1 s").sink()
        except PlanError as error:
            return str(error)
        return refused_paths(asks, (), hosts=("meter.local",))

    assert refusal("http://Meter.local:81/?@127.0.0.1") == ""
    assert re.search("expected one of the hosts meter.local$|expected a URL such as 'https://meter.local", refusal(url))


def test_files_within_parts_on_spark_count(folder: Path) -> None:
    plan = replace_parts(_plan(folder), {"source", "lookup", "filter"}, 0.4)
    assert set(plan.operators) == {"filter", "sink"}
    assert {each.path for each in paths_of(plan)} == {str(folder / "open.csv"), str(folder.parent / "secret.csv")}


def test_every_parameter_that_is_called_like_a_path_is_one() -> None:
    """A text that names a file or a host without being of one of their types would not be found."""
    parameters: dict[str, Any] = {}
    for kind in KINDS.values():
        parameters |= kind.parameters
    for connector, its in CONNECTORS.items():
        parameters |= {f"{connector} {name}": each for name, each in its.items()}
    words = ("path", "file", "folder", "url", "address", "host", "server")
    named = {name for name in parameters if any(word in name.rpartition(" ")[2] for word in words)}
    types = (PATH, FILES, ADDRESS, ADDRESSES, URL, WEBSOCKET)
    assert named - {"packets hosts"} == {name for name, each in parameters.items() if each.type in types}
    assert [name for name, each in parameters.items() if each.type is TABLE] == ["table"]


@pytest.mark.parametrize("table", [{"path": "/etc/hosts"}, "/etc/hosts", {"path": "/etc/passwd", "columns": {}}])
def test_no_peer_reads_a_table_to_decode_a_plan(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = source("packets").lookup(pl.DataFrame({"link": ["A"], "n": [1]}), on="link").sink()
    raw = msgspec.msgpack.decode(plan.to_bytes())
    next(each for each in raw[3] if each["kind"] == "lookup")["params"]["table"] = table
    read: list[object] = []
    monkeypatch.setattr("synergy_nb.plan.tables.lookup_tables.terms_of", read.append)
    found = problems_of(lambda: Plan.from_bytes(msgspec.msgpack.encode(raw)))
    assert [(each.field, each.expected) for each in found] == [("table", "all of them: a peer reads no table for them")]
    assert not read
