"""Captures of packets that the tests make: what is read from their headers, and what is said of damaged ones."""

from __future__ import annotations

import datetime as dt
import gzip
import ipaddress
import struct
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest

from synergy_nb.traces.raw_files import Tally, likely_rows, lines_before, part_begins, raw_layout, raw_tables

ETHERNET = b"\1" * 12
AT = dt.datetime.fromisoformat("2026-01-31T12:00:00")
SECONDS = 1_769_860_800


def ip4(protocol: int, payload: bytes, *, fragment: int = 0) -> bytes:
    addresses = bytes([10, 0, 0, 1, 10, 0, 0, 2])
    return struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(payload), 0, fragment, 64, protocol, 0) + addresses + payload


def ip6(protocol: int, payload: bytes) -> bytes:
    addresses = ipaddress.ip_address("fe80::1").packed + ipaddress.ip_address("2001:db8::2").packed
    return struct.pack(">IHBB", 6 << 28, len(payload), protocol, 64) + addresses + payload


PORTS = struct.pack(">HH", 80, 50_000) + bytes(16)
PACKETS = [
    ETHERNET + b"\x08\0" + ip4(6, PORTS),
    ETHERNET + b"\x81\0\0\5\x08\0" + ip4(17, PORTS),
    ETHERNET + b"\x86\xdd" + ip6(17, PORTS),
    ETHERNET + b"\x08\0" + ip4(1, bytes(8)),
    ETHERNET + b"\x08\6" + bytes(28),
    ETHERNET + b"\x08\0" + ip4(6, PORTS, fragment=7),
    (ETHERNET + b"\x08\0" + ip4(6, PORTS))[:36],
]
EXPECTED = [
    ("TCP", "10.0.0.1", 80, "10.0.0.2", 50_000),
    ("UDP", "10.0.0.1", 80, "10.0.0.2", 50_000),
    ("UDP", "fe80::1", 80, "2001:db8::2", 50_000),
    ("ICMP", "10.0.0.1", None, "10.0.0.2", None),
    ("ARP", None, None, None, None),
    ("TCP", "10.0.0.1", None, "10.0.0.2", None),
    ("TCP", "10.0.0.1", None, "10.0.0.2", None),  # its ports were not kept
]


def pcap(packets: list[bytes], *, order: str = "<", nano: bool = False, link: int = 1) -> bytes:
    data = struct.pack(f"{order}IHHiIII", 0xA1B23C4D if nano else 0xA1B2C3D4, 2, 4, 0, 0, 65_535, link)
    for place, packet in enumerate(packets):
        data += struct.pack(f"{order}IIII", SECONDS, place * (1000 if nano else 1), len(packet), 1500) + packet
    return data


def block(kind: int, body: bytes, order: str = "<") -> bytes:
    body += bytes(-len(body) % 4)
    return struct.pack(f"{order}II", kind, len(body) + 12) + body + struct.pack(f"{order}I", len(body) + 12)


def option(code: int, value: bytes, order: str = "<") -> bytes:
    return struct.pack(f"{order}HH", code, len(value)) + value + bytes(-len(value) % 4)


def section(order: str, interfaces: list[bytes], packets: list[tuple[int, int]]) -> bytes:
    """A section of a pcapng: options of each interface, and of each packet the number of its interface and its time."""
    data = block(0x0A0D0D0A, struct.pack(f"{order}IHHq", 0x1A2B3C4D, 1, 0, -1), order)
    for options in interfaces:
        data += block(1, struct.pack(f"{order}HHI", 1, 0, 0) + options, order)
    for interface, time in packets:
        head = struct.pack(f"{order}IIIII", interface, time >> 32, time & 0xFFFFFFFF, len(PACKETS[0]), 1500)
        data += block(6, head + PACKETS[0], order)
    return data


def pcapng(packets: list[bytes], *, resolution: bytes = b"", link: int = 1) -> bytes:
    data = block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
    data += block(1, struct.pack("<HHI", 101, 0, 0)) + block(1, struct.pack("<HHI", link, 0, 0) + resolution)
    data += block(5, bytes(12))  # statistics, which nobody needs
    for place, packet in enumerate(packets):
        time = SECONDS * 1_000_000_000 + place * 1000 if resolution else SECONDS * 1_000_000 + place
        head = struct.pack("<IIIII", 1, time >> 32, time & 0xFFFFFFFF, len(packet), 1500)
        data += block(6, head + packet)
    return data


def read(path: Path, data: bytes) -> pl.DataFrame:
    path.write_bytes(data)
    layout = raw_layout(path)
    assert layout.format == "pcap"
    found = pl.concat(raw_tables(path, layout, Tally()))
    assert found.columns == list(layout.schema)
    return found


@pytest.mark.parametrize(
    "data",
    [
        pcap(PACKETS), pcap(PACKETS, order=">"), pcap(PACKETS, nano=True), pcapng(PACKETS),
        pcapng(PACKETS, resolution=struct.pack("<HHB3xHH", 9, 1, 9, 0, 0)), gzip.compress(pcap(PACKETS)),
    ],
    ids=["pcap", "big-endian", "nanoseconds", "pcapng", "pcapng-nanoseconds", "gzip"],
)  # fmt: skip
def test_packets_of_a_capture(data: bytes, tmp_path: Path) -> None:
    found = read(tmp_path / "raw", data)
    assert [row[1:6] for row in found.iter_rows()] == EXPECTED
    assert found["time"].to_list() == [AT + dt.timedelta(microseconds=place) for place in range(len(PACKETS))]
    assert found["bytes"].to_list() == [1500] * len(PACKETS)
    assert 3 < likely_rows(tmp_path / "raw", raw_layout(tmp_path / "raw")) < 20


@pytest.mark.parametrize(
    ("link", "head"), [(101, b""), (113, bytes(14) + b"\x08\0"), (0, bytes(4)), (276, b"\x08\0" + bytes(18))]
)
def test_other_link_types(link: int, head: bytes, tmp_path: Path) -> None:
    assert read(tmp_path / "raw", pcap([head + ip4(6, PORTS)], link=link)).row(0)[1:6] == EXPECTED[0]


def test_interfaces_of_different_link_types_keep_their_order(tmp_path: Path) -> None:
    packet = struct.pack("<IIIII", 0, 0, 1, 44, 44) + ip4(17, PORTS)
    data = pcapng(PACKETS[:1]) + block(6, packet + bytes(4)) + pcapng(PACKETS[2:3])
    assert read(tmp_path / "raw", data)["source"].to_list() == ["10.0.0.1", "10.0.0.1", "fe80::1"]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (pcap(PACKETS)[:-3], r"cut-off capture after 6 packets \(it ends within a record\); expected a whole one"),
        (pcapng(PACKETS)[:-3], r"cut-off capture after 6 packets"),
        (gzip.compress(pcap(PACKETS))[:-20], r"cut-off capture after \d packets"),
        (pcap(PACKETS) + b"\xff" * 16, r"cut-off capture after 7 packets \(a record of 4,294,967,295 bytes\)"),
        (pcapng(PACKETS) + block(3, bytes(8)), r"after 7 packets \(a packet without a time\)"),
        (pcap(PACKETS, link=147), "link type 147; expected Ethernet"),
    ],
)
def test_captures_that_cannot_be_read_are_named(data: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "raw"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=f"raw: .*{said}"):
        list(raw_tables(path, raw_layout(path), Tally()))


def test_a_capture_may_have_no_address(tmp_path: Path) -> None:
    """Nor may a block of packets of one: it could not be read, as its columns were of objects."""
    assert read(tmp_path / "raw", pcap(PACKETS[4:5])).row(0)[1:6] == EXPECTED[4]


def test_text_is_no_capture(tmp_path: Path) -> None:
    (tmp_path / "raw").write_text("1 2 3\n")
    with pytest.raises(ValueError, match="raw: not a capture of packets; expected pcap or pcapng"):
        raw_layout(tmp_path / "raw", "pcap")
    (tmp_path / "raw").write_text("a text\n")
    with pytest.raises(ValueError, match=r"raw: format not recognised \(.*\); expected one of .*, pcap, tcp,"):
        raw_layout(tmp_path / "raw")
    (tmp_path / "raw").write_bytes(b"\0\1\2" * 100)
    with pytest.raises(ValueError, match=r"raw: binary data; expected one of the formats combined, .*, pcap, tcp,"):
        raw_layout(tmp_path / "raw")
    (tmp_path / "raw").write_bytes(b"")
    with pytest.raises(ValueError, match="raw: empty; expected a trace"):
        raw_layout(tmp_path / "raw", "pcap")


@pytest.mark.parametrize(
    "data",
    [pcap(PACKETS * 3), pcap(PACKETS * 3, order=">"), pcap(PACKETS * 3, nano=True), pcapng(PACKETS * 3)],
    ids=["pcap", "big-endian", "nanoseconds", "pcapng"],
)
def test_a_capture_is_read_in_parts_that_begin_with_packets(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "raw"
    whole = read(path, data)
    layout = raw_layout(path, "pcap")
    for size in (1, 100, 500):
        begins = part_begins(path, layout, size)
        assert all(after - before >= size for before, after in pairwise(begins))
        bounds = zip(begins, [*begins[1:], None], strict=True)
        parts = [list(raw_tables(path, layout, Tally(), begin, end)) for begin, end in bounds]
        assert len(parts) > 2
        assert pl.concat(table for part in parts for table in part).equals(whole)
        before = [sum(table.height for part in parts[:place] for table in part) for place in range(len(parts))]
        assert [lines_before(path, layout, begin) for begin in begins] == before


@pytest.mark.parametrize(
    "data",
    [
        pcap(PACKETS)[:-3], pcap(PACKETS) + b"\xff" * 16, pcapng(PACKETS)[:-3], pcapng(PACKETS) + bytes(5),
        pcapng(PACKETS) + pcapng(PACKETS), gzip.compress(pcap(PACKETS)),
    ],
    ids=["cut", "damaged", "cut-pcapng", "damaged-pcapng", "two-sections", "gzip"],
)  # fmt: skip
def test_other_captures_are_not_divided(data: bytes, tmp_path: Path) -> None:
    """Who reads a damaged one as a whole says what is wrong; a part of one would know too few interfaces."""
    path = tmp_path / "raw"
    path.write_bytes(data)
    assert part_begins(path, raw_layout(path), 100) == [0]


@pytest.mark.parametrize("order", ["<", ">"])
def test_times_of_a_pcapng_are_those_that_its_interfaces_state(order: str, tmp_path: Path) -> None:
    """As the format says: units of 10^-n or 2^-n seconds, microseconds without; the offset is added, seconds."""
    other = ">" if order == "<" else "<"
    comment, end = option(1, b"odd", order), struct.pack(f"{order}HH", 0, 0)
    nano, binary, tenths, seconds = (option(9, bytes([value]), order) for value in (9, 0x80 | 20, 1, 0))
    later, earlier = (option(14, struct.pack(f"{order}q", value), order) for value in (1_000_000, -3600))
    interfaces = [b"", comment + nano, binary + end, tenths, later, comment + earlier + nano + end, seconds, end + nano]
    quarter = [
        (0, SECONDS * 10**6 + 250_000), (1, SECONDS * 10**9 + 250_000_000), (2, (SECONDS << 20) + (1 << 18)),
        (3, SECONDS * 10 + 2), (4, (SECONDS - 1_000_000) * 10**6 + 250_000),
        (5, (SECONDS + 3600) * 10**9 + 250_000_000), (6, SECONDS), (7, SECONDS * 10**6 + 250_000),
    ]  # fmt: skip
    data = section(order, interfaces, quarter)
    data += section(other, [option(9, b"\3", other)], [(0, SECONDS * 1000 + 250)])  # it knows no interface before it
    seen = [(time - AT).total_seconds() for time in read(tmp_path / "raw", data)["time"].to_list()]
    assert seen == [0.25, 0.25, 0.25, 0.2, 0.25, 0.25, 0, 0.25, 0.25]


def test_a_time_that_no_year_has_is_told_of_with_its_packet(tmp_path: Path) -> None:
    (path := tmp_path / "raw").write_bytes(section("<", [option(9, b"\0")], [(0, SECONDS), (0, 1 << 60)]))
    said = r"after 1 packets \(a packet with the time 1152921504606846976, outside the years 1 to 9999\)"
    with pytest.raises(ValueError, match=said):
        list(raw_tables(path, raw_layout(path), Tally()))


def test_an_error_in_a_part_counts_the_packets_of_the_file(tmp_path: Path) -> None:
    times = [(0, SECONDS * 10**6)] * 9
    (path := tmp_path / "raw").write_bytes(section("<", [b""], [*times, (1, 0), *times]))
    layout = raw_layout(path)
    begin = part_begins(path, layout, 300)[1]
    assert 0 < lines_before(path, layout, begin) < 9
    with pytest.raises(ValueError, match=r"after 9 packets \(a packet of interface 1, which is not described\)"):
        list(raw_tables(path, layout, Tally(), begin))


def test_obsolete_blocks_of_packets_are_read(tmp_path: Path) -> None:
    packet = struct.pack("<HHIIII", 1, 9, 0, 5, 44, 44) + PACKETS[0]
    found = read(tmp_path / "raw", pcapng(PACKETS[2:3]) + block(2, packet))
    assert found["source"].to_list() == ["fe80::1", "10.0.0.1"]
