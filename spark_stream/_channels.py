"""Channels to Spark Connect: how Spark's client reaches a server at a port or at a socket."""

from __future__ import annotations

import os
import weakref
from pathlib import Path
from typing import Any, Final

import grpc
from pyspark.sql.connect.client import DefaultChannelBuilder
from pyspark.sql.connect.proto.base_pb2_grpc import SparkConnectServiceStub

from spark_stream.address import LONGEST_SOCKET, parse_url

__all__ = ["Channels"]

LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")


class Channels(DefaultChannelBuilder):
    """Spark's channel builder; it knows sockets, and for servers on this machine treats 127.0.0.1 like localhost."""

    stub: SparkConnectServiceStub

    def __init__(self, url: str) -> None:
        address = parse_url(url)
        super().__init__("sc://localhost" if address.socket else url)
        self._socket = address.socket
        if address.socket:
            for name, value in address.options.items():
                self.set(name, value)

    def toChannel(self) -> Any:  # noqa: N802 - Spark's name
        """Make the channel."""
        is_local = self.host in LOOPBACK and not self.use_ssl
        if is_local:
            self.setChannelOption("grpc.enable_http_proxy", 0)
        if is_local and self.token is not None:
            kind = grpc.LocalConnectionType.UDS if self._socket else grpc.LocalConnectionType.LOCAL_TCP
            credentials = grpc.composite_channel_credentials(
                grpc.local_channel_credentials(kind), grpc.access_token_call_credentials(self.token)
            )
            channel = self._secure_channel(self._target(), credentials)
        elif self._socket:
            channel = self._insecure_channel(self._target())
        else:
            channel = super().toChannel()
        self.stub = SparkConnectServiceStub(channel)  # type: ignore[no-untyped-call]
        return channel

    def _target(self) -> str:
        """The name by which gRPC finds the server."""
        if not self._socket:
            return self.endpoint
        if len(os.fsencode(self._socket)) < LONGEST_SOCKET or not Path("/proc/self/fd").is_dir():
            return f"unix:{self._socket}"
        folder, name = os.path.split(self._socket)
        descriptor = os.open(folder, os.O_RDONLY)  # no longer path is an address; it is opened again and again
        weakref.finalize(self, os.close, descriptor)
        return f"unix:/proc/self/fd/{descriptor}/{name}"
