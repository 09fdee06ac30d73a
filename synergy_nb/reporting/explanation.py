"""Explanations: the account of one request for people, with the reasons why it runs where it runs, or why not."""

from __future__ import annotations

from typing import Any

from msgspec import to_builtins

from synergy_nb.events import Event
from synergy_nb.reporting._account import lines
from synergy_nb.reporting._explanation_page import page
from synergy_nb.reporting._reasons import Reasons

__all__ = ["Explanation"]


class Explanation(Reasons):
    """An account of how a request was composed: its facts and reasons, as text, HTML and plain values.

    Examples
    --------
    >>> from synergy_nb.events import ApplicationRejected
    >>> print(Explanation("r1", [ApplicationRejected(0.0, "a", "r1", "no peers")], {}))
    r1: rejected: no peers
    """

    def to_dict(self) -> dict[str, Any]:
        """Convert the account to plain values."""
        asked, found, replicas = self.asked, self.composition, self.of_replicas
        replicated = self.replication.replicated
        return {
            "request": self.request,
            "outcome": self.course.outcome,
            "qos": asked.qos,
            "scheduling": asked.scheduling,
            "disciplines": found.disciplines,
            "drops": asked.drops,
            "overdue": self.losses.overdue,
            "setup_s": self.course.setup_s,
            "candidates": found.candidates,
            "attempts": list(map(_plain, found.attempts)),
            "accepted": [{**_plain(probe), "at": probe.peer} for probe in found.accepted],
            "dropped": list(map(_plain, found.dropped)),
            "graphs": list(map(_plain, found.graphs)),
            "selected": None if found.selected is None else _plain(found.selected),
            "refused": found.refused,
            "signatures": {
                name: {"from": origin, "segments": segments} for name, (origin, segments) in asked.signatures.items()
            },
            "estimates": {
                name: {"of": what, "number": number, "from": origin}
                for name, (what, number, origin) in asked.estimates.items()
            },
            "profiles": asked.profiles,
            "state_bytes": {name: {"busy": busy, "mean": mean} for name, (busy, mean) in asked.held.items()},
            "sources": asked.sources,
            "engines": {
                name: {"engine": engine, "why": why} for name, (engine, why) in self.on_engines.engines.items()
            },
            "parts": self.on_engines.parts,
            "sharable": self.sharing.sharable,
            "rests": {name: {"of": stream, "left": left} for name, (stream, left) in self.sharing.rests.items()},
            "unfit": {name: {"of": stream, "why": why} for name, (stream, why) in self.sharing.unfit.items()},
            "shared": self.sharing.shared,
            "unshared": self.sharing.unshared,
            "postponed": self.sharing.postponed,
            "deployed": list(map(_plain, found.deployed)),
            "placed": found.placed,
            "replicas": list(map(_plain, replicas.replicas)),
            "replicated": None if replicated is None else _plain(replicated),
            "takeovers": self.movement.takeovers,
            "moves": self.movement.moves,
            "moving": self.movement.moving,
            "hotspots": asked.hotspots,
            "hot_spots": self.hot_spots.to_list(),
            "stalls": [each._asdict() for each in self.stalls],
            "late": self.losses.late,
            "skipped": {name: to_builtins(lines) for name, lines in self.losses.skipped.items()},
            "tried": found.tried,
            "left": replicas.left,
            "uncovered": replicas.uncovered,
            "troubles": [each._asdict() for each in self.troubles],
            "impacts": self.impacts,
            "delay": None if self.delay is None else self.delay._asdict(),
        }

    def __str__(self) -> str:
        return "\n".join(lines(self))

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return page(self)


def _plain(event: Event) -> dict[str, Any]:
    """Convert the fields of an event to plain values."""
    return {name: to_builtins(value) for name, value in event.detail.items()}
