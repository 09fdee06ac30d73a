"""Factory of a peer and its services for a Dask worker; the plugin receives its name, :data:`FACTORY`."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from synergy_nb.assembly import PeerConfig
from synergy_nb.control.peer import Peer
from synergy_nb.durable.folder import DurableFolder
from synergy_nb.plan.derived.spark_parts import PART
from synergy_nb.recording.construction import Construction, construct
from synergy_nb.runtime.data.function_processes import FunctionProcesses
from synergy_nb.runtime.data.instances import SPAN
from synergy_nb.runtime.process._peer_driver import PeerRuntime
from synergy_nb.runtime.process._peer_recorder import PeerRecorder
from synergy_nb.runtime.process._service import Service

FACTORY: Final = "synergy_nb.runtime.process._peer_factory:make"


def made_from(address: str, name: str, settings: Mapping[str, Any], *, spark: bool = False) -> Construction:
    """Return what a live peer is made from.

    However many cores it offers, one thread executes its operators.

    ``address``, ``name``: address of the peer, and its name if the settings have none; ``settings``: plain values of a
    :class:`~synergy_nb.assembly.PeerConfig`; ``spark``: whether the peer accepts parts on Spark.

    Examples
    --------
    >>> made_from("tcp://a", "peer-1", {"cores": 4.0}).server
    1.0
    """
    parsed = msgspec.convert(settings, PeerConfig)
    seed = parsed.seed ^ zlib.crc32(address.encode())
    components = (*parsed.components, PART) if spark else parsed.components
    config = msgspec.structs.replace(parsed, name=parsed.name or name, seed=seed, components=components)
    return Construction(address, config, together=SPAN)


def make(runtime: PeerRuntime, config: Mapping[str, Any]) -> tuple[Peer, Service]:
    """Create the peer and the host of a runtime from the plain values of a :class:`~synergy_nb.assembly.PeerConfig`.

    ``secrets`` in ``config`` has the secrets of plans by name; ``spark`` states whether the peer accepts
    parts on Spark; ``memory`` is the limit of all its operators together, in bytes; ``discipline`` is its scheduling
    discipline; ``functions`` states which functions of users' own it accepts; ``record`` is the file of its recording;
    ``durable`` is the folder with copies of its components.
    """
    settings = dict(config)
    memory = float(settings.get("memory") or "inf")
    spark = bool(settings.pop("spark", False))
    discipline = str(settings.pop("discipline", "fcfs"))
    file = str(settings.pop("record", ""))
    functions = FunctionProcesses(str(settings.pop("functions", "installed")))
    secrets = {name: bytes(secret) for name, secret in (settings.pop("secrets", None) or {}).items()}
    folder = str(settings.pop("durable", ""))
    durable = DurableFolder(folder) if folder else None
    if durable is not None:
        durable.lock_as_peer()
    construction = made_from(runtime.address, runtime.name, settings, spark=spark)
    recorder = PeerRecorder(runtime, file, construction) if file else None
    synergy = construct(construction, Peer if recorder is None else recorder.kernel)
    service = Service(runtime, synergy, secrets, recorder, functions, durable)
    service.host.hosting.memory.limit = memory
    service.host.hosting.discipline = discipline
    return service.synergy.peer, service
