"""Names that only a live cluster or only a simulation has: on the other they raise one error that says so.

The error is also an AttributeError, so ``hasattr`` is false for such a name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final

from synergy_nb.reporting.cluster_errors import ClusterError

__all__ = ["ONLY_LIVE", "ONLY_LIVE_APPLICATION", "ONLY_SIMULATED", "ONLY_SIMULATED_APPLICATION", "NotHere", "OneSided"]

_NOBODY: Final = "a simulation has one user and no certificates; use a Cluster"
#: Names of a Cluster that a Simulation does not have, with the reason.
ONLY_LIVE: Final[Mapping[str, str]] = {
    "scheduler": "simulated peers are no workers of Dask",
    "spark_session": "a simulation has no Spark; use a Cluster",
    "kill_spark": "a simulation has no Spark; use a Cluster",
    **dict.fromkeys(("security", "invite", "revoke"), _NOBODY),
    "join_token": "peers of a simulation run in this program; Cluster(host=...) has peers on several hosts",
}
#: Names of live applications that simulated ones do not have, with the reason.
ONLY_LIVE_APPLICATION: Final[Mapping[str, str]] = {
    "share": _NOBODY,
    "to_parquet": "a simulation writes nothing by itself; results().write_parquet(path) does",
    "to_csv": "a simulation writes nothing by itself; results().write_csv(path) does",
    "to_jsonl": "a simulation writes nothing by itself; results().write_ndjson(path) does",
    **dict.fromkeys(("to_dask", "to_spark", "write_to"), "results() of a simulation returns all rows at once"),
}
_TIME: Final = "time passes by itself on live peers; only a Simulation has virtual time"
#: Names of a Simulation that a Cluster does not have, with the reason.
ONLY_SIMULATED: Final[Mapping[str, str]] = {
    **dict.fromkeys(("now", "run", "until", "step"), _TIME),
    "listen": "live peers have journals of their own; watch() follows them",
    "journal": "live peers have journals of their own; events() returns all",
    "world": "live peers are processes; peers names them",
    "join": "a live peer is a worker of the Dask cluster, and joins with it; use a Simulation to see how peers join",
    "leave": "a live peer is a worker of the Dask cluster; kill() ends it; use a Simulation to see how peers leave",
}
#: Names of simulated applications that live ones do not have, with the reason.
ONLY_SIMULATED_APPLICATION: Final[Mapping[str, str]] = {
    "simulation": "it runs on live peers; cluster is what runs it",
    "roles": "graph and backups say which peers execute it",
    "listed": "cluster.applications lists it",
}


class NotHere(ClusterError, AttributeError):
    """A cluster has this name and a simulation does not, or the reverse; likewise for their applications."""


class OneSided:
    """An object without some names that its counterpart has; :attr:`_elsewhere` has the reason for each."""

    _elsewhere: ClassVar[Mapping[str, str]] = {}

    if not TYPE_CHECKING:  # which would take any name for an attribute

        def __getattr__(self, name: str) -> Any:
            if name in self._elsewhere:
                raise NotHere(f"{type(self).__name__} has no {name}: {self._elsewhere[name]}")
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
