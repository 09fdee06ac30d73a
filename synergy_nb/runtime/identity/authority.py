"""The authority of a cluster, which says by certificates who is who.

Theory of operation
-------------------
An :class:`Authority` has a key (EC, P-256) that signs certificates. Each certificate states one identity as the URI of
its subject's alternative name, ``spiffe://CLUSTER/ROLE/NAME``, and lives for hours. That of a peer or a scheduler also
states where it listens, as the common name of its subject: so one certificate says who may speak from which address. A
peer has a certificate without an address until it listens.

The certificate of a peer has a nonce, as the serial number of its subject. The authority draws it when it first
certifies the peer, and a renewal keeps it. The key of the peer on the ring is the hash of its name and the nonce, so
nobody can choose it, whatever names he tries before he asks for a certificate.

The holder of a certificate gets its private key with it (:class:`Credentials`), or has made the key itself and sent
only the public one (:meth:`Authority.certify`). A certificate is renewed (:meth:`Authority.renewed`) for the same key
and the same identity: so nothing secret travels, and a holder can check that the new one is its own.

What is revoked is an identity, not a certificate, as a holder may have several: its id is in :attr:`Authority.revoked`,
and is never certified again. The authority signs the list of these ids (:meth:`Authority.revocations`), so whoever has
it may pass it on, and nobody can add an id to it. An id never leaves the list, so an old list harms nobody.
"""

from __future__ import annotations

import datetime as dt
import secrets
import time
import uuid
from collections.abc import Callable
from typing import Any, Final

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from synergy_nb.control.identity import PEER, Identity, WrongIdentity, endpoint_of

__all__ = [
    "LIFE",
    "Authority",
    "Credentials",
    "half_life",
    "identity_in",
    "new_key",
    "public_key_of",
    "revoked_in",
]

LIFE: Final = 24 * 3600.0  # seconds for which a certificate is valid
AUTHORITY_LIFE: Final = 3650 * 24 * 3600.0  # seconds for which the authority itself is: longer than any cluster runs
BACKDATED: Final = 3600.0  # seconds for which a certificate is valid before it is issued: clocks differ
LONGEST_ADDRESS: Final = 64  # characters that a common name may have
_SIGNS: Final = ec.ECDSA(hashes.SHA256())  # how the list of revoked ids is signed
NONCE: Final = 4  # bytes of the nonce of a peer: nobody can have so many peers certified that one of them fits


class Credentials(msgspec.Struct, frozen=True):
    """What the holder of an identity proves it with: texts in PEM. They are secret: the private key is among them."""

    authority: str  # certificate of the authority
    certificate: str  # certificate of the holder
    key: str  # private key of the holder

    @property
    def identity(self) -> Identity:
        """Who holds them."""
        return identity_in(self.certificate)

    def __repr__(self) -> str:
        return f"<credentials of {self.identity.id}>"

    def to_bytes(self) -> bytes:
        """Return them as JSON, for a file or a pipe that only the holder reads."""
        return msgspec.json.encode(self)

    @classmethod
    def from_bytes(cls, data: bytes) -> Credentials:
        """Return what ``to_bytes`` wrote.

        Raises ``ValueError`` if it is something else.
        """
        return msgspec.json.decode(data, type=cls)


class _Revocations(msgspec.Struct, frozen=True):
    """The ids whose certificates no longer count."""

    ids: list[str]
    signature: bytes  # of the authority


class _Kept(msgspec.Struct, frozen=True):
    """An authority in a file."""

    cluster: str
    life: float
    certificate: str
    key: str
    revoked: list[str]


class Authority:
    """Issues, renews and revokes the certificates of one cluster.

    Parameters
    ----------
    cluster
        Name of the cluster, which is part of each id; by default a new one that no other cluster has.
    life
        Time for which a certificate is valid, in seconds.
    clock
        Function that returns the present time, in seconds since 1970.

    Examples
    --------
    >>> authority = Authority("green")
    >>> peer = authority.issue("peer", "peer-1")
    >>> peer.identity.id
    'spiffe://green/peer/peer-1'
    >>> listening = identity_in(authority.renewed(peer.certificate, "tls://127.0.0.1:4567"))
    >>> listening.address == f"tls://127.0.0.1:4567#{peer.identity.peer_id}"
    True
    """

    def __init__(self, cluster: str = "", *, life: float = LIFE, clock: Callable[[], float] = time.time) -> None:
        self.cluster = cluster or f"synergy-{uuid.uuid4().hex[:16]}"
        self.life = life
        self._clock = clock
        self._revoked: set[str] = set()
        self._key = ec.generate_private_key(ec.SECP256R1())
        Identity(self.cluster, "scheduler")  # refuses a wrong name before anything is signed
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"authority of {self.cluster}"[:64])])
        builder = self._builder(f"spiffe://{self.cluster}", subject, subject, self._key.public_key(), AUTHORITY_LIFE)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(_usage(signs_certificates=True), critical=True)
        self._certificate = builder.sign(self._key, hashes.SHA256())

    @property
    def certificate(self) -> str:
        """Certificate of the authority itself, PEM: public, and all that is needed to check others."""
        return _pem(self._certificate)

    @property
    def revoked(self) -> frozenset[str]:
        """The ids whose certificates no longer count."""
        return frozenset(self._revoked)

    def issue(self, role: str, name: str = "", listens: str = "") -> Credentials:
        """Make a key, and certify that its holder is who the arguments say.

        Raises ``WrongIdentity`` if they are wrong, or that identity was revoked.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        identity = Identity(self.cluster, role, name, listens)
        return Credentials(self.certificate, self._certified(identity, key.public_key()), _private(key))

    def certify(self, identity: Identity, public_key: str) -> str:
        """Return a certificate for who has made its key itself; the caller has checked who asks.

        ``public_key``: PEM, such as :func:`public_key_of` returns. Raises ``WrongIdentity`` if the identity is of
        another cluster or was revoked, or the key is no EC key.
        """
        try:
            key = serialization.load_pem_public_key(public_key.encode())
        except ValueError as error:
            raise WrongIdentity(f"public_key: {error}; expected an EC key as PEM") from None
        if not isinstance(key, ec.EllipticCurvePublicKey):
            raise WrongIdentity(f"public_key: {type(key).__name__}; expected an EC key as PEM")
        return self._certified(identity, key)

    def renewed(self, certificate: str, listens: str = "") -> str:
        """Return a certificate for the same key and identity that is valid from now on.

        ``listens``: where its holder listens; by default what the old one says. Raises ``WrongIdentity`` if the old
        one is of another authority, or its identity was revoked.
        """
        old = x509.load_pem_x509_certificate(certificate.encode())
        try:
            old.verify_directly_issued_by(self._certificate)
        except (InvalidSignature, ValueError, TypeError):
            raise WrongIdentity(
                f"certificate: it is not of {self.cluster}; expected one that was issued here"
            ) from None
        was = identity_in(certificate)
        return self.certify(
            msgspec.structs.replace(was, listens=endpoint_of(listens) or was.listens), public_key_of(certificate)
        )

    def revoke(self, identity: Identity) -> None:
        """Never certify an identity again; what checks :attr:`revoked` refuses its certificates.

        Raises ``WrongIdentity`` if it is of another cluster.
        """
        self._own(identity)
        self._revoked.add(identity.id)

    def revocations(self) -> bytes:
        """Return the list of the ids that were revoked, which :func:`revoked_in` reads; empty if there are none."""
        if not self._revoked:
            return b""
        ids = sorted(self._revoked)
        return msgspec.msgpack.encode(_Revocations(ids, self._key.sign(_signed(ids), _SIGNS)))

    def to_bytes(self) -> bytes:
        """Return the authority with its key as JSON, for a file that only its owner can read."""
        return msgspec.json.encode(
            _Kept(self.cluster, self.life, self.certificate, _private(self._key), sorted(self._revoked))
        )

    @classmethod
    def from_bytes(cls, data: bytes, *, clock: Callable[[], float] = time.time) -> Authority:
        """Return what ``to_bytes`` wrote.

        Raises ``ValueError`` if it is something else.
        """
        kept = msgspec.json.decode(data, type=_Kept)
        key = serialization.load_pem_private_key(kept.key.encode(), None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ValueError(f"key: {type(key).__name__}; expected an EC key")
        authority = cls.__new__(cls)
        authority.cluster, authority.life, authority._clock = kept.cluster, kept.life, clock
        authority._revoked, authority._key = set(kept.revoked), key
        authority._certificate = x509.load_pem_x509_certificate(kept.certificate.encode())
        return authority

    # -- inside ------------------------------------------------------------------------------------------------------

    def _own(self, identity: Identity) -> None:
        if identity.cluster != self.cluster:
            raise WrongIdentity(f"identity: {identity.id}; expected one of spiffe://{self.cluster}")

    def _certified(self, identity: Identity, key: ec.EllipticCurvePublicKey) -> str:
        self._own(identity)
        if identity.id in self._revoked:
            raise WrongIdentity(f"identity: {identity.id} was revoked; expected another name")
        if len(identity.listens) > LONGEST_ADDRESS:
            raise WrongIdentity(f"address: {identity.listens!r}; expected at most {LONGEST_ADDRESS} characters")
        stated = [x509.NameAttribute(NameOID.COMMON_NAME, identity.listens or f"a {identity.role}")]
        if identity.role == PEER:
            stated.append(x509.NameAttribute(NameOID.SERIAL_NUMBER, identity.nonce or secrets.token_hex(NONCE)))
        subject = x509.Name(stated)
        builder = self._builder(identity.id, subject, self._certificate.subject, key, self.life)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(_usage(signs_certificates=False), critical=True)
        builder = builder.add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False
        )
        return _pem(builder.sign(self._key, hashes.SHA256()))

    def _builder(
        self,
        uri: str,  # id that it states
        subject: x509.Name,
        issuer: x509.Name,
        key: ec.EllipticCurvePublicKey,  # the subject's
        life: float,  # seconds
    ) -> x509.CertificateBuilder:
        now = dt.datetime.fromtimestamp(self._clock(), dt.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(seconds=BACKDATED))
            .not_valid_after(now + dt.timedelta(seconds=life))
            .add_extension(x509.SubjectAlternativeName([x509.UniformResourceIdentifier(uri)]), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )


def revoked_in(revocations: bytes, authority: str) -> list[str]:
    """Return the ids in the list of an authority, whose certificate is PEM.

    Raises ``WrongIdentity`` if that authority has not signed it.
    """
    key = x509.load_pem_x509_certificate(authority.encode()).public_key()
    try:
        told = msgspec.msgpack.decode(revocations, type=_Revocations)
        if not isinstance(key, ec.EllipticCurvePublicKey):
            raise InvalidSignature
        key.verify(told.signature, _signed(told.ids), _SIGNS)
    except (InvalidSignature, msgspec.MsgspecError):
        raise WrongIdentity("revoked: a list that the authority of this cluster has not signed") from None
    return told.ids


def _signed(ids: list[str]) -> bytes:
    """What is signed of a list; no certificate begins so."""
    return b"synergy: revoked are " + msgspec.msgpack.encode(ids)


def identity_in(certificate: str) -> Identity:
    """Return the identity that a certificate states; whether the authority has signed it is not checked here.

    ``certificate``: PEM. Raises ``WrongIdentity`` if it is no certificate, or states none.
    """
    try:
        parsed = x509.load_pem_x509_certificate(certificate.encode())
        names = parsed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, x509.ExtensionNotFound) as error:
        raise WrongIdentity(f"certificate: {error}; expected one that states an id of SPIFFE") from None
    uris = names.get_values_for_type(x509.UniformResourceIdentifier)
    if len(uris) != 1:
        raise WrongIdentity(f"certificate: it states {len(uris)} URIs; expected one id of SPIFFE")
    stated = {each.oid: str(each.value) for each in parsed.subject}
    listens = stated.get(NameOID.COMMON_NAME, "")
    return Identity.of(uris[0], listens if "://" in listens else "", stated.get(NameOID.SERIAL_NUMBER, ""))


def public_key_of(certificate: str) -> str:
    """Return the public key of a certificate; both are PEM."""
    return _pem_of(x509.load_pem_x509_certificate(certificate.encode()).public_key())


def new_key() -> tuple[str, str]:
    """Make a key, and return it and its public part, both as PEM: :meth:`Authority.certify` needs no more than that."""
    key = ec.generate_private_key(ec.SECP256R1())
    return _private(key), _pem_of(key.public_key())


def half_life(certificate: str) -> float:
    """Return the time at which a certificate (PEM) is to be renewed, in seconds since 1970: at half of its life."""
    parsed = x509.load_pem_x509_certificate(certificate.encode())
    begins = parsed.not_valid_before_utc.timestamp() + BACKDATED
    return (begins + parsed.not_valid_after_utc.timestamp()) / 2.0


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _pem_of(key: Any) -> str:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return str(key.public_bytes(serialization.Encoding.PEM, form).decode())


def _pem(value: Any) -> str:
    return str(value.public_bytes(serialization.Encoding.PEM).decode())


def _private(key: ec.EllipticCurvePrivateKey) -> str:
    form, none = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, form, none).decode()
