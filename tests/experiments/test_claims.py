"""Reproducing claims: set-ups, repetitions, intervals, verdicts, figures, and the command over them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from synergy_experiments import chapters
from synergy_experiments.framework import figures, parameters, runner, stored, verdicts
from synergy_experiments.framework.claim import Cell, Check, Claim, Panel
from synergy_experiments.framework.intervals import chance, interval
from synergy_experiments.framework.measurements import Decision, Estimate, Measured, Point, both
from synergy_nb.cli.commands import app
from tests.conftest import ROOT

# -- an experiment that takes no time ----------------------------------------------------------------------------------


def throw(sides: int, throws: int, seed: int) -> list[Point]:
    """Mean of throws of a die, and of one that is loaded."""
    from random import Random

    rng = Random(f"{sides}/{seed}")
    mean = sum(rng.randint(1, sides) for _ in range(throws)) / throws
    return [Point(sides, "fair", "eyes", mean), Point(sides, "loaded", "eyes", float(sides))]


def _cells(setup: parameters.Setup) -> Iterator[Cell]:
    assert isinstance(setup["sides"], tuple)
    for sides in setup["sides"]:
        yield Cell(throw, (sides, setup["throws"]))


def _checks(measured: Measured, setup: parameters.Setup) -> Iterator[Check]:
    yield verdicts.reduction("eyes", 0.4, measured.gain(6, "fair", "loaded", "eyes"))
    both = [(x, measured.lower(x, "fair", "loaded", "eyes")) for x in measured.xs("eyes")]
    yield verdicts.at_all("fewer eyes", "always", both)


DICE = Claim(
    id="X1",
    title="dice",
    source="nowhere, figure 0",
    says="loaded dice show more",
    parameters={
        "sides": parameters.wholes("sides of a die", [6, 20], [6, 20, 100]),
        "throws": parameters.whole("throws", 10, 1000),
    },
    cells=_cells,
    checks=_checks,
    panels=(Panel("eyes", "eyes"), Panel("gain", "gain", "curves")),
    xlabel="sides",
    derive=lambda points: [Point(x, "gain", "gain", 1.0 - y / float(x)) for x, who, _, y in points if who == "fair"],
    paper=(Point(6, "fair", "eyes", 3.5),),
    repeat=(3, 5),
)  # fmt: skip


def run(claim: Claim = DICE, chosen: dict[str, parameters.Value] | None = None, **options: Any) -> Any:
    (result,) = runner.reproduce([(claim, chosen or {})], **options)
    return result


# -- set-ups -----------------------------------------------------------------------------------------------------------


def test_a_set_up_has_values_at_both_scales() -> None:
    assert parameters.at_scale(DICE.parameters, "quick") == {"sides": (6, 20), "throws": 10}
    assert parameters.at_scale(DICE.parameters, "paper") == {"sides": (6, 20, 100), "throws": 1000}


@pytest.mark.parametrize(
    ("parameter", "text", "value"),
    [
        (parameters.whole("n", 1), "12", 12),
        (parameters.number("x", 1.0), "0.25", 0.25),
        (parameters.wholes("n", [1]), "1, 2,3", (1, 2, 3)),
        (parameters.numbers("x", [1.0, 2.0], count=2), "0.5,0.5", (0.5, 0.5)),
        (parameters.choice("c", ["one", "two"]), "two", "two"),
        (parameters.flag("f"), "Yes", True),
        (parameters.flag("f", quick=True), "0", False),
        (parameters.several("c", ["one", "two", "three"]), "three,one", ("three", "one")),
        (parameters.several("c", ["one", "two, too", "two"]), "two, too,two", ("two, too", "two")),
    ],
)
def test_parameters_are_parsed_to_their_values(
    parameter: parameters.Parameter, text: str, value: parameters.Value
) -> None:
    assert parameters.parse([f"name={text}"], [{"name": parameter}]) == [{"name": value}]


@pytest.mark.parametrize(
    ("parameter", "text", "message"),
    [
        (parameters.whole("n", 1), "1.5", "name: '1.5'; expected a whole number from 1"),
        (parameters.whole("n", 1, most=9), "10", "name: '10'; expected a whole number from 1 to 9"),
        (parameters.number("x", 1.0), "nan", "name: 'nan'; expected a number from 0"),
        (parameters.number("x", 1.0), "inf", "name: 'inf'; expected a number from 0"),
        (parameters.wholes("n", [1]), "1,,2", "name: '1,,2'; expected some whole numbers from 1, separated by commas"),
        (parameters.wholes("n", [1]), "2,1", "in ascending order"),
        (parameters.wholes("n", [1]), "1,1", "name: '1,1'; expected some"),
        (parameters.numbers("x", [1.0], count=2), "1", "name: '1'; expected 2 numbers from 0, separated by commas"),
        (parameters.choice("c", ["one", "two"]), "on", "name: 'on'; expected one of one, two; did you mean 'one'?"),
        (parameters.several("c", ["one", "two"]), "one,twoo", "did you mean 'two'?"),
        (parameters.several("c", ["one", "two"]), "one,one", "name: 'one,one'; expected some of one, two"),
        (parameters.flag("f"), "perhaps", "name: 'perhaps'; expected true or false"),
        (parameters.files("f"), "no-such-file", "name: 'no-such-file'; expected existing files"),
    ],
)
def test_a_value_that_cannot_be_is_one_clear_error(parameter: parameters.Parameter, text: str, message: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the text is what is compared
        parameters.parse([f"name={text}"], [{"name": parameter}])
    assert message in str(caught.value)


def test_a_name_that_no_experiment_has_is_refused_with_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"'throw'; expected one of sides, throws; did you mean 'throws'\?"):
        parameters.parse(["throw=3"], [DICE.parameters])
    with pytest.raises(ValueError, match=r"'throws'; expected name=value"):
        parameters.parse(["throws"], [DICE.parameters])
    other = {"other": parameters.whole("n", 1)}
    assert parameters.parse(["throws=3", "other=4"], [DICE.parameters, other]) == [{"throws": 3}, {"other": 4}]


# -- intervals, comparisons and verdicts -------------------------------------------------------------------------------


@pytest.mark.slow
def test_intervals_of_few_values_are_those_of_student() -> None:
    from scipy import stats  # importing it takes a second

    values = [3.1, 2.9, 4.0, 3.6]
    mean, low, high = interval(values)
    expected = stats.t.interval(0.95, 3, loc=mean, scale=stats.sem(values))
    assert (low, high) == pytest.approx(expected)
    assert mean == pytest.approx(sum(values) / 4)
    assert chance(values, 2.9) == pytest.approx(stats.ttest_1samp(values, 2.9, alternative="greater").pvalue)


def test_comparisons_are_within_repetitions() -> None:
    nan = float("nan")
    measured = Measured(
        [
            [Point(1, "a", "m", 1.0), Point(1, "b", "m", 2.0)],
            [Point(1, "a", "m", 8.0), Point(1, "b", "m", nan)],
            [Point(1, "a", "m", 3.0), Point(1, "b", "m", 4.0)],
        ]
    )
    gain, difference = measured.gain(1, "a", "b", "m"), measured.difference(1, "a", "b", "m")
    assert gain == Estimate.of([0.5, 0.25], 1, bounds=(-9.0, 1.0))
    assert difference == Estimate(-1.0, -1.0, -1.0, (-1.0, -1.0), missing=1)
    assert measured.mean(1, "a", "m") == pytest.approx(4.0)
    assert measured.mean(2, "a", "m") is None
    assert measured.gain(2, "a", "b", "m") is None
    assert measured.lower(1, "a", "b", "m") == (True, 0.0, 2)
    assert measured.higher(1, "a", "b", "m").true is False
    assert measured.higher(1, "a", "b", "m", margin=1.5).true is True
    assert measured.not_above((1, "a", "m"), (1, "b", "m"), 0.5).true is None
    assert measured.always(1, "a", "m", lambda value: value < 8.0).true is False
    assert measured.over_repetitions(lambda one: one.mean(1, "a", "m")) == measured.estimate(1, "a", "m")
    assert measured.over_repetitions(lambda one: one.mean(1, "b", "m")) == Estimate.of([2.0, 4.0], 1)
    assert measured.xs("m") == [1]
    assert measured.algorithms("m") == ["a", "b"]
    assert [row.value for row in measured.rows()] == [4.0, 3.0]


YES, NO = Decision.fact(True), Decision.fact(False)


@pytest.mark.parametrize(
    ("check", "verdict"),
    [
        (verdicts.reduction("", 0.45, Estimate(0.42, 0.36, 0.48)), "holds"),
        (verdicts.reduction("", 0.45, Estimate(0.36, 0.3, 0.42)), "holds in part"),  # it may be less than half of it
        (verdicts.reduction("", 0.45, Estimate(0.6, 0.56, 0.64)), "holds in part"),  # not what was claimed
        (verdicts.reduction("", 0.45, Estimate(0.9, 0.8, 1.0)), "does not hold"),  # still less so
        (verdicts.reduction("", 0.45, Estimate(0.65, 0.5, 0.8)), "undecided"),  # may be as much more
        (verdicts.reduction("", 0.45, Estimate(0.9, 0.8, 1.0), 0.6), "holds"),
        (verdicts.reduction("", 0.45, Estimate(0.34, -0.1, 0.78)), "undecided"),
        (verdicts.reduction("", 0.45, Estimate(0.1, -0.1, 0.3)), "does not hold"),
        (verdicts.reduction("", 0.45, Estimate(0.4)), "undecided"),
        (verdicts.reduction("", 0.45, Estimate(-0.4, -0.5, -0.3)), "does not hold"),
        (verdicts.reduction("", 0.05, Estimate(0.0, 0.0, 0.0), 0.1), "does not hold"),  # no gain at all
        (verdicts.reduction("", 0.45, None), "not comparable"),
        (verdicts.at_least("", 0.8, Estimate(0.79, 0.78, 0.799), 0.0), "does not hold"),
        (verdicts.at_least("", 0.8, Estimate(0.82, 0.81, 0.83), 0.0), "holds"),
        (verdicts.at_least("", 0.8, Estimate(0.82, 0.7, 0.94), 0.0), "undecided"),
        (verdicts.at_least("", 0.8, Estimate(0.7, 0.65, 0.75), 0.0, 0.6), "holds in part"),
        (verdicts.at_least("", 1.0, Estimate.exact(1.0), 0.0), "holds"),
        (verdicts.near("", 0.5, Estimate(0.54, 0.49, 0.59), 0.1, 0.2), "holds"),
        (verdicts.near("", 0.5, Estimate(0.55, 0.45, 0.65), 0.1, 0.2), "holds in part"),
        (verdicts.near("", 0.5, Estimate(0.55, 0.3, 0.8), 0.1, 0.2), "undecided"),
        (verdicts.near("", 0.5, Estimate(0.55), 0.1, 0.2), "undecided"),
        (verdicts.near("", 0.5, Estimate(1.1, 0.8, 1.4), 0.1, 0.2), "does not hold"),  # far, though wide
        (verdicts.near("", 0.5, Estimate.exact(0.55), 0.1, 0.2), "holds"),
        (verdicts.near("", 0.5, Estimate.exact(0.35), 0.1, 0.2), "holds in part"),
        (verdicts.near("", 0.5, Estimate.exact(0.75), 0.1, 0.2), "does not hold"),
        (verdicts.at_all("", "", [(1, YES), (2, YES)]), "holds"),
        (verdicts.at_all("", "", [(1, YES), (2, NO)]), "does not hold"),
        (verdicts.at_all("", "", [(1, YES), (2, None)]), "undecided"),
        (verdicts.at_all("", "", [(1, YES), (2, YES), (3, Decision(None))]), "holds in part"),
        (verdicts.at_all("", "", [(1, None), (2, NO)]), "does not hold"),
        (verdicts.at_all("", "", []), "not comparable"),
        (verdicts.not_comparable("", 1.0, 2.0, "another machine"), "not comparable"),
    ],
)
def test_each_rule_gives_its_verdict(check: Check, verdict: str) -> None:
    assert check.verdict == verdict
    assert check.rule


def test_skewed_values_have_wider_intervals_than_students() -> None:
    values = [1.0, 1.1, 0.9, 1.0, 1.2, 0.8, 1.1, 1.0, 0.9, 9.0]  # such as 99th percentiles
    mean, low, high = interval(values)
    assert low is not None
    assert high is not None
    assert high - mean > 2.0 * (mean - low)
    found = Estimate.of(values)
    assert found is not None
    assert found.below(5.0).true is None  # Student's t alone ends at 3.6
    assert found.below(5.0).p > 0.025 > found.above(-1.0).p


def test_no_interval_is_made_of_the_rounding_of_equal_values() -> None:
    """Samples of equal floats have 1e-17 as their error, over which a mean was millions of errors away."""
    availability = [0.9921, 0.9921, 0.9921, 0.9921, 0.9921, 0.9921, 0.9921, 0.9921, 0.9921, 0.9925]
    _, low, high = interval(availability)
    assert low is not None
    assert high is not None
    assert 0.99 < low < 0.99214 < high < 1.0
    assert len(set(interval([0.1 + 0.2, 0.3, 0.3, 0.3, 0.3]))) == 1
    assert chance([0.1 + 0.2, 0.3, 0.3, 0.3, 0.3], 0.2) == 0.0


def test_intervals_end_where_a_quantity_does() -> None:
    """A share is between 0 and 1, a difference of two between -1 and 1, and nothing is lowered by more than all."""
    values = [(0.9, 0.1), (1.0, 0.05), (0.2, 0.0), (1.0, 1.0)]
    points = [[Point(1, "a", "served", ours), Point(1, "b", "served", theirs)] for ours, theirs in values]
    points = [[*each, *(point._replace(metric="delay") for point in each)] for each in points]
    measured = Measured(points, ["serv*"])
    ours, apart = measured.estimate(1, "a", "served"), measured.difference(1, "a", "b", "served")
    saved, free = measured.gain(1, "b", "a", "delay"), measured.estimate(1, "a", "delay")
    assert ours is not None
    assert apart is not None
    assert saved is not None
    assert free is not None
    assert free.high is not None
    assert free.high > 1.0
    assert (ours.high, apart.high, saved.high) == (1.0, 1.0, 1.0)
    assert max(row.high or 0.0 for row in measured.rows() if row.metric == "served") == 1.0
    assert measured.each()[0].estimate(1, "a", "served") is not None


def test_a_check_tells_by_how_many_repetitions_it_is_decided() -> None:
    nan = float("nan")
    points = [[Point(1, "a", "m", 1.0 + k), Point(2, "a", "m", nan if k > 2 else 2.0 + k)] for k in range(5)]
    measured = Measured(points)
    found = [(x, both(measured.always(x, "a", "m", bool), measured.lower(x, "a", "b", "m"))) for x in (1, 2)]
    assert verdicts.at_all("", "", found).runs == 3
    assert verdicts.near("", 1.0, measured.estimate(1, "a", "m"), 1.0, 2.0).runs == 5
    assert verdicts.near("", 1.0, Estimate.exact(1.0), 1.0, 2.0).runs is None
    assert verdicts.at_all("", "", [(1, measured.always(2, "a", "m", bool))]).runs == 3


def test_a_claim_is_reproduced_in_part_if_half_of_its_statements_are() -> None:
    holds, part, unsure, wrong = (
        Check("", "", 1.0, verdict, "") for verdict in ("holds", "holds in part", "undecided", "does not hold")
    )
    for checks, outcome in (
        ([holds], "reproduced"),
        ([holds, part, wrong, wrong], "in part"),
        ([holds, part, wrong, wrong, unsure], "not reproduced"),
        ([holds, unsure, unsure], "undecided"),
        ([holds, verdicts.own(wrong), verdicts.fitted(wrong)], "reproduced"),
    ):
        assert verdicts.of_claim(checks) == outcome
    assert verdicts.of_claim([holds], whole=False) == "in part"


def test_facts_do_not_make_room_for_what_chance_can_decide() -> None:
    fact, likely = Check("", "", 1.0, "holds", "", p=0.0), Check("", "", "at 6 of 6", "holds", "", p=0.04)
    found = verdicts.corrected([*[fact] * 20, likely, likely._replace(verdict="undecided", p=0.6)])
    assert [check.verdict for check in found] == ["holds"] * 20 + ["undecided"] * 2
    assert found[-2].rule.endswith(f"{verdicts.CHANCE}, as 2 statements are tested")


def test_a_policy_that_serves_nobody_in_a_repetition_makes_no_gain_infinite() -> None:
    delays = [(1.0, 2.0), (1.1, float("inf")), (0.9, 2.0), (float("inf"), 2.0), (1.0, 0.0)]
    points = [[Point(1, "a", "delay", ours), Point(1, "b", "delay", theirs)] for ours, theirs in delays]
    gain = Measured(points).gain(1, "a", "b", "delay")
    assert gain is not None
    assert gain.values == pytest.approx((0.5, 0.55))
    assert gain.missing == 3
    assert "3 repetitions without a value" in verdicts.reduction("delay", 0.5, gain).rule


def test_json_has_no_numbers_that_json_does_not_know() -> None:
    check = Check("gain", float("nan"), float("inf"), "undecided", "", low=-float("inf"))
    found = replace(run(seed=4), checks=[check]).to_dict()
    assert [found["checks"][0][each] for each in ("paper", "ours", "low")] == [None, None, None]
    json.dumps(found, allow_nan=False)


def test_a_metric_that_two_cells_measure_is_refused() -> None:
    def twice(setup: parameters.Setup) -> Iterator[Cell]:
        yield from _cells(setup)
        yield Cell(throw, (6, 5))

    found = run(replace(DICE, cells=twice), repeat=1)
    assert "eyes of fair at 6: 2 cells measure it; expected one" in found.failed
    shown = replace(DICE, cells=twice, derive=None, panels=[Panel("eyes", "eyes", "points", runs=True)])
    assert not run(shown, repeat=1).failed  # single runs are drawn


def test_what_each_run_decides_has_to_be_true_in_every_run() -> None:
    measured = Measured([[Point(1, "a", "lost", lost)] for lost in (0.0, 0.0, 1.0)])

    def statements(one: Measured) -> Iterator[verdicts.Statement]:
        yield "nothing is lost", "none", [("a", one.mean(1, "a", "lost") == 0.0), ("b", True)]

    (check,) = verdicts.in_every_run(measured, statements)
    assert (check.verdict, check.ours) == ("does not hold", "at 1 of 2; not at a")


# -- repetitions -------------------------------------------------------------------------------------------------------


def test_a_result_has_the_documented_form() -> None:
    result = run(seed=4)
    found = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert set(found) == {"id", "title", "setup", "rows", "paper", "checks", "seconds"}
    assert found["setup"] == {"sides": [6, 20], "throws": 10, "seed": 4, "repeat": 3, "scale": "quick"}
    assert set(found["rows"][0]) == {"x", "algorithm", "metric", "value", "low", "high"}
    assert [row["x"] for row in found["rows"]] == [6, 6, 20, 20, 6, 20]
    assert tuple(found["checks"][0]) == Check._fields
    assert found["paper"]["points"] == [{"x": 6, "algorithm": "fair", "metric": "eyes", "value": 3.5}]
    fair = next(row for row in found["rows"] if row["algorithm"] == "fair")
    assert fair["low"] < fair["value"] < fair["high"]
    loaded = next(row for row in found["rows"] if row["algorithm"] == "loaded")
    assert loaded["low"] == loaded["value"] == loaded["high"] == 6.0


@pytest.mark.slow
def test_a_run_is_a_function_of_its_seed_whatever_measures() -> None:
    assert run(seed=4).rows == run(seed=4).rows != run(seed=5).rows
    assert run(seed=4, processes=2).rows == run(seed=4).rows


def test_each_repetition_has_a_seed_of_its_own() -> None:
    one, two = run(seed=1, repeat=1), run(seed=1, repeat=2)
    first = [row.value for row in one.rows if row.algorithm == "fair"]
    assert first == throw_means(seed=1000)
    assert two.rows != one.rows
    assert one.rows[0].low is None


def throw_means(seed: int) -> list[float]:
    return [throw(sides, 10, seed)[0].value for sides in (6, 20)]


def test_a_cell_that_two_claims_share_is_measured_once() -> None:
    told: list[tuple[str, int, int]] = []
    other = replace(DICE, id="X2")
    found = list(runner.reproduce([(DICE, {}), (other, {})], progress=lambda *how: told.append(how)))
    assert told[0] == ("X1", 0, 6)
    assert told[-2:] == [("X1", 6, 6), ("X2", 6, 6)]
    assert found[0].rows == found[1].rows
    assert found[0].seconds == found[1].seconds > 0.0


@pytest.mark.slow
def test_claims_measured_by_the_clock_run_alone() -> None:
    """In this process, whatever the others do."""

    def cells(setup: parameters.Setup) -> Iterator[Cell]:
        for sides in (2, 3, 4, 5):
            yield Cell(pid, (sides,), sides, "who", alone=sides > 3)

    claim = replace(DICE, cells=cells, checks=lambda _measured, _setup: [])
    rows = [row for row in run(claim, repeat=1, processes=2).rows if row.metric == "pid"]
    assert [row.value == os.getpid() for row in rows] == [False, False, True, True]


def pid(sides: int, seed: int) -> dict[str, float]:
    return {"pid": float(os.getpid())}


@pytest.mark.slow
def test_processes_end_with_whoever_started_them(tmp_path: Path) -> None:
    """Killed without a chance to tell anybody."""
    (tmp_path / "slow.py").write_text(
        "import os, threading\n"
        "def cell(number, seed):\n"
        "    print(os.getpid(), flush=True)\n"
        "    threading.Event().wait()\n"
    )
    code = (
        "import slow\n"
        "from synergy_experiments.framework.runner import _Pool\n"
        "if __name__ == '__main__':\n"
        "    with _Pool(2) as pool:\n"
        "        list(pool.measure([(slow.cell, (number,), 1) for number in range(2)]))\n"
    )
    (tmp_path / "main.py").write_text(code)
    environment = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}"}
    with subprocess.Popen(
        [sys.executable, str(tmp_path / "main.py")], env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        workers = [int(process.stdout.readline()) for _ in range(2)]
        assert len(set(workers)) == 2
        process.send_signal(signal.SIGKILL)
        assert process.stdout.read() == ""  # they have closed it: both have ended


# -- figures -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_figure_is_drawn_as_vectors_with_the_papers_numbers(tmp_path: Path) -> None:
    path = figures.draw(run(), tmp_path)
    assert path == tmp_path / "X1.svg"
    text = path.read_text("utf-8")
    ET.fromstring(text)
    for shown in ("X1: dice", "fair, paper", "loaded", "sides", "eyes"):
        assert f">{shown}</text>" in text or shown in text
    assert "<image" not in text
    assert figures.draw(run(), tmp_path).read_text("utf-8") == text


@pytest.mark.slow
def test_a_panel_of_bars_is_drawn_with_its_bound(tmp_path: Path) -> None:
    bars = replace(DICE, panels=(Panel("eyes", "eyes", "bars", bounds=((3.5, "half"),)),))
    assert ">half<" in figures.draw(run(bars, repeat=1), tmp_path).read_text("utf-8")


@pytest.mark.slow
def test_rows_of_a_legend_make_a_figure_higher(tmp_path: Path) -> None:
    bars = replace(DICE, panels=(Panel("eyes", "eyes", "bars", bounds=((3.5, "half, " * 20),)),))
    low, high = (
        float(ET.parse(figures.draw(run(each, repeat=1), tmp_path)).getroot().attrib["height"].removesuffix("pt"))
        for each in (DICE, bars)
    )
    assert high > low


# -- the command -------------------------------------------------------------------------------------------------------


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, wide_terminal: None) -> Path:
    """Two claims that take no time are all there are."""
    both = {claim.id: claim for claim in (DICE, replace(DICE, id="X2"))}
    monkeypatch.setattr(chapters, "CLAIMS", dict.fromkeys(both, "dice"))
    monkeypatch.setattr(chapters, "_claims", lambda module: both)
    return tmp_path


def synergy(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["reproduce", *arguments, "--processes", "1"])


@pytest.mark.slow
def test_the_command_prints_our_values_beside_those_of_the_papers(known: Path) -> None:
    result = synergy("x1", "--repeat", "2", "--set", "throws=50", "--plot", str(known / "figures"))
    assert result.exit_code == 0, result.output
    for text in ("X1  dice", "throws 50", "fair", "±", "0.4", "holds", "X1: undecided", "X1.svg"):
        assert text in result.stdout
    assert "reproducing X1" in result.stderr
    assert (known / "figures" / "X1.svg").is_file()


def test_the_command_prints_results_as_json(known: Path) -> None:
    one = json.loads(synergy("X2", "--json", "--scale", "paper", "--seed", "3", "--repeat", "1").stdout)
    assert (one["id"], one["setup"]["scale"], one["setup"]["seed"]) == ("X2", "paper", 3)
    assert one["verdict"] == verdicts.of_claim(Check(**each) for each in one["checks"])
    assert [each["id"] for each in json.loads(synergy("all", "--json").stdout)] == ["X1", "X2"]


def test_the_command_lists_claims(known: Path) -> None:
    shown = synergy("--list")
    assert shown.exit_code == 0
    assert "X2" in shown.stdout
    assert "throws" not in shown.stdout
    assert "throws" in synergy("X1", "--list").stdout
    assert json.loads(synergy("--list", "--json").stdout)[0]["parameters"]["throws"]["paper"] == 1000


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "ID: none given; expected all, or claims such as C5; --list lists them"),
        (["X12"], "ID: 'X12'; expected all, or one of X1, X2; did you mean"),
        (["X1", "--set", "throw=1"], "--set: 'throw'; expected one of sides, throws; did you mean 'throws'?"),
        (["X1", "--set", "throws=0"], "--set: throws: '0'; expected a whole number from 1"),
        (["X1", "--scale", "papr"], "--scale: 'papr'; expected quick or paper; did you mean 'paper'?"),
        (["X1", "--repeat", "0"], "--repeat: 0; expected a whole number of at least 1"),
        (["X1", "--plot", __file__], f"--plot: {__file__!r}; expected a folder"),
    ],
)
def test_bad_input_is_refused_before_anything_runs(known: Path, arguments: list[str], said: str) -> None:
    result = synergy(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert f"synergy: {said}" in result.stderr


def unthrown(sides: int, seed: int) -> list[Point]:
    raise ValueError(f"sides: {sides}; expected a die that there is")


def test_a_cell_that_fails_loses_no_other_and_ends_the_command_with_one_message(
    known: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cells(setup: parameters.Setup) -> Iterator[Cell]:
        yield from _cells(setup)
        yield Cell(unthrown, (7,), 7, "fair")

    monkeypatch.setattr(
        chapters, "_claims", lambda module: {"X1": replace(DICE, cells=cells), "X2": replace(DICE, id="X2")}
    )
    result = synergy("all", "--repeat", "2", "--json", "--store", str(known))
    assert result.exit_code == 1
    assert "Traceback" not in result.output
    one, other = json.loads(result.stdout)
    assert [len(each["rows"]) for each in (one, other)] == [6, 6]
    assert "failed" not in other
    error = "ValueError: sides: 7; expected a die that there is"
    assert one["failed"] == [f"unthrown(7), seed {seed}: {error}" for seed in (1000, 1001)]
    assert f"synergy: X1: unthrown(7), seed 1000: {error}" in result.stderr
    restored = stored.restore(DICE, stored.load(known / "X1.json"))
    assert (list(restored.failed), len(restored.rows)) == (one["failed"], 6)


def test_verdicts_that_cannot_do_without_a_missing_point_lose_no_measurement() -> None:
    def checks(measured: Measured, setup: parameters.Setup) -> Iterator[Check]:
        yield verdicts.at_all("most", "always", [(7, Decision.fact(bool(max(measured.course("fair", "missing")))))])

    found = run(replace(DICE, checks=checks), repeat=1)
    assert found.checks == []
    assert len(found.rows) == 6
    assert list(found.failed) == ["verdicts: ValueError: max() arg is an empty sequence"]


def test_a_claim_whose_cells_are_not_known_loses_no_other() -> None:
    def cells(setup: parameters.Setup) -> Iterator[Cell]:
        raise OSError("no trace")

    first, second = runner.reproduce([(replace(DICE, id="X0", cells=cells), {}), (DICE, {})])
    assert first.failed[0] == "no cells: OSError: no trace"
    assert (list(first.rows), list(second.failed), len(second.rows)) == ([], [], 6)


@pytest.mark.slow
def test_a_process_that_ends_loses_only_its_cell_and_those_beside_it() -> None:
    claims = [replace(DICE, id=name, cells=each) for name, each in (("X0", killing), ("X2", _cells))]
    first, second = runner.reproduce([(claim, {}) for claim in claims], processes=2, repeat=1)
    assert "BrokenProcessPool" in first.failed[0]
    assert (list(second.failed), len(second.rows)) == ([], 6)


def killing(setup: parameters.Setup) -> Iterator[Cell]:
    yield from (Cell(kill, (sides,), sides, "fair") for sides in (1, 2))


def kill(sides: int, seed: int) -> dict[str, float]:
    os._exit(1)


def contradicting(setup: parameters.Setup) -> Iterator[Cell]:
    raise parameters.IncompatibleParameters("sides: 7; expected a die that there is")


def test_contradicting_values_end_the_command_with_one_message(known: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chapters, "_claims", lambda module: {"X1": replace(DICE, cells=contradicting)})
    result = synergy("X1")
    assert result.exit_code == 2
    assert "synergy: sides: 7; expected a die that there is" in result.stderr
    assert "Traceback" not in result.output


def test_every_claim_of_the_registry_is_whole() -> None:
    found = chapters.find(["all", *chapters.CLAIMS])
    assert [claim.id for claim in found] == list(chapters.CLAIMS)
    assert [claim.id for claim in chapters.find(["all"])] == [name for name in chapters.CLAIMS if name[0] != "B"]
    for claim in found:
        for scale in parameters.SCALES:
            setup = parameters.at_scale(claim.parameters, scale)
            cells = list(claim.cells(setup))
            assert cells
            assert len({*cells}) == len(cells)  # they can be told apart
        assert claim.title
        assert claim.says
        assert min(claim.repeat) >= 1
