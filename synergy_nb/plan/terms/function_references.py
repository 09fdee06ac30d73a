"""References: the texts by which plans name functions of one's own.

``name@digest`` is a function that travels from a notebook to the peers: its name, and the hash of its content, so two
notebooks may have two versions of one name. ``package.module:function`` is one that is installed at the peers.
"""

from __future__ import annotations

import re
from typing import Final

from synergy_nb.plan.terms.units import WrongValue

__all__ = ["DIGEST_DIGITS", "is_installed", "name_of", "parse_reference"]

DIGEST_DIGITS: Final = 32  # hexadecimal digits of a digest in a reference
_SHIPPED: Final = re.compile(rf"[^\W\d]\w*@[0-9a-f]{{{DIGEST_DIGITS}}}")
_INSTALLED: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")


def is_installed(reference: str) -> bool:
    """Whether a reference names a function that is installed at the peers.

    >>> is_installed("fares.models:predicted"), is_installed("predicted@0123456789abcdef0123456789abcdef")
    (True, False)
    """
    return ":" in reference


def name_of(reference: str) -> str:
    """Name of the function itself.

    >>> name_of("fares.models:predicted"), name_of("predicted@0123456789abcdef0123456789abcdef")
    ('predicted', 'predicted')
    """
    return reference.rpartition(":")[2].partition("@")[0]


def parse_reference(value: object) -> str:
    """Parse the reference of a function.

    Raises ``WrongValue`` if it is none.
    """
    if isinstance(value, str) and (_SHIPPED.fullmatch(value) or _INSTALLED.fullmatch(value)):
        return value
    expected = "a function that @function, @aggregate, @keyed or @reader has declared, or 'package.module:name' of one"
    raise WrongValue(value if isinstance(value, str) else getattr(value, "__name__", value), expected)
