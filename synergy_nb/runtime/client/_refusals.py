"""The error for a plan that the peers refused, with its explanation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from synergy_nb.events import Event
from synergy_nb.events.peer_names import readable
from synergy_nb.lifecycle.requests.submission import known_peers_phrase
from synergy_nb.plan import Plan
from synergy_nb.reporting.explanation import Explanation
from synergy_nb.reporting.peer_states import PeerState
from synergy_nb.reporting.refused_delays import refused_delay
from synergy_nb.runtime.process.requests import NotAdmitted

if TYPE_CHECKING:
    from synergy_nb.recording.moments import Replay


def refusal(
    plan: Plan,  # plan that was refused
    application: str,
    reason: str,  # reason of the refusal, as its origin states it
    events: Iterable[Event],  # events about the request
    states: Mapping[str, PeerState | None],  # state of each peer by name; None for one that does not answer
    names: Mapping[str, str],  # peer address to name
) -> NotAdmitted:
    """Make the error for a plan that was not admitted."""
    events = list(events)
    living = [name for name, state in states.items() if state is not None]
    bound = {name: names.get(each.at, each.at) for name, each in plan.operators.items() if each.at is not None}
    reasons = [
        f"operator {name!r}: at: {at!r}, which does not answer; expected {known_peers_phrase(living)}"
        for name, at in bound.items()
        if at not in living
    ]
    explanation = Explanation(application, events, names, ("rejected", reason))
    measured = {name: state.overheads for name, state in states.items() if state is not None}
    explanation.delay = refused_delay(plan, explanation, measured)
    reasons.append(readable(reason, names))
    if explanation.delay is not None:
        reasons.append(str(explanation.delay))

    def make_replay() -> Replay:
        from synergy_nb.recording.stage import replay_events  # noqa: PLC0415 - few need replays

        return replay_events(application, plan, events, names=names)

    return NotAdmitted(f"{plan.name}: {'; '.join(reasons)}", explanation, make_replay)
