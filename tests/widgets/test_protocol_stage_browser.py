"""The stage in a real Chromium: stepping by key and slider, the arrangements, the table of graphs, both themes."""

from __future__ import annotations

import re

import pytest

from synergy_nb import Simulation, source
from synergy_nb.recording.moments import Replay
from synergy_nb.widgets._stage_picture import LETTER, SIZE, svg
from synergy_nb.widgets.protocol_stage import ProtocolStage
from tests.browser import ARTEFACTS, BarePage
from tests.failed_set_up import replay_of_a_failed_set_up
from tests.widgets.contrast import faint

pytestmark = pytest.mark.slow  # a browser

COUNTS = "([name, count]) => document.querySelector(`#${name} .count`).innerText.startsWith(count)"
SHOWN = "view => document.querySelector(`#${view} .synergy-stage:not(.empty)`)"


@pytest.fixture(scope="module")
def replay() -> Replay:
    """A composition, a death and a take-over among twelve peers of a wide area."""
    simulation = Simulation(12, seed=2)
    packets = source("packets", seed=1, rate="100 tuples/s", duration="8 s", id="packets")
    wide = packets.filter("bytes > 1000", id="wide")
    sums = wide.aggregate(by="source", window="1 s", total="sum(bytes)", id="sums")
    application = simulation.submit(sums.sink(delay="2 s"), spread=True)
    application.results()
    return application.replay()


def shown(bare: BarePage, stage: ProtocolStage) -> str:
    name = str(bare.show(stage).get_attribute("id"))
    bare.until(SHOWN, name)
    return name


def test_moments_are_stepped_by_key_button_and_slider(bare: BarePage, replay: Replay) -> None:
    stage = ProtocolStage(replay)
    name = shown(bare, stage)
    root, count = bare.page.locator(f"#{name} .synergy-stage"), bare.page.locator(f"#{name} .count")
    last = len(replay.moments)
    assert count.inner_text() == f"1 of {last}"
    root.focus()
    bare.page.keyboard.press("ArrowRight")
    bare.page.keyboard.press("n")
    bare.until_here(lambda: stage.step == 2)
    assert count.inner_text() == f"3 of {last}"
    assert bare.page.locator(f"#{name} .what").inner_text().startswith(replay.moments[2].title)
    bare.page.keyboard.press("End")
    bare.until_here(lambda: stage.step == last - 1)
    bare.page.get_by_label("Previous moment").click()
    bare.until_here(lambda: stage.step == last - 2)
    bare.page.get_by_role("slider").fill("5")
    bare.until_here(lambda: stage.step == 5)
    stage.step = 7  # and from Python
    bare.until("name => document.querySelector(`#${name} .count`).innerText.startsWith('8 of')", name)


CUT = """name => {
    const svg = document.querySelector(`#${name} .picture svg`), whole = svg.getBoundingClientRect();
    const out = (box) =>
        box.left < whole.left || box.right > whole.right || box.top < whole.top || box.bottom > whole.bottom;
    const texts = [...svg.querySelectorAll("text")].filter(each => each.textContent);
    return texts.filter(each => out(each.getBoundingClientRect())).map(each => each.textContent);
}"""


def test_no_label_is_cut_at_the_edge_and_a_peer_has_the_colour_of_its_name(bare: BarePage) -> None:
    simulation = Simulation(12, seed=2)
    packets = source("packets", seed=1, rate="100 tuples/s", id="packets_of_the_first_link")
    large = packets.filter("bytes > 1000", id="only_large_packets_of_it", at="peer-8")  # near the edge of the map
    sums = large.aggregate(
        by="source", window="1 s", total="sum(bytes)", id="bytes_of_each_source_a_second", at="peer-8"
    )
    found = simulation.submit(sums.sort("total desc", id="largest_sources_come_first", at="peer-8").sink("x")).replay()
    stage = ProtocolStage(found)
    name = shown(bare, stage)
    longest = max(range(len(found.moments)), key=lambda step: len(found.moments[step].path))
    for arrangement in ("map", "ring"):
        for step in (longest, len(found.moments) - 1):
            stage.step = step
            bare.until(COUNTS, [name, f"{step + 1} of"])
            assert bare.page.evaluate(CUT, name) == [], arrangement
        bare.page.locator(f"#{name} .synergy-stage").focus()
        bare.page.keyboard.press("m")
    drawn = svg(found, len(found.moments) - 1, "map")  # the picture for viewers that cannot run the stage
    [(x, anchor, words)] = re.findall(r'x="([\d.]+)" y="[\d.]+" text-anchor="(\w+)">(peer-8[^<]*)', drawn)
    room = {"start": SIZE - float(x), "end": float(x), "middle": 2 * min(float(x), SIZE - float(x))}[anchor]
    assert len(words) * LETTER <= room + 24
    fill = "([name, peer]) => document.querySelector(`#${name} [data-peer='${peer}']`).style.getPropertyValue('--own')"
    assert [bare.page.evaluate(fill, [name, peer]) for peer in ("peer-1", "peer-8", "peer-9")] == [
        "var(--peer-0)", "var(--peer-7)", "var(--peer-0)",
    ]  # fmt: skip


def test_playing_ends_at_the_last_moment(bare: BarePage, replay: Replay) -> None:
    stage = ProtocolStage(replay)
    name = shown(bare, stage)
    bare.page.get_by_label("Pace").select_option("fast")
    stage.step = len(replay.moments) - 3
    bare.page.get_by_label("Play", exact=True).click()
    bare.until_here(lambda: stage.step == len(replay.moments) - 1)
    bare.until("name => document.querySelector(`#${name} [aria-label=Play]`)", name)


def test_kinds_of_moments_can_be_left_out(bare: BarePage, replay: Replay) -> None:
    stage = ProtocolStage(replay)
    name = shown(bare, stage)
    kinds = {moment.kind for moment in replay.moments}
    for kind in kinds - {"graph"}:
        bare.page.locator(f"#{name} .kinds .{kind}").click()
    bare.page.locator(f"#{name} .synergy-stage").focus()
    bare.page.keyboard.press("ArrowRight")
    first = next(at for at, moment in enumerate(replay.moments) if moment.kind == "graph")
    bare.until_here(lambda: stage.step == first)


def test_graphs_appear_when_they_are_known(bare: BarePage, replay: Replay) -> None:
    stage = ProtocolStage(replay)
    name = shown(bare, stage)
    rows = f"#{name} .graphs tbody tr"
    assert bare.page.locator(rows).count() == 0
    stage.step = len(replay.moments) - 1
    bare.until("rows => document.querySelectorAll(rows).length", rows)
    assert bare.page.locator(rows).count() == len(replay.graphs)
    assert bare.page.locator(f"{rows}.chosen").count() == 1
    chosen = next(graph for graph in replay.graphs if graph.chosen >= 0)
    assert bare.page.locator(f"{rows}.chosen .why").inner_text() == f"by {chosen.why}" != "by "
    bare.page.locator(f"{rows}.chosen").hover()
    meant = bare.page.locator(f"#{name} .peer.meant")
    assert {meant.nth(at).get_attribute("data-peer") for at in range(meant.count())} == {*chosen.peers.values()}


def test_a_graph_whose_set_up_failed_is_marked_and_the_next_one_chosen(bare: BarePage) -> None:
    stage = ProtocolStage(replay_of_a_failed_set_up())
    name = shown(bare, stage)
    rows = bare.page.locator(f"#{name} .graphs tbody tr")
    near = stage.replay.graphs[1]
    for step, expected in (
        (near.chosen, ["✓ chosen|one|by least φ", "|two|"]),
        (near.failed, ["▲ set-up failed|one|two: its reservation has expired", "|two|"]),
        (
            len(stage.replay.moments) - 1,
            ["✓ chosen|two|by least φ", "▲ set-up failed|one|two: its reservation has expired"],
        ),
    ):
        stage.step = step
        bare.until(COUNTS, [name, f"{step + 1} of"])
        found = [rows.nth(at).locator("td").all_inner_texts() for at in range(rows.count())]
        assert [f"{cells[0]}|{cells[3].rpartition('@')[2]}|{cells[4]}" for cells in found] == expected


def test_numbers_keep_their_labels_in_one_line_where_the_page_lets_them_float(bare: BarePage, replay: Replay) -> None:
    stage = ProtocolStage(replay)
    name = shown(bare, stage)
    page_rule = bare.page.add_style_tag(content="div dt { float: left; width: 20%; }")  # as JupyterLab has it
    stage.step = next(at for at, moment in enumerate(replay.moments) if len(moment.numbers) > 1)
    label = f"#{name} .numbers dt"
    bare.until("label => document.querySelector(label)", label)
    box = bare.page.locator(label).first.bounding_box()
    page_rule.evaluate("rule => rule.remove()")
    assert box is not None
    assert box["height"] < 30.0


def test_peers_are_on_the_map_and_on_the_ring(bare: BarePage, replay: Replay) -> None:
    stage = ProtocolStage(replay)
    name = shown(bare, stage)
    peers = f"#{name} .peer"
    assert bare.page.locator(peers).count() == len(replay.peers)
    assert bare.page.locator(f"#{name} .key").count() == 0
    bare.page.locator(f"#{name} .synergy-stage").focus()
    bare.page.keyboard.press("m")
    bare.until_here(lambda: stage.arrangement == "ring")
    keys = bare.page.locator(f"#{name} .key")
    assert {keys.nth(at).get_attribute("data-root") for at in range(keys.count())} == {key.root for key in replay.keys}


def test_peers_that_join_and_leave_change_who_is_responsible(bare: BarePage) -> None:
    simulation = Simulation(3, network="local", cores=1, seed=3)
    application = simulation.submit(source("packets", rate="20/s", seed=1, at="peer-1").sink(), origin="peer-1")
    for peer in ("new <b>", "further", "last"):
        simulation.join(peer)
    simulation.leave("peer-2")
    replay = application.replay()
    stage = ProtocolStage(replay)
    name = shown(bare, stage)
    stage.arrangement = "ring"
    present = f"#{name} .peer:not(.absent)"

    def seen(step: int, peers: set[str]) -> set[str]:
        stage.step = step
        bare.until("([all, count]) => document.querySelectorAll(all).length === count", [present, len(peers)])
        here = bare.page.locator(present)
        assert {here.nth(at).get_attribute("data-peer") for at in range(here.count())} == peers
        keys = bare.page.locator(f"#{name} .key")
        return {keys.nth(at).get_attribute("data-root") or "" for at in range(keys.count())}

    assert seen(0, {"peer-1", "peer-2", "peer-3"}) == {key.root for key in replay.keys}
    last = seen(len(replay.moments) - 1, {"peer-1", "peer-3", "new <b>", "further", "last"})
    assert "peer-2" not in last
    assert last & {"new <b>", "further", "last"}
    bare.page.locator(f"#{name} .synergy-stage").screenshot(path=ARTEFACTS / "stage-ring.png")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_stage_is_legible_in_both_themes(bare: BarePage, replay: Replay, theme: str) -> None:
    bare.page.emulate_media(color_scheme="light" if theme == "light" else "dark")
    bare.page.set_viewport_size({"width": 1040, "height": 980})
    stage = ProtocolStage(replay)
    name = shown(bare, stage)
    graph = next(at for at, moment in enumerate(replay.moments) if moment.kind == "graph")
    probe = max((at for at, moment in enumerate(replay.moments) if len(moment.path) > 2), default=graph)
    ARTEFACTS.mkdir(parents=True, exist_ok=True)
    for at, arrangement in ((graph, "map"), (probe, "map"), (3, "ring"), (len(replay.moments) - 1, "ring")):
        stage.step, stage.arrangement = at, arrangement
        bare.until(COUNTS, [name, f"{at + 1} of"])
        assert faint(bare, f"#{name} .synergy-stage") == []
        bare.page.screenshot(path=ARTEFACTS / f"stage-{theme}-{arrangement}-{at}.png")
