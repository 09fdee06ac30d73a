"""Query plans: construction, names and errors."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synergy_nb.control.peer import key_of
from synergy_nb.plan import Plan, QoS, Stream, plan, source
from synergy_nb.plan.operators.catalogue import KINDS
from tests.example_plans import figure_2_6, monitoring, plans

# -- the papers' plans -----------------------------------------------------------------------------------------------


def test_the_monitoring_plan_has_its_operators_and_streams() -> None:
    query = monitoring()
    assert [(each.id, each.kind) for each in query.operators.values()] == [
        ("source", "source"), ("filter", "filter"), ("project", "project"), ("aggregate", "aggregate"),
        ("sort", "sort"), ("count", "count"), ("compare", "compare"), ("destination", "sink"),
    ]  # fmt: skip
    assert query.upstream("compare") == ("sort", "count")
    assert query.downstream("aggregate") == ("sort", "count")
    assert query.sources == ("source",)
    assert query.sinks == ("destination",)
    assert query.qos == QoS(delay=20.0, miss_rate=0.05)
    assert query.operators["aggregate"].params == {
        "by": ["destination", "source"],
        "window": {"kind": "tumbling", "length": 1200.0},
        "values": {"total": "sum(bytes)"},
    }
    assert query.schema("destination") == {
        "time": "time", "window_start": "time", "window_end": "time", "destination": "str", "source": "str",
        "total": "int",
    }  # fmt: skip
    assert query.routes == (
        ("source", "filter", "project", "aggregate", "sort", "compare", "destination"),
        ("source", "filter", "project", "aggregate", "count", "compare", "destination"),
    )
    assert query.validate() == []


def test_stream_names_say_how_a_stream_is_made() -> None:
    query = monitoring()
    assert query.stream_name("source") == "packets[seed=1]"
    assert query.stream_name("filter") == "filter[link = 'B'](packets[seed=1])"
    sums = (
        "aggregate[by=[destination, source], values={total: sum(bytes)}, window=20 min]"
        "(filter[link = 'B'](packets[seed=1]))"  # it reads no column that the projection before it drops
    )
    assert query.stream_name("count") == f"count({sums})"
    assert query.stream_name("destination") == query.stream_name("compare")
    for operator in query.operators:
        assert query.stream_key(operator) == key_of(query.stream_name(operator))


def test_the_plan_of_figure_2_6_has_its_two_routes() -> None:
    query = figure_2_6()
    assert query.downstream("o1") == ("o2", "o3")
    assert (query.downstream("o2"), query.downstream("o3")) == (("o4",), ("o5",))
    assert query.upstream("o6") == ("o4", "o5")
    assert query.routes == (
        ("s1", "o1", "o2", "o4", "o6", "destination"),
        ("s1", "o1", "o3", "o5", "o6", "destination"),
    )
    s2 = query.stream_name("o1")
    assert s2 == "filter[bytes > 40](packets)"  # s2 = o1(s1), and s3 carries the same tuples
    s4 = query.stream_name("o2")
    assert s4 == "filter[bytes > 40 AND link = 'A'](packets)"  # s4 = o2(o1(s1)): two filters are one
    assert query.stream_name("o4") == f"sample[fraction=50 %]({s4})"


# -- rates, loads, bandwidths ----------------------------------------------------------------------------------------


def test_rates_and_loads_follow_from_sources_and_selectivities() -> None:
    packets = source("packets", rate="2000 tuples/s")
    some = packets.filter("bytes > 100", cost="3 us", selectivity=0.25)
    sums = some.aggregate("link", "10 s", total="sum(bytes)", selectivity=0.01)
    query = sums.compare("total", "95 %", count=sums.count()).sink()
    assert (query.input_rate("source"), query.rate("source")) == (2000, 2000)
    assert (query.input_rate("filter"), query.rate("filter"), query.selectivity("filter")) == (2000, 500, 0.25)
    assert query.processing_time("filter") == 3e-6
    assert query.load("filter") == pytest.approx(2000 * 3e-6)
    assert query.rate("aggregate") == 5
    assert query.rate("count") == pytest.approx(0.1)  # a tuple a window
    assert query.rate("compare") == pytest.approx(5 * 0.05)
    assert query.tuple_bytes("count") == 4 * 8
    assert query.bandwidth("filter") == 500 * query.tuple_bytes("filter") == 500 * (3 * 8 + 3 * 16 + 8)


def test_operators_without_a_stated_profile_have_the_default_one() -> None:
    packets = source("packets")
    query = packets.encrypt("bytes", key="k").delay("2 ms").sink()
    assert query.rate("source") == 1000
    assert query.processing_time("encrypt") == 5e-6
    assert query.processing_time("delay") == 2e-3
    assert query.load("delay") == pytest.approx(2)
    assert packets.sample("5 %").sink().rate("sample") == pytest.approx(50)
    assert source("peers", interval="2 s").sink().rate("source") == 5
    halved = packets.aggregate("source", "20 s every 10 s", n="count(*)").sink()
    assert halved.rate("aggregate") == pytest.approx(1000 * 0.1 * 2)
    whole = packets.aggregate((), "20 s every 10 s", n="count(*)").percentile("n", "50 %").sink()
    assert whole.rate("aggregate") == whole.rate("percentile") == pytest.approx(1 / 10)  # a tuple for each window
    assert packets.aggregate((), "100 rows", n="count(*)").count().sink().rate("count") == 10


# -- names -----------------------------------------------------------------------------------------------------------


def last_name(stream: Stream) -> str:
    query = stream.sink()
    return query.stream_name("sink")


PACKETS = source("packets", id="p")
EQUAL = {
    "spelling of windows": (
        PACKETS.aggregate("link", "20 min", n="count(*)"),
        PACKETS.aggregate("link", {"kind": "tumbling", "length": "1200 s"}, n="COUNT( * )"),
        PACKETS.aggregate("link", 1200, n="count(*)"),
        PACKETS.aggregate("link", "1200 s every 20 min", n="count(*)"),
    ),
    "spelling of sessions": (
        PACKETS.aggregate("link", "2 min gap", n="count(*)"),
        PACKETS.aggregate("link", {"kind": "session", "gap": "120 s"}, n="count(*)"),
        PACKETS.aggregate("link", " session 120 s  gap", n="count(*)"),
    ),
    "order of columns to group by": (
        PACKETS.aggregate(["link", "source"], "1 s", n="count(*)"),
        PACKETS.aggregate(["source", "link"], "1 s", n="count(*)"),
    ),
    "blanks, case and order in conditions": (
        PACKETS.filter("link = 'B' AND bytes > 100"),
        PACKETS.filter("100 < bytes  and 'B'=link"),
        PACKETS.filter("(bytes>100) And (link = 'B') AND bytes > 100"),
    ),
    "order of inputs of a union": (
        PACKETS.filter("bytes > 1").union(PACKETS.filter("bytes > 2")),
        PACKETS.filter("bytes > 2").union(PACKETS.filter("bytes > 1")),
    ),
    "ids, profiles, expected rates": (
        PACKETS.filter("bytes > 1"),
        source("packets").filter("bytes > 1", id="other", cost="1 ms", selectivity=0.9, at="peer-2"),
    ),
    "stated defaults": (PACKETS, source("packets", seed=0, speed=1, links=["A", "B"]), source("packets", links=2)),
    "fractions": (PACKETS.sample("5 %"), PACKETS.sample(0.05)),
    "order of sort keys' spelling": (
        PACKETS.sort("bytes DESC", "link asc", window="1 s"),
        PACKETS.sort("bytes desc", "link", window="1000 ms"),
    ),
    "sums of integers": (PACKETS.project(x="bytes + 1 + source_port"), PACKETS.project(x="source_port + (bytes + 1)")),
}
DIFFERENT = (
    PACKETS,
    source("packets", seed=1),
    source("packets", rate="10 tuples/s"),
    source("peers"),
    source("trace", path="a", format="tcp"),
    source("trace", path="b", format="tcp"),
    source("trace", path="a", format="tcp", at="peer-1"),
    source("trace", path="a", format="tcp", speed=2),
    PACKETS.filter("bytes > 1"),
    PACKETS.filter("bytes > 2"),
    PACKETS.filter("bytes >= 1"),
    PACKETS.filter("bytes > 1 OR link = 'B'"),
    PACKETS.filter("bytes > 1 AND link = 'B'"),
    PACKETS.filter("bytes > 1 AND link = 'b'"),
    PACKETS.filter("bytes > 1").filter("source_port > 1"),
    PACKETS.project(a="bytes"),
    PACKETS.project(b="bytes"),
    PACKETS.project(a="bytes", b="bytes"),
    PACKETS.project(b="bytes", a="bytes"),
    PACKETS.project(a="bytes - source_port"),
    PACKETS.project(a="source_port - bytes"),
    PACKETS.aggregate("link", "1 s", n="count(*)"),
    PACKETS.aggregate("link", "2 s", n="count(*)"),
    PACKETS.aggregate("link", "2 s every 1 s", n="count(*)"),
    PACKETS.aggregate("link", "2 rows", n="count(*)"),
    PACKETS.aggregate("link", "1 s gap", n="count(*)"),
    PACKETS.aggregate("link", "2 s gap", n="count(*)"),
    PACKETS.aggregate("link", "1 s", m="count(*)"),
    PACKETS.aggregate("source", "1 s", n="count(*)"),
    PACKETS.aggregate(["link", "source"], "1 s", n="count(*)"),
    PACKETS.aggregate("link", "1 s", n="sum(bytes)"),
    PACKETS.count(window="1 s"),
    PACKETS.count("m", window="1 s"),
    PACKETS.sort("bytes", window="1 s"),
    PACKETS.sort("bytes desc", window="1 s"),
    PACKETS.sort("bytes", "link", window="1 s"),
    PACKETS.sort("link", "bytes", window="1 s"),
    PACKETS.distinct("link", window="1 s"),
    PACKETS.distinct(window="1 s"),
    PACKETS.sample("5 %"),
    PACKETS.sample("5 %", seed=1),
    PACKETS.encrypt("link", key="a"),
    PACKETS.encrypt("link", key="b"),
    PACKETS.delay("1 ms"),
    PACKETS.filter("bytes > 1").join(PACKETS, on="link", within="1 s"),
    PACKETS.join(PACKETS.filter("bytes > 1"), on="link", within="1 s"),
    PACKETS.join(PACKETS.filter("bytes > 1"), on="link", within="2 s"),
    PACKETS.join(PACKETS.filter("bytes > 1"), on=["link", "source"], within="1 s"),
)


@pytest.mark.parametrize("why", EQUAL)
def test_equal_work_has_an_equal_name(why: str) -> None:
    names = {last_name(stream) for stream in EQUAL[why]}
    assert len(names) == 1, names


def test_different_work_has_different_names() -> None:
    names = [last_name(stream) for stream in DIFFERENT]
    assert len(set(names)) == len(names), sorted(name for name in names if names.count(name) > 1)


def test_names_stay_short_however_often_a_plan_splits_and_joins() -> None:
    stream: Stream = source("packets")
    for _ in range(11):
        stream = stream.filter("bytes > 1").union(stream.filter("bytes > 2"))
    query = stream.sink()
    assert len(query.routes) == 2048
    assert max(len(query.stream_name(operator)) for operator in query.operators) < 3000
    assert len({query.stream_key(operator) for operator in query.operators}) == len(query.operators) - 1  # the sink's


# -- several sinks, immutability, caching ----------------------------------------------------------------------------


def test_a_plan_of_several_sinks_shares_what_they_share() -> None:
    big = source("packets").filter("bytes > 100")
    counts = big.count(window="1 s").sink("counts", delay="2 s", miss_rate="1 %")
    query = plan(big.sink("all", delay="5 s", throughput="1 kB/s"), counts, name="both")
    assert list(query.operators) == ["source", "filter", "sink", "count", "sink_2"]
    assert query.qos == QoS(delay=2.0, miss_rate=0.01, throughput=1000.0)
    assert query.name == "both"
    assert plan(query, delay="1 s").qos.delay == 1.0
    assert plan(Plan.from_yaml(query.to_yaml()), name="both") == query


def test_a_plan_does_not_change() -> None:
    query = monitoring()
    with pytest.raises(AttributeError, match="a plan does not change"):
        query.name = "x"
    query.schema("filter")["x"] = "int"
    assert "x" not in query.schema("filter")


def test_equal_plans_are_equal_values_and_survive_encoding() -> None:
    assert monitoring() == monitoring("'B' = link")
    assert hash(monitoring()) == hash(monitoring())
    assert monitoring() != monitoring("link = 'A'")
    assert pickle.loads(pickle.dumps(monitoring())) == monitoring()
    assert Plan.from_bytes(monitoring().to_bytes()) is Plan.from_bytes(bytearray(monitoring().to_bytes()))
    assert "8 operators" in repr(monitoring())


def test_columns_may_be_given_as_a_list() -> None:
    listed = source("packets").project(["link", "bytes"], twice="2 * bytes").sink("x")
    assert listed == source("packets").project("link", "bytes", twice="2 * bytes").sink("x")
    with pytest.raises(TypeError, match=r"columns: \[3\]; expected names of columns"):
        source("packets").project([3])  # type: ignore[list-item]


def test_columns_of_an_order_may_be_given_by_name_as_in_a_file() -> None:
    packets = source("packets")
    assert packets.sort(by="bytes desc", window="1 s").sink() == packets.sort("bytes desc", window="1 s").sink()
    assert packets.top(3, by=["link"], window="1 s").sink() == packets.top(3, "link", window="1 s").sink()
    with pytest.raises(TypeError, match="sort: by: 'link'; expected it once, by position or by name"):
        packets.sort("bytes", window="1 s", by="link")


def test_an_operator_by_its_kind_has_its_own_parameters_before_those_of_all_operators() -> None:
    packets = source("packets")
    for by_kind, stream in (
        (packets.operator("delay", cost="5 ms"), packets.delay("5 ms")),
        (packets.operator("filter", where="bytes > 9", cost="5 ms"), packets.filter("bytes > 9", cost="5 ms")),
    ):
        assert by_kind.sink() == stream.sink()


def test_arguments_of_the_wrong_kind_are_refused_at_once() -> None:
    valid = "where, id, cost, selectivity, at, engine, availability"
    expected = f"unknown argument 'costs'; expected one of {valid}; did you mean 'cost'"
    with pytest.raises(TypeError, match=expected):
        source("packets").filter("TRUE", costs=1)
    expected = (
        "sink: unknown argument 'dely'; expected one of name, to, delay, miss_rate, throughput, availability, "
        "replica_distance, memory, scheduling, overdue, hotspots, on_death, id, cost, selectivity, at, engine; "
        "did you mean 'delay'"
    )
    with pytest.raises(TypeError, match=expected):
        source("packets").sink("x", dely="1 s")
    with pytest.raises(TypeError, match="expected a stream"):
        source("packets").union("x")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="expected plans"):
        plan(source("packets"))  # type: ignore[arg-type]


def test_a_peer_imports_neither_a_parser_nor_a_data_engine_for_a_plan() -> None:
    """Reading a plan, its names, rates and loads must not cost the start of a peer half a second."""
    program = (
        "import sys; from synergy_nb.plan import Plan; plan = Plan.from_bytes(sys.stdin.buffer.read())\n"
        "for operator in plan.operators: plan.stream_key(operator); plan.load(operator); plan.bandwidth(operator)\n"
        "print(sorted({'sqlglot', 'polars', 'pyarrow', 'networkx', 'yaml'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], input=monitoring().to_bytes(), capture_output=True, check=True, timeout=200
    )
    assert done.stdout.decode().strip() == "[]"


@pytest.mark.slow
def test_a_cluster_imports_no_scipy_numba_view_or_replay() -> None:
    """The first cell of a notebook waits for each; most take half a second or more."""
    program = (
        "import sys, synergy_nb; synergy_nb.Cluster\n"
        "large = {'scipy', 'numba', 'duckdb', 'sqlglot', 'anywidget', 'pandas', 'synergy_nb.recording.stage'}\n"
        "print(sorted(large & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=200)
    assert done.stdout.strip() == "[]"


# -- random plans ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@given(plans())
@settings(max_examples=80)
def test_random_plans_are_read_back_from_yaml_and_bytes(query: Plan) -> None:
    assert query.validate() == []
    assert Plan.from_bytes(query.to_bytes()) == query
    again = Plan.from_yaml(query.to_yaml())
    assert again == query
    for operator in query.operators:
        assert again.schema(operator) == query.schema(operator)
        assert again.stream_key(operator) == query.stream_key(operator)
        assert again.rate(operator) == query.rate(operator) >= 0
    assert all(route[0] in query.sources and route[-1] in query.sinks for route in query.routes)


@pytest.mark.slow
@given(plans(), st.randoms(use_true_random=False))
@settings(max_examples=60)
def test_names_depend_neither_on_ids_nor_on_order(query: Plan, random: Any) -> None:
    ids = list(query.operators)
    numbers = list(range(len(ids)))
    random.shuffle(numbers)
    renamed = {name: f"op {number}" for name, number in zip(ids, numbers, strict=True)}
    operators = []
    for operator in query.operators.values():
        inputs = [renamed[up] for up in operator.inputs]
        if KINDS[operator.kind].commutative:
            random.shuffle(inputs)
        operators.append(msgspec.structs.replace(operator, id=renamed[operator.id], inputs=tuple(inputs)))
    random.shuffle(operators)
    other = Plan(operators, query.qos)
    for name in ids:
        assert other.stream_name(renamed[name]) == query.stream_name(name)
        assert other.stream_key(renamed[name]) == query.stream_key(name)


def test_the_graph_of_a_plan_is_what_networkx_sees() -> None:
    """networkx as oracle: topological order, and all simple paths from sources to sinks as routes."""
    import networkx as nx

    for query in (monitoring(), figure_2_6()):
        graph = query.to_networkx()
        place = {name: number for number, name in enumerate(query.operators)}
        assert all(place[up] < place[down] for up, down in graph.edges)
        paths = {
            tuple(path)
            for begin in query.sources
            for end in query.sinks
            for path in nx.all_simple_paths(graph, begin, end)
        }
        assert set(query.routes) == paths
        assert {name: data["kind"] for name, data in graph.nodes(data=True)} == {
            name: operator.kind for name, operator in query.operators.items()
        }
        assert all(data["stream"] == query.stream_name(up) for up, _, data in graph.edges(data=True))


def test_a_sink_is_known_by_its_id_and_by_a_name_that_no_other_has() -> None:
    packets = source("packets")
    two = plan(
        packets.sink("large"), packets.filter("bytes > 9").sink("large", id="small"), packets.project("bytes").sink("b")
    )
    assert [two.sink(each) for each in ("small", "b", "sink")] == ["small", "sink_2", "sink"]
    known = "sink (named 'large'), small (named 'large'), sink_2 (named 'b')"
    for wrong, said in ((None, "not given"), ("large", "'large'"), ("c", "'c'")):
        with pytest.raises(ValueError, match=re.escape(f"sink: {said}; expected one of {known}")):
            two.sink(wrong)
    assert packets.sink("all").sink(None) == packets.sink("all").sink("all") == "sink"
