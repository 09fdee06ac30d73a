"""Shared streams that move or are taken over: their readers follow. Sessions and streams, in virtual time."""

from __future__ import annotations

import contextlib
import math
import random

import polars as pl
import pytest

from synergy_nb.control.driver_messages import StopApplication
from synergy_nb.control.graph import Producer
from synergy_nb.events.application_states import State
from synergy_nb.lifecycle.records.members import producer_of
from synergy_nb.lifecycle.records.messages import Graph
from synergy_nb.plan import Plan
from synergy_nb.plan.builder import Stream
from synergy_nb.reporting.explanation import Explanation
from tests.quick_cases import quick_first
from tests.session_streams import Both, packets, table
from tests.stream_schedules import drawn_faults, sorted_rows

STREAMS = 2  # sources of the application whose stream is shared


def stem(*at: str) -> Stream:
    """Two sources, their union and an operator behind it, on peers of their own."""
    feeds, union, end = at
    one = packets(0, feeds).union(packets(1, feeds), id="u", at=union)
    return one.filter("bytes >= 0", id="end", at=end)


def owner(at: tuple[str, str, str], degree: int) -> Plan:
    return stem(*at).sink(id="sink", availability=f"degree {degree}") if degree > 1 else stem(*at).sink(id="sink")


def reader(at: tuple[str, str, str], number: int, where: str, own: int | None = None) -> Plan:
    """All that the owner makes; with tuples of a source of its own, where there is one."""
    shared = stem(*at).filter(f"destination_port >= -{number}", id="g", at=where)
    if own is not None:
        shared = shared.union(packets(own, where), id="w", at=where)
    return shared.sink(id="sink")


class Sharing(Both):
    """Applications of which some share streams of others, and what becomes of them."""

    def __init__(self, seed: int, sources: int = 3, rows: int = 800) -> None:
        super().__init__(12, seed, sources=sources, rows=rows)
        self.origins: dict[str, str] = {}
        self.outcomes: list[list[str]] = []
        self.lost: set[str] = set()

    def begin(self, at: str, name: str, query: Plan) -> None:
        self.origins[name] = at
        self.submit(at, name, query)
        self.until_running(name)

    def crash(self, address: str) -> None:
        self.lost.add(address)
        super().crash(address)

    def where(self, name: str, operator: str) -> str:
        """Where a component is now, as the origin of its application knows."""
        graph = self.synergy[self.origins[name]].session.graph(name)
        assert graph is not None
        return graph.roles.peers[operator]

    def asked(self, name: str, operator: str, to: str) -> list[str]:
        """Ask for a move, if it can be."""
        outcome: list[str] = []
        with contextlib.suppress(ValueError):
            outcome = self.move(self.origins[name], name, operator, to)
            self.outcomes.append(outcome)
        return outcome

    def in_order(self, name: str) -> list[tuple[object, ...]]:
        """The rows of an application that has ended, as they came."""
        self.until_ended(name)
        return self.streams.results[name, "sink"].rows.rows()


AT = ("peer-1", "peer-2", "peer-3")


def owner_and_reader(seed: int, degree: int, seconds: float = 0.2) -> Sharing:
    """An application, another one that reads its stream, and so many seconds of both."""
    ring = Sharing(seed)
    ring.begin("peer-0", "a", owner(AT, degree))
    ring.run(0.2)
    ring.begin("peer-5", "b", reader(AT, 1, "peer-6"))
    ring.run(seconds)
    return ring


@pytest.mark.slow
def test_the_readers_of_a_stream_that_moves_follow() -> None:
    ring = owner_and_reader(1, 1)
    first = ring.asked("a", "end", "peer-7")
    ring.run(0.5)
    second = ring.asked("a", "u", "peer-8")
    ring.run(0.5)
    third = ring.asked("a", "end", "peer-3")
    assert not ring.streams.results["a", "sink"].ended
    rows, shared = ring.in_order("a"), ring.in_order("b")
    assert [first, second, third] == [[""]] * 3
    assert sorted(rows, key=repr) == sorted_rows(table(100).vstack(table(101)))
    assert 0 < len(shared) < len(rows)
    assert shared == rows[-len(shared) :]
    assert ring.where("b", "end") == "peer-3"
    account = Explanation("b", ring.events("b"), {})
    assert account.moves == [
        "end of a, which it shares, from peer-3 to peer-7",
        "u of a, which it shares, from peer-2 to peer-8",
        "end of a, which it shares, from peer-7 to peer-3",
    ]
    assert account.peers["end"] == "peer-3"


def test_a_shared_component_has_the_earliest_deadline_of_its_users() -> None:
    ring = Sharing(1)
    ring.begin("peer-0", "a", owner(AT, 1))
    ring.run(0.2)
    shared = reader(AT, 1, "peer-6")
    ring.begin("peer-5", "b", Plan(shared.operators.values(), {"delay": 0.7}, shared.name))
    ring.run(0.2)
    components = [each for node in ring.streams.nodes.values() for each in node.hosting.components.values()]
    limits = {each.operator: each.sharers_limit for each in components if each.application == "a"}
    assert limits.pop("sink") == math.inf
    assert limits
    assert set(limits.values()) == {0.7}


@pytest.mark.slow
def test_the_readers_of_a_stream_that_is_taken_over_follow() -> None:
    ring = owner_and_reader(2, 2, 0.3)
    ring.crash("peer-3")
    ring.run(4.0)
    ring.crash(ring.where("a", "u"))
    rows, shared = ring.in_order("a"), ring.in_order("b")
    assert sorted(rows, key=repr) == sorted_rows(table(200).vstack(table(201)))
    assert 0 < len(shared) < len(rows)
    assert shared == rows[-len(shared) :]


@pytest.mark.slow
def test_a_stream_that_changes_is_not_shared_and_the_change_is_named() -> None:
    ring = owner_and_reader(1, 2)
    session, graph = ring.synergy["peer-0"].session, ring.synergy["peer-5"].session.graph("b")
    assert graph is not None
    to = next(each for each in ring.synergy if each not in session.graph("a").addresses)  # type: ignore[union-attr]
    ring.asked("a", "end", to)
    assert session.sharers.admit(graph)[1] == f"end: a, which makes it, is changing: end is moving to {to}"
    ring.run(2.0)
    assert session.sharers.admit(graph)[1] == "end: end of a has moved"
    ring.crash(ring.where("a", "u"))
    while session.sharers.led["a"].state is State.RUNNING:
        ring.run(0.01)
    assert session.sharers.led["a"].state is State.TAKING_OVER
    assert session.sharers.admit(graph)[1] == "end: a, which makes it, is changing: backups take over"


def plans(rng: random.Random) -> dict[str, Plan]:
    """An application whose stream others share, one of them that of the other one."""
    where = {"b": "peer-4", "c": "peer-7"}
    numbers = {"b": 1, "c": rng.choice((1, 2))}  # the third shares the stream of the second, if there is one
    found = {"a": owner(AT, rng.choice((1, 2, 2, 3)))}
    for name, number in numbers.items():
        shared = stem(*AT).filter(f"destination_port >= -{number}", id="g", at=where[name])
        if number == 1 and name == "c":
            shared = shared.filter("source_port >= -9", id="h", at=where[name])
        if rng.random() < 0.5:
            shared = shared.union(packets(2 if name == "b" else 3, where[name]), id="w", at=where[name])
        wanted = {"availability": "degree 2"} if rng.random() < 0.5 else {}
        found[name] = shared.sink(id="sink", **wanted)
    return found


def _makers(graph: Graph) -> set[Producer]:
    """The components whose streams an application shares."""
    found = {producer_of(graph, Plan.from_bytes(graph.plan), tap) for tap in graph.shared}
    return {maker for maker in found if maker is not None}


def bearable(ring: Sharing, victim: str) -> bool:
    """Whether all that is on a peer has another that can take over, those aside that died, and nothing is moving."""
    lost = ring.lost | {victim}
    for name, at in ring.origins.items():
        graph = ring.synergy[at].session.graph(name)
        if graph is None or graph.roles.followers:
            return False
        for operator, peer in graph.roles.peers.items():
            if peer in lost and operator not in graph.shared and lost.issuperset(graph.roles.backups.get(operator, ())):
                return False
    return True


def run_sharing(seed: int) -> None:
    """Moves, deaths and losses at any moment, for three applications of which two share streams."""
    rng = random.Random(seed)
    ring = Sharing(seed, sources=4, rows=rng.choice((400, 800)))
    origins = {"a": "peer-0", "b": "peer-5", "c": "peer-9"}
    for name, query in plans(rng).items():
        ring.begin(origins[name], name, query)
        ring.run(rng.uniform(0.0, 0.3))
        if rng.random() < 0.15:
            ring.asked("a", rng.choice(("u", "end")), rng.choice(sorted(ring.synergy)))
            ring.run(rng.uniform(0.0, 0.3))
    ring.run(rng.choice((0.2, 0.8)))
    ring.simulation.loss = rng.choice((0.0, 0.0, 0.05, 0.1))
    ring.streams.links.faults = drawn_faults(rng)
    deaths = 0
    for _ in range(rng.randint(1, 6)):
        mortal = sorted(ring.synergy.keys() - {*origins.values(), "peer-1", "peer-4", "peer-7"})
        if rng.random() < 0.35 and deaths < 2:
            victim = rng.choice(mortal)
            if bearable(ring, victim):
                deaths += 1
                ring.crash(victim)
                ring.run(rng.choice((0.0, 1.5, 4.0)))
        else:
            name = rng.choice(sorted(origins))
            ring.asked(name, rng.choice(("u", "end", "g", "h", "w")), rng.choice(mortal))
            ring.run(rng.choice((0.05, 0.3, 1.0)))
    rows = {name: ring.in_order(name) for name in origins}
    assert sorted(rows["a"], key=repr) == sorted_rows(pl.concat([ring.streams.inputs["s0"], ring.streams.inputs["s1"]]))
    for name in "bc":
        mine = set(ring.streams.inputs["s2" if name == "b" else "s3"].rows())
        graph = ring.synergy[origins[name]].session.graph(name)
        assert graph is not None
        theirs = [row for row in rows[name] if row not in mine]
        assert len(rows[name]) == len(theirs) + (len(mine) if {"s2", "s3"} & graph.roles.peers.keys() else 0)
        if not graph.shared:  # what it wanted to share was moving
            assert sorted(theirs, key=repr) == sorted(rows["a"], key=repr)
            continue
        made = {maker.operator for maker in _makers(graph)}
        if made == {"s0", "s1"}:  # their union was moving, so it has one of its own
            for source in sorted(made):
                table, read = ring.streams.inputs[source].rows(), set(theirs)
                found = [row for row in table if row in read]
                assert found == table[len(table) - len(found) :], f"{name} has not all of {source}"
            continue
        (lender,) = {maker.application for maker in _makers(graph)}
        own = set(ring.streams.inputs["s2"].rows())
        lent = [row for row in rows[lender] if row not in own]
        assert theirs == lent[len(lent) - len(theirs) :], f"{name} has not all from where it joined, in order"


@pytest.mark.slow
@pytest.mark.parametrize("seed", quick_first(range(12), 1))
def test_a_sharer_has_the_whole_stream_whatever_happens(seed: int) -> None:
    run_sharing(seed)


def run_left_alone(seed: int) -> None:
    """The owner of a shared stream ends at any moment, also while something of it moves or is taken over."""
    rng = random.Random(seed)
    ring = Sharing(seed, sources=2)
    ring.begin("peer-0", "a", owner(AT, rng.choice((1, 2))))
    ring.run(rng.uniform(0.1, 0.3))
    ring.begin("peer-5", "b", reader(AT, 1, "peer-6"))
    ring.run(rng.uniform(0.1, 0.5))
    for _ in range(rng.randint(0, 2)):
        ring.asked("a", rng.choice(("u", "end")), rng.choice(sorted(ring.synergy)))
        ring.run(rng.choice((0.02, 0.1, 0.5)))
    if rng.random() < 0.3 and bearable(ring, ring.where("a", "end")):
        victim = ring.where("a", "end")
        if victim not in {"peer-0", "peer-1", "peer-5", "peer-6"}:
            ring.crash(victim)
            ring.run(rng.choice((3.0, 4.0)))
    ring.simulation.report("peer-0", StopApplication("a"))
    rows = set(ring.in_order("b"))
    for source in ("s0", "s1"):
        table = ring.streams.inputs[source].rows()
        found = [row for row in table if row in rows]
        assert found
        assert found == table[len(table) - len(found) :], f"b has not all of {source}"
    ring.simulation.report("peer-5", StopApplication("b"))
    ring.run(20.0)
    assert not any(each.ledger.requests or each.session.applications for each in ring.synergy.values())
    assert not ring.deployments
    for each in ring.synergy.values():
        assert not each.membership.watched


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_a_stream_goes_on_for_its_sharers_when_its_owner_ends(seed: int) -> None:
    run_left_alone(seed)
