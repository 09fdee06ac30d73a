"""The outcome of an execution."""

from __future__ import annotations

import msgspec

from synergy_nb.dataflow.channels import Parcel

__all__ = ["Outcome"]


class Outcome(msgspec.Struct):
    """The outcome of one execution.

    Parameters
    ----------
    started, finished
        Times at which the execution began and ended, in seconds.
    spent
        Number of tuples (0 for a punctuation) and seconds of each item that it processed.
    made
        Number of output tuples.
    parcels
        Output parcels.
    arrived
        Batches that reached a sink, each as (tuples, bytes, born, now) with times in seconds.
    late
        Number of tuples dropped as late since the operator was created.
    error
        Exception that the operator raised, or None.
    unfinished
        True if the work has more output to make.
    """

    started: float
    finished: float = 0.0
    spent: list[tuple[int, float]] = []
    made: int = 0
    parcels: list[Parcel] = []
    arrived: list[tuple[int, int, float, float]] = []
    late: int = 0
    error: BaseException | None = None
    unfinished: bool = False
