"""Creation of a component's logic, feed, or part on Spark from its plan."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

import msgspec
import polars as pl

from synergy_nb import traces
from synergy_nb.connectors import POLLED, connected
from synergy_nb.connectors.own_sources import own_source
from synergy_nb.dataflow.deployments import FOLDER
from synergy_nb.dataflow.logic import ANYTHING, Logic
from synergy_nb.dataflow.operators import create, exact_code, lookup_code
from synergy_nb.dataflow.streams.component.component import Component
from synergy_nb.dataflow.streams.component.component_metrics import ComponentMetrics
from synergy_nb.dataflow.streams.component.component_settings import merged
from synergy_nb.dataflow.streams.log.log import Limits
from synergy_nb.dataflow.streams.log.values import Point
from synergy_nb.dataflow.streams.replicas import duplicate_code
from synergy_nb.dataflow.tuples import END, Batch, Punctuation, empty
from synergy_nb.events import LateRows, SkippedLines
from synergy_nb.plan import Operator, Plan
from synergy_nb.plan.checks.replica_degrees import sums_exactly
from synergy_nb.plan.derived.active_replicas import original
from synergy_nb.plan.derived.gathering import gathering
from synergy_nb.plan.operators.sources import OWN, heartbeat_of, pace_of
from synergy_nb.runtime.data._polled_feed import PolledFeed
from synergy_nb.runtime.data._spark_part import PartCallbacks, SparkPart
from synergy_nb.runtime.data.changed_values import ChangedValues
from synergy_nb.runtime.data.function_processes import FunctionProcesses
from synergy_nb.runtime.data.sources import PeerFeed, PushFeed, Sample, SourceFeed, Stream, ThreadFeed
from synergy_nb.runtime.data.spark_servers import SparkHost
from synergy_nb.traces.replayed import ReplayedSource, items
from synergy_nb.traces.rows import RowReader

__all__ = [
    "SPAN",
    "ExecutionContext",
    "Waiting",
    "feed_of",
    "logic_of",
    "part_of",
    "read_paced",
    "warm",
]

LARGE_TABLE: Final = 10_000  # rows from which a look-up is worth compiled code
_NOTHING: Final[Mapping[str, Any]] = {"str": "", "bytes": b"", "bool": False}
PIECES: Final = 16  # number of pieces of output that fill the memory of an operator
LONGEST_S: Final = 0.1  # longest excess of a wait that later waits make up for, seconds
SPAN: Final = 0.005  # seconds of replay in one batch: shorter ones would have more overhead than work at high rates


def read_paced(params: Mapping[str, Any], skipped: traces.Skipped) -> tuple[Stream, bool]:
    """Open the stream of a trace or of generated tuples with due times, and whether these count (speed is not 0).

    ``skipped`` is a callback for the malformed lines of a trace, see :func:`synergy_nb.traces.read`.
    """
    speed = pace_of(params)
    found = items(ReplayedSource(params), skipped)
    return traces.paced(found, speed, SPAN, heartbeat_of(params)), speed > 0.0


class ExecutionContext(msgspec.Struct, frozen=True):
    """The environment of operators on their host."""

    address: str
    loop: asyncio.AbstractEventLoop
    clock: Callable[[], float]
    limits: Limits  # limits of each log, bytes
    # callback on the loop with a component and the exception of its source
    failed: Callable[[Component, BaseException], None]
    # callback on the loop with a component, a source in it, and the malformed lines that the source skips
    skipped: Callable[[Component, str, SkippedLines], None]
    secrets: Mapping[str, bytes]  # by the name that plans use for them
    # function that returns this peer's load and ping times; None: there are none
    samples: Callable[[], Iterable[Sample]] | None
    # function that opens traces and generators, see `read_paced`
    read: Callable[[Mapping[str, Any], traces.Skipped], tuple[Stream, bool]]
    prepared: Callable[[Component], None]  # callback on the loop with a component whose part on Spark accepts tuples
    # callback on the loop with a component whose part on Spark has room again, or is full
    room: Callable[[Component], None]
    # callback on the loop with a component whose part on Spark has committed or emitted more
    committed: Callable[[Component], None]
    ready: Callable[[], None]  # callback on the loop for a feed that has something to emit
    spark: SparkHost | None
    functions: FunctionProcesses
    record: Callable[..., object]  # function that journals an event: its kind, its subject and its fields
    changed: ChangedValues = msgspec.field(default_factory=ChangedValues)  # costs and paces that users have changed

    @property
    def most(self) -> int:
        """Limit of a chunk of a feed, bytes."""
        return max(self.limits.window // 2, 1)


class Waiting:
    """Wait as long as asked on average: by what one wait was too long, the next ones are shorter.

    So an operator of known cost takes that cost on a busy machine, too.
    """

    def __init__(self, component: ComponentMetrics) -> None:
        self._component = component  # component that waits; the time is added to its `waited_s`
        self._over = 0.0  # seconds that were waited too long

    def __call__(self, seconds: float) -> None:
        """Wait so many seconds, less the time by which earlier waits were too long."""
        began = time.monotonic()
        time.sleep(max(seconds - self._over, 0.0))
        waited = time.monotonic() - began
        self._component.slept(waited)
        self._over = min(max(self._over + waited - seconds, 0.0), LONGEST_S)


def logic_of(
    operator: Operator, plan: Plan, component: Component, context: ExecutionContext, *, compares: bool
) -> Logic:
    """Create the logic of an operator; with little memory it makes small pieces. Compiled code loads meanwhile.

    ``compares``: whether streams of active replicas are compared.

    Raises ``ValueError`` if the operator cannot be created, for example without a secret.
    """
    if component.feed_ports:
        duplicate_code.COMPILED.load_in_background()
    if operator.kind == "aggregate" and sums_exactly(operator, plan.operators.values(), plan.qos):
        exact_code.COMPILED.load_in_background()
    if operator.kind == "lookup" and operator.params["table"]["rows"] >= LARGE_TABLE:
        lookup_code.COMPILED.load_in_background()
    logic = create(
        operator, plan, secrets=context.secrets, wait=Waiting(component), functions=context.functions.calls(component)
    )
    if "function" in operator.params:
        component.stand_apart()
    context.changed.created(component, logic)
    logic.piece_bytes = int(min(logic.piece_bytes, component.share.limit / PIECES))
    return merged(logic, component, plan, compares=compares)


def part_of(operator: Operator, component: Component, context: ExecutionContext) -> SparkPart:
    """Create a part of a plan on Spark.

    Raises ``ValueError`` if the peer has no Spark.
    """
    if context.spark is None:
        raise ValueError(f"operator {operator.id!r}: this peer has no Spark; expected one that has")
    component.hand_over()
    return SparkPart(
        context.ready,
        context.clock,
        most=context.most,
        host=context.spark,
        application=component.application,
        operator=operator,
        secrets=context.secrets,
        told=PartCallbacks(
            failed=partial(context.failed, component),
            prepared=partial(context.prepared, component),
            executed=lambda rows, seconds: component.executed(rows, seconds, context.clock()),
            room=partial(context.room, component),
            skipped=partial(context.skipped, component),
            committed=partial(context.committed, component),
        ),
        epoch=component.epoch,
        most_uncovered=context.limits.retain // 2 if FOLDER in component.copies else None,
    )


def feed_of(
    operator: Operator, plan: Plan, component: Component, since: Point, context: ExecutionContext
) -> SourceFeed:
    """Create the feed of a source, which starts after a point.

    Raises ``ValueError`` if the source measures the peer, which does not measure itself.
    """
    feed = _feed_of(operator, plan, component, since, context)
    context.changed.opened(component, feed)
    return feed


def _feed_of(
    operator: Operator, plan: Plan, component: Component, since: Point, context: ExecutionContext
) -> SourceFeed:
    match operator.params["connector"]:
        case "python":
            return PushFeed(
                context.ready,
                context.clock,
                most=context.most,
                since=since,
                schema=plan.schema(operator.id),
                room=context.limits.window,
            )
        case "peers":
            if context.samples is None:
                what = f"operator {operator.id!r}: connector: 'peers': this peer does not measure itself"
                raise ValueError(f"{what}; expected one that does")
            return PeerFeed(
                context.ready,
                context.clock,
                most=context.most,
                since=since,
                loop=context.loop,
                address=context.address,
                interval=float(operator.params.get("interval", 1.0)),
                samples=context.samples,
            )
        case str() as connector if connector in (*POLLED, OWN):
            params, schema = operator.params, plan.schema(operator.id)
            source = (
                own_source(operator.id, params, schema, context.secrets, partial(context.functions.start, component))
                if connector == OWN
                else connected(params, schema, context.secrets)
            )
            if component.replica_of:
                source.agree()
            return PolledFeed(
                context.ready,
                context.clock,
                most=context.most,
                since=since,
                loop=context.loop,
                source=source,
                place=component.log.place,
                reader=RowReader(operator.id, schema),
                lateness=params.get("lateness"),
                noted=lambda kind, **fields: context.record(
                    kind,
                    component.application,
                    # all replicas of a source drop the same rows
                    operator=original(operator.id) if kind is LateRows else operator.id,
                    **fields,
                ),
                skipped=partial(context.skipped, component, operator.id),
                failed=partial(context.failed, component),
                name=f"synergy {component.application}/{operator.id}",
            )
        case _:
            return ThreadFeed(
                context.ready,
                context.clock,
                most=context.most,
                since=since,
                loop=context.loop,
                read=partial(context.read, operator.params),
                gathers=gathering(plan, operator.id),
                in_step=bool(component.replica_of),
                skipped=partial(context.skipped, component, operator.id),
                failed=partial(context.failed, component),
                name=f"synergy {component.application}/{operator.id}",
            )


def warm(operator: Operator, plan: Plan) -> None:
    """Run an instance of an operator on a meaningless tuple, and let it end.

    The first execution in a process takes 5 to 25 ms more; it happens now, and not when the first tuple, or the end
    of the first window, is waited for.
    """
    with contextlib.suppress(*ANYTHING):  # it may fail: there are no secrets, and the tuple may be refused
        logic = create(operator, plan, wait=lambda _: None)
        for port, upstream in enumerate(operator.streams):
            schema = plan.schema(upstream)
            values = {name: [_NOTHING.get(kind, 0)] for name, kind in schema.items()}
            logic.on_batch(port, Batch(pl.DataFrame(values, schema=empty(schema).schema), 0, 0.0))
        for port in range(logic.ports):
            logic.on_punctuation(port, Punctuation(END, 1, 0.0))
