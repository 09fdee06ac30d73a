"""Stored results of claims, and the page that is written from them."""

from __future__ import annotations

import fnmatch
import html
import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from typer.testing import CliRunner

from synergy_experiments import chapters
from synergy_experiments.chapters.choices import choices
from synergy_experiments.chapters.guide import guide
from synergy_experiments.framework import figures, page, page_heights, page_numbers, runner, stored
from synergy_experiments.framework.claim import Cell, Check, Choices, Claim, Panel, Result
from synergy_experiments.framework.guide import Glossary, Guide, Headline, Paper, Word, main_checks
from synergy_experiments.framework.measurements import Measured, Point
from synergy_experiments.framework.parameters import at_scale, whole
from synergy_experiments.framework.verdicts import corrected, reduction, threshold
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
GUIDE = Guide(
    {"X": Paper("Racing", "Aesop", "A lap is once around the field.", "Fables, 500 BC")},
    {"X1": Headline("time saved", "time", "%", "time", "half of it", "R")},
    [Word(("lap", "laps"), "once <around>")],
    {"R": "on foot"},
)


def raced(**options: Any) -> Any:
    (result,) = runner.reproduce([(RACE, {})], **options)
    return result


def stumble(laps: int, seed: int) -> list[Point]:
    raise ValueError("a <stone>")


def test_the_page_names_a_cell_that_was_not_measured(tmp_path: Path) -> None:
    claim = replace(RACE, cells=lambda setup: [*RACE.cells(setup), Cell(stumble, (1,))])
    (result,) = runner.reproduce([(claim, {})], repeat=1)
    stored.save(result, tmp_path)
    page.write_page([(RACE, TOLD)], GUIDE, tmp_path, tmp_path / "page.html")
    written = (tmp_path / "page.html").read_text("utf-8")
    assert (
        "<strong>1 repetition at quick scale: verdicts of one run, without intervals, 1 cell not measured</strong>"
        in written
    )
    assert "<p>stumble(1), seed 1000: ValueError: a &lt;stone&gt;</p>" in written


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


def test_of_examples_only_those_in_a_panel_are_stored(tmp_path: Path) -> None:
    claim = replace(RACE, panels=(Panel("curve", "curve", example=True),), examples="")
    result = raced()
    both = [[*points, Point(1.0, "hare", "curve of a night", 1.0)] for points in result.repetitions]
    for examples, kept_metrics in (("", ["time", "curve of a night", "curve"]), ("curve", ["time", "curve"])):
        judged = replace(result, claim=replace(claim, examples=examples), repetitions=both)
        points = stored.load(stored.save(judged, tmp_path))["points"]
        assert list(dict.fromkeys(metric for _, _, metric, _ in points)) == kept_metrics


def test_single_runs_at_one_place_are_not_stored_as_more_repetitions(tmp_path: Path) -> None:
    def cells(setup: Any) -> list[Cell]:
        return [*RACE.cells(setup), *(Cell(sprint, (lane,)) for lane in range(4))]

    claim = replace(RACE, cells=cells, panels=(*RACE.panels, Panel("sprint", "s", "points", runs=True)))
    (result,) = runner.reproduce([(claim, {})], repeat=2)
    again = stored.restore(claim, stored.load(stored.save(result, tmp_path)))
    assert [(check.runs, check.rule) for check in again.checks] == [(2, result.checks[0].rule)]


def sprint(lane: int, seed: int) -> list[Point]:
    return [Point(2, "hare", "sprint", 1.0 + lane)]


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


# -- the page ----------------------------------------------------------------------------------------------------------


def sections(path: Path) -> dict[str, str]:
    """Return the sections of a page by their ids."""
    found = re.findall(r"<section[^>]* id=\"?([\w-]+)\"?[^>]*>(.*?)</section>", path.read_text("utf-8"), re.DOTALL)
    return dict(found)


def unfolded(section: str) -> str:
    """Return what is shown of a section before anything is opened."""
    return re.sub(r"<details>.*?</details>", "", section, flags=re.DOTALL)


def text_of(part: str) -> str:
    return html.unescape(re.sub(r"<[^>]*>", " ", part))


def height(section: str) -> float:
    """Return the height of a section with what is not folded, estimated from its paragraphs, rows and figure."""
    shown = unfolded(section)
    texts = re.findall(r"<p[^>]*>(.*?)(?=</p>|<p|<div|</div>)", shown, re.DOTALL)
    rows = [re.split(r"<td[^>]*>", row)[2:] for row in re.findall(r"<tr><td>.*", shown)]
    table = page_heights.TABLE + sum(
        page_heights.ROW_BETWEEN
        + page_heights.ROW_LINE
        * max(
            sum(page_heights.lines(text_of(part), letters) for part in cell.split("<br>"))
            for cell, letters in zip(row, page_heights.COLUMNS, strict=True)
        )
        for row in rows
    )
    inches = re.search(r'data-high="([\d.]+)"', shown)
    beside = max(table, float(inches[1]) * figures.PIXELS if inches else 0.0)
    return (
        page_heights.Height().heading().folded().used
        + beside
        + sum(page_heights.Height(0.0).text(text_of(text)).used for text in texts if "more below" not in text)
    )


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw no figures, only say how high they would be."""
    shown = '<figure data-high="{}"><img alt="{}"></figure>'
    monkeypatch.setattr(
        page,
        "_figure",
        lambda result, panel: shown.format(
            figures.height_of(result, panel), html.escape(figures.describe(result, panel))
        ),
    )


@pytest.mark.slow
def test_the_page_has_claim_choices_findings_and_doubt(tmp_path: Path) -> None:
    stored.save(raced(scale="paper"), tmp_path, stored.Origin("abc123", "two cores"))
    other = replace(RACE, id="X2", title="another race")
    told: list[tuple[str, int, int]] = []
    path = tmp_path / "page.html"
    missing = page.write_page([(RACE, TOLD), (other, TOLD)], GUIDE, tmp_path, path, lambda *seen: told.append(seen))
    assert missing == ["X2"]
    assert told == [("X1", 0, 2), ("X2", 1, 2), ("X2", 2, 2)]
    whole = path.read_text("utf-8")
    assert not re.search(r"<script|<link|(?:src|href)=.?http", whole)  # neither code nor network
    found = sections(path)
    assert list(found) == ["summary", "rules", "paper-X", "X1", "X2", "words"]
    shown = text_of(found["X1"])
    for text in (
        "X1: race <1>", "hares need 50 % less", "how long a lap is", "1 km & more", "a lame hare", "50 %",
        "1 ✓ hold", "1 check of the paper's statements:", ": 1 of 1 hold",
        "10 repetitions at paper scale", "seed 1", "commit abc123", "two cores",
    ):  # fmt: skip
        assert text in " ".join(shown.split()), text
    assert "synergy reproduce X2 --scale paper --store DIR" in text_of(found["X2"])
    assert 'alt="Lines: time (s) by laps; hare 5.02 at 4; tortoise 10 at 4."' in found["X1"]
    assert len(re.findall("<img", whole)) == 2
    assert text_of(unfolded(found["X1"])).count("lap") == 0  # the questions are folded
    assert 'title="once &lt;around&gt;">lap</a>' in found["paper-X"]
    assert "<td>1 of 1<td>half of it<td>50 %" in found["summary"]
    assert "<li>Fables" in found["rules"]
    assert "<small>R</small>" in found["summary"]
    assert "<strong>R</strong> on foot." in found["summary"]
    assert "reproduced" in found["summary"]
    assert "not stored" in found["summary"]


@pytest.mark.usefixtures("undrawn")
def test_a_section_shows_what_fits_on_a_screen_and_what_does_not_hold_first(tmp_path: Path) -> None:
    name = "a name of twenty-six letters " * 4
    checks = [
        *(Check(f"{name} {number}", 0.5, 0.5, "holds", "within ± 1 points", p=0.0) for number in range(30)),
        Check("this one", 0.5, 0.1, "does not hold", "within ± 1 points", p=0.0),
    ]
    hard = replace(RACE, checks=lambda measured, setup: checks)
    stored.save(raced(), tmp_path)
    told = TOLD._replace(reason="It is so. " + "This is one sentence of many. " * 60)
    page.write_page([(hard, told)], GUIDE, tmp_path, tmp_path / "page.html")
    (shown,) = (section for name, section in sections(tmp_path / "page.html").items() if name == "X1")
    assert 500.0 < height(shown) <= page_heights.SCREEN
    rows = re.findall(r"<tr><td>.*", unfolded(shown))
    assert "this one" in rows[1]  # behind the main number
    assert f"{31 - len(rows)} more below: {31 - len(rows)} hold." in shown
    assert unfolded(shown).count("one sentence of many") < 20 < shown.count("one sentence of many")


def test_the_main_number_is_that_of_the_named_checks_over_all_readings() -> None:
    checks = [
        Check("first", 1.0, 1.0, "holds", ""),
        Check("second, at 3, mean", 1.0, 0.93, "holds", ""),
        Check("second, at 3, least", 1.0, 0.19, "does not hold", ""),
        Check("second, at 4", 2.0, 0.01, "does not hold", ""),
    ]
    assert main_checks(Headline("second", "second*3"), checks) == checks[1:3]
    assert page_numbers.over_readings(checks[1:3], "%") == "19 to 93 % <small>by reading</small>"
    assert main_checks(Headline("none"), checks) == checks[:1]
    assert main_checks(Headline("none"), []) == []
    told = [Check("at all", "always", ours, "holds", "") for ours in ("at 5 of 5", "at 1 of 3; not at 2, 3")]
    assert page_numbers.over_readings(told, "") == "at 6 of 8"
    apart = [
        check._replace(low=low, high=high) for check, low, high in zip(checks[1:3], (0.9, 0.1), (1.0, 0.3), strict=True)
    ]
    assert page_numbers.over_readings(apart, "%") == "19 to 93 % <small>by reading; intervals 10 to 100</small>"
    one = Check("one", 0.5, 0.42, "holds", "", 0.4, 0.44)
    assert page_numbers.over_readings([one], "%") == "42 % <small>40 to 44</small>"


def test_what_is_shown_as_the_papers_is_the_papers() -> None:
    share = Check("", 0.95, 0.96, "holds", "", unit="%")
    assert page_numbers.texts(share) == ("95 %", "96 %")
    assert page_numbers.texts(threshold(share, "very high"))[0] == "‘very high’; we test for 95 %"
    assert page_numbers.texts(share._replace(paper="our aim", judges="own"))[0] == ""
    sure, unsure = share._replace(p=0.001), share._replace(ours="at 6 of 6", p=0.04)
    found = corrected([sure, unsure, *[unsure._replace(verdict="does not hold", p=1.0)] * 8])
    assert page_numbers.texts(found[1])[1] == "at 6 of 6<br><small>chance is not excluded</small>"
    assert page_numbers.holding([*found, share._replace(verdict="not comparable")]) == "1 of 10"


def test_the_least_number_of_repetitions_is_told() -> None:
    result = raced(scale="paper")
    assert page.marked_size(result) == "10 repetitions at paper scale"
    few = replace(result, checks=[check._replace(runs=5) for check in result.checks])
    assert page.marked_size(few) == "<strong>5 to 10 repetitions at paper scale</strong>"
    once = raced(scale="paper", repeat=1)
    assert page.marked_size(once).startswith("<strong>1 repetition at paper scale: verdicts of one run")
    planned = replace(once, claim=replace(RACE, repeat=(1, 1)))
    assert page.marked_size(planned).startswith("one run at paper scale, in which nothing is random")


def test_a_word_with_other_senses_is_listed_and_no_link() -> None:
    glossary = Glossary([Word(("=limit", "limit of the delay"), "what a request allows")])
    assert "<a" not in glossary.explained("a limit of memory", set())
    assert ">limit of the delay</a>" in glossary.explained("the limit of the delay", set())
    assert '<dt id="w-limit">limit<dd>' in glossary.listed()
    assert glossary.knows("limit")


# -- letters of figures ------------------------------------------------------------------------------------------------


def boxes(svg: str) -> list[tuple[str, float, float, float, float, float]]:
    """Return the texts of a figure, the size of their letters, and the box around each; a letter is .55 of it wide."""
    found = []
    for each in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text"):
        style, text = each.attrib["style"], "".join(each.itertext())
        (size,) = re.findall(r"([\d.]+)px", style)
        place = re.search(r"(?:translate\(|rotate\(-?[\d.]+ )(-?[\d.]+) (-?[\d.]+)", each.attrib.get("transform", ""))
        x, y = map(float, place.groups() if place else (each.attrib["x"], each.attrib["y"]))
        wide = len(text) * float(size) * 0.55
        left = x - (wide / 2.0 if "middle" in style else wide if "anchor: end" in style else 0.0)
        found.append((text, float(size), left, y - 0.8 * float(size), left + wide, y + 0.2 * float(size)))
    return found


#: Places of many groups with long names, few with names of two lines, and numbers over decades.
DRAWN = {
    "lying": Panel("time", "time (s)\nof a race", "bars"),
    "standing": Panel("few", "time (s)", "bars", bounds=((5.0, "a limit with a name of its own"),)),
    "logarithmic": Panel(
        "wide", "time (s), with a label of more letters than the width of a column can show", logarithmic=True
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", DRAWN)
def test_letters_of_a_panel_are_read_at_its_width_and_overlap_nowhere(name: str) -> None:
    racers = [f"racer {number} of a long line of racers" for number in range(6)]
    every: dict[str, list[Any]] = {
        "lying": [f"generated packets {number}" for number in range(9)],
        "standing": ["flat course", "steep course", "generated sensors", "short"],
        "logarithmic": [1.0, 10.0, 100.0, 1000.0],
    }
    panel, places = DRAWN[name], every[name]
    values = [Point(x, racer, panel.metric, 10.0**k) for racer in racers for k, x in enumerate(places, -3)]
    repetitions = [values, [point._replace(value=point.value * 1.2) for point in values]]
    claim = replace(RACE, panels=(panel,), paper=(Point(places[0], racers[0], panel.metric, 2.0),))
    result = Result(claim, {}, Measured(repetitions).rows(), [], 0.0)
    svg = figures.panel_svg(result, panel)
    assert float(ET.fromstring(svg).attrib["width"].removesuffix("pt")) * figures.PIXELS / 72.0 <= 600.0
    found = boxes(svg)
    assert min(size for _, size, *_ in found) >= figures.SMALLEST
    for number, (text, _, left, top, right, bottom) in enumerate(found):
        for other, _, begin, high, end, low in found[number + 1 :]:
            apart = min(right, end) - max(left, begin) <= 1.0 or min(bottom, low) - max(top, high) <= 1.5
            assert apart, (text, other)


@pytest.mark.slow
def test_the_axis_follows_the_values_and_an_interval_that_leaves_it_is_told() -> None:
    values = [[Point(1.0, "llf", "time", 1.0 + k % 2 * 0.1), Point(2.0, "llf", "time", 1.2)] for k in range(4)]
    result = Result(replace(RACE, paper=()), {}, Measured(values).rows(), [], 0.0)
    wide = replace(result, rows=[row._replace(high=1e4) for row in result.rows])
    kept, cut = (figures.panel_svg(each, RACE.panels[0]) for each in (result, wide))
    assert figures.CUT in cut
    assert figures.CUT not in kept
    assert "LLF" in cut
    assert "10000" not in cut
    assert max(float(text) for text, *_ in boxes(cut) if re.fullmatch(r"[\d.]+", text)) <= 2.0


@pytest.mark.slow
def test_the_command_stores_results_and_writes_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chapters, "CLAIMS", {"X1": "race"})
    monkeypatch.setattr(chapters, "_claims", lambda module: {"X1": RACE})
    monkeypatch.setattr("synergy_nb.cli._reproduce_command.choices", lambda: {"X1": TOLD})
    monkeypatch.setattr("synergy_nb.cli._reproduce_command.guide", lambda: GUIDE)
    run = CliRunner().invoke
    done = run(app, ["reproduce", "X1", "--store", str(tmp_path / "kept"), "--processes", "1"])
    assert done.exit_code == 0, done.output
    out = tmp_path / "page.html"
    done = run(app, ["reproduce", "--page", str(out), "--results", str(tmp_path / "kept")])
    assert done.exit_code == 0, done.output
    assert "3 repetitions at quick scale" in out.read_text("utf-8")
    assert "· drawing the page" in done.output
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


@pytest.fixture(scope="module")
def restored() -> dict[str, Result]:
    """Return all stored results with their verdicts."""
    return {name: stored.restore(chapters.find([name])[0], found) for name, found in kept().items()}


@pytest.mark.slow
def test_stored_results_belong_to_claims_and_have_verdicts(restored: dict[str, Result]) -> None:
    for name, found in kept().items():
        assert found["id"] == name
        assert restored[name].checks, name
        assert found["setup"].keys() >= {"seed", "repeat", "scale"}


#: Words in capital letters that need no explanation: names of meetings, sites and sections.
NAMES = {"VLDB", "ICDE", "WISC", "OSU", "VI-B", "VI-C", "VI-D", "VI-F", "FILE"}


@pytest.mark.slow
@pytest.mark.usefixtures("undrawn")
def test_the_page_of_all_claims_is_complete_fits_on_screens_and_explains_its_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, restored: dict[str, Result]
) -> None:
    monkeypatch.setattr(page, "restore", lambda claim, _: restored[claim.id])
    known, told, path = choices(), guide(), tmp_path / "page.html"
    claims = [(claim, known[claim.id]) for claim in chapters.find(["all"])]
    assert page.write_page(claims, told, stored.FOLDER, path) == []
    found = sections(path)
    assert [name for name in found if name in JUDGED] == sorted(JUDGED, key=lambda name: "CPARH".index(name[0]))
    links = set(re.findall(r'href="#([^"]+)"', path.read_text("utf-8")))
    assert links >= set(JUDGED)
    anchors = re.findall(r' id="?([^\s">]+)', path.read_text("utf-8"))
    assert len(anchors) == len(set(anchors))
    assert links <= set(anchors)
    glossary, unknown = Glossary(told.words), set[str]()
    for name in JUDGED:
        assert height(found[name]) <= page_heights.SCREEN, name
        assert len(text_of(unfolded(found[name])).split()) <= 420, name
        assert all(len(alt) > 40 for alt in re.findall(r'alt="([^"]*)"', found[name])), name
        capitals = set(re.findall(r"(?<![\w/-])[A-Z]{2,}[\w/-]*", text_of(found[name])))
        unknown |= {each for each in capitals if not glossary.knows(each)}
    assert unknown <= NAMES
    assert set(told.headlines) == set(JUDGED)


@pytest.mark.slow
def test_each_named_main_number_belongs_to_a_check_of_its_claim(restored: dict[str, Result]) -> None:
    for name, headline in guide().headlines.items():
        result = restored[name]
        stated = [check.name for check in result.checks if check.judges == "paper"]
        assert fnmatch.filter(stated, f"{headline.check}*"), (name, headline.check, stated)
        assert headline.panel in {"", *(panel.metric for panel in result.claim.panels)}, (name, headline.panel)


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
