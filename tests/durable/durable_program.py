"""A program with a durable cluster, which runs until killed: FOLDER PEERS SPARK, and the plan if it submits one."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest

from synergy_nb import Cluster, Plan
from synergy_nb.assembly import PeerConfig
from synergy_nb.runtime.process import starting


def main(folder: str, peers: str, spark: str, plan: str = "") -> None:
    patch = pytest.MonkeyPatch()  # so that a busy machine takes nobody for dead
    patch.setattr(starting, "_pings", lambda peers: 4.0 * PeerConfig().pings)
    with Cluster(int(peers), cores=1.0, spark=spark == "spark", durable=folder) as cluster:
        if plan:
            cluster.submit(Plan.from_yaml(Path(plan).read_text("utf-8")), timeout=240.0)
        threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
