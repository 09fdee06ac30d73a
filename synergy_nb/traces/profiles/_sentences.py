"""A profile in sentences: one finding for each part, which says first what it means."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final, NamedTuple

from synergy_nb.errors import harmless
from synergy_nb.models.drifts import LARGE, SMALL
from synergy_nb.plan.terms.units import amount, counted
from synergy_nb.reporting.formatting import seconds, share, size
from synergy_nb.traces.profiles._values import ColumnProfile, HurstProfile, MeasuredTrace

HOURS: Final = 3600.0
DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_BURSTY: Final = 2.0  # dispersion from which on counts vary clearly more than by chance
_EVEN: Final = 0.5  # dispersion below which they vary clearly less
_STRONG: Final = 0.6  # strength from which on a season is strong
_NO_MEMORY: Final = 0.5  # Hurst exponent of a series without memory
_NEAR: Final = 0.1  # distance up to which values follow a power law
_HEAVY: Final = 2.0  # exponent up to which the variance is infinite


class FoundPart(NamedTuple):
    """One part of a profile: its title, what was found, and what is not known."""

    key: str  # name of the part
    title: str
    sentence: str
    unknown: tuple[str, ...] = ()


def text(profile: MeasuredTrace) -> str:
    """All parts, a line each."""
    found = findings(profile)
    width = max(len(each.title) for each in found)
    lines = [f"{harmless(profile.name)}: {overview(profile)}"]
    for each in found:
        lines.append(f"  {each.title:<{width}}  {harmless(each.sentence)}")
        lines += [f"  {'':<{width}}  not known: {why}" for why in each.unknown]
    return "\n".join(lines)


def overview(profile: MeasuredTrace) -> str:
    """What it is of."""
    if not profile.rows:
        return "no rows"
    return (
        f"{counted(profile.rows, 'row')} from {moment(profile.first)} to {moment(profile.last)} (UTC), "
        f"{span(profile.seconds)}; {rate(profile.rate)} on average, {size(profile.row_bytes)} a row in memory"
    )


def findings(profile: MeasuredTrace) -> list[FoundPart]:
    """All parts of a profile, in the order in which they are shown."""
    if not profile.rows:
        return [FoundPart("rates", "Rates", "There are no rows.")]
    parts = [
        ("rates", "Rates", _rates(profile), ()),
        ("bursts", "Bursts", _bursts(profile), ("Hurst exponent",)),
        (
            "season", "Season and trend", _season(profile),
            ("season", "daily season", "weekly season", "trend", "forecast"),
        ),
        ("tails", "Heavy tails", _tails(profile), ()),
        ("skew", "Key skew", _skew(profile), ()),
        ("predicates", "Selectivities", _predicates(profile), ()),
        ("windows", "Windows and groups", _windows(profile), ()),
        ("disorder", "Gaps and disorder", f"{_gaps(profile)} {_disorder(profile)}".strip(), ("disorder",)),
        ("drift", "Drift between days", _drift(profile), ("drift",)),
    ]  # fmt: skip
    return [
        FoundPart(key, title, sentence, tuple(_reasons(profile, names)))
        for key, title, sentence, names in parts
        if sentence or any(name in profile.unknown for name in names)
    ]


def _reasons(profile: MeasuredTrace, names: tuple[str, ...]) -> Iterator[str]:
    said: dict[str, list[str]] = {}
    for name in names:
        if name in profile.unknown:
            said.setdefault(profile.unknown[name], []).append(name)
    for why, which in said.items():
        yield f"{' and '.join(which)}: {why}"


# -- the parts ---------------------------------------------------------------------------------------------------------


def _rates(profile: MeasuredTrace) -> str:
    first = profile.rates[0]
    mean = profile.rate
    peak = first.rate.most / mean if mean else 0.0
    said = f"The busiest {scale(first.seconds)} has {rate(first.rate.most)}, {peak:.3g} times the mean"
    hour = next((each for each in profile.rates if each.seconds == HOURS), None)
    if hour is not None:
        said += f"; the busiest hour has {rate(hour.rate.most)}, {hour.rate.most / mean:.3g} times the mean"
    return f"{said}."


def _bursts(profile: MeasuredTrace) -> str:
    known = [each for each in profile.rates if each.dispersion is not None]
    said = ""
    if known:
        short, far = known[0], max(known, key=lambda each: each.dispersion or 0.0)
        least, most = (amount(float(f"{each.dispersion or 0.0:.3g}")) for each in (short, far))
        of = f"the variance of their counts is {least} times the mean in periods of {seconds(short.seconds)}"
        if (far.dispersion or 0.0) < _BURSTY:
            how = "more evenly than" if (far.dispersion or 0.0) < _EVEN else "about as"
            said = f"Rows come {how} random arrivals do: {of}, and at most {most} times in longer ones (1: Poisson)."
        else:
            said = f"Rows come in bursts: {of}, and {most} times in periods of {seconds(far.seconds)} (1: Poisson)."
    if profile.hurst:
        sure = all(each.low > _NO_MEMORY for each in profile.hurst)
        wanders = all(each.low > 1.0 for each in profile.hurst)
        meaning = (
            "the level itself wanders" if wanders else
            "bursts last, and queues are longer than the mean rate tells" if sure else
            "that bursts last is not certain"
        )  # fmt: skip
        said += f" Hurst exponent {' and '.join(map(hurst, profile.hurst))}: {meaning}."
    return said.strip()


def hurst(found: HurstProfile) -> str:
    """An exponent in words."""
    return f"{found.value:.2f} ({found.low:.2f} to {found.high:.2f}, {found.estimator})"


def _season(profile: MeasuredTrace) -> str:
    found = profile.season
    if found is None:
        return ""
    said = []
    if found.daily is not None and found.hours:
        strength = "strong" if found.daily >= _STRONG else "weak" if found.daily >= 0.3 else "hardly any"
        top, low = max(range(24), key=found.hours.__getitem__), min(range(24), key=found.hours.__getitem__)
        said.append(
            f"There is a {strength} daily season (strength {found.daily:.2f} of 1): most rows come from {top:02}:00 on "
            f"({rate(found.hours[top])}), the fewest from {low:02}:00 on ({rate(found.hours[low])}), UTC."
            if strength != "hardly any" else f"There is hardly any daily season (strength {found.daily:.2f} of 1)."
        )  # fmt: skip
    if found.weekly is not None and found.weekdays:
        top, low = max(range(7), key=found.weekdays.__getitem__), min(range(7), key=found.weekdays.__getitem__)
        said.append(
            f"The week has a season of strength {found.weekly:.2f}: {DAYS[top]} has {rate(found.weekdays[top])}, "
            f"{DAYS[low]} {rate(found.weekdays[low])}."
        )
    if found.trend is not None:
        low_end, high = found.trend.low, found.trend.high
        clear = low_end > 0.0 or high < 0.0
        said.append(
            f"The rate {'rises' if found.trend.value > 0 else 'falls'} by {share(abs(found.trend.value))} a day "
            f"({share(low_end)} to {share(high)})." if clear else
            f"There is no clear trend ({share(low_end)} to {share(high)} a day)."
        )  # fmt: skip
    if found.verdict == "undecided":
        said.append("Two tests do not tell whether the rates are stationary.")
    elif found.verdict:
        said.append(f"By two tests the rates are {found.verdict}.")
    return " ".join(said)


def _tails(profile: MeasuredTrace) -> str:
    found = {name: each.tail for name, each in profile.columns.items() if each.tail is not None}
    if not found:
        return ""
    heavy = {name: tail for name, tail in found.items() if tail.alpha.value <= _HEAVY and tail.distance <= _NEAR}
    if heavy:
        said = "; ".join(
            f"{name} beyond {amount(tail.above)} (exponent {tail.alpha.value:.2f}, {tail.alpha.low:.2f} to "
            f"{tail.alpha.high:.2f})" for name, tail in heavy.items()
        )  # fmt: skip
        return f"The largest values follow a heavy tail, so means and sums settle slowly: {said}."
    said = "; ".join(
        f"{name} (exponent {tail.alpha.value:.2f}{'' if tail.distance <= _NEAR else ', which does not fit well'})"
        for name, tail in found.items()
    )
    return f"No column has a clearly heavy tail: {said}."


def _skew(profile: MeasuredTrace) -> str:
    said = []
    for name, column in keys(profile):
        assert column.skew is not None
        value, most = column.skew.top[0]
        law = column.skew.zipf
        zipf = f", Zipf exponent {law.value:.2f}" if law is not None and column.skew.fit > 0.8 else ""
        said.append(f"{name} has {different(column)}, of which {shown(value)} has {share(most)} of the rows{zipf}")
    return f"{'; '.join(said[:4])}{'; and others' if len(said) > 4 else ''}." if said else ""


def keys(profile: MeasuredTrace) -> list[tuple[str, ColumnProfile]]:
    """Columns by which rows may be grouped, those with the most unequal shares first."""
    found = [(name, column) for name, column in profile.columns.items() if column.skew is not None]
    return sorted(found, key=lambda each: -each[1].skew.top[0][1] if each[1].skew and each[1].skew.top else 0.0)


def _predicates(profile: MeasuredTrace) -> str:
    found = [each for column in profile.columns.values() for each in column.predicates]
    if not found:
        return ""
    rare = min(found, key=lambda each: each.selectivity)
    wide = max(found, key=lambda each: each.selectivity)
    return (
        f"Of {counted(len(found), 'candidate predicate')}, {shown(wide.predicate)} keeps the most rows "
        f"({share(wide.selectivity)}), and {shown(rare.predicate)} the fewest ({share(rare.selectivity)})."
    )


def _windows(profile: MeasuredTrace) -> str:
    long = next((each for each in reversed(profile.windows) if each.rows.most), None)
    if long is None:
        return ""
    said = (
        f"A window of {seconds(long.seconds)} has {amount(long.rows.mean)} rows on average, and at most "
        f"{amount(long.rows.most)} ({size(long.nbytes.most)})"
    )
    if long.groups:
        name, most = max(long.groups.items(), key=lambda each: each[1].most)
        said += f"; grouped by {name} it has {amount(most.mean)} groups on average and {amount(most.most)} at most"
    return f"{said}."


def _gaps(profile: MeasuredTrace) -> str:
    if not profile.gaps:
        return "There is no gap."
    longest = profile.gaps[0]
    unit = profile.rates[0]
    per = unit.rate.mean * unit.seconds
    chance = unit.seconds * math.log(max(unit.periods, 2)) / per if per > 0.0 else math.inf
    said = f"The longest gap is {span(longest.seconds)}, from {moment(longest.start)} on"
    if longest.seconds > 3.0 * max(chance, unit.seconds):
        return f"{said}: {longest.seconds / max(chance, unit.seconds):,.0f} times what chance makes at the mean rate."
    return f"{said}, as chance makes at the mean rate."


def _disorder(profile: MeasuredTrace) -> str:
    if profile.disorder is None:
        return ""
    if profile.disorder <= 0.0:
        return "The rows of each raw file come in order: no lateness loses any."
    enough = next((each.seconds for each in profile.lateness if not each.lost), None)
    none = next((each.lost for each in profile.lateness if each.seconds == 0.0), 0)
    said = f"Rows come up to {seconds(profile.disorder)} late: without lateness {share(none / profile.rows)} are lost"
    return f"{said}, with one of {seconds(enough)} none." if enough is not None else f"{said}."


def _drift(profile: MeasuredTrace) -> str:
    if len(profile.days) < 2:
        return ""
    ratios = [(day.day, day.ratio) for day in profile.days if day.ratio]
    said = ""
    if ratios:
        day, ratio = max(ratios, key=lambda each: abs(math.log(each[1] or 1.0)))
        said = f"The rate changes most on {day}: {ratio:.3g} times that of the same hours of the day before."
    shifts = [(index, day.day, name) for day in profile.days for name, index in day.shifts.items()]
    if shifts:
        index, day, name = max(shifts)
        meaning = "no drift" if index < SMALL else "a small drift" if index < LARGE else "a large drift"
        said += f" Of all columns {name} differs most from the other days, on {day}: index {index:.2f}, {meaning}."
    return said.strip()


# -- words -------------------------------------------------------------------------------------------------------------


def rate(value: float) -> str:
    """A rate in words."""
    return f"{amount(float(f'{value:.3g}'))} rows/s"


def scale(length: float) -> str:
    """A period in words: the second, the hour."""
    names = {1.0: "second", 60.0: "minute", HOURS: "hour", 86_400.0: "day"}
    return names.get(length, f"period of {seconds(length)}")


def span(length: float) -> str:
    """A length of time."""
    return f"{length / 86_400.0:.3g} days" if length >= 2 * 86_400.0 else seconds(length)


def moment(iso: str) -> str:
    """A time without what is 0."""
    day, _, clock = iso.partition("T")
    clock = clock.rstrip("0").rstrip(".") if "." in clock else clock
    return day if clock in ("00:00:", "") else f"{day} {clock}"


def different(column: ColumnProfile) -> str:
    """Number of different values in words."""
    exact = column.distinct_basis == "exact"
    return f"{'' if exact else 'about '}{counted(float(f'{column.distinct:.4g}'), 'value')}"


def shown(value: str) -> str:
    """A value of somebody else, short and without control characters."""
    if not value:
        return "(empty)"
    value = harmless(value).replace("\n", "\\n").replace("\t", "\\t")
    return value if len(value) <= 60 else f"{value[:57]}..."
