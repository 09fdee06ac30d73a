"""The time at which a component is saved for its copies, and the transfer of the snapshot. No IO, no clock.

Theory of operation
-------------------
A snapshot begins between two executions: hosting records the points of inputs and output, and the driver makes the
operator save its state, which copies nothing. Then the component resumes, while the tables of its state are encoded on
another thread, except those that all copies have since an earlier snapshot. Each copy receives the head of the state
and the numbers of the pieces of its tables, and the pieces that it lacks if they are small together. Otherwise it
requests them, a few at a time (:mod:`.hosting.copies`), and acknowledges the complete snapshot.

One snapshot is transferred at a time: the next begins when the copies that request pieces have the last. Snapshots
take at most a twentieth of the processor time, except where so much was read since the last that the producers may soon
have to wait, as they retain all that no snapshot covers. Producers retain nothing for a component of which the durable
folder alone has a copy: so such a component is saved as rarely as that share asks, but at least once a minute, as a
restart reads again what has come since.

A component that moves to the peer of one of its backups leaves that backup to its old peer. So until then the old peer
keeps its last snapshot, with the bytes of all tables: it can take over as soon as the component has left it.

Nobody waits for a copy that does not answer. It is left behind once half of what may be retained for it has been read,
or after more than a minute if readers wait for it: before that, the peer that leads the application decides whether the
copy counts, as it may be about to take over. From then on it could not take over, which is reported. When it answers
again, chunks are retained for it from then on, and with the next snapshot it could take over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from synergy_nb.dataflow.deployments import FOLDER
from synergy_nb.dataflow.logic import error_reason
from synergy_nb.dataflow.streams.component.component import Component
from synergy_nb.dataflow.streams.hosting.copies import FOLDER_REQUESTED, MOST_REQUESTED
from synergy_nb.dataflow.streams.hosting.effects import Capture, Captured, Copied, Fact, FactKind
from synergy_nb.dataflow.streams.log.frames import Ack, ComponentState, Data, PieceReply, PieceRequest, Subscribe
from synergy_nb.dataflow.streams.log.log import EXPECTED, UNASKED
from synergy_nb.dataflow.streams.log.state_pieces import Archive, Part
from synergy_nb.dataflow.streams.log.values import COPY, Reader

if TYPE_CHECKING:
    from synergy_nb.dataflow.deployments import Deployment
    from synergy_nb.dataflow.streams.hosting._exchange import Exchange
    from synergy_nb.dataflow.streams.hosting._hosted_components import HostedComponents
    from synergy_nb.dataflow.streams.hosting._known_deployments import KnownDeployments
    from synergy_nb.dataflow.streams.hosting._outbox import Outbox
    from synergy_nb.dataflow.streams.log.log import Limits

SNAPSHOT_S: Final = 0.25  # least time between two snapshots of a component that has copies, seconds
FOLDER_S: Final = 1.0  # the same for one whose only copy is in a folder, and that has read little
RARE_S: Final = 60.0  # longest time between two snapshots for which producers retain nothing, seconds
WRITTEN: Final = 4.0  # processor time of a snapshot in a folder, in that of its encoding: records and the disk, too
LEAST_STATE: Final = 1 << 20  # bytes of a state of which the processor time of a snapshot does not depend on its size
LITTLE: Final = 256  # parts of what is retained, of which it has read less than one then
REPEAT_S: Final = 1.0  # seconds until a copy that neither requests pieces nor has the last snapshot gets another
SHARE: Final = 0.05  # fraction of the processor time that snapshots may take
SILENT_S: Final = 1.0  # seconds until a copy that does not answer is left behind, if much has been read meanwhile
HELD_S: Final = 75.0  # the same where output waits for the copy: longer than an application waits for a silent peer
PULL_BYTES_S: Final = 10e6  # least rate at which a copy is expected to receive, bytes a second


class Kept(NamedTuple):
    """A snapshot that the peer of the component keeps: its announcement, and piece number to the bytes of the piece."""

    state: ComponentState
    pieces: dict[int, bytes]


class _Progress:
    """The state of one component's snapshots."""

    def __init__(self) -> None:
        self.archive = Archive()
        self.capture: Capture | None = None  # snapshot that is being made
        self.suspended = False  # whether the component waits for it
        self.due: float | None = None  # time for which the next one was requested
        self.hurry = False  # whether some copy has no snapshot
        self.begun = 0.0
        self.seconds = 0.0  # processor time of the last one
        self.state = 0  # bytes of the state in it, about
        self.number = -1  # number of the last one that was sent
        self.sent: set[str] = set()  # copies that it was sent to
        self.pulling: set[str] = set()  # those of them that have to request pieces
        self.size = 0  # bytes of these pieces
        self.active_at = 0.0  # time at which it was sent, or pieces of it were requested
        self.answered: set[str] = set()  # copies that have answered
        self.silent: dict[str, float] = {}  # copies that have not answered yet: time of the first question
        self.reported: frozenset[str] = frozenset()  # copies that were reported as unable to take over
        self.keeps_from: int | None = None  # number of the first snapshot that this peer keeps; None: it keeps none
        self.kept: Kept | None = None


class Snapshots:
    """The snapshots of the components of one peer."""

    def __init__(
        self,
        peer: str,  # address of the peer
        outbox: Outbox,  # effects and frames of the peer
        known: KnownDeployments,  # deployments that the peer knows
        hosted: HostedComponents,
        exchange: Exchange,  # subscriptions and acknowledgements of the peer
        limits: Limits,  # limits of each log, bytes
    ) -> None:
        self._peer = peer
        self._outbox = outbox
        self._known = known
        self._hosted = hosted
        self._exchange = exchange
        self._limits = limits
        self._progress: dict[Component, _Progress] = {}
        # application to its deployment, and the components that are saved as rarely as the cost of that asks
        self._rare: dict[str, tuple[Deployment, frozenset[str]]] = {}

    def soon(self, component: Component, at: float, *, hurry: bool = False) -> None:
        """Save a component at a time in seconds, or as soon as it is idle and its copies have the previous snapshot.

        ``hurry``: whether to save it at once, as some copy has to wait for that.
        """
        progress = self._progress.setdefault(component, _Progress())
        progress.hurry = progress.hurry or hurry
        for peer in component.copies:
            if peer not in progress.answered:
                progress.silent.setdefault(peer, at)
        progress.due = at if progress.due is None else min(at, progress.due)
        self._outbox.touch(component.application, component.operator)

    def greet(self, component: Component, follower: str, now: float) -> None:
        """Send a new follower the output and a snapshot at once: it requests them too, but that takes a round trip."""
        cursor = component.log.cursors.get(Reader(component.application, component.operator, COPY, follower))
        if cursor is None or cursor.state is not EXPECTED or component.external or not component.feeds:
            return
        start = component.log.start
        cursor.begin_unasked(start)
        version = self._known.found[component.application].version
        self._outbox.send(follower, Data(component.output, cursor.reader, start, (), True, unasked=version))
        self.soon(component, now, hurry=True)

    def subscribe(self, frame: Subscribe, now: float) -> None:
        """Let a copy read from the requested point, and send it a snapshot soon."""
        component = self._exchange.answer(frame)
        if component is None:
            return
        component.change()
        self.soon(component, now)
        progress, peer = self._progress[component], frame.reader.peer
        self._answered(component, progress, peer)  # before chunks are sent: readers may wait for this copy again
        if frame.since is None:  # it has no state at all, so it does not wait for others
            progress.archive.forget(peer)
            progress.hurry = True
        self._exchange.flush(component, now)

    def acknowledge(self, ack: Ack, now: float) -> None:
        """Record the progress of a copy, which has a snapshot and a part of the output."""
        component = self._hosted.producer(ack.output)
        if component is not None and self._exchange.reads(ack, component, self.subscribe, now):
            component.log.acknowledge(ack.reader, ack.received, ack.consumed, ack.durable, now=now)
            self._acknowledged(component, ack, now)
            self._exchange.flush(component, now)

    def keep(self, component: Component, now: float, *, keeps: bool) -> None:
        """Keep the last snapshot of a component here from now on, or no longer; this peer reports when it has one."""
        progress = self._progress.get(component)
        if not keeps and progress is not None:
            progress.keeps_from = progress.kept = None
        elif keeps and (progress is None or progress.keeps_from is None):
            component.change()
            self.soon(component, now, hurry=True)
            self._progress[component].keeps_from = component.cuts.number + 1

    def kept(self, component: Component) -> Kept | None:
        """Return the snapshot of a component that is kept here; None if there is none."""
        progress = self._progress.get(component)
        return None if progress is None else progress.kept

    def forget(self, component: Component) -> None:
        """Forget a component that was removed."""
        self._progress.pop(component, None)
        self._rare.pop(component.application, None)

    def _readers(self, component: Component) -> list[Reader]:
        """Return the copies that read the output of the component and have answered."""
        copies, behind = component.copies, component.copy_holders.behind
        return [
            reader
            for reader, cursor in component.log.cursors.items()
            if reader.port == COPY
            and cursor.state is not EXPECTED
            and reader.peer in copies
            and reader.peer not in behind
        ]

    def at(self, component: Component) -> float | None:
        """Return the time in seconds at which a component has to be saved; None if it is not known yet."""
        progress = self._progress.get(component)
        if progress is None:
            return None
        times = list(self._lagging(component, progress).values()) if progress.silent else []
        waits = progress.capture is not None or not component.capturable or self._is_early(component)
        if waits or not self._readers(component):
            return min(times, default=None)
        lacking = component.copy_holders.missing(progress.number, progress.sent)
        if lacking - {FOLDER}:  # a folder is asked by nobody else, and loses nothing: it waits for readers
            times.append(progress.active_at + REPEAT_S + progress.size / PULL_BYTES_S)
        if progress.due is not None and component.dirty and (progress.hurry or not lacking & progress.pulling):
            # the folder may wait with the snapshot of a producer until this one is written (`durable.folder_copy`)
            part = 8 if FOLDER in component.copies else 4
            if progress.hurry:
                times.append(progress.begun)
            elif self._is_rare(component):
                spent = WRITTEN * self._expected(component, progress) / SHARE
                times.append(max(progress.due, progress.begun + min(max(FOLDER_S, spent), RARE_S)))
            elif component.unsaved >= self._limits.retain // part:
                times.append(progress.begun)
            else:
                little = component.unsaved < self._limits.retain // LITTLE and component.copies.keys() == {FOLDER}
                least = FOLDER_S if little else SNAPSHOT_S
                times.append(max(progress.due, progress.begun + max(least, progress.seconds / SHARE)))
        return min(times, default=None)

    @staticmethod
    def _expected(component: Component, progress: _Progress) -> float:
        """Processor time of encoding the next snapshot, seconds: the state may have grown since the last one."""
        grown = max(component.share.used, LEAST_STATE) / max(progress.state, LEAST_STATE)
        return progress.seconds * max(grown, 1.0)

    def _is_rare(self, component: Component) -> bool:
        """Whether nobody waits for the next snapshot of a component."""
        deployment = self._known.found.get(component.application)
        if deployment is None or not component.alone or FOLDER in component.copy_holders.confirming:
            return False
        known, rare = self._rare.get(component.application, (None, frozenset[str]()))
        if known is not deployment:
            rare = _rarely_saved(deployment)
            self._rare[component.application] = deployment, rare
        return component.operator in rare

    def _is_early(self, component: Component) -> bool:
        """Whether a component waits until its application runs: what the folder has is as it was before an attempt.

        An attempt that never runs may have other readers, for another plan, than the one that goes on from the folder.
        """
        known = self._known.found.get(component.application)
        return FOLDER in component.copies and known is not None and not known.running and not component.external

    def _lagging(self, component: Component, progress: _Progress) -> dict[str, float]:
        """Return the copies that do not answer and for which much is retained, and when each is left behind."""
        most, holders, found = self._limits.retain // 2, component.copy_holders, dict[str, float]()
        confirming = holders.confirming
        held = bool(confirming) and component.log.confirmed(confirming) < component.log.end
        for peer, since in progress.silent.items():
            if peer not in component.copies or peer in holders.behind or peer == FOLDER:
                continue  # a folder that takes nothing, as on a full disk, is waited for
            if holders.uncovered_bytes(peer, component.read) >= most:
                found[peer] = since + SILENT_S
            elif held and peer in confirming:
                found[peer] = since + HELD_S
        return found

    def _leave_behind(self, component: Component, progress: _Progress, peer: str, due: float, now: float) -> None:
        """Leave behind a copy that has not answered until it was due, unless this peer was late itself."""
        if now - due > SILENT_S:
            progress.silent[peer] = now  # answers of the copy may be queued here
            self._outbox.touch(component.application, component.operator)
            return
        component.drop_copy(peer)
        self._exchange.consumed(component, now)
        self._report_copied(component)
        self._exchange.flush(component, now)
        self.report_lagging(component)

    def _answered(self, component: Component, progress: _Progress, peer: str) -> None:
        """Handle an answer of a copy."""
        progress.answered.add(peer)
        progress.silent.pop(peer, None)
        if peer in component.copy_holders.behind:
            component.catch_up(peer)
            progress.due, progress.hurry = progress.begun, True

    def report_lagging(self, component: Component) -> None:
        """Report the copies that could not take over, if they have changed."""
        progress = self._progress.get(component)
        if progress is not None and progress.reported != component.copy_holders.cannot_take_over:
            progress.reported = component.copy_holders.cannot_take_over
            reason = "it did not answer for long, and has no snapshot since" if progress.reported else ""
            name = component.application, component.operator
            self._outbox.effect(Fact(FactKind.COPIES_BEHIND, *name, reason, tuple(sorted(progress.reported))))

    def tick(self, component: Component, now: float) -> None:
        """Leave behind copies that do not answer, and begin a snapshot of a component, if these are due."""
        progress = self._progress.get(component)
        for peer, due in () if progress is None else self._lagging(component, progress).items():
            if progress is not None and due <= now:
                self._leave_behind(component, progress, peer, due, now)
        at = self.at(component)
        if at is None or at > now:
            return
        progress = self._progress[component]
        progress.due, progress.hurry, progress.begun, progress.suspended = None, False, now, True
        copies = self._readers(component)
        known = progress.archive.known(each.peer for each in copies) if progress.keeps_from is None else {}
        component.capture()
        progress.state = component.share.used
        progress.capture = Capture(component, component.cuts.number, known, self._limits.piece)
        self._outbox.effect(progress.capture)

    def saved(self, capture: Capture) -> None:
        """Resume a component whose state was saved, while its tables are encoded."""
        progress = self._progress.get(capture.component)
        if progress is not None and progress.capture is capture and progress.suspended:
            progress.suspended = False
            capture.component.resume()
            self._outbox.touch(capture.component.application, capture.component.operator)

    def captured(self, capture: Capture, made: Captured | BaseException, now: float, seconds: float) -> None:
        """Announce a snapshot whose encoding took so many seconds of a processor.

        If that raised an error, the component fails.
        """
        self.saved(capture)
        component = capture.component
        progress = self._progress.get(component)
        if progress is None or progress.capture is not capture:
            return
        progress.capture = None
        self._outbox.touch(component.application, component.operator)
        if isinstance(made, BaseException):
            self._exchange.fail(component, f"its state could not be saved: {error_reason(made)}")
        elif self._hosted.has(component) and not component.failed:
            self._send(component, progress, capture.number, made, now)
            progress.seconds = seconds

    def _send(self, component: Component, progress: _Progress, number: int, made: Captured, now: float) -> None:
        """Send the announcement of a snapshot to the copies, with the pieces that they lack if these are small."""
        if FOLDER in component.copies:
            self._exchange.flush(component, now, whole=True)
        archive, cut = progress.archive, component.cuts.of(number)
        parts = archive.file(number, made.tables)
        progress.number, progress.active_at, progress.size = number, now, 0
        progress.sent, progress.pulling = set(), set()
        if progress.keeps_from is not None and number >= progress.keeps_from:
            self._keep(component, progress, number, made, parts)
        for reader in self._readers(component):
            suits = component.copy_holders.suits(reader.peer, number)
            if not suits or not component.alignment.suits(reader.peer, number):
                continue
            lacking, size = archive.lacking(reader.peer)
            pieces = [piece for piece in map(archive.get, lacking) if piece is not None]
            if size > self._limits.piece // 16:
                progress.pulling.add(reader.peer)
                progress.size = max(progress.size, size)
                pieces.clear()
            progress.sent.add(reader.peer)
            progress.silent.setdefault(reader.peer, now)
            state = _state(component, reader, number, made.head, parts)
            self._outbox.send(reader.peer, msgspec.structs.replace(state, enclosed=tuple(pieces)))
            if component.log.cursors[reader].state is UNASKED:
                self._exchange.subscribe_for(component, reader.peer, cut.inputs)
        archive.release(reader.peer for reader in self._readers(component))

    def _keep(
        self, component: Component, progress: _Progress, number: int, made: Captured, parts: tuple[Part, ...]
    ) -> None:
        """Keep a snapshot at this peer, and report the first one."""
        held = (progress.archive.get(piece) for part in parts for piece in part.pieces)
        reader = Reader(component.application, component.operator, COPY, self._peer)
        state, first = _state(component, reader, number, made.head, parts), progress.kept is None
        progress.kept = Kept(state, {piece.number: piece.data for piece in held if piece is not None})
        if first:
            self._outbox.effect(Fact(FactKind.COPY_READY, component.application, component.operator))

    def _acknowledged(self, component: Component, ack: Ack, now: float) -> None:
        progress, peer = self._progress.get(component), ack.reader.peer
        if progress is not None and peer in component.copies:
            self._answered(component, progress, peer)
            progress.archive.acknowledged(peer, ack.snapshot)
            progress.archive.release(reader.peer for reader in self._readers(component))
            self._outbox.touch(component.application, component.operator)
        if component.copied(peer, ack.snapshot):
            self._exchange.consumed(component, now)
        self._report_copied(component)
        self.report_lagging(component)

    def _report_copied(self, component: Component) -> None:
        """Report that copies have more of a source or a sink.

        So whoever pushes the rows of a source can retain less, and the outside gets more of what a sink writes.
        """
        if not component.feeds or component.log.collected:
            self._outbox.effect(Copied(component.application, component.operator))

    def send_pieces(self, request: PieceRequest, now: float) -> None:
        """Send requested pieces to a copy; pieces that are not here any more are encoded again by the next snapshot."""
        component = self._hosted.producer(request.output)
        progress = None if component is None else self._progress.get(component)
        if component is None or progress is None or request.reader.peer not in component.copies:
            return
        progress.active_at = max(progress.active_at, now)
        self._answered(component, progress, request.reader.peer)
        self._outbox.touch(component.application, component.operator)
        gone: list[int] = []
        for number in request.pieces[: FOLDER_REQUESTED if request.reader.peer == FOLDER else MOST_REQUESTED]:
            piece = progress.archive.get(number)
            if piece is None:
                gone.append(number)
            else:
                self._outbox.send(request.reader.peer, PieceReply(request.output, request.reader, piece))
        if gone and request.number == progress.number:
            progress.archive.missed(request.reader.peer, gone)
            self.soon(component, now)
            component.change()
            progress.hurry = True


def _state(component: Component, reader: Reader, number: int, head: bytes, parts: tuple[Part, ...]) -> ComponentState:
    """Announce a snapshot of a component to a copy, without pieces."""
    cut = component.cuts.of(number)
    return ComponentState(
        output=component.output,
        reader=reader,
        number=number,
        inputs=cut.inputs,
        end=cut.end,
        trimmed=component.log.saved if reader.peer == FOLDER else component.log.start,
        head=head,
        parts=parts,
        order=cut.order,
        causes=cut.causes,
        consumed=cut.consumed,
        dropped=cut.dropped,
    )


def _rarely_saved(deployment: Deployment) -> frozenset[str]:
    """Return the operators for whose snapshots nobody waits.

    A source that can be read again, and what follows from it alone: no producer retains what they have read, and they
    read from no component whose snapshots wait for theirs while its producers retain what it has read.
    """
    found: dict[str, bool] = {}

    def repeats(name: str) -> bool:
        if name not in found:
            each = deployment.assignments.get(name)
            own = each is not None and each.alone and FOLDER not in each.synchronized
            found[name] = own and each is not None and all(repeats(up.operator) for up in each.inputs)
        return found[name]

    return frozenset(name for name in deployment.assignments if repeats(name))
