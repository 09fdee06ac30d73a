"""B4: P4 to P6 on whole peers, beside the flow model (section 3.5, figures 3.21 to 3.24).

P4 to P6 are a sweep in the flow simulator, which has the decisions of the peers and no peers. Here the peers that users
run execute the same applications in virtual time, at the same places and speeds, with the same arrivals
(:mod:`~synergy_experiments.worlds.whole_monitors`). The fastest peer is 2.5 times as fast as the slowest, so this also
measures that work is scaled to the speed of its peer.

Findings
--------
Without migration both miss as much. With prediction the flow model misses more: where whole peers missed 2.0 %, it
missed 18.6 % as long as its peers waited, after a migration, until all that had been sent to the old one before was
executed; since they rest as whole peers do, 10.8 %. In three such runs it is 10.8, 5.8 and 11.4 % instead of 18.6, 18.5
and 30.8. What is left is the queue: the new peer of a component executes what waits at the old one, too, but in the
flow model, as in the dissertation, the old one does, and all its components wait for that. If the work that waits is
counted at the new peer from the migration on, though tuples that wait already keep their times, it was 4.5, 3.6 and
10.8 % instead of 10.1, 6.0 and 13.0, with an earlier predictor of rates. The time from one decision to the next decides
less than before: 10.1, 9.5 and 8.5 % if it is 1, .5 and .25 s.

With reaction the flow model missed as much as whole peers as long as it waited (37.6 and 38.7 %), and misses 23.2 %
now, with three times as many migrations; the cause is not known.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from synergy_experiments.framework.claim import Cell, Check, Claim, Panel
from synergy_experiments.framework.measurements import Measured, both
from synergy_experiments.framework.parameters import Setup, number, whole, wholes
from synergy_experiments.framework.verdicts import at_all, near
from synergy_experiments.worlds.monitors_under_load import NOTHING, PREDICTION, REACTION
from synergy_experiments.worlds.whole_monitors import FLOW, WHOLE, whole_monitored

__all__ = ["CLAIMED"]

ALL: Final = (NOTHING, REACTION, PREDICTION)
FEW: Final = 0.005  # miss rate from which on policies are compared
RUN: Final = ("peers", "rate", "share", "spread", "limit", "duration")  # parameters of each run


def _cells(setup: Setup) -> Iterator[Cell]:
    per_peer = setup["applications"]
    assert isinstance(per_peer, tuple)
    for each in per_peer:
        for policy in ALL:
            yield Cell(whole_monitored, (each, (policy,), *(setup[name] for name in RUN)))


def _checks(measured: Measured, _: Setup) -> Iterator[Check]:
    def at(x: float, policy: str, metric: str, model: str = WHOLE) -> tuple[float, str, str]:
        return x, f"{policy}, {model}", metric

    loads = dict(measured.course(f"{NOTHING}, {WHOLE}", "miss rate"))
    least, most = min(loads), max(loads)
    all_ran = [(f"{x:g} a peer", both(*(measured.not_above(at(x, NOTHING, "applications"), at(x, policy, "ran"))
                                        for policy in ALL))) for x in loads]  # fmt: skip
    yield at_all("every application runs", "all peers execute what they were asked to", all_ran)
    missed = measured.estimate(*at(least, NOTHING, "miss rate"))
    few = [(f"{least:g} a peer", None if missed is None else missed.at_most(FEW))]
    yield at_all(f"at the lowest load at most {FEW:.1%} of the results are missed", "P4: not many hot spots", few)
    hot = [x for x, share in loads.items() if share >= FEW]
    for name, paper, metric, than, factor in (
        ("misses with prediction are at most half of those without migration", "P4: controls this increase",
         "miss rate", NOTHING, 0.5),
        ("misses with prediction are not more than with reaction", "P4: controls this increase",
         "miss rate", REACTION, 1.0),
        ("delay of all results, a miss taking as long as the limit, is below that without migration",
         "P5: lower average", "delay with misses", NOTHING, 1.0),
    ):  # fmt: skip
        points = [(f"{x:g} a peer", measured.not_above(at(x, PREDICTION, metric), at(x, than, metric), factor))
                  for x in hot]  # fmt: skip
        yield at_all(name, paper, points)
    moved = at(most, PREDICTION, "migrations"), at(most, PREDICTION, "applications")
    share = measured.paired(*moved, lambda migrations, applications: migrations / applications)
    yield near("P6: migrations an application at the highest load", 1.0 / 3.0, share, 0.1, 0.25, unit="")
    for policy, name, why in (
        (PREDICTION, "beyond the papers: misses with prediction differ by 5 points at most",
         "the new peer executes what waits at the old one, which in the flow model the old one does"),
        (NOTHING, "the same without migration", ""),
    ):  # fmt: skip
        alike = []
        for x in loads:
            apart = measured.paired(at(x, policy, "miss rate"), at(x, policy, "miss rate", FLOW),
                                    lambda whole, flow: whole - flow)  # fmt: skip
            alike.append((f"{x:g} a peer", None if apart is None else apart.within(0.05)))
        yield at_all(name, "the flow model", alike, why)


_B4: Final = Claim(
    id="B4",
    title="misses, delays and migrations of whole peers",
    source="dissertation 3.5, figures 3.21-3.24",
    says="as P4 to P6: underloaded, not many hot spots occur; as the load increases, the miss rate increases "
    "drastically unless hot spots are handled; delays are lower with migration; one migration for three applications",
    parameters={
        "applications": wholes("applications of each peer", [4, 10], range(1, 11)),
        "peers": whole("peers", 8, 34, least=8),
        "rate": number("mean rate of a source, tuples/s", 2.0, 20.0, least=0.1),
        "share": number("share of the capacity that ten applications a peer take", 0.85, least=0.01),
        "spread": number("speed of the fastest peer over that of the slowest one", 2.5, least=1.0),
        "limit": number("limit of the delay, seconds", 10.0, 20.0, least=0.01),
        "duration": number("duration of the load, seconds", 40.0, 300.0, least=10.0),
    },
    cells=_cells,
    checks=_checks,
    panels=(
        Panel("miss rate", "missed results (%)", factor=100.0),
        Panel("delay with misses", "mean delay, misses as the limit (s)"),
        Panel("migrations", "migrations"),
    ),
    xlabel="applications a peer",
    repeat=(1, 1),
)

CLAIMED: Final = (_B4,)
