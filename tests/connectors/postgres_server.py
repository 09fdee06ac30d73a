"""A PostgreSQL server on the loopback, where one is installed."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pytest

PASSWORD: Final = "s3cret"
SECRETS: Final = {"shop": PASSWORD.encode()}


def program(name: str) -> str | None:
    """Path of a program of PostgreSQL, on PATH or where Debian has it; None if it is not installed."""
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return str(found[-1]) if found else shutil.which(name)


class Postgres:
    """A server with an account ``ann``, whose password is asked for."""

    def __init__(self, folder: Path, port: int, account: dict[str, Any]) -> None:
        self.port = port
        self.address = f"127.0.0.1:{port}"
        self._folder, self._account = folder, account

    def _run(self, name: str, *arguments: str, text: str = "") -> None:
        command = program(name)
        assert command is not None
        subprocess.run(
            [command, *arguments],
            input=text, text=True, check=True, capture_output=True, cwd=self._folder, env={**os.environ, "LC_ALL": "C"},
            **self._account,
        )  # fmt: skip

    def make(self) -> None:
        (self._folder / "password").write_text(PASSWORD)
        self._run(
            "initdb", "-D", "data", "-U", "ann", "--auth=scram-sha-256", "--pwfile=password", "--no-sync", "-E", "UTF8"
        )

    def start(self) -> None:
        options = f"-p {self.port} -h 127.0.0.1 -k {self._folder} -F"
        self._run("pg_ctl", "start", "-D", "data", "-w", "-l", "log", "-o", options)

    def stop(self) -> None:
        self._run("pg_ctl", "stop", "-D", "data", "-w", "-m", "immediate")

    def execute(self, *texts: str) -> None:
        """Execute statements of SQL, and commit them."""
        from adbc_driver_postgresql import dbapi

        with dbapi.connect(f"postgresql://ann:{PASSWORD}@{self.address}/postgres") as connection:
            with connection.cursor() as cursor:
                for text in texts:
                    cursor.execute(text)
            connection.commit()


@contextmanager
def postgres() -> Iterator[Postgres]:
    """Start a server; as root under the account of Debian's package, since it refuses to run as root.

    The test is skipped where there is none.
    """
    if program("initdb") is None:
        pytest.skip("PostgreSQL is not installed; on Debian: apt-get install postgresql")
    with TemporaryDirectory(prefix="pg") as name, socket.create_server(("127.0.0.1", 0)) as free:
        folder, port, account = Path(name), free.getsockname()[1], dict[str, Any]()
        free.close()
        if os.geteuid() == 0:
            entry = pwd.getpwnam("postgres")
            account = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
            os.chown(folder, entry.pw_uid, entry.pw_gid)
        server = Postgres(folder, port, account)
        server.make()
        server.start()
        try:
            yield server
        finally:
            server.stop()
