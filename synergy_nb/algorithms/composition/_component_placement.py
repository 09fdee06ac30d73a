"""Peers on which to deploy a component that is missing, or for which no candidate has resources (section 2.3.2).

The origin decides for which operators to deploy components, and the stage of the search; the peer that has just
processed a probe selects the peers. The stages and their order are the paper's:

1. *Collocation*, by the position of the operator (figure 2.8): at the beginning of the graph with a downstream
   candidate, at its end with an upstream one; in between with an upstream one if the operator's selectivity is at most
   1, and with a downstream one otherwise, so that less data is sent.
2. Collocation on the other side.
3. Neighbours in the overlay, and peers along the path so far.
4. A complete graph: all of these, for all operators that can be deployed.

Two baselines deploy a component at the peer nearest to its upstream component, or at a random peer.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Final

from synergy_nb.algorithms.composition.messages import ProbedRequest
from synergy_nb.control.graph import Hop
from synergy_nb.plan import Plan
from synergy_nb.plan.derived.spark_parts import PART
from synergy_nb.plan.operators.catalogue import KINDS, TAP

NEIGHBOURS: Final = 3  # the stage that adds neighbours in the overlay
COMPLETE: Final = 4  # the last stage


def deployable(plan: Plan, operator: str) -> bool:
    """Whether an operator can be deployed at a peer that does not offer it: neither source, sink, tap nor pinned.

    A function of one's own can be executed only where it was sent.
    """
    asked = plan.operators[operator]
    return asked.kind not in ("source", "sink", TAP, PART) and asked.at is None and not KINDS[asked.kind].shipped


def candidate_peers(
    request: ProbedRequest,  # request with the stage of the search, and the neighbours of its origin
    plan: Plan,
    operator: str,  # operator that is to be deployed
    path: Sequence[Hop],  # hops that the probe has passed
    own: str,  # address of the peer that asks, which has just processed the probe
    *,
    meets: bool,  # whether routes of the plan meet in the operator: then all peers must choose alike
    near: Callable[[], Sequence[str]],  # function that returns the overlay neighbours of the asking peer
) -> list[str]:
    """Peers to probe for a component that does not exist, the preferred ones first."""
    up = _candidates(request, plan.upstream(operator)) if meets else [own]
    down = _candidates(request, plan.downstream(operator))
    along = [] if meets else [hop.peer for hop in reversed(path)]
    around = [*request.near] if meets else [*near(), *request.near]
    if request.stage >= COMPLETE:
        found = [*up, *down, *along, *around, request.origin, *request.candidates.get(operator, ())]
    elif request.stage == NEIGHBOURS:
        found = [*along, *around]
    else:
        upstream_first = _upstream_first(plan, operator) == (request.stage == 1)
        found = (up or down) if upstream_first else (down or up)
    return list(dict.fromkeys(found)) or [request.origin]


def _upstream_first(plan: Plan, operator: str) -> bool:
    first = all(plan.operators[up].kind in ("source", TAP) for up in plan.upstream(operator))
    last = all(plan.operators[down].kind == "sink" for down in plan.downstream(operator))
    if first != last:
        return last
    return plan.selectivity(operator) <= 1.0


def _candidates(request: ProbedRequest, operators: Sequence[str]) -> list[str]:
    """Candidates of operators, in an order that depends on the request alone."""
    found = {address for operator in operators for address in request.candidates.get(operator, ())}
    return sorted(found, key=lambda address: zlib.crc32(f"{request.request}/{request.attempt}/{address}".encode()))
