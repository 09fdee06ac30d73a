"""R6: delays of resilient placements, and the load multiples that they survive (section 7.3.5, figure 18).

16 aggregates over each of ten sub-streams of a packet trace run on five peers in the flow simulator
(:mod:`~synergy_experiments.worlds.packet_monitoring`). Statistics come from the first part of the trace; the rest is
replayed at a multiple of its rate. The processing time of an aggregate is constant for each packet; the 16 times are
uniform between 0.1 and 1, scaled to a stated load. A peer is overloaded when more than a stated amount of work waits at
it, as memory would run out then. Tuples beyond that are lost and counted, and the run continues.

The rates of the sub-streams are steady, or drift after statistics were taken: by a random walk, or as the requests of a
web server do over a day, another day for each sub-stream. All three are run.

Findings
--------
Against us: that ROD survives four times the rate in every run is true only of steady rates and 20 s of work that may
wait, and MaxRate survives there, too; with 5 s ROD fails in five of ten runs. What any policy could survive is known.
One peer as fast as all five would have 6.2 s of work a peer waiting in one of the ten runs of steady rates, 3.8 to 42 s
where rates walk, and 70 to 109 s where they follow the requests of a web server. So with 5 s no placement and no number
of migrations survives more than nine runs of steady rates, and one of those that walk; with 20 s all, and five; none of
requests at all. Refined ROD survives as many in each case but one, a run of steady rates with 4.98 s. With 5 s
ROD and one migration survive seven of the ten runs of steady rates, two more than ROD alone; LLF and one migration two,
one more than LLF alone; refined ROD survives the same eight with a migration and without.

On generated packets of steady rates, which are no reproduction of the paper's trace, the mean and greatest delays of
ROD are the lowest at every multiple of the rate, except at single points where another algorithm cannot be told from it
(stored result: ten runs with 400 packets/s, an hour each, of which ten minutes are for statistics, as in the paper). Up
to twice the rate the algorithms hardly differ, except for Connected; at 3.5 times the rate the others have mean delays
of 28 ms and more, ROD 17 ms. At four times the rate, 92 % of the total capacity, the outcome depends on how much work
may wait at a peer, of which the paper says nothing. If 5 s may, ROD is overloaded in five of ten runs, LLF and MaxRate
in nine, the others in all. If 20 s may, ROD is in none and MaxRate in none, LLF in one, Correlation in seven, Connected
in nine, Random in all. So "only ROD survives" is true of no limit of these two in every run; that more of the others
fail is true of all at 5 s, and of three of five at 20 s. Runs of ten minutes told less: with 5 s, ROD was overloaded in
none of them, LLF and MaxRate in one. These rates hardly drift, so that even statistics of ten minutes suit LLF and
MaxRate nearly as well. Where they drift as a random walk or as requests do, ROD is overloaded at four times the rate
in some runs with either limit. The paper's utilisation grows by .22 for each multiple, which is the load that is set
here. Refinement reduces the mean delay at four times the rate by a fifth and the greatest by a quarter, and is
overloaded in two runs rather than five.

With ``--set driver=dask`` Dask workers execute the same aggregates over ten sub-streams, for seconds
(:mod:`~synergy_experiments.worlds.monitored_peers`). Packets are few there and cost several milliseconds each, several
times what a batch costs the machine, and a peer is overloaded by the bytes in its queues.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Final, cast

from synergy_experiments.framework.claim import Cell, Check, Claim, Panel, metric_of
from synergy_experiments.framework.measurements import Decision, Measured
from synergy_experiments.framework.parameters import Setup, choice, files, number, numbers, several, whole
from synergy_experiments.framework.verdicts import Statement, at_all, in_every_run, near, not_comparable, own
from synergy_experiments.worlds.monitored_peers import monitored
from synergy_experiments.worlds.operator_placements import OTHERS, REFINED
from synergy_experiments.worlds.packet_monitoring import DRIFTS
from synergy_experiments.worlds.replayed_packets import BOUND, moved, replayed, survival, unavoidable
from synergy_nb.traces import datasets

__all__ = ["CLAIMED"]

COMPARED: Final = (REFINED, "rod", *OTHERS, "max_rate")
RIVALS: Final = COMPARED[2:]
RELIEVED: Final = (REFINED, "rod", "llf")
UTILISATION: Final = {1.0: 0.26, 2.0: 0.48, 3.0: 0.69, 3.5: 0.79, 4.0: 0.91}  # utilisation of the paper, for ROD
FAILURE: Final = 4.0  # multiple at which the paper's others fail, so that it compares no delays
PAPERS: Final = "dec-pkt-1"  # "an hour's worth of TCP packet traces", reference 5 of the paper
OTHER: Final = "lbl-tcp-3"  # another packet trace, whose utilisation is not compared


def _trace(setup: Setup) -> str:
    given = cast("tuple[str, ...]", setup["trace"])
    return str(Path(given[0]).resolve()) if given else datasets.find(PAPERS).path or datasets.find(OTHER).path or ""


def _cells(setup: Setup) -> Iterator[Cell]:
    if setup["driver"] == "dask":
        for multiplier in cast("tuple[float, ...]", setup["multipliers"]):
            given = (setup[name] for name in ("dask_rate", "dask_collected", "dask_seconds", "dask_streams", "peers"))
            rest = (setup[name] for name in ("dask_load", "dask_memory", "algorithms"))
            yield Cell(monitored, (multiplier, _trace(setup), *given, *rest), alone=True, reading=DRIFTS[0])
        return
    generated = tuple(setup[name] for name in ("rate", "duration", "collected", "width"))
    multipliers = cast("tuple[float, ...]", setup["multipliers"])
    for multiplier, drift in product(multipliers, _drifts(setup)):
        arguments = (
            multiplier,
            _trace(setup),
            generated,
            *(setup[name] for name in ("streams", "peers", "load", "memory", "larger", "algorithms")),
            drift,
        )
        yield Cell(replayed, (*arguments, None), reading=drift)
        if multiplier == max(multipliers):
            *shared, _, _ = arguments
            yield Cell(unavoidable, (*shared, drift), multiplier, BOUND, reading=drift)
            if setup["relieved"] and drift == DRIFTS[0]:  # where rates drift, refined ROD survives all that is possible
                yield Cell(replayed, (*shared, setup["relieved"], drift, setup["late"]), reading=drift)


def _drifts(setup: Setup) -> tuple[str, ...]:
    return cast("tuple[str, ...]", setup["drifts"])


def _checks(measured: Measured, setup: Setup) -> Iterator[Check]:
    for drift in _drifts(setup):
        yield from _of_drift(measured, setup, drift)


def _of_drift(measured: Measured, setup: Setup, drift: str) -> Iterator[Check]:
    places = cast("list[float]", measured.xs(metric_of("delay", drift), "rod"))
    if not places:
        return
    theirs = (bool(setup["trace"]) or datasets.find(PAPERS).path is not None) and drift == DRIFTS[0]
    for x in places:
        if x in UTILISATION:
            name = f"utilisation by ROD at {x:g} times the rate, {drift}"
            ours = measured.estimate(x, "rod", metric_of("utilisation", drift))
            check = near(name, UTILISATION[x], ours, 0.05, 0.1)
            yield (
                check
                if theirs
                else not_comparable(name, UTILISATION[x], ours, "set by load; not the paper's trace", "%")
            )
    for metric in ("delay", "greatest delay"):
        lowest = [
            (f"{x:g} {other}", measured.lower(x, "rod", other, metric_of(metric, drift)))
            for x in places
            if x < FAILURE  # tuples that are lost have no delay
            for other in RIVALS
            if measured.mean(x, other, metric_of(metric, drift)) is not None
        ]
        yield at_all(f"{metric} of ROD below that of any other, {drift}", "ROD better than all others", lowest)
    limits = {cast("float", setup["memory"]): survival()}
    if setup["driver"] == "simulator":
        limits |= {limit: survival(limit) for limit in cast("tuple[float, ...]", setup["larger"])}
    for limit, metric in limits.items():
        work = f"{drift}, {limit:g} s of work may wait" if setup["driver"] == "simulator" else drift
        yield from _of_survival(measured, places[-1], metric_of(metric, drift), work)
        yield from _with_migration(measured, places[-1], metric_of(metric, drift), work)
    refined = [(x, measured.lower(x, REFINED, "rod", metric_of("delay", drift))) for x in places]
    yield own(at_all(f"beyond the paper: delay of refinement below ROD's, {drift}", "our aim", refined))


def _of_survival(measured: Measured, most: float, survives: str, reading: str) -> Iterator[Check]:
    """Check that only ROD survives the largest multiple of the rate, by three readings; others fail where it does not.

    That others fail says nothing in a run in which ROD fails, too.
    """
    rivals = [name for name in measured.algorithms(survives) if name in RIVALS]
    says = "all except ROD fail"

    def strict(one: Measured) -> Iterator[Statement]:
        kept = {name: one.mean(most, name, survives) == 1.0 for name in ("rod", *rivals)}
        alone = [(name, kept["rod"] and not kept[name]) for name in rivals]
        yield f"ROD survives {most:g} times the rate and others do not, in every run, {reading}", says, alone
        yield f"ROD survives {most:g} times the rate, in all runs, {reading}", "ROD survives", [("rod", kept["rod"])]

    fewer = [(name, measured.higher(most, "rod", name, survives)) for name in rivals]
    yield at_all(f"ROD survives in more runs than others, by an interval, {reading}", says, fewer)
    always = measured.mean(most, "rod", survives) == 1.0
    some = [(name, Decision.fact(always and measured.mean(most, name, survives) != 1.0)) for name in rivals]
    yield at_all(f"ROD survives in every run and others not in every, {reading}", says, some)
    yield from in_every_run(measured, strict)


def _with_migration(measured: Measured, most: float, survives: str, reading: str) -> Iterator[Check]:
    """Compare placement, one migration, and both, with the runs that any placement and migrations could survive."""
    if measured.mean(most, BOUND, survives) is None:
        return
    compared = ("rod", REFINED, "llf", moved("llf"), moved("rod"), moved(REFINED))
    counts = {name: measured.values(most, name, survives) for name in (BOUND, *compared)}
    told = "; ".join(f"{name}: {sum(kept.values()):g} of {len(kept)}" for name, kept in counts.items() if kept)
    yield own(
        not_comparable(f"runs survived at {most:g} times the rate, {reading}", "(ours)", told, "for the next line")
    )

    def possible(one: Measured) -> Iterator[Statement]:
        if one.mean(most, BOUND, survives):
            found = [(name, one.mean(most, name, survives)) for name in compared]
            name = f"beyond the paper: each run survived that any policy could survive, {reading}"
            yield name, "our aim", [(each, kept == 1.0) for each, kept in found if kept is not None]

    yield from map(own, in_every_run(measured, possible))


_R6: Final = Claim(
    id="R6",
    title="delays of resilient placements, and the load multiples that they survive",
    source="ROD, VLDB 2006, 7.3.5, figure 18",
    says="at 1/2/3/3.5 times the rate (26/48/69/79 % CPU) ROD has the lowest average and maximum delays; at 4 times "
    "(91 %) all others fail by overload",
    parameters={
        "multipliers": numbers("multiples of the trace's rate", (1.0, 2.0, 3.0, 3.5, 4.0), least=0.01),
        "trace": files("packet trace; by default DEC-PKT-1, or LBL-TCP-3, if available, else generated packets"),
        "rate": number("generated packets a second", 200.0, 400.0, least=1.0),
        "duration": number("seconds of the trace", 900.0, 3600.0, least=2.0),
        "collected": number("first seconds of the trace, from which statistics are computed", 300.0, 600.0, least=1.0),
        "width": number("seconds of an interval of the statistics", 1.0, least=0.001),
        "streams": whole("sub-streams", 10),
        "peers": whole("peers of one core", 5),
        "drifts": several("courses of the mean rates of the sub-streams", DRIFTS),
        "load": number("load of all peers together at the trace's rate, share of capacity", 0.23, least=0.001),
        "memory": number("largest waiting work of a peer, seconds", 5.0, least=0.001),
        "larger": numbers("larger limits of it, for which only survival is measured, seconds", (20.0,), least=0.001),
        "algorithms": several("placements compared", COMPARED),
        "relieved": several(
            "placements also run with one migration, at the greatest multiple of steady rates", RELIEVED
        ),
        "late": number("limit of delays by which hot spots are predicted, seconds", 2.0, least=0.001),
        "driver": choice("what runs the peers: the simulator, or Dask workers on this machine", ["simulator", "dask"]),
        "dask_rate": number("generated packets a second, on Dask workers", 4.0, least=1.0),
        "dask_load": number(
            "load of all peers together by the costs of packets alone, on Dask workers", 0.19, least=0.001
        ),
        "dask_collected": number("first seconds of the trace, for statistics, on Dask workers", 600.0, least=1.0),
        "dask_seconds": number("seconds for which the rest is replayed at every multiple", 10.0, 30.0, least=1.0),
        "dask_streams": whole("sub-streams, on Dask workers", 10),
        "dask_memory": number(
            "bytes in the queues of a peer beyond which it is overloaded, on Dask workers", 64e3, least=1.0
        ),
    },
    cells=_cells,
    checks=_checks,
    panels=(
        *(
            panel
            for drift in DRIFTS
            for panel in (
                Panel(metric_of("delay", drift), f"mean delay (ms), {drift}", factor=1000.0, logarithmic=True),
                Panel(
                    metric_of("greatest delay", drift), f"greatest delay (ms), {drift}", factor=1000.0, logarithmic=True
                ),
                Panel(
                    metric_of("busiest", drift),
                    f"load of the busiest peer, {drift}",
                    bounds=((1.0, "all that it has"),),
                ),
                Panel(metric_of(survival(), drift), f"share of runs without overload, {drift}"),
            )
        ),
        *(Panel(metric_of(survival(20.0), drift), f"the same if 20 s of work may wait, {drift}") for drift in DRIFTS),
    ),
    xlabel="multiple of the trace's rate",
    repeat=(5, 10),
    shares=("survives*", "lost*"),
)

CLAIMED: Final = (_R6,)
