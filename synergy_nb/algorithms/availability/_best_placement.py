"""The most available placement under limits, exactly: a mixed-integer programme for small systems.

Binary variables say on which group g of ϱ peers each component c has its replicas, u, and on which of these its primary
is, x. For each set s of peers that may fail together, f_s is 1 if some component has all its replicas in s:

    minimise    Σ_s P(s) f_s
    subject to  Σ_g u_cg = 1,  Σ_v x_cv = 1,  x_cv ≤ Σ_{g with v} u_cg
                f_s ≥ Σ_{g within s} u_cg                           for each component c and set s
                Σ_c p_c x_cv ≤ rp_v                                 processing
                Σ b_a x_au x_cv + Σ b_c x_cu r_cv ≤ rb_uv           streams and backups that cross a link,
                                                                    where r_cv = Σ_{g with v} u_cg
                Σ b_a x_av (1 - x_cv) + Σ (ϱ - 1) b_c x_cv ≤ ru_v   what leaves a peer by its uplink
                Σ b_a x_cv (1 - x_av) + Σ b_c (r_cv - x_cv) ≤ rd_v  what comes to it by its downlink

Products of two variables become variables of their own, on those links only that can be full. With a variable for each
peer of a component rather than for each group the programme is smaller, and far slower to solve: its relaxation says
nothing about failures.

Where all groups of ϱ peers fail with the same probability, no placement is more available than one whose components
all are on one group. So such a placement is looked for first, which is a far smaller programme, and only if none fits
the whole one is solved.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, permutations
from typing import Final, NamedTuple

import numpy as np

from synergy_nb.algorithms.availability._evaluation import availability
from synergy_nb.algorithms.availability._failures import Failures
from synergy_nb.algorithms.availability._limits import InsufficientCapacity, ResidualLimits, check_degree, components_of
from synergy_nb.control.roles import Roles
from synergy_nb.plan import Plan

MOST_GROUPS: Final = 20_000  # maximum number of groups of peers that are considered
INFEASIBLE: Final = 2  # status of scipy.optimize.milp

Term = tuple[int, float]
"""Variable and coefficient."""


class Optimum(NamedTuple):
    """A most available placement, and its availability."""

    placed: Roles
    availability: float


def optimum(
    plan: Plan, degree: int, failures: Failures, limits: ResidualLimits, *, pinned: Mapping[str, str]
) -> Optimum:
    """A placement of the highest availability that there is within limits.

    ``plan``: query plan ξ; its components may be on any of the peers that the failures are about; ``degree``:
    replication degree ϱ; ``failures``: model of how peers fail; ``limits``: residual resources of peers and links; the
    function does not change them; ``pinned``: peers of sources and sinks, and of other operators whose primary has to
    be at a certain peer.

    Raises ``ValueError`` if there are fewer peers than the degree says, or more failure sets than can be enumerated;
    ``InsufficientCapacity`` if no placement fits.
    """
    check_degree(degree, failures.peers)
    found = on_one_group(plan, degree, failures.peers, limits, pinned=pinned) if _alike(failures, degree) else None
    if found is None:
        programme = _Programme(plan, failures.peers, limits, pinned)
        programme.group(degree, failures)
        found = programme.solved()
    if found is None:
        raise InsufficientCapacity(
            "application: it does not fit on what peers and links have left, however it is placed"
        )
    return Optimum(found, availability(found, failures))


def on_one_group(
    plan: Plan, degree: int, peers: Sequence[str], limits: ResidualLimits, *, pinned: Mapping[str, str]
) -> Roles | None:
    """A placement that needs ``degree`` peers and no more; None if there is none within limits.

    Parameters are as of :func:`optimum`. For peers that fail alike no placement is more available, and this is found in
    a quarter of a second at 20 peers, 9 components and degree 4.
    """
    check_degree(degree, peers)
    programme = _Programme(plan, peers, limits, pinned)
    programme.share(degree)
    return programme.solved()


def _alike(failures: Failures, degree: int) -> bool:
    """Whether all groups of peers fail with the same probability."""
    first = failures.all_fail(failures.peers[:degree])
    for number, group in enumerate(combinations(failures.peers, degree)):
        if number > MOST_GROUPS or abs(failures.all_fail(group) - first) > 1e-12:
            return False
    return True


class _Programme:
    """Variables and constraints; all variables are from 0 to 1."""

    def __init__(self, plan: Plan, peers: Sequence[str], limits: ResidualLimits, pinned: Mapping[str, str]) -> None:
        self.plan = plan
        self.peers = peers
        self.limits = limits
        self.pinned = pinned
        self.components = components_of(plan)
        self._costs: list[float] = []
        self._whole: list[bool] = []
        self._rows: list[tuple[list[Term], float, float]] = []
        pairs = [(name, peer) for name in self.components for peer in peers]
        self.primary = {pair: self._variable() for pair in pairs}
        self.replica = {pair: self._variable(whole=False) for pair in pairs}
        for name in self.components:
            self._row([(self.primary[name, peer], 1.0) for peer in peers], 1.0, 1.0)
            if name in pinned:
                self._row([(self.primary[name, pinned[name]], 1.0)], 1.0, 1.0)
        for pair in pairs:
            self._row([(self.primary[pair], 1.0), (self.replica[pair], -1.0)], -np.inf, 0.0)
        self._processing()
        self._bandwidth()

    def share(self, degree: int) -> None:
        """Let all components be on one group of peers."""
        self._uplinks_and_downlinks(degree)
        chosen = {peer: self._variable() for peer in self.peers}
        self._row([(variable, 1.0) for variable in chosen.values()], degree, degree)
        for (_, peer), variable in self.replica.items():
            self._row([(variable, 1.0), (chosen[peer], -1.0)], 0.0, 0.0)

    def group(self, degree: int, failures: Failures) -> None:
        """Let each component be on a group of its own, at the price of the failures that it does not outlive."""
        groups = [frozenset(group) for group in combinations(self.peers, degree)]
        if len(groups) > MOST_GROUPS:
            raise ValueError(f"peers: {len(groups)} groups of {degree}; expected at most {MOST_GROUPS}")
        self._uplinks_and_downlinks(degree)
        at = {(name, group): self._variable() for name in self.components for group in groups}
        for name in self.components:
            self._row([(at[name, group], 1.0) for group in groups], 1.0, 1.0)
            for peer in self.peers:
                with_it = [(at[name, group], 1.0) for group in groups if peer in group]
                self._row([*with_it, (self.replica[name, peer], -1.0)], 0.0, 0.0)
        for failed, chance in failures.sets():
            if len(failed) >= degree:
                outage = self._variable(chance, whole=False)
                within = [group for group in groups if group <= failed]
                for name in self.components:
                    self._row([*((at[name, group], 1.0) for group in within), (outage, -1.0)], -np.inf, 0.0)

    def _variable(self, cost: float = 0.0, *, whole: bool = True) -> int:
        self._costs.append(cost)
        self._whole.append(whole)
        return len(self._costs) - 1

    def _row(self, terms: list[Term], least: float, most: float) -> None:
        self._rows.append((terms, least, most))

    def _processing(self) -> None:
        for peer in self.peers:
            fixed = sum(self.plan.load(name) for name, at in self.pinned.items()
                        if at == peer and name not in self.components)  # fmt: skip
            terms = [(self.primary[name, peer], self.plan.load(name)) for name in self.components]
            self._row(terms, -np.inf, self.limits.cores[peer] - fixed)

    def _bandwidth(self) -> None:
        places = list(dict.fromkeys([*self.peers, *self.pinned.values()]))
        streams = list(self._streams())
        most = sum(self.plan.bandwidth(up) for up, _ in streams) + sum(map(self.plan.bandwidth, self.components))
        for sender, to in permutations(places, 2):
            left = self.limits.left_on_link(sender, to)
            if left >= most:
                continue  # whatever is placed fits
            terms: list[Term] = []
            for up, name in streams:
                terms += self._both(self._at(up, sender), self._at(name, to), self.plan.bandwidth(up))
            for name in self.components:
                backed_up = self.replica.get((name, to))
                terms += self._both(self._at(name, sender), backed_up, self.plan.bandwidth(name))
            fixed = sum(amount for variable, amount in terms if variable < 0)
            self._row([term for term in terms if term[0] >= 0], -np.inf, left - fixed)

    def _uplinks_and_downlinks(self, degree: int) -> None:
        """Limit what leaves and what reaches each peer; a stream between operators of one peer counts for neither."""
        for peer in dict.fromkeys([*self.peers, *self.pinned.values()]):
            up, down = self.limits.uplinks.get(peer, math.inf), self.limits.downlinks.get(peer, math.inf)
            if up == down == math.inf:
                continue
            leaving: list[Term] = []
            coming: list[Term] = []
            for upstream, name in self._streams():
                sender, reader = self._at(upstream, peer), self._at(name, peer)
                amount = self.plan.bandwidth(upstream)
                within = self._together(sender, reader)
                leaving += [(each, sign * amount) for each, sign in ((sender, 1.0), (within, -1.0)) if each is not None]
                coming += [(each, sign * amount) for each, sign in ((reader, 1.0), (within, -1.0)) if each is not None]
            for name in self.components:
                if (name, peer) in self.primary:
                    primary, amount = self.primary[name, peer], self.plan.bandwidth(name)
                    leaving.append((primary, (degree - 1) * amount))
                    coming += [(self.replica[name, peer], amount), (primary, -amount)]
            for terms, most in ((leaving, up), (coming, down)):
                if most < math.inf:
                    fixed = sum(amount for variable, amount in terms if variable < 0)
                    self._row([term for term in terms if term[0] >= 0], -np.inf, most - fixed)

    def _together(self, one: int | None, other: int | None) -> int | None:
        """A variable that can be 1 only where two others are; if one of them is surely 1, the other one itself."""
        if one is None or other is None:
            return None
        if one < 0 or other < 0:
            return max(one, other)
        both = self._variable(whole=False)
        for each in (one, other):
            self._row([(both, 1.0), (each, -1.0)], -np.inf, 0.0)
        return both

    def _streams(self) -> Iterator[tuple[str, str]]:
        for name in self.plan.operators:
            for up in self.plan.upstream(name):
                yield up, name

    def _at(self, operator: str, peer: str) -> int | None:
        """The variable that says whether a primary is at a peer; -1 where it is for sure, None where it cannot be."""
        if operator in self.components:
            return self.primary.get((operator, peer))
        return -1 if self.pinned[operator] == peer else None

    def _both(self, one: int | None, other: int | None, amount: float) -> list[Term]:
        """``amount`` times the product of two variables."""
        if one is None or other is None:
            return []
        if one < 0 or other < 0:
            return [(max(one, other), amount)]
        product = self._variable(whole=False)
        self._row([(one, 1.0), (other, 1.0), (product, -1.0)], -np.inf, 1.0)
        return [(product, amount)]

    def solved(self) -> Roles | None:
        """What is best, or None if nothing is feasible."""
        from scipy.optimize import Bounds, LinearConstraint, milp  # noqa: PLC0415 - a second that no peer needs to wait
        from scipy.sparse import csr_array  # noqa: PLC0415 - as above

        entries = [(row, column, value) for row, (terms, _, _) in enumerate(self._rows) for column, value in terms]
        rows, columns, values = (np.array(each) for each in zip(*entries, strict=True))
        matrix = csr_array((values, (rows, columns)), shape=(len(self._rows), len(self._costs)))
        constraint = LinearConstraint(matrix, [least for _, least, _ in self._rows], [most for *_, most in self._rows])
        found = milp(
            np.array(self._costs), integrality=np.array(self._whole, dtype=np.int64), bounds=Bounds(0.0, 1.0),
            constraints=constraint, options={"mip_rel_gap": 0.0},
        )  # fmt: skip
        if found.status == INFEASIBLE:
            return None
        if found.x is None:
            raise RuntimeError(f"mixed-integer programme: {found.message}")
        primaries: dict[str, str] = {}
        backups: dict[str, tuple[str, ...]] = {}
        for name in self.plan.operators:
            if name not in self.components:
                primaries[name] = self.pinned[name]
                continue
            primaries[name] = next(peer for peer in self.peers if found.x[self.primary[name, peer]] > 0.5)
            chosen = [peer for peer in self.peers if found.x[self.replica[name, peer]] > 0.5]
            backups[name] = tuple(peer for peer in chosen if peer != primaries[name])
        return Roles(primaries, backups)
