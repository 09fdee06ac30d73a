"""Nobody waits at the end of the interpreter for a Spark that is starting; Spark ends with it all the same."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import thread as executors
from functools import partial
from typing import Any

import pytest

from spark_stream import server as spark_server
from synergy_nb.runtime.data.spark_servers import SparkServers
from synergy_nb.runtime.process.requests import ClusterError, SparkState
from tests.waiting import until

ENDING = "cannot schedule new futures after interpreter shutdown"  # Python's words


class Starting:
    """A server that starts until it is closed."""

    def __init__(self, begun: list[threading.Thread], on_event: Callable[..., None]) -> None:
        self.begun = begun
        self.closed = threading.Event()

    def ready(self) -> None:
        self.begun.append(threading.current_thread())
        self.closed.wait()
        raise spark_server.SparkUnavailable("it was closed")

    def close(self) -> None:
        self.closed.set()


async def test_the_interpreter_ends_while_spark_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[threading.Thread] = []
    monkeypatch.setattr(spark_server, "Server", partial(Starting, begun))

    async def publish(_: Sequence[SparkState]) -> None: ...

    async def ended(*_: object) -> Any:
        raise RuntimeError(ENDING)

    servers = SparkServers(["local"], publish)
    waiting = asyncio.create_task(servers.ready())
    await until(lambda: bool(begun))
    (thread,) = begun
    assert thread.daemon
    assert thread not in executors._threads_queues, "Python waits for these before it closes the cluster"
    monkeypatch.setattr(asyncio, "to_thread", ended)
    await servers.close()
    with pytest.raises(ClusterError, match="spark: it was closed"):
        await waiting
