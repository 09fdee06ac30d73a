"""Measured profiles of operators, in the directory: what a plan does not say of its operators, earlier runs may."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from synergy_nb.overlay.published_streams import KEPT
from synergy_nb.plan.spark_parts import PART

__all__ = ["Profiles"]

CHANGE: Final = 0.25  # relative, that is worth telling
SETTLED: Final = 5  # measurements in a row before the first is told, so that a start is not taken for the rule
ELSEWHERE: Final = ("source", PART)  # kinds that take no time of this peer's threads: only their rate is known


class Profiles:
    """Tells what a peer measures of its operators, by the names of their streams.

    Parameters
    ----------
    tell
        Called with a name and its ``rate`` (tuples/s of the stream), ``cost`` (seconds of one core for a tuple that
        comes in) and ``selectivity`` (tuples out over tuples in), when one of them has changed by a quarter: see
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

    def __init__(self, tell: Callable[[str, Mapping[str, float]], None], forget: Callable[[str], None]) -> None:
        self._tell = tell
        self._forget = forget
        self._told: OrderedDict[str, dict[str, float]] = OrderedDict()
        self._seen: dict[str, int] = {}  # measurements in a row, of the streams of the last one

    def note(self, components: Iterable[Mapping[str, Any]]) -> None:
        """Take what was measured of the components that are at work, as of ``Component.stats``."""
        busiest: dict[str, dict[str, float]] = {}
        for stats in components:
            measured = _measured(stats)
            if measured and measured["rate"] > busiest.get(stats["stream"], {}).get("rate", 0.0):
                busiest[stats["stream"]] = measured
        self._seen = {name: self._seen.get(name, 0) + 1 for name in busiest}
        for name, measured in busiest.items():
            if self._seen[name] < SETTLED or not _changed(self._told.get(name, {}), measured):
                continue
            self._told[name] = measured
            self._told.move_to_end(name)
            self._tell(name, measured)
        while len(self._told) > KEPT:
            self._forget(self._told.popitem(last=False)[0])


def _measured(stats: Mapping[str, Any]) -> dict[str, float]:
    """What there is to tell of one component; nothing if its stream is another operator's."""
    if stats["kind"] == "sink":
        return {}
    measured: dict[str, float] = {"rate": stats["output_rate"]}
    if stats["kind"] not in ELSEWHERE:
        measured.update({field: stats[field] for field in ("cost", "selectivity") if stats[field]})
    return measured


def _changed(told: Mapping[str, float], measured: Mapping[str, float]) -> bool:
    """Whether something is new, or differs by more than a quarter of what was told."""
    return any(
        field not in told or abs(value - told[field]) > CHANGE * told[field] for field, value in measured.items()
    )
