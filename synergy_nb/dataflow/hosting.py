"""Components of one peer: what runs next, what it may send, and what is measured of it. No IO, no clock.

Theory of operation
-------------------
A :class:`~synergy_nb.dataflow.components.Component` is an operator's instance. It has an inlet with a queue for each of
its inputs and an outlet for each reader of its output stream (see :mod:`synergy_nb.dataflow.channels`). It is only
executed while all of its outboxes are empty and every outlet has credit left, so an outbox never holds more than the
output of one execution. Work with much output is split over several executions, each of which waits for credit and for
its turn, like the first. So a slow reader slows all that is upstream of it, up to the sources, and loses nothing.

Whoever else reads a component's stream is one of its *taps* (:class:`~synergy_nb.dataflow.components.Reader`): it is
given what leaves the component, and what it does not keep up with is its own affair.

The driver asks :meth:`Hosting.next` for work, executes it wherever it likes, and hands the outputs to
:meth:`Hosting.done`, which says what has to go to other peers; what stays on this peer is queued without leaving it.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from synergy_nb.dataflow.channels import Inlet, Outlet, Parcel, PositionGap
from synergy_nb.dataflow.components import Component
from synergy_nb.dataflow.memory import Memory
from synergy_nb.dataflow.work import TOGETHER_ROWS, TOGETHER_WORK, Delivery, Work, contemporary, deadline
from synergy_nb.signatures import Segment

__all__ = [
    "DISCIPLINES",
    "TOGETHER_ROWS",
    "Component",
    "Delivery",
    "Hosting",
    "Inlet",
    "Outlet",
    "Parcel",
    "PositionGap",
    "Work",
    "contemporary",
]

DISCIPLINES: Final = ("fcfs", "edf", "least_slack")
WINDOW_BYTES: Final = 4 << 20


class Hosting:
    """The components of one peer.

    Parameters
    ----------
    discipline
        ``fcfs`` (first come, first served), ``edf`` (earliest deadline first: born + delay limit of the application)
        or ``least_slack`` (deadline - now - predicted processing time that remains, here and downstream).
    window_bytes
        Window of a channel; the same on all peers.
    measure_s
        Time over which rates and loads are averaged, in seconds.
    memory
        Memory that all components of the peer share; None: no limit.

    Examples
    --------
    >>> hosting = Hosting()
    >>> component = hosting.add("a", "filter", inputs=["a/source>filter:0"], outputs=["a/filter>sink:0"], now=0.0)
    >>> hosting.offer("a/source>filter:0", Parcel(item="x", position=0, rows=10, size=240, born=0.0), now=0.0)
    True
    >>> work = hosting.next(now=0.5)
    >>> output = Parcel(item="y", position=0, rows=4, size=96, born=0.0)
    >>> [delivery.channel for delivery in hosting.done(work, [output], started=0.5, finished=0.6)]
    ['a/filter>sink:0']
    >>> component.stats(now=1.0)["selectivity"]
    0.4
    """

    def __init__(
        self,
        discipline: str = "fcfs",
        window_bytes: int = WINDOW_BYTES,
        measure_s: float = 5.0,
        memory: Memory | None = None,
    ) -> None:
        if window_bytes < 2:
            raise ValueError(f"window_bytes: {window_bytes}; expected at least 2")
        self.window = window_bytes
        self.memory = Memory() if memory is None else memory
        self.discipline = discipline
        self._measure_s = measure_s
        self._components: dict[tuple[str, str], Component] = {}
        self._inlets: dict[str, Inlet] = {}
        self._outlets: dict[str, tuple[Component, Outlet]] = {}
        self._waiting: dict[Inlet, None] = {}  # with a queue that is not empty; a dict for its order
        self._unfinished: dict[Component, tuple[int, Work]] = {}  # with the number at which it was put off
        self._owing: dict[Inlet, None] = {}  # with consumed bytes to grant
        self._sequence = 0

    # -- components ----------------------------------------------------------------------------------------------

    @property
    def discipline(self) -> str:
        """Order in which queued parcels are served."""
        return self._discipline

    @discipline.setter
    def discipline(self, name: str) -> None:
        if name not in DISCIPLINES:
            nearest = difflib.get_close_matches(name, DISCIPLINES, 1)
            hint = f"; did you mean {nearest[0]!r}?" if nearest else ""
            raise ValueError(f"discipline: {name!r}; expected one of {', '.join(DISCIPLINES)}{hint}")
        self._discipline = name

    def add(
        self,
        application: str,
        operator: str,
        *,
        inputs: Sequence[str] = (),
        outputs: Sequence[str] = (),
        local: Iterable[str] = (),
        windows: Mapping[str, int] | None = None,
        limit: float | None = None,
        remaining: float = 0.0,
        joins: Iterable[str] = (),
        share: float | None = None,
        now: float = 0.0,
    ) -> Component:
        """Host a component.

        Parameters
        ----------
        inputs
            Channel of each port.
        outputs
            Channels that its output stream is sent to, each item to all of them.
        local
            Outputs whose other end is a component of this peer.
        windows
            Windows in bytes of channels that differ from the others.
        limit
            Delay limit of the application in seconds; None: no limit.
        remaining
            Predicted processing time downstream of it, in seconds a tuple.
        joins
            Inputs that join a stream that goes on: their first item may have any position, that of others is 0.
        share
            Bytes of memory that the component may hold; None: all that the peer has.

        Raises
        ------
        ValueError
            If the component or one of its channels exists already.
        """
        key = (application, operator)
        if key in self._components:
            raise ValueError(f"component {application}/{operator} is hosted already")
        taken = [channel for channel in inputs if channel in self._inlets]
        taken += [channel for channel in outputs if channel in self._outlets]
        if taken:
            raise ValueError(f"component {application}/{operator}: channel {taken[0]!r} is in use")
        component = Component(
            application,
            operator,
            limit=limit,
            remaining=remaining,
            measure_s=self._measure_s,
            share=self.memory.share(application, operator, share),
            now=now,
        )
        sizes = windows or {}
        inside, joining = frozenset(local), frozenset(joins)
        for channel in outputs:
            outlet = Outlet(channel, sizes.get(channel, self.window), channel in inside)
            component.outlets.append(outlet)
            self._outlets[channel] = (component, outlet)
        for port, channel in enumerate(inputs):
            expected = None if channel in joining else 0
            inlet = Inlet(component, port, channel, window=sizes.get(channel, self.window), expected=expected)
            component.inlets.append(inlet)
            self._inlets[channel] = inlet
        self._components[key] = component
        for outlet in component.outlets:
            self._tie(outlet.channel, now)
        for inlet in component.inlets:
            self._tie(inlet.channel, now)
        return component

    def _tie(self, channel: str, now: float) -> None:
        """Tie both ends of a channel within this peer together, whichever came first."""
        sender, inlet = self._outlets.get(channel), self._inlets.get(channel)
        if sender is None or inlet is None or not sender[1].local:
            return
        outlet = inlet.upstream = sender[1]
        if outlet.sent and not outlet.keepers:  # a reader that takes the place of another joins the stream where it is
            outlet.acknowledged = outlet.sent
            inlet.expected = None
        self._flush(outlet, now, [])

    def redirect(
        self, channel: str, prepare: Callable[[Parcel], Parcel], keepers: Iterable[str], now: float, *, local: bool
    ) -> list[Delivery]:
        """The reader of a channel has moved, see :meth:`Outlet.rewind`; gives what has to go to it now."""
        deliveries: list[Delivery] = []
        sender = self._outlets.get(channel)
        if sender is not None:
            sender[1].rewind(prepare, keepers, local=local)
            self._tie(channel, now)
            self._flush(sender[1], now, deliveries)
        return deliveries

    def remove(self, application: str, operator: str) -> bool:
        """Forget a component and all that waits in its queues and outboxes; False if there is none."""
        component = self._components.pop((application, operator), None)
        if component is None:
            return False
        component.removed = True
        component.share.release()
        self._unfinished.pop(component, None)
        for inlet in component.inlets:
            del self._inlets[inlet.channel]
            self._waiting.pop(inlet, None)
            self._owing.pop(inlet, None)
        for outlet in component.outlets:
            self._untie(outlet)
        return True

    def detach(self, channel: str) -> bool:
        """Send nothing more on a channel, and forget what waits for it; False if no component here writes to it."""
        sender = self._outlets.get(channel)
        if sender is None:
            return False
        component, outlet = sender
        component.outlets.remove(outlet)
        self._untie(outlet)
        return True

    def _untie(self, outlet: Outlet) -> None:
        del self._outlets[outlet.channel]
        reader = self._inlets.get(outlet.channel)
        if reader is not None and reader.upstream is outlet:
            reader.upstream = None

    def __contains__(self, key: tuple[str, str]) -> bool:
        return key in self._components

    @property
    def components(self) -> tuple[Component, ...]:
        """All components, in the order in which they were added."""
        return tuple(self._components.values())

    def inlet(self, channel: str) -> Inlet | None:
        """Receiving end of a channel, if it is here."""
        return self._inlets.get(channel)

    def writer(self, channel: str) -> Component | None:
        """The component whose output stream goes to a channel, if it is here."""
        sender = self._outlets.get(channel)
        return sender[0] if sender is not None else None

    def outlet(self, channel: str) -> Outlet | None:
        """Sending end of a channel, if it is here."""
        sender = self._outlets.get(channel)
        return sender[1] if sender is not None else None

    def signatures(self, now: float) -> dict[tuple[str, str], tuple[Segment, ...]]:
        """Loads that come and go, by application and operator: segments of constant load, in cores.

        Components whose load is one segment are left out: what they are promised says as much.
        """
        found = {name: component.segments(now) for name, component in self._components.items() if component.inlets}
        return {name: segments for name, segments in found.items() if len(segments) > 1}

    def stats(self, now: float) -> list[dict[str, Any]]:
        """What was measured of each component, see :meth:`Component.stats`."""
        return [component.stats(now) for component in self._components.values()]

    # -- what comes in -------------------------------------------------------------------------------------------

    def offer(self, channel: str, parcel: Parcel, now: float) -> bool:
        """Queue what arrived on ``channel``; False if all of it was there before.

        Raises
        ------
        LookupError
            If no component here reads the channel.
        PositionGap
            If tuples between the expected position and the parcel are missing.
        """
        inlet = self._inlets.get(channel)
        if inlet is None:
            raise LookupError(f"channel {channel!r}: no component on this peer reads it")
        return self._accept(inlet, parcel, now)

    def _accept(self, inlet: Inlet, parcel: Parcel, now: float) -> bool:
        fresh = inlet.screen(parcel)
        if fresh is None:  # its sender paid for it all the same
            self._consume(inlet, parcel.size)
            return False
        self._sequence += 1
        inlet.queue.append((self._sequence, now, fresh))
        inlet.queued += fresh.size
        self._waiting[inlet] = None
        component: Component = inlet.component
        component.tuples_in += fresh.fresh
        component.bytes_in += fresh.size
        component.arrived(fresh.fresh, now)
        return True

    # -- work ----------------------------------------------------------------------------------------------------

    def next(
        self, now: float, accept: Callable[[Component, Parcel], bool] | None = None, together: int = 0
    ) -> Work | None:
        """Take the parcel that the discipline puts first, or None if nothing may run.

        A component that is running, or has no credit downstream, has to wait; parcels of one channel keep their order.
        What waits behind the first in the same queue may come along: a component that is behind then has larger
        executions, not a longer queue.

        Parameters
        ----------
        now
            Time in seconds.
        accept
            Predicate on parcels: whether the driver can execute a parcel at the moment. Where it is given, no
            unfinished work is resumed. None: every parcel, and unfinished work too.
        together
            Tuples that may come along, with the first ones; 0: one parcel at a time. What comes along is accepted, too,
            was born at about the same time, fits half a window, and is not expected to take long.
        """
        best: Inlet | None = None
        best_rank: tuple[float, int] = (math.inf, 0)
        fcfs, slack = self._discipline == "fcfs", self._discipline == "least_slack"
        for inlet in self._waiting:
            component: Component = inlet.component
            if component.running or component.unfinished or component.paused or not component.open:
                continue
            sequence, _, parcel = inlet.queue[0]
            if accept is not None and not accept(component, parcel):
                continue
            rank = (0.0 if fcfs else deadline(component, parcel, slack=slack), sequence)
            if best is None or rank < best_rank:
                best, best_rank = inlet, rank
        if self._unfinished and accept is None:
            put_off = self._put_off(best_rank if best is not None else (math.inf, 0), fcfs=fcfs, slack=slack)
            if put_off is not None:
                put_off.component.running = True
                return put_off
        if best is None:
            return None
        arrived, parcel = self._take(best, now)
        rest: list[Parcel] = []
        fresh, size = parcel.fresh, parcel.size
        while together and best.queue:
            following = best.queue[0][2]
            rows, room = fresh + following.fresh, best.window // 2 - size
            if rows > together or following.size > room or rows * best.component.tuple_s.moving > TOGETHER_WORK:
                break
            if not contemporary(parcel.born, following.born):
                break
            if accept is not None and not accept(best.component, following):
                break
            self._take(best, now)
            rest.append(following)
            fresh, size = rows, size + following.size
        if not best.queue:
            del self._waiting[best]
        best.component.running = True
        return Work(best.component, best, parcel, arrived, fresh, size, tuple(rest))

    def _put_off(self, before: tuple[float, int], *, fcfs: bool, slack: bool) -> Work | None:
        """What was begun and may go on, if the discipline puts it before the rank ``before``."""
        best: Work | None = None
        for component, (number, work) in self._unfinished.items():
            rank = (0.0 if fcfs else deadline(component, work.parcel, slack=slack), number)
            if rank < before and component.open and not component.running:
                best, before = work, rank
        return best

    def _take(self, inlet: Inlet, now: float) -> tuple[float, Parcel]:
        """Take the first parcel out of a queue; gives when it arrived, too."""
        _, arrived, parcel = inlet.queue.popleft()
        inlet.queued -= parcel.size
        inlet.component.queueing.add(now - arrived, max(parcel.fresh, 1))
        return arrived, parcel

    def done(
        self,
        work: Work,
        outputs: Sequence[Parcel],
        started: float,
        finished: float,
        late: int = 0,
        *,
        unfinished: bool = False,
    ) -> list[Delivery]:
        """Take the outputs of an execution.

        Parameters
        ----------
        work
            What :meth:`next` gave.
        outputs
            Parcels of its output stream, in order.
        started, finished
            When it was executed, in seconds.
        late
            Tuples that it dropped as late.
        unfinished
            True if the work has more output to make: :meth:`next` gives it again when there is room for that output.

        Returns
        -------
        list of Delivery
            What has to go to other peers now; nothing if the component was removed meanwhile.
        """
        component = work.component
        component.running = False
        if component.removed:
            return []
        took = work.spent + max(finished - started, 0.0)
        component.late += late
        component.unfinished = unfinished
        deliveries: list[Delivery] = []
        if unfinished:
            self._sequence += 1  # behind those who wait now
            self._unfinished[component] = self._sequence, work._replace(resumed=True, spent=took)
            self._produce(component, outputs, finished, deliveries)
            return deliveries
        self._unfinished.pop(component, None)
        if not component.elsewhere:
            component.executed(work.fresh, took, finished)
        self._produce(component, outputs, finished, deliveries)
        self._consume(work.inlet, work.size)
        if work.inlet.upstream is not None:
            self._flush(work.inlet.upstream, finished, deliveries)
        return deliveries

    # -- sources, and what is executed elsewhere -----------------------------------------------------------------

    def may_emit(self, component: Component) -> bool:
        """Whether a component that is not executed here may emit: everything downstream of it has room."""
        return not component.removed and component.open

    def emit(self, component: Component, outputs: Sequence[Parcel], now: float) -> list[Delivery]:
        """Take what a component emits that is not executed here; gives what has to go to other peers now."""
        deliveries: list[Delivery] = []
        if not component.removed:
            if not component.inlets:
                rows = sum(parcel.rows for parcel in outputs)
                component.tuples_in += rows
                component.arrived(rows, now)
            self._produce(component, outputs, now, deliveries)
        return deliveries

    # -- credits -------------------------------------------------------------------------------------------------

    def credit(self, channel: str, consumed: int, now: float) -> list[Delivery]:
        """The reader of ``channel`` has consumed ``consumed`` bytes since it began; gives what may go out now.

        Unknown channels and old news are ignored.
        """
        sender = self._outlets.get(channel)
        if sender is None:
            return []
        outlet = sender[1]
        deliveries: list[Delivery] = []
        if outlet.acknowledge(consumed):
            self._flush(outlet, now, deliveries)
        return deliveries

    def grants(self) -> list[tuple[str, int]]:
        """Channels from other peers whose senders should hear what was consumed: (channel, bytes since it began)."""
        due = [(inlet.channel, inlet.consumed) for inlet in self._owing]
        for inlet in self._owing:
            inlet.granted = inlet.consumed
        self._owing.clear()
        return due

    # -- inside --------------------------------------------------------------------------------------------------

    def _produce(self, component: Component, outputs: Sequence[Parcel], now: float, deliveries: list[Delivery]) -> None:
        component.produced(outputs, now)
        for outlet in component.outlets:
            outlet.outbox.extend(outputs)
            self._flush(outlet, now, deliveries)

    def _flush(self, outlet: Outlet, now: float, deliveries: list[Delivery]) -> None:
        if outlet.local:
            inlet = self._inlets.get(outlet.channel)
            while inlet is not None and outlet.ready():  # no reader: it waits, and with it all that is upstream
                self._accept(inlet, outlet.send(), now)
        else:
            while outlet.ready():
                deliveries.append(Delivery(outlet.channel, outlet.send()))

    def _consume(self, inlet: Inlet, size: int) -> None:
        if inlet.consume(size):
            self._owing[inlet] = None
