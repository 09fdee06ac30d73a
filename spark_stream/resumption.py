"""What a query needs to go on at another peer, beside the checkpoint that Spark keeps of it.

A query that goes on at another peer on the same server has the same checkpoint. Spark itself ends a run of a query when
another one begins with its checkpoint. So that the one that was ended does not begin once more, the folder of a query
on this machine says whose it is: that of the latest epoch. On another server it has a checkpoint of its own
(:mod:`spark_stream.checkpoints`).
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import msgspec

from spark_stream._spool import Offset
from spark_stream.results import NONE, DeliveryProgress
from synergy_nb.dataflow.streams.log.values import Point

__all__ = ["Resumption", "claim", "is_claimed"]

_EPOCH = "epoch"  # file in the folder of a query


class Resumption(msgspec.Struct, frozen=True):
    """How far a query is."""

    name: str
    handed: DeliveryProgress = NONE  # results that it has handed over
    # offset that Spark has committed, and position from which on tuples are still needed, for each input from peers
    inputs: tuple[tuple[Offset, Point], ...] = ()
    server: str = ""  # name of the Spark server that executes it
    checkpoint: str = ""  # folder or URL of its checkpoint; empty if it has none yet
    former: tuple[str, ...] = ()  # folders or URLs of its checkpoints on other servers
    version: str = ""  # version of Spark that has written the checkpoint; empty if it has none yet

    def within(self, location: Path) -> Resumption:
        """The same, with its checkpoint in a folder of queries that has perhaps been moved.

        >>> Resumption("q", checkpoint="/a/q-1/checkpoint").within(Path("/b")).checkpoint
        '/b/q-1/checkpoint'
        """
        here = location / Path(self.checkpoint).parent.name / Path(self.checkpoint).name
        return msgspec.structs.replace(self, checkpoint=str(here)) if self.checkpoint else self


def claim(folder: Path, epoch: int) -> None:
    """Note in the folder of a query by which epoch it is executed now."""
    draft = folder / f"{_EPOCH}.{os.getpid()}"
    draft.write_text(str(epoch), "ascii")
    draft.replace(folder / _EPOCH)


def is_claimed(folder: Path, epoch: int) -> bool:
    """Whether a later epoch has noted that the query is its own."""
    with contextlib.suppress(OSError, ValueError):
        return int((folder / _EPOCH).read_text("ascii")) > epoch
    return False
