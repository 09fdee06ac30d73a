"""Parameters of active replicas that run: their streams are collected and revived, lost ones are rebuilt (V-B, V-C)."""

from __future__ import annotations

import math

import msgspec

from synergy_nb.plan.terms.units import WrongValue, parse_fraction

__all__ = ["ReplicationConfig"]


class ReplicationConfig(msgspec.Struct, frozen=True):
    """Parameters of the collection and revival of streams between active replicas, and of their rebuilding.

    Parameters
    ----------
    theta
        Target θ of the network cost, as a share of the cost that all streams would have together, such as ``"60 %"``;
        while the cost exceeds it, the streams of least utility for their cost are discarded. None: none is discarded.
    k_min
        Number of replicas that each operator retains, so that any ``k_min - 1`` peers may crash. None: 2, or 1 where a
        plan has no more.
    report
        Interval between two reports of the weights of streams to the origin of an application, seconds.
    collect
        Interval between two collections, seconds.
    late
        Delay of all streams of an input beyond their usual interval, above which a discarded stream is revived,
        seconds.
    rebuild
        Whether replicas that were lost are rebuilt at other peers.
    compare
        Whether readers compare the streams of replicas by hash, so that one that emits other tuples than most of them
        is named. Nothing waits for that: what it has emitted beside the others has passed.

    Examples
    --------
    >>> ReplicationConfig(theta="60 %").share
    0.6
    >>> ReplicationConfig(k_min=3).retained(5), ReplicationConfig().retained(5), ReplicationConfig().retained(1)
    (3, 2, 1)
    """

    theta: str | float | None = None
    k_min: int | None = None
    report: float = 30.0
    collect: float = 300.0
    late: float = 10.0
    rebuild: bool = True
    compare: bool = False

    def __post_init__(self) -> None:
        if self.theta is not None:
            try:
                parse_fraction(self.theta)
            except (WrongValue, TypeError, ValueError):
                expected = "a share of the cost of all streams from 0 to 1, such as '60 %', or None"
                raise ValueError(f"theta: {self.theta!r}; expected {expected}") from None
        whole = isinstance(self.k_min, int) and not isinstance(self.k_min, bool)
        if self.k_min is not None and (not whole or self.k_min < 1):
            raise ValueError(f"k_min: {self.k_min!r}; expected a whole number from 1, or None")
        for field in ("rebuild", "compare"):
            if not isinstance(getattr(self, field), bool):
                raise ValueError(f"{field}: {getattr(self, field)!r}; expected True or False")
        for field in ("report", "collect", "late"):
            value = getattr(self, field)
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if not number or not 0.0 < value < math.inf:
                raise ValueError(f"{field}: {value!r}; expected a positive number of seconds")

    @property
    def share(self) -> float | None:
        """Target of the network cost, as a share of the cost of all streams; None if no stream is discarded."""
        return None if self.theta is None else parse_fraction(self.theta)

    def retained(self, degree: int) -> int:
        """Return the number of replicas that each operator retains of so many."""
        return min(2, degree) if self.k_min is None else self.k_min
