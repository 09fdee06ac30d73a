"""The values of a replay: peers with their places, moments, and the complete graphs that were compared."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import msgspec

from synergy_nb.drawing.notebook_views import view_of
from synergy_nb.errors import harmless
from synergy_nb.plan.terms.units import counted
from synergy_nb.reporting.formatting import seconds
from synergy_nb.reporting.tables import as_text

__all__ = ["ComparedGraph", "Key", "Moment", "PeerPlace", "Replay", "not_received", "ranked"]


class PeerPlace(msgspec.Struct, frozen=True):
    """A peer, with its places on the ring and on the map."""

    name: str
    ring: float  # PeerPlace on the ring of the directory: share of the whole turn, from 0 to 1
    key: str  # leading hexadecimal digits of its key
    # x, y: PeerPlace on the map, each from 0 to 1; None where no delays are known
    x: float | None = None
    y: float | None = None
    cores: float | None = None  # processing capacity in cores; None if it is not known


class Key(msgspec.Struct, frozen=True):
    """A name in the directory, and the peer that is responsible for it."""

    name: str  # name of a component or a stream
    ring: float  # PeerPlace of its key on the ring, from 0 to 1
    root: str  # name of the peer whose key is nearest to it, among the peers that were in the ring at the beginning


class ComparedGraph(msgspec.Struct, frozen=True):
    """A complete component graph that the origin compared with others."""

    peers: dict[str, str]  # operator to the name of its peer
    phi: float | None  # balance φ; None if it is infinite or not known
    delay_s: float  # projected delay, seconds
    unqualified: str  # reason why the graph does not qualify; empty if it does
    since: int  # number of the moment in which the graph was evaluated
    chosen: int = -1  # number of the moment in which the graph was chosen; -1 if it was not
    why: str = ""  # rule by which the graph was chosen, with the least φ if another graph has that; empty if it was not
    failed: int = -1  # number of the moment in which its set-up failed; -1 if it did not
    failure: str = ""  # reason why its set-up failed; empty if it did not

    def verdict(self, step: float = math.inf) -> str:
        """Return ``chosen``, ``set-up failed``, ``does not qualify`` or nothing, as after the moment ``step``."""
        if 0 <= self.failed <= step:
            return "set-up failed"
        if 0 <= self.chosen <= step:
            return "chosen"
        return "does not qualify" if self.unqualified else ""

    def reason(self, step: float = math.inf) -> str:
        """Return the reason for :meth:`verdict`."""
        reasons = {"chosen": self.why, "set-up failed": self.failure, "does not qualify": self.unqualified}
        return reasons.get(self.verdict(step), "")


#: Verdicts in the order in which graphs are shown; those that were not chosen follow by φ.
_ORDER = ("chosen", "set-up failed")


def ranked(graphs: Iterable[ComparedGraph], step: float = math.inf) -> list[ComparedGraph]:
    """Order graphs as after the moment ``step``: the chosen one, those whose set-up failed, and then by φ."""

    def rank(graph: ComparedGraph) -> tuple[int, bool, float]:
        verdict = graph.verdict(step)
        place = _ORDER.index(verdict) if verdict in _ORDER else len(_ORDER)
        return place, graph.phi is None, graph.phi or 0.0

    return sorted(graphs, key=rank)


class Moment(msgspec.Struct, frozen=True):
    """One message with its consequences, or one event."""

    at: float  # time since the submission, seconds
    # kind for the legend: `command`, `look-up`, `probe`, `graph`, `set-up`, `replicas`, `move`, `run`, `death` or
    # `ring`
    kind: str
    # sender, to: names of the peers between which a message travels; both the same, or one empty, if nothing travels
    sender: str
    to: str
    # title, text: name of the message or the event, and its contents in words
    title: str
    text: str
    verdicts: tuple[tuple[str, str], ...] = ()  # tone (`good`, `bad`, `note`) and text of each consequence
    numbers: tuple[tuple[str, str], ...] = ()  # label and value of each quantity that decided
    path: tuple[tuple[str, str], ...] = ()  # operators and peers that a probe has passed
    # operator to the peer that executes it from now on; None where that did not change
    placed: dict[str, str] | None = None
    # dead, alive: peers that were declared dead, or came back. The first moment has those that were dead before it
    dead: tuple[str, ...] = ()
    alive: tuple[str, ...] = ()
    # joined, left: peers that joined the ring, or left it. The first moment has as `left` those that are not in the
    # ring then
    joined: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    received: bool = True  # whether a peer received the message
    under_way: bool = False  # whether it may still have been on its way when the replay was made


class Replay(msgspec.Struct, frozen=True):
    """The messages and events of one request; a notebook shows it as a stage, on which one steps through it."""

    # request, plan: id of the request, and name of its plan
    request: str
    plan: str
    operators: dict[str, tuple[str, ...]]  # ids of the plan's operators, each with those that it reads
    origin: str  # name of the peer at which the plan was submitted
    outcome: str  # state of the request at the end, in words
    source: str  # origin of the moments: `messages` or `events`
    # peers, keys: peers with their places, and the names that were looked up in the directory
    peers: tuple[PeerPlace, ...]
    keys: tuple[Key, ...]
    moments: tuple[Moment, ...]  # moments, in the order of their times
    graphs: tuple[ComparedGraph, ...]  # complete graphs, in the order of their evaluation
    made_from: str = ""  # origin of its moments, in words for people

    def completed(self, origin: str, outcome: str) -> Replay:
        """Return the replay with an origin and an outcome, if its beginning, which has the origin, is not kept."""
        return self if self.origin else msgspec.structs.replace(self, origin=origin, outcome=outcome)

    def to_dict(self) -> dict[str, Any]:
        """Convert the replay to plain values."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found

    def to_text(self) -> str:
        """The replay as text: a line for each moment, and the table of graphs."""
        head = f"{self.request}: plan {self.plan}, submitted at {self.origin}: {self.outcome}"
        lines = [head, *([f"made from {self.made_from}"] if self.made_from else []), *map(_line, self.moments)]
        if self.graphs:
            lines += ["", self.table()]
        return harmless("\n".join(lines))

    def table(self) -> str:
        """The complete graphs as a table of text, the chosen one first, then by φ."""
        rows = [
            (
                graph.verdict(),
                "-" if graph.phi is None else f"{graph.phi:.4g}",
                seconds(graph.delay_s),
                ", ".join(f"{operator}@{peer}" for operator, peer in graph.peers.items()),
                graph.reason(),
            )
            for graph in ranked(self.graphs)
        ]
        return as_text("graphs", ("", "φ", "delay", "components", "reason"), rows)

    def view(self) -> Any:
        """Return the stage for a notebook."""
        return view_of("stage", self)

    def __repr__(self) -> str:
        counts = f"{counted(len(self.moments), 'moment')}, {counted(len(self.graphs), 'graph')}"
        return f"Replay of {self.request}: {counts}; {self.outcome}. print(replay.to_text()) shows all"

    def _display_(self) -> Any:
        """What marimo shows."""
        return self.view()

    def _ipython_display_(self) -> None:
        self.view()._ipython_display_()


def not_received(under_way: bool) -> str:
    """Say that no peer received a message; ``under_way``: it may still have been on its way at the end."""
    return "may be on its way still" if under_way else "nobody received it"


def _line(moment: Moment) -> str:
    way = f"{moment.sender} → {moment.to}" if moment.sender and moment.to != moment.sender else moment.to
    text = f"{moment.at:9.4f} s  {way}  {moment.title}  {moment.text}".rstrip()
    outcomes = [verdict for _, verdict in moment.verdicts] + (
        [] if moment.received else [not_received(moment.under_way)]
    )
    return f"{text} → {'; '.join(outcomes)}" if outcomes else text
