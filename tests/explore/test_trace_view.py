"""Linked charts of traces: what they count and select is what Polars counts, and what becomes of a selection."""

from __future__ import annotations

import gzip
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from synergy_nb import Plan, Simulation, SynergyError, explore
from synergy_nb.explore._trace_charts import ChartOfKeys, ChartOfRange
from synergy_nb.explore._trace_view import TraceView
from synergy_nb.traces import table
from tests.explore.trace_frames import ODD, mixed_frame


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    return mixed_frame()


@pytest.fixture(scope="module")
def view(frame: pl.DataFrame) -> TraceView:
    return explore.trace(frame, columns=frame.columns)


def _bars(frame: pl.DataFrame, chart: ChartOfRange | ChartOfKeys) -> pl.Series:
    """Number of the bar of each row, by Polars and NumPy alone."""
    column = frame.get_column(chart.column)
    if isinstance(chart, ChartOfKeys):
        places = {key: place for place, key in enumerate(chart.keys)}
        return pl.Series([chart.bars if each is None else places.get(each, chart.bars - 1) for each in column])
    if chart.kind == "time":
        values = column.cast(pl.Datetime("us")).to_physical().cast(pl.Float64)
    elif chart.kind == "duration":
        values = column.to_physical().cast(pl.Float64) / 1e6
    else:
        values = column.cast(pl.Float64).fill_nan(None)
    known = values.fill_null(0.0).to_numpy()
    found = np.clip(np.searchsorted(chart.edges, known, side="right") - 1, 0, chart.bars - 1)
    return pl.Series(np.where(values.is_null().to_numpy(), chart.bars, found))


def _some_bars(chance: np.random.Generator, chart: ChartOfRange | ChartOfKeys) -> list[int]:
    """Bars that may be selected together: any keys, or a range; with rows without a value, or not."""
    missing = [chart.bars] if chance.random() < 0.3 else []
    if isinstance(chart, ChartOfKeys):
        return [each for each in range(chart.bars) if chance.random() < 0.5] + missing
    first, last = sorted(chance.integers(0, chart.bars + 1, 2).tolist())
    return [*range(first, last), *missing]


@pytest.mark.slow
def test_what_is_counted_and_selected_is_what_polars_selects(frame: pl.DataFrame, view: TraceView) -> None:
    charts = view.crossfilter.charts
    bars = pl.DataFrame({str(place): _bars(frame, chart) for place, chart in enumerate(charts)})
    chance = np.random.default_rng(5)
    view.clear()
    for _ in range(15):
        place = int(chance.integers(len(charts)))
        view.on_page_message({"kind": "brush", "chart": place, "bars": _some_bars(chance, charts[place])})
        if chance.random() < 0.2:
            view.on_page_message({"kind": "clear", "chart": int(chance.integers(len(charts)))})
        masks = [
            np.full(frame.height, fill_value=True) if each is None else bars[str(at)].is_in(each).to_numpy()
            for at, each in enumerate(view.brushes)
        ]
        mask = np.logical_and.reduce(masks)
        assert view.rows == mask.sum()
        assert view.table().sort(frame.columns).equals(frame.filter(mask).sort(frame.columns), null_equal=True)
        counts = np.frombuffer(view.counts)
        for at, chart in enumerate(charts):
            others = np.logical_and.reduce([each for other, each in enumerate(masks) if other != at])
            wanted = np.bincount(bars[str(at)].filter(others).to_numpy(), minlength=chart.bars + 1)
            assert (counts[: chart.bars + 1] == wanted).all(), chart
            counts = counts[chart.bars + 1 :]
        before = (view.rows, view.brushes)
        view.selection = view.selection  # what the trait states is what is selected
        again = view.selection
        view.clear()
        view.selection = again
        assert (view.rows, view.brushes) == before


def _rested(view: TraceView) -> int:
    """Number of steps in which the kernel prepares what is missing, as pages ask for them."""
    left: list[int] = []
    view.send = lambda content, **_: left.append(content["left"])
    while not left or left[-1]:
        view.on_page_message({"kind": "rest", "chart": 2})
        assert len(left) <= len(view.charts), "it ends"
    return len(left)


def test_a_brush_reads_no_row_once_the_kernel_has_prepared_it(frame: pl.DataFrame) -> None:
    view = explore.trace(frame)
    crossfilter = view.crossfilter
    assert crossfilter.made == math.comb(len(view.charts), 2), "all is prepared when it is opened"
    made = crossfilter.made
    for place, chart in enumerate(crossfilter.charts):
        view.clear()
        for last in range(1, min(chart.bars, 5)):
            view.on_page_message({"kind": "brush", "chart": place, "bars": list(range(last))})
    assert crossfilter.made == made
    view.clear()
    view.on_page_message({"kind": "brush", "chart": 0, "bars": [0, 1]})
    assert _rested(view) == len(view.charts) - 2, "the squares of the chart that was brushed are those from before"
    made = crossfilter.made
    for place in range(1, len(view.charts)):
        view.on_page_message({"kind": "brush", "chart": place, "bars": [0]})
        assert crossfilter.made == made, "under the brush of the first chart"
        view.on_page_message({"kind": "clear", "chart": place})


def test_of_many_charts_only_what_can_be_kept_is_prepared(frame: pl.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("synergy_nb.explore._crossfilter.MOST_BYTES", 300_000)
    view = explore.trace(frame, columns=frame.columns)
    view.on_page_message({"kind": "brush", "chart": 0, "bars": [0, 1]})
    assert _rested(view) == 1, "those of the chart under the pointer"
    made = view.crossfilter.made
    view.clear()
    assert view.crossfilter.made > made, "those of before have gone"


def test_charts_are_chosen_from_the_columns(frame: pl.DataFrame) -> None:
    assert [each["column"] for each in explore.trace(frame).charts] == ["time", ODD, "size", "key", "ok", "delay"]
    packets = table({"connector": "packets", "seed": 1, "count": 500})
    kinds = {each["column"]: each["kind"] for each in explore.trace(packets).charts}
    assert kinds == {
        "time": "time", "link": "keys", "source": "keys", "destination": "keys", "destination_port": "keys",
        "bytes": "keys",
    }  # fmt: skip
    ids = packets.with_columns(id=pl.int_range(500).cast(pl.String), one=pl.lit("x"))
    assert not {"id", "one"} & {each["column"] for each in explore.trace(ids).charts}
    assert [each["column"] for each in explore.trace(ids, columns=["one", "id"]).charts] == ["one", "id"]


def _edges(values: list[float] | list[int]) -> tuple[float, ...]:
    chart = explore.trace(pl.DataFrame({"x": values})).crossfilter.charts[0]
    assert isinstance(chart, ChartOfRange)
    return chart.edges


def test_bars_have_bounds_that_people_would_choose() -> None:
    assert _edges(list(range(100)))[:4] == (0.0, 2.0, 4.0, 6.0)
    assert _edges([each / 100 for each in range(100)])[:3] == (0.0, 0.02, 0.04)
    tail = _edges([2**each for each in range(30)])
    assert tail[:6] == (1.0, 2.0, 3.0, 5.0, 7.0, 10.0), (
        "few are much larger: each bar is some times as wide as the last"
    )
    assert _edges([0, *(2**each for each in range(30))])[:3] == (0.0, 1.0, 2.0), "zeros have a bar"
    assert len(_edges([-(2**62), 0, 2**62, *range(50)])) <= 62
    assert len(_edges([1e-300, 1e300, *map(float, range(1, 50))])) <= 62
    hours = explore.trace(pl.DataFrame({"time": [0.0, 86_400.0]})).crossfilter.charts[0]
    assert isinstance(hours, ChartOfRange)
    assert hours.edges[1] - hours.edges[0] == 600e6, "ten minutes"


@pytest.mark.parametrize(
    "rows",
    [
        {"time": [], "a": []},
        {"time": [5.0], "a": ["x"]},
        {"a": [None, None]},
        {"x": [float("nan"), float("inf"), -float("inf")] * 20},
        {"x": [7] * 40},
        {"time": ["2026-01-31 12:00", "2026-01-31 13:00"], "a": [1.5, None]},
    ],
    ids=["empty", "one row", "NULL alone", "no number", "one value", "times as text"],
)
def test_frames_without_much_in_them_have_charts(rows: dict[str, list[Any]]) -> None:
    view = explore.trace(rows)
    height = len(next(iter(rows.values())))
    assert view.total == view.rows == view.table().height == height
    for place, chart in enumerate(view.crossfilter.charts):
        view.on_page_message({"kind": "brush", "chart": place, "bars": [0, chart.bars]})
        assert view.rows == view.table().height
    assert "<svg" in view.to_svg()


def test_a_selection_is_set_from_python_and_told_as_a_sentence() -> None:
    rows = {"time": [0.0, 60.0, 120.0], "host": ["a", "b", None], "bytes": [10, 20, 30]}
    view = explore.trace(rows, columns=["time", "host", "bytes"])
    assert (view.sentence, view.total) == ("All 3 rows.", 3)
    seen: list[int] = []
    view.observe(lambda change: seen.append(change["new"]), "rows")
    assert view.select(host="a").sentence == "1 of 3 rows (33.3 %): host a."
    assert view.select(host=[None, ...]).sentence == "1 of 3 rows (33.3 %): host others or none."
    assert view.selection == {"host": {"keys": [], "others": True, "missing": True}}
    view.select(host=[], time=(None, "1970-01-01 00:01:00"))
    assert view.sentence == "1 of 3 rows (33.3 %): time below 1970-01-01 00:01:00."
    view.selection = {"bytes": {"keys": [20, 30]}}
    assert view.sentence == "2 of 3 rows (66.7 %): bytes 20 or 30."
    assert view.clear("bytes").rows == 3
    assert seen == [1, 2, 3] or seen[0] == 1
    assert repr(view) == "frame: All 3 rows."


@pytest.mark.parametrize(
    ("selection", "words"),
    [
        ({"hots": {"keys": ["a"]}}, "selection: 'hots'; expected some of time, host, bytes; did you mean 'host'?"),
        ({"host": {"keys": ["c"]}}, "selection: host: 'c'; expected one of 'a', 'b', or the others"),
        ({"host": ["a"]}, r"selection: host: \['a'\]; expected a dictionary"),
        ({"host": {"key": "a"}}, "selection: host: 'key'; expected 'keys' with a list, 'others', 'missing'"),
        ({"bytes": {"from": "much"}}, "selection: bytes: from: 'much'; expected a number"),
        ({"bytes": {"from": 5, "to": 1}}, "selection: bytes: from 5 to 1; expected the lesser first"),
        ({"time": {"to": "noon"}}, "selection: time: to: 'noon'; expected a time, such as"),
        ({"time": {"until": "noon"}}, "selection: time: 'until'; expected 'from' and 'to', or 'missing'"),
    ],
)
def test_a_selection_that_is_not_valid_is_refused_and_the_last_one_stays(selection: Any, words: str) -> None:
    rows = {"time": [0.0, 60.0], "host": ["a", "b"], "bytes": [10, 20]}
    many = pl.concat([pl.DataFrame(rows).with_columns(pl.col("bytes") + each) for each in range(30)])
    view = explore.trace(many, columns=["time", "host", "bytes"]).select(host="a")
    with pytest.raises(SynergyError, match=words):
        view.selection = selection
    assert view.selection == {"host": {"keys": ["a"]}}
    assert view.rows == 30


def test_messages_of_pages_that_are_not_valid_do_nothing(frame: pl.DataFrame) -> None:
    view = explore.trace(frame)
    for content in (
        {}, {"kind": "brush"}, {"kind": "brush", "chart": "0", "bars": [1]}, {"kind": "brush", "chart": 9, "bars": [1]},
        {"kind": "brush", "chart": 0, "bars": ["x", -1, 10**6, None]}, {"kind": "brush", "chart": 0, "bars": "all"},
    ):  # fmt: skip
        view.on_page_message(content)
        assert view.rows == view.total
        assert view.brushes == [None] * len(view.charts)


def test_the_still_picture_has_no_markup_of_values(frame: pl.DataFrame, view: TraceView) -> None:
    view.clear()
    data, _ = view._repr_mimebundle_()
    assert "<script>" not in data["text/html"]
    assert "&lt;script&gt;" in data["text/html"]
    assert data["text/plain"] == "frame: All 600 rows."


# -- files -------------------------------------------------------------------------------------------------------------

LOG = "".join(
    f'h{each % 3} - - [01/Jul/1995:00:00:{each:02d} -0400] "GET /a{each}.html HTTP/1.0" 200 {each * 100}\n'
    for each in range(50)
)


@pytest.mark.slow
def test_files_and_folders_are_explored_as_they_are(tmp_path: Path) -> None:
    packets = table({"connector": "packets", "seed": 1, "count": 300})
    odd = tmp_path / "packets [1]*?'.parquet"
    packets.write_parquet(odd)
    for name, of in (("day=2026-01-01", packets[:100]), ("day=2026-01-02", packets[100:]), ("_work", packets)):
        (tmp_path / "clean" / name).mkdir(parents=True)
        of.write_parquet(tmp_path / "clean" / name / "part-00.parquet")
    packets.write_csv(tmp_path / "packets.csv")
    (tmp_path / "access.log.gz").write_bytes(gzip.compress(LOG.encode()))
    packets.write_ndjson(tmp_path / "packets.jsonl")
    for name, rows in (
        (odd.name, 300),
        ("clean", 300),
        ("packets.csv", 300),
        ("access.log.gz", 50),
        ("packets.jsonl", 300),
    ):
        view = explore.trace(tmp_path / name)
        assert (view.total, view.title) == (rows, name)
        assert view.table().height == rows
        if name == "packets.jsonl":
            with pytest.raises(SynergyError, match=r"plan: .*packets.jsonl: format 'jsonl'; expected one of csv"):
                view.plan()
            continue
        plan = view.select({view.charts[1]["column"]: view.crossfilter.charts[1].keys[0]}).plan()  # type: ignore[union-attr]
        assert Plan.from_yaml(plan.to_yaml()).operators.keys() == {"source", "filter", "aggregate", "sink"}
        assert plan.operators["filter"].selectivity == pytest.approx(view.rows / rows, rel=1e-3)


def test_frames_of_other_libraries_are_explored(frame: pl.DataFrame) -> None:
    some = frame.select("time", "size", "many")
    for each in (some.to_arrow(), some.lazy(), some.to_arrow().to_reader(), some.to_dict(as_series=False)):
        assert explore.trace(each).total == frame.height
    kinds = pl.DataFrame({"time": [0.0, 1.0], "kind": ["a", "b"]}, schema_overrides={"kind": pl.Categorical})
    assert explore.trace(kinds).select(kind="b").rows == 1
    assert explore.trace(pa.table({"when": [1, 2], "x": [3.0, 4.0]}), time="when").charts[0]["kind"] == "time"


@pytest.mark.parametrize(
    ("data", "options", "words"),
    [
        (7, {}, "trace: an int; expected the path of a trace, a folder of Parquet files"),
        ("nowhere.csv", {}, "nowhere.csv: no such file or folder; expected"),
        ({"time": [0.0]}, {"columns": "time"}, "columns: 'time'; expected a list of columns"),
        ({"time": [0.0]}, {"columns": ["tim"]}, "columns: 'tim'; expected some of time; did you mean 'time'"),
        ({"time": [0.0]}, {"format": "csv"}, "trace: format: expected only with the path of a raw file"),
        ({"time": [0.0]}, {"forma": "csv"}, "trace: unknown argument 'forma'; expected one of format"),
        ({"l": [[1]]}, {}, "frame: no column that a chart can show; expected times, numbers, texts"),
        ({"l": [[1]], "x": [1]}, {"columns": ["l"]}, r"columns: 'l' of type BIGINT\[\]; expected times"),
        ([], {}, "trace: no run; expected runs that were kept"),
        (pl.DataFrame(), {}, "trace: a table without columns; expected one with"),
        ({"at": ["x"]}, {"time": "at"}, "time: column 'at': 'x'; expected times, such as"),
    ],
)
def test_what_cannot_be_explored_is_refused_in_one_sentence(data: Any, options: Any, words: str) -> None:
    with pytest.raises(SynergyError, match=words) as refused:
        explore.trace(data, **options)
    assert "\n" not in str(refused.value)


def test_malformed_lines_are_told_of(tmp_path: Path) -> None:
    file = tmp_path / "flows.jsonl"
    file.write_text('{"time": 1, "bytes": 2}\n{bad\n{"time": 3, "bytes": 4}\n', "utf-8")
    view = explore.trace(file)
    told = "Left out: 1 of 3 lines is malformed: line 2: field 'line': '{bad'; expected one in JSON"
    assert view.sentence.startswith(f"All 2 rows. {told}")
    assert view.select(bytes=2).sentence.startswith(f"1 of 2 rows (50 %): bytes 2. {told}")
    file.write_bytes(b"time,bytes\n1,\xff\n")
    with pytest.raises(SynergyError, match=r"1 of 1 line is malformed: line 2: .* expected text in UTF-8"):
        explore.trace(file)


def test_a_folder_without_parquet_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        SynergyError, match=r"a folder without Parquet files; expected a folder that `synergy data prepare`"
    ):
        explore.trace(tmp_path)


def test_without_duckdb_one_sentence_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(SynergyError, match=r"explore\.trace needs the package duckdb; expected it to be installed"):
        explore.trace({"time": [0.0]})


# -- plans and simulations ---------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_selection_as_a_plan_and_as_a_simulation_has_the_selected_rows(frame: pl.DataFrame) -> None:
    columns = ["time", ODD, "size", "ok", "delay", "normal"]
    view = explore.trace(frame.select(columns))
    view.select({ODD: ["it's", "<script>", None]}, size=(100, None), ok=[True, None], delay=(0.05, None))
    assert 0 < view.rows < view.total
    plan = view.plan(by=ODD, window="10 min")
    shares = [each.selectivity for each in plan.operators.values() if each.kind == "filter"]
    assert math.prod(each or 0.0 for each in shares) == pytest.approx(view.rows / view.total, rel=1e-2)
    simulation = Simulation(3, network="local", seed=1)
    counted = simulation.submit(plan).results()
    groups = view.table().group_by(pl.col("time").dt.truncate("10m"), pl.col(ODD)).len()
    assert (counted["n"].sum(), counted.height) == (view.rows, groups.height)
    assert plan.operators["aggregate"].selectivity == pytest.approx(groups.height / view.rows, rel=1e-3)
    replayed = view.simulate(peers=3, network="local", seed=1)
    ((_, application),) = replayed.applications.items()
    assert application.results()["n"].sum() == view.rows
    own = view.simulate(3, lambda rows: rows.filter("normal > 0").sink("own"), network="local", seed=1)
    ((_, application),) = own.applications.items()
    assert application.results().height == view.table().filter(pl.col("normal") > 0).height


def test_a_plan_names_the_event_time_as_plans_do(tmp_path: Path) -> None:
    rows = pl.DataFrame({"when": [0, 10**6, 2 * 10**6], "host": ["a", "b", "a"]})
    rows.with_columns(pl.col("when").cast(pl.Datetime("us"))).write_parquet(tmp_path / "a.parquet")
    view = explore.trace(tmp_path / "a.parquet").select(when=("1970-01-01 00:00:01", None))
    plan = view.plan()
    assert plan.operators["filter"].params["where"] == "time >= CAST('1970-01-01 00:00:01' AS TIMESTAMP)"
    assert Simulation(2, network="local", seed=1).submit(plan).results()["n"].sum() == view.rows == 2
    with pytest.raises(SynergyError, match="by: 'when'; expected some of host"):
        view.plan(by="when")
    with pytest.raises(SynergyError, match=r"plan: .* has no column of times; expected one"):
        explore.trace({"x": [1]}).plan()
    with pytest.raises(SynergyError, match="simulate: no row is selected; expected some"):
        view.select(host=...).simulate()
