"""Replays of requests as values: from messages, from journals and from recordings; the stage that shows them."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET
from itertools import combinations
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import traitlets

from synergy_nb import Cluster, NotAdmitted, Simulation, source
from synergy_nb.algorithms.composition import CompositionConfig
from synergy_nb.control.peer import key_of
from synergy_nb.events import (
    Event,
    GraphEvaluated,
    GraphSelected,
    RequestEvent,
    RequestSubmitted,
    Severity,
    SinkMeasured,
    SkippedLines,
    declared,
)
from synergy_nb.overlay.ring import distance, number_of, ring_position
from synergy_nb.recording._event_words import said
from synergy_nb.recording._peer_places import map_of
from synergy_nb.recording.moments import Replay
from synergy_nb.recording.stage import replay_events
from synergy_nb.simulator.simulated_application import SimulatedApplication
from synergy_nb.widgets._stage_picture import places, state_at, svg
from synergy_nb.widgets.protocol_stage import ProtocolStage
from tests.failed_set_up import replay_of_a_failed_set_up
from tests.notebook_outputs import Notebook
from tests.recording.recorded import recorded

RULE = CompositionConfig().rule


@pytest.fixture(scope="module")
def taken_over() -> tuple[Simulation, SimulatedApplication, str]:
    """An application with backups, one of whose peers was killed; and that peer."""
    simulation = Simulation(10, seed=4, network="local", cores=1)
    packets = source("packets", seed=1, rate="100 tuples/s", duration="12 s", id="packets")
    sums = packets.aggregate(by="source", window="1 s", total="sum(bytes)", id="sums")
    application = simulation.submit(sums.sink(delay="2 s", availability="degree 2"))
    simulation.run(3)
    victim = application.graph["sums"]
    simulation.kill(victim)
    application.results()
    return simulation, application, victim


@pytest.fixture(scope="module")
def messages(taken_over: tuple[Simulation, SimulatedApplication, str]) -> Replay:
    return taken_over[1].replay()


@pytest.fixture(scope="module")
def journaled(taken_over: tuple[Simulation, SimulatedApplication, str]) -> Replay:
    simulation, application, _ = taken_over
    return replay_events(application.id, application.plan, simulation.events(), names=simulation.names)


@pytest.mark.slow
def test_messages_follow_one_another_in_time(messages: Replay) -> None:
    times = [moment.at for moment in messages.moments]
    assert times == sorted(times)
    assert times[0] == 0.0
    assert messages.moments[0].title == "Submit plan"
    assert messages.origin == messages.moments[0].to
    assert messages.outcome == "finished"
    names = {peer.name for peer in messages.peers}
    assert {moment.to for moment in messages.moments} <= names
    assert {moment.sender for moment in messages.moments} <= names | {""}


@pytest.mark.slow
def test_probes_carry_their_path_and_their_numbers(messages: Replay) -> None:
    accepted = [moment for moment in messages.moments if moment.kind == "probe" and moment.title == "Probe"]
    assert [operator for operator, _ in accepted[-1].path] == ["packets", "sums"]
    tones = {tone for moment in accepted for tone, _ in moment.verdicts}
    assert tones == {"good"}
    assert {"cores left", "delay so far"} <= {label for label, _ in accepted[-1].numbers}


def test_the_chosen_graph_is_the_one_that_was_set_up(
    messages: Replay, taken_over: tuple[Simulation, SimulatedApplication, str]
) -> None:
    chosen = [graph for graph in messages.graphs if graph.chosen >= 0]
    assert len(chosen) == 1
    placed = messages.moments[chosen[0].chosen].placed
    assert placed == chosen[0].peers
    assert all(graph.since <= chosen[0].chosen for graph in messages.graphs)
    last, dead, absent = state_at(messages, len(messages.moments) - 1)
    assert last == taken_over[1].graph
    assert dead == {taken_over[2]}
    assert absent == set()


@pytest.mark.parametrize(("phi", "said"), [(0.101, f"{RULE}; the least φ is 0.1"), (0.09, RULE)])
def test_a_replay_says_why_a_graph_was_chosen_above_one_of_less_phi(phi: float, said: str) -> None:
    plan = source("packets").filter("bytes > 1").sink("large")
    near, far = (dict.fromkeys(plan.operators, peer) for peer in ("a", "b"))
    events: list[Event] = [
        RequestSubmitted(0.0, "a", "r", plan="large", operators=list(plan.operators), qos={}),
        GraphEvaluated(1.0, "a", "r", far, 0.1, 0.5),
        GraphEvaluated(1.0, "a", "r", near, phi, 0.2),
        GraphEvaluated(1.0, "a", "r", near | {"sink": "b"}, 0.05, 0.1, unqualified="too late"),
        GraphSelected(1.1, "a", "r", near, phi, 0.2, rule=RULE),
    ]
    replay = replay_events("r", plan, events, names={"a": "one", "b": "two"})
    assert [(graph.chosen >= 0, graph.why) for graph in replay.graphs] == [(False, ""), (True, said), (False, "")]
    assert said in replay.table()
    stage = ProtocolStage(replay)
    stage.step = len(replay.moments) - 1
    assert f"by {said}" in stage.to_svg()
    stage.step = 0
    assert RULE not in stage.to_svg(), "it is not chosen yet"
    stage.close()


def test_a_graph_whose_set_up_failed_is_not_chosen_any_more() -> None:
    replay = replay_of_a_failed_set_up()
    far, near = replay.graphs
    last = len(replay.moments) - 1
    assert [near.verdict(near.chosen), near.verdict(near.failed), near.verdict(last)] == [
        "chosen", "set-up failed", "set-up failed"
    ]  # fmt: skip
    assert (near.reason(last), far.verdict(last)) == ("two: its reservation has expired", "chosen")
    assert replay.moments[near.failed].placed == {}, "nothing is placed until the next graph is chosen"
    rows = replay.table().splitlines()[2:]
    assert [row.split()[0] for row in rows if "@" in row] == ["chosen", "set-up"]
    assert "two: its reservation has expired" in replay.table()
    stage = ProtocolStage(replay)
    for step, shown in ((near.chosen, ["✓ chosen"]), (near.failed, ["▲ set-up failed"]),
                        (last, ["✓ chosen", "▲ set-up failed"])):  # fmt: skip
        stage.step = step
        picture = stage.to_svg()
        assert [words for words in ("✓ chosen", "▲ set-up failed") if words in picture] == shown
    assert "two: its reservation has expired" in picture
    stage.close()


@pytest.mark.parametrize("origin", ["messages", "events"])
def test_a_death_and_the_take_over_are_moments(
    origin: str, messages: Replay, journaled: Replay, taken_over: tuple[Simulation, SimulatedApplication, str]
) -> None:
    replay, victim = messages if origin == "messages" else journaled, taken_over[2]
    assert replay.source == origin
    deaths = [number for number, moment in enumerate(replay.moments) if moment.dead]
    assert [replay.moments[number].dead for number in deaths] == [(victim,)]
    before, after = state_at(replay, deaths[0])[0], state_at(replay, len(replay.moments) - 1)[0]
    assert victim in before.values()
    assert victim not in after.values()


def test_replays_of_journals_and_of_messages_have_the_same_graphs(messages: Replay, journaled: Replay) -> None:
    def shown(replay: Replay) -> list[tuple[dict[str, str], float | None, bool]]:
        return [(graph.peers, graph.phi, graph.chosen >= 0) for graph in replay.graphs]

    assert shown(messages) == shown(journaled)
    assert journaled.outcome == messages.outcome
    assert {moment.kind for moment in journaled.moments} >= {"probe", "graph", "set-up", "replicas", "move", "death"}


@pytest.mark.slow
def test_placements_of_replicas_and_moves_are_moments() -> None:
    simulation = Simulation(5, network="local", cores=1, seed=3)
    plan = source("packets", rate="100/s", seed=1, id="packets").filter("bytes > 0", id="all").sink()
    application = simulation.submit(plan)
    simulation.run(1)
    to = next(peer for peer in simulation.peers if peer not in application.graph.values())
    simulation.move(application, "all", to)
    moves = [moment for moment in application.replay().moments if moment.kind == "move"]
    assert {moment.title for moment in moves} >= {"Follow", "Followed"}
    told = replay_events(application.id, plan, simulation.events(), names=simulation.names).moments
    moved = [moment for moment in told if moment.title == "Component moved"]
    assert [(moment.to, moment.placed is not None) for moment in moved] == [(to, True)]


def test_a_refused_request_has_verdicts() -> None:
    simulation = Simulation(4, network="local", cores=1, seed=3)
    plan = source("packets", rate="1000/s").delay(cost="5 ms").sink()
    with pytest.raises(NotAdmitted) as refused:
        simulation.submit(plan)
    replay = simulation.replay("plan-1")
    assert refused.value.replay() == replay
    assert replay.outcome.startswith("rejected")
    bad = [text for moment in replay.moments for tone, text in moment.verdicts if tone == "bad"]
    assert any("processing capacity" in text for text in bad)
    assert ("condition", "processing capacity") in [pair for moment in replay.moments for pair in moment.numbers]


def test_a_replay_whose_beginning_is_not_kept_says_so(
    taken_over: tuple[Simulation, SimulatedApplication, str], messages: Replay, journaled: Replay
) -> None:
    simulation, application, _ = taken_over
    assert messages.made_from == "every message that the simulated peers handled for it"
    assert journaled.made_from.startswith("the journals of the peers")
    steps = simulation.world.noted.steps.copy()
    simulation.world.noted.steps.clear()
    empty = application.replay()
    simulation.world.noted.steps.extend(steps)
    assert (empty.moments, empty.origin, empty.outcome) == ((), application.origin, "finished")
    assert empty.made_from.endswith("its beginning is not kept any more")
    stage = ProtocolStage(empty)
    assert "made from" in stage.to_svg()
    stage.close()
    late = replay_events(application.id, application.plan, list(simulation.events())[-20:], names=simulation.names)
    assert late.origin == ""
    assert late.completed("peer-1", "stopped").outcome == "stopped"


def test_keys_are_at_the_peer_whose_key_is_nearest(messages: Replay) -> None:
    assert {key.name for key in messages.keys} >= {"aggregate", "sink", "source:packets"}
    for key in messages.keys:
        at = number_of(key_of(key.name))
        apart = {peer.name: distance(ring_position(peer.name), at) for peer in messages.peers}
        assert apart[key.root] == min(apart.values())
        assert 0.0 <= key.ring < 1.0


@pytest.mark.slow
def test_a_recorded_run_has_a_replay(tmp_path: Path) -> None:
    file = recorded(tmp_path / "run.rec")
    runs = Cluster.replay(file, "runs")
    assert runs.origin == "peer-1"
    assert runs.source == "messages"
    assert runs.made_from == "the recording run.rec: every message as it was"
    assert all(math.isfinite(moment.at) for moment in runs.moments)
    assert all(peer.cores == 1.0 for peer in runs.peers)
    assert "rejected" in Cluster.replay(file, "refused").outcome
    assert Cluster.replay(file).request == "stopped"
    with pytest.raises(ValueError, match=r"request: 'run'; expected one of runs, .*did you mean 'runs'"):
        Cluster.replay(file, "run")
    with pytest.raises(ValueError, match="expected a recording"):
        Cluster.replay(tmp_path / "none.rec")
    other = tmp_path / "other.rec"
    other.write_bytes(b"not a recording")
    with pytest.raises(ValueError, match="recording"):
        Cluster.replay(other)


def test_every_event_that_people_see_has_words() -> None:
    for kind in (each for each in declared() if issubclass(each, RequestEvent) and each is not SinkMeasured):
        fields: dict[str, Any] = {name: _example(kind, name) for name in kind.__struct_fields__}
        text, _ = said(kind(**fields))
        assert bool(text) == (kind.severity >= Severity.NOTE), kind.__name__


def _example(kind: type[Event], name: str) -> object:
    declared_type = str(kind.__annotations__.get(name, "float" if name == "time" else "str"))
    found = {
        "Mapping": {}, "Sequence": (), "tuple": ("", ""), "float": 1.0, "int": 1, "bool": True,
        "SkippedLines": SkippedLines("rows.csv", 2, "line 7"),
    }  # fmt: skip
    first = re.match(r"\w+", declared_type)
    return found.get(first[0] if first else "", "text")


def test_near_peers_are_near_on_the_map() -> None:
    delays = np.array([[0.0, 0.01, 0.1, 0.1], [0.01, 0.0, 0.1, 0.1], [0.1, 0.1, 0.0, 0.02], [0.1, 0.1, 0.02, 0.0]])
    at = map_of(["a", "b", "c", "d"], delays)

    def apart(one: str, other: str) -> float:
        return math.dist(at[one], at[other])

    assert max(apart("a", "b"), apart("c", "d")) < 0.5 * min(apart("a", "c"), apart("b", "d"))
    assert all(0.0 <= part <= 1.0 for place in at.values() for part in place)


def test_text_has_a_line_for_each_moment(messages: Replay) -> None:
    lines = messages.to_text().splitlines()
    assert lines[0] == f"{messages.request}: plan plan, submitted at {messages.origin}: finished"
    assert lines[1] == f"made from {messages.made_from}"
    assert len([line for line in lines if re.match(r" *\d+\.\d{4} s", line)]) == len(messages.moments)
    assert "chosen" in messages.table()
    assert Replay(**{name: getattr(messages, name) for name in messages.__struct_fields__}) == messages


# -- the stage ---------------------------------------------------------------------------------------------------------


def test_the_picture_shows_the_moment(messages: Replay) -> None:
    stage = ProtocolStage(messages)
    graph = next(number for number, moment in enumerate(messages.moments) if moment.kind == "graph")
    for arrangement in ("map", "ring"):
        stage.step, stage.arrangement = graph, arrangement
        picture = stage.to_svg()
        ET.fromstring(picture)
        assert "✓ chosen" in picture
        assert messages.moments[graph].title in picture
        assert f"{graph + 1} of {len(messages.moments)}" in picture
    stage.close()


def test_names_of_near_peers_do_not_cover_one_another_in_the_picture(messages: Replay) -> None:
    near = [msgspec.structs.replace(peer, ring=0.5 + number / 60) for number, peer in enumerate(messages.peers)]
    drawn = svg(msgspec.structs.replace(messages, peers=tuple(near)), len(messages.moments) - 1, "ring")
    boxes = []
    for each in ET.fromstring(drawn).iter("{http://www.w3.org/2000/svg}text"):
        words = each.text or ""
        if words.startswith("peer-") and "→" not in words:
            x, y, wide = float(each.attrib["x"]), float(each.attrib["y"]), 6.6 * len(words)
            left = x - {"start": 0.0, "middle": wide / 2, "end": wide}[each.attrib["text-anchor"]]
            boxes.append((left, y - 11, left + wide, y + 3))
    assert len(boxes) >= 3
    for one, other in combinations(boxes[:4], 2):
        assert one[2] < other[0] or other[2] < one[0] or one[3] < other[1] or other[3] < one[1]
    assert re.search(r"peer-\d+ · dead", drawn)


def test_the_notebook_file_holds_a_picture_and_no_messages(messages: Replay) -> None:
    stage = ProtocolStage(messages)
    data, _ = stage._repr_mimebundle_()
    assert "<svg" in data["text/html"]
    assert data["text/plain"] == repr(messages)
    assert messages.moments[3].text not in str(stage.get_state())
    assert len(str({name: value for name, value in stage.get_state().items() if name != "_esm"})) < 1000
    stage.close()


@pytest.mark.parametrize("notebook", [1e6], indirect=True)
def test_the_picture_that_a_file_keeps_is_that_of_the_last_moment(messages: Replay, notebook: Notebook) -> None:
    stage = ProtocolStage(messages)
    stage._ipython_display_()
    stage.step = 5
    stage.close()
    assert (len(notebook.outputs), len(notebook.replaced)) == (2, 1)
    assert f"6 of {len(messages.moments)}" in notebook.replaced[-1]


def test_a_wrong_step_or_arrangement_is_refused(messages: Replay, journaled: Replay) -> None:
    stage, last = ProtocolStage(messages), len(messages.moments) - 1
    with pytest.raises(traitlets.TraitError, match=f"step: 9999; expected a moment from 0 to {last}"):
        stage.step = 9999
    with pytest.raises(traitlets.TraitError, match="arrangement: 'star'; expected ring or map"):
        stage.arrangement = "star"
    stage.close()
    without_delays = ProtocolStage(journaled)
    assert without_delays.arrangement == "ring"
    with pytest.raises(traitlets.TraitError, match="arrangement: 'map'; expected ring"):
        without_delays.arrangement = "map"
    without_delays.close()


def test_peers_are_placed_inside_the_picture(messages: Replay) -> None:
    for view in ("ring", "map"):
        for x, y in places(messages, view, 400.0, 40.0).values():
            assert 39.9 <= x <= 360.1
            assert 39.9 <= y <= 360.1
