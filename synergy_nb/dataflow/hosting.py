"""Components of one peer: what runs next, what it may send, and what is measured of it. No IO, no clock.

Theory of operation
-------------------
A :class:`Component` is an operator's instance. It has an inlet with a queue for each of its inputs and an outlet for
each reader of its output stream (see :mod:`synergy_nb.dataflow.channels`). It is only executed while all of its
outboxes are empty and every outlet has credit left, so an outbox never holds more than the output of one execution, and
a slow reader slows all that is upstream of it, up to the sources, and loses nothing.

The driver asks :meth:`Hosting.next` for work, executes it wherever it likes, and hands the outputs to
:meth:`Hosting.done`, which says what has to go to other peers; what stays on this peer is queued without leaving it.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from synergy_nb.dataflow.channels import Inlet, Outlet, Parcel, PositionGap
from synergy_nb.dataflow.measures import Ewma, Rate

__all__ = ["DISCIPLINES", "Component", "Delivery", "Hosting", "Inlet", "Outlet", "Parcel", "PositionGap", "Work"]

DISCIPLINES: Final = ("fcfs", "edf", "least_slack")
WINDOW_BYTES: Final = 4 << 20


class Delivery(NamedTuple):
    """What the driver has to put on the wire: ``parcel`` on ``channel``."""

    channel: str
    parcel: Parcel


class Component:
    """An operator's instance on this peer, and what is measured of it; made by :meth:`Hosting.add`.

    Parameters
    ----------
    application, operator
        Whose and which operator it executes.
    limit
        Delay limit of the application in seconds, or None.
    remaining
        Predicted processing time downstream of it, in seconds a tuple.
    measure_s
        Time over which rates and loads are averaged, in seconds.
    now
        Time at which it begins, in seconds.
    """

    def __init__(
        self, application: str, operator: str, *, limit: float | None, remaining: float, measure_s: float, now: float
    ) -> None:
        self.application = application
        self.operator = operator
        self.limit = math.inf if limit is None else limit
        self.remaining = remaining
        self.inlets: list[Inlet] = []
        self.outlets: list[Outlet] = []
        self.running = False
        self.removed = False
        self.arrivals = Rate(measure_s, now)
        self.departures = Rate(measure_s, now)
        self.busy = Rate(measure_s, now)
        self.tuple_s = Ewma()
        self.batch_s = Ewma()
        self.queueing = Ewma()
        self.works = 0
        self.late = 0
        self.tuples_in = 0
        self.tuples_out = 0
        self.bytes_in = 0
        self.bytes_out = 0

    @property
    def open(self) -> bool:
        """Whether everything downstream has room for what this component produces."""
        return all(outlet.open for outlet in self.outlets)

    def stats(self, now: float) -> dict[str, Any]:
        """What was measured, as plain values: seconds, bytes, tuples/s, cores."""
        return {
            "application": self.application,
            "operator": self.operator,
            "tuples_in": self.tuples_in,
            "tuples_out": self.tuples_out,
            "bytes_in": self.bytes_in,
            "bytes_out": self.bytes_out,
            "rate": self.arrivals.per_second(now),
            "output_rate": self.departures.per_second(now),
            "processing_s": self.tuple_s.mean,
            "batch_s": self.batch_s.mean,
            "queueing_s": self.queueing.mean,
            "load": self.busy.per_second(now),
            "queue_bytes": sum(inlet.queued for inlet in self.inlets),
            "queue_tuples": sum(parcel.fresh for inlet in self.inlets for _, _, parcel in inlet.queue),
            "late": self.late,
            "selectivity": self.tuples_out / self.tuples_in if self.tuples_in else None,
        }


class Work(NamedTuple):
    """One execution: hand ``parcel`` to ``port`` of ``component``."""

    component: Component
    inlet: Inlet
    parcel: Parcel
    arrived: float

    @property
    def port(self) -> int:
        """Port of the component that the parcel came in at."""
        return self.inlet.port


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

    def __init__(self, discipline: str = "fcfs", window_bytes: int = WINDOW_BYTES, measure_s: float = 5.0) -> None:
        if window_bytes < 2:
            raise ValueError(f"window_bytes: {window_bytes}; expected at least 2")
        self.window = window_bytes
        self.discipline = discipline
        self._measure_s = measure_s
        self._components: dict[tuple[str, str], Component] = {}
        self._inlets: dict[str, Inlet] = {}
        self._outlets: dict[str, tuple[Component, Outlet]] = {}
        self._waiting: dict[Inlet, None] = {}  # with a queue that is not empty; a dict for its order
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
        expected: int | None = 0,
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
        expected
            Position that the first item of each input must have; None: whatever comes first (a stream joined later).

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
            application, operator, limit=limit, remaining=remaining, measure_s=self._measure_s, now=now
        )
        sizes = windows or {}
        inside = frozenset(local)
        for channel in outputs:
            outlet = Outlet(channel, sizes.get(channel, self.window), channel in inside)
            component.outlets.append(outlet)
            self._outlets[channel] = (component, outlet)
        for port, channel in enumerate(inputs):
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
        if outlet.sent:  # a reader that takes the place of another joins the stream where it is
            outlet.acknowledged = outlet.sent
            inlet.expected = None
        self._flush(outlet, now, [])

    def remove(self, application: str, operator: str) -> bool:
        """Forget a component and all that waits in its queues and outboxes; False if there is none."""
        component = self._components.pop((application, operator), None)
        if component is None:
            return False
        component.removed = True
        for inlet in component.inlets:
            del self._inlets[inlet.channel]
            self._waiting.pop(inlet, None)
            self._owing.pop(inlet, None)
        for outlet in component.outlets:
            del self._outlets[outlet.channel]
            reader = self._inlets.get(outlet.channel)
            if reader is not None and reader.upstream is outlet:
                reader.upstream = None
        return True

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
        component.arrivals.add(fresh.fresh, now)
        return True

    # -- work ----------------------------------------------------------------------------------------------------

    def next(self, now: float, accept: Callable[[Component, Parcel], bool] | None = None) -> Work | None:
        """Take the parcel that the discipline puts first, or None if nothing may run.

        A component that is running, or has no credit downstream, has to wait; parcels of one channel keep their order.

        Parameters
        ----------
        now
            Time in seconds.
        accept
            Which parcels the driver can execute at the moment; None: all.
        """
        best: Inlet | None = None
        best_rank: tuple[float, int] = (math.inf, 0)
        fcfs, slack = self._discipline == "fcfs", self._discipline == "least_slack"
        for inlet in self._waiting:
            component: Component = inlet.component
            if component.running or not component.open:
                continue
            sequence, _, parcel = inlet.queue[0]
            if accept is not None and not accept(component, parcel):
                continue
            if fcfs:
                rank = (0.0, sequence)
            else:
                deadline = parcel.born + component.limit
                if slack:  # "- now" is the same for all
                    deadline -= (component.tuple_s.moving + component.remaining) * parcel.fresh
                rank = (deadline, sequence)
            if best is None or rank < best_rank:
                best, best_rank = inlet, rank
        if best is None:
            return None
        _, arrived, parcel = best.queue.popleft()
        if not best.queue:
            del self._waiting[best]
        best.queued -= parcel.size
        best.component.running = True
        best.component.queueing.add(now - arrived, max(parcel.fresh, 1))
        return Work(best.component, best, parcel, arrived)

    def done(
        self, work: Work, outputs: Sequence[Parcel], started: float, finished: float, late: int = 0
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

        Returns
        -------
        list of Delivery
            What has to go to other peers now; nothing if the component was removed meanwhile.
        """
        component = work.component
        component.running = False
        if component.removed:
            return []
        took = max(finished - started, 0.0)
        rows = work.parcel.fresh
        component.works += 1
        component.late += late
        component.busy.add(took, finished)
        if rows:
            component.tuple_s.add(took / rows, rows)
            component.batch_s.add(took)
        deliveries: list[Delivery] = []
        self._produce(component, outputs, finished, deliveries)
        self._consume(work.inlet, work.parcel.size)
        if work.inlet.upstream is not None:
            self._flush(work.inlet.upstream, finished, deliveries)
        return deliveries

    # -- sources -------------------------------------------------------------------------------------------------

    def may_emit(self, component: Component) -> bool:
        """Whether a source may emit: everything downstream of it has room."""
        return not component.removed and component.open

    def emit(self, component: Component, outputs: Sequence[Parcel], now: float) -> list[Delivery]:
        """Take what a source emits; gives what has to go to other peers now."""
        deliveries: list[Delivery] = []
        if not component.removed:
            rows = sum(parcel.rows for parcel in outputs)
            component.tuples_in += rows
            component.arrivals.add(rows, now)
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
        rows = 0
        for parcel in outputs:
            rows += parcel.rows
            component.bytes_out += parcel.size
        component.tuples_out += rows
        component.departures.add(rows, now)
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
