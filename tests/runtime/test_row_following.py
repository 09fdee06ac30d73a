"""The newest rows are followed only while somebody watches, through errors, and once more at the end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from synergy_nb.plan import source
from synergy_nb.reporting.cluster_errors import PeerUnreachable
from synergy_nb.runtime.client import row_following
from synergy_nb.runtime.client._results import NewestRows
from synergy_nb.runtime.client.row_following import follow_rows
from synergy_nb.runtime.process.requests import ClosedClusterError, ClusterError
from tests.waiting import run_loop, turns, until

on_loop = run_loop

PLAN = source("packets", seed=1).project("bytes").sink("large")


class Handle:
    """A handle of an application, whose peers answer what a test says."""

    def __init__(self) -> None:
        self.id = "app"
        self.plan = PLAN
        self.cluster = SimpleNamespace(readable=lambda text: text)
        self.answers: asyncio.Queue[tuple[int, bool] | Exception] = asyncio.Queue()
        self.asked: list[float] = []  # how long each look would wait
        self.status = "running"

    async def look(self, newest: NewestRows, sink: str, wait: float) -> tuple[int, bool]:
        self.asked.append(wait)
        answer = await self.answers.get()
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def came_between(self, since: float, until: float, rows: int, sink: str) -> tuple[pl.DataFrame, int]:
        if since > until:
            raise ClusterError("not retained")
        return pl.DataFrame({"bytes": [rows]}), 7

    async def state(self) -> Any:
        return SimpleNamespace(status=self.status)


class Page:
    """What shows the rows."""

    def __init__(self, handle: Handle) -> None:
        self.open = True
        self.shown: list[tuple[int, str]] = []
        self.pause: float | None = 0.0
        self.follower = follow_rows(handle, "sink", 10, self.take, lambda: self.open)  # type: ignore[arg-type]

    def take(self, table: pl.DataFrame, came: int, note: str) -> float | None:
        self.shown.append((came, note))
        return self.pause

    async def over(self) -> None:
        """Wait until nothing is followed any more."""
        await until(lambda: not [task for task in asyncio.all_tasks() if task.get_name() == "rows of app"])


async def test_nobody_is_asked_while_nobody_watches() -> None:
    handle = Handle()
    page = Page(handle)
    page.open = False
    handle.answers.put_nowait((3, False))
    await until(lambda: page.shown == [(3, "")])  # what a notebook's file keeps at first
    await turns()
    assert handle.asked == [0.0]
    page.follower.wake()
    await turns()
    assert handle.asked == [0.0], "no page is open"
    page.open = True
    page.follower.wake()
    handle.answers.put_nowait((2, False))
    await until(lambda: len(page.shown) == 2)
    assert handle.asked[1] == row_following.WAIT
    page.follower.close()
    await page.over()


async def test_at_the_end_it_looks_once_more_also_where_nobody_watches() -> None:
    handle = Handle()
    page = Page(handle)
    page.open = False
    for answer in ((1, False), (4, False)):
        handle.answers.put_nowait(answer)
    await until(lambda: page.shown)
    page.follower.wake(last=True)
    await page.over()
    assert page.shown == [(1, ""), (4, "")]
    assert handle.asked == [0.0, 0.0]


@pytest.mark.parametrize("end", [(0, True), ClosedClusterError("closed")])
async def test_it_ends_with_the_stream_and_with_the_cluster(end: Any) -> None:
    handle = Handle()
    page = Page(handle)
    for answer in ((1, False), (0, False), end):
        handle.answers.put_nowait(answer)
    await page.over()
    assert page.shown == [(1, ""), (0, "")], "a look without news shows nothing, the end does"


async def test_a_peer_that_does_not_answer_is_a_sentence_and_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_following, "AGAIN", 0.0)
    handle = Handle()
    page = Page(handle)
    for answer in (PeerUnreachable("peer-2 does not answer"), PeerUnreachable("peer-2 does not answer"), (1, True)):
        handle.answers.put_nowait(answer)
    await page.over()
    assert page.shown == [(0, "peer-2 does not answer")] * 2 + [(1, "")]


async def test_an_application_that_has_failed_is_asked_no_more() -> None:
    handle = Handle()
    handle.status = "failed"
    page = Page(handle)
    handle.answers.put_nowait(ClusterError("no such application"))
    await page.over()
    assert page.shown == [(0, "")], "the view says by itself that it has failed"


async def test_a_view_that_is_gone_ends_it() -> None:
    handle = Handle()
    page = Page(handle)
    page.pause = None
    handle.answers.put_nowait((1, False))
    await page.over()
    assert handle.asked == [0.0]


async def test_a_moment_is_answered_with_rows_or_with_a_reason() -> None:
    page = Page(Handle())
    found: list[tuple[list[int], int, str]] = []
    answer: Callable[[pl.DataFrame, int, str], None] = lambda table, gone, why: found.append(  # noqa: E731
        (table["bytes"].to_list(), gone, why)
    )
    page.follower.moment(1.0, 2.0, answer)
    await until(lambda: found == [([10], 7, "")])
    page.follower.moment(3.0, 2.0, answer)
    await until(lambda: found[1:] == [([], 0, "not retained")])
    page.follower.close()
    await page.over()
