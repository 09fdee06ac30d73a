"""A journal becomes lines and status texts: the same for any portions, of bounded size, with all notable events."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from synergy_nb.events import (
    ENDINGS,
    ApplicationFinished,
    ApplicationPaused,
    ApplicationRunning,
    ApplicationStopped,
    ClusterClosed,
    ComponentDeployed,
    ComponentMoved,
    ComponentUndeployed,
    EnginesChanged,
    EnginesChosen,
    Event,
    GraphSelected,
    HotSpotDetected,
    HotSpotDismissed,
    MigrationDecided,
    MigrationEnded,
    MoveBegun,
    MoveGivenUp,
    OperatorFailed,
    PeerAnswers,
    PeerDeclaredDead,
    PeerMeasured,
    PeerRefutedDeath,
    PeerSilent,
    PeerStarted,
    RequestSubmitted,
    SessionExpired,
    SessionLeft,
    SinkMeasured,
)
from synergy_nb.events.application_states import ENDED, Status
from synergy_nb.events.journal import Journal
from synergy_nb.widgets._journal_series import MOST_APPLICATIONS, JournalSeries
from synergy_nb.widgets._line_history import COARSE, RECENT, Line
from synergy_nb.widgets._static_view import text
from synergy_nb.widgets._status_text import shown_peers, status_pieces
from tests.qos_story import NAMES, PEERS, START, measured, qos, relieved, story, top_pairs

OF = "top-1/sink"


def points(line: Line) -> list[tuple[float, float]]:
    return list(zip(*line.points(), strict=True))


def readings(journal: Journal, application: str | None = "top-1") -> JournalSeries:
    found = JournalSeries(application, NAMES)
    found.read(journal)
    return found


# -- lines -------------------------------------------------------------------------------------------------------------


@given(st.lists(st.floats(-10, 10), max_size=300), st.lists(st.integers(1, 40), min_size=1, max_size=30))
def test_a_line_does_not_depend_on_the_portions_in_which_it_is_read(values: list[float], portions: list[int]) -> None:
    line = Line()
    taken: list[tuple[float, float]] = []
    waiting = 0
    for place, value in enumerate(values):
        line.append(float(place), value)
        waiting -= 1
        if waiting <= 0:
            waiting = portions[place % len(portions)]
            whole, times, found = line.drain()
            taken = ([] if whole else taken) + list(zip(times, found, strict=True))
    whole, times, found = line.drain()
    taken = ([] if whole else taken) + list(zip(times, found, strict=True))
    assert taken == points(line) == list(zip(map(float, range(len(values))), values, strict=True))
    assert line.drain()[0] is False
    assert not line.fresh


@pytest.mark.parametrize("portion", [1, 700, 5000, 10**9])
def test_a_long_line_is_thinned_the_same_for_every_reader(portion: int) -> None:
    line = Line()
    taken: list[tuple[float, float]] = []
    count = 20_000
    for place in range(count):
        line.append(float(place), 9.0 if place == 300 else math.sin(place / 50))
        if place % portion == 0:
            whole, times, values = line.drain()
            taken = ([] if whole else taken) + list(zip(times, values, strict=True))
    assert len(line) <= COARSE + 2 * RECENT
    kept = points(line)
    assert [time for time, _ in kept] == sorted({time for time, _ in kept})
    assert kept[-RECENT:] == [(float(place), math.sin(place / 50)) for place in range(count - RECENT, count)]
    assert (300.0, 9.0) in kept  # the peak stays
    assert kept[0][0] <= 64
    assert max(b - a for (a, _), (b, _) in pairwise(kept)) <= 64
    whole, times, values = line.drain()
    taken = ([] if whole else taken) + list(zip(times, values, strict=True))
    assert taken[-RECENT:] == kept[-RECENT:]
    assert set(kept) <= set(taken)  # who followed has at least what is kept


def test_a_gap_in_time_interrupts_a_line() -> None:
    line = Line()
    for time in (0.0, 0.5, 1.0, 20.0, 20.5):
        line.append(time, 1.0)
    found = points(line)
    assert [time for time, value in found if math.isnan(value)] == [10.5]
    assert len(found) == 6


def test_points_that_are_regularly_rare_are_connected() -> None:
    line = Line()
    for number in range(40):
        line.append(20.0 * number, 1.0)
    assert not any(math.isnan(value) for _, value in points(line)[20:])  # it has learnt their distance


def test_points_with_earlier_times_are_dropped_from_a_line() -> None:
    line = Line()
    for time in (1.0, 1.0, 0.5, 2.0):
        line.append(time, 0.0)
    times = [time for time, _ in points(line)]
    assert times == sorted(set(times))
    assert times[-1] == 2.0


def test_an_interruption_outlives_thinning() -> None:
    line = Line()
    for place in range(9 * RECENT):
        line.append(float(place) + (500.0 if place > 1000 else 0.0), 1.0)
    assert sum(math.isnan(value) for _, value in points(line)) == 1


# -- readings ----------------------------------------------------------------------------------------------------------


def test_delay_throughput_and_load_become_lines() -> None:
    found = readings(story(60))
    events = list(story(60))
    delays = [event for event in events if isinstance(event, SinkMeasured)]
    assert points(found.lines["p99", OF]) == [(event.time, event.delay_p99_s) for event in delays]
    assert [value for _, value in points(found.lines["rate", OF])[4:]] == [200.0] * 116
    loads = [event for event in events if isinstance(event, PeerMeasured) and event.peer == PEERS[2]]
    assert points(found.lines["load", PEERS[2]]) == [(event.time, event.cpu / 0.5) for event in loads]
    assert found.flows["top-1", "sink"].tuples == 12_000


@pytest.mark.slow
@given(st.lists(st.integers(1, 200), min_size=1, max_size=8))
def test_readings_do_not_depend_on_the_portions(portions: list[int]) -> None:
    whole = story(30)
    growing = Journal()
    found = JournalSeries("top-1", NAMES)
    for place, event in enumerate(whole):
        growing.append(event)
        if place % portions[place % len(portions)] == 0:
            found.read(growing)
    found.read(growing)
    once = readings(whole)
    assert status_pieces(found) == status_pieces(once)
    assert {key: points(line) for key, line in found.lines.items()} == {
        key: points(line) for key, line in once.lines.items()
    }


def test_events_of_other_applications_are_ignored() -> None:
    journal = story(10)
    before = status_pieces(readings(journal))
    news = JournalSeries("top-1", NAMES)
    news.read(journal)
    journal.append(qos(START + 11, 5.0, 5.0, 10, application="another"))
    journal.append(SessionLeft(START + 11, PEERS[1], "top-1", reason=""))
    assert not news.read(journal)
    assert not news.read(journal)
    assert status_pieces(news) == before
    both = readings(journal, None)
    assert {key[0] for key in both.flows} == {"top-1", "another"}


def test_throughput_is_smooth_though_results_of_windows_come_in_bursts() -> None:
    journal = story(0)
    for half in range(1, 41):  # 100 results at every full second, none between
        burst = half % 2 == 0
        rate = 200.0 if burst else 0.0
        delay = 0.01 if burst else None
        journal.append(qos(START + half / 2, delay, delay, 100 * (half // 2), tuples_per_s=rate))
    found = readings(journal)
    assert {value for _, value in points(found.lines["rate", OF])[6:]} == {100.0}
    delays = points(found.lines["p50", OF])
    assert len(delays) == 20
    assert not any(math.isnan(value) for _, value in delays)


def test_misses_are_counted_by_tuples() -> None:
    journal = story(0)
    journal.append(qos(START + 1, 0.1, 0.2, 100, miss_rate=0.0))
    journal.append(qos(START + 2, 2.0, 2.0, 400, miss_rate=0.5))
    found = readings(journal).flows["top-1", "sink"]
    assert found.missed_share == 150 / 400


def test_sums_include_only_what_the_journal_retains() -> None:
    journal = Journal()
    journal.append(qos(START, 0.1, 0.2, 50_000, miss_rate=0.0))
    journal.append(qos(START + 1, 0.1, 0.2, 50_100, miss_rate=0.5))
    found = readings(journal).flows["top-1", "sink"]
    assert (found.tuples, found.counted, found.missed) == (50_100, 100, 50.0)
    said = status_pieces(JournalSeries("unknown"))["head"]
    assert said["status"] == "being composed"


def test_a_bounded_number_of_applications_is_remembered() -> None:
    found = JournalSeries()
    for number in range(3 * MOST_APPLICATIONS):
        name = f"a{number}"
        found.add_events([RequestSubmitted(number, PEERS[0], name, plan="p", operators=["sink"], qos={})])
        found.add_events([ApplicationRunning(number, PEERS[0], name, peers={"sink": PEERS[0]})])
        found.add_events([qos(number + 0.5, 0.1, 0.1, 5, application=name)])
        found.add_events([ApplicationFinished(number + 0.6, PEERS[0], name, reason="")])
    assert len(found.runs) == len(found.flows) == len(found.components) == MOST_APPLICATIONS
    assert len(found.lines) == 4 * MOST_APPLICATIONS
    assert sum(name.startswith("flow:") for name in status_pieces(found)) == 5  # the last that ended


# -- standing ----------------------------------------------------------------------------------------------------------


def head(found: JournalSeries) -> tuple[str, str, str]:
    said = status_pieces(found, top_pairs())["head"]
    return said["glyph"], said["status"], said["sentence"]


def test_an_application_within_its_limit_is_described_as_running() -> None:
    said = status_pieces(readings(story(60)))
    assert said["head"]["title"] == "top pairs"
    assert said["head"]["facts"] == "top-1 · 7 operators on 5 peers"
    assert said["head"]["span"] == 60
    assert said["head"]["tone"] == "good"
    assert said["head"]["sentence"].startswith("Within its limit: 99 % of the last results took at most ")
    flow = said["flow:top-1/sink"]
    assert (flow["limit"], flow["allowed_miss"], flow["delay_met"], flow["miss_met"]) == ("1 s", "5 %", True, True)
    assert (flow["rate"], flow["tuples"], flow["miss"], flow["missed"]) == (
        "200 tuples/s",
        "12,000 results",
        "0 %",
        "0 %",
    )
    assert flow["limits"] == {"delay": 1.0, "miss": 0.05, "rate": None}
    assert [said[f"peer:{peer}"]["name"] for peer in PEERS] == list(NAMES.values())
    assert [said[f"peer:{peer}"]["rank"] for peer in PEERS] == [0, 1, 2, 3, 4]
    assert said[f"peer:{PEERS[0]}"]["promised_text"] == "30 %"
    assert {said[f"part:top-1/{name}"]["state"] for name in top_pairs().operators} == {"running"}
    assert said["part:top-1/filter"]["rate"] == "100 tuples/s"
    assert "queue" in said["part:top-1/filter"]["tip"]


@pytest.mark.parametrize(
    ("status", "reason", "said"),
    [
        ("rejected", f"delay at {PEERS[1]}", ("✕", "rejected", "Not admitted: delay at peer-2.")),
        ("failed", f"peer {PEERS[1]} died (filter)", ("✕", "failed", "Failed: peer-2 died (filter).")),
        ("stopped", "", ("■", "stopped", "Stopped after 2,000 results, on request.")),
        ("finished", "", ("✓", "finished",
                                      "Every stream has ended after 11 s: 2,000 results, 0 % later than its limit.")),
    ],
)  # fmt: skip
def test_the_end_of_an_application_is_described_in_a_sentence(
    status: str, reason: str, said: tuple[str, str, str]
) -> None:
    journal = story(10)
    journal.append(ENDINGS[Status(status)](START + 11, PEERS[0], "top-1", reason))
    found = readings(journal)
    assert head(found) == said
    assert status_pieces(found)["part:top-1/filter"]["state"] == "stopped"
    assert status in ENDED


def test_a_finished_application_stays_finished_when_its_results_are_released() -> None:
    journal = story(10)
    for kind in (ApplicationFinished, ApplicationStopped):
        journal.append(kind(START + 11, PEERS[0], "top-1"))
    assert head(readings(journal))[1] == "finished"


def test_the_status_before_the_first_result_says_what_is_awaited() -> None:
    assert head(readings(Journal())) == (
        "○",
        "being composed",
        "The peers are composing it: they look for a peer for each operator.",
    )
    assert head(readings(story(0))) == ("●", "running", "No result has arrived yet.")


def test_late_results_are_shown_in_words_and_by_a_glyph() -> None:
    journal = story(10)
    journal.append(qos(START + 11, 0.8, 1.2, 2300, miss_rate=0.03))
    assert head(readings(journal)) == ("●", "running", "3 % of the last results took longer than 1 s; 5 % may.")
    journal.append(qos(START + 12, 0.8, 1.2, 2600, miss_rate=0.25))
    found = readings(journal)
    assert head(found) == ("▲", "running", "Too late: 25 % of the last results took longer than 1 s.")
    assert status_pieces(found)["head"]["tone"] == "bad"
    assert status_pieces(found)["flow:top-1/sink"]["miss_met"] is False


def states(found: JournalSeries) -> dict[str, str]:
    said = status_pieces(found)
    return {name: said[f"part:top-1/{name}"]["state"] for name in top_pairs().operators}


def happened(*events: Event) -> JournalSeries:
    journal = story(10)
    for event in events:
        journal.append(event)
    return readings(journal)


def test_the_memory_of_operators_is_shown_with_their_share() -> None:
    parts = [
        {"operator": "aggregate", "memory_bytes": 12_345_678, "memory_share": 256e6},
        {"operator": "sort", "memory_bytes": 999, "memory_share": None},
        {"operator": "filter", "memory_bytes": 0, "memory_share": 256e6},
    ]
    found = happened(measured(START + 11, PEERS[1], components=parts))
    said = status_pieces(found)
    assert "12.3 MB of its 256 MB of memory held" in said["part:top-1/aggregate"]["tip"].splitlines()
    assert "999 B of memory held" in said["part:top-1/sort"]["tip"].splitlines()
    assert "memory" not in said["part:top-1/filter"]["tip"]
    assert "aggregate (running, 12.3 MB of its 256 MB of memory)" in text(found)


def test_components_wait_run_fail_and_are_lost_with_their_peer() -> None:
    assert set(states(readings(story(0))).values()) == {"running"}
    journal = Journal()
    for event in story(0):
        if not isinstance(event, ApplicationRunning):
            journal.append(event)
    assert set(states(readings(journal)).values()) == {"waiting"}
    failed = OperatorFailed(START + 11, PEERS[1], "top-1", operator="filter", reason="no such column")
    found = happened(failed)
    assert states(found)["filter"] == "failed"
    assert "no such column" in status_pieces(found)["part:top-1/filter"]["tip"]
    for gone in (PeerSilent(START + 11, "", PEERS[1], reason=""), PeerDeclaredDead(START + 11, "", PEERS[1], 0)):
        lost = happened(gone)
        assert {name for name, state in states(lost).items() if state == "dead"} == {"filter", "sink"}
        assert head(lost)[2] in ("peer-2 does not answer.", "peer-2 died.")


def test_a_component_is_shown_at_its_peer_after_a_move_and_after_a_failed_one() -> None:
    operator, here, there = "filter", PEERS[1], PEERS[4]
    begun = ComponentDeployed(START + 11, there, "top-1", operator=operator)
    graph = {name: PEERS[number % len(PEERS)] for number, name in enumerate(top_pairs().operators)} | {operator: there}
    found = happened(
        begun,
        ComponentMoved(START + 11.5, PEERS[0], "top-1", operator=operator, at=here, to=there, seconds=0.5, peers=graph),
        ComponentUndeployed(START + 11.6, here, "top-1", operator=operator),
    )
    assert states(found)[operator] == "running"
    assert found.components["top-1", operator].peer == there
    assert status_pieces(found)["marks"]["list"][-1]["text"] == "filter moved from peer-2 to peer-5"
    gone = ComponentUndeployed(START + 11.6, there, "top-1", operator=operator)
    refused = MoveGivenUp(START + 11.5, PEERS[0], "top-1", operator=operator, to=there, reason=f"peer {there} died")
    for events in ((begun, refused, gone), (begun, gone, refused)):
        found = happened(*events)
        assert states(found)[operator] == "running"
        assert found.components["top-1", operator].peer == here
        said = status_pieces(found)["marks"]["list"][-1]["text"]
        assert said == "filter did not move to peer-5: peer-5 died"


def test_a_migration_is_shown_with_its_reason_the_answers_of_peers_and_its_duration() -> None:
    found = readings(relieved())
    said = [mark["text"] for mark in status_pieces(found)["marks"]["list"]]
    assert said == [
        "peer-2 is overloaded: load 0.9, predicted 1.3",
        "filter has no slack at peer-2: limit 900 ms - age 10 ms - predicted 930 ms = -40 ms, for 60 tuples in 1 s",
        "filter is to leave peer-2: 2,600 tuples/s before, 200 tuples/s without",
        "peer-3 refuses filter: its utilisation would be 1.20",
        "peer-5 accepts filter",
        "filter moved from peer-2 to peer-5 in 350 ms, since it had no slack there",
    ]
    assert [mark["label"] for mark in status_pieces(found)["marks"]["list"]] == ["", "hot spot", "", "", "", "moved"]
    slack = status_pieces(found)["part:top-1/filter"]["slack"]
    assert (slack["now"], slack["least"], slack["used_up"], slack["was_used_up"]) == ("720 ms", "-40 ms", False, True)
    times, values = found.line("slack", "top-1/filter").points()
    assert min(values) == -0.04
    assert len(times) == 30
    assert status_pieces(found)[f"peer:{PEERS[1]}"]["predicted"] == 1.3


def begun(until: type[Event]) -> JournalSeries:
    """What a view has read of a migration until the first event of a type."""
    journal = Journal()
    for event in relieved():
        journal.append(event)
        if isinstance(event, until):
            return readings(journal)
    raise AssertionError(until)


def test_while_a_component_moves_its_state_names_the_peer() -> None:
    assert status_pieces(begun(HotSpotDetected))["head"]["sentence"].endswith("; no slack is left at filter at peer-2.")
    piece = status_pieces(begun(MoveBegun))["part:top-1/filter"]
    assert piece["moving"] == "moving to peer-5"
    assert piece["tip"].startswith("moving to peer-5")
    assert status_pieces(begun(ComponentMoved))["part:top-1/filter"]["moving"] == ""


def test_a_hot_spot_that_lasts_is_one_mark_and_a_repeated_reason_one_line() -> None:
    journal = relieved()
    (hot,) = (event for event in journal if isinstance(event, HotSpotDetected))
    dismissed = HotSpotDismissed(START + 31, PEERS[1], "top-1", operator="filter", reason="it has moved recently")
    later = [msgspec.structs.replace(hot, time=START + 31 + second) for second in range(5)]
    found = happened(*(each for one in later for each in (one, dismissed)))
    assert [mark["label"] for mark in status_pieces(found)["marks"]["list"]] == ["hot spot", ""]
    assert status_pieces(found)["marks"]["list"][-1]["text"] == "peer-2 does not act: it has moved recently"


def test_migrations_that_were_only_observed_or_failed_are_shown() -> None:
    cause = ("other-1", "sort")
    decided = MigrationDecided(
        START + 11, PEERS[1], "top-1", operator="filter", cause=cause, selected=["top-1/filter"], rate=900.0,
        remaining_rate=100.0, slacks={}, candidates=[PEERS[2]], loads={}, act=False,
    )  # fmt: skip
    found = happened(decided, decided)
    said = "peer-2 only observes: filter would leave it, 900 tuples/s before, 100 tuples/s without; it would ask peer-3"
    assert [mark["text"] for mark in status_pieces(found)["marks"]["list"]] == [said]
    ended = MigrationEnded(
        START + 12, PEERS[1], "top-1", "filter", cause, "", failure="no peer accepts it", seconds=1.0
    )
    found = happened(msgspec.structs.replace(decided, act=True), ended)
    assert status_pieces(found)["marks"]["list"][-1]["text"] == "filter did not leave peer-2: no peer accepts it"


def test_the_application_that_had_no_slack_shows_that_another_left_its_peer() -> None:
    cause = ("top-1", "filter")
    ended = MigrationEnded(START + 12, PEERS[1], "other-1", "sort", cause, PEERS[2], failure="", seconds=1.0)
    found = happened(ended)
    assert status_pieces(found)["marks"]["list"][-1]["text"] == "sort of other-1 left peer-2 for peer-3"


@pytest.mark.parametrize(
    "back",
    [
        PeerAnswers(START + 12, "", PEERS[1]),
        PeerRefutedDeath(START + 12, PEERS[1], PEERS[1], incarnation=0),
        measured(START + 12, PEERS[1]),
        PeerStarted(START + 12, PEERS[1], PEERS[1], name="peer-2"),
    ],
    ids=lambda event: event.kind,
)
def test_an_application_runs_again_when_a_dead_peer_comes_back(back: Event) -> None:
    found = happened(
        PeerSilent(START + 11, "", PEERS[1], reason=""),
        PeerDeclaredDead(START + 11, PEERS[0], PEERS[1], incarnation=0),
        back,
    )
    assert set(states(found).values()) == {"running"}
    marks = [each["text"] for each in status_pieces(found)["marks"]["list"]]
    assert marks[-2].startswith("peer-2 died with ")
    assert marks[-1] == "peer-2 is back: it had been declared dead"


def test_more_than_a_second_of_waiting_input_is_overload() -> None:
    part: dict[str, Any] = {"operator": "filter", "rate": 100.0, "queue_tuples": 101}
    assert states(happened(measured(START + 11, PEERS[1], components=[part])))["filter"] == "overloaded"
    part["queue_tuples"] = 99
    assert states(happened(measured(START + 11, PEERS[1], components=[part])))["filter"] == "running"


def test_an_application_whose_origin_is_silent_waits_and_counts_as_failed_once_a_peer_has_left_it() -> None:
    silent = PeerDeclaredDead(START + 11, PEERS[1], PEERS[0], incarnation=0)
    assert head(happened(silent)) == ("◌", "paused", "Paused, waiting for its origin peer-1.")
    paused = ApplicationPaused(START + 11, PEERS[0], "top-1", awaited={PEERS[1]: ["top"]}, patience=60.0)
    assert head(happened(paused)) == ("◌", "paused", "Paused, waiting for peer-2 (top).")
    expired = SessionExpired(START + 11, PEERS[1], "top-1", origin=PEERS[0])
    assert head(happened(silent, expired)) == ("✕", "failed", "Failed: its origin peer-1 died.")


def test_the_view_of_a_cluster_shows_all_peers_and_running_applications() -> None:
    journal = story(20)
    story(10, journal=journal, application="second-2")
    journal.append(PeerSilent(START + 21, "", PEERS[3], reason=""))
    found = readings(journal, None)
    said = status_pieces(found)
    assert said["head"]["title"] == "Cluster of 5 peers"
    assert said["head"]["sentence"] == "peer-4 does not answer; 2 applications run."
    assert len(shown_peers(found)) == 5
    assert said[f"peer:{PEERS[3]}"]["load_text"] == "does not answer"
    assert sum(name.startswith("part:") for name in said) == 14
    journal.append(ApplicationStopped(START + 22, PEERS[0], "second-2", reason=""))
    journal.append(PeerAnswers(START + 22, "", PEERS[3]))
    found.read(journal)
    said = status_pieces(found)
    assert said["head"]["sentence"] == "1 application runs, each within its limit."
    assert sum(name.startswith("part:") for name in said) == 7
    assert said["flow:second-2/sink"]["status"] == "stopped"
    journal.append(ClusterClosed(START + 23, "", ""))
    found.read(journal)
    assert status_pieces(found)["head"]["status"] == "closed"


@pytest.mark.parametrize(
    ("events", "said"),
    [
        ([], "No peer has recorded an event yet."),
        ([PeerStarted(1.0, PEERS[0], PEERS[0], name="peer-1")], "No application runs."),
    ],
)
def test_the_status_of_a_cluster_at_rest_is_one_sentence(events: Sequence[Event], said: str) -> None:
    found = JournalSeries()
    found.add_events(events)
    assert status_pieces(found)["head"]["sentence"] == said


def test_peers_are_sorted_by_the_numbers_in_their_names() -> None:
    found = JournalSeries()
    for number in (10, 2, 1):
        found.add_events([PeerStarted(1.0, f"a{number}", f"a{number}", name=f"peer-{number}")])
    assert [peer.name for peer in shown_peers(found)] == ["peer-1", "peer-2", "peer-10"]


def test_only_the_changed_pieces_of_a_status_differ() -> None:
    journal = story(10)
    found = readings(journal)
    before = status_pieces(found)
    journal.append(measured(START + 11, PEERS[2], 0.3))
    found.read(journal)
    after = status_pieces(found)
    changed = {name for name in after if after[name] != before.get(name)}
    assert changed == {"head", "loads", f"peer:{PEERS[2]}"}  # the head: a second has passed


def test_a_sink_that_only_retains_results_changes_nothing() -> None:
    journal = story(10)
    journal.append(ApplicationFinished(START + 10.4, PEERS[0], "top-1", reason=""))
    journal.append(qos(START + 10.5, 0.02, 0.03, 2_050, finished=True))  # what came in the last interval
    for second in range(11, 20):
        journal.append(qos(START + second, None, None, 2_050, tuples_per_s=0.0))
    found = readings(journal)
    assert points(found.lines["rate", OF])[-1][0] == START + 10.5
    assert found.flows["top-1", "sink"].tuples == 2_050
    assert status_pieces(found)["head"]["ended"] == START + 10.4


def test_a_part_on_spark_is_one_component_of_several_operators() -> None:
    journal = Journal()
    parts = {"aggregate": ["filter", "aggregate"]}
    journal.append(EnginesChosen(START - 1, PEERS[0], "top-1", reasons={}, parts=parts))
    for event in story(10):
        if isinstance(event, GraphSelected | ApplicationRunning):
            peers = {name: peer for name, peer in event.peers.items() if name != "filter"}
            journal.append(msgspec.structs.replace(event, peers=peers))
        elif event.detail.get("operator") != "filter" and not isinstance(event, PeerMeasured):
            journal.append(event)
    journal.append(measured(START + 9, PEERS[2], components=[{"operator": "aggregate"}]))
    found = readings(journal)
    assert set(states(found).values()) == {"running"}
    said = status_pieces(found)
    assert said["head"]["facts"] == "top-1 · 7 operators on 5 peers"
    assert said["part:top-1/filter"]["on"] == said["part:top-1/aggregate"]["on"] == "peer-3, Spark"
    assert (said["part:top-1/filter"]["rate"], said["part:top-1/aggregate"]["rate"]) == ("", "100 tuples/s")
    assert status_pieces(readings(journal, None))["part:top-1/aggregate"]["operator"] == "aggregate, 2 on Spark"
    journal.append(OperatorFailed(START + 10, PEERS[2], "top-1", operator="aggregate", reason="no Java"))
    found.read(journal)
    assert states(found)["filter"] == states(found)["aggregate"] == "failed"
    journal.append(EnginesChanged(START + 11, PEERS[0], "top-1", reason="no room", parts={}))
    found.read(journal)
    assert status_pieces(found)["part:top-1/aggregate"]["on"] == "peer-3"
