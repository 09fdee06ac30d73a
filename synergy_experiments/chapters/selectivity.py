"""C12: reduction of traffic by each operator of the top-k monitor (section 2.4.2, figure 2.21).

The network-monitoring application of figure 1.1 is executed over each trace, operator by operator. Its input and output
are counted in tuples and in bytes on the wire. The dissertation uses seven traces of the Internet Traffic Archive and
does not name them, nor the three operators whose reductions it states; we assume the three that reduce most apart from
``count``. Its figure 1.1 has nine components, and the text seven operators; without source and destination there are
six here, as the query has no more.

Findings
--------
For traces of the user (``--set traces=FILE,...``), the reductions are compared with the paper's numbers; their interval
is that over the traces. Otherwise they are measured on available data sets (``synergy data list``) and on generated
packets, which are labelled as such; these reductions are no reproduction, and what they show is our own check, not the
paper's statement. The trace of a file is the same in every repetition, so only generated packets vary. On these, the
filter halves the traffic, as half of them use the other link. The projection drops the columns that the query does not
need. The aggregation gives one tuple for each pair and window, so its reduction grows with the packets that a pair
exchanges in 20 minutes. The comparison passes the largest five per cent of the pairs, a far greater reduction than any
in the paper. Sorting changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from synergy_experiments.demo import inputs
from synergy_experiments.framework.claim import Cell, Check, Claim, Panel
from synergy_experiments.framework.measurements import Estimate, Measured, Point
from synergy_experiments.framework.parameters import Setup, files, number, whole
from synergy_experiments.framework.verdicts import at_all, near, not_comparable, own
from synergy_nb import traces
from synergy_nb.dataflow.operators.base import create
from synergy_nb.dataflow.tuples import Batch, Item, encode_table
from synergy_nb.plan import Plan
from synergy_nb.traces import datasets

__all__ = ["CLAIMED", "executed", "labelled", "monitored"]

AT_HAND: Final = ("lbl-tcp-3", "sdsc-http", "nasa-http")
MEAN: Final = "mean of traces"
REDUCTIONS: Final = (0.82, 0.72, 0.69)
REDUCES: Final = 0.5  # least reduction of traffic of one of the three operators, as a share


def executed(plan: Plan, items: Iterable[Item]) -> Iterator[tuple[str, Item]]:
    """Execute all operators of a plan on the items of its one source; yield each output item with its operator's id.

    Parameters
    ----------
    plan
        Plan with one source.
    items
        Items that the source gives.
    """
    (source,) = plan.sources
    logics = {each: create(operator, plan) for each, operator in plan.operators.items() if each not in plan.sources}
    for item in items:
        waiting = [(source, item)]
        while waiting:
            operator, given = waiting.pop(0)
            yield operator, given
            for consumer in plan.downstream(operator):
                for port, upstream in enumerate(plan.upstream(consumer)):
                    if upstream == operator:
                        logic = logics[consumer]
                        into = logic.on_batch if isinstance(given, Batch) else logic.on_punctuation
                        waiting += [(consumer, out) for out in into(port, given)]  # type: ignore[arg-type]


def monitored(trace: str, label: str, packets: tuple[float, float], seed: int) -> list[Point]:
    """Measure output over input of each operator over a trace: in bytes (``traffic``) and in tuples (``tuples``).

    Parameters
    ----------
    trace
        A path, or the name of a generated stream.
    label
        Name of the line of the figure.
    packets
        Mean rate in tuples/s and duration in seconds of a generated stream.
    seed
        Seed of a generated stream.
    """
    if Path(trace).is_file():
        given = inputs.choose(trace)
    else:
        rate, duration = packets
        number = int(trace.rpartition(" ")[2])
        params = {"seed": 1000 * seed + number, "rate": rate, "duration": duration, "hosts": 200}
        given = inputs.generated(params)
    plan = inputs.query(given, speed=0.0)
    size = dict.fromkeys(plan.operators, 0)
    count = dict.fromkeys(plan.operators, 0)
    windows = set()
    counts = {operator for operator, asked in plan.operators.items() if asked.kind == "count"}
    for operator, item in executed(plan, traces.read(plan.operators[plan.sources[0]].params)):
        if isinstance(item, Batch):
            size[operator] += len(encode_table(item.table))
            count[operator] += item.rows
            if operator in counts:
                windows.update(item.table["window_start"].to_list())
    points: list[Point] = []
    for operator, asked in plan.operators.items():
        upstream = plan.upstream(operator)
        if asked.kind in ("source", "sink"):
            continue
        came = sum(size[each] for each in upstream), sum(count[each] for each in upstream)
        points.append(Point(asked.kind, label, "traffic", size[operator] / came[0] if came[0] else 0.0))
        points.append(Point(asked.kind, label, "tuples", count[operator] / came[1] if came[1] else 0.0))
        if asked.kind == "count":
            points.append(Point(asked.kind, label, "tuples a window", count[operator] / max(len(windows), 1)))
    return points


def _traces(setup: Setup) -> list[str]:
    chosen = setup["traces"]
    assert isinstance(chosen, tuple)
    if chosen:
        return [str(Path(str(path)).resolve()) for path in chosen]
    at_hand = [datasets.find(name).path for name in AT_HAND]
    generated = setup["generated"]
    assert isinstance(generated, int)
    return [path for path in at_hand if path is not None] + [
        f"generated packets {number}" for number in range(1, generated + 1)
    ]


def _cells(setup: Setup) -> Iterator[Cell]:
    for trace, label in labelled(_traces(setup)).items():
        yield Cell(monitored, (trace, label, (setup["rate"], setup["duration"])))


def labelled(traces: Iterable[str]) -> dict[str, str]:
    """Return each trace with its name: that of its file, with as many folders as make it different from the others.

    >>> labelled(["/data/monday/a.gz", "/data/tuesday/a.gz", "/data/tuesday/b.gz"])
    {'/data/monday/a.gz': 'monday/a.gz', '/data/tuesday/a.gz': 'tuesday/a.gz', '/data/tuesday/b.gz': 'b.gz'}
    """
    parts = {trace: Path(trace).parts for trace in traces}

    def alone(trace: str, many: int) -> bool:
        return all(parts[trace][-many:] != other[-many:] for name, other in parts.items() if name != trace)

    return {
        trace: "/".join(own_parts[-next(many for many in range(1, len(own_parts) + 1) if alone(trace, many)) :])
        for trace, own_parts in parts.items()
    }


def _means(points: Sequence[Point]) -> Iterator[Point]:
    found: dict[tuple[str, str], list[float]] = {}
    for x, _, metric, value in points:
        found.setdefault((str(x), metric), []).append(value)
    for (x, metric), values in found.items():
        yield Point(x, MEAN, metric, sum(values) / len(values))


def _checks(measured: Measured, setup: Setup) -> Iterator[Check]:
    """Yield the comparison with the paper's numbers; on other inputs than the user's traces, all checks are our own."""
    operators = [str(x) for x in measured.xs("traffic", MEAN) if x != "count"]
    left = {operator: measured.estimate(operator, MEAN, "traffic") for operator in operators}
    known = {operator: each for operator, each in left.items() if each is not None}
    most = sorted(known, key=lambda operator: known[operator].value)[:3]
    for operator, paper in zip(most, REDUCTIONS, strict=False):
        name = f"traffic removed by {operator}"
        removed = measured.paired(
            (operator, MEAN, "traffic"), (operator, MEAN, "traffic"), lambda share, _: 1.0 - share
        )
        if setup["traces"]:
            yield near(name, paper, _over_traces(measured, operator), 0.1, 0.25)
        else:
            yield not_comparable(
                name, paper, removed, "not the paper's traces: give them by --set traces=FILE,...", "%"
            )
    labels = [each for each in measured.algorithms("traffic") if each != MEAN]
    few = [
        (f"{operator} over {label}", measured.always(operator, label, "traffic", lambda left: left <= 1.0 - REDUCES))
        for operator in most
        for label in labels
    ]
    one = [
        (label, measured.always("count", label, "tuples a window", lambda tuples: tuples == 1.0)) for label in labels
    ]
    for check in (
        at_all("three operators remove most of the traffic, over every trace", "consistent over traces", few),
        at_all("count gives one tuple a window", "one data tuple", one),
    ):
        yield check if setup["traces"] else own(check)


def _over_traces(measured: Measured, operator: str) -> Estimate | None:
    """Return what an operator removes, as the mean over traces with its interval; a trace is the same in every run."""
    means = (measured.mean(operator, label, "traffic") for label in measured.algorithms("traffic") if label != MEAN)
    return Estimate.of([1.0 - share for share in means if share is not None])


_C12: Final = Claim(
    id="C12",
    title="traffic that each operator of the top-k monitor lets through",
    source="dissertation 2.4.2, figure 2.21",
    says="over seven traces, three of seven operators reduce traffic by 69 %, 82 % and 72 %; count gives one tuple; "
    "consistent among traces",
    parameters={
        "traces": files("files of packet traces or HTTP logs; by default, available data sets and generated packets"),
        "generated": whole("generated streams, where no traces are given", 2, 6, least=0),
        "rate": number("tuples/s of a generated stream", 10.0, 50.0, least=0.1),
        "duration": number("seconds of a generated stream", 4 * 3600.0, least=1.0),
    },
    cells=_cells,
    checks=_checks,
    panels=(
        Panel(
            "traffic",
            "bytes out / bytes in",
            "bars",
            bounds=tuple((1.0 - each, f"paper: {each:.0%} less") for each in REDUCTIONS),
        ),
        Panel("tuples", "tuples out / tuples in", "bars"),
    ),
    xlabel="operator",
    derive=_means,
    repeat=(1, 10),
)

CLAIMED: Final = (_C12,)
