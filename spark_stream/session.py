"""Sessions on a Spark Connect server, this machine's or one elsewhere."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping
from typing import Any, Final

import grpc
from pyspark.sql.connect.client import DefaultChannelBuilder
from pyspark.sql.connect.client.retries import DefaultPolicy
from pyspark.sql.connect.proto import base_pb2 as messages
from pyspark.sql.connect.session import SparkSession

from spark_stream._channels import Channels
from spark_stream._settings import SESSION
from spark_stream.address import Address, parse_url
from spark_stream.java import SparkUnavailable
from spark_stream.launching import OLDEST
from spark_stream.server import Endpoint

__all__ = ["connect", "disconnect", "parse_url"]

CONNECT_WITHIN: Final = 10.0  # time limit for opening a session, seconds
_PAUSE: Final = 0.5  # longest time between two retries of a request, seconds


def connect(
    where: Endpoint | str,  # the endpoint of a `Server`, or the URL of another one, `sc://host:port` or `unix:///path`
    # token that the server requires, if neither the endpoint nor the URL contains it. It is sent to other machines only
    # over TLS
    token: str | None = None,
    *,
    timeout: float = CONNECT_WITHIN,  # time limit for opening the session, seconds
    # Spark settings for this session, which override those of `spark_stream._settings.SESSION`
    settings: Mapping[str, str] | None = None,
    patience: float = 5.0,  # time for which a request is retried if the server has gone, seconds
) -> SparkSession:
    """Open a new session; ``session.stop()`` ends it, and no other.

    Raises ``ValueError`` if the URL is invalid, or the server is of an earlier release than queries need;
    ``SparkUnavailable`` if no server answers, or it refuses the session; the text names the reason and a remedy.
    """
    endpoint = Endpoint(where) if isinstance(where, str) else where
    address = parse_url(endpoint.url)
    channels = Channels(endpoint.url)
    if shown := token or endpoint.token:
        channels.set(DefaultChannelBuilder.PARAM_TOKEN, shown)
    user = channels.userId or os.environ.get("SPARK_USER") or os.environ.get("USER") or "synergy"
    os.environ.setdefault("SPARK_CONNECT_MODE_ENABLED", "1")  # else parts of pyspark look for a session in this process
    channels.set(DefaultChannelBuilder.PARAM_USER_ID, user)
    session = SparkSession.builder.channelBuilder(channels).create()  # the thread's active one, if it has none
    # Spark's own client would try for ten minutes to reach a server that has gone.
    tries = max(1, round(patience / _PAUSE))
    policy = DefaultPolicy(max_retries=tries, initial_backoff=50, max_backoff=round(1000 * _PAUSE), jitter=0)
    session.client.set_retry_policies([policy])
    pairs = [messages.KeyValue(key=key, value=value) for key, value in {**SESSION, **(settings or {})}.items()]
    request = messages.ConfigRequest(
        session_id=session.session_id,
        user_context=messages.UserContext(user_id=user),
        client_type=channels.userAgent,
        operation=messages.ConfigRequest.Operation(set=messages.ConfigRequest.Set(pairs=pairs)),
    )
    try:
        channels.stub.Config(request, timeout=timeout, metadata=channels.metadata())
        if not endpoint.folder:  # it was not started by us
            _check_release(session.version, address)
    except BaseException as error:
        session.release_session_on_close = False
        session.stop()
        if isinstance(error, grpc.RpcError):
            raise SparkUnavailable(_explain(error, address, timeout)) from None
        raise
    return session


def disconnect(session: SparkSession, timeout: float = 2.0) -> None:
    """End a session and its queries; no error if its server has gone already.

    ``session``: session from :func:`connect`; one that has ended already is ignored; ``timeout``: time limit for the
    server to release the resources of the session, seconds.
    """
    if not session.is_stopped:
        channels = session.client._builder
        if not isinstance(channels, Channels):
            raise TypeError("session: not opened by connect(); expected one that was, end others by their stop()")
        request = messages.ReleaseSessionRequest(
            session_id=session.session_id,
            user_context=messages.UserContext(user_id=channels.userId or ""),
            client_type=channels.userAgent,
        )
        session.release_session_on_close = False
        with contextlib.suppress(grpc.RpcError):
            channels.stub.ReleaseSession(request, timeout=timeout, metadata=channels.metadata())
    session.stop()


def _check_release(version: str, address: Address) -> None:
    release = tuple(int(part) for part in re.findall("[0-9]+", version)[:2])
    if release < OLDEST:
        expected = f"{'.'.join(map(str, OLDEST))} or later"
        raise ValueError(f"spark: {_named(address)} has a server of Spark {version}; expected {expected}")


def _named(address: Address) -> str:
    return address.socket or f"{address.host}:{address.port}"


def _explain(error: Any, address: Address, timeout: float) -> str:
    """Explain the failure of the first request, with a remedy."""
    where = _named(address)
    text = (error.details() or "").partition("\n")[0][:300]
    match error.code():
        case grpc.StatusCode.UNAUTHENTICATED | grpc.StatusCode.PERMISSION_DENIED:
            return f"the Spark server at {where} refuses the token; give that of its SPARK_CONNECT_AUTHENTICATE_TOKEN"
        case grpc.StatusCode.DEADLINE_EXCEEDED:
            return f"no Spark server answered at {where} within {timeout:g} s; is the address right, and the server up?"
        case grpc.StatusCode.UNAVAILABLE:
            return f"no Spark server can be reached at {where} ({text}); is the address right, and the server up?"
        case grpc.StatusCode.UNIMPLEMENTED:
            return f"the server at {where} is no Spark Connect server ({text}); is the port right?"
        case code:
            return f"the Spark server at {where} refuses the session: {text or code.name}"
