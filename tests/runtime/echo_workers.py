"""Peers on Dask workers of this process: their factory, their certificates, and waiting for an event."""

from __future__ import annotations

import asyncio
import datetime as dt
import ipaddress
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from distributed import Security

from synergy_nb.events import Event
from synergy_nb.runtime.process._peer_driver import PeerRuntime
from tests.waiting import DEADLINE

FACTORY = "tests.runtime.echo_peer:make"


async def event(runtime: PeerRuntime, kind: str, number: int = 1) -> Event:
    """The ``number``-th event of a kind, once it is there. The deadline only ends a test that fails."""
    async with asyncio.timeout(DEADLINE):
        while True:
            found = [event for event in runtime.journal if event.kind == kind]
            if len(found) >= number:
                return found[number - 1]
            await journaled(runtime)


async def journaled(runtime: PeerRuntime) -> None:
    """Wait until the next event is appended."""
    appended = asyncio.get_running_loop().create_future()
    append = runtime.journal.append

    def note(event: Event) -> Event:
        if not appended.done():
            appended.set_result(None)
        return append(event)

    runtime.journal.append = note  # type: ignore[method-assign]
    try:
        await appended
    finally:
        runtime.journal.append = append  # type: ignore[method-assign]


def certificates(folder: Path) -> Security:
    """A CA, and a certificate of it for each role."""
    now = dt.datetime.now(dt.UTC)

    def issue(name: str, issuer: Any = None) -> tuple[Any, Any]:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject if issuer is None else issuer[0].subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(days=1))
            .not_valid_after(now + dt.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
            .add_extension(
                x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False
            )
        )
        return builder.sign(key if issuer is None else issuer[1], hashes.SHA256()), key

    ca = issue("ca")
    (folder / "ca.pem").write_bytes(ca[0].public_bytes(serialization.Encoding.PEM))
    fields = {"tls_ca_file": str(folder / "ca.pem")}
    for role in ("client", "worker", "scheduler"):
        certificate, key = issue(role, ca)
        (folder / f"{role}.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        (folder / f"{role}.key").write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        fields |= {f"tls_{role}_cert": str(folder / f"{role}.pem"), f"tls_{role}_key": str(folder / f"{role}.key")}
    return Security(require_encryption=True, **fields)  # type: ignore[no-untyped-call]
