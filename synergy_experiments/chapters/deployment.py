"""C11: deployment of components that no peer offers (section 2.4.2, figure 2.20).

Each query has an operator for which no component exists. Synergy collocates the new component with an upstream or
downstream component (section 2.3.2). Composition and Greedy deploy it at the peer with the least delay from the
upstream one, of all peers, and Random at any peer. The baseline is the same requests with all operators offered. In
addition to the policies of the paper there is Synergy with deployment by delay, which differs only in the choice of the
peer.

Findings
--------
Synergy's delay is about a fifth below Composition's, as in the paper, but most of that is due to sharing and
projection. With all else equal, collocation and the nearest peer differ by a few per cent, because in a network of 500
peers the nearest one is a millisecond or two away. Compared with full reuse, both save about one hop of seven in the
mean, which is a tenth of the delay and less than the paper reports. Greedy overloads the peers near popular sources,
with and without deployment.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from synergy_experiments.framework.claim import Cell, Check, Claim, Panel
from synergy_experiments.framework.measurements import Measured
from synergy_experiments.framework.parameters import Setup, several, whole
from synergy_experiments.framework.verdicts import reduction
from synergy_experiments.worlds.sweeps import COMPARED, SIMULATED, algorithms, scenario, simulated
from synergy_nb.algorithms.composition import POLICIES

__all__ = ["CLAIMED"]

BY_DELAY: Final = "synergy by delay"
REUSED: Final = "all reused"
DEPLOYED: Final = "one deployed"


def _cells(setup: Setup) -> Iterator[Cell]:
    for name in algorithms(setup):
        policy, rule = ("synergy", "nearest") if name == BY_DELAY else (name, "")
        deployed = scenario(setup, policy=policy, deployment=rule)
        if name != BY_DELAY:
            yield Cell(simulated, (scenario(setup, policy=policy, missing=0),), REUSED, name)
        yield Cell(simulated, (deployed,), DEPLOYED, name)


def _checks(measured: Measured, _: Setup) -> Iterator[Check]:
    for other in ("composition", "greedy"):
        yield reduction(f"Synergy's delay against that of {other}, which deploys by delay", 0.20,
                        measured.gain(DEPLOYED, "synergy", other, "delay"))  # fmt: skip
    yield reduction("collocation against deployment by delay, all else equal", 0.20,
                    measured.gain(DEPLOYED, "synergy", BY_DELAY, "delay"))  # fmt: skip
    for policy, said in (("composition", 0.12), ("synergy", 0.21)):
        before, after = (measured.values(place, policy, "delay") for place in (REUSED, DEPLOYED))
        saved = [1.0 - after[number] / before[number] for number in before if number in after]
        yield reduction(f"delay of {policy} with one operator deployed against full reuse", said,
                        sum(saved) / len(saved) if saved else None, 0.05)  # fmt: skip


CLAIMED: Final = (
    Claim(
        id="C11",
        title="delay with one operator deployed anew",
        source="dissertation 2.4.2, figure 2.20",
        says="collocation about 20 % below deployment by delay; against full reuse, deployment by delay saves 12 %, "
        "collocation 21 %",
        parameters={
            **SIMULATED,
            "missing": whole("operators of each query that no peer offers", 1),
            "algorithms": several("policies compared", (*POLICIES, BY_DELAY), (*COMPARED, BY_DELAY)),
        },
        cells=_cells,
        checks=_checks,
        panels=(
            Panel("delay", "mean end-to-end delay (ms)", "bars", 1e3, logarithmic=True),
            Panel("success", "served within QoS (%)", "bars", 100.0),
        ),
        xlabel="operators",
        repeat=(2, 5),
    ),
)
