"""Memory of operators: impossible plans are refused, a component that exceeds its share fails by name, others go on."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import polars as pl
import pyarrow as pa
import pytest

from synergy_nb import ClusterError, Simulation
from synergy_nb.dataflow.memory_shares import Memory, MemoryExceeded, MemoryShare
from synergy_nb.dataflow.operators import OperatorLogic
from synergy_nb.dataflow.operators import create as create_logic
from synergy_nb.dataflow.streams.log.log import Limits
from synergy_nb.dataflow.tuples import END, TYPES, Batch, Item, Punctuation, encode
from synergy_nb.plan import Plan, PlanError, Stream, plan, source
from synergy_nb.plan.checks.memory_estimates import check_memory, retained_bytes
from synergy_nb.runtime.data import instances
from synergy_nb.runtime.process.starting import start_cluster
from tests.feeding import fresh, rows_of
from tests.two_hosts import Pair, numbers, play, reading, trace
from tests.waiting import until

on_loop = play  # how the tests that are coroutines run

ROW = {"key": "str", "n": "int"}


def python(name: str = "rows") -> Stream:
    return source("python", name=name, columns=ROW, id=name)


def batch(times: list[int], position: int = 0, key: str = "a") -> Batch:
    """Rows at these microseconds, numbered by position."""
    count = len(times)
    columns = {"time": times, "key": [key] * count, "n": list(range(position, position + count))}
    return Batch(pl.DataFrame(columns).with_columns(pl.col("time").cast(TYPES["time"])), position, 0.0)


# -- shares ----------------------------------------------------------------------------------------------------------


def test_a_component_over_its_share_fails_by_name_with_the_numbers_and_a_remedy() -> None:
    share = Memory().share("queries", "sums", 1e6)
    share.kind = "aggregate"
    share.use(900_000)
    with pytest.raises(MemoryExceeded) as caught:
        share.admit(250_000)
    assert str(caught.value) == (
        "out of memory: operator 'sums' (aggregate) of application 'queries': it uses 900 kB and its next step needs "
        "up to 250 kB, but its share is 1 MB; shorten its window, or group by columns with fewer values, or give it "
        "more with memory= of the sink or of the Cluster"
    )
    with pytest.raises(MemoryExceeded, match=r"it uses 1\.2 MB, but its share is 1 MB"):
        share.use(1_200_000)


def test_if_all_components_exceed_the_memory_of_a_peer_the_largest_fails() -> None:
    failed: list[tuple[MemoryShare, str]] = []
    memory = Memory(1000, lambda share, error: failed.append((share, str(error))))
    large, small = memory.share("one", "join"), memory.share("two", "count")
    large.use(800)
    small.use(100)
    small.admit(90)
    assert not failed
    small.admit(150)
    assert [share for share, _ in failed] == [large]
    assert "would take 1.05 kB of 1 kB together, of which it takes most" in failed[0][1]
    assert memory.used == 100, "what fails counts no longer"
    large.use(0)
    assert memory.used == 100
    with pytest.raises(MemoryExceeded, match="its next step needs up to 901 B"):
        small.admit(901)
    small.release()
    assert memory.used == 0


def test_a_user_over_his_quota_fails_himself_and_nobody_else() -> None:
    failed: list[MemoryShare] = []
    memory = Memory(10_000, lambda share, _: failed.append(share))
    users = {"a": "ann", "b": "ann", "c": "bob"}
    memory.quota_of = lambda application: (users.get(application, ""), 1000.0)
    first, second, other, owner = (memory.share(each, "sort") for each in ("a", "b", "c", "d"))
    first.use(700)
    other.use(1000)
    owner.use(5000)
    second.use(200)
    with pytest.raises(MemoryExceeded) as caught:
        second.admit(200)
    assert "it uses 200 B and its next step needs up to 200 B, but the components of its user 'ann' would take " in str(
        caught.value
    )
    assert "1.1 kB together, of the 1 kB that he may have at this peer" in str(caught.value)
    with pytest.raises(MemoryExceeded, match="of its user 'bob' would take"):
        other.use(1001)
    first.release()
    second.admit(200)
    second.use(1000)
    second.release()
    assert memory.used_by("ann") == 0
    assert not failed


def test_a_plan_cannot_give_an_operator_more_than_its_peer_has() -> None:
    memory = Memory(1000)
    assert memory.share("app", "a").limit == memory.share("app", "b", 2000.0).limit == 1000
    assert memory.share("app", "c", 10.0).limit == 10.0


# -- at the boundary ---------------------------------------------------------------------------------------------------


def test_windows_that_hold_a_tuple_too_often_are_refused() -> None:
    with pytest.raises(PlanError, match=r"each tuple would be in 300,000,000 windows, and may be in 100,000") as caught:
        python().aggregate(window="5 min every 1 us", n="count(*)").sink()
    assert "operator 'aggregate', window: '1 us'; expected a slide of at least 3 ms" in str(caught.value)
    python().aggregate(window="5 min every 3 ms", n="count(*)").sink()


def test_a_plan_says_how_much_memory_each_operator_may_take() -> None:
    made = python().sink(memory="256 MB")
    assert made.qos.memory == 256e6
    assert Plan.from_yaml(made.to_yaml()) == Plan.from_bytes(made.to_bytes()) == made
    both = plan(made, python("others").sink(name="b", memory="1 GB"))
    assert both.qos.memory == 256e6
    with pytest.raises(PlanError, match=r"qos\.memory: '1 kB'; expected at least 16 MB"):
        python().sink(memory="1 kB")


def test_a_state_that_is_too_large_by_stated_rates_is_refused_with_numbers() -> None:
    packets = source("packets", rate="1000 tuples/s", seed=1)
    rows = 3600 * 1000
    whole = packets.sort("bytes", window="1 h").sink()
    size = whole.tuple_bytes("source")
    assert retained_bytes(whole, "sort") == pytest.approx(rows * size)
    with pytest.raises(
        ValueError, match=rf"operator 'sort', memory: '{rows * size / 1e6:,.0f} MB that it will keep at 1,000 t"
    ):
        check_memory(whole, whole.operators, 1e8)
    check_memory(whole, whole.operators, 1e9)
    check_memory(packets.sort("bytes", window="1 h").sink(memory="1 GB"), ["sort"], 1e9)
    short = source("packets", rate="1000 tuples/s", duration="1 min").sort("bytes", window="1 h").sink()
    assert retained_bytes(short, "sort") == pytest.approx(60 * 1000 * size)
    joined = packets.join(source("packets", rate="10 tuples/s", seed=2), on="source", within="1 min").sink()
    assert retained_bytes(joined, "join") == pytest.approx(60 * 1010 * size)


def test_a_function_that_is_stated_to_need_more_than_its_share_is_refused() -> None:
    installed = "tests.installed_functions:kilobytes"
    stated = source("packets").apply(installed, columns={"kB": "float"}, memory="2 GB", id="own")
    with pytest.raises(
        ValueError,
        match="operator 'own', memory: '2,000 MB for its function'; expected at most its share of 1,500 MB: ",
    ):
        check_memory(stated.sink(), ["own"], 1.5e9)
    check_memory(stated.sink(), ["own"], 2e9)
    with pytest.raises(ClusterError, match=r"'2,000 MB for its function'; expected at most its share of 256 MB: "):
        Simulation(peers=1, cores=1).submit(stated.sink(memory="256 MB"))
    plain = source("packets").apply(installed, columns={"kB": "float"}, id="own")
    check_memory(plain.sink(memory="256 MB"), ["own"], 1e8)  # it gets what its operator may use


@pytest.mark.parametrize(
    "stream",
    [
        python().sort("n", window="1 d"),
        trace().sort("bytes", window="1 d"),
        source("packets", rate="1e6 tuples/s").filter("bytes > 1000").sort("bytes", window="1 d"),
        source("packets", rate="1e6 tuples/s").aggregate(by="source", window="1 d", n="count(*)"),
        source("packets", rate="1e6 tuples/s").sort("bytes", window="1000000 rows"),
    ],
    ids=["no rate", "a replay", "a filter of unknown selectivity", "groups of unknown number", "rows"],
)
def test_a_state_that_rates_do_not_determine_is_not_refused(stream: Stream) -> None:
    made = stream.sink()
    check_memory(made, made.operators, 1e6)


@pytest.mark.parametrize(("memory", "said"), [("1 kB", "at least 16 MB"), ("many", "a size such as"), (-1, "a size")])
def test_the_memory_of_peers_is_checked_before_they_start(memory: Any, said: str) -> None:
    with pytest.raises(ValueError, match=f"memory: {memory!r}; expected {said}"):
        asyncio.run(start_cluster(2, memory=memory))


# -- expansion -------------------------------------------------------------------------------------------------------


def narrow(stream: Stream, window: dict[str, Any]) -> OperatorLogic:
    """An operator with a window that no plan may have."""
    made = stream.sink()
    operator = made.operators[made.upstream("sink")[0]]
    return create_logic(msgspec.structs.replace(operator, params={**operator.params, "window": window}), made)


EVERY_MICROSECOND = {"kind": "sliding", "length": 300.0, "slide": 1e-6}


@pytest.mark.parametrize(
    "stream",
    [python().aggregate(window="1 min every 1 s", n="count(*)"), python().sort("n", window="1 min every 1 s")],
    ids=["aggregate", "sort"],
)
def test_a_tuple_in_300_million_windows_is_made_piece_by_piece(stream: Stream) -> None:
    logic = narrow(stream, EVERY_MICROSECOND)
    logic.piece_bytes = 100_000
    logic.on_batch(0, batch([0]))
    assert logic.needs(0, Punctuation(END, 1, 0.0)) < 2e6
    given = itertools.islice(logic.execute(0, Punctuation(END, 1, 0.0)), 20)
    pieces = [item.table for item in given if isinstance(item, Batch)]
    assert max(piece.estimated_size() for piece in pieces) <= 100_000
    starts = pl.concat(pieces)["window_start"].cast(pl.Int64)
    assert (starts[0], starts.diff(null_behavior="drop").unique().to_list()) == (1 - 300_000_000, [1])


def test_tuples_far_apart_cost_no_windows_in_between() -> None:
    logic = narrow(python().count(window="1 min every 1 s"), {"kind": "sliding", "length": 10e-6, "slide": 1e-6})
    logic.piece_bytes = 200
    year = 365 * 86400 * 1_000_000
    logic.on_batch(0, batch([0, 3, year]))
    items = logic.on_punctuation(0, Punctuation(END, 3, 0.0))
    rows = rows_of(items, logic.context.output)
    assert [count for *_, count in rows] == [1, 1, 1, *[2] * 7, 1, 1, 1, *[1] * 10]


@pytest.mark.slow
@pytest.mark.parametrize("first", [0, 1])
def test_a_join_that_multiplies_is_made_piece_by_piece(first: int) -> None:
    """600 rows by 600 of one key: 360,000 pairs, of which none but a few are there at a time."""
    joined = python("left").join(python("right"), on="key", within="1 s").sink()
    logic = fresh(joined, "join")
    logic.piece_bytes = 100_000
    logic.on_batch(first, batch(list(range(600))))
    item = batch(list(range(600)))
    assert logic.needs(1 - first, item) < 2e6
    pairs = 0
    for made in logic.execute(1 - first, item):
        assert isinstance(made, Batch)
        assert made.nbytes < 100_000
        pairs += made.rows
    assert pairs == 600 * 600


@pytest.mark.slow
def test_results_of_a_join_do_not_depend_on_the_division_of_its_inputs() -> None:
    joined = python("left").join(python("right"), on="key", within="25 us").sink()
    rows = 20

    def given(size: int, piece: int) -> list[tuple[Any, ...]]:
        logic = fresh(joined, "join")
        logic.piece_bytes = piece
        items: list[Item] = []
        for port, at in ((0, 0), (1, 0), (0, rows), (1, rows)):
            for start in range(at, at + rows, size):
                table = batch(list(range(start, min(start + size, at + rows))), start).table
                table = table.with_columns(pl.when(pl.col("n") % 3 > 0).then(pl.lit("b")).otherwise("key").alias("key"))
                items += logic.on_batch(port, Batch(table, start, 0.0))
        return rows_of(items, joined.schema("join"))

    wanted = given(rows, 1 << 20)
    assert len(wanted) > 2 * rows
    for size in (1, 7, rows):
        assert given(size, 500) == given(size, 1 << 20) == wanted


# -- on peers --------------------------------------------------------------------------------------------------------

GREEDY: dict[str, Callable[[Stream], Stream]] = {
    "aggregate": lambda it: it.aggregate(by="bytes", window="1 h", n="count(*)"),
    "count": lambda it: it.count(window="1 h every 1 s"),
    "distinct": lambda it: it.distinct("bytes", window="1 h"),
    "sort": lambda it: it.sort("bytes", window="1 h"),
    "compare": lambda it: it.sort("bytes", window="1 s").compare("bytes", "10 %"),
    "join": lambda it: it.join(it.filter("bytes >= 0"), on="bytes", within="1 h"),
    "session": lambda it: it.sort("bytes", window="1 h gap"),
    "session of groups": lambda it: it.aggregate(by="bytes", window="1 h gap", n="count(*)"),
}


@pytest.mark.slow
@pytest.mark.parametrize("which", GREEDY)
async def test_a_component_that_grows_too_large_fails_by_name_and_others_continue(which: str) -> None:
    pair = Pair(read=reading(300, 100), memory=400_000.0, limits=Limits(20_000))  # little goes together
    greedy = GREEDY[which](trace()).sink()
    peers = dict.fromkeys(greedy.operators, "a")
    pair.deploy("bad", greedy, peers)
    pair.deploy("good", trace().filter("bytes >= 0").sink(), {"source": "a", "filter": "a", "sink": "b"})
    assert numbers(await pair.results("b", "good")) == list(range(30_000))
    await until(lambda: bool(pair.failed))
    ((application, operator, reason),) = pair.failed
    kind = greedy.operators[operator].kind
    assert application == "bad"
    assert reason.startswith(f"out of memory: operator {operator!r} ({kind}) of application 'bad': it uses ")
    assert "400 kB" in reason
    pair.undeploy("bad", peers)
    assert pair.net["a"].hosting.memory.used == 0


class Keeping:
    """A logic that passes on what it gets, and uses a kilobyte for each tuple."""

    late = 0
    piece_bytes = 1 << 20

    def __init__(self) -> None:
        self.state_bytes = 0

    def needs(self, _: int, item: Item) -> float:
        return 1000.0 * item.rows if isinstance(item, Batch) else 0.0

    def execute(self, _: int, item: Item) -> Iterator[Item]:
        self.state_bytes += 1000 * item.rows if isinstance(item, Batch) else 0
        yield item


async def test_where_components_of_a_peer_exceed_it_together_the_largest_fails_though_it_does_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def create(operator: Any, plan: Any, **options: Any) -> Any:
        return Keeping() if operator.kind == "filter" else create_logic(operator, plan, **options)

    monkeypatch.setattr(instances, "create", create)

    pair = Pair(memory=1e6)
    one = pair.net["a"]
    for application in ("large", "small"):
        asked = python(application).filter("n >= 0").sink()
        pair.deploy(application, asked, dict.fromkeys(asked.operators, "a"))
    component = one.hosting.components["small", "filter"]
    assert one.pushed.push("large", "large", encode(batch(list(range(700)))))
    await until(lambda: one.hosting.components["large", "filter"].share.used == 700_000)
    for at in range(0, 900, 100):
        assert one.pushed.push("small", "small", encode(batch(list(range(at, at + 100)), at)))
        await until(lambda: component.ports[0].consumed.position == at + 100)  # noqa: B023
    await until(lambda: bool(pair.failed))
    ((application, operator, reason),) = pair.failed
    assert (application, operator) == ("large", "filter")
    assert "of 1 MB together, of which it takes most" in reason
    assert one.pushed.push("small", "small", encode(Punctuation(END, 900, 0.0)))
    results = await pair.results("a", "small")
    assert pl.concat([each.table for each in results])["n"].to_list() == list(range(900))
    assert len(pair.failed) == 1


@pytest.mark.parametrize(
    "error",
    [MemoryError(), pa.ArrowMemoryError("malloc of size 8"), pl.exceptions.PanicException("capacity overflow")],
    ids=["Python", "Arrow", "Polars"],
)
async def test_a_failed_allocation_is_reported_as_such(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    def create(operator: Any, plan: Any, **options: Any) -> OperatorLogic:
        logic = create_logic(operator, plan, **options)

        def execute(port: int, item: Item) -> Iterator[Item]:
            raise error

        if operator.kind == "filter":
            monkeypatch.setattr(logic, "execute", execute)
        return logic

    monkeypatch.setattr(instances, "create", create)

    pair = Pair(read=reading(1, 100), memory=1e6)
    pair.deploy("app", trace().filter("bytes >= 0").sink(), dict.fromkeys(("source", "filter", "sink"), "a"))
    await until(lambda: bool(pair.failed))
    ((_, operator, reason),) = pair.failed
    assert operator == "filter"
    assert "it uses 0 B of its share of 1 MB, and could not be given more" in reason


async def test_windows_that_overlap_much_leave_in_pieces_that_fit_the_window() -> None:
    pair = Pair(read=reading(3, 10), limits=Limits(40_000))
    plan = trace().count(window="20 s every 2 ms").sink()
    pair.deploy("app", plan, {"source": "a", "count": "a", "sink": "b"})
    batches = await pair.results("b", "app")
    rows = sum(each.rows for each in batches)
    times = pl.concat([each.table for each in batches])["window_start"].cast(pl.Int64)
    assert times.is_sorted()
    assert rows == times.n_unique() == 10_014
    assert [each.position for each in batches] == [0, *itertools.accumulate(each.rows for each in batches[:-1])]
    stats = {each["operator"]: each for one in pair.net.values() for each in one.stats()}
    assert stats["count"]["tuples_in"] == 30
    assert not pair.failed


async def test_measurements_contain_the_memory_of_an_operator_and_its_share() -> None:
    pair = Pair(memory=64e6)
    plan = python().sort("n", window="1 h").sink(memory="32 MB")
    pair.deploy("app", plan, dict.fromkeys(plan.operators, "a"))
    assert pair.net["a"].pushed.push("app", "rows", encode(batch(list(range(5000)))))

    def stats() -> dict[str, Any]:
        return next(each for each in pair.net["a"].stats() if each["operator"] == "sort")

    await until(lambda: stats()["memory_bytes"] > 0)
    assert 5000 * 32 < stats()["memory_bytes"] < 5000 * 40
    assert stats()["memory_share"] == 32e6
    pair.net["a"].pushed.push("app", "rows", encode(Punctuation(END, 5000, 0.0)))
    await until(lambda: stats()["memory_bytes"] == 0)
