"""Delays and bandwidths of a wide-area network, imposed on the links of local peers.

A :class:`WideArea` has the sites of a network: round-trip times between them from a measured matrix, or generated from
seeded positions in a plane, and a bandwidth for each pair. Peers are placed on sites; :meth:`WideArea.shape` returns
the delays and bandwidths for the links of a peer. Every peer has the same area as plain bytes and so derives the same
numbers without communication.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from synergy_nb.control.peer import key_of
from synergy_nb.errors import user_facing
from synergy_nb.models.delay_matrix import Matrix, one_way, read_rtt

__all__ = ["WideArea"]


class WideArea:
    """Sites, one-way delays and bandwidths between them, and the peers that are placed on them.

    Parameters
    ----------
    rtt_ms
        Round-trip times in ms, shape (sites, sites), finite, not negative; the mean of both directions is used.
    bandwidth
        Bytes/s, a number for all pairs or an array of shape (sites, sites), positive.
    sites
        Number of sites to draw from the matrix, without repetition; all of them, in order, by default.
    seed
        Seed of the draw.

    Examples
    --------
    >>> area = WideArea([[0, 100], [100, 0]], bandwidth=1e6)
    >>> area.set_sites(["tcp://a", "tcp://b"])
    >>> area.shape("tcp://a")("tcp://b")
    (0.05, 1000000.0)
    """

    @user_facing
    def __init__(
        self,
        rtt_ms: npt.ArrayLike,
        bandwidth: float | npt.ArrayLike = 12.5e6,
        *,
        sites: int | None = None,
        seed: int = 0,
    ) -> None:
        delay = one_way(rtt_ms)
        rate = np.broadcast_to(np.asarray(bandwidth, dtype=np.float64), delay.shape)
        if not (rate > 0).all():
            raise ValueError(f"bandwidth: {rate.min():g} bytes/s; expected more than 0")
        if sites is not None:
            if not 1 <= sites <= len(delay):
                raise ValueError(f"sites: {sites}; expected 1 to {len(delay)}, the sites of the matrix")
            drawn = np.random.default_rng(seed).permutation(len(delay))[:sites]
            delay, rate = delay[np.ix_(drawn, drawn)], rate[np.ix_(drawn, drawn)]
        self._delay: Matrix = delay
        self._bandwidth: Matrix = rate.copy()
        self._site: dict[str, int] = {}

    @classmethod
    def from_file(
        cls, path: str | Path, bandwidth: float = 12.5e6, *, sites: int | None = None, seed: int = 0
    ) -> WideArea:
        """Read sites from an ``.npz`` file with the array ``rtt_ms``, such as measured PlanetLab round-trip times."""
        return cls(read_rtt(path, "wide_area"), bandwidth, sites=sites, seed=seed)

    @classmethod
    def generated(cls, sites: int, seed: int = 0, *, bandwidth: tuple[float, float] = (1.25e6, 12.5e6)) -> WideArea:
        """Generate a geometric network: sites uniform on a unit square, round-trip times of 1 to 200 ms by distance.

        Parameters
        ----------
        bandwidth
            Bytes/s of the slowest and the fastest pair; uniform between them.
        """
        if sites < 1:
            raise ValueError(f"sites: {sites}; expected at least 1")
        rng = np.random.default_rng(seed)
        position = rng.random((sites, 2))
        distance = np.linalg.norm(position[:, None] - position[None], axis=2)
        rtt = np.maximum(distance / np.sqrt(2) * 200.0, 1.0)
        np.fill_diagonal(rtt, 0.0)
        rate = np.triu(rng.uniform(*bandwidth, size=(sites, sites)))
        return cls(rtt, np.maximum(rate, rate.T))

    def __len__(self) -> int:
        return len(self._delay)

    def delay(self, one: int, other: int) -> float:
        """Return the one-way delay between two sites in s."""
        return float(self._delay[one, other])

    def delays(self, peers: Sequence[str]) -> Matrix:
        """Return the one-way delays between peers in s, shape (peers, peers).

        Parameters
        ----------
        peers
            Addresses of the peers.
        """
        sites = [self.site(peer) for peer in peers]
        return np.asarray(self._delay[np.ix_(sites, sites)], dtype=np.float64)

    def bandwidth(self, one: int, other: int) -> float:
        """Return the bandwidth between two sites in bytes/s."""
        return float(self._bandwidth[one, other])

    def set_sites(self, peers: Sequence[str] | Mapping[str, int]) -> None:
        """Place peers on sites: in the given order, or each on the named site. Existing shapes follow."""
        placed = peers if isinstance(peers, Mapping) else {peer: at % len(self) for at, peer in enumerate(peers)}
        for peer, site in placed.items():
            if not 0 <= site < len(self):
                raise ValueError(f"site of {peer}: {site}; expected 0 to {len(self) - 1}")
        self._site.update(placed)

    def site(self, peer: str) -> int:
        """Return the site of a peer; one that was not placed has a site derived from its key, the same everywhere."""
        placed = self._site.get(peer)
        return int(key_of(peer), 16) % len(self) if placed is None else placed

    def shape(self, own: str) -> Callable[[str], tuple[float, float]]:
        """Return for the links of ``own`` a function of the other peer: (one-way delay in s, bandwidth in bytes/s)."""

        def shape(to: str) -> tuple[float, float]:
            if "://" not in to:
                return 0.0, float("inf")  # a client is on the site of its peer
            here, there = self.site(own), self.site(to)
            return float(self._delay[here, there]), float(self._bandwidth[here, there])

        return shape

    def bandwidths(self, own: str) -> tuple[float, ...]:
        """Return the bytes/s of the links from each site to the peer ``own``."""
        return tuple(self._bandwidth[self.site(own)].tolist())

    @property
    def sites(self) -> dict[str, int]:
        """Address to site, for the peers that were placed."""
        return dict(self._site)

    def to_bytes(self) -> bytes:
        """Encode the area with its peers as MessagePack."""
        fields: dict[str, Any] = {
            "sites": len(self),
            "rtt_ms": (self._delay * 2e3).tobytes(),
            "bandwidth": self._bandwidth.tobytes(),
            "site": self._site,
        }
        return msgspec.msgpack.encode(fields)

    @classmethod
    def from_bytes(cls, data: bytes) -> WideArea:
        """Decode what :meth:`to_bytes` wrote."""
        fields = msgspec.msgpack.decode(data)
        square = (fields["sites"], fields["sites"])
        rtt, rate = (np.frombuffer(fields[name]).reshape(square) for name in ("rtt_ms", "bandwidth"))
        area = cls(rtt, rate)
        area.set_sites(fields["site"])
        return area
