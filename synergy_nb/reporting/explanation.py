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
        return {
            "request": self.request,
            "outcome": self.outcome,
            "qos": self.qos,
            "scheduling": self.scheduling,
            "disciplines": self.disciplines,
            "drops": self.drops,
            "overdue": self.overdue,
            "setup_s": self.setup_s,
            "candidates": self.candidates,
            "attempts": list(map(_plain, self.attempts)),
            "accepted": [{**_plain(probe), "at": probe.peer} for probe in self.accepted],
            "dropped": list(map(_plain, self.dropped)),
            "graphs": list(map(_plain, self.graphs)),
            "selected": None if self.selected is None else _plain(self.selected),
            "refused": self.refused,
            "signatures": {
                name: {"from": origin, "segments": segments} for name, (origin, segments) in self.signatures.items()
            },
            "sources": self.sources,
            "engines": {operator: {"engine": engine, "why": why} for operator, (engine, why) in self.engines.items()},
            "parts": self.parts,
            "sharable": self.sharable,
            "shared": self.shared,
            "unshared": self.unshared,
            "postponed": self.postponed,
            "deployed": list(map(_plain, self.deployed)),
            "placed": self.placed,
            "replicas": list(map(_plain, self.replicas)),
            "replicated": None if self.replicated is None else _plain(self.replicated),
            "takeovers": self.takeovers,
            "moves": self.moves,
            "moving": self.moving,
            "hotspots": self.hotspots,
            "hot_spots": self.hot_spots.to_list(),
            "late": self.late,
            "skipped": {name: to_builtins(lines) for name, lines in self.skipped.items()},
            "tried": self.tried,
            "left": self.left,
            "uncovered": self.uncovered,
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
