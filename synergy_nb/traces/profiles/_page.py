"""A profile as a page: for each part a finding in a sentence, pictures and tables; light or dark, without a script."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterator, Sequence
from html import escape
from typing import Final

from synergy_nb.drawing.plane import Axis, Plane
from synergy_nb.drawing.svg import themed
from synergy_nb.plan.terms.units import amount, format_duration
from synergy_nb.reporting.formatting import seconds, share, size
from synergy_nb.traces.profiles._sentences import DAYS, FoundPart, findings, keys, moment, overview, rate, shown, span
from synergy_nb.traces.profiles._values import GapProfile, MeasuredTrace, Spread

_LIGHT: Final = "--ink:#16202b;--soft:#55616f;--rule:#dde3e9;--card:#fff;--page:#f6f7f9;--note:#7a5200"
_DARK: Final = "--ink:#e8edf3;--soft:#a9b4c0;--rule:#333c47;--card:#14181d;--page:#0e1115;--note:#f0c873"
_STYLE: Final = (
    themed("synergy-profile", _LIGHT, _DARK)
    + """
.synergy-profile{color:var(--ink);background:var(--page);padding:20px 24px;max-width:1080px;margin:0 auto;
box-sizing:border-box;font:15px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif}
.synergy-profile h1{font-size:24px;line-height:1.25;margin:0 0 4px;overflow-wrap:anywhere}
.synergy-profile h2{font-size:17px;margin:0 0 4px}
.synergy-profile p{margin:0 0 10px;max-width:92ch}.synergy-profile .soft{color:var(--soft)}
.synergy-profile .unknown{color:var(--note)}
.synergy-profile section{background:var(--card);border:1px solid var(--rule);border-radius:10px;padding:16px 18px;
margin:14px 0}
.synergy-profile figure{margin:8px 0;overflow-x:auto}.synergy-profile figcaption{color:var(--soft);font-size:13px}
.synergy-profile .beside{display:flex;flex-wrap:wrap;gap:8px 24px}.synergy-profile .beside figure{max-width:484px}
.synergy-profile .scroll{overflow-x:auto}
.synergy-profile table{border-collapse:collapse;font-size:13.5px;font-variant-numeric:tabular-nums;color:inherit}
.synergy-profile th,.synergy-profile td{padding:4px 16px 4px 0;text-align:left;border-bottom:1px solid var(--rule);
background:none}
.synergy-profile td.t{overflow-wrap:anywhere;min-width:9em}.synergy-profile :is(th,td:first-child){white-space:nowrap}
.synergy-profile th{color:var(--soft);font-weight:600}.synergy-profile .n{text-align:right;white-space:nowrap}
.synergy-profile details{margin-top:8px}.synergy-profile summary{cursor:pointer;color:var(--soft)}
"""
)
_WIDE: Final = (980.0, 250.0)
_HALF: Final = (480.0, 270.0)
_DAY: Final = 86_400.0
_RANKS: Final = 20  # frequent values that are drawn


def page(profile: MeasuredTrace) -> str:
    """The whole page."""
    title = escape(f"Profile of {shown(profile.name)}")
    body = themed("synergy-page", "background:#f6f7f9", "background:#0e1115")
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f'<style>{body}\nbody{{margin:0}}</style></head><body class="synergy-page">{content(profile)}</body></html>\n'
    )


def content(profile: MeasuredTrace) -> str:
    """What is on the page, as a notebook shows it, too."""
    parts = [
        f"<style>{_STYLE}</style><h1>Profile of {escape(shown(profile.name))}</h1>",
        f'<p class="soft">{escape(overview(profile))}.</p>',
    ]
    for finding in findings(profile):
        parts.append(f"<section><h2>{finding.title}</h2>")
        if finding.sentence:
            parts.append(f"<p>{escape(finding.sentence)}</p>")
        parts += [f'<p class="unknown">Not known: {escape(why)}.</p>' for why in finding.unknown]
        if profile.rows:
            parts += _shown(finding, profile)
        parts.append("</section>")
    return f'<div class="synergy-profile">{"".join(parts)}</div>'


def _shown(finding: FoundPart, profile: MeasuredTrace) -> Iterator[str]:
    """Pictures and tables of a part."""
    match finding.key:
        case "rates":
            yield _figure(_over_time(profile), f"Mean rate in periods of {seconds(profile.series_seconds)}.")
            yield _table(
                ("period", "mean", "median", "99 %", "greatest", "without rows"),
                [
                    (seconds(each.seconds), *map(rate, (each.rate.mean, each.rate.p50, each.rate.p99, each.rate.most)),
                     share(each.empty))
                    for each in profile.rates
                ],
            )  # fmt: skip
        case "bursts":
            yield from _bursts(profile)
        case "season":
            yield from _season(profile)
        case "tails":
            yield from _tails(profile)
        case "skew":
            yield from _skew(profile)
        case "predicates":
            rows = [
                (shown(each.predicate), share(each.selectivity), each.basis)
                for column in profile.columns.values()
                for each in column.predicates
            ]
            yield _folded("All predicates", _table(("predicate", "share of the rows", "measured"), rows, texts=(0, 2)))
        case "windows":
            yield from _windows(profile)
        case "disorder":
            yield from _disorder(profile)
        case "drift":
            yield from _drift(profile)
        case _:
            pass


# -- pictures ----------------------------------------------------------------------------------------------------------


def _over_time(profile: MeasuredTrace) -> Plane:
    length = profile.series_seconds
    rates = [count / length for count in profile.series]
    total = len(rates) * length
    unit, name = (
        (_DAY, "days") if total > 3 * _DAY else (3600.0, "hours") if total > 3 * 3600.0 else
        (60.0, "minutes") if total > 300.0 else (1.0, "seconds")
    )  # fmt: skip
    x = Axis(f"{name} since {moment(profile.first)} (UTC)", 0.0, max(total / unit, 1e-6))
    plane = Plane(x, Axis("rows/s", 0.0, _above(rates)), size=_WIDE)
    points = [((place + 0.5) * length / unit, value) for place, value in enumerate(rates)]
    if len(points) > 1:
        plane.area([(points[0][0], 0.0), *points, (points[-1][0], 0.0)], "c0")
        plane.line(points, "c0", tip="rate")
    else:
        plane.dots(points, "c0")
    return plane


def _bursts(profile: MeasuredTrace) -> Iterator[str]:
    points = [(each.seconds, each.dispersion) for each in profile.rates if each.dispersion]
    known = [(x, y) for x, y in points if y is not None and y > 0.0]
    if len(known) >= 2:
        low, high = min(1.0, *(y for _, y in known)), max(1.0, *(y for _, y in known))
        plane = Plane(
            Axis("period, seconds", known[0][0], known[-1][0], log=True),
            Axis("variance over mean", low / 2.0, high * 2.0, log=True),
            size=_HALF, right=70.0,
        )  # fmt: skip
        plane.line([(known[0][0], 1.0), (known[-1][0], 1.0)], "soft", name="Poisson", dashed=True)
        plane.line(known, "c1", tip="index of dispersion for counts")
        plane.dots(known, "c1", tips=[f"{seconds(x)}: {y:.3g}" for x, y in known])
        caption = "Index of dispersion for counts. A line that rises without end is that of self-similar traffic."
        yield _figure(plane, caption)
    if profile.hurst:
        rows = [
            (each.estimator, f"{each.value:.3f}", f"{each.low:.3f} to {each.high:.3f}",
             f"{seconds(each.shortest)} to {seconds(each.longest)}")
            for each in profile.hurst
        ]  # fmt: skip
        yield _table(("estimator of the Hurst exponent", "value", "95 of 100 cases", "scales"), rows, texts=(0,))


def _season(profile: MeasuredTrace) -> Iterator[str]:
    found = profile.season
    if found is None:
        return
    pictures = []
    if found.hours:
        plane = _bars("hour of the day, UTC", found.hours, "c0", [f"{hour:02}:00" for hour in range(24)], "{:g}".format)
        pictures.append(_figure(plane, "Mean rate by the hour of the day."))
    if found.weekdays:
        plane = _bars("day of the week, UTC", found.weekdays, "c2", DAYS, lambda day: DAYS[int(day)][:2])
        pictures.append(_figure(plane, "Mean rate by the day of the week."))
    if found.acf:
        unit, name = (3600.0, "hours") if found.seconds >= 3600.0 else (60.0, "minutes") if found.seconds >= 60.0 else (
            1.0, "seconds")  # fmt: skip
        lags = [(place + 1) * found.seconds / unit for place in range(len(found.acf))]
        plane = Plane(
            Axis(f"lag, {name}", 0.0, lags[-1]),
            Axis("correlation", min(-0.2, *found.acf, *found.pacf, -found.bound), 1.0), size=_HALF, right=64.0,
        )  # fmt: skip
        for bound in (found.bound, -found.bound):
            plane.line([(0.0, bound), (lags[-1], bound)], "soft", dashed=True, tip="beyond it is no chance")
        plane.line(list(zip(lags, found.acf, strict=True)), "c0", name="ACF")
        plane.line(list(zip(lags, found.pacf, strict=False)), "c1", name="PACF")
        pictures.append(_figure(plane, "Autocorrelation of the rates; within the dashed lines it may be chance."))
    if found.forecast is not None:
        ahead = found.forecast
        unit, name = (3600.0, "hours") if found.seconds >= 600.0 else (60.0, "minutes")
        xs = [(place + 0.5) * found.seconds / unit for place in range(len(ahead.mean))]
        plane = Plane(
            Axis(f"{name} after the last row", 0.0, max(len(xs) * found.seconds / unit, 1e-6)),
            Axis("rows/s", 0.0, _above(ahead.high)), size=_HALF,
        )  # fmt: skip
        plane.area([*zip(xs, ahead.low, strict=True), *reversed(list(zip(xs, ahead.high, strict=True)))], "c4")
        plane.line(list(zip(xs, ahead.mean, strict=True)), "c4", tip="forecast")
        pictures.append(
            _figure(plane, "Forecast of the rate; in 95 of 100 cases it is in the area, if nothing changes.")
        )
    yield f'<div class="beside">{"".join(pictures)}</div>'
    if found.adf is not None and found.kpss is not None:
        beyond = " or less" if found.kpss <= 0.01 else " or more" if found.kpss >= 0.1 else ""
        tests = [
            ("ADF", "a random walk", f"{found.adf:.3g}"),
            ("KPSS", "a stationary series", f"{found.kpss:.3g}{beyond}"),
        ]
        yield _table(("test", "takes for granted", "probability"), tests, texts=(0, 1))


def _bars(name: str, values: Sequence[float], kind: str, names: Sequence[str], text: Callable[[float], str]) -> Plane:
    """A bar for each value."""
    plane = Plane(Axis(name, -0.5, len(values) - 0.5, text=text), Axis("rows/s", 0.0, _above(values)), size=_HALF)
    for place, value in enumerate(values):
        corners = [(place - 0.4, 0.0), (place - 0.4, value), (place + 0.4, value), (place + 0.4, 0.0)]
        plane.area(corners, kind, tip=f"{names[place]}: {rate(value)}", facet=True)
    return plane


def _tails(profile: MeasuredTrace) -> Iterator[str]:
    rows = []
    for name, column in profile.columns.items():
        if not column.quantiles:
            continue
        tail = column.tail
        fitted = "-" if tail is None else f"{tail.alpha.value:.2f} ({tail.alpha.low:.2f} to {tail.alpha.high:.2f})"
        where = "-" if tail is None else f"{amount(tail.values)} values beyond {amount(tail.above)}"
        far = "-" if tail is None else f"{tail.distance:.2f}"
        quantiles = [_number(column.quantiles[each]) for each in ("0.5", "0.9", "0.99", "0.999")]
        rows.append((name, *quantiles, _number(column.high or 0.0), column.quantiles_basis, fitted, where, far))
    if rows:
        yield _table(
            ("column", "median", "90 %", "99 %", "99.9 %", "greatest", "measured", "tail exponent", "fitted to",
             "distance"),
            rows, texts=(0, 6),
        )  # fmt: skip
        note = "An exponent up to 2 means an infinite variance. A law at a distance above .1 does not fit the values."
        yield f'<p class="soft">{note}</p>'


def _skew(profile: MeasuredTrace) -> Iterator[str]:
    found = keys(profile)
    drawn = [(name, column) for name, column in found if column.skew is not None and len(column.skew.top) >= 5][:4]
    if drawn:
        top = max(column.skew.top[0][1] for _, column in drawn if column.skew)
        low = min(column.skew.top[:_RANKS][-1][1] for _, column in drawn if column.skew)
        plane = Plane(
            Axis("rank of the value", 1.0, float(_RANKS), log=True),
            Axis("share of the rows", max(low / 1.5, 1e-9), top * 1.5, log=True, text=share),
            size=(620.0, 280.0), right=130.0,
        )  # fmt: skip
        for number, (name, column) in enumerate(drawn):
            assert column.skew is not None
            points = [(float(place + 1), part) for place, (_, part) in enumerate(column.skew.top[:_RANKS])]
            plane.line(points, f"c{number}", name=name[:16])
            tips = [f"{shown(value)}: {share(part)}" for value, part in column.skew.top[:_RANKS]]
            plane.dots(points, f"c{number}", tips=tips, radius=3.0)
        yield _figure(plane, "Shares of the most frequent values; Zipf's law is a straight line.")
    rows = []
    for name, column in found:
        skew = column.skew
        assert skew is not None
        law = "-" if skew.zipf is None else f"{skew.zipf.value:.2f} ({skew.zipf.low:.2f} to {skew.zipf.high:.2f})"
        value, most = skew.top[0]
        fitted = "-" if skew.zipf is None else f"{amount(skew.ranks)} ranks, explains {share(max(skew.fit, 0.0))}"
        rows.append((
            name, f"{amount(float(f'{column.distinct:.4g}'))} ({column.distinct_basis})", shown(value), share(most),
            share(skew.share10), share(skew.share100), law, fitted, skew.basis,
        ))  # fmt: skip
    if rows:
        yield _table(
            ("column", "values", "most frequent", "has", "first 10", "first 100", "Zipf exponent", "fitted to",
             "counts"),
            rows, texts=(0, 1, 2, 8),
        )  # fmt: skip


def _windows(profile: MeasuredTrace) -> Iterator[str]:
    rows = []
    for each in profile.windows:
        length = format_duration(each.seconds)
        rows.append((length, "rows", *_spread(each.rows), "exact"))
        held = each.nbytes
        rows.append((length, "bytes", *map(size, (held.mean, held.p50, held.p99, held.most)), "estimate"))
        rows += [
            (length, f"groups by {name}", *_spread(groups), each.groups_basis) for name, groups in each.groups.items()
        ]
    head = ("window", "of", "mean", "median", "99 %", "greatest", "measured")
    yield _table(head, rows, texts=(0, 1, 6))
    yield '<p class="soft">Of windows that have a row.</p>'


def _disorder(profile: MeasuredTrace) -> Iterator[str]:
    if profile.gaps:
        yield _table(("gap from", "length"), [(moment(each.start), _length(each)) for each in profile.gaps], texts=(0,))
    if profile.lateness and profile.disorder:
        total = profile.rows
        rows = [(seconds(each.seconds), amount(each.lost), share(each.lost / total)) for each in profile.lateness]
        yield _table(("lateness", "rows lost", "of all"), rows, texts=(0,))


def _drift(profile: MeasuredTrace) -> Iterator[str]:
    days = profile.days
    if len(days) < 2:
        return
    start = dt.date.fromisoformat(days[0].day)
    at = [float((dt.date.fromisoformat(each.day) - start).days) for each in days]
    ratios = [(x, each.ratio) for x, each in zip(at, days, strict=True) if each.ratio]
    pictures = []
    if len(ratios) > 1 and at[-1] > 0:
        most = max(max(y, 1.0 / y) for _, y in ratios if y) * 1.2
        plane = Plane(
            Axis(f"days since {days[0].day}", 0.0, at[-1]),
            Axis("rate over the day before", 1.0 / most, most, log=True),
            size=_HALF,
        )
        plane.line([(0.0, 1.0), (at[-1], 1.0)], "soft", dashed=True)
        plane.line([(x, y) for x, y in ratios if y], "c0")
        pictures.append(_figure(plane, "Rate over that of the same hours of the day before."))
    names = list(dict.fromkeys(name for each in days for name in each.shifts))
    if names and at[-1] > 0:
        top = _above([each.shifts.get(name, 0.0) for each in days for name in names] + [0.3])
        plane = Plane(
            Axis(f"days since {days[0].day}", 0.0, at[-1]), Axis("stability index", 0.0, top), size=_HALF, right=110.0
        )
        plane.line([(0.0, 0.25), (at[-1], 0.25)], "bad", dashed=True, tip="large drift from here on")
        for number, name in enumerate(names[:6]):
            points = [(x, each.shifts[name]) for x, each in zip(at, days, strict=True) if name in each.shifts]
            plane.line(points, f"c{number}", name=name[:14])
        pictures.append(_figure(plane, "How far the values of a day are from those of all days; beyond the line, far."))
    yield f'<div class="beside">{"".join(pictures)}</div>'
    rows = []
    for each in days:
        far = max(each.shifts.items(), key=lambda one: one[1], default=("-", 0.0))
        ks = max(each.distances.items(), key=lambda one: one[1], default=("-", 0.0))
        ratio = "-" if each.ratio is None else f"{each.ratio:.3g}"
        rows.append((each.day, amount(each.rows), ratio, f"{far[0]}: {far[1]:.2f}", f"{ks[0]}: {ks[1]:.2f}"))
    head = ("day", "rows", "rate over the day before", "greatest stability index", "greatest KS distance")
    yield _folded("All days", _table(head, rows, texts=(0, 3, 4)))


# -- markup ------------------------------------------------------------------------------------------------------------


def _figure(plane: Plane, caption: str) -> str:
    return f"<figure>{plane.to_svg(caption)}<figcaption>{escape(caption)}</figcaption></figure>"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], *, texts: Sequence[int] = ()) -> str:
    """A table, whose columns are numbers but for some."""

    def cells(tag: str, row: Sequence[str]) -> str:
        kinds = [' class="t"' if place in texts else ' class="n"' for place in range(len(row))]
        return "".join(f"<{tag}{kind}>{escape(each)}</{tag}>" for kind, each in zip(kinds, row, strict=True))

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{cells("th", head)}</tr></thead><tbody>{body}</tbody></table></div>'


def _folded(title: str, inside: str) -> str:
    return f"<details><summary>{escape(title)}</summary>{inside}</details>"


def _spread(found: Spread) -> list[str]:
    return [_number(each) for each in (found.mean, found.p50, found.p99, found.most)]


def _number(value: float) -> str:
    return amount(float(f"{value:.4g}"))


def _length(gap: GapProfile) -> str:
    return span(gap.seconds)


def _above(values: Sequence[float]) -> float:
    """End of an axis above all values."""
    most = max((each for each in values if math.isfinite(each)), default=0.0)
    return most * 1.05 if most > 0.0 else 1.0
