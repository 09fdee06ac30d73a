"""Models of failures: a fixed number of peers fails, or each peer independently, with or without failure domains.

A *failure domain* is a resource on which several peers depend, such as a rack or a site. If it fails, all its peers
fail. Failures are fail-stop, and failed peers do not recover (section 4.2).

============================  ========================================================================================
:class:`ExactlyFailed`        a stated number of peers has failed, all sets of so many with the same probability: the
                              paper's experiments; of domains instead, where peers are given domains
:class:`IndependentFailures`  each peer fails with a probability ϕ of its own, and so does each domain; domains may lie
                              within others, as racks in sites
============================  ========================================================================================
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from synergy_nb.plan.terms.units import WrongValue

MOST_SETS: Final = 1 << 16  # maximum number of sets of failed peers that are enumerated

Drawn = npt.NDArray[np.bool_]


class Failures(Protocol):
    """The interface of failure models for the evaluation of availability."""

    @property
    def peers(self) -> tuple[str, ...]:
        """All peers."""

    def all_fail(self, peers: Collection[str]) -> float:
        """Probability that all of some peers have failed."""

    def mean_all_fail(self, count: int) -> float:
        """Mean of :meth:`all_fail` over all sets of ``count`` peers."""

    def sets(self) -> Iterator[tuple[frozenset[str], float]]:
        """Every set of failed peers, with its probability; for small systems."""

    def draw(self, rng: np.random.Generator, count: int) -> Drawn:
        """Sampled failures, shape (count, peers)."""


class ExactlyFailed:
    """Exactly F of N peers have failed, or of their domains.

    Parameters
    ----------
    peers
        Names of all N peers.
    failed
        Number F of failed peers, or of failed domains if there are domains.
    domains
        Peer to its domain; a peer that is not named is a domain of its own.

    Raises
    ------
    ValueError
        If there are fewer peers or domains than ``failed``.

    Examples
    --------
    >>> model = ExactlyFailed(["a", "b", "c", "d"], 2)
    >>> round(model.all_fail(["a", "b"]), 4)
    0.1667
    """

    def __init__(self, peers: Collection[str], failed: int, domains: Mapping[str, str] | None = None) -> None:
        self.peers = tuple(dict.fromkeys(peers))
        self.failed = failed
        self._unit = {peer: ("", peer) for peer in self.peers}
        for peer, domain in (domains or {}).items():
            _known(peer, self.peers)
            self._unit[peer] = ("domain", domain)
        self._units = tuple(dict.fromkeys(self._unit.values()))
        if not 0 <= failed <= len(self._units):
            raise ValueError(f"failed: {failed}; expected 0 to {len(self._units)}, as many as can fail")
        numbers = {unit: number for number, unit in enumerate(self._units)}
        self._number = {peer: numbers[unit] for peer, unit in self._unit.items()}
        self._chances = [self._units_fail(count) for count in range(len(self._units) + 1)]

    def all_fail(self, peers: Collection[str]) -> float:
        """C(N-u, F-u) / C(N, F), where the peers are in u domains."""
        number = self._number
        try:
            return self._chances[len({number[peer] for peer in peers})]
        except KeyError as unknown:
            _known(unknown.args[0], number)  # raises an error that names it
            raise

    def _units_fail(self, count: int) -> float:
        total = len(self._units)
        return math.prod((self.failed - each) / (total - each) for each in range(count)) if count <= total else 0.0

    def mean_all_fail(self, count: int) -> float:
        """Mean of :meth:`all_fail` over all sets of ``count`` peers."""
        choices = np.zeros(
            (len(self._units) + 1, count + 1)
        )  # number of sets of peers, by their domains and their size
        choices[0, 0] = 1.0
        for unit in self._units:
            size = sum(each == unit for each in self._unit.values())
            for chosen in range(count, 0, -1):
                for taken in range(1, min(size, chosen) + 1):
                    choices[1:, chosen] += math.comb(size, taken) * choices[:-1, chosen - taken]
        return float(choices[:, count] @ np.array(self._chances)) / math.comb(len(self.peers), count)

    def sets(self) -> Iterator[tuple[frozenset[str], float]]:
        """Every set of failed peers, with its probability."""
        number = math.comb(len(self._units), self.failed)
        _enumerable(number)
        for units in combinations(self._units, self.failed):
            yield frozenset(peer for peer in self.peers if self._unit[peer] in units), 1.0 / number

    def draw(self, rng: np.random.Generator, count: int) -> Drawn:
        """Sampled failures, shape (count, peers)."""
        order = rng.random((count, len(self._units))).argsort(axis=1)
        failed = np.zeros(order.shape, dtype=np.bool_)
        np.put_along_axis(failed, order[:, : self.failed], values=True, axis=1)
        place = {unit: number for number, unit in enumerate(self._units)}
        return failed[:, [place[self._unit[peer]] for peer in self.peers]]


class IndependentFailures:
    """Each peer fails with a probability of its own, and each domain too.

    Parameters
    ----------
    probability
        Peer to ϕ, the probability that it fails by itself; all peers.
    domains
        Peer to its domains, the widest first, such as ``("site 1", "rack 4")``; none if not named. A domain within
        another is always within that one.
    domain_probability
        Domain to the probability that it fails by itself; 0 if not named.

    Raises
    ------
    ValueError
        If a value is not a probability, a domain has no peers, or a domain lies in two others.

    Examples
    --------
    >>> racks = {"a": ("rack 1",), "b": ("rack 1",), "c": ("rack 2",)}
    >>> model = IndependentFailures(dict.fromkeys("abc", 0.1), racks, {"rack 1": 0.05, "rack 2": 0.05})
    >>> round(model.all_fail("ab"), 6), round(model.all_fail("ac"), 6)
    (0.0595, 0.021025)
    """

    def __init__(
        self,
        probability: Mapping[str, float],
        domains: Mapping[str, Sequence[str]] | None = None,
        domain_probability: Mapping[str, float] | None = None,
    ) -> None:
        self.peers = tuple(probability)
        self.probability = {peer: _checked(f"probability of {peer}", value) for peer, value in probability.items()}
        self._path = {peer: tuple((domains or {}).get(peer, ())) for peer in self.peers}
        for peer in domains or {}:
            _known(peer, self.peers)
        within: dict[str, tuple[str, ...]] = {}
        for peer, path in self._path.items():
            for depth, domain in enumerate(path):
                if within.setdefault(domain, path[:depth]) != path[:depth]:
                    outer = " and ".join("/".join(each) or "none" for each in (within[domain], path[:depth]))
                    raise ValueError(f"domains: {domain!r} of {peer!r} lies in {outer}; expected one domain around it")
        self.domain_probability = dict.fromkeys(within, 0.0)
        for domain, value in (domain_probability or {}).items():
            if domain not in within:
                raise WrongValue(domain, "a domain of a peer")
            self.domain_probability[domain] = _checked(f"probability of {domain}", value)

    def all_fail(self, peers: Collection[str]) -> float:
        """Product over independent failures: of peers without a domain, and of domains with their peers."""
        return self._fail([_known(peer, self.probability) for peer in set(peers)], 0)

    def _fail(self, peers: Sequence[str], depth: int) -> float:
        inside: dict[str, list[str]] = {}
        together = 1.0
        for peer in peers:
            path = self._path[peer]
            if depth < len(path):
                inside.setdefault(path[depth], []).append(peer)
            else:
                together *= self.probability[peer]
        for domain, members in inside.items():
            own = self.domain_probability[domain]
            together *= own + (1.0 - own) * self._fail(members, depth + 1)
        return together

    def mean_all_fail(self, count: int) -> float:
        """Mean of :meth:`all_fail` over all sets of ``count`` peers: a coefficient of their generating function."""
        coefficients = self._generating(list(self.peers), 0)
        return float(coefficients[count]) / math.comb(len(self.peers), count)

    def _generating(self, peers: Sequence[str], depth: int) -> npt.NDArray[np.float64]:
        """Coefficients by size: sums of the probabilities that all peers of a subset fail."""
        inside: dict[str, list[str]] = {}
        product = np.ones(1)
        for peer in peers:
            path = self._path[peer]
            if depth < len(path):
                inside.setdefault(path[depth], []).append(peer)
            else:
                product = np.convolve(product, [1.0, self.probability[peer]])
        for domain, members in inside.items():
            own, size = self.domain_probability[domain], len(members)
            subsets = np.array([float(math.comb(size, number)) for number in range(size + 1)])
            product = np.convolve(product, own * subsets + (1.0 - own) * self._generating(members, depth + 1))
        return product

    def sets(self) -> Iterator[tuple[frozenset[str], float]]:
        """Every set of failed peers, with its probability."""
        below = {domain: frozenset(peer for peer in self.peers if domain in self._path[peer])
                 for domain in self.domain_probability}  # fmt: skip
        found: dict[frozenset[str], float] = {frozenset(): 1.0}
        causes = [(below[domain], value) for domain, value in self.domain_probability.items()]
        causes += [(frozenset([peer]), value) for peer, value in self.probability.items()]
        for members, value in causes:
            grown: dict[frozenset[str], float] = {}
            for failed, chance in found.items():
                for then, share in ((failed, 1.0 - value), (failed | members, value)):
                    if share > 0.0:
                        grown[then] = grown.get(then, 0.0) + chance * share
            _enumerable(len(grown))
            found = grown
        yield from found.items()

    def draw(self, rng: np.random.Generator, count: int) -> Drawn:
        """Sampled failures, shape (count, peers)."""
        failed: Drawn = rng.random((count, len(self.peers))) < np.array(list(self.probability.values()))
        for domain, value in self.domain_probability.items():
            down = rng.random(count) < value
            members = [domain in self._path[peer] for peer in self.peers]
            failed |= down[:, None] & np.array(members)
        return failed


def _known(peer: str, peers: Collection[str]) -> str:
    if peer not in peers:
        raise ValueError(f"peer: {peer!r}; expected one of the {len(peers)} that the failures are about")
    return peer


def _checked(field: str, value: float) -> float:
    if not 0.0 <= value <= 1.0:
        raise ValueError(f"{field}: {value!r}; expected a number from 0 to 1")
    return float(value)


def _enumerable(number: int) -> None:
    if number > MOST_SETS:
        raise ValueError(f"failure sets: {number}; expected at most {MOST_SETS}, which are enumerated one by one")
