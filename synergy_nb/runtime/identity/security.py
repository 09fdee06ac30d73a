"""Dask's TLS configuration made from the credentials of an identity, whose certificate can be renewed while it runs."""

# mypy: disable-error-code="no-untyped-call"
# (of distributed, which is typed only here and there). No __slots__: its base takes those for the names of its fields

# Whoever answers at the address of the scheduler tells a worker what to do, in a protocol that runs code. So that the
# other end is a scheduler is checked where TLS ends its handshake, before a byte of that protocol is read: by the class
# of socket that the context of outgoing connections makes. Dask's own check is that of the authority alone.

from __future__ import annotations

import ssl
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from distributed import Security
from distributed.comm.addressing import parse_address, parse_host_port

from synergy_nb.control.identity import SCHEDULER, Identity, WrongIdentity
from synergy_nb.runtime.identity.authority import Credentials, identity_in, public_key_of, revoked_in

__all__ = ["IdentitySecurity", "identity_of"]


class IdentitySecurity(Security):
    """Dask's configuration for mutual TLS with one certificate, in whatever part of a Dask cluster it is used.

    All connections share two contexts, one for each direction. So a renewed certificate counts from the next connection
    on, and open ones go on.
    """

    def __init__(self, credentials: Credentials, scheduler: str = "") -> None:
        of_role = {f"tls_{role}_cert": credentials.certificate for role in ("client", "worker", "scheduler")}
        of_role |= {f"tls_{role}_key": credentials.key for role in ("client", "worker", "scheduler")}
        super().__init__(
            require_encryption=True,
            tls_ca_file=credentials.authority,
            tls_min_version=ssl.TLSVersion.TLSv1_3,
            **of_role,
        )
        self.credentials = credentials
        self.scheduler = scheduler  # address at which only a scheduler is spoken to; empty: there is none yet
        self.impostor = ""  # id of who listened there last instead of one
        self.on_impostor: list[Callable[[str, str], object]] = []  # called with that address, and who listens there
        self.revoked: set[str] = set()  # ids whose certificates no longer count
        self.revocations = b""  # the list of them that the authority has signed, to be passed on; empty: none
        self.on_revoked: list[Callable[[], object]] = []  # called when ids were added: to close what is open
        self._connecting = self._context(ssl.Purpose.SERVER_AUTH)
        self._connecting.sslsocket_class = _checked_by(self._check)
        self._listening = self._context(ssl.Purpose.CLIENT_AUTH)

    def _context(self, purpose: ssl.Purpose) -> ssl.SSLContext:
        context: ssl.SSLContext = self._get_tls_context(self.get_tls_config_for_role("client"), purpose)
        return context

    @property
    def identity(self) -> Identity:
        """Who holds the certificate."""
        return self.credentials.identity

    def identify(self, comm: Any) -> Identity | None:
        """Return who is at the other end of a comm."""
        return identity_of(comm)

    def take_revocations(self, revocations: bytes) -> None:
        """Refuse the holders of the ids in a list from now on, and close their connections.

        Raises ``WrongIdentity`` if the authority has not signed the list, whoever has sent it.
        """
        if revocations in (b"", self.revocations):
            return
        more = set(revoked_in(revocations, self.credentials.authority)) - self.revoked
        if more:
            self.revoked |= more
            self.revocations = revocations
        for listener in tuple(self.on_revoked) if more else ():
            listener()

    def _check(self, host: str, port: int, certificate: Mapping[str, Any]) -> None:
        """Raise an error of TLS if who listens somewhere, with a certificate, would have to be the scheduler."""
        if not self.scheduler or (host, port) != parse_host_port(parse_address(self.scheduler)[1]):
            return
        who = _stated(certificate)
        self.impostor = "" if who is not None and who.role == SCHEDULER else str(who and who.id)
        if self.impostor:
            for listener in tuple(self.on_impostor):
                listener(self.scheduler, self.impostor)
            # of this number Tornado writes no line for each attempt: who is told decides that
            raise ssl.SSLCertVerificationError(
                ssl.SSL_ERROR_EOF, f"at the address of the scheduler, {self.scheduler}, listens {self.impostor}"
            )

    def get_connection_args(self, role: str) -> dict[str, Any]:
        """Return what Dask opens connections with."""
        return {"ssl_context": self._connecting, "require_encryption": True, "extra_conn_args": self.extra_conn_args}

    def get_listen_args(self, role: str) -> dict[str, Any]:
        """Return what Dask listens with."""
        return {"ssl_context": self._listening, "require_encryption": True}

    def renew(self, certificate: str) -> None:
        """Use another certificate (PEM) of the same key and identity from the next connection on.

        Raises ``WrongIdentity`` if it is of another holder or key.
        """
        new = identity_in(certificate)
        if new.id != self.identity.id or public_key_of(certificate) != public_key_of(self.credentials.certificate):
            raise WrongIdentity(f"certificate: that of {new.id}; expected one of {self.identity.id} for the same key")
        self.credentials = msgspec.structs.replace(self.credentials, certificate=certificate)
        self.tls_client_cert = self.tls_worker_cert = self.tls_scheduler_cert = certificate
        with tempfile.TemporaryDirectory() as folder:  # only its owner can read it; OpenSSL takes nothing but files
            chain = Path(folder) / "chain.pem"
            chain.write_text(certificate + self.credentials.key, "ascii")
            for context in (self._connecting, self._listening):
                context.load_cert_chain(chain)


def _checked_by(check: Callable[[str, int, Mapping[str, Any]], None]) -> type[ssl.SSLSocket]:
    """Return a class of sockets that have a connection checked: host, port and certificate of the other end."""

    class CheckedSocket(ssl.SSLSocket):
        def do_handshake(self, block: bool = False) -> None:
            super().do_handshake(block)
            check(self.server_hostname or "", self.getpeername()[1], self.getpeercert() or {})

    return CheckedSocket


def identity_of(comm: Any) -> Identity | None:
    """Return who is at the other end of a Dask comm, by the certificate that TLS has checked; None without an id."""
    return _stated(comm.extra_info.get("peercert") or {})


def _stated(certificate: Mapping[str, Any]) -> Identity | None:
    ids = [value for kind, value in certificate.get("subjectAltName", ()) if kind == "URI"]
    if len(ids) != 1 or not ids[0].startswith("spiffe://"):
        return None
    stated = {name: value for part in certificate.get("subject", ()) for name, value in part}
    listens = stated.get("commonName", "")
    return Identity.of(ids[0], listens if "://" in listens else "", stated.get("serialNumber", ""))
