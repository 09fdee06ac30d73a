"""Choice of the origin of a request, v_s of section 2.2.4: the nearest peer by measured delays.

A request is submitted directly to the node that the client runs, "or redirected to a Synergy node v_s that is closest
to the client based on a predefined proximity metric (e.g., geographical location). Alternative policies can select v_s
to be the Synergy node closest to the source or the sink node(s) of the application." The metric here is the round-trip
time; with several nodes, the sum of the round-trip times.

==========  =======================================================================================================
``client``  nearest to the client
``source``  nearest to the sources of the plan
``sink``    nearest to its sinks
``near``    nearest to all of these together
==========  =======================================================================================================

A source or a sink is at the peer to which the plan pins it. A source that is not pinned is at the nearest peer that
offers it. A source that the client feeds, and a sink that is not pinned, are at the client.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, TypeAlias

from synergy_nb.lifecycle.requests.decider import component_name
from synergy_nb.plan import Plan

__all__ = ["CLIENT", "POLICIES", "ends_of", "nearest"]

POLICIES: Final = ("client", "source", "sink", "near")

#: An end of an application (source, sink or client): its possible peers, of which the nearest counts; None: the client.
_End: TypeAlias = frozenset[str] | None
CLIENT: Final[_End] = None

TIED: Final = 0.002  # seconds; peers whose delays differ by less are equally near
TIED_SHARE: Final = 0.1  # share of the least delay; peers whose delays differ by less than that are equally near


def ends_of(plan: Plan, policy: str, peers: Mapping[str, Collection[str]], names: Mapping[str, str]) -> list[_End]:
    """Find the ends of an application that its origin should be near.

    ``policy``: rule by which the origin is chosen, from :data:`POLICIES`; ``peers``: address of each peer that answers
    to the names of the components that it offers; ``names``: address of a peer to its name, as plans may pin operators
    by name.

    Examples
    --------
    >>> from synergy_nb.plan import source
    >>> offers = {"a": ["source:packets", "filter"], "b": ["filter"], "c": ["source:packets"]}
    >>> plan = source("packets", id="x").union(source("packets", at="b", id="y")).sink()
    >>> [sorted(end) if end else end for end in ends_of(plan, "near", offers, {})]
    [None, ['a', 'c'], ['b'], None]
    """
    ends: list[_End] = [CLIENT] if policy in ("client", "near") else []
    for name, operator in plan.operators.items():
        is_source, is_sink = not operator.inputs, operator.kind == "sink"
        if not ((is_source and policy in ("source", "near")) or (is_sink and policy in ("sink", "near"))):
            continue
        if operator.at is not None:
            ends.append(frozenset(each for each in peers if operator.at in (each, names.get(each))))
        elif is_sink or operator.params.get("connector") == "python":
            ends.append(CLIENT)
        else:
            wanted = component_name(plan, name)
            ends.append(frozenset(each for each, offered in peers.items() if wanted in offered))
    return ends


def nearest(
    candidates: Sequence[str],  # addresses of the peers that may become the origin
    # ends of the application, see `ends_of`. An end to which no candidate has a known delay is ignored
    ends: Sequence[_End],
    client: Mapping[str, float],  # address of a peer to the round-trip time between it and the client, in seconds
    # function that returns the round-trip time between two peers, seconds; None if it was not measured
    between: Callable[[str, str], float | None],
) -> list[str]:
    """Sort candidates by the sum of their delays to all ends, the nearest first.

    Peers are equally near if their sums exceed the least by less than a tenth or 2 ms; they remain in the given order.
    Peers without a known delay come last, in the given order.

    Examples
    --------
    >>> nearest("abc", [CLIENT], {"a": 0.08, "b": 0.02, "c": 0.021}, lambda one, other: None)
    ['b', 'c', 'a']
    >>> nearest("abc", [frozenset("a")], {}, lambda one, other: 0.05)
    ['a', 'b', 'c']
    """
    totals: dict[str, float | None] = dict.fromkeys(candidates, 0.0)
    for end in ends:
        found = {each: _delay(each, end, client, between) for each in candidates}
        if all(delay is None for delay in found.values()):
            continue
        for each, delay in found.items():
            total = totals[each]
            totals[each] = None if total is None or delay is None else total + delay
    least = min((total for total in totals.values() if total is not None), default=0.0)
    tied = least + max(TIED, TIED_SHARE * least)

    def rank(candidate: str) -> tuple[bool, float]:
        total = totals[candidate]
        return (True, 0.0) if total is None else (False, max(total, tied))

    return sorted(candidates, key=rank)


def _delay(
    candidate: str, end: _End, client: Mapping[str, float], between: Callable[[str, str], float | None]
) -> float | None:
    if end is None:
        return client.get(candidate)
    delays = [0.0 if each == candidate else between(each, candidate) for each in end]
    return min((delay for delay in delays if delay is not None), default=None)
