"""Selection of the component executions that leave a peer, so that all others keep their limits (section 3.4.1).

The execution time of each application at the peer is predicted by a line over the total rate (equation 3.4). So an
execution keeps its limit while the total rate R is below its *tolerance*, (allowed - a) / b. The task is to find the
smallest set whose removal brings R below the tolerances of all executions that remain.

:func:`largest_first` is the dissertation's heuristic, the largest predicted rate first. :func:`fewest` is exact and
takes O(n²): for each execution, suppose that it is the strictest that remains; then all stricter ones leave, and of the
others the largest rates until R is below its tolerance. The dissertation speaks of dynamic programming in
pseudo-polynomial time, which the tolerances make unnecessary. Over random peers the heuristic moves more than needed in
three of ten cases.

The dissertation leaves open:

=====================  =================================================================================================
unit of selection      one execution of a component for one application, with all streams that others share of it
equal rates            the execution with the least slack first, then by name
equal numbers          :func:`fewest` takes the set with the largest rates, except that the last execution is the one
                       with the least rate that is enough
=====================  =================================================================================================

Examples
--------
One strict application among large ones: the heuristic moves two, where one is enough.

>>> found = [
...     Execution("big", 400, 0.002, 2e-5, 0.040),
...     Execution("mid", 250, 0.003, 2e-5, 0.040),
...     Execution("strict", 15, 0.010, 4e-5, 0.021),
...     Execution("low", 60, 0.002, 2e-5, 0.030),
... ]
>>> largest_first(found).moved, fewest(found).moved
(('big', 'mid'), ('strict',))
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from synergy_nb.models.execution_times import Predicted


class Execution(NamedTuple):
    """A component that a peer executes for an application."""

    name: str
    rate: float  # predicted input rate r̂, tuples/s
    # intercept, slope: line of the predicted execution time: a in seconds, and b in seconds per tuple/s, from 0
    intercept: float
    slope: float
    # local execution time that the application's limit allows, the present t_s + t̂_e, seconds; infinite if it has no
    # limit
    allowed: float
    floor: float = 0.0  # processing time τ of a tuple, seconds: its execution time is never below it

    @classmethod
    def of(
        cls, name: str, rate: float, predicted: Predicted, allowed: float, floor: float = 0.0, total: float = 0.0
    ) -> Execution:
        """Create an execution from its predicted time.

        If the prediction is based on a rising line, the execution has that line. If it is that of a growing backlog,
        its line rises by the work that the rates bring within the horizon. Otherwise its time does not depend on the
        rate: it is the last measurement, or the prediction of a falling line at the present rate.

        ``total``: total rate r̂_t of the peer for which the time was predicted, tuples/s.
        """
        line = predicted.line
        if predicted.growth > 0.0:
            return cls(name, rate, predicted.seconds - predicted.growth * total, predicted.growth, allowed, floor)
        if predicted.basis == "line" and line is not None and line.slope > 0.0:
            return cls(name, rate, line.intercept, line.slope, allowed, floor)
        return cls(name, rate, predicted.seconds, 0.0, allowed, floor)

    def seconds(self, total: float) -> float:
        """Execution time at a total rate of the peer in tuples/s."""
        return max(self.intercept + self.slope * total, self.floor)

    def slack(self, total: float) -> float:
        """Slack at a total rate of the peer, seconds; above 0 where the limit is kept."""
        return self.allowed - self.seconds(total)

    @property
    def tolerance(self) -> float:
        """Total rate of the peer, tuples/s, up to which the limit is kept."""
        if self.allowed <= self.floor or (self.slope == 0.0 and self.allowed <= self.intercept):
            return -math.inf
        return (self.allowed - self.intercept) / self.slope if self.slope > 0.0 else math.inf


class Selection(NamedTuple):
    """The executions that leave a peer, and the state afterwards."""

    moved: tuple[str, ...]  # names of the executions that leave, in the order in which they were chosen
    # before, after: total predicted rate of the peer with and without the moved executions, tuples/s
    before: float
    after: float
    slacks: Mapping[str, float]  # name of each remaining execution to its slack afterwards, seconds


def slacks(executions: Iterable[Execution]) -> dict[str, float]:
    """Name of each execution of a peer to its slack at the total of all predicted rates, seconds."""
    found = list(executions)
    total = _total(found)
    return {each.name: each.slack(total) for each in found}


def largest_first(executions: Sequence[Execution], fixed: Collection[str] = ()) -> Selection | None:
    """Select executions for a move, the largest predicted rate first, until all others have slack.

    ``executions``: all component executions of the peer; ``fixed``: names of executions that cannot move.

    Returns the selection, or None if the executions that cannot move have no slack even alone.
    """
    _check(executions)
    staying = list(executions)
    moved: list[str] = []
    while True:
        total = _total(staying)
        if all(each.slack(total) > 0.0 for each in staying):
            return _selection(executions, moved)
        movable = [each for each in staying if each.name not in fixed]
        if not movable:
            return None
        largest = min(movable, key=lambda each: (-each.rate, each.slack(total), each.name))
        staying.remove(largest)
        moved.append(largest.name)


def fewest(executions: Sequence[Execution], fixed: Collection[str] = ()) -> Selection | None:
    """Select as few executions as possible for a move, so that all others have slack; see :func:`largest_first`."""
    _check(executions)
    ranked = sorted(executions, key=lambda each: (each.tolerance, each.name))
    place = {each.name: number for number, each in enumerate(ranked)}
    by_rate = sorted((each for each in ranked if each.name not in fixed), key=lambda each: (-each.rate, each.name))
    best: tuple[int, float, list[str]] | None = None
    for number in range(len(ranked) + 1):
        leaving, staying = ranked[:number], ranked[number:]
        if any(each.name in fixed for each in leaving):
            break
        chosen = _relieve(leaving, staying, [each for each in by_rate if place[each.name] > number])
        if chosen is not None:
            found = len(chosen), _total(chosen), [each.name for each in chosen]
            best = found if best is None else min(best, found)
    return None if best is None else _selection(executions, best[2])


def _relieve(leaving: list[Execution], staying: list[Execution], movable: list[Execution]) -> list[Execution] | None:
    """Return the executions that leave if the first of ``staying`` is the strictest that stays; None if it cannot.

    ``movable`` are the others of ``staying`` that can move, the largest rate first.
    """
    if not staying:
        return leaving
    strictest, total, chosen = staying[0], _total(staying), list(leaving)
    for number, largest in enumerate(movable):
        if strictest.slack(total) > 0.0:
            return chosen
        if strictest.slack(total - largest.rate) > 0.0:  # one more is enough: the one with the least sufficient rate
            enough = (each for each in movable[number:] if strictest.slack(total - each.rate) > 0.0)
            return [*chosen, min(enough, key=lambda each: (each.rate, each.name))]
        chosen.append(largest)
        total -= largest.rate
    return chosen if strictest.slack(total) > 0.0 else None


def _selection(executions: Sequence[Execution], moved: Sequence[str]) -> Selection:
    staying = [each for each in executions if each.name not in moved]
    return Selection(tuple(moved), _total(executions), _total(staying), slacks(staying))


def _total(executions: Iterable[Execution]) -> float:
    return math.fsum(each.rate for each in executions)


def _check(executions: Sequence[Execution]) -> None:
    names = {each.name for each in executions}
    if len(names) < len(executions):
        raise ValueError(f"executions: {[each.name for each in executions]}; expected distinct names")
    for each in executions:
        if not (0.0 <= each.rate < math.inf and 0.0 <= each.slope < math.inf):
            found = f"rate, slope: {each.rate}, {each.slope} of {each.name!r}"
            raise ValueError(f"{found}; expected finite numbers from 0")
