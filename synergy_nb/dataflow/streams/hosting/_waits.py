"""For whom or for what each component of a peer waits, read off its cursors and its inputs. No IO, no clock.

Theory of operation
-------------------
A component gives rows, and promises that no earlier ones follow. One whose promise goes on is well, however few rows it
has. For any other one its peer can name who owns the wait:

- it executes, and has not ended;
- a reader has used up its window, so that it may make no more;
- the disk of its durable folder has not taken what has to be safe before anybody reads it;
- its input waits, and another component of the peer executes;
- one of its inputs has promised least, and no more since: it waits for who makes that input;
- all of its inputs go on, but its windows are not over;
- it is a source, and what it reads says nothing.

The driver looks once a second. A wait is recorded when it has lasted for :data:`NOTICED_S`, and once; so what stops is
named within five seconds, at whichever peer. A component that pauses again and again, as a source with few rows does,
is recorded less often: each wait that has ended, after the first :data:`OFTEN` of :data:`REMEMBERED_S`, doubles the
time after which the next one is recorded, up to :data:`LONGEST_S`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping
from typing import Final, NamedTuple

from synergy_nb.dataflow.deployments import FOLDER, Deployment, Role
from synergy_nb.dataflow.streams.component.component import Component
from synergy_nb.dataflow.streams.log.log import Cursor, Limits
from synergy_nb.dataflow.streams.log.merge import CLOSED, Port
from synergy_nb.dataflow.streams.log.values import CLIENT, ORIGIN, Point
from synergy_nb.dataflow.tuples import END, START
from synergy_nb.events import Awaited, Recorder, WaitBegun, WaitEnded, Why

NOTICED_S: Final = 2.5  # seconds of a wait after which it is recorded for the first time
LONGEST_S: Final = 60.0  # longest such time
OFTEN: Final = 3  # waits of a component for one reason that are all recorded as soon
REMEMBERED_S: Final = 600.0  # seconds after its end at which a wait does not count any more
OVERDUE_S: Final = 1.0  # seconds that an entry waits at a component which is busy
MOVES_S: Final = 2.0  # seconds for which a component that has given something counts as one that does


class _Wait(NamedTuple):
    """What a component waits for at present."""

    why: Why
    since: float  # seconds
    awaited: tuple[tuple[str, str, str], ...] = ()  # application, operator and peer of each awaited component
    ahead_s: float | None = None


class _Progress:
    """How far a component was when it was last looked at, and since when it is there."""

    __slots__ = (
        "_ended",
        "blocked_at",
        "consumed",
        "consumed_at",
        "end",
        "full_at",
        "held_at",
        "input",
        "input_at",
        "moved_at",
        "noted",
        "noted_at",
        "noted_moving",
        "promised_at",
        "read",
        "safe",
    )  # fmt: skip

    def __init__(self, now: float) -> None:
        self.end, self.safe, self.input, self.consumed = ORIGIN, ORIGIN, START, tuple[Point, ...]()
        # since when its output has ended there, and has promised no more; since when its least input has promised no
        # more, and it has executed nothing
        self.moved_at = self.promised_at = self.input_at = self.consumed_at = now
        self.blocked_at: float | None = None  # since when readers have no room; None: they have
        self.held_at: float | None = None  # since when its folder has taken nothing that has to be safe; None: it has
        self.full_at: float | None = None  # since when much waits at its inputs, or for long; None: it does not
        self.read = 0  # tuples that it had executed then
        self._ended: dict[Why, deque[float]] = {}  # times at which recorded waits for a reason have ended
        self.noted: tuple[Why, tuple[Awaited, ...]] | None = None  # wait that was recorded and has not ended
        self.noted_at = now  # since when it waits for that
        self.noted_moving = False  # whether it still gave something then; once it does not, that is recorded anew

    def patience(self, why: Why, now: float) -> float:
        """Return the seconds after which a wait for a reason is recorded."""
        ended = self._ended.get(why, ())
        return min(NOTICED_S * 2.0 ** max(sum(now - at < REMEMBERED_S for at in ended) - OFTEN, 0), LONGEST_S)

    def forget(self, why: Why, now: float) -> None:
        """Note that the recorded wait for a reason has ended."""
        self.noted = None
        self._ended.setdefault(why, deque(maxlen=2 * OFTEN + 2)).append(now)

    def look(self, component: Component, much: int, now: float) -> None:
        """Note how far the component is now; ``much``: bytes at its inputs that count as much."""
        end, consumed = component.log.end, tuple(port.consumed for port in component.ports.values())
        least = min((port.received.until for port in _open(component)), default=START)
        if end != self.end:
            self.moved_at = now
        if end.until != self.end.until:
            self.promised_at = now
        if least != self.input:
            self.input_at = now
        if consumed != self.consumed:
            self.consumed_at = now
        safe = component.log.confirmed(component.copy_holders.confirming & {FOLDER})
        if safe == end:
            self.held_at = None
        elif self.held_at is None or safe != self.safe:
            self.held_at = now
        self.end, self.safe, self.input, self.consumed = end, safe, least, consumed
        blocked, full = component.log.blocked, _full(component, much, now)
        self.blocked_at = (now if self.blocked_at is None else self.blocked_at) if blocked else None
        if not full:
            self.full_at = None
        elif self.full_at is None:
            self.full_at, self.read = now, _read(component)


class Waits:
    """The waits of the components of one peer."""

    def __init__(
        self,
        components: Mapping[tuple[str, str], Component],  # application and operator to what executes here
        deployments: Mapping[str, Deployment],  # application to its last deployment
        opened: Collection[tuple[str, str]],  # application and operator of each source that is being read
        limits: Limits,
    ) -> None:
        self._components = components
        self._deployments = deployments
        self._opened = opened
        self._much = limits.window // 4
        self._known: dict[Component, _Progress] = {}

    def look(
        self,
        now: float,
        record: Recorder,  # writes to the journal of the peer
        silent: Callable[[str], bool],  # whether a peer does not answer
        # what the driver knows of a source without rows, or of a full sink, as a clause; it may be empty
        known: Callable[[Component], str],
    ) -> None:
        """Record waits that have begun or ended; to be called about once a second."""
        before, self._known = self._known, {}
        for component in self._components.values():
            progress = before.get(component) or _Progress(now)
            progress.look(component, self._much, now)
            wait = self._wait(component, progress, now) if self._runs(component) else None
            if wait is None or now - wait.since < progress.patience(wait.why, now):
                self._ended(component, progress, record, now)
            else:
                awaited = tuple(Awaited(*each, silent=silent(each[2])) for each in wait.awaited)
                moves = now - progress.moved_at < MOVES_S
                if progress.noted != (wait.why, awaited) or (progress.noted_moving and not moves):
                    busy = wait.why is Why.BUSY
                    record(
                        WaitBegun,
                        component.application,
                        operator=component.operator,
                        why=wait.why,
                        since=wait.since,
                        awaited=awaited,
                        said=known(component) if wait.why in (Why.SILENT, Why.RESULTS) else "",
                        moves=moves,
                        ahead_s=wait.ahead_s,
                        rate=(_read(component) - progress.read) / (now - wait.since) if busy else None,
                        tuple_s=component.tuple_s.moving if busy else None,
                    )
                    progress.noted, progress.noted_at, progress.noted_moving = (wait.why, awaited), wait.since, moves
            self._known[component] = progress

    @staticmethod
    def _ended(component: Component, progress: _Progress, record: Recorder, now: float) -> None:
        """Record that a recorded wait has ended."""
        if progress.noted is not None:
            why, seconds = progress.noted[0], max(now - progress.noted_at, 0.0)
            record(WaitEnded, component.application, operator=component.operator, seconds=seconds)
            progress.forget(why, now)

    def _runs(self, component: Component) -> bool:
        """Whether a component is to give something: its application runs, and its stream has not ended."""
        deployment = self._deployments.get(component.application)
        assignment = None if deployment is None else deployment.assignments.get(component.operator)
        if (
            deployment is None
            or not deployment.running
            or (assignment is not None and assignment.on_hold)
            or component.failed
            or component.role is not Role.ACTIVE
        ):
            return False
        return component.log.end.until < END

    def _wait(self, component: Component, progress: _Progress, now: float) -> _Wait | None:
        """Return what a component waits for; None if it goes on."""
        executing = component.executing_since
        if executing is not None and now - executing >= NOTICED_S:
            return _Wait(Why.EXECUTION, executing)
        if progress.held_at is not None and now - progress.held_at >= NOTICED_S:
            return _Wait(Why.FOLDER, progress.held_at)
        if progress.blocked_at is not None:
            return self._reader(component, progress.blocked_at)
        if progress.full_at is not None and progress.consumed_at == now:
            return _Wait(Why.BUSY, progress.full_at)
        if progress.promised_at == now:
            return None
        queued = progress.consumed_at < now and any(port.queue for port in component.ports.values())
        if queued and (turn := self._turn(component, progress, now)) is not None:
            return turn
        inputs = _open(component)
        if inputs:
            return self._input(component, progress, inputs, now)
        if component.ports or component.external or component.key not in self._opened:
            return None
        if progress.moved_at > max(progress.promised_at + MOVES_S, now - MOVES_S):
            return _Wait(Why.UNPROMISED, progress.promised_at)
        return _Wait(Why.SILENT, progress.moved_at)

    @staticmethod
    def _reader(component: Component, since: float) -> _Wait | None:
        """Return the wait for readers that have no room."""
        log = component.log
        blocking = log.blocking
        if any(each.reader.port == CLIENT for each in blocking):
            return _Wait(Why.RESULTS, since)
        copies = [each for each in blocking if log.used(each) < 1.0]  # they have executed all, and it is not safe yet
        if copies and len(copies) == len(blocking):
            if all(each.reader.peer == FOLDER for each in copies):
                return _Wait(Why.FOLDER, since)
            return _Wait(Why.COPIES, since, _readers(copies))
        return _Wait(Why.ROOM, since, _readers(blocking)) if blocking else None

    def _turn(self, component: Component, progress: _Progress, now: float) -> _Wait | None:
        """Return the wait for another component of the peer, which executes; None if none does."""
        others = [
            (each.application, each.operator, each.peer)
            for each in self._components.values()
            if each is not component and each.executing_since is not None and now - each.executing_since >= MOVES_S
        ]
        return _Wait(Why.TURN, progress.consumed_at, tuple(others)) if others else None

    @staticmethod
    def _input(component: Component, progress: _Progress, inputs: list[Port], now: float) -> _Wait | None:
        """Return the wait for the input that has promised least; or for the end of windows, if all inputs go on."""
        if component.external and progress.consumed_at > progress.moved_at:
            return _Wait(Why.EXECUTION, progress.moved_at)
        if progress.input_at > max(progress.promised_at, now - MOVES_S):
            return _Wait(Why.WINDOW, progress.promised_at)
        least = min(port.received.until for port in inputs)
        most = max(port.received.until for port in component.ports.values() if port.state is not CLOSED)
        awaited = [
            (feed.application, feed.operator, component.ports[number].peer)
            for number, feed in component.feeds.items()
            if component.ports[number] in inputs and component.ports[number].received.until == least
        ]
        ahead = (most - least) / 1e6 if START < least < most < END else None
        return _Wait(Why.INPUT, max(progress.promised_at, progress.input_at), tuple(awaited), ahead)


def _open(component: Component) -> list[Port]:
    """Return the inputs of a component that have not ended."""
    return [port for port in component.ports.values() if port.state is not CLOSED and port.received.until < END]


def _read(component: Component) -> int:
    """Return the tuples that a component has executed."""
    return sum(port.consumed.position for port in component.ports.values())


def _full(component: Component, much: int, now: float) -> bool:
    """Whether much waits at the inputs of a component, or what it could execute has waited for long."""
    waiting = [port for port in component.ports.values() if port.queue]
    if sum(port.queued for port in waiting) >= much:
        return True
    able = component.running or component.first is not None
    return able and any(now - port.queue[0].arrived >= OVERDUE_S for port in waiting)


def _readers(cursors: list[Cursor]) -> tuple[tuple[str, str, str], ...]:
    return tuple(dict.fromkeys((each.reader.application, each.reader.operator, each.reader.peer) for each in cursors))
