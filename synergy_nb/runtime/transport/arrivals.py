"""Frames of other peers in the order of arrival; large ones are decoded in a thread."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Final

from synergy_nb.dataflow.streams.log.frames import Frame

__all__ = ["LARGE", "Arrivals"]

LARGE: Final = 1 << 16  # least bytes of a frame decoded, or a state encoded or restored, in another thread


class Arrivals:
    """Decodes frames of other peers, and delivers those of each peer in the order in which it sent them."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        pool: Executor,  # threads that decode
        clock: Callable[[], float],  # function that returns the time in seconds
        decode: Callable[[bytes], Frame],  # decoder of a frame
        # callback for a decoded frame: sender, frame, and the time in seconds at which its decoding began, None if it
        # was decoded in a thread
        deliver: Callable[[str, Frame, float | None], None],
        # callback for a frame that could not be decoded: sender and exception
        refused: Callable[[str, BaseException], None],
    ) -> None:
        self._loop = loop
        self._pool = pool
        self._clock = clock
        self._decode = decode
        self._deliver = deliver
        self._refused = refused
        self._waiting: dict[str, deque[asyncio.Future[Frame]]] = {}  # by sender, while one is being decoded

    def add(self, sender: str, payload: bytes) -> None:
        """Decode a frame and deliver it; in a thread if it is large."""
        if sender not in self._waiting and len(payload) < LARGE:
            began = self._clock()
            try:
                frame = self._decode(payload)
            except ValueError as error:
                self._refused(sender, error)
            else:
                self._deliver(sender, frame, began)
        else:
            self.add_slow(sender, payload)

    def add_slow(self, sender: str, payload: bytes) -> None:
        """Decode a frame in a thread, and deliver it after those before it."""
        queue = self._waiting.get(sender)
        if queue is None:
            queue = self._waiting[sender] = deque()
        future = self._loop.run_in_executor(self._pool, self._decode, payload)
        queue.append(future)
        future.add_done_callback(lambda _: self._decoded(sender))

    def _decoded(self, sender: str) -> None:
        queue = self._waiting.get(sender)
        if queue is None:  # the frames of several futures were delivered together
            return
        while queue:
            if not queue[0].done():
                return
            first = queue.popleft()
            error = first.exception()
            if error is not None:
                self._refused(sender, error)
            else:
                self._deliver(sender, first.result(), None)
        del self._waiting[sender]
