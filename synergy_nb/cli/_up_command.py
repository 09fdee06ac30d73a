"""``synergy up``: peers that stay up for others."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from synergy_nb.cli._input_checks import (
    at_least,
    bad_input,
    check_peer_modes,
    chosen_duration,
    chosen_secrets,
    fresh,
    print_json,
    refuse,
    running,
)
from synergy_nb.cli._options import Discipline, HotSpots, Json, Peers, Record, Secret

if TYPE_CHECKING:
    import threading

Host = Annotated[
    str,
    typer.Option(
        metavar="ADDRESS",
        help="Address of this machine at which everything listens. Other hosts can join if they reach it.",
        show_default="127.0.0.1, or that from which the cluster of --join is reached",
    ),
]
Join = Annotated[
    str,
    typer.Option(metavar="TOKEN", help="Join the cluster whose synergy up has printed this token.", show_default=False),
]
Name = Annotated[
    str,
    typer.Option(metavar="NAME", help="With --join, the name of this host.", show_default="its own"),
]
Hosts = Annotated[
    int, typer.Option("--hosts", metavar="N", help="Number of other hosts that may join with the printed token.")
]
Within = Annotated[str, typer.Option("--within", metavar="TIME", help="Time for which the printed token is valid.")]
Durable = Annotated[
    str | None,
    typer.Option(
        "--durable",
        metavar="FOLDER",
        help="Folder, or s3://BUCKET/FOLDER, from which the applications go on at the next start, also when everything "
        "was killed.",
        show_default=False,
    ),
]


def up(
    peers: Peers = 8,
    record: Record = None,
    discipline: Discipline = "fcfs",
    hotspots: HotSpots = "on",
    secret: Secret = None,
    host: Host = "",
    join: Join = "",
    name: Name = "",
    hosts: Hosts = 16,
    within: Within = "1 h",
    durable: Durable = None,
    as_json: Json = False,
) -> None:
    """Start peers, print their addresses and a token for other hosts, and stay until Ctrl-C or SIGTERM."""
    at_least("--peers", peers, 1)
    at_least("--hosts", hosts, 1)
    fresh("--record", record)
    check_peer_modes(discipline, hotspots)
    from synergy_nb.runtime.process.starting import check_host

    lasts = chosen_duration("--within", within)
    if host:
        with bad_input("--host"):
            check_host(host)
    if join and secret:
        refuse("--secret: expected none with --join: the cluster gives its peers the secrets that it has")
    secrets = chosen_secrets(secret)
    if join:
        _join(join, peers, name, host, as_json=as_json)
        return
    with _until_told() as (stop, begun):
        from synergy_nb.cli._console import Bars, fields, out
        from synergy_nb.runtime.client.cluster import Cluster

        with running(), Bars() as bars:
            bars.stage("starting the peers")
            cluster = Cluster(
                peers=peers,
                discipline=discipline,
                hotspots=hotspots,
                secrets=secrets,
                record=record,
                durable=durable,
                host=host or "127.0.0.1",
            )
        with cluster:
            with running():
                token = cluster.join_token(lasts, hosts)
            begun()
            if as_json:
                print_json({"scheduler": cluster.scheduler, "peers": cluster.peers, "join": token})
            else:
                fields([("scheduler", cluster.scheduler), *cluster.peers.items()])
                out.print(f"\nsynergy up --join {token}", markup=False, soft_wrap=True)
                out.print(f"adds the peers of another host that reaches {host or '127.0.0.1'}; keep it secret.")
                out.print(f"\nsynergy run PLAN.yaml --scheduler {cluster.scheduler}", markup=False, soft_wrap=True)
                out.print("A query ends with the command or program that submitted it, unless with --detach.")
                out.print("Ctrl-C ends all peers.")
            sys.stdout.flush()
            while not stop.wait(1.0):  # in steps: on some systems an endless wait receives no signal
                pass


def _join(token: str, peers: int, name: str, host: str, *, as_json: bool) -> None:
    """Stay in the cluster of a token."""
    import asyncio

    from synergy_nb.runtime.identity.joining import JoinToken

    with bad_input("--join"):
        asked = JoinToken.of(token)
    with _until_told() as (stop, begun):
        from synergy_nb.cli._console import Bars, fields, out
        from synergy_nb.runtime.process.host_peers import join_host

        async def stay() -> None:
            with Bars() as bars:
                bars.stage("starting the peers")
                joined = await join_host(asked, peers, name, host)
            begun()
            try:
                if as_json:
                    print_json({"scheduler": joined.scheduler, "peers": joined.peers})
                else:
                    fields([("scheduler", joined.scheduler), *joined.peers.items()])
                    out.print("Ctrl-C ends these peers; they end with the cluster, too.")
                sys.stdout.flush()
                ended = asyncio.create_task(joined.ended())
                while not stop.is_set() and not ended.done():
                    await asyncio.wait({ended}, timeout=0.2)  # a signal sets the event of a thread
                ended.cancel()
            finally:
                await joined.close()

        with running():
            asyncio.run(stay())


@contextmanager
def _until_told() -> Iterator[tuple[threading.Event, Callable[[], None]]]:
    """An event that SIGINT and SIGTERM set, and a function to call once all has started: before that they end at once,
    and so does a second one.
    """
    import threading

    stop, started = threading.Event(), threading.Event()

    def request_stop(*_: object) -> None:
        if stop.is_set() or not started.is_set():
            raise KeyboardInterrupt
        stop.set()

    before = {number: signal.signal(number, request_stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop, started.set
    except KeyboardInterrupt:
        pass
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
