"""Explorer of the duplicate filter of active replicas, step by step (Hwang et al., ICDE 2008, algorithm 1)."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, NamedTuple

import polars as pl

from synergy_nb.dataflow.streams.replicas.duplicate_filter import DuplicateFilter
from synergy_nb.dataflow.tuples import Batch, Punctuation
from synergy_nb.drawing.plane import PICTURE, STYLE
from synergy_nb.drawing.svg import element, label, path, picture
from synergy_nb.explore._explorer import Choice, Drawn, Explorer, Range, Value

TUPLES: Final = 12  # number of tuples of each stream
STREAMS: Final = "abc"  # names of the stream replicas
DEATH_SHARE: Final = 0.45  # share of its items that a replica sends before it dies or hangs
#: What happens to the replica that sends stream a.
FATES: Final = ("all live", "a dies", "a hangs, comes late")
EQUATION: Final = (
    "A stream replica s has a counter for each tuple, <span class='formula'>n<sub>s</sub>(t)</span>. The filter passes "
    "a copy of t from s if <span class='formula'>n<sub>s</sub>(t)</span> becomes greater than all other "
    "<span class='formula'>n<sub>s′</sub>(t)</span>: it is the first of this copy. Once one stream promises that "
    "nothing before q follows, all tuples before q have passed, and their counters go (algorithm 1, theorem 1)."
)


class FilterStep(NamedTuple):
    """One item that arrives at the filter."""

    stream: str  # name of the stream replica that delivers it
    tuple: int | None  # number of the tuple; None for a punctuation
    until: int | None  # number of the first tuple that may follow a punctuation; None for a tuple
    passes: bool
    counters: int  # number of counters of the filter after this step
    passed: int  # number of tuples that have passed so far


def filter_steps(
    replicas: int = 2, interval: int = 3, fate: str = "all live", *, seed: int = 2
) -> tuple[FilterStep, ...]:
    """Pass the streams of replicas through the filter, item by item.

    All streams have the same tuples, but between two punctuations in different orders.

    ``replicas``: number of replicas, 1 to 3; ``interval``: number of tuples between two punctuations; ``fate``: fate of
    replica a: ``all live``, ``a dies`` or ``a hangs, comes late``; ``seed``: seed of the orders and the delays of the
    tuples.

    Raises ``ValueError`` if a value is out of range.

    Examples
    --------
    >>> sum(step.passes and step.tuple is not None for step in filter_steps(3, 4, "a dies"))
    12
    """
    for name, value, most in (("replicas", replicas, len(STREAMS)), ("interval", interval, TUPLES)):
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
            raise ValueError(f"{name}: {value!r}; expected a whole number from 1 to {most}")
    if fate not in FATES:
        raise ValueError(f"fate: {fate!r}; expected one of {'; '.join(FATES)}")
    return _filter_steps(replicas, interval, fate, seed)


@lru_cache(maxsize=64)
def _filter_steps(replicas: int, interval: int, fate: str, seed: int) -> tuple[FilterStep, ...]:
    """Draw the arrival times of all items, and pass the items through the filter in this order."""
    rng = random.Random(f"{seed}/{replicas}/{interval}")
    arrivals: list[tuple[float, str, int | None, int | None]] = []
    for stream in STREAMS[:replicas]:
        at = rng.uniform(0.0, 0.5)
        items = list(_items(interval, rng))
        for number, (tuple_number, until) in enumerate(items):
            at += rng.uniform(0.6, 1.4)
            if fate != "all live" and stream == "a" and number >= DEATH_SHARE * len(items):
                if fate == "a dies":
                    break
                at += 2.0 * len(items) if number - 1 < DEATH_SHARE * len(items) else 0.0
            arrivals.append((at, stream, tuple_number, until))
    merged = DuplicateFilter(STREAMS[:replicas])
    steps = []
    passed = 0
    for _, stream, tuple_number, until in sorted(arrivals, key=lambda each: each[0]):
        if tuple_number is not None:
            table = pl.DataFrame({"time": [tuple_number]}).cast(pl.Datetime("us"))
            passes = merged.receive(stream, Batch(table, 0, 0.0)) is not None
            passed += passes
        else:
            passes = merged.receive(stream, Punctuation(until or 0, 0, 0.0)) is not None
        steps.append(FilterStep(stream, tuple_number, until, passes, merged.counters, passed))
    return tuple(steps)


def _items(interval: int, rng: random.Random) -> Iterator[tuple[int | None, int | None]]:
    """Items of one stream: tuples in random order with a punctuation after each interval; one of the two is None."""
    for begin in range(0, TUPLES, interval):
        numbers = list(range(begin, min(begin + interval, TUPLES)))
        rng.shuffle(numbers)
        yield from ((number, None) for number in numbers)
        yield None, max(numbers) + 1


def draw_steps(replicas: int, interval: int, fate: str, step: int) -> Drawn:
    """Draw the items of the streams in the order of their arrival, and which of the first steps pass."""
    steps = filter_steps(replicas, interval, fate)
    done = steps[: min(step, len(steps))]
    wide = max(15.5, 668.0 / max(len(steps), 1))
    parts = []
    for row, stream in enumerate((*STREAMS[:replicas], "")):
        y = 34.0 + 44.0 * row
        parts.append(label(8, y + 16, f"stream {stream}" if stream else "passes", "strong"))
        parts.append(element("line", "grid", x1=76, x2=78 + wide * len(steps), y1=y + 12, y2=y + 12))
    for number, each in enumerate(steps):
        x = 78.0 + wide * number
        parts.append(_item_shape(each, x, 34.0 + 44.0 * STREAMS.index(each.stream), wide, reached=number < len(done)))
        if number < len(done) and each.passes:
            parts.append(_item_shape(each, x, 34.0 + 44.0 * replicas, wide, reached=True))
    if done:
        at = 78.0 + wide * len(done) - 1.0
        parts.append(element("line", "line ink dashed", x1=at, x2=at, y1=20, y2=58 + 44.0 * replicas))
        parts.append(label(at, 14, f"step {len(done)}", "strong", anchor="middle"))
    last = done[-1] if done else None
    numbers = (
        ("tuples passed", f"{last.passed if last else 0} of {TUPLES}"),
        ("copies dropped", str(sum(each.tuple is not None and not each.passes for each in done))),
        ("counters", str(last.counters if last else 0)),
        ("steps", f"{len(done)} of {len(steps)}"),
    )
    size = (max(78.0 + wide * len(steps) + 12.0, 640.0), 70.0 + 44.0 * replicas)
    svg = picture(PICTURE, "Items of the stream replicas, and what the filter passes", size, parts, style=STYLE)
    return Drawn(svg, numbers, _sentence(last))


def _sentence(last: FilterStep | None) -> str:
    if last is None:
        return "Nothing has arrived yet. Move the slider of the steps."
    if last.tuple is None:
        what = f"stream {last.stream} promises that nothing before {last.until} follows"
        return f"{what}, and the filter passes that on." if last.passes else f"{what}, which was known already."
    how = "is the first to deliver it: it passes" if last.passes else "delivers a copy: it is dropped"
    return f"Tuple {last.tuple}: stream {last.stream} {how}."


def _item_shape(step: FilterStep, x: float, y: float, wide: float, *, reached: bool) -> str:
    """Draw an item: a square for a tuple, a diamond for a punctuation; ``reached`` if its step is done."""
    kind = "soft" if not reached else "good" if step.passes else "bad"
    filled = "filled" if reached and step.passes else "box"
    if step.tuple is None:
        tip = f"<title>punctuation of stream {step.stream}: nothing before {step.until} follows</title>"
        middle = x + wide / 2
        diamond = ((0.0, -11.0), (7.0, 0.0), (0.0, 11.0), (-7.0, 0.0))
        corners = path((middle + across, y + 12.0 + down) for across, down in diamond)
        return element("g", "", tip, element("polygon", f"{filled} {kind}", points=corners))
    outcome = "passes" if step.passes else "dropped"
    tip = f"<title>tuple {step.tuple} of stream {step.stream}{f': {outcome}' if reached else ''}</title>"
    box = element("rect", f"{filled} {kind}", x=x + 1, y=y + 2, width=wide - 2, height=20, rx="4")
    return element("g", "", tip, box, label(x + wide / 2, y + 16.5, str(step.tuple), anchor="middle"))


def explorer() -> Explorer:
    """Explore the duplicate filter step by step (Hwang et al., ICDE 2008, algorithm 1).

    Squares are tuples, diamonds are punctuations. Filled ones have passed, those with a red outline were dropped.

    Examples
    --------
    >>> dict(explorer().set(step=60).numbers)["tuples passed"]
    '12 of 12'
    """
    controls = (
        Range("step", "step", 0, 60),
        Range("replicas", "replicas", 1, 3),
        Range("interval", "tuples between punctuations", 1, 6),
        Choice("fate", "replica a", FATES),
    )

    values: dict[str, Value] = {"step": 9, "replicas": 2, "interval": 3, "fate": "all live"}
    return Explorer("The duplicate filter, step by step", EQUATION, controls, values, draw_steps)
