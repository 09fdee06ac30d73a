"""A plan that was submitted to a simulation: its state, its results and its measurements in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from synergy_nb.control.driver_messages import HoldApplication
from synergy_nb.control.roles import Roles
from synergy_nb.dataflow.tuples import empty
from synergy_nb.drawing.notebook_views import view_of
from synergy_nb.errors import user_facing
from synergy_nb.events import SkippedLines
from synergy_nb.events.application_states import ENDED, LASTING, Status
from synergy_nb.events.table import Events
from synergy_nb.lifecycle.records.request import Request
from synergy_nb.plan import Plan
from synergy_nb.plan.derived.plan_changes import PlanChange, change_of, check_replacement
from synergy_nb.plan.derived.source_readers import with_readers_apart
from synergy_nb.plan.derived.stream_sharing import endless_sources
from synergy_nb.plan.terms.units import duration
from synergy_nb.reporting.application_display import application_rows, rows_as_html, rows_as_text
from synergy_nb.reporting.application_list import ListedApplication
from synergy_nb.reporting.bottlenecks import Bottleneck, bottleneck
from synergy_nb.reporting.cluster_errors import ClusterError, check_rows, rows_left
from synergy_nb.reporting.explanation import Explanation
from synergy_nb.reporting.formatting import seconds as span
from synergy_nb.reporting.measurements import lacking, lacking_rows
from synergy_nb.reporting.one_sided import ONLY_LIVE_APPLICATION, OneSided
from synergy_nb.reporting.uncovered import notices_of

if TYPE_CHECKING:
    from synergy_nb.recording.moments import Replay
    from synergy_nb.simulator.simulation import Simulation

__all__ = ["SimulatedApplication"]

LONGEST_WAIT: Final = 3600.0  # virtual seconds after which results() and wait() end if no time is given


class SimulatedApplication(OneSided):
    """A plan that was submitted to a simulation, with the methods of a live application.

    Iterating over it yields its results as they arrive. Virtual time passes only in calls that need it:
    :meth:`results`, :meth:`head`, :meth:`stream`, :meth:`wait`, and ``simulation.run()``.
    """

    _elsewhere = ONLY_LIVE_APPLICATION

    def __init__(self, simulation: Simulation, application: str, plan: Plan) -> None:
        self.simulation = simulation
        self.id = application  # id of the application at all peers
        self.plan = plan
        self._stopped = False  # whether stop() was called

    # -- state -------------------------------------------------------------------------------------------------------

    @property
    def origin(self) -> str:
        """Name of the peer that leads it: the one that composed it, or its successor."""
        return self.simulation.world.origin(self.id)

    @property
    def status(self) -> str:
        """``composing``, ``running``, ``finished``, ``failed``, ``stopped`` or ``rejected``."""
        world = self.simulation.world
        if self._orphaned:
            return Status.FAILED.value
        return world.status(self.id) or Status.COMPOSING.value

    @property
    def reason(self) -> str:
        """Reason why the application failed or was stopped; otherwise empty."""
        if self._orphaned:
            return f"its origin {self.origin} has died"
        reports = self.simulation.world.reports.get(self.id)
        return reports[-1].reason if reports else ""

    @property
    def _orphaned(self) -> bool:
        """Whether it has not ended, its origin has died, and no other peer leads it on."""
        world = self.simulation.world
        lasts = world.status(self.id) in (*LASTING, "")
        return lasts and world.dead(self.origin) and not world.successor_lives(self.id)

    @property
    def roles(self) -> Roles:
        """The peers of each operator, as the origin knows them."""
        request = self._request
        if request is not None and request.began is not None:
            return request.roles
        reports = self.simulation.world.reports.get(self.id, [])
        return next((each.roles for each in reversed(reports) if each.roles.peers), Roles())

    @property
    def _request(self) -> Request | None:
        """The record of it at its origin, if that lives."""
        origin = self.simulation.world.synergy.get(self.origin)
        return origin.requests.get(self.id) if origin is not None else None

    @property
    def graph(self) -> dict[str, str]:
        """Component graph λ: operator id to the name of its peer."""
        return dict(self.roles.peers)

    @property
    def backups(self) -> dict[str, list[str]]:
        """Replication graph ρ: id of each replicated operator to the names of its backups' peers."""
        return {operator: list(peers) for operator, peers in self.roles.backups.items()}

    @property
    def cluster(self) -> Simulation:
        """Simulation that runs it."""
        return self.simulation

    @property
    def setup_s(self) -> float:
        """Virtual seconds from submission to the start of its sources; 0 before that."""
        return self.explain().setup_s or 0.0

    @property
    def notices(self) -> list[str]:
        """Notices for the user: limits of replication, and rows that a loop has consumed."""
        looped = sum(self.simulation.world.results[self.id, sink].looped for sink in self.plan.sinks)
        return notices_of(self.graph, self.backups, looped)

    @property
    def listed(self) -> ListedApplication:
        """What a list of applications shows of it."""
        qos = {sink: measured for sink in self.plan.sinks if (measured := self.qos(sink))}
        return ListedApplication(self.plan, self.status, self.reason, qos, frozenset(self.graph.values()))

    @user_facing
    def qos(self, sink: str | None = None) -> dict[str, Any]:
        """Return measurements of a sink: delays in seconds, miss rate and tuples/s, with the limit of the plan.

        ``late`` is the number of rows that the sources have dropped because they came later than ``lateness`` allows.

        ``sink``: name or operator id of the sink; needed only where the plan has several.
        """
        quality = self.simulation.world.quality(self.id, self._sink(sink))
        return lacking({} if quality is None else quality.qos(), self._late(), self._skipped)

    def _late(self) -> dict[str, int]:
        """Return the rows that were dropped because they came too late, by source."""
        late = self.simulation.world.late_rows
        return {name: late[self.id, name] for name in self.plan.operators if (self.id, name) in late}

    @property
    def _skipped(self) -> Mapping[str, SkippedLines]:
        """Malformed lines that the sources skip, by source."""
        return {} if self._request is None else self._request.skipped

    # -- results -----------------------------------------------------------------------------------------------------

    def _sink(self, sink: str | None) -> str:
        try:
            return self.plan.sink(sink)
        except ValueError as error:
            raise ClusterError(str(error)) from None

    @user_facing
    def results(
        self, sink: str | None = None, *, wait: bool = True, seconds: float | str | None = None
    ) -> pl.DataFrame:
        """Return all results so far as one table; by default virtual time passes until the stream has ended.

        ``wait``: whether to run until the end (True), or to return the results that are available now (False);
        ``seconds``: virtual time to run at most, in seconds or as ``"2 min"``.

        Raises ``ClusterError`` if the application fails before the end; if its stream is endless, and neither
        ``seconds`` nor ``wait=False`` is given.
        """
        name = self._sink(sink)
        if seconds is not None and not wait:
            raise ValueError(f"seconds: {seconds!r}; expected none together with wait=False, which waits for nothing")
        collected = self.simulation.world.results[self.id, name]
        if seconds is not None:
            self._until(lambda: collected.ended, duration("seconds", seconds))
        elif wait:
            endless = endless_sources(self.plan, name)
            if endless and not collected.ended and self.status in LASTING:
                raise ClusterError(
                    f"{self.id}: its stream is endless, as its source {', '.join(map(repr, endless))} never ends; "
                    "expected head(100), results(seconds=5) or results(wait=False)"
                )
            self._until(lambda: collected.ended, LONGEST_WAIT)
            if not (collected.ended or self._stopped):
                raise ClusterError(f"{self.id}: {self._why_not_ended()}") from self.simulation.world.broken.get(self.id)
        return self._table(name)

    @user_facing
    def head(self, n: int = 10, sink: str | None = None, *, seconds: float | str | None = None) -> pl.DataFrame:
        """Return the first ``n`` rows of the results; virtual time passes until they have arrived.

        ``n``: number of rows; ``sink``: name or operator id of the sink; needed only where the plan has several;
        ``seconds``: virtual time to run at most, in seconds or as ``"2 min"``.
        """
        name = self._sink(sink)
        check_rows(n)
        limit = LONGEST_WAIT if seconds is None else duration("seconds", seconds)
        collected = self.simulation.world.results[self.id, name]
        self._until(lambda: collected.ended or collected.height - collected.looped >= n, limit)
        return self._table(name).head(n)

    @user_facing
    def latest(self, n: int = 10, sink: str | None = None) -> pl.DataFrame:
        """Return the last ``n`` rows of the results that have come; no time passes.

        This is a look: loops, :meth:`results` and :meth:`head` read on as before.

        ``n``: number of rows; ``sink``: name or operator id of the sink; needed only where the plan has several.
        """
        name = self._sink(sink)
        check_rows(n)
        found = self.simulation.world.results[self.id, name].rows
        return found.tail(n) if found.width else empty(self.plan.schema(name))

    @user_facing
    def stream(self, sink: str | None = None) -> Iterator[pl.DataFrame]:
        """Yield results as they arrive in virtual time, one table for each batch, until the stream ends or is stopped.

        The yielded rows are not stored: :meth:`results` and :meth:`head` return other rows.

        ``sink``: name or operator id of the sink; needed only where the plan has several.

        Raises ``ClusterError`` if the application fails, after all results that had arrived.
        """
        return self._tables(self._sink(sink))

    def _tables(self, sink: str) -> Iterator[pl.DataFrame]:
        collected = self.simulation.world.results[self.id, sink]
        while True:
            while (table := collected.next_table()) is not None:
                yield table
            if collected.ended or self.status == Status.STOPPED:
                return
            if not self._until(partial(collected.has_more_than, collected.height), LONGEST_WAIT):
                if self.status == Status.STOPPED:
                    return
                raise ClusterError(f"{self.id}: {self._why_not_ended()}") from self.simulation.world.broken.get(self.id)

    def __iter__(self) -> Iterator[pl.DataFrame]:
        return self.stream()

    @user_facing
    def wait(self, timeout: float | str | None = None) -> str:
        """Let virtual time pass until it has ended; return its status.

        ``timeout``: longest virtual time, in seconds or as ``"2 min"``; None: one hour.

        Raises ``TimeoutError`` if it still runs then.
        """
        limit = LONGEST_WAIT if timeout is None else duration("timeout", timeout, least=0.0)
        if not self._until(lambda: self.status in ENDED, limit):
            raise TimeoutError(f"{self.id} still runs after {span(limit)} of virtual time")
        if self.status == Status.FINISHED:  # the last rows are collected a little later
            collected = [self.simulation.world.results[self.id, sink] for sink in self.plan.sinks]
            self._until(lambda: all(each.ended for each in collected), 10.0)
        return self.status

    def _until(self, condition: Callable[[], bool], limit: float) -> bool:
        """Run until a condition holds, or nothing can make it hold any more; in a closed simulation no time passes."""
        if self.simulation.closed:
            return condition()
        over = (Status.FAILED, Status.STOPPED, Status.REJECTED)
        self.simulation.until(lambda: condition() or self.status in over, limit)
        return condition()

    def _why_not_ended(self) -> str:
        status = self.status
        if status in LASTING:
            return f"its stream has not ended after {span(LONGEST_WAIT)} of virtual time; expected results(seconds=...)"
        rest = rows_left(sum(self.simulation.world.results[self.id, each].height for each in self.plan.sinks))
        return f"{status}: {self.reason or 'on request'}{rest}"

    def _table(self, sink: str) -> pl.DataFrame:
        found = self.simulation.world.results[self.id, sink].stored
        return found if found.width else empty(self.plan.schema(sink))

    # -- accounts ----------------------------------------------------------------------------------------------------

    def events(self) -> Events:
        """Return its events, ordered by time. ``table()`` makes a table of them."""
        return self.simulation.events(self.id)

    def explain(self) -> Explanation:
        """Explain its placement, or its refusal: candidates, dropped probes, graphs, and later events."""
        return Explanation(self.id, self.events(), self.simulation.names, (self.status, self.reason))

    def bottleneck(self) -> Bottleneck:
        """Return which operator limits the rate, and by which measure; false, with the reason, if none does."""
        world, graph = self.simulation.world, self.graph
        states = {peer: None if world.dead(peer) else world.peer_state(peer) for peer in dict.fromkeys(graph.values())}
        return bottleneck(self.id, self.plan, self.status, graph, states, self.explain().stalls)

    def replay(self) -> Replay:
        """Return what peers did for it, message by message; a notebook shows a stage on which it can be stepped."""
        return self.simulation.replay(self)

    def watch(self) -> Any:
        """Return the live view of it, as ``watch(application)`` does."""
        return view_of("watch", self)

    # -- changes -----------------------------------------------------------------------------------------------------

    def pause(self) -> None:
        """Have its sources give no more rows, until :meth:`resume`; its status is ``on hold`` meanwhile.

        What the sources have given before reaches the sinks, as virtual time passes.

        Raises
        ------
        ClusterError
            If it does not run, or shares streams with other applications, whose rows would stop, too.
        """
        self._hold(on=True)

    def resume(self) -> None:
        """Have its sources go on after :meth:`pause`.

        Raises
        ------
        ClusterError
            If it does not run.
        """
        self._hold(on=False)

    def _hold(self, *, on: bool) -> None:
        if refusal := self.simulation._command(self, lambda number: HoldApplication(self.id, on, number)):
            raise ClusterError(refusal)

    @user_facing
    def replace(self, plan: Plan, *, preview: bool = False, timeout: float | str = "10 min") -> PlanChange:
        """Run another plan in place of its own, without a gap; virtual time passes until the new one has caught up.

        ``plan``: plan with the same sources and sinks; ``preview``: whether to say only what would happen;
        ``timeout``: longest virtual time, in seconds or as ``"2 min"``.

        Raises ``PlanError`` if the plan cannot take the place of its own; ``NotAdmitted`` if the peers refuse it; or
        ``ClusterError`` if it has ended, or the new plan has not caught up in time. Then it goes on as before.
        """
        plan = with_readers_apart(plan)
        change = change_of(self.plan, plan)
        check_replacement(self.id, self.plan, plan)
        if self.status not in LASTING:
            raise ClusterError(f"application: {self.id!r} is {self.status}; expected one that runs")
        if not preview:
            self.simulation._replace(self, plan, change, duration("timeout", timeout))
        return change

    def _become(self, application: str, plan: Plan) -> None:
        """Be the handle of another application from now on."""
        self.id, self.plan = application, plan

    def stop(self) -> None:
        """End it at all peers; :meth:`results`, :meth:`head` and loops still return the results so far."""
        if self.simulation.closed:
            return
        self._stopped = True
        self.simulation.world.end(self.id)
        self.simulation.until(lambda: self.status in ENDED, 10.0)
        self.simulation.until(lambda: not self.simulation.world.reads(self.id), 1.0)
        if self.status in ENDED:
            self.simulation.world.close_programs(self.id)

    # -- displays ----------------------------------------------------------------------------------------------------

    def _summary(self) -> list[tuple[str, str]]:
        qos = {sink: self.qos(sink) for sink in self.plan.sinks}
        rows = [*application_rows(self.plan, self.status, self.reason, qos, self.graph, self.backups)]
        if self.setup_s:  # it has begun
            rows.insert(1, ("set up in", span(self.setup_s)))
        return [*rows, *lacking_rows(self._late(), self._skipped), *(("notice", notice) for notice in self.notices)]

    def __repr__(self) -> str:
        return rows_as_text(f"Simulated application {self.id}", self._summary())

    def _repr_html_(self) -> str:
        return rows_as_html(f"Simulated application {self.id}", self._summary())
