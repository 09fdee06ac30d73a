"""Measured profiles of operators for the directory: earlier runs supply what a plan does not state.

For a stream with a varying rate, its signature is published with the rate, so that the impact of a plan that requests
it can be projected by its bursts (section 2.3.4). A signature describes the seconds before it was sent; its absolute
times are dropped, as the stream of the next plan may start at any time.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from synergy_nb.models.signatures import WINDOW, Profiled, Segment
from synergy_nb.overlay.published_streams import RETAINED_PROFILES
from synergy_nb.plan.derived.spark_parts import PART
from synergy_nb.plan.derived.stream_signatures import Rates, mean_rate, read, shortened, write

CHANGE: Final = 0.25  # relative change of a value from which on it is published anew
CHANCE: Final = 3.0  # standard deviations of a rate from which on a change of it is hardly one of counting alone
AVERAGED_S: Final = 5.0  # seconds over which components average their rates, with exponentially decreasing weights
STABLE_AFTER: Final = 5  # successive measurements before the first is published, as a start is not typical
Profile: TypeAlias = dict[str, float | str]

ELSEWHERE: Final = ("source", PART)  # kinds that run on no thread of this peer: only their rate is known


class Profiles:
    """Publishes a peer's measurements of its operators, by the names of their streams.

    Notes
    -----
    Of several components of one name at the peer, the one with the highest output rate counts.

    Examples
    --------
    >>> published = []
    >>> profiles = Profiles(lambda name, measured: published.append((name, measured["rate"])), published.append)
    >>> for rate in [10.0, 90.0, 100.0, 100.0, 100.0, 110.0, 130.0]:
    ...     profiles.update([{"kind": "source", "stream": "packets", "output_rate": rate}])
    >>> published
    [('packets', 100.0), ('packets', 130.0)]
    """

    def __init__(
        self, publish: Callable[[str, Mapping[str, float | str]], None], forget: Callable[[str], None]
    ) -> None:
        # callback with a name and its `rate` (tuples/s of the stream), `cost` (seconds of one core for an input tuple),
        # `selectivity` (tuples out over tuples in) and `signature` (text with alternating rates), when one of them has
        # changed by a quarter (a rate also by more than it varies by chance, in a signature the ratio of its highest
        # rate to its mean): see `PublishedStreams.profile`
        self._publish = publish
        self._forget = forget  # callback with the name published least recently, when there are too many
        self._published: OrderedDict[str, dict[str, float]] = OrderedDict()  # numbers of each, by name
        self._seen: dict[str, int] = {}  # successive measurements, of the streams of the last one

    def update(
        self,
        components: Iterable[Mapping[str, Any]],  # measurements of each component, as `Component.stats` returns them
        # application and operator to the segments of the stream that a component makes
        signatures: Mapping[tuple[str, str], Sequence[Segment]] = MappingProxyType({}),
    ) -> None:
        """Publish the changed measurements of the executing components."""
        rates: dict[str, float] = {}
        busiest: dict[str, Profile] = {}
        for stats in components:
            measured = _measured(stats)
            if measured and stats["output_rate"] > rates.get(stats["stream"], 0.0):
                rates[stats["stream"]] = stats["output_rate"]
                signature = _signature(signatures.get((stats.get("application", ""), stats.get("operator", "")), ()))
                busiest[stats["stream"]] = {**measured, "signature": signature} if signature else measured
        self._seen = {name: self._seen.get(name, 0) + 1 for name in busiest}
        for name, measured in busiest.items():
            if self._seen[name] < STABLE_AFTER:
                continue
            numbers = _numbers(measured)
            if not _changed(self._published.get(name), numbers):
                continue
            self._published[name] = numbers
            self._published.move_to_end(name)
            self._publish(name, measured)
        while len(self._published) > RETAINED_PROFILES:
            self._forget(self._published.popitem(last=False)[0])


def _measured(stats: Mapping[str, Any]) -> Profile:
    """Return the profile of one component; empty for a sink, or for a stream that dropping has changed."""
    if stats["kind"] == "sink" or stats.get("thinned"):
        return {}
    measured: Profile = {"rate": stats["output_rate"]}
    if stats["kind"] not in ELSEWHERE:
        measured.update({field: stats[field] for field in ("cost", "selectivity") if stats[field]})
    return measured


def _signature(segments: Sequence[Segment]) -> str:
    """Return the signature of a stream as text; empty if its rate is almost constant.

    A few tuples of a stream of constant rate may look like a segment, so a rate counts as the highest only if more
    than a few tuples have arrived at it.
    """
    since = segments[-1].end - WINDOW if segments else 0.0  # the first segment may have begun long before
    recent = [(min(each.length, each.end - since), each.rate) for each in segments if each.end > since]
    if len(recent) < 2 or not any(rate for _, rate in recent):
        return ""
    rates = Profiled.of([Segment(0.0, seconds, rate) for seconds, rate in recent])
    if rates.maximum <= (1.0 + CHANGE) * rates.mean:
        return ""
    return write(shortened(recent))


def _changed(before: Mapping[str, float] | None, now: Mapping[str, float]) -> bool:
    """Whether a value is new, or differs by more than a quarter from the published one, and not by chance."""
    return before is None or any(
        field not in before or abs(value - before[field]) > _tolerance(field, before[field])
        for field, value in now.items()
    )


def _tolerance(field: str, value: float) -> float:
    """Return the difference up to which another value of a field counts as the same.

    Of a Poisson stream the variance of such an average is its rate over twice the time constant.
    """
    by_chance = CHANCE * math.sqrt(value / (2.0 * AVERAGED_S)) if field == "rate" else 0.0
    return max(CHANGE * value, by_chance)


def _numbers(profile: Profile) -> dict[str, float]:
    """Return a profile with the ratio of its highest rate to the mean instead of the signature."""
    rates: Rates = read(profile.get("signature", ""))
    peak = max(rate for _, rate in rates) / mean_rate(rates) if rates else 1.0
    return {**{field: value for field, value in profile.items() if isinstance(value, float)}, "signature": peak}
