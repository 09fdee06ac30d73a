"""What a cut of the link between two peers does with what is sent over it."""

from __future__ import annotations

import enum
from typing import Final

__all__ = ["CUTS", "Cut"]


class Cut(enum.StrEnum):
    """What a cut does with what is sent over a link.

    A process that ends and a firewall that rejects *reset* connections. A network that is down for a while *delays*:
    TCP sends again what was not acknowledged, until the other end has it. A network that *loses* has no TCP below it,
    or one that gave up without a word.
    """

    RESET = "reset"  #: The link breaks, and both ends know; what is queued is lost, and the link cannot be opened.
    DELAY = "delay"  #: Nobody knows; what is sent waits, and arrives in its order when the link is mended.
    LOSE = "lose"  #: Nobody knows; what is sent is lost.


CUTS: Final = tuple(each.value for each in Cut)
