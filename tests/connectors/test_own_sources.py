"""Sources of one's own that peers execute: the protocol holds across the process in which the author's code runs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from synergy_nb import BrokenForNow, Cluster, ClusterError, Plan, PlanError, Polled, Simulation, Source, reader, source
from synergy_nb.connectors.own_sources import OwnSource
from synergy_nb.events import SourceBroken, SourceMended, SourceRemarked
from synergy_nb.plan.derived.lost_rows import lost_rows
from synergy_nb.testing import check_source


@reader(columns={"n": "int", "process": "int"}, time="at")
class Numbers(Source):
    """Numbers up to one; before one of them it is broken for now, and at one it fails."""

    repeats = True

    def __init__(self, upto: int, breaks_at: int = -1, fails_at: int = -1, pauses: int = 1) -> None:
        self.upto, self.breaks_at, self.fails_at = upto, breaks_at, fails_at
        self.silent, self.pauses = False, pauses

    def open(self, position: Any) -> None:
        self.next = position or 0

    def poll(self, seconds: float) -> Polled | None:
        self.silent = not self.silent
        if self.silent and self.pauses:
            return None
        if self.next == self.breaks_at:
            self.breaks_at = -1
            raise BrokenForNow("the meter: it is being read by somebody else")
        if self.next == self.fails_at:
            raise ValueError("the meter is on fire")
        if self.next >= self.upto:
            return Polled(position=self.next, ends=True)
        self.next += 1
        row = {"at": self.next, "n": self.next, "process": os.getpid()}
        said = ("half of it",) if 2 * self.next == self.upto else ()
        return Polled([row], self.next, said=said)


def numbers(**arguments: int) -> Plan:
    return source(Numbers, arguments=arguments, ends=True, id="s").sink("out")


def local(**arguments: int) -> OwnSource:
    plan = numbers(**arguments)
    return OwnSource.local("s", plan.operators["s"].params, plan.schema("s"))


def test_it_keeps_the_protocol_through_calls() -> None:
    check_source(
        lambda: local(upto=9), broken=lambda: local(upto=9, breaks_at=0), wrong=lambda: local(upto=9, fails_at=0)
    )


def test_a_simulation_reads_one_that_ends() -> None:
    assert Simulation(peers=2).submit(numbers(upto=5, pauses=0)).results()["n"].to_list() == [1, 2, 3, 4, 5]
    endless = source(Numbers, arguments={"upto": 5}).sink("out")
    with pytest.raises(ClusterError, match="connector: 'own', which waits for what comes"):
        Simulation(peers=2).submit(endless)


def test_what_is_lost_after_the_death_of_all_is_what_it_does_not_repeat() -> None:
    assert lost_rows(numbers(upto=5)) == {}
    once = source("own", function="meters:Meters", columns={"n": "int"}, id="s").sink("out")
    assert lost_rows(once) == {"s": "rows that it does not give again"}


def test_what_cannot_be_one_is_said_at_once() -> None:
    with pytest.raises(ValueError, match="reader: Other; expected a class that derives from Source"):
        reader(columns={"n": "int"})(type("Other", (), {}))
    with pytest.raises(PlanError, match="expected arguments by name with values that JSON has"):
        source(Numbers, arguments={"upto": object()}).sink("out")
    with pytest.raises(ValueError, match=r"arguments: {'to': 3}; expected those of Numbers\(.*(unexpected|missing)"):
        source(Numbers, arguments={"to": 3})
    with pytest.raises(ValueError, match=r"arguments: {}; expected those of Numbers\(.*missing a required argument"):
        source(Numbers)
    with pytest.raises(TypeError, match=r"apply: function: 'Numbers'; expected a function .*: use source\(Numbers\)"):
        source("packets").apply(Numbers)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(1, cores=4.0, spark=False) as made:
        yield made


@pytest.mark.slow
def test_a_peer_executes_it_in_a_process_of_its_own_and_waits_while_it_is_broken(cluster: Cluster) -> None:
    application = cluster.submit(numbers(upto=40, breaks_at=20))
    rows = application.results()
    assert rows["n"].to_list() == list(range(1, 41))
    (process,) = set(rows["process"])
    assert process != os.getpid()
    (broken,) = application.events().of(SourceBroken)
    assert broken.reason == "the meter: it is being read by somebody else"
    assert application.events().of(SourceMended)
    assert [each.text for each in application.events().of(SourceRemarked)] == ["half of it"]


@pytest.mark.slow
def test_what_it_raises_fails_its_application_by_name_and_line(cluster: Cluster) -> None:
    application = cluster.submit(numbers(upto=9, fails_at=3))
    assert application.wait() == "failed"
    assert "source 'Numbers': ValueError: the meter is on fire (line " in application.reason
