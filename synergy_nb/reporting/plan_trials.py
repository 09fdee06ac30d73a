"""What a plan would cost: the graph that composition would choose for it, from the journal of a trial."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from synergy_nb.events import Event, GraphSelected, ReplicasDeployed, SharingFound, SharingGivenUp
from synergy_nb.events.peer_names import readable
from synergy_nb.plan import Plan
from synergy_nb.plan.derived.active_replicas import original
from synergy_nb.plan.terms.units import counted
from synergy_nb.reporting.formatting import rate, seconds
from synergy_nb.reporting.replica_streams import cost_sentence, streams_sentence
from synergy_nb.reporting.tables import as_text

__all__ = ["PlanTrial", "trial_of"]


class PlanTrial(NamedTuple):
    """The graph that composition would choose for a plan, or the reason why it would refuse it; nothing was started.

    Parameters
    ----------
    admitted
        Whether the plan would be admitted.
    peers
        Operator to the name of the peer that would execute it; empty if the plan would be refused.
    text
        Expected load, rate and peer of each operator, and the projected delay, for people.
    """

    admitted: bool
    peers: dict[str, str]
    text: str

    def __str__(self) -> str:
        return self.text

    def _repr_pretty_(self, printer: object, _cycle: bool) -> None:
        printer.text(self.text)  # type: ignore[attr-defined]


def trial_of(
    plan: Plan,
    peers: Mapping[str, str],
    backups: Mapping[str, Iterable[str]],
    reason: str,
    events: Iterable[Event],
    names: Mapping[str, str],
) -> PlanTrial:
    """Describe the outcome of a trial.

    ``plan``: plan that was tried; ``peers``, ``backups``: operator to the addresses of its peer and of its backups,
    empty if it was refused; ``reason``: reason of the refusal, empty if it was not refused; ``events``: events of the
    trial; ``names``: peer address to name.
    """
    if not peers:
        return PlanTrial(False, {}, f"would be refused: {readable(reason, names)}")
    found = {name: names.get(address, address) for name, address in peers.items() if address}
    selected: GraphSelected | None = None
    deployed: ReplicasDeployed | None = None
    shared: Mapping[str, object] = {}
    for event in events:
        if isinstance(event, GraphSelected):
            selected = event
        elif isinstance(event, ReplicasDeployed):
            deployed = event
        elif isinstance(event, SharingFound):
            shared = event.points
        elif isinstance(event, SharingGivenUp):
            shared = {}
    number = len(set(found.values()))
    replicas = {name: original(name) for name in found}
    loads = sum(plan.load(of) for name, of in replicas.items() if of in plan.operators and name not in shared)
    facts = [f"{counted(len(found), 'operator')} on {counted(number, 'peer')}", f"{loads:.3g} cores"]
    if selected is not None:
        limit = "" if plan.qos.delay is None else f" of {seconds(plan.qos.delay)}"
        facts.append(f"projected delay {seconds(selected.delay_s)}{limit}")
        facts.append(f"balance φ {selected.phi:.3g}")
    rows = []
    for name, peer in found.items():
        of = replicas[name]
        known = of in plan.operators
        also = ", ".join(names.get(each, each) for each in backups.get(name, ()))
        what = "stream of another application" if name in shared else f"backups {also}" if also else ""
        load = counted(plan.load(of), "core") if known and name not in shared else ""
        rows.append([name, peer, load, rate(plan.rate(of)) if known else "", what])
    spared = [name for name in plan.operators if name not in found]
    caption = f"would be admitted: {', '.join(facts)}"
    lines = [as_text(caption, ("operator", "peer", "load", "rate", ""), rows)]
    if deployed is not None:
        lines += [cost_sentence(deployed), f"streams: {streams_sentence(deployed)}"]
    if spared:
        lines.append(f"not executed again, as a stream that runs is shared: {', '.join(spared)}")
    return PlanTrial(True, found, "\n".join(lines))
