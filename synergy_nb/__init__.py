"""Notebook-driven, QoS-aware distributed stream processing by decentralized peers on Dask workers.

>>> from synergy_nb import source
>>> query = source("packets", rate="1000 tuples/s").filter("bytes > 1000").sink("large", delay="1 s")
>>> query.stream_name("filter")
'filter[bytes > 1000](packets)'

``Cluster(peers=8).submit(query)`` runs it. What is not needed for plans is imported when it is first asked for.
"""

from __future__ import annotations

import gc
import importlib
from typing import TYPE_CHECKING, Any, Final

from synergy_nb.errors import SynergyError
from synergy_nb.notebook import views
from synergy_nb.plan import Plan, PlanError, QoS, source
from synergy_nb.plan.functions.declaring import Wake, aggregate, function, keyed, reader
from synergy_nb.plan.operators.destinations import (
    csv,
    delta,
    duckdb,
    jsonl,
    kafka,
    mqtt,
    parquet,
    postgresql,
    sqlite,
    websocket,
)

if TYPE_CHECKING:
    from synergy_nb import explore
    from synergy_nb.algorithms.composition import CompositionConfig
    from synergy_nb.control.rights import Acceptance
    from synergy_nb.dataflow.sinks.protocol import SinkFailed, SinkUnavailable, SinkWriter
    from synergy_nb.dataflow.sources import BrokenForNow, Polled, Source
    from synergy_nb.editing.sql_queries import QueryError, sql
    from synergy_nb.models.hot_spot_config import HotSpotConfig
    from synergy_nb.models.replication_config import ReplicationConfig
    from synergy_nb.notebook.plan_editors import edit
    from synergy_nb.notebook.watching import watch
    from synergy_nb.plan import plan
    from synergy_nb.reporting.cluster_errors import ClusterError, NotAdmitted
    from synergy_nb.runtime.client.async_application import AsyncApplication
    from synergy_nb.runtime.client.async_cluster import AsyncCluster
    from synergy_nb.runtime.client.cluster import Application, Cluster
    from synergy_nb.runtime.client.feeds import Feed, FeedError
    from synergy_nb.runtime.client.readings import ReadingError, readings
    from synergy_nb.runtime.process.starting import connect_cluster, start_cluster
    from synergy_nb.runtime.transport.wide_area import WideArea
    from synergy_nb.simulator.simulation import Simulation

__all__ = [
    "Acceptance",
    "Application",
    "AsyncApplication",
    "AsyncCluster",
    "BrokenForNow",
    "Cluster",
    "ClusterError",
    "CompositionConfig",
    "Feed",
    "FeedError",
    "HotSpotConfig",
    "NotAdmitted",
    "Plan",
    "PlanError",
    "Polled",
    "QoS",
    "QueryError",
    "ReadingError",
    "ReplicationConfig",
    "Simulation",
    "SinkFailed",
    "SinkUnavailable",
    "SinkWriter",
    "Source",
    "SynergyError",
    "Wake",
    "WideArea",
    "aggregate",
    "check_on_spark",
    "connect_cluster",
    "csv",
    "delta",
    "duckdb",
    "edit",
    "explore",
    "function",
    "jsonl",
    "kafka",
    "keyed",
    "mqtt",
    "parquet",
    "plan",
    "postgresql",
    "prepare",
    "profile",
    "reader",
    "readings",
    "run_on_spark",
    "runs",
    "source",
    "sql",
    "sqlite",
    "start_cluster",
    "watch",
    "websocket",
]
__version__ = "0.1.0"

_LATER: Final = {
    "Acceptance": "synergy_nb.control.rights",
    "Application": "synergy_nb.runtime.client.cluster",
    "AsyncApplication": "synergy_nb.runtime.client.async_application",
    "AsyncCluster": "synergy_nb.runtime.client.async_cluster",
    "BrokenForNow": "synergy_nb.dataflow.sources",
    "Cluster": "synergy_nb.runtime.client.cluster",
    "ClusterError": "synergy_nb.reporting.cluster_errors",
    "CompositionConfig": "synergy_nb.algorithms.composition",
    "Feed": "synergy_nb.runtime.client.feeds",
    "FeedError": "synergy_nb.runtime.client.feeds",
    "HotSpotConfig": "synergy_nb.models.hot_spot_config",
    "Polled": "synergy_nb.dataflow.sources",
    "QueryError": "synergy_nb.editing.sql_queries",
    "ReadingError": "synergy_nb.runtime.client.readings",
    "ReplicationConfig": "synergy_nb.models.replication_config",
    "SinkFailed": "synergy_nb.dataflow.sinks.protocol",
    "SinkUnavailable": "synergy_nb.dataflow.sinks.protocol",
    "SinkWriter": "synergy_nb.dataflow.sinks.protocol",
    "Source": "synergy_nb.dataflow.sources",
    "Simulation": "synergy_nb.simulator.simulation",
    "NotAdmitted": "synergy_nb.reporting.cluster_errors",
    "WideArea": "synergy_nb.runtime.transport.wide_area",
    "explore": "synergy_nb.explore",
    "connect_cluster": "synergy_nb.runtime.process.starting",
    "edit": "synergy_nb.notebook.plan_editors",
    "check_on_spark": "spark_stream.whole_plans",
    "prepare": "spark_stream.pipeline",
    "profile": "spark_stream.pipeline",
    "readings": "synergy_nb.runtime.client.readings",
    "run_on_spark": "spark_stream.whole_plans",
    "runs": "synergy_nb.recording.kept_runs",
    "sql": "synergy_nb.editing.sql_queries",
    "start_cluster": "synergy_nb.runtime.process.starting",
    "watch": "synergy_nb.notebook.watching",
}

views.register()


def load_ipython_extension(shell: Any) -> None:
    """Add the cells ``%%sql`` to a notebook, by ``%load_ext synergy_nb``."""
    from synergy_nb.notebook.sql_cells import register  # noqa: PLC0415 - most programs have no notebook

    register(shell)


def __getattr__(name: str) -> Any:
    module = _LATER.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    collecting = gc.isenabled()
    gc.disable()  # imported objects stay: collections would find nothing, and take a sixth of the time
    try:
        found = importlib.import_module(module)
        return found if module == f"{__name__}.{name}" else getattr(found, name)
    finally:
        if collecting:
            gc.enable()


def __dir__() -> list[str]:
    return sorted(__all__)
