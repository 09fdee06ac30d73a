"""Sources of one's own that peers execute: the protocol holds across the process in which the author's code runs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from synergy_nb import BrokenForNow, Cluster, ClusterError, Plan, PlanError, Polled, Simulation, Source, reader, source
from synergy_nb.connectors import patient_polls
from synergy_nb.connectors.own_sources import executed_here, own_source
from synergy_nb.events import SourceBroken, SourceMended, SourceRemarked
from synergy_nb.plan.derived.lost_rows import lost_rows
from synergy_nb.plan.derived.named_secrets import secrets_of_plan
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


@reader(columns={"key": "str"}, time="at")
class Guarded(Source):
    """A source that needs a key, gives a sign of each that it got, and may fail by saying them."""

    def __init__(self, keys: list[str], names: dict[str, str], fails: bool = False) -> None:
        self.keys, self.fails = [*keys, *names.values()], fails

    def open(self, position: Any) -> None:
        if self.fails:
            raise ValueError(f"{self.keys} are refused")

    def poll(self, seconds: float) -> Polled | None:
        return Polled([{"at": n, "key": key[::-1]} for n, key in enumerate(self.keys)], len(self.keys), ends=True)


def guarded(**stated: Any) -> Plan:
    given = {"keys": ["${meter}", "plain", "key ${other}"], "names": {"${meter}": "${meter}:${other}"}, **stated}
    return source(Guarded, arguments=given, ends=True, id="s").sink("out")


KEYS = {"meter": b"s3cr3t", "other": b"t00"}
TURNED = ["t3rc3s", "nialp", "00t yek", "00t:t3rc3s"]


@reader(columns={"n": "int"}, time="at")
class Silent(Source):
    """A source that never has anything."""

    def open(self, position: Any) -> None:
        pass

    def poll(self, seconds: float) -> Polled | None:
        return None


def numbers(**arguments: int) -> Plan:
    return source(Numbers, arguments=arguments, ends=True, id="s").sink("out")


def local(**arguments: int) -> Source:
    plan = numbers(**arguments)
    return own_source("s", plan.operators["s"].params, plan.schema("s"), {}, executed_here)


def test_it_keeps_the_protocol_through_calls() -> None:
    check_source(
        lambda: local(upto=9), broken=lambda: local(upto=9, breaks_at=0), wrong=lambda: local(upto=9, fails_at=0)
    )


def test_a_simulation_reads_one_that_ends() -> None:
    for pauses in (0, 1):
        simulated = Simulation(peers=2).submit(numbers(upto=5, pauses=pauses))
        assert simulated.results()["n"].to_list() == [1, 2, 3, 4, 5]
    endless = source(Numbers, arguments={"upto": 5}).sink("out")
    with pytest.raises(ClusterError, match="connector: 'own', which waits for what comes"):
        Simulation(peers=2).submit(endless)


@reader(columns={"n": "int"})
class Parts(Source):
    """Five partitions of four numbers each."""

    repeats = True

    def __init__(self) -> None:
        self.partitions = list(range(5))

    def split(self, reader: int, readers: int) -> None:
        self.partitions = self.partitions[reader::readers]

    def open(self, position: Any) -> None:
        self.next = position or 0

    def poll(self, seconds: float) -> Polled:
        rows = [{"time": self.next, "n": 10 * part + self.next} for part in self.partitions if self.next < 4]
        self.next += 1
        return Polled(rows, self.next, ends=self.next > 4)


def test_arguments_name_secrets_whose_values_are_in_no_plan_and_no_error() -> None:
    assert [each.name for _, each in secrets_of_plan(guarded())] == ["meter", "other"]
    assert Simulation(peers=1, secrets=KEYS).submit(guarded()).results()["key"].to_list() == TURNED
    with pytest.raises(ClusterError, match=r"s at peer-1: .*'\$\{meter\}', 'plain', 'key \$\{other\}', '\$\{meter\}:"):
        Simulation(peers=1, secrets=KEYS).submit(guarded(fails=True)).results()
    with pytest.raises(ClusterError, match=r"arguments: secret 'meter'; expected one that this peer has \(other\)"):
        Simulation(peers=1, secrets={"other": b"t00"}).submit(guarded()).results()


def test_several_readers_have_a_part_of_the_partitions_each() -> None:
    check_source(Parts, readers=2)
    plan = source(Parts, readers=3, ends=True, id="s").sink("out")
    application = Simulation(peers=4, network="local").submit(plan)
    assert sorted(application.results()["n"].to_list()) == [10 * part + n for part in range(5) for n in range(4)]
    with pytest.raises(PlanError, match="readers: 2; expected 1, or a class with split"):
        source(Numbers, arguments={"upto": 9}, readers=2).sink("out")
    in_file = source(Numbers, arguments={"upto": 9}, share="1 of 2", ends=True).sink("out")
    with pytest.raises(ClusterError, match=r"'Numbers': .*readers: 2; expected 1, as Numbers has no method split"):
        Simulation(peers=2).submit(in_file).results()


def test_a_simulation_does_not_wait_for_ever_for_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patient_polls, "PATIENCE_S", 0.01)
    silent = Simulation(peers=2).submit(source(Silent, ends=True, id="s").sink("out"))
    with pytest.raises(ClusterError, match=r"s: it had no rows for 0\.01 s; expected a source that ends"):
        silent.results()


def test_what_is_lost_after_the_death_of_all_is_what_it_does_not_repeat() -> None:
    assert lost_rows(numbers(upto=5)) == {}
    once = source("own", function="meters:Meters", columns={"n": "int"}, id="s").sink("out")
    assert lost_rows(once) == {"s": "rows that it does not give again"}


def test_what_cannot_be_one_is_said_at_once() -> None:
    with pytest.raises(ValueError, match="reader: Other; expected a class that derives from Source"):
        reader(columns={"n": "int"})(type("Other", (), {}))
    with pytest.raises(PlanError, match="expected arguments by name with values that JSON has"):
        source(Numbers, arguments={"upto": object()}).sink("out")
    with pytest.raises(PlanError, match=r"arguments: {'to': 3}; expected those of Numbers\(.*(unexpected|missing)"):
        source(Numbers, arguments={"to": 3}).sink("out")
    with pytest.raises(PlanError, match=r"arguments: {}; expected those of Numbers\(.*missing a required argument"):
        source(Numbers).sink("out")
    text = numbers(upto=5).to_yaml().replace("upto: 5", "until: 5")
    with pytest.raises(PlanError, match=r"operator 's', arguments: {'until': 5}; expected those of Numbers\("):
        Plan.from_yaml(text)
    with pytest.raises(TypeError, match=r"apply: function: 'Numbers'; expected a function .*: use source\(Numbers\)"):
        source("packets").apply(Numbers)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(1, cores=4.0, spark=False, secrets=KEYS) as made:
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


@pytest.mark.slow
def test_secrets_travel_to_its_process_and_not_into_what_is_said(cluster: Cluster) -> None:
    assert cluster.submit(guarded()).results()["key"].to_list() == TURNED
    application = cluster.submit(guarded(fails=True))
    assert application.wait() == "failed"
    assert "['${meter}', 'plain', 'key ${other}', '${meter}:${other}'] are refused" in application.reason
    assert "s3cr3t" not in repr(application.events())
