"""Which operators sort for the agreement of their replicas, and which order of rows a plan states."""

from __future__ import annotations

from synergy_nb.plan.derived.active_replicas import replicated
from synergy_nb.plan.derived.replica_agreement import Agreement, agreement, agreement_text, agreements, stated_order
from synergy_nb.plan.operators.declaration import Declaration
from tests.operator_cases import P, R


def test_only_an_operator_that_needs_an_order_and_reads_stream_replicas_sorts() -> None:
    packets = P()
    joined = packets.filter("bytes > 0", id="large").join(R().sample("10 %", id="some"), on="source", within="1 s")
    plan = joined.aggregate(window="10 rows", n="count(*)", id="rows").distinct("n", id="first").sink(name="result")
    found = agreements(plan)
    assert {name for name, each in found.items() if each.sorts} == {"rows", "first"}
    assert found["some"].why == "its input is a single stream, which all of its replicas read in the same order"
    assert found["rows"] == Agreement(
        "rows", "aggregate", True, (), "which tuples a window of a number of rows holds depends on their order"
    )
    without = "its replicas agree without a sort"
    assert agreement_text(plan).splitlines() == [
        f"large (filter): {without}: it processes each tuple alone",
        f"some (sample): {without}: {found['some'].why}",
        f"join (join): {without}: the times and columns of two tuples alone decide whether they are a pair",
        f"rows (aggregate): its replicas sort their input: {found['rows'].why}",
        "first (distinct): its replicas sort their input: it selects the first of the tuples with equal values",
        "sink (sink): it does not sort: it passes each tuple on",
    ]
    expanded = replicated(plan, 3)
    assert agreements(expanded) == found
    assert all(agreement(expanded, f"{name}~2")[2:] == each[2:] for name, each in found.items() if name != "sink")


def test_parameters_decide_whether_an_operator_needs_an_order() -> None:
    packets = P().filter("bytes > 0")
    plans = {
        packets.distinct(window="1 s").sink(): "the tuples from which it selects one are equal",
        packets.sample(1.0).sink(): "it selects all tuples",
    }
    for plan, why in plans.items():
        found = agreement(plan, plan.upstream(plan.sinks[0])[0])
        assert (found.sorts, found.why) == (False, why)
    for stream in (packets.distinct("link", window="1 s"), packets.sample(0.5), packets.count(window="9 rows")):
        plan = stream.sink()
        assert agreement(plan, plan.upstream(plan.sinks[0])[0]).sorts


def test_an_operator_sorts_if_nothing_is_stated() -> None:
    assert Declaration(kind="own", help="Does something.").replicas({}) == (
        False,
        "nothing states that its result does not depend on the order",
    )


def test_a_pinned_operator_has_one_stream() -> None:
    plan = P().filter("bytes > 0", at="peer-1").sample(0.5).sink()
    assert not agreement(plan, "sample").sorts


def test_a_backup_that_reads_replicas_repeats_the_order_in_which_they_were_read() -> None:
    large = P().filter("bytes > 0", id="large", availability="active 2")
    plan = large.project("link", id="backed_up", availability="degree 2").sink()
    assert agreements(plan)["backed_up"] == Agreement(
        "backed_up", "project", True, (), "its backup has to repeat it, even if a stream that it has read is lost", True
    )
    alone = large.project("link", id="alone", availability="degree 1").sink()
    assert "alone" not in agreements(alone)


def test_the_order_of_a_sort_outlasts_what_preserves_it() -> None:
    ranked = P().sort("bytes desc", "link", window="20 s", id="ranked")
    order = (("window_start", False), ("bytes", True), ("link", False))
    plan = (
        ranked.filter("ok", id="kept")
        .project("link", "bytes", twice="port * 2", id="fewer")
        .encrypt("link", key="alpha", id="sealed")
        .sink(name="result")
    )
    assert stated_order(plan, "kept") == stated_order(plan, "fewer") == order
    assert stated_order(plan, "sealed") == order[:2]
    assert agreement(plan, "sink") == Agreement(
        "sink", "sink", True, order[:2], "the plan states the order of its results"
    )
    assert str(agreement(plan, "sink")).startswith("sink (sink): it sorts its input: ")
    other = ranked.project("link", bytes="bytes + 1").union(ranked.project("link", bytes="bytes")).sink()
    assert stated_order(other, "project") == order[:1]
    assert stated_order(other, "union") == ()
    rows = P().sort("bytes", window="20 rows").sink()
    assert stated_order(rows, "sort") == ()
