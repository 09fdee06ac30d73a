"""Coroutine functions of one's own: some rows at a time, in order, each tried again after a failure."""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import weakref
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from synergy_nb.plan.functions.declaring import Content

__all__ = ["Coroutines"]


class Coroutines:
    """Calls a coroutine function for rows, on a loop of its own, so that its connections last from batch to batch."""

    def __init__(self, content: Content, progressed: Callable[[], None]) -> None:
        self._content = content
        self._progressed = progressed  # callback after each row
        self._loop = asyncio.new_event_loop()
        self.close = weakref.finalize(self, self._loop.close)  # a simulation forgets it, and closes nothing

    def results(self, rows: Sequence[dict[str, Any]], loaded: tuple[Any, ...], *, to_the_end: bool) -> list[Any]:
        """Results for all rows, in order; an exception is a result.

        ``loaded``: what each call gets after the row; ``to_the_end``: whether rows follow one that fails. Otherwise
        those that were not called have None.
        """
        made: list[Any] = self._run(self._all(rows, loaded, to_the_end=to_the_end))
        return made

    def loaded(self, load: Callable[[], Any]) -> Any:
        """What ``load`` makes, on the loop of the calls, as sessions of clients need it; it may be a coroutine."""

        async def made() -> Any:
            value = load()
            return await value if inspect.iscoroutine(value) else value

        return self._run(made())

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return self._loop.run_until_complete(work)
        with concurrent.futures.ThreadPoolExecutor(1) as beside:  # this thread has a loop already, as in a notebook
            return beside.submit(self._loop.run_until_complete, work).result()

    async def _all(self, rows: Sequence[dict[str, Any]], loaded: tuple[Any, ...], *, to_the_end: bool) -> list[Any]:
        room = asyncio.Semaphore(self._content.concurrency)
        failed = False

        async def one(row: dict[str, Any]) -> Any:
            nonlocal failed
            async with room:
                if failed and not to_the_end:
                    return None
                try:
                    return await self._tried(row, loaded)
                except BaseException:
                    failed = True
                    raise
                finally:
                    self._progressed()

        tasks = [asyncio.create_task(one(row)) for row in rows]
        if not to_the_end and tasks:  # a service is not called for thousands of rows that nobody will get
            _, waiting = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            for task in waiting:
                task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        return [None if isinstance(each, asyncio.CancelledError) else each for each in results]

    async def _tried(self, row: dict[str, Any], loaded: tuple[Any, ...]) -> Any:
        patience = self._content.patience or None
        for _ in range(self._content.retries):
            try:
                return await asyncio.wait_for(self._content.call(row, *loaded), patience)
            except Exception:  # noqa: BLE001, S112 - it is tried again, and the last failure is told
                continue
        try:
            return await asyncio.wait_for(self._content.call(row, *loaded), patience)
        except TimeoutError as error:
            raise TimeoutError(f"no result within {patience:g} s" if patience else str(error)) from error
