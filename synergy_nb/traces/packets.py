"""Generated packets: self-similar traffic from heavy-tailed ON/OFF sources.

Each of ``sources`` independent sources alternates between ON periods, in which it sends packets at a constant rate, and
silent OFF periods. Both lengths follow a Pareto distribution with tail index alpha between 1 and 2, so they have a mean
but no variance, and the number of packets in equal intervals of their superposition is asymptotically self-similar with
Hurst parameter H = (3 - alpha) / 2 (Willinger et al. [1]_, theorem 1). One ON period is one flow: it goes over one
link, from one host and port to another, hosts being drawn with Zipf popularity.

The sources start in their stationary state, so the expected rate is the stated one from the first moment on. Every
source has its own generator, and all times are whole nanoseconds: the packets depend on the parameters alone, neither
on the size of batches nor on the last bit of a machine's ``pow``.

.. [1] W. Willinger, M. Taqqu, R. Sherman, D. Wilson. Self-similarity through high-variability: statistical analysis of
   Ethernet LAN traffic at the source level. IEEE/ACM Transactions on Networking 5(1), 1997.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np
import polars as pl

from synergy_nb.dataflow.tuples import END, Batch, Item, Punctuation
from synergy_nb.plan.operators.sources import TRACE_SCHEMAS

__all__ = ["RANGES", "SCHEMA", "Parameters", "check_ranges", "generate", "parameters", "schema_of", "tables"]

Ints: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
Flows: TypeAlias = np.ndarray[Any, np.dtype[np.int32]]
Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]

SCHEMA: Final = dict(TRACE_SCHEMAS["packets"])
DUTY: Final = 0.3  # share of the time for which a source is ON
BURST: Final = 20.0  # mean number of packets of an ON period
SLICE: Final = 65_536  # expected number of packets of a slice of time, which is generated at once
LEAST: Final = 1024  # least number of packets of a slice of time
AHEAD: Final = 10.0  # seconds of a stream that a slice covers, within these bounds
PERIODS: Final = 256  # number of periods that a source draws at once
# Services by popularity, and the bytes of a packet: acknowledgements, the old default segment, Ethernet's largest.
SERVICES: Final = ((80, 0.40), (443, 0.25), (25, 0.10), (53, 0.10), (22, 0.05), (20, 0.05), (119, 0.05))
SIZES: Final = ((40, 0.45), (552, 0.20), (1040, 0.05), (1500, 0.30))
# flags of the first packet of a flow, of the second one, and of each later one
FLAGS: Final = ("SYN", "SYN-ACK", "ACK")
#: Types, least and greatest values of parameters that are numbers.
RANGES: Final[Mapping[str, tuple[type, float, float]]] = {
    "seed": (int, 0, 2**63),
    "sources": (int, 1, 100_000),
    "hosts": (int, 2, 1_000_000),
    "count": (int, 1, 2**62),
    "rate": (float, 1e-6, 1e9),
    "duration": (float, 1e-6, 1e9),
    "alpha": (float, 1.01, 1.99),
    "zipf": (float, 0.0, 10.0),
    "start": (float, -1e10, 1e11),
}
_NANO: Final = 1_000_000_000
_LONGEST: Final = 1e16  # nanoseconds: keeps sums of Pareto draws within 64 bits


class Parameters(msgspec.Struct, frozen=True):
    """Parameters of a generated packet stream.

    Parameters
    ----------
    seed
        Seed of all random numbers.
    rate
        Mean rate over all sources, packets/s.
    sources
        Number of ON/OFF sources.
    hosts
        Number of hosts, with Zipf popularity of exponent ``zipf``.
    links
        Names of the links; each flow goes over one of them, all equally likely.
    duration, count
        Duration in seconds and number of packets after which the stream ends; None for no limit.
    alpha
        Tail index of the ON and OFF periods, above 1 and below 2; H = (3 - alpha) / 2.
    zipf
        Exponent of the popularity of hosts.
    start
        Event time of the beginning, in seconds since 1970.
    flags
        Whether packets have TCP flags: the first packet of a flow is a SYN, the second one the returning SYN-ACK, all
        others are ACKs. So a flow of one packet was never answered, and a flow of two was never acknowledged.
    """

    seed: int = 0
    rate: float = 1000.0
    sources: int = 64
    hosts: int = 500
    links: tuple[str, ...] = ("A", "B")
    duration: float | None = None
    count: int | None = None
    alpha: float = 1.4
    zipf: float = 1.0
    start: float = 0.0
    flags: bool = False


def parameters(params: Mapping[str, Any]) -> Parameters:
    """Validate the parameters of a source with connector ``packets``.

    ``links`` may be a number (links A, B, ...) or their names. Keys that are no field of :class:`Parameters` belong to
    the source (``connector``, ``speed``, ``batch``) and are ignored.

    Raises ValueError if a value is invalid; the text gives field, value and what was expected.
    """
    given = {name: params[name] for name in Parameters.__struct_fields__ if name in params and params[name] is not None}
    links = given.get("links", Parameters().links)
    if isinstance(links, int) and not isinstance(links, bool) and links > 0:
        links = [chr(65 + index) if links <= 26 else f"L{index + 1}" for index in range(links)]
    if not isinstance(links, list | tuple) or not links or not all(isinstance(link, str) and link for link in links):
        raise ValueError(f"links: {links!r}; expected a number of links or their names")
    if len(set(links)) < len(links):
        raise ValueError(f"links: {links!r}; expected distinct names")
    given["links"] = tuple(links)
    check_ranges(given, RANGES)
    if not isinstance(given.get("flags", False), bool):
        raise ValueError(f"flags: {given['flags']!r}; expected true or false")
    made = Parameters(**given)
    if made.sources * DUTY / made.rate < 1e-7:  # seconds between two packets of a source that is ON
        least_sources = math.ceil(made.rate * 1e-7 / DUTY)
        raise ValueError(f"sources: {made.sources} at rate {made.rate:g}; expected at least {least_sources}")
    return made


def check_ranges(given: Mapping[str, Any], ranges: Mapping[str, tuple[type, float, float]]) -> None:
    """Raise ``ValueError`` if a value that is given is no number of its type, or is out of its range."""
    for name, (kind, least, most) in ranges.items():
        value = given.get(name)
        if value is None:
            continue
        whole = isinstance(value, int) and not isinstance(value, bool)
        if not (whole or (kind is float and isinstance(value, float))) or not least <= value <= most:
            noun = "a whole number" if kind is int else "a number"
            raise ValueError(f"{name}: {value!r}; expected {noun} from {least:g} to {most:g}")


def schema_of(params: Mapping[str, Any]) -> dict[str, str]:
    """Column to type of the packets of a source with these parameters."""
    return {**SCHEMA, "flags": "str"} if params.get("flags") else dict(SCHEMA)


def generate(parameters: Parameters, rows: int | None = None) -> Iterator[Item]:
    """Generate batches of ``rows`` packets, each followed by a punctuation, the last by ``END``.

    By default a batch has the packets of ten seconds, within bounds: a smaller batch would cost too much per packet,
    and a larger batch of a slow stream would hold the packets of half an hour.
    """
    rows = rows or _at_once(parameters)
    position = 0
    pending: pl.DataFrame | None = None
    for table in tables(parameters):
        pending = table if pending is None else pl.concat([pending, table])
        # One packet is held back, as the next one determines the time of the punctuation.
        start = 0
        while pending.height - start > rows:
            yield Batch(pending.slice(start, rows), position, 0.0)
            start += rows
            position += rows
            yield Punctuation(int(pending["time"].cast(pl.Int64)[start]), position, 0.0)
        pending = pending.slice(start)
    if pending is not None and pending.height:
        yield Batch(pending, position, 0.0)
        position += pending.height
    yield Punctuation(END, position, 0.0)


def _at_once(parameters: Parameters) -> int:
    """Number of packets to generate at once."""
    return max(min(round(AHEAD * parameters.rate), SLICE), LEAST)


def tables(parameters: Parameters) -> Iterator[pl.DataFrame]:
    """Generate the packets by slices of time, as tables that are sorted by time and may be empty."""
    root = np.random.SeedSequence(parameters.seed)
    *seeds, size_seed = root.spawn(parameters.sources + 1)
    gap = round(parameters.sources * DUTY / parameters.rate * _NANO)
    popularity = _cumulative(np.arange(1, parameters.hosts + 1, dtype=np.float64) ** -parameters.zipf)
    sources = [_Source(np.random.Generator(np.random.PCG64(seed)), gap, parameters, popularity) for seed in seeds]
    sizes = np.random.Generator(np.random.PCG64(size_seed))
    size_values = np.array([size for size, _ in SIZES], dtype=np.int64)
    size_shares = _cumulative(np.array([share for _, share in SIZES]))
    width = len(str(parameters.hosts - 1))
    hosts = pl.Series("host", [f"h{index:0{width}}" for index in range(parameters.hosts)])
    links = pl.Series("link", parameters.links)
    first = round(parameters.start * 1e6)
    length = max(round(_at_once(parameters) / parameters.rate * _NANO), 1)
    end = None if parameters.duration is None else round(parameters.duration * _NANO)
    left = parameters.count
    now = 0
    while (end is None or now < end) and (left is None or left > 0):
        now = now + length if end is None else min(now + length, end)
        pieces = [source.until(now) for source in sources]
        base = np.cumsum([0] + [len(piece[2]) for piece in pieces])
        time = np.concatenate([piece[0] for piece in pieces])
        order = np.argsort(time, kind="stable")  # those of each source are sorted, so this merges rather than sorts
        if left is not None:
            order = order[:left]
            left -= len(order)
        index = np.concatenate([piece[1] + offset for piece, offset in zip(pieces, base, strict=False)])[order]
        flows = np.concatenate([piece[2] for piece in pieces])
        size = size_values[np.searchsorted(size_shares, sizes.random(len(order)), side="right")]
        table = pl.DataFrame(
            {
                "time": pl.Series(time[order] // 1000 + first).cast(pl.Datetime("us")),
                "link": links.gather(flows[:, 0]).gather(index),
                "source": hosts.gather(flows[:, 1]).gather(index),
                "destination": hosts.gather(flows[:, 2]).gather(index),
                "source_port": flows[index, 3].astype(np.int64),
                "destination_port": flows[index, 4].astype(np.int64),
                "bytes": size,
            }
        )
        yield _flagged(table, np.concatenate([piece[3] for piece in pieces])[order]) if parameters.flags else table


def _flagged(table: pl.DataFrame, number: Ints) -> pl.DataFrame:
    """Add flags to packets by their numbers in their flows; returning ones have source and destination exchanged."""
    answers = pl.Series(number == 1)
    there, back = ("source", "source_port"), ("destination", "destination_port")
    pairs = zip((*there, *back), (*back, *there), strict=True)
    turned = [pl.when(answers).then(pl.col(other)).otherwise(pl.col(own)).alias(own) for own, other in pairs]
    names = pl.Series("flags", FLAGS).gather(np.minimum(number, 2))
    return table.with_columns(*turned, names)


class _Source:
    """One ON/OFF source.

    It sends a packet every ``gap`` nanoseconds on a clock that runs only while it is ON. Period j lasts from ``on_end[j
    - 1]`` to ``on_end[j]`` on that clock, after ``silence[j]`` nanoseconds of OFF altogether: the packet at v leaves at
    v + ``silence[j]``. ``flows[j]`` is its link, source, destination, source port and destination port.
    """

    __slots__ = (
        "alpha",
        "clock",
        "flows",
        "gap",
        "given",
        "hosts",
        "least",
        "links",
        "next",
        "numbered",
        "off",
        "on_end",
        "popularity",
        "residual",
        "rng",
        "services",
        "silence",
        "starts",
    )

    def __init__(self, rng: np.random.Generator, gap: int, parameters: Parameters, popularity: Floats) -> None:
        self.rng = rng
        self.gap = gap
        self.numbered = parameters.flags
        self.alpha = alpha = parameters.alpha
        self.hosts = parameters.hosts
        self.links = len(parameters.links)
        self.popularity = popularity
        self.services = _cumulative(np.array([share for _, share in SERVICES]))
        # a Pareto distribution with this least value has mean least * alpha / (alpha - 1)
        self.least = BURST * gap * (alpha - 1) / alpha * np.array([1.0, (1 - DUTY) / DUTY])
        # Stationary start: ON with probability DUTY, and of the current period the residual life is left.
        on, body, tail, phase = rng.random(4)
        least = float(self.least[0 if on < DUTY else 1])
        stretch = tail if body < (alpha - 1) / alpha else (1 - tail) ** (-1 / (alpha - 1))
        residual = round(min(least * stretch, _LONGEST))
        self.residual = residual if on < DUTY else None
        self.off = 0 if on < DUTY else residual  # silence before the next period to draw
        self.clock = 0  # start of that period on the clock
        self.next = int(phase * gap)  # the next packet on the clock
        self.given = 0  # packets already emitted of the first retained period
        self.on_end: Ints = np.empty(0, dtype=np.int64)
        self.starts: Ints = np.empty(0, dtype=np.int64)  # start time of each period
        self.silence: Ints = np.empty(0, dtype=np.int64)
        self.flows: Flows = np.empty((0, 5), dtype=np.int32)

    def until(self, limit: int) -> tuple[Ints, Ints, Flows, Ints]:
        """Return the new packets before ``limit``: times, periods, flows of the periods, and numbers within these.

        Only flags need the numbers.
        """
        while self.clock + self.off < limit:
            self._extend()
        current = int(self.starts.searchsorted(limit)) - 1  # the last period that begins before `limit`
        if current < 0:
            return self.on_end[:0], self.on_end[:0], self.flows[:0], self.on_end[:0]
        reached = min(int(self.on_end[current]), limit - int(self.silence[current]))
        count = max(-((self.next - reached) // self.gap), 0)
        clock = np.arange(self.next, self.next + count * self.gap, self.gap, dtype=np.int64)
        self.next += count * self.gap
        period = self.on_end.searchsorted(clock, side="right").astype(np.int64, copy=False)
        number = self._numbers(period, current) if self.numbered else period
        result = clock + self.silence[period], period, self.flows[: current + 1], number
        self.on_end, self.starts = self.on_end[current:], self.starts[current:]
        self.silence, self.flows = self.silence[current:], self.flows[current:]
        return result

    def _numbers(self, period: Ints, current: int) -> Ints:
        """Numbers of packets in their periods, of which ``current`` is the last."""
        number = np.arange(len(period)) - period.searchsorted(period) + np.where(period == 0, self.given, 0)
        self.given = int(np.count_nonzero(period == current)) + (self.given if current == 0 else 0)
        return number

    def _extend(self) -> None:
        draws = self.rng.random((7, PERIODS))
        lengths = self.least[:, None] * (1 - draws[:2]) ** (-1 / self.alpha)
        on, off = np.rint(np.minimum(lengths, _LONGEST)).astype(np.int64)
        if self.residual is not None:
            on[0], self.residual = self.residual, None
        ends = self.clock + np.cumsum(on)
        silence = self.off + np.cumsum(off) - off
        source = np.searchsorted(self.popularity, draws[3], side="right")
        # popular destinations differ from popular sources, and no host sends to itself
        destination = (np.searchsorted(self.popularity, draws[4], side="right") + self.hosts // 2) % self.hosts
        destination = np.where(destination == source, (destination + 1) % self.hosts, destination)
        services = np.array([port for port, _ in SERVICES])
        flows = np.empty((PERIODS, 5), dtype=np.int32)  # many sources hold many of them
        flows[:, 0] = (draws[2] * self.links).astype(np.int64)
        flows[:, 1] = source
        flows[:, 2] = destination
        flows[:, 3] = 1024 + (draws[5] * (65_536 - 1024)).astype(np.int64)
        flows[:, 4] = services[np.searchsorted(self.services, draws[6], side="right")]
        self.clock = int(ends[-1])
        self.off = int(silence[-1] + off[-1])
        self.on_end = np.concatenate((self.on_end, ends))
        self.starts = np.concatenate((self.starts, ends - on + silence))
        self.silence = np.concatenate((self.silence, silence))
        self.flows = np.concatenate((self.flows, flows))


def _cumulative(weights: Floats) -> Floats:
    """Upper bounds, in [0, 1), of the parts of the unit interval that belong to all weights but the last."""
    sums: Floats = np.cumsum(weights)
    bounds: Floats = sums[:-1] / sums[-1]
    return bounds
