"""Every error in a plan, and its message."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synergy_nb.plan import Operator, Plan, PlanError, Problem, Stream, source
from synergy_nb.plan.operators.catalogue import KINDS
from synergy_nb.plan.operators.declaration import REQUIRED
from synergy_nb.plan.operators.sources import CONNECTOR, CONNECTORS
from tests.example_plans import plans, problems_of

P = Operator("p", "source", {"connector": "packets"})


def asked(*operators: Operator, **qos: Any) -> Callable[[], Plan]:
    """Makes a plan of ``operators``."""
    return lambda: Plan(operators, qos)


def one(kind: str, inputs: tuple[str, ...] = ("p",), **params: Any) -> Callable[[], Plan]:
    """Makes a plan of one operator between a source and a sink."""
    return asked(P, Operator("x", kind, params, inputs), Operator("end", "sink", {}, ("x",)))


WRONG: list[tuple[str, Callable[[], Plan], str]] = [
    (
        "unknown kind",
        one("fliter", where="bytes > 1"),
        f"operator 'x', kind: 'fliter'; expected one of {', '.join(KINDS)}; did you mean 'filter'?",
    ),
    (
        "unknown parameter",
        one("filter", where="bytes > 1", wher="x"),
        ("operator 'x', wher: 'x'; expected a parameter of filter (where); did you mean 'where'?"),
    ),
    ("missing parameter", one("filter"), "operator 'x', where: missing; expected a value: filter needs where"),
    (
        "type of parameter",
        one("filter", where=3),
        "operator 'x', where: 3; expected a condition in SQL, as text, such as 'bytes > 1000'",
    ),
    (
        "unknown column",
        one("filter", where="lnk = 'B'"),
        (
            "operator 'x', where: 'lnk'; expected a column of its input "
            "(time, link, source, destination, source_port, destination_port, bytes); did you mean 'link'?"
        ),
    ),
    (
        "unknown column of project",
        one("project", columns={"a": "byte + 1"}),
        (
            "operator 'x', columns.a: 'byte'; expected "
            "a column of its input (time, link, source, destination, source_port, destination_port, bytes); did you "
            "mean 'bytes'?"
        ),
    ),
    (
        "unknown column to group by",
        one("aggregate", by=["sorce"], window="1 s", values={"n": "count(*)"}),
        (
            "operator "
            "'x', by: 'sorce'; expected a column of its input (time, link, source, destination, source_port, "
            "destination_port, bytes); did you mean 'source'?"
        ),
    ),
    (
        "type error",
        one("filter", where="link > 3"),
        ("operator 'x', where: 'link > 3'; expected operands of one type, not str and int"),
    ),
    (
        "no condition",
        one("filter", where="bytes + 1"),
        "operator 'x', where: 'bytes + 1'; expected a condition, not int",
    ),
    (
        "subquery",
        one("filter", where="bytes > (SELECT 1)"),
        (
            "operator 'x', where: '(SELECT 1)'; "
            "expected SQL of the documented subset (docs/plans.md), which has no subquery"
        ),
    ),
    (
        "unit of a window",
        one("aggregate", window="5 MB", values={"n": "count(*)"}),
        (
            "operator 'x', window: '5 MB'; "
            "expected a window such as '20 min', '20 min every 5 min', '2 min gap' or '1000 rows'"
        ),
    ),
    (
        "gap of sessions",
        one("aggregate", window={"kind": "session", "length": "1 s"}, values={"n": "count(*)"}),
        ("operator 'x', window: {'kind': 'session', 'length': '1 s'}; expected gap for a window of kind session"),
    ),
    (
        "slide",
        one("aggregate", window="1 s every 2 s", values={"n": "count(*)"}),
        ("operator 'x', window: '2 s'; expected a slide of at most the length (1 s)"),
    ),
    (
        "no aggregate call",
        one("aggregate", window="1 s", values={"n": "bytes"}),
        ("operator 'x', values.n: 'bytes'; expected an aggregate call, such as sum(bytes)"),
    ),
    (
        "having of a column that the result lacks",
        one("aggregate", window="1 s", values={"n": "count(*)"}, having="bytes > 9"),
        ("operator 'x', having: 'bytes'; expected a column of its input (time, window_start, window_end, n)"),
    ),
    (
        "having that is no condition",
        one("aggregate", window="1 s", values={"n": "count(*)"}, having="n + 1"),
        ("operator 'x', having: 'n + 1'; expected a condition, not int"),
    ),
    (
        "over with the name of a column",
        one("over", window="1 s", values={"bytes": "lag(bytes)"}),
        ("operator 'x', values.bytes: 'bytes'; expected a name that no column of the input has"),
    ),
    (
        "over a set",
        one("over", window="1 s", values={"n": "count(distinct bytes)"}),
        ("operator 'x', values.n: 'COUNT(DISTINCT bytes)'; expected count(distinct x) only in a value of an aggregate"),
    ),
    (
        "aggregate call elsewhere",
        one("project", columns={"n": "sum(bytes)"}),
        (
            "operator 'x', columns.n: 'SUM(bytes)'; "
            "expected sum() only in a value of an aggregate or of an over, and not within another such call"
        ),
    ),
    (
        "own name for time",
        one("project", columns={"Time": "bytes"}),
        ("operator 'x', columns: 'Time'; expected a name other than time, which every stream has without stating it"),
    ),
    (
        "NULL column",
        one("project", columns={"a": "NULL"}),
        ("operator 'x', columns.a: 'NULL'; expected a value with a type, such as CAST(NULL AS int)"),
    ),
    (
        "fraction",
        one("sample", fraction="105 %"),
        ("operator 'x', fraction: '105 %'; expected a fraction between 0 and 1, such as '5 %' or 0.05"),
    ),
    (
        "count without window",
        one("count"),
        ("operator 'x', window: missing; expected a window such as '20 min': its input has none"),
    ),
    (
        "sort without window",
        one("sort", by=["bytes"]),
        ("operator 'x', window: missing; expected a window such as '20 min': its input has none"),
    ),
    (
        "distinct without window",
        one("distinct", on=["link"]),
        ("operator 'x', window: missing; expected a window such as '20 min': its input has none"),
    ),
    (
        "compare without window",
        one("compare", value="bytes", fraction=0.95),
        (
            "operator 'x', inputs: 'an input without "
            "windows'; expected an input with windows, such as that of aggregate or sort"
        ),
    ),
    ("missing input", one("filter", (), where="TRUE"), "operator 'x', inputs: missing; expected 1 input"),
    (
        "unknown input",
        one("filter", ("q",), where="TRUE"),
        ("operator 'x', inputs: 'q'; expected an operator of the plan (p)"),
    ),
    ("number of inputs", one("union"), "operator 'x', inputs: ['p']; expected 2 or more inputs"),
    (
        "doubled input",
        one("union", ("p", "p")),
        ("operator 'x', inputs: 'p'; expected each input once; give one side a project of its own"),
    ),
    ("input of a source", one("source", connector="packets"), "operator 'x', inputs: ['p']; expected no input"),
    (
        "source without connector",
        one("source", ()),
        ("operator 'x', connector: missing; expected a value: source needs connector, " + CONNECTOR),
    ),
    (
        "parameter of another connector",
        one("source", (), connector="packets", path="x"),
        (
            "operator 'x', path: 'x'; "
            "expected a parameter of source of packets (connector, seed, rate, signature, sources, hosts, links, "
            "duration, speed, heartbeat, count, alpha, zipf, flags, start)"
        ),
    ),
    (
        "columns of csv",
        one("source", (), connector="trace", path="x", format="csv"),
        (
            "operator 'x', columns: missing; expected columns with their types (int, float, str, bool, time, bytes, "
            "date, duration, decimal(18, 2), int[], struct(a int, b str)), which format csv needs, as in "
            'columns={"user": "str", "amount": "float"}'
        ),
    ),
    (
        "type of a column",
        one("source", (), connector="python", name="n", columns={"a": "integer"}),
        (
            "operator 'x', columns.a: 'integer'; expected one of int, float, str, bool, time, bytes, date, "
            "duration, decimal(18, 2), int[], struct(a int, b str); did you mean 'int'?"
        ),
    ),
    (
        "join without a column",
        one("join", ("p", "p2"), on="link", within="1 s"),
        ("operator 'x', inputs: 'p2'; expected an operator of the plan (p); did you mean 'p'?"),
    ),
    (
        "decrypt",
        one("decrypt", columns={"link": "str"}, key="k"),
        ("operator 'x', columns: 'link'; expected a column of type bytes, not str"),
    ),
    ("no sink", asked(P), "operators: ['p']; expected at least one operator of kind sink"),
    (
        "no way to a sink",
        asked(
            P,
            Operator("x", "filter", {"where": "TRUE"}, ("p",)),
            Operator("end", "sink", {}, ("p",)),
        ),
        "operator 'x', output: 'read by nobody'; expected a path from it to a sink",
    ),
    (
        "format as connector",
        one("source", (), connector="csv", path="x"),
        (
            f"operator 'x', connector: 'csv'; expected one of {', '.join(CONNECTORS)}; csv is a format "
            "of connector trace, as in source('trace', path='...', format='csv')"
        ),
    ),
    (
        "path as connector",
        one("source", (), connector="logs/access.log"),
        (
            f"operator 'x', connector: 'logs/access.log'; expected one of {', '.join(CONNECTORS)}; a "
            "file is read by source('trace', path='logs/access.log', format='...')"
        ),
    ),
    (
        "connector",
        one("source", (), connector="packet"),
        (f"operator 'x', connector: 'packet'; expected one of {', '.join(CONNECTORS)}; did you mean 'packets'?"),
    ),
    (
        "connector of no kind",
        one("source", (), connector=["packets"]),
        f"operator 'x', connector: ['packets']; expected {CONNECTOR}",
    ),
    (
        "name of connector",
        one("source", (), conector="packets"),
        "operator 'x', conector: 'packets'; expected a parameter of source (connector); did you mean 'connector'?",
    ),
    (
        "text in double quotes",
        one("filter", where='link = "B"'),
        (
            "operator 'x', where: '\"B\"'; expected a column of its input (time, link, source, destination, "
            "source_port, destination_port, bytes); text takes single quotes ('B'), double quotes are for names of "
            "columns"
        ),
    ),
    (
        "misses without a limit",
        asked(P, Operator("end", "sink", {}, ("p",)), miss_rate="5 %"),
        "qos.miss_rate: '5 %'; expected a delay as well: misses are the tuples that are later than the delay limit",
    ),
    (
        "sink as input",
        asked(P, Operator("a", "sink", {}, ("p",)), Operator("b", "sink", {}, ("a",))),
        ("operator 'b', inputs: 'a'; expected an operator other than a sink, which has no output"),
    ),
    (
        "doubled id",
        asked(P, P, Operator("end", "sink", {}, ("p",))),
        ("operator 'p', id: 'p'; expected an id that no other operator has"),
    ),
    (
        "cycle",
        asked(
            P,
            Operator("a", "filter", {"where": "TRUE"}, ("b",)),
            Operator("b", "filter", {"where": "TRUE"}, ("a",)),
            Operator("end", "sink", {}, ("b",)),
        ),
        "operator 'a', inputs: 'a -> b -> a'; expected no cycle",
    ),
    (
        "cost",
        asked(msgspec.structs.replace(P, cost="5 %"), Operator("end", "sink", {}, ("p",))),
        (
            "operator 'p', cost: "
            "'5 %'; expected a duration such as '2 s', '500 ms', '20 min' or '1 h', or a number of seconds"
        ),
    ),
    (
        "selectivity",
        asked(msgspec.structs.replace(P, selectivity=-1), Operator("end", "sink", {}, ("p",))),
        ("operator 'p', selectivity: -1; expected tuples out over tuples in, a number of at least 0"),
    ),
    (
        "delay",
        asked(P, Operator("end", "sink", {}, ("p",)), delay="2 parsecs"),
        (
            "qos.delay: '2 parsecs'; expected a "
            "duration such as '2 s', '500 ms', '20 min' or '1 h', or a number of seconds"
        ),
    ),
    (
        "miss rate",
        asked(P, Operator("end", "sink", {}, ("p",)), miss_rate="5 s"),
        ("qos.miss_rate: '5 s'; expected a fraction between 0 and 1, such as '5 %' or 0.05"),
    ),
    (
        "throughput",
        asked(P, Operator("end", "sink", {}, ("p",)), throughput="5 MB"),
        (
            "qos.throughput: '5 MB'; expected a "
            "throughput such as '100 kB/s', '5 MB/s' or '1000 tuples/s', or a number of bytes/s"
        ),
    ),
    (
        "unknown requirement",
        asked(P, Operator("end", "sink", {}, ("p",)), dely="5 s"),
        (
            "qos.dely: '5 s'; expected one of "
            "the fields delay, miss_rate, throughput, availability, replica_distance, memory, scheduling, overdue, "
            "hotspots, on_death; did you mean 'delay'?"
        ),
    ),
]


@pytest.mark.parametrize(("make", "message"), [each[1:] for each in WRONG], ids=[each[0] for each in WRONG])
def test_each_fault_of_a_plan_has_its_message(make: Callable[[], Plan], message: str) -> None:
    found = [str(problem) for problem in problems_of(make)]
    assert message in found, "\n".join(found)


def test_all_faults_of_a_plan_are_named_at_once() -> None:
    stream = source("packets", seeds=3).filter("lnk = 1").aggregate("sorce", "20 mi", total="sm(bytes)")
    found = problems_of(lambda: stream.compare("total", "195 %").sink(delay="2 parsecs", availability=2))
    assert [(each.operator, each.field) for each in found] == [
        ("", "qos.delay"), ("", "qos.availability"), ("source", "seeds"), ("filter", "where"),
        ("aggregate", "window"), ("aggregate", "by"), ("aggregate", "values.total"),
        ("compare", "fraction"),
    ]  # fmt: skip
    assert found[2].nearest == "seed"


def test_plan_errors_survive_pickle() -> None:
    error = PlanError([Problem("x", "where", "a", "b", "c")])
    again = pickle.loads(pickle.dumps(error))
    assert (again.problems, str(again)) == (error.problems, str(error))


def test_a_plan_with_too_many_paths_is_refused() -> None:
    stream: Stream = source("packets")
    for _ in range(60):
        stream = stream.filter("bytes > 1").union(stream.filter("bytes > 2"))
    (problem,) = problems_of(stream.sink)
    assert "paths from sources to sinks" in problem.expected


WRONG_FOR_ALL: Any = {"?": -1}


@st.composite
def bad_edits(draw: st.DrawFn) -> tuple[list[Operator], str, str]:
    """The operators of a random plan after a bad edit, and the operator and field that was edited."""
    operators = list(draw(plans()).operators.values())
    number = draw(st.integers(0, len(operators) - 1))
    operator = operators[number]
    parameters = {**KINDS[operator.kind].parameters, **CONNECTORS.get(operator.params.get("connector", ""), {})}
    edits = ["kind", "unknown", "cost", "selectivity", "at", "unknown input"] + (["value"] if parameters else [])
    required = [name for name, parameter in parameters.items() if parameter.default is REQUIRED]
    edits += ["missing"] if required else []
    edits += ["no input", "itself"] if operator.inputs else []
    edit = draw(st.sampled_from(edits))
    change: dict[str, Any]
    if edit == "kind":
        field, change = "kind", {"kind": draw(st.sampled_from(["fliter", "", "Sink", "join "]))}
    elif edit == "unknown":
        field, change = "colour", {"params": {**operator.params, "colour": draw(st.sampled_from([1, "red", []]))}}
    elif edit in ("cost", "selectivity"):
        field, change = edit, {edit: draw(st.sampled_from([-1, "5 furlongs", [], True, math.nan]))}
        if operator.kind == "delay" and edit == "cost":
            field, change = "cost", {"params": {**operator.params, "cost": "5 furlongs"}}
    elif edit == "at":
        field, change = "at", {"at": draw(st.sampled_from([3, "", "a\nb"]))}
    elif edit == "value":
        field = draw(st.sampled_from(sorted(parameters)))
        change = {"params": {**operator.params, field: draw(st.sampled_from([WRONG_FOR_ALL, [[]], math.inf, "\0"]))}}
    elif edit == "missing":
        field = draw(st.sampled_from(required))
        change = {"params": {name: value for name, value in operator.params.items() if name != field}}
    else:
        ups = {"no input": (), "itself": (operator.id,), "unknown input": (*operator.inputs[1:], "nowhere")}
        field, change = "inputs", {"inputs": ups[edit]}
    operators[number] = msgspec.structs.replace(operator, **change)
    return operators, operator.id, field


@pytest.mark.slow
@given(bad_edits())
@settings(max_examples=150)
def test_a_bad_edit_is_named_by_operator_and_field(edited: tuple[list[Operator], str, str]) -> None:
    operators, operator, field = edited
    found = problems_of(lambda: Plan(operators))
    assert any(each.operator == operator and each.field.split(".")[0] == field for each in found), found


def test_contradicting_parameters_are_named_with_the_other_faults() -> None:
    rows = [source("python", id=name, name="n", columns={"v": "int"}) for name in ("a", "b")]
    trace = source("trace", path="a.csv", format="csv", columns={"v": "int"}, engine="spark", id="t")
    stream = rows[0].union(rows[1]).union(trace).filter("vv > 1", engine="spark")
    found = problems_of(lambda: stream.sink(availability="degree 2"))
    assert [(each.operator, each.field) for each in found] == [("filter", "where"), ("b", "name"), ("t", "engine")]


def test_operators_that_exceed_their_memory_are_named_together() -> None:
    packets = source("packets", rate="1000 tuples/s")
    left, right = (packets.sort(column, window="1 h", engine="peer") for column in ("bytes", "link"))
    found = problems_of(lambda: left.join(right, "link", "1 s").sink(memory="20 MB"))
    assert [(each.operator, each.field) for each in found] == [("sort", "memory"), ("sort_2", "memory")]


def test_several_wrong_types_of_one_parameter_are_named_together() -> None:
    columns = {"a": "in", "b": "int", "c": "flot"}
    found = problems_of(source("trace", path="x", format="csv", columns=columns).sink)
    assert [(each.field, each.nearest) for each in found] == [("columns.a", "int"), ("columns.c", "float")]
