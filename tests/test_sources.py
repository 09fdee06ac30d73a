"""Where streams enter a peer: pushed items, the peer's own samples, paced traces."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from synergy_nb.dataflow.hosting import Parcel
from synergy_nb.dataflow.tuples import END, Batch, Item, Punctuation, encode
from synergy_nb.graph import Deploy, Start
from synergy_nb.plan import source
from synergy_nb.runtime.sources import PeerFeed, ThreadFeed
from tests.two_hosts import DEADLINE, Pair, fetched, numbers, play, table, until


def test_a_pushed_source_takes_each_item_once_and_turns_away_what_does_not_fit() -> None:
    async def scenario() -> None:
        pair = Pair(window_bytes=20_000, result_bytes=20_000)
        one = pair.net["a"]
        columns = {
            name: "int" if name in {"source_port", "destination_port", "bytes"} else "str"
            for name in table(0, 1).columns[1:]
        }
        plan = source("python", name="mine", columns=columns).filter("bytes >= 0").sink()
        for operator in reversed(list(plan.operators)):
            one.carry_out(Deploy("app", operator, plan.to_bytes(), dict.fromkeys(plan.operators, "a")))
        with pytest.raises(LookupError, match="application 'app' has no started source 'mine'"):
            one.push("app", "mine", b"")
        one.carry_out(Start("app", "source"))
        with pytest.raises(LookupError, match="application 'app' has no started source 'yours'"):
            one.push("app", "yours", b"")
        with pytest.raises(ValueError, match="item: "):
            one.push("app", "mine", b"nothing that an item looks like")
        with pytest.raises(ValueError, match="position: 3; expected 0: items are missing"):
            one.push("app", "mine", encode(Batch(table(0, 1), 3, 0.0)))
        with pytest.raises(ValueError, match="column 'bytes'"):
            one.push("app", "mine", encode(Batch(table(0, 1).drop("bytes"), 0, 0.0)))
        pushed = 0
        while one.push("app", "mine", encode(Batch(table(pushed, 10), pushed, 0.0))):
            pushed += 10
            one.push("app", "mine", encode(Batch(table(pushed - 10, 10), pushed - 10, 0.0)))  # again: it is known
            assert pushed < 10_000, "a queue that is never full is not bounded"
            await asyncio.sleep(0)
        received: list[int] = []

        async def insist(item: Item) -> None:
            while not one.push("app", "mine", encode(item)):
                waiting = asyncio.create_task(one.room("app", "mine"))
                while not waiting.done():
                    received.extend(numbers(fetched(one, "app")))
                    await asyncio.sleep(0)

        await insist(Batch(table(pushed - 5, 10), pushed - 5, 0.0))  # half of it is new
        pushed += 5
        await insist(Punctuation(END, pushed, 0.0))
        received += numbers(await pair.results("a", "app"))
        assert received == list(range(pushed))
        assert one.push("app", "mine", encode(Punctuation(END, pushed, 0.0)))
        with pytest.raises(ValueError, match="batch after the end of the stream"):
            one.push("app", "mine", encode(Batch(table(pushed, 1), pushed, 0.0)))

    play(scenario)


def test_peers_emit_their_own_samples() -> None:
    samples = [[("cpu", "process", 0.25), ("ping", "b", 0.003)], [("cpu", "process", 0.5)], []]

    async def scenario() -> None:
        pair = Pair(samples=lambda: samples.pop(0))
        one = pair.net["a"]
        pair.deploy("app", source("peers", interval=3600).sink(), {"source": "a", "sink": "a"})
        feed = next(iter(one._feeds.values()))
        assert isinstance(feed, PeerFeed)
        feed.tick()
        feed.tick()
        await until(lambda: one.qos("app")["tuples"] == 3)
        batches = fetched(one, "app")
        rows = [row for batch in batches for row in batch.table.select("peer", "metric", "target", "value").rows()]
        assert rows == [("a", "cpu", "process", 0.25), ("a", "ping", "b", 0.003), ("a", "cpu", "process", 0.5)]
        assert [batch.position for batch in batches] == [0, 2]
        assert batches[0].table["time"][0] < batches[1].table["time"][0]

    play(scenario)


@pytest.mark.parametrize("paced", [True, False])
def test_tuples_of_a_paced_stream_are_born_when_they_were_due(paced: bool) -> None:
    """The clock goes 10 s ahead at each look, so that nothing is ever waited for."""
    looks = itertools.count(1000, 10)

    async def scenario() -> None:
        got = asyncio.Event()
        failures: list[BaseException] = []
        feed = ThreadFeed(
            got.set,
            lambda: float(next(looks)),
            wire=False,
            most=1 << 20,
            loop=asyncio.get_running_loop(),
            read=lambda: (iter([(0.0, Batch(table(0, 1), 0, 0.0)), (1.5, Batch(table(1, 2), 0, 0.0))]), paced),
            failed=failures.append,
            name="synergy test",
        )
        feed.start()
        seen: list[Parcel] = []
        while len(seen) < 3:
            await asyncio.wait_for(got.wait(), DEADLINE)
            got.clear()
            while feed.pending:
                seen.append(feed.pending.popleft())
                feed.emitted(seen[-1])
        feed.stop()
        await feed.closed()
        assert [(parcel.position, parcel.time) for parcel in seen] == [(0, None), (1, None), (3, END)], (
            "the end is added"
        )
        births = [parcel.born for parcel in seen[:2]]
        if paced:
            assert births[1] - births[0] == 1.5
        else:
            assert births[1] - births[0] == 10.0
        assert not failures

    play(scenario)
