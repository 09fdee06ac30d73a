"""Measured profiles of operators, in the directory: what a plan does not say of its operators, earlier runs may.

Of a stream whose rate goes up and down, its signature is told with the rate, so that the impact of a plan that asks for
it can be projected by its bursts (section 2.3.4). Sent once it has changed, a signature is of the seconds before; it
has no place in time any more, as the stream of the next plan may begin at any.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from synergy_nb.models.signatures import WINDOW, Profiled, Segment
from synergy_nb.overlay.published_streams import RETAINED_PROFILES
from synergy_nb.plan.spark_parts import PART
from synergy_nb.plan.stream_signatures import Rates, mean_rate, read, shortened, write

__all__ = ["Profiles"]

CHANGE: Final = 0.25  # relative, that is worth telling
SETTLED: Final = 5  # measurements in a row before the first is told, so that a start is not taken for the rule
Profile: TypeAlias = dict[str, float | str]

ELSEWHERE: Final = ("source", PART)  # kinds that take no time of this peer's threads: only their rate is known


class Profiles:
    """Tells what a peer measures of its operators, by the names of their streams.

    Parameters
    ----------
    tell
        Called with a name and its ``rate`` (tuples/s of the stream), ``cost`` (seconds of one core for a tuple that
        comes in), ``selectivity`` (tuples out over tuples in) and ``signature`` (rates by turns, as text), when one of
        them has changed by a quarter, of a signature its highest rate over its mean: see
        :meth:`PublishedStreams.profile <synergy_nb.overlay.published_streams.PublishedStreams.profile>`.
    forget
        Called with a name that has not been told for longest, when there are too many.

    Notes
    -----
    Of several components of one name at the peer, the one that gives most counts.

    Examples
    --------
    >>> told = []
    >>> profiles = Profiles(lambda name, measured: told.append((name, measured["rate"])), told.append)
    >>> for rate in [10.0, 90.0, 100.0, 100.0, 100.0, 110.0, 130.0]:
    ...     profiles.note([{"kind": "source", "stream": "packets", "output_rate": rate}])
    >>> told
    [('packets', 100.0), ('packets', 130.0)]
    """

    def __init__(self, tell: Callable[[str, Mapping[str, float | str]], None], forget: Callable[[str], None]) -> None:
        self._tell = tell
        self._forget = forget
        self._told: OrderedDict[str, Profile] = OrderedDict()
        self._seen: dict[str, int] = {}  # measurements in a row, of the streams of the last one

    def note(
        self,
        components: Iterable[Mapping[str, Any]],
        signatures: Mapping[tuple[str, str], Sequence[Segment]] = MappingProxyType({}),
    ) -> None:
        """Take what was measured of the components that are at work.

        Parameters
        ----------
        components
            Measurements of each component, as of ``Component.stats``.
        signatures
            Segments of the streams that components make, by application and operator.
        """
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
            if self._seen[name] < SETTLED or not _changed(self._told.get(name, {}), measured):
                continue
            self._told[name] = measured
            self._told.move_to_end(name)
            self._tell(name, measured)
        while len(self._told) > RETAINED_PROFILES:
            self._forget(self._told.popitem(last=False)[0])


def _measured(stats: Mapping[str, Any]) -> Profile:
    """What there is to tell of one component; nothing of another's stream, or of what dropping has left of one."""
    if stats["kind"] == "sink" or stats.get("thinned"):
        return {}
    measured: Profile = {"rate": stats["output_rate"]}
    if stats["kind"] not in ELSEWHERE:
        measured.update({field: stats[field] for field in ("cost", "selectivity") if stats[field]})
    return measured


def _signature(segments: Sequence[Segment]) -> str:
    """The signature of a stream as text; empty where its rate is as good as constant.

    Few tuples of a stream of constant rate may seem a segment of its own, so a rate counts as the highest only if more
    than some tuples have come at it.
    """
    since = segments[-1].end - WINDOW if segments else 0.0  # the first segment may have begun long before
    recent = [(min(each.length, each.end - since), each.rate) for each in segments if each.end > since]
    if len(recent) < 2 or not any(rate for _, rate in recent):
        return ""
    rates = Profiled.of([Segment(0.0, seconds, rate) for seconds, rate in recent])
    if rates.maximum <= (1.0 + CHANGE) * rates.mean:
        return ""
    return write(shortened(recent))


def _changed(told: Profile, measured: Profile) -> bool:
    """Whether something is new, or differs by more than a quarter of what was told."""
    if not told:
        return True
    before, now = _numbers(told), _numbers(measured)
    return any(
        field not in before or abs(value - before[field]) > CHANGE * before[field] for field, value in now.items()
    )


def _numbers(profile: Profile) -> dict[str, float]:
    """A profile with the highest rate of its signature over the mean one in place of the signature."""
    rates: Rates = read(profile.get("signature", ""))
    peak = max(rate for _, rate in rates) / mean_rate(rates) if rates else 1.0
    return {**{field: value for field, value in profile.items() if isinstance(value, float)}, "signature": peak}
