"""What a peer knows of an application in which it takes part: what has happened, and what follows from it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from synergy_nb.control.roles import Roles
from synergy_nb.events.state_tables import IllegalTransition
from synergy_nb.lifecycle.records._components_here import ComponentsHere
from synergy_nb.lifecycle.records.members import Member
from synergy_nb.lifecycle.records.messages import ComponentTimes, Graph, MeasuredApplication
from synergy_nb.plan import source

PACKETS = source("packets", rate=10, id="s")
PLAN = PACKETS.filter("bytes > 9", id="f").union(PACKETS.filter("bytes < 3", id="g"), id="u").sink("out", id="out")
PEERS = {"s": "a", "f": "b", "g": "b", "u": "b", "out": "o"}


def graph(peers: dict[str, str] | None = None, **others: Any) -> Graph:
    return Graph("app", 1, "o", PLAN.to_bytes(), Roles(PEERS | (peers or {})), **others)


def member(address: str = "b", **others: Any) -> Member:
    return Member(graph(**others), PLAN, address)


def measured(**others: Any) -> MeasuredApplication:
    return msgspec.structs.replace(MeasuredApplication("app", 1, -1.0, {}), **others)


def test_a_component_is_confirmed_once_all_its_consumers_are() -> None:
    here = member("a")
    assert not here.confirm("s", "f")
    assert not here.confirm("s", "f"), "a duplicate"
    assert here.confirm("s", "g")
    assert here.confirm("out", ""), "a sink has none"


def test_an_application_starts_runs_and_ends_once_and_its_end_is_final() -> None:
    here = member()
    here.components.deploy("f")
    assert [here.start(), here.start()] == [True, False]
    assert [here.hear(measured(), own=False) for _ in range(2)] == [True, False]
    assert (here.started, here.running, here.ended) == (True, True, False)
    here.end(("out",))
    here.end(())
    assert (here.start(), here.hear(measured(), own=False)) == (False, False)
    assert (here.running, here.ended) == (False, True)
    assert not here.deployed


def test_only_sinks_with_results_are_left_of_an_application_that_has_ended() -> None:
    here = member("o")
    here.components.deploy("out")
    here.end(("out", "other"))
    assert here.deployed == {"out"}


def test_the_next_graph_shows_what_leaves_a_peer() -> None:
    here = member()
    for operator in ("f", "g", "u"):
        here.components.deploy(operator)
    following = Roles(PEERS | {"f": "c", "g": "c", "u": "c"}, followers={"g": "b"}, rebuilds={"u": ("f", "b")})
    assert here.adopt(msgspec.structs.replace(here.graph, roles=following, epoch=1)) == {"f"}
    assert here.operators == set()
    assert here.backups_committed


def test_a_copy_is_ready_for_as_long_as_the_graph_has_it_here() -> None:
    here = Member(graph({"f": "c", "g": "c"}), PLAN, "b")
    for operator in ("f", "g", "u"):
        here.copy_ready(operator)
    here.copy_lags("u")
    assert here.ready == {"f", "g"}
    here.adopt(here.graph.changed(Roles(here.graph.roles.peers, {"g": ("b",)})))
    assert here.ready == {"g"}


def test_a_follower_of_the_next_move_is_not_ready_because_that_of_the_last_one_was() -> None:
    moving = Roles(PEERS | {"f": "c"}, followers={"f": "b"})
    here = Member(msgspec.structs.replace(graph(), roles=moving), PLAN, "b")
    here.copy_ready("f")
    here.adopt(here.graph)
    assert here.ready == {"f"}, "a repetition"
    here.adopt(here.graph.changed(moving))
    assert not here.ready


def test_a_promise_outdates_the_graphs_of_the_origin_and_not_those_of_the_successor() -> None:
    here = member(successor="c")
    here.promise("c", 100)
    assert here.leader == "c"
    assert here.outdates(here.graph.changed(here.graph.roles))
    first = msgspec.structs.replace(here.graph.led_by("c"), epoch=100)
    assert not here.outdates(first)
    here.adopt(first)
    assert (here.leader, here.graph.successor) == ("c", "")
    here.lead()
    assert (here.leader, here.graph.origin) == ("b", "b")


def test_who_has_promised_nothing_follows_the_origin_of_the_graph_that_it_adopts() -> None:
    here = member(successor="c")
    here.adopt(msgspec.structs.replace(here.graph.led_by("c"), epoch=100))
    assert here.leader == "c"


def test_the_account_of_the_origin_counts_before_what_was_measured_and_that_before_the_projection() -> None:
    assert member().execution_time == 0.0
    here = member(reached={"f": 0.25, "out": 0.5})
    assert here.execution_time == 0.5
    here.sinks_measured(0.75)
    here.hear(measured(delay=0.125), own=True)
    assert here.execution_time == 0.75, "who leads has measured it itself"
    here.hear(measured(delay=0.125), own=False)
    assert here.execution_time == 0.125
    here.hear_account(0.25)
    assert here.execution_time == 0.25


def test_feedback_without_times_says_that_they_are_as_before() -> None:
    here, times = member(), {"f": ComponentTimes(0.1, 0.05, {})}
    here.hear(measured(times=times, helpless=("f",)), own=False)
    here.hear(measured(), own=False)
    assert (here.times, here.helpless) == (times, ())


def test_the_end_of_sinks_is_new_once() -> None:
    here = member()
    assert [here.sinks_end(), here.sinks_end()] == [True, False]


def test_a_part_that_prepares_is_awaited_until_it_takes_tuples_and_one_that_failed_is_not() -> None:
    here = ComponentsHere()
    for operator in ("part", "broken"):
        here.deploy(operator, prepares=True)
    here.deploy("f")
    here.fail("broken")
    here.fail("elsewhere")
    assert [here.is_prepared(each) for each in ("part", "part", "broken", "f", "elsewhere")] == [True, *[False] * 4]
    assert here.executing == ["f", "part"]
    assert here.deployed == {"f", "part", "broken"}


def test_a_component_that_failed_is_deployed_again_only_after_it_has_left() -> None:
    here = ComponentsHere()
    here.deploy("f")
    here.fail("f")
    with pytest.raises(IllegalTransition, match="component f: executing after failed"):
        here.deploy("f")
    here.leave("f")
    here.deploy("f")
    assert here.executing == ["f"]
