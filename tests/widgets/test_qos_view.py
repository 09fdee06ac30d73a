"""The kernel's side of the live view: its messages to pages, its stored state in notebooks, its texts."""

from __future__ import annotations

import asyncio
import gc
import json
import re
import threading
import weakref
from array import array
from collections.abc import Callable, Iterator
from typing import Any
from xml.etree import ElementTree as ET

import pytest

import synergy_nb
from synergy_nb import Cluster, ClusterError, source, start_cluster
from synergy_nb.events import ApplicationRejected, Event, PeerDeclaredDead, PeerStarted, RequestSubmitted, SessionLeft
from synergy_nb.events.journal import Journal
from synergy_nb.runtime.client.following import follow_journals
from synergy_nb.widgets import qos_view
from synergy_nb.widgets.bundled_view import BundleMissing, bundle
from synergy_nb.widgets.qos_view import FORGOTTEN, QoSView
from tests.qos_story import NAMES, PEERS, START, qos, story, top_pairs
from tests.waiting import DEADLINE, run_loop, until
from tests.widgets.watched import Watched


class Clock:
    """Seconds that the test lets pass."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Page:
    """What a page knows: it takes messages as the view's script does."""

    def __init__(self, copy: str = "page") -> None:
        self.copy = copy
        self.number = -1
        self.pieces: dict[str, Any] = {}
        self.lines: dict[tuple[str, str], list[tuple[float, float]]] = {}

    def receive(self, message: dict[str, Any], numbers: bytes) -> None:
        if message["kind"] != "update" or message.get("to", self.copy) != self.copy:
            return
        if message.get("whole"):
            self.pieces, self.lines = {}, {}
        else:
            if self.number < 0 or message["number"] <= self.number:
                return
            assert message["number"] == self.number + 1, "a message is missing"
        self.number = message["number"]
        for name in message.get("gone", ()):
            del self.pieces[name]
        self.pieces.update(message["set"])
        at, floats = 0, array("d", numbers)
        for quantity, of, count, whole in message["lines"]:
            known = [] if whole else self.lines[quantity, of]
            values = zip(floats[at : at + count], floats[at + count : at + 2 * count], strict=True)
            self.lines[quantity, of] = [*known, *values]
            at += 2 * count
        assert at == len(floats)

    def read(self, view: Watched) -> Page:
        for message, numbers in zip(view.sent, view.numbers, strict=True):
            self.receive(message, numbers)
        return self


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def journal() -> Journal:
    return story(30)


@pytest.fixture
def view(journal: Journal, clock: Clock) -> Iterator[Watched]:
    shown = Watched(journal, top_pairs(), names=NAMES, clock=clock)
    yield shown
    shown.close()


def more(journal: Journal, second: float = 31.0) -> None:
    journal.append(qos(START + second, 0.01, 0.02, 6_100))


# -- messages ----------------------------------------------------------------------------------------------------------


def test_without_a_page_nothing_is_sent(view: Watched, journal: Journal) -> None:
    more(journal)
    view.update()
    assert view.sent == []


def test_a_page_receives_the_whole_state_and_then_only_changes(view: Watched, journal: Journal, clock: Clock) -> None:
    view.on_page_message("ready")
    *_, whole = view.sent
    assert (whole["whole"], whole["to"]) == (True, "page")
    assert set(whole["set"]) >= {"head", "plan", "flow:top-1/sink", f"peer:{PEERS[0]}", "part:top-1/filter"}
    first = len(view.sent)
    clock.now += 1
    more(journal)
    view.update()
    (news,) = view.sent[first:]
    assert set(news["set"]) == {"head", "flow:top-1/sink"}
    assert news["lines"] == [[quantity, "top-1/sink", 1, False] for quantity in ("p50", "p99", "rate", "miss")]
    assert len(view.numbers[-1]) == 4 * 16
    assert len(json.dumps(news)) < 1500
    page = Page().read(view)
    assert page.lines["p99", "top-1/sink"][-1] == (START + 31.0, 0.02)
    assert len(page.lines["p99", "top-1/sink"]) == 61
    assert set(page.lines) == {(quantity, "top-1/sink") for quantity in ("p50", "p99", "rate", "miss")} | {
        (quantity, peer) for quantity in ("load", "promised") for peer in PEERS
    }


def test_nothing_is_sent_while_nothing_changes(view: Watched, journal: Journal, clock: Clock) -> None:
    view.on_page_message("ready")
    before = len(view.sent)
    for _ in range(5):
        clock.now += 1
        journal.append(SessionLeft(START + 31, PEERS[0], "top-1", reason=""))
        view.update()
    assert len(view.sent) == before


def test_at_most_ten_updates_a_second_and_the_last_is_among_them(journal: Journal) -> None:
    view = Watched(journal, top_pairs(), names=NAMES)
    view.on_page_message("ready")
    before = len(view.sent)
    for number in range(50):
        more(journal, 31.0 + number)
        view.update()
    page = Page()
    while len(page.read(view).lines["p50", "top-1/sink"]) < 110:
        view.spoke.clear()
        assert view.spoke.wait(DEADLINE)
        page = Page()
    assert len(view.sent) - before <= 10
    assert page.pieces == Page("other").read(_asked(view, "other")).pieces
    view.close()


def _asked(view: Watched, copy: str) -> Watched:
    view.on_page_message("ready", copy)
    return view


def test_pages_that_open_later_show_the_same_lines(view: Watched, journal: Journal, clock: Clock) -> None:
    view.on_page_message("ready", "one")
    clock.now += 1
    more(journal)
    view.on_page_message("ready", "two")  # before the next update: both must have what had not been sent yet, once
    clock.now += 1
    more(journal, 32.0)
    view.update()
    one, two = Page("one").read(view), Page("two").read(view)
    assert (one.pieces, one.lines, one.number) == (two.pieces, two.lines, two.number)
    assert len(one.lines["p50", "top-1/sink"]) == 62


def test_a_view_made_again_shows_the_same(view: Watched, journal: Journal, clock: Clock) -> None:
    view.on_page_message("ready")
    for number in range(40):
        clock.now += 1
        more(journal, 31.0 + number)
        view.update()
        view.on_page_message("here")
    again = Watched(journal, top_pairs(), names=NAMES, clock=clock)
    again.on_page_message("ready")
    one, two = Page().read(view), Page().read(again)
    assert (one.pieces, one.lines) == (two.pieces, two.lines)
    again.close()


@pytest.mark.slow
def test_a_long_history_is_sent_thinned(clock: Clock) -> None:
    view = Watched(story(6000), top_pairs(), names=NAMES, clock=clock)
    view.on_page_message("ready")
    page = Page().read(view)
    line = page.lines["p99", "top-1/sink"]
    assert 2000 < len(line) <= 4096
    assert line[0][0] < START + 10
    assert line[-1][0] == START + 6000
    assert max(map(len, view.numbers)) < 350_000
    view.close()


def test_a_closed_page_receives_nothing(view: Watched, journal: Journal, clock: Clock) -> None:
    view.on_page_message("ready", "one")
    view.on_page_message("gone", "one")
    before = len(view.sent)
    clock.now += 1
    more(journal)
    view.update()
    assert len(view.sent) == before


def test_a_silent_page_counts_as_closed(view: Watched, journal: Journal, clock: Clock) -> None:
    view.on_page_message("ready")
    clock.now += FORGOTTEN - 1
    view.on_page_message("here")
    clock.now += FORGOTTEN - 1
    more(journal)
    view.update()
    assert Page().read(view).lines["p50", "top-1/sink"][-1][0] == START + 31
    before = len(view.sent)
    clock.now += FORGOTTEN + 1
    more(journal, 32.0)
    view.update()
    assert len(view.sent) == before
    view.on_page_message("ready")
    assert Page().read(view).lines["p50", "top-1/sink"][-1][0] == START + 32


def test_a_page_whose_messages_wait_in_a_busy_kernel_counts_as_open(
    view: Watched, journal: Journal, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(qos_view, "GRACE", 0.0)

    async def main() -> None:
        view.on_page_message("ready")
        before = len(view.sent)
        clock.now += FORGOTTEN + 1  # a cell has blocked this loop, and a thread brings news
        more(journal)
        thread = threading.Thread(target=view.update)
        thread.start()
        thread.join()
        assert len(view.sent) == before + 1
        view.on_page_message("here")  # what the page had said meanwhile
        await until(lambda: not view._checking)
        clock.now += 1
        more(journal, 32.0)
        view.update()
        assert len(view.sent) == before + 2
        clock.now += FORGOTTEN + 1  # and now it is really gone
        more(journal, 33.0)
        view.update()
        await until(lambda: not view._checking)
        before = len(view.sent)
        more(journal, 34.0)
        clock.now += 1
        view.update()
        assert len(view.sent) == before

    run_loop(main())


def test_a_view_that_opens_while_the_kernel_is_busy_is_sent_without_a_request(
    view: Watched, journal: Journal, clock: Clock
) -> None:
    view._repr_mimebundle_()
    for number in range(19):
        clock.now += 1
        more(journal, 31.0 + number)
        view.update()
    offered = [message for message in view.sent if message["kind"] == "bundle"]
    assert len(offered) == 6
    page = Page("any").read(view)
    assert len(page.lines["p50", "top-1/sink"]) == 79
    view.on_page_message("ready", "any")
    clock.now += 1
    more(journal, 60.0)
    view.update()
    assert len([message for message in view.sent if message["kind"] == "bundle"]) == 6


def test_news_from_any_thread_arrive_once(journal: Journal) -> None:
    lock, written = threading.Lock(), Journal(1_000_000)
    view = Watched(written, application="top-1", names=NAMES, reading=lock)
    view.on_page_message("ready")

    def write(events: list[Event]) -> None:
        for event in events:
            with lock:
                written.append(event)
            view.update()

    events = list(journal)
    threads = [threading.Thread(target=write, args=(events[part::4],)) for part in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    view.on_page_message("ready", "late")
    page, late = Page().read(view), Page("late").read(view)
    assert (page.pieces, page.lines) == (late.pieces, late.lines)
    assert len({time for time, _ in page.lines["p50", "top-1/sink"]}) == 60
    view.close()


def test_a_closed_view_sends_nothing_and_keeps_its_last_state(view: Watched, journal: Journal) -> None:
    left: list[bool] = []
    view.follow(lambda _news: lambda: left.append(True))
    view.on_page_message("ready")
    text = view.to_text()
    view.close()
    view.close()
    assert left == [True]
    before = len(view.sent)
    more(journal)
    view.update()
    assert len(view.sent) == before
    assert view.to_text() == text
    data, _ = view._repr_mimebundle_()
    assert set(data) == {"text/plain", "text/html"}


# -- what a notebook keeps ---------------------------------------------------------------------------------------------


def test_the_saved_state_is_small_and_stays_so(view: Watched, journal: Journal, clock: Clock) -> None:
    before = json.dumps(view.get_state())
    assert len(before) < 4000
    view.on_page_message("ready")
    for number in range(100):
        clock.now += 1
        more(journal, 31.0 + number)
        view.update()
    assert json.dumps(view.get_state()) == before
    assert "uplot" not in before.lower()


def test_a_view_is_displayed_as_widget_picture_and_text(view: Watched) -> None:
    data, _ = view._repr_mimebundle_()
    assert data["application/vnd.jupyter.widget-view+json"]["model_id"] == view.model_id
    drawn = ET.fromstring(data["text/html"])
    assert drawn.tag == "div"
    assert data["text/plain"] == view.to_text()
    assert not re.search(r"0x[0-9a-f]{6}", repr(view) + data["text/plain"] + data["text/html"])
    assert repr(view).startswith("QoSView of top pairs: running. Within its limit: ")


def test_without_the_bundle_there_is_the_picture_and_what_to_do(view: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    class Nowhere:
        def joinpath(self, *_: str) -> Nowhere:
            return self

        def read_text(self, _: str) -> str:
            raise FileNotFoundError

    with monkeypatch.context() as patched:
        patched.setattr("importlib.resources.files", lambda _: Nowhere())
        with pytest.raises(BundleMissing, match=r"qosview\.js is missing; run `make lab` in the checkout"):
            bundle("qosview")
        data, _ = view._repr_mimebundle_()
        other = QoSView(Journal())  # it can be made all the same
        other.close()
    assert set(data) == {"text/plain", "text/html"}
    assert "run `make lab`" in data["text/html"]
    assert "<svg" in data["text/html"]


def test_the_bundle_needs_nothing_from_elsewhere() -> None:
    version, script, style = bundle("qosview")
    assert len(version) == 16
    assert not re.findall(r"https?://(?!www\.w3\.org/)[^\s\"'`)]+", script + style)
    assert len(script) < 120_000
    assert "light-dark(" in style


# -- pictures and text -------------------------------------------------------------------------------------------------


def test_the_picture_contains_the_whole_state(view: Watched) -> None:
    drawn = view.to_svg()
    root = ET.fromstring(drawn)
    words = [each.text or "" for each in root.iter("{http://www.w3.org/2000/svg}text")]
    for wanted in ("top pairs", "● running", "limit 1 s", "peer-3", "200 tuples/s", *top_pairs().operators):
        assert any(wanted in each for each in words), wanted
    assert drawn.count("<polyline") == 2
    assert len(drawn) < 30_000
    assert not re.findall(r"(?:href|src|url\(|@import|<script)", drawn)


@pytest.mark.slow
def test_the_picture_of_a_long_run_stays_small() -> None:
    view = QoSView(story(3000), top_pairs(), names=NAMES)
    assert len(view.to_svg()) < 30_000
    view.close()


def test_text_of_users_does_not_become_markup() -> None:
    journal = Journal()
    name = "<script>&\"'"
    journal.append(PeerStarted(1.0, "a", "a", name=name))
    journal.append(RequestSubmitted(2.0, "a", "r", plan=name, operators=[], qos={}))
    journal.append(ApplicationRejected(3.0, "a", "r", reason=name))
    for view in (QoSView(journal), QoSView(journal, application="r")):
        assert "<script" not in view.to_svg()
        ET.fromstring(view._repr_mimebundle_()[0]["text/html"])
        view.close()


def test_the_text_contains_the_whole_state(view: Watched, journal: Journal) -> None:
    text = view.to_text()
    assert text.startswith("top pairs: running\nWithin its limit")
    assert "sink  delay p50" in text
    assert re.search(r"peer-2 +\d+ % +30 % +filter \(running\), sink \(running\)", text)
    assert re.search(r"● +filter", text)
    journal.append(PeerDeclaredDead(START + 40, PEERS[0], PEERS[1], incarnation=0))
    assert re.search(r"⊘ +filter", view.to_text())


def test_the_view_of_a_plan_shows_its_last_application() -> None:
    journal = story(5)
    story(5, journal=journal, application="top-2")
    view = Watched(journal, top_pairs())
    view.on_page_message("ready")
    assert "top-2" in [piece["application"] for piece in view.sent[-1]["set"].values() if "application" in piece]
    view.close()


def test_the_view_of_a_cluster_shows_all_applications(journal: Journal) -> None:
    view = QoSView(journal)
    text = view.to_text()
    assert text.startswith("Cluster of 5 peers: running\n1 application runs, each within its limit.")
    assert all(name in view.to_svg() for name in NAMES.values())
    view.close()


# -- on real peers -----------------------------------------------------------------------------------------------------


def packets() -> Any:
    return source("packets", rate="500 tuples/s").filter("bytes > 100").sink("few", delay="5 s")


def shows(view: QoSView, condition: Callable[[str], object]) -> None:
    """Wait until the view's text fulfils ``condition``; it is told of news by its follower."""
    news = threading.Event()

    def told() -> None:
        QoSView.update(view)
        news.set()

    view.update = told  # type: ignore[method-assign]
    while not condition(view.to_text()):
        news.clear()
        assert news.wait(DEADLINE), view.to_text()
    del view.update


@pytest.mark.slow
def test_a_real_application_is_watched_and_its_end_seen() -> None:
    with Cluster(peers=2) as cluster:
        application = cluster.submit(packets())
        view, all_of_it = synergy_nb.watch(application), synergy_nb.watch(cluster)
        assert "few: running" in view.to_text()  # what had happened before is there at once
        shows(view, lambda text: "Within its limit" in text and "not measured" not in text)
        shows(all_of_it, lambda text: "1 application runs" in text)
        follower = follow_journals(cluster)
        application.stop()
        shows(view, lambda text: "few: stopped" in text)
        view.close()
        assert [follower.closed] == [False]
        all_of_it.close()
        ended = threading.Event()  # the last listener has left: it has ended before the loop's next turns
        cluster._thread.loop.call_soon_threadsafe(ended.set)
        assert ended.wait(DEADLINE)
        assert follower.closed
    assert "few: stopped" in view.to_text()


@pytest.mark.slow
def test_a_view_of_a_coroutine_application_shows_its_journal() -> None:
    async def main() -> None:
        cluster = await start_cluster(2)
        try:
            application = await cluster.submit(packets())
            view = synergy_nb.watch(application)
            seen = asyncio.Event()
            follower = follow_journals(cluster)
            follower.listen(lambda: seen.set() if "Within its limit" in view.to_text() else None)
            async with asyncio.timeout(DEADLINE):
                await seen.wait()
            whole = synergy_nb.watch(cluster)
            with pytest.raises(ClusterError, match="on its event loop"):
                await asyncio.to_thread(synergy_nb.watch, cluster)
        finally:
            await cluster.close()
        assert "few: stopped" in view.to_text()
        assert whole.to_text().startswith("Cluster of 2 peers: closed")
        view.close()
        whole.close()

    run_loop(main())


def test_objects_that_cannot_be_watched_are_refused() -> None:
    with pytest.raises(TypeError, match="watch: an int; expected an application, a cluster, a simulation or a run"):
        synergy_nb.watch(3)  # type: ignore[arg-type]
    with Cluster(peers=2) as cluster:
        pass
    with pytest.raises(ClusterError, match="closed"):
        synergy_nb.watch(cluster)


@pytest.mark.slow
def test_a_view_does_not_keep_its_cluster() -> None:
    cluster = Cluster(peers=2)
    view = synergy_nb.watch(cluster)
    gone = weakref.ref(cluster)
    finalizer = cluster._finalizer
    del cluster
    gc.collect()
    assert gone() is None
    assert not finalizer.alive  # and so its peers have ended
    assert view.to_text().startswith("Cluster of 2 peers: closed")
    view.close()
