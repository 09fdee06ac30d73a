"""The Python worker of a user's own session, which finds that session at the socket of the server.

Spark runs the function of ``foreachBatch``, and the listeners of older clients, in a worker of its own, which opens the
session once more, at the URL of the variable ``SPARK_CONNECT_LOCAL_URL``. Spark writes the port of its server there,
and a server at a socket has none: ``sc://localhost:-1/;user_id=ann;token=...``. So the launcher of Python workers
(:mod:`spark_stream._worker_launcher`) has this module run in place of Spark's. It makes the URL that of the socket,
and runs Spark's. The token is left out of the URL, as Spark's worker writes that into the log; the variable with which
the server was started has it.
"""

from __future__ import annotations

import os
import runpy
import sys
from typing import Final
from urllib.parse import quote

from pyspark.sql.connect.session import SparkSession

from spark_stream._channels import Channels
from spark_stream._connect_server import SOCKET, VARIABLE

URL: Final = "SPARK_CONNECT_LOCAL_URL"  # variable by which Spark tells the worker where the session is

_as_spark_does = SparkSession.Builder.remote


def at_socket(url: str, folder: str) -> str:
    """The URL of a session at the socket in the folder of its server, for the one at a port that Spark wrote."""
    options = [pair for pair in url.split(";")[1:] if not pair.startswith("token=")]
    return ";".join([f"unix://{quote(folder)}/{SOCKET}/", *options])


def remote(builder: SparkSession.Builder, location: str = "sc://localhost") -> SparkSession.Builder:
    """Say where the server of a session is, also if that is a socket; other servers are reached as ever."""
    if not location.startswith("unix://"):
        return _as_spark_does(builder, location)
    channels = Channels(location)
    channels.set(Channels.PARAM_TOKEN, os.environ[VARIABLE])
    return builder.channelBuilder(channels)


def main(folder: str, module: str) -> None:
    """Run a module of Spark that opens a session, of the server with a folder."""
    os.environ[URL] = at_socket(os.environ[URL], folder)
    SparkSession.Builder.remote = remote  # type: ignore[method-assign, assignment]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
