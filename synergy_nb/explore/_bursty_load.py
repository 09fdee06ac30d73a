"""Explorer of bursts: execution times in a simulated queue, and as admission projects them (section 2.3.4)."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from synergy_nb.drawing.plane import Axis, Plane
from synergy_nb.explore._explorer import Drawn, Explorer, Range
from synergy_nb.models.projectors import Traffic, execution
from synergy_nb.models.queueing import execution_time
from synergy_nb.models.signatures import Pattern
from synergy_nb.reporting.formatting import seconds

Array = npt.NDArray[np.float64]

PERIOD_PARTS: Final = 60  # number of parts of a period, in each of which times are averaged
SAMPLED_TUPLES: Final = 60_000  # approximate number of simulated tuples
BURST_SHARE: Final = 0.25  # length of a burst as a share of the period
EQUATION: Final = (
    "At a peer of load p, a component with processing time τ takes "
    "<span class='formula'>x = τ / (1 − p)</span> (M/M/1, equation 2.6). Admission projects the time with the new load "
    "and admits if <span class='formula'>t̂ + δ ≤ q<sub>t</sub></span> (2.9). The mean load hides a burst. A signature "
    "Ω has the load of each segment, and the projection covers each of them (figure 2.9). <i>transient</i> also counts "
    "the time that a queue takes to fill."
)


class Bursts(NamedTuple):
    """One period of bursty load."""

    pattern: Pattern  # signature of the load: lengths (seconds) and loads of the burst and of the rest
    times: Array  # middle of each part of the period, seconds
    # mean execution time of the tuples that arrive in each part, in a simulated queue, seconds; NaN without tuples
    measured: Array
    by_mean: float  # execution time by M/M/1 at the mean load, seconds
    # by_signature, transient: execution time of each segment, by M/M/1 and by the projector *transient*, seconds
    by_signature: Array
    transient: Array


def bursts(load: float = 0.5, factor: float = 1.8, period: float = 8.0, tau: float = 0.02, *, seed: int = 1) -> Bursts:
    """Project the execution time of a component whose load comes in bursts, and measure it in a simulated queue.

    Parameters
    ----------
    load
        Mean load p of the peer, at least 0.01.
    factor
        Rate in a burst as a multiple of the mean rate, 1 to 4; a burst is a quarter of the period.
    period
        Time from burst to burst, seconds.
    tau
        Mean of the exponential processing time τ, seconds.
    seed
        Seed of the simulated queue.

    Raises
    ------
    ValueError
        If a value is out of range.

    Examples
    --------
    >>> found = bursts(load=0.5, factor=1.6)
    >>> found.pattern.loads, found.by_mean, found.by_signature.round(3).tolist()
    ((0.8, 0.4), 0.04, [0.1, 0.033])
    """
    for name, value, least, most in (("load", load, 0.01, 4.0), ("factor", factor, 1.0, 1.0 / BURST_SHARE),
                                     ("period", period, 0.1, 3600.0), ("tau", tau, 1e-5, 10.0)):  # fmt: skip
        if not least <= value <= most:
            raise ValueError(f"{name}: {value!r}; expected a number from {least:g} to {most:g}")
    return _bursts(float(load), float(factor), float(period), float(tau), seed)


@lru_cache(maxsize=64)
def _bursts(load: float, factor: float, period: float, tau: float, seed: int) -> Bursts:
    """Compute what :func:`bursts` returns, for arguments that were checked."""
    rest = (1.0 - BURST_SHARE * factor) / (1.0 - BURST_SHARE)
    pattern = Pattern.of([(BURST_SHARE * period, factor), ((1.0 - BURST_SHARE) * period, rest)], load)
    pattern = Pattern(pattern.seconds, tuple(round(each, 12) for each in pattern.loads))
    loads, lengths = np.array(pattern.loads), np.array(pattern.seconds)
    times = (np.arange(PERIOD_PARTS) + 0.5) * period / PERIOD_PARTS
    traffic = Traffic.of(loads, tau)
    return Bursts(
        pattern,
        times,
        _sampled_execution_times(pattern, tau, np.random.default_rng(seed)),
        execution_time(tau, load),
        np.asarray(execution("mm1", tau, traffic)),
        np.asarray(execution("transient", tau, traffic, lengths)),
    )


def _sampled_execution_times(pattern: Pattern, tau: float, rng: np.random.Generator) -> Array:
    """Mean execution time of tuples in a first-come-first-served queue, by the part of the period in which they arrive.

    It simulates a queue with Poisson arrivals and exponential processing times.
    """
    work = sum(length * load for length, load in zip(pattern.seconds, pattern.loads, strict=True))
    periods = max(math.ceil(SAMPLED_TUPLES * tau / work), 2)
    arrivals = []
    begin = 0.0
    for length, load in zip(pattern.seconds, pattern.loads, strict=True):
        counts = rng.poisson(load / tau * length, periods)
        whole = np.repeat(np.arange(periods), counts) * pattern.length
        arrivals.append(whole + begin + rng.random(len(whole)) * length)
        begin += length
    at = np.sort(np.concatenate(arrivals))
    service = rng.exponential(tau, len(at))
    done = np.cumsum(service)
    ends = done + np.maximum.accumulate(
        at - done + service
    )  # a tuple begins when it arrives, or when the one before ends
    part = np.minimum((at % pattern.length / pattern.length * PERIOD_PARTS).astype(np.int64), PERIOD_PARTS - 1)
    counts = np.bincount(part, minlength=PERIOD_PARTS)
    sums = np.bincount(part, weights=ends - at, minlength=PERIOD_PARTS)
    means: Array = np.divide(sums, counts, out=np.full(PERIOD_PARTS, np.nan), where=counts > 0)
    return means


def draw_bursts(load: float, factor: float, period: float, tau: float, limit: float) -> Drawn:
    """Draw one period; ``load`` in per cent, ``period`` in seconds, ``tau`` and ``limit`` in milliseconds."""
    found = bursts(load / 100.0, factor, period, tau / 1e3)
    high = limit / 1e3
    finite = [value for value in (*found.measured, *found.by_signature, *found.transient, found.by_mean, high)
              if math.isfinite(value)]  # fmt: skip
    plane = Plane(
        Axis("seconds since the burst began", 0.0, period, text="{:g}".format),
        Axis("execution time", min(finite) / 1.6, 2.0 * max(finite), log=True, text=seconds),
        right=120.0,
    )
    busy = found.pattern.seconds[0]
    low = plane.y.low
    plane.area([(0.0, low), (0.0, plane.y.high), (busy, plane.y.high), (busy, low)], "soft", tip="burst")
    plane.line([(0.0, high), (period, high)], "bad", name="limit", dashed=True)

    def steps(values: Array) -> list[tuple[float, float]]:
        shown = [value if math.isfinite(value) else plane.y.high for value in values]
        return [(0.0, shown[0]), (busy, shown[0]), (busy, shown[1]), (period, shown[1])]

    plane.line(list(zip(found.times.tolist(), found.measured.tolist(), strict=True)), "c0", name="measured")
    mean = found.by_mean if math.isfinite(found.by_mean) else plane.y.high
    plane.line([(0.0, mean), (period, mean)], "c4", name="by the mean")
    plane.line(steps(found.by_signature), "c1", name="by signature")
    plane.line(steps(found.transient), "c3", name="transient")
    worst = float(np.nanmax(found.measured))
    by = {
        "mean": found.by_mean,
        "signature": float(found.by_signature.max()),
        "transient": float(found.transient.max()),
    }
    numbers = (
        ("load in a burst", f"{100.0 * found.pattern.loads[0]:.0f} %"),
        ("measured, worst", seconds(worst)),
        *((f"projected, {name}", seconds(value) if math.isfinite(value) else "overload") for name, value in by.items()),
    )
    admits = [name for name, value in by.items() if value <= high]
    truth = "would keep" if worst <= high else "would break"
    who = f"{' and '.join(admits)} {'admits' if len(admits) == 1 else 'admit'}" if admits else "none admits"
    return Drawn(
        plane.to_svg("Execution time during one period"),
        numbers,
        f"Of the three, {who} the component; it {truth} its limit.",
    )


def explorer() -> Explorer:
    """Explore how bursts fill a queue, and which projections of admission expect that (section 2.3.4).

    Examples
    --------
    >>> shown = explorer().set(load=50, factor=1.0)
    >>> dict(shown.numbers)["projected, mean"]
    '40 ms'
    """
    controls = (
        Range("load", "mean load p", 5, 95, 5, " %"),
        Range("factor", "rate in a burst", 1.0, 4.0, 0.1, " × mean"),
        Range("period", "period", 1, 60, 1, " s"),
        Range("tau", "processing time τ", 1, 50, 1, " ms"),
        Range("limit", "limit", 10, 1000, 10, " ms"),
    )

    values = {"load": 50, "factor": 1.8, "period": 8, "tau": 20, "limit": 100}
    return Explorer("Bursts against projections", EQUATION, controls, values, draw_bursts)
