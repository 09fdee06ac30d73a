"""Which operator limits the rate of an application, and by which measure that is known."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from synergy_nb.events import Why
from synergy_nb.events.application_states import Status
from synergy_nb.plan import Plan
from synergy_nb.plan.derived.active_replicas import original
from synergy_nb.reporting.formatting import rate, seconds, share
from synergy_nb.reporting.peer_states import PeerState
from synergy_nb.reporting.stalls import Stall

__all__ = ["Bottleneck", "bottleneck"]

FULL: Final = 0.5  # share of its window from which on a reader limits who writes for it: it acknowledges in quarters
BUSY: Final = 0.9  # share of its time from which on an operator has no time left


class Bottleneck(NamedTuple):
    """The operator that limits the rate of an application; false if none does.

    Parameters
    ----------
    operator
        Id of the operator; empty if no operator limits the rate.
    peer
        Name of its peer.
    measure
        Measure by which that is known: ``"credit"``, the share of its window that its producers have used up, where it
        is the busiest of which that is so; ``"results"``, the share of what a sink may retain that its readers have
        not read; ``"busy"``, the share of its time that it executes. Empty if no operator limits the rate.
    value
        Share by that measure, 0 to 1.
    text
        Sentence that says all of it, or why no operator limits the rate.

    Examples
    --------
    >>> found = Bottleneck(text="no operator limits the rate: packets gives 200 tuples/s, which is its own pace")
    >>> found, bool(found)
    (no operator limits the rate: packets gives 200 tuples/s, which is its own pace, False)
    """

    operator: str = ""
    peer: str = ""
    measure: str = ""
    value: float = 0.0
    text: str = ""

    def __bool__(self) -> bool:
        return bool(self.operator)

    def __repr__(self) -> str:
        return self.text


def bottleneck(
    application: str,
    plan: Plan,
    status: str,
    graph: Mapping[str, str],  # operator to the name of its peer
    states: Mapping[str, PeerState | None],  # name of each of these peers to its state; None: it does not answer
    waits: Sequence[Stall] = (),  # what it waits for at present
) -> Bottleneck:
    """Return the operator that limits the rate of a running application."""
    if status != Status.RUNNING:
        return Bottleneck(text=f"no operator limits the rate: {application} is {status}")
    outside = [each.text for each in waits if each.why is Why.UNREACHABLE]
    if outside:  # measures of operators say nothing about what is not there
        return Bottleneck(text=f"no operator limits the rate: {'; '.join(outside)}")
    found = {
        stats["operator"]: stats
        for operator, peer in graph.items()
        for stats in _of(states.get(peer), application)
        if stats["operator"] == operator
    }
    credit = dict.fromkeys(graph, 0.0)  # that its producers have used up
    for stats in found.values():
        for reader, used in stats["windows"].get(application, {}).items():
            credit[reader] = min(max(used, credit.get(reader, 0.0)), 1.0)
    unread = {name: stats["windows"].get("", {}).get(name, 0.0) for name, stats in found.items()}
    name = max(unread, key=unread.__getitem__, default="")
    if name and unread[name] >= FULL:
        text = f"{share(min(unread[name], 1.0))} of the results that it may retain have not been read"
        return _limited(name, graph, "results", min(unread[name], 1.0), text)
    limiting = [name for name in graph if credit[name] >= FULL]
    if limiting:  # who waits for another one is less busy than that one
        name = max(limiting, key=lambda each: float(found[each]["busy"]) if each in found else math.inf)
        text = f"its producers have used up {share(credit[name])} of the credit that it gives them"
        work = _work(found[name]) if name in found else f"{graph[name]} does not answer"
        return _limited(name, graph, "credit", credit[name], f"{text}; {work}")
    name = max(found, key=lambda each: float(found[each]["busy"]), default="")
    if name and found[name]["busy"] >= BUSY:
        return _limited(name, graph, "busy", min(found[name]["busy"], 1.0), _work(found[name]))
    silent = sorted(peer for peer in set(graph.values()) if states.get(peer) is None)
    if silent:
        return Bottleneck(text=f"which operator limits the rate is not known: {', '.join(silent)} does not answer")
    sources = [each for each in found if plan.operators[original(each)].kind == "source"]
    given = " and ".join(f"{each} gives {rate(found[each]['output_rate'])}" for each in sources)
    pace = f"{given}, which is its own pace" if given else "others make the streams that it reads"
    busiest = f"; the busiest operator is {name}, which works {share(found[name]['busy'])} of the time" if name else ""
    return Bottleneck(text=f"no operator limits the rate: {pace}{busiest}")


def _of(state: PeerState | None, application: str) -> Iterable[Mapping[str, Any]]:
    return () if state is None else [each for each in state.components if each["application"] == application]


def _work(stats: Mapping[str, Any]) -> str:
    """Text about what an operator does: how much of the time, of how many tuples, and for how long each."""
    each = f", {seconds(stats['processing_s'])} each" if stats["processing_s"] else ""
    return f"it works {share(min(stats['busy'], 1.0))} of the time, for {rate(stats['rate'])}{each}"


def _limited(name: str, graph: Mapping[str, str], measure: str, value: float, text: str) -> Bottleneck:
    return Bottleneck(name, graph[name], measure, value, f"{name} at {graph[name]} limits the rate: {text}")
