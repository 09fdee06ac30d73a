"""What becomes of each operator when a plan takes the place of one that runs: what goes on, and what begins anew.

Two operators do the same work if their streams have the same canonical name (:meth:`.Plan.stream_name`). Such an
operator goes on as it is, with its state, and so does all that is upstream of it. Every other one begins anew: it reads
the streams of what goes on from some point on. An operator with windows has complete results for the windows that begin
after that point; so the new plan has caught up when the longest way through its windows has passed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from synergy_nb.plan.checks.replica_degrees import asks_for_active, asks_for_replicas, degrees
from synergy_nb.plan.checks.validation import Operator, PlanError, Problem, event_time_of
from synergy_nb.plan.derived.placement_modes import decider_of
from synergy_nb.plan.derived.source_readers import readers_of
from synergy_nb.plan.operators.catalogue import KINDS
from synergy_nb.plan.operators.destinations import place_of
from synergy_nb.plan.query_plan import Plan
from synergy_nb.plan.terms.units import format_duration, type_of

__all__ = ["PlanChange", "apart", "change_of", "check_replacement"]


class PlanChange(NamedTuple):
    """A plan in the place of one that runs.

    Attributes
    ----------
    kept
        Operator of the new plan to the operator of the old one that goes on as it, with its state.
    anew
        Operators of the new plan that begin anew.
    stateless
        Operators of ``anew`` without the state that they would have had, as no time is known after which it is whole.
    ended
        Operators of the old plan that end.
    settles
        Event time that the new plan reads until its results are complete, seconds: its windows, one after another, and
        the time by which rows may be late, as those that came before it has joined are not in its results.
    period
        Event time from one end of windows of both plans to the next one, seconds: results change there, so that each
        tuple is in a window of one of them. 0: results have no windows.
    destinations
        Sink to the place of its destination: that goes on with the rows of the new plan, after the last one of the old.
    lost
        Source to what of it is lost, in words, as the application is composed anew: in a durable cluster.
    """

    kept: Mapping[str, str]
    anew: tuple[str, ...]
    stateless: tuple[str, ...]
    ended: tuple[str, ...]
    settles: float
    period: float
    destinations: Mapping[str, str] = MappingProxyType({})
    lost: Mapping[str, str] = MappingProxyType({})

    @property
    def seconds(self) -> float:
        """Longest event time until results are of the new plan, from when it runs, seconds."""
        return self.settles + 2.0 * self.period

    def point(self, joined: Iterable[int]) -> int:
        """Event time up to which results are of the old plan, microseconds.

        ``joined``: event times from which on the new plan has everything, but rows that are late, or up to which
        results were read, microseconds.

        >>> PlanChange({}, (), (), (), settles=2.0, period=3.0).point([5_500_000, 1_000_000])
        8999999
        """
        return event_time_of(self.settles, self.period, joined)

    def __str__(self) -> str:
        takes = f"{format_duration(self.seconds)} of event time at most" if self.seconds else "as soon as it runs"
        lines = [
            ("go on with their state", [new if new == old else f"{new} (now {old})" for new, old in self.kept.items()]),
            ("begin anew", [each for each in self.anew if each not in self.stateless]),
            ("begin anew, without what they would remember", self.stateless),
            ("end", self.ended),
        ]
        said = [f"  {what}: {', '.join(names)}" for what, names in lines if names]
        written = ", ".join(f"{place} (of {sink})" for sink, place in self.destinations.items())
        if written:
            said.append(f"  get the rows of the old plan, and from one event time on those of the new one: {written}")
        said += [f"  loses {what}: {source}" for source, what in self.lost.items()]
        return "\n".join([f"the new plan takes over {'after ' if self.seconds else ''}{takes}", *said])

    def __repr__(self) -> str:
        return str(self)


def apart(plan: Plan) -> frozenset[str]:
    """Operators whose streams only the plan itself makes: where any is to have replicas, all but the sources.

    A component that goes on for others after the end of its application has no copies. So the peers whose deaths end
    the application are those of sources and sinks, as if the plan had been submitted.

    Examples
    --------
    >>> from synergy_nb.plan import source
    >>> large = source("packets").filter("bytes > 9", availability="degree 2").project("link")
    >>> sorted(apart(large.sink())), sorted(apart(source("packets").filter("bytes > 9").sink()))
    (['filter', 'project', 'sink'], [])
    """
    operators = plan.operators.items()
    asks = any(asks_for_replicas(each, plan.qos) for _, each in operators)
    return frozenset(name for name, each in operators if asks and each.kind != "source")


def change_of(old: Plan, new: Plan, *, durable: bool = False) -> PlanChange:
    """Compare a plan with one that is to take its place.

    ``durable``: whether it goes on from a durable folder, so that no streams have to be shared: elsewhere all but the
    sources begins anew where the new plan asks for replicas.

    Raises ``PlanError`` if it cannot: it is no plan, it has other sinks, or a source that the old one has not.

    Examples
    --------
    >>> from synergy_nb.plan import source
    >>> packets = source("packets", rate="10 tuples/s").filter("bytes > 9", id="large")
    >>> change_of(packets.count(window="1 s", id="n").sink(), packets.count(window="10 s", id="n").sink())
    the new plan takes over after 30 s of event time at most
      go on with their state: source, large
      begin anew: n
      end: n
    """
    given: Any = new
    if not isinstance(given, Plan):
        expected = "a Plan, which .sink() at the end of a stream returns"
        raise PlanError([Problem("", "plan", type_of(given), expected)])
    if problems := [*_problems(old, new)]:
        raise PlanError(problems)
    shared = [name for name in _made(old) if durable or _may_be_shared(old, name)]
    made = {old.stream_name(name): name for name in shared}
    alone = frozenset() if durable else apart(new)
    kept = {
        name: made[stream] for name in _made(new) if name not in alone and (stream := new.stream_name(name)) in made
    }
    anew = tuple(name for name in _made(new) if name not in kept)
    settling = {name: _settles(new, name) for name in anew}
    going = set(kept.values())
    waited = {name: seconds for name, seconds in settling.items() if seconds < math.inf}
    late = max(new.operators[name].params.get("lateness") or 0.0 for name in new.sources)
    settles = late + max((sum([waited.get(each, 0.0) for each in way]) for way in new.routes), default=0.0)
    return PlanChange(
        kept,
        anew,
        tuple(name for name in anew if settling[name] == math.inf),
        tuple(name for name in _made(old) if name not in going),
        settles,
        _period([*map(old.window, old.sinks), *map(new.window, new.sinks)]),
        {sink: place_of(new.operators[sink].params["to"]) for sink in new.sinks if "to" in new.operators[sink].params},
    )


def _made(plan: Plan) -> list[str]:
    return [name for name, each in plan.operators.items() if each.kind != "sink"]


def _may_be_shared(plan: Plan, operator: str) -> bool:
    """Whether other applications may read a stream: of a plan with active replicas only those of single sources."""
    each = plan.operators[operator]
    return not asks_for_active(plan.operators.values(), plan.qos) or (
        each.kind == "source" and degrees(each, plan.qos).active == 1
    )


def _problems(old: Plan, new: Plan) -> Iterable[Problem]:
    """Why a plan cannot take the place of another one."""
    for sink in new.sinks:
        if sink not in old.sinks:
            yield Problem(sink, "id", repr(sink), f"the sinks of the plan that runs: {', '.join(old.sinks)}")
        elif new.schema(sink) != old.schema(sink):
            columns = ", ".join(f"{name} {kind}" for name, kind in old.schema(sink).items())
            yield Problem(sink, "columns", ", ".join(new.schema(sink)), f"those of the plan that runs: {columns}")
        else:
            yield from _other_destination(sink, old.operators[sink], new.operators[sink])
    for sink in old.sinks:
        if sink not in new.sinks:
            yield Problem(sink, "sinks", ", ".join(new.sinks), f"also {sink!r}, as in the plan that runs")
    streams = {old.stream_name(name) for name in old.sources}
    before, now = _readers(old), _readers(new)
    told = [name for name, readers in now.items() if name in before and len(readers) != len(before[name])]
    for name in told:
        expected = f"{len(before[name])}, as in the plan that runs, whose readers go on"
        yield Problem(name, "readers", len(now[name]), expected)
    for name in new.sources:
        if new.stream_name(name) not in streams and not any(name in now[each] for each in told):
            yield Problem(name, "source", new.stream_name(name), f"one of the plan that runs: {', '.join(streams)}")


def _other_destination(sink: str, old: Operator, new: Operator) -> Iterable[Problem]:
    """Why a sink cannot go on in the destination of another one, which is written at one peer."""
    to, before = new.params.get("to"), old.params.get("to")
    if to != before:
        has = "none" if before is None else f"that of the plan that runs: {place_of(before)}, with the same options"
        yield Problem(sink, "to", None if to is None else place_of(to), has)
    elif to is not None and new.at != old.at:
        yield Problem(sink, "at", new.at, f"{old.at!r}, as in the plan that runs: its peer goes on writing")


def _readers(plan: Plan) -> dict[str, tuple[str, ...]]:
    """The readers of each source, by the operator that has its stream."""
    several = {plan.downstream(readers[0])[0]: readers for readers in readers_of(plan)}
    return {name: (name,) for name in plan.sources} | several


def _period(windows: Iterable[Mapping[str, Any] | None]) -> float:
    """Time from one end of all these windows to the next one, seconds; 0 if none of them has a fixed length."""
    steps = [each.get("slide") or each.get("length") for each in windows if each is not None]
    return math.lcm(*(round(float(each) * 1e6) for each in steps if each)) / 1e6 if any(steps) else 0.0


def _settles(plan: Plan, operator: str) -> float:
    """Event time after which what an operator has not read matters no more, seconds; infinite if it always does."""
    node = plan.operators[operator]
    declared = KINDS.get(node.kind)
    if declared is None:
        return math.inf
    if declared.state in ("", "table"):
        return 0.0
    if declared.span is not None:
        return declared.span(node.params) or math.inf  # 0: the latest tuple of each key, however old
    window: Mapping[str, Any] = node.params.get("window") or plan.window(operator) or {}
    whole = "length" in window and "half_life" not in node.params
    return float(window["length"]) if whole else math.inf


def check_replacement(application: str, old: Plan, new: Plan, *, durable: bool = False) -> None:
    """Check that a plan can be run beside an application until it takes the place of its plan.

    ``durable``: whether it goes on from a durable folder, so that no streams have to be shared.

    Raises ``PlanError`` if that would need two of what there is one of.
    """
    problems = []
    for plan, of in ((old, f"of {application}"), (new, "of the new plan")):
        for name, each in plan.operators.items():
            if each.params.get("connector") == "python":
                expected = f"another source {of}, as the program gives these rows to one plan"
                problems.append(Problem(name, "connector", repr(each.params["connector"]), expected))
            if not durable and each.kind == "source" and asks_for_replicas(each, plan.qos):
                expected = f"none {of}, as the source goes on without copies"
                problems.append(Problem(name, "availability", each.availability, expected))
            if not durable and each.kind == "sink" and asks_for_replicas(each, plan.qos):
                expected = f"that of operators {of} instead, as a sink that goes on in a destination has no backup"
                problems.append(Problem(name, "availability", "that of the plan", expected))
        if decider_of(plan, "composed") == "active" and (durable or plan is new):
            expected = f"none or backups {of}, such as 'degree 2'"
            problems.append(Problem("", "availability", "active replicas", expected))
    if problems:
        raise PlanError(problems)
