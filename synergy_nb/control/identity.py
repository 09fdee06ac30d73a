"""Who a sender is: the identity that a certificate of the cluster states, in the form of SPIFFE.

An identity is ``spiffe://CLUSTER/ROLE/NAME``. Drivers take it from the certificate of a connection
(:mod:`synergy_nb.runtime.identity`), never from what the sender says; here and below nothing knows certificates. In a
simulation, and where a cluster has no authority of its own, a peer is who its address says.

On the links a peer has the name of its address, and a client that of its identity and of the process,
``owner/ada#laptop-1f3a``. So the name of a sender, once it was compared with the certificate (:func:`difference`),
states its role.

The address of a peer with a certificate ends in its *peer id*, ``tls://127.0.0.1:4567#peer-3.9f2c01ab``: its name, and
a nonce that the authority has drawn. The key of the peer on the ring is the hash of that id alone (:func:`peer_id_of`),
and whoever connects compares the whole address with the certificate. So an address states the key of its peer, too, and
no peer chooses its key, neither by a port nor by a name. The id of a peer without a certificate is its address.

Three tables name the roles that may send a type of control message, request an operation, and send data on a channel.
Where a table has no row, peers may send the message or the data, and the owner may request the operation. A driver
refuses the others by name. ``test_identity`` and ``test_service`` hold that all that an assembled peer
understands has a row.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from synergy_nb.errors import SynergyError

__all__ = [
    "CHANNELS",
    "MESSAGES",
    "OPERATIONS",
    "OWNER",
    "OWNERS",
    "PEER",
    "PEERS",
    "ROLES",
    "SCHEDULER",
    "SPARK",
    "USER",
    "Identity",
    "NotAllowed",
    "WrongIdentity",
    "difference",
    "endpoint_of",
    "guest_of",
    "holder_of",
    "is_name",
    "link_name",
    "peer_id_of",
    "role_of",
    "with_peer_id",
]

PEER: Final = "peer"  # executes operators, and takes part in the protocols
OWNER: Final = "owner"  # started the cluster: may do everything that a user may do, and administer peers
USER: Final = "user"  # a guest: submits, reads and stops what is its own
SCHEDULER: Final = "scheduler"  # Dask's scheduler: knows who takes part, and is no party to the protocols
SPARK: Final = "spark"  # a Spark session
ROLES: Final = (PEER, OWNER, USER, SCHEDULER, SPARK)
NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")  # what SPIFFE allows as a segment of a path, of a useful length
FORM: Final = re.compile(r"spiffe://([a-z0-9._-]{1,64})/([a-z]+)(?:/([^/]*))?")


class WrongIdentity(SynergyError, ValueError):
    """A text is no identity, or the one of a sender is not what was expected."""


class NotAllowed(SynergyError, PermissionError):
    """A sender has another role than those that may do what it asks for."""


class Identity(msgspec.Struct, frozen=True, gc=False):
    """The holder of a certificate of a cluster; ``WrongIdentity`` is raised if there can be none such.

    Examples
    --------
    >>> peer = Identity("green", PEER, "peer-3", "tls://127.0.0.1:4567", "9f2c01ab")
    >>> peer.id, peer.peer_id, peer.address
    ('spiffe://green/peer/peer-3', 'peer-3.9f2c01ab', 'tls://127.0.0.1:4567#peer-3.9f2c01ab')
    >>> Identity.of("spiffe://green/user/ada").holder
    'user/ada'
    """

    cluster: str  # name of the cluster: the trust domain of SPIFFE
    role: str  # one of `ROLES`
    name: str = ""  # name of the peer, the user or the session; only a scheduler has none
    listens: str = ""  # where a peer or a scheduler listens, once it does; no part of the SPIFFE ID
    nonce: str = ""  # drawn by the authority when it first certified a peer; no part of the SPIFFE ID

    def __post_init__(self) -> None:
        if self.role not in ROLES:
            raise WrongIdentity(f"role: {self.role!r}; expected one of {', '.join(ROLES)}")
        if not (self.name == "" and self.role == SCHEDULER) and not is_name(self.name):
            raise WrongIdentity(f"name: {self.name!r}; expected 1 to 64 of letters, digits, '.', '_' and '-'")
        if not FORM.fullmatch(self.id):
            raise WrongIdentity(
                f"cluster: {self.cluster!r}; expected 1 to 64 of small letters, digits, '.', '_' and '-'"
            )

    @property
    def id(self) -> str:
        """The SPIFFE ID, which no two holders of a cluster share."""
        return f"spiffe://{self.cluster}/{self.holder}"

    @property
    def holder(self) -> str:
        """The part of the id within the cluster: the role, and the name."""
        return f"{self.role}/{self.name}" if self.name else self.role

    @property
    def peer_id(self) -> str:
        """The id of a peer, whose hash is its key on the ring; empty where its address stands for it."""
        return f"{self.name}.{self.nonce}" if self.nonce else ""

    @property
    def address(self) -> str:
        """The address that a peer has for others, with its id; empty until it listens."""
        return self.listens and with_peer_id(self.listens, self.peer_id)

    @classmethod
    def of(cls, spiffe: str, listens: str = "", nonce: str = "") -> Identity:
        """Return the identity of a SPIFFE ID.

        Raises ``WrongIdentity`` if the text has another form, or an unknown role.
        """
        form = FORM.fullmatch(spiffe)
        if form is None:
            raise WrongIdentity(f"id: {spiffe!r:.200}; expected spiffe://CLUSTER/ROLE/NAME")
        return cls(form[1], form[2], form[3] or "", listens, nonce)


def with_peer_id(endpoint: str, peer_id: str) -> str:
    """Return the address of a peer that listens somewhere and has an id.

    >>> with_peer_id("tls://127.0.0.1:4567", "peer-3.9f2c01ab"), with_peer_id("tcp://127.0.0.1:4567", "")
    ('tls://127.0.0.1:4567#peer-3.9f2c01ab', 'tcp://127.0.0.1:4567')
    """
    return f"{endpoint}#{peer_id}" if peer_id else endpoint


def endpoint_of(address: str) -> str:
    """Return where the peer of an address listens, as a connection needs it.

    >>> endpoint_of("tls://127.0.0.1:4567#peer-3.9f2c01ab")
    'tls://127.0.0.1:4567'
    """
    return address.partition("#")[0]


def peer_id_of(address: str) -> str:
    """Return the id of a peer, whose hash is its key on the ring, by its address.

    >>> peer_id_of("tls://127.0.0.1:4567#peer-3.9f2c01ab"), peer_id_of("tcp://127.0.0.1:4567")
    ('peer-3.9f2c01ab', 'tcp://127.0.0.1:4567')
    """
    return address.partition("#")[2] or address


def is_name(value: object) -> bool:
    """Whether a value is a name that an identity may have.

    >>> is_name("ann"), is_name("ann smith"), is_name(5)
    (True, False, False)
    """
    return isinstance(value, str) and NAME.fullmatch(value) is not None


def link_name(identity: Identity, process: str) -> str:
    """Return the name of a sender on the links: the address of a peer, else the holder and its process.

    >>> link_name(Identity("green", USER, "ada"), "laptop-1f3a")
    'user/ada#laptop-1f3a'
    """
    return identity.address if identity.role == PEER else f"{identity.holder}#{process}"


def role_of(sender: str) -> str:
    """Return the role of a sender by its name on the links; of a name that states none, it is the owner's.

    >>> role_of("tls://127.0.0.1:4567"), role_of("user/ada#laptop-1f3a"), role_of("client-1")
    ('peer', 'user', 'owner')
    """
    if "://" in sender:
        return PEER
    stated = sender.partition("/")[0]
    return stated if stated in ROLES else OWNER


def holder_of(sender: str) -> str:
    """Return who a sender is, whatever its process: the address of a peer, else the holder.

    >>> holder_of("user/ada#laptop-1f3a")
    'user/ada'
    """
    return sender if "://" in sender else sender.partition("#")[0]


def guest_of(sender: str) -> str:
    """Return the name of a guest, by its name on the links; empty for other senders.

    >>> guest_of("user/ada#laptop-1f3a"), guest_of("owner/bob#laptop-1f3a")
    ('ada', '')
    """
    return holder_of(sender).removeprefix(f"{USER}/") if role_of(sender) == USER else ""


def difference(sender: str, identity: Identity | None, *, listens: bool = True) -> str:
    """Return why the holder of a certificate is not the sender that it claims to be; empty if it is.

    ``listens``: False where a peer may not have got the certificate with its address yet.
    """
    if identity is None:
        return "it has no certificate of this cluster"
    if identity.role == PEER:
        early = not identity.listens and not listens and peer_id_of(sender) == identity.peer_id
        if "://" in sender and (identity.address == sender or early):
            return ""
        return f"it says it is {sender:.200}; its certificate is of {identity.id} at {identity.address or 'no address'}"
    if sender.startswith(f"{identity.holder}#") and "://" not in sender:
        return ""
    return f"it says it is {sender:.200}; its certificate is of {identity.id}"


PEERS: Final = frozenset({PEER})
OWNERS: Final = frozenset({OWNER})
CLIENTS: Final = frozenset({OWNER, USER})
ALL: Final = frozenset({PEER, OWNER, USER})


def _rows(roles: frozenset[str], *names: str) -> dict[str, frozenset[str]]:
    return dict.fromkeys((each for line in names for each in line.split()), roles)


#: Type of a control message to the roles that may send it. All are of the protocols between peers.
MESSAGES: Final[Mapping[str, frozenset[str]]] = _rows(
    PEERS,
    # overlay
    "Routed RouteAck JoinRequest JoinReply Leaves RowRequest RowReply Leaving Ping PingAck PingFor PingForAck",
    "Register Registered Renew RenewCopies LoadUpdate Copies CopiesStored EntriesRequested Lookup Found Pull Pulled",
    "ContentsHeld",
    # life of an application
    "Confirm Confirmed Refused End Begin Feedback TimesReported GraphAsked GrowthAsked GrowthAnswered GrowthChanged",
    "Share GraphChanged TakeOver TookOver Lost Follow Followed Rebuild Rebuilt ReadersQuestion ReadersComplete",
    "Granted HoldAnswered CopiesLag ProducersMoved ProducersFollowed SharerLed SinksReported SkippedReported",
    "Entrust Claim Claimed",
    # algorithms
    "Probe Acknowledged Release Returned Merged Dropped CandidateQuestion CandidateAnswer",
    "MigrationRequest MigrationReply MigrationEndReported MeasureHop HopMeasured Relocate NoTargetFound",
    "WeightsReported RevivalRequested PlacementRequest PlacementReply PlacementNegotiation PlacementDecision",
    "PlacementRenewal PlacementWithdrawn PlacementReport Survey Surveyed",
)

#: Operation to the roles that may request it of a peer.
OPERATIONS: Final[Mapping[str, frozenset[str]]] = {
    **_rows(ALL, "ping", "state", "content", "joined"),
    # an application: who may do so to which one, the peer decides
    **_rows(CLIENTS, "contents", "submit", "decision", "application", "applications", "wait", "halt", "move", "renew"),
    **_rows(CLIENTS, "stop", "hold", "release", "fetch", "sinks", "leads", "push", "dropped", "events", "pace", "cost"),
    **dict.fromkeys(("content sent", "await copies", "change sinks"), CLIENTS),
    **_rows(CLIENTS, "grant", "delays", "errors", "troubles", "follow", "where"),
    "newcomer": PEERS,
    # the peer itself, and what it tells of others
    **_rows(OWNERS, "credentials", "join", "leave", "area", "journal", "record", "cut", "load", "spark", "warm"),
    # a guest's new plan would have to be checked as his submissions are
    **dict.fromkeys(("tables", "replace plan", "prepared sinks"), OWNERS),
}

#: Channel to the roles that may send data on it.
CHANNELS: Final[Mapping[str, frozenset[str]]] = _rows(PEERS, "stream shared trouble newcomer")
