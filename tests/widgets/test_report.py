"""The HTML report and its chart: complete, without external content, and with escaped texts."""

from __future__ import annotations

import re
from typing import Any

import pytest

from synergy_nb import source
from synergy_nb.events import ApplicationRejected, RequestSubmitted
from synergy_nb.plan import Plan
from synergy_nb.plan.text.operator_texts import brief
from synergy_nb.reporting.explanation import Explanation
from synergy_nb.widgets._charts import SinkDelays, delay_chart, delays
from synergy_nb.widgets.report import Number, Table, Verdict, report
from tests import qos_story
from tests.report_pages import A, B, journal, parsed

NAMES = {A: "peer-1", B: "peer-2"}


def monitoring_plan() -> Plan:
    traffic = source("packets", seed=1).filter("link = 'B' AND bytes < 1500").aggregate(
        by=["source"], window="1 s", total="sum(bytes)"
    )  # fmt: skip
    top = traffic.sort("total desc").compare("total", "95 %", count=traffic.count())
    return top.sink("top <pairs>", delay="1 s", miss_rate="5 %")


def made(**options: Any) -> str:
    plan = monitoring_plan()
    events = journal(plan)
    given: dict[str, Any] = {"title": "Top-k <traffic>", "lead": "All & sundry."} | options
    return report(plan, Explanation("r1", events, NAMES), events, **given)


def test_a_report_has_plan_graph_chart_and_reasons() -> None:
    page = made()
    assert page.count('class="synergy-drawing"') == 3  # the plan, and the graph for wide and for narrow pages
    assert page.count('class="synergy-chart"') == 2
    text = " ".join(parsed(page).text)
    for operator in monitoring_plan().operators:
        assert operator in text
    assert "peer-2" in text
    assert "limit 1 s" in text
    assert "in the graph of least φ; 2 peers offer it" in text
    assert "a delay of at most 1 s, at most 5 % of the tuples later" in text
    assert "processing capacity" in text
    assert "set up in 200 ms" in text


def test_a_report_is_one_file_without_scripts() -> None:
    page = made(tables=[Table("T", ("a",), [("http://example.org",)])], data={"a": "https://example.org"})
    seen = parsed(page).seen
    assert not seen & {"script", "link", "img", "iframe", "object", "embed", "a"}
    styles = "".join(re.findall(r"<style>(.*?)</style>", page, re.DOTALL))
    assert "url(" not in styles
    assert "@import" not in styles
    without_text = re.sub(r">[^<]*<", "><", page)
    assert "http" not in without_text
    assert not re.search(r"\s(on\w+|src|href|xmlns)=", without_text)


def test_a_report_follows_light_dark_and_narrow_pages() -> None:
    page = made()
    assert "color-scheme: light dark" in page
    assert "@media (prefers-color-scheme: dark)" in page
    assert 'name="viewport"' in page
    assert "@media (max-width: 720px)" in page


def test_foreign_texts_in_a_report_are_escaped() -> None:
    nasty = "<script>alert(1)</script>\" onload='x' &"
    page = made(
        title=nasty,
        lead=nasty,
        verdicts=[Verdict("bad", nasty)],
        numbers=[Number(nasty, nasty, nasty)],
        tables=[Table(nasty, (nasty, "n"), [(nasty, 1)], nasty, bar="n")],
        data={nasty: nasty},
        footer=nasty,
    )
    structure = parsed(page)
    assert "script" not in structure.seen
    assert "".join(structure.text).count("alert(1)") >= 10


def test_results_are_limited_and_drawn_as_bars() -> None:
    page = made(tables=[Table("Rows", ("name", "total"), [(f"r{n}", n) for n in range(1200)], "About.", bar="total")])
    assert "About. The first 1,000 of 1,200 rows." in page
    assert page.count('<td class="bar">') == 1000
    assert '<span style="width:100.0%">' in page
    assert "r1000" not in page


def test_a_rejected_request_is_explained_without_a_graph() -> None:
    plan = monitoring_plan()
    events = [
        RequestSubmitted(1.0, A, "r1", plan="p", operators=list(plan.operators), qos={}),
        ApplicationRejected(1.1, A, "r1", reason=f"sort: no component offers 'sort' at {B}"),
    ]
    page = report(plan, Explanation("r1", events, NAMES), events, title="t")
    text = " ".join(parsed(page).text)
    assert "It does not run: rejected: sort: no component offers 'sort' at peer-2." in text
    assert 'class="synergy-chart"' not in page


def test_delays_are_those_of_the_application_since_it_began() -> None:
    assert delays(journal(monitoring_plan()), "r1") == {
        "sink": [SinkDelays(1.0, 0.005, 0.012, 100), SinkDelays(3.0, 0.006, 1.5, 50)],
    }


def test_a_chart_says_its_values_and_keeps_within_its_frame() -> None:
    chart = delay_chart([SinkDelays(0.5, 0.002, 0.004, 7), SinkDelays(1.5, 0.003, 2.5, 1)], 1.0)
    assert "at 0.5 s: p50 2 ms, p99 4 ms, 7 tuples" in chart
    assert "at 1.5 s: p50 3 ms, p99 2.5 s, 1 tuple<" in chart
    assert "limit 1 s: broken (above it, a tuple is late)" in chart
    assert "limit 9 s (above it, a tuple is late)" in delay_chart([SinkDelays(0.5, 0.002, 0.004, 7)], 9.0)
    for label in ("1 ms", "10 ms", "100 ms", "1 s", "10 s"):
        assert f">{label}</text>" in chart
    heights = [float(y) for y in re.findall(r'c?y[12]?="([\d.-]+)"', chart)]
    assert all(0 <= y <= 300 for y in heights)
    marks = [float(y) for y in re.findall(r'class="p99" cx="[\d.]+" cy="([\d.]+)"', chart)]
    assert marks[1] < float(re.findall(r'class="limit" .*?y1="([\d.]+)"', chart)[0]) < marks[0]


@pytest.mark.parametrize("width", [400.0, 1030.0])
def test_a_chart_of_one_point_without_a_limit_is_drawn(width: float) -> None:
    chart = delay_chart([SinkDelays(0.0, 0.01, 0.01, 1)], None, size=(width, 300.0))
    assert "limit" not in chart
    assert "p50 10 ms" in chart


def test_labels_that_would_meet_are_moved_apart() -> None:
    chart = delay_chart([SinkDelays(1.0, 0.01, 0.0101, 1)], 1.0)
    ends = [float(y) for y in re.findall(r'class="p\d\d-label" x="[\d.]+" y="([\d.]+)"', chart)]
    assert abs(ends[0] - ends[1]) >= 14


def test_operators_are_summarised_in_a_few_words() -> None:
    said = {name: brief(operator) for name, operator in monitoring_plan().operators.items()}
    assert said == {
        "source": "packets",
        "filter": "bytes < 1500 AND link…",
        "aggregate": "sum(bytes)",
        "sort": "total desc",
        "count": "n",
        "compare": "total over 95 %",
        "sink": "top <pairs>",
    }


def test_slack_and_hot_spots_have_a_section_with_the_account() -> None:
    events = list(qos_story.relieved())
    page = report(qos_story.top_pairs(), Explanation("top-1", events, qos_story.NAMES), events, title="hot")
    text = " ".join(parsed(page).text)
    assert "filter -40 ms 720 ms 930 ms 2,400 tuples/s no" in text
    assert "filter at peer-2 has no slack: limit 900 ms - age 10 ms - predicted 930 ms = -40 ms" in text
    assert "moved to peer-5 after 590 ms" in text
    assert "Slack and hot spots" not in made()
