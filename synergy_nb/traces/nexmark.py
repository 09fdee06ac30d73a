"""Generated events of an auction site, as in the benchmark NEXMark: persons, their auctions, and bids.

Of 50 events the first is a new person, three are new auctions, and the others bids. Event n comes n / ``rate`` seconds
after the start, so sources of equal parameters are streams of one site: a bid names an auction and a person that are in
the other two streams, and were there before it. As in the benchmark [1]_ some are named more often: three in four
auctions are of the latest person whose number is a multiple of 100, and three in four bids by that person; half of the
bids are for the latest auction whose number is a multiple of 100.

Events are generated in pieces, each with a generator of its own, so a table needs no other one; numbers are drawn as
integers, so no last bit of a machine's arithmetic is in them. An auction lasts 1 to 8 s of event time at any rate, so
that a query can state the interval of a join; the benchmark's last for about 3,000 events.

.. [1] P. Tucker, K. Tufte, V. Papadimos, D. Maier. NEXMark: a benchmark for queries over data streams. Technical
   report, OGI School of Science & Engineering at OHSU, 2002.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
import numpy as np
import polars as pl

from synergy_nb.plan.operators.sources import NEXMARK
from synergy_nb.traces.packets import RANGES, check_ranges

__all__ = ["LONGEST", "SiteParameters", "parameters", "schema_of", "tables"]

Ints: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]

LONGEST: Final = 8_000_000  # µs of the longest auction
SHORTEST: Final = 1_000_000
GROUP: Final = 50  # events: a person, three auctions, bids
AUCTIONS: Final = 3
PIECE: Final = 1024  # groups that are generated at once
FIRST_ID: Final = 1000
HOT: Final = 100  # numbers that are multiples of it are named more often
IN_FLIGHT: Final = 100  # auctions that are bid for
ACTIVE: Final = 1000  # persons that sell and bid
CATEGORIES: Final = (10, 15)
STATES: Final = ("AZ", "CA", "ID", "OR", "WA", "WY")
CITIES: Final = ("Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond", "Seattle", "Kent")
FIRST_NAMES: Final = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter")
LAST_NAMES: Final = ("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris")
CHANNELS: Final = ("Apple", "Google", "Facebook", "Baidu")  # those of half of the bids
OTHERS: Final = 10_000  # other channels
TEXTS: Final = 4096  # different texts of items and of `extra`


class SiteParameters(msgspec.Struct, frozen=True):
    """Parameters of one of the three tables."""

    table: str  # person, auction, or bid
    seed: int = 0
    rate: float = 1000.0  # events of all three tables, events/s of event time
    duration: float | None = None  # seconds after which the stream ends; None: never
    count: int | None = None  # events of all three tables after which it ends; None: never
    start: float = 0.0  # event time of the beginning, seconds since 1970


def parameters(params: Mapping[str, Any]) -> SiteParameters:
    """The parameters of a source with connector ``nexmark``; others belong to the source.

    Raises ``ValueError`` if a value is invalid; the text gives field, value and what was expected.
    """
    given = {name: params[name] for name in SiteParameters.__struct_fields__ if params.get(name) is not None}
    if given.get("table") not in NEXMARK:
        raise ValueError(f"table: {given.get('table')!r}; expected one of {', '.join(NEXMARK)}")
    check_ranges(given, {each: RANGES[each] for each in ("seed", "rate", "duration", "count", "start")})
    return SiteParameters(**given)


def schema_of(params: Mapping[str, Any]) -> dict[str, str]:
    """Column to type of a source with these parameters."""
    return dict(NEXMARK[parameters(params).table])


def tables(parameters: SiteParameters) -> Iterator[pl.DataFrame]:
    """Generate a table piece by piece, sorted by time; none is empty, and none has more than 47,104 rows."""
    ends = [math.ceil(parameters.duration * parameters.rate)] if parameters.duration is not None else []
    end = min([*ends, *([] if parameters.count is None else [parameters.count])], default=None)
    low, high = {"person": (0, 1), "auction": (1, 1 + AUCTIONS), "bid": (1 + AUCTIONS, GROUP)}[parameters.table]
    make = {"person": _persons, "auction": _auctions, "bid": _bids}[parameters.table]
    first = round(parameters.start * 1e6)
    piece = 0
    while end is None or piece * PIECE * GROUP < end:
        groups = np.arange(piece * PIECE, (piece + 1) * PIECE, dtype=np.int64)
        events = (groups[:, None] * GROUP + np.arange(low, high)).reshape(-1)
        seed = np.random.SeedSequence([parameters.seed, list(NEXMARK).index(parameters.table), piece])
        time = np.floor(events * (1e6 / parameters.rate)).astype(np.int64) + first
        columns = make(_Draw(np.random.Generator(np.random.PCG64(seed)), events, time))
        table = pl.DataFrame({"time": _times(time), **columns})
        table = table if end is None else table.head(int(np.searchsorted(events, end)))
        if table.height:
            yield table
        piece += 1


class _Draw(NamedTuple):
    """Random numbers of the events of a piece."""

    rng: np.random.Generator
    events: Ints  # their numbers
    time: Ints  # their times, µs

    def below(self, limit: int | Ints, least: int | Ints = 0) -> Ints:
        """A number below a limit for each event."""
        drawn: Ints = self.rng.integers(least, limit, len(self.events))
        return drawn

    def one_of(self, texts: pl.Series) -> pl.Series:
        """A text for each event."""
        return texts.gather(self.below(len(texts)))

    def price(self) -> Ints:
        """Three digits and up to five more: 100 to 99,999,999."""
        scale = 10 ** self.below(6)
        return self.below(1000, 100) * scale + self.below(scale)

    def person(self) -> Ints:
        """The id of a person that is there by then: three in four times of that which is named more often."""
        last = self.events // GROUP
        some = self.below(last + 1, np.maximum(last - ACTIVE + 1, 0))
        return FIRST_ID + np.where(self.below(4) > 0, last // HOT * HOT, some)

    def auction(self) -> Ints:
        """The id of an auction that is there by then: half the times of that which is named more often."""
        last = self.events // GROUP * AUCTIONS + AUCTIONS - 1
        some = self.below(last + 1, np.maximum(last - IN_FLIGHT + 1, 0))
        return FIRST_ID + np.where(self.below(2) > 0, last // HOT * HOT, some)


class _Texts(NamedTuple):
    """Texts of which events have some; they are the same whatever the seed."""

    names: pl.Series
    mails: pl.Series
    digits: pl.Series
    cities: pl.Series
    states: pl.Series
    items: pl.Series
    extras: pl.Series
    channels: pl.Series
    urls: pl.Series  # of the channels


@cache
def _texts() -> _Texts:
    rng = np.random.Generator(np.random.PCG64(0))
    letters = "".join(chr(code) for code in rng.integers(ord("a"), ord("z") + 1, 1 << 16).tolist())

    def words(count: int, least: int, most: int) -> list[str]:
        begins = rng.integers(0, len(letters) - most, count).tolist()
        sizes = rng.integers(least, most + 1, count).tolist()
        return [letters[at : at + size] for at, size in zip(begins, sizes, strict=True)]

    names = [f"{first} {last}" for first in FIRST_NAMES for last in LAST_NAMES]
    folders = iter(words(3 * (OTHERS + len(CHANNELS)), 3, 5))
    channels = [*CHANNELS, *(f"channel-{number}" for number in range(OTHERS))]
    numbers = rng.integers(0, 10**9, len(channels)).tolist()
    stated = rng.integers(0, 10, len(channels)).tolist()
    urls = [
        f"https://www.nexmark.com/{next(folders)}/{next(folders)}/{next(folders)}/item.htm?query=1"
        + (f"&channel_id={number}" if tenth else "")
        for number, tenth in zip(numbers, stated, strict=True)
    ]
    return _Texts(
        names=pl.Series(names),
        mails=pl.Series([f"{one}@{other}.com" for one, other in zip(words(997, 4, 8), words(997, 3, 6), strict=True)]),
        digits=pl.Series([f"{number:04}" for number in range(10_000)]),
        cities=pl.Series(CITIES),
        states=pl.Series(STATES),
        items=pl.Series(words(TEXTS, 8, 20)),
        extras=pl.Series(words(TEXTS, 0, 40)),
        channels=pl.Series(channels),
        urls=pl.Series(urls),
    )


_Columns: TypeAlias = dict[str, Any]


def _persons(draw: _Draw) -> _Columns:
    texts = _texts()
    card = pl.DataFrame({str(part): draw.one_of(texts.digits) for part in range(4)})
    return {
        "id": FIRST_ID + draw.events // GROUP,
        "name": draw.one_of(texts.names),
        "emailAddress": draw.one_of(texts.mails),
        "creditCard": card.select(pl.concat_str(pl.all(), separator=" ")).to_series(),
        "city": draw.one_of(texts.cities),
        "state": draw.one_of(texts.states),
        "extra": draw.one_of(texts.extras),
    }


def _auctions(draw: _Draw) -> _Columns:
    texts = _texts()
    begins = draw.price()
    return {
        "id": FIRST_ID + draw.events // GROUP * AUCTIONS + draw.events % GROUP - 1,
        "itemName": draw.one_of(texts.items),
        "description": draw.one_of(texts.extras),
        "initialBid": begins,
        "reserve": begins + draw.price(),
        "expires": _times(draw.time + draw.below(LONGEST + 1, SHORTEST)),
        "seller": draw.person(),
        "category": draw.below(CATEGORIES[1], CATEGORIES[0]),
        "extra": draw.one_of(texts.extras),
    }


def _bids(draw: _Draw) -> _Columns:
    texts = _texts()
    hot = draw.below(2) > 0
    channel = np.where(hot, draw.below(len(CHANNELS)), draw.below(len(CHANNELS) + OTHERS, len(CHANNELS)))
    return {
        "auction": draw.auction(),
        "bidder": draw.person(),
        "price": draw.price(),
        "channel": texts.channels.gather(channel),
        "url": texts.urls.gather(channel),
        "extra": draw.one_of(texts.extras),
    }


def _times(micros: Ints) -> pl.Series:
    return pl.Series(micros).cast(pl.Datetime("us"))
