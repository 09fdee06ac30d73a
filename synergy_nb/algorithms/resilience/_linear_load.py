"""The load of operators as linear functions of the input streams' rates: L^o (sections 2.2 and 6.2).

The output rate of an operator with constant selectivity is a constant times its input rates, so loads behind it are
linear in the rates of the graph's input streams. Where this does not hold, the graph is cut: the rate of the stream
behind the cut becomes a variable of its own. There are two such cases: an operator with varying selectivity, and a
join, whose work and output are proportional to the number of pairs, w r_u r_v. Each variable is one more direction in
which load must be balanced, so their number is reduced:

* joins with proportional numbers of pairs, such as two joins of the same streams, share a variable;
* a variable on which no operator's load depends is left out;
* a variable whose effect on all loads is a sum of the effects of others is left out, too, and the others represent it:
  the input streams of a union without cost need only one variable, the union's rate.

The last rule retains the extreme rays of the cone of load vectors.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import nnls

from synergy_nb.algorithms.resilience.array_inputs import Arcs, Floats, checked_rates
from synergy_nb.plan import Plan
from synergy_nb.plan.checks.memory_estimates import span_of
from synergy_nb.plan.operators.catalogue import KINDS
from synergy_nb.plan.terms.units import WrongValue, nearest

SAME: Final = 1e-9  # relative difference up to which two load vectors count as equal


@dataclass(frozen=True)
class QueryOperator:
    """An operator of a query graph, with the properties that determine its load."""

    name: str  # unique in its graph
    inputs: tuple[str, ...]  # streams that it reads: names of operators before it, or of input streams
    # work a tuple, such as seconds of a core; one for all inputs, or one each. Of a join: a pair
    cost: float | tuple[float, ...]
    # output tuples per input tuple; one for all inputs, or one each. Of a join: output tuples per pair
    selectivity: float | tuple[float, ...] = 1.0
    varies: bool = False  # whether the selectivity is not constant; what is stated is then what is expected
    window: float | None = None  # window w of a join, which compares w r_u r_v pairs; None if the operator is no join

    def __post_init__(self) -> None:
        for field, value in (("cost", self.cost), ("selectivity", self.selectivity), ("window", self.window or 0.0)):
            for each in value if isinstance(value, tuple) else (value,):
                if not 0.0 <= each < math.inf:
                    raise ValueError(f"operator {self.name!r}, {field}: {value}; expected finite numbers from 0")
            if isinstance(value, tuple) and len(value) != len(self.inputs):
                raise ValueError(f"operator {self.name!r}, {field}: {value}; expected one, or one for each input")
        if not self.inputs:
            raise ValueError(f"operator {self.name!r}, inputs: none; expected at least one stream")
        if self.window is not None and (len(self.inputs) != 2 or isinstance(self.cost, tuple)):
            raise ValueError(f"operator {self.name!r}, inputs: {self.inputs}; expected two for a join, and one cost")

    def each(self, of: float | tuple[float, ...]) -> tuple[float, ...]:
        """A cost or a selectivity for each input."""
        return of if isinstance(of, tuple) else (of,) * len(self.inputs)


class NonlinearStream(NamedTuple):
    """A stream whose rate is not linear in other rates: ``factor`` times the product of linear functions."""

    name: str
    factor: float
    of: tuple[Floats, ...]


@dataclass(frozen=True)
class LoadModel:
    """Loads of operators, linear in the variables x: rates of inputs, and of streams at which the graph is cut."""

    operators: tuple[str, ...]  # names, one a row
    # names, one a column: input streams first, then the operators whose output or pairs they are
    variables: tuple[str, ...]
    inputs: int  # number of variables that are input streams
    load: Floats  # L^o: operators x variables
    # streams between operators with the load of their transfer; that of a stream behind a cut on which no operator's
    # load depends is left out
    arcs: Arcs
    # cuts, stands_for: all streams behind cuts, and of each variable behind the input streams, how much of each it
    # holds
    cuts: tuple[NonlinearStream, ...]
    stands_for: Floats

    def rates(self, inputs: npt.ArrayLike) -> Floats:
        """Values of all variables at given rates of the input streams, selectivities as expected.

        ``inputs``: points x input streams, in the order of ``variables``.

        Returns: points x variables.
        """
        found = checked_rates(inputs, self.inputs)
        values = np.hstack([found, np.zeros((len(found), len(self.cuts)))])
        for number, cut in enumerate(self.cuts, start=self.inputs):
            values[:, number] = cut.factor * np.prod([values @ form for form in cut.of], axis=0)
        return np.hstack([found, values[:, self.inputs :] @ self.stands_for.T])


def linearised(operators: Iterable[QueryOperator], transfer: float = 0.0) -> LoadModel:
    """The load model of a query graph.

    Parameters
    ----------
    operators
        Each after those that it reads. A name that is none of these is an input stream.
    transfer
        Processing time of the transfer of a tuple, at each of the two nodes (section 6.3).

    Raises
    ------
    ValueError
        If two operators have one name, or one reads what comes later.

    Examples
    --------
    Example 2 of the paper:

    >>> graph = [QueryOperator("o1", ("I1",), 14), QueryOperator("o2", ("o1",), 6),
    ...          QueryOperator("o3", ("I2",), 9, 0.5), QueryOperator("o4", ("o3",), 14)]
    >>> linearised(graph).load
    array([[14.,  0.],
           [ 6.,  0.],
           [ 0.,  9.],
           [ 0.,  7.]])
    """
    graph = list(operators)
    inputs = _inputs(graph)
    linear = _Linear(inputs, 2 * len(graph))
    for operator in graph:
        linear.add(operator)
    return linear.reduced(transfer)


def load_model(plan: Plan, variable: Sequence[str] = (), transfer: float = 0.0) -> LoadModel:
    """The load model of a query plan, in cores; its input streams are its sources, whose own work counts too.

    Costs and selectivities are those of the plan's profiles. A join is taken for the paper's: its profile gives work
    and output at the plan's rates, which both follow the number of pairs.

    Parameters
    ----------
    plan
        Query plan ξ.
    variable
        Operators whose selectivity varies.
    transfer
        Seconds that a tuple costs each of two peers that it goes between.

    Raises
    ------
    ValueError
        If the plan has no such operator.

    Examples
    --------
    >>> from synergy_nb.plan import source
    >>> plan = source("packets", rate=100).filter("bytes > 9", cost="2 ms", selectivity=0.5).delay("6 ms").sink()
    >>> model = load_model(plan)
    >>> model.operators, model.variables
    (('source', 'filter', 'delay', 'sink'), ('source',))
    >>> model.load.ravel().tolist()
    [1e-06, 0.002, 0.003, 5e-07]
    """
    for name in variable:
        if name not in plan.operators:
            raise ValueError(f"variable: {WrongValue(name, 'an operator of the plan', nearest(name, plan.operators))}")
    graph = []
    for name, operator in plan.operators.items():
        upstream = plan.upstream(name)
        rate, load, given = plan.input_rate(name), plan.load(name), plan.rate(name)
        window = None
        if operator.kind in KINDS and KINDS[operator.kind].product:
            window = span_of(plan, name) or 1.0
            rate = window * math.prod(plan.rate(up) for up in upstream)
        cost, selectivity = (load / rate, given / rate) if rate else (0.0, 0.0)
        graph.append(QueryOperator(name, upstream or (name,), cost, selectivity, name in variable, window))
    return linearised(graph, transfer)


class _Linear:
    """Rates and loads, written as linear functions of input streams and of all cuts that might be needed."""

    def __init__(self, inputs: Sequence[str], most: int) -> None:
        self._inputs = tuple(inputs)
        self._forms = np.eye(len(inputs) + most)
        self._streams = dict(zip(inputs, self._forms, strict=False))
        self._number: dict[str, int] = {}
        self._load: list[Floats] = []
        self._arcs: list[tuple[int, int]] = []
        self._carried: list[Floats] = []
        self._cuts: list[NonlinearStream] = []
        self._pairs: list[tuple[Floats, Floats]] = []  # shape of a product of rates, and its variable

    def add(self, operator: QueryOperator) -> None:
        """An operator whose inputs are there."""
        taken = [self._streams[up] for up in operator.inputs]
        for up, rate in zip(operator.inputs, taken, strict=True):
            if up in self._number:
                self._arcs.append((self._number[up], len(self._load)))
                self._carried.append(rate)
        costs, shares = operator.each(operator.cost), operator.each(operator.selectivity)
        if operator.window is not None:
            taken, costs, shares = [self._looked_at(operator, *taken)], costs[:1], shares[:1]
        self._load.append(np.sum([cost * rate for cost, rate in zip(costs, taken, strict=True)], axis=0))
        given: Floats = np.sum([share * rate for share, rate in zip(shares, taken, strict=True)], axis=0)
        self._number[operator.name] = len(self._number)
        self._streams[operator.name] = self._cut(operator.name, 1.0, given) if operator.varies else given

    def _cut(self, name: str, factor: float, *of: Floats) -> Floats:
        self._cuts.append(NonlinearStream(name, factor, of))
        form: Floats = self._forms[len(self._inputs) + len(self._cuts) - 1]
        return form

    def _looked_at(self, join: QueryOperator, left: Floats, right: Floats) -> Floats:
        """Pairs that a join looks at, w r_u r_v, by a variable that is what it gives where that is constant."""
        assert join.window is not None
        product = np.outer(left, right) + np.outer(right, left)
        size = float(product.max())
        if not size:
            return np.zeros(len(left))
        for shape, unit in self._pairs:
            if np.allclose(shape, product / size, rtol=SAME, atol=SAME):
                return unit * (size * join.window)
        gives = 0.0 if join.varies else join.window * join.each(join.selectivity)[0]
        name = join.name if gives else f"pairs of {join.name}"
        unit = self._cut(name, gives or 1.0, left, right) / ((gives or 1.0) * size)
        self._pairs.append((product / size, unit))
        return unit * (size * join.window)

    def reduced(self, transfer: float) -> LoadModel:
        """The model in as few variables as generate the same loads."""
        known, cuts = len(self._inputs), len(self._cuts)
        load = np.array(self._load)[:, : known + cuts]
        carried = np.array(self._carried).reshape(-1, len(self._forms))[:, : known + cuts] * transfer
        columns = np.vstack([load, carried])[:, known:]
        kept = [number for number in range(cuts) if load[:, known + number].any()]
        stands_for = np.eye(cuts)
        for number in reversed(kept.copy()):
            others = [each for each in kept if each != number]
            if not others:
                break
            of, rest = nnls(columns[:, others], columns[:, number])
            if rest <= SAME * float(np.linalg.norm(columns[:, number])):
                kept = others
                stands_for[others] += np.outer(of, stands_for[number])
        chosen = [*range(known), *(known + number for number in kept)]
        return LoadModel(
            operators=tuple(self._number),
            variables=(*self._inputs, *(self._cuts[number].name for number in kept)),
            inputs=known,
            load=load[:, chosen],
            arcs=Arcs(np.array(self._arcs, dtype=np.int64).reshape(-1, 2), carried[:, chosen]),
            cuts=tuple(
                NonlinearStream(cut.name, cut.factor, tuple(of[: known + cuts] for of in cut.of)) for cut in self._cuts
            ),
            stands_for=stands_for[kept],
        )


def _inputs(graph: Sequence[QueryOperator]) -> list[str]:
    """Names of the input streams: those that are read and that no operator makes; a source's own is named after it."""
    names = {operator.name for operator in graph}
    known: set[str] = set()
    inputs: dict[str, None] = {}
    for operator in graph:
        if operator.name in known:
            raise ValueError(f"operator {operator.name!r}; expected a name that none before has")
        for up in operator.inputs:
            if up in names - known and up != operator.name:
                raise ValueError(f"operator {operator.name!r}, inputs: {up!r}; expected operators before it")
            if up not in known:
                inputs[up] = None
        known.add(operator.name)
    if not graph:
        raise ValueError("operators: none; expected at least one")
    return list(inputs)
