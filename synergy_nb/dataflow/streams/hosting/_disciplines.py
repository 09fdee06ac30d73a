"""Scheduling disciplines: which of the components with queued work is executed next. No IO, no clock.

Theory of operation
-------------------
*First come, first served* (``fcfs``) orders chunks by their arrival, as the papers assume (section 2.3.4, footnote 3).
*Earliest deadline first* (``edf``) [1]_ orders them by deadline: the time at which the oldest tuple of the chunk
entered the system, plus the delay limit q_t of its application, or of the one with the least limit among those that
share its stream. *Least slack* (``least_slack``, also least laxity) [2]_
orders them by the slack t_s of equation 3.1: what is left until the deadline, less the time that the chunk is predicted
to take, here and downstream. The present time is the same for all of them, so the latest time to start is compared. A
chunk of an application without a limit has no deadline: it waits until no other chunk does.

A plan may state the discipline of its application; all others have the discipline of the peer. Where applications with
different disciplines meet, they are scheduled in two levels, as by the scheduling classes of operating systems [3]_:
applications of one discipline form a class; each class nominates the chunk that its own discipline puts first; of
the nominated chunks the one goes first that the discipline of the peer puts first. So a discipline orders exactly the
applications that ask for it, and how these share the peer with all others is up to the peer: a plan cannot give itself
precedence. No chunk is passed over for ever by another class under ``fcfs``, as each nominated chunk grows older.

.. [1] C. L. Liu, J. W. Layland. Scheduling algorithms for multiprogramming in a hard-real-time environment. JACM 20(1),
   1973.
.. [2] A. K. Mok. Fundamental design problems of distributed systems for the hard-real-time environment. PhD thesis,
   MIT, 1983.
.. [3] J. Regehr, J. A. Stankovic. HLS: A framework for composing soft real-time schedulers. RTSS 2001.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from synergy_nb.dataflow.deployments import Role
from synergy_nb.dataflow.streams.log.merge import WaitingChunk
from synergy_nb.dataflow.streams.log.values import Chunk

if TYPE_CHECKING:
    from synergy_nb.dataflow.streams.component.component import Component


def first(
    runnable: Mapping[Component, WaitingChunk],
    discipline: str,  # discipline of the peer
    # predicate that decides whether the driver can execute a chunk now. If given, no unfinished work is resumed
    accept: Callable[[Component, Chunk], bool] | None = None,
) -> Component | None:
    """Return the component that is executed next, or None if there is none."""
    if len(runnable) == 1 and accept is None:
        return next(iter(runnable))
    nominated: dict[str, tuple[tuple[float, int], Component, Chunk]] = {}
    for component, (sequence, _, chunk) in runnable.items():
        if accept is not None and component.left:
            continue
        own = component.terms.discipline or discipline
        arrival = own == "fcfs" and component.role is not Role.FOLLOWER
        rank = (0.0 if arrival else _rank(component, chunk, own)), sequence
        best = nominated.get(own)
        if (best is None or rank < best[0]) and (accept is None or accept(component, chunk)):
            nominated[own] = rank, component, chunk
    if len(nominated) > 1:
        among = nominated.values()
        return min(among, key=lambda each: (_rank(each[1], each[2], discipline), each[0][1]))[1]
    for _, component, _ in nominated.values():
        return component
    return None


def _rank(component: Component, chunk: Chunk, discipline: str) -> float:
    """Return the time by which a discipline orders a chunk: 0, its deadline, or the latest time to start; seconds.

    Followers come last: nobody waits for what they emit.
    """
    if component.role is Role.FOLLOWER:
        return math.inf
    if discipline == "fcfs":
        return 0.0
    deadline = chunk.born + min(component.terms.limit, component.sharers_limit)
    if discipline == "edf":
        return deadline
    return deadline - component.terms.transit - (component.tuple_s.moving + component.terms.remaining) * chunk.rows
