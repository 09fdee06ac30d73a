"""The state of a submitted plan over the canvas of an editor: peers, rates, queues; and the changes of its draft."""

from __future__ import annotations

from typing import Any, Final

from synergy_nb.plan import Plan
from synergy_nb.plan.derived.active_replicas import original
from synergy_nb.plan.derived.stream_sharing import is_live, reduced, sharable_points
from synergy_nb.reporting.formatting import rate
from synergy_nb.widgets._component_status import drawn_plan
from synergy_nb.widgets._journal_series import JournalSeries
from synergy_nb.widgets._status_text import status_pieces

#: Waiting input of an operator from which on its queue is drawn full, in seconds of its input rate.
FULL: Final = 1.0
#: Last words of the label of a mark on the time axis to the kind of the mark.
_KINDS: Final = {"died": "death", "taken over": "takeover", "moved": "move", "relieved": "move", "failed": "bad"}


def overlay(readings: JournalSeries, plan: Plan) -> dict[str, Any]:
    """The present state of an application as plain values; operators are named by their ids in the plan.

    ``readings``: series of the journal of this application; ``plan``: plan that was submitted.
    """
    pieces = status_pieces(readings, plan)
    run = readings.run(readings.application or "")
    parts = {str(each["operator"]): each for name, each in pieces.items() if name.startswith("part:")}
    own = {name: each for name, each in parts.items() if name in plan.operators}
    peers = {name: readings.name(each["peer"]) for name, each in own.items() if each["peer"]}
    queues: dict[str, float] = {}
    rates: dict[str, str] = {}
    for (application, name), component in readings.components.items():
        stats = component.stats
        if application != run.application or stats is None or name not in plan.operators:
            continue
        queues[name] = round(min(stats.queue_tuples / max(FULL * stats.rate, 1.0), 1.0), 3)
        rates |= {f"{name}>{reader}": rate(stats.output_rate) for reader in plan.downstream(name)}
    replicas: dict[str, list[str]] = {}
    for name in drawn_plan(readings, plan).operators:
        at = run.roles.peers.get(name, "")
        if name != original(name) and at and name not in run.lost_replicas:
            replicas.setdefault(original(name), []).append(readings.name(at))
    head = pieces["head"]
    return {
        "application": run.application,
        "state": head["status"],
        "tone": head["tone"],
        "sentence": head["sentence"],
        "peers": peers,
        "states": {name: each["state"] for name, each in own.items()},
        "tips": {name: each["tip"] for name, each in own.items() if each["tip"]},
        "rates": rates,
        "queues": queues,
        "backups": {
            name: [readings.name(peer) for peer in backups if peer not in run.lost]
            for name, backups in run.roles.backups.items()
            if name in plan.operators
        },
        "replicas": replicas,
        "shared": _shared(readings, plan),
        "spark": sorted({each for members in run.engines.parts.values() for each in members if each in plan.operators}),
        "marks": [_mark(each) for each in pieces["marks"]["list"]],
        "start": head["zero"],
        "now": head["ended"] or max(readings.now, head["zero"]),
    }


def _shared(readings: JournalSeries, plan: Plan) -> dict[str, str]:
    """Ids of the operators that the application need not execute, each to the application that owns the stream."""
    found: dict[str, str] = {}
    for tap, (owner, _) in readings.run(readings.application or "").sharing.shared.items():
        waiting = [tap] if tap in plan.operators else []
        while waiting:
            name = waiting.pop()
            if name not in found:
                found[name] = owner
                waiting += plan.upstream(name)
    return found


def _mark(mark: dict[str, Any]) -> dict[str, Any]:
    kind = next((kind for words, kind in _KINDS.items() if mark["label"].endswith(words)), mark["tone"])
    return {"t": mark["at"], "kind": kind, "text": mark["text"], "label": mark["label"]}


def draft_of(plan: Plan, submitted: Plan, ids: list[str]) -> dict[str, list[str]] | None:
    """Operators that a draft adds, changes and removes, and those that it would share; None if nothing differs.

    ``plan``: present plan, or the part of it that is valid; ``submitted``: plan that was submitted; ``ids``: ids of the
    operators in the present text, valid or not.
    """
    if plan == submitted:
        return None
    changed = [
        name for name in ids if name in submitted.operators and plan.operators.get(name) != submitted.operators[name]
    ]
    running = {submitted.stream_name(name) for name in submitted.operators}
    ends = plan.sinks and plan.operators
    points = (
        sharable_points(plan, lambda name: plan.stream_name(name) in running and is_live(plan, name)) if ends else ()
    )
    left = reduced(plan, {point: {} for point in points}).operators if points else plan.operators
    return {
        "added": [name for name in ids if name not in submitted.operators],
        "changed": changed,
        "removed": [name for name in submitted.operators if name not in ids],
        "shared": [name for name in plan.operators if name in points or name not in left],
    }
