"""Addresses and URLs of plans, taken apart, and connections to them."""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
from collections.abc import Mapping
from urllib.parse import SplitResult, urlsplit

from synergy_nb.connectors.secret_values import Secrets
from synergy_nb.dataflow.sources import BrokenForNow

PATIENCE_S = 5.0  # longest time until a connection is made, or a server goes on with an answer, seconds
_BUSY = (408, 425, 429)  # statuses of a server that may be others later, beside those from 500 on


def may_pass(status: int) -> bool:
    """Whether a server that answers with this status may answer with another one later."""
    return status in _BUSY or status >= 500


def connected_to(host: str, port: int) -> socket.socket:
    """Return a connection to a port; BrokenForNow if there is none."""
    try:
        return socket.create_connection((host, port), timeout=PATIENCE_S)
    except OSError as error:
        raise BrokenForNow(f"connection to {host}:{port}: {_reason(error)}") from None


def secret_headers(headers: Mapping[str, str], secrets: Secrets) -> dict[str, str]:
    """Headers of a plan, with the secrets that they name."""
    return {name: secrets.fill(text) for name, text in headers.items()}


class WebRequest:
    """A request of a page, and its answer as it comes."""

    def __init__(self, url: str, shown: str, headers: Mapping[str, str]) -> None:
        """Send the request; BrokenForNow if there is no answer, or one that may be another later; else ValueError."""
        parts = urlsplit(url)
        self.what = f"GET {shown}"  # a URL may have secrets
        secure = parts.scheme == "https"
        host, port = parts.hostname or "", parts.port
        self._connection = (
            http.client.HTTPSConnection(host, port, timeout=PATIENCE_S, context=ssl.create_default_context())
            if secure
            else http.client.HTTPConnection(host, port, timeout=PATIENCE_S)
        )
        try:
            self._connection.request("GET", _target(parts), headers=dict(headers))
            self._socket = self._connection.sock
            self.answer = self._connection.getresponse()
        except ssl.SSLCertVerificationError as error:
            self.close()
            raise ValueError(f"{self.what}: {error.verify_message}; expected a certificate that is trusted") from None
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise BrokenForNow(f"{self.what}: {_reason(error)}") from None
        status, reason = self.answer.status, self.answer.reason
        if status in (200, 304):
            return
        where = self.answer.headers.get("Location")
        self.close()
        said = f"{self.what}: {status} {reason}"
        if may_pass(status):
            raise BrokenForNow(said)
        moved = f" to {where}, which is not followed" if where else ""
        raise ValueError(f"{said}{moved}; expected an answer with rows")

    def read(self, most: int) -> bytes:
        """Return the rest of the answer, of so many bytes at most; BrokenForNow if it breaks off."""
        try:
            found = self.answer.read(most + 1)
        except (OSError, http.client.HTTPException) as error:
            raise BrokenForNow(f"{self.what}: the answer breaks off: {_reason(error)}") from None
        if len(found) > most:
            raise ValueError(f"{self.what}: more than {most >> 20} MB; expected a shorter answer")
        return found

    def readline(self) -> bytes:
        """Return the next line of the answer, as soon as it is there; empty at the end. Raises ``OSError``."""
        return self.answer.readline()

    def wait_without_end(self) -> None:
        """Let reading wait for as long as the server says nothing."""
        self._socket.settimeout(None)

    def interrupt(self) -> None:
        """End what another thread reads."""
        with contextlib.suppress(OSError):  # the server has ended it
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection."""
        if hasattr(self, "answer"):
            self.answer.close()
        self._connection.close()


def _target(parts: SplitResult) -> str:
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def _reason(error: BaseException) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
