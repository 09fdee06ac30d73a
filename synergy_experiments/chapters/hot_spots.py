"""P4 to P6: applications with hot spots that are predicted and alleviated (section 3.5, figures 3.21 to 3.24).

Peers execute the top-k monitors of 1 to 10 applications each (:mod:`~synergy_experiments.worlds.monitors_under_load`),
without migration, with migration once measured times leave no slack, and with migration once predicted times leave
none: by equation 3.6, and by the platform's prediction of rates. The dissertation compares the first with the third.

It leaves open how long it ran, how much work a tuple takes, how peers differ, and when exactly a late tuple is dropped,
which decides the miss rate; so all three rules are shown at the highest load. The others are with the rule that a tuple
whose limit has passed is dropped when its turn comes, and delays are those of results in time, as the dissertation's.

Findings
--------
*Misses* in one run of 34 peers with generated packets (``--set duration=240 --set step=4``): up to 6 applications a
peer none; with 8, 17.3 % without migration, 1.6 % with reaction, 0.9 % with prediction by equation 3.6 and 0.8 % with
the platform's; with 10, 22.4, 2.5, 0.6 and 0.4 %. With recorded requests and 10 applications a peer, 23.6, 3.5, 0.3
and 0.5 %. So both predictions miss less than reaction; which of the two misses less is a matter of chance. Without
dropping, 53.5 % without migration and 0.4 % with prediction; if tuples that are sure to be late are dropped, 21.3 and
0.4 %.

With four seeds at the quick scale and 10 applications a peer (packets), 61.9 ± 10.1 % are missed without migration,
23.6 ± 16.4 % with reaction, 11.8 ± 9.4 % with prediction and 10.6 ± 9.8 % by equation 3.6 (95 % intervals). Within
seeds prediction misses 11.7 points fewer than reaction (-0.4 to 23.9) and 1.3 more than equation 3.6 (-1.3 to 3.8):
neither is told apart by four seeds; reaction misses 38.4 points fewer than no migration (26.3 to 50.4). Delays with
a miss as long as the limit are 16.0 ± 0.6, 11.2 ± 1.9 and 9.2 ± 2.7 s without migration, with reaction and with
prediction; those of results in time 9.2 ± 3.3, 8.4 ± 1.8 and 7.7 ± 2.0 s.

*Delays.* Those of results in time are lower with prediction at 10 applications a peer (6.4 s against 8.4), and not at
8 (3.9 against 3.7), nor at the quick scale: without migration only results from before the queues grew are in time.
With a miss as long as the limit, delays with prediction are lower everywhere (6.5 s against 11.0, and 4.0 against
6.5). One application is at the limit from its 200th result to the 300th, and takes half of it from the 1000th on;
without migration it gives 221 results rather than 1478. Peers relieve themselves as far as limits need, so queues of
seconds take minutes to disappear.

*Migrations* are not linear in the applications: in the stored run none with up to 5 a peer, .11, .27, .55, .83 and
1.21 for each application with 6 to 10; over all loads .48. They begin where the load of the slowest peers exceeds their
capacity, and the dissertation says, too, that an underloaded system has few hot spots. Its line needs loads at which
each further application makes as many as the one before. What it counts is open: the mean over the ten loads of these
shares is .30, and hot spots that peers acted upon, of which each needed four migrations, are .31 for each application
at the highest load; both are its third. ``--set readings=...`` runs other readings of who acts, and when.
Each of them migrates as often as ours or more: at the highest load of the quick scale, one seed, 1.02 for each
application (as without bans against ping-pong), 1.11 with the largest rates first, 1.44 from the first tuple on, 4.5 if
all on the path act, and 37 with all of these and equation 3.6; reaction .61.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np

from synergy_experiments.framework.claim import Cell, Check, Claim, Panel
from synergy_experiments.framework.measurements import Measured, Point, mean_of_known
from synergy_experiments.framework.parameters import Setup, files, number, several, whole, wholes
from synergy_experiments.framework.verdicts import at_all, at_least, near, not_comparable
from synergy_experiments.worlds.monitors_under_load import (
    LITERAL,
    LOADS,
    NOTHING,
    PREDICTION,
    REACTION,
    READINGS,
    monitored,
    named,
)
from synergy_nb.simulator.flow_graph import DROPS, Drop

__all__ = ["CLAIMED"]

RULE: Final[Drop] = "overdue at dequeue"
ALL: Final = (NOTHING, REACTION, LITERAL, PREDICTION)
FEWER: Final = (NOTHING, PREDICTION)  # with the other rules for late tuples
PACKETS: Final = named("packets", RULE)
REQUESTS: Final = named("requests", RULE)
EACH_THREE: Final = 1.0 / 3.0
FEW: Final = 0.005  # miss rate from which on policies are compared
HOT_SPOT: Final = "500 to 1200"
RUN: Final = ("peers", "rate", "share", "spread", "limit", "duration", "step", "horizon")  # parameters of each run


def _cells(setup: Setup) -> Iterator[Cell]:
    per_peer, traces = setup["applications"], setup["traces"]
    assert isinstance(per_peer, tuple)
    assert isinstance(traces, tuple)
    rest = [setup[each] for each in RUN]
    most = per_peer[-1]
    for each in per_peer:
        yield Cell(monitored, (each, RULE, LOADS[0], ALL, *rest))
    yield Cell(monitored, (most, RULE, LOADS[1], ALL, *rest))
    for rule in DROPS:
        if rule != RULE:
            yield Cell(monitored, (most, rule, LOADS[0], FEWER, *rest))
    for trace in traces:
        yield Cell(monitored, (most, RULE, trace, ALL, *rest))


def _p6_cells(setup: Setup) -> Iterator[Cell]:
    yield from _cells(setup)
    per_peer, readings = setup["applications"], setup["readings"]
    assert isinstance(per_peer, tuple)
    if readings:
        rest = [setup[each] for each in RUN]
        for each in per_peer:
            yield Cell(monitored, (each, RULE, LOADS[0], readings, *rest))


def _course(measured: Measured, policy: str, metric: str) -> dict[float, float]:
    return dict(measured.course(policy, metric))


def _p4_checks(measured: Measured, _: Setup) -> Iterator[Check]:
    metric = f"miss rate, {PACKETS}"
    without = _course(measured, NOTHING, metric)
    least, most = min(without), max(without)
    at_least_load, at_most_load = (measured.estimate(int(x), NOTHING, metric) for x in (least, most))
    few = [(least, None if at_least_load is None else at_least_load.at_most(FEW))]
    yield at_all(f"at the lowest load at most {FEW:.1%} of the results are missed", "not many hot spots", few)
    rises = [(most, None if at_most_load is None else at_most_load.at_least(0.1))]
    yield at_all("at the highest load 10 % and more are missed without migration", "increases drastically", rises)
    for load, of in (("packets", PACKETS), ("requests", REQUESTS)):
        name = f"misses with prediction below those without migration, {most:g} applications a peer, {load}"
        yield at_least(name, 0.5, measured.gain(int(most), PREDICTION, NOTHING, f"miss rate, {of}"), 0.0, 0.0)
    for rule in DROPS:
        if rule != RULE:
            gain = measured.gain(int(most), PREDICTION, NOTHING, f"miss rate, {named('packets', rule)}")
            yield at_least(f"the same, drop {rule}", 0.5, gain, 0.0, 0.0)
    for one, other, says in (
        (REACTION, NOTHING, "misses with reaction are fewer than without migration"),
        (PREDICTION, REACTION, "misses with prediction are fewer than with reaction"),
        (PREDICTION, LITERAL, "beyond the paper: they are not more than with equation 3.6"),
    ):
        points = []
        for load, of in (("packets", PACKETS), ("requests", REQUESTS)):
            metric = f"miss rate, {of}"
            for x, missed in _course(measured, NOTHING, metric).items():
                if missed >= FEW:
                    both_misses = ((int(x), one, metric), (int(x), other, metric))
                    fewer = (measured.not_above(*both_misses) if other == LITERAL
                             else measured.lower(int(x), one, other, metric))  # fmt: skip
                    points.append((f"{x:g} a peer, {load}", fewer))
        yield at_all(says, "controls this increase", points)


def _p5_checks(measured: Measured, _: Setup) -> Iterator[Check]:
    metric = f"delay, {PACKETS}"
    without = _course(measured, NOTHING, metric)
    missing = _course(measured, NOTHING, f"miss rate, {PACKETS}")
    lower = [(x, measured.lower(x, PREDICTION, NOTHING, metric)) for x in without if missing[x] >= FEW]
    left = ", ".join(f"{100.0 * missing[x]:.0f} % with {x:g} a peer" for x, below in lower if not below.true)
    why = f"without migration the slowest results are missed and do not count: {left}; the next line counts them"
    yield at_all(
        "delay of results in time with prediction is below that without migration", "lower average", lower, why
    )
    missed = f"delay with misses, {PACKETS}"
    of_all = [(x, measured.lower(x, PREDICTION, NOTHING, missed)) for x in without if missing[x] >= FEW]
    yield at_all("the same for all results, a miss taking as long as the limit", "lower average", of_all)
    equal = [(x, measured.not_above((x, PREDICTION, metric), (x, NOTHING, metric), 1.05))
             for x in without if missing[x] < FEW]  # fmt: skip
    yield at_all("without hot spots it is no higher than 5 % above", "as load increases", equal)
    most = int(max(without))
    first, last, total = (
        measured.mean(most, PREDICTION, f"{each}, {PACKETS}")
        for each in ("first slow result", "last slow result", "results")
    )
    if first is not None and last is not None and total is not None:
        why = "which result it is depends on rates and durations, which are not stated"
        yield not_comparable(
            "results of one application between which it is slow", HOT_SPOT, f"{first:.0f} to {last:.0f}", why
        )
        slow, all_results = ((most, PREDICTION, f"{each}, {PACKETS}") for each in ("last slow result", "results"))
        gone = [(f"{last:.0f} of {total:.0f}", measured.not_above(slow, all_results, 0.9))]
        yield at_all("the hot spot of one application is gone before its end", "gone by 1200", gone)
    counts = [measured.mean(most, each, f"results, {PACKETS}") for each in (PREDICTION, NOTHING)]
    if counts[0] is not None and counts[1] is not None:
        delivered = measured.higher(most, PREDICTION, NOTHING, f"results, {PACKETS}")
        more = [(f"{counts[0]:.0f} against {counts[1]:.0f}", delivered)]
        yield at_all("more of its results are delivered than without migration", "delivery of more data tuples", more)


def _by_applications(points: Sequence[Point]) -> Iterator[Point]:
    """Migrations over the number of applications."""
    found = {(point.x, point.algorithm, point.metric): point.value for point in points}
    for (x, policy, metric), value in found.items():
        if metric == f"migrations, {PACKETS}":
            yield Point(found[x, policy, f"applications, {PACKETS}"], policy, "migrations", value)


def _p6_checks(measured: Measured, _: Setup) -> Iterator[Check]:
    for policy in (PREDICTION, REACTION, *READINGS):
        for where, only in (("over all loads", False), ("at the highest load", True)):
            ratio = measured.over_repetitions(_an_application, policy, only)
            if ratio is not None:
                yield near(f"migrations an application {where}, {policy}", EACH_THREE, ratio, 0.1, 0.25, unit="")
    mean = measured.over_repetitions(_mean_an_application)
    yield near("the same, mean over the loads of this share", EACH_THREE, mean, 0.1, 0.25, unit="")
    most = int(measured.course(PREDICTION, f"miss rate, {PACKETS}")[-1][0])
    for counts, name in (
        ("applications with a migration", "share of applications with a migration at the highest load"),
        ("hot spots", "hot spots an application at the highest load, each of which may need several migrations"),
    ):
        ours, of_all = ((most, PREDICTION, f"{each}, {PACKETS}") for each in (counts, "applications"))
        found = measured.paired(ours, of_all, lambda some, applications: some / applications)
        if found is not None:
            yield near(name, EACH_THREE, found, 0.1, 0.25, unit="")
    linear = measured.over_repetitions(_linear)
    if linear is not None:
        fits = [x for x, made in measured.course(PREDICTION, f"migrations, {PACKETS}") if not made]
        why = f"with up to {max(fits):g} a peer nothing moves, as each peer can do its work" if fits else ""
        yield near("correlation of migrations with applications", 1.0, linear, 0.05, 0.2, unit="", why=why)


def _an_application(measured: Measured, policy: str, only_most: bool) -> float | None:
    """Return the migrations of all applications over their number, over all loads or at the highest one."""
    course = measured.course(policy, "migrations")[-1 if only_most else 0 :]
    return sum(made for _, made in course) / sum(applications for applications, _ in course) if course else None


def _mean_an_application(measured: Measured) -> float | None:
    course = measured.course(PREDICTION, "migrations")
    return mean_of_known(made / applications for applications, made in course)


def _linear(measured: Measured) -> float | None:
    """Return the correlation of migrations with applications; None if nothing moves."""
    applications, migrations = np.array(measured.course(PREDICTION, "migrations")).T
    return float(np.corrcoef(applications, migrations)[0, 1]) if migrations.any() else None


def _panels(metric: str, label: str, factor: float = 1.0) -> Iterable[Panel]:
    yield Panel(f"{metric}, {PACKETS}", f"{label},\npackets, drop {RULE}", factor=factor)


_SHARED: Final = {
    "applications": wholes("applications of each peer", [4, 8, 10], range(1, 11)),
    "peers": whole("peers", 8, 34, least=8),
    "rate": number("mean rate of a source, tuples/s", 20.0, least=0.1),
    "share": number("share of the capacity that ten applications a peer take", 0.85, least=0.01),
    "spread": number("speed of the fastest peer over that of the slowest one", 2.5, least=1.0),
    "limit": number("limit of the delay, seconds", 20.0, least=0.01),
    "duration": number("duration of the load, seconds", 160.0, 300.0, least=10.0),
    "step": number("time from one decision to the next, seconds", 2.0, least=0.01),
    "horizon": number("least time ahead for which execution times are predicted, seconds", 5.0),
    "traces": files("packet traces, for the highest load; besides the packets and requests at hand"),
}

_P4: Final = Claim(
    id="P4",
    title="miss rate against load",
    source="dissertation 3.5, figure 3.21",
    says="34 peers, 1 to 10 applications a peer, limit 20 s: underloaded, not many hot spots occur; as the load "
    "increases, the miss rate increases drastically unless hot spots are handled, which controls this increase",
    parameters=_SHARED,
    cells=_cells,
    checks=_p4_checks,
    panels=(
        *_panels("miss rate", "missed results (%)", 100.0),
        Panel(f"miss rate, {REQUESTS}", f"missed results (%),\nrequests, drop {RULE}", "points", 100.0),
        *(
            Panel(f"miss rate, {named('packets', rule)}", f"missed results (%),\npackets, drop {rule}", "points", 100.0)
            for rule in DROPS
            if rule != RULE
        ),
    ),
    xlabel="applications a peer",
    repeat=(5, 1),
)

_P5: Final = Claim(
    id="P5",
    title="delay against load, and of one application over time",
    source="dissertation 3.5, figures 3.22 and 3.23",
    says="delays of tuples in time are lower with prediction and migration; the hot spot of one application appears at "
    "tuple 500 and is gone by 1200",
    parameters=_SHARED,
    cells=_cells,
    checks=_p5_checks,
    panels=(
        *_panels("delay", "mean delay of results in time (s)"),
        *_panels("delay with misses", "mean delay, misses as the limit (s)"),
        *(
            Panel(
                f"one application, {each} a peer, {PACKETS}", "delay of one application (s)", "curves", xlabel="result"
            )
            for each in (10,)
        ),
    ),
    xlabel="applications a peer",
    repeat=(5, 1),
)

_P6: Final = Claim(
    id="P6",
    title="migrations against applications",
    source="dissertation 3.5, figure 3.24",
    says="the number of migrations grows linearly with that of applications, one for every three",
    parameters={
        **_SHARED,
        "readings": several("other readings of what is left open about migrations, at every load", list(READINGS), ()),
    },
    cells=_p6_cells,
    checks=_p6_checks,
    panels=(Panel("migrations", "migrations"),),
    xlabel="applications",
    derive=_by_applications,
    paper=[Point(float(34 * each), "dissertation", "migrations", 34 * each / 3.0) for each in (1, 10)],
    repeat=(5, 1),
)

CLAIMED: Final = (_P4, _P5, _P6)
