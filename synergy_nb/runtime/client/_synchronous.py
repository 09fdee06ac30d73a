"""Synchronous methods derived from coroutine methods, and the thread with the event loop that runs these.

A class for synchronous code wraps an object with coroutine methods, and has the same methods::

    class Cluster(Synchronous[AsyncCluster]):
        stop = synchronous(AsyncCluster.stop)

So each method has one signature and one docstring: ``help()`` and tab completion show them, and type checkers infer the
parameters of the coroutine method with the result that it returns.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import functools
import inspect
import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, Concatenate, Final, Generic, ParamSpec, TypeVar, overload

from synergy_nb.errors import brief
from synergy_nb.runtime.process.requests import ClusterError

A = TypeVar("A")
A_co = TypeVar("A_co", covariant=True)
P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound="Synchronous[Any]")
T = TypeVar("T")

# seconds between two looks for an interrupt: under Polars' signal handler, an interrupt does not end a wait
LISTEN: Final = 0.1
ENDING: Final = 5.0  # seconds for running coroutines to end when the loop closes


class LoopThread:
    """An event loop in a daemon thread."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, name="synergy cluster", daemon=True)
        self.thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine and return its result; an interrupt cancels it, and waits until it has cleaned up."""
        outcome: concurrent.futures.Future[T] = concurrent.futures.Future()
        begun: list[asyncio.Task[T]] = []

        def end(task: asyncio.Task[T]) -> None:
            if task.cancelled():
                outcome.set_exception(ClusterError("the cluster was closed meanwhile"))
            elif (error := task.exception()) is not None:
                outcome.set_exception(error)
            else:
                outcome.set_result(task.result())

        def begin() -> None:  # in the caller's context, so what the coroutine displays is in the caller's cell
            begun.append(self.loop.create_task(work))
            begun[0].add_done_callback(end)

        self.loop.call_soon_threadsafe(begin)
        try:
            return _waited(outcome)
        except BaseException as error:
            brief(error)
            if not outcome.done():
                self.loop.call_soon_threadsafe(lambda: begun[0].cancel())  # noqa: PLW0108 - once it is begun
                with contextlib.suppress(Exception):
                    _waited(outcome)
            raise

    def close(self) -> None:
        """Cancel running coroutines, and end the thread."""
        try:
            asyncio.run_coroutine_threadsafe(self._end_all(), self.loop).result()
        finally:
            self.loop.call_soon_threadsafe(self.loop.stop)
            self.thread.join()
            self.loop.close()

    async def _end_all(self) -> None:
        """Cancel all coroutines that other threads wait for, so that no thread waits for ever."""
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=ENDING)


def _waited(outcome: concurrent.futures.Future[T]) -> T:
    while not outcome.done():
        concurrent.futures.wait([outcome], LISTEN)
    return outcome.result()


class Synchronous(ABC, Generic[A_co]):
    """Synchronous wrapper of an object with coroutine methods."""

    _asynchronous: A_co

    def __init_subclass__(cls) -> None:
        """Name the methods after this class."""
        for name, method in vars(cls).items():
            if inspect.isfunction(method):
                method.__qualname__ = f"{cls.__qualname__}.{name}"

    @abstractmethod
    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine of the object and return its result."""


@overload
def synchronous(
    method: Callable[Concatenate[A, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Synchronous[A], P], T]: ...
@overload
def synchronous(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]], give: Callable[[S, T], R]
) -> Callable[Concatenate[S, P], R]: ...
def synchronous(method: Callable[..., Coroutine[Any, Any, Any]], give: Callable[..., Any] | None = None) -> Any:
    """Derive a synchronous method from a coroutine method.

    ``method``: coroutine method of the class that a :class:`Synchronous` wraps; ``give``: function of the
    :class:`Synchronous` and the coroutine's result that returns the method's result; None: the method returns the
    coroutine's result.
    """

    @functools.wraps(method)
    def call(self: Synchronous[Any], /, *arguments: Any, **options: Any) -> Any:
        result = self._run(method(self._asynchronous, *arguments, **options))
        return result if give is None else give(self, result)

    return _described(call, method if give is None else give)


def iterated(
    method: Callable[Concatenate[A, P], AsyncIterator[T]],
) -> Callable[Concatenate[Synchronous[A], P], Iterator[T]]:
    """Derive a generator method from an asynchronous generator method."""

    @functools.wraps(method)
    def iterate(self: Synchronous[A], /, *arguments: P.args, **options: P.kwargs) -> Iterator[T]:
        items = method(self._asynchronous, *arguments, **options)
        while found := self._run(_next(items)):
            yield found[0]

    return _described(iterate, method)


async def _next(items: AsyncIterator[T]) -> tuple[T, ...]:
    """Return the next item, or an empty tuple at the end."""
    try:
        return (await anext(items),)
    except StopAsyncIteration:
        return ()


def _described(call: Callable[P, T], result: Callable[..., Any]) -> Callable[P, T]:
    """Give ``call`` the signature for ``help()``, with the return type of ``result``."""
    returned = str(result.__annotations__["return"]).removeprefix("Async")
    call.__signature__ = inspect.signature(call).replace(return_annotation=returned)  # type: ignore[attr-defined]
    return call
