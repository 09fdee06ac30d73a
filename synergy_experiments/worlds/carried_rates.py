"""Rates of the components of the top-k monitor, as tuples carry them downstream (dissertation, figures 1.1 and 3.2).

Packets go from the source to filter, project and aggregate one by one; at each slide of its window, the aggregate
emits one tuple for every pair in the window, all at once. So arrivals are *items* of one or more tuples. A hop takes
the same time for all items except for some jitter, and preserves their order. Each component measures its own input
rate whenever an item arrives. The item carries the rates that were measured upstream when it passed, or when the packet
passed that caused the results of the aggregate.

The dissertation does not define a rate, which determines all errors. Here it is a count over the last seconds, or the
fading mean that peers of this platform measure.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate, islice
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

__all__ = ["COMPONENTS", "Estimator", "Items", "Packets", "measured_rates", "monitored", "sampled"]

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

#: Components with an input, in downstream order.
COMPONENTS: Final = ("filter", "project", "aggregate", "sort", "count", "compare")


@dataclass(frozen=True)
class Estimator:
    """An estimator of a rate.

    Parameters
    ----------
    seconds
        Length of the sliding window, or time constant of the fading mean.
    fading
        Whether it is the platform's fading mean rather than a count.
    """

    seconds: float
    fading: bool = False

    def __str__(self) -> str:
        return f"fading mean of {self.seconds:g} s" if self.fading else f"count of {self.seconds:g} s"


@dataclass(frozen=True)
class Packets:
    """The packets for the monitor.

    Parameters
    ----------
    times
        Event times in seconds from the first, ascending.
    kept
        Whether each passes the filter.
    pairs
        Number of the pair of each packet.
    """

    times: Array
    kept: npt.NDArray[np.bool_]
    pairs: npt.NDArray[np.int64]

    @classmethod
    def of(cls, table: pl.DataFrame, pair: tuple[str, str], where: str) -> Packets:
        """Return the packets of a table with a ``time`` column, given the columns of a pair and an SQL condition."""
        found = table.select(
            seconds=(pl.col("time") - pl.col("time").min()).dt.total_microseconds() / 1e6,
            kept=pl.sql_expr(where).fill_null(value=False),
            pair=pl.struct(pair).rank("dense"),
        )
        return cls(
            found["seconds"].to_numpy(),
            found["kept"].to_numpy().astype(bool),
            found["pair"].to_numpy().astype(np.int64),
        )


@dataclass(frozen=True)
class Items:
    """Items that arrived at a component.

    Parameters
    ----------
    times
        Times of arrival, seconds, ascending.
    tuples
        Tuples of each item.
    rate
        Input rate that the component measured at each arrival, tuples/s.
    carried
        Ancestor to the rate that each item carries of it, tuples/s; nearest ancestor first.
    """

    times: Array
    tuples: Array
    rate: Array
    carried: Mapping[str, Array]

    def at(self, kept: Indices | npt.NDArray[np.bool_]) -> Items:
        """Return some of the items."""
        carried = {ancestor: rates[kept] for ancestor, rates in self.carried.items()}
        return Items(self.times[kept], self.tuples[kept], self.rate[kept], carried)


def measured_rates(times: Array, tuples: Array, estimator: Estimator) -> Array:
    """Return the rate at each arrival of an item, including that item, tuples/s."""
    if estimator.fading:
        return _fading(times, tuples, estimator.seconds)
    total = np.concatenate([[0.0], np.cumsum(tuples)])
    upto = np.searchsorted(times, times, side="right")
    since = np.searchsorted(times, times - estimator.seconds, side="right")
    return np.asarray((total[upto] - total[since]) / estimator.seconds)


def _fading(times: Array, tuples: Array, seconds: float) -> Array:
    """Return what :class:`~synergy_nb.dataflow.meters.Rate` gives at each arrival, in one pass over all of them."""
    left = list(map(math.exp, (-np.diff(times, prepend=times[:1]) / seconds).tolist()))  # of the value before
    added = (tuples / seconds).tolist()
    values = accumulate(zip(left, added, strict=True), lambda value, step: value * step[0] + step[1], initial=0.0)
    weights = [-math.expm1(each) for each in ((times[:1] - times) / seconds).tolist()]
    return np.array([
        value / weight if weight > 0.0 else 0.0 for value, weight in zip(islice(values, 1, None), weights, strict=True)
    ])  # fmt: skip


def monitored(
    packets: Packets,
    estimator: Estimator,
    window: float,
    slide: float,
    hop: tuple[float, float],
    rng: np.random.Generator,
) -> dict[str, Items]:
    """Return the items that arrive at each component of the monitor.

    Parameters
    ----------
    packets
        Packets that leave the source at their event times.
    estimator
        Estimator of rates.
    window, slide
        Length of the aggregate's window, and time from one result to the next, seconds.
    hop
        Time that each hop takes, and mean of the exponential jitter that is added for each item, seconds.
    rng
        Generator of the jitter.

    Returns
    -------
    dict of str to Items
        Component to all of its items; rates of the first window are too low.
    """
    delay, jitter = hop

    def arrived(times: Array) -> Array:
        return np.maximum.accumulate(times + delay + rng.exponential(jitter, len(times)))

    def items(times: Array, tuples: Array, carried: Mapping[str, Array]) -> Items:
        return Items(times, tuples, measured_rates(times, tuples, estimator), carried)

    def onward(name: str, given: Items, kept: Indices | npt.NDArray[np.bool_]) -> Items:
        """Return the output of a component as it arrives at the next one."""
        sent = given.at(kept)
        return items(arrived(sent.times), sent.tuples, {name: sent.rate, **sent.carried})

    everything = np.ones(len(packets.times), dtype=bool)
    at_source = items(packets.times, np.ones(len(packets.times)), {})
    found = {"filter": onward("source", at_source, everything)}
    found["project"] = onward("filter", found["filter"], packets.kept)
    found["aggregate"] = given = onward("project", found["project"], np.ones(int(packets.kept.sum()), dtype=bool))
    slides, results = _results(packets.times[packets.kept], packets.pairs[packets.kept], window, slide)
    trigger = np.searchsorted(packets.times[packets.kept], slides)  # the packet whose time ends the window
    of_windows = Items(given.times[trigger], results, given.rate[trigger], {
        ancestor: rates[trigger] for ancestor, rates in given.carried.items()
    })  # fmt: skip
    all_windows = np.ones(len(slides), dtype=bool)
    found["sort"] = onward("aggregate", of_windows, all_windows)
    found["count"] = onward("aggregate", of_windows, all_windows)
    by_sort = onward("sort", found["sort"], all_windows)
    both = np.maximum(by_sort.times, arrived(found["count"].times))  # it waits for the number of pairs
    carried = {"sort": by_sort.carried["sort"], "count": found["count"].rate, **found["sort"].carried}
    found["compare"] = items(both, results + 1.0, carried)
    return found


def _results(times: Array, pairs: npt.NDArray[np.int64], window: float, slide: float) -> tuple[Array, Array]:
    """Return the ends of windows with results, and the number of pairs with a packet in [end - window, end)."""
    order = np.lexsort((times, pairs))
    ordered, of = times[order], pairs[order]
    again = np.append(np.where(of[1:] == of[:-1], ordered[1:], np.inf), np.inf)  # the pair's next packet
    first = np.floor(ordered / slide).astype(np.int64) + 1  # numbers of the slides whose window contains the packet
    last = np.minimum(np.floor((ordered + window) / slide), np.floor(again / slide)).astype(np.int64)
    count = int(times[-1] // slide) if len(times) else 0  # a later window ends only with the stream
    change = np.zeros(count + 2)
    shown = (first <= last) & (first <= count)
    np.add.at(change, first[shown], 1.0)
    np.add.at(change, np.minimum(last[shown], count) + 1, -1.0)
    number = np.cumsum(change)[1 : count + 1]
    ends: Array = slide * np.arange(1, count + 1, dtype=np.float64)
    return ends[number > 0.0], number[number > 0.0]


def sampled(items: Items, tuples: float, seconds: float = 0.0) -> Indices:
    """Return the numbers of items such that at least ``tuples`` and ``seconds`` are between one and the next."""
    total = np.cumsum(items.tuples)
    after = np.maximum(np.searchsorted(total, total + tuples), np.searchsorted(items.times, items.times + seconds))
    following = np.maximum(after, np.arange(1, len(total) + 1)).tolist()
    found = [0] if len(total) else []
    while found and (ahead := following[found[-1]]) < len(total):
        found.append(ahead)
    return np.array(found, dtype=np.intp)
