"""Replays of one request, moment by moment: probes, verdicts, graphs, moves, deaths.

A :class:`~synergy_nb.recording.moments.Replay` is made from the messages that peers handled (:func:`replay`), which a
recording and a running simulation have, or from the events in journals alone (:func:`replay_events`), which live peers
always have. Its text is for people, so it has the names of peers instead of their addresses.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from synergy_nb import events
from synergy_nb.algorithms.composition import messages as composition
from synergy_nb.control import driver_messages as driver
from synergy_nb.control.graph import Hop
from synergy_nb.control.identity import peer_id_of
from synergy_nb.control.peer import Message, Record, key_of
from synergy_nb.events.application_states import ENDED
from synergy_nb.models.delay_matrix import Matrix
from synergy_nb.overlay import directory_messages as directory
from synergy_nb.overlay.ring import RING, distance, number_of, ring_position
from synergy_nb.plan import Plan
from synergy_nb.plan.terms.units import WrongValue, counted, nearest
from synergy_nb.recording._compared_graphs import ComparedGraphs
from synergy_nb.recording._event_words import said
from synergy_nb.recording._peer_places import map_of
from synergy_nb.recording.moments import Key, Moment, PeerPlace, Replay
from synergy_nb.recording.recording_file import read
from synergy_nb.recording.replay import Step, compare
from synergy_nb.recording.stepping import Handled, Names, Tone, handled, requests_of
from synergy_nb.reporting.formatting import seconds, share

__all__ = ["RING_EVENTS", "replay", "replay_events", "replay_file"]

#: Events that say which peers are in the ring: they are moments of every replay.
RING_EVENTS: Final = (events.PeerDeclaredDead, events.PeerRefutedDeath, events.PeerJoined, events.PeerLeft)

JOURNALED: Final = "the journals of the peers: what they decided, but not every message"
BEGINNING_LOST: Final = "its beginning is not kept any more"

#: Module of a message to the kind of its moments.
_KINDS: Final = {
    "composition": "probe",
    "directory_messages": "look-up",
    "routing": "look-up",
    "driver_messages": "command",
    "migration": "move",
    "availability": "replicas",
    "replication": "replicas",
    "lifecycle": "set-up",
}
_MOVES: Final = ("Follow", "Followed", "Moved", "TakeOver", "TookOver", "Lost", "CopiesLag", "ProducersMoved")
_DEPLOYED: Final = (
    events.GraphSelected,
    events.ApplicationRunning,
    events.TakenOver,
    events.ComponentMoved,
    events.SharedStreamMoved,
)


# -- from messages -----------------------------------------------------------------------------------------------------


def replay(
    request: str,
    plan: Plan,
    steps: Iterable[Step],  # inputs of all peers, in the order of their times
    *,
    names: Mapping[str, str],  # peer address to name
    # addresses of peers, and the delays between them in seconds, shape (peers, peers); None if they are not known
    delays: tuple[Sequence[str], Matrix] | None = None,
    cores: Mapping[str, float] | None = None,  # peer address to its capacity, cores
    # events of the types in `RING_EVENTS`, of peers that joined, left, died or came back
    ring_events: Iterable[events.Event] = (),
    noted: bool = False,  # whether the steps were noted in this process (`.noted_steps`), and not replayed from a file
    made_from: str = "every message that the peers handled for it",  # origin of the steps, in words for people
) -> Replay:
    """Make the replay of a request from the messages that peers handled."""
    found = _Collected(request, names)
    for each in _with_ring_events(handled(request, steps, noted=noted), ring_events):
        if isinstance(each, Handled):
            found.message(each)
        else:
            found.ring_event(each)
    return found.replay(plan, "messages", made_from, delays, cores or {})


def replay_events(
    # request, plan: id of the request, and its plan
    request: str,
    plan: Plan,
    journaled: Iterable[events.Event],  # events of all peers, in the order of their times
    *,
    names: Mapping[str, str],  # peer address to name
    # addresses of peers, and the delays between them in seconds; None if they are not known
    delays: tuple[Sequence[str], Matrix] | None = None,
    cores: Mapping[str, float] | None = None,  # peer address to its capacity, cores
) -> Replay:
    """Make the replay of a request from the events in journals."""
    found = _Collected(request, names)
    for event in journaled:
        if isinstance(event, RING_EVENTS):
            found.ring_event(event)
        elif event.subject == request:
            found.event(event)
    return found.replay(plan, "events", JOURNALED, delays, cores or {})


def replay_file(
    file: str | Path, request: str | None = None, *, delays: tuple[Sequence[str], Matrix] | None = None
) -> Replay:
    """Make the replay of one request from a recorded run: every peer is replayed, and every message is a moment.

    ``file``: recording, as ``Cluster(record=FILE)`` writes it; ``request``: id of the request; None: the only one, or
    else the last one, of the recording; ``delays``: addresses of peers, and the delays between them in seconds; None if
    they are not known.

    Raises ``ValueError`` if the file is no recording, or holds no such request; the message names those that it holds.
    """
    try:
        recording = read(file)
    except OSError as error:
        raise ValueError(f"file: {str(file)!r}: {error.strerror}; expected a recording") from None
    steps = compare(recording).steps
    submitted = {each.request: each for each in requests_of(steps)}
    if not submitted:
        raise ValueError(f"file: {str(file)!r} holds no request; expected a recording of a run with submissions")
    chosen = list(submitted)[-1] if request is None else request
    if chosen not in submitted:
        expected = f"one of {', '.join(submitted)}"
        raise ValueError(f"request: {WrongValue(chosen, expected, nearest(chosen, submitted))}")
    plan = next(
        Plan.from_bytes(message.plan)
        for message in (step.received for step in steps)
        if isinstance(message, driver.SubmitPlan) and message.application == chosen
    )
    names = {life.address: life.name for life in recording.lives}
    cores = {life.address: life.beginning.construction.config.cores for life in recording.lives}
    records = (effect.event for step in steps for effect in step.effects if isinstance(effect, Record))
    return replay(
        chosen,
        plan,
        steps,
        names=names,
        delays=delays,
        cores=cores,
        made_from=f"the recording {Path(file).name}: every message as it was",
        ring_events=[each for each in records if isinstance(each, RING_EVENTS)],
    )


def _with_ring_events(messages: Sequence[Handled], ring_events: Iterable[events.Event]) -> list[Handled | events.Event]:
    """Messages and events together, in the order of their times."""
    both: list[Handled | events.Event] = [*messages, *ring_events]
    return sorted(both, key=lambda each: each.exchange.at if isinstance(each, Handled) else each.time)


class _Collected:
    """Collects the moments and graphs of one request, and then makes its replay."""

    def __init__(self, request: str, names: Mapping[str, str]) -> None:
        self.request = request
        self.names = names
        self.words = Names((), names)
        self.origin = ""
        self.outcome = "undecided"
        self.began: float | None = None
        self.moments: list[Moment] = []
        self.compared = ComparedGraphs(self.name, self.words.inside)
        self.looked_up: dict[str, None] = {}
        self.dead: dict[str, None] = {}
        self.absent: dict[str, None] = {}
        self.absent_before: dict[str, tuple[str, ...]] = {"dead": (), "left": ()}  # before the first moment

    def name(self, address: str) -> str:
        """Return the name of a peer."""
        return self.names.get(address, address)

    def _time_since_start(self, at: float) -> float:
        if self.began is None:
            self.began = at
        return at - self.began

    def message(self, each: Handled) -> None:
        """Add a message with its consequences."""
        exchange, message = each.exchange, each.message
        if isinstance(message, driver.DelayMeasured) and not (exchange.outcomes or each.events):
            return  # it comes twice a second, as long as the application runs
        at = self._time_since_start(exchange.at)
        if isinstance(message, driver.SubmitPlan):
            self.origin = exchange.to
        inner = getattr(message, "payload", None)
        asked = inner if isinstance(inner, Message) else message
        if isinstance(asked, directory.Lookup):
            self.looked_up |= dict.fromkeys(asked.names)
        verdicts = list(zip((str(tone) for tone in each.tones), exchange.outcomes, strict=True))
        numbers = _numbers(message)
        placed: dict[str, str] | None = None
        for event in each.events:
            numbers += _numbers_of(event)
            found = self._note_graph(event)
            placed = placed if found is None else found
        sender = exchange.sender if exchange.sender not in ("driver", "timer") else ""
        self.moments.append(
            Moment(
                at,
                _kind(message, each.events),
                sender,
                exchange.to,
                _title(exchange.message) or "Timer",
                exchange.text,
                tuple(verdicts),
                tuple(numbers),
                tuple((hop.operator, self.name(hop.peer)) for hop in _path(message)),
                placed,
                received=exchange.received,
                under_way=exchange.under_way,
            )
        )

    def event(self, event: events.Event) -> None:
        """Add an event of a journal; a detail that nobody needs to see is no moment."""
        at = self._time_since_start(event.time)
        if isinstance(event, events.RequestSubmitted):
            self.origin = self.name(event.peer)
        text, tone = said(event)
        placed = self._note_graph(event)
        if not text:
            return
        sender, to = self._ends(event)
        self.moments.append(
            Moment(
                at,
                _kind_of(event),
                sender,
                to,
                event.kind.replace("_", " ").capitalize(),
                self.words.inside(text) if tone is Tone.NOTE else "",
                ((str(tone), self.words.inside(text)),) if tone is not Tone.NOTE else (),
                tuple(_numbers_of(event)),
                tuple(("", self.name(peer)) for peer in getattr(event, "via", ())),
                placed,
            )
        )

    def _ends(self, event: events.Event) -> tuple[str, str]:
        """Return the peers between which a message travelled, as far as the event says it; otherwise its own, twice."""
        here = self.name(event.peer)
        if isinstance(event, events.ProbeAccepted):
            return (self.name(event.via[-1]) if event.via else self.origin), here
        if isinstance(event, events.ProbeDropped):
            return self.origin, self.name(event.at)
        if isinstance(event, events.ComponentMoved | events.MoveBegun):
            return self.name(event.at), self.name(event.to)
        if isinstance(event, events.MigrationAnswered):
            return self.name(event.target), here
        return here, here

    def ring_event(self, event: events.Event) -> None:
        """Add that a peer joined, left, died or came back, when the first peer notices it."""
        peer = self.name(event.subject)
        match event:
            case events.PeerJoined():
                self._add_ring_moment(event, peer, "joined", "Peer joined", f"{peer} has joined the ring")
            case events.PeerLeft():
                self._add_ring_moment(event, peer, "left", "Peer left", f"{peer} leaves the ring")
            case events.PeerRefutedDeath() if peer in self.dead:
                self._add_ring_moment(event, peer, "alive", "Peer alive", f"{peer} is alive again")
            case events.PeerDeclaredDead() if peer not in self.dead:
                self._add_ring_moment(event, peer, "dead", "Peer dead", f"{peer} does not answer and counts as dead")

    def _add_ring_moment(self, event: events.Event, peer: str, change: str, title: str, text: str) -> None:
        """Add a moment of the ring; before the first moment, only the peers that are dead or absent are noted."""
        if change == "joined" and self.began is not None and peer not in self.absent:
            self.absent_before["left"] += (peer,)  # no event says that it was not there before
        for gone, now in ((self.dead, change == "dead"), (self.absent, change == "left")):
            gone.pop(peer, None)
            if now:
                gone[peer] = None
        if self.began is None:
            self.absent_before = {"dead": tuple(self.dead), "left": tuple(self.absent)}
            return
        verdict = f"noticed by {self.name(event.peer)}" if change in ("dead", "alive") else ""
        if isinstance(event, events.PeerJoined) and event.contact:
            verdict = f"through {self.name(event.contact)}"
        tone = "bad" if change == "dead" else "note" if change == "left" else "good"
        moment = Moment(
            event.time - self.began, "ring" if change in ("joined", "left") else "death", "", peer, title, text,
            ((tone, verdict),) if verdict else (),
        )  # fmt: skip
        self.moments.append(msgspec.structs.replace(moment, **{change: (peer,)}))

    def _note_graph(self, event: events.Event) -> dict[str, str] | None:
        """Note graphs and outcome that an event states; return the peer of each operator from now on, if new."""
        self.compared.note(event, len(self.moments))
        if isinstance(event, events.ApplicationRunning):
            self.outcome = "running"
        elif isinstance(event, events.ApplicationEnded):
            reason = f": {self.words.inside(event.reason)}" if event.reason else ""
            if not (self.outcome.partition(":")[0] in ENDED and event.status == "stopped"):
                self.outcome = f"{event.status.value}{reason}"
        if isinstance(event, _DEPLOYED):
            return {operator: self.name(peer) for operator, peer in event.peers.items() if peer}
        if isinstance(event, events.PlacementCompleted):
            return {operator: self.name(peer) for operator, peer in event.primaries.items()}
        return {} if isinstance(event, events.SetupFailed) else None

    def replay(
        self,
        plan: Plan,
        source: str,
        made_from: str,
        delays: tuple[Sequence[str], Matrix] | None,
        cores: Mapping[str, float],
    ) -> Replay:
        """Return the replay of all that was collected."""
        map_places = {} if delays is None else map_of(*delays)
        known = dict.fromkeys([*self.names, *map_places])
        peers = tuple(self._place(address, map_places.get(address), cores.get(address)) for address in known)
        gone = {*self.absent_before["dead"], *self.absent_before["left"]}
        there = [address for address in known if self.name(address) not in gone]
        keys = tuple(self._key(name, there) for name in self.looked_up) if there else ()
        if self.moments:
            self.moments[0] = msgspec.structs.replace(self.moments[0], **self.absent_before)
        return Replay(
            self.request,
            plan.name,
            {name: tuple(plan.upstream(name)) for name in plan.operators},
            self.origin,
            self.outcome,
            source,
            peers,
            keys,
            tuple(self.moments),
            tuple(self.compared.graphs),
            made_from if self.origin else f"{made_from}; {BEGINNING_LOST}",
        )

    def _place(self, address: str, at: tuple[float, float] | None, cores: float | None) -> PeerPlace:
        x, y = at or (None, None)
        return PeerPlace(
            self.name(address), ring_position(address) / RING, key_of(peer_id_of(address))[:6], x, y, cores
        )

    def _key(self, name: str, addresses: Sequence[str]) -> Key:
        at = number_of(key_of(name))
        root = min(addresses, key=lambda address: distance(ring_position(address), at))
        return Key(name, at / RING, self.name(root))


def _kind(message: Message | None, recorded: Sequence[events.Event]) -> str:
    if any(isinstance(event, events.GraphEvaluated | events.GraphSelected) for event in recorded):
        return "graph"
    inner = getattr(message, "payload", None)
    kind = type(inner if isinstance(inner, Message) else message)
    if kind.__name__ in _MOVES:
        return "move"
    parts = kind.__module__.split(".")
    return next((_KINDS[part] for part in reversed(parts) if part in _KINDS), "run")


def _kind_of(event: events.Event) -> str:
    """Kind of the moment of an event, for the legend."""
    module = type(event).__module__.rpartition(".")[2]
    name = type(event).__name__
    if isinstance(event, events.GraphEvaluated | events.GraphSelected | events.ProbingEnded):
        return "graph"
    if "Probe" in name:
        return "probe"
    if module == "replicas":
        return "replicas"
    if module == "hot_spots" or "Move" in name or "Take" in name or "Taken" in name or "Moved" in name:
        return "move"
    if isinstance(event, events.RequestSubmitted):
        return "command"
    if isinstance(event, events.CandidatesFound | events.EstimatesFound | events.SharingFound | events.SignaturesFound):
        return "look-up"
    return "set-up" if module == "requests" or name in ("SetupFailed", "ComponentDeployed") else "run"


def _title(name: str) -> str:
    """A class name in words: ``PlacementRequest`` to ``Placement request``."""
    return "".join(f" {letter.lower()}" if letter.isupper() and at else letter for at, letter in enumerate(name))


def _path(message: Message | None) -> Sequence[Hop]:
    return message.path if isinstance(message, composition.Probe | composition.Returned) else ()


_UNITS: Final = {"processing capacity": "cores", "bandwidth": "bytes/s", "delay": "s", "QoS impact": "s"}


def _numbers(message: Message | None) -> list[tuple[str, str]]:
    """Labels and values of the quantities that a message states."""
    match message:
        case composition.Dropped(condition=condition, required=required, available=available):
            unit = _UNITS.get(condition)
            if unit is None:
                return [("condition", condition)]
            return [
                ("condition", condition),
                ("required", f"{required:.3g} {unit}"),
                ("found", f"{available:.3g} {unit}"),
            ]
        case composition.Probe(budget=budget):
            return [("budget", counted(budget, "path"))]
    return []


def _numbers_of(event: events.Event) -> list[tuple[str, str]]:
    """Labels and values of the quantities that an event states."""
    match event:
        case events.ProbeAccepted():
            found = [("cores left", f"{event.capacity:.3g}"), ("delay so far", seconds(event.so_far_s))]
            if event.bandwidth is not None and math.isfinite(event.bandwidth):
                found.append(("bandwidth left", f"{event.bandwidth:.3g} bytes/s"))
            if event.impacts:
                found.append(("applications projected", str(len(event.impacts))))
            return found
        case events.ProbeDropped():
            return [("condition", event.condition)]
        case events.GraphSelected():
            late = [] if event.late is None or event.quantile_s is None else [
                (f"delay of {share(1.0 - event.late)} of the tuples", seconds(event.quantile_s))
            ]  # fmt: skip
            return [("φ", f"{event.phi:.4g}"), ("projected delay", seconds(event.delay_s)), *late, ("rule", event.rule)]
        case events.ProbingEnded():
            counts = {"paths": event.paths, "probes dropped": event.dropped, "graphs": event.graphs}
            return [(label, str(count)) for label, count in {**counts, "qualified": event.qualified}.items()]
        case events.HotSpotDetected():
            times = {"slack": event.slack, "predicted": event.predicted, "limit": event.departure_limit}
            return [(label, seconds(time)) for label, time in times.items()]
        case events.MigrationDecided():
            return [("rate", f"{event.rate:.3g} tuples/s"), ("rate without", f"{event.remaining_rate:.3g} tuples/s")]
        case events.ComponentMoved():
            return [("moved in", seconds(event.seconds))]
        case events.PlacementCompleted():
            known = [] if event.availability is None else [("availability", share(event.availability))]
            return [("replicas of each operator", str(event.degree)), *known]
    return []
