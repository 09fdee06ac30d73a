"""A replay of a set-up that fails."""

from __future__ import annotations

from synergy_nb import source
from synergy_nb.events import Event, GraphEvaluated, GraphSelected, RequestSubmitted, SetupFailed
from synergy_nb.recording.moments import Replay
from synergy_nb.recording.stage import replay_events


def replay_of_a_failed_set_up() -> Replay:
    """The graph of least φ cannot be set up, and the next one is chosen."""
    plan = source("packets").filter("bytes > 1").sink("large")
    near, far = (dict.fromkeys(plan.operators, peer) for peer in ("a", "b"))
    events: list[Event] = [
        RequestSubmitted(0.0, "a", "r", plan="large", operators=list(plan.operators), qos={}),
        GraphEvaluated(1.0, "a", "r", far, 0.2, 0.5),
        GraphEvaluated(1.0, "a", "r", near, 0.1, 0.2),
        GraphSelected(1.1, "a", "r", near, 0.1, 0.2),
        SetupFailed(1.2, "a", "r", 1, "b: its reservation has expired"),
        GraphSelected(1.3, "a", "r", far, 0.2, 0.5),
    ]
    return replay_events("r", plan, events, names={"a": "one", "b": "two"})
