"""What campaigns are made of: schedules cut down, checks of logs, and a switch that breaks connections."""

from __future__ import annotations

import json
import random
import struct

import msgspec
import pytest

from tests.conftest import ROOT
from tests.live_campaign import FIGURES, SHAPES, SOMETIMES, Try, drawn, quantile, table, wrong_of_log
from tests.packet_switch import TCP, Rules, checksum, reset_of
from tests.shrinking import least


@pytest.mark.parametrize("guilty", [(), (3,), (0, 19), (4, 5, 6), tuple(range(20))])
def test_a_failing_list_is_cut_down_to_what_fails(guilty: tuple[int, ...]) -> None:
    tried: list[list[int]] = []

    def fails(some: list[int]) -> bool:
        tried.append(some)
        return set(guilty) <= set(some)

    assert least(range(20), fails) == list(guilty)
    assert len(tried) == len(set(map(tuple, tried))), "no list is tried twice"
    assert len(tried) <= 500


def test_none_of_what_is_left_can_be_left_out_though_fewer_would_fail_elsewhere() -> None:
    def fails(some: list[int]) -> bool:  # two causes, and one that hides the first
        return ({1, 2} <= set(some) and 7 not in some) or {7, 9} <= set(some)

    found = least(range(12), fails)
    assert fails(found)
    assert not any(fails([each for each in found if each != one]) for one in found)


@pytest.mark.parametrize(
    ("read", "whole", "wrong"),
    [
        ([5, 6, 7, 8], True, []),
        ([5, 6, 8], True, ["1 lost, the first [7]"]),
        ([5, 6], False, []),
        ([5, 7], False, ["1 skipped, the first [6]"]),
        ([5, 6, 6, 7, 8], True, ["1 doubled, the first [6]"]),
        ([5, 7, 6, 8], True, ["1 out of order, the first [6]"]),
        ([5, 6, 7, 8, 9], True, ["nobody has pushed [9]"]),
        ([], True, ["4 lost, the first [5, 6, 7, 8]"]),
    ],
)
def test_what_is_wrong_with_a_log_is_said(read: list[int], whole: bool, wrong: list[str]) -> None:
    assert wrong_of_log([5, 6, 7, 8], read, whole=whole) == wrong


def test_a_try_is_a_value_that_its_seed_gives() -> None:
    tries = [drawn(seed) for seed in range(500)]
    assert tries == [msgspec.json.decode(msgspec.json.encode(each), type=Try) for each in tries]
    assert {each.shape for each in tries} == set(SHAPES)
    assert 20 < sum(not each.faults for each in tries) < 80
    kinds = {fault.kind for each in tries for fault in each.faults}
    assert {"partition", "one way", "delay", "reset", "hang", "kill", "two kills", "clock", "disk"} < kinds
    assert len(SOMETIMES) == len(set(SOMETIMES))


def test_quantiles_are_values_that_were_measured() -> None:
    values = [float(number) for number in range(1, 101)]
    assert [quantile(values, share) for share in (0.5, 0.99, 0.9999, 1.0)] == [50.0, 99.0, 100.0, 100.0]


def test_the_page_of_faults_has_the_figures_of_the_last_campaign() -> None:
    figures = json.loads(FIGURES.read_text())
    assert table(figures) in (ROOT / "docs" / "faults.md").read_text()
    assert all(figures["met"].values()), "it tested less than it says"


def packet(source: int, to: int, *, ports: tuple[int, int] = (4000, 80), flags: int = 16, data: bytes = b"") -> bytes:
    segment = struct.pack("!HHIIBBHHH", *ports, 1000, 2000, 5 << 4, flags, 100, 0, 0) + data
    ends = bytes((10, 214, 0, source, 10, 214, 0, to))
    return struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(segment), 0, 0, 64, TCP, 0) + ends + segment


def test_packets_are_lost_in_one_direction_and_in_their_share() -> None:
    rules = Rules(1)
    rules.obey(["lose", 2, 3, 0.25])
    passed = sum(len(rules.passed(packet(2, 3), 0.0)) for _ in range(1000))
    assert 700 < passed < 800
    assert all(rules.passed(packet(3, 2), 0.0) for _ in range(100))
    rules.obey(["heal"])
    assert all(rules.passed(packet(2, 3), 0.0) for _ in range(100))


def test_delayed_packets_keep_their_order() -> None:
    rules, rng = Rules(1), random.Random(2)
    rules.obey(["delay", 2, 3, 0.1, 0.05])
    times = sorted(rng.random() for _ in range(50))
    arrivals = [at for now in times for at, _ in rules.passed(packet(2, 3), now)]
    assert arrivals == sorted(arrivals)
    assert all(now + 0.1 <= at for now, at in zip(times, arrivals, strict=True))
    assert rules.passed(packet(3, 2), 5.0) == [(5.0, packet(3, 2))]


def test_a_reset_ends_what_is_connected_once_and_for_both_sides() -> None:
    rules = Rules(1)
    both = packet(2, 3), packet(3, 2, ports=(80, 4000))
    other = packet(2, 4)
    for each in (*both, other):
        rules.passed(each, 0.0)
    rules.obey(["reset", 3, 2])
    back, on = [made for _, made in rules.passed(both[0], 0.0)]
    assert rules.passed(other, 0.0) == [(0.0, other)]
    for made, source, to, ports, number in ((back, 3, 2, (80, 4000), 2000), (on, 2, 3, (4000, 80), 1000)):
        assert (made[15], made[19]) == (source, to)
        assert struct.unpack_from("!HHI", made, 20) == (*ports, number)
        assert made[33] == 4, "a reset, and nothing else"
        assert checksum(made[:20]) == 0
        assert checksum(made[12:20] + struct.pack("!HH", TCP, 20) + made[20:]) == 0
    assert rules.passed(both[1], 0.0) == [(0.0, both[1])], "a new connection of the same ports passes"
    assert rules.counts["reset"] == 1


def test_what_is_no_connection_is_not_reset() -> None:
    datagram = bytearray(packet(2, 3))
    datagram[9] = 17
    rules = Rules(1)
    rules.obey(["reset", 2, 3])
    assert rules.passed(bytes(datagram), 0.0) == [(0.0, bytes(datagram))]
    with pytest.raises(ValueError, match=r"command: \['los'\]; expected lose, delay, reset or heal"):
        rules.obey(["los"])
    assert reset_of(packet(2, 3), back=True) != reset_of(packet(2, 3), back=False)
