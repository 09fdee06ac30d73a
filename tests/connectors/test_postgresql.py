"""Rows of a PostgreSQL server by a column that grows, where such a server is installed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

from synergy_nb import PlanError, source
from synergy_nb.connectors._postgresql import PostgresServer
from synergy_nb.connectors.secret_values import Secrets
from synergy_nb.dataflow.sources import BrokenForNow, Source
from synergy_nb.plan.derived.allowed_paths import refused_paths
from synergy_nb.plan.derived.named_secrets import NamedSecret
from synergy_nb.testing import check_source
from tests.connectors.declared import COLUMNS, declared, numbers
from tests.connectors.postgres_server import PASSWORD, SECRETS, Postgres, postgres


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with postgres() as started:
        times = "TIMESTAMPTZ '2026-01-01 00:00:00Z' + n * interval '1 s' AS time"
        started.execute(f"CREATE TABLE rows AS SELECT n, {times}, 'w' || n AS word FROM generate_series(0, 4) t(n)")
        yield started


def table(server: Postgres, secrets: dict[str, bytes] = SECRETS, **params: Any) -> Source:
    wanted = {"server": server.address, "database": "postgres", "user": "ann", "password": "shop", "query": "rows"}
    return declared("sql", secrets, **{**wanted, "by": "n", "every": "1 us", **params})


@pytest.mark.slow
def test_a_table_keeps_the_protocol(server: Postgres) -> None:
    check_source(lambda: table(server, ends=True))
    timed = table(server, by="time", query="SELECT * FROM rows WHERE n > 1")
    timed.open({"time": "2026-01-01T00:00:02+00:00"})
    assert numbers(timed.poll(0.0)) == [3, 4]
    found = table(server)
    found.open(None)
    polled = found.poll(0.0)
    assert numbers(polled) == [0, 1, 2, 3, 4]
    assert found.poll(0.0) is None
    server.execute("INSERT INTO rows VALUES (5, now(), NULL)")
    assert numbers(found.poll(0.0)) == [5]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"query": "nothing"}, 'postgres: query: relation "nothing" does not exist; expected a query to this database'),
        ({"by": "m"}, 'query: column "m" does not exist'),
        ({"query": "SELECT n, word FROM rows"}, "postgres: column 'time' is not there; expected one of n, word"),
        ({"query": "WITH a AS (DELETE FROM rows RETURNING *) SELECT * FROM a"}, "must be at the top level"),
        ({"query": "SELECT *, nextval('counter') FROM rows"}, "cannot execute nextval"),
        ({"database": "none"}, 'FATAL: database "none" does not exist; expected a database that may be used'),
        ({"secrets": {"shop": b"wrong"}}, 'FATAL: password authentication failed for user "ann"'),
        ({"tls": True}, "expected a server with a certificate that is trusted"),
    ],
)
def test_what_is_wrong_is_one_error(server: Postgres, params: dict[str, Any], expected: str) -> None:
    server.execute("CREATE SEQUENCE IF NOT EXISTS counter")
    found = table(server, **params)
    found.open(None)
    with pytest.raises(ValueError) as raised:  # noqa: PT011 - the text follows
        found.poll(0.0)
    assert expected in str(raised.value)
    assert PASSWORD not in str(raised.value)


@pytest.mark.slow
def test_a_server_that_goes_and_comes_is_waited_for(server: Postgres) -> None:
    found = table(server)
    found.open(None)
    server.stop()
    try:
        with pytest.raises(BrokenForNow, match=f"{server.address}/postgres: .*Connection refused"):
            found.poll(0.0)
    finally:
        server.start()
    assert numbers(found.poll(0.0))[:5] == [0, 1, 2, 3, 4]


def test_without_the_driver_an_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "adbc_driver_postgresql.dbapi", None)
    database = PostgresServer(
        {"server": "db.local:5432", "password": "shop"}, Secrets([NamedSecret("password", "shop")], SECRETS)
    )
    with pytest.raises(ValueError, match=r"expected `pip install 'synergy-nb\[postgresql\]'`"):
        database.read("rows", [])


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({}, "path: missing; expected either the path of a file, or a server"),
        ({"path": "a.sqlite", "server": "db.local:5432"}, "expected either the path of a file, or a server"),
        ({"path": "a.sqlite", "user": "ann"}, "user: 'ann'; expected no user: a file has none"),
        ({"server": "db.local"}, "expected a host and a port"),
    ],
)
def test_wrong_parameters_are_one_error(params: dict[str, Any], expected: str) -> None:
    with pytest.raises(PlanError) as raised:
        source("sql", query="rows", by="n", columns=COLUMNS, **params).sink("out")
    assert expected in str(raised.value)


def test_a_guest_asks_no_database() -> None:
    plan = source("sql", server="db.local:5432", query="rows", by="n", columns=COLUMNS).sink()
    assert "expected none in a plan of somebody else" in refused_paths(plan, [], hosts=["db.local"])
