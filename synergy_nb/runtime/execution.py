"""One operator at work on a peer: its component with its channels, and the logic, feed or sink that goes with it."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final, Protocol

import msgspec
import polars as pl
import pyarrow as pa

from synergy_nb import traces
from synergy_nb.dataflow.addresses import channel_of, results_of
from synergy_nb.dataflow.channels import Parcel
from synergy_nb.dataflow.hosting import Component, Hosting, Work
from synergy_nb.dataflow.logic import ANYTHING, Logic
from synergy_nb.dataflow.memory import MemoryExceeded
from synergy_nb.dataflow.operators import OperatorLogic, create
from synergy_nb.dataflow.packing import coalesce, pack
from synergy_nb.dataflow.tuples import END, Batch, Item, Punctuation, empty
from synergy_nb.graph import Deploy
from synergy_nb.plan import Operator, Plan
from synergy_nb.plan.parts import PART
from synergy_nb.plan.sharing import TAP, provider
from synergy_nb.runtime.logic import Outcome
from synergy_nb.runtime.sinks import Sink
from synergy_nb.runtime.sources import Feed, PeerFeed, PushFeed, Sample, Stream, ThreadFeed
from synergy_nb.runtime.spark import SparkHost, SparkPart
from synergy_nb.runtime.taps import Tap

__all__ = [
    "Execution",
    "Outcome",
    "Runtime",
    "Surroundings",
    "assemble",
    "inputs_of",
    "outputs_of",
    "read_paced",
    "warm",
]

_NOTHING: Final[Mapping[str, Any]] = {"str": "", "bytes": b"", "bool": False}
PIECES: Final = 16  # pieces of output that would fill the memory of an operator
LIGHT_BYTES: Final = 1 << 20  # that the execution of few tuples may need; more is no light work
SPAN: Final = 0.005  # seconds of replay in one piece: at high rates, one a millisecond would cost more than its tuples


def read_paced(params: Mapping[str, Any]) -> tuple[Stream, bool]:
    """The stream of a trace or of generated packets with due times, and whether these count (the speed is not 0)."""
    speed = float(params.get("speed", 1.0 if params["connector"] == "packets" else 0.0))
    return traces.paced(traces.read(params), speed, SPAN), speed > 0.0


class Runtime(Protocol):
    """What the host needs of the running peer; everything is called on the loop's thread, ``clock`` from any."""

    @property
    def address(self) -> str:
        """The peer's address."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop that the peer runs on."""

    def clock(self) -> float:
        """Wall-clock seconds that never step back."""

    def send_data(self, to: str, channel: str, payload: bytes) -> None:
        """Put ``payload`` on its way to the host of the peer at ``to``."""

    def record(self, kind: str, subject: str = "", **detail: Any) -> None:
        """Write a past fact to the journal."""


class Surroundings(msgspec.Struct, frozen=True):
    """What executions are given by the host that they belong to.

    Parameters
    ----------
    address, loop, clock
        Address of the peer, its event loop, and its clock in seconds.
    ready
        To be called on the loop when a source has something to emit.
    failed
        To be called on the loop with an execution and what its source raised.
    result_bytes
        Window of a sink's results.
    most
        Bytes of a parcel, at most.
    keys
        Secrets of ``encrypt`` and ``decrypt`` by name.
    samples
        This peer's load and ping times, or None.
    read
        Opens traces and generators, see :func:`read_paced`.
    prepared
        To be called on the loop with an execution whose part on Spark takes tuples.
    shared
        Gives the component whose stream is that of an application's operator on this peer; ValueError if none is.
    tap_bytes
        Of a shared stream that may wait for one of its readers.
    spark
        What the peer has to do with Spark; None: nothing.
    """

    address: str
    loop: asyncio.AbstractEventLoop
    clock: Callable[[], float]
    ready: Callable[[], None]
    failed: Callable[[Execution, BaseException], None]
    result_bytes: int
    most: int
    keys: Mapping[str, bytes]
    samples: Callable[[], Iterable[Sample]] | None
    read: Callable[[Mapping[str, Any]], tuple[Stream, bool]]
    prepared: Callable[[Execution], None]
    shared: Callable[[str, str], Component]
    tap_bytes: int
    spark: SparkHost | None


class Execution:
    """What the driver adds to a component; made by :func:`assemble`.

    Attributes
    ----------
    logic, feed, sink
        What it executes: a source or a tap has a feed, all others have logic, and sinks a sink; a part on Spark is both
        feed and logic.
    routes
        Channel to the address that it leads to.
    readers
        Channel to the operator that reads it.
    writers
        Channel of each port to the address that it comes from.
    taken
        Position up to which the stream of each port has been executed.
    wire
        Whether outputs have to be encoded.
    tuple_s
        Seconds that the plan states for the processing of a tuple.
    light_s, light_punctuation_s
        What an item of few tuples has been taking, in seconds; infinite before the first.
    failure
        Why it failed, or None.
    """

    def __init__(self, operator: Operator, component: Component, around: Surroundings) -> None:
        self.operator = operator
        self.component = component
        self.logic: Logic | None = None
        self.feed: Feed | None = None
        self.sink: Sink | None = None
        self.routes: dict[str, str] = {}
        self.readers: dict[str, str] = {}
        self.writers: dict[str, str] = {}
        self.taken = [0] * len(operator.inputs)
        self.wire = False
        self.tuple_s = 0.0
        self.light_s = math.inf
        self.light_punctuation_s = math.inf
        self._recent: deque[float] = deque(maxlen=9)
        self.late = 0
        self.started = False
        self.failure: str | None = None
        self._address = around.address
        self._clock = around.clock
        self._most = around.most
        self._steps: Iterator[Item | None] | None = None  # of work that is unfinished
        self._item: Item | None = None  # that is executed

    def refit(self) -> None:
        """Let outputs be encoded from now on if, and only if, somebody wants them so."""
        component = self.component
        elsewhere = any(address != self._address for address in self.routes.values())
        self.wire = self.sink is not None or elsewhere or any(tap.wire for tap in component.taps)
        if self.feed is not None:
            self.feed.wire = self.wire

    def light(self, work: Work) -> bool:
        """Whether work needs little memory, and so makes little."""
        logic = self.logic
        return logic is None or sum(logic.needs(work.port, each.item) for each in work.parcels) < LIGHT_BYTES

    def run(self, work: Work) -> Outcome:
        """Run the operator on what waited for it; in any thread, but never twice at the same time.

        Output that exceeds the window of a channel is made in several runs.
        """
        began = self._clock()
        outcome = Outcome(began)
        logic = self.logic
        try:
            if logic is not None:  # None: removed meanwhile
                rate = self.component.departures.per_second(began)
                steps = self._steps if work.resumed and self._steps is not None else self._take(logic, work)
                self._steps = None
                items: list[Item] = []
                size = 0
                for made in steps:
                    if made is not None and size < 2 * self._most:
                        items.append(made)
                        size += made.nbytes if isinstance(made, Batch) else 0
                        continue
                    outcome.late = logic.late
                    if self.sink is not None:
                        now = self._clock()
                        outcome.arrived += [(i.rows, i.nbytes, i.born, now) for i in items if isinstance(i, Batch)]
                    outcome.made += sum(i.rows for i in items if isinstance(i, Batch))
                    outcome.parcels += pack(items, wire=self.wire, most=self._most, rate=rate)
                    ended = self._clock()
                    outcome.spent.append((self._item.rows if isinstance(self._item, Batch) else 0, ended - began))
                    began, items = ended, []
                    if made is not None:
                        self._steps, outcome.unfinished = itertools.chain((made,), steps), True
                        break
        except MemoryExceeded as error:
            outcome.error = error
        except (MemoryError, pa.ArrowCapacityError) as error:
            outcome.error = self.component.share.failed(error)
        except ANYTHING as error:  # an operator may raise what it likes: only its application may suffer
            overflow = "capacity overflow" in str(error)  # what Rust says of an allocation of more than there can be
            outcome.error = self.component.share.failed(error) if overflow else error
        outcome.finished = self._clock()
        return outcome

    def _take(self, logic: Logic, work: Work) -> Iterator[Item | None]:
        """All output of work, with None after the output of each of its items."""
        share = self.component.share
        for self._item in coalesce([_fresh(parcel) for parcel in work.parcels]):
            share.admit(logic.needs(work.port, self._item))
            yield from logic.take(work.port, self._item)
            share.hold(logic.state_bytes)
            yield None

    def account(self, outcome: Outcome, few: int) -> int:
        """Remember how long items took, of batches those of less than ``few`` tuples; gives what was late in them.

        Of batches the median of the last nine counts, so that neither the first, cold one nor one during which the
        machine was busy elsewhere does; of punctuations the longest, fading, since one in many may close a window.
        """
        for rows, took in outcome.spent:
            if not rows:
                longest = self.light_punctuation_s
                self.light_punctuation_s = took if longest == math.inf else max(took, 0.9 * longest)
            elif rows < few:
                self._recent.append(took)
                self.light_s = sorted(self._recent)[len(self._recent) // 2]
        late, self.late = max(outcome.late - self.late, 0), outcome.late
        return late


def _fresh(parcel: Parcel) -> Item:
    """The item of a parcel, without the tuples that are duplicates."""
    item: Item = parcel.item
    if parcel.skip and isinstance(item, Batch):
        rest = item.table.slice(parcel.skip)
        return msgspec.structs.replace(item, table=rest, position=item.position + parcel.skip)
    return item


def warm(operator: Operator, plan: Plan) -> None:
    """Run a twin of an operator on a tuple that means nothing and let it end.

    What a process does for the first time takes its 5 to 25 ms now, and not when the first tuple or the end of the
    first window is waited for.
    """
    with contextlib.suppress(*ANYTHING):  # it need not succeed: there are no keys, and the tuple may be refused
        logic = create(operator, plan, wait=lambda _: None)
        for port, upstream in enumerate(operator.inputs):
            schema = plan.schema(upstream)
            values = {name: [_NOTHING.get(kind, 0)] for name, kind in schema.items()}
            logic.on_batch(port, Batch(pl.DataFrame(values, schema=empty(schema).schema), 0, 0.0))
        for port in range(logic.ports):
            logic.on_punctuation(port, Punctuation(END, 1, 0.0))


def inputs_of(application: str, operator: Operator) -> list[str]:
    """Channel of each port of an operator."""
    return [channel_of(application, up, operator.id, port) for port, up in enumerate(operator.inputs)]


def outputs_of(application: str, plan: Plan, operator: str) -> dict[str, str]:
    """Channels that an operator's stream goes to, and who reads each."""
    readers = [plan.operators[down] for down in dict.fromkeys(plan.downstream(operator))]
    return {
        channel: reader.id
        for reader in readers
        for channel, up in zip(inputs_of(application, reader), reader.inputs, strict=True)
        if up == operator
    }


def assemble(order: Deploy, hosting: Hosting, around: Surroundings) -> Execution:
    """Add the component that ``order`` asks for to ``hosting``, with all that it needs to run.

    Raises
    ------
    ValueError
        If the plan has no such operator, its graph lacks a peer, or the operator cannot be created.
    """
    plan = Plan.from_bytes(order.plan)
    application = order.application
    operator = plan.operators.get(order.operator)
    if operator is None:
        raise ValueError(f"operator: {order.operator!r}; expected one of {', '.join(plan.operators)}")
    missing = [down for down in plan.downstream(operator.id) if down not in order.peers]
    if missing:
        raise ValueError(f"operator {operator.id!r}: no peer is given for {', '.join(missing)}")
    inputs, readers = inputs_of(application, operator), outputs_of(application, plan, operator.id)
    routes = {channel: order.peers[down] for channel, down in readers.items()}
    results = results_of(application, operator.id)  # what the client reads
    ends = operator.kind == "sink"
    component = hosting.add(
        application,
        operator.id,
        inputs=inputs,
        outputs=[*routes, results] if ends else [*routes],
        local=[channel for channel, address in routes.items() if address == around.address],
        windows={results: around.result_bytes},
        limit=plan.qos.delay,
        remaining=_downstream_s(plan, operator.id, {}),
        share=plan.qos.memory,
        joins=[channel for channel, up in zip(inputs, operator.inputs, strict=True) if plan.operators[up].kind == TAP],
        now=around.clock(),
    )
    component.kind, component.stream = operator.kind, plan.stream_name(operator.id)
    component.share.kind = operator.kind
    execution = Execution(operator, component, around)
    execution.tuple_s = component.planned_s = plan.processing_time(operator.id)
    execution.routes, execution.readers = routes, readers
    execution.writers = {channel: order.peers.get(up, "") for channel, up in zip(inputs, operator.inputs, strict=True)}
    for outlet in component.outlets:
        outlet.keepers = dict.fromkeys(order.backups.get(readers.get(outlet.channel, ""), ()), 0)
    if ends:
        execution.sink = Sink(application, operator.id, results, limit=plan.qos.delay, now=around.clock())
    execution.refit()
    try:
        if operator.kind == PART:
            execution.feed = execution.logic = _part(execution, around)
        elif operator.kind == TAP:
            execution.feed = _tap(execution, around)
        elif operator.kind == "source":
            execution.feed = _feed(execution, plan, hosting.window, around)
        else:
            execution.logic = logic = create(operator, plan, keys=around.keys, wait=time.sleep)
            _fit(logic, component.share.limit)
    except BaseException:
        hosting.remove(application, operator.id)
        raise
    return execution


def _fit(logic: OperatorLogic, share: float) -> None:
    """Have an operator of little memory make small pieces."""
    logic.piece_bytes = int(min(logic.piece_bytes, share / PIECES))


def _part(execution: Execution, around: Surroundings) -> SparkPart:
    component, operator = execution.component, execution.operator
    if around.spark is None:
        raise ValueError(f"operator {operator.id!r}: this peer has no Spark")
    component.elsewhere = True

    def room() -> None:
        component.paused = part.full
        around.ready()

    part = SparkPart(
        around.ready,
        around.clock,
        wire=execution.wire,
        most=around.most,
        host=around.spark,
        application=component.application,
        operator=operator,
        keys=around.keys,
        failed=partial(around.failed, execution),
        prepared=partial(around.prepared, execution),
        executed=lambda rows, seconds: component.executed(rows, seconds, around.clock()),
        room=room,
    )
    return part


def _tap(execution: Execution, around: Surroundings) -> Tap:
    operator = execution.operator
    found = provider(operator, around.address)
    if found is None:
        raise ValueError(f"operator {operator.id!r}: this peer gives no such stream")
    return Tap(
        around.ready,
        around.clock,
        wire=execution.wire,
        most=around.most,
        source=around.shared(*found),
        limit=around.tap_bytes,
        failed=lambda error: _put_off(around, execution, error),
    )


def _put_off(around: Surroundings, execution: Execution, error: BaseException) -> None:
    """Fail when what is under way is done: the component that is tapped is at work, or being removed."""
    around.loop.call_soon(around.failed, execution, error)


def _feed(execution: Execution, plan: Plan, room: int, around: Surroundings) -> Feed:
    operator = execution.operator
    match operator.params["connector"]:
        case "python":
            return PushFeed(
                around.ready,
                around.clock,
                wire=execution.wire,
                most=around.most,
                schema=plan.schema(operator.id),
                room=room,
            )
        case "peers":
            if around.samples is None:
                raise ValueError(f"operator {operator.id!r}: connector: 'peers': this peer does not measure itself")
            return PeerFeed(
                around.ready,
                around.clock,
                wire=execution.wire,
                most=around.most,
                loop=around.loop,
                address=around.address,
                interval=float(operator.params.get("interval", 1.0)),
                samples=around.samples,
            )
        case _:
            return ThreadFeed(
                around.ready,
                around.clock,
                wire=execution.wire,
                most=around.most,
                loop=around.loop,
                read=partial(around.read, operator.params),
                failed=partial(around.failed, execution),
                name=f"synergy {execution.component.application}/{operator.id}",
            )


def _downstream_s(plan: Plan, operator: str, known: dict[str, float]) -> float:
    """Processing time of the longest path downstream of an operator, in seconds a tuple."""
    if operator not in known:
        known[operator] = max(
            (plan.processing_time(down) + _downstream_s(plan, down, known) for down in plan.downstream(operator)),
            default=0.0,
        )
    return known[operator]
