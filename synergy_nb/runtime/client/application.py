"""A submitted plan as synchronous code holds it: its state, its results, and what a notebook shows of it."""

from __future__ import annotations

import html
import operator
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import polars as pl

from synergy_nb.events.table import Events
from synergy_nb.plan import Plan, QoS
from synergy_nb.reporting.explanation import Explanation
from synergy_nb.reporting.formatting import amount, rate
from synergy_nb.reporting.formatting import seconds as duration
from synergy_nb.runtime.client.async_application import AsyncApplication
from synergy_nb.runtime.process.requests import ApplicationState, ClusterError

if TYPE_CHECKING:
    from synergy_nb.runtime.client.cluster import Cluster

__all__ = ["Application"]


class Application:
    """A submitted plan; iterating over it gives its results as they come."""

    def __init__(self, cluster: Cluster, application: AsyncApplication) -> None:
        self._cluster = cluster
        self._application = application

    @property
    def id(self) -> str:
        """Identifies it at all peers."""
        return self._application.id

    @property
    def cluster(self) -> Cluster:
        """Where it runs."""
        return self._cluster

    @property
    def plan(self) -> Plan:
        """What was asked."""
        return self._application.plan

    @property
    def graph(self) -> dict[str, str]:
        """Component graph λ: operator id to the name of its peer."""
        return self._application.graph

    @property
    def backups(self) -> dict[str, list[str]]:
        """Replication graph ρ: of what is replicated, operator id to the names of its backups' peers."""
        return self._application.backups

    @property
    def notices(self) -> list[str]:
        """Notices for the user who submitted the plan, see :attr:`AsyncApplication.notices`."""
        return self._application.notices

    @property
    def setup_s(self) -> float:
        """Seconds from submission to the start of its sources."""
        return self._application.last.setup

    @property
    def status(self) -> str:
        """``running``, ``finished``, ``failed`` or ``stopped``."""
        return self._state.status

    @property
    def reason(self) -> str:
        """Why it failed or was stopped; empty otherwise."""
        return self._cluster._cluster.readable(self._state.reason)

    @property
    def _state(self) -> ApplicationState:
        """What its origin knows of it now; of a closed cluster, what was known last."""
        return self._application.last if self._cluster._closed else self._cluster._run(self._application.state())

    def qos(self, sink: str | None = None) -> dict[str, Any]:
        """Measurements of a sink: delays in seconds, miss rate and tuples/s, with the limit of the plan."""
        return self._application.measured(self._state).get(self._application.sink(sink), {})

    def results(
        self, sink: str | None = None, *, wait: bool = True, seconds: float | str | None = None
    ) -> pl.DataFrame:
        """All results as one table; by default after the stream has ended.

        Calls add up: what was collected by an earlier call is in the table again, also after :meth:`stop` and when the
        cluster has been closed. Rows that a loop over the application has taken are not in the table: :attr:`notices`
        tells how many these are.

        Parameters
        ----------
        sink
            Operator id of the sink; needed only where the plan has several.
        wait
            False: return the results that are there now, without waiting.
        seconds
            Time for which to collect results as they come, in seconds or as ``"2 min"``; the call returns earlier if
            the stream ends.

        Raises
        ------
        ClusterError
            If the application has failed or was stopped by somebody else; if its stream never ends, and neither
            ``seconds`` nor ``wait=False`` is given.
        ValueError
            If ``seconds`` is no duration above 0, or given together with ``wait=False``.
        """
        if self._cluster._closed:
            return self._collected(sink, part=not wait or seconds is not None)
        return self._cluster._run(
            self._application.results(sink, wait=wait, seconds=seconds), f"collecting results of {self.id}"
        )

    def head(self, n: int = 10, sink: str | None = None, *, seconds: float | str | None = None) -> pl.DataFrame:
        """The first ``n`` rows of the results, as soon as so many have come; fewer if the stream ends before.

        A second call gives the same rows, and :meth:`results` begins with them. Rows that a loop over the application
        has taken are not among them.

        Parameters
        ----------
        n
            Number of rows.
        sink
            Operator id of the sink; needed only where the plan has several.
        seconds
            Time after which to return the rows that have come until then, in seconds or as ``"2 min"``; by default the
            call waits for all ``n``.

        Raises
        ------
        ClusterError
            If the application has failed or was stopped by somebody else before ``n`` rows had come.
        ValueError
            If ``n`` is no number of rows, or ``seconds`` no duration above 0.
        """
        if self._cluster._closed:
            return self._collected(sink, part=True).head(n)
        return self._cluster._run(self._application.head(n, sink, seconds=seconds), f"collecting results of {self.id}")

    def _collected(self, sink: str | None, *, part: bool) -> pl.DataFrame:
        """What had been collected before the cluster was closed; if that is not all, only who takes a part gets it."""
        name = self._application.sink(sink)
        table = self._application.collected(name)
        if not part and name not in self._application.has_all:
            rest = f"; {table.height} rows had been collected: results(wait=False) gives them" if table.height else ""
            raise ClusterError(f"{self.id}: the cluster is closed, and not all results had been collected{rest}")
        return table

    def stream(self, sink: str | None = None) -> Iterator[pl.DataFrame]:
        """Results as they come, one table a batch, until the stream ends or :meth:`stop` is called.

        A loop over the application does the same. It takes its rows away, as a stream may have no end: :meth:`results`
        and :meth:`head` give only rows that no loop has taken.
        """
        batches = self._application.stream(sink)
        while (table := self._cluster._run(_following(batches), f"waiting for results of {self.id}")) is not None:
            yield table

    def __iter__(self) -> Iterator[pl.DataFrame]:
        return self.stream()

    def wait(self, timeout: float | str | None = None) -> str:
        """Wait until it no longer runs and return its status.

        Parameters
        ----------
        timeout
            Time to wait at most, in seconds or as ``"2 min"``; None: there is no limit.

        Raises
        ------
        TimeoutError
            If it still runs after ``timeout``.
        """
        return self._cluster._run(self._application.wait(timeout), f"waiting until {self.id} ends").status

    def events(self) -> Events:
        """All that the peers' journals hold about it, by time. ``table()`` makes a table of it."""
        return self._cluster._run(self._application.events())

    def explain(self) -> Explanation:
        """Why it runs where it runs, or why not: candidates, dropped probes, graphs, and what happened since."""
        return self._cluster._run(self._application.explain())

    def stop(self) -> None:
        """End it everywhere; the results that it has found so far stay readable by :meth:`results`."""
        self._cluster._run(self._application.stop())

    def _summary(self) -> list[tuple[str, str]]:
        state = self._state
        reason = self._cluster._cluster.readable(state.reason)
        rows = [("status", f"{state.status}: {reason}" if reason else state.status)]
        rows.append(("set up in", duration(state.setup)))
        for sink, record in state.qos.items():
            if record["delay_p50_s"] is None:
                continue
            limit = "no limit" if record["limit_s"] is None else f"limit {duration(record['limit_s'])}"
            delay = f"p50 {duration(record['delay_p50_s'])}, p99 {duration(record['delay_p99_s'])} ({limit})"
            rows.append((f"delay at {sink}", delay))
            rows.append((f"tuples at {sink}", f"{amount(record['tuples'])}, {rate(record['tuples_per_s'])}"))
            rows.extend(_kept(self.plan.qos, record))
        rows.extend((f"late at {name}", f"{late} rows dropped") for name, late in state.late.items())
        rows.append(("runs on", ", ".join(f"{name}@{peer}" for name, peer in self.graph.items())))
        if self.backups:
            kept = (f"{name}@{peer}" for name, peers in self.backups.items() for peer in peers)
            rows.append(("backups", ", ".join(kept) or "none is left"))
        rows.extend(("notice", notice) for notice in self.notices)
        return rows

    def __repr__(self) -> str:
        return "\n".join([f"Application {self.id}", *(f"  {name}: {text}" for name, text in self._summary())])

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th style='text-align: left'>{html.escape(name)}</th>"
            f"<td style='text-align: left'>{html.escape(text)}</td></tr>"
            for name, text in self._summary()
        )
        return f"<table><caption>Application {html.escape(self.id)}</caption>{rows}</table>"


def _kept(asked: QoS, record: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What a sink measured beside what was asked, and whether that is kept."""
    rows: list[tuple[str, float | None, float | None, Callable[[float, float], bool]]] = [
        ("misses", asked.miss_rate, record["miss_rate"], operator.le),
        ("bytes/s", asked.throughput, record["bytes_per_s"], operator.ge),
        ("tuples/s", asked.throughput_tuples, record["tuples_per_s"], operator.ge),
    ]
    for name, limit, found, kept in rows:
        if limit is not None and found is not None:
            yield name, f"{found:.4g}, {limit:.4g} asked: {'kept' if kept(found, limit) else 'not kept'}"


async def _following(batches: Any) -> pl.DataFrame | None:
    try:
        table: pl.DataFrame = await anext(batches)
    except StopAsyncIteration:
        return None
    return table
