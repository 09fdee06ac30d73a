"""A claim of the papers as an experiment: a set-up, measured cells, checks, and a figure.

A *cell* is one point of an experiment under one policy, measured once from one seed; a *repetition* is all cells with
the same seed, so that policies are compared on the same network and the same requests. Cells give :class:`Point`
values; over repetitions these become :class:`Row` values with intervals, and checks compare them with the paper's
numbers, with stated tolerances.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

from synergy_experiments.framework.measurements import Coordinate, Measured, Point, Row
from synergy_experiments.framework.parameters import Parameter, Setup, at_scale
from synergy_nb.plan.terms.units import counted

__all__ = [
    "Cell",
    "Check",
    "Choices",
    "Claim",
    "ClaimVerdict",
    "Coordinate",
    "Judged",
    "Panel",
    "Point",
    "Result",
    "Row",
    "Verdict",
    "metric_of",
]

Verdict: TypeAlias = Literal["holds", "holds in part", "undecided", "does not hold", "not comparable"]
ClaimVerdict: TypeAlias = Literal["reproduced", "in part", "undecided", "not reproduced", "not comparable"]
Judged: TypeAlias = Literal["paper", "own", "fitted"]


class Check(NamedTuple):
    """A comparison of a statement of the paper with our measurement.

    Parameters
    ----------
    name
        Name of the comparison.
    paper, ours
        Number of the paper and of our measurement, or statements in words.
    verdict
        Verdict that follows from ``rule``.
    rule
        Rule in words, with its tolerance.
    low, high
        Ends of the 95 % interval of ``ours``, if that is a mean over repetitions.
    p
        Probability of measurements that speak at least as much for the check, if it does not hold.
    judges
        Subject of the check: a statement of the paper, our own arithmetic or aim, or a shape that was fitted.
    unit
        Unit of both numbers; ``%`` means that they are shares, which are shown in per cent.
    words
        Words of the paper where ``paper`` is a threshold of ours for them; empty: ``paper`` is what it says.
    runs
        Least number of repetitions that have the values of ``ours``; None: it is computed, or not measured.
    """

    name: str
    paper: float | str
    ours: float | str | None
    verdict: Verdict
    rule: str
    low: float | None = None
    high: float | None = None
    p: float = 1.0
    judges: Judged = "paper"
    unit: str = ""
    runs: int | None = None
    words: str = ""


class Cell(NamedTuple):
    """One measurement: a function with its arguments, and the place of the result in the figure.

    A cell can be sent to another process, and a cell that two claims share is measured once.

    Parameters
    ----------
    function
        Function of a module that measures. Its last argument is the seed. It returns the values of metrics by name,
        which become points at ``x`` of ``algorithm``, or it returns points.
    arguments
        Arguments of the function before the seed.
    x, algorithm
        Coordinate and algorithm of the metrics that the function returns by name.
    alone
        Whether no other cell is measured meanwhile, as the function reads the clock of this machine.
    reading
        Name of one reading of the paper's text, if it can be read in several ways; it becomes a part of the names of
        the metrics.
    """

    function: Callable[..., Mapping[str, float] | Sequence[Point]]
    arguments: tuple[Hashable, ...]
    x: Coordinate = ""
    algorithm: str = ""
    alone: bool = False
    reading: str = ""

    def points(self, found: Mapping[str, float] | Sequence[Point]) -> list[Point]:
        """Return the result of the function as points."""
        points = (
            list(found)
            if not isinstance(found, Mapping)
            else [Point(self.x, self.algorithm, metric, value) for metric, value in found.items()]
        )
        return (
            [each._replace(metric=metric_of(each.metric, self.reading)) for each in points] if self.reading else points
        )


def metric_of(metric: str, reading: str) -> str:
    """Return the name of a metric under one reading of the paper's text.

    >>> metric_of("delay", "20 unique")
    'delay (20 unique)'
    """
    return f"{metric} ({reading})" if reading else metric


@dataclass(frozen=True)
class Panel:
    """A part of a figure.

    Parameters
    ----------
    metric
        Metric of the rows that are drawn.
    ylabel
        Label of the vertical axis, with the unit.
    kind
        ``lines`` over numbers, ``bars`` over groups, ``curves``: many points without markers, or ``points``: markers
        without lines.
    factor
        Factor from the unit of the rows to that of the axis.
    bounds
        Horizontal lines, such as a limit: value in the unit of the rows, and label.
    logarithmic
        Whether the vertical axis is logarithmic.
    xlabel
        Label of the horizontal axis of this panel; that of the figure by default.
    example
        Whether the panel shows an example, for which one repetition is enough.
    runs
        Whether a point is one run, drawn without an interval: runs have the same coordinate by chance only.
    """

    metric: str
    ylabel: str
    kind: Literal["lines", "bars", "curves", "points"] = "lines"
    factor: float = 1.0
    bounds: tuple[tuple[float, str], ...] = ()
    logarithmic: bool = False
    xlabel: str = ""
    example: bool = False
    runs: bool = False


@dataclass(frozen=True)
class Claim:
    """A figure or table of a paper, and its reproduction.

    Parameters
    ----------
    id, title
        Id, such as ``C5``, and title in one line.
    source
        Section and figure of the paper.
    says
        Statement of the paper, with its numbers.
    parameters
        Parameters of the set-up, by name.
    cells
        Function that returns all cells of a set-up.
    checks
        Function that compares the measurements with the paper's numbers.
    panels, xlabel
        Panels and label of the horizontal axis of the figure.
    derive
        Function that derives more points from those of one repetition, such as gains of one policy over another.
    paper
        Numbers of the paper as points, which the figure shows.
    repeat
        Numbers of repetitions at the two scales.
    examples
        Beginning of the names of metrics that are curves of single runs. Several claims may share such measurements;
        each stores only the curves in its panels. Empty: there are none.
    shares
        Patterns of the names of metrics that are shares of a whole: they and their intervals are between 0 and 1.
    """

    id: str
    title: str
    source: str
    says: str
    parameters: Mapping[str, Parameter]
    cells: Callable[[Setup], Iterable[Cell]]
    checks: Callable[[Measured, Setup], Iterable[Check]]
    panels: Sequence[Panel]
    xlabel: str
    derive: Callable[[Sequence[Point]], Iterable[Point]] | None = None
    paper: Sequence[Point] = ()
    repeat: tuple[int, int] = (3, 5)
    examples: str = ""
    shares: Sequence[str] = ()

    def judged(self, measured: Measured, setup: Setup) -> tuple[list[Check], list[str]]:
        """Return the checks; none, and why, if they cannot do without a point that is missing."""
        try:
            return list(self.checks(measured, setup)), []
        except Exception as error:  # noqa: BLE001 - whatever they do, what was measured is kept
            return [], [f"verdicts: {type(error).__name__}: {error}"]


class Choices(NamedTuple):
    """The questions that the paper's text leaves open about a claim, and our choices (``chapters/choices.toml``).

    Parameters
    ----------
    open
        Pairs of an open question and our choice.
    doubt
        Observation that would change our verdicts.
    reason
        Reason why some verdicts differ from the paper's statements; empty if none is needed.
    """

    open: tuple[tuple[str, str], ...]
    doubt: str
    reason: str = ""


@dataclass(frozen=True)
class Result:
    """The result of reproducing a claim, as ``--json`` prints it.

    Parameters
    ----------
    claim
        Claim that was reproduced.
    setup
        Parameters of the set-up, with ``seed``, ``repeat`` and ``scale``.
    rows, checks
        Measured rows, and the checks of the claim.
    seconds
        Time of the repetitions, over all processes, seconds.
    figures
        Paths of drawn figures.
    repetitions
        Points of each repetition.
    failed
        Cells that failed, each with its arguments, its seed and the error: their points are missing.
    """

    claim: Claim
    setup: Mapping[str, Any]
    rows: Sequence[Row]
    checks: Sequence[Check]
    seconds: float
    figures: Sequence[str] = field(default=())
    repetitions: Sequence[Sequence[Point]] = field(default=())
    failed: Sequence[str] = field(default=())

    @property
    def size(self) -> str:
        """Number of repetitions, and scale of the set-up, in words."""
        return f"{counted(self.setup['repeat'], 'repetition')} at {self.setup['scale']} scale"

    @property
    def changed(self) -> dict[str, Any]:
        """Parameters whose values are not those of the claim at this scale."""
        usual = at_scale(self.claim.parameters, self.setup["scale"])
        return {
            name: value for name, value in self.setup.items() if name in usual and _plain(value) != _plain(usual[name])
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain values."""
        found: dict[str, Any] = {
            "id": self.claim.id,
            "title": self.claim.title,
            "setup": {name: list(value) if isinstance(value, tuple) else value for name, value in self.setup.items()},
            "rows": [row._asdict() for row in self.rows],
            "paper": {
                "source": self.claim.source,
                "says": self.claim.says,
                "points": [point._asdict() for point in self.claim.paper],
            },
            "checks": [check._asdict() for check in self.checks],
            "seconds": round(self.seconds, 3),
        }
        further = {"figures": self.figures, "failed": self.failed}
        plain: dict[str, Any] = _finite(found | {name: list(each) for name, each in further.items() if each})
        return plain


def _finite(value: Any) -> Any:
    """Return plain values with None for the numbers that JSON does not know."""
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _plain(value: Any) -> Any:
    """Return a value of a parameter, lists and ranges as tuples."""
    return tuple(value) if isinstance(value, list | range | tuple) else value
