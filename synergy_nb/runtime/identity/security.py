"""Dask's TLS configuration made from the credentials of an identity, whose certificate can be renewed while it runs."""

# mypy: disable-error-code="no-untyped-call"
# (of distributed, which is typed only here and there). No __slots__: its base takes those for the names of its fields

from __future__ import annotations

import ssl
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from distributed import Security

from synergy_nb.control.identity import Identity, WrongIdentity
from synergy_nb.runtime.identity.authority import Credentials, identity_in, public_key_of

__all__ = ["IdentitySecurity", "identity_of"]


class IdentitySecurity(Security):
    """Dask's configuration for mutual TLS with one certificate, in whatever part of a Dask cluster it is used.

    All connections share two contexts, one for each direction. So a renewed certificate counts from the next connection
    on, and open ones go on.
    """

    def __init__(self, credentials: Credentials) -> None:
        of_role = {f"tls_{role}_cert": credentials.certificate for role in ("client", "worker", "scheduler")}
        of_role |= {f"tls_{role}_key": credentials.key for role in ("client", "worker", "scheduler")}
        super().__init__(
            require_encryption=True,
            tls_ca_file=credentials.authority,
            tls_min_version=ssl.TLSVersion.TLSv1_3,
            **of_role,
        )
        self.credentials = credentials
        self.revoked: set[str] = set()  # ids whose certificates no longer count
        self.on_revoked: list[Callable[[], object]] = []  # called when ids were added: to close what is open
        self._connecting = self._context(ssl.Purpose.SERVER_AUTH)
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

    def revoke(self, ids: Iterable[str]) -> None:
        """Refuse the holders of ids from now on, and close their connections."""
        more = set(ids) - self.revoked
        self.revoked |= more
        for listener in tuple(self.on_revoked) if more else ():
            listener()

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


def identity_of(comm: Any) -> Identity | None:
    """Return who is at the other end of a Dask comm, by the certificate that TLS has checked; None without an id."""
    certificate: Mapping[str, Any] = comm.extra_info.get("peercert") or {}
    ids = [value for kind, value in certificate.get("subjectAltName", ()) if kind == "URI"]
    if len(ids) != 1 or not ids[0].startswith("spiffe://"):
        return None
    names = [value for part in certificate.get("subject", ()) for name, value in part if name == "commonName"]
    return Identity.of(ids[0], names[0] if names and "://" in names[0] else "")
