"""The results of the probes of a request at its origin (section 2.3.1, step 4)."""

from __future__ import annotations

from typing import Final

from synergy_nb.algorithms.composition.messages import Dropped
from synergy_nb.control.graph import ComponentGraph, Hop
from synergy_nb.control.roles import Roles
from synergy_nb.lifecycle.records.request import Alternative, Request
from synergy_nb.lifecycle.requests.decider import Decided
from synergy_nb.lifecycle.requests.selection_conditions import by_more_than
from synergy_nb.overlay.answer_limits import AnswerLimit
from synergy_nb.plan import Plan
from synergy_nb.plan.terms.units import counted

UNITS: Final = {"bandwidth": " bytes/s", "delay": " s", "QoS impact": " s"}


class Pending:
    """An undecided request, with the results of its probes."""

    __slots__ = (
        "alternative",
        "attempt",
        "decided",
        "deploy",
        "dropped",
        "graphs",
        "paths",
        "probed",
        "proposed",
        "qualified",
        "returned",
        "round",
        "stage",
        "submitted",
        "timer",
        "total",
        "tried",
        "unqualified",
        "why",
    )

    def __init__(self, submitted: Request, decided: Decided) -> None:
        self.submitted = submitted
        self.decided = decided  # function that receives the answer
        self.proposed: Roles | None = None  # placement that another decider has proposed
        self.alternative: Alternative | None = None  # alternative that these rounds of probes compose
        self.attempt = 0  # number of rounds of probes so far, which identifies a round at all peers
        self.round = 0  # number of rounds for the present alternative
        self.stage = 0  # stage of deployment, see component_placement
        self.deploy: set[str] = set()  # operators that are to be deployed
        self.total = 0  # weight of all probes of the round
        self.returned = 0  # weight of the probes that have been returned or dropped
        self.paths: dict[tuple[tuple[str, str], ...], tuple[Hop, ...]] = {}
        self.dropped: list[Dropped] = []
        self.probed: set[str] = set()
        self.graphs = 0
        self.why = ""  # reason why the existing components do not suffice
        self.unqualified = ""  # condition that the last unqualified graph violates
        self.tried = 0  # number of graphs of this attempt that were chosen for set-up
        self.qualified: list[tuple[float, ComponentGraph]] = []
        self.timer: AnswerLimit | None = None

    @property
    def request(self) -> str:
        """Id of the request."""
        return self.submitted.name

    @property
    def plan(self) -> Plan:
        """The plan that is to be composed: that of the present alternative of the request."""
        return self.submitted.alternative.plan

    @property
    def unanswered(self) -> bool:
        """Whether no peer has refused, but not all have answered."""
        silent = all(drop.condition == "acknowledgement" for drop in self.dropped)
        return silent and not self.graphs and bool(self.dropped or self.returned < self.total)

    def summary(self) -> str:
        """Readable list of the conditions that failed and the peers where they did, the most frequent first."""
        if self.graphs and not self.dropped and not self.unqualified:
            return "none of the composed graphs could be set up"
        if not self.graphs and not self.dropped:
            return "no probe has returned in time"
        parts = []
        if self.unqualified:
            parts.append(f"the selection conditions hold for none of the composed graphs: {self.unqualified}")
        failed: dict[tuple[str, str], list[Dropped]] = {}
        for drop in self.dropped:
            failed.setdefault((drop.operator, drop.condition), []).append(drop)
        for (operator, condition), drops in sorted(failed.items(), key=lambda item: -len(item[1]))[:4]:
            if condition == "acknowledgement":
                silent = ", ".join(sorted({drop.at for drop in drops}))
                parts.append(f"operator {operator}: no acknowledgement from {silent}")
                continue
            nearest = min(drops, key=lambda drop: abs(drop.required - drop.available))
            where = f"operator {operator}: {condition} at {counted(len({drop.at for drop in drops}), 'peer')}"
            if nearest.detail:
                parts.append(f"{where}: {nearest.detail}")
                continue
            words = _compared(nearest)
            if nearest.tolerated:
                words += f", exceeded{by_more_than(nearest.tolerated)}"
            parts.append(f"{where}, at best {words} ({nearest.at})")
        return "; ".join(parts)


def _compared(drop: Dropped) -> str:
    """Describe what a peer has, and what the plan needs or allows."""
    if drop.condition == "processing capacity":
        return f"{counted(drop.available, 'core')} where {counted(drop.required, 'core', 'is', 'are')} needed"
    unit = UNITS.get(drop.condition, "")
    verb = "is allowed" if drop.condition in ("delay", "miss rate") else "are needed" if "/" in unit else "is needed"
    return f"{drop.available:.4g}{unit} where {drop.required:.4g}{unit} {verb}"
