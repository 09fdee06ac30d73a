"""The compiled part of :mod:`synergy_experiments.flows.flow`: a calendar of events, and the execution of events.

Theory of operation
-------------------
A peer serves one tuple at a time, first come first served. So the end of a tuple's service is known when the tuple
arrives: the time at which the peer becomes free, or now if it is free, plus the processing time. One event for each
tuple and component suffices, its arrival; departures need none. Tuples leave a peer in the order of arrival, so the
time at which a tuple is sent over the link to the next peer is known at once, too.

Events are executed in the order of time and, at equal times, in the order of scheduling; so a run is a function of its
seed. They wait in a calendar queue [1]_: a ring of days, each with its events in order, and so short that few days have
more than two events. A new event belongs at or near the end of its day, and the next event is mostly on this day or the
next, for any number of events. (A heap with four children per node was measured, too: to remove and schedule an event,
it takes 158 ns with 11,000 events and 376 ns with 94,000, the calendar 35 ns and 57 ns.) The length of a day follows
the rate of events.

Every component has its own random generator (splitmix64), so its n-th tuple takes the same time in every simulation:
policies are compared on equal inputs.

All state is in the tables of :mod:`synergy_experiments.flows.flow_tables`, so a run can stop and continue, with
components added in between. The compiled code is cached on disk until this file changes, so the constants that it
contains are defined here.

References
----------
.. [1] R. Brown, "Calendar queues: a fast O(1) priority queue implementation for the simulation event set problem",
   *Communications of the ACM* 31(10), 1988.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from synergy_nb.models.compiling import compiled

__all__ = [
    "CONSTANT",
    "DRAWN",
    "EXPONENTIAL",
    "ON_OFF",
    "PERIODIC",
    "POISSON",
    "RING",
    "TRACE",
    "advance",
    "replan",
    "reroute",
    "schedule",
]

# Kinds of processing times, and of arrivals.
CONSTANT: Final = 0
EXPONENTIAL: Final = 1
DRAWN: Final = 2
POISSON: Final = 0
PERIODIC: Final = 1
ON_OFF: Final = 2
TRACE: Final = 3

#: Tuples that an input of a matching component may be ahead of another; must be a power of two.
RING: Final = 4096
#: Seconds by which times that should be equal may differ, as they are sums in different orders.
INSTANT: Final = 1e-9

# -- the calendar ------------------------------------------------------------------------------------------------------


@compiled
def schedule(state: Any, days: Any, events: Any, when: float, node: int, edge: int, born: float) -> None:
    """Schedule an event in an unused row, after all events at the same time."""
    number = state.unused
    event = events[number]
    state.unused = event.after
    state.events += 1
    event.when = when
    event.born = born
    event.node = node
    event.edge = edge
    _enter(state, days, events, number)


@compiled
def _enter(state: Any, days: Any, events: Any, number: int) -> None:
    """Insert an event into its day, in order."""
    event = events[number]
    at = np.int64(event.when * state.a_second)
    if at < state.today:
        state.today = at
    day = days[at & (len(days) - 1)]
    before = day.last
    after = np.int32(-1)
    while before >= 0 and events[before].when > event.when:
        after = before
        before = events[before].before
        state.effort += 1
    event.before = before
    event.after = after
    if before >= 0:
        events[before].after = number
    else:
        day.first = number
    if after >= 0:
        events[after].before = number
    else:
        day.last = number


@compiled
def _next(state: Any, days: Any, events: Any) -> int:
    """Number of the earliest event, of which there is one; ``today`` is its day then."""
    today = state.today
    for _ in range(len(days)):
        number = days[today & (len(days) - 1)].first
        if number >= 0 and np.int64(events[number].when * state.a_second) <= today:
            state.effort += today - state.today
            state.today = today
            return int(number)
        today += 1
    state.effort += 2 * len(days)
    earliest = -1  # nothing for a round of the ring: look everywhere
    for day in days:
        number = day.first
        if number >= 0 and (earliest < 0 or events[number].when < events[earliest].when):
            earliest = number
    state.today = np.int64(events[earliest].when * state.a_second)
    return earliest


@compiled
def _strike(state: Any, days: Any, events: Any, number: int) -> None:
    """Remove the event that :func:`_next` found from the calendar."""
    event = events[number]
    day = days[state.today & (len(days) - 1)]
    day.first = event.after
    if event.after >= 0:
        events[event.after].before = -1
    else:
        day.last = -1
    event.after = state.unused
    state.unused = number
    state.events -= 1
    state.carried_out += 1


@compiled
def replan(state: Any, days: Any, kept: int, fresh_days: Any, fresh_events: Any, a_second: float) -> None:
    """Move the events to another calendar. Those at the same time were on one day, in their order, and stay so.

    Parameters
    ----------
    state
        State of the run; the function sets ``a_second``, its number of days of the calendar queue per second.
    days
        Days of the old calendar.
    kept
        Rows of ``fresh_events`` that hold the old ones; those after them are new.
    fresh_days, fresh_events
        Days and events of the new calendar.
    """
    for number in range(kept, len(fresh_events)):
        fresh_events[number].after = state.unused
        state.unused = number
    for day in fresh_days:
        day.first = -1
        day.last = -1
    state.a_second = a_second
    state.today = np.int64(1) << 62
    for day in days:
        number = day.first
        while number >= 0:
            following = fresh_events[number].after
            _enter(state, fresh_days, fresh_events, number)
            number = following


@compiled
def reroute(state: Any, days: Any, events: Any, edges: Any, links: Any, old: int, new: int, moment: float) -> None:
    """Send the tuples of an edge over another one if their transmission begins at or after a moment.

    Tuples leave a peer in the order of arrival, so their arrivals at the next one were scheduled when they arrived.

    Parameters
    ----------
    old, new
        Numbers of the edges, out of the same component.
    moment
        Virtual time, seconds; all earlier events have been executed.
    """
    before = edges[old]
    after = edges[new]
    travel = before.delay + before.transmission
    count = 0
    chain = np.int32(-1)  # of those that change their edge
    for place in range(len(days)):
        number = days[place].first
        while number >= 0:
            event = events[number]
            following = event.after
            if event.edge == old and event.when - travel >= moment - INSTANT:
                if event.before >= 0:
                    events[event.before].after = event.after
                else:
                    days[place].first = event.after
                if event.after >= 0:
                    events[event.after].before = event.before
                else:
                    days[place].last = event.before
                event.after = chain
                chain = number
                count += 1
            number = following
    numbers = np.empty(count, dtype=np.int32)
    times = np.empty(count)
    for place in range(count - 1, -1, -1):
        numbers[place] = chain
        times[place] = events[chain].when
        chain = events[chain].after
    for place in np.argsort(times, kind="mergesort"):
        event = events[numbers[place]]
        there = max(event.when - travel, moment)
        if before.link >= 0:
            links[before.link].free -= before.transmission
            links[before.link].busy -= before.transmission
        if after.link >= 0:
            link = links[after.link]
            there = max(there, link.free) + after.transmission
            link.free = there
            link.busy += after.transmission
        event.when = there + after.delay
        event.edge = new
        event.node = after.to
        _enter(state, days, events, numbers[place])


# -- chance ------------------------------------------------------------------------------------------------------------


@compiled
def _uniform(node: Any) -> float:
    """The next of the component's random numbers, from 0 to below 1 (splitmix64, the upper 53 bits)."""
    mixed = node.generator + np.uint64(0x9E3779B97F4A7C15)
    node.generator = mixed
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return np.float64(mixed >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@compiled
def _exponential(node: Any, mean: float) -> float:
    return -math.log(1.0 - _uniform(node)) * mean


@compiled
def _arrival(source: Any, node: Any, now: float, pool: Any) -> float:
    """Time of the next tuple of a source after ``now``; infinite if there is none."""
    if source.left == 0:
        return math.inf
    source.left -= 1
    if source.kind == POISSON:
        when = now + _exponential(node, 1.0 / source.high)
    elif source.kind == PERIODIC:
        when = now + 1.0 / source.high
    elif source.kind == TRACE:
        if source.place == source.length:
            return math.inf
        when = source.start + pool[source.first + source.place]
        source.place += 1
    else:
        when = now
        while True:
            rate = source.high if source.state == 2 else source.low
            after = when + _exponential(node, 1.0 / rate) if rate > 0.0 else math.inf
            if after <= source.turn:
                when = after
                break
            when = source.turn
            if when > source.until:
                return math.inf
            source.state = 3 - source.state
            length = source.on if source.state == 2 else source.off
            source.turn += _exponential(node, length) if source.exponential else length
    return when if when <= source.until else math.inf


# -- tuples ------------------------------------------------------------------------------------------------------------


@compiled
def _match(profile: Any, number: int, born: float, rings: Any, ring_births: Any) -> float:
    """Record tuple ``number`` of an input; return the least birth time if all inputs have it, else nan."""
    if number < profile.matched:  # the others were so far ahead that this was given up
        profile.lost += 1
        return math.nan
    while number >= profile.matched + RING:
        place = profile.ring + (profile.matched & (RING - 1))
        profile.lost += rings[place]
        rings[place] = 0
        profile.matched += 1
    place = profile.ring + (number & (RING - 1))
    ring_births[place] = min(ring_births[place], born) if rings[place] else born
    rings[place] += 1
    if rings[place] < profile.inputs:
        return math.nan
    rings[place] = 0
    profile.matched = number + 1
    return float(ring_births[place])


@compiled
def _drawn(profile: Any, pool: Any) -> float:
    """The next processing time from the component's list."""
    place = profile.place
    profile.place = place + 1 if place + 1 < profile.length else 0
    return float(pool[profile.first + place])


@compiled
def _outputs(node: Any, profile: Any) -> int:
    """Number of outputs of the tuple just served: from the accumulated selectivity, or at random."""
    if profile.random:
        whole = math.floor(profile.selectivity)
        return int(whole) + (1 if _uniform(node) < profile.selectivity - whole else 0)
    credit = profile.credit + profile.selectivity
    whole = math.floor(credit)
    profile.credit = credit - whole
    return int(whole)


@compiled
def _deliver(application: Any, births: Any, delays: Any, born: float, done: float) -> None:
    """Record a tuple at the sink of an application; when the records are full, discard every second one."""
    delay = done - born
    if application.tuples % application.stride == 0:
        if application.kept == len(births):
            application.stride *= 2
            application.kept = (len(births) + 1) // 2
            for place in range(application.kept):
                births[place] = births[2 * place]
                delays[place] = delays[2 * place]
        if application.tuples % application.stride == 0:
            births[application.kept] = born
            delays[application.kept] = delay
            application.kept += 1
    application.tuples += 1
    application.total += delay
    application.squares += delay * delay
    application.most = max(application.most, delay)
    if delay > application.limit + INSTANT:
        application.late += 1
        application.late_total += delay


@compiled
def _observe(state: Any, observed: Any, now: float, born: float, done: float, at: int) -> None:
    """Record the arrival of a tuple, and its departure."""
    row = observed[state.observed]
    state.observed += 1
    row.when = now
    row.born = born
    row.done = done
    row.node = at


@compiled
def advance(
    until: float,
    backlog: float,
    reserve: int,
    state: Any,
    days: Any,
    events: Any,
    nodes: Any,
    profiles: Any,
    sources: Any,
    edges: Any,
    brought: Any,
    links: Any,
    peers: Any,
    applications: Any,
    pool: Any,
    rings: Any,
    ring_births: Any,
    births: Any,
    delays: Any,
    observed: Any,
) -> bool:
    """Execute all events up to ``until``, or until a table has to be resized.

    Parameters
    ----------
    until
        Virtual time, seconds.
    backlog
        Seconds of work that may wait at a peer.
    reserve
        Events that one may bring about; so many are not in use when it is carried out.
    state
        State of the run, a single row.
    observed
        Table of tuples that arrive at components at peers; empty if they are not observed.

    Returns
    -------
    bool
        Whether it is done; if not, the calendar is to grow, or to have longer or shorter days, or ``observed`` to grow.
    """
    position = state[0]
    observing = len(observed) > 0
    enough = max(8 * len(days), 1024)
    while position.events > 0:
        number = _next(position, days, events)
        now = events[number].when
        if now > until:
            break
        if position.events + reserve > len(events) or position.carried_out + position.effort > enough:
            return False
        if observing and position.observed == len(observed):
            return False
        born = events[number].born
        at = int(events[number].node)
        over = int(events[number].edge)
        _strike(position, days, events, number)
        node = nodes[at]
        arrives = node.alive != 0
        if over < 0:
            source = sources[~over]
            born = now
            if source.state == 0:
                source.state = 2
                source.turn = now + (_exponential(node, source.on) if source.exponential else source.on)
                arrives = False
            following = _arrival(source, node, now, pool) if node.alive else math.inf
            if following < math.inf:
                schedule(position, days, events, following, at, over, following)
        elif arrives and node.matching:
            port = brought[brought[over].port]
            born = _match(profiles[profiles[at].shared], port.tuples, born, rings, ring_births)
            port.tuples += 1
            arrives = not math.isnan(born)
        if not arrives:
            continue
        begin = now
        if node.peer >= 0:
            begin = max(now, peers[node.peer].free)
            late = begin - born > node.patience + INSTANT
            if late or begin - now > backlog:
                if late:
                    profiles[at].dropped += 1
                else:
                    profiles[profiles[at].shared].lost += 1
                if observing:
                    _observe(position, observed, now, born, math.nan, at)
                continue
        taken = node.mean
        if node.service == EXPONENTIAL:
            taken = _exponential(node, taken)
        elif node.service == DRAWN:
            taken *= _drawn(profiles[profiles[at].shared], pool)
        done = begin + taken
        if node.peer >= 0:
            peers[node.peer].free = done
            peers[node.peer].busy += taken
            position.served += 1
            if observing:
                _observe(position, observed, now, born, done, at)
        node.served += 1
        node.waiting += begin - now
        node.busy += taken
        if node.application >= 0:
            whose = node.application
            _deliver(applications[whose], births[whose], delays[whose], born, done)
        if node.edge < 0:
            continue
        for _ in range(1 if node.plain else _outputs(node, profiles[profiles[at].shared])):
            out = int(node.edge)
            while out >= 0:
                edge = edges[out]
                there = done
                if edge.link >= 0:
                    link = links[edge.link]
                    there = max(done, link.free) + edge.transmission
                    link.free = there
                    link.busy += edge.transmission
                there += edge.delay
                if edge.sink >= 0:
                    whose = edge.sink
                    _deliver(applications[whose], births[whose], delays[whose], born, there)
                else:
                    schedule(position, days, events, there, int(edge.to), out, born)
                out = int(edge.next)
    return True
