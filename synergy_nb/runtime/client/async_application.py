"""A submitted plan for coroutines: its state, its results, its feeds."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import math
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import polars as pl

from synergy_nb.control.identity import NotAllowed, is_name
from synergy_nb.dataflow.sinks.protocol import SinkFailed, SinkUnavailable, SinkWriter
from synergy_nb.dataflow.sources import FIRST_WAIT_S, longer
from synergy_nb.dataflow.tuples import END, START, empty
from synergy_nb.errors import user_facing
from synergy_nb.events import Why
from synergy_nb.events.application_states import LASTING
from synergy_nb.events.table import Events
from synergy_nb.plan import Plan
from synergy_nb.plan.derived.lost_rows import lost_rows
from synergy_nb.plan.derived.plan_changes import PlanChange, change_of, check_replacement
from synergy_nb.plan.derived.source_readers import with_readers_apart
from synergy_nb.plan.derived.stream_sharing import endless_sources
from synergy_nb.plan.terms.units import duration
from synergy_nb.reporting.application_list import ListedApplication
from synergy_nb.reporting.bottlenecks import Bottleneck, bottleneck
from synergy_nb.reporting.cluster_errors import check_rows, rows_left
from synergy_nb.reporting.explanation import Explanation
from synergy_nb.reporting.formatting import seconds
from synergy_nb.reporting.measurements import lacking
from synergy_nb.reporting.peer_states import PeerState
from synergy_nb.reporting.replacements import promises, quiet_sources
from synergy_nb.reporting.uncovered import notices_of
from synergy_nb.runtime.client._accounts import explained, replayed
from synergy_nb.runtime.client._led_application import ClusterAccess, LedApplication
from synergy_nb.runtime.client._pushing import Pushing
from synergy_nb.runtime.client._result_writers import ResultWriter, writer_for
from synergy_nb.runtime.client._results import (
    NewestRows,
    Results,
    missed_notice,
    rows_of,
    why_discarded,
    why_endless,
    why_none,
)
from synergy_nb.runtime.client.feeds import Feed, Rows, items, supply
from synergy_nb.runtime.client.result_files import ResultFile
from synergy_nb.runtime.client.waiting_display import displays_waiting, waiting
from synergy_nb.runtime.data.open_windows import open_windows
from synergy_nb.runtime.process.requests import (
    AccessRevoked,
    ApplicationId,
    ApplicationState,
    ChangeSinks,
    ClosedClusterError,
    ClusterError,
    FetchedResults,
    GrantRight,
    HoldSources,
    Outcome,
    PeerUnreachable,
    PreparedSinks,
    ReplacePlan,
    Replacing,
    RowsDropped,
    SinksHeld,
    SinksMeasured,
    pack,
    unpack,
)
from synergy_nb.traces.rows import row_reader

if TYPE_CHECKING:
    from synergy_nb.recording.moments import Replay

__all__ = ["AsyncApplication"]

#: End of the name of a file to the method that writes such a file.
METHODS: Final = {".parquet": "to_parquet", ".csv": "to_csv", ".jsonl": "to_jsonl", ".ndjson": "to_jsonl"}
LOOKS_S: Final = 0.1  # seconds between two looks whether another plan has caught up
ANSWERED_S: Final = 10.0  # seconds for an answer of a peer that waits for something there, for `POLL` at most
DECIDED: Final = 130.0  # seconds for which a peer is waited for that composes an application anew
COLLECTED = 64 << 20  # most bytes that stop() collects: as much as a sink retains


class AsyncApplication(LedApplication):
    """A submitted plan.

    Attributes
    ----------
    id : str
        Id of the application at all peers.
    plan : Plan
        The submitted plan.
    origin : str
        Address of the peer that leads it: the one that composed it, or its successor.

    Examples
    --------
    >>> import asyncio
    >>> from synergy_nb import source, start_cluster
    >>> async def large_packets():
    ...     packets = source("packets", seed=1, rate="1000 tuples/s", duration="2 s", speed=0)
    ...     async with await start_cluster(2) as cluster:
    ...         application = await cluster.submit(packets.filter("bytes > 1000").sink(delay="10 s"))
    ...         rows = 0
    ...         async for table in application.stream():  # as they arrive
    ...             rows += table.height
    ...         return rows, await application.wait()
    >>> asyncio.run(large_packets())
    (794, 'finished')
    """

    def __init__(self, cluster: ClusterAccess, plan: Plan, origin: str, state: ApplicationState) -> None:
        super().__init__(cluster, plan, origin, state)
        self.stopped = False  # whether this handle has ended it
        self._feeds: set[asyncio.Task[None]] = set()
        reader = uuid.uuid4().hex
        self._results = {sink: Results(self.id, sink, reader) for sink in plan.sinks}
        self._replaced = False  # whether its plan has taken the place of another one
        self._writing = 0  # calls that write results
        self._exchange = asyncio.Lock()  # lock of the task that replaces its plan
        self._looped = 0  # rows that stream() has yielded, which are not stored
        self._cut_short: list[str] = []  # notices of stop() about open windows, and destinations that lack rows

    @property
    def graph(self) -> dict[str, str]:
        """Component graph λ as the origin stated it last, see :meth:`state`: operator id to the name of its peer."""
        return {operator: self.cluster.name(address) for operator, address in self.last.roles.peers.items()}

    @property
    def backups(self) -> dict[str, list[str]]:
        """Replication graph ρ: id of each replicated operator to the names of its backups' peers."""
        return {operator: [*map(self.cluster.name, peers)] for operator, peers in self.last.roles.backups.items()}

    @property
    def notices(self) -> list[str]:
        """Notices for the user: limits of replication, rows that are lacking, windows and destinations cut short."""
        lacking = [notice for each in self._results.values() for notice in each.notices]
        graph = dict(sorted(self.graph.items(), key=lambda each: each[0] in self.plan.sinks))
        return [*notices_of(graph, self.last.roles.backups, self._looped), *lacking, *self._cut_short]

    @property
    def listed(self) -> ListedApplication:
        """What a list of applications shows of it, as far as this handle knows."""
        last, peers = self.last, frozenset(self.graph.values())
        return ListedApplication(self.plan, last.status, self.cluster.readable(last.reason), last.qos, peers)

    @displays_waiting(lambda it, *_, **__: f"waiting until {it.id} ends")
    async def wait(self, timeout: float | str | None = None) -> str:
        """Wait until every stream has ended, or it failed or was stopped; return its status.

        Parameters
        ----------
        timeout
            Longest time to wait, in seconds or as ``"2 min"``; None: no limit.

        Raises
        ------
        TimeoutError
            If it still runs after ``timeout``.
        """
        patience = None if timeout is None else duration("timeout", timeout, least=0.0)
        try:
            async with asyncio.timeout(patience):
                while (state := await self._next_state()).status in LASTING:
                    pass
                return state.status
        except TimeoutError:
            raise TimeoutError(f"{self.id} still runs after {seconds(patience)}") from None

    async def _next_state(self) -> ApplicationState:
        """Return the state as soon as it has changed, or the present one after some seconds."""
        try:
            answer = await self.cluster.request(self.origin, "wait", pack(ApplicationId(self.id)), ANSWERED_S)
        except ClosedClusterError:
            raise
        except ClusterError:
            return await self.state()
        return self.record_state(unpack(answer, ApplicationState))

    async def qos(self, sink: str | None = None) -> dict[str, Any]:
        """Return measurements of a sink: delays in seconds, miss rate and tuples/s, with the limit of the plan.

        ``late`` is the number of rows that the sources have dropped because they came later than ``lateness`` allows.
        ``sink`` is the name or operator id of the sink; it is needed only where the plan has several.
        """
        name, state = self.sink(sink), await self.state()
        if self.sink_peer(name) != self.origin:
            with contextlib.suppress(ClusterError):
                answer = await self.cluster.request(self.sink_peer(name), "sinks", pack(ApplicationId(self.id)))
                state = self.record_state(msgspec.structs.replace(state, qos=unpack(answer, SinksMeasured).qos))
        return lacking(state.qos.get(name, {}), state.late, state.skipped)

    # -- results -------------------------------------------------------------------------------------------------

    def sink(self, sink: str | None) -> str:
        """Return the operator id of a sink of the plan by its id or its name; None: the only one."""
        try:
            return self.plan.sink(sink)
        except ValueError as error:
            raise ClusterError(str(error)) from None

    @user_facing
    async def stream(self, sink: str | None = None) -> AsyncIterator[pl.DataFrame]:
        """Yield results as they arrive, one table for each batch, until the stream ends or :meth:`stop` is called.

        The yielded rows are not stored, as a stream may be endless: :meth:`results` and :meth:`head` return other rows.

        Raises
        ------
        ClusterError
            If the application has failed or was stopped by another client, after all results that had arrived.
        """
        name = self.sink(sink)
        arrived = self._results[name].arrived
        while True:
            while arrived:
                table = arrived.popleft()
                self._looped += table.height
                yield table
            if self._complete(name):
                return
            async with waiting(lambda: f"waiting for results of {self.id}"):
                while not arrived and not self._complete(name):
                    await self._fetch(name, 1.0)
                    if not arrived and not self._complete(name):
                        await self._still_wanted()

    @property
    def _arrived(self) -> int:
        """Rows that this handle stores."""
        return sum(results.rows for results in self._results.values())

    def _complete(self, sink: str) -> bool:
        """Whether no more results follow: the stream has ended, or this handle has stopped it."""
        return self._results[sink].ended or self.stopped

    async def _fetch(self, sink: str, wait: float) -> None:
        """Fetch the results of a sink and add them to the arrived ones, unless another task has just done so.

        After an interrupted fetch, the next one asks from the same point: nothing is lost or duplicated.
        """
        async with self._results[sink].fetching:
            if self._results[sink].arrived or self._complete(sink):
                return
            if self.broken is not None:
                raise self.broken
            await self._fetch_once(sink, wait)

    async def _fetch_once(self, sink: str, wait: float, *, patient: bool = True) -> int:
        """Fetch once, with the lock of the sink, from a silent peer within a minute if ``patient``; return the bytes.

        Raises ``ClusterError`` if the peer of the sink does not answer, or the sink repeats results, or is closed as
        another reader has fetched all.
        """
        request = pack(self._results[sink].request(wait))
        try:
            ask = self.cluster.request_while_alive if patient else self.cluster.request
            answered = await ask(self.sink_peer(sink), "fetch", request, wait + 10.0)
        except PeerUnreachable as error:
            peer = self.cluster.name(self.sink_peer(sink))
            raise PeerUnreachable(why_none(self.id, sink, peer, error, self._arrived)) from error
        except AccessRevoked as error:
            raise AccessRevoked(self.id, self._arrived) from error
        except ClusterError:  # only the origin remembers an application whose results it has had discarded
            if self.sink_peer(sink) == self.origin or (await self.state()).status in LASTING:
                raise
            answered = b""
        answer = unpack(answered, FetchedResults) if answered else None
        if answer is None or answer.gone:
            if (state := await self.state()).status == "finished":
                raise ClusterError(why_discarded(self.id))
            self._results[sink].gone = state.status == "stopped" and bool(state.roles.peers)  # if it ran
            return 0
        size = self._results[sink].add(answer)
        if answer.missed:
            self.cluster.tell(f"{self.plan.name}: {missed_notice(sink, answer.missed)}")
        if all(results.ended for results in self._results.values()):
            await self._release()
        return size

    async def _release(self) -> None:
        """Tell the origin of a finished application that all results have arrived here, so it may discard them."""
        with contextlib.suppress(ClusterError, TimeoutError):
            if await self.wait(2.0) == "finished":
                await self.ask("release", pack(ApplicationId(self.id)))
                self.cluster.forget(self.id)

    @displays_waiting(lambda it, *_, **__: f"collecting results of {it.id}")
    async def results(
        self, sink: str | None = None, *, wait: bool = True, seconds: float | str | None = None
    ) -> pl.DataFrame:
        """Return all results so far as one table; by default after the stream has ended.

        Results accumulate: the table includes what earlier calls collected, also after :meth:`stop` and when the
        cluster was closed. Rows that a loop over the application has consumed are not in the table; :attr:`notices`
        states their number.

        Each handle reads all results for itself, also those of other processes. The peer of a sink retains 64 MiB:
        what some handle that reads has not read yet, and up to 16 MiB of what all have read, with which a handle that
        comes later begins. If it retains no more, the stream waits for its readers. A handle that asks for nothing
        during ten seconds, while 32 MiB wait for it alone, is passed over, so that others can read on. What a handle
        has missed is on the standard error and in :attr:`notices`.

        What the peer retains when the application ends, whoever stops it, stays readable until 16 others with results
        at this peer have ended, or their results exceed 64 MiB together.

        Parameters
        ----------
        sink
            Name or operator id of the sink; needed only where the plan has several.
        wait
            Whether to wait for the end (True), or to return the results that are available now (False), which are those
            that have arrived if the peer of the sink is dead.
        seconds
            Time for which to collect results as they arrive, in seconds or as ``"2 min"``; the call returns earlier if
            the stream ends.

        Raises
        ------
        ClusterError
            If the application has failed or was stopped by another client; if the peer of the sink does not answer; if
            its stream is endless, and neither ``seconds`` nor ``wait=False`` is given; or if the cluster was closed
            before all results were collected.
        AccessRevoked
            If the certificate of this client was revoked; ``wait=False`` returns what has arrived.
        ValueError
            If ``seconds`` is not a duration above 0, or is given together with ``wait=False``.
        """
        name = self.sink(sink)
        if seconds is not None and not wait:
            raise ValueError(f"seconds: {seconds!r}; expected none together with wait=False, which waits for nothing")
        try:
            if seconds is not None:
                await self._gather_for(name, duration("seconds", seconds))
            elif wait:
                await self._refuse_endless(name)
                await self._gather(name)
            elif not self._complete(name):
                async with self._results[name].fetching:
                    with contextlib.suppress(PeerUnreachable, AccessRevoked):  # those that have arrived are available
                        await self._fetch_all(name)
        except ClosedClusterError:
            if wait and seconds is None:
                rest = rows_left(self.collected(name).height)
                why = f"{self.id}: the cluster is closed, and not all results had been collected{rest}"
                raise ClusterError(why) from None
        return self.collected(name)

    @displays_waiting(lambda it, *_, **__: f"writing the results of {it.id}")
    async def to_parquet(self, path: str | PathLike[str], sink: str | None = None) -> int:
        """Write all results to a Parquet file on this machine, until the stream has ended; return the number of rows.

        Rows are written while they arrive, to a file beside ``path`` that gets this name when all rows are in it. So
        the memory that it needs is bounded. :meth:`results` does not return these rows. After an interrupt, the same
        call goes on after the last row that was written.

        Parameters
        ----------
        path
            File to write; an existing one is replaced.
        sink
            Name or operator id of the sink; needed only where the plan has several.

        Raises
        ------
        ClusterError
            If earlier rows were read by a loop, or are lost; if the file cannot be written; or as by :meth:`results`.
        """
        return await self._to_file(path, sink, ".parquet")

    @displays_waiting(lambda it, *_, **__: f"writing the results of {it.id}")
    async def to_csv(self, path: str | PathLike[str], sink: str | None = None) -> int:
        """Write all results to a CSV file on this machine, as :meth:`to_parquet` does; return the number of rows.

        Parameters
        ----------
        path, sink
            File, and name or operator id of the sink, see :meth:`to_parquet`.

        Raises
        ------
        ClusterError
            As :meth:`to_parquet`.
        """
        return await self._to_file(path, sink, ".csv")

    @displays_waiting(lambda it, *_, **__: f"writing the results of {it.id}")
    async def to_jsonl(self, path: str | PathLike[str], sink: str | None = None) -> int:
        """Write all results to a file of JSON lines, as :meth:`to_parquet` does; return the number of rows.

        Parameters
        ----------
        path, sink
            File, and name or operator id of the sink, see :meth:`to_parquet`.

        Raises
        ------
        ClusterError
            As :meth:`to_parquet`.
        """
        return await self._to_file(path, sink, ".jsonl")

    async def to_dask(self, sink: str | None = None, *, partitions: int = 1) -> Any:
        """Return all results as a Dask data frame, after the stream has ended; they are in memory, as :meth:`results`.

        Parameters
        ----------
        sink
            Name or operator id of the sink; needed only where the plan has several.
        partitions
            Number of partitions of the frame.

        Raises
        ------
        ClusterError
            As :meth:`results`.
        """
        rows = await self.results(sink)
        frames = await asyncio.to_thread(importlib.import_module, "dask.dataframe")
        return frames.from_pandas(rows.to_pandas(), npartitions=partitions, sort=False)

    async def to_spark(self, session: Any, sink: str | None = None) -> Any:
        """Return all results as a Spark data frame, after the stream has ended.

        Parameters
        ----------
        session
            Spark session, such as :meth:`Cluster.spark_session` returns.
        sink
            Name or operator id of the sink; needed only where the plan has several.

        Raises
        ------
        ClusterError
            As :meth:`results`.
        """
        if not hasattr(session, "createDataFrame"):
            raise TypeError(f"session: {session!r}; expected a Spark session, such as cluster.spark_session() returns")
        rows = await self.results(sink)
        return await asyncio.to_thread(session.createDataFrame, rows.to_arrow())

    @displays_waiting(lambda it, *_, **__: f"writing the results of {it.id}")
    async def write_to(self, to: SinkWriter | Feed | Callable[[pl.DataFrame], object], sink: str | None = None) -> int:
        """Pass all results on while they arrive, until the stream has ended; return the number of rows.

        While a destination is unavailable, it is tried again, and the stream waits. After an error or an interrupt, the
        same call goes on. :meth:`results` does not return these rows.

        Parameters
        ----------
        to
            A :class:`~synergy_nb.SinkWriter` of your own, which has each row once if it remembers its point; the
            :class:`~synergy_nb.Feed` of another plan; or a function, which is called with one Polars table after the
            other, in a thread.
        sink
            Name or operator id of the sink; needed only where the plan has several.

        Raises
        ------
        TypeError
            If ``to`` is none of these.
        ClusterError
            If earlier rows were read by a loop, or are lost; if the destination fails; or as by :meth:`results`. Errors
            of a function are raised as they are.

        Examples
        --------
        >>> from synergy_nb import Cluster, source
        >>> with Cluster(peers=2) as cluster:
        ...     packets = source("packets", count=100, speed=0, seed=1)
        ...     application = cluster.submit(packets.sink("all"))
        ...     heights = []
        ...     rows = application.write_to(lambda table: heights.append(table.height))
        >>> rows, sum(heights)
        (100, 100)
        """
        self._check_of_one_plan()
        name, writer = self.sink(sink), writer_for(to)
        passed = ResultWriter(writer, type(writer).__name__, self._results[name].begins)
        await _patiently(passed.open)
        try:
            return await self._pass_on(name, passed)
        except (SinkFailed, SinkUnavailable) as error:
            raise ClusterError(f"{self.id}: the results cannot be written: {error}") from None

    async def _to_file(self, path: str | PathLike[str], sink: str | None, suffix: str) -> int:
        name = self.sink(sink)
        if (of := Path(path).suffix.lower()) in METHODS and METHODS[of] != METHODS[suffix]:
            expected = f"a file that ends with {suffix}, or {METHODS[of]}({str(path)!r})"
            raise ClusterError(f"path: {str(path)!r}; expected {expected}")
        await self._refuse_endless(name)
        self._check_of_one_plan()
        results, columns = self._results[name], self.plan.schema(name)
        stream = f"{self.plan.stream_name(name)} of {self.id}"
        try:
            file = await asyncio.to_thread(ResultFile, Path(path), columns, stream, results.begins, suffix)
            return await self._pass_on(name, file)
        except (OSError, SinkFailed) as error:
            if isinstance(error, ClusterError):
                raise
            raise ClusterError(f"{self.id}: {str(path)!r} cannot be written: {error}") from None

    def _check_of_one_plan(self) -> None:
        """Raise ``ClusterError`` if its rows are of several plans: what is written has places in one stream."""
        if self._replaced or self._exchange.locked():
            raise ClusterError(f"{self.id}: its rows are of several plans; expected results() or a loop to get them")

    async def _pass_on(self, name: str, to: ResultWriter) -> int:
        """Pass the results of a sink on until there are no more; return the number of rows."""
        results, complete = self._results[name], False
        self._writing += 1
        call = _in_thread if isinstance(to, ResultFile) else _patiently
        try:
            for table in results.stored:
                await call(partial(to.add, table))
            while True:
                while results.arrived:
                    await call(partial(to.add, results.arrived[0], results.arrived_from))
                    self._looped += results.arrived.popleft().height
                if self._complete(name):
                    break
                await self._fetch(name, 1.0)
                if not results.arrived and not self._complete(name):
                    await self._still_wanted()
            if results.ended and not isinstance(to, ResultFile):
                await call(to.end)
            complete = True
            await _in_thread(partial(to.close, complete=True, ended=results.ended))
        finally:
            self._writing -= 1
            if not complete:
                await _in_thread(partial(to.close, complete=False))
        return to.rows

    @displays_waiting(lambda it, *_, **__: f"collecting results of {it.id}")
    async def head(self, n: int = 10, sink: str | None = None, *, seconds: float | str | None = None) -> pl.DataFrame:
        """Return the first ``n`` rows of the results, as soon as they have arrived; fewer if the stream ends before.

        A second call returns the same rows, and :meth:`results` begins with them. Rows that a loop over the application
        has consumed are not among them.

        Parameters
        ----------
        n
            Number of rows.
        sink
            Name or operator id of the sink; needed only where the plan has several.
        seconds
            Time after which to return the rows that have arrived, in seconds or as ``"2 min"``; by default the call
            waits for all ``n``.

        Raises
        ------
        ClusterError
            If the application has failed or was stopped by another client before ``n`` rows had arrived.
        ValueError
            If ``n`` is not a number of rows, or ``seconds`` is not a duration above 0.
        """
        name = self.sink(sink)
        check_rows(n)
        with contextlib.suppress(ClosedClusterError):
            await self._gather_for(name, math.inf if seconds is None else duration("seconds", seconds), n)
        return self.collected(name).head(n)

    async def latest(self, n: int = 10, sink: str | None = None) -> pl.DataFrame:
        """Return the last ``n`` rows of the results that have come, at once.

        This is a look: loops, :meth:`results` and :meth:`head`, of this handle and of others, read on as before.

        Parameters
        ----------
        n
            Number of rows.
        sink
            Name or operator id of the sink; needed only where the plan has several.
        """
        name = self.sink(sink)
        check_rows(n)
        with contextlib.suppress(ClusterError):  # an application that has ended and was forgotten
            asked = pack(self._results[name].look(n))
            answer = unpack(await self.cluster.request(self.sink_peer(name), "fetch", asked), FetchedResults)
            if not answer.gone:
                return rows_of(answer, empty(self.plan.schema(name))).tail(n)
        return self.collected(name).tail(n)

    async def look(self, newest: NewestRows, sink: str, wait: float) -> tuple[int, bool]:
        """Add what is new to the last rows of a sink; wait for it ``wait`` seconds at most.

        Returns the number of new rows, and whether none follow. It asks no reader's place, as :meth:`latest` does.

        Raises ``ClusterError`` if the peer of the sink does not answer.
        """
        asked = pack(newest.request(self._results[sink], wait))
        peer = self.sink_peer(sink)
        answer = unpack(await self.cluster.request(peer, "fetch", asked, wait + 5.0), FetchedResults)
        return (0, True) if answer.gone else (newest.add(answer), answer.finished)

    async def came_between(self, since: float, until: float, rows: int, sink: str) -> tuple[pl.DataFrame, int]:
        """Return rows that came to a sink between two times, seconds, and how many more are not retained any more.

        ``rows``: largest number of rows, of which the first are returned.

        Raises ``ClusterError`` if the peer of the sink does not answer, or retains nothing of it any more.
        """
        asked = pack(self._results[sink].look(rows, (since, until)))
        answer = unpack(await self.cluster.request(self.sink_peer(sink), "fetch", asked), FetchedResults)
        if answer.gone:
            raise ClusterError(f"{self.id}: its rows are not retained any more: others have ended since")
        return rows_of(answer, empty(self.plan.schema(sink))), answer.missed

    def collected(self, sink: str | None = None) -> pl.DataFrame:
        """Return the results collected from a sink so far as one table, without a request."""
        name = self.sink(sink)
        found = self._results[name].table()
        return empty(self.plan.schema(name)) if found is None else found

    @property
    def collected_bytes(self) -> int:
        """Bytes of the results that this handle stores."""
        return sum(results.nbytes for results in self._results.values())

    async def _gather_for(self, sink: str, seconds: float, rows: float = math.inf) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None if seconds == math.inf else seconds):
                await self._gather(sink, rows)

    async def _gather(self, sink: str, rows: float = math.inf) -> None:
        """Collect from a sink until its stream ends, or until ``rows`` rows have been collected."""
        results = self._results[sink]
        while True:
            results.store()
            if self._complete(sink) or results.rows >= rows:
                return
            await self._fetch(sink, 1.0)
            if not results.arrived and not self._complete(sink):
                await self._still_wanted()

    async def _fetch_all(self, sink: str) -> None:
        """Fetch the present results of a sink, at most as much as it retains: a fast stream always has more."""
        size, received = 0, 1
        while received and size < COLLECTED and not self._results[sink].ended:
            received = await self._fetch_once(sink, 0.0, patient=False)
            size += received

    async def _refuse_endless(self, sink: str) -> None:
        """Raise an error where waiting for the end of a stream would never end."""
        endless = endless_sources(self.plan, sink)
        if endless and not self._complete(sink) and (await self.state()).status in LASTING:
            raise ClusterError(why_endless(self.id, self.plan, endless))

    async def _still_wanted(self) -> None:
        """Raise an error where no result can follow although the stream has not ended."""
        state = await self.state()
        if state.status in {"failed", "rejected", "stopped"}:
            rest = rows_left(self._arrived)
            why = self.cluster.readable(state.reason) or "on request"
            cause = self.broken.__cause__ if self.broken is not None else None
            raise ClusterError(f"{self.id}: {state.status}: {why}{rest}") from cause

    # -- inputs and end ------------------------------------------------------------------------------------------

    def feed(self, operator: str, rows: Rows) -> None:
        """Send rows to a ``python`` source, as fast as the stream accepts them."""
        if isinstance(rows, Feed):
            rows.bind(self.id)
        task = asyncio.get_running_loop().create_task(self._feed(operator, rows), name=f"feed {operator}")
        self._feeds.add(task)
        task.add_done_callback(self._fed)

    def _fed(self, task: asyncio.Task[None]) -> None:
        """Handle the end of a feed; an exception fails the application."""
        self._feeds.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and self.broken is None:
            ending = asyncio.get_running_loop().create_task(self._break_off(error))
            self._feeds.add(ending)
            ending.add_done_callback(self._feeds.discard)

    async def _break_off(self, error: BaseException) -> None:
        """End the application after an error of a feed, unless the application has ended before."""
        if (await self.state()).status not in LASTING:
            return
        if isinstance(error, ClusterError):
            self.broken = error
        else:
            self.broken = ClusterError(f"its feed raised {type(error).__name__}: {error}")
            self.broken.__cause__ = error  # with the traceback of the user's own code
        with contextlib.suppress(ClusterError):
            await self.ask("stop", pack(ApplicationId(self.id)))

    async def _feed(self, operator: str, rows: Rows) -> None:
        source = self.plan.operators[operator]
        reader = row_reader(self.plan, operator)
        feed, supplying = supply(rows, reader)
        ended = f"{self.id} takes no more rows: it has ended"

        async def dropped(late: int) -> None:
            await self.ask("dropped", pack(RowsDropped(self.id, operator, late)))

        try:
            stream = items(feed, operator, source.params.get("lateness"), dropped)
            await Pushing(self.cluster, self, operator).send(stream)
        except Exception as error:
            ended = f"{self.id} has failed: {error}"
            raise
        finally:
            feed.refuse(ended)
            if supplying is not None:
                supplying.cancel()

    @displays_waiting(lambda it: f"pausing {it.id}")
    async def pause(self) -> None:
        """Have its sources give no more rows, until :meth:`resume`; its status is ``on hold`` meanwhile.

        Nothing is lost: what the sources have given before is executed, and reaches the sinks. A source with positions
        goes on where it stopped, a generated stream or a trace stands still, and a program that pushes rows waits.

        Raises
        ------
        ClusterError
            If it does not run, or shares streams with other applications, whose rows would stop, too; the message names
            them.
        """
        await self._hold(on=True)

    @displays_waiting(lambda it: f"resuming {it.id}")
    async def resume(self) -> None:
        """Have its sources go on after :meth:`pause`.

        Raises
        ------
        ClusterError
            If it does not run.
        """
        await self._hold(on=False)

    async def _hold(self, *, on: bool) -> None:
        outcome = unpack(await self.ask("hold", pack(HoldSources(self.id, on))), Outcome)
        if outcome.reason:
            raise ClusterError(self.cluster.readable(outcome.reason))
        await self.state()

    @displays_waiting(lambda it, *_, **__: f"replacing the plan of {it.id}")
    async def replace(self, plan: Plan, *, preview: bool = False, timeout: float | str = "10 min") -> PlanChange:
        """Run another plan in place of its own, without a gap.

        The peers run the new plan beside the old one, made of the streams that both have. When it has caught up, its
        rows follow those of the old one: each row up to an event time is of the old plan, each row after it of the new
        one, also in destinations. This handle, its loops and tables go on; its :attr:`id` is a new one, and the old
        plan ends.

        Parameters
        ----------
        plan
            Query plan with the same sources, and with sinks of the same ids, columns and destinations.
        preview
            Whether to return only what would happen; the peers say whether they would run it.
        timeout
            Longest time until the new plan has caught up, in seconds or as ``"2 min"``.

        Returns
        -------
        PlanChange
            Operators that go on with their state, begin anew, and end; and how long the new plan needs to catch up. Its
            text says so.

        Raises
        ------
        PlanError
            If the plan cannot take the place of the old one: it has other sources, sinks or destinations, active
            replicas, a sink or a source with backups, or rows that a program gives.
        NotAdmitted
            If the peers refuse it, with the numbers; the old plan goes on.
        ClusterError
            If the application has ended; or if the new plan has not caught up in time, or cannot be made of the streams
            of the old one, which goes on.
        """
        plan = with_readers_apart(plan)
        state = await self.state()
        change = change_of(self.plan, plan, durable=state.durable)
        check_replacement(self.id, self.plan, plan, durable=state.durable)
        patience = duration("timeout", timeout)
        if (status := state.status) not in LASTING:
            raise ClusterError(f"application: {self.id!r} is {status}; expected one that runs")
        if state.durable:
            change = change._replace(lost=lost_rows(plan))
            if not preview:
                async with self._exchange:
                    await self._go_on_with(plan, patience)
            return change
        if preview:
            await self.cluster.run_beside(plan, self, patience, trial=True)
            return change
        if self._writing:
            raise ClusterError(f"{self.id}: its results are being written; expected another plan after that")
        async with self._exchange:
            before = await self._promises(plan)
            new: AsyncApplication = await self.cluster.run_beside(plan, self, patience)
            try:
                async with asyncio.timeout(patience):
                    at = await self._cut(new, change)
                    await self._read_until(new, lambda results: results.complete, at)
                async with contextlib.AsyncExitStack() as stack:
                    for results in self._results.values():
                        await stack.enter_async_context(results.fetching)
                    await self._keep_held(new, at)
                    former = AsyncApplication(self.cluster, self.plan, self.origin, self.last)
                    await former.stop(collect=False)
                    self._become(new, former)
            except BaseException as error:
                for results in self._results.values():
                    results.release()
                with contextlib.suppress(ClusterError):
                    await new.stop(collect=False)
                if isinstance(error, TimeoutError):
                    quiet = quiet_sources(plan, before, await self._promises(plan))
                    why = f"the new plan has not caught up within {seconds(patience)}{quiet}"
                    raise ClusterError(f"{self.id} goes on as before: {why}") from None
                raise
        return change

    async def _go_on_with(self, plan: Plan, patience: float) -> None:
        """Have this application, which goes on from a durable folder, execute another plan.

        The peers compose it anew with both plans; and once more with the new one alone, when that has caught up.
        """
        await self.cluster.send_contents(plan)
        both = await self._step("begin", plan, patience)
        before = await self._own_promises(both)
        try:
            async with asyncio.timeout(patience):
                await self._prepare(both)
            self.plan = await self._step("finish", timeout=DECIDED)
        except BaseException as error:
            with contextlib.suppress(ClusterError):
                await self._step("give up")
            if isinstance(error, TimeoutError):
                streams = {name: both.stream_name(name) for name in both.operators}
                known, now = [
                    [(streams[name], until) for name, until in found.items()]
                    for found in (before, await self._own_promises(both))
                ]
                quiet = quiet_sources(both, known, now)
                why = f"the new plan has not caught up within {seconds(patience)}{quiet}"
                raise ClusterError(f"{self.id} goes on as before: {why}") from None
            raise
        await self.state()

    async def _step(self, step: str, plan: Plan | None = None, timeout: float = 5.0) -> Plan:
        """Take a step of the change of its plan; return what it executes then."""
        asked = ReplacePlan(self.id, step, b"" if plan is None else plan.to_bytes())
        found = unpack(await self.ask("replace plan", pack(asked), timeout), Replacing)
        if found.reason:
            raise ClusterError(f"{self.id} goes on as before: {self.cluster.readable(found.reason)}")
        return Plan.from_bytes(found.plan)

    async def _prepare(self, both: Plan) -> None:
        """Return when the sinks are ready for the new plan: when all of its rows are complete, and both are later."""
        changed = [sink for sink, each in both.transition.switches.items() if len(each.inputs) > 1]
        new = [both.upstream(sink)[1] for sink in changed]
        streams = {name for name, each in both.operators.items() if each.kind != "sink"}
        joined = complete = None
        while True:
            await self._step("ask")
            promised = await self._own_promises(both)
            if streams <= promised.keys():
                if max(promised.values()) == END:
                    raise ClusterError(f"{self.id} goes on as before: its streams have ended")
                if joined is None:
                    joined = max(promised.values()) if min(promised.values()) > START else None
                elif complete is None and all(promised[name] > joined for name in new):
                    complete = max(promised.values())
            request = pack(PreparedSinks(self.id, complete))
            waits = False
            for peer in sorted({self.sink_peer(sink) for sink in changed}):
                answer = unpack(await self.cluster.request_while_alive(peer, "prepared sinks", request), Outcome)
                waits = waits or bool(answer.reason)
            if complete is not None and not waits:
                return
            await asyncio.sleep(LOOKS_S)

    async def _own_promises(self, plan: Plan) -> dict[str, int]:
        """Return the operators of this application that run, each with the event time that it has promised."""
        peers, found = (await self.state()).roles.peers, dict[str, int]()
        addresses = {self.cluster.name(address): address for address in peers.values()}
        for name, state in (await self.cluster.states()).items():
            for each in () if state is None else state.components:
                operator = str(each["operator"])
                here = each["application"] == self.id and peers.get(operator) == addresses.get(name)
                if here and operator in plan.operators and plan.operators[operator].kind != "sink":
                    found[operator] = int(each["promised"])
        return found

    async def _cut(self, new: AsyncApplication, change: PlanChange) -> int:
        """Choose the event time after which rows are of the new application, and withhold them until then; return it.

        It has joined all of its streams when it promises anything itself. Rows that a stream gave before are promised
        by the first promise after that at the latest, so once it promises more than all streams did when it had joined.
        """
        await self._read_until(new, lambda results: results.until > START)
        promised = max(await self._promised(new.plan), default=END)
        await self._read_until(new, lambda results: results.until > promised, old=False)
        joined = await self._promised(new.plan)
        latest = [results.latest for results in self._results.values()]
        at = change.point([*joined, *latest])
        while True:
            for results in (*self._results.values(), *new._results.values()):
                results.cut(at)
            if (written := await self._hold_sinks(new, at)) <= at:
                return at
            at = change.point([written])

    async def _hold_sinks(self, new: AsyncApplication, at: int) -> int:
        """Withhold rows after an event time from destinations; return that of the latest row there, microseconds.

        When this application ends, the new one goes on there. If they have later rows, nothing of this holds.
        """
        written = [sink for sink in self.plan.sinks if "to" in self.plan.operators[sink].params]
        request, found = pack(ChangeSinks(self.id, new.id, at)), START
        for peer in sorted({self.sink_peer(sink) for sink in written}):
            answer = await self.cluster.request_while_alive(peer, "change sinks", request)
            found = max(found, unpack(answer, SinksHeld).latest)
        return found

    async def _keep_held(self, new: AsyncApplication, at: int) -> None:
        """Withhold rows for another minute; raises ``ClusterError`` if they were not withheld meanwhile."""
        if await self._hold_sinks(new, at) > at:
            raise ClusterError(f"{self.id} goes on as before: its destinations have waited for longer than a minute")

    async def _promised(self, plan: Plan) -> list[int]:
        """Return the event times that the streams of a plan have promised, microseconds."""
        found = [until for _, until in await self._promises(plan)]
        if max(found, default=END) == END:
            raise ClusterError(f"{self.id} goes on as before: its streams have ended")
        return found

    async def _promises(self, plan: Plan) -> list[tuple[str, int]]:
        """Return the streams of a plan that are made, each with the event time that it has promised, microseconds."""
        states = (await self.cluster.states()).values()
        return promises(plan, (each for state in states if state is not None for each in state.components))

    async def _read_until(
        self, new: AsyncApplication, enough: Callable[[Results], bool], at: int | None = None, *, old: bool = True
    ) -> None:
        """Read the results of both, or of the new one, until there is enough of each.

        ``at``: event time after which destinations are withheld rows meanwhile, microseconds.
        """
        both = (self, new) if old else (new,)
        while True:
            late = [(each, sink) for each in both for sink in each._results if not enough(each._results[sink])]
            if not late:
                return
            await asyncio.gather(*(each._fetch_more(sink) for each, sink in late))
            if at is not None:
                await self._keep_held(new, at)
            for each in (self, new):
                if (await each.state()).status not in LASTING:
                    which = "it" if each is self else "the new plan"
                    why = self.cluster.readable(each.last.reason) or "on request"
                    raise ClusterError(f"{self.id} is not replaced: {which} has {each.last.status}: {why}")

    async def _fetch_more(self, sink: str) -> None:
        async with self._results[sink].fetching:
            await self._fetch_once(sink, 1.0)

    def _become(self, new: AsyncApplication, former: AsyncApplication) -> None:
        """Be the handle of another application from now on; ``former`` is a handle of the one before."""
        self.id = new.id
        self.plan, self.origin, self.last, self._replaced = new.plan, new.origin, new.last, True
        for sink, results in self._results.items():
            results.go_on_with(new._results[sink])
        self.cluster.exchange(self, former)

    @displays_waiting(lambda it, **_: f"stopping {it.id}")
    async def stop(self, *, collect: bool = True) -> None:
        """End the application at all peers; :meth:`results` still returns the results so far.

        From then on :meth:`qos` returns the last measurements. Windows that are open give no result; :attr:`notices`
        names their operators, and destinations that lack rows, as where a disk is full.

        Parameters
        ----------
        collect
            Whether to fetch the available results of the sinks first.
        """
        for task in list(self._feeds):
            task.cancel()
        stopped = self.stopped
        if collect and not stopped:
            if self.last.status in LASTING:
                self._cut_short = await open_windows(self.cluster.request, self.id, self.plan, self.last.roles.peers)
            try:
                for peer in sorted({self.sink_peer(sink) for sink in self.plan.sinks}):
                    await self.cluster.request(peer, "halt", pack(ApplicationId(self.id)), ANSWERED_S)
                await asyncio.gather(*(self._collect(sink) for sink in self.plan.sinks))
                self._cut_short += await self._not_written()
            except ClosedClusterError:
                raise
            except ClusterError as error:  # a dead peer retains nothing
                if self._destinations():
                    self._cut_short.append(f"rows that had arrived may not be in their destination: {error}")
            self.stopped = True
        self.cluster.forget(self.id)
        try:
            answer = await self.ask("stop", pack(ApplicationId(self.id)))
        except ClusterError as error:
            if str(error.__cause__).startswith(NotAllowed.__name__):  # it goes on, and is read as before
                self.stopped = stopped
            raise
        self.last = unpack(answer, ApplicationState)

    def _destinations(self) -> set[str]:
        """Return the sinks that have a destination."""
        return {sink for sink in self.plan.sinks if self.plan.operators[sink].params.get("to") is not None}

    async def _not_written(self) -> list[str]:
        """Return notices about the destinations that do not have all that has arrived."""
        sinks = self._destinations()
        if not sinks or self.last.status not in LASTING:
            return []
        found = (await explained(self.cluster, self.last)).stalls
        broken = [each for each in found if each.why is Why.UNREACHABLE and each.operators[-1] in sinks]
        return [f"rows that had arrived are not in its destination: {each.text}" for each in broken]

    async def share(self, user: str, right: str | None = "read") -> None:
        """Grant another user a right to this application; only its owner and the owners of the cluster may.

        Parameters
        ----------
        user
            Name of the user, as :meth:`Cluster.invite` got it.
        right
            ``"read"``: to see its state, events and results; ``"control"``: also to stop and change it; None: none,
            what was granted before is withdrawn.

        Raises
        ------
        ClusterError
            If there is no such right, or this user may not share the application.
        """
        if not is_name(user):
            raise ClusterError(f"user: {user!r}; expected the name of a user, such as 'ann'")
        await self.ask("grant", pack(GrantRight(self.id, user, right)))

    async def _collect(self, sink: str) -> None:
        async with self._results[sink].fetching:
            if not self._results[sink].ended:
                await self._fetch_all(sink)

    async def events(self) -> Events:
        """Return all its events in the peers' journals, ordered by time. ``table()`` makes a table of them."""
        return await self.cluster.events(self.id)

    @displays_waiting(lambda it: f"asking the peers about {it.id}")
    async def explain(self) -> Explanation:
        """Explain the placement of the application or its refusal: candidates, dropped probes, graphs, later events."""
        return await explained(self.cluster, await self.state())

    @displays_waiting(lambda it: f"asking the peers about {it.id}")
    async def bottleneck(self) -> Bottleneck:
        """Return which operator limits the rate, and by which measure; false, with the reason, if none does."""
        state = await self.state()
        graph = self.graph
        peers = dict.fromkeys(state.roles.peers.values())
        found = await asyncio.gather(*map(self._state_of, peers))
        states = {self.cluster.name(address): each for address, each in zip(peers, found, strict=True)}
        account = await explained(self.cluster, state)
        return bottleneck(self.id, self.plan, state.status, graph, states, account.stalls)

    async def _state_of(self, peer: str) -> PeerState | None:
        """Return the state of a peer; None if it does not answer."""
        try:
            return unpack(await self.cluster.request(peer, "state"), PeerState)
        except ClusterError:
            return None

    @displays_waiting(lambda it: f"asking the peers about {it.id}")
    async def replay(self) -> Replay:
        """Return what peers did for it, by their recording or their journals; a notebook shows a stage to step it."""
        return await replayed(self.cluster, await self.state(), self.plan, self.origin)


async def _completed(work: Awaitable[object]) -> None:
    """Wait for work in a thread, also where the task is cancelled meanwhile: nobody else may go on before it has ended.

    It is cancelled then.
    """
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


async def _in_thread(call: Callable[[], object]) -> None:
    await _completed(asyncio.to_thread(call))


async def _patiently(call: Callable[[], object]) -> None:
    """Call again, at growing intervals, what is unavailable."""
    wait = FIRST_WAIT_S
    while True:
        try:
            return await _in_thread(call)
        except SinkUnavailable:
            await asyncio.sleep(wait)
            wait = longer(wait)
