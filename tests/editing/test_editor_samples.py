"""Sample rows at an operator: the logic of peers executes the first tuples of each source."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from synergy_nb import edit, source
from synergy_nb.editing.sampling import LARGEST_SAMPLE, SampleError, compute_sample
from synergy_nb.plan import Plan
from synergy_nb.plan.operators.catalogue import KINDS
from tests.conftest import ROOT
from tests.editors import Editor, ask

pytestmark = pytest.mark.usefixtures("closed_editors")

NOTEBOOKS = ROOT / "notebooks"


def never() -> float:
    """A clock that stands still."""
    return 0.0


def test_a_sample_is_the_start_of_the_stream() -> None:
    query = source("packets", seed=3, links=3).filter("link = 'B'").project("source", kB="bytes / 1000").sink("result")
    everything = compute_sample(query, "source", clock=never, rows=LARGEST_SAMPLE)
    assert len(everything.rows) == LARGEST_SAMPLE
    of_b = [[row[0], row[2], row[6] / 1000] for row in everything.rows if row[1] == "B"]
    found = compute_sample(query, "sink", clock=never, rows=30)
    assert found.columns == ["time", "source", "kB"]
    assert found.rows == of_b[:30]
    assert found.taken < 1000  # no more tuples than are needed
    assert found.note == ""


@pytest.mark.parametrize("kind", [kind for kind, each in KINDS.items() if each.example is not None])
def test_each_kind_of_operator_has_samples(kind: str) -> None:
    example = KINDS[kind].example
    assert example is not None
    query = example.make(source("packets", seed=1), source("packets", seed=2)).sink("result")
    found = compute_sample(query, "sink", clock=never, rows=5)
    assert found.columns == list(query.schema("sink"))
    assert found.rows or kind == "join"
    assert found.taken <= 2 * LARGEST_SAMPLE


def test_a_table_is_looked_up_in_a_sample() -> None:
    packets = source("packets", seed=1)
    query = packets.lookup({"link": ["B"], "site": ["Oslo"]}, on="link", how="left").project("link", "site").sink("out")
    found = compute_sample(query, "sink", clock=never, rows=50)
    assert {tuple(row[1:]) for row in found.rows} == {("A", None), ("B", "Oslo")}


def test_a_source_is_cut_off_and_open_windows_have_results() -> None:
    query = source("packets", seed=1, rate=10).count(window="10 d").sink("result")
    found = compute_sample(query, "sink", clock=never)
    assert [row[-1] for row in found.rows] == [LARGEST_SAMPLE]
    assert found.note == f"all of the first {LARGEST_SAMPLE:,} tuples of the source"
    few = compute_sample(source("packets", count=7).filter("bytes < 0").sink(), "filter", clock=never)
    assert (few.rows, few.note) == ([], "all of the first 7 tuples of the source")


def test_a_sample_ends_after_its_limit_of_time() -> None:
    clock = count()
    query = source("packets", seed=1).count(window="10 d").sink("result")
    found = compute_sample(query, "sink", clock=lambda: float(next(clock)), seconds=4.0)
    assert 0 < found.taken < LARGEST_SAMPLE
    assert [row[-1] for row in found.rows] == [found.taken]
    assert found.note == f"stopped after 4 s, at {found.taken:,} tuples"


def test_files_and_tables_have_samples(tmp_path: Path) -> None:
    file = tmp_path / "sales.csv"
    file.write_text("time,user,amount\n3,b,1.5\n1,a,2.5\n2,c,inf\n")
    columns = {"time": "time", "user": "str", "amount": "float"}
    of_file = source("trace", path=str(file), format="csv", columns=columns).filter("amount > 1").sink()
    rows = [["1970-01-01 00:00:01", "a", 2.5], ["1970-01-01 00:00:02", "c", "inf"], ["1970-01-01 00:00:03", "b", 1.5]]
    assert compute_sample(of_file, "filter", clock=never).rows == rows
    frame = pl.DataFrame({"time": [1.0, 2.0, 3.0], "amount": [2**60, 4, None]})
    for given in (frame, frame.lazy(), frame.to_arrow(), frame.to_dicts()):
        made = edit(source(given, columns={"amount": "int"}).filter("amount > 3").sink(), anew=True)
        assert made.sample("filter").rows == [["1970-01-01 00:00:01", str(2**60)], ["1970-01-01 00:00:02", 4]]
    generated = edit(source((row for row in frame.to_dicts()), columns={"amount": "int"}, id="g").sink(), anew=True)
    with pytest.raises(SampleError, match="'g', rows: a generator; expected a table; rows of a generator"):
        generated.sample("g")


def test_a_stream_without_a_sample_says_why(tmp_path: Path) -> None:
    peers = source("peers").sink()
    with pytest.raises(
        SampleError, match="'source': measurements of peers; expected a source with rows before it runs"
    ):
        compute_sample(peers, "sink", clock=never)
    with pytest.raises(SampleError, match="'gone'; expected an operator without problems"):
        compute_sample(peers, "gone", clock=never)
    fed = source("python", name="feed", columns={"amount": "int"}).sink()
    with pytest.raises(SampleError, match="rows: missing; expected a table as source"):
        compute_sample(fed, "sink", clock=never)
    lost = source("trace", path=str(tmp_path / "no.csv"), format="csv", columns={"time": "time"}).sink()
    with pytest.raises(SampleError, match=r"sample of 'sink': .*no\.csv"):
        compute_sample(lost, "sink", clock=never)


def test_a_view_gets_samples_of_the_valid_part_of_a_plan() -> None:
    editor = Editor(
        "format: 1\noperators:\n  packets: {kind: source, connector: packets}\n"
        "  a: {kind: filter, input: packets, where: bytes > 40}\n  b: {kind: filter, input: a, where: byte > 4}\n",
        waits=True,
    )
    found: dict[str, Any] = ask(editor, "sample", operator="a")
    assert (found["type"], found["operator"], len(found["rows"]), found["note"]) == ("sample", "a", 20, "")
    assert "expected an operator without problems (packets, a)" in ask(editor, "sample", operator="b")["error"]
    assert "expected an operator without problems" in ask(editor, "sample")["error"]
    editor.yaml = "a: ["
    assert len(ask(editor, "sample", operator="packets")["rows"]) == 20  # of the last text that could be read
    editor.close()


@pytest.mark.slow
@pytest.mark.parametrize("file", sorted(NOTEBOOKS.rglob("*.yaml")), ids=lambda file: file.stem)
def test_each_template_has_rows_at_each_operator(file: Path) -> None:
    query = Plan.from_yaml(file.read_text("utf-8"))
    assert all(compute_sample(query, name, clock=never, rows=1).rows for name in query.operators)
