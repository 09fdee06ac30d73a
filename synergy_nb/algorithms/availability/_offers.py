"""What a peer offers to take when it is asked for the primary of a component: placement that looks ahead.

By section 4.4 a peer answers for one component. Where it, or a link of it, is full a few components later, the
application needs another peer, although it would have had room elsewhere from the beginning. Here a peer that is asked
for a primary offers all components that follow, as many of them as it has room for, together with the peers of their
backups. The peer that asks compares offers, and takes the one by which the application depends on fewest groups of
peers: a group is the peers of all replicas of a component, and the application fails if all peers of one have failed.

No peer needs to know more than before. It is the only sender on its links to others, so it knows what they still carry;
and it is the receiving end of the links to itself. An offer holds cores and bandwidth until it is decided on, and is
decided on as a whole; so placements at the same time cannot divide what it promises.

Of all numbers of components a peer can take, it offers the one with fewest groups, and of these the greatest:

- all that follow, with the backups on as few groups as its links allow;
- some, where one of the backups' peers can take the rest, and have its backups in the same group;
- some, where others have to take the rest; that counts as a group more, or as many as links like its own would need.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from synergy_nb.algorithms.availability._limits import components_of
from synergy_nb.algorithms.availability.link_survey import SurveyedLink
from synergy_nb.algorithms.availability.messages import PlacementConfig, Task
from synergy_nb.algorithms.availability.selection import drawbacks, ordered, single_peers, used_peers
from synergy_nb.control.ledger import ROUNDING
from synergy_nb.control.roles import Roles
from synergy_nb.plan import Plan

Groups = dict[str, tuple[str, ...]]
"""Component to the peers of its backups."""


class Offer(NamedTuple):
    """What a peer takes."""

    backups: Groups  # each component whose primary it takes, to the peers of its backups
    groups: int  # number of groups of peers on which the application then depends

    @property
    def operators(self) -> tuple[str, ...]:
        """The components whose primaries it takes, each after those that it reads."""
        return tuple(self.backups)

    def bandwidth(self, plan: Plan, task: Task, own: str) -> dict[str, float]:
        """Bandwidth that the links of the peer ``own`` have to carry for this offer, bytes/s by receiving peer."""
        needed: dict[str, float] = {}
        for name, peers in self.backups.items():
            readers = (task.for_primary(each) for each in plan.downstream(name) if each not in self.backups)
            for peer in (*peers, *(only for only, *others in readers if not others and only != own)):
                needed[peer] = needed.get(peer, 0.0) + plan.bandwidth(name)
        return needed


def following(plan: Plan, graph: Roles, operator: str) -> list[str]:
    """An operator and all that can be placed with it: unplaced ones that read only these; each after its inputs."""
    found = [operator]
    for name in plan.operators:
        upstream = plan.upstream(name)
        if name not in graph.peers and name in components_of(plan) and upstream and set(upstream) <= set(found):
            found.append(name)
    return found


def least_groups(groups: Iterable[Collection[str]]) -> int:
    """Number of groups of peers, without those that contain another one.

    Examples
    --------
    >>> least_groups([("a", "b"), ("b", "a"), ("a", "b", "c"), ("a", "c")])
    2
    """
    every = {frozenset(group) for group in groups}
    return sum(not any(other < group for other in every) for group in every)


def best_offer(
    task: Task,
    plan: Plan,
    graph: Roles,
    own: str,  # the peer that makes the offer
    ahead: Sequence[str],  # components as of `following`; the peer is asked for the first of them
    most: int,  # number of the first of these for which the peer has free cores, and whose other inputs it can receive
    links: Mapping[str, SurveyedLink],  # known links from the peer, by peer, with what they still carry
    returned: Callable[[str], float],  # bandwidth that the link from another peer still carries, bytes/s
    uplink: float,  # bandwidth that the uplink of the peer still carries, bytes/s
    # whether backups need room for a take-over, and whether they keep apart from sources, sinks and the origin
    config: PlacementConfig,
) -> Offer | None:
    """The offer of a peer; None if its links do not carry even the first component with its backups."""
    view = _View(task, plan, graph, own, links, config)
    best: Offer | None = None
    for count in range(most, 0, -1):
        names, rest = ahead[:count], ahead[count:]
        left = view.after_leaving(names)
        if left is None:
            continue
        room, leaving, onward = left
        leaving += sum(plan.bandwidth(name) * (task.degree_of(name) - 1) for name in names)
        if leaving * (1.0 - ROUNDING) > uplink:
            continue
        offers = [view.shared(names, rest, room, onward, returned)] if rest else []
        offers.append(view.packed(names, room, onward))
        for found in offers:
            if found is not None:
                more = view.elsewhere(rest) if found is offers[-1] else 0
                groups = least_groups([*graph.replicas.values(), *((own, *peers) for peers in found.values())]) + more
                if best is None or groups < best.groups:
                    best = Offer(found, groups)
        fewest = 1 if not graph.backups else least_groups(graph.replicas.values())
        if best is not None and (task.stuck or best.groups <= fewest):
            break
    return best


class _View:
    """What one peer knows when it makes an offer."""

    def __init__(
        self, task: Task, plan: Plan, graph: Roles, own: str, links: Mapping[str, SurveyedLink], config: PlacementConfig
    ) -> None:
        self.task = task
        self.plan = plan
        self.graph = graph
        self.own = own
        self.links = links
        self.room_first = config.room_first
        self.used = used_peers(plan, graph) | {own}
        self.single = single_peers(task, plan, graph) if config.apart_first else frozenset[str]()

    def after_leaving(self, names: Collection[str]) -> tuple[dict[str, float], float, list[tuple[str, float]]] | None:
        """What links carry beside the streams from components to operators elsewhere; None if not even these.

        Returns: peer to bytes/s, without the streams to peers that are known.

        Returns: bytes/s of all streams from components to operators elsewhere.

        Returns: operators that are not placed yet, with the bytes/s of the stream to each.
        """
        room = {peer: link.bandwidth for peer, link in self.links.items() if peer != self.own}
        leaving, onward = 0.0, list[tuple[str, float]]()
        for name in names:
            bandwidth = self.plan.bandwidth(name)
            for reader in self.plan.downstream(name):
                at = self.task.for_primary(reader)
                if reader in names or at == (self.own,):
                    continue
                leaving += bandwidth
                if len(at) == 1:
                    if room.get(at[0], 0.0) < bandwidth * (1.0 - ROUNDING):
                        return None
                    room[at[0]] -= bandwidth
                else:
                    onward.append((reader, bandwidth))
        return room, leaving, onward

    def packed(
        self, names: Sequence[str], room: Mapping[str, float], onward: Sequence[tuple[str, float]]
    ) -> Groups | None:
        """Choose backups on few groups of peers, and leave a link for each stream that goes on to others."""
        left, carries, used, found = list(names), dict(room), set(self.used), Groups()
        while left:
            for count in range(len(left), 0, -1):
                group = self.existing(left[:count], carries, found) or self.group(left[:count], carries, used, found)
                if group is not None:
                    break
            else:
                return None
            for name in left[:count]:
                found[name] = group
                for peer in group:
                    carries[peer] -= self.plan.bandwidth(name)
            used.update(group)
            del left[:count]
        for reader, bandwidth in onward:
            able = [peer for peer in self.task.for_primary(reader) if peer in carries]
            if not any(carries[peer] >= bandwidth * (1.0 - ROUNDING) for peer in able):
                return None
        return found

    def elsewhere(self, rest: Sequence[str]) -> int:
        """Number of groups for components at other peers, if all links there carry as much as the widest one here."""
        widest = max((link.bandwidth for peer, link in self.links.items() if peer != self.own), default=0.0)
        groups, left = 0, 0.0
        for name in rest:
            bandwidth = self.plan.bandwidth(name) * (1.0 - ROUNDING)
            if not groups or bandwidth > left:
                groups, left = groups + 1, widest
            left -= bandwidth
        return groups

    def shared(
        self,
        names: Sequence[str],
        rest: Sequence[str],
        room: Mapping[str, float],
        onward: Sequence[tuple[str, float]],
        returned: Callable[[str], float],
    ) -> Groups | None:
        """Choose backups of components on one group of peers, of which one can take the rest; None if there is none."""
        backups = sum(self.plan.bandwidth(name) for name in names)
        between = sum(bandwidth for reader, bandwidth in onward if reader in rest)
        behind = sum(map(self.plan.bandwidth, rest))
        cores = sum(map(self.plan.load, [*names, *rest] if self.room_first else rest))
        able = [
            peer
            for peer in self._candidates(names)
            if all(peer in self.task.for_primary(name) for name in rest)
            and room.get(peer, 0.0) >= (backups + between) * (1.0 - ROUNDING)
            and self.links[peer].cores >= cores * (1.0 - ROUNDING)
            and returned(peer) >= behind * (1.0 - ROUNDING)
        ]
        if len({self.task.degree_of(name) for name in (*names, *rest)}) > 1 or self.task.degree_of(names[0]) < 2:
            return None
        group = self.group(names, room, self.used, {}, able)
        return None if group is None else dict.fromkeys(names, group)

    def existing(self, names: Sequence[str], room: Mapping[str, float], placed: Groups) -> tuple[str, ...] | None:
        """Choose backups of several components on the peers of a group on which the application depends already."""
        groups = {frozenset((*peers, self.own)) for peers in placed.values()} | set(
            map(frozenset, self.graph.replicas.values())
        )
        for peers in sorted(sorted(each - {self.own}) for each in groups if self.own in each):
            found, beside = self.group(names, room, peers, placed, peers), peers
            if found is not None and sorted(found) == beside:
                return found
        return None

    def group(
        self,
        names: Sequence[str],
        room: Mapping[str, float],  # peer to the bytes/s that the link to it carries
        used: Collection[str],  # peers that the application uses
        placed: Groups,  # backups of other components that have been chosen before
        first: Collection[str] | None = None,  # peers of which the first backup has to be one; None for all
    ) -> tuple[str, ...] | None:
        """Choose peers for the backups of several components; None where one component alone would have better ones."""
        if len({self.task.degree_of(name) for name in names}) > 1:
            return None
        bandwidth = sum(map(self.plan.bandwidth, names)) * (1.0 - ROUNDING)
        if sum(carried >= bandwidth for carried in room.values()) < self.task.degree_of(names[0]) - 1:
            return None
        links = {peer: self.links[peer]._replace(bandwidth=room[peer]) for peer in room if peer in self.links}
        chosen: list[str] = []
        for number in range(self.task.degree_of(names[0]) - 1):
            beside = [self.own, *chosen]
            able = self._candidates(names)
            if first is not None and not number:
                able = [peer for peer in able if peer in first]
            orders = [
                ordered(peers, links, used, sum(map(self.plan.bandwidth, some)), beside,
                        partial(self._needs, some, placed), self.single)
                for some, peers in ((names, able), (names[:1], self._candidates(names[:1])))
            ]  # fmt: skip
            if not all(orders):
                return None
            together, alone = (
                drawbacks(order[0], links, beside, self._needs(some, placed, order[0]), self.single)
                for order, some in zip(orders, (names, names[:1]), strict=True)
            )
            if together > alone:
                return None
            chosen.append(orders[0][0])
        return tuple(chosen)

    def _candidates(self, names: Sequence[str]) -> list[str]:
        """Peers that can have backups of all of some components."""
        first, *others = (self.task.candidates[name] for name in names)
        return [peer for peer in first if all(peer in each for each in others)]

    def _needs(self, names: Collection[str], placed: Groups, peer: str) -> float:
        """Cores that a peer needs to execute components, and those that it backs up."""
        if not self.room_first:
            return 0.0
        every = {**self.graph.backups, **placed}
        backed_up = {name for name, peers in every.items() if peer in peers}
        return sum(self.plan.load(name) for name in backed_up.union(names))
