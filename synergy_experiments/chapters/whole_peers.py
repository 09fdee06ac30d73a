"""B4: P4 to P6 on whole peers, beside the flow model (section 3.5, figures 3.21 to 3.24).

P4 to P6 are a sweep in the flow simulator, which has the decisions of the peers and no peers. Here the peers that users
run execute the same applications in virtual time, at the same places and speeds, with the same arrivals
(:mod:`~synergy_experiments.worlds.whole_monitors`). The fastest peer is 2.5 times as fast as the slowest, so this also
measures that work is scaled to the speed of its peer.

Findings
--------
The stored result is of one run of 8 peers. Without migration both miss as much. With prediction whole peers missed
2.0 % where the flow model missed 18.6 %. With reaction both missed as much (38.7 and 37.6 %), but whole peers made 13
migrations where the flow model made 42. One cause of the difference with prediction is the queue: the new peer of a
component executes what waits at the old one, too, but in the flow model, as in the dissertation, the old one does, and
all its components wait for that. Why the flow model migrates more often with reaction is not known.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from synergy_experiments.framework.claim import Cell, Check, Claim, Panel
from synergy_experiments.framework.measurements import Measured, both
from synergy_experiments.framework.parameters import Setup, number, whole, wholes
from synergy_experiments.framework.verdicts import at_all, near, own
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


def _checks(measured: Measured, setup: Setup) -> Iterator[Check]:
    """Yield what whole peers do, with our prediction of rates: so none of it judges the paper's."""
    yield from map(own, _of_whole_peers(measured, setup))


def _of_whole_peers(measured: Measured, _: Setup) -> Iterator[Check]:
    def at(x: float, policy: str, metric: str, model: str = WHOLE) -> tuple[float, str, str]:
        return x, f"{policy}, {model}", metric

    loads = dict(measured.course(f"{NOTHING}, {WHOLE}", "miss rate"))
    least, most = min(loads), max(loads)
    all_ran = [(f"{x:g} per peer", both(*(measured.not_above(at(x, NOTHING, "applications"), at(x, policy, "ran"))
                                        for policy in ALL))) for x in loads]  # fmt: skip
    yield at_all("every application runs", "all peers execute what they were asked to", all_ran)
    missed = measured.estimate(*at(least, NOTHING, "miss rate"))
    few = [(f"{least:g} per peer", None if missed is None else missed.at_most(FEW))]
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
        points = [(f"{x:g} per peer", measured.not_above(at(x, PREDICTION, metric), at(x, than, metric), factor))
                  for x in hot]  # fmt: skip
        yield at_all(name, paper, points)
    moved = at(most, PREDICTION, "migrations"), at(most, PREDICTION, "applications")
    share = measured.paired(*moved, lambda migrations, applications: migrations / applications)
    yield near("P6: migrations per application at the highest load", 1.0 / 3.0, share, 0.1, 0.25, unit="")
    for policy, name, why in (
        (PREDICTION, "misses with prediction differ by 5 points at most from the flow model's",
         "the new peer executes what waits at the old one, which in the flow model the old one does"),
        (NOTHING, "misses without migration differ by 5 points at most from the flow model's", ""),
    ):  # fmt: skip
        alike = []
        for x in loads:
            apart = measured.paired(at(x, policy, "miss rate"), at(x, policy, "miss rate", FLOW),
                                    lambda whole, flow: whole - flow)  # fmt: skip
            alike.append((f"{x:g} per peer", None if apart is None else apart.within(0.05)))
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
    xlabel="applications per peer",
    repeat=(1, 1),
)

CLAIMED: Final = (_B4,)
