"""The feed of a source with positions: it is polled in a thread, opened again when it breaks, and resumed at its place.

Theory of operation
-------------------
The last chunk of each poll carries the place after it: how many tuples the stream has up to there, the greatest event
time so far, and the position that the source has stated. The log keeps the last place, in copies too. A successor opens
the source at the place that its log has, drops late rows as its predecessor did, and skips the tuples that the log has
beyond the place. Where no place is known, a source that repeats itself is read from its beginning, and all tuples that
the log has are skipped; any other goes on with what it gives now.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import msgspec

from synergy_nb import events
from synergy_nb.dataflow.sources import FIRST_WAIT_S, BrokenForNow, Polled, Source, longer
from synergy_nb.dataflow.streams.log.values import Chunk, SourcePlace
from synergy_nb.dataflow.tuples import END, START, Batch, Punctuation
from synergy_nb.runtime.data.sources import FeedThread
from synergy_nb.traces.late_rows import EventOrder
from synergy_nb.traces.rows import RowReader

POLL_S: Final = 0.2  # longest time of a poll, seconds: so long a feed takes to stop
SHORTEST_S: Final = (
    0.01  # time of the first poll after rows, seconds, and of the wait where a poll does not wait itself
)
_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder().decode


class PolledFeed(FeedThread):
    """A source that a thread polls."""

    def __init__(
        self,
        ready: Callable[[], None],
        clock: Callable[[], float],
        *,
        source: Source,
        place: SourcePlace | None,  # place at which it is opened; None: none is known
        reader: RowReader,  # converter of its rows
        lateness: float | None,  # seconds, see `EventOrder`
        # callback on the event loop with the kind of an event about the source, and its fields
        noted: Callable[..., object],
        **of_thread: Any,
    ) -> None:
        super().__init__(ready, clock, **of_thread)
        self._source = source
        self._place = place
        self._carried = place  # last place that a chunk has carried
        self._reader = reader
        self._lateness = lateness
        self._noted = noted
        self._order = EventOrder(reader.source, lateness)
        self._count = 0  # tuples of the stream up to the position of the source
        self._told_late = self._told_skipped = 0  # late rows and malformed lines that were reported
        self._lines: events.SkippedLines | None = None

    def _read(self) -> None:
        if self.point.until == END:
            return
        wait, tries, broken_at = FIRST_WAIT_S, 0, 0.0
        self._begin()
        while not self.halt.is_set():
            try:
                self._source.open(None if self._place is None else _decode(self._place.mark))
                while not self.halt.is_set():
                    if self.on_hold:
                        self.halt.wait(POLL_S)
                        continue
                    polled = self._next_poll()
                    if tries:
                        self._record(events.SourceMended, seconds=self.clock() - broken_at)
                        wait, tries = FIRST_WAIT_S, 0
                    if polled is not None and self._give(polled):
                        return
            except BrokenForNow as error:
                broken_at = broken_at if tries else self.clock()
                tries += 1
                self._record(events.SourceBroken, reason=str(error), tries=tries, wait_s=wait)
                self.halt.wait(wait)
                wait = longer(wait)
            finally:
                self._source.close()

    def _begin(self) -> None:
        """Know how many tuples precede the position at which the source is opened, and what times they had."""
        place, since = self._place, self.point
        if place is None and not self._source.repeats:
            self._count = since.position
            known = None if since.until == START else since.until + self._order.allowed
            self._order.resume(known)
        elif place is not None:
            self._count = place.position
            self._order.resume(None if place.reached == START else place.reached)

    def _next_poll(self) -> Polled | None:
        """Poll until there is something; None if the source was polled without a result, and it is time to look."""
        pause = SHORTEST_S
        began = self.clock()
        while not self.halt.is_set() and (now := self.clock()) - began < POLL_S:
            polled = self._source.poll(POLL_S)
            if polled is not None:
                return polled
            rest = pause - (self.clock() - now)
            if rest > 0.0 and self.halt.wait(rest):
                return None
            pause = min(2.0 * pause, POLL_S)
        return None

    def _give(self, polled: Polled) -> bool:
        """Pass on what a poll has found; return whether the stream has ended, or the feed was stopped."""
        for text in polled.said:
            self._record(events.SourceRemarked, text=text)
        self._lines = polled.skipped or self._lines
        chunks = self._chunks(polled)
        self._report(last=polled.ends or self._order.error is not None)
        if self._order.error is None and polled.ends:
            if self._count < self.point.position:
                found, known = self._count, self.point.position
                raise ValueError(f"its stream has {found} tuples; expected at least {known}, as it had before")
            chunks += self._cut(Punctuation(END, 0, 0.0), self.clock())
        if chunks:
            self._permits.get()
            if self.halt.is_set():
                return True
            self._on_loop(self._arrive, chunks)
        if self._order.error is not None:
            raise self._order.error
        return polled.ends

    def _chunks(self, polled: Polled) -> list[Chunk]:
        """The chunks of the new rows of a poll, the last one with the place after them."""
        table = self._reader.as_given(polled.rows)
        before, born = self._place, self.clock()
        chunks: list[Chunk] = []
        if table.height:
            table, _ = self._order.keep(table)
            self._count += table.height
            fresh = min(self._count - self.point.position, table.height)
            if fresh > 0:
                chunks = self._cut(Batch(table.tail(fresh), 0, born), born)
                if before is not None and before is not self._carried:
                    chunks[0].place = before
        if polled.until is not None:
            self._order.promise(polled.until)
        promised = self._order.promised
        if promised is not None and self._count == self.point.position:
            chunks += self._cut(Punctuation(promised, 0, born), born)
        if polled.position is not None and self._order.error is None:
            mark, reached = _encode(polled.position), self._order.reached
            self._place = SourcePlace(self._count, START if reached is None else reached, mark)
            if chunks:
                chunks[-1].place = self._carried = self._place
        return chunks

    def _report(self, *, last: bool) -> None:
        """Report late rows and malformed lines whenever they have doubled, and at the end."""
        late, lines = self._order.dropped, self._lines
        if late > self._told_late and (last or late >= 2 * self._told_late):
            self._told_late = late
            self._record(events.LateRows, dropped=late)
        if lines is not None and lines.count > self._told_skipped and (last or lines.count >= 2 * self._told_skipped):
            self._told_skipped = lines.count
            self._on_loop(self._skipped, lines)

    def _record(self, kind: type[events.Event], **fields: Any) -> None:
        self._on_loop(partial(self._noted, kind, **fields))
