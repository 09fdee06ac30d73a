"""Explorers: linked charts of traces, pictures of the algorithms with sliders, and the exercises of the notebooks.

>>> from synergy_nb import explore
>>> dict(explore.feasible_set().numbers)["feasible / ideal"]
'0.2500'

===============  ====================================================================================================
feasible_set     the input rates that a placement can process, for two or three streams (ROD)
availability     availability of placements of replicas against the delay of their links (chapter 4)
bursts           bursts of load in a queue, against the projections of admission (section 2.3.4)
duplicates       the duplicate filter of active replicas, step by step
load_levels      when a peer reports its load (section 3.4.3)
trace            linked charts of a trace, of a table, or of kept runs
sliders          picture of a function of your own, with a slider for each argument
check            check of an answer to an exercise
exercise         exercise of your own
===============  ====================================================================================================

Each picture of an algorithm shows what the functions of :mod:`synergy_nb.models`, :mod:`synergy_nb.algorithms` and
:mod:`synergy_nb.dataflow` return, and has no formula of its own. It is a widget: ``set(name=value)`` moves its controls
from Python, ``numbers`` and ``sentence`` are shown below the picture, and ``to_svg()`` is the picture. The value of
each control is a trait, so that it is observed, linked and laid out as any ipywidget: ``HBox([slider, shown])`` and
``jslink((slider, "value"), (shown, "load"))``. For the values
without a picture, call the functions of the modules of this package, such as :func:`.feasible_sets.feasible_set`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

from synergy_nb.errors import user_facing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from synergy_nb.explore._exercises import CheckedAnswer, Exercise
    from synergy_nb.explore._explorer import Explorer
    from synergy_nb.explore._runs_view import RunsView
    from synergy_nb.explore._trace_view import TraceView
    from synergy_nb.recording.kept_runs import KeptRun, Runs

__all__ = [
    "availability",
    "bursts",
    "check",
    "duplicates",
    "exercise",
    "feasible_set",
    "load_levels",
    "sliders",
    "trace",
]


@overload
def trace(data: Runs | KeptRun, *, columns: Sequence[str] | None = None) -> RunsView: ...


@overload
def trace(data: Any, *, columns: Sequence[str] | None = None, time: str | None = None, **options: Any) -> TraceView: ...


@user_facing
def trace(
    data: Any, *, columns: Sequence[str] | None = None, time: str | None = None, **options: Any
) -> TraceView | RunsView:
    """Explore a trace: a selection in one chart filters all others.

    Parameters
    ----------
    data
        Path of a trace in any format that ``synergy data prepare`` reads, or of a folder of Parquet files, such as it
        writes; a pandas, Polars or Arrow table; or runs that were kept: ``runs(folder)``, or one or several of these.
    columns
        Columns that have a chart. By default the event time, and up to five of the others by which rows can be told
        apart.
    time
        Column with the event time. By default the first one with times, or called ``time``, ``timestamp``, ``ts``,
        ``datetime`` or ``date``.
    options
        Options of a raw file, see :func:`synergy_nb.prepare`: ``format``, ``columns_of_file``, ``encoding``,
        ``quotes``, ``time_unit``, ``time_zone``.

    Returns
    -------
    TraceView or RunsView
        Widget. ``select(bytes=(1000, 5000), host=["a", ...])`` and ``clear()`` change the selection; ``selection``,
        ``rows`` and ``sentence`` are traits that can be observed and linked. ``table()`` returns the selected rows,
        ``plan()`` a plan that selects and groups them, and ``simulate(peers=20)`` replays them in a simulated cluster.

    Raises
    ------
    ValueError
        If there is no such trace or column, or the file is damaged.

    Examples
    --------
    >>> view = trace({"time": [0.0, 1.0, 2.0], "host": ["a", "b", "a"], "bytes": [10, 20, 30]})
    >>> view.select(host="a").sentence
    '2 of 3 rows (66.7 %): host a.'
    >>> view.table()["bytes"].to_list()
    [10, 30]
    """
    from synergy_nb.explore._opening import opened_view  # noqa: PLC0415 - a notebook that explores one loads only that

    return opened_view(data, columns, time, options)


@user_facing
def feasible_set(
    load: npt.ArrayLike | None = None,
    capacity: npt.ArrayLike = (1.0, 1.0),
    assignment: npt.ArrayLike | None = None,
    *,
    inputs: int = 2,
) -> Explorer:
    """Explore which input rates a placement withstands: drag operators from node to node (ROD, sections 3 to 5).

    Parameters
    ----------
    load
        Load coefficients L^o: time on a core of capacity 1 for a tuple of each input stream, seconds; shape (operators,
        streams), with two or three streams. By default those of example 2 of the
        paper, or other ones for three ``inputs``.
    capacity
        Capacity C of each node, cores; two to four nodes.
    assignment
        Number of the first node of each operator, from 0; by default all are at node 0.
    inputs
        Number of input streams of the default, 2 or 3.

    Raises
    ------
    ValueError
        If an argument is wrong.
    """
    from synergy_nb.explore._feasible_sets import explorer  # noqa: PLC0415 - a notebook that explores one loads only that

    return explorer(load, capacity, assignment, inputs=inputs)


@user_facing
def availability() -> Explorer:
    """Explore how number and places of replicas change availability and delay (dissertation, chapter 4)."""
    from synergy_nb.explore._replica_placements import explorer  # noqa: PLC0415 - a notebook that explores one loads only that

    return explorer()


@user_facing
def bursts() -> Explorer:
    """Explore how bursts fill a queue, and which projections of admission expect that (dissertation, section 2.3.4)."""
    from synergy_nb.explore._bursty_load import explorer  # noqa: PLC0415 - a notebook that explores one loads only that

    return explorer()


@user_facing
def duplicates() -> Explorer:
    """Explore the duplicate filter of active replicas step by step (Hwang et al., algorithm 1)."""
    from synergy_nb.explore._duplicate_steps import explorer  # noqa: PLC0415 - a notebook that explores one loads only that

    return explorer()


@user_facing
def load_levels() -> Explorer:
    """Explore how many reports load levels save, and how wrong the known load is (dissertation, section 3.4.3)."""
    from synergy_nb.explore._reported_loads import explorer  # noqa: PLC0415 - a notebook that explores one loads only that

    return explorer()


@user_facing
def sliders(draw: Callable[..., Any], title: str = "", **controls: Any) -> Explorer:
    """Explore a function of your own: each argument gets a slider.

    Unlike the sliders of ipywidgets, the last picture stays in the notebook's file.

    Parameters
    ----------
    draw
        Function of the values by name. It returns a Matplotlib figure, the text of an SVG, a sentence, or a picture
        and a sentence.
    title
        Heading.
    controls
        Argument of the function to its slider, ``(first value, least, greatest)`` or ``(first value, least, greatest,
        step)``, or to a list of texts to choose from, of which the first is shown first.

    Returns
    -------
    Explorer
        Widget with the present ``values``, which ``set(name=value)`` changes.

    Raises
    ------
    ValueError
        If a slider is wrong.
    TypeError
        If the function returns something else.

    Examples
    --------
    >>> area = sliders(lambda width, height: f"{width * height} m²", width=(3, 1, 9), height=(2.5, 1, 5, 0.5))
    >>> area.sentence, area.set(width=4).sentence
    ('7.5 m²', '10.0 m²')
    """
    from synergy_nb.explore._own_picture import sliders as made  # noqa: PLC0415 - a notebook that explores one loads only that

    return made(draw, title, controls)


@user_facing
def check(exercise: str | Exercise, answer: Any = None) -> CheckedAnswer:
    """Check the answer to an exercise of a notebook.

    Parameters
    ----------
    exercise
        Name of the exercise, such as ``"availability 1"``, or one that :func:`exercise` has made.
    answer
        Answer, a number or a text; with ``...`` the result is the question.

    Returns
    -------
    Checked
        Result: true if the answer is right; with a hint if it is wrong.

    Raises
    ------
    ValueError
        If there is no exercise of that name.
    """
    from synergy_nb.explore import _exercises as exercises  # noqa: PLC0415 - a notebook that explores one loads only that

    return exercises.check(exercise, answer)


@user_facing
def exercise(question: str, answer: Callable[[], float | str], hint: str, tolerance: float = 0.005) -> Exercise:
    """Make an exercise of your own, whose answers :func:`check` checks.

    Parameters
    ----------
    question
        Question, with the unit of the answer.
    answer
        Function that computes the answer, a number or a text.
    hint
        Hint for those whose answer is wrong.
    tolerance
        Largest relative difference of a right number from the answer.

    Examples
    --------
    >>> check(exercise("How much is 6 by 7?", lambda: 42.0, "add 7 six times."), 41)
    ✗ Not yet. Hint: add 7 six times.
    """
    from synergy_nb.explore._exercises import Exercise  # noqa: PLC0415 - a notebook that explores one loads only that

    return Exercise(question, answer, hint, tolerance)
