"""Passive replication on a peer: what it sends of its own components to their backups, and the backups that it keeps.

Theory of operation
-------------------
A primary works as any component. Whatever leaves it also goes to each of its backups, which nothing waits for
(dissertation, section 4.2); and from time to time, in the same order, the state that it has then, with
the positions up to which it has read its inputs. A backup executes nothing. It keeps the last state and, of what was
emitted, what a reader may still need; and it tells those who send to its primary how far the state covers their
streams, so that they need not retain it (:meth:`~synergy_nb.dataflow.channels.Outlet.settle`).

A backup that takes over restores the state, sends what it has kept to its readers, and then goes on from the positions
of the state: senders give it again all that they have retained. What a reader had got before has the same positions
and is dropped there, so nothing is lost and nothing comes twice. That holds where equal inputs give equal outputs. An
operator with several inputs emits in the order in which they come in, so what it emits after its last state need not be
what its primary had emitted: from the promise of that state to the first one after all that was replicated, results
may be missing or doubled. This *gap*, in event time, is journaled. A backup that could not be reached for a while goes
on from the next state.

On the wire (see :mod:`synergy_nb.dataflow.addresses`), frames of kind ``replica`` carry items of a component, ``state``
its states, and ``settled`` a position of a channel, as 8 bytes, little-endian.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from synergy_nb.dataflow.addresses import (
    DATA,
    REPLICA,
    SETTLED,
    STATE,
    component_at,
    component_of,
    kind_of,
    retyped,
)
from synergy_nb.dataflow.channels import Parcel, before
from synergy_nb.dataflow.components import Component
from synergy_nb.dataflow.hosting import Hosting
from synergy_nb.dataflow.operators import OperatorLogic
from synergy_nb.dataflow.packing import on_wire, parcel_of
from synergy_nb.dataflow.tuples import START, decode
from synergy_nb.graph import Replicate
from synergy_nb.plan import Plan
from synergy_nb.runtime.execution import Execution, Runtime, inputs_of, outputs_of

__all__ = ["Replica", "Replicas", "State"]

STATE_S: Final = 0.25  # between two states of a component
SHARE: Final = 0.05  # of the time that taking states may cost
LOG_BYTES: Final = 8 << 20  # kept of a stream for readers that are not replicated

Key = tuple[str, str]


class State(msgspec.Struct, frozen=True, array_like=True):
    """The state of a component.

    Parameters
    ----------
    taken
        Position up to which it has read the stream of each port.
    position, until
        Of its own stream: position of the next tuple, and time of the last punctuation.
    logic
        Of its operator, see ``OperatorLogic.snapshot``.
    """

    taken: list[int]
    position: int
    until: int
    logic: bytes


class Replica:
    """A backup that this peer keeps of a component.

    Parameters
    ----------
    order
        Request to keep the backup.

    Attributes
    ----------
    state : State or None
        The last that came; None: nothing has been read yet.
    log : deque of Parcel
        What was emitted and may still be needed.
    end, until : int
        Position after all that was emitted, and time of the last punctuation in it.
    """

    def __init__(self, order: Replicate) -> None:
        self.application = order.application
        self.plan = Plan.from_bytes(order.plan)
        self.operator = self.plan.operators[order.operator]
        self.state: State | None = None
        self.log: deque[Parcel] = deque()
        self.end = 0
        self.until = START
        self._bytes = 0
        self._settled: dict[str, dict[str, int]] = {}  # channel of a replicated reader: backup of it to position
        self.move(order.peers, order.backups)

    def move(self, peers: Mapping[str, str], backups: Mapping[str, tuple[str, ...]]) -> None:
        """Components are elsewhere."""
        self.peers, self.backups = dict(peers), dict(backups)
        before_it, self._settled = self._settled, {}
        for channel, reader in outputs_of(self.application, self.plan, self.operator.id).items():
            keepers = backups.get(reader, ())
            if keepers:
                known = before_it.get(channel, {})
                self._settled[channel] = {keeper: known.get(keeper, 0) for keeper in keepers}

    def add(self, parcel: Parcel) -> None:
        """Keep what was emitted, unless it is here already, or something before it is missing."""
        if parcel.position != self.end or (parcel.time is not None and parcel.time <= self.until):
            return
        if parcel.time is not None:
            self.until = parcel.time
        self.end += parcel.rows
        self.log.append(parcel)
        self._bytes += parcel.size
        self._trim()

    def go_on(self, state: State) -> None:
        """Keep a state in place of the last one."""
        self.state = state
        if state.position > self.end:  # something was lost on the way, and the state covers it
            self.log.clear()
            self._bytes, self.end, self.until = 0, state.position, state.until

    def settle(self, channel: str, keeper: str, position: int) -> None:
        """A backup of a reader does not need what is before ``position``."""
        known = self._settled.get(channel)
        if known is not None and keeper in known:
            known[keeper] = max(known[keeper], position)
            self._trim()

    def _trim(self) -> None:
        needed = min((min(known.values()) for known in self._settled.values()), default=self.end)
        while self.log and self._bytes > LOG_BYTES and before(self.log[0], needed):
            self._bytes -= self.log.popleft().size

    def resume(self, execution: Execution) -> None:
        """Have a new component go on where the primary was; what leaves it is held until its readers know of it.

        Raises
        ------
        ValueError
            If the state is none of its operator.
        """
        component, logic = execution.component, execution.logic
        if self.state is not None and isinstance(logic, OperatorLogic):
            logic.restore(self.state.logic)
            execution.taken = list(self.state.taken)
            component.position = self.state.position
            component.until = self.state.until if self.state.until > START else None
            for inlet, position in zip(component.inlets, self.state.taken, strict=True):
                inlet.expected = position
        for outlet in component.outlets:
            outlet.held = True
            outlet.outbox.extend(self.unsent)

    @property
    def unsent(self) -> list[Parcel]:
        """What was emitted before the state: the rest is emitted again."""
        position, until = (0, START) if self.state is None else (self.state.position, self.state.until)
        return [
            parcel for parcel in self.log if (before(parcel, position) if parcel.time is None else parcel.time <= until)
        ]


class _Primary:
    """What a component here sends to its backups: a reader of its stream that never holds it up."""

    def __init__(self, execution: Execution, send: Callable[[str, str, bytes], bool], backups: Sequence[str]) -> None:
        self.execution = execution
        self.backups = list(backups)
        self.silent: set[str] = set()  # of these, those that could not be reached
        self.dirty = False  # has executed something since its last state
        self.due = False  # wants to tell its state as soon as it does nothing
        self.told = 0.0  # when it told its last state
        self.every = STATE_S
        self._send = send
        component = execution.component
        self._items = component_of(REPLICA, component.application, component.operator)
        self._states = retyped(self._items, STATE)

    wire = True
    open = True

    def take(self, parcels: Sequence[Parcel]) -> None:
        for parcel in parcels:
            payload = on_wire(parcel).payload or b""
            for address in self.backups:
                if address not in self.silent and not self._send(address, self._items, payload):
                    self.silent.add(address)

    def tell(self, state: State) -> None:
        """Let all backups have a state, those that missed something among them."""
        payload = msgspec.msgpack.encode(state)
        for address in self.backups:
            if self._send(address, self._states, payload):
                self.silent.discard(address)

    def lose(self, why: str) -> None:
        self.backups.clear()


class Replicas:
    """The backups of one peer, and the replication of its primaries.

    Parameters
    ----------
    runtime
        The running peer.
    hosting
        Queues and channels of the components of the peer.
    ready
        Called when something may go on that had to wait.
    """

    def __init__(self, runtime: Runtime, hosting: Hosting, ready: Callable[[], None]) -> None:
        self._runtime = runtime
        self._hosting = hosting
        self._ready = ready
        self._kept: dict[Key, Replica] = {}
        self._primaries: dict[Component, _Primary] = {}
        self._gaps: dict[Component, tuple[int, int]] = {}  # since when, and the position beyond all that was replicated
        self._timer: asyncio.TimerHandle | None = None

    # -- backups -------------------------------------------------------------------------------------------------

    def keep(self, order: Replicate) -> None:
        """Keep a backup."""
        self._kept.setdefault((order.application, order.operator), Replica(order))

    def kept(self, application: str, operator: str) -> Replica | None:
        """The backup of a component, if it is here."""
        return self._kept.get((application, operator))

    def drop(self, application: str, operator: str) -> bool:
        """Forget a backup; False if there is none."""
        return self._kept.pop((application, operator), None) is not None

    def move(self, application: str, peers: Mapping[str, str], backups: Mapping[str, tuple[str, ...]]) -> None:
        """Components of an application are elsewhere."""
        for (of, _), replica in self._kept.items():
            if of == application:
                replica.move(peers, backups)
        for component, primary in self._primaries.items():
            if component.application == application:
                wanted = backups.get(component.operator, ())
                primary.backups = [address for address in primary.backups if address in wanted]

    def on_data(self, sender: str, channel: str, payload: bytes) -> bool:
        """Take a frame; False if it is none for this peer.

        Raises
        ------
        ValueError
            If it is damaged.
        """
        kind = kind_of(channel)
        if kind == SETTLED:
            if len(payload) != 8:
                raise ValueError(f"{len(payload)} bytes; expected 8")
            self._settle(retyped(channel, DATA), sender, int.from_bytes(payload, "little"))
            return True
        replica = self._kept.get(component_at(channel))
        if replica is None:
            return False
        if kind == REPLICA:
            replica.add(parcel_of(decode(payload), payload))
        else:
            state = msgspec.msgpack.decode(payload, type=State)
            replica.go_on(state)
            self._tell_settled(replica, state)
        return True

    def _tell_settled(self, replica: Replica, state: State) -> None:
        """Tell those who send to a primary, and their backups, that this backup covers what they sent."""
        channels = inputs_of(replica.application, replica.operator)
        for port, (channel, upstream) in enumerate(zip(channels, replica.operator.inputs, strict=True)):
            for address in (replica.peers[upstream], *replica.backups.get(upstream, ())):
                if address == self._runtime.address:
                    self._settle(channel, address, state.taken[port])
                else:
                    self._send(address, retyped(channel, SETTLED), state.taken[port].to_bytes(8, "little"))

    def _settle(self, channel: str, keeper: str, position: int) -> None:
        outlet = self._hosting.outlet(channel)
        if outlet is not None:
            outlet.settle(keeper, position)
            self._ready()
        for replica in self._kept.values():
            replica.settle(channel, keeper, position)

    # -- primaries -----------------------------------------------------------------------------------------------

    def replicate(self, execution: Execution, backups: Sequence[str], replica: Replica | None = None) -> None:
        """Send what a component emits to its backups; one that has taken over tells them first what it goes on from."""
        component = execution.component
        if replica is not None and len(component.inlets) > 1:
            since = START if replica.state is None else replica.state.until
            self._gaps[component] = since, replica.end
        if not backups:
            return
        primary = self._primaries[component] = _Primary(execution, self._send, backups)
        if replica is not None:
            primary.take(replica.unsent)
            if replica.state is not None:
                primary.tell(replica.state)
        component.taps.append(primary)
        if self._timer is None:
            self._timer = self._runtime.loop.call_later(STATE_S, self._tick)

    def remove(self, component: Component) -> None:
        """A component has gone."""
        self._primaries.pop(component, None)
        self._gaps.pop(component, None)

    def executed(self, execution: Execution) -> None:
        """A component has executed something."""
        component = execution.component
        if component in self._gaps:
            self._close_gap(component)
        primary = self._primaries.get(component)
        if primary is not None:
            primary.dirty = True
            if primary.due:
                self._tell(primary)

    def _close_gap(self, component: Component) -> None:
        """Say which results may be missing or doubled, once all that follow are right."""
        since, position = self._gaps[component]
        if component.position >= position and component.until is not None and component.until > since:
            del self._gaps[component]
            times = {"since": since if since > START else None, "until": component.until}
            self._runtime.record("gap", component.application, operator=component.operator, **times)

    def _tick(self) -> None:
        now = self._runtime.clock()
        for primary in self._primaries.values():
            if primary.dirty and now - primary.told >= primary.every:
                if primary.execution.component.running or primary.execution.component.unfinished:
                    primary.due = True
                else:
                    self._tell(primary)
        more = bool(self._primaries)
        self._timer = self._runtime.loop.call_later(STATE_S, self._tick) if more else None

    def _tell(self, primary: _Primary) -> None:
        execution = primary.execution
        component, logic = execution.component, execution.logic
        primary.dirty = primary.due = False
        if not primary.backups or not isinstance(logic, OperatorLogic):
            return
        began = self._runtime.clock()
        until = START if component.until is None else component.until
        primary.tell(State(list(execution.taken), component.position, until, logic.snapshot()))
        primary.told = self._runtime.clock()
        primary.every = max(STATE_S, (primary.told - began) / SHARE)

    def _send(self, address: str, channel: str, payload: bytes) -> bool:
        try:
            self._runtime.send_data(address, channel, payload)
        except (OSError, BufferError):
            return False
        return True

    def close(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
