"""Plans as Python: what is written builds an equal plan, whatever the plan."""

# ruff: noqa: E501 - texts of plans are easier to compare on one line

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings

from synergy_nb.editing.document import PlanDocument
from synergy_nb.plan import Plan, PlanError, plan, source
from synergy_nb.plan.derived.spark_parts import replace_parts
from synergy_nb.plan.operators.catalogue import KINDS
from tests.conftest import ROOT
from tests.example_plans import built, figure_2_6, monitoring, plans

NOTEBOOKS = ROOT / "notebooks"


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(plans())
def test_python_of_a_plan_builds_an_equal_plan(query: Plan) -> None:
    assert built(query.to_python()) == query
    assert built(query.to_python()).to_python() == query.to_python()


@pytest.mark.parametrize("file", sorted(NOTEBOOKS.rglob("*.yaml")), ids=lambda file: file.stem)
def test_python_of_a_file_builds_its_plan(file: Path) -> None:
    query = Plan.from_yaml(file.read_text("utf-8"))
    assert built(query.to_python()) == query


@pytest.mark.parametrize("kind", [kind for kind, each in KINDS.items() if each.example is not None])
def test_python_of_each_kind_of_operator(kind: str) -> None:
    example = KINDS[kind].example
    assert example is not None
    query = example.make(source("packets", seed=1), source("packets", seed=2)).sink("result", id=f"a {kind}")
    assert built(query.to_python()) == query
    pinned = example.make(source("packets", at="peer-1"), source("packets", engine="peer"))
    other = plan(pinned.sink("x", selectivity=0.5, at="peer-2"), name="y", delay="2 s", availability="active 3")
    assert built(other.to_python()) == other


def test_python_is_what_a_person_would_write() -> None:
    assert monitoring().to_python() == (
        "from synergy_nb import source\n\n"
        'packets = source("packets", seed=1)\n'
        "filter_ = packets.filter(\"link = 'B'\")\n"
        'project = filter_.project("source", "destination", "bytes")\n'
        'aggregate = project.aggregate(by=["destination", "source"], window="20 min", total="sum(bytes)")\n'
        'sort = aggregate.sort("total desc")\n'
        "count = aggregate.count()\n"
        'compare = sort.compare("total", "95 %", count=count)\n'
        'query = compare.sink("top pairs", delay="20 s", miss_rate="5 %", id="destination")\n'
    )
    assert "order=" not in figure_2_6().to_python()


STATED = (
    "from synergy_nb import source\n\n"
    'packets = source("packets", seed=0, rate="1000 tuples/s", engine="auto")\n'
    'aggregate = packets.aggregate(by="source", window="1 s", total="sum(bytes)")\n'
    'query = aggregate.sink("top", delay="2 s")\n'
)


def test_a_default_is_written_if_the_author_stated_it() -> None:
    query = built(STATED)
    assert query.to_python() == STATED
    assert "rate: 1000 tuples/s" in query.to_yaml()
    again = Plan.from_yaml(query.to_yaml())
    assert (again.to_yaml(), again.to_python()) == (query.to_yaml(), STATED)
    assert 'rate="1000 tuples/s", engine="auto"' in plan(again, name="two").to_python()


def test_no_default_is_written_that_the_author_did_not_state() -> None:
    query = source("packets").aggregate(by="source", window="1 s", total="sum(bytes)").sink("top", delay="2 s")
    assert query == built(STATED), "what the author stated makes no other plan"
    for text in (query.to_python(), query.to_yaml()):
        assert "rate" not in text
        assert "engine" not in text
    stated = Plan.from_bytes(built(STATED).to_bytes()).to_python()
    assert 'rate="1000 tuples/s"' in stated, "what the author stated is kept in bytes"
    assert 'engine="auto"' in stated
    again = plan(Plan.from_bytes(query.to_bytes()), name="top")
    assert "rate" not in again.to_python() + again.to_yaml()


def test_python_of_a_text_states_what_the_text_states() -> None:
    text = (
        "format: 1\nname: x\noperators:\n  packets: {kind: source, connector: packets, rate: 1000 tuples/s}\n"
        "  result: {kind: sink, input: packets, name: x}\n"
    )
    assert 'rate="1000 tuples/s"' in PlanDocument(text).contents()["python"]


def test_the_order_of_a_file_is_stated_where_the_builder_has_another() -> None:
    text = (
        "format: 1\nname: two\nqos: {throughput: 1 kB/s, throughput_tuples: 5, degree: 2, availability: 99 %}\noperators:\n"
        "  a: {kind: source, connector: packets}\n  b: {kind: source, connector: packets, seed: 2}\n"
        "  fa: {kind: filter, input: a, where: bytes > 1}\n  fb: {kind: filter, input: b, where: bytes > 1}\n"
        "  both: {kind: union, inputs: [fa, fb]}\n  early: {kind: sink, input: a}\n  end: {kind: sink, input: both}\n"
    )
    query = Plan.from_yaml(text)
    assert list(query.operators) == ["a", "b", "fa", "fb", "both", "early", "end"]
    assert 'order=["a", "b", "fa", "fb", "both", "early", "end"]' in query.to_python()
    assert built(query.to_python()) == query == Plan.from_yaml(query.to_yaml())
    with pytest.raises(PlanError, match=r"order: \['a'\]; expected the ids of all operators"):
        plan(query, order=["a"])


def test_names_of_columns_and_operators_that_python_could_not_have() -> None:
    packets = source("packets", id="if")
    odd = packets.project("link", {"a b": "bytes", "id": "bytes + 1", "class": "link"}, id="1st größte-7.2")
    sums = odd.aggregate("link", "1 min", {"by": "count(*)", "x y": 'sum("a b")'}, id="source").filter(
        '"x y" > 5', id="plan"
    )
    query = sums.top(3, "by desc", per="link").sink('it\'s "quoted"', id="query")
    query = plan(query, name='it\'s "quoted"\n')
    assert built(query.to_python()) == query


@pytest.mark.slow
def test_python_of_an_own_operator() -> None:
    code = (
        "from synergy_nb.plan import Plan, source\n"
        "from synergy_nb.plan.operators.catalogue import declare\n"
        "from synergy_nb.plan.operators.declaration import Declaration, Parameter\n"
        "from synergy_nb.plan.operators.parameter_types import TEXT, integer\n"
        "declare(Declaration(kind='mark', help='Marks.', inputs=(1, 2), ports=('other',), parameters={'from': Parameter(TEXT, 'x'), 'n': Parameter(integer(0), 'y', 3)}))\n"
        "packets = source('packets')\n"
        "query = packets.operator('mark', packets.filter('bytes > 1'), id='m', cost='2 us', engine='peer', **{'from': 'a'}).sink()\n"
        "text = query.to_python()\n"
        "print(text)\n"
        "names = {}\n"
        "exec(text, names)\n"
        "assert names['query'] == query\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert 'm = packets.operator("mark", filter_, **{"from": "a"}, id="m", cost="2 us", engine="peer")' in done.stdout


def test_parts_on_spark_are_no_python() -> None:
    query = source("packets", count=10, speed=0).filter("bytes > 1", engine="spark").sink()
    with pytest.raises(PlanError, match="expected an operator that plans can state"):
        replace_parts(query, {"filter"}, 1.0).to_python()
