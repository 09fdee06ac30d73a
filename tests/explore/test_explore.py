"""The explorers show what the platform's functions return, and refuse what they cannot show."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree as ET

import ipywidgets
import numpy as np
import pytest
from traitlets import TraitError

from synergy_nb import explore
from synergy_nb.algorithms.availability import (
    ExactlyFailed,
    optimal_availability,
    partition_availability,
    random_availability,
)
from synergy_nb.algorithms.resilience import feasible_ratio, node_load, random_trees, rod
from synergy_nb.algorithms.resilience._linear_load import linearised
from synergy_nb.drawing.plane import Axis, Plane
from synergy_nb.drawing.svg import themed
from synergy_nb.explore._bursty_load import bursts
from synergy_nb.explore._duplicate_steps import FATES, TUPLES, filter_steps
from synergy_nb.explore._exercises import EXERCISES, Exercise, check
from synergy_nb.explore._explorer import Choice, Drawn, Explorer, Range
from synergy_nb.explore._feasible_sets import GRID, feasible_set
from synergy_nb.explore._replica_placements import ALGORITHMS, placements
from synergy_nb.explore._reported_loads import random_loads, report_loads
from synergy_nb.models.queueing import execution_time

EXPLORERS: dict[str, Callable[[], Explorer]] = {
    "feasible_set": explore.feasible_set,
    "three inputs": lambda: explore.feasible_set(inputs=3),
    "availability": explore.availability,
    "bursts": explore.bursts,
    "duplicates": explore.duplicates,
    "load_levels": explore.load_levels,
}


# -- feasible sets -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_the_polygon_has_the_size_of_the_feasible_set(seed: int) -> None:
    load = linearised(random_trees(8, 2, seed=seed)).load
    capacity = np.array([1.0, 0.5, 2.0])
    low = 0.1 * capacity.sum() / load.sum(axis=0) if seed % 2 else np.zeros(2)
    placed = rod(load, capacity, low)
    found = feasible_set(load, capacity, placed, low)
    corners = [low, *found.corners]
    doubled = sum(a[0] * b[1] - b[0] * a[1] for a, b in itertools.pairwise([*corners, corners[0]]))
    # the ideal set above the lower bound is a triangle with what is left of both axes
    left = found.ideal_intercepts * (1.0 - float((low / found.ideal_intercepts).sum()))
    assert abs(doubled) / float(left.prod()) == pytest.approx(found.ratio, rel=1e-9)
    loads = (found.corners @ node_load(load, placed, 3).T) / capacity
    assert loads.max(axis=1) == pytest.approx(np.ones(len(loads)))
    assert [
        int(each) in np.flatnonzero(np.isclose(row, 1.0)) for each, row in zip(found.full_nodes, loads, strict=True)
    ]


def test_the_surface_in_three_rates_encloses_the_feasible_set() -> None:
    load = [[9, 0, 0], [6, 0, 0], [0, 8, 0], [0, 7, 0], [0, 0, 10], [0, 0, 5]]
    placed = [0, 1, 1, 0, 1, 0]
    found = feasible_set(load, [1, 1], placed)
    grid = [(row, number) for row in range(GRID + 1) for number in range(GRID + 1 - row)]
    at = dict(zip(grid, found.corners / found.ideal_intercepts, strict=True))
    volume = 0.0
    for i, j in at:
        for triangle in (((i, j), (i + 1, j), (i, j + 1)), ((i + 1, j), (i, j + 1), (i + 1, j + 1))):
            if all(corner in at for corner in triangle):
                volume += abs(np.linalg.det(np.array([at[corner] for corner in triangle])))
    assert volume == pytest.approx(found.ratio, rel=0.01)
    assert found.ratio == pytest.approx(float(feasible_ratio(load, [1, 1], placed, method="exact")))


def test_a_node_that_is_overloaded_at_the_lower_bound_leaves_no_set() -> None:
    found = feasible_set([[14, 0], [6, 0], [0, 9], [0, 7]], [1, 1], [0, 0, 0, 0], [0.03, 0.04])
    assert not len(found.corners)
    assert found.ratio == 0.0
    shown = explore.feasible_set().set(b0=30, b1=30)
    assert "overloaded at the lower bound" in shown.sentence


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[1, 2, 3, 4]], [1, 1], [0]), "expected two or three input streams"),
        (([[1, 0], [2, 0]], [1, 1], [0, 1]), "each with load"),
        (([[1, 1], [2, 0]], [1, 0], [0, 1]), "capacity: 0 of node 1"),
        (([[1, 1], [2, 0]], [1, 1], [0, 2]), "assignment: 2 of operator 1"),
    ],
)
def test_a_feasible_set_without_two_or_three_loaded_streams_is_refused(
    arguments: tuple[list[list[float]], list[float], list[int]], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        feasible_set(*arguments)
    with pytest.raises(ValueError, match=r"load|capacity|assignment"):
        explore.feasible_set(*arguments)


def test_buttons_place_operators_by_the_algorithms() -> None:
    shown = explore.feasible_set()
    shown.press("ROD")
    assert [shown.values[f"o{number}"] for number in range(1, 5)] == ["N1", "N2", "N2", "N1"]
    shown.press("largest load first")
    shown.press("no such button")
    assert float(dict(shown.numbers)["feasible / ideal"]) > 0.0


# -- availability ------------------------------------------------------------------------------------------------------


def test_placements_have_the_expected_availability() -> None:
    found = placements(failed=3, degree=2, components=9, room=9)
    by = {name: [each.availability for each in found if each.algorithm == name] for name in ALGORITHMS}
    assert by["together"] == pytest.approx([optimal_availability(20, 3, 2)] * len(by["together"]))
    assert np.mean(by["random"]) == pytest.approx(random_availability(20, 3, 2, 9), abs=0.01)
    assert np.mean(by["partition"]) == pytest.approx(partition_availability(20, 3, 2, 9), abs=0.02)
    assert all(each.operator_delay == 0.0 for each in found if each.algorithm == "together")
    backups = {name: np.mean([each.backup_delay for each in found if each.algorithm == name]) for name in ALGORITHMS}
    assert backups["latency"] < min(backups["random"], backups["partition"], backups["together"])


def test_components_spread_if_no_peer_has_room_for_all() -> None:
    found = placements(failed=3, degree=2, components=9, room=3)
    assert "together" not in {each.algorithm for each in found}
    latency = [each for each in found if each.algorithm == "latency"]
    assert max(each.availability for each in latency) < optimal_availability(20, 3, 2)
    assert min(each.operator_delay for each in latency) > 0.0
    assert "No peer has room for all components of together" in explore.availability().set(room=3).sentence


@pytest.mark.parametrize("wrong", [{"failed": 21}, {"degree": 0}, {"components": 2.5}, {"room": True}])
def test_a_number_of_peers_out_of_range_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(wrong))}: "):
        placements(**wrong)


# -- bursts ------------------------------------------------------------------------------------------------------------


def test_without_bursts_the_queue_is_mm1() -> None:
    found = bursts(load=0.5, factor=1.0, period=8.0, tau=0.02)
    exact = execution_time(0.02, 0.5)
    assert found.by_mean == pytest.approx(exact)
    assert found.by_signature == pytest.approx([exact, exact])
    assert float(np.nanmean(found.measured)) == pytest.approx(exact, rel=0.05)


def test_long_bursts_reach_the_time_of_their_own_load() -> None:
    found = bursts(load=0.4, factor=1.75, period=60.0, tau=0.005)
    burst = found.times < found.pattern.seconds[0]
    late = found.measured[burst][len(found.measured[burst]) // 2 :]
    assert float(late.mean()) == pytest.approx(float(found.by_signature[0]), rel=0.2)
    assert float(late.mean()) > 1.5 * found.by_mean
    assert found.transient[0] == pytest.approx(found.by_signature[0], rel=0.1)


@pytest.mark.parametrize("wrong", [{"load": 0.0}, {"factor": 5.0}, {"period": math.inf}, {"tau": -1.0}])
def test_a_burst_out_of_range_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(wrong))}: .*expected a number"):
        bursts(**wrong)


# -- the duplicate filter ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fate", FATES)
@pytest.mark.parametrize("replicas", [2, 3])
@pytest.mark.parametrize("interval", [1, 3, 5])
def test_each_tuple_passes_once_whatever_happens_to_a_replica(replicas: int, interval: int, fate: str) -> None:
    steps = filter_steps(replicas, interval, fate)
    passed = [step.tuple for step in steps if step.passes and step.tuple is not None]
    assert sorted(passed) == list(range(TUPLES))
    first: dict[int, str] = {}
    for step in steps:
        if step.tuple is not None:
            assert step.passes == (step.tuple not in first)
            first.setdefault(step.tuple, step.stream)
    promised = [step.until for step in steps if step.passes and step.until is not None]
    assert promised == sorted(promised)
    assert steps[-1].counters == 0


def test_one_stream_that_dies_loses_tuples() -> None:
    assert filter_steps(1, 3, "a dies")[-1].passed < TUPLES
    with pytest.raises(ValueError, match="fate: 'b dies'"):
        filter_steps(2, 3, "b dies")
    with pytest.raises(ValueError, match="replicas: 4"):
        filter_steps(4)


# -- levels of load ----------------------------------------------------------------------------------------------------


def test_the_known_load_is_wrong_by_at_most_a_level() -> None:
    loads = [min(load, 0.99) for load in random_loads(0.05)]
    for levels, overlap in ((2, 0.0), (5, 0.2), (21, 1.0)):
        found = report_loads(loads, levels, overlap)
        width = 1.0 / (levels - 1)
        assert np.abs(found.loads - found.known).max() <= width * (1.0 + overlap / 2.0) + 1e-12
        assert found.known[found.reports].tolist() == found.loads[found.reports].tolist()
    few, many = report_loads(loads, 3).reports.sum(), report_loads(loads, 21).reports.sum()
    assert few < many
    assert report_loads(loads, 9, 1.0).reports.sum() < report_loads(loads, 9, 0.0).reports.sum()


def test_negative_or_missing_loads_are_refused() -> None:
    with pytest.raises(ValueError, match="loads: an array of shape"):
        report_loads([])
    with pytest.raises(ValueError, match=r"load: -1\.0"):
        report_loads([-1.0])
    with pytest.raises(ValueError, match="levels: 1"):
        report_loads([0.5], 1)


# -- the widget --------------------------------------------------------------------------------------------------------


def _extremes(shown: Explorer) -> list[dict[str, float | str]]:
    """The values of all controls at one end, and at the other."""
    found: list[dict[str, float | str]] = [{}, {}]
    for control in shown.controls:
        ends = (
            (control["low"], control["high"])
            if control["kind"] == "range"
            else (control["options"][0], control["options"][-1])
        )
        for values, end in zip(found, ends, strict=True):
            values[control["name"]] = end
    return found


@pytest.mark.parametrize("name", EXPLORERS)
def test_every_picture_is_well_formed_at_both_ends_of_all_controls(name: str) -> None:
    shown = EXPLORERS[name]()
    assert shown.title
    assert "class='formula'" in shown.equation or "§" in shown.equation or "section" in shown.equation
    for values in ({}, *_extremes(shown)):
        shown.set(**values)
        root = ET.fromstring(shown.to_svg())
        assert root.tag.endswith("svg")
        assert "nan" not in shown.picture.lower().replace("finance", "")
        assert "inf" not in " ".join(value for _, value in shown.numbers)
        assert shown.sentence
        assert len(shown.picture) < 150_000


def _square(size: float, kind: str) -> Drawn:
    return Drawn(f"<svg>{kind} {size:g}</svg>", (("size", f"{size:g}"),), f"It is {kind}.")


def test_values_that_no_control_has_are_refused_by_name() -> None:
    controls = (Range("size", "size", 0, 10, 0.5), Choice("kind", "kind", ("round", "square")))
    shown = Explorer(
        "t", "e", controls, {"size": 1, "kind": "round"}, _square, {"double": lambda v: {"size": 2 * v["size"]}}
    )
    for wrong, message in (
        ({"size": 11}, r"size: 11; expected a number from 0 to 10"),
        ({"size": "x"}, r"size: 'x'; expected a number"),
        ({"size": math.nan}, r"size: nan"),
        ({"kind": "oval"}, r"kind: 'oval'; expected one of round, square"),
        ({"colour": 1}, r"colour: 1; expected one of size, kind"),
    ):
        with pytest.raises(ValueError, match=message):
            shown.set(**wrong)
    assert shown.set(size=2.6).values == {"size": 2.5, "kind": "round"}  # on the grid of the slider
    shown.press("double")
    assert shown.picture == "<svg>round 5</svg>"
    shown.values = {"size": 1e9}  # as a page that is not ours could send it
    assert shown.values == {"size": 5.0, "kind": "round"}
    shown.values = {"size": 3.0, "kind": "square"}
    assert (shown.picture, shown.sentence, shown.drawings) == ("<svg>square 3</svg>", "It is square.", 4)
    assert repr(shown) == "t: size 3. It is square."
    bundle, _ = shown._repr_mimebundle_()
    assert bundle["text/html"] == "<div><svg>square 3</svg><p>t: size 3. It is square.</p></div>"


def test_the_package_exports_the_explorers() -> None:
    import synergy_nb

    assert synergy_nb.explore.check is explore.check
    with pytest.raises(ValueError, match="inputs: 4"):
        explore.feasible_set(inputs=4)
    with pytest.raises(ValueError, match="inputs: 3; expected none or 2, as load has 2 columns"):
        explore.feasible_set([[1, 0], [0, 1]], inputs=3)


# -- pictures ----------------------------------------------------------------------------------------------------------


def test_a_line_is_interrupted_where_it_has_no_value() -> None:
    plane = Plane(Axis("x", 0.0, 1.0), Axis("y", 0.1, 10.0, log=True))
    plane.line([(0.0, 1.0), (0.5, 1.0), (0.6, math.inf), (0.7, 2.0), (0.8, 2.0)], "c0", name="line")
    drawn = plane.to_svg("a line")
    assert drawn.count("<polyline") == 2
    assert plane.place((0.5, 1.0)) == pytest.approx((345.0, 155.0))
    for wrong in ((1.0, 1.0, False), (0.0, 1.0, True), (math.nan, 1.0, False)):
        with pytest.raises(ValueError, match="axis 'z'"):
            Axis("z", wrong[0], wrong[1], log=wrong[2])


def test_a_page_with_a_theme_decides_over_the_system() -> None:
    rules = themed("kind", "--ink:#000", "--ink:#fff").splitlines()
    assert [rule.count("#fff") for rule in rules] == [0, 1, 0, 1]
    assert rules[2].startswith('[data-jp-theme-light="true"] .kind')


# -- exercises ---------------------------------------------------------------------------------------------------------

ANSWERS: dict[str, float] = {  # by hand
    "composition 1": 50,
    "composition 2": 21,
    "composition 3": 1.6,
    "hot spots 1": 300,
    "hot spots 2": 0.525,
    "hot spots 3": 100,
    "availability 1": 1 - 18 / 1140,
    "availability 2": 3,
    "availability 3": (1 - 3 / 190) ** 9,
    "resilience 1": 0.5,
    "resilience 2": 0.7559,
    "resilience 3": (1 - 14 * 0.03) / 7,
    "replication 1": 15,
    "replication 2": 4,
    "replication 3": 60,
}


@pytest.mark.parametrize("name", EXERCISES)
def test_a_right_answer_is_right_and_a_wrong_one_gets_a_hint(name: str) -> None:
    right = ANSWERS[name]
    assert check(name, right), name
    for wrong in (right * 1.05, -right, "I do not know", math.nan, None if right == 0 else 0):
        found = check(name, wrong)
        assert not found
        assert found.right is False
        assert EXERCISES[name].hint in found.text
    for none in (..., None):
        assert check(name, none).right is None
        assert check(name, none).text == EXERCISES[name].question


def test_users_can_make_exercises() -> None:
    own = Exercise("Which peer?", lambda: "peer-3", "look at the graph.")
    assert check(own, " Peer-3")
    assert "look at the graph" in check(own, "peer-1")._repr_html_()
    with pytest.raises(ValueError, match="exercise: 'no such'; expected one of composition 1"):
        explore.check("no such", 1)


def test_availability_exercise_2_is_the_least_degree() -> None:
    failures = ExactlyFailed([str(number) for number in range(20)], 3)
    assert 1 - failures.mean_all_fail(3) >= 0.999 > 1 - failures.mean_all_fail(2)


def test_controls_are_traits_that_ipywidgets_observe_link_and_lay_out() -> None:
    shown: Any = explore.bursts()
    seen: list[tuple[str, Any]] = []
    shown.observe(lambda change: seen.append((change.name, change.new)), ["load", "limit"])
    slider = ipywidgets.IntSlider(value=65, min=5, max=95)
    ipywidgets.link((slider, "value"), (shown, "load"))
    drawings = shown.drawings
    assert (shown.load, shown.values["load"]) == (65, 65)
    shown.set(load=45, limit=200)
    assert slider.value == 45
    assert seen == [("load", 65), ("load", 45), ("limit", 200)]
    slider.value = 33
    assert shown.load == 35, "on the grid of the control"
    assert shown.drawings == drawings + 2, "a picture for each change, and no more"
    shown.values = {**shown.values, "tau": 7}  # as a page sends them
    assert shown.tau == 7
    with pytest.raises(TraitError, match="load: 400; expected a number from 5 to 95"):
        shown.load = 400
    assert (shown.load, shown.values["load"]) == (35, 35)
    assert ipywidgets.jslink((slider, "value"), (shown, "load")).target == (shown, "load")
    assert ipywidgets.HBox([slider, shown]).children == (slider, shown)
    set_by = ipywidgets.interactive(lambda load: shown.set(load=load).load, load=(5, 95, 5))
    set_by.update()
    assert set_by.result == shown.load == 50


def test_a_control_with_the_name_of_a_part_of_a_widget_is_only_among_the_values() -> None:
    made: Any = explore.sliders(lambda layout, rate: f"{layout} {rate}", layout=(1, 0, 4), rate=(2, 0, 4))
    made.rate = 3
    assert made.set(layout=2).sentence == "2 3"
    assert isinstance(made.layout, ipywidgets.Layout)


def test_a_function_of_ones_own_gets_sliders() -> None:
    from matplotlib.figure import Figure

    def draw(rate: float, kind: str) -> Any:
        figure = Figure()
        figure.subplots().plot([0, rate])
        return (figure, f"{kind}: {rate}") if kind == "both" else figure if kind == "figure" else kind

    made = explore.sliders(draw, "Mine", rate=(2, 0, 4), kind=["both", "figure", "<svg>x</svg>", "words"])
    assert (made.title, made.sentence, made.values) == ("Mine", "both: 2", {"rate": 2, "kind": "both"})
    assert made.picture.startswith("<svg style=")
    ET.fromstring(made.picture)
    assert made.set(kind="figure").sentence == ""
    assert made.set(kind="<svg>x</svg>").picture == "<svg>x</svg>"
    assert (made.set(kind="words").picture, made.sentence, repr(made)) == ("", "words", "Mine: words")
    for wrong in ("x", (1, 2), (1, 5, 2), (1, 0, 5, 0), [], [1], (True, 0, 1)):
        with pytest.raises(ValueError, match=r"^rate: "):
            explore.sliders(draw, rate=wrong)
    with pytest.raises(ValueError, match="rate: 9; expected a number from 0 to 4"):
        explore.sliders(draw, rate=(9, 0, 4))
    with pytest.raises(ValueError, match="draw: 'int'; expected a function"):
        explore.sliders(5, rate=(1, 0, 4))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="controls: none; expected at least one"):
        explore.sliders(draw)
    with pytest.raises(TypeError, match="returned 'int'; expected a Matplotlib figure"):
        explore.sliders(lambda rate: rate, rate=(1, 0, 4))
