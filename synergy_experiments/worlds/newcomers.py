"""Projected and actual impact of a bursty newcomer on a stream that runs (section 2.3.4), beyond claim C14.

Streams arrive at one peer, once with a newcomer and once without. At the end of every window, the delay that the
newcomer adds to the first stream is projected for the next window, segment by segment (equation 2.11), from one of
these descriptions of the newcomer's load:

=================  ===================================================================================
mean               its mean load, as if its stream were regular
maximum            its maximum load in every segment
signature          its signature, aligned in time with those of the running streams (figure 2.9)
signature, moved   the same, measured at another time: the segments are right, but they begin at random times
=================  ===================================================================================

Means over the newcomer's segments of high and of low rate are compared, as single differences are mostly random.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from synergy_experiments.framework.measurements import Point
from synergy_experiments.worlds.projected_delays import LEARNT, Stream, executed, learn
from synergy_nb.models.projectors import Traffic, sojourn_times
from synergy_nb.models.signatures import Pattern, Profiled, Segment, aggregate

__all__ = ["READINGS", "impact_of_newcomer", "moved"]

READINGS: Final = ("mean", "maximum", "signature", "signature, moved")
PROJECTORS: Final = ("mm1", "transient")

Array = npt.NDArray[np.float64]


def impact_of_newcomer(
    streams: Sequence[Stream],
    x: str,
    segment: float,
    window: float,
    windows: int,
    seed: int,
    false_alarm: float,
    prefix: str = "",
) -> Iterator[Point]:
    """Measure the projected over the actual impact of the last stream on the first, by projector and description.

    Parameters
    ----------
    streams
        Streams that arrive at the peer, the newcomer last.
    x
        Value of the points on the x axis of a figure.
    segment
        Length of the newcomer's alternating segments of high and of low rate, seconds.
    window, windows
        Length of a window, seconds, and number of windows.
    seed
        Seed of arrivals and processing times.
    false_alarm
        Mean number of tuples between two false alarms of the signatures.
    prefix
        Beginning of the names of the metrics.

    Yields
    ------
    Point
        ``impact at high rate`` and ``impact at low rate``, projected over actual; ``impact error``, the mean distance
        of these from 1. Segments for which a projector projects overload are left out.
    """
    seconds = window * windows
    births, delays = executed(streams, seconds, seed)
    births_before, delays_before = executed(streams[:-1], seconds, seed)
    since = (LEARNT + 1) * window
    actual = [
        _mean(births[0], delays[0], segment, since, half)
        - _mean(births_before[0], delays_before[0], segment, since, half)
        for half in (0, 1)
    ]
    signatures = [
        learn(born, each.tau, window, windows, false_alarm).segments for born, each in zip(births, streams, strict=True)
    ]
    rng = np.random.default_rng([seed, 14])
    for reading in READINGS:
        found: dict[str, list[Array]] = {projector: [] for projector in PROJECTORS}
        for number in range(LEARNT, windows - 1):
            known = [each[number] for each in signatures]
            lengths, before, after = _loads(streams, known, reading, (number + 1) * window, window, rng)
            middles = (np.arange(round(window / segment)) + 0.5) * segment
            at = np.minimum(np.searchsorted(np.cumsum(lengths), middles), len(lengths) - 1)
            for projector in PROJECTORS:
                found[projector].append(_added(projector, streams[0].tau, before, after, lengths)[at])
        for projector, values in found.items():
            rows = np.stack(values)
            ratios = []
            for half, rate in enumerate(("high", "low")):
                projected = rows[:, half::2]
                projected = projected[np.isfinite(projected)]
                if len(projected) and actual[half] > 0.0:
                    ratios.append(float(projected.mean()) / actual[half])
                    yield Point(x, f"{projector}, {reading}", f"{prefix}impact at {rate} rate", ratios[-1])
            if ratios:
                error = sum(abs(ratio - 1.0) for ratio in ratios) / len(ratios)
                yield Point(x, f"{projector}, {reading}", f"{prefix}impact error", error)


def _mean(births: Array, delays: Array, segment: float, since: float, half: int) -> float:
    """Return the mean delay of the tuples in the segments of high (0) or of low rate (1), from a time on."""
    rows = (births >= since) & (np.floor(births / segment + 1e-9).astype(np.int64) % 2 == half)
    return float(delays[rows].mean()) if rows.any() else math.nan


def _loads(
    streams: Sequence[Stream],
    signatures: Sequence[tuple[Segment, ...]],
    reading: str,
    end: float,
    window: float,
    rng: np.random.Generator,
) -> tuple[Array, Traffic, Traffic]:
    """Return the lengths of the segments, seconds, and the peer's load in each, without and with the newcomer."""
    *running, own = signatures
    if reading in ("mean", "maximum"):
        pieces = aggregate(running, end - window, window)
        loads = [*pieces.loads, np.full(len(pieces.lengths), getattr(Profiled.of(own), reading))]
    else:
        pattern = Pattern(tuple(each.length for each in own), tuple(each.load for each in own))
        if reading == "signature, moved":
            pattern = moved(pattern, float(rng.uniform(0.0, pattern.length)))
        pieces = aggregate([*running, pattern.until(end, window)], end - window, window)
        loads = list(pieces.loads)
    parts = [Traffic.of(load, each.tau) for load, each in zip(loads, streams, strict=True)]
    return pieces.lengths, Traffic.together(parts[:-1]), Traffic.together(parts)


def _added(projector: str, tau: float, before: Traffic, after: Traffic, lengths: Array) -> Array:
    """Return δ of a component in each segment, seconds; infinite if the peer is overloaded."""
    was, will = sojourn_times(projector, before, lengths), sojourn_times(projector, after, lengths)
    with np.errstate(invalid="ignore"):
        more = np.add(np.subtract(will.stretch, was.stretch) * tau, np.subtract(will.waiting, was.waiting))
    return np.where(np.isfinite(more), more, math.inf) * np.ones(lengths.shape)


def moved(pattern: Pattern, by: float) -> Pattern:
    """Return the same pattern, as if its measurement had begun ``by`` seconds later.

    >>> moved(Pattern((2.0, 8.0), (0.8, 0.05)), 3.0)
    Pattern(seconds=(7.0, 2.0, 1.0), loads=(0.05, 0.8, 0.05))
    """
    ahead: list[tuple[float, float]] = []
    behind: list[tuple[float, float]] = []
    for seconds, load in zip(pattern.seconds, pattern.loads, strict=True):
        passed = min(max(by, 0.0), seconds)
        by -= seconds
        if passed < seconds:
            ahead.append((seconds - passed, load))
        if passed > 0.0:
            behind.append((passed, load))
    lengths, loads = zip(*ahead, *behind, strict=True)
    return Pattern(lengths, loads)
