"""Stored results of claims, and the page that is written from them."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from synergy_experiments import chapters
from synergy_experiments.chapters.choices import choices
from synergy_experiments.framework import page, runner, stored
from synergy_experiments.framework.claim import Cell, Choices, Claim, Panel
from synergy_experiments.framework.measurements import Point
from synergy_experiments.framework.parameters import at_scale, whole
from synergy_experiments.framework.verdicts import reduction
from synergy_nb.cli.commands import app

JUDGED = [name for name in chapters.CLAIMS if name[0] != "B"]


def race(laps: int, seed: int) -> list[Point]:
    """Times of a hare and a tortoise, and a curve of which one example is enough."""
    slow = 10.0 + seed % 1000 / 100.0
    return [
        Point(laps, "hare", "time", slow / 2.0),
        Point(laps, "tortoise", "time", slow),
        Point(laps, "hare", "curve", slow),
        Point(laps, "hare", "missing", math.nan),
    ]


RACE = Claim(
    id="X1",
    title="race <1>",
    source="nowhere",
    says="hares need 50 % less",
    parameters={"laps": whole("laps", 2, 4)},
    cells=lambda setup: [Cell(race, (setup["laps"],))],
    checks=lambda measured, setup: [reduction("time", 0.5, measured.gain(setup["laps"], "hare", "tortoise", "time"))],  # type: ignore[arg-type]
    panels=(Panel("time", "time (s)"), Panel("curve", "curve", example=True)),
    xlabel="laps",
    repeat=(3, 10),
)
TOLD = Choices((("how long a lap is", "1 km & more"),), "a lame hare")


def raced(**options: Any) -> Any:
    (result,) = runner.reproduce([(RACE, {})], **options)
    return result


def test_a_result_is_stored_and_restored_with_its_origin(tmp_path: Path) -> None:
    result = raced(seed=4)
    path = stored.save(result, tmp_path / "new", stored.Origin("abc123", "two cores"))
    assert path == tmp_path / "new" / "X1.json"
    found = stored.load(path)
    assert (found["commit"], found["machine"]) == ("abc123", "two cores")
    assert found["setup"] == {"laps": 2, "seed": 4, "repeat": 3, "scale": "quick"}
    assert found["points"][0] == [2, "hare", "time", [5.0, 5.005, 5.01]]
    assert found["points"][2] == [[2], "hare", "curve", [10.0]]
    assert len(found["points"]) == 3
    again = stored.restore(RACE, found)
    assert again.checks == result.checks
    assert again.setup == result.setup
    assert [row for row in again.rows if row.metric == "time"] == [row for row in result.rows if row.metric == "time"]
    assert [row.value for row in again.rows if row.metric == "curve"] == [10.0]  # of the first repetition


def test_verdicts_of_stored_results_follow_the_present_rules(tmp_path: Path) -> None:
    found = stored.load(stored.save(raced(), tmp_path))
    assert [check.verdict for check in stored.restore(RACE, found).checks] == ["holds"]
    stricter = replace(
        RACE, checks=lambda measured, _: [reduction("", 0.7, measured.gain(2, "hare", "tortoise", "time"))]
    )
    assert [check.verdict for check in stored.restore(stricter, found).checks] == ["holds in part"]


def test_the_closed_form_of_a2_holds_from_its_file_as_when_it_was_measured(tmp_path: Path) -> None:
    (claim,) = chapters.find(["A2"])
    (result,) = runner.reproduce([(claim, {"components": (3, 5), "placements": 2})])
    again = stored.restore(claim, stored.load(stored.save(result, tmp_path)))
    for each in (result, again, stored.restore(claim, kept()["A2"])):
        assert each.checks[-1].name.endswith("the closed form")
        assert each.checks[-1].verdict == "holds"


def test_the_origin_names_the_kind_of_machine_and_not_the_machine() -> None:
    import platform

    origin = stored.Origin.here()
    assert origin.commit
    assert "cores" in origin.machine
    assert platform.node() not in origin.machine


@pytest.mark.parametrize("text", ["", "[]", '{"id": "X1"}'])
def test_a_file_that_is_no_result_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "X1.json").write_text(text)
    with pytest.raises(ValueError, match="expected a result that --store has written"):
        stored.load(tmp_path / "X1.json")


class _Text(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.text, self.images = "", 0
        self.feed(html)

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.images += tag == "img"


@pytest.mark.slow
def test_the_page_has_claim_choices_findings_and_doubt(tmp_path: Path) -> None:
    stored.save(raced(scale="paper"), tmp_path, stored.Origin("abc123", "two cores"))
    other = replace(RACE, id="X2", title="another race")
    missing = page.write_page([(RACE, TOLD), (other, TOLD)], tmp_path, tmp_path / "page.html")
    assert missing == ["X2"]
    shown = _Text((tmp_path / "page.html").read_text("utf-8"))
    for text in (
        "X1: race <1>", "hares need 50 % less", "how long a lap is", "1 km & more", "a lame hare", "0.5",
        "✓ 1 holds", "10 repetitions at paper scale", "seed 1", "commit abc123", "two cores",
        "synergy reproduce X2 --scale paper --store DIR",
    ):  # fmt: skip
        assert text in shown.text, text
    assert shown.images == 1


@pytest.mark.slow
def test_the_command_stores_results_and_writes_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chapters, "CLAIMS", {"X1": "race"})
    monkeypatch.setattr(chapters, "_claims", lambda module: {"X1": RACE})
    monkeypatch.setattr("synergy_nb.cli.reproduce_command.choices", lambda: {"X1": TOLD})
    run = CliRunner().invoke
    done = run(app, ["reproduce", "X1", "--store", str(tmp_path / "kept"), "--processes", "1"])
    assert done.exit_code == 0, done.output
    out = tmp_path / "page.html"
    done = run(app, ["reproduce", "--page", str(out), "--results", str(tmp_path / "kept")])
    assert done.exit_code == 0, done.output
    assert "3 repetitions at quick scale" in out.read_text("utf-8")
    (tmp_path / "kept" / "X1.json").write_text("{}")
    done = run(app, ["reproduce", "--page", str(out), "--results", str(tmp_path / "kept")])
    assert done.exit_code == 2
    assert "expected a result that --store has written" in done.output
    done = run(app, ["reproduce", "--page", str(out), "--results", str(tmp_path / "none")])
    assert done.exit_code == 2


# -- the project's own -------------------------------------------------------------------------------------------------


def test_every_claim_has_its_choices() -> None:
    found = choices()
    assert list(found) == JUDGED
    assert len(JUDGED) == 41
    for name, told in found.items():
        assert told.open, name
        assert told.doubt, name
        assert all(question and chosen for question, chosen in told.open), name


def kept() -> dict[str, dict[str, Any]]:
    return {path.stem: stored.load(path) for path in sorted(stored.FOLDER.glob("*.json"))}


@pytest.mark.slow
def test_stored_results_belong_to_claims_and_have_verdicts() -> None:
    for name, found in kept().items():
        (claim,) = chapters.find([name])
        result = stored.restore(claim, found)
        assert found["id"] == name
        assert result.checks, name
        assert found["setup"].keys() >= {"seed", "repeat", "scale"}


#: Claims of which a few cells are measured again, which takes a fraction of a second.
SAMPLED = {"A2": 3, "R1": 2, "R2": 1}


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLED)
def test_a_sample_of_a_stored_result_is_measured_again(name: str) -> None:
    found = kept()[name]
    (claim,) = chapters.find([name])
    result = stored.restore(claim, found)
    setup = {each: value for each, value in result.setup.items() if each in claim.parameters}
    assert setup.keys() == at_scale(claim.parameters, "quick").keys()
    values = {(x, who, metric): each[0] for x, who, metric, each in found["points"]}
    seed = runner.seed_of(found["setup"]["seed"], 0)
    for cell in list(claim.cells(setup))[: SAMPLED[name]]:
        for x, who, metric, value in cell.points(cell.function(*cell.arguments, seed)):
            assert value == pytest.approx(values[x, who, metric], rel=1e-3, abs=1e-6), (x, who, metric)
    assert json.dumps(found["machine"])
