"""A program that pushes rows into a source, in virtual time: what it sends may be lost, doubled and overtaken.

A :class:`PushingProgram` is the client's end of a source: its rows can be read once only. It sends them to the peer
that it believes to have the source, one item at a time, and retains what copies of the source may lack, as the client
of a live cluster does (:mod:`~synergy_nb.dataflow.streams.log.pushes`). What has no answer in time is sent again.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from synergy_nb.dataflow.streams.hosting.effects import Effect
from synergy_nb.dataflow.streams.hosting.hosting import Hosting
from synergy_nb.dataflow.streams.log.pushes import PushWindow, rest_of
from synergy_nb.dataflow.streams.log.values import Chunk, Point, chunks_of
from synergy_nb.dataflow.tuples import Batch, Item
from synergy_nb.simulator.scripted_faults import ScriptedSource, weight

if TYPE_CHECKING:
    from synergy_nb.simulator.data_paths import DataPaths

PROGRAM: Final = "program"  # name of the program on the links
ANSWER_S: Final = 0.4  # seconds after which what was not answered is sent again
UNAWARE: Final = 0.8  # probability that the program has not heard yet, at a time, that another peer has the source now


class SourceAnswer(NamedTuple):
    """The answer of a source's peer: its epoch, the point up to which it has the rows, and that of all its copies."""

    epoch: int
    end: Point
    copied: Point


def take(
    hosting: Hosting,  # components of the peer
    key: tuple[str, str],  # application and operator of the source
    # item that was pushed, and the point at which it begins; None: only an answer is asked for
    pushed: tuple[Item, Point] | None,
    now: float,
    cut: Callable[[Item, Point], list[Chunk]],  # function that cuts an item after a point into chunks
) -> tuple[list[Effect], SourceAnswer | None]:
    """Have a source take an item that was pushed.

    Returns: effects of the peer.

    Returns: answer of the peer; None if it has no such source.
    """
    component = hosting.components.get(key)
    if component is None or component.failed or key not in hosting.opened:
        return [], None
    effects: list[Effect] = []
    end = component.log.end
    if pushed is not None and pushed[1] <= end and hosting.may_emit(*key):
        rest = rest_of(pushed[0], end)
        if rest is not None:
            effects = hosting.emit(*key, cut(rest, end), now)
    copied = component.log.copied(component.copy_holders.behind)
    return effects, SourceAnswer(component.epoch, component.log.end, copied)


class PushingProgram:
    """The program that feeds one source.

    ``most``: bytes of sent items from which on no more are sent before copies of the source have some of them.
    """

    def __init__(
        self, world: DataPaths, key: tuple[str, str], script: ScriptedSource, rng: random.Random, most: int
    ) -> None:
        self._world = world
        self._key = key  # application and operator of the source
        self._script = script  # rows of the source, which are read once
        self._rng = rng  # draws what the program does not know yet
        self._window = PushWindow[tuple[Item, Point]](most)
        self._host = ""
        self._asked = 0  # number of the last request
        self._answered = True
        self.lost = False  # whether a peer that took the source over lacks rows that are not retained any more
        self.most_bytes = 0  # bytes that were retained at most
        self.sent = 0  # items that were sent, again or for the first time
        self.born: dict[int, float] = {}  # position to the time of entry of each batch that it has sent

    @property
    def done(self) -> bool:
        """Whether all copies of the source have all rows."""
        return self._script.ended and self._window.empty

    def begin(self) -> None:
        """Begin to push."""
        self._world.after(0.0, self._push)

    def _push(self) -> None:
        """Read what is new, send what the source lacks, and come again."""
        world = self._world
        deployment = world.deployments.get(self._key[0])
        if self.done or (deployment is not None and self._key[1] not in deployment.assignments):
            return
        if not self._script.ended and not self._window.full:
            for item in self._script.next(world.now):
                self._add(item)
        if deployment is not None:
            there = deployment.assignments[self._key[1]].active
            self._host = there if not self._host or self._rng.random() > UNAWARE else self._host
            if self._answered:
                self._send()
        world.after(world.pace * self._rng.uniform(0.5, 1.5), self._push)

    def _add(self, item: Item) -> None:
        if isinstance(item, Batch):
            self.born[item.position] = item.born
        self._window.add(item, (item, self._window.end))
        self.most_bytes = max(self.most_bytes, self._window.size)

    def _send(self) -> None:
        """Send the next item, or a question if there is none; send again if no answer comes."""
        pushed = self._window.next
        if pushed is None and self._window.empty:
            return
        world = self._world
        self.sent += pushed is not None
        self._asked += 1
        self._answered = False
        self._transmit(PROGRAM, self._host, self._receive, self._host, self._asked, pushed)
        world.after(ANSWER_S, self._expire, self._asked)

    def _expire(self, number: int) -> None:
        if number == self._asked and not self._answered:
            self._answered = True

    def _transmit(self, sender: str, to: str, act: Callable[..., None], *arguments: object) -> None:
        world = self._world
        world.links.send(sender, to, world.now, 0, lambda at: world.after(at - world.now, act, *arguments))

    def _receive(self, peer: str, number: int, pushed: tuple[Item, Point] | None) -> None:
        """Have the peer handle a request that has arrived there."""

        def handle(hosting: Hosting) -> list[Effect]:
            effects, answer = take(hosting, self._key, pushed, self._world.now, self._cut)
            if answer is not None:
                self._transmit(peer, PROGRAM, self._handle, number, answer)
            return effects

        self._world._at(peer, handle)

    def _cut(self, item: Item, end: Point) -> list[Chunk]:
        self._world.most_made = max(self._world.most_made, weight([item]))
        return chunks_of([item], end)

    def _handle(self, number: int, answer: SourceAnswer) -> None:
        """Handle an answer, however late it is; send what is next if it is that of the last request."""
        self.lost = self.lost or not self._window.answered(*answer)
        if number == self._asked and not self._answered:
            self._answered = True
            if self._window.next is not None:
                self._send()
