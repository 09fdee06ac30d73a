"""The results of the probes of a request at its origin (section 2.3.1, step 4)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from synergy_nb.algorithms.composition._component_placement import COMPLETE, deployable
from synergy_nb.algorithms.composition.messages import UNIT, Dropped, Merged, Returned
from synergy_nb.control.graph import ComponentGraph, Hop
from synergy_nb.control.roles import Roles
from synergy_nb.lifecycle.records.request import Alternative, Request
from synergy_nb.lifecycle.requests.decider import Decided, Decision, Refusal
from synergy_nb.lifecycle.requests.selection_conditions import by_more_than
from synergy_nb.overlay.answer_limits import AnswerLimit
from synergy_nb.plan import Plan
from synergy_nb.plan.terms.units import counted

UNITS: Final = {"bandwidth": " bytes/s", "delay": " s", "QoS impact": " s"}


class Pending:
    """An undecided request, with the results of its probes."""

    __slots__ = (
        "_alternative",
        "_decided",
        "_limit",
        "_returned",
        "_total",
        "_tried",
        "deploy",
        "dropped",
        "graphs",
        "paths",
        "probed",
        "proposed",
        "qualified",
        "round",
        "stage",
        "submitted",
        "unqualified",
        "why",
    )

    def __init__(self, submitted: Request, decided: Decided) -> None:
        self.submitted = submitted
        self._decided = decided  # function that receives the answer
        self.proposed: Roles | None = None  # placement that another decider has proposed
        self._alternative: Alternative | None = None  # alternative that these rounds of probes compose
        self.round = 0  # number of rounds for the present alternative
        self.stage = 0  # stage of deployment, see component_placement
        self.deploy: set[str] = set()  # operators that are to be deployed
        self.why = ""  # reason why the existing components do not suffice
        self.probed: set[str] = set()  # addresses of the peers with reservations
        # of the present round: weights of all its probes, and of those that have been returned or dropped
        self._total = self._returned = 0
        self._limit: AnswerLimit | None = None  # None where no answers are awaited
        self.paths: dict[tuple[tuple[str, str], ...], tuple[Hop, ...]] = {}
        self.dropped: list[Dropped] = []
        self.graphs = 0
        self.qualified: list[tuple[float, ComponentGraph]] = []  # graphs that can be chosen yet, the best one last
        self.unqualified = ""  # condition that the last unqualified graph violates
        self._tried = 0  # number of its graphs that were chosen for set-up

    @property
    def request(self) -> str:
        """Id of the request."""
        return self.submitted.name

    @property
    def plan(self) -> Plan:
        """The plan that is to be composed: that of the present alternative of the request."""
        return self.submitted.alternative.plan

    @property
    def attempt(self) -> int:
        """Number of rounds of probes so far, which identifies a round at all peers."""
        return self.submitted.rounds

    @property
    def awaits(self) -> bool:
        """Whether answers to the probes of the present round are awaited."""
        return self._limit is not None

    @property
    def complete(self) -> bool:
        """Whether all probes of the present round have been returned or dropped."""
        return self._returned >= self._total

    # -- its rounds --------------------------------------------------------------------------------------------------

    def ask(self, decided: Decided) -> None:
        """The engine asks for a graph of the present alternative of the request."""
        self._decided = decided
        if self._alternative is not self.submitted.alternative:
            self._alternative, self.round = self.submitted.alternative, 0
        self.probed.clear()

    def ask_next(self, decided: Decided) -> None:
        """The engine asks for the next best graph of the present round."""
        self._decided = decided

    def answer(self, answer: Decision | Refusal) -> None:
        """Tell the engine what it has asked for."""
        self._decided(self.submitted, answer)

    def propose(self, proposed: Roles) -> None:
        """Only this placement is probed."""
        self.proposed = proposed

    def lack(self, operators: Iterable[str]) -> None:
        """Nobody offers these operators: they are to be deployed."""
        self.deploy.update(operators)
        self.stage = max(self.stage, 1)

    def next_stage(self, last: int, why: str) -> bool:
        """Add the failed operators to those to deploy, in the next stage; returns False if none is left up to the last.

        ``why``: reason why what there is does not suffice.
        """
        while self.stage < last:
            self.stage += 1
            failed = {drop.operator for drop in self.dropped} if self.stage < COMPLETE else set(self.plan.operators)
            self.deploy.update(operator for operator in failed if deployable(self.plan, operator))
            if self.deploy:  # else no failed operator can be deployed elsewhere
                self.why = self.why or why
                return True
        return False

    def begin_round(self) -> None:
        """Probes are about to be sent."""
        self.round += 1
        self.submitted.next_round()
        self.paths.clear()
        self.dropped.clear()
        self._returned, self._total, self._tried = 0, UNIT * len(self.plan.sources), 0

    def wait(self, limit: AnswerLimit) -> None:
        """Wait for answers until a limit."""
        self._limit = limit

    def stop_waiting(self) -> bool:
        """Ignore further answers; returns whether any were awaited."""
        if self._limit is None:
            return False
        self._limit.cancel()
        self._limit = None
        return True

    # -- answers -----------------------------------------------------------------------------------------------------

    def found(self, message: Returned) -> None:
        """A probe has arrived with a path; one that is known already does not count."""
        key = tuple((hop.operator, hop.peer) for hop in message.path)
        if key not in self.paths:
            self.paths[key] = message.path
            self._count(message.weight, (hop.peer for hop in message.path))

    def merge(self, message: Merged) -> None:
        """A probe has been merged with another one on its way."""
        self._count(message.weight, (hop.peer for hop in message.path))

    def drop(self, message: Dropped) -> None:
        """A probe has been dropped."""
        self.dropped.append(message)
        self._count(message.weight, (*message.via, message.at))

    def _count(self, weight: int, probed: Iterable[str]) -> None:
        self.probed.update(probed)
        self._returned += weight

    # -- graphs ------------------------------------------------------------------------------------------------------

    def compose(self, graphs: Sequence[ComponentGraph]) -> None:
        """The paths have been merged into graphs, which are judged next."""
        self.graphs, self.qualified, self.unqualified = len(graphs), [], ""

    def judge(self, graph: ComponentGraph, phi: float, failed: str) -> None:
        """A graph qualifies, or has ``failed`` a condition."""
        if not failed:
            self.qualified.append((phi, graph))
            self.unqualified = ""
        elif not self.qualified:
            self.unqualified = failed

    def rank(self, key: Callable[[tuple[float, ComponentGraph]], Any]) -> None:
        """Order the graphs that qualify by a key, the least one as the best."""
        self.qualified.sort(key=key, reverse=True)

    def take_best(self, is_dead: Callable[[str], bool], tries: int) -> tuple[float, ComponentGraph] | None:
        """Return the best graph of living peers that was not chosen yet, with its φ; None after so many tries."""
        while self.qualified and any(map(is_dead, self.qualified[-1][1].peers.values())):
            self.qualified.pop()
        if not self.qualified or self._tried >= tries:
            return None
        self._tried += 1
        return self.qualified.pop()

    # -- reasons -----------------------------------------------------------------------------------------------------

    @property
    def unanswered(self) -> bool:
        """Whether no peer has refused, but not all have answered."""
        silent = all(drop.condition == "acknowledgement" for drop in self.dropped)
        return silent and not self.graphs and bool(self.dropped or not self.complete)

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
