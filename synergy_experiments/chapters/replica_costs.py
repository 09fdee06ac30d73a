"""H3: processing time of an active replica (ICDE 2008, section VI-D, table I).

A replica decodes the batches of its stream replicas, passes them through a duplicate filter for each input, executes
its operator, and encodes what that emits: real items on the wire's encoding, real filters, real operators, without
network. Its processor time is measured at 1000 tuples/s an input, with all of its degrees in turn, and related to that
of the same operator without filters in the same turn; a turn is some seconds of the streams. The streams take turns in
being first.

Details that the paper does not state
-------------------------------------
The paper's tuples and batches are not stated. Here a tuple has a time and two numbers, and a batch has 100 tuples, a
tenth of a second. Each input of the paper's union has 1000 tuples/s, and so has its output; both are run: two inputs of
1000, and of 500. Its join evaluates a predicate on 100 pairs for each tuple, of which one passes. The platform's join
looks partners up, and so evaluates one; both are run: ``join``, and ``join of 100 pairs``, in which all tuples have the
same key, and a filter follows. The paper counts what sending to each reader takes; here a batch is encoded once for all
readers, as on peers, and not sent.

Findings
--------
The cost of a degree is that of decoding a batch and of looking its tuples up: 0.2 to 0.5 % of the core that it was
measured on. The paper has 0.7 to 0.84 % of another processor, which also sends, so these are not compared. A further
input of a filter costs .47 of the plain filter. The ratios of the union are above the paper's, since ours passes tables
on and takes much less. Those of a join that tries 100 pairs for each tuple are near the paper's; those of one that
looks its partner up are above.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Iterator
from itertools import chain
from typing import Final, NamedTuple

import numpy as np
import polars as pl

from synergy_experiments.framework.claim import Cell, Check, Claim, Panel
from synergy_experiments.framework.measurements import Measured, Point
from synergy_experiments.framework.parameters import Setup, number, whole
from synergy_experiments.framework.verdicts import at_all, at_least, monotone, near, not_comparable, own
from synergy_nb.dataflow.operators.base import OperatorLogic, create
from synergy_nb.dataflow.streams.replicas.duplicate_filter import DuplicateFilter
from synergy_nb.dataflow.tuples import Batch, Item, Punctuation, decode, encode
from synergy_nb.plan import Plan, source
from synergy_nb.plan.builder import Stream

__all__ = ["CLAIMED", "passing", "replicating"]

RATE: Final = 1000.0  # tuples/s
DEGREES: Final = (1, 2, 3, 4)
PAPER: Final = {
    "union": (1.43, 2.57, 3.86, 5.00),
    "filter": (1.38, 2.37, 3.50, 4.50),
    "aggregate": (1.17, 1.57, 1.92, 2.26),
    "join": (1.08, 1.14, 1.22, 1.29),
}
ALL_INPUTS: Final = "union, 1000 tuples/s an input"
PAIRS: Final = "join of 100 pairs"
#: Operators that are measured, by the operator of the paper.
READ: Final = {
    "union": ("union", ALL_INPUTS),
    "filter": ("filter",),
    "aggregate": ("aggregate",),
    "join": ("join", PAIRS),
}
#: Table I as lines: % of a processor for each further degree, and without replication.
SLOPES: Final = {"union": (0.84, 0.7), "filter": (0.84, 0.8), "aggregate": (0.83, 2.3), "join": (0.68, 9.5)}
THROUGHPUT: Final = 2.0  # million tuples/s through a filter
FURTHER: Final = 0.5  # of the plain filter, for each further input
#: Tuples of a batch for the throughput, and the numbers of streams.
LARGE: Final = 10_000
STREAMS: Final = 3


class _Replica(NamedTuple):
    """Filters by port, none in an operator without replication, the operator behind them, and one that follows it."""

    filters: tuple[DuplicateFilter, ...]
    logic: OperatorLogic
    then: OperatorLogic | None

    def receive(self, port: int, stream: str, data: bytes) -> int:
        """Process an item of a stream; return the bytes that the operator emits."""
        item = decode(data)
        passed: Item | None = self.filters[port].receive(stream, item) if self.filters else item
        if passed is None:
            return 0
        emitted = self.logic.execute(port, passed)
        if self.then is not None:
            emitted = (each for one in emitted for each in self.then.execute(0, one))
        return sum(len(encode(each)) for each in emitted)


def replicating(operator: str, batch: int, seconds: float, turns: int, seed: int) -> list[Point]:
    """Measure the processor time of a replica at each degree, and its ratio to that without replication.

    Parameters
    ----------
    operator
        Name of the operator: union, filter, aggregate, join, or another reading of one of these.
    batch
        Number of tuples of a batch.
    seconds
        Seconds of the streams in one turn.
    turns
        Number of turns; the median ratio is returned.
    seed
        Seed of the values.
    """
    ports = 2 if operator.startswith(("union", "join")) else 1
    rate = RATE / 2 if operator == "union" else RATE
    plan = _plan(operator, ports)
    taken: dict[int, list[float]] = {}
    for turn in range(turns + 1):
        inputs = [_items(seconds, rate, batch, seed + 31 * turn + port) for port in range(ports)]
        for degree in (0, *DEGREES):
            spent = _spent(plan, inputs, degree) / seconds
            if turn:  # the first compiles and fills caches
                taken.setdefault(degree, []).append(spent)
    points = [Point("none", operator, "cpu", 100.0 * statistics.median(taken[0]))]
    for degree in DEGREES:
        ratios = [ours / plain for ours, plain in zip(taken[degree], taken[0], strict=True)]
        points.append(Point(str(degree), operator, "cpu", 100.0 * statistics.median(taken[degree])))
        points.append(Point(degree, operator, "ratio", statistics.median(ratios)))
    rises = [
        (last - first) / (DEGREES[-1] - DEGREES[0]) / plain
        for first, last, plain in zip(taken[DEGREES[0]], taken[DEGREES[-1]], taken[0], strict=True)
    ]
    points.append(Point("further input", operator, "rise", statistics.median(rises)))
    further = statistics.median(rise * plain for rise, plain in zip(rises, taken[0], strict=True))
    return [*points, Point("further input", operator, "cpu", 100.0 * further)]


def passing(batch: int, batches: int, seed: int) -> dict[str, float]:
    """Measure the million tuples/s of processor time that a filter of three streams receives.

    Parameters
    ----------
    batch, batches
        Number of tuples of a batch, and of batches of each stream; a promise follows each batch.
    seed
        Seed of the values.
    """
    merged = DuplicateFilter(str(stream) for stream in range(STREAMS))
    items = [decode(data) for data in _items(batch * batches / RATE, RATE, batch, seed)]
    warm = DuplicateFilter("012")
    for item in items[:2]:
        for stream in "012":
            warm.receive(stream, item)
    began = time.process_time()
    for at, item in enumerate(items):
        for turn in range(STREAMS):
            merged.receive(str((turn + at // 2) % STREAMS), item)
    return {"throughput": STREAMS * batch * batches / (time.process_time() - began) / 1e6}


def _plan(operator: str, ports: int) -> Plan:
    inputs = [
        source("python", name=f"s{port}", columns={"n": "int", "load": "float", "key": "int"}, rate=RATE)
        for port in range(ports)
    ]
    return _logic(operator, inputs).sink("out")


def _logic(operator: str, inputs: list[Stream]) -> Stream:
    if operator in READ["union"]:
        return inputs[0].union(inputs[1], id="operator")
    if operator == "join":
        return inputs[0].join(inputs[1], on=["n"], within="100 ms", id="operator")
    if operator == PAIRS:  # 50 ms before and after, 1000 tuples/s
        return inputs[0].join(inputs[1], on=["key"], within="50 ms", id="operator").filter("n = n_right", id="then")
    if operator == "aggregate":
        return inputs[0].aggregate(window="10 ms every 1 ms", count="count(*)", id="operator")
    return inputs[0].filter("load >= 0", id="operator")


def _items(seconds: float, rate: float, batch: int, seed: int) -> list[bytes]:
    """Return encoded batches, each with the promise that follows it."""
    rng = np.random.default_rng([seed, 3])
    step, found = 1e6 / rate, list[bytes]()
    for start in range(0, math.ceil(seconds * rate), batch):
        numbers = np.arange(start, start + batch, dtype=np.int64)
        times = pl.Series(np.round(numbers * step).astype(np.int64)).cast(pl.Datetime("us"))
        columns = {"time": times, "n": numbers, "load": rng.uniform(0.0, 100.0, batch)}
        table = pl.DataFrame(columns).with_columns(key=pl.lit(0, pl.Int64))
        found.append(encode(Batch(table, start, 0.0)))
        found.append(encode(Punctuation(round((start + batch) * step), start + batch, 0.0)))
    return found


def _spent(plan: Plan, inputs: list[list[bytes]], degree: int) -> float:
    """Return the processor time of one replica for some items of each input, seconds."""
    streams = [str(number) for number in range(max(degree, 1))]
    filters = tuple(DuplicateFilter(streams) for _ in inputs) if degree else ()
    then = create(plan.operators["then"], plan) if "then" in plan.operators else None
    replica = _Replica(filters, create(plan.operators["operator"], plan), then)
    began = time.process_time()
    for at in range(max(map(len, inputs))):
        for turn in range(len(streams)):
            stream = streams[(turn + at // 2) % len(streams)]
            for port, items in enumerate(inputs):
                if at < len(items):
                    replica.receive(port, stream, items[at])
    return time.process_time() - began


def _cells(setup: Setup) -> Iterator[Cell]:
    for operator in chain.from_iterable(READ.values()):
        yield Cell(replicating, (operator, setup["batch"], setup["seconds"], setup["turns"]), alone=True)
    for batch in dict.fromkeys((setup["batch"], LARGE)):
        batches = max(4, 300_000 // int(str(batch)))
        yield Cell(passing, (batch, batches), f"{batch} tuples a batch", "duplicate filter", alone=True)


def _checks(measured: Measured, _: Setup) -> Iterator[Check]:
    known = {*measured.algorithms("ratio"), *measured.algorithms("rise")}
    read = {of: [each for each in operators if each in known] for of, operators in READ.items()}
    for of, operators in read.items():
        for operator in operators:
            for degree, paper in zip(DEGREES, PAPER[of], strict=True):
                ours = measured.estimate(degree, operator, "ratio")
                about = f"time of a replica over that without replication, degree {degree}: {operator}"
                beyond = paper - 1.0  # what replication costs: of a ratio near 1 a share would say nothing
                yield near(about, paper, ours, 0.1 * beyond, 0.5 * beyond, unit="times")
    for operator in chain.from_iterable(read.values()):
        rises = measured.changes(operator, "ratio")
        yield monotone(f"the time of a replica with the degree: {operator}", "increases", rises, 1.0)
    for join in read["join"]:
        others = [each for of, operators in read.items() if of != "join" for each in operators]
        slower = [(other, measured.lower("further input", join, other, "rise")) for other in others]
        yield at_all(f"of all operators, {join} has the least growth with a degree", "the lowest growth rate", slower)
    for of, (slope, plain) in SLOPES.items():
        for operator in read[of]:
            yield not_comparable(
                f"% of a core for each further degree: {operator}",
                f"{slope:g} beside {plain:g} of the operator",
                measured.estimate("further input", operator, "cpu"),
                "another processor, and nothing is sent",
            )
    for of, operators in read.items():
        for operator in operators:
            found = [(degree, measured.estimate(degree, operator, "ratio")) for degree in DEGREES]
            below = [
                (degree, ours.below(limit))
                for (degree, ours), limit in zip(found, PAPER[of], strict=True)
                if ours is not None
            ]
            numbers = " ".join(f"{limit:.2f}" for limit in PAPER[of])
            yield own(
                at_all(f"beyond the paper: the time over no replication at most its own: {operator}", numbers, below)
            )
    further = measured.estimate("further input", "filter", "rise")
    about = f"beyond the paper: each further input of a filter takes at most {FURTHER:g} of the plain filter"
    yield own(at_all(about, "1.05 (paper)", [("filter", None if further is None else further.at_most(FURTHER))]))
    batch = f"{LARGE} tuples a batch"
    received = measured.estimate(batch, "duplicate filter", "throughput")
    about = f"beyond the paper: million tuples/s through a filter, {batch}"
    yield own(at_least(about, THROUGHPUT, received, 0.0, unit=""))


CLAIMED: Final = (
    Claim(
        id="H3",
        title="processing time of an active replica",
        source="Hwang, Çetintemel, Zdonik, ICDE 2008, section VI-D, table I",
        says="at 1000 tuples/s an input and degrees 1 to 4, over no replication: union 1.43 2.57 3.86 5.00, filter "
        "1.38 2.37 3.50 4.50, aggregate 1.17 1.57 1.92 2.26, join 1.08 1.14 1.22 1.29",
        parameters={
            "batch": whole("tuples of a batch", 100),
            "seconds": number("seconds of the streams in one turn", 5.0, least=0.2),
            "turns": whole("turns, each with all degrees", 5, 15),
        },
        cells=_cells,
        checks=_checks,
        panels=(
            Panel("ratio", "processor time over that without replication"),
            Panel("cpu", "processor time (% of a core)", "bars"),
            Panel("rise", "each further input, over no replication", "bars"),
            Panel("throughput", "through a filter (million tuples/s)", "bars"),
        ),
        xlabel="degree of replication",
        paper=[
            *(Point(k, name, "ratio", value)
              for name, each in PAPER.items() for k, value in zip(DEGREES, each, strict=True)),
            *(Point("none", name, "cpu", plain) for name, (_, plain) in SLOPES.items()),
            *(Point("further input", name, "cpu", slope) for name, (slope, _) in SLOPES.items()),
        ],
        repeat=(3, 10),
    ),
)  # fmt: skip
