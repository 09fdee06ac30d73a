"""A feed whose chunks are taken from it as soon as they are there."""

from __future__ import annotations

import asyncio

from synergy_nb.dataflow.streams.log.values import Chunk
from synergy_nb.runtime.data.sources import SourceFeed
from tests.waiting import DEADLINE

__all__ = ["EmptiedFeed"]


class EmptiedFeed:
    """What a feed emits; its subclass makes the feed, with ``empty`` as its callback."""

    feed: SourceFeed

    def __init__(self) -> None:
        self.chunks: list[Chunk] = []

    def empty(self) -> None:
        """Take all chunks that are pending."""
        while self.feed.pending:
            self.chunks.append(self.feed.pending.popleft())
            self.feed.emitted(self.chunks[-1])

    async def whole(self) -> list[Chunk]:
        """All chunks, when the feed has ended."""
        self.feed.start()
        await asyncio.wait_for(self.feed.closed(), DEADLINE)
        self.feed.stop()
        return self.chunks
