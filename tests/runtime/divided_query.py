"""A query over two peers whose network is divided in one direction for a while; for ``test_namespaces``.

It runs in the network namespace of the scheduler and of one peer, and prints what became of the query as JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter

from synergy_nb import Cluster, Plan, source

KINDS = ("ApplicationFailed", "ApplicationPaused", "ApplicationContinued", "PeerDeclaredDead")


def query(speed: float) -> Plan:
    """A query whose tuples go from one peer to the other, and back."""
    packets = source("packets", rate="200 tuples/s", duration="2 min", seed=3, speed=speed, id="packets", at="there")
    large = packets.filter("bytes > 100", id="large", at="here")
    return large.aggregate("source", "500 ms", total="sum(bytes)", id="by", at="there").sink("out", id="out", at="here")


def main(scheduler: str, cut: str, heal: str, durations: list[float]) -> list[dict[str, object]]:
    """Run the query undisturbed, and then divided for each of these times in seconds; both are shell commands."""
    with Cluster(scheduler, spark=False, insecure=True) as cluster:
        undisturbed = cluster.submit(query(0.0), origin="here").results().sort("source", "window_end").rows()
        return [divided(cluster, undisturbed, cut, heal, seconds) for seconds in durations]


def divided(
    cluster: Cluster, undisturbed: list[tuple[object, ...]], cut: str, heal: str, seconds: float
) -> dict[str, object]:
    """Run the query while the network is divided, and say what became of it."""
    application = cluster.submit(query(1.0), origin="here")
    application.head(5)
    subprocess.run(["sh", "-c", f"{cut} && sleep {seconds} && {heal}"], check=True)
    cluster.pace(application, "packets", 1000)  # the rest comes at once
    rows = application.results().sort("source", "window_end").rows()
    status = str(application.wait())
    counts = Counter(type(each).__name__ for each in cluster.events())
    return {"status": status, "rows": len(rows), "equal": rows == undisturbed, **{each: counts[each] for each in KINDS}}


if __name__ == "__main__":
    at, deaf, healed, *times = sys.argv[1:]
    print(json.dumps(main(at, deaf, healed, [float(each) for each in times])))
