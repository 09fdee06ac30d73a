"""Detection of consumers that stand still while other applications share the stream that they read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from synergy_nb.dataflow.streams.component.component import Component
from synergy_nb.dataflow.streams.log.values import CLIENT, OnLag, Point

STANDSTILL_S: Final = 10.0  # seconds that an idle consumer may block sharers of its stream


class Standstills:
    """Watches the readers of shared streams, as long as there are any."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Callable[[], float],
        components: Callable[[], Iterable[Component]],  # function that returns the components of the peer
        # callback (application, operator, reader, reason) for an operator with a shared stream that has waited too long
        # for one of its own readers
        on_slow_reader: Callable[[str, str, str, str], None],
        seconds: float,  # seconds that an idle consumer may block sharers of its stream before that is reported
    ) -> None:
        self._loop = loop
        self._clock = clock
        self._components = components
        self._on_slow_reader = on_slow_reader
        self._seconds = seconds
        self._stands: dict[
            tuple[Component, str], tuple[Point, float]
        ] = {}  # reader with a full window: its point, and since when
        self._timer: asyncio.TimerHandle | None = None

    def watch(self) -> None:
        """Begin to watch, now that a stream is shared."""
        if self._timer is None:
            self._timer = self._loop.call_later(self._seconds / 4, self._look)

    def close(self) -> None:
        """Stop watching."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        """Report consumers that block sharers of their stream."""
        now = self._clock()
        before, self._stands = self._stands, {}
        shared = [
            component
            for component in self._components()
            if any(cursor.on_lag is OnLag.FAIL for cursor in component.log.cursors.values())
        ]
        for component in shared:
            for cursor in component.log.cursors.values():
                if cursor.on_lag is not OnLag.BLOCK or cursor.reader.port == CLIENT or not component.log.blocks(cursor):
                    continue
                key = component, cursor.reader.operator
                point, since = before.get(key, (cursor.consumed, now))
                if point != cursor.consumed:
                    since = now
                elif now - since >= self._seconds:
                    seconds = now - since
                    reason = (
                        f"took nothing for {seconds:.3g} s of the stream of {component.operator}, which others share"
                    )
                    self._on_slow_reader(component.application, component.operator, cursor.reader.operator, reason)
                    since = now
                self._stands[key] = cursor.consumed, since
        self._timer = self._loop.call_later(self._seconds / 4, self._look) if shared else None
