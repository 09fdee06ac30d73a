"""Exercises of the notebooks, and the check of an answer.

The right answer of each exercise is computed, when it is asked for, by the functions that the platform itself uses.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from html import escape
from types import EllipsisType
from typing import Final, TypeAlias

import networkx as nx
import polars as pl

from synergy_nb.algorithms.availability import ExactlyFailed, degree_for, optimal_availability, random_availability
from synergy_nb.algorithms.resilience import feasible_ratio, node_load, rod
from synergy_nb.dataflow.streams.replicas.duplicate_filter import DuplicateFilter
from synergy_nb.dataflow.tuples import Batch
from synergy_nb.explore._bursty_load import bursts
from synergy_nb.explore._feasible_sets import TWO_INPUTS
from synergy_nb.models.execution_times import ExecutionTimes
from synergy_nb.models.overlapping_levels import OverlappingLevels
from synergy_nb.models.projection import Local, LocalApplication, impacts
from synergy_nb.models.queueing import execution_time
from synergy_nb.models.slack import PredictedPaths
from synergy_nb.plan import source
from synergy_nb.plan.derived.active_replicas import replicated

Answer: TypeAlias = float | str


@dataclass(frozen=True)
class Exercise:
    """A question with an answer that can be checked."""

    question: str  # question, with the unit of the answer
    answer: Callable[[], Answer]  # function that computes the answer
    hint: str  # hint for those whose answer is wrong
    tolerance: float = 0.005  # largest relative difference of a right number from the answer


@dataclass(frozen=True)
class CheckedAnswer:
    """The result of a check; true if the answer is right."""

    right: bool | None  # whether the answer is right; None if none was given
    text: str  # sentence for people: the question, or whether the answer is right, with a hint

    def __bool__(self) -> bool:
        return self.right is True

    def __repr__(self) -> str:
        return f"{'○' if self.right is None else '✓' if self.right else '✗'} {self.text}"

    def _repr_html_(self) -> str:
        return f"<p><strong>{escape(repr(self)[0])}</strong> {escape(self.text)}</p>"


def check(exercise: str | Exercise, answer: Answer | EllipsisType | None = None) -> CheckedAnswer:
    """Check the answer to an exercise.

    Parameters
    ----------
    exercise
        Name of the exercise, such as ``"availability 1"``, or an exercise of your own.
    answer
        Answer, a number or a text; with ``...`` or None the result is the question.

    Raises
    ------
    ValueError
        If there is no exercise of that name.

    Examples
    --------
    >>> check("composition 1", ...)
    ○ A peer of load 0.6 executes a component with τ = 20 ms. How long does a tuple take there by M/M/1, in ms?
    >>> check("composition 1", 20)
    ✗ Not yet. Hint: the tuple also waits; divide τ by the share of the time in which the peer is free.
    >>> check("composition 1", 50)
    ✓ Right.
    """
    if isinstance(exercise, str):
        if exercise not in EXERCISES:
            raise ValueError(f"exercise: {exercise!r}; expected one of {', '.join(EXERCISES)}")
        exercise = EXERCISES[exercise]
    if answer is None or answer is ...:
        return CheckedAnswer(None, exercise.question)
    if _is_right(answer, exercise.answer(), exercise.tolerance):
        return CheckedAnswer(True, "Right.")
    return CheckedAnswer(False, f"Not yet. Hint: {exercise.hint}")


def _is_right(answer: object, right: Answer, tolerance: float) -> bool:
    """Whether an answer is right: texts are compared without case, numbers up to the tolerance."""
    if isinstance(right, str):
        return isinstance(answer, str) and answer.strip().lower() == right.lower()
    if isinstance(answer, bool):
        return False
    try:
        number = float(answer)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False
    return math.isclose(number, right, rel_tol=tolerance, abs_tol=1e-12)


# -- answers -----------------------------------------------------------------------------------------------------------


def _greatest_admitted_load() -> float:
    """Answer of composition 2: greatest load of the other application that is still admitted, per cent."""
    running = LocalApplication("a", [Local("filter", 0.02, 0.5)], time=0.1, limit=0.13)
    admitted = 0
    for load in range(1, 50):
        asking = LocalApplication("b", [Local("sort", 0.01, load / 100.0)], time=0.05)
        if not impacts([running], asking)[0].acceptable:
            break
        admitted = load
    return float(admitted)


def _greatest_admitted_factor() -> float:
    """Answer of composition 3: greatest rate in a burst that is admitted, as a multiple of the mean rate."""
    return max(tenth / 10 for tenth in range(10, 41)
               if bursts(0.5, tenth / 10, 8.0, 0.02).by_signature.max() <= 0.1 * (1.0 + 1e-9))  # fmt: skip


def _slack_at_join() -> float:
    """Answer of hot spots 1: slack of the tuple, milliseconds."""
    paths = PredictedPaths(
        {("parse", "join"): 0.05, ("join", "sink"): 0.05}, {"parse": 0.1, "join": 0.35, "sink": 0.05}, {"sink": 1.0}
    )
    return 1000.0 * float(paths.slack("join", 0.25))


def _next_reported_load() -> float:
    """Answer of hot spots 2: upper bound of the level of a load of 0.3."""
    levels = OverlappingLevels(5, overlap=0.2, severe=1.0)
    levels.leaves(0.3)
    return levels.bounds(levels.level(0.3))[1]


def _predicted_time() -> float:
    """Answer of hot spots 3: execution time at 400 rows/s, milliseconds."""
    pairs = ExecutionTimes.of([(100.0, 0.04), (200.0, 0.06), (300.0, 0.08)])
    line = pairs.line()
    return math.nan if line is None else 1000.0 * line.at(400.0)


def _ratio_of_rectangle() -> float:
    """Answer of resilience 1: size of the feasible set as a share of the ideal one."""
    return float(feasible_ratio(TWO_INPUTS, [1.0, 1.0], [0, 0, 1, 1], method="exact"))


def _greatest_second_rate() -> float:
    """Answer of resilience 3: greatest rate of I2, tuples/s."""
    loads = node_load(TWO_INPUTS, rod(TWO_INPUTS, [1.0, 1.0]), 2)
    return float(min((1.0 - 0.03 * loads[:, 0]) / loads[:, 1]))


def _ratio_of_rod() -> float:
    """Answer of resilience 2: size of the feasible set of ROD's placement as a share of the ideal one."""
    return float(feasible_ratio(TWO_INPUTS, [1.0, 1.0], rod(TWO_INPUTS, [1.0, 1.0]), method="exact"))


def _number_of_streams() -> float:
    """Answer of replication 1: number of stream replicas."""
    chain = source("packets", rate="10 tuples/s").filter("bytes > 0", id="one").filter("bytes > 1", id="other")
    plan = replicated(chain.sink("out", delay="1 s"), 3)
    return float(sum(len(plan.upstream(name)) for name in plan.operators))


def _number_of_passed_tuples() -> float:
    """Answer of replication 2: number of tuples that the filter passes."""
    merged = DuplicateFilter("ab")
    passed = 0
    for stream, numbers in (("a", [1, 2, 2]), ("b", [2, 1, 2, 2])):
        for number in numbers:
            table = pl.DataFrame({"time": [number]}).cast(pl.Datetime("us"))
            passed += merged.receive(stream, Batch(table, 0, 0.0)) is not None
    return float(passed)


def _first_arrival() -> float:
    """Answer of replication 3: time until the first copy of a tuple arrives, milliseconds."""
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_weighted_edges_from(
        [("source", "f", 30.0), ("source", "f~1", 50.0), ("f", "sink", 40.0), ("f~1", "sink", 10.0)]
    )
    return float(nx.shortest_path_length(graph, "source", "sink", weight="weight"))


EXERCISES: Final[Mapping[str, Exercise]] = {
    "composition 1": Exercise(
        "A peer of load 0.6 executes a component with τ = 20 ms. How long does a tuple take there by M/M/1, in ms?",
        lambda: 1000.0 * execution_time(0.02, 0.6),
        "the tuple also waits; divide τ by the share of the time in which the peer is free.",
    ),
    "composition 2": Exercise(
        "An application takes 100 ms of its limit of 130 ms. At a peer of load 0.5 it executes 20 ms of work a tuple. "
        "What is the greatest load, in whole per cent, that another application may add there?",
        _greatest_admitted_load,
        "its tuples take 40 ms there now, and may take 70 ms; solve 20 / (1 - p) = 70 for the load p, and subtract .5.",
    ),
    "composition 3": Exercise(
        "Mean load 50 %, τ = 20 ms, limit 100 ms. What is the greatest rate in a burst, as a multiple of the mean rate "
        "with one decimal, that the projection by signatures admits?",
        _greatest_admitted_factor,
        "set the sliders to these values, and look when the orange line crosses the limit; it does so in the burst.",
    ),
    "hot spots 1": Exercise(
        "A tuple is 250 ms old when it arrives at the operator join, whose limit is 1 s. Predicted are 350 ms at join, "
        "50 ms for the hop to the sink, and 50 ms at the sink. What is its slack, in ms?",
        _slack_at_join,
        "subtract from the limit all that was measured so far, and all that is predicted from join on (equation 3.1).",
    ),
    "hot spots 2": Exercise(
        "A peer has 5 levels: four of equal width up to a load of 1, and one above it. Each reaches a tenth of that "
        "width beyond its ends. It has reported a load of 0.30. From which load on does it report again?",
        _next_reported_load,
        "its level ends at 0.5, and reaches a tenth of the width of a level, which is .25, beyond that.",
    ),
    "hot spots 3": Exercise(
        "At 100, 200 and 300 rows/s an operator took 40, 60 and 80 ms. What does a line predict at 400 rows/s, in ms?",
        _predicted_time,
        "the three points are on one line; it rises by 20 ms for each 100 rows/s.",
    ),
    "availability 1": Exercise(
        "3 of 20 peers fail. All components of an application have their two replicas at the same two peers. How "
        "available is it?",
        lambda: optimal_availability(20, 3, 2),
        "it fails if both peers are among the 3; C(18, 1) of the C(20, 3) sets contain both.",
        0.0005,
    ),
    "availability 2": Exercise(
        "3 of 20 peers fail. How many replicas does an availability of 99.9 % need, with all components together?",
        lambda: float(degree_for(0.999, ExactlyFailed([str(number) for number in range(20)], 3))),
        "try the degrees in turn: 1 - C(20-ϱ, 3-ϱ) / C(20, 3).",
    ),
    "availability 3": Exercise(
        "The same, but each of 9 components has its two replicas at two random peers of its own. How available is it?",
        lambda: random_availability(20, 3, 2, 9),
        "a component fails with probability C(3, 2) / C(20, 2); all nine have to live.",
        0.0005,
    ),
    "resilience 1": Exercise(
        "In example 2, o1 and o2 are at node 1, o3 and o4 at node 2. Which share of the ideal set is feasible?",
        _ratio_of_rectangle,
        "each node carries one stream alone: the set is a rectangle, with half of the ideal axis on each side.",
    ),
    "resilience 2": Exercise(
        "Which share of the ideal set does ROD reach in example 2?",
        _ratio_of_rod,
        "press the button ROD in the explorer, and read the first number.",
    ),
    "resilience 3": Exercise(
        "With ROD's placement of example 2, I1 has 0.03 tuples/s. How many tuples/s may I2 have at most?",
        _greatest_second_rate,
        "each node gives a limit: node 1 has the load 14 r1 + 7 r2, node 2 the load 6 r1 + 9 r2; both are at most 1.",
        0.01,
    ),
    "replication 1": Exercise(
        "A source, two operators with three active replicas each, and a sink, in a row. How many streams are there?",
        _number_of_streams,
        "the source feeds each of 3 replicas; each of these feeds each of 3; and each of these feeds the sink.",
    ),
    "replication 2": Exercise(
        "Stream a delivers the tuples 1, 2, 2, and then b the tuples 2, 1, 2, 2. How many tuples does the filter pass?",
        _number_of_passed_tuples,
        "b's third copy of 2 is the first third copy of it; all else of b has come from a already.",
    ),
    "replication 3": Exercise(
        "The streams from a source to two replicas take 30 and 50 ms; from these to the sink they take 40 and 10 ms. "
        "After how many ms does a tuple arrive at the sink?",
        _first_arrival,
        "each copy has a way of its own, and the first that arrives counts.",
    ),
}
"""Exercises of the notebooks by name."""
