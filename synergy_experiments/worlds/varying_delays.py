"""Delays of links that differ from tuple to tuple, the same for all policies that are compared.

A tuple's delay on a link is drawn from the seed, the two ends of the link, and the tuple, whatever else runs. So a
deployment with and without some of its streams has equal delays on all streams that both have.

The delays of a tuple are those of a snapshot of the network, drawn for each tuple and link. Where there is only one
snapshot, the variation is a model: with probability :data:`SHARE` the delay is longer by a factor whose logarithm is
the absolute value of a normal variable. The two numbers were fitted to an unreplicated query on PlanetLab, whose
mean latency is 112 ms where each tuple draws from 16 snapshots and 107 ms with the first one. Real delays vary less
independently: congestion of a server affects all of its links.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias
from zlib import crc32

import numpy as np
import numpy.typing as npt

from synergy_nb.algorithms.replication.stream_replicas import StreamReplica

__all__ = ["SHARE", "SPREAD", "Array", "DelaysOf", "Network", "episodes", "exponential", "unchanging"]

Array: TypeAlias = npt.NDArray[np.float64]
DelaysOf: TypeAlias = Callable[[StreamReplica], Array]
"""Function from a stream replica to the delay of each tuple on it, seconds, shape (periods, tuples of a period)."""

SHARE: Final = 0.04  # of the delays that are longer
SPREAD: Final = 0.6  # standard deviation of the logarithm of their factor, before its sign is dropped


@dataclass(frozen=True)
class Network:
    """Servers, and delays between them that vary.

    Parameters
    ----------
    snapshots
        One-way delays, seconds, shape (snapshots, servers, servers).
    server_of
        Server of each replica, source and application.
    shape
        Numbers of periods, and of tuples of a period.
    seed
        Seed of all draws.
    congested
        Delay that a congested path adds, seconds, shape (periods, servers, servers); none by default.
    """

    snapshots: Array
    server_of: Mapping[str, int]
    shape: tuple[int, int]
    seed: int
    congested: Array | None = None

    def __call__(self, stream: StreamReplica) -> Array:
        """Return the delay of each tuple on a stream replica."""
        one, other = self.server_of[stream.producer], self.server_of[stream.consumer]
        rng = _draws(self.seed, stream)
        if len(self.snapshots) > 1:
            found = self.snapshots[rng.integers(len(self.snapshots), size=self.shape), one, other]
        else:
            longer = np.exp(SPREAD * np.abs(rng.standard_normal(self.shape)))
            found = self.snapshots[0, one, other] * np.where(rng.random(self.shape) < SHARE, longer, 1.0)
        if self.congested is not None:
            found = found + self.congested[:, one, other, None]
        return np.asarray(found)


def exponential(mean: float, shape: tuple[int, int], seed: int) -> DelaysOf:
    """Return independent exponential delays.

    Parameters
    ----------
    mean
        Mean of a delay, seconds.
    shape
        Numbers of periods, and of tuples of a period.
    seed
        Seed of all draws.
    """
    return lambda stream: _draws(seed, stream).exponential(mean, shape)


def unchanging(shape: tuple[int, int]) -> DelaysOf:
    """Return delays that are those of the links, for every tuple."""
    return lambda stream: np.full(shape, stream.latency)


def episodes(shape: tuple[int, int], share: float, length: float, extra: float, seed: int) -> Array:
    """Return the delays that paths between servers add while they are congested, shape (periods, servers, servers).

    Parameters
    ----------
    shape
        Numbers of periods and servers.
    share
        Share of the periods in which a path is congested.
    length
        Mean length of an episode, periods.
    extra
        Delay that a congested path adds, seconds.
    seed
        Seed of the episodes.
    """
    rng = np.random.default_rng([seed, 5])
    periods, servers = shape
    found = np.zeros((periods, servers, servers))
    begins = share / length / (1.0 - share)
    for one in range(servers):
        for other in range(one) if share else ():
            period = int(rng.geometric(begins))
            while period < periods:
                end = period + int(rng.geometric(1.0 / length))
                found[period:end, one, other] = found[period:end, other, one] = extra
                period = end + int(rng.geometric(begins))
    return found


def _draws(seed: int, stream: StreamReplica) -> np.random.Generator:
    return np.random.default_rng([seed, crc32(f"{stream.producer}>{stream.consumer}".encode())])
