"""A submitted plan for synchronous code: its state, its results, and its display in a notebook."""

from __future__ import annotations

import html
import operator
from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import polars as pl

from synergy_nb.events.application_states import ENDED
from synergy_nb.plan import Plan, QoS
from synergy_nb.reporting.formatting import amount, rate
from synergy_nb.reporting.formatting import seconds as duration
from synergy_nb.runtime.client.async_application import AsyncApplication
from synergy_nb.runtime.client.synchronous import Synchronous, iterated, synchronous
from synergy_nb.runtime.process.requests import ApplicationState

if TYPE_CHECKING:
    from synergy_nb.runtime.client.cluster import Cluster

__all__ = ["Application"]

T = TypeVar("T")


class Application(Synchronous[AsyncApplication]):
    """A submitted plan; iterating over it yields its results as they arrive."""

    def __init__(self, cluster: Cluster, application: AsyncApplication) -> None:
        self._cluster = cluster
        self._asynchronous = application

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._cluster._run(work)

    @property
    def id(self) -> str:
        """Id of the application at all peers."""
        return self._asynchronous.id

    @property
    def cluster(self) -> Cluster:
        """Cluster that runs it."""
        return self._cluster

    @property
    def plan(self) -> Plan:
        """Submitted plan."""
        return self._asynchronous.plan

    @property
    def graph(self) -> dict[str, str]:
        """Component graph λ: operator id to the name of its peer.

        While it runs, its origin is asked, since peers move operators on their own.
        """
        if self._asynchronous.last.status not in ENDED:
            self._run(self._asynchronous.state())
        return self._asynchronous.graph

    @property
    def backups(self) -> dict[str, list[str]]:
        """Replication graph ρ: id of each replicated operator to the names of its backups' peers."""
        return self._asynchronous.backups

    @property
    def notices(self) -> list[str]:
        """Notices for the user who submitted the plan, see :attr:`AsyncApplication.notices`."""
        return self._asynchronous.notices

    @property
    def setup_s(self) -> float:
        """Seconds from submission to the start of its sources."""
        return self._asynchronous.last.setup

    @property
    def status(self) -> str:
        """``running``, ``finished``, ``failed`` or ``stopped``."""
        return self._state.status

    @property
    def reason(self) -> str:
        """Why it failed or was stopped; empty otherwise."""
        return self._asynchronous.cluster.readable(self._state.reason)

    @property
    def _state(self) -> ApplicationState:
        """State as its origin knows it now; for a closed cluster, the last known state."""
        return self._run(self._asynchronous.state())

    qos = synchronous(AsyncApplication.qos)
    results = synchronous(AsyncApplication.results)
    head = synchronous(AsyncApplication.head)
    stream = iterated(AsyncApplication.stream)
    wait = synchronous(AsyncApplication.wait)
    events = synchronous(AsyncApplication.events)
    explain = synchronous(AsyncApplication.explain)
    replay = synchronous(AsyncApplication.replay)
    stop = synchronous(AsyncApplication.stop)

    def __iter__(self) -> Iterator[pl.DataFrame]:
        return self.stream()

    def _summary(self) -> list[tuple[str, str]]:
        state = self._state
        reason = self._asynchronous.cluster.readable(state.reason)
        rows = [("status", f"{state.status}: {reason}" if reason else state.status)]
        rows.append(("set up in", duration(state.setup)))
        for sink, record in state.qos.items():
            dropped = ", ".join(f"{number:,} at {name}" for name, number in (record.get("dropped") or {}).items())
            rows.extend([("dropped", f"{dropped}, as their deadline had passed")] if dropped else [])
            if record["delay_p50_s"] is None:
                continue
            limit = "no limit" if record["limit_s"] is None else f"limit {duration(record['limit_s'])}"
            delay = f"p50 {duration(record['delay_p50_s'])}, p99 {duration(record['delay_p99_s'])} ({limit})"
            rows.append((f"delay at {sink}", delay))
            rows.append((f"tuples at {sink}", f"{amount(record['tuples'])}, {rate(record['tuples_per_s'])}"))
            rows.extend(_outcomes(self.plan.qos, record))
        rows.extend((f"late at {name}", f"{late} rows dropped") for name, late in state.late.items())
        rows.append(("runs on", ", ".join(f"{name}@{peer}" for name, peer in self.graph.items())))
        if self.backups:
            copies = (f"{name}@{peer}" for name, peers in self.backups.items() for peer in peers)
            rows.append(("backups", ", ".join(copies) or "none is left"))
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


def _outcomes(qos: QoS, record: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each requested limit with the measurement at a sink, and whether the limit is met."""
    rows: list[tuple[str, float | None, float | None, Callable[[float, float], bool]]] = [
        ("misses", qos.miss_rate, record["miss_rate"], operator.le),
        ("bytes/s", qos.throughput, record["bytes_per_s"], operator.ge),
        ("tuples/s", qos.throughput_tuples, record["tuples_per_s"], operator.ge),
    ]
    for name, limit, found, met in rows:
        if limit is not None and found is not None:
            yield name, f"{found:.4g}, limit {limit:.4g}: {'met' if met(found, limit) else 'missed'}"
