"""What a peer tells a candidate of a component that is to leave it (phase 1 of section 3.4.4)."""

from __future__ import annotations

from synergy_nb.algorithms.migration._candidates import at_speed
from synergy_nb.algorithms.migration._move_history import MoveHistory
from synergy_nb.algorithms.migration._slack_monitor import SlackMonitor
from synergy_nb.algorithms.migration.messages import Departure
from synergy_nb.lifecycle.records.hosted_components import ComponentId
from synergy_nb.lifecycle.session import Session


def departure_of(
    component: ComponentId, session: Session, monitor: SlackMonitor, history: MoveHistory, now: float
) -> Departure | None:
    """Describe a component of this peer to a candidate; None if it has ended or nothing is predicted of it.

    ``component``: application and operator.
    """
    application, operator = component
    member, prediction = session.members.get(application), monitor.predictions.get(component)
    if member is None or member.ended or prediction is None or component not in session.components:
        return None
    graph, plan = member.graph, member.plan
    near = {graph.roles.peers[each] for each in (*plan.upstream(operator), *plan.downstream(operator))} - {""}
    trusted = prediction.basis == "line" and prediction.slope > 0.0
    age = max(prediction.age, 0.0)
    return Departure(
        graph,
        operator,
        prediction.coming_rate,
        prediction.work,
        *(at_speed(prediction.intercept, prediction.slope, 1.0 / prediction.speed) if trusted else (0.0, -1.0)),
        age,
        monitor.attainable_limit(component, age),
        {address: monitor.hop(address) for address in sorted(near)},
        monitor.delay_limit(component),
        tuple((now - when, left) for when, left in history.of("/".join(component))),
        monitor.processor,
    )
