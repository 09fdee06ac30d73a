"""Queues, disciplines, credits, duplicate filters and measurements of a peer's components: deterministic and pure."""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synergy_nb.dataflow.channels import Inlet, Outlet, Parcel, PositionGap
from synergy_nb.dataflow.components import RESOLUTION
from synergy_nb.dataflow.hosting import DISCIPLINES, Component, Hosting, Work, contemporary
from synergy_nb.dataflow.memory import Memory
from synergy_nb.dataflow.tuples import END

IN, OUT = "a/s>o:0", "a/o>t:0"


def batch(position: int, rows: int = 1, size: int = 100, born: float = 0.0) -> Parcel:
    """A batch whose item is the list of its tuples: the tuple at position p is p itself."""
    return Parcel(list(range(position, position + rows)), position, rows, size, born)


def punctuation(time: int, position: int, size: int = 20) -> Parcel:
    return Parcel(f"until {time}", position, 0, size, 0.0, time)


def tuples(parcel: Parcel) -> list[int]:
    """The tuples of a batch that are no duplicates."""
    return [] if parcel.time is not None else list(parcel.item)[parcel.skip :]


def work_of(hosting: Hosting, now: float = 0.0) -> Work:
    work = hosting.next(now)
    assert work is not None
    return work


# -- duplicate filter ------------------------------------------------------------------------------------------------


def test_duplicates_are_dropped_and_overlaps_cut() -> None:
    hosting = Hosting()
    hosting.add("a", "o", inputs=[IN])
    assert hosting.offer(IN, batch(0, 4), 0.0)
    assert not hosting.offer(IN, batch(0, 4), 0.0)
    assert not hosting.offer(IN, batch(1, 2), 0.0)
    assert hosting.offer(IN, batch(2, 4), 0.0)
    first = work_of(hosting)
    assert tuples(first.parcel) == [0, 1, 2, 3]
    hosting.done(first, [], 0.0, 0.0)
    second = work_of(hosting)
    assert (second.parcel.skip, tuples(second.parcel)) == (2, [4, 5])
    assert second.component.tuples_in == 6


def test_punctuations_pass_once_and_only_forwards() -> None:
    hosting = Hosting()
    hosting.add("a", "o", inputs=[IN])
    assert hosting.offer(IN, punctuation(10, 0), 0.0)
    assert not hosting.offer(IN, punctuation(10, 0), 0.0)
    assert not hosting.offer(IN, punctuation(9, 0), 0.0)
    assert hosting.offer(IN, batch(0, 2), 0.0)
    assert not hosting.offer(IN, punctuation(30, 0), 0.0), "it went before tuples that have come"
    assert hosting.offer(IN, punctuation(20, 2), 0.0)


@pytest.mark.parametrize("late", [batch(5), punctuation(7, 5)], ids=["batch", "punctuation"])
def test_a_gap_is_an_error_that_says_what_is_missing(late: Parcel) -> None:
    hosting = Hosting()
    hosting.add("a", "o", inputs=[IN])
    hosting.offer(IN, batch(0, 2), 0.0)
    with pytest.raises(PositionGap, match=r"channel 'a/s>o:0': item at position 5, expected 2: 3 tuples are missing"):
        hosting.offer(IN, late, 0.0)


def test_a_stream_joined_later_begins_with_what_comes_first() -> None:
    hosting = Hosting()
    hosting.add("a", "o", inputs=[IN], joins=[IN])
    assert hosting.offer(IN, batch(70, 5), 0.0)
    assert not hosting.offer(IN, batch(72, 3), 0.0)
    with pytest.raises(PositionGap):
        hosting.offer(IN, batch(80), 0.0)


def test_bad_arguments_are_refused_by_name() -> None:
    with pytest.raises(
        ValueError, match=r"discipline: 'edff'; expected one of fcfs, edf, least_slack; did you mean 'edf'"
    ):
        Hosting("edff")
    with pytest.raises(ValueError, match="window_bytes: 1; expected at least 2"):
        Hosting(window_bytes=1)
    hosting = Hosting()
    hosting.add("a", "o", inputs=[IN])
    with pytest.raises(ValueError, match="component a/o is hosted already"):
        hosting.add("a", "o")
    with pytest.raises(ValueError, match="channel 'a/s>o:0' is in use"):
        hosting.add("a", "p", inputs=[IN])
    with pytest.raises(LookupError, match="channel 'x': no component on this peer reads it"):
        hosting.offer("x", batch(0), 0.0)


# -- credits ---------------------------------------------------------------------------------------------------------


def test_a_component_without_credit_waits_and_its_outbox_holds_one_execution() -> None:
    hosting = Hosting(window_bytes=400)
    component = hosting.add("a", "o", inputs=[IN], outputs=[OUT])
    for position in range(4):
        hosting.offer(IN, batch(position), 0.0)
    sent = []
    while (work := hosting.next(0.0)) is not None:
        sent += hosting.done(
            work, [batch(2 * work.parcel.position, 1, 150), batch(2 * work.parcel.position + 1, 1, 150)], 0.0, 0.0
        )
    outlet = hosting.outlet(OUT)
    assert outlet is not None
    assert [delivery.parcel.position for delivery in sent] == [0, 1]
    assert (outlet.credit, len(outlet.outbox), component.inlets[0].queued) == (100, 2, 200)
    sent += hosting.credit(OUT, 150, 0.0)
    assert [delivery.parcel.position for delivery in sent] == [0, 1, 2]
    assert hosting.credit(OUT, 150, 0.0) == [], "old news"
    assert hosting.next(0.0) is None
    sent += hosting.credit(OUT, 450, 0.0)
    assert [delivery.parcel.position for delivery in sent] == [0, 1, 2, 3]
    assert hosting.next(0.0) is not None


def test_a_split_is_as_slow_as_its_slowest_reader_and_each_gets_all() -> None:
    hosting = Hosting(window_bytes=200)
    source = hosting.add("a", "s", outputs=["fast", "slow"])
    sent: list[tuple[str, int]] = []
    position = 0
    while hosting.may_emit(source):
        sent += [(channel, parcel.position) for channel, parcel in hosting.emit(source, [batch(position)], 0.0)]
        position += 1
        hosting.credit("fast", 100 * position, 0.0)
    assert sent == [("fast", 0), ("slow", 0), ("fast", 1), ("slow", 1)]
    hosting.credit("slow", 100, 0.0)
    assert hosting.may_emit(source)
    sent += [(channel, parcel.position) for channel, parcel in hosting.emit(source, [batch(2)], 0.0)]
    assert sent[4:] == [("fast", 2), ("slow", 2)]


def test_a_parcel_larger_than_the_window_goes_out_alone() -> None:
    outlet = Outlet(OUT, window=100, local=False)
    outlet.outbox.extend([batch(0, size=70), batch(1, size=1000)])
    assert outlet.ready()
    outlet.send()
    assert not outlet.ready(), "half of the window is not free"
    outlet.acknowledge(40)
    assert outlet.ready()
    outlet.send()
    assert outlet.credit == 100 - 1070 + 40
    assert not outlet.open
    outlet.acknowledge(10**9)
    assert outlet.credit == 100, "never more than the window"


def test_grants_are_totals_given_once_a_quarter_of_a_window() -> None:
    hosting = Hosting(window_bytes=800)
    hosting.add("a", "o", inputs=[IN])
    grants = []
    for position in range(5):
        hosting.offer(IN, batch(position), 0.0)
        hosting.done(work_of(hosting), [], 0.0, 0.0)
        grants.append(hosting.grants())
    assert grants == [[], [(IN, 200)], [], [(IN, 400)], []]
    hosting.offer(IN, batch(0), 0.0)
    assert hosting.grants() == [(IN, 600)], "the sender has paid for the duplicate too"


def test_local_channels_obey_the_same_credits() -> None:
    hosting = Hosting(window_bytes=200)
    source = hosting.add("a", "s", outputs=[IN], local=[IN])
    hosting.add("a", "o", inputs=[IN])
    position = 0
    while hosting.may_emit(source):
        assert hosting.emit(source, [batch(position)], 0.0) == []
        position += 1
    assert position == 2
    hosting.done(work_of(hosting), [], 0.0, 0.0)
    assert hosting.may_emit(source)
    assert hosting.grants() == [], "nobody else has to know"


def test_a_local_reader_that_comes_later_finds_all_that_waited_for_it() -> None:
    hosting = Hosting(window_bytes=200)
    source = hosting.add("a", "s", outputs=[IN], local=[IN])
    hosting.emit(source, [batch(0)], 0.0)
    assert not hosting.may_emit(source)
    hosting.add("a", "o", inputs=[IN])
    assert hosting.may_emit(source)
    assert tuples(work_of(hosting).parcel) == [0]
    assert hosting.remove("a", "o")
    hosting.emit(source, [batch(1)], 0.0)
    assert not hosting.may_emit(source)
    hosting.add("a", "o", inputs=[IN])
    assert tuples(work_of(hosting).parcel) == [1]


def test_removal_leaves_nothing_and_work_under_way_ends_in_nothing() -> None:
    hosting = Hosting()
    hosting.add("a", "o", inputs=[IN], outputs=[OUT])
    hosting.offer(IN, batch(0), 0.0)
    hosting.offer(IN, batch(1), 0.0)
    work = work_of(hosting)
    assert hosting.remove("a", "o")
    assert not hosting.remove("a", "o")
    assert hosting.done(work, [batch(0)], 0.0, 1.0) == []
    assert (hosting.next(2.0), hosting.grants(), hosting.stats(2.0), hosting.components) == (None, [], [], ())
    assert (hosting.inlet(IN), hosting.outlet(OUT), hosting.writer(OUT)) == (None, None, None)
    assert hosting.credit(OUT, 100, 0.0) == []
    assert ("a", "o") not in hosting


# -- conservation ----------------------------------------------------------------------------------------------------


class Upstream:
    """The far sending end of a channel: it sends within its credit, and now and then something again."""

    def __init__(self, channel: str, window: int, sizes: list[int]) -> None:
        self.channel, self.window = channel, window
        self.outlet = Outlet(channel, window, local=False)
        position = 0
        self.parcels: list[Parcel] = []
        for number, rows in enumerate(sizes):
            if rows:
                self.parcels.append(batch(position, rows, size=rows))
                position += rows
            else:
                self.parcels.append(punctuation(number, position, size=1))
        self.total = position
        self.sent = 0  # parcels sent for the first time

    def send(self, again: int) -> Parcel | None:
        """The next parcel, or with ``again`` one of those before it (perhaps glued together), if credit allows."""
        if again and self.sent:
            index = max(self.sent - again, 0)
            parcel = self.parcels[index]
            if parcel.time is None and index + 1 < self.sent and self.parcels[index + 1].time is None:
                parcel = batch(parcel.position, parcel.rows + self.parcels[index + 1].rows, parcel.size)
        elif self.sent < len(self.parcels):
            parcel = self.parcels[self.sent]
        else:
            return None
        self.outlet.outbox.append(parcel)
        if not self.outlet.ready():
            self.outlet.outbox.pop()
            return None
        if not again or not self.sent:
            self.sent += 1
        return self.outlet.send()


@settings(max_examples=150, deadline=None)
@given(
    discipline=st.sampled_from(DISCIPLINES),
    window=st.integers(8, 40),
    ports=st.lists(st.lists(st.integers(0, 4), max_size=12), min_size=1, max_size=3),
    local=st.booleans(),
    together=st.sampled_from([0, 1, 5, 1000]),
    seed=st.integers(0, 2**32),
)
def test_every_tuple_is_processed_exactly_once_and_in_order(
    discipline: str, window: int, ports: list[list[int]], local: bool, together: int, seed: int
) -> None:
    """Whatever the order of arrivals, duplicates, executions (alone or together), grants (lost or doubled), credits."""
    rng = random.Random(seed)
    hosting = Hosting(discipline, window_bytes=window)
    upstreams = [Upstream(f"a/s{port}>o:{port}", window, sizes) for port, sizes in enumerate(ports)]
    hosting.add("a", "o", inputs=[up.channel for up in upstreams], outputs=[OUT, "side"], local=[OUT] if local else [])
    if local:
        hosting.add("a", "t", inputs=[OUT])
    inlets = {up.channel: hosting.inlet(up.channel) for up in upstreams}
    processed: dict[str, list[int]] = {up.channel: [] for up in upstreams}
    punctuated: dict[str, int] = {up.channel: 0 for up in upstreams}
    received: dict[str, list[int]] = {OUT: [], "side": []}
    consumed = {OUT: 0, "side": 0}
    unread: dict[str, deque[Parcel]] = {OUT: deque(), "side": deque()}
    running: list[tuple[Work, list[Parcel]]] = []
    position = 0

    def step(action: int) -> None:
        nonlocal position
        if action <= 2:
            up = rng.choice(upstreams)
            parcel = up.send(again=rng.choice([0, 0, 0, 1, 2, 3]))
            if parcel is not None:
                hosting.offer(up.channel, parcel, 0.0)
        elif action == 3:
            work = hosting.next(0.0, together=together)
            if work is None:
                return
            assert not work.rest or sum(parcel.fresh for parcel in work.parcels) <= together
            outputs = []
            for parcel in work.parcels:
                if work.component.operator == "t":
                    received[OUT].extend(tuples(parcel))
                elif parcel.time is None:
                    fresh = tuples(parcel)
                    processed[work.inlet.channel].extend(fresh)
                    outputs.append(batch(position, len(fresh), size=len(fresh)))
                    position += len(fresh)
                else:
                    punctuated[work.inlet.channel] += 1
            running.append((work, outputs))
        elif action == 4 and running:
            work, outputs = running.pop(rng.randrange(len(running)))
            for channel, parcel in hosting.done(work, outputs, 0.0, 0.0):
                unread[channel].append(parcel)
        elif action == 5:
            for channel, total in hosting.grants():
                for up in upstreams:
                    if up.channel == channel:
                        up.outlet.acknowledge(total)
                        up.outlet.acknowledge(total - rng.randrange(3))
        elif action == 6:
            channel = rng.choice([OUT, "side"])
            if unread[channel]:
                parcel = unread[channel].popleft()
                received[channel].extend(tuples(parcel))
                consumed[channel] += parcel.size
            if rng.random() < 0.7:
                for following, parcel in hosting.credit(channel, consumed[channel], 0.0):
                    unread[following].append(parcel)

    def check() -> None:
        assert len(running) <= len(hosting.components)
        for channel, inlet in inlets.items():
            assert inlet is not None
            assert inlet.queued == sum(parcel.size for _, _, parcel in inlet.queue) <= window, channel
        for channel in (OUT, "side"):
            outlet = hosting.outlet(channel)
            assert outlet is not None
            assert outlet.credit <= window
            assert outlet.sent - outlet.acknowledged <= window

    for _ in range(150):
        step(rng.randrange(7))
        check()
    for _ in range(3000):  # and now everything goes on until nothing is left
        for action in (0, 3, 4, 5, 6, 6):
            step(action)
        check()
        busy = running or any(inlet is not None and inlet.queue for inlet in inlets.values())
        busy = busy or any(up.sent < len(up.parcels) for up in upstreams)
        if not busy and len(received["side"]) == len(received[OUT]) == sum(up.total for up in upstreams):
            break
    for up, sizes in zip(upstreams, ports, strict=True):
        assert processed[up.channel] == list(range(up.total))
        assert punctuated[up.channel] == sizes.count(0)
    assert received[OUT] == received["side"] == list(range(position))
    assert position == sum(up.total for up in upstreams)


# -- without some, and for taps ----------------------------------------------------------------------------------------


def opened(component: Component) -> bool:
    return component.open


class Tapping:
    """Takes what leaves a component, if it keeps up."""

    wire = False

    def __init__(self, *, keeps_up: bool) -> None:
        self.open = keeps_up
        self.taken: list[Parcel] = []

    def take(self, parcels: Sequence[Parcel]) -> None:
        self.taken.extend(parcels)

    def lose(self, why: str) -> None:
        raise AssertionError(why)


@pytest.mark.parametrize("local", [True, False])
def test_a_consumer_that_is_detached_stops_nobody_any_longer(local: bool) -> None:
    hosting = Hosting(window_bytes=100)
    component = hosting.add("a", "o", inputs=[IN], outputs=[OUT, "side"], local=[OUT] if local else [])
    if local:
        hosting.add("a", "t", inputs=[OUT])
    for position in range(4):
        hosting.offer(IN, batch(position, size=1), 0.0)
    hosting.done(work_of(hosting), [batch(position, size=40) for position in range(4)], 0.0, 0.0)
    assert len(hosting.credit("side", 80, 0.0)) == 2
    hosting.credit("side", 160, 0.0)
    assert not opened(component), "its other consumer has half of it in its window"
    assert hosting.detach(OUT)
    assert not hosting.detach(OUT)
    assert opened(component)
    assert (hosting.outlet(OUT), hosting.writer(OUT), hosting.credit(OUT, 40, 0.0)) == (None, None, [])
    inlet = hosting.inlet(OUT)
    assert inlet is None or (inlet.upstream, len(inlet.queue)) == (None, 2)
    while (work := hosting.next(0.0)) is not None:
        hosting.done(work, [batch(9, size=1)] if work.component is component else [], 0.0, 0.0)
        hosting.credit("side", 1 << 20, 0.0)
    assert not component.inlets[0].queue
    assert hosting.remove("a", "o")


def test_taps_get_all_that_leaves_and_only_on_their_own_set_the_pace() -> None:
    hosting = Hosting(window_bytes=100)
    component = hosting.add("a", "o", inputs=[IN], outputs=[OUT])
    quick, slow = Tapping(keeps_up=True), Tapping(keeps_up=False)
    component.taps += [quick, slow]
    assert (opened(component), component.position, component.until, component.ended) == (True, 0, None, False)
    sent = [batch(0, 2, 60), punctuation(7, 2), batch(2, 3, 60)]
    assert [delivery.parcel for delivery in hosting.emit(component, sent, 0.0)] == sent[:2]
    assert [parcel is other for tap in (quick, slow) for parcel, other in zip(tap.taken, sent, strict=True)] == [
        True
    ] * 6
    assert (component.position, component.until) == (5, 7)
    assert not opened(component), "it waits for its own consumer, whatever taps do"
    hosting.detach(OUT)
    assert opened(component)
    quick.open = False
    assert not opened(component)
    component.taps.clear()
    assert opened(component)
    hosting.emit(component, [punctuation(END, 5)], 0.0)
    assert (component.ended, component.position) == (True, 5)


# -- disciplines -----------------------------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(
    discipline=st.sampled_from(DISCIPLINES),
    limits=st.lists(st.none() | st.integers(1, 5), min_size=2, max_size=4),
    arrivals=st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 20), st.integers(1, 5), st.booleans()), min_size=1, max_size=40
    ),
)
def test_disciplines_equal_a_naive_twin(
    discipline: str, limits: list[int | None], arrivals: list[tuple[int, int, int, bool]]
) -> None:
    """The twin keeps one list of all that waits and sorts it by the definition each time."""
    hosting = Hosting(discipline)
    per_tuple = [0.25 * (number + 1) for number in range(len(limits))]
    for number, limit in enumerate(limits):
        hosting.add("a", str(number), inputs=[f"c{number}"], limit=limit, remaining=per_tuple[number])
    waiting: list[tuple[int, int, Parcel]] = []  # order of arrival, component
    ends = [0] * len(limits)

    def rank(entry: tuple[int, int, Parcel]) -> tuple[float, int]:
        arrival, number, parcel = entry
        if discipline == "fcfs":
            return 0.0, arrival
        limit = limits[number]
        deadline = math.inf if limit is None else parcel.born + limit
        slack = deadline - per_tuple[number] * parcel.rows
        return (deadline if discipline == "edf" else slack), arrival

    def serve() -> None:
        heads = {number: entry for entry in reversed(waiting) for number in [entry[1]]}
        expected = min(heads.values(), key=rank)
        waiting.remove(expected)
        work = work_of(hosting)
        assert (work.component.operator, work.parcel) == (str(expected[1]), expected[2])
        hosting.done(work, [], 0.0, 0.0)  # takes no time, so that only what is downstream counts for slack

    for order, (number, born, rows, served) in enumerate(arrivals):
        chosen = number % len(limits)
        parcel = batch(ends[chosen], rows, born=float(born))
        ends[chosen] += rows
        hosting.offer(f"c{chosen}", parcel, 0.0)
        waiting.append((order, chosen, parcel))
        if served:
            serve()
    while waiting:
        serve()
    assert hosting.next(0.0) is None


def test_least_slack_counts_the_time_that_the_component_itself_has_been_taking() -> None:
    hosting = Hosting("least_slack")
    for name in ("quick", "slow"):
        hosting.add("a", name, inputs=[name], limit=10.0)
        hosting.offer(name, batch(0), 0.0)
        work = work_of(hosting)
        hosting.done(work, [], 0.0, 3.0 if name == "slow" else 0.1)
    hosting.offer("quick", batch(1, born=0.0), 5.0)
    hosting.offer("slow", batch(1, born=1.0), 5.0)
    assert work_of(hosting, 5.0).component.operator == "slow"
    hosting.discipline = "edf"
    assert work_of(hosting, 5.0).component.operator == "quick"


def test_only_what_the_driver_can_execute_is_given() -> None:
    hosting = Hosting()
    hosting.add("a", "heavy", inputs=["h"])
    hosting.add("a", "light", inputs=["l"])
    hosting.offer("h", batch(0, 1000), 0.0)
    hosting.offer("l", batch(0, 1), 0.0)
    work = hosting.next(0.0, lambda _, parcel: parcel.rows < 64)
    assert work is not None
    assert work.component.operator == "light"
    assert hosting.next(0.0, lambda _, parcel: parcel.rows < 64) is None
    assert work_of(hosting).component.operator == "heavy"


# -- what waits goes together ----------------------------------------------------------------------------------------


def test_what_waits_in_one_queue_is_taken_together_within_limits() -> None:
    hosting = Hosting(window_bytes=4000)
    hosting.add("a", "o", inputs=[IN, "other"])
    for position in range(5):
        hosting.offer(IN, batch(position, size=100, born=1.0 + position / 100), 0.0)
        hosting.offer("other", batch(position, size=100), 0.0)
    hosting.offer(IN, punctuation(7, 5), 0.0)
    work = hosting.next(0.0, together=4)
    assert work is not None
    assert [parcel.position for parcel in work.parcels] == [0, 1, 2, 3], "of one port, and no more tuples than that"
    assert hosting.next(0.0, together=4) is None, "it is running"
    hosting.done(work, [], 0.0, 1.0)
    assert [inlet.consumed for inlet in work.component.inlets] == [400, 0]
    assert work.component.tuple_s.mean == 0.25
    hosting.discipline = "edf"
    work = hosting.next(0.0, together=100)
    assert work is not None
    hosting.done(work, [], 0.0, 0.0)
    assert work.rest == (), "more than one of a quarter of a second would take too long"


def test_what_was_born_far_apart_or_fills_the_window_goes_alone() -> None:
    hosting = Hosting(window_bytes=1000)
    hosting.add("a", "o", inputs=[IN])
    for position, (born, size) in enumerate([(0.0, 100), (0.1, 100), (0.3, 100), (0.3, 401)]):
        hosting.offer(IN, batch(position, size=size, born=born), 0.0)
    taken = []
    while (work := hosting.next(0.0, together=100)) is not None:
        taken.append([parcel.position for parcel in work.parcels])
        hosting.done(work, [], 0.0, 0.0)
    assert taken == [[0, 1], [2], [3]]


@given(st.lists(st.floats(0, 5), min_size=2, max_size=20))
def test_however_often_items_are_merged_they_stay_as_young(births: list[float]) -> None:
    merged = births[0]
    for born in births[1:]:
        if contemporary(merged, born):
            assert abs(born - merged) <= 0.2 + 1e-9
            merged = min(merged, born)
    assert contemporary(merged, births[0])


# -- measurements ----------------------------------------------------------------------------------------------------


def test_what_is_measured_of_a_component() -> None:
    hosting = Hosting(measure_s=5.0)
    component = hosting.add("a", "o", inputs=[IN], outputs=[OUT], now=0.0)
    position = 0
    for step in range(200):
        now = step / 10
        hosting.offer(IN, batch(10 * step, 10, 240), now)
        work = work_of(hosting, now + 0.02)
        hosting.done(work, [batch(position, 4, 96)], now + 0.02, now + 0.07, late=1 if step == 3 else 0)
        position += 4
        hosting.credit(OUT, 96 * (step + 1), now)
    hosting.offer(IN, batch(2000, 5, 120), 20.0)
    stats = component.stats(20.0)
    assert stats["rate"] == pytest.approx(100, rel=0.03)
    assert stats["output_rate"] == pytest.approx(40, rel=0.03)
    assert stats["load"] == pytest.approx(0.5, rel=0.03)
    assert stats["processing_s"] == pytest.approx(0.005)
    assert stats["batch_s"] == pytest.approx(0.05)
    assert stats["queueing_s"] == pytest.approx(0.02)
    assert stats["selectivity"] == pytest.approx(800 / 2005)
    assert (stats["application"], stats["operator"]) == ("a", "o")
    assert (stats["tuples_in"], stats["tuples_out"]) == (2005, 800)
    assert (stats["bytes_in"], stats["bytes_out"]) == (48120, 19200)
    assert (stats["late"], stats["queue_bytes"], stats["queue_tuples"]) == (1, 120, 5)
    assert hosting.stats(20.0) == [stats]


def test_a_tuple_costs_what_it_took_and_what_punctuations_took_meanwhile() -> None:
    hosting = Hosting()
    component = hosting.add("a", "o", inputs=[IN])
    assert component.stats(0.0)["cost"] is None
    hosting.offer(IN, batch(0, 10), 0.0)
    hosting.done(work_of(hosting), [], 0.0, 1.0)
    assert component.stats(2.0)["cost"] is None  # a call on a few tuples tells what a call costs
    for number in range(8):
        hosting.offer(IN, batch(10 + 20 * number, 20), 1.0)
        hosting.done(work_of(hosting, 1.0), [], 1.0, 3.0 if number else 100.0)  # one was held up by something else
    hosting.offer(IN, punctuation(1, 170), 1.0)
    hosting.done(work_of(hosting, 1.0), [], 1.0, 18.0)
    assert component.stats(2.0)["cost"] == pytest.approx(0.1 + 17.0 / 170)
    component.elsewhere = True
    assert component.stats(2.0)["cost"] is None


def test_inlet_and_outlet_stay_consistent_across_a_lost_grant() -> None:
    outlet = Outlet(IN, window=100, local=False)
    inlet = Inlet(None, 0, IN, window=100, expected=0)
    for position in range(20):
        outlet.outbox.append(batch(position, size=10))
        while outlet.ready():
            parcel = outlet.send()
            assert inlet.screen(parcel) is parcel
            if inlet.consume(parcel.size) and position % 2:  # every other grant is lost
                inlet.granted = inlet.consumed
                outlet.acknowledge(inlet.consumed)
        assert not outlet.outbox


def test_a_load_that_comes_and_goes_has_a_signature() -> None:
    """Five seconds at 20 tuples/s, five at 200, of 2 ms each: two segments; at one rate there is nothing to tell."""
    component = Component("a", "o", limit=None, remaining=0.0, measure_s=1.0, share=Memory().share("a", "o"), now=0.0)
    component.planned_s = 0.002
    component.executed(1, 0.1, 0.0)  # what a call took that was held up is not what a tuple costs
    for number in range(1, 101):
        component.arrived(1, number / 20)
    assert len(component.segments(5.0)) == 1
    for number in range(1, 1001):
        component.arrived(1, 5.0 + number / 200)
    found = component.segments(10.0)
    assert [round(segment.load, 1) for segment in found] == [0.0, 0.4]
    assert abs(found[1].start - 5.0) <= 2 * RESOLUTION
