"""The messages of one request, in the order of their times, found among the replayed inputs of all peers.

A message belongs to a request if it names the request. If it names none, it belongs to the request if a peer sent it
while it handled a message of that request: so look-ups in the directory belong to the request that needed them.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from synergy_nb import events
from synergy_nb.algorithms.composition.messages import Dropped
from synergy_nb.control import driver_messages as driver
from synergy_nb.control.peer import Effect, Instruct, Message, Record, Send
from synergy_nb.plan import Plan
from synergy_nb.plan.terms.units import counted
from synergy_nb.recording.descriptions import HOUSEKEEPING, describe, dropped, subject
from synergy_nb.recording.recorder import encode_message
from synergy_nb.recording.replay import Delivery, Step
from synergy_nb.reporting.formatting import seconds

__all__ = [
    "Handled",
    "Names",
    "Requested",
    "SteppedMessage",
    "Tone",
    "ending",
    "exchanges_of",
    "fact",
    "handled",
    "requests_of",
    "tone",
]


@dataclass(frozen=True)
class Requested:
    """One request of a recording."""

    # request, plan: id of the request and name of its plan
    request: str
    plan: str
    origin: str  # name of the peer where it was submitted
    at: float  # time of submission in seconds
    outcome: str  # state of the request at the end of the recording, in words


@dataclass(frozen=True)
class SteppedMessage:
    """One message of a request: its sender and receiver, its text, and its effects."""

    at: float  # time at which it was handled, or sent if no peer received it, seconds
    # sender, to: names of the peers; the sender `driver` is the receiver's own
    sender: str
    to: str
    # message, text: name of the message, and its contents in words
    message: str
    text: str
    outcomes: tuple[str, ...] = field(default=())  # consequences at the receiver, in words
    received: bool = True  # whether a peer received it, according to the recording
    # whether it may still have been on its way at the end of the recording: nobody received it, and others took as long
    under_way: bool = False


class Tone(StrEnum):
    """Meaning of a consequence for a request."""

    GOOD = "good"
    BAD = "bad"
    NOTE = "note"


@dataclass(frozen=True)
class Handled:
    """One message of a request with its consequences and events."""

    exchange: SteppedMessage
    message: Message | None  # the message; None where timers fired
    tones: tuple[Tone, ...] = ()  # meaning of each consequence in `exchange.outcomes`
    events: tuple[events.Event, ...] = ()  # events about the request that its receiver recorded


class Names:
    """Names of peers for people."""

    def __init__(self, steps: Iterable[Step], names: Mapping[str, str] | None = None) -> None:
        # peer address to name, of further peers
        self._names = {**(names or {}), **{step.life.address: step.life.name for step in steps}}
        self._alike = all(address == name for address, name in self._names.items())
        longest = sorted(self._names, key=len, reverse=True)
        self._addresses = re.compile(rf"(?:{'|'.join(map(re.escape, longest))})(?!\w)" if longest else r"(?!)")

    def __call__(self, address: str) -> str:
        return self._names.get(address, address)

    def inside(self, text: str) -> str:
        """A text with the names of peers for their addresses."""
        return text if self._alike else self._addresses.sub(lambda found: self._names[found.group()], text)


def requests_of(steps: Iterable[Step]) -> list[Requested]:
    """The requests that were submitted, in the order of their submission.

    ``steps``: replayed inputs of all peers, in the order of their times.
    """
    steps = list(steps)
    names = Names(steps)
    found: dict[str, Requested] = {}
    outcomes: dict[str, str] = {}
    for step in steps:
        message = step.received
        if isinstance(message, driver.SubmitPlan):
            name = Plan.from_bytes(message.plan).name
            found.setdefault(
                message.application, Requested(message.application, name, step.life.name, step.at, "undecided")
            )
        for effect in step.effects:
            if isinstance(effect, Record):
                text = ending(effect.event)
                if text:
                    outcomes[effect.event.subject] = names.inside(text)
    return [
        Requested(each.request, each.plan, each.origin, each.at, outcomes.get(each.request, each.outcome))
        for each in found.values()
    ]


def ending(event: events.Event) -> str:
    """The state of a request after an event, in words; empty if the event does not change it."""
    match event:
        case events.ApplicationRunning():
            return "running"
        case events.ApplicationEnded() | events.ApplicationRejected():
            kind = event.kind.removeprefix("application_")
            return f"{kind}: {event.reason}" if event.reason else kind
    return ""


def exchanges_of(request: str, steps: Iterable[Step]) -> list[SteppedMessage]:
    """The messages of a request in words, in the order of their times; parameters are those of :func:`handled`."""
    found = [each.exchange for each in handled(request, steps)]
    return [each for each in found if each.message or each.outcomes]


def handled(request: str, steps: Iterable[Step], *, noted: bool = False) -> list[Handled]:
    """The messages of a request, in the order of their times.

    ``steps``: replayed inputs of all peers, in the order of their times; ``noted``: whether the steps were noted in
    this process while they happened, so that a message is the same object where it was sent and where it was received.
    """
    steps = list(steps)
    names = Names(steps)
    receivers, lost = _matched(steps, _same if noted else encode_message)
    slowest = max((steps[to].at - steps[number].at for (number, _), to in receivers.items()), default=0.0)
    found: list[Handled] = []
    for number in sorted(_belonging(request, steps, receivers)):
        step = steps[number]
        found.extend(_handled(step, request, names))
        for position, effect in enumerate(step.effects):
            if isinstance(effect, Send) and (number, position) in lost and _about(effect.message, request):
                name, text = type(effect.message).__name__, names.inside(describe(effect.message))
                late = step.at + slowest >= steps[-1].at
                exchange = SteppedMessage(
                    step.at, step.life.name, names(effect.to), name, text, received=False, under_way=late
                )
                found.append(Handled(exchange, effect.message))
    return sorted(found, key=lambda each: each.exchange.at)


def _about(message: Message, request: str) -> bool:
    """Whether a message belongs to a request, in a step of which a peer has handled or sent it."""
    return subject(message) == request or (subject(message) == "" and type(message) not in HOUSEKEEPING)


def _same(message: Message) -> bytes | int:
    """A key of a message that peers of one process passed on: its identity."""
    return id(message)


def _matched(
    steps: list[Step], key: Callable[[Message], bytes | int]
) -> tuple[Mapping[tuple[int, int], int], set[tuple[int, int]]]:
    """Match sent messages with the steps that received them.

    Returns: numbers of the step and the effect that sent a message to the number of the step that received it; and the
    numbers of the steps and effects whose messages nobody received.
    """
    sent: dict[tuple[str, str, bytes | int], deque[tuple[int, int]]] = defaultdict(deque)
    for number, step in enumerate(steps):
        for position, effect in enumerate(step.effects):
            if isinstance(effect, Send):
                sent[step.life.address, effect.to, key(effect.message)].append((number, position))
    receivers: dict[tuple[int, int], int] = {}
    for number, step in enumerate(steps):
        message = step.received
        if message is not None:
            waiting = sent.get((step.deliveries[0].sender, step.life.address, key(message)))
            if waiting:
                receivers[waiting.popleft()] = number
    return receivers, {each for waiting in sent.values() for each in waiting}


def _belonging(request: str, steps: list[Step], receivers: Mapping[tuple[int, int], int]) -> set[int]:
    """Numbers of the steps in which peers handled something for a request."""
    found = {
        number
        for number, step in enumerate(steps)
        if any(subject(delivery.message) == request for delivery in step.deliveries)
        or any(_concerns(effect, request) for effect in step.effects)
    }
    waiting = deque(number for number in found if steps[number].received is not None)
    while waiting:
        number = waiting.popleft()
        step = steps[number]
        if step.received is None or not _about(step.deliveries[0].message, request):
            continue
        for position, effect in enumerate(step.effects):
            if isinstance(effect, Send) and _about(effect.message, request):
                following = receivers.get((number, position))
                if following is not None and following not in found:
                    found.add(following)
                    waiting.append(following)
    return found


def _concerns(effect: Effect, request: str) -> bool:
    match effect:
        case Send(_, message):
            return subject(message) == request
        case Record(event):
            return event.subject == request
    return False


def _handled(step: Step, request: str, names: Names) -> Iterator[Handled]:
    """The messages that a peer handled for a request in one step, and its timers if they had consequences for it."""
    outcomes: dict[int, list[tuple[str, Tone]]] = defaultdict(list)  # by number of the delivery; -1: of none
    recorded: dict[int, list[events.Event]] = defaultdict(list)
    for position, effect in enumerate(step.effects):
        innermost = [index for index, each in enumerate(step.deliveries) if each.first <= position < each.last] or [-1]
        text = _outcome(effect, request)
        if text:
            outcomes[innermost[-1]].append((names.inside(text), tone(effect)))
        if isinstance(effect, Record) and effect.event.subject == request:
            recorded[innermost[-1]].append(effect.event)
    if outcomes[-1] or recorded[-1]:
        texts, tones = _parted(outcomes[-1])
        yield Handled(SteppedMessage(step.at, "timer", step.life.name, "", "", texts), None, tones, tuple(recorded[-1]))
    unwrapped = {id(each.message) for each in step.deliveries}
    for index, delivery in enumerate(step.deliveries):
        arrived = id(getattr(delivery.message, "payload", None)) in unwrapped  # what it carries has a line of its own
        if (_about(delivery.message, request) and not arrived) or outcomes[index]:
            texts, tones = _parted(outcomes[index])
            exchange = _exchange(step, delivery, texts, names)
            yield Handled(exchange, delivery.message, tones, tuple(recorded[index]))


def _parted(outcomes: list[tuple[str, Tone]]) -> tuple[tuple[str, ...], tuple[Tone, ...]]:
    return tuple(text for text, _ in outcomes), tuple(meaning for _, meaning in outcomes)


def _exchange(step: Step, delivery: Delivery, outcomes: tuple[str, ...], names: Names) -> SteppedMessage:
    text = names.inside(describe(delivery.message))
    sender = names(delivery.sender)
    return SteppedMessage(step.at, sender, step.life.name, type(delivery.message).__name__, text, outcomes)


_GOOD: Final = (
    events.ProbeAccepted,
    events.GraphSelected,
    events.ApplicationRunning,
    events.ApplicationFinished,
    events.TakenOver,
    events.ComponentMoved,
    events.PlacementCompleted,
    events.ReplicasDeployed,
)


def tone(effect: Effect) -> Tone:
    """Meaning of an effect for a request."""
    match effect:
        case Record(event):
            if isinstance(event, _GOOD):
                return Tone.GOOD
            unqualified = isinstance(event, events.GraphEvaluated) and event.unqualified
            return Tone.BAD if unqualified or event.severity >= events.Severity.WARNING else Tone.NOTE
        case Send(_, Dropped()) | Instruct():
            return Tone.BAD
    return Tone.NOTE


def _outcome(effect: Effect, request: str) -> str:
    """Consequence of a message for a request, in words; empty if the next message states it."""
    match effect:
        case Send(_, Dropped() as message) if message.request == request:
            return f"dropped: {dropped(message)}"
        case Record(event) if event.subject == request:
            return fact(event)
        case Record(events.MessageRefused() as event):
            return f"refused: {event.reason}"
        case Instruct(driver.Answer() as answer) if answer.refusal:
            return f"refused: {answer.refusal}"
    return ""


def fact(event: events.Event) -> str:
    """An event about a request, in a few words."""
    ends = ending(event)
    if ends:
        return ends
    match event:
        case events.MessageOutdated():
            return f"ignored: {event.reason}"
        case events.ProbeAccepted():
            return (
                f"accepted {event.operator}, {counted(event.capacity, 'core')} left, {seconds(event.so_far_s)} so far"
            )
        case events.GraphEvaluated():
            return f"a graph that does not qualify: {event.unqualified}" if event.unqualified else ""
        case events.GraphSelected():
            chosen = ", ".join(f"{operator} at {peer}" for operator, peer in event.peers.items())
            return f"chosen: {chosen}, {seconds(event.delay_s)} projected"
        case events.ProbingEnded():
            return f"probing ended: {counted(event.paths, 'path')}, {event.dropped} dropped, {event.graphs} graphs"
        case events.SetupFailed() | events.AttemptFailed():
            return f"{event.kind.replace('_', ' ')}: {event.reason}"
        case events.ProbeDropped():
            return ""  # the message says so
    return event.kind.replace("_", " ") if event.severity >= events.Severity.NOTE else ""
