"""A submitted plan for synchronous code: its state, its results, and its display in a notebook."""

from __future__ import annotations

from collections.abc import Coroutine, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import polars as pl

from synergy_nb.drawing.notebook_views import view_of
from synergy_nb.events.application_states import ENDED
from synergy_nb.plan import Plan
from synergy_nb.reporting.application_display import application_rows, rows_as_html, rows_as_text
from synergy_nb.reporting.formatting import seconds as duration
from synergy_nb.reporting.measurements import lacking_rows
from synergy_nb.reporting.one_sided import ONLY_SIMULATED_APPLICATION, OneSided
from synergy_nb.runtime.client._synchronous import Synchronous, iterated, synchronous
from synergy_nb.runtime.client.async_application import AsyncApplication
from synergy_nb.runtime.process.requests import ApplicationState

if TYPE_CHECKING:
    from synergy_nb.runtime.client.cluster import Cluster

T = TypeVar("T")


class Application(Synchronous[AsyncApplication], OneSided):
    """A submitted plan: what :meth:`Cluster.submit() <synergy_nb.Cluster.submit>` returns.

    It runs on the peers, whatever the notebook does meanwhile. :meth:`results` waits for all results and returns them
    as one table. Iterating over it yields them as they arrive, in tables that are not retained. As the last value of a
    cell it shows its plan, where each operator runs, and its delay against the limit.

    Examples
    --------
    >>> from synergy_nb import Cluster, source
    >>> packets = source("packets", seed=1, rate="1000 tuples/s", duration="2 s", speed=0)
    >>> with Cluster(peers=2) as cluster:
    ...     large = cluster.submit(packets.filter("bytes > 1000", id="large").sink(delay="10 s"))
    ...     large.results().height, large.status, sorted(large.graph)
    (794, 'finished', ['large', 'sink', 'source'])

    ``large.graph`` maps each operator to its peer; ``large.qos()`` has the measured delay, rate and miss rate, and
    ``large.explain()`` tells how the peers came to their decision. One without an end is ended by ``large.stop()``.
    """

    _elsewhere = ONLY_SIMULATED_APPLICATION

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
    def origin(self) -> str:
        """Name of the peer that composed it and retains its results."""
        return self._asynchronous.cluster.name(self._asynchronous.origin)

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
        """``running``, ``on hold``, ``paused``, ``finished``, ``failed`` or ``stopped``.

        It is ``on hold`` after :meth:`pause`, and ``paused`` while it waits for a peer that does not answer.
        """
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
    to_parquet = synchronous(AsyncApplication.to_parquet)
    to_csv = synchronous(AsyncApplication.to_csv)
    to_jsonl = synchronous(AsyncApplication.to_jsonl)
    to_dask = synchronous(AsyncApplication.to_dask)
    to_spark = synchronous(AsyncApplication.to_spark)
    write_to = synchronous(AsyncApplication.write_to)
    head = synchronous(AsyncApplication.head)
    latest = synchronous(AsyncApplication.latest)
    stream = iterated(AsyncApplication.stream)
    wait = synchronous(AsyncApplication.wait)
    events = synchronous(AsyncApplication.events)
    explain = synchronous(AsyncApplication.explain)
    bottleneck = synchronous(AsyncApplication.bottleneck)
    replay = synchronous(AsyncApplication.replay)
    pause = synchronous(AsyncApplication.pause)
    resume = synchronous(AsyncApplication.resume)
    replace = synchronous(AsyncApplication.replace)
    stop = synchronous(AsyncApplication.stop)
    share = synchronous(AsyncApplication.share)

    def watch(self) -> Any:
        """Return the live view of it, as ``watch(application)`` does."""
        return view_of("watch", self)

    def __iter__(self) -> Iterator[pl.DataFrame]:
        return self.stream()

    def _summary(self) -> list[tuple[str, str]]:
        state = self._state
        reason = self._asynchronous.cluster.readable(state.reason)
        rows = [*application_rows(self.plan, state.status, reason, state.qos, self.graph, self.backups)]
        if state.setup:  # it has begun
            rows.insert(1, ("set up in", duration(state.setup)))
        return [*rows, *lacking_rows(state.late, state.skipped), *(("notice", notice) for notice in self.notices)]

    def __repr__(self) -> str:
        return rows_as_text(f"Application {self.id}", self._summary())

    def _repr_html_(self) -> str:
        return rows_as_html(f"Application {self.id}", self._summary())
