"""Rates predicted from those upstream: worked examples, theory, and real streams beside the last value."""

from __future__ import annotations

import gzip
import itertools
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from synergy_nb import traces
from synergy_nb.models import _rate_regression as regressed
from synergy_nb.models._rate_regression import RateRegression
from synergy_nb.models.rate_combination import CombinedRate
from synergy_nb.models.rate_prediction import CorrelatedRate, PredictionErrors, RatePredictor, predicted_series

Series = dict[str, list[float]]

SOURCE_A = [20.0, 24, 30, 27, 33, 36, 30, 28, 40, 44]
A: Series = {"filter": [10, 11, 16, 12, 18, 15, 17, 12, 21, 20], "source": SOURCE_A}
OWN_A = [rate / 4 for rate in SOURCE_A]
OWN_B = [20.0, 21, 20, 21, 24, 24, 25, 25, 28, 27, 29, 30]
B: Series = {
    "map": [44, 38, 43, 40, 47, 48, 50, 51, 56, 54, 58, 60],
    "anti": [50 - rate for rate in OWN_B],
    "source": [50, 52, 50, 53, 60, 61, 62, 58, 76, 60, 82, 70],
}
OWN_C = [2.0, 2, 1, 5, 6, 3, 0, 2, 4, 2]
C: Series = {"burst": [4, 0, 4, 12, 12, 0, 0, 6, 9, 3], "source": [8.0] * 10}


def literal(carried: Mapping[str, Sequence[float]], window: int | None = None) -> CorrelatedRate:
    return CorrelatedRate(carried, window)


def errors(predictor: RatePredictor, own: Sequence[float], carried: Mapping[str, Sequence[float]]) -> PredictionErrors:
    found = predicted_series(predictor, own, carried)
    return PredictionErrors.of([each.rate for each in found], own[:-1], own[1:])


# -- the worked examples, to six digits --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("own", "carried", "window", "rates", "mape", "last"),
    [
        (OWN_A, A, None, [5, 6, 6.75, 8.25, 9, 7.5, 7, 10, 11], 4.074074, 15.614077),
        (
            OWN_B,
            B,
            None,
            [20, 21, 21.2, 23.773585, 24.4, 24.393443, 23.387097, 32.758621, 22.105263, 29, 30],
            5.211447,
            5.061062,
        ),
        (OWN_B, B, 4, [20, 21, 21.2, 23.773585, 24.4, 24.393443, 25.5, 27.45098, 27, 29, 30], 1.791942, 5.061062),
        (OWN_C, C, None, [2, 2, 1, 5, 0, 3, 0, 3, 1.333333], 56.875, 68.333333),
    ],
    ids=["A", "B", "B of four pairs", "C"],
)
def test_predicted_rates_equal_the_worked_examples(
    own: list[float], carried: Series, window: int | None, rates: list[float], mape: float, last: float
) -> None:
    found = predicted_series(literal(carried, window), own, carried)
    assert [round(each.rate, 6) for each in found] == rates
    error = errors(literal(carried, window), own, carried)
    assert (round(100 * error.mape, 6), round(100 * error.last_mape, 6)) == (mape, last)


def test_the_weighted_error_equals_that_of_the_first_example() -> None:
    assert round(100 * errors(literal(A), OWN_A, A).wape, 6) == 3.424658


def test_correlations_equal_the_worked_examples() -> None:
    def correlations(own: list[float], carried: Series, ancestor: str) -> dict[int, float | None]:
        predictor, found = literal(carried), {}
        for k, rate in enumerate(own, start=1):
            found[k] = predictor.correlation(ancestor)
            predictor.observe(rate, {each: rates[k - 1] for each, rates in carried.items()})
        return {k: None if value is None else round(value, 6) for k, value in found.items()}

    filtered = correlations(OWN_A, A, "filter")
    assert [filtered[k] for k in (3, 4, 5, 6)] == [None, 0.968301, 0.912313, 0.953236]
    assert [correlations(OWN_B, B, each)[11] for each in ("source", "map", "anti")] == [0.892806, 0.923183, -1.0]
    burst = correlations(OWN_C, C, "burst")
    assert [burst[k] for k in (4, 5, 6, 7)] == [-0.5, 0.841191, 0.893898, 0.804538]
    assert set(correlations(OWN_C, C, "source").values()) == {None}, "a constant series has none"


def test_the_best_correlated_ancestor_is_followed() -> None:
    found = [each.ancestor for each in predicted_series(literal(B), OWN_B, B)]
    assert found == [None] * 2 + ["source"] * 7 + ["map"] * 2
    found = [each.ancestor for each in predicted_series(literal(B, 4), OWN_B, B)]
    assert found == [None] * 2 + ["source"] * 4 + ["map"] * 5


def chosen_by(
    own: Sequence[float], carried: Mapping[str, Sequence[float]], choose: Callable[[list[float]], int]
) -> list[float]:
    """Rates by equation 3.6 of the ancestor whose correlation is chosen; of two pairs none is."""
    found = [own[0]]
    for k in range(2, len(own)):
        known = [float(np.corrcoef(rates[:k], own[:k])[0, 1]) for rates in carried.values()]
        rates = list(carried.values())[choose(known)]
        found.append(rates[k] / rates[k - 1] * own[k - 1] if k > 2 else own[k - 1])
    return found


def mape(predicted: Sequence[float], own: Sequence[float]) -> float:
    return round(100.0 * PredictionErrors.of(predicted, own[:-1], own[1:]).mape, 6)


def test_other_readings_of_the_equations_give_other_rates() -> None:
    """The errors of wrong readings, so that it is seen that they are not taken."""
    near = A["filter"]
    nearest = [near[k] / near[k - 1] * OWN_A[k - 1] for k in range(1, 10)]
    assert mape(nearest, OWN_A) == 20.44352
    assert mape([each.rate for each in predicted_series(literal(A), OWN_A, A)], OWN_A) == 4.074074
    either = chosen_by(OWN_B, B, lambda known: int(np.argmax(np.abs(known))))
    wrong = [20, 21, 19.333333, 18.827586, 24, 23.076923, 25, 22, 29.272727, 24.652174, 27.619048]
    assert [round(each, 6) for each in either] == wrong
    assert mape(either, OWN_B) == 9.065231
    falling = {"anti": B["anti"]}
    assert errors(literal(falling), OWN_B, falling).ratio == 1.0, "a negative correlation is not followed"


def test_the_present_rate_upstream_predicts_and_the_one_before_is_worse_than_the_last_value() -> None:
    """A rate that swings, thinned: what came a tuple later would be known too late."""
    rng = np.random.default_rng(2)
    source = requests(rng, 3000)
    own = rng.binomial(source.astype(int), 0.5)
    present = errors(literal({"s": []}), own.tolist(), {"s": source.tolist()})
    stale = errors(literal({"s": []}), own[1:].tolist(), {"s": source[:-1].tolist()})
    assert present.ratio < 0.85
    assert stale.ratio > 1.2


def test_of_equal_correlations_the_nearest_ancestor_is_followed() -> None:
    predictor = CorrelatedRate(["near", "far"])
    for rate in (2.0, 3.0, 5.0):
        predictor.observe(rate, {"far": 4 * rate, "near": 2 * rate})
    found = predictor.predict({"near": 12.0, "far": 28.0})
    assert (found.ancestor, found.rate) == ("near", 6.0)


def test_without_a_correlated_ancestor_the_last_value_is_predicted() -> None:
    assert CorrelatedRate([]).predict({}).rate == 0.0
    predictor = CorrelatedRate(["a"])
    for rate in (2.0, 3.0, 5.0):
        predictor.observe(rate, {"a": rate})
    assert predictor.predict({}).rate == 5.0, "the tuple carries no rate of it"
    assert predictor.predict({"a": 10.0}).rate == 10.0
    predictor.observe(6.0, {})
    assert predictor.predict({"a": 10.0}).rate == 6.0, "the last tuple carried none"


# -- pairs of tuples, not of moments -----------------------------------------------------------------------------------


def requests(rng: np.random.Generator, count: int) -> npt.NDArray[np.float64]:
    return np.asarray(rng.poisson(200.0 * (1.0 + 0.6 * np.sin(np.arange(count) / 9.0))), dtype=np.float64)


def test_a_component_that_lags_is_paired_by_its_tuples() -> None:
    """Its tuples take one interval; paired by the time of day, rates are those of different tuples."""
    source = requests(np.random.default_rng(7), 500)
    own = np.floor(0.5 * np.concatenate([source[:1], source[:-1]]))
    by_tuple = errors(literal({"s": []}), own[1:].tolist(), {"s": source[:-1].tolist()})
    by_clock = errors(literal({"s": []}), own[1:].tolist(), {"s": source[1:].tolist()})
    assert by_tuple.ratio < 0.1
    assert by_clock.ratio > 1.02
    assert errors(CombinedRate(["s"]), own[1:].tolist(), {"s": source[1:].tolist()}).ratio <= 1.02


@pytest.mark.parametrize("passed", [0.9, 0.5, 0.31])
def test_errors_on_thinned_poisson_streams_are_those_of_theory(passed: float) -> None:
    """Errors of equation 3.6 and of the last value; what looked at the own k-th rate would fall below the former."""
    rng = np.random.default_rng(11)
    mean = 250.0 * 5.0
    source = rng.poisson(mean, 4000)
    own = rng.binomial(source, passed)
    carried = {"source": source.tolist()}
    found = errors(literal(carried, None), own.tolist(), carried)
    assert found.mape == pytest.approx(math.sqrt(4 * (1 - passed) / (math.pi * passed * mean)), rel=0.05)
    assert found.last_mape == pytest.approx(math.sqrt(4 / (math.pi * passed * mean)), rel=0.05)
    assert found.ratio == pytest.approx(math.sqrt(1 - passed), rel=0.05)
    better = errors(CombinedRate(carried), own.tolist(), carried)
    assert better.ratio < 0.8 * math.sqrt(1 - passed)
    floor = math.sqrt(2 * (1 - passed) / (math.pi * passed * mean))  # the share is known exactly, chance is left
    assert better.mape == pytest.approx(floor, rel=0.1)
    assert better.mape > 0.95 * floor


# -- the combination ---------------------------------------------------------------------------------------------------


def test_the_combination_falls_back_where_the_literal_method_loses() -> None:
    rng = np.random.default_rng(5)
    own, other = (np.abs(500.0 + np.cumsum(rng.normal(0.0, step, 1000))) for step in (5.0, 15.0))
    carried = {"unrelated": other.tolist()}
    assert errors(literal(carried, 60), own.tolist(), carried).ratio > 1.2
    assert errors(CombinedRate(carried), own.tolist(), carried).ratio <= 1.0
    for series, given_ in ((OWN_A, A), (OWN_B, B), (OWN_C, C)):
        assert errors(CombinedRate(given_), series, given_).ratio <= 1.0


def test_the_combination_follows_a_share_that_changes() -> None:
    rng = np.random.default_rng(6)
    source = requests(rng, 1200)
    share = 0.2 + 0.6 * (np.arange(1200) // 150 % 2)
    own = rng.binomial(source.astype(int), share).tolist()
    carried = {"source": source.tolist()}
    found = errors(CombinedRate(carried), own, carried)
    assert found.ratio < errors(literal(carried, 60), own, carried).ratio
    assert found.ratio < 0.8


def test_the_combination_uses_the_own_history_where_nothing_is_upstream() -> None:
    own = np.random.default_rng(8).poisson(100.0, 2000).tolist()
    assert math.sqrt(0.5) < errors(CombinedRate([]), own, {}).ratio < 0.8, "the former, if the mean were known"


# -- the regression ----------------------------------------------------------------------------------------------------


def test_the_regression_is_that_of_least_squares_with_forgetting() -> None:
    """Coefficients of numpy's least squares over the weighted changes, with the prior as further rows."""
    rng = np.random.default_rng(4)
    own = rng.gamma(4.0, 25.0, 60)
    other = own * rng.uniform(1.8, 2.2, 60)
    found = RateRegression(["a"])
    rows: list[npt.NDArray[np.float64]] = []
    changes: list[float] = []
    for k, (rate, carried) in enumerate(zip(own.tolist(), other.tolist(), strict=True)):
        if k == 50:
            left, right = weighted(rows, changes, own[:7])
            expected = float(np.linalg.lstsq(left, right, rcond=None)[0] @ inputs(own, other, k))
            assert found.predict({"a": carried}) == pytest.approx(own[k - 1] + expected, rel=1e-9)
        if k >= regressed.EARLY:
            rows.append(inputs(own, other, k))
            changes.append(own[k] - own[k - 1])
        found.observe(rate, {"a": carried})
    assert len(rows) == 54


def inputs(own: npt.NDArray[np.float64], other: npt.NDArray[np.float64], k: int) -> npt.NDArray[np.float64]:
    """What the change to the k-th rate is a function of, from the definitions."""

    def smoothed(series: npt.NDArray[np.float64], weight: float) -> float:
        left = (1.0 - weight) ** np.arange(k - 1, -1, -1)
        return float(left[0] * series[0] + weight * (left[1:] * series[1:k]).sum())

    last, share = own[k - 1], smoothed(own, regressed.SLOW) / smoothed(other, regressed.SLOW)
    changes = np.diff(own[:k])[::-1][: regressed.CHANGES]
    levels = [smoothed(own, regressed.SLOW) - last, smoothed(own, regressed.FAST) - last]
    carried = [share * (other[k] - other[k - 1]), share * other[k - 1] - last]
    return np.array([*changes, *np.zeros(regressed.CHANGES - len(changes)), *levels, *carried])


def weighted(
    rows: list[npt.NDArray[np.float64]], changes: list[float], first: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    left = np.sqrt(regressed.FORGETTING ** np.arange(len(rows) - 1, -1, -1))
    scale = regressed.PRIOR * (np.diff(first) ** 2).sum() / regressed.EARLY
    prior = np.eye(len(rows[0])) * math.sqrt(scale * regressed.FORGETTING ** len(rows))
    return np.vstack([left[:, None] * np.array(rows), prior]), np.append(left * changes, np.zeros(len(prior)))


def test_the_regression_predicts_what_windows_that_overlap_repeat() -> None:
    """A rate over the last four intervals loses what came four intervals ago, which nothing upstream tells."""
    arrived = np.random.default_rng(9).poisson(50.0, 1500)
    own = np.convolve(arrived, np.ones(4), mode="valid").tolist()
    assert errors(CombinedRate([]), own, {}).ratio < 0.93


def test_a_regression_of_other_ancestors_learns_anew_and_begins_with_the_last_rate() -> None:
    found = RateRegression(["a"])
    for k in range(40):
        found.observe(50.0 + 10.0 * (k % 3), {"a": 100.0 + 20.0 * (k % 3)})
    assert found.predict({"a": 120.0}) == pytest.approx(60.0, abs=0.5)
    found.set_ancestors(["b", "a"])
    assert found.predict({"a": 140.0}) == 50.0


rates = st.lists(st.floats(0.0, 1e6, allow_subnormal=False), min_size=1, max_size=40)


@pytest.mark.slow
@given(rates, rates)
def test_rates_are_finite_and_from_zero_whatever_comes(own: list[float], upstream: list[float]) -> None:
    for predictor in (CorrelatedRate(["a"], 5), CombinedRate(["a"], 5)):
        for rate, carried in zip(own, itertools.cycle(upstream), strict=False):
            found = predictor.predict({"a": carried}).rate
            assert 0.0 <= found < math.inf
            predictor.observe(rate, {"a": carried})


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9)), min_size=4, max_size=30))
def test_the_literal_method_equals_its_equations(rows: list[tuple[int, int, int]]) -> None:
    """Equations 3.6 to 3.8 as they stand, with numpy's correlation."""
    own, near, far = (list(map(float, column)) for column in zip(*rows, strict=True))
    found = predicted_series(CorrelatedRate(["near", "far"], None), own, {"near": near, "far": far})
    for k in range(1, len(own)):
        best: list[float] = []
        greatest = 0.0
        for series in (near, far):
            if k >= 3 and np.ptp(series[:k]) > 0 and np.ptp(own[:k]) > 0:
                correlation = float(np.corrcoef(series[:k], own[:k])[0, 1])
                if correlation > greatest + 1e-9:
                    best, greatest = series, correlation
        rate = best[k] / best[k - 1] * own[k - 1] if best and best[k - 1] else own[k - 1]
        if found[k - 1].correlation is not None and greatest <= 1e-9:
            continue  # the sign of what is zero but for rounding
        assert found[k - 1].rate == pytest.approx(rate, abs=1e-9)


@pytest.mark.parametrize("make", [CorrelatedRate, CombinedRate])
def test_rates_that_make_no_sense_are_refused(make: Callable[[list[str]], RatePredictor]) -> None:
    with pytest.raises(ValueError, match=r"rate: -1\.0; expected tuples/s from 0"):
        make(["a"]).observe(-1.0, {})
    with pytest.raises(ValueError, match="carried: nan of 'a'; expected tuples/s from 0"):
        make(["a"]).observe(1.0, {"a": math.nan})
    with pytest.raises(ValueError, match="window: 2; expected at least 3 pairs, or None for all"):
        CorrelatedRate([], 2)


def test_errors_of_a_stream_that_never_changes_have_no_ratio() -> None:
    found = PredictionErrors.of([1.0, 0.0], [1.0, 0.0], [1.0, 0.0])
    assert found == (0.0, 0.0, 0.0, 0.0, 2)
    assert math.isnan(found.ratio)


# -- streams at hand ---------------------------------------------------------------------------------------------------


def counted(times: npt.NDArray[np.float64], seconds: float) -> list[float]:
    count = int(times[-1] / seconds)
    found: list[float] = (np.histogram(times, bins=count, range=(0.0, count * seconds))[0] / seconds).tolist()
    return found


def never_worse(streams: Iterator[tuple[str, list[float], Series]]) -> dict[str, float]:
    """Ratios of the combination to the last value."""
    ratios = {name: errors(CombinedRate(carried), own, carried).ratio for name, own, carried in streams}
    assert {name: ratio for name, ratio in ratios.items() if ratio > 1.0} == {}
    return ratios


@pytest.mark.parametrize("seconds", [1.0, 5.0])
def test_self_similar_packets_are_predicted(seconds: float) -> None:
    packets = traces.table({"connector": "packets", "seed": 12, "rate": 250.0, "duration": 600.0})
    times = packets["time"].to_physical().to_numpy() / 1e6
    on_b = (packets["link"] == "B").to_numpy()
    large = (packets["bytes"] > 1000).to_numpy()
    times = times - times[0]
    end = times[-1]

    def rate(kept: npt.NDArray[np.bool_]) -> list[float]:
        return counted(np.append(times[kept], end), seconds)

    source, filtered = rate(np.full(len(times), fill_value=True)), rate(on_b)

    def streams() -> Iterator[tuple[str, list[float], Series]]:
        yield "source", source, {}
        yield "link B", filtered, {"source": source}
        yield "large", rate(large), {"source": source}
        yield "large on B", rate(on_b & large), {"filter": filtered, "source": source}

    ratios = never_worse(streams())
    assert ratios["large"] < 0.6
    assert ratios["large on B"] < 0.6


@pytest.mark.slow
def test_requests_of_a_real_server_are_predicted(real_data: Path) -> None:
    with gzip.open(real_data / "nasa-http-requests-per-second.txt.gz", "rt") as lines:
        requested = np.array(list(itertools.islice(map(int, lines), 600_000)))
    rng = np.random.default_rng(13)

    def streams() -> Iterator[tuple[str, list[float], Series]]:
        for seconds in (60, 600):
            source = requested.reshape(-1, seconds).sum(axis=1)[:2000]
            half = rng.binomial(source, 0.5)
            quarter = rng.binomial(half, 0.5)
            yield f"alone {seconds}", source.tolist(), {}
            yield f"half {seconds}", half.tolist(), {"source": source.tolist()}
            yield f"quarter {seconds}", quarter.tolist(), {"filter": half.tolist(), "source": source.tolist()}

    ratios = never_worse(streams())
    assert ratios["half 600"] < 0.5
    assert ratios["quarter 600"] < 0.5
    assert ratios["alone 60"] < 0.95


def test_rates_of_a_real_server_are_predicted(real_data: Path) -> None:
    log = traces.table({"connector": "trace", "path": str(real_data / "sdsc-http.txt.gz")})
    times = log["time"].to_physical().to_numpy() / 1e6
    times = times - times[0]
    sent = np.append(times[log["operation"].str.starts_with("Sent").to_numpy()], times[-1])

    def streams() -> Iterator[tuple[str, list[float], Series]]:
        for seconds in (60.0, 300.0):
            yield f"alone {seconds:g}", counted(times, seconds), {}
            yield f"sent {seconds:g}", counted(sent, seconds), {"source": counted(times, seconds)}

    ratios = never_worse(streams())
    assert ratios["sent 60"] < 0.4


def test_a_correlation_of_rounding_follows_no_stream_and_is_no_greater_than_another() -> None:
    """Own rates and others whose exact correlation is 0, shifted and scaled: the computed one is 1e-17 or so."""
    rng = random.Random(5)
    positive = 0
    for _ in range(400):
        scale, shift, own_shift = rng.uniform(0.1, 1e3), rng.uniform(0.0, 1e4), rng.uniform(1e4, 1e5)
        half = [rng.uniform(1.0, 9.0) for _ in range(rng.randrange(2, 12))]
        other = [shift + scale * each for each in (*half, *half)]
        own = [*(own_shift + each for each in half), *(own_shift - each for each in half)]  # the products cancel out
        rates = CorrelatedRate(["other"])
        for mine, its in zip(own, other, strict=True):
            rates.observe(mine, {"other": its})
        found = rates.correlation("other")
        positive += found is not None and found > 0.0
        assert rates.best() is None, found
        assert rates.predict({"other": 2.0 * other[-1]}) == (own[-1], None, None)
    assert positive > 40, "rounding made some of them positive"


def test_of_correlations_that_differ_by_rounding_the_nearest_stream_is_followed() -> None:
    rng = random.Random(6)
    for _ in range(50):
        rates = CorrelatedRate(["near", "far"])
        scale = rng.uniform(0.1, 10.0)
        for _ in range(20):
            own = rng.uniform(1.0, 100.0)
            rates.observe(own, {"near": own / 3.0 + 7.0, "far": scale * own + 0.1})
        best = rates.best()
        assert best is not None
        assert best[0] == "near"
