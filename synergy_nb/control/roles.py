"""The roles of all peers in an application: which peer executes an operator, backs it up, follows or rebuilds it.

A *component graph* λ (section 2.2.1) maps each operator of a query plan to the peer whose component executes it. A
*replication graph* ρ (section 4.2) maps each component to the peers of its backups.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from synergy_nb.plan import Plan

__all__ = ["Roles"]


class Roles(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The peer, backups and follower of each operator of a plan: the graphs λ and ρ (section 4.2).

    Examples
    --------
    >>> placed = Roles({"source": "a", "o1": "a", "sink": "c"}, {"o1": ("b",)})
    >>> placed.replicas, sorted(placed.hosts), placed.at("a")
    ({'o1': ('a', 'b')}, ['a', 'b'], {'source': 'primary', 'o1': 'primary'})
    >>> taken = placed.replaced({"o1": "b"}, {"o1": ()})
    >>> taken.peers["o1"], taken.backups, taken.epochs
    ('b', {'o1': ()}, {'o1': 1})
    """

    # component graph λ: operator id to the address of the peer that executes it, its primary. The address of an active
    # replica that was lost is empty
    peers: dict[str, str] = {}
    # replication graph ρ: replicated operator to the addresses of its backups, in the order in which they were placed.
    # The primary sends its output to each of them
    backups: dict[str, tuple[str, ...]] = {}
    followers: dict[str, str] = {}  # operator that is to move to the address of its follower
    # operator to the number of its moves and take-overs; operators without any are left out
    epochs: dict[str, int] = {}
    # operator that reads active replicas to the number of each of its inputs, and to what it reads: the number n of an
    # input of the plan, or -1 - n if that stream was discarded. The stream of a revived or rebuilt replica is a further
    # input, whose number is greater than all before it; then discarded ones are forgotten, beyond the number of inputs
    # in the plan. Operators without a discarded or further stream are left out
    inputs: dict[str, dict[int, int]] = {}
    # active replica that is being rebuilt to the replica whose state it starts from, and to its new peer, which has a
    # copy of that one. `peers` has its new peer once it executes. An operator that gets another backup to itself, and
    # to the peer of that, which `backups` has once it could take over. A replica that goes on from a folder to that
    rebuilds: dict[str, tuple[str, str]] = {}
    # active replica to the epoch in which it was last rebuilt; replicas that never were are left out
    rebuilt: dict[str, int] = {}

    @property
    def replicas(self) -> dict[str, tuple[str, ...]]:
        """Each replicated operator to the peers of all its replicas, the primary first."""
        return {name: (self.peers[name], *peers) for name, peers in self.backups.items()}

    @property
    def hosts(self) -> frozenset[str]:
        """Peers with replicas; peers that only execute operators without backups are not among them."""
        return frozenset(peer for peers in self.replicas.values() for peer in peers)

    @property
    def copies(self) -> frozenset[str]:
        """Peers with backups or followers, or with a copy from which a replica is rebuilt."""
        building = {peer for _, peer in self.rebuilds.values()}
        backups = {peer for peers in self.backups.values() for peer in peers}
        return frozenset(backups | building | set(self.followers.values()))

    @property
    def addresses(self) -> frozenset[str]:
        """All peers that take part."""
        return self.copies | frozenset(filter(None, self.peers.values()))

    def at(self, address: str) -> dict[str, str]:
        """Roles of a peer: operator id to ``primary`` or ``backup``."""
        found = {name: "primary" for name, peer in self.peers.items() if peer == address}
        return found | dict.fromkeys(self.backed_up(address), "backup")

    def backed_up(self, address: str) -> list[str]:
        """Operators with a backup at a peer, or with one that is being set up there, sorted."""
        found = {operator for operator, peers in self.backups.items() if address in peers}
        new = {name for name, (source, peer) in self.rebuilds.items() if name == source and peer == address}
        return sorted(found | new)

    def copied_for(self, operator: str) -> tuple[str, ...]:
        """Peers at which a replica is being rebuilt, or another backup made, from a copy of an operator."""
        return tuple(peer for source, peer in self.rebuilds.values() if source == operator)

    def merged(self, other: Roles) -> Roles:
        """The union of two parts of one graph."""
        return Roles({**self.peers, **other.peers}, {**self.backups, **other.backups})

    def with_follower(self, operator: str, peer: str) -> Roles:
        """The same roles with a follower of an operator at a peer; a backup there becomes the follower."""
        backups = self.backups
        if operator in backups:
            backups = {**backups, operator: tuple(each for each in backups[operator] if each != peer)}
        return msgspec.structs.replace(self, backups=backups, followers={operator: peer})

    def replaced(self, successors: Mapping[str, str], backups: Mapping[str, tuple[str, ...]]) -> Roles:
        """The same roles with operators at other peers, each in its next epoch, and without followers."""
        epochs = {**self.epochs, **{name: self.epochs.get(name, 0) + 1 for name in successors}}
        peers = {**self.peers, **successors}
        return msgspec.structs.replace(self, peers=peers, backups=dict(backups), followers={}, epochs=epochs)

    def without(self, lost: Collection[str]) -> Roles:
        """The same roles after active replicas were lost: nobody executes them."""
        rebuilds = {name: each for name, each in self.rebuilds.items() if name not in lost}
        return msgspec.structs.replace(self, peers={**self.peers, **dict.fromkeys(lost, "")}, rebuilds=rebuilds)

    def rebuilding(self, replica: str, source: str, peer: str) -> Roles:
        """The same roles while a lost replica is to be rebuilt at a peer: it gets a copy of another one, the source.

        If the source is the replica itself, the copy is to become a backup of it.
        """
        if source == replica:
            return msgspec.structs.replace(self, rebuilds={replica: (source, peer)})
        inputs = {name: numbers for name, numbers in self.inputs.items() if name != replica}
        if source in inputs:  # it begins where the source is, so it reads what that reads
            inputs[replica] = inputs[source]
        return msgspec.structs.replace(self, inputs=inputs, rebuilds={replica: (source, peer)})

    def with_rebuilt(self, plan: Plan, replica: str) -> Roles:
        """The same roles once a rebuilt replica executes, in an epoch and a stream of its own.

        Its readers have a further input for it, as positions in the new stream are not those of the old one.
        """
        epoch = self.epochs.get(replica, 0) + 1
        roles = msgspec.structs.replace(
            self,
            peers={**self.peers, replica: self.rebuilds[replica][1]},
            epochs={**self.epochs, replica: epoch},
            rebuilt={**self.rebuilt, replica: epoch},
        )
        for reader, node in plan.operators.items():
            for number, up in enumerate(node.inputs):
                if up == replica and self.peers[reader]:
                    roles = roles.without_stream(plan, reader, number).with_stream(plan, reader, number)
        return roles

    def with_kept(self, replica: str) -> Roles:
        """The same roles once a lost replica goes on from a folder, in the stream that it had."""
        to = self.rebuilds[replica][1]
        return self.released(replica).replaced({replica: to}, self.backups)

    def with_backup(self, operator: str) -> Roles:
        """The same roles after the further backup of an operator has become able to take over."""
        backups = {**self.backups, operator: (*self.backups.get(operator, ()), self.rebuilds[operator][1])}
        return msgspec.structs.replace(self.released(operator), backups=backups)

    def released(self, replica: str) -> Roles:
        """The same roles without the copy from which a replica is rebuilt: the rebuild is done or given up."""
        rebuilds = {name: each for name, each in self.rebuilds.items() if name != replica}
        return msgspec.structs.replace(self, rebuilds=rebuilds)

    def present(self, plan: Plan, operator: str) -> dict[int, int]:
        """Number of each input of an operator to what it reads, see ``inputs``."""
        known = self.inputs.get(operator)
        return {number: number for number in range(len(plan.operators[operator].inputs))} if known is None else known

    def reads(self, plan: Plan, operator: str) -> dict[int, str]:
        """What each input of an operator reads; an empty text for a discarded stream and for a lost replica."""
        inputs = plan.operators[operator].inputs
        names = {number: inputs[at] if at >= 0 else "" for number, at in self.present(plan, operator).items()}
        return {number: up if up and self.peers[up] else "" for number, up in names.items()}

    def ports(self, plan: Plan, operator: str) -> tuple[int, ...]:
        """Port of an operator that each of its inputs feeds; empty where each has a port of its own."""
        node, present = plan.operators[operator], self.present(plan, operator)
        if not node.ports:
            return ()
        return tuple(node.ports[at if at >= 0 else -1 - at] for at in present.values())

    def without_stream(self, plan: Plan, reader: str, at: int) -> Roles:
        """The same roles after the stream of an input of the plan was discarded."""
        left = {number: -1 - at if each == at else each for number, each in self.present(plan, reader).items()}
        return msgspec.structs.replace(self, inputs={**self.inputs, reader: left})

    def with_stream(self, plan: Plan, reader: str, at: int) -> Roles:
        """The same roles after the discarded stream of an input was revived, as a further input."""
        present = self.present(plan, reader)
        found = {**present, max(present) + 1: at}
        for number in [number for number, each in present.items() if each < 0]:
            if len(found) > len(plan.operators[reader].inputs):
                del found[number]
        return msgspec.structs.replace(self, inputs={**self.inputs, reader: found})
