"""Whole peers that execute in the time that plans state, on the sites of a network, and read sources at their pace.

Theory of operation
-------------------
Three things differ from :class:`~synergy_nb.simulator.peer_world.PeerWorld`. A tuple takes the processing time that its
plan states, divided by the cores that its peer has left. Sources are read when their items are due. Peers can be
suspended and resumed, and only peers that have a link to a dead one notice its death at once, since many peers would
otherwise flood the network. All of this can be changed while applications run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import msgspec

from synergy_nb import events
from synergy_nb.assembly import PeerConfig
from synergy_nb.connectors import POLLED, connected
from synergy_nb.connectors.own_sources import executed_here, own_source
from synergy_nb.control.driver_messages import LinesMalformed, SpeedMeasured
from synergy_nb.control.peer import DriverMessage
from synergy_nb.dataflow.streams.component.component import Component
from synergy_nb.dataflow.streams.component.execution import Work
from synergy_nb.dataflow.streams.hosting.effects import Close, Effect, Hold, Open
from synergy_nb.dataflow.streams.hosting.hosting import Hosting
from synergy_nb.dataflow.streams.log.chunking import cut
from synergy_nb.dataflow.streams.log.values import Chunk, Point
from synergy_nb.plan import Plan
from synergy_nb.plan.derived.active_replicas import original
from synergy_nb.plan.operators.sources import OWN, rate_of
from synergy_nb.reporting.formatting import seconds
from synergy_nb.simulator._paced_sources import PacedSource, RetainedSource, opened, read_to_end, sampled, tabled
from synergy_nb.simulator.network import Topology
from synergy_nb.simulator.peer_world import PeerWorld
from synergy_nb.simulator.scripted_faults import Faults
from synergy_nb.traces.rows import RowReader, row_reader

LEAST_WAIT: Final = 0.001  # seconds until a source that is behind, or has no pace or no room, is read again
SUSPENDED: Final = 0.1  # seconds until a source on a suspended peer is read again
COLLECT: Final = 0.05  # seconds between two collections of the results of a sink
LIGHT_S: Final = 0.001  # seconds of an execution that takes place beside others
TOGETHER: Final = 64  # maximum number of tuples of consecutive chunks that are executed together
Key = tuple[str, str]
"""Application and operator."""


class PacedWorld(PeerWorld):
    """Whole peers on the sites of a network, with stated processing times, paced sources, and knobs.

    ``seed``: seed of all that is drawn.
    """

    def __init__(
        self, seed: int, topology: Topology, config: PeerConfig, faults: Faults, *, discipline: str = "fcfs"
    ) -> None:
        self.topology = topology  # network, with the capacity of each peer in cores
        # plans, rows: application to the plan that was submitted, and to the rows of its sources with connector
        # `python`
        self.plans: dict[str, Plan] = {}
        self.rows: dict[str, Mapping[str, Any]] = {}
        self.late_rows: dict[Key, int] = {}  # rows that were dropped because they came too late
        # pace_of, cost_of: source to the factor of its pace; component to the processing time of a tuple in seconds
        # that replaces its own
        self.pace_of: dict[Key, float] = {}
        self.broken: dict[str, BaseException] = {}  # application to what the program raised that makes its rows
        self.cost_of: dict[Key, float] = {}
        self.load_of: dict[str, float] = {}  # peer to the share of its cores that other programs use
        # source to the peers that read it: a peer that others believe dead reads on beside the one that has taken over
        self._sources: dict[Key, dict[str, PacedSource]] = {}
        self._programs: dict[Key, RetainedSource] = {}  # sources whose rows the program makes, which are read once
        self._busy: dict[str, float] = {}  # seconds of work of a peer since its last measurement
        self._suspended: dict[str, list[Callable[[Hosting], list[Effect]]]] = {}
        hotspots = config.hotspots
        super().__init__(
            seed, topology.peers, faults, config=config, discipline=discipline, network=topology, hotspots=hotspots
        )

    def _round_trip(self) -> Callable[[str, str], float]:
        return lambda one, other: 2.0 * self.topology.delay(one, other)

    def _record(self, peer: str, kind: Callable[..., events.Event], subject: str, **fields: Any) -> None:
        """Journal an event of a peer's driver."""
        self.control.journal.append(kind(self.now, peer, subject, **fields))

    # -- execution -----------------------------------------------------------------------------------------------

    def speed(self, peer: str) -> float:
        """Cores of a peer that other programs do not use: its speed, as a peer of speed 1 has one core."""
        free = 1.0 - self.load_of.get(peer, 0.0)
        return max(self.topology.cores[peer] * free * super().speed(peer), 1e-6)

    def _tuple_s(self, peer: str, component: Component) -> float:
        """Return the seconds that a tuple takes at a component."""
        key = component.application, original(component.operator)
        return self.cost_of.get(key, component.planned_s) / self.speed(peer)

    def _work(self, peer: str) -> None:
        """Begin executions: one, and light ones beside it, as live peers execute these between others."""
        node = self.nodes[peer]

        def light(component: Component, chunk: Chunk) -> bool:
            return chunk.rows * self._tuple_s(peer, component) <= LIGHT_S

        due = node.hosting.next_timer
        if due is not None and due <= self.now:  # first, as a component that always has work could never be saved
            self._carry_out(peer, node.hosting.tick(self.now))
        while True:
            work = node.hosting.next(self.now, light if node.busy else None, together=TOGETHER)
            if work is None:
                return
            tuple_s = self._tuple_s(peer, work.component)
            heavy = tuple_s * work.rows > LIGHT_S
            node.busy = node.busy or heavy
            speed = self.speed(peer)
            self.after(tuple_s * work.rows, self._finish_timed, peer, work, self.now, tuple_s, speed, heavy)

    def _finish_timed(self, peer: str, work: Work, began: float, tuple_s: float, speed: float, heavy: bool) -> None:
        if heavy:
            self.nodes[peer].busy = False
        self._busy[peer] = self._busy.get(peer, 0.0) + self.now - began

        def finish(hosting: Hosting) -> list[Effect]:
            outcome = work.run(lambda: self.now, hosting.limits.window)
            outcome.started, outcome.speed = began, speed
            outcome.spent = [(rows, rows * tuple_s) for rows, _ in outcome.spent]
            effects = hosting.finished(work, outcome, self.now)
            component = work.component
            if component.kind == "sink":
                self._arrived(peer, component, outcome.chunks)
            return effects

        self._at(peer, finish)

    def _arrived(self, peer: str, component: Component, chunks: list[Chunk]) -> None:
        """Handle what has arrived at a sink."""

    def set_load(self, peer: str, share: float) -> None:
        """Have other programs use a share of a peer's cores from now on."""
        self.load_of[peer] = share
        self._report(peer, SpeedMeasured(self.speed(peer)))

    # -- sources -------------------------------------------------------------------------------------------------

    def _carry_out(self, peer: str, effects: list[Effect]) -> None:
        rest: list[Effect] = []
        for effect in effects:
            match effect:
                case Open():
                    self._open(peer, effect)
                case Hold(application, operator, on):
                    self._hold(peer, (application, operator), on=on)
                case Close(application, operator):
                    self._close(peer, (application, operator))
                case _:
                    rest.append(effect)
        super()._carry_out(peer, rest)

    def _open(self, peer: str, effect: Open) -> None:
        key = effect.application, effect.operator
        try:
            source = self._programs.get(key) or self._opened(peer, key, effect.since)
            source.progressed(self.nodes[peer].hosting.components[key])
        except ValueError as error:
            self.after(0.0, self._fail_source, peer, key, error)
            return
        if key in self._programs:
            self._sources.pop(key, None)  # what the program makes goes to one peer
        self._sources.setdefault(key, {})[peer] = source
        self._record(peer, events.SourceStarted, key[0], operator=key[1])
        self._hold(peer, key, on=self.nodes[peer].hosting.on_hold(*key))

    def _close(self, peer: str, key: Key) -> None:
        """Have a peer read a source no more, if it does."""
        reading = self._sources.get(key, {})
        reading.pop(peer, None)
        if not reading:
            self._sources.pop(key, None)

    def _hold(self, peer: str, key: Key, *, on: bool) -> None:
        """Have a source that is open at a peer stand still, or go on."""
        source = self._sources.get(key, {}).get(peer)
        if source is None:
            return
        source.hold(self.now, on=on)
        self._plan_next(peer, key, source)

    def _plan_next(self, peer: str, key: Key, source: PacedSource) -> None:
        if source.due < math.inf:
            self.after(max(source.due - self.now, 0.0), self._emit, peer, key, source, source.turn)

    def _opened(self, peer: str, key: Key, since: Point) -> PacedSource:
        """Open a source for the first time, or again at a point; what a program makes is opened once."""
        entries, paced = self._entries(peer, *key)
        factor = self.pace_of.get((key[0], original(key[1])), 1.0)
        if self.plans[key[0]].operators[original(key[1])].params["connector"] != "python":
            return PacedSource(entries, paced=paced, now=self.now, since=since, factor=factor)
        made = self._programs[key] = RetainedSource(entries, paced=paced, now=self.now, factor=factor)
        return made

    def reads(self, application: str) -> bool:
        """Whether a living peer reads a source of an application."""
        reading = (peer for (owner, _), peers in self._sources.items() if owner == application for peer in peers)
        return any(peer not in self._suspended and not self.dead(peer) for peer in reading)

    def close_programs(self, application: str) -> None:
        """Read nothing more of what programs make for an application that has ended, so that generators clean up."""
        for (owner, _), program in self._programs.items():
            if owner == application:
                program.close()

    def _entries(self, peer: str, application: str, operator: str) -> tuple[Any, bool]:
        """Return the items of a source with their due times, and whether these count."""
        plan, component, operator = self.plans[application], operator, original(operator)
        params = plan.operators[operator].params
        match params["connector"]:
            case "python":
                rows, reader = self.rows[application][operator], row_reader(plan, operator)
                dropped = partial(self._dropped, peer, (application, operator))
                return tabled(rows, reader, rate_of(params), params.get("lateness"), dropped), True
            case str() as connector if connector in (*POLLED, OWN):
                schema, dropped = plan.schema(operator), partial(self._dropped, peer, (application, operator))
                reader = RowReader(operator, schema)
                source = (
                    own_source(operator, params, schema, self.secrets, executed_here)
                    if connector == OWN
                    else connected(params, schema, self.secrets)
                )
                return read_to_end(source, reader, params.get("lateness"), dropped), False
            case "peers":
                interval = float(params.get("interval", 1.0))
                samples = partial(self._samples, peer)
                return sampled(peer, interval, samples, lambda: self.now), True
        return opened(params, partial(self._skipped, peer, application, component))

    def _skipped(self, peer: str, application: str, operator: str, lines: events.SkippedLines) -> None:
        """Report malformed lines that a source skips."""
        self.after(0.0, self._report, peer, LinesMalformed(application, operator, operator, lines))

    def _dropped(self, peer: str, key: Key, rows: int) -> None:
        """Count the rows of a source that came too late; ``peer`` is the first one that opened it."""
        if rows > self.late_rows.get(key, 0):
            self.late_rows[key] = rows
            self._record(
                next(reversed(self._sources.get(key, {peer: None}))),
                events.LateRows,
                key[0],
                operator=key[1],
                dropped=rows,
            )

    def _samples(self, peer: str) -> list[tuple[str, str, float]]:
        """Return the load of a peer, and its round-trip times to the peers that it has a link to."""
        load = [("cpu", "", self.synergy[peer].ledger.load + self.load_of.get(peer, 0.0))]
        return load + [("ping", other, 2.0 * self.topology.delay(peer, other)) for other in self.links.of(peer)]

    def _emit(self, peer: str, key: Key, source: PacedSource, turn: int) -> None:
        if self._sources.get(key, {}).get(peer) is not source or source.turn != turn or self.dead(peer):
            return
        wait = SUSPENDED
        if peer not in self._suspended:
            self._at(peer, partial(self._emit_due, peer, key, source))
            wait = max(source.due - self.now, LEAST_WAIT)
        if wait < math.inf:
            self.after(wait, self._emit, peer, key, source, turn)

    def _emit_due(self, peer: str, key: Key, source: PacedSource, hosting: Hosting) -> list[Effect]:
        source.wait(self.now + LEAST_WAIT)
        if not hosting.may_emit(*key):
            return []
        try:
            source.progressed(hosting.components[key])
            items = source.take(self.now)
        except ValueError as error:
            self.after(0.0, self._fail_source, peer, key, error)
            return []
        chunks: list[Chunk] = []
        point = hosting.components[key].log.end
        for item, born in items:
            entered = msgspec.structs.replace(item, position=point.position, born=born)
            made = cut(entered, point, encode=None, most=hosting.limits.window // 2)
            if made:
                chunks += made
                point = made[-1].end
        effects = hosting.emit(*key, chunks, self.now) if chunks else []
        source.progressed(hosting.components[key])
        return effects

    def _fail_source(self, peer: str, key: Key, error: Exception) -> None:
        self._close(peer, key)
        if error.__cause__ is not None:
            self.broken[key[0]] = error.__cause__
        self._at(peer, lambda hosting: hosting.abort(*key, error, self.now))

    def _known(self, component: Component) -> str:
        """Return what is known of a source that has no rows; there is nothing to know of a full sink."""
        if self.pace_of.get((component.application, original(component.operator))) == 0.0:
            return "its pace was set to 0"
        found = self._sources.get(component.key, {}).get(component.peer)
        if component.feeds:
            return ""
        if found is None or not self.now < found.due < math.inf:
            return "what it reads has no more yet"
        return f"its next row is due in {seconds(found.due - self.now)}"

    def set_pace(self, application: str, source: str, factor: float) -> None:
        """Read a source at another pace from now on: 2 is twice as fast as its own."""
        self.pace_of[application, source] = factor
        for key, readers in self._sources.items():
            if (key[0], original(key[1])) == (application, source):
                for peer, reading in readers.items():
                    reading.speed_up(factor, self.now)
                    self._plan_next(peer, key, reading)

    # -- faults --------------------------------------------------------------------------------------------------

    def crash(self, peer: str) -> None:
        """Crash a peer; the peers that have a link to it notice that a little later."""
        super().crash(peer)
        self._suspended.pop(peer, None)

    def suspend(self, peer: str) -> None:
        """Stop a peer until :meth:`resume`; what arrives meanwhile waits."""
        if peer not in self._suspended:
            self._suspended[peer] = []
            self.control.hang(peer, math.inf)

    def resume(self, peer: str) -> None:
        """Have a suspended peer go on."""
        waiting = self._suspended.pop(peer, None)
        if waiting is None:
            return
        self.control.resume(peer)
        for act in waiting:
            self._at(peer, act)

    def suspended(self, peer: str) -> bool:
        """Whether a peer is suspended."""
        return peer in self._suspended

    def _at(self, peer: str, act: Callable[[Hosting], list[Effect]]) -> None:
        waiting = self._suspended.get(peer)
        if waiting is not None:
            waiting.append(act)
            return
        super()._at(peer, act)

    def _report(self, peer: str, message: DriverMessage) -> None:
        waiting = self._suspended.get(peer)
        if waiting is None:
            super()._report(peer, message)
            return

        def report(_hosting: Hosting) -> list[Effect]:
            self.after(0.0, self._report, peer, message)
            return []

        waiting.append(report)

    def _send(self, peer: str, to: str, frame: Any) -> None:
        self.links.spoken(peer, to)
        super()._send(peer, to, frame)

    def _linked(self, peer: str) -> list[str]:
        """Return the peers that have a link to a peer, as others would not notice its death at once."""
        return self.links.of(peer)
