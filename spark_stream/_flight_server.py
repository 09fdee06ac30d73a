"""The server at a peer's endpoint, for Spark's Python workers: Arrow Flight, with a token to be shown in each call.

It listens at a socket in the folder of the Spark server, which only its user can open; or, where Spark is none of ours
(or that path too long for a socket), at a port with TLS, whose certificate is of this endpoint alone and goes to Spark
with the token.

It is imported with the first query, since gRPC does not work with forking. Importing takes 5 ms if pyarrow is loaded, a
connection 6 ms, a call 0.5 ms, and batches are sent at 300 to 1,000 MB/s. A plain socket needs 0, 2 and 0.1 ms, and has
the same throughput. Both are negligible beside a micro-batch of 200 ms, and Flight provides framing and errors.
"""

from __future__ import annotations

import datetime as dt
import hmac
import ipaddress
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.flight as fl
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from spark_stream._exchange import Exchange
from spark_stream._spool import Offset
from spark_stream.results import ExchangeRefused, Slice

BATCH_ROWS: Final = 65_536  # maximum number of rows of a batch on the wire
CLOCKS: Final = dt.timedelta(days=1)  # by which clocks of machines may differ
LIFE: Final = dt.timedelta(days=365)  # of the certificate of an endpoint, which ends with its peer


class _TokenCheck(fl.ServerMiddlewareFactory):  # type: ignore[misc]
    def __init__(self, token: str) -> None:
        self._expected = f"Bearer {token}".encode()

    def start_call(self, info: Any, headers: dict[str, list[str | bytes]]) -> None:
        """Refuse a call without the right token."""
        shown = next(iter(headers.get("authorization", [])), "")
        if not hmac.compare_digest(shown.encode() if isinstance(shown, str) else shown, self._expected):
            raise fl.FlightUnauthenticatedError("token: expected that of the endpoint")


class FlightServer(fl.FlightServerBase):  # type: ignore[misc]
    """Listens at a socket, or on a free port of ``host``.

    ``host``: address that it is reached at, if it has no socket; ``socket``: path of its socket, or None; ``token``:
    token that clients have to present.
    """

    def __init__(self, host: str, socket: Path | None, token: str, exchange: Callable[[str], Exchange]) -> None:
        checks = {"token": _TokenCheck(token)}
        self.certificate = ""  # certificate that clients have to trust, in PEM; empty at a socket
        if socket is not None:
            self.address = f"grpc+unix://{socket}"
            super().__init__(self.address, middleware=checks)
        else:
            certificate, key = _own_certificate(host)
            super().__init__(f"grpc+tls://{host}:0", tls_certificates=[(certificate, key)], middleware=checks)
            self.address = f"grpc+tls://{host}:{self.port}"
            self.certificate = certificate.decode()
        self._exchange = exchange  # function that returns the exchange of the query with a name

    def do_action(self, context: Any, action: Any) -> Iterator[bytes]:
        """Answer a JSON question of Spark's source or sink by JSON."""
        return iter([json.dumps(self._answered(self._act, action.type, json.loads(action.body.to_pybytes()))).encode()])

    def do_get(self, context: Any, ticket: Any) -> Any:
        """Return the rows that a task of Spark's source reads."""
        table = self._answered(self._rows, json.loads(ticket.ticket))
        return fl.RecordBatchStream(pa.RecordBatchReader.from_batches(table.schema, table.to_batches(BATCH_ROWS)))

    def do_put(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        """Store the rows that a task of Spark's sink has written."""
        order = json.loads(descriptor.command)
        batches = [chunk.data for chunk in reader]
        self._answered(self._store, order, batches)

    def close(self) -> None:
        """Close, when the calls in progress have been answered."""
        self.shutdown()
        self.wait()

    # -- inside ------------------------------------------------------------------------------------------------------

    def _act(self, kind: str, order: dict[str, Any]) -> Any:
        exchange, run = self._exchange(order["query"]), order["run"]
        match kind:
            case "initial":
                return exchange.initial(run, order["port"], order["tap"])
            case "latest":
                return exchange.latest(run, order["port"], order["tap"], Offset(*order["start"]))
            case "partitions":
                offsets = Offset(*order["start"]), Offset(*order["end"])
                return exchange.partitions(run, order["port"], order["tap"], *offsets)
            case "commit":
                return exchange.commit(run, order["port"], order["tap"], Offset(*order["end"]))
            case "finish":
                return exchange.finish(run, order["batch"], order["puts"])
            case "abort":
                return exchange.abort(run, order["puts"])
        raise ExchangeRefused(f"action: {kind!r}; expected initial, latest, partitions, commit, finish or abort")

    def _rows(self, order: dict[str, Any]) -> pa.Table:
        exchange, offsets = self._exchange(order["query"]), (Offset(*order["start"]), Offset(*order["end"]))
        return exchange.read(order["run"], order["port"], *offsets, Slice(*order["slice"]))

    def _store(self, order: dict[str, Any], batches: list[pa.RecordBatch]) -> None:
        self._exchange(order["query"]).put(order["run"], order["put"], batches)

    def _answered(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function, and raise an error of one line for Spark if it fails."""
        try:
            return function(*arguments)
        except Exception as error:
            named = isinstance(error, ExchangeRefused | ValueError)
            raise fl.FlightServerError(str(error) if named else f"{type(error).__name__}: {error}") from error


def _own_certificate(host: str) -> tuple[bytes, bytes]:
    """Make a certificate of its own for an address or name, and its key, both in PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    try:
        name: x509.GeneralName = x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        name = x509.DNSName(host)
    itself = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "synergy endpoint")])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder(itself, itself, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - CLOCKS)
        .not_valid_after(now + LIFE)
        .add_extension(x509.SubjectAlternativeName([name]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem, form = Encoding.PEM, PrivateFormat.PKCS8
    return certificate.public_bytes(pem), key.private_bytes(pem, form, NoEncryption())
