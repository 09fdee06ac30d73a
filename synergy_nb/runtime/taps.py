"""Streams that applications share: what a component of one application emits, as the stream of another application.

Theory of operation
-------------------
A *tap* is a component of the application that came later. It has no inputs, runs where the stream is made, and
forwards what leaves the tapped component from the moment at which it is started (dissertation, section 2.3.3). Its
readers have channels of their own, with credits of their own: the stream is sent once for each of them and made once
for all.

Tuples keep the positions that they have in the shared stream: draws and nonces that follow from positions are the same
for all who share it, and the encoded form of a parcel, in which its position is written, is made once. A reader of a
tap therefore joins its stream at any position. The first thing that it gets is the promise that the stream has made
last, so that it knows what is closed; from there on nothing is missing and nothing comes twice, and the channel sees to
that.

A tap does not hold up the component that it taps. What its readers have no room for waits here, bounded in bytes; who
falls behind by more than that fails, and with it the application that fell behind. A tap of a tap reads the component
behind it, and not what the first one has sent on, so no reader depends on the pace of another. Only a component that
goes on for its taps alone waits, for the fastest of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from synergy_nb.dataflow.channels import Parcel
from synergy_nb.dataflow.components import Component
from synergy_nb.dataflow.packing import on_wire, parcel_of
from synergy_nb.dataflow.tuples import START, Punctuation
from synergy_nb.runtime.sources import Feed

__all__ = ["TAP_BYTES", "Tap"]

TAP_BYTES: Final = 16 << 20  # of a shared stream that may wait for one of its readers


class Tap(Feed):
    """What a component of this peer emits, from :meth:`start` on.

    Parameters
    ----------
    source
        The component that makes the stream.
    limit
        Bytes that may wait; beyond, the tap fails.
    failed
        Called with what went wrong, while the tapped component is at work or being removed: it has to put the rest off.

    Attributes
    ----------
    waiting : int
        Bytes that wait.
    """

    def __init__(
        self,
        ready: Callable[[], None],
        clock: Callable[[], float],
        *,
        wire: bool,
        most: int,
        source: Component,
        limit: int,
        failed: Callable[[BaseException], None],
    ) -> None:
        super().__init__(ready, clock, wire=wire, most=most)
        self.source = source
        self.waiting = 0
        self._limit = limit
        self._failed = failed
        self._started = False
        source.taps.append(self)

    @property
    def name(self) -> str:
        """The tapped component, for people: application and operator."""
        return f"{self.source.application}/{self.source.operator}"

    @property
    def open(self) -> bool:
        """Whether it keeps up: at most half of what may wait does."""
        return self.waiting <= self._limit // 2

    def start(self) -> None:
        """Begin with the last promise of the stream, and forward all that follows it; once."""
        if self._started or self.stopped:
            return
        self._started = True
        source = self.source
        until = START if source.until is None else source.until
        self._put(parcel_of(Punctuation(until, source.position, self.clock())))
        if source.ended:
            self._leave()
        self.ready()  # only now: as long as the component is at work, its host looks here by itself

    def take(self, parcels: Sequence[Parcel]) -> None:
        """Let what leaves the tapped component wait for room."""
        if not self._started or self.stopped:
            return
        for parcel in parcels:
            self._put(parcel)
        if self.waiting > self._limit:
            size = self.waiting
            self.stop()
            self._failed(
                ValueError(f"reads slower than {self.name} emits: {size} bytes wait; expected at most {self._limit}")
            )
            return
        if self.source.ended:
            self._leave()

    def _put(self, parcel: Parcel) -> None:
        if self.wire:  # it may have left before its component knew that it would be sent
            parcel = on_wire(parcel)
        self.pending.append(parcel)
        self.waiting += parcel.size

    def emitted(self, parcel: Parcel) -> None:
        """Make room."""
        self.waiting -= parcel.size

    def lose(self, why: str) -> None:
        """The tapped component has gone: fail, unless its stream has ended."""
        if not self.stopped and not self.source.ended:
            self._failed(ValueError(f"{self.name}, whose stream it shares, {why}"))

    def stop(self) -> None:
        """Forward nothing more."""
        super().stop()
        self.waiting = 0
        self._leave()

    def _leave(self) -> None:
        if self in self.source.taps:
            self.source.taps.remove(self)
