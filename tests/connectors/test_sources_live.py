"""Sources with positions on real peers: the one that reads is killed, or the source moves, and each row comes once."""

from __future__ import annotations

import json
import queue
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest

from synergy_nb import Application, Cluster, source
from synergy_nb.assembly import PeerConfig
from synergy_nb.events import SourceBroken, SourceMended, SourceRemarked
from synergy_nb.runtime.process import starting
from tests.connectors.servers import Answer, LineServer, Messages, page_server
from tests.waiting import asked_until

COLUMNS = {"time": "time", "n": "int"}


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have peers ask one another less often: on a busy machine they would take each other for dead."""
    monkeypatch.setattr(starting, "_pings", lambda peers: 4.0 * PeerConfig().pings)


def write(path: Path, start: int, stop: int) -> None:
    """Append rows to a file of lines."""
    with path.open("a", encoding="utf-8") as file:
        file.write("".join(f"{n / 1000},{n}\n" for n in range(start, stop)))


def has(application: Application, rows: int) -> None:
    """Assert that these are the first rows of an application's result, once each and in order."""
    assert application.head(rows)["n"].to_list() == list(range(rows))


@pytest.mark.slow(20)
def test_a_tail_goes_on_at_its_byte_where_its_peer_is_killed_and_where_it_moves(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    rows = source("tail", path=path, format="csv", columns=COLUMNS, id="rows", availability="degree 2")
    plan = rows.filter("n >= 0", id="kept").sink("out", availability="active 2")
    with Cluster(4, cores=1.0, spark=False) as cluster:
        application = cluster.submit(plan, origin="peer-1")
        asked_until(lambda: application.events().of(SourceBroken))
        assert "no such file; expected one that grows" in str(application.explain())
        asked_until(lambda: "which has not reached" in str(application.explain()))
        path.write_text("time,n\n", encoding="utf-8")
        write(path, 0, 500)
        has(application, 500)
        assert application.events().of(SourceMended)
        first, (backup,) = application.graph["rows"], application.backups["rows"]
        cluster.cut(first, backup)
        write(path, 500, 1000)
        has(application, 1000)
        with path.open("r+b") as file:  # whoever reads from the beginning would see it
            file.write(b"x" * 1000)
        cluster.kill(first)
        write(path, 1000, 1500)
        has(application, 1500)
        second = application.graph["rows"]
        assert second != first
        path.rename(tmp_path / "rows.csv.1")
        path.write_text("n,time\n", encoding="utf-8")
        third = next(each for each in cluster.peers if each not in {first, second, "peer-1"})
        with path.open("a", encoding="utf-8") as file:
            file.write("".join(f"{n},{n / 1000}\n" for n in range(1500, 2000)))
        cluster.move(application, "rows", third)
        with path.open("a", encoding="utf-8") as file:
            file.write("".join(f"{n},{n / 1000}\n" for n in range(2000, 2500)))
        has(application, 2500)
        assert application.graph["rows"] == third
        assert not application.events().of(SourceRemarked)
        application.stop()


@pytest.mark.slow
def test_the_files_of_a_folder_come_once_each_though_the_peer_that_reads_them_is_killed(tmp_path: Path) -> None:
    def put(name: str, start: int, stop: int) -> None:
        table = pl.DataFrame({"n": range(start, stop)}).with_columns(time=pl.col("n") / 1000)
        table.write_parquet(tmp_path / f".{name}")
        (tmp_path / f".{name}").rename(tmp_path / f"{name}.parquet")

    files = tmp_path / "*.parquet"
    rows = source("directory", path=files, format="parquet", columns=COLUMNS, id="rows", availability="degree 2")
    plan = rows.filter("n >= 0", id="kept").sink("out", availability="active 2")
    put("a", 0, 500)
    with Cluster(4, cores=1.0, spark=False) as cluster:
        application = cluster.submit(plan, origin="peer-1")
        has(application, 500)
        put("b", 500, 1000)
        has(application, 1000)
        put("c", 1000, 300_000)
        application.head(1001)
        first = application.graph["rows"]
        cluster.kill(first)  # within a file
        put("d", 300_000, 301_000)
        has(application, 301_000)
        assert application.graph["rows"] != first
        application.stop()


@pytest.mark.slow
def test_a_folder_without_a_file_of_the_declared_columns_fails_by_name(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("time,m\n0,1\n", encoding="utf-8")
    rows = source("directory", path=tmp_path / "*.csv", format="csv", columns=COLUMNS, id="rows")
    with Cluster(1, cores=1.0, spark=False) as cluster:
        application = cluster.submit(rows.sink("out"))
        with pytest.raises(Exception, match="column 'n' is not there; expected one of time, m"):
            application.head(1)
        assert application.status == "failed"


def objects(start: int, stop: int, kind: str) -> str:
    """Lines of JSON."""
    return "".join(json.dumps({"time": n / 1000, "n": n, "kind": kind}) + "\n" for n in range(start, stop))


@pytest.mark.slow
def test_servers_and_a_table_give_rows_and_one_that_hangs_up_is_connected_again(tmp_path: Path) -> None:
    columns = {"time": "time", "n": "int", "kind": "str"}
    path, events, answers = tmp_path / "rows.sqlite", queue.Queue[bytes | None](), [objects(0, 2, "http")]
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE rows (n INTEGER PRIMARY KEY, time REAL, kind TEXT)")
        database.execute("INSERT INTO rows VALUES (0, 0.0, 'sql')")
        database.commit()

    def answer(headers: dict[str, str]) -> Answer | Iterator[bytes]:
        if headers["Accept"] == "text/event-stream":
            return iter(events.get, None)
        return 200, {}, answers[0].encode()

    with LineServer() as server, Messages() as messages, page_server(answer) as url:
        made = [
            source("socket", address=server.address, columns=columns, id="socket"),
            source("http", url=url, every="20 ms", by="n", format="jsonl", columns=columns, id="http"),
            source("sse", url=url, columns=columns, id="sse"),
            source("websocket", url=messages.url, columns=columns, id="websocket"),
            source("sql", path=path, query="rows", by="n", every="20 ms", columns=columns, id="sql"),
        ]
        plan = made[0].union(*made[1:], id="all").sink("out")
        with Cluster(2, cores=2.0, spark=False) as cluster:
            application = cluster.submit(plan, origin="peer-1")
            server.accept()
            messages.connected.acquire()
            server.send(objects(0, 1, "socket"))
            events.put(b"data: " + objects(0, 1, "sse").encode() + b"\n")
            messages.send(objects(0, 1, "websocket"))
            assert sorted(application.head(6)["kind"].to_list()) == sorted(
                ["http", "http", "socket", "sql", "sse", "websocket"]
            )
            server.accept()  # which hangs up first
            server.send(objects(1, 2, "socket"))
            answers[0] = objects(1, 3, "http")
            with closing(sqlite3.connect(path)) as database:
                database.execute("INSERT INTO rows VALUES (1, 0.001, 'sql')")
                database.commit()
            found = application.head(9).sort("kind", "n").select("kind", "n").rows()
            assert [n for kind, n in found if kind == "http"] == [0, 1, 2]
            assert [n for kind, n in found if kind in ("socket", "sql")] == [0, 1, 0, 1]
            broken = application.events().of(SourceBroken)
            assert [event.reason for event in broken if event.operator == "socket"] == [
                f"connection to {server.address}: the server has closed it"
            ]
            application.stop()
        events.put(None)


@pytest.mark.slow
def test_what_a_socket_has_given_is_there_once_though_its_peer_is_killed() -> None:
    columns = {"time": "time", "n": "int", "kind": "str"}
    with LineServer() as server:
        lines = source("socket", address=server.address, columns=columns, id="lines", availability="degree 2")
        plan = lines.filter("n >= 0", id="kept").sink("out", availability="active 2")
        with Cluster(4, cores=1.0, spark=False) as cluster:
            application = cluster.submit(plan, origin="peer-1")
            server.accept()
            server.send(objects(0, 500, "socket"))
            has(application, 500)
            first = application.graph["lines"]
            cluster.kill(first)
            server.accept()  # the peer that goes on
            server.send(objects(500, 1000, "socket"))
            has(application, 1000)
            assert application.graph["lines"] != first
            application.stop()
