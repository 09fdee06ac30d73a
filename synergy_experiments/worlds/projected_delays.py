"""Projected and actual delays, segment by segment, for claims C13 and C14 (section 2.4.2).

Several streams arrive at one peer, each at its own component, and tuples queue there in the flow simulator. The
signatures of all streams are learnt on line, from their arrivals alone. At the end of every window the execution time
of the first stream's tuples is projected for each segment of the *next* window, under the assumption of unchanged
signatures, and also for the segments of the window that has just ended (*same*), which shows the error of the formulas
with known loads.

Every segment's projection is compared with the mean delay of its tuples. That mean varies randomly from one window to
the next, so a projector is also judged by its means over all segments of high and of low rate, which a reader of the
figures sees.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from synergy_experiments.flows.flow import Flow
from synergy_experiments.flows.flow_applications import Application, Arrivals, Component, Service
from synergy_experiments.flows.on_off import binned, expected_rates, recurrence, segments_of
from synergy_experiments.framework.measurements import Point
from synergy_nb.models.projectors import Traffic, execution
from synergy_nb.models.signatures import Pieces, Profiled, Segment, Signature, aggregate

__all__ = [
    "BOUND",
    "FLOOR",
    "ON_OFF",
    "OWN",
    "PAPER",
    "PROJECTED",
    "Found",
    "Learnt",
    "Run",
    "Stream",
    "caught",
    "compare",
    "curves",
    "executed",
    "learn",
    "project",
    "run",
    "scores",
]

PAPER: Final = "mm1, maximum"  # the component's maximum load in every segment (2.11), pieces of the shortest segment
OWN: Final = "mm1, shortest"  # the component's own load in each of these pieces (2.10)
ON_OFF: Final = "transient, on/off"  # segments from the ON/OFF model over several windows, as far as they come again
CONFIDENCE: Final = 0.999
BOUND: Final = f"transient, {CONFIDENCE:.1%}"
FLOOR: Final = "mean known"  # the mean actual time in segments of high and of low rate
PROJECTED: Final = (PAPER, OWN, "mm1", "mg1", "gg1", "transient", ON_OFF, BOUND)
MEMORY: Final = 8  # windows of the ON/OFF model
CELLS: Final = 200  # bins of a window in the ON/OFF model; more where segments are shorter than two bins
MOST_CELLS: Final = 2400
LEARNT: Final = 2  # windows before the first counted one
BEATS: Final = 50  # of a window, at which the absence of tuples is noticed
BINS: Final = 50  # of a figure
SHOWN: Final = (PAPER, "mm1", ON_OFF)

Array = npt.NDArray[np.float64]


class Stream(NamedTuple):
    """A stream and the component that executes its tuples.

    Parameters
    ----------
    arrivals
        Arrival times of tuples, seconds.
    tau
        Mean of their exponential processing times, seconds.
    """

    arrivals: Arrivals
    tau: float


@dataclass(frozen=True)
class Learnt:
    """The learnt properties of a stream.

    Parameters
    ----------
    segments
        Segments of its signature at the end of each window, by window.
    scv
        Squared coefficient of variation within segments.
    changes
        Times at which changes were found, and times at which they were placed.
    repeated
        Segments that the ON/OFF model expects in the next window, at the times of this one, by window.
    recurring
        Share of the variation of the rate by these segments that comes again in the next window, by window.
    """

    segments: list[tuple[Segment, ...]]
    scv: list[float]
    changes: list[tuple[float, float]]
    repeated: list[tuple[Segment, ...]]
    recurring: list[float]


@dataclass(frozen=True)
class Run:
    """Executed streams, and their measured signatures.

    Parameters
    ----------
    streams
        Executed streams; the first is the one under test.
    window, windows
        Length of a window, seconds, and number of windows.
    births, delays
        Birth times and delays of the tuples of the first stream, in the order of their arrival.
    alone
        Delays of these tuples if nothing else is executed, seconds.
    learnt
        Measured signature of each stream.
    means
        Window to the projected time of the tested stream's tuples in its signature, in sum over their work, and this
        work; filled when they are needed.
    """

    streams: Sequence[Stream]
    window: float
    windows: int
    births: Array
    delays: Array
    alone: Array
    learnt: Sequence[Learnt]
    means: dict[int, tuple[float, float]] = field(default_factory=dict)


class Found(NamedTuple):
    """Segments that were projected: arrays of shape (segments,).

    Parameters
    ----------
    projected
        Projected delay by each of :data:`PROJECTED`, seconds.
    actual
        Mean seconds that its tuples took.
    tuples
        Number of tuples.
    high
        Whether the stream under test is at its high rate.
    """

    projected: dict[str, Array]
    actual: Array
    tuples: Array
    high: npt.NDArray[np.bool_]


def run(streams: Sequence[Stream], window: float, windows: int, seed: int, false_alarm: float) -> Run:
    """Execute streams at one peer, and learn their signatures.

    Parameters
    ----------
    streams
        Streams to execute; the first is the one under test.
    window, windows
        W in seconds, and how many.
    seed
        Seed of arrivals and processing times.
    false_alarm
        Probability of a false alarm of the signatures.
    """
    seconds = window * windows
    births, delays = executed(streams, seconds, seed)
    alone = executed(streams[:1], seconds, seed)[1][0]
    learnt = [learn(born, each.tau, window, windows, false_alarm) for born, each in zip(births, streams, strict=True)]
    return Run(streams, window, windows, births[0], delays[0], alone, learnt)


def executed(streams: Sequence[Stream], seconds: float, seed: int) -> tuple[list[Array], list[Array]]:
    """Return the arrival times of the tuples within a number of seconds, and their execution times, by stream."""
    until = 1.1 * seconds  # so that earlier tuples have left
    keep = max(len(each.arrivals.times) or math.ceil(1.2 * each.arrivals.rate * until) for each in streams) + 1000
    flow = Flow(seed=seed, keep=keep, backlog=seconds)
    for number, each in enumerate(streams):
        parts = {"feed": Component(), "component": Component("peer", Service.exponential(each.tau), ["feed"])}
        flow.add(Application(f"stream {number}", parts, {"feed": each.arrivals}))
    flow.run(until)
    births, delays = [], []
    for number in range(len(streams)):
        born, took = flow.records(f"stream {number}")
        early = born < seconds
        births.append(born[early])
        delays.append(took[early])
    return births, delays


def learn(births: Array, tau: float, window: float, windows: int, false_alarm: float) -> Learnt:
    """Learn the signature of a stream from the arrival times of its tuples, at the end of each window.

    Parameters
    ----------
    births
        Arrival times of the tuples, seconds, in ascending order.
    tau
        Mean processing time of a tuple, seconds.
    window, windows
        Length of a window, seconds, and number of windows.
    false_alarm
        Tuples between false alarms.
    """
    signature = Signature(window, false_alarm=false_alarm)
    learnt = Learnt([], [], [], [], [])
    expected: list[Array] = []  # tuples that are expected in each bin of the next window
    came: list[Array] = []  # and how many came
    beats = window / BEATS * np.arange(1, BEATS * windows + 1)
    arrived = np.searchsorted(births, beats, side="right")
    times = births.tolist()
    first = 0
    for number, (beat, last) in enumerate(zip(beats.tolist(), arrived.tolist(), strict=True), start=1):
        for time in [*times[first:last], beat]:
            changes = signature.changes
            signature.observe(time, int(time != beat), tau if time != beat else 0.0)
            if signature.changes > changes:
                learnt.changes.append((time, signature.since))
        first = last
        if number % BEATS == 0:
            learnt.segments.append(signature.segments(beat))
            learnt.scv.append(signature.scv)
            done = number // BEATS
            if done > 1:
                came.append(binned(births, window * (done - 1), window, 1, len(expected[-1]))[0])
            repeated, rates = _repeated(births, tau, window, done, learnt.segments)
            again = recurrence(expected[-MEMORY:], came[-MEMORY:]) if came else 1.0
            expected.append(rates * window / len(rates))
            learnt.repeated.append(repeated)
            learnt.recurring.append(again)
    return learnt


def _repeated(
    births: Array, tau: float, window: float, done: int, segments: Sequence[tuple[Segment, ...]]
) -> tuple[tuple[Segment, ...], Array]:
    """Return the segments that are expected in the next window, at the times of the last one, and rates in bins.

    There are ``done`` windows.
    """
    shortest = min(each.length for each in segments[-1])
    cells = min(max(CELLS, math.ceil(2.0 * window / shortest)), MOST_CELLS)
    now = _rates(segments[-1], window * (done - 1), window, tau, cells)
    known = min(done, MEMORY)
    if known < 2:
        return segments[-1], now
    width = window / cells
    counts = binned(births, window * (done - known), window, known, cells)
    before = _rates(segments[-2], window * (done - 2), window, tau, cells)
    rates = expected_rates(counts, width, before)
    return (segments[-1], now) if rates is before else (segments_of(rates, window * (done - 1), width, tau), rates)


def _rates(segments: tuple[Segment, ...], start: float, window: float, tau: float, cells: int) -> Array:
    """Return the rate of a signature in each bin of a window, tuples/s."""
    edges = start + window / cells * np.arange(cells + 1)
    work = np.concatenate([[0.0], np.cumsum([each.length * each.load for each in segments])])
    times = np.append([each.start for each in segments], segments[-1].end)
    return np.asarray(np.diff(np.interp(edges, times, work)) * cells / window / tau)


# -- projections and measurements ----------------------------------------------------------------------------------


class Projection(NamedTuple):
    """Projected execution times over a window.

    Parameters
    ----------
    lengths
        Lengths of the pieces of the window, seconds.
    times
        Execution time in each piece, seconds.
    """

    lengths: Array
    times: Array

    @classmethod
    def of(cls, pieces: Pieces, times: float | Array) -> Projection:
        """Return the projection of pieces; a single time is that of every piece."""
        return cls(pieces.lengths, np.broadcast_to(np.asarray(times), pieces.lengths.shape))

    def at(self, moments: Array) -> Array:
        """Return the execution times at moments, seconds since the start of the window."""
        places = np.searchsorted(np.cumsum(self.lengths), moments)
        return np.asarray(self.times[np.minimum(places, len(self.times) - 1)])


def project(done: Run, number: int, over: float = math.inf) -> tuple[Pieces, dict[str, Projection]]:
    """Project the execution times of the first stream in each segment, from the signatures at the end of a window.

    :data:`PAPER` and :data:`OWN` cut the window into pieces of the length of the shortest segment, as the dissertation
    does; the others cut it wherever a stream changes its rate. The pieces of the latter are returned, too.

    Parameters
    ----------
    done
        Streams that were executed.
    number
        Number of the window.
    over
        Longest time over which :data:`BOUND` bounds the mean, seconds.
    """
    start, taus = number * done.window, [each.tau for each in done.streams]
    segments = [each.segments[number] for each in done.learnt]
    varied = [each.scv[number] for each in done.learnt]
    pieces = aggregate(segments, start, done.window)
    together = _traffic(pieces, taus, varied)
    found = {name: execution(name, taus[0], together, pieces.lengths) for name in ("mm1", "mg1", "gg1", "transient")}
    found[BOUND] = execution("transient", taus[0], together, pieces.lengths, CONFIDENCE, over)
    projections = {name: Projection.of(pieces, each) for name, each in found.items()}
    shortest = aggregate(segments, start, done.window, "shortest")
    projections[OWN] = Projection.of(shortest, execution("mm1", taus[0], _traffic(shortest, taus, varied)))
    cautious = shortest.loads.copy()
    cautious[0] = Profiled.of(segments[0]).maximum
    most = _traffic(shortest._replace(loads=cautious), taus, varied)
    projections[PAPER] = Projection.of(shortest, execution("mm1", taus[0], most))
    repeated = aggregate([each.repeated[number] for each in done.learnt], start, done.window)
    known = [each.repeated[number] is not each.segments[number] for each in done.learnt]
    even = [1.0 if found_again else scv for found_again, scv in zip(known, varied, strict=True)]
    expected = execution("transient", taus[0], _traffic(repeated, taus, even), repeated.lengths)
    again = done.learnt[0].recurring[number]
    projections[ON_OFF] = Projection.of(repeated, again * expected + (1.0 - again) * _usual(done, number))
    return pieces, {name: projections[name] for name in PROJECTED}


def _usual(done: Run, number: int) -> float:
    """Return the projected time of a tuple of the tested stream that may come in any segment, from the last windows."""
    known = range(max(number + 1 - MEMORY, 0), number + 1)
    for each in known:
        if each not in done.means:
            pieces = aggregate([one.segments[each] for one in done.learnt], each * done.window, done.window)
            taus = [one.tau for one in done.streams]
            together = _traffic(pieces, taus, [one.scv[each] for one in done.learnt])
            times = execution("transient", taus[0], together, pieces.lengths)
            work = pieces.loads[0] * pieces.lengths
            done.means[each] = float(np.dot(work, times)), float(work.sum())
    total, work_of_all = np.sum([done.means[each] for each in known], axis=0)
    return float(total / work_of_all) if work_of_all else done.streams[0].tau


def _traffic(pieces: Pieces, taus: Sequence[float], scv: Sequence[float]) -> Traffic:
    """Return the traffic of all streams in each piece."""
    return Traffic.together(
        Traffic.of(loads, tau, 1.0, varied) for loads, tau, varied in zip(pieces.loads, taus, scv, strict=True)
    )


def compare(done: Run, *, same: bool, segment: float | None = None) -> Found:
    """Project each segment, and measure the execution times of its tuples.

    Parameters
    ----------
    done
        Executed streams.
    same
        Whether segments are applied to the window in which they were measured, rather than to the next.
    segment
        Length of the true, alternating segments of high and of low rate, seconds, if it is known: then the projection
        for the middle of each is compared. Otherwise the detected segments are used, of high rate if the load of
        the stream under test is above that of the whole window.
    """
    took = np.concatenate([[0.0], np.cumsum(done.delays)])
    projected: dict[str, list[Array]] = {name: [] for name in PROJECTED}
    actual, tuples, highs = [], [], []
    for number in range(LEARNT, done.windows - 1):
        pieces, found = project(done, number, math.inf if segment is None else segment)
        ends = np.cumsum(pieces.lengths)
        edges = np.append(0.0, ends)
        if segment is not None:
            edges = np.arange(round(done.window / segment) + 1) * segment
        middles = (edges[:-1] + edges[1:]) / 2.0
        edges += pieces.start + (0.0 if same else done.window)
        if segment is not None:
            high = np.floor(edges[:-1] / segment + 0.5).astype(np.int64) % 2 == 0
        else:
            own = pieces.loads[0]
            high = own > np.dot(own, pieces.lengths) / done.window
        places = np.searchsorted(done.births, edges)
        counts = np.diff(places)
        some = counts > 0
        for name in PROJECTED:
            projected[name].append(found[name].at(middles)[some])
        actual.append(np.diff(took[places])[some] / counts[some])
        tuples.append(counts[some])
        highs.append(high[some])
    joined = {name: np.concatenate(each) for name, each in projected.items()}
    return Found(joined, np.concatenate(actual), np.concatenate(tuples), np.concatenate(highs))


def scores(found: Found, x: str, prefix: str = "") -> Iterator[Point]:
    """Return the scores of the projectors as points at ``x``. A bound is no estimate, and has no errors.

    ``error`` is the mean relative error of single segments, ``error of means`` that of the means over all segments of
    high, and of low rate. Both are weighted by tuples, as a segment of few tuples is uncertain, and exclude segments in
    which a projector that knows the loads projects overload; ``overload`` is the share of tuples in these.
    ``optimistic`` is the share of the segments of high rate whose tuples took longer than projected, ``conservative``
    that of low rate whose tuples did not; ``above twice`` is the share of the segments of high rate whose tuples took
    longer than twice as projected. ``at high rate`` and ``at low rate`` are projected means
    over actual ones; ``follows`` is the correlation of the logarithms of projected and actual times over segments.
    """
    finite = np.all([np.isfinite(found.projected[name]) for name in ("mm1", "mg1", "gg1", "transient")], axis=0)
    known = np.empty(len(found.actual))
    for upper in (True, False):
        rows = found.high == upper
        if rows.any():
            known[rows] = np.average(found.actual[rows], weights=found.tuples[rows])
    for name, projected in {**found.projected, FLOOR: known}.items():
        both = finite & np.isfinite(projected)
        weights, actual, guess = found.tuples[both], found.actual[both], projected[both]
        if not len(weights):
            continue
        off = float(np.dot(weights, np.abs(guess - actual)) / np.dot(weights, actual))
        if name != BOUND:
            yield Point(x, name, f"{prefix}error", off)
        logs = np.log(np.stack([guess, actual]))
        logs -= np.average(logs, axis=1, weights=weights)[:, None]
        spread = math.sqrt(math.prod(np.average(logs * logs, axis=1, weights=weights).tolist()))
        if spread > 1e-12:
            together = float(np.average(logs[0] * logs[1], weights=weights))
            yield Point(x, name, f"{prefix}follows", together / spread)
        ratios = []
        for upper, where, what in ((True, "high", "optimistic"), (False, "low", "conservative")):
            rows = found.high[both] == upper
            if not rows.any():
                continue
            ratio = float(np.dot(weights[rows], guess[rows]) / np.dot(weights[rows], actual[rows]))
            ratios.append(abs(ratio - 1.0))
            yield Point(x, name, f"{prefix}at {where} rate", ratio)
            above = found.actual[found.high == upper] <= projected[found.high == upper]
            yield Point(x, name, f"{prefix}{what}", float(np.mean(above != upper)))
            if upper:
                twice = found.actual[found.high] > 2.0 * projected[found.high]
                yield Point(x, name, f"{prefix}above twice", float(np.mean(twice)))
        if name != BOUND:
            yield Point(x, name, f"{prefix}error of means", float(np.mean(ratios)))
        overloaded = ~np.isfinite(projected)
        yield Point(x, name, f"{prefix}overload", float(found.tuples[overloaded].sum() / found.tuples.sum()))


def caught(done: Run, changes: Array, segment: float) -> float:
    """Return the share of the true changes that are found before the next one, and dated within half a segment."""
    if not len(changes):
        return math.nan
    found = np.array(done.learnt[0].changes).reshape(-1, 2)
    own = [
        bool(((found[:, 0] > at) & (found[:, 0] <= at + segment) & (np.abs(found[:, 1] - at) < segment / 2.0)).any())
        for at in changes.tolist()
    ]
    return float(np.mean(own))


def curves(done: Run, metric: str, span: float | None = None) -> Iterator[Point]:
    """Return the delay over time in the middle window, as points of a figure.

    Parameters
    ----------
    done
        Streams that were executed.
    metric
        Metric of the points.
    span
        Examined part of the window, from its beginning, seconds; by default all of it.
    """
    number = done.windows // 2
    _, found = project(done, number)
    began = (number + 1) * done.window
    edges = (done.window if span is None else span) / BINS * np.arange(BINS + 1)
    middles = (edges[:-1] + edges[1:]) / 2.0
    places = np.searchsorted(done.births, began + edges)
    for name in SHOWN:
        steps = found[name].at(middles)
        for time, value in zip(middles.tolist(), steps.tolist(), strict=True):
            if math.isfinite(value):
                yield Point(round(time, 6), f"projected, {name}", metric, value)
    for name, delays in (("actual", done.delays), ("isolated", done.alone)):
        for time, one, two in zip(middles.tolist(), places[:-1].tolist(), places[1:].tolist(), strict=True):
            if two > one:
                yield Point(round(time, 6), name, metric, float(delays[one:two].mean()))
