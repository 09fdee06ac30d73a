"""Numbers of attempts, and epochs of components: whoever begins an attempt, no other one has its number or its epochs.

At most two peers ever lead an application: its origin, and the peer of its first sink, which the plan has bound. A
successor that is cut off from the origin may lose the application, and so may the origin: both set it up again. An
attempt that a successor begins has a greater number than any of the origin, as its graphs in the attempt of the origin
have greater epochs (:data:`~synergy_nb.lifecycle.changes.succeeded_graphs.TERM`). So two graphs with the same number of
an attempt and the same epoch are one graph, and files of a durable folder with the same epoch are of one attempt.

Examples
--------
>>> next_attempt(1, succeeded=False), next_attempt(1, succeeded=True) == SUCCEEDED
(2, True)
>>> first_epoch(3, 1), first_epoch(2, 1, EPOCHS_OF_START) == EPOCHS_OF_START + 1024
(2048, True)
>>> first_epoch(2, 5000)
5000
>>> start_of(EPOCHS_OF_START + 7) == EPOCHS_OF_START, next_start(7) == EPOCHS_OF_START
(True, True)
"""

from __future__ import annotations

from typing import Final

__all__ = ["EPOCHS_OF_ATTEMPT", "EPOCHS_OF_START", "SUCCEEDED", "first_epoch", "next_attempt", "next_start", "start_of"]

SUCCEEDED: Final = 1 << 20  # number of the first attempt that a successor begins; no origin makes so many
EPOCHS_OF_ATTEMPT: Final = 1 << 10  # epochs of a durable component, by moves and take-overs, in one attempt
EPOCHS_OF_START: Final = 1 << 32  # epochs of a durable component in one start of its application


def next_attempt(last: int, *, succeeded: bool) -> int:
    """Number of the attempt after a last one; ``succeeded``: whether a successor begins it."""
    return max(last + 1, SUCCEEDED) if succeeded else last + 1


def first_epoch(attempt: int, least: int, start: int = 0) -> int:
    """First epoch of durable components in an attempt.

    ``least``: epoch that none of them has had in the attempt before; ``start``: first epoch of this start.
    """
    return max(start + (attempt - 1) * EPOCHS_OF_ATTEMPT, least)


def start_of(epoch: int) -> int:
    """First epoch of the start to which an epoch belongs."""
    return epoch // EPOCHS_OF_START * EPOCHS_OF_START


def next_start(epoch: int) -> int:
    """First epoch of the start after that to which an epoch belongs."""
    return start_of(epoch) + EPOCHS_OF_START
