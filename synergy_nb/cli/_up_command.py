"""``synergy up``: peers that stay up for others."""

from __future__ import annotations

import signal
import sys

from synergy_nb.cli._input_checks import at_least, check_peer_modes, fresh, print_json, running
from synergy_nb.cli._options import Discipline, HotSpots, Json, Peers, Record


def up(
    peers: Peers = 8,
    record: Record = None,
    discipline: Discipline = "fcfs",
    hotspots: HotSpots = "on",
    as_json: Json = False,
) -> None:
    """Start peers, print their addresses, and stay until Ctrl-C or SIGTERM."""
    at_least("--peers", peers, 1)
    fresh("--record", record)
    check_peer_modes(discipline, hotspots)
    import threading

    stop = threading.Event()

    def request_stop(*_: object) -> None:
        if stop.is_set() or not started:
            raise KeyboardInterrupt  # the cluster has not started, or this is the second signal: end at once
        stop.set()

    started = False
    before = {number: signal.signal(number, request_stop) for number in (signal.SIGINT, signal.SIGTERM)}
    from synergy_nb.cli._console import Bars, fields, out
    from synergy_nb.runtime.client.cluster import Cluster

    try:
        with running(), Bars() as bars:
            bars.stage("starting the peers")
            cluster = Cluster(peers=peers, discipline=discipline, hotspots=hotspots, record=record)
        with cluster:
            started = True
            if as_json:
                print_json({"scheduler": cluster.scheduler, "peers": cluster.peers})
            else:
                fields([("scheduler", cluster.scheduler), *cluster.peers.items()])
                out.print(f"\nsynergy run PLAN.yaml --scheduler {cluster.scheduler}", markup=False, soft_wrap=True)
                out.print("A query ends with the command or program that submitted it, unless with --detach.")
                out.print("Ctrl-C ends all peers.")
            sys.stdout.flush()
            while not stop.wait(1.0):  # in steps: on some systems an endless wait receives no signal
                pass
    except KeyboardInterrupt:
        pass
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
