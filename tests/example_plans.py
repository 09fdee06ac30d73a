"""Plans that several tests use: those of the dissertation's figures, and random ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import strategies as st

from synergy_nb.plan import Plan, PlanError, Problem, Stream, plan, source


def monitoring(where: str = "link = 'B'", **at: str) -> Plan:
    """The top-k traffic query of the network-monitoring application, as figure 1.1 draws it."""
    packets = source("packets", id="source", seed=1, at=at.get("source"))
    pairs = packets.filter(where).project("source", "destination", "bytes")
    sums = pairs.aggregate(by=["source", "destination"], window="20 min", total="sum(bytes)")
    top = sums.sort("total desc").compare("total", "95 %", count=sums.count())
    return top.sink(name="top pairs", id="destination", delay="20 s", miss_rate="5 %")


def figure_2_6() -> Plan:
    """Figure 2.6: o1 splits into o2 and o3, o4 and o5 follow, o6 joins."""
    s1 = source("packets", id="s1")
    o1 = s1.filter("bytes > 40", id="o1")
    o2, o3 = o1.filter("link = 'A'", id="o2"), o1.filter("link = 'B'", id="o3")
    o4, o5 = o2.sample("50 %", id="o4"), o3.sample("10 %", id="o5")
    return o4.union(o5, id="o6").sink(id="destination", delay="2 s")


def problems_of(make: Callable[[], object]) -> tuple[Problem, ...]:
    """What is wrong with what ``make`` tries to make; each problem is one line of the error."""
    with pytest.raises(PlanError) as caught:
        make()
    assert all(str(problem) in str(caught.value) for problem in caught.value.problems)
    assert all("\n" not in str(problem) for problem in caught.value.problems)
    return caught.value.problems


CONDITIONS = [
    "bytes > 100",
    "link = 'B'",
    "link = 'A' OR bytes < 40",
    "source_port + 1 = destination_port",
    "NOT bytes > 7",
]


@st.composite
def streams(draw: st.DrawFn) -> list[Stream]:
    """Streams at the ends of a random plan: none of them is read by another one."""
    plain: list[Stream] = [source("packets", seed=seed) for seed in range(draw(st.integers(1, 2)))]
    windowed: list[Stream] = []
    read: set[int] = set()

    def pick(among: list[Stream]) -> Stream:
        stream = among[draw(st.integers(0, len(among) - 1))]
        read.add(id(stream))
        return stream

    for _ in range(draw(st.integers(0, 9))):
        kinds = ["filter", "sample", "project", "delay", "union", "aggregate", "count", "distinct", "sort"]
        kind = draw(st.sampled_from(kinds + (["sort_w", "count_w", "compare", "filter_w"] if windowed else [])))
        window = draw(st.sampled_from(["1 s", "20 min", "20 min every 5 min", "100 rows"]))
        if kind == "filter":
            plain.append(
                pick(plain).filter(draw(st.sampled_from(CONDITIONS)), cost=draw(st.sampled_from([None, "2 us"])))
            )
        elif kind == "sample":
            plain.append(pick(plain).sample(draw(st.floats(0, 1)), seed=draw(st.integers(0, 3))))
        elif kind == "project":
            columns = ["link", "source", "destination", "source_port", "destination_port"]
            plain.append(pick(plain).project(*columns, bytes="bytes + 20"))
        elif kind == "delay":
            plain.append(pick(plain).delay(draw(st.floats(0, 10)), at=draw(st.sampled_from([None, "peer-1"]))))
        elif kind == "union":
            one, other = pick(plain), pick(plain)
            plain.append(one.union(other) if one is not other else one.filter("TRUE"))
        elif kind in ("aggregate", "count", "distinct", "sort"):
            stream = pick(plain)
            if kind == "aggregate":
                windowed.append(stream.aggregate(["link", "source"], window, total="sum(bytes)", n="count(*)"))
            elif kind == "count":
                stream = stream.count("total", window=window)
                windowed.append(stream)
            elif kind == "distinct":
                stream = stream.distinct("link", window=window)
                windowed.append(stream.project(total="bytes"))
                read.add(id(stream))
            else:
                stream = stream.sort("bytes desc", window=window)
                windowed.append(stream.project(total="bytes"))
                read.add(id(stream))
        elif kind == "sort_w":
            windowed.append(pick(windowed).sort("total desc"))
        elif kind == "count_w":
            windowed.append(pick(windowed).count("total"))
        elif kind == "compare":
            stream = pick(windowed)
            windowed.append(stream.compare("total", draw(st.floats(0, 1)), count=stream.count()))
        else:
            windowed.append(pick(windowed).filter("total > 3"))
    return [stream for stream in plain + windowed if id(stream) not in read]


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Valid plans of up to about ten operators, with any QoS."""
    delay = draw(st.one_of(st.none(), st.floats(1e-6, 1e6)))
    qos: dict[str, Any] = {
        "delay": delay,
        "miss_rate": draw(st.one_of(st.none(), st.floats(0, 1))) if delay is not None else None,
        "throughput": draw(st.one_of(st.none(), st.floats(0, 1e12), st.just("1000 tuples/s"))),
        "availability": draw(
            st.one_of(st.none(), st.floats(0, 1, exclude_max=True), st.builds("degree {}".format, st.integers(1, 9)))
        ),
    }
    ends = [stream.sink(name) for name, stream in zip("abcdefghijklmn", draw(streams()), strict=False)]
    return plan(*ends, name=draw(st.sampled_from(["x", "1e3", "on", "a: b", "ä"])), **qos)


def built(text: str) -> Plan:
    """The plan that Python makes."""
    names: dict[str, Any] = {}
    exec(compile(text, "query.py", "exec"), names)
    query = names["query"]
    assert isinstance(query, Plan)
    return query
