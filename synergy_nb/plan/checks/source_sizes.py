"""How many tuples a source can give in some time: by what its plan states, and by what is known of its file or table.

Every estimate begins here: those of memory (:mod:`.memory_estimates`), and with them the choice of engines and the
admission of plans, and rates, loads and bandwidths (:mod:`.operator_flows`). What the author of a plan states comes
first, then what is known (:class:`SourceSize`); a default is used where neither says anything, and it is marked as such
(:class:`Basis`), since nothing should be refused, and no server started, because of a number that nobody has given.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from synergy_nb.plan.checks.trace_facts import TraceFacts, peak_of
from synergy_nb.plan.operators.sources import DEFAULT_RATE, GENERATED, pace_of, rate_of, share_of

__all__ = ["Amount", "Basis", "SourceSize", "duration_of", "rate_basis", "rate_with", "tuples_within"]


class SourceSize(msgspec.Struct, frozen=True, array_like=True):
    """What is known of the rows of a source: of a file, from its beginning, middle and end; of a table, from itself.

    Without any value it says that somebody has looked, and that nothing is known.
    """

    rows: float | None = None  # number of rows
    seconds: float | None = None  # event time from the first row to the last, seconds
    exact: bool = False  # whether the rows were counted, and not estimated from the size of the file
    widths: dict[str, float] = {}  # column to the mean bytes of its values, for columns of text and bytes
    # column to the number of different values that it seems to have, at most one for each row
    distinct: dict[str, float] = {}
    facts: TraceFacts | None = None  # what its profile says; None: it has none

    def is_valid(self) -> bool:
        """Whether all numbers are finite and none is negative."""
        numbers = [each for each in (self.rows, self.seconds) if each is not None]
        numbers += [*self.widths.values(), *self.distinct.values()]
        return all(0.0 <= each < math.inf for each in numbers) and (self.facts is None or self.facts.is_valid())


class Basis(enum.IntEnum):
    """What an estimate rests on: ``ASSUMED``, a default rate; ``GUESSED``, also a default share; ``KNOWN``, facts."""

    ASSUMED = 0
    GUESSED = 1
    KNOWN = 2


class Amount(NamedTuple):
    """Estimated number of tuples."""

    tuples: float  # number of tuples; infinite for a stream without end, in a time without end
    basis: Basis  # ground of the number: a default, or facts
    whole: bool = False  # whether these are all tuples of the sources, which have no more


_UNSEEN: Final = SourceSize()


def rate_with(params: Mapping[str, Any], size: SourceSize | None) -> float:
    """Expected rate of a source, tuples/s; of a replay at a speed it follows from the rows, unless it is stated.

    >>> replay = {"connector": "trace", "speed": 60.0}
    >>> rate_with(replay, SourceSize(7200.0, 3600.0)), rate_with({**replay, "rate": 7.0}, SourceSize(7200.0, 3600.0))
    (120.0, 7.0)
    """
    pace = pace_of(params)
    if pace and size is not None and size.rows and size.seconds and _stated_rate(params) is None:
        return size.rows / size.seconds * pace
    if pace and size is not None and size.facts is not None and _stated_rate(params) is None:
        return size.facts.rate * pace
    return rate_of(params)


def rate_basis(params: Mapping[str, Any], size: SourceSize | None) -> str:
    """Origin of what :func:`rate_with` returns: ``stated``, ``rows``, ``profile`` or ``assumed``."""
    if _stated_rate(params) is not None or params.get("connector") in GENERATED:
        return "stated"
    pace = pace_of(params)
    if pace and size is not None and size.rows and size.seconds:
        return "rows"
    return "profile" if pace and size is not None and size.facts is not None else "assumed"


def duration_of(params: Mapping[str, Any], size: SourceSize | None) -> float:
    """Event time from the first tuple of a source to the last, seconds; infinite where it is unknown."""
    if params.get("connector") in GENERATED:
        count, rate = params.get("count"), params["rate"]
        return min(float(params.get("duration") or math.inf), count / rate if count and rate else math.inf)
    return math.inf if size is None or size.seconds is None else size.seconds


def tuples_within(params: Mapping[str, Any], size: SourceSize | None, seconds: float, busy: float = 0.0) -> Amount:
    """Estimate how many tuples a source gives within ``seconds`` of event time.

    ``params``: parameters of the source; ``size``: known size of the source; None: nobody has looked; ``seconds``:
    event time, seconds; infinite for all tuples; ``busy``: length of the period whose rate counts where a profile knows
    the rates of busy ones, seconds of event time; 0: the mean rate counts.

    Examples
    --------
    >>> small = {"connector": "trace", "path": "small.csv"}
    >>> tuples_within(small, SourceSize(100.0, 360_000.0, True), 86_400.0).tuples
    24.0
    >>> tuples_within(small, SourceSize(100.0, None, True), 86_400.0)
    Amount(tuples=100.0, basis=<Basis.KNOWN: 2>, whole=True)
    >>> tuples_within(small, SourceSize(), 60.0)
    Amount(tuples=60000.0, basis=<Basis.ASSUMED: 0>, whole=False)
    """
    density, basis = _density(params, size)
    peak = peak_of(size.facts, busy) if size is not None and busy else 1.0
    tuples, total = density * min(seconds, duration_of(params, size)) * peak, _total(params, size)
    if total > tuples:
        return Amount(tuples, basis)
    known = params.get("connector") in GENERATED or (size is not None and size.exact)
    return Amount(total, Basis.KNOWN if known else Basis.GUESSED, whole=total < math.inf)


def _total(params: Mapping[str, Any], size: SourceSize | None) -> float:
    """Number of all tuples of a source; infinite where it is unknown."""
    if params.get("connector") in GENERATED:
        rate = float(params["rate"])
        events = min(float(params.get("count") or math.inf), float(params.get("duration") or math.inf) * rate)
        return events * share_of(params)
    return math.inf if size is None or size.rows is None else size.rows


def _density(params: Mapping[str, Any], size: SourceSize | None) -> tuple[float, Basis]:
    """Tuples per second of event time, and what that rests on."""
    connector = params.get("connector", "trace")
    if connector in GENERATED:
        return float(params["rate"]) * share_of(params), Basis.KNOWN
    if connector == "peers":
        return rate_of(params), Basis.KNOWN
    found = size or _UNSEEN
    known = found.rows / found.seconds if found.rows and found.seconds else None
    stated = _stated_rate(params)
    if stated is not None:
        pace = pace_of(params)
        if connector == "python":  # the rate of a table is bounded, see data_frames.py, while its times are as they are
            return max(stated, known or 0.0), Basis.GUESSED if size is None else Basis.KNOWN
        return (stated / pace, Basis.GUESSED if size is None else Basis.KNOWN) if pace else (stated, Basis.GUESSED)
    if known is not None:
        return known, Basis.KNOWN if found.exact else Basis.GUESSED
    if found.facts is not None:
        return found.facts.rate, Basis.GUESSED
    return DEFAULT_RATE / (pace_of(params) or 1.0), Basis.ASSUMED if found.rows is None else Basis.GUESSED


def _stated_rate(params: Mapping[str, Any]) -> float | None:
    return rate_of(params) if params.get("rate") is not None or params.get("signature") else None
