"""Streams in virtual time with a durable folder, of which Spark executes one operator: what it keeps outlives all.

What Spark does is a model: micro-batches are planned, read, handed over and committed one after the other, and each of
these may be the last thing that happens. The exchange of tuples, what a snapshot has of it, and the streams are those
of real peers. Rows leave in an order that depends on how they were divided into micro-batches, so that whoever divides
them anew gives others at the same positions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from spark_stream._exchange import Exchange
from spark_stream._spool import FIRST, Offset, Spool
from spark_stream._tables import MARK, arrow_schema
from spark_stream.callbacks import QueryCallbacks
from spark_stream.results import DeliveryProgress, ExchangeRefused
from spark_stream.resumption import Resumption
from synergy_nb.dataflow.deployments import FOLDER, Assignment, Deployment
from synergy_nb.dataflow.logic import Logic, SavedState
from synergy_nb.dataflow.streams.component.component import Component
from synergy_nb.dataflow.streams.component.execution import Committed
from synergy_nb.dataflow.streams.hosting.effects import Effect
from synergy_nb.dataflow.streams.hosting.hosting import Hosting
from synergy_nb.dataflow.streams.log.values import ORIGIN, Chunk, Point, chunks_of
from synergy_nb.dataflow.tuples import END, Item
from synergy_nb.durable.restoring import restored
from synergy_nb.runtime.data._query_results import HandedStep, HandedSteps
from tests.durable.durable_world import DurableWorld

ON_SPARK = "spark"  # id of the operator that Spark executes
END_TIME = 10**15  # event time that stands for the end of a stream in Spark, microseconds


class Kept:
    """A checkpoint: where micro-batches end, and how many are committed."""

    def __init__(self, ends: Sequence[Offset] = (FIRST,), done: int = 0) -> None:
        self.ends = list(ends)
        self.done = done

    def copy(self, batch: int) -> Kept:
        """The same up to a micro-batch, as `spark_stream.checkpoints.copied` makes it."""
        committed = min(self.done - 1, batch)
        assert committed >= batch - 1, f"it ends with micro-batch {committed}; expected {batch}"
        assert committed == batch or len(self.ends) > batch + 1, f"micro-batch {batch} was never planned"
        planned = batch + 1 if committed == batch else batch
        return Kept(self.ends[: planned + 2], committed + 1)


class Part:
    """A part on Spark at one peer: what `SparkPart` and its query do, without threads."""

    late, uncovered_bytes, state_bytes = 0, 0, 0

    def __init__(self, world: EngineWorld, epoch: int, columns: Mapping[str, str]) -> None:
        self._world, self._epoch, self._columns = world, epoch, columns
        self._since = Resumption("q")
        self._early: list[Item] = []
        self._items: list[Item] = []  # results of the present micro-batch
        self._exchange: Exchange | None = None
        self._replicated = self.released = -1
        self._known = False  # whether the folder has a snapshot of this part
        self.where = ""  # name of the checkpoint; empty if it has none yet
        self._former: tuple[str, ...] = ()
        self._copying = False
        self._handed = -1  # last micro-batch that was handed over here
        self._read: list[str] | None = None  # what was put of the present micro-batch; None: it is not read
        self.pending = deque[Chunk]()
        self.steps = HandedSteps(ORIGIN)
        self.point = ORIGIN
        self.server = world.server

    # -- as logic --------------------------------------------------------------------------------------------------

    def needs(self, port: int, item: Item) -> float:
        return 0.0

    def execute(self, port: int, item: Item) -> Iterator[Item]:
        if self._exchange is None:
            self._early.append(item)
        else:
            self._exchange.append(0, item)
        return iter(())

    def save(self) -> SavedState:
        return self.committed.state()

    def restore(self, saved: SavedState, /) -> None:
        self._since = msgspec.msgpack.decode(saved.head, type=Resumption)
        self._replicated = self.released = self._since.handed.batch

    @property
    def committed(self) -> Committed:
        since, inputs = self._since, self._since.inputs or ((FIRST, ORIGIN),)
        if self._exchange is not None:
            inputs = tuple(self._exchange.committed)
        handed: DeliveryProgress = self.steps.last.handed or since.handed
        named = msgspec.structs.replace(since, handed=handed, inputs=inputs)
        if self.where:
            named = Resumption("q", handed, inputs, self.server, self.where, self._former)
        whole = self._exchange is not None and handed.batch >= self.released
        whole = whole and (bool(self.where) or handed.emitted == END)
        state = SavedState(msgspec.msgpack.encode(named))
        return Committed((inputs[0][1],), self.steps.last.end, handed.batch, whole, lambda: state)

    def set_copies(self, *, copies: bool, safe: bool) -> None:
        assert copies
        assert safe

    def replicated(self, step: int) -> None:
        self._replicated, self._known = max(self._replicated, step), True
        for each in self._former:
            self._world.checkpoints.pop(each, None)
        self._former = ()

    # -- as a query ------------------------------------------------------------------------------------------------

    def begin(self, end: Point) -> None:
        """Go on behind a point of the stream."""
        self.point, self.steps = end, HandedSteps(end)
        calls = QueryCallbacks(on_items=self._items.extend, on_handed=self._hand)
        self._exchange = Exchange(
            "q", self._columns, calls, windowed=False, since=self._since.handed,
            arrange=lambda table: table.sort("w", descending=True),
        )  # fmt: skip
        start, point = self._since.inputs[0] if self._since.inputs else (FIRST, ORIGIN)
        self._exchange.attach(
            Spool(start=start, point=point, most=40, continues=bool(self._since.checkpoint)),
            arrow_schema(self._columns),
            1,
        )
        self._run = self._exchange.begin(END_TIME)
        for item in self._early:
            self._exchange.append(0, item)

    @property
    def begun(self) -> bool:
        return self._exchange is not None

    def _hand(self, handed: DeliveryProgress) -> None:
        if self._items:
            chunks = chunks_of(self._items, self.point)
            self.point = chunks[-1].end
            self.pending.extend(chunks)
            self._items.clear()
        if handed.batch > self._handed:
            self.steps.hand(HandedStep(handed, self.point))
            self._handed = handed.batch
        if self._replicated < handed.batch:
            raise ExchangeRefused("the folder does not know of it")
        self.released = max(self.released, handed.batch)

    def step(self) -> None:
        """Do the next thing, if there is any."""
        exchange = self._exchange
        if exchange is None or exchange.ended:
            return
        if not self.where:
            self._open()
            return
        kept = self._world.checkpoints[self.where]
        if len(kept.ends) == kept.done + 1:
            start = kept.ends[-1]
            end = exchange.latest(self._run, 0, 0, start, 0.0)
            if end != start:
                kept.ends.append(end)
            return
        start, end = kept.ends[kept.done : kept.done + 2]
        if self._read is None:
            self._fetch(exchange, start, end)
            return
        if not self._known:
            return  # no result leaves before the folder knows the checkpoint
        try:
            exchange.finish(self._run, kept.done, self._read)
        except ExchangeRefused:
            return
        kept.done, self._read = kept.done + 1, None

    def _open(self) -> None:
        """Have a checkpoint: that of the query before on the same server, or a copy, which takes a while."""
        world, since = self._world, self._since
        if since.checkpoint and since.server == self.server:
            self.where = since.checkpoint
            return
        mine = f"q-{self._epoch}"
        if since.checkpoint and not self._copying:
            world.checkpoints[mine] = Kept()  # it is not whole
            self._copying = True
            return
        before = world.checkpoints.get(since.checkpoint, Kept())
        world.checkpoints[mine] = before.copy(since.handed.batch)
        self._former = (*since.former, since.checkpoint) if since.checkpoint else ()
        self.where = mine

    def _fetch(self, exchange: Exchange, start: Offset, end: Offset) -> None:
        spool = exchange.inlets[0]
        assert isinstance(spool, Spool)
        if start != end:
            spool.await_until(start, end)
        if not spool.reaches(end):
            return
        found = list[pa.RecordBatch]()
        for part in exchange.partitions(self._run, 0, 0, start, end) if start != end else ():
            table = exchange.read(self._run, 0, start, end, part)
            found += table.filter(pa.compute.invert(table[MARK])).drop_columns([MARK]).to_batches()
        self._read = ["all"]
        exchange.put(self._run, "all", found)


class EngineWorld(DurableWorld):
    """Peers that have a folder, and Spark for one of the operators, which has a folder of its own in it."""

    def __init__(self, seed: int, peers: Sequence[str], **settings: Any) -> None:
        super().__init__(seed, peers, **settings)
        self.checkpoints: dict[str, Kept] = {}
        self.server = "1"  # name of the Spark server
        self._parts: dict[str, list[tuple[Component, Part]]] = {}  # by peer

    def _create(self, deployment: Deployment, component: Component) -> Logic | None:
        made = super()._create(deployment, component)
        if component.operator != ON_SPARK:
            return made
        component.hand_over()
        part = Part(self, component.epoch, self.plans[deployment.application].schema(ON_SPARK))
        self._parts.setdefault(component.peer, []).append((component, part))
        return part

    def _with_folder(self, application: str, assignments: Mapping[str, Assignment]) -> dict[str, Assignment]:
        found = super()._with_folder(application, assignments)
        mine = found[ON_SPARK]
        found[ON_SPARK] = msgspec.structs.replace(mine, external=True, synchronized=(*{*mine.synchronized, FOLDER},))
        return found

    def _converge(self, peer: str, deployment: Deployment) -> None:
        super()._converge(peer, deployment)
        self.after(0.0, self._turn, peer)

    def _turn(self, peer: str) -> None:
        """What Spark does for the parts of a peer, and what the peer does with it."""
        if self.nodes[peer].crashed:
            return

        def turn(hosting: Hosting) -> list[Effect]:
            effects: list[Effect] = []
            for component, part in self._parts.get(peer, ()):
                if hosting.components.get(component.key) is not component or component.failed:
                    continue
                if not part.begun:
                    if component.running:  # its state is being restored
                        continue
                    part.begin(component.log.end)
                part.step()
                while part.pending and hosting.may_emit(*component.key):
                    chunk = part.pending.popleft()
                    effects += hosting.emit(*component.key, [chunk], self.now)
                    part.steps.emit(chunk.end)
                effects += hosting.committed(component, self.now)
            return effects

        self._at(peer, turn)
        self.after(self.rng.uniform(0.005, 0.05), self._turn, peer)

    # -- the end of everything -------------------------------------------------------------------------------------

    def kill_all(self, peers: Sequence[str]) -> None:
        """Kill all peers, and mostly the Spark server; it may still commit what it was told to."""
        if self.rng.random() < 0.7:
            self.server = str(int(self.server) + 1)
        for _, part in (each for found in self._parts.values() for each in found):
            kept = self.checkpoints.get(part.where)
            if kept is not None and part.released >= kept.done and len(kept.ends) > kept.done + 1:
                kept.done += self.rng.random() < 0.5
        self._parts.clear()
        super().kill_all(peers)

    def forget_unnamed(self, application: str) -> None:
        """Remove the checkpoints that no snapshot names, as the next cluster does."""
        found = restored(self.files(application), ON_SPARK)
        state = None if found is None else found.copy.state
        named = "" if state is None else msgspec.msgpack.decode(state.head, type=Resumption).checkpoint
        self.checkpoints = {name: each for name, each in self.checkpoints.items() if name == named}
