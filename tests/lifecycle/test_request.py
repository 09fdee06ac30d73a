"""The record of an application at its origin: how it can be run, who has confirmed it, who has taken part."""

from __future__ import annotations

from typing import Any, cast

import pytest

from synergy_nb.control.graph import Producer
from synergy_nb.control.roles import Roles
from synergy_nb.events import SkippedLines
from synergy_nb.events.application_states import State
from synergy_nb.lifecycle.records.messages import Entrust, Entrusted, Graph
from synergy_nb.lifecycle.records.request import Alternative, Request
from synergy_nb.plan import source

PLAN = source("packets", rate=10, id="s").filter("bytes > 9", id="f").sink("out", id="out")
PEERS = {"s": "a", "f": "b", "out": "c"}


def request() -> Request:
    return Request("r", PLAN, "composed", 1.0)


def graph(peers: dict[str, str] | None = None, backups: Any = None, **others: Any) -> Graph:
    return Graph("r", 1, "o", PLAN.to_bytes(), Roles(PEERS | (peers or {}), backups or {}), **others)


class Limit:
    """A limit of an answer."""

    def __init__(self) -> None:
        self.cancelled = 0

    def cancel(self) -> None:
        self.cancelled += 1


def set_up(each: Request, of: Graph) -> Limit:
    limit = Limit()
    each.enter(State.DECIDING)
    each.enter(State.ESTABLISHING)
    each.set_up(of, cast("Any", limit))
    return limit


def test_alternatives_are_tried_in_turn_and_found_anew() -> None:
    each = request()
    assert each.alternatives is None
    shared = Alternative(PLAN, {"f": {"b": (Producer("owner", "f", "b", 0, "o"),)}})
    each.found([shared, Alternative(PLAN)])
    assert (each.alternative, each.owners) == (shared, {"owner"})
    assert each.next_alternative() is shared
    assert each.alternative == Alternative(PLAN)
    with pytest.raises(ValueError, match="application: 'r'; expected one with alternatives that have not been tried"):
        each.next_alternative()
    each.enter(State.DECIDING)
    each.begin_anew()
    assert (each.alternatives, each.state) == (None, State.DISCOVERING)
    assert each.owners == {"owner"}, "they are known"


def test_a_request_says_each_reason_to_wait_once_and_has_no_round_twice() -> None:
    each = request()
    assert [each.wait(why) for why in ("one", "one", "other", "one")] == [True, False, True, True]
    assert [each.next_round(), each.next_round()] == [1, 2]


def test_candidates_that_are_looked_up_again_have_not_been_silent() -> None:
    each = request()
    each.enter(State.DECIDING)
    each.time_out()
    assert each.unanswered
    each.discover()
    assert (each.unanswered, each.state) == (False, State.DISCOVERING)


def test_an_application_runs_once_its_sources_its_helpers_and_its_successor_have_confirmed() -> None:
    each = request()
    limit = set_up(each, graph(backups={"f": ("d",)}, successor="c"))
    assert [each.confirm(which) for which in ("s", "s", "d", "")] == [False, False, False, True]
    assert not limit.cancelled
    each.begin(5.0)
    assert (each.running, each.began, limit.cancelled) == (True, 5.0, 1)
    assert each.placed.backups == {"f": ("d",)}


def test_the_next_set_up_has_heard_of_no_sinks_yet() -> None:
    each = request()
    set_up(each, graph())
    each.sinks_reported("c", 0.5, ended=True)
    each.sinks_reported("o", -1.0, ended=False)
    assert (each.delays, each.ended_sinks) == ({"c": 0.5}, {"c"})
    each.set_up(graph(), cast("Any", Limit()))
    assert (each.delays, each.ended_sinks) == ({}, set())


def test_a_refusal_names_the_peer_and_perhaps_the_owner_of_a_stream() -> None:
    each = request()
    each.refuse("b", "owner")
    assert (each.refused_by, each.sharable_soon, each.owners) == ({"b"}, True, {"owner"})
    each.refuse("c", "")
    assert (each.refused_by, each.sharable_soon, each.owners) == ({"b", "c"}, False, {"owner"})


def test_who_takes_no_part_any_more_is_known_until_it_takes_part_again() -> None:
    each = request()
    set_up(each, graph())
    each.change(graph({"f": "d"}))
    assert each.former == {"b"}
    each.change(graph())
    assert each.former == {"d"}


def test_skipped_lines_are_new_as_long_as_their_number_changes() -> None:
    each, told = request(), [SkippedLines("rows.csv", count, "line 7") for count in (1, 1, 2)]
    assert [each.skip("s", lines) for lines in told] == [True, False, True]
    assert each.skipped == {"s": told[-1]}


def test_a_successor_has_the_record_as_the_application_runs_with_its_backups_as_they_were_placed() -> None:
    placed = graph(backups={"f": ("d",)}, successor="c")
    record = Entrusted(PLAN.to_bytes(), "composed", True, 1.0, 0, 60.0)
    now = graph({"f": "d"}).led_by("c")
    each = Request.entrusted(Entrust(placed, record), now, {"gone"}, 9.0)
    assert (each.name, each.state, each.graph, each.began, each.submitted) == ("r", State.RUNNING, now, 9.0, 1.0)
    assert (each.placed, each.spread, each.lease, each.former) == (placed.roles, True, 60.0, {"gone"})
    assert each.alternatives == []
