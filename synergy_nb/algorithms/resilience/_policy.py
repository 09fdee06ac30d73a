"""Resilient placement of a query plan on peers: ROD as a policy.

The input is the load model from the profiles of the plan, and the capacities of the peers. The result is a peer for
each operator, with an explanation. Sources, sinks and other operators with a known peer are pinned; their load counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from synergy_nb.algorithms.resilience._clustering import clustered_rod
from synergy_nb.algorithms.resilience._explanation import BottleneckExplanation, explain
from synergy_nb.algorithms.resilience._greedy import rod
from synergy_nb.algorithms.resilience._linear_load import LoadModel, load_model
from synergy_nb.algorithms.resilience._placement_units import FREE
from synergy_nb.algorithms.resilience._refinement import refine
from synergy_nb.algorithms.resilience.feasible import Ratio, feasible_ratio, node_load
from synergy_nb.plan import Plan
from synergy_nb.plan.terms.units import WrongValue, nearest


@dataclass(frozen=True)
class Placement:
    """The peers of the operators of a plan, with the quality of the placement."""

    assignment: Mapping[str, str]  # peer of each operator, by id
    ratio: Ratio  # size of the feasible set as a share of the ideal one, with its error
    utilisation: Mapping[str, float]  # load of each peer at the rates that the plan states, as a share of its capacity
    # description of the node that is overloaded first; nodes, operators and variables are indices of `peers` and
    # `model`
    explanation: BottleneckExplanation
    # model, peers: load model, and the addresses of the peers
    model: LoadModel
    peers: tuple[str, ...]

    def to_text(self) -> str:
        """Describe the placement for people."""
        ratio = f"feasible set {100 * self.ratio:.1f} % of the ideal one (± {100 * self.ratio.error:.1f} %)"
        overloaded = [peer for peer, share in self.utilisation.items() if share > 1.0]
        warning = [f"overloaded at the plan's rates: {', '.join(overloaded)}"] if overloaded else []
        why = self.explanation.to_text(self.peers, self.model.operators, self.model.variables)
        return "\n".join([ratio, *warning, why])


def place(
    plan: Plan,
    capacities: Mapping[str, float],
    pinned: Mapping[str, str] | None = None,
    *,
    lower_bound: Mapping[str, float] | None = None,
    rates: npt.ArrayLike | None = None,
    variable: Sequence[str] = (),
    transfer: float = 0.0,
    refined: bool = True,
    seed: int = 0,
) -> Placement:
    """Place a plan so that it withstands the largest set of rates of its sources.

    Parameters
    ----------
    plan
        Query plan ξ.
    capacities
        Peer to its capacity in cores, above 0; without the cores that other applications use.
    pinned
        Operator to the peer to which it is pinned, such as sources and sinks; the plan may pin others (``at``).
    lower_bound
        Source to its lowest rate, tuples/s; 0 if a source is missing.
    rates
        Rates of the sources to be carried, such as those of a trace: points x sources, in the order of
        ``plan.sources``. With them, refinement maximises the share of feasible points instead of the volume, and
        ``ratio`` is that share.
    variable
        Operators whose selectivity varies.
    transfer
        Processor time that the transfer of a tuple between two peers costs each of them, seconds. If it is above 0,
        operators are clustered (section 6.3).
    refined
        Whether ROD's placement is refined.
    seed
        Seed of the samples.

    Raises
    ------
    ValueError
        If an operator or peer does not exist, or a number is outside its range.

    Examples
    --------
    >>> from synergy_nb.plan import plan, source
    >>> one, two = source("packets", id="one", rate=10), source("packets", id="two", seed=1, rate=10)
    >>> query = plan(one.delay("14 ms").delay("6 ms").sink("a"), two.delay("9 ms").delay("7 ms").sink("b"))
    >>> found = place(query, {"v1": 1.0, "v2": 1.0}, {"one": "v1", "two": "v1", "sink": "v2", "sink_2": "v2"})
    >>> [found.assignment[each] for each in ("delay", "delay_2", "delay_3", "delay_4")]
    ['v1', 'v2', 'v2', 'v1']
    >>> round(float(found.ratio), 3)
    0.756
    """
    model = load_model(plan, variable, transfer)
    peers = tuple(capacities)
    if not peers:
        raise ValueError("capacities: none; expected at least one peer")
    for peer, value in capacities.items():
        if not 0.0 < value < np.inf:
            raise ValueError(f"capacities: {value!r} of {peer!r}; expected a number of cores above 0")
    capacity = np.array([capacities[peer] for peer in peers], dtype=np.float64)
    fixed = np.full(len(model.operators), FREE)
    own = {name: asked.at for name, asked in plan.operators.items() if asked.at is not None}
    for operator, peer in {**own, **(pinned or {})}.items():
        number = _known("pinned", operator, model.operators, "an operator of the plan")
        fixed[number] = _known(f"pinned: {operator!r} to", peer, peers, "a peer that has a capacity")
    bound = np.zeros(len(model.variables))
    for source, rate in (lower_bound or {}).items():
        bound[_known("lower_bound", source, model.variables[: model.inputs], "a source of the plan")] = rate
    points = None if rates is None else model.rates(rates)
    if transfer > 0.0:
        chosen = clustered_rod(model.load, capacity, model.arcs, bound, pinned=fixed).assignment
    else:
        chosen = rod(model.load, capacity, bound, pinned=fixed)
    if refined:
        chosen = refine(model.load, capacity, chosen, bound, arcs=model.arcs, pinned=fixed, rates=points, seed=seed)
    stated = model.rates([[plan.input_rate(source) for source in model.variables[: model.inputs]]])[0]
    used = node_load(model.load, chosen, len(peers), model.arcs) @ stated / capacity
    return Placement(
        assignment={operator: peers[node] for operator, node in zip(model.operators, chosen, strict=True)},
        ratio=feasible_ratio(model.load, capacity, chosen, bound, arcs=model.arcs, rates=points, seed=seed + 2),
        utilisation={peer: float(share) for peer, share in zip(peers, used, strict=True)},
        explanation=explain(model.load, capacity, chosen, bound, model.arcs),
        model=model,
        peers=peers,
    )


def _known(field: str, name: str, names: tuple[str, ...], what: str) -> int:
    """Return the index of a name; raise ValueError if it is not among ``names``."""
    if name not in names:
        raise ValueError(f"{field}: {WrongValue(name, what, nearest(name, names))}")
    return names.index(name)
