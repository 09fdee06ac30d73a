"""Captures of packets, pcap and pcapng, as tables: times, addresses, ports and sizes of the packets.

Records are found one after the other, as each says how long it is; their headers are then decoded for many packets at
once. A capture that is cut off or damaged cannot be read on, as nothing marks where the next record begins. For the
same reason one that is read in parts is walked through first, from record to record.
"""

from __future__ import annotations

import gzip
import ipaddress
import mmap
import struct
import zlib
from collections.abc import Callable, Iterator
from itertools import islice, takewhile
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, TypeAlias, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

__all__ = ["CAPTURE_COLUMNS", "capture_begins", "capture_tables", "is_capture", "mean_record", "packets_before"]

CAPTURE_COLUMNS: Final = {
    "time": "time", "protocol": "str", "source": "str", "source_port": "int", "destination": "str",
    "destination_port": "int", "bytes": "int",
}  # fmt: skip
_PCAP: Final = {  # first bytes of a pcap: byte order, and nanoseconds of a unit of its times
    b"\xd4\xc3\xb2\xa1": ("<", 1000), b"\xa1\xb2\xc3\xd4": (">", 1000),
    b"\x4d\x3c\xb2\xa1": ("<", 1), b"\xa1\xb2\x3c\x4d": (">", 1),
}  # fmt: skip
_PCAP_HEADER: Final = 24  # bytes before the first packet of a pcap
_SECTION: Final = b"\n\r\r\n"  # first bytes of a pcapng
_SECTION_BLOCK: Final = 0x0A0D0D0A  # kinds of blocks of a pcapng: one that begins a section, and one of an interface
_INTERFACE: Final = 1
_SIMPLE: Final = 3  # a packet without a time
_PACKETS: Final = {2: "H2x", 6: "I"}  # other blocks with packets: how they begin, with the number of the interface
_END: Final = 0  # options of an interface: their end, the unit of its times, and seconds that are to be added to these
_RESOLUTION: Final = 9
_OFFSET: Final = 14
_SECOND: Final = 1_000_000_000  # nanoseconds
_YEARS: Final = range(-62_135_596_800 * _SECOND, 253_402_300_800 * _SECOND)  # those that times may be in: 1 to 9999
_LONGEST: Final = 1 << 26  # bytes of a record: longer ones are damaged
_MANY: Final = 1 << 15  # packets that are decoded at once
_HEADERS: Final = 96  # bytes of a packet that its headers may take
#: Link type to where a packet states the type of its content (None: it is IP), and where the content begins.
_LINKS: Final[dict[int, tuple[int | None, int]]] = {
    0: (None, 4), 1: (12, 14), 12: (None, 0), 14: (None, 0), 101: (None, 0), 108: (None, 4), 113: (14, 16),
    276: (0, 20),
}  # fmt: skip
_PROTOCOLS: Final = {1: "ICMP", 2: "IGMP", 6: "TCP", 17: "UDP", 47: "GRE", 50: "ESP", 58: "ICMP6", 132: "SCTP"}
_TYPES: Final = {0x0806: "ARP", 0x88CC: "LLDP", 0x8847: "MPLS"}
_WITH_PORTS: Final = (6, 17, 132)
_Bytes: TypeAlias = NDArray[np.uint8]
_Numbers: TypeAlias = NDArray[np.int64]


class Packet(NamedTuple):
    """A packet of a capture."""

    time: int  # nanoseconds since 1970
    link: int  # link type
    size: int  # bytes that it had
    data: bytes  # those that were kept


def is_capture(path: Path) -> bool:
    """Whether a file is a capture, which may be gzipped."""
    try:
        with _opened(path) as file:
            start = file.read(4)
    except (OSError, EOFError, zlib.error):
        return False
    return start in _PCAP or start == _SECTION


def mean_record(path: Path) -> float:
    """Mean number of bytes of the first records of a capture."""
    first = list(islice(_packets(path), 1000))
    return sum(len(each.data) + 16 for each in first) / len(first) if first else 1.0


def capture_begins(path: Path, size: int) -> list[int]:
    """Bytes at which packets begin, each about ``size`` after the one before; 0: what is before is to be read, too.

    A capture that is damaged is not divided, since who reads it as a whole says how much of it is good; nor is a pcapng
    that describes interfaces after its first packet, as those before are all that a part is told, nor what is packed.
    """
    found = [0]
    try:
        for at in _begins(path):
            if at >= found[-1] + size:
                found.append(at)
    except _UndividedError:
        return [0]
    return found


def packets_before(path: Path, begin: int) -> int:
    """Number of packets before the one that begins at a byte, which is one of :func:`capture_begins`."""
    return sum(1 for _ in takewhile(lambda at: at < begin, _begins(path)))


class _UndividedError(Exception):
    """A capture that has to be read as a whole."""


def _begins(path: Path) -> Iterator[int]:
    """Yield the bytes at which the packets of a capture begin; of one that is packed none.

    Raises ``_UndividedError`` if the capture cannot be divided.
    """
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        if data[:4] in _PCAP:
            yield from _begins_of_pcap(data, _PCAP[data[:4]][0])
        elif data[:4] == _SECTION:
            yield from _begins_of_section(data, _order(data[8:12]))


def _begins_of_pcap(data: mmap.mmap, order: str) -> Iterator[int]:
    kept, at, end = struct.Struct(f"{order}I").unpack_from, _PCAP_HEADER, len(data)
    while at < end:
        size = kept(data, at + 8)[0] if at + 16 <= end else _LONGEST + 1
        if size > _LONGEST or at + 16 + size > end:
            raise _UndividedError
        yield at
        at += 16 + size


def _begins_of_section(data: mmap.mmap, order: str) -> Iterator[int]:
    block, at, end, begun = struct.Struct(f"{order}II").unpack_from, 0, len(data), False
    while at < end:
        kind, size = block(data, at) if at + 8 <= end else (0, 0)
        if not 12 <= size <= _LONGEST + 12 or at + size > end or (begun and kind in (_SECTION_BLOCK, _INTERFACE)):
            raise _UndividedError
        if kind in _PACKETS:
            begun = True
            yield at
        at += size


def capture_tables(path: Path, begin: int = 0, end: int | None = None) -> Iterator[pl.DataFrame]:
    """Yield the packets of a capture as tables of :data:`CAPTURE_COLUMNS`, in the order of the file.

    ``begin``, ``end``: bytes between which they begin, of :func:`capture_begins`; None: up to the end. Raises
    ``ValueError`` if it is damaged or cut off, or of a link type that is not known.
    """
    packets = _packets(path, begin, end)
    while some := list(islice(packets, _MANY)):
        links = {each.link for each in some}
        if unknown := next((link for link in sorted(links) if link not in _LINKS), None):
            raise ValueError(f"{path}: link type {unknown}; expected Ethernet, IP, or Linux's cooked packets")
        if len(links) == 1:
            yield _decoded(some, some[0].link)
            continue
        parts = []
        for link in sorted(links):
            places = [place for place, each in enumerate(some) if each.link == link]
            part = _decoded([some[place] for place in places], link)
            parts.append(part.with_columns(pl.Series("place", places)))
        yield pl.concat(parts).sort("place").drop("place")


# -- records -----------------------------------------------------------------------------------------------------------


def _opened(path: Path) -> BinaryIO:
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    return cast("BinaryIO", gzip.open(path)) if packed else path.open("rb")


def _packets(path: Path, begin: int = 0, end: int | None = None) -> Iterator[Packet]:
    number = 0
    try:
        with _opened(path) as file:
            start = _read(file, 4)
            records = _of_section(file, begin, end) if start == _SECTION else _of_pcap(file, *_PCAP[start], begin, end)
            for packet in records:
                number += 1
                yield packet
    except (EOFError, zlib.error, gzip.BadGzipFile, struct.error) as error:
        if begin:
            number += packets_before(path, begin)
        raise ValueError(
            f"{path}: damaged or cut-off capture after {number:,} packets ({error}); expected a whole one"
        ) from None


def _read(file: BinaryIO, size: int) -> bytes:
    if not 0 <= size <= _LONGEST:
        raise EOFError(f"a record of {size:,} bytes")
    data = file.read(size)
    if len(data) < size:
        raise EOFError("it ends within a record")
    return data


def _of_pcap(file: BinaryIO, order: str, unit: int, begin: int, end: int | None) -> Iterator[Packet]:
    link = struct.unpack(f"{order}I", _read(file, 20)[16:])[0] & 0x0FFFFFFF
    header = struct.Struct(f"{order}IIII")
    at = max(begin, _PCAP_HEADER)
    if begin:
        file.seek(at)
    while (end is None or at < end) and (start := file.read(16)):
        seconds, rest, kept, size = header.unpack(start)
        at += 16 + kept
        yield Packet(seconds * _SECOND + rest * unit, link, size, _read(file, kept))


def _order(mark: bytes) -> str:
    """Order of bytes in a section of a pcapng, by the mark that it begins with."""
    return "<" if mark == b"\x4d\x3c\x2b\x1a" else ">"


def _of_section(file: BinaryIO, begin: int, end: int | None) -> Iterator[Packet]:
    """Packets of a pcapng whose first four bytes have been read."""
    order, kind, at = "<", _SECTION_BLOCK, 0
    links: list[tuple[int, Callable[[int], int]]] = []
    start = _read(file, 4)
    while start and (end is None or at < end):
        if kind == _SECTION_BLOCK:
            order = _order(_read(file, 4))
            (length,) = struct.unpack(f"{order}I", start)
            _read(file, length - 12)
            links = []
        else:
            (length,) = struct.unpack(f"{order}I", start)
            if kind in _PACKETS and at < begin:  # what is said of interfaces has been read
                length = begin - at
                file.seek(begin)
            else:
                body = _read(file, length - 12) + _read(file, 4)
                if kind == _INTERFACE:
                    links.append((struct.unpack_from(f"{order}H", body)[0], _clock(body[8:-4], order)))
                elif kind in _PACKETS:
                    interface, high, low, kept, size = struct.unpack_from(f"{order}{_PACKETS[kind]}IIII", body)
                    if interface >= len(links):
                        raise EOFError(f"a packet of interface {interface}, which is not described")
                    link, nanoseconds = links[interface]
                    if (time := nanoseconds(high << 32 | low)) not in _YEARS:
                        raise EOFError(f"a packet with the time {high << 32 | low}, outside the years 1 to 9999")
                    yield Packet(time, link, size, body[20 : 20 + kept])
                elif kind == _SIMPLE:
                    raise EOFError("a packet without a time")
        at += length
        head = file.read(8)
        if head and len(head) < 8:
            raise EOFError("it ends within a block")
        kind, start = (struct.unpack(f"{order}I", head[:4])[0], head[4:]) if head else (0, b"")


def _clock(options: bytes, order: str) -> Callable[[int], int]:
    """Function from times of an interface to nanoseconds since 1970, by its options."""
    at, parts, offset = 0, 1_000_000, 0
    while at + 4 <= len(options):
        code, length = struct.unpack_from(f"{order}HH", options, at)
        if code == _END:
            break
        if code == _RESOLUTION and length == 1:
            value = options[at + 4]
            parts = 2 ** (value & 0x7F) if value & 0x80 else 10**value
        elif code == _OFFSET and length == 8:  # seconds
            (offset,) = struct.unpack_from(f"{order}q", options, at + 4)
        at += 4 + length + -length % 4
    return lambda time: time * _SECOND // parts + offset * _SECOND


# -- headers -----------------------------------------------------------------------------------------------------------


def _decoded(packets: list[Packet], link: int) -> pl.DataFrame:
    """Decode the headers of packets of one link type."""
    lengths = np.fromiter((len(each.data) for each in packets), np.int64, len(packets))
    rows = np.frombuffer(b"".join(each.data[:_HEADERS].ljust(_HEADERS, b"\0") for each in packets), np.uint8)
    data: _Bytes = rows.reshape(len(packets), _HEADERS)
    place, begin = _LINKS[link]
    start = np.full(len(packets), begin, np.int64)
    if place is None:
        version = data[:, begin] >> 4
        kind: _Numbers = np.select([version == 4, version == 6], [0x0800, 0x86DD], 0).astype(np.int64)
    else:
        kind = _number(data, np.full(len(packets), place, np.int64))
        for _ in range(2):  # tags of virtual networks
            tagged = (kind == 0x8100) | (kind == 0x88A8)
            kind = np.where(tagged, _number(data, start + 2), kind)
            start = np.where(tagged, start + 4, start)
    four = (kind == 0x0800) & (lengths >= start + 20)
    six = (kind == 0x86DD) & (lengths >= start + 40)
    content = np.where(four, _byte(data, start + 9), np.where(six, _byte(data, start + 6), -1))
    ports = start + np.where(four, (_byte(data, start) & 15) * 4, 40)
    first = six | (four & (_number(data, start + 6) & 0x1FFF == 0))  # later fragments have no ports
    has_ports = first & np.isin(content, _WITH_PORTS) & (lengths >= ports + 4)
    times = pl.Series([each.time // 1000 for each in packets], dtype=pl.Int64).cast(pl.Datetime("us"))
    return pl.DataFrame(
        {
            "time": times,
            "protocol": _protocols(content, kind),
            "source": _addresses(data, start, four, six, 12, 8),
            "source_port": _where(_number(data, ports), has_ports),
            "destination": _addresses(data, start, four, six, 16, 24),
            "destination_port": _where(_number(data, ports + 2), has_ports),
            "bytes": pl.Series([each.size for each in packets], dtype=pl.Int64),
        }
    )


def _byte(data: _Bytes, place: _Numbers) -> _Numbers:
    found: _Numbers = data[np.arange(len(data)), np.minimum(place, _HEADERS - 1)].astype(np.int64)
    return found


def _number(data: _Bytes, place: _Numbers) -> _Numbers:
    """Numbers of two bytes."""
    return _byte(data, place) << 8 | _byte(data, place + 1)


def _where(values: _Numbers, known: NDArray[np.bool_]) -> pl.Series:
    return pl.Series(values).set(pl.Series(~known), None)


def _protocols(content: _Numbers, kind: _Numbers) -> pl.Series:
    names = {
        each: _PROTOCOLS.get(each % 256, f"IP {each % 256}")
        if each < 256
        else _TYPES.get(each - 256, f"0x{each - 256:04x}")
        for each in np.unique(np.where(content >= 0, content, kind + 256)).tolist()
    }
    return pl.Series(np.where(content >= 0, content, kind + 256)).replace_strict(names, return_dtype=pl.String)


def _addresses(
    data: _Bytes, start: _Numbers, four: NDArray[np.bool_], six: NDArray[np.bool_], at_four: int, at_six: int
) -> pl.Series:
    found = np.full(len(data), None, dtype=object)
    for chosen, at, size in ((four, at_four, 4), (six, at_six, 16)):
        if not chosen.any():
            continue
        places = (start[chosen] + at)[:, None] + np.arange(size)
        packed = np.ascontiguousarray(data[np.flatnonzero(chosen)[:, None], places]).view(f"V{size}").ravel()
        different, which = np.unique(packed, return_inverse=True)
        texts = np.array([str(ipaddress.ip_address(each.tobytes())) for each in different], dtype=object)
        found[chosen] = texts[which]
    return pl.Series(found.tolist(), dtype=pl.String)  # of an array without a text it makes objects
