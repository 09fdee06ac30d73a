"""The live view in a real Chromium: its drawing, its accessibility, and its controls."""

from __future__ import annotations

import json
import math
import random
import threading
from typing import Any

import pytest

from synergy_nb.events import ApplicationFailed, HandlerFailed, PeerSilent
from synergy_nb.events.journal import Journal
from synergy_nb.widgets.qos_view import QoSView
from tests.browser import ARTEFACTS, BarePage
from tests.qos_story import (
    NAMES,
    PEERS,
    START,
    filtered,
    measured,
    qos,
    relieved,
    replicated,
    story,
    top_pairs,
    weighed_streams,
)
from tests.widgets.contrast import faint

pytestmark = pytest.mark.slow  # a browser

SHOWN = "view => document.querySelector(`#${view} .synergy-qos:not(.empty)`)"
# Pixels of the chart's canvas in the colour of a line, and the mean of their places.
INK = """([view, chart, name]) => {
  const root = document.querySelector(`#${view} .synergy-qos`);
  const canvas = root.querySelector(`.${chart} canvas`);
  const probe = root.appendChild(document.createElement("i"));
  probe.style.color = `var(--${name})`;
  const wanted = getComputedStyle(probe).color.match(/\\d+/g).map(Number);
  probe.remove();
  const { data, width } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  let count = 0, x = 0, y = 0;
  for (let at = 0; at < data.length; at += 4)
    if (wanted.every((value, part) => Math.abs(data[at + part] - value) < 12)) {
      count++; x += (at / 4) % width; y += Math.floor(at / 4 / width);
    }
  return { count, x: x / count, y: y / count, width, height: canvas.height };
}"""


def shown(bare: BarePage, view: QoSView) -> str:
    """Show one more copy of ``view``; the name of its element, once it is filled."""
    name = str(bare.show(view).get_attribute("id"))
    bare.until(SHOWN, name)
    return name


def words(bare: BarePage, name: str, selector: str) -> list[str]:
    return bare.page.locator(f"#{name} {selector}").all_inner_texts()


def painted(bare: BarePage) -> None:
    """Wait until what has arrived has been drawn."""
    bare.page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def view_of(seconds: int = 60, **options: Any) -> tuple[Journal, QoSView]:
    journal = story(seconds)
    return journal, QoSView(journal, top_pairs(), names=NAMES, **options)


def test_charts_follow_new_data(bare: BarePage) -> None:
    journal, view = view_of()
    name = shown(bare, view)
    painted(bare)
    before = {line: bare.page.evaluate(INK, [name, "delay", line]) for line in ("p50", "p99")}
    for line in before.values():
        assert line["count"] > 300
        assert line["x"] == pytest.approx(line["width"] / 2, rel=0.15)  # from left to right
    assert before["p99"]["y"] < before["p50"]["y"]  # above it
    assert words(bare, name, ".tiles .value")[2:] == ["200 tuples/s", "0 %"]
    total = 12_000
    for half in range(1, 61):  # delays rise tenfold
        total += 100
        journal.append(qos(START + 60 + half / 2, 0.12, 0.3, total))
    view.update()
    bare.until("name => document.querySelector(`#${name} .tiles .value`).textContent === '120 ms'", name)
    painted(bare)
    after = bare.page.evaluate(INK, [name, "delay", "p50"])
    assert after["y"] < before["p50"]["y"]
    assert bare.page.evaluate(INK, [name, "rate", "p50"])["count"] > 100
    ARTEFACTS.mkdir(parents=True, exist_ok=True)
    bare.page.screenshot(path=ARTEFACTS / "qos_view.png", full_page=True)


def test_new_data_are_appended_to_an_open_page(bare: BarePage) -> None:
    journal, view = view_of()
    name = shown(bare, view)

    def write() -> None:
        for half in range(1, 21):
            journal.append(qos(START + 60 + half / 2, 0.02, 0.04, 12_000 + 100 * half))
            view.update()

    thread = threading.Thread(target=write)
    thread.start()
    count = "name => document.getElementById(name).synergyView.lines.get('p50:top-1/sink').size"
    bare.until(f"name => ({count})(name) === 140", name)
    thread.join()


def test_a_page_that_is_reloaded_shows_the_same_history(bare: BarePage) -> None:
    journal, view = view_of()
    name = shown(bare, view)
    journal.append(qos(START + 61, 0.5, 0.9, 12_100))
    view.update()
    bare.until("name => document.querySelector(`#${name} .tiles .value`).textContent === '500 ms'", name)
    lines = "[...document.getElementById(name).synergyView.lines]"
    all_of_it = f"name => JSON.stringify({lines}.map(([key, line]) => [key, line.size]))"
    before = words(bare, name, ".tiles"), bare.page.evaluate(all_of_it, name)
    bare.reload()
    bare.until(SHOWN, name)
    assert (words(bare, name, ".tiles"), bare.page.evaluate(all_of_it, name)) == before


def test_copies_show_the_same_and_load_the_bundle_once(bare: BarePage) -> None:
    journal, view = view_of()
    asked: list[str] = []
    view.on_msg(lambda _widget, content, _buffers: asked.append(content["kind"]))
    one, two = shown(bare, view), shown(bare, view)
    other = QoSView(story(10), names=NAMES)
    three = shown(bare, other)
    journal.append(qos(START + 61, 0.25, 0.9, 12_100))
    view.update()
    for name in (one, two):
        bare.until("name => document.querySelector(`#${name} .tiles .value`).textContent === '250 ms'", name)
    assert asked.count("bundle") == 1
    assert words(bare, three, "h2") == ["Cluster of 5 peers"]
    bare.hide(bare.page.locator(f"#{one}"))
    bare.until_here(lambda: "gone" in asked)
    journal.append(qos(START + 62, 0.75, 0.9, 12_200))
    view.update()
    bare.until("name => document.querySelector(`#${name} .tiles .value`).textContent === '750 ms'", two)


def test_a_page_that_missed_a_message_requests_the_whole_state(bare: BarePage) -> None:
    journal, view = view_of()
    name = shown(bare, view)
    bare.page.evaluate("name => { document.getElementById(name).synergyView.number -= 1 }", name)
    journal.append(qos(START + 61, 0.5, 0.9, 12_100))
    view.update()
    bare.until("name => document.getElementById(name).synergyView.lines.get('p50:top-1/sink').size === 121", name)
    assert bare.page.evaluate("name => document.getElementById(name).synergyView.ready", name)


def test_the_sentence_states_what_the_application_waits_for(bare: BarePage) -> None:
    journal = Journal()
    view = QoSView(journal, top_pairs(), application="top-1", names=NAMES)
    name = shown(bare, view)
    assert words(bare, name, ".sentence") == ["The peers are composing it: they look for a peer for each operator."]
    assert bare.page.locator(f"#{name} .charts").is_hidden()
    assert len(words(bare, name, ".node")) == 7
    for event in story(0):
        journal.append(event)
    view.update()
    bare.until(
        "name => document.querySelector(`#${name} .sentence`).textContent.startsWith('No result has arrived')", name
    )
    journal.append(ApplicationFailed(START + 1, PEERS[0], "top-1", f"peer {PEERS[1]} died (filter)"))
    view.update()
    said = f"document.querySelector('#{name} .sentence').textContent"
    bare.until(f"() => {said} === 'Failed: peer-2 died (filter).'")
    assert words(bare, name, ".badge") == ["✕\nfailed"]


def test_states_of_components_have_glyph_and_word(bare: BarePage) -> None:
    journal, view = view_of()
    name = shown(bare, view)
    part = {"operator": "aggregate", "rate": 100.0, "queue_tuples": 5000}
    journal.append(measured(START + 61, PEERS[2], components=[part]))
    journal.append(PeerSilent(START + 61, "", PEERS[1], reason=""))
    view.update()
    bare.until("name => document.querySelector(`#${name} .node.dead`)", name)
    nodes = {}
    for node in bare.page.locator(f"#{name} .node").all():
        label, peer, state = (node.locator(f"text.{kind}").text_content() or "" for kind in ("label", "peer", "status"))
        nodes[label] = peer, state
    assert nodes["⊘ filter"] == ("peer-2", "peer dead")
    assert nodes["▲ aggregate"] == ("peer-3", "overloaded")
    assert nodes["● sort"] == ("peer-4", "100 tuples/s")
    title = bare.page.locator(f"#{name} .plan > title").text_content() or ""
    assert "aggregate on peer-3: overloaded" in title
    gone = words(bare, name, ".row.gone")
    assert len(gone) == 1
    assert "⊘ does not answer" in gone[0]


def test_the_view_can_be_operated_by_keyboard(bare: BarePage) -> None:
    _, view = view_of(300)
    name = shown(bare, view)
    page = bare.page
    pressed = f"#{name} .spans [aria-pressed=true]"
    assert page.locator(pressed).inner_text() == "2 min"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "30 s"
    assert page.evaluate("document.activeElement.closest('[data-lm-suppress-shortcuts]') === document.activeElement")
    page.keyboard.press("Enter")
    assert page.locator(pressed).inner_text() == "30 s"
    window = "name => document.getElementById(name).synergyView.charts.delay.window"
    bare.until(f"name => Math.abs((({window})(name)[1] - ({window})(name)[0]) - 30) < 0.01", name)
    for _ in range(3):
        page.keyboard.press("Tab")
    page.keyboard.press("Space")
    assert page.locator(pressed).inner_text() == "All"
    bare.until(f"name => ({window})(name)[1] - ({window})(name)[0] > 299", name)


def test_the_charts_can_be_paused_while_data_arrive(bare: BarePage) -> None:
    journal, view = view_of(300)
    name = shown(bare, view)
    hold = bare.page.locator(f"#{name} .hold")
    hold.click()
    assert hold.inner_text() == "Resume"
    journal.append(qos(START + 320, 0.5, 0.9, 60_100))
    view.update()
    bare.until("name => document.querySelector(`#${name} .tiles .value`).textContent === '500 ms'", name)
    until = "name => document.getElementById(name).synergyView.charts.delay.window[1]"
    assert bare.page.evaluate(until, name) == START + 300
    hold.click()
    bare.until(f"name => ({until})(name) === {START + 320}", name)
    assert hold.inner_text() == "Pause"


def test_values_under_the_pointer_are_shown(bare: BarePage) -> None:
    journal, view = view_of()
    journal.append(qos(START + 60.5, 0.5, 0.9, 12_100))
    view.update()
    name = shown(bare, view)
    painted(bare)
    told = f"#{name} .delay .item b"
    assert bare.page.locator(told).all_inner_texts() == ["900 ms", "500 ms"]  # p99, and p50 upon it
    box = bare.page.locator(f"#{name} .delay .u-over").bounding_box()
    assert box is not None
    bare.page.mouse.move(box["x"] + box["width"] / 3, box["y"] + box["height"] / 2)
    bare.until("told => document.querySelector(told).textContent !== '900 ms'", told)
    bare.page.mouse.move(box["x"] + box["width"] / 3, box["y"] + box["height"] + 300)
    bare.until("told => document.querySelector(told).textContent === '900 ms'", told)


def test_a_summary_is_announced_to_screen_readers(bare: BarePage) -> None:
    _, view = view_of()
    name = shown(bare, view)
    heard = bare.page.locator(f"#{name} [aria-live=polite]")
    bare.until("name => document.querySelector(`#${name} [aria-live]`).textContent", name)
    assert "top pairs: running. Within its limit" in (heard.text_content() or "")


@pytest.mark.parametrize("theme", ["light", "dark", "lab light", "lab dark"])
def test_all_text_can_be_read_in_every_theme(bare: BarePage, theme: str) -> None:
    journal, view = view_of()
    journal.append(PeerSilent(START + 61, "", PEERS[1], reason=""))
    journal.append(qos(START + 61, 1.5, 2.5, 12_100, miss_rate=0.5))
    view.update()
    kind, _, lab = theme.rpartition(" ")[::-1] if " " in theme else (theme, "", "")
    bare.page.emulate_media(color_scheme="dark" if (kind == "dark") != bool(lab) else "light")
    if lab:  # the notebook's theme, and the system's is the other
        bare.page.evaluate("kind => document.body.dataset.jpThemeLight = String(kind === 'light')", kind)
    names = [shown(bare, view), shown(bare, QoSView(journal, names=NAMES))]
    painted(bare)
    for name in names:
        assert faint(bare, f"#{name} .synergy-qos") == []
    back = bare.page.locator(f"#{names[0]} .synergy-qos").evaluate("it => getComputedStyle(it).backgroundColor")
    assert back == ("rgb(17, 20, 24)" if kind == "dark" else "rgb(255, 255, 255)")


def test_a_change_of_theme_changes_the_charts(bare: BarePage) -> None:
    _, view = view_of()
    bare.page.emulate_media(color_scheme="light")
    name = shown(bare, view)
    painted(bare)
    light = bare.page.evaluate(INK, [name, "delay", "p99"])
    bare.page.evaluate("() => document.body.dataset.jpThemeLight = 'false'")
    painted(bare)
    dark = bare.page.evaluate(INK, [name, "delay", "p99"])  # in the colour that the line has now
    assert dark["count"] == pytest.approx(light["count"], rel=0.3)


@pytest.mark.parametrize("width", [400, 700, 1200])
def test_nothing_is_cut_off_at_any_width(bare: BarePage, width: int) -> None:
    journal = story(130)
    story(60, journal=journal, application="with-a-rather-long-name-2")
    bare.page.set_viewport_size({"width": width, "height": 800})
    names = [shown(bare, QoSView(journal, top_pairs(), names=NAMES)), shown(bare, QoSView(journal, names=NAMES))]
    painted(bare)
    for name in names:
        wide = "it => [it.scrollWidth - it.clientWidth, it.querySelector('.charts').scrollWidth - it.clientWidth]"
        over, charts = bare.page.locator(f"#{name} .synergy-qos").evaluate(wide)
        assert over <= 0
        assert charts <= 0
        plot = bare.page.locator(f"#{name} .delay .plot").bounding_box()
        assert plot is not None
        assert plot["width"] > 0.8 * (width - 60)
    bare.page.set_viewport_size({"width": width // 2 + 100, "height": 800})
    bare.until(
        "name => { const it = document.querySelector(`#${name} .delay`);"
        " return Math.abs(it.clientWidth - it.querySelector('.uplot').clientWidth) <= 1 }",
        names[0],
    )


FILL = """([name, points]) => {
  const view = document.getElementById(name).synergyView;
  const times = Float64Array.from({ length: points / 2 }, (_, at) => 1000 + at / 10);
  for (const [key, base] of [["p50:top-1/sink", 0.01], ["p99:top-1/sink", 0.03]]) {
    const line = view.lines.get(key);
    line.clear();
    line.append(times, times.map((at) => base * Math.exp(Math.sin(at / 40) + Math.random() / 4)));
    line.values[777] = 0.9;
  }
  view.choose(Infinity);
}"""


def test_a_hundred_thousand_points_are_drawn_by_pixels_and_no_peak_is_lost(bare: BarePage) -> None:
    _, view = view_of(5)
    name = shown(bare, view)
    bare.page.evaluate(FILL, [name, 100_000])
    painted(bare)
    found = bare.page.evaluate(
        """name => {
          const view = document.getElementById(name).synergyView;
          const [times, p50, p99] = view.charts.delay.plot.data;
          const peak = p99.indexOf(0.9);
          const rising = times.every((at, place) => !place || at >= times[place - 1]);
          return { rows: times.length, peak: times[peak], rising, width: view.charts.delay.plot.width,
                   size: view.lines.get("p50:top-1/sink").size, most: view.lines.get("p50:top-1/sink").times.length };
        }""",
        name,
    )
    assert found["size"] == 50_000
    assert found["most"] == 65_536  # capacity doubles
    assert found["rising"]
    assert found["rows"] <= 4 * found["width"]
    assert abs(found["peak"] - 1077.7) < 5000 / found["width"] * 2


def test_an_endless_line_is_thinned_in_the_page(bare: BarePage) -> None:
    _, view = view_of(5)
    name = shown(bare, view)
    size, first, peak = bare.page.evaluate(
        """name => {
          const Line = document.getElementById(name).synergyView.lines.get("p50:top-1/sink").constructor;
          const line = new Line();
          for (let part = 0; part < 40; part++) {
            const times = Float64Array.from({ length: 10000 }, (_, at) => part * 10000 + at);
            line.append(times, times.map((at) => (at === 5001 ? 7 : at % 3)));
          }
          return [line.size, line.first, line.values.reduce((most, value) => Math.max(most, value))];
        }""",
        name,
    )
    assert 131_072 < size <= 262_144
    assert first == 0
    assert peak == 7


def test_an_interruption_is_drawn_as_a_gap(bare: BarePage) -> None:
    journal = story(20)
    rng = random.Random(1)
    for half in range(1, 41):  # half a minute later
        journal.append(qos(START + 50 + half / 2, 0.01 * math.exp(rng.gauss(0, 0.1)), 0.04, 4_000 + 100 * half))
    name = shown(bare, QoSView(journal, top_pairs(), names=NAMES))
    painted(bare)
    gap = bare.page.evaluate(
        """name => {
          const [times, p50] = document.getElementById(name).synergyView.charts.delay.plot.data;
          return times.filter((_, row) => p50[row] === null);
        }""",
        name,
    )
    assert len(gap) == 1
    assert START + 20 < gap[0] < START + 50


def test_frames_at_a_hundred_thousand_points(bare: BarePage) -> None:
    """A frame for each message, ten points at a time; how many a second, and what one costs the page."""
    _, view = view_of(5)
    name = shown(bare, view)
    bare.page.evaluate(FILL, [name, 100_000])
    painted(bare)
    took = bare.page.evaluate(
        """name => new Promise((done) => {
          const view = document.getElementById(name).synergyView;
          const line = (key) => view.lines.get(key);
          const costs = [];
          let began = 0, last = line("p50:top-1/sink").last;
          const step = (now) => {
            began ||= now;
            if (now - began > 3000) return done({ frames: (costs.length / (now - began)) * 1000, costs });
            last += 0.1;
            for (const name of ["p50", "p99"]) line(`${name}:top-1/sink`).append([last], [0.02 + Math.random() / 100]);
            const before = performance.now();
            view.render();
            costs.push(performance.now() - before);
            requestAnimationFrame(step);
          };
          requestAnimationFrame(step);
        })""",
        name,
    )
    costs = sorted(took["costs"])
    middle = costs[len(costs) // 2]
    numbers = {"points": 100_000, "frames_a_second": took["frames"], "ms_p50": middle, "ms_most": costs[-1]}
    ARTEFACTS.mkdir(parents=True, exist_ok=True)
    (ARTEFACTS / "qos_view_frames.json").write_text(json.dumps(numbers, indent=2), "utf-8")
    assert middle < 1000 / 60  # so frames are 60 a second where nothing else is at work


CHART = """([view, chart]) => {
  const { synergyView } = document.querySelector(`#${view} .synergy-qos`).parentElement;
  const { window, reach, limits, marks } = synergyView.charts[chart];
  return { window, reach, limits, marks };
}"""


def test_the_axis_starts_where_the_data_start_however_old_the_cluster_is(bare: BarePage) -> None:
    journal = Journal()
    for second in range(-600, 0, 2):
        journal.append(measured(START + second, PEERS[0]))
    for event in story(12):
        journal.append(event)
    for view in (QoSView(journal, top_pairs(), names=NAMES), QoSView(journal, names=NAMES)):
        name = shown(bare, view)
        painted(bare)
        begin, end = bare.page.evaluate(CHART, [name, "delay"])["window"]
        assert (begin, end) == (pytest.approx(START + 0.5), pytest.approx(START + 12))
        line = bare.page.evaluate(INK, [name, "delay", "p50"])
        assert line["x"] == pytest.approx(line["width"] / 2, rel=0.15)  # over the whole width


def test_a_broken_limit_is_drawn_and_says_that_it_is_broken(bare: BarePage) -> None:
    journal, _ = view_of(0)
    for second in range(1, 20):
        journal.append(qos(START + second, 0.9, 1.2, 100 * second, limit_s=0.001, miss_rate=1.0))
    name = shown(bare, QoSView(journal, top_pairs(), names=NAMES))
    painted(bare)
    chart = bare.page.evaluate(CHART, [name, "delay"])
    low, high = chart["reach"]
    assert low < 0.001 < high
    assert [limit["label"] for limit in chart["limits"]] == ["limit 1 ms: broken"]
    limit, late = (bare.page.evaluate(INK, [name, "delay", colour]) for colour in ("bad", "p50"))
    assert limit["count"] > 300  # the line, from left to right
    assert limit["y"] > late["y"]
    miss = bare.page.evaluate(CHART, [name, "miss"])
    assert [limit["label"] for limit in miss["limits"]] == ["allowed 5 %: broken"]


def test_deaths_take_overs_and_errors_are_marked(bare: BarePage) -> None:
    journal = replicated()
    journal.append(HandlerFailed(START + 7, PEERS[2], "Probe", error="KeyError: 'filter'"))
    name = shown(bare, QoSView(journal, top_pairs(), names=NAMES))
    painted(bare)
    assert bare.page.evaluate(INK, [name, "delay", "good"])["count"] > 20  # the line of the take-over
    assert words(bare, name, ".story .marks li")[:2] == [
        "✓ after 5.3 s: the backup on peer-4 took over filter",
        "▲ after 5 s: peer-2 died with filter, the backup of aggregate",
    ]
    assert words(bare, name, ".story .troubles li") == ["▲ peer-3: handling Probe raised KeyError: 'filter'"]
    assert "peer-4 + peer-5" in bare.page.locator(f"#{name} .node .peer").all_text_contents()
    assert faint(bare, f"#{name} .synergy-qos") == []


# -- hot spots ---------------------------------------------------------------------------------------------------------


def test_a_hot_spot_is_a_line_below_zero_and_the_migration_a_mark_and_a_line_in_words(bare: BarePage) -> None:
    view = QoSView(relieved(), top_pairs(), names=NAMES)
    name = shown(bare, view)
    painted(bare)
    assert bare.page.evaluate(INK, [name, "chart.slack", "bad"])["count"] > 100, "the limit, and the mark"
    assert bare.page.evaluate(INK, [name, "chart.slack", "peer-3"])["count"] > 50, "the filter's line"
    rows = [row.split("\n") for row in words(bare, name, ".slack-row")]
    assert rows[0] == ["Operator", "Peer", "Slack", "least", "Time measured", "predicted", "Rate measured", "predicted"]
    assert ["filter", "peer-5", "720 ms", "-40 ms", "402 µs", "500 µs", "1,200 tuples/s", "110 tuples/s"] in rows
    assert words(bare, name, ".slack-row .bad") == ["-40 ms"]
    assert words(bare, name, ".marks li")[0] == (
        "✓ after 15.6 s: filter moved from peer-2 to peer-5 in 350 ms, since it had no slack there"
    )
    assert words(bare, name, ".row.overloaded .number:not(.promise)")[0].startswith("▲ ")
    assert faint(bare, f"#{name} .synergy-qos") == []
    ARTEFACTS.mkdir(parents=True, exist_ok=True)
    bare.page.screenshot(path=ARTEFACTS / "qos_view_hot_spot.png", full_page=True)


def test_without_slack_there_is_no_chart_of_it_and_no_table(bare: BarePage) -> None:
    _, view = view_of()
    name = shown(bare, view)
    painted(bare)
    hidden = "name => [...document.querySelectorAll(`#${name} .chart.slack, #${name} .slacks`)].map((it) => it.hidden)"
    assert bare.page.evaluate(hidden, name) == [True, True]


def test_a_discarded_stream_between_replicas_is_faint_and_says_so(bare: BarePage) -> None:
    name = shown(bare, QoSView(weighed_streams(), filtered(), application="top-1", names=NAMES))
    painted(bare)
    gone = "name => [...document.querySelectorAll(`#${name} .stream.gone title`)].map((it) => it.textContent)"
    assert bare.page.evaluate(gone, name) == ["filter~2 to project is discarded"]
    assert "project~1 to sink: first for 70 % of the tuples; utility 0.7, 1 kB on the way" in bare.page.evaluate(
        "name => [...document.querySelectorAll(`#${name} .stream title`)].map((it) => it.textContent)", name
    )
