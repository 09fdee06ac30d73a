"""C13 and C14: errors of projected delays against measured ones (section 2.4.2, figures 2.22-2.31).

A component is executed together with two others at one peer. The delays of its tuples are projected from signatures
that were learnt on line (:mod:`~synergy_experiments.worlds.projected_delays`). The dissertation states arrivals and
sizes of tuples, but neither processing times, nor loads, nor the other work of the peer. Here the component uses a
stated load at its high rate, so that slow and fast patterns differ in their rates and not in their queues.

Findings
--------
*Segments.* Of the segments of 30/10, 40/10 and 300/100 tuples/s, nine in ten and more are found before they end. Those
of 30/10 in a period of 0.5 s (7.5 and 2.5 tuples) and of 3/1 (3.8 and 1.3) are not found, and those of 20/10 in one
case of four. With Poisson arrivals, the tuples of such a segment give 1.3, 0.7 and 2.1 nats of information about its
rate, while one false alarm in 300 tuples requires six. If the dissertation found all segments, its arrivals within
segments were more regular than it states. Little is lost: a queue cannot follow such segments either, and the error of
M/M/1 at the mean load is 8 to 14 % in the first two cases.

*The paper's projection* cuts the window into pieces of the length of the shortest segment (figure 2.9), with the
component's maximum load in each (equation 2.11), and is compared with the next window. *Never optimistic, conservative
at the low rate* is the result of the maximum: wherever segments are found, projected means of the high rate are not
below the actual ones, and those of the low rate are four to eight times as high; where they are not found, means of the
high rate are .83 to .93 of the actual ones. Of four recorded and generated streams none is below at the high rate (1.08
to 6.8 of the actual means). But this projection does not follow the component's own bursts, as the curves in the
figures do. With the component's own signature in the same pieces (equation 2.10), it does: then it is above the actual
means at the high rate, where queues have no time to fill. Single segments vary so much that a tenth to a sixth of those
of high rate exceed even the maximum's projection where segments are found, and a third and more where they are not.

*Beyond the paper.* The transient projector lets queues fill and empty. With the segments of a signature, it removes a
third of M/M/1's error of the means. The ON/OFF model folds eight windows (:mod:`~synergy_experiments.flows.on_off`) and
so finds the segments of all synthetic patterns. What was expected in each window is compared with what came: the share
of the variation that came again is the weight of the expected segment, and the rest is the time of any tuple in the
signatures of the last eight windows, wherever its segment was. On recorded and generated streams, where hardly anything
comes again, this removes six tenths of M/M/1's error of the means; without the weight the ON/OFF model removed a fifth,
since it projected for a stream that does not repeat itself as if it were even. The model and its constants were chosen
on other days of the recorded requests and other seeds. No peer uses it: peers project with signatures. In single
segments the error is a fifth below M/M/1's, near that of a predictor that knows both means; most of M/M/1's error
cannot be avoided there. Of the segments of high rate, 0.4 % exceed the projection with a confidence of 99.9 %, which is
one to four times the mean there, and three to six times on synthetic streams.

*A bursty newcomer* (:mod:`~synergy_experiments.worlds.newcomers`). In the dissertation, signatures of the requested
streams are given, profiled or approximated, and equation 2.11 adds their maximum load. We project the delay that a
newcomer adds to other streams, by its segments of high and of low rate. Where segments can be found and other streams
are regular, the mean error is 70 % by its mean rate, 2.5 times the impact by its maximum load, and 10 % by its
signature added to those of the others, as in figure 2.9 (transient projector; M/M/1: 3.4, 5.0 and 0.7 times). Beside
streams with bursts at the same times, the errors are 39 %, 2.3 times and 25 %; M/M/1, in which queues fill at once, has
0.9, 4.6 and 1.6 times. If the signature was measured at another time, so that the times of its bursts are unknown, the
projection of single segments is as bad as by the mean rate, but the mean over all segments is better.
"""

from __future__ import annotations

import gzip
import math
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from synergy_experiments.flows.flow_applications import Arrivals
from synergy_experiments.framework.claim import Cell, Check, Claim, Panel
from synergy_experiments.framework.measurements import Coordinate, Decision, Measured, Point, mean_of_known
from synergy_experiments.framework.parameters import IncompatibleParameters, Setup, files, number, several, whole
from synergy_experiments.framework.verdicts import at_all, at_least, near, not_comparable, own
from synergy_experiments.worlds.newcomers import impact_of_newcomer
from synergy_experiments.worlds.projected_delays import (
    BOUND,
    FLOOR,
    ON_OFF,
    OWN,
    PAPER,
    Stream,
    caught,
    compare,
    curves,
    run,
    scores,
)
from synergy_nb import traces
from synergy_nb.traces import datasets

__all__ = ["CLAIMED", "PATTERNS", "recorded", "synthetic"]

Array = npt.NDArray[np.float64]

#: Name to high and low rate in tuples/s and period in seconds, with the figure; regular traffic has equal rates.
PATTERNS: Final = {
    "20/s": (20.0, 20.0, 2.5),  # 2.24
    "30/10, 2.5 s": (30.0, 10.0, 2.5),  # 2.25
    "30/10, 0.5 s": (30.0, 10.0, 0.5),  # 2.26
    "30/10, 5 s": (30.0, 10.0, 5.0),  # 2.27
    "3/1, 2.5 s": (3.0, 1.0, 2.5),  # 2.28
    "300/100, 2.5 s": (300.0, 100.0, 2.5),  # 2.29
    "20/10, 2.5 s": (20.0, 10.0, 2.5),  # 2.30
    "40/10, 2.5 s": (40.0, 10.0, 2.5),  # 2.31
}
REGULAR: Final = "20/s"
FIRST: Final = "30/10, 2.5 s"  # the pattern with which the others are compared
PERIODS: Final = ("30/10, 0.5 s", "30/10, 5 s")
RATIOS: Final = ("20/10, 2.5 s", "40/10, 2.5 s")
SAME: Final = "same window: "
BESIDE_BURSTS: Final = "beside bursts: "
PACKETS: Final = "generated packets"
SENSORS: Final = "generated sensors"
SPAN: Final = 3.0  # seconds of the figure of the sensors: a burst, and silence
USER_TRACE: Final = "trace "
AT_HAND: Final = ("lbl-tcp-3", "sdsc-http", "nasa-http-rate")
FIGURES: Final = (f"{USER_TRACE}1", f"{USER_TRACE}2", *AT_HAND, PACKETS, SENSORS)
ALL: Final = 0.8  # share of found changes from which on all count as found, as chance hides some
CLOSE: Final = 0.05  # tolerance of a verdict that one mean is not below another, as both vary
IN_SAMPLE: Final = "a projection of what it was learnt from, which no peer makes"
#: Both equations by which the paper's sentences may be read: the component's own load, or its maximum.
PROJECTORS: Final = ((OWN, "2.10"), (PAPER, "2.11"))
ALIKE: Final = 0.1  # difference of the shares of found changes up to which they count as equal
ACCURATE: Final = 0.25  # difference of two errors up to which they count as equal, of the first
FOUND_FROM: Final = 15.0  # tuples of a segment of high rate, from which on segments are found
FEWEST: Final = 5  # windows: the first are learnt from, the others are compared
EVERY: Final = 300.0  # seconds from one burst of the sensors to the next
BURST: Final = 40  # tuples of one, within a second


def synthetic(
    name: str, load: float, beside: float, ratio: float, window: float, windows: int, false_alarm: float, seed: int
) -> list[Point]:
    """Measure projections for a pattern of arrivals, at a component with ``load`` at the high rate.

    Two other components have the load ``beside`` together, and ``ratio`` times its processing time. One receives
    regular traffic, the other bursts of the same pattern, at the same times.
    """
    high, low, period = PATTERNS[name]
    tau = load / high
    other = beside / 2.0 / (ratio * tau)  # tuples/s

    def bursts(rate: float) -> Arrivals:
        if high == low:
            return Arrivals.poisson(rate)
        return Arrivals.on_off(rate, rate * low / high, period / 2.0, period / 2.0)

    tested, regular = Stream(bursts(high), tau), Stream(Arrivals.poisson(other), ratio * tau)
    done = run([tested, Stream(bursts(other), ratio * tau), regular], window, windows, seed, false_alarm)
    points = list(scores(compare(done, same=False, segment=period / 2.0), name))
    points += scores(compare(done, same=True, segment=period / 2.0), name, SAME)
    if high > low:
        numbers = np.arange(round(4 * window / period), math.floor(2 * window * windows / period))
        changes = numbers.astype(np.float64) * (period / 2.0)
        points.append(Point(name, "signature", "found", caught(done, changes, period / 2.0)))
        newcomer = Stream(bursts(high), beside / 2.0 / high)  # as many tuples as the tested stream, so it has segments
        even = Stream(Arrivals.poisson((high + low) / 2.0), tau)
        for runs, prefix in ((even, ""), (tested, BESIDE_BURSTS)):
            streams = [runs, regular, newcomer]
            points += impact_of_newcomer(streams, name, period / 2.0, window, windows, seed, false_alarm, prefix)
    points += curves(done, f"delay, {name}")
    return points


# -- recorded and generated streams ------------------------------------------------------------------------------------


def arrivals_of(input_: str, tuples: int, seed: int) -> Array:
    """Return the times of the first tuples of an input, seconds from 0: of a file, a dataset or a generator."""
    rng = np.random.default_rng([seed, 13])
    if input_ == SENSORS:
        bursts = math.ceil(tuples / BURST)
        times = (np.arange(bursts)[:, None] * EVERY + rng.uniform(0.0, 1.0, (bursts, BURST))).ravel()
        return np.sort(times)[:tuples]
    if input_ == PACKETS:
        params = {"connector": "packets", "seed": seed, "rate": 250.0, "count": tuples}
        return _seconds(traces.table(params)["time"].to_physical().to_numpy())
    if Path(input_).name.startswith("nasa-http-requests-per-second"):
        with gzip.open(input_, "rt", encoding="ascii") as lines:
            counts = np.array([int(line) for line in islice(lines, 4 * tuples)])
        times = np.repeat(np.arange(len(counts), dtype=np.float64), counts)[:tuples]
    else:
        table = traces.table({"connector": "trace", "path": input_})
        times = _seconds(table["time"].to_physical().to_numpy())[:tuples]
    if (times == np.floor(times)).all():  # logged to the second: they arrived at any time within it
        times = np.sort(times + rng.uniform(0.0, 1.0, len(times)))
    return np.asarray(times - times[0], dtype=np.float64)


def _seconds(times: npt.NDArray[np.int64]) -> Array:
    return np.asarray((times - times[0]) / 1e6, dtype=np.float64)


def recorded(
    input_: str,
    figure: str,
    load: float,
    beside: float,
    ratio: float,
    tuples: int,
    a_window: int,
    false_alarm: float,
    seed: int,
) -> list[Point]:
    """Measure projections for an input, at a component with ``load`` on average, or in the bursts of sensors.

    Two other components have the load ``beside`` together: one receives regular traffic, the other the same input from
    its middle on. A window has ``a_window`` tuples on average, or four bursts of sensors.
    """
    label = Path(input_).name if figure.startswith(USER_TRACE) else figure
    if input_ == SENSORS:  # they arrive much more slowly
        tuples = max(tuples // 10, 30 * BURST)
    times = arrivals_of(input_, tuples, seed)
    seconds = float(times[-1])
    rate = len(times) / seconds
    window = a_window / rate
    tau = load / rate
    if input_ == SENSORS:
        window, tau = 4.0 * EVERY, load / BURST
    windows = math.floor(seconds / window)
    if windows < FEWEST:
        raise ValueError(f"tuples, a_window: {windows} windows of {label}; expected at least {FEWEST}")
    shifted = np.sort((times + seconds / 2.0 + window / 7.0) % seconds)
    kept = shifted[:: max(round(2.0 * ratio * load / beside), 1)]  # of which each takes longer
    done = run(
        [
            Stream(Arrivals.trace(times), tau),
            Stream(Arrivals.trace(kept), beside / 2.0 / (load / tau) * len(times) / len(kept)),
            Stream(Arrivals.poisson(beside / 2.0 / (ratio * tau)), ratio * tau),
        ],
        window,
        windows,
        seed,
        false_alarm,
    )
    points = list(scores(compare(done, same=False), label))
    points += scores(compare(done, same=True), label, SAME)
    if input_ == SENSORS:
        changes = (np.arange(8, len(times) // BURST - 4)[:, None] * EVERY + np.array([0.0, 1.0])).ravel()
        points.append(Point(label, "signature", "found", caught(done, changes, EVERY)))
    points += curves(done, f"delay, {figure}", SPAN if input_ == SENSORS else None)
    return points


def _inputs(setup: Setup) -> dict[str, str]:
    """Map the path or the name of a generated stream to the subject of its figure."""
    given = setup["traces"]
    assert isinstance(given, tuple)
    if given:
        return {str(Path(str(path)).resolve()): f"{USER_TRACE}{number}" for number, path in enumerate(given, start=1)}
    at_hand = {name: datasets.find(name).path for name in AT_HAND}
    found = {path: name for name, path in at_hand.items() if path is not None}
    return found | {PACKETS: PACKETS, SENSORS: SENSORS}


# -- claims ------------------------------------------------------------------------------------------------------------

_SHARED: Final = {
    "ratio": number("processing time of a tuple at the others over that at the tested component", 1.0, least=0.01),
    "false_alarm": number("tuples between false alarms of signatures", 300.0, least=200.0),
}


def _c14_cells(setup: Setup) -> Iterator[Cell]:
    patterns, window = setup["patterns"], setup["window"]
    assert isinstance(patterns, tuple)
    assert isinstance(window, float)
    for name in map(str, patterns):
        if abs(math.remainder(window, PATTERNS[name][2])) > 1e-9:
            raise IncompatibleParameters(
                f"window: {window:g} s; expected whole periods of {PATTERNS[name][2]:g} s for {name!r}"
            )
        rest = (setup[each] for each in ("load", "beside", "ratio", "window", "windows", "false_alarm"))
        yield Cell(synthetic, (name, *rest))


def _c13_cells(setup: Setup) -> Iterator[Cell]:
    for each, figure in _inputs(setup).items():
        rest = (setup[name] for name in ("load", "beside", "ratio", "tuples", "a_window", "false_alarm"))
        yield Cell(recorded, (each, figure, *rest))


def _at_least(measured: Measured, x: Coordinate, algorithm: str, metric: str, bound: float) -> Decision | None:
    """Whether a mean is at least a number, by its interval."""
    found = measured.estimate(x, algorithm, metric)
    return None if found is None else found.at_least(bound)


def _regular(measured: Measured) -> float | None:
    """Return the projected mean by M/M/1 over the actual one of regular traffic, whose segments differ by chance."""
    return mean_of_known(measured.mean(REGULAR, OWN, f"at {rate} rate") for rate in ("high", "low"))


def _error(measured: Measured, xs: Sequence[Coordinate], algorithm: str, metric: str) -> float | None:
    """Return the mean error over inputs and repetitions: of single segments, or of the means by rate."""
    if metric == "error":
        found = [measured.mean(x, algorithm, metric) for x in xs]
    else:
        ratios = [measured.mean(x, algorithm, f"at {rate} rate") for x in xs for rate in ("high", "low")]
        found = [None if each is None else abs(each - 1.0) for each in ratios]
    known = [each for each in found if each is not None]
    return sum(known) / len(known) if known else None


def _less(measured: Measured, xs: Sequence[Coordinate], than: str, metric: str) -> float | None:
    """Return the share by which the error with the ON/OFF model is below another one's."""
    ours, theirs = (_error(measured, xs, each, metric) for each in (ON_OFF, than))
    return 1.0 - ours / theirs if ours is not None and theirs else None


def _misses(measured: Measured, xs: Sequence[Coordinate]) -> float | None:
    """Return the share of the segments of high rate that exceed the projection with confidence."""
    return mean_of_known(measured.mean(x, BOUND, "optimistic") for x in xs)


def _above_twice(measured: Measured, xs: Sequence[Coordinate], name: str) -> float | None:
    """Return the share of the segments of high rate that take longer than twice as projected."""
    return mean_of_known(measured.mean(x, name, "above twice") for x in xs)


def _beyond(measured: Measured, xs: Sequence[Coordinate]) -> Iterator[Check]:
    """Return the checks beyond the paper."""
    for metric, than, name in (
        ("error of means", PAPER, "error of the mean by segments' rate, below the paper's projection"),
        ("error", PAPER, "error of single segments, below the paper's projection"),
        (
            "error of means",
            "mm1",
            "error of the mean by segments' rate, below M/M/1 with the component's own signature",
        ),
        ("error", "mm1", "error of single segments, below M/M/1 with the component's own signature"),
        ("error of means", OWN, "error of the mean by segments' rate, below M/M/1 in pieces of the shortest segment"),
    ):
        less = measured.over_repetitions(_less, xs, than, metric)
        yield own(at_least(f"beyond the paper: {ON_OFF}, {name}", 0.5, less, 0.0, 0.0))
    high = [(x, _at_least(measured, x, ON_OFF, "at high rate", 1.0 - CLOSE)) for x in xs]
    yield own(
        at_all(f"beyond the paper: {ON_OFF} at the high rate is not below the actual mean", "never optimistic", high)
    )
    misses = measured.over_repetitions(_misses, xs)
    yield own(near(f"beyond the paper: segments of high rate above {BOUND}", 0.0, misses, 0.01, 0.03))
    for name, whose in ((ON_OFF, "our aim"), (FLOOR, "what knowing both means would give")):
        twice = measured.over_repetitions(_above_twice, xs, name)
        statement = f"beyond the paper: segments of high rate above twice the time by {name}"
        check = near(statement, 0.0, twice, 0.01, 0.03)
        yield own(check if name == ON_OFF else not_comparable(statement, "", twice, whose))


def _c14_checks(measured: Measured, _: Setup) -> Iterator[Check]:
    everywhere = measured.xs("at high rate", PAPER)
    bursty = [x for x in everywhere if x != REGULAR]
    found = [(x, _at_least(measured, x, "signature", "found", ALL)) for x in bursty]
    yield at_all(f"segments found, at least {ALL:.0%} before they end", "in all", found)
    for rate, says in (("high", "never optimistic"), ("low", "mostly conservative")):
        for algorithm, equation in PROJECTORS:
            points = [(x, _at_least(measured, x, algorithm, f"at {rate} rate", 1.0 - CLOSE)) for x in bursty]
            yield at_all(f"projection ({equation}) at the {rate} rate is not below the actual mean", says, points)
    for others, says in ((PERIODS, "the length of the bursts does not affect the identification of segments"),
                         (RATIOS, "the ratio of the rates does not affect the detection of segments")):  # fmt: skip
        same = [(x, _as_many_found(measured, x)) for x in others if x in bursty and FIRST in bursty]
        yield at_all(f"as many segments are found as of {FIRST}, within {100 * ALIKE:g} points", says, same)
    for algorithm, equation in PROJECTORS:
        same = [(x, _as_accurate(measured, x, algorithm)) for x in RATIOS if x in bursty and FIRST in bursty]
        name = f"error ({equation}) of single segments is that of {FIRST}, within {ACCURATE:.0%} of it"
        yield at_all(name, "the ratio of the rates does not affect the accuracy", same)
    if REGULAR in everywhere:
        ours = measured.over_repetitions(_regular)
        yield near("regular traffic: mean by M/M/1 (2.6) over the actual one", 1.0, ours, 0.15, 0.4, unit="")
    single = [
        (x, None if found is None else found.at_most(CLOSE))
        for x in bursty
        for found in [measured.estimate(x, PAPER, "optimistic")]
    ]
    statement = f"single segments of high rate are above the projection (2.11) in at most {CLOSE:.0%} of all"
    yield at_all(statement, "never optimistic, read of each segment", single)
    yield from _beyond(measured, bursty)
    slow = [x for x in bursty if PATTERNS[str(x)][2] / 2.0 * PATTERNS[str(x)][0] >= FOUND_FROM]
    for than, name in (("mean", "its mean rate"), ("maximum", "its maximum load (2.11)")):
        less = measured.over_repetitions(_less_impact, slow, than)
        statement = f"beyond the paper: error of the impact of a bursty newcomer by its signature, below that by {name}"
        yield own(at_least(statement, 0.5, less, 0.0, 0.0))


def _as_many_found(measured: Measured, x: str) -> Decision | None:
    """Whether as many changes of a pattern are found as of the first one, within repetitions."""
    apart = measured.paired((x, "signature", "found"), (FIRST, "signature", "found"), lambda its, first: its - first)
    return None if apart is None else apart.within(ALIKE)


def _as_accurate(measured: Measured, x: str, algorithm: str) -> Decision | None:
    """Whether the error of a projector is that with the first pattern, within repetitions."""
    more = measured.paired((x, algorithm, "error"), (FIRST, algorithm, "error"), lambda its, first: its / first - 1.0)
    return None if more is None else more.within(ACCURATE)


def _less_impact(measured: Measured, xs: Sequence[Coordinate], than: str) -> float | None:
    """Return the share by which the error of a newcomer's impact by its signature is below that by another reading."""
    ours, theirs = (
        mean_of_known(measured.mean(x, f"transient, {reading}", "impact error") for x in xs)
        for reading in ("signature", than)
    )
    return 1.0 - ours / theirs if ours is not None and theirs else None


def _c13_checks(measured: Measured, _: Setup) -> Iterator[Check]:
    labels = measured.xs("at high rate", PAPER)
    for algorithm, name in ((OWN, "M/M/1 (2.10)"), (PAPER, "M/M/1 with the component's maximum load (2.11)")):
        for prefix, window in (("", "the next window"), (SAME, "the window it was learnt from")):
            follows = {x: measured.estimate(x, algorithm, f"{prefix}follows") for x in labels}
            statement = f"bursts of {window} are followed by {name}: a correlation of at least 0.5"
            points = [(x, None if value is None else value.at_least(0.5)) for x, value in follows.items()]
            yield at_all(statement, "very closely", points, IN_SAMPLE if prefix else "")
    for rate, says in (("high", "no QoS violations"), ("low", "mostly above the actual delays")):
        for algorithm, equation in PROJECTORS:
            points = [(x, _at_least(measured, x, algorithm, f"at {rate} rate", 1.0 - CLOSE)) for x in labels]
            name = f"projected mean ({equation}) at the {rate} rate of the next window is not below the actual one"
            yield at_all(name, says, points)
    yield from _beyond(measured, labels)


_BARS: Final = (
    Panel("error", "mean relative error of a segment", "bars"),
    Panel("error of means", "relative error of the mean by rate", "bars"),
    Panel("optimistic", "share of segments at the high rate\nabove the projection", "bars"),
    Panel("impact error", "relative error of the impact\nof a bursty newcomer", "bars"),
    Panel("found", "share of changes found", "bars"),
)


def _curves(name: str) -> Panel:
    """Return the panel of the delays of one input, as an example."""
    return Panel(f"delay, {name}", f"delay, {name} (s)", "curves", xlabel="time (s)", example=True)


_C13: Final = Claim(
    id="C13",
    title="accuracy of QoS projection for recorded streams",
    source="dissertation 2.4.2, figures 2.22 and 2.23",
    says="over LBL-TCP-3 and over the redwood sensors, bursts of about a second every five minutes, projections follow "
    "the bursts very closely; those of low rate are mostly above the actual delays, which does no harm",
    parameters={
        "traces": files("packet traces, logs or tables; by default, available data sets and generated streams"),
        "load": number(
            "load of the tested component, share of its peer: on average; of sensors, in bursts", 0.25, least=0.01
        ),
        "beside": number("load of the two other components together, share of the peer", 0.2, least=0.01),
        **_SHARED,
        "tuples": whole("number of the first tuples of each input that are used", 20_000, 60_000, least=1000),
        "a_window": whole("mean tuples of a window", 2000, least=50),
    },
    cells=_c13_cells,
    checks=_c13_checks,
    panels=(*_BARS, *map(_curves, FIGURES)),
    xlabel="input",
    repeat=(3, 10),
    shares=("found", "*optimistic", "*conservative", "*above twice", "*overload"),
)

_C14: Final = Claim(
    id="C14",
    title="accuracy of QoS projection for synthetic streams",
    source="dissertation 2.4.2, figures 2.24-2.31",
    says="Poisson arrivals of 20/s are followed closely; of ON/OFF arrivals of different periods, rates and ratios all "
    "segments are found, those of high rate are never optimistic, those of low rate mostly conservative",
    parameters={
        "patterns": several("high/low rate in tuples/s, period", tuple(PATTERNS)),
        "load": number("load of the tested component at its high rate, share of its peer", 0.45, least=0.01),
        "beside": number("load of the two other components together, share of the peer", 0.3, least=0.01),
        **_SHARED,
        "window": number("seconds of a signature, whole periods", 10.0, least=5.0),
        "windows": whole("number of executed windows", 30, 120, least=FEWEST),
    },
    cells=_c14_cells,
    checks=_c14_checks,
    panels=(*_BARS, *map(_curves, PATTERNS)),
    xlabel="pattern",
    repeat=(3, 10),
    shares=("found", "*optimistic", "*conservative", "*above twice", "*overload"),
)

CLAIMED: Final = (_C13, _C14)
