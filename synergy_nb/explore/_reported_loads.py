"""Explorer of load levels: when a peer reports its load (dissertation, section 3.4.3)."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from synergy_nb.drawing.plane import Axis, Plane
from synergy_nb.explore._explorer import Drawn, Explorer, Range
from synergy_nb.models.overlapping_levels import OverlappingLevels

SEVERE_OVERLOAD: Final = 1.0  # load from which on a peer is overloaded, as a share of its capacity
MEASUREMENTS: Final = 240  # number of measured loads
EQUATION: Final = (
    "The loads up to a severe overload are divided into levels of equal width w. A peer reports its load only when it "
    "leaves the level of its last report. Neighbours overlap: a level reaches "
    "<span class='formula'>overlap · w / 2</span> beyond its boundaries, so that a load that goes to and fro between "
    "two levels is not reported each time (section 3.4.3)."
)


class ReportedLoad(NamedTuple):
    """Measured loads of a peer, and which of them it reports."""

    loads: npt.NDArray[np.float64]  # measured loads, shares of the capacity
    reports: npt.NDArray[np.bool_]
    known: npt.NDArray[np.float64]  # load that other peers know at each time, which is that of the last report
    levels: tuple[tuple[float, float], ...]  # lower and upper bound of each level without its overlap
    # lower and upper bound of the loads that belong to each two neighbouring levels
    overlaps: tuple[tuple[float, float], ...]


def report_loads(loads: npt.ArrayLike, levels: int = 5, overlap: float = 0.2) -> ReportedLoad:
    """Find which loads a peer reports.

    ``loads``: measured loads in the order of time, shares of the capacity, from 0; ``levels``: number of levels; the
    last one is the overload; ``overlap``: overlap of two levels as a share of their width, 0 to 1.

    Raises ``ValueError`` if an argument is wrong.

    Examples
    --------
    >>> report_loads([0.48, 0.52, 0.49, 0.56], levels=3).reports.tolist()
    [True, False, False, True]
    """
    series = np.asarray(loads, dtype=np.float64)
    if series.ndim != 1 or not len(series):
        raise ValueError(f"loads: an array of shape {series.shape}; expected loads in their order, at least one")
    rule = OverlappingLevels(levels, overlap=overlap, severe=SEVERE_OVERLOAD)
    reports = np.zeros(len(series), dtype=np.bool_)
    known = np.zeros(len(series))
    for number, load in enumerate(series.tolist()):
        reports[number] = rule.leaves(load)
        known[number] = rule.reported
    bounds = [rule.bounds(level) for level in range(levels)]
    common = tuple((above[0], below[1]) for below, above in pairwise(bounds))
    return ReportedLoad(series, reports, known, tuple(rule.boundaries(level) for level in range(levels)), common)


@lru_cache(maxsize=32)
def random_loads(swing: float, seed: int = 3) -> tuple[float, ...]:
    """Random loads around 50 % of the capacity; ``swing`` is the standard deviation of a change, a share of it."""
    rng = np.random.default_rng(seed)
    load, found = 0.5, []
    for step in rng.normal(0.0, swing, MEASUREMENTS):
        load = min(max(load + 0.06 * (0.5 - load) + float(step), 0.0), 1.3)
        found.append(load)
    return tuple(found)


def draw_reports(levels: int, overlap: float, swing: float) -> Drawn:
    """Draw the loads of a peer with the levels; ``overlap`` and ``swing`` in per cent."""
    found = report_loads(random_loads(swing / 100.0), levels, overlap / 100.0)
    plane = Plane(
        Axis("measurement", 0.0, float(MEASUREMENTS)),
        Axis("load", 0.0, max(1.1, float(found.loads.max()) + 0.05), text=lambda value: f"{100.0 * value:.0f} %"),
        right=90.0,
    )
    for number, ((low, _), (within, beyond)) in enumerate(zip(found.levels[1:], found.overlaps, strict=True), start=1):
        plane.line(
            [(0.0, low), (MEASUREMENTS, low)], "soft", dashed=True, tip=f"from {100.0 * low:.0f} % on: level {number}"
        )
        if within < beyond:
            band = [(0.0, within), (MEASUREMENTS, within), (MEASUREMENTS, beyond), (0.0, beyond)]
            plane.area(band, "c3", tip="where two levels overlap")
    times = range(MEASUREMENTS)
    plane.line([(float(at), float(found.loads[at])) for at in times], "c0", name="measured")
    steps = [(float(at) + more, float(found.known[at])) for at in times for more in (0.0, 0.999)]
    plane.line(steps, "c1", name="known")
    sent = [(float(at), float(found.loads[at])) for at in np.flatnonzero(found.reports)]
    plane.dots(sent, "c1", tips=[f"reported: {100.0 * load:.0f} %" for _, load in sent], radius=3.6)
    count = int(found.reports.sum())
    error = np.abs(found.loads - found.known)
    numbers = (
        ("reports", f"{count} of {MEASUREMENTS}"),
        ("mean error", f"{100.0 * float(error.mean()):.1f} %"),
        ("greatest error", f"{100.0 * float(error.max()):.1f} %"),
    )
    one_in = f"One measurement in {MEASUREMENTS / count:.1f} is reported"
    sentence = f"{one_in}; the load that others know is wrong by {100.0 * error.mean():.1f} % on average."
    return Drawn(plane.to_svg("Load of a peer, its levels and reports"), numbers, sentence)


def explorer() -> Explorer:
    """Explore how many reports load levels save, and how wrong the known load is (dissertation, section 3.4.3).

    Examples
    --------
    >>> few, many = explorer().set(levels=2), explorer().set(levels=21)
    >>> int(dict(few.numbers)["reports"].split()[0]) < int(dict(many.numbers)["reports"].split()[0])
    True
    """
    controls = (
        Range("levels", "levels", 2, 21),
        Range("overlap", "overlap", 0, 100, 5, " %"),
        Range("swing", "change a step", 1, 15, 1, " %"),
    )

    return Explorer("Levels of load", EQUATION, controls, {"levels": 5, "overlap": 20, "swing": 5}, draw_reports)
