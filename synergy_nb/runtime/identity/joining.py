"""Peers of another host get certificates of a cluster with a token, which the owner of the cluster has handed over.

Theory of operation
-------------------
The process that has the authority of a cluster opens a :class:`JoiningDoor`, a port with TLS. Its owner hands over a
:class:`JoinToken`: the address of that port, the fingerprint of the authority, and a secret that is valid for some time
and for some hosts.

A host that joins makes a key for each of its peers, which never leaves the host. It connects to the door, and sends
nothing before it has checked that the door has a scheduler's certificate of the authority with that fingerprint: so a
program in the middle learns no secret. Then it sends the secret, the address at which its peers will listen, and a
request for a certificate for each key, signed with that key. The door answers with the certificates, and with what the
peers need to know.

The peers have to listen at the address from which their host connects, or they are refused. A host behind network
address translation (NAT) connects from an address that is not its own, and no peer could connect to its peers.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import datetime as dt
import hashlib
import hmac
import ipaddress
import re
import secrets
import ssl
import struct
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from synergy_nb.control.identity import PEER, SCHEDULER, Identity, WrongIdentity, is_name
from synergy_nb.reporting.cluster_errors import ClusterError
from synergy_nb.runtime.identity.authority import Authority, Credentials, identity_in, public_key_of

__all__ = ["Admitted", "JoinRefused", "JoinToken", "JoiningDoor", "ask_to_join"]

LARGEST: Final = 1 << 20  # most bytes of a message
WITHIN: Final = 10.0  # seconds within which each side has to say what it says
MOST_AT_ONCE: Final = 16  # most connections that are served at the same time
MOST_PEERS: Final = 64  # most peers of one host
LENGTH: Final = struct.Struct(">I")
T = TypeVar("T")


class JoinRefused(ClusterError):
    """A host was refused, or the program that answers is not of the cluster that the token names."""


class JoinToken(msgspec.Struct, frozen=True):
    """What a host needs to join; it is secret.

    Examples
    --------
    >>> JoinToken.of(str(JoinToken("10.0.0.1", 8787, "f" * 43, "s" * 22))).port
    8787
    """

    host: str  # address of the door
    port: int
    fingerprint: str  # SHA-256 of the certificate of the authority, base64
    secret: str

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}/{self.fingerprint}/{self.secret}"

    def __repr__(self) -> str:
        return f"<token for the cluster at {self.host}:{self.port}>"

    @classmethod
    def of(cls, text: str) -> JoinToken:
        """Return the token of a text.

        Raises ``ValueError`` if it is none; the message does not repeat it, as it may be a damaged one.
        """
        form = re.fullmatch(r"(?:\[([0-9a-fA-F:.]+)\]|([^\s:/\[\]]+)):(\d{1,5})/([\w-]{43})/([\w-]{22})", text.strip())
        if form is None or not 0 < int(form[3]) < 1 << 16:
            raise ValueError("join: not a token; expected ADDRESS:PORT/FINGERPRINT/SECRET, as `synergy up` prints it")
        return cls(form[1] or form[2], int(form[3]), form[4], form[5])


class Admitted(msgspec.Struct, frozen=True):
    """What a host gets that was let in."""

    scheduler: str  # address of the scheduler
    host: str  # address at which its peers listen
    peers: dict[str, Credentials]  # those of each peer by its name
    settings: dict[str, Any]  # what the peers of the cluster are made with


class HostRequest(msgspec.Struct, frozen=True):
    """What a host asks for at the door."""

    secret: str
    host: str  # address at which the peers will listen
    name: str  # name of the host, with which those of its peers begin
    requests: list[str]  # for each peer a request for a certificate, PEM


class HostAnswer(msgspec.Struct, frozen=True):
    """What the door answers."""

    refused: str = ""  # why; empty if the host is let in
    certificates: dict[str, str] = {}  # name of a peer to its certificate, in the order of the requests
    scheduler: str = ""
    settings: dict[str, Any] = {}


class _Pass(msgspec.Struct):
    """What is left of a secret."""

    until: float  # time until which it counts, seconds
    uses: int  # hosts that it still lets in


class JoiningDoor:
    """Lets hosts with a token join a cluster."""

    def __init__(
        self,
        authority: Authority,
        scheduler: str,  # address of the scheduler
        settings: Mapping[str, Any],  # what the peers are made with
        # function that returns whether there is a peer with that name, or one that was let in is about to come
        taken: Callable[[str], bool],
        admitted: Callable[[Mapping[str, str]], object],  # called with the certificates of new peers by name
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._authority = authority
        self._scheduler = scheduler
        self._settings = dict(settings)
        self._taken = taken
        self._admitted = admitted
        self._clock = clock
        self._passes: dict[str, _Pass] = {}  # hash of a secret to what is left of it
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()
        self._host, self._port = "", 0

    async def open(self, host: str, port: int = 0) -> None:
        """Listen at an address of this machine."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        held = self._authority.issue(SCHEDULER)
        with tempfile.TemporaryDirectory() as folder:  # only its owner can read it; OpenSSL takes nothing but files
            chain = Path(folder) / "chain.pem"
            chain.write_text(held.certificate + held.key, "ascii")
            context.load_cert_chain(chain)
        self._server = await asyncio.start_server(self._serve, host, port, ssl=context, ssl_handshake_timeout=WITHIN)
        self._host, self._port = host, self._server.sockets[0].getsockname()[1]

    def token(self, within: float, uses: int) -> JoinToken:
        """Return a token that is valid for so many seconds and hosts."""
        if self._server is None:
            raise RuntimeError("the door is closed")
        secret = secrets.token_urlsafe(16)
        self._passes[_hash(secret)] = _Pass(self._clock() + within, uses)
        return JoinToken(self._host, self._port, fingerprint_of(self._authority.certificate), secret)

    async def close(self) -> None:
        """Let nobody in any more."""
        if self._server is not None:
            self._server.close()
        for task in tuple(self._serving):
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    # -- inside ------------------------------------------------------------------------------------------------------

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            if len(self._serving) <= MOST_AT_ONCE:
                with contextlib.suppress(OSError, EOFError, TimeoutError, ValueError):  # whoever it was says nothing
                    async with asyncio.timeout(WITHIN):
                        await send(writer, self._authority.certificate)
                        request = await receive(reader, HostRequest)
                        await send(writer, self.answer(request, writer.get_extra_info("peername")[0]))
        finally:
            self._serving.discard(task)
            writer.close()

    def answer(self, request: HostRequest, seen: str) -> HostAnswer:
        """Decide about a request that came from an address."""
        now = self._clock()
        self._passes = {each: held for each, held in self._passes.items() if held.until > now and held.uses > 0}
        held = self._passes.get(_hash(request.secret))
        if held is None:
            return HostAnswer(
                "the token is not valid: it is of another cluster, used up, or has expired; ask for a new one"
            )
        if not same_address(request.host, seen):
            return HostAnswer(
                f"the peers would listen at {request.host!r:.100}, but their host connects from {seen}: it is behind "
                "network address translation (NAT), so other peers could not connect to it; join from a host that "
                f"others reach at its own address, or state {seen} by --host if it is an address of that host"
            )
        if not 0 < len(request.requests) <= MOST_PEERS:
            return HostAnswer(f"peers: {len(request.requests)}; expected 1 to {MOST_PEERS} of one host")
        names = [f"{request.name}-{number}" for number in range(1, len(request.requests) + 1)]
        for name in names:
            if not is_name(name):
                return HostAnswer(
                    f"name: {request.name!r:.100}; expected at most 60 of letters, digits, '.', '_' and '-'"
                )
            if self._taken(name):
                return HostAnswer(f"name: {name!r} is the name of an existing peer; expected another name, by --name")
        try:
            keys = [requested_key(each) for each in request.requests]
            identities = [Identity(self._authority.cluster, PEER, name) for name in names]
            given = [self._authority.certify(who, key) for who, key in zip(identities, keys, strict=True)]
        except (WrongIdentity, ValueError) as error:
            return HostAnswer(f"requests: {error}")
        held.uses -= 1
        certificates = dict(zip(names, given, strict=True))
        self._admitted(certificates)
        return HostAnswer("", certificates, self._scheduler, self._settings)


async def ask_to_join(token: JoinToken, name: str, peers: int, host: str = "") -> Admitted:
    """Ask the door of a token for the certificates of so many peers.

    ``host``: address at which they will listen; by default that from which the door is reached. Raises ``JoinRefused``
    if the door does not answer, is that of another cluster, or refuses; the message says which.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # `_check_door` does, by the fingerprint: there is no authority to begin with
    door = f"{token.host}:{token.port}"
    try:
        async with asyncio.timeout(WITHIN):
            reader, writer = await asyncio.open_connection(
                token.host, token.port, ssl=context, local_addr=(host, 0) if host else None
            )
    except TimeoutError:
        raise JoinRefused(
            f"join: no answer from {door} within {WITHIN:g} s; check that this host can reach it"
        ) from None
    except OSError as error:
        raise JoinRefused(f"join: nobody answers at {door}: {error}; check that synergy up runs there") from None
    try:
        async with asyncio.timeout(WITHIN):
            authority = await receive(reader, str)
            _check_door(token, authority, writer.get_extra_info("ssl_object").getpeercert(binary_form=True))
            keys = [ec.generate_private_key(ec.SECP256R1()) for _ in range(peers)]
            listens = host or str(writer.get_extra_info("sockname")[0])
            await send(writer, HostRequest(token.secret, listens, name, [_request(each, name) for each in keys]))
            answer = await receive(reader, HostAnswer)
    except TimeoutError:
        raise JoinRefused(f"join: no answer from {door} within {WITHIN:g} s") from None
    except (OSError, EOFError, ValueError) as error:
        raise JoinRefused(
            f"join: {door} is not a port where hosts join: {error or 'it closed the connection'}"
        ) from None
    finally:
        writer.close()
    if answer.refused:
        raise JoinRefused(f"join: {answer.refused}")
    held = zip(answer.certificates.items(), keys, strict=True)
    credentials = {peer: Credentials(authority, certificate, _private(key)) for (peer, certificate), key in held}
    if [public_key_of(each.certificate) for each in credentials.values()] != list(map(_public, keys)):
        raise JoinRefused(f"join: {door} has sent certificates for other keys")
    return Admitted(answer.scheduler, listens, credentials, answer.settings)


def _check_door(token: JoinToken, authority: str, presented: bytes) -> None:
    """Raise ``JoinRefused`` unless the other end has a scheduler's certificate of the cluster of the token."""
    what = f"join: the program at {token.host}:{token.port}"
    try:
        if not hmac.compare_digest(fingerprint_of(authority), token.fingerprint):
            raise JoinRefused(f"{what} belongs to another cluster than the token; no secret was sent")
        certificate = x509.load_der_x509_certificate(presented)
        certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(authority.encode()))
        pem = certificate.public_bytes(serialization.Encoding.PEM).decode()
        now = dt.datetime.now(dt.UTC)
        if not certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc:
            raise JoinRefused(f"{what} has a certificate that is not valid now; compare the clocks of both hosts")
        if identity_in(pem).role != SCHEDULER:
            raise JoinRefused(f"{what} is {identity_in(pem).id}; expected a scheduler")
    except (InvalidSignature, ValueError, TypeError) as error:
        if isinstance(error, JoinRefused):
            raise
        raise JoinRefused(f"{what} has no certificate of the cluster that the token names") from None


# -- frames, keys, addresses -----------------------------------------------------------------------------------------


async def send(writer: asyncio.StreamWriter, message: object) -> None:
    """Send a message, with its length before it."""
    data = msgspec.msgpack.encode(message)
    writer.write(LENGTH.pack(len(data)) + data)
    await writer.drain()


async def receive(reader: asyncio.StreamReader, kind: type[T]) -> T:
    """Return the next message; ``ValueError`` is raised if it is another one or too long."""
    (length,) = LENGTH.unpack(await reader.readexactly(LENGTH.size))
    if length > LARGEST:
        raise ValueError(f"a message of {length} bytes; expected at most {LARGEST}")
    return msgspec.msgpack.decode(await reader.readexactly(length), type=kind)


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def fingerprint_of(certificate: str) -> str:
    """Return the SHA-256 of a certificate (PEM) as base64."""
    found = x509.load_pem_x509_certificate(certificate.encode()).fingerprint(hashes.SHA256())
    return base64.urlsafe_b64encode(found).decode().rstrip("=")


def same_address(stated: str, seen: str) -> bool:
    """Return whether two texts are the same address of IP."""
    try:
        one, other = ipaddress.ip_address(stated.partition("%")[0]), ipaddress.ip_address(seen.partition("%")[0])
    except ValueError:
        return False
    return one == (getattr(other, "ipv4_mapped", None) or other)


def requested_key(request: str) -> str:
    """Return the public key of a request for a certificate, whose holder has signed it."""
    parsed = x509.load_pem_x509_csr(request.encode())
    if not parsed.is_signature_valid:
        raise ValueError("a request is not signed with its own key")
    return parsed.public_key().public_bytes(*_PUBLIC).decode()


def _request(key: ec.EllipticCurvePrivateKey, name: str) -> str:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])
    built = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    return built.public_bytes(serialization.Encoding.PEM).decode()


_PUBLIC: Final = (serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def _public(key: ec.EllipticCurvePrivateKey) -> str:
    return key.public_key().public_bytes(*_PUBLIC).decode()


def _private(key: ec.EllipticCurvePrivateKey) -> str:
    form, none = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, form, none).decode()
