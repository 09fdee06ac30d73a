"""The time at which a component is saved for its copies, and the transfer of the snapshot. No IO, no clock.

Theory of operation
-------------------
A snapshot begins between two executions: hosting records the points of inputs and output, and the driver makes the
operator save its state, which copies nothing. Then the component resumes, while the tables of its state are encoded on
another thread, except those that all copies have since an earlier snapshot. Each copy receives the head of the state
and the numbers of the pieces of its tables, and the pieces that it lacks if they are small together. Otherwise it
requests them, a few at a time (:mod:`~synergy_nb.dataflow.streams.copies`), and acknowledges the complete snapshot.

One snapshot is transferred at a time: the next begins when the copies that request pieces have the last. Snapshots
take at most a twentieth of the time, except where so much was read since the last that the producers may soon have to
wait, as they retain all that no snapshot covers.

Nobody waits for a copy that does not answer. It is left behind once half of what may be retained for it has been read,
and from then on it could not take over, which is reported. When it answers again, chunks are retained for it from then
on, and with the next snapshot it could take over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from synergy_nb.dataflow.logic import error_reason
from synergy_nb.dataflow.streams.component import Component
from synergy_nb.dataflow.streams.copies import WANTED
from synergy_nb.dataflow.streams.effects import Capture, Captured, Fact, FactKind
from synergy_nb.dataflow.streams.frames import State, Supply, Want
from synergy_nb.dataflow.streams.state_pieces import Archive
from synergy_nb.dataflow.streams.values import COPY, Reader

if TYPE_CHECKING:
    from synergy_nb.dataflow.streams.hosting import Hosting

__all__ = ["REPEAT_S", "SILENT_S", "SNAPSHOT_S", "Snapshots"]

SNAPSHOT_S: Final = 0.25  # least time between two snapshots of a component that has copies, seconds
REPEAT_S: Final = 1.0  # seconds until a copy that neither requests pieces nor has the last snapshot gets another
SHARE: Final = 0.05  # fraction of the time that snapshots may take
SILENT_S: Final = 1.0  # seconds until a copy that does not answer is left behind, if much has been read meanwhile
PULL_BYTES_S: Final = 10e6  # least rate at which a copy is expected to receive, bytes a second


class _Kept:
    """The state of one component's snapshots."""

    def __init__(self) -> None:
        self.archive = Archive()
        self.capture: Capture | None = None  # snapshot that is being made
        self.standing = False  # whether the component waits for it
        self.wish: float | None = None  # time for which the next one was requested
        self.hurry = False  # whether some copy has no snapshot
        self.begun = 0.0
        self.seconds = 0.0  # duration of the last one
        self.number = -1  # number of the last one that was sent
        self.sent: set[str] = set()  # copies that it was sent to
        self.pulling: set[str] = set()  # those of them that have to request pieces
        self.size = 0  # bytes of these pieces
        self.heard = 0.0  # time at which it was sent, or pieces of it were requested
        self.met: set[str] = set()  # copies that have answered
        self.silent: dict[str, float] = {}  # copies that have not answered yet: time of the first question
        self.told: frozenset[str] = frozenset()  # copies that were reported as unable to take over


class Snapshots:
    """The snapshots of the components of one peer.

    Parameters
    ----------
    hosting
        Components of the peer.
    """

    def __init__(self, hosting: Hosting) -> None:
        self._hosting = hosting
        self._kept: dict[Component, _Kept] = {}

    def soon(self, component: Component, at: float, *, hurry: bool = False) -> None:
        """Save a component at a time in seconds, or as soon as it is idle and its copies have the previous snapshot.

        Parameters
        ----------
        component
            Component to save.
        at
            Time in seconds.
        hurry
            Whether to save it at once, as some copy has to wait for that.
        """
        kept = self._kept.setdefault(component, _Kept())
        kept.hurry = kept.hurry or hurry
        for peer in component.copies:
            if peer not in kept.met:
                kept.silent.setdefault(peer, at)
        kept.wish = at if kept.wish is None else min(at, kept.wish)
        self._hosting.touch(component.application, component.operator)

    def subscribed(self, component: Component, peer: str, anew: bool, now: float) -> None:
        """Handle the subscription of a copy; a copy without any state does not wait for others."""
        component.dirty = True
        self.soon(component, now)
        kept = self._kept[component]
        self._hear(component, kept, peer)
        if anew:
            kept.archive.forget(peer)
            kept.hurry = True

    def forget(self, component: Component) -> None:
        """Forget a component that was removed."""
        self._kept.pop(component, None)

    def _readers(self, component: Component) -> list[Reader]:
        """Return the copies that read the output of the component and have answered."""
        found = component.log.cursors.values()
        readers = [cursor.reader for cursor in found if cursor.reader.port == COPY and cursor.subscribed]
        behind = component.keepers.behind
        return [reader for reader in readers if reader.peer in component.copies and reader.peer not in behind]

    def at(self, component: Component) -> float | None:
        """Return the time in seconds at which a component has to be saved; None if it is not known yet."""
        kept = self._kept.get(component)
        if kept is None:
            return None
        times = [kept.silent[peer] + SILENT_S for peer in self._lagging(component, kept)]
        if kept.capture is not None or not component.capturable or not self._readers(component):
            return min(times, default=None)
        lacking = component.keepers.missing(kept.number, kept.sent)
        if lacking:
            times.append(kept.heard + REPEAT_S + kept.size / PULL_BYTES_S)
        if kept.wish is not None and component.dirty and (kept.hurry or not lacking & kept.pulling):
            if kept.hurry or component.unsaved >= self._hosting.limits.retain // 4:
                times.append(kept.begun)
            else:
                times.append(max(kept.wish, kept.begun + max(SNAPSHOT_S, kept.seconds / SHARE)))
        return min(times, default=None)

    def _lagging(self, component: Component, kept: _Kept) -> list[str]:
        """Return the copies that do not answer and for which much is retained."""
        most = self._hosting.limits.retain // 2
        waiting = (peer for peer in kept.silent if peer in component.copies and peer not in component.keepers.behind)
        return [peer for peer in waiting if component.keepers.since(peer, component.read) >= most]

    def _leave_behind(self, component: Component, kept: _Kept, peer: str, now: float) -> None:
        """Leave behind a copy that has not answered in time, unless this peer was late itself."""
        if now - kept.silent[peer] > 2.0 * SILENT_S:
            kept.silent[peer] = now  # answers of the copy may be queued here
            self._hosting.touch(component.application, component.operator)
            return
        component.drop_copy(peer)
        self._hosting.exchange.consumed(component, now)
        self.report_lagging(component)

    def _hear(self, component: Component, kept: _Kept, peer: str) -> None:
        """Handle an answer of a copy."""
        kept.met.add(peer)
        kept.silent.pop(peer, None)
        if peer in component.keepers.behind:
            component.catch_up(peer)
            kept.wish, kept.hurry = kept.begun, True

    def report_lagging(self, component: Component) -> None:
        """Report the copies that could not take over, if they have changed."""
        kept = self._kept.get(component)
        if kept is not None and kept.told != component.keepers.cannot_take_over:
            kept.told = component.keepers.cannot_take_over
            reason = "it did not answer for long, and has no snapshot since" if kept.told else ""
            name = component.application, component.operator
            self._hosting.effect(Fact(FactKind.COPIES_BEHIND, *name, reason, tuple(sorted(kept.told))))

    def tick(self, component: Component, now: float) -> None:
        """Leave behind copies that do not answer, and begin a snapshot of a component, if these are due."""
        watched = self._kept.get(component)
        for peer in () if watched is None else self._lagging(component, watched):
            if watched is not None and watched.silent[peer] + SILENT_S <= now:
                self._leave_behind(component, watched, peer, now)
        at = self.at(component)
        if at is None or at > now:
            return
        kept = self._kept[component]
        kept.wish, kept.hurry, kept.begun, kept.standing = None, False, now, True
        known = kept.archive.known(reader.peer for reader in self._readers(component))
        component.capture()
        kept.capture = Capture(component, component.number, known, self._hosting.limits.piece)
        self._hosting.effect(kept.capture)

    def saved(self, capture: Capture) -> None:
        """Resume a component whose state was saved, while its tables are encoded."""
        kept = self._kept.get(capture.component)
        if kept is not None and kept.capture is capture and kept.standing:
            kept.standing = capture.component.running = False
            self._hosting.touch(capture.component.application, capture.component.operator)

    def captured(self, capture: Capture, made: Captured | BaseException, now: float, seconds: float) -> None:
        """Announce a snapshot that was encoded in so many seconds; or fail the component if that raised an error."""
        self.saved(capture)
        component = capture.component
        kept = self._kept.get(component)
        if kept is None or kept.capture is not capture:
            return
        kept.capture = None
        self._hosting.touch(component.application, component.operator)
        if isinstance(made, BaseException):
            self._hosting.fail(component, f"its state could not be saved: {error_reason(made)}")
        elif self._hosting.hosts(component) and not component.failed:
            self._send(component, kept, capture.number, made, now)
            kept.seconds = seconds

    def _send(self, component: Component, kept: _Kept, number: int, made: Captured, now: float) -> None:
        """Send the announcement of a snapshot to the copies, with the pieces that they lack if these are small."""
        archive, cut = kept.archive, component.cut(number)
        parts = archive.file(number, made.tables)
        kept.number, kept.heard, kept.size = number, now, 0
        kept.sent, kept.pulling = set(), set()
        for reader in self._readers(component):
            lacking, size = archive.lacking(reader.peer)
            pieces = [piece for piece in map(archive.get, lacking) if piece is not None]
            if size > self._hosting.limits.piece // 16:
                kept.pulling.add(reader.peer)
                kept.size = max(kept.size, size)
                pieces.clear()
            kept.sent.add(reader.peer)
            kept.silent.setdefault(reader.peer, now)
            state = State(
                output=component.output,
                reader=reader,
                number=number,
                inputs=cut.inputs,
                end=cut.end,
                trimmed=component.log.start,
                head=made.head,
                parts=parts,
                enclosed=tuple(pieces),
                order=cut.order,
                causes=cut.causes,
                taken=cut.taken,
                dropped=cut.dropped,
            )
            self._hosting.send(reader.peer, state)
        archive.release(reader.peer for reader in self._readers(component))

    def acknowledged(self, component: Component, peer: str, number: int) -> None:
        """Record that a copy has a snapshot."""
        kept = self._kept.get(component)
        if kept is not None and peer in component.copies:
            self._hear(component, kept, peer)
            kept.archive.acknowledged(peer, number)
            kept.archive.release(reader.peer for reader in self._readers(component))
            self._hosting.touch(component.application, component.operator)

    def supply(self, component: Component, want: Want, now: float) -> None:
        """Send requested pieces to a copy; pieces that are not here any more are encoded again by the next snapshot."""
        kept = self._kept.get(component)
        if kept is None or want.reader.peer not in component.copies:
            return
        kept.heard = max(kept.heard, now)
        self._hear(component, kept, want.reader.peer)
        self._hosting.touch(component.application, component.operator)
        gone: list[int] = []
        for number in want.pieces[:WANTED]:
            piece = kept.archive.get(number)
            if piece is None:
                gone.append(number)
            else:
                self._hosting.send(want.reader.peer, Supply(want.output, want.reader, piece))
        if gone and want.number == kept.number:
            kept.archive.missed(want.reader.peer, gone)
            self.soon(component, now)
            component.dirty = kept.hurry = True
