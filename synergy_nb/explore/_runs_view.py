"""The view of kept runs: which peer was late, when, what else ran there; and the same runs in a simulated cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, Final

from msgspec import structs

from synergy_nb.events import PeerMeasured
from synergy_nb.explore._linked_charts import LinkedCharts
from synergy_nb.explore._opened_traces import TraceViewError, open_frame
from synergy_nb.explore._run_rows import names_of, rows_of_runs
from synergy_nb.plan import Plan
from synergy_nb.plan.terms.units import counted
from synergy_nb.recording.kept_runs import KeptRun
from synergy_nb.simulator.simulation import Simulation

__all__ = ["RunsView"]

COLUMNS: Final = ("time", "peer", "run", "what", "operator", "delay_s", "late", "load")


class RunsView(LinkedCharts):
    """Linked charts of the journals of kept runs."""

    def __init__(self, runs: Sequence[KeptRun], columns: Sequence[str] | None = None) -> None:
        self._runs = sorted(runs, key=lambda run: run.submitted)
        rows = rows_of_runs(self._runs)
        title = self._runs[0].plan.name if len(self._runs) == 1 else counted(len(self._runs), "run")
        super().__init__(open_frame(rows, title, "time"), COLUMNS if columns is None else columns)

    def runs(self) -> list[KeptRun]:
        """The runs of which rows are selected."""
        seen = {name for (name,) in self.crossfilter.ask("DISTINCT rows.run", self._brushes)}
        names = names_of(self._runs)
        return [run for run in self._runs if names[run.id] in seen]

    def plan(self) -> Plan:
        """The plan of the run of which rows are selected.

        Raises ``ValueError`` if these are rows of several runs, or of none.
        """
        found = self.runs()
        if len(found) != 1:
            names = ", ".join(names_of(self._runs)[run.id] for run in found) or "none"
            raise TraceViewError(f"plan: rows of {names}; expected rows of one run: select(run=...)")
        return found[0].plan

    def simulate(
        self,
        peers: int | Sequence[str] | None = None,
        *,
        graph: Mapping[str, Mapping[str, str]] | None = None,
        spread: bool = False,
        placement: str = "composed",
        origin: str | None = None,
        **options: Any,
    ) -> Simulation:
        """Run the plans of the selected rows again in a simulated cluster, and return it; ``applications`` has them.

        They are submitted in the same order, as long after one another as then. A tuple takes the time at an operator
        that was measured then. Time passes up to the last submission.

        ``peers``, ``options``: those of :class:`~synergy_nb.Simulation`; by default the peers that the runs had.
        ``graph``: run to the peers of its operators, such as ``{run.plan.name: run.graph}`` for the placement that it
        had; by default the peers decide. ``spread``, ``placement``, ``origin``: see ``submit``.

        Raises ``ValueError`` if no run is selected or rows of a source are not kept, and ``NotAdmitted`` if the peers
        refuse a plan.
        """
        found = self.runs()
        if not found:
            raise TraceViewError("simulate: no row of a run is selected; expected some")
        names = names_of(self._runs)
        for each in graph or {}:
            if each not in names.values():
                raise TraceViewError(f"graph: run {each!r}; expected some of {', '.join(names.values())}")
        for run in found:
            for operator in run.plan.operators.values():
                if operator.params.get("connector") == "python":
                    raise TraceViewError(
                        f"simulate: run {names[run.id]}: the rows of source {operator.id!r} came from a "
                        "program, and are not kept; expected a trace or a generator"
                    )
        simulation = Simulation(peers or sorted({name for run in found for name in run.names.values()}), **options)
        took = self._took()
        began = simulation.now
        for run in found:
            due = began + (run.submitted - found[0].submitted).total_seconds()
            if due > simulation.now:
                simulation.run(due - simulation.now)
            plan = _placed(run.plan, (graph or {}).get(names[run.id], {}))
            application = simulation.submit(plan, spread=spread, placement=placement, origin=origin)
            for operator in run.plan.operators.values():
                seconds = took.get((run.id, operator.id))
                if seconds is not None and operator.kind not in ("source", "sink"):
                    simulation.cost(application, operator.id, seconds)
        return simulation

    def _took(self) -> dict[tuple[str, str], float]:
        """Run and operator to the time that a tuple took there, seconds: the median of what was measured."""
        seen: dict[tuple[str, str], list[float]] = {}
        for run in self._runs:
            for event in run.events().of(PeerMeasured):
                for each in event.components:
                    if each.application == run.id and each.rate > 0.0:
                        seen.setdefault((run.id, each.operator), []).append(each.processing_s)
        return {key: median(values) for key, values in seen.items()}


def _placed(plan: Plan, peers: Mapping[str, str]) -> Plan:
    """The plan with operators at peers that are given."""
    for each in peers:
        if each not in plan.operators:
            raise TraceViewError(f"graph: operator {each!r}; expected some of {', '.join(plan.operators)}")
    moved = [structs.replace(each, at=peers.get(each.id, each.at)) for each in plan.operators.values()]
    return Plan(moved, plan.qos, plan.name)
