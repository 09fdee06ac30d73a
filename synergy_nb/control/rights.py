"""Rights: who may read and control an application, and what the owner of a peer accepts from other users.

A *user* here is the name of a guest, as his certificate states it (:mod:`.identity`). The owners of a cluster may do
everything; for them, and where nobody is identified, as in simulations, a user is the empty text.
"""

from __future__ import annotations

import math
from typing import Final

import msgspec

from synergy_nb.control.ledger import Ledger
from synergy_nb.plan.terms.units import counted

__all__ = ["CONTROL", "GUESTS", "OWNED", "READ", "RIGHTS", "Acceptance", "Admission", "Rights"]

READ: Final = "read"  # its state, its events and its results
CONTROL: Final = (
    "control"  # beside that, to stop and to pause it, to move its components, and to change its paces and costs
)
RIGHTS: Final = (READ, CONTROL)


class Rights(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Who may do what with an application."""

    owner: str = ""  # user who has submitted it
    shared: dict[str, str] = {}  # other user to what the owner has granted, see `RIGHTS`
    changes: int = 0  # times that the owner has granted or withdrawn: of two, the later ones count

    def allow(self, user: str, right: str) -> bool:
        """Whether a user has a right.

        >>> rights = Rights("ann").granted("bob", "read")
        >>> rights.allow("ann", "control"), rights.allow("bob", "read"), rights.allow("bob", "control")
        (True, True, False)
        >>> Rights().allow("bob", "read"), Rights("bob").allow("", "control")
        (False, True)
        """
        return user in ("", self.owner) or self.shared.get(user) in (right, CONTROL)

    def granted(self, user: str, right: str | None) -> Rights:
        """The rights after the owner has granted a right to a user, or, with None, has withdrawn what was granted."""
        others = {name: each for name, each in self.shared.items() if name != user}
        return Rights(self.owner, others if right is None else {**others, user: right}, self.changes + 1)

    def passed_to(self, user: str) -> Rights:
        """The rights to what a user submits in its place: all others keep theirs, its owner as one who may control it.

        >>> passed = Rights("ann", {"bob": "read", "eve": "control"}).passed_to("eve")
        >>> passed.owner, passed.shared
        ('eve', {'bob': 'read', 'ann': 'control'})
        """
        others = {**self.shared, self.owner: CONTROL}
        return Rights(user, {name: right for name, right in others.items() if name not in ("", user)})


OWNED: Final = Rights()  # rights to what an owner of the cluster has submitted, or somebody who is not identified


class Acceptance(msgspec.Struct, frozen=True, kw_only=True):
    """What a peer accepts from guests: users who are not owners of its cluster.

    Parameters
    ----------
    users
        Names of the guests whose plans it accepts; None: all guests of its cluster.
    cores
        Share of its cores that all components of one guest may have together, from 0 to 1.
    memory
        Share of the memory of its operators that all components of one guest may use together, from 0 to 1.
    applications
        Number of running applications that one guest may have submitted at this peer.
    functions
        Functions of guests whose code it takes and executes: names, or references as plans state them, which name one
        version; None: all. By default it takes none; guests may use those that the peer has from its owner.
    folders
        Folders from which plans of guests may read files; by default none.
    hosts
        Hosts to which sources in plans of guests may connect, by the names in the plans; by default none.

    Raises
    ------
    ValueError
        If a number is out of its range.

    Examples
    --------
    Plans of ``ann`` only, on half of the cores, which read files of one folder:

    >>> from synergy_nb import Acceptance
    >>> accepted = Acceptance(users=("ann",), cores=0.5, folders=("/srv/traces",))
    >>> accepted.refusal("bob")
    'this peer accepts no plans of bob; expected one of the users whom its owner has named'
    >>> accepted.refusal("ann")
    ''
    """

    users: tuple[str, ...] | None = None
    cores: float = 0.5
    memory: float = 0.5
    applications: int = 4
    functions: tuple[str, ...] | None = ()
    folders: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for field, share in {"cores": self.cores, "memory": self.memory}.items():
            if not isinstance(share, int | float) or not 0.0 <= share <= 1.0:
                raise ValueError(f"{field}: {share!r}; expected a share of the peer's {field}, from 0 to 1")
        if not isinstance(self.applications, int) or self.applications < 0:
            raise ValueError(f"applications: {self.applications!r}; expected a number of at least 0")
        stated = {"users": self.users, "functions": self.functions, "folders": self.folders, "hosts": self.hosts}
        for field, value in stated.items():
            if value is None and field in ("users", "functions"):
                continue
            if not isinstance(value, tuple) or not all(isinstance(each, str) for each in value):
                raise ValueError(f"{field}: {value!r}; expected a tuple of texts, such as ('ann',)")

    def refusal(self, user: str) -> str:
        """Return why a plan of a user is not accepted; empty if it is."""
        if self.users is None or user in self.users:
            return ""
        return f"this peer accepts no plans of {user}; expected one of the users whom its owner has named"

    def too_many(self, user: str, applications: int) -> str:
        """Return why a user who has some applications at this peer may submit no other one; empty if he may."""
        if applications < self.applications:
            return ""
        have, most = counted(applications, "application"), self.applications
        return f"user {user!r} has {have} at this peer; expected at most {most}: stop one, or ask the peer's owner"


GUESTS: Final = Acceptance()  # what a peer accepts unless its owner says otherwise


class Admission:
    """Decides in which plans of guests a peer takes part, and on how many of its cores, in how much of its memory."""

    def __init__(self, ledger: Ledger, accepts: Acceptance = GUESTS, memory: float = math.inf) -> None:
        self._ledger = ledger
        self.accepts = accepts
        self.quota = accepts.memory * memory if memory < math.inf else math.inf  # bytes of each guest

    def refusal(self, request: str, user: str) -> str:
        """Return why this peer takes no part in a request of a user; if it does, count the request on that user."""
        if not user:
            return ""
        refusal = self.accepts.refusal(user)
        if not refusal:
            self._ledger.count_on(request, user, self.accepts.cores * self._ledger.machine, self.quota)
        return refusal
