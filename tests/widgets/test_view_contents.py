"""Views and accounts show the events: broken limits, shared streams, parts on Spark, backups, deaths, errors."""

from __future__ import annotations

import re
from typing import Any

import pytest

from synergy_nb import source
from synergy_nb.dataflow.deployments import Deployment
from synergy_nb.dataflow.streams.log.log import Limits
from synergy_nb.events import (
    ApplicationFailed,
    ApplicationRunning,
    ComponentDeployed,
    ComponentMeasurements,
    DataRefused,
    EnginesChosen,
    Event,
    GraphSelected,
    HandlerFailed,
    LinkBroken,
    LinkClosed,
    MessageOutdated,
    MessageRefused,
    PeerDeclaredDead,
    PeerMeasured,
    RequestSubmitted,
    SessionExpired,
)
from synergy_nb.events.journal import Journal
from synergy_nb.plan import Plan
from synergy_nb.plan.derived.active_replicas import replicated as replicated_plan
from synergy_nb.reporting.explanation import Explanation
from synergy_nb.widgets import _static_view as static_view
from synergy_nb.widgets._charts import STYLE, SinkDelays, delay_chart
from synergy_nb.widgets._journal_series import JournalSeries
from synergy_nb.widgets._latest_values import LatestComponent
from synergy_nb.widgets._status_text import status_pieces
from synergy_nb.widgets.report import report
from tests.qos_story import (
    NAMES,
    PEERS,
    START,
    actively_replicated,
    filtered,
    qos,
    replicated,
    story,
    top_pairs,
    weighed_streams,
)
from tests.two_hosts import Pair, arrival, play, reading, trace
from tests.widgets.watched import Watched

on_loop = play  # how the tests that are coroutines run


def read(journal: Journal, application: str | None = "top-1") -> JournalSeries:
    found = JournalSeries(application, NAMES)
    found.read(journal)
    return found


def parts(found: JournalSeries, plan: Plan) -> dict[str, Any]:
    said = status_pieces(found, plan)
    return {piece["operator"]: piece for name, piece in said.items() if name.startswith("part:")}


# -- the last measurement ----------------------------------------------------------------------------------------------


async def test_the_last_measurement_of_a_sink_comes_before_its_end() -> None:
    pair = Pair(read=reading(10, 100), measure_s=1e6)  # the stream is over before the first measurement is due
    pair.deploy("app", trace().sink(delay="2 s"), {"source": "a", "sink": "a"})
    await pair.results("a", "app")
    told = [(kind, detail) for kind, subject, detail in pair.runtimes["a"].events if subject == "app"]
    kinds = [kind for kind, _ in told]
    assert kinds.index("sink_measured") < kinds.index("sink_finished")
    record = next(detail for kind, detail in told if kind == "sink_measured")
    assert (record["tuples"], record["finished"]) == (1000, True)
    assert [measured[2]["tuples"] for measured in pair.measured] == [1000]


async def test_a_removed_sink_reports_its_last_measurements_first() -> None:
    pair = Pair(read=reading(500, 100), measure_s=1e6, limits=Limits(20_000, results=20_000))
    pair.deploy("app", trace().sink(delay="2 s"), {"source": "a", "sink": "a"})
    one = pair.net["a"]
    await arrival(one, "app")
    one.carry_out(Deployment("app", 1))
    told = [detail for kind, _, detail in pair.runtimes["a"].events if kind == "sink_measured"]
    assert len(told) == 1
    assert told[0]["tuples"] > 0


# -- limits ------------------------------------------------------------------------------------------------------------


def vertical(picture: str, kind: str) -> list[float]:
    """Heights at which lines of a class are drawn."""
    return [float(y) for y in re.findall(rf'<line class="{kind}"[^>]* y1="([\d.]+)"', picture)]


def test_a_limit_far_below_all_delays_is_drawn_where_it_is_and_said_to_be_broken() -> None:
    journal = Journal()
    for event in story(0):
        journal.append(event)
    for second in range(1, 20):
        journal.append(qos(START + second, 0.9, 1.2, 100 * second, limit_s=0.001, miss_rate=1.0))
    found = read(journal)
    drawn = static_view.svg(found, top_pairs())
    lowest_tick = max(vertical(drawn, "grid"))
    assert vertical(drawn, "limit")[0] <= lowest_tick
    curve = re.search(r'<polyline class="p50" points="([^"]+)"', drawn)
    assert curve is not None
    assert vertical(drawn, "limit")[0] > max(float(point.split(",")[1]) for point in curve[1].split())
    assert 'class="broken"' in drawn
    assert "limit 1 ms: broken" in drawn
    assert "1 ms, broken" in static_view.text(found, top_pairs())
    assert status_pieces(found)["flow:top-1/sink"]["broken"] == "broken"


def test_a_limit_that_is_exceeded_as_often_as_is_allowed_is_not_broken() -> None:
    journal = story(10)
    journal.append(qos(START + 11, 0.8, 1.2, 2300, miss_rate=0.03))
    assert status_pieces(read(journal))["flow:top-1/sink"]["broken"] == "exceeded"
    assert status_pieces(read(story(10)))["flow:top-1/sink"]["broken"] == ""


def test_the_reports_chart_shows_a_broken_limit() -> None:
    late = [SinkDelays(second, 0.9, 1.2, 10) for second in (1.0, 2.0)]
    chart = delay_chart(late, 0.001)
    (limit,) = vertical(chart, "limit")
    assert (
        min(vertical(chart, "base"))
        > limit
        > max(float(y) for y in re.findall(r'class="p50" cx="[^"]+" cy="([^"]+)"', chart))
    )
    assert 'class="broken"' in chart
    assert "which was exceeded" in chart
    assert 'class="broken"' not in delay_chart(late, 2.0)


# -- where operators run -----------------------------------------------------------------------------------------------


def test_operators_on_spark_are_neither_counted_twice_nor_waiting() -> None:
    journal = Journal()
    part = {"aggregate": ["filter", "aggregate"]}
    journal.append(EnginesChosen(START - 1, PEERS[0], "top-1", reasons={}, parts=part))
    for event in story(10):  # what runs is told by the operators of the plan, those of the part among them
        if not isinstance(event, ComponentDeployed) or event.operator != "filter":
            journal.append(event)
    found = read(journal)
    shown = parts(found, top_pairs())
    assert {name: piece["state"] for name, piece in shown.items()} == dict.fromkeys(top_pairs().operators, "running")
    assert shown["filter"]["on"] == shown["aggregate"]["on"] == "peer-3, Spark"
    assert status_pieces(found)["head"]["facts"] == "top-1 · 7 operators on 5 peers"
    assert "waiting" not in static_view.text(found, top_pairs()).replace("tuples waiting", "")


def shared() -> Journal:
    """An application that begins at the stream of another one."""
    journal = Journal()
    graph = {"sort": PEERS[1], "count": PEERS[2], "aggregate": PEERS[3], "compare": PEERS[1], "sink": PEERS[0]}
    producers = [("other-7", "packets", PEERS[4]), ("other-7", "filter", PEERS[2]), ("other-7", "sums", PEERS[3])]
    operators = list(top_pairs().operators)
    journal.append(
        RequestSubmitted(START - 0.2, PEERS[0], "top-1", plan="top pairs", operators=operators, qos={"delay": 1.0})
    )
    for operator, peer in graph.items():
        journal.append(ComponentDeployed(START - 0.1, peer, "top-1", operator=operator))
    shared = {"aggregate": ("other-7", "sums")}
    journal.append(
        ApplicationRunning(START, PEERS[0], "top-1", peers=graph, shared=shared, producers={"aggregate": producers})
    )
    return journal


def test_shared_operators_say_whose_stream_they_use_and_on_which_peers_it_is_made() -> None:
    found = read(shared())
    shown = parts(found, top_pairs())
    assert shown.keys() == top_pairs().operators.keys()
    assert (shown["aggregate"]["on"], shown["aggregate"]["state_text"]) == ("peer-4", "from other-7")
    assert (shown["filter"]["on"], shown["filter"]["state_text"]) == ("peer-3", "within other-7")
    assert shown["source"]["on"] == "peer-3, peer-4, peer-5"  # by another name there: one of these
    assert {shown[name]["state"] for name in ("aggregate", "filter", "source")} == {"shared"}
    said = static_view.text(found, top_pairs())
    assert "no peer yet" not in said
    assert "peer-3, within other-7" in said


def test_the_report_of_a_shared_plan_says_where_its_streams_come_from() -> None:
    events = list(shared())
    assert isinstance(events[-1], ApplicationRunning)
    graph = events[-1].peers
    events.insert(1, GraphSelected(START - 0.15, PEERS[0], "top-1", peers=graph, phi=0.1, delay_s=0.1))
    page = report(top_pairs(), Explanation("top-1", events, NAMES), events, title="shared")
    assert "within other-7" in page
    assert "peer-4, shared" in page


# -- replicas ----------------------------------------------------------------------------------------------------------


def test_backups_a_death_and_a_take_over_leave_their_marks_everywhere() -> None:
    journal = replicated()
    found = read(journal)
    said = status_pieces(found, top_pairs())
    marks = [mark["text"] for mark in said["marks"]["list"]]
    assert marks[0].startswith("backups were placed: filter on peer-4, ")
    assert marks[1:] == ["peer-2 died with filter, the backup of aggregate", "the backup on peer-4 took over filter"]
    assert [mark["label"] for mark in said["marks"]["list"]] == ["", "peer-2 died", "taken over"]
    assert said["head"]["sentence"] == "peer-2 died; 2 replicas were placed, 1 left of filter, aggregate."
    assert "2 replicas" in said["head"]["facts"]
    shown = parts(found, top_pairs())
    assert shown["sort"]["on"] == "peer-4 + peer-5"
    assert "no backup is left" in shown["filter"]["tip"]
    for picture in (static_view.text(found, top_pairs()), static_view.svg(found, top_pairs())):
        assert "peer-2 died with filter" in picture
        assert "took over filter" in picture
        assert "2 replicas were placed, 1 left of filter" in picture
    assert static_view.svg(found, top_pairs()).count('class="event"') == 2
    explained = Explanation("top-1", list(journal), NAMES)
    assert explained.left == {"filter": 1, "aggregate": 1}
    assert "2 replicas of each component were placed; 1 left of filter, aggregate" in str(explained)
    page = report(top_pairs(), explained, list(journal), title="replicated")
    assert "peer-2 died with filter" in page
    assert 'class="event-label"' in page
    assert "2 replicas of each component were placed; 1 left of filter, aggregate." in page


def test_active_replicas_are_drawn_beside_their_operators_and_lost_ones_say_why() -> None:
    found = read(actively_replicated())
    said = status_pieces(found, filtered())
    facts = said["head"]["facts"]
    assert "2 of 3 active replicas of filter · 1 of 3 active replicas of project" in facts
    assert "network cost 5.5 times that without replicas" in facts
    assert "5 operators on 3 peers" in facts
    short = "3 active replicas were asked for, 1 left of project; 2 left of filter"
    assert said["head"]["sentence"] == f"peer-2 died; {short}."
    shown = parts(found, filtered())
    assert set(shown) == {"source", "filter", "filter~1", "filter~2", "project", "project~1", "project~2", "sink"}
    assert {name: part["replica_of"] for name, part in shown.items() if part["replica_of"]} == {
        "filter~1": "filter", "filter~2": "filter", "project~1": "project", "project~2": "project",
    }  # fmt: skip
    assert (shown["project~2"]["state"], shown["project~2"]["state_text"]) == ("dead", "replica lost")
    assert "lost: out of memory" in shown["project~2"]["tip"]
    assert "lost: peer-2 died" in shown["filter"]["tip"]
    assert (shown["filter~1"]["state"], shown["filter~1"]["on"]) == ("running", "peer-3")
    assert "active replicas of filter: 2 of 3 run" in shown["filter~1"]["tip"]
    marks = [(mark["label"], mark["text"]) for mark in said["marks"]["list"]]
    assert marks == [
        ("peer-2 died", "peer-2 died with filter, project"),
        ("", "filter, project at peer-2 lost, peer-2 died: 2 of 3 left of filter, 2 of 3 left of project"),
        ("replica lost", "project~2 at peer-4 lost, out of memory: 1 of 3 left of project"),
    ]
    for picture in (static_view.text(found, filtered()), static_view.svg(found, filtered())):
        assert "filter~2" in picture
        assert "project~2 at peer-4 lost" in picture
    assert re.search(r"⊘.* project~2 .*peer-4, replica lost", static_view.text(found, filtered()))


def test_the_plan_is_drawn_again_when_its_replicas_are_placed() -> None:
    events = list(actively_replicated())
    journal = Journal(1000)
    view = Watched(journal, filtered(), application="top-1")
    view.on_page_message("ready")
    try:
        assert list(view.sent[-1]["set"]["plan"]["labels"]) == ["source", "filter", "project", "sink"]
        for event in events:
            journal.append(event)
        view.on_page_message("ready", "another")
        picture = view.sent[-1]["set"]["plan"]
        assert list(picture["labels"]) == list(replicated_plan(filtered(), 3).operators)
        assert [ghost for _, _, ghost, *_ in picture["right"]["links"]].count(False) == 3
        assert len(picture["right"]["links"]) == 3 + 9 + 3
    finally:
        view.close()


def test_who_is_first_utilities_costs_and_discarded_streams_are_shown() -> None:
    found = read(weighed_streams())
    said = status_pieces(found)
    sink = next(piece for piece in said.values() if piece.get("operator") == "sink")
    assert "first: project 30 %, project~1 70 %" in sink["tip"], "of the last 30 s, not since it began"
    assert "50 % of the cost of all streams, target θ 40 % · 1 stream discarded" in said["head"]["facts"]
    assert said["streams"]["project~1 sink"] == {
        "gone": False,
        "tip": "project~1 to sink: first for 70 % of the tuples; utility 0.7, 1 kB on the way",
    }
    assert said["streams"]["filter~2 project"] == {"gone": True, "tip": "filter~2 to project is discarded"}
    assert "filter project~1" not in said["streams"], "it was revived"
    marks = [(mark["label"], mark["text"]) for mark in said["marks"]["list"]]
    least = "discarded, least useful for their cost: filter to project~1, filter~2 to project"
    assert marks[-2:] == [
        ("2 streams discarded", f"{least}; network cost 2 kB on the way instead of 3 kB"),
        ("stream revived", "filter to project~1 revived, as its other streams were 12 s late"),
    ]
    account = str(Explanation("top-1", list(weighed_streams()), NAMES))
    cost = "network cost 3 kB on the way of 6 kB with all streams, target θ 40 %"
    assert f"{cost}; utility of streams: project~1 to sink 0.7, project to sink 0.3" in account
    assert "streams" not in status_pieces(read(replicated()))


def test_counts_begin_anew_with_a_component() -> None:
    component = LatestComponent("top-1", "sink", PEERS[0])
    for time, counts in ((0.0, {"a": 90, "b": 10}), (10.0, {"a": 95, "b": 15}), (20.0, {"a": 0, "b": 5})):
        component.count_firsts(time, counts)
    assert component.first_shares() == {}
    component.count_firsts(30.0, {"a": 15, "b": 10})
    assert component.first_shares() == {"a": 0.75, "b": 0.25}
    component.count_firsts(60.0, {"a": 15, "b": 20})
    assert component.first_shares() == {"a": 0.0, "b": 1.0}, "what is older than 30 s does not count"


def test_a_death_is_marked_once_and_not_where_it_does_not_matter() -> None:
    journal = replicated()
    before = len(status_pieces(read(journal))["marks"]["list"])
    for observer in (PEERS[2], PEERS[3]):
        journal.append(PeerDeclaredDead(START + 6, observer, PEERS[1], incarnation=0))
    journal.append(PeerDeclaredDead(START + 6, PEERS[2], "tcp://10.0.0.9:1", incarnation=0))
    assert len(status_pieces(read(journal))["marks"]["list"]) == before


# -- failures ----------------------------------------------------------------------------------------------------------


def events_without_origin() -> list[Event]:
    """What is left of the journals when the origin has died with its own."""
    return [event for event in story(3) if event.subject == "top-1" and event.peer != PEERS[0]]


def test_explain_contains_a_failure_that_only_other_peers_recorded() -> None:
    events = [*events_without_origin(), SessionExpired(START + 4, PEERS[1], "top-1", origin=PEERS[0])]
    assert Explanation("top-1", events, NAMES).outcome == "failed: its origin peer-1 died or does not answer"


@pytest.mark.parametrize("events", [[], events_without_origin()], ids=["no events", "events of others"])
def test_explain_contains_a_failure_that_only_the_client_knows(events: list[Event]) -> None:
    state = "failed", f"peer {PEERS[0]} does not answer: connection refused"
    explained = Explanation("top-1", events, NAMES, state)
    assert explained.outcome == "failed: peer-1 does not answer: connection refused"
    assert "being composed" not in str(explained)


def test_explain_prefers_the_end_in_the_journal_to_that_of_the_client() -> None:
    end = ApplicationFailed(START + 4, PEERS[0], "top-1", reason=f"filter at {PEERS[1]}: no column x")
    explained = Explanation("top-1", [*story(3), end], NAMES, ("stopped", ""))
    assert explained.outcome == "failed: filter at peer-2: no column x"


# -- errors of peers ---------------------------------------------------------------------------------------------------

TROUBLES = [
    HandlerFailed(START + 2, PEERS[1], "Probe", error="KeyError: 'filter'"),
    LinkBroken(START + 3, PEERS[1], PEERS[2], reason="connection closed"),
    LinkBroken(START + 3, PEERS[3], PEERS[2], reason="connection closed"),
    DataRefused(START + 4, PEERS[2], PEERS[1], reason="12 bytes; expected 16"),
    MessageRefused(START + 4, PEERS[2], PEERS[1], reason="malformed message", message="no field"),
    HandlerFailed(START + 5, PEERS[1], "Probe", error="KeyError: 'filter'"),
]
HARMLESS = [
    LinkClosed(START + 2, PEERS[1], "client-host-1", reason="connection closed"),
    MessageOutdated(START + 2, PEERS[1], "top-1", reason="stale attempt", sender=PEERS[2], message=""),
]
SAID = [
    "peer-2: handling Probe raised KeyError: 'filter' (2 times)",
    "peer-2, peer-4: the link to peer-3 broke: connection closed",
    "peer-3: data from peer-2 were refused: 12 bytes; expected 16",
    "peer-3: a message of peer-2 was refused: malformed message: no field",
]


def test_errors_of_peers_are_in_view_text_report_and_explanation() -> None:
    journal = story(6)
    for event in (*HARMLESS, *TROUBLES):
        journal.append(event)
    found = read(journal)
    told = status_pieces(found)["troubles"]["list"]
    assert [(each["peers"], each["count"]) for each in told] == [
        ("peer-2", "2 times"),
        ("peer-3", ""),
        ("peer-3", ""),
        ("peer-2, peer-4", ""),
    ]
    explained = Explanation("top-1", list(journal), NAMES)
    page = report(top_pairs(), explained, list(journal), title="errors")
    for said in SAID:
        assert said in static_view.text(found, top_pairs())
        assert said in str(explained)
        assert said.replace("'", "&#x27;") in page
    assert "Errors of peers" in static_view.svg(found, top_pairs())


def test_errors_before_an_application_or_elsewhere_are_not_its_own() -> None:
    journal = Journal()
    journal.append(HandlerFailed(START - 100, PEERS[1], "Probe", error="old"))
    for event in story(6):
        journal.append(event)
    journal.append(HandlerFailed(START + 2, "tcp://10.0.0.9:1", "Probe", error="elsewhere"))
    assert status_pieces(read(journal))["troubles"]["list"] == []
    assert len(status_pieces(read(journal, None))["troubles"]["list"]) == 2


def test_a_plan_without_replicas_says_nothing_of_them() -> None:
    plan = source("packets", seed=1).sink()
    assert status_pieces(JournalSeries("a"), plan)["marks"] == {"list": []}


# -- what replicas do not cover ----------------------------------------------------------------------------------------


def test_explain_says_whose_death_ends_a_replicated_application() -> None:
    explained = Explanation("top-1", list(replicated()), NAMES)
    assert explained.uncovered == {"peer-1": ["source", "sink", "its results"]}
    said = "Replicas cover filter, aggregate, sort, count, compare. "
    said += "The application ends when peer-1 (source, sink, its results) dies."
    assert said in str(explained)
    assert said in report(top_pairs(), explained, list(replicated()), title="replicated")
    assert Explanation("top-1", list(story(1)), NAMES).coverage == ""


# -- lines and loads that can be told apart ----------------------------------------------------------------------------


def test_sinks_that_are_named_alike_have_the_id_of_their_application() -> None:
    journal = story(2)
    found = read(journal, None)
    assert [piece["label"] for name, piece in status_pieces(found).items() if name.startswith("flow:")] == ["top pairs"]
    found = read(story(2, journal=journal, application="top-2"), None)
    labels = [piece["label"] for name, piece in status_pieces(found).items() if name.startswith("flow:")]
    assert labels == ["top pairs (top-1)", "top pairs (top-2)"]


@pytest.mark.parametrize(
    ("work", "reason"),
    [
        (0.42, "its operators use 44 %, more than was reserved"),
        (0.05, "its operators use 7 %; the rest is work of the peer"),
    ],
)
def test_a_load_far_beyond_the_promised_one_is_explained(work: float, reason: str) -> None:
    journal = story(2)
    busy = PEERS[1]
    operator = next(each.operator for each in journal if isinstance(each, ComponentDeployed) and each.peer == busy)
    # the other operator there uses 2 %
    part = ComponentMeasurements("top-1", operator, "filter", 10.0, 10.0, work, 0.01, 0.0, 0, 0, None, 0)
    journal.append(PeerMeasured(START + 9, busy, busy, 0.46, 0, 1.0, 0.01, [part]))
    piece = status_pieces(read(journal), top_pairs())["loads"]
    assert "Promised is what admitted plans have reserved" in piece["about"]
    assert [NAMES[busy] in sentence and reason in sentence for sentence in piece["list"]] == [True]
    assert "uses 46 %, and 1 % are promised" in piece["list"][0]
    drawn = static_view.svg(read(journal), top_pairs())
    assert "46 %, and 1 % are promised" in drawn


def test_broken_links_to_a_peer_that_is_shown_as_dead_are_no_errors_any_more() -> None:
    journal = story(2)
    broken = LinkBroken(START + 3, PEERS[1], PEERS[2], reason="no process listens there")
    journal.append(broken)
    found = read(journal)
    assert len(status_pieces(found)["troubles"]["list"]) == 1
    found.peer(PEERS[2]).dead = True
    assert status_pieces(found)["troubles"]["list"] == []


def test_predicted_times_that_are_not_those_measured_are_shown_as_off_everywhere() -> None:
    """A prediction of 740 ns beside 561 µs was shown without a word."""
    journal = story(2)
    numbers = (10.0, 10.0, 0.01, 5e-4, 0.0, 0, 0, None, 0)
    given: dict[str, Any] = {"slack": 0.5, "predicted_s": 7.4e-7, "measured_s": 5.61e-4, "predicted_rate": 10.0}
    part = ComponentMeasurements("top-1", "filter", "filter", *numbers, **given, prediction_off=561.0)
    measured = PeerMeasured(START + 9, PEERS[1], PEERS[1], 0.46, 0, 1.0, 0.01, [part])
    journal.append(measured)
    piece = status_pieces(read(journal), top_pairs())["part:top-1/filter"]
    assert "predicted times are off: 561 times too short" in piece["tip"]
    assert "off 0.74 µs (561 times too short)" in static_view.text(read(journal), top_pairs())
    assert ">off 0.74 µs<" in static_view.svg(read(journal), top_pairs())
    page = report(top_pairs(), Explanation("top-1", list(journal), NAMES), list(journal), title="off")
    assert "561 times too short" in page


def test_p50_lies_on_a_wider_p99_where_both_are_the_same() -> None:
    drawn = delay_chart([SinkDelays(at, 0.5, 0.5, 1) for at in (0.0, 1.0)], 1.0)
    assert drawn.index('<polyline class="p99"') < drawn.index('<polyline class="p50"')
    widths = {name: float(width) for name, width in re.findall(r"polyline\.(p\d\d)\{[^}]*stroke-width:([\d.]+)", STYLE)}
    assert widths["p99"] > 2 * widths["p50"]
